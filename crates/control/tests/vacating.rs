//! Reservations that count nodes of running jobs as free (`preempt = true`): whom a quote names, who
//! leaves and when, who is spared, and that restarts change nothing of it.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{PreemptBy, QueuePreemption, Quotas};
use cosy_model::api::{Reply, Request};
use cosy_model::policy::PreemptMode;
use cosy_model::reservation::*;
use cosy_model::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use world::*;

const CORES: u32 = 4;

/// Nodes with four cores; reservations of `fast` may preempt jobs of `main`.
fn site(nodes: u32, change: impl FnOnce(&mut cosy_control::ClusterConfig)) -> World {
    let mut config = config(nodes, CORES);
    config.queues.push(QueueSpec {
        name: "fast".to_owned(),
        priority: 10,
        ..QueueSpec::default()
    });
    config.preemption.by.insert(PreemptBy::Queue);
    config.reservations.all_of = Vec::new();
    config.reservations.per_user = Quotas::NONE;
    let mut fast = config.reservations.clone();
    fast.preempt = true;
    config.queue_reservations.insert("fast".to_owned(), fast);
    change(&mut config);
    let mut world = World::new(config);
    world.run_time = Span::from_secs(5000);
    world
}

/// Grace of the jobs of `main`.
fn grace(config: &mut cosy_control::ClusterConfig, secs: i64) {
    let own = QueuePreemption {
        grace: Some(Span::from_secs(secs)),
        ..QueuePreemption::default()
    };
    config.preemption.queues.insert("main".to_owned(), own);
}

fn job(nodes: u32) -> JobSpec {
    JobSpec {
        request: whole_nodes(nodes),
        requeue: true,
        time_limit: Some(Span::from_secs(5000)),
        ..spec("job")
    }
}

/// So many whole nodes of a queue for 100 seconds.
fn ask(queue: &str, nodes: u32, pick: StartChoice) -> ReservationSpec {
    ReservationSpec {
        queue: Some(queue.to_owned()),
        ..ReservationSpec::plain(whole_nodes(nodes), Span::from_secs(100), pick)
    }
}

fn at(world: &World, secs: i64) -> StartChoice {
    StartChoice::At(world.now + Span::from_secs(secs))
}

