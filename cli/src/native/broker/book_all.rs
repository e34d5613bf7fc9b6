//! The same time on each of several clusters, all or none, in two phases.
//!
//! ```text
//!  hold on all ──all held──▶ confirm one after another ──all confirmed──▶ done
//!      │ one refuses or is gone             │ one refuses or is gone
//!      ▼                                    ▼
//!  give back what is held          give back what is held and confirmed
//! ```
//!
//! Giving back costs nothing before the holds would have expired, so the user pays for all
//! or for nothing. A cluster that is gone may keep something: a hold lapses by itself, and
//! what is more the outcome names, with the command that gives it back.
//!
//! Source: what-if paper, section 3; COSY paper, 3.2 "Two phase commitment". The paper's
//! service reserves on one cluster only; the second phase is ours.

use super::book_best::{Granted, depends_on_start, granted, spec_at};
use super::outcome::{ClusterOutcome, ClusterResult, Outcome, RejectedSlot};
use super::rank::{Preference, telling_refusal};
use super::starts::{common_starts, without_quote};
use super::transport::{ClusterError, concurrently};
use super::{Broker, Cluster, Quotes};
use cosy_client::new_key;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::{
    Quote, ReservationInfo, ReservationSpec, ReservationState, StartChoice,
};
use cosy_model::{Refusal, RefusalCode, ReservationId, Time};

/// Starts at which slots are held before the search is given up.
const MOST_ROUNDS: usize = 8;
/// Starts that are quoted before the search is given up.
const MOST_PROBES: usize = 40;

/// The reservations that one cluster holds for this booking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterHold {
    /// The cluster that holds them.
    pub cluster: Cluster,
    /// In the state `held`; several for a repeating reservation.
    pub reservations: Vec<ReservationInfo>,
}

/// Why a start could not be held on all clusters. What was held has been given back, as far as the
/// clusters could be reached.
struct HoldError {
    results: Vec<ClusterResult>,
    tried: Vec<RejectedSlot>,
    /// Another start may be possible.
    another: bool,
}

