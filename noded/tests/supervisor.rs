//! The supervisor of a step, without a daemon: started by a real nursery, with a step's
//! directory that the test has written and a pair of sockets as the way up.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

#[path = "common/hung_file_system.rs"]
mod hung_file_system;
#[path = "supervisor/stalls.rs"]
mod stalls;

use cosy_model::node::{Allocation, AttemptKey};
use cosy_model::step::*;
use cosy_model::{Attempt, EndCause, Gid, JobId, OsText, Span, Uid};
use cosy_proto::frame;
use cosy_proto::step::{self, Link, StepFrame};
use noded::shepherd::nursery::ShepherdSpec;
use noded::steps::{IoPurpose, StepOutcome, StepShare, StepTask, UpKind};
use noded::{spool, sys};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(90);

struct Bench {
    directory: tempfile::TempDir,
    nursery: Child,
    socket: UnixStream,
    steps: u32,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.nursery.kill();
        let _ = self.nursery.wait();
    }
}

const ATTEMPT: AttemptKey = AttemptKey {
    job: JobId(7),
    attempt: Attempt(1),
};

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (socket, its) = UnixStream::pair().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_noded"));
        command.arg("--nursery").arg(directory.path());
        for io in [Command::stdin, Command::stdout, Command::stderr] {
            io(&mut command, Stdio::null());
        }
        let fd = its.as_raw_fd();
        // SAFETY: only system calls that are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                sys::shepherd_signals().thread_block()?;
                match nix::libc::dup2(fd, sys::NURSERY_SOCKET) {
                    -1 => Err(std::io::Error::last_os_error()),
                    _ => {
                        sys::keep_at_exec(sys::NURSERY_SOCKET);
                        Ok(())
                    }
                }
            });
        }
        let nursery = command.spawn().unwrap();
        Self {
            directory,
            nursery,
            socket,
            steps: 0,
        }
    }

    fn work(&self) -> PathBuf {
        let path = self.directory.path().join("work");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A step of `tasks` tasks on one node that run a shell with `script`.
    fn task(&self, tasks: u32, script: &str) -> StepTask {
        let argv = ["/bin/sh", "-c", script].map(OsText::from).to_vec();
        task(self.steps, &self.work(), tasks, argv)
    }

    fn start(&mut self, task: &StepTask) -> Step {
        let name = noded::steps::directory_name(task.order.key.step);
        let directory = self
            .directory
            .path()
            .join(spool::name_of(ATTEMPT))
            .join(name);
        std::fs::create_dir_all(&directory).unwrap();
        spool::write_launch(&directory, task).unwrap();
        let (up, its) = UnixStream::pair().unwrap();
        let spec = ShepherdSpec {
            attempt: ATTEMPT.into(),
            step: Some(task.order.key.step),
        };
        let its = OwnedFd::from(its);
        sys::send_with(&self.socket, &spec.encode(), Some(&its)).unwrap();
        self.steps += 1;
        Step::new(up, directory)
    }

    fn run(&mut self, task: &StepTask) -> Step {
        let mut step = self.start(task);
        step.wait();
        step
    }

    fn sh(&mut self, tasks: u32, script: &str) -> Step {
        let task = self.task(tasks, script);
        self.run(&task)
    }
}

fn task(step: u32, work: &Path, tasks: u32, argv: Vec<OsText>) -> StepTask {
    let workdir = OsText::from(work.to_str().unwrap());
    let key = StepKey {
        attempt: ATTEMPT,
        step: StepId(step),
    };
    StepTask {
        order: StepOrder {
            key,
            spec: StepSpec {
                tasks: Some(tasks),
                bind: Bind::None,
                grace: Span(60_000),
                workdir,
                environment: "PATH=/usr/bin:/bin\0COSY_TASK_RANK=wrong".into(),
                stdin: InputFrom::All,
                ..StepSpec::plain(
                    "test",
                    StepCommand::Run {
                        argv,
                        expand: false,
                    },
                )
            },
            layout: StepLayout {
                nodes: vec!["n1".into()],
                ranks: vec![vec![RankRun {
                    first: 0,
                    count: tasks,
                    stride: 1,
                }]],
                tasks,
                cores_per_task: 1,
            },
            tree: vec![0],
            peers: Vec::new(),
        },
        allocation: allocation(),
        share: StepShare::default(),
        groups: Vec::new(),
        keep: Vec::new(),
        variables: vec!["COSY_NODENAME=n1".into()],
        own: Vec::new(),
        children: Vec::new(),
        up: UpKind::Command,
        limit: Span::UNLIMITED,
        warn: None,
        reset_oom_score: false,
    }
}

