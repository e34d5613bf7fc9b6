//! What reservations would do to the queue: the pricing paper's example, and every figure
//! of an appraisal against plans that are made from the begin.
#![allow(clippy::unwrap_used)] // tests

mod common;

use common::{Pair, Step, clusters, mask, requests, steps};
use cosy_model::{Amounts, JobId, NodeId, NodeShare, QueueId, ReservationId, Span, Su, Time};
use cosy_sched::appraise::{
    Appraisal, Estimate, Inquiry, JointRequest, Listed, Starts, Tariff, choose,
};
use cosy_sched::{
    Block, Component, Demand, NodeMask, OrderKey, Plan, Policy, Scheduler, WaitingJob,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One millisecond of one core delayed costs a millionth.
const MS_RATE: Su = Su(3_600_000);

fn one_core() -> Amounts {
    Amounts {
        cores: 1,
        ..Amounts::default()
    }
}

/// A job of whole nodes on the worked example's five processors; the job's number is also
/// its place in the queue.
fn whole_job(id: u64, nodes: u32, limit: i64, preferred: u32) -> WaitingJob {
    WaitingJob {
        holds: cosy_sched::Holds::NONE,
        key: OrderKey::first_come(JobId(id), Time(id as i64 - 1000)),
        queue: QueueId(0),
        demand: Arc::new(Demand::from(Component {
            nodes: Some(nodes),
            tasks: nodes,
            per_task: one_core(),
            exclusive: true,
            allowed: NodeMask::all(5).into(),
            tiers: vec![mask(preferred)],
            ..Component::default()
        })),
        limit: Span(limit),
    }
}

fn inquiry(job: WaitingJob, starts: Starts) -> Inquiry {
    Inquiry {
        job,
        starts,
        tariff: Tariff {
            core_hour: MS_RATE,
            delay_core_hour: MS_RATE,
            ..Tariff::default()
        },
        makespan_weight_ppm: 500_000,
        most_jobs: 1000,
        plain_start: true,
        joint: None,
        leavers: Vec::new(),
        replaces: None,
        fixed: None,
        pushed: Arc::default(),
        listed: Listed::Everyone,
    }
}

/// The example of the pricing paper (figure 1, table 1): 5 processors; A and B run, C and D
/// wait for 2 processors each, R is reserved, and X asks for 2 processors for 3 time units.
///
/// The figure itself is lost. This schedule is reconstructed so that every number of the
/// text and of the table comes out: the list of starts from t0 to t6, none possible before
/// time 2, both delays and the cost at each start. By numbers of processors alone none
/// was found (exhaustive search over lengths up to 9); it needs X drawn on certain
/// processors, here those of A, which X prefers.
///
/// ```text
///        0   1   2   3   4   5   6   7   8
///   P1   A . . . C . . . . . . . .
///   P2   A . . . C . . . . . . . .
///   P3   B . . . . . D . . . . . . .
///   P4   B . . . . . D . . . . . . .
///   P5   B . . . . .     R . . . . . . .
///        t0      t1  t2  t3      t4  t5  t6
/// ```
#[test]
fn the_pricing_papers_example() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![one_core(); 5], vec![NodeMask::all(5)]);
    scheduler.enqueue(whole_job(1, 2, 2, 0b00011)); // A
    scheduler.enqueue(whole_job(2, 3, 3, 0b11100)); // B
    assert_eq!(scheduler.schedule(Time(0)).len(), 2);
    scheduler.add_block(Block {
        holds: Vec::new(),
        reservation: ReservationId(1),
        shares: vec![NodeShare {
            component: 0,
            node: NodeId(4),
            tasks: 1,
            amounts: one_core(),
        }],
        start: Time(4),
        end: Time(8),
    });
    scheduler.enqueue(whole_job(3, 2, 4, 0)); // C
    scheduler.enqueue(whole_job(4, 2, 4, 0)); // D
    let starts = Starts::Window {
        earliest: Time(0),
        latest: Time(8),
        most: 7,
        gap: Span(100),
    };
    let told = scheduler.appraise(Time(0), &inquiry(whole_job(99, 2, 3, 0b00011), starts));
    let (c, d) = (JobId(3), JobId(4));
    let delays = |by_c: i64, by_d: i64| vec![(c, Span(by_c)), (d, Span(by_d))];
    let table = [
        (0, None),
        (2, Some((delays(1, 2), 6))),
        (3, Some((delays(1, 3), 8))),
        (4, Some((delays(1, 4), 10))),
        (6, Some((vec![], 0))),
        (7, Some((vec![], 0))),
        (8, Some((vec![], 0))),
    ];
    assert_eq!(told.slots.len(), table.len());
    for (slot, (start, wanted)) in told.slots.iter().zip(table) {
        let found = slot.shares.as_ref();
        let found = found.map(|_| (slot.delays.listed.clone(), slot.extra.0));
        assert_eq!((slot.start, found), (Time(start), wanted));
        let base = if slot.shares.is_some() { 2 * 3 } else { 0 };
        assert_eq!(slot.base, Su(base));
    }
    assert_eq!((told.plain_start, told.plan_end), (Some(Time(6)), Time(8)));
    // (2*2 + 3*3 running, 2*4 + 2*4 waiting) / 5 / 2 is 2.9, and R begins behind it.
    assert_eq!(told.load_end, Time(3));
    let by_load: Vec<bool> = told.slots.iter().map(|slot| slot.by_load).collect();
    assert_eq!(by_load, [false, false, true, true, true, true, true]);
}