impl Broker<'_> {
    /// Holds and confirms on all clusters, or on none; see [`super::book_all`].
    pub fn book_all(
        &self,
        clusters: &[Cluster],
        spec: &ReservationSpec,
        preference: Preference,
        job: Option<&Submission>,
    ) -> Outcome {
        match self.hold_all(clusters, spec, preference, job) {
            Ok(held) => self.confirm_all(held),
            Err(outcome) => outcome,
        }
    }

    /// The first phase: holds the same time on each of the clusters.
    ///
    /// # Errors
    /// The outcome, when it could not be held everywhere: whatever was held is given back.
    pub fn hold_all(
        &self,
        clusters: &[Cluster],
        spec: &ReservationSpec,
        preference: Preference,
        job: Option<&Submission>,
    ) -> Result<Vec<ClusterHold>, Outcome> {
        if spec.repeat.as_ref().is_some_and(|r| r.as_many_as_fit) {
            return Err(refused(
                clusters,
                "as many starts as fit cannot be all or none on several clusters: let all of them be needed",
            ));
        }
        let spec = &with_fixed_end(spec);
        if spec.repeat.is_some() || matches!(spec.pick, StartChoice::At(_)) {
            let held = self.hold_at(clusters, spec, job);
            return held.map_err(|e| Outcome::of(e.results, e.tried, Vec::new()));
        }
        let quotes = self.quote(clusters, spec, None);
        let known = require_quotes(&quotes)?;
        let mut tried = Vec::new();
        let mut results = each(clusters, &ClusterOutcome::Untried);
        let mut rounds = 0;
        for start in common_starts(&known, preference)
            .into_iter()
            .take(MOST_PROBES)
        {
            let spec_there = spec_at(spec, start, Time(i64::MIN));
            if let Some(no) = self.probe(&quotes, start, &spec_there) {
                tried.push(no);
                continue;
            }
            match self.hold_at(clusters, &spec_there, job) {
                Ok(held) => return Ok(held),
                Err(not) => {
                    tried.extend(not.tried);
                    results = not.results;
                    rounds += 1;
                    if !not.another || rounds == MOST_ROUNDS {
                        break;
                    }
                }
            }
        }
        if tried.is_empty() {
            tried = reasons(&quotes);
        }
        Err(Outcome::of(results, tried, Vec::new()))
    }

    /// Requests quotes from the clusters that have not quoted this very start; gives the first refusal.
    fn probe(
        &self,
        quotes: &Quotes,
        start: Time,
        spec_there: &ReservationSpec,
    ) -> Option<RejectedSlot> {
        let fresh = self.quote(&without_quote(quotes, start), spec_there, None);
        let no = |(cluster, quote): &(Cluster, Result<Quote, ClusterError>)| {
            let why = match quote {
                Err(error) => error.to_string(),
                Ok(quote) => match quote.slots.iter().find(|s| s.start == start) {
                    Some(slot) if slot.admitted => return None,
                    Some(slot) => slot.reason.clone(),
                    None => "it does not offer this start".to_owned(),
                },
            };
            Some(RejectedSlot {
                cluster: cluster.name.clone(),
                start: Some(start),
                why,
            })
        };
        fresh.iter().find_map(no)
    }

    /// Holds `spec` on all clusters side by side; when one fails, gives the others back.
    fn hold_at(
        &self,
        clusters: &[Cluster],
        spec: &ReservationSpec,
        job: Option<&Submission>,
    ) -> Result<Vec<ClusterHold>, HoldError> {
        let results = concurrently(clusters, |cluster| self.reserve(cluster, spec, true, job));
        let start = match spec.pick {
            StartChoice::At(start) => Some(start),
            StartChoice::FinishBy
            | StartChoice::Soonest
            | StartChoice::Cheapest
            | StartChoice::Balance { .. } => None,
        };
        let all: Vec<(&Cluster, Result<Granted, ClusterError>)> =
            clusters.iter().zip(results).collect();
        if all.iter().all(|(_, r)| r.is_ok()) {
            let held = all.into_iter().filter_map(|(cluster, granted)| {
                Some(ClusterHold {
                    cluster: cluster.clone(),
                    reservations: granted.ok()?.reservations,
                })
            });
            return Ok(held.collect());
        }
        let failed = |r: &Result<Granted, ClusterError>| match r {
            Err(ClusterError::Refused(r)) => !depends_on_start(r.code),
            Err(ClusterError::Unreachable(_) | ClusterError::Unknown(_)) => true,
            Ok(_) => false,
        };
        let another = !all.iter().any(|(_, r)| failed(r));
        let tried = all.iter().filter_map(|(cluster, r)| {
            Some(RejectedSlot {
                cluster: cluster.name.clone(),
                start,
                why: r.as_ref().err()?.to_string(),
            })
        });
        let tried = tried.collect();
        let results = concurrently(&all, |(cluster, result)| self.undo(cluster, result));
        // Where something is left, no other start is tried.
        let clean = !results.iter().any(ClusterResult::leaves_something);
        Err(HoldError {
            results,
            tried,
            another: another && clean,
        })
    }

    /// Gives back what a first phase that failed left on a cluster.
    fn undo(&self, cluster: &Cluster, result: &Result<Granted, ClusterError>) -> ClusterResult {
        match result {
            Ok(granted) => self.give_back(cluster, &granted.reservations),
            Err(error) => ClusterResult {
                cluster: cluster.clone(),
                outcome: match error {
                    ClusterError::Unknown(_) => ClusterOutcome::Lapsing(error.clone()),
                    ClusterError::Unreachable(_) | ClusterError::Refused(_) => {
                        ClusterOutcome::Nothing(error.clone())
                    }
                },
            },
        }
    }

    /// The second phase: confirms on all clusters; when one fails, everything is given back
    /// everywhere.
    pub fn confirm_all(&self, held: Vec<ClusterHold>) -> Outcome {
        let mut done = Vec::new();
        let mut failed = None;
        // One after another, so that few are confirmed, and have to be given back, when one fails.
        for at in &held {
            match self.confirm(at) {
                Ok(granted) => done.push(granted),
                Err(error) => {
                    failed = Some((at.cluster.name.clone(), error));
                    break;
                }
            }
        }
        let Some((cluster, error)) = failed else {
            return booked(held, done);
        };
        let tried = vec![RejectedSlot {
            cluster,
            start: held
                .iter()
                .flat_map(|h| &h.reservations)
                .map(|r| r.start)
                .min(),
            why: error.to_string(),
        }];
        // The clusters up to here have confirmed, or may have.
        let requested = done.len() + usize::from(matches!(error, ClusterError::Unknown(_)));
        let now: Vec<(usize, ClusterHold)> = held.into_iter().enumerate().collect();
        let results = concurrently(&now, |(at, held)| {
            let result = self.give_back(&held.cluster, &held.reservations);
            if *at < requested {
                no_lapse(result)
            } else {
                result
            }
        });
        Outcome::of(results, tried, Vec::new())
    }

    fn confirm(&self, held: &ClusterHold) -> Result<Granted, ClusterError> {
        let mut all = Granted {
            reservations: Vec::new(),
            notes: Vec::new(),
        };
        for r in &held.reservations {
            // A series may be confirmed as a whole with its first one.
            let confirmed = |c: &ReservationInfo| c.id == r.id && c.state != ReservationState::Held;
            if all.reservations.iter().any(confirmed) {
                continue;
            }
            let request = Request::Confirm { id: r.id };
            let reply = self.request_with_retry(&held.cluster, &request, new_key(), self.retry)?;
            let Granted {
                reservations,
                notes,
            } = granted(reply)?;
            all.reservations.extend(reservations);
            all.notes.extend(notes);
        }
        Ok(all)
    }

    /// Cancels reservations of a cluster, with several tries.
    pub fn give_back(&self, cluster: &Cluster, reservations: &[ReservationInfo]) -> ClusterResult {
        let ids: Vec<ReservationId> = reservations.iter().map(|r| r.id).collect();
        let request = Request::CancelReservation {
            ids: ids.clone(),
            series: false,
        };
        let error = match self.request_with_retry(cluster, &request, new_key(), self.cancel_retry) {
            Ok(Reply::Done { refused, .. }) => refused
                .into_iter()
                .map(|(_, refusal)| refusal)
                .find(|r| !is_gone(r.code))
                .map(ClusterError::Refused),
            Ok(_) => Some(super::unexpected()),
            Err(ClusterError::Refused(r)) if is_gone(r.code) => None,
            Err(error) => Some(error),
        };
        let outcome = match error {
            None => ClusterOutcome::GivenBack(ids),
            Some(why) => ClusterOutcome::Left {
                ids,
                lapses: reservations.iter().filter_map(|r| r.hold_until).max(),
                why,
            },
        };
        ClusterResult {
            cluster: cluster.clone(),
            outcome,
        }
    }
}

