//! `scancel`: ends jobs and steps, or sends them signals.
//!
//! One request for all ids together, however many they are; the sentences for those that
//! could not be ended come from its answer. Source: scancel(1).

use super::command_line::read;
use super::messages::{error, say};
use super::{accounts, steps};
use crate::{Context, exit};
use cosy_client::CallError;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Table};
use cosy_model::limits::REFUSALS;
use cosy_model::{About, JobState, Refusal, RefusalCode, signal};
use cosy_slurm::getopt::GivenOption;
use cosy_slurm::scancel::{CancelRequest, OPTIONS, PAUSE, Tries, VARIABLES};
use cosy_slurm::sentences;
use cosy_slurm::targets::{Step, Target};
use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::time::Duration;

const USAGE: &str = "scancel [OPTIONS] [job_id[_array_id][.step_id]]";
/// The exit code for what belongs to somebody else: Slurm's number of that error, cut to
/// what an exit code holds.
const DENIED: u8 = 210;
/// The same for a component of a heterogeneous job.
const COMPONENT: u8 = 60;

/// Runs `scancel`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match read(context, USAGE, OPTIONS) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let words: Vec<String> = parsed
        .words
        .iter()
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    let options: Vec<GivenOption> = variables().chain(parsed.found).collect();
    match CancelRequest::read(&options, &words) {
        Ok(args) => cancel(context, &args),
        Err(mistake) => {
            mistake.0.iter().for_each(|line| say(line));
            exit::FAILED
        }
    }
}

fn variables() -> impl Iterator<Item = GivenOption> {
    let set = |(variable, name): &(&str, &'static str)| {
        let value = std::env::var_os(variable)?;
        Some(GivenOption {
            name,
            value: Some(value),
        })
    };
    VARIABLES.iter().filter_map(set)
}

fn cancel(context: &Context, args: &CancelRequest) -> u8 {
    let filter = match filter(context, args) {
        Ok(Some(filter)) => filter,
        Ok(None) => {
            report_no_match(context, args);
            return exit::OK;
        }
        Err(code) => return code,
    };
    let mut code = exit::OK;
    let (whole, some): (Vec<&Target>, Vec<&Target>) =
        args.targets.iter().partition(|t| t.step.is_none());
    for target in some {
        let fine = !args.interactive || confirmed(&format!("Cancel step_id={}", target.text));
        if fine {
            code = code.max(cancel_step(context, args, target));
        }
    }
    let (components, whole): (Vec<&Target>, Vec<&Target>) =
        whole.into_iter().partition(|t| t.component.is_some());
    for target in components {
        let (id, why) = (&target.text, sentences::NOT_A_COMPONENT);
        error(context, &format!("Kill job error on job id {id}: {why}"));
        code = code.max(COMPONENT);
    }
    if !whole.is_empty() || args.targets.is_empty() {
        let jobs = JobCancellation {
            context,
            args,
            filter,
        };
        code = code.max(jobs.cancel(&whole));
    }
    code
}

/// With `--verbose`, prints that no job passes the conditions.
fn report_no_match(context: &Context, args: &CancelRequest) {
    if args.verbose {
        let conditions = args.conditions();
        let text = format!("No active jobs match ALL job filters, including: {conditions}");
        error(context, &text);
    }
}

/// The filter for the conditions beside ids; `None`: no job can pass.
fn filter(context: &Context, args: &CancelRequest) -> Result<Option<JobFilter>, u8> {
    let list = |given: &Option<String>| given.clone().into_iter().collect::<Vec<_>>();
    let mut filter = JobFilter {
        users: list(&args.user),
        queues: list(&args.partition),
        names: list(&args.name),
        accounts: accounts::spellings(&list(&args.account)),
        states: args.job_states(),
        ..JobFilter::default()
    };
    if let Some(nodes) = &args.nodes {
        filter.nodes = cosy_model::expand(nodes).unwrap_or_else(|_| vec![nodes.clone()]);
    }
    if args.me {
        filter.users = vec![rustix::process::getuid().as_raw().to_string()];
    }
    if let Some(user) = &args.user
        && !crate::users::exists(user)
    {
        error(context, &format!("Invalid user name: {user}"));
        return Err(exit::FAILED);
    }
    if let Some(clusters) = &args.clusters
        && !super::names::is_this_cluster(context, clusters)
    {
        return Err(exit::FAILED);
    }
    if args.qos.is_some() || args.wckey.is_some() || args.reservation.is_some() {
        return Ok(narrow_filter(context, args, filter));
    }
    Ok(Some(filter))
}

