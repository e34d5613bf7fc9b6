//! Reports as text: who used how much, summed out of jobs.

use super::options::{Query, Report, Unit};
pub use super::tables::Style;
use super::tables::{Cell, columns, table};
use crate::times::TimeWriter;
use cosy_model::Time;
use std::collections::{BTreeMap, BTreeSet};

/// One job as far as reports look at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobUse {
    /// Login name of its owner.
    pub user: String,
    /// Account that was charged; empty without one.
    pub account: String,
    /// Cores that it held.
    pub cores: u64,
    /// When it began to run.
    pub start: Time,
    /// When it ended; `None` while it runs.
    pub end: Option<Time>,
}

/// What reports know of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Its name.
    pub cluster: String,
    /// Cores of all nodes.
    pub cores: u64,
    /// The account above each account; the root has none.
    pub parents: BTreeMap<String, String>,
    /// Names of users in full, by login name.
    pub proper_names: BTreeMap<String, String>,
}

/// The account of jobs that were charged to none.
const ROOT: &str = "root";

/// The whole report.
///
/// # Errors
/// The line about a column that there is not.
pub fn text(
    query: &Query,
    style: Style,
    facts: &Facts,
    jobs: &[JobUse],
    writer: &TimeWriter,
) -> Result<String, String> {
    let columns = columns(query, style.unit)?;
    let whole = u128::from(facts.cores) * u128::from(seconds(query.start, query.end));
    let rows = match query.report {
        Report::Utilization => vec![utilization(query, facts, jobs, whole)],
        Report::AccountsByUser => by_account(query, facts, jobs),
        Report::UsersByAccount => by_user(query, facts, jobs, usize::MAX),
        Report::TopUsers => by_user(query, facts, jobs, query.top),
        Report::Sizes => sizes(query, facts, jobs),
    };
    let mut out = String::new();
    if !style.bare {
        out.push_str(&heading(query, style.unit, writer));
    }
    out.push_str(&table(&columns, &rows, style, whole));
    Ok(out)
}

fn heading(query: &Query, unit: Unit, writer: &TimeWriter) -> String {
    let line = "-".repeat(80);
    let last = Time(query.end.0.saturating_sub(1000));
    let between = format!("{} - {}", writer.text(query.start), writer.text(last));
    let length = seconds(query.start, query.end);
    let title = match query.report {
        Report::Utilization => format!("Cluster Utilization {between}"),
        Report::AccountsByUser => {
            format!("Cluster/Account/User Utilization {between} ({length} secs)")
        }
        Report::UsersByAccount => {
            format!("Cluster/User/Account Utilization {between} ({length} secs)")
        }
        Report::TopUsers => format!("Top {} Users {between} ({length} secs)", query.top),
        Report::Sizes => format!("Job Sizes {between} ({length} secs)"),
    };
    let what = match query.report {
        Report::Sizes => "Time reported in",
        _ if unit.seconds.is_none() => "Usage reported in",
        _ => "Usage reported in CPU",
    };
    format!("{line}\n{title}\n{what} {}\n{line}\n", unit.name)
}

/// Whole seconds between two points.
fn seconds(from: Time, to: Time) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0) / 1000).unwrap_or(0)
}

/// Core seconds of a job inside of the time asked for.
fn used(query: &Query, job: &JobUse) -> u128 {
    let from = job.start.max(query.start);
    let to = job.end.map_or(query.end, |end| end.min(query.end));
    u128::from(job.cores) * u128::from(seconds(from, to))
}

fn account(job: &JobUse) -> &str {
    match job.account.as_str() {
        "" => ROOT,
        account => account,
    }
}

fn among(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|n| n == name)
}

/// Jobs of the users asked for, whatever account they were charged to.
fn of_users<'a>(query: &'a Query, jobs: &'a [JobUse]) -> impl Iterator<Item = (&'a JobUse, u128)> {
    jobs.iter()
        .filter(move |job| among(&query.users, &job.user))
        .map(|job| (job, used(query, job)))
        .filter(|(_, used)| *used > 0)
}

fn counts<'a>(query: &'a Query, jobs: &'a [JobUse]) -> impl Iterator<Item = (&'a JobUse, u128)> {
    of_users(query, jobs).filter(move |(job, _)| among(&query.accounts, account(job)))
}

/// An account and all above it, up to the root.
fn upwards<'a>(facts: &'a Facts, from: &'a str) -> impl Iterator<Item = &'a str> {
    let above = |name: &&'a str| match facts.parents.get(*name) {
        Some(parent) => Some(parent.as_str()),
        None => (*name != ROOT).then_some(ROOT),
    };
    // A circle cannot be, but would end here.
    std::iter::successors(Some(from), above).take(facts.parents.len() + 2)
}

fn utilization(query: &Query, facts: &Facts, jobs: &[JobUse], whole: u128) -> Vec<Cell> {
    let allocated: u128 = jobs.iter().map(|job| used(query, job)).sum();
    let reported = whole.max(allocated);
    vec![
        Cell::Text(facts.cluster.clone()),
        Cell::Use(allocated),
        Cell::Use(0),
        Cell::Use(0),
        Cell::Use(reported - allocated),
        Cell::Use(0),
        Cell::Use(reported),
    ]
}

