//! `cosy run` as a program, against a step that the test plays.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod fake_step;
mod sandbox;

use cosy_model::job::EndCause;
use cosy_model::limits::{FRAME_BYTES, STDIN_WINDOW};
use cosy_model::step::{
    DownFrame, InputFrom, OutputTo, StepAnswer, StepAsk, StepCommand, StepInfo, StepSpec, Stream,
    UpFrame,
};
use cosy_model::{JobId, Refusal, RefusalCode, StepId};
use cosy_proto::frame;
use fake_step::{FakeStep, inside, key, layout, serve, serve_step};
use rustix::process::{Pid, Signal, kill_process};
use sandbox::{Outcome, Sandbox, assert_one_line_error};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};

fn spec(ask: StepAsk) -> StepSpec {
    match ask {
        StepAsk::Start { job, spec } => {
            assert_eq!(job, JobId(12));
            *spec
        }
        other => panic!("{other:?}"),
    }
}

fn run(sandbox: &Sandbox, line: &[&str]) -> Outcome {
    feed(sandbox, line, b"")
}

fn feed(sandbox: &Sandbox, line: &[&str], input: &[u8]) -> Outcome {
    let line = [&["cosy", "run"], line].concat();
    sandbox.finish(inside(sandbox, sandbox.command(&line)), input)
}

/// Starts one whose output and errors the test reads.
fn start(sandbox: &Sandbox, line: &[&str]) -> Child {
    let line = [&["cosy", "run"], line].concat();
    let mut command = inside(sandbox, sandbox.command(&line));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_step_is_asked_for_and_its_output_written() {
    let sandbox = Sandbox::new();
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, ask| {
        fake_step.started();
        fake_step.out(0, "one\ntw");
        fake_step.output(0, Stream::Error, "bad\n");
        fake_step.out(0, "o\nend without newline");
        fake_step.finish(0, 0);
        ask
    });
    let got = run(
        &sandbox,
        &[
            "-n1", "-c2", "-t", "5", "-J", "name", "prog", "-x", "--", "y",
        ],
    );
    assert_eq!(got.code, 0, "{got:?}");
    assert_eq!(got.out, "one\ntwo\nend without newline");
    assert_eq!(got.error, "bad\n");
    let spec = spec(fake_step.join().unwrap());
    assert_eq!((spec.tasks, spec.cores_per_task), (Some(1), Some(2)));
    assert_eq!((&*spec.name, spec.time_limit.map(|t| t.secs())), ("name", Some(300)));
    assert_eq!(spec.workdir.lossy(), sandbox.root.path().to_str().unwrap());
    assert!(spec.environment.lossy().contains("COLOUR=blue"));
    let argv = ["prog", "-x", "--", "y"].map(Into::into).to_vec();
    let expand = false;
    assert_eq!(spec.programs[0].command, StepCommand::Run { argv, expand });
    assert_eq!((spec.stdin, spec.stdout), (InputFrom::All, OutputTo::Command));
}

#[test]
fn exit_codes_and_messages() {
    let check = |options: &[&str], code: i32, want: &[&str], part: fn(&mut FakeStep)| {
        let sandbox = Sandbox::new();
        let fake_step = serve_step(&sandbox, layout(2, 2), move |fake_step, _| {
            fake_step.started();
            part(fake_step);
            while fake_step.receive().is_some() {}
        });
        let got = run(&sandbox, &[options, &["x"]].concat());
        assert_eq!(got.code, code, "{got:?}");
        let lines: Vec<&str> = got.error.lines().collect();
        let want: Vec<String> = want.iter().map(|w| format!("cosy run: {w}")).collect();
        assert_eq!(lines, want);
        assert_eq!(got.out, "");
        fake_step.join().unwrap();
    };
    check(&[], 0, &[], |s| s.finish(0, 0));
    check(&[], 3, &["n[1-2]: tasks 0-3: exit code 3"], |s| s.finish(3, 0));
    check(&["-Q"], 9, &["n[1-2]: tasks 0-3: exit code 9"], |s| s.finish(9, 0));
    check(&[], 137, &["n2: task 3: ended by signal 9 (SIGKILL)"], |s| {
        s.task(3, 0, 9);
        s.finish(0, 0);
    });
    check(&[], 127, &["n1: task 0: cannot execute ./a.out: Permission denied"], |s| {
        let mut end = fake_step::task_end(127, 0);
        end.failure = Some("cannot execute ./a.out on n1: Permission denied".into());
        s.send(UpFrame::TaskEnded { rank: 0, end });
        s.finish(0, 0);
    });
    check(
        &[],
        143,
        &[
            "n1: task 0: ended by signal 15 (SIGTERM)",
            "n[1-2]: ended at the time limit",
        ],
        |s| {
            s.task(0, 0, 15);
            s.node(0, EndCause::TimeLimit);
            s.node(1, EndCause::TimeLimit);
        },
    );
    check(&[], 1, &["n2: ended because it ran out of memory (peak 3.0G)"], |s| {
        s.node(1, EndCause::OutOfMemory);
        s.node(0, EndCause::Exited);
    });
    check(&[], 1, &["n2: lost: no route to host"], |s| {
        let reason = "no route to host".to_owned();
        s.send(UpFrame::Lost {
            nodes: vec![1],
            reason,
        });
        assert!(matches!(s.receive_order(), Some(DownFrame::Kill)));
        s.node(0, EndCause::Cancelled);
    });
    check(&[], 5, &["n2: task 2 aborted with code 5: no memory"], |s| {
        let reason = "no memory".to_owned();
        s.send(UpFrame::Abort {
            rank: 2,
            code: 5,
            reason,
        });
        assert!(matches!(s.receive_order(), Some(DownFrame::Kill)));
        s.task(0, 0, 15);
        s.task(1, 0, 15);
        s.finish(0, 0);
    });
}