/// A filter for the jobs that pass conditions which the controller does not filter by.
fn narrow_filter(context: &Context, args: &CancelRequest, filter: JobFilter) -> Option<JobFilter> {
    let fields = vec![
        JobField::Ref,
        JobField::Qos,
        JobField::Wckey,
        JobField::Reservation,
    ];
    let table = list(context, filter, fields)?;
    let reservation = args.reservation.as_deref();
    let reservation = reservation.map(|name| super::names::reservation(context, name));
    let same = |given: &Option<String>, row, field| {
        given.as_deref().is_none_or(|g| table.text(row, field) == g)
    };
    let passes = |row: &usize| {
        same(&args.qos, *row, JobField::Qos)
            && same(&args.wckey, *row, JobField::Wckey)
            && reservation.is_none_or(|id| {
                let own = table.number(*row, JobField::Reservation);
                own.is_some() && own == id.and_then(|id| i64::try_from(id.0).ok())
            })
    };
    let rows = (0..table.rows).filter(passes);
    let ids: Vec<JobRef> = rows
        .filter_map(|row| table.text(row, JobField::Ref).parse().ok())
        .collect();
    (!ids.is_empty()).then(|| JobFilter {
        ids,
        ..JobFilter::default()
    })
}

fn list(context: &Context, filter: JobFilter, fields: Vec<JobField>) -> Option<Table> {
    let request = Request::Jobs {
        filter,
        fields,
        fold_arrays: false,
    };
    context.fetch_jobs(request).ok()
}

/// Cancels or signals whole jobs, not single steps.
struct JobCancellation<'a> {
    context: &'a Context,
    args: &'a CancelRequest,
    filter: JobFilter,
}

