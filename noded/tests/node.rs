//! What a node does around jobs: identity, tickets, hooks, commands, virtual nodes.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::node::*;
use cosy_model::{EndCause, Gid, OsText, Span, Uid};
use cosy_proto::client::ReplyFrame;
use cosy_proto::frame;
use cosy_proto::keys::JoinToken;
use cosy_proto::link::{Hello, HelloReply};
use nix::libc;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn executable(bench: &Bench, name: &str, text: &str) -> String {
    let path = bench.path(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_job_runs_as_its_user() {
    let mut bench = Bench::started();
    if !is_root() {
        return skip("other users' jobs need root");
    }
    let home = bench.path("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(54321), Some(54322)).unwrap();
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut job = bench.raw_job(
        1,
        b"#!/bin/sh\nid -u; id -g; id -G; ulimit -n; stat -c '%a %u' $0; touch /etc/x 2>/dev/null || echo no\n",
    );
    let allocation = &mut job.allocation;
    (allocation.uid, allocation.gid) = (Uid(54321), Gid(54322));
    allocation.groups = vec![Gid(54322), Gid(54323)];
    bench.sign(&mut job.allocation);
    job.workdir = OsText::from(home.to_str().unwrap());
    job.rlimits = [("NOFILE".into(), 77, 99)].into();
    let key = job.allocation.key;
    bench.launch(&job);
    assert_eq!(bench.ended(1).cause, EndCause::Exited);
    let out = home.join("out.1");
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!(text, "54321\n54322\n54322 54323\n77\n500 54321\nno\n");
    let meta = std::fs::metadata(&out).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (54321, 54322));
    let launch = std::fs::metadata(bench.spooled(key).join("launch")).unwrap();
    assert_eq!((launch.uid(), launch.mode() & 0o777), (0, 0o600));
    // A directory that its user may not enter.
    job.allocation.uid = Uid(54399);
    job.allocation.key = AllocationKey::numbered(2, cosy_model::Attempt(1));
    bench.sign(&mut job.allocation);
    let end = bench.run(job);
    let want = format!("cannot enter the working directory {}: Permission denied", home.display());
    assert_eq!(end.cause, EndCause::LaunchFailed(want));
}

#[test]
fn a_login_environment() {
    let mut bench = Bench::started();
    let mut job = bench.job(1, "echo $HOME $USER $X $1");
    job.login_environment = true;
    bench.run(job);
    assert_eq!(bench.output(1), "/ tester 1 one\n");
}

#[test]
fn gpus_are_handed_out() {
    let mut bench = Bench::with("gpus = 4");
    let mut job = bench.job(1, "echo \"[$CUDA_VISIBLE_DEVICES]\"");
    job.allocation.gpus = vec![1, 3];
    bench.run(job);
    assert_eq!(bench.output(1), "[1,3]\n");
    let job = bench.job(2, "echo \"[${CUDA_VISIBLE_DEVICES-unset}]\"");
    bench.run(job);
    assert_eq!(bench.output(2), "[]\n");
}

#[test]
fn no_job_without_a_good_ticket() {
    let mut bench = Bench::started();
    let mut job = bench.job(1, "touch ran");
    job.allocation.ticket.0[3] ^= 1;
    bench.launch(&job);
    let failure = bench.failure(1);
    assert!(failure.reason.contains("not signed"), "{}", failure.reason);
    assert!(!failure.drain);
    let mut job = bench.job(2, "touch ran");
    job.allocation.uid.0 += 1;
    bench.launch(&job);
    assert!(bench.failure(2).reason.contains("another user"));
    if !is_root() {
        bench.sign(&mut job.allocation);
        bench.launch(&job);
        assert!(bench.failure(2).reason.contains("runs only jobs of uid"));
    }
    assert!(!bench.path("ran").exists());
    assert!(!bench.spooled(job.allocation.key).exists());
}

#[test]
fn hooks_run_before_and_after() {
    let mut bench = Bench::new();
    let hook = executable(
        &bench,
        "hook",
        "#!/bin/sh\ncd ${0%/*}\necho $1 $COSY_JOB_ID $COSY_JOB_UID $COSY_JOB_USER >> hooks\n[ \"$1$COSY_JOB_ID\" != epilog2 ]\n",
    );
    bench.extra = format!(
        "prolog = ['{hook}', 'prolog']\nepilog = ['{hook}', 'epilog']\nhealth_check = ['/bin/true']"
    );
    bench.start();
    bench.accept();
    let job = bench.job(1, "echo job 1 >> hooks");
    bench.launch(&job);
    assert_eq!(bench.ended_with_drain(1).1, None);
    let uid = job.allocation.uid;
    let hooks = std::fs::read_to_string(bench.path("hooks")).unwrap();
    assert_eq!(hooks, format!("prolog 1 {uid} tester\njob 1\nepilog 1 {uid} tester\n"));
    let job = bench.job(2, "true");
    bench.launch(&job);
    let drain = bench.ended_with_drain(2).1;
    assert_eq!(drain, Some(format!("epilog {hook} ended with exit code 1")));
    // The reason is not lost with the daemon, and the epilog does not run again.
    bench.daemon().kill();
    bench.start();
    bench.accept();
    assert_eq!(bench.ended_with_drain(2).1, drain);
    let hooks = std::fs::read_to_string(bench.path("hooks")).unwrap();
    assert_eq!(hooks.matches("epilog").count(), 2);
}

#[test]
fn a_prolog_that_fails_drains_the_node() {
    let mut bench = Bench::new();
    let hook = executable(&bench, "hook", "#!/bin/sh\necho disk is broken\nexit 3\n");
    bench.extra = format!("prolog = ['{hook}']");
    bench.start();
    bench.accept();
    let job = bench.job(1, "touch ran");
    bench.launch(&job);
    let failure = bench.failure(1);
    assert_eq!(failure.reason, format!("prolog {hook} ended with exit code 3: disk is broken"));
    assert!(failure.drain);
    assert!(!bench.path("ran").exists());
    bench.launch(&job);
    assert!(bench.failure(1).drain);
    bench.order(NodeOrder::Release {
        key: job.allocation.key,
        node: bench.name.clone(),
    });
    wait_released(&mut bench, 1);
}

fn wait_released(bench: &mut Bench, job: u64) -> Option<String> {
    bench.expect(|r| match r {
        NodeReport::Released { key, drain, .. } if key.number() == job => Some(drain.clone()),
        _ => None,
    })
}

#[test]
fn a_prolog_that_hangs_is_killed() {
    let mut bench = Bench::new();
    let hook = executable(
        &bench,
        "hook",
        "#!/bin/sh\ncd ${0%/*}\necho $$ > hook.$COSY_JOB_ID\nsleep 1000\n",
    );
    bench.extra = format!("prolog = ['{hook}']\nhook_timeout = '1s'");
    bench.start();
    bench.accept();
    let job = bench.job(1, "touch ran");
    bench.launch(&job);
    let failure = bench.failure(1);
    assert_eq!(failure.reason, format!("prolog {hook} took longer than 1 s"));
    wait_gone(pid_in(&bench.path("hook.1")));
    // Or when its job is not wanted any more.
    let job = bench.job(2, "touch ran");
    bench.launch(&job);
    pid_in(&bench.path("hook.2"));
    bench.kill(&job, KillCause::Cancelled);
    assert_eq!(bench.ended(2).cause, EndCause::Cancelled);
    assert!(!bench.path("ran").exists());
}

#[test]
fn health_is_told_when_it_changes() {
    let mut bench = Bench::new();
    let hook = executable(
        &bench,
        "check",
        "#!/bin/sh\ncd ${0%/*}\n[ ! -e broken ] || { echo broken; exit 1; }\n",
    );
    bench.extra = format!("health_check = ['{hook}']\nhealth_interval = '1s'");
    bench.start();
    bench.accept();
    std::fs::write(bench.path("broken"), "").unwrap();
    let problem_of = |r: &NodeReport| match r {
        NodeReport::Health { problem, .. } => Some(problem.clone()),
        _ => None,
    };
    let problem = bench.expect(problem_of).unwrap();
    assert!(problem.ends_with(": broken"), "{problem}");
    std::fs::remove_file(bench.path("broken")).unwrap();
    assert_eq!(bench.expect(problem_of), None);
}

#[test]
fn an_allocation_is_held_and_released() {
    let mut bench = Bench::started();
    let allocation = bench.allocation(1);
    let (key, node) = (allocation.key, bench.name.clone());
    bench.order(NodeOrder::Prepare(Box::new(allocation)));
    bench.expect(|r| matches!(r, NodeReport::Prepared { failure: None, .. }).then_some(()));
    bench.daemon().kill();
    bench.start();
    let (_, inventory) = bench.accept();
    assert_eq!(inventory[0].phase, AttemptPhase::Prepared);
    let job = bench.job(1, "exit 2");
    bench.launch(&job);
    assert_eq!(bench.ended(1).exit_code, 2);
    bench.order(NodeOrder::Release {
        key,
        node: node.clone(),
    });
    wait_released(&mut bench, 1);
    bench.forget(key);
    let allocation = bench.allocation(2);
    let key = allocation.key;
    bench.order(NodeOrder::Prepare(Box::new(allocation)));
    bench.order(NodeOrder::Release {
        key,
        node: node.clone(),
    });
    wait_released(&mut bench, 2);
    bench.order(NodeOrder::Release { key, node });
    wait_released(&mut bench, 2);
    assert!(!bench.spooled(key).exists());
}

#[test]
fn a_node_describes_itself() {
    let mut bench = Bench::new();
    bench.extra = "cores = 3\nmemory = '5G'\nfeatures = ['fast']\nother = { fpga = 2 }".into();
    bench.start();
    let (nodes, _) = bench.accept();
    assert_eq!(nodes.len(), 1);
    let node = &nodes[0];
    assert_eq!((node.amounts.cores, node.amounts.memory.0), (3, 5120));
    assert_eq!(node.amounts.other.get("fpga"), 2);
    assert!(node.amounts.disk.0 > 0);
    assert_eq!(node.features, ["fast"]);
    assert_eq!(node.only_uid.is_none(), is_root());
    // A new configuration is told on a new link.
    bench.extra = "cores = 3\nmemory = '5G'\nfeatures = ['slow']".into();
    bench.write_config();
    bench.daemon().signal(libc::SIGHUP);
    let (nodes, _) = bench.accept();
    assert_eq!(nodes[0].features, ["slow"]);
}

#[test]
fn readiness_is_told_once_welcomed() {
    let mut bench = Bench::new();
    let (reading, writing) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let config = bench.write_config();
    let (fd, lifeline) =
        (writing.as_raw_fd(), nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap());
    let lifeline_fd = lifeline.0.as_raw_fd();
    let mut command = Command::new(NODED);
    command
        .arg("--config")
        .arg(config)
        .args(["--ready-fd", "201", "--lifeline-fd", "200"]);
    unsafe {
        command.pre_exec(move || {
            (libc::dup2(fd, 201) == 201 && libc::dup2(lifeline_fd, 200) == 200)
                .then_some(())
                .ok_or_else(std::io::Error::last_os_error)
        });
    }
    let mut child = command.spawn().unwrap();
    drop(writing);
    bench.accept();
    let mut text = String::new();
    std::fs::File::from(reading)
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "ready\n");
    drop(lifeline);
    assert!(child.wait().unwrap().success());
    assert!(!bench.path("spool").exists());
}

#[test]
fn commands_are_passed_on_with_their_identity() {
    let mut bench = Bench::with("socket = 'run/noded.sock'");
    let socket = bench.path("run/noded.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().mode() & 0o777, 0o666);
    let mut command = UnixStream::connect(&socket).unwrap();
    command.write_all(&[3, 0, 0, 0, 9, 8, 7]).unwrap();
    let own = nix::unistd::geteuid().as_raw();
    let connection = bench.expect(|r| match r {
        NodeReport::RelayRequest {
            connection,
            uid,
            frame,
            ..
        } => {
            assert_eq!((uid.0, &frame.0[..]), (own, &[9, 8, 7][..]));
            Some(*connection)
        }
        _ => None,
    });
    let frame = OsText(vec![2, 0, 0, 0, 5, 6]);
    bench.order(NodeOrder::RelayReply { connection, frame });
    let mut answer = [0; 6];
    command.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [2, 0, 0, 0, 5, 6]);
    drop(command);
    bench.expect(|r| {
        matches!(r, NodeReport::RelayClosed { connection: c } if *c == connection).then_some(())
    });
    let job = bench.job(1, "echo $COSY_SOCKET");
    bench.run(job);
    assert_eq!(bench.output(1), format!("{}\n", socket.display()));
}

#[test]
fn hostile_commands_do_no_harm() {
    let mut bench = Bench::with("socket = 's'");
    let socket = bench.path("s");
    let mut seed = 1u32;
    for _ in 0..100 {
        let bytes: Vec<u8> = (0..64)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        let mut command = UnixStream::connect(&socket).unwrap();
        let _ = command.write_all(&bytes);
    }
    // A frame that is too long is refused with a reason.
    let mut command = UnixStream::connect(&socket).unwrap();
    command.write_all(&u32::MAX.to_le_bytes()).unwrap();
    let answer: ReplyFrame = frame::read(&mut command, 1 << 20).unwrap().unwrap();
    assert!(matches!(answer.reply, cosy_model::api::Reply::Refused(_)));
    // So is one connection too many.
    let mut held: Vec<UnixStream> = Vec::new();
    let refused = wait_for("limit", || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream
            .set_read_timeout(Some(std::time::Duration::from_millis(20)))
            .unwrap();
        let answer = frame::read::<ReplyFrame>(&mut stream, 1 << 20)
            .ok()
            .flatten();
        held.push(stream);
        answer
    });
    assert!(matches!(refused.reply, cosy_model::api::Reply::Refused(_)));
    drop(held);
    let job = bench.job(1, "exit 1");
    assert_eq!(bench.run(job).exit_code, 1);
    // Without a controller, commands are told so at once.
    bench.hang_up();
    let mut refusal = None;
    wait_for("refusal", || {
        let mut command = UnixStream::connect(&socket).unwrap();
        command.write_all(&[1, 0, 0, 0, 0x80]).unwrap();
        refusal = frame::read::<ReplyFrame>(&mut command, 1 << 20)
            .ok()
            .flatten();
        refusal.is_some().then_some(())
    });
}

