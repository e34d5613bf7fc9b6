//! Who is told what of whose jobs.
//!
//! Users are told everything of their own jobs, administrators of all. Of those of others
//! the cluster tells nothing (`visibility = "own"`), states, sizes and times (`"all"`), or
//! everything (`"everything"`). States, sizes and times are what tells how full the machine
//! is, who has it and when it will be free; what a user has written or chosen freely (names,
//! commands, comments, files, addresses, accounts), what a job has used and how it came out is
//! nobody else's.
//!
//! What is not told cannot be asked for either: conditions on such fields fit no job of
//! others.

use crate::config::{ClusterConfig, Visibility};
use crate::conversations::requests::no_job;
use crate::event::Caller;
use crate::jobs::job::Submitted;
use crate::queues::access::procedures::is_administrator;
use crate::queues::access::{is_admin, is_web};
use cosy_model::api::{JobFilter, JobRef};
use cosy_model::{Refusal, RefusalCode, Uid};
use cosy_view::job::visible::asks_private;

/// Whether a user is told of a job at all.
pub(crate) fn may_see(config: &ClusterConfig, caller: &Caller, job: &Submitted) -> bool {
    may_see_of(config, caller, job.uid)
}

/// The same of a job of that user.
pub(crate) fn may_see_of(config: &ClusterConfig, caller: &Caller, owner: Uid) -> bool {
    match config.policy.visibility {
        Visibility::Own => is_told_all(config, caller, owner),
        Visibility::States | Visibility::Everything => true,
    }
}

/// Whether a user is told everything of a job of that user.
pub(crate) fn is_told_all(config: &ClusterConfig, caller: &Caller, owner: Uid) -> bool {
    owner == caller.user.uid
        || config.policy.visibility == Visibility::Everything
        || is_administrator(config, caller)
        || is_web(config, caller)
}

/// Why a user cannot touch a job of another. Where the job is not told of at all, every
/// request says what it says of one that never was.
pub(crate) fn not_theirs(
    config: &ClusterConfig,
    caller: &Caller,
    owner: Uid,
    job: JobRef,
) -> Refusal {
    match may_see_of(config, caller, owner) {
        true => Refusal::new(RefusalCode::Forbidden, format!("job {job} belongs to somebody else")),
        false => no_job(job),
    }
}

/// Whether a list tells a user of a job; `private`: it is asked for by what others are not
/// told ([`asks_private`]).
pub(crate) fn may_find(
    config: &ClusterConfig,
    caller: &Caller,
    private: bool,
    job: &Submitted,
) -> bool {
    may_see(config, caller, job) && (!private || is_told_all(config, caller, job.uid))
}

/// Of whose jobs that the store has a user is told how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eyes {
    /// Of all everything.
    All,
    /// Of those of that user everything, of others nothing.
    Own(Uid),
    /// Of those of that user everything, of others states, sizes and times.
    InPart(Uid),
}

impl Eyes {
    /// Those of who asks the store for jobs.
    pub fn of(config: &ClusterConfig, caller: &Caller, filter: &JobFilter) -> Self {
        let uid = caller.user.uid;
        match config.policy.visibility {
            _ if is_admin(config, caller) || is_web(config, caller) => Self::All,
            Visibility::Everything => Self::All,
            Visibility::States if !asks_private(filter) => Self::InPart(uid),
            Visibility::States | Visibility::Own => Self::Own(uid),
        }
    }

    /// Whose jobs alone are looked for.
    pub const fn only(self) -> Option<Uid> {
        match self {
            Self::Own(uid) => Some(uid),
            Self::All | Self::InPart(_) => None,
        }
    }

    /// Whether everything is told of a job of that user.
    pub(crate) fn see_all_of(self, owner: Uid) -> bool {
        match self {
            Self::All => true,
            Self::Own(uid) | Self::InPart(uid) => uid == owner,
        }
    }
}
