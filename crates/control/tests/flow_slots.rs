//! Workflows with a deadline in the controller: all slots or none, held and confirmed, jobs
//! in their slots, and what is given back.

#![allow(clippy::unwrap_used)]

mod flows;
mod world;

use cosy_control::ClusterConfig;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::ReservationState;
use cosy_model::workflow::*;
use cosy_model::{FlowId, JobId, JobState, RefusalCode, ReservationId, Span, Su, Time};
use flows::*;
use world::*;

fn free(nodes: u32, cores: u32) -> ClusterConfig {
    let mut config = config(nodes, cores);
    config.reservations.all_of.clear();
    config.reservations.per_user.share_ppm = None;
    config
}

fn planned(tasks: &str, edges: &[&str], slack_permille: u32) -> FlowSpec {
    let mut spec = graph(tasks, edges);
    spec.deadline = Some(FlowDeadline::Slack(slack_permille));
    for task in &mut spec.tasks {
        task.spec.request.exclusive = true;
        task.estimate = Span::from_secs(100);
    }
    spec
}

fn slots(w: &World, state: ReservationState) -> usize {
    let all = w.store.reservations.values();
    all.filter(|r| r.state == state).count()
}

#[test]
fn slots_are_booked_and_tasks_run_in_them() {
    let mut w = World::new(free(2, 4));
    w.run_time = Span::from_secs(50);
    let spec = planned("abcd", &["ab", "ac", "bd", "cd"], 500);
    let info = submit(&mut w, spec).unwrap();
    let id = info.id;
    assert_eq!(info.state, FlowState::Running);
    let deadline = info.deadline.unwrap();
    assert!(info.end.unwrap() <= deadline && info.price > Su::ZERO);
    let rows: Vec<_> = w.store.reservations.values().cloned().collect();
    assert_eq!(rows.len(), 4);
    assert!(
        rows.iter()
            .all(|r| r.ask.name.starts_with("w.") && r.flow.is_some())
    );
    w.deliver_all();
    w.pass(1);
    let want = "running: a running, b waiting, c waiting, d waiting";
    assert_eq!(states(&mut w, id), want);
    // What is left of a slot goes back at once, and the next ones wait for their own.
    w.pass(55);
    let want = "running: a done, b waiting, c waiting, d waiting";
    assert_eq!(states(&mut w, id), want);
    assert_eq!(slots(&w, ReservationState::Ended), 1);
    assert!(w.queue().contains("waiting/reservation_start"));
    let until = deadline.since(w.now).secs() + 1;
    w.pass(until);
    let done = show(&mut w, id);
    assert_eq!(done.state, FlowState::Completed);
    assert!(done.end.unwrap() <= deadline);
    for task in &done.tasks {
        assert!(task.start >= task.slot_start, "{}", task.name);
    }
    assert_eq!(slots(&w, ReservationState::Ended), 4);
}

#[test]
fn it_is_held_and_then_confirmed_or_not() {
    let mut w = World::new(free(2, 4));
    let hold = |w: &mut World| {
        let spec = Box::new(planned("ab", &["ab"], 100));
        match w.ask(Request::SubmitFlow { spec, hold: true }) {
            Reply::Flow(info) => info,
            other => panic!("{other:?}"),
        }
    };
    let held = hold(&mut w);
    assert_eq!(held.state, FlowState::Held);
    assert!(held.hold_until > Some(w.now));
    assert_eq!(slots(&w, ReservationState::Held), 2);
    w.pass(2);
    let want = "held: a waiting, b waiting";
    assert_eq!(states(&mut w, held.id), want);
    match w.ask(Request::ConfirmFlow { id: held.id }) {
        Reply::Flow(info) => assert_eq!(info.state, FlowState::Running),
        other => panic!("{other:?}"),
    }
    w.deliver_all();
    assert_eq!(states(&mut w, held.id), "running: a running, b waiting");
    let again = w.ask(Request::ConfirmFlow { id: held.id });
    assert!(matches!(again, Reply::Refused(r) if r.code == RefusalCode::WrongState));
    w.pass(300);
    // The other one lapses: nothing is left of it.
    let lapsed = hold(&mut w);
    w.pass(400);
    assert_eq!(states(&mut w, lapsed.id), "expired: a released, b released");
    assert_eq!(slots(&w, ReservationState::Expired), 2);
    assert_eq!(w.controller.live_jobs(), 0);
    let late = w.ask(Request::ConfirmFlow { id: lapsed.id });
    assert!(matches!(late, Reply::Refused(r) if r.message.contains("has expired")));
}

