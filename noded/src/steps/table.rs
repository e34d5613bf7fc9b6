//! The steps on this node: which run, who waits, what is not yet known here. What
//! happens to them is in the modules beside: [`super::command_requests`] (commands), [`super::peer_requests`]
//! (other nodes), [`super::start`], [`super::end`], [`super::adopt`].
//!
//! Always holds: a step that runs has an entry from the moment when its directory is
//! there until its supervisor is seen to be gone; what it took is given back no later.

use super::device_share::Shares;
use super::ledger::Ledger;
use super::login_list::Logins;
use super::reached::Reached;
use super::records::Records;
use super::serve::{Connection, IncomingStep};
use super::spool::{Counter, StepSpool};
use super::{StepTask, peer_requests::PartRequest};
use crate::cgroup::Cgroups;
use crate::clock::ControllerClock;
use crate::daemon::Event;
use crate::devices::Devices;
use crate::login::IncomingLogin;
use crate::nursery::{Nursery, ShepherdRequests};
use crate::peer::pool::Pool;
use crate::peer::serve::IncomingPeer;
use crate::samples::energy::EnergyMeter;
use crate::samples::kept::{self, Kept};
use crate::samples::sampled::Sampled;
use crate::shepherd::signals::Order;
use crate::spool::{Outcome, name_of};
use cosy_model::node::{Allocation, AttemptKey, NodeReport};
use cosy_model::step::{JobPart, Peer, StepId, StepKey, StepSpec, TcpPair};
use cosy_model::{JobId, RefusalCode, Span};
use cosy_proto::keys::PublicKey;
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// Something happened that concerns steps.
#[derive(Debug)]
pub enum StepEvent {
    /// A command asks.
    CommandRequest(IncomingStep),
    /// Another node asks.
    IncomingPeer(IncomingPeer),
    /// A waiting step's command has gone, or its patience is at its end (`late`).
    Left {
        /// Attempt that the step belongs to.
        attempt: AttemptKey,
        /// Its number among those that wait.
        number: u64,
        /// Its patience is at its end.
        late: bool,
    },
    /// Somebody logs in.
    Login(IncomingLogin),
    /// The same, and how the process that asks is connected: no job here holds the other end.
    LoginFrom(IncomingLogin, Vec<TcpPair>),
    /// The same, and whose connection it is, as far as that could be found out.
    LoginOf(IncomingLogin, Option<AttemptKey>),
    /// The sessions of an attempt have been ended.
    LoginsEnded(AttemptKey),
    /// Something still waits for an attempt that is not known here: the controller is to
    /// be asked where it is.
    Seek(u64),
    /// What waits under this number has waited long enough.
    Late(u64),
    /// A supervisor of an earlier daemon or nursery ended.
    SupervisorGone(StepKey),
    /// What a killed supervisor left is gone.
    Swept(StepKey, Outcome),
}

impl StepEvent {
    /// Somebody wants something begun.
    pub const fn is_new_work(&self) -> bool {
        matches!(
            self,
            Self::CommandRequest(_)
                | Self::IncomingPeer(_)
                | Self::Login(_)
                | Self::LoginFrom(..)
                | Self::LoginOf(..)
        )
    }
}

impl From<IncomingStep> for Event {
    fn from(incoming: IncomingStep) -> Self {
        Self::Step(Box::new(StepEvent::CommandRequest(incoming)))
    }
}

impl From<IncomingPeer> for Event {
    fn from(incoming: IncomingPeer) -> Self {
        Self::Step(Box::new(StepEvent::IncomingPeer(incoming)))
    }
}

impl From<IncomingLogin> for Event {
    fn from(incoming: IncomingLogin) -> Self {
        Self::Step(Box::new(StepEvent::Login(incoming)))
    }
}

impl From<StepEvent> for Event {
    fn from(event: StepEvent) -> Self {
        Self::Step(Box::new(event))
    }
}

/// What stays the same while the daemon runs.
pub struct StepsSetup {
    /// Name of the node.
    pub name: String,
    /// Spool directory of the node.
    pub directory: PathBuf,
    /// Short name that is unique on this machine.
    pub instance: String,
    /// Key of the controller, which signs tickets.
    pub controller: PublicKey,
    /// The controller's date, until which tickets are good.
    pub clock: ControllerClock,
    /// Control groups of the jobs.
    pub cgroups: Arc<Cgroups>,
    /// GPUs and other devices.
    pub devices: Arc<Devices>,
    /// The processor behind each core's number; empty where numbers mean nothing.
    pub processors: Vec<u32>,
    /// Variables that are the same for all steps, `NAME=value`.
    pub variables: Vec<String>,
    /// Connections to other nodes.
    pub pool: Arc<Pool>,
    /// The daemon's own events.
    pub events: mpsc::Sender<Event>,
    /// The daemon is protected from the out-of-memory killer.
    pub protected: bool,
}

