//! Ends of daemons and shepherds at any moment: nothing is lost, nothing runs twice.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::EndCause;
use cosy_model::node::*;
use nix::libc;

#[test]
fn a_job_outlives_its_daemon_and_its_end_arrives() {
    let mut bench = Bench::started();
    let job = bench.job(1, "echo $$ > pid\nwhile ! [ -e go ]; do sleep 0.01; done; exit 6");
    let key = job.allocation.key;
    bench.launch(&job);
    let pid = pid_in(&bench.path("pid"));
    bench.daemon().kill();
    assert!(alive(pid));
    bench.start();
    let (_, inventory) = bench.accept();
    assert_eq!(inventory.len(), 1);
    assert!(matches!(inventory[0].phase, AttemptPhase::Running { .. }));
    // Ordered again, it is not started again.
    bench.launch(&job);
    bench.wait_started(1);
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(1).exit_code, 6);
    assert_eq!(pid_in(&bench.path("pid")), pid);
    bench.forget(key);
    assert_eq!(bench.backlog.len(), 0, "{:?}", bench.backlog);
}

#[test]
fn a_job_that_ended_while_its_daemon_was_dead() {
    let mut bench = Bench::started();
    let job = bench.job(1, "echo $$ > pid\nwhile ! [ -e go ]; do sleep 0.01; done; exit 6");
    let key = job.allocation.key;
    bench.launch(&job);
    pid_in(&bench.path("pid"));
    let shepherd = bench.shepherd(key);
    bench.daemon().kill();
    std::fs::write(bench.path("go"), "").unwrap();
    wait_gone(shepherd);
    bench.start();
    let (_, inventory) = bench.accept();
    match &inventory[0].phase {
        AttemptPhase::Ended(end) => assert_eq!(end.exit_code, 6),
        other => panic!("{other:?}"),
    }
    // Told again until it may be forgotten, also after the next link.
    assert_eq!(bench.ended(1).exit_code, 6);
    bench.hang_up();
    let (_, inventory) = bench.accept();
    assert_eq!(inventory.len(), 1);
    assert_eq!(bench.ended(1).exit_code, 6);
    bench.forget(key);
    bench.hang_up();
    assert_eq!(bench.accept().1, []);
}

#[test]
fn orders_reach_a_shepherd_of_an_earlier_daemon() {
    let mut bench = Bench::started();
    let job = bench.job(1, "echo $$ > pid\nsleep 1000");
    bench.launch(&job);
    let pid = pid_in(&bench.path("pid"));
    bench.daemon().kill();
    bench.start();
    bench.accept();
    bench.kill(&job, KillCause::Superseded);
    assert_eq!(bench.ended(1).cause, EndCause::Cancelled);
    wait_gone(pid);
}

fn lose_supervisor(extra: &str, daemon_too: bool) {
    let mut bench = Bench::with(extra);
    let job = bench.job(
        1,
        "(setsid sh -c 'echo $$ > stray; exec sleep 1000' &)\n\
         setsid env -i /bin/sh -c 'echo $$ > bare; exec sleep 1000' &\n\
         while ! [ -s stray ] || ! [ -s bare ]; do sleep 0.01; done\necho $$ > pid\nsleep 1000",
    );
    bench.launch(&job);
    let mut pids = vec![pid_in(&bench.path("pid")), pid_in(&bench.path("stray"))];
    let bare = pid_in(&bench.path("bare"));
    let shepherd = bench.shepherd(job.allocation.key);
    if daemon_too {
        bench.daemon().kill();
    } else {
        pids.push(bare);
    }
    unsafe { libc::kill(shepherd, libc::SIGKILL) };
    if daemon_too {
        wait_gone(shepherd);
        bench.start();
        bench.accept();
    }
    let end = bench.ended(1);
    assert_eq!(end.cause, EndCause::SupervisorLost);
    assert!(!pids.into_iter().any(alive));
    // Without control groups nothing tells whose it was once all its parents are dead.
    if alive(bare) {
        unsafe { libc::kill(bare, libc::SIGKILL) };
        assert!(daemon_too);
    }
    bench.forget(job.allocation.key);
    bench.daemon().signal(libc::SIGTERM);
    bench.daemon().child.wait().unwrap();
    assert!(bench.groups().is_empty());
}

