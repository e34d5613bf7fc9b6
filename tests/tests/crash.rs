//! At least 50 kill -9 of cosyd, node daemons and both at random moments, while clients
//! submit and cancel and jobs run: nothing is lost, nothing is doubled.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{HistoryEvent, Reply, Request};
use cosy_model::{JobId, JobState};
use cosy_tests::client::new_key;
use cosy_tests::cluster::cancel_request;
use cosy_tests::{Chance, Client, Cluster, Options, Row, marked, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KILLS: usize = 60;
const NODES: usize = 3;
const CLIENTS: u64 = 4;

/// A submission that was acknowledged.
struct Known {
    id: JobId,
    exit: i64,
    cancelled: bool,
}

#[test]
fn kill_9_at_random_moments() {
    let mut chance = Chance::from_environment();
    let policy = "heartbeat = \"1s\"\nnode_timeout = \"60s\"\ngrace = \"1s\"\n".to_owned();
    let cores = 8;
    let options = Options {
        policy,
        cores,
        ..Options::default()
    };
    let mut cluster = Cluster::start(NODES, options);
    let marks = cluster.dir().join("marks");
    fs::create_dir(&marks).unwrap();
    let stop = AtomicBool::new(false);
    let (socket, work) = (cluster.socket(), cluster.work());
    let known: Vec<Known> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let chance = chance.split();
                let (socket, work, marks, stop) = (&socket, &work, &marks, &stop);
                scope.spawn(move || client(socket, work, marks, chance, stop))
            })
            .collect();
        // The clients are told to stop even when a daemon cannot be started again.
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            kill_and_restart(&mut cluster, &mut chance);
        }));
        stop.store(true, Ordering::Relaxed);
        let known = clients
            .into_iter()
            .flat_map(|c| c.join().unwrap())
            .collect();
        killed.unwrap();
        known
    });
    check(&cluster, &known, &marks);
}

fn kill_and_restart(cluster: &mut Cluster, chance: &mut Chance) {
    let (mut controllers, mut nodes) = (0, 0);
    for _ in 0..KILLS {
        // A random moment, not a wait for anything.
        std::thread::sleep(Duration::from_millis(chance.below(300)));
        let at = chance.below(NODES as u64) as usize;
        let (controller, node) = match chance.below(3) {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        };
        if controller {
            cluster.cosyd.kill();
            controllers += 1;
        }
        if node {
            cluster.nodes[at].kill();
            nodes += 1;
        }
        std::thread::sleep(Duration::from_millis(chance.below(60)));
        if node {
            cluster.start_noded(at);
        }
        if controller {
            cluster.start_cosyd_only();
            // Now and then it is killed before it is ready.
            if !chance.one_in(4) {
                cluster.cosyd.await_ready();
            }
        }
    }
    eprintln!("killed: {controllers} times cosyd, {nodes} times noded");
    cluster.cosyd.await_ready();
    cluster
        .nodes
        .iter_mut()
        .for_each(cosy_tests::daemon::Daemon::await_ready);
}

/// Submits and cancels until told to stop. What is not answered is asked again with the
/// same key until it is.
fn client(
    socket: &Path,
    work: &Path,
    marks: &Path,
    mut chance: Chance,
    stop: &AtomicBool,
) -> Vec<Known> {
    let mut connection = None;
    let mut known = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let exit = chance.below(4) as i64;
        let sleep = format!("{}.{}", u8::from(chance.one_in(8)), chance.below(5));
        let submission = marked(work, marks, &sleep, exit);
        let reply = insist(&mut connection, socket, Request::Submit(Box::new(submission)));
        let Reply::Submitted { job: id, .. } = reply else {
            panic!("not submitted: {reply:?}");
        };
        known.push(Known {
            id,
            exit,
            cancelled: false,
        });
        if chance.one_in(5) {
            let at = chance.below(known.len() as u64) as usize;
            known[at].cancelled |= cancel(&mut connection, socket, known[at].id);
        }
        // A load that the machine can bear.
        std::thread::sleep(Duration::from_millis(chance.below(120)));
    }
    known
}

fn cancel(connection: &mut Option<Client>, socket: &Path, id: JobId) -> bool {
    match insist(connection, socket, cancel_request(id)) {
        Reply::Done { changed, .. } => changed > 0,
        Reply::Refused(_) => false,
        other => panic!("{other:?}"),
    }
}

