//! Plans of workflows: asked of a controller with jobs and reservations of others.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{ClusterConfig, Quotas, ReservationPolicy};

use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{ReservationSpec, Rule, StartChoice};
use cosy_model::workflow::*;
use cosy_model::{JobSpec, OsText, Refusal, RefusalCode, Span, Su, Time};
use world::*;

fn task(name: &str, nodes: u32, secs: i64) -> FlowTask {
    FlowTask {
        name: name.to_owned(),
        spec: JobSpec {
            request: whole_nodes(nodes),
            ..spec("x")
        },
        script: OsText::default(),
        estimate: Span::from_secs(secs),
        estimates: Vec::new(),
        retries: 0,
    }
}

fn flow(tasks: Vec<FlowTask>, edges: &[(u32, u32)], deadline: FlowDeadline) -> FlowSpec {
    let edge = |(from, to): &(u32, u32)| FlowEdge {
        from: *from,
        to: *to,
        data_bytes: 0,
    };
    FlowSpec {
        name: "w".to_owned(),
        tasks,
        edges: edges.iter().map(edge).collect(),
        speeds: Vec::new(),
        transfers: Vec::new(),
        deadline: Some(deadline),
        earliest: None,
        scheduler: FlowScheduler::default(),
        slack_policy: FlowSlackPolicy::default(),
        threshold_permille: 50,
        early: false,
        overrun: Overrun::Kill,
        account: None,
        max_price: None,
        comment: String::new(),
        environment: OsText::default(),
        umask: 0o22,
        rlimits: Default::default(),
    }
}

fn plan(w: &mut World, spec: FlowSpec) -> Result<FlowPlan, Refusal> {
    match w.ask(Request::PlanFlow {
        spec: Box::new(spec),
    }) {
        Reply::FlowPlan(plan) => Ok(*plan),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn diamond() -> FlowSpec {
    let tasks = vec![
        task("a", 1, 100),
        task("b", 1, 200),
        task("c", 1, 100),
        task("d", 2, 100),
    ];
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3)];
    flow(tasks, &edges, FlowDeadline::Slack(500))
}

fn long(nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: whole_nodes(nodes),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("long")
    }
}

/// No two slots on a node at a time, parents first, all before the deadline.
fn check(plan: &FlowPlan, edges: &[(u32, u32)]) {
    for (at, one) in plan.tasks.iter().enumerate() {
        assert!(one.end <= plan.deadline && one.start >= plan.now);
        for other in &plan.tasks[at + 1..] {
            let apart = one.end <= other.start || other.end <= one.start;
            let names = |t: &PlannedTask| cosy_model::expand(&t.nodes).unwrap();
            let (mine, theirs) = (names(one), names(other));
            assert!(apart || !mine.iter().any(|name| theirs.contains(name)));
        }
    }
    for (from, to) in edges {
        assert!(plan.tasks[*from as usize].end <= plan.tasks[*to as usize].start);
    }
}

#[test]
fn around_jobs_and_reservations() {
    let mut w = World::new(config(2, 4));
    w.submit(long(1, 300));
    w.settle();
    let start = w.now + Span::from_secs(2000);
    let ask = ReservationSpec::plain(whole_nodes(2), Span::from_secs(1000), StartChoice::At(start));
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    let booked = w.ask_as(user(0, "root"), None, request);
    assert!(matches!(booked, Reply::Reserved { .. }), "{booked:?}");
    for scheduler in FlowScheduler::ALL {
        for slack_policy in FlowSlackPolicy::ALL {
            let spec = FlowSpec {
                scheduler,
                slack_policy,
                ..diamond()
            };
            let edges: Vec<_> = spec.edges.iter().map(|e| (e.from, e.to)).collect();
            let plan = plan(&mut w, spec).unwrap();
            check(&plan, &edges);
            // Both nodes are not free before the job's limit, nor during the reservation.
            let last = &plan.tasks[3];
            assert!(last.start >= w.now + Span::from_secs(300), "{plan:?}");
            assert!(last.end <= start, "{plan:?}");
            assert!(plan.tasks.iter().any(|task| task.critical));
        }
    }
}

#[test]
fn a_deadline_that_is_too_early_names_the_earliest() {
    let mut w = World::new(config(2, 4));
    let by = |at: Time| FlowSpec {
        deadline: Some(FlowDeadline::By(at)),
        ..diamond()
    };
    let shortest = plan(&mut w, diamond()).unwrap().shortest_end;
    let exact = plan(&mut w, by(shortest)).unwrap();
    assert_eq!((exact.shortest_end, exact.deadline), (shortest, shortest));
    let refused = plan(&mut w, by(shortest - Span(1))).unwrap_err();
    assert_eq!(refused.code, RefusalCode::NotFree);
    assert!(refused.message.contains("the earliest that works is"), "{refused}");
}

