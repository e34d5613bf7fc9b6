//! What other commands show of reservations: `cstat`, `cstat plan`, `chist --cost`; and the
//! broker's commands where no cluster can be reached.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod sandbox;

use cosy_model::api::{Column, JobField, Reply, Request, Table};
use cosy_model::reservation::{
    BarKind, PlanBar, PlanChart, ReservationFilter, ReservationInfo, ReservationState, Sharing,
};
use cosy_model::{Refusal, RefusalCode, ReservationId, Span, Su, Time, Uid};
use sandbox::{Sandbox, assert_one_line_error};
use serde_json::Value as Json;
use std::fs;

/// An hour in a far year, so that dates are shown whole.
const START: Time = Time::from_secs(4_102_444_800);

fn reservation(id: u64, state: ReservationState) -> ReservationInfo {
    ReservationInfo {
        id: ReservationId(id),
        series: None,
        name: "course".into(),
        name_given: true,
        user: "ann".into(),
        uid: Uid(54_321),
        usable: false,
        account: Some("physics".into()),
        queue: "main".into(),
        state,
        degraded: false,
        start: START,
        end: START + Span::from_minutes(60),
        movable_from: None,
        hold_until: None,
        free_until: None,
        nodes: "n[1-4]".into(),
        node_count: 4,
        cores: 16,
        gpus: 0,
        licenses: Default::default(),
        base: Su::whole(16),
        extra: Su::whole(2),
        charged: Su::whole(18),
        sharing: Sharing::default(),
        job: None,
        used_core_ms: 8 * 3_600_000,
        delayed_jobs: 2,
        total_delay: Span::from_minutes(120),
        made: Time(0),
        named: false,
        flags: Vec::new(),
        rule: String::new(),
        comment: String::new(),
        note: String::new(),
        preempts: Vec::new(),
    }
}

fn jobs(reason: &str) -> Table {
    let mut table = Table::new(&[JobField::Ref, JobField::State, JobField::Reason]);
    let text = |t: &str| Column::Texts(vec![t.to_owned()]);
    table.columns = vec![text("12"), text("waiting"), text(reason)];
    table.rows = 1;
    table
}

fn live() -> Vec<ReservationInfo> {
    vec![
        reservation(8, ReservationState::Held),
        reservation(7, ReservationState::Confirmed),
    ]
}

#[test]
fn reservations_stand_below_the_jobs() {
    let sandbox = Sandbox::new();
    let answers = || {
        vec![
            Reply::Jobs(jobs("reservation")),
            Reply::Reservations(live()),
        ]
    };
    let controller = sandbox.controller([answers(), answers()].concat());
    let got = sandbox.run(&["cstat", "-q", "main"]);
    let lines: Vec<&str> = got.out.lines().collect();
    assert_eq!(lines.len(), 6, "{got:?}");
    assert!(lines[1].contains("waiting"), "{got:?}");
    assert!(lines[2].is_empty() && lines[3].contains("RESERVATION"), "{got:?}");
    let line = "          7  course  ann   main   confirmed  2100-01-01  2100-01-01      4  n[1-4]";
    assert_eq!(lines[4], line);
    let other = sandbox.run(&["cstat", "-q", "night", "--json"]);
    let json: Json = serde_json::from_str(&other.out).unwrap();
    assert_eq!((json["jobs"].as_array().map(Vec::len)), Some(1));
    assert_eq!(json["reservations"], serde_json::json!([]));
    let asked = controller.join().unwrap();
    let filter = ReservationFilter::default();
    assert_eq!(asked[1], Request::Reservations { filter });
}

#[test]
fn jobs_are_shown_where_reservations_are_refused() {
    let sandbox = Sandbox::new();
    let refused = Refusal::new(RefusalCode::Invalid, "reservations are not available");
    let controller =
        sandbox.controller(vec![Reply::Jobs(jobs("priority")), Reply::Refused(refused)]);
    let got = sandbox.run(&["cstat"]);
    assert!(got.out.contains("12"), "{got:?}");
    assert_one_line_error(&got, 0, "reservations are not available");
    controller.join().unwrap();
}