/// Half of the remaining work, and the whole area of reservations that begin before.
#[test]
fn reservations_raise_the_load() {
    let check = |blocks: &[(i64, i64, u32)], wanted: i64| {
        let all = NodeMask::all(5);
        let mut scheduler = Scheduler::new(Policy::EASY, vec![one_core(); 5], vec![all]);
        scheduler.enqueue(whole_job(1, 5, 21, 0));
        scheduler.schedule(Time(0));
        scheduler.enqueue(whole_job(2, 1, 15, 0));
        for (id, (start, end, nodes)) in blocks.iter().enumerate() {
            let share = |node| NodeShare {
                component: 0,
                node: NodeId(node),
                tasks: 1,
                amounts: one_core(),
            };
            scheduler.add_block(Block {
                holds: Vec::new(),
                reservation: ReservationId(id as u64),
                shares: (0..*nodes).map(share).collect(),
                start: Time(*start),
                end: Time(*end),
            });
        }
        let asked = inquiry(whole_job(99, 1, 1, 0), Starts::At(Vec::new()));
        let told = scheduler.appraise(Time(1), &asked);
        assert_eq!(told.load_end, Time(wanted), "{blocks:?}");
    };
    check(&[], 13); // 1 + (5 * 20 + 15) / 5 / 2 = 12.5
    check(&[(13, 99, 5)], 13); // begins too late
    check(&[(12, 17, 2)], 15); // 2 * 5 / 5 on top
    check(&[(12, 17, 2), (14, 19, 5)], 20); // the first moves T behind the second's start
    check(&[(-9, 6, 5)], 18); // of one that has begun the rest
    check(&[(5, i64::MAX, 1)], 13 + (i64::MAX - 5) / 5 + 1); // without end
}

/// Another's choice by the paper's formula, as it stands there.
fn cost(slots: &[(Time, Su)], at: usize, alpha: f64) -> f64 {
    let part = |value: fn(&(Time, Su)) -> i64| {
        let all: Vec<f64> = slots.iter().map(|slot| value(slot) as f64).collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = most - least;
        if range > 0.0 {
            (all[at] - least) / range
        } else {
            0.0
        }
    };
    alpha * part(|slot| slot.1.0) + (1.0 - alpha) * part(|slot| slot.0.0)
}

