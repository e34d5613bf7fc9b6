//! What a shepherd needs to know of its job.

use super::Node;
use crate::cgroup::AttemptLimits;
use crate::devices::{DeviceNumber, Held};
use crate::spool::{self, Task, Work};
use cosy_model::node::Launch;
use cosy_model::{OsText, variables};

impl Node {
    /// What the shepherd needs to know, and the script's text apart from it.
    pub(super) fn task(&self, mut launch: Box<Launch>) -> (Work, Option<Vec<u8>>) {
        let script = match launch.program {
            cosy_model::Program::Script { .. } => Some(std::mem::take(&mut launch.script.0)),
            cosy_model::Program::Command { .. } | cosy_model::Program::Allocation => None,
        };
        let allocation = &launch.allocation;
        let name = spool::name_of(allocation.key);
        let groups = self.fixed.cgroups.groups_for(AttemptLimits {
            name: &name,
            memory_bytes: allocation.memory.map(cosy_model::MiB::bytes),
            cores: &allocation.cores,
            denied: &self.denied(Held::of(allocation)),
            trigger: allocation.key.job().is_none(),
        });
        let work = Work::Run(Box::new(Task {
            groups,
            variables: self.variables(&launch),
            reset_oom_score: self.protected,
            launch: *launch,
        }));
        (work, script)
    }

    /// The devices that somebody who has `held` must not open.
    fn denied(&self, held: Held<'_>) -> Vec<DeviceNumber> {
        if self.fixed.cgroups.limits_devices() {
            self.config.devices.denied(held)
        } else {
            Vec::new()
        }
    }

    /// The variables that only the node knows.
    fn variables(&self, launch: &Launch) -> Vec<OsText> {
        let allocation = &launch.allocation;
        let mark = format!("{}={}", variables::NODE_MARK, self.mark(allocation.key));
        let node = self.config.variables().into_iter();
        let mut all: Vec<OsText> = node.chain([mark]).map(OsText::from).collect();
        let kept = self.fixed.cgroups.limits_devices();
        all.extend(self.config.devices.variables(Held::of(allocation), kept));
        let path = self.config.plugin_path();
        let path = [
            variables::PLUGIN_PATH.as_bytes(),
            b"=",
            path.as_encoded_bytes(),
        ];
        all.push(OsText(path.concat()));
        let Some(own) = allocation.key.job() else {
            return all; // the program of a trigger is in no job
        };
        for (name, value) in [
            (variables::JOB_ID, own.job.to_string()),
            (variables::JOB_ATTEMPT, own.attempt.to_string()),
        ] {
            if variables::find(&launch.environment.0, name).is_none() {
                all.push(OsText::from(format!("{name}={value}")));
            }
        }
        all
    }
}
