//! What the daemon of this node orders: to end, to pass a signal on, to stop for a while, to
//! change the time limit. On the head of a step it is meant for the whole step.

use super::run::Supervisor;
use crate::shepherd::leftovers;
use crate::shepherd::signals::{self, Order, SignalMeaning};
use crate::shepherd::termination::Ending;
use cosy_model::node::{KillCause, KillOrder};
use cosy_model::step::{DownFrame, UpFrame};
use cosy_model::{Dialect, limits};
use nix::libc;
use std::time::Instant;

impl Supervisor<'_> {
    pub(super) fn hear_signals(&mut self) {
        while let Some(heard) = self.signals.next() {
            match heard {
                SignalMeaning::Child => {}
                SignalMeaning::Stop => {
                    self.announce(KillCause::Superseded.into());
                    self.force(Ending::taken_down);
                    self.order_below(&DownFrame::Kill);
                }
                SignalMeaning::Order(Order::Kill(kill)) => {
                    self.announce(kill);
                    self.force(|ending| ending.ordered(kill.cause));
                    self.order_below(&DownFrame::Kill);
                }
                SignalMeaning::Order(Order::Signal { signal, .. }) => {
                    if signal == nix::libc::SIGKILL {
                        self.announce(KillCause::Cancelled.into());
                    }
                    self.signal_tasks(signal);
                    self.order_below(&DownFrame::Signal { signal });
                }
                // Scripts are told. A step is ended as one that is cancelled.
                SignalMeaning::Order(Order::Note | Order::OutOfMemory) => {}
                // Every node of the job is told, so nothing is passed on.
                SignalMeaning::Order(Order::Suspend) => self.suspend(),
                SignalMeaning::Order(Order::Resume) => self.resume(),
                SignalMeaning::Order(Order::Limit(secs)) => {
                    self.clock.limit_to(signals::span(secs))
                }
                SignalMeaning::Order(Order::Left(secs)) => {
                    self.clock.leave(Instant::now(), signals::span(secs));
                }
            }
        }
    }

    /// Sends a signal to all tasks here. Before they run their programs it would hit what is to
    /// become them, so it waits until then; only what ends them does not.
    pub(super) fn signal_tasks(&mut self, signal: i32) {
        let programs_run = self.forked && self.failures.is_none();
        if programs_run || signal == libc::SIGKILL {
            leftovers::signal_all(&self.task.groups, signal);
        } else if self.early_signals.len() < limits::EARLY_SIGNALS {
            self.early_signals.push(signal);
        }
    }

    /// All tasks run their programs, or have failed to.
    pub(super) fn programs_run(&mut self) {
        for signal in std::mem::take(&mut self.early_signals) {
            leftovers::signal_all(&self.task.groups, signal);
        }
    }

    fn suspend(&mut self) {
        if self.ending.is_running() && self.clock.stop(Instant::now()) {
            leftovers::signal_all(&self.task.groups, libc::SIGSTOP);
        }
    }

    fn resume(&mut self) {
        if self.clock.go_on(Instant::now()) {
            leftovers::signal_all(&self.task.groups, libc::SIGCONT);
        }
    }

    /// What the daemon orders of the head is meant for the whole step.
    fn order_below(&mut self, down: &DownFrame) {
        if self.head {
            self.send_down(down);
        }
    }

    pub(super) fn force(&mut self, how: impl Fn(&mut Ending)) {
        self.forced = true;
        self.told_to_end();
        how(&mut self.ending);
    }

    /// The step is to end: what ends from now on is a consequence.
    pub(super) fn told_to_end(&mut self) {
        self.here.told_to_end();
        self.whole.told_to_end();
        if !self.forked {
            self.nothing_runs("the step was ended before its tasks began");
        }
    }

    /// Tells the command that the step ends for a reason of which it does not know.
    pub(super) fn announce(&mut self, kill: KillOrder) {
        let speaks_slurm = self.head && self.task.order.spec.dialect == Dialect::Slurm;
        if speaks_slurm && self.ending.is_running() {
            self.send_up(UpFrame::Ending {
                cause: kill.cause,
                preempted: kill.preempted,
            });
        }
    }
}
