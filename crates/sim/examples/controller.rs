//! The controller's work without daemons: `cargo run --release -p cosy-sim --example controller
//! [JOBS]` puts jobs (20,000 unless told) through submission, start and end on 64 nodes of 32
//! cores, and prints how many started and a number that changes when a decision does.
//!
//! It reads no clock. What it costs is counted from outside, the same on a busy machine:
//! `valgrind --tool=callgrind --callgrind-out-file=/dev/null .../controller`.

mod common;

use common::{MACHINE, jobs};
use cosy_sched::Policy;
use cosy_sim::cosy::controller_replay;
use std::process::ExitCode;

fn main() -> ExitCode {
    let count = match std::env::args().nth(1).map(|n| n.parse()) {
        None => 20_000,
        Some(Ok(count)) => count,
        Some(Err(e)) => {
            eprintln!("the number of jobs: {e}");
            return ExitCode::FAILURE;
        }
    };
    let starts = controller_replay::starts(MACHINE, Policy::default(), &jobs(count));
    let started = starts.iter().flatten().count();
    let sum = starts
        .iter()
        .flatten()
        .fold(0u64, |sum, start| sum.wrapping_mul(31).wrapping_add(start.0.cast_unsigned()));
    println!("{started} of {count} jobs started, {sum:016x}");
    ExitCode::SUCCESS
}
