//! What happens, as history tells it: a kind, an object, who did it, and details.
//!
//! What always holds: the words of kinds and objects are in stores, in JSON and in what
//! administrators read, so none changes. A store may have lines with words that this list does not
//! have (of another release): lines that are read are text ([`crate::api::HistoryEvent`]).

use crate::api::HistoryEvent;
use crate::{FlowId, JobId, ReservationId, Time, TriggerId};
use std::fmt;

/// Makes the enum of kinds and the only list of their words.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident => $word:literal,)+) => {
        /// What happens to an object.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum EventKind {
            $($(#[$doc])* $variant,)+
        }

        impl EventKind {
            /// All of them.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// The word of it, as it is in stores and as users see it.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

kinds! {
    /// A node has a link again.
    Back => "back",
    /// A reservation's time has come.
    Began => "began",
    /// A reservation was accepted, to be used and paid.
    Booked => "booked",
    /// Somebody gave it up: a job, a reservation, a workflow.
    Cancelled => "cancelled",
    /// A job or task waits with other wishes; an account, a queue, a node or the licences of a
    /// reservation are others.
    Changed => "changed",
    /// A trigger was taken away.
    Cleared => "cleared",
    /// A clock that was wrong is right again.
    ClockRight => "clock_right",
    /// The controller's clock was set, or its machine slept.
    ClockSet => "clock_set",
    /// A clock is too far from the others.
    ClockWrong => "clock_wrong",
    /// A queue takes no jobs and starts none.
    Closed => "closed",
    /// What was held is final.
    Confirmed => "confirmed",
    /// An account was made.
    Created => "created",
    /// A job that ran while a clock was wrong has other dates.
    DatesSet => "dates_set",
    /// A reservation lacks nodes; the database keeps less than it should.
    Degraded => "degraded",
    /// A queue of an administrator was taken away.
    Deleted => "deleted",
    /// An administrator does not want a node any more.
    Down => "down",
    /// A queue takes no jobs, a node starts none.
    Drained => "drained",
    /// It is over: a job, a reservation, a workflow.
    Ended => "ended",
    /// What was held was not confirmed in time.
    Expired => "expired",
    /// A reservation is longer.
    Extended => "extended",
    /// A reservation had no nodes.
    Failed => "failed",
    /// A job runs that a store from an old copy does not have.
    Found => "found",
    /// The same of one that has ended.
    FoundEnded => "found_ended",
    /// An account has more.
    Granted => "granted",
    /// A job may not start, a reservation or workflow is not final.
    Held => "held",
    /// So many of a licence are in use, as somebody has told.
    InUse => "in_use",
    /// A node came with a token.
    Joined => "joined",
    /// A job has less time, because its nodes are promised.
    LimitCut => "limit_cut",
    /// A job is ended because a limit on minutes is used up.
    LimitUsedUp => "limit_used_up",
    /// A node's link is gone for too long.
    Lost => "lost",
    /// A reservation was used little.
    LowUse => "low_use",
    /// Running jobs make room for a job that waits.
    MakesRoom => "makes_room",
    /// A queue was made by an administrator.
    Made => "made",
    /// A job goes to another queue, a reservation to another time.
    Moved => "moved",
    /// A job has lost a node.
    NodeLost => "node_lost",
    /// A workflow could not be planned again.
    NotReplanned => "not_replanned",
    /// A queue takes and starts jobs.
    Opened => "opened",
    /// A node is told to go off, or is off.
    PoweredDown => "powered_down",
    /// A node is told to come up, or has come up.
    PoweredUp => "powered_up",
    /// The program that switches nodes has failed, or a node did not do as it was told.
    PowerFailed => "power_failed",
    /// A running job makes room for another one.
    Preempted => "preempted",
    /// A job that was to make room need not any more.
    Spared => "spared",
    /// A guaranteed start is later, since others made room for another job.
    StartMoved => "start_moved",
    /// A job runs with another group than it asked for.
    Regrouped => "regrouped",
    /// A job that was held may start.
    Released => "released",
    /// An account was taken away.
    Removed => "removed",
    /// A reservation has its nodes again.
    Repaired => "repaired",
    /// A workflow has other slots.
    Replanned => "replanned",
    /// Somebody wants a job to wait again.
    Requeue => "requeue",
    /// A job waits again.
    Requeued => "requeued",
    /// A job has fewer nodes.
    Resized => "resized",
    /// A suspended job goes on; a node starts jobs again.
    Resumed => "resumed",
    /// A suspended job waits for its cores.
    Resuming => "resuming",
    /// A workflow's task is started again after a failure.
    Retried => "retried",
    /// A node's key counts no more.
    Revoked => "revoked",
    /// A trigger was set.
    Set => "set",
    /// Others may use a reservation.
    Shared => "shared",
    /// A reservation is shorter.
    Shortened => "shortened",
    /// A job has its nodes.
    Started => "started",
    /// A queue starts no jobs.
    Stopped => "stopped",
    /// The store is older than what nodes have seen.
    StoreRestored => "store_restored",
    /// A job or a workflow was accepted.
    Submitted => "submitted",
    /// A job stands still.
    Suspended => "suspended",
    /// A task of a workflow failed for good.
    TaskFailed => "task_failed",
    /// A token for a node was made.
    Token => "token",
    /// A trigger's program was ordered.
    Triggered => "triggered",
    /// A trigger's program has ended.
    TriggerEnded => "trigger_ended",
    /// A trigger's program could not be started.
    TriggerFailed => "trigger_failed",
    /// Nobody is in a reservation that has begun.
    Unused => "unused",
    /// An account has less.
    Withdrawn => "withdrawn",
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The object that an event happens to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventObject {
    /// A job; of an array the whole, by its first id.
    Job(JobId),
    /// A node, by its name: it may be in no configuration any more.
    Node(String),
    /// A queue, by its name.
    Queue(String),
    /// A reservation, by its id; it may be over.
    Reservation(ReservationId),
    /// A workflow, by its id; it may be over.
    Workflow(FlowId),
    /// A trigger, by its id; it may be gone.
    Trigger(TriggerId),
    /// An account, by its name.
    Account(String),
    /// A user in accounts, by login name.
    User(String),
    /// A quality of service, by its name.
    Qos(String),
    /// A licence of the cluster, by its name.
    License(String),
    /// The controller's store.
    Store,
    /// The clock of the controller's machine.
    ControllerClock,
}

impl fmt::Display for EventObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(id) => write!(f, "job {id}"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Reservation(id) => write!(f, "reservation {id}"),
            Self::Workflow(id) => write!(f, "workflow {id}"),
            Self::Trigger(id) => write!(f, "trigger {id}"),
            Self::Account(name) => write!(f, "account {name}"),
            Self::User(name) => write!(f, "user {name}"),
            Self::Qos(name) => write!(f, "qos {name}"),
            Self::License(name) => write!(f, "license {name}"),
            Self::Store => f.write_str("store"),
            Self::ControllerClock => f.write_str("clock of the controller"),
        }
    }
}

/// Something that has happened, to be written down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Number of the event; later ones have higher numbers.
    pub seq: u64,
    /// Time on the wall's clock.
    pub at: Time,
    /// What has happened.
    pub kind: EventKind,
    /// Who: user name, `node NAME`, or [`CONTROLLER`].
    pub who: String,
    /// The object that it happened to.
    pub object: EventObject,
    /// The rest in words.
    pub detail: String,
}

