//! `scontrol show job`, `show step`, `completing`.

use super::session::Session;
use crate::slurm::messages::say;
use crate::slurm::{steps, words};
use crate::{exit, output};
use cosy_client::CallError;
use cosy_model::JobState;
use cosy_model::api::{JobField, JobFilter, JobRef, Request, Table};
use cosy_slurm::job::{ClusterFacts, JobView};
use cosy_slurm::sentences;
use cosy_slurm::show::job::{self, FIELDS, ShowOptions};
use cosy_slurm::show::step;
use cosy_slurm::step::{NEEDED_FIELDS, RunningStep};
use cosy_slurm::targets::{self, Step, Target};
use std::cmp::Reverse;

impl Session<'_> {
    /// The table of these jobs with these fields.
    pub(super) fn table(
        &self,
        ids: Vec<JobRef>,
        fields: &[JobField],
        fold_arrays: bool,
    ) -> Result<Table, CallError> {
        let request = Request::Jobs {
            filter: JobFilter {
                ids,
                ..JobFilter::default()
            },
            fields: fields.to_vec(),
            fold_arrays,
        };
        self.context.fetch_jobs(request)
    }

    /// Jobs with all that a record has. Starts are predicted only where some wait to start:
    /// that takes a plan.
    fn whole_table(&self, ids: Vec<JobRef>, fold_arrays: bool) -> Result<Table, CallError> {
        let plain: Vec<JobField> = FIELDS
            .iter()
            .copied()
            .filter(|f| *f != JobField::PredictedStart)
            .collect();
        let table = self.table(ids.clone(), &plain, fold_arrays)?;
        let waits = |row| {
            table.text(row, JobField::State) == JobState::Waiting.word()
                && table.number(row, JobField::Priority) != Some(0)
        };
        if (0..table.rows).any(waits) {
            return self.table(ids, FIELDS, fold_arrays);
        }
        Ok(table)
    }

    pub(super) fn show_jobs(&self, ids: &[String]) -> u8 {
        // Observed: 0 stands for all jobs, too.
        if ids.is_empty() || ids == ["0"] {
            return self.all_jobs();
        }
        let mut code = exit::OK;
        for word in ids.iter().flat_map(|w| targets::words(w)) {
            code = code.max(match targets::parse(word) {
                Some(target) if target.step.is_none() => self.one_job(&target),
                Some(_) | None => {
                    say(&format!("scontrol_print_job error: {}", sentences::NO_JOB));
                    exit::FAILED
                }
            });
        }
        code
    }

    fn all_jobs(&self) -> u8 {
        match self.whole_table(Vec::new(), true) {
            Ok(table) if table.rows == 0 => self.print("No jobs in the system\n"),
            Ok(table) => self.print(&self.records(&table)),
            Err(e) => no_jobs(&e),
        }
    }

    fn one_job(&self, target: &Target) -> u8 {
        let whole = target.jobs.iter().all(|j| j.task.is_none());
        match self.whole_table(target.jobs.clone(), whole) {
            Ok(table) if table.rows > 0 => match self.records_of(&table, Some(target)) {
                found if found.is_empty() => {
                    output::print(&format!("Job {} not found\n", target.text));
                    exit::FAILED
                }
                found => self.print(&found),
            },
            Ok(_) if whole || !self.is_known(target) => {
                say(&format!("slurm_load_jobs error: {}", sentences::NO_JOB));
                exit::FAILED
            }
            Ok(_) => {
                output::print(&format!("Job {} not found\n", target.text));
                exit::FAILED
            }
            Err(e) => no_jobs(&e),
        }
    }

    /// Whether the job or array that a target names exists, if perhaps not the task.
    fn is_known(&self, target: &Target) -> bool {
        let base = |job: &JobRef| JobRef {
            job: job.job,
            task: None,
        };
        let bases = target.jobs.first().map(base).into_iter().collect();
        let found = self.table(bases, &[JobField::Id], true);
        found.is_ok_and(|table| table.rows > 0)
    }

    /// The records of all rows: of an array first the waiting tasks, then the others, the last
    /// first.
    fn records(&self, table: &Table) -> String {
        self.records_of(table, None)
    }

    /// The same for one target, which may be one component of a heterogeneous job.
    fn records_of(&self, table: &Table, target: Option<&Target>) -> String {
        self.head(table.rows);
        let around = self.facts_about(table);
        let meant = |view: &JobView<'_>| {
            target.is_none_or(|target| is_meant(view, target) && !never_was(view, target))
        };
        let views = (0..table.rows).map(|row| JobView::new(table, row, &around));
        let mut views: Vec<JobView<'_>> = views.filter(meant).collect();
        let order = |v: &JobView<'_>| {
            let own = v.raw_id() != v.base_id();
            let component = v.het().map(|het| het.offset);
            (v.base_id(), own, component, Reverse(v.raw_id()))
        };
        views.sort_by_key(order);
        let options = ShowOptions {
            zone: &self.zone,
            details: self.details,
        };
        let sheet = |v: &JobView<'_>| job::sheet(v, options).text(self.one_line);
        views.iter().map(sheet).collect()
    }

    pub(super) fn completing(&self) -> u8 {
        let fields = [
            JobField::Ref,
            JobField::State,
            JobField::Queue,
            JobField::Nodes,
        ];
        let Ok(table) = self.table(Vec::new(), &fields, false) else {
            return exit::FAILED;
        };
        let is = |row: &usize| table.text(*row, JobField::State) == JobState::Completing.word();
        let line = |row| {
            format!(
                "JobId={} Partition={} Nodes={}\n",
                table.text(row, JobField::Ref),
                table.text(row, JobField::Queue),
                table.text(row, JobField::Nodes)
            )
        };
        self.print(&(0..table.rows).filter(is).map(line).collect::<String>())
    }

    pub(super) fn show_steps(&self, ids: &[String]) -> u8 {
        if ids.is_empty() {
            return self.all_steps();
        }
        let mut code = exit::OK;
        for word in ids.iter().flat_map(|w| targets::words(w)) {
            let done = match targets::parse(word) {
                Some(target) => self.steps_of(&target),
                None => Err(sentences::NO_JOB),
            };
            code = code.max(done.unwrap_or_else(|why| {
                say(&format!("slurm_get_job_steps error: {why}"));
                exit::FAILED
            }));
        }
        code
    }

    fn all_steps(&self) -> u8 {
        let Ok(table) = self.table(Vec::new(), NEEDED_FIELDS, false) else {
            return exit::FAILED;
        };
        let text = self.step_records(&self.steps_in(&table));
        self.print(if text.is_empty() {
            "No job steps in the system\n"
        } else {
            &text
        })
    }

    fn steps_of(&self, target: &Target) -> Result<u8, &'static str> {
        let table = self.table(target.jobs.clone(), NEEDED_FIELDS, false);
        let table = table.map_err(|e| words::of_call(&e))?;
        if table.rows == 0 {
            return Err(sentences::NO_JOB);
        }
        let mut steps = self.steps_in(&table);
        if let Some(step) = target.step {
            // A word in the place of the number counts as step 0 there, as observed.
            let number = match step {
                Step::Number(n) => n,
                Step::Batch | Step::Extern => 0,
            };
            let job = target.text.split('.').next().unwrap_or_default();
            let id = format!("{job}.{number}");
            steps.retain(|s| step::id(s) == id);
            if steps.is_empty() {
                output::print(&format!("Job step {id} not found\n"));
                return Ok(exit::FAILED);
            }
        }
        Ok(self.print(&self.step_records(&steps)))
    }

    /// The running steps of each job: first its script, then those that were started in it.
    fn steps_in(&self, table: &Table) -> Vec<RunningStep> {
        let around = ClusterFacts::default();
        let jobs = (0..table.rows).map(|row| JobView::new(table, row, &around));
        jobs.flat_map(|job| RunningStep::of_job(&job, |id| steps::running(self.context, id)))
            .collect()
    }

    fn step_records(&self, steps: &[RunningStep]) -> String {
        let text = |s: &RunningStep| step::sheet(s, &self.zone).text(self.one_line);
        steps.iter().map(text).collect()
    }
}

/// Whether a target means this component of a heterogeneous job, or a job of one component.
fn is_meant(view: &JobView<'_>, target: &Target) -> bool {
    let Some(het) = view.het() else {
        return target.component.is_none();
    };
    let component = target.component.map(i64::from);
    let ids = target
        .jobs
        .iter()
        .filter_map(|id| i64::try_from(id.job.0).ok());
    ids.into_iter().any(|id| het.is_named(id, component))
}

/// Whether the target is a task that was cancelled while it waited, which to Slurm never was a job.
fn never_was(view: &JobView<'_>, target: &Target) -> bool {
    let named = target.jobs.iter().any(|job| job.task.is_some());
    named && view.our_state().is_end() && view.time(JobField::Start).is_none()
}

fn no_jobs(e: &CallError) -> u8 {
    say(&format!("slurm_load_jobs error: {}", words::of_call(e)));
    exit::FAILED
}
