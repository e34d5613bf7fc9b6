//! What the user asks of a job before it is made into a request: `csub`, `calloc`, `cresv` and
//! `cosy run` read it from their command lines, `srun` from its own.

use cosy_model::device::GpuRequest;
use cosy_model::job::{MailRequest, MemoryRequest, OpenMode, WarnSignal};
use cosy_model::{ArraySpec, Dependency, MiB, OsText, ReservationId, Span};
use std::ffi::OsString;

/// How much of the caller's environment the job gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnvItem {
    /// All of it.
    All,
    /// Nothing of it.
    None,
    /// This variable as it is.
    Keep(String),
    /// This variable with this value.
    Set(String, String),
}

/// What was asked for; `None` or empty where nothing was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// `--queue`.
    pub queue: Option<String>,
    /// `--nodes`.
    pub nodes: Option<u32>,
    /// `--tasks`.
    pub tasks: Option<u32>,
    /// `--tasks-per-node`.
    pub tasks_per_node: Option<u32>,
    /// `--cores-per-task`.
    pub cores_per_task: Option<u32>,
    /// `--mem` or `--mem-per-core`.
    pub memory: Option<MemoryRequest>,
    /// `--disk`.
    pub disk: Option<MiB>,
    /// `--gpus`.
    pub gpus: Option<GpuRequest>,
    /// `--other`.
    pub other: Vec<(String, u32)>,
    /// `--time`.
    pub time: Option<Span>,
    /// `--name`.
    pub name: Option<String>,
    /// `--output`.
    pub output: Option<OsText>,
    /// `--error`.
    pub error: Option<OsText>,
    /// `--input`.
    pub input: Option<OsText>,
    /// `--open-mode`.
    pub open_mode: Option<OpenMode>,
    /// `--chdir`.
    pub chdir: Option<OsString>,
    /// `--env`.
    pub env: Vec<EnvItem>,
    /// `--login`.
    pub login: bool,
    /// `--prefer`.
    pub prefer: Vec<String>,
    /// `--avoid`.
    pub avoid: Vec<String>,
    /// `--require`.
    pub require: Vec<String>,
    /// `--sets`.
    pub sets: Vec<String>,
    /// `--features`.
    pub features: Vec<String>,
    /// `--begin`, read later because it needs the user's zone.
    pub begin: Option<String>,
    /// `--hold`.
    pub hold: bool,
    /// `--nice`.
    pub nice: Option<i64>,
    /// `--depend`.
    pub depend: Vec<Dependency>,
    /// `--array`.
    pub array: Option<ArraySpec>,
    /// `--requeue` or `--no-requeue`.
    pub requeue: Option<bool>,
    /// `--exclusive`.
    pub exclusive: bool,
    /// `--account`.
    pub account: Option<String>,
    /// `--reservation`.
    pub reservation: Option<ReservationId>,
    /// `--comment`.
    pub comment: Option<String>,
    /// `--mpi`.
    pub mpi: Option<String>,
    /// `--signal`.
    pub signal: Option<WarnSignal>,
    /// `--mail-type`.
    pub mail_type: Option<MailRequest>,
    /// `--mail-user`.
    pub mail_user: Option<String>,
    /// `--wait`.
    pub wait: bool,
    /// `--json`.
    pub json: bool,
    /// `--quiet`.
    pub quiet: bool,
    /// `--parsable`.
    pub parsable: bool,
}

impl Options {
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
