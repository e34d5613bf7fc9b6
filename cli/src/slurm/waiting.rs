//! Submits an allocation and waits until it starts, with the messages of `srun` and `salloc`. Source:
//! captures srun-queued*, srun-immediate, salloc-bad.

use super::messages::{fail, say};
use super::submit::refusal;
use crate::allocation::job_connection::{Allocated, JobConnection, JobEvent};
use crate::exit::{self, SIGNAL_BASE};
use crate::launch::signal_pipe::SignalPipe;
use crate::{Context, output};
use cosy_client::cluster;
use cosy_client::{CallError, Caller, RetryPolicy, new_key};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::{JobId, JobSpec, WaitReason};
use cosy_slurm::sentences;
use cosy_slurm::submit::{Fault, Program};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// An allocation that starts within this time is not reported as queued: its nodes were only prepared.
const MOMENT: Duration = Duration::from_millis(400);

/// How to wait for an allocation.
pub struct WaitOptions {
    /// Longest wait; `None`: as long as it takes.
    pub max_wait: Option<Duration>,
    /// Prints nothing about waiting.
    pub quiet: bool,
}

/// Submits the allocation and waits until it starts. Its events come on the connection on which it
/// was submitted.
///
/// # Errors
/// The exit code; the reason has been printed.
pub fn get(
    context: &Context,
    program: Program,
    spec: JobSpec,
    options: &WaitOptions,
) -> Result<(JobConnection, Allocated), u8> {
    let name = context.program().to_owned();
    let mut caller = Caller::of_sockets(cluster::find(), context.retry(), move |text| {
        output::complain(&name, text);
    });
    let submission = Submission {
        spec: spec.clone(),
        script: Default::default(),
        array: None,
    };
    let request = Request::Allocate(Box::new(submission));
    let reply = caller.ask_with_key(request, Some(new_key()));
    let sockets = caller.sockets();
    let stream = caller.into_stream();
    let connect =
        |job, started| JobConnection::new(context.program(), sockets.clone(), stream, job, started);
    match reply {
        Ok(Reply::Allocated {
            entry,
            until,
            variables,
        }) => {
            let job_connection = connect(entry.key.job, true);
            let allocated = Allocated {
                entry,
                until,
                variables,
            };
            Ok((job_connection, allocated))
        }
        Ok(Reply::Submitted { job, .. }) => Waiting {
            program,
            sockets: sockets.clone(),
            options,
            job_connection: connect(job, false),
            wait_reported: false,
        }
        .wait(),
        Ok(_) => Err(fail(program, &Fault::refusal(sentences::VERSION))),
        Err(e) => {
            let fault = refusal::explain(context, &spec, None, &e);
            Err(fail(program, &fault))
        }
    }
}

struct Waiting<'a> {
    program: Program,
    sockets: Vec<PathBuf>,
    options: &'a WaitOptions,
    job_connection: JobConnection,
    wait_reported: bool,
}

/// Whether a reason (its word) is a limit of the queue.
fn is_limit(word: &str) -> bool {
    let limits = [WaitReason::QueueTimeLimit, WaitReason::QueueNodeLimit];
    limits.iter().any(|limit| limit.word() == word)
}