/// A task of it that is cancelled by hand waits: what it waited for is not part of who it was.
#[test]
fn a_hold_that_is_broken_by_hand_says_by_whom() {
    let mut w = World::new(free(2, 4));
    let spec = Box::new(planned("ab", &["ab"], 100));
    let info = match w.ask(Request::SubmitFlow { spec, hold: true }) {
        Reply::Flow(info) => info,
        other => panic!("{other:?}"),
    };
    w.ask(cancels(ids(&[job_of(&info, 1).0])));
    w.pass(1);
    let want = "cancelled: a released, b released";
    assert_eq!(states(&mut w, info.id), want);
    assert_eq!(show(&mut w, info.id).note, "cancelled by u1000");
}

#[test]
fn it_is_given_up() {
    let mut w = World::new(free(1, 4));
    let info = submit(&mut w, planned("abc", &["ab", "bc"], 0)).unwrap();
    w.deliver_all();
    w.pass(2);
    w.ask(Request::CancelFlow { ids: vec![info.id] });
    w.deliver_all();
    w.pass(1);
    let want = "cancelled: a failed, b released, c released";
    assert_eq!(states(&mut w, info.id), want);
    assert_eq!(slots(&w, ReservationState::Cancelled), 2);
    assert_eq!(slots(&w, ReservationState::Ended), 1);
}

#[test]
fn a_failed_task_gives_the_other_slots_back() {
    let mut w = World::new(free(2, 4));
    let info = submit(&mut w, planned("abc", &["ab", "bc"], 0)).unwrap();
    w.exit_codes.insert(attempt(job_of(&info, 0).0, 1), 3);
    w.deliver_all();
    w.pass(12);
    let want = "failed: a failed, b released, c released";
    assert_eq!(states(&mut w, info.id), want);
    assert_eq!(slots(&w, ReservationState::Cancelled), 2);
    assert!(w.mails.iter().any(|m| m.contains("task a failed")));
}

#[test]
fn a_slot_given_back_by_hand_fails_its_task() {
    let mut w = World::new(free(1, 4));
    let info = submit(&mut w, planned("abc", &["ab", "bc"], 0)).unwrap();
    w.deliver_all();
    w.ask(Request::CancelReservation {
        ids: vec![info.tasks[1].reservation.unwrap()],
        series: false,
    });
    w.pass(1);
    let want = "running: a running, b failed, c released";
    assert_eq!(states(&mut w, info.id), want);
    w.pass(20);
    let want = "failed: a done, b failed, c released";
    assert_eq!(states(&mut w, info.id), want);
}

#[test]
fn a_task_that_outlives_its_slot_is_ended() {
    let mut w = World::new(free(1, 4));
    w.run_time = Span::from_secs(1000);
    let info = submit(&mut w, planned("ab", &["ab"], 0)).unwrap();
    w.deliver_all();
    w.pass(1);
    // Its node ends it at its limit, so early that it is over at the end of the slot.
    w.exit_codes.insert(attempt(job_of(&info, 0).0, 1), 143);
    let end = info.tasks[0].slot_end.unwrap();
    w.pass(end.since(w.now).secs());
    let ended = show(&mut w, info.id).tasks[0].end.unwrap();
    assert!(ended <= end && ended + Span::from_secs(10) > end);
    assert_eq!(states(&mut w, info.id), "failed: a failed, b released");
}

#[test]
fn nothing_is_half_booked() {
    let mut rules = free(1, 4);
    rules.reservations.per_user.open = Some(3);
    let mut w = World::new(rules);
    let check = |w: &mut World, spec: FlowSpec, says: &str| {
        let refused = submit(w, spec).unwrap_err();
        assert!(refused.message.contains(says), "{refused}");
        assert!(w.store.reservations.is_empty() && w.store.flows.is_empty());
        assert!(w.store.submissions.is_empty() && w.store.ledger.is_empty());
    };
    let mut dear = planned("abc", &["ab", "bc"], 0);
    dear.max_price = Some(Su(1));
    check(&mut w, dear, "more than the 0.000001 SU allowed");
    let mut big = planned("abc", &["ab", "bc"], 0);
    big.tasks[2].spec.request.nodes = Some(7);
    check(&mut w, big, "task 'c'");
    let mut soon = planned("abc", &["ab", "bc"], 0);
    soon.deadline = Some(FlowDeadline::By(w.now + Span::from_secs(200)));
    check(&mut w, soon, "the earliest that works is");
    let mut long = planned("abc", &["ab", "bc"], 0);
    long.tasks[1].spec.licenses.set("none", 1);
    check(&mut w, long, "task 'b'");
    // A workflow counts once against the quota.
    for n in 1..=3 {
        let info = submit(&mut w, planned("abc", &["ab", "bc"], 0)).unwrap();
        assert_eq!(info.id, FlowId(n));
    }
    let refused = submit(&mut w, planned("abc", &["ab", "bc"], 0)).unwrap_err();
    assert!(refused.message.contains("task 'a'"), "{refused}");
    assert_eq!(w.store.reservations.len(), 9);
    assert_eq!(w.store.reservations.keys().last(), Some(&ReservationId(9)));
}

