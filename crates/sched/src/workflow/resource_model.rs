//! What slots are on, once it is decided where each task runs and in which order.

use super::dag::Machines;
use super::lanes::Lanes;
use super::schedule::Slot;

/// Where tasks are, and when they could be there.
pub trait ResourceModel {
    /// What is taken while slots are given their times anew.
    type Occupancy;

    /// Before any slot has its time.
    fn open(&self) -> Self::Occupancy;

    /// The earliest start from `ready` on, not before which the tasks are over that go
    /// before on the same place, at which the place of a task is free for so long.
    fn earliest_ms(
        &self,
        occupancy: &Self::Occupancy,
        task: usize,
        slot: &Slot,
        ready_ms: i64,
        length_ms: i64,
    ) -> i64;

    /// Until when the place of a task is free behind a slot there; `None`: for good.
    fn free_until_ms(&self, occupancy: &Self::Occupancy, task: usize, slot: &Slot) -> Option<i64>;

    /// A slot has its time.
    fn take(&self, occupancy: &mut Self::Occupancy, task: usize, slot: &Slot);

    /// How long that much data takes from one machine to another.
    fn carry_ms(&self, data: i64, from: usize, to: usize) -> i64;

    /// When others need the place of a task next, from the end of its slot on.
    fn needed_ms(&self, task: usize, slot: &Slot) -> Option<i64>;
}

impl ResourceModel for Machines {
    type Occupancy = Lanes;

    fn open(&self) -> Lanes {
        Lanes::new(self)
    }

    fn earliest_ms(
        &self,
        lanes: &Lanes,
        _task: usize,
        slot: &Slot,
        ready_ms: i64,
        length_ms: i64,
    ) -> i64 {
        lanes.earliest(slot.machine, ready_ms, length_ms)
    }

    fn free_until_ms(&self, _lanes: &Lanes, task: usize, slot: &Slot) -> Option<i64> {
        self.needed_ms(task, slot)
    }

    // The order on a machine says all: nothing of it can be in the way.
    fn take(&self, _lanes: &mut Lanes, _task: usize, _slot: &Slot) {}

    fn carry_ms(&self, data: i64, from: usize, to: usize) -> i64 {
        self.transfer_ms(data, from, to)
    }

    fn needed_ms(&self, _task: usize, slot: &Slot) -> Option<i64> {
        let others = self.busy_ms(slot.machine).iter().map(|(from, _)| *from);
        others.into_iter().find(|from| *from >= slot.end_ms)
    }
}
