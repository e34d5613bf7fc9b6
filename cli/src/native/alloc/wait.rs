//! Asks for an allocation and waits until it is there.

use crate::allocation::finish::describe_end;
use crate::allocation::job_connection::{Allocated, JobConnection, JobEvent};
use crate::exit::{self, SIGNAL_BASE};
use crate::launch::signal_pipe::SignalPipe;
use crate::{output, times};
use anyhow::anyhow;
use cosy_client::cluster;
use cosy_client::{CallError, Caller, RetryPolicy, new_key};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::{JobId, Span, Time};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A job that starts within this time is not reported as waiting.
const MOMENT: Duration = Duration::from_millis(700);

/// How to wait for an allocation.
pub struct WaitOptions {
    /// Longest wait; zero: not at all; `None`: as long as it takes.
    pub max_wait: Option<Span>,
    /// Prints nothing about waiting.
    pub quiet: bool,
}

/// Submits the allocation and waits until it starts. Its events come on the connection on which it
/// was submitted.
///
/// # Errors
/// A refusal, no controller, an interrupt, or no start within [`WaitOptions::max_wait`].
pub fn get(
    program: &str,
    submission: Submission,
    options: &WaitOptions,
) -> anyhow::Result<(JobConnection, Allocated)> {
    let attended = submission.spec.attended;
    let name = program.to_owned();
    let mut caller = Caller::of_sockets(cluster::find(), RetryPolicy::default(), move |text| {
        output::complain(&name, text);
    });
    let request = Request::Allocate(Box::new(submission));
    let reply = caller.ask_with_key(request, Some(new_key()))?;
    let sockets = caller.sockets();
    let stream = caller.into_stream();
    let connect = |job, started| JobConnection::new(program, sockets.clone(), stream, job, started);
    match reply {
        Reply::Allocated {
            entry,
            until,
            variables,
        } => {
            let job_connection = connect(entry.key.job, true);
            let allocated = Allocated {
                entry,
                until,
                variables,
            };
            Ok((job_connection, allocated))
        }
        Reply::Submitted { job, note, .. } => {
            if !note.is_empty() && !options.quiet {
                output::complain(program, &note);
            }
            let job_connection = connect(job, false);
            Waiting {
                program,
                sockets: sockets.clone(),
                options,
                job_connection,
                attended,
                wait_reported: false,
            }
            .wait()
        }
        _ => Err(CallError::Unexpected.into()),
    }
}

struct Waiting<'a> {
    program: &'a str,
    sockets: Vec<PathBuf>,
    options: &'a WaitOptions,
    job_connection: JobConnection,
    attended: bool,
    wait_reported: bool,
}

impl Waiting<'_> {
    fn wait(mut self) -> anyhow::Result<(JobConnection, Allocated)> {
        let mut signals = SignalPipe::new(&[SIGINT, SIGTERM, SIGHUP])?;
        let start = Instant::now();
        let job = self.job_connection.job();
        let max_wait = self.options.max_wait.map(length);
        loop {
            match self.job_connection.poll() {
                Some(JobEvent::Allocated(allocated)) => return Ok(self.started(*allocated)),
                Some(JobEvent::Ended(ended)) => return Err(anyhow!("{}", describe_end(&ended))),
                Some(JobEvent::Refused(refusal)) => return Err(CallError::Refused(refusal).into()),
                None => {}
            }
            if let Some(signal) = signals.take().first() {
                return Err(self.interrupted(*signal));
            }
            let waited = start.elapsed();
            if max_wait.is_some_and(|p| waited >= p) {
                self.give_up(job);
                return Err(anyhow!(
                    "job {job} did not start within {}: it was given up",
                    self.options.max_wait.unwrap_or_default()
                ));
            }
            if !self.wait_reported && waited >= MOMENT {
                self.wait_reported = true;
                self.report_wait(job);
            }
            self.pause(&signals, start, max_wait);
        }
    }

    fn started(self, allocated: Allocated) -> (JobConnection, Allocated) {
        if self.wait_reported && !self.options.quiet {
            let nodes = &allocated.entry.nodes;
            let text = format!("job {}: allocated {nodes}", self.job_connection.job());
            output::complain(self.program, &text);
        }
        (self.job_connection, allocated)
    }

    /// Waits until an event comes, or a line or the end of the wait is due.
    fn pause(&self, signals: &SignalPipe, start: Instant, max_wait: Option<Duration>) {
        let moment = (!self.wait_reported).then_some(start + MOMENT);
        self.job_connection
            .wait(Some(signals), &[moment, max_wait.map(|p| start + p)]);
    }

    fn interrupted(&self, signal: i32) -> anyhow::Error {
        let job = self.job_connection.job();
        let code = u8::try_from(SIGNAL_BASE + signal).unwrap_or(exit::FAILED);
        if self.attended {
            self.give_up(job);
            return exit::error(code, format!("interrupted: job {job} was given up"));
        }
        let text = format!("interrupted: job {job} stays in the queue (ccancel {job} ends it)");
        exit::error(code, text)
    }

    /// Cancels the job. Closing the connection would not end a job that is not attended.
    fn give_up(&self, job: JobId) {
        let filter = filter_of_job(job);
        let request = Request::Cancel {
            filter,
            signal: None,
            script_only: false,
            steps_only: false,
        };
        // Without a controller nothing more can be done.
        let _ = self.caller().ask(request);
    }

    fn caller(&self) -> Caller {
        let retry = RetryPolicy {
            answer_timeout: Duration::from_secs(5),
            reconnect_for: Duration::ZERO,
            ..RetryPolicy::default()
        };
        Caller::of_sockets(self.sockets.clone(), retry, |_| ())
    }

    /// Reports why the job waits, and its predicted start.
    fn report_wait(&self, job: JobId) {
        if self.options.quiet {
            return;
        }
        let request = Request::Jobs {
            filter: filter_of_job(job),
            fields: vec![JobField::Reason, JobField::PredictedStart],
            fold_arrays: false,
        };
        let (mut reason, mut start) = (String::new(), String::new());
        if let Ok(Reply::Jobs(table)) = self.caller().ask(request) {
            reason = table.text(0, JobField::Reason).to_owned();
            let time = table.number(0, JobField::PredictedStart).map(Time);
            start = time.map_or_else(String::new, |t| {
                format!(", predicted start {}", times::short(t, &times::now()))
            });
        }
        if !reason.is_empty() {
            reason = format!(" ({reason})");
        }
        output::complain(self.program, &format!("job {job} waits{reason}{start}"));
    }
}

fn filter_of_job(job: JobId) -> JobFilter {
    JobFilter {
        ids: vec![JobRef { job, task: None }],
        ..JobFilter::default()
    }
}

fn length(span: Span) -> Duration {
    let secs = u64::try_from(span.secs().max(0)).unwrap_or(0);
    // A century at most, so that adding it to an instant does not overflow.
    Duration::from_secs(secs.min(100 * 366 * 86_400))
}
