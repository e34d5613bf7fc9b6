//! Nodes that run nothing: they accept, time and finish jobs, for tests of scale.
//!
//! A job takes as many seconds as `COSY_VIRTUAL_SECONDS` in its environment says (1
//! without) and ends with the code in `COSY_VIRTUAL_EXIT` (0 without). Limits, orders
//! and signals are honoured. Nothing is on disk: an end of the daemon loses the jobs.

use crate::clock::{self, ControllerClock};
use crate::epoch::KnownEpoch;
use cosy_model::node::{
    Allocation, AllocationKey, AttemptKey, AttemptPhase, InventoryItem, KillCause, Launch,
    NodeReport, PrepareFailure,
};
use cosy_model::{DeviceUse, End, EndCause, OsText, Span, Time, variables};
use cosy_proto::keys::PublicKey;
use cosy_proto::ticket;
use nix::libc;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

#[derive(Debug)]
enum Stage {
    Prepared,
    Running { since: Time, planned: End },
    Ended(End),
}

type Slot = (u32, AllocationKey);

/// All nodes of one daemon.
#[derive(Debug)]
pub struct VirtualNodes {
    names: Vec<String>,
    places: HashMap<String, u32>,
    controller: PublicKey,
    clock: ControllerClock,
    epoch: KnownEpoch,
    attempts: BTreeMap<Slot, Stage>,
    ends: BinaryHeap<Reverse<(Time, Slot)>>,
    reports: Vec<NodeReport>,
}

impl VirtualNodes {
    /// Nodes called `prefix` and a number from 1 to `count`.
    pub fn new(
        prefix: &str,
        count: u32,
        controller: PublicKey,
        (clock, epoch): (ControllerClock, KnownEpoch),
    ) -> Self {
        let names: Vec<String> = (1..=count).map(|n| format!("{prefix}{n}")).collect();
        let places = names.iter().cloned().zip(0..).collect();
        Self {
            names,
            places,
            controller,
            clock,
            epoch,
            attempts: BTreeMap::new(),
            ends: BinaryHeap::new(),
            reports: Vec::new(),
        }
    }

