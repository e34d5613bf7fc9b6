//! Starting, joining, reloading, stopping: configuration faults, tokens, one controller
//! for each state directory, jobs that go on.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobState;
use cosy_tests::daemon::Daemon;
use cosy_tests::run::run_with;
use cosy_tests::{Cluster, Options, Output, programs, run, script, system, wait};
use nix::sys::signal::Signal;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

/// A cluster whose second node is in the configuration but has no key there.
fn with_a_place() -> Cluster {
    let mut c = Cluster::prepare(1, Options::default());
    let file = c.dir().join("cosy.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("[[queue]]", "[[node]]\nnames = \"n[2-3]\"\n[[queue]]");
    fs::write(&file, text.replace("nodes = \"n1\"", "nodes = \"n[1-3]\"")).unwrap();
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    c
}

fn token(c: &Cluster, words: &[&str]) -> String {
    let mut all = vec!["cadm", "node", "token"];
    all.extend(words);
    let out = c.run(&all).expect(0).out;
    // The token is the longest word of what is printed.
    let words = out.split_whitespace().max_by_key(|w| w.len());
    words.unwrap().to_owned()
}

fn new_config(c: &Cluster, name: &str) -> PathBuf {
    c.dir().join(format!("{name}.toml"))
}

fn join(c: &Cluster, token: &str, name: &str) -> Output {
    run_with(&mut join_command(c, name, &["--token", "-"]), token.as_bytes())
}

fn join_command(c: &Cluster, name: &str, words: &[&str]) -> Command {
    let path = |end: &str| c.dir().join(format!("{name}.{end}"));
    let mut command = Command::new(programs::folder().join("noded"));
    command
        .args(["join", "--controller", &c.address(), "--name", name])
        .args(words)
        .arg("--config")
        .arg(new_config(c, name))
        .arg("--key")
        .arg(path("key"))
        .arg("--spool-dir")
        .arg(path("spool"));
    command
}

/// What has joined runs jobs of the tests, which may be root's.
fn allow_root(c: &Cluster, name: &str) {
    let file = new_config(c, name);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}allow_root = true\nlisten = \"127.0.0.1:0\"\n")).unwrap();
}

#[test]
fn a_node_joins_with_a_token() {
    let mut c = with_a_place();
    let token = token(&c, &["n2"]);
    join(&c, &token, "n2").expect(0);
    allow_root(&c, "n2");
    let log = c.dir().join("log/n2");
    let mut daemon = Daemon::new(&programs::folder().join("noded"), &new_config(&c, "n2"), &log);
    daemon.start(c.lifeline().as_fd());
    daemon.await_ready();
    let mut submission = script(&c.work(), "echo $COSY_NODENAME > seen");
    submission.spec.request.require = vec!["n2".into()];
    let job = c.submit(&submission);
    assert_eq!(c.until_end(job).state, JobState::Completed, "{}", daemon.log());
    assert_eq!(fs::read_to_string(c.work().join("seen")).unwrap(), "n2\n");
    // The key that joined is still known after a restart; the token is used up.
    c.cosyd.kill();
    c.start_cosyd();
    let job = c.submit(&submission);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    fs::remove_file(new_config(&c, "n2")).unwrap();
    let _ = fs::remove_file(c.dir().join("n2.key"));
    let again = join(&c, &token, "n2");
    assert_ne!(again.code, 0, "used already: {again:?}");
    let told = "a host at 127.0.0.1 that would be node 'n2' was refused: the token is not known";
    assert!(c.cosyd.log().contains(told), "{}", c.cosyd.log());
    assert!(!new_config(&c, "n2").exists());
    daemon.kill();
}

