//! The job's program: how it is found, and what its process does between fork and exec.
//!
//! Everything that needs memory is made before the fork ([`Plan`]). After it the child
//! takes the user's identity first and opens the user's files then, so that home
//! directories that root may not read work too. What fails is told through a pipe that
//! exec closes, as a step and an error number; the parent finds the words.

use super::{container, plugin, slurm};
use crate::cgroup::Group;
use crate::spool::{self, Task};
use crate::sys;
use cosy_model::node::Allocation;
use cosy_model::{OsText, Program, job::OpenMode};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::Mode;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// What the child was about to do when it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Step {
    /// Joining a control group.
    Group = 1,
    /// Taking the user's groups and ids.
    Identity,
    /// Entering the working directory.
    Workdir,
    /// Opening the input file.
    Stdin,
    /// Opening the output file.
    Stdout,
    /// Opening the error file.
    Stderr,
    /// Executing the program.
    Exec,
}

impl Step {
    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Group,
            Self::Identity,
            Self::Workdir,
            Self::Stdin,
            Self::Stdout,
            Self::Stderr,
            Self::Exec,
        ]
        .into_iter()
        .find(|s| *s as u8 == byte)
    }
}

/// Why the program did not start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    step: Step,
    errno: i32,
}

impl Failure {
    const BYTES: usize = 5;

    /// What came through the pipe: `None` at its end, which is the exec.
    pub fn read(mut pipe: &File) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        pipe.read_exact(&mut bytes).ok()?;
        let errno = i32::from_le_bytes(*bytes[1..].first_chunk()?);
        Some(Self {
            step: Step::from_byte(bytes[0])?,
            errno,
        })
    }

    fn write(self, mut pipe: &File) {
        let mut bytes = [self.step as u8; Self::BYTES];
        bytes[1..].copy_from_slice(&self.errno.to_le_bytes());
        let _ = pipe.write_all(&bytes);
    }

    /// In one line for the user.
    pub fn text(self, task: &Task, directory: &Path) -> String {
        let launch = &task.launch;
        let errno = sys::errno_text(self.errno);
        let of = |what: &str, path: &OsText| format!("cannot {what} {}: {errno}", path.lossy());
        match self.step {
            Step::Group => format!("cannot join the job's control group: {errno}"),
            Step::Identity => format!(
                "cannot become user {} (uid {}): {errno}",
                launch.allocation.user, launch.allocation.uid
            ),
            Step::Workdir => of("enter the working directory", &launch.workdir),
            Step::Stdin => of("open the input file", &launch.stdin),
            Step::Stdout => of("open the output file", &launch.stdout),
            Step::Stderr => of("open the error file", &launch.stderr),
            Step::Exec => self.exec_text(task, directory),
        }
    }

    fn exec_text(self, task: &Task, directory: &Path) -> String {
        let errno = sys::errno_text(self.errno);
        if task.launch.login_environment {
            let shell = &task.launch.allocation.shell;
            return format!("cannot execute the login shell {shell}: {errno}");
        }
        match &task.launch.program {
            Program::Command { argv } => {
                let name = argv.first().map(OsText::lossy).unwrap_or_default();
                format!("cannot execute {name}: {errno}")
            }
            Program::Allocation => format!("an allocation has no program: {errno}"),
            Program::Script { name, .. } => {
                let interpreter = interpreter(&spool::script(directory, task.launch.dialect));
                let name = name.lossy();
                match interpreter {
                    None => format!(
                        "cannot execute the script {name}: its first line is no '#!' with an interpreter"
                    ),
                    Some(path) => {
                        format!("cannot execute {path}, the interpreter of {name}: {errno}")
                    }
                }
            }
        }
    }
}

/// The interpreter that a script names.
pub(super) fn interpreter(script: &Path) -> Option<String> {
    let mut first = Vec::new();
    File::open(script)
        .ok()?
        .take(256)
        .read_to_end(&mut first)
        .ok()?;
    let line = first.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let word = line
        .split(u8::is_ascii_whitespace)
        .find(|w| !w.is_empty())?;
    Some(String::from_utf8_lossy(word).into_owned())
}

