//! One slot on the best of several clusters.
//!
//! Source: what-if paper, section 3: probe (step 4), order the slots by the user's
//! preference, reserve the best (step 6); "if the request fails (step 7), the time slot is
//! removed and the processing continues with step 4".

use super::outcome::{ClusterOutcome, Outcome, Part, RejectedSlot};
use super::rank::{Preference, Ranked, places_itself, rank_for, why_not};
use super::wire::Failure;
use super::{Broker, Cluster, Quotes};
use cosy_client::new_key;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::{ReservationInfo, ReservationSpec, StartChoice};
use cosy_model::{Refusal, RefusalCode, Span, Time};

/// Most slots that are tried before it is given up.
const MOST_TRIES: usize = 20;
/// A slot that begins within this time is asked for as the first possible one: its own start
/// would be over before the request is there.
const AT_ONCE: Span = Span::from_secs(5);

/// The controller's words on what was reserved.
pub(super) struct Granted {
    pub reservations: Vec<ReservationInfo>,
    pub notes: Vec<String>,
}

/// Where the search is.
struct Search<'a> {
    clusters: Vec<Cluster>,
    ask: &'a ReservationSpec,
    tried: Vec<RejectedSlot>,
    removed: Vec<(Cluster, Time)>,
    parts: Vec<Part>,
}

impl Search<'_> {
    /// Does not ask that cluster again.
    fn drop_cluster(&mut self, cluster: &Cluster, outcome: ClusterOutcome) {
        self.clusters.retain(|c| c != cluster);
        self.parts.push(Part {
            cluster: cluster.clone(),
            outcome,
        });
    }

    /// Those that gave no quote are not asked again.
    fn drop_silent(&mut self, quotes: &Quotes) {
        for (cluster, quote) in quotes {
            if let Err(failure) = quote {
                self.note(cluster, None, failure);
                self.drop_cluster(cluster, ClusterOutcome::Nothing(failure.clone()));
            }
        }
    }

    fn note(&mut self, cluster: &Cluster, start: Option<Time>, failure: &Failure) {
        self.tried.push(RejectedSlot {
            cluster: cluster.name.clone(),
            start,
            why: failure.to_string(),
        });
    }

    /// The best slot that was not tried yet.
    fn best(&self, quotes: &Quotes, preference: Preference) -> Option<Ranked> {
        let all = rank_for(quotes, self.ask, preference);
        let fresh = |r: &Ranked| {
            let key = (r.cluster.clone(), r.slot.start);
            !self.removed.contains(&key)
        };
        all.into_iter().find(fresh)
    }

    /// Why clusters that did answer offer nothing (more).
    fn nothing_offered(&mut self, quotes: &Quotes) {
        for (cluster, quote) in quotes {
            if let Ok(quote) = quote {
                let reason =
                    why_not(quote).map_or("it offers no other start", |s| s.reason.as_str());
                let failure = Failure::Refused(Refusal::new(RefusalCode::Admission, reason));
                if !self.tried.iter().any(|t| t.cluster == cluster.name) {
                    self.note(cluster, None, &failure);
                }
                self.drop_cluster(cluster, ClusterOutcome::Nothing(failure));
            }
        }
    }
}

impl Broker<'_> {
    /// See [`super::book_best`].
    pub fn book_best(
        &self,
        clusters: &[Cluster],
        ask: &ReservationSpec,
        preference: Preference,
        hold: bool,
        job: Option<&Submission>,
    ) -> Outcome {
        let mut search = Search {
            clusters: clusters.to_vec(),
            ask,
            tried: Vec::new(),
            removed: Vec::new(),
            parts: Vec::new(),
        };
        for _ in 0..MOST_TRIES {
            let quotes = self.quote(&search.clusters, ask, None);
            search.drop_silent(&quotes);
            let Some(best) = search.best(&quotes, preference) else {
                search.nothing_offered(&quotes);
                break;
            };
            let there = ask_at(ask, best.slot.start, best.now);
            match self.reserve(&best.cluster, &there, hold, job) {
                Ok(granted) => return won(search, best.cluster, hold, granted),
                Err(Failure::Unknown(why)) if !hold => {
                    // It may be booked: another booking beside it could be one too many.
                    search.drop_cluster(
                        &best.cluster,
                        ClusterOutcome::Unclear(Failure::Unknown(why)),
                    );
                    break;
                }
                Err(failure) => lost(&mut search, best, failure),
            }
        }
        for cluster in search.clusters.clone() {
            search.drop_cluster(&cluster, ClusterOutcome::Untried);
        }
        Outcome::of(search.parts, search.tried, Vec::new())
    }

    /// Holds or books on one cluster.
    pub(super) fn reserve(
        &self,
        cluster: &Cluster,
        ask: &ReservationSpec,
        hold: bool,
        job: Option<&Submission>,
    ) -> Result<Granted, Failure> {
        let request = Request::Reserve {
            ask: Box::new(ask.clone()),
            hold,
            job: job.cloned().map(Box::new),
        };
        granted(self.insist(cluster, &request, new_key(), self.tries)?)
    }
}

