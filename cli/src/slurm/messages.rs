//! Lines on standard error as Slurm's commands have them.

use crate::Context;
use cosy_slurm::submit::{Fault, Program};
use std::io::Write;

/// The name that this program was called by (`argv[0]`), with which messages of `getopt` begin.
pub fn called_name() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    called.to_string_lossy().into_owned()
}

/// A whole line on standard error, as it is.
pub fn say(line: &str) {
    // In one write, so that lines of other programs on the same terminal are not mixed in.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// `sbatch: error: TEXT` on standard error.
pub fn error(context: &Context, text: &str) {
    say(&format!("{}: error: {text}", context.program()));
}

/// Prints the lines of a fault, if it has any; gives its exit code.
pub fn fail(program: Program, fault: &Fault) -> u8 {
    if !fault.lines.is_empty() {
        say(fault.text(program).trim_end_matches('\n'));
    }
    fault.code
}
