//! Ends of tasks, and the end of the step on this node: nothing of it is left, its
//! outcome is written, then it is told.

use super::failure::Failure;
use super::run::Supervisor;
use super::task::{ReadOutcome, read};
use crate::cgroup::Group;
use crate::shepherd::{keep, leftovers, shutdown, wall, watch};
use crate::steps::StepOutcome;
use crate::sys::{self, Reap, Reaped};
use cosy_model::step::{NodeEnd, StepRecord, TaskEnd, UpFrame};
use cosy_model::{End, EndCause, hostlist};
use std::time::Instant;

impl Supervisor<'_> {
    /// Takes note of every process that has ended.
    pub(super) fn reap(&mut self) {
        while self.processes {
            match sys::reap() {
                Reap::One(child) => self.add(&child),
                Reap::NoneEnded => break,
                Reap::NoChildren => self.processes = !self.forked,
            }
            if !self.forked {
                break;
            }
        }
        if self.ending.given_up() {
            self.processes = false;
        }
        if !self.processes {
            self.nothing_left_since.get_or_insert_with(Instant::now);
        }
        let ended = self.forked && self.tasks.iter().all(|t| t.end.is_some());
        if ended {
            // Nobody waits for the grace of a helper that has nobody to serve.
            self.exchange.finish();
        }
        if ended && self.processes && self.ending.is_running() {
            // What tasks left behind goes with the last of them.
            self.ending.kill_now();
        }
    }

    fn add(&mut self, child: &Reaped) {
        self.usage.user_us += child.usage.user_us;
        self.usage.system_us += child.usage.system_us;
        self.usage.peak_bytes = self.usage.peak_bytes.max(child.usage.peak_bytes);
        let mut tasks = self.tasks.iter();
        if let Some(place) = tasks.position(|t| t.pid == Some(child.pid) && t.end.is_none()) {
            self.read_failures();
            let (code, signal) = child.code_and_signal();
            let allocation = &self.task.allocation;
            let end = self.tasks[place].ended(code, signal, &allocation.node, &allocation.user);
            self.task_ended(place, &end);
        }
    }

    /// What tasks tell of what failed before their program ran.
    pub(super) fn read_failures(&mut self) {
        let mut records = [0; Failure::BYTES * 64];
        while let Some(fd) = &self.failures {
            match read(fd, &mut records) {
                ReadOutcome::Some(count) => {
                    for record in records[..count].chunks_exact(Failure::BYTES) {
                        if let Some((place, failure)) = Failure::read(record)
                            && let Some(task) = self.tasks.get_mut(place as usize)
                        {
                            task.failed(failure);
                        }
                    }
                }
                ReadOutcome::NotYet => break,
                ReadOutcome::End => {
                    self.failures = None;
                    self.programs_run();
                }
            }
        }
    }

    pub(super) fn task_ended(&mut self, place: usize, end: &TaskEnd) {
        let rank = self.tasks[place].rank;
        self.input.task_gone(place);
        self.exchange.hear_last(rank);
        self.exchange.task_ended(rank, end);
        self.here.task(end);
        self.whole.task(end);
        let up = UpFrame::TaskEnded {
            rank,
            end: end.clone(),
        };
        self.told_of_end(&up);
        self.send_up(up);
    }

    /// Waits until what was killed is gone, for a moment.
    pub(super) fn wait_for_the_dead(&mut self) {
        while self.processes && !self.ending.given_up() {
            self.reap();
            self.ending.keep_time(Instant::now(), self.processes);
            if self.processes {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }

    /// When nothing is left here (and on the head nowhere): writes the outcome, then
    /// tells.
    pub(super) fn conclude(&mut self) {
        let drained = self.is_drained() && self.displays.is_left_alone();
        let over = !self.processes && drained && self.concluded.is_none();
        let below = !self.head || self.children.iter().all(|c| c.over);
        if !over || !below {
            return;
        }
        if !self.labels.is_over() {
            return self.labels.finish();
        }
        self.exchange.sweep();
        self.displays.close();
        let end = self.node_end();
        self.whole.node(self.node, &end);
        self.task
            .groups
            .iter()
            .for_each(crate::cgroup::Group::remove);
        let ended = |t: &super::task::Task| Some((t.rank, t.end.clone()?));
        keep(&StepOutcome {
            end: end.clone(),
            tasks: self.tasks.iter().filter_map(ended).collect(),
            whole: self.head.then(|| self.record()),
        });
        let up = UpFrame::NodeEnded {
            node: self.node,
            end,
        };
        self.told_of_end(&up);
        self.send_up(up);
        self.concluded = Some(Instant::now());
    }

    fn node_end(&self) -> NodeEnd {
        let at = wall(self.start, self.begun.elapsed());
        let mut end = self.here.end(self.start, at);
        end.cause = shutdown::cause_with(self.cause(end.cause));
        end.user_cpu_us = self.usage.user_us;
        end.system_cpu_us = self.usage.system_us;
        end.peak_memory_bytes = self.usage.peak_bytes;
        watch::measure(&self.task.groups, &mut end);
        let drain = self.ending.given_up().then(|| {
            let left = leftovers::left_over(&self.task.groups);
            format!("processes of step {} cannot be killed: {left}", self.task.order.key)
        });
        let memory = self.task.groups.iter().find(|g| g.memory);
        NodeEnd {
            end,
            drain,
            starved: memory.map_or(0, Group::out_of_memory_kills),
        }
    }

    fn cause(&self, by_tasks: EndCause) -> EndCause {
        let memory = self.task.groups.iter().find(|g| g.memory);
        match self.ending.cause() {
            Some(EndCause::TimeLimit) => EndCause::TimeLimit,
            _ if memory.is_some_and(|g| g.out_of_memory_kills() > 0) => EndCause::OutOfMemory,
            Some(cause) => cause.clone(),
            None => by_tasks,
        }
    }

    fn record(&self) -> StepRecord {
        let (order, layout) = (&self.task.order, &self.task.order.layout);
        let at = wall(self.start, self.begun.elapsed());
        StepRecord {
            step: order.key.step,
            name: order.spec.name.clone(),
            nodes: hostlist::fold(layout.nodes_with_tasks()),
            tasks: layout.tasks,
            cores: layout.tasks.saturating_mul(layout.cores_per_task),
            end: End {
                ..self.whole.end(self.start, at)
            },
        }
    }
}