#[test]
fn choices() {
    let check = |slots: &[(i64, i64)], alpha: u32, wanted: Option<usize>| {
        let slots: Vec<_> = slots.iter().map(|(s, f)| (Time(*s), Su(*f))).collect();
        assert_eq!(choose(&slots, alpha), wanted, "{slots:?} {alpha}");
    };
    let table = [(2, 6), (3, 8), (4, 10), (6, 0), (7, 0), (8, 0)];
    check(&[], 500, None);
    check(&table, 0, Some(0));
    check(&table, 1000, Some(3)); // of the free ones the first
    check(&table, u32::MAX, Some(3));
    check(&table, 500, Some(0)); // 0.3 against 0.33
    check(&table, 600, Some(3)); // 0.36 against 0.27
    check(&[(5, 1), (5, 1)], 500, Some(0));
    check(&[(9, 1), (5, 1)], 1000, Some(1));
    check(&[(i64::MAX, i64::MIN), (i64::MIN, i64::MAX)], 1000, Some(0));
    check(&[(i64::MAX, i64::MIN), (i64::MIN, i64::MAX)], 0, Some(1));
}

/// A state of a random cluster, and an inquiry.
#[derive(Clone, Debug)]
struct Case {
    pair: Pair,
    inquiry: Inquiry,
}

fn tariffs() -> impl Strategy<Value = Tariff> {
    let weights = prop_oneof![
        Just(vec![]),
        prop::collection::vec(prop_oneof![Just(0), Just(1000), 0u32..5000], 1..4)
    ];
    (0i64..10_000_000, 0i64..10_000_000, 0i64..10_000_000, weights).prop_map(
        |(core, gpu, delay, queue_permille)| Tariff {
            core_hour: Su(core),
            gpu_hour: Su(gpu),
            delay_core_hour: Su(delay),
            queue_permille,
            pool_hour: Vec::new(),
        },
    )
}

fn starts() -> impl Strategy<Value = Starts> {
    let times = || prop::collection::vec(-3i64..120, 0..6);
    let time = |at: i64| Time(1000 + at);
    let list = move |all: Vec<i64>| all.into_iter().map(time).collect();
    let window = (-5i64..60, 0i64..120, 0usize..20, -1i64..30);
    prop_oneof![
        2 => times().prop_map(move |all| Starts::At(list(all))),
        1 => times().prop_map(move |all| Starts::Series(list(all))),
        3 => window.prop_map(move |(at, length, most, gap)| Starts::Window {
            earliest: time(at),
            latest: time(at + length),
            most,
            gap: Span(gap),
        }),
    ]
}

prop_compose! {
    fn cases()(
        cluster in clusters(),
        history in prop::collection::vec((steps(2), prop::bool::weighted(0.7)), 1..40),
        request in requests(),
        starts in starts(),
        tariff in tariffs(),
        weight in 0u32..=1_000_000,
        most_jobs in prop_oneof![3 => Just(1000usize), 1 => 0usize..6],
        replaces in prop_oneof![2 => Just(None), 1 => (0u64..6).prop_map(Some)],
        pushed in prop::collection::btree_map(1u64..40, 0i64..50, 0..5),
        listed in prop::collection::btree_set(1u64..40, 0..10),
        (plain_start, joint) in (any::<bool>(), prop::option::of((1i64..60, 0usize..3))),
    ) -> Case {
        let mut pair = Pair::new(&cluster);
        for (step, pass) in &history {
            pair.step(step);
            if *pass {
                pair.schedule().unwrap();
            }
        }
        let mut job = pair.job(&request);
        job.key.job = JobId(1_000_000);
        let pushed = pushed.iter().map(|(job, by)| (JobId(*job), Span(*by))).collect();
        let known: Vec<ReservationId> = pair.blocks.keys().copied().collect();
        let replaces = replaces.and_then(|at| known.get(at as usize).copied());
        let joint = joint.map(|(longer, without)| JointRequest {
            job: WaitingJob { limit: job.limit + Span(longer), ..job.clone() },
            without: known.iter().copied().take(without).collect(),
        });
        let inquiry = Inquiry {
            plain_start,
            joint,
            tariff,
            makespan_weight_ppm: weight,
            most_jobs,
            replaces,
            pushed: Arc::new(pushed),
            listed: Listed::Of(Arc::new(listed.into_iter().map(JobId).collect())),
            ..inquiry(job, starts)
        };
        Case { pair, inquiry }
    }
}

