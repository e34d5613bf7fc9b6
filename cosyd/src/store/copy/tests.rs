//! A copy has everything, however often it was interrupted, and says so where it has not.

use super::*;
use crate::store::hold::Hold;
use crate::store::logical::Kind;
use crate::store::server_tests as server;
use crate::store::set_aside::Unit;
use crate::store::whole_tests::{MIDDLE, archive, path, whole};
use cosy_model::TriggerId;
use std::collections::BTreeSet;
use tempfile::TempDir;

const SMALL: Bounds = Bounds {
    rows: 5,
    bytes: 4000,
};

/// An empty store of either kind.
type New = fn(&TempDir) -> Location;

fn in_a_file(dir: &TempDir) -> Location {
    let mut n = 0;
    loop {
        let path = dir.path().join(format!("target-{n}.db"));
        if !path.exists() {
            return Location::Sqlite(path);
        }
        n += 1;
    }
}

fn on_a_server(_: &TempDir) -> Location {
    server::database()
}

/// Both, where both can be had.
fn both(test: fn(New)) {
    test(in_a_file);
    if !server::is_there() {
        return;
    }
    test(on_a_server);
}

fn options(bounds: Bounds) -> Options {
    Options {
        bounds,
        missing: MissingArchives::Refused,
        anew: false,
        now: Time(77),
    }
}

fn copied(source: &Store, target: &Location) -> Outcome {
    let mut target = Store::open_for_copy(target).unwrap();
    copy(source, &mut target, options(PIECE), &mut |_, _| Ok(())).unwrap()
}

/// What a controller takes up, in words; numbers in the archives too.
fn taken_up(store: &Store) -> String {
    let (loaded, bad) = store.load().unwrap();
    format!("{loaded:#?} {bad:?}")
}

fn sums(store: &Store) -> Sums {
    let content = Content::of(store, MissingArchives::Refused).unwrap();
    content.sums(&mut |_, _| Ok(())).unwrap()
}

fn sql(store: &Store, text: &str) {
    store.sql(|c| c.execute_batch(text)).unwrap();
}

/// The fixture with an archive in which a crash has left things: a submission that is on its way with
/// some of its rows here, and another one of which the archive has a copy that does not count.
fn half_archived() -> TempDir {
    let dir = whole();
    let mut store = Store::open(&path(&dir)).unwrap();
    assert!(archive(&mut store, MIDDLE) > 3);
    let file = store.archive_path(store.archives().unwrap()[0].month);
    let file = file.to_str().unwrap();
    sql(
        &store,
        &format!(
            "ATTACH DATABASE '{file}' AS archive;
             INSERT INTO leaving SELECT base, ids, 0 FROM archive.submissions
                 ORDER BY base LIMIT 1;
             INSERT INTO jobs (id, base, state, start, ended, row, body)
                 SELECT id, base, state, start, ended, row, body FROM archive.jobs
                 WHERE id = (SELECT base FROM leaving);
             INSERT INTO archive.submissions
                     (base, ids, uid, user, queue, name, account, submit, row, environment, script)
                 SELECT base, ids, uid, user, queue, 'old', account, submit, row, environment, script
                 FROM main.submissions WHERE base = (SELECT MIN(base) FROM live_submissions);
             INSERT INTO archive.jobs (id, base, state, start, ended, row, body)
                 SELECT id, base, 'old', start, ended, row, body FROM main.jobs
                 WHERE base = (SELECT MIN(base) FROM live_submissions);
             DETACH DATABASE archive;"
        ),
    );
    dir
}

/// Names and types of columns, as the database has them.
fn columns(store: &Store) -> BTreeMap<String, Vec<(String, String)>> {
    let query = match &store.connection {
        Connection::Sqlite(_) => {
            "SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"
        }
        Connection::Postgres(_) => {
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT)
             FROM information_schema.columns WHERE table_schema = current_schema()"
        }
    };
    let found: Vec<(String, String, String)> = store
        .sql(|c| {
            c.prepare_cached(query)?
                .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
                .collect()
        })
        .unwrap();
    let mut all: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (table, column, kind) in found {
        all.entry(table).or_default().push((column, kind));
    }
    all
}