#[test]
fn a_hostile_controller_does_no_harm() {
    let mut bench = Bench::started();
    bench.write_bytes(&[5, 0, 0, 0, 1, 2, 3, 4, 5]);
    bench.accept();
    bench.write_bytes(&u32::MAX.to_le_bytes());
    bench.accept();
    let job = bench.job(1, "exit 1");
    assert_eq!(bench.run(job).exit_code, 1);
}

#[test]
fn virtual_nodes() {
    let mut bench = Bench::new();
    bench.args = vec!["--virtual".into(), "3".into()];
    bench.start();
    let (nodes, _) = bench.accept();
    let names: Vec<_> = nodes.iter().map(|n| n.name.clone()).collect();
    assert_eq!(names, [1, 2, 3].map(|n| format!("{}{n}", bench.name)));
    let virtually = |bench: &Bench, job: u64, environment: &str| {
        let mut launch = bench.raw_job(job, b"");
        launch.environment = environment.into();
        launch.allocation.node = names[1].clone();
        launch.allocation.nodes = names[1].clone();
        bench.sign(&mut launch.allocation);
        launch
    };
    let quick = virtually(&bench, 1, "COSY_VIRTUAL_SECONDS=0.05\0COSY_VIRTUAL_EXIT=4");
    bench.launch(&quick);
    let end = bench.ended(1);
    assert_eq!((end.cause, end.exit_code), (EndCause::Exited, 4));
    let mut limited = virtually(&bench, 2, "COSY_VIRTUAL_SECONDS=100");
    limited.allocation.limit = Span(50);
    bench.launch(&limited);
    assert_eq!(bench.ended(2).cause, EndCause::TimeLimit);
    let long = virtually(&bench, 3, "COSY_VIRTUAL_SECONDS=100");
    bench.launch(&long);
    bench.hang_up();
    let (_, inventory) = bench.accept();
    assert_eq!(inventory.len(), 3);
    bench.kill(&long, KillCause::Cancelled);
    assert_eq!(bench.ended(3).cause, EndCause::Cancelled);
    let mut forged = virtually(&bench, 4, "");
    forged.allocation.ticket.0[0] ^= 1;
    bench.launch(&forged);
    assert!(!bench.failure(4).drain);
}

