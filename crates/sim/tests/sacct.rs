//! The text of `sacct -P`: all columns and few, jobs in all states, broken and hostile rows.
#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{Span, Time};
use cosy_sim::sacct::{self, Error, STEPS, Strictness};
use cosy_sim::workload::{Job, Workload};
use proptest::prelude::*;

const STRICT: Strictness = Strictness::Strict;
const LENIENT: Strictness = Strictness::Lenient;

/// What `-o ALL` names in Slurm 21.08.
const ALL: &str = "Account|AdminComment|AllocCPUS|AllocNodes|AllocTRES|AssocID|AveCPU|AveCPUFreq|\
AveDiskRead|AveDiskWrite|AvePages|AveRSS|AveVMSize|BlockID|Cluster|Comment|Constraints|\
ConsumedEnergy|ConsumedEnergyRaw|CPUTime|CPUTimeRAW|DBIndex|DerivedExitCode|Elapsed|ElapsedRaw|\
Eligible|End|ExitCode|Flags|GID|Group|JobID|JobIDRaw|JobName|Layout|MaxDiskRead|MaxDiskReadNode|\
MaxDiskReadTask|MaxDiskWrite|MaxDiskWriteNode|MaxDiskWriteTask|MaxPages|MaxPagesNode|MaxPagesTask|\
MaxRSS|MaxRSSNode|MaxRSSTask|MaxVMSize|MaxVMSizeNode|MaxVMSizeTask|McsLabel|MinCPU|MinCPUNode|\
MinCPUTask|NCPUS|NNodes|NodeList|NTasks|Priority|Partition|QOS|QOSRAW|Reason|ReqCPUFreq|\
ReqCPUFreqMin|ReqCPUFreqMax|ReqCPUFreqGov|ReqCPUS|ReqMem|ReqNodes|ReqTRES|Reservation|\
ReservationId|Reserved|ResvCPU|ResvCPURAW|Start|State|Submit|Suspended|SystemCPU|SystemComment|\
Timelimit|TimelimitRaw|TotalCPU|UID|User|UserCPU|WCKey|WCKeyID|WorkDir";

/// A job of two nodes that waited for ten minutes and ran for an hour.
const SOUND: [(&str, &str); 20] = [
    ("Account", "physics"),
    ("AllocCPUS", "64"),
    ("AllocNodes", "2"),
    ("AllocTRES", "billing=64,cpu=64,mem=128G,node=2"),
    ("Elapsed", "01:00:00"),
    ("ElapsedRaw", "3600"),
    ("Eligible", "2026-01-05T10:00:00"),
    ("End", "2026-01-05T11:10:00"),
    ("JobID", "4711"),
    ("JobIDRaw", "4711"),
    ("JobName", "größe"),
    ("NCPUS", "64"),
    ("NNodes", "2"),
    ("Partition", "batch"),
    ("Start", "2026-01-05T10:10:00"),
    ("State", "COMPLETED"),
    ("Submit", "2026-01-05T10:00:00"),
    ("Timelimit", "02:00:00"),
    ("TimelimitRaw", "120"),
    ("User", "eve"),
];

/// The row of a sound job but for `other`, under the columns of `header`.
fn row(header: &str, other: &[(&str, &str)]) -> String {
    let cells: Vec<&str> = header
        .split('|')
        .map(|column| {
            let mut pairs = other.iter().chain(&SOUND);
            pairs
                .find(|(name, _)| *name == column)
                .map_or("", |(_, text)| *text)
        })
        .collect();
    cells.join("|")
}

fn text(header: &str, rows: &[&[(&str, &str)]]) -> String {
    let rows = rows.iter().map(|other| row(header, other) + "\n");
    format!("{header}\n{}", rows.collect::<String>())
}

fn read(text: &str, strictness: Strictness) -> Result<Workload, Error> {
    sacct::read("dump", text.as_bytes(), strictness)
}

