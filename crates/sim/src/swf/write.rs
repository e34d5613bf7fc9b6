//! Writes a workload in the Standard Workload Format, so that reading it again gives the
//! same workload.

use crate::workload::{Job, Workload};
use std::io::{self, BufWriter, Write};

/// Writes `workload` with `comments` on top, one line each.
///
/// Users, accounts and queues are written as their indices, with a comment for each name.
/// The format knows processors only: the number of nodes is lost.
///
/// # Errors
/// Those of `out`.
pub fn write(workload: &Workload, out: impl Write, comments: &[String]) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    writeln!(out, "; Version: 2.2")?;
    for line in comments.iter().flat_map(|comment| comment.lines()) {
        writeln!(out, "; {line}")?;
    }
    writeln!(out, "; MaxJobs: {}", workload.jobs.len())?;
    writeln!(out, "; MaxRecords: {}", workload.jobs.len())?;
    if let Some(processors) = workload.machine {
        writeln!(out, "; MaxProcs: {processors}")?;
    }
    names(&mut out, "User", &workload.users)?;
    names(&mut out, "Group", &workload.accounts)?;
    names(&mut out, "Queue", &workload.queues)?;
    for job in &workload.jobs {
        if let Some(at) = job.cancel {
            writeln!(out, "; Cancel: {} {}", job.id, seconds(at.0))?;
        }
    }
    for job in &workload.jobs {
        row(&mut out, job)?;
    }
    out.flush()
}

fn names(out: &mut impl Write, kind: &str, names: &[String]) -> io::Result<()> {
    for (index, name) in names.iter().enumerate().skip(1) {
        let name = name.replace(char::is_control, " ");
        writeln!(out, "; {kind}: {index} {name}")?;
    }
    Ok(())
}

fn row(out: &mut impl Write, job: &Job) -> io::Result<()> {
    let known = |index: u32| match index {
        0 => -1,
        index => i64::from(index),
    };
    writeln!(
        out,
        "{id} {submit} {wait} {run} {processors} -1 -1 {processors} {limit} -1 -1 {user} {group} -1 {queue} -1 -1 -1",
        id = job.id,
        submit = seconds(job.submit.0),
        wait = job
            .recorded_wait
            .map_or("-1".to_owned(), |wait| seconds(wait.0)),
        run = seconds(job.run.0),
        processors = job.processors,
        limit = seconds(job.limit.0),
        user = known(job.user),
        group = known(job.account),
        queue = known(job.queue),
    )
}

fn seconds(ms: i64) -> String {
    match (ms / 1000, ms % 1000) {
        (secs, 0) => secs.to_string(),
        (secs, ms) => format!("{secs}.{ms:03}"),
    }
}
