//! The results of the what-if experiment: as text, as JSON, as a picture.

use super::claims::{ClaimInputs, PAPER};
use super::figures::{GrantedShares, MakespanGrowth, Row, table};
use super::placement::Method;
use super::study::{AHEAD_HOURS, Study, WINDOWS_HOURS};
use crate::booking::claims::{Claim, Claims};
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// All results. What there is for both methods is by load first, then by what-if.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// How many choices of reservations.
    pub seeds: usize,
    /// Shares of granted requests.
    pub success: [GrantedShares; 2],
    /// How much longer the whole schedule gets.
    pub growth: [MakespanGrowth; 2],
    /// Table 1 of the workload as it is, a line for each book-ahead time.
    pub table: [Vec<Row>; 2],
    /// Table 1 with jobs below 89 nodes.
    pub limited: [Vec<Row>; 2],
    /// Table 1 with exact limits.
    pub exact: [Vec<Row>; 2],
    /// What the paper says, tried.
    pub claims: Vec<Claim>,
}

impl Report {
    /// Sums a study up.
    pub fn of(study: &Study) -> Self {
        let success = Method::ALL.map(|method| study.success(method));
        let growth = Method::ALL.map(|method| study.growth(method));
        let tables = |runs| Method::ALL.map(|method| table(runs, method));
        let table = tables(&study.plain);
        let claims = ClaimInputs {
            study,
            success: &success,
            growth: &growth,
            table: &table,
        }
        .claims();
        Self {
            seeds: study.seeds.len(),
            limited: tables(&study.limited),
            exact: tables(&study.exact),
            success,
            growth,
            table,
            claims,
        }
    }

    /// True when every claim holds.
    pub fn all_hold(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let both = |of: &dyn Fn(usize) -> Value| json!({"load": of(0), "what_if": of(1)});
        json!({
            "seeds": self.seeds,
            "book_ahead_hours": AHEAD_HOURS,
            "window_hours": WINDOWS_HOURS,
            "success": both(&|at| json!(self.success[at])),
            "makespan_growth": both(&|at| json!(self.growth[at])),
            "table": both(&|at| json!(self.table[at])),
            "table_jobs_below_89_nodes": both(&|at| json!(self.limited[at])),
            "table_exact_limits": both(&|at| json!(self.exact[at])),
            "claims": self.claims,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds = self.seeds;
        writeln!(f, "{seeds} choices of reservations; in () the least and the most of them")?;
        for (method, success) in Method::ALL.iter().zip(&self.success) {
            granted(f, *method, success)?;
        }
        for (method, growth) in Method::ALL.iter().zip(&self.growth) {
            grown(f, *method, growth)?;
        }
        delayed(f, &self.table)?;
        let title = "Table 1 with all jobs below 89 nodes";
        totals(f, title, &self.limited)?;
        totals(f, "Table 1 with limits that are the run times", &self.exact)?;
        f.write_str("\nWhat the paper says\n")?;
        write!(f, "{}", Claims(&self.claims))
    }
}

fn granted(f: &mut impl Write, method: Method, success: &GrantedShares) -> fmt::Result {
    let percent = |spread: crate::booking::spread::Spread| spread.times(100.0);
    writeln!(
        f,
        "\nGranted in per cent, {}: {:.1} of all, {:.1} where both times are at most 2 h,\n\
         {:.1} of the fifth at the highest load ({:.1} of the fifth of each combination)",
        method.name(),
        percent(success.all),
        percent(success.small),
        percent(success.loaded),
        percent(success.loaded_of_each),
    )?;
    columns(f)?;
    for (ahead, row) in AHEAD_HOURS.iter().zip(&success.grid) {
        let cells: String = row
            .iter()
            .map(|cell| format!("{:>7.1}", cell.mean * 100.0))
            .collect();
        writeln!(f, "{ahead:>9} h{cells}")?;
    }
    Ok(())
}

fn columns(f: &mut impl Write) -> fmt::Result {
    let windows: String = WINDOWS_HOURS
        .iter()
        .map(|hours| format!("{hours:>5} h"))
        .collect();
    writeln!(f, "book-ahead {windows}  window")
}

fn grown(f: &mut impl Write, method: Method, growth: &MakespanGrowth) -> fmt::Result {
    writeln!(
        f,
        "\nMakespan longer by per cent, {}: {:.2}; of the jobs of the queue alone {:.2}",
        method.name(),
        growth.all.times(100.0),
        growth.queue.times(100.0),
    )?;
    columns(f)?;
    for (ahead, row) in AHEAD_HOURS.iter().zip(&growth.grid) {
        let cells: String = row
            .iter()
            .map(|cell| format!("{:>7.2}", cell * 100.0))
            .collect();
        writeln!(f, "{ahead:>9} h{cells}")?;
    }
    Ok(())
}

fn delayed(f: &mut impl Write, tables: &[Vec<Row>; 2]) -> fmt::Result {
    f.write_str(
        "\nTable 1, window 30 h: the paper's figures first, then ours; waits in seconds\n\
         book-ahead  method    jobs original affected | jobs             original             \
         affected                delayed, days     others waited less\n",
    )?;
    for (at, (ahead, load, what_if)) in PAPER.iter().enumerate() {
        for (method, (paper, rows)) in [load, what_if].into_iter().zip(tables).enumerate() {
            let name = Method::ALL[method].name();
            let [jobs, original, affected] = paper;
            let Some(row) = rows.get(at) else { continue };
            writeln!(
                f,
                "{ahead:>8} h  {name:<8} {jobs:>5} {original:>8} {affected:>8} | {:<16.0} {:<20.0} {:<22.0}  {:<17.1} {:.1}",
                row.jobs, row.original_secs, row.affected_secs, row.total_days, row.gained_days,
            )?;
        }
    }
    Ok(())
}

fn totals(f: &mut impl Write, title: &str, tables: &[Vec<Row>; 2]) -> fmt::Result {
    writeln!(
        f,
        "\n{title}\nbook-ahead  method   jobs             original             affected                delayed, days"
    )?;
    for (at, ahead) in AHEAD_HOURS.iter().enumerate() {
        for (method, rows) in Method::ALL.iter().zip(tables) {
            let name = method.name();
            let Some(row) = rows.get(at) else { continue };
            writeln!(
                f,
                "{ahead:>8} h  {name:<8} {:<16.0} {:<20.0} {:<22.0}  {:.1}",
                row.jobs, row.original_secs, row.affected_secs, row.total_days,
            )?;
        }
    }
    Ok(())
}