fn sound_job() -> Job {
    Job {
        id: 4711,
        line: 2,
        submit: Time(0),
        run: Span::from_secs(3600),
        limit: Span::from_secs(7200),
        processors: 64,
        recorded_wait: Some(Span::from_secs(600)),
        user: 1,
        account: 1,
        queue: 1,
        ..Job::default()
    }
}

#[test]
fn all_columns() {
    let workload = read(&text(ALL, &[&[]]), STRICT).unwrap();
    assert_eq!(workload.jobs, [sound_job()]);
    assert_eq!(workload.users, ["unknown", "eve"]);
    assert_eq!(workload.accounts, ["unknown", "physics"]);
    assert_eq!(workload.queues, ["unknown", "batch"]);
    assert_eq!(workload.machine, None);
    assert_eq!(workload.dropped, []);
    let with_line_ends = text(ALL, &[&[]]).replace('\n', "|\r\n");
    assert_eq!(read(&with_line_ends, STRICT).unwrap(), workload, "sacct -p");
}

/// The same job from fewer columns; names that are not there are unknown.
#[test]
fn subsets() {
    let unnamed = Job {
        id: 1,
        user: 0,
        account: 0,
        queue: 0,
        ..sound_job()
    };
    for header in [
        "Submit|Start|End|AllocCPUS|Timelimit",
        "Submit|Start|Elapsed|NCPUS|TimelimitRaw",
        "submit|start|elapsedraw|ncpus|timelimit"
            .to_uppercase()
            .as_str(),
    ] {
        let own = header.to_uppercase();
        let rows = text(ALL, &[&[]]);
        let columns: Vec<&str> = ALL.split('|').collect();
        let cells: Vec<&str> = rows.lines().nth(1).unwrap().split('|').collect();
        let at = |name: &str| {
            columns
                .iter()
                .position(|c| c.eq_ignore_ascii_case(name))
                .unwrap()
        };
        let row: Vec<&str> = own.split('|').map(|name| cells[at(name)]).collect();
        let workload = read(&format!("{header}\n{}\n", row.join("|")), STRICT).unwrap();
        assert_eq!(workload.jobs, std::slice::from_ref(&unnamed), "{header}");
    }
    let by_node = read(&text("Submit|Start|End|NNodes|Timelimit", &[&[]]), STRICT).unwrap();
    assert_eq!((by_node.jobs[0].processors, by_node.jobs[0].nodes), (2, Some(2)));
}

#[test]
fn missing_columns() {
    for strictness in [STRICT, LENIENT] {
        let error = read("JobID|Submit|Start|NNodes|State\n1|a|b|c|d\n", strictness).unwrap_err();
        assert_eq!(
            error.to_string(),
            "dump:1: the first line names no column End (or Elapsed), Timelimit; make the text \
             with: sacct -a -X -P -S 2026-01-01 -o ALL (from the day that is wanted)"
        );
        let padded = "       JobID    JobName      State\n------------ ---------- ----------\n";
        assert!(
            read(padded, strictness)
                .unwrap_err()
                .to_string()
                .contains("-P")
        );
    }
}

/// What becomes of one job with `other` cells.
fn check(other: &[(&str, &str)], expected: impl FnOnce(&mut Job)) {
    let workload = read(&text(ALL, &[other]), STRICT).unwrap();
    let mut job = sound_job();
    expected(&mut job);
    assert_eq!(workload.jobs, [job], "{other:?}");
}

#[test]
fn cells_are_understood() {
    let limit = |secs| move |job: &mut Job| job.limit = Span::from_secs(secs);
    check(&[("Timelimit", "2-03:00:00")], limit(183_600));
    check(&[("Timelimit", "90:00")], limit(5400));
    check(&[("Timelimit", "")], limit(7200));
    check(&[("Timelimit", "UNLIMITED")], |job| job.limit = Span::UNLIMITED);
    check(&[("Timelimit", "Partition_Limit")], |job| job.limit = Span::UNLIMITED);
    check(&[("AllocCPUS", "0")], |_| ());
    check(&[("AllocCPUS", "128")], |job| job.processors = 128);
    let none = [("AllocCPUS", ""), ("NCPUS", "0")];
    check(&none, |job| (job.processors, job.nodes) = (2, Some(2)));
    for state in [
        "FAILED",
        "TIMEOUT",
        "CANCELLED by 1000",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
    ] {
        check(&[("State", state)], |_| ());
    }
    for (id, raw, own) in [("12_3", "15", 15), ("12_3", "", 12), ("12+1", "", 12)] {
        check(&[("JobID", id), ("JobIDRaw", raw)], |job| job.id = own);
    }
    let nobody = [("User", ""), ("Account", ""), ("Partition", "")];
    check(&nobody, |job| (job.user, job.account, job.queue) = (0, 0, 0));
}

