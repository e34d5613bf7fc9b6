//! The start of the daemon: what it needs, in the order in which it needs it.

use super::{Checking, Daemon, Event, HEARTBEAT, Nodes, Options, SetLog, Signals};
use crate::clock::ControllerClock;
use crate::config::{CgroupUse, Config};
use crate::epoch::KnownEpoch;
use crate::gpus::watch::Gpus;
use crate::hooks::Reaper;
use crate::lease::Lease;
use crate::link::{Leadership, ObeyedLink, Peer};
use crate::login::LoginSocket;
use crate::node::{Node, NodeSetup};
use crate::nursery::{Nursery, NurseryOptions};
use crate::peer::{pool::Pool, revoked::RevokedKeys, serve};
use crate::relay::Relay;
use crate::spool::Spool;
use crate::steps::serve::StepSocket;
use crate::steps::table::{Steps, StepsSetup};
use crate::virtual_nodes::VirtualNodes;
use crate::{cgroup, detect, link, spool, sys};
use anyhow::Context;
use cosy_proto::keys::KeyPair;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Events that wait for the loop before their sources are held back.
const QUEUE: usize = 256;

impl Daemon {
    /// Starts everything; what is left is to take events from the queue.
    pub(super) fn start(
        config: Config,
        options: Options,
        set_log: SetLog,
        gpus: Gpus,
    ) -> anyhow::Result<(Self, mpsc::Receiver<Event>, Signals)> {
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
        sys::become_subreaper().context("cannot become a child subreaper")?;
        sys::raise_file_limit();
        // Before any child: none may end unseen.
        let signals = Signals::new()?;
        let key = link::read_key(&config.key)?;
        let peers = peers(&config, &key)?;
        let (events, queue) = mpsc::channel(QUEUE);
        let config = Arc::new(config);
        let reaper = Reaper::default();
        let own_dir = config.spool_dir.join(&config.name);
        let refused_keys = RevokedKeys::load(&own_dir.join("revoked"));
        let lease = kept_lease(&own_dir);
        let clock = ControllerClock::default();
        let epoch = KnownEpoch::load(&own_dir)?;
        let (nodes, reached_at) = match options.virtual_nodes {
            Some(count) => {
                let known = (clock.clone(), epoch.clone());
                let nodes = VirtualNodes::new(&config.name, count, config.controller_key, known);
                (Nodes::Virtual(Box::new(nodes)), String::new())
            }
            None => {
                let pool = Arc::new(Pool::new(Arc::clone(&key), refused_keys.clone()));
                let node = real_node(&config, &options, &events, &reaper, (pool, &clock, &epoch))?;
                gpus.keep(&own_dir);
                let address = listen_for_nodes(&config, &key, &refused_keys, &events)?;
                (Nodes::Real(Box::new(node)), address)
            }
        };
        let step_socket = listen_for_steps(&config, &events)?;
        let login_socket = listen_for_logins(&config, &nodes, &events)?;
        let relay = listen_for_commands(&config, &events)?;
        let leadership = Leadership::new(epoch, config.controllers.len() > 1);
        let daemon = Self {
            config,
            options,
            set_log,
            nodes,
            reaper,
            events: events.clone(),
            link: None,
            obeyed: ObeyedLink::new(leadership.clone()),
            relay,
            step_socket,
            login_socket,
            refused_keys,
            lease,
            clock,
            begun: (sys::since_boot(), Instant::now()),
            reached_at,
            out: Vec::new(),
            heartbeat: HEARTBEAT,
            problem: None,
            gpus,
            checking: Checking::default(),
            sampling: false,
        };
        link::keep_up(peers, &leadership, &events);
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        Ok((daemon, queue, signals))
    }
}

