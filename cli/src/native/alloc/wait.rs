//! Asks for an allocation and waits until it is there.

use crate::allocation::attend::{Allocated, Attendant, News};
use crate::allocation::finish::job_words;
use crate::exit::{self, SIGNAL_BASE};
use crate::launch::intake::Intake;
use crate::{output, times};
use anyhow::anyhow;
use cosy_client::cluster;
use cosy_client::{CallError, Caller, Patience, new_key};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::{JobId, Span, Time};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::time::{Duration, Instant};

/// A job that starts within this time needs no word about waiting.
const MOMENT: Duration = Duration::from_millis(700);

/// How to wait.
pub struct WaitOptions {
    /// At most so long; zero: not at all.
    pub patience: Option<Span>,
    /// Say nothing of it.
    pub quiet: bool,
}

/// Asks for the allocation and waits for it. The connection that it is attended on is the
/// one that it was asked for on.
///
/// # Errors
/// A refusal, no controller, an interrupt, the end of patience.
pub fn get(
    program: &str,
    submission: Submission,
    options: &WaitOptions,
) -> anyhow::Result<(Attendant, Allocated)> {
    let path = cluster::find();
    let attended = submission.spec.attended;
    let name = program.to_owned();
    let mut caller = Caller::new(&path, Patience::default(), move |text| {
        output::complain(&name, text);
    });
    let request = Request::Allocate(Box::new(submission));
    let reply = caller.ask_with(request, Some(new_key()))?;
    let stream = caller.into_stream();
    let stays = |job, started| Attendant::new(program, &path, stream, job, started);
    match reply {
        Reply::Allocated {
            entry,
            until,
            variables,
        } => {
            let attendant = stays(entry.key.job, true);
            let allocated = Allocated {
                entry,
                until,
                variables,
            };
            Ok((attendant, allocated))
        }
        Reply::Submitted { job, note, .. } => {
            if !note.is_empty() && !options.quiet {
                output::complain(program, &note);
            }
            let attendant = stays(job, false);
            Waiting {
                program,
                path: &path,
                options,
                attendant,
                attended,
                told: false,
            }
            .wait()
        }
        _ => Err(CallError::Unexpected.into()),
    }
}

struct Waiting<'a> {
    program: &'a str,
    path: &'a Path,
    options: &'a WaitOptions,
    attendant: Attendant,
    attended: bool,
    told: bool,
}

impl Waiting<'_> {
    fn wait(mut self) -> anyhow::Result<(Attendant, Allocated)> {
        let mut intake = Intake::new(&[SIGINT, SIGTERM, SIGHUP])?;
        let start = Instant::now();
        let job = self.attendant.job();
        let patience = self.options.patience.map(length);
        loop {
            match self.attendant.turn() {
                Some(News::Allocated(allocated)) => return Ok(self.there(*allocated)),
                Some(News::Ended(ended)) => return Err(anyhow!("{}", job_words(&ended))),
                Some(News::Refused(refusal)) => return Err(CallError::Refused(refusal).into()),
                None => {}
            }
            if let Some(signal) = intake.take().first() {
                return Err(self.interrupted(*signal));
            }
            let waited = start.elapsed();
            if patience.is_some_and(|p| waited >= p) {
                self.give_up(job);
                return Err(anyhow!(
                    "job {job} did not start within {}: it was given up",
                    self.options.patience.unwrap_or_default()
                ));
            }
            if !self.told && waited >= MOMENT {
                self.told = true;
                self.tell(job);
            }
            self.pause(&intake, start, patience);
        }
    }

    fn there(self, allocated: Allocated) -> (Attendant, Allocated) {
        if self.told && !self.options.quiet {
            let nodes = &allocated.entry.nodes;
            let text = format!("job {}: allocated {nodes}", self.attendant.job());
            output::complain(self.program, &text);
        }
        (self.attendant, allocated)
    }

    /// Until something comes or is due.
    fn pause(&self, intake: &Intake, start: Instant, patience: Option<Duration>) {
        let moment = (!self.told).then_some(start + MOMENT);
        self.attendant
            .pause(Some(intake), &[moment, patience.map(|p| start + p)]);
    }

    fn interrupted(&self, signal: i32) -> anyhow::Error {
        let job = self.attendant.job();
        let code = u8::try_from(SIGNAL_BASE + signal).unwrap_or(exit::FAILED);
        if self.attended {
            self.give_up(job);
            return exit::coded(code, format!("interrupted: job {job} was given up"));
        }
        let text = format!("interrupted: job {job} stays in the queue (ccancel {job} ends it)");
        exit::coded(code, text)
    }

    /// Cancels the job. Closing the connection does so, too, but not for all.
    fn give_up(&self, job: JobId) {
        let filter = only(job);
        let request = Request::Cancel {
            filter,
            signal: None,
            script_only: false,
            steps_only: false,
        };
        // Without a controller there is nothing more that could be done.
        let _ = self.caller().ask(request);
    }

    fn caller(&self) -> Caller {
        let patience = Patience {
            answer: Duration::from_secs(5),
            retry: Duration::ZERO,
            ..Patience::default()
        };
        Caller::new(self.path, patience, |_| ())
    }

    /// Says why it waits, and until when.
    fn tell(&self, job: JobId) {
        if self.options.quiet {
            return;
        }
        let request = Request::Jobs {
            filter: only(job),
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

fn only(job: JobId) -> JobFilter {
    JobFilter {
        ids: vec![JobRef { job, task: None }],
        ..JobFilter::default()
    }
}

fn length(span: Span) -> Duration {
    let secs = u64::try_from(span.secs().max(0)).unwrap_or(0);
    // Longer than anybody waits, and no clock overflows.
    Duration::from_secs(secs.min(100 * 366 * 86_400))
}
