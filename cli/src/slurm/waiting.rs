//! Asks for an allocation in Slurm's words, and waits until it is there: what `srun` and
//! `salloc` do before anything runs. Source: captures srun-queued*, srun-immediate,
//! salloc-bad.

use super::messages::{fail, say};
use super::submit::refusal;
use crate::allocation::attend::{Allocated, Attendant, News};
use crate::exit::{self, SIGNAL_BASE};
use crate::launch::intake::Intake;
use crate::{Context, output};
use cosy_client::cluster;
use cosy_client::{CallError, Caller, Patience, new_key};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::{JobId, JobSpec, WaitReason};
use cosy_slurm::sentences;
use cosy_slurm::submit::{Fault, Program};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::time::{Duration, Instant};

/// An allocation that is there within this time was not queued: its nodes were prepared.
const MOMENT: Duration = Duration::from_millis(400);

/// How to wait.
pub struct WaitOptions {
    /// At most so long.
    pub patience: Option<Duration>,
    /// Say nothing of it.
    pub quiet: bool,
}

/// Gets the allocation; its connection is the one that it was asked for on.
///
/// # Errors
/// The exit code; what was wrong is said already.
pub fn get(
    context: &Context,
    program: Program,
    spec: JobSpec,
    options: &WaitOptions,
) -> Result<(Attendant, Allocated), u8> {
    let path = cluster::find();
    let name = context.program().to_owned();
    let mut caller = Caller::new(&path, context.patience(), move |text| {
        output::complain(&name, text);
    });
    let submission = Submission {
        spec: spec.clone(),
        script: Default::default(),
        array: None,
    };
    let request = Request::Allocate(Box::new(submission));
    let reply = caller.ask_with(request, Some(new_key()));
    let stream = caller.into_stream();
    let stays = |job, started| Attendant::new(context.program(), &path, stream, job, started);
    match reply {
        Ok(Reply::Allocated {
            entry,
            until,
            variables,
        }) => {
            let attendant = stays(entry.key.job, true);
            let allocated = Allocated {
                entry,
                until,
                variables,
            };
            Ok((attendant, allocated))
        }
        Ok(Reply::Submitted { job, .. }) => Waiting {
            context,
            program,
            path: &path,
            options,
            attendant: stays(job, false),
            told: false,
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
    context: &'a Context,
    program: Program,
    path: &'a Path,
    options: &'a WaitOptions,
    attendant: Attendant,
    told: bool,
}

/// Whether the job is beyond what its queue allows.
fn is_limit(word: &str) -> bool {
    let limits = [WaitReason::QueueTimeLimit, WaitReason::QueueNodeLimit];
    limits.iter().any(|limit| limit.word() == word)
}

impl Waiting<'_> {
    fn wait(mut self) -> Result<(Attendant, Allocated), u8> {
        let Ok(mut intake) = Intake::new(&[SIGINT, SIGTERM, SIGHUP]) else {
            return Err(exit::FAILED);
        };
        let start = Instant::now();
        let until = self.options.patience.and_then(|p| start.checked_add(p));
        loop {
            match self.attendant.turn() {
                Some(News::Allocated(allocated)) => return Ok(self.there(*allocated)),
                Some(News::Ended(_)) => return Err(self.cancelled()),
                Some(News::Refused(refusal)) => {
                    let fault = Fault::refusal(sentences::about_job(refusal.code));
                    return Err(fail(self.program, &fault));
                }
                None => {}
            }
            if let Some(signal) = intake.take().first() {
                return Err(self.interrupted(*signal));
            }
            if until.is_some_and(|at| Instant::now() >= at) {
                return Err(self.given_up());
            }
            if !self.told && start.elapsed() >= MOMENT {
                self.told = true;
                self.tell();
            }
            let moment = (!self.told).then_some(start + MOMENT);
            self.attendant.pause(Some(&intake), &[moment, until]);
        }
    }

    fn say(&self, text: &str) {
        if !self.options.quiet {
            say(&format!("{}: {text}", self.program.name()));
        }
    }

    fn there(self, allocated: Allocated) -> (Attendant, Allocated) {
        if self.told {
            let job = self.attendant.job();
            self.say(&format!("job {job} has been allocated resources"));
        }
        (self.attendant, allocated)
    }

    /// Says that it waits, and before that why, where it waits for the queue's limits.
    fn tell(&self) {
        let job = self.attendant.job();
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

    /// Why it waits.
    fn reason(&self) -> String {
        let request = Request::Jobs {
            filter: only(self.attendant.job()),
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
        let job = self.attendant.job();
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
        let job = self.attendant.job();
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
        let job = self.attendant.job();
        self.cancel(job);
        if self.program == Program::Salloc {
            self.say(&format!("Job allocation {job} has been revoked."));
        }
        let text = format!("Unable to allocate resources: {}", sentences::NODES_BUSY);
        fail(self.program, &Fault::error(text))
    }

    /// Closing the connection would do, too, but not for all.
    fn cancel(&self, job: JobId) {
        let request = Request::Cancel {
            filter: only(job),
            signal: None,
            script_only: false,
            steps_only: false,
        };
        // Without a controller there is nothing more that could be done.
        let _: Result<Reply, CallError> = self.caller().ask(request);
    }

    fn caller(&self) -> Caller {
        let patience = Patience {
            answer: Duration::from_secs(5),
            retry: Duration::ZERO,
            ..Patience::default()
        };
        let _ = self.context;
        Caller::new(self.path, patience, |_| ())
    }
}

fn only(job: JobId) -> JobFilter {
    JobFilter {
        ids: vec![JobRef { job, task: None }],
        ..JobFilter::default()
    }
}