fn starts_of(plan: &Plan) -> BTreeMap<JobId, Time> {
    let known = plan.predictions.iter();
    known
        .filter_map(|told| Some((told.job, told.start?)))
        .collect()
}

/// What the sources say, from whole plans.
struct Slowly<'a> {
    case: &'a Case,
    now: Time,
    /// Without what is replaced, with what is accepted.
    ground: Scheduler,
    plan: Plan,
    before: BTreeMap<JobId, Time>,
    running_end: Time,
    jobs: BTreeMap<JobId, WaitingJob>,
}

/// What one start does, told slowly.
struct Told {
    shares: Vec<NodeShare>,
    delays: Vec<(JobId, Span)>,
    makespan: i128,
    completion: i128,
    after: BTreeMap<JobId, Time>,
    block: Block,
}

impl<'a> Slowly<'a> {
    fn new(case: &'a Case) -> Self {
        let now = Time(case.pair.now);
        let mut ground = case.pair.scheduler.clone();
        // What comes after the first jobs is not looked at, as if it were not there.
        let late = ground.waiting_in_order().skip(case.inquiry.most_jobs);
        let late: Vec<JobId> = late.map(|job| job.key.job).collect();
        for job in late {
            ground.dequeue(job);
        }
        let plan = ground.plan(now, None);
        let ends = ground.running_jobs().map(|(_, end)| end);
        let running_end = ends.filter(|at| *at < Time::FAR).max();
        if let Some(replaced) = case.inquiry.replaces {
            ground.remove_block(replaced);
        }
        let waiting = case.pair.scheduler.waiting_in_order();
        Self {
            case,
            now,
            ground,
            before: starts_of(&plan),
            plan,
            running_end: running_end.map_or(now, |end| end.max(now)),
            jobs: waiting.map(|job| (job.key.job, job.clone())).collect(),
        }
    }

    fn ends(&self, starts: &BTreeMap<JobId, Time>) -> BTreeMap<JobId, Time> {
        let end = |(job, start): (&JobId, &Time)| (*job, *start + self.limit(*job));
        starts.iter().map(end).collect()
    }

    fn limit(&self, job: JobId) -> Span {
        self.jobs[&job].limit.max(Span(1))
    }

    /// The end of a plan; jobs that have no start in the plan as it is are not counted.
    fn end(&self, starts: &BTreeMap<JobId, Time>, also: Time) -> Time {
        let original = starts_of(&self.plan);
        let blocks = self.case.pair.scheduler.clone();
        let known = self.case.pair.blocks.values();
        let known = known.filter(|b| blocks.clone().remove_block(b.reservation));
        let ends = self.ends(starts);
        let counted = ends.iter().filter(|(job, _)| original.contains_key(job));
        let all = counted.map(|(_, end)| *end).chain(known.map(|b| b.end));
        let all = all.chain([self.running_end, also]);
        all.filter(|at| *at < Time::FAR)
            .max()
            .unwrap()
            .max(self.now)
    }

    /// Makespan and sum of completion times.
    fn score(&self, starts: &BTreeMap<JobId, Time>, also: Time) -> (i128, i128) {
        let original = starts_of(&self.plan);
        let lost = self.end(starts, also);
        let (mut makespan, mut sum) = (i128::from(self.running_end.0 - self.now.0), 0);
        for job in original.keys() {
            let start = starts.get(job).copied().unwrap_or(lost);
            let done = i128::from(start.0) + i128::from(self.limit(*job).0);
            makespan = makespan.max(done - i128::from(self.now.0));
            sum += (done - i128::from(self.jobs[job].key.submit.0)).max(0);
        }
        (makespan, sum)
    }

    fn demand(&self) -> Component {
        let job = &self.case.inquiry.job;
        let mut demand = job.demand.first().clone();
        let queue = &self.case.pair.cluster.queues[job.queue.index()];
        demand.allowed = demand.allowed.and(queue).into();
        demand
    }

