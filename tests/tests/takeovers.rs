//! Takeovers at random moments, by whatever fails, while clients submit and cancel and jobs run: what
//! was acknowledged is there, every job has run once.
//!
//! Two controllers, two database servers of which one follows the other, three nodes. The way from each
//! controller to each server and from each node to each controller is one that can be cut.
//! `COSY_TAKEOVERS=300` makes a long run of it.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_client::{CallError, Caller, RetryPolicy, new_key};
use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, JobState, RefusalCode};
use cosy_postgres::Server;
use cosy_tests::cluster::{Controllers, cancel_request};
use cosy_tests::proxy::{Proxy, Target};
use cosy_tests::{Chance, Client, Cluster, Options, Row, marked, system, wait};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NODES: usize = 3;
const CONTROLLERS: usize = 2;
const CLIENTS: usize = 3;
/// Of the leader, so that a run takes no longer than it must.
const LEASE: Duration = Duration::from_secs(2);
/// Rounds where nothing else is said.
const ROUNDS: usize = 8;

/// Two database servers: one that is written to, and one that follows.
struct Databases {
    folder: TempDir,
    first: Server,
    second: Server,
    /// Which of the two places each is at.
    places: [usize; 2],
    number: usize,
}

impl Databases {
    fn options() -> cosy_postgres::Options {
        cosy_postgres::Options {
            ends_with_thread: true,
            ..Default::default()
        }
    }

    fn start() -> Self {
        let folder = cosy_postgres::own_temporary().unwrap();
        let first = Server::start(&folder.path().join("s0"), Self::options()).unwrap();
        let second = first
            .follower(&folder.path().join("s1"), Self::options())
            .unwrap();
        let both = Self {
            folder,
            first,
            second,
            places: [0, 1],
            number: 2,
        };
        both.wait_for_each_other();
        both
    }

    /// From now on the first acknowledges only what the second has.
    fn wait_for_each_other(&self) {
        let name = self
            .second
            .directory()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        let waits = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
        self.first.sql(&waits).unwrap();
        self.first.sql("SELECT pg_reload_conf()").unwrap();
        wait::until_true("the follower is waited for", || {
            let state = self.first.sql("SELECT sync_state FROM pg_stat_replication");
            state.is_ok_and(|state| state == "sync")
        });
    }

    /// The socket of the server at a place.
    fn socket(&self, place: usize) -> PathBuf {
        let server = match self.places[0] == place {
            true => &self.first,
            false => &self.second,
        };
        server.directory().join(".s.PGSQL.5432")
    }

    /// The first fails, the second takes its place, and another one follows that.
    fn fail_over(&mut self) {
        self.first.kill();
        self.second.promote().unwrap();
        // Nobody follows it yet.
        self.second
            .sql("ALTER SYSTEM SET synchronous_standby_names = ''")
            .unwrap();
        self.second.sql("SELECT pg_reload_conf()").unwrap();
        let path = self.folder.path().join(format!("s{}", self.number));
        self.number += 1;
        let new = self.second.follower(&path, Self::options()).unwrap();
        let former = std::mem::replace(&mut self.second, new);
        let failed = std::mem::replace(&mut self.first, former);
        let directory = failed.directory().to_owned();
        drop(failed);
        let _ = fs::remove_dir_all(directory);
        self.places.swap(0, 1);
        self.wait_for_each_other();
    }
}

/// Ways of each controller to the two places of servers, as files that lead to the sockets.
struct House {
    cluster: Cluster,
    databases: Databases,
    /// By controller and place.
    to_databases: Vec<Vec<Proxy>>,
    /// By node and controller.
    to_controllers: Vec<Vec<Proxy>>,
    links: TempDir,
}

impl House {
    fn start() -> Self {
        let databases = Databases::start();
        let links = cosy_postgres::own_temporary().unwrap();
        let link = |place: usize| links.path().join(format!("place{place}"));
        let ways = |_| {
            let places = (0..2).map(|place| Proxy::to(Target::Socket(link(place))));
            places.collect::<Vec<_>>()
        };
        let to_databases: Vec<Vec<Proxy>> = (0..CONTROLLERS).map(ways).collect();
        let way = |ways: &Vec<Proxy>| {
            let ports = [ways[0].port(), ways[1].port()];
            format!("host=127.0.0.1,127.0.0.1 port={},{} user=cosy dbname=cosy", ports[0], ports[1])
        };
        let controllers = Controllers {
            databases: to_databases.iter().map(way).collect(),
            store: format!("lease = \"{}s\"\ndurability = \"replicated\"", LEASE.as_secs()),
            ways: Vec::new(),
        };
        let options = Options {
            controllers: Some(controllers),
            cores: 16,
            policy: "heartbeat = \"1s\"\nnode_timeout = \"120s\"\ngrace = \"1s\"\n".into(),
            ..Options::default()
        };
        let mut cluster = Cluster::prepare(NODES, options);
        let ports = cluster.controller_ports();
        let ways = |_| {
            ports
                .iter()
                .map(|port| Proxy::to(Target::Port(*port)))
                .collect()
        };
        let to_controllers: Vec<Vec<Proxy>> = (0..NODES).map(ways).collect();
        cluster.reconfigure(|options| {
            let ports = |ways: &Vec<Proxy>| ways.iter().map(Proxy::port).collect();
            if let Some(all) = &mut options.controllers {
                all.ways = to_controllers.iter().map(ports).collect();
            }
        });
        let mut house = Self {
            cluster,
            databases,
            to_databases,
            to_controllers,
            links,
        };
        house.link();
        house.cluster = house.cluster.start_prepared();
        house
    }

