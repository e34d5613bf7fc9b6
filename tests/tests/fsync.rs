//! An answer means durable: calls of fsync and fdatasync are
//! counted, because kill -9 alone cannot tell whether they are made.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::{Cluster, Options, script, system, wait};
use std::fs;
use std::sync::Barrier;

const CLIENTS: usize = 64;
const EACH: usize = 10;

/// Counts the calls in the length of a file, and makes each as slow as on a busy disk.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int note(long number, int fd) {
    static int log = -1;
    int done = (int)syscall(number, fd);
    if (log < 0) log = open(getenv("COSY_TEST_FSYNCS"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    usleep(3000);
    if (write(log, "s", 1) != 1) abort();
    return done;
}
int fsync(int fd) { return note(SYS_fsync, fd); }
int fdatasync(int fd) { return note(SYS_fdatasync, fd); }
"#;

fn counting() -> Option<(tempfile::TempDir, Cluster, impl Fn() -> usize)> {
    let folder = tempfile::tempdir().unwrap();
    let library = system::library_or_skip(folder.path(), "count", LIBRARY)?;
    let log = folder.path().join("fsyncs");
    let variables = [("LD_PRELOAD", &library), ("COSY_TEST_FSYNCS", &log)];
    let variables = variables.map(|(k, v)| (k.to_owned(), v.display().to_string()));
    let options = Options {
        variables: variables.into(),
        ..Options::default()
    };
    let mut cluster = Cluster::prepare(1, options);
    cluster.start_cosyd();
    let count = move || fs::metadata(&log).map_or(0, |m| m.len() as usize);
    Some((folder, cluster, count))
}

#[test]
fn every_answer_is_durable() {
    let Some((_folder, c, count)) = counting() else {
        return;
    };
    let mut submission = script(&c.work(), "exit 0");
    submission.spec.hold = true;
    let mut client = c.client();
    for _ in 0..50 {
        let before = count();
        let job = client.submit(&submission).unwrap().unwrap();
        assert!(count() > before, "job {job} was acknowledged without a sync");
    }
}

#[test]
fn answers_share_a_sync() {
    let Some((_folder, c, count)) = counting() else {
        return;
    };
    let mut submission = script(&c.work(), "exit 0");
    submission.spec.hold = true;
    let start = Barrier::new(CLIENTS);
    let before = count();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = c.client();
                start.wait();
                for _ in 0..EACH {
                    client.submit(&submission).unwrap().unwrap();
                }
            });
        }
    });
    let (syncs, answers) = (count() - before, CLIENTS * EACH);
    eprintln!("{answers} submissions of {CLIENTS} clients took {syncs} syncs");
    assert!(syncs >= EACH, "{syncs} syncs: one for each round at least");
    assert!(syncs * 4 <= answers, "{syncs} syncs for {answers} submissions");
    wait::until_true("all are there", || {
        c.client()
            .jobs(Default::default())
            .is_ok_and(|t| t.rows == answers)
    });
}
