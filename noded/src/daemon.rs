//! The daemon's one loop: orders, ends of processes, commands, timers, signals in;
//! reports out, as many per write as came up meanwhile.
//!
//! Nothing in here waits but the loop itself. What a node does is in [`crate::node`].

use crate::clock::{self, ControllerClock};
use crate::config::{self, CgroupUse, Config};
use crate::hooks::{Hook, Reaper};
use crate::lease::Lease;
use crate::link::{LinkEvent, Peer};
use crate::node::{Fixed, HookEnd, Node};
use crate::nursery::{Nursery, NurseryEvent, NurseryOptions};
use crate::peer::{pool::Pool, revoked::RevokedKeys, serve};
use crate::relay::{Relay, RelayEvent};
use crate::spool::{self, Outcome, Spool};
use crate::steps::serve::StepSocket;
use crate::steps::table::{Setup, StepEvent, Steps};
use crate::sys::{self, Reap};
use crate::virtual_nodes::VirtualNodes;
use crate::{cgroup, detect, link};
use anyhow::Context;
use cosy_model::node::{AttemptKey, NodeOrder, NodeReport, NodeSelf};
use cosy_model::{RefusalCode, Span, limits};
use cosy_proto::frame;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

/// Events that wait for the loop before their sources are held back.
const QUEUE: usize = 256;
/// How often old outcomes are looked for.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How long shepherds get to end their jobs after the lifeline's end.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// Before the controller says how often to report being alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// To the link.
    Link(LinkEvent),
    /// At the socket for commands.
    Relay(RelayEvent),
    /// From the nursery of shepherds.
    Nursery(NurseryEvent),
    /// A shepherd of an earlier daemon or nursery ended.
    ShepherdGone(AttemptKey),
    /// What a killed shepherd left is gone.
    Swept(AttemptKey, Outcome),
    /// A hook ended.
    Hook(HookEnd),
    /// The periodic health check ended.
    Health(Result<(), String>),
    /// Concerns steps.
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
    /// Configuration file.
    pub config: PathBuf,
    /// Its end stops everything.
    pub lifeline: Option<OwnedFd>,
    /// Told once when the controller has welcomed this daemon.
    pub ready: Option<OwnedFd>,
    /// Control group of the unit that jobs belong to, as in `/proc/PID/cgroup`.
    pub jobs_unit: Option<String>,
    /// It exists while the machine goes down.
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
    Virtual(VirtualNodes),
}

struct Daemon {
    config: Arc<Config>,
    options: Options,
    set_log: SetLog,
    nodes: Nodes,
    reaper: Reaper,
    events: mpsc::Sender<Event>,
    link: Option<mpsc::UnboundedSender<Vec<u8>>>,
    relay: Option<Relay>,
    step_socket: Option<StepSocket>,
    refused_keys: RevokedKeys,
    lease: Lease,
    /// The controller's.
    clock: ControllerClock,
    /// When it began: on a clock that counts sleep, and on one that does not.
    begun: (Duration, Instant),
    /// What the controller is told: where other nodes connect; empty: nowhere.
    reached_at: String,
    out: Vec<u8>,
    heartbeat: Duration,
    problem: Option<String>,
    checking: bool,
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
    let result = runtime.block_on(start(config, options, set_log));
    runtime.shutdown_background();
    result
}

