//! What the controller is told: each attempt and how far it is.

use super::{AfterHooks, Node, Stage};
use crate::clock;
use cosy_model::node::{AllocationKey, AttemptPhase, InventoryItem, NodeReport, PrepareFailure};
use cosy_model::{DeviceUse, End};

impl Node {
    /// The reports that came up since this was asked last.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        self.reports.extend(self.steps.take_reports());
        std::mem::take(&mut self.reports)
    }

    /// Every attempt and how far it is.
    pub fn inventory(&self) -> Vec<InventoryItem> {
        self.attempts
            .iter()
            .filter_map(|(key, attempt)| {
                let phase = match &attempt.stage {
                    Stage::Preparing { next, .. } => match next {
                        AfterHooks::Report | AfterHooks::Release | AfterHooks::Run => {
                            AttemptPhase::Prepared
                        }
                        AfterHooks::End => return None,
                    },
                    Stage::Prepared
                    | Stage::Epilog { outcome: None }
                    | Stage::Winding { since: None, .. } => AttemptPhase::Prepared,
                    Stage::Running { since, .. }
                    | Stage::Cleaning { since }
                    | Stage::Winding {
                        since: Some(since), ..
                    } => AttemptPhase::Running {
                        since: clock::date_of(*since),
                        ran: Some(clock::passed(*since)),
                    },
                    Stage::Epilog {
                        outcome: Some(outcome),
                    } => AttemptPhase::Running {
                        since: outcome.end.start.unwrap_or(outcome.end.end),
                        ran: None,
                    },
                    Stage::Ended { outcome, .. } => AttemptPhase::Ended(outcome.end.clone()),
                    Stage::Failed(_) => return None,
                };
                Some(InventoryItem {
                    key: *key,
                    node: self.fixed.name.clone(),
                    phase,
                })
            })
            .collect()
    }

    /// Reports again what an inventory does not say: why a node is to be drained, what
    /// could not be prepared.
    pub fn repeat_reports(&mut self) {
        self.steps.new_link();
        let keys: Vec<AllocationKey> = self.attempts.keys().copied().collect();
        for key in keys {
            let stage = self.attempts.get(&key).map(|a| &a.stage);
            if let Some(Stage::Ended { .. } | Stage::Failed(_)) = stage {
                self.report_again(key);
            }
        }
    }

    /// What is left to tell of its steps comes before anything about the attempt.
    pub(super) fn tell_steps(&mut self, key: AllocationKey) {
        if let Some(key) = key.job() {
            self.steps.flush(key);
        }
        self.reports.extend(self.steps.take_reports());
    }

    pub(super) fn report_again(&mut self, key: AllocationKey) {
        let node = self.fixed.name.clone();
        if let Some(Stage::Ended { .. }) = self.attempts.get(&key).map(|a| &a.stage) {
            self.tell_steps(key);
        }
        let Some(attempt) = self.attempts.get(&key) else {
            return;
        };
        let report = match &attempt.stage {
            Stage::Prepared => NodeReport::Prepared {
                key,
                node,
                failure: None,
            },
            Stage::Failed(failure) => NodeReport::Prepared {
                key,
                node,
                failure: Some(failure.clone()),
            },
            Stage::Running { since, .. } | Stage::Cleaning { since } => NodeReport::Started {
                key,
                node,
                at: clock::date_of(*since),
            },
            Stage::Ended { outcome, .. } => NodeReport::Ended {
                key,
                node,
                end: outcome.end.clone(),
                drain: outcome.drain.clone(),
            },
            // These report by themselves when they are through.
            Stage::Preparing { .. } | Stage::Epilog { .. } | Stage::Winding { .. } => return,
        };
        self.reports.push(report);
    }

    pub(super) fn report_ended(&mut self, key: AllocationKey, end: End, drain: Option<String>) {
        let node = self.fixed.name.clone();
        self.reports.push(NodeReport::Ended {
            key,
            node,
            end,
            drain,
        });
    }

    pub(super) fn report_released(
        &mut self,
        key: AllocationKey,
        drain: Option<String>,
        devices: DeviceUse,
    ) {
        let node = self.fixed.name.clone();
        self.reports.push(NodeReport::Released {
            key,
            node,
            drain,
            devices,
        });
    }

    pub(super) fn refuse(&mut self, key: AllocationKey, reason: String, drain: bool) {
        let failure = PrepareFailure { reason, drain };
        tracing::warn!(job = %key, "attempt {} refused: {}", key.attempt(), failure.reason);
        self.reports.push(NodeReport::Prepared {
            key,
            node: self.fixed.name.clone(),
            failure: Some(failure),
        });
    }
}