/// The elapsed time counts where clocks were put back; without it, start and end.
#[test]
fn times() {
    let without = [
        ("Elapsed", ""),
        ("ElapsedRaw", ""),
        ("End", "2026-01-05T10:10:07"),
    ];
    check(&without, |job| job.run = Span(7000));
    check(&[("ElapsedRaw", "")], |_| ());
    check(&[("ElapsedRaw", "7200")], |job| job.run = Span::from_secs(7200));
    let waited = |secs| move |job: &mut Job| job.recorded_wait = Some(Span::from_secs(secs));
    check(&[("Eligible", "2026-01-05T10:09:00")], waited(60));
    check(&[("Eligible", "Unknown")], waited(600));
    check(&[("Eligible", "2026-01-05T12:00:00")], waited(600));
    let epoch = [
        ("Submit", "1767607200"),
        ("Eligible", "1767607200"),
        ("Start", "1767607800"),
        ("End", "1767611400"),
    ];
    check(&epoch, |_| ());
    let zoned = [
        ("Submit", "2026-01-05T12:00:00+0200"),
        ("Eligible", "2026-01-05T12:00:00+0200"),
        ("Start", "2026-01-05T11:10:00+01:00"),
        ("End", "2026-01-05T11:10:00Z"),
    ];
    check(&zoned, |_| ());
}

/// Steps are no jobs of their own, not even a fault.
#[test]
fn steps() {
    let of_steps = [
        ("User", ""),
        ("Partition", ""),
        ("Timelimit", ""),
        ("TimelimitRaw", ""),
    ];
    let batch: Vec<_> = [("JobID", "4711.batch"), ("JobIDRaw", "4711.batch")]
        .into_iter()
        .chain(of_steps)
        .collect();
    let first = [("JobID", "4711_2.0"), ("JobIDRaw", "4711.0")];
    let workload = read(&text(ALL, &[&[], &batch, &first]), STRICT).unwrap();
    assert_eq!(workload.jobs, [sound_job()]);
    assert_eq!(workload.dropped, [(STEPS.to_owned(), 2)]);
}

/// Rows come in any order; time 0 is the first submission of a job that is kept.
#[test]
fn order() {
    let at = |submit, id| vec![("Submit", submit), ("Eligible", submit), ("JobIDRaw", id)];
    let rows = [
        at("2026-01-05T10:00:30", "1"),
        at("2026-01-05T09:59:30", "2"),
        at("2026-01-05T10:00:30", "3"),
        [at("2026-01-01T00:00:00", "4"), vec![("State", "RUNNING")]].concat(),
    ];
    let rows: Vec<&[(&str, &str)]> = rows.iter().map(Vec::as_slice).collect();
    let workload = read(&text(ALL, &rows), LENIENT).unwrap();
    let found: Vec<(u64, i64)> = workload
        .jobs
        .iter()
        .map(|job| (job.id, job.submit.0))
        .collect();
    assert_eq!(found, [(2, 0), (1, 60_000), (3, 60_000)]);
}

