//! Random histories with faults, from a seed: controller and node daemons crash, links
//! break, orders get lost. A failing seed is printed; `COSY_SEED=N` repeats it alone,
//! `COSY_SEEDS=N` tries more of them.

#![allow(clippy::disallowed_methods)] // the seed comes from the environment

mod world;

use cosy_control::{ClientId, Event};
use cosy_model::api::{Reply, Request};
use cosy_model::job::{FurtherComponent, ResourceRequest};
use cosy_model::node::NodeReport;
use cosy_model::step::{StepId, StepRecord};
use cosy_model::*;
use std::collections::{BTreeMap, BTreeSet};
use world::*;

/// What the user was told.
#[derive(Default)]
struct Told {
    submitted: BTreeMap<u64, u64>,
    /// Commands that stay with a job.
    there: Vec<ClientId>,
    /// Jobs that are not to run again, and that nobody has put back.
    once: BTreeSet<u64>,
}

impl Told {
    fn any_job(&self, dice: &mut Dice) -> JobId {
        JobId(1 + dice.below(self.submitted.len() as u64 * 2 + 1))
    }
}

fn random_spec(dice: &mut Dice) -> JobSpec {
    let mut s = spec(["a", "b", "c"][dice.below(3) as usize]);
    s.request = ResourceRequest {
        nodes: dice.chance(40).then(|| 1 + dice.below(3) as u32),
        cores_per_task: 1 + dice.below(4) as u32,
        exclusive: dice.chance(10),
        ..ResourceRequest::default()
    };
    if dice.chance(30) {
        let gpus = 1 + dice.below(2) as u32;
        s.request.gpus_per_node = gpus;
        if let Some(kind) = ["a", "b"].get(dice.below(4) as usize) {
            s.request.gpu_types.set(kind, gpus);
        }
    }
    s.request
        .other_per_node
        .set("fpga", u32::from(dice.chance(15)));
    s.time_limit = Some(Span::from_secs(5 + dice.below(60) as i64));
    if dice.chance(30) {
        s.request.max_nodes = s.request.nodes.map(|n| n + 1 + dice.below(2) as u32);
    }
    s.request.overcommit = dice.chance(10);
    while dice.chance(15) && s.further_components.len() < 3 {
        let mut request = ResourceRequest {
            nodes: dice.chance(40).then(|| 1 + dice.below(2) as u32),
            cores_per_task: 1 + dice.below(3) as u32,
            exclusive: dice.chance(10),
            ..ResourceRequest::default()
        };
        request.gpus_per_node = u32::from(dice.chance(20));
        s.further_components.push(FurtherComponent {
            name: None,
            queue: None,
            request,
        });
    }
    s.requeue = dice.chance(50);
    s.hold = dice.chance(5);
    s
}

fn submit(world: &mut World, dice: &mut Dice, told: &mut Told) {
    let mut s = random_spec(dice);
    let known: Vec<u64> = told.submitted.keys().copied().collect();
    if !known.is_empty() && dice.chance(20) {
        let kind = [
            DependencyKind::AfterOk,
            DependencyKind::AfterAny,
            DependencyKind::AfterNotOk,
            DependencyKind::After,
            DependencyKind::Singleton,
        ][dice.below(5) as usize];
        s.dependencies.push(Dependency {
            kind,
            job: JobId(known[dice.below(known.len() as u64) as usize]),
            task: None,
            delay: cosy_model::Span::ZERO,
        });
    }
    let array = dice.chance(25).then_some("1-5%2");
    let once = !s.requeue;
    if let Ok(id) = world.try_submit(s, array) {
        let ids = if array.is_some() { 5 } else { 1 };
        told.once.extend((id..id + ids).filter(|_| once));
        assert!(!told.submitted.contains_key(&id), "id {id} was given out twice");
        told.submitted.insert(id, ids);
    }
}

/// An allocation: kept without its command, or interactive.
fn allocate(world: &mut World, dice: &mut Dice, told: &mut Told) {
    let mut s = random_spec(dice);
    s.program = Program::Allocation;
    s.attended = dice.chance(70);
    let client = world.ask_on(user(1000, "u1000"), None, allocates(s));
    let job = match world.replies.remove(&client) {
        Some(Reply::Allocated { entry, .. }) => entry.key.job,
        Some(Reply::Submitted { job, .. }) => job,
        _ => return,
    };
    let known = told.submitted.insert(job.0, 1);
    assert!(known.is_none(), "id {job} was given out twice");
    told.there.push(client);
}