#[test]
fn users_that_do_not_run_here() {
    if !is_root() {
        return skip("other users' jobs need root");
    }
    let mut bench = Bench::new();
    bench.extra = "min_uid = 54322\n".into();
    bench.start();
    bench.accept();
    let mut refused = |job: u64, uid: u32, groups: &[u32]| {
        let mut launch = bench.job(job, "touch ran");
        launch.allocation.uid = Uid(uid);
        launch.allocation.groups = groups.iter().map(|g| Gid(*g)).collect();
        launch.allocation.gid = launch.allocation.groups[0];
        bench.sign(&mut launch.allocation);
        bench.launch(&launch);
        bench.failure(job)
    };
    let failure = refused(1, 54_321, &[54_321]);
    let (why, name) = (failure.reason, &bench.name);
    assert_eq!(
        why,
        format!("node {name} refuses: uid 54321 is below 'min_uid' (54322) in its noded.toml")
    );
    assert!(!failure.drain, "the job is at fault, not the node");
    assert!(!bench.path("ran").exists());
}

#[test]
fn sockets_where_others_can_put_others() {
    if !is_root() {
        return skip("only root has what others want");
    }
    let mut bench = Bench::new();
    let dir = bench.path("theirs");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(54_321), None).unwrap();
    bench.extra = "socket = 'theirs/noded.sock'\n".into();
    bench.start();
    wait_for("the daemon says why", || {
        let log = bench.log();
        (log.contains("belongs to uid 54321") && log.contains("/run/noded")).then_some(())
    });
    assert!(!dir.join("noded.sock").exists());
}

