//! Reservations, money and steps: what is saved is what is loaded.

use super::bookings::{LedgerQuery, Reader};
use super::history::{Continuation, HistoryQuery};
use super::outcomes::{LookUp, Outcomes};
use super::schema::schema;
use super::sql::params;
use super::steps::{AnswerBounds, StepReading};
use super::whole_tests::{plain_submission, submitted};
use super::{Location, MIGRATIONS, Payload, Store, decode, encode, server_tests as server};
use cosy_control::{AccountRow, FiguresRow, HourPriceRow, Record, ReservationRow, ShareRow};
use cosy_control::{Due, Occasion, TriggerRow};
use cosy_control::{FlowRow, FlowTaskRow, LoadedFlow, OfFlow};
use cosy_control::{JobRow, NodeRow, PartRow, StandingRow, StepBatch, StepUse, SubmissionRow};
use cosy_model::api::{Cursor, HistoryEvent, JobField, JobFilter, JobRef, StepCursor, StepRow};
use cosy_model::history::{Event, EventKind, EventObject};
use cosy_model::job::{FurtherComponent, ResourceRequest};
use cosy_model::node::AttemptKey;
use cosy_model::reservation::{
    LedgerEntry, ReservationSpec, ReservationState, Sharing, StartChoice,
};
use cosy_model::step::{StepId, StepRecord};
use cosy_model::workflow::{FlowSpec, FlowState, FlowTaskState};
use cosy_model::{Amounts, FlowId, Gid, JobId, MiB, ReservationId, Span, Su, Time, Uid};
use cosy_model::{Attempt, End, EndCause, JobState, NodeState, OsText, limits};
use cosy_model::{Dependency, DependencyKind, JobSpec, LicenseUse, NodeId, NodeShare, Program};
use cosy_model::{TriggerEvent, TriggerId, TriggerSpec, TriggerTarget};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;

const HOUR: i64 = 3_600_000;

/// An empty database.
struct Bench {
    dir: TempDir,
    location: Location,
}

/// Makes an empty database.
type New = fn() -> Bench;

impl Bench {
    /// In a directory that goes with it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(dir.path().join("cosy.db"));
        Self { dir, location }
    }

    /// On a server of this thread.
    fn on_server() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            location: server::database(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("cosy.db")
    }

    fn open(&self) -> Store {
        Store::open_at(&self.location).unwrap()
    }

    /// Saves, and opens anew.
    fn saved(&self, records: &[Record]) -> Store {
        self.open().commit(records).unwrap();
        self.open()
    }
}

/// Everything, all of which can be read.
fn whole(store: &Store) -> cosy_control::Loaded {
    let (loaded, bad) = store.load().unwrap();
    assert_eq!(bad, []);
    loaded
}

fn reservation(id: u64, state: ReservationState, end: i64) -> ReservationRow {
    ReservationRow {
        id: ReservationId(id),
        series: Some(ReservationId(1)),
        uid: Uid(1000),
        gid: Gid(100),
        user: "ann".into(),
        queue: "day".into(),
        account: Some("physics".into()),
        ask: ReservationSpec {
            name: "talk".into(),
            queue: Some("day".into()),
            request: ResourceRequest::default(),
            licenses: Default::default(),
            length: Span(HOUR),
            earliest: Some(Time(5)),
            latest_end: None,
            pick: StartChoice::Balance {
                alpha_permille: 300,
            },
            repeat: None,
            account: Some("physics".into()),
            max_price: Some(Su::whole(20)),
            sharing: Sharing {
                users: vec!["bob".into()],
                ..Sharing::default()
            },
            comment: "für später".into(),
            flags: vec!["MAINT".into()],
        },
        state,
        degraded: true,
        start: Time(end - HOUR),
        end: Time(end),
        closed: None,
        shares: vec![ShareRow {
            node: "n1".into(),
            tasks: 4,
            amounts: Amounts {
                cores: 4,
                memory: MiB(100),
                ..Amounts::default()
            },
        }],
        made: Time(1),
        hold_until: Some(Time(2)),
        free_until: Some(Time(3)),
        base: Su::whole(4),
        extra: Su(1),
        held: Su(7),
        charged: Su(8),
        delays: vec![(JobId(9), Span(10))],
        job: Some(JobId(11)),
        first_use: Some(Time(12)),
        used_core_ms: 13,
        note: "moved".into(),
        flow: None,
        makers: Vec::new(),
    }
}

fn booked(row: ReservationRow) -> Record {
    Record::Reservation(Box::new(row))
}

fn account(name: &str, members: &[&str]) -> AccountRow {
    AccountRow {
        name: name.into(),
        members: members.iter().map(|m| (*m).into()).collect(),
        listed: false,
        budget: true,
        granted: Su(3),
        held: Su(2),
        charged: Su(1),
    }
}

fn line(seq: u64, from: &str, to: &str, reservation: Option<u64>) -> LedgerEntry {
    LedgerEntry {
        seq,
        at: Time(1000 + seq as i64),
        from: from.into(),
        to: to.into(),
        sum: Su(5),
        reservation: reservation.map(ReservationId),
        why: "hold".into(),
        who: "ann".into(),
    }
}

fn happened(seq: u64, at: i64) -> Record {
    Record::Happened(Event {
        seq,
        at: Time(at),
        kind: EventKind::Started,
        who: "controller".into(),
        object: EventObject::Job(JobId(1)),
        detail: String::new(),
    })
}

/// Every kind of event, and words of another release, are read as they were written.
#[test]
fn history_is_text() {
    history_is_text_in(Bench::new);
}

fn history_is_text_in(new: New) {
    let bench = new();
    let all = EventKind::ALL.into_iter().zip(1..);
    let event = |(kind, seq)| Event {
        seq,
        at: Time(5),
        kind,
        who: "ann".into(),
        object: EventObject::Node("n1".into()),
        detail: "new disk".into(),
    };
    let written: Vec<Event> = all.map(event).collect();
    let records: Vec<Record> = written.iter().cloned().map(Record::Happened).collect();
    let store = bench.saved(&records);
    let next = written.len() as u64 + 1;
    let row =
        "INSERT INTO events (seq, at, what, who, object, detail) VALUES (?1, 6, ?2, ?3, ?4, ?5)";
    let foreign = ["levitated", "moon", "rack 3", "by a hand"];
    store
        .sql(|c| c.execute(row, params![next, foreign[0], foreign[1], foreign[2], foreign[3]]))
        .unwrap();
    let read = store.events(0, 1000, false).unwrap();
    let (last, known) = read.split_last().unwrap();
    assert_eq!(known, written.iter().map(HistoryEvent::from).collect::<Vec<_>>());
    assert_eq!(last.seq, next);
    assert_eq!([&last.what, &last.who, &last.object, &last.detail], foreign);
}

