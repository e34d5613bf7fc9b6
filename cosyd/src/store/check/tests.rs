//! A whole store has nothing to be found in it; each thing that is spoilt is found, and nothing else.

use super::*;
use crate::store::whole_tests::{MIDDLE, archive, copied, path, whole};
use crate::store::{Location, server_tests as server};
use std::fs;

/// What is found, without remedies; these are never empty.
fn found(store: &Store) -> Vec<String> {
    let mut all = Vec::new();
    check(store, &mut |finding| {
        let line = finding.to_string();
        assert!(!line.contains('\n') && line.len() > finding.remedy.to_string().len());
        all.push(format!("{}: {}", finding.place, finding.what));
    })
    .unwrap();
    all
}

#[test]
fn nothing_is_found_in_a_whole_store() {
    let dir = whole();
    let location = Location::Sqlite(path(&dir));
    let mut store = Store::open_at(&location).unwrap();
    assert_eq!(found(&Store::open_reader(&location).unwrap()), [""; 0]);
    archive(&mut store, MIDDLE);
    assert_eq!(found(&Store::open_reader(&location).unwrap()), [""; 0]);
}

/// What is done to a store, and what is found then. `BAD` stands for bytes that are no row.
const SPOILT: &[(&str, &[&str])] = &[
    (
        "INSERT INTO live_submissions VALUES (7777)",
        &["live submission 7777: there is no submission with that number"],
    ),
    (
        "DELETE FROM submissions WHERE base = 16",
        &[
            "job 16: there is no submission that it belongs to",
            "live submission 16: there is no submission with that number",
        ],
    ),
    (
        "DELETE FROM submissions WHERE base = (SELECT MAX(base) FROM jobs)",
        &[
            "job 100099: there is no submission that it belongs to",
            "live submission 100099: there is no submission with that number",
        ],
    ),
    (
        "UPDATE submissions SET ids = 2 WHERE base = 17",
        &[
            "submission 17: column ids is not what the row says",
            "job 18: it says that it is of submission 18, and its id is of submission 17",
            "submission 18: its first id is of the submission before it",
        ],
    ),
    (
        "DELETE FROM live_submissions WHERE base = 17",
        &["submission 17: 1 of its 1 jobs have not ended, and it is not among those that live"],
    ),
    (
        "INSERT INTO live_submissions SELECT base FROM jobs j WHERE ended IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.base = j.base AND o.id <> j.id) AND base NOT IN (SELECT base FROM live_submissions) ORDER BY id LIMIT 1",
        &["submission 1: all its jobs have ended, and it is among those that live"],
    ),
    (
        "UPDATE jobs SET base = 16 WHERE id = 17",
        &[
            "job 17: column base is not what the row says",
            "job 17: it says that it is of submission 16, and its id is of submission 17",
        ],
    ),
    (
        "UPDATE jobs SET state = 'gone' WHERE id = 17",
        &["job 17: column state is not what the row says"],
    ),
    ("UPDATE jobs SET start = 5 WHERE id = 17", &["job 17: column start is not what the row says"]),
    (
        "UPDATE jobs SET ended = 1795494277852 WHERE id = 17",
        &[
            "job 17: column ended is not what the row says",
            "submission 17: all its jobs have ended, and it is among those that live",
        ],
    ),
    (
        "UPDATE jobs SET row = BAD WHERE id = 17",
        &["job 17: the row cannot be read: wrong msgpack marker Reserved"],
    ),
    (
        "UPDATE submissions SET uid = 1, \"user\" = 'x', queue = 'x', name = 'x', account = 'x', submit = 1 WHERE base = 17",
        &[
            "submission 17: column uid is not what the row says",
            "submission 17: column user is not what the row says",
            "submission 17: column queue is not what the row says",
            "submission 17: column name is not what the row says",
            "submission 17: column account is not what the row says",
            "submission 17: column submit is not what the row says",
        ],
    ),
    (
        "UPDATE submissions SET flow = 777 WHERE base = 17",
        &[
            "submission 17: there is no workflow 777, which it is a task of",
            "submission 17: column flow is not what the row says",
        ],
    ),
    (
        "UPDATE submissions SET row = BAD WHERE base = 17",
        &["submission 17: the row cannot be read: wrong msgpack marker Reserved"],
    ),
    (
        "DELETE FROM bodies WHERE base = (SELECT MIN(base) FROM jobs WHERE body <> 0)",
        &[
            "job and body 100081.1: what it was changed to ask for (its body) is not there",
            "job and body 100082.2: what it was changed to ask for (its body) is not there",
            "job and body 100084.3: what it was changed to ask for (its body) is not there",
            "job and body 100085.3: what it was changed to ask for (its body) is not there",
        ],
    ),
    (
        "INSERT INTO bodies (base, number, row) SELECT 7777, 1, row FROM bodies LIMIT 1",
        &["body 7777.1: there is no submission with that number"],
    ),
    (
        "UPDATE standings SET base = 7777 WHERE base = (SELECT MIN(base) FROM standings)",
        &["standing 7777: no submission with that number lives"],
    ),
    ("UPDATE runs SET id = 7777", &["earlier run 7777.0: there is no such job"]),
    (
        "UPDATE steps SET job = 7777 WHERE job = (SELECT MIN(job) FROM steps)",
        &["steps of attempt 7777.1: there is no such job"],
    ),
    (
        "DELETE FROM end_days",
        &["day and job 20781.1: the least id of the jobs that ended on that day is not kept"],
    ),
    (
        "UPDATE nodes SET row = BAD WHERE name = 'n1'",
        &["nodes n1: the row cannot be read: wrong msgpack marker Reserved"],
    ),
    (
        "UPDATE triggers SET row = BAD WHERE id = (SELECT MIN(id) FROM triggers)",
        &["triggers 100001: the row cannot be read: wrong msgpack marker Reserved"],
    ),
    (
        "UPDATE counters SET value = 1 WHERE name = 'triggers'",
        &["trigger 100004: the number of the last trigger that was given out is lower"],
    ),
    (
        "UPDATE events SET at = 5 WHERE seq = 9",
        &["event 9: it happened more than a day before the one ahead of it"],
    ),
    (
        "INSERT INTO ledger SELECT seq + 100, at, source, target, payer, payee, 0, reservation, why, who FROM ledger WHERE seq = 46",
        &["line 146 of the ledger: the line before it has number 46: lines are missing"],
    ),
    (
        "INSERT INTO ledger SELECT 47, at, 'grants', 'ghost', NULL, 'ghost', 5, NULL, why, who FROM ledger WHERE seq = 46",
        &["book ghost: 5 millionths of an SU are in it, and there is no such account"],
    ),
    (
        "INSERT INTO ledger SELECT 47, at, 'grants', 'ghost', 'x', NULL, 0, 7777, why, who FROM ledger WHERE seq = 46",
        &[
            "line of the ledger and reservation 47.7777: there is no such reservation",
            "line 47 of the ledger: column payer is not what the row says",
            "line 47 of the ledger: column payee is not what the row says",
        ],
    ),
    (
        "INSERT INTO ledger SELECT 47, at, 'grants', 'common', NULL, 'common', 5, NULL, why, who FROM ledger WHERE seq = 46",
        &[
            "account common: by the ledger it has 5054499559 millionths of an SU, by its row 5054499554",
        ],
    ),
    (
        "DELETE FROM accounts WHERE name = (SELECT MIN(payee) FROM ledger)",
        &[
            "reservation 100004: there is no account 'common', which pays for it",
            "reservation 100006: there is no account 'common', which pays for it",
            "reservation 100007: there is no account 'common', which pays for it",
            "reservation 100008: there is no account 'common', which pays for it",
            "reservation 100010: there is no account 'common', which pays for it",
            "book common: 5054499554 millionths of an SU are in it, and there is no such account",
        ],
    ),
    (
        "UPDATE reservations SET live = 1 - live, uid = 1, account = 'x', state = 'x', start = 1 WHERE id = (SELECT MIN(id) FROM reservations)",
        &[
            "reservation 100001: column live is not what the row says",
            "reservation 100001: column uid is not what the row says",
            "reservation 100001: column account is not what the row says",
            "reservation 100001: column state is not what the row says",
            "reservation 100001: column start is not what the row says",
        ],
    ),
    (
        "UPDATE reservations SET row = BAD WHERE id = (SELECT MIN(id) FROM reservations)",
        &["reservation 100001: the row cannot be read: wrong msgpack marker Reserved"],
    ),
    (
        "DELETE FROM reservations WHERE id = (SELECT MAX(reservation) FROM ledger)",
        &[
            "task 3 of workflow 100002: it names reservation 100020, which is not there",
            "line of the ledger and reservation 46.100020: there is no such reservation",
        ],
    ),
    (
        "DELETE FROM flows WHERE id = (SELECT MIN(flow) FROM flow_tasks)",
        &[
            "submission 100044: there is no workflow 100001, which it is a task of",
            "submission 100045: there is no workflow 100001, which it is a task of",
            "submission 100046: there is no workflow 100001, which it is a task of",
            "submission 100047: there is no workflow 100001, which it is a task of",
            "reservation 100013: it names workflow 100001, which is not there",
            "reservation 100014: it names workflow 100001, which is not there",
            "reservation 100015: it names workflow 100001, which is not there",
            "reservation 100016: it names workflow 100001, which is not there",
            "task 0 of workflow 100001: it names workflow 100001, which is not there",
            "task 1 of workflow 100001: it names workflow 100001, which is not there",
            "task 2 of workflow 100001: it names workflow 100001, which is not there",
            "task 3 of workflow 100001: it names workflow 100001, which is not there",
        ],
    ),
    (
        "UPDATE flows SET state = 'x', ended = 3, uid = 2 WHERE id = (SELECT MIN(id) FROM flows)",
        &[
            "workflow 100001: column uid is not what the row says",
            "workflow 100001: column state is not what the row says",
            "workflow 100001: column ended is not what the row says",
        ],
    ),
    (
        "UPDATE flow_tasks SET row = BAD WHERE task = 0 AND flow = (SELECT MIN(flow) FROM flow_tasks)",
        &["flow_tasks 100001.0: the row cannot be read: wrong msgpack marker Reserved"],
    ),
    (
        "UPDATE flow_tasks SET flow = 7777 WHERE task = 0 AND flow = (SELECT MIN(flow) FROM flow_tasks)",
        &[
            "task 0 of workflow 7777: it names workflow 7777, which is not there",
            "task 0 of workflow 7777: column flow is not what the row says",
        ],
    ),
    (
        "UPDATE set_aside SET object = '7777'",
        &[
            "submission 100098: the row cannot be read: wrong msgpack marker Reserved",
            "submission 100098: 1 of its 1 jobs have not ended, and it is not among those that live",
            "set aside 1: the job that it is about is not there",
        ],
    ),
    (
        "INSERT INTO leaving VALUES (7777, 1, 3)",
        &[
            "submission and month 7777.3: it is on its way into the archive of a month that is not there",
        ],
    ),
];

