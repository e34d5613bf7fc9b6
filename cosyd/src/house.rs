//! What the daemon finds or makes on its host before it works: its directory, its lock, its key, the
//! sockets that others come to.

use crate::config::DaemonConfig;
use crate::store::{Location, Store};
use anyhow::{Context, bail};
use cosy_proto::keys::KeyPair;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

/// A predecessor that is on its way out is waited for.
const LOCK_TIME: Duration = Duration::from_secs(3);

/// Makes a directory, and those above it.
///
/// # Errors
/// In words: what is wrong with it.
pub fn make_dir(path: &Path, mode: u32) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

/// What was there before and is open to others is closed; what belongs to somebody else is
/// refused, because its owner could open it again.
///
/// # Errors
/// In words: what is wrong with it.
pub fn close_to_others(path: &Path, mode: u32) -> anyhow::Result<()> {
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
///
/// # Errors
/// In words: what is wrong with it.
pub fn lock(state_dir: &Path) -> anyhow::Result<Flock<File>> {
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

/// Opens the store, which nobody else may read.
///
/// # Errors
/// In words: what is wrong with it.
pub fn open_store(location: &Location) -> anyhow::Result<Store> {
    let Location::Sqlite(database) = location else {
        return Ok(Store::open_at(location)?);
    };
    close_store(database)?;
    Ok(Store::open_at(location)?)
}

/// Makes the file of a store where there is none; one that is open to others is closed.
///
/// # Errors
/// In words: what is wrong with it.
pub fn close_store(database: &Path) -> anyhow::Result<()> {
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
    Ok(())
}

/// The daemon's private key; made when there is none.
///
/// # Errors
/// In words: what is wrong with it.
pub fn read_key(path: &Path) -> anyhow::Result<KeyPair> {
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
///
/// # Errors
/// In words: what is wrong with it.
pub async fn listen_for_nodes(daemon: &DaemonConfig) -> anyhow::Result<TcpListener> {
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
///
/// # Errors
/// In words: what is wrong with it.
pub fn write_address(state_dir: &Path, listener: &TcpListener) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let (new, path) = (state_dir.join("listen.addr.new"), state_dir.join("listen.addr"));
    fs::write(&new, format!("{address}\n"))
        .and_then(|()| fs::rename(&new, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    tracing::info!("nodes connect to {address}");
    Ok(())
}

/// The socket for commands. A stale one is replaced; one that answers is not.
///
/// # Errors
/// In words: what is wrong with it.
pub fn listen_local(path: &Path) -> anyhow::Result<UnixListener> {
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
