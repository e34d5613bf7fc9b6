//! The commands as programs, against a controller that only listens and answers what the
//! test tells it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod sandbox;

use cosy_model::api::{
    Column, EndedJob, JobField, JobRef, NodeAction, Reply, Request, Submission, Table,
};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::reservation::{AccountInfo, LedgerEntry};
use cosy_model::{JobId, JobState, OsText, Program, Refusal, RefusalCode, ReservationId, Su, Time};
use cosy_proto::client::{ReplyFrame, RequestFrame};
use cosy_proto::frame;
use sandbox::{Sandbox, assert_one_line_error};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

fn submitted(job: u64) -> Reply {
    Reply::Submitted {
        job: JobId(job),
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

fn submission(mut asked: Vec<Request>) -> Submission {
    match asked.remove(0) {
        Request::Submit(s) => *s,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_script_is_submitted() {
    let sandbox = Sandbox::new();
    let text = b"#!/bin/sh\n#COSY -N 2 -t 10\n#COSY --name inside\necho hello\n";
    let script = sandbox.script("job.sh", text);
    let controller = sandbox.controller(vec![submitted(12)]);
    let got = sandbox.run(&["csub", "-t", "20", "--reservation", "7", &script, "-N", "9"]);
    assert_eq!((got.code, &*got.out, &*got.error), (0, "Submitted job 12\n", ""));
    let s = submission(controller.join().unwrap());
    assert_eq!(s.script.0, text);
    assert_eq!(s.spec.name, "inside");
    assert_eq!(s.spec.request.nodes, Some(2));
    assert_eq!(s.spec.reservation, Some(ReservationId(7)));
    assert_eq!(s.spec.time_limit.map(|t| t.secs()), Some(1200));
    assert_eq!(s.spec.environment, "COLOUR=blue".into());
    assert_eq!(s.spec.workdir.lossy(), sandbox.root.path().to_str().unwrap());
    let args = ["-N", "9"].map(OsText::from).to_vec();
    let name = OsText::from(script);
    assert_eq!(s.spec.program, Program::Script { name, args });
    assert!(s.spec.rlimits.iter().any(|(n, _, _)| n == "NOFILE"));
}

#[test]
fn a_command_is_submitted() {
    let sandbox = Sandbox::new();
    let controller = sandbox.controller(vec![submitted(7)]);
    let mut command = sandbox.command(&["cosy", "submit", "--parsable", "--", "echo", "-N", "--"]);
    // The mask and the limits of whoever submits.
    command.arg("x");
    let got = sandbox.finish(command, b"");
    assert_eq!((got.code, &*got.out), (0, "7\n"));
    let s = submission(controller.join().unwrap());
    let argv = ["echo", "-N", "--", "x"].map(OsText::from).to_vec();
    assert_eq!(s.spec.program, Program::Command { argv });
    assert!(s.script.is_empty());
}

#[test]
fn a_script_on_standard_input() {
    for line in [&["csub", "-Q"][..], &["csub", "-Q", "-", "arg"]] {
        let sandbox = Sandbox::new();
        let controller = sandbox.controller(vec![submitted(7)]);
        let got = sandbox.finish(sandbox.command(line), b"#!/bin/sh\n#COSY -N 3\ntrue\n");
        assert_eq!((got.code, &*got.out, &*got.error), (0, "", ""));
        let s = submission(controller.join().unwrap());
        assert_eq!((&*s.spec.name, s.spec.request.nodes), ("stdin", Some(3)));
    }
}

#[test]
fn waits_for_its_job() {
    let check = |state, exit_code, signal, want| {
        let sandbox = Sandbox::new();
        let ended = EndedJob {
            job: "5".parse().unwrap(),
            state,
            exit_code,
            signal,
            note: String::new(),
        };
        let controller = sandbox.controller(vec![submitted(5), Reply::Ended(vec![ended])]);
        let got = sandbox.run(&["csub", "-w", "--json", "--", "x"]);
        assert_eq!(got.code, want, "{got:?}");
        assert!(got.out.contains("\"ended\":[{"), "{got:?}");
        controller.join().unwrap();
    };
    check(JobState::Completed, 0, 0, 0);
    check(JobState::Failed, 3, 0, 3);
    check(JobState::Failed, 0, 15, 143);
    check(JobState::Cancelled, 0, 0, 1);
}

#[test]
fn bad_scripts() {
    let sandbox = Sandbox::new();
    let check = |name: &str, text: &[u8], want: &str| {
        let script = sandbox.script(name, text);
        let got = sandbox.run(&["csub", &script]);
        assert_one_line_error(&got, if want.contains(".sh:") { 2 } else { 1 }, want);
        assert!(got.error.starts_with("csub: "), "{got:?}");
    };
    check("empty.sh", b"", "is empty");
    check("binary.sh", b"\x7fELF\0\0\x01", "is no script but binary");
    check("plain.sh", b"echo hello\n", "add a first line like '#!/bin/sh'");
    check("dos.sh", b"#!/bin/sh\r\nls\r\n", "CR LF");
    check("line.sh", b"#!/bin/sh\n\n#COSY -N x\n", "line.sh:3: invalid value 'x'");
    check("what.sh", b"#!/bin/sh\n#COSY --what\n", "what.sh:2: unexpected argument '--what'");
    assert_one_line_error(
        &sandbox.run(&["csub", "gone.sh"]),
        1,
        "cannot read the script 'gone.sh': No such file",
    );
    assert_one_line_error(&sandbox.run(&["csub", "."]), 1, "it is a directory");
    assert_one_line_error(&sandbox.run(&["csub", "/dev/zero"]), 1, "at most 4 MiB");
    let huge = sandbox.path("huge.sh");
    fs::File::create(&huge).unwrap().set_len(100 << 20).unwrap();
    assert_one_line_error(
        &sandbox.run(&["csub", huge.to_str().unwrap()]),
        1,
        "104857600 bytes; at most 4 MiB",
    );
    let endless = sandbox.finish(sandbox.command(&["csub"]), &b"#!/bin/sh\n".repeat(1 << 20));
    assert_one_line_error(&endless, 1, "at most 4 MiB");
    assert_one_line_error(&sandbox.run(&["csub"]), 1, "is empty");
}

#[test]
fn an_unreadable_script() {
    if rustix::process::geteuid().is_root() {
        cosy_skip::skip("root reads everything");
        return;
    }
    let sandbox = Sandbox::new();
    let script = sandbox.script("secret.sh", b"#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o000)).unwrap();
    assert_one_line_error(&sandbox.run(&["csub", &script]), 1, "Permission denied");
}

#[test]
fn nonsense_everywhere() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(100_000);
    let lines: &[&[&str]] = &[
        &["csub", "-N", "0", "--", "x"],
        &["csub", "-N", &long, "--", "x"],
        &["csub", "-t", "never", "--", "x"],
        &["csub", "--avoid", "n[1-1000000000]", "--", "x"],
        &["csub", "-a", "0-99999999", "--", "x"],
        &["csub", "-d", "afterok:zero", "--", "x"],
        &["csub", "--begin", "sometime", "--", "x"],
        &["csub", "--reservation", "0", "--", "x"],
        &["csub", "--reservation", "tomorrow", "--", "x"],
        &["cstat", "plan", "--until", "sometime"],
        &["csub", "--nonsense"],
        &["cstat", "x"],
        &["cstat", "--format", "nothing"],
        &["cstat", "-s", "asleep"],
        &["cstat", "--watch=x"],
        &["ccancel"],
        &["ccancel", "x"],
        &["ccancel", "1_[1-99999999]"],
        &["ccancel", "1", "--signal", "NOSUCH"],
        &["chist", "--since", "once"],
        &["cosy", "change", "12"],
        &["cosy", "change", "12", "--time", "-1"],
        &["cosy", "hold"],
        &["cosy", "wait"],
        &["cosy", "wait", "12_"],
        &["cadm", "node", "drain"],
        &["cadm", "node", "drain", "n[1-"],
        &["cadm", "node", "token", "n1", "--valid", "x"],
        &["cadm", "queue", "open"],
        &["cadm", "account"],
        &["cadm", "account", "create"],
        &["cadm", "account", "grant", "p", "-1"],
        &["cadm", "account", "grant", "p", "9999999999999999999999"],
        &["cadm", "account", "ledger", "--reservation", "x"],
        &["chist", "--cost", "12_3"],
        &["chist", "--cost", "--format", "id"],
        &["cadm"],
        &["cosy", "nonsense"],
        &["cosy", "resv"],
        &["cosy", "top", "-x"],
        &["ctop"],
        &["cosy", "flow"],
        &["cosy", "flow", "show", "x"],
        &["cosy", "flow", "cancel"],
    ];
    for line in lines {
        assert_one_line_error(&sandbox.run(line), 2, ": ");
    }
}

#[test]
fn help_and_version() {
    let sandbox = Sandbox::new();
    for line in [
        &["cosy", "--help"][..],
        &["cosy", "help", "submit"],
        &["csub", "--help"],
        &["cadm", "node", "--help"],
        &["csub", "--version"],
        &["cosy", "--version"],
    ] {
        let got = sandbox.run(line);
        assert_eq!((got.code, &*got.error), (0, ""), "{line:?}");
        assert!(!got.out.is_empty());
    }
}

#[test]
fn nobody_there() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("cosy.toml"), "").unwrap();
    let got = sandbox.run(&["csub", "--", "x"]);
    assert_one_line_error(&got, 3, "cannot reach the controller at");
    assert!(got.error.contains("is cosyd running?"));
    // A socket that nobody listens on any more.
    drop(UnixListener::bind(sandbox.path("run/cosyd.sock")).unwrap());
    assert_one_line_error(&sandbox.run(&["cstat"]), 3, "Connection refused");
    let mut command = sandbox.command(&["cstat"]);
    command.env("COSY_SOCKET", "/no/such/socket");
    assert_one_line_error(&sandbox.finish(command, b""), 3, "/no/such/socket");
}

#[test]
fn refusals() {
    let sandbox = Sandbox::new();
    let message = "queue 'x' does not exist; there are: main";
    let refused = |code| Reply::Refused(Refusal::new(code, message));
    let controller = sandbox.controller(vec![
        refused(RefusalCode::NotFound),
        refused(RefusalCode::Unavailable),
    ]);
    assert_one_line_error(&sandbox.run(&["csub", "-q", "x", "--", "x"]), 1, message);
    assert_one_line_error(&sandbox.run(&["csub", "-q", "x", "--", "x"]), 3, message);
    controller.join().unwrap();
}

#[test]
fn garbage() {
    for bytes in [
        &b"\xff\xff\xff\xff\xff"[..],
        b"\x02\0\0\0\xc1\xc1",
        b"SSH-2.0-OpenSSH\r\n",
    ] {
        let sandbox = Sandbox::new();
        let listener = UnixListener::bind(sandbox.path("run/cosyd.sock")).unwrap();
        let controller = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            frame::read::<RequestFrame>(&mut stream, FRAME_BYTES).unwrap();
            stream.write_all(bytes).unwrap();
        });
        assert_one_line_error(&sandbox.run(&["cstat"]), 1, "no understandable answer");
        controller.join().unwrap();
    }
}

