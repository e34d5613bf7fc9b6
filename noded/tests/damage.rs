//! What a daemon kept of running attempts is damaged while it is dead: whatever still runs of
//! them is found, and nothing runs on beside its successor.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::EndCause;
use cosy_model::node::*;
use std::fs;

const RUNS: &str = "(setsid sh -c 'echo $$ > stray; exec sleep 1000' &)\n\
    while ! [ -s stray ]; do sleep 0.01; done\necho $$ > pid\nsleep 1000";

struct Scene {
    bench: Bench,
    key: AllocationKey,
    pids: [i32; 3],
}

/// A running attempt whose daemon is dead.
fn scene(extra: &str) -> Scene {
    let mut bench = Bench::with(extra);
    let job = bench.job(1, RUNS);
    bench.launch(&job);
    let key = job.allocation.key;
    let (pid, stray) = (pid_in(&bench.path("pid")), pid_in(&bench.path("stray")));
    let shepherd = bench.shepherd(key);
    bench.daemon().kill();
    bench.hang_up();
    let pids = [shepherd, pid, stray];
    Scene { bench, key, pids }
}

impl Scene {
    fn ends_and_is_told(mut self) {
        self.bench.start();
        let (_, inventory) = self.bench.accept();
        assert_eq!(inventory.len(), 1, "{}", self.bench.log());
        for pid in self.pids {
            wait_gone(pid);
        }
        let end = self.bench.ended(1);
        assert_eq!(end.cause, EndCause::NodeLost, "{end:?}");
        self.bench.forget(self.key);
        let next = self.bench.job(2, "exit 5");
        assert_eq!(self.bench.run(next).exit_code, 5);
    }

    fn goes_on(mut self) {
        self.bench.start();
        let (_, inventory) = self.bench.accept();
        assert!(matches!(inventory[0].phase, AttemptPhase::Running { .. }), "{inventory:?}");
        assert!(self.pids.into_iter().all(alive));
    }

    fn launch_file(&self) -> std::path::PathBuf {
        self.bench.spooled(self.key).join("launch")
    }

    fn boot_file(&self) -> std::path::PathBuf {
        self.bench.path("spool").join(&self.bench.name).join("boot")
    }
}

/// With control groups, and without.
const BOTH: [&str; 2] = ["", "cgroup = 'none'"];

#[test]
fn one_byte_of_the_launch_file_is_another() {
    for extra in BOTH {
        let scene = scene(extra);
        let mut bytes = fs::read(scene.launch_file()).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 0x20;
        // In place: the shepherd holds the lock of this file.
        let file = fs::File::options().write(true).open(scene.launch_file());
        std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), &bytes, 0).unwrap();
        scene.ends_and_is_told();
    }
}

#[test]
fn the_launch_file_is_empty_or_gone() {
    for extra in BOTH {
        let scene = scene(extra);
        fs::File::options()
            .write(true)
            .truncate(true)
            .open(scene.launch_file())
            .unwrap();
        scene.ends_and_is_told();
        let scene = self::scene(extra);
        fs::remove_file(scene.launch_file()).unwrap();
        scene.ends_and_is_told();
    }
}

#[test]
fn its_folder_is_gone() {
    for extra in BOTH {
        let scene = scene(extra);
        fs::remove_dir_all(scene.bench.spooled(scene.key)).unwrap();
        scene.ends_and_is_told();
    }
}

#[test]
fn a_boot_id_that_is_not_so_ends_nothing() {
    for extra in BOTH {
        let scene = scene(extra);
        fs::write(scene.boot_file(), "another").unwrap();
        scene.goes_on();
        let scene = self::scene(extra);
        fs::remove_file(scene.boot_file()).unwrap();
        scene.goes_on();
    }
}

/// The supervisor is dead, too: only what the processes say of themselves is left.
#[test]
fn a_boot_id_that_is_not_so_and_no_supervisor() {
    let scene = scene("cgroup = 'none'");
    fs::write(scene.boot_file(), "another").unwrap();
    unsafe { nix::libc::kill(scene.pids[0], nix::libc::SIGKILL) };
    wait_gone(scene.pids[0]);
    let mut scene = scene;
    scene.bench.start();
    scene.bench.accept();
    assert_eq!(scene.bench.ended(1).cause, EndCause::SupervisorLost);
    assert!(!scene.pids.into_iter().any(alive));
}