fn insist(connection: &mut Option<Client>, socket: &Path, request: Request) -> Reply {
    let key = new_key();
    wait::until("the controller answers", || {
        let mut client = match connection.take() {
            Some(client) => client,
            None => Client::connect(socket).ok()?,
        };
        let reply = client.ask_with(request.clone(), Some(key)).ok()?;
        *connection = Some(client);
        match reply {
            Reply::Refused(r) if r.code == cosy_model::RefusalCode::Unavailable => None,
            reply => Some(reply),
        }
    })
}

fn check(cluster: &Cluster, known: &[Known], marks: &Path) {
    eprintln!("{} submissions were acknowledged", known.len());
    assert!(known.len() > KILLS, "too few to show anything");
    let ids: BTreeSet<JobId> = known.iter().map(|k| k.id).collect();
    assert_eq!(ids.len(), known.len(), "an id was given out twice");
    let rows = wait::until("all jobs have ended", || {
        let table = cluster.client().history(Default::default()).ok()?;
        let rows: BTreeMap<JobId, Row> = Row::all(&table).into_iter().map(|r| (r.id, r)).collect();
        assert_eq!(rows.len(), table.rows, "a job is listed twice");
        let all = ids
            .iter()
            .all(|id| rows.get(id).is_some_and(|r| r.state.is_end()));
        all.then_some(rows)
    });
    let there: BTreeSet<JobId> = rows.keys().copied().collect();
    assert_eq!(there, ids, "exactly what was acknowledged is there");
    let again = rows.values().filter(|r| r.attempt > 1).count();
    eprintln!("{again} jobs needed another attempt because an order got lost");
    let events = all_events(cluster);
    for k in known {
        let events = &events[&format!("job {}", k.id)];
        check_job(k, &rows[&k.id], marks, events);
        check_events(k, events);
    }
    cluster.until_no_job_processes();
    wait::until_true("each node has one nursery", || {
        let all = cluster.processes();
        all.iter()
            .filter(|p| p.name == cosy_tests::system::NURSERY)
            .count()
            == NODES
    });
    for at in 0..NODES {
        let spool = cluster
            .node_dir(at)
            .join("spool")
            .join(format!("n{}", at + 1));
        wait::until_true("the spool is empty", || attempts_in(&spool).is_empty());
    }
}

fn check_job(known: &Known, row: &Row, marks: &Path, events: &[HistoryEvent]) {
    let text = fs::read_to_string(marks.join(known.id.to_string())).unwrap_or_default();
    let count = |word: &str| text.lines().filter(|l| l.starts_with(word)).count();
    let (starts, ends) = (count("start"), count("end"));
    assert!(starts <= 1, "started more than once: {row:?}\n{text}\n{events:#?}");
    // An order that got lost with its daemons may be followed by another attempt; then
    // only the last one has ever run.
    if starts == 1 {
        let ran = format!("start {}\n", row.attempt);
        assert!(text.starts_with(&ran), "{text} {row:?}\n{events:#?}");
    }
    let code = row.exit_code.unwrap_or(0);
    match row.state {
        JobState::Completed | JobState::Failed => {
            assert_eq!((code, starts, ends), (known.exit, 1, 1), "{row:?}");
            assert_eq!(row.state == JobState::Completed, known.exit == 0, "{row:?}");
        }
        JobState::Cancelled => assert!(known.cancelled, "nobody cancelled it: {row:?}"),
        other => panic!("{other} is no end that this could have: {row:?}"),
    }
}

/// What happened, by object.
fn all_events(cluster: &Cluster) -> BTreeMap<String, Vec<HistoryEvent>> {
    let mut all: BTreeMap<String, Vec<HistoryEvent>> = BTreeMap::new();
    let mut after = 0;
    loop {
        let Reply::Events(events) = cluster.ask(Request::Events {
            after,
            most: 1000,
            latest: false,
        }) else {
            panic!("no events");
        };
        let Some(last) = events.last() else {
            return all;
        };
        after = last.seq;
        for e in events {
            all.entry(e.object.clone()).or_default().push(e);
        }
    }
}

fn check_events(known: &Known, events: &[HistoryEvent]) {
    for what in ["submitted", "ended"] {
        let count = events.iter().filter(|e| e.what == what).count();
        assert_eq!(count, 1, "job {} {what}: {events:#?}", known.id);
    }
}

/// Directories of attempts; spare ones wait for the next.
fn attempts_in(spool: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(spool) else {
        return Vec::new();
    };
    entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.is_dir() && p.extension().is_some())
        .filter(|p| !p.display().to_string().contains("/spare."))
        .collect()
}
