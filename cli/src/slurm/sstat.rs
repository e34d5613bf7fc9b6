//! `sstat`: steps that run. Sources: sstat(1), a capture.
//!
//! Figures come from the job's first node and are about that node alone.

use super::messages::{called_name, error, say};
use super::{records, reports, steps};
use crate::{Context, exit, output, refs, times};
use cosy_model::api::JobFilter;
use cosy_model::step::JobUse;
use cosy_model::{JobId, JobState};
use cosy_slurm::getopt::hint;
use cosy_slurm::sacct::cells::{ValueStyle, cell};
use cosy_slurm::sacct::form::{heading, line};
use cosy_slurm::sacct::options::Invocation;
use cosy_slurm::sacct::rows::{Part, Row, Usage};
use cosy_slurm::sacct::sstat::{self, Query};
use std::collections::BTreeMap;

/// Runs `sstat`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match sstat::read(context.args()) {
        Ok(query) => report(context, &query),
        Err(Invocation::Help) => reports::print_text(&sstat::help()),
        Err(Invocation::Usage) => reports::print_text(sstat::USAGE),
        Err(Invocation::Version) => reports::version(),
        Err(Invocation::Fields) => reports::print_text(&sstat::names()),
        Err(Invocation::UsageError(mistake)) => {
            say(&mistake.text(&called_name()));
            say(&hint(context.program()));
            exit::FAILED
        }
        Err(Invocation::Bad(text)) => {
            error(context, &text);
            exit::FAILED
        }
        Err(Invocation::Report(_) | Invocation::Fatal(_) | Invocation::Line(_)) => exit::FAILED,
    }
}

fn report(context: &Context, query: &Query) -> u8 {
    if query.jobs.is_empty() {
        error(context, "You didn't give me any jobs to stat.");
        return exit::FAILED;
    }
    if !query.bare {
        output::print(&heading(&query.columns, &query.form));
    }
    let mut code = exit::OK;
    for word in &query.jobs {
        code = code.max(job(context, query, word));
    }
    code
}

fn job(context: &Context, query: &Query, word: &str) -> u8 {
    let (name, step) = match word.split_once('.') {
        Some((name, step)) => (name, Some(step)),
        None => (word, None),
    };
    let Ok(ids) = refs::jobs(name) else {
        error(context, &format!("Invalid job id: {word}"));
        return exit::FAILED;
    };
    let now = times::now();
    let filter = JobFilter {
        ids,
        ..JobFilter::default()
    };
    let records = match records::fetch(context, &filter, false, times::time_of(&now)) {
        Ok(records) => records,
        Err(e) => return reports::failed("slurm_job_step_stat", &e),
    };
    let look = ValueStyle {
        stamps: reports::stamps(&now),
        raw_sizes: false,
        unit: None,
    };
    let mut text = String::new();
    let mut used = BTreeMap::new();
    for row in records.rows().iter().flatten() {
        let runs = row.job.our_state() == JobState::Running && row.end().is_none();
        let own = row.step();
        let named = match (step, own.as_deref()) {
            (_, None) => false,
            (Some(step), Some(own)) => step == own,
            (None, Some("batch" | "extern")) => query.all,
            (None, Some(_)) => true,
        };
        if runs && named {
            let row = &Row {
                live: live(&mut used, context, row),
                // It was asked by then.
                live_devices: used.get(&row.job.raw_id()).map(|job| job.devices.into()),
                ..*row
            };
            let cells = query.columns.iter().map(|c| cell(c.field, row, &look));
            text.push_str(&line(&query.columns, &query.form, cells));
        }
    }
    if text.is_empty() {
        error(context, &format!("No steps running for job {name}"));
    }
    output::print(&text);
    exit::OK
}

/// The use of a record so far; the node of each job is asked once.
fn live(used: &mut BTreeMap<i64, JobUse>, context: &Context, row: &Row<'_>) -> Option<Usage> {
    let id = row.job.raw_id();
    let job = used.entry(id).or_insert_with(|| {
        let id = u64::try_from(id).unwrap_or(0);
        steps::usage(context, JobId(id))
    });
    let found = match row.part {
        Part::Batch => job.script,
        Part::Step(step) if step.end.is_none() => {
            let mut steps = job.steps.iter();
            let own = steps.find(|(id, _)| *id == step.step);
            own.map(|(_, used)| *used)
        }
        Part::Whole | Part::Step(_) => None,
    };
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    found.map(|used| Usage {
        user_us: signed(used.user_cpu_us),
        system_us: signed(used.system_cpu_us),
        peak_bytes: signed(used.memory_bytes),
        read_bytes: used.read_bytes.map(signed),
        written_bytes: used.written_bytes.map(signed),
    })
}
