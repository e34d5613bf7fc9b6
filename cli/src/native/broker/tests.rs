//! The broker against clusters in memory that fail on demand.

use super::fake::{FakeClusters, FaultKind, clusters, full, minutes, slot, spec};
use super::*;
use cosy_model::RefusalCode as Code;
use cosy_model::reservation::{Repeat, StartChoice};

const ONCE: RetryTimes = RetryTimes {
    total: Duration::ZERO,
    pause: Duration::ZERO,
};
const PATIENT: RetryTimes = RetryTimes {
    total: Duration::from_secs(60),
    pause: Duration::ZERO,
};

/// Three clusters with slots in the order of their price at 10, and all at 30.
fn three() -> FakeClusters {
    FakeClusters::new(&[
        ("a", vec![slot(10, 3, 1), slot(30, 5, 1)]),
        ("b", vec![slot(10, 1, 1), slot(30, 5, 1)]),
        ("c", vec![slot(10, 2, 1), slot(30, 5, 1)]),
    ])
}

fn best(fakes: &FakeClusters, hold: bool, retry: RetryTimes) -> Outcome {
    let transport = |c: &Cluster, r: &Request, k: Option<RequestKey>| fakes.transport(c, r, k);
    let broker = Broker::over(&transport, retry);
    let three = clusters(&["a", "b", "c"]);
    broker.book_best(&three, &spec(StartChoice::Cheapest), Preference::Cheapest, hold, None)
}

fn all(fakes: &FakeClusters, pick: StartChoice, retry: RetryTimes) -> Outcome {
    let transport = |c: &Cluster, r: &Request, k: Option<RequestKey>| fakes.transport(c, r, k);
    let three = clusters(&["a", "b", "c"]);
    Broker::over(&transport, retry).book_all(&three, &spec(pick), Preference::of(pick), None)
}

#[track_caller]
fn check(fakes: &FakeClusters, outcome: &Outcome, verdict: Verdict, state: &str) {
    assert_eq!(outcome.verdict, verdict, "{outcome:?}");
    assert_eq!(fakes.states(), state, "{outcome:?}");
}

#[test]
fn the_best_one_is_booked() {
    let fakes = three();
    check(&fakes, &best(&fakes, false, ONCE), Verdict::Done, "b1:confirmed");
    let fakes = three();
    check(&fakes, &best(&fakes, true, ONCE), Verdict::Done, "b1:held");
}

#[test]
fn a_refused_slot_gives_way_to_the_next() {
    let fakes = three().fault("b", "reserve", 0, 1, FaultKind::No(Code::Admission));
    let outcome = best(&fakes, false, ONCE);
    check(&fakes, &outcome, Verdict::Done, "c1:confirmed");
    assert_eq!(outcome.tried.len(), 1);
    assert_eq!(outcome.tried[0].start, Some(minutes(10)));
    // Step 4 again: all were probed twice.
    assert_eq!(fakes.count("a quote"), 2);
}

#[test]
fn a_cluster_that_would_refuse_every_start_is_left_out() {
    let fakes = three().fault("b", "reserve", 0, 9, FaultKind::No(Code::AccessDenied));
    check(&fakes, &best(&fakes, false, ONCE), Verdict::Done, "c1:confirmed");
    assert_eq!((fakes.count("b quote"), fakes.count("b reserve")), (1, 1));
}