#[test]
fn what_is_saved_is_loaded() {
    what_is_saved_is_loaded_in(Bench::new);
}

fn what_is_saved_is_loaded_in(new: New) {
    let figures = |at, jobs| FiguresRow {
        at: Time(at),
        jobs,
        jobs_core_s: u64::MAX,
        reservations: 2,
        reservations_core_s: 3,
        started: 4,
        wait_ms: 5,
        started_core_s: 6,
        wait_s_core_ks: 7,
    };
    let price = |hour, extra| HourPriceRow {
        hour,
        extra: Su(extra),
        core_s: 9,
    };
    let rows = [
        reservation(7, ReservationState::Held, 50 * HOUR),
        reservation(3, ReservationState::Active, 40 * HOUR),
    ];
    let records = [
        booked(reservation(7, ReservationState::Confirmed, 1)),
        booked(rows[0].clone()),
        booked(rows[1].clone()),
        Record::Account(account("physics", &["ann", "@lab"])),
        Record::Account(account("gone", &[])),
        Record::Account(account("art", &[])),
        Record::AccountGone("gone".into()),
        Record::Ledger(line(1, "grants", "physics", None)),
        Record::Ledger(line(2, "physics", "physics:held", Some(7))),
        Record::Figures(figures(300, 1)),
        Record::Figures(figures(200, 1)),
        Record::Figures(figures(100, 1)),
        Record::Figures(figures(300, 9)),
        Record::ForgetFigures { before: Time(200) },
        Record::HourPrice(price(167, 1)),
        Record::HourPrice(price(0, 1)),
        Record::HourPrice(price(167, 2)),
    ];
    let bench = new();
    let store = bench.saved(&records);
    let loaded = whole(&store);
    assert_eq!(loaded.reservations, [rows[1].clone(), rows[0].clone()]);
    assert_eq!(loaded.next_reservation, 8);
    let accounts = [account("art", &[]), account("physics", &["ann", "@lab"])];
    assert_eq!(loaded.accounts, accounts);
    assert_eq!(loaded.last_entry, 2);
    assert_eq!(loaded.figures, [figures(200, 1), figures(300, 9)]);
    assert_eq!(loaded.hour_prices, [price(0, 1), price(167, 2)]);
    let all = LedgerQuery {
        most: 10,
        ..LedgerQuery::default()
    };
    let lines = [
        line(1, "grants", "physics", None),
        line(2, "physics", "physics:held", Some(7)),
    ];
    assert_eq!(store.ledger(&all).unwrap(), lines);
}

#[test]
fn an_empty_store_gives_the_first_ids() {
    an_empty_store_gives_the_first_ids_in(Bench::new);
}

fn an_empty_store_gives_the_first_ids_in(new: New) {
    let loaded = whole(&new().open());
    assert_eq!(loaded.next_reservation, 1);
    assert_eq!(loaded.last_entry, 0);
    assert!(loaded.reservations.is_empty() && loaded.accounts.is_empty());
}

#[test]
fn those_that_ended_more_than_a_day_ago_are_not_loaded() {
    those_that_ended_more_than_a_day_ago_are_not_loaded_in(Bench::new);
}

fn those_that_ended_more_than_a_day_ago_are_not_loaded_in(new: New) {
    const DAY: i64 = 24 * HOUR;
    let check = |last_event: Option<i64>, state, ended: i64, wanted: bool| {
        let mut records = vec![booked(reservation(1, state, ended))];
        records.extend(last_event.map(|at| happened(1, at)));
        let loaded = whole(&new().saved(&records));
        assert_eq!(loaded.reservations.len() == 1, wanted, "{state} {ended}");
        assert_eq!(loaded.next_reservation, 2, "an id is never given out again");
    };
    let ended = ReservationState::ALL.into_iter().filter(|s| !s.is_live());
    for state in ended {
        check(Some(9 * DAY), state, 8 * DAY, true);
        check(Some(9 * DAY), state, 8 * DAY - 1, false);
    }
    check(None, ReservationState::Ended, DAY, true);
    let live = ReservationState::ALL.into_iter().filter(|s| s.is_live());
    for state in live {
        check(Some(9 * DAY), state, DAY, true);
    }
}

#[test]
fn a_batch_is_kept_whole_or_not_at_all() {
    a_batch_is_kept_whole_or_not_at_all_in(Bench::new);
}

fn a_batch_is_kept_whole_or_not_at_all_in(new: New) {
    let bench = new();
    let mut store = bench.saved(&[Record::Ledger(line(1, "grants", "a", None))]);
    let twice = [
        booked(reservation(1, ReservationState::Held, HOUR)),
        Record::Ledger(line(1, "a", "a:held", Some(1))),
    ];
    assert!(store.commit(&twice).is_err(), "a line is written once");
    let negative = LedgerEntry {
        sum: Su(-1),
        ..line(2, "a", "a:held", Some(1))
    };
    let bad = [
        booked(reservation(1, ReservationState::Held, HOUR)),
        Record::Ledger(negative),
    ];
    assert!(store.commit(&bad).is_err(), "a sum is never negative");
    let loaded = whole(&store);
    assert!(loaded.reservations.is_empty());
    assert_eq!(loaded.last_entry, 1);
}

#[test]
fn the_ledger_is_append_only() {
    the_ledger_is_append_only_in(Bench::new);
}

fn the_ledger_is_append_only_in(new: New) {
    let bench = new();
    let store = bench.saved(&[Record::Ledger(line(1, "grants", "a", None))]);
    let check = |sql: &str, why: &str| {
        let refused = store.connection.execute(sql, params![]).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    };
    check("UPDATE ledger SET sum = 6", "never changed");
    check("DELETE FROM ledger", "never removed");
}

#[test]
fn the_ledger_is_read_in_pages_by_those_who_may() {
    the_ledger_is_read_in_pages_by_those_who_may_in(Bench::new);
}