/// Accounts under those above them, each with the use of all below it, then its users.
fn by_account(query: &Query, facts: &Facts, jobs: &[JobUse]) -> Vec<Vec<Cell>> {
    let mut sums: BTreeMap<&str, u128> = BTreeMap::new();
    let mut users: BTreeMap<(&str, &str), u128> = BTreeMap::new();
    for (job, used) in of_users(query, jobs) {
        *users.entry((account(job), &job.user)).or_default() += used;
        for name in upwards(facts, account(job)) {
            *sums.entry(name).or_default() += used;
        }
    }
    let mut rows = Vec::new();
    let mut waiting = vec![ROOT];
    let mut done: BTreeSet<&str> = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some(sum) = sums.get(name).filter(|_| done.insert(name)) else {
            continue;
        };
        let indented = |deeper: usize| match query.tree {
            true => " ".repeat(upwards(facts, name).count() - 1 + deeper) + name,
            false => name.to_owned(),
        };
        let asked = among(&query.accounts, name);
        if asked && query.users.is_empty() {
            rows.push(row(facts, &indented(0), "", *sum, false));
        }
        let own = users
            .range((name, "")..)
            .take_while(|((a, _), _)| *a == name)
            .filter(|_| asked);
        rows.extend(own.map(|((_, user), used)| row(facts, &indented(1), user, *used, false)));
        let above = |child: &str| facts.parents.get(child).map_or(ROOT, String::as_str);
        let below: Vec<&str> = sums
            .keys()
            .copied()
            .filter(|child| *child != name && above(child) == name)
            .collect();
        waiting.extend(below.into_iter().rev());
    }
    rows
}

/// Users and their accounts, those who used most first.
fn by_user(query: &Query, facts: &Facts, jobs: &[JobUse], most: usize) -> Vec<Vec<Cell>> {
    let mut users: BTreeMap<(&str, &str), u128> = BTreeMap::new();
    for (job, used) in counts(query, jobs) {
        *users.entry((&job.user, account(job))).or_default() += used;
    }
    let mut all: Vec<(&str, String, u128)> = match query.group {
        true => grouped(facts, &users),
        false => users
            .into_iter()
            .map(|((user, account), used)| (user, account.to_owned(), used))
            .collect(),
    };
    all.sort_by_key(|(_, _, used)| std::cmp::Reverse(*used));
    let first = all.into_iter().take(most);
    first
        .map(|(user, accounts, used)| row(facts, &accounts, user, used, true))
        .collect()
}

/// Each user once, with the names of all accounts, those nearest to the root first.
fn grouped<'a>(
    facts: &Facts,
    users: &BTreeMap<(&'a str, &'a str), u128>,
) -> Vec<(&'a str, String, u128)> {
    let mut all: BTreeMap<&str, (Vec<&str>, u128)> = BTreeMap::new();
    for ((user, account), used) in users {
        let (accounts, sum) = all.entry(user).or_default();
        accounts.push(account);
        *sum += used;
    }
    let joined = |(user, (mut accounts, used)): (&'a str, (Vec<&str>, u128))| {
        accounts.sort_by_key(|name| upwards(facts, name).count());
        (user, accounts.join(", "), used)
    };
    all.into_iter().map(joined).collect()
}

fn row(facts: &Facts, account: &str, user: &str, used: u128, user_first: bool) -> Vec<Cell> {
    let proper = facts.proper_names.get(user).cloned().unwrap_or_default();
    let who = [Cell::Text(user.to_owned()), Cell::Text(proper)];
    let account = Cell::Text(account.to_owned());
    let mut cells = vec![Cell::Text(facts.cluster.clone())];
    match user_first {
        true => {
            cells.extend(who);
            cells.push(account);
        }
        false => {
            cells.push(account);
            cells.extend(who);
        }
    }
    cells.extend([Cell::Use(used), Cell::Use(0)]);
    cells
}

/// Use of accounts by the cores of jobs, and the part of each in the use of all. Without `flatview`
/// those named have all below them, and the root has everything where none is named.
fn sizes(query: &Query, facts: &Facts, jobs: &[JobUse]) -> Vec<Vec<Cell>> {
    let groups = query.grouping.len() + 1;
    let mut sums: BTreeMap<&str, Vec<(u128, u64)>> = BTreeMap::new();
    for (job, used) in of_users(query, jobs) {
        let smaller = query.grouping.iter().filter(|size| job.cores >= **size);
        let group = smaller.count();
        for name in counted_for(query, facts, account(job)) {
            let own = sums.entry(name).or_insert_with(|| vec![(0, 0); groups]);
            if let Some((sum, count)) = own.get_mut(group) {
                *sum += used;
                *count += 1;
            }
        }
    }
    let whole = |own: &[(u128, u64)]| own.iter().map(|(used, _)| used).sum::<u128>();
    let all: u128 = sums.values().map(|own| whole(own)).sum();
    let row = |(name, own): (&&str, &Vec<(u128, u64)>)| {
        let mut cells = vec![
            Cell::Text(facts.cluster.clone()),
            Cell::Text((*name).to_owned()),
        ];
        let of = whole(own);
        cells.extend(own.iter().map(|(used, count)| match query.count {
            true => Cell::Count(*count),
            false => Cell::UseOf(*used, of),
        }));
        cells.push(Cell::Part(of, all));
        cells
    };
    sums.iter().map(row).collect()
}

/// The accounts in whose rows a job of this account counts.
fn counted_for<'a>(query: &'a Query, facts: &'a Facts, account: &'a str) -> Vec<&'a str> {
    match (query.flat, query.accounts.is_empty()) {
        (true, true) => vec![account],
        (false, true) => vec![ROOT],
        (flat, false) => {
            let own = upwards(facts, account).take(if flat { 1 } else { usize::MAX });
            own.filter(|name| among(&query.accounts, name)).collect()
        }
    }
}