async fn start(config: Config, options: Options, set_log: SetLog) -> anyhow::Result<()> {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    sys::become_subreaper().context("cannot become a child subreaper")?;
    sys::raise_file_limit();
    // Before any child: none may end unseen.
    let mut signals = Signals::new()?;
    let key = link::read_key(&config.key)?;
    let peer =
        Peer::new(config.controller.clone(), &key, config.controller_key).context("private key")?;
    let (events, mut queue) = mpsc::channel(QUEUE);
    let config = Arc::new(config);
    let reaper = Reaper::default();
    let own_dir = config.spool_dir.join(&config.name);
    let refused_keys = RevokedKeys::load(&own_dir.join("revoked"));
    let last_boot = std::fs::read_to_string(own_dir.join("boot")).ok();
    let same_boot = last_boot.as_deref() == Some(detect::boot_id().as_str());
    let lease = Lease::load(&own_dir, sys::since_boot(), same_boot);
    let clock = ControllerClock::default();
    let (nodes, reached_at) = match options.virtual_nodes {
        Some(count) => {
            let nodes =
                VirtualNodes::new(&config.name, count, config.controller_key, clock.clone());
            (Nodes::Virtual(nodes), String::new())
        }
        None => {
            let pool = Arc::new(Pool::new(Arc::clone(&key), refused_keys.clone()));
            let node = real_node(&config, &options, &events, &reaper, (pool, &clock))?;
            let listen = config.listen.as_deref();
            let memory = config.spool_dir.join(&config.name).join("port");
            let (listener, told) = serve::open(listen, &memory)
                .with_context(|| format!("listen {}", listen.unwrap_or(serve::DEFAULT_LISTEN)))?;
            serve::serve(listener, &key, refused_keys.clone(), events.clone())?;
            let told = config.address.clone().unwrap_or(told);
            (Nodes::Real(Box::new(node)), told)
        }
    };
    let step_socket = listen_for_steps(&config, &events)?;
    let relay = match &config.socket {
        Some(path) => Some(
            Relay::listen(path, events.clone())
                .with_context(|| format!("socket {}", path.display()))?,
        ),
        None => None,
    };
    let mut daemon = Daemon {
        config,
        options,
        set_log,
        nodes,
        reaper,
        events: events.clone(),
        link: None,
        relay,
        step_socket,
        refused_keys,
        lease,
        clock,
        begun: (sys::since_boot(), Instant::now()),
        reached_at,
        out: Vec::new(),
        heartbeat: HEARTBEAT,
        problem: None,
        checking: false,
    };
    tokio::spawn(link::keep_up(peer, events));
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let stop = daemon.turn(&mut queue, &mut signals).await;
    daemon.stop(stop, &mut queue, &mut signals).await;
    Ok(())
}

/// The socket for steps. One that was not configured may fail: the path of a spool can be
/// longer than a socket's may be.
fn listen_for_steps(
    config: &Config,
    events: &mpsc::Sender<Event>,
) -> anyhow::Result<Option<StepSocket>> {
    let path = config.step_socket();
    match StepSocket::listen(&path, events.clone()) {
        Ok(socket) => Ok(Some(socket)),
        Err(e) if config.step_socket.is_some() => {
            Err(e).with_context(|| format!("step_socket {}", path.display()))
        }
        Err(e) => {
            tracing::warn!(
                "no steps can be started here: socket {}: {e}",
                path.display()
            );
            Ok(None)
        }
    }
}

/// What the steps of a node need to know.
fn steps_setup(
    config: &Config,
    events: &mpsc::Sender<Event>,
    spool: &Spool,
    cgroups: &Arc<cgroup::Cgroups>,
    (pool, clock): (Arc<Pool>, &ControllerClock),
) -> Setup {
    let processors = detect::processors();
    let real = detect::amounts(config).cores as usize <= processors.len();
    let shared = config.cgroups == CgroupUse::Memory;
    Setup {
        name: config.name.clone(),
        directory: spool.directory().to_owned(),
        instance: spool::instance(spool.directory(), &config.name),
        controller: config.controller_key,
        clock: clock.clone(),
        cgroups: Arc::clone(cgroups),
        devices: Arc::new(config.devices.clone()),
        processors: match real && !shared {
            true => processors,
            false => Vec::new(),
        },
        variables: config.variables(),
        pool,
        events: events.clone(),
        protected: detect::protected_from_oom(),
    }
}

