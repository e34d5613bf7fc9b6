//! `cosy run` outside a job, `calloc` and `cbcast` as programs, against a controller and a
//! step that the test plays.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod fake_step;
mod sandbox;

use cosy_model::api::{Column, EndedJob, JobField, JobRef, Reply, Request, Submission, Table};
use cosy_model::job::EndCause;
use cosy_model::step::{DownFrame, StepAsk, StepCommand, UpFrame};
use cosy_model::{JobId, JobState, OsText, Program, Refusal, RefusalCode};
use fake_step::{ReplyPlan, controller, endpoint, inside, layout, serve_step};
use rustix::process::{Pid, Signal, kill_process};
use sandbox::{Sandbox, assert_one_line_error};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

fn allocated(sandbox: &Sandbox) -> Reply {
    Reply::Allocated {
        entry: endpoint(sandbox),
        until: None,
        variables: OsText::from("COSY_JOB_ID=12\0COSY_NODE_COUNT=2\0COSY_TASKS=1"),
    }
}

fn submitted() -> Reply {
    Reply::Submitted {
        job: JobId(12),
        tasks: 0,
        note: String::new(),
    }
}

fn done() -> Reply {
    Reply::Done {
        changed: 1,
        refused: Vec::new(),
    }
}

fn ended(state: JobState) -> Reply {
    let job = JobRef {
        job: JobId(12),
        task: None,
    };
    Reply::Ended(vec![EndedJob {
        job,
        state,
        exit_code: 0,
        signal: 15,
        note: match state {
            JobState::NodeFailed => "node n2 was lost".to_owned(),
            _ => String::new(),
        },
    }])
}

/// Never answers.
fn never() -> ReplyPlan {
    ReplyPlan::Delayed(channel().1)
}

/// A controller that gives a job at once; what is sent tells how that job has ended.
fn outlived_by_its_command(sandbox: &Sandbox) -> Sender<Reply> {
    let (end, later) = channel();
    let (mut later, reply) = (Some(later), allocated(sandbox));
    controller(sandbox, move |request| match request {
        Request::Allocate(_) => ReplyPlan::Send(reply.clone()),
        Request::Attend { .. } => ReplyPlan::Delayed(later.take().unwrap()),
        Request::Finish { .. } => ReplyPlan::Send(done()),
        other => panic!("{other:?}"),
    });
    end
}

/// A controller that has nodes at once.
fn rich(sandbox: &Sandbox) -> Receiver<Request> {
    let reply = allocated(sandbox);
    controller(sandbox, move |request| match request {
        Request::Allocate(_) => ReplyPlan::Send(reply.clone()),
        Request::Attend { started: true, .. } => never(),
        Request::Finish { .. } => ReplyPlan::Send(done()),
        other => panic!("{other:?}"),
    })
}

fn submission(request: Request) -> Submission {
    match request {
        Request::Allocate(s) => *s,
        other => panic!("{other:?}"),
    }
}

/// What was asked but to attend, in order.
fn asked(questions: &Receiver<Request>) -> Vec<Request> {
    let all: Vec<Request> = questions.try_iter().collect();
    all.into_iter()
        .filter(|r| !matches!(r, Request::Attend { .. }))
        .collect()
}

#[test]
fn a_step_with_an_allocation_of_its_own() {
    let sandbox = Sandbox::new();
    let questions = rich(&sandbox);
    let fake_step = serve_step(&sandbox, layout(2, 1), |fake_step, ask| {
        fake_step.out(1, "there\n");
        fake_step.finish(3, 0);
        ask
    });
    let mut command = sandbox.command(&[
        "cosy",
        "run",
        "-n2",
        "-q",
        "day",
        "--mem",
        "1G",
        "-t",
        "5",
        "--nodelist",
        "n1",
        "prog",
    ]);
    command.env("COSY_JOB_NAME", "old").env("COSY_TASKS", "77");
    let got = sandbox.finish(command, b"");
    assert_eq!((got.code, &*got.out), (3, "there\n"), "{got:?}");
    assert_eq!(got.error, "cosy run: n[1-2]: tasks 0-1: exit code 3\n");
    let StepAsk::Start { job, spec } = fake_step.join().unwrap() else {
        panic!()
    };
    assert_eq!(job, JobId(12));
    // What the job has is not asked for again.
    assert_eq!((spec.memory, spec.time_limit, spec.tasks), (None, None, Some(2)));
    let variables = spec.environment.lossy();
    assert!(variables.contains("COSY_TASKS=1") && !variables.contains("77"), "{variables}");
    let mut asked = asked(&questions);
    assert_eq!(asked.len(), 2);
    let Request::Finish {
        exit_code,
        signal,
        job,
    } = asked.remove(1)
    else {
        panic!("{asked:?}")
    };
    assert_eq!((job, exit_code, signal), (JobId(12), 3, 0));
    let job = submission(asked.remove(0)).spec;
    assert!(job.attended && !job.requeue);
    assert_eq!((job.program, &*job.name), (Program::Allocation, "prog"));
    assert_eq!(job.request.tasks, Some(2));
    assert_eq!(job.request.require, ["n1"]);
    assert_eq!(job.time_limit.map(|t| t.secs()), Some(300));
}