#[test]
fn a_restart_in_the_middle() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("run/cosyd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let controller = std::thread::spawn(move || {
        let read = |l: &UnixListener| {
            let (mut stream, _) = l.accept().unwrap();
            let ask: RequestFrame = frame::read(&mut stream, FRAME_BYTES).unwrap().unwrap();
            (stream, ask)
        };
        let (stream, first) = read(&listener);
        // The socket goes too, and comes back.
        drop(listener);
        fs::remove_file(&path).unwrap();
        drop(stream);
        let listener = UnixListener::bind(&path).unwrap();
        let (mut stream, second) = read(&listener);
        assert_eq!(first, second);
        frame::write(&mut stream, &ReplyFrame::new(submitted(3)), FRAME_BYTES).unwrap();
    });
    let got = sandbox.run(&["csub", "--", "x"]);
    controller.join().unwrap();
    assert_eq!((got.code, &*got.out), (0, "Submitted job 3\n"));
    assert!(got.error.contains("lost the controller"), "{got:?}");
    assert_eq!(got.error.lines().count(), 1);
}

fn table() -> Table {
    let mut table = Table::new(&[JobField::Ref, JobField::State, JobField::Name]);
    let texts = |t: &[&str]| Column::Texts(t.iter().map(|s| (*s).to_owned()).collect());
    table.columns = vec![
        texts(&["12", "13"]),
        texts(&["running", "waiting"]),
        texts(&["a", "evil\u{1b}[2J"]),
    ];
    table.rows = 2;
    table
}

