//! The results of the workflow experiment: as text (its tables are Markdown) and as JSON.

use super::SCHEDULERS;
use super::claims;
use super::failures::{self, ALPHAS, Method, QOI};
use super::spare::{self, PlannedGraph, SpareTimes};
use super::study::Study;
use super::times::Point;
use crate::booking::claims::{Claim, Claims};
use cosy_sched::workflow::FlowSlackPolicy;
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// What the study comes to, with the paper's statements tried on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    study: Study,
    /// The paper's statements about each table, under the table's title.
    claims: Vec<(&'static str, Vec<Claim>)>,
}

impl Report {
    /// Sums a study up.
    pub fn of(study: Study) -> Self {
        let claims = vec![
            ("What the paper says of Table 1, one deadline", claims::of_spare(&study.fixed)),
            ("The same with the paper's alphas", claims::of_spare(&study.alike)),
            (
                "What the paper says of Table 2, tasks start with their slots",
                claims::of_failures(&study.in_slots),
            ),
            ("The same, tasks start as soon as they can", claims::of_failures(&study.early)),
            ("What the paper says of Figure 9", claims::of_times(&study.times)),
        ];
        Self { study, claims }
    }

    /// True when every claim holds.
    pub fn all_hold(&self) -> bool {
        let mut claims = self.claims.iter().flat_map(|(_, claims)| claims);
        claims.all(|claim| claim.holds)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let mut all = json!(self.study);
        let claims = self.claims.iter();
        let claims = claims.map(|(title, claims)| json!({"title": title, "claims": claims}));
        all["claims"] = claims.collect();
        all["paper"] = json!({
            "table_1": spare::Table::paper(), "table_2": failures::Table::paper(),
        });
        all
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let study = &self.study;
        let paper = spare::Table::paper();
        let deadline = study.deadline_ms / 1000;
        writeln!(
            f,
            "\nTable 1, deadline {deadline}: ours / the paper's; least, most, mean spare time in %"
        )?;
        of_spare(f, &study.fixed, &paper)?;
        writeln!(f, "\nTable 1, deadlines such that alpha is the paper's")?;
        of_spare(f, &study.alike, &paper)?;
        let paper = failures::Table::paper();
        writeln!(f, "\nTable 2, tasks start with their slots: ours / the paper's, in %")?;
        of_failures(f, &study.in_slots, &paper)?;
        writeln!(f, "\nTable 2, tasks start as soon as they can")?;
        of_failures(f, &study.early, &paper)?;
        writeln!(f, "\nFigure 9: processor time of a plan in µs")?;
        of_times(f, &study.times)?;
        for (title, claims) in &self.claims {
            write!(f, "\n{title}\n{}", Claims(claims))?;
        }
        Ok(())
    }
}

/// The first line of a table, and the one below it.
fn head(f: &mut impl Write, names: &[String]) -> fmt::Result {
    writeln!(f, "| {} |", names.join(" | "))?;
    writeln!(f, "|{}", "---|".repeat(names.len()))
}

fn row(f: &mut impl Write, name: &str, cells: impl IntoIterator<Item = String>) -> fmt::Result {
    let cells: Vec<String> = cells.into_iter().collect();
    writeln!(f, "| {name} | {} |", cells.join(" | "))
}

fn three(shares: &SpareTimes) -> String {
    format!("{:.1} {:.1} {:.1}", shares.min, shares.max, shares.avg)
}

fn of_spare(f: &mut impl Write, ours: &spare::Table, paper: &spare::Table) -> fmt::Result {
    for ((kind, ours), (_, paper)) in ours.kinds.iter().zip(&paper.kinds) {
        let mut names = vec![kind.word().to_owned()];
        names.extend(SCHEDULERS.map(|scheduler| scheduler.word().to_owned()));
        writeln!(f)?;
        head(f, &names)?;
        let pairs = || ours.iter().zip(paper);
        row(
            f,
            "first schedule",
            pairs().map(|(ours, paper)| format!("{:.0} / {:.0}", ours.makespan, paper.makespan)),
        )?;
        row(f, "in time", ours.iter().map(|cell| cell.in_time.to_string()))?;
        row(
            f,
            "alpha",
            pairs().map(|(ours, paper)| format!("{:.1} / {:.0}", ours.alpha, paper.alpha)),
        )?;
        let critical = ours.iter().filter_map(|cell| cell.critical);
        let critical = critical.map(|percent| format!("{percent:.0} %"));
        row(f, "computing on the critical path", critical)?;
        for (at, policy) in FlowSlackPolicy::ALL.into_iter().enumerate() {
            let cell = |(ours, paper): (&spare::TableCell, &spare::TableCell)| {
                format!("{} / {}", three(&ours.shares[at]), three(&paper.shares[at]))
            };
            row(f, policy.word(), pairs().map(cell))?;
        }
    }
    Ok(())
}

