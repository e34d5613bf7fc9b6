//! One slot on the best of several clusters.
//!
//! Source: what-if paper, section 3: probe (step 4), order the slots by the user's
//! preference, reserve the best (step 6); "if the request fails (step 7), the time slot is
//! removed and the processing continues with step 4".

use super::outcome::{ClusterOutcome, ClusterResult, Outcome, RejectedSlot};
use super::rank::{Preference, Ranked, places_itself, rank_for, telling_refusal};
use super::transport::ClusterError;
use super::{Broker, Cluster, Quotes};
use cosy_client::new_key;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::{ReservationInfo, ReservationSpec, StartChoice};
use cosy_model::{Refusal, RefusalCode, Span, Time};

/// Slots that are tried before the search is given up.
const MOST_TRIES: usize = 20;
/// A slot that begins within this time is requested as the first possible one: its start may have
/// passed when the request arrives.
const AT_ONCE: Span = Span::from_secs(5);

/// What a controller has reserved, and its notes.
pub(super) struct Granted {
    pub reservations: Vec<ReservationInfo>,
    pub notes: Vec<String>,
}

/// The state of a search.
struct Search<'a> {
    clusters: Vec<Cluster>,
    spec: &'a ReservationSpec,
    tried: Vec<RejectedSlot>,
    removed: Vec<(Cluster, Time)>,
    results: Vec<ClusterResult>,
}

impl Search<'_> {
    /// Takes a cluster out of the search.
    fn drop_cluster(&mut self, cluster: &Cluster, outcome: ClusterOutcome) {
        self.clusters.retain(|c| c != cluster);
        self.results.push(ClusterResult {
            cluster: cluster.clone(),
            outcome,
        });
    }

    /// Takes the clusters that gave no quote out of the search.
    fn drop_silent(&mut self, quotes: &Quotes) {
        for (cluster, quote) in quotes {
            if let Err(error) = quote {
                self.note(cluster, None, error);
                self.drop_cluster(cluster, ClusterOutcome::Nothing(error.clone()));
            }
        }
    }

    fn note(&mut self, cluster: &Cluster, start: Option<Time>, error: &ClusterError) {
        self.tried.push(RejectedSlot {
            cluster: cluster.name.clone(),
            start,
            why: error.to_string(),
        });
    }

    /// The best slot that has not been tried.
    fn best(&self, quotes: &Quotes, preference: Preference) -> Option<Ranked> {
        let all = rank_for(quotes, self.spec, preference);
        let fresh = |r: &Ranked| {
            let key = (r.cluster.clone(), r.slot.start);
            !self.removed.contains(&key)
        };
        all.into_iter().find(fresh)
    }

    /// Notes for each cluster that answered why it offers nothing, or nothing more.
    fn nothing_offered(&mut self, quotes: &Quotes) {
        for (cluster, quote) in quotes {
            if let Ok(quote) = quote {
                let reason = telling_refusal(quote)
                    .map_or("it offers no other start", |s| s.reason.as_str());
                let error = ClusterError::Refused(Refusal::new(RefusalCode::Admission, reason));
                if !self.tried.iter().any(|t| t.cluster == cluster.name) {
                    self.note(cluster, None, &error);
                }
                self.drop_cluster(cluster, ClusterOutcome::Nothing(error));
            }
        }
    }
}

impl Broker<'_> {
    /// Books on the cluster with the best slot; see [`super::book_best`].
    pub fn book_best(
        &self,
        clusters: &[Cluster],
        spec: &ReservationSpec,
        preference: Preference,
        hold: bool,
        job: Option<&Submission>,
    ) -> Outcome {
        let mut search = Search {
            clusters: clusters.to_vec(),
            spec,
            tried: Vec::new(),
            removed: Vec::new(),
            results: Vec::new(),
        };
        for _ in 0..MOST_TRIES {
            let quotes = self.quote(&search.clusters, spec, None);
            search.drop_silent(&quotes);
            let Some(best) = search.best(&quotes, preference) else {
                search.nothing_offered(&quotes);
                break;
            };
            let spec_there = spec_at(spec, best.slot.start, best.now);
            match self.reserve(&best.cluster, &spec_there, hold, job) {
                Ok(granted) => return booked_outcome(search, best.cluster, hold, granted),
                Err(ClusterError::Unknown(why)) if !hold => {
                    // It may be booked, and another booking could be one too many.
                    search.drop_cluster(
                        &best.cluster,
                        ClusterOutcome::Unclear(ClusterError::Unknown(why)),
                    );
                    break;
                }
                Err(error) => drop_slot(&mut search, best, error),
            }
        }
        for cluster in search.clusters.clone() {
            search.drop_cluster(&cluster, ClusterOutcome::Untried);
        }
        Outcome::of(search.results, search.tried, Vec::new())
    }

    /// Holds or books on one cluster.
    pub(super) fn reserve(
        &self,
        cluster: &Cluster,
        spec: &ReservationSpec,
        hold: bool,
        job: Option<&Submission>,
    ) -> Result<Granted, ClusterError> {
        let request = Request::Reserve {
            ask: Box::new(spec.clone()),
            hold,
            job: job.cloned().map(Box::new),
        };
        granted(self.request_with_retry(cluster, &request, new_key(), self.retry)?)
    }
}

