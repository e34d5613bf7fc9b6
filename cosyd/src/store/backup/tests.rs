//! A backup is whole, as of one moment, closed to others, and comes back into a store of either kind.

use super::*;
use crate::store::content::Sums;
use crate::store::server_tests as server;
use crate::store::whole_tests::{MIDDLE, archive, copied, path, whole};
use cosy_control::Record;
use cosy_model::history::{Event, EventKind, EventObject};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// A store with everything, of either kind, beside its directory.
type New = fn() -> (TempDir, Location);

fn in_a_file() -> (TempDir, Location) {
    let dir = whole();
    let location = Location::Sqlite(path(&dir));
    archive(&mut Store::open_at(&location).unwrap(), MIDDLE);
    (dir, location)
}

fn on_a_server() -> (TempDir, Location) {
    let (dir, file) = in_a_file();
    let there = server::database();
    copied(&Store::open_at(&file).unwrap(), &there);
    (dir, there)
}

fn both(test: fn(New)) {
    test(in_a_file);
    if !server::is_there() {
        return;
    }
    test(on_a_server);
}

fn sums(store: &Store) -> Sums {
    let content = Content::of(store, MissingArchives::Refused).unwrap();
    content.sums(&mut |_, _| Ok(())).unwrap()
}

/// Without what a restored store says of itself.
fn but_restored(mut sums: Sums) -> Sums {
    sums.retain(|(table, _)| *table != "restored");
    sums
}

fn restoring(since: Since, replace: bool) -> Restoring {
    Restoring {
        since,
        missing: MissingArchives::Refused,
        replace,
        now: Time(99),
    }
}

