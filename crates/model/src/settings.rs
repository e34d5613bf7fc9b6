//! How the cluster is set up, as far as commands tell it to everyone (`scontrol show
//! config`, `show licenses`).

use crate::{JobId, Span, Time, Uid};
use serde::{Deserialize, Serialize};

/// Answer to [`crate::api::Request::Settings`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Name of the cluster.
    pub cluster: String,
    /// Version of the controller.
    pub version: String,
    /// As whom the controller runs.
    pub uid: Uid,
    /// Name of the controller's host; empty when it is not known.
    pub host: String,
    /// The configuration file.
    pub file: String,
    /// The controller's time.
    pub now: Time,
    /// Since when it runs.
    pub started: Time,
    /// The id that the next job gets.
    pub next_job: JobId,
    /// The least id that the configuration allows.
    pub first_job: JobId,
    /// Batch jobs are looked at so long after their submission.
    pub batch_delay: Span,
    /// Number of nodes.
    pub nodes: u32,
    /// Most tasks of one array.
    pub max_array_tasks: u32,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Ended jobs are listed with the others for so long.
    pub keep_ended: Span,
    /// A node that was silent for so long is lost.
    pub node_timeout: Span,
    /// How often users' groups are looked up.
    pub user_ttl: Span,
    /// Whether jobs may pass a waiting head.
    pub backfill: bool,
    /// Whether everyone sees everyone's jobs.
    pub open: bool,
    /// The queue of jobs that name none.
    pub default_queue: String,
    /// Administrators, who may do everything: login names, and groups as `@group`.
    pub admins: Vec<String>,
    /// Whether the asking user is one of them.
    pub you_are_admin: bool,
    /// Licences of the cluster, with what is in use.
    pub licenses: Vec<License>,
}

/// A licence that is counted over the whole cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct License {
    /// Name that jobs ask for it by.
    pub name: String,
    /// Number of licences that the cluster has.
    pub total: u32,
    /// Number of licences that jobs hold.
    pub used: u32,
}
