//! Laws that hold whatever happens, stated without the oracle.
#![allow(clippy::unwrap_used)] // tests

mod common;

use common::{Cluster, Pair, Request, Step, clusters, mask, requests, steps};
use cosy_model::{Amounts, JobId, NodeId, NodeShare, Span, Time, WaitReason};
use cosy_sched::{Block, NodeSet, Plan, Policy, Scheduler};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Lets jobs end exactly at their limits and calls `seen` after each pass.
fn run_out(
    scheduler: &mut Scheduler,
    from: i64,
    mut seen: impl FnMut(&Scheduler, i64, &[JobId]) -> Result<(), TestCaseError>,
) -> Result<BTreeMap<JobId, i64>, TestCaseError> {
    let limits: BTreeMap<JobId, i64> = scheduler
        .waiting_in_order()
        .map(|job| (job.key.job, job.limit.0.clamp(1, 1000)))
        .collect();
    let mut ends: BTreeMap<i64, Vec<JobId>> = BTreeMap::new();
    let mut starts = BTreeMap::new();
    for now in from..from + 400 {
        for job in ends.remove(&now).unwrap_or_default() {
            scheduler.end(job);
        }
        let started = scheduler.schedule(Time(now));
        for start in &started {
            starts.insert(*start, now);
            ends.entry(now + limits[start]).or_default().push(*start);
        }
        seen(scheduler, now, &started)?;
    }
    Ok(starts)
}

/// When and where jobs start. Why they wait is as of the last pass, and a forecast makes
/// one more.
fn places(plan: &Plan) -> Vec<(JobId, Option<Time>, NodeSet)> {
    let each = plan.predictions.iter();
    each.map(|told| (told.job, told.start, told.nodes.clone()))
        .collect()
}

