//! Reservations through the controller's whole state machine, with fake nodes and a fake
//! clock.

mod world;

use cosy_control::*;
use cosy_model::api::{JobField, JobRef, Reply, Request, Submission};
use cosy_model::reservation::*;
use cosy_model::*;
use world::*;

/// A cluster whose rules admit everything that is feasible.
fn lenient(nodes: u32) -> ClusterConfig {
    let mut config = config(nodes, 4);
    config.reservations.all_of = Vec::new();
    config.reservations.per_user = Quotas::NONE;
    config
}

fn nodes(nodes: u32, pick: StartChoice, secs: i64) -> ReservationSpec {
    ReservationSpec::plain(whole_nodes(nodes), Span::from_secs(secs), pick)
}

fn whole(name: &str, nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: whole_nodes(nodes),
        time_limit: Some(Span::from_secs(secs)),
        ..spec(name)
    }
}

trait Reserving {
    fn reserve(
        &mut self,
        ask: ReservationSpec,
        hold: bool,
        job: Option<JobSpec>,
    ) -> Result<Vec<ReservationInfo>, Refusal>;
    fn book(&mut self, ask: ReservationSpec) -> Result<ReservationInfo, Refusal>;
    fn show(&mut self, id: ReservationId) -> ReservationInfo;
}

