//! Finds the node daemon's socket on which steps are started, from outside of a job: the socket of
//! the job's first node when that is this host, else that of this host's own node daemon, which passes
//! everything on.

use crate::cluster;
use cosy_model::step::AllocationEndpoint;
use cosy_model::variables;
use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Socket for steps of the node daemon, unless it is configured otherwise.
pub const STEP_SOCKET: &str = "/run/noded/noded.steps.sock";
/// [`STEP_SOCKET`] of earlier releases.
pub const OLD_STEP_SOCKET: &str = "/run/cosy/noded.steps.sock";
/// Longest wait for a place in the daemon's queue of connections.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// No socket leads to a job's nodes.
#[derive(Debug, thiserror::Error)]
#[error(
    "job {job} is there, but no way to its nodes {nodes}: tried {tried}; commands on this host need its \
     node daemon (noded)"
)]
pub struct NoWay {
    job: cosy_model::JobId,
    nodes: String,
    tried: String,
}

/// Where node daemons keep what runs, unless configured otherwise.
const SPOOL: &str = "/var/spool/cosy";

/// Where a node daemon of this host listens that is configured as `noded join` does it: in its spool, by
/// the name of the host.
pub fn of_this_host() -> Vec<PathBuf> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let short = name.split('.').next().unwrap_or_default();
    let in_spool = [name.as_ref(), short]
        .into_iter()
        .filter(|name| !name.is_empty() && !name.contains('/'))
        .map(|name| Path::new(SPOOL).join(name).join("steps.sock"));
    let usual = [STEP_SOCKET, OLD_STEP_SOCKET].map(PathBuf::from);
    usual.into_iter().chain(in_spool).collect()
}

/// What `COSY_STEP_SOCKET` names.
pub fn socket_variable() -> Option<PathBuf> {
    let path = std::env::var_os(variables::STEP_SOCKET).filter(|v| !v.is_empty())?;
    Some(path.into())
}

/// The sockets that may lead to a job's first node, in the order in which they are tried, for a
/// program that talks with the controller at one of those.
pub fn to_job(endpoint: &AllocationEndpoint, controllers: &[PathBuf]) -> Vec<PathBuf> {
    candidates(endpoint, &boot_id(), socket_variable(), controllers, of_this_host())
}

/// Connects from outside to a job's first node; gives the connection and the path of its socket.
///
/// # Errors
/// No socket can be reached: names those that were tried.
pub fn connect_outside(endpoint: &AllocationEndpoint) -> Result<(UnixStream, PathBuf), NoWay> {
    let mut tried = Vec::new();
    for path in to_job(endpoint, &cluster::find()) {
        match cluster::connect(&path, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok((stream, path)),
            Err(e) => tried.push(format!("{} ({e})", path.display())),
        }
    }
    Err(NoWay {
        job: endpoint.key.job,
        nodes: endpoint.nodes.clone(),
        tried: tried.join(", "),
    })
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
    usual: Vec<PathBuf>,
) -> Vec<PathBuf> {
    let here = !boot_id.is_empty() && endpoint.boot_id.trim() == boot_id;
    let first = endpoint.socket.as_ref().filter(|_| here).map(PathBuf::from);
    let beside = cluster.iter().map(|socket| step_socket_beside(socket));
    let named = [first, socket_variable].into_iter().chain(beside);
    let mut all: Vec<PathBuf> = named.flatten().chain(usual).collect();
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
    use cosy_model::node::AttemptKey;
    use cosy_model::{Attempt, JobId};

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
            let usual = [STEP_SOCKET, OLD_STEP_SOCKET].map(PathBuf::from).to_vec();
            let got =
                candidates(&endpoint(socket), boot, socket_variable, &[cluster.into()], usual);
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