/// What the partition allows is at least the longest limit that one of its jobs names.
#[test]
fn limits_of_partitions() {
    let unset = ("Timelimit", "Partition_Limit");
    let rows: [&[(&str, &str)]; 5] = [
        &[("Timelimit", "03:00:00")],
        &[unset],
        &[unset, ("ElapsedRaw", "99999")],
        &[unset, ("Partition", "long")],
        &[("Timelimit", "01:00:00")],
    ];
    let workload = read(&text(ALL, &rows), STRICT).unwrap();
    let limits: Vec<Span> = workload.jobs.iter().map(|job| job.limit).collect();
    let secs = Span::from_secs;
    let expected = [
        secs(10_800),
        secs(10_800),
        secs(99_999),
        Span::UNLIMITED,
        secs(3600),
    ];
    assert_eq!(limits, expected);
}

/// What strict reading says of a row, and under which reason lenient reading counts it.
fn check_fault(other: &[(&str, &str)], words: &str, reason: &str) {
    let dump = text(ALL, &[&[], other]);
    let error = read(&dump, STRICT).unwrap_err().to_string();
    let expected = format!("dump:3: {words}; --lenient leaves such rows out and counts them");
    assert_eq!(error, expected);
    let workload = read(&dump, LENIENT).unwrap();
    assert_eq!(workload.jobs, [sound_job()], "{other:?}");
    assert_eq!(workload.dropped, [(reason.to_owned(), 1)], "{other:?}");
}

#[test]
fn rows_that_are_no_usable_job() {
    let waits = "still waiting";
    check_fault(&[("State", "PENDING"), ("Start", "Unknown")], "a job that still waits", waits);
    let never = "a job that never started";
    for start in ["Unknown", "None", ""] {
        let other = [("State", "CANCELLED by 0"), ("Start", start)];
        check_fault(&other, never, "never started");
    }
    let runs = "a job that still runs";
    check_fault(&[("State", "RUNNING"), ("End", "Unknown")], runs, "still running");
    check_fault(&[("State", ""), ("End", "Unknown")], runs, "still running");
    check_fault(&[("State", "SUSPENDED")], runs, "still running");
    let run = "a job without run time";
    check_fault(&[("ElapsedRaw", "0")], run, "without run time");
    check_fault(&[("Submit", "Unknown")], "a job without submit time", "without submit time");
    check_fault(
        &[("Submit", "2026-01-05T10:10:01")],
        "a job that started before it was submitted",
        "started before submitted",
    );
    check_fault(
        &[("End", "2026-01-05T10:09:59")],
        "a job that ended before it started",
        "ended before started",
    );
    let long = ("ElapsedRaw", "900000000000000");
    let dump = text(ALL, &[[long].as_slice(); 12]);
    let error = read(&dump, STRICT).unwrap_err().to_string();
    assert!(error.starts_with("dump:12: all jobs up to this one"), "{error}");
    let workload = read(&dump, LENIENT).unwrap();
    assert_eq!(workload.jobs.len(), 10);
    assert_eq!(workload.dropped, [("beyond 64 bits".to_owned(), 2)]);
    let unset = [("Timelimit", ""), ("TimelimitRaw", "")];
    check_fault(&unset, "a job without time limit", "without time limit");
    check_fault(&[("Timelimit", "00:00:00")], "a job without time limit", "without time limit");
    let sizes = ["AllocCPUS", "NCPUS", "NNodes", "AllocNodes"].map(|column| (column, "0"));
    check_fault(&sizes, "a job without processors and nodes", "without processors and nodes");
}

#[test]
fn broken_rows() {
    let reason = "with a cell that cannot be understood";
    for (column, text, kind) in [
        ("Submit", "yesterday", "time"),
        ("Submit", "2026-02-30T00:00:00", "time"),
        ("Start", "99999999999999999", "time"),
        ("End", "-5", "time"),
        ("Timelimit", "INVALID", "length of time"),
        ("Timelimit", "-01:00", "length of time"),
        ("ElapsedRaw", "-1", "number of seconds"),
        ("AllocCPUS", "4294967296", "count below 2^32"),
        ("AllocCPUS", "1K", "count below 2^32"),
        ("JobIDRaw", "[4-9]", "job number"),
    ] {
        let words = format!("{column} is {text:?}, which is no {kind}");
        check_fault(&[(column, text)], &words, reason);
    }
    let columns = ALL.split('|').count();
    let cells = "with more or fewer cells than columns";
    for (name, found) in [("a|b", columns + 1), ("a|b|c", columns + 2)] {
        let words = format!(
            "a row with {found} cells under {columns} columns (a '|' or a line break in one?)"
        );
        check_fault(&[("JobName", name)], &words, cells);
    }
    let long = "x".repeat(70_000);
    check_fault(&[("Comment", &long)], "a line longer than 65536 bytes", "too long");
}

