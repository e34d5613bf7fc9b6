//! Putting the daemon together, and taking it apart again.

use crate::allocator;
use crate::archiver::Archiver;
use crate::background::{self, Background, InForce, Workers};
use crate::clients::{self, Budgets, Pools, Services, Times};
use crate::config::{self, Config, DaemonConfig};
use crate::current_work::WorkPage;
use crate::engine::{self, Input, Parts};
use crate::hub::Hub;
use crate::links::{self, Switchboard};
use crate::memory::Memory;
use crate::meter::Meter;
use crate::recovery::{self, Recovered};
use crate::store::{Location, Store};
use crate::submit::Gate;
use crate::ticks;
use anyhow::{Context, bail};
use cosy_control::{ClusterConfig, Event};
use cosy_proto::keys::KeyPair;
use cosy_proto::tls;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

/// Events that may wait for the core thread.
const MAILBOX: usize = 4096;
/// File descriptors that are asked for: for nodes, commands and files.
const FILES: u64 = 65_536;
/// A predecessor that is on its way out is waited for.
const LOCK_TIME: Duration = Duration::from_secs(3);
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
    let local = runtime.block_on(start_with_room(options, config))?;
    runtime.block_on(stay(options, &local))?;
    runtime.block_on(async { local.core.send(Input::Stop).await })?;
    local.engine.join();
    runtime.block_on(local.hub.leave());
    let _ = fs::remove_file(&local.daemon.socket);
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(())
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
struct Running {
    engine: engine::Engine,
    core: mpsc::Sender<Input>,
    daemon: DaemonConfig,
    hub: Arc<Hub>,
    in_force: InForce,
    _lock: Flock<File>,
}

