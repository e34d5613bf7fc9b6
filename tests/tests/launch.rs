//! Jobs run as their user: uid, gid, all groups, mask, limits; files are the user's;
//! a directory service that does not answer delays a job.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobState;
use cosy_tests::{Cluster, Options, run, system, wait};
use nix::libc;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

/// A user that the system does not know, but the site's program does.
const ANN: u32 = 54_321;
const ANN_GROUP: u32 = 54_300;

const USERS: &str = "root:0:0:/root:/bin/sh:0=root\n\
    ann:54321:54300:DIR/home:/bin/sh:54300=users,54301=project,54302=other\n";

fn cluster() -> Cluster {
    let options = Options {
        controller: "[users]\nlookup_command = [\"DIR/lookup\"]\n".into(),
        ..Options::default()
    };
    let mut c = Cluster::prepare(1, options);
    let dir = c.dir().display().to_string();
    fs::write(c.dir().join("users"), USERS.replace("DIR", &dir)).unwrap();
    let lookup = format!(
        "#!/bin/sh\n[ -e {dir}/outage ] && exit 75\ngrep \"^[^:]*:$1:\" {dir}/users || exit 2\n"
    );
    fs::write(c.dir().join("lookup"), lookup).unwrap();
    fs::set_permissions(c.dir().join("lookup"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(home(&c)).unwrap();
    chown(home(&c), Some(ANN), Some(ANN_GROUP)).unwrap();
    fs::set_permissions(home(&c), fs::Permissions::from_mode(0o700)).unwrap();
    c.open_commands();
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    c
}

fn home(c: &Cluster) -> PathBuf {
    c.dir().join("home")
}

/// A command line that Ann types in her home directory, which only she may read.
fn as_ann(c: &Cluster, words: &[&str]) -> std::process::Command {
    let mut command = c.command(words);
    let home = home(c);
    let enter = move || std::env::set_current_dir(&home);
    command.current_dir("/").uid(ANN).gid(ANN_GROUP);
    command.env("HOME", "/her/home").env("USER", "ann");
    // SAFETY: chdir is all that happens, after the change of user.
    unsafe { command.pre_exec(enter) };
    command
}

#[test]
fn as_the_user() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    fs::write(
        home(&c).join("job.sh"),
        "#!/bin/sh\nid -u; id -g; id -G; umask; ulimit -n; pwd; touch made\necho $HOME $USER\n",
    )
    .unwrap();
    let mut command = as_ann(&c, &["csub", "--wait", "-Q", "-o", "out", "job.sh"]);
    let limits = || {
        let files = libc::rlimit {
            rlim_cur: 123,
            rlim_max: 456,
        };
        // SAFETY: both calls only change this process, before it becomes the command.
        unsafe {
            libc::umask(0o037);
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files) < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(limits) };
    run::run(&mut command).expect(0);
    let out = fs::read_to_string(home(&c).join("out")).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(&lines[..2], ["54321", "54300"]);
    let mut groups: Vec<&str> = lines[2].split_whitespace().collect();
    groups.sort_unstable();
    assert_eq!(groups, ["54300", "54301", "54302"], "all groups, and no others");
    assert!(lines[3].ends_with("037"), "{}", lines[3]);
    assert_eq!(lines[4], "123", "the soft limit of the submitting shell");
    assert_eq!(lines[5], home(&c).display().to_string());
    assert_eq!(lines[6], "/her/home ann", "the environment of the submission");
    for name in ["out", "made"] {
        let of = fs::metadata(home(&c).join(name)).unwrap();
        assert_eq!((of.uid(), of.gid()), (ANN, ANN_GROUP), "{name}");
        assert_eq!(of.mode() & 0o037, 0, "{name}: {:o}", of.mode());
    }
    c.until_no_job_processes();
}

#[test]
fn login_environment() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    fs::write(home(&c).join(".profile"), "export FROM_PROFILE=yes\n").unwrap();
    let inner = "echo $HOME $USER $FROM_PROFILE $GIVEN";
    let words = [
        "csub",
        "--wait",
        "-Q",
        "--login",
        "--env",
        "NONE,GIVEN=x",
        "-o",
        "out",
    ];
    let words = [&words[..], &["--", "sh", "-c", inner]].concat();
    run::run(&mut as_ann(&c, &words)).expect(0);
    let out = fs::read_to_string(home(&c).join("out")).unwrap();
    assert_eq!(out, format!("{} ann yes x\n", home(&c).display()));
}

