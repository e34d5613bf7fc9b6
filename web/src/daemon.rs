//! The life of the program: sockets, signals, the clock that takes samples.

use crate::config::Config;
use crate::limits;
use crate::samples;
use crate::server;
use crate::site::Site;
use anyhow::{Context as _, bail};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// What whoever starts it hands over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A line is written there when requests are answered.
    pub ready_fd: Option<i32>,
    /// It stops when the other end of this pipe is closed.
    pub lifeline_fd: Option<i32>,
}

/// Serves until it is told to stop.
///
/// # Errors
/// A socket, key or folder cannot be had.
pub fn run(options: Options, config: Config) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log)
        .with_context(|| format!("log: '{}' is no level", config.log))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let lifeline = options.lifeline_fd.map(adopt).transpose()?;
    make_folder(&config.state_dir)?;
    let local = bind(&config.socket)?;
    let tcp = match config.listen {
        Some(address) => Some(
            std::net::TcpListener::bind(address)
                .with_context(|| format!("cannot listen on {address}"))?,
        ),
        None => None,
    };
    let mut config = config;
    if let Some(tcp) = &tcp {
        tcp.set_nonblocking(true)?;
        config.listen = Some(tcp.local_addr()?);
    }
    let (socket, state_dir) = (config.socket.clone(), config.state_dir.clone());
    let listen = config.listen;
    let site = Arc::new(Site::open(config)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(32)
        .build()?;
    let outcome = runtime.block_on(async {
        let places = Arc::new(Semaphore::new(limits::CONNECTIONS));
        let router = server::router(site.clone());
        let local = tokio::net::UnixListener::from_std(local)?;
        tokio::spawn(server::serve_unix(local, router.clone(), places.clone()));
        if let Some(tcp) = tcp {
            let tcp = tokio::net::TcpListener::from_std(tcp)?;
            tokio::spawn(server::serve_tcp(tcp, router, places));
        }
        tokio::spawn(samples::take_all(site));
        if let Some(address) = listen {
            tracing::info!("listening on http://{address}");
            write_address(&state_dir, &address.to_string())?;
        }
        tell_ready(options)?;
        stopped(lifeline).await
    });
    let _ = fs::remove_file(&socket);
    runtime.shutdown_background();
    outcome
}

/// A folder for itself alone, unless it is there.
fn make_folder(path: &Path) -> anyhow::Result<()> {
    match fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(path)
    {
        Ok(()) => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot make '{}'", path.display())),
    }
}

/// The address taken, for who starts it with port 0.
fn write_address(folder: &Path, address: &str) -> anyhow::Result<()> {
    let file = folder.join("listen.addr");
    fs::write(&file, format!("{address}\n"))
        .with_context(|| format!("cannot write '{}'", file.display()))
}

/// The socket at which everybody on this host may connect: the kernel says who it is.
fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let shown = path.display();
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        bail!("somebody answers at '{shown}' already: is cosy-web running?");
    }
    match fs::symlink_metadata(path) {
        Ok(facts) if std::os::unix::fs::FileTypeExt::is_socket(&facts.file_type()) => {
            fs::remove_file(path)?;
        }
        Ok(_) => bail!("'{shown}' is there and is no socket"),
        Err(_) => {}
    }
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot make the socket '{shown}'"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn tell_ready(options: Options) -> anyhow::Result<()> {
    if let Some(fd) = options.ready_fd {
        let mut pipe = File::from(adopt(fd)?);
        if let Err(e) = pipe.write_all(b"ready\n") {
            tracing::warn!("nobody reads that it is ready: {e}");
        }
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    Ok(())
}

/// Until a signal comes or the lifeline ends.
async fn stopped(lifeline: Option<OwnedFd>) -> anyhow::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let lifeline = match lifeline {
        Some(fd) => Some(tokio::net::unix::pipe::Receiver::from_owned_fd(fd)?),
        None => None,
    };
    let period =
        sd_notify::watchdog_enabled().map_or(std::time::Duration::from_secs(3600), |t| t / 3);
    let mut watchdog = tokio::time::interval(period.max(std::time::Duration::from_millis(100)));
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            () = ended(lifeline.as_ref()) => break,
            _ = watchdog.tick() => {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            }
        }
    }
    tracing::info!("stopping");
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
    let mut bytes = [0u8; 16];
    loop {
        if receiver.readable().await.is_err() {
            return;
        }
        match receiver.try_read(&mut bytes) {
            Ok(0) => return,
            Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {}
        }
    }
}
