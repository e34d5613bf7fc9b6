//! A standby: watches the row and says when to take the lead.

use crate::numbers::Epoch;
use crate::row::{Identity, Lead, LeaderRow, Version};
use crate::times::{LeaseTimes, Moment};

/// One run of a controller that does not lead.
#[derive(Clone, Debug)]
pub struct Contender {
    me: Identity,
    times: LeaseTimes,
    watched: Option<Watched>,
}

/// A state of the row that lasts.
#[derive(Clone, Copy, Debug)]
struct Watched {
    version: Version,
    since: Moment,
}

/// What follows from a look at the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The next look.
    Wait {
        /// On the contender's clock.
        until: Moment,
    },
    /// Send a take that names `seen`. If it matches nothing or its outcome is unknown, look again.
    Take {
        /// What the take must find.
        seen: Version,
    },
    /// An own take whose outcome was unknown came to be. Claim the row; if that matches,
    /// [`Leadership::taken`](crate::Leadership::taken) with the moment at which the claim was sent.
    Mine {
        /// Of that take.
        epoch: Epoch,
    },
}

impl Contender {
    /// Has seen nothing yet. `me` must be a run that never led.
    #[must_use]
    pub const fn new(me: Identity, times: LeaseTimes) -> Self {
        Self {
            me,
            times,
            watched: None,
        }
    }

    /// As what it contends.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.me
    }

    /// `row` was received, and it is `now`: a moment after it came, not that of the question.
    ///
    /// A held lead is taken when the database says that it is over and the row has not changed for
    /// the lease, the holder's or the own one, whichever is longer. A free one is taken at once, but
    /// where another controller is named to come next only when that one let the lease pass.
    pub fn looked(&mut self, now: Moment, row: &LeaderRow) -> Decision {
        let since = self.unchanged_since(now, row.version);
        let patient_until = since.after(self.times.lease.max(row.lease));
        let (over, from) = match &row.lead {
            Lead::Held { by, .. } if *by == self.me => {
                let epoch = row.version.epoch;
                return Decision::Mine { epoch };
            }
            Lead::Held { expired, .. } => (*expired, patient_until),
            Lead::Free { next: None } => (true, since),
            Lead::Free { next: Some(name) } if *name == self.me.controller => (true, since),
            Lead::Free { next: Some(_) } => (true, patient_until),
        };
        if over && now >= from {
            return Decision::Take { seen: row.version };
        }
        let poll = now.after(self.times.poll);
        let until = if now < from { poll.min(from) } else { poll };
        Decision::Wait { until }
    }

    fn unchanged_since(&mut self, now: Moment, version: Version) -> Moment {
        let known = self.watched.filter(|w| w.version == version);
        let watched = known.unwrap_or(Watched {
            version,
            since: now,
        });
        self.watched = Some(watched);
        watched.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Renewals;
    use std::time::Duration;

    const LEASE: u64 = 6000;

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    fn identity(controller: &str, run: &str) -> Identity {
        Identity {
            controller: controller.into(),
            run: run.into(),
        }
    }

    fn row(renewals: u64, lead: Lead) -> LeaderRow {
        LeaderRow {
            version: Version {
                epoch: Epoch(3),
                renewals: Renewals(renewals),
            },
            lease: Duration::from_millis(LEASE),
            lead,
        }
    }

    fn held(renewals: u64, expired: bool) -> LeaderRow {
        let by = identity("b", "1");
        row(renewals, Lead::Held { by, expired })
    }

    fn free(next: Option<&str>) -> LeaderRow {
        let next = next.map(Into::into);
        row(1, Lead::Free { next })
    }

    /// Looks in turn, and what follows from the last one.
    fn check(looks: &[(u64, LeaderRow)], expected: Decision) {
        let times = LeaseTimes::of(Duration::from_millis(LEASE));
        let mut contender = Contender::new(identity("a", "1"), times);
        let decisions = looks.iter().map(|(ms, row)| contender.looked(at(*ms), row));
        assert_eq!(decisions.last(), Some(expected), "after {looks:?}");
    }

    fn take(renewals: u64) -> Decision {
        let seen = held(renewals, true).version;
        Decision::Take { seen }
    }

    fn wait(ms: u64) -> Decision {
        Decision::Wait { until: at(ms) }
    }

    #[test]
    fn a_held_lead_is_taken_when_both_clocks_say_so() {
        check(&[(0, held(1, true))], wait(1000));
        check(&[(0, held(1, true)), (5500, held(1, true))], wait(6000));
        check(&[(0, held(1, true)), (6000, held(1, false))], wait(7000));
        check(&[(0, held(1, false)), (6000, held(1, true))], take(1));
    }

    #[test]
    fn a_renewal_begins_the_wait_anew() {
        check(
            &[
                (0, held(1, false)),
                (5000, held(2, true)),
                (7000, held(2, true)),
            ],
            wait(8000),
        );
        check(
            &[
                (0, held(1, false)),
                (5000, held(2, true)),
                (11_000, held(2, true)),
            ],
            take(2),
        );
    }

    #[test]
    fn the_longer_lease_counts() {
        let mut long = held(1, true);
        long.lease *= 2;
        check(&[(0, long.clone()), (6000, long.clone())], wait(7000));
        check(&[(0, long.clone()), (12_000, long)], take(1));
    }

    #[test]
    fn a_free_lead_is_taken_at_once_or_by_whom_is_named() {
        check(&[(0, free(None))], take(1));
        check(&[(0, free(Some("a")))], take(1));
        check(&[(0, free(Some("b")))], wait(1000));
        check(&[(0, free(Some("b"))), (6000, free(Some("b")))], take(1));
    }

    #[test]
    fn an_own_take_is_found_but_not_that_of_an_earlier_run() {
        let mine = |run| {
            let by = identity("a", run);
            row(1, Lead::Held { by, expired: false })
        };
        check(&[(0, mine("1"))], Decision::Mine { epoch: Epoch(3) });
        check(&[(0, mine("0"))], wait(1000));
    }
}