impl Reserving for World {
    fn reserve(
        &mut self,
        ask: ReservationSpec,
        hold: bool,
        job: Option<JobSpec>,
    ) -> Result<Vec<ReservationInfo>, Refusal> {
        let job = job.map(|spec| {
            Box::new(Submission {
                spec,
                script: OsText::default(),
                array: None,
            })
        });
        let request = Request::Reserve {
            ask: Box::new(ask),
            hold,
            job,
        };
        match self.ask(request) {
            Reply::Reserved { reservations, .. } => Ok(reservations),
            Reply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    fn book(&mut self, ask: ReservationSpec) -> Result<ReservationInfo, Refusal> {
        Ok(self.reserve(ask, false, None)?.remove(0))
    }

    fn show(&mut self, id: ReservationId) -> ReservationInfo {
        let filter = ReservationFilter {
            ids: vec![id],
            ..ReservationFilter::default()
        };
        match self.ask(Request::Reservations { filter }) {
            Reply::Reservations(mut all) => all.remove(0),
            other => panic!("{other:?}"),
        }
    }
}

fn at(world: &World, secs: i64) -> StartChoice {
    StartChoice::At(world.now + Span::from_secs(secs))
}

/// Whether a job holds nodes.
fn runs(world: &World, id: u64) -> bool {
    world.state_of(id) == JobState::Waiting && world.store.row(id).run.is_some()
}

#[test]
fn a_script_starts_exactly_then() {
    let mut world = World::new(lenient(2));
    let start = world.now + Span::from_secs(100);
    // The queue is full all the time.
    for n in 0..40 {
        world.submit(whole(&format!("fill{n}"), 1, 30));
    }
    let ask = nodes(2, StartChoice::At(start), 50);
    let booked = world
        .reserve(ask, false, Some(spec("mine")))
        .unwrap()
        .remove(0);
    assert_eq!((booked.state, booked.start), (ReservationState::Confirmed, start));
    let job = booked.job.unwrap();
    world.pass(99);
    assert_eq!(world.state_of(job.0), JobState::Waiting);
    world.pass(1);
    assert!(runs(&world, job.0));
    let row = world.store.row(job.0).clone();
    let run = row.run.unwrap();
    assert_eq!((run.allocated, run.parts.len()), (start, 2));
    world.pass(15);
    let over = world.show(booked.id);
    assert_eq!(over.state, ReservationState::Ended, "{over:?}");
    assert_eq!(world.store.row(job.0).state, JobState::Completed);
}

#[test]
fn a_hold_lapses_and_a_confirmed_one_stays() {
    let mut world = World::new(lenient(2));
    let held = world
        .reserve(nodes(1, at(&world, 1000), 100), true, None)
        .unwrap()
        .remove(0);
    assert_eq!(held.state, ReservationState::Held);
    // One open hold for each user.
    let second = world.reserve(nodes(1, at(&world, 2000), 100), true, None);
    assert_eq!(second.unwrap_err().code, RefusalCode::TooMany);
    world.pass(301);
    assert_eq!(world.show(held.id).state, ReservationState::Expired);
    let late = world.ask(Request::Confirm { id: held.id });
    assert!(matches!(late, Reply::Refused(r) if r.code == RefusalCode::WrongState));
    // The same time is not held again for an hour, another is.
    let again = world
        .reserve(nodes(1, at(&world, 700), 100), true, None)
        .unwrap_err();
    assert!(again.message.contains("lapsed"), "{again}");
    let other = world
        .reserve(nodes(1, at(&world, 2000), 100), true, None)
        .unwrap()
        .remove(0);
    let stranger = world.ask_as(user(2000, "u2000"), None, Request::Confirm { id: other.id });
    assert!(matches!(stranger, Reply::Refused(r) if r.code == RefusalCode::Forbidden));
    let confirmed = world.ask(Request::Confirm { id: other.id });
    assert!(matches!(confirmed, Reply::Reserved { .. }));
    let twice = world.ask(Request::Confirm { id: other.id });
    assert!(matches!(twice, Reply::Refused(r) if r.code == RefusalCode::WrongState));
    world.pass(600);
    assert_eq!(world.show(other.id).state, ReservationState::Confirmed);
}

#[test]
fn everything_is_there_after_a_crash() {
    let mut world = World::new(lenient(3));
    let start = world.now + Span::from_secs(60);
    let booked = world
        .reserve(nodes(2, StartChoice::At(start), 50), false, Some(spec("mine")))
        .unwrap()
        .remove(0);
    let held = world
        .reserve(nodes(1, at(&world, 200), 50), true, None)
        .unwrap()
        .remove(0);
    world.crash();
    for n in 0..3 {
        world.connect(n);
    }
    assert_eq!(world.show(held.id).state, ReservationState::Held);
    world.pass(59);
    assert_eq!(world.state_of(booked.job.unwrap().0), JobState::Waiting);
    world.pass(1);
    assert!(runs(&world, booked.job.unwrap().0));
    // In the middle of it once more.
    world.crash();
    for n in 0..3 {
        world.connect(n);
    }
    world.pass(2);
    assert_eq!(world.show(booked.id).state, ReservationState::Active);
    world.pass(15);
    assert_eq!(world.show(booked.id).state, ReservationState::Ended);
    let next = world.book(nodes(1, at(&world, 400), 10)).unwrap();
    assert!(next.id > held.id, "an id was given out twice");
}

#[test]
fn jobs_enter_a_container_and_are_over_at_its_end() {
    let mut world = World::new(lenient(2));
    world.run_time = Span::from_secs(1000);
    let booked = world.book(nodes(1, at(&world, 50), 200)).unwrap();
    let inside = world.submit(JobSpec {
        reservation: Some(booked.id),
        time_limit: None,
        ..whole("inside", 1, 1)
    });
    let long = JobSpec {
        reservation: Some(booked.id),
        ..whole("long", 1, 201)
    };
    let refused = world.try_submit(long, None).unwrap_err();
    assert_eq!(refused.code, RefusalCode::QueueLimit, "{refused}");
    let stranger = Request::Submit(Box::new(Submission {
        spec: JobSpec {
            reservation: Some(booked.id),
            ..spec("stranger")
        },
        script: OsText::default(),
        array: None,
    }));
    let refused = world.ask_as(user(2000, "u2000"), None, stranger);
    assert!(matches!(refused, Reply::Refused(r) if r.code == RefusalCode::AccessDenied));
    world.pass(49);
    assert_eq!(world.queue(), format!("{inside}:waiting/reservation_start"));
    world.pass(2);
    assert!(runs(&world, inside));
    // It takes what is left.
    let run = world.store.row(inside).run.clone().unwrap();
    let end = run.allocated + run.limit.unwrap();
    assert!(end <= booked.end && end + Span::from_secs(6) > booked.end);
    let second = world.submit(JobSpec {
        reservation: Some(booked.id),
        ..whole("second", 1, 10)
    });
    // The first ends before the reservation does, but the second has not got enough time.
    world.pass(200);
    assert_eq!(world.show(booked.id).state, ReservationState::Ended);
    assert_eq!(world.queue(), format!("{second}:waiting/reservation_gone"));
}

#[test]
fn one_that_nobody_uses_is_given_back() {
    let mut world = World::new(lenient(1));
    let booked = world.book(nodes(1, at(&world, 10), 7200)).unwrap();
    world.run_time = Span::from_secs(7200);
    let waiting = world.submit(whole("after", 1, 7200));
    world.pass(60);
    assert_eq!(world.state_of(waiting), JobState::Waiting);
    world.pass(15 * 60);
    let gone = world.show(booked.id);
    assert_eq!(gone.state, ReservationState::Unused);
    assert!(gone.charged > Su::ZERO, "{gone:?}");
    assert!(runs(&world, waiting));
    assert!(
        world
            .mails
            .iter()
            .any(|m| m.contains("nothing was started"))
    );
}

#[test]
fn a_lost_node_is_replaced_or_the_holder_is_told() {
    let mut world = World::new(lenient(3));
    let booked = world.book(nodes(2, at(&world, 1000), 100)).unwrap();
    assert_eq!(booked.nodes, "n[1-2]");
    let drain = |node: &str| Request::NodeControl {
        nodes: vec![node.to_owned()],
        action: api::NodeAction::Drain {
            reason: "broken".into(),
        },
    };
    let root = || user(0, "root");
    world.ask_as(root(), None, drain("n1"));
    world.pass(2);
    let now = world.show(booked.id);
    assert_eq!((now.nodes.as_str(), now.degraded), ("n[2-3]", false), "{now:?}");
    world.ask_as(root(), None, drain("n2"));
    world.pass(2);
    assert!(world.show(booked.id).degraded);
    assert!(world.mails.iter().any(|m| m.contains("n2 cannot serve")));
    let resume = Request::NodeControl {
        nodes: vec!["n1".to_owned()],
        action: api::NodeAction::Resume,
    };
    world.ask_as(root(), None, resume);
    world.pass(2);
    let now = world.show(booked.id);
    assert_eq!((now.nodes.as_str(), now.degraded), ("n[1,3]", false));
}

#[test]
fn a_deadline_is_met_exactly_and_moved_when_nobody_waits_longer() {
    let mut world = World::new(lenient(1));
    world.run_time = Span::from_secs(20);
    let blocker = world.submit(whole("blocker", 1, 3000));
    assert!(runs(&world, blocker));
    let end = world.now + Span::from_secs(5000);
    let ask = ReservationSpec {
        latest_end: Some(end),
        earliest: Some(world.now + Span::from_secs(200)),
        ..nodes(1, StartChoice::FinishBy, 100)
    };
    let booked = world.book(ask).unwrap();
    assert_eq!(booked.end, end);
    // The blocker ends far before its limit.
    world.pass(40);
    let moved = world.show(booked.id);
    assert!(moved.start < booked.start, "{moved:?}");
    assert!(moved.start >= world.now - Span::from_secs(40) + Span::from_secs(160));
    assert_eq!(moved.end.since(moved.start), Span::from_secs(100));
    // Impossible ones are refused.
    let ask = ReservationSpec {
        latest_end: Some(world.now + Span::from_secs(50)),
        ..nodes(1, StartChoice::FinishBy, 100)
    };
    assert_eq!(world.book(ask).unwrap_err().code, RefusalCode::Invalid);
}

#[test]
fn a_series_is_all_or_nothing_or_as_many_as_fit() {
    let mut world = World::new(lenient(1));
    let day = 86_400;
    let taken = world.book(nodes(1, at(&world, 2 * day), 100)).unwrap();
    let starts: Vec<Time> = (1..=3)
        .map(|n| world.now + Span::from_secs(n * day))
        .collect();
    let series = |fit: bool, world: &World| ReservationSpec {
        repeat: Some(Repeat {
            rule: "FREQ=DAILY;COUNT=3".into(),
            starts: (1..=3)
                .map(|n| world.now + Span::from_secs(n * day))
                .collect(),
            as_many_as_fit: fit,
        }),
        ..nodes(1, StartChoice::At(world.now + Span::from_secs(day)), 100)
    };
    let ask = series(false, &world);
    let refused = world.book(ask).unwrap_err();
    assert_eq!(refused.code, RefusalCode::NotFree);
    assert!(refused.message.contains("1 of 3"), "{refused}");
    let request = Request::Reserve {
        ask: Box::new(series(true, &world)),
        hold: false,
        job: None,
    };
    let Reply::Reserved {
        reservations,
        conflicts,
        ..
    } = world.ask(request)
    else {
        panic!("it was refused");
    };
    let got: Vec<Time> = reservations.iter().map(|r| r.start).collect();
    assert_eq!(got, [starts[0], starts[2]]);
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].0, taken.start);
    let cancel = Request::CancelReservation {
        ids: vec![reservations[0].id],
        series: true,
    };
    let done = world.ask(cancel);
    assert!(matches!(done, Reply::Done { changed: 2, .. }), "{done:?}");
}