/// Whoever adds a table or a column adds it to what is copied.
#[test]
fn every_table_and_column_is_known() {
    both(|new| {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_at(&new(&dir)).unwrap();
        let mut all = columns(&store);
        for table in &TABLES {
            let mut there = all.remove(table.name).unwrap();
            let kind = |kind| match (kind, &store.connection) {
                (Kind::Integer, Connection::Sqlite(_)) => "INTEGER",
                (Kind::Integer, Connection::Postgres(_)) => "bigint",
                (Kind::Text, Connection::Sqlite(_)) => "TEXT",
                (Kind::Text, Connection::Postgres(_)) => "text",
                (Kind::Blob, Connection::Sqlite(_)) => "BLOB",
                (Kind::Blob, Connection::Postgres(_)) => "bytea",
            };
            let known = table.columns.iter();
            let mut known: Vec<(String, String)> = known
                .map(|(name, of)| ((*name).to_owned(), kind(*of).to_owned()))
                .collect();
            known.sort_unstable();
            there.sort_unstable();
            assert_eq!(known, there, "{}", table.name);
        }
        let of_the_database = [
            "archives",
            "batches",
            "controllers",
            "copied",
            "copying",
            "end_days",
            "leader",
            "leaving",
            "probe",
            "schema_version",
        ];
        let left: BTreeSet<&str> = all.keys().map(String::as_str).collect();
        let known: BTreeSet<&str> = of_the_database.into_iter().collect();
        assert!(left.is_subset(&known), "{left:?}");
    });
}

/// The store that tests go through has all that can be copied.
#[test]
fn the_whole_store_is_whole() {
    let dir = whole();
    let store = Store::open(&path(&dir)).unwrap();
    for (table, sum) in sums(&store) {
        assert!(sum.rows > 0, "nothing in {table}");
    }
}

#[test]
fn everything_comes_over_and_back() {
    both(everything_comes_over_and_back_in);
}

fn everything_comes_over_and_back_in(new: New) {
    let dir = half_archived();
    let source = Store::open(&path(&dir)).unwrap();
    // As it was before anything went into an archive.
    let unarchived = whole();
    assert_eq!(sums(&source), sums(&Store::open(&path(&unarchived)).unwrap()));
    sql(
        &source,
        "INSERT INTO events VALUES (200000, 1, 'x', 'y', 'z', 'a' || char(0) || 'b');
         UPDATE sqlite_sequence SET seq = 100 WHERE name = 'set_aside';",
    );
    let before = sums(&source);
    let there = new(&dir);
    assert!(matches!(copied(&source, &there), Outcome::Copied(_)));
    let target = Store::open_at(&there).unwrap();
    assert_eq!(sums(&target), before);
    assert_eq!(sums(&source), before, "the source is as it was");
    assert!(target.archives().unwrap().is_empty());
    // All that has ended is found by its day.
    let days = "SELECT COUNT(*) FROM jobs j WHERE ended IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM end_days d WHERE d.day = j.ended / 86400000 AND d.least_id <= j.id)";
    assert_eq!(target.number(days).unwrap(), 0);
    let back = in_a_file(&dir);
    assert!(matches!(copied(&target, &back), Outcome::Copied(_)));
    let back = Store::open_at(&back).unwrap();
    assert_eq!(sums(&back), before);
    for store in [&target, &back] {
        assert_eq!(taken_up(store), taken_up(&source));
    }
}

/// Numbers go on above those that are there.
#[test]
fn numbers_go_on() {
    both(|new| {
        let dir = whole();
        let source = Store::open(&path(&dir)).unwrap();
        let there = new(&dir);
        copied(&source, &there);
        let mut target = Store::open_at(&there).unwrap();
        let highest = target.number("SELECT MAX(id) FROM set_aside").unwrap();
        let trigger = target.number("SELECT MIN(id) FROM triggers").unwrap();
        let unit = Unit::Trigger(TriggerId(trigger));
        target.set_aside(&unit, "a test", Time(1)).unwrap();
        assert!(target.number("SELECT MAX(id) FROM set_aside").unwrap() > highest);
        let loaded = source.load().unwrap().0;
        assert_eq!(target.load().unwrap().0.next_trigger, loaded.next_trigger);
    });
}

/// Each run makes one piece and is interrupted.
#[test]
fn what_is_interrupted_is_gone_on_with() {
    both(|new| {
        let dir = half_archived();
        let source = Store::open(&path(&dir)).unwrap();
        let there = new(&dir);
        let mut runs = 0;
        let outcome = loop {
            runs += 1;
            let mut target = Store::open_for_copy(&there).unwrap();
            let stop = &mut |what: &str, _| match what.starts_with("copying") {
                true => Err(CopyError::Interrupted),
                false => Ok(()),
            };
            match copy(&source, &mut target, options(SMALL), stop) {
                Err(CopyError::Interrupted) => {
                    // No controller takes that up.
                    let taken = Store::open_at(&there).map(drop).unwrap_err();
                    assert!(matches!(taken, StoreError::Unfinished { .. }), "{taken}");
                }
                done => break done.unwrap(),
            }
        };
        assert!(runs > 100, "{runs}");
        assert!(matches!(outcome, Outcome::Copied(_)), "{outcome:?}");
        let target = Store::open_at(&there).unwrap();
        assert_eq!(sums(&target), sums(&source));
        assert_eq!(taken_up(&target), taken_up(&source));
        // Again: nothing is done.
        sql(&target, "INSERT INTO queues (name, row) SELECT 'new', row FROM queues LIMIT 1");
        let before = sums(&target);
        assert_eq!(copied(&source, &there), Outcome::Already(Time(77)));
        assert_eq!(sums(&target), before);
    });
}

