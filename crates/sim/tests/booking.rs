//! The experiments with appraised reservations on small workloads: what is granted is kept,
//! what is chosen is the best there is, and the same options give the same figures.

use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sched::notice::Share;
use cosy_sim::booking::inquiry::HALF_PPM;
use cosy_sim::booking::pricing::purchase::PurchaseRule;
use cosy_sim::booking::pricing::report::Report as Prices;
use cosy_sim::booking::pricing::run::{Alpha, RunSettings, System};
use cosy_sim::booking::pricing::study::Settings as PriceSettings;
use cosy_sim::booking::sampling;
use cosy_sim::booking::simulation::{
    AdmissionRule, JobOutcome, ReservationRequest, Simulation, Slot,
};
use cosy_sim::booking::whatif::placement::{Method, PlacementRule, SlotChoice, SlotKind};
use cosy_sim::booking::whatif::report::Report as Placements;
use cosy_sim::booking::whatif::run::Case;
use cosy_sim::booking::whatif::study::Settings as PlaceSettings;
use cosy_sim::models::lublin::{self, JobKind};
use cosy_sim::replay::{Machine, ReplayOptions, replay};
use cosy_sim::workload::{Job, Workload};
use proptest::prelude::*;

const MACHINE: Machine = Machine { nodes: 8, cores: 1 };
const SLOTS: SlotChoice = SlotChoice {
    kind: SlotKind::Even,
    most: 10,
    gap: Span::from_secs(10),
    makespan_weight_ppm: HALF_PPM,
    equal_ppm: 0,
};

fn job(submit: i64, run: i64, limit: i64, processors: u32) -> Job {
    Job {
        submit: Time::from_secs(submit),
        run: Span::from_secs(run),
        limit: Span::from_secs(limit),
        processors,
        ..Job::default()
    }
}

fn simulation(jobs: &[Job]) -> Simulation<'_> {
    Simulation {
        machine: MACHINE,
        policy: Policy::EASY,
        jobs,
    }
}

fn lublin(jobs: usize, nodes: u32, seed: u64) -> Vec<Job> {
    let settings = lublin::Settings {
        nodes,
        jobs,
        seed,
        kind: JobKind::Both,
        load: 2.0,
    };
    let mut jobs = lublin::generate(&settings).jobs;
    jobs.retain(|job| job.processors <= nodes);
    jobs
}

struct Nothing;

impl AdmissionRule for Nothing {
    fn decide(&mut self, _: &ReservationRequest<'_>) -> Option<Slot> {
        None
    }
}

#[test]
fn without_reservations_it_is_the_replay() {
    let jobs = lublin(400, 64, 3);
    let machine = Machine {
        nodes: 64,
        cores: 1,
    };
    for policy in [Policy::EASY, Policy::CONSERVATIVE] {
        let simulation = Simulation {
            machine,
            policy,
            jobs: &jobs,
        };
        let outcomes = simulation.run(&[], &mut Nothing);
        let workload = Workload {
            jobs: jobs.clone(),
            ..Workload::default()
        };
        let replayed = replay(machine, policy, &workload, ReplayOptions::default());
        let starts: Vec<_> = replayed
            .job_runs
            .iter()
            .map(|ran| ran.map(|r| r.start))
            .collect();
        let driven: Vec<_> = outcomes.iter().map(|outcome| outcome.start()).collect();
        assert_eq!(driven, starts, "{policy:?}");
    }
}

/// One job holds the machine, one waits for half of it, and a reservation for the whole of
/// it is asked for.
fn placed(method: Method, (ahead, window): (i64, i64)) -> JobOutcome {
    let jobs = [job(0, 100, 100, 8), job(1, 100, 100, 8), job(2, 50, 50, 8)];
    let mut rule =
        PlacementRule::new(method, Span::from_secs(ahead), Span::from_secs(window), SLOTS);
    simulation(&jobs).run(&[false, false, true], &mut rule)[2]
}

#[test]
fn placements_by_hand() {
    let check = |times, load: Option<i64>, what_if: Option<i64>| {
        let start = |method| placed(method, times).start().map(Time::secs);
        assert_eq!(start(Method::Load), load, "load {times:?}");
        assert_eq!(start(Method::WhatIf), what_if, "what-if {times:?}");
    };
    // The running job is in the way until 100, the head from 100 to 200.
    check((0, 0), None, None);
    check((100, 50), None, None);
    // Work of (98 + 100) s, half of it: T is 2 + 99 = 101; the head is in the way until 200.
    check((198, 0), Some(200), Some(200));
    // The plain job would start at 200: that slot is looked at as well.
    check((0, 235), Some(200), Some(200));
    check((300, 90), Some(302), Some(302));
}

