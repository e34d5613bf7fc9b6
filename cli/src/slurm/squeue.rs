//! `squeue`: jobs and steps that wait, run, or ended moments ago. Sources: squeue(1),
//! captures of 22.05.
//!
//! The controller is asked only for the fields that are shown, and everything else about
//! the cluster only where a column needs it.

use super::messages::{error, say};
use super::reports::{self, NeededFacts};
use super::{accounts, names, steps};
use crate::{Context, exit, output, refs, times, users};
use cosy_client::CallError;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Table};
use cosy_model::{JobState, hostlist};
use cosy_slurm::job::{ClusterFacts, Het, JobView};
use cosy_slurm::squeue::cells::{self, ValueStyle};
use cosy_slurm::squeue::fields::Field;
use cosy_slurm::squeue::options::{self, Invocation, OPTIONS, Query, States};
use cosy_slurm::squeue::synopsis::SYNOPSIS;
use cosy_slurm::squeue::{order, report, steps as step_report, tree};
use cosy_slurm::step::{self, RunningStep};
use cosy_slurm::{SlurmState, json_yaml, targets};
use cosy_view::words::counted;
use std::time::Duration;

/// Runs `squeue`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match options::read(context.args(), reports::variable) {
        Invocation::Help => reports::help(context, OPTIONS),
        Invocation::Usage => reports::print_text(SYNOPSIS),
        Invocation::Version => reports::version(),
        Invocation::UsageError(mistake) => reports::mistake(context, &mistake),
        Invocation::Extra(word) => {
            error(context, &format!("Unrecognized option: {word}"));
            reports::print_text(SYNOPSIS);
            exit::FAILED
        }
        Invocation::Bad(text) => {
            error(context, &text);
            exit::FAILED
        }
        Invocation::Report(query) => again_and_again(context, &query).unwrap_or_else(|code| code),
    }
}

/// Exit code of a report that failed; the reason has been printed.
type FailureCode = u8;

fn again_and_again(context: &Context, query: &Query) -> Result<u8, FailureCode> {
    let chosen = JobSelection::new(context, query)?;
    loop {
        let code = once(context, query, &chosen)?;
        let Some(seconds) = query.iterate else {
            return Ok(code);
        };
        output::print("\n");
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

fn once(context: &Context, query: &Query, chosen: &JobSelection) -> Result<u8, FailureCode> {
    let now = times::now();
    let plain = query.spelling.is_none();
    if plain && query.verbose > 0 {
        output::print(&query.told());
    }
    let dated = query.long && !query.bare;
    if plain && (dated || query.iterate.is_some() || query.verbose > 0) {
        output::print(&format!("{}\n", cosy_slurm::times::heading(&now)));
    }
    let look = reports::value_style(&now, query.raw_sizes);
    match (query.spelling, &query.steps) {
        (Some(spelling), _) => {
            let table = fetch(context, chosen, tree::needs())?;
            let needed = NeededFacts {
                memory: true,
                reservations: true,
                groups: true,
                cluster: true,
            };
            let around = reports::cluster_facts(context, needed, &table);
            let rows = chosen.rows(&table, &around);
            let list = rows.iter().map(tree::of_job);
            json_yaml::answer(spelling, reports::release(), "jobs", list, output::print);
            Ok(exit::OK)
        }
        (None, Some(which)) => listed_steps(context, query, chosen, which, &look),
        (None, None) => listed_jobs(context, query, chosen, &look),
    }
}

fn listed_jobs(
    context: &Context,
    query: &Query,
    chosen: &JobSelection,
    look: &ValueStyle,
) -> Result<u8, FailureCode> {
    let layout = report::layout(query);
    let sort = order::read(query.sort.as_deref().unwrap_or(order::USUAL));
    let keys = sort.as_deref().unwrap_or_default();
    let shown = || layout.columns.iter().map(|c| c.field);
    let sorted = keys.iter().map(|k| k.field);
    let each = query.priority.then_some(Field::Partition);
    let needs = chosen.needs(cells::needs(shown().chain(sorted).chain(each)));
    let table = fetch(context, chosen, needs)?;
    for complaint in report::complaints(&layout) {
        error(context, &complaint);
    }
    if !query.bare {
        output::print(&report::heading(&layout));
    }
    if let Err(rest) = &sort {
        error(context, &format!("Invalid sort specification: {rest}"));
        return Err(exit::FAILED);
    }
    let mut needed = needed_facts(shown());
    needed.reservations |= chosen.reservation.is_some();
    let around = reports::cluster_facts(context, needed, &table);
    let mut rows = chosen.rows(&table, &around);
    if query.priority {
        rows = in_each_partition(context, rows);
    }
    order::sort(&mut rows, keys);
    if query.array {
        // After sorting, as there: tasks of one array stay together.
        rows = rows.into_iter().flat_map(JobView::tasks).collect();
    }
    output::print(&report::lines(&layout, &rows, look));
    Ok(exit::OK)
}

/// Waiting jobs as one row for each partition that they may go to.
fn in_each_partition<'t>(context: &Context, rows: Vec<JobView<'t>>) -> Vec<JobView<'t>> {
    let queues = match context.ask(Request::Queues) {
        Ok(Reply::Queues(queues)) => queues,
        Ok(_) | Err(_) => return rows,
    };
    let priority = |name: &str| {
        let found = queues.iter().find(|q| q.spec.name == name);
        found.map_or(0, |q| i64::from(q.spec.priority))
    };
    let rows = rows.into_iter();
    rows.flat_map(|job| job.in_each_partition(priority))
        .collect()
}

