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

use super::best::{Granted, ask_at, depends_on_start, granted};
use super::outcome::{ClusterOutcome, Outcome, Part, RejectedSlot};
use super::rank::{Preference, why_not};
use super::starts::{common, unasked};
use super::wire::{Failure, side_by_side};
use super::{Broker, Cluster, Quotes};
use cosy_client::new_key;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::{
    Quote, ReservationInfo, ReservationSpec, ReservationState, StartChoice,
};
use cosy_model::{Refusal, RefusalCode, ReservationId, Time};

/// Most starts that are held before it is given up.
const MOST_ROUNDS: usize = 8;
/// Most starts that are asked about.
const MOST_PROBES: usize = 40;

/// What a cluster holds for this booking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The cluster that was asked.
    pub cluster: Cluster,
    /// What is held there.
    pub reservations: Vec<ReservationInfo>,
}

/// Why a start could not be held everywhere; nothing is held any more.
struct NotHeld {
    parts: Vec<Part>,
    tried: Vec<RejectedSlot>,
    /// Another start may do.
    another: bool,
}

impl Broker<'_> {
    /// See [`super::book_all`].
    pub fn book_all(
        &self,
        clusters: &[Cluster],
        ask: &ReservationSpec,
        preference: Preference,
        job: Option<&Submission>,
    ) -> Outcome {
        match self.hold_all(clusters, ask, preference, job) {
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
        ask: &ReservationSpec,
        preference: Preference,
        job: Option<&Submission>,
    ) -> Result<Vec<Held>, Outcome> {
        if ask.repeat.as_ref().is_some_and(|r| r.as_many_as_fit) {
            return Err(refused(
                clusters,
                "as many starts as fit cannot be all or none on several clusters: let all of them be needed",
            ));
        }
        let ask = &with_fixed_end(ask);
        if ask.repeat.is_some() || matches!(ask.pick, StartChoice::At(_)) {
            let held = self.hold_at(clusters, ask, job);
            return held.map_err(|e| Outcome::of(e.parts, e.tried, Vec::new()));
        }
        let quotes = self.quote(clusters, ask, None);
        let known = answered(&quotes)?;
        let mut tried = Vec::new();
        let mut parts = each(clusters, &ClusterOutcome::Untried);
        let mut rounds = 0;
        for start in common(&known, preference).into_iter().take(MOST_PROBES) {
            let there = ask_at(ask, start, Time(i64::MIN));
            if let Some(no) = self.probe(&quotes, start, &there) {
                tried.push(no);
                continue;
            }
            match self.hold_at(clusters, &there, job) {
                Ok(held) => return Ok(held),
                Err(not) => {
                    tried.extend(not.tried);
                    parts = not.parts;
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
        Err(Outcome::of(parts, tried, Vec::new()))
    }

    /// Asks those clusters that have not said anything of this start; gives the first that
    /// would refuse it.
    fn probe(&self, quotes: &Quotes, start: Time, there: &ReservationSpec) -> Option<RejectedSlot> {
        let fresh = self.quote(&unasked(quotes, start), there, None);
        let no = |(cluster, quote): &(Cluster, Result<Quote, Failure>)| {
            let why = match quote {
                Err(failure) => failure.to_string(),
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

    /// Holds `ask` on all clusters side by side; when one fails, gives the others back.
    fn hold_at(
        &self,
        clusters: &[Cluster],
        ask: &ReservationSpec,
        job: Option<&Submission>,
    ) -> Result<Vec<Held>, NotHeld> {
        let results = side_by_side(clusters, |cluster| self.reserve(cluster, ask, true, job));
        let start = match ask.pick {
            StartChoice::At(start) => Some(start),
            StartChoice::FinishBy
            | StartChoice::Soonest
            | StartChoice::Cheapest
            | StartChoice::Balance { .. } => None,
        };
        let all: Vec<(&Cluster, Result<Granted, Failure>)> = clusters.iter().zip(results).collect();
        if all.iter().all(|(_, r)| r.is_ok()) {
            let held = all.into_iter().filter_map(|(cluster, granted)| {
                Some(Held {
                    cluster: cluster.clone(),
                    reservations: granted.ok()?.reservations,
                })
            });
            return Ok(held.collect());
        }
        let failed = |r: &Result<Granted, Failure>| match r {
            Err(Failure::Refused(r)) => !depends_on_start(r.code),
            Err(Failure::Unreachable(_) | Failure::Unknown(_)) => true,
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
        let parts = side_by_side(&all, |(cluster, result)| self.undo(cluster, result));
        // What is left somewhere is told before anything else is tried.
        let clean = !parts.iter().any(Part::is_loose);
        Err(NotHeld {
            parts,
            tried,
            another: another && clean,
        })
    }

    /// Gives back what a first phase in vain left on a cluster.
    fn undo(&self, cluster: &Cluster, result: &Result<Granted, Failure>) -> Part {
        match result {
            Ok(granted) => self.give_back(cluster, &granted.reservations),
            Err(failure) => Part {
                cluster: cluster.clone(),
                outcome: match failure {
                    Failure::Unknown(_) => ClusterOutcome::Lapsing(failure.clone()),
                    Failure::Unreachable(_) | Failure::Refused(_) => {
                        ClusterOutcome::Nothing(failure.clone())
                    }
                },
            },
        }
    }

    /// The second phase: confirms on all clusters; when one fails, everything is given back
    /// everywhere.
    pub fn confirm_all(&self, held: Vec<Held>) -> Outcome {
        let mut done = Vec::new();
        let mut failed = None;
        // One after another: the fewer are confirmed when one fails, the fewer are to be
        // given back.
        for at in &held {
            match self.confirm(at) {
                Ok(granted) => done.push(granted),
                Err(failure) => {
                    failed = Some((at.cluster.name.clone(), failure));
                    break;
                }
            }
        }
        let Some((cluster, failure)) = failed else {
            return booked(held, done);
        };
        let tried = vec![RejectedSlot {
            cluster,
            start: held
                .iter()
                .flat_map(|h| &h.reservations)
                .map(|r| r.start)
                .min(),
            why: failure.to_string(),
        }];
        // Up to here they are confirmed, or may be.
        let asked = done.len() + usize::from(matches!(failure, Failure::Unknown(_)));
        let now: Vec<(usize, Held)> = held.into_iter().enumerate().collect();
        let parts = side_by_side(&now, |(at, held)| {
            let part = self.give_back(&held.cluster, &held.reservations);
            if *at < asked { no_lapse(part) } else { part }
        });
        Outcome::of(parts, tried, Vec::new())
    }

    fn confirm(&self, held: &Held) -> Result<Granted, Failure> {
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
            let reply = self.insist(&held.cluster, &request, new_key(), self.tries)?;
            let Granted {
                reservations,
                notes,
            } = granted(reply)?;
            all.reservations.extend(reservations);
            all.notes.extend(notes);
        }
        Ok(all)
    }

    /// Cancels reservations, trying for a while.
    pub fn give_back(&self, cluster: &Cluster, reservations: &[ReservationInfo]) -> Part {
        let ids: Vec<ReservationId> = reservations.iter().map(|r| r.id).collect();
        let request = Request::CancelReservation {
            ids: ids.clone(),
            series: false,
        };
        let failure = match self.insist(cluster, &request, new_key(), self.back) {
            Ok(Reply::Done { refused, .. }) => refused
                .into_iter()
                .map(|(_, refusal)| refusal)
                .find(|r| !is_gone(r.code))
                .map(Failure::Refused),
            Ok(_) => Some(super::unexpected()),
            Err(Failure::Refused(r)) if is_gone(r.code) => None,
            Err(failure) => Some(failure),
        };
        let outcome = match failure {
            None => ClusterOutcome::GivenBack(ids),
            Some(why) => ClusterOutcome::Left {
                ids,
                lapses: reservations.iter().filter_map(|r| r.hold_until).max(),
                why,
            },
        };
        Part {
            cluster: cluster.clone(),
            outcome,
        }
    }
}

/// True when there is nothing (any more) to be given back.
const fn is_gone(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::NotFound | RefusalCode::WrongState)
}

fn no_lapse(mut part: Part) -> Part {
    if let ClusterOutcome::Left { lapses, .. } = &mut part.outcome {
        *lapses = None;
    }
    part
}

fn booked(held: Vec<Held>, done: Vec<Granted>) -> Outcome {
    let mut notes = Vec::new();
    let mut parts = Vec::new();
    for (held, granted) in held.into_iter().zip(done) {
        let name = &held.cluster.name;
        notes.extend(granted.notes.iter().map(|n| format!("cluster {name}: {n}")));
        parts.push(Part {
            cluster: held.cluster,
            outcome: ClusterOutcome::Booked(granted.reservations),
        });
    }
    Outcome::of(parts, Vec::new(), notes)
}

/// The quotes, when all clusters gave one.
fn answered(quotes: &Quotes) -> Result<Vec<&Quote>, Outcome> {
    let known: Vec<&Quote> = quotes.iter().filter_map(|(_, q)| q.as_ref().ok()).collect();
    if known.len() == quotes.len() {
        return Ok(known);
    }
    let part = |(cluster, quote): &(Cluster, Result<Quote, Failure>)| Part {
        cluster: cluster.clone(),
        outcome: match quote {
            Ok(_) => ClusterOutcome::Untried,
            Err(failure) => ClusterOutcome::Nothing(failure.clone()),
        },
    };
    Err(Outcome::of(quotes.iter().map(part).collect(), reasons(quotes), Vec::new()))
}

fn each(clusters: &[Cluster], outcome: &ClusterOutcome) -> Vec<Part> {
    let part = |cluster: &Cluster| Part {
        cluster: cluster.clone(),
        outcome: outcome.clone(),
    };
    clusters.iter().map(part).collect()
}

fn refused(clusters: &[Cluster], why: &str) -> Outcome {
    let outcome = ClusterOutcome::Nothing(Failure::Refused(Refusal::invalid(why)));
    Outcome::of(each(clusters, &outcome), Vec::new(), Vec::new())
}

/// A reservation that ends at a time and may be moved would be moved on each cluster by
/// itself: on several it stays where it is.
fn with_fixed_end(ask: &ReservationSpec) -> ReservationSpec {
    let mut fixed = ask.clone();
    if let (StartChoice::FinishBy, Some(end), None) = (ask.pick, ask.latest_end, &ask.repeat) {
        fixed.pick = StartChoice::At(end - ask.length);
        (fixed.earliest, fixed.latest_end) = (None, None);
    }
    fixed
}

/// Why clusters offer nothing: the failure, or what is said of a start.
fn reasons(quotes: &Quotes) -> Vec<RejectedSlot> {
    let reason = |(cluster, quote): &(Cluster, Result<Quote, Failure>)| {
        let why = match quote {
            Err(failure) => failure.to_string(),
            Ok(quote) => why_not(quote)?.reason.clone(),
        };
        Some(RejectedSlot {
            cluster: cluster.name.clone(),
            start: None,
            why,
        })
    };
    quotes.iter().filter_map(reason).collect()
}
