//! How the cluster is set up, as far as commands tell it to everyone (`scontrol show
//! config`, `show licenses`).

use crate::policy::{PreemptMode, Tres};
use crate::{JobId, Span, Time, Uid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// How queues order that do so by more than dates; `None` where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<PrioritySettings>,
    /// No job waits longer for few switches.
    pub max_switch_wait: Span,
    /// Switches of the network, as configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<crate::SwitchSpec>,
    /// Who preempts whom; `None`: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionSettings>,
}

/// How queues order that do not serve first come, first served.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PrioritySettings {
    /// Queues that order by weighted factors.
    pub weighted: Vec<String>,
    /// Queues that order by fair share alone.
    pub by_share: Vec<String>,
    /// Number of users in accounts: the highest rank.
    pub users: u32,
    /// Weight of the age.
    pub age: u32,
    /// Weight of the association.
    pub association: u32,
    /// Weight of fair share.
    pub fair_share: u32,
    /// Weight of the size.
    pub size: u32,
    /// Weight of the queue.
    pub queue: u32,
    /// Weight of the quality of service.
    pub qos: u32,
    /// Weights of what is asked for.
    pub tres: BTreeMap<Tres, u32>,
    /// At this age the factor of age is one.
    pub max_age: Span,
    /// After this time use counts half; zero when it never fades.
    pub half_life: Span,
    /// When use is forgotten as a whole, in one word.
    pub reset: String,
    /// Small jobs have the higher factor of size.
    pub favor_small: bool,
    /// Size is cores by the time limit.
    pub size_by_time: bool,
    /// How often running jobs are looked at.
    pub period: Span,
    /// The classic formula with this damping counts in place of Fair Tree.
    pub classic: Option<u16>,
}

/// How jobs are made to make room for more important ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PreemptionSettings {
    /// By quality of service.
    pub by_qos: bool,
    /// By the priority of queues.
    pub by_queue: bool,
    /// How, where nobody says it of the job.
    pub mode: PreemptMode,
    /// So long a job is spared, where nobody says it of the job.
    pub exempt: Span,
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
    /// Number of licences that reservations keep whose time is now.
    #[serde(default)]
    pub reserved: u32,
    /// Number of those that jobs inside hold; they are among [`License::used`] too.
    #[serde(default)]
    pub reserved_in_use: u32,
    /// How many are in use in all, as was last told; `None`: nobody has told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<LicenseUse>,
}

impl License {
    /// Number of licences that are in use outside of the cluster.
    pub fn outside(&self) -> u32 {
        self.told.as_ref().map_or(0, |told| told.outside)
    }

    /// Number of licences that jobs outside of reservations can have now.
    pub fn free(&self) -> u32 {
        let kept = self.reserved.saturating_sub(self.reserved_in_use);
        let taken = self.used.saturating_add(self.outside());
        self.total.saturating_sub(taken.saturating_add(kept))
    }
}

/// How many of a licence are in use, as the licence server says and somebody has told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LicenseUse {
    /// Number in use in all, by the cluster and outside of it.
    pub in_use: u32,
    /// Of these more than jobs held when it was told: others have them until it is told anew.
    /// Source: Slurm's deficit, `max(0, LastConsumed - Used)` (licenses.c).
    pub outside: u32,
    /// When it was told.
    pub at: Time,
    /// User who told it, by login name.
    pub by: String,
}