#[test]
fn quotes_tell_the_plain_start_the_delays_and_the_price() {
    let mut world = World::new(lenient(2));
    world.run_time = Span::from_secs(10_000);
    world.submit(whole("running", 2, 3600));
    let waiting = world.submit(whole("waiting", 2, 3600));
    let ask = ReservationSpec {
        earliest: Some(world.now),
        latest_end: Some(world.now + Span::from_secs(4 * 3600)),
        ..nodes(1, StartChoice::Soonest, 1800)
    };
    let quote = world.quote(ask.clone());
    let now = world.now;
    assert_eq!(quote.plain_start, Some(now + Span::from_secs(7200)));
    let at_once = quote.slots.iter().find(|s| s.start == now).unwrap();
    assert!(!at_once.feasible && !at_once.reason.is_empty());
    let between = quote
        .slots
        .iter()
        .find(|s| s.start == now + Span::from_secs(3600))
        .unwrap();
    // The waiting job of 2 cores (one on each node) would start 1800 s later.
    assert!(between.feasible, "{between:?}");
    assert_eq!((between.delayed_jobs, between.total_delay), (1, Span::from_secs(1800)));
    assert_eq!(between.own_delayed, [(JobId(waiting), Span::from_secs(1800))]);
    let last = quote.slots.iter().rev().find(|s| s.feasible).unwrap();
    assert_eq!(last.extra, Su::ZERO);
    assert!(between.extra > Su::ZERO && between.base == last.base);
    let choice = &quote.slots[quote.choice.unwrap() as usize];
    assert_eq!(choice.start, between.start);
    let booked = world.book(ask).unwrap();
    assert_eq!(booked.start, between.start);
    assert_eq!((booked.base, booked.extra), (between.base, between.extra));
    let explained = world.ask(Request::Explain {
        job: api::JobRef {
            job: JobId(waiting),
            task: None,
        },
    });
    let Reply::Explained { lines, .. } = explained else {
        panic!("not explained");
    };
    let told = format!("delayed 30 min by reservation {}", booked.id);
    assert!(lines.contains(&told), "{lines:?}");
}

