//! The controller at work: its sockets, its threads, what it listens to.

use crate::allocator;
use crate::archiver::Archiver;
use crate::background::{self, Background, InForce, Workers};
use crate::clients::{self, Budgets, Pools, Services, Times};
use crate::config::{Config, DaemonConfig};
use crate::current_work::{LastCrash, WorkPage};
use crate::end::End;
use crate::engine::{self, Input, Parts};
use crate::house;
use crate::hub::Hub;
use crate::links::{self, Switchboard};
use crate::memory::Memory;
use crate::meter::Meter;
use crate::recovery::Recovered;
use crate::standby::Standby;
use crate::standing::{SETTINGS, Standing, Watch};
use crate::store::{Location, Store};
use crate::submit::Gate;
use crate::ticks;
use anyhow::{Context, bail};
use cosy_control::ClusterConfig;
use cosy_proto::keys::KeyPair;
use cosy_proto::tls;
use nix::fcntl::Flock;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
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

/// The running daemon.
pub(crate) struct Running {
    pub engine: engine::Engine,
    pub core: mpsc::Sender<Input>,
    pub daemon: DaemonConfig,
    pub hub: Arc<Hub>,
    pub in_force: InForce,
    pub ends: mpsc::Receiver<End>,
    /// Who comes first when the lead is laid down.
    pub next: Arc<Mutex<String>>,
    _lock: Flock<File>,
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
    pub fn open(options: &Options, config: Config) -> anyhow::Result<Self> {
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

/// What was in the store, and the store.
pub(crate) struct Taken {
    /// For the writer.
    pub store: Store,
    /// For readers.
    pub location: Location,
    pub recovered: Recovered,
    /// Of this controller, where there are several.
    pub name: String,
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

/// What takes its time beside the controller's turns.
fn background(
    options: &Options,
    (core, hub): (&mpsc::Sender<Input>, &Arc<Hub>),
    (daemon, in_force): (&DaemonConfig, &InForce),
) -> anyhow::Result<Background> {
    Ok(Background {
        core: core.clone(),
        hub: hub.clone(),
        config_file: options.config.clone(),
        config_name: options.name.clone(),
        daemon: daemon.clone(),
        in_force: in_force.clone(),
        workers: Workers::start(core)?,
        runtime: tokio::runtime::Handle::current(),
        resolver: background::start_resolver()?,
        post: background::start_post()?,
        power: background::start_power()?,
    })
}

/// How the database stands; looked at where it is on a server.
fn standing(
    daemon: &DaemonConfig,
    (name, epoch): (&str, u64),
    database: &Location,
    (core, end): (&mpsc::Sender<Input>, &mpsc::Sender<End>),
) -> std::io::Result<Arc<Standing>> {
    let standing = Arc::<Standing>::default();
    if let Some(server) = &daemon.postgres {
        let usual = format!("controller {name} leads, epoch {epoch}");
        let watch = Watch {
            location: database.clone(),
            durability: server.durability,
            epoch,
            every: SETTINGS,
            core: core.clone(),
            end: end.clone(),
        };
        standing.start(&usual, watch)?;
    }
    Ok(standing)
}

/// Begins the work of the controller that answers.
pub(crate) fn work(house: House, taken: Taken, doors: &Doors) -> anyhow::Result<Running> {
    let Recovered { controller, first } = taken.recovered;
    let database = taken.location;
    allocator::give_free_memory_back();
    log_start(&house.config.cluster, controller.live_jobs());
    let daemon = house.config.daemon.clone();
    let in_force = in_force(house.config, &database)?;
    let hub = Arc::new(Hub::default());
    let inputs = mpsc::channel(MAILBOX);
    let core = inputs.0.clone();
    let (wakeup, wake) = watch::channel(std::time::Instant::now());
    let (end, ends) = mpsc::channel(4);
    let next = Arc::new(Mutex::new(String::new()));
    let standing = standing(&daemon, (&taken.name, taken.epoch), &database, (&core, &end))?;
    let outside = background(&house.options, (&core, &hub), (&daemon, &in_force))?;
    let meter = Arc::<Meter>::default();
    let engine = engine::start(Parts {
        store: taken.store,
        database: database.clone(),
        controller,
        first,
        hand: house.hand,
        config: in_force.cluster.clone(),
        hub: hub.clone(),
        outside,
        key: KeyPair::from_pkcs8(house.key.pkcs8())?,
        inputs,
        wakeup,
        meter: meter.clone(),
        memory: in_force.memory.clone(),
        standing: standing.clone(),
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
        public_key: house.key.public(),
        users: Arc::default(),
        budgets: Budgets::new(daemon.connections_per_user, allowed_files()),
        pools: Pools::start()?,
        meter,
        archiver: in_force.archiver.clone(),
        memory: in_force.memory.clone(),
        times: Times::default(),
        gate: in_force.gate.clone(),
        standing,
        epoch: taken.epoch,
        end,
    };
    doors.lead(Arc::new(services), &house.key);
    tokio::spawn(ticks::wake(core.clone(), wake));
    Ok(Running {
        engine,
        core,
        daemon,
        hub,
        in_force,
        ends,
        next,
        _lock: house.lock,
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
    pub lifeline: Option<tokio::net::unix::pipe::Receiver>,
    watchdog: tokio::time::Interval,
}

/// What has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Come {
    Stop,
    Reload,
}

impl Signals {
    pub fn new(options: &Options) -> anyhow::Result<Self> {
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
