//! Commands on a terminal.

use crate::run::{TIMEOUT, finish};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

/// What a command writes to a terminal of so many columns, colours taken out, line by line.
///
/// # Panics
/// When it does not end in time, or fails.
#[track_caller]
pub fn lines_on(columns: u16, command: &mut Command) -> Vec<String> {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(Some(&size), None).expect("a terminal");
    let slave = || Stdio::from(pty.slave.try_clone().expect("its other end"));
    command.stdin(Stdio::null()).stdout(slave()).stderr(slave());
    let child = command
        .env("NO_COLOR", "1")
        .spawn()
        .expect("a command starts");
    // Only the command has it open now: its end is the end of what it writes.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    drop(pty.slave);
    let mut screen = File::from(pty.master);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // At the end Linux tells an error.
        let _ = screen.read_to_end(&mut bytes);
        bytes
    });
    let code = finish(child, &[], TIMEOUT).code;
    let text = reader.join().expect("a reader ends");
    let text = String::from_utf8(text).expect("readable text");
    assert_eq!(code, 0, "{text}");
    text.split_terminator("\r\n").map(str::to_owned).collect()
}
