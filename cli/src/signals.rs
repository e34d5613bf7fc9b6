//! Signals: on command lines, and to the command itself.

use cosy_model::{signal, variables};
use nix::sys::signal::{SigSet, Signal};

/// Reads `USR1`, `SIGUSR1`, `usr1`, `10`.
///
/// # Errors
/// The text is no signal; one line says what a signal is.
pub fn parse(text: &str) -> Result<i32, String> {
    signal::number(text).ok_or_else(|| {
        "no signal: use a name like TERM or USR1, or a number from 1 to 64".to_owned()
    })
}

/// A job that puts itself back into the queue is ended by that, and this command with it:
/// it still says how it went, since the job's program acts on that.
pub fn outlive_own_job() {
    let inside = ["SLURM_JOB_ID", variables::JOB_ID];
    if inside.iter().any(|name| std::env::var_os(name).is_some()) {
        let mut held = SigSet::empty();
        held.add(Signal::SIGTERM);
        // Where that cannot be done it is as it would be without.
        let _ = held.thread_block();
    }
}
