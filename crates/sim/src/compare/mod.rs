//! Two histories of the same jobs beside each other: who waited longer, who shorter.
//!
//! It knows nothing of policies: waits come from two replays, or from a replay and what
//! was recorded. What always holds: a job counts only if both sides know its wait; the same
//! waits and seed give the same figures.

mod weeks;

pub use weeks::{DRAWS, LEAST_WEEKS};

use crate::metrics::quotient;
use crate::replay::Replay;
use crate::workload::Workload;
use cosy_model::Span;
use std::collections::BTreeMap;
use weeks::{WEEK, WeekSums};

/// What can be said of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The whole spread is below zero.
    Shorter,
    /// The whole spread is above zero.
    Longer,
    /// The spread has both.
    Unclear,
    /// Jobs in fewer than [`LEAST_WEEKS`] weeks: nothing to draw from.
    TooFewWeeks,
}

impl Verdict {
    fn of(spread: Option<(f64, f64)>) -> Self {
        match spread {
            None => Self::TooFewWeeks,
            Some((_, high)) if high < 0.0 => Self::Shorter,
            Some((low, _)) if low > 0.0 => Self::Longer,
            Some(_) => Self::Unclear,
        }
    }

    /// The verdict in the words of tables and JSON.
    pub fn words(self) -> &'static str {
        match self {
            Self::Shorter => "shorter",
            Self::Longer => "longer",
            Self::Unclear => "no clear difference",
            Self::TooFewWeeks => "too few weeks to tell",
        }
    }
}

/// The waits of some jobs. Times in seconds.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparisonRow {
    /// What the jobs have in common.
    pub name: String,
    /// Number of jobs in the row.
    pub jobs: u64,
    /// Mean wait under the old policy, or as recorded.
    pub before: f64,
    /// Mean wait under the new policy.
    pub after: f64,
    /// Half of the jobs waited no longer, before and after.
    pub median: (f64, f64),
    /// 95 of 100 jobs waited no longer, before and after.
    pub p95: (f64, f64),
    /// After less before: above zero they wait longer.
    pub difference: f64,
    /// Nine in ten draws of weeks have a difference from the first to the second.
    pub spread: Option<(f64, f64)>,
    /// What the spread says of the difference.
    pub verdict: Verdict,
}

/// The waits of all jobs, and of groups of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Jobs whose wait one of the sides does not know; they are in no line.
    pub unknown: u64,
    /// Weeks in which compared jobs were submitted.
    pub weeks: u64,
    /// All compared jobs together.
    pub whole: ComparisonRow,
    /// By account, those with most jobs first.
    pub accounts: Vec<ComparisonRow>,
    /// By user, those whose mean wait changes most first.
    pub users: Vec<ComparisonRow>,
    /// By how much their users have used in all, the lightest first.
    pub weights: Vec<ComparisonRow>,
    /// By number of processors, smallest first.
    pub sizes: Vec<ComparisonRow>,
    /// By queue, those with most jobs first.
    pub queues: Vec<ComparisonRow>,
}

/// What was recorded of each job's wait.
pub fn recorded_waits(workload: &Workload) -> Vec<Option<Span>> {
    let jobs = workload.jobs.iter();
    jobs.map(|job| job.recorded_wait).collect()
}

/// How long each job waited in a replay.
pub fn replayed_waits(workload: &Workload, replay: &Replay) -> Vec<Option<Span>> {
    let both = workload.jobs.iter().zip(&replay.job_runs);
    both.map(|(job, ran)| Some((*ran)?.start.since(job.submit)))
        .collect()
}