    fn judge(&mut self, start: Time) -> Option<Told> {
        let length = self.case.inquiry.job.limit;
        let shares = match &self.case.inquiry.fixed {
            None => self.ground.place(self.now, &self.demand(), start, length)?,
            Some(shares) => shares.clone(),
        };
        let block = Block {
            holds: Vec::new(),
            reservation: ReservationId(555_555),
            shares: shares.clone(),
            start,
            end: start + length,
        };
        let most = Some(self.case.inquiry.most_jobs);
        let with = self
            .ground
            .plan_with(self.now, most, std::slice::from_ref(&block));
        let after = starts_of(&with);
        let lost = self.end(&after, block.end);
        let delay = |job: &JobId| {
            let (was, is) = (*self.before.get(job)?, after.get(job));
            let by = is.copied().unwrap_or(lost.max(was)).since(was);
            (by > Span::ZERO || is.is_none()).then_some((*job, by))
        };
        let original = starts_of(&self.plan);
        let delays = original.keys().filter_map(delay).collect();
        let (makespan, completion) = self.score(&after, block.end);
        Some(Told {
            shares,
            delays,
            makespan,
            completion,
            after,
            block,
        })
    }

    /// Of a series: from now on it is there.
    fn accept(&mut self, told: Told, at: usize) {
        let reservation = ReservationId(600_000 + at as u64);
        let block = Block {
            reservation,
            ..told.block
        };
        self.ground.add_block(block);
        self.before = told.after;
    }

    fn cores(&self, job: JobId) -> i128 {
        let demand = &self.jobs[&job].demand;
        let told = self.plan.predictions.iter().find(|told| told.job == job);
        let nodes = &told.unwrap().nodes;
        if demand.first().exclusive {
            let all = &self.case.pair.cluster.nodes;
            return nodes.iter().map(|n| i128::from(all[n.index()].cores)).sum();
        }
        let asked = |one: &Component, nodes: u32| {
            i128::from(one.tasks) * i128::from(one.per_task.cores)
                + i128::from(nodes) * i128::from(one.per_node.cores)
        };
        let further = demand.iter().skip(1);
        let further = further.map(|one| asked(one, one.nodes.unwrap_or(1)));
        asked(demand.first(), nodes.count()) + further.sum::<i128>()
    }

    /// f in millionths, rounded up.
    fn price(&self, delays: &[(JobId, Span)]) -> i64 {
        let tariff = &self.case.inquiry.tariff;
        let each = delays.iter().map(|(job, by)| {
            let queue = self.jobs[job].queue.index();
            let weight = tariff.queue_permille.get(queue).copied().unwrap_or(1000);
            i128::from(by.0) * self.cores(*job) * i128::from(weight)
        });
        let product = each.sum::<i128>() * i128::from(tariff.delay_core_hour.0);
        i64::try_from((product + 3_599_999_999) / 3_600_000_000).unwrap_or(i64::MAX)
    }

    fn head(&self) -> Option<JobId> {
        let pool = self
            .case
            .pair
            .world
            .pool(self.case.inquiry.job.queue.index());
        let here = |job: &JobId| pool.contains(&self.jobs[job].queue.index());
        let known = self
            .plan
            .predictions
            .iter()
            .filter(|told| told.start.is_some());
        known.map(|told| told.job).find(here)
    }
}

fn check_slot(slowly: &Slowly, slot: &Estimate, told: &Told) -> Result<(), TestCaseError> {
    let inquiry = &slowly.case.inquiry;
    prop_assert_eq!(slot.shares.as_ref(), Some(&told.shares));
    prop_assert_eq!(slot.delays.jobs as usize, told.delays.len());
    let total = told
        .delays
        .iter()
        .fold(Span::ZERO, |sum, (_, by)| sum + *by);
    prop_assert_eq!(slot.delays.total, total);
    prop_assert_eq!(slot.extra, Su(slowly.price(&told.delays)));
    prop_assert!(!told.delays.is_empty() || slot.extra == Su::ZERO);
    let Listed::Of(names) = &inquiry.listed else {
        unreachable!("cases list some")
    };
    let listed = told.delays.iter().filter(|(job, _)| names.contains(job));
    prop_assert!(listed.eq(&slot.delays.listed));
    let head = slowly.head();
    let before_head = told.delays.iter().any(|(job, _)| Some(*job) == head);
    prop_assert_eq!(slot.before_head, before_head);
    let pushed =
        |(job, by): &(JobId, Span)| *by + inquiry.pushed.get(job).copied().unwrap_or_default();
    let worst = told.delays.iter().map(pushed).max();
    prop_assert_eq!(slot.delays.worst.map(|(_, by)| by), worst);
    let hours = i128::from(inquiry.job.limit.0);
    let sum = |amount: fn(&Amounts) -> u32, rate| {
        let all = told
            .shares
            .iter()
            .map(|share| i128::from(amount(&share.amounts)));
        Su::of_core_ms(all.sum::<i128>().saturating_mul(hours), rate)
    };
    let base =
        sum(|a| a.cores, inquiry.tariff.core_hour).plus(sum(|a| a.gpus, inquiry.tariff.gpu_hour));
    prop_assert_eq!(slot.base, base);
    Ok(())
}