/// The facts of the cluster that these columns show.
fn needed_facts(fields: impl Iterator<Item = Field>) -> NeededFacts {
    let mut needed = NeededFacts::default();
    for field in fields {
        needed.memory |= matches!(field, Field::MinMemory | Field::TresAlloc);
        needed.reservations |= field == Field::Reservation;
        needed.groups |= field == Field::GroupName;
        needed.cluster |= field == Field::Cluster;
    }
    needed
}

/// The jobs that are listed: the filter for the controller, and conditions that are checked here.
struct JobSelection {
    filter: JobFilter,
    /// Jobs and components of heterogeneous jobs that the command line names.
    components: Vec<(i64, Option<i64>)>,
    /// The job on the command line when it names exactly one, which must exist.
    only: Option<String>,
    states: States,
    qos: Vec<String>,
    licenses: Vec<String>,
    reservation: Option<String>,
}

impl JobSelection {
    fn new(context: &Context, query: &Query) -> Result<Self, FailureCode> {
        for cluster in &query.clusters {
            if !names::is_this_cluster(context, cluster) {
                return Err(exit::FAILED);
            }
        }
        let states = match query.spelling {
            // As captured: JSON and YAML tell all that is remembered.
            Some(_) if query.states.is_none() => Ok(States::All),
            Some(_) | None => States::read(query.states.as_deref()),
        };
        let states = states.map_err(|word| {
            for line in States::complaint(&word) {
                error(context, &line);
            }
            exit::FAILED
        })?;
        let (ids, components) = ids(context, &query.jobs)?;
        let nodes = match &query.nodes {
            Some(text) => nodes(context, text)?,
            None => Vec::new(),
        };
        let only = query.jobs.first().filter(|text| !text.contains(','));
        Ok(Self {
            filter: JobFilter {
                ids,
                users: users_of(context, query),
                queues: query.partitions.clone(),
                names: query.names.clone(),
                accounts: accounts::spellings(&query.accounts),
                states: native_states(&states),
                nodes,
                ..JobFilter::default()
            },
            components,
            only: only.cloned(),
            states,
            qos: query.qos.clone(),
            licenses: query.licenses.clone(),
            reservation: query.reservation.clone(),
        })
    }

