//! One question to one of several clusters, and the same question to all of them side by
//! side.
//!
//! A [`Wire`] is a plain function, so that tests play clusters without sockets. What always
//! holds: a question that changes something has a key of the broker's, the same at each
//! repeat, so that it is carried out once.

use super::clusters::Cluster;
use cosy_client::{CallError, Caller, Patience};
use cosy_model::Refusal;
use cosy_model::api::{Reply, Request};
use cosy_proto::client::RequestKey;
use std::fmt;
use std::time::Duration;

/// Asks a cluster.
pub type Wire<'a> =
    dyn Fn(&Cluster, &Request, Option<RequestKey>) -> Result<Reply, Failure> + Sync + 'a;

/// Why a cluster did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It was not reached: nothing was changed there.
    Unreachable(String),
    /// It was asked, and no answer came that can be understood: what was asked may have
    /// been done.
    Unknown(String),
    /// It said no: nothing was changed there.
    Refused(Refusal),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Unknown(why) => f.write_str(why),
            Self::Refused(refusal) => f.write_str(&refusal.message),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => Self::Refused(refusal),
            CallError::TooLarge(_) => Self::Refused(Refusal::invalid(error.to_string())),
            CallError::Unreachable { .. } => Self::Unreachable(error.to_string()),
            CallError::Lost { .. }
            | CallError::Garbage { .. }
            | CallError::Version { .. }
            | CallError::Unexpected => Self::Unknown(error.to_string()),
        }
    }
}

/// How long a cluster is waited for that is asked what it could offer: one that does not
/// answer is told of, not waited for.
const PROBE: Patience = Patience {
    answer: Duration::from_secs(10),
    retry: Duration::ZERO,
    pause: Duration::ZERO,
    absent: None,
};

/// How long a cluster is waited for that was asked to change something.
const CHANGE: Patience = Patience {
    answer: Duration::from_secs(20),
    retry: Duration::from_secs(5),
    pause: Duration::from_millis(50),
    absent: None,
};

/// Asks through the cluster's socket.
///
/// # Errors
/// [`Failure`].
pub fn socket(
    cluster: &Cluster,
    request: &Request,
    key: Option<RequestKey>,
) -> Result<Reply, Failure> {
    let patience = if request.changes() { CHANGE } else { PROBE };
    let mut caller = Caller::new(&cluster.socket, patience, |_| ());
    Ok(caller.ask_with(request.clone(), key)?)
}

/// `ask` of each cluster at the same time; the answers in the clusters' order.
pub fn side_by_side<'a, C: Sync, T: Send>(
    clusters: &'a [C],
    ask: impl Fn(&'a C) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let ask = &ask;
        let started: Vec<_> = clusters
            .iter()
            .map(|c| scope.spawn(move || ask(c)))
            .collect();
        let joined = started.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
