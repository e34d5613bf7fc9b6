//! `cresv` as a program, against a controller that answers what the test tells it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod sandbox;

use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{
    PlanChart, Quote, QuotedSlot, ReservationInfo, ReservationState, Sharing, StartChoice,
};
use cosy_model::{JobId, Refusal, RefusalCode, ReservationId, Span, Su, Time, Uid};
use sandbox::{Outcome, Sandbox, assert_one_line_error};

/// 2030-01-05 13:00 UTC, a Saturday.
const START: Time = Time::from_secs(1_893_848_400);
const TWO_HOURS: Span = Span::from_minutes(120);

fn info(id: u64, state: ReservationState) -> ReservationInfo {
    ReservationInfo {
        id: ReservationId(id),
        series: None,
        name: "course".into(),
        name_given: true,
        user: "ann".into(),
        uid: Uid(1000),
        usable: true,
        account: Some("phys".into()),
        queue: "day".into(),
        state,
        degraded: false,
        start: START,
        end: START + TWO_HOURS,
        movable_from: None,
        hold_until: (state == ReservationState::Held).then_some(START - TWO_HOURS),
        free_until: Some(START - TWO_HOURS),
        nodes: "n[1-4]".into(),
        node_count: 4,
        cores: 16,
        gpus: 0,
        licenses: Default::default(),
        base: Su::whole(32),
        extra: Su(1_500_000),
        charged: Su::ZERO,
        sharing: Sharing::default(),
        job: None,
        used_core_ms: 0,
        delayed_jobs: 2,
        total_delay: Span::from_minutes(40),
        made: START - TWO_HOURS,
        named: false,
        flags: Vec::new(),
        rule: String::new(),
        comment: String::new(),
        note: String::new(),
        preempts: Vec::new(),
    }
}

fn reserved(reservations: Vec<ReservationInfo>) -> Reply {
    Reply::Reserved {
        reservations,
        conflicts: Vec::new(),
        note: String::new(),
    }
}

fn quote(choice: Option<u32>) -> Quote {
    let slot = |hours: i64, admitted: bool| QuotedSlot {
        start: START + Span::from_minutes(60 * hours),
        end: START + Span::from_minutes(60 * hours) + TWO_HOURS,
        feasible: admitted,
        admitted,
        reason: if admitted { "" } else { "not free: job 7" }.into(),
        availability_ppm: 900_000,
        by_load: true,
        base: Su::whole(32),
        license_price: Su::ZERO,
        extra: Su(500_000),
        delayed_jobs: 1,
        total_delay: Span::from_minutes(5),
        own_delayed: vec![(JobId(12), Span::from_minutes(5))],
        nodes: "n[1-4]".into(),
        preempts: Vec::new(),
    };
    Quote {
        now: START - TWO_HOURS,
        queue: "day".into(),
        plain_start: Some(START + TWO_HOURS),
        slots: vec![slot(0, false), slot(1, true), slot(2, true)],
        choice,
        notice_earliest: None,
        rules: vec!["price: 1 SU a core-hour".into()],
        account: Some(("phys".into(), Some(Su::whole(100)))),
        licenses: Default::default(),
    }
}

/// Runs a line, the first word of which is `cresv`, in UTC.
fn run(sandbox: &Sandbox, line: &[&str]) -> Outcome {
    let mut command = sandbox.command(&[&["cresv"], line].concat());
    command.env("TZ", "UTC");
    sandbox.finish(command, b"")
}

/// Runs a line against those answers; gives also what was asked.
fn answered(line: &[&str], answers: Vec<Reply>) -> (Outcome, Vec<Request>) {
    let sandbox = Sandbox::new();
    let controller = sandbox.controller(answers);
    let got = run(&sandbox, line);
    (got, controller.join().unwrap())
}