#[test]
fn a_bad_end_ends_all_where_it_is_asked_for() {
    let check = |options: &[&str], killed: bool| {
        let sandbox = Sandbox::new();
        let fake_step = serve_step(&sandbox, layout(1, 2), |fake_step, _| {
            fake_step.task(0, 2, 0);
            let mut orders = Vec::new();
            loop {
                match fake_step.receive() {
                    Some(DownFrame::StdinEnd) if orders.is_empty() => {
                        // All that comes because of the bad end has come before this.
                        fake_step.send(UpFrame::StdinTaken { bytes: 0 });
                        fake_step.task(1, 0, 0);
                        fake_step.node(0, EndCause::Exited);
                    }
                    Some(other) => orders.push(other),
                    None => return orders,
                }
            }
        });
        let got = run(&sandbox, &[options, &["x"]].concat());
        assert_eq!(got.code, 2, "{got:?}");
        let kill = fake_step.join().unwrap().contains(&DownFrame::Kill);
        assert!(!kill || killed, "{options:?}");
    };
    check(&[], false);
    check(&["-K=0", "--mpi", "pmi"], false);
    let sandbox = Sandbox::new();
    let ways = [
        (&["-K"][..], (2, 0), 2),
        (&["-K"], (0, 9), 137),
        (&["--mpi", "pmi"], (0, 9), 137),
    ];
    for (options, (exit_code, signal), code) in ways {
        let fake_step = serve_step(&sandbox, layout(1, 2), move |fake_step, _| {
            fake_step.task(0, exit_code, signal);
            let order = fake_step.receive_order();
            fake_step.task(1, 0, 15);
            fake_step.node(0, EndCause::Cancelled);
            order
        });
        let got = run(&sandbox, &[options, &["x"]].concat());
        assert_eq!(fake_step.join().unwrap(), Some(DownFrame::Kill));
        assert_eq!(got.code, code, "{got:?}");
        assert!(!got.error.contains("cancelled"), "{got:?}");
        fs::remove_file(sandbox.path(fake_step::STEP_SOCKET)).unwrap();
    }
}

#[test]
fn labels_and_whole_lines() {
    let check = |options: &[&str], want: &str| {
        let sandbox = Sandbox::new();
        let fake_step = serve_step(&sandbox, layout(1, 11), |fake_step, _| {
            fake_step.out(10, "a");
            fake_step.out(0, "x\ny");
            fake_step.out(10, "b\n");
            fake_step.finish(0, 0);
        });
        let got = run(&sandbox, &[options, &["x"]].concat());
        assert_eq!((got.code, &*got.out), (0, want), "{got:?}");
        fake_step.join().unwrap();
    };
    check(&["-l"], " 0: x\n10: ab\n 0: y\n");
    check(&[], "x\nab\ny");
    check(&["-u"], "ax\nyb\n");
}

#[test]
fn much_output_is_whole() {
    let sandbox = Sandbox::new();
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, _| {
        let block: String = (0..20_000).map(|n| format!("{n:09}\n")).collect();
        for _ in 0..200 {
            fake_step.out(0, &block);
        }
        fake_step.finish(0, 0);
        block
    });
    let got = run(&sandbox, &["x"]);
    let block = fake_step.join().unwrap();
    assert_eq!(got.code, 0);
    assert!(got.out == block.repeat(200), "{} bytes", got.out.len());
}

