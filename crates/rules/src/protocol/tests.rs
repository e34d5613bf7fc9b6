//! Answers of programs without rights, and blocks of variables.

use super::*;
use proptest::prelude::*;

fn read(line: &str) -> Result<Wanted, String> {
    decode(line.as_bytes(), 7)
}

#[test]
fn an_answer_has_everything_that_it_may() {
    let line = r#"{"version":1,"id":7,"set":{"queue":"gpu","nodes":null,"time_limit":"2h","memory_per_node":"1G",
        "begin":9,"gpu_types":["a100:2"]},"environment":{"A":"x","B":null},"script":"\u0023!/bin/sh\n",
        "remarks":["r"],"log":[{"level":"debug","text":"d"},{"text":"i"}],"refuse":"no","number":2001}"#;
    let wanted = read(line).unwrap();
    let set: Vec<String> = wanted
        .set
        .iter()
        .map(|(field, value)| format!("{}={value}", field.name()))
        .collect();
    let want = [
        "begin=9",
        "gpu_types=a100:2",
        "memory_per_node=1G",
        "nodes=none",
        "queue=gpu",
        "time_limit=02:00:00",
    ];
    assert_eq!(set, want);
    assert_eq!(wanted.environment["A"].as_deref(), Some("x"));
    assert_eq!(wanted.environment["B"], None);
    assert_eq!(wanted.script.as_deref(), Some("#!/bin/sh\n"));
    assert_eq!((wanted.number, wanted.refuse.as_deref()), (Some(2001), Some("no")));
    let levels: Vec<LogLevel> = wanted.log.iter().map(|line| line.level).collect();
    assert_eq!(levels, [LogLevel::Debug, LogLevel::Info]);
}

#[test]
fn what_is_no_answer_is_told_so() {
    let check = |line: &str, want: &str| {
        let why = read(line).unwrap_err();
        assert!(why.contains(want), "{line}: {why}");
    };
    check("", "its answer is none");
    check("[7]", "its answer is none");
    check(r#"{"id":8}"#, "it answers request 8 and was asked 7");
    check(r#"{"id":7,"version":2}"#, "it speaks version 2");
    check(r#"{"id":7,"set":{"user":"root"}}"#, "'user', which cannot be set");
    check(r#"{"id":7,"set":{"nodes":1.5}}"#, "nodes to what is not a number");
    check(r#"{"id":7,"set":{"features":[1]}}"#, "features to what is not a list");
    check(r#"{"id":7,"environment":{"A=B":"x"}}"#, "a variable 'A=B'");
    check("{\"id\":7,\"environment\":{\"A\":\"x\\u0000y\"}}", "a variable 'A'");
    check("{\"id\":7,\"script\":\"x\\u0000y\"}", "zero byte");
    check(r#"{"id":7,"log":[{"text":"x","more":1}]}"#, "unknown field");
    let many: BTreeMap<String, String> = (0..2000).map(|n| (format!("V{n}"), "x".into())).collect();
    check(&json!({ "id": 7, "environment": many }).to_string(), "more than 1000 variables");
    let deep = format!("{{\"id\":7,\"set\":{{\"name\":{}", "[".repeat(100_000));
    check(&deep, "its answer is none");
}

#[test]
fn long_texts_are_cut() {
    let long = "\u{e4}".repeat(100_000);
    let lines: Vec<Json> = (0..5000)
        .map(|_| json!({ "text": long }))
        .take(300)
        .collect();
    let answer = json!({ "id": 7, "refuse": long, "remarks": [long], "log": lines });
    let wanted = read(&answer.to_string()).unwrap();
    assert!(wanted.refuse.unwrap().len() <= REFUSAL_BYTES);
    assert!(wanted.remarks[0].len() <= LINE_BYTES);
    assert_eq!(wanted.log.len(), LOG_LINES);
    assert!(wanted.log.iter().all(|line| line.text.len() <= LINE_BYTES));
}

#[test]
fn variables_are_set_and_taken_away() {
    let mut block = OsText(b"A=1\0B=x=\xff\0AB=2\0".to_vec());
    assert_eq!(variables(&block)["B"], "x=\u{fffd}");
    let changes = [("A", Some("9")), ("AB", None), ("C", Some("new"))];
    let changes = changes.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
    set_variables(&mut block, &changes.into());
    assert_eq!(block.0, b"B=x=\xff\0A=9\0C=new\0");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, 7);
    }

    #[test]
    fn any_setting(name in "[a-z_]{1,20}", value in "[-0-9a-z\"{}\\[\\],.:]{0,20}") {
        let _ = decode(format!("{{\"id\":7,\"set\":{{\"{name}\":{value}}}}}").as_bytes(), 7);
    }
}

#[test]
fn lists_of_queues_have_a_bound_together() {
    let queue = |number: usize, names: usize| QueueInfo {
        spec: cosy_model::QueueSpec {
            name: format!("q{number}"),
            admits: cosy_model::QueueAdmits {
                deny_accounts: (0..names).map(|n| format!("{n:01000}")).collect(),
                qos: Some("own".into()),
                ..cosy_model::QueueAdmits::default()
            },
            ..cosy_model::QueueSpec::default()
        },
        nodes: 1,
        your_level: AccessLevel::Allow,
        ..QueueInfo::default()
    };
    // 10,000 names of 1,000 bytes fit nowhere; what is behind them does.
    let rows = QueueRow::all_of(&[queue(0, 10), queue(1, 10_000), queue(2, 10)]);
    let told = rows
        .iter()
        .map(|row| (row.deny_accounts.len(), row.lists_left_out));
    assert_eq!(told.collect::<Vec<_>>(), [(10, false), (0, true), (10, false)]);
    assert!(rows.iter().all(|row| row.qos.as_deref() == Some("own")));
    let many: Vec<QueueInfo> = (0..5000).map(|n| queue(n, 1)).collect();
    let rows = QueueRow::all_of(&many);
    assert_eq!(rows.len(), QUEUES);
    assert!(serde_json::to_vec(&rows).unwrap().len() < 8 << 20);
}
