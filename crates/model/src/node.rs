//! What the controller orders nodes to do and what nodes report: the words only.
//!
//! Orders may be repeated (a link broke before the answer came): a node does each
//! once, by job and attempt. Reports may be repeated too.

use crate::{
    Amounts, DeviceUse, End, Gid, JobId, MiB, OsText, Program, Span, Time, Uid, job::OpenMode,
    job::WarnSignal,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use crate::ids::{AllocationKey, AttemptKey, ProgramKey};
pub use crate::job::{KillCause, KillOrder};

/// An allocation as a node keeps it: whose, how much, until when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Allocation {
    /// Job and attempt.
    pub key: AllocationKey,
    /// Name of the node that keeps it.
    pub node: String,
    /// All nodes of the allocation, as a host list, in the order of the job.
    pub nodes: String,
    /// Owner of the job.
    pub uid: Uid,
    /// Primary group of the owner.
    pub gid: Gid,
    /// All groups of the owner.
    pub groups: Vec<Gid>,
    /// Login name of the owner.
    pub user: String,
    /// Home directory of the owner.
    pub home: String,
    /// Login shell of the owner.
    pub shell: String,
    /// Memory limit on this node; `None` is not limited.
    pub memory: Option<MiB>,
    /// Cores on this node, by number from 0.
    pub cores: Vec<u32>,
    /// GPUs on this node, by number from 0.
    pub gpus: Vec<u32>,
    /// Pieces of other resources on this node, by name and number from 0; only of those
    /// in [`NodeSelf::devices`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, Vec<u32>>,
    /// Switches of the network that the node hangs on, from the top down with dots between;
    /// empty without any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub switches: String,
    /// Tasks on this node.
    pub tasks: u32,
    /// Longest run time.
    pub limit: Span,
    /// The job's cores for each task.
    #[serde(default)]
    pub cores_per_task: u32,
    /// If it is lost, the job runs again elsewhere.
    #[serde(default)]
    pub runs_again: bool,
    /// Signal before the limit, for steps only (Slurm's `--signal` without `B:`).
    #[serde(default)]
    pub warn_steps: Option<WarnSignal>,
    /// Shares and addresses of all nodes in the order of the job: only for the job's
    /// first node, which starts its steps.
    #[serde(default)]
    pub parts: Vec<crate::step::JobPart>,
    /// Signed by the controller over job, attempt, user, groups, nodes and expiry
    /// (`cosy_proto::ticket`). No node acts without a good one.
    pub ticket: OsText,
}

impl Allocation {
    /// How many shards of GPUs it has here.
    pub fn shards(&self) -> usize {
        self.devices.get(crate::device::SHARD).map_or(0, Vec::len)
    }
}

/// A batch program to start on the first node of an allocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The allocation on this node.
    pub allocation: Allocation,
    /// What to run.
    pub program: Program,
    /// Text of the script.
    pub script: OsText,
    /// Working directory: an absolute path.
    pub workdir: OsText,
    /// Output file, expanded; relative to `workdir`.
    pub stdout: OsText,
    /// Error file, expanded; empty: where output goes.
    pub stderr: OsText,
    /// Input file, expanded; empty: `/dev/null`.
    pub stdin: OsText,
    /// How output files are opened.
    pub open_mode: OpenMode,
    /// Variables, `NAME=value` separated by NUL, complete but for those that only the
    /// node knows.
    pub environment: OsText,
    /// Start from the login environment.
    pub login_environment: bool,
    /// File mode mask.
    pub umask: u32,
    /// Resource limits: name, soft, hard.
    pub rlimits: crate::job::Rlimits,
    /// Signal before the limit.
    pub warn: Option<WarnSignal>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// In which words it is spoken to.
    #[serde(default)]
    pub dialect: crate::Dialect,
    /// Container in which the program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<crate::Container>>,
}

