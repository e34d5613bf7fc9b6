//! The daemon's one loop: orders, ends of processes, commands, timers, signals in;
//! reports out, as many per write as came up meanwhile.
//!
//! Nothing in here waits but the loop itself. What a node does is in [`crate::node`].

mod commands;
mod gpus;
mod health;
mod orders;
mod reload;
mod reports;
mod sampling;
mod start;
mod stop;

use crate::clock::{self, ControllerClock};
use crate::config::Config;
use crate::detect;
use crate::gpus::GpusFound;
use crate::gpus::watch::Gpus;
use crate::hooks::Reaper;
use crate::lease::Lease;
use crate::link::{LinkEvent, ObeyedLink};
use crate::login::LoginSocket;
use crate::node::{HookEnd, Node};
use crate::nursery::NurseryEvent;
use crate::peer::revoked::RevokedKeys;
use crate::relay::{Relay, RelayEvent};
use crate::samples::Look;
use crate::spool::Outcome;
use crate::steps::serve::StepSocket;
use crate::steps::table::StepEvent;
use crate::sys::{self, Reap};
use crate::virtual_nodes::VirtualNodes;
use anyhow::Context;
use cosy_model::node::AllocationKey;
use cosy_model::{EndCause, RefusalCode};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How often old outcomes are looked for.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Before the controller says how often to report being alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What wakes the daemon's loop.
#[derive(Debug)]
pub enum Event {
    /// Something that happened to the link to the controller.
    Link(LinkEvent),
    /// At the socket for commands.
    Relay(RelayEvent),
    /// From the nursery of shepherds.
    Nursery(NurseryEvent),
    /// A shepherd of an earlier daemon or nursery ended.
    ShepherdGone(AllocationKey),
    /// What a killed shepherd left is gone.
    Swept(AllocationKey, Outcome),
    /// A hook ended.
    Hook(HookEnd),
    /// What the jobs use was measured.
    Sampled(Look),
    /// Whether all GPUs are there, or why that is not known.
    GpuLook(Result<GpusFound, String>),
    /// The helper that looked for them has ended.
    GpuLookOver,
    /// The periodic health check ended.
    Health(Result<(), String>),
    /// Something that concerns a step.
    Step(Box<StepEvent>),
}

impl From<LinkEvent> for Event {
    fn from(event: LinkEvent) -> Self {
        Self::Link(event)
    }
}

impl From<RelayEvent> for Event {
    fn from(event: RelayEvent) -> Self {
        Self::Relay(event)
    }
}

/// What the command line says.
#[derive(Debug, Default)]
pub struct Options {
    /// Path of the configuration file.
    pub config: PathBuf,
    /// Descriptor whose end stops the daemon and everything below it.
    pub lifeline: Option<OwnedFd>,
    /// Told once when the controller has welcomed this daemon.
    pub ready: Option<OwnedFd>,
    /// Control group of the unit that jobs belong to, as in `/proc/PID/cgroup`.
    pub jobs_unit: Option<String>,
    /// File that exists while the machine goes down.
    pub shutdown_file: Option<PathBuf>,
    /// Plays so many nodes.
    pub virtual_nodes: Option<u32>,
    /// Instead of the configuration's.
    pub log: Option<String>,
}

/// Changes what is logged.
pub type SetLog = Box<dyn Fn(&str) -> anyhow::Result<()>>;

/// The nodes that this daemon plays.
enum Nodes {
    Real(Box<Node>),
    Virtual(Box<VirtualNodes>),
}

struct Daemon {
    config: Arc<Config>,
    options: Options,
    set_log: SetLog,
    nodes: Nodes,
    reaper: Reaper,
    events: mpsc::Sender<Event>,
    link: Option<mpsc::UnboundedSender<Vec<u8>>>,
    obeyed: ObeyedLink,
    relay: Option<Relay>,
    step_socket: Option<StepSocket>,
    login_socket: Option<LoginSocket>,
    refused_keys: RevokedKeys,
    lease: Lease,
    /// The controller's clock, as far as this node knows it.
    clock: ControllerClock,
    /// When it began: on a clock that counts sleep, and on one that does not.
    begun: (Duration, Instant),
    /// What the controller is told: where other nodes connect; empty: nowhere.
    reached_at: String,
    out: Vec<u8>,
    heartbeat: Duration,
    problem: Option<String>,
    gpus: Gpus,
    checking: Checking,
    /// Jobs are being measured.
    sampling: bool,
}

