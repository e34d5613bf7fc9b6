//! What the daemon prints, as a command.

use std::process::{Command, Stdio};

/// Who reads the output may go away early: `cosyd --help | head -1`.
#[test]
fn a_reader_that_goes_away_is_no_fault() {
    for words in [
        &["--help"][..],
        &["--version"],
        &["--check", "--config", "../etc/cosy.toml"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let out = Command::new(env!("CARGO_BIN_EXE_cosyd"))
            .args(words)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(141), "{words:?}: {out:?}");
        assert_eq!(out.stderr, b"", "{words:?}");
    }
}