impl Waiting<'_> {
    fn wait(mut self) -> Result<(JobConnection, Allocated), u8> {
        let Ok(mut signals) = SignalPipe::new(&[SIGINT, SIGTERM, SIGHUP]) else {
            return Err(exit::FAILED);
        };
        let start = Instant::now();
        let until = self.options.max_wait.and_then(|p| start.checked_add(p));
        loop {
            match self.job_connection.poll() {
                Some(JobEvent::Allocated(allocated)) => return Ok(self.started(*allocated)),
                Some(JobEvent::Ended(_)) => return Err(self.cancelled()),
                Some(JobEvent::Refused(refusal)) => {
                    let fault = Fault::refusal(sentences::about_job(refusal.code));
                    return Err(fail(self.program, &fault));
                }
                None => {}
            }
            if let Some(signal) = signals.take().first() {
                return Err(self.interrupted(*signal));
            }
            if until.is_some_and(|at| Instant::now() >= at) {
                return Err(self.given_up());
            }
            if !self.wait_reported && start.elapsed() >= MOMENT {
                self.wait_reported = true;
                self.report_wait();
            }
            let moment = (!self.wait_reported).then_some(start + MOMENT);
            self.job_connection.wait(Some(&signals), &[moment, until]);
        }
    }

    fn say(&self, text: &str) {
        if !self.options.quiet {
            say(&format!("{}: {text}", self.program.name()));
        }
    }

    fn started(self, allocated: Allocated) -> (JobConnection, Allocated) {
        if self.wait_reported {
            let job = self.job_connection.job();
            self.say(&format!("job {job} has been allocated resources"));
        }
        (self.job_connection, allocated)
    }

    /// Reports that the job waits, after the reason where that is a limit or the state of its queue.
    fn report_wait(&self) {
        let job = self.job_connection.job();
        match self.reason().as_str() {
            word if is_limit(word) => self.say(sentences::PARTITION_LIMIT),
            word if word == WaitReason::QueueClosed.word() => {
                self.say(sentences::PARTITION_IS_DOWN)
            }
            _ => {}
        }
        if self.program == Program::Salloc {
            self.say(&format!("Pending job allocation {job}"));
        }
        self.say(&format!("job {job} queued and waiting for resources"));
    }

    /// The word of the reason why the job waits; empty when it cannot be had.
    fn reason(&self) -> String {
        let request = Request::Jobs {
            filter: filter_of_job(self.job_connection.job()),
            fields: vec![JobField::Reason],
            fold_arrays: false,
        };
        match self.caller().ask(request) {
            Ok(Reply::Jobs(table)) if table.is_sound() => {
                table.text(0, JobField::Reason).to_owned()
            }
            _ => String::new(),
        }
    }

    fn cancelled(&self) -> u8 {
        let job = self.job_connection.job();
        match self.program {
            Program::Salloc => {
                self.say(&format!("Job allocation {job} has been revoked."));
            }
            Program::Srun | Program::Sbatch => self.say("Job has been cancelled"),
        }
        let fault =
            Fault::error("Unable to allocate resources: Job/step already completing or completed");
        fail(self.program, &fault)
    }

    fn interrupted(&self, signal: i32) -> u8 {
        let job = self.job_connection.job();
        self.cancel(job);
        match self.program {
            Program::Salloc => {
                self.say(&format!("Job allocation {job} has been revoked."));
                self.say("Job aborted due to signal");
            }
            Program::Srun | Program::Sbatch => {
                self.say(&format!("Job allocation {job} has been revoked"));
                self.say(&format!("Force Terminated JobId={job}"));
            }
        }
        u8::try_from(SIGNAL_BASE + signal).unwrap_or(exit::FAILED)
    }

    fn given_up(&self) -> u8 {
        let job = self.job_connection.job();
        self.cancel(job);
        if self.program == Program::Salloc {
            self.say(&format!("Job allocation {job} has been revoked."));
        }
        let text = format!("Unable to allocate resources: {}", sentences::NODES_BUSY);
        fail(self.program, &Fault::error(text))
    }

    /// Cancels the job. Closing the connection would not end a job that is not attended.
    fn cancel(&self, job: JobId) {
        let request = Request::Cancel {
            filter: filter_of_job(job),
            signal: None,
            script_only: false,
            steps_only: false,
        };
        // Without a controller nothing more can be done.
        let _: Result<Reply, CallError> = self.caller().ask(request);
    }

    fn caller(&self) -> Caller {
        let retry = RetryPolicy {
            answer_timeout: Duration::from_secs(5),
            reconnect_for: Duration::ZERO,
            ..RetryPolicy::default()
        };
        Caller::of_sockets(self.sockets.clone(), retry, |_| ())
    }
}

fn filter_of_job(job: JobId) -> JobFilter {
    JobFilter {
        ids: vec![JobRef { job, task: None }],
        ..JobFilter::default()
    }
}
