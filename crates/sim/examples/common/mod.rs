//! What the programs beside it share: drawn numbers, and jobs for the controller.
#![allow(dead_code)] // each program uses its part

use cosy_model::{Span, Time};
use cosy_sim::replay::Machine;
use cosy_sim::workload::Job;

pub const MACHINE: Machine = Machine {
    nodes: 64,
    cores: 32,
};
const USERS: u64 = 50;

/// A small generator of numbers (splitmix64): same seed, same numbers.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Small and large jobs of many users, for somewhat more than the machine can do: the line
/// grows to some thousands.
pub fn jobs(count: u64) -> Vec<Job> {
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
