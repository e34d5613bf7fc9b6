//! `cosy dev` with daemons that only pretend: shell scripts that say that they are ready
//! and live until the lifeline ends. What is tested is starting, stopping, and that
//! nothing is left whoever is killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DAEMON: &str = r#"#!/bin/bash
while [ $# -gt 0 ]; do
    case $1 in
        --config) config=$2; shift ;;
        --lifeline-fd) life=$2; shift ;;
        --ready-fd) ready=$2; shift ;;
    esac
    shift
done
dir=$(dirname "$config")
case $0 in */cosyd) echo 127.0.0.1:1 > "$dir/state/listen.addr" ;; esac
eval "echo ready >&$ready"
eval "exec cat <&$life >/dev/null"
"#;

/// A folder with the program and daemons, and one for temporary files.
struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    fn new(cosyd: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::create_dir(root.path().join("tmp")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_cosy"), bin.join("cosy"))
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_cosy"), bin.join("cosy")).map(drop))
            .unwrap();
        for (name, text) in [("cosyd", cosyd), ("noded", DAEMON)] {
            fs::write(bin.join(name), text).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { root }
    }

    fn tmp(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    fn dev(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.root.path().join("bin/cosy"));
        command
            .args(["dev", "-q"])
            .args(args)
            .env("TMPDIR", self.tmp())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let out = self.dev(args).output().unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    }

    /// Starts one whose command prints a line and then stays; gives that line.
    fn start(&self, script: &str) -> (Child, String) {
        let mut child = self
            .dev(&["--nodes", "2", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        (child, line.trim().to_owned())
    }

    /// Processes whose environment or command line names this bench.
    fn processes(&self) -> Vec<String> {
        let mark = self.root.path().to_str().unwrap().to_owned();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_str().unwrap_or("").parse::<u32>() else {
                continue;
            };
            let part = |name: &str| {
                let mut bytes = Vec::new();
                let file = fs::File::open(format!("/proc/{pid}/{name}"));
                let _ = file.and_then(|mut f| f.read_to_end(&mut bytes));
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let line = part("cmdline");
            let zombie = line.is_empty();
            if !zombie && (line.contains(&mark) || part("environ").contains(&mark)) {
                found.push(format!("{pid} {line}"));
            }
        }
        found
    }

    fn expect_nothing_left(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let processes = self.processes();
            let files = fs::read_dir(self.tmp()).unwrap().count();
            if processes.is_empty() && files == 0 {
                return;
            }
            assert!(Instant::now() < until, "left: {processes:?}, {files} files");
            std::thread::yield_now();
        }
    }
}

fn kill(pid: &str, signal: &str) {
    let done = Command::new("kill").args([signal, pid]).status().unwrap();
    assert!(done.success());
}

#[test]
fn exit_codes() {
    let sandbox = Sandbox::new(DAEMON);
    let check = |command: &[&str], want: i32, words: &str| {
        let (code, _, error) = sandbox.run(&[&["--"], command].concat());
        assert_eq!(code, Some(want), "{command:?}: {error}");
        assert!(error.contains(words), "{command:?}: {error}");
        assert!(error.lines().count() <= 1, "{error}");
        sandbox.expect_nothing_left();
    };
    check(&["true"], 0, "");
    check(&["sh", "-c", "exit 7"], 7, "");
    check(&["sh", "-c", "kill -9 $$"], 137, "");
    check(&["no-such-command"], 127, "cannot run 'no-such-command'");
    check(&["/dev/null"], 126, "cannot run");
}

#[test]
fn what_the_command_sees() {
    let sandbox = Sandbox::new(DAEMON);
    let script = "command -v csub; command -v noded; echo $COSY_SOCKET; ls $COSY_DEV_DIR; \
                  cat $COSY_DEV_DIR/node2/noded.toml; ls /proc/self/fd";
    let (code, out, error) = sandbox.run(&[
        "--nodes", "2", "--cores", "3", "--memory", "1G", "--", "sh", "-c", script,
    ]);
    assert_eq!(code, Some(0), "{error}");
    let dir = sandbox.tmp().join("cosy-dev-");
    for want in [
        &format!("{}", dir.display()),
        "/bin/csub",
        "/bin/noded",
        "/run/cosyd.sock",
        "node2",
        "cores = 3",
        "memory = \"1024M\"",
        "controller = \"127.0.0.1:1\"",
    ] {
        assert!(out.contains(want), "{want}: {out}");
    }
    // The same open files as without `cosy dev`: none of ours.
    let plain = Command::new("sh")
        .args(["-c", "ls /proc/self/fd"])
        .stdin(Stdio::null())
        .output();
    let plain = String::from_utf8(plain.unwrap().stdout).unwrap();
    assert!(out.ends_with(&plain), "{out} {plain}");
}

#[test]
fn keep_and_dir() {
    let sandbox = Sandbox::new(DAEMON);
    let dir = sandbox.tmp().join("here");
    let dir = dir.to_str().unwrap();
    assert_eq!(sandbox.run(&["--dir", dir, "--keep", "--", "true"]).0, Some(0));
    assert!(Path::new(dir).join("cosy.toml").exists());
    let (code, _, error) = sandbox.run(&["--dir", dir, "--", "true"]);
    assert_eq!(code, Some(125));
    assert!(error.contains("not empty"), "{error}");
    fs::remove_dir_all(dir).unwrap();
    assert_eq!(sandbox.run(&["--dir", dir, "--", "true"]).0, Some(0));
    sandbox.expect_nothing_left();
}

#[test]
fn daemons_that_fail() {
    let sandbox = Sandbox::new("#!/bin/sh\necho 'no way' >&2\nexit 1\n");
    let (code, _, error) = sandbox.run(&["--", "true"]);
    assert_eq!(code, Some(125));
    assert!(error.contains("cosyd ended: no way"), "{error}");
    sandbox.expect_nothing_left();
}

#[test]
fn front_killed() {
    let sandbox = Sandbox::new(DAEMON);
    // The command ignores what can be ignored and leaves a child in another session.
    let script = "trap '' TERM HUP INT; setsid sleep 1000 & echo up; while :; do sleep 1000; done";
    let (mut front, line) = sandbox.start(script);
    assert_eq!(line, "up");
    assert!(sandbox.processes().len() >= 5);
    front.kill().unwrap();
    front.wait().unwrap();
    sandbox.expect_nothing_left();
}

#[test]
fn supervisor_killed() {
    let sandbox = Sandbox::new(DAEMON);
    let (mut front, supervisor) = sandbox.start("echo $PPID; exec sleep 1000");
    kill(&supervisor, "-9");
    assert_eq!(front.wait().unwrap().code(), Some(125));
    sandbox.expect_nothing_left();
}

#[test]
fn both_killed_and_swept() {
    let sandbox = Sandbox::new(DAEMON);
    let (mut front, supervisor) = sandbox.start("echo $PPID; exec sleep 1000");
    // Stopped first, so that it has cleaned up little when it is killed (the kernel lets
    // it go on when its process group loses the front).
    kill(&supervisor, "-STOP");
    front.kill().unwrap();
    front.wait().unwrap();
    kill(&supervisor, "-9");
    let until = Instant::now() + Duration::from_secs(30);
    // The daemons end with the lifeline; COMMAND is nobody's child any more.
    while sandbox.processes().iter().any(|p| p.contains("noded")) {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    for left in sandbox.processes() {
        kill(left.split(' ').next().unwrap(), "-9");
    }
    // Dying processes hold the lock a moment longer: the first sweep may be too early.
    while fs::read_dir(sandbox.tmp()).unwrap().count() > 0 {
        assert!(Instant::now() < until);
        assert_eq!(sandbox.run(&["--", "true"]).0, Some(0));
    }
    sandbox.expect_nothing_left();
}

#[test]
fn told_to_end() {
    let sandbox = Sandbox::new(DAEMON);
    let (mut front, _) = sandbox.start("trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done");
    kill(&front.id().to_string(), "-TERM");
    assert_eq!(front.wait().unwrap().code(), Some(9));
    sandbox.expect_nothing_left();
}

#[test]
fn many_side_by_side() {
    let sandbox = Sandbox::new(DAEMON);
    let all: Vec<Child> = (0..5)
        .map(|at| {
            sandbox
                .dev(&["--", "sh", "-c", &format!("exit {at}")])
                .spawn()
                .unwrap()
        })
        .collect();
    for (at, mut child) in all.into_iter().enumerate() {
        assert_eq!(child.wait().unwrap().code(), i32::try_from(at).ok());
    }
    sandbox.expect_nothing_left();
}

#[test]
fn nonsense() {
    let sandbox = Sandbox::new(DAEMON);
    let check = |args: &[&str], code: i32| {
        let (got, _, error) = sandbox.run(args);
        assert_eq!(got, Some(code), "{args:?} {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    check(&["--nodes", "x"], 2);
    check(&["--nodes", "0"], 125);
    check(&["--memory", "lots"], 2);
    check(&["--config", "/no/such/file"], 125);
    check(&["--dir", "/no/such/dir", "--", "true"], 125);
    sandbox.expect_nothing_left();
}
