//! Jobs: what a user asks for, what becomes of it, and how it ends.

mod array;
mod device_use;
mod end;
mod request;
mod requeue;
mod switches;
mod task_indices;

pub use array::{ArrayError, ArraySpec};
pub use device_use::DeviceUse;
pub use end::{End, EndCause, JobState, KillCause, KillOrder};
pub use request::{
    AskedAmounts, CountedFeatures, FurtherComponent, MemoryRequest, ResourceRequest,
};
pub use requeue::{FailedNode, Losses, RequeueTerms};
pub use switches::SwitchRequest;
pub use task_indices::TaskIndices;

use crate::{JobId, OsText, Span, Time};
use serde::{Deserialize, Serialize};

/// What a job runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A script. Its text travels beside the spec and is kept with the job's record.
    Script {
        /// File name as submitted; the job's name unless one is given.
        name: OsText,
        /// Arguments after the script.
        args: Vec<OsText>,
    },
    /// A command with arguments, executed without any shell.
    Command {
        /// Program, looked up in the job's `PATH`, and arguments.
        argv: Vec<OsText>,
    },
    /// Nothing: an allocation in which its owner starts steps until it is given back.
    Allocation,
}

/// One component of a job, whichever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Component<'a> {
    /// What it is called in lists.
    pub name: &'a str,
    /// The queue that was asked for; the default queue without.
    pub queue: Option<&'a str>,
    /// Resources and places.
    pub request: &'a ResourceRequest,
}

/// Which end of another job a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// It has started (or was cancelled before).
    After,
    /// The other job has ended, however it did.
    AfterAny,
    /// It has ended with exit code 0.
    AfterOk,
    /// The other job has ended, and not with exit code 0.
    AfterNotOk,
    /// No earlier job of the same user and name is left.
    Singleton,
    /// Of an array: its task of the same index has ended with exit code 0.
    AfterCorr,
}

/// One condition that must hold before a job may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct Dependency {
    /// What must have happened to the other job.
    pub kind: DependencyKind,
    /// To which job or, for the first id of an array, to all of its tasks. Not used by
    /// [`DependencyKind::Singleton`].
    pub job: JobId,
    /// Only this task of the array.
    #[serde(default)]
    pub task: Option<u32>,
    /// [`DependencyKind::After`]: so long after its start.
    #[serde(default)]
    pub delay: Span,
}

/// In which words a job is spoken to: variables, messages in its output, default names of
/// its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Cosy's own words, for jobs of its own commands.
    #[default]
    Cosy,
    /// Slurm's words, for jobs submitted by its commands.
    Slurm,
}

impl Dialect {
    /// The word for it in the job's record, in lower case.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cosy => "cosy",
            Self::Slurm => "slurm",
        }
    }
}

/// A signal to send some time before the time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct WarnSignal {
    /// Number of the signal, as in signal(7).
    pub signal: i32,
    /// How long before the limit.
    pub before: Span,
    /// Only to the script itself, not to what it started.
    #[serde(default)]
    pub script_only: bool,
}

/// How output files are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// Emptied first; a requeued attempt appends.
    #[default]
    Truncate,
    /// What is written is added to what the file has.
    Append,
}

/// Which changes of a job the user wants mail about.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
pub struct MailRequest {
    /// When the job starts.
    pub begin: bool,
    /// At any end.
    pub end: bool,
    /// At an end that is not success.
    pub fail: bool,
    /// When it is requeued.
    pub requeue: bool,
    /// When so many hundredths of its time limit are over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limit_shares: Vec<u8>,
    /// To whom; the submitting user when empty.
    #[serde(default)]
    pub to: String,
}

/// Resource limits of a process, as [`JobSpec::rlimits`] has them: jobs of one user share them.
pub type Rlimits = std::sync::Arc<[(String, u64, u64)]>;