fn allocation() -> Allocation {
    let gid = Gid(nix::unistd::getegid().as_raw());
    Allocation {
        key: ATTEMPT.into(),
        node: "n1".into(),
        nodes: "n1".into(),
        uid: Uid(nix::unistd::geteuid().as_raw()),
        gid,
        groups: vec![gid],
        user: "tester".into(),
        home: "/".into(),
        shell: "/bin/sh".into(),
        memory: None,
        cores: vec![0],
        gpus: Vec::new(),
        devices: Default::default(),
        switches: String::new(),
        tasks: 1,
        limit: Span::UNLIMITED,
        cores_per_task: 1,
        parts: Vec::new(),
        ticket: OsText::default(),
        warn_steps: None,
        runs_again: false,
    }
}

/// The command's end of a step, or that of the supervisor above.
struct Step {
    up: UnixStream,
    directory: PathBuf,
    incoming: Vec<u8>,
    output: BTreeMap<(u32, bool), Vec<u8>>,
    ends: BTreeMap<u32, TaskEnd>,
    pids: BTreeMap<u32, i32>,
    node: Option<NodeEnd>,
    lost: Vec<(Vec<u32>, String)>,
    aborts: Vec<(u32, i32, String)>,
    taken: u64,
    /// Frames that are numbered on a hop, and what the other end said it has.
    received: u64,
    acknowledged: u64,
    links: u32,
    over: bool,
}

impl Step {
    fn new(up: UnixStream, directory: PathBuf) -> Self {
        up.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            up,
            directory,
            incoming: Vec::new(),
            output: BTreeMap::new(),
            ends: BTreeMap::new(),
            pids: BTreeMap::new(),
            node: None,
            lost: Vec::new(),
            aborts: Vec::new(),
            taken: 0,
            received: 0,
            acknowledged: 0,
            links: 0,
            over: false,
        }
    }

    fn send(&mut self, frame: impl Into<StepFrame>) {
        self.try_send(frame).unwrap();
    }

    fn try_send(&mut self, frame: impl Into<StepFrame>) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        step::put(&mut bytes, &frame.into()).unwrap();
        self.up.write_all(&bytes)
    }

    fn stdin(&mut self, bytes: &[u8]) {
        self.send(DownFrame::Stdin {
            bytes: bytes.to_vec(),
        });
    }

    /// Reads once; false at the end.
    fn read(&mut self) -> bool {
        let mut buffer = vec![0; 1 << 20];
        let count = match self.up.read(&mut buffer) {
            Ok(count) => count,
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(e) => panic!("after {:?}: {e}", self.ends),
        };
        self.incoming.extend_from_slice(&buffer[..count]);
        while let Some((frame, length)) = step::first(&self.incoming).unwrap() {
            self.incoming.drain(..length);
            self.take(frame);
        }
        self.over |= count == 0;
        count > 0
    }

    fn take(&mut self, frame: StepFrame) {
        let up = match frame {
            StepFrame::Up(up) => up,
            StepFrame::Link(Link::Resume(count) | Link::Received(count)) => {
                self.acknowledged = count;
                self.links += 1;
                return;
            }
            StepFrame::Down(down) => panic!("{down:?}"),
        };
        self.received += 1;
        assert!(self.node.is_none(), "{up:?} after the end");
        match up {
            UpFrame::Output {
                rank,
                stream,
                bytes,
            } => self
                .output
                .entry((rank, stream == Stream::Output))
                .or_default()
                .extend(bytes),
            UpFrame::Started { tasks, .. } => self.pids = tasks.into_iter().collect(),
            UpFrame::TaskEnded { rank, end } => {
                assert!(self.ends.insert(rank, end).is_none());
            }
            UpFrame::NodeEnded { node: 0, end } => self.node = Some(end),
            UpFrame::NodeEnded { .. } => {}
            UpFrame::Lost { nodes, reason } => self.lost.push((nodes, reason)),
            UpFrame::StdinTaken { bytes } => self.taken = bytes,
            UpFrame::Gather { .. } | UpFrame::Ending { .. } => {}
            UpFrame::Display(_) => {}
            UpFrame::Abort { rank, code, reason } => self.aborts.push((rank, code, reason)),
        }
    }

    fn until(&mut self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            assert!(self.read(), "it ended before: {:?}", self.ends);
        }
    }

    /// Until the node's end.
    fn wait(&mut self) {
        self.until(|s| s.node.is_some());
    }

    fn text(&self, rank: u32) -> String {
        self.of(rank, Stream::Output)
    }

    fn of(&self, rank: u32, stream: Stream) -> String {
        let bytes = self.output.get(&(rank, stream == Stream::Output)).cloned();
        String::from_utf8(bytes.unwrap_or_default()).unwrap()
    }

    fn end(&self, rank: u32) -> (i32, i32) {
        let end = &self.ends[&rank];
        (end.exit_code, end.signal)
    }

    fn failure(&self, rank: u32) -> &str {
        self.ends[&rank].failure.as_deref().unwrap_or_default()
    }

    fn cause(&self) -> &EndCause {
        &self.node.as_ref().unwrap().end.cause
    }

    /// What the supervisor has left in the spool.
    fn outcome(&self) -> StepOutcome {
        eventually(|| spool::read_outcome(&self.directory))
    }
}