/// No start can be promised behind them, so who asks has to know whose they are.
#[test]
fn jobs_without_a_limit_in_the_way_are_named() {
    let mut world = World::new(lenient(2));
    world.run_time = Span::from_secs(1_000_000);
    let endless = world.submit(JobSpec {
        time_limit: None,
        ..whole("endless", 1, 0)
    });
    world.submit(whole("limited", 1, 3600));
    let ask = nodes(2, StartChoice::Soonest, 1800);
    let quote = world.quote(ask.clone());
    assert_eq!(quote.choice, None);
    let told = format!("in the way; job {endless} has no time limit, so that nobody knows when");
    let reason = &quote.slots[0].reason;
    assert!(reason.contains(&told), "{reason}");
    let refusal = world.book(ask).unwrap_err();
    assert!(refusal.message.contains(&told), "{refusal:?}");
    // One node comes free.
    assert!(world.book(nodes(1, StartChoice::Soonest, 1800)).is_ok());
}

#[test]
fn money_is_held_charged_and_given_back() {
    let mut config = lenient(2);
    let account = AccountConfig {
        members: vec!["u1000".into()],
        budget: Some(Su::whole(10)),
    };
    config.accounts.insert("lab".into(), account);
    let mut world = World::new(config);
    let left = |world: &mut World| match world.ask(Request::Accounts { names: vec![] }) {
        Reply::Accounts(all) => (all[0].available, all[0].held, all[0].charged),
        other => panic!("{other:?}"),
    };
    let cores = match world.ask(Request::Nodes) {
        Reply::Nodes(nodes) => i64::from(nodes[0].amounts.cores),
        other => panic!("{other:?}"),
    };
    let price = Su::whole(cores); // an hour of a whole node
    let held = world
        .reserve(nodes(1, at(&world, 9000), 3600), true, None)
        .unwrap()
        .remove(0);
    assert_eq!(held.base.plus(held.extra), price);
    assert_eq!(left(&mut world), (Su::whole(10).minus(price), price, Su::ZERO));
    world.ask(Request::Confirm { id: held.id });
    assert_eq!(left(&mut world), (Su::whole(10).minus(price), Su::ZERO, price));
    // Before the notice limit cancelling is free.
    world.ask(Request::CancelReservation {
        ids: vec![held.id],
        series: false,
    });
    assert_eq!(left(&mut world), (Su::whole(10), Su::ZERO, Su::ZERO));
    // A hold that lapses gives back what it held.
    let lapsing = world
        .reserve(nodes(1, at(&world, 9000), 3600), true, None)
        .unwrap()
        .remove(0);
    world.pass(301);
    assert_eq!(world.show(lapsing.id).state, ReservationState::Expired);
    assert_eq!(left(&mut world), (Su::whole(10), Su::ZERO, Su::ZERO));
    // Too dear.
    let dear = world
        .book(nodes(2, at(&world, 9000), 40 * 3600))
        .unwrap_err();
    assert_eq!(dear.code, RefusalCode::Price, "{dear}");
    // Ended early: the rest comes back, to the second.
    let ask = nodes(1, at(&world, 10), 3600);
    let booked = world
        .reserve(ask, false, Some(spec("short")))
        .unwrap()
        .remove(0);
    world.pass(40);
    let over = world.show(booked.id);
    assert_eq!(over.state, ReservationState::Ended);
    assert!(over.charged > Su::ZERO && over.charged < price, "{over:?}");
    let (available, held, charged) = left(&mut world);
    assert_eq!(available.plus(charged), Su::whole(10));
    assert_eq!((held, charged), (Su::ZERO, over.charged));
    let stranger = nodes(1, at(&world, 9000), 60);
    let request = Request::Reserve {
        ask: Box::new(stranger),
        hold: false,
        job: None,
    };
    let refused = world.ask_as(user(2000, "u2000"), None, request);
    assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
}

#[test]
fn a_repeat_with_the_same_key_books_once() {
    let mut world = World::new(lenient(4));
    let ask = nodes(1, at(&world, 500), 60);
    let request = || Request::Reserve {
        ask: Box::new(ask.clone()),
        hold: false,
        job: None,
    };
    let key = Some([7; 16]);
    let first = world.ask_as(user(1000, "u1000"), key, request());
    let second = world.ask_as(user(1000, "u1000"), key, request());
    assert_eq!(first, second);
    assert_eq!(world.store.reservations.len(), 1);
}

