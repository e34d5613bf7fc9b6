//! The Standard Workload Format: sound, broken and hostile logs, the logs of the archive,
//! and a round trip.
#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{Span, Time};
use cosy_sim::swf::{self, Error, Strictness};
use cosy_sim::workload::{Job, Workload};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write;
use std::path::PathBuf;

const STRICT: Strictness = Strictness::Strict;
const LENIENT: Strictness = Strictness::Lenient;

const SOUND: &str = "\
; MaxNodes: 16
; MaxProcs: 128 (of 130)
; Queue: 3 night
  7  10 5 100.5 4 -1 -1  8 200 -1 1 12 2 -1 3 -1 -1 -1\r

  8  20 0 100   4 -1 -1 -1  -1 -1 1 -1 2 -1 0 -1 -1 -1
";

fn read(text: &str, strictness: Strictness) -> Result<Workload, Error> {
    swf::read("x.swf", text.as_bytes(), strictness)
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

/// A row that is sound but for the given words.
fn row(submit: &str, run: &str, processors: &str) -> String {
    format!("1 {submit} -1 {run} -1 -1 -1 {processors} 60 -1 1 1 1 -1 1 -1 -1 -1\n")
}

#[test]
fn sound_log() {
    let workload = read(SOUND, STRICT).unwrap();
    let first = Job {
        id: 7,
        line: 4,
        submit: Time(10_000),
        run: Span(100_500),
        limit: Span(200_000),
        processors: 8,
        recorded_wait: Some(Span(5000)),
        user: 1,
        account: 1,
        queue: 1,
        ..Job::default()
    };
    let second = Job {
        id: 8,
        line: 6,
        submit: Time(20_000),
        run: Span(100_000),
        limit: Span(100_000),
        processors: 4,
        recorded_wait: Some(Span::ZERO),
        account: 1,
        queue: 2,
        ..Job::default()
    };
    assert_eq!(workload.jobs, [first, second]);
    assert_eq!(workload.users, ["unknown", "12"]);
    assert_eq!(workload.accounts, ["unknown", "2"]);
    assert_eq!(workload.queues, ["unknown", "night", "0"]);
    assert_eq!(workload.machine, Some(128));
    assert_eq!(workload.dropped, []);
    assert_eq!(read(SOUND, LENIENT).unwrap(), workload);
}

/// Packed logs are known by their first bytes, whatever they are called.
#[test]
fn packed_log() {
    let plain = read(SOUND, STRICT).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.txt");
    let mut twice = packed(SOUND.as_bytes());
    std::fs::write(&path, &twice).unwrap();
    assert_eq!(swf::open(&path, STRICT).unwrap(), plain);
    twice.extend(packed(row("30", "1", "1").as_bytes()));
    let both = swf::read("-", twice.as_slice(), STRICT).unwrap();
    assert_eq!(both.jobs.len(), 3, "members follow one another");
}

#[test]
fn machine_without_processors_has_one_a_node() {
    let log = format!("; MaxProcs: -1\n; MaxNodes: 9\n{}", row("1", "1", "1"));
    assert_eq!(read(&log, STRICT).unwrap().machine, Some(9));
}

#[test]
fn missing_file() {
    let error = swf::open(&PathBuf::from("/nowhere/x.swf"), LENIENT).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/x.swf: cannot be read");
}

/// What strict reading says of `bad` in line 2, and the reason under which lenient reading
/// leaves it out.
fn check(bad: &str, words: &str, reason: &str) {
    let log = format!("{}{bad}\n{}", row("1", "1", "1"), row("2", "1", "1"));
    let error = read(&log, STRICT).unwrap_err().to_string();
    let expected = format!("x.swf:2: {words}; --lenient leaves such rows out and counts them");
    assert_eq!(error, expected);
    let workload = read(&log, LENIENT).unwrap();
    assert_eq!(workload.jobs.len(), 2, "{bad}");
    assert_eq!(workload.dropped, [(reason.to_owned(), 1)], "{bad}");
}

#[test]
fn broken_rows() {
    let number = "with something that is no number";
    check("1 2 3", "a row with 3 fields instead of 18", "without 18 fields");
    check("<html>", "field 1 (job number) is no number", number);
    check("\0", "field 1 (job number) is no number", number);
    check(&row("x", "1", "1"), "field 2 (submit time) is no number", number);
    check(&row("1", "1e9", "1"), "field 4 (run time) is no number", number);
    check(
        &row("-5", "1", "1"),
        "field 2 (submit time) is negative, and only -1 (unknown) may be",
        "with a negative number",
    );
    check(
        &row("2", "1", "1.5"),
        "field 8 (requested processors) is no whole number",
        "with a fraction where none can be",
    );
    check(
        &row("99999999999999999999", "1", "1"),
        "field 2 (submit time) is beyond 64 bits (of milliseconds)",
        "beyond 64 bits",
    );
    check(
        &row("9223372036854775", "1", "1"),
        "submit time and run time together are beyond 64 bits (of milliseconds)",
        "beyond 64 bits",
    );
    check(
        &row("2", "1", "4294967297"),
        "4294967297 processors are more than 2^32 - 1",
        "with more than 2^32 processors",
    );
    check(&"1 ".repeat(40_000), "a line longer than 65536 bytes", "too long");
}

#[test]
fn rows_that_are_no_usable_job() {
    check(&row("-1", "1", "1"), "a job without submit time", "without submit time");
    for run in ["0", "-1"] {
        check(
            &row("1", run, "1"),
            "a job without run time (cancelled before it started?)",
            "without run time",
        );
    }
    for processors in ["0", "-1"] {
        check(
            &row("1", "1", processors),
            "a job without processors (cancelled before it started?)",
            "without processors",
        );
    }
}

#[test]
fn unsorted_rows() {
    let log = [
        row("5", "1", "1"),
        row("3", "1", "2"),
        row("5", "1", "3"),
        row("3", "1", "4"),
    ];
    let error = read(&log.concat(), STRICT).unwrap_err().to_string();
    assert_eq!(
        error,
        "x.swf:2: submitted earlier than the row before it; --lenient sorts rows by submit time"
    );
    let workload = read(&log.concat(), LENIENT).unwrap();
    let order: Vec<u32> = workload.jobs.iter().map(|job| job.processors).collect();
    assert_eq!(order, [2, 4, 1, 3]);
    assert_eq!(workload.dropped, []);
}

#[test]
fn logs_without_jobs() {
    for text in ["", "\n", "; only a comment", "; MaxProcs: 4\n\n"] {
        for strictness in [STRICT, LENIENT] {
            let error = read(text, strictness).unwrap_err().to_string();
            assert_eq!(error, "x.swf: no jobs", "{text:?}");
        }
    }
    let rows = row("1", "0", "1").repeat(3);
    let error = read(&rows, LENIENT).unwrap_err().to_string();
    assert_eq!(error, "x.swf: no jobs (rows left out: 3 without run time)");
}

/// Wherever a packed log is cut off, strict reading says so and lenient reading keeps whole
/// rows only.
#[test]
fn truncated_logs() {
    let rows: Vec<String> = (0..200)
        .map(|at| row(&at.to_string(), "77", "12"))
        .collect();
    let whole = packed(rows.concat().as_bytes());
    let all = swf::read("x.gz", whole.as_slice(), STRICT).unwrap();
    for length in 3..whole.len() {
        let cut = &whole[..length];
        let error = swf::read("x.gz", cut, STRICT).unwrap_err();
        assert!(matches!(error, Error::CutOff { .. }), "{length}: {error}");
        match swf::read("x.gz", cut, LENIENT) {
            Ok(kept) => {
                assert_eq!(kept.jobs, all.jobs[..kept.jobs.len()]);
                assert_eq!(kept.dropped.len(), 1, "{length}");
            }
            Err(error) => assert!(matches!(error, Error::NoJobs { .. }), "{error}"),
        }
    }
    let cut = &rows.concat()[..rows.concat().len() - 7];
    let error = read(cut, STRICT).unwrap_err().to_string();
    assert!(error.starts_with("x.swf:200: a row with 16 fields"), "{error}");
}

#[test]
fn comments_are_free_text() {
    let odd = "; MaxProcs: many\n; Queue: 3\n; User: x y\n;Cancel: 1\n; Cancel: 1 -5\n;;;:\n;\n; \u{ff}\n";
    let workload = read(&format!("{odd}{}", row("1", "1", "1")), STRICT).unwrap();
    assert_eq!(workload.machine, None);
    assert_eq!(workload.users, ["unknown", "1"]);
    assert_eq!(workload.jobs[0].cancel, None);
}

/// The logs of the archive: usable jobs as an independent program counts them.
#[test]
fn logs_of_the_archive() {
    let Some(folder) = std::env::var_os("COSY_TRACES").map(PathBuf::from) else {
        cosy_skip::skip("COSY_TRACES names no folder with the logs of the archive");
        return;
    };
    for (log, usable, machine) in [
        ("KTH-SP2-1996-2.1-cln.swf.gz", 28_467, 100),
        ("CTC-SP2-1996-3.1-cln.swf.gz", 77_205, 338),
        ("SDSC-SP2-1998-4.2-cln.swf.gz", 54_034, 128),
        ("SDSC-BLUE-2000-4.2-cln.swf.gz", 232_536, 1152),
    ] {
        let workload = swf::open(&folder.join(log), LENIENT).unwrap();
        assert_eq!(workload.jobs.len(), usable, "{log}");
        assert_eq!(workload.machine, Some(machine), "{log}");
        let error = swf::open(&folder.join(log), STRICT).unwrap_err();
        assert!(matches!(error, Error::Row { .. }), "{log}: {error}");
    }
}

fn job() -> impl Strategy<Value = Job> {
    // All of at most 40 runs end within 64 bits.
    let times = (0..i64::MAX / 4, 1..i64::MAX / 64, 1..=i64::MAX);
    let others = (1..=u32::MAX, prop::option::of(0..i64::MAX / 2), prop::option::of(0..9000i64));
    (times, others, (0..3u32, 0..2u32, 0..4u32)).prop_map(|(times, others, names)| Job {
        submit: Time(times.0),
        run: Span(times.1),
        limit: Span(times.2),
        processors: others.0,
        cancel: others.1.map(|at| Time(times.0.max(at))),
        recorded_wait: others.2.map(Span),
        user: names.0,
        account: names.1,
        queue: names.2,
        ..Job::default()
    })
}

/// Mostly sound numbers, some at the limits, some beyond, in 17 to 19 words.
fn odd_row() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        40 => (0..1000u32).prop_map(|number| number.to_string()),
        8 => Just("-1".to_owned()),
        1 => (0..i64::MAX).prop_map(|number| number.to_string()),
        1 => "[-+]?[0-9.]{0,20}",
        1 => prop::sample::select(vec!["4294967296", "9223372036854775.807", "1.5", "-7", "x"])
            .prop_map(str::to_owned),
    ];
    let words = prop_oneof![1 => Just(17usize), 20 => Just(18), 1 => Just(19)];
    words.prop_flat_map(move |words| {
        prop::collection::vec(word.clone(), words).prop_map(|words| words.join(" "))
    })
}