/// A piece of which the process did not live to see the end is there whole or not at all.
#[test]
fn a_piece_that_fails_leaves_nothing() {
    both(|new| {
        let dir = whole();
        let source = Store::open(&path(&dir)).unwrap();
        let there = new(&dir);
        let mut target = Store::open_for_copy(&there).unwrap();
        target.begin_copy("other", false).unwrap();
        let jobs = Table::named("jobs").unwrap();
        let mut piece = Piece::default();
        jobs.each::<CopyError>(&source.connection, &[], |values| {
            piece.rows.push((jobs, values));
            Ok(())
        })
        .unwrap();
        let bad = (jobs, vec![OwnedValue::Null; jobs.columns.len()]);
        piece.rows.push(bad);
        piece.up_to = Some(vec![OwnedValue::Integer(5)]);
        let failed = target.in_transaction(|t| {
            insert(t, &piece.rows)?;
            note(t, ("table", "jobs"), &piece)
        });
        assert!(failed.is_err());
        assert_eq!(target.number("SELECT COUNT(*) FROM jobs").unwrap(), 0);
        assert_eq!(target.places().unwrap().len(), 1);
    });
}

#[test]
fn a_changed_byte_is_found() {
    fn check(new: New, spoil: &str, table: &str) {
        let dir = half_archived();
        let source = Store::open(&path(&dir)).unwrap();
        let there = new(&dir);
        let mut target = Store::open_for_copy(&there).unwrap();
        // All is there, and nothing compared.
        let stop = &mut |what: &str, _| match what.starts_with("copying 2026-") {
            true => Err(CopyError::Interrupted),
            false => Ok(()),
        };
        let stopped = copy(&source, &mut target, options(PIECE), stop).unwrap_err();
        assert!(matches!(stopped, CopyError::Interrupted));
        sql(&target, spoil);
        let outcome = copied(&source, &there);
        let Outcome::Differs(all) = outcome else {
            panic!("{spoil}: {outcome:?}");
        };
        let differing = all.iter().filter(|one| one.source != one.target);
        let differing: Vec<&str> = differing.map(|one| one.table).collect();
        assert_eq!(differing, [table], "{spoil}");
        assert!(Store::open_at(&there).is_err(), "no controller takes it up");
        // From the beginning it is the same.
        let anew = Options {
            anew: true,
            ..options(PIECE)
        };
        sql(&target, "UPDATE copying SET after = 'other' WHERE part = ''");
        let done = copy(&source, &mut target, anew, &mut |_, _| Ok(())).unwrap();
        assert!(matches!(done, Outcome::Copied(_)));
        assert_eq!(sums(&target), sums(&source));
    }
    both(|new| {
        let first = "(SELECT MIN(id) FROM jobs)";
        check(new, &format!("UPDATE jobs SET state = state || 'x' WHERE id = {first}"), "jobs");
        check(new, "DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events)", "events");
        check(
            new,
            "UPDATE submissions SET flow = 0 WHERE base = (SELECT MIN(base) FROM submissions WHERE flow IS NULL)",
            "submissions",
        );
        check(
            new,
            "INSERT INTO queues (name, row) SELECT 'more', row FROM queues LIMIT 1",
            "queues",
        );
    });
}

#[test]
fn only_an_empty_store_is_filled() {
    both(|new| {
        let dir = whole();
        let source = Store::open(&path(&dir)).unwrap();
        let there = new(&dir);
        let mut target = Store::open_for_copy(&there).unwrap();
        sql(&target, "INSERT INTO events VALUES (1, 1, 'x', 'y', 'z', '')");
        let refused = copy(&source, &mut target, options(PIECE), &mut |_, _| Ok(()));
        assert!(
            matches!(
                refused,
                Err(CopyError::NotEmpty {
                    table: "events",
                    ..
                })
            ),
            "{refused:?}"
        );
        // Nor one into which another source was copied, or this one before it changed.
        let there = new(&dir);
        let stop = &mut |_: &str, _| Err(CopyError::Interrupted);
        let mut target = Store::open_for_copy(&there).unwrap();
        copy(&source, &mut target, options(SMALL), stop).unwrap_err();
        sql(&source, "DELETE FROM answers");
        let refused = copy(&source, &mut target, options(PIECE), &mut |_, _| Ok(()));
        assert!(matches!(refused, Err(CopyError::OtherSource { .. })), "{refused:?}");
        let anew = Options {
            anew: true,
            ..options(PIECE)
        };
        let done = copy(&source, &mut target, anew, &mut |_, _| Ok(())).unwrap();
        assert!(matches!(done, Outcome::Copied(_)), "{done:?}");
        // What was not finished is no source.
        let refused = Content::of(&source, MissingArchives::Refused);
        assert!(refused.is_ok());
        sql(&source, "PRAGMA user_version = 1000022");
        let refused = Content::of(&source, MissingArchives::Refused).map(drop);
        assert!(matches!(refused, Err(CopyError::Store(StoreError::Unfinished { .. }))));
    });
}