#[test]
fn extending_is_a_new_admission_of_the_difference() {
    let mut world = World::new(lenient(1));
    let booked = world.book(nodes(1, at(&world, 100), 100)).unwrap();
    let extend = |id, secs| Request::ExtendReservation {
        id,
        by: Span::from_secs(secs),
        max_price: None,
    };
    let longer = world.ask(extend(booked.id, 50));
    let Reply::Reserved { reservations, .. } = longer else {
        panic!("{longer:?}");
    };
    assert_eq!(reservations[0].end, booked.end + Span::from_secs(50));
    let next = world.book(nodes(1, at(&world, 300), 100)).unwrap();
    let refused = world.ask(extend(booked.id, 100));
    assert!(matches!(&refused, Reply::Refused(r) if r.code == RefusalCode::NotFree), "{refused:?}");
    assert_eq!(world.show(booked.id).end, reservations[0].end);
    assert_eq!(world.show(next.id).state, ReservationState::Confirmed);
}

/// What a reservation may never be when it is asked for, it is not made by extensions either.
#[test]
fn extensions_do_not_lead_beyond_what_may_be_asked_for() {
    const YEAR: i64 = 366 * 86_400;
    let mut world = World::new(lenient(1));
    let too_long = world.book(nodes(1, at(&world, 100), 11 * YEAR));
    assert_eq!(too_long.unwrap_err().code, RefusalCode::Invalid);
    let booked = world.book(nodes(1, at(&world, 100), 6 * YEAR)).unwrap();
    let extend = |years| Request::ExtendReservation {
        id: booked.id,
        by: Span::from_secs(years * YEAR),
        max_price: None,
    };
    let refused = world.ask(extend(5));
    assert!(matches!(&refused, Reply::Refused(r) if r.code == RefusalCode::Invalid), "{refused:?}");
    assert_eq!(world.show(booked.id).end, booked.end);
    let longer = world.ask(extend(4));
    assert!(matches!(longer, Reply::Reserved { .. }), "{longer:?}");
}

#[test]
fn what_costs_nothing_can_be_shortened() {
    let mut world = World::new(lenient(1));
    let start = world.now + Span::from_secs(100);
    let booked = world.book(nodes(1, StartChoice::At(start), 100)).unwrap();
    let shorten = |secs| Request::ShortenReservation {
        id: booked.id,
        end: start + Span::from_secs(secs),
    };
    for secs in [-200, 0, 100, 101] {
        let refused = world.ask(shorten(secs));
        assert!(
            matches!(&refused, Reply::Refused(r) if r.code == RefusalCode::Invalid),
            "{secs}: {refused:?}"
        );
    }
    let shorter = world.ask(shorten(60));
    assert!(matches!(shorter, Reply::Reserved { .. }), "{shorter:?}");
    assert_eq!(world.show(booked.id).end, start + Span::from_secs(60));
    // What was given back is free for others, and stays so after a restart.
    let next = world.book(nodes(1, StartChoice::At(start + Span::from_secs(60)), 40));
    assert_eq!(next.unwrap().start, start + Span::from_secs(60));
    world.crash();
    assert_eq!(world.show(booked.id).end, start + Span::from_secs(60));
    let stranger = world.ask_as(user(1001, "u1001"), None, shorten(50));
    assert!(matches!(stranger, Reply::Refused(r) if r.code == RefusalCode::Forbidden));
}

