//! `scontrol update NodeName=...`: takes nodes out of service and back, and sets their features.

use super::session::Session;
use super::update::report_update_error;
use crate::exit;
use crate::slurm::messages::say;
use crate::slurm::words;
use cosy_client::CallError;
use cosy_model::RefusalCode;
use cosy_model::api::{NodeAction, NodeInfo, Reply, Request};
use cosy_slurm::control::node::{self, NodeChange, NodeUpdate, PowerChange};
use cosy_slurm::sentences;
use cosy_slurm::show::hosts;
use cosy_view::node::NodeCondition;

impl Session<'_> {
    pub(super) fn update_nodes(&self, given: &[String]) -> u8 {
        let update = match node::nodes(given) {
            Ok(update) => update,
            Err(mistake) => return report_update_error(&mistake),
        };
        let known = self.nodes();
        let names = match update.names.to_ascii_uppercase().as_str() {
            "ALL" => known.iter().map(|n| n.name.clone()).collect(),
            _ => hosts::names(&update.names).unwrap_or_else(|_| vec![update.names.clone()]),
        };
        let find = |name: &String| known.iter().find(|n| n.name == *name);
        let found: Vec<&NodeInfo> = names.iter().filter_map(find).collect();
        if found.len() < names.len() || names.is_empty() {
            return self.not_updated(sentences::NO_NODE);
        }
        let given = update.change.is_some() || update.reason.is_some();
        match self.set_features(&update, &found) {
            Some(exit::OK) if given => {}
            Some(code) => return code,
            None => {}
        }
        let reason = update.reason.unwrap_or_default();
        let action = match update.change {
            Some(NodeChange::Drain) => NodeAction::Drain { reason },
            Some(NodeChange::Down) => NodeAction::Down { reason },
            Some(NodeChange::Power(change)) => return self.switch(change, names),
            Some(NodeChange::Resume) if found.iter().any(|n| is_out(n)) => NodeAction::Resume,
            Some(NodeChange::Resume) => return self.not_updated(sentences::NODE_STATE),
            None if found.iter().all(|n| n.state == "down") => NodeAction::Down { reason },
            None if found.iter().all(|n| is_out(n)) => NodeAction::Drain { reason },
            None => return self.not_updated(sentences::NODE_STATE),
        };
        let nodes = names;
        self.carry_out(Request::NodeControl { nodes, action }, sentences::NO_NODE)
    }

    /// `scontrol power up|down [asap|force] NODES`.
    pub(super) fn power(&self, words: &[String]) -> u8 {
        let Some((change, rest)) = PowerChange::of(words) else {
            say("scontrol: error: power takes 'up' or 'down [asap|force]' and then nodes");
            return exit::FAILED;
        };
        let names = rest.iter().map(|list| hosts::names(list));
        match names.collect::<Result<Vec<_>, _>>() {
            Ok(names) => self.switch(change, names.concat()),
            Err(_) => self.not_updated(sentences::NO_NODE),
        }
    }

    /// Switches nodes on or off.
    fn switch(&self, change: PowerChange, nodes: Vec<String>) -> u8 {
        let action = match change {
            PowerChange::Up => NodeAction::PowerUp,
            PowerChange::Down { force } => NodeAction::PowerDown { force },
        };
        let request = Request::NodeControl { nodes, action };
        match self.context.ask(request) {
            Err(CallError::Refused(refusal)) if refusal.code == RefusalCode::WrongState => {
                say(&format!("slurm_update error: {}", refusal.message));
                exit::FAILED
            }
            Ok(Reply::Done { refused, .. }) if !refused.is_empty() => {
                for (node, refusal) in refused {
                    say(&format!("slurm_update error: {node}: {}", refusal.message));
                }
                exit::FAILED
            }
            answer => report(answer, sentences::NO_NODE),
        }
    }

    /// Changes the features of nodes; `None` where the update has none, else the exit code.
    fn set_features(&self, update: &NodeUpdate, nodes: &[&NodeInfo]) -> Option<u8> {
        for node in nodes {
            let action = match update.features(&node.features) {
                Ok(names) => NodeAction::Features { names: names? },
                Err(why) => return Some(self.not_updated(why)),
            };
            let nodes = vec![node.name.clone()];
            let request = Request::NodeControl { nodes, action };
            let code = self.carry_out(request, sentences::NO_FEATURE);
            if code != exit::OK {
                return Some(code);
            }
        }
        Some(exit::OK)
    }

    /// Prints why nodes were not updated; users who may not change anything get that refusal first.
    fn not_updated(&self, why: &str) -> u8 {
        let admin = self.settings().is_none_or(|s| s.you_are_admin);
        let why = if admin { why } else { sentences::NOT_YOURS };
        say(&format!("slurm_update error: {why}"));
        exit::FAILED
    }

    pub(super) fn carry_out(&self, request: Request, missing: &str) -> u8 {
        report(self.context.ask(request), missing)
    }
}

/// Prints why nothing was changed, where that is so; `missing`: what was named is not there.
fn report(answer: Result<Reply, CallError>, missing: &str) -> u8 {
    let why = match answer {
        Ok(_) => return exit::OK,
        Err(CallError::Refused(refusal)) => match refusal.code {
            RefusalCode::Forbidden => sentences::NOT_YOURS,
            RefusalCode::NotFound | RefusalCode::Invalid => missing,
            code => sentences::about_job(code),
        },
        Err(e) => words::of_call(&e),
    };
    say(&format!("slurm_update error: {why}"));
    exit::FAILED
}

/// Drained, down, or found unfit.
fn is_out(node: &NodeInfo) -> bool {
    match NodeCondition::of(node) {
        Some(
            NodeCondition::Drained
            | NodeCondition::Draining
            | NodeCondition::Down
            | NodeCondition::Unhealthy,
        ) => true,
        Some(
            NodeCondition::Idle
            | NodeCondition::Mixed
            | NodeCondition::Busy
            | NodeCondition::Lost
            | NodeCondition::Off
            | NodeCondition::PoweringUp
            | NodeCondition::PoweringDown
            | NodeCondition::Unknown,
        )
        | None => false,
    }
}
