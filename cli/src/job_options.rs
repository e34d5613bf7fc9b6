//! What the user asks of a job before it is made into a request: `csub`, `calloc`, `cresv` and
//! `cosy run` read it from their command lines, `srun` from its own.

use cosy_model::device::GpuRequest;
use cosy_model::job::{
    MailRequest, MemoryRequest, OpenMode, RequeueTerms, SwitchRequest, WarnSignal,
};
use cosy_model::{
    ArraySpec, ContainerOptions, CountedResources, Dependency, MiB, OsText, ReservationId, Span,
};
use std::ffi::OsString;

/// How much of the caller's environment the job gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnvItem {
    /// The whole environment.
    All,
    /// No variable of the environment.
    None,
    /// This variable as it is.
    Keep(String),
    /// This variable with this value.
    Set(String, String),
}

/// What was asked for; `None` or empty where nothing was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobOptions {
    /// `--queue`: name of the queue.
    pub queue: Option<String>,
    /// `--nodes`: number of nodes.
    pub nodes: Option<u32>,
    /// `--tasks`: number of tasks in all.
    pub tasks: Option<u32>,
    /// `--tasks-per-node`: number of tasks on each node.
    pub tasks_per_node: Option<u32>,
    /// `--cores-per-task`: cores of each task.
    pub cores_per_task: Option<u32>,
    /// `--mem` or `--mem-per-core`.
    pub memory: Option<MemoryRequest>,
    /// `--disk`: scratch disk on each node.
    pub disk: Option<MiB>,
    /// `--gpus`: GPUs on each node.
    pub gpus: Option<GpuRequest>,
    /// `--other`: other resources on each node, with their amounts.
    pub other: Vec<(String, u32)>,
    /// `--licenses`: licences, counted over the cluster.
    pub licenses: Option<CountedResources>,
    /// `--time`: time limit.
    pub time: Option<Span>,
    /// `--name`: the job's name.
    pub name: Option<String>,
    /// `--output`: file for standard output, with `%` patterns.
    pub output: Option<OsText>,
    /// `--error`: file for standard error, with `%` patterns.
    pub error: Option<OsText>,
    /// `--input`: file for standard input, with `%` patterns.
    pub input: Option<OsText>,
    /// `--open-mode`: whether files are emptied or appended to.
    pub open_mode: Option<OpenMode>,
    /// `--chdir`: working directory, seen from the present one.
    pub chdir: Option<OsString>,
    /// `--env`: what the job gets of the environment, in order.
    pub env: Vec<EnvItem>,
    /// `--login`: begins with the user's login environment.
    pub login: bool,
    /// `--prefer`: nodes to take first.
    pub prefer: Vec<String>,
    /// `--avoid`: nodes not to take.
    pub avoid: Vec<String>,
    /// `--require`: nodes that the job must have.
    pub require: Vec<String>,
    /// `--sets`: node sets, in the order in which they are tried.
    pub sets: Vec<String>,
    /// `--switches`: no more than so many, for a while.
    pub switches: Option<SwitchRequest>,
    /// `--segment`: in groups of so many, each on one switch.
    pub segment: Option<u32>,
    /// `--contiguous`: nodes side by side.
    pub contiguous: bool,
    /// `--features`: features that each node must have.
    pub features: Vec<String>,
    /// `--begin`, read later because it needs the user's zone.
    pub begin: Option<String>,
    /// `--hold`: held until somebody releases it.
    pub hold: bool,
    /// `--nice`: higher lets others go first.
    pub nice: Option<i64>,
    /// `--depend`: conditions on other jobs, all of which must hold.
    pub depend: Vec<Dependency>,
    /// `--array`: indices of the tasks of an array.
    pub array: Option<ArraySpec>,
    /// `--requeue` or `--no-requeue`.
    pub requeue: Option<bool>,
    /// `--requeue=N,expedite`: how often, and how soon.
    pub requeue_terms: RequeueTerms,
    /// `--spares`: nodes beside these that take the place of lost ones.
    pub spares: u32,
    /// `--no-kill`: it goes on without a node that is lost.
    pub no_kill: bool,
    /// `--exclusive`: whole nodes, shared with nobody.
    pub exclusive: bool,
    /// `--account`: the account that pays.
    pub account: Option<String>,
    /// `--qos`: the quality of service.
    pub qos: Option<String>,
    /// `--reservation`: the reservation to run in.
    pub reservation: Option<ReservationId>,
    /// `--comment`: any text.
    pub comment: Option<String>,
    /// `--container-image` and its like: the container that the job or the step runs in.
    pub container: ContainerOptions,
    /// `--mpi`: the MPI plugin of what the job starts.
    pub mpi: Option<String>,
    /// `--signal`: a signal before the time limit, and how long before.
    pub signal: Option<WarnSignal>,
    /// `--mail-type`: the events that mail is sent about.
    pub mail_type: Option<MailRequest>,
    /// `--mail-user`: where mail goes; the user's own address without.
    pub mail_user: Option<String>,
    /// `--wait`: waits for the job's end and takes its exit code.
    pub wait: bool,
    /// `--follow`: shows what the job writes until it ends, and takes its exit code.
    pub follow: bool,
    /// `--json`: answers as JSON.
    pub json: bool,
    /// `--quiet`: says only what went wrong.
    pub quiet: bool,
    /// `--parsable`: prints the job's id alone.
    pub parsable: bool,
}

impl JobOptions {
    /// What of the caller's environment the job gets: with a login environment nothing
    /// but what is named, for the rest would lie over it.
    pub fn env_items(&self) -> Vec<EnvItem> {
        let mut items = self.env.clone();
        if self.login && !items.contains(&EnvItem::All) {
            items.push(EnvItem::None);
        }
        items
    }

    /// The mail that was asked for.
    pub fn mail(&self) -> MailRequest {
        let mut mail = self.mail_type.clone().unwrap_or_default();
        mail.to = self.mail_user.clone().unwrap_or_default();
        mail
    }
}