/// A job as its user asked for it, and in [`Self::losses`] what the controller notes of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct JobSpec {
    /// Name for lists and mail.
    pub name: String,
    /// Queue; the default queue without.
    #[serde(default)]
    pub queue: Option<String>,
    /// Queues that it may go to while it waits, the present one among them; it stays where it
    /// is without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Account to charge; recorded.
    #[serde(default)]
    pub account: Option<String>,
    /// Runs inside this reservation.
    #[serde(default)]
    pub reservation: Option<crate::ReservationId>,
    /// Remark of its owner, at most [`limits::COMMENT_BYTES`](crate::limits::COMMENT_BYTES).
    #[serde(default)]
    pub comment: String,
    /// Any text of an administrator's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub admin_comment: String,
    /// What to run.
    pub program: Program,
    /// Resources and places of the first component, which is the only one of most jobs.
    pub request: ResourceRequest,
    /// The components behind the first; [`Self::components`] tells all.
    #[serde(default, rename = "bundles", skip_serializing_if = "Vec::is_empty")]
    pub further_components: Vec<FurtherComponent>,
    /// Longest run time; the queue's default without.
    #[serde(default)]
    pub time_limit: Option<Span>,
    /// The job does not start before this time.
    #[serde(default)]
    pub begin: Option<Time>,
    /// Wait until released.
    #[serde(default)]
    pub hold: bool,
    /// Higher lets others go first, within queue and level.
    #[serde(default)]
    pub nice: i64,
    /// Points that the site adds to its priority in queues with weighted factors; given by administrators.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub site_factor: i64,
    /// All must hold before the start.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
    /// Run again after a node was lost.
    #[serde(default)]
    pub requeue: bool,
    /// Working directory: an absolute path on the nodes.
    pub workdir: OsText,
    /// Pattern of the output file; the default pattern without.
    #[serde(default)]
    pub stdout: Option<OsText>,
    /// Pattern of the error file; to the output file without.
    #[serde(default)]
    pub stderr: Option<OsText>,
    /// Pattern of the input file; `/dev/null` without.
    #[serde(default)]
    pub stdin: Option<OsText>,
    /// How output files are opened.
    #[serde(default)]
    pub open_mode: OpenMode,
    /// Variables, `NAME=value` separated by NUL.
    pub environment: OsText,
    /// Start from the user's login environment, `environment` on top of it.
    #[serde(default)]
    pub login_environment: bool,
    /// File mode mask.
    pub umask: u32,
    /// Resource limits of the submitting process: name as in `ulimit` of the kernel
    /// (`NOFILE`), soft, hard; `u64::MAX` is unlimited.
    #[serde(default)]
    pub rlimits: Rlimits,
    /// Signal before the time limit.
    #[serde(default)]
    pub warn: Option<WarnSignal>,
    /// The command that asked for it stays with it (`calloc`, `cosy run`): when that is
    /// gone, the job ends. COSY, section 3.1: interactive.
    #[serde(default)]
    pub attended: bool,
    /// MPI plugin; found out without.
    #[serde(default)]
    pub mpi: Option<String>,
    /// Events that mail is sent about, and to whom.
    #[serde(default)]
    pub mail: MailRequest,
    /// In which words it is spoken to.
    #[serde(default)]
    pub dialect: Dialect,
    /// Quality of service; recorded.
    #[serde(default)]
    pub qos: Option<String>,
    /// Key under which it is counted; recorded.
    #[serde(default)]
    pub wckey: Option<String>,
    /// Host that it was submitted from; recorded.
    #[serde(default)]
    pub submit_host: Option<String>,
    /// Session that it was submitted in; recorded.
    #[serde(default)]
    pub submit_session: Option<u32>,
    /// Command line that it was submitted with, words with blanks between; recorded.
    #[serde(default)]
    pub submit_line: String,
    /// Licences that it holds while it runs, counted over the whole cluster.
    #[serde(default)]
    pub licenses: crate::CountedResources,
    /// The job is ended when it cannot be over by then.
    #[serde(default)]
    pub deadline: Option<Time>,
    /// Shortest useful time limit; recorded.
    #[serde(default)]
    pub time_min: Option<Span>,
    /// One of `dependencies` is enough.
    #[serde(default)]
    pub any_dependency: bool,
    /// Whether it is ended when what it waits for can no longer happen; as the cluster is
    /// configured without.
    #[serde(default)]
    pub end_if_never: Option<bool>,
    /// Given by an administrator in the place of [`JobField::Priority`](crate::api::JobField)'s
    /// own number; higher goes first, within queue and level.
    #[serde(default)]
    pub priority: Option<u32>,
    /// Container in which its program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<crate::Container>>,
    /// How it is run again after a node was lost.
    #[serde(default, skip_serializing_if = "RequeueTerms::is_plain")]
    pub requeue_terms: RequeueTerms,
    /// So many of its nodes, the last ones, serve only once others of it are lost.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub spares: u32,
    /// It goes on with the nodes that are left when one that is not its first is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_kill: bool,
    /// Its attempts that were lost with nodes. Noted by the controller; of who submits it is
    /// not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses: Option<Box<Losses>>,
}