/// What comes true in time.
fn eventually<T>(what: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = what() {
            return value;
        }
        assert!(Instant::now() < until, "it never came true");
        std::thread::yield_now();
    }
}

fn is_gone(pid: i32) -> Option<()> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |s| s.contains(") Z")).then_some(())
}

// ---- tasks

#[test]
fn tasks_and_their_ends() {
    let mut bench = Bench::new();
    let step = bench.sh(
        4,
        "echo out $COSY_TASK_RANK; echo err >&2; [ $COSY_TASK_RANK != 3 ] || kill -9 $$; exit $COSY_TASK_RANK",
    );
    for rank in 0..3 {
        assert_eq!(step.text(rank), format!("out {rank}\n"));
        assert_eq!(step.of(rank, Stream::Error), "err\n");
        assert_eq!(step.end(rank), (rank as i32, 0));
    }
    assert_eq!(step.end(3), (0, 9));
    let outcome = step.outcome();
    assert_eq!(outcome.tasks.len(), 4);
    let whole = outcome.whole.unwrap();
    assert_eq!((whole.tasks, whole.nodes.as_str()), (4, "n1"));
    assert_eq!((whole.end.exit_code, whole.end.signal), (2, 9));
    assert_eq!(whole.end.cause, EndCause::Exited);
}

#[test]
fn a_supervisor_is_not_protected_like_its_daemon() {
    let score = |pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        text.trim().parse::<i32>().unwrap()
    };
    let mut bench = Bench::new();
    let nursery = format!("/proc/{}/oom_score_adj", bench.nursery.id());
    if std::fs::write(nursery, "-900").is_err() {
        return cosy_skip::skip("only root can protect a process");
    }
    let mut task = bench.task(1, "exec sleep 1000");
    task.reset_oom_score = true;
    let mut step = bench.start(&task);
    step.until(|s| s.pids.len() == 1);
    let supervisor = noded::shepherd::parent_of(step.pids[&0]).unwrap();
    let own = cosy_model::limits::SUPERVISOR_OOM_SCORE;
    assert_eq!((score(supervisor), score(step.pids[&0])), (own, 0));
    step.send(DownFrame::Kill);
    step.send(DownFrame::Kill);
    step.wait();
}