/// The user's identity, taken on only by root.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Everything that the child needs, made before the fork.
#[derive(Debug)]
pub struct Plan {
    joins: Vec<(CString, bool)>,
    reset_oom_score: bool,
    identity: Option<Identity>,
    umask: Mode,
    limits: Vec<(u32, u64, u64)>,
    workdir: CString,
    stdin: CString,
    stdout: CString,
    stderr: Option<CString>,
    output_flags: OFlag,
    candidates: Vec<CString>,
    argv: Vec<CString>,
    environment: Vec<CString>,
    plugins: Option<plugin::Hook>,
    slurm: Option<slurm::Words>,
}

pub(super) fn c(bytes: &[u8]) -> Result<CString, String> {
    CString::new(bytes).map_err(|_| {
        format!("'{}' has a NUL byte inside", String::from_utf8_lossy(bytes).escape_debug())
    })
}

impl Plan {
    /// Prepares the start of `task`, which is kept in `directory`. Groups with `initial_group` are
    /// those that the child is not started in and has to join.
    ///
    /// # Errors
    /// In one line, what is wrong with the job.
    pub fn new(
        task: &Task,
        directory: &Path,
        initial_group: Option<&Path>,
    ) -> Result<Self, String> {
        let launch = &task.launch;
        let mut variables = variables(task);
        let files = container::files(directory);
        container::add_variables(launch.container.as_deref(), &files, &mut variables);
        if launch.container.is_some() {
            container::make_files(&files, &launch.allocation)
                .map_err(|e| format!("cannot make {}: {e}", files.display()))?;
        }
        let (candidates, argv) = command(task, directory, &variables)?;
        let append = launch.open_mode == OpenMode::Append || launch.allocation.key.attempt().0 > 1;
        let is_slurm = slurm::is(task);
        // The shepherd writes there, too.
        let mode = match append {
            true => OFlag::O_APPEND,
            false => OFlag::O_TRUNC | OFlag::O_APPEND,
        };
        let file = |text: &OsText| match text.is_empty() {
            true => c(b"/dev/null"),
            false if is_slurm => c(&slurm::absolute(task, text).0),
            false => c(&text.0),
        };
        let separate = !launch.stderr.is_empty() && launch.stderr != launch.stdout;
        Ok(Self {
            joins: joins(&task.groups, initial_group)?,
            reset_oom_score: task.reset_oom_score,
            identity: Identity::of(&launch.allocation),
            umask: Mode::from_bits_truncate(launch.umask & 0o777),
            limits: limits(&launch.rlimits),
            workdir: c(&launch.workdir.0)?,
            stdin: file(&launch.stdin)?,
            stdout: file(&launch.stdout)?,
            stderr: separate.then(|| file(&launch.stderr)).transpose()?,
            output_flags: OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOCTTY | mode,
            candidates,
            argv,
            environment: block(&variables)?,
            plugins: plugin::Hook::new(task, directory, &variables),
            slurm: is_slurm.then(|| slurm::Words::new(task, directory)),
        })
    }

    /// What the child does. Never returns: it becomes the program or tells why not.
    pub fn run(&self, pipe: &File) -> ! {
        let Err(failure) = self.start();
        failure.write(pipe);
        sys::exit_now(127)
    }

    fn start(&self) -> Result<std::convert::Infallible, Failure> {
        let at = |step: Step| {
            move |errno: Errno| Failure {
                step,
                errno: errno as i32,
            }
        };
        let _ = nix::unistd::setsid();
        join(&self.joins, self.reset_oom_score).map_err(at(Step::Group))?;
        if let Some(identity) = &self.identity {
            identity.take().map_err(at(Step::Identity))?;
        }
        nix::sys::stat::umask(self.umask);
        for &(resource, soft, hard) in &self.limits {
            sys::limit_resource(resource, soft, hard);
        }
        let lost = self.enter_workdir().map_err(at(Step::Workdir))?;
        open_as(&self.stdin, OFlag::O_RDONLY | OFlag::O_NOCTTY, 0).map_err(at(Step::Stdin))?;
        open_as(&self.stdout, self.output_flags, 1).map_err(at(Step::Stdout))?;
        match &self.stderr {
            Some(path) => open_as(path, self.output_flags, 2),
            None => duplicate(1, 2),
        }
        .map_err(at(Step::Stderr))?;
        if let (Some(errno), Some(words)) = (lost, &self.slurm) {
            words.no_workdir(errno, true);
        }
        sys::unblock_signals();
        sys::close_at_exec_from(3);
        let with_plugins = self.plugins.as_ref().map(plugin::Hook::environment);
        let mut environment: Vec<&CStr> = with_plugins
            .as_ref()
            .unwrap_or(&self.environment)
            .iter()
            .map(CString::as_c_str)
            .collect();
        let own = self.slurm.as_ref().and_then(|_| slurm::own_pid());
        environment.extend(own.as_deref());
        let mut errno = exec(&self.candidates, &self.argv, &environment);
        if let Some(words) = &self.slurm {
            if slurm::none_exists(&self.candidates) {
                errno = Errno::ENOENT;
            }
            // For Slurm a program that cannot be executed is one that fails.
            words.no_program(errno);
            sys::exit_now(errno as i32);
        }
        Err(at(Step::Exec)(errno))
    }