impl JobCancellation<'_> {
    fn cancel(mut self, targets: &[&Target]) -> u8 {
        let named: Vec<JobRef> = targets.iter().flat_map(|t| t.jobs.clone()).collect();
        if self.filter.ids.is_empty() {
            self.filter.ids = named;
        } else if !named.is_empty() {
            self.filter.ids.retain(|id| named.contains(id));
        }
        if self.args.interactive {
            return self.ask_each();
        }
        if self.args.verbose {
            let named = targets.iter().map(|target| target.text.clone());
            let all: Vec<String> = match targets.is_empty() {
                true => self.selected_jobs(),
                false => named.collect(),
            };
            all.iter().for_each(|id| self.announce(id));
        }
        self.send()
    }

    /// The jobs that are chosen without their ids, as they are listed.
    fn selected_jobs(&self) -> Vec<String> {
        let request = Request::Jobs {
            filter: self.filter.clone(),
            fields: vec![JobField::Ref, JobField::State],
            fold_arrays: true,
        };
        let Ok(table) = self.context.fetch_jobs(request) else {
            return Vec::new();
        };
        let live = (0..table.rows).filter(|row| is_live(&table, *row));
        live.map(|row| table.text(row, JobField::Ref).to_owned())
            .collect()
    }

    fn announce(&self, id: &str) {
        say(&match self.args.signal {
            Some(signal) if !self.args.ends() => {
                let what = if self.args.batch { "batch job" } else { "job" };
                format!("scancel: Signal {signal} to {what} {id}")
            }
            Some(_) | None => format!("scancel: Terminating job {id}"),
        });
    }

    fn ask_each(mut self) -> u8 {
        let fields = vec![
            JobField::Ref,
            JobField::Id,
            JobField::ArrayId,
            JobField::Name,
            JobField::Queue,
            JobField::State,
        ];
        let Some(table) = list(self.context, self.filter.clone(), fields) else {
            return exit::FAILED;
        };
        let live: Vec<usize> = (0..table.rows).filter(|r| is_live(&table, *r)).collect();
        let unknown = self.report_ended_jobs(&table, &live);
        let agreed = |row: &usize| {
            confirmed(&format!(
                "Cancel job_id={} name={} partition={}",
                table.text(*row, JobField::Ref),
                table.text(*row, JobField::Name),
                table.text(*row, JobField::Queue)
            ))
        };
        let rows = live.into_iter().filter(agreed);
        let chosen = rows.filter_map(|row| table.text(row, JobField::Ref).parse().ok());
        self.filter.ids = chosen.collect();
        if self.filter.ids.is_empty() {
            return unknown;
        }
        unknown.max(self.send())
    }

    /// Reports the jobs on the command line that have ended; gives the exit code.
    fn report_ended_jobs(&self, table: &Table, live: &[usize]) -> u8 {
        let is_there = |id: &JobRef| {
            let base = i64::try_from(id.job.0).ok();
            let own = id.to_string();
            let ids = [JobField::Id, JobField::ArrayId];
            let named = |row: usize| {
                table.text(row, JobField::Ref) == own
                    || (id.task.is_none() && ids.iter().any(|f| table.number(row, *f) == base))
            };
            live.iter().any(|row| named(*row))
        };
        let mut code = exit::OK;
        for id in self.filter.ids.iter().filter(|id| !is_there(id)) {
            let why = sentences::NO_JOB;
            error(self.context, &format!("Kill job error on job id {id}: {why}"));
            code = exit::FAILED;
        }
        code
    }

    /// Cancels the jobs or sends the signal. A signal for a job that has not begun is sent again after
    /// a pause, as Slurm does.
    fn send(mut self) -> u8 {
        let mut code = exit::OK;
        if !self.args.ends()
            && let Some((begun, waiting)) = self.begun_and_waiting()
        {
            if begun.len() + waiting.len() > REFUSALS {
                return self.send_to_many(begun, waiting);
            }
            // Jobs that conditions chose are looked up, to know which have not begun.
            if self.filter.ids.is_empty() {
                self.filter.ids = begun.into_iter().chain(waiting).collect();
            }
        }
        let mut retries = Retries::new(self.args);
        loop {
            let early = match self.send_once(&mut code) {
                Ok(early) => early,
                Err(e) => return self.failed(&e),
            };
            self.filter.ids.clone_from(&early);
            if early.is_empty() || !retries.pause() {
                return code.max(self.report_too_early(&early));
            }
        }
    }

    /// Sends one request; gives the jobs that have not begun.
    fn send_once(&self, code: &mut u8) -> Result<Vec<JobRef>, CallError> {
        let (changed, refused) = self.cancel_or_signal()?;
        if changed == 0 && refused.is_empty() {
            report_no_match(self.context, self.args);
        }
        let (early, refused): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(_, why)| is_early(why));
        *code = (*code).max(self.complain(&refused));
        Ok(early.iter().filter_map(|(id, _)| id.parse().ok()).collect())
    }

    /// Sends a signal to more jobs than one answer can name. Each job gets it once: waiting jobs are
    /// looked up again after pauses, and get it when they have begun.
    fn send_to_many(mut self, begun: Vec<JobRef>, waiting: Vec<JobRef>) -> u8 {
        let all = self.filter.clone();
        let (mut now, mut later, mut code) = (begun, waiting, exit::OK);
        let mut retries = Retries::new(self.args);
        loop {
            for ids in now.chunks(REFUSALS) {
                self.filter.ids = ids.to_vec();
                match self.send_once(&mut code) {
                    Ok(early) => later.extend(early),
                    Err(e) => return self.failed(&e),
                }
            }
            if later.is_empty() || !retries.pause() {
                return code.max(self.report_too_early(&later));
            }
            self.filter = all.clone();
            let Some((begun, waiting)) = self.begun_and_waiting() else {
                return code.max(self.report_too_early(&later));
            };
            let left: BTreeSet<JobRef> = later.into_iter().collect();
            let of_those = |ids: Vec<JobRef>| ids.into_iter().filter(|id| left.contains(id));
            (now, later) = (of_those(begun).collect(), of_those(waiting).collect());
        }
    }

    /// The jobs of the filter: those that have begun, and those that wait.
    fn begun_and_waiting(&self) -> Option<(Vec<JobRef>, Vec<JobRef>)> {
        let fields = vec![JobField::Ref, JobField::State];
        let table = list(self.context, self.filter.clone(), fields)?;
        let live = (0..table.rows).filter(|row| is_live(&table, *row));
        let (waiting, begun): (Vec<usize>, Vec<usize>) =
            live.partition(|row| is_waiting(&table, *row));
        let ids = |rows: Vec<usize>| {
            let id = |row: usize| table.text(row, JobField::Ref).parse().ok();
            rows.into_iter().filter_map(id).collect()
        };
        Some((ids(begun), ids(waiting)))
    }

    /// Sends the request to cancel or signal; gives the number of jobs for which it was done, and the
    /// refusals of others.
    fn cancel_or_signal(&self) -> Result<(u64, Vec<(String, Refusal)>), CallError> {
        let args = self.args;
        let signal = args.signal.unwrap_or(signal::KILL);
        let signal = (!args.ends()).then_some(signal);
        let request = Request::Cancel {
            filter: self.filter.clone(),
            signal,
            script_only: signal.is_some() && args.batch && !args.full,
            steps_only: signal.is_some() && !args.batch && !args.full,
        };
        match self.context.ask(request)? {
            Reply::Done { changed, refused } => Ok((changed, refused)),
            _ => Err(CallError::Unexpected),
        }
    }

    fn report_too_early(&self, early: &[JobRef]) -> u8 {
        for id in early {
            let why = sentences::TRANSITION;
            error(self.context, &format!("Kill job error on job id {id}: {why}"));
        }
        if early.is_empty() {
            exit::OK
        } else {
            exit::FAILED
        }
    }

    fn failed(&self, e: &CallError) -> u8 {
        if self.filter.ids.is_empty() {
            error(self.context, super::words::of_call(e));
        }
        for id in &self.filter.ids {
            let why = super::words::of_call(e);
            error(self.context, &format!("Kill job error on job id {id}: {why}"));
        }
        exit::FAILED
    }

    fn complain(&self, refused: &[(String, Refusal)]) -> u8 {
        let mut code = exit::OK;
        for (id, refusal) in refused {
            let (why, loud, own) = match refusal.code {
                RefusalCode::NotFound => (sentences::NO_JOB, false, exit::OK),
                RefusalCode::WrongState => (sentences::COMPLETED, false, exit::OK),
                RefusalCode::Forbidden => (sentences::DENIED, true, DENIED),
                other => (sentences::about_job(other), true, exit::FAILED),
            };
            if (loud && !self.args.quiet) || self.args.verbose {
                error(self.context, &format!("Kill job error on job id {id}: {why}"));
            }
            code = code.max(own);
        }
        code
    }
}