    /// Adds the fields by which jobs are chosen here.
    fn needs(&self, mut fields: Vec<JobField>) -> Vec<JobField> {
        let mut add = |field, used: bool| {
            if used && !fields.contains(&field) {
                fields.push(field);
            }
        };
        add(JobField::State, true);
        add(JobField::Reason, true); // SPECIAL_EXIT is told by it
        add(JobField::Queue, !self.filter.queues.is_empty());
        add(JobField::Name, !self.filter.names.is_empty());
        add(JobField::Qos, !self.qos.is_empty());
        add(JobField::Licenses, !self.licenses.is_empty());
        add(JobField::Reservation, self.reservation.is_some());
        fields
    }

    fn rows<'t>(&self, table: &'t Table, around: &'t ClusterFacts) -> Vec<JobView<'t>> {
        let all = (0..table.rows).map(|row| JobView::new(table, row, around));
        all.filter(|job| self.contains(job)).collect()
    }

    fn contains(&self, job: &JobView<'_>) -> bool {
        let is_in = |list: &[String], name: &str| list.iter().any(|known| known == name);
        let mut licenses = counted::read(job.text(JobField::Licenses));
        let reservation = || job.number(JobField::Reservation);
        let reserved = self.reservation.as_ref().is_none_or(|name| {
            reservation().is_some_and(|id| {
                id.to_string() == *name || job.around().reservations.get(&id) == Some(name)
            })
        });
        self.states.contain(job.state())
            && job
                .het()
                .is_none_or(|het| self.contains_component(job, het))
            && (self.qos.is_empty() || is_in(&self.qos, job.text(JobField::Qos)))
            && (self.licenses.is_empty() || licenses.any(|(name, _)| is_in(&self.licenses, name)))
            && reserved
    }
}

impl JobSelection {
    /// Checks for one component the conditions that the controller has checked for the whole
    /// heterogeneous job.
    fn contains_component(&self, job: &JobView<'_>, het: Het) -> bool {
        let within = |list: &[String], field| {
            list.is_empty() || list.iter().any(|known| known == job.text(field))
        };
        let named = |(id, component): &(i64, Option<i64>)| het.is_named(*id, *component);
        (self.components.is_empty() || self.components.iter().any(named))
            && within(&self.filter.queues, JobField::Queue)
            && within(&self.filter.names, JobField::Name)
    }
}

/// Cosy's states that may be shown; empty for all.
fn native_states(states: &States) -> Vec<JobState> {
    match states {
        States::All => Vec::new(),
        States::Live | States::These(_) => {
            let shown = |s: &JobState| {
                let special = *s == JobState::Waiting && states.contain(SlurmState::SpecialExit);
                special || states.contain((*s).into())
            };
            JobState::ALL.into_iter().filter(shown).collect()
        }
    }
}

/// The jobs that are named, and which components of them where they have several.
#[allow(clippy::type_complexity)] // of two lists
fn ids(
    context: &Context,
    words: &[String],
) -> Result<(Vec<JobRef>, Vec<(i64, Option<i64>)>), FailureCode> {
    let (mut all, mut components) = (Vec::new(), Vec::new());
    for text in words {
        let bad = || {
            error(context, &format!("Invalid job id: {text}"));
            exit::FAILED
        };
        for word in targets::words(text) {
            let (job, component) = match word.split_once('+') {
                Some((job, component)) => (job, Some(component.parse::<u32>().map_err(|_| bad())?)),
                None => (word, None),
            };
            let read = refs::jobs(job).map_err(|_| bad())?;
            let ids = read.iter().filter_map(|id| i64::try_from(id.job.0).ok());
            components.extend(ids.map(|id| (id, component.map(i64::from))));
            all.extend(read);
        }
    }
    Ok((all, components))
}

