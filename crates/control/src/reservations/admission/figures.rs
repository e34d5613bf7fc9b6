//! What the notice rule looks at: the share p of reservations among accepted requests and
//! the mean wait w of queued jobs, both over a sliding window.
//!
//! The window slides by stretches of a 48th of it (at least a minute), one [`FiguresRow`]
//! each, so that it is cheap to keep, to save and to load. A stretch counts as long as any
//! part of it lies in the window. What always holds: whoever is not accepted is not counted,
//! so that retries lock nobody out; no sum ever overflows.
//!
//! Source: COSY paper, section 4.4.

use crate::config::{NoticePolicy, Weigh};
use crate::record::FiguresRow;
use cosy_model::{Span, Time};
use cosy_sched::notice::Share;
use std::collections::{BTreeMap, BTreeSet};

/// Stretches in a window.
const STRETCHES: i64 = 48;
/// Shortest stretch in milliseconds.
const LEAST_STRETCH_MS: i64 = 60_000;

/// Figures of the window, and of what was before it until that is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    rows: BTreeMap<Time, FiguresRow>,
    unsaved: BTreeSet<Time>,
    /// What weighed waits have left over from whole thousands. Not saved: after a restart
    /// at most one thousand of second times core-second is missing.
    rest: u64,
}

impl Figures {
    /// Figures as the store has them.
    pub(crate) fn restore(rows: Vec<FiguresRow>) -> Self {
        Self {
            rows: rows.into_iter().map(|row| (row.at, row)).collect(),
            unsaved: BTreeSet::new(),
            rest: 0,
        }
    }

    /// So many jobs of `core_ms` core-milliseconds each (cores times limit) were accepted.
    pub(crate) fn jobs_accepted(
        &mut self,
        now: Time,
        policy: &NoticePolicy,
        jobs: u64,
        core_ms: i128,
    ) {
        let core_s = core_seconds(core_ms).saturating_mul(jobs);
        let row = self.row(now, policy);
        row.jobs = row.jobs.saturating_add(jobs);
        row.jobs_core_s = row.jobs_core_s.saturating_add(core_s);
    }

    /// A reservation of `core_ms` core-milliseconds was confirmed. Holds that are open and
    /// requests that were refused are not told here.
    pub(crate) fn reservation_accepted(&mut self, now: Time, policy: &NoticePolicy, core_ms: i128) {
        let row = self.row(now, policy);
        row.reservations = row.reservations.saturating_add(1);
        row.reservations_core_s = row
            .reservations_core_s
            .saturating_add(core_seconds(core_ms));
    }

    /// A job that was accepted at `submitted` was taken back before it started: it counts no
    /// longer, so that jobs submitted only to be cancelled change no share.
    pub(crate) fn job_withdrawn(
        &mut self,
        now: Time,
        policy: &NoticePolicy,
        submitted: Time,
        core_ms: i128,
    ) {
        self.withdraw(now, policy, submitted, core_ms, |row| (&mut row.jobs, &mut row.jobs_core_s));
    }

    /// A confirmed reservation that was asked for at `made` was taken back free of charge:
    /// it counts no longer, so that nobody locks others out with bookings that are always
    /// cancelled.
    pub(crate) fn reservation_withdrawn(
        &mut self,
        now: Time,
        policy: &NoticePolicy,
        made: Time,
        core_ms: i128,
    ) {
        self.withdraw(now, policy, made, core_ms, |row| {
            (&mut row.reservations, &mut row.reservations_core_s)
        });
    }

    /// Takes one request of `core_ms` out of the stretches from `since` on, nearest first:
    /// a hold is confirmed some minutes later, maybe in the next stretch.
    fn withdraw(
        &mut self,
        now: Time,
        policy: &NoticePolicy,
        since: Time,
        core_ms: i128,
        part: impl Fn(&mut FiguresRow) -> (&mut u64, &mut u64),
    ) {
        let begin = begin_of_stretch(since, policy);
        if begin < first_stretch(now, policy) {
            return;
        }
        let (mut count, mut core_s) = (1, core_seconds(core_ms));
        for (at, row) in self.rows.range_mut(begin..) {
            let (counted, seconds) = part(row);
            let (less, fewer) = (count.min(*counted), core_s.min(*seconds));
            *counted -= less;
            *seconds -= fewer;
            (count, core_s) = (count - less, core_s - fewer);
            if less > 0 || fewer > 0 {
                self.unsaved.insert(*at);
            }
            if count == 0 && core_s == 0 {
                return;
            }
        }
    }