/// Compares the waits of the jobs of `workload`; `None` when no wait is known on both
/// sides. The spreads come from weeks drawn with `seed`.
pub fn compare(
    workload: &Workload,
    before: &[Option<Span>],
    after: &[Option<Span>],
    seed: u64,
) -> Option<Comparison> {
    let mut groups: BTreeMap<GroupKey, GroupSums> = BTreeMap::new();
    let first = workload.jobs.first()?.submit;
    let heavy = Heaviness::of_users(workload);
    let mut unknown = 0;
    for (at, job) in workload.jobs.iter().enumerate() {
        let known = |side: &[Option<Span>]| side.get(at).copied().flatten();
        let Some((before, after)) = known(before).zip(known(after)) else {
            unknown += 1;
            continue;
        };
        let week = job.submit.since(first).0 / WEEK.0;
        for key in [
            GroupKey::Whole,
            GroupKey::Account(job.account),
            GroupKey::User(job.user),
            GroupKey::Heaviness(heavy.get(&job.user).copied().unwrap_or_default()),
            GroupKey::Size(size_class(job.processors)),
            GroupKey::Queue(job.queue),
        ] {
            groups.entry(key).or_default().add(week, before, after);
        }
    }
    let lines = lines(workload, &groups, seed);
    let weeks = groups.get(&GroupKey::Whole)?.weeks.len() as u64;
    sorted_into(lines, unknown, weeks)
}

/// What jobs may have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    Whole,
    Account(u32),
    User(u32),
    Heaviness(Heaviness),
    Size(u32),
    Queue(u32),
}

/// How much a user has used beside the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Heaviness {
    /// Of those who have used least: together a tenth of all, at most.
    #[default]
    Light,
    /// Between the two.
    Middle,
    /// Of those who have used most: together half of all, at least.
    Heavy,
}

impl Heaviness {
    /// Of each user, by processors times run time in all.
    fn of_users(workload: &Workload) -> BTreeMap<u32, Self> {
        let mut work: BTreeMap<u32, i128> = BTreeMap::new();
        for job in &workload.jobs {
            let run = i128::from(job.run.0.max(0));
            *work.entry(job.user).or_default() += i128::from(job.processors) * run;
        }
        let all: i128 = work.values().sum();
        let mut users: Vec<(i128, u32)> = work.iter().map(|(user, work)| (*work, *user)).collect();
        users.sort_unstable();
        let mut sum = 0;
        let class = |(work, user): (i128, u32)| {
            sum += work;
            let class = match () {
                () if 10 * sum <= all => Self::Light,
                () if 2 * sum <= all => Self::Middle,
                () => Self::Heavy,
            };
            (user, class)
        };
        users.into_iter().map(class).collect()
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Light => "light: a tenth of all",
            Self::Middle => "middle",
            Self::Heavy => "heavy: half of all",
        }
    }
}

impl GroupKey {
    fn name(self, workload: &Workload) -> String {
        let known = |names: &[String], at: u32| {
            let name = names.get(at as usize).filter(|name| !name.is_empty());
            name.map_or_else(|| "(unknown)".to_owned(), Clone::clone)
        };
        match self {
            Self::Whole => "all jobs".to_owned(),
            Self::Account(at) => known(&workload.accounts, at),
            Self::User(at) => known(&workload.users, at),
            Self::Heaviness(class) => class.words().to_owned(),
            Self::Size(class) => size_name(class),
            Self::Queue(at) => known(&workload.queues, at),
        }
    }
}

/// 0 for one processor, 1 for up to 4, 2 for up to 16 and so on.
fn size_class(processors: u32) -> u32 {
    let bits = u32::BITS - processors.saturating_sub(1).leading_zeros();
    bits.div_ceil(2)
}

fn size_name(class: u32) -> String {
    let upper = |class: u32| 1u64 << (2 * class);
    match class {
        0 => "1".to_owned(),
        class => format!("{}-{}", upper(class - 1) + 1, upper(class)),
    }
}

/// The waits of some jobs, in milliseconds.
#[derive(Default)]
struct GroupSums {
    before: i128,
    after: i128,
    weeks: BTreeMap<i64, WeekSums>,
    /// Wait of each job, before and after.
    waits: [Vec<i64>; 2],
}

