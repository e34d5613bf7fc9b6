//! The supervisor of a private cluster: starts the daemons and COMMAND, reports, and
//! sees to it that in the end nothing is left. See [`super`].

use super::children::{self, Manners};
use super::controllers::{ControllerPlan, SCRIPT};
use super::plan::{NodePlan, Plan, Report};
use super::{database, directory, fds, files};
use crate::exit;
use crate::page::http;
use anyhow::{Context as _, bail};
use cosy_model::variables;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Under this name the program is a supervisor.
pub const HIDDEN_NAME: &str = "dev-supervisor";
/// Longest wait until all daemons are ready.
const START: Duration = Duration::from_secs(30);
/// How long COMMAND has to end after it got a signal.
const LEAVE: Duration = Duration::from_secs(10);

/// The whole supervisor; `args` are the plan and COMMAND.
pub fn main(args: &[OsString]) -> u8 {
    let plan = args
        .first()
        .and_then(|a| serde_json::from_str::<Plan>(&a.to_string_lossy()).ok());
    let Some(plan) = plan else {
        crate::output::complain("cosy", "this is started by 'cosy dev' only");
        return exit::USAGE;
    };
    match Supervisor::new(plan) {
        Ok(mut supervisor) => supervisor.run(&args[1..]),
        Err(e) => {
            crate::output::complain("cosy dev", &format!("{e:#}"));
            exit::FAILED
        }
    }
}

struct Daemon {
    name: String,
    pid: Pid,
    log: PathBuf,
    /// The pipe on which the daemon reports that it is ready; `None` once it has.
    ready: Option<File>,
}

struct Supervisor {
    plan: Plan,
    lifeline: OwnedFd,
    report: File,
    _lock: OwnedFd,
    /// Files that the caller left open for COMMAND; the daemons shall not have them.
    inherited: Vec<OwnedFd>,
    /// Readable when a signal has come.
    wake_pipe: UnixStream,
    /// Last of the signals that are meant for COMMAND; 0 without.
    pending_signal: Arc<AtomicUsize>,
    daemons: Vec<Daemon>,
    database: Option<Pid>,
}

/// The front has gone: the supervisor stops without a report.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
struct Stopped;

impl Supervisor {
    fn new(plan: Plan) -> anyhow::Result<Self> {
        let [lifeline, report, lock] = plan.handed;
        let inherited = fds::adopt_others(&plan.handed);
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let (wake_pipe, pending_signal) = listen_for_signals()?;
        Ok(Self {
            lifeline: fds::adopt(lifeline)?,
            report: File::from(fds::adopt(report)?),
            _lock: fds::adopt(lock)?,
            plan,
            inherited,
            wake_pipe,
            pending_signal,
            daemons: Vec::new(),
            database: None,
        })
    }

    fn run(&mut self, command: &[OsString]) -> u8 {
        match self.start().and_then(|()| self.serve(command)) {
            Ok(report) => self.report(&report),
            Err(e) if e.is::<Stopped>() => {}
            Err(e) => self.report(&Report::Failed(format!("{e:#}"))),
        }
        self.wait_for_front();
        let programs = &self.plan.programs;
        let manners = Manners {
            by_themselves: vec![programs.noded.clone()],
            told: std::iter::once(&programs.cosyd)
                .chain(&programs.web)
                .cloned()
                .collect(),
            last: programs.postgres.clone(),
        };
        let clean = children::end_all(&manners, Some(&mut self.wake_pipe));
        if !self.plan.keep {
            directory::remove(&self.plan.dir, self.plan.whole);
        }
        if clean { exit::OK } else { exit::FAILED }
    }

    fn report(&mut self, report: &Report) {
        let _ = self.report.write_all(report.line().as_bytes());
    }

    /// The daemons stop when the front lets go of the lifeline, not before.
    fn wait_for_front(&mut self) {
        let until = Instant::now() + LEAVE;
        loop {
            match self.wait(&[], Some(until)) {
                WakeReason::FrontGone | WakeReason::Timeout => return,
                WakeReason::Signal => self.drain(),
                WakeReason::Readable(_) => {}
            }
        }
    }