/// Users by number, as the controller takes them; prints a line for each name without a user.
fn users_of(context: &Context, query: &Query) -> Vec<String> {
    let mut all = query.users.clone();
    if query.me {
        all = vec![rustix::process::getuid().as_raw().to_string()];
    }
    for user in all.iter().filter(|user| !users::exists(user)) {
        error(context, &format!("Invalid user: {user}\n"));
    }
    all
}

fn nodes(context: &Context, text: &str) -> Result<Vec<String>, FailureCode> {
    let bad = |name: &str| {
        error(context, &format!("Invalid node name {name}"));
        exit::FAILED
    };
    let names = hostlist::expand(text).map_err(|_| bad(text))?;
    let known = match context.ask(Request::Nodes) {
        Ok(Reply::Nodes(known)) => known,
        Ok(_) => return Err(reports::failed("slurm_load_node", &CallError::Unexpected)),
        Err(e) => return Err(reports::failed("slurm_load_node", &e)),
    };
    match names.iter().find(|n| !known.iter().any(|k| k.name == **n)) {
        Some(name) => Err(bad(name)),
        None => Ok(names),
    }
}

fn fetch(
    context: &Context,
    chosen: &JobSelection,
    fields: Vec<JobField>,
) -> Result<Table, FailureCode> {
    let single = chosen.filter.ids.iter().any(|id| id.task.is_some());
    let request = Request::Jobs {
        filter: chosen.filter.clone(),
        fields,
        fold_arrays: !single,
    };
    let failed = |e: CallError| reports::failed("slurm_load_jobs", &e);
    let table = reports::table(context, request).map_err(failed)?;
    if table.rows == 0 && chosen.only.is_some() && !is_known(context, chosen).map_err(failed)? {
        say(&format!("slurm_load_jobs error: {}", cosy_slurm::sentences::NO_JOB));
        return Err(exit::FAILED);
    }
    Ok(table)
}

/// Whether the one job on the command line exists.
fn is_known(context: &Context, chosen: &JobSelection) -> Result<bool, CallError> {
    let request = Request::Jobs {
        filter: JobFilter {
            ids: chosen.filter.ids.clone(),
            ..JobFilter::default()
        },
        fields: vec![JobField::Id],
        fold_arrays: false,
    };
    Ok(reports::table(context, request)?.rows > 0)
}

fn listed_steps(
    context: &Context,
    query: &Query,
    chosen: &JobSelection,
    which: &[String],
    look: &ValueStyle,
) -> Result<u8, FailureCode> {
    if let Some(word) = which.iter().find(|word| !step_report::is_step(word)) {
        error(context, &format!("Invalid job_step id: {word}.??"));
        return Err(exit::FAILED);
    }
    let layout = step_report::layout(query);
    let steps = running_steps(context, chosen, which)?;
    for complaint in report::complaints(&layout) {
        error(context, &complaint);
    }
    if !query.bare {
        output::print(&step_report::heading(&layout));
    }
    let cluster = reports::cluster(context);
    output::print(&step_report::lines(&layout, &steps, look, &cluster));
    Ok(exit::OK)
}

/// The steps of jobs that run: the script, and what its node tells of others.
fn running_steps(
    context: &Context,
    chosen: &JobSelection,
    which: &[String],
) -> Result<Vec<RunningStep>, FailureCode> {
    let table = fetch(context, chosen, step::NEEDED_FIELDS.to_vec())?;
    let around = ClusterFacts::default();
    let jobs = (0..table.rows).map(|row| JobView::new(&table, row, &around));
    let mut all: Vec<RunningStep> = jobs
        .flat_map(|job| RunningStep::of_job(&job, |id| steps::running(context, id)))
        .collect();
    let named = |s: &RunningStep| {
        let id = step_report::id(s);
        which.is_empty() || which.iter().any(|w| *w == id || *w == s.job.to_string())
    };
    all.retain(named);
    Ok(all)
}
