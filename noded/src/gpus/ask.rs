//! The daemon's side of the helper that looks for GPUs: it is started, read, and ended when it is
//! late. Nothing here blocks.

use super::{GpuSearch, GpusFound, find, kernel};
use crate::hooks::Reaper;
use crate::peer::read_frame;
use crate::sys;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// How long a look may take: a driver that nobody uses wakes its GPUs first, some seconds each.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a daemon waits at its start, when nothing is known of earlier: less than controllers wait for
/// a node that is silent.
pub const FIRST_PATIENCE: Duration = Duration::from_secs(30);
/// The same where the list is known: the next look tells what is wrong.
pub const SHORT_PATIENCE: Duration = Duration::from_secs(5);

/// Whether there may be GPUs here, so that it is worth a process.
pub fn worth_it(search: &GpuSearch) -> bool {
    let named = search.nvml.is_some() || search.rocm.is_some();
    !search.off && (named || kernel::has_driver(Path::new("/")))
}

/// Looks for GPUs for at most that long. Gives what there is, or in one line why that is not known, and the
/// end of the helper, which the daemon reaps; only with `reaper` it can be waited for.
pub async fn look(
    search: &GpuSearch,
    patience: Duration,
    reaper: Option<&Reaper>,
) -> (Result<GpusFound, String>, HelperEnd) {
    let (pid, output) = match start(search) {
        Ok(started) => started,
        Err(e) => return (Err(format!("no process can be made: {e}")), HelperEnd(None)),
    };
    let end = HelperEnd(reaper.map(|reaper| reaper.expect(pid)));
    let result = match tokio::time::timeout(patience, read(output)).await {
        Ok(found) => found.map_err(|e| format!("the look for GPUs failed: {e}")),
        Err(_) => {
            let _ = sys::kill(nix::unistd::Pid::from_raw(pid), nix::libc::SIGKILL);
            Err(late(patience))
        }
    };
    (result, end)
}

/// What is said of a helper that is not done in time.
pub fn late(patience: Duration) -> String {
    let seconds = patience.as_secs();
    format!("the look for GPUs took longer than {seconds} s: their driver hangs")
}

/// The end of a helper: none is started while one hangs in the kernel.
#[derive(Debug)]
pub struct HelperEnd(Option<oneshot::Receiver<sys::Reaped>>);

impl HelperEnd {
    /// Waits for it.
    pub async fn wait(&mut self) {
        if let Some(ended) = &mut self.0 {
            let _ = ended.await;
            self.0 = None;
        }
    }
}

fn start(search: &GpuSearch) -> io::Result<(i32, OwnedFd)> {
    let name = |path: &Option<PathBuf>| match path {
        Some(path) => path.clone().into_os_string(),
        None => OsStr::new("-").to_owned(),
    };
    let mut child = sys::helper("--find-gpus")
        .args([name(&search.nvml), name(&search.rocm)])
        .spawn()?;
    let output = child.stdout.take();
    let output = output.ok_or_else(|| io::Error::other("there is no pipe"))?;
    Ok((child.id().cast_signed(), OwnedFd::from(output)))
}

/// The answer: what else it may write is not read.
async fn read(output: OwnedFd) -> io::Result<GpusFound> {
    let mut pipe = pipe::Receiver::from_owned_fd(output)?;
    read_frame(&mut pipe, find::ANSWER).await.map_err(ended)
}

/// A helper that says nothing was ended by what it called.
fn ended(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("a library of their vendor has ended it"),
        _ => e,
    }
}