/// What the controller tells a node daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeOrder {
    /// The first answer to a registration: these are yours. Comes again when keys are
    /// revoked and when the controller's clock was set.
    Welcome {
        /// Name of the cluster.
        cluster: String,
        /// How often to report being alive.
        heartbeat: Span,
        /// Names that are not in the configuration and so get no jobs.
        unknown: Vec<String>,
        /// Keys of nodes, in hexadecimal, that are accepted no more: at a registration all
        /// of them, later those that were just revoked.
        #[serde(default)]
        revoked: Vec<String>,
        /// A node that has not been heard for so long ends what may run again elsewhere
        /// ([`Allocation::runs_again`]): it is given to others soon after. `None`: never.
        #[serde(default)]
        alone: Option<Span>,
        /// The date by the controller's clock: tickets are good until a date on that one. Older
        /// controllers do not say it.
        #[serde(default)]
        now: Option<Time>,
    },
    /// A numbered [`NodeReport::Figures`] has come.
    Heard {
        /// Number of the report, as the node counted it.
        number: u64,
        /// How far the store was then, signed.
        mark: OsText,
    },
    /// The controller is about to stop: until a node hears of it again, nothing is given to
    /// others.
    Leaving,
    /// Get ready for an allocation: prolog, health check. Answer: [`NodeReport::Prepared`].
    Prepare(Box<Allocation>),
    /// Start a batch program; prepares first where that was not ordered before.
    /// Answers: [`NodeReport::Started`], then [`NodeReport::Ended`].
    Launch(Box<Launch>),
    /// End an attempt: SIGTERM, grace, SIGKILL (at once when superseded).
    Kill {
        /// Job and number of the attempt.
        key: AllocationKey,
        /// On which node.
        node: String,
        /// What the end is put down to.
        cause: KillCause,
        /// It makes room for another one, and its output says so.
        #[serde(default)]
        preempted: bool,
    },
    /// Send a signal to a running attempt.
    Signal {
        /// Job and number of the attempt.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// Number of the signal, as in signal(7).
        signal: i32,
        /// Only to the script itself.
        script_only: bool,
        /// Signals the steps only, not the script.
        #[serde(default)]
        steps_only: bool,
    },
    /// Tell the script of an attempt something in its error output.
    Note {
        /// Job and number of the attempt.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// Text of the message, without an end of line.
        text: String,
    },
    /// Stop every process of an attempt, and its clock, until it is resumed.
    Suspend {
        /// Job and number of the attempt.
        key: AttemptKey,
        /// On which node.
        node: String,
    },
    /// Let a suspended attempt run on.
    Resume {
        /// Job and number of the attempt.
        key: AttemptKey,
        /// On which node.
        node: String,
    },
    /// The attempt has another time limit, counted from its start.
    Limit {
        /// Job and number of the attempt.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// The new time limit, from the start of the attempt.
        limit: Span,
    },
    /// The allocation ends on this node: kill what is left, epilog.
    /// Answer: [`NodeReport::Released`].
    Release {
        /// Job and number of the attempt.
        key: AllocationKey,
        /// On which node.
        node: String,
    },
    /// The end that was reported is durable: forget the attempt.
    Forget {
        /// Job and number of the attempt.
        key: AllocationKey,
        /// On which node.
        node: String,
    },
    /// The step records of an attempt up to this number of them are durable.
    StepsTaken {
        /// Job and number of the attempt.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// How many records since the attempt began.
        count: u64,
    },
    /// Answer to [`NodeReport::AskPassage`].
    Passage {
        /// Number of the question that is answered.
        number: u64,
        /// The way, or why not.
        passage: Result<Box<crate::step::AllocationRoute>, crate::Refusal>,
    },
    /// A node of this one's jobs is reached elsewhere from now on, under the same key: its
    /// daemon was restarted and its port was taken. Counts more than what allocations say.
    Moved {
        /// Name of the node that is told.
        node: String,
        /// The other node, with its new address.
        peer: crate::step::Peer,
    },
    /// An answer to a command whose request was passed on.
    RelayReply {
        /// The connection, as the node numbered it.
        connection: u64,
        /// The frame's body, without its header.
        frame: OsText,
    },
}