/// Everything that an appraisal says, against whole plans.
fn check_all(case: &Case) -> Result<Appraisal, TestCaseError> {
    let before = format!("{:?}", case.pair.scheduler);
    let appraisal = case
        .pair
        .scheduler
        .appraise(Time(case.pair.now), &case.inquiry);
    prop_assert_eq!(before, format!("{:?}", case.pair.scheduler), "it was changed");
    let mut slowly = Slowly::new(case);
    prop_assert!(
        appraisal
            .slots
            .windows(2)
            .all(|pair| pair[0].start < pair[1].start)
    );
    let mut possible: Vec<(u32, bool, i128, i128)> = Vec::new();
    for (at, slot) in appraisal.slots.iter().enumerate() {
        prop_assert_eq!(slot.by_load, slot.start >= appraisal.load_end);
        prop_assert_eq!(slot.end, slot.start + case.inquiry.job.limit);
        let Some(told) = slowly.judge(slot.start) else {
            prop_assert_eq!(&slot.shares, &None);
            prop_assert_eq!((slot.availability_ppm, slot.price()), (0, Su::ZERO));
            continue;
        };
        check_slot(&slowly, slot, &told)?;
        let score = (told.makespan, told.completion);
        possible.push((slot.availability_ppm, slot.before_head, score.0, score.1));
        if matches!(case.inquiry.starts, Starts::Series(_)) {
            slowly.accept(told, at);
        }
    }
    let job = check_placeholder(case, &appraisal)?;
    check_availability(case, &possible, job)?;
    Ok(appraisal)
}

/// The start of the placeholder, and how good the plan with it is.
fn check_placeholder(case: &Case, appraisal: &Appraisal) -> Result<(i128, i128), TestCaseError> {
    let slowly = Slowly::new(case);
    // Its start is told among all waiting jobs, without what is replaced ...
    let start = |job: &WaitingJob, without: &[ReservationId]| {
        let mut all = case.pair.scheduler.clone();
        for reservation in without {
            all.remove_block(*reservation);
        }
        all.enqueue(job.clone());
        let starts = starts_of(&all.plan(slowly.now, None));
        starts.get(&job.key.job).copied()
    };
    let inquiry = &case.inquiry;
    let asked = inquiry.plain_start || matches!(inquiry.starts, Starts::Window { .. });
    let plain = start(&inquiry.job, inquiry.replaces.as_slice());
    prop_assert_eq!(appraisal.plain_start, plain.filter(|_| asked));
    let joint = inquiry.joint.as_ref();
    let joint = joint.and_then(|joint| start(&joint.job, &joint.without));
    prop_assert_eq!(appraisal.joint_start, joint);
    // ... what it does to the others, among the first.
    let mut with = slowly.ground.clone();
    with.enqueue(case.inquiry.job.clone());
    let plan = starts_of(&with.plan(slowly.now, None));
    let asked: BTreeSet<JobId> = slowly
        .plan
        .predictions
        .iter()
        .map(|told| told.job)
        .collect();
    let plan = plan
        .into_iter()
        .filter(|(job, _)| asked.contains(job))
        .collect();
    Ok(slowly.score(&plan, slowly.now))
}

