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

use crate::cgroup::{Cgroups, Group, Wanted};
use crate::clock::{self, ControllerClock};
use crate::config::Config;
use crate::daemon::Event;
use crate::devices::{DeviceNumber, Held};
use crate::hooks::{Hook, Reaper};
use crate::nursery::{Nursery, NurseryEvent, NurseryOptions};
use crate::shepherd::nursery::{Birth, Told};
use crate::shepherd::signals::{self, Order};
use crate::spool::{self, Kept, Outcome, Phase, Spool, Task, Work};
use crate::steps::table::{StepEvent, Steps};
use crate::{sweep, sys};
use cosy_model::node::{
    Allocation, AttemptKey, AttemptPhase, InventoryItem, KillCause, Launch, NodeReport,
    PrepareFailure,
};
use cosy_model::step::{Passage, Peer};
use cosy_model::{End, EndCause, OsText, Refusal, Span, Time, limits};
use cosy_proto::keys::PublicKey;
use cosy_proto::ticket::{self, TicketError};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// So often a shepherd is started for one attempt before that is given up.
const SHEPHERD_TRIES: u32 = 3;
/// An outcome that is not forgotten for so long is made to survive the machine.
const SYNC_AFTER: Duration = Duration::from_secs(2);
/// Before another try to start a nursery.
const NURSERY_PAUSE: Duration = Duration::from_secs(1);

/// How a shepherd is reached.
#[derive(Debug)]
enum Reach {
    /// Asked of the nursery; what it is to be told when it is there.
    Expected(Vec<Order>),
    /// Born in this daemon's nursery, which tells its end.
    Child(Pid),
    /// Of an earlier daemon or nursery.
    Adopted(Arc<OwnedFd>),
}

/// What is to follow when the hooks before a job are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Report,
    Run,
    End,
    Release,
}

/// What is to follow when the last step is gone.
#[derive(Debug)]
enum Wind {
    /// It ended so.
    End(Outcome),
    /// It held an allocation and was ended.
    Unstarted(EndCause),
    /// Its allocation is over.
    Release,
}

#[derive(Debug)]
enum Stage {
    /// Health check and prolog run.
    Preparing { cancel: Arc<Notify>, next: Next },
    /// Holds an allocation.
    Prepared,
    /// Its shepherd works.
    Running { since: Instant, reach: Reach },
    /// Its shepherd was lost; what is left is being killed.
    Cleaning { since: Instant },
    /// Its program is over, its steps are being ended. Without a start it had no program.
    Winding { since: Option<Instant>, then: Wind },
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
    Prepared(AttemptKey, Result<(), String>),
    /// Epilog of an attempt.
    Cleaned(AttemptKey, Result<(), String>),
}

/// What stays the same while the daemon runs.
pub struct Fixed {
    /// Name of the node.
    pub name: String,
    /// Its attempts.
    pub spool: Spool,
    /// Control groups.
    pub cgroups: Arc<Cgroups>,
    /// Handed on to nurseries.
    pub nursery_options: NurseryOptions,
    /// Whose tickets are good.
    pub controller: PublicKey,
    /// Until when they are.
    pub clock: ControllerClock,
    /// Short name that is unique on this machine.
    pub instance: String,
    /// The daemon's own events.
    pub events: mpsc::Sender<Event>,
}

/// One node and its attempts.
pub struct Node {
    fixed: Fixed,
    config: Arc<Config>,
    nursery: Nursery,
    reaper: Reaper,
    attempts: BTreeMap<AttemptKey, Attempt>,
    steps: Steps,
    children: HashMap<i32, AttemptKey>,
    reports: Vec<NodeReport>,
    protected: bool,
}

impl Node {
    /// A node without attempts; [`Node::adopt`] finds those in the spool.
    pub fn new(
        fixed: Fixed,
        nursery: Nursery,
        config: Arc<Config>,
        reaper: Reaper,
        steps: Steps,
    ) -> Self {
        Self {
            steps,
            fixed,
            config,
            nursery,
            reaper,
            attempts: BTreeMap::new(),
            children: HashMap::new(),
            reports: Vec::new(),
            protected: crate::detect::protected_from_oom(),
        }
    }