fn reason() -> Reply {
    let mut table = Table::new(&[JobField::Reason, JobField::PredictedStart]);
    table.columns = vec![
        Column::Texts(vec!["resources".into()]),
        Column::Numbers(vec![0]),
    ];
    table.rows = 1;
    Reply::Jobs(table)
}

#[test]
fn a_job_that_waits_says_why() {
    let sandbox = Sandbox::new();
    let (start, later) = channel();
    let (mut later, reply) = (Some(later), allocated(&sandbox));
    let questions = controller(&sandbox, move |request| match request {
        Request::Allocate(_) => ReplyPlan::Send(submitted()),
        Request::Attend { started: false, .. } => ReplyPlan::Delayed(later.take().unwrap()),
        Request::Attend { started: true, .. } => never(),
        Request::Jobs { .. } => {
            start.send(reply.clone()).unwrap();
            ReplyPlan::Send(reason())
        }
        Request::Finish { .. } => ReplyPlan::Send(done()),
        other => panic!("{other:?}"),
    });
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, _| fake_step.finish(0, 0));
    let got = sandbox.run(&["cosy", "run", "prog"]);
    assert_eq!(got.code, 0, "{got:?}");
    let lines: Vec<&str> = got.error.lines().collect();
    assert!(
        lines[0].starts_with("cosy run: job 12 waits (resources), predicted start"),
        "{lines:?}"
    );
    assert_eq!(lines[1..], ["cosy run: job 12: allocated n[1-2]"]);
    fake_step.join().unwrap();
    drop(questions);
}

#[test]
fn giving_up() {
    let sandbox = Sandbox::new();
    let questions = controller(&sandbox, move |request| match request {
        Request::Allocate(_) => ReplyPlan::Send(submitted()),
        Request::Attend { .. } => never(),
        Request::Cancel { .. } => ReplyPlan::Send(done()),
        other => panic!("{other:?}"),
    });
    let got = sandbox.run(&["cosy", "run", "--immediate", "prog"]);
    assert_one_line_error(&got, 1, "job 12 did not start within 00:00:00: it was given up");
    let asked = asked(&questions);
    assert!(matches!(&asked[1], Request::Cancel { filter, .. } if filter.ids.len() == 1));
}

#[test]
fn refused_allocations() {
    let sandbox = Sandbox::new();
    let _questions = controller(&sandbox, move |_| {
        let text = "99 nodes are more than the 2 of queue main";
        ReplyPlan::Send(Reply::Refused(Refusal::new(RefusalCode::NeverFits, text)))
    });
    assert_one_line_error(&sandbox.run(&["cosy", "run", "-N99", "prog"]), 1, "99 nodes are more");
    assert_one_line_error(&sandbox.run(&["calloc", "-N99"]), 1, "99 nodes are more");
}

#[test]
fn the_end_of_the_job_is_told() {
    let sandbox = Sandbox::new();
    let (end, later) = channel();
    let (mut later, reply) = (Some(later), allocated(&sandbox));
    let _questions = controller(&sandbox, move |request| match request {
        Request::Allocate(_) => ReplyPlan::Send(reply.clone()),
        Request::Attend { .. } => ReplyPlan::Delayed(later.take().unwrap()),
        Request::Finish { .. } => {
            let over = Refusal::new(RefusalCode::WrongState, "job 12 has ended");
            ReplyPlan::Send(Reply::Refused(over))
        }
        other => panic!("{other:?}"),
    });
    // The step says nothing: its end is not waited for in vain.
    let fake_step = serve_step(&sandbox, layout(1, 1), move |fake_step, _| {
        fake_step.started();
        end.send(ended(JobState::TimedOut)).unwrap();
        fake_step.receive_order()
    });
    let got = sandbox.run(&["cosy", "run", "prog"]);
    assert_one_line_error(&got, 1, "job 12 was ended at its time limit");
    assert_eq!(fake_step.join().unwrap(), None);
}

