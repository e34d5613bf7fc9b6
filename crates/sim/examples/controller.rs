//! The controller's work without daemons: `cargo run --release -p cosy-sim --example controller
//! [JOBS]` puts jobs (20,000 unless told) through submission, start and end on 64 nodes of 32
//! cores, and prints how many started and a number that changes when a decision does.
//!
//! It reads no clock. What it costs is counted from outside, the same on a busy machine:
//! `valgrind --tool=callgrind --callgrind-out-file=/dev/null .../controller`.

use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sim::cosy::controller_replay;
use cosy_sim::replay::Machine;
use cosy_sim::workload::Job;
use std::process::ExitCode;

const MACHINE: Machine = Machine {
    nodes: 64,
    cores: 32,
};
const USERS: u64 = 50;

/// A small generator of numbers (splitmix64): same seed, same numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Small and large jobs of many users, for somewhat more than the machine can do: the line
/// grows to some thousands.
fn jobs(count: u64) -> Vec<Job> {
    let mut dice = Dice(16);
    let mut submit = 0;
    let job = |id| {
        submit += dice.below(60_000) as i64;
        let limit = Span::from_secs(600 + dice.below(20_000) as i64);
        let nodes = (dice.below(4) == 0).then(|| 1 + dice.below(16) as u32);
        let processors = match nodes {
            Some(nodes) => nodes * MACHINE.cores,
            None => 1 + dice.below(64) as u32,
        };
        Job {
            qos: 0,
            id,
            line: 0,
            submit: Time(submit),
            run: Span(limit.ms() * (10 + dice.below(90) as i64) / 100),
            limit,
            processors,
            nodes,
            cancel: None,
            recorded_wait: None,
            user: dice.below(USERS) as u32,
            account: 0,
            queue: 0,
        }
    };
    (1..=count).map(job).collect()
}

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