    /// Takes a new configuration for the hooks.
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.steps.reconfigure(Arc::new(config.devices.clone()));
        self.config = config;
    }

    /// The reports that came up since this was asked last.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        self.reports.extend(self.steps.take_reports());
        std::mem::take(&mut self.reports)
    }

    /// How many attempts are known.
    pub fn count(&self) -> usize {
        self.attempts.len()
    }

    // ---- what is there when the daemon starts

    /// Takes up every attempt in the spool.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn adopt(&mut self, boot: &str) -> std::io::Result<()> {
        let kept = self.fixed.spool.list()?;
        let runs = sweep::attempts_of(&self.fixed.instance);
        // A lock does not outlive the machine, and neither does a process.
        let works = |key: &AttemptKey| self.fixed.spool.holder(*key).is_some();
        let same_boot = self.fixed.spool.last_boot().as_deref() == Some(boot)
            || kept.iter().any(|key| runs.contains(key) || works(key));
        for key in kept {
            if same_boot {
                self.adopt_one(key);
            } else {
                self.adopt_after_restart(key);
            }
        }
        for key in runs {
            if !self.attempts.contains_key(&key) {
                tracing::error!(job = %key.job, "attempt {} runs and is not in the spool: it is ended", key.attempt);
                self.end_unkept(key);
            }
        }
        self.steps.adopt_left_over();
        self.fixed.spool.set_boot(boot)?;
        let alive: Vec<String> = self
            .attempts
            .iter()
            .filter(|(_, a)| !matches!(a.stage, Stage::Ended { .. }))
            .map(|(key, _)| spool::name_of(*key))
            .collect();
        self.fixed
            .cgroups
            .clean(|name| alive.iter().any(|a| a == name));
        Ok(())
    }

    /// The machine was restarted: what has no outcome was lost with it.
    fn adopt_after_restart(&mut self, key: AttemptKey) {
        let outcome = self.fixed.spool.outcome(key).unwrap_or_else(|| {
            let outcome = ended_now(EndCause::NodeLost);
            self.keep_outcome(key, &outcome);
            outcome
        });
        self.steps.discard(key);
        self.insert(key, None, Stage::Prepared);
        self.settle(key, outcome);
    }

    fn adopt_one(&mut self, key: AttemptKey) {
        let kept =
            self.fixed.spool.open_launch(key).and_then(|file| {
                Ok((spool::read_launch::<Work>(&file)?, sys::lock_holder(&file)?))
            });
        let outcome = self.fixed.spool.outcome(key);
        match (kept, outcome) {
            (kept, Some(outcome)) => {
                let who = kept.as_ref().ok().map(|(k, _)| k.work.allocation());
                self.insert(key, who, Stage::Prepared);
                if let Some(allocation) = who {
                    self.steps.adopt(allocation);
                }
                self.end(key, outcome);
            }
            (Ok((kept, holder)), None) => self.adopt_unended(key, kept, holder),
            // It was whole when it got its name, so somebody has damaged it, and it may run.
            (Err(e), None) => {
                tracing::error!(job = %key.job, "what is kept of attempt {} cannot be read ({e}): what runs of it is ended", key.attempt);
                self.end_unkept(key);
            }
        }
    }

    /// Ends what runs of an attempt of which nothing is known any more: found by its lock, by
    /// control group and by what its processes say of themselves.
    fn end_unkept(&mut self, key: AttemptKey) {
        self.insert(key, None, Stage::Prepared);
        let name = spool::name_of(key);
        let groups = self.fixed.cgroups.groups_for(Wanted {
            name: &name,
            memory_bytes: Some(0),
            cores: &[],
            denied: &[],
            trigger: false,
        });
        let start = sys::now();
        self.set(
            key,
            Stage::Cleaning {
                since: Instant::now(),
            },
        );
        self.sweep(
            key,
            sweep::Lost {
                mark: self.mark(key),
                uid: u32::MAX, // nobody's
                groups,
                start,
                shepherd: self.fixed.spool.holder(key),
                with_steps: true,
                cause: EndCause::NodeLost,
            },
        );
    }

    fn adopt_unended(&mut self, key: AttemptKey, kept: Kept, holder: Option<Pid>) {
        let allocation = kept.work.allocation();
        self.insert(key, Some(allocation), Stage::Prepared);
        self.steps.adopt(allocation);
        match (&kept.work, kept.phase, holder) {
            (Work::Hold(_), Phase::Received, _) => self.prepare(key, Next::Report),
            (Work::Hold(_), Phase::Prepared | Phase::Started, _) => {
                self.open_for_steps(key, began(kept.start));
            }
            (Work::Run(_), _, Some(pid)) => self.follow(key, pid, kept.start),
            (Work::Run(_), Phase::Received, None) => self.prepare(key, Next::Run),
            (Work::Run(_), Phase::Prepared, None) => self.start(key),
            (Work::Run(_), Phase::Started, None) => self.supervisor_lost(key, kept),
        }
    }

    /// Watches a shepherd that is not a child of this daemon.
    fn follow(&mut self, key: AttemptKey, pid: Pid, since: Time) {
        // The lock is asked again once the process is held: numbers are used again.
        let held = sys::pidfd_open(pid).ok().filter(|_| {
            let file = self.fixed.spool.open_launch(key);
            file.and_then(|f| sys::lock_holder(&f))
                .is_ok_and(|h| h == Some(pid))
        });
        let Some(pidfd) = held.map(Arc::new) else {
            return self.shepherd_gone(key);
        };
        let since = began(since);
        let reach = Reach::Adopted(Arc::clone(&pidfd));
        self.set(key, Stage::Running { since, reach });
        self.open_for_steps(key, since);
        let events = self.fixed.events.clone();
        tokio::spawn(async move {
            if let Ok(fd) = pidfd.try_clone().and_then(sys::watch) {
                let _ = fd.readable().await;
            }
            let _ = events.send(Event::ShepherdGone(key)).await;
        });
    }

    // ---- what the controller is told anew on each link

    /// Every attempt and how far it is.
    pub fn inventory(&self) -> Vec<InventoryItem> {
        self.attempts
            .iter()
            .filter_map(|(key, attempt)| {
                let phase = match &attempt.stage {
                    Stage::Preparing { next, .. } => match next {
                        Next::Report | Next::Release | Next::Run => AttemptPhase::Prepared,
                        Next::End => return None,
                    },
                    Stage::Prepared
                    | Stage::Epilog { outcome: None }
                    | Stage::Winding { since: None, .. } => AttemptPhase::Prepared,
                    Stage::Running { since, .. }
                    | Stage::Cleaning { since }
                    | Stage::Winding {
                        since: Some(since), ..
                    } => AttemptPhase::Running {
                        since: clock::date_of(*since),
                        ran: Some(clock::passed(*since)),
                    },
                    Stage::Epilog {
                        outcome: Some(outcome),
                    } => AttemptPhase::Running {
                        since: outcome.end.start.unwrap_or(outcome.end.end),
                        ran: None,
                    },
                    Stage::Ended { outcome, .. } => AttemptPhase::Ended(outcome.end.clone()),
                    Stage::Failed(_) => return None,
                };
                Some(InventoryItem {
                    key: *key,
                    node: self.fixed.name.clone(),
                    phase,
                })
            })
            .collect()
    }

    /// Reports again what an inventory does not say: why a node is to be drained, what
    /// could not be prepared.
    pub fn repeat_reports(&mut self) {
        self.steps.new_link();
        let keys: Vec<AttemptKey> = self.attempts.keys().copied().collect();
        for key in keys {
            let stage = self.attempts.get(&key).map(|a| &a.stage);
            if let Some(Stage::Ended { .. } | Stage::Failed(_)) = stage {
                self.report_again(key);
            }
        }
    }

    /// What is left to tell of its steps comes before anything about the attempt.
    fn tell_steps(&mut self, key: AttemptKey) {
        self.steps.flush(key);
        self.reports.extend(self.steps.take_reports());
    }

    fn report_again(&mut self, key: AttemptKey) {
        let node = self.fixed.name.clone();
        if let Some(Stage::Ended { .. }) = self.attempts.get(&key).map(|a| &a.stage) {
            self.tell_steps(key);
        }
        let Some(attempt) = self.attempts.get(&key) else {
            return;
        };
        let report = match &attempt.stage {
            Stage::Prepared => NodeReport::Prepared {
                key,
                node,
                failure: None,
            },
            Stage::Failed(failure) => NodeReport::Prepared {
                key,
                node,
                failure: Some(failure.clone()),
            },
            Stage::Running { since, .. } | Stage::Cleaning { since } => NodeReport::Started {
                key,
                node,
                at: clock::date_of(*since),
            },
            Stage::Ended { outcome, .. } => NodeReport::Ended {
                key,
                node,
                end: outcome.end.clone(),
                drain: outcome.drain.clone(),
            },
            // These report by themselves when they are through.
            Stage::Preparing { .. } | Stage::Epilog { .. } | Stage::Winding { .. } => return,
        };
        self.reports.push(report);
    }

    // ---- orders

    /// An allocation to hold.
    pub fn order_prepare(&mut self, allocation: Box<Allocation>) {
        let key = allocation.key;
        if self.attempts.contains_key(&key) {
            self.shrink(&allocation);
            return self.report_again(key);
        }
        if let Err(failure) = self.admit(&allocation) {
            return self.refuse(key, failure.reason, failure.drain);
        }
        let work = Work::Hold(allocation);
        match self.fixed.spool.create(key, &work, None) {
            Err(e) => self.refuse(key, format!("cannot keep the job in the spool: {e}"), true),
            Ok(()) => {
                self.insert(key, Some(work.allocation()), Stage::Prepared);
                self.prepare(key, Next::Report);
            }
        }
    }

    /// On the first node of a job that has given nodes back: no step goes there any more.
    /// Nothing of it is kept in the spool, the controller says it again at each registration.
    fn shrink(&mut self, allocation: &Allocation) {
        let Some(attempt) = self.attempts.get(&allocation.key) else {
            return;
        };
        let known = attempt.allocation.as_ref().map_or(0, |a| a.parts.len());
        if allocation.parts.is_empty() || allocation.parts.len() >= known {
            return;
        }
        if let Err(why) = self.admit(allocation) {
            return tracing::warn!(job = %allocation.key.job, "fewer nodes refused: {}", why.reason);
        }
        if let Some(attempt) = self.attempts.get_mut(&allocation.key) {
            attempt.allocation = Some(Arc::new(allocation.clone()));
        }
        self.steps.shrink(allocation);
    }

    /// A program to start.
    pub fn order_launch(&mut self, launch: Box<Launch>) {
        let key = launch.allocation.key;
        match self.attempts.get_mut(&key).map(|a| &mut a.stage) {
            None => self.launch_new(launch),
            Some(Stage::Prepared) => self.launch_held(launch, true),
            Some(Stage::Preparing {
                next: Next::Report, ..
            }) => self.launch_held(launch, false),
            Some(_) => self.report_again(key),
        }
    }

    fn launch_new(&mut self, launch: Box<Launch>) {
        let key = launch.allocation.key;
        if let Err(failure) = self.admit(&launch.allocation) {
            return self.refuse(key, failure.reason, failure.drain);
        }
        let (work, script) = self.task(launch);
        match self.fixed.spool.create(key, &work, script.as_deref()) {
            Err(e) => self.refuse(key, format!("cannot keep the job in the spool: {e}"), true),
            Ok(()) => {
                self.insert(key, Some(work.allocation()), Stage::Prepared);
                self.prepare(key, Next::Run);
            }
        }
    }

    fn launch_held(&mut self, launch: Box<Launch>, prepared: bool) {
        let key = launch.allocation.key;
        if let Err(failure) = self.admit(&launch.allocation) {
            return self.refuse(key, failure.reason, failure.drain);
        }
        let (work, script) = self.task(launch);
        self.steps.forget(key);
        if let Some(attempt) = self.attempts.get_mut(&key) {
            attempt.allocation = Some(Arc::new(work.allocation().clone()));
        }
        let spool = &mut self.fixed.spool;
        let kept = match prepared {
            true => spool.replace(key, &work, script.as_deref()),
            false => spool.create(key, &work, script.as_deref()),
        };
        match (kept, self.attempts.get_mut(&key).map(|a| &mut a.stage)) {
            (Err(e), _) => {
                self.attempts.remove(&key);
                self.refuse(key, format!("cannot keep the job in the spool: {e}"), true);
            }
            (Ok(()), Some(Stage::Preparing { next, .. })) => *next = Next::Run,
            (Ok(()), _) => self.start(key),
        }
    }

    /// The controller wants an attempt to end.
    pub fn order_kill(&mut self, key: AttemptKey, cause: KillCause) {
        let end_cause = match cause {
            KillCause::TimeLimit => EndCause::TimeLimit,
            KillCause::Cancelled | KillCause::Superseded | KillCause::Requeued => {
                EndCause::Cancelled
            }
        };
        let Some(attempt) = self.attempts.get_mut(&key) else {
            // Never heard of it: it did not run here and will not.
            let end = End::never_ran(end_cause, sys::now());
            return self.report_ended(key, end, None);
        };
        match &mut attempt.stage {
            Stage::Running { .. } => {
                self.tell_shepherd(key, Order::Kill(cause));
                self.steps.close(key, cause);
            }
            Stage::Winding { .. } => drop(self.steps.close(key, cause)),
            Stage::Preparing { cancel, next } => {
                *next = Next::End;
                cancel.notify_one();
            }
            Stage::Prepared if self.steps.close(key, cause) => {
                let then = Wind::Unstarted(end_cause);
                self.set(key, Stage::Winding { since: None, then });
            }
            Stage::Prepared | Stage::Failed(_) => self.end_unstarted(key, end_cause),
            Stage::Ended { .. } => self.report_again(key),
            Stage::Cleaning { .. } | Stage::Epilog { .. } => {}
        }
    }

    /// The controller may have given others what may run again: it is ended here.
    pub fn end_alone(&mut self) {
        let again = self.attempts.iter().filter(|(_, attempt)| {
            let allocation = attempt.allocation.as_ref();
            let ended = matches!(
                attempt.stage,
                Stage::Ended { .. } | Stage::Failed(_) | Stage::Epilog { .. }
            );
            !ended && allocation.is_some_and(|allocation| allocation.runs_again)
        });
        let again: Vec<AttemptKey> = again.map(|(key, _)| *key).collect();
        for key in again {
            tracing::warn!(job = %key.job, "attempt {} is ended: the controller may have given its job to others", key.attempt);
            if let Err(e) = self.fixed.spool.mark_alone(key) {
                tracing::warn!(job = %key.job, "spool: {e}");
            }
            self.order_kill(key, KillCause::Superseded);
        }
    }

    fn end_unstarted(&mut self, key: AttemptKey, cause: EndCause) {
        let outcome = ended_now(cause);
        self.keep_outcome(key, &outcome);
        self.end(key, outcome);
    }

    /// A signal for a running attempt.
    pub fn order_signal(
        &mut self,
        key: AttemptKey,
        signal: i32,
        script_only: bool,
        steps_only: bool,
    ) {
        if !(1..=64).contains(&signal) {
            return;
        }
        let order = Order::Signal {
            signal,
            script_only,
        };
        if !steps_only {
            self.keep_early_signal(key, order);
            self.tell_shepherd(key, order);
        }
        if !script_only {
            self.steps.signal_all(key, signal);
        }
    }

    /// A signal for an attempt that is still being prepared is told to its shepherd when there
    /// is one.
    fn keep_early_signal(&mut self, key: AttemptKey, order: Order) {
        if let Some(attempt) = self.attempts.get_mut(&key)
            && matches!(attempt.stage, Stage::Preparing { .. } | Stage::Prepared)
            && attempt.early.len() < limits::EARLY_SIGNALS
        {
            attempt.early.push(order);
        }
    }

    /// The script of a running attempt is told something.
    pub fn order_note(&mut self, key: AttemptKey, text: &str) {
        let runs = self.attempts.get(&key).map(|a| &a.stage);
        if !matches!(runs, Some(Stage::Running { .. })) {
            return;
        }
        let line = text.replace(char::is_control, "?");
        match self.fixed.spool.add_note(key, &line) {
            Ok(()) => self.tell_shepherd(key, Order::Note),
            Err(e) => tracing::warn!(job = %key.job, "a message is not passed on: {e}"),
        }
    }

    /// Everything of an attempt stands still from now on.
    pub fn order_suspend(&mut self, key: AttemptKey) {
        self.tell_shepherd(key, Order::Suspend);
        self.steps.stand_still(key);
    }

    /// Everything of an attempt goes on.
    pub fn order_resume(&mut self, key: AttemptKey) {
        self.tell_shepherd(key, Order::Resume);
        self.steps.go_on(key);
    }

    /// An attempt has another time limit.
    pub fn order_limit(&mut self, key: AttemptKey, limit: Span) {
        self.tell_shepherd(key, Order::Limit(signals::seconds(limit)));
        self.steps.limit(key, limit);
    }

    /// The allocation is over on this node.
    pub fn order_release(&mut self, key: AttemptKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return self.report_released(key, None);
        };
        attempt.release = true;
        match &mut attempt.stage {
            Stage::Preparing { cancel, next } => {
                *next = match next {
                    Next::Report | Next::Release => Next::Release,
                    Next::Run | Next::End => Next::End,
                };
                cancel.notify_one();
            }
            Stage::Prepared => self.release_held(key),
            Stage::Running { .. } => {
                self.tell_shepherd(key, Order::Kill(KillCause::Superseded));
                self.steps.close(key, KillCause::Superseded);
            }
            Stage::Winding { .. } => drop(self.steps.close(key, KillCause::Superseded)),
            Stage::Cleaning { .. } | Stage::Epilog { .. } => {}
            Stage::Ended { outcome, .. } => {
                let drain = outcome.drain.clone();
                attempt.release = false;
                self.report_released(key, drain);
            }
            Stage::Failed(_) => self.released(key, None),
        }
    }

    fn release_held(&mut self, key: AttemptKey) {
        if self.steps.close(key, KillCause::Superseded) {
            let then = Wind::Release;
            return self.set(key, Stage::Winding { since: None, then });
        }
        self.begin_epilog(key, None);
    }

    // ---- steps

    /// Steps may run in it from now on; it began then.
    fn open_for_steps(&mut self, key: AttemptKey, since: Instant) {
        if key.job.trigger().is_some() {
            return; // the program of a trigger has nothing that steps could run on
        }
        let allocation = self.attempts.get(&key).and_then(|a| a.allocation.clone());
        if let Some(allocation) = allocation {
            self.steps.open(&allocation, since);
        }
    }

    /// Something happened that concerns steps.
    pub fn step_event(&mut self, event: StepEvent) {
        self.steps.event(event);
        self.look_at_quiet();
    }

    /// The controller's answer: where a job is.
    pub fn order_passage(&mut self, number: u64, passage: Result<Box<Passage>, Refusal>) {
        self.steps.passage(number, passage);
    }

    /// Another node of a job here is reached elsewhere.
    pub fn order_moved(&mut self, peer: Peer) {
        self.steps.moved(peer);
    }

    /// The controller has these records of steps.
    pub fn order_steps_taken(&mut self, key: AttemptKey, count: u64) {
        self.steps.records_taken(key, count);
    }

    /// About once a second.
    pub fn tell_of_steps(&mut self) {
        self.steps.on_tick();
    }

    /// The last step of these is gone.
    fn look_at_quiet(&mut self) {
        for key in self.steps.take_quiet() {
            self.wound_up(key);
        }
    }

    fn wound_up(&mut self, key: AttemptKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        let Stage::Winding { .. } = attempt.stage else {
            return;
        };
        let Stage::Winding { then, .. } = std::mem::replace(&mut attempt.stage, Stage::Prepared)
        else {
            return;
        };
        match then {
            Wind::End(outcome) => self.end(key, outcome),
            Wind::Unstarted(cause) => self.end_unstarted(key, cause),
            Wind::Release => self.begin_epilog(key, None),
        }
    }

    /// The end that was reported is durable.
    pub fn order_forget(&mut self, key: AttemptKey) {
        match self.attempts.get(&key).map(|a| &a.stage) {
            Some(Stage::Ended { .. } | Stage::Failed(_)) => self.drop_attempt(key),
            Some(stage) => {
                tracing::warn!(job = %key.job, "told to forget attempt {} in stage {stage:?}", key.attempt);
            }
            None => {}
        }
    }

    fn tell_shepherd(&mut self, key: AttemptKey, order: Order) {
        let stage = self.attempts.get_mut(&key).map(|a| &mut a.stage);
        let Some(Stage::Running { reach, .. }) = stage else {
            return;
        };
        let sent = match reach {
            Reach::Expected(orders) => {
                orders.push(order);
                Ok(())
            }
            Reach::Child(pid) => tell_child(*pid, self.nursery.pid(), order),
            Reach::Adopted(pidfd) => sys::queue_by_pidfd(pidfd, order.encode()),
        };
        if let Err(e) = sent {
            tracing::debug!(job = %key.job, "shepherd not reached: {e}");
        }
    }

    // ---- before the start

    /// Whether this node may act for that allocation. What the controller itself sends has
    /// not expired: where it seems so, the clock here is wrong, and the job goes elsewhere.
    fn admit(&self, allocation: &Allocation) -> Result<(), PrepareFailure> {
        let now = self.fixed.clock.now();
        ticket::check(allocation, &self.fixed.controller, now).map_err(|e| PrepareFailure {
            reason: e.to_string(),
            drain: e == TicketError::Expired,
        })?;
        self.may_act_for(allocation)
            .map_err(|reason| PrepareFailure {
                reason,
                drain: false,
            })
    }

    fn may_act_for(&self, allocation: &Allocation) -> Result<(), String> {
        if allocation.node != self.fixed.name {
            return Err(format!(
                "the allocation is for node {}, this is {}",
                allocation.node, self.fixed.name
            ));
        }
        let own = sys::own_uid();
        if own.0 != 0 && own != allocation.uid {
            return Err(format!(
                "noded on {} does not run as root: it runs only jobs of uid {own}, not of uid {}",
                self.fixed.name, allocation.uid
            ));
        }
        match own.0 {
            0 => self.config.may_run(allocation),
            _ => Ok(()),
        }
    }

    fn refuse(&mut self, key: AttemptKey, reason: String, drain: bool) {
        let failure = PrepareFailure { reason, drain };
        tracing::warn!(job = %key.job, "attempt {} refused: {}", key.attempt, failure.reason);
        self.reports.push(NodeReport::Prepared {
            key,
            node: self.fixed.name.clone(),
            failure: Some(failure),
        });
    }

    /// What the shepherd needs to know, and the script's text apart from it.
    fn task(&self, mut launch: Box<Launch>) -> (Work, Option<Vec<u8>>) {
        let script = match launch.program {
            cosy_model::Program::Script { .. } => Some(std::mem::take(&mut launch.script.0)),
            cosy_model::Program::Command { .. } | cosy_model::Program::Allocation => None,
        };
        let allocation = &launch.allocation;
        let name = spool::name_of(allocation.key);
        let groups = self.fixed.cgroups.groups_for(Wanted {
            name: &name,
            memory_bytes: allocation.memory.map(cosy_model::MiB::bytes),
            cores: &allocation.cores,
            denied: &self.denied(Held::of(allocation)),
            trigger: allocation.key.job.trigger().is_some(),
        });
        let work = Work::Run(Box::new(Task {
            groups,
            variables: self.variables(&launch),
            reset_oom_score: self.protected,
            launch: *launch,
        }));
        (work, script)
    }

    /// The devices that somebody who has `held` must not open.
    fn denied(&self, held: Held<'_>) -> Vec<DeviceNumber> {
        if self.fixed.cgroups.limits_devices() {
            self.config.devices.denied(held)
        } else {
            Vec::new()
        }
    }

    /// The variables that only the node knows.
    fn variables(&self, launch: &Launch) -> Vec<OsText> {
        let allocation = &launch.allocation;
        let mark = format!("{}={}", sweep::MARK, self.mark(allocation.key));
        let node = self.config.variables().into_iter();
        let mut all: Vec<OsText> = node.chain([mark]).map(OsText::from).collect();
        let kept = self.fixed.cgroups.limits_devices();
        all.extend(self.config.devices.variables(Held::of(allocation), kept));
        let path = self.config.plugin_path();
        all.push(OsText(
            [b"COSY_PLUGIN_PATH=", path.as_encoded_bytes()].concat(),
        ));
        if allocation.key.job.trigger().is_some() {
            return all; // it is in no job
        }
        for (name, value) in [
            ("COSY_JOB_ID", allocation.key.job.to_string()),
            ("COSY_JOB_ATTEMPT", allocation.key.attempt.to_string()),
        ] {
            let there = launch.environment.0.split(|b| *b == 0).any(|v| {
                v.strip_prefix(name.as_bytes())
                    .is_some_and(|rest| rest.first() == Some(&b'='))
            });
            if !there {
                all.push(OsText::from(format!("{name}={value}")));
            }
        }
        all
    }

    fn mark(&self, key: AttemptKey) -> String {
        format!("{}/{}", self.fixed.instance, spool::name_of(key))
    }

    fn hook(&self, kind: &'static str, key: AttemptKey) -> Option<Hook> {
        let command = match kind {
            "prolog" => &self.config.prolog,
            "epilog" => &self.config.epilog,
            _ => &self.config.health_check,
        };
        if key.job.trigger().is_some() {
            return None; // it may run beside a job of somebody else
        }
        let attempt = self.attempts.get(&key)?;
        Some(Hook {
            kind,
            command: command.clone()?,
            timeout: self.config.hook_timeout,
            environment: vec![
                ("COSY_JOB_ID", key.job.to_string()),
                ("COSY_JOB_ATTEMPT", key.attempt.to_string()),
                ("COSY_JOB_UID", attempt.uid.to_string()),
                ("COSY_JOB_USER", attempt.user.clone()),
                ("COSY_NODENAME", self.fixed.name.clone()),
            ],
        })
    }

    /// Health check and prolog, then `next`. At once when there are none.
    fn prepare(&mut self, key: AttemptKey, next: Next) {
        let hooks: Vec<Hook> = ["health check", "prolog"]
            .into_iter()
            .filter_map(|kind| self.hook(kind, key))
            .collect();
        let cancel = Arc::new(Notify::new());
        let stage = Stage::Preparing {
            cancel: Arc::clone(&cancel),
            next,
        };
        self.set(key, stage);
        if hooks.is_empty() {
            return self.prepared(key, Ok(()));
        }
        let (events, reaper) = (self.fixed.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let mut result = Ok(());
            for hook in hooks {
                result = hook.run(reaper.clone(), Arc::clone(&cancel)).await;
                if result.is_err() {
                    break;
                }
            }
            let end = HookEnd::Prepared(key, result);
            let _ = events.send(Event::Hook(end)).await;
        });
    }

    fn prepared(&mut self, key: AttemptKey, result: Result<(), String>) {
        let Some(Stage::Preparing { next, .. }) = self.attempts.get(&key).map(|a| &a.stage) else {
            return;
        };
        match (*next, result) {
            (Next::End, _) => self.end_unstarted(key, EndCause::Cancelled),
            (Next::Release, _) => self.release_held(key),
            (Next::Report | Next::Run, Err(reason)) => self.failed(key, reason),
            (Next::Report, Ok(())) => {
                let _ = self.fixed.spool.mark_prepared(key, sys::now());
                self.set(key, Stage::Prepared);
                self.report_again(key);
                self.open_for_steps(key, Instant::now());
            }
            (Next::Run, Ok(())) => self.start(key),
        }
    }

    /// The node is at fault: the job goes elsewhere, nothing of it stays here.
    fn failed(&mut self, key: AttemptKey, reason: String) {
        tracing::error!(job = %key.job, "not prepared: {reason}");
        self.steps.forget(key);
        if let Err(e) = self.fixed.spool.remove(key) {
            tracing::warn!(job = %key.job, "spool: {e}");
        }
        let failure = PrepareFailure {
            reason,
            drain: true,
        };
        self.set(key, Stage::Failed(failure));
        self.report_again(key);
    }

    // ---- start and end

    fn start(&mut self, key: AttemptKey) {
        let hooks = self.config.prolog.is_some() || self.config.health_check.is_some();
        if hooks && let Err(e) = self.fixed.spool.mark_prepared(key, Time::EPOCH) {
            return self.failed(key, format!("cannot keep the job in the spool: {e}"));
        }
        self.ask_for_shepherd(key);
        self.report_again(key);
    }

    fn ask_for_shepherd(&mut self, key: AttemptKey) {
        let since = Instant::now();
        let early = self.attempts.get_mut(&key).map(|a| &mut a.early);
        let reach = Reach::Expected(early.map(std::mem::take).unwrap_or_default());
        self.set(key, Stage::Running { since, reach });
        self.open_for_steps(key, since);
        let birth = Birth {
            attempt: key,
            step: None,
        };
        self.nursery.asking().ask(birth, None);
    }

    /// Something came from the nursery.
    pub fn nursery_event(&mut self, event: NurseryEvent) {
        match event {
            NurseryEvent::Told(all) => {
                for told in all {
                    self.nursery_told(told);
                }
            }
            NurseryEvent::Lost(pid) => self.nursery_lost(pid),
        }
    }

    fn nursery_told(&mut self, told: Told) {
        match told {
            Told::Born(birth, pid) if birth.step.is_some() => self.steps.born(birth, pid),
            Told::Born(birth, pid) => self.born(birth.attempt, Pid::from_raw(pid)),
            Told::Ended(pid) if self.steps.child_ended(pid) => self.look_at_quiet(),
            Told::Ended(pid) => {
                if let Some(key) = self.children.remove(&pid) {
                    self.shepherd_gone(key);
                }
            }
            Told::Failed(birth, errno) if birth.step.is_some() => {
                self.steps.not_born(birth, errno);
                self.look_at_quiet();
            }
            Told::Failed(birth, errno) => {
                let why = sys::errno_text(errno);
                self.failed(birth.attempt, format!("cannot make a shepherd: {why}"));
            }
        }
    }

    fn born(&mut self, key: AttemptKey, pid: Pid) {
        self.children.insert(pid.as_raw(), key);
        let stage = self.attempts.get_mut(&key).map(|a| &mut a.stage);
        if let Some(Stage::Running { reach, .. }) = stage
            && let Reach::Expected(orders) = reach
        {
            let orders = std::mem::take(orders);
            *reach = Reach::Child(pid);
            for order in orders {
                self.tell_shepherd(key, order);
            }
        }
    }

    /// Its shepherds go on; whoever was not born yet is asked for again.
    fn nursery_lost(&mut self, pid: i32) {
        if pid != self.nursery.pid() {
            return;
        }
        tracing::error!("the nursery of shepherds was killed; starting another");
        let (events, options) = (self.fixed.events.clone(), &self.fixed.nursery_options);
        match Nursery::start(self.fixed.spool.directory(), options, events.clone()) {
            Ok(nursery) => self.nursery = nursery,
            Err(e) => {
                tracing::error!("no nursery: {e}");
                let again = Event::Nursery(NurseryEvent::Lost(pid));
                tokio::spawn(async move {
                    tokio::time::sleep(NURSERY_PAUSE).await;
                    let _ = events.send(again).await;
                });
                return;
            }
        }
        self.children.clear();
        self.steps.nursery_replaced(&self.nursery);
        self.look_at_quiet();
        let lost: Vec<AttemptKey> = self
            .attempts
            .iter()
            .filter(|(_, a)| match &a.stage {
                Stage::Running { reach, .. } => !matches!(reach, Reach::Adopted(_)),
                _ => false,
            })
            .map(|(key, _)| *key)
            .collect();
        for key in lost {
            self.shepherd_gone(key);
        }
    }

    /// A shepherd has ended: with an outcome, or without.
    pub fn shepherd_gone(&mut self, key: AttemptKey) {
        if let Some(outcome) = self.fixed.spool.outcome(key) {
            return self.end(key, outcome);
        }
        let kept = self
            .fixed
            .spool
            .open_launch(key)
            .and_then(|f| Ok((spool::read_launch::<Work>(&f)?, sys::lock_holder(&f)?)));
        match kept {
            // Another shepherd was quicker.
            Ok((kept, Some(pid))) => self.follow(key, pid, kept.start),
            Ok((kept, None)) if kept.phase == Phase::Started => {
                // Between the two looks it may have finished after all.
                match self.fixed.spool.outcome(key) {
                    Some(outcome) => self.end(key, outcome),
                    None => self.supervisor_lost(key, kept),
                }
            }
            Ok(_) => self.start_again(key),
            Err(e) => {
                let reason = format!("what the node kept of the job: {e}");
                self.end_unstarted(key, EndCause::LaunchFailed(reason));
            }
        }
    }

    fn start_again(&mut self, key: AttemptKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        attempt.tries += 1;
        if attempt.tries < SHEPHERD_TRIES {
            self.ask_for_shepherd(key);
        } else {
            let reason = "its shepherd on the node ended before it began".to_owned();
            self.end_unstarted(key, EndCause::LaunchFailed(reason));
        }
    }

    fn supervisor_lost(&mut self, key: AttemptKey, kept: Kept) {
        tracing::warn!(job = %key.job, "the shepherd of attempt {} was killed; cleaning up", key.attempt);
        let since = clock::moment_of(kept.start);
        self.set(key, Stage::Cleaning { since });
        let groups: Vec<Group> = match kept.work {
            Work::Run(task) => task.groups,
            Work::Hold(_) => Vec::new(),
        };
        let lost = sweep::Lost {
            mark: self.mark(key),
            uid: self.attempts.get(&key).map_or(0, |a| a.uid),
            groups,
            start: kept.start,
            shepherd: None,
            with_steps: false,
            cause: EndCause::SupervisorLost,
        };
        self.sweep(key, lost);
    }

    fn sweep(&self, key: AttemptKey, lost: sweep::Lost) {
        let events = self.fixed.events.clone();
        tokio::spawn(async move {
            let swept = tokio::task::spawn_blocking(move || sweep::sweep(&lost)).await;
            let outcome = swept.unwrap_or_else(|_| ended_now(EndCause::SupervisorLost));
            let _ = events.send(Event::Swept(key, outcome)).await;
        });
    }

    /// What a killed shepherd left is gone.
    pub fn swept(&mut self, key: AttemptKey, outcome: Outcome) {
        self.keep_outcome(key, &outcome);
        self.end(key, outcome);
    }

    fn keep_outcome(&self, key: AttemptKey, outcome: &Outcome) {
        if let Err(e) = self.fixed.spool.write_outcome(key, outcome) {
            tracing::error!(job = %key.job, "cannot keep its outcome: {e}");
        }
    }

    /// Nothing of it runs any more but steps, which are ended: then the epilog, once, then
    /// the end.
    fn end(&mut self, key: AttemptKey, mut outcome: Outcome) {
        if outcome.end.cause == EndCause::Cancelled && self.fixed.spool.was_alone(key) {
            outcome.end.cause = EndCause::NodeLost;
        }
        if self.steps.close(key, KillCause::Superseded) {
            let end = &outcome.end;
            let since = end.start.map(|start| clock::ago(end.end.since(start)));
            let then = Wind::End(outcome);
            return self.set(key, Stage::Winding { since, then });
        }
        if self.config.epilog.is_none() {
            return self.settle(key, outcome);
        }
        match self.fixed.spool.epilog(key) {
            Some(failure) => {
                outcome.drain = outcome.drain.or(failure);
                self.settle(key, outcome);
            }
            None => self.begin_epilog(key, Some(outcome)),
        }
    }

    fn begin_epilog(&mut self, key: AttemptKey, outcome: Option<Outcome>) {
        let hook = self.hook("epilog", key);
        self.set(key, Stage::Epilog { outcome });
        let Some(hook) = hook else {
            return self.epilog_done(key, Ok(()));
        };
        let (events, reaper) = (self.fixed.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let result = hook.run(reaper, Arc::new(Notify::new())).await;
            let _ = events
                .send(Event::Hook(HookEnd::Cleaned(key, result)))
                .await;
        });
    }

    /// A hook has ended.
    pub fn hook_ended(&mut self, end: HookEnd) {
        match end {
            HookEnd::Prepared(key, result) => self.prepared(key, result),
            HookEnd::Cleaned(key, result) => {
                let _ = self
                    .fixed
                    .spool
                    .mark_epilog(key, result.as_ref().err().map(String::as_str));
                self.epilog_done(key, result);
            }
        }
    }

    fn epilog_done(&mut self, key: AttemptKey, result: Result<(), String>) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        let Stage::Epilog { outcome } = &mut attempt.stage else {
            return;
        };
        let failure = result.err();
        match outcome.take() {
            Some(mut outcome) => {
                outcome.drain = outcome.drain.or(failure);
                self.settle(key, outcome);
            }
            None => self.released(key, failure),
        }
    }

    fn settle(&mut self, key: AttemptKey, mut outcome: Outcome) {
        outcome.drain = outcome.drain.or_else(|| self.steps.take_drain(key));
        self.tell_steps(key);
        let drain = outcome.drain.clone();
        self.report_ended(key, outcome.end.clone(), drain.clone());
        let stage = Stage::Ended {
            outcome,
            at: Instant::now(),
            synced: false,
        };
        self.set(key, stage);
        let released = self
            .attempts
            .get_mut(&key)
            .is_some_and(|a| std::mem::take(&mut a.release));
        if released {
            self.report_released(key, drain);
        }
    }

    fn released(&mut self, key: AttemptKey, drain: Option<String>) {
        let drain = drain.or_else(|| self.steps.take_drain(key));
        self.tell_steps(key);
        self.drop_attempt(key);
        self.report_released(key, drain);
    }

    fn drop_attempt(&mut self, key: AttemptKey) {
        self.attempts.remove(&key);
        self.steps.forget(key);
        // Its shepherds have removed theirs; steps leave the job's own.
        self.fixed.cgroups.remove_job(&spool::name_of(key));
        if let Err(e) = self.fixed.spool.remove(key) {
            tracing::warn!(job = %key.job, "spool: {e}");
        }
    }

    fn report_ended(&mut self, key: AttemptKey, end: End, drain: Option<String>) {
        let node = self.fixed.name.clone();
        self.reports.push(NodeReport::Ended {
            key,
            node,
            end,
            drain,
        });
    }

    fn report_released(&mut self, key: AttemptKey, drain: Option<String>) {
        let node = self.fixed.name.clone();
        self.reports.push(NodeReport::Released { key, node, drain });
    }

    fn insert(&mut self, key: AttemptKey, allocation: Option<&Allocation>, stage: Stage) {
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

    fn set(&mut self, key: AttemptKey, stage: Stage) {
        if let Some(attempt) = self.attempts.get_mut(&key) {
            attempt.stage = stage;
        }
    }

    // ---- from time to time

    /// Makes outcomes that wait for the controller survive the machine, elsewhere than on
    /// the event loop.
    pub fn sync_old_outcomes(&mut self) {
        let mut old = Vec::new();
        for (key, attempt) in &mut self.attempts {
            if let Stage::Ended { at, synced, .. } = &mut attempt.stage
                && !*synced
                && at.elapsed() >= SYNC_AFTER
            {
                *synced = true;
                old.push(self.fixed.spool.path(*key));
            }
        }
        if !old.is_empty() {
            tokio::task::spawn_blocking(move || {
                for directory in old {
                    // It may have been forgotten meanwhile.
                    let _ = spool::sync_outcome(&directory);
                }
            });
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