/// Eq. (4) of all possible starts, given the score of the placeholder's plan.
fn check_availability(
    case: &Case,
    possible: &[(u32, bool, i128, i128)],
    job: (i128, i128),
) -> Result<(), TestCaseError> {
    let least = |of: fn(&(u32, bool, i128, i128)) -> i128, job: i128| {
        possible.iter().map(of).chain([job]).min().unwrap()
    };
    let (makespan, completion) = (least(|p| p.2, job.0), least(|p| p.3, job.1));
    let weight = f64::from(case.inquiry.makespan_weight_ppm);
    let share = |best: i128, own: i128| {
        if own > 0 {
            best as f64 / own as f64
        } else {
            1.0
        }
    };
    for (ppm, before_head, own_makespan, own_completion) in possible {
        let wanted = weight * share(makespan, *own_makespan)
            + (1e6 - weight) * share(completion, *own_completion);
        let wanted = if *before_head { 0.0 } else { wanted };
        prop_assert!((f64::from(*ppm) - wanted).abs() < 3.0, "{} {}", ppm, wanted);
        prop_assert!(*ppm <= 1_000_000);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1500),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is asked in whatever state.
    #[test]
    fn an_appraisal_tells_what_plans_tell(case in cases()) {
        check_all(&case)?;
    }

    /// Whole nodes that are alike, where much is decided by counting.
    #[test]
    fn the_same_for_whole_nodes(
        nodes in 1usize..=6,
        policy in common::policies(),
        history in prop::collection::vec((steps(1), prop::bool::weighted(0.7)), 1..60),
        request in requests(),
        starts in starts(),
        tariff in tariffs(),
    ) {
        let cluster = common::Cluster {
            policy,
            nodes: vec![common::amounts((2, 8, 0, 0)); nodes],
            queues: vec![mask((1 << nodes) - 1); common::QUEUES],
            leaves: Vec::new(),
        };
        let mut pair = Pair::new(&cluster);
        for (step, pass) in &history {
            match step {
                Step::Submit(request) => pair.step(&Step::Submit(request.whole())),
                step => pair.step(step),
            }
            if *pass {
                pair.schedule()?;
            }
        }
        let mut job = pair.job(&request.whole());
        job.key.job = JobId(1_000_000);
        let listed = Listed::Of(Arc::default());
        let inquiry = Inquiry { tariff, listed, ..inquiry(job, starts) };
        check_all(&Case { pair, inquiry })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A window's starts are what was asked for, whatever the state.
    #[test]
    fn windows_are_kept(case in cases()) {
        let now = Time(case.pair.now);
        let appraisal = case.pair.scheduler.appraise(now, &case.inquiry);
        if let Starts::Window { earliest, latest, most, .. } = case.inquiry.starts {
            let earliest = earliest.max(now);
            let starts: Vec<Time> = appraisal.slots.iter().map(|slot| slot.start).collect();
            prop_assert!(starts.len() <= most);
            prop_assert!(starts.iter().all(|at| (earliest..=latest).contains(at)));
            if most > 1 && earliest <= latest {
                prop_assert!(starts.contains(&earliest) && starts.contains(&latest));
            }
            if let Some(plain) = appraisal.plain_start.filter(|_| most > 2) {
                prop_assert!(!(earliest..=latest).contains(&plain) || starts.contains(&plain));
            }
        }
    }

    /// More for the same: with a higher rate nothing gets cheaper, nobody else is delayed,
    /// and nothing becomes more or less available.
    #[test]
    fn rates_change_prices_alone(case in cases(), (core, gpu, delay) in (0i64..1000, 0i64..1000, 0i64..1000)) {
        let mut dearer = case.clone();
        let tariff = &mut dearer.inquiry.tariff;
        tariff.core_hour.0 += core;
        tariff.gpu_hour.0 += gpu;
        tariff.delay_core_hour.0 += delay;
        let now = Time(case.pair.now);
        let cheap = case.pair.scheduler.appraise(now, &case.inquiry);
        let dear = case.pair.scheduler.appraise(now, &dearer.inquiry);
        prop_assert_eq!(cheap.slots.len(), dear.slots.len());
        for (cheap, dear) in cheap.slots.iter().zip(dear.slots) {
            prop_assert!(cheap.base <= dear.base && cheap.extra <= dear.extra);
            let same = Estimate { base: cheap.base, extra: cheap.extra, ..dear };
            prop_assert_eq!(cheap, &same);
        }
    }

    /// Given shares are taken as they are if they are free, and not otherwise.
    #[test]
    fn fixed_shares_are_checked(case in cases(), nodes in 1u32..64, at in 0i64..60) {
        let start = Time(case.pair.now + at);
        let count = case.pair.cluster.nodes.len();
        let named = mask(nodes & ((1 << count) - 1));
        let demand = Component {
            nodes: Some(named.count()),
            tasks: named.count(),
            exclusive: true,
            allowed: named.clone().into(),
            ..Component::default()
        };
        let shares: Vec<NodeShare> = named.iter().map(|node| NodeShare {
            component: 0,
            node,
            tasks: 1,
            amounts: case.pair.cluster.nodes[node.index()].clone(),
        }).collect();
        let mut asked = Case { inquiry: Inquiry {
            fixed: Some(shares.clone()),
            starts: Starts::At(vec![start]),
            replaces: None,
            ..case.inquiry
        }, ..case };
        asked.inquiry.job.limit = asked.inquiry.job.limit.max(Span(1));
        let length = asked.inquiry.job.limit;
        let free = asked.pair.scheduler.place(Time(asked.pair.now), &demand, start, length);
        let told = asked.pair.scheduler.appraise(Time(asked.pair.now), &asked.inquiry);
        let free = free.map(|_| shares.clone());
        if !named.is_empty() {
            prop_assert_eq!(&told.slots[0].shares, &free);
        }
        if told.slots[0].shares.is_some() {
            check_slot(&Slowly::new(&asked), &told.slots[0], &Slowly::new(&asked).judge(start).unwrap())?;
        }
    }

    /// The formula of the paper, as it stands there.
    #[test]
    fn the_choice_costs_least(
        slots in prop::collection::vec((0i64..50, 0i64..50), 1..12),
        alpha in 0u32..=1000,
    ) {
        let slots: Vec<_> = slots.iter().map(|(s, f)| (Time(*s), Su(*f))).collect();
        let chosen = choose(&slots, alpha).unwrap();
        let alpha = f64::from(alpha) / 1000.0;
        let least = cost(&slots, chosen, alpha);
        for at in 0..slots.len() {
            prop_assert!(least <= cost(&slots, at, alpha) + 1e-9, "{:?} {} {}", slots, chosen, at);
        }
    }

    /// Absurd numbers give an answer.
    #[test]
    fn nothing_overflows(
        case in cases(),
        times in prop::collection::vec(prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)], 5),
        (core, gpu, delay) in (any::<i64>(), any::<i64>(), any::<i64>()),
        weights in prop::collection::vec(any::<u32>(), 0..4),
        (most, weight, window) in (0usize..9, any::<u32>(), any::<bool>()),
        now in prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), Just(1000)],
    ) {
        let mut inquiry = case.inquiry;
        inquiry.job.limit = Span(times[0]);
        inquiry.tariff = Tariff {
            core_hour: Su(core),
            gpu_hour: Su(gpu),
            delay_core_hour: Su(delay),
            queue_permille: weights,
            pool_hour: Vec::new(),
        };
        inquiry.makespan_weight_ppm = weight;
        inquiry.starts = match window {
            true => Starts::Window {
                earliest: Time(times[1]),
                latest: Time(times[2]),
                most,
                gap: Span(times[3]),
            },
            false => Starts::At(times.iter().copied().map(Time).collect()),
        };
        let told = case.pair.scheduler.appraise(Time(now), &inquiry);
        prop_assert!(told.slots.iter().all(|slot| slot.availability_ppm <= 1_000_000));
        let slots: Vec<_> = told.slots.iter().map(|slot| (slot.start, slot.price())).collect();
        prop_assert_eq!(choose(&slots, 500).is_some(), !slots.is_empty());
    }
}
