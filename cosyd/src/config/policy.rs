//! `[policy]` of `cosy.toml`.

use crate::archiver::{self, Retention};
use cosy_config::Check;
use cosy_control::{PolicyConfig, Visibility};
use cosy_model::policy::Enforce;
use cosy_model::{Span, limits};
use cosy_sched::Depth;
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    backfill: Option<bool>,
    backfill_depth: Option<Spanned<toml::Value>>,
    heartbeat: Option<Spanned<String>>,
    node_timeout: Option<Spanned<String>>,
    self_fencing: Option<bool>,
    max_requeues: Option<u32>,
    requeue_avoids: Option<Spanned<String>>,
    max_switch_wait: Option<Spanned<String>>,
    clock_skew: Option<Spanned<String>>,
    grace: Option<Spanned<String>>,
    keep_ended: Option<Spanned<String>>,
    keep_history: Option<Spanned<String>>,
    keep_scripts: Option<Spanned<String>>,
    keep_events: Option<Spanned<String>>,
    user_ttl: Option<Spanned<String>>,
    max_array_tasks: Option<Spanned<u32>>,
    max_jobs_per_user: Option<u32>,
    max_jobs: Option<Spanned<u32>>,
    visibility: Option<Spanned<String>>,
    clearance: Option<Spanned<String>>,
    interactive_per_user: Option<u32>,
    attend_grace: Option<Spanned<String>>,
    batch_delay: Option<Spanned<String>>,
    enforce: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    limits_pend: bool,
    pub(super) mail_command: Option<Vec<String>>,
    #[serde(default)]
    pub(super) end_if_never: bool,
}

/// A node is counted on to be clean so long after the last process of a job was killed.
const CLEANING: Span = Span::from_secs(2);

pub(super) fn policy(check: &mut Check<'_>, table: &Policy) -> PolicyConfig {
    let standard = PolicyConfig::default();
    let array = ("max_array_tasks", table.max_array_tasks.as_ref());
    let max_array_tasks = number(check, array, limits::ARRAY_INDEX, standard.max_array_tasks);
    let jobs = ("max_jobs", table.max_jobs.as_ref());
    let max_jobs = number(check, jobs, limits::MOST_JOBS, standard.max_jobs);
    let visibility = match &table.visibility {
        None => Visibility::Own,
        Some(text) => match text.get_ref().as_str() {
            "own" => Visibility::Own,
            "all" => Visibility::States,
            "everything" => Visibility::Everything,
            _ => {
                check.fault(
                    text.span().start,
                    "visibility must be \"own\", \"all\" or \"everything\"",
                );
                Visibility::Own
            }
        },
    };
    let grace = check.span(table.grace.as_ref(), standard.grace);
    let policy = PolicyConfig {
        backfill: table.backfill.unwrap_or(standard.backfill),
        depth: depth(check, table.backfill_depth.as_ref()),
        heartbeat: check.span(table.heartbeat.as_ref(), standard.heartbeat),
        node_timeout: check.span(table.node_timeout.as_ref(), standard.node_timeout),
        self_fencing: table.self_fencing.unwrap_or(standard.self_fencing),
        max_requeues: table.max_requeues.unwrap_or(standard.max_requeues),
        requeue_avoids: check.span(table.requeue_avoids.as_ref(), standard.requeue_avoids),
        max_switch_wait: check.span(table.max_switch_wait.as_ref(), standard.max_switch_wait),
        clock_skew: clock_skew(check, table.clock_skew.as_ref(), standard.clock_skew),
        grace,
        max_array_tasks,
        max_jobs_per_user: table
            .max_jobs_per_user
            .unwrap_or(standard.max_jobs_per_user),
        max_jobs,
        keep_ended: check.span(table.keep_ended.as_ref(), standard.keep_ended),
        user_ttl: check.span(table.user_ttl.as_ref(), standard.user_ttl),
        visibility,
        clearance: check.span(table.clearance.as_ref(), grace + CLEANING),
        interactive_per_user: table
            .interactive_per_user
            .unwrap_or(standard.interactive_per_user),
        attend_grace: check.span(table.attend_grace.as_ref(), standard.attend_grace),
        batch_delay: batch_delay(check, table.batch_delay.as_ref(), standard.batch_delay),
        limits_pend: table.limits_pend,
    };
    if policy.node_timeout <= policy.heartbeat || policy.heartbeat <= Span::ZERO {
        let at = table.node_timeout.as_ref().or(table.heartbeat.as_ref());
        let at = at.map_or(0, |t| t.span().start);
        check.fault(at, "node_timeout must be longer than heartbeat, and heartbeat longer than 0");
    }
    policy
}