fn real_node(
    config: &Arc<Config>,
    options: &Options,
    events: &mpsc::Sender<Event>,
    reaper: &Reaper,
    (pool, clock): (Arc<Pool>, &ControllerClock),
) -> anyhow::Result<Node> {
    let spool = Spool::open(&config.spool_dir, &config.name)?;
    if sys::own_uid().0 != 0 {
        tracing::info!(
            "not run as root: only jobs of uid {} run here",
            sys::own_uid()
        );
    } else if let Err(part) = spool::reachable(spool.directory()) {
        tracing::warn!(
            "{} is closed to others than its owner: scripts of other users cannot run",
            part.display()
        );
    }
    let instance = spool::instance(spool.directory(), &config.name);
    let jobs_unit = options.jobs_unit.clone();
    let groups = Arc::new(groups(config, jobs_unit.as_deref(), &instance));
    let nursery_options = NurseryOptions {
        lifeline: options.lifeline.as_ref().map(AsRawFd::as_raw_fd),
        jobs_unit,
        shutdown_file: options.shutdown_file.clone(),
    };
    let nursery = Nursery::start(spool.directory(), &nursery_options, events.clone())
        .context("cannot start the nursery of shepherds")?;
    let setup = steps_setup(config, events, &spool, &groups, (pool, clock));
    let steps = Steps::new(setup, &nursery);
    let fixed = Fixed {
        name: config.name.clone(),
        spool,
        cgroups: groups,
        nursery_options,
        controller: config.controller_key,
        clock: clock.clone(),
        instance,
        events: events.clone(),
    };
    let mut node = Node::new(fixed, nursery, Arc::clone(config), reaper.clone(), steps);
    node.adopt(&detect::boot_id())
        .with_context(|| format!("spool {}", config.spool_dir.display()))?;
    if node.count() > 0 {
        tracing::info!("took up {} attempts from the spool", node.count());
    }
    Ok(node)
}

