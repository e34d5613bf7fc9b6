//! The private PostgreSQL server of a cluster, in its directory.
//!
//! It is the supervisor's child, ends after the controllers, and when the supervisor is killed.

use anyhow::{Context as _, bail};
use cosy_postgres::{Options, Server};
use rustix::process::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Its folder in the directory of the cluster.
pub const FOLDER: &str = "postgres";

/// The server's program.
///
/// # Errors
/// It is not installed.
pub fn program() -> anyhow::Result<PathBuf> {
    let folder = cosy_postgres::programs().context(
        "--postgres: PostgreSQL's server is neither in PATH nor in /usr/lib/postgresql: \
         install it (Debian: apt install postgresql)",
    )?;
    Ok(folder.join("postgres").canonicalize()?)
}

/// Whether the server can be in that directory.
///
/// # Errors
/// Its path has what lists of hosts and of sockets cannot have; or root's server, which runs as
/// nobody, does not get there.
pub fn check_place(dir: &Path) -> anyhow::Result<()> {
    let shown = dir.display();
    let text = dir
        .to_str()
        .context("the directory's path must be UTF-8 text")?;
    if text.contains(|c: char| c.is_whitespace() || ",:'\"\\".contains(c)) {
        bail!("--postgres: '{shown}' must be without blanks, commas, colons, quotes, backslashes");
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for above in dir.ancestors() {
        if fs::metadata(above)?.permissions().mode() & 0o001 == 0 {
            let above = above.display();
            bail!(
                "--postgres: PostgreSQL does not run as root, and nobody (as whom it would run) may \
                 not enter '{above}': chmod o+x it, or choose another --dir"
            );
        }
    }
    Ok(())
}

/// Starts the server, and makes its database; gives its process.
///
/// # Errors
/// It does not start: with what it says.
pub fn start(dir: &Path) -> anyhow::Result<Pid> {
    let options = Options {
        ends_with_thread: true,
        ..Options::default()
    };
    let server = Server::start(&dir.join(FOLDER), options)?;
    let pid = i32::try_from(server.into_process()).ok();
    pid.and_then(Pid::from_raw)
        .context("PostgreSQL has no process")
}

/// How the controllers reach it, in libpq's words.
pub fn connection(dir: &Path) -> String {
    cosy_postgres::connection(&dir.join(FOLDER))
}

/// How what was kept is reached.
pub fn kept(dir: &Path, program: &Path) -> String {
    let dir = dir.join(FOLDER);
    let dir = dir.display();
    let user = match rustix::process::geteuid().is_root() {
        true => "runuser -u nobody -- ",
        false => "",
    };
    format!(
        "the database stays in {dir}; to look at it: {user}{} -D {dir}/data, then psql -h {dir} -U cosy cosy",
        program.display()
    )
}