#[test]
fn where_a_token_may_stand() {
    let c = with_a_place();
    let [file, command_line] = ["n2", "n3"].map(|name| token(&c, &[name]));
    let path = c.dir().join("token");
    fs::write(&path, format!("{file}\n")).unwrap();
    let words = ["--token-file", path.to_str().unwrap()];
    let out = run::run(&mut join_command(&c, "n2", &words)).expect(0);
    assert_eq!(out.err, "");
    // Still taken where every user can read it, with a word about that.
    let words = ["--token", &command_line];
    let out = run::run(&mut join_command(&c, "n3", &words)).expect(0);
    assert!(out.err.contains("--token-file"), "{out:?}");
    let both = ["--token", "-", "--token-file", "x"];
    assert_eq!(run::run(&mut join_command(&c, "n3", &both)).code, 2);
    assert_eq!(run::run(&mut join_command(&c, "n3", &[])).code, 2);
    let nowhere = ["--token-file", "/nosuch/token"];
    let out = run::run(&mut join_command(&c, "n3", &nowhere));
    assert!(out.code == 1 && out.err.contains("/nosuch/token"), "{out:?}");
}

#[test]
fn a_revoked_node_joins_anew() {
    let mut c = with_a_place();
    join(&c, &token(&c, &["n2"]), "n2").expect(0);
    allow_root(&c, "n2");
    let mut daemon = Daemon::new(
        &programs::folder().join("noded"),
        &new_config(&c, "n2"),
        &c.dir().join("log/n2"),
    );
    daemon.start(c.lifeline().as_fd());
    daemon.await_ready();
    let mut submission = script(&c.work(), "while ! [ -e go ]; do sleep 0.05; done");
    submission.spec.request.require = vec!["n2".into()];
    let job = c.submit(&submission);
    c.until_state(job, JobState::Running);
    c.run(&["cadm", "node", "revoke", "n2", "-r", "stolen"])
        .expect(0);
    let node = c.until_node("n2", "revoked", |n| n.state == "down");
    assert!(node.reason.contains("stolen"), "{node:?}");
    wait::until_true("it is told", || daemon.log().contains("was revoked"));
    assert_ne!(c.row(job).state, JobState::Running, "given up");
    assert!(c.run(&["cadm", "events"]).expect(0).out.contains("revoked"));
    daemon.kill();
    fs::write(c.work().join("go"), "").unwrap();
    // Not with the old key, not with a token, not after a restart of the controller.
    fs::remove_file(new_config(&c, "n2")).unwrap();
    let again = join(&c, &token(&c, &["n2"]), "n2");
    assert!(again.code == 1 && again.err.contains("was revoked"), "{again:?}");
    c.cosyd.kill();
    c.start_cosyd();
    let again = join(&c, &token(&c, &["n2"]), "n2");
    assert!(again.code == 1 && again.err.contains("was revoked"), "{again:?}");
    fs::remove_file(c.dir().join("n2.key")).unwrap();
    join(&c, &token(&c, &["n2"]), "n2").expect(0);
    allow_root(&c, "n2");
    daemon.start(c.lifeline().as_fd());
    daemon.await_ready();
    c.run(&["cadm", "node", "resume", "n2"]).expect(0);
    let job = c.submit(&submission);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    daemon.kill();
}

#[test]
fn tokens_that_are_no_good() {
    let c = with_a_place();
    let good = token(&c, &["n2"]);
    let refused = |token: &str, name: &str| {
        let output = join(&c, token, name);
        assert_ne!(output.code, 0, "{token} {name}: {output:?}");
        assert_eq!(output.err.trim().lines().count(), 1, "{output:?}");
        assert!(!new_config(&c, name).exists(), "nothing was written");
    };
    refused(&good, "n3");
    refused(&good, "n9");
    refused("", "n2");
    refused("nonsense", "n2");
    let mut other = good.clone();
    let last = other.pop().unwrap();
    other.push(if last == '0' { '1' } else { '0' });
    refused(&other, "n2");
    let short = token(&c, &["n3", "--valid", "1s"]);
    let made = std::time::Instant::now();
    wait::until_true("the token has expired", || made.elapsed().as_millis() > 1500);
    refused(&short, "n3");
    c.run(&["cadm", "node", "token", "n9"]).expect_refusal("n9");
    join(&c, &good, "n2").expect(0);
}