#[test]
fn output_in_files() {
    let sandbox = Sandbox::new();
    let fake_step = serve_step(&sandbox, layout(1, 2), |fake_step, ask| {
        fake_step.out(0, "out\n");
        fake_step.output(1, Stream::Error, "err\n");
        fake_step.finish(0, 0);
        spec(ask)
    });
    let got = run(&sandbox, &["-o", "f-%j.%s", "x"]);
    assert_eq!((got.code, &*got.out, &*got.error), (0, "", ""));
    assert_eq!(fake_step.join().unwrap().stdout, OutputTo::Command);
    assert_eq!(fs::read_to_string(sandbox.path("f-12.3")).unwrap(), "out\nerr\n");
}

#[test]
fn files_that_cannot_be_opened() {
    let sandbox = Sandbox::new();
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, _| fake_step.receive());
    let got = run(&sandbox, &["-o", "no/such/folder", "x"]);
    assert_one_line_error(&got, 1, "cannot open");
    assert!(got.error.contains("No such file"), "{got:?}");
    // The step is ended by the end of its command.
    assert_eq!(fake_step.join().unwrap(), None);
    assert_one_line_error(&run(&sandbox, &["-i", "nofile", "x"]), 1, "cannot open");
}

#[test]
fn input_goes_to_the_tasks_as_they_take_it() {
    let sandbox = Sandbox::new();
    let input: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, _| {
        let mut got: Vec<u8> = Vec::new();
        let mut taken = 0;
        loop {
            match fake_step.receive().unwrap() {
                DownFrame::Stdin { bytes } => got.extend(bytes),
                DownFrame::StdinEnd => break,
                other => panic!("{other:?}"),
            }
            let under_way = got.len() as u64 - taken;
            assert!(under_way <= STDIN_WINDOW, "{under_way} bytes");
            if under_way == STDIN_WINDOW {
                taken = got.len() as u64;
                fake_step.send(UpFrame::StdinTaken { bytes: taken });
            }
        }
        fake_step.finish(0, 0);
        got
    });
    let got = feed(&sandbox, &["x"], &input);
    assert_eq!(got.code, 0, "{got:?}");
    assert!(fake_step.join().unwrap() == input);
}

#[test]
fn interrupted_once_it_tells_twice_it_ends() {
    let sandbox = Sandbox::new();
    let (ready, wait) = std::sync::mpsc::channel();
    let fake_step = serve_step(&sandbox, layout(1, 2), move |fake_step, _| {
        fake_step.started();
        fake_step.task(1, 0, 0);
        fake_step.out(0, "runs\n");
        ready.send(()).unwrap();
        let order = fake_step.receive_order();
        fake_step.task(0, 0, 15);
        fake_step.node(0, EndCause::Cancelled);
        order
    });
    let mut child = start(&sandbox, &["x"]);
    wait.recv().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out), "runs\n");
    let mut error = BufReader::new(child.stderr.take().unwrap());
    signal(&child, Signal::INT);
    let told = line(&mut error);
    assert!(told.contains("once more within 1 s ends step 12.3"), "{told}");
    assert!(told.contains("task 0 runs"), "{told}");
    // On a slow machine the next one may come too late: then it counts as the first.
    loop {
        signal(&child, Signal::INT);
        let text = line(&mut error);
        if text.contains("ending step 12.3") {
            break;
        }
        assert!(text.contains("once more"), "{text}");
    }
    assert_eq!(fake_step.join().unwrap(), Some(DownFrame::Kill));
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn signals_reach_the_tasks() {
    let sandbox = Sandbox::new();
    let (ready, wait) = std::sync::mpsc::channel();
    let fake_step = serve_step(&sandbox, layout(1, 1), move |fake_step, _| {
        fake_step.out(0, "runs\n");
        ready.send(()).unwrap();
        let orders = [fake_step.receive_order(), fake_step.receive_order()];
        fake_step.finish(0, 0);
        orders
    });
    let mut child = start(&sandbox, &["x"]);
    wait.recv().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    line(&mut out);
    signal(&child, Signal::USR1);
    signal(&child, Signal::TERM);
    let mut got = fake_step.join().unwrap().map(|d| format!("{d:?}"));
    got.sort();
    assert_eq!(got, ["Some(Kill)", "Some(Signal { signal: 10 })"]);
    // It was asked to end, and did; that is no success.
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn nobody_reads_the_output() {
    let sandbox = Sandbox::new();
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, _| {
        fake_step.out(0, "first\n");
        // Until the command has gone.
        while fake_step.receive().is_some() {
            fake_step.out(0, &"x".repeat(100_000));
        }
    });
    let mut child = start(&sandbox, &["x"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out), "first\n");
    drop(out);
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), &*error), (Some(141), ""));
    fake_step.join().unwrap();
}