fn groups(config: &Config, jobs_unit: Option<&str>, instance: &str) -> cgroup::Cgroups {
    for file in config.devices.bad_files() {
        let file = file.display();
        tracing::warn!("{file} is no device, or not there: nobody can be kept from it");
    }
    if config.cgroups == CgroupUse::Nothing {
        tracing::info!(
            "no control groups, as configured: limits of memory and devices are not enforced"
        );
        return cgroup::Cgroups::none();
    }
    let cores = detect::amounts(config).cores;
    let (groups, missing) = cgroup::Cgroups::detect(
        instance,
        jobs_unit,
        cores,
        config.cgroups == CgroupUse::Everything,
        detect::processors(),
        config.devices.have_files(),
    );
    for text in missing {
        tracing::warn!("{text}");
    }
    groups.with_processes(config.job_processes)
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
            watchdog,
        }
    }

    fn next(&self) -> Instant {
        let watchdog = self.watchdog.map(|(at, _)| at);
        [self.heartbeat, self.sync, self.health]
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
            Event::Link(LinkEvent::Up(sender)) => self.register(sender),
            Event::Link(LinkEvent::Orders(orders)) => {
                for order in orders {
                    self.obey(order);
                }
            }
            Event::Link(LinkEvent::Down) => self.link_down(),
            Event::Link(LinkEvent::Absent(at)) => self.lease.is_absent(at),
            Event::Relay(event) => self.relay_event(event),
            Event::Health(result) => self.health(result),
            Event::Nursery(event) => self.real(|node| node.nursery_event(event)),
            Event::ShepherdGone(key) => self.real(|node| node.shepherd_gone(key)),
            Event::Swept(key, outcome) => self.real(|node| node.swept(key, outcome)),
            Event::Hook(end) => self.real(|node| node.hook_ended(end)),
            Event::Step(event) => self.step_event(*event),
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
            (Nodes::Virtual(_), StepEvent::Asked(asked)) => asked.connection.refuse(
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

    // ---- the link

    fn register(&mut self, sender: mpsc::UnboundedSender<Vec<u8>>) {
        // What came up while there was no link is in the inventory.
        drop(self.take_reports());
        self.out.clear();
        self.link = Some(sender);
        let inventory = match &self.nodes {
            Nodes::Real(node) => node.inventory(),
            Nodes::Virtual(nodes) => nodes.inventory(),
        };
        let nodes = self.describe();
        self.lease.registers(sys::since_boot());
        self.say(&NodeReport::Register {
            nodes,
            inventory,
            seen: self.lease.seen(),
            clock: Some(sys::now()),
        });
        self.say_figures();
        self.real(Node::repeat_reports);
        if self.problem.is_some() {
            self.say_health();
        }
        self.send_reports();
    }

    fn describe(&self) -> Vec<NodeSelf> {
        let names = match &self.nodes {
            Nodes::Real(_) => std::slice::from_ref(&self.config.name),
            Nodes::Virtual(nodes) => nodes.names(),
        };
        let real = matches!(self.nodes, Nodes::Real(_));
        let own = sys::own_uid();
        let amounts = detect::amounts(&self.config);
        let boot_id = detect::boot_id();
        let machine = detect::machine();
        names
            .iter()
            .map(|name| NodeSelf {
                name: name.clone(),
                amounts: amounts.clone(),
                gpu_types: self.config.devices.gpu_types(),
                devices: self.config.devices.others.keys().cloned().collect(),
                features: self.config.features.clone(),
                boot_id: boot_id.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                only_uid: (real && own.0 != 0).then_some(own),
                listen: self.reached_at.clone(),
                step_socket: self.step_socket_path(),
                machine: machine.clone(),
            })
            .collect()
    }

    fn step_socket_path(&self) -> String {
        match &self.step_socket {
            Some(_) => self.config.step_socket().display().to_string(),
            None => String::new(),
        }
    }

    fn link_down(&mut self) {
        self.link = None;
        if let Some(relay) = &self.relay {
            relay.drop_all();
        }
    }

    fn say(&mut self, report: &NodeReport) {
        if self.link.is_none() {
            return;
        }
        match frame::encode(report, limits::FRAME_BYTES) {
            Ok(bytes) => self.out.extend(bytes),
            Err(e) => tracing::error!("a report cannot be sent: {e}"),
        }
    }

    fn say_figures(&mut self) {
        let mut figures = detect::figures();
        if let Nodes::Real(_) = &self.nodes {
            figures.number = self.lease.next_report(sys::since_boot());
        }
        self.say(&NodeReport::Figures(figures));
    }

    fn look_at_lease(&mut self) {
        let now = sys::since_boot();
        let awake = self.begun.1.elapsed();
        let slept = now.saturating_sub(self.begun.0).saturating_sub(awake);
        if self.lease.wakes(now, slept) {
            tracing::info!("this machine has slept");
            self.say_figures();
        }
        if self.lease.is_just_over(now) {
            let silence = self.lease.silence(now).as_secs();
            tracing::warn!(
                "no word from the controller for {silence} s: jobs that may run again elsewhere are ended here"
            );
        }
        if self.lease.is_over(now) {
            self.real(Node::end_alone);
        }
    }

    fn take_reports(&mut self) -> Vec<NodeReport> {
        match &mut self.nodes {
            Nodes::Real(node) => node.take_reports(),
            Nodes::Virtual(nodes) => nodes.take_reports(),
        }
    }

    fn send_reports(&mut self) {
        for report in self.take_reports() {
            self.say(&report);
        }
        if let (Some(link), false) = (&self.link, self.out.is_empty()) {
            let _ = link.send(std::mem::take(&mut self.out));
        }
    }

    fn obey(&mut self, order: NodeOrder) {
        match order {
            NodeOrder::Welcome {
                cluster,
                heartbeat,
                unknown,
                revoked,
                alone,
                now,
            } => {
                if let Some(now) = now {
                    self.clock.set(now);
                }
                self.refused_keys.add(revoked);
                if let Nodes::Real(_) = &self.nodes {
                    self.lease.welcomed(alone);
                }
                self.welcome(&cluster, heartbeat, &unknown);
            }
            NodeOrder::RelayReply { connection, frame } => {
                if let Some(relay) = &self.relay {
                    relay.answer(connection, frame);
                }
            }
            NodeOrder::Heard { number, mark } => self.lease.heard(number, mark),
            NodeOrder::Leaving => self.lease.stops(),
            // Waited in a buffer while this node was given up: it is ordered anew if it is
            // still wanted.
            NodeOrder::Prepare(_) | NodeOrder::Launch(_)
                if self.lease.is_over(sys::since_boot()) => {}
            order => match &mut self.nodes {
                Nodes::Real(node) => obey_real(node, order),
                Nodes::Virtual(nodes) => obey_virtual(nodes, order),
            },
        }
    }

    fn welcome(&mut self, cluster: &str, heartbeat: Span, unknown: &[String]) {
        tracing::info!("welcomed by the controller of cluster {cluster}");
        for name in unknown {
            tracing::warn!("node {name} is not in the controller's configuration: it gets no jobs");
        }
        self.heartbeat = Duration::from_millis(heartbeat.ms().clamp(100, 3_600_000) as u64);
        if let Some(fd) = self.options.ready.take() {
            let _ = File::from(fd).write_all(b"ready\n");
        }
    }

    // ---- commands on this host

    fn relay_event(&mut self, event: RelayEvent) {
        match event {
            RelayEvent::Frame { connection, .. } if self.link.is_none() => {
                if let Some(relay) = &self.relay {
                    relay.refuse(connection);
                }
            }
            RelayEvent::Frame {
                connection,
                uid,
                gid,
                frame,
            } => {
                let node = match &self.nodes {
                    Nodes::Real(_) => self.config.name.clone(),
                    Nodes::Virtual(nodes) => nodes.names().first().cloned().unwrap_or_default(),
                };
                self.say(&NodeReport::RelayRequest {
                    connection,
                    node,
                    uid,
                    gid,
                    frame,
                });
            }
            RelayEvent::Closed { connection } => {
                self.say(&NodeReport::RelayClosed { connection });
            }
        }
    }

    // ---- timers and signals

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
        if let Some((at, every)) = &mut timers.watchdog
            && now >= *at
        {
            *at = now + *every;
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }

    fn check_health(&mut self) {
        let Nodes::Real(_) = &self.nodes else { return };
        let Some(command) = self.config.health_check.clone() else {
            return;
        };
        if std::mem::replace(&mut self.checking, true) {
            return;
        }
        let hook = Hook {
            kind: "health check",
            command,
            timeout: self.config.hook_timeout,
            environment: vec![("COSY_NODENAME", self.config.name.clone())],
        };
        let (events, reaper) = (self.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let result = hook.run(reaper, Arc::new(Notify::new())).await;
            let _ = events.send(Event::Health(result)).await;
        });
    }

    fn health(&mut self, result: Result<(), String>) {
        self.checking = false;
        let problem = result.err();
        if problem != self.problem {
            self.problem = problem;
            self.say_health();
        }
    }

    fn say_health(&mut self) {
        if let Some(text) = &self.problem {
            tracing::warn!("{text}");
        }
        self.say(&NodeReport::Health {
            node: self.config.name.clone(),
            problem: self.problem.clone(),
        });
    }

    /// Reads the configuration again: hooks, features, log. What a running daemon cannot
    /// change is left and said.
    fn reload(&mut self) {
        let new = match config::read(&self.options.config) {
            Ok(new) => new,
            Err(faults) => {
                return tracing::error!("the configuration stays as it was: {faults}");
            }
        };
        let old = &*self.config;
        let same = old.name == new.name
            && old.controller == new.controller
            && old.controller_key == new.controller_key
            && old.key == new.key
            && old.spool_dir == new.spool_dir
            && old.socket == new.socket
            && old.step_socket == new.step_socket
            && old.listen == new.listen
            && old.address == new.address
            && old.cgroups == new.cgroups
            && old.job_processes == new.job_processes;
        if !same {
            tracing::warn!(
                "name, controller, keys, spool, sockets, addresses, cgroup and job_processes change only with a restart"
            );
        }
        let merged = Config {
            name: old.name.clone(),
            controller: old.controller.clone(),
            controller_key: old.controller_key,
            key: old.key.clone(),
            spool_dir: old.spool_dir.clone(),
            socket: old.socket.clone(),
            step_socket: old.step_socket.clone(),
            listen: old.listen.clone(),
            address: old.address.clone(),
            cgroups: old.cgroups,
            job_processes: old.job_processes,
            ..new
        };
        let described = self.describe();
        if self.options.log.is_none()
            && let Err(e) = (self.set_log)(&merged.log)
        {
            tracing::error!("log: {e:#}");
        }
        self.config = Arc::new(merged);
        let config = Arc::clone(&self.config);
        self.real(|node| node.reconfigure(config));
        if described != self.describe() {
            // Without its sender the link ends; the next one tells what is new.
            self.link = None;
        }
        self.check_health();
        tracing::info!("configuration read again");
    }

    // ---- the end

    async fn stop(&mut self, why: Stop, queue: &mut mpsc::Receiver<Event>, signals: &mut Signals) {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        if let Some(relay) = &self.relay {
            relay.close();
        }
        if let Some(socket) = &self.step_socket {
            socket.close();
        }
        match (why, &self.nodes) {
            (_, Nodes::Virtual(_)) => {}
            (Stop::Asked, Nodes::Real(node)) => {
                tracing::info!("stopping; jobs go on");
                node.leave();
            }
            (Stop::LifelineEnded, Nodes::Real(_)) => {
                self.wait_for_shepherds(queue, signals).await;
                if let Nodes::Real(node) = &self.nodes {
                    node.vanish();
                }
            }
        }
    }

    /// Shepherds hold the same lifeline and end by themselves.
    async fn wait_for_shepherds(
        &mut self,
        queue: &mut mpsc::Receiver<Event>,
        signals: &mut Signals,
    ) {
        let until = Instant::now() + LAST_MOMENTS;
        self.reap();
        while matches!(&self.nodes, Nodes::Real(node) if node.is_busy()) {
            tokio::select! {
                _ = signals.child.recv() => self.reap(),
                Some(event) = queue.recv() => match event {
                    // No new work any more.
                    Event::Link(_) | Event::Relay(_) => {}
                    Event::Step(event) if event.is_new_work() => {}
                    event => self.take(event),
                },
                () = sleep_until(until) => return,
            }
        }
    }
}

