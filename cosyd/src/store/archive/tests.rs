//! Archives: nothing is lost or told twice, whatever a crash interrupts; what is not over stays.

use super::*;
use crate::store::history::tests::ended_row;
use crate::store::outcomes::Outcomes;
use crate::store::set_aside;
use crate::store::sources::Script;
use crate::store::steps::StepReading;
use crate::store::whole_tests::archive;
use crate::store_answers;
use cosy_control::{Eyes, FlowRow, JobRow, OfFlow, Record, StepBatch, SubmissionRow};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply};
use cosy_model::history::{Event, EventKind, EventObject};
use cosy_model::job::{FurtherComponent, ResourceRequest};
use cosy_model::node::AttemptKey;
use cosy_model::step::{StepId, StepRecord};
use cosy_model::workflow::{FlowSpec, FlowState};
use cosy_model::{Attempt, End, EndCause, FlowId, Gid, JobId, OsText, Uid};
use std::path::PathBuf;
use tempfile::TempDir;

const DAY: i64 = 86_400_000;
/// The first of July 1970, before which all is old.
const JULY: Time = Time(181 * DAY);

fn submission(base: u64, tasks: u32) -> SubmissionRow {
    let indices: Option<Vec<u32>> = (tasks > 1).then(|| (1..=tasks).collect());
    serde_json::from_value(serde_json::json!({
        "base": base, "indices": indices, "numbering": "last_first", "at_once": null,
        "uid": 7, "gid": 1, "user": "ann", "queue": "day", "submit": DAY,
        "spec": {"name": "x", "program": "allocation", "request": {"cores_per_task": 1},
            "workdir": "/", "environment": "", "umask": 18},
    }))
    .unwrap()
}

fn submitted(of: &SubmissionRow) -> Record {
    Record::Submitted {
        row: Box::new(of.clone()),
        script: OsText(format!("script of {}", of.base).into_bytes()),
        environment: OsText(b"A=1".to_vec()),
    }
}

fn ended(of: &SubmissionRow, place: usize, at: Time) -> Box<JobRow> {
    let mut row = ended_row(of, place, at);
    row.attempt = Attempt(2);
    row
}

/// A submission that is over, with an earlier run, a changed body and a step of its first job.
fn over(base: u64, tasks: u32, day: i64) -> Vec<Record> {
    let of = submission(base, tasks);
    let mut records = vec![submitted(&of)];
    let mut body = of.clone();
    body.queue = "night".into();
    records.push(Record::Body {
        number: 1,
        row: Box::new(body),
    });
    for place in 0..tasks as usize {
        let mut row = ended(&of, place, Time(day * DAY + place as i64));
        if row.id.0 == base {
            row.body = 1;
            let mut run = row.clone();
            run.attempt = Attempt(1);
            records.push(Record::EarlierRun(run));
        }
        records.push(Record::Job(row));
    }
    records.push(step(base, 0));
    records.push(Record::SubmissionDone(of.base));
    records
}

fn step(job: u64, before: u64) -> Record {
    let record = StepRecord {
        step: StepId(before as u32),
        name: "s".into(),
        nodes: "n1".into(),
        tasks: 1,
        cores: 1,
        end: End::never_ran(EndCause::Exited, Time(2 * DAY)),
    };
    Record::Steps(Box::new(StepBatch {
        key: AttemptKey {
            job: JobId(job),
            attempt: Attempt(2),
        },
        before,
        records: vec![record],
    }))
}

struct Bench {
    dir: TempDir,
}

impl Bench {
    /// A store with jobs of three months, of arrays too.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bench = Self { dir };
        let mut store = bench.open();
        for (base, tasks, day) in [(1, 1, 5), (2, 4, 40), (6, 1, 6), (7, 3, 70), (10, 1, 300)] {
            store.commit(&over(base, tasks, day)).unwrap();
        }
        bench
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("cosy.db")
    }

    fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    /// Archives all that was over before July; how many jobs went.
    fn archive(&self) -> u64 {
        self.archive_before(JULY)
    }

    fn archive_before(&self, before: Time) -> u64 {
        archive(&mut self.open(), before)
    }

    fn rows(&self, table: &str) -> u64 {
        let count = format!("SELECT COUNT(*) FROM {table}");
        self.open().number(&count).unwrap()
    }
}

