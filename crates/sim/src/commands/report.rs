//! The figures of a replay as a table for people and as JSON.

use anyhow::Context;
use cosy_model::Span;
use cosy_sim::machine::Machine;
use cosy_sim::metrics::Metrics;
use cosy_sim::workload::Workload;
use serde_json::{Value, json};
use std::fmt;

/// What `cosy-sim run` prints.
pub struct Report {
    /// The file or the model, as given.
    pub workload: String,
    /// The machine that the workload was replayed on.
    pub machine: Machine,
    /// The policy as `--policy` spells it.
    pub policy: String,
    /// Why jobs were left out, and how many.
    pub dropped: Vec<(String, u64)>,
    /// Jobs that were submitted.
    pub submitted: u64,
    /// Seconds that the replay took.
    pub took: f64,
    /// Waits, utilisation and the other figures.
    pub metrics: Metrics,
}

impl Report {
    /// Times are in seconds, figures that no job has are null.
    ///
    /// # Errors
    /// None that are known.
    pub fn json(&self) -> anyhow::Result<String> {
        let metrics = &self.metrics;
        let value = json!({
            "workload": self.workload,
            "machine": {"nodes": self.machine.nodes, "cores": self.machine.cores},
            "policy": self.policy,
            "submitted": self.submitted,
            "jobs": metrics.jobs,
            "cancelled": metrics.cancelled,
            "too_large": metrics.too_large,
            "dropped": dropped_json(&self.dropped),
            "makespan": secs(metrics.makespan),
            "utilisation": metrics.utilisation(),
            "mean_wait": metrics.mean_wait(),
            "median_wait": metrics.median_wait(),
            "p95_wait": metrics.p95_wait(),
            "mean_bounded_slowdown": metrics.mean_bounded_slowdown(),
            "backfilled": metrics.backfilled,
            "backfilled_share": metrics.backfilled_share(),
            "replay_seconds": self.took,
            "jobs_per_second": self.rate(),
            "peak_memory_bytes": peak_memory_bytes(),
        });
        let text = serde_json::to_string_pretty(&value).context("figures as JSON")?;
        Ok(text + "\n")
    }

    /// Jobs replayed in a second.
    fn rate(&self) -> f64 {
        self.submitted as f64 / self.took.max(1e-9)
    }
}

/// Reasons with the number of rows that were left out for them.
pub fn dropped_json(dropped: &[(String, u64)]) -> Value {
    let all = dropped.iter();
    all.map(|(reason, rows)| json!({"reason": reason, "rows": rows}))
        .collect()
}

/// Whole seconds as such.
fn secs(span: Span) -> Value {
    match span.ms() % 1000 {
        0 => json!(span.secs()),
        _ => json!(span.ms() as f64 / 1000.0),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = &self.metrics;
        let share = format!("{} of the jobs", percent(metrics.backfilled_share()));
        let rows = [
            ("workload", self.workload.clone()),
            ("machine", self.machine.to_string()),
            ("policy", self.policy.clone()),
            ("jobs that ran", metrics.jobs.to_string()),
            ("cancelled", metrics.cancelled.to_string()),
            ("makespan", metrics.makespan.to_string()),
            ("utilisation", percent(metrics.utilisation())),
            ("mean wait", wait(metrics.mean_wait())),
            ("median wait", wait(metrics.median_wait())),
            ("95 % wait at most", wait(metrics.p95_wait())),
            ("bounded slowdown", slowdown(metrics.mean_bounded_slowdown())),
            ("backfilled", format!("{}, {share}", metrics.backfilled)),
            ("replay", format!("{}, {:.0} jobs/s", took(self.took), self.rate())),
        ];
        for (name, value) in rows {
            writeln!(f, "{name:<18} {value}")?;
        }
        for (reason, rows) in &self.dropped {
            writeln!(f, "{:<18} {rows}: {reason}", "left out")?;
        }
        Ok(())
    }
}

/// A wait of so many seconds, in words of both kinds.
fn wait(secs: Option<f64>) -> String {
    secs.map_or_else(none, |secs| format!("{} ({secs:.3} s)", Span((secs * 1000.0).round() as i64)))
}

/// A share from 0 to 1 as `12.3 %`.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(none, |share| format!("{:.1} %", share * 100.0))
}

fn slowdown(mean: Option<f64>) -> String {
    mean.map_or_else(none, |mean| format!("{mean:.4} in the mean (10 s)"))
}

/// Short times in milliseconds.
fn took(secs: f64) -> String {
    match secs < 1.0 {
        true => format!("{:.1} ms", secs * 1000.0),
        false => format!("{secs:.1} s"),
    }
}

fn none() -> String {
    "none: no job ran".to_owned()
}

/// Why rows were left out, without reasons that nothing was left out for.
pub fn dropped(workload: &Workload) -> Vec<(String, u64)> {
    let all = workload.dropped.iter().cloned();
    all.filter(|(_, rows)| *rows > 0).collect()
}

/// The same in one line: `; left out: 3 (no run time), ...`, or nothing.
pub fn dropped_line(workload: &Workload) -> String {
    let all = dropped(workload).into_iter();
    let all: Vec<String> = all
        .map(|(reason, rows)| format!("{rows} ({reason})"))
        .collect();
    if all.is_empty() {
        return String::new();
    }
    format!("; left out: {}", all.join(", "))
}

/// The most memory that this process has had, where the system tells.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