impl GroupSums {
    fn add(&mut self, week: i64, before: Span, after: Span) {
        self.before += i128::from(before.0);
        self.after += i128::from(after.0);
        let sums = self.weeks.entry(week).or_default();
        sums.jobs += 1;
        sums.difference += i128::from(after.0) - i128::from(before.0);
        self.waits[0].push(before.0);
        self.waits[1].push(after.0);
    }

    /// The wait that so many in 100 jobs did not exceed, before and after, in seconds.
    fn waited(&self, in_hundred: usize) -> (f64, f64) {
        let of = |waits: &Vec<i64>| {
            let rank = (waits.len() * in_hundred).div_ceil(100).max(1) - 1;
            let mut waits = waits.clone();
            match waits.is_empty() {
                true => 0.0,
                false => *waits.select_nth_unstable(rank).1 as f64 / 1000.0,
            }
        };
        (of(&self.waits[0]), of(&self.waits[1]))
    }

    fn line(&self, name: String, spread: Option<(f64, f64)>) -> ComparisonRow {
        let jobs: i128 = self.weeks.values().map(|week| week.jobs).sum();
        let mean = |sum: i128| quotient(sum, jobs * 1000).unwrap_or(0.0);
        ComparisonRow {
            name,
            jobs: jobs as u64,
            before: mean(self.before),
            after: mean(self.after),
            median: self.waited(50),
            p95: self.waited(95),
            difference: mean(self.after - self.before),
            spread,
            verdict: Verdict::of(spread),
        }
    }
}

fn lines(
    workload: &Workload,
    groups: &BTreeMap<GroupKey, GroupSums>,
    seed: u64,
) -> Vec<(GroupKey, ComparisonRow)> {
    let weeks: Vec<_> = groups.values().map(|group| &group.weeks).collect();
    let spreads = weeks::spreads(&weeks, seed);
    let both = groups.iter().zip(spreads);
    both.map(|((key, group), spread)| (*key, group.line(key.name(workload), spread)))
        .collect()
}