    /// Why another directory was entered than the one asked for.
    fn enter_workdir(&self) -> Result<Option<Errno>, Errno> {
        match (nix::unistd::chdir(self.workdir.as_c_str()), &self.slurm) {
            (Ok(()), _) => Ok(None),
            (Err(errno), None) => Err(errno),
            (Err(errno), Some(_)) => {
                nix::unistd::chdir(slurm::OTHER_WORKDIR)?;
                Ok(Some(errno))
            }
        }
    }
}

/// Joins control groups; those that must be joined are marked.
pub(super) fn join(groups: &[(CString, bool)], reset_oom_score: bool) -> Result<(), Errno> {
    for (procs, must) in groups {
        match put(procs, b"0") {
            Err(errno) if *must => return Err(errno),
            _ => {}
        }
    }
    if reset_oom_score {
        let _ = put(c"/proc/self/oom_score_adj", b"0");
    }
    Ok(())
}

/// Tries the places in order, as `execvp` does, but never falls back to a shell.
pub(super) fn exec<S: AsRef<CStr>>(
    candidates: &[CString],
    argv: &[CString],
    environment: &[S],
) -> Errno {
    let mut worst = Errno::ENOENT;
    for path in candidates {
        let Err(errno) = nix::unistd::execve(path.as_c_str(), argv, environment);
        match errno {
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::EACCES => worst = errno,
            _ => return errno,
        }
    }
    worst
}

fn put(path: &CStr, text: &[u8]) -> Result<(), Errno> {
    let file = nix::fcntl::open(path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    nix::unistd::write(&file, text).map(drop)
}

pub(super) fn open_as(path: &CStr, flags: OFlag, place: i32) -> Result<(), Errno> {
    let mode = Mode::from_bits_truncate(0o666);
    let file = nix::fcntl::open(path, flags | OFlag::O_CLOEXEC, mode)?;
    duplicate(file.as_raw_fd(), place)?;
    // Never one of the first three, which are open: dropping closes only the extra one.
    drop(file);
    Ok(())
}

pub(crate) fn duplicate(from: i32, to: i32) -> Result<(), Errno> {
    // SAFETY: 0, 1 and 2 are owned by nobody in this process.
    Errno::result(unsafe { libc::dup2(from, to) }).map(drop)
}

impl Identity {
    /// The allocation's user; `None` where this process is not root's, and so is it already.
    pub(super) fn of(allocation: &Allocation) -> Option<Self> {
        (sys::own_uid().0 == 0).then(|| Self {
            uid: allocation.uid.0,
            gid: allocation.gid.0,
            groups: allocation.groups.iter().map(|g| g.0).collect(),
        })
    }

    /// Becomes that user for good.
    pub(super) fn take(&self) -> Result<(), Errno> {
        sys::set_groups(&self.groups)?;
        sys::set_gid(self.gid)?;
        sys::set_uid(self.uid)
    }
}

/// Resource limits by the kernel's numbers.
pub(super) fn limits(named: &[(String, u64, u64)]) -> Vec<(u32, u64, u64)> {
    named
        .iter()
        .filter_map(|(name, soft, hard)| Some((sys::resource_number(name)?, *soft, *hard)))
        .collect()
}

/// The groups that a child has to join which is started in `initial_group`.
pub(super) fn joins(
    groups: &[Group],
    initial_group: Option<&Path>,
) -> Result<Vec<(CString, bool)>, String> {
    groups
        .iter()
        .filter(|g| initial_group != Some(&g.path()))
        .map(|g| {
            let procs = [&g.directory.0[..], b"/cgroup.procs"].concat();
            Ok((c(&procs)?, g.memory || g.unified || g.strict))
        })
        .collect()
}

/// Values of environment variables by name.
pub(super) type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// The job's environment: as ordered, then what only the node knows.
fn variables(task: &Task) -> Variables {
    let launch = &task.launch;
    let allocation = &launch.allocation;
    let mut all = Variables::new();
    if launch.login_environment {
        all.extend(
            [
                ("HOME", &allocation.home),
                ("USER", &allocation.user),
                ("LOGNAME", &allocation.user),
                ("SHELL", &allocation.shell),
            ]
            .map(|(n, v)| (n.into(), v.clone().into_bytes())),
        );
        all.insert(b"PATH".into(), DEFAULT_PATH.into());
    }
    let ordered = launch.environment.0.split(|b| *b == 0);
    add(&mut all, ordered);
    if slurm::is(task) {
        slurm::add_variables(task, &mut all);
    }
    add(&mut all, task.variables.iter().map(|v| &v.0[..]));
    all
}

/// Adds variables given as `NAME=value`.
pub(super) fn add<'a>(all: &mut Variables, variables: impl Iterator<Item = &'a [u8]>) {
    for variable in variables {
        if let Some(at) = variable.iter().position(|b| *b == b'=') {
            all.insert(variable[..at].into(), variable[at + 1..].into());
        }
    }
}