/// Stands in place of a user where the controller acts by itself.
pub const CONTROLLER: &str = "controller";

/// The line as those read it who ask for history.
impl From<&Event> for HistoryEvent {
    fn from(event: &Event) -> Self {
        Self {
            seq: event.seq,
            at: event.at,
            what: event.kind.word().to_owned(),
            who: event.who.clone(),
            object: event.object.to_string(),
            detail: event.detail.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every word that is in stores and that tools look for: none may change.
    const WORDS: &str = "\
        back began booked cancelled changed cleared clock_right clock_set clock_wrong \
        closed confirmed created dates_set degraded deleted down drained ended expired \
        extended failed found found_ended granted held in_use joined limit_cut limit_used_up lost \
        low_use makes_room made moved node_lost not_replanned opened powered_down powered_up power_failed preempted spared \
        start_moved regrouped released removed repaired replanned requeue requeued resized \
        resumed resuming retried revoked set shared shortened started stopped \
        store_restored submitted suspended task_failed token triggered trigger_ended \
        trigger_failed unused withdrawn";

    #[test]
    fn words_of_kinds_stay() {
        let words: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.join(" "), WORDS);
        let different: BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(different.len(), words.len(), "a word is there twice");
    }

    #[test]
    fn words_of_objects_stay() {
        use EventObject as O;
        let check = |object: O, want: &str| assert_eq!(object.to_string(), want);
        check(O::Job(JobId(12)), "job 12");
        check(O::Node("n1".into()), "node n1");
        check(O::Queue("day".into()), "queue day");
        check(O::Reservation(ReservationId(3)), "reservation 3");
        check(O::Workflow(FlowId(4)), "workflow 4");
        check(O::Trigger(TriggerId(5)), "trigger 5");
        check(O::Account("bio".into()), "account bio");
        check(O::License("matlab".into()), "license matlab");
        check(O::Store, "store");
        check(O::ControllerClock, "clock of the controller");
    }
}