/// Starts; where that fails on a disk that is full it is tried again until there is room: who
/// gives up stays away, as service managers start nothing for ever.
async fn start_with_room(options: &Options, config: Config) -> anyhow::Result<Running> {
    let dir = config.daemon.state_dir.clone();
    loop {
        let error = match start(options, config.clone()).await {
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

async fn start(options: &Options, config: Config) -> anyhow::Result<Running> {
    let Config {
        daemon,
        cluster,
        submit,
        retention,
    } = config;
    make_dir(&daemon.state_dir, 0o700)?;
    close_to_others(&daemon.state_dir, 0o700)?;
    let lock = lock(&daemon.state_dir)?;
    let key = Arc::new(read_key(&daemon.key)?);
    let database = daemon.database();
    let mut store = open_store(&database)?;
    let (hand, death) = WorkPage::open(&daemon.state_dir)
        .with_context(|| format!("no notes can be kept in {}", daemon.state_dir.display()))?;
    let Recovered { controller, first } = recovery::at_start(&mut store, &cluster, &hand, death)?;
    allocator::give_free_memory_back();
    log_start(&cluster, controller.live_jobs());
    let in_force = InForce {
        cluster: Arc::new(Mutex::new(cluster)),
        gate: Arc::new(Gate::new(submit)),
        archiver: Archiver::start(database.clone(), retention)?,
        memory: Memory::watched(daemon.memory_limit)?,
    };
    let hub = Arc::new(Hub::default());
    let inputs = mpsc::channel(MAILBOX);
    let core = inputs.0.clone();
    let (wakeup, wake) = watch::channel(std::time::Instant::now());
    let outside = Background {
        core: core.clone(),
        hub: hub.clone(),
        config_file: options.config.clone(),
        daemon: daemon.clone(),
        in_force: in_force.clone(),
        workers: Workers::start(&core)?,
        runtime: tokio::runtime::Handle::current(),
        resolver: background::start_resolver()?,
        post: background::start_post()?,
    };
    // Whatever may fail for want of room comes before the engine, which has the store.
    let listener = listen_for_nodes(&daemon).await?;
    write_address(&daemon.state_dir, &listener)?;
    let socket = listen_local(&daemon.socket)?;
    let meter = Arc::new(Meter::default());
    let engine = engine::start(Parts {
        store,
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
    })?;
    let services = Arc::new(Services {
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
    });
    serve(services, (listener, socket), &key, wake)?;
    Ok(Running {
        engine,
        core,
        daemon,
        hub,
        in_force,
        _lock: lock,
    })
}

/// Takes connections of nodes and of commands, and wakes the controller.
fn serve(
    services: Arc<Services>,
    (nodes, commands): (TcpListener, UnixListener),
    key: &KeyPair,
    wake: watch::Receiver<std::time::Instant>,
) -> anyhow::Result<()> {
    let core = services.core.clone();
    let board = Arc::new(Switchboard {
        core: core.clone(),
        hub: services.hub.clone(),
        services: services.clone(),
        cluster: services.cluster.clone(),
        key: key.public(),
        times: links::Times::default(),
    });
    let acceptor = TlsAcceptor::from(tls::server_config(key)?);
    tokio::spawn(links::serve(nodes, acceptor, board));
    tokio::spawn(clients::serve(commands, services));
    tokio::spawn(ticks::wake(core, wake));
    Ok(())
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

/// Says that the daemon is ready, then waits for the end of the lifeline or a signal.
async fn stay(options: &Options, running: &Running) -> anyhow::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tell_ready(options)?;
    let lifeline = lifeline(options.lifeline_fd)?;
    let mut lifeline = std::pin::pin!(lifeline);
    let mut watchdog = watchdog();
    loop {
        tokio::select! {
            _ = term.recv() => break tracing::info!("told to stop"),
            _ = interrupt.recv() => break tracing::info!("interrupted"),
            () = &mut lifeline => break tracing::info!("the lifeline has ended"),
            _ = hangup.recv() => reload(options, running).await,
            _ = watchdog.tick() => {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            }
        }
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    Ok(())
}

async fn reload(options: &Options, running: &Running) {
    match config::read(&options.config) {
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

fn tell_ready(options: &Options) -> anyhow::Result<()> {
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
fn lifeline(fd: Option<i32>) -> anyhow::Result<impl Future<Output = ()>> {
    let receiver = match fd {
        Some(fd) => Some(tokio::net::unix::pipe::Receiver::from_owned_fd(adopt(fd)?)?),
        None => None,
    };
    Ok(async move {
        let Some(receiver) = receiver else {
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
    })
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

fn make_dir(path: &Path, mode: u32) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

/// What was there before and is open to others is closed; what belongs to somebody else is
/// refused, because its owner could open it again.
fn close_to_others(path: &Path, mode: u32) -> anyhow::Result<()> {
    let about = || format!("cannot look at {}", path.display());
    let found = fs::symlink_metadata(path).with_context(about)?;
    // A link to where the state is.
    let found = match found.is_symlink() {
        true => fs::metadata(path).with_context(about)?,
        false => found,
    };
    let own = nix::unistd::geteuid().as_raw();
    if found.uid() != own {
        bail!(
            "{} belongs to uid {}, cosyd runs as uid {own}: give it to that user (chown)",
            path.display(),
            found.uid()
        );
    }
    let was = found.permissions().mode() & 0o7777;
    if was & !mode != 0 {
        tracing::warn!("{} was open to others (mode {was:o}): it is now {mode:o}", path.display());
        fs::set_permissions(path, Permissions::from_mode(was & mode))
            .with_context(|| format!("cannot close {} to others", path.display()))?;
    }
    Ok(())
}

/// Only one controller works on a state directory.
pub(crate) fn lock(state_dir: &Path) -> anyhow::Result<Flock<File>> {
    let path = state_dir.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    // One that was just killed may still be on its way out.
    let deadline = std::time::Instant::now() + LOCK_TIME;
    let mut file = file;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((again, _)) if std::time::Instant::now() < deadline => {
                file = again;
                std::thread::sleep(Duration::from_millis(20));
            }
            Err((_, e)) => {
                bail!("another controller works in {} ({e}): stop it first", state_dir.display())
            }
        }
    }
}

fn open_store(location: &Location) -> anyhow::Result<Store> {
    let Location::Sqlite(database) = location else {
        return Ok(Store::open_at(location)?);
    };
    // SQLite makes its files with the mode of the database file.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(database)
        .with_context(|| format!("cannot open {}", database.display()))?;
    for end in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        let file = PathBuf::from(name);
        if file.exists() {
            close_to_others(&file, 0o600)?;
        }
    }
    Ok(Store::open_at(location)?)
}

/// The daemon's private key; made when there is none.
fn read_key(path: &Path) -> anyhow::Result<KeyPair> {
    match fs::read(path) {
        Ok(bytes) => {
            let found = fs::metadata(path)?;
            let (mode, own) = (found.permissions().mode(), nix::unistd::geteuid().as_raw());
            if found.uid() != own && found.uid() != 0 {
                bail!(
                    "{} belongs to uid {}, who could change it: chown it to uid {own}",
                    path.display(),
                    found.uid()
                );
            }
            if mode & 0o077 != 0 {
                bail!(
                    "{} can be read by others (mode {:o}): chmod 600 it, or better make a new key",
                    path.display(),
                    mode & 0o777
                );
            }
            KeyPair::from_pkcs8(&bytes).with_context(|| path.display().to_string())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let key = KeyPair::generate()?;
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .with_context(|| format!("cannot make {}", path.display()))?;
            file.write_all(key.pkcs8())?;
            file.sync_all()?;
            Ok(key)
        }
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// With port 0 any free port, but the same one after a restart while it is free: the nodes
/// know the controller by it.
async fn listen_for_nodes(daemon: &DaemonConfig) -> anyhow::Result<TcpListener> {
    if let Some(host) = daemon.listen.strip_suffix(":0") {
        let former = fs::read_to_string(daemon.state_dir.join("listen.addr")).ok();
        let port = former.as_deref().and_then(port_of);
        if let Some(port) = port
            && let Ok(listener) = TcpListener::bind(format!("{host}:{port}")).await
        {
            return Ok(listener);
        }
    }
    TcpListener::bind(&daemon.listen)
        .await
        .with_context(|| format!("cannot listen for nodes on {}", daemon.listen))
}

fn port_of(address: &str) -> Option<u16> {
    let (_, port) = address.trim().rsplit_once(':')?;
    port.parse().ok()
}

/// Writes the address that nodes connect to, whole or not at all.
fn write_address(state_dir: &Path, listener: &TcpListener) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let (new, path) = (state_dir.join("listen.addr.new"), state_dir.join("listen.addr"));
    fs::write(&new, format!("{address}\n"))
        .and_then(|()| fs::rename(&new, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    tracing::info!("nodes connect to {address}");
    Ok(())
}

/// The socket for commands. A stale one is replaced; one that answers is not.
fn listen_local(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(dir) = path.parent() {
        make_dir(dir, 0o755)?;
    }
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    // Bound beside its place and moved there once it may be used by everyone: a command
    // sees either no socket or one that works.
    let listener = bind_short(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(0o666))?;
    fs::rename(&new, path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(listener)
}

/// Binds also where the path is longer than a socket address can hold.
fn bind_short(path: &Path) -> anyhow::Result<UnixListener> {
    const ADDRESS_BYTES: usize = 107;
    let context = || format!("cannot listen on {}", path.display());
    if path.as_os_str().len() <= ADDRESS_BYTES {
        return UnixListener::bind(path).with_context(context);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        bail!("{} is no path for a socket", path.display());
    };
    use std::os::fd::AsRawFd;
    let dir = File::open(dir).with_context(context)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    UnixListener::bind(short).with_context(context)
}