#[test]
fn a_slot_is_booked() {
    let line = ["book", "-N4", "-t2h", "--at", "2030-01-05T13:00Z"];
    let (got, asked) = answered(&line, vec![reserved(vec![info(12, ReservationState::Confirmed)])]);
    let want = "\
Booked reservation 12 \"course\": 2030-01-05 13:00 to 15:00, n[1-4] (4 nodes, 16 cores).
It costs 33.5 SU (32 for the time, 1.5 for the delay of others); nothing is charged yet. \
Cancelling is free until 2030-01-05 11:00.
Jobs enter with: csub --reservation 12
";
    assert_eq!((got.code, &*got.out, &*got.error), (0, want, ""));
    let Request::Reserve { ask, hold, job } = &asked[0] else {
        panic!("{asked:?}");
    };
    assert_eq!((ask.pick, ask.length), (StartChoice::At(START), TWO_HOURS));
    assert_eq!((ask.request.nodes, *hold, job.is_none()), (Some(4), false, true));
}

/// What is charged is told only where an account pays.
#[test]
fn charges_are_of_accounts() {
    let charged = ReservationInfo {
        charged: Su(33_501_667),
        ..info(12, ReservationState::Confirmed)
    };
    let free = ReservationInfo {
        account: None,
        ..charged.clone()
    };
    let check = |line: &[&str], answer: Reply, words: &str, there: bool| {
        let (got, _) = answered(line, vec![answer]);
        assert_eq!(got.out.contains(words), there, "{words}: {}", got.out);
    };
    let book = ["book", "-t2h", "--soonest"];
    let paid = "; 33.51 SU are charged to account phys.";
    check(&book, reserved(vec![charged.clone()]), paid, true);
    let unpaid = "; it is on no account, so nobody is charged.";
    check(&book, reserved(vec![free.clone()]), unpaid, true);
    let shown = |one: &ReservationInfo| Reply::Reservations(vec![one.clone()]);
    check(&["show", "12"], shown(&charged), "charged               33.501667 SU", true);
    check(&["show", "12"], shown(&free), "charged", false);
    let listed = |one: &ReservationInfo| Reply::Reservations(vec![one.clone(), one.clone()]);
    let sum = "In all 67 SU, of which 67.01 SU are charged.\n";
    check(&["list", "--cost"], listed(&charged), sum, true);
    check(&["list", "--cost"], listed(&free), "In all 67 SU.\n", true);
    check(&["list", "--cost"], listed(&free), "33.51", false);
}

#[test]
fn a_slot_is_held_and_confirmed() {
    let line = ["hold", "-t2h", "--soonest"];
    let (got, asked) = answered(&line, vec![reserved(vec![info(12, ReservationState::Held)])]);
    let last = "It is given back at 2030-01-05 11:00 unless you confirm it: cresv confirm 12";
    assert_eq!(got.out.lines().last(), Some(last), "{got:?}");
    assert!(matches!(&asked[0], Request::Reserve { hold: true, .. }));
    let confirmed = || reserved(vec![info(12, ReservationState::Confirmed)]);
    let (got, asked) = answered(&["confirm", "--parsable", "12"], vec![confirmed()]);
    assert_eq!((got.code, &*got.out), (0, "12\n"));
    let id = ReservationId(12);
    assert_eq!(asked, [Request::Confirm { id }]);
    let late = Refusal::new(RefusalCode::WrongState, "the hold of reservation 13 has expired");
    let (got, _) = answered(&["confirm", "12", "13"], vec![confirmed(), Reply::Refused(late)]);
    assert_eq!(got.code, 1);
    assert!(got.out.contains("Booked reservation 12") && got.error.contains("has expired"));
}