/// What a list tells in pages of so many rows, the earliest first, and what it complains of.
fn list(store: &Store, filter: &JobFilter, most: Option<u32>) -> (Vec<String>, Vec<String>) {
    let mut filter = JobFilter {
        pages: true,
        most,
        ..filter.clone()
    };
    let (mut all, mut notices) = (Vec::new(), Vec::new());
    let fields = [JobField::Ref, JobField::Queue];
    for _ in 0..100 {
        let page = store_answers::history(store, &filter, &fields, Eyes::All, &mut notices);
        let Reply::Jobs(page) = page.unwrap() else {
            panic!("no table")
        };
        let row = |row| {
            format!("{}{}", page.text(row, JobField::Ref), &page.text(row, JobField::Queue)[..1])
        };
        let mut rows: Vec<String> = (0..page.rows).map(row).collect();
        rows.reverse();
        all.extend(rows);
        // As commands do.
        filter.most = filter.most.map(|most| most - page.rows as u32);
        match page.more.filter(|_| filter.most != Some(0)) {
            Some(more) => filter.after = Some(more),
            None => {
                all.reverse();
                return (all, notices);
            }
        }
    }
    panic!("it does not end");
}

fn told(store: &Store, filter: &JobFilter) -> String {
    let (all, notices) = list(store, filter, None);
    assert_eq!(notices, [""; 0]);
    all.join(" ")
}

fn refs(text: &str) -> JobFilter {
    JobFilter {
        ids: text.split(' ').map(|id| id.parse().unwrap()).collect(),
        ..JobFilter::default()
    }
}

const ALL: &str = "1n 6n 2_1d 2_2d 2_3d 2_4n 7_1d 7_2d 7_3n 10n";

/// All that was asked before is told as before.
fn check_whole(store: &Store) {
    let sorted = |text: &str| {
        let mut all: Vec<String> = text.split(' ').map(str::to_owned).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(&told(store, &JobFilter::default())), sorted(ALL));
    assert_eq!(sorted(&told(store, &refs("2_4 6 7"))), sorted("6n 2_4n 7_1d 7_2d 7_3n"));
    assert_eq!(told(store, &refs("3")), "2_1d", "an id within an array");
    assert_eq!(told(store, &refs("11")), "");
    let runs = JobFilter {
        earlier_runs: true,
        ..refs("1 2 10")
    };
    assert_eq!(told(store, &runs), "1n 2_4n 10n");
    let jobs = [1, 2, 7].map(|job| JobRef {
        job: JobId(job),
        task: None,
    });
    let reading = StepReading {
        jobs: &jobs,
        only: None,
        pages: false,
        after: None,
    };
    let (steps, more) = store.steps_everywhere(&reading, &mut Vec::new()).unwrap();
    let names: Vec<String> = steps.iter().map(|row| row.job.to_string()).collect();
    assert_eq!((names.join(" "), more), ("1 2_4 7_3".to_owned(), None));
    for (job, base) in [(1, 1), (4, 2), (10, 10)] {
        let (owner, script) = store.script(JobId(job), &mut Vec::new()).unwrap().unwrap();
        let text = OsText(format!("script of {base}").into_bytes());
        assert_eq!((owner, script), (Uid(7), Script::Kept(text)));
    }
    let mut outcomes = Outcomes::new(store);
    for id in ["1", "2", "2_3", "7", "10"] {
        let old = outcomes.of(id.parse().unwrap()).unwrap();
        assert_eq!((old.owner, old.ok), (Some(Uid(7)), Some(true)), "{id}");
    }
    let (loaded, bad) = store.load().unwrap();
    assert_eq!((loaded.next_job, bad), (11, vec![]));
}

#[test]
fn what_is_archived_is_told_as_before() {
    let bench = Bench::new();
    check_whole(&bench.open());
    assert_eq!(bench.archive(), 9);
    assert_eq!(bench.archive(), 0);
    for (table, rows) in [
        ("submissions", 1),
        ("jobs", 1),
        ("runs", 1),
        ("bodies", 1),
        ("steps", 1),
    ] {
        assert_eq!(bench.rows(table), rows, "{table}");
    }
    let store = bench.open();
    check_whole(&store);
    let any = JobFilter::default();
    assert_eq!(told(&store, &any), ALL, "the latest month last");
    let months: Vec<String> = store
        .archives()
        .unwrap()
        .iter()
        .map(|a| a.month.to_string())
        .collect();
    assert_eq!(months, ["1970-03", "1970-02", "1970-01"]);
    // Lists of so many rows are the latest of all.
    let all: Vec<&str> = ALL.split(' ').collect();
    for most in 1..=10 {
        let (some, _) = list(&store, &any, Some(most));
        assert_eq!(some, all[10 - most as usize..], "{most}");
    }
    // Months that are not asked for are not opened.
    std::fs::remove_file(store.archive_path(Month(0))).unwrap();
    let late = JobFilter {
        since: Some(Time(35 * DAY)),
        ..any
    };
    assert_eq!(told(&store, &late), "2_1d 2_2d 2_3d 2_4n 7_1d 7_2d 7_3n 10n");
}

