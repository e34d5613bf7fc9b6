//! One user, several clusters: asks all of them what a reservation would cost, and books it
//! on the best, or the same time on each of them.
//!
//! This is the what-if paper's Grid Reservation Service (section 3, figure 1); the
//! controllers are its Cluster Reservation Services: probing is a quote, reserving is a
//! hold or a booking. It runs inside the user's command: no daemon, no state, no secret; each
//! cluster knows the user by its own socket. What the paper's information service would say
//! (which clusters there are) is a file, see [`clusters`].
//!
//! What always holds:
//! - what is asked of a cluster and changes something has a key, so that a repeat is
//!   carried out once;
//! - [`book_best`] asks a second cluster only when the first one certainly has nothing, or
//!   nothing that would not lapse by itself;
//! - [`book_all`] leaves all or none, and says exactly what is where when a cluster that is
//!   gone leaves that open.
//!
//! The clusters' clocks are taken to agree, as those of any machines that work together.

mod all;
mod best;
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
pub mod wire;

pub use all::Held;
pub use clusters::{Cluster, names};
pub use outcome::{ClusterOutcome, Outcome, Part, Verdict};
pub use rank::{Preference, Ranked, rank, rank_for};
pub use wire::Failure;

use cosy_model::RefusalCode;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::{Quote, ReservationSpec};
use cosy_proto::client::RequestKey;
use std::time::{Duration, Instant};
use wire::Wire;

/// A quote of each cluster, or why there is none.
pub type Quotes = Vec<(Cluster, Result<Quote, Failure>)>;

/// How long a request that changes something is repeated to a cluster that is not reached
/// or gives no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tries {
    /// In all; at least one try is made.
    pub total: Duration,
    /// Between two tries.
    pub pause: Duration,
}

/// Speaks to clusters through a [`Wire`].
pub struct Broker<'a> {
    wire: &'a Wire<'a>,
    /// To hold, book and confirm. Less than a hold lasts (5 min unless configured).
    tries: Tries,
    /// To give back.
    back: Tries,
}

impl Broker<'static> {
    /// Through the clusters' sockets.
    pub fn new() -> Self {
        const PAUSE: Duration = Duration::from_millis(200);
        Self {
            wire: &wire::socket,
            tries: Tries {
                total: Duration::from_secs(5),
                pause: PAUSE,
            },
            back: Tries {
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
    /// Through that function, with that patience for all changes.
    pub fn over(wire: &'a Wire<'a>, tries: Tries) -> Self {
        Self {
            wire,
            tries,
            back: tries,
        }
    }

    /// Probes all clusters side by side.
    pub fn quote(&self, clusters: &[Cluster], ask: &ReservationSpec, most: Option<u32>) -> Quotes {
        let one = |cluster: &Cluster| self.quote_one(cluster, ask, most);
        let quotes = wire::side_by_side(clusters, one);
        clusters.iter().cloned().zip(quotes).collect()
    }

    fn quote_one(
        &self,
        cluster: &Cluster,
        ask: &ReservationSpec,
        most: Option<u32>,
    ) -> Result<Quote, Failure> {
        let request = Request::Quote {
            ask: Box::new(ask.clone()),
            most,
        };
        match (self.wire)(cluster, &request, None)? {
            Reply::Quote(quote) => Ok(*quote),
            _ => Err(unexpected()),
        }
    }

    /// Asks for a change, again and again while nobody answers; always with the same key.
    /// A failure is [`Failure::Unknown`] as soon as one of the tries may have been heard.
    fn insist(
        &self,
        cluster: &Cluster,
        request: &Request,
        key: RequestKey,
        tries: Tries,
    ) -> Result<Reply, Failure> {
        let started = Instant::now();
        let mut heard = false;
        loop {
            let failure = match (self.wire)(cluster, request, Some(key)) {
                Err(Failure::Refused(r)) if r.code == RefusalCode::Unavailable => {
                    Failure::Refused(r)
                }
                Err(Failure::Refused(r)) => return Err(Failure::Refused(r)),
                Err(failure) => failure,
                Ok(reply) => return Ok(reply),
            };
            heard |= matches!(failure, Failure::Unknown(_));
            if started.elapsed() >= tries.total {
                return Err(if heard {
                    Failure::Unknown(failure.to_string())
                } else {
                    failure
                });
            }
            std::thread::sleep(tries.pause);
        }
    }
}

fn unexpected() -> Failure {
    Failure::from(cosy_client::CallError::Unexpected)
}

/// What each of the clusters offers for `ask`, at most `most` slots each. Asked side by side;
/// one that does not answer is told as such after 10 s.
pub fn quote(clusters: &[Cluster], ask: &ReservationSpec, most: Option<u32>) -> Quotes {
    Broker::new().quote(clusters, ask, most)
}

/// Holds or books on the cluster that offers most to `preference`; when it refuses, on the
/// next (what-if paper, section 3, steps 4 to 7).
pub fn book_best(
    clusters: &[Cluster],
    ask: &ReservationSpec,
    preference: Preference,
    hold: bool,
    job: Option<&Submission>,
) -> Outcome {
    Broker::new().book_best(clusters, ask, preference, hold, job)
}

/// Books the same time on each of the clusters: on all or on none.
pub fn book_all(
    clusters: &[Cluster],
    ask: &ReservationSpec,
    preference: Preference,
    job: Option<&Submission>,
) -> Outcome {
    Broker::new().book_all(clusters, ask, preference, job)
}