#[test]
fn a_command_that_is_killed_leaves_its_step_alone() {
    let sandbox = Sandbox::new();
    let (ready, wait) = std::sync::mpsc::channel();
    let fake_step = serve_step(&sandbox, layout(1, 1), move |fake_step, _| {
        fake_step.started();
        ready.send(()).unwrap();
        fake_step.receive_order()
    });
    let mut child = start(&sandbox, &["x"]);
    wait.recv().unwrap();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(fake_step.join().unwrap(), None);
}

#[test]
fn refusals_and_losses() {
    let sandbox = Sandbox::new();
    let refuse = |code, text: &str| {
        let answer = StepAnswer::Refused(Refusal::new(code, text));
        serve(&sandbox, move |mut stream, _| {
            let reason = "8 cores are held by step 12.1".to_owned();
            frame::write(&mut stream, &StepAnswer::Waits { reason }, FRAME_BYTES).unwrap();
            frame::write(&mut stream, &answer, FRAME_BYTES).unwrap();
        })
    };
    let again = || fs::remove_file(sandbox.path(fake_step::STEP_SOCKET)).unwrap();
    let daemon = refuse(RefusalCode::NeverFits, "8 tasks need 16 cores; job 12 has 4");
    let got = run(&sandbox, &["-n8", "x"]);
    assert_eq!(got.code, 1);
    assert_eq!(
        got.error,
        "cosy run: the step waits: 8 cores are held by step 12.1\n\
         cosy run: 8 tasks need 16 cores; job 12 has 4\n"
    );
    daemon.join().unwrap();
    again();
    // Gone without a word, in the middle, and garbage.
    let daemon = serve(&sandbox, |_, _| ());
    assert_one_line_error(&run(&sandbox, &["x"]), 1, "closed the connection without an answer");
    daemon.join().unwrap();
    again();
    let daemon = serve_step(&sandbox, layout(1, 1), |fake_step, _| fake_step.out(0, "some"));
    let got = run(&sandbox, &["x"]);
    assert_one_line_error(&got, 1, "step 12.3: lost the connection");
    assert_eq!(got.out, "some");
    daemon.join().unwrap();
    again();
    let daemon = serve(&sandbox, |mut stream, _| stream.write_all(&[255; 64]).unwrap());
    assert_one_line_error(&run(&sandbox, &["x"]), 1, "no understandable answer");
    daemon.join().unwrap();
    let mut command = inside(&sandbox, sandbox.command(&["cosy", "run", "x"]));
    command.env("COSY_STEP_SOCKET", "/no/such/folder/steps.sock");
    assert_one_line_error(&sandbox.finish(command, b""), 1, "is noded running here?");
}

#[test]
fn a_node_daemon_that_is_restarted_is_waited_for() {
    let sandbox = Sandbox::new();
    let mut child = start(&sandbox, &["x"]);
    let mut error = BufReader::new(child.stderr.take().unwrap());
    let told = line(&mut error);
    assert!(told.contains("does not answer") && told.contains("trying"), "{told}");
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, _| fake_step.finish(0, 0));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    fake_step.join().unwrap();
}

#[test]
fn several_programs() {
    let sandbox = Sandbox::new();
    sandbox.script("mp", b"0 ./master\n1-2 ./worker %o\n* idle\n");
    let fake_step = serve_step(&sandbox, layout(1, 4), |fake_step, ask| {
        fake_step.finish(0, 0);
        spec(ask).programs
    });
    let got = run(&sandbox, &["-n4", "--multi-prog", "mp"]);
    assert_eq!(got.code, 0, "{got:?}");
    let programs = fake_step.join().unwrap();
    let ranks: Vec<_> = programs.iter().map(|p| p.ranks.clone()).collect();
    assert_eq!(ranks, [vec![(0, 0)], vec![(1, 2)], vec![(3, 3)]]);
    // Without a number of tasks there are as many as the job has.
    fs::remove_file(sandbox.path(fake_step::STEP_SOCKET)).unwrap();
    let fake_step = serve_step(&sandbox, layout(1, 5), |fake_step, ask| {
        fake_step.finish(0, 0);
        spec(ask).tasks
    });
    let mut command = sandbox.command(&["cosy", "run", "--multi-prog", "mp"]);
    command.env("COSY_TASKS", "5");
    assert_eq!(sandbox.finish(inside(&sandbox, command), b"").code, 0);
    assert_eq!(fake_step.join().unwrap(), Some(5));
    sandbox.script("bad", b"0 ./master\nx ./worker\n");
    assert_one_line_error(&run(&sandbox, &["--multi-prog", "bad"]), 2, "bad:2: 'x' are no ranks");
    assert_one_line_error(&run(&sandbox, &["--multi-prog", "none"]), 1, "cannot open 'none'");
}

