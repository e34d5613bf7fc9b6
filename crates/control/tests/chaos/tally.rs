//! What was seen over many seeds: a check that meets nothing checks nothing.

use crate::play::Play;
use std::collections::BTreeMap;

/// How often each thing was seen.
#[derive(Default, Debug)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub fn count(&mut self, what: &str, times: u64) {
        *self.0.entry(what.to_owned()).or_default() += times;
    }

    pub fn add(&mut self, other: Self) {
        for (what, times) in other.0 {
            self.count(&what, times);
        }
    }

    /// What was seen least of all that must be seen.
    pub fn rarest(&self) -> (&'static str, u64) {
        let must = [
            "exact starts",
            "reservations held",
            "confirmed late",
            "ended",
            "cancelled",
            "expired",
            "unused",
            "failed",
            "moved",
            "extended",
            "shortened",
            "series",
            "ran inside",
            "deaths in a turn",
            "degraded",
        ];
        let seen = |what: &str| self.0.get(what).copied().unwrap_or(0);
        let all = must.into_iter().map(|what| (what, seen(what)));
        all.min_by_key(|(_, times)| *times)
            .unwrap_or(("nothing", 0))
    }
}

impl Play {
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        tally.count("exact starts", self.watch.exact);
        tally.count("moved", self.watch.moved);
        tally.count("ran inside", self.watch.inside);
        tally.count("deaths in a turn", u64::from(self.world.deaths) - self.crashes);
        tally.count("crashes", self.crashes);
        tally.count("confirmed late", self.late);
        tally.count("refused", self.refused);
        tally.count("extended", self.watch.extended);
        tally.count("shortened", self.watch.shortened);
        for row in self.world.store.reservations.values() {
            tally.count(row.state.word(), 1);
            tally.count("reservations held", u64::from(row.hold_until.is_some()));
            tally.count("degraded", u64::from(self.watch.was_degraded(row.id)));
            tally.count("series", u64::from(row.series == Some(row.id)));
        }
        tally
    }
}
