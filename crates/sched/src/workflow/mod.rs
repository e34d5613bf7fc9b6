//! Plans for workflows: a slot on a machine for every task of a directed acyclic graph, so
//! that the whole ends by a deadline.
//!
//! Two phases (Zhao and Sakellariou, *Advance Reservation Policies for Workflows*, 2006,
//! Fig. 2): a list scheduler makes a schedule out of estimates ([`Scheduler`]), then the
//! time between its end and the deadline is shared out among the tasks ([`SlackPolicy`]),
//! so that each may take longer than estimated.
//!
//! Knows tasks and machines by number, and times as milliseconds from the earliest start;
//! nothing of users, nodes, queues or jobs. All arithmetic is in integers.

mod critical;
mod dag;
mod dls;
mod fcp;
mod hbmct;
mod heft;
mod lanes;
mod rank;
mod recursive;
mod schedule;

pub use critical::critical_path;
pub use dag::{Dag, DagError, Edge, Machines, Task};
pub use schedule::{Schedule, Slot};

/// How the first schedule is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduler {
    /// Heterogeneous earliest finish time (Topcuoglu, Hariri and Wu, 2002).
    Heft,
    /// Hybrid heuristic with balanced minimum completion time (Sakellariou and Zhao, 2004).
    #[default]
    Hbmct,
    /// Fast critical path (Radulescu and van Gemund, 2002).
    Fcp,
    /// Dynamic level scheduling (Sih and Lee, 1993).
    Dls,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Heft, Self::Hbmct, Self::Fcp, Self::Dls];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Heft => "heft",
            Self::Hbmct => "hbmct",
            Self::Fcp => "fcp",
            Self::Dls => "dls",
        }
    }

    /// A schedule out of estimates.
    pub fn schedule(self, dag: &Dag, machines: &Machines) -> Schedule {
        match self {
            Self::Heft => heft::schedule(dag, machines),
            Self::Hbmct => hbmct::schedule(dag, machines),
            Self::Fcp => fcp::schedule(dag, machines),
            Self::Dls => dls::schedule(dag, machines),
        }
    }
}

/// How the time until the deadline is shared out (the paper, 3.3, 3.4 and 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlackPolicy {
    /// Again and again, the same time for each task.
    EvenTime,
    /// Again and again, the same share of its estimate for each task.
    EvenPercent1,
    /// As [`SlackPolicy::EvenPercent1`], the first time only for the critical path.
    CpFirst,
    /// As [`SlackPolicy::EvenPercent1`], less what a task has anyway.
    EvenPercent2,
    /// The critical path first, the same time for each of its tasks; what other paths have
    /// left for the others.
    CriticalTime,
    /// The critical path first, the same share of its estimate for each of its tasks.
    #[default]
    CriticalPercent,
}

impl SlackPolicy {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::EvenTime,
        Self::EvenPercent1,
        Self::CpFirst,
        Self::EvenPercent2,
        Self::CriticalTime,
        Self::CriticalPercent,
    ];

    /// Its name in the paper.
    pub const fn word(self) -> &'static str {
        match self {
            Self::EvenTime => "r_even_time",
            Self::EvenPercent1 => "r_even_percent1",
            Self::CpFirst => "r_cp_first",
            Self::EvenPercent2 => "r_even_percent2",
            Self::CriticalTime => "cp_even_time",
            Self::CriticalPercent => "cp_even_percent",
        }
    }

    /// Shares out the time between the end of `schedule` and the deadline; the recursive
    /// policies until less than `threshold_ms` of it is left. A schedule that ends later
    /// than the deadline stays as it is.
    pub fn share_out(
        self,
        dag: &Dag,
        machines: &Machines,
        schedule: &Schedule,
        deadline_ms: i64,
        threshold_ms: i64,
    ) -> Schedule {
        let rounds = recursive::Rounds {
            deadline_ms,
            threshold_ms,
            most: recursive::ROUNDS,
        };
        match self {
            Self::EvenTime | Self::EvenPercent1 | Self::CpFirst | Self::EvenPercent2 => {
                recursive::share_out(self, dag, machines, schedule, rounds)
            }
            Self::CriticalTime | Self::CriticalPercent => {
                critical::share_out(self, dag, machines, schedule, deadline_ms)
            }
        }
    }
}

#[cfg(test)]
mod example;
#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