#[test]
fn reload_adds_a_node_and_a_queue() {
    let mut c = Cluster::start(1, Options::default());
    let job = c.submit(&script(&c.work(), "while ! [ -e go ]; do sleep 0.05; done; exit 3"));
    c.until_state(job, JobState::Running);
    c.grow();
    let file = c.dir().join("cosy.toml");
    let mut text = fs::read_to_string(&file).unwrap();
    text.push_str("[[queue]]\nname = \"extra\"\nnodes = \"n2\"\npriority = 5\n");
    fs::write(&file, &text).unwrap();
    c.cosyd.signal(Signal::SIGHUP);
    c.start_noded(1);
    c.nodes[1].await_ready();
    c.run(&["csub", "--wait", "-Q", "-q", "extra", "--", "true"])
        .expect(0);
    assert_eq!(c.row(job).state, JobState::Running, "not touched");
    // A fault keeps the old configuration.
    fs::write(&file, format!("{text}\n[[queue]]\nname = \"bad\"\nnoodles = 1\n")).unwrap();
    c.cosyd.signal(Signal::SIGHUP);
    wait::until_true("the fault is told", || c.cosyd.log().contains("noodles"));
    c.run(&["cadm", "reload"]).expect_refusal("noodles");
    c.run(&["csub", "-q", "bad", "--", "true"])
        .expect_refusal("bad");
    c.run(&["csub", "--wait", "-Q", "-q", "extra", "--", "true"])
        .expect(0);
    fs::write(&file, &text).unwrap();
    c.run(&["cadm", "reload"]).expect(0);
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(job).outcome(), (JobState::Failed, 3));
}

/// What waits for a restart is said; the rest is taken over, the cluster's name too.
#[test]
fn reload_says_what_waits_for_a_restart() {
    let c = Cluster::start(1, Options::default());
    let file = c.dir().join("cosy.toml");
    let text = fs::read_to_string(&file).unwrap();
    let name = text.lines().find(|l| l.starts_with("name = ")).unwrap();
    let changed = text.replacen(name, "name = \"renamed\"", 1).replacen(
        "[controller]\n",
        "[controller]\nconnections_per_user = 77\n",
        1,
    );
    assert_ne!(text, changed);
    fs::write(&file, &changed).unwrap();
    let out = c.run(&["cadm", "reload"]).expect(0);
    assert!(out.err.contains("connections_per_user") && out.err.contains("restarted"), "{out:?}");
    assert_eq!(out.err.lines().count(), 1, "the name is taken over: {out:?}");
    wait::until_true("the name is the new one", || {
        c.run(&["cadm", "ping"]).out.contains("renamed")
    });
    c.cosyd.signal(Signal::SIGHUP);
    wait::until_true("it is in the log too", || {
        c.cosyd.log().contains("connections_per_user has changed")
    });
    fs::write(&file, &text).unwrap();
    assert_eq!(c.run(&["cadm", "reload"]).expect(0).err, "");
}

#[test]
fn check_names_every_fault_with_its_line() {
    let c = Cluster::prepare(1, Options::default());
    let check = |program: &str, file: &PathBuf| {
        run::run(
            Command::new(programs::folder().join(program))
                .arg("--check")
                .arg("--config")
                .arg(file),
        )
    };
    let (cosy, node) = (c.dir().join("cosy.toml"), c.node_dir(0).join("noded.toml"));
    check("cosyd", &cosy).expect(0);
    check("noded", &node).expect(0);
    let faults = |program: &str, file: &PathBuf, text: &str, lines: &[usize]| {
        fs::write(file, text).unwrap();
        let output = check(program, file);
        assert_eq!(output.code, 1, "{output:?}");
        for line in lines {
            let place = format!("{}:{line}", file.display());
            assert!(output.err.contains(&place), "{place} is not named: {}", output.err);
        }
    };
    let good = fs::read_to_string(&cosy).unwrap();
    let base = good.trim_end().lines().count();
    let bad = "[[queue]]\nname = \"x\"\nnodes = \"n7\"\nmax_time = \"soon\"\nshape = \"round\"\n";
    let text = format!("{}\n{bad}", good.trim_end());
    faults("cosyd", &cosy, &text, &[base + 3, base + 4, base + 5]);
    faults("cosyd", &cosy, "[cluster\n", &[1]);
    let good = fs::read_to_string(&node).unwrap();
    let base = good.trim_end().lines().count();
    let text = format!("{}\nhook_timeout = \"soon\"\nshape = 1\n", good.trim_end());
    faults("noded", &node, &text, &[base + 1, base + 2]);
    let missing = check("cosyd", &c.dir().join("nowhere.toml"));
    assert!(missing.code == 1 && missing.err.contains("nowhere"), "{missing:?}");
}

