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

/// Ended steps by job and attempt.
type Steps = BTreeMap<(String, i64), Vec<StepRow>>;

/// The jobs and steps of a report, with what it takes to show them.
pub struct Records {
    live: Table,
    ended: Table,
    /// Runs that another one followed.
    earlier: Option<Table>,
    steps: Steps,
    running: BTreeMap<String, Vec<StepInfo>>,
    around: ClusterFacts,
    cancellers: BTreeMap<String, i64>,
    now: Time,
}

/// Fetches the jobs that pass `filter`, and their steps unless `whole`. With `filter.earlier_runs`
/// also those of their runs that another one followed.
///
/// # Errors
/// No answer.
pub fn fetch(
    context: &Context,
    filter: &JobFilter,
    whole: bool,
    now: Time,
) -> Result<Records, CallError> {
    let earlier = match filter.earlier_runs {
        true => Some(reports::table(context, ended_request(filter))?),
        false => None,
    };
    let filter = &JobFilter {
        earlier_runs: false,
        ..filter.clone()
    };
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
        earlier,
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

    /// Runs that another one followed. One that is the job's last still is told with that.
    fn earlier_views(&self) -> Vec<JobView<'_>> {
        let Some(table) = &self.earlier else {
            return Vec::new();
        };
        let run = |job: &JobView<'_>| {
            let start = job.time(JobField::Start);
            (job.text(JobField::Ref).to_owned(), job.count(JobField::Restarts), start)
        };
        let last: BTreeSet<_> = self.views().iter().map(run).collect();
        let all = (0..table.rows).map(|row| JobView::new(table, row, &self.around));
        all.filter(|job| !last.contains(&run(job))).collect()
    }

    /// The records of all jobs, by job and run.
    pub fn rows(&self) -> Vec<Vec<Row<'_>>> {
        let last = self.views().into_iter().map(|job| (job, false));
        let earlier = self.earlier_views().into_iter().map(|job| (job, true));
        let mut all: Vec<(JobView<'_>, bool)> = last.chain(earlier).collect();
        all.sort_by_key(|(job, earlier)| {
            let run = job.count(JobField::Restarts);
            (job.base_id(), job.task(), job.raw_id(), !earlier, run)
        });
        all.into_iter()
            .map(|(job, earlier)| {
                let id = whole_ref(&job).unwrap_or_default();
                let steps = self.steps.get(&(id.clone(), attempt(&job)));
                let steps = steps.map_or(&[][..], Vec::as_slice);
                if earlier {
                    return Row::of_earlier_run(job, steps, self.now);
                }
                let running = self.running.get(&id).map_or(&[][..], Vec::as_slice);
                let canceller = self.cancellers.get(job.text(JobField::Ref)).copied();
                Row::of_job(job, steps, running, canceller, self.now)
            })
            .collect()
    }

    /// References of the jobs that have started, each once.
    fn started(&self) -> Vec<JobRef> {
        let started = |j: &JobView<'_>| j.time(JobField::Start).is_some();
        let views = self.views().into_iter().chain(self.earlier_views());
        let refs = views.filter(started);
        let refs: BTreeSet<JobRef> = refs.filter_map(|j| whole_ref(&j)?.parse().ok()).collect();
        refs.into_iter().collect()
    }

    fn ended_steps(&self, context: &Context) -> Result<Steps, CallError> {
        let mut all = Steps::new();
        let rows = cosy_client::pages::steps(|request| context.ask(request), &self.started())?;
        for row in rows {
            let run = (row.job.to_string(), i64::from(row.attempt.0));
            all.entry(run).or_default().push(row);
        }
        for steps in all.values_mut() {
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

/// The attempt that a record is about. One that waits again has no steps of the next.
fn attempt(job: &JobView<'_>) -> i64 {
    job.count(JobField::Restarts) + 1
}

/// The key of a job's steps. Steps of a heterogeneous job belong to its first component; further
/// components have none.
fn whole_ref(job: &JobView<'_>) -> Option<String> {
    match job.het() {
        Some(het) => (het.offset == 0).then(|| het.job.to_string()),
        None => Some(job.text(JobField::Ref).to_owned()),
    }
}