#[test]
fn a_step_that_is_lost_with_its_job() {
    let sandbox = Sandbox::new();
    let end = outlived_by_its_command(&sandbox);
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, _| fake_step.started());
    let ends = std::thread::spawn(move || {
        fake_step.join().unwrap();
        end.send(ended(JobState::NodeFailed)).unwrap();
    });
    let got = sandbox.run(&["cosy", "run", "prog"]);
    assert_one_line_error(&got, 1, "job 12 was ended: node n2 was lost");
    ends.join().unwrap();
}

#[test]
fn a_controller_that_is_restarted() {
    let sandbox = Sandbox::new();
    let reply = allocated(&sandbox);
    let (again, attended) = channel();
    let mut times = 0;
    let _questions = controller(&sandbox, move |request| match request {
        Request::Allocate(_) => ReplyPlan::Send(reply.clone()),
        Request::Attend { started: true, .. } => {
            times += 1;
            if times == 1 {
                return ReplyPlan::HangUp;
            }
            again.send(()).unwrap();
            never()
        }
        Request::Finish { .. } => ReplyPlan::Send(done()),
        other => panic!("{other:?}"),
    });
    let fake_step = serve_step(&sandbox, layout(1, 1), move |fake_step, _| {
        attended.recv().unwrap();
        fake_step.finish(0, 0);
    });
    let got = sandbox.run(&["cosy", "run", "prog"]);
    assert_eq!(got.code, 0, "{got:?}");
    assert_eq!(got.error.lines().count(), 1, "{got:?}");
    assert!(got.error.contains("lost the controller"), "{got:?}");
    fake_step.join().unwrap();
}

#[test]
fn a_shell_in_an_allocation() {
    let check = |script: &str, code: i32, out: &str, finish: (i32, i32)| {
        let sandbox = Sandbox::new();
        let questions = rich(&sandbox);
        let got = sandbox.run(&["calloc", "-n2", "--mpi", "none", "sh", "-c", script]);
        assert_eq!((got.code, &*got.out), (code, out), "{got:?}");
        assert_eq!(got.error, "calloc: job 12: allocated n[1-2]\n");
        let asked = asked(&questions);
        let Request::Finish {
            exit_code, signal, ..
        } = asked[1]
        else {
            panic!("{asked:?}")
        };
        assert_eq!((exit_code, signal), finish);
    };
    check("echo $COSY_JOB_ID $COSY_NODE_COUNT $COLOUR", 0, "12 2 blue\n", (0, 0));
    check("exit 7", 7, "", (7, 0));
    check("kill -9 $$", 137, "", (0, 9));
}

#[test]
fn a_shell_that_is_not_there() {
    let sandbox = Sandbox::new();
    let questions = rich(&sandbox);
    let got = sandbox.run(&["calloc", "-Q", "--mpi", "none", "/no/such/program"]);
    assert_one_line_error(&got, 127, "cannot run '/no/such/program': No such file");
    assert!(matches!(asked(&questions)[1], Request::Finish { exit_code: 1, .. }));
}

#[test]
fn the_shell_ends_with_the_job() {
    let sandbox = Sandbox::new();
    let end = outlived_by_its_command(&sandbox);
    let mut command = sandbox.command(&[
        "calloc",
        "--mpi",
        "none",
        "sh",
        "-c",
        "echo ready; read x; exit 0",
    ]);
    command
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let input = child.stdin.take();
    end.send(ended(JobState::Cancelled)).unwrap();
    let got = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(got.status.code(), Some(129), "SIGHUP");
    let error = String::from_utf8(got.stderr).unwrap();
    assert!(error.contains("job 12 was cancelled"), "{error}");
}

#[test]
fn a_lost_terminal_ends_it() {
    let sandbox = Sandbox::new();
    let questions = rich(&sandbox);
    let mut command =
        sandbox.command(&["calloc", "--mpi", "none", "sh", "-c", "echo ready; read x"]);
    command
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let input = child.stdin.take();
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(129));
    drop(input);
    assert!(matches!(asked(&questions)[1], Request::Finish { signal: 1, .. }));
}

#[test]
fn an_allocation_that_stays() {
    let sandbox = Sandbox::new();
    let questions = rich(&sandbox);
    let got = sandbox.run(&["calloc", "--no-shell", "-N2"]);
    assert_eq!((got.code, &*got.out, &*got.error), (0, "12\n", ""));
    let mut asked = asked(&questions);
    assert_eq!(asked.len(), 1);
    assert!(!submission(asked.remove(0)).spec.attended);
    assert_one_line_error(
        &sandbox.run(&["calloc", "--no-shell", "x"]),
        2,
        "--no-shell runs no command",
    );
}