pub(super) fn granted(reply: Reply) -> Result<Granted, Failure> {
    let Reply::Reserved {
        reservations,
        conflicts,
        note,
    } = reply
    else {
        return Err(super::unexpected());
    };
    let not = |(start, refusal): &(Time, Refusal)| {
        let start = crate::times::rfc3339(*start).unwrap_or_else(|| "far ahead".to_owned());
        format!("not at {start}: {refusal}")
    };
    let mut notes: Vec<String> = conflicts.iter().map(not).collect();
    notes.extend(Some(note).filter(|n| !n.is_empty()));
    Ok(Granted {
        reservations,
        notes,
    })
}

fn won(search: Search<'_>, cluster: Cluster, hold: bool, granted: Granted) -> Outcome {
    let outcome = if hold {
        ClusterOutcome::Held(granted.reservations)
    } else {
        ClusterOutcome::Booked(granted.reservations)
    };
    // Those that failed before are told in `tried`, unless something may be there.
    let open = |p: &Part| matches!(p.outcome, ClusterOutcome::Lapsing(_));
    let mut notes = granted.notes;
    for part in search.parts.iter().filter(|p| open(p)) {
        notes.push(format!(
            "cluster {} may have a hold too: it lapses by itself",
            part.cluster.name
        ));
    }
    Outcome::of(vec![Part { cluster, outcome }], search.tried, notes)
}

/// Takes the slot out, or the whole cluster where another start would not help.
fn lost(search: &mut Search<'_>, slot: Ranked, failure: Failure) {
    search.note(&slot.cluster, Some(slot.slot.start), &failure);
    match failure {
        Failure::Refused(r) if depends_on_start(r.code) && !places_itself(search.ask) => {
            search.removed.push((slot.cluster, slot.slot.start));
        }
        Failure::Unknown(_) => search.drop_cluster(&slot.cluster, ClusterOutcome::Lapsing(failure)),
        Failure::Refused(_) | Failure::Unreachable(_) => {
            search.drop_cluster(&slot.cluster, ClusterOutcome::Nothing(failure));
        }
    }
}

/// True when another start could be granted where this one was not.
pub(super) const fn depends_on_start(code: RefusalCode) -> bool {
    match code {
        RefusalCode::NotFree | RefusalCode::Admission | RefusalCode::Price => true,
        RefusalCode::Invalid
        | RefusalCode::NotFound
        | RefusalCode::Forbidden
        | RefusalCode::AccessDenied
        | RefusalCode::QueueLimit
        | RefusalCode::NeverFits
        | RefusalCode::QueueClosed
        | RefusalCode::WrongState
        | RefusalCode::Unavailable
        | RefusalCode::DirectoryDown
        | RefusalCode::Version
        | RefusalCode::TooMany => false,
    }
}

/// The same with this start; a start that is as good as now stays the first possible one.
pub(super) fn ask_at(ask: &ReservationSpec, start: Time, now: Time) -> ReservationSpec {
    let mut there = ask.clone();
    if places_itself(ask) || matches!(ask.pick, StartChoice::At(_)) {
        return there;
    }
    if start <= now + AT_ONCE {
        there.pick = StartChoice::Soonest;
        return there;
    }
    there.pick = StartChoice::At(start);
    (there.earliest, there.latest_end) = (None, None);
    there
}

#[cfg(test)]
mod tests {
    use super::super::fake::{ask, minutes};
    use super::*;
    use cosy_model::reservation::Repeat;

    #[test]
    fn what_is_asked_of_the_best() {
        let window = |pick| ReservationSpec {
            earliest: Some(minutes(0)),
            latest_end: Some(minutes(600)),
            ..ask(pick)
        };
        let check = |asked: ReservationSpec, start: i64, want: (StartChoice, bool)| {
            let there = ask_at(&asked, minutes(start), minutes(0));
            assert_eq!((there.pick, there.latest_end.is_some()), want);
        };
        let at = |start| StartChoice::At(minutes(start));
        // Its own start, without the window that it was found in.
        check(window(StartChoice::Soonest), 30, (at(30), false));
        check(window(StartChoice::Cheapest), 30, (at(30), false));
        // At once: a start of now would be over.
        check(window(StartChoice::Cheapest), 0, (StartChoice::Soonest, true));
        // These stay what they are.
        check(ask(at(40)), 40, (at(40), false));
        check(window(StartChoice::FinishBy), 540, (StartChoice::FinishBy, true));
        let mut series = ask(at(40));
        series.repeat = Some(Repeat::default());
        check(series, 40, (at(40), false));
    }
}
