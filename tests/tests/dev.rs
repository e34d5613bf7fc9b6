//! `cosy dev`: a private cluster for one command, of which nothing is left.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::{programs, run, system, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// `cosy dev` in a directory that does not exist yet.
struct Dev {
    above: tempfile::TempDir,
}

impl Dev {
    fn new() -> Self {
        let above = tempfile::Builder::new().prefix("cosy-e2e-dev-").tempdir();
        Self {
            above: above.unwrap(),
        }
    }

    /// Where root's PostgreSQL server, which runs as nobody, can be, too.
    fn with_open_way() -> Self {
        let dev = Self::new();
        let mode = fs::Permissions::from_mode(0o711);
        fs::set_permissions(dev.above.path(), mode).unwrap();
        dev
    }

    fn dir(&self) -> PathBuf {
        self.above.path().join("cluster")
    }

    fn command(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new(programs::folder().join("cosy"));
        command
            .args(["dev", "--dir"])
            .arg(self.dir())
            .args(options)
            .arg("--")
            .args(words)
            .current_dir(self.above.path());
        command
    }

    fn nothing_is_left(&self) {
        let mark = self.dir().display().to_string();
        wait::until_true("no process is left", || system::processes_with(&mark).is_empty());
        wait::until_true("no file is left", || !self.dir().exists());
    }
}

/// The front's child.
fn supervisor(front: u32) -> i32 {
    let children = format!("/proc/{front}/task/{front}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    let first = children.split_whitespace().next();
    first.expect("the supervisor").parse().unwrap()
}

#[test]
fn exit_codes() {
    let check = |words: &[&str], want| {
        let dev = Dev::new();
        let output = run::run(&mut dev.command(&["--nodes", "2", "-q"], words));
        assert_eq!(output.code, want, "{words:?}: {output:?}");
        dev.nothing_is_left();
    };
    check(&["true"], 0);
    check(&["sh", "-c", "exit 42"], 42);
    check(&["sh", "-c", "kill -TERM $$"], 143);
    check(&["/no/such/program"], 127);
    check(&["/etc/passwd"], 126);
    check(&["sh", "-c", "csub --wait -- sh -c 'exit 9'"], 9);
}

#[test]
fn a_directory_that_is_in_use_is_refused() {
    let dev = Dev::new();
    fs::create_dir(dev.dir()).unwrap();
    fs::write(dev.dir().join("mine"), "precious").unwrap();
    let output = run::run(&mut dev.command(&["-q"], &["true"]));
    assert_eq!(output.code, 125, "{output:?}");
    let text = fs::read_to_string(dev.dir().join("mine"));
    assert_eq!(text.unwrap(), "precious");
}

const MIX: &str = "for i in 1 2 3; do csub --parsable -- sleep 1000; done\n\
    csub --parsable -- sh -c 'setsid sleep 1001 & sleep 1002'\n\
    until [ \"$(cstat --no-header --format id -s running | wc -l)\" = 4 ]; do :; done\n\
    : > $COSY_DEV_DIR/../up\nsleep 1003";

#[test]
fn front_killed_with_9() {
    let dev = Dev::new();
    let mut front = run::spawn(&mut dev.command(&["--nodes", "3", "-c", "4"], &["sh", "-c", MIX]));
    let up = dev.above.path().join("up");
    wait::until_true("jobs run", || up.exists() || front.try_wait().unwrap().is_some());
    assert!(up.exists(), "{:?}", run::finish(front, b"", run::TIMEOUT));
    let mark = dev.dir().display().to_string();
    assert!(system::processes_with(&mark).len() > 8);
    kill(Pid::from_raw(front.id().cast_signed()), Signal::SIGKILL).unwrap();
    front.wait().unwrap();
    let mark = dev.dir().display().to_string();
    wait::until_true("no process is left", || system::processes_with(&mark).is_empty());
    wait::until_true("no directory is left", || !dev.dir().exists());
}

#[test]
fn supervisor_killed_with_9() {
    let dev = Dev::new();
    let mut front = run::spawn(&mut dev.command(&["--nodes", "2", "-c", "8"], &["sh", "-c", MIX]));
    let up = dev.above.path().join("up");
    wait::until_true("jobs run", || up.exists() || front.try_wait().unwrap().is_some());
    kill(Pid::from_raw(supervisor(front.id())), Signal::SIGKILL).unwrap();
    let output = run::finish(front, b"", run::TIMEOUT);
    assert_ne!(output.code, 0, "{output:?}");
    dev.nothing_is_left();
}

#[test]
fn four_side_by_side() {
    let script = "csub --wait -Q -N 2 -- sh -c 'exit 0' && \
        [ \"$(cstat --no-header --format id -E | wc -l)\" = 1 ] && echo alone";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let dev = Dev::new();
                let mut command = dev.command(&["--nodes", "2", "-q"], &["sh", "-c", script]);
                let output = run::run(&mut command).expect(0);
                assert_eq!(output.out, "alone\n", "{output:?}");
                dev.nothing_is_left();
            });
        }
    });
}

