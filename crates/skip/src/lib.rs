//! Tests that show nothing on this machine say so.
//!
//! A test that returns early looks like one that has passed, and what it prints is not shown.
//! So its reason goes into the file that `COSY_SKIPPED` names, one line a test, which
//! `make test` prints when all is over. What `make test` itself installs may not be absent
//! where `CI` is set.

use std::fs::OpenOptions;
use std::io::Write;

/// Says why this test, or a part of it, shows nothing on this machine.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(path) = std::env::var_os("COSY_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        // One write: tests of other processes write there too.
        let _ = file.and_then(|mut file| file.write_all(line(why).as_bytes()));
    }
}

/// The same, because of a program or library that `make test` installs.
///
/// # Panics
/// Where `CI` is set.
pub fn not_installed(why: &str) {
    skip(why);
    assert!(std::env::var_os("CI").is_none(), "{why}: 'make test' should have installed it");
}

/// `BINARY TEST: WHY`. The thread of a test has its name.
fn line(why: &str) -> String {
    let binary = std::env::current_exe().ok();
    let binary = binary.as_ref().and_then(|path| path.file_stem()?.to_str());
    // Without the number that the compiler gives it.
    let binary = binary.map_or("?", |name| name.rsplit_once('-').map_or(name, |(n, _)| n));
    let thread = std::thread::current();
    let why = why.replace(char::is_control, " ");
    format!("{binary} {}: {why}\n", thread.name().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_tells_which_test() {
        let line = super::line("no\nroot");
        assert_eq!(line, "cosy_skip tests::a_line_tells_which_test: no root\n");
    }
}
