//! Runs a plugin's script for a job.

use crate::{Environment, JOB_OUTPUT, VariablesError, parse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Why a script gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The script cannot be run.
    #[error("cannot be run: {0}")]
    Start(#[source] io::Error),
    /// It cannot be waited for.
    #[error("cannot be watched: {0}")]
    Watch(#[source] io::Error),
    /// It took too long and was killed.
    #[error("took longer than {} s and was killed", .0.as_secs())]
    Slow(Duration),
    /// The script ended with another exit code than 0.
    #[error("ended with exit code {0}")]
    Code(i32),
    /// A signal ended it.
    #[error("was ended by signal {0}")]
    Signal(i32),
    /// What it printed is of no use.
    #[error(transparent)]
    Output(#[from] VariablesError),
}

/// Runs `script` in the directory `files` with exactly these variables, and gives those
/// that it prints. Its error output is the caller's. It has a process group of its own,
/// of which nothing is left.
///
/// # Errors
/// [`JobError`].
pub fn run_job(
    script: &Path,
    environment: &Environment,
    files: &Path,
    deadline: Duration,
) -> Result<Environment, JobError> {
    let child = Command::new(script)
        .env_clear()
        .envs(environment)
        .current_dir(files)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(JobError::Start)?;
    let mut run = Run::new(child)?;
    let heard = run.until_its_end(Instant::now() + deadline, deadline);
    let status = run.finish()?;
    heard?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(parse(&run.output)?),
        (Some(code), _) => Err(JobError::Code(code)),
        (None, signal) => Err(JobError::Signal(signal.unwrap_or(0))),
    }
}

struct Run {
    child: Child,
    end: OwnedFd,
    stdout: Option<ChildStdout>,
    output: Vec<u8>,
}

impl Run {
    fn new(mut child: Child) -> Result<Self, JobError> {
        let stdout = child.stdout.take();
        match watch(&child, stdout.as_ref()) {
            Ok(end) => Ok(Self {
                child,
                end,
                stdout,
                output: Vec::new(),
            }),
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(JobError::Watch(e))
            }
        }
    }

    /// Reads until the script has ended, or until it went too far.
    fn until_its_end(&mut self, until: Instant, deadline: Duration) -> Result<(), JobError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(JobError::Slow(deadline));
            }
            let ended = self.wait(left).map_err(JobError::Watch)?;
            self.read()?;
            if ended {
                return Ok(());
            }
        }
    }

    /// Waits for output or the end; true at the end.
    fn wait(&self, left: Duration) -> io::Result<bool> {
        let mut wanted = vec![PollFd::new(&self.end, PollFlags::IN)];
        if let Some(stdout) = &self.stdout {
            wanted.push(PollFd::new(stdout, PollFlags::IN));
        }
        let left = Timespec::try_from(left).ok();
        match poll(&mut wanted, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!wanted[0].revents().is_empty()),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes what is there.
    fn read(&mut self) -> Result<(), JobError> {
        let mut bytes = [0; 4096];
        while let Some(stdout) = &mut self.stdout {
            match stdout.read(&mut bytes) {
                Ok(0) => self.stdout = None,
                Ok(length) => self.output.extend_from_slice(&bytes[..length]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(JobError::Watch(e)),
            }
            if self.output.len() > JOB_OUTPUT {
                return Err(VariablesError::TooLong.into());
            }
        }
        Ok(())
    }

    /// Ends what is left of it. The script itself was not waited for yet, so that the
    /// number of its group is still its own.
    fn finish(&mut self) -> Result<ExitStatus, JobError> {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait().map_err(JobError::Watch)
    }
}

fn watch(child: &Child, stdout: Option<&ChildStdout>) -> io::Result<OwnedFd> {
    if let Some(stdout) = stdout {
        let flags = fcntl_getfl(stdout.as_fd())?;
        fcntl_setfl(stdout.as_fd(), flags | OFlags::NONBLOCK)?;
    }
    let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn run(text: &str, deadline: Duration) -> Result<Environment, String> {
        let work = tempfile::tempdir().unwrap();
        let script = work.path().join("job");
        symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/job"), &script).unwrap();
        fs::write(work.path().join("job.text"), text).unwrap();
        let environment = [("PATH", "/usr/bin:/bin"), ("GIVEN", "a b")];
        let environment = environment.map(|(n, v)| (n.into(), v.into())).into();
        run_job(&script, &environment, work.path(), deadline).map_err(|e| e.to_string())
    }

    fn check(text: &str, expected: Result<&[(&str, &str)], &str>) {
        let got = run(text, Duration::from_secs(20));
        match expected {
            Ok(pairs) => {
                let wanted: Environment = pairs.iter().map(|(n, v)| (n.into(), v.into())).collect();
                assert_eq!(got, Ok(wanted), "{text}");
            }
            Err(part) => {
                let error = got.expect_err(text);
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn what_it_prints() {
        check("echo SEEN=$GIVEN", Ok(&[("SEEN", "a b")]));
        check("read line; echo READ=\"<$line>\"", Ok(&[("READ", "<>")]));
        check(": > file; echo SEEN=$(ls)", Ok(&[("SEEN", "file job job.text")]));
        check("exec true", Ok(&[]));
        check("echo A=1; exit 3", Err("exit code 3"));
        check("kill -9 $$", Err("signal 9"));
        check("echo no", Err("NAME=value: 'no'"));
        check("while echo A=1; do :; done", Err("more than 65536 bytes"));
    }

    #[test]
    fn what_it_leaves_behind_goes() {
        let printed = run("sleep 1000 & echo LEFT=$!", Duration::from_secs(20)).unwrap();
        let left = printed[OsStr::new("LEFT")].to_str().unwrap().to_owned();
        let gone = || match fs::read_to_string(format!("/proc/{left}/stat")) {
            Ok(stat) => stat.contains(") Z ") || !stat.contains("(sleep)"),
            Err(_) => true,
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !gone() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(gone(), "process {left} is still there");
    }

    #[test]
    fn too_slow() {
        let error = run("sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("longer than"), "{error}");
    }

    #[test]
    fn no_such_script() {
        let missing = Path::new("/nonexistent/job");
        let got = run_job(missing, &Environment::new(), Path::new("/"), crate::JOB_DEADLINE);
        assert!(matches!(got, Err(JobError::Start(_))));
    }
}
