//! A program of the site that judges requests: long-lived, asked in JSON lines, without rights.
//!
//! One line goes to its standard input for each request, one comes from its standard output (the
//! protocol is in docs/admin-guide.md, "A program that judges"). It runs as an ordinary user, in a
//! session of its own, without network, with limits on memory and files. What does not
//! answer in time, says something else, or ends, is killed with all that it has started, and
//! started anew with the next request.

use super::policy::WorkerPolicy;
use cosy_model::{MiB, Span};
use cosy_rules::{Field, Kind, Subject, Value};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Map, json};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Version of the protocol.
pub const PROTOCOL: u32 = 1;
/// Most bytes of an answer.
const ANSWER_BYTES: usize = 64 << 10;
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

/// What a worker answers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: u64,
    #[serde(default)]
    set: Map<String, serde_json::Value>,
    #[serde(default)]
    remarks: Vec<String>,
    #[serde(default)]
    refuse: Option<String>,
}

/// What a worker wants of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Fields and what they become.
    pub set: Vec<(Field, Value)>,
    /// What the user is told.
    pub remarks: Vec<String>,
    /// Why the request is refused.
    pub refuse: Option<String>,
}

/// Asks the worker that is kept, starting it where there is none of this configuration.
///
/// # Errors
/// Why there is no answer; the worker is gone then.
pub fn ask(
    kept: &mut Option<Worker>,
    policy: &WorkerPolicy,
    subject: &Subject<'_>,
) -> Result<Wanted, String> {
    let present = kept.take().filter(|worker| worker.policy == *policy);
    let mut worker = match present {
        Some(worker) => worker,
        None => Worker::start(policy)?,
    };
    // Dropped, and so killed, unless it has answered as it should.
    let wanted = worker.ask(subject)?;
    *kept = Some(worker);
    Ok(wanted)
}

impl Worker {
    fn start(policy: &WorkerPolicy) -> Result<Self, String> {
        let (program, args) = policy.command.split_first().ok_or("there is no program")?;
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        confine(&mut command, policy, nix::unistd::geteuid().is_root());
        let mut child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
        let (input, output) = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .ok_or("no pipes")?;
        for end in [input.as_fd(), output.as_fd()] {
            rustix::io::ioctl_fionbio(end, true).map_err(|e| e.to_string())?;
        }
        Ok(Self {
            policy: policy.clone(),
            child,
            input,
            output,
            next: 1,
        })
    }

    fn ask(&mut self, subject: &Subject<'_>) -> Result<Wanted, String> {
        let until = Instant::now() + self.policy.timeout;
        let id = self.next;
        self.next += 1;
        let mut line = question(id, subject).to_string().into_bytes();
        line.push(b'\n');
        self.write(&line, until)?;
        let answer = self.read(until)?;
        let answer: Answer =
            serde_json::from_slice(&answer).map_err(|e| format!("its answer is none: {e}"))?;
        if answer.id != id {
            return Err(format!("it answers request {} and was asked {id}", answer.id));
        }
        let mut set = Vec::new();
        for (name, value) in &answer.set {
            set.push(setting(name, value)?);
        }
        Ok(Wanted {
            set,
            remarks: answer.remarks,
            refuse: answer.refuse,
        })
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
        let mut line = Vec::new();
        let mut chunk = [0u8; 4096];
        loop {
            match self.output.read(&mut chunk) {
                Ok(0) => return Err("it has ended".to_owned()),
                Ok(n) => line.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    wait(&self.output, PollFlags::POLLIN, until)?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.to_string()),
            }
            if line.len() > ANSWER_BYTES {
                return Err(format!("its answer is longer than {ANSWER_BYTES} bytes"));
            }
            match line.iter().position(|byte| *byte == b'\n') {
                Some(end) if end + 1 == line.len() => return Ok(line),
                Some(_) => return Err("it says more than one line".to_owned()),
                None => {}
            }
        }
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

/// A request as a worker is told of it: fields that are set. Sizes are MiB, times seconds.
fn question(id: u64, subject: &Subject<'_>) -> serde_json::Value {
    let mut fields = Map::new();
    for field in Field::ALL {
        let value = match subject.get(*field) {
            Value::Unset => continue,
            Value::Flag(yes) => json!(yes),
            Value::Time(Value::NO_END) => json!("unlimited"),
            Value::Number(n) | Value::Size(n) | Value::Time(n) => json!(n),
            Value::Text(text) => json!(text),
            Value::List(all) => json!(all),
        };
        fields.insert(field.name().to_owned(), value);
    }
    json!({ "version": PROTOCOL, "id": id, "fields": fields })
}

/// A field and its value as a worker wants it.
fn setting(name: &str, value: &serde_json::Value) -> Result<(Field, Value), String> {
    use serde_json::Value as Json;
    let short: String = name.chars().take(60).collect();
    let field = Field::named(name).filter(|field| field.is_settable());
    let field = field.ok_or_else(|| format!("it sets '{short}', which cannot be set"))?;
    let read = match (field.kind(), value) {
        (Kind::Flag, Json::Bool(yes)) => Some(Value::Flag(*yes)),
        (Kind::Number, Json::Number(n)) => n.as_i64().map(Value::Number),
        (Kind::Size, Json::Number(n)) => n.as_i64().map(Value::Size),
        (Kind::Size, Json::String(text)) => {
            let size = text.parse::<MiB>().ok();
            size.and_then(|mib| i64::try_from(mib.0).ok())
                .map(Value::Size)
        }
        (Kind::Time, Json::Number(n)) => n.as_i64().map(Value::Time),
        (Kind::Time, Json::String(text)) => text.parse::<Span>().ok().map(Value::of_span),
        (Kind::Text, Json::String(text)) => Some(Value::Text(text.clone())),
        (Kind::List, Json::Array(all)) => {
            let texts = all.iter().map(|one| one.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>().map(Value::List)
        }
        _ => None,
    };
    let read = read.ok_or_else(|| format!("it sets {short} to what is not {}", field.kind()))?;
    Ok((field, read))
}

#[cfg(test)]
mod tests;