#[test]
fn lists() {
    let sandbox = Sandbox::new();
    let controller = sandbox.controller(vec![
        Reply::Jobs(table()),
        Reply::Jobs(table()),
        Reply::Reservations(Vec::new()),
    ]);
    let got = sandbox.run(&["cstat", "-A", "--format", "ref,name,state"]);
    assert_eq!(got.out, "REF  NAME      STATE\n 12  a         running\n 13  evil?[2J  waiting\n");
    let got = sandbox.run(&["cstat", "--json", "-u", "ann"]);
    let json: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    assert_eq!(json["jobs"][1]["ref"], "13");
    let asked = controller.join().unwrap();
    let Request::Jobs { filter, fields, .. } = &asked[0] else {
        panic!("{asked:?}")
    };
    assert!(filter.users.is_empty() && !filter.states.is_empty());
    // What is shown, and the id: it tells which rows come twice with the next page.
    assert_eq!(fields.len(), 4);
    assert!(fields.contains(&JobField::Id));
    let Request::Jobs { filter, .. } = &asked[1] else {
        panic!("{asked:?}")
    };
    assert_eq!(filter.users, ["ann"]);
}

#[test]
fn tables_that_do_not_add_up() {
    let sandbox = Sandbox::new();
    let mut bad = table();
    bad.rows = 1_000_000;
    let controller = sandbox.controller(vec![Reply::Jobs(bad)]);
    assert_one_line_error(&sandbox.run(&["cstat"]), 1, "does not fit the request");
    controller.join().unwrap();
}

