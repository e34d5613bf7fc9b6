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
    /// As saved.
    pub(crate) fn restore(rows: Vec<FiguresRow>) -> Self {
        Self {
            rows: rows.into_iter().map(|row| (row.at, row)).collect(),
            unsaved: BTreeSet::new(),
            rest: 0,
        }
    }

    /// A job of `core_ms` core-milliseconds (cores times limit) was accepted.
    pub(crate) fn job_accepted(&mut self, now: Time, policy: &NoticePolicy, core_ms: i128) {
        let row = self.row(now, policy);
        row.jobs = row.jobs.saturating_add(1);
        row.jobs_core_s = row.jobs_core_s.saturating_add(core_seconds(core_ms));
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
        self.withdraw(now, policy, submitted, core_ms, |row| {
            (&mut row.jobs, &mut row.jobs_core_s)
        });
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
            Weigh::CoreHours => (
                u128::from(sum.wait_s_core_ks) * 1_000_000,
                sum.started_core_s,
            ),
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