/// Also when all jobs are in archives.
#[test]
fn numbers_are_given_out_once() {
    for phase in 0..2 {
        let bench = Bench::new();
        let mut store = bench.open();
        let all = Time(400 * DAY);
        bench.archive();
        if phase == 0 {
            bench.archive_before(all);
        } else {
            let (units, _) = store.next_units(all, &mut Walk::default()).unwrap();
            let gone = store.within(units[0].month, |store| {
                store.copy(&units)?;
                store.switch(&units)
            });
            assert_eq!(gone.unwrap(), 1);
        }
        assert_eq!(bench.rows("submissions"), 0);
        assert_eq!(store.load().unwrap().0.next_job, 11);
    }
}

#[test]
fn archives_are_closed_to_others() {
    let bench = Bench::new();
    bench.archive();
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = bench.open().archive_path(Month(0));
    assert_eq!(mode(file.clone()), 0o600);
    assert_eq!(mode(file.parent().unwrap().to_owned()), 0o700);
}

#[test]
fn a_crash_loses_nothing() {
    for phase in 0..3 {
        let bench = Bench::new();
        // The archive of the month is read already.
        assert_eq!(bench.archive_before(Time(5 * DAY + 1)), 1);
        let mut store = bench.open();
        let (units, _) = store.next_units(JULY, &mut Walk::default()).unwrap();
        let month = units[0].month;
        store
            .within(month, |store| {
                store.copy(&units)?;
                if phase > 0 {
                    assert_eq!(store.switch(&units)?, 1);
                }
                if phase > 1 {
                    // Some rows are gone already.
                    store.in_transaction(|t| {
                        t.execute("DELETE FROM main.steps WHERE job = 6", params![])
                            .map(drop)
                    })?;
                }
                Ok(())
            })
            .unwrap();
        drop(store);
        check_whole(&bench.open());
        bench.archive();
        assert_eq!((bench.rows("leaving"), bench.rows("jobs"), bench.rows("steps")), (0, 1, 1));
        check_whole(&bench.open());
    }
}

/// A row that is not the same in the archive is copied again before it goes.
#[test]
fn a_step_that_comes_late_is_kept() {
    let bench = Bench::new();
    let mut store = bench.open();
    let (units, _) = store.next_units(JULY, &mut Walk::default()).unwrap();
    let archive = |store: &mut Store, late: Record| {
        store.within(units[0].month, |store| {
            store.copy(&units)?;
            store.switch(&units)?;
            store.commit(&[late])?;
            store.clear(units[0].month)
        })
    };
    archive(&mut store, step(1, 1)).unwrap();
    let old = store.open_archive(Month(0)).unwrap();
    assert_eq!(
        old.number("SELECT COUNT(*) FROM steps WHERE job = 1")
            .unwrap(),
        2
    );
    assert_eq!(
        store
            .number("SELECT COUNT(*) FROM steps WHERE job = 1")
            .unwrap(),
        0
    );
}