/// True for refusals of a reservation that is not there, or not there any more.
const fn is_gone(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::NotFound | RefusalCode::WrongState)
}

fn no_lapse(mut result: ClusterResult) -> ClusterResult {
    if let ClusterOutcome::Left { lapses, .. } = &mut result.outcome {
        *lapses = None;
    }
    result
}

fn booked(held: Vec<ClusterHold>, done: Vec<Granted>) -> Outcome {
    let mut notes = Vec::new();
    let mut results = Vec::new();
    for (held, granted) in held.into_iter().zip(done) {
        let name = &held.cluster.name;
        notes.extend(granted.notes.iter().map(|n| format!("cluster {name}: {n}")));
        results.push(ClusterResult {
            cluster: held.cluster,
            outcome: ClusterOutcome::Booked(granted.reservations),
        });
    }
    Outcome::of(results, Vec::new(), notes)
}

/// The quotes of all clusters; the outcome where one gave none.
fn require_quotes(quotes: &Quotes) -> Result<Vec<&Quote>, Outcome> {
    let known: Vec<&Quote> = quotes.iter().filter_map(|(_, q)| q.as_ref().ok()).collect();
    if known.len() == quotes.len() {
        return Ok(known);
    }
    let result = |(cluster, quote): &(Cluster, Result<Quote, ClusterError>)| ClusterResult {
        cluster: cluster.clone(),
        outcome: match quote {
            Ok(_) => ClusterOutcome::Untried,
            Err(error) => ClusterOutcome::Nothing(error.clone()),
        },
    };
    Err(Outcome::of(quotes.iter().map(result).collect(), reasons(quotes), Vec::new()))
}

fn each(clusters: &[Cluster], outcome: &ClusterOutcome) -> Vec<ClusterResult> {
    let result = |cluster: &Cluster| ClusterResult {
        cluster: cluster.clone(),
        outcome: outcome.clone(),
    };
    clusters.iter().map(result).collect()
}

fn refused(clusters: &[Cluster], why: &str) -> Outcome {
    let outcome = ClusterOutcome::Nothing(ClusterError::Refused(Refusal::invalid(why)));
    Outcome::of(each(clusters, &outcome), Vec::new(), Vec::new())
}

/// A reservation that has to end at a time may be moved later, by each cluster on its own: on several
/// clusters it gets a fixed start.
fn with_fixed_end(spec: &ReservationSpec) -> ReservationSpec {
    let mut fixed = spec.clone();
    if let (StartChoice::FinishBy, Some(end), None) = (spec.pick, spec.latest_end, &spec.repeat) {
        fixed.pick = StartChoice::At(end - spec.length);
        (fixed.earliest, fixed.latest_end) = (None, None);
    }
    fixed
}

/// Why clusters offer nothing: the error, or the reason at a slot that is refused.
fn reasons(quotes: &Quotes) -> Vec<RejectedSlot> {
    let reason = |(cluster, quote): &(Cluster, Result<Quote, ClusterError>)| {
        let why = match quote {
            Err(error) => error.to_string(),
            Ok(quote) => telling_refusal(quote)?.reason.clone(),
        };
        Some(RejectedSlot {
            cluster: cluster.name.clone(),
            start: None,
            why,
        })
    };
    quotes.iter().filter_map(reason).collect()
}