#[test]
fn load_refuses_what_is_before_the_end_of_the_work() {
    // Half of the machine is free, but there is work for 500 s.
    let jobs = [job(0, 2000, 2000, 4), job(1, 10, 10, 4)];
    let start = |method, ahead| {
        let mut rule = PlacementRule::new(method, Span::from_secs(ahead), Span::ZERO, SLOTS);
        simulation(&jobs).run(&[false, true], &mut rule)[1].start()
    };
    assert_eq!(start(Method::WhatIf, 0), Some(Time::from_secs(1)));
    assert_eq!(start(Method::Load, 0), None);
    assert_eq!(start(Method::Load, 498), None);
    assert_eq!(start(Method::Load, 500), Some(Time::from_secs(501)));
}

#[test]
fn loads_are_those_of_jobs_and_reservations() {
    // Seconds of the machine: 100 run, 50 wait, 25 are reserved.
    let jobs = [
        job(0, 100, 100, 8),
        job(0, 100, 100, 4),
        job(0, 50, 50, 4),
        job(10, 50, 50, 4),
    ];
    let mut rule = PlacementRule::new(Method::WhatIf, Span::from_secs(1000), Span::ZERO, SLOTS);
    simulation(&jobs).run(&[false, false, true, true], &mut rule);
    let loads: Vec<i64> = rule
        .requests
        .iter()
        .map(|request| request.load.secs())
        .collect();
    assert_eq!(loads, [150, 90 + 50 + 25]);
}

#[test]
fn buyers_pay_for_what_they_delay() {
    // The pricing paper's figure 1 in spirit: whoever comes early delays the head.
    let jobs = [
        job(0, 3600, 3600, 8),
        job(1, 3600, 3600, 8),
        job(2, 1800, 1800, 4),
    ];
    let buy = |alpha| {
        let mut rule = PurchaseRule::new(vec![alpha; 3]);
        let outcomes = simulation(&jobs).run(&[false, false, true], &mut rule);
        (outcomes[2].start().map(Time::secs), rule.purchases)
    };
    let (early, purchases) = buy(0);
    // From 3600 on, and the head waits half an hour on eight processors longer.
    assert_eq!(early, Some(3600));
    assert_eq!((purchases[0].extra.0, purchases[0].base.0), (4_000_000, 2_000_000));
    assert_eq!(purchases[0].unit_price(), 2.0);
    assert_eq!(purchases[0].wait, Span::from_secs(3598));
    let (cheap, purchases) = buy(1000);
    assert_eq!(cheap, Some(7200));
    assert_eq!(purchases[0].extra.0, 0);
}

#[test]
fn whoever_does_not_mind_the_time_pays_nothing() {
    let systems = [System {
        name: "test",
        nodes: 64,
        jobs: lublin(300, 64, 1),
    }];
    let setting = |alpha| RunSettings {
        system: 0,
        more: Share::percent(20),
        reserved: Share::percent(10),
        policy: Policy::EASY,
        alpha,
        seed: 4,
        exact: false,
    };
    let cheap = setting(Alpha::Fixed(1000)).run(&systems).unwrap();
    assert_eq!((cheap.price(), cheap.free(), cheap.refused), (0.0, 1.0, 0));
    assert_eq!(cheap.purchases.len(), systems[0].jobs.len() * 12 / 100);
    let early = setting(Alpha::Fixed(0)).run(&systems).unwrap();
    assert!(early.wait() < cheap.wait() && early.price() > 0.0);
}

#[test]
fn studies_repeat_and_have_every_run() {
    let settings = PlaceSettings {
        jobs: lublin(120, 32, 7),
        nodes: 32,
        policy: Policy::EASY,
        seeds: 2,
        first_seed: 5,
        slots: SLOTS,
    };
    let study = settings.study(&|_| {});
    let runs = study.plain.len() + study.limited.len() + study.exact.len();
    assert_eq!(runs as u64, settings.runs());
    assert_eq!(settings.study(&|_| {}), study);
    let report = Placements::of(&study);
    for success in &report.success {
        assert!(success.all.low > 0.0 && success.all.high <= 1.0);
    }
    assert!(report.to_string().contains("Table 1"));
    assert_eq!(report.to_json()["claims"].as_array().map(Vec::len), Some(report.claims.len()));
}

