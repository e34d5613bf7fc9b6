//! The daemon's side of the helper that looks for GPUs: it is started, read, and ended when it is
//! late. Nothing here blocks.

use super::{GpuSearch, GpusFound, find, kernel};
use crate::hooks::Reaper;
use crate::sys;
use cosy_proto::frame;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

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

/// Looks for GPUs for at most that long. The daemon reaps the helper; where `reaper` is given, its end can
/// be waited for, so that none is started while one hangs in the kernel.
pub async fn look(search: &GpuSearch, patience: Duration, reaper: Option<&Reaper>) -> Look {
    let (pid, output) = match start(search) {
        Ok(started) => started,
        Err(e) => return Look::failed(format!("no process can be made: {e}")),
    };
    let ended = reaper.map(|reaper| reaper.expect(pid));
    let found = tokio::time::timeout(patience, read(output)).await;
    let result = match found {
        Ok(found) => found.map_err(|e| format!("the look for GPUs failed: {e}")),
        Err(_) => {
            let _ = sys::kill(nix::unistd::Pid::from_raw(pid), nix::libc::SIGKILL);
            Err(late(patience))
        }
    };
    Look { result, ended }
}

/// What is said of a helper that is not done in time.
pub fn late(patience: Duration) -> String {
    let seconds = patience.as_secs();
    format!("the look for GPUs took longer than {seconds} s: their driver hangs")
}

/// What came of a look.
#[derive(Debug)]
pub struct Look {
    /// What there is, or why that is not known.
    pub result: Result<GpusFound, String>,
    ended: Option<tokio::sync::oneshot::Receiver<sys::Reaped>>,
}

impl Look {
    fn failed(why: String) -> Self {
        Self {
            result: Err(why),
            ended: None,
        }
    }

    /// Waits until the helper has ended.
    pub async fn over(&mut self) {
        if let Some(ended) = &mut self.ended {
            let _ = ended.await;
            self.ended = None;
        }
    }
}

fn start(search: &GpuSearch) -> io::Result<(i32, OwnedFd)> {
    let name = |path: &Option<PathBuf>| match path {
        Some(path) => path.clone().into_os_string(),
        None => OsStr::new("-").to_owned(),
    };
    let mut child = Command::new("/proc/self/exe")
        .arg("--find-gpus")
        .args([name(&search.nvml), name(&search.rocm)])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take();
    let output = output.ok_or_else(|| io::Error::other("there is no pipe"))?;
    Ok((child.id().cast_signed(), OwnedFd::from(output)))
}

/// The answer: what else it may write is not read.
async fn read(output: OwnedFd) -> io::Result<GpusFound> {
    let mut pipe = pipe::Receiver::from_owned_fd(output)?;
    let mut header = [0; frame::HEADER];
    pipe.read_exact(&mut header).await.map_err(ended)?;
    let length = u32::from_le_bytes(header) as usize;
    if length > find::ANSWER {
        return Err(io::Error::other("its answer is too long"));
    }
    let mut body = Vec::new();
    let whole = (&mut pipe)
        .take(length as u64)
        .read_to_end(&mut body)
        .await?;
    if whole < length {
        return Err(ended(io::ErrorKind::UnexpectedEof.into()));
    }
    frame::decode(&body).map_err(io::Error::other)
}

/// A helper that says nothing was ended by what it called.
fn ended(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("a library of their vendor has ended it"),
        _ => e,
    }
}
