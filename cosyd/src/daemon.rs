//! Putting the daemon together, and taking it apart again.

use crate::allocator;
use crate::archiver::Archiver;
use crate::background::{self, Background, InForce, Workers};
use crate::clients::{self, Budgets, Pools, Services, Times};
use crate::config::{self, Config, DaemonConfig};
use crate::current_work::{LastCrash, WorkPage};
use crate::end::End;
use crate::engine::{self, Input, Parts};
use crate::house;
use crate::hub::Hub;
use crate::links::{self, Switchboard};
use crate::memory::Memory;
use crate::meter::Meter;
use crate::recovery::{self, Recovered};
use crate::standby::Standby;
use crate::standby_start;
use crate::store::{Location, Store};
use crate::submit::Gate;
use crate::ticks;
use anyhow::{Context, bail};
use cosy_control::{ClusterConfig, Event};
use cosy_proto::keys::KeyPair;
use cosy_proto::tls;
use nix::fcntl::Flock;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

/// Events that may wait for the core thread.
const MAILBOX: usize = 4096;
/// File descriptors that are asked for: for nodes, commands and files.
const FILES: u64 = 65_536;
/// Between two tries to start on a disk that is full.
const ROOM_PAUSE: Duration = Duration::from_secs(2);
/// With less than so many bytes free, a disk is full.
const ROOM_BYTES: u64 = 1 << 20;
/// Threads of the event loop's own for what may block; whatever does has threads of its own.
const BLOCKING_THREADS: usize = 2;

/// The command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the configuration file.
    pub config: PathBuf,
    /// Which of several controllers this is; without, the one with the host's name.
    pub name: Option<String>,
    /// Only checks the configuration file.
    pub check: bool,
    /// Log filter, instead of the configuration's.
    pub log: Option<String>,
    /// Told when commands are answered.
    pub ready_fd: Option<i32>,
    /// A pipe whose end stops the daemon.
    pub lifeline_fd: Option<i32>,
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// Whatever keeps it from starting.
pub fn run(options: &Options, config: Config) -> anyhow::Result<()> {
    start_log(options.log.as_deref().unwrap_or(&config.daemon.log))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_secs(5))
        .build()
        .context("no event loop")?;
    let mut signals = runtime.block_on(async { Signals::new(options) })?;
    let started = match runtime.block_on(start_with_room(options, config, &mut signals)) {
        Err(e) if e.is::<standby_start::LeadLost>() => {
            tracing::warn!("{e}");
            return begin_anew(&signals);
        }
        started => started?,
    };
    let Some(mut local) = started else {
        return Ok(());
    };
    let end = runtime.block_on(stay(options, &mut signals, &mut local))?;
    if end == End::Deposed {
        return begin_anew(&signals);
    }
    let next = match &end {
        End::HandOver(next) => next.clone(),
        End::Stop | End::Deposed => String::new(),
    };
    *crate::clients::lock(&local.next) = next;
    runtime.block_on(async { local.core.send(Input::Stop).await })?;
    local.engine.join();
    runtime.block_on(local.hub.leave());
    let _ = fs::remove_file(&local.daemon.socket);
    runtime.shutdown_timeout(Duration::from_millis(200));
    match end {
        End::HandOver(_) => begin_anew(&signals),
        End::Stop | End::Deposed => Ok(()),
    }
}

/// This program again, in the same process, with nothing of what it knew.
fn begin_anew(signals: &Signals) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Status("begins anew, to stand by")]);
    let mut again = std::process::Command::new("/proc/self/exe");
    let mut arguments = std::env::args_os();
    again.arg0(arguments.next().unwrap_or_else(|| "cosyd".into()));
    let mut is_ready_fd = false;
    for argument in arguments {
        // Whoever waited for the first word has had it.
        let text = argument.to_string_lossy();
        if std::mem::replace(&mut is_ready_fd, text == "--ready-fd")
            || text.starts_with("--ready-fd")
        {
            continue;
        }
        again.arg(argument);
    }
    if let Some(fd) = signals.lifeline.as_ref().map(AsRawFd::as_raw_fd) {
        // SAFETY: the descriptor is open; its flag alone is changed, so that it stays open.
        unsafe { nix::libc::fcntl(fd, nix::libc::F_SETFD, 0) };
    }
    Err(again.exec()).context("cannot begin anew")
}