/// How far an attempt on a node is, as told at registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptPhase {
    /// Prepared; no program of its own here.
    Prepared,
    /// The program runs since then.
    Running {
        /// When it began.
        since: Time,
        /// How long it has run, on a clock that nobody sets. Older daemons do not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran: Option<Span>,
    },
    /// The program has ended.
    Ended(End),
}

/// An attempt that a node knows of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InventoryItem {
    /// Job and number of the attempt.
    pub key: AllocationKey,
    /// On which node (one daemon can play several).
    pub node: String,
    /// How far the attempt is there.
    pub phase: AttemptPhase,
}

/// How far the controller's store was: numbers that only grow. Nodes keep the latest that they
/// were told, signed (`cosy_proto::mark`), so that a store that was restored from an old copy
/// is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreMark {
    /// Number of the last event of its history.
    pub events: u64,
    /// The first id that no job had.
    pub jobs: u64,
    /// The first id that no reservation had.
    pub reservations: u64,
    /// The first id that no workflow had.
    pub flows: u64,
    /// The first id that no trigger had.
    pub triggers: u64,
}

impl StoreMark {
    /// Bytes of a mark.
    pub const BYTES: usize = 40;

    /// Five numbers, the lowest byte of each first.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.events,
            self.jobs,
            self.reservations,
            self.flows,
            self.triggers,
        ];
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    /// From the beginning of `bytes`; `None` when there are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.get(..Self::BYTES)?.chunks_exact(8);
        let mut next = || Some(u64::from_le_bytes(numbers.next()?.try_into().ok()?));
        Some(Self {
            events: next()?,
            jobs: next()?,
            reservations: next()?,
            flows: next()?,
            triggers: next()?,
        })
    }

    /// Of both the later number each.
    pub fn or_later(self, other: Self) -> Self {
        Self {
            events: self.events.max(other.events),
            jobs: self.jobs.max(other.jobs),
            reservations: self.reservations.max(other.reservations),
            flows: self.flows.max(other.flows),
            triggers: self.triggers.max(other.triggers),
        }
    }
}

/// The machine under a node as its daemon tells; what it does not know is empty or 0.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the host, as `uname -n` tells it.
    pub host: String,
    /// Address that its link comes from.
    pub address: String,
    /// Port at which other nodes reach it.
    pub port: u16,
    /// Processor architecture, as `uname -m`.
    pub arch: String,
    /// Operating system, release and version, as `uname -srv`.
    pub os: String,
    /// Number of processor sockets.
    pub sockets: u32,
    /// Cores of each socket.
    pub cores_per_socket: u32,
    /// Hardware threads of each core.
    pub threads_per_core: u32,
    /// When it was started.
    pub boot: Option<Time>,
    /// When the daemon was started.
    pub daemon_start: Option<Time>,
    /// Load average of the last minute, in hundredths.
    pub load_hundredths: Option<u32>,
    /// Memory that is free.
    pub free_memory: Option<MiB>,
}

/// What changes all the time on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Load average of the last minute, in hundredths.
    pub load_hundredths: Option<u32>,
    /// Memory that is free.
    pub free_memory: Option<MiB>,
    /// Number of this report on its link, from 1, for [`NodeOrder::Heard`]; 0: none is
    /// wanted.
    pub number: u64,
    /// What its clock shows, to be compared with the controller's. Older daemons do not
    /// tell it.
    pub clock: Option<Time>,
}

/// A node as its daemon describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeSelf {
    /// Name as in the configuration.
    pub name: String,
    /// What was found there or configured.
    pub amounts: Amounts,
    /// Types of its GPUs, by number; an empty text or one that is missing is of no type.
    #[serde(default)]
    pub gpu_types: Vec<String>,
    /// Names of its other resources whose pieces have numbers.
    #[serde(default)]
    pub devices: Vec<String>,
    /// How many of its shards are of which GPU, in the order of their numbers; empty where the
    /// pieces of the resource `shard`, if there are some, are nobody's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<u32>,
    /// Features from the node's own configuration.
    pub features: Vec<String>,
    /// Changes whenever the machine is started: what ran before is gone.
    pub boot_id: String,
    /// Cosy version of the daemon.
    pub version: String,
    /// The only user whose jobs it can run; `None` when it can run everyone's.
    pub only_uid: Option<Uid>,
    /// Where other nodes reach it, `HOST:PORT`; without a host (`:PORT`) at the address
    /// that its link comes from. Empty: not at all.
    #[serde(default)]
    pub listen: String,
    /// Its socket for steps; empty without.
    #[serde(default)]
    pub step_socket: String,
    /// The machine under it.
    #[serde(default)]
    pub machine: Machine,
}

