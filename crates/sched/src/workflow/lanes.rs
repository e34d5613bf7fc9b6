//! When machines are free while a schedule is made: what was taken before, and the slots
//! given so far.

use super::dag::Machines;

/// The taken intervals of all machines.
#[derive(Clone, Debug)]
pub struct Lanes {
    occupancy: Vec<Vec<(i64, i64)>>,
}

impl Lanes {
    /// Before any slot is given.
    pub fn new(machines: &Machines) -> Self {
        let occupancy = (0..machines.count()).map(|m| machines.busy_ms(m).to_vec());
        Self {
            occupancy: occupancy.collect(),
        }
    }

    /// The earliest start from `ready` on at which a machine is free for so long.
    pub fn earliest(&self, machine: usize, ready: i64, length: i64) -> i64 {
        let occupancy = &self.occupancy[machine];
        let mut start = ready;
        let from = occupancy.partition_point(|(_, to)| *to <= ready);
        for (begin, end) in &occupancy[from..] {
            if start.saturating_add(length) <= *begin {
                break;
            }
            start = start.max(*end);
        }
        start
    }

    /// The earliest start behind everything that was given on the machine.
    pub fn behind(&self, machine: usize, last: i64, ready: i64, length: i64) -> i64 {
        self.earliest(machine, ready.max(last), length)
    }

    /// Takes an interval that is free.
    pub fn take(&mut self, machine: usize, start: i64, end: i64) {
        if start < end {
            let occupancy = &mut self.occupancy[machine];
            let at = occupancy.partition_point(|interval| *interval < (start, end));
            occupancy.insert(at, (start, end));
        }
    }
}