fn start_log(filter: &str) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .with_context(|| format!("'{filter}' is no log level"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    Ok(())
}

/// The running daemon.
pub(crate) struct Running {
    engine: engine::Engine,
    core: mpsc::Sender<Input>,
    daemon: DaemonConfig,
    hub: Arc<Hub>,
    in_force: InForce,
    ends: mpsc::Receiver<End>,
    /// Who comes first when the lead is laid down.
    next: Arc<Mutex<String>>,
    _lock: Flock<File>,
}

/// Starts; where that fails on a disk that is full it is tried again until there is room: who
/// gives up stays away, as service managers start nothing for ever. `None`: it was told to stop.
async fn start_with_room(
    options: &Options,
    config: Config,
    signals: &mut Signals,
) -> anyhow::Result<Option<Running>> {
    let dir = config.daemon.state_dir.clone();
    loop {
        let error = match start(options, config.clone(), signals).await {
            Ok(running) => return Ok(running),
            Err(error) => error,
        };
        if !is_full(&dir) {
            return Err(error);
        }
        let secs = ROOM_PAUSE.as_secs();
        tracing::error!(
            "cannot start: {error:#}; the disk of {} is full: it is tried again in {secs} s",
            dir.display()
        );
        let usec = u32::try_from(4 * ROOM_PAUSE.as_micros()).unwrap_or(u32::MAX);
        let _ = sd_notify::notify(&[
            sd_notify::NotifyState::Status("waits for room on its disk"),
            sd_notify::NotifyState::ExtendTimeoutUsec(usec),
        ]);
        tokio::time::sleep(ROOM_PAUSE).await;
    }
}

/// Whether next to nothing can be written there.
fn is_full(dir: &Path) -> bool {
    let free = nix::sys::statvfs::statvfs(dir);
    free.is_ok_and(|s| s.blocks_available().saturating_mul(s.fragment_size()) < ROOM_BYTES)
}

/// What the daemon has before it knows what is in the store.
pub(crate) struct House {
    pub options: Options,
    pub config: Config,
    pub key: Arc<KeyPair>,
    pub hand: WorkPage,
    pub death: Option<LastCrash>,
    lock: Flock<File>,
}

impl House {
    fn open(options: &Options, config: Config) -> anyhow::Result<Self> {
        let folder = &config.daemon.state_dir;
        house::make_dir(folder, 0o700)?;
        house::close_to_others(folder, 0o700)?;
        let lock = house::lock(folder)?;
        let key = Arc::new(house::read_key(&config.daemon.key)?);
        let (hand, death) = WorkPage::open(folder)
            .with_context(|| format!("no notes can be kept in {}", folder.display()))?;
        Ok(Self {
            options: options.clone(),
            config,
            key,
            hand,
            death,
            lock,
        })
    }
}

/// The sockets that others come to, and who meets them there.
pub(crate) struct Doors {
    boards: watch::Sender<Option<Arc<Switchboard>>>,
    answering: watch::Sender<Option<Arc<Services>>>,
}

impl Doors {
    /// Binds the sockets, and meets whoever comes: with the standby's words, until [`Self::lead`].
    pub async fn open(house: &House, standby: &Arc<Standby>) -> anyhow::Result<Self> {
        let daemon = &house.config.daemon;
        let nodes = house::listen_for_nodes(daemon).await?;
        house::write_address(&daemon.state_dir, &nodes)?;
        let commands = house::listen_local(&daemon.socket)?;
        Self::serve((nodes, commands), &house.key, standby)
    }

    fn serve(
        (nodes, commands): (TcpListener, UnixListener),
        key: &KeyPair,
        standby: &Arc<Standby>,
    ) -> anyhow::Result<Self> {
        let (boards, to_nodes) = watch::channel(None);
        let (answering, to_commands) = watch::channel(None);
        let acceptor = TlsAcceptor::from(tls::server_config(key)?);
        tokio::spawn(links::serve(nodes, acceptor, to_nodes, standby.clone()));
        tokio::spawn(clients::serve(commands, to_commands, standby.clone()));
        Ok(Self { boards, answering })
    }

    /// From now on this controller answers.
    fn lead(&self, services: Arc<Services>, key: &KeyPair) {
        let board = Arc::new(Switchboard {
            core: services.core.clone(),
            hub: services.hub.clone(),
            services: services.clone(),
            cluster: services.cluster.clone(),
            key: key.public(),
            times: links::Times::default(),
        });
        self.boards.send_replace(Some(board));
        self.answering.send_replace(Some(services));
    }
}

/// Starts; `None`: it was told to stop while it stood by.
async fn start(
    options: &Options,
    config: Config,
    signals: &mut Signals,
) -> anyhow::Result<Option<Running>> {
    let mut house = House::open(options, config)?;
    if house.config.daemon.postgres.is_some() {
        return standby_start::start(house, signals).await;
    }
    let location = house.config.daemon.database();
    let mut store = house::open_store(&location)?;
    let death = house.death.take();
    let recovered = recovery::at_start(&mut store, &house.config.cluster, &house.hand, death)?;
    let engine = Taken {
        store,
        location,
        recovered,
        epoch: 0,
    };
    // Whatever may fail for want of room comes before the engine, which has the store.
    let doors = Doors::open(&house, &Standby::new("")).await?;
    let running = work(house, engine, &doors)?;
    tell_ready(options)?;
    Ok(Some(running))
}

/// What was in the store, and the store.
pub(crate) struct Taken {
    /// For the writer.
    pub store: Store,
    /// For readers.
    pub location: Location,
    pub recovered: Recovered,
    pub epoch: u64,
}

/// What of the configuration may change while the daemon runs.
fn in_force(config: Config, database: &Location) -> anyhow::Result<InForce> {
    Ok(InForce {
        cluster: Arc::new(Mutex::new(config.cluster)),
        gate: Arc::new(Gate::new(config.submit)),
        archiver: Archiver::start(database.clone(), config.retention)?,
        memory: Memory::watched(config.daemon.memory_limit)?,
    })
}

/// Begins the work of the controller that answers.
pub(crate) fn work(house: House, taken: Taken, doors: &Doors) -> anyhow::Result<Running> {
    let House {
        options,
        config,
        key,
        hand,
        lock,
        ..
    } = house;
    let Recovered { controller, first } = taken.recovered;
    let database = taken.location;
    allocator::give_free_memory_back();
    log_start(&config.cluster, controller.live_jobs());
    let daemon = config.daemon.clone();
    let in_force = in_force(config, &database)?;
    let hub = Arc::new(Hub::default());
    let inputs = mpsc::channel(MAILBOX);
    let core = inputs.0.clone();
    let (wakeup, wake) = watch::channel(std::time::Instant::now());
    let (end, ends) = mpsc::channel(4);
    let next = Arc::new(Mutex::new(String::new()));
    let outside = Background {
        core: core.clone(),
        hub: hub.clone(),
        config_file: options.config.clone(),
        config_name: options.name.clone(),
        daemon: daemon.clone(),
        in_force: in_force.clone(),
        workers: Workers::start(&core)?,
        runtime: tokio::runtime::Handle::current(),
        resolver: background::start_resolver()?,
        post: background::start_post()?,
    };
    let meter = Arc::new(Meter::default());
    let engine = engine::start(Parts {
        store: taken.store,
        database: database.clone(),
        controller,
        first,
        hand,
        config: in_force.cluster.clone(),
        hub: hub.clone(),
        outside,
        key: KeyPair::from_pkcs8(key.pkcs8())?,
        inputs,
        wakeup,
        meter: meter.clone(),
        memory: in_force.memory.clone(),
        epoch: taken.epoch,
        end: end.clone(),
        next: next.clone(),
    })?;
    let services = Services {
        core: core.clone(),
        hub: hub.clone(),
        cluster: in_force.cluster.clone(),
        lookup_command: daemon.lookup_command.clone(),
        database,
        public_key: key.public(),
        users: Arc::default(),
        budgets: Budgets::new(daemon.connections_per_user, allowed_files()),
        pools: Pools::start()?,
        meter,
        archiver: in_force.archiver.clone(),
        memory: in_force.memory.clone(),
        times: Times::default(),
        gate: in_force.gate.clone(),
        epoch: taken.epoch,
        end,
    };
    doors.lead(Arc::new(services), &key);
    tokio::spawn(ticks::wake(core.clone(), wake));
    Ok(Running {
        engine,
        core,
        daemon,
        hub,
        in_force,
        ends,
        next,
        _lock: lock,
    })
}

fn log_start(cluster: &ClusterConfig, jobs: usize) {
    tracing::info!(
        "cluster {}: {} nodes, {} queues, {} jobs taken up",
        cluster.name,
        cluster.nodes.len(),
        cluster.queues.len(),
        jobs
    );
}

/// What is waited for beside the work itself.
pub(crate) struct Signals {
    term: Signal,
    interrupt: Signal,
    hangup: Signal,
    lifeline: Option<tokio::net::unix::pipe::Receiver>,
    watchdog: tokio::time::Interval,
}

/// What has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Come {
    Stop,
    Reload,
}