#[test]
fn one_controller_for_each_state_directory() {
    let c = Cluster::start(1, Options::default());
    let file = c.dir().join("second.toml");
    let text = fs::read_to_string(c.dir().join("cosy.toml")).unwrap();
    let text = text.replace("run/cosyd.sock", "run/second.sock");
    fs::write(&file, text.replace(&c.address(), "127.0.0.1:0")).unwrap();
    let mut command = Command::new(programs::folder().join("cosyd"));
    let output = run::run(command.arg("--config").arg(&file));
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("another controller"), "{output:?}");
    c.run(&["csub", "--wait", "-Q", "--", "true"]).expect(0);
}

#[test]
fn one_daemon_for_each_spool() {
    let c = Cluster::start(1, Options::default());
    let mut command = Command::new(programs::folder().join("noded"));
    let output = run::run(
        command
            .arg("--config")
            .arg(c.node_dir(0).join("noded.toml")),
    );
    assert_ne!(output.code, 0, "{output:?}");
    c.run(&["csub", "--wait", "-Q", "--", "true"]).expect(0);
}

#[test]
fn sigterm_is_clean_and_jobs_go_on() {
    let mut c = Cluster::start(1, Options::default());
    let text = "echo $$ > pid.new; mv pid.new pid\nwhile ! [ -e go ]; do sleep 0.05; done; exit 8";
    let job = c.submit(&script(&c.work(), text));
    let pid = wait::until("it runs", || fs::read_to_string(c.work().join("pid")).ok());
    let pid: i32 = pid.trim().parse().unwrap();
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
    assert!(!c.socket().exists(), "the socket is taken away");
    c.nodes[0].signal(Signal::SIGTERM);
    assert!(c.nodes[0].await_end().success());
    assert!(system::is_alive(pid), "the job goes on");
    let orphan = c.run(&["cstat"]);
    assert_eq!(orphan.code, 3, "no controller: {orphan:?}");
    assert_eq!(orphan.err.lines().count(), 1, "{orphan:?}");
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    assert!(system::is_alive(pid));
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(job).outcome(), (JobState::Failed, 8));
}

#[test]
fn resources_are_detected() {
    let mut c = Cluster::prepare(1, Options::default());
    let file = c.node_dir(0).join("noded.toml");
    let text = fs::read_to_string(&file).unwrap();
    let kept = text
        .lines()
        .filter(|l| !l.starts_with("cores") && !l.starts_with("memory"));
    fs::write(&file, kept.collect::<Vec<_>>().join("\n")).unwrap();
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    let node = c.until_node("n1", "idle", |n| n.state == "idle");
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(node.amounts.cores as usize, cores);
    assert!(node.amounts.memory.0 > 100, "{node:?}");
}

/// systemd's side of the readiness protocol.
#[test]
fn readiness_towards_systemd() {
    let mut c = Cluster::prepare(1, Options::default());
    let path = c.dir().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(wait::PATIENCE)).unwrap();
    c.cosyd.variables = vec![
        ("NOTIFY_SOCKET".into(), path.display().to_string()),
        ("WATCHDOG_USEC".into(), "600000".into()),
    ];
    c.start_cosyd();
    let mut said = String::new();
    while !(said.contains("READY=1") && said.contains("WATCHDOG=1")) {
        let mut buffer = [0; 4096];
        let n = socket.recv(&mut buffer).unwrap();
        said.push_str(&String::from_utf8_lossy(&buffer[..n]));
        said.push('\n');
    }
}
