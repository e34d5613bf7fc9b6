//! Directories that jobs have to themselves (`private_tmp`).

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options, system, wait};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Nodes where each job has a `scratch` of its own.
fn cluster(nodes: usize) -> (Cluster, PathBuf) {
    let options = Options {
        noded: |_| "private_tmp = [\"DIR/scratch\"]".into(),
        ..Options::default()
    };
    let c = Cluster::prepare(nodes, options);
    let scratch = c.dir().join("scratch");
    fs::create_dir(&scratch).unwrap();
    fs::set_permissions(&scratch, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(scratch.join("of-the-node"), "").unwrap();
    (c.start_prepared(), scratch)
}

fn submit(c: &Cluster, options: &[&str], script: &str) -> JobId {
    let mut words = vec!["csub", "--parsable"];
    words.extend(options);
    words.extend(["--", "sh", "-c", script]);
    JobId(c.run(&words).expect(0).out.trim().parse().unwrap())
}

/// How many directories of jobs a node keeps, also those that are being removed.
fn kept(c: &Cluster) -> usize {
    let mut open = vec![c.node_dir(0)];
    let mut found = 0;
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match name == "private" || name.starts_with("away.") {
                true => found += 1,
                false if entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                    open.push(entry.path());
                }
                false => {}
            }
        }
    }
    found
}

#[test]
fn a_job_has_it_with_its_steps_and_nobody_else() {
    if !system::root_or_skip() {
        return;
    }
    let (c, scratch) = cluster(1);
    let dir = scratch.display();
    // The script, a step of it and a step from elsewhere are in one place.
    let first = submit(
        &c,
        &["-o", "first"],
        &format!(
            "ls -a {dir} | wc -l; stat -c %a {dir}; echo mine > {dir}/file; \
             cosy run cat {dir}/file; cosy run touch {dir}/step; ls {dir}; touch there; \
             while ! [ -e go ]; do sleep 0.05; done"
        ),
    );
    wait::until_true("the first one has written", || c.work().join("there").exists());
    let id = first.to_string();
    let seen = c.run(&[
        "cosy",
        "run",
        "--job",
        &id,
        "--overlap",
        "ls",
        &dir.to_string(),
    ]);
    assert_eq!(seen.expect(0).out, "file\nstep\n");
    // Another job at the same time has another one.
    let second = submit(&c, &["-o", "second"], &format!("ls -a {dir} | wc -l; touch {dir}/file"));
    assert_eq!(c.until_end(second).outcome(), (JobState::Completed, 0));
    assert_eq!(fs::read_to_string(c.work().join("second")).unwrap(), "2\n");
    assert!(kept(&c) >= 1, "the spool is looked at in the right place");
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(first).outcome(), (JobState::Completed, 0));
    let out = fs::read_to_string(c.work().join("first")).unwrap();
    assert_eq!(out, "2\n1777\nmine\nfile\nstep\n");
    // Nothing of it was on the node, and nothing is left.
    let names: Vec<_> = fs::read_dir(&scratch).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    wait::until_true("what they left is gone", || kept(&c) == 0);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*scratch.to_string_lossy()), "{mounts}");
}

#[test]
fn it_outlives_the_daemon_and_not_the_job() {
    if !system::root_or_skip() {
        return;
    }
    let (mut c, scratch) = cluster(1);
    let dir = scratch.display();
    let job = submit(
        &c,
        &["-o", "out"],
        &format!(
            "echo mine > {dir}/file; touch there; while ! [ -e go ]; do sleep 0.05; done; \
             cosy run cat {dir}/file"
        ),
    );
    wait::until_true("it has written", || c.work().join("there").exists());
    c.nodes[0].kill();
    c.start_noded(0);
    c.nodes[0].await_ready();
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0), "{}", c.logs());
    assert_eq!(fs::read_to_string(c.work().join("out")).unwrap(), "mine\n");
    // A killed supervisor leaves nothing either.
    let script = format!("touch {dir}/file began; sleep 100");
    let job = submit(&c, &["--no-requeue"], &script);
    wait::until_true("its program runs", || c.work().join("began").exists());
    let shepherds = c.shepherds();
    assert_eq!(shepherds.len(), 1, "{shepherds:?}");
    shepherds[0].kill(Signal::SIGKILL);
    c.until_end(job);
    wait::until_true("what it left is gone", || kept(&c) == 0);
    assert!(!scratch.join("file").exists());
}

/// What cannot be given is no job's fault: it goes elsewhere, and the node says why.
#[test]
fn a_place_that_is_not_there() {
    if !system::root_or_skip() {
        return;
    }
    let (c, scratch) = cluster(1);
    fs::remove_dir_all(&scratch).unwrap();
    let job = submit(&c, &[], "true");
    let row = c.until_end(job);
    assert_eq!(row.state, JobState::LaunchFailed, "{row:?}");
    let told = c.run(&["chist", &job.to_string()]).expect(0).out;
    assert!(told.contains("cannot give the job a"), "{told}");
}
