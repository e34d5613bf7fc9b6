//! What `cosy-sim try` has found, as tables for people and as JSON.

use super::report::{dropped_json, percent};
use anyhow::Context;
use cosy_model::Span;
use cosy_sim::compare::{Comparison, ComparisonRow, DRAWS};
use cosy_sim::machine::Machine;
use cosy_sim::metrics::Metrics;
use serde_json::{Value, json};
use std::fmt;

/// Most lines of a table; JSON has all.
const SHOWN: usize = 30;
/// Longest name in a table.
const NAME: usize = 24;

const CAVEAT: &str = "\
A replay does not know what users would have done: here they submit what they submitted, when
they did, with the limits that they gave. Shorter waits may draw more work.
";

const RECORDED: &str = "\
Recorded waits also hold what a replay does not know: holds, dependencies, limits of users,
nodes that were down, the old system's priorities. For like with like name it with --against.
";

/// Where the waits of one side come from.
pub enum WaitSource {
    /// The history itself has recorded them.
    Recorded,
    /// From a replay under a policy.
    Replayed {
        /// The word or file that was given.
        name: String,
        /// The policy as `--policy` spells it: `easy`, `depth=4`.
        policy: String,
        /// Waits, utilisation and the other figures.
        metrics: Metrics,
    },
}

/// Everything that is told.
pub struct TryReport {
    /// The file that the history was read from.
    pub history: String,
    /// The machine that the history was replayed on.
    pub machine: Machine,
    /// Why rows were left out, and how many.
    pub dropped: Vec<(String, u64)>,
    /// Waits under the old policy, or as recorded.
    pub before: WaitSource,
    /// Waits under the new policy.
    pub after: WaitSource,
    /// Waits before and after, of all jobs and of groups.
    pub comparison: Comparison,
    /// Of accounts: what was not carried over, and who was not in them.
    pub remarks: Vec<String>,
    /// One side at least went through the controller with accounts or an order.
    pub by_controller: bool,
}

impl WaitSource {
    fn json(&self) -> Value {
        match self {
            Self::Recorded => json!({"policy": "recorded"}),
            Self::Replayed {
                name,
                policy,
                metrics,
            } => json!({
                "name": name,
                "policy": policy,
                "jobs": metrics.jobs,
                "makespan": metrics.makespan.ms() as f64 / 1000.0,
                "utilisation": metrics.utilisation(),
                "mean_wait": metrics.mean_wait(),
                "median_wait": metrics.median_wait(),
                "p95_wait": metrics.p95_wait(),
                "mean_bounded_slowdown": metrics.mean_bounded_slowdown(),
            }),
        }
    }
}

/// What no replay knows.
const NOT_MODELLED: [&str; 4] = [
    "memory, GPUs and licences",
    "held jobs and dependencies",
    "nodes that were down",
    "what differs between nodes",
];

impl TryReport {
    fn not_modelled(&self) -> Vec<&'static str> {
        let mut all = NOT_MODELLED.to_vec();
        if !self.by_controller {
            all.push("accounts, qualities of service and their limits");
        }
        all
    }

    /// Times are in seconds.
    ///
    /// # Errors
    /// None that are known.
    pub fn json(&self) -> anyhow::Result<String> {
        let lines = |lines: &[ComparisonRow]| lines.iter().map(line_json).collect::<Vec<Value>>();
        let comparison = &self.comparison;
        let value = json!({
            "history": self.history,
            "machine": {"nodes": self.machine.nodes, "cores": self.machine.cores},
            "dropped": dropped_json(&self.dropped),
            "before": self.before.json(),
            "after": self.after.json(),
            "weeks": comparison.weeks,
            "unknown": comparison.unknown,
            "all": line_json(&comparison.whole),
            "accounts": lines(&comparison.accounts),
            "users": lines(&comparison.users),
            "users_by_use": lines(&comparison.weights),
            "sizes": lines(&comparison.sizes),
            "queues": lines(&comparison.queues),
            "remarks": self.remarks,
            "not_modelled": self.not_modelled(),
        });
        let text = serde_json::to_string_pretty(&value).context("figures as JSON")?;
        Ok(text + "\n")
    }
}

fn line_json(line: &ComparisonRow) -> Value {
    json!({
        "name": line.name,
        "jobs": line.jobs,
        "mean_wait_before": line.before,
        "mean_wait_after": line.after,
        "median_wait_before": line.median.0,
        "median_wait_after": line.median.1,
        "p95_wait_before": line.p95.0,
        "p95_wait_after": line.p95.1,
        "difference": line.difference,
        "difference_from": line.spread.map(|spread| spread.0),
        "difference_to": line.spread.map(|spread| spread.1),
        "verdict": line.verdict.words(),
    })
}

