//! A step that is played with real helpers and real tasks: this is its supervisors, which
//! carry exchanges between its nodes.

use cosy_model::OsText;
use cosy_model::step::{RankRun, StepLayout};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use noded::pmix::words::Setup;
use noded::pmix::{Helper, LIBRARY, PmixAct};
use noded::sys;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const DEADLINE: Duration = Duration::from_secs(60);

/// Which program tasks run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// All classics, with Open MPI.
    Classic,
    /// A client of libpmix alone.
    Client,
    /// Python with mpi4py.
    Python,
}

/// Builds a program; `None` (and a sentence) where it cannot be built.
fn built(kind: Kind, folder: &Path) -> Option<PathBuf> {
    let (name, compiler, flags) = match kind {
        Kind::Classic => ("classic", "mpicc.openmpi", String::new()),
        Kind::Client => ("client", "cc", pmix_flags()?),
        Kind::Python => return python(),
    };
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pmix/{name}.c"));
    let status = Command::new(compiler)
        .args(["-w", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags.split_whitespace())
        .status();
    let Ok(status) = status else {
        println!("skipped: there is no {compiler}");
        return None;
    };
    assert!(status.success(), "{name}.c cannot be compiled");
    Some(program)
}

/// An interpreter that has mpi4py, in a virtual environment that is kept.
fn python() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpi4py");
    let program = folder.join("bin/python");
    let has_it = |program: &Path| {
        let found = Command::new(program)
            .args(["-c", "from mpi4py import MPI"])
            .env("MPI4PY_MPIABI", "openmpi")
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    };
    if has_it(&program) {
        return Some(program);
    }
    let make = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&folder)
        .status();
    let install = Command::new(folder.join("bin/pip"))
        .args(["install", "--quiet", "--retries", "1", "mpi4py"])
        .stderr(Stdio::null())
        .status();
    let done = make.is_ok() && install.is_ok() && has_it(&program);
    if !done {
        println!("skipped: mpi4py with Open MPI cannot be installed");
    }
    done.then_some(program)
}

fn pmix_flags() -> Option<String> {
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "pmix"])
        .output();
    match flags {
        Ok(flags) if flags.status.success() => String::from_utf8(flags.stdout).ok(),
        _ => {
            println!("skipped: there are no headers of libpmix");
            None
        }
    }
}

/// How a simulated step is made.
#[derive(Clone)]
pub struct Plan {
    pub nodes: u32,
    pub each: u32,
    pub programs: Vec<Vec<(u32, u32)>>,
    pub library: &'static str,
    /// Helpers and tasks take this user's identity.
    pub uid: Option<u32>,
    /// Variables that replace the tasks' own.
    pub tasks: Vec<(&'static str, &'static str)>,
}

pub fn plan(nodes: u32, each: u32) -> Plan {
    Plan {
        nodes,
        each,
        programs: vec![Vec::new()],
        library: LIBRARY,
        uid: None,
        tasks: Vec::new(),
    }
}

pub struct Node {
    pub helper: Helper,
    pub ended: OwnedFd,
    pub directory: PathBuf,
}

pub struct Task {
    pub rank: u32,
    pub child: Child,
    pub ended: OwnedFd,
    pub code: Option<i32>,
}

/// A step that runs. Whatever of it is left is killed at its end.
pub struct Step {
    pub folder: tempfile::TempDir,
    pub program: PathBuf,
    pub plan: Plan,
    pub nodes: Vec<Node>,
    pub tasks: Vec<Task>,
    pub shares: BTreeMap<u32, Vec<u8>>,
    pub rounds: u32,
    pub acts: Vec<PmixAct>,
}

impl Step {
    /// Starts helpers and, as they get ready, the tasks. `None`: skipped.
    pub fn start(plan: Plan, mode: &str) -> Option<Self> {
        Self::start_program(Kind::Classic, plan, mode)
    }