#[test]
fn what_cannot_be_planned_is_refused_by_name() {
    let mut w = World::new(config(2, 4));
    let slack = FlowDeadline::Slack(500);
    let mut check = |spec: FlowSpec, code: RefusalCode, words: &[&str]| {
        let refused = plan(&mut w, spec).unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
        for word in words {
            assert!(refused.message.contains(word), "{refused}");
        }
    };
    let large = vec![task("small", 1, 10), task("large", 3, 10)];
    check(flow(large, &[], slack), RefusalCode::NeverFits, &["'large'", "2"]);
    let tasks = || vec![task("a", 1, 10), task("b", 1, 10)];
    check(flow(tasks(), &[(0, 1), (1, 0)], slack), RefusalCode::Invalid, &["a -> b"]);
    let set = FlowSpec {
        speeds: vec![SetSpeed {
            set: "fast".to_owned(),
            speed_permille: 2000,
        }],
        ..flow(tasks(), &[], slack)
    };
    check(set, RefusalCode::NotFound, &["node set 'fast'"]);
    let plain = FlowSpec {
        deadline: None,
        ..flow(tasks(), &[], slack)
    };
    check(plain, RefusalCode::Invalid, &["--finish-by"]);
}

#[test]
fn sets_of_different_speed() {
    let mut all = config(4, 4);
    let nodes = |from: usize, to: usize| (from..=to).map(|n| format!("n{n}")).collect();
    all.sets.insert("fast".to_owned(), nodes(1, 2));
    let mut w = World::new(all);
    let spec = FlowSpec {
        speeds: vec![SetSpeed {
            set: "fast".to_owned(),
            speed_permille: 2000,
        }],
        transfers: vec![Transfer {
            from: None,
            to: None,
            bytes_per_second: 1 << 20,
        }],
        edges: vec![FlowEdge {
            from: 0,
            to: 1,
            data_bytes: 1000 << 20,
        }],
        ..flow(vec![task("a", 2, 100), task("b", 2, 100)], &[], FlowDeadline::Slack(0))
    };
    let plan = plan(&mut w, spec).unwrap();
    // Carrying the data to others would take 1,000 seconds.
    for task in &plan.tasks {
        assert_eq!((task.set.as_str(), task.estimate), ("fast", Span::from_secs(50)));
    }
}

#[test]
fn prices_and_delays() {
    let mut w = World::new(config(2, 4));
    w.submit(long(2, 100));
    w.settle();
    // It waits, and would begin after 100 seconds.
    let waits = w.submit(long(2, 1000));
    w.settle();
    let spec = flow(vec![task("a", 2, 95), task("b", 2, 95)], &[(0, 1)], FlowDeadline::Slack(0));
    let plan = plan(&mut w, spec).unwrap();
    // Slots of 100 seconds right after the job that runs.
    let delay = plan.tasks[1].end.since(plan.tasks[0].start);
    let delayed: Vec<_> = plan
        .delayed
        .iter()
        .map(|(job, by, _)| (job.0, *by))
        .collect();
    assert_eq!(delayed, [(waits, delay)]);
    assert_eq!(plan.tasks[0].delayed_jobs, 1);
    let total = plan
        .tasks
        .iter()
        .fold(Span::ZERO, |sum, t| sum + t.total_delay);
    assert_eq!(total, delay);
    let sum = plan.tasks.iter().fold(Su::ZERO, |sum, t| sum.plus(t.price));
    assert!(plan.price == sum && plan.price > Su::ZERO);
}

#[test]
fn rules_and_quotas_are_told() {
    let mut w = World::new(ClusterConfig {
        reservations: ReservationPolicy {
            all_of: Vec::new(),
            any_of: vec![Rule::Load],
            per_user: Quotas {
                share_ppm: Some(600_000),
                ..Quotas::default()
            },
            ..ReservationPolicy::default()
        },
        ..config(2, 4)
    });
    w.submit(long(1, 1000));
    w.settle();
    let told = |w: &mut World, task: FlowTask, most: Option<Su>| {
        let spec = FlowSpec {
            max_price: most,
            ..flow(vec![task], &[], FlowDeadline::Slack(0))
        };
        plan(w, spec).unwrap().refusals
    };
    // Half the remaining work on both nodes: 250 seconds.
    let early = told(&mut w, task("a", 1, 50), None);
    assert!(early.len() == 1 && early[0].contains("task 'a': load:"), "{early:?}");
    let wide = told(&mut w, task("b", 2, 50), None);
    let words = "task 'b': quota: user u1000 would have 100 %";
    assert!(wide.len() == 1 && wide[0].contains(words), "{wide:?}");
    let dear = told(&mut w, task("c", 2, 50), Some(Su(1)));
    assert!(dear[1].contains("more than the 0.000001 SU allowed"), "{dear:?}");
    let root = plan_as(&mut w, user(0, "root"), task("d", 2, 50));
    assert_eq!(root.refusals, Vec::<String>::new());
}

fn plan_as(w: &mut World, who: cosy_model::User, task: FlowTask) -> FlowPlan {
    let spec = Box::new(flow(vec![task], &[], FlowDeadline::Slack(0)));
    match w.ask_as(who, None, Request::PlanFlow { spec }) {
        Reply::FlowPlan(plan) => *plan,
        other => panic!("{other:?}"),
    }
}