impl fmt::Display for TryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = &self.comparison;
        writeln!(f, "{:<12} {}", "history", self.history)?;
        writeln!(f, "{:<12} {}", "machine", self.machine)?;
        writeln!(f, "{:<12} {}", "before", self.before)?;
        writeln!(f, "{:<12} {}", "after", self.after)?;
        for (reason, rows) in &self.dropped {
            writeln!(f, "{:<12} {rows}: {reason}", "left out")?;
        }
        if comparison.unknown > 0 {
            let unknown = comparison.unknown;
            writeln!(f, "{:<12} {unknown} jobs whose wait one side does not know", "not compared")?;
        }
        for remark in self.remarks.iter().take(SHOWN) {
            writeln!(f, "{:<12} {remark}", "accounts")?;
        }
        table(f, "", std::slice::from_ref(&comparison.whole))?;
        let sections = [
            ("by account", &comparison.accounts),
            ("by processors", &comparison.sizes),
            ("by queue", &comparison.queues),
        ];
        for (title, lines) in sections.iter().filter(|(_, lines)| lines.len() > 1) {
            table(f, title, lines)?;
        }
        if comparison.users.len() > 1 {
            spread(f, "by use of users", &comparison.weights)?;
            spread(f, "by user, most changed", &comparison.users)?;
            spread(f, "by account", &comparison.accounts)?;
        }
        write!(f, "\n{}\n", likely(comparison.weeks))?;
        if let WaitSource::Recorded = self.before {
            f.write_str(RECORDED)?;
        }
        f.write_str(CAVEAT)?;
        writeln!(f, "Not modelled: {}.", self.not_modelled().join("; "))
    }
}

impl fmt::Display for WaitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded => f.write_str("as recorded"),
            Self::Replayed {
                name,
                policy,
                metrics,
            } => {
                let used = percent(metrics.utilisation());
                let done = metrics.makespan;
                let policy = if policy == name {
                    ""
                } else {
                    &format!(" ({policy})")
                };
                write!(f, "{name}{policy}: utilisation {used}, all done after {done}")
            }
        }
    }
}

fn likely(weeks: u64) -> String {
    let s = if weeks == 1 { "" } else { "s" };
    format!(
        "'likely' holds nine of ten differences that are found when the {weeks} week{s} of the \
         history are\ndrawn anew ({DRAWS} times, with replacement). Of many lines one in ten \
         may tell of a difference\nthat is none.\n"
    )
}

fn table(f: &mut fmt::Formatter<'_>, title: &str, lines: &[ComparisonRow]) -> fmt::Result {
    writeln!(
        f,
        "\n{title:<NAME$} {:>9} {:>12} {:>12} {:>13}  {:<29} they wait",
        "jobs", "wait before", "after", "difference", "likely"
    )?;
    for line in lines.iter().take(SHOWN) {
        let name: String = line.name.chars().take(NAME).collect();
        let likely = line.spread.map_or_else(
            || "-".to_owned(),
            |(low, high)| format!("{} to {}", signed(low), signed(high)),
        );
        writeln!(
            f,
            "{name:<NAME$} {:>9} {:>12} {:>12} {:>13}  {likely:<29} {}",
            line.jobs,
            span(line.before),
            span(line.after),
            signed(line.difference),
            line.verdict.words(),
        )?;
    }
    match lines.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => writeln!(f, "... and {more} more: --json has them all"),
        None => Ok(()),
    }
}

/// Medians and what 95 of 100 jobs wait at most, before and after.
fn spread(f: &mut fmt::Formatter<'_>, title: &str, lines: &[ComparisonRow]) -> fmt::Result {
    writeln!(
        f,
        "\n{title:<NAME$} {:>9} {:>12} {:>12} {:>13} {:>12} {:>13}  they wait",
        "jobs", "median wait", "after", "95 % at most", "after", "mean change"
    )?;
    for line in lines.iter().take(SHOWN) {
        let name: String = line.name.chars().take(NAME).collect();
        writeln!(
            f,
            "{name:<NAME$} {:>9} {:>12} {:>12} {:>13} {:>12} {:>13}  {}",
            line.jobs,
            span(line.median.0),
            span(line.median.1),
            span(line.p95.0),
            span(line.p95.1),
            signed(line.difference),
            line.verdict.words(),
        )?;
    }
    match lines.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => writeln!(f, "... and {more} more: --json has them all"),
        None => Ok(()),
    }
}

/// In whole seconds, rounded as [`signed`] rounds, so that both agree.
fn span(secs: f64) -> String {
    Span::from_secs(secs.round() as i64).to_string()
}

/// With `+` or `-` in front unless it is nothing.
fn signed(secs: f64) -> String {
    let sign = match secs.round() {
        secs if secs > 0.0 => "+",
        secs if secs < 0.0 => "-",
        _ => "",
    };
    format!("{sign}{}", Span::from_secs(secs.abs().round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_their_differences_agree() {
        let check = |secs: f64, wait: &str, difference: &str| {
            assert_eq!(span(secs), wait);
            assert_eq!(signed(-secs), difference);
        };
        check(0.0, "00:00:00", "00:00:00");
        check(0.4, "00:00:00", "00:00:00");
        check(4862.5, "01:21:03", "-01:21:03");
        check(86_399.7, "1-00:00:00", "-1-00:00:00");
    }
}
