//! Books for one user on several clusters: compares what a reservation would cost on each, and
//! books it on the best one, or the same time on all.
//!
//! This is the what-if paper's Grid Reservation Service (section 3, figure 1); the
//! controllers are its Cluster Reservation Services: probing is a quote, reserving is a
//! hold or a booking. It runs inside the user's command: no daemon, no state, no secret; each
//! cluster knows the user by its own socket. What the paper's information service would say
//! (which clusters there are) is a file, see [`clusters`].
//!
//! What always holds:
//! - a request that changes something has a key, so that a repeat is carried out once;
//! - [`book_best`] asks a second cluster only when the first one certainly has nothing, or
//!   nothing that would not lapse by itself;
//! - [`book_all`] leaves all or none, and says exactly what is where when a cluster that is
//!   gone leaves that open.
//!
//! The clusters' clocks are taken to agree, as those of any machines that work together.

mod book_all;
mod book_best;
pub mod clusters;
#[cfg(test)]
mod fake;
pub mod outcome;
pub mod rank;
pub mod run;
pub mod show;
mod starts;
#[cfg(test)]
mod tests;
pub mod transport;

pub use book_all::ClusterHold;
pub use clusters::{Cluster, names};
pub use outcome::{ClusterOutcome, ClusterResult, Outcome, Verdict};
pub use rank::{Preference, Ranked, rank, rank_for};
pub use transport::ClusterError;

use cosy_model::RefusalCode;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::{Quote, ReservationSpec};
use cosy_proto::client::RequestKey;
use std::time::{Duration, Instant};
use transport::Transport;

/// A quote of each cluster, or why there is none.
pub type Quotes = Vec<(Cluster, Result<Quote, ClusterError>)>;

/// How long a request that changes something is repeated while the cluster cannot be reached or gives
/// no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryTimes {
    /// Time for all tries; at least one is made.
    pub total: Duration,
    /// Pause between two tries.
    pub pause: Duration,
}

/// Quotes and books on several clusters, through a [`Transport`].
pub struct Broker<'a> {
    transport: &'a Transport<'a>,
    /// For requests to hold, book and confirm. Less than a hold lasts (5 min unless configured).
    retry: RetryTimes,
    /// For requests to give back.
    cancel_retry: RetryTimes,
}

impl Broker<'static> {
    /// A broker that reaches clusters by their sockets.
    pub fn new() -> Self {
        const PAUSE: Duration = Duration::from_millis(200);
        Self {
            transport: &transport::socket,
            retry: RetryTimes {
                total: Duration::from_secs(5),
                pause: PAUSE,
            },
            cancel_retry: RetryTimes {
                total: Duration::from_secs(30),
                pause: PAUSE,
            },
        }
    }
}

impl Default for Broker<'static> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Broker<'a> {
    /// A broker over another transport, with the same times for all changes; for tests.
    pub fn over(transport: &'a Transport<'a>, retry: RetryTimes) -> Self {
        Self {
            transport,
            retry,
            cancel_retry: retry,
        }
    }

    /// The quotes of all clusters, requested at the same time; at most `most` slots of each.
    pub fn quote(&self, clusters: &[Cluster], spec: &ReservationSpec, most: Option<u32>) -> Quotes {
        let one = |cluster: &Cluster| self.quote_one(cluster, spec, most);
        let quotes = transport::concurrently(clusters, one);
        clusters.iter().cloned().zip(quotes).collect()
    }

    fn quote_one(
        &self,
        cluster: &Cluster,
        spec: &ReservationSpec,
        most: Option<u32>,
    ) -> Result<Quote, ClusterError> {
        let request = Request::Quote {
            ask: Box::new(spec.clone()),
            most,
            as_job: None,
        };
        match (self.transport)(cluster, &request, None)? {
            Reply::Quote(quote) => Ok(*quote),
            _ => Err(unexpected()),
        }
    }

    /// Sends a request that changes something, again while nobody answers, always with the same key.
    /// The error is [`ClusterError::Unknown`] as soon as one of the tries may have been carried out.
    fn request_with_retry(
        &self,
        cluster: &Cluster,
        request: &Request,
        key: RequestKey,
        retry: RetryTimes,
    ) -> Result<Reply, ClusterError> {
        let started = Instant::now();
        let mut maybe_done = false;
        loop {
            let error = match (self.transport)(cluster, request, Some(key)) {
                Err(ClusterError::Refused(r))
                    if matches!(r.code, RefusalCode::Unavailable | RefusalCode::Standby) =>
                {
                    ClusterError::Refused(r)
                }
                Err(ClusterError::Refused(r)) => return Err(ClusterError::Refused(r)),
                Err(error) => error,
                Ok(reply) => return Ok(reply),
            };
            maybe_done |= matches!(error, ClusterError::Unknown(_));
            if started.elapsed() >= retry.total {
                return Err(if maybe_done {
                    ClusterError::Unknown(error.to_string())
                } else {
                    error
                });
            }
            std::thread::sleep(retry.pause);
        }
    }
}

fn unexpected() -> ClusterError {
    ClusterError::from(cosy_client::CallError::Unexpected)
}

/// The quotes of all clusters, requested at the same time, with at most `most` slots each; a cluster
/// that does not answer within 10 s has an error.
pub fn quote(clusters: &[Cluster], spec: &ReservationSpec, most: Option<u32>) -> Quotes {
    Broker::new().quote(clusters, spec, most)
}

/// Holds or books the best slot by `preference`; when its cluster refuses, the next
/// best (what-if paper, section 3, steps 4 to 7).
pub fn book_best(
    clusters: &[Cluster],
    spec: &ReservationSpec,
    preference: Preference,
    hold: bool,
    job: Option<&Submission>,
) -> Outcome {
    Broker::new().book_best(clusters, spec, preference, hold, job)
}

/// Books the same time on each of the clusters: on all or on none.
pub fn book_all(
    clusters: &[Cluster],
    spec: &ReservationSpec,
    preference: Preference,
    job: Option<&Submission>,
) -> Outcome {
    Broker::new().book_all(clusters, spec, preference, job)
}
