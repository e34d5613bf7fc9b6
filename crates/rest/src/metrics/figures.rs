//! What metrics are made of: facts as the controller tells them, and jobs counted page by page.

use cosy_model::api::{
    BudgetRow, ControllerRow, JobField as F, MeterRow, NodeInfo, QueueInfo, Table,
};
use cosy_model::policy::AssociationInfo;
use cosy_model::reservation::{AccountInfo, ReservationInfo};
use cosy_model::{ArraySpec, JobState, MiB, Settings, Time};
use cosy_view::words::row_name;
use std::collections::BTreeMap;

/// The fields of jobs that are counted.
pub const FIELDS: &[F] = &[
    F::Ref,
    F::State,
    F::Reason,
    F::Queue,
    F::User,
    F::Account,
    F::Priority,
    F::Cores,
    F::Gpus,
    F::NodeCount,
    F::MemoryPerNode,
    F::MinNodes,
    F::MaxNodes,
    F::Eligible,
    F::Start,
];

/// Everything that is known when a text is made.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// When it was asked for.
    pub now: Time,
    /// The cluster's name, version, licences.
    pub settings: Settings,
    /// All nodes.
    pub nodes: Vec<NodeInfo>,
    /// All queues.
    pub queues: Vec<QueueInfo>,
    /// Jobs that wait, run, or ended moments ago.
    pub jobs: Jobs,
    /// How long what happens holds the controller up.
    pub meter: Vec<MeterRow>,
    /// What is counted against limits.
    pub budgets: Vec<BudgetRow>,
    /// Reservations, ended ones too.
    pub reservations: Vec<ReservationInfo>,
    /// Accounts with budgets.
    pub accounts: Vec<AccountInfo>,
    /// All controllers, where there are several.
    pub controllers: Vec<ControllerRow>,
    /// Accounts and users with what they have used.
    pub associations: Vec<AssociationInfo>,
}

/// Jobs of one kind, counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// By state, in the order of [`JobState::ALL`].
    states: [u64; JobState::ALL.len()],
    /// That are held.
    pub held: u64,
    /// That wait because their queue allows no more nodes at once.
    pub node_limit: u64,
    /// Cores, GPUs and nodes that jobs hold.
    pub cores: u64,
    /// See [`Counts::cores`].
    pub gpus: u64,
    /// See [`Counts::cores`].
    pub nodes: u64,
    /// Memory that jobs hold.
    pub memory: MiB,
    /// Cores that waiting jobs ask for.
    pub waiting_cores: u64,
    /// Most nodes that a waiting job may get, and most that one needs.
    pub largest: [u64; 2],
    /// The same without held ones.
    pub largest_free: [u64; 2],
    /// Since when the one that waits longest could have started.
    pub oldest: Option<Time>,
}

impl Counts {
    /// Jobs in one of those states.
    pub fn of(&self, states: &[JobState]) -> u64 {
        let all = JobState::ALL.iter().zip(&self.states);
        all.filter(|(state, _)| states.contains(state))
            .map(|(_, n)| n)
            .sum()
    }

    /// All jobs.
    pub fn all(&self) -> u64 {
        self.states.iter().sum()
    }

    /// Jobs that are over.
    pub fn over(&self) -> u64 {
        let all = JobState::ALL.iter().zip(&self.states);
        all.filter(|(state, _)| state.is_end())
            .map(|(_, n)| n)
            .sum()
    }

    fn add(&mut self, job: &Job) {
        if let Some(at) = JobState::ALL.iter().position(|state| *state == job.state) {
            self.states[at] = self.states[at].saturating_add(job.count);
        }
        match job.state {
            JobState::Waiting => self.wait(job),
            JobState::Starting | JobState::Running | JobState::Suspended | JobState::Completing => {
                self.cores += job.cores;
                self.gpus += job.gpus;
                self.nodes += job.nodes;
                self.memory.0 = self
                    .memory
                    .0
                    .saturating_add(job.memory.saturating_mul(job.nodes));
            }
            _ => {}
        }
    }

    fn wait(&mut self, job: &Job) {
        self.waiting_cores = self
            .waiting_cores
            .saturating_add(job.cores.saturating_mul(job.count));
        self.node_limit += if job.node_limit { job.count } else { 0 };
        let sizes = [job.most_nodes.max(job.nodes), job.nodes];
        let grow = |largest: &mut [u64; 2]| {
            for (own, size) in largest.iter_mut().zip(sizes) {
                *own = size.max(*own);
            }
        };
        grow(&mut self.largest);
        if job.held {
            self.held += job.count;
            return;
        }
        grow(&mut self.largest_free);
        self.oldest = match (self.oldest, job.eligible) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
    }
}

/// One row of a list of jobs.
struct Job {
    count: u64,
    state: JobState,
    held: bool,
    node_limit: bool,
    cores: u64,
    gpus: u64,
    nodes: u64,
    most_nodes: u64,
    memory: u64,
    eligible: Option<Time>,
}

impl Job {
    fn of(table: &Table, row: usize) -> Self {
        let number = |field| table.number(row, field).and_then(|n| u64::try_from(n).ok());
        let count = |field| number(field).unwrap_or(0);
        let tasks = row_name::tasks(table.text(row, F::Ref));
        let tasks = tasks.and_then(|tasks| tasks.indices.parse::<ArraySpec>().ok());
        let nodes = number(F::MinNodes).or_else(|| number(F::NodeCount));
        let state = table
            .text(row, F::State)
            .parse()
            .unwrap_or(JobState::Waiting);
        Self {
            count: tasks.map_or(1, |spec| spec.count()),
            state,
            held: number(F::Priority) == Some(0),
            node_limit: table.text(row, F::Reason) == cosy_model::WaitReason::QueueNodeLimit.word(),
            cores: count(F::Cores),
            gpus: count(F::Gpus),
            nodes: match state {
                JobState::Waiting => nodes.unwrap_or(1).max(1),
                _ => count(F::NodeCount),
            },
            most_nodes: count(F::MaxNodes),
            memory: count(F::MemoryPerNode),
            eligible: table.number(row, F::Eligible).map(Time),
        }
    }
}

/// Jobs counted by what they are told apart by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Jobs {
    /// All of them.
    pub all: Counts,
    /// By queue.
    pub queues: BTreeMap<String, Counts>,
    /// By user.
    pub users: BTreeMap<String, Counts>,
    /// By account.
    pub accounts: BTreeMap<String, Counts>,
    /// Waiting ones by reason, in Cosy's words.
    pub reasons: BTreeMap<String, Counts>,
}

impl Jobs {
    /// Adds a page of a list with [`FIELDS`].
    pub fn add(&mut self, table: &Table) {
        for row in 0..table.rows {
            let job = Job::of(table, row);
            self.all.add(&job);
            for (map, field) in [
                (&mut self.queues, F::Queue),
                (&mut self.users, F::User),
                (&mut self.accounts, F::Account),
            ] {
                entry(map, table.text(row, field)).add(&job);
            }
            if job.state == JobState::Waiting {
                entry(&mut self.reasons, table.text(row, F::Reason)).add(&job);
            }
        }
    }
}

/// The counts under a name; few names are new.
fn entry<'m>(map: &'m mut BTreeMap<String, Counts>, name: &str) -> &'m mut Counts {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), Counts::default());
    }
    map.entry(name.to_owned()).or_default()
}
