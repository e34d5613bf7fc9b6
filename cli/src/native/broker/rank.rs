//! The slots of all clusters in the order of the user's preference.
//!
//! Source: what-if paper, section 3 ("it orders the time slots according to the user
//! preferences"); pricing paper, section 4, for the balance of price and start. Prices of
//! several clusters are compared in service units as they are: p·n·d + f, for p may differ.

use super::clusters::Cluster;
use super::transport::ClusterError;
use cosy_model::reservation::{Quote, QuotedSlot, ReservationSpec, StartChoice};
use cosy_model::{Su, Time};

/// What makes one slot better than another. Among equals start, price, and the order in which the
/// clusters were named decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preference {
    /// The earlier start is better.
    Soonest,
    /// The lower price is better.
    Cheapest,
    /// The pricing paper's cost function: 0 is the soonest, 1000 the cheapest.
    Balance {
        /// The weight alpha of the price, in thousandths.
        alpha_permille: u32,
    },
    /// The higher availability is better (what-if paper, eq. 4).
    Availability,
}

impl Preference {
    /// The preference that goes with a choice of start; where the choice fixes the start, the lower
    /// price.
    pub const fn of(pick: StartChoice) -> Self {
        match pick {
            StartChoice::Soonest => Self::Soonest,
            StartChoice::At(_) | StartChoice::FinishBy | StartChoice::Cheapest => Self::Cheapest,
            StartChoice::Balance { alpha_permille } => Self::Balance { alpha_permille },
        }
    }
}

/// A slot of one of the clusters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranked {
    /// The cluster that offers it.
    pub cluster: Cluster,
    /// Start, end and price, as its cluster has quoted them.
    pub slot: QuotedSlot,
    /// The cluster's time when it was quoted.
    pub now: Time,
}

/// The figures by which slots are ranked.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotScore {
    pub start: Time,
    pub price: Su,
    pub availability_ppm: u32,
}

impl SlotScore {
    pub(super) fn of(slot: &QuotedSlot) -> Self {
        Self {
            start: slot.start,
            price: slot.price(),
            availability_ppm: slot.availability_ppm,
        }
    }
}

/// The slots that would be admitted, best first.
pub fn rank(
    quotes: &[(Cluster, Result<Quote, ClusterError>)],
    preference: Preference,
) -> Vec<Ranked> {
    let mut all = Vec::new();
    for (cluster, quote) in quotes {
        let Ok(quote) = quote else { continue };
        all.extend(
            quote
                .slots
                .iter()
                .filter(|s| s.admitted)
                .map(|slot| Ranked {
                    cluster: cluster.clone(),
                    slot: slot.clone(),
                    now: quote.now,
                }),
        );
    }
    sort(&mut all, preference, |r| SlotScore::of(&r.slot));
    all
}

/// The slots that could be booked for `spec`, best first: where the controllers choose the start, only
/// the slot that each would take.
pub fn rank_for(
    quotes: &[(Cluster, Result<Quote, ClusterError>)],
    spec: &ReservationSpec,
    preference: Preference,
) -> Vec<Ranked> {
    let mut all = rank(quotes, preference);
    if places_itself(spec) {
        all.retain(|r| {
            let of_it = quotes.iter().find(|(c, _)| *c == r.cluster);
            of_it.is_some_and(|(_, q)| {
                q.as_ref()
                    .is_ok_and(|q| chosen_start(q) == Some(r.slot.start))
            })
        });
    }
    all
}

/// True when each controller chooses the start: it may move it later, or it is the first of several.
pub(super) fn places_itself(spec: &ReservationSpec) -> bool {
    spec.pick == StartChoice::FinishBy || spec.repeat.is_some()
}

/// The refused slot whose reason tells most: the last one that is free but refused by a rule, for
/// rules are milder further ahead; else the first that is not free.
pub(super) fn telling_refusal(quote: &Quote) -> Option<&QuotedSlot> {
    let mut refused = quote.slots.iter().filter(|s| !s.admitted);
    let ruled = refused.clone().rfind(|s| s.feasible);
    ruled.or_else(|| refused.next())
}

fn chosen_start(quote: &Quote) -> Option<Time> {
    let slot = quote.slots.get(quote.choice? as usize)?;
    Some(slot.start)
}

/// Sorts by preference; equals stay in their order. Starts within one second are equal: a
/// slot at once is a few milliseconds later on the cluster that answers later.
pub(super) fn sort<T>(all: &mut [T], preference: Preference, merit: impl Fn(&T) -> SlotScore) {
    let scale = Scale::of(all.iter().map(&merit));
    all.sort_by_cached_key(|one| {
        let m = merit(one);
        let soon = i128::from(m.start.secs());
        let cheap = i128::from(m.price.0);
        let sure = -i128::from(m.availability_ppm);
        match preference {
            Preference::Soonest => [soon, cheap, sure, 0],
            Preference::Cheapest => [cheap, soon, sure, 0],
            Preference::Balance { alpha_permille } => {
                [scale.cost(&m, alpha_permille), soon, cheap, sure]
            }
            Preference::Availability => [sure, soon, cheap, 0],
        }
    });
}

