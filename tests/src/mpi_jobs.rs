//! Jobs that run MPI programs over several nodes, and users who run them without knowing
//! that there is a batch system.

use crate::mpi::{Mpi, plugins};
use crate::run::{self, Output};
use crate::{Cluster, Options, script, system, wait};
use cosy_model::{JobId, Span};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What jobs start with: also that Open MPI may be used by root, as which tests may run.
const ENVIRONMENT: &str = "PATH=/usr/local/bin:/usr/bin:/bin\0OMPI_ALLOW_RUN_AS_ROOT=1\0\
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";

/// The source tree's plugins as an absolute path.
///
/// # Panics
/// When they are not there.
pub fn plugin_folder() -> PathBuf {
    plugins()
        .canonicalize()
        .expect("plugins in the source tree")
}

/// Lines of a node's configuration: its own loopback address, the machine shared with
/// other nodes, the source tree's plugins.
pub fn node(number: usize) -> String {
    format!("listen = \"127.0.0.{}:0\"\ncgroup = \"memory\"\n{}", number + 1, plugin_line())
}

/// Line of a node's configuration with the source tree's plugins.
pub fn plugin_line() -> String {
    format!("plugins = [\"{}\"]\n", plugin_folder().display())
}

/// Nodes at loopback addresses of their own.
pub fn options() -> Options {
    Options {
        policy: "grace = \"1s\"\n".into(),
        noded: node,
        ..Options::default()
    }
}

/// The same; a lost node is noticed soon. Not where no node is to be lost: a machine that
/// stands still for seconds would lose some.
pub fn options_with_losses() -> Options {
    Options {
        policy: "heartbeat = \"1s\"\nnode_timeout = \"3s\"\ngrace = \"1s\"\n".into(),
        ..options()
    }
}

/// Submits a script for so many tasks, spread over so many nodes evenly. It writes to
/// `out` and `err`.
pub fn submit(c: &Cluster, nodes: u32, tasks: u32, text: &str, limit: Span) -> JobId {
    let mut job = script(&c.work(), text);
    job.spec.request.nodes = Some(nodes);
    job.spec.request.tasks = Some(tasks);
    job.spec.request.tasks_per_node = Some(tasks / nodes);
    job.spec.environment = ENVIRONMENT.into();
    job.spec.stdout = Some("out".into());
    job.spec.stderr = Some("err".into());
    job.spec.time_limit = Some(limit);
    job.spec.requeue = false;
    c.submit(&job)
}

/// A file in the cluster's work folder; empty when it is not there.
pub fn read(c: &Cluster, name: &str) -> String {
    fs::read_to_string(c.work().join(name)).unwrap_or_default()
}

/// What is said when a job did not do what it should.
pub fn story(c: &Cluster) -> String {
    let (out, err) = (read(c, "out"), read(c, "err"));
    format!("out:\n{out}\nerr:\n{err}\n{}", c.logs())
}

/// Number of ranks by the node that they say they are on (`tests/mpi/hello.c`).
pub fn ranks_by_node(output: &str) -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    for line in output.lines().filter(|l| l.starts_with("rank ")) {
        let node = line.split(' ').skip_while(|w| *w != "node").nth(1);
        *all.entry(node.unwrap_or_default().to_owned()).or_default() += 1;
    }
    all
}

/// Waits until nothing of any job is left: no process, none of these either, no files of
/// plugins.
#[track_caller]
pub fn until_nothing_is_left(c: &Cluster, pids: &[i32]) {
    c.until_no_job_processes();
    until_gone(pids);
    wait::until_true("no files of plugins are left", || {
        (0..c.nodes.len()).all(|at| plugin_files(&c.node_dir(at).join("spool")).is_empty())
    });
}

/// Waits until none of these processes is there.
#[track_caller]
pub fn until_gone(pids: &[i32]) {
    wait::until_true("all ranks have gone", || pids.iter().all(|pid| !system::is_alive(*pid)));
}

fn plugin_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.ends_with("plugins") {
            found.push(path);
        } else if path.is_dir() {
            found.extend(plugin_files(&path));
        }
    }
    found
}

/// A user on a login host where the front end for implicit scheduling is first in `PATH`.
#[derive(Debug)]
pub struct Innocent<'a> {
    /// The cluster of that host.
    pub cluster: &'a Cluster,
    /// Where the user is.
    pub folder: &'a Path,
    /// What `mpirun` really is there.
    pub mpi: Mpi,
}

impl Innocent<'_> {
    /// `mpirun` with these arguments.
    ///
    /// # Panics
    /// When the cluster's folder cannot be written.
    pub fn command(&self, args: &[&str]) -> Command {
        let dir = self.cluster.dir();
        let real = dir.join("real");
        if !real.exists() {
            fs::create_dir(&real).expect("a folder");
            // No link: MPICH's looks for its helpers beside the name that it was called by.
            let text = format!("#!/bin/sh\nexec {} \"$@\"\n", self.mpi.launcher());
            fs::write(real.join("mpirun"), text).expect("a file");
            let mode = Permissions::from_mode(0o755);
            fs::set_permissions(real.join("mpirun"), mode).expect("own");
        }
        let implicit = plugin_folder().join("implicit");
        let usual = ["/usr/bin".into(), "/bin".into()];
        let path: Vec<PathBuf> = [implicit.clone(), real, dir.join("bin")]
            .into_iter()
            .chain(usual)
            .collect();
        let mut command = Command::new(implicit.join("mpirun"));
        command
            .args(args)
            .current_dir(self.folder)
            .env_clear()
            .env("PATH", std::env::join_paths(path).expect("no ':' in it"))
            .env("COSY_SOCKET", self.cluster.socket())
            .env("COSY_PLUGIN_PATH", plugin_folder())
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        run::run(&mut self.command(args))
    }
}