fn the_ledger_is_read_in_pages_by_those_who_may_in(new: New) {
    let mut of_bob = reservation(2, ReservationState::Held, HOUR);
    of_bob.uid = Uid(1001);
    let records = [
        booked(reservation(1, ReservationState::Held, HOUR)),
        booked(of_bob),
        Record::Ledger(line(1, "grants", "art", None)),
        Record::Ledger(line(2, "grants", "physics", None)),
        Record::Ledger(line(3, "art", "art:held", Some(1))),
        Record::Ledger(line(4, "physics", "physics:held", Some(2))),
        Record::Ledger(line(5, "art:held", "income", Some(1))),
        Record::Ledger(line(6, "income", "art", Some(1))),
    ];
    let bench = new();
    let store = bench.saved(&records);
    let check = |query: LedgerQuery, wanted: &[u64]| {
        let lines = store.ledger(&query).unwrap();
        let seqs: Vec<u64> = lines.iter().map(|l| l.seq).collect();
        assert_eq!(seqs, wanted, "{query:?}");
    };
    let all = LedgerQuery {
        most: 100,
        ..LedgerQuery::default()
    };
    let reader = |uid, accounts: &[&str]| LedgerQuery {
        reader: Some(Reader {
            uid: Uid(uid),
            accounts: accounts.iter().map(|a| (*a).into()).collect(),
        }),
        ..all.clone()
    };
    let of = |account: &str, query: LedgerQuery| LedgerQuery {
        account: Some(account.into()),
        ..query
    };
    check(all.clone(), &[1, 2, 3, 4, 5, 6]);
    check(
        LedgerQuery {
            most: 2,
            ..all.clone()
        },
        &[1, 2],
    );
    check(
        LedgerQuery {
            after: 4,
            ..all.clone()
        },
        &[5, 6],
    );
    check(
        LedgerQuery {
            after: u64::MAX,
            ..all.clone()
        },
        &[],
    );
    check(
        LedgerQuery {
            most: 0,
            ..all.clone()
        },
        &[],
    );
    check(of("art", all.clone()), &[1, 3, 5, 6]);
    check(of("income", all.clone()), &[]);
    let by_id = LedgerQuery {
        reservation: Some(ReservationId(2)),
        ..all.clone()
    };
    check(by_id, &[4]);
    check(reader(1000, &[]), &[3, 5, 6]);
    check(reader(1001, &["art"]), &[1, 3, 4, 5, 6]);
    check(of("physics", reader(1001, &["art"])), &[4]);
    check(reader(1002, &[]), &[]);
    check(reader(1002, &["\"]', 'physics"]), &[]);
    let many: Vec<String> = (0..100_000).map(|n| format!("a{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check(reader(1002, &many), &[]);
}

#[test]
fn a_revoked_key_is_remembered_and_its_node_has_none() {
    a_revoked_key_is_remembered_and_its_node_has_none_in(Bench::new);
}

fn a_revoked_key_is_remembered_and_its_node_has_none_in(new: New) {
    let bench = new();
    let name = || "n1".to_owned();
    let revoked = (String::from("aa"), name(), Time(7));
    let store = bench.saved(&[
        Record::NodeKey {
            name: name(),
            key: "aa".into(),
        },
        Record::NodeKeyGone { name: name() },
        Record::KeyRevoked {
            key: revoked.0.clone(),
            node: name(),
            at: revoked.2,
        },
    ]);
    let loaded = whole(&store);
    assert_eq!(loaded.node_keys, []);
    assert_eq!(loaded.revoked_keys, [revoked]);
}

#[test]
fn the_last_word_on_licences_is_remembered() {
    the_last_word_on_licences_is_remembered_in(Bench::new);
}

fn the_last_word_on_licences_is_remembered_in(new: New) {
    let bench = new();
    let told = |license: &str, in_use, at| Record::LicenseUse {
        license: license.to_owned(),
        row: LicenseUse {
            in_use,
            outside: in_use / 2,
            at: Time(at),
            by: "root".into(),
        },
    };
    let said = [told("l", 3, 7), told("m", 1, 8), told("l", 4, 9)];
    let store = bench.saved(&said);
    let kept = |record: &Record| match record {
        Record::LicenseUse { license, row } => Some((license.clone(), row.clone())),
        _ => None,
    };
    let want: Vec<_> = [&said[2], &said[1]].into_iter().filter_map(kept).collect();
    assert_eq!(whole(&store).license_use, want);
}

/// Rows and messages call components of jobs what they were called when these were made first.
#[test]
fn components_keep_their_names_outside() {
    fn check<T>(value: &T, names: &str, want: serde_json::Value)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let got = serde_json::to_value(value).unwrap();
        assert_eq!(got.pointer(names), Some(&want), "{got}");
        assert_eq!(&decode::<T>("any", &encode(value).unwrap()).unwrap(), value);
    }
    let mut spec = JobSpec::plain("x", Program::Allocation, OsText::from("/"));
    assert_eq!(serde_json::to_value(&spec).unwrap().get("bundles"), None);
    spec.further_components.push(FurtherComponent {
        name: None,
        queue: Some("gpu".into()),
        request: ResourceRequest::default(),
    });
    check(&spec, "/bundles/0/queue", "gpu".into());
    let share = NodeShare {
        node: NodeId(0),
        tasks: 1,
        amounts: Amounts::default(),
        component: 3,
    };
    check(&share, "/bundle", 3.into());
    let row = PartRow {
        node: "n1".into(),
        tasks: 1,
        amounts: Amounts::default(),
        component: 3,
        cores: Vec::new(),
        gpus: Vec::new(),
        devices: BTreeMap::new(),
        boot_id: String::new(),
        kept: None,
        released: false,
    };
    check(&row, "/bundle", 3.into());
    check(&JobField::Component, "", "bundle".into());
    check(&JobField::Components, "", "bundles".into());
}

#[test]
fn a_database_of_the_first_schema_is_migrated() {
    let bench = Bench::new();
    let old = rusqlite::Connection::open(bench.path()).unwrap();
    old.execute_batch(MIGRATIONS[0]).unwrap();
    old.execute_batch(
        "INSERT INTO events VALUES (5, 77, 'started', 'controller', 'job 1', '');
         INSERT INTO node_keys VALUES ('n1', 'aa');
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    let row = reservation(1, ReservationState::Held, HOUR);
    let store = bench.saved(&[booked(row.clone())]);
    let loaded = whole(&store);
    assert_eq!(loaded.last_event, 5);
    assert_eq!(loaded.node_keys, [("n1".to_owned(), "aa".to_owned())]);
    assert_eq!(loaded.reservations, [row]);
    assert_eq!(schema(&store.connection).unwrap(), MIGRATIONS.len() as i64);
    let later = format!("PRAGMA user_version = {}", MIGRATIONS.len() + 1);
    store.connection.execute_batch(&later).unwrap();
    let newer = Store::open(&bench.path()).map(drop).unwrap_err();
    let schema = format!("schema {}", MIGRATIONS.len() + 1);
    assert!(newer.to_string().contains(&schema), "{newer}");
}

// --- triggers

#[test]
fn triggers_and_their_ids() {
    triggers_and_their_ids_in(Bench::new);
}

fn triggers_and_their_ids_in(new: New) {
    let trigger = |id: u64, spent| TriggerRow {
        id: TriggerId(id),
        uid: Uid(1000),
        gid: Gid(100),
        user: "ann".into(),
        made: Time(5),
        spec: TriggerSpec {
            on: TriggerTarget::Nodes(vec!["n1".into()]),
            events: [TriggerEvent::Down, TriggerEvent::Up].into(),
            offset: Span(-3),
            program: OsText::from("/bin/tell"),
            permanent: true,
            environment: OsText::from("A=1"),
        },
        spent,
        due: vec![Due {
            at: Time(9),
            occasion: Occasion::Nodes(vec!["n1".into()]),
            near: Vec::new(),
            tries: 1,
        }],
        attempt: Attempt(2),
        run: None,
        limit_of: Attempt(0),
    };
    let of = |row: &TriggerRow| Record::Trigger(Box::new(row.clone()));
    let records = [
        of(&trigger(1, false)),
        of(&trigger(2, false)),
        of(&trigger(1, true)),
        of(&trigger(3, true)),
        Record::TriggerGone(TriggerId(3)),
    ];
    let bench = new();
    let loaded = whole(&bench.saved(&records));
    assert_eq!(loaded.triggers, [trigger(1, true), trigger(2, false)]);
    assert_eq!(loaded.next_trigger, 4, "an id is never given out again");
    let gone = [1, 2].map(|id| Record::TriggerGone(TriggerId(id)));
    let loaded = whole(&bench.saved(&gone));
    assert_eq!((loaded.triggers.len(), loaded.next_trigger), (0, 4));
    assert_eq!(whole(&new().open()).next_trigger, 1);
}

// --- steps

fn key(job: u64, attempt: u32) -> AttemptKey {
    AttemptKey {
        job: JobId(job),
        attempt: Attempt(attempt),
    }
}

/// A running job of that user.
fn running(job: u64, uid: u32, index: Option<u32>) -> Vec<Record> {
    let submitted = Record::Submitted {
        row: Box::new(SubmissionRow {
            base: JobId(job),
            indices: index.map(|i| [i].into_iter().collect()),
            numbering: Default::default(),
            at_once: None,
            uid: Uid(uid),
            gid: Gid(uid),
            user: format!("u{uid}"),
            queue: "day".into(),
            submit: Time(1),
            spec: serde_json::from_str(SPEC).unwrap(),
            flow: None,
        }),
        script: OsText::default(),
        environment: OsText::default(),
    };
    let run = serde_json::json!({"allocated": 1, "started": 1, "parts": [], "after": null, "killed": null});
    let row = Record::Job(Box::new(JobRow {
        state: JobState::Running,
        attempt: Attempt(2),
        run: serde_json::from_value(run).unwrap(),
        ..JobRow::waiting(JobId(job), JobId(job), index)
    }));
    vec![submitted, row]
}

const SPEC: &str = r#"{"name": "x", "program": "allocation", "request": {"cores_per_task": 1},
    "workdir": "/", "environment": "", "umask": 18}"#;

fn steps(key: AttemptKey, before: u64, upto: u64) -> Record {
    let record = |step: u64| StepRecord {
        step: StepId(step as u32),
        name: "true".into(),
        nodes: "n1".into(),
        tasks: 1,
        cores: 1,
        end: End {
            user_cpu_us: 10,
            system_cpu_us: 1,
            peak_memory_bytes: step,
            ..End::never_ran(EndCause::Exited, Time(9))
        },
    };
    Record::Steps(Box::new(StepBatch {
        key,
        before,
        records: (before..upto).map(record).collect(),
    }))
}

#[test]
fn each_step_is_there_once_by_job_attempt_and_number() {
    each_step_is_there_once_by_job_attempt_and_number_in(Bench::new);
}

fn each_step_is_there_once_by_job_attempt_and_number_in(new: New) {
    let bench = new();
    let mut records = running(1, 1000, None);
    records.extend(running(2, 1001, Some(7)));
    records.push(steps(key(1, 2), 3, 5));
    records.push(steps(key(1, 2), 0, 3));
    records.push(steps(key(1, 1), 0, 2));
    records.push(steps(key(2, 2), 0, 1));
    // Again, with more behind them; and again without.
    records.push(steps(key(1, 2), 3, 8));
    records.push(steps(key(1, 2), 3, 4));
    let store = bench.saved(&records);
    let name = |job, task| JobRef {
        job: JobId(job),
        task,
    };
    let check = |jobs: &[JobRef], only: Option<u32>, want: &str| {
        let (rows, more) = store.steps(&reading(jobs, only.map(Uid))).unwrap();
        assert_eq!(more, None);
        let row = |r: &StepRow| format!("{}:{}.{}", r.job, r.attempt, r.record.step);
        let rows: Vec<String> = rows.iter().map(row).collect();
        assert_eq!(rows.join(" "), want, "{jobs:?} {only:?}");
    };
    let all = "1:1.0 1:1.1 1:2.0 1:2.1 1:2.2 1:2.3 1:2.4 1:2.5 1:2.6 1:2.7";
    check(&[name(1, None)], None, all);
    check(&[name(1, None)], Some(1000), all);
    check(&[name(1, None)], Some(1001), "");
    check(&[name(2, None)], Some(1001), "2_7:2.0");
    check(&[name(2, Some(7))], None, "2_7:2.0");
    check(&[name(2, Some(8))], None, "");
    check(&[name(3, None)], None, "");
    let mut used = whole(&store).steps;
    used.sort_by_key(|(key, _)| *key);
    let sum = StepUse {
        count: 8,
        user_cpu_us: 80,
        system_cpu_us: 8,
        peak_memory_bytes: 7,
        exit_code: 0,
        signal: 0,
    };
    assert_eq!(used[0], (key(1, 2), sum));
    assert_eq!(used.len(), 2);
}

#[test]
fn steps_of_many_running_jobs_are_summed_up() {
    steps_of_many_running_jobs_are_summed_up_in(Bench::new);
}

fn steps_of_many_running_jobs_are_summed_up_in(new: New) {
    const JOBS: u64 = 450;
    let mut records = Vec::new();
    for job in 1..=JOBS {
        records.extend(running(job, 1000, None));
        // Of each third job nothing, of each second one an earlier attempt too.
        if job % 3 > 0 {
            records.push(steps(key(job, 2), 0, job % 7 + 1));
        }
        if job % 2 > 0 {
            records.push(steps(key(job, 1), 0, 9));
        }
    }
    let used = whole(&new().saved(&records)).steps;
    let counts: BTreeMap<AttemptKey, u64> = used
        .into_iter()
        .map(|(key, used)| (key, used.count))
        .collect();
    let with_steps = (1..=JOBS).filter(|job| job % 3 > 0);
    let want: BTreeMap<AttemptKey, u64> =
        with_steps.map(|job| (key(job, 2), job % 7 + 1)).collect();
    assert_eq!(counts, want);
}

/// How jobs ended on which live ones depend is known, of each once; what lives is not over.
#[test]
fn what_live_jobs_depend_on_is_known() {
    what_live_jobs_depend_on_is_known_in(Bench::new);
}

fn what_live_jobs_depend_on_is_known_in(new: New) {
    let over = |base: u64, state: JobState| {
        let [submitted, _] = <[Record; 2]>::try_from(running(base, 1000, None)).unwrap();
        let row = Record::Job(Box::new(JobRow {
            state,
            end: Some(End::never_ran(EndCause::Exited, Time(9))),
            ..JobRow::waiting(JobId(base), JobId(base), None)
        }));
        [submitted, row, Record::SubmissionDone(JobId(base))]
    };
    let after = |base: u64, jobs: &[u64]| {
        let on = |job: &u64| Dependency {
            kind: DependencyKind::AfterOk,
            job: JobId(*job),
            task: None,
            delay: Span::default(),
        };
        let mut row = plain_submission(base, "waits");
        let mut spec = JobSpec::clone(&row.spec);
        spec.dependencies = jobs.iter().map(on).collect();
        row.spec = spec.into();
        submitted(&row)
    };
    let mut records = over(1, JobState::Completed).to_vec();
    records.extend(over(2, JobState::Failed));
    records.extend([after(3, &[]), after(4, &[3, 1, 2, 99]), after(5, &[4, 1])]);
    let facts = whole(&new().saved(&records)).facts;
    let name = |job| JobRef {
        job: JobId(job),
        task: None,
    };
    assert_eq!(facts, [(name(1), true), (name(2), false)]);
}

fn reading(jobs: &[JobRef], only: Option<Uid>) -> StepReading<'_> {
    StepReading {
        jobs,
        only,
        pages: false,
        after: None,
    }
}