fn obey_real(node: &mut Node, order: NodeOrder) {
    match order {
        NodeOrder::Prepare(allocation) => node.order_prepare(allocation),
        NodeOrder::Launch(launch) => node.order_launch(launch),
        NodeOrder::Kill { key, cause, .. } => node.order_kill(key, cause),
        NodeOrder::Signal {
            key,
            signal,
            script_only,
            steps_only,
            ..
        } => node.order_signal(key, signal, script_only, steps_only),
        NodeOrder::Note { key, text, .. } => node.order_note(key, &text),
        NodeOrder::Suspend { key, .. } => node.order_suspend(key),
        NodeOrder::Resume { key, .. } => node.order_resume(key),
        NodeOrder::Limit { key, limit, .. } => node.order_limit(key, limit),
        NodeOrder::Release { key, .. } => node.order_release(key),
        NodeOrder::Forget { key, .. } => node.order_forget(key),
        NodeOrder::StepsTaken { key, count, .. } => node.order_steps_taken(key, count),
        NodeOrder::Passage { number, passage } => node.order_passage(number, passage),
        NodeOrder::Moved { peer, .. } => node.order_moved(peer),
        NodeOrder::Welcome { .. }
        | NodeOrder::RelayReply { .. }
        | NodeOrder::Heard { .. }
        | NodeOrder::Leaving => {}
    }
}