/// The least and the greatest start and price among the slots.
struct Scale {
    start: (i128, i128),
    price: (i128, i128),
}

impl Scale {
    fn of(all: impl Iterator<Item = SlotScore> + Clone) -> Self {
        let ends = |values: &mut dyn Iterator<Item = i64>| {
            let (mut least, mut most) = (i64::MAX, i64::MIN);
            for value in values {
                (least, most) = (least.min(value), most.max(value));
            }
            (i128::from(least), i128::from(most))
        };
        Self {
            start: ends(&mut all.clone().map(|m| m.start.secs())),
            price: ends(&mut all.map(|m| m.price.0)),
        }
    }

    /// alpha (f - fmin)/(fmax - fmin) + (1 - alpha) (s - smin)/(smax - smin), both sides
    /// multiplied by the two lengths so that whole numbers do.
    fn cost(&self, m: &SlotScore, alpha_permille: u32) -> i128 {
        let alpha = i128::from(alpha_permille.min(1000));
        let length = |(least, most): (i128, i128)| (most - least).max(1);
        let price = (i128::from(m.price.0) - self.price.0).saturating_mul(length(self.start));
        let start = (i128::from(m.start.secs()) - self.start.0).saturating_mul(length(self.price));
        let price = price.saturating_mul(alpha);
        price.saturating_add(start.saturating_mul(1000 - alpha))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{cluster, quote, slot};
    use super::*;

    #[test]
    fn orders() {
        let quotes = [
            // start in minutes, price, availability in millionths
            (cluster("a"), Ok(quote(vec![slot(10, 8, 500_000), slot(60, 2, 900_000)]))),
            (cluster("b"), Err(ClusterError::Unreachable("gone".into()))),
            (cluster("c"), Ok(quote(vec![slot(10, 6, 400_000), slot(30, 2, 950_000)]))),
        ];
        let check = |preference, want: &str| {
            let got: Vec<String> = rank(&quotes, preference)
                .iter()
                .map(|r| {
                    let minutes = r.slot.start.since(Time(0)).secs() / 60;
                    format!("{}{minutes}", r.cluster.name)
                })
                .collect();
            assert_eq!(got.join(" "), want, "{preference:?}");
        };
        let balance = |alpha_permille| Preference::Balance { alpha_permille };
        check(Preference::Soonest, "c10 a10 c30 a60");
        check(Preference::Cheapest, "c30 a60 c10 a10");
        check(Preference::Availability, "c30 a60 a10 c10");
        check(balance(0), "c10 a10 c30 a60");
        check(balance(1000), "c30 a60 c10 a10");
        // (f - 2)/6 and (s - 10)/50, half of each: 0.2, 0.33, 0.5, 0.5.
        check(balance(500), "c30 c10 a10 a60");
    }

    #[test]
    fn why_there_is_no_slot() {
        let no = |start, feasible, why: &str| {
            let reason = why.to_owned();
            let admitted = false;
            QuotedSlot {
                feasible,
                admitted,
                reason,
                ..slot(start, 1, 1)
            }
        };
        let check = |slots, want: Option<&str>| {
            let quote = quote(slots);
            assert_eq!(telling_refusal(&quote).map(|s| s.reason.as_str()), want);
        };
        let (full, far) = (no(10, false, "full"), no(30, false, "still full"));
        check(vec![slot(5, 1, 1)], None);
        check(vec![full.clone(), far.clone()], Some("full"));
        let rules = [no(15, true, "notice"), no(20, true, "quota")];
        check([&[full][..], &rules, &[far]].concat(), Some("quota"));
    }

    #[test]
    fn what_begins_at_once_begins_at_once_everywhere() {
        let mut later = slot(10, 1, 1);
        later.start = later.start + cosy_model::Span(5);
        let quotes = [
            (cluster("a"), Ok(quote(vec![slot(10, 2, 1)]))),
            (cluster("b"), Ok(quote(vec![later]))),
        ];
        let best = rank(&quotes, Preference::Soonest).remove(0);
        assert_eq!(best.cluster.name, "b"); // the cheaper one
    }

    #[test]
    fn what_is_not_admitted_is_no_choice() {
        let mut no = slot(10, 1, 1);
        no.admitted = false;
        let quotes = [(cluster("a"), Ok(quote(vec![no])))];
        assert_eq!(rank(&quotes, Preference::Soonest), []);
    }

    #[test]
    fn absurd_figures_are_ordered_too() {
        let mut far = slot(10, 1, 1);
        (far.start, far.base, far.extra) = (Time(i64::MIN), Su(i64::MAX), Su(i64::MAX));
        let mut near = slot(10, 1, 1);
        (near.start, near.base) = (Time(i64::MAX), Su(i64::MIN));
        let quotes = [(cluster("a"), Ok(quote(vec![far, near])))];
        for alpha_permille in [0, 500, 1000, u32::MAX] {
            assert_eq!(rank(&quotes, Preference::Balance { alpha_permille }).len(), 2);
        }
    }
}