#[test]
fn pages_of_steps_make_the_whole() {
    pages_of_steps_make_the_whole_in(Bench::new);
}

fn pages_of_steps_make_the_whole_in(new: New) {
    let bench = new();
    let mut records = Vec::new();
    for job in 1..=4 {
        records.extend(running(job, 1000, None));
    }
    records.extend(running(9, 1001, None));
    // Two attempts, in several reports; a job without steps; one of somebody else.
    records.push(steps(key(1, 1), 0, 3));
    records.push(steps(key(1, 2), 0, 4));
    records.push(steps(key(1, 2), 4, 9));
    records.push(steps(key(3, 2), 0, 1));
    records.push(steps(key(4, 2), 0, 5));
    records.push(steps(key(9, 2), 0, 5));
    let store = bench.saved(&records);
    let jobs: Vec<JobRef> = [1, 2, 3, 4, 9]
        .map(|job| JobRef {
            job: JobId(job),
            task: None,
        })
        .into();
    let (whole, _) = store.steps(&reading(&jobs, Some(Uid(1000)))).unwrap();
    assert_eq!(whole.len(), 18);
    for most in [1, 2, 3, 5, 7, 18, 100] {
        for ids in [1, 2, 1000] {
            let most = AnswerBounds {
                rows: most,
                bytes: usize::MAX,
                ids,
            };
            let mut pages = Vec::new();
            let mut reading = reading(&jobs, Some(Uid(1000)));
            loop {
                let (rows, more) = store.steps_within(&reading, most).unwrap();
                assert!(rows.len() <= most.rows);
                pages.push(rows);
                assert!(more.is_none() || more != reading.after, "{more:?}");
                reading.after = more;
                if more.is_none() {
                    break;
                }
            }
            pages.reverse();
            let mut all = pages.concat();
            all.sort_by_key(|row| (row.job, row.attempt, row.record.step));
            assert_eq!(all, whole, "{most:?}");
        }
    }
    // Whoever makes up a place sees no steps of others.
    let mut made_up = reading(&jobs, Some(Uid(1000)));
    made_up.after = Some(StepCursor {
        jobs: Cursor::default(),
        job: Some((JobId(9), Attempt(0), 0)),
    });
    assert_eq!(store.steps(&made_up).unwrap(), (Vec::new(), None));
}

