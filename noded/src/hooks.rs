//! Programs of the administrator that run beside jobs: prolog, epilog, health check.
//!
//! They run as the daemon's user, without a shell, in a process group of their own, and
//! are killed when over their time. What they print is kept in memory; its last line
//! becomes part of the reason when they fail. Nothing here blocks.

use crate::config::HookCommand;
use crate::sys;
use cosy_model::variables;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Longest part of a hook's output that is looked at, in bytes.
const OUTPUT_TAIL: u64 = 2048;
/// How long one that was killed is waited for: it may hang in the kernel.
const DEATH: Duration = Duration::from_secs(5);
/// Longest reason, in characters.
const REASON: usize = 300;

/// Hands the exit status of a child to whoever waits for it. There is one place in the
/// daemon that reaps.
#[derive(Clone, Debug, Default)]
pub struct Reaper(Arc<Mutex<HashMap<i32, oneshot::Sender<sys::Reaped>>>>);

impl Reaper {
    /// The status of a child that has just been started.
    pub fn expect(&self, pid: i32) -> oneshot::Receiver<sys::Reaped> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(pid, sender);
        receiver
    }

    /// Tells that a child has ended, if somebody waits for it.
    pub fn tell(&self, reaped: sys::Reaped) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.remove(&reaped.pid.as_raw()) {
            let _ = sender.send(reaped);
        }
    }
}

/// A hook to run once.
#[derive(Clone, Debug)]
pub struct Hook {
    /// `prolog`, `epilog`, `health check`.
    pub kind: &'static str,
    /// Program with its arguments.
    pub command: HookCommand,
    /// Longest run, after which it is killed and has failed.
    pub timeout: Duration,
    /// Variables beside those of every hook.
    pub environment: Vec<(&'static str, String)>,
}

impl Hook {
    /// Runs it to its end, to its time-out, or until `cancel` is notified.
    ///
    /// # Errors
    /// In one line, why the hook counts as failed.
    pub async fn run(self, reaper: Reaper, cancel: Arc<Notify>) -> Result<(), String> {
        let name = format!("{} {}", self.kind, self.command.argv[0]);
        let (pid, output) = self
            .start()
            .map_err(|e| format!("{name} cannot be run: {e}"))?;
        let mut ended = reaper.expect(pid);
        let why = tokio::select! {
            reaped = &mut ended => return verdict(&name, reaped.ok(), output),
            () = tokio::time::sleep(self.timeout) => {
                format!("{name} took longer than {} s", self.timeout.as_secs_f32())
            }
            () = cancel.notified() => format!("{name} was stopped"),
        };
        kill_group(pid);
        match tokio::time::timeout(DEATH, ended).await {
            Ok(_) => Err(why),
            Err(_) => Err(format!("{why}, and its process {pid} cannot be killed")),
        }
    }

    fn start(&self) -> std::io::Result<(i32, File)> {
        let output = sys::memory_file()?;
        let child = Command::new(&self.command.argv[0])
            .args(&self.command.argv[1..])
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env(variables::HOOK, self.kind.replace(' ', "_"))
            .envs(self.environment.iter().map(|(n, v)| (*n, v.as_str())))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        Ok((child.id() as i32, output))
    }
}

fn kill_group(pid: i32) {
    let _ = sys::kill(nix::unistd::Pid::from_raw(-pid), nix::libc::SIGKILL);
}

fn verdict(name: &str, reaped: Option<sys::Reaped>, output: File) -> Result<(), String> {
    let how = match reaped.map(|r| r.code_and_signal()) {
        Some((0, 0)) => return Ok(()),
        Some((code, 0)) => format!("ended with exit code {code}"),
        Some((_, signal)) => format!("was ended by {}", sys::signal_name(signal)),
        None => "was lost".to_owned(),
    };
    let last = last_line(output).map_or(String::new(), |line| format!(": {line}"));
    Err(format!("{name} {how}{last}"))
}

fn last_line(mut output: File) -> Option<String> {
    let length = output.metadata().ok()?.len();
    let from = length.saturating_sub(OUTPUT_TAIL);
    output.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    output.take(OUTPUT_TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|l| !l.trim().is_empty())?.trim();
    let clean = line.chars().filter(|c| !c.is_control());
    Some(clean.take(REASON).collect())
}