#[test]
fn files_are_opened_as_the_user() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    let secret = c.dir().join("secret");
    fs::write(&secret, "only for root").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let path = secret.display().to_string();
    // Neither read nor overwritten on behalf of somebody who may not.
    for option in ["-i", "-o", "-e"] {
        let words = ["csub", "--wait", "-Q", option, &path, "--", "cat"];
        let output = run::run(&mut as_ann(&c, &words));
        assert_ne!(output.code, 0, "{option}: {output:?}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "only for root");
    let table = c.client().history(Default::default()).unwrap();
    let rows = cosy_tests::Row::all(&table);
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row.state, JobState::LaunchFailed, "{row:?}");
        assert!(row.reason.contains("secret"), "it says which file: {row:?}");
    }
    let node = c.until_node("n1", "idle", |n| n.state == "idle");
    assert_eq!(node.reason, "", "the job is at fault, not the node");
}

#[test]
fn outage_of_the_directory() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    fs::write(c.dir().join("outage"), "").unwrap();
    let words = ["csub", "--parsable", "-o", "out", "--", "sh", "-c", "id -G"];
    let output = run::run(&mut as_ann(&c, &words));
    if output.code != 0 {
        // Refused with the reason is right too: nothing ran with wrong groups.
        output.expect_refusal("director");
        fs::remove_file(c.dir().join("outage")).unwrap();
        return;
    }
    let job = cosy_model::JobId(output.out.trim().parse().unwrap());
    let row = c.until(job, "delayed", |r| r.reason == "directory" || r.start.is_some());
    assert_eq!((row.state, row.start), (JobState::Waiting, None), "{row:?}");
    assert!(!home(&c).join("out").exists());
    fs::remove_file(c.dir().join("outage")).unwrap();
    let row = c.until_end(job);
    assert_eq!(row.state, JobState::Completed, "{row:?}");
    let out = fs::read_to_string(home(&c).join("out")).unwrap();
    let mut groups: Vec<&str> = out.split_whitespace().collect();
    groups.sort_unstable();
    assert_eq!(groups, ["54300", "54301", "54302"]);
}

#[test]
fn outage_after_the_submission() {
    if !system::root_or_skip() {
        return;
    }
    let mut c = cluster();
    let words = [
        "csub",
        "--parsable",
        "--hold",
        "-o",
        "out",
        "--",
        "id",
        "-G",
    ];
    let output = run::run(&mut as_ann(&c, &words)).expect(0);
    let job = cosy_model::JobId(output.out.trim().parse().unwrap());
    fs::write(c.dir().join("outage"), "").unwrap();
    // After a restart nobody remembers Ann's groups.
    c.cosyd.kill();
    c.start_cosyd();
    c.run(&["cosy", "release", &job.to_string()]).expect(0);
    let row = c.until(job, "delayed", |r| r.reason == "directory" || r.start.is_some());
    assert_eq!((row.state, row.start), (JobState::Waiting, None), "{row:?}");
    // Nobody else is held up.
    c.run(&["csub", "--wait", "-Q", "--", "true"]);
    fs::remove_file(c.dir().join("outage")).unwrap();
    assert_eq!(c.until_end(job).state, JobState::Completed);
    let out = fs::read_to_string(home(&c).join("out")).unwrap();
    assert_eq!(out.split_whitespace().count(), 3, "{out}");
}

#[test]
fn unknown_user() {
    if !system::root_or_skip() {
        return;
    }
    let c = cluster();
    let mut command = c.command(&["csub", "--", "true"]);
    command.uid(ANN + 1).gid(ANN_GROUP);
    let output = run::run(&mut command);
    assert_ne!(output.code, 0, "{output:?}");
    let table = c.client().jobs(Default::default()).unwrap();
    assert_eq!(table.rows, 0);
    wait::until_true("the controller answers", || {
        matches!(c.ask(cosy_model::api::Request::Ping), cosy_model::api::Reply::Pong { .. })
    });
}

#[test]
fn ordinary_node_daemon_runs_only_its_own_users_jobs() {
    let c = Cluster::start(1, Options::default());
    let said = c.nodes[0].log();
    if system::is_root() {
        assert!(!said.contains("only"), "{said}");
        return system::skip("the ordinary side of this test runs as an ordinary user");
    }
    assert!(!said.is_empty());
    c.run(&["csub", "--wait", "-Q", "--", "true"]).expect(0);
}