#[test]
fn looking_on() {
    let sandbox = Sandbox::new();
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, ask| {
        fake_step.out(0, "seen\n");
        fake_step.finish(4, 0);
        ask
    });
    let got = run(&sandbox, &["--attach", "12.3"]);
    assert_eq!((got.code, &*got.out), (4, "seen\n"), "{got:?}");
    let (job, step) = (JobId(12), StepId(3));
    assert_eq!(fake_step.join().unwrap(), StepAsk::Attach { job, step });
}

#[test]
fn lists_and_ends_steps() {
    let sandbox = Sandbox::new();
    let info = StepInfo {
        key: key(),
        name: "name".into(),
        nodes: "n[1-2]".into(),
        tasks: 4,
        start: None,
        time_limit: None,
        memory: None,
    };
    let table = "STEP  NAME  TASKS  START    NODES\n12.3  name      4  (waits)  n[1-2]\n";
    let check = |words: &[&str], fine: &dyn Fn(&str) -> bool| {
        let info = info.clone();
        let daemon = serve(&sandbox, move |mut stream, ask| {
            assert_eq!(ask, StepAsk::List { job: JobId(12) });
            frame::write(&mut stream, &StepAnswer::Steps(vec![info]), FRAME_BYTES).unwrap();
        });
        let got = run(&sandbox, words);
        assert!(got.code == 0 && fine(&got.out), "{got:?}");
        daemon.join().unwrap();
        fs::remove_file(sandbox.path(fake_step::STEP_SOCKET)).unwrap();
    };
    check(&["--list"], &|out| out == table);
    check(&["--list", "--json"], &|out| {
        let told: serde_json::Value = serde_json::from_str(out).unwrap();
        told["steps"][0]["id"] == "12.3" && told["steps"][0]["start"].is_null()
    });
    let daemon = serve(&sandbox, |mut stream, ask| {
        frame::write(&mut stream, &StepAnswer::Done, FRAME_BYTES).unwrap();
        ask
    });
    assert_eq!(run(&sandbox, &["--cancel", "12.3"]).code, 0);
    let (job, step, signal) = (JobId(12), StepId(3), 0);
    assert_eq!(daemon.join().unwrap(), StepAsk::Signal { job, step, signal });
}

#[test]
fn a_terminal_of_its_own() {
    use rustix::termios::{LocalModes, tcgetattr, tcsetwinsize};
    let sandbox = Sandbox::new();
    let pty = nix::pty::openpty(None, None).unwrap();
    let size = rustix::termios::Winsize {
        ws_row: 33,
        ws_col: 99,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&pty.slave, size).unwrap();
    let raw = |pty: &nix::pty::OpenptyResult| {
        let modes = tcgetattr(&pty.slave).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ISIG)
    };
    assert!(!raw(&pty));
    let fake_step = serve_step(&sandbox, layout(1, 1), |fake_step, ask| {
        fake_step.out(0, "$ ");
        let key = fake_step.receive();
        let window = fake_step.receive();
        fake_step.finish(0, 0);
        (spec(ask).pty.unwrap(), key, window)
    });
    let mut command = inside(&sandbox, sandbox.command(&["cosy", "run", "--pty", "x"]));
    let slave = || Stdio::from(pty.slave.try_clone().unwrap());
    command
        .stdin(slave())
        .stdout(slave())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut master = fs::File::from(pty.master.try_clone().unwrap());
    let mut prompt = [0; 2];
    master.read_exact(&mut prompt).unwrap();
    assert_eq!((&prompt, raw(&pty)), (b"$ ", true));
    // An interrupt is a key like others.
    master.write_all(&[3]).unwrap();
    let bigger = rustix::termios::Winsize { ws_row: 50, ..size };
    tcsetwinsize(&pty.slave, bigger).unwrap();
    // It is not the terminal's foreground: nobody else tells it.
    signal(&child, Signal::WINCH);
    let status = child.wait().unwrap();
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert_eq!((status.code(), &*error), (Some(0), ""));
    assert!(!raw(&pty));
    let (window, key, resized) = fake_step.join().unwrap();
    assert_eq!((window.rows, window.columns), (33, 99));
    let mut heard = [key, resized].map(|d| format!("{:?}", d.unwrap()));
    heard.sort();
    assert_eq!(heard[0], "Stdin { bytes: [3] }");
    assert!(heard[1].contains("rows: 50"), "{heard:?}");
}
