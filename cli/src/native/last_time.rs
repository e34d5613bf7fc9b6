//! What the latest job of the same name used, where that is far from what is asked for now: one line
//! on a terminal, after the job was submitted.
//!
//! One page of history is asked for, which is bounded however many jobs there are, and not waited
//! for longer than a moment. Nothing is said where nothing is known.

use super::used::Used;
use crate::units::{brief, bytes};
use crate::{output, quick, times};
use cosy_client::Caller;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Table};
use cosy_model::job::MemoryRequest;
use cosy_model::{JobId, JobSpec, JobState, MiB, Span, Time, variables};
use std::io::{self, IsTerminal};

/// Jobs that ended longer ago say nothing of what is asked for now.
const BACK: Span = Span::from_minutes(90 * 24 * 60);
/// So much memory that is not needed is worth a word.
const SPARE_BYTES: i64 = 1 << 30;
/// So much time that is not needed is worth a word.
const SPARE_TIME: Span = Span::from_minutes(10);
/// Jobs that ran for less say nothing of how many cores they keep busy.
const LEAST_RUN: Span = Span::from_minutes(1);

/// Which of its resources the user has named a number for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    memory: bool,
    time: bool,
}

impl Asked {
    /// In this job.
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            memory: spec.request.memory != MemoryRequest::default(),
            time: spec.time_limit.is_some(),
        }
    }
}

/// Says it of a job that was just submitted, when somebody sits there who may want to know.
pub fn say(program: &str, job: JobId, name: &str, asked: Asked) {
    let off = std::env::var_os(variables::HINTS).is_some_and(|v| v == "no");
    if off || !io::stderr().is_terminal() {
        return;
    }
    if let Some(line) = line(&mut quick::caller(), job, name, asked) {
        output::complain(program, &line);
    }
}

fn line(caller: &mut Caller, job: JobId, name: &str, asked: Asked) -> Option<String> {
    let now = times::now();
    let filter = JobFilter {
        users: vec![rustix::process::getuid().as_raw().to_string()],
        names: vec![name.to_owned()],
        states: vec![
            JobState::Completed,
            JobState::TimedOut,
            JobState::OutOfMemory,
        ],
        since: Some(times::time_of(&now) - BACK),
        most: Some(1),
        pages: true,
        ..JobFilter::default()
    };
    let last = rows(
        caller,
        Request::History {
            filter,
            fields: FIELDS.to_vec(),
        },
    )?;
    let last = Job::of(&last)?;
    let filter = JobFilter {
        ids: vec![JobRef { job, task: None }],
        most: Some(1),
        pages: true,
        ..JobFilter::default()
    };
    let new = rows(
        caller,
        Request::Jobs {
            filter,
            fields: FIELDS.to_vec(),
            fold_arrays: true,
        },
    )?;
    let ago = times::seen_from_now(Time(last.end?), &now);
    Some(format!(
        "last time '{name}' (job {}, {ago}) {}",
        last.id,
        compared(&last, &Job::of(&new)?, asked)?
    ))
}

fn rows(caller: &mut Caller, request: Request) -> Option<Table> {
    match caller.ask(request) {
        Ok(Reply::Jobs(table)) if table.is_sound() && table.rows > 0 => Some(table),
        _ => None,
    }
}

const FIELDS: [JobField; 10] = [
    JobField::Ref,
    JobField::State,
    JobField::End,
    JobField::Elapsed,
    JobField::TimeLimit,
    JobField::Cores,
    JobField::MemoryPerNode,
    JobField::PeakMemory,
    JobField::UserCpu,
    JobField::SystemCpu,
];

/// What is compared of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Job {
    id: String,
    state: Option<JobState>,
    end: Option<i64>,
    ran: Option<Span>,
    limit: Option<Span>,
    cores: Option<i64>,
    memory_bytes: Option<i64>,
    peak_bytes: Option<i64>,
    cpu_us: Option<i64>,
}

impl Job {
    /// The last row of a table: the latest one of history.
    fn of(table: &Table) -> Option<Self> {
        let row = table.rows.checked_sub(1)?;
        let used = Used { table, row };
        Some(Self {
            id: table.text(row, JobField::Ref).to_owned(),
            state: table.text(row, JobField::State).parse().ok(),
            end: used.number(JobField::End),
            ran: used.number(JobField::Elapsed).map(Span),
            limit: used.limit(),
            cores: used.some(JobField::Cores),
            memory_bytes: used.memory_bytes(),
            peak_bytes: used.some(JobField::PeakMemory),
            cpu_us: used.cpu_us(),
        })
    }
}