fn of_failures(f: &mut impl Write, ours: &failures::Table, paper: &failures::Table) -> fmt::Result {
    let mut names = vec!["alpha".to_owned(), "reserved".to_owned()];
    names.extend(QOI[1..].iter().map(|qoi| format!("failures, QoI {qoi}")));
    names.extend(QOI.iter().map(|qoi| format!("use, QoI {qoi}")));
    head(f, &names)?;
    for (alpha, (ours, paper)) in ALPHAS.iter().zip(ours.0.iter().zip(&paper.0)) {
        for (method, (ours, paper)) in Method::ALL.iter().zip(ours.iter().zip(paper)) {
            let failures = ours.failures.iter().zip(paper.failures).skip(1);
            let failures = failures.map(|(a, b)| format!("{a:.0} / {b:.0}"));
            let used = ours.used.iter().zip(paper.used);
            let used = used.map(|(a, b)| format!("{a:.1} / {b:.1}"));
            let cells = [method.word().to_owned()].into_iter();
            row(f, &alpha.to_string(), cells.chain(failures).chain(used))?;
        }
    }
    Ok(())
}

fn of_times(f: &mut impl Write, points: &[Point]) -> fmt::Result {
    let mut names = vec!["first schedule, policy".to_owned()];
    names.extend(points.iter().map(|point| format!("{} tasks", point.tasks)));
    head(f, &names)?;
    for (at, scheduler) in SCHEDULERS.into_iter().enumerate() {
        let first = points
            .iter()
            .map(|point| format!("{:.0}", point.first_us[at]));
        row(f, &format!("{} alone", scheduler.word()), first)?;
        for (policy, word) in FlowSlackPolicy::ALL
            .map(FlowSlackPolicy::word)
            .into_iter()
            .enumerate()
        {
            let whole = points
                .iter()
                .map(|point| format!("{:.0}", point.whole_us[policy][at]));
            row(f, &format!("{}, {word}", scheduler.word()), whole)?;
        }
    }
    let ways = points.iter().map(|point| format!("{:.0}", point.ways));
    row(f, "ways through the schedule, median", ways)
}

/// A graph of one's own under all first schedules and policies, as text; `None` where the
/// first schedule ends after the deadline.
pub fn of_one(planned: &[Option<PlannedGraph>; 4]) -> String {
    let mut out = String::new();
    let lines = one(&mut out, planned);
    debug_assert!(lines.is_ok(), "texts can always be written to");
    out
}

fn one(f: &mut impl Write, planned: &[Option<PlannedGraph>; 4]) -> fmt::Result {
    let mut names = vec!["least, most, mean spare time in %".to_owned()];
    names.extend(SCHEDULERS.map(|scheduler| scheduler.word().to_owned()));
    head(f, &names)?;
    let cells = |of: &dyn Fn(&PlannedGraph) -> String| {
        let cell = |planned: &Option<PlannedGraph>| match planned {
            Some(planned) => of(planned),
            None => "too late".to_owned(),
        };
        planned.each_ref().map(cell)
    };
    let length = |planned: &PlannedGraph| format!("{:.3}", planned.makespan_ms as f64 / 1000.0);
    row(f, "first schedule, s", cells(&length))?;
    row(f, "alpha", cells(&|planned| format!("{:.1}", planned.alpha)))?;
    for (at, policy) in FlowSlackPolicy::ALL.into_iter().enumerate() {
        row(f, policy.word(), cells(&|planned| three(&planned.shares[at])))?;
    }
    Ok(())
}