impl Signals {
    fn new(options: &Options) -> anyhow::Result<Self> {
        let lifeline = match options.lifeline_fd {
            Some(fd) => Some(tokio::net::unix::pipe::Receiver::from_owned_fd(adopt(fd)?)?),
            None => None,
        };
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            lifeline,
            watchdog: watchdog(),
        })
    }

    /// Waits for a signal or the end of the lifeline; the service manager is told meanwhile that the
    /// daemon is there.
    pub async fn next(&mut self) -> Come {
        loop {
            tokio::select! {
                _ = self.term.recv() => tracing::info!("told to stop"),
                _ = self.interrupt.recv() => tracing::info!("interrupted"),
                () = ended(self.lifeline.as_ref()) => tracing::info!("the lifeline has ended"),
                _ = self.hangup.recv() => return Come::Reload,
                _ = self.watchdog.tick() => {
                    let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
                    continue;
                }
            }
            return Come::Stop;
        }
    }
}

/// Waits for the end of the work.
async fn stay(
    options: &Options,
    signals: &mut Signals,
    running: &mut Running,
) -> anyhow::Result<End> {
    let end = loop {
        tokio::select! {
            end = running.ends.recv() => break end.unwrap_or(End::Stop),
            come = signals.next() => match come {
                Come::Stop => break End::Stop,
                Come::Reload => reload(options, running).await,
            },
        }
    };
    if end == End::Stop {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    }
    Ok(end)
}