#[test]
fn a_database_of_the_second_schema_is_migrated() {
    let bench = Bench::new();
    let old = rusqlite::Connection::open(bench.path()).unwrap();
    old.execute_batch(&MIGRATIONS[..2].concat()).unwrap();
    old.execute_batch(
        "INSERT INTO events VALUES (5, 77, 'started', 'controller', 'job 1', '');
         INSERT INTO ledger VALUES (1, 1, 'grants', 'lab', NULL, 'lab', 5, NULL, 'x', 'root');
         PRAGMA user_version = 2;",
    )
    .unwrap();
    drop(old);
    let mut records = running(1, 1000, None);
    records.push(steps(key(1, 2), 0, 4));
    let store = bench.saved(&records);
    let loaded = whole(&store);
    assert_eq!((loaded.last_event, loaded.last_entry), (5, 1));
    assert_eq!(loaded.steps[0].1.count, 4);
}

#[test]
fn a_database_of_the_third_schema_is_migrated() {
    let bench = Bench::new();
    let mut records = running(1, 1000, None);
    records.push(steps(key(1, 2), 0, 4));
    drop(bench.saved(&records));
    // As the third schema had it: without the columns of the fourth and what came later.
    let old = rusqlite::Connection::open(bench.path()).unwrap();
    old.execute_batch(
        "ALTER TABLE submissions DROP COLUMN dropped;
         ALTER TABLE steps DROP COLUMN exit_code;
         ALTER TABLE steps DROP COLUMN signal;
         ALTER TABLE submissions DROP COLUMN flow;
         DROP TABLE flows;
         DROP TABLE flow_tasks;
         UPDATE submissions SET live = 1;
         DROP TABLE live_submissions;
         DROP TABLE own_queues;
         DROP TABLE triggers;
         DROP TABLE revoked_keys;
         DROP TABLE bodies;
         DROP TABLE standings;
         ALTER TABLE jobs DROP COLUMN body;
         DROP TABLE set_aside; DROP TABLE older; DROP TABLE clock; DROP TABLE policy; DROP TABLE usage; DROP TABLE license_use; DROP TABLE runs;
         DROP TABLE archives; DROP TABLE leaving; DROP TABLE progress; DROP TABLE undropped; DROP TABLE end_days; DROP TABLE counters; DROP TABLE copying; DROP TABLE copied; DROP TABLE restored;
         CREATE INDEX submissions_live ON submissions(base) WHERE live = 1;
         PRAGMA user_version = 3;",
    )
    .unwrap();
    drop(old);
    let mut end = End::never_ran(EndCause::Exited, Time(1));
    end.exit_code = 7;
    let Record::Steps(mut batch) = steps(key(1, 2), 4, 6) else {
        panic!("no steps")
    };
    batch.records[0].end = end;
    let store = bench.saved(&[Record::Steps(batch)]);
    let loaded = whole(&store);
    let used = loaded.steps[0].1;
    assert_eq!((used.count, used.exit_code, used.signal), (6, 7, 0));
}