#[test]
fn commands_without_environment() {
    let dev = Dev::new();
    let inner = "env -i PATH=/usr/bin:/bin $COSY_DEV_DIR/bin/cstat --no-header --format id > seen";
    let script = format!(
        "csub --wait -- sh -c '{inner}' && cat seen && \
         env -i PATH=/usr/bin:/bin $COSY_DEV_DIR/bin/csub --wait -Q --env NONE -- \
         $COSY_DEV_DIR/bin/cstat --no-header --format ref"
    );
    let output = run::run(&mut dev.command(&["-q"], &["sh", "-c", &script])).expect(0);
    let words: Vec<&str> = output.out.split_whitespace().collect();
    assert_eq!(words.last(), Some(&"1"), "{output:?}");
    let log = fs::read_to_string(dev.above.path().join("cosy-2.out")).unwrap();
    assert_eq!(log.trim(), "2");
    dev.nothing_is_left();
}

#[test]
fn kept_directory() {
    let dev = Dev::new();
    run::run(&mut dev.command(&["--keep", "-q"], &["csub", "--wait", "-Q", "--", "true"]))
        .expect(0);
    assert!(dev.dir().join("state/cosy.db").exists());
    assert!(dev.dir().join("log/cosyd.log").exists());
    let mark = dev.dir().display().to_string();
    wait::until_true("no process is left", || system::processes_with(&mark).is_empty());
}

#[test]
fn virtual_nodes() {
    let dev = Dev::new();
    let script = "csub --wait -Q -N 500 --env COSY_VIRTUAL_SECONDS=0 -- true && \
        cstat nodes --no-header | wc -l";
    let output = run::run(&mut dev.command(&["--virtual", "500", "-q"], &["sh", "-c", script]));
    let output = output.expect(0);
    assert!(output.out.trim().parse::<u32>().is_ok_and(|n| n >= 500), "{output:?}");
    dev.nothing_is_left();
}

/// A controller that is killed and started again by hand listens where it did: the nodes
/// find it, and what was acknowledged is there.
#[test]
fn a_controller_started_again_by_hand() {
    let dev = Dev::new();
    let script = "job=$(csub --parsable -- sh -c 'until [ -e go ]; do sleep 0.1; done')\n\
        pid=$(pgrep -f \"^[^ ]*cosyd --config $COSY_DEV_DIR/cosy.toml\") && kill -9 $pid\n\
        cosyd=$(dirname \"$(readlink -f \"$COSY_DEV_DIR/bin/cosy\")\")/cosyd\n\
        \"$cosyd\" --config $COSY_DEV_DIR/cosy.toml > again.log 2>&1 & again=$!\n\
        : > go\n\
        until cstat \"$job\" > state 2>&1; do sleep 0.1; done\n\
        csub --wait -Q -- true; code=$?\n\
        until chist --no-header --format state \"$job\" | grep .; do sleep 0.1; done\n\
        kill $again; wait $again; exit $code";
    let output = run::run(&mut dev.command(&["-N", "2", "-q"], &["sh", "-c", script])).expect(0);
    assert_eq!(output.out.trim(), "completed", "{output:?}");
    dev.nothing_is_left();
}

/// With `--as-user` commands have no administrator's rights, and the rules hold: of two nodes that
/// are alike a user may book one.
#[test]
fn as_an_ordinary_user() {
    let dev = Dev::new();
    let script = "cadm node drain n1; echo drain $?\n\
        COSY_AS_USER= cadm node drain n1; echo admin $?\n\
        COSY_AS_USER= cadm node resume n1\n\
        cresv book -N 2 --exclusive -t 1h --at now+10m; echo two $?\n\
        cresv book -N 1 --exclusive -t 1h --at now+10m; echo one $?";
    let options = ["-N", "2", "-c", "4", "--as-user", "-q"];
    let output = run::run(&mut dev.command(&options, &["sh", "-c", script])).expect(0);
    for told in ["drain 1", "admin 0", "two 1", "one 0"] {
        assert!(output.out.lines().any(|l| l == told), "{told}: {output:?}");
    }
    assert!(output.err.contains("COSY_AS_USER"), "{output:?}");
    assert!(output.err.contains("which is one whole node"), "{output:?}");
    dev.nothing_is_left();
}

