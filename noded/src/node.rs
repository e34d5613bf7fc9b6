//! One real node: what becomes of an attempt from its order to the moment when it may be
//! forgotten.
//!
//! ```text
//! Launch --> Preparing --> Running --> [Cleaning] --> [Winding] --> Epilog --> Ended --> forgotten
//! Prepare -> Preparing --> Prepared ----------------> [Winding] --> Epilog --> released
//! ```
//!
//! Steps ([`crate::steps`]) may run while it is Prepared or Running; they are ended before
//! its epilog begins (Winding).
//!
//! Without hooks Preparing and Epilog take no time at all. Every order may come twice;
//! the second time only the report is repeated. What is reported is what the spool says,
//! so an end of this daemon at any point loses nothing.

mod admission;
mod adopt;
mod end;
mod orders;
mod prepare;
mod reports;
mod sampling;
mod shepherds;
mod steps;
mod task;

use crate::cgroup::Cgroups;
use crate::clock::{self, ControllerClock};
use crate::config::Config;
use crate::daemon::Event;
use crate::epoch::KnownEpoch;
use crate::hooks::Reaper;
use crate::nursery::{Nursery, NurseryOptions};
use crate::shepherd::signals::Order;
use crate::spool::{self, Outcome, Spool};
use crate::steps::table::Steps;
use crate::sys;
use cosy_model::node::{Allocation, AllocationKey, NodeReport, PrepareFailure};
use cosy_model::{End, EndCause, Time};
use cosy_proto::keys::PublicKey;
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Notify, mpsc};

/// How a shepherd is reached.
#[derive(Debug)]
enum ShepherdState {
    /// Asked of the nursery; what it is to be told when it is there.
    Expected(Vec<Order>),
    /// Born in this daemon's nursery, which tells its end.
    Child(Pid),
    /// Of an earlier daemon or nursery.
    Adopted(Arc<OwnedFd>),
}

/// What is to follow when the hooks before a job are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterHooks {
    Report,
    Run,
    End,
    Release,
}

/// What is to follow when the last step is gone.
#[derive(Debug)]
enum AfterSteps {
    /// The attempt has ended with this outcome.
    End(Outcome),
    /// The attempt held an allocation, ran nothing and was ended.
    Unstarted(EndCause),
    /// The controller has ended the allocation.
    Release,
}

#[derive(Debug)]
enum Stage {
    /// Health check and prolog run.
    Preparing {
        cancel: Arc<Notify>,
        next: AfterHooks,
    },
    /// Holds an allocation.
    Prepared,
    /// The attempt's shepherd is at work.
    Running {
        since: Instant,
        reach: ShepherdState,
    },
    /// Its shepherd was lost; what is left is being killed.
    Cleaning { since: Instant },
    /// Its program is over, its steps are being ended. Without a start it had no program.
    Winding {
        since: Option<Instant>,
        then: AfterSteps,
    },
    /// The epilog runs.
    Epilog { outcome: Option<Outcome> },
    /// Over, not yet forgotten.
    Ended {
        outcome: Outcome,
        at: Instant,
        synced: bool,
    },
    /// Could not be prepared.
    Failed(PrepareFailure),
}

#[derive(Debug)]
struct Attempt {
    stage: Stage,
    user: String,
    uid: u32,
    /// As ordered; without one after a restart of the machine.
    allocation: Option<Arc<Allocation>>,
    tries: u32,
    /// The end of the allocation was ordered and not yet answered.
    release: bool,
    /// Signals that came before there was a shepherd to pass them on.
    early: Vec<Order>,
}

/// What a hook that ended was run for.
#[derive(Debug)]
pub enum HookEnd {
    /// Health check and prolog of an attempt.
    Prepared(AllocationKey, Result<(), String>),
    /// Epilog of an attempt.
    Cleaned(AllocationKey, Result<(), String>),
}