/// How far a health check is.
#[derive(Clone, Copy, Default)]
struct Checking {
    /// It runs.
    now: bool,
    /// It is to run once more after that.
    again: bool,
}

/// Why the loop ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    Asked,
    LifelineEnded,
}

/// Runs the daemon until it is asked to stop.
///
/// # Errors
/// It cannot start.
pub fn run(config: Config, options: Options, set_log: SetLog) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_keep_alive(Duration::from_secs(1))
        .build()
        .context("cannot start the event loop")?;
    let result = runtime.block_on(work(config, options, set_log));
    runtime.shutdown_background();
    result
}

async fn work(mut config: Config, options: Options, set_log: SetLog) -> anyhow::Result<()> {
    detect::check_reserved(&config).map_err(anyhow::Error::msg)?;
    let gpus = match options.virtual_nodes {
        Some(_) => Gpus::default(),
        None => Gpus::at_start(&mut config).await,
    };
    let (mut daemon, mut queue, mut signals) = Daemon::start(config, options, set_log, gpus)?;
    let stop = daemon.turn(&mut queue, &mut signals).await;
    daemon.stop(stop, &mut queue, &mut signals).await;
    Ok(())
}

/// The signals that the daemon listens to.
struct Signals {
    child: Signal,
    reload: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self {
            child: on(SignalKind::child())?,
            reload: on(SignalKind::hangup())?,
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }
}

/// The next moments at which something is to be done.
struct Timers {
    heartbeat: Instant,
    sync: Instant,
    health: Instant,
    sample: Instant,
    watchdog: Option<(Instant, Duration)>,
}

impl Timers {
    fn new(config: &Config) -> Self {
        let now = Instant::now();
        let watchdog = sd_notify::watchdog_enabled().map(|limit| (now, limit / 2));
        Self {
            heartbeat: now + HEARTBEAT,
            sync: now + SYNC_INTERVAL,
            health: now + config.health_interval,
            sample: now + config.sampling.pause(),
            watchdog,
        }
    }

    fn next(&self) -> Instant {
        let watchdog = self.watchdog.map(|(at, _)| at);
        [self.heartbeat, self.sync, self.health, self.sample]
            .into_iter()
            .chain(watchdog)
            .min()
            .unwrap_or(self.sync)
    }
}

impl Daemon {
    async fn turn(&mut self, queue: &mut mpsc::Receiver<Event>, signals: &mut Signals) -> Stop {
        let lifeline = self.options.lifeline.take();
        let lifeline = lifeline.and_then(|fd| sys::watch(fd).ok());
        let mut timers = Timers::new(&self.config);
        self.check_health();
        loop {
            tokio::select! {
                Some(event) = queue.recv() => {
                    self.take(event);
                    while let Ok(event) = queue.try_recv() {
                        self.take(event);
                    }
                }
                _ = signals.child.recv() => self.reap(),
                _ = signals.reload.recv() => self.reload(),
                _ = signals.terminate.recv() => return Stop::Asked,
                _ = signals.interrupt.recv() => return Stop::Asked,
                () = ended(lifeline.as_ref()) => return Stop::LifelineEnded,
                () = sleep_until(timers.next()) => self.on_time(&mut timers),
                () = self.virtual_end() => {}
            }
            if let Nodes::Virtual(nodes) = &mut self.nodes {
                nodes.advance(clock::date());
            }
            self.send_reports();
        }
    }