/// The first commands of the user's guide are taken by the cluster that it opens, however small
/// this machine is.
#[test]
fn the_guides_first_commands() {
    let guide = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/user-guide.md");
    let guide = fs::read_to_string(guide).unwrap();
    let opens = guide.split("`cosy dev ").nth(1).unwrap();
    let options: Vec<&str> = opens.split('`').next().unwrap().split(' ').collect();
    let block = guide.split("```sh\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    assert!(block.lines().count() >= 3 && block.contains("csub"), "{block}");
    let dev = Dev::new();
    fs::write(dev.above.path().join("job.sh"), "#!/bin/sh\ntrue\n").unwrap();
    let options: Vec<&str> = options.into_iter().chain(["-q"]).collect();
    run::run(&mut dev.command(&options, &["sh", "-e", "-c", block])).expect(0);
    dev.nothing_is_left();
}

/// `make demo`: what it runs is as it should be, and it says what to do next.
#[test]
fn the_demo() {
    let demo = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../demo/demo.sh");
    let dev = Dev::new();
    let options = ["-N", "4", "-c", "2", "-q"];
    let output = run::run(&mut dev.command(&options, &[demo.to_str().unwrap()])).expect(0);
    for told in [
        "price in SU, by start",
        "The pick: ",
        "Booked reservation 1 \"mine\"",
        "Workflow 1 completed at ",
        "as it should be: sum of the workflow: 42",
        "what to try next:",
    ] {
        assert!(output.out.contains(told), "{told}: {output:?}");
    }
    dev.nothing_is_left();
}

/// Of two controllers the one that leads is killed while a job runs: the other one goes on, and the
/// first is started again and stands by.
#[test]
fn two_controllers_and_a_takeover() {
    if !system::postgres_or_skip() {
        return;
    }
    let script = "job=$(csub --parsable -- sh -c 'until [ -e go ]; do sleep 0.1; done')\n\
        until cstat --no-header --format state \"$job\" | grep -q running; do :; done\n\
        first=$(cadm ping | awk '/ leads/ { print $2 }')\n\
        dev-controller kill \"$first\" || exit 1\n\
        cadm ping | grep leads | grep -v \"$first\" || exit 2\n\
        : > go\n\
        csub --wait -Q -- true || exit 3\n\
        until chist --no-header --format state \"$job\" | grep .; do sleep 0.1; done\n\
        env -i PATH=/usr/bin:/bin $COSY_DEV_DIR/bin/cadm ping | grep leads || exit 4\n\
        dev-controller start \"$first\" || exit 5\n\
        cadm ping | grep \"$first stands by\"";
    let dev = Dev::with_open_way();
    let options = ["-N", "2", "--controllers", "2", "--postgres"];
    let output = run::run(&mut dev.command(&options, &["sh", "-c", script])).expect(0);
    assert!(output.out.contains("completed"), "{output:?}");
    assert!(
        output
            .err
            .contains("ended (137); to start it again: dev-controller"),
        "{output:?}"
    );
    dev.nothing_is_left();
}

/// The database server ends, too, whoever of those that hold the cluster together is killed.
#[test]
fn a_database_ends_with_its_cluster() {
    if !system::postgres_or_skip() {
        return;
    }
    let script = ": > $COSY_DEV_DIR/../up; csub --wait -- sleep 1000";
    for victim in ["front", "supervisor"] {
        let dev = Dev::with_open_way();
        let options = ["--controllers", "2", "--postgres", "-q"];
        let mut front = run::spawn(&mut dev.command(&options, &["sh", "-c", script]));
        let up = dev.above.path().join("up");
        wait::until_true("it is up", || up.exists() || front.try_wait().unwrap().is_some());
        assert!(up.exists(), "{:?}", run::finish(front, b"", run::TIMEOUT));
        let number = match victim {
            "front" => front.id().cast_signed(),
            _ => supervisor(front.id()),
        };
        kill(Pid::from_raw(number), Signal::SIGKILL).unwrap();
        front.wait().unwrap();
        dev.nothing_is_left();
    }
}

#[test]
fn a_database_that_is_kept() {
    if !system::postgres_or_skip() {
        return;
    }
    let dev = Dev::with_open_way();
    let output =
        run::run(&mut dev.command(&["--postgres", "--keep"], &["csub", "--wait", "--", "true"]));
    let output = output.expect(0);
    let data = dev.dir().join("postgres/data");
    assert!(data.join("PG_VERSION").exists());
    // It has ended orderly.
    assert!(!data.join("postmaster.pid").exists());
    assert!(output.err.contains("the database stays in"), "{output:?}");
    let mark = dev.dir().display().to_string();
    assert!(system::processes_with(&mark).is_empty());
}

#[test]
fn controllers_without_a_database() {
    let check = |options: &[&str], path: &str, want: &str| {
        let dev = Dev::with_open_way();
        let mut command = dev.command(options, &["true"]);
        let output = run::run(command.env("PATH", path));
        assert_eq!(output.code, 125, "{output:?}");
        assert!(output.err.contains(want), "{want}: {output:?}");
        dev.nothing_is_left();
    };
    let usual = std::env::var("PATH").unwrap();
    check(&["--controllers", "2"], &usual, "--controllers 2 needs --postgres");
    if cosy_postgres::programs().is_none() {
        check(&["--postgres"], &usual, "apt install postgresql");
    }
}
