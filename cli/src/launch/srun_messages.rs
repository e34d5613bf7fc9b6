//! Messages of `srun` where `cosy run` has another sentence, or none. Sentences only.
//!
//! Source: captures srun-rc*, srun-signal-*, srun-sig*, srun-K*, srun-scancel, srun-queued.

use super::tty::{self, say};
use cosy_model::node::KillOrder;
use cosy_model::{StepKey, Time};
use cosy_slurm::end_messages::{self, EndReason};
use std::io::Write;

/// Seconds for which `srun` says that it waits for a step that is being ended.
pub const LAST_WAIT: u32 = 5;

/// How a task ended: `Exited with exit code 2`, `Killed`, `Segmentation fault`.
pub fn end_text(code: i32, signal: i32) -> String {
    match signal {
        0 => format!("Exited with exit code {code}"),
        signal => signal_words(signal),
    }
}

/// The C library's words for a signal.
fn signal_words(signal: i32) -> String {
    use signal_hook::consts::{
        SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGPIPE, SIGQUIT,
        SIGSEGV, SIGSYS, SIGTERM, SIGTRAP, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ,
    };
    let words = match signal {
        SIGHUP => "Hangup",
        SIGINT => "Interrupt",
        SIGQUIT => "Quit",
        SIGILL => "Illegal instruction",
        SIGTRAP => "Trace/breakpoint trap",
        SIGABRT => "Aborted",
        SIGBUS => "Bus error",
        SIGFPE => "Floating point exception",
        SIGKILL => "Killed",
        SIGUSR1 => "User defined signal 1",
        SIGSEGV => "Segmentation fault",
        SIGUSR2 => "User defined signal 2",
        SIGPIPE => "Broken pipe",
        SIGALRM => "Alarm clock",
        SIGTERM => "Terminated",
        SIGXCPU => "CPU time limit exceeded",
        SIGXFSZ => "File size limit exceeded",
        SIGSYS => "Bad system call",
        other => return format!("Unknown signal {other}"),
    };
    words.to_owned()
}

/// Nodes of the step were lost.
pub fn nodes_lost(program: &str, nodes: &[String]) {
    for node in nodes {
        say(program, &format!("error: Node failure on {node}"));
    }
    say(program, "Job step aborted");
}

/// The step is being ended: what the command says, and what the supervisor of its first
/// node says with it.
pub fn ending(program: &str, key: StepKey, node: &str, kill: KillOrder) {
    let text =
        format!("Job step aborted: Waiting up to {LAST_WAIT} seconds for job step to finish.");
    say(program, &text);
    cancelled(key, node, kill);
}

/// The sentence of the supervisor of the step's first node that the step is cancelled.
pub fn cancelled(key: StepKey, node: &str, kill: KillOrder) {
    let why = EndReason::of(kill);
    let text = end_messages::step_cancelled(&key.to_string(), node, &now(), why);
    pass_on(&text);
}

/// A supervisor's own line, as it is.
pub fn pass_on(line: &str) {
    let turn = if tty::is_raw() { "\r" } else { "" };
    let _ = std::io::stderr().write_all(format!("{turn}{line}{turn}").as_bytes());
}

/// The present as Slurm prints times.
pub fn now() -> String {
    let zone = crate::zone::local();
    let now = jiff::Timestamp::now();
    cosy_slurm::times::timestamp(Time(now.as_millisecond()), &zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |code, signal, want: &str| assert_eq!(end_text(code, signal), want);
        check(2, 0, "Exited with exit code 2");
        check(0, 9, "Killed");
        check(0, 15, "Terminated");
        check(0, 11, "Segmentation fault");
        check(0, 60, "Unknown signal 60");
    }
}