#[test]
fn a_submission_that_was_done_lives_again() {
    a_submission_that_was_done_lives_again_in(Bench::new);
}

fn a_submission_that_was_done_lives_again_in(new: New) {
    let bench = new();
    let mut records = running(1, 1000, None);
    records.push(Record::SubmissionDone(JobId(1)));
    assert!(whole(&bench.saved(&records)).submissions.is_empty());
    let store = bench.saved(&[Record::SubmissionLives(JobId(1))]);
    assert_eq!(whole(&store).submissions.len(), 1);
}

#[test]
fn what_lived_in_the_fifth_schema_lives_on() {
    let bench = Bench::new();
    let mut records = running(1, 1000, None);
    records.extend(running(2, 1000, None));
    drop(bench.saved(&records));
    let old = rusqlite::Connection::open(bench.path()).unwrap();
    old.execute_batch(
        "ALTER TABLE submissions DROP COLUMN dropped;
         UPDATE submissions SET live = base = 2;
         DROP TABLE live_submissions;
         DROP TABLE own_queues;
         DROP TABLE triggers;
         DROP TABLE revoked_keys;
         DROP TABLE bodies;
         DROP TABLE standings;
         ALTER TABLE jobs DROP COLUMN body;
         DROP TABLE set_aside; DROP TABLE older; DROP TABLE clock; DROP TABLE policy; DROP TABLE usage; DROP TABLE license_use; DROP TABLE runs;
         DROP TABLE archives; DROP TABLE leaving; DROP TABLE progress; DROP TABLE undropped; DROP TABLE end_days; DROP TABLE counters; DROP TABLE copying; DROP TABLE copied; DROP TABLE restored;
         CREATE INDEX submissions_live ON submissions(base) WHERE live = 1;
         PRAGMA user_version = 5;",
    )
    .unwrap();
    drop(old);
    let loaded = whole(&bench.saved(&[]));
    let bases: Vec<JobId> = loaded.submissions.iter().map(|s| s.base).collect();
    assert_eq!(bases, [JobId(2)]);
}

// --- how jobs ended

/// Each task of an array may be named: its submission is read once, and what is looked up at once
/// is bounded.
#[test]
fn many_tasks_of_an_array_are_looked_up_in_pieces() {
    many_tasks_of_an_array_are_looked_up_in_pieces_in(Bench::new);
}

fn many_tasks_of_an_array_are_looked_up_in_pieces_in(new: New) {
    const TASKS: u32 = 2500;
    let (mut records, single) = (running(1, 1000, None), running(1 + u64::from(TASKS), 1001, None));
    let Some(Record::Submitted { row, .. }) = records.first_mut() else {
        panic!("{records:?}");
    };
    row.indices = Some((1..=TASKS).collect());
    let Some(Record::Job(task)) = records.pop() else {
        panic!("no task");
    };
    for index in 1..=TASKS {
        let mut task = task.clone();
        task.id = JobId(index.into());
        task.index = Some(index);
        task.state = match index == 7 {
            true => JobState::Failed,
            false => JobState::Completed,
        };
        (task.run, task.end) = (None, Some(End::never_ran(EndCause::Exited, Time(9))));
        records.push(Record::Job(task));
    }
    records.push(Record::SubmissionDone(JobId(1)));
    records.extend(single);
    let store = new().saved(&records);
    let named = |job: u64, task: Option<u32>| JobRef {
        job: JobId(job),
        task,
    };
    let tasks = (0..=TASKS).map(|task| named(1, Some(task)));
    let ids = (1..=u64::from(TASKS) + 2).map(|id| named(id, None));
    let names: Vec<JobRef> = tasks.chain(ids).collect();

    let mut outcomes = Outcomes::new(&store);
    for name in &names {
        outcomes.of(*name).unwrap();
    }
    // The array, the single job, and nothing where there is none.
    assert_eq!(outcomes.read, 3);

    let mut look_up = LookUp::new([names.clone(), names.clone()].concat());
    let mut pieces = 1;
    while !look_up.go_on(&store).unwrap() {
        pieces += 1;
    }
    assert_eq!(pieces, 6);
    let found = look_up.found();
    assert_eq!(found.len(), names.len());
    for old in found {
        let want = match (old.job.job.0, old.job.task) {
            (1, Some(0)) => None,
            (1, Some(task)) => Some(task != 7),
            (1, None) => Some(false), // not all of them
            (id, _) if id <= u64::from(TASKS) => Some(id != 7),
            (..) => None,
        };
        assert_eq!((old.ok, old.owner), (want, want.map(|_| Uid(1000))), "{old:?}");
    }
}

// --- workflows

fn flow(id: u64, closed: Option<i64>) -> FlowRow {
    FlowRow {
        id: FlowId(id),
        uid: Uid(1000),
        gid: Gid(100),
        user: "ann".into(),
        state: match closed {
            Some(_) => FlowState::Failed,
            None => FlowState::Running,
        },
        made: Time(1),
        deadline: Some(Time(HOUR)),
        account: Some("physics".into()),
        hold_until: Some(Time(2)),
        closed: closed.map(Time),
        note: "late".into(),
    }
}

fn flow_task(flow: u64, task: u32, job: u64) -> FlowTaskRow {
    FlowTaskRow {
        of: OfFlow {
            flow: FlowId(flow),
            task,
        },
        state: FlowTaskState::Waiting,
        job: JobId(job),
        reservation: Some(ReservationId(3)),
        slot: Some((Time(5), Time(6))),
        replan: true,
        set: "fast".into(),
        estimate: Span(1),
        failures: 2,
        start: Some(Time(5)),
        end: None,
        nodes: "n1".into(),
        price: Su(4),
        note: "again".into(),
    }
}

