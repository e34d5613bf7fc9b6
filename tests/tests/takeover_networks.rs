//! Controllers on hosts that vanish from networks: no connection is closed, nobody is told, packets do
//! not come. Another one goes on, jobs notice nothing, and who comes back begins anew.
//!
//! ```text
//!   network 1: the database    2: n1 n2     3: n3 n4     4: the second database
//!        │                       │            │            │
//!        ├── c1 ─────────────────┼────────────┼────────────┤
//!        └── c2 ─────────────────┴────────────┴────────────┘
//! ```

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_client::{Caller, RetryPolicy};
use cosy_model::api::Request;
use cosy_model::{JobId, JobState};
use cosy_postgres::Server;
use cosy_tests::cluster::Controllers;
use cosy_tests::networks::{self, Cut};
use cosy_tests::{Cluster, Options, script, system, wait};
use nix::sys::signal::Signal;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DATABASE: usize = 1;
const FIRST_NODES: usize = 2;
const OTHER_NODES: usize = 3;
const SECOND_DATABASE: usize = 4;
const EVERYTHING: [usize; 4] = [DATABASE, FIRST_NODES, OTHER_NODES, SECOND_DATABASE];
const NODES: usize = 4;
/// What a host that comes back finds is older than any silence of a connection.
const LONG: Duration = Duration::from_secs(8);

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n[1-4]\"\n\
    [[queue]]\nname = \"n1\"\nnodes = \"n1\"\n[[queue]]\nname = \"n2\"\nnodes = \"n2\"\n\
    [[queue]]\nname = \"n3\"\nnodes = \"n3\"\n[[queue]]\nname = \"n4\"\nnodes = \"n4\"\n";

struct Lab {
    cluster: Cluster,
    held: Vec<(JobId, usize)>,
    /// The one that is written to, and one that follows it.
    servers: [Server; 2],
    _folder: TempDir,
}

fn servers(folder: &TempDir) -> [Server; 2] {
    let access = folder.path().join("access");
    let lines =
        "local all all trust\nlocal replication all trust\nhost all all 10.78.0.0/16 trust\n";
    fs::write(&access, lines).unwrap();
    let options = |network| cosy_postgres::Options {
        settings: vec![
            format!("listen_addresses = '{}'", networks::here(network)),
            format!("hba_file = '{}'", access.display()),
        ],
        careless: true,
        ends_with_thread: true,
    };
    let first = Server::start(&folder.path().join("s1"), options(DATABASE)).unwrap();
    let second = first.follower(&folder.path().join("s2"), options(SECOND_DATABASE));
    let second = second.unwrap();
    [first, second]
}

/// Controllers of which the first leads, and a job on each node; nothing where the machine does not
/// allow it.
fn lab() -> Option<Lab> {
    if !system::postgres_or_skip() || !networks::enter_or_skip(2, EVERYTHING.len()) {
        return None;
    }
    let folder = cosy_postgres::own_temporary().unwrap();
    let servers = servers(&folder);
    let hosts = [DATABASE, SECOND_DATABASE].map(networks::here).join(",");
    let database = format!("host={hosts} user=cosy dbname=cosy");
    let controllers = Controllers {
        databases: vec![database; 2],
        store: String::new(),
        ways: Vec::new(),
    };
    let options = Options {
        controllers: Some(controllers),
        host: "0.0.0.0",
        policy: "heartbeat = \"1s\"\nnode_timeout = \"120s\"\ngrace = \"1s\"\n".into(),
        queues: Some(QUEUES.into()),
        entry: |_| "login = true".into(),
        noded: |n| format!("socket = \"DIR/n{n}.sock\"\n"),
        ..Options::default()
    };
    let mut cluster = Cluster::prepare(NODES, options);
    let ports = cluster.controller_ports();
    let ways = |node: usize| {
        let network = if node < NODES / 2 {
            FIRST_NODES
        } else {
            OTHER_NODES
        };
        let each = ports.iter().enumerate();
        each.map(|(at, port)| format!("{}:{port}", networks::address(at + 1, network)))
            .collect()
    };
    cluster.reconfigure(|options| {
        if let Some(all) = &mut options.controllers {
            all.ways = (0..NODES).map(ways).collect();
        }
    });
    for at in 0..2 {
        cluster.controller(at).before = networks::before(at + 1);
    }
    let mut lab = Lab {
        cluster: cluster.start_prepared(),
        held: Vec::new(),
        servers,
        _folder: folder,
    };
    lab.cluster.until_leads(0);
    lab.cluster.until_stands_by(1, 0);
    lab.held = (1..=NODES).map(|node| (lab.held_job(node), node)).collect();
    Some(lab)
}