    pub fn start_program(kind: Kind, plan: Plan, mode: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mode_of_folder = if plan.uid.is_some() { 0o777 } else { 0o700 };
        let permissions = fs::Permissions::from_mode(mode_of_folder);
        fs::set_permissions(folder.path(), permissions).unwrap();
        let program = built(kind, folder.path())?;
        let nodes = (0..plan.nodes)
            .map(|n| node(&plan, n, folder.path()))
            .collect();
        let mut step = Self {
            folder,
            program,
            plan,
            nodes,
            tasks: Vec::new(),
            shares: BTreeMap::new(),
            rounds: 0,
            acts: Vec::new(),
        };
        step.until(|step, acts, _| {
            for act in acts {
                match act {
                    PmixAct::Ready(variables) => step.start_tasks(variables, mode),
                    other => step.acts.push(other),
                }
            }
            !step.acts.is_empty() || step.tasks.len() as u32 == step.plan.nodes * step.plan.each
        });
        Some(step)
    }

    fn start_tasks(&mut self, variables: Vec<(u32, Vec<OsText>)>, mode: &str) {
        for (rank, variables) in variables {
            let output = File::create(self.output_of(rank)).unwrap();
            let errors = File::create(self.folder.path().join(format!("err.{rank}"))).unwrap();
            let pairs = variables.iter().map(|v| {
                let at = v.0.iter().position(|b| *b == b'=').unwrap();
                let (name, value) = v.0.split_at(at);
                (OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]))
            });
            let mut command = Command::new(&self.program);
            if let Some(uid) = self.plan.uid {
                command.uid(uid).gid(uid);
            }
            let child = command
                .arg(mode)
                .envs(pairs)
                .env("MPI4PY_MPIABI", "openmpi")
                // All nodes are this one: nothing but the loopback joins them.
                .env("OMPI_MCA_btl_tcp_if_include", "lo")
                .envs(self.plan.tasks.iter().copied())
                .stdin(Stdio::null())
                .stdout(output)
                .stderr(errors)
                .spawn()
                .unwrap();
            let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
            self.tasks.push(Task {
                rank,
                child,
                ended: sys::pidfd_open(pid).unwrap(),
                code: None,
            });
        }
    }

    fn output_of(&self, rank: u32) -> PathBuf {
        self.folder.path().join(format!("out.{rank}"))
    }

    /// All output, rank after rank.
    pub fn output(&self) -> String {
        let ranks = 0..self.plan.nodes * self.plan.each;
        ranks
            .map(|r| fs::read_to_string(self.output_of(r)).unwrap_or_default())
            .collect()
    }

    pub fn errors(&self) -> String {
        let ranks = 0..self.plan.nodes * self.plan.each;
        ranks
            .map(|r| fs::read_to_string(self.folder.path().join(format!("err.{r}"))))
            .map(Result::unwrap_or_default)
            .collect()
    }

    /// Carries exchanges and waits for ends until `done` says so; it is given what the
    /// helpers want, and the helpers that have ended.
    pub fn until(&mut self, mut done: impl FnMut(&mut Self, Vec<PmixAct>, &[usize]) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let mut acts = Vec::new();
            for n in 0..self.nodes.len() {
                let got = self.nodes[n].helper.advance();
                self.carry(n as u32, got, &mut acts);
            }
            for task in self.tasks.iter_mut().filter(|t| t.code.is_none()) {
                if let Some(status) = task.child.try_wait().unwrap() {
                    task.code = Some(status.code().unwrap_or(-1));
                }
            }
            let gone: Vec<usize> = (0..self.nodes.len())
                .filter(|n| is_readable(&self.nodes[*n].ended))
                .collect();
            if done(self, acts, &gone) {
                return;
            }
            assert!(
                self.wait(deadline),
                "nothing more happens: {}\n{}",
                self.output(),
                self.errors()
            );
        }
    }

    pub fn carry(&mut self, node: u32, acts: Vec<PmixAct>, rest: &mut Vec<PmixAct>) {
        for act in acts {
            let PmixAct::Contribute(share) = act else {
                rest.push(act);
                continue;
            };
            assert!(self.shares.insert(node, share).is_none());
            if self.shares.len() == self.nodes.len() {
                let parts: Vec<(u32, OsText)> = std::mem::take(&mut self.shares)
                    .into_iter()
                    .map(|(n, share)| (n, OsText(share)))
                    .collect();
                self.rounds += 1;
                for n in 0..self.nodes.len() {
                    let got = self.nodes[n].helper.spread(&parts);
                    self.carry(n as u32, got, rest);
                }
            }
        }
    }

    /// Waits for anything; false when the deadline has passed.
    pub fn wait(&self, deadline: Instant) -> bool {
        let mut fds = Vec::new();
        for node in &self.nodes {
            let out = match node.helper.wants_write() {
                true => PollFlags::POLLOUT,
                false => PollFlags::empty(),
            };
            fds.push(PollFd::new(node.helper.fd(), PollFlags::POLLIN | out));
        }
        for task in self.tasks.iter().filter(|t| t.code.is_none()) {
            fds.push(PollFd::new(task.ended.as_fd(), PollFlags::POLLIN));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap();
        nix::poll::poll(&mut fds, left).unwrap() > 0
    }

    /// Waits until all tasks have ended: their exit codes by rank.
    pub fn codes(&mut self) -> Vec<i32> {
        self.until(|step, acts, _| {
            step.acts.extend(acts);
            step.tasks.iter().all(|t| t.code.is_some())
        });
        let by_rank: BTreeMap<u32, i32> = self
            .tasks
            .iter()
            .map(|t| (t.rank, t.code.unwrap()))
            .collect();
        by_rank.into_values().collect()
    }

    /// Ends the helpers; they end by themselves and leave nothing.
    pub fn finish(&mut self) {
        for node in &mut self.nodes {
            node.helper.finish();
            wait_for_end(&node.ended);
            assert!(!node.directory.exists(), "{}", node.directory.display());
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        for task in &mut self.tasks {
            let _ = task.child.kill();
            let _ = task.child.wait();
        }
        for node in &self.nodes {
            let _ = sys::kill(node.helper.pid(), 9);
            let _ = nix::sys::wait::waitpid(node.helper.pid(), None);
            let _ = fs::remove_dir_all(&node.directory);
        }
    }
}

fn become_user(uid: u32) -> Result<(), Errno> {
    sys::set_groups(&[uid])?;
    sys::set_gid(uid)?;
    sys::set_uid(uid)
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    nix::poll::poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
}

pub fn wait_for_end(fd: &OwnedFd) {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    let left = PollTimeout::try_from(DEADLINE).unwrap();
    assert!(nix::poll::poll(&mut fds, left).unwrap() > 0, "it goes on");
}

fn node(plan: &Plan, number: u32, folder: &Path) -> Node {
    node_with(Path::new(env!("CARGO_BIN_EXE_noded")), plan, number, folder)
}

pub fn node_with(program: &Path, plan: &Plan, number: u32, folder: &Path) -> Node {
    let uid = plan.uid;
    let become_user = move || uid.map_or(Ok(()), become_user);
    node_that(program, plan, number, folder, become_user)
}

/// One whose process does this before it executes its program.
pub fn node_that(
    program: &Path,
    plan: &Plan,
    number: u32,
    folder: &Path,
    become_user: impl FnMut() -> Result<(), Errno> + Send + Sync + 'static,
) -> Node {
    let directory = folder.join(format!("d{number}"));
    let run = |n: u32| RankRun {
        first: n * plan.each,
        count: plan.each,
        stride: 1,
    };
    let setup = Setup {
        namespace: format!("cosy-{}", std::process::id()),
        job: "12.0".to_owned(),
        layout: StepLayout {
            nodes: (0..plan.nodes).map(|n| format!("n{}", n + 1)).collect(),
            ranks: (0..plan.nodes).map(|n| vec![run(n)]).collect(),
            tasks: plan.nodes * plan.each,
            cores_per_task: 1,
        },
        node: number,
        programs: plan.programs.clone(),
        directory: OsText(directory.as_os_str().as_bytes().to_vec()),
        library: OsText(plan.library.into()),
    };
    let helper = Helper::start_with(program, setup, &OsText::default(), become_user).unwrap();
    let ended = sys::pidfd_open(helper.pid()).unwrap();
    Node {
        helper,
        ended,
        directory,
    }
}