/// The pauses in which jobs may begin.
struct Retries {
    tries: Tries,
    verbose: bool,
}

impl Retries {
    fn new(args: &CancelRequest) -> Self {
        Self {
            tries: Tries::default(),
            verbose: args.verbose,
        }
    }

    /// Waits until the next try; false when there were enough.
    fn pause(&mut self) -> bool {
        let Some(pause) = self.tries.next() else {
            return false;
        };
        if self.verbose && pause == PAUSE {
            say("scancel: Job is in transitional state, retrying");
        }
        std::thread::sleep(Duration::from_millis(pause));
        true
    }
}

/// Whether a signal was refused because the job has not begun.
fn is_early(why: &Refusal) -> bool {
    why.code == RefusalCode::WrongState && why.about == Some(About::Waiting)
}

/// Whether the job waits or runs.
fn is_live(table: &Table, row: usize) -> bool {
    let state = table.text(row, JobField::State).parse::<JobState>();
    !state.is_ok_and(|s| s.is_end() || s == JobState::Completing)
}

/// Whether the job has not begun.
fn is_waiting(table: &Table, row: usize) -> bool {
    table.text(row, JobField::State).parse() == Ok(JobState::Waiting)
}

/// Asks a question on the terminal; true for yes.
fn confirmed(question: &str) -> bool {
    let mut out = std::io::stdout().lock();
    let written = write!(out, "{question} [y/n]? ").and_then(|()| out.flush());
    let mut answer = String::new();
    written.is_ok()
        && std::io::stdin().lock().read_line(&mut answer).is_ok()
        && answer.trim_start().starts_with(['y', 'Y'])
}

/// Nothing of the job has begun.
fn waits(context: &Context, job: JobRef) -> bool {
    let filter = JobFilter {
        ids: vec![job],
        ..JobFilter::default()
    };
    let table = list(context, filter, vec![JobField::State]);
    table.is_some_and(|t| t.rows > 0 && (0..t.rows).all(|row| is_waiting(&t, row)))
}

fn cancel_step(context: &Context, args: &CancelRequest, target: &Target) -> u8 {
    let signal = args.signal.unwrap_or(signal::KILL);
    if args.verbose {
        say(&match args.signal {
            Some(signal) => format!("scancel: Signal {signal} to step {}", target.text),
            None => format!("scancel: Terminating step {}", target.text),
        });
    }
    let mut code = exit::OK;
    for job in &target.jobs {
        let mut retries = Retries::new(args);
        let sent = loop {
            let sent = match target.step {
                Some(Step::Number(step)) => steps::signal(context, *job, step, signal),
                Some(Step::Batch) => steps::signal_script(context, *job, signal),
                Some(Step::Extern) | None => Ok(()),
            };
            let early = sent.is_err() && !args.ends() && waits(context, *job);
            match early {
                true if retries.pause() => {}
                true => break Err(sentences::TRANSITION),
                false => break sent,
            }
        };
        if let Err(why) = sent {
            let text = format!("Kill job error on job step id {}: {why}", target.text);
            error(context, &text);
            code = exit::FAILED;
        }
    }
    code
}