    /// Starts the database and the first controller, then the others, then all nodes at once.
    fn start(&mut self) -> anyhow::Result<()> {
        if self.plan.programs.postgres.is_some() {
            self.database = Some(database::start(&self.plan.dir)?);
        }
        let until = Instant::now() + START;
        let controllers = self.plan.controllers.clone();
        // The first one makes the tables.
        let (first, others) = controllers.split_at(1);
        for group in [first, others] {
            for controller in group {
                self.start_controller(controller)?;
            }
            self.await_ready(until)?;
        }
        let addresses = controllers
            .iter()
            .map(address)
            .collect::<Result<Vec<_>, _>>()?;
        for node in self.plan.nodes.clone() {
            self.start_node(&node, &addresses)?;
        }
        self.await_ready(until)?;
        if let Some(web) = self.plan.programs.web.clone() {
            let config = self.plan.dir.join("web.toml");
            self.spawn("cosy-web", &web, &config, &[])?;
            self.await_ready(until)?;
        }
        Ok(())
    }

    /// A link to the page, where there is one.
    fn tell_link(&mut self) {
        if self.plan.programs.web.is_none() {
            return;
        }
        let socket = self.plan.dir.join("run/web.sock");
        let told = http::ask(&socket, "POST", "/api/v1/links", &serde_json::json!({}));
        let text = match told {
            Ok(told) => format!("the page: {}", told["link"].as_str().unwrap_or_default()),
            Err(e) => format!("no link to the page: {e:#}"),
        };
        self.report(&Report::Note(text));
    }

    fn start_controller(&mut self, controller: &ControllerPlan) -> anyhow::Result<()> {
        let config = self.plan.dir.join("cosy.toml");
        let cosyd = self.plan.programs.cosyd.clone();
        let name = &controller.name;
        if !self.plan.has_several() {
            return self.spawn(name, &cosyd, &config, &[]).map(drop);
        }
        let pid = self.spawn(name, &cosyd, &config, &["--name", name])?;
        let text = format!("{}\n", pid.as_raw_nonzero());
        Ok(fs::write(controller.pid_file(&self.plan.dir), text)?)
    }

    fn start_node(&mut self, node: &NodePlan, addresses: &[String]) -> anyhow::Result<()> {
        files::write_node(&self.plan, node, addresses)?;
        let config = node.folder.join("noded.toml");
        let noded = self.plan.programs.noded.clone();
        let name = format!("noded-{}", node.name);
        match node.virtuals {
            0 => self.spawn(&name, &noded, &config, &[]),
            count => self.spawn(&name, &noded, &config, &["--virtual", &count.to_string()]),
        }
        .map(drop)
    }

