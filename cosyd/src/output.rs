//! What goes to standard output.

use std::io::{self, Write};

/// Exit code when nobody reads the output: that of a program that SIGPIPE ended.
const NOBODY_READS: i32 = 141;

/// Writes text to standard output. Whoever reads it may go away early: then the program ends
/// quietly, as others do.
///
/// # Errors
/// The text cannot be written for another reason.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match done {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(NOBODY_READS),
        done => done,
    }
}