    /// A queued job of `core_ms` core-milliseconds (cores times limit) started after `wait`.
    pub(crate) fn job_started(
        &mut self,
        now: Time,
        policy: &NoticePolicy,
        wait: Span,
        core_ms: i128,
    ) {
        let wait_ms = u64::try_from(wait.ms()).unwrap_or(0);
        let core_s = core_seconds(core_ms);
        // Milliseconds times core-seconds; a thousand times a thousand make one.
        let weighed = u128::from(wait_ms) * u128::from(core_s) + u128::from(self.rest);
        let thousands = u64::try_from(weighed / 1_000_000).unwrap_or(u64::MAX);
        self.rest = (weighed % 1_000_000) as u64;
        let row = self.row(now, policy);
        row.started = row.started.saturating_add(1);
        row.wait_ms = row.wait_ms.saturating_add(wait_ms);
        row.started_core_s = row.started_core_s.saturating_add(core_s);
        row.wait_s_core_ks = row.wait_s_core_ks.saturating_add(thousands);
    }

    /// The rows that are to be saved, since the last call.
    pub(crate) fn changed(&mut self) -> Vec<FiguresRow> {
        let unsaved = std::mem::take(&mut self.unsaved);
        let rows = unsaved.iter().filter_map(|at| self.rows.get(at));
        rows.cloned().collect()
    }

    /// Drops the stretches that lie wholly before the window. Some time when there were
    /// any: all before it may be forgotten. Where queues have windows of their own, the
    /// longest is to be handed in.
    pub(crate) fn forget(&mut self, now: Time, policy: &NoticePolicy) -> Option<Time> {
        let first = first_stretch(now, policy);
        let kept = self.rows.split_off(&first);
        let gone = std::mem::replace(&mut self.rows, kept);
        self.unsaved = self.unsaved.split_off(&first);
        (!gone.is_empty()).then_some(first)
    }

    /// p, weighed as the policy says; `None` while the window has fewer accepted requests
    /// than the policy's least.
    pub(crate) fn share(&self, now: Time, policy: &NoticePolicy) -> Option<Share> {
        let sum = self.sum(now, policy);
        let requests = sum.jobs.saturating_add(sum.reservations);
        if requests < policy.least_requests.max(1) {
            return None;
        }
        Some(match policy.weigh {
            Weigh::Counts => Share::of(sum.reservations, requests),
            Weigh::CoreHours => {
                let all = sum.jobs_core_s.saturating_add(sum.reservations_core_s);
                Share::of(sum.reservations_core_s, all)
            }
        })
    }

    /// w, weighed as the policy says; zero while no queued job has started in the window.
    pub(crate) fn mean_wait(&self, now: Time, policy: &NoticePolicy) -> Span {
        let sum = self.sum(now, policy);
        let (wait_ms, of) = match policy.weigh {
            Weigh::Counts => (u128::from(sum.wait_ms), sum.started),
            Weigh::CoreHours => (u128::from(sum.wait_s_core_ks) * 1_000_000, sum.started_core_s),
        };
        let mean = wait_ms.checked_div(u128::from(of)).unwrap_or(0);
        Span(i64::try_from(mean).unwrap_or(i64::MAX))
    }

    fn row(&mut self, now: Time, policy: &NoticePolicy) -> &mut FiguresRow {
        let at = begin_of_stretch(now, policy);
        self.unsaved.insert(at);
        self.rows.entry(at).or_insert_with(|| FiguresRow {
            at,
            ..FiguresRow::default()
        })
    }

    fn sum(&self, now: Time, policy: &NoticePolicy) -> FiguresRow {
        let first = first_stretch(now, policy);
        let rows = self.rows.range(first..).map(|(_, row)| row);
        rows.fold(FiguresRow::default(), |sum, row| add(&sum, row))
    }
}

fn add(sum: &FiguresRow, row: &FiguresRow) -> FiguresRow {
    FiguresRow {
        at: sum.at,
        jobs: sum.jobs.saturating_add(row.jobs),
        jobs_core_s: sum.jobs_core_s.saturating_add(row.jobs_core_s),
        reservations: sum.reservations.saturating_add(row.reservations),
        reservations_core_s: sum
            .reservations_core_s
            .saturating_add(row.reservations_core_s),
        started: sum.started.saturating_add(row.started),
        wait_ms: sum.wait_ms.saturating_add(row.wait_ms),
        started_core_s: sum.started_core_s.saturating_add(row.started_core_s),
        wait_s_core_ks: sum.wait_s_core_ks.saturating_add(row.wait_s_core_ks),
    }
}

