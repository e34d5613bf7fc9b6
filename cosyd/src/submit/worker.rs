//! A program of the site that judges requests: long-lived, asked in JSON lines, without rights.
//!
//! One line goes to its standard input for each request, one comes from its standard output (the
//! protocol is in docs/admin-guide.md, "A program that judges"). It runs as an ordinary user, in a
//! session of its own, without network, with limits on memory and files. What does not
//! answer in time, says something else, or ends, is killed with all that it has started, and
//! started anew with the next request.

use super::policy::{Script, WorkerPolicy};
use cosy_rules::protocol::{self, LogLevel, LogLine, QUESTION_BYTES, Question, Wanted};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Most open files of a worker.
const FILES: u64 = 256;

/// A worker that runs.
#[derive(Debug)]
pub struct Worker {
    policy: WorkerPolicy,
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    next: u64,
}

/// Asks the worker that is kept, starting it where there is none of this configuration.
///
/// # Errors
/// Why there is no answer; the worker is gone then.
pub fn ask(
    kept: &mut Option<Worker>,
    policy: &WorkerPolicy,
    question: Question,
) -> Result<Wanted, String> {
    let until = Instant::now() + policy.timeout;
    let mut present = kept.take().filter(|worker| worker.policy == *policy);
    // One that has ended since the last request is nobody's fault who asks now.
    let ended = |worker: &mut Worker| !matches!(worker.child.try_wait(), Ok(None));
    if present.as_mut().is_some_and(ended) {
        present = None;
    }
    let mut worker = match present {
        Some(worker) => worker,
        None => Worker::start(policy, until)?,
    };
    // Dropped, and so killed, unless it has answered as it should.
    let wanted = worker.ask(question, until)?;
    *kept = Some(worker);
    Ok(wanted)
}

impl Worker {
    /// Starts a worker, and has it load its script until then, if it has one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn start(policy: &WorkerPolicy, until: Instant) -> Result<Self, String> {
        let (program, args) = policy.command.split_first().ok_or("there is no program")?;
        let fault = |e: std::io::Error| format!("{program}: {e}");
        // Opened here, as what is beside the controller may be out of reach for who it runs as.
        let own = policy.script.as_ref().map(|_| File::open(program));
        let own = own.transpose().map_err(fault)?;
        let mut command = match &own {
            Some(file) => {
                let mut command = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
                command.arg0(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        confine(&mut command, policy, nix::unistd::geteuid().is_root());
        let mut child = command.spawn().map_err(fault)?;
        let (input, output) = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .ok_or("no pipes")?;
        for end in [input.as_fd(), output.as_fd()] {
            rustix::io::ioctl_fionbio(end, true).map_err(|e| e.to_string())?;
        }
        let mut worker = Self {
            policy: policy.clone(),
            child,
            input,
            output,
            next: 1,
        };
        if let Some(script) = &policy.script {
            worker.load(script, until)?;
        }
        Ok(worker)
    }

    /// Hands the script over; a program that runs no script is never told of one.
    fn load(&mut self, script: &Script, until: Instant) -> Result<(), String> {
        let path = script.path.display().to_string();
        let load = json!({
            "version": protocol::VERSION,
            "id": 0,
            "load": { "path": path, "text": script.text, "memory": self.policy.memory.bytes() },
        });
        let loaded = self.exchange(0, &load, until)?;
        for line in &loaded.log {
            log("lua", line);
        }
        match loaded.failed {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    fn ask(&mut self, question: Question, until: Instant) -> Result<Wanted, String> {
        let id = self.next;
        self.next += 1;
        self.exchange(id, &Question { id, ..question }, until)
    }

    fn exchange(
        &mut self,
        id: u64,
        question: &impl Serialize,
        until: Instant,
    ) -> Result<Wanted, String> {
        let mut line = serde_json::to_vec(question).map_err(|e| e.to_string())?;
        if line.len() > QUESTION_BYTES {
            return Err(format!("the request has more than {QUESTION_BYTES} bytes"));
        }
        line.push(b'\n');
        self.write(&line, until)?;
        let answer = self.read(until)?;
        protocol::decode(&answer, id)
    }

    fn write(&mut self, mut rest: &[u8], until: Instant) -> Result<(), String> {
        while !rest.is_empty() {
            match self.input.write(rest) {
                Ok(0) => return Err("it takes nothing".to_owned()),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    wait(&self.input, PollFlags::POLLOUT, until)?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("it takes nothing: {e}")),
            }
        }
        Ok(())
    }

    /// One line, and nothing behind it: what comes unasked belongs to no request.
    fn read(&mut self, until: Instant) -> Result<Vec<u8>, String> {
        let most = self.policy.sees.answer_bytes();
        let mut line = Vec::new();
        let mut chunk = [0u8; 16 << 10];
        loop {
            let seen = line.len();
            match self.output.read(&mut chunk) {
                Ok(0) => return Err("it has ended".to_owned()),
                Ok(n) => line.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    wait(&self.output, PollFlags::POLLIN, until)?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.to_string()),
            }
            if line.len() > most {
                return Err(format!("its answer is longer than {most} bytes"));
            }
            let fresh = line.get(seen..).unwrap_or_default();
            match fresh.iter().position(|byte| *byte == b'\n') {
                Some(end) if seen + end + 1 == line.len() => return Ok(line),
                Some(_) => return Err("it says more than one line".to_owned()),
                None if Instant::now() > until => {
                    return Err("it has not answered in time".to_owned());
                }
                None => {}
            }
        }
    }
}

/// A text in which nothing begins another line of the log.
pub fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

/// Writes a line of a program to the log.
pub fn log(name: &str, line: &LogLine) {
    let text = one_line(&line.text);
    match line.level {
        LogLevel::Error => tracing::error!("{name}: {text}"),
        LogLevel::Info => tracing::info!("{name}: {text}"),
        LogLevel::Debug => tracing::debug!("{name}: {text}"),
    }
}

impl Drop for Worker {
    /// What it has started in its session goes with it.
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Limits, a session of its own, and as root: no network, and another user without groups. All of
/// it happens in the new process, and one step that fails keeps the program from being started.
fn confine(command: &mut Command, policy: &WorkerPolicy, root: bool) {
    let (uid, memory) = (policy.uid, policy.memory.bytes());
    let alone = root && !policy.network;
    let limits = [
        (libc::RLIMIT_AS, memory),
        (libc::RLIMIT_NOFILE, FILES),
        (libc::RLIMIT_CORE, 0),
    ];
    let confined = move || {
        let done = |result: i32| match result {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        };
        // SAFETY: system calls that take numbers, and structures of this frame.
        unsafe {
            done(libc::setsid())?;
            for (resource, most) in limits {
                let limit = libc::rlimit {
                    rlim_cur: most,
                    rlim_max: most,
                };
                done(libc::setrlimit(resource, &limit))?;
            }
            if alone {
                done(libc::unshare(libc::CLONE_NEWNET))?;
            }
            if root {
                done(libc::setgroups(0, std::ptr::null()))?;
                done(libc::setresgid(uid, uid, uid))?;
                done(libc::setresuid(uid, uid, uid))?;
            }
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))
        }
    };
    // SAFETY: between fork and exec it makes system calls and allocates nothing.
    unsafe { command.pre_exec(confined) };
}

fn wait(end: &impl AsFd, what: PollFlags, until: Instant) -> Result<(), String> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err("it has not answered in time".to_owned());
    }
    let left = left.max(Duration::from_millis(1));
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(end.as_fd(), what)], timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests;