    /// Waits until a virtual job is due.
    async fn virtual_end(&self) {
        let next = match &self.nodes {
            Nodes::Virtual(nodes) => nodes.next_end(),
            Nodes::Real(_) => None,
        };
        match next {
            Some(at) => {
                let left = at.since(clock::date()).ms().unsigned_abs();
                tokio::time::sleep(Duration::from_millis(left)).await;
            }
            None => std::future::pending().await,
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Link(event) => self.link_event(event),
            Event::Relay(event) => self.relay_event(event),
            Event::Health(result) => self.health(result),
            Event::GpuLook(result) => self.gpus_looked_at(result),
            Event::GpuLookOver => self.gpus.end(),
            Event::Sampled(found) => self.sampled(&found),
            Event::Nursery(event) => self.real(|node| node.nursery_event(event)),
            Event::ShepherdGone(key) => self.real(|node| node.shepherd_gone(key)),
            Event::Swept(key, outcome) => {
                let failed = outcome.end.cause == EndCause::SupervisorLost;
                self.real(|node| node.swept(key, outcome));
                if failed {
                    self.check_health_after_failure();
                }
            }
            Event::Hook(end) => self.real(|node| node.hook_ended(end)),
            Event::Step(event) => self.step_event(*event),
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(tag, sender) => {
                let replaces = self.obeyed.is_up();
                if self.obeyed.begins(tag) {
                    if replaces {
                        self.link_down();
                    }
                    self.register(sender);
                }
            }
            LinkEvent::Orders(tag, orders) if self.obeyed.obeys(tag) => {
                tracing::debug!("obeys {} orders of epoch {}", orders.len(), tag.epoch());
                for order in orders {
                    self.obey(order);
                }
            }
            LinkEvent::Orders(tag, orders) => {
                let (number, epoch) = (orders.len(), tag.epoch());
                tracing::info!(
                    "{number} orders of a link that was superseded are void (epoch {epoch})"
                );
            }
            LinkEvent::Down(tag) if self.obeyed.ends(tag) => self.link_down(),
            LinkEvent::Down(_) => {}
            LinkEvent::Absent(at) => self.lease.is_absent(at),
        }
    }

    fn real(&mut self, act: impl FnOnce(&mut Node)) {
        if let Nodes::Real(node) = &mut self.nodes {
            act(node);
        }
    }

    fn step_event(&mut self, event: StepEvent) {
        match (&mut self.nodes, event) {
            (Nodes::Real(node), event) => node.step_event(event),
            (Nodes::Virtual(_), StepEvent::CommandRequest(incoming)) => incoming.connection.refuse(
                RefusalCode::WrongState,
                "the nodes of this daemon are virtual: they run nothing, and no steps either",
            ),
            (Nodes::Virtual(_), _) => {}
        }
    }

    fn reap(&mut self) {
        while let Reap::One(reaped) = sys::reap() {
            // Others are orphans that came here, and nurseries, whose end is seen
            // otherwise.
            self.reaper.tell(reaped);
        }
    }

    fn on_time(&mut self, timers: &mut Timers) {
        let now = Instant::now();
        timers.heartbeat = timers.heartbeat.min(now + self.heartbeat);
        if now >= timers.heartbeat {
            timers.heartbeat = now + self.heartbeat;
            self.say_figures();
        }
        if now >= timers.sync {
            self.look_at_lease();
            timers.sync = now + SYNC_INTERVAL;
            self.real(Node::sync_old_outcomes);
            self.real(Node::tell_of_steps);
        }
        if now >= timers.health {
            timers.health = now + self.config.health_interval;
            self.check_health();
        }
        if now >= timers.sample {
            timers.sample = now + self.config.sampling.pause();
            self.sample();
        }
        if let Some((at, every)) = &mut timers.watchdog
            && now >= *at
        {
            *at = now + *every;
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }
}

/// Waits for the end of the lifeline; forever without one.
async fn ended(lifeline: Option<&AsyncFd<OwnedFd>>) {
    match lifeline {
        Some(fd) => drop(fd.readable().await),
        None => std::future::pending().await,
    }
}