#[test]
fn a_series_with_conflicts() {
    let line = [
        "book",
        "-t2h",
        "--at",
        "2030-01-05 13:00",
        "--repeat",
        "FREQ=WEEKLY;COUNT=3",
        "--as-many-as-fit",
        "--wrap",
        "echo $COSY_JOB_ID",
    ];
    let answer = Reply::Reserved {
        reservations: vec![
            info(12, ReservationState::Confirmed),
            info(13, ReservationState::Confirmed),
        ],
        conflicts: vec![(START, Refusal::new(RefusalCode::NotFree, "n3 is reserved"))],
        note: "2 of 3".into(),
    };
    let (got, asked) = answered(&line, vec![answer]);
    assert_eq!((got.code, &*got.error), (0, "cresv: 2 of 3\n"));
    assert!(
        got.out
            .starts_with("Booked 2 reservations for 67 SU in all:\n"),
        "{got:?}"
    );
    let end = "1 start was not possible:\n  2030-01-05 13:00  n3 is reserved\n";
    assert!(got.out.ends_with(end), "{got:?}");
    let Request::Reserve { ask, job, .. } = &asked[0] else {
        panic!("{asked:?}");
    };
    let repeat = ask.repeat.as_ref().unwrap();
    let week = Span::from_minutes(7 * 24 * 60);
    assert_eq!(repeat.starts, [START, START + week, START + week + week]);
    let job = job.as_ref().unwrap();
    assert_eq!(job.script.lossy(), "#!/bin/sh\necho $COSY_JOB_ID\n");
    assert_eq!(job.spec.time_limit, Some(TWO_HOURS));
}

#[test]
fn a_quote_and_its_choice() {
    let quoted = |choice| Reply::Quote(Box::new(quote(choice)));
    let (got, _) = answered(&["quote", "-t2h"], vec![quoted(Some(1))]);
    let first =
        "A plain job of this size would start about 2030-01-05 15:00 and cost nothing extra.";
    assert_eq!(got.out.lines().next(), Some(first));
    assert!(got.out.ends_with("Account phys: 100 SU left.\n"), "{got:?}");
    let booked = || reserved(vec![info(12, ReservationState::Confirmed)]);
    let line = ["quote", "-t2h", "--choose", "--json"];
    let (got, asked) = answered(&line, vec![quoted(Some(1)), booked()]);
    let json: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    assert_eq!(json["slots"][1]["price"], 32.5);
    assert_eq!(json["slots"][1]["start"], "2030-01-05T14:00:00.000Z");
    assert_eq!(json["slots"][1]["start_ms"], START.0 + 3_600_000);
    assert_eq!(json["slots"][1]["own_delayed"][0]["delay"], 300);
    assert_eq!(json["notice_earliest"], serde_json::Value::Null);
    assert_eq!(json["chosen"]["reservations"][0]["id"], 12);
    assert_eq!(json["chosen"]["reservations"][0]["end_ms"], (START + TWO_HOURS).0);
    let Request::Reserve { ask, hold, .. } = &asked[1] else {
        panic!("{asked:?}");
    };
    assert_eq!(ask.pick, StartChoice::At(START + Span::from_minutes(60)));
    assert_eq!((ask.max_price, *hold), (Some(Su(32_500_000)), false));
    let (got, asked) = answered(&["quote", "-t2h", "--choose=hold"], vec![quoted(None)]);
    assert_eq!((got.code, asked.len()), (1, 1));
    assert!(
        got.error
            .contains("no slot can be taken now: not free: job 7"),
        "{got:?}"
    );
}

#[test]
fn a_picture_is_written() {
    let plan = PlanChart {
        now: START - TWO_HOURS,
        nodes: vec!["n1".into()],
        bars: Vec::new(),
        beyond: 0,
    };
    let answers = || {
        vec![
            Reply::Quote(Box::new(quote(Some(1)))),
            Reply::PlanChart(Box::new(plan.clone())),
        ]
    };
    let (got, asked) = answered(&["quote", "-t2h", "--svg", "-"], answers());
    assert!(got.out.starts_with("<svg ") && got.out.ends_with("</svg>\n"), "{got:?}");
    let until = Some(START + TWO_HOURS + TWO_HOURS);
    assert!(matches!(&asked[1], Request::PlanChart { until: u, .. } if *u == until));
    let (got, _) = answered(&["quote", "-t2h", "--svg", "/no/such/p.svg"], answers());
    assert_one_line_error(&got, 1, "cannot write '/no/such/p.svg'");
}