#[test]
fn one_job_whole() {
    let sandbox = Sandbox::new();
    let mut one = table();
    one.columns = one
        .columns
        .into_iter()
        .map(|c| match c {
            Column::Texts(t) => Column::Texts(t[..1].to_vec()),
            other => other,
        })
        .collect();
    one.rows = 1;
    let explained = || Reply::Explained {
        table: one.clone(),
        lines: vec!["It waits for job 11.".into()],
    };
    let missing = Reply::Refused(Refusal::new(RefusalCode::NotFound, "there is no job 99"));
    let controller = sandbox.controller(vec![explained(), missing, explained()]);
    let got = sandbox.run(&["cstat", "12", "99"]);
    assert_eq!(got.out, "ref    12\nstate  running\nname   a\nIt waits for job 11.\n");
    assert_one_line_error(&got, 1, "there is no job 99");
    let got = sandbox.run(&["cstat", "job", "12", "--json"]);
    assert!(got.out.contains("\"explanation\": [\n"), "{got:?}");
    controller.join().unwrap();
}

#[test]
fn cancel_and_change() {
    let sandbox = Sandbox::new();
    let refused = Reply::Done {
        changed: 1,
        refused: vec![("job 13".into(), Refusal::new(RefusalCode::WrongState, "has ended"))],
    };
    let controller = sandbox.controller(vec![done(), refused, done(), done()]);
    let got = sandbox.run(&["ccancel", "12_[3-4]", "--signal", "usr1"]);
    assert_eq!((got.code, &*got.out, &*got.error), (0, "", ""));
    assert_one_line_error(&sandbox.run(&["ccancel", "12,13"]), 1, "job 13: has ended");
    assert_eq!(sandbox.run(&["cosy", "hold", "12"]).code, 0);
    let drained = sandbox.run(&["cadm", "node", "drain", "n[1-2]", "x", "--reason", "fan"]);
    assert_eq!(drained.code, 0);
    let asked = controller.join().unwrap();
    let Request::Cancel { filter, signal, .. } = &asked[0] else {
        panic!("{asked:?}")
    };
    let task = |n| JobRef {
        job: JobId(12),
        task: Some(n),
    };
    assert_eq!((&*filter.ids, *signal), (&[task(3), task(4)][..], Some(10)));
    let nodes = ["n1", "n2", "x"].map(str::to_owned).to_vec();
    let action = NodeAction::Drain {
        reason: "fan".into(),
    };
    assert_eq!(asked[3], Request::NodeControl { nodes, action });
}