/// Jobs of an archive whose file is gone are left out when that is said; their ids are not given out.
#[test]
fn archives_are_not_left_out_in_silence() {
    let dir = whole();
    let mut source = Store::open(&path(&dir)).unwrap();
    sql(&source, "DELETE FROM live_submissions");
    archive(&mut source, Time(i64::MAX));
    let month = source.archives().unwrap()[0].month;
    sql(&source, "UPDATE archives SET end_id = 900000");
    std::fs::remove_file(source.archive_path(month)).unwrap();
    let there = in_a_file(&dir);
    let mut target = Store::open_for_copy(&there).unwrap();
    let refused = copy(&source, &mut target, options(PIECE), &mut |_, _| Ok(()));
    assert!(matches!(refused, Err(CopyError::ArchiveMissing { .. })), "{refused:?}");
    let without = Options {
        missing: MissingArchives::LeftOut,
        ..options(PIECE)
    };
    copy(&source, &mut target, without, &mut |_, _| Ok(())).unwrap();
    assert_eq!(target.load().unwrap().0.next_job, 900_000);
}

/// Nodes obey no controller of an epoch below one that they have seen.
#[test]
fn epochs_never_go_back() {
    if !server::is_there() {
        return;
    }
    let dir = whole();
    let source = Store::open(&path(&dir)).unwrap();
    let epoch = |location: &Location| {
        let store = Store::open_at(location).unwrap();
        store.number("SELECT epoch FROM leader").unwrap()
    };
    let check = |own: u64, theirs: u64, want: u64| {
        let there = server::database();
        let target = Store::open_for_copy(&there).unwrap();
        sql(&target, &format!("UPDATE leader SET epoch = {own}"));
        sql(
            &source,
            &format!(
                "DELETE FROM counters WHERE name = 'epoch'; INSERT INTO counters VALUES ('epoch', {theirs})"
            ),
        );
        copied(&source, &there);
        assert_eq!(epoch(&there), want);
        there
    };
    check(7, 3, 7);
    let there = check(7, 40, 40);
    // Through a file into another server.
    let file = in_a_file(&dir);
    copied(&Store::open_at(&there).unwrap(), &file);
    let other = server::database();
    copied(&Store::open_at(&file).unwrap(), &other);
    assert_eq!(epoch(&other), 40);
}

#[test]
fn controllers_are_kept_away() {
    if !server::is_there() {
        return;
    }
    let there = server::database();
    let store = Store::open_at(&there).unwrap();
    let leads = |until: &str| {
        sql(
            &store,
            &format!(
                "UPDATE leader SET epoch = epoch + 1, holder = 'c1', run = 'r', released = false,
                     lease_ms = 3000, until = clock_timestamp() + interval '{until}'"
            ),
        );
    };
    leads("2 seconds");
    let refused = Hold::take(&there).map(drop).unwrap_err();
    assert!(refused.to_string().contains("led by controller c1"), "{refused}");
    leads("-1 seconds");
    let hold = Hold::take(&there).unwrap().unwrap();
    let refused = Hold::take(&there).map(drop).unwrap_err();
    assert!(refused.to_string().contains("another 'cosyd store'"), "{refused}");
    // Whoever takes the lead meanwhile ends it: a fenced store writes nothing more.
    let mut target = Store::open_for_copy(&there).unwrap();
    target.fence(hold.epoch());
    let dir = whole();
    let source = Store::open(&path(&dir)).unwrap();
    let mut pieces = 0;
    let outcome = copy(&source, &mut target, options(SMALL), &mut |_, _| {
        pieces += 1;
        if pieces == 9 {
            leads("2 seconds");
        }
        Ok(())
    });
    let Err(CopyError::Store(e)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(e.is_deposed(), "{e}");
    assert_eq!(pieces, 9);
    drop(hold);
    let look = store.look().unwrap();
    assert_eq!(look.holder, "c1", "the lead of another is not laid down");
}