/// What a node daemon tells the controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeReport {
    /// First on every link.
    Register {
        /// The nodes that this daemon plays.
        nodes: Vec<NodeSelf>,
        /// Every attempt that it knows of.
        inventory: Vec<InventoryItem>,
        /// The latest [`StoreMark`] that it was told, as it was signed; empty: none.
        #[serde(default)]
        seen: OsText,
        /// What its clock shows, to be compared with the controller's. Older daemons do not
        /// tell it.
        #[serde(default)]
        clock: Option<Time>,
    },
    /// The node is alive and has nothing else to say.
    Heartbeat,
    /// Still alive, and how busy the machine is.
    Figures(Figures),
    /// The allocation is ready, or why not (the node should then be drained).
    Prepared {
        /// Job and number of the attempt.
        key: AllocationKey,
        /// On which node.
        node: String,
        /// `None` when all is well.
        failure: Option<PrepareFailure>,
    },
    /// The program runs.
    Started {
        /// Job and number of the attempt.
        key: AllocationKey,
        /// On which node.
        node: String,
        /// When the program began, by the node's clock.
        at: Time,
    },
    /// The program has ended and everything it left was killed.
    Ended {
        /// Job and number of the attempt.
        key: AllocationKey,
        /// On which node.
        node: String,
        /// Cause, exit code, signal, and what was used.
        end: End,
        /// The epilog failed: drain the node with this reason.
        drain: Option<String>,
    },
    /// The allocation is gone from this node.
    Released {
        /// Job and number of the attempt.
        key: AllocationKey,
        /// On which node.
        node: String,
        /// The epilog failed: drain the node with this reason.
        drain: Option<String>,
        /// Energy and GPUs of this node that the attempt used; what its end tells is not told again.
        #[serde(default, skip_serializing_if = "DeviceUse::is_empty")]
        devices: DeviceUse,
    },
    /// Steps have ended: those with numbers `before..before + records.len()` among the
    /// records of this attempt. Answer: [`NodeOrder::StepsTaken`].
    Steps {
        /// The attempt that the steps belong to.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// Records that came before these.
        before: u64,
        /// How they ended, at most [`crate::limits::STEP_RECORDS`].
        records: Vec<crate::step::StepRecord>,
    },
    /// A command on this host wants to reach a job's first node. Answer:
    /// [`NodeOrder::Passage`].
    AskPassage {
        /// Chosen by the node, repeated in the answer.
        number: u64,
        /// Who, as that host's kernel says.
        uid: Uid,
        /// The job that the user wants to reach.
        job: JobId,
    },
    /// The periodic health check says something new.
    Health {
        /// Name of the node that was checked.
        node: String,
        /// `None` when it is well (again), else why not.
        problem: Option<String>,
    },
    /// A command on that host asks something.
    RelayRequest {
        /// The connection, as this node numbers it.
        connection: u64,
        /// Name of the node that the command is on.
        node: String,
        /// Who, as that host's kernel says.
        uid: Uid,
        /// Primary group, as that host's kernel says.
        gid: Gid,
        /// The frame's body, without its header.
        frame: OsText,
    },
    /// The command at the other end of a relayed connection has gone.
    RelayClosed {
        /// The connection, as this node numbered it.
        connection: u64,
    },
}

/// Why an allocation could not be prepared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PrepareFailure {
    /// Why, in one line.
    pub reason: String,
    /// The node is at fault (prolog, health check): drain it and run the job elsewhere.
    /// Otherwise the job is at fault (bad ticket, foreign user).
    pub drain: bool,
}