fn stretch_ms(policy: &NoticePolicy) -> i64 {
    (policy.window.ms() / STRETCHES).max(LEAST_STRETCH_MS)
}

fn begin_of_stretch(time: Time, policy: &NoticePolicy) -> Time {
    let stretch = stretch_ms(policy);
    Time(time.0.div_euclid(stretch).saturating_mul(stretch))
}

/// Begin of the first stretch of which a part lies in the window.
fn first_stretch(now: Time, policy: &NoticePolicy) -> Time {
    begin_of_stretch(now - Span(policy.window.ms().max(0)), policy)
}

/// Whole core-seconds, rounded up, as many as can be held.
fn core_seconds(core_ms: i128) -> u64 {
    let ms = u128::try_from(core_ms).unwrap_or(0);
    u64::try_from(ms.div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR_MS: i128 = 3_600_000;

    /// 48 hours in stretches of one.
    fn policy(weigh: Weigh) -> NoticePolicy {
        NoticePolicy {
            window: Span::from_secs(48 * 3600),
            least_requests: 10,
            weigh,
            ..NoticePolicy::default()
        }
    }

    fn at(minutes: i64) -> Time {
        Time(1_795_262_400_000) + Span::from_minutes(minutes)
    }

    /// What `tell` makes of shares and waits an hour later, by counts and by core-hours.
    fn check(tell: fn(&mut Figures, &NoticePolicy), share: [Option<u32>; 2], wait_s: [i64; 2]) {
        for (place, weigh) in [Weigh::Counts, Weigh::CoreHours].into_iter().enumerate() {
            let policy = policy(weigh);
            let mut figures = Figures::default();
            tell(&mut figures, &policy);
            let got = figures.share(at(60), &policy);
            assert_eq!(got, share[place].map(Share), "{weigh:?}");
            let wait = figures.mean_wait(at(60), &policy);
            assert_eq!(wait, Span::from_secs(wait_s[place]), "{weigh:?}");
        }
    }

    fn jobs(figures: &mut Figures, policy: &NoticePolicy, count: u32) {
        figures.jobs_accepted(at(0), policy, u64::from(count), HOUR_MS);
    }

    #[test]
    fn shares() {
        check(|f, p| jobs(f, p, 9), [None, None], [0, 0]);
        check(|f, p| jobs(f, p, 10), [Some(0), Some(0)], [0, 0]);
        let tell: fn(&mut Figures, &NoticePolicy) = |f, p| {
            jobs(f, p, 19);
            f.reservation_accepted(at(1), p, 19 * HOUR_MS);
        };
        check(tell, [Some(500), Some(5000)], [0, 0]);
        // A thousand tiny jobs change the share by counts only.
        let tell: fn(&mut Figures, &NoticePolicy) = |f, p| {
            jobs(f, p, 19);
            f.reservation_accepted(at(1), p, 19 * HOUR_MS);
            f.jobs_accepted(at(2), p, 1000, 1000);
        };
        check(tell, [Some(9), Some(4963)], [0, 0]);
        check(|f, p| f.jobs_accepted(at(0), p, 1, -1), [None, None], [0, 0]);
    }

    #[test]
    fn waits() {
        check(
            |f, p| {
                f.job_started(at(0), p, Span::from_secs(1000), HOUR_MS);
                f.job_started(at(1), p, Span::from_secs(5000), 3 * HOUR_MS);
            },
            [None, None],
            [3000, 4000],
        );
        // Tiny ones in great number: no rounding adds up.
        check(
            |f, p| (0..5000).for_each(|_| f.job_started(at(0), p, Span::from_secs(1), 1000)),
            [None, None],
            [1, 1],
        );
        check(|f, p| f.job_started(at(0), p, Span(-5), -5), [None, None], [0, 0]);
    }

    #[test]
    fn the_window_slides_by_stretches() {
        let policy = NoticePolicy {
            least_requests: 1,
            ..policy(Weigh::Counts)
        };
        let mut figures = Figures::default();
        figures.jobs_accepted(at(59), &policy, 1, 1);
        figures.reservation_accepted(at(60), &policy, 1);
        let check = |now: i64, wanted: Option<u32>| {
            assert_eq!(figures.share(at(now), &policy), wanted.map(Share), "{now}");
        };
        check(60, Some(5000));
        check(49 * 60 - 1, Some(5000));
        check(49 * 60, Some(10_000));
        check(50 * 60 - 1, Some(10_000));
        check(50 * 60, None);
        assert_eq!(figures.forget(at(49 * 60 - 1), &policy), None);
        assert_eq!(figures.forget(at(49 * 60), &policy), Some(at(60)));
        assert_eq!(figures.forget(at(49 * 60), &policy), None);
        assert_eq!(figures.changed().len(), 1, "what is forgotten is not saved");
        assert_eq!(figures.forget(at(99 * 60), &policy), Some(at(51 * 60)));
        assert_eq!(figures.changed(), []);
    }

    #[test]
    fn what_is_taken_back_counts_no_longer() {
        let policy = policy(Weigh::CoreHours);
        let mut figures = Figures::default();
        jobs(&mut figures, &policy, 10);
        let before: Vec<_> = figures.rows.values().cloned().collect();
        // Asked for in one stretch, confirmed in the next.
        figures.reservation_accepted(at(61), &policy, 7 * HOUR_MS);
        figures.reservation_withdrawn(at(70), &policy, at(58), 7 * HOUR_MS);
        figures.jobs_accepted(at(62), &policy, 1, 1_000_000 * HOUR_MS);
        figures.job_withdrawn(at(70), &policy, at(62), 1_000_000 * HOUR_MS);
        let after: Vec<_> = figures.rows.values().cloned().collect();
        assert_eq!(after[0], before[0]);
        let nothing = FiguresRow {
            at: at(60),
            ..FiguresRow::default()
        };
        assert_eq!(after[1..], [nothing]);
        assert_eq!(figures.changed().len(), 2);
        // What the window has lost already is not taken off others.
        figures.job_withdrawn(at(0) + policy.window, &policy, at(-60), HOUR_MS);
        assert_eq!(figures.changed(), []);
        figures.job_withdrawn(at(0) + policy.window, &policy, at(0), HOUR_MS);
        assert_eq!(figures.changed()[0].jobs, 9);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Rows that were saved whenever they changed are the figures, whatever happens.
        #[test]
        fn saved_rows_are_the_figures(
            steps in prop::collection::vec((0u8..6, 0i64..6000, any::<i64>(), any::<i64>()), 0..80),
        ) {
            let policy = NoticePolicy { least_requests: 1, ..policy(Weigh::CoreHours) };
            let mut figures = Figures::default();
            let mut saved: BTreeMap<Time, FiguresRow> = BTreeMap::new();
            for (what, minute, wait, size) in steps {
                let (now, core_ms) = (at(minute), i128::from(size) * 1_000_000);
                match what {
                    0 => figures.jobs_accepted(now, &policy, 1, core_ms),
                    1 => figures.reservation_accepted(now, &policy, core_ms),
                    2 => figures.job_started(now, &policy, Span(wait), core_ms),
                    3 => figures.job_withdrawn(now, &policy, Time(wait), core_ms),
                    4 => figures.reservation_withdrawn(now, &policy, at(minute - 3), core_ms),
                    _ => if let Some(before) = figures.forget(now, &policy) {
                        saved = saved.split_off(&before);
                    }
                }
                saved.extend(figures.changed().into_iter().map(|row| (row.at, row)));
                prop_assert_eq!(&saved, &figures.rows);
                let restored = Figures::restore(saved.values().cloned().collect());
                prop_assert_eq!(restored.share(now, &policy), figures.share(now, &policy));
                prop_assert_eq!(restored.mean_wait(now, &policy), figures.mean_wait(now, &policy));
                prop_assert!(figures.mean_wait(now, &policy) >= Span::ZERO);
            }
        }

        #[test]
        fn absurd_windows(window: i64, now: i64, since: i64, core_ms: i64) {
            let policy = NoticePolicy { window: Span(window), ..NoticePolicy::default() };
            let mut figures = Figures::default();
            figures.jobs_accepted(Time(now), &policy, 1, i128::from(core_ms));
            figures.job_started(Time(now), &policy, Span(since), i128::MAX);
            figures.job_withdrawn(Time(now), &policy, Time(since), i128::MAX);
            figures.share(Time(now), &policy);
            figures.mean_wait(Time(now), &policy);
            prop_assert_eq!(figures.forget(Time(now), &policy), None);
            prop_assert_eq!(figures.changed().len(), 1);
        }
    }
}
