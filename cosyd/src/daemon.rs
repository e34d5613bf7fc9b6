//! The daemon from its start to its end.

use crate::config::{self, Config};
use crate::end::End;
use crate::engine::{Engine, Input};
use crate::house;
use crate::recovery;
pub use crate::serving::Options;
use crate::serving::{Come, Doors, House, Running, Signals, Taken, tell_ready, work};
use crate::standby::Standby;
use crate::standby_start;
use anyhow::Context;
use cosy_control::Event;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// A database on a server may keep a stop waiting for so long.
const STOP: Duration = Duration::from_secs(5);
/// Between two tries to start on a disk that is full.
const ROOM_PAUSE: Duration = Duration::from_secs(2);
/// With less than so many bytes free, a disk is full.
const ROOM_BYTES: u64 = 1 << 20;
/// Threads of the event loop's own for what may block; whatever does has threads of its own.
const BLOCKING_THREADS: usize = 2;

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
    let on_a_server = local.daemon.postgres.is_some();
    if has_stopped(&runtime, local.core, local.engine, on_a_server)? {
        runtime.block_on(local.hub.leave());
    } else {
        // Nodes are told nothing: another may lead by now.
        tracing::warn!(
            "the database does not answer: what was sent to it last is for the next leader to see"
        );
    }
    let _ = fs::remove_file(&local.daemon.socket);
    runtime.shutdown_timeout(Duration::from_millis(200));
    match end {
        End::HandOver(_) => begin_anew(&signals),
        End::Stop | End::Deposed => Ok(()),
    }
}

/// Stops the engine. Where the state is on a server that does not answer, it is not waited for without
/// end; to stop then is as good as to be killed.
fn has_stopped(
    runtime: &Runtime,
    core: mpsc::Sender<Input>,
    engine: Engine,
    on_a_server: bool,
) -> anyhow::Result<bool> {
    let told = core.send(Input::Stop);
    if !on_a_server {
        runtime.block_on(told)?;
        engine.join();
        return Ok(true);
    }
    match runtime.block_on(async { tokio::time::timeout(STOP, told).await }) {
        Ok(told) => told?,
        Err(_) => return Ok(false),
    }
    Ok(engine.join_within(STOP))
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

/// Starts; `None`: it was told to stop while it stood by.
async fn start(
    options: &Options,
    config: Config,
    signals: &mut Signals,
) -> anyhow::Result<Option<Running>> {
    let mut house = House::open(options, config)?;
    if let Some(server) = house.config.daemon.postgres.clone() {
        return standby_start::start(house, &server, signals).await;
    }
    let location = house.config.daemon.database();
    let mut store = house::open_store(&location)?;
    let death = house.death.take();
    let recovered = recovery::at_start(&mut store, &house.config.cluster, &house.hand, death)?;
    let taken = Taken {
        store,
        location,
        recovered,
        name: String::new(),
        epoch: 0,
    };
    // Whatever may fail for want of room comes before the engine, which has the store.
    let doors = Doors::open(&house, &Standby::new("")).await?;
    let running = work(house, taken, &doors)?;
    tell_ready(options)?;
    Ok(Some(running))
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