/// How long what has ended is kept; unlimited, or without a key, for ever.
pub(super) fn retention(check: &mut Check<'_>, table: &Policy, in_memory: Span) -> Retention {
    let least = archiver::LEAST.max(in_memory);
    let mut keep = |name: &str, text: Option<&Spanned<String>>| {
        let span = check.span(text, Span::UNLIMITED);
        if let Some(text) = text
            && span < least
        {
            let what = "it is at least a day, and not shorter than keep_ended";
            check.fault(text.span().start, format!("{name}: {what} ({least})"));
        }
        (!span.is_unlimited()).then_some(span)
    };
    Retention {
        history: keep("keep_history", table.keep_history.as_ref()),
        scripts: keep("keep_scripts", table.keep_scripts.as_ref()),
        events: keep("keep_events", table.keep_events.as_ref()),
        in_memory,
    }
}

/// A number from 1 on.
fn number(
    check: &mut Check<'_>,
    (name, value): (&str, Option<&Spanned<u32>>),
    most: u32,
    standard: u32,
) -> u32 {
    let Some(value) = value else {
        return standard;
    };
    if !(1..=most).contains(value.get_ref()) {
        let what = format!("{name} must be between 1 and {most}");
        check.fault(value.span().start, what);
    }
    *value.get_ref()
}

/// What of the accounts' policy binds jobs; each word stands for those that it needs too.
pub(super) fn enforce(check: &mut Check<'_>, table: &Policy) -> Enforce {
    let mut all = Enforce::default();
    for word in table.enforce.iter().flatten() {
        match word.get_ref().as_str() {
            "associations" => {}
            "limits" => all.limits = true,
            "qos" => all.qos = true,
            "safe" => (all.limits, all.safe) = (true, true),
            _ => {
                check.fault(
                    word.span().start,
                    "enforce is a list of \"associations\", \"limits\", \"qos\" and \"safe\"",
                );
                continue;
            }
        }
        all.associations = true;
    }
    all
}

fn clock_skew(check: &mut Check<'_>, text: Option<&Spanned<String>>, standard: Span) -> Span {
    let skew = check.span(text, standard);
    if let Some(text) = text
        && skew < limits::LEAST_CLOCK_SKEW
    {
        let least = limits::LEAST_CLOCK_SKEW.secs();
        check.fault(
            text.span().start,
            format!(
                "clock_skew is at least {least} s: what a node tells may be under way that long"
            ),
        );
    }
    skew
}

fn batch_delay(check: &mut Check<'_>, text: Option<&Spanned<String>>, standard: Span) -> Span {
    let delay = check.span(text, standard);
    if let Some(text) = text
        && delay > limits::BATCH_DELAY
    {
        let most = limits::BATCH_DELAY.secs();
        check.fault(
            text.span().start,
            format!("batch_delay is at most {most} s: every batch job waits so long"),
        );
    }
    delay
}

fn depth(check: &mut Check<'_>, value: Option<&Spanned<toml::Value>>) -> Depth {
    let Some(value) = value else {
        return Depth::Count(1);
    };
    match value.get_ref() {
        toml::Value::String(s) if s == "all" => Depth::All,
        toml::Value::Integer(n) if (0..=1_000_000).contains(n) => Depth::Count(*n as u32),
        _ => {
            check
                .fault(value.span().start, "backfill_depth must be a number from 0 on, or \"all\"");
            Depth::Count(1)
        }
    }
}
