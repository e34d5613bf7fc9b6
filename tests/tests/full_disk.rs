//! A database that cannot be written: requests are refused with the reason, nothing
//! acknowledged is lost, and service resumes by itself.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::Reply;
use cosy_model::{JobId, JobState, RefusalCode};
use cosy_tests::client::new_key;
use cosy_tests::{Client, Cluster, Options, Row, script, system, wait};
use nix::libc;
use nix::mount::{MsFlags, mount, umount};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Sets the soft limit on the size of files that a process writes.
fn limit_file_size(pid: u32, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is read, the old one is not asked for.
    let done = unsafe {
        libc::prlimit(pid.cast_signed(), libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Submits held jobs with large scripts until one is refused; gives what was
/// acknowledged.
fn fill(c: &Cluster) -> BTreeSet<JobId> {
    let mut known = BTreeSet::new();
    let text = format!("exit 0\n# {}", "x".repeat(200_000));
    let mut submission = script(&c.work(), &text);
    submission.spec.hold = true;
    for _ in 0..400 {
        match c.client().submit(&submission).unwrap() {
            Ok(job) => assert!(known.insert(job), "job {job} was acknowledged twice"),
            Err(refusal) => {
                assert_eq!(refusal.code, RefusalCode::Unavailable, "{refusal:?}");
                let said = refusal.message.to_lowercase();
                assert!(
                    ["full", "disk", "i/o", "large"]
                        .iter()
                        .any(|w| said.contains(w)),
                    "the reason is said: {said}"
                );
                return known;
            }
        }
    }
    panic!("nothing was refused");
}

fn refused_while_full(c: &Cluster) {
    let submission = script(&c.work(), "exit 0");
    let refusal = c.client().submit(&submission).unwrap().unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Unavailable);
    let output = c.run(&["csub", "--", "true"]);
    output.expect_refusal("durable");
}

fn resumes(c: &Cluster, known: &BTreeSet<JobId>) {
    // The same key until it is acknowledged, as a command would.
    let key = new_key();
    let submission = script(&c.work(), "exit 3");
    let job = wait::until("service resumes", || {
        let mut client = Client::connect(&c.socket()).ok()?;
        client.submit_with(&submission, key).ok()?.ok()
    });
    let row = c.until_end(job);
    assert_eq!(row.outcome(), (JobState::Failed, 3), "{row:?}");
    assert!(known.iter().all(|k| *k < job), "no id was given out twice");
    let table = c.client().jobs(Default::default()).unwrap();
    let there: BTreeSet<JobId> = Row::all(&table)
        .into_iter()
        .filter(|r| r.state == JobState::Waiting)
        .map(|r| r.id)
        .collect();
    assert_eq!(&there, known, "exactly what was acknowledged is there");
}

fn restarts(c: &mut Cluster, known: &BTreeSet<JobId>) {
    c.cosyd.kill();
    c.start_cosyd();
    resumes(c, known);
}

#[test]
fn files_may_not_grow() {
    let mut c = Cluster::prepare(1, Options::default());
    c.cosyd.ignore_file_size_signal = true;
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    let go = c.work().join("go");
    let wait_for_go = "while ! [ -e go ]; do sleep 0.05; done; exit 5";
    let running = c.submit(&script(&c.work(), wait_for_go));
    c.until_state(running, JobState::Running);
    let size = largest_file(&c.state_dir());
    limit_file_size(c.cosyd.pid(), size);
    let known = fill(&c);
    limit_file_size(c.cosyd.pid(), 512);
    refused_while_full(&c);
    // Its end must not get lost while nothing can be made durable.
    fs::write(&go, "").unwrap();
    refused_while_full(&c);
    limit_file_size(c.cosyd.pid(), libc::RLIM_INFINITY);
    resumes(&c, &known);
    let row = c.until_end(running);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, 5), 1));
    restarts(&mut c, &known);
}

fn largest_file(folder: &Path) -> u64 {
    let sizes = fs::read_dir(folder).unwrap().map(|e| {
        let e = e.unwrap();
        let name = e.file_name();
        let counts = name.to_string_lossy().starts_with("cosy.db");
        e.metadata().map_or(0, |m| if counts { m.len() } else { 0 })
    });
    sizes.max().unwrap_or(0).max(4096)
}

/// A small file system, unmounted when it goes.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = umount(&self.0);
    }
}

#[test]
fn file_system_is_full() {
    if !system::root_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = Some("size=8m,mode=0700");
    if let Err(e) = mount(Some("tmpfs"), folder.path(), Some("tmpfs"), MsFlags::empty(), options) {
        return system::skip(&format!("no tmpfs can be mounted: {e}"));
    }
    let small = Small(folder.path().to_owned());
    let mut c = Cluster::start(
        1,
        Options {
            state_dir: Some(small.0.clone()),
            ..Options::default()
        },
    );
    let running = c.submit(&script(&c.work(), "while ! [ -e go ]; do sleep 0.05; done; exit 5"));
    c.until_state(running, JobState::Running);
    let ballast = small.0.join("ballast");
    fs::write(&ballast, vec![0; 5 << 20]).unwrap();
    let mut known = fill(&c);
    fill_up(&small.0.join("ballast2"));
    // Space within the database's files may still serve a little.
    known.extend(fill(&c));
    fs::write(c.work().join("go"), "").unwrap();
    known.extend(fill(&c));
    fs::remove_file(&ballast).unwrap();
    fs::remove_file(small.0.join("ballast2")).unwrap();
    resumes(&c, &known);
    let row = c.until_end(running);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, 5), 1));
    restarts(&mut c, &known);
    // A controller that finds its disk full at its start waits for room.
    c.cosyd.kill();
    fill_up(&small.0.join("ballast2"));
    c.start_cosyd_only();
    wait::until_true("it says that the disk is full", || {
        c.cosyd.log().contains("is full: it is tried again")
    });
    assert!(c.cosyd.is_running());
    fs::remove_file(small.0.join("ballast2")).unwrap();
    c.cosyd.await_ready();
    resumes(&c, &known);
    drop(c);
    drop(small);
}

/// Takes what space is left.
fn fill_up(file: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(file).unwrap();
    while file.write(&[0; 4096]).is_ok_and(|n| n > 0) {}
}

#[test]
fn questions_are_answered_meanwhile_or_refused() {
    let mut c = Cluster::prepare(1, Options::default());
    c.cosyd.ignore_file_size_signal = true;
    c.start_cosyd();
    limit_file_size(c.cosyd.pid(), 512);
    let submission = script(&c.work(), "exit 0");
    assert!(c.client().submit(&submission).unwrap().is_err());
    // Neither hangs nor ends: an answer or a refusal.
    match c.ask(cosy_model::api::Request::Ping) {
        Reply::Pong { .. } => {}
        Reply::Refused(r) => assert_eq!(r.code, RefusalCode::Unavailable),
        other => panic!("{other:?}"),
    }
    assert!(c.cosyd.is_running());
}