/// How a supervisor is reached.
#[derive(Debug)]
pub(super) enum SupervisorState {
    /// Asked of the nursery; what it is to be told when it is there.
    Expected(Vec<Order>),
    /// Born in this daemon's nursery, which tells its end.
    Child(Pid),
    /// Of an earlier daemon or nursery.
    Adopted(Arc<OwnedFd>),
    /// The supervisor was killed; what it left is being killed.
    Sweeping,
}

/// A step that runs here.
#[derive(Debug)]
pub(super) struct Running {
    pub task: Arc<StepTask>,
    pub reach: SupervisorState,
    pub since: Instant,
    /// Tells the hops that nothing is above them any more.
    pub gone: watch::Sender<bool>,
}

/// A step that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub step: StepId,
    pub spec: Box<StepSpec>,
    pub connection: Connection,
    pub watch: Option<AbortHandle>,
}

impl AsRef<StepSpec> for Waiter {
    fn as_ref(&self) -> &StepSpec {
        &self.spec
    }
}

/// What only the first node of a job has.
#[derive(Debug)]
pub(super) struct First {
    pub ledger: Ledger<Waiter>,
    pub counter: Counter,
}

/// An attempt in which steps may run.
#[derive(Debug)]
pub(super) struct Job {
    pub allocation: Arc<Allocation>,
    /// Later than its start by as long as it was suspended.
    pub since: Instant,
    /// Since when the job is suspended; `None` while it runs.
    pub stopped: Option<Instant>,
    pub first: Option<First>,
    pub shares: Shares,
    pub running: BTreeMap<StepId, Running>,
    pub logins: Logins,
    /// Limits for steps whose parts here have not come yet.
    pub limits: BTreeMap<StepId, Span>,
    /// True when the job ends: no more steps are taken.
    pub closing: bool,
    /// True when the job has something in the spool.
    pub touched: bool,
    pub drain: Option<String>,
    pub sampled: Sampled,
}

impl Job {
    /// It is to end, and nothing of it runs any more but its program.
    pub(super) fn is_quiet(&self) -> bool {
        self.closing && self.running.is_empty() && !self.logins.are_ending()
    }

    /// How much of its time limit is left then.
    pub(super) fn left(&self, now: Instant) -> Span {
        let limit = self.allocation.limit;
        let passed = now.saturating_duration_since(self.since).as_millis();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        match limit.is_unlimited() {
            true => Span::UNLIMITED,
            false => Span(limit.ms().saturating_sub(passed).max(0)),
        }
    }
}

/// Something that waits for an attempt that is not known here yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub number: u64,
    pub job: JobId,
    pub what: PendingRequest,
}

#[derive(Debug)]
pub(super) enum PendingRequest {
    Command(IncomingStep),
    Part(PartRequest),
}

/// All steps on this node.
pub struct Steps {
    pub(super) setup: StepsSetup,
    pub(super) shepherd_requests: ShepherdRequests,
    pub(super) nursery: i32,
    pub(super) spool: StepSpool,
    pub(super) jobs: BTreeMap<AttemptKey, Job>,
    pub(super) records: BTreeMap<AttemptKey, Records>,
    pub(super) pending: Vec<Pending>,
    pub(super) next_pending: u64,
    pub(super) children: HashMap<i32, StepKey>,
    pub(super) reports: Vec<NodeReport>,
    pub(super) quiet: Vec<AttemptKey>,
    pub(super) reached: Arc<Reached>,
    /// Between two measurements of the jobs; without, they are not measured.
    pub(super) sample_interval: Option<Span>,
    pub(super) energy: EnergyMeter,
    /// Cores among which it is shared.
    pub(super) energy_cores: u32,
    /// What an earlier daemon kept of attempts that have not been taken up yet.
    pub(super) kept_use: Kept,
}

impl Steps {
    /// No steps yet.
    pub fn new(setup: StepsSetup, nursery: &Nursery) -> Self {
        Self {
            spool: StepSpool::new(setup.directory.clone()),
            kept_use: kept::load(&setup.directory),
            setup,
            shepherd_requests: nursery.shepherd_requests(),
            nursery: nursery.pid(),
            jobs: BTreeMap::new(),
            records: BTreeMap::new(),
            pending: Vec::new(),
            next_pending: 0,
            children: HashMap::new(),
            reports: Vec::new(),
            quiet: Vec::new(),
            reached: Arc::default(),
            sample_interval: None,
            energy: EnergyMeter::default(),
            energy_cores: 1,
        }
    }