    /// Names of the nodes that this daemon stands for.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The reports that came up since this was asked last.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.reports)
    }

    /// When something happens next.
    pub fn next_end(&self) -> Option<Time> {
        self.ends.peek().map(|Reverse((at, _))| *at)
    }

    /// Every attempt and how far it is.
    pub fn inventory(&self) -> Vec<InventoryItem> {
        let mut items: Vec<InventoryItem> = self
            .attempts
            .iter()
            .map(|((place, key), stage)| InventoryItem {
                key: *key,
                node: self.names[*place as usize].clone(),
                phase: match stage {
                    Stage::Prepared => AttemptPhase::Prepared,
                    Stage::Running { since, .. } => AttemptPhase::Running {
                        since: *since,
                        ran: Some(clock::date().since(*since)),
                    },
                    Stage::Ended(end) => AttemptPhase::Ended(end.clone()),
                },
            })
            .collect();
        items.sort_by(|a, b| (&a.node, a.key).cmp(&(&b.node, b.key)));
        items
    }

    fn admit(&mut self, allocation: &Allocation) -> Option<Slot> {
        let now = self.clock.now();
        let place = self.places.get(&allocation.node).copied();
        let slot = place.map(|place| (place, allocation.key));
        let held = slot.is_some_and(|slot| self.attempts.contains_key(&slot));
        let good = ticket::check(allocation, &self.controller, now)
            .and_then(|claims| self.epoch.admits(&claims, held));
        let reason = match (good, slot) {
            (Ok(()), Some(slot)) => return Some(slot),
            (Err(e), _) => e.to_string(),
            (Ok(()), None) => format!("no node {} here", allocation.node),
        };
        self.reports.push(NodeReport::Prepared {
            key: allocation.key,
            node: allocation.node.clone(),
            failure: Some(PrepareFailure {
                reason,
                drain: false,
            }),
        });
        None
    }

    /// An allocation to hold.
    pub fn order_prepare(&mut self, allocation: &Allocation) {
        let Some(slot) = self.admit(allocation) else {
            return;
        };
        self.attempts.entry(slot).or_insert(Stage::Prepared);
        self.report(slot);
    }

    /// A program not to start.
    pub fn order_launch(&mut self, launch: &Launch, now: Time) {
        let Some(slot) = self.admit(&launch.allocation) else {
            return;
        };
        if !matches!(self.attempts.get(&slot), None | Some(Stage::Prepared)) {
            return self.report(slot);
        }
        let planned = planned_end(launch, now);
        self.ends.push(Reverse((planned.end, slot)));
        let stage = Stage::Running {
            since: now,
            planned,
        };
        self.attempts.insert(slot, stage);
        self.report(slot);
    }

    fn report(&mut self, slot: Slot) {
        let (place, key) = slot;
        let node = self.names[place as usize].clone();
        let report = match self.attempts.get(&slot) {
            None => return,
            Some(Stage::Prepared) => NodeReport::Prepared {
                key,
                node,
                failure: None,
            },
            Some(Stage::Running { since, .. }) => NodeReport::Started {
                key,
                node,
                at: *since,
            },
            Some(Stage::Ended(end)) => NodeReport::Ended {
                key,
                node,
                end: end.clone(),
                drain: None,
            },
        };
        self.reports.push(report);
    }

    /// Ends what is due.
    pub fn advance(&mut self, now: Time) {
        while let Some(Reverse((at, slot))) = self.ends.peek().copied() {
            if at > now {
                return;
            }
            self.ends.pop();
            if let Some(Stage::Running { planned, .. }) = self.attempts.get(&slot)
                && planned.end == at
            {
                let end = planned.clone();
                self.attempts.insert(slot, Stage::Ended(end));
                self.report(slot);
            }
        }
    }

    fn slot(&self, node: &str, key: AllocationKey) -> Option<Slot> {
        self.places.get(node).map(|place| (*place, key))
    }

    /// The controller wants an attempt to end.
    pub fn order_kill(&mut self, key: AllocationKey, node: &str, cause: KillCause, now: Time) {
        let cause = match cause {
            KillCause::TimeLimit => EndCause::TimeLimit,
            KillCause::Cancelled | KillCause::Superseded | KillCause::Requeued => {
                EndCause::Cancelled
            }
        };
        match self.slot(node, key) {
            Some(slot) if self.attempts.contains_key(&slot) => {
                self.stop(slot, cause, libc::SIGTERM, now);
            }
            _ => self.reports.push(NodeReport::Ended {
                key,
                node: node.to_owned(),
                end: End::never_ran(cause, now),
                drain: None,
            }),
        }
    }

    fn stop(&mut self, slot: Slot, cause: EndCause, signal: i32, now: Time) {
        let end = match self.attempts.get(&slot) {
            Some(Stage::Running { since, .. }) => End {
                signal,
                start: Some(*since),
                ..End::never_ran(cause, now)
            },
            Some(Stage::Prepared) => End::never_ran(cause, now),
            Some(Stage::Ended(_)) | None => return self.report(slot),
        };
        self.attempts.insert(slot, Stage::Ended(end));
        self.report(slot);
    }

    /// A signal: these two end a job, others do nothing.
    pub fn order_signal(&mut self, key: AttemptKey, node: &str, signal: i32, now: Time) {
        let Some(slot) = self.slot(node, key.into()) else {
            return;
        };
        let running = matches!(self.attempts.get(&slot), Some(Stage::Running { .. }));
        if running && matches!(signal, libc::SIGTERM | libc::SIGKILL) {
            self.stop(slot, EndCause::Exited, signal, now);
        }
    }

    /// The allocation is over on this node.
    pub fn order_release(&mut self, key: AllocationKey, node: &str, now: Time) {
        if let Some(slot) = self.slot(node, key) {
            match self.attempts.get(&slot) {
                Some(Stage::Running { .. }) => {
                    self.stop(slot, EndCause::Cancelled, libc::SIGKILL, now);
                }
                Some(Stage::Prepared) => drop(self.attempts.remove(&slot)),
                Some(Stage::Ended(_)) | None => {}
            }
        }
        self.reports.push(NodeReport::Released {
            key,
            node: node.to_owned(),
            drain: None,
            devices: DeviceUse::default(),
        });
    }

    /// The end that was reported is durable.
    pub fn order_forget(&mut self, key: AllocationKey, node: &str) {
        if let Some(slot) = self.slot(node, key)
            && matches!(self.attempts.get(&slot), Some(Stage::Ended(_)))
        {
            self.attempts.remove(&slot);
        }
    }
}

fn variable(environment: &OsText, name: &str) -> Option<String> {
    String::from_utf8(variables::find(&environment.0, name)?.to_vec()).ok()
}

fn planned_end(launch: &Launch, now: Time) -> End {
    let seconds: f64 = variable(&launch.environment, variables::VIRTUAL_SECONDS)
        .and_then(|t| t.parse().ok())
        .filter(|s: &f64| s.is_finite() && *s >= 0.0)
        .unwrap_or(1.0);
    let takes = Span((seconds * 1000.0).round() as i64);
    let limit = launch.allocation.limit;
    let mut end = End {
        start: Some(now),
        ..End::never_ran(EndCause::Exited, now + takes)
    };
    if takes > limit {
        end.cause = EndCause::TimeLimit;
        end.signal = libc::SIGTERM;
        end.end = now + limit;
    } else {
        let code =
            variable(&launch.environment, variables::VIRTUAL_EXIT).and_then(|t| t.parse().ok());
        end.exit_code = code.unwrap_or(0);
    }
    end
}