/// A version 2 group of this test, removed at its end.
struct TestGroup(PathBuf);

impl Drop for TestGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_supervisor_starts_in_the_group_of_its_job() {
    let name = format!("cosy-test-born-{}", std::process::id());
    let mounted = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    let mounted = mounted
        .into_iter()
        .find(|at| at.join("cgroup.procs").exists());
    let group = mounted.map(|at| TestGroup(at.join(&name)));
    let Some(group) = group.filter(|g| std::fs::create_dir(&g.0).is_ok()) else {
        return cosy_skip::skip("no version 2 control groups here");
    };
    let mut bench = Bench::new();
    let attempt = bench.directory.path().join(spool::name_of(ATTEMPT));
    std::fs::create_dir_all(&attempt).unwrap();
    std::os::unix::fs::symlink(&group.0, attempt.join(spool::KEEP)).unwrap();
    let task = bench.task(1, "grep ^0:: /proc/$PPID/cgroup");
    let step = bench.run(&task);
    assert_eq!(step.text(0), format!("0::/{name}\n"));
    eventually(|| {
        std::fs::read_to_string(group.0.join("cgroup.procs"))
            .ok()?
            .is_empty()
            .then_some(())
    });
    // Without the group it is started all the same.
    drop(group);
    assert_eq!(bench.sh(1, "echo on").text(0), "on\n");
}

#[test]
fn variables_of_a_task() {
    let mut bench = Bench::new();
    let step = bench.sh(2, "env | grep ^COSY_ | sort | tr '\\n' ' '");
    let expected = "COSY_NODENAME=n1 COSY_NODE_RANK=0 COSY_STEP_ID=0 COSY_STEP_NAME=test \
         COSY_STEP_NODES=n1 COSY_STEP_NODE_COUNT=1 COSY_STEP_TASKS=2 COSY_STEP_TASKS_BY_NODE=2 \
         COSY_TASK_LOCAL_RANK=1 COSY_TASK_RANK=1 ";
    assert_eq!(step.text(1), expected);
}

#[test]
fn fifty_tasks_and_no_descriptor_too_many() {
    let mut bench = Bench::new();
    let step = bench.sh(50, "ls /proc/self/fd | wc -l; yes x | head -c 100000");
    assert_eq!(step.ends.len(), 50);
    for rank in 0..50 {
        let text = step.text(rank);
        let (count, rest) = text.split_once('\n').unwrap();
        // The three, the directory itself.
        assert_eq!(count, "4", "task {rank}");
        assert_eq!(rest.len(), 100_000);
    }
}

#[test]
fn programs_that_cannot_be_executed() {
    let mut bench = Bench::new();
    std::fs::write(bench.work().join("a.out"), "x").unwrap();
    let mut check = |argv: &str, expected: &str| {
        let one = task(bench.steps, &bench.work(), 1, vec![argv.into()]);
        let step = bench.run(&one);
        assert_eq!(step.end(0), (127, 0));
        assert_eq!(step.failure(0), expected);
        assert_eq!(*step.cause(), EndCause::LaunchFailed(expected.into()));
    };
    check("./a.out", "cannot execute ./a.out on n1: Permission denied");
    check("nowhere", "cannot execute nowhere on n1: No such file or directory");
}

#[test]
fn a_working_directory_that_is_not_there() {
    let mut bench = Bench::new();
    let mut task = bench.task(2, "true");
    task.order.spec.workdir = "/nowhere".into();
    let step = bench.run(&task);
    let expected = "cannot enter the working directory /nowhere on n1: No such file or directory";
    assert_eq!(step.failure(1), expected);
}

#[test]
fn what_detaches_is_ended_with_the_last_task() {
    let mut bench = Bench::new();
    let step = bench.sh(1, "setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 3");
    assert_eq!(step.end(0), (3, 0));
    eventually(|| is_gone(step.text(0).trim().parse().unwrap()));
}