/// What commands do that stay with jobs: come, hang up, are lost, give their job back.
fn attend(world: &mut World, dice: &mut Dice, told: &mut Told) {
    let job = told.any_job(dice);
    let left = (!told.there.is_empty()).then(|| {
        let at = dice.below(told.there.len() as u64) as usize;
        told.there.swap_remove(at)
    });
    match (dice.below(4), left) {
        (0, Some(client)) => world.event(Event::ClientGone(client)),
        (1, Some(client)) => world.event(Event::ClientLost(client)),
        (2, left) => {
            told.there.extend(left);
            let started = dice.chance(50);
            let request = Request::Attend { job, started };
            told.there
                .push(world.ask_on(user(1000, "u1000"), None, request));
        }
        (_, left) => {
            told.there.extend(left);
            world.ask(Request::Finish {
                job,
                exit_code: dice.below(3) as i32,
                signal: 0,
            });
        }
    }
}

/// The first node of some attempt tells of steps, new ones and such as it has told of.
fn tell_steps(world: &mut World, dice: &mut Dice, n: usize) {
    let known = &world.nodes[n].known;
    let Some(key) = known
        .keys()
        .nth(dice.below(known.len().max(1) as u64) as usize)
        .and_then(|key| key.job())
    else {
        return;
    };
    let durable = world.store.steps.get(&key).map_or(0, |r| r.len() as u64);
    let before = durable.saturating_sub(dice.below(3));
    let upto = before + dice.below(5);
    let record = |step: u64| StepRecord {
        step: StepId(step as u32),
        name: "s".into(),
        nodes: "n1".into(),
        tasks: 1,
        cores: 1,
        end: End {
            user_cpu_us: 1,
            ..End::never_ran(EndCause::Exited, world.now)
        },
    };
    let records = (before..upto).map(record).collect();
    let node = world.nodes[n].name.clone();
    world.report(
        n,
        NodeReport::Steps {
            key,
            node,
            before,
            records,
        },
    );
}

fn step(world: &mut World, dice: &mut Dice, told: &mut Told) {
    let nodes = world.nodes.len() as u64;
    let n = dice.below(nodes) as usize;
    match dice.below(106) {
        0..18 => submit(world, dice, told),
        18..26 => allocate(world, dice, told),
        26..32 => attend(world, dice, told),
        32..36 => tell_steps(world, dice, n),
        36..55 => {
            world.now = world.now + Span(100 + dice.below(4000) as i64);
            world.end_due();
            world.event(cosy_control::Event::Ticked);
        }
        55..75 => {
            for _ in 0..dice.below(20) {
                world.deliver_one();
                world.arrive_one(dice.chance(10));
            }
        }
        75..80 => {
            let job = 1 + dice.below(told.submitted.len() as u64 * 2 + 1);
            world.ask(cancels(ids(&[job])));
        }
        80..83 => {
            let job = 1 + dice.below(told.submitted.len() as u64 * 2 + 1);
            let filter = ids(&[job]);
            if dice.chance(50) {
                world.ask(Request::Hold {
                    filter,
                    as_user: false,
                });
            } else {
                world.ask(Request::Release { filter });
            }
        }
        83..86 => world.crash(),
        86..91 => world.disconnect(n),
        91..96 => {
            if world.nodes[n].link.is_none() {
                world.connect(n);
            }
        }
        96..97 => {
            // The machine is restarted: what ran is gone, the spool is told as lost.
            world.switch_off(n);
        }
        97..98 => {
            let job = 1 + dice.below(told.submitted.len() as u64 * 2 + 1);
            let tasks = told.submitted.get(&job).copied().unwrap_or(1);
            told.once.retain(|id| !(job..job + tasks).contains(id));
            world.ask(Request::Requeue {
                filter: ids(&[job]),
                hold: false,
                special: false,
            });
        }
        98..99 => world.directory_down = dice.chance(50),
        99..101 => world.set_clock(random_step(dice)),
        101..102 => world.set_its_clock(random_step(dice)),
        102..104 => {
            world.late = match dice.chance(50) {
                true => Span(dice.below(9000) as i64),
                false => Span::ZERO,
            };
        }
        104..105 => world.nodes[n].ahead = random_step(dice),
        105..106 => world.slow_reports = dice.chance(60),
        _ => {
            // Silence long enough to be given up. Orders may arrive all the same.
            if dice.chance(70) {
                world.unheard.insert(n);
                world.deliver_all();
            }
            for _ in 0..21 {
                world.now = world.now + Span::from_secs(3);
                world.event(cosy_control::Event::Ticked);
            }
            for _ in 0..21 {
                world.now = world.now + Span::from_secs(1);
                world.event(cosy_control::Event::Ticked);
            }
            world.unheard.clear();
        }
    }
}

/// By how much somebody sets a clock: by seconds, hours or a month, there or back.
fn random_step(dice: &mut Dice) -> Span {
    let most = [20, 3600, 30 * 86_400][dice.below(3) as usize];
    let by = Span(dice.below(most * 1000) as i64);
    match dice.chance(50) {
        true => by,
        false => Span(-by.ms()),
    }
}

