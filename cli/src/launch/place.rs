//! Where steps are started: the socket for steps of a node daemon.
//!
//! Inside a job that is named by `COSY_STEP_SOCKET`. From outside it is the socket of the
//! job's first node when that is this host, else that of this host's own node daemon, which
//! carries the conversation on.

use anyhow::anyhow;
use cosy_client::cluster;
use cosy_model::step::AllocationEndpoint;
use cosy_model::{JobId, variables};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The node daemon's socket for steps.
pub const STEP_SOCKET: &str = "/run/noded/noded.steps.sock";
/// Where it was in earlier releases.
pub const OLD_STEP_SOCKET: &str = "/run/cosy/noded.steps.sock";
/// For a place in the queue of connections.
const PATIENCE: Duration = Duration::from_secs(20);
/// A node daemon that is restarted is back within this time.
const RESTART: Duration = Duration::from_secs(15);
/// Between two looks for it.
const AGAIN: Duration = Duration::from_millis(50);

/// The job that this command runs in.
pub fn job() -> Option<JobId> {
    std::env::var(variables::JOB_ID)
        .ok()?
        .parse()
        .ok()
        .map(JobId)
}

/// Connects to the socket for steps inside a job; `None` where it names none. A daemon
/// that is being restarted is waited for, after a word to `notice`: the job goes on then,
/// too.
///
/// # Errors
/// Nobody listens.
pub fn inside(notice: &dyn Fn(&str)) -> Option<anyhow::Result<UnixStream>> {
    let path = variable()?;
    let shown = path.display();
    let start = Instant::now();
    let mut told = false;
    loop {
        let e = match cluster::connect(&path, PATIENCE) {
            Ok(stream) => return Some(Ok(stream)),
            Err(e) => e,
        };
        if !may_come_back(&path, &e) || start.elapsed() >= RESTART {
            return Some(Err(anyhow!(
                "cannot reach the node daemon at {shown}: {e}; is noded running here?"
            )));
        }
        if !told {
            told = true;
            let seconds = RESTART.as_secs();
            notice(&format!(
                "the node daemon at {shown} does not answer ({e}); trying for {seconds} s"
            ));
        }
        std::thread::sleep(AGAIN);
    }
}

/// Its place is there, only nobody listens.
fn may_come_back(path: &Path, e: &io::Error) -> bool {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => true,
        io::ErrorKind::NotFound => path.parent().is_some_and(Path::is_dir),
        _ => false,
    }
}

fn variable() -> Option<PathBuf> {
    let path = std::env::var_os(variables::STEP_SOCKET).filter(|v| !v.is_empty())?;
    Some(path.into())
}

/// Connects to what leads to a job's first node; gives the socket, too.
///
/// # Errors
/// None can be reached: which were tried.
pub fn outside(entry: &AllocationEndpoint) -> anyhow::Result<(UnixStream, PathBuf)> {
    let mut tried = Vec::new();
    for path in candidates(entry, &boot_id(), variable(), &cluster::find()) {
        match cluster::connect(&path, PATIENCE) {
            Ok(stream) => return Ok((stream, path)),
            Err(e) => tried.push(format!("{} ({e})", path.display())),
        }
    }
    Err(anyhow!(
        "job {} is there, but no way to its nodes {}: tried {}; commands on this host need its \
         node daemon (noded)",
        entry.key.job,
        entry.nodes,
        tried.join(", ")
    ))
}

/// This host since its start.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// Sockets in the order in which they are tried.
fn candidates(
    entry: &AllocationEndpoint,
    boot_id: &str,
    variable: Option<PathBuf>,
    cluster: &Path,
) -> Vec<PathBuf> {
    let here = !boot_id.is_empty() && entry.boot_id.trim() == boot_id;
    let first = entry.socket.as_ref().filter(|_| here).map(PathBuf::from);
    let usual = [STEP_SOCKET, OLD_STEP_SOCKET].map(|path| Some(path.into()));
    let named = [first, variable, beside(cluster)];
    let mut all: Vec<PathBuf> = named.into_iter().chain(usual).flatten().collect();
    let mut seen = Vec::new();
    all.retain(|p| {
        !seen.contains(p) && {
            seen.push(p.clone());
            true
        }
    });
    all
}

/// The socket for steps that goes with a node daemon's socket for questions.
fn beside(socket: &Path) -> Option<PathBuf> {
    let stem = socket.file_stem().filter(|s| *s != OsStr::new("cosyd"))?;
    let mut name = stem.to_owned();
    name.push(".steps");
    if let Some(extension) = socket.extension() {
        name.push(".");
        name.push(extension);
    }
    Some(socket.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Attempt;
    use cosy_model::node::AttemptKey;

    fn entry(socket: Option<&str>) -> AllocationEndpoint {
        AllocationEndpoint {
            key: AttemptKey {
                job: JobId(1),
                attempt: Attempt(1),
            },
            nodes: "n1".into(),
            socket: socket.map(str::to_owned),
            boot_id: "b".into(),
        }
    }

    #[test]
    fn which_sockets() {
        let check = |socket, boot, variable: Option<&str>, cluster: &str, want: &[&str]| {
            let variable = variable.map(PathBuf::from);
            let got = candidates(&entry(socket), boot, variable, Path::new(cluster));
            let got: Vec<&str> = got.iter().filter_map(|p| p.to_str()).collect();
            assert_eq!(got, want);
        };
        check(
            Some("/n1"),
            "b",
            None,
            "/run/cosy/cosyd.sock",
            &["/n1", STEP_SOCKET, OLD_STEP_SOCKET],
        );
        check(Some("/n1"), "other", None, "/run/cosy/cosyd.sock", &[STEP_SOCKET, OLD_STEP_SOCKET]);
        check(Some("/n1"), "", None, "/run/noded/noded.sock", &[STEP_SOCKET, OLD_STEP_SOCKET]);
        check(
            None,
            "b",
            Some("/v"),
            "/x/relay.sock",
            &["/v", "/x/relay.steps.sock", STEP_SOCKET, OLD_STEP_SOCKET],
        );
        check(Some("/v"), "b", Some("/v"), "/x/cosyd", &["/v", STEP_SOCKET, OLD_STEP_SOCKET]);
    }
}