/// What the last one used of what the new one asks for, where that is far less, or too much; `None`
/// where they fit each other.
fn compared(last: &Job, new: &Job, asked: Asked) -> Option<String> {
    let no_more = ", and this one asks for no more";
    if last.state == Some(JobState::OutOfMemory) {
        let (had, has) = (last.memory_bytes?, new.memory_bytes?);
        return (has <= had)
            .then(|| format!("ran out of its {} of memory{no_more}", mebibytes(had)));
    }
    if last.state == Some(JobState::TimedOut) {
        let (had, has) = (last.limit?, new.limit?);
        return (has <= had).then(|| format!("was ended at its limit of {}{no_more}", brief(had)));
    }
    let all = [
        memory(last, new).filter(|_| asked.memory),
        cores(last, new),
        time(last, new).filter(|_| asked.time),
    ];
    let used: Vec<String> = all.into_iter().flatten().collect();
    let (end, rest) = used.split_last()?;
    Some(match rest {
        [] => format!("used {end}"),
        rest => format!("used {} and {end}", rest.join(", ")),
    })
}

/// Half and less, or nine parts of ten and more.
const fn is_far(used: i64, asked: i64, spare: i64) -> Option<&'static str> {
    if used <= asked / 2 && asked - used >= spare {
        Some("")
    } else if used >= asked - asked / 10 {
        Some(" (nearly all)")
    } else {
        None
    }
}

fn memory(last: &Job, new: &Job) -> Option<String> {
    let (used, asked) = (last.peak_bytes?, new.memory_bytes?);
    let note = is_far(used, asked, SPARE_BYTES)?;
    Some(format!("{} of {} of memory{note}", bytes(used), mebibytes(asked)))
}

/// As users ask for it.
fn mebibytes(bytes: i64) -> MiB {
    MiB(bytes.unsigned_abs() >> 20)
}

fn time(last: &Job, new: &Job) -> Option<String> {
    let (used, asked) = (last.ran?, new.limit?);
    let note = is_far(used.0, asked.0, SPARE_TIME.0)?;
    Some(format!("{} of {}{note}", brief(used), brief(asked)))
}

/// All cores busy is as it should be: only fewer are told.
fn cores(last: &Job, new: &Job) -> Option<String> {
    let (ran, asked) = (last.ran.filter(|ran| *ran >= LEAST_RUN)?, new.cores?);
    let tenths = last.cpu_us?.saturating_mul(10) / 1000 / ran.0;
    (asked > 1 && tenths.saturating_mul(2) <= asked.saturating_mul(10))
        .then(|| format!("{}.{} of {asked} cores", tenths / 10, tenths % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked {
        memory: true,
        time: true,
    };

    fn job(state: JobState, minutes: i64, peak_gib: i64, cpu_minutes: i64) -> Job {
        Job {
            id: "812".to_owned(),
            state: Some(state),
            end: Some(0),
            ran: Some(Span::from_minutes(minutes)),
            limit: Some(Span::from_minutes(240)),
            cores: Some(8),
            memory_bytes: Some(64 << 30),
            peak_bytes: Some(peak_gib << 30),
            cpu_us: Some(cpu_minutes * 60_000_000),
        }
    }

    #[test]
    fn what_is_worth_a_word() {
        let new = job(JobState::Waiting, 0, 0, 0);
        let check = |last: Job, want: Option<&str>| {
            assert_eq!(compared(&last, &new, ASKED).as_deref(), want, "{last:?}");
        };
        use JobState::{Completed, OutOfMemory, TimedOut};
        check(
            job(Completed, 41, 3, 41),
            Some("used 3.0G of 64G of memory, 1.0 of 8 cores and 41m of 4h"),
        );
        check(job(Completed, 150, 40, 150 * 7), None);
        check(
            job(Completed, 230, 62, 230 * 8),
            Some("used 62.0G of 64G of memory (nearly all) and 3h50m of 4h (nearly all)"),
        );
        check(
            job(TimedOut, 240, 40, 240),
            Some("was ended at its limit of 4h, and this one asks for no more"),
        );
        check(
            job(OutOfMemory, 20, 64, 20),
            Some("ran out of its 64G of memory, and this one asks for no more"),
        );
        let nothing = Asked {
            memory: false,
            time: false,
        };
        assert_eq!(compared(&job(Completed, 41, 3, 41 * 8), &new, nothing), None);
        let more = Job {
            memory_bytes: Some(128 << 30),
            ..new.clone()
        };
        assert_eq!(compared(&job(OutOfMemory, 20, 64, 20), &more, ASKED), None);
    }

    #[test]
    fn little_is_not_worth_a_word() {
        assert_eq!(is_far(1 << 20, 1 << 28, SPARE_BYTES), None);
        assert_eq!(is_far(1, SPARE_TIME.0, SPARE_TIME.0), None);
        assert_eq!(is_far(i64::MAX, i64::MAX, 0), Some(" (nearly all)"));
    }
}