#[test]
fn the_plan_is_drawn() {
    let sandbox = Sandbox::new();
    let bar = |kind, label: &str, from: i64, to: i64, nodes: &[u32]| PlanBar {
        kind,
        label: label.into(),
        start: START + Span::from_minutes(from),
        end: START + Span::from_minutes(to),
        nodes: nodes.to_vec(),
    };
    let chart = PlanChart {
        now: START,
        nodes: vec!["n1".into(), "n2".into(), "evil\u{1b}".into()],
        bars: vec![
            bar(BarKind::Running, "3", 0, 30, &[0, 1]),
            bar(BarKind::Held, "r8", 30, 60, &[0, 1]),
            bar(BarKind::Reserved, "r7", 0, 60, &[2]),
        ],
        beyond: 1,
    };
    let controller = sandbox.controller(vec![
        Reply::PlanChart(Box::new(chart.clone())),
        Reply::Reservations(live()),
        Reply::Jobs(jobs("reservation")),
        Reply::PlanChart(Box::new(chart)),
    ]);
    let until = ["--until", "2100-01-01T01:00:00Z"];
    let got = sandbox.run(&[&["cstat", "plan"][..], &until].concat());
    let lines: Vec<&str> = got.out.lines().collect();
    assert!(lines[0].ends_with("; 1 more job waits"), "{got:?}");
    assert!(lines[3].starts_with("n[1-2]  |3####"), "{got:?}");
    assert!(lines[3].contains("|r8????"), "{got:?}");
    assert!(lines[4].starts_with("evil?   |r7===="), "{got:?}");
    let pushed = |line: &str| line.contains("pushed 2 waiting jobs back by 02:00:00 in all");
    assert_eq!(lines.iter().filter(|l| pushed(l)).count(), 2, "{got:?}");
    let mine = "Your jobs that wait because of a reservation: 12 (cstat 12 tells more)";
    assert_eq!(lines.last(), Some(&mine));
    let json = sandbox.run(&["cstat", "plan", "--json", "--node", "n2"]);
    let json: Json = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["nodes"], serde_json::json!(["n2"]));
    assert_eq!(json["bars"].as_array().map(Vec::len), Some(2));
    let asked = controller.join().unwrap();
    let Request::PlanChart { until, .. } = &asked[0] else {
        panic!("{asked:?}")
    };
    assert_eq!(*until, Some(START + Span::from_minutes(60)));
}

#[test]
fn what_reservations_cost() {
    let sandbox = Sandbox::new();
    let all = || Reply::Reservations(live());
    let controller = sandbox.controller(vec![all(), all(), all()]);
    let got = sandbox.run(&["chist", "--cost", "-u", "ann"]);
    assert!(
        got.out
            .ends_with("physics             2    32      4       36             16.0\n"),
        "{got:?}"
    );
    let json = sandbox.run(&["chist", "--cost", "-A", "--json", "7"]);
    let json: Json = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["accounts"][0]["charged"], 36);
    // Named, and none of the caller's choice is there.
    assert_eq!(sandbox.run(&["chist", "--cost", "-u", "bob", "7"]).code, 1);
    let asked = controller.join().unwrap();
    let Request::Reservations { filter } = &asked[1] else {
        panic!("{asked:?}")
    };
    assert_eq!((&*filter.ids, filter.ended), (&[ReservationId(7)][..], true));
}

#[test]
fn clusters_that_are_not_there() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("clusters.toml");
    let run = |words: &[&str]| {
        let mut command = sandbox.command(words);
        command.env("COSY_CLUSTERS", &file);
        sandbox.finish(command, b"")
    };
    let quote = ["cresv", "quote", "-N", "1", "-t", "1h", "--clusters", "a,b"];
    assert_one_line_error(&run(&quote), 2, "no clusters are configured");
    let entry = |name: &str| format!("[cluster.{name}]\nsocket = \"/no/such/{name}.sock\"\n");
    fs::write(&file, entry("a") + &entry("b")).unwrap();
    let got = run(&quote);
    assert_eq!(got.code, 3, "{got:?}");
    assert_eq!(got.out.matches("cannot reach the controller at").count(), 2);
    let book = [
        "cresv",
        "book",
        "-N",
        "1",
        "-t",
        "1h",
        "--soonest",
        "--clusters",
        "a,b",
    ];
    for more in [&[][..], &["--all"]] {
        let got = run(&[&book[..], more].concat());
        assert_eq!((got.code, &*got.out), (3, ""), "{got:?}");
        assert!(got.error.ends_with("nothing is left anywhere\n"), "{got:?}");
    }
    assert_one_line_error(
        &run(&["cresv", "book", "-t", "1h", "--soonest", "--all"]),
        2,
        "--clusters",
    );
}
