//! Finds the node daemon's socket on which steps are started, and connects to it.
//!
//! Inside a job `COSY_STEP_SOCKET` names it. From outside: [`cosy_client::node_socket`].

use anyhow::anyhow;
use cosy_client::cluster;
use cosy_client::node_socket::{self, CONNECT_TIMEOUT, socket_variable};
use cosy_model::step::AllocationEndpoint;
use cosy_model::{JobId, variables};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// Connects from outside to a job's first node; gives the connection and the path of its socket.
///
/// # Errors
/// No socket can be reached: names those that were tried.
pub fn connect_outside(endpoint: &AllocationEndpoint) -> anyhow::Result<(UnixStream, PathBuf)> {
    Ok(node_socket::connect_outside(endpoint)?)
}