#[test]
fn prices_repeat_too() {
    let settings = PriceSettings {
        systems: vec![System {
            name: "SP2",
            nodes: 32,
            jobs: lublin(100, 32, 7),
        }],
        seeds: 1,
        first_seed: 5,
        exact: false,
    };
    let study = settings.study(&|_| {});
    assert_eq!(study.runs.len() as u64, settings.runs());
    assert_eq!(settings.study(&|_| {}), study);
    let report = Prices::of(&study);
    let json = report.to_json();
    assert_eq!(json["systems"][0]["loads"].as_array().map(Vec::len), Some(3));
    let last = &json["systems"][0]["loads"][2]["by_alpha"][10];
    assert_eq!(last["price"]["high"], 0.0);
}

/// Nothing is overbooked, reservations start when it was said, and in the window.
fn check_run(jobs: &[Job], reserved: &[bool], method: Method, (ahead, window): (i64, i64)) {
    let [ahead, window] = [ahead, window].map(Span::from_secs);
    let mut rule = PlacementRule::new(method, ahead, window, SLOTS);
    let outcomes = simulation(jobs).run(reserved, &mut rule);
    let mut granted = rule.requests.iter();
    let mut changes = Vec::new();
    for ((job, outcome), reserved) in jobs.iter().zip(&outcomes).zip(reserved) {
        if *reserved && *outcome != JobOutcome::TooLarge {
            let asked = granted.next().map(|request| request.granted);
            assert_eq!(asked, Some(outcome.start()));
            let since = |start: Time| start.since(job.submit);
            let inside = |start| (ahead..=ahead + window).contains(&since(start));
            assert!(outcome.start().is_none_or(inside), "{outcome:?}");
        }
        if let Some(start) = outcome.start() {
            changes.push((start, i64::from(job.processors)));
            changes.push((start + job.run, -i64::from(job.processors)));
        } else {
            assert!(*reserved || *outcome == JobOutcome::TooLarge);
        }
    }
    changes.sort_unstable();
    let mut used = 0;
    for (_, change) in changes {
        used += change;
        assert!(used <= i64::from(MACHINE.nodes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn reservations_are_kept_and_nothing_is_overbooked(
        mut jobs in prop::collection::vec((0i64..200, 1i64..50, 0i64..50, 1u32..=9, any::<bool>()), 1..40),
        times in (0i64..200, 0i64..200),
    ) {
        jobs.sort_by_key(|(submit, ..)| *submit);
        let reserved: Vec<bool> = jobs.iter().map(|job| job.4).collect();
        let jobs = jobs.iter().map(|(s, r, more, n, _)| job(*s, *r, r + more, *n));
        let mut jobs: Vec<Job> = jobs.collect();
        sampling::ask_exactly(&mut jobs, &reserved);
        for method in Method::ALL {
            check_run(&jobs, &reserved, method, times);
        }
    }

    /// The window that contains another grants whatever is best there, or better; here: a
    /// request alone is never refused with the wider window and granted with the narrow one.
    #[test]
    fn a_wider_window_never_refuses_a_lone_request(
        mut jobs in prop::collection::vec((0i64..50, 1i64..50, 0i64..50, 1u32..=8), 1..20),
        (nodes, length) in (1u32..=8, 1i64..60),
        ahead in 0i64..100,
    ) {
        jobs.sort_by_key(|(submit, ..)| *submit);
        let jobs = jobs.iter().map(|(s, r, more, n)| job(*s, *r, r + more, *n));
        let mut jobs: Vec<Job> = jobs.collect();
        jobs.push(job(50, length, length, nodes));
        let mut reserved = vec![false; jobs.len()];
        reserved[jobs.len() - 1] = true;
        for method in Method::ALL {
            let granted = |window| {
                let window = Span::from_secs(window);
                let mut rule = PlacementRule::new(method, Span::from_secs(ahead), window, SLOTS);
                simulation(&jobs).run(&reserved, &mut rule);
                rule.requests[0].granted
            };
            prop_assert!(granted(0).is_none() || granted(500).is_some(), "{}", method.name());
        }
    }
}

#[test]
fn a_case_knows_what_it_was_without_reservations() {
    let jobs = [job(0, 100, 100, 8), job(10, 50, 50, 8), job(20, 30, 30, 4)];
    let case = Case::new(simulation(&jobs), vec![false, false, true]);
    let starts: Vec<_> = case.before.iter().map(|outcome| outcome.start()).collect();
    let at = |secs| Some(Time::from_secs(secs));
    assert_eq!(starts, [at(0), at(100), None]);
    let run = case.run(1, Method::WhatIf, (0, 1), SLOTS);
    assert_eq!(run.granted(), 1);
    assert_eq!(run.delayed, []);
    // 180 s instead of 150.
    assert_eq!(run.growth, 0.2);
    assert_eq!(run.queue_growth, 0.0);
}
