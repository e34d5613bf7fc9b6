//! Takeovers at random moments, by whatever fails, while clients submit, cancel and book and jobs run:
//! what was acknowledged is there, every job has run once, the ledger balances, and nothing that a
//! deposed controller says has any effect.
//!
//! Two controllers, two database servers of which one follows the other, four nodes. The way from each
//! controller to each server and from each node to each controller is one that can be cut; the
//! controllers themselves speak with each other through the database only. `COSY_TAKEOVERS=300` makes
//! a long run of it.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod bookings;
mod clients;
mod databases;
mod faults;
mod held;
mod house;

use bookings::Booked;
use clients::{Clients, Known};
use cosy_model::{JobId, JobState};
use cosy_tests::people::{self, ANN};
use cosy_tests::{Chance, Row, system, wait};
use faults::Fault;
use held::Held;
use house::House;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SUBMITTERS: usize = 3;
/// Rounds where nothing else is said.
const ROUNDS: usize = 8;

#[test]
fn nothing_is_lost_and_nothing_runs_twice() {
    if !system::postgres_or_skip() {
        return;
    }
    let rounds = std::env::var("COSY_TAKEOVERS")
        .ok()
        .and_then(|n| n.parse().ok());
    let mut chance = Chance::from_environment();
    let mut house = House::start();
    let clients = clients(&house);
    let held = Held::start(&house.cluster);
    let (known, booked) = std::thread::scope(|scope| {
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|_| {
                let (clients, chance) = (&clients, chance.split());
                scope.spawn(move || clients.submit(chance))
            })
            .collect();
        let own = chance.split();
        let booker = scope.spawn(|| as_ordinary_user(|| clients.book(own)));
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            takeovers(&mut house, rounds.unwrap_or(ROUNDS), &mut chance);
        }));
        clients.stop.store(true, Ordering::Relaxed);
        let known: Vec<Known> = submitters
            .into_iter()
            .flat_map(|c| c.join().unwrap())
            .collect();
        let booked = booker.join().unwrap();
        if failed.is_err() {
            panic!("{}", house.cluster.logs());
        }
        (known, booked)
    });
    eprintln!("{} commands failed", clients.errors.load(Ordering::Relaxed));
    held.end(&house.cluster);
    check(&mut house, (known, booked), (&held, &clients.marks));
}

fn clients(house: &House) -> Clients {
    let work = house.cluster.work();
    let marks = work.join("marks");
    fs::create_dir(&marks).unwrap();
    // Jobs of several users write there.
    fs::set_permissions(&marks, Permissions::from_mode(0o1777)).unwrap();
    Clients {
        sockets: house.cluster.sockets(),
        work,
        marks,
        stop: AtomicBool::new(false),
        errors: AtomicU64::new(0),
    }
}

/// Tests that are root do it as somebody else: administrators may do what others may not.
fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match system::is_root() {
        true => people::as_user(ANN, work),
        false => work(),
    }
}

fn takeovers(house: &mut House, rounds: usize, chance: &mut Chance) {
    let mut counts: BTreeMap<Fault, usize> = BTreeMap::new();
    let first = house.databases.epoch();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(chance.below(1500)));
        let fault = Fault::by(chance);
        eprint!("{round}: ");
        house.fail(fault, chance);
        *counts.entry(fault).or_default() += 1;
        house.look_at_epochs();
        house.databases.check();
        bookings::check_books(&house.cluster);
    }
    let last = house.databases.epoch();
    eprintln!("{counts:?}; {} takeovers", last - first);
}

fn check(house: &mut House, (known, booked): (Vec<Known>, Booked), (held, marks): (&Held, &Path)) {
    let long = known.iter().filter(|k| k.long).count();
    eprintln!("{} submissions were acknowledged, {long} of long jobs", known.len());
    let of_bookings = booked.jobs.len();
    eprintln!("{of_bookings} jobs start with reservations");
    let known: Vec<&Known> = known.iter().chain(booked.jobs.values()).collect();
    let rows = rows(house, &known, held);
    let mut ran = 0;
    for k in known {
        ran += check_job(k, &rows[&k.id], marks);
    }
    let orders = house.check_epochs();
    let number: usize = orders.values().sum();
    eprintln!("{ran} jobs ran; nodes obeyed {number} orders in {} epochs", orders.len());
    bookings::check(&house.cluster, &booked);
    let lines = bookings::check_books(&house.cluster);
    eprintln!("the ledger balances, with {lines} lines");
    let refused = house.databases.check();
    eprintln!("{refused} batches came late to the database, which has refused them");
    let config = house.cluster.dir().join("cosy.toml");
    let config = config.to_str().unwrap();
    let store = ["cadm", "store", "check", config, "--name", "c1"];
    house.cluster.run(&store).expect(0);
    house.cluster.until_no_job_processes();
}

/// All jobs that were acknowledged and no other, each of which has ended.
fn rows(house: &House, known: &[&Known], held: &Held) -> BTreeMap<JobId, Row> {
    let ids: BTreeSet<JobId> = known.iter().map(|k| k.id).collect();
    assert_eq!(ids.len(), known.len(), "an id was given out twice");
    let rows = wait::until_within(2 * wait::PATIENCE, "all jobs have ended", || {
        let table = house.cluster.client().history(Default::default()).ok()?;
        let rows: BTreeMap<JobId, Row> = Row::all(&table).into_iter().map(|r| (r.id, r)).collect();
        assert_eq!(rows.len(), table.rows, "a job is listed twice");
        let ended = |id: &JobId| rows.get(id).is_some_and(|r| r.state.is_end());
        ids.iter().all(ended).then_some(rows)
    });
    let held = held.ids();
    for id in rows.keys() {
        assert!(ids.contains(id) || held.contains(id), "job {id} was not acknowledged");
    }
    rows
}

/// It has run once, or not at all where it was cancelled; how often it was started.
fn check_job(k: &Known, row: &Row, marks: &Path) -> usize {
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
    starts
}