pub(super) fn block(variables: &Variables) -> Result<Vec<CString>, String> {
    variables
        .iter()
        .map(|(name, value)| c(&[name, &b"="[..], value].concat()))
        .collect()
}

/// Where the program may be, and its arguments.
fn command(
    task: &Task,
    directory: &Path,
    variables: &Variables,
) -> Result<(Vec<CString>, Vec<CString>), String> {
    let script = spool::script(directory, task.launch.dialect);
    let argv: Vec<&[u8]> = match &task.launch.program {
        Program::Script { args, .. } => std::iter::once(script.as_os_str().as_bytes())
            .chain(args.iter().map(|a| &a.0[..]))
            .collect(),
        Program::Command { argv } => argv.iter().map(|a| &a.0[..]).collect(),
        Program::Allocation => Vec::new(),
    };
    if argv.first().is_none_or(|name| name.is_empty()) {
        return Err("the job names no program".to_owned());
    }
    let before = match &task.launch.container {
        Some(_) => container::before()?,
        None => Vec::new(),
    };
    let argv: Vec<&[u8]> = before.iter().map(Vec::as_slice).chain(argv).collect();
    let name = argv.first().copied().unwrap_or_default();
    let shell = task.launch.allocation.shell.as_bytes();
    if task.launch.login_environment {
        let before: [&[u8]; 4] = [shell, b"-l", b"-c", b"exec \"$0\" \"$@\""];
        let all: Result<_, _> = before.into_iter().chain(argv).map(c).collect();
        return Ok((vec![c(shell)?], all?));
    }
    let path = variables
        .get(&b"PATH"[..])
        .map_or(DEFAULT_PATH, Vec::as_slice);
    let candidates = candidates(name, path)?;
    let argv: Result<_, _> = argv.into_iter().map(c).collect();
    Ok((candidates, argv?))
}

pub(super) fn candidates(name: &[u8], path: &[u8]) -> Result<Vec<CString>, String> {
    if name.contains(&b'/') {
        return Ok(vec![c(name)?]);
    }
    path.split(|b| *b == b':')
        .map(|place| {
            let place = if place.is_empty() { b"." } else { place };
            c(Path::new(OsStr::from_bytes(place))
                .join(OsStr::from_bytes(name))
                .as_os_str()
                .as_bytes())
        })
        .collect()
}

/// A pipe whose ends exec closes: reading end, writing end.
///
/// # Errors
/// No descriptors left.
pub fn pipe() -> std::io::Result<(File, File)> {
    let (reading, writing) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    Ok((File::from(reading), File::from(writing)))
}

/// Gives a descriptor up without closing it twice.
pub fn forget(file: File) {
    let _ = file.into_raw_fd();
}