#[test]
fn who_may_use_it_can_be_changed() {
    let mut world = World::new(lenient(1));
    let booked = world.book(nodes(1, at(&world, 50), 200)).unwrap();
    let names = |add: &[&str], remove: &[&str]| NamesChange {
        anew: false,
        add: add.iter().map(|n| (*n).to_owned()).collect(),
        remove: remove.iter().map(|n| (*n).to_owned()).collect(),
    };
    let share = |users: NamesChange| Request::ShareReservation {
        id: booked.id,
        change: Box::new(SharingChange {
            users,
            ..SharingChange::default()
        }),
    };
    let tries = |world: &mut World| {
        let submission = Submission {
            spec: JobSpec {
                reservation: Some(booked.id),
                ..whole("inside", 1, 60)
            },
            script: OsText::default(),
            array: None,
        };
        let request = Request::Submit(Box::new(submission));
        let reply = world.ask_as(user(1001, "u1001"), None, request);
        matches!(reply, Reply::Submitted { .. })
    };
    assert!(!tries(&mut world));
    let stranger = world.ask_as(user(1001, "u1001"), None, share(names(&["u1001"], &[])));
    assert!(matches!(stranger, Reply::Refused(r) if r.code == RefusalCode::Forbidden));
    let reply = world.ask(share(names(&["u1001", "ann"], &[])));
    assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    assert!(tries(&mut world));
    world.crash();
    assert!(tries(&mut world));
    world.ask(share(names(&[], &["u1001"])));
    assert!(!tries(&mut world));
    assert_eq!(world.show(booked.id).sharing.users, ["ann"]);
    let many: Vec<String> = (0..10_000).map(|n| format!("u{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = world.ask(share(names(&many, &[])));
    assert!(matches!(&refused, Reply::Refused(r) if r.code == RefusalCode::Invalid));
    assert_eq!(world.show(booked.id).sharing.users, ["ann"]);
}

#[test]
fn jobs_inside_keep_their_time() {
    let mut world = World::new(lenient(1));
    world.run_time = Span::from_secs(1000);
    let booked = world.book(nodes(1, at(&world, 50), 200)).unwrap();
    let inside = world.submit(JobSpec {
        reservation: Some(booked.id),
        ..whole("inside", 1, 60)
    });
    world.pass(60);
    assert!(runs(&world, inside));
    let shorten = |secs| Request::ShortenReservation {
        id: booked.id,
        end: booked.start + Span::from_secs(secs),
    };
    let refused = world.ask(shorten(59));
    let Reply::Refused(refusal) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refusal.code, RefusalCode::WrongState);
    assert!(refusal.message.contains(&format!("job {inside} ")));
    assert!(matches!(world.ask(shorten(100)), Reply::Reserved { .. }));
    world.pass(95);
    assert_eq!(world.show(booked.id).state, ReservationState::Ended);
}

#[test]
fn administrators_bypass_rules_not_feasibility() {
    let mut config = lenient(1);
    config.reservations.per_user.longest = Some(Span::from_secs(60));
    let mut world = World::new(config);
    let ask = nodes(1, at(&world, 100), 100);
    let refused = world.book(ask.clone()).unwrap_err();
    assert_eq!(refused.code, RefusalCode::Admission);
    let request = || Request::Reserve {
        ask: Box::new(ask.clone()),
        hold: false,
        job: None,
    };
    let booked = world.ask_as(user(0, "root"), None, request());
    assert!(matches!(booked, Reply::Reserved { .. }), "{booked:?}");
    let second = world.ask_as(user(0, "root"), None, request());
    assert!(matches!(second, Reply::Refused(r) if r.code == RefusalCode::NotFree));
}

#[test]
fn wrong_requests_are_refused_with_what_would_work() {
    let mut world = World::new(lenient(2));
    let now = world.now;
    let span = |s: i64| Span::from_secs(s);
    let base = || nodes(1, StartChoice::At(now + span(100)), 100);
    let cases: Vec<(&str, ReservationSpec)> = vec![
        (
            "length",
            ReservationSpec {
                length: Span::ZERO,
                ..base()
            },
        ),
        (
            "length",
            ReservationSpec {
                length: Span(-5),
                ..base()
            },
        ),
        (
            "length",
            ReservationSpec {
                length: Span(i64::MAX),
                ..base()
            },
        ),
        (
            "past",
            ReservationSpec {
                pick: StartChoice::At(Time(0)),
                ..base()
            },
        ),
        (
            "past",
            ReservationSpec {
                pick: StartChoice::At(Time(i64::MIN)),
                ..base()
            },
        ),
        (
            "ten years",
            ReservationSpec {
                pick: StartChoice::At(Time(i64::MAX)),
                ..base()
            },
        ),
        (
            "window",
            ReservationSpec {
                earliest: Some(now),
                ..base()
            },
        ),
        (
            "shorter",
            ReservationSpec {
                pick: StartChoice::Soonest,
                earliest: Some(now + span(500)),
                latest_end: Some(now + span(550)),
                ..base()
            },
        ),
        (
            "past",
            ReservationSpec {
                pick: StartChoice::Soonest,
                latest_end: Some(now - span(1)),
                ..base()
            },
        ),
        (
            "--finish-by",
            ReservationSpec {
                pick: StartChoice::FinishBy,
                ..base()
            },
        ),
        (
            "negative",
            ReservationSpec {
                max_price: Some(Su(-1)),
                ..base()
            },
        ),
        (
            "no queue",
            ReservationSpec {
                queue: Some("nowhere".into()),
                ..base()
            },
        ),
        (
            "longer",
            ReservationSpec {
                name: "x".repeat(300),
                ..base()
            },
        ),
        ("never", nodes(3, StartChoice::At(now + span(100)), 100)),
        (
            "exact",
            ReservationSpec {
                pick: StartChoice::Soonest,
                repeat: Some(Repeat {
                    starts: vec![now + span(100)],
                    ..Repeat::default()
                }),
                ..base()
            },
        ),
        (
            "overlap",
            ReservationSpec {
                repeat: Some(Repeat {
                    starts: vec![now + span(100), now + span(150)],
                    ..Repeat::default()
                }),
                ..base()
            },
        ),
    ];
    for (word, ask) in cases {
        let refusal = world.book(ask.clone()).expect_err(word);
        assert!(refusal.message.contains(word), "{word}: {refusal}");
    }
    assert!(world.store.reservations.is_empty());
}

/// Hands a request over without performing what it asks for; the numbers of the appraisals
/// that it starts.
fn appraised_for(world: &mut World, client: u64, request: Request) -> Vec<u64> {
    let caller = Caller::known(user(1000, "u1000"));
    let event = Event::Asked {
        client: ClientId(client),
        caller: Box::new(caller),
        key: None,
        request,
        facts: Facts::default(),
    };
    world.controller.handle(world.now, event);
    started(world)
}

fn started(world: &mut World) -> Vec<u64> {
    let effects = world.controller.settle(world.now).effects;
    let number = |effect| match effect {
        Effect::Appraise { appraisal, .. } => Some(appraisal),
        _ => None,
    };
    effects.into_iter().filter_map(number).collect()
}

#[test]
fn bookings_do_not_wait_behind_quotes() {
    let mut world = World::new(lenient(4));
    let quote = || quotes(nodes(1, StartChoice::Soonest, 60));
    let quotes: Vec<_> = (0..5)
        .map(|n| appraised_for(&mut world, 1000 + n, quote()))
        .collect();
    let under_way: Vec<u64> = quotes.concat();
    assert_eq!(under_way.len(), 2, "only a few snapshots exist at once");
    let book = Request::Reserve {
        ask: Box::new(nodes(1, at(&world, 100), 60)),
        hold: false,
        job: None,
    };
    assert_eq!(appraised_for(&mut world, 2000, book).len(), 1);
    let nothing = cosy_sched::appraise::Appraisal {
        now: world.now,
        plain_start: None,
        joint_start: None,
        load_end: world.now,
        plan_end: world.now,
        slots: Vec::new(),
    };
    let event = Event::Appraised {
        appraisal: under_way[0],
        result: Box::new(nothing),
    };
    world.controller.handle(world.now, event);
    assert_eq!(started(&mut world).len(), 1, "the next quote follows");
}

/// A request that waits for its figures is compared with a plain job that nobody has the id of,
/// also when jobs have come meanwhile.
#[test]
fn jobs_that_come_before_the_figures_are_others() {
    let mut world = World::new(lenient(4));
    world.submit(spec("first"));
    let appraised = |world: &mut World, client| {
        let caller = Caller::known(user(1000, "u1000"));
        let ask = nodes(1, StartChoice::Soonest, 60);
        let event = Event::Asked {
            client: ClientId(client),
            caller: Box::new(caller),
            key: None,
            request: Request::Quote {
                ask: Box::new(ask),
                most: None,
                as_job: None,
            },
            facts: Facts::default(),
        };
        world.controller.handle(world.now, event);
        world.controller.settle(world.now).effects
    };
    let mut under_way = Vec::new();
    for client in 1000..1003 {
        under_way.extend(appraised(&mut world, client));
    }
    for name in ["second", "third"] {
        world.submit(spec(name));
    }
    let mut figures = 0;
    while let Some(effect) = under_way.pop() {
        let Effect::Appraise {
            appraisal,
            now,
            scheduler,
            inquiry,
        } = effect
        else {
            continue;
        };
        let result = Box::new(scheduler.appraise(now, &inquiry));
        assert!(result.plain_start.is_some(), "{:?}", inquiry.job.key);
        figures += 1;
        let event = Event::Appraised { appraisal, result };
        world.controller.handle(world.now, event);
        under_way.extend(world.controller.settle(world.now).effects);
    }
    assert_eq!(figures, 3);
}

#[test]
fn with_its_script_a_reservation_goes() {
    let mut world = World::new(lenient(1));
    let ask = nodes(1, at(&world, 1000), 100);
    let booked = world
        .reserve(ask, false, Some(spec("mine")))
        .unwrap()
        .remove(0);
    let job = booked.job.unwrap().0;
    world.ask(cancels(ids(&[job])));
    assert_eq!(world.show(booked.id).state, ReservationState::Cancelled);
    assert_eq!(world.state_of(job), JobState::Cancelled);
    assert_eq!(world.show(booked.id).end, booked.end);
}

#[test]
fn a_node_that_is_no_longer_configured_is_replaced() {
    let mut world = World::new(lenient(3));
    let booked = world.book(nodes(2, at(&world, 1000), 100)).unwrap();
    assert_eq!(booked.nodes, "n[1-2]");
    world.config.nodes.remove(0);
    world.nodes.remove(0);
    world.crash();
    world.connect_as(0, "key2");
    world.connect_as(1, "key3");
    world.pass(2);
    let now = world.show(booked.id);
    assert_eq!((now.nodes.as_str(), now.degraded), ("n[2-3]", false), "{now:?}");
    // Nothing is left to replace another.
    world.config.nodes.remove(0);
    world.nodes.remove(0);
    world.crash();
    for _ in 0..2 {
        world.connect_as(0, "key3");
        world.pass(2);
        let now = world.show(booked.id);
        assert!(now.degraded, "{now:?}");
        world.crash();
    }
}

#[test]
fn holds_cannot_be_chained() {
    let mut world = World::new(lenient(2));
    let ask = nodes(1, at(&world, 5000), 100);
    let held = world.reserve(ask.clone(), true, None).unwrap().remove(0);
    let cancel = Request::CancelReservation {
        ids: vec![held.id],
        series: false,
    };
    world.pass(200);
    world.ask(cancel);
    for other in [ask.clone(), nodes(1, at(&world, 4850), 100)] {
        let again = world.reserve(other, true, None).unwrap_err();
        assert!(again.message.contains("given back"), "{again}");
    }
    // Beside it in time a hold may be, and the same may be booked.
    let beside = world.reserve(nodes(1, at(&world, 6000), 100), true, None);
    assert!(beside.is_ok(), "{beside:?}");
    assert!(world.book(ask).is_ok());
}

#[test]
fn one_with_a_script_ends_when_nothing_runs_in_it() {
    let mut world = World::new(lenient(2));
    world.run_time = Span::from_secs(40);
    let ask = nodes(2, at(&world, 10), 500);
    let booked = world.reserve(ask, false, Some(spec("mine"))).unwrap();
    let (id, script) = (booked[0].id, booked[0].job.unwrap());
    let other = world.submit(JobSpec {
        reservation: Some(id),
        ..whole("other", 1, 60)
    });
    // The script needs both nodes, the other job one.
    world.disconnect(1);
    world.pass(12);
    assert!(runs(&world, other));
    world.ask(cancels(ids(&[script.0])));
    assert_eq!(world.show(id).state, ReservationState::Active);
    world.pass(40);
    assert_eq!(world.state_of(other), JobState::Completed);
    assert_eq!(world.show(id).state, ReservationState::Ended);
}

#[test]
fn nobody_takes_all_the_room_for_quotes() {
    let mut world = World::new(lenient(1));
    let now = world.now;
    for n in 0..20 {
        let ask = nodes(1, StartChoice::Soonest, 60);
        let event = Event::Asked {
            client: ClientId(1_000_000 + n),
            caller: Box::new(Caller::known(user(1000, "u1000"))),
            key: None,
            request: Request::Quote {
                ask: Box::new(ask),
                most: None,
                as_job: None,
            },
            facts: Facts::default(),
        };
        world.controller.handle(now, event);
    }
    let batch = world.controller.settle(now);
    let (mut refused, mut snapshots) = (0, 0);
    for effect in &batch.effects {
        match effect {
            Effect::Reply { reply, .. } => {
                assert!(matches!(reply, Reply::Refused(r) if r.code == RefusalCode::TooMany));
                refused += 1;
            }
            Effect::Appraise { .. } => snapshots += 1,
            _ => {}
        }
    }
    assert_eq!(refused, 4);
    assert!((1..=2).contains(&snapshots), "{snapshots} snapshots");
}

/// Job and its predicted start in seconds from `from`, of those that wait.
fn predicted(world: &mut World, from: Time) -> Vec<(u64, Option<i64>)> {
    let table = world.jobs(&[JobField::Id, JobField::State, JobField::PredictedStart]);
    let waits = |row: &usize| table.text(*row, JobField::State) == "waiting";
    let start = |row: usize| {
        let start = table.number(row, JobField::PredictedStart).map(Time);
        let id = table.number(row, JobField::Id).expect("a number");
        (id as u64, start.map(|start| start.since(from).ms() / 1000))
    };
    let mut all: Vec<_> = (0..table.rows).filter(waits).map(start).collect();
    all.sort_unstable();
    all
}

#[test]
fn starts_inside_of_reservations_are_predicted() {
    let mut world = World::new(lenient(2));
    world.run_time = Span::from_secs(1000);
    let start = world.now + Span::from_secs(100);
    let booked = world.book(nodes(1, StartChoice::At(start), 600)).unwrap();
    let inside = |spec: JobSpec| JobSpec {
        reservation: Some(booked.id),
        ..spec
    };
    let first = world.submit(inside(whole("first", 1, 200)));
    let second = world.submit(inside(whole("second", 1, 100)));
    // What it takes is what others leave: no time is told.
    let rest = world.submit(inside(JobSpec {
        time_limit: None,
        ..whole("rest", 1, 1)
    }));
    let held = world.submit(inside(JobSpec {
        hold: true,
        ..whole("held", 1, 100)
    }));
    let before = predicted(&mut world, start);
    let want = [
        (first, Some(0)),
        (second, Some(200)),
        (rest, None),
        (held, None),
    ];
    assert_eq!(before, want);
    // One job that is asked for alone, too.
    let explained = world.ask(Request::Explain {
        job: JobRef {
            job: JobId(second),
            task: None,
        },
    });
    let Reply::Explained { table, .. } = explained else {
        panic!("{explained:?}");
    };
    let alone = table.number(0, JobField::PredictedStart).map(Time);
    assert_eq!(alone, Some(start + Span::from_secs(200)));
    // While it is active the planner inside is asked, from what runs there.
    world.pass(130);
    assert!(runs(&world, first));
    let within = predicted(&mut world, start);
    assert_eq!(within[0], (second, Some(200)), "{within:?}");
    assert_eq!(within[1], (rest, None), "{within:?}");
}