/// Each of them by itself, in a file and on a server.
#[test]
fn what_is_spoilt_is_found() {
    let whole = whole();
    let source = Store::open(&path(&whole)).unwrap();
    let template = cosy_postgres::programs().map(|_| on_a_server(&source));
    if template.is_none() {
        cosy_skip::not_installed("PostgreSQL's server is not installed");
    }
    // All of it is in the file.
    source
        .sql(|c| c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"))
        .unwrap();
    for (text, want) in SPOILT {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(path(&whole), path(&dir)).unwrap();
        let file = Store::open(&path(&dir)).unwrap();
        let spoilt = text.replace("BAD", "x'c1'");
        file.sql(|c| c.execute_batch(&spoilt)).unwrap();
        let lines = found(&file);
        assert_eq!(lines, *want, "{text}");
        let Some(template) = &template else {
            continue;
        };
        let store = Store::open_at(&server::database_like(template).0).unwrap();
        let spoilt = text.replace("BAD", "'\\xc1'");
        store.sql(|c| c.execute_batch(&spoilt)).unwrap();
        assert_eq!(found(&store), lines, "{text}");
    }
}

fn on_a_server(source: &Store) -> String {
    let (location, name) = server::database_like("template1");
    copied(source, &location);
    assert_eq!(found(&Store::open_at(&location).unwrap()), [""; 0]);
    name
}

#[test]
fn damaged_and_missing_files_are_found() {
    let dir = whole();
    let mut store = Store::open(&path(&dir)).unwrap();
    archive(&mut store, MIDDLE);
    let file = store.archive_path(store.archives().unwrap()[0].month);
    let check = |want: &str| {
        let lines = found(&store);
        assert!(lines.iter().any(|line| line.contains(want)), "{want}: {lines:?}");
    };
    // Another cluster's archive of that month.
    store
        .sql(|c| c.execute_batch("UPDATE archives SET end_id = first_id + 1"))
        .unwrap();
    check("of its submissions have other ids than the store says");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4000].fill(0x55);
    fs::write(&file, &bytes).unwrap();
    check("the file is damaged");
    fs::write(&file, b"nothing").unwrap();
    check("not a database");
    fs::remove_file(&file).unwrap();
    check("the file is missing");
    assert!(!file.exists());
    // The database itself.
    store
        .sql(|c| c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"))
        .unwrap();
    let mut bytes = fs::read(path(&dir)).unwrap();
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'jobs_ended'";
    let page = store.number(page).unwrap() as usize;
    bytes[4096 * (page - 1)..4096 * page].fill(0x55);
    let other = tempfile::tempdir().unwrap();
    fs::write(path(&other), &bytes).unwrap();
    let spoilt = Store::open_reader(&Location::Sqlite(path(&other))).unwrap();
    let mut lines = Vec::new();
    // What cannot be read at all ends the check, after that was said.
    let ended = super::check(&spoilt, &mut |finding| lines.push(finding.to_string()));
    let said = lines
        .iter()
        .any(|line| line.contains("the file is damaged"));
    assert!(said, "{lines:?} {ended:?}");
}

/// A controller that writes meanwhile is not held up, and what it writes is not looked at.
#[test]
fn a_controller_may_write_meanwhile() {
    let dir = whole();
    let location = Location::Sqlite(path(&dir));
    let mut writer = Store::open_at(&location).unwrap();
    let reader = Store::open_reader(&location).unwrap();
    writer
        .sql(|c| c.execute_batch("DELETE FROM counters; INSERT INTO live_submissions VALUES (5)"))
        .unwrap();
    let mut lines = 0;
    check(&reader, &mut |_| {
        lines += 1;
        // Each would be found.
        writer
            .in_transaction(|t| t.execute_batch("DELETE FROM submissions; DELETE FROM flows"))
            .unwrap();
    })
    .unwrap();
    assert_eq!(lines, 2);
}
