//! Requests to one of several clusters, and to all of them at the same time.
//!
//! A [`Transport`] is a plain function, so that tests play clusters without sockets. What always
//! holds: a request that changes something has a key of the broker's, the same at each repeat, so
//! that it is carried out once.

use super::clusters::Cluster;
use cosy_client::{CallError, Caller, Looks, RetryPolicy};
use cosy_model::Refusal;
use cosy_model::api::{Reply, Request};
use cosy_proto::client::RequestKey;
use std::fmt;
use std::time::Duration;

/// Sends a request, with its key, to a cluster and gives the answer.
pub type Transport<'a> =
    dyn Fn(&Cluster, &Request, Option<RequestKey>) -> Result<Reply, ClusterError> + Sync + 'a;

/// Why a request to a cluster failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterError {
    /// The cluster was not reached: nothing was changed there.
    Unreachable(String),
    /// The request was sent, and no answer came that can be understood: it may have been carried out.
    Unknown(String),
    /// The cluster refused: nothing was changed there.
    Refused(Refusal),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Unknown(why) => f.write_str(why),
            Self::Refused(refusal) => f.write_str(&refusal.message),
        }
    }
}

impl From<CallError> for ClusterError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => Self::Refused(refusal),
            CallError::TooLarge(_) => Self::Refused(Refusal::invalid(error.to_string())),
            CallError::Unreachable { .. } | CallError::NoLeader { .. } => {
                Self::Unreachable(error.to_string())
            }
            CallError::Lost { .. }
            | CallError::Garbage { .. }
            | CallError::Version { .. }
            | CallError::Unexpected => Self::Unknown(error.to_string()),
        }
    }
}

/// Times for quotes: a cluster that does not answer soon is left out.
const PROBE: RetryPolicy = RetryPolicy {
    answer_timeout: Duration::from_secs(10),
    reconnect_for: Duration::ZERO,
    pause: Duration::ZERO,
    looks: Looks::USUAL,
    controller_wait: None,
};

/// Times for requests that change something.
const CHANGE: RetryPolicy = RetryPolicy {
    answer_timeout: Duration::from_secs(20),
    reconnect_for: Duration::from_secs(5),
    pause: Duration::from_millis(50),
    looks: Looks::USUAL,
    controller_wait: None,
};

/// Sends a request to the cluster's socket.
///
/// # Errors
/// [`ClusterError`].
pub fn socket(
    cluster: &Cluster,
    request: &Request,
    key: Option<RequestKey>,
) -> Result<Reply, ClusterError> {
    let retry = if request.changes() { CHANGE } else { PROBE };
    let mut caller = Caller::new(&cluster.socket, retry, |_| ());
    Ok(caller.ask_with_key(request.clone(), key)?)
}

/// Calls `request` for each cluster, on threads of their own; the results are in the clusters' order.
pub fn concurrently<'a, C: Sync, T: Send>(
    clusters: &'a [C],
    request: impl Fn(&'a C) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let request = &request;
        let started: Vec<_> = clusters
            .iter()
            .map(|c| scope.spawn(move || request(c)))
            .collect();
        let joined = started.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
