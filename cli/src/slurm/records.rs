//! Jobs and their steps for `sacct`, `sstat` and `seff`: live jobs from the controller's memory,
//! ended jobs and steps from its store, running steps from their nodes.

use super::{reports, steps};
use crate::{Context, users};
use cosy_client::CallError;
use cosy_model::api::{JobField, JobFilter, JobRef, Request, StepRow, Table};
use cosy_model::step::StepInfo;
use cosy_model::{JobId, JobState, Time};
use cosy_slurm::job::{ClusterFacts, JobView};
use cosy_slurm::sacct::rows::{NEEDS, Row};
use cosy_view::words::end_note::CancelNote;
use std::collections::{BTreeMap, BTreeSet};

/// Running jobs whose nodes are asked for running steps, at most; of further jobs only ended steps
/// are shown.
const ASKED_NODES: usize = 64;

/// The jobs and steps of a report, with what it takes to show them.
pub struct Records {
    live: Table,
    ended: Table,
    steps: BTreeMap<String, Vec<StepRow>>,
    running: BTreeMap<String, Vec<StepInfo>>,
    around: ClusterFacts,
    cancellers: BTreeMap<String, i64>,
    now: Time,
}

/// Fetches the jobs that pass `filter`, and their steps unless `whole`.
///
/// # Errors
/// No answer.
pub fn fetch(
    context: &Context,
    filter: &JobFilter,
    whole: bool,
    now: Time,
) -> Result<Records, CallError> {
    let live = reports::table(context, live_request(filter))?;
    let ended = reports::table(context, ended_request(filter))?;
    let needed = reports::NeededFacts {
        memory: true,
        reservations: true,
        groups: true,
        cluster: true,
    };
    let mut around = reports::cluster_facts(context, needed, &live);
    let more = reports::cluster_facts(
        context,
        reports::NeededFacts {
            groups: true,
            reservations: true,
            ..reports::NeededFacts::default()
        },
        &ended,
    );
    around.groups.extend(more.groups);
    around.reservations.extend(more.reservations);
    let mut records = Records {
        cancellers: cancellers(&ended),
        live,
        ended,
        steps: BTreeMap::new(),
        running: BTreeMap::new(),
        around,
        now,
    };
    if !whole {
        records.steps = records.ended_steps(context)?;
        records.running = records.running_steps(context);
    }
    Ok(records)
}

fn live_request(filter: &JobFilter) -> Request {
    Request::Jobs {
        filter: JobFilter {
            states: JobState::ALL.into_iter().filter(|s| !s.is_end()).collect(),
            since: None,
            until: None,
            ..filter.clone()
        },
        fields: NEEDS.to_vec(),
        fold_arrays: !filter.ids.iter().any(|id| id.task.is_some()),
    }
}

fn ended_request(filter: &JobFilter) -> Request {
    Request::History {
        filter: JobFilter {
            states: JobState::ALL.into_iter().filter(|s| s.is_end()).collect(),
            ..filter.clone()
        },
        fields: NEEDS.to_vec(),
    }
}

/// Uids of the users who cancelled jobs, by job. The store has their names; where nobody cancelled
/// (the command of the job is gone), it is the owner.
fn cancellers(ended: &Table) -> BTreeMap<String, i64> {
    let mut known: BTreeMap<&str, Option<i64>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for row in 0..ended.rows {
        if ended.text(row, JobField::State) != JobState::Cancelled.word() {
            continue;
        }
        let reason = ended.text(row, JobField::Reason);
        let number = CancelNote::read(reason).and_then(|note| {
            let found = known.entry(note.who);
            *found.or_insert_with(|| users::number(note.who))
        });
        let own = || ended.number(row, JobField::Uid);
        if let Some(number) = number.or_else(own) {
            all.insert(ended.text(row, JobField::Ref).to_owned(), number);
        }
    }
    all
}

impl Records {
    fn views(&self) -> Vec<JobView<'_>> {
        let of = |table| {
            let around = &self.around;
            move |row| JobView::new(table, row, around)
        };
        let mut all: Vec<JobView<'_>> = (0..self.ended.rows).map(of(&self.ended)).collect();
        let ended: BTreeSet<&str> = all.iter().map(|j| j.text(JobField::Ref)).collect();
        let live = (0..self.live.rows).map(of(&self.live));
        // A job may have ended between the two questions.
        let live: Vec<_> = live
            .filter(|j| !ended.contains(j.text(JobField::Ref)))
            .collect();
        all.extend(live);
        all.sort_by_key(|j| (j.base_id(), j.task(), j.raw_id()));
        all
    }

    /// The records of all jobs, by job.
    pub fn rows(&self) -> Vec<Vec<Row<'_>>> {
        let none: (&[StepRow], &[StepInfo]) = (&[], &[]);
        let views = self.views().into_iter();
        views
            .map(|job| {
                let id = &whole_ref(&job).unwrap_or_default();
                let steps = self.steps.get(id).map_or(none.0, Vec::as_slice);
                let running = self.running.get(id).map_or(none.1, Vec::as_slice);
                let canceller = self.cancellers.get(job.text(JobField::Ref)).copied();
                Row::of_job(job, steps, running, canceller, self.now)
            })
            .collect()
    }

    /// References of the jobs that have started.
    fn started(&self) -> Vec<JobRef> {
        let started = |j: &JobView<'_>| j.time(JobField::Start).is_some();
        let views = self.views().into_iter().filter(started);
        views.filter_map(|j| whole_ref(&j)?.parse().ok()).collect()
    }

    fn ended_steps(&self, context: &Context) -> Result<BTreeMap<String, Vec<StepRow>>, CallError> {
        let mut all: BTreeMap<String, Vec<StepRow>> = BTreeMap::new();
        let rows = cosy_client::pages::steps(|request| context.ask(request), &self.started())?;
        for row in rows {
            all.entry(row.job.to_string()).or_default().push(row);
        }
        for steps in all.values_mut() {
            // Of a requeued job only the steps of the last attempt are shown.
            let last = steps.iter().map(|s| s.attempt).max();
            steps.retain(|s| Some(s.attempt) == last);
            steps.sort_by_key(|s| s.record.step);
        }
        Ok(all)
    }

    fn running_steps(&self, context: &Context) -> BTreeMap<String, Vec<StepInfo>> {
        let own = i64::from(rustix::process::getuid().as_raw());
        let views = self.views().into_iter();
        let running = views.filter(|j| {
            j.our_state() == JobState::Running && (own == 0 || j.count(JobField::Uid) == own)
        });
        running
            .take(ASKED_NODES)
            .filter_map(|j| {
                let id = JobId(u64::try_from(j.raw_id()).ok()?);
                let name = whole_ref(&j)?;
                Some((name, steps::running(context, id)))
            })
            .collect()
    }
}

/// The key of a job's steps. Steps of a heterogeneous job belong to its first component; further
/// components have none.
fn whole_ref(job: &JobView<'_>) -> Option<String> {
    match job.het() {
        Some(het) => (het.offset == 0).then(|| het.job.to_string()),
        None => Some(job.text(JobField::Ref).to_owned()),
    }
}