fn flow_spec() -> FlowSpec {
    let task = format!(r#"{{"name": "a", "spec": {SPEC}, "estimate": 1000}}"#);
    let text = format!(r#"{{"name": "montage", "tasks": [{task}], "edges": []}}"#);
    serde_json::from_str(&text).unwrap()
}

fn made(row: FlowRow) -> Record {
    Record::FlowMade {
        row: Box::new(row),
        spec: Box::new(flow_spec()),
        environment: OsText::from("HOME=/h\0"),
    }
}

fn changed(row: FlowTaskRow) -> Record {
    Record::FlowTask(Box::new(row))
}

#[test]
fn workflows_are_loaded_as_saved() {
    workflows_are_loaded_as_saved_in(Bench::new);
}

fn workflows_are_loaded_as_saved_in(new: New) {
    let bench = new();
    let last = flow_task(2, 1, 8);
    let mut later = flow_task(2, 0, 7);
    later.state = FlowTaskState::Done;
    let records = [
        made(flow(1, None)),
        made(flow(2, None)),
        changed(flow_task(2, 0, 7)),
        changed(last.clone()),
        changed(later.clone()),
        made(flow(3, None)),
        Record::Flow(Box::new(flow(1, Some(2 * 24 * HOUR)))),
        Record::Flow(Box::new(flow(3, Some(1)))),
    ];
    let loaded = whole(&bench.saved(&records));
    let want = [
        // What was over long before the last one was is not loaded.
        LoadedFlow {
            row: flow(1, Some(2 * 24 * HOUR)),
            spec: flow_spec(),
            tasks: Vec::new(),
        },
        LoadedFlow {
            row: flow(2, None),
            spec: flow_spec(),
            tasks: vec![later, last],
        },
    ];
    assert_eq!(loaded.flows, want);
    assert_eq!(loaded.next_flow, 4);
}

#[test]
fn jobs_of_a_workflow_have_its_environment() {
    jobs_of_a_workflow_have_its_environment_in(Bench::new);
}

fn jobs_of_a_workflow_have_its_environment_in(new: New) {
    let bench = new();
    let mut job = running(7, 1000, None).remove(0);
    if let Record::Submitted { row, script, .. } = &mut job {
        row.flow = Some(OfFlow {
            flow: FlowId(2),
            task: 0,
        });
        *script = OsText::from("#!/bin/sh");
    }
    let store = bench.saved(&[made(flow(2, None)), job]);
    let want = Payload {
        script: OsText::from("#!/bin/sh"),
        environment: OsText::from("HOME=/h\0"),
    };
    assert_eq!(store.payload(JobId(7)).unwrap(), want);
}

#[test]
fn a_database_of_the_fourth_schema_is_migrated() {
    let bench = Bench::new();
    drop(bench.saved(&[booked(reservation(1, ReservationState::Held, HOUR))]));
    // As the fourth schema had it, with a job.
    let old = rusqlite::Connection::open(bench.path()).unwrap();
    old.execute_batch(
        "ALTER TABLE submissions DROP COLUMN dropped;
         ALTER TABLE submissions DROP COLUMN flow;
         DROP TABLE flows;
         DROP TABLE flow_tasks;
         INSERT INTO submissions VALUES (7, 1, 0, 'u', 'q', 'n', '', 1, 0, x'00', x'41', x'42');
         DROP TABLE live_submissions;
         DROP TABLE own_queues;
         DROP TABLE triggers;
         DROP TABLE revoked_keys;
         DROP TABLE bodies;
         DROP TABLE standings;
         ALTER TABLE jobs DROP COLUMN body;
         DROP TABLE set_aside; DROP TABLE older; DROP TABLE clock; DROP TABLE policy; DROP TABLE usage; DROP TABLE license_use; DROP TABLE runs;
         DROP TABLE archives; DROP TABLE leaving; DROP TABLE progress; DROP TABLE undropped; DROP TABLE end_days; DROP TABLE counters; DROP TABLE copying; DROP TABLE copied; DROP TABLE restored;
         CREATE INDEX submissions_live ON submissions(base) WHERE live = 1;
         PRAGMA user_version = 4;",
    )
    .unwrap();
    drop(old);
    let store = bench.saved(&[made(flow(1, None))]);
    let loaded = whole(&store);
    assert_eq!((loaded.flows.len(), loaded.reservations.len()), (1, 1));
    assert_eq!(store.payload(JobId(7)).unwrap().environment.0, b"A");
}

#[test]
fn rows_of_nodes_may_be_of_before_features_could_be_set() {
    let old = (NodeState::Open, None::<Amounts>, vec!["fa".to_owned()]);
    let row: NodeRow = decode("nodes", &encode(&old).unwrap()).unwrap();
    assert_eq!(row.features, ["fa"]);
    assert!(!row.features_set);
    let new = NodeRow {
        features_set: true,
        ..row
    };
    assert_eq!(decode::<NodeRow>("nodes", &encode(&new).unwrap()).unwrap(), new);
}

/// What the jobs of submission 1 ask for, once changed, with that name.
fn body(number: u32, name: &str) -> Record {
    let Some(Record::Submitted { mut row, .. }) = running(1, 1000, Some(7)).into_iter().next()
    else {
        panic!("no submission");
    };
    row.indices = None;
    std::sync::Arc::make_mut(&mut row.spec).name = name.into();
    Record::Body { number, row }
}

/// The row of submission 1 with that body, as of an ended job.
fn ended_with(body: u32) -> Record {
    let Some(Record::Job(mut row)) = running(1, 1000, Some(7)).into_iter().nth(1) else {
        panic!("no row");
    };
    row.body = body;
    row.state = JobState::Completed;
    row.end = Some(End::never_ran(EndCause::Exited, Time(9)));
    Record::Job(row)
}

#[test]
fn bodies_are_kept_once_and_history_tells_them() {
    bodies_are_kept_once_and_history_tells_them_in(Bench::new);
}

fn bodies_are_kept_once_and_history_tells_them_in(new: New) {
    let bench = new();
    let standing = StandingRow {
        base: JobId(1),
        body: 2,
        held: None,
        at_once: Some(3),
    };
    let mut records = running(1, 1000, Some(7));
    records.extend([body(1, "first"), body(2, "second"), ended_with(2)]);
    records.extend([Record::Standing(standing), gone(1)]);
    let store = bench.saved(&records);
    let loaded = whole(&store);
    let bodies: Vec<(u32, &str)> = loaded
        .bodies
        .iter()
        .map(|(number, row)| (*number, row.spec.name.as_str()))
        .collect();
    assert_eq!(bodies, [(2, "second")]);
    assert_eq!(loaded.standings, [standing]);
    let names_of = |filter: &JobFilter| {
        let mut names = Vec::new();
        let reading = HistoryQuery {
            filter,
            only: None,
            most_ids: limits::HISTORY_IDS,
        };
        let more = store.history(reading, |row, of| {
            names.push((row.body, of.spec.name.clone()));
            Continuation::More
        });
        assert!(more.unwrap().is_none());
        names
    };
    assert_eq!(names_of(&JobFilter::default()), [(2, "second".to_owned())]);
    // What is over is no longer loaded, and history stays.
    let store = bench.saved(&[Record::SubmissionDone(JobId(1))]);
    let loaded = whole(&store);
    assert!(loaded.bodies.is_empty() && loaded.standings.is_empty());
    assert_eq!(names_of(&JobFilter::default()), [(2, "second".to_owned())]);
}

fn gone(number: u32) -> Record {
    Record::BodyGone {
        base: JobId(1),
        number,
    }
}

/// Rows of the ninth schema, with requests of their own in them.
#[test]
fn a_database_of_the_ninth_schema_is_migrated() {
    let bench = Bench::new();
    drop(bench.saved(&running(1, 1000, Some(7))));
    let old = rusqlite::Connection::open(bench.path()).unwrap();
    let back = "DROP TABLE bodies; DROP TABLE standings; ALTER TABLE jobs DROP COLUMN body;
         DROP TABLE set_aside; DROP TABLE older; DROP TABLE clock; DROP TABLE policy; DROP TABLE usage; DROP TABLE license_use; DROP TABLE runs;
         DROP TABLE archives; DROP TABLE leaving; DROP TABLE progress; DROP TABLE undropped; DROP TABLE end_days; DROP TABLE counters; DROP TABLE copying; DROP TABLE copied; DROP TABLE restored;
         ALTER TABLE submissions DROP COLUMN dropped; PRAGMA user_version = 9;";
    old.execute_batch(back).unwrap();
    let changed: serde_json::Value = serde_json::json!({
        "id": 1, "base": 1, "index": 7, "state": "waiting", "attempt": 0, "held": "user",
        "changed": serde_json::from_str::<serde_json::Value>(SPEC).unwrap(),
        "queue": "night", "eligible": null, "run": null, "end": null, "note": ""});
    let blob = rmp_serde::to_vec_named(&changed).unwrap();
    old.execute("UPDATE jobs SET row = ?1", [blob]).unwrap();
    drop(old);
    let store = bench.open();
    let loaded = whole(&store);
    let row = &loaded.jobs[0];
    assert_eq!((row.body, row.queue.as_deref()), (0, Some("night")));
    assert!(row.changed.is_some() && loaded.bodies.is_empty());
}

/// Numbers that a lost store has given out are not given out by the one that is there.
#[test]
fn numbers_of_a_lost_store_are_not_given_out_again() {
    numbers_of_a_lost_store_are_not_given_out_again_in(Bench::new);
}

fn numbers_of_a_lost_store_are_not_given_out_again_in(new: New) {
    let bench = new();
    let mark = cosy_model::node::StoreMark {
        events: 900,
        jobs: 70,
        reservations: 60,
        flows: 50,
        triggers: 40,
    };
    let row = cosy_control::OlderRow {
        at: Time(5),
        first: JobId(3),
        next: JobId(70),
        mark,
    };
    bench.open().commit(&[Record::Older(row)]).unwrap();
    let loaded = whole(&bench.open());
    assert_eq!(loaded.older, [row]);
    assert_eq!((loaded.last_event, loaded.next_job), (900, 70));
    assert_eq!((loaded.next_reservation, loaded.next_flow), (60, 50));
    assert_eq!(loaded.next_trigger, 40);
}

/// How clocks stood is kept once, the latest.
#[test]
fn how_clocks_stood_is_kept() {
    let bench = Bench::new();
    assert_eq!(whole(&bench.open()).clock, None);
    let row = |wall: i64| cosy_control::ClockRow {
        wall: Time(wall),
        steady_ms: 7,
        slept: cosy_model::Span(3),
        boot: "0b".to_owned(),
    };
    bench.open().commit(&[Record::Clock(row(5))]).unwrap();
    bench.open().commit(&[Record::Clock(row(6))]).unwrap();
    assert_eq!(whole(&bench.open()).clock, Some(row(6)));
    // What cannot be read says nothing, and stops nothing.
    let store = rusqlite::Connection::open(bench.path()).unwrap();
    store.execute("UPDATE clock SET row = x'c1'", []).unwrap();
    drop(store);
    assert_eq!(whole(&bench.open()).clock, None);
}

/// All that holds of a file holds of a server.
#[test]
fn on_a_server() {
    if !server::is_there() {
        return;
    }
    type Test = fn(New);
    let all: [(&str, Test); 20] = [
        ("history_is_text", history_is_text_in),
        ("what_is_saved_is_loaded", what_is_saved_is_loaded_in),
        ("an_empty_store_gives_the_first_ids", an_empty_store_gives_the_first_ids_in),
        (
            "those_that_ended_more_than_a_day_ago_are_not_loaded",
            those_that_ended_more_than_a_day_ago_are_not_loaded_in,
        ),
        ("a_batch_is_kept_whole_or_not_at_all", a_batch_is_kept_whole_or_not_at_all_in),
        ("the_ledger_is_append_only", the_ledger_is_append_only_in),
        (
            "the_ledger_is_read_in_pages_by_those_who_may",
            the_ledger_is_read_in_pages_by_those_who_may_in,
        ),
        (
            "a_revoked_key_is_remembered_and_its_node_has_none",
            a_revoked_key_is_remembered_and_its_node_has_none_in,
        ),
        ("the_last_word_on_licences_is_remembered", the_last_word_on_licences_is_remembered_in),
        ("triggers_and_their_ids", triggers_and_their_ids_in),
        (
            "each_step_is_there_once_by_job_attempt_and_number",
            each_step_is_there_once_by_job_attempt_and_number_in,
        ),
        ("steps_of_many_running_jobs_are_summed_up", steps_of_many_running_jobs_are_summed_up_in),
        ("what_live_jobs_depend_on_is_known", what_live_jobs_depend_on_is_known_in),
        ("pages_of_steps_make_the_whole", pages_of_steps_make_the_whole_in),
        ("a_submission_that_was_done_lives_again", a_submission_that_was_done_lives_again_in),
        (
            "many_tasks_of_an_array_are_looked_up_in_pieces",
            many_tasks_of_an_array_are_looked_up_in_pieces_in,
        ),
        ("workflows_are_loaded_as_saved", workflows_are_loaded_as_saved_in),
        ("jobs_of_a_workflow_have_its_environment", jobs_of_a_workflow_have_its_environment_in),
        (
            "bodies_are_kept_once_and_history_tells_them",
            bodies_are_kept_once_and_history_tells_them_in,
        ),
        (
            "numbers_of_a_lost_store_are_not_given_out_again",
            numbers_of_a_lost_store_are_not_given_out_again_in,
        ),
    ];
    for (name, test) in all {
        eprintln!("{name}");
        test(Bench::on_server);
    }
}