#[test]
fn a_file_goes_to_all_nodes() {
    let sandbox = Sandbox::new();
    let text = b"data\n".repeat(100_000);
    let source = sandbox.script("source", &text);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o750)).unwrap();
    let fake_step = serve_step(&sandbox, layout(2, 1), |fake_step, ask| {
        let mut got = Vec::new();
        loop {
            match fake_step.receive().unwrap() {
                DownFrame::Stdin { bytes } => got.extend(bytes),
                DownFrame::StdinEnd => break,
                other => panic!("{other:?}"),
            }
            let bytes = got.len() as u64;
            fake_step.send(UpFrame::StdinTaken { bytes });
        }
        let mut end = fake_step::task_end(1, 0);
        end.failure = Some("cannot write /tmp/x on n2: No space left on device".into());
        fake_step.send(UpFrame::TaskEnded { rank: 1, end });
        fake_step.node(0, EndCause::Exited);
        fake_step.node(1, EndCause::Exited);
        (ask, got)
    });
    let command = inside(&sandbox, sandbox.command(&["cbcast", "-f", &source, "/tmp/x"]));
    let got = sandbox.finish(command, b"");
    assert_one_line_error(
        &got,
        1,
        "cbcast: n2: task 1: cannot write /tmp/x: No space left on device",
    );
    let (ask, bytes) = fake_step.join().unwrap();
    assert!(bytes == text);
    let StepAsk::Start { spec, .. } = ask else {
        panic!()
    };
    assert!(spec.overlap);
    assert_eq!((spec.nodes, spec.tasks_per_node), (Some(2), Some(1)));
    assert_eq!(
        spec.programs[0].command,
        StepCommand::Receive {
            path: "/tmp/x".into(),
            mode: 0o750,
            force: true,
            times: None
        }
    );
}

#[test]
fn files_that_cannot_be_copied() {
    let sandbox = Sandbox::new();
    let run = |line: &[&str]| sandbox.finish(inside(&sandbox, sandbox.command(line)), b"");
    assert_one_line_error(&run(&["cbcast", "gone", "/tmp/x"]), 1, "cannot open 'gone'");
    assert_one_line_error(&run(&["cbcast", "/tmp", "/tmp/x"]), 1, "is a directory");
    assert_one_line_error(&run(&["cbcast", "bin/cosy", "/tmp/"]), 2, "the name of a file");
    assert_one_line_error(&run(&["cbcast", "bin/cosy"]), 2, "<DESTINATION>");
    assert_one_line_error(&run(&["cbcast", "--mode", "9", "bin/cosy", "x"]), 2, "an octal mode");
    assert_one_line_error(&sandbox.run(&["cbcast", "bin/cosy", "x"]), 2, "of which job");
}

/// Reads from a terminal until it has shown `want`.
fn shown(master: &mut fs::File, want: &str) {
    let mut all = String::new();
    let mut chunk = [0; 1024];
    while !all.contains(want) {
        let n = master.read(&mut chunk).unwrap();
        all.push_str(&String::from_utf8_lossy(&chunk[..n]));
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

#[test]
fn job_control_at_a_terminal() {
    let sandbox = Sandbox::new();
    let _questions = rich(&sandbox);
    let pty = nix::pty::openpty(None, None).unwrap();
    let calloc = sandbox.path("bin/calloc");
    let calloc = calloc.to_str().unwrap();
    // In a session whose terminal is this one; the calloc there is the process itself.
    let mut command = std::process::Command::new("setsid");
    command
        .args(["--ctty", calloc, "--mpi", "none", "-Q", "cat"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir(sandbox.root.path());
    let slave = || Stdio::from(pty.slave.try_clone().unwrap());
    command.stdin(slave()).stdout(slave()).stderr(slave());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut master = fs::File::from(pty.master.try_clone().unwrap());
    // What is typed is shown by the terminal, and again by cat.
    master.write_all(b"one\n").unwrap();
    shown(&mut master, "one\r\none\r\n");
    // cat stops, and calloc with it; they go on together.
    master.write_all(&[26]).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_stopped(child.id()) {
        assert!(Instant::now() < until, "calloc does not stop");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    master.write_all(b"two\n").unwrap();
    shown(&mut master, "two\r\ntwo\r\n");
    // An interrupt is for cat alone; what ended it is told.
    master.write_all(&[3]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