fn sorted_into(
    lines: Vec<(GroupKey, ComparisonRow)>,
    unknown: u64,
    weeks: u64,
) -> Option<Comparison> {
    let (mut whole, mut accounts, mut sizes, mut queues) = (None, vec![], vec![], vec![]);
    let (mut users, mut weights) = (vec![], vec![]);
    for (key, line) in lines {
        match key {
            GroupKey::Whole => whole = Some(line),
            GroupKey::Account(_) => accounts.push(line),
            GroupKey::User(_) => users.push(line),
            GroupKey::Heaviness(_) => weights.push(line),
            GroupKey::Size(_) => sizes.push(line),
            GroupKey::Queue(_) => queues.push(line),
        }
    }
    for by_jobs in [&mut accounts, &mut queues] {
        by_jobs.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.name.cmp(&b.name)));
    }
    users.sort_by(|a: &ComparisonRow, b| {
        let by_change = b.difference.abs().total_cmp(&a.difference.abs());
        by_change.then_with(|| a.name.cmp(&b.name))
    });
    Some(Comparison {
        users,
        weights,
        unknown,
        weeks,
        whole: whole?,
        accounts,
        sizes,
        queues,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Job;
    use cosy_model::Time;

    #[test]
    fn size_classes() {
        let check = |processors: u32, want: &str| {
            assert_eq!(size_name(size_class(processors)), want, "{processors}");
        };
        check(1, "1");
        check(2, "2-4");
        check(4, "2-4");
        check(5, "5-16");
        check(16, "5-16");
        check(17, "17-64");
        check(65, "65-256");
        check(u32::MAX, "1073741825-4294967296");
    }

    /// Day of submission, processors, account, wait before, wait after.
    type Row = (i64, u32, u32, Option<i64>, Option<i64>);

    fn compared(rows: &[Row]) -> Option<Comparison> {
        let job = |row: &Row| Job {
            submit: Time::from_secs(row.0 * 86_400),
            processors: row.1,
            account: row.2,
            ..Job::default()
        };
        let workload = Workload {
            jobs: rows.iter().map(job).collect(),
            accounts: vec![String::new(), "bio".to_owned()],
            queues: vec!["day".to_owned()],
            ..Workload::default()
        };
        let before: Vec<_> = rows.iter().map(|row| row.3.map(Span::from_secs)).collect();
        let after: Vec<_> = rows.iter().map(|row| row.4.map(Span::from_secs)).collect();
        compare(&workload, &before, &after, 1)
    }

    #[test]
    fn means_by_hand() {
        let got = compared(&[
            (0, 1, 1, Some(100), Some(40)),
            (1, 8, 1, Some(20), Some(20)),
            (8, 1, 0, Some(0), Some(30)),
            (9, 1, 0, None, Some(30)),
            (9, 1, 0, Some(30), None),
        ]);
        let got = got.unwrap();
        assert_eq!((got.unknown, got.weeks), (2, 2));
        let row = |line: &ComparisonRow| (line.name.clone(), line.jobs, line.before, line.after);
        assert_eq!(row(&got.whole), ("all jobs".to_owned(), 3, 40.0, 30.0));
        assert_eq!(got.whole.difference, -10.0);
        assert_eq!(got.whole.verdict, Verdict::TooFewWeeks);
        assert_eq!((got.whole.median, got.whole.p95), ((20.0, 30.0), (100.0, 40.0)));
        let accounts: Vec<_> = got.accounts.iter().map(row).collect();
        let unknown = "(unknown)".to_owned();
        assert_eq!(accounts, [("bio".to_owned(), 2, 60.0, 30.0), (unknown, 1, 0.0, 30.0)]);
        let sizes: Vec<_> = got.sizes.iter().map(row).collect();
        assert_eq!(
            sizes,
            [
                ("1".to_owned(), 2, 50.0, 35.0),
                ("5-16".to_owned(), 1, 20.0, 20.0)
            ]
        );
        assert_eq!(row(&got.queues[0]), ("day".to_owned(), 3, 40.0, 30.0));
        assert_eq!(compared(&[(0, 1, 1, None, Some(1))]), None);
        assert_eq!(compared(&[]), None);
    }

    #[test]
    fn who_is_light_and_who_is_heavy() {
        let job = |user: u32, run: i64| Job {
            user,
            processors: 2,
            run: Span::from_secs(run),
            ..Job::default()
        };
        let check = |works: &[i64], want: &[Heaviness]| {
            let jobs = works
                .iter()
                .enumerate()
                .map(|(at, run)| job(at as u32 + 1, *run));
            let workload = Workload {
                jobs: jobs.collect(),
                ..Workload::default()
            };
            let got: Vec<_> = Heaviness::of_users(&workload).into_values().collect();
            assert_eq!(got, want, "{works:?}");
        };
        use Heaviness::{Heavy, Light, Middle};
        check(&[60, 4, 30, 6], &[Heavy, Light, Middle, Light]);
        check(&[1, 1], &[Middle, Heavy]);
        check(&[5], &[Heavy]);
        check(&[0, 0], &[Light, Light]);
    }

    #[test]
    fn verdicts() {
        // Twelve weeks; in each a job's wait changes by that much.
        let check = |change: fn(i64) -> i64, want: Verdict| {
            let row = |week| (7 * week, 1, 0, Some(1000), Some(1000 + change(week)));
            let got = compared(&(0..12).map(row).collect::<Vec<_>>()).unwrap();
            assert_eq!(got.whole.verdict, want, "{:?}", got.whole);
            let (low, high) = got.whole.spread.unwrap();
            assert!(low <= got.whole.difference && got.whole.difference <= high);
        };
        check(|_| -1, Verdict::Shorter);
        check(|week| 50 + week, Verdict::Longer);
        check(|week| if week % 2 == 0 { 300 } else { -299 }, Verdict::Unclear);
        check(|_| 0, Verdict::Unclear);
    }
}