/// The port for the daemons of other nodes; gives what the controller is told of it.
fn listen_for_nodes(
    config: &Config,
    key: &Arc<KeyPair>,
    refused_keys: &RevokedKeys,
    events: &mpsc::Sender<Event>,
) -> anyhow::Result<String> {
    let listen = config.listen.as_deref();
    let memory = config.spool_dir.join(&config.name).join("port");
    let (listener, bound) = serve::open(listen, &memory)
        .with_context(|| format!("listen {}", listen.unwrap_or(serve::DEFAULT_LISTEN)))?;
    serve::serve(listener, key, refused_keys.clone(), events.clone())?;
    Ok(config.address.clone().unwrap_or(bound))
}

/// The lease that an earlier daemon had, as far as that is of now.
fn kept_lease(own_dir: &Path) -> Lease {
    Lease::load(own_dir, sys::since_boot(), detect::is_same_boot(own_dir))
}

/// The controllers, in the order of the configuration.
fn peers(config: &Config, key: &KeyPair) -> anyhow::Result<Vec<Peer>> {
    let peer = |address: &String| Peer::new(address.clone(), key, config.controller_key);
    let peers: Result<Vec<Peer>, _> = config.controllers.iter().map(peer).collect();
    peers.context("private key")
}

/// The socket for commands on this host, if there is to be one.
fn listen_for_commands(
    config: &Config,
    events: &mpsc::Sender<Event>,
) -> anyhow::Result<Option<Relay>> {
    let Some(path) = &config.socket else {
        return Ok(None);
    };
    let relay = Relay::listen(path, events.clone());
    let relay = relay.with_context(|| format!("socket {}", path.display()))?;
    Ok(Some(relay))
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
            tracing::warn!("no steps can be started here: socket {}: {e}", path.display());
            Ok(None)
        }
    }
}

/// The socket for logins: where jobs are, and where this daemon may make others part of them. One that
/// was not configured may fail.
fn listen_for_logins(
    config: &Config,
    nodes: &Nodes,
    events: &mpsc::Sender<Event>,
) -> anyhow::Result<Option<LoginSocket>> {
    if matches!(nodes, Nodes::Virtual(_)) || sys::own_uid().0 != 0 {
        return Ok(None);
    }
    let path = config.login_socket();
    match LoginSocket::listen(&path, events.clone()) {
        Ok(socket) => Ok(Some(socket)),
        Err(e) if config.login_socket.is_some() => {
            Err(e).with_context(|| format!("login_socket {}", path.display()))
        }
        Err(e) => {
            tracing::warn!("logins cannot be part of jobs here: socket {}: {e}", path.display());
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
) -> StepsSetup {
    let processors = detect::processors_for_jobs(config);
    let real = detect::amounts(config).cores as usize <= processors.len();
    let shared = config.cgroups == CgroupUse::Memory;
    StepsSetup {
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
        variables: variables_of_steps(config),
        pool,
        events: events.clone(),
        protected: detect::protected_from_oom(),
    }
}

/// What every step here is told, `NAME=value`.
fn variables_of_steps(config: &Config) -> Vec<String> {
    let mut all = config.variables();
    if let Ok(path) = config.plugin_path().into_string() {
        all.push(format!("{}={path}", cosy_model::variables::PLUGIN_PATH));
    }
    all
}

fn real_node(
    config: &Arc<Config>,
    options: &Options,
    events: &mpsc::Sender<Event>,
    reaper: &Reaper,
    (pool, clock, epoch): (Arc<Pool>, &ControllerClock, &KnownEpoch),
) -> anyhow::Result<Node> {
    let spool = Spool::open(&config.spool_dir, &config.name)?;
    if sys::own_uid().0 != 0 {
        tracing::info!("not run as root: only jobs of uid {} run here", sys::own_uid());
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
    let fixed = NodeSetup {
        name: config.name.clone(),
        spool,
        cgroups: groups,
        nursery_options,
        controller: config.controller_key,
        clock: clock.clone(),
        epoch: epoch.clone(),
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
        detect::processors_for_jobs(config),
        config.devices.have_files(),
    );
    for text in missing {
        tracing::warn!("{text}");
    }
    groups.with_processes(config.job_processes)
}
