//! Which running jobs would have to make room for a waiting one to start now: the set with the
//! least cost, and never a job more than that needs.
//!
//! A set is enough when the job could start beside the guaranteed places of those who stand
//! before it, were the jobs of the set not there. That is the question of [`crate::question`],
//! asked of a copy, and it has the last word. What can be told by numbers is told by [`room`]
//! first: how many tasks each node has room for. The search ([`search`]) is exact while its work
//! allows and there are few who could help; else, and before, a set is put together greedily
//! ([`greedy`]) and everybody is left out of it again who can be.
//!
//! What always holds: nothing that is reserved is taken; no job is in the answer without whom the
//! rest would be enough; nobody is in it whose nodes do not help; the work is bounded; the answer
//! depends on nothing but what was asked.

mod candidate;
mod greedy;
mod question;
mod room;
mod search;
mod slot;

use crate::scheduler::{Scheduler, WaitingJob};
use cosy_model::{JobId, Time};
use question::{Question, Set, WORK};
use room::{Holder, Room};
use std::cmp::Reverse;

pub use candidate::Candidate;
pub use slot::{Leaver, Vacated};

impl Scheduler {
    /// The running jobs without which `job` could start now, the cheapest set of `candidates`:
    /// of equal cost the smallest, then the youngest. Empty when it needs nobody to go; `None` when it
    /// could not start even without all of them, or when the search for a set without anybody
    /// superfluous takes too much work. `before`: waiting jobs that it must not push back; whoever
    /// else waits does not count. Jobs with nodes outside the queues that share nodes with the job's
    /// are not considered.
    pub fn victims(
        &self,
        now: Time,
        job: &WaitingJob,
        before: &[JobId],
        candidates: &[Candidate],
    ) -> Option<Vec<JobId>> {
        self.cheapest(now, job, before, candidates, WORK)
    }

    /// The same with that much work at most.
    fn cheapest(
        &self,
        now: Time,
        job: &WaitingJob,
        before: &[JobId],
        candidates: &[Candidate],
        work: u64,
    ) -> Option<Vec<JobId>> {
        let queue = self.queue(job.queue).filter(|queue| queue.starts)?;
        let open = queue.nodes.and(&self.machine.open);
        let pool = queue.pool;
        let mut order: Vec<&Candidate> = candidates.iter().collect();
        order.retain(|one| one.job != job.key.job && self.runs_within(pool, one.job));
        order.sort_by_key(|one| (one.cost, Reverse(one.since), Reverse(one.job)));
        order.dedup_by_key(|one| one.job);
        let before = before.iter().filter(|id| **id != job.key.job);
        let before = before.filter_map(|id| self.waiting_job(*id));
        let before: Vec<WaitingJob> = before.map(|waiting| waiting.job.clone()).collect();
        let one = job.demand.only();
        let plain = before.is_empty() && one.is_some_and(|one| !one.tells_apart());
        let mut question = Question {
            planner: self,
            now,
            job,
            before,
            holders: order.iter().map(|one| Holder::of(self, one)).collect(),
            order,
            plain,
            left: work,
        };
        let found = question.answer(Room::new(self, now, job, &open))?;
        let who = found.who.iter().filter_map(|at| question.order.get(*at));
        Some(who.map(|one| one.job).collect())
    }

    /// True when the job runs on nodes of that pool alone.
    fn runs_within(&self, pool: usize, job: JobId) -> bool {
        let Some(id) = self.running.find(job) else {
            return false;
        };
        let mut nodes = self.running.get(id).nodes.iter();
        nodes.all(|node| self.machine.region(node) == Some(pool))
    }
}

impl Question<'_> {
    fn answer(&mut self, room: Room<'_>) -> Option<Set> {
        if self.is_enough(&room, &[]) {
            return Some(self.set(Vec::new()));
        }
        let all = self.keep_useful(&room)?;
        let mut room = room;
        room.number_anew(self.holders.len());
        if self.plain {
            let known = self.good_set(&room, &all);
            let best = search::best(self, room.clone(), all.clone(), known)?;
            if self.starts_without(&best.who) {
                return Some(best);
            }
            // Numbers do not tell all: what of pools is kept for others.
            self.plain = false;
        }
        let who: Vec<usize> = (0..self.order.len()).collect();
        let known = self.smallest_prefixes(&who)?;
        search::best(self, room, all, Some(known))
    }

    /// Leaves those who help: on a node that has room for more tasks without them, or because they
    /// hold a pool that the job wants. `None` when the job could not start without all of them. The
    /// room without all of those.
    fn keep_useful<'a>(&mut self, room: &Room<'a>) -> Option<Room<'a>> {
        let mut all = room.clone();
        for (at, holder) in self.holders.iter().enumerate() {
            all.free(at, holder);
        }
        if !all.fits() {
            return None;
        }
        let helps = |holder: &Holder| {
            let mut nodes = holder.nodes();
            nodes.any(|node| all.has_more_than(room, node)) || all.wants_of(holder)
        };
        let useful: Vec<bool> = self.holders.iter().map(helps).collect();
        let mut next = useful.iter();
        self.order.retain(|_| next.next().copied().unwrap_or(false));
        let mut next = useful.iter();
        self.holders
            .retain(|_| next.next().copied().unwrap_or(false));
        let mut all = room.clone();
        all.number_anew(self.holders.len());
        for (at, holder) in self.holders.iter().enumerate() {
            all.free(at, holder);
        }
        Some(all)
    }

    /// A set that is enough and has nobody superfluous, found without much work.
    fn good_set(&mut self, room: &Room<'_>, all: &Room<'_>) -> Option<Set> {
        let by_node = greedy::by_node(self, room.clone(), all);
        let by_job = greedy::by_job(self, room.clone(), all);
        by_node.into_iter().chain(by_job).min()
    }

    /// A set out of `who` that is enough and has nobody superfluous: the shortest beginning of
    /// the list that is enough, whose last one is needed then; and again with that one in any
    /// case. Source: Junker, "QuickXplain" (2004), in its simplest form.
    fn smallest_prefixes(&mut self, who: &[usize]) -> Option<Set> {
        let mut kept: Vec<usize> = Vec::new();
        let mut rest = who.to_vec();
        if !self.starts_without(&sorted(&kept, &rest)) {
            return None;
        }
        loop {
            let (mut low, mut high) = (0, rest.len()); // `high` is enough
            while low < high {
                let middle = low.midpoint(high);
                let beginning = rest.get(..middle).unwrap_or_default();
                match self.starts_without(&sorted(&kept, beginning)) {
                    true => high = middle,
                    false => low = middle + 1,
                }
                if self.left == 0 {
                    return None;
                }
            }
            let Some(last) = high.checked_sub(1) else {
                break;
            };
            kept.extend(rest.get(last));
            rest.truncate(last);
        }
        Some(self.set(sorted(&kept, &[])))
    }
}

fn sorted(a: &[usize], b: &[usize]) -> Vec<usize> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all
}