impl Lab {
    fn go(&self) -> PathBuf {
        self.cluster.work().join("go")
    }

    /// A job that runs on a node until it may go.
    fn held_job(&self, node: usize) -> JobId {
        let work = self.cluster.work();
        let text = format!(
            "echo ran >> {}/ran.{node}; while [ ! -e {} ]; do sleep 0.1; done; exit {}",
            work.display(),
            self.go().display(),
            node + 10
        );
        let mut job = script(&work, &text);
        job.spec.queue = Some(format!("n{node}"));
        let job = self.cluster.submit(&job);
        self.cluster.until_state(job, JobState::Running);
        job
    }

    /// A job on each of these nodes runs to its end.
    fn runs_on(&self, nodes: impl Iterator<Item = usize>) {
        let submit = |node: usize| {
            let mut job = script(&self.cluster.work(), &format!("exit {node}"));
            job.spec.queue = Some(format!("n{node}"));
            (node, self.cluster.submit(&job))
        };
        let jobs: Vec<(usize, JobId)> = nodes.map(submit).collect();
        for (node, job) in jobs {
            let outcome = self.cluster.until_end(job).outcome();
            assert_eq!(outcome, (JobState::Failed, node as i64));
        }
    }

    /// The jobs that ran through all of it end, and have run once.
    fn end(self) {
        fs::write(self.go(), "").unwrap();
        for (job, node) in &self.held {
            let row = self.cluster.until_end(*job);
            let code = i64::try_from(node + 10).unwrap();
            assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, code), 1));
            let ran = self.cluster.work().join(format!("ran.{node}"));
            assert_eq!(fs::read_to_string(ran).unwrap(), "ran\n");
        }
        self.cluster.until_no_job_processes();
    }

    fn relay(&self, node: usize) -> PathBuf {
        self.cluster.dir().join(format!("n{node}.sock"))
    }

    /// Gives a command at each of several places that changes something, and tells how long it waits.
    fn until_answered(&self, from: &str) {
        let all = self.cluster.sockets();
        let places: [(&str, Vec<PathBuf>); 4] = [
            ("on n1", vec![self.relay(1)]),
            ("on n4", vec![self.relay(4)]),
            ("on c1's host", all.clone()),
            ("on c2's host", all.into_iter().rev().collect()),
        ];
        let job = script(&self.cluster.work(), "true");
        let (job, begun) = (&job, Instant::now());
        std::thread::scope(|scope| {
            for (place, sockets) in places {
                scope.spawn(move || {
                    let mut caller = Caller::of_sockets(sockets, RetryPolicy::default(), |_| {});
                    let answer = caller.ask(Request::Submit(Box::new(job.clone())));
                    eprintln!("{from}: a command {place} was answered after {:?}", begun.elapsed());
                    assert!(answer.is_ok(), "{place}: {:?}", answer.err());
                });
            }
        });
    }
}

fn a_leader_vanishes(how: Cut) {
    let Some(lab) = lab() else { return };
    EVERYTHING
        .iter()
        .for_each(|network| networks::cut(1, *network, how));
    let cut = Instant::now();
    lab.until_answered(&format!("the leader's host has vanished ({how:?})"));
    lab.cluster.until_leads(1);
    lab.runs_on(1..=NODES);
    // Its connections are older than what any of them bears.
    std::thread::sleep(LONG.saturating_sub(cut.elapsed()));
    EVERYTHING
        .iter()
        .for_each(|network| networks::mend(1, *network, how));
    lab.cluster.until_begins_anew(0);
    lab.cluster.until_leads(1);
    lab.cluster.until_stands_by(0, 1);
    // It is as good as before.
    lab.cluster.run(&["cadm", "takeover", "c1"]).expect(0);
    lab.cluster.until_leads(0);
    lab.runs_on(1..=NODES);
    lab.end();
}

