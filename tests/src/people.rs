//! Users that a cluster's own directory knows, and commands run as one of them.
//!
//! Needs root: the kernel tells the controller who asks.

use crate::cluster::{Cluster, Options};
use crate::run::{self, Output};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

/// A user in the group `users`.
pub const ANN: u32 = 54_321;
/// Another user in the group `users`.
pub const BOB: u32 = 54_322;
/// A third one, also in the group `guests`.
pub const CAT: u32 = 54_323;
/// The group of all three.
pub const GROUP: u32 = 54_300;

const USERS: &str = "root:0:0:/root:/bin/sh:0=root\n\
    ann:54321:54300:/tmp:/bin/sh:54300=users\n\
    bob:54322:54300:/tmp:/bin/sh:54300=users\n\
    cat:54323:54300:/tmp:/bin/sh:54300=users,54303=guests\n";

/// Starts a cluster that knows these users; `options.controller` must leave `[controller]`
/// by a table of its own last.
///
/// # Panics
/// When it cannot be started.
pub fn start(nodes: usize, mut options: Options) -> Cluster {
    let users = "[users]\nlookup_command = [\"DIR/lookup\"]\n";
    options.controller = format!("{users}{}", options.controller);
    let mut cluster = prepare(nodes, options);
    cluster.start_cosyd();
    (0..nodes).for_each(|at| cluster.start_noded(at));
    let daemons = &mut cluster.nodes;
    daemons.iter_mut().for_each(|n| n.await_ready());
    cluster
}

/// A controller, its node not started, that knows these users and gives each so many connections.
///
/// # Panics
/// When it cannot be started.
pub fn start_with_connections(per_user: u64, options: Options) -> Cluster {
    let mut cluster = prepare(1, options);
    cluster.reconfigure(|o| {
        o.controller = format!(
            "connections_per_user = {per_user}\n[users]\nlookup_command = [\"DIR/lookup\"]\n{}",
            o.controller
        );
    });
    cluster.start_cosyd();
    cluster
}

/// A cluster with what is needed to look these users up, where its configuration says so; not
/// started.
///
/// # Panics
/// When it cannot be made.
pub fn prepare(nodes: usize, options: Options) -> Cluster {
    let cluster = Cluster::prepare(nodes, options);
    install(&cluster);
    cluster.open_commands();
    cluster
}

fn install(cluster: &Cluster) {
    let dir = cluster.dir();
    fs::write(dir.join("users"), USERS).expect("a file");
    let list = dir.join("users");
    let text = format!("#!/bin/sh\ngrep \"^[^:]*:$1:\" {} || exit 2\n", list.display());
    let lookup = dir.join("lookup");
    fs::write(&lookup, text).expect("a file");
    fs::set_permissions(&lookup, Permissions::from_mode(0o755)).expect("own");
}

impl Cluster {
    /// Runs a command line as that user.
    #[track_caller]
    pub fn run_as(&self, uid: u32, words: &[&str]) -> Output {
        run::run(self.command(words).uid(uid).gid(GROUP))
    }
}

/// Runs `work` on a thread that is that user to whoever asks the kernel: a connection that it
/// makes is that user's. The rest of the process stays what it is.
///
/// # Panics
/// When `work` does, or this is not root.
pub fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    use nix::libc::{SYS_setresuid, syscall};
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let same = u32::MAX;
            // SAFETY: the call takes numbers only. Of this thread alone, which the function of
            // the C library would not do; it ends below and nothing else runs on it.
            let done = unsafe { syscall(SYS_setresuid, same, uid, same) };
            assert_eq!(done, 0, "only root can be somebody else");
            work()
        });
        thread.join().expect("the work of another user")
    })
}