#[test]
fn what_is_not_over_stays() {
    let bench = Bench::new();
    let mut store = bench.open();
    // An array with a task that has not ended.
    let array = submission(20, 3);
    let mut records = vec![submitted(&array)];
    records.extend((0..2).map(|place| Record::Job(ended(&array, place, Time(5 * DAY)))));
    // One whose last task ended later.
    let late = submission(30, 2);
    records.push(submitted(&late));
    records.push(Record::Job(ended(&late, 1, Time(5 * DAY))));
    records.push(Record::Job(ended(&late, 0, JULY)));
    records.push(Record::SubmissionDone(JobId(30)));
    // One that is set aside.
    records.extend(over(40, 1, 5));
    // One of a workflow that lives, and one of a workflow that is over.
    for (base, flow, state) in [(50, 1, FlowState::Running), (51, 2, FlowState::Completed)] {
        records.push(made_flow(flow, state));
        let mut of = submission(base, 1);
        of.flow = Some(OfFlow {
            flow: FlowId(flow),
            task: 0,
        });
        records.push(submitted(&of));
        records.push(Record::Job(ended(&of, 0, Time(5 * DAY))));
        records.push(Record::SubmissionDone(of.base));
    }
    store.commit(&records).unwrap();
    store
        .set_aside(&set_aside::Unit::Submission(JobId(40)), "bad", Time(0))
        .unwrap();
    assert_eq!(bench.archive(), 10);
    let left = "SELECT group_concat(base) FROM (SELECT base FROM submissions ORDER BY base)";
    let left: String = store
        .sql(|c| c.query_row(left, params![], |r| r.get(0)))
        .unwrap();
    assert_eq!(left, "10,20,30,40,50");
    // Once it is over it goes too.
    let last = Record::Job(ended(&array, 2, Time(5 * DAY)));
    store
        .commit(&[last, Record::SubmissionDone(JobId(20))])
        .unwrap();
    assert_eq!(bench.archive(), 3);
}

fn made_flow(id: u64, state: FlowState) -> Record {
    let row = FlowRow {
        id: FlowId(id),
        uid: Uid(7),
        gid: Gid(1),
        user: "ann".into(),
        state,
        made: Time(1),
        deadline: None,
        account: None,
        hold_until: None,
        closed: (state != FlowState::Running).then_some(Time(5 * DAY)),
        note: String::new(),
    };
    let spec = r#"{"name": "montage", "tasks": [], "edges": []}"#;
    Record::FlowMade {
        row: Box::new(row),
        spec: Box::new(serde_json::from_str::<FlowSpec>(spec).unwrap()),
        environment: OsText(b"B=2".to_vec()),
    }
}

/// One array is more than a transaction holds.
#[test]
fn large_arrays_go_piece_by_piece() {
    let bench = Bench::new();
    bench.open().commit(&over(100, 1700, 6)).unwrap();
    assert_eq!(bench.archive(), 1709);
    assert_eq!((bench.rows("jobs"), bench.rows("leaving")), (1, 0));
    let store = bench.open();
    let (all, _) = list(&store, &refs("100"), None);
    assert_eq!((all.len(), &*all[0], &*all[1699]), (1700, "100_1d", "100_1700n"));
}

/// What is wrong with one archive is said, and the others are read and written.
#[test]
fn a_spoilt_archive_is_said() {
    for spoil in 0..3 {
        let bench = Bench::new();
        bench.archive();
        let mut store = bench.open();
        let file = store.archive_path(Month(1));
        match spoil {
            0 => std::fs::remove_file(&file).unwrap(),
            1 => std::fs::write(&file, "x".repeat(10_000)).unwrap(),
            _ => std::fs::write(&file, "").unwrap(),
        }
        let (rest, notices) = list(&store, &JobFilter::default(), None);
        assert_eq!(rest.join(" "), "1n 6n 7_1d 7_2d 7_3n 10n");
        assert_eq!(notices.len(), 1);
        assert!(notices[0].contains("jobs that ended in 1970-02 are missing"), "{notices:?}");
        let unknown = Outcomes::new(&store).of("2".parse().unwrap()).unwrap();
        assert_eq!(unknown.ok, None);
        if spoil == 1 {
            store.commit(&over(60, 1, 32)).unwrap();
            store.commit(&over(61, 1, 70)).unwrap();
            let mut walk = Walk::default();
            while !store.archive_some(JULY, &mut walk).unwrap().done {}
            assert_eq!(walk.failed.keys().collect::<Vec<_>>(), [&Month(1)]);
            let (rest, _) = list(&store, &refs("60 61"), None);
            assert_eq!(rest.join(" "), "61n 60n", "it stays in the store");
            assert_eq!(bench.rows("submissions"), 2);
        }
    }
}

/// Room that archived jobs leave goes back to the disk.
#[test]
fn the_file_shrinks() {
    let bench = Bench::new();
    let mut store = bench.open();
    let fat = |base| {
        let mut records = over(base, 1, 5);
        if let Some(Record::Submitted { script, .. }) = records.first_mut() {
            script.0 = vec![b'#'; 1 << 20];
        }
        records
    };
    for base in 100..110 {
        store.commit(&fat(base)).unwrap();
    }
    let pages = |store: &Store| {
        store
            .number("SELECT page_count FROM pragma_page_count")
            .unwrap()
    };
    let before = pages(&store);
    bench.archive();
    while store.shrink_some().unwrap() {}
    let after = pages(&store);
    assert!(before > 2500 && after < 1300, "{before} {after}");
    assert_eq!(told(&store, &refs("105")), "105n");
}

