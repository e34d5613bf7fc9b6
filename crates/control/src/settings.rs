//! How the cluster is set up, as everyone is told.

use crate::config::Visibility;
use crate::controller::Controller;
use crate::event::Caller;
use cosy_model::api::Reply;
use cosy_model::{JobId, License, Settings, Time};

impl Controller {
    fn licenses_told(&self) -> Vec<License> {
        let told = |(name, total): (&str, u32)| License {
            name: name.to_owned(),
            total,
            used: self.jobs.licenses_used(name),
        };
        self.config.licenses.iter().map(told).collect()
    }

    pub(crate) fn settings(&self, now: Time, caller: &Caller) -> Reply {
        let config = &self.config;
        let policy = &config.policy;
        Reply::Settings(Box::new(Settings {
            cluster: config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uid: config.controller_uid,
            host: config.host.clone(),
            file: config.file.clone(),
            now,
            started: self.clocks.started(),
            next_job: self.jobs.next_id(),
            first_job: JobId(config.first_job.0.max(1)),
            batch_delay: policy.batch_delay,
            nodes: u32::try_from(self.machine.node_count()).unwrap_or(u32::MAX),
            max_array_tasks: policy.max_array_tasks,
            grace: policy.grace,
            keep_ended: policy.keep_ended,
            node_timeout: policy.node_timeout,
            user_ttl: policy.user_ttl,
            backfill: policy.backfill,
            open: policy.visibility != Visibility::Own,
            default_queue: config.default_queue.clone().unwrap_or_default(),
            admins: config.admins.clone(),
            you_are_admin: self.is_admin(caller),
            licenses: self.licenses_told(),
        }))
    }
}
