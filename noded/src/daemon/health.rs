//! The periodic health check.

use super::{Daemon, Event, Nodes};
use crate::hooks::Hook;
use cosy_model::node::NodeReport;
use cosy_model::variables;
use std::sync::Arc;
use tokio::sync::Notify;

impl Daemon {
    pub(super) fn check_health(&mut self) {
        let Nodes::Real(_) = &self.nodes else { return };
        self.look_at_gpus();
        let Some(command) = self.config.health_check.clone() else {
            return;
        };
        if std::mem::replace(&mut self.checking.now, true) {
            return;
        }
        self.checking.again = false;
        let hook = Hook {
            kind: "health check",
            command,
            timeout: self.config.hook_timeout,
            environment: vec![(variables::NODENAME, self.config.name.clone())],
        };
        let (events, reaper) = (self.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let result = hook.run(reaper, Arc::new(Notify::new())).await;
            let _ = events.send(Event::Health(result)).await;
        });
    }

    /// Something has failed here that was no job's doing: whether the node is fit for others is
    /// looked at now, not when the next periodic check is due. One under way may have looked before.
    pub(super) fn check_health_after_failure(&mut self) {
        self.checking.again = self.checking.now;
        self.check_health();
    }

    pub(super) fn health(&mut self, result: Result<(), String>) {
        self.checking.now = false;
        let problem = result.err();
        if problem != self.problem {
            self.problem = problem;
            self.say_health();
        }
        if self.checking.again {
            self.check_health();
        }
    }

    pub(super) fn say_health(&mut self) {
        let problem = self.health_problem();
        if let Some(text) = &problem {
            tracing::warn!("{text}");
        }
        self.say(&NodeReport::Health {
            node: self.config.name.clone(),
            problem,
        });
    }

    /// What is wrong with this node, in one line.
    pub(super) fn health_problem(&self) -> Option<String> {
        let all = self
            .problem
            .as_deref()
            .into_iter()
            .chain(self.gpus.problems());
        let all: Vec<&str> = all.collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