#[test]
fn a_killed_shepherd() {
    lose_supervisor("", false);
    lose_supervisor("cgroup = 'none'", false);
}

#[test]
fn a_killed_shepherd_and_daemon() {
    lose_supervisor("", true);
    lose_supervisor("cgroup = 'none'", true);
}

#[test]
fn a_killed_nursery() {
    let mut bench = Bench::started();
    let job = bench.job(1, "echo $$ > pid\nwhile ! [ -e go ]; do sleep 0.01; done; exit 6");
    bench.launch(&job);
    pid_in(&bench.path("pid"));
    let shepherd = bench.shepherd(job.allocation.key);
    let nursery = noded::shepherd::parent_of(shepherd).unwrap();
    unsafe { libc::kill(nursery, libc::SIGKILL) };
    wait_gone(nursery);
    let next = bench.job(2, "exit 5");
    assert_eq!(bench.run(next).exit_code, 5);
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(1).exit_code, 6);
}

#[test]
fn many_ends_at_random_moments() {
    let mut bench = Bench::started();
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for round in 0..12 {
        let jobs: Vec<Launch> = (0..4)
            .map(|n| {
                let job = round * 4 + n + 1;
                bench.job(job, &format!("echo x >> ran.{job}\nsleep 0.0{}\nexit 7", n * 3))
            })
            .collect();
        for job in &jobs {
            bench.launch(job);
        }
        let moment = std::time::Instant::now();
        let after = std::time::Duration::from_micros(random(30_000));
        wait_for("moment", || (moment.elapsed() >= after).then_some(()));
        bench.daemon().kill();
        bench.hang_up();
        bench.start();
        let (_, inventory) = bench.accept();
        for job in &jobs {
            let key = job.allocation.key;
            // What the daemon had not kept before its end is ordered again.
            if !inventory.iter().any(|i| i.key == key) {
                bench.launch(job);
            }
            let end = bench.ended(key.number());
            assert_eq!((end.cause, end.exit_code), (EndCause::Exited, 7));
            let ran =
                std::fs::read_to_string(bench.path(&format!("ran.{}", key.number()))).unwrap();
            assert_eq!(ran, "x\n", "job {} ran once", key.number());
            bench.forget(key);
        }
    }
}

#[test]
fn after_a_restart_of_the_machine() {
    let mut bench = Bench::started();
    let job = bench.job(1, "exit 4");
    bench.launch(&job);
    bench.ended(1);
    let running = bench.job(2, "echo $$ > pid\nexec sleep 1000");
    bench.launch(&running);
    let pid = pid_in(&bench.path("pid"));
    bench.daemon().kill();
    let shepherd = bench.shepherd(running.allocation.key);
    unsafe {
        libc::kill(shepherd, libc::SIGKILL);
        libc::kill(pid, libc::SIGKILL);
    }
    wait_gone(pid);
    let boot = bench.path("spool").join(&bench.name).join("boot");
    std::fs::write(boot, "another").unwrap();
    bench.start();
    bench.accept();
    assert_eq!(bench.ended(1).exit_code, 4);
    assert_eq!(bench.ended(2).cause, EndCause::NodeLost);
}

#[test]
fn two_daemons_do_not_share_a_spool() {
    let mut bench = Bench::started();
    bench.start();
    let status = bench.daemon().child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(bench.log().contains("another noded already works with"));
}

#[test]
fn a_clean_stop_leaves_jobs_alone() {
    let mut bench = Bench::started();
    let job = bench.job(1, "echo $$ > pid\nwhile ! [ -e go ]; do sleep 0.01; done");
    bench.launch(&job);
    let pid = pid_in(&bench.path("pid"));
    bench.daemon().signal(libc::SIGTERM);
    assert!(bench.daemon().child.wait().unwrap().success());
    assert!(alive(pid));
    bench.start();
    bench.accept();
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(1).exit_code, 0);
}