fn workload() -> impl Strategy<Value = Workload> {
    let jobs = prop::collection::vec(job(), 1..40);
    (jobs, prop::option::of(1..=u32::MAX)).prop_map(|(mut jobs, machine)| {
        jobs.sort_by_key(|job| job.submit);
        for (at, job) in jobs.iter_mut().enumerate() {
            job.id = at as u64 * 3;
        }
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Workload {
            qos: Vec::new(),
            jobs,
            machine,
            users: names(&["unknown", "eve", "17"]),
            accounts: names(&["unknown", "p 1: 2"]),
            queues: names(&["unknown", "1", "night", "größe"]),
            dropped: Vec::new(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn written_logs_read_the_same(workload in workload()) {
        let mut text = Vec::new();
        swf::write(&workload, &mut text, &["two\nlines".to_owned()]).unwrap();
        let mut again = swf::read("x", text.as_slice(), STRICT).unwrap();
        for job in &mut again.jobs {
            job.line = 0;
        }
        prop_assert_eq!(again, workload);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for strictness in [STRICT, LENIENT] {
            let _ = swf::read("x", bytes.as_slice(), strictness);
            let packed = [&[0x1f, 0x8b], bytes.as_slice()].concat();
            let _ = swf::read("x", packed.as_slice(), strictness);
        }
    }

    /// Every row is a job or counted, and jobs are sound.
    #[test]
    fn any_words(rows in prop::collection::vec(odd_row(), 1..20)) {
        let text = rows.join("\n");
        let strict = read(&text, STRICT);
        match read(&text, LENIENT) {
            Ok(workload) => {
                let dropped: u64 = workload.dropped.iter().map(|why| why.1).sum();
                prop_assert_eq!(workload.jobs.len() + dropped as usize, rows.len());
                prop_assert!(workload.jobs.is_sorted_by_key(|job| job.submit));
                for job in &workload.jobs {
                    prop_assert!(job.run > Span::ZERO && job.limit > Span::ZERO);
                    prop_assert!(job.processors > 0 && job.submit >= Time::EPOCH);
                }
                prop_assert!(dropped == 0 || strict.is_err());
            }
            Err(error) => {
                let is_empty = matches!(error, Error::NoJobs { .. });
                prop_assert!(is_empty, "{error}");
                prop_assert!(strict.is_err());
            }
        }
    }

    /// A sound log with one byte changed.
    #[test]
    fn one_changed_byte(at in 0..SOUND.len(), byte in any::<u8>(), pack in any::<bool>()) {
        let mut text = SOUND.as_bytes().to_vec();
        if pack {
            text = packed(&text);
        }
        let at = at % text.len();
        text[at] = byte;
        for strictness in [STRICT, LENIENT] {
            if let Ok(workload) = swf::read("x", text.as_slice(), strictness) {
                prop_assert!(!workload.jobs.is_empty());
            }
        }
    }
}