pub(super) fn granted(reply: Reply) -> Result<Granted, ClusterError> {
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

fn booked_outcome(search: Search<'_>, cluster: Cluster, hold: bool, granted: Granted) -> Outcome {
    let outcome = if hold {
        ClusterOutcome::Held(granted.reservations)
    } else {
        ClusterOutcome::Booked(granted.reservations)
    };
    // Clusters that failed before are in `tried`; those that may have a hold get a note.
    let open = |p: &ClusterResult| matches!(p.outcome, ClusterOutcome::Lapsing(_));
    let mut notes = granted.notes;
    for result in search.results.iter().filter(|p| open(p)) {
        notes.push(format!(
            "cluster {} may have a hold too: it lapses by itself",
            result.cluster.name
        ));
    }
    Outcome::of(vec![ClusterResult { cluster, outcome }], search.tried, notes)
}

/// Takes a refused slot out of the search, or its cluster where another start would not help.
fn drop_slot(search: &mut Search<'_>, slot: Ranked, error: ClusterError) {
    search.note(&slot.cluster, Some(slot.slot.start), &error);
    match error {
        ClusterError::Refused(r) if depends_on_start(r.code) && !places_itself(search.spec) => {
            search.removed.push((slot.cluster, slot.slot.start));
        }
        ClusterError::Unknown(_) => {
            search.drop_cluster(&slot.cluster, ClusterOutcome::Lapsing(error))
        }
        ClusterError::Refused(_) | ClusterError::Unreachable(_) => {
            search.drop_cluster(&slot.cluster, ClusterOutcome::Nothing(error));
        }
    }
}

/// True when a refusal concerns this start, so that another one may be granted.
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
        | RefusalCode::Standby
        | RefusalCode::DirectoryDown
        | RefusalCode::Version
        | RefusalCode::TooMany => false,
    }
}

/// The same request with this start; a start that is about now becomes the first possible one.
pub(super) fn spec_at(spec: &ReservationSpec, start: Time, now: Time) -> ReservationSpec {
    let mut spec_there = spec.clone();
    if places_itself(spec) || matches!(spec.pick, StartChoice::At(_)) {
        return spec_there;
    }
    if start <= now + AT_ONCE {
        spec_there.pick = StartChoice::Soonest;
        return spec_there;
    }
    spec_there.pick = StartChoice::At(start);
    (spec_there.earliest, spec_there.latest_end) = (None, None);
    spec_there
}

#[cfg(test)]
mod tests {
    use super::super::fake::{minutes, spec};
    use super::*;
    use cosy_model::reservation::Repeat;

    #[test]
    fn what_is_asked_of_the_best() {
        let window = |pick| ReservationSpec {
            earliest: Some(minutes(0)),
            latest_end: Some(minutes(600)),
            ..spec(pick)
        };
        let check = |requested: ReservationSpec, start: i64, want: (StartChoice, bool)| {
            let spec_there = spec_at(&requested, minutes(start), minutes(0));
            assert_eq!((spec_there.pick, spec_there.latest_end.is_some()), want);
        };
        let at = |start| StartChoice::At(minutes(start));
        // Its own start, without the window that it was found in.
        check(window(StartChoice::Soonest), 30, (at(30), false));
        check(window(StartChoice::Cheapest), 30, (at(30), false));
        // At once: a start of now would be over.
        check(window(StartChoice::Cheapest), 0, (StartChoice::Soonest, true));
        // These stay what they are.
        check(spec(at(40)), 40, (at(40), false));
        check(window(StartChoice::FinishBy), 540, (StartChoice::FinishBy, true));
        let mut series = spec(at(40));
        series.repeat = Some(Repeat::default());
        check(series, 40, (at(40), false));
    }
}
