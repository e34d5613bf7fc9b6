//! The rooms, for what concerns most of them.

use crate::clock::Clocks;
use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::machine::older_store::LostStore;
use crate::planning::Planning;
use crate::policy::Policy;
use crate::queues::Queues;
use crate::reservations::Reservations;
use crate::set_aside::Aside;
use crate::triggers::Triggers;
use crate::workflows::Workflows;

/// All rooms, side by side: none knows of another.
///
/// A procedure that works on up to four rooms is handed these; one that works on more (or
/// calls one that does) is handed all. It has no rules and no functions of its own.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) config: ClusterConfig,
    /// What passes is measured on them.
    pub(crate) clocks: Clocks,
    pub(crate) machine: Machine,
    pub(crate) queues: Queues,
    pub(crate) jobs: Jobs,
    pub(crate) policy: Policy,
    pub(crate) planning: Planning,
    pub(crate) reservations: Reservations,
    pub(crate) workflows: Workflows,
    pub(crate) triggers: Triggers,
    pub(crate) conversations: Conversations,
    /// What is kept in the store and not taken up.
    pub(crate) aside: Aside,
    /// What is known of a store that is lost.
    pub(crate) lost_store: LostStore,
}