#[test]
fn several_programs() {
    let mut bench = Bench::new();
    let mut task = bench.task(3, "");
    let program = |ranks, word: &str| StepProgram {
        ranks: vec![ranks],
        command: StepCommand::Run {
            argv: ["echo", word, "%t", "%o"].map(OsText::from).to_vec(),
            expand: true,
        },
    };
    task.order.spec.programs = vec![program((0, 0), "a"), program((1, 2), "b")];
    let step = bench.run(&task);
    let texts: Vec<String> = (0..3).map(|rank| step.text(rank)).collect();
    assert_eq!(texts, ["a 0 0\n", "b 1 0\n", "b 2 1\n"]);
}

// ---- output

#[test]
fn much_output_of_two_streams_is_whole() {
    let mut bench = Bench::new();
    let step = bench.sh(1, "seq 5000000 & seq 5000000 >&2; wait");
    let mut expected = String::new();
    for n in 1..=5_000_000 {
        expected.push_str(&n.to_string());
        expected.push('\n');
    }
    assert!(step.text(0) == expected);
    assert!(step.of(0, Stream::Error) == expected);
}

#[test]
fn output_in_files_by_task_and_shared() {
    let mut bench = Bench::new();
    let work = bench.work();
    std::fs::write(work.join("all.n1"), "old").unwrap();
    let mut task = bench.task(3, "echo $COSY_TASK_RANK; echo err $COSY_TASK_RANK >&2");
    task.order.spec.stdout = OutputTo::File("out.%2t".into());
    task.order.spec.stderr = OutputTo::File("all.%N".into());
    let step = bench.run(&task);
    assert!(step.output.is_empty());
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    assert_eq!(read("out.02"), "2\n");
    let all = read("all.n1");
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err 0", "err 1", "err 2"]);
}

#[test]
fn output_of_one_task_only() {
    let mut bench = Bench::new();
    let mut task = bench.task(3, "echo $COSY_TASK_RANK; echo e >&2");
    task.order.spec.stdout = OutputTo::Rank(1);
    task.order.spec.stderr = OutputTo::Output;
    let step = bench.run(&task);
    assert_eq!(step.text(1), "1\ne\n");
    assert_eq!(step.output.len(), 1);
}

// ---- input

#[test]
fn input_to_all_and_one_that_does_not_read() {
    let mut bench = Bench::new();
    let task = bench.task(3, "[ $COSY_TASK_RANK = 1 ] && exec sleep 1000; wc -c");
    let mut step = bench.start(&task);
    step.stdin(&[b'x'; 200_000]);
    step.send(DownFrame::StdinEnd);
    // What a task has written may come after its end.
    let counted = |s: &Step, task| s.text(task).trim() == "200000";
    step.until(|s| s.ends.len() == 2 && counted(s, 0) && counted(s, 2));
    assert!(step.taken < 200_000);
    step.send(DownFrame::Signal { signal: 10 });
    step.wait();
    assert_eq!(step.end(1), (0, 10));
}

#[test]
fn input_to_one() {
    let mut bench = Bench::new();
    let mut task = bench.task(3, "cat");
    task.order.spec.stdin = InputFrom::Rank(2);
    let mut step = bench.start(&task);
    let mut sent = 0u64;
    for _ in 0..100 {
        step.stdin(&[b'y'; 50_000]);
        sent += 50_000;
        step.until(|s| s.taken + 200_000 >= sent);
    }
    step.send(DownFrame::StdinEnd);
    step.wait();
    assert_eq!(step.text(2).len(), 5_000_000);
    assert_eq!(step.text(0), "");
}

