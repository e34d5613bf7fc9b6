//! Jobs that ended long ago leave the controller's store and are told as before: with real
//! daemons and commands.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::Request;
use cosy_model::{Dependency, DependencyKind, JobId, JobState, Span, Time};
use cosy_tests::{Cluster, Options, people, script, system, wait};
use nix::sys::signal::Signal;
use std::process::Command;

/// Moves jobs back by days, as if they had ended then: in columns, and whatever is a time of the
/// last hour in rows.
const AGE: &str = r#"
import sqlite3, struct, sys, time
store = sqlite3.connect(sys.argv[1])
now = time.time() * 1000
def aged(row, by):
    row = bytearray(row)
    for at in range(len(row) - 8):
        [time] = struct.unpack(">q", row[at + 1:at + 9])
        if row[at] in (0xcf, 0xd3) and now - 3600000 < time < now + 3600000:
            row[at + 1:at + 9] = struct.pack(">q", time - by)
    return bytes(row)
for job, days in zip(sys.argv[2::2], sys.argv[3::2]):
    by = int(days) * 86400000
    for table, key in ("jobs", "id"), ("submissions", "base"):
        for id, row in store.execute(f"SELECT {key}, row FROM {table} WHERE base = ?", [job]).fetchall():
            store.execute(f"UPDATE {table} SET row = ? WHERE {key} = ?", [aged(row, by), id])
    store.execute("UPDATE jobs SET start = start - ?, ended = ended - ? WHERE base = ?", [by, by, job])
    store.execute("UPDATE submissions SET submit = submit - ? WHERE base = ?", [by, job])
store.execute("UPDATE events SET at = at - 30 * 86400000")
store.commit()
"#;

/// A user who is no administrator.
const NOBODY: u32 = 65_534;

/// False without Python, which is said.
fn age(c: &Cluster, jobs: &[(JobId, u32)]) -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", AGE]).arg(c.state_dir().join("cosy.db"));
    for (job, days) in jobs {
        python.arg(job.to_string()).arg(days.to_string());
    }
    let Ok(done) = python.output() else {
        system::not_installed("python3");
        return false;
    };
    assert!(done.status.success(), "{done:?}");
    true
}

fn stop(c: &mut Cluster) {
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
}

#[test]
fn old_jobs_go_into_archives_and_are_told() {
    let mut c = Cluster::start(1, Options::default());
    let path = format!("PATH={}/bin:/usr/local/bin:/usr/bin:/bin", c.dir().display());
    let submit = |c: &Cluster, text: &str, array: Option<&str>| {
        let mut submission = script(&c.work(), text);
        submission.spec.environment = path.as_str().into();
        submission.array = array.map(|tasks| tasks.parse().unwrap());
        c.submit(&submission)
    };
    let old = submit(&c, "cosy run -n 1 -- true\nexit 3", None);
    let array = submit(&c, "exit 0", Some("1-3"));
    let lately = submit(&c, "exit 0", None);
    for job in [old, array, lately] {
        c.until_end(job);
    }
    wait::until_true("all tasks have ended", || {
        let out = c
            .run(&[
                "chist",
                "--array",
                "--format",
                "state",
                "--no-header",
                &array.to_string(),
            ])
            .out;
        out.matches("completed").count() == 3
    });
    stop(&mut c);
    if !age(&c, &[(old, 500), (array, 450), (lately, 100)]) {
        return;
    }
    c.reconfigure(|o| {
        o.policy += "keep_history = \"400d\"\nkeep_scripts = \"50d\"\nkeep_events = \"7d\"\n"
    });
    c.start_cosyd();
    wait::until_true("it has archived", || c.cosyd.log().contains("4 jobs went into the archives"));
    let folder = c.state_dir().join("archive");
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, 2, "a file for each month");

    // By id and by time, with Cosy's and with Slurm's commands.
    let id = old.to_string();
    let told = c.run(&["chist", &id]).expect(0).out;
    assert!(told.contains("failed") && told.contains('3'), "{told}");
    assert!(c.run(&["cstat", &id]).expect(0).out.contains("failed"));
    let steps = c.run(&["chist", "--steps", &id]).expect(0).out;
    assert!(steps.contains("true"), "{steps}");
    let told = c
        .run(&["sacct", "-nPXj", &id, "-o", "jobid,state,exitcode"])
        .expect(0)
        .out;
    assert_eq!(told, format!("{id}|FAILED|3:0\n"));
    let count = |words: &[&str]| {
        let out = c.run(words).expect(0).out;
        println!("{words:?}: {out}");
        out.lines().count()
    };
    let since = |time| count(&["chist", "-A", "--array", "--no-header", "--since", time]);
    assert_eq!(
        count(&[
            "sacct",
            "-naPX",
            "-S",
            "now-600days",
            "-E",
            "now-420days",
            "-o",
            "jobid"
        ]),
        4
    );
    assert_eq!(since("now-470d"), 4);
    assert_eq!(since("now-110d"), 1);

    // What depends on one that is in an archive runs, or can never run.
    let mut after = script(&c.work(), "exit 0");
    after.spec.dependencies = vec![Dependency {
        kind: DependencyKind::AfterOk,
        job: array,
        task: None,
        delay: Span::ZERO,
    }];
    let next = c.submit(&after);
    assert!(next > lately, "numbers go on");
    assert_eq!(c.until_end(next).state, JobState::Completed);

    // Scripts and events are not kept so long.
    wait::until_true("the script was dropped", || {
        let lately = lately.to_string();
        let out = c.run(&["cstat", "--script", &lately]);
        out.code == 1 && out.err.contains("was dropped")
    });
    let events = c.run(&["cadm", "events"]).expect(0).out;
    // The latest of that time stays, until there is a later one.
    assert!(!events.contains(&format!("job {old} submitted")), "{events}");

    // By hand, and only what is old.
    let dry = c
        .run(&["cadm", "archive", "--before", "now-50d", "--dry-run"])
        .expect(0)
        .out;
    assert!(dry.starts_with("1 job that ended before"), "{dry}");
    let done = c
        .run(&["cadm", "archive", "--before", "now-50d", "--json"])
        .expect(0)
        .out;
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!((&done["jobs"], &done["left"]), (&1.into(), &0.into()), "{done}");
    let refused = c.run(&["cadm", "archive", "--before", "now-1h"]);
    assert!(refused.code != 0 && refused.err.contains("at least"), "{}", refused.err);
    assert_eq!(since("now-110d"), 2);

    if system::is_root() {
        let archive = Request::Archive {
            before: Some(Time(0)),
            dry_run: true,
        };
        let answer = people::as_user(NOBODY, || c.ask(archive));
        assert!(format!("{answer:?}").contains("only administrators"), "{answer:?}");
    }

    // A file that is missing is said, and nothing else is.
    std::fs::remove_dir_all(&folder).unwrap();
    let told = c.run(&["chist", "-A", "--since", "now-600d"]).expect(0);
    assert!(told.err.contains("are missing"), "{}", told.err);
    assert!(told.out.contains(&next.to_string()), "{}", told.out);
    assert!(c.cosyd.is_running());
    stop(&mut c);
    c.start_cosyd();
    assert!(c.submit(&script(&c.work(), "exit 0")) > next, "numbers go on");
}