#[test]
fn readers_that_go_away() {
    let sandbox = Sandbox::new();
    let none = Reply::Reservations(Vec::new());
    let controller = sandbox.controller(vec![Reply::Jobs(table()), none]);
    let mut command = sandbox.command(&["cstat"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let got = command
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!((got.status.code(), &*got.stderr), (Some(141), &b""[..]));
    controller.join().unwrap();
}

#[test]
fn a_folder_that_is_gone() {
    let sandbox = Sandbox::new();
    let gone = sandbox.path("gone");
    fs::create_dir(&gone).unwrap();
    let bin = sandbox.path("bin/csub");
    let line = format!("cd {} && rmdir . ../gone; {} -- x", gone.display(), bin.display());
    let out = Command::new("sh").args(["-c", &line]).output().unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(error.contains("use --chdir"), "{error}");
    assert!(Path::new(&bin).exists());
}

#[test]
fn accounts() {
    let sandbox = Sandbox::new();
    let refused = Reply::Refused(Refusal::new(
        RefusalCode::Forbidden,
        "only administrators may make accounts",
    ));
    let account = AccountInfo {
        name: "physics".into(),
        budget: true,
        granted: Su::whole(100),
        available: Su::whole(100),
        ..AccountInfo::default()
    };
    let entry = |seq| LedgerEntry {
        seq,
        at: Time(0),
        from: "grants".into(),
        to: "physics".into(),
        sum: Su::whole(50),
        reservation: None,
        why: "grant".into(),
        who: "root".into(),
    };
    let controller = sandbox.controller(vec![
        refused,
        done(),
        Reply::Accounts(vec![account]),
        Reply::Ledger(vec![entry(4), entry(6)]),
        Reply::Ledger(Vec::new()),
    ]);
    let create = ["cadm", "account", "create", "physics", "--budget", "50"];
    assert_one_line_error(&sandbox.run(&create), 1, "only administrators");
    let grant = sandbox.run(&["cadm", "account", "grant", "physics", "50"]);
    assert_eq!((grant.code, &*grant.out, &*grant.error), (0, "", ""));
    let list = sandbox.run(&["cadm", "account", "list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!(json["accounts"][0]["available"], 100);
    let ledger = sandbox.run(&[
        "cadm",
        "account",
        "ledger",
        "--account",
        "physics",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&ledger.out).unwrap();
    assert_eq!(json["ledger"][1]["seq"], 6);
    let asked = controller.join().unwrap();
    let after = |request: &Request| match request {
        Request::Ledger { after, .. } => Some(*after),
        _ => None,
    };
    assert_eq!((after(&asked[3]), after(&asked[4])), (Some(0), Some(6)));
}
