//! A controller and some node daemons in a temporary directory.

mod config;
mod files;
mod options;
mod samples;

pub use files::new_key;
use files::{COMMANDS, free_port, link_programs, read_key};
pub use options::{Controllers, Options};

use crate::client::Client;
use crate::daemon::{Daemon, keep_private};
use crate::job::Row;
use crate::run::{Output, run};
use crate::{client, programs, system, wait};
use cosy_model::api::{JobFilter, JobRef, NodeInfo, Reply, Request, Submission};
use cosy_model::{JobId, JobState};
use cosy_proto::keys::KeyPair;
use nix::sys::signal::Signal;
use nix::unistd::pipe;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A running cluster. When it is dropped, nothing of it is left.
#[derive(Debug)]
pub struct Cluster {
    /// The controller's daemon.
    pub cosyd: Daemon,
    /// Further controllers.
    pub others: Vec<Daemon>,
    /// The node daemons of n1, n2 ...
    pub nodes: Vec<Daemon>,
    keys: Vec<String>,
    options: Options,
    port: u16,
    /// Of further controllers.
    ports: Vec<u16>,
    lifeline: OwnedFd,
    lifeline_end: Option<OwnedFd>,
    // The last field: the directory goes when everything else has gone.
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster of that many nodes and waits until it is ready.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(nodes: usize, options: Options) -> Self {
        Self::prepare(nodes, options).start_prepared()
    }

