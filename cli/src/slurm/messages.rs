//! Lines on standard error as Slurm's commands have them.

use crate::Context;
use cosy_slurm::submit::{Fault, Program};
use std::io::Write;

/// The name that this program was called by, as the C library's complaints have it.
pub fn called() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    called.to_string_lossy().into_owned()
}

/// A whole line on standard error, as it is.
pub fn say(line: &str) {
    // In one piece: others may write to the same place.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// `sbatch: error: TEXT` on standard error.
pub fn error(context: &Context, text: &str) {
    say(&format!("{}: error: {text}", context.program()));
}

/// Says why there will be no job; gives the exit code.
pub fn fail(program: Program, fault: &Fault) -> u8 {
    if !fault.lines.is_empty() {
        say(fault.text(program).trim_end_matches('\n'));
    }
    fault.code
}