#[test]
fn a_file_is_received() {
    let mut bench = Bench::new();
    let work = bench.work();
    let mut receive = |force: bool| {
        let mut task = bench.task(1, "");
        task.order.spec.programs[0].command = StepCommand::Receive {
            path: "copy".into(),
            mode: 0o640,
            force,
            times: None,
        };
        let mut step = bench.start(&task);
        step.stdin(b"content");
        step.send(DownFrame::StdinEnd);
        step.wait();
        step
    };
    assert_eq!(receive(false).end(0), (0, 0));
    assert_eq!(std::fs::read(work.join("copy")).unwrap(), b"content");
    let refused = "cannot create copy on n1: File exists (--force replaces it)";
    assert_eq!(receive(false).failure(0), refused);
    assert_eq!(receive(true).end(0), (0, 0));
    assert_eq!(std::fs::read_dir(work).unwrap().count(), 1);
}

#[test]
fn a_file_that_is_cut_off_is_not_there() {
    let mut bench = Bench::new();
    let mut task = bench.task(1, "");
    task.order.spec.programs[0].command = StepCommand::Receive {
        path: "copy".into(),
        mode: 0o640,
        force: false,
        times: None,
    };
    let mut step = bench.start(&task);
    step.stdin(b"half");
    step.until(|s| s.taken == 4);
    step.up.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(step.outcome().end.end.cause, EndCause::Cancelled);
    assert_eq!(std::fs::read_dir(bench.work()).unwrap().count(), 0);
}

// ---- terminal

#[test]
fn a_terminal() {
    let mut bench = Bench::new();
    let mut task = bench.task(1, "stty size; read x; stty size; tty; exec cat");
    task.order.spec.pty = Some(Window {
        rows: 11,
        columns: 22,
    });
    let mut step = bench.start(&task);
    step.until(|s| s.text(0).contains("11 22"));
    step.send(DownFrame::Window(Window {
        rows: 33,
        columns: 44,
    }));
    step.stdin(b"go\n");
    step.until(|s| s.text(0).contains("33 44") && s.text(0).contains("/dev/pts/"));
    assert!(step.text(0).contains("go"), "it is echoed");
    step.send(DownFrame::StdinEnd);
    step.wait();
    assert_eq!(step.end(0), (0, 0));
}

// ---- ends

#[test]
fn a_command_that_has_gone_ends_everything() {
    let mut bench = Bench::new();
    let task = bench.task(2, "trap '' TERM HUP INT; echo here; while :; do sleep 1000; done");
    let mut step = bench.start(&task);
    step.until(|s| s.text(0) == "here\n" && s.text(1) == "here\n");
    let pids = step.pids.clone();
    step.up.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(step.outcome().whole.unwrap().end.cause, EndCause::Cancelled);
    for pid in pids.values() {
        eventually(|| is_gone(*pid));
    }
}

#[test]
fn killed_twice_is_killed_at_once() {
    let mut bench = Bench::new();
    let task = bench.task(1, "trap 'echo term' TERM; echo here; while :; do sleep 0.01; done");
    let mut step = bench.start(&task);
    step.until(|s| s.text(0) == "here\n");
    step.send(DownFrame::Kill);
    step.until(|s| s.text(0).contains("term"));
    step.send(DownFrame::Kill);
    step.wait();
    assert_eq!(step.end(0), (0, 9));
    assert_eq!(*step.cause(), EndCause::Cancelled);
}

#[test]
fn time_limit_and_a_task_that_ignores_sigterm() {
    let mut bench = Bench::new();
    let mut task = bench.task(1, "trap '' TERM; while :; do sleep 0.01; done");
    task.limit = Span(100);
    task.order.spec.grace = Span(100);
    let step = bench.run(&task);
    assert_eq!(step.end(0), (0, 9));
    assert_eq!(*step.cause(), EndCause::TimeLimit);
    assert_eq!(step.outcome().whole.unwrap().end.cause, EndCause::TimeLimit);
}

#[test]
fn garbage_from_above_ends_the_step() {
    for garbage in [&[0xff; 64][..], &[3, 0, 0, 0, 3, 0xc1, 0xc1, 0xc1]] {
        let mut bench = Bench::new();
        let task = bench.task(1, "sleep 1000");
        let mut step = bench.start(&task);
        step.until(|s| !s.pids.is_empty());
        step.up.write_all(garbage).unwrap();
        assert_eq!(step.outcome().end.end.cause, EndCause::Cancelled);
    }
}