    /// The places lead to the servers that are there now.
    fn link(&self) {
        for place in 0..2 {
            let (new, path) =
                (self.links.path().join("new"), self.links.path().join(format!("place{place}")));
            std::os::unix::fs::symlink(self.databases.socket(place), &new).unwrap();
            fs::rename(new, path).unwrap();
        }
    }

    /// Waits until a controller leads and answers; which one (counted from 0).
    fn leader(&self) -> usize {
        wait::until("a controller leads", || {
            self.cluster.sockets().iter().position(|socket| {
                let pong =
                    Client::impatient(socket).and_then(|mut client| client.ask(Request::Ping));
                matches!(pong, Ok(Reply::Pong { .. }))
            })
        })
    }

    /// Waits until the others stand by.
    fn until_all_are_there(&mut self) {
        for at in 0..CONTROLLERS {
            self.cluster.controller(at).await_ready();
        }
        wait::until_true("one leads and one stands by", || {
            let answers: Vec<Reply> = self
                .cluster
                .sockets()
                .iter()
                .filter_map(|socket| Client::impatient(socket).ok()?.ask(Request::Ping).ok())
                .collect();
            let leads = |reply: &&Reply| matches!(reply, Reply::Pong { .. });
            let stands_by = |reply: &&Reply| matches!(reply, Reply::Refused(r) if r.code == RefusalCode::Standby);
            answers.iter().filter(leads).count() == 1
                && answers.iter().filter(stands_by).count() == CONTROLLERS - 1
        });
    }

    /// Something fails, and is mended when another goes on.
    fn fail(&mut self, chance: &mut Chance, counts: &mut BTreeMap<&'static str, usize>) {
        let leader = self.leader();
        let other = 1 - leader;
        let what = [
            "kill",
            "freeze",
            "cut from the database",
            "cut from nodes and killed",
            "hand over",
            "database",
            "both",
        ];
        let what = what[chance.below(what.len() as u64) as usize];
        *counts.entry(what).or_default() += 1;
        eprintln!("{what}: c{}", leader + 1);
        let begun = Instant::now();
        match what {
            "kill" => {
                self.cluster.controller(leader).kill();
                self.until_leads(other);
                self.cluster.start_controller(leader);
            }
            "freeze" => {
                self.cluster.controller(leader).signal(Signal::SIGSTOP);
                self.until_leads(other);
                // It thaws while the other one works.
                std::thread::sleep(Duration::from_millis(chance.below(1500)));
                self.cluster.controller(leader).signal(Signal::SIGCONT);
            }
            "cut from the database" => {
                self.to_databases[leader].iter().for_each(Proxy::cut);
                self.until_leads(other);
                std::thread::sleep(Duration::from_millis(chance.below(1000)));
                self.to_databases[leader].iter().for_each(Proxy::mend);
            }
            "cut from nodes and killed" => {
                // Half of the nodes do not hear the next one for a while.
                let half = &self.to_controllers[..NODES / 2 + 1];
                half.iter().for_each(|ways| ways[other].cut());
                self.cluster.controller(leader).kill();
                self.until_leads(other);
                std::thread::sleep(Duration::from_millis(chance.below(2000)));
                let half = &self.to_controllers[..NODES / 2 + 1];
                half.iter().for_each(|ways| ways[other].mend());
                self.cluster.start_controller(leader);
            }
            "hand over" => {
                self.cluster.run(&["cadm", "takeover"]).expect(0);
                self.until_leads(other);
            }
            "database" => {
                self.databases.fail_over();
                self.link();
            }
            _ => {
                self.cluster.controller(leader).kill();
                self.databases.fail_over();
                self.link();
                self.until_leads(other);
                self.cluster.start_controller(leader);
            }
        }
        eprintln!("  {:?}", begun.elapsed());
        self.until_all_are_there();
    }

    fn until_leads(&self, at: usize) {
        let socket = self.cluster.sockets()[at].clone();
        wait::until_true("the other one leads", || {
            let pong = Client::impatient(&socket).and_then(|mut client| client.ask(Request::Ping));
            matches!(pong, Ok(Reply::Pong { .. }))
        });
    }
}

/// A submission that was acknowledged.
struct Known {
    id: JobId,
    exit: i64,
    cancelled: bool,
}

