//! Users who try to get more than the rules of admission mean to give: by splitting, with
//! many tiny jobs, with many bookings, with holds. `COSY_SEEDS=N` splits in more queues.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // the number of seeds comes from the environment

mod world;

use cosy_control::{ClusterConfig, Quotas, Weigh};
use cosy_model::api::{JobField, Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::*;
use cosy_model::*;
use world::*;

/// No quotas and no caps: only the rules that are tested.
fn cluster(nodes: u32, rules: &[Rule]) -> ClusterConfig {
    let mut config = config(nodes, 4);
    let policy = &mut config.reservations;
    policy.all_of = rules.to_vec();
    policy.delay_cap = None;
    policy.per_user = Quotas::NONE;
    config
}

fn whole(nodes: u32) -> ResourceRequest {
    ResourceRequest {
        nodes: Some(nodes),
        exclusive: true,
        ..ResourceRequest::default()
    }
}

fn job(nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: whole(nodes),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("job")
    }
}

fn ask(nodes: u32, start: Time, secs: i64) -> ReservationSpec {
    ReservationSpec::plain(whole(nodes), Span::from_secs(secs), StartChoice::At(start))
}

fn book(world: &mut World, ask: ReservationSpec) -> Result<ReservationInfo, Refusal> {
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    match world.ask(request) {
        Reply::Reserved {
            mut reservations, ..
        } => Ok(reservations.remove(0)),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

/// Four nodes with a random queue: the same from the same seed.
fn busy(seed: u64) -> World {
    let mut dice = Dice(seed);
    let mut world = World::new(cluster(4, &[Rule::Notice]));
    world.run_time = Span::from_secs(1_000_000);
    for _ in 0..4 + dice.below(8) {
        let nodes = 1 + dice.below(4) as u32;
        world.submit(job(nodes, 300 + dice.below(40) as i64 * 100));
    }
    world.deliver_all();
    world
}

/// The parts of 4 nodes for 1200 s: how many there are, how wide and how long, and by which
/// rule they follow each other.
fn parts(kind: usize, start: Time) -> Vec<ReservationSpec> {
    let later = |secs: i64| start + Span::from_secs(secs);
    match kind {
        0 => (0..4).map(|_| ask(1, start, 1200)).collect(),
        1 => (0..4).map(|n| ask(4, later(n * 300), 300)).collect(),
        2 => (0..4).rev().map(|n| ask(4, later(n * 300), 300)).collect(),
        3 => vec![
            ask(3, start, 600),
            ask(3, later(600), 600),
            ask(1, start, 1200),
        ],
        _ => (0..8)
            .map(|n| ask(1, later(i64::from(n % 2 == 1) * 600), 600))
            .collect(),
    }
}

#[test]
fn splitting_gives_no_earlier_start() {
    let (mut refused, mut admitted) = (0, 0);
    let seeds = std::env::var("COSY_SEEDS").map_or(6, |n| n.parse().unwrap());
    for seed in 0..seeds {
        for after in (1200..12_000).step_by(2100) {
            let mut world = busy(seed);
            let start = world.now + Span::from_secs(after + 7);
            if book(&mut world, ask(4, start, 1200)).is_ok() {
                admitted += 1;
                continue;
            }
            refused += 1;
            for kind in 0..5 {
                let mut world = busy(seed);
                let mut parts = parts(kind, start).into_iter();
                let all = parts.all(|part| book(&mut world, part).is_ok());
                assert!(!all, "seed {seed}: all parts of kind {kind} begin after {after} s");
            }
        }
    }
    assert!(refused > 5 && admitted > 5, "{refused} refused, {admitted} admitted");
}

/// The notice that the rule asks for now of a node for a minute.
fn notice(world: &mut World) -> Span {
    let ask = ReservationSpec {
        pick: StartChoice::Soonest,
        latest_end: Some(world.now + Span::from_secs(86_400)),
        ..ask(1, world.now, 60)
    };
    let request = Request::Quote {
        ask: Box::new(ask),
        most: Some(2),
        as_job: None,
    };
    match world.ask(request) {
        Reply::Quote(quote) => quote.notice_earliest.unwrap().since(quote.now),
        other => panic!("{other:?}"),
    }
}

/// Jobs that have waited an hour, a booking, and then two hundred jobs of a second.
fn notice_before_and_after_tiny_jobs(weigh: Weigh) -> (Span, Span) {
    let mut config = cluster(4, &[Rule::Notice]);
    config.reservations.notice.weigh = weigh;
    config.reservations.notice.predicted_wait = false;
    config.reservations.notice.together = false;
    config.reservations.notice.least_requests = 5;
    let mut world = World::new(config);
    world.run_time = Span::from_secs(600);
    for _ in 0..9 {
        world.submit(job(4, 600));
    }
    world.pass(3700);
    let start = world.now + Span::from_secs(80_000);
    book(&mut world, ask(1, start, 600)).unwrap();
    let before = notice(&mut world);
    world.run_time = Span::from_secs(1);
    for _ in 0..200 {
        world.submit(JobSpec {
            time_limit: Some(Span::from_secs(1)),
            ..spec("tiny")
        });
        world.deliver_all();
        if world.controller.live_jobs() > 8 {
            world.pass(1);
        }
    }
    world.pass(3);
    (before, notice(&mut world))
}

#[test]
fn hundreds_of_tiny_jobs_do_not_lower_the_notice() {
    let (before, after) = notice_before_and_after_tiny_jobs(Weigh::CoreHours);
    assert!(before > Span::from_secs(600), "{before}");
    let lost = before.ms() - after.ms();
    assert!(lost * 50 < before.ms(), "{before} became {after}");
    // Counted one by one they would: so it is the weight that counts.
    let (before, after) = notice_before_and_after_tiny_jobs(Weigh::Counts);
    assert!(after.ms() * 2 < before.ms(), "{before} became {after}");
}

/// When a waiting job would start by the plan.
fn predicted(world: &mut World, id: u64) -> Time {
    let table = world.jobs(&[JobField::Ref, JobField::PredictedStart]);
    let row = (0..table.rows).find(|row| table.text(*row, JobField::Ref) == id.to_string());
    let start = table.get(row.unwrap(), JobField::PredictedStart);
    match start {
        api::Value::Number(ms) => Time(ms),
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_bookings_together_keep_the_delay_cap() {
    let cap = Span::from_secs(900);
    for seed in 0..8 {
        let mut dice = Dice(seed);
        let mut config = cluster(2, &[]);
        config.reservations.delay_cap = Some(cap);
        let mut world = World::new(config);
        world.run_time = Span::from_secs(1_000_000);
        world.submit(job(2, 3600));
        let waiting = world.submit(job(2, 3600));
        let planned = predicted(&mut world, waiting);
        let (mut taken, mut capped) = (0, 0);
        for _ in 0..60 {
            let start = world.now + Span::from_secs(3600 + dice.below(3600) as i64);
            let part = ask(1, start, 60 + dice.below(240) as i64);
            match book(&mut world, part) {
                Ok(_) => taken += 1,
                Err(refusal) => capped += i32::from(refusal.message.contains("delay cap")),
            }
            let now = predicted(&mut world, waiting);
            assert!(now <= planned + cap, "seed {seed}: pushed back by {}", now.since(planned));
        }
        assert!(taken > 1 && capped > 1, "seed {seed}: {taken} taken, {capped} refused");
    }
}

#[test]
fn neither_a_colleague_nor_an_extension_helps() {
    let mut config = cluster(4, &[]);
    config.reservations.per_user.longest = Some(Span::from_secs(600));
    config.reservations.per_user.open = Some(1);
    let mut world = World::new(config);
    let start = world.now + Span::from_secs(1000);
    let booked = book(&mut world, ask(1, start, 600)).unwrap();
    let second = book(&mut world, ask(1, start, 600)).unwrap_err();
    assert_eq!(second.code, RefusalCode::Admission, "{second}");
    let longer = world.ask(Request::ExtendReservation {
        id: booked.id,
        by: Span::from_secs(1),
        max_price: None,
    });
    assert!(matches!(&longer, Reply::Refused(r) if r.code == RefusalCode::Admission), "{longer:?}");
    // A hold of the same account that lapsed binds its other members too.
    let mut config = cluster(4, &[]);
    config.accounts.insert(
        "lab".to_owned(),
        cosy_control::AccountConfig {
            members: vec!["u1000".to_owned(), "u1001".to_owned()],
            budget: None,
        },
    );
    let mut world = World::new(config);
    let hold = || Request::Reserve {
        ask: Box::new(ask(1, start, 600)),
        hold: true,
        job: None,
    };
    let first = world.ask(hold());
    assert!(matches!(first, Reply::Reserved { .. }), "{first:?}");
    world.pass(301);
    let other = world.ask_as(user(1001, "u1001"), None, hold());
    assert!(matches!(&other, Reply::Refused(r) if r.message.contains("lapsed")), "{other:?}");
}
