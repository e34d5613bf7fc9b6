//! The configuration as the controller uses it: checked, names expanded.

use cosy_model::{NodeSpec, QueueSpec, Span, Uid};
use cosy_sched::Depth;
use std::collections::BTreeMap;

/// Which jobs an ordinary user sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Visibility {
    /// Only the user's own.
    #[default]
    Own,
    /// Everyone's, without what is private in them (command, files, comment).
    All,
}

/// Numbers that steer the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyConfig {
    /// Whether jobs may pass a waiting head.
    pub backfill: bool,
    /// How many waiting jobs get a guaranteed place.
    pub depth: Depth,
    /// How often a node reports being alive.
    pub heartbeat: Span,
    /// A node that was silent for so long is lost.
    pub node_timeout: Span,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Most tasks of one array.
    pub max_array_tasks: u32,
    /// Ended jobs are listed with the others for so long.
    pub keep_ended: Span,
    /// A user's groups are looked up again after so long.
    pub user_ttl: Span,
    /// Who sees what.
    pub visibility: Visibility,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            backfill: true,
            depth: Depth::Count(1),
            heartbeat: Span::from_secs(10),
            node_timeout: Span::from_secs(60),
            grace: Span::from_secs(5),
            max_array_tasks: cosy_model::limits::ARRAY_TASKS,
            keep_ended: Span::from_minutes(5),
            user_ttl: Span::from_minutes(5),
            visibility: Visibility::Own,
        }
    }
}

/// The whole configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterConfig {
    /// Name of the cluster.
    pub name: String,
    /// User names, and groups as `@group`, that may do everything.
    pub admins: Vec<String>,
    /// The user that the controller runs as: an administrator too.
    pub controller_uid: Uid,
    /// Nodes, each name once.
    pub nodes: Vec<NodeSpec>,
    /// Node sets by name.
    pub sets: BTreeMap<String, Vec<String>>,
    /// Queues, each name once.
    pub queues: Vec<QueueSpec>,
    /// Name of the default queue.
    pub default_queue: Option<String>,
    /// Numbers.
    pub policy: PolicyConfig,
}
