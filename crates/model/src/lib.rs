//! The words of Cosy as types: ids, time, resources, host lists, jobs, queues.
//!
//! Everything the other crates agree on is here and nothing that does anything:
//! no clock, no IO, no scheduling, no wire format (only `serde` derives). A type is
//! here when at least two crates need it.
//!
//! Times are UTC integers ([`Time`], milliseconds since 1970); zones belong to the
//! commands. Sizes carry their unit in the type ([`MiB`]).

pub mod api;
pub mod cluster;
pub mod container;
pub mod device;
pub mod history;
pub mod hostlist;
pub mod ids;
pub mod job;
pub mod limits;
pub mod money;
pub mod near;
pub mod node;
pub mod policy;
mod power;
pub mod refusal;
pub mod reservation;
pub mod resources;
pub mod settings;
pub mod signal;
pub mod step;
pub mod text;
pub mod time;
pub mod topology;
pub mod trigger;
pub mod user;
pub mod variables;
mod wait_reason;
pub mod workflow;

pub use cluster::{
    AccessLevel, NodeSpec, NodeState, QueueAdmits, QueueOrder, QueueSpec, QueueState, RelayPolicy,
};
pub use container::{Container, ContainerMount, ContainerOptions, ContainerSource};
pub use history::{EventKind, EventObject};
pub use hostlist::{HostListError, expand, fold};
pub use ids::{Attempt, FlowId, Gid, JobId, NodeId, QueueId, ReservationId, TriggerId, Uid};
pub use job::{
    ArraySpec, Dependency, DependencyKind, DeviceUse, Dialect, End, EndCause, JobSpec, JobState,
    Program, TaskIndices,
};
pub use money::Su;
pub use power::{PowerInfo, PowerPhase};
pub use refusal::{About, Refusal, RefusalCode, Refusals};
pub use resources::{Amounts, CountedResources, MiB, NodeShare};
pub use settings::{License, LicenseUse, PreemptionSettings, PrioritySettings, Settings};
pub use step::{StepId, StepKey};
pub use text::OsText;
pub use time::{BootId, ClockReading, ClockStep, MonotonicTime, Span, Time};
pub use topology::SwitchSpec;
pub use trigger::{TriggerEvent, TriggerInfo, TriggerSpec, TriggerTarget};
pub use user::{Group, User};
pub use wait_reason::WaitReason;
