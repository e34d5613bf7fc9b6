//! Tasks as jobs of the queue that wait for each other, without any reservation.
//!
//! All are submitted when the workflow arrives, which counts in the order of service, and
//! stand in the queue from the moment in which their parents are done. Their limits are the
//! estimates and the slack.

use super::simulation::{Event, Run};
use super::state::{TaskRef, TaskSlot, TaskState};
use cosy_model::{QueueId, Span, Time};
use cosy_sched::{OrderKey, WaitingJob};
use std::sync::Arc;

impl Run<'_> {
    /// Submits the tasks of `flow` whose parents are done.
    pub fn release_jobs(&mut self, flow: usize) {
        for task in 0..self.states[flow].tasks.len() {
            let of = TaskRef { flow, task };
            let state = &self.states[flow];
            let open = state.tasks[task] == TaskState::Open && !self.scheduler.is_waiting(of.job());
            let ready = || self.simulation.flows[flow].is_ready(task, |other| state.is_done(other));
            if open && ready() {
                let job = self.job(of);
                self.scheduler.enqueue(job);
            }
        }
    }

    fn limit(&self, of: TaskRef) -> Span {
        let estimate = self.simulation.flows[of.flow].estimates[of.task];
        let slack = f64::from(self.setting.slack_percent);
        Span(super::super::longer_ms(estimate.0, slack))
    }

    fn job(&self, of: TaskRef) -> WaitingJob {
        WaitingJob {
            holds: cosy_sched::Holds::NONE,
            key: OrderKey::first_come(of.job(), self.simulation.flows[of.flow].at),
            queue: QueueId(0),
            demand: Arc::clone(&self.task_demand),
            limit: self.limit(of),
        }
    }

    /// The planner started a task.
    pub fn plain_started(&mut self, now: Time, of: TaskRef) {
        let end = now + self.limit(of);
        let slot = TaskSlot {
            start: now,
            end,
            shares: Vec::new(),
        };
        self.states[of.flow].tasks[of.task] = TaskState::Running(now, slot);
        let actual = self.simulation.flows[of.flow].actual[of.task];
        self.expect(now + actual, Event::TaskEnd(of));
        self.expect(end, Event::SlotEnd(of));
    }
}