/// What stays the same while the daemon runs.
pub struct NodeSetup {
    /// Name of the node.
    pub name: String,
    /// Directory in which attempts are written down.
    pub spool: Spool,
    /// Control groups of the jobs.
    pub cgroups: Arc<Cgroups>,
    /// Handed on to nurseries.
    pub nursery_options: NurseryOptions,
    /// Key of the controller, which signs tickets.
    pub controller: PublicKey,
    /// The controller's date, until which tickets are good.
    pub clock: ControllerClock,
    /// The highest epoch that is known: what is new here must not be of a lower one.
    pub epoch: KnownEpoch,
    /// Short name that is unique on this machine.
    pub instance: String,
    /// The daemon's own events.
    pub events: mpsc::Sender<Event>,
}

/// One node and its attempts.
pub struct Node {
    fixed: NodeSetup,
    config: Arc<Config>,
    nursery: Nursery,
    reaper: Reaper,
    attempts: BTreeMap<AllocationKey, Attempt>,
    steps: Steps,
    children: HashMap<i32, AllocationKey>,
    reports: Vec<NodeReport>,
    protected: bool,
}

impl Node {
    /// A node without attempts; [`Node::adopt`] finds those in the spool.
    pub fn new(
        fixed: NodeSetup,
        nursery: Nursery,
        config: Arc<Config>,
        reaper: Reaper,
        mut steps: Steps,
    ) -> Self {
        steps.sample_every(config.sampling.interval);
        let mut node = Self {
            steps,
            fixed,
            config,
            nursery,
            reaper,
            attempts: BTreeMap::new(),
            children: HashMap::new(),
            reports: Vec::new(),
            protected: crate::detect::protected_from_oom(),
        };
        node.find_energy_meter();
        node
    }

    /// Takes a new configuration for the hooks.
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.steps.reconfigure(Arc::new(config.devices.clone()));
        self.steps.sample_every(config.sampling.interval);
        let before = std::mem::replace(&mut self.config, config);
        let measured =
            |config: &Config| (config.energy.clone(), config.sampling.interval.is_some());
        if measured(&before) != measured(&self.config) {
            self.find_energy_meter();
        }
    }

    /// How many attempts are known.
    pub fn count(&self) -> usize {
        self.attempts.len()
    }

    fn mark(&self, key: AllocationKey) -> String {
        format!("{}/{}", self.fixed.instance, spool::name_of(key))
    }

    fn insert(&mut self, key: AllocationKey, allocation: Option<&Allocation>, stage: Stage) {
        let attempt = Attempt {
            stage,
            user: allocation.map_or_else(String::new, |a| a.user.clone()),
            uid: allocation.map_or(0, |a| a.uid.0),
            allocation: allocation.map(|a| Arc::new(a.clone())),
            tries: 0,
            release: false,
            early: Vec::new(),
        };
        self.attempts.insert(key, attempt);
    }

    fn set(&mut self, key: AllocationKey, stage: Stage) {
        if let Some(attempt) = self.attempts.get_mut(&key) {
            attempt.stage = stage;
        }
    }

    /// True while some job's processes are known to run.
    pub fn is_busy(&self) -> bool {
        self.steps.is_busy()
            || self
                .attempts
                .values()
                .any(|a| matches!(a.stage, Stage::Running { .. } | Stage::Cleaning { .. }))
    }

    /// Removes what this node has on the machine: after the lifeline's end.
    pub fn vanish(&self) {
        self.fixed.cgroups.clean(|_| false);
        self.fixed.cgroups.remove_parents();
        self.fixed.spool.wipe();
    }

    /// Removes what may go while jobs run on.
    pub fn leave(&self) {
        self.steps.keep_use();
        self.fixed.cgroups.remove_parents();
    }
}

/// The process is held before it is told; that it is the nursery's child says that the
/// number was not used again.
pub(crate) fn tell_child(pid: Pid, nursery: i32, order: Order) -> std::io::Result<()> {
    let pidfd = sys::pidfd_open(pid)?;
    if crate::shepherd::parent_of(pid.as_raw()) != Some(nursery) {
        return Err(std::io::Error::other("it has just ended"));
    }
    sys::queue_by_pidfd(&pidfd, order.encode())
}

/// When something began; now, where that was not kept.
fn began(since: Time) -> Instant {
    match since {
        Time::EPOCH => Instant::now(),
        known => clock::moment_of(known),
    }
}

fn ended_now(cause: EndCause) -> Outcome {
    Outcome {
        end: End::never_ran(cause, sys::now()),
        drain: None,
    }
}