fn written(source: &Location, file: &Path) {
    let source = Store::open_reader(source).unwrap();
    backup(&source, file, MissingArchives::Refused, &mut |_, _| Ok(())).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn files(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn it_comes_back_into_either_kind() {
    both(|new| {
        let (dir, location) = new();
        let source = Store::open_at(&location).unwrap();
        source
            .sql(|c| c.execute_batch("DELETE FROM restored"))
            .unwrap();
        let file = dir.path().join("backup");
        written(&location, &file);
        let saved = Store::open_reader(&Location::Sqlite(file.clone())).unwrap();
        assert_eq!(sums(&saved), sums(&source));
        assert!(saved.archives().unwrap().is_empty());
        let mut restored = vec![restored_file(&saved, &dir)];
        if cosy_postgres::programs().is_some() {
            let there = server::database();
            let mut target = Store::open_at(&there).unwrap();
            let as_usual = restoring(Since::Unknown, false);
            restore_server(&saved, &mut target, as_usual, &mut |_, _| Ok(())).unwrap();
            restored.push(there);
        }
        for location in restored {
            let store = Store::open_at(&location).unwrap();
            assert_eq!(but_restored(sums(&store)), but_restored(sums(&source)));
            let (loaded, bad) = store.load().unwrap();
            let row = loaded.restored.unwrap();
            assert_eq!((row.at, bad), (Time(99), Vec::new()));
            assert!(row.last > Time(1_795_494_277_852), "the last event");
            let (before, _) = source.load().unwrap();
            let numbers = |l: &cosy_control::Loaded| {
                [
                    l.next_job,
                    l.last_event,
                    l.last_entry,
                    l.next_reservation,
                    l.next_flow,
                    l.next_trigger,
                ]
            };
            assert_eq!(numbers(&loaded), numbers(&before));
        }
    });
}

fn restored_file(saved: &Store, dir: &TempDir) -> Location {
    let place = dir.path().join("restored.db");
    let as_usual = restoring(Since::Unknown, false);
    let (new, _) = restore_file(saved, &place, as_usual, &mut |_, _| Ok(())).unwrap();
    put_in_place(&new, &place).unwrap();
    assert_eq!(mode(&place), 0o600);
    Location::Sqlite(place)
}

#[test]
fn nothing_is_doubted_where_nothing_has_happened_since() {
    let (dir, location) = in_a_file();
    let source = Store::open_at(&location).unwrap();
    source
        .sql(|c| c.execute_batch("DELETE FROM restored"))
        .unwrap();
    let place = dir.path().join("restored.db");
    let calm = restoring(Since::Nothing, false);
    let (new, _) = restore_file(&source, &place, calm, &mut |_, _| Ok(())).unwrap();
    let store = Store::open(&new).unwrap();
    assert_eq!(store.load().unwrap().0.restored, None);
    assert_eq!(sums(&store), sums(&source));
}

/// A writer writes, and old jobs go into archives meanwhile: the backup is as it was when it began, and
/// the writer waits for nothing.
#[test]
fn it_is_of_one_moment() {
    both(|new| {
        let (dir, location) = new();
        let mut writer = Store::open_at(&location).unwrap();
        let before = sums(&writer);
        let file = dir.path().join("backup");
        let part = beside(&file, ".part");
        let source = Store::open_reader(&location).unwrap();
        let last = writer.load().unwrap().0.last_event;
        let (mut words, mut archived) = (0, 0);
        let event = |seq| {
            Record::Happened(Event {
                seq,
                at: Time(5),
                kind: EventKind::Started,
                who: "controller".into(),
                object: EventObject::Store,
                detail: String::new(),
            })
        };
        backup(&source, &file, MissingArchives::Refused, &mut |_, _| {
            words += 1;
            assert_eq!(mode(&part), 0o600);
            let begun = std::time::Instant::now();
            writer.commit(&[event(last + words)]).unwrap();
            assert!(begun.elapsed().as_secs() < 3);
            let changed = "UPDATE jobs SET state = state || 'x' WHERE ended IS NULL";
            writer.sql(|c| c.execute_batch(changed)).unwrap();
            if words == 2 && matches!(location, Location::Sqlite(_)) {
                archived = archive(&mut writer, Time(i64::MAX));
            }
            Ok(())
        })
        .unwrap();
        assert!(words > 30, "{words}");
        assert!(archived > 3 || matches!(location, Location::Postgres { .. }));
        assert_ne!(sums(&writer), before);
        let saved = Store::open(&file).unwrap();
        assert_eq!(sums(&saved), before);
    });
}

#[test]
fn what_fails_changes_nothing() {
    both(|new| {
        let (dir, location) = new();
        let file = dir.path().join("backup");
        fs::write(&file, "earlier").unwrap();
        let source = Store::open_reader(&location).unwrap();
        let mut words = 0;
        let stop = &mut |_: &str, _| {
            words += 1;
            match words > 9 {
                true => Err(CopyError::Interrupted),
                false => Ok(()),
            }
        };
        let before = files(&dir);
        backup(&source, &file, MissingArchives::Refused, stop).unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"earlier");
        assert_eq!(files(&dir), before);
        // A new one takes its place.
        written(&location, &file);
        assert!(fs::metadata(&file).unwrap().len() > 100_000);
        assert_eq!(mode(&file), 0o600);
        // What is in a database on a server stays until all of the backup is there.
        let saved = Store::open(&file).unwrap();
        let mut target = Store::open_at(&location).unwrap();
        if matches!(location, Location::Sqlite(_)) {
            return;
        }
        let before = sums(&target);
        let refused =
            restore_server(&saved, &mut target, restoring(Since::Unknown, false), &mut |_, _| {
                Ok(())
            });
        assert!(matches!(refused, Err(CopyError::NotEmpty { .. })), "{refused:?}");
        target
            .sql(|c| c.execute_batch("DELETE FROM answers; UPDATE leader SET epoch = 7"))
            .unwrap();
        let changed = sums(&target);
        assert_ne!(before, changed);
        let mut words = 0;
        let stop = &mut |_: &str, _| {
            words += 1;
            match words > 30 {
                true => Err(CopyError::Interrupted),
                false => Ok(()),
            }
        };
        let over = restoring(Since::Unknown, true);
        let failed = restore_server(&saved, &mut target, over, stop).unwrap_err();
        assert!(matches!(failed, CopyError::Interrupted), "{failed}");
        assert_eq!(sums(&target), changed);
        restore_server(&saved, &mut target, over, &mut |_, _| Ok(())).unwrap();
        assert_eq!(but_restored(sums(&target)), but_restored(before));
        // Takeovers since the backup was made have no higher epoch.
        let epoch = target.number("SELECT epoch FROM leader").unwrap();
        assert_eq!(epoch, 7 + SKIPPED_EPOCHS);
    });
}
