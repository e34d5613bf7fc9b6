//! Finds the node daemon's socket on which steps are started, and connects to it.
//!
//! Inside a job `COSY_STEP_SOCKET` names it. From outside it is the socket of the job's first node
//! when that is this host, else that of this host's own node daemon, which passes everything on.

use anyhow::anyhow;
use cosy_client::cluster;
use cosy_model::step::AllocationEndpoint;
use cosy_model::{JobId, variables};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Socket for steps of the node daemon, unless it is configured otherwise.
pub const STEP_SOCKET: &str = "/run/noded/noded.steps.sock";
/// [`STEP_SOCKET`] of earlier releases.
pub const OLD_STEP_SOCKET: &str = "/run/cosy/noded.steps.sock";
/// Longest wait for a place in the daemon's queue of connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a node daemon that does not listen is waited for: it may be restarted.
const RESTART_WAIT: Duration = Duration::from_secs(15);
/// Pause between two tries to reach it.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The job that this command runs in, by `COSY_JOB_ID`.
pub fn current_job() -> Option<JobId> {
    std::env::var(variables::JOB_ID)
        .ok()?
        .parse()
        .ok()
        .map(JobId)
}

/// Connects to the socket that `COSY_STEP_SOCKET` names; `None` where it is not set. A daemon that
/// is being restarted is waited for, because jobs go on meanwhile; `notice` is given that line.
///
/// # Errors
/// Nobody listens.
pub fn connect_inside(notice: &dyn Fn(&str)) -> Option<anyhow::Result<UnixStream>> {
    let path = socket_variable()?;
    let shown = path.display();
    let start = Instant::now();
    let mut notified = false;
    loop {
        let e = match cluster::connect(&path, CONNECT_TIMEOUT) {
            Ok(stream) => return Some(Ok(stream)),
            Err(e) => e,
        };
        if !may_come_back(&path, &e) || start.elapsed() >= RESTART_WAIT {
            return Some(Err(anyhow!(
                "cannot reach the node daemon at {shown}: {e}; is noded running here?"
            )));
        }
        if !notified {
            notified = true;
            let seconds = RESTART_WAIT.as_secs();
            notice(&format!(
                "the node daemon at {shown} does not answer ({e}); trying for {seconds} s"
            ));
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// True when the error is that of a daemon that is being restarted: its directory is there, and
/// nobody listens.
fn may_come_back(path: &Path, e: &io::Error) -> bool {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => true,
        io::ErrorKind::NotFound => path.parent().is_some_and(Path::is_dir),
        _ => false,
    }
}

fn socket_variable() -> Option<PathBuf> {
    let path = std::env::var_os(variables::STEP_SOCKET).filter(|v| !v.is_empty())?;
    Some(path.into())
}

/// Connects from outside to a job's first node; gives the connection and the path of its socket.
///
/// # Errors
/// No socket can be reached: names those that were tried.
pub fn connect_outside(endpoint: &AllocationEndpoint) -> anyhow::Result<(UnixStream, PathBuf)> {
    let mut tried = Vec::new();
    for path in candidates(endpoint, &boot_id(), socket_variable(), &cluster::find()) {
        match cluster::connect(&path, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok((stream, path)),
            Err(e) => tried.push(format!("{} ({e})", path.display())),
        }
    }
    Err(anyhow!(
        "job {} is there, but no way to its nodes {}: tried {}; commands on this host need its \
         node daemon (noded)",
        endpoint.key.job,
        endpoint.nodes,
        tried.join(", ")
    ))
}

/// The id of this boot of the kernel, by which a host is recognised; empty when it is unknown.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// Paths of sockets in the order in which they are tried, each once.
fn candidates(
    endpoint: &AllocationEndpoint,
    boot_id: &str,
    socket_variable: Option<PathBuf>,
    cluster: &[PathBuf],
) -> Vec<PathBuf> {
    let here = !boot_id.is_empty() && endpoint.boot_id.trim() == boot_id;
    let first = endpoint.socket.as_ref().filter(|_| here).map(PathBuf::from);
    let usual = [STEP_SOCKET, OLD_STEP_SOCKET].map(|path| Some(path.into()));
    let beside = cluster.iter().map(|socket| step_socket_beside(socket));
    let named = [first, socket_variable].into_iter().chain(beside);
    let mut all: Vec<PathBuf> = named.chain(usual).flatten().collect();
    let mut seen = Vec::new();
    all.retain(|p| {
        !seen.contains(p) && {
            seen.push(p.clone());
            true
        }
    });
    all
}

/// The socket for steps beside a node daemon's socket for requests: `noded.steps.sock` beside
/// `noded.sock`; `None` for the controller's socket.
fn step_socket_beside(socket: &Path) -> Option<PathBuf> {
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

    fn endpoint(socket: Option<&str>) -> AllocationEndpoint {
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
        let check = |socket, boot, socket_variable: Option<&str>, cluster: &str, want: &[&str]| {
            let socket_variable = socket_variable.map(PathBuf::from);
            let got = candidates(&endpoint(socket), boot, socket_variable, &[cluster.into()]);
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