#[test]
fn the_leader_vanishes_and_nobody_is_told() {
    a_leader_vanishes(Cut::Silence);
}

#[test]
fn the_leaders_cables_are_pulled() {
    a_leader_vanishes(Cut::Cable);
}

#[test]
fn the_leader_is_cut_from_its_database() {
    let Some(lab) = lab() else { return };
    let both = [DATABASE, SECOND_DATABASE];
    both.iter()
        .for_each(|network| networks::cut(1, *network, Cut::Silence));
    lab.until_answered("the leader's database has vanished");
    lab.cluster.until_leads(1);
    lab.runs_on(1..=NODES);
    both.iter()
        .for_each(|network| networks::mend(1, *network, Cut::Silence));
    lab.cluster.until_begins_anew(0);
    lab.cluster.until_leads(1);
    lab.cluster.until_stands_by(0, 1);
    lab.end();
}

/// Whoever is told to stop stops, also where the database cannot be told of it.
#[test]
fn a_leader_without_its_database_can_be_stopped() {
    let Some(mut lab) = lab() else { return };
    EVERYTHING
        .iter()
        .for_each(|network| networks::cut(1, *network, Cut::Silence));
    lab.cluster.until_leads(1);
    lab.cluster.cosyd.signal(Signal::SIGTERM);
    assert!(lab.cluster.cosyd.await_end().success());
    lab.runs_on(1..=NODES);
    lab.end();
}

#[test]
fn the_leader_is_cut_from_half_of_its_nodes() {
    let Some(lab) = lab() else { return };
    networks::cut(1, FIRST_NODES, Cut::Silence);
    // It leads on, as it must: with the other half.
    lab.runs_on(NODES / 2 + 1..=NODES);
    lab.cluster.until_leads(0);
    // The other controller reaches all.
    lab.cluster.run(&["cadm", "takeover"]).expect(0);
    lab.until_answered("half of the nodes have vanished, and the lead is handed over");
    lab.cluster.until_leads(1);
    lab.runs_on(1..=NODES);
    networks::mend(1, FIRST_NODES, Cut::Silence);
    lab.cluster.until_leads(1);
    lab.cluster.until_stands_by(0, 1);
    lab.end();
}

/// A host that has gone refuses no connection. Whoever leads then finds the one that was promoted.
#[test]
fn the_host_of_the_database_vanishes() {
    let Some(mut lab) = lab() else { return };
    let last = "SELECT pg_current_wal_lsn()";
    let last = lab.servers[0].sql(last).unwrap();
    let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{last}'");
    wait::until_true("the second database has all", || {
        lab.servers[1].sql(&reached).unwrap() == "t"
    });
    (1..=2).for_each(|host| networks::cut(host, DATABASE, Cut::Silence));
    lab.servers[0].kill();
    lab.servers[1].promote().unwrap();
    lab.until_answered("the host of the database has vanished");
    lab.runs_on(1..=NODES);
    // While that host is away, others take over as fast as ever.
    lab.cluster.cosyd.kill();
    lab.until_answered("and the leader was killed");
    lab.cluster.until_leads(1);
    lab.runs_on(1..=NODES);
    lab.end();
}

#[test]
fn a_standby_vanishes() {
    let Some(lab) = lab() else { return };
    let begun = Instant::now();
    EVERYTHING
        .iter()
        .for_each(|network| networks::cut(2, *network, Cut::Silence));
    lab.until_answered("the standby's host has vanished");
    lab.runs_on(1..=NODES);
    std::thread::sleep(LONG.saturating_sub(begun.elapsed()));
    EVERYTHING
        .iter()
        .for_each(|network| networks::mend(2, *network, Cut::Silence));
    lab.cluster.until_leads(0);
    lab.cluster.until_stands_by(1, 0);
    // It has missed nothing.
    lab.cluster.run(&["cadm", "takeover"]).expect(0);
    lab.cluster.until_leads(1);
    lab.runs_on(1..=NODES);
    lab.end();
}
