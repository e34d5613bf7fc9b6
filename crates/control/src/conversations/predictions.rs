//! Whether jobs started when they were predicted to: the first start that was told of each, and what
//! became of it.
//!
//! ```text
//!   told          predicted        due
//!   |-- the wait ----|-- tolerance --|
//!   |---- starts here: kept ---------|---- still waits: missed ----
//! ```
//!
//! What always holds: a job is counted once for each time that it waits; what its user or an
//! administrator has changed or held since is not counted, and neither is a job that is cancelled
//! before. Nothing of it is kept over a restart of the controller: a planner of another release
//! predicts otherwise.

pub(crate) mod procedures;

use cosy_model::api::{PredictedWait, PredictionRecord};
use cosy_model::{JobId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// So many jobs are watched at once; of others no start is noted.
const WATCHED: usize = 20_000;
/// So many of the latest outcomes of a kind are looked at.
const LATEST: u32 = 100;
/// Fewer say nothing.
const FEWEST: u32 = 10;
/// A start may be late by so much, or by this part of the predicted wait where that is more.
const TOLERANCE: Span = Span::from_minutes(5);
const TOLERANCE_PART: i64 = 10;

/// A start that was told.
#[derive(Debug)]
struct Told {
    queue: String,
    wait: PredictedWait,
    due: Time,
}

/// The latest outcomes, the newest in the lowest bit: 1 where a prediction was kept.
#[derive(Debug, Default, Clone, Copy)]
struct Outcomes {
    bits: u128,
    count: u32,
}

impl Outcomes {
    fn add(&mut self, kept: bool) {
        let all = (1u128 << LATEST) - 1;
        self.bits = ((self.bits << 1) | u128::from(kept)) & all;
        self.count = (self.count + 1).min(LATEST);
    }

    const fn kept(self) -> u32 {
        self.bits.count_ones()
    }
}

/// What has become of the predictions in a queue.
#[derive(Debug, Default)]
struct OfQueue {
    latest: BTreeMap<PredictedWait, Outcomes>,
    kept: u64,
    missed: u64,
}

/// Starts that were told, and how those before have come out.
#[derive(Debug, Default)]
pub(crate) struct Predictions {
    open: BTreeMap<JobId, Told>,
    /// When they are missed if the job still waits.
    due: BTreeSet<(Time, JobId)>,
    queues: BTreeMap<String, OfQueue>,
}

impl Predictions {
    /// Whether a start is known that was told of the job, or there is no room to note one.
    pub fn is_noted(&self, job: JobId) -> bool {
        self.open.len() >= WATCHED || self.open.contains_key(&job)
    }

    /// A job of that queue is told to start then.
    pub fn tell(&mut self, now: Time, job: JobId, queue: &str, start: Time) {
        let wait = start.since(now);
        if wait <= Span::ZERO || self.is_noted(job) {
            return;
        }
        let due = start + TOLERANCE.max(Span(wait.0 / TOLERANCE_PART));
        let told = Told {
            queue: queue.to_owned(),
            wait: PredictedWait::of(wait),
            due,
        };
        self.open.insert(job, told);
        self.due.insert((due, job));
    }

    /// What was told of the job is void: it is another now, or may not start.
    pub fn forget(&mut self, job: JobId) {
        if let Some(told) = self.open.remove(&job) {
            self.due.remove(&(told.due, job));
        }
    }

    /// The job starts.
    pub fn starts(&mut self, now: Time, job: JobId) {
        if let Some(told) = self.open.remove(&job) {
            self.due.remove(&(told.due, job));
            self.count(told, |told| now <= told.due);
        }
    }

    /// The job waits, and should have started by now.
    fn misses(&mut self, job: JobId) {
        if let Some(told) = self.open.remove(&job) {
            self.due.remove(&(told.due, job));
            self.count(told, |_| false);
        }
    }

    fn count(&mut self, told: Told, outcome: impl Fn(&Told) -> bool) {
        let kept = outcome(&told);
        let of = self.queues.entry(told.queue).or_default();
        of.latest.entry(told.wait).or_default().add(kept);
        match kept {
            true => of.kept += 1,
            false => of.missed += 1,
        }
    }

    /// The next job whose start is overdue.
    fn overdue(&self, now: Time) -> Option<JobId> {
        let (due, job) = self.due.first()?;
        (*due < now).then_some(*job)
    }

    /// How predictions in that queue have come out.
    pub fn of_queue(&self, queue: &str) -> PredictionRecord {
        let of = self.queues.get(queue);
        PredictionRecord {
            kept: of.map_or(0, |of| of.kept),
            missed: of.map_or(0, |of| of.missed),
        }
    }

    /// How often starts came true that were told as long before as this one, in words.
    pub fn line(&self, now: Time, queue: &str, start: Time) -> Option<String> {
        let wait = PredictedWait::of(start.since(now));
        let latest = self.queues.get(queue)?.latest.get(&wait)?;
        (latest.count >= FEWEST).then(|| {
            format!(
                "starts predicted {} ahead in queue {queue} held {} of the latest {} times (5 min or a tenth of the wait late at most), counted since the controller started",
                wait.words(),
                latest.kept(),
                latest.count
            )
        })
    }

    /// The clock on the wall was set: what was told are dates that nobody counts on.
    pub fn clock_set(&mut self) {
        self.open.clear();
        self.due.clear();
    }

    /// Checks what always holds.
    ///
    /// # Errors
    /// What does not, in words.
    pub fn check(&self) -> Result<(), String> {
        let known = |(due, job): &(Time, JobId)| self.open.get(job).is_some_and(|t| t.due == *due);
        let same = self.open.len() == self.due.len() && self.due.iter().all(known);
        match same && self.open.len() <= WATCHED {
            true => Ok(()),
            false => Err(format!(
                "{} predictions are open and {} are due",
                self.open.len(),
                self.due.len()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LATEST, Predictions, WATCHED};
    use cosy_model::{JobId, Span, Time};

    const NOW: Time = Time::from_secs(1_000_000);

    /// A job that is told to start after `wait` starts `late` after that, all in seconds.
    fn check(wait: i64, late: i64, kept: u64) {
        let mut all = Predictions::default();
        let start = NOW + Span::from_secs(wait);
        all.tell(NOW, JobId(1), "main", start);
        all.starts(start + Span::from_secs(late), JobId(1));
        let told = all.of_queue("main");
        assert_eq!((told.kept, told.missed), (kept, 1 - kept), "{wait} {late}");
        all.check().unwrap();
    }

    #[test]
    fn five_minutes_or_a_tenth_are_allowed() {
        check(60, -30, 1);
        check(60, 300, 1);
        check(60, 301, 0);
        check(36_000, 3600, 1);
        check(36_000, 3601, 0);
    }

    #[test]
    fn figures_are_of_the_latest_hundred_of_a_kind() {
        let mut all = Predictions::default();
        let start = NOW + Span::from_minutes(20);
        for job in 0..150 {
            all.tell(NOW, JobId(job), "main", start);
            let late = if job < 100 { 60 } else { 0 };
            all.starts(start + Span::from_minutes(late), JobId(job));
            let told = all.line(NOW, "main", start);
            assert_eq!(told.is_some(), job >= 9, "{job}");
        }
        let told = all.line(NOW, "main", start).unwrap();
        assert!(told.contains("10 min to 1 h ahead in queue main held 50 of the latest 100 times"));
        assert!(told.contains(&LATEST.to_string()), "{told}");
        assert_eq!(all.line(NOW, "main", NOW + Span::from_minutes(5)), None);
        assert_eq!(all.line(NOW, "other", start), None);
        assert_eq!((all.of_queue("main").kept, all.of_queue("main").missed), (50, 100));
    }

    #[test]
    fn the_first_word_counts_and_there_is_a_most() {
        let mut all = Predictions::default();
        all.tell(NOW, JobId(0), "main", NOW);
        assert!(!all.is_noted(JobId(0)), "what starts at once is no prediction");
        all.tell(NOW, JobId(1), "main", NOW + Span::from_secs(60));
        all.tell(NOW, JobId(1), "main", NOW + Span::from_minutes(600));
        all.starts(NOW + Span::from_minutes(30), JobId(1));
        assert_eq!(all.of_queue("main").missed, 1);
        for job in 0..WATCHED as u64 + 10 {
            all.tell(NOW, JobId(job), "main", NOW + Span::from_secs(60));
        }
        all.check().unwrap();
        all.clock_set();
        all.check().unwrap();
    }
}