/// Submits and cancels until told to stop; each request with one key until it is answered.
fn client(
    sockets: Vec<PathBuf>,
    (work, marks): (&Path, &Path),
    mut chance: Chance,
    (stop, errors): (&AtomicBool, &AtomicU64),
) -> Vec<Known> {
    let retry = RetryPolicy {
        answer_timeout: Duration::from_secs(2),
        ..RetryPolicy::default()
    };
    let mut caller = Caller::of_sockets(sockets, retry, |_| {});
    let mut known: Vec<Known> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let exit = chance.below(4) as i64;
        let sleep = format!("{}.{}", chance.below(3), chance.below(10));
        let submission = marked(work, marks, &sleep, exit);
        match insist(&mut caller, Request::Submit(Box::new(submission)), errors) {
            Reply::Submitted { job: id, .. } => known.push(Known {
                id,
                exit,
                cancelled: false,
            }),
            other => panic!("not submitted: {other:?}"),
        }
        if chance.one_in(6) {
            let at = chance.below(known.len() as u64) as usize;
            let reply = insist(&mut caller, cancel_request(known[at].id), errors);
            known[at].cancelled |= matches!(reply, Reply::Done { changed, .. } if changed > 0);
        }
        std::thread::sleep(Duration::from_millis(50 + chance.below(150)));
    }
    known
}

/// An answer, however often the command fails: how often is counted.
fn insist(caller: &mut Caller, request: Request, errors: &AtomicU64) -> Reply {
    let key = new_key();
    let begun = Instant::now();
    loop {
        match caller.ask_with_key(request.clone(), Some(key)) {
            Ok(reply) => return reply,
            Err(CallError::Refused(refusal)) if refusal.code != RefusalCode::Unavailable => {
                return Reply::Refused(refusal);
            }
            Err(e) => {
                errors.fetch_add(1, Ordering::Relaxed);
                eprintln!("a command failed: {e}");
                assert!(begun.elapsed() < Duration::from_secs(120), "{e}");
            }
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_runs_twice() {
    if !system::postgres_or_skip() {
        return;
    }
    let rounds = std::env::var("COSY_TAKEOVERS")
        .ok()
        .and_then(|n| n.parse().ok());
    let rounds: usize = rounds.unwrap_or(ROUNDS);
    let mut chance = Chance::from_environment();
    let mut house = House::start();
    let (work, marks) = (house.cluster.work(), house.cluster.work().join("marks"));
    fs::create_dir(&marks).unwrap();
    let (stop, errors) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut counts = BTreeMap::new();
    let sockets = house.cluster.sockets();
    let known: Vec<Known> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (chance, sockets) = (chance.split(), sockets.clone());
                let (work, marks, stop, errors) = (&work, &marks, &stop, &errors);
                scope.spawn(move || client(sockets, (work, marks), chance, (stop, errors)))
            })
            .collect();
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..rounds {
                std::thread::sleep(Duration::from_millis(chance.below(1500)));
                eprint!("{round}: ");
                house.fail(&mut chance, &mut counts);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        let known = clients
            .into_iter()
            .flat_map(|c| c.join().unwrap())
            .collect();
        if failed.is_err() {
            panic!("{}", house.cluster.logs());
        }
        known
    });
    eprintln!("{counts:?}; {} commands failed", errors.load(Ordering::Relaxed));
    check(&house, &known, &marks);
}

fn check(house: &House, known: &[Known], marks: &Path) {
    let cluster = &house.cluster;
    eprintln!("{} submissions were acknowledged", known.len());
    let ids: BTreeSet<JobId> = known.iter().map(|k| k.id).collect();
    assert_eq!(ids.len(), known.len(), "an id was given out twice");
    let rows = wait::until("all jobs have ended", || {
        let table = cluster.client().history(Default::default()).ok()?;
        let rows: BTreeMap<JobId, Row> = Row::all(&table).into_iter().map(|r| (r.id, r)).collect();
        assert_eq!(rows.len(), table.rows, "a job is listed twice");
        let ended = |id: &JobId| rows.get(id).is_some_and(|r| r.state.is_end());
        ids.iter().all(ended).then_some(rows)
    });
    for id in rows.keys() {
        assert!(ids.contains(id), "job {id} was not acknowledged");
    }
    for k in known {
        let row = &rows[&k.id];
        let text = fs::read_to_string(marks.join(k.id.to_string())).unwrap_or_default();
        let count = |word: &str| text.lines().filter(|l| l.starts_with(word)).count();
        let (starts, ends) = (count("start"), count("end"));
        assert!(starts <= 1, "started more than once: {row:?}\n{text}");
        match row.state {
            JobState::Completed | JobState::Failed => {
                assert_eq!((row.exit_code.unwrap_or(0), starts, ends), (k.exit, 1, 1), "{row:?}");
            }
            JobState::Cancelled => assert!(k.cancelled, "nobody cancelled it: {row:?}"),
            other => panic!("{other} is no end that this could have: {row:?}"),
        }
    }
    cluster.until_no_job_processes();
}