#[test]
fn longer_given_back_and_listed() {
    let id = ReservationId(12);
    let list = || Reply::Reservations(vec![info(12, ReservationState::Confirmed)]);
    let longer = || reserved(vec![info(12, ReservationState::Confirmed)]);
    let line = [
        "extend",
        "12",
        "--until",
        "2030-01-05 16:30",
        "--max-price",
        "9",
    ];
    let (got, asked) = answered(&line, vec![list(), longer()]);
    assert_eq!(got.code, 0, "{got:?}");
    let by = Span::from_minutes(90);
    let max_price = Some(Su::whole(9));
    assert_eq!(asked[1], Request::ExtendReservation { id, by, max_price });
    let line = ["extend", "12", "--until", "2030-01-05 15:00"];
    let (got, _) = answered(&line, vec![list()]);
    assert_one_line_error(&got, 2, "it ends at 2030-01-05 15:00 already");
    let (got, _) =
        answered(&["extend", "12", "--until", "tomorrow"], vec![Reply::Reservations(vec![])]);
    assert_one_line_error(&got, 1, "there is no reservation 12");
    let refused = Refusal::new(RefusalCode::Forbidden, "it is bob's");
    let done = Reply::Done {
        changed: 1,
        refused: vec![("reservation 13".into(), refused)],
    };
    let (got, asked) = answered(&["cancel", "12", "13", "--series"], vec![done]);
    assert_eq!((got.code, &*got.out), (1, "Gave back 1 reservation.\n"));
    assert_eq!(got.error, "cresv: reservation 13: it is bob's\n");
    assert!(
        matches!(&asked[0], Request::CancelReservation { series: true, ids } if ids.len() == 2)
    );
    let (got, asked) = answered(&["list", "--state", "ended,held"], vec![list()]);
    let want = "\
ID  NAME    STATE      START             END               COUNT  NODES   PRICE  JOB  NOTE
12  course  confirmed  2030-01-05 13:00  2030-01-05 15:00      4  n[1-4]   33.5
";
    assert_eq!(got.out, want);
    let Request::Reservations { filter } = &asked[0] else {
        panic!("{asked:?}");
    };
    assert!(filter.ended && filter.users.len() == 1 && filter.states.len() == 2);
    let (got, _) = answered(&["show", "12", "99"], vec![list()]);
    assert_eq!(got.code, 1);
    assert!(
        got.out
            .contains("  delays                2 jobs by 40 min in all when it was made\n"),
        "{got:?}"
    );
    assert!(got.error.contains("there is no reservation 99"));
}

#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let sandbox = Sandbox::new();
    let check = |line: &[&str], want: &str| assert_one_line_error(&run(&sandbox, line), 2, want);
    check(&["book", "-t2h"], "when? Use --at");
    check(&["book", "--soonest"], "how long? A length is needed");
    check(&["book", "-t2h", "--at", "yesterday"], "ago");
    check(&["hold", "-t0", "--soonest"], "more than 0");
    check(&["hold", "-t-5", "--soonest"], "no length of time");
    check(&["quote", "-t99999d"], "at most 10 years");
    check(&["quote", "-t2h", "--from", "now+3h", "--until", "now+2h"], "the window is empty");
    check(&["quote", "-t2h", "--zone", "Nowhere/Land"], "no time zone 'Nowhere/Land'");
    check(&["book", "-t2h", "--at", "now+1h", "--repeat", "FREQ=DAILY"], "has no end");
    check(&["confirm", "x"], "the id of a reservation is needed");
    check(&["extend", "12"], "required");
    check(&["nonsense"], "unrecognized subcommand");
    check(&[], "requires a subcommand");
}

#[test]
fn refusals_and_no_controller() {
    let why = "notice: 1 h is too short, 2 h are needed; 15:00 would pass";
    let refused = Reply::Refused(Refusal::new(RefusalCode::Admission, why));
    let (got, _) = answered(&["book", "-t2h", "--soonest"], vec![refused]);
    assert_one_line_error(&got, 1, why);
    let got = run(&Sandbox::new(), &["list"]);
    assert_eq!(got.code, 3, "{got:?}");
}

#[test]
fn help_has_examples() {
    for command in ["quote", "hold", "book"] {
        let got = run(&Sandbox::new(), &[command, "--help"]);
        assert_eq!(got.code, 0);
        assert!(got.out.contains("Examples:") && got.out.contains("--finish-by"), "{got:?}");
    }
}