#[test]
fn a_dead_cluster_is_told_of() {
    let fakes = three();
    fakes.kill("b");
    let outcome = best(&fakes, false, ONCE);
    check(&fakes, &outcome, Verdict::Done, "c1:confirmed");
    assert_eq!(outcome.tried[0].cluster, "b");
    for name in ["a", "c"] {
        fakes.kill(name);
    }
    let outcome = best(&fakes, false, ONCE);
    assert_eq!(outcome.verdict, Verdict::Nothing);
    assert_eq!(outcome.exit_code(), crate::exit::UNREACHABLE);
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again_with_the_same_key() {
    let fakes = three().fault("b", "reserve", 0, 3, FaultKind::Deaf);
    check(&fakes, &best(&fakes, false, PATIENT), Verdict::Done, "b1:confirmed");
    assert_eq!(fakes.count("b reserve"), 4);
}

#[test]
fn nothing_else_is_booked_while_the_first_may_be() {
    let fakes = three().fault("b", "reserve", 0, 9, FaultKind::Deaf);
    let outcome = best(&fakes, false, ONCE);
    check(&fakes, &outcome, Verdict::Leftover, "b1:confirmed");
    assert!(matches!(outcome.results[0].outcome, ClusterOutcome::Unclear(_)));
    // A hold that may be there lapses: the next one is tried.
    let fakes = three().fault("b", "reserve", 0, 9, FaultKind::Deaf);
    let outcome = best(&fakes, true, ONCE);
    check(&fakes, &outcome, Verdict::Done, "b1:held c1:held");
    assert_eq!(outcome.notes, ["cluster b may have a hold too: it lapses by itself"]);
}

#[test]
fn what_may_have_been_heard_once_stays_open() {
    // Carried out at the first try, and nobody there at all the others.
    let fakes = three().fault("b", "reserve", 0, 1, FaultKind::Deaf).fault(
        "b",
        "reserve",
        0,
        u32::MAX,
        FaultKind::Gone,
    );
    let retry = RetryTimes {
        total: Duration::from_millis(20),
        pause: Duration::ZERO,
    };
    let outcome = best(&fakes, false, retry);
    check(&fakes, &outcome, Verdict::Leftover, "b1:confirmed");
}

#[test]
fn nothing_offered_is_nothing_booked() {
    let fakes = FakeClusters::new(&[("a", vec![full(10)]), ("b", vec![]), ("c", vec![full(10)])]);
    let outcome = best(&fakes, false, ONCE);
    check(&fakes, &outcome, Verdict::Nothing, "");
    assert_eq!(outcome.tried[0].why, "reservation 3 is in the way");
    assert_eq!(outcome.exit_code(), crate::exit::FAILED);
}

#[test]
fn all_or_none() {
    let fakes = three();
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    check(&fakes, &outcome, Verdict::Done, "a1:confirmed b1:confirmed c1:confirmed");
    // At an exact start nothing is probed.
    let fakes = three();
    let outcome = all(&fakes, StartChoice::At(minutes(30)), ONCE);
    check(&fakes, &outcome, Verdict::Done, "a1:confirmed b1:confirmed c1:confirmed");
    assert_eq!(fakes.count("a quote"), 0);
}

#[test]
fn what_is_to_end_at_a_time_stays_there_on_several() {
    // Booked as an exact start: else each cluster could move its own to an earlier one.
    let fakes = three();
    let transport = |c: &Cluster, r: &Request, k: Option<RequestKey>| fakes.transport(c, r, k);
    let mut by = spec(StartChoice::FinishBy);
    by.latest_end = Some(minutes(90)); // an hour from 30 on
    let broker = Broker::over(&transport, ONCE);
    let three = clusters(&["a", "b", "c"]);
    let outcome = broker.book_all(&three, &by, Preference::Cheapest, None);
    let state = "a1:confirmed b1:confirmed c1:confirmed";
    check(&fakes, &outcome, Verdict::Done, state);
    let ClusterOutcome::Booked(booked) = &outcome.results[2].outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(booked[0].start, minutes(30));
}

#[test]
fn a_refused_hold_gives_the_others_back_and_another_start_is_tried() {
    let fakes = three().fault("c", "reserve", 0, 1, FaultKind::No(Code::NotFree));
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    let state = "a1:cancelled a2:confirmed b1:cancelled b2:confirmed c1:confirmed";
    check(&fakes, &outcome, Verdict::Done, state);
}

#[test]
fn no_other_start_is_tried_while_something_is_left() {
    let fakes = three()
        .fault("c", "reserve", 0, 1, FaultKind::No(Code::NotFree))
        .fault("a", "cancel", 0, 1, FaultKind::Silent);
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    check(&fakes, &outcome, Verdict::Leftover, "a1:held b1:cancelled");
}

#[test]
fn a_hold_that_no_start_would_help_ends_it() {
    let fakes = three().fault("c", "reserve", 0, 9, FaultKind::No(Code::TooMany));
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    check(&fakes, &outcome, Verdict::Nothing, "a1:cancelled b1:cancelled");
    assert_eq!(fakes.count("c reserve"), 1);
}

#[test]
fn a_cluster_that_dies_between_the_phases() {
    // It holds, then nobody is there any more: neither to confirm nor to give back.
    let fakes = three().fault("b", "confirm", 0, 99, FaultKind::Gone).fault(
        "b",
        "cancel",
        0,
        99,
        FaultKind::Gone,
    );
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    check(&fakes, &outcome, Verdict::Leftover, "a1:cancelled b1:held c1:cancelled");
    let text = show::outcome(&outcome, &crate::times::now());
    assert!(text.contains("cluster a: reservation 1 given back\n"), "{text}");
    assert!(text.contains("it lapses by itself at "), "{text}");
    assert!(text.contains("COSY_SOCKET=/run/b.sock cresv cancel 1\n"), "{text}");
    assert_eq!(outcome.exit_code(), crate::exit::FAILED);
}

#[test]
fn the_phases_one_by_one() {
    let fakes = three();
    let transport = |c: &Cluster, r: &Request, k: Option<RequestKey>| fakes.transport(c, r, k);
    let broker = Broker::over(&transport, ONCE);
    let three = clusters(&["a", "b", "c"]);
    let held = broker.hold_all(&three, &spec(StartChoice::Soonest), Preference::Soonest, None);
    assert_eq!(fakes.states(), "a1:held b1:held c1:held");
    fakes.kill("c");
    let outcome = broker.confirm_all(held.unwrap());
    check(&fakes, &outcome, Verdict::Leftover, "a1:cancelled b1:cancelled c1:held");
}

#[test]
fn a_confirmation_that_may_have_been_heard_is_said_to_last() {
    let fakes = three().fault("b", "confirm", 0, 99, FaultKind::Deaf).fault(
        "b",
        "cancel",
        0,
        99,
        FaultKind::Gone,
    );
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    check(&fakes, &outcome, Verdict::Leftover, "a1:cancelled b1:confirmed c1:cancelled");
    let left = &outcome.results[1].outcome;
    assert!(matches!(left, ClusterOutcome::Left { lapses: None, .. }), "{left:?}");
    let text = show::outcome(&outcome, &crate::times::now());
    assert!(text.contains("it may be booked for good; give it back with"), "{text}");
}

#[test]
fn a_cluster_that_is_away_for_a_while_is_waited_for() {
    let fakes = three().fault("b", "confirm", 0, 5, FaultKind::Gone).fault(
        "c",
        "confirm",
        0,
        5,
        FaultKind::Deaf,
    );
    let outcome = all(&fakes, StartChoice::Soonest, PATIENT);
    check(&fakes, &outcome, Verdict::Done, "a1:confirmed b1:confirmed c1:confirmed");
    let fakes = three()
        .fault("c", "confirm", 0, 1, FaultKind::No(Code::WrongState))
        .fault("a", "cancel", 0, 5, FaultKind::Silent);
    let outcome = all(&fakes, StartChoice::Soonest, PATIENT);
    check(&fakes, &outcome, Verdict::Nothing, "a1:cancelled b1:cancelled c1:cancelled");
    assert_eq!(fakes.count("a cancel"), 6);
}

#[test]
fn a_hold_without_an_answer_lapses() {
    let fakes = three().fault("b", "reserve", 0, 99, FaultKind::Deaf);
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    check(&fakes, &outcome, Verdict::Leftover, "a1:cancelled b1:held c1:cancelled");
    assert!(matches!(outcome.results[1].outcome, ClusterOutcome::Lapsing(_)));
}

#[test]
fn starts_are_probed_where_a_cluster_has_not_named_them() {
    // c says nothing of 10 but has a slot before it: it is asked, and has none. At 5 it is
    // alone. At 40 all are known to be free.
    let fakes = FakeClusters::new(&[
        ("a", vec![slot(10, 1, 1), slot(40, 1, 1)]),
        ("b", vec![slot(10, 1, 1), slot(40, 1, 1)]),
        ("c", vec![slot(5, 1, 1), slot(40, 1, 1)]),
    ]);
    let outcome = all(&fakes, StartChoice::Soonest, ONCE);
    check(&fakes, &outcome, Verdict::Done, "a1:confirmed b1:confirmed c1:confirmed");
    let ClusterOutcome::Booked(booked) = &outcome.results[0].outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(booked[0].start, minutes(40));
    assert_eq!(fakes.count("c quote"), 2);
    assert_eq!(fakes.count("c reserve"), 1);
}

#[test]
fn as_many_as_fit_is_not_all_or_none() {
    let fakes = three();
    let transport = |c: &Cluster, r: &Request, k: Option<RequestKey>| fakes.transport(c, r, k);
    let mut some = spec(StartChoice::At(minutes(10)));
    some.repeat = Some(Repeat {
        rule: "FREQ=DAILY".into(),
        starts: vec![minutes(10), minutes(20)],
        as_many_as_fit: true,
    });
    let three = clusters(&["a", "b", "c"]);
    let outcome = Broker::over(&transport, ONCE).book_all(&three, &some, Preference::Soonest, None);
    assert_eq!(outcome.verdict, Verdict::Nothing);
    assert!(fakes.requested.lock().unwrap().is_empty());
}

#[test]
fn many_seeds_of_trouble_leave_all_or_none() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let requests = prop::sample::select(vec!["quote", "reserve", "confirm", "cancel"]);
    let troubles = prop::sample::select(vec![
        FaultKind::Gone,
        FaultKind::Deaf,
        FaultKind::Silent,
        FaultKind::No(Code::NotFree),
        FaultKind::No(Code::TooMany),
    ]);
    let names = prop::sample::select(vec!["a", "b", "c"]);
    let fault = (names, requests, 0u32..3, 1u32..4, troubles);
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = prop::collection::vec(fault, 0..5);
    TestRunner::new(config)
        .run(&strategy, |faults| {
            let mut fakes = three();
            for (cluster, request, skip, times, kind) in faults {
                fakes = fakes.fault(cluster, request, skip, times, kind);
            }
            let outcome = all(&fakes, StartChoice::Soonest, ONCE);
            assert_outcome_names_states(&fakes, &outcome);
            Ok(())
        })
        .unwrap();
}

/// What is live in the clusters is what the outcome says.
fn assert_outcome_names_states(fakes: &FakeClusters, outcome: &Outcome) {
    let state = fakes.states();
    let live = |word: &str| state.split(' ').filter(|s| s.ends_with(word)).count();
    let (held, confirmed) = (live(":held"), live(":confirmed"));
    match outcome.verdict {
        Verdict::Done => assert_eq!((held, confirmed), (0, 3), "{state} {outcome:?}"),
        Verdict::Nothing => assert_eq!((held, confirmed), (0, 0), "{state} {outcome:?}"),
        Verdict::Leftover => {}
    }
    // Whatever is confirmed and not wanted, the user is told how to give it back.
    if outcome.verdict == Verdict::Leftover {
        for result in &outcome.results {
            let name = &result.cluster.name;
            let mine = state.split(' ').filter(|s| s.starts_with(name.as_str()));
            let kept = mine.filter(|s| s.ends_with(":confirmed")).count();
            let told = matches!(result.outcome, ClusterOutcome::Left { lapses: None, .. });
            assert!(kept == 0 || told, "{name}: {state} {outcome:?}");
        }
    }
}