    /// The reports that came up since this was asked last.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.reports)
    }

    /// Attempts that were to be closed and whose last step is gone.
    pub fn take_quiet(&mut self) -> Vec<AttemptKey> {
        std::mem::take(&mut self.quiet)
    }

    /// Why the node should get no more jobs, from the steps of an attempt.
    pub fn take_drain(&mut self, key: AttemptKey) -> Option<String> {
        self.jobs.get_mut(&key)?.drain.take()
    }

    /// True while processes of steps are known to run.
    pub fn is_busy(&self) -> bool {
        self.jobs.values().any(|job| !job.running.is_empty())
    }

    /// Does what the event calls for.
    pub fn event(&mut self, event: StepEvent) {
        match event {
            StepEvent::CommandRequest(incoming) => self.command_requested(incoming),
            StepEvent::IncomingPeer(incoming) => self.peer_requested(incoming),
            StepEvent::Left {
                attempt,
                number,
                late,
            } => self.waiter_left(attempt, number, late),
            StepEvent::Login(incoming) => self.login(incoming),
            StepEvent::LoginFrom(incoming, connections) => self.login_from(incoming, connections),
            StepEvent::LoginOf(incoming, job) => self.login_of(incoming, job),
            StepEvent::LoginsEnded(attempt) => self.logins_ended(attempt),
            StepEvent::Seek(number) => self.seek(number),
            StepEvent::Late(number) => self.pending_late(number),
            StepEvent::SupervisorGone(key) => self.supervisor_gone(key),
            StepEvent::Swept(key, outcome) => self.swept(key, outcome),
        }
    }

    /// The spool directory of an attempt.
    pub(super) fn path(&self, key: AttemptKey) -> PathBuf {
        self.setup.directory.join(name_of(key))
    }

    /// The spool directory of a step.
    pub(super) fn path_of(&self, key: StepKey) -> PathBuf {
        self.path(key.attempt).join(super::directory_name(key.step))
    }

    pub(super) fn running(&mut self, key: StepKey) -> Option<&mut Running> {
        self.jobs.get_mut(&key.attempt)?.running.get_mut(&key.step)
    }

    /// From now on steps may run in an attempt, which began then.
    pub fn open(&mut self, allocation: &Allocation, since: Instant) {
        let Some(key) = allocation.key.job() else {
            return; // the program of a trigger has nothing that steps could run on
        };
        match self.jobs.get_mut(&key) {
            Some(job) => job.since = since,
            None => {
                self.share_energy();
                let job = self.job_of(allocation, since);
                self.jobs.insert(key, job);
            }
        }
        self.serve_pending(key.job);
    }

    /// The job has only these nodes left. Steps that wait for more than there is now are
    /// refused.
    pub fn shrink(&mut self, allocation: &Allocation) {
        let Some(key) = allocation.key.job() else {
            return;
        };
        let Some(job) = self.jobs.get_mut(&key) else {
            return;
        };
        job.allocation = Arc::new(allocation.clone());
        let (Some(first), Some(parts)) = (&mut job.first, parts_of(allocation)) else {
            return;
        };
        for (waiter, why) in first.ledger.shrink(parts) {
            if let Some(watch) = &waiter.watch {
                watch.abort();
            }
            waiter.connection.refuse(RefusalCode::NeverFits, why);
        }
        self.start_waiting(key);
    }

    pub(super) fn job_of(&mut self, allocation: &Allocation, since: Instant) -> Job {
        let key = allocation.key.job();
        let used = key.and_then(|key| self.kept_use.remove(&key));
        Job {
            allocation: Arc::new(allocation.clone()),
            since,
            first: None,
            shares: Shares::default(),
            running: BTreeMap::new(),
            logins: Logins::default(),
            limits: BTreeMap::new(),
            stopped: None,
            closing: false,
            touched: false,
            drain: None,
            sampled: Sampled::after(used.unwrap_or_default()),
        }
    }

    /// What the first node of a job needs, made when its first step is asked for; `None`
    /// on the others.
    pub(super) fn first(&mut self, key: AttemptKey) -> std::io::Result<Option<&mut First>> {
        let path = self.path(key);
        let Some(job) = self.jobs.get_mut(&key) else {
            return Ok(None);
        };
        if job.first.is_none() {
            let Some(parts) = parts_of(&job.allocation) else {
                return Ok(None);
            };
            let counter = Counter::open(&path)?;
            job.touched = true;
            let cores_per_task = job.allocation.cores_per_task;
            let ledger = Ledger::new(key.job, parts, cores_per_task);
            job.first = Some(First { ledger, counter });
        }
        Ok(job.first.as_mut())
    }
}

/// The shares of all nodes, on the first node; `None` on the others.
pub(super) fn parts_of(allocation: &Allocation) -> Option<Vec<JobPart>> {
    let first = allocation.parts.first().map(|part| &part.peer.node);
    if first == Some(&allocation.node) {
        return Some(allocation.parts.clone());
    }
    // A job of one node needs no addresses.
    (allocation.parts.is_empty() && allocation.nodes == allocation.node).then(|| {
        vec![JobPart {
            peer: Peer {
                node: allocation.node.clone(),
                address: String::new(),
                key: String::new(),
            },
            tasks: allocation.tasks,
            cores: allocation.cores.len() as u32,
            memory: allocation.memory,
            gpus: allocation.gpus.len() as u32,
        }]
    })
}