#[test]
fn more_input_than_the_window_ends_the_step() {
    let mut bench = Bench::new();
    let task = bench.task(1, "sleep 1000");
    let mut step = bench.start(&task);
    for _ in 0..2 {
        step.stdin(&[0; 200_000]);
    }
    assert_eq!(step.outcome().end.end.cause, EndCause::Cancelled);
}

// ---- hops and watchers

impl Step {
    fn dock(&self, dock: IoPurpose) -> UnixStream {
        let path = self.directory.join("io");
        let mut socket = eventually(|| UnixStream::connect(&path).ok());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
            .write_all(&frame::encode(&dock, 256).unwrap())
            .unwrap();
        socket
    }
}

#[test]
fn a_hop_that_breaks_goes_on() {
    let mut bench = Bench::new();
    let mut task = bench.task(1, "seq 6000000; cat");
    task.up = UpKind::Hop;
    let mut step = bench.start(&task);
    step.send(StepFrame::Link(Link::Resume(0)));
    step.stdin(b"last\n");
    for _ in 0..12 {
        for _ in 0..2 {
            step.read();
            step.send(StepFrame::Link(Link::Received(step.received)));
        }
        // Whatever is under way is lost.
        step.up = step.dock(IoPurpose::Up);
        step.incoming.clear();
        step.send(StepFrame::Link(Link::Resume(step.received)));
        step.links = 0;
        step.until(|s| s.links > 0);
        // All that it may send before the next acknowledgement may have come with it.
        step.send(StepFrame::Link(Link::Received(step.received)));
        if step.acknowledged == 0 {
            step.stdin(b"last\n");
        }
    }
    step.send(DownFrame::StdinEnd);
    let last = |s: &Step| {
        s.output
            .get(&(0, true))
            .is_some_and(|o| o.ends_with(b"last\n"))
    };
    while !last(&step) {
        step.read();
        step.send(StepFrame::Link(Link::Received(step.received)));
    }
    step.wait();
    // It may have left already, if it was told before.
    let _ = step.try_send(StepFrame::Link(Link::Received(step.received)));
    while step.read() {}
    let mut expected: String = (1..=6_000_000).map(|n| format!("{n}\n")).collect();
    expected.push_str("last\n");
    assert!(step.text(0) == expected);
}

#[test]
fn a_child_that_cannot_be_reached_is_lost() {
    let mut bench = Bench::new();
    let mut task = bench.task(1, "echo here");
    task.order.layout.nodes.push("n2".into());
    task.order.layout.ranks.push(vec![RankRun {
        first: 1,
        count: 1,
        stride: 1,
    }]);
    task.order.layout.tasks = 2;
    task.order.tree = vec![0, 1];
    task.children = vec![vec![1]];
    let mut step = bench.start(&task);
    let mut daemon = step.dock(IoPurpose::Child(0));
    let mut bytes = Vec::new();
    let lost = UpFrame::Lost {
        nodes: vec![1],
        reason: "no route".into(),
    };
    step::put(&mut bytes, &lost.into()).unwrap();
    daemon.write_all(&bytes).unwrap();
    step.wait();
    assert_eq!(step.text(0), "here\n");
    assert_eq!(step.lost, [(vec![1], "no route".to_owned())]);
    assert_eq!(step.outcome().whole.unwrap().end.cause, EndCause::NodeLost);
}

#[test]
fn who_looks_on_sees_what_was_and_what_comes() {
    let mut bench = Bench::new();
    let task = bench.task(1, "echo before; read x; echo after");
    let mut step = bench.start(&task);
    step.until(|s| s.text(0) == "before\n");
    let watcher = step.dock(IoPurpose::Watch);
    let mut watcher = Step::new(watcher, step.directory.clone());
    watcher.until(|s| s.text(0) == "before\n");
    step.stdin(b"x\n");
    step.wait();
    watcher.wait();
    assert_eq!(watcher.text(0), "before\nafter\n");
    assert_eq!(watcher.end(0), (0, 0));
}