    /// Starts what [`Self::prepare`] has made and waits until it is ready.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_prepared(mut self) -> Self {
        self.start_cosyd();
        if !self.others.is_empty() {
            // The first one leads.
            drop(self.client());
        }
        for other in &mut self.others {
            other.start(self.lifeline.as_fd());
            other.await_ready();
        }
        for at in 0..self.nodes.len() {
            self.start_noded(at);
        }
        self.nodes.iter_mut().for_each(Daemon::await_ready);
        self
    }

    /// Writes all files, starts nothing.
    ///
    /// # Panics
    /// When it cannot.
    pub fn prepare(nodes: usize, options: Options) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("cosy-e2e-")
            .tempdir()
            .expect("a temporary directory");
        let path = dir.path();
        fs::set_permissions(path, Permissions::from_mode(0o711)).expect("its own directory");
        for name in ["bin", "run", "log", "work"] {
            fs::create_dir(path.join(name)).expect("a folder");
        }
        fs::set_permissions(path.join("work"), Permissions::from_mode(0o1777)).expect("own");
        link_programs(&path.join("bin"));
        let (lifeline, end) = pipe().expect("a pipe");
        keep_private(&lifeline);
        keep_private(&end);
        let log = |name: &str| path.join("log").join(name);
        let bin = programs::folder();
        let mut cosyd = Daemon::new(&bin.join("cosyd"), &path.join("cosy.toml"), &log("cosyd"));
        cosyd.variables.clone_from(&options.variables);
        let further = options
            .controllers
            .as_ref()
            .map_or(0, |all| all.databases.len() - 1);
        let others = (2..2 + further).map(|number| {
            let config = path.join(format!("cosy{number}.toml"));
            let mut other =
                Daemon::new(&bin.join("cosyd"), &config, &log(&format!("cosyd{number}")));
            other.args = vec!["--name".into(), format!("c{number}")];
            other.variables.clone_from(&options.variables);
            other
        });
        let others: Vec<Daemon> = others.collect();
        if options.controllers.is_some() {
            cosyd.args = vec!["--name".into(), "c1".into()];
        }
        let mut cluster = Self {
            cosyd,
            others,
            ports: (0..further).map(|_| free_port()).collect(),
            nodes: Vec::new(),
            keys: Vec::new(),
            options,
            port: free_port(),
            lifeline,
            lifeline_end: Some(end),
            dir,
        };
        fs::create_dir_all(cluster.state_dir()).expect("a folder");
        new_key(&cluster.dir().join("cosyd.key"));
        for number in 1..=nodes {
            cluster.add_node(number);
        }
        cluster.write_config();
        cluster
    }

    fn add_node(&mut self, number: usize) {
        let folder = self.node_dir(number - 1);
        fs::create_dir(&folder).expect("a folder");
        self.keys.push(new_key(&folder.join("key")));
        let bin = programs::folder();
        let log = self.dir().join("log").join(format!("n{number}"));
        let mut daemon = Daemon::new(&bin.join("noded"), &folder.join("noded.toml"), &log);
        if self.options.virtual_nodes > 0 {
            let count = self.options.virtual_nodes.to_string();
            daemon.args.extend(["--virtual".into(), count]);
        }
        self.nodes.push(daemon);
    }

    /// Adds a node to the configuration files; its daemon is not started and the
    /// controller not told.
    pub fn grow(&mut self) {
        self.add_node(self.nodes.len() + 1);
        self.write_config();
    }

    /// Changes the options and writes the configuration files anew; nobody is told.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut Options)) {
        change(&mut self.options);
        self.write_config();
    }

    /// Starts the controller and waits until it is ready. Nodes find it again.
    ///
    /// # Panics
    /// When it does not become ready.
    pub fn start_cosyd(&mut self) {
        self.cosyd.start(self.lifeline.as_fd());
        self.cosyd.await_ready();
    }

    /// Starts a node daemon (counted from 0); does not wait until it is ready.
    pub fn start_noded(&mut self, at: usize) {
        self.nodes[at].start(self.lifeline.as_fd());
    }

    /// Starts the controller without waiting.
    pub fn start_cosyd_only(&mut self) {
        self.cosyd.start(self.lifeline.as_fd());
    }

    /// The reading end of the lifeline, for other daemons of a test.
    pub fn lifeline(&self) -> &OwnedFd {
        &self.lifeline
    }

    /// Directory with the files of all daemons of the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Working directory of the test's jobs.
    pub fn work(&self) -> PathBuf {
        self.dir().join("work")
    }

    /// Where the controller keeps its state.
    pub fn state_dir(&self) -> PathBuf {
        let usual = || self.dir().join("state");
        self.options.state_dir.clone().unwrap_or_else(usual)
    }

    /// A node daemon's folder (counted from 0).
    pub fn node_dir(&self, at: usize) -> PathBuf {
        self.dir().join(format!("node{}", at + 1))
    }

    /// The socket for commands.
    pub fn socket(&self) -> PathBuf {
        self.dir().join("run/cosyd.sock")
    }

    /// The sockets of all controllers.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let further = (0..self.ports.len()).map(|at| {
            let name = format!("run/cosyd{}.sock", at + 2);
            self.dir().join(name)
        });
        std::iter::once(self.socket()).chain(further).collect()
    }

    /// A controller (counted from 0).
    pub fn controller(&mut self, at: usize) -> &mut Daemon {
        match at.checked_sub(1) {
            None => &mut self.cosyd,
            Some(further) => &mut self.others[further],
        }
    }

    /// Starts a controller (counted from 0); does not wait until it is ready.
    pub fn start_controller(&mut self, at: usize) {
        match at.checked_sub(1) {
            None => self.cosyd.start(self.lifeline.as_fd()),
            Some(further) => self.others[further].start(self.lifeline.as_fd()),
        }
    }

    /// Where the controller listens for nodes.
    pub fn address(&self) -> String {
        format!("{}:{}", self.options.host, self.port)
    }

    /// The controller's key.
    ///
    /// # Panics
    /// Never: it was written.
    pub fn controller_key(&self) -> KeyPair {
        read_key(&self.dir().join("cosyd.key"))
    }

    /// A node's key (counted from 0).
    ///
    /// # Panics
    /// Never: it was written.
    pub fn node_key(&self, at: usize) -> KeyPair {
        read_key(&self.node_dir(at).join("key"))
    }

    /// Copies the commands into the cluster's folder, where every user can run them.
    ///
    /// # Panics
    /// When they cannot be copied.
    pub fn open_commands(&self) {
        let bin = self.dir().join("bin");
        let copy = bin.join("copy");
        fs::copy(programs::folder().join("cosy"), &copy).expect("a copy");
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).expect("own");
        for name in COMMANDS {
            fs::remove_file(bin.join(name)).expect("a link");
            fs::hard_link(&copy, bin.join(name)).expect("a link");
        }
    }

    /// From now on the cluster's commands are those of that folder.
    ///
    /// # Panics
    /// When they cannot be linked.
    pub fn link_commands(&self, folder: &Path) {
        for name in COMMANDS {
            let link = self.dir().join("bin").join(name);
            fs::remove_file(&link).expect("a link");
            symlink(folder.join("cosy"), link).expect("a link");
        }
    }

    /// A command line such as `csub --wait -- true`, to be run in the work folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.dir().join("bin").join(words[0]));
        command
            .args(&words[1..])
            .current_dir(self.work())
            .env("COSY_SOCKET", std::env::join_paths(self.sockets()).expect("no colons"))
            .env("PATH", self.path_variable());
        command
    }

    /// The commands first.
    fn path_variable(&self) -> String {
        let usual = std::env::var("PATH").unwrap_or_default();
        format!("{}/bin:{usual}", self.dir().display())
    }

    /// Runs a command line.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> Output {
        run(&mut self.command(words))
    }

    /// A connection to the controller.
    ///
    /// # Panics
    /// When there is none within a minute.
    #[track_caller]
    pub fn client(&self) -> Client {
        wait::until("the controller takes a connection", || self.try_client())
    }

    /// A connection to the controller that leads.
    fn try_client(&self) -> Option<Client> {
        if self.options.controllers.is_none() {
            return Client::connect(&self.socket()).ok();
        }
        let sockets = self.sockets();
        let leader = sockets.iter().find(|socket| client::leads(socket))?;
        Client::connect(leader).ok()
    }

    /// Asks on a connection of its own.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    pub fn ask(&self, request: Request) -> Reply {
        match self.client().ask(request) {
            Ok(reply) => reply,
            Err(e) => panic!("no answer: {e}\n{}", self.cosyd.last_words(10)),
        }
    }

    /// Submits.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn submit(&self, submission: &Submission) -> JobId {
        match self.client().submit(submission) {
            Ok(Ok(job)) => job,
            Ok(Err(refusal)) => panic!("refused: {refusal}"),
            Err(e) => panic!("no answer: {e}\n{}", self.cosyd.last_words(10)),
        }
    }

    /// Ends a job.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn cancel(&self, job: JobId) {
        let reply = self.ask(cancel_request(job));
        assert!(matches!(&reply, Reply::Done { changed: 1, .. }), "{reply:?}");
    }

    /// All rows of a job, when it is known and the controller is there.
    pub fn rows(&self, job: JobRef) -> Option<Vec<Row>> {
        let (table, _) = self.try_client()?.explain(job).ok()?;
        Some(Row::all(&table))
    }

    /// A job as it is now.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn row(&self, job: JobId) -> Row {
        wait::until("the job is there", || self.try_row(job))
    }

    fn try_row(&self, job: JobId) -> Option<Row> {
        self.rows(JobRef { job, task: None })?.into_iter().next()
    }

    /// Waits until a job's row is as wanted.
    ///
    /// # Panics
    /// When it does not become so in time.
    #[track_caller]
    pub fn until(&self, job: JobId, what: &str, good: impl Fn(&Row) -> bool) -> Row {
        let start = std::time::Instant::now();
        loop {
            let row = self.try_row(job);
            if let Some(row) = row.as_ref().filter(|r| good(r)) {
                return row.clone();
            }
            if start.elapsed() > wait::PATIENCE {
                panic!("job {job} is still not {what}: {row:?}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a job is in that state.
    #[track_caller]
    pub fn until_state(&self, job: JobId, state: JobState) -> Row {
        self.until(job, state.word(), |r| r.state == state || r.state.is_end())
            .expect_state(state)
    }

    /// Waits until a job has ended.
    #[track_caller]
    pub fn until_end(&self, job: JobId) -> Row {
        self.until(job, "ended", |r| r.state.is_end())
    }

    /// The nodes.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    pub fn node_infos(&self) -> Vec<NodeInfo> {
        match self.ask(Request::Nodes) {
            Reply::Nodes(nodes) => nodes,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until a node's state is as wanted.
    #[track_caller]
    pub fn until_node(&self, name: &str, what: &str, good: impl Fn(&NodeInfo) -> bool) -> NodeInfo {
        wait::until(&format!("node {name} is {what}"), || {
            let nodes = match Client::connect(&self.socket()).ok()?.ask(Request::Nodes) {
                Ok(Reply::Nodes(nodes)) => nodes,
                Ok(_) | Err(_) => return None,
            };
            nodes.into_iter().find(|n| n.name == name && good(n))
        })
    }

    /// All processes of this cluster.
    pub fn processes(&self) -> Vec<system::Process> {
        system::processes_with(&self.dir().display().to_string())
    }

    /// All of a node dies (counted from 0): its daemon, its supervisors, its tasks.
    ///
    /// # Panics
    /// Something of it stays.
    pub fn lose_node(&mut self, at: usize) {
        self.nodes[at].kill();
        // Tests beside this one have nodes of the same name.
        let cluster = self.dir().display().to_string();
        let folder = self.node_dir(at).display().to_string();
        let name = format!("COSY_NODENAME=n{}\0", at + 1);
        wait::until_true("nothing is left of the node", || {
            let left = system::processes_where(|words| {
                words.have(&folder) || words.have(&name) && words.have(&cluster)
            });
            left.iter().for_each(|p| p.kill(Signal::SIGKILL));
            left.is_empty()
        });
    }

    /// Shepherds and what they started: processes of this cluster that are no daemon.
    pub fn job_processes(&self) -> Vec<system::Process> {
        let daemon =
            |p: &system::Process| p.command.contains(" --config ") || p.name == system::NURSERY;
        self.processes()
            .into_iter()
            .filter(|p| !daemon(p))
            .collect()
    }

    /// Shepherds of this cluster's jobs that run now.
    pub fn shepherds(&self) -> Vec<system::Process> {
        let mut all = self.processes();
        all.retain(|p| p.name.starts_with("cosy:"));
        all
    }

    /// Waits until no job has any process left.
    #[track_caller]
    pub fn until_no_job_processes(&self) {
        let start = std::time::Instant::now();
        loop {
            let left = self.job_processes();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < wait::PATIENCE, "processes left: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Copies logs to the folder that `COSY_KEEP_LOGS` names, for faults that are rare.
    fn keep_logs(&self) {
        let Some(folder) = std::env::var_os("COSY_KEEP_LOGS").map(PathBuf::from) else {
            return;
        };
        let _ = fs::create_dir_all(&folder);
        for entry in fs::read_dir(self.dir().join("log"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let _ = fs::copy(entry.path(), folder.join(entry.file_name()));
        }
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let mut text = format!("--- cosyd\n{}\n", self.cosyd.last_words(15));
        for (at, other) in self.others.iter().enumerate() {
            let _ = writeln!(text, "--- cosyd{}\n{}", at + 2, other.last_words(15));
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "--- n{}\n{}", at + 1, node.last_words(10));
        }
        text
    }
}

impl Row {
    /// Itself, when it is in that state.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn expect_state(self, state: JobState) -> Self {
        assert_eq!(self.state, state, "{self:?}");
        self
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
            self.keep_logs();
        }
        for node in &self.nodes {
            node.signal(nix::sys::signal::Signal::SIGCONT);
        }
        self.cosyd.signal(nix::sys::signal::Signal::SIGCONT);
        self.lifeline_end = None;
        let patience = Duration::from_secs(10);
        self.nodes.iter_mut().for_each(|n| n.end_within(patience));
        self.cosyd.end_within(patience);
        let start = std::time::Instant::now();
        while !self.processes().is_empty() {
            if start.elapsed() > patience {
                let left = self.processes();
                left.iter()
                    .for_each(|p| p.kill(nix::sys::signal::Signal::SIGKILL));
                if !std::thread::panicking() {
                    panic!("the end of the lifeline left processes: {left:?}");
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The request that cancels a job.
pub fn cancel_request(job: JobId) -> Request {
    Request::Cancel {
        filter: only(job),
        signal: None,
        script_only: false,
        steps_only: false,
    }
}

/// A filter for one job.
pub fn only(job: JobId) -> JobFilter {
    JobFilter {
        ids: vec![JobRef { job, task: None }],
        ..JobFilter::default()
    }
}