#[test]
fn it_goes_on_after_a_restart() {
    let mut w = World::new(free(2, 4));
    w.run_time = Span::from_secs(60);
    let info = submit(&mut w, planned("abcd", &["ab", "ac", "bd", "cd"], 300)).unwrap();
    w.deliver_all();
    let until = info.deadline.unwrap().since(w.now).secs() / 5 + 1;
    for _ in 0..until {
        w.pass(5);
        w.crash();
        w.connect(0);
        w.connect(1);
        w.deliver_all();
    }
    let want = "completed: a done, b done, c done, d done";
    assert_eq!(states(&mut w, info.id), want);
}

/// Tasks that want the only licence have their slots one after another, whatever nodes are free, and
/// others do not get it in the meantime.
#[test]
fn slots_keep_the_licences_of_their_tasks() {
    let mut rules = free(4, 4);
    rules.licenses.set("l", 2);
    rules.reservations.price_floor = false;
    rules
        .reservations
        .license_hour
        .insert("l".to_owned(), Su::whole(3600));
    let mut w = World::new(rules);
    w.run_time = Span::from_secs(60);
    let licensed = |licenses: &[u32]| {
        let mut spec = planned("abcd", &["ab", "ac", "ad"], 0);
        for (task, count) in spec.tasks.iter_mut().zip(licenses) {
            task.spec.licenses.set("l", *count);
        }
        spec
    };
    let without = submit(&mut w, licensed(&[0, 0, 0, 0])).unwrap();
    let slots_of = |info: &FlowInfo| -> Vec<(Time, Time)> {
        let slots = info.tasks.iter();
        slots
            .map(|t| (t.slot_start.unwrap(), t.slot_end.unwrap()))
            .collect()
    };
    let all = slots_of(&without);
    assert!(all[1].0 == all[2].0 && all[2].0 == all[3].0, "{all:?}");
    w.pass(600);
    let info = submit(&mut w, licensed(&[0, 2, 1, 1])).unwrap();
    let all = slots_of(&info);
    let (b, c, d) = (all[1], all[2], all[3]);
    assert!(b.1 <= c.0 || c.1 <= b.0, "{all:?}");
    assert!(c.0 == d.0, "{all:?}");
    let ms = |slot: (Time, Time)| slot.1.since(slot.0).ms();
    let for_licences = Su((2 * ms(b) + ms(c) + ms(d)) * 1000);
    let for_cores = w.config.reservations.tariff.core_hour;
    let core_ms = 4 * all.iter().map(|slot| ms(*slot)).sum::<i64>();
    let for_cores = Su::of_core_ms(i128::from(core_ms), for_cores);
    let difference = info.price.0 - for_licences.0 - for_cores.0;
    assert!((0..10).contains(&difference), "{} {for_licences} {for_cores}", info.price);
    let kept: Vec<u32> = w
        .store
        .reservations
        .values()
        .rev()
        .take(4)
        .map(|r| r.ask.licenses.get("l"))
        .collect();
    assert_eq!(kept, [1, 1, 2, 0]);
    let mut job = spec("outside");
    job.licenses.set("l", 1);
    job.time_limit = Some(Span::from_secs(500));
    let outside = w.submit(job);
    w.deliver_all();
    w.pass(1);
    let row = w.store.jobs.get(&JobId(outside));
    assert!(row.is_none_or(|row| row.run.is_none()), "it would run into a slot");
    w.pass(1200);
    let want = "completed: a done, b done, c done, d done";
    assert_eq!(states(&mut w, info.id), want);
    assert_eq!(w.state_of(outside), JobState::Completed);
    let refused = submit(&mut w, licensed(&[3, 0, 0, 0])).unwrap_err();
    assert!(
        refused
            .message
            .contains("3 licences 'l' are more than the 2 there are"),
        "{refused}"
    );
}
