//! Why a job waits. Each reason stands here once, with its word.

use crate::policy::LimitHit;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

macro_rules! wait_reasons {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)+) => {
        /// Why a job waits, the most telling reason first.
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum WaitReason {
            $($(#[$doc])* $name,)+
            /// A limit of its association, its quality of service or its queue's.
            Limit(Box<LimitHit>),
        }

        impl WaitReason {
            /// Every reason but limits, the most telling first.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// One word, as users see it; of a limit [`LimitHit::word`].
            pub fn word(&self) -> Cow<'static, str> {
                Cow::Borrowed(match self {
                    $(Self::$name => $word,)+
                    Self::Limit(hit) => return Cow::Owned(hit.word()),
                })
            }

            /// The reason that a word stands for; `None` for one of another release.
            pub fn of_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$name),)+
                    _ => LimitHit::of_word(word).map(|hit| Self::Limit(Box::new(hit))),
                }
            }
        }
    };
}

wait_reasons! {
    /// Looked at in the next pass.
    Fresh = "fresh";
    /// First of those that wait for resources: it starts as soon as they are free.
    Resources = "resources";
    /// Others come first.
    Priority = "priority";
    /// Waits for other jobs.
    Dependency = "dependency";
    /// What it waits for can no longer happen.
    DependencyNever = "dependency_never";
    /// Its begin time has not come.
    BeginTime = "begin_time";
    /// Held by its user.
    HeldByUser = "held_by_user";
    /// Held by an administrator.
    HeldByAdmin = "held_by_admin";
    /// Its queue starts no jobs now.
    QueueClosed = "queue_closed";
    /// As many tasks of its array run as may run at once.
    ArrayLimit = "array_limit";
    /// As many interactive jobs of its user run as may run at once.
    InteractiveLimit = "interactive_limit";
    /// Nodes that it needs are down or drained.
    NodesUnavailable = "nodes_unavailable";
    /// Nodes that it is to have are switched off, or are on their way up.
    NodesOff = "nodes_off";
    /// An accepted reservation is in the way.
    Reservation = "reservation";
    /// The reservation that it runs in has not begun.
    ReservationStart = "reservation_start";
    /// The reservation that it was to run in is over or was given back.
    ReservationGone = "reservation_gone";
    /// The directory service does not tell the user's groups.
    Directory = "directory";
    /// It no longer fits the machine as configured now.
    NeverFits = "never_fits";
    /// Licences that it needs are in use.
    Licenses = "licenses";
    /// It cannot be over at its deadline.
    Deadline = "deadline";
    /// It was put back into the queue, and held.
    HeldRequeued = "held_requeued";
    /// The same, with a mark that it ended in a special way.
    HeldSpecial = "held_special";
    /// The store was restored from an old copy: nobody knows whether it has run since.
    HeldRestored = "held_restored";
    /// It was lost with nodes more often than the site lets jobs run again.
    HeldLosses = "held_losses";
    /// Its time limit is more than its queue allows.
    QueueTimeLimit = "queue_time_limit";
    /// It asks for more nodes than its queue has or allows.
    QueueNodeLimit = "queue_node_limit";
    /// It asks for more than its queue allows; of what is told when it is looked at.
    QueueLimits = "queue_limits";
    /// Its user is not in the account that it is charged to.
    AccountInvalid = "account_invalid";
    /// Its queue does not take jobs of its account.
    AccountNotAllowed = "account_not_allowed";
    /// Its user may not have its quality of service any more, or there is none of that name.
    QosInvalid = "qos_invalid";
    /// Its queue does not take jobs of its quality of service.
    QosNotAllowed = "qos_not_allowed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_again() {
        for reason in WaitReason::ALL {
            assert_eq!(WaitReason::of_word(&reason.word()).as_ref(), Some(reason));
        }
        assert_eq!(WaitReason::of_word("nonsense"), None);
    }
}
