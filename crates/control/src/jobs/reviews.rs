//! Waiting jobs that are to be looked at again because of something that happened to others.
//!
//! What happens to one job may concern any number of others, and the end of one may end the
//! next. So nobody is looked at while something else is under way: those concerned are put
//! into a line, and the line is worked off at the end of the turn, so much in one turn as takes
//! no longer than others can wait. What is left then is gone on with when the turn's batch is
//! durable. How long a chain of jobs is, is thereby nothing that a stack or a turn has to hold.
//! After a restart all waiting jobs are looked at again, so the line is kept nowhere.

pub(crate) mod procedures;

use crate::jobs::dependencies::Waiter;
use cosy_model::{JobId, JobSpec, ReservationId, Uid};
use std::collections::{BTreeSet, VecDeque};

/// Work of one turn, in looks at a job or at one of its dependencies.
const STEPS: usize = 2000;
/// The end of a job is as much work as so many looks.
pub(crate) const STEPS_OF_END: usize = 4;
/// Tasks of an array that become queued at once; further ones are put into the line.
pub(crate) const REFILL: usize = 100;

/// Of many jobs so many are looked at at once; the others are put into the line.
pub(crate) const AT_ONCE: usize = 500;

/// As how many jobs one counts that is looked at: each of its dependencies is looked up.
pub(crate) const fn weight(spec: &JobSpec) -> usize {
    1 + spec.dependencies.len() / 4
}

/// Who is to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Again {
    /// One job, whatever it waits for.
    Job(JobId),
    /// The jobs of a submission that ask for the same.
    Jobs(Waiter),
    /// The same, also when they all have to wait for the same: they may not have had to.
    Changed(Waiter),
    /// Tasks of that array that wait for others of it to end.
    Throttled(JobId),
    /// The jobs of a submission that ask for the same, from that place on, whatever they wait
    /// for: of a new one nobody has looked at them yet.
    Rest(Waiter, usize),
    /// All that are to run in a reservation, but for those up to these.
    Within(ReservationId, Option<Waiter>),
}

/// Jobs that are to be looked at again, the first one first.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    line: VecDeque<Again>,
    /// What is in the line, so that nobody is in it twice.
    known: BTreeSet<Again>,
    /// The submission under way, and the place of its next task.
    under_way: Option<(Waiter, usize)>,
    /// Users of whose interactive jobs one may be able to go. Never left for a later turn.
    interactive: BTreeSet<Uid>,
    /// The policy has changed: all that jobs ask for is gone through once.
    standings: Option<Standings>,
}

/// How far what jobs ask for has been compared with the policy.
#[derive(Clone, Copy, Debug, Default)]
struct Standings {
    /// The last that was looked at.
    after: Option<Waiter>,
    /// The policy has changed once more since it was begun: it is gone through again from the
    /// beginning once the end is reached. So changes that never cease keep nobody unlooked at.
    again: bool,
}

impl Reviews {
    pub fn push(&mut self, again: Again) {
        if self.known.insert(again) {
            self.line.push_back(again);
        }
    }

    /// What is gone on with next.
    pub fn push_first(&mut self, again: Again) {
        if self.known.insert(again) {
            self.line.push_front(again);
        }
    }

    pub fn push_interactive(&mut self, uid: Uid) {
        self.interactive.insert(uid);
    }

    pub fn is_empty(&self) -> bool {
        let line = self.line.is_empty() && self.under_way.is_none();
        line && self.interactive.is_empty() && self.standings.is_none()
    }

    /// Accounts or qualities of service are not what they were.
    pub fn policy_changed(&mut self) {
        match &mut self.standings {
            Some(under_way) => under_way.again = true,
            none => *none = Some(Standings::default()),
        }
    }

    /// What was looked at last, while the policy is compared with what jobs ask for.
    pub fn standings(&self) -> Option<Option<Waiter>> {
        self.standings.map(|all| all.after)
    }

    /// These were looked at; `None`: there are no more.
    pub fn standings_until(&mut self, jobs: Option<Waiter>) {
        let again = self.standings.is_some_and(|all| all.again);
        self.standings = match jobs {
            None => again.then(Standings::default),
            after => Some(Standings { after, again }),
        };
    }

    pub fn pop(&mut self) -> Option<Again> {
        let next = self.line.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }

    /// The submission under way is gone on with at that task.
    pub fn stop_at(&mut self, jobs: Waiter, task: usize) {
        self.under_way = Some((jobs, task));
    }

    /// The submission under way, and its next task.
    pub fn take_under_way(&mut self) -> Option<(Waiter, usize)> {
        self.under_way.take()
    }

    /// The same; another one is under way from now on.
    pub fn replace_under_way(&mut self, by: Option<(Waiter, usize)>) -> Option<(Waiter, usize)> {
        std::mem::replace(&mut self.under_way, by)
    }

    /// The next user of whose interactive jobs one may be able to go.
    pub fn next_user(&mut self) -> Option<Uid> {
        self.interactive.pop_first()
    }
}

/// What is left of a turn's work.
pub(crate) struct Steps(usize);

impl Steps {
    pub const fn of_turn() -> Self {
        Self(STEPS)
    }

    /// What is done at once.
    pub const fn at_once() -> Self {
        Self(AT_ONCE)
    }

    pub const fn are_over(&self) -> bool {
        self.0 == 0
    }

    pub fn take(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps);
    }
}
