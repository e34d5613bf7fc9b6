//! How tasks ended, summed up: over one node, and on the head over the whole step.
//!
//! Pure. The worst task is one that a signal ended, else the one with the highest exit
//! code. What ends after the step was told to end (because one task failed, say) is only
//! its consequence: it does not count where something had failed before.

use cosy_model::step::{NodeEnd, TaskEnd};
use cosy_model::{DeviceUse, End, EndCause, Time};
use std::collections::BTreeSet;

/// Exit code of a task that never ran.
pub const NEVER_RAN: i32 = 127;

#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    exit_code: i32,
    signal: i32,
}

impl Worst {
    fn add(&mut self, end: &TaskEnd) {
        if self.signal == 0 {
            self.signal = end.signal;
        }
        self.exit_code = self.exit_code.max(end.exit_code);
    }

    fn is_bad(self) -> bool {
        self.signal != 0 || self.exit_code != 0
    }
}

/// The sum so far.
#[derive(Debug, Default)]
pub struct Tally {
    tasks: u32,
    never_ran: u32,
    failure: Option<String>,
    worst: Worst,
    /// The worst before the step was told to end.
    before: Worst,
    told_to_end: bool,
    /// Nodes of which nothing is left or known.
    over: BTreeSet<u32>,
    lost: bool,
    causes: Vec<EndCause>,
    user_us: u64,
    system_us: u64,
    peak_bytes: u64,
}

impl Tally {
    /// A task ended.
    pub fn task(&mut self, end: &TaskEnd) {
        self.tasks += 1;
        self.worst.add(end);
        if !self.told_to_end {
            self.before.add(end);
        }
        if let Some(failure) = &end.failure {
            self.never_ran += 1;
            self.failure.get_or_insert_with(|| failure.clone());
        }
    }

    /// The step is told to end.
    pub fn told_to_end(&mut self) {
        self.told_to_end = true;
    }

    /// Nothing is left on a node.
    pub fn node(&mut self, node: u32, end: &NodeEnd) {
        if !self.over.insert(node) {
            return;
        }
        let end = &end.end;
        if !self.causes.contains(&end.cause) && self.causes.len() < 16 {
            self.causes.push(end.cause.clone());
        }
        self.user_us = self.user_us.saturating_add(end.user_cpu_us);
        self.system_us = self.system_us.saturating_add(end.system_cpu_us);
        self.peak_bytes = self.peak_bytes.max(end.peak_memory_bytes);
    }

    /// Nothing more will be heard from these nodes.
    pub fn lost(&mut self, nodes: &[u32]) {
        for node in nodes {
            self.lost |= self.over.insert(*node);
        }
    }

    /// All of these nodes are over.
    pub fn are_over(&self, nodes: &[u32]) -> bool {
        nodes.iter().all(|node| self.over.contains(node))
    }

    /// This node is over.
    pub fn is_over(&self, node: u32) -> bool {
        self.over.contains(&node)
    }

    /// The sum, from `start` to `at`.
    pub fn end(&self, start: Time, at: Time) -> End {
        let bad_before = self.told_to_end && self.before.is_bad();
        let worst = if bad_before { self.before } else { self.worst };
        End {
            cause: self.cause(bad_before),
            exit_code: worst.exit_code,
            signal: worst.signal,
            start: Some(start),
            end: at,
            user_cpu_us: self.user_us,
            system_cpu_us: self.system_us,
            peak_memory_bytes: self.peak_bytes,
            devices: DeviceUse::default(),
        }
    }

    fn cause(&self, bad_before: bool) -> EndCause {
        let has = |cause: &EndCause| self.causes.contains(cause);
        for cause in [
            EndCause::OutOfMemory,
            EndCause::TimeLimit,
            EndCause::SupervisorLost,
        ] {
            if has(&cause) {
                return cause;
            }
        }
        if self.lost || has(&EndCause::NodeLost) {
            return EndCause::NodeLost;
        }
        match &self.failure {
            Some(failure) if self.never_ran == self.tasks => {
                EndCause::LaunchFailed(failure.clone())
            }
            _ if has(&EndCause::Cancelled) && !bad_before => EndCause::Cancelled,
            _ => EndCause::Exited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(exit_code: i32) -> TaskEnd {
        TaskEnd {
            exit_code,
            signal: 0,
            failure: None,
        }
    }

    fn node(cause: EndCause) -> NodeEnd {
        NodeEnd {
            end: End {
                user_cpu_us: 5,
                system_cpu_us: 1,
                peak_memory_bytes: 7,
                ..End::never_ran(cause, Time(0))
            },
            drain: None,
            starved: 0,
        }
    }

    enum What {
        Task(TaskEnd),
        Kill,
        Node(EndCause),
        Lost,
    }

    fn check(all: &[What], cause: EndCause, exit_code: i32, signal: i32) {
        let mut tally = Tally::default();
        for (number, what) in all.iter().enumerate() {
            match what {
                What::Task(end) => tally.task(end),
                What::Kill => tally.told_to_end(),
                What::Node(cause) => tally.node(number as u32, &node(cause.clone())),
                What::Lost => tally.lost(&[number as u32]),
            }
        }
        let end = tally.end(Time(0), Time(1));
        assert_eq!((end.cause, end.exit_code, end.signal), (cause, exit_code, signal));
    }

    #[test]
    fn worst_tasks() {
        use What::*;
        let killed = || TaskEnd {
            exit_code: 0,
            signal: 15,
            failure: None,
        };
        let failed = || TaskEnd {
            exit_code: NEVER_RAN,
            signal: 0,
            failure: Some("no such file".into()),
        };
        let launch_failed = || EndCause::LaunchFailed("no such file".into());
        let over = || Node(EndCause::Exited);
        check(&[Task(exited(0)), over()], EndCause::Exited, 0, 0);
        check(&[Task(exited(3)), Task(exited(2)), over()], EndCause::Exited, 3, 0);
        check(&[Task(exited(3)), Task(killed()), over()], EndCause::Exited, 3, 15);
        check(
            &[
                Task(exited(3)),
                Kill,
                Task(killed()),
                Node(EndCause::Cancelled),
            ],
            EndCause::Exited,
            3,
            0,
        );
        check(
            &[
                Task(exited(0)),
                Kill,
                Task(killed()),
                Node(EndCause::Cancelled),
            ],
            EndCause::Cancelled,
            0,
            15,
        );
        check(&[Task(killed()), over(), Node(EndCause::OutOfMemory)], EndCause::OutOfMemory, 0, 15);
        check(&[Task(failed()), Task(failed()), over()], launch_failed(), 127, 0);
        check(&[Task(failed()), Task(exited(0)), over()], EndCause::Exited, 127, 0);
        check(&[Task(exited(0)), over(), Lost], EndCause::NodeLost, 0, 0);
    }

    #[test]
    fn nodes_count_once() {
        let mut tally = Tally::default();
        tally.node(3, &node(EndCause::Exited));
        tally.node(3, &node(EndCause::Exited));
        tally.lost(&[3]);
        let end = tally.end(Time(0), Time(1));
        assert_eq!((end.user_cpu_us, end.system_cpu_us), (5, 1));
        assert_eq!(end.cause, EndCause::Exited);
        assert!(tally.are_over(&[3]) && !tally.are_over(&[3, 4]));
    }
}
