//! A store with every kind of record, for tests that go through all of them.

use super::archive::Walk;
use super::content::MissingArchives;
use super::copy::{Options, Outcome, PIECE, copy};
use super::sql::params;
use super::{JobRow, Location, Record, Store, decode, encode, server_tests as server};
use cosy_control::{ClockRow, PolicyRow, RestoredRow, SubmissionRow, UsageRow};
use cosy_model::{Attempt, Gid, JobId, JobSpec, LicenseUse, OsText, Program, Span, Time, Uid};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A moment between the ends of its jobs.
pub const MIDDLE: Time = Time(1_795_494_285_000);
/// One behind all of them.
pub const LATER: Time = Time(1_795_500_000_000);

/// The file of the store in its directory.
pub fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("cosy.db")
}

/// A submission of one job of that name.
pub fn plain_submission(base: u64, name: &str) -> SubmissionRow {
    let program = Program::Command {
        argv: vec![OsText::from("true")],
    };
    SubmissionRow {
        base: JobId(base),
        indices: None,
        numbering: Default::default(),
        at_once: None,
        uid: Uid(1000),
        gid: Gid(100),
        user: "ann".into(),
        queue: "main".into(),
        submit: Time(5),
        spec: JobSpec::plain(name, program, OsText::from("/")).into(),
        flow: None,
    }
}

/// It is submitted, without a script and variables.
pub fn submitted(row: &SubmissionRow) -> Record {
    Record::Submitted {
        row: Box::new(row.clone()),
        script: OsText::default(),
        environment: OsText::default(),
    }
}

/// As an earlier release made it, with what was added since.
pub fn whole() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let fixture = "../tests/fixtures/state-0.1.0-schema-12/cosy.db";
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
    fs::copy(fixture, path(&dir)).unwrap();
    let mut store = Store::open(&path(&dir)).unwrap();
    let mut run = ended(&store);
    run.attempt = Attempt(run.attempt.0 - 1);
    let license = LicenseUse {
        in_use: 3,
        outside: 1,
        at: LATER,
        by: "root".into(),
    };
    let clock = ClockRow {
        wall: LATER,
        steady_ms: 7,
        slept: Span(3),
        boot: "0b".to_owned(),
    };
    let usage = UsageRow {
        account: "physics".into(),
        user: "ann".into(),
        ..UsageRow::default()
    };
    let numbers = PolicyRow::Numbers {
        association: 2,
        qos: 3,
    };
    let records = [
        Record::EarlierRun(Box::new(run)),
        Record::LicenseUse {
            license: "l".into(),
            row: license,
        },
        Record::Clock(clock),
        Record::Usage(Box::new(usage)),
        Record::Policy {
            key: numbers.key(),
            row: Some(Box::new(numbers)),
        },
    ];
    store.commit(&records).unwrap();
    let restored = RestoredRow {
        at: LATER,
        last: LATER,
    };
    store
        .sql(|c| {
            c.execute(
                "INSERT INTO restored (id, row) VALUES (1, ?1)",
                params![encode(&restored)?],
            )?;
            c.execute_batch(
                "INSERT INTO progress (what, ended, id) VALUES ('scripts', 7, 8);
                 INSERT INTO undropped (base) SELECT MIN(base) FROM live_submissions;",
            )
        })
        .unwrap();
    dir
}

/// The same in a database on the server of this thread.
pub fn on_a_server() -> Location {
    let dir = whole();
    let location = server::database();
    copied(&Store::open(&path(&dir)).unwrap(), &location);
    location
}

/// Copies all of it.
pub fn copied(source: &Store, target: &Location) {
    let mut target = Store::open_for_copy(target).unwrap();
    let options = Options {
        bounds: PIECE,
        missing: MissingArchives::Refused,
        anew: false,
        now: Time(1),
    };
    let done = copy(source, &mut target, options, &mut |_, _| Ok(())).unwrap();
    assert!(matches!(done, Outcome::Copied(_)), "{done:?}");
}

impl Store {
    /// The number that a query finds.
    pub fn count_for_tests(&self, query: &str) -> u64 {
        self.number(query).unwrap()
    }
}

/// A job that has ended, and ran.
fn ended(store: &Store) -> JobRow {
    let blob: Vec<u8> = store
        .sql(|c| {
            c.query_row(
                "SELECT row FROM jobs WHERE ended IS NOT NULL AND start IS NOT NULL ORDER BY id LIMIT 1",
                params![],
                |r| r.get(0),
            )
        })
        .unwrap();
    decode("jobs", &blob).unwrap()
}

/// Old jobs of a store go into archives; how many.
pub fn archive(store: &mut Store, before: Time) -> u64 {
    let (mut walk, mut jobs) = (Walk::default(), 0);
    loop {
        let step = store.archive_some(before, &mut walk).unwrap();
        jobs += step.jobs;
        if step.done {
            assert!(walk.failed.is_empty(), "{walk:?}");
            return jobs;
        }
    }
}