#[test]
fn a_host_joins() {
    let mut bench = Bench::new();
    let token = JoinToken {
        controller: bench.key.public(),
        secret: cosy_proto::keys::random_hex(16).unwrap(),
    };
    let token_secret = token.secret.clone();
    let mut join = Command::new(NODED)
        .args([
            "join",
            "--controller",
            &bench.address(),
            "--token",
            &token.to_string(),
        ])
        .args(["--name", "new", "--config"])
        .arg(bench.path("joined.toml"))
        .arg("--key")
        .arg(bench.path("keys/new.key"))
        .arg("--spool-dir")
        .arg(bench.path("spool"))
        .spawn()
        .unwrap();
    let (mut stream, hello) = bench.accept_hello();
    match hello {
        Hello::Join { node, token, .. } => {
            assert_eq!((node, token), ("new".to_owned(), token_secret))
        }
        Hello::Node { .. } => panic!("not a new host"),
    }
    let cluster = "lab".into();
    bench.reply(&mut stream, &HelloReply::Joined { cluster });
    assert!(join.wait().unwrap().success());
    let mode = std::fs::metadata(bench.path("keys/new.key"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let config = noded::config::read(&bench.path("joined.toml")).unwrap();
    assert_eq!((&*config.name, config.controller_key), ("new", bench.key.public()));
    assert_eq!(config.controllers, [bench.address()]);
}

#[test]
fn the_command_line_says_what_is_wrong() {
    let bench = Bench::new();
    let run = |args: &[&str]| {
        let output = Command::new(NODED).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let file = bench.write_config();
    let file = file.to_str().unwrap();
    assert_eq!(run(&["--check", "--config", file]).0, Some(0));
    assert_eq!(run(&["--nonsense"]).0, Some(2));
    assert_eq!(run(&["--virtual", "0"]).0, Some(2));
    assert_eq!(run(&["--virtual", "999999999999"]).0, Some(2));
    assert_eq!(run(&["join", "--controller", "x"]).0, Some(2));
    let (code, text) = run(&["--config", "/nosuch.toml"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("/nosuch.toml: No such file"), "{text}");
    std::fs::write(file, "nmae = 'x'\n\ncores = -1\n").unwrap();
    let (code, text) = run(&["--check", "--config", file]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains(":1: unknown field `nmae`")
            && text.contains("did you mean `name`?")
            && text.contains(":3: cores"),
        "{text}"
    );
    assert_eq!(run(&["--config", file, "--lifeline-fd", "99"]).0, Some(1));
    let (code, text) = run(&["join", "--controller", "h:1", "--token", "zz"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("no join token"), "{text}");
    // A nursery without a daemon.
    assert_eq!(run(&["--nursery"]).0, Some(2));
    assert_eq!(run(&["--nursery", "/nosuch"]).0, Some(1));
}