fn reserve(
    world: &mut World,
    ask: ReservationSpec,
    hold: bool,
) -> Result<ReservationInfo, Refusal> {
    let (ask, job) = (Box::new(ask), None);
    match world.ask(Request::Reserve { ask, hold, job }) {
        Reply::Reserved {
            mut reservations, ..
        } => Ok(reservations.remove(0)),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn book(world: &mut World, ask: ReservationSpec) -> Result<ReservationInfo, Refusal> {
    reserve(world, ask, false)
}

fn cancel(world: &mut World, id: ReservationId) {
    let (ids, series) = (vec![id], false);
    let reply = world.ask(Request::CancelReservation { ids, series });
    assert!(!matches!(reply, Reply::Refused(_)), "{reply:?}");
    world.deliver_all();
}

fn show(world: &mut World, id: ReservationId) -> ReservationInfo {
    let filter = ReservationFilter {
        ids: vec![id],
        ..ReservationFilter::default()
    };
    match world.ask(Request::Reservations { filter }) {
        Reply::Reservations(mut all) => all.remove(0),
        other => panic!("{other:?}"),
    }
}

fn who(makers: &[RoomMaker]) -> Vec<u64> {
    makers.iter().map(|maker| maker.job.0).collect()
}

/// When the planner counts on the end of a job.
fn ends(world: &World, id: u64) -> Option<Time> {
    Some(world.store.row(id).run.as_ref()?.promised?.until)
}

#[test]
fn whom_the_quote_names_leaves_before_the_start() {
    let mut w = site(2, |config| grace(config, 20));
    submits(&mut w, job(2));
    w.pass(100);
    let start = w.now + Span::from_secs(1000);
    let quoted = w.quote(ask("fast", 1, StartChoice::At(start)));
    let maker = RoomMaker {
        job: JobId(1),
        user: "u1000".to_owned(),
        queue: "main".to_owned(),
        mode: PreemptMode::Requeue,
        lost_core_secs: 8 * 1100,
        told: start - Span::from_secs(20),
    };
    assert_eq!(quoted.slots[0].preempts, std::slice::from_ref(&maker));
    assert!(quoted.slots[0].admitted, "{quoted:?}");
    let booked = book(&mut w, ask("fast", 1, StartChoice::At(start))).unwrap();
    assert_eq!((booked.start, booked.preempts), (start, vec![maker]));
    assert_eq!(ends(&w, 1), Some(start));
    let told = w.explained(1);
    assert!(told.contains("reservation 1 has its nodes"), "{told}");
    w.pass(979);
    assert_eq!((w.queue().as_str(), room(&w).len()), ("1:running", 0));
    w.pass(1);
    assert_eq!(
        room(&w),
        [
            "job 1 preempted for reservation 1: it is requeued, within 00:00:20",
            "reservation 1 makes_room of 1 (requeue)",
        ]
    );
    let told = w.explained(1);
    assert!(told.contains("it makes room for reservation 1"), "{told}");
    w.pass(20);
    let shown = show(&mut w, booked.id);
    assert_eq!((shown.state, who(&shown.preempts)), (ReservationState::Active, vec![1]));
    let [run] = &w.store.earlier_runs[..] else {
        panic!("{:?}", w.store.earlier_runs);
    };
    assert_eq!((run.id, run.state), (JobId(1), JobState::Preempted));
    assert_eq!(run.note, "it made room for reservation 1");
    let inside = JobSpec {
        reservation: Some(booked.id),
        ..spec("inside")
    };
    submits(&mut w, inside);
    assert_eq!(w.queue(), "1:waiting/reservation 2:running");
    w.pass(200);
    assert_eq!(w.queue(), "1:running");
}

#[test]
fn without_the_setting_and_over_equals_nobody_leaves() {
    let refused = |w: &mut World, queue: &str| {
        submits(w, job(2));
        w.pass(10);
        let asked = ask(queue, 1, at(w, 1000));
        let quoted = w.quote(asked.clone());
        assert!(!quoted.slots[0].feasible && quoted.slots[0].preempts.is_empty());
        assert_eq!(book(w, asked).unwrap_err().code, RefusalCode::NotFree);
    };
    // The rules of the queue do not say so.
    refused(&mut site(2, |_| {}), "main");
    // It may not preempt anybody.
    let equal = |config: &mut cosy_control::ClusterConfig| config.queues[1].priority = 0;
    refused(&mut site(2, equal), "fast");
    refused(&mut site(2, |config| config.preemption.by.clear()), "fast");
    // Who would only be stopped keeps memory.
    refused(&mut site(2, |config| config.preemption.mode = PreemptMode::Suspend), "fast");
    // It has not run for long enough, or is too important.
    let exempt = |config: &mut cosy_control::ClusterConfig| {
        config.preemption.exempt = Span::from_secs(1006);
    };
    refused(&mut site(2, exempt), "fast");
    refused(&mut site(2, |config| config.preemption.exempt_priority = Some(-1)), "fast");
}

#[test]
fn exempt_time_and_grace_say_when_it_can_begin() {
    let mut w = site(1, |config| {
        grace(config, 30);
        config.preemption.exempt = Span::from_secs(300);
    });
    submits(&mut w, job(1));
    w.pass(100);
    // 200 seconds until it may be told, then its grace.
    let early = ask("fast", 1, at(&w, 229));
    assert_eq!(book(&mut w, early).unwrap_err().code, RefusalCode::NotFree);
    let first = ask("fast", 1, StartChoice::Soonest);
    let quoted = w.quote(first.clone());
    let picked = &quoted.slots[quoted.choice.unwrap() as usize];
    assert_eq!(picked.start.since(w.now).secs(), 230);
    let booked = book(&mut w, first).unwrap();
    assert_eq!(booked.start.since(w.now).secs(), 230);
    w.pass(199);
    assert_eq!(room(&w).len(), 0);
    w.pass(1);
    assert_eq!(room(&w).len(), 2);
    w.pass(30);
    assert_eq!(show(&mut w, booked.id).state, ReservationState::Active);
}

#[test]
fn the_cheapest_leave_and_no_more_than_needed() {
    let mut w = site(3, |_| {});
    submits(&mut w, job(1));
    w.pass(50);
    submits(&mut w, job(1));
    submits(&mut w, job(1));
    let asked = ask("fast", 1, at(&w, 100));
    assert_eq!(who(&w.quote(asked.clone()).slots[0].preempts), [3]);
    assert_eq!(who(&book(&mut w, asked).unwrap().preempts), [3]);
    let two = ask("fast", 1, at(&w, 150));
    assert_eq!(who(&book(&mut w, two).unwrap().preempts), [2]);
    w.pass(300);
    let runs: Vec<u32> = (1..=3).map(|id| w.store.row(id).attempt.0).collect();
    assert_eq!((runs[0], w.store.earlier_runs.len()), (1, 2));
}

#[test]
fn who_has_ended_before_needs_nobody_to_leave() {
    let mut w = site(2, |_| {});
    submits(&mut w, job(1));
    submits(&mut w, job(1));
    let asked = ask("fast", 2, at(&w, 100));
    let booked = book(&mut w, asked).unwrap();
    assert_eq!(who(&booked.preempts), [1, 2]);
    w.pass(50);
    w.end(0, attempt(1, 1), 0);
    w.deliver_all();
    w.pass(50);
    assert_eq!(
        room(&w),
        [
            "job 2 preempted for reservation 1: it is requeued, within 00:00:05",
            "reservation 1 makes_room of 2 (requeue)",
        ]
    );
    assert_eq!(who(&show(&mut w, booked.id).preempts), [2]);
}

#[test]
fn it_moves_to_nodes_that_have_come_free() {
    let mut w = site(2, |_| {});
    submits(&mut w, job(1));
    w.pass(10);
    submits(&mut w, job(1));
    let asked = ask("fast", 1, at(&w, 100));
    let booked = book(&mut w, asked).unwrap();
    assert_eq!((who(&booked.preempts), booked.nodes.as_str()), (vec![2], "n2"));
    w.pass(50);
    w.end(0, attempt(1, 1), 0);
    w.deliver_all();
    w.pass(50);
    assert_eq!(room(&w), ["job 2 spared reservation 1 does not need its room any more"]);
    let shown = show(&mut w, booked.id);
    assert_eq!((shown.nodes.as_str(), shown.preempts.len()), ("n1", 0));
    assert_eq!((shown.state, ends(&w, 2)), (ReservationState::Active, None));
    assert_eq!(w.queue(), "2:running");
}

#[test]
fn who_is_not_needed_any_more_goes_on_unless_another_counts_on_it() {
    let mut w = site(1, |_| {});
    submits(&mut w, job(1));
    let first = ask("fast", 1, at(&w, 100));
    let first = book(&mut w, first).unwrap();
    // Behind it the node is free, for those too who may not preempt.
    let second = ask("main", 1, at(&w, 300));
    let second = book(&mut w, second).unwrap();
    assert!(second.preempts.is_empty());
    reconnects(&mut w);
    cancel(&mut w, first.id);
    assert_eq!(ends(&w, 1), Some(second.start));
    assert_eq!(who(&show(&mut w, second.id).preempts), [1]);
    reconnects(&mut w);
    cancel(&mut w, second.id);
    assert_eq!(ends(&w, 1), None);
    assert_eq!(room(&w), ["job 1 spared reservation 2 does not need its room any more"]);
    w.pass(500);
    assert_eq!(w.queue(), "1:running");
}

#[test]
fn who_leaves_earlier_for_another() {
    let mut w = site(1, |_| {});
    submits(&mut w, job(1));
    let late = ask("fast", 1, at(&w, 300));
    let late = book(&mut w, late).unwrap();
    let early = ask("fast", 1, at(&w, 100));
    let early = book(&mut w, early).unwrap();
    assert_eq!((who(&early.preempts), ends(&w, 1)), (vec![1], Some(early.start)));
    assert!(show(&mut w, late.id).preempts.is_empty());
    cancel(&mut w, early.id);
    assert_eq!(ends(&w, 1), Some(late.start));
    assert_eq!(who(&show(&mut w, late.id).preempts), [1]);
}

/// Who confirmed it later would leave the job less than its grace.
#[test]
fn a_hold_lapses_before_whom_it_inherits_would_be_told() {
    let mut w = site(1, |config| grace(config, 20));
    submits(&mut w, job(1));
    let first = ask("fast", 1, at(&w, 100));
    let first = book(&mut w, first).unwrap();
    let second = ask("main", 1, at(&w, 300));
    let second = reserve(&mut w, second, true).unwrap();
    assert_eq!(second.hold_until, Some(second.start));
    cancel(&mut w, first.id);
    let second = show(&mut w, second.id);
    let told = second.preempts[0].told;
    assert_eq!(told, second.start - Span::from_secs(20));
    assert_eq!(second.hold_until, Some(told));
    reconnects(&mut w);
    w.pass(290);
    assert_eq!(show(&mut w, second.id).state, ReservationState::Expired);
    assert_eq!(ends(&w, 1), None);
    assert_eq!(w.queue(), "1:running");
}

#[test]
fn nobody_leaves_for_a_hold() {
    let mut w = site(1, |_| {});
    submits(&mut w, job(1));
    let asked = ask("fast", 1, at(&w, 100));
    let held = reserve(&mut w, asked, true).unwrap();
    assert_eq!(held.hold_until, Some(held.start - Span::from_secs(5)));
    w.pass(200);
    assert_eq!(show(&mut w, held.id).state, ReservationState::Expired);
    assert_eq!(room(&w), ["job 1 spared reservation 1 does not need its room any more"]);
    assert_eq!(w.queue(), "1:running");
    // At once it could only be booked.
    let now = ask("fast", 1, at(&w, 5));
    let refused = reserve(&mut w, now.clone(), true).unwrap_err();
    assert!(refused.message.contains("not done for a hold"), "{refused:?}");
    assert_eq!(who(&book(&mut w, now).unwrap().preempts), [1]);
    w.deliver_all();
    assert_eq!(room(&w).len(), 3);
}

#[test]
fn a_job_that_goes_for_another_one_is_not_told_twice() {
    let mut w = site(1, |config| grace(config, 60));
    submits(&mut w, job(1));
    let asked = ask("fast", 1, at(&w, 100));
    let booked = book(&mut w, asked).unwrap();
    w.pass(10);
    let short = JobSpec {
        queue: Some("fast".to_owned()),
        time_limit: Some(Span::from_secs(25)),
        ..job(1)
    };
    w.run_times.insert(JobId(2), Span::from_secs(10));
    submits(&mut w, short);
    w.pass(89);
    assert_eq!(
        room(&w),
        [
            "job 1 preempted for job 2: it is requeued, within 00:01:00",
            "job 2 makes_room of 1 (requeue)",
        ]
    );
    w.pass(1);
    let shown = show(&mut w, booked.id);
    assert_eq!((shown.state, shown.preempts.len()), (ReservationState::Active, 0));
}

#[test]
fn several_starts_of_a_series() {
    let mut w = site(1, |_| {});
    submits(&mut w, job(1));
    let first = w.now + Span::from_secs(100);
    let mut asked = ask("fast", 1, StartChoice::At(first));
    asked.repeat = Some(Repeat {
        rule: "FREQ=HOURLY".to_owned(),
        starts: vec![first, first + Span::from_secs(3600)],
        as_many_as_fit: false,
    });
    let quoted = w.quote(asked.clone());
    let named: Vec<usize> = quoted.slots.iter().map(|s| s.preempts.len()).collect();
    assert_eq!(named, [1, 0]);
    let request = Request::Reserve {
        ask: Box::new(asked),
        hold: false,
        job: None,
    };
    let Reply::Reserved { reservations, .. } = w.ask(request) else {
        panic!("refused");
    };
    let named: Vec<usize> = reservations.iter().map(|r| r.preempts.len()).collect();
    assert_eq!(named, [1, 0]);
    cancel(&mut w, reservations[0].id);
    assert_eq!(ends(&w, 1), Some(reservations[1].start));
}

/// Its user cancels it, and it takes some time to end: it was not the reservation that took its nodes.
#[test]
fn who_is_cancelled_just_before_it_would_be_told_stays_cancelled() {
    for secs in [0, 20] {
        let mut w = site(1, |config| grace(config, secs));
        submits(&mut w, job(1));
        let asked = ask("fast", 1, at(&w, 100));
        let booked = book(&mut w, asked).unwrap();
        w.pass(100 - secs.max(5) - 1);
        w.slow_reports = true;
        w.ask(cancels(ids(&[1])));
        w.pass(3);
        assert_eq!(room(&w), Vec::<String>::new(), "{secs}");
        w.slow_reports = false;
        w.deliver_all();
        w.pass(30);
        assert_eq!(w.store.ends().get(&JobId(1)), Some(&JobState::Cancelled), "{secs}");
        assert_eq!(show(&mut w, booked.id).state, ReservationState::Active);
    }
}

/// By the quality of service of the owner's jobs.
#[test]
fn by_quality_of_service() {
    use cosy_model::policy::*;
    let mut w = site(1, |config| {
        config.preemption.by = [PreemptBy::Qos].into();
        config.reservations.preempt = true;
    });
    let add = |name: &str, preempt: &[&str]| PolicyChange::AddQos {
        name: name.to_owned(),
        set: QosChange {
            preempt: Some(QosListChange::Exactly(
                preempt.iter().map(|one| (*one).to_owned()).collect(),
            )),
            ..QosChange::default()
        },
    };
    let mut change = |changes: Vec<PolicyChange>| {
        let request = Request::ChangePolicy {
            changes,
            dry_run: false,
        };
        let reply = w.ask_as(user(0, "root"), Some([1; 16]), request);
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    };
    change(vec![add("low", &[]), add("high", &["low"])]);
    let low = JobSpec {
        qos: Some("low".to_owned()),
        ..job(1)
    };
    submits(&mut w, low);
    // A plain job of the user would be of `normal`.
    let asked = ask("main", 1, at(&w, 100));
    assert_eq!(book(&mut w, asked).unwrap_err().code, RefusalCode::NotFree);
}

#[test]
fn a_crash_at_each_step_changes_nothing() {
    let told = |crash_at: Option<i64>| {
        let mut w = site(2, |config| grace(config, 10));
        submits(&mut w, job(1));
        submits(&mut w, job(1));
        let asked = ask("fast", 1, at(&w, 30));
        book(&mut w, asked).unwrap();
        for second in 0..60 {
            w.pass(1);
            if crash_at == Some(second) {
                reconnects(&mut w);
            }
        }
        let started = w
            .store
            .told
            .iter()
            .map(|e| (e.object.clone(), e.what.clone()));
        let of_reservation = started.filter(|(object, _)| object.starts_with("res"));
        (room(&w), of_reservation.collect::<Vec<_>>(), w.queue())
    };
    let plain = told(None);
    for second in 0..60 {
        assert_eq!(told(Some(second)), plain, "crash after {second} s");
    }
}

/// What happens to the site.
#[derive(Clone, Debug)]
enum Step {
    /// A job of so many cores on each of so many nodes, with that limit; it runs for so long.
    Submit(bool, u32, u32, i64, i64),
    /// A reservation of so many cores on so many nodes from then on, and whether it is only held.
    Book(bool, u32, u32, i64, bool),
    /// The reservation that was made then, counted from the last one.
    Confirm(usize),
    Cancel(usize),
    CancelJob(usize),
    Pass(i64),
    Crash,
}

const NODES: u32 = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cores = || prop_oneof![Just(1u32), Just(2), Just(4)];
    let submit = (prop::bool::weighted(0.3), 1u32..=NODES, cores(), 100i64..600, 50i64..600);
    let book =
        (prop::bool::weighted(0.8), 1u32..=NODES, cores(), 0i64..250, prop::bool::weighted(0.2));
    let step = prop_oneof![
        5 => submit.prop_map(|(a, b, c, d, e)| Step::Submit(a, b, c, d, e)),
        4 => book.prop_map(|(a, b, c, d, e)| Step::Book(a, b, c, d, e)),
        1 => (0usize..4).prop_map(Step::Confirm),
        3 => (0usize..4).prop_map(Step::Cancel),
        1 => (0usize..6).prop_map(Step::CancelJob),
        4 => (1i64..60).prop_map(Step::Pass),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 8..30)
}

fn cores_on(nodes: u32, cores: u32) -> job::ResourceRequest {
    job::ResourceRequest {
        nodes: Some(nodes),
        tasks: Some(nodes),
        cores_per_task: cores,
        ..job::ResourceRequest::default()
    }
}

#[derive(Default)]
struct History {
    jobs: u64,
    reservations: Vec<ReservationId>,
    begun: BTreeSet<ReservationId>,
}

impl History {
    fn step(&mut self, w: &mut World, step: &Step) -> Result<(), TestCaseError> {
        let chosen = |back: usize| self.reservations.iter().rev().nth(back).copied();
        let queue = |fast: bool| if fast { "fast" } else { "main" };
        match step {
            Step::Submit(fast, nodes, cores, limit, runs) => {
                self.jobs += 1;
                let spec = JobSpec {
                    queue: Some(queue(*fast).to_owned()),
                    request: cores_on(*nodes, *cores),
                    requeue: *limit % 3 != 0,
                    time_limit: Some(Span::from_secs(*limit)),
                    ..spec("x")
                };
                w.run_times.insert(JobId(self.jobs), Span::from_secs(*runs));
                prop_assert_eq!(submits(w, spec), self.jobs);
            }
            Step::Book(fast, nodes, cores, ahead, hold) => {
                let asked = ReservationSpec {
                    request: cores_on(*nodes, *cores),
                    ..ask(queue(*fast), *nodes, at(w, *ahead))
                };
                if let Ok(made) = reserve(w, asked, *hold) {
                    self.reservations.push(made.id);
                }
            }
            Step::Confirm(back) => {
                if let Some(id) = chosen(*back) {
                    w.ask(Request::Confirm { id });
                }
            }
            Step::Cancel(back) => {
                if let Some(id) = chosen(*back) {
                    let (ids, series) = (vec![id], false);
                    w.ask(Request::CancelReservation { ids, series });
                    w.deliver_all();
                }
            }
            Step::CancelJob(back) => {
                if let Some(id) = self.jobs.checked_sub(*back as u64).filter(|id| *id > 0) {
                    w.ask(cancels(ids(&[id])));
                    w.deliver_all();
                }
            }
            Step::Pass(secs) => {
                for _ in 0..*secs {
                    w.pass(1);
                    self.check(w)?;
                }
            }
            Step::Crash => reconnects(w),
        }
        self.check(w)
    }

    /// What begins has its nodes, and whoever was told to go had to.
    fn check(&mut self, w: &World) -> Result<(), TestCaseError> {
        for (id, row) in &w.store.reservations {
            if row.state == ReservationState::Active && self.begun.insert(*id) {
                let used = used_by_jobs(w);
                for share in &row.shares {
                    let used = used.get(&share.node).copied().unwrap_or(0);
                    prop_assert!(used + share.amounts.cores <= CORES, "{id} begins: {row:?}");
                }
            }
        }
        Ok(())
    }
}

/// Cores that jobs hold, by node; nobody is inside of a reservation here.
fn used_by_jobs(w: &World) -> BTreeMap<String, u32> {
    let mut used = BTreeMap::new();
    for row in w.store.jobs.values().filter(|row| row.end.is_none()) {
        let parts = row.run.iter().flat_map(|run| &run.parts);
        for part in parts.filter(|part| !part.released) {
            *used.entry(part.node.clone()).or_default() += part.amounts.cores;
        }
    }
    used
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4, // PROPTEST_CASES asks for more
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whoever begins has its nodes for itself, whoever else was booked, cancelled or lapsed, and
    /// whenever the controller has died.
    #[test]
    fn every_reservation_begins_on_nodes_that_are_clear(
        secs in prop_oneof![Just(0i64), Just(12)],
        cancels in any::<bool>(),
        exempt in prop_oneof![Just(0i64), Just(7)],
        steps in steps(),
    ) {
        let mut world = site(NODES, |config| {
            grace(config, secs);
            config.preemption.exempt = Span::from_secs(exempt);
            if cancels {
                config.preemption.mode = PreemptMode::Cancel;
            }
        });
        let mut history = History::default();
        for step in &steps {
            history.step(&mut world, step)?;
        }
        history.step(&mut world, &Step::Pass(300))?;
    }
}