const fn is_none_of(count: &u32) -> bool {
    *count == 0
}

const fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl JobSpec {
    /// Nodes that it was lost with and does not go to yet, in the order of the losses.
    pub fn failed_nodes(&self) -> impl Iterator<Item = &str> {
        let nodes = self.losses.iter().flat_map(|losses| &losses.nodes);
        nodes.map(|node| &*node.name)
    }

    /// Whether it may be lost with nodes once more and run again: as often as its owner says.
    pub fn may_be_lost(&self) -> bool {
        let most = self.requeue_terms.most;
        most.is_none_or(|most| self.times_lost() < most)
    }

    /// How often it was lost with nodes after its program had begun.
    pub fn times_lost(&self) -> u32 {
        self.losses.as_ref().map_or(0, |losses| losses.count)
    }

    /// A job that asks for nothing beyond what is necessary, with one task.
    pub fn plain(name: impl Into<String>, program: Program, workdir: OsText) -> Self {
        Self {
            name: name.into(),
            queue: None,
            queues: Vec::new(),
            account: None,
            reservation: None,
            comment: String::new(),
            admin_comment: String::new(),
            program,
            request: ResourceRequest::default(),
            further_components: Vec::new(),
            time_limit: None,
            begin: None,
            hold: false,
            nice: 0,
            site_factor: 0,
            dependencies: Vec::new(),
            requeue: false,
            workdir,
            stdout: None,
            stderr: None,
            stdin: None,
            open_mode: OpenMode::default(),
            environment: OsText::default(),
            login_environment: false,
            umask: 0o22,
            rlimits: Rlimits::default(),
            warn: None,
            attended: false,
            mpi: None,
            mail: MailRequest::default(),
            dialect: Dialect::default(),
            qos: None,
            wckey: None,
            submit_host: None,
            submit_session: None,
            submit_line: String::new(),
            licenses: crate::CountedResources::default(),
            deadline: None,
            time_min: None,
            any_dependency: false,
            end_if_never: None,
            priority: None,
            container: None,
            requeue_terms: RequeueTerms::default(),
            spares: 0,
            no_kill: false,
            losses: None,
        }
    }

    /// All components, in the order in which they were asked for.
    pub fn components(&self) -> impl Iterator<Item = Component<'_>> + Clone {
        let first = Component {
            name: &self.name,
            queue: self.queue.as_deref(),
            request: &self.request,
        };
        let further = |own| self.further(own);
        std::iter::once(first).chain(self.further_components.iter().map(further))
    }

    /// What all components ask for, in their order.
    pub fn requests_mut(&mut self) -> impl Iterator<Item = &mut ResourceRequest> {
        let further = self.further_components.iter_mut();
        std::iter::once(&mut self.request).chain(further.map(|own| &mut own.request))
    }

    /// A component by its number, which counts from 0.
    pub fn component(&self, number: u16) -> Option<Component<'_>> {
        self.components().nth(number.into())
    }

    /// The number of components, at least 1.
    pub fn component_count(&self) -> usize {
        1 + self.further_components.len()
    }

    /// Whether it has more than one component (a heterogeneous job).
    pub fn has_several_components(&self) -> bool {
        !self.further_components.is_empty()
    }

    fn further<'a>(&'a self, own: &'a FurtherComponent) -> Component<'a> {
        Component {
            name: own.name.as_ref().unwrap_or(&self.name),
            queue: own.queue.as_deref(),
            request: &own.request,
        }
    }
}

/// Whether a name can be that of an MPI plugin, which is the name of a directory.
///
/// # Errors
/// Why not.
pub fn check_plugin(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let good = name.len() <= crate::limits::NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(fine);
    if good {
        return Ok(());
    }
    let short: String = name.chars().take(60).collect();
    Err(format!(
        "'{short}' is no MPI plugin: a name has letters, digits, '-', '_', '.' and '+', and starts with a letter or digit"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins() {
        let check = |name: &str, good: bool| {
            assert_eq!(check_plugin(name).is_ok(), good, "{name}");
        };
        check("openmpi", true);
        check("mpich-4.0", true);
        check("", false);
        check(".", false);
        check("../x", false);
        check("a/b", false);
        check("a b", false);
        check("a\nb", false);
    }
}