    fn spawn(
        &mut self,
        name: &str,
        program: &Path,
        config: &Path,
        more: &[&str],
    ) -> anyhow::Result<Pid> {
        let log = self.plan.dir.join("log").join(format!("{name}.log"));
        let file = open_log(&log)?;
        let (ready, ready_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let lifeline = fds::reopen_for_child(&self.lifeline)?;
        let mut command = Command::new(program);
        command
            .arg("--config")
            .arg(config)
            .arg("--lifeline-fd")
            .arg(lifeline.as_raw_fd().to_string())
            .arg("--ready-fd")
            .arg(fds::pass_to_child(&ready_write)?.to_string())
            .args(more)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .current_dir("/");
        if self.plan.as_user && self.plan.programs.web.as_deref() == Some(program) {
            command.env(variables::AS_USER, "1");
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start '{}'", program.display()))?;
        let pid = Pid::from_child(&child);
        self.daemons.push(Daemon {
            name: name.to_owned(),
            pid,
            log,
            ready: Some(File::from(ready)),
        });
        Ok(pid)
    }

    /// Waits until every daemon that was started has said that it is ready.
    fn await_ready(&mut self, until: Instant) -> anyhow::Result<()> {
        loop {
            let waiting: Vec<usize> = (0..self.daemons.len())
                .filter(|at| self.daemons[*at].ready.is_some())
                .collect();
            if waiting.is_empty() {
                return Ok(());
            }
            let wake = {
                let pipes: Vec<BorrowedFd<'_>> = waiting
                    .iter()
                    .filter_map(|at| self.daemons[*at].ready.as_ref().map(AsFd::as_fd))
                    .collect();
                wait(&self.lifeline, &self.wake_pipe, &pipes, Some(until))
            };
            match wake {
                WakeReason::FrontGone => bail!(Stopped),
                WakeReason::Signal => self.check_start()?,
                WakeReason::Readable(at) => self.read_ready(waiting[at])?,
                WakeReason::Timeout => {
                    let daemon = &self.daemons[waiting[0]];
                    let seconds = START.as_secs();
                    bail!(
                        "{} was not ready within {seconds} s{}",
                        daemon.name,
                        last_words(&daemon.log)
                    );
                }
            }
        }
    }

    fn read_ready(&mut self, at: usize) -> anyhow::Result<()> {
        let daemon = &mut self.daemons[at];
        let mut text = [0; 64];
        let read = daemon.ready.as_mut().map_or(Ok(0), |r| r.read(&mut text))?;
        if read == 0 {
            // Closed without a word: it has ended, or as good as.
            let _ = kill_process(daemon.pid, Signal::KILL);
            bail!("{} ended{}", daemon.name, last_words(&daemon.log));
        }
        daemon.ready = None;
        Ok(())
    }

    /// A signal came while starting: an end of a daemon, or the wish to stop.
    fn check_start(&mut self) -> anyhow::Result<()> {
        self.drain();
        if self.pending_signal.swap(0, Ordering::Relaxed) != 0 {
            bail!("stopped by a signal before it was ready");
        }
        for (pid, _) in children::collect().0 {
            if self.database == Some(pid) {
                bail!("PostgreSQL ended{}", last_words(&self.plan.dir.join("postgres/log")));
            }
            if let Some(daemon) = self.daemons.iter().find(|d| d.pid == pid) {
                bail!("{} ended{}", daemon.name, last_words(&daemon.log));
            }
        }
        Ok(())
    }

    /// Runs COMMAND; gives how it ended.
    fn serve(&mut self, command: &[OsString]) -> anyhow::Result<Report> {
        self.tell_link();
        self.report(&Report::Ready);
        let pid = match self.start_command(command) {
            Ok(pid) => pid,
            Err(e) => return Ok(no_command(command, &e)),
        };
        self.let_go_of_terminal()?;
        let mut until = None;
        loop {
            match self.wait(&[], until) {
                WakeReason::FrontGone => bail!(Stopped),
                WakeReason::Timeout => {
                    let seconds = LEAVE.as_secs();
                    bail!("the command was told to end and did not within {seconds} s");
                }
                WakeReason::Readable(_) => {}
                WakeReason::Signal => {
                    self.drain();
                    if self.pass_on(pid) {
                        until = until.or(Some(Instant::now() + LEAVE));
                    }
                    let ended = children::collect().0;
                    if let Some((_, status)) = ended.iter().find(|(p, _)| *p == pid) {
                        return Ok(Report::Ended(children::code_of(*status)));
                    }
                    self.note_ended(&ended);
                }
            }
        }
    }

    fn start_command(&mut self, command: &[OsString]) -> io::Result<Pid> {
        let inherited = std::mem::take(&mut self.inherited);
        for fd in &inherited {
            fds::pass_to_child(fd)?;
        }
        let shell = [std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())];
        let argv = if command.is_empty() { &shell } else { command };
        let bin = self.plan.dir.join("bin");
        let mut path = bin.into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        let mut child = Command::new(&argv[0]);
        if self.plan.as_user {
            child.env(variables::AS_USER, "1");
        }
        let child = child
            .args(&argv[1..])
            .env("PATH", path)
            .env(variables::SOCKET, self.plan.sockets())
            .env(variables::DEV_DIR, &self.plan.dir)
            // For an mpirun in a shell of calloc, which is on no node.
            .env(variables::MACHINE_SHARED, "1")
            .process_group(self.plan.group)
            .spawn()?;
        Ok(Pid::from_child(&child))
    }

    /// Whoever reads COMMAND's output shall see its end.
    fn let_go_of_terminal(&self) -> anyhow::Result<()> {
        let log = open_log(&self.plan.dir.join("log/supervisor.log"))?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::stdio::dup2_stdout(&log)?;
        rustix::stdio::dup2_stderr(&log)?;
        Ok(())
    }

    /// Passes a signal that was sent to the front on to COMMAND; true when there was one.
    fn pass_on(&self, command: Pid) -> bool {
        let signal = match self.pending_signal.swap(0, Ordering::Relaxed) as i32 {
            signal_hook::consts::SIGTERM => Signal::TERM,
            signal_hook::consts::SIGHUP => Signal::HUP,
            // The terminal has given it to COMMAND already.
            _ => return false,
        };
        let _ = kill_process(command, signal);
        true
    }

    /// Reports daemons that have ended while COMMAND runs. They are not started again: whoever
    /// ended one may want to see what happens then.
    fn note_ended(&mut self, ended: &[(Pid, rustix::process::WaitStatus)]) {
        for (pid, status) in ended {
            if let Some(text) = self.in_words(*pid, children::code_of(*status)) {
                crate::output::complain("cosy dev", &text);
                self.report(&Report::Note(text));
            }
        }
    }

    /// What is said when a child has ended; nothing where it was none of the cluster's.
    fn in_words(&self, pid: Pid, code: u8) -> Option<String> {
        if self.database == Some(pid) {
            return Some(format!("PostgreSQL ended ({code})"));
        }
        let (dir, number) = (&self.plan.dir, pid.as_raw_nonzero().get());
        let mut controllers = self.plan.controllers.iter();
        if let Some(controller) = controllers.find(|c| c.is_process(dir, number)) {
            // The number may be another's soon.
            let _ = fs::remove_file(controller.pid_file(dir));
            let name = &controller.name;
            return Some(format!(
                "controller {name} ended ({code}); to start it again: {SCRIPT} start {name}"
            ));
        }
        let daemon = self.daemons.iter().find(|d| d.pid == pid)?;
        Some(format!("{} ended ({code})", daemon.name))
    }

    fn wait(&self, pipes: &[BorrowedFd<'_>], until: Option<Instant>) -> WakeReason {
        wait(&self.lifeline, &self.wake_pipe, pipes, until)
    }

    fn drain(&mut self) {
        let _ = self.wake_pipe.read(&mut [0; 256]);
    }
}

/// Where nodes reach a controller that runs.
fn address(controller: &ControllerPlan) -> anyhow::Result<String> {
    if controller.port != 0 {
        return Ok(controller.address());
    }
    let told = fs::read_to_string(controller.state.join("listen.addr"));
    let told = told.context("cosyd did not say where it listens")?;
    Ok(told.trim().to_owned())
}

fn no_command(command: &[OsString], e: &io::Error) -> Report {
    let name = command
        .first()
        .map_or_else(|| "the shell".into(), |c| c.to_string_lossy());
    let code = match e.kind() {
        io::ErrorKind::NotFound => exit::DEV_NOT_FOUND,
        _ => exit::DEV_NOT_EXECUTABLE,
    };
    Report::NoCommand {
        code,
        text: format!("cannot run '{name}': {e}"),
    }
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write '{}'", path.display()))
}

/// The last line of a log, as the end of a sentence.
fn last_words(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find(|l| !l.trim().is_empty());
    last.map_or_else(String::new, |l| format!(": {}", l.trim()))
}

/// Child ends and signals for COMMAND make the stream readable; the latter are told by
/// number.
fn listen_for_signals() -> anyhow::Result<(UnixStream, Arc<AtomicUsize>)> {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let (wake_pipe, waker) = UnixStream::pair()?;
    wake_pipe.set_nonblocking(true)?;
    let pending_signal = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        let number = usize::try_from(signal).unwrap_or(0);
        signal_hook::flag::register_usize(signal, pending_signal.clone(), number)?;
    }
    for signal in [SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
        signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    Ok((wake_pipe, pending_signal))
}

/// Why a wait has ended.
enum WakeReason {
    /// The lifeline's other end is closed.
    FrontGone,
    /// A signal has arrived.
    Signal,
    /// This pipe can be read, or its other end is closed.
    Readable(usize),
    /// The longest time of the wait has passed.
    Timeout,
}

fn wait(
    lifeline: &OwnedFd,
    wake_pipe: &UnixStream,
    pipes: &[BorrowedFd<'_>],
    until: Option<Instant>,
) -> WakeReason {
    loop {
        let mut polled = vec![
            PollFd::new(lifeline, PollFlags::IN),
            PollFd::new(wake_pipe, PollFlags::IN),
        ];
        polled.extend(
            pipes
                .iter()
                .map(|p| PollFd::from_borrowed_fd(*p, PollFlags::IN)),
        );
        let left = until.map(|u| u.saturating_duration_since(Instant::now()));
        let timeout = left.map(|l| Timespec {
            tv_sec: i64::try_from(l.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: l.subsec_nanos().into(),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return WakeReason::FrontGone,
            Ok(0) => return WakeReason::Timeout,
            Ok(_) => {}
        }
        let ready: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
        if ready[0] {
            return WakeReason::FrontGone;
        }
        // Readable pipes come before signals: a daemon may have reported that it is ready and then
        // ended.
        if let Some(at) = ready[2..].iter().position(|r| *r) {
            return WakeReason::Readable(at);
        }
        return WakeReason::Signal;
    }
}