/// Lets everything come to its end and checks that it did.
fn finish(world: &mut World, told: &Told, seed: u64) {
    world.directory_down = false;
    world.slow_reports = false;
    while world.arrive_one(false) {}
    for node in &mut world.nodes {
        node.ahead = Span::ZERO;
    }
    for n in 0..world.nodes.len() {
        if world.nodes[n].link.is_none() {
            world.connect(n);
        }
    }
    world.deliver_all();
    let all: Vec<u64> = told.submitted.keys().copied().collect();
    if !all.is_empty() {
        world.ask_as(user(0, "root"), None, Request::Release { filter: ids(&all) });
    }
    for _ in 0..4000 {
        world.pass(1);
        if world.controller.live_jobs() == 0 {
            break;
        }
        let queue = world.queue();
        let stuck = queue.split(' ').all(|j| j.contains("dependency_never"));
        if stuck {
            break;
        }
    }
    let ends = world.store.ends();
    let queue = world.queue();
    for (base, count) in &told.submitted {
        for id in *base..base + count {
            let ended = ends.contains_key(&JobId(id));
            let never = queue.contains("dependency_never");
            assert!(
                ended || never,
                "seed {seed}: job {id} was acknowledged and never ended; left: {queue}"
            );
        }
    }
    steps_are_told_and_added_up(world, seed);
    for id in ends.keys() {
        let of_told = told
            .submitted
            .iter()
            .any(|(base, n)| (*base..base + n).contains(&id.0));
        assert!(of_told, "seed {seed}: job {id} was never submitted");
    }
    for node in &world.nodes {
        for (key, starts) in &node.starts {
            assert_eq!(*starts, 1, "seed {seed}: {key:?} started twice on {}", node.name);
        }
    }
    for id in &told.once {
        let starts = world.starts_of(*id);
        assert!(starts <= 1, "seed {seed}: job {id}, not to run again, was started {starts} times");
    }
    let mut where_started = BTreeMap::new();
    for node in &world.nodes {
        for key in node.starts.keys() {
            let other = where_started.insert(*key, node.name.clone());
            assert!(other.is_none(), "seed {seed}: {key:?} started on two nodes");
        }
    }
}

/// What a job used is what its steps used, also over the ends of controllers.
fn steps_are_told_and_added_up(world: &World, seed: u64) {
    for (key, records) in &world.store.steps {
        let numbers: Vec<u32> = records.iter().map(|r| r.step.0).collect();
        let want: Vec<u32> = (0..records.len() as u32).collect();
        assert_eq!(numbers, want, "seed {seed}: steps of {key:?}");
        let row = &world.store.jobs[&key.job];
        let held = world
            .store
            .submissions
            .values()
            .any(|(s, _)| s.base == row.base && s.spec.program == Program::Allocation);
        if let Some(end) = row
            .end
            .as_ref()
            .filter(|_| held && row.attempt == key.attempt)
        {
            assert!(
                end.user_cpu_us <= records.len() as u64,
                "seed {seed}: {key:?} used {} in {} steps",
                end.user_cpu_us,
                records.len()
            );
        }
    }
}

fn run(seed: u64) {
    let mut dice = Dice(seed);
    let mut world = World::with_devices(config(4, 4));
    world.now = Time::from_secs(100_000_000); // clocks are set back by months
    let mut told = Told::default();
    for _ in 0..150 {
        step(&mut world, &mut dice, &mut told);
    }
    finish(&mut world, &told, seed);
}

#[test]
fn nothing_is_lost_or_doubled() {
    if let Ok(seed) = std::env::var("COSY_SEED") {
        return run(seed.parse().expect("COSY_SEED is a number"));
    }
    let seeds = std::env::var("COSY_SEEDS").map_or(40, |n| n.parse().expect("a number"));
    for seed in 0..seeds {
        let result = std::panic::catch_unwind(|| run(seed));
        if let Err(e) = result {
            eprintln!("repeat with: COSY_SEED={seed} cargo test -p cosy-control --test simulation");
            std::panic::resume_unwind(e);
        }
    }
}

#[test]
fn repeated_requests_are_recognised() {
    let mut world = World::new(config(1, 4));
    let submission = api::Submission {
        spec: spec("x"),
        script: OsText::default(),
        array: None,
    };
    let ask = |world: &mut World| {
        world.ask_as(
            user(1000, "u1000"),
            Some([7; 16]),
            Request::Submit(Box::new(submission.clone())),
        )
    };
    let first = ask(&mut world);
    assert!(matches!(first, Reply::Submitted { .. }));
    assert_eq!(ask(&mut world), first);
    world.crash();
    assert_eq!(ask(&mut world), first, "also after a restart");
    let other = world.ask_as(
        user(1001, "u1001"),
        Some([7; 16]),
        Request::Submit(Box::new(submission.clone())),
    );
    assert_ne!(other, first, "another user's key is another key");
}