fn obey_virtual(nodes: &mut VirtualNodes, order: NodeOrder) {
    let now = clock::date();
    match order {
        NodeOrder::Prepare(allocation) => nodes.order_prepare(&allocation),
        NodeOrder::Launch(launch) => nodes.order_launch(&launch, now),
        NodeOrder::Kill { key, node, cause } => nodes.order_kill(key, &node, cause, now),
        NodeOrder::Signal {
            key, node, signal, ..
        } => nodes.order_signal(key, &node, signal, now),
        NodeOrder::Release { key, node } => nodes.order_release(key, &node, now),
        NodeOrder::Forget { key, node } => nodes.order_forget(key, &node),
        // Programs that are only imagined run on, to the end that they began with.
        NodeOrder::Suspend { .. } | NodeOrder::Resume { .. } | NodeOrder::Limit { .. } => {}
        NodeOrder::Note { .. } => {}
        NodeOrder::StepsTaken { .. } | NodeOrder::Passage { .. } | NodeOrder::Moved { .. } => {}
        NodeOrder::Welcome { .. }
        | NodeOrder::RelayReply { .. }
        | NodeOrder::Heard { .. }
        | NodeOrder::Leaving => {}
    }
}

/// Waits for the end of the lifeline; forever without one.
async fn ended(lifeline: Option<&AsyncFd<OwnedFd>>) {
    match lifeline {
        Some(fd) => drop(fd.readable().await),
        None => std::future::pending().await,
    }
}