#[test]
fn scripts_are_dropped() {
    let bench = Bench::new();
    let mut store = bench.open();
    // Not over yet.
    let array = submission(20, 2);
    let mut records = vec![submitted(&array), made_flow(1, FlowState::Completed)];
    records.push(Record::Job(ended(&array, 1, Time(5 * DAY))));
    store.commit(&records).unwrap();
    let script = |store: &Store, job| {
        store
            .script(JobId(job), &mut Vec::new())
            .unwrap()
            .unwrap()
            .1
    };
    let drop = |store: &mut Store| while !store.drop_some_scripts(JULY, Time(9)).unwrap() {};
    drop(&mut store);
    let kept = |job| Script::Kept(OsText(format!("script of {job}").into_bytes()));
    for (job, want) in [
        (1, Script::Dropped(Time(9))),
        (10, kept(10)),
        (20, kept(20)),
    ] {
        assert_eq!(script(&store, job), want, "{job}");
    }
    assert_eq!(store.payload(JobId(1)).unwrap().environment, OsText::default());
    assert_eq!(store.payload(JobId(10)).unwrap().environment.0, b"A=1");
    assert_eq!(bench.rows("flows WHERE LENGTH(environment) = 0"), 1);
    let last = Record::Job(ended(&array, 0, Time(4 * DAY)));
    store
        .commit(&[last, Record::SubmissionDone(JobId(20))])
        .unwrap();
    drop(&mut store);
    assert_eq!(script(&store, 20), Script::Dropped(Time(9)));
    assert_eq!(bench.rows("undropped"), 0);
    // In an archive that is still known.
    bench.archive();
    assert_eq!(script(&store, 20), Script::Dropped(Time(9)));
    let refused = store_answers::script(&store, "20".parse().unwrap(), None, &mut Vec::new());
    let Reply::Refused(why) = refused.unwrap() else {
        panic!("a script")
    };
    assert!(why.message.contains("dropped on 1970-01-01"), "{why:?}");
    let other = store_answers::script(&store, "20".parse().unwrap(), Some(Uid(8)), &mut Vec::new());
    assert!(format!("{other:?}").contains("there is no job"), "{other:?}");
}

#[test]
fn events_are_forgotten_but_the_last() {
    let bench = Bench::new();
    let mut store = bench.open();
    let event = |seq: u64| {
        Record::Happened(Event {
            seq,
            at: Time(seq as i64),
            kind: EventKind::Lost,
            who: "controller".into(),
            object: EventObject::Job(JobId(1)),
            detail: String::new(),
        })
    };
    store
        .commit(&(1..=1200).map(event).collect::<Vec<_>>())
        .unwrap();
    let first = |store: &Store| store.events(0, 1, false).unwrap()[0].seq;
    while !store.forget_some_events(Time(700)).unwrap() {}
    assert_eq!(first(&store), 700);
    while !store.forget_some_events(Time(5000)).unwrap() {}
    assert_eq!(first(&store), 1200);
    assert_eq!(store.load().unwrap().0.last_event, 1200);
}

/// Components of a job have ids, and no row.
#[test]
fn a_job_of_components_goes_with_its_script() {
    let bench = Bench::new();
    let mut store = bench.open();
    let mut of = submission(20, 1);
    let component = FurtherComponent {
        name: None,
        queue: None,
        request: ResourceRequest::default(),
    };
    std::sync::Arc::make_mut(&mut of.spec)
        .further_components
        .push(component);
    assert_eq!((of.ids(), of.tasks()), (2, 1));
    let job = ended(&of, 0, Time(5 * DAY));
    store
        .commit(&[
            submitted(&of),
            Record::Job(job),
            Record::SubmissionDone(of.base),
        ])
        .unwrap();
    while !store.drop_some_scripts(JULY, Time(9)).unwrap() {}
    assert_eq!(bench.rows("submissions WHERE base = 20 AND dropped = 9"), 1);
    bench.archive();
    assert_eq!(bench.rows("submissions WHERE base = 20"), 0);
    let archive = store.open_archive(Month(0)).unwrap();
    assert!(archive.has_submission(of.base).unwrap());
}