async fn reload(options: &Options, running: &Running) {
    match config::read_as(&options.config, options.name.as_deref()) {
        Ok(config) => {
            for key in running.daemon.changed(&config.daemon) {
                tracing::warn!("{key} has changed: it takes effect when cosyd is restarted");
            }
            running.in_force.replace(&config);
            let event = Event::Reconfigured(Box::new(config.cluster));
            let _ = running.core.send(Input::Event(Box::new(event))).await;
            tracing::info!("the configuration was read again");
        }
        Err(faults) => {
            tracing::error!("the configuration has faults, the old one stays in force: {faults}");
        }
    }
}

pub(crate) fn tell_ready(options: &Options) -> anyhow::Result<()> {
    if let Some(fd) = options.ready_fd {
        let mut pipe = File::from(adopt(fd)?);
        // Nobody may be left to read it, and that is no reason not to serve.
        if let Err(e) = pipe.write_all(b"ready\n") {
            tracing::warn!("nobody reads that it is ready (file descriptor {fd}): {e}");
        }
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    Ok(())
}

/// Takes a file descriptor that was handed over on the command line.
fn adopt(fd: i32) -> anyhow::Result<OwnedFd> {
    // SAFETY: F_GETFD only asks; the result tells whether the number is open.
    let flags = unsafe { nix::libc::fcntl(fd, nix::libc::F_GETFD) };
    if flags < 0 {
        bail!("file descriptor {fd} is not open");
    }
    // SAFETY: the descriptor is open and was given to this process to own.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    nix::fcntl::fcntl(&owned, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(owned)
}

/// Ends when the pipe's other end is closed; never without a pipe.
async fn ended(lifeline: Option<&tokio::net::unix::pipe::Receiver>) {
    let Some(receiver) = lifeline else {
        return std::future::pending().await;
    };
    let mut byte = [0u8; 16];
    loop {
        if receiver.readable().await.is_err() {
            return;
        }
        match receiver.try_read(&mut byte) {
            Ok(0) => return,
            Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {}
        }
    }
}

fn watchdog() -> tokio::time::Interval {
    let period =
        sd_notify::watchdog_enabled().map_or(Duration::from_secs(3600), |timeout| timeout / 3);
    tokio::time::interval(period.max(Duration::from_millis(100)))
}

/// File descriptors that this process may have: all that the system allows it.
fn allowed_files() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let wanted = hard.clamp(soft, FILES.max(soft));
    match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(_) => soft,
    }
}