#[test]
fn texts_without_jobs() {
    for strictness in [STRICT, LENIENT] {
        for dump in ["", "\n\n", &format!("{ALL}\n")] {
            let error = read(dump, strictness).unwrap_err().to_string();
            assert_eq!(error, "dump: no jobs", "{dump:?}");
        }
    }
    let error = read(&text(ALL, &[&[("State", "PENDING")]]), LENIENT).unwrap_err();
    assert_eq!(error.to_string(), "dump: no jobs (rows left out: 1 still waiting)");
}

/// Names go to terminals: nothing in them moves the cursor.
#[test]
fn names_are_printable() {
    let workload = read(&text(ALL, &[&[("User", "a\u{1b}[2Jb")]]), STRICT).unwrap();
    assert_eq!(workload.users[1], "a?[2Jb");
}

/// A row of these columns: mostly sound cells, now and then anything.
const FEW: &str = "Submit|Start|End|ElapsedRaw|AllocCPUS|Timelimit|JobIDRaw|State";

fn odd_row() -> impl Strategy<Value = String> {
    let cell = |sound: &'static str| {
        let odd = [
            "",
            "Unknown",
            "UNLIMITED",
            "Partition_Limit",
            "PENDING",
            "0",
            "-1",
        ];
        let odd = prop::sample::select(odd.to_vec()).prop_map(str::to_owned);
        prop_oneof![30 => sound, 1 => odd, 1 => "\\PC{0,12}"]
    };
    let times = (
        cell("2026-01-0[1-4]T[01][0-9]:00:00"),
        cell("2026-01-0[3-6]T[01][0-9]:00:00"),
        cell("2026-01-0[6-9]T[01][0-9]:00:00"),
        cell("[0-9]{1,6}"),
    );
    let others = (
        cell("[1-9][0-9]{0,9}"),
        cell("[0-9]-[01][0-9]:00:00"),
        cell("[0-9]{1,15}"),
        cell("COMPLETED|FAILED|CANCELLED by [0-9]{1,4}"),
    );
    (times, others).prop_map(|((a, b, c, d), (e, f, g, h))| [a, b, c, d, e, f, g, h].join("|"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for strictness in [STRICT, LENIENT] {
            let _ = sacct::read("x", bytes.as_slice(), strictness);
            let below = [ALL.as_bytes(), b"\n", bytes.as_slice()].concat();
            let _ = sacct::read("x", below.as_slice(), strictness);
        }
    }

    /// Every row is a job or counted, and jobs are sound.
    #[test]
    fn any_cells(rows in prop::collection::vec(odd_row(), 1..30)) {
        let dump = format!("{FEW}\n{}\n", rows.join("\n"));
        match read(&dump, LENIENT) {
            Ok(workload) => {
                let dropped: u64 = workload.dropped.iter().map(|why| why.1).sum();
                prop_assert_eq!(workload.jobs.len() + dropped as usize, rows.len());
                prop_assert!(workload.jobs.is_sorted_by_key(|job| job.submit));
                prop_assert_eq!(workload.jobs[0].submit, Time::EPOCH);
                for job in &workload.jobs {
                    prop_assert!(job.run > Span::ZERO && job.limit > Span::ZERO);
                    prop_assert!(job.processors > 0);
                }
            }
            Err(error) => {
                let is_empty = matches!(error, Error::NoJobs { .. });
                prop_assert!(is_empty, "{error}");
                prop_assert!(read(&dump, STRICT).is_err());
            }
        }
    }
}
