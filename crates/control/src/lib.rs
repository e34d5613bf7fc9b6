//! The controller's state machine: events in, effects out.
//!
//! [`Controller::handle`] takes one event and changes the state in memory;
//! [`Controller::settle`] starts what can start and hands out everything that was
//! decided since the last call as one [`Batch`]: records that must be durable before
//! any of the effects leaves. The same batch order makes memory
//! and store agree; [`Controller::restore`] rebuilds one from the other.
//!
//! Knows nothing of clocks (time is handed in), files, sockets, threads or wire
//! formats. The daemon around it is `cosyd`; tests and the simulator drive it directly.
//!
//! What always holds is written down in [`invariants`] and checked after every event in
//! tests.

pub mod config;
pub mod event;
pub mod invariants;
pub mod record;

mod clock;
mod controller;
mod conversations;
mod jobs;
mod machine;
mod planning;
mod policy;
mod procedures;
mod queues;
mod reservations;
mod rooms;
mod set_aside;
mod settings;
mod triggers;
mod turn;
mod workflows;

pub use config::{AccountConfig, EarlyEnd, NoticePolicy, Quotas, ReservationPolicy, Weigh};
pub use config::{
    ClusterConfig, PolicyConfig, PriorityConfig, QueuePriority, Visibility, WebConfig,
};
pub use config::{KeptNodes, PowerConfig};
pub use config::{PreemptBy, PreemptionConfig, QueuePreemption};
pub use controller::Controller;
pub use conversations::history::HistoryRows;
pub use conversations::visible::Eyes;
pub use event::{
    AdminField, Batch, Caller, ClientId, CommandEvent, Described, DescribedJob, DescriptionRequest,
    Effect, Event, Facts, InsidePlan, LinkAnswer, LinkHello, LinkId, LookupFailure, OldJob,
    PowerEnd, PowerOrder, PowerProgram, ResumedJob, TokenSeed, Via, WakeQuestion, predictions,
};
pub use jobs::change::changed;
pub use jobs::shared::SharedSpecs;
pub use machine::power::NodePower;
pub use queues::access::{NamedRights, is_admin, may_come_from, may_name};
pub use queues::scores::{UsageKey, UsageRow};
pub use record::{AccountRow, FiguresRow, HourPriceRow, ReservationRow, ShareRow};
pub use record::{
    ClockRow, JobRow, Loaded, NodeRow, OlderRow, OwnQueue, PartRow, PolicyKey, PolicyRow, Record,
    RestoredRow, SetAside, StandingRow, SubmissionRow,
};
pub use record::{FlowRow, FlowTaskRow, LoadedFlow, OfFlow};
pub use record::{StepBatch, StepUse};
pub use reservations::admission::reservations_in_words;
pub use set_aside::{Object, Witness};
pub use triggers::{Due, Occasion, TriggerRow, TriggerRun};
