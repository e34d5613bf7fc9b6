//! What is asked, with what the search for the answer looks at, and the questions to the planner.

use super::candidate::Candidate;
use super::room::{Holder, Room};
use crate::scheduler::{Scheduler, WaitingJob};
use cosy_model::Time;

/// Work that one question may take: about so many looks at a node.
pub(super) const WORK: u64 = 20_000_000;
/// A look at a copy of the planner is worth so many looks at each of its nodes.
const COPY: u64 = 40;

/// A set of candidates, by their numbers in ascending order, and what it costs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Set {
    pub cost: u128,
    pub count: usize,
    pub who: Vec<usize>,
}

/// The question with everything that the search looks at.
pub(super) struct Question<'a> {
    pub planner: &'a Scheduler,
    pub now: Time,
    pub job: &'a WaitingJob,
    pub before: Vec<WaitingJob>,
    /// Those who may help; cheap and young ones first.
    pub order: Vec<&'a Candidate>,
    pub holders: Vec<Holder>,
    /// What numbers tell is true: the copy is asked at the end alone.
    pub plain: bool,
    /// Work that is left.
    pub left: u64,
}

impl Question<'_> {
    /// True when the job could start without these, which `room` is without.
    pub fn is_enough(&mut self, room: &Room<'_>, who: &[usize]) -> bool {
        self.work(1);
        room.fits() && (self.plain && !who.is_empty() || self.starts_without(who))
    }

    /// Asks a copy of the planner in which these jobs are not there.
    pub fn starts_without(&mut self, who: &[usize]) -> bool {
        self.work(COPY * self.planner.machine.len() as u64);
        if self.left == 0 {
            return false;
        }
        let Some(queue) = self.planner.queue(self.job.queue) else {
            return false;
        };
        let mut scratch = self.planner.scratch(queue.pool);
        for waiting in &self.before {
            scratch.enqueue(waiting.clone());
        }
        for one in who.iter().filter_map(|at| self.order.get(*at)) {
            scratch.makes_room(one);
        }
        scratch.try_place(self.now, self.job).is_some()
    }

    pub fn set(&self, who: Vec<usize>) -> Set {
        let cost = who.iter().filter_map(|at| self.order.get(*at));
        Set {
            cost: cost.map(|one| u128::from(one.cost)).sum(),
            count: who.len(),
            who,
        }
    }

    pub fn work(&mut self, looks: u64) {
        self.left = self.left.saturating_sub(looks);
    }
}

impl Scheduler {
    /// A running job goes, or keeps what it says.
    fn makes_room(&mut self, one: &Candidate) {
        let held = self.running.find(one.job);
        let held = held.map(|id| self.running.get(id).held.clone());
        self.end(one.job);
        if let (Some(keeps), Some(held)) = (&one.keeps, held) {
            self.runs_on_with(one.job, (keeps.clone(), held), Time::FAR);
        }
    }
}