fn filled(cluster: &Cluster, requests: &[Request]) -> Pair {
    let mut pair = Pair::new(cluster);
    for request in requests {
        pair.step(&Step::Submit(request.clone()));
    }
    pair
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1000), failure_persistence: None, ..ProptestConfig::default() })]

    /// A forecast that is asked what a reservation changes answers what a plan with it says.
    #[test]
    fn a_forecast_tells_the_plan(
        cluster in clusters(),
        whole in any::<bool>(),
        steps in prop::collection::vec((steps(1), prop::bool::weighted(0.3)), 1..40),
        placed in prop::collection::vec((1u32..64, 0i64..200, 1i64..20), 1..6),
    ) {
        let mut pair = Pair::new(&cluster);
        for (step, pass) in &steps {
            match step {
                Step::Submit(request) if whole => pair.step(&Step::Submit(request.whole())),
                step => pair.step(step),
            }
            if *pass {
                pair.schedule()?;
            }
        }
        let now = Time(pair.now);
        let forecast = pair.scheduler.forecast(now, None);
        prop_assert_eq!(places(forecast.plan()), places(&pair.scheduler.plan(now, None)));
        for (nodes, start, length) in placed {
            let share = |node: NodeId| NodeShare {
                component: 0, node, tasks: 1, amounts: cluster.nodes[node.index()].clone() };
            let known = mask(nodes & ((1 << cluster.nodes.len()) - 1));
            let start = Time(now.0 + start);
            let block = Block { holds: Vec::new(),
                reservation: 77.into(),
                shares: known.iter().map(share).collect(),
                start,
                end: Time(start.0 + length),
            };
            let told = forecast.with(std::slice::from_ref(&block));
            let plan = pair.scheduler.plan_with(now, None, &[block]);
            prop_assert_eq!(places(&told), places(&plan));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The place of one job is the one that it has among all in order. It is not told only where jobs
    /// of a closed queue stand in no line. What is found out about a job changes no answer, and what
    /// happens later changes no snapshot.
    #[test]
    fn one_job_is_told_what_all_are_told(
        cluster in clusters(),
        steps in prop::collection::vec((steps(1), prop::bool::weighted(0.3)), 1..40),
    ) {
        let mut pair = Pair::new(&cluster);
        let mut snapshot = None;
        for (at, (step, pass)) in steps.iter().enumerate() {
            if at == steps.len() / 2 {
                let copy = pair.scheduler.clone();
                snapshot = Some((copy.plan(Time(pair.now), None), copy, Time(pair.now)));
            }
            pair.step(step);
            if *pass {
                pair.schedule()?;
            }
            let (scheduler, now) = (&mut pair.scheduler, Time(pair.now));
            let jobs: Vec<JobId> = scheduler.waiting_in_order().map(|job| job.key.job).collect();
            let why = |scheduler: &Scheduler| -> Vec<_> {
                jobs.iter().map(|job| scheduler.why(now, *job)).collect()
            };
            let before = why(scheduler);
            let closed = before.contains(&Some(WaitReason::QueueClosed));
            for (place, job) in jobs.iter().enumerate() {
                let told = (!closed).then_some(place);
                prop_assert_eq!(scheduler.served_before(*job), told, "job {}", job);
                scheduler.know_whether_it_fits(*job);
            }
            prop_assert_eq!(why(scheduler), before);
            prop_assert_eq!(scheduler.served_before(JobId(1 << 40)), None);
        }
        if let Some((plan, copy, now)) = snapshot {
            prop_assert_eq!(copy.plan(now, None), plan);
        }
    }

    /// The first job in the order of service that waits for resources starts no later than
    /// it was promised when all jobs keep their limits, whatever comes in behind it.
    #[test]
    fn the_head_is_never_late(
        cluster in clusters(),
        first in prop::collection::vec(requests(), 1..12),
        later in prop::collection::vec(requests(), 0..12),
    ) {
        let policies = [Policy::EASY, Policy::CONSERVATIVE, Policy::FCFS];
        for policy in policies {
            let cluster = Cluster { policy, queues: vec![mask(63); 3], ..cluster.clone() };
            // one order, one kind of job: guarantees do not depend on choices of nodes
            let plain = |r: &Request| Request { queue: 0, level: 1, nice: 0, ..r.clone() };
            let whole = |r: Request| Request {
                nodes: Some(r.nodes.unwrap_or(1)), tasks: r.nodes.unwrap_or(1), tasks_per_node: None,
                cores: 1, memory: 0, per_node: (0, 0, 0), exclusive: true,
                avoid: 0, required: 0, tiers: vec![], limit: r.limit.clamp(1, 30),
                further: vec![], ..r
            };
            let firsts: Vec<Request> = first.iter().map(|r| whole(plain(r))).collect();
            let mut pair = filled(&cluster, &firsts);
            let now = pair.now;
            pair.scheduler.schedule(Time(now));
            let head = pair.scheduler.plan(Time(now), None);
            let head = head.predictions.into_iter().find(|p| p.start.is_some());
            for request in &later {
                pair.step(&Step::Submit(whole(plain(request))));
            }
            let mut starts = BTreeMap::new();
            let running = pair.scheduler.running_jobs();
            let mut ends: Vec<(i64, JobId)> = running.map(|(job, end)| (end.0, job)).collect();
            let limits: BTreeMap<JobId, i64> =
                pair.scheduler.waiting_in_order().map(|j| (j.key.job, j.limit.0)).collect();
            for at in now..now + 800 {
                for (_, job) in ends.extract_if(.., |(end, _)| *end <= at) {
                    pair.scheduler.end(job);
                }
                for start in pair.scheduler.schedule(Time(at)) {
                    starts.insert(start, at);
                    ends.push((at + limits[&start], start));
                }
            }
            if let Some(head) = head {
                let promised = head.start.map(|t| t.0);
                let got = starts.get(&head.job).copied();
                prop_assert!(got <= promised && got.is_some(), "{:?}: {:?} {:?}", policy, head, got);
            }
        }
    }

    /// When a reservation starts, what it holds is free, if it was when it was accepted and
    /// jobs keep their limits.
    #[test]
    fn reservations_find_their_nodes_free(
        cluster in clusters(),
        jobs in prop::collection::vec(requests(), 1..20),
        start in 1i64..40,
        length in 1i64..20,
        nodes in 1u32..64,
    ) {
        let mut pair = filled(&cluster, &jobs);
        let count = cluster.nodes.len() as u32;
        let share = |node: NodeId| NodeShare {
                component: 0,
            node,
            tasks: 1,
            amounts: cluster.nodes[node.index()].clone(),
        };
        let shares: Vec<NodeShare> = mask(nodes).iter().filter(|n| n.0 < count).map(share).collect();
        let (start, end) = (Time(pair.now + start), Time(pair.now + start + length));
        pair.scheduler.add_block(Block { holds: Vec::new(), reservation: 1.into(), shares: shares.clone(), start, end });
        let now = pair.now;
        run_out(&mut pair.scheduler, now, |scheduler, now, _| {
            for share in shares.iter().filter(|_| start.0 <= now && now < end.0) {
                prop_assert_eq!(scheduler.used(share.node), Amounts::default());
            }
            Ok(())
        })?;
    }

    /// Equal jobs start in the order in which they came.
    #[test]
    fn equal_jobs_keep_their_order(cluster in clusters(), job in requests(), count in 2usize..12) {
        let mut pair = filled(&cluster, &vec![job; count]);
        let now = pair.now;
        let starts = run_out(&mut pair.scheduler, now, |_, _, _| Ok(()))?;
        let in_order: Vec<i64> = starts.values().copied().collect();
        prop_assert!(in_order.is_sorted(), "{:?}", starts);
        let first = (1..).map(JobId).take(starts.len());
        prop_assert!(first.eq(starts.keys().copied()), "{:?}", starts);
    }

    /// Plain first come, first served starts no job before one that came earlier.
    #[test]
    fn fcfs_never_passes(cluster in clusters(), jobs in prop::collection::vec(requests(), 1..15)) {
        let cluster = Cluster { policy: Policy::FCFS, queues: vec![mask(63); 3], ..cluster };
        let mut pair = filled(&cluster, &jobs);
        let order: Vec<JobId> = pair.scheduler.waiting_in_order().map(|j| j.key.job).collect();
        let now = pair.now;
        let starts = run_out(&mut pair.scheduler, now, |_, _, _| Ok(()))?;
        let times: Vec<i64> = order.iter().filter_map(|job| starts.get(job).copied()).collect();
        prop_assert!(times.is_sorted(), "{:?} {:?}", order, starts);
    }

    /// The same history gives the same plan, and asking changes nothing.
    #[test]
    fn same_input_same_plan(cluster in clusters(), steps in prop::collection::vec(steps(2), 1..30)) {
        let (mut a, mut b) = (Pair::new(&cluster), Pair::new(&cluster));
        for step in &steps {
            a.step(step);
            b.step(step);
            let plan = a.scheduler.plan(Time(a.now), None);
            prop_assert_eq!(&plan, &b.scheduler.plan(Time(b.now), None));
            prop_assert_eq!(&plan, &a.scheduler.plan(Time(a.now), None));
            prop_assert_eq!(a.schedule()?, b.schedule()?);
            prop_assert!(a.scheduler.schedule(Time(a.now)).is_empty(), "nothing has changed");
        }
    }

    /// Asking where a job could be placed changes nothing, and the answer is what the job would
    /// hold if it were put in line once all others that can start have started.
    #[test]
    fn asking_changes_nothing_and_is_answered_by_a_pass(
        cluster in clusters(),
        whole in any::<bool>(),
        steps in prop::collection::vec((steps(2), prop::bool::weighted(0.7)), 1..40),
        asked in prop::collection::vec(requests(), 1..4),
    ) {
        let mut pair = Pair::new(&cluster);
        let kind = |request: &Request| if whole { request.whole() } else { request.clone() };
        for (step, pass) in &steps {
            match step {
                Step::Submit(request) => pair.step(&Step::Submit(kind(request))),
                step => pair.step(step),
            }
            if *pass {
                pair.schedule()?;
            }
            let now = Time(pair.now);
            for request in &asked {
                let job = pair.job(&kind(request));
                let before = format!("{:?}", pair.scheduler);
                let told = pair.scheduler.try_place(now, &job);
                prop_assert_eq!(format!("{:?}", pair.scheduler), before, "asking changes nothing");
                let mut played = pair.scheduler.clone();
                played.schedule(now);
                played.enqueue(job.clone());
                let starts = played.schedule(now);
                let held = starts.contains(&job.key.job).then(|| played.held_by(job.key.job));
                prop_assert_eq!(told, held, "{:?}", job);
            }
        }
    }

    /// Asking what a job or a reservation could have instead of what it has is answered as if
    /// it had been taken out, and takes nothing out.
    #[test]
    fn what_is_asked_for_itself_is_not_in_its_own_way(
        cluster in clusters(),
        whole in any::<bool>(),
        steps in prop::collection::vec(steps(2), 1..30),
        booked in prop::collection::vec((1u32..64, 0i64..20, 1i64..20), 1..5),
        asked in prop::collection::vec((requests(), 0i64..30, 0i64..30, any::<bool>()), 1..5),
    ) {
        let mut pair = Pair::new(&cluster);
        for step in &steps {
            match step {
                Step::Submit(request) if whole => pair.step(&Step::Submit(request.whole())),
                step => pair.step(step),
            }
            pair.schedule()?;
        }
        let now = Time(pair.now);
        let scheduler = &mut pair.scheduler;
        for (reservation, (nodes, start, length)) in (100..).zip(&booked) {
            let known = mask(nodes & ((1 << cluster.nodes.len()) - 1));
            let share = |node: NodeId| NodeShare {
                component: 0, node, tasks: 1, amounts: cluster.nodes[node.index()].clone() };
            let (start, end) = (Time(now.0 + start), Time(now.0 + start + length));
            let shares = known.iter().map(share).collect();
            scheduler.add_block(Block { holds: Vec::new(), reservation: reservation.into(), shares, start, end });
        }
        let before = format!("{scheduler:?}");
        let running: Vec<JobId> = scheduler.running_jobs().map(|(job, _)| job).collect();
        let nobody = JobId(u64::MAX);
        for (request, start, length, exclusive) in &asked {
            for job in &running {
                let (held, end) = (scheduler.held_by(*job), Time(now.0 + length));
                let told = scheduler.may_stay(*job, now, &held, end, *exclusive);
                let mut without = scheduler.clone();
                without.end(*job);
                prop_assert_eq!(told, without.may_stay(nobody, now, &held, end, *exclusive));
            }
            let demand = Pair::new(&cluster).job(request).demand;
            let (demand, start, length) = (demand.first(), Time(now.0 + start), Span(*length));
            for reservation in 100..100 + booked.len() as u64 {
                let told = scheduler.place_instead_of(reservation.into(), now, demand, start, length);
                let mut without = scheduler.clone();
                without.remove_block(reservation.into());
                prop_assert_eq!(told, without.place(now, demand, start, length));
            }
        }
        prop_assert_eq!(format!("{scheduler:?}"), before, "asking changes nothing");
    }

    /// What happens on one half of the machine changes nothing on the other.
    #[test]
    fn disjoint_queues_do_not_meet(
        cluster in clusters(),
        here in prop::collection::vec(requests(), 1..10),
        there in prop::collection::vec(requests(), 1..10),
    ) {
        let queues = vec![mask(0b000111), mask(0b111000), mask(0)];
        let cluster = Cluster { queues, ..cluster };
        let in_queue = |queue: u16| move |r: &Request| Request { queue, ..r.clone() };
        let here: Vec<Request> = here.iter().map(in_queue(0)).collect();
        let there: Vec<Request> = there.iter().map(in_queue(1)).collect();
        let mut alone = filled(&cluster, &here);
        let mut both = filled(&cluster, &[here.clone(), there].concat());
        let now = alone.now;
        let alone = run_out(&mut alone.scheduler, now, |_, _, _| Ok(()))?;
        let mut both = run_out(&mut both.scheduler, now, |_, _, _| Ok(()))?;
        both.retain(|job, _| job.0 <= here.len() as u64);
        prop_assert_eq!(alone, both);
    }

    /// A demand that is called possible starts on an empty machine, any other never.
    #[test]
    fn possible_means_it_starts(cluster in clusters(), job in requests()) {
        let cluster = Cluster { queues: vec![mask(63); 3], ..cluster };
        let mut pair = Pair::new(&cluster);
        let waiting = pair.job(&job);
        let possible = pair.scheduler.could_ever_run(&waiting.demand);
        let words = possible.as_ref().err().map(ToString::to_string);
        pair.scheduler.enqueue(waiting);
        let starts = pair.scheduler.schedule(Time(pair.now));
        prop_assert_eq!(possible.is_ok(), starts.len() == 1, "{:?}", words);
    }
}
