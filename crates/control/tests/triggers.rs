//! Triggers: who may set which, what runs them, and that what was promised survives
//! accidents.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // seeds come from the environment

mod world;

use cosy_control::Event;
use cosy_model::api::{NodeAction, Reply, Request};
use cosy_model::trigger::{TriggerEvent, TriggerSpec, TriggerTarget};
use cosy_model::*;
use std::collections::BTreeMap;
use world::*;

fn trigger(on: TriggerTarget, events: &[TriggerEvent]) -> TriggerSpec {
    TriggerSpec {
        on,
        events: events.iter().copied().collect(),
        offset: Span::ZERO,
        program: OsText::from("/bin/tell  now"),
        permanent: false,
        environment: OsText::from("PATH=/own\0A=1"),
    }
}

fn of_job(job: u64, event: TriggerEvent) -> TriggerSpec {
    trigger(TriggerTarget::Job(JobId(job)), &[event])
}

fn of_nodes(event: TriggerEvent) -> TriggerSpec {
    trigger(TriggerTarget::Nodes(Vec::new()), &[event])
}

fn root() -> User {
    user(0, "root")
}

fn ann() -> User {
    user(1000, "u1000")
}

fn set_as(w: &mut World, who: User, spec: TriggerSpec) -> Result<TriggerId, RefusalCode> {
    match w.ask_as(who, None, Request::SetTrigger(Box::new(spec))) {
        Reply::TriggerSet(id) => Ok(id),
        Reply::Refused(refusal) => Err(refusal.code),
        other => panic!("{other:?}"),
    }
}

fn set(w: &mut World, spec: TriggerSpec) -> TriggerId {
    set_as(w, root(), spec).unwrap()
}

fn listed(w: &mut World) -> Vec<u64> {
    match w.ask_as(root(), None, Request::Triggers) {
        Reply::Triggers(all) => all.iter().map(|t| t.id.0).collect(),
        other => panic!("{other:?}"),
    }
}

fn clear(w: &mut World, who: User, id: TriggerId) -> Result<u64, RefusalCode> {
    let request = Request::ClearTriggers {
        id: Some(id),
        job: None,
        uid: None,
    };
    match w.ask_as(who, None, request) {
        Reply::Done { changed, .. } => Ok(changed),
        Reply::Refused(refusal) => Err(refusal.code),
        other => panic!("{other:?}"),
    }
}

fn trigger_of(key: node::AllocationKey) -> Option<TriggerId> {
    match key {
        node::AllocationKey::Trigger(program) => Some(program.trigger),
        node::AllocationKey::Job(_) => None,
    }
}

/// Trigger, node, user and words of each program that was ordered since the last look.
fn ran(w: &mut World) -> Vec<String> {
    let told = |launch: node::Launch| {
        let Program::Command { argv } = &launch.program else {
            panic!("{:?}", launch.program);
        };
        let words: Vec<String> = argv.iter().map(|w| w.lossy()).collect();
        let allocation = &launch.allocation;
        let id = trigger_of(allocation.key).unwrap();
        format!("{id} {} {} {}", allocation.node, allocation.uid, words.join(" "))
    };
    std::mem::take(&mut w.programs)
        .into_iter()
        .map(told)
        .collect()
}

fn control(w: &mut World, name: &str, action: NodeAction) {
    let nodes = vec![name.to_owned()];
    let reply = w.ask_as(root(), None, Request::NodeControl { nodes, action });
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    w.deliver_all();
}

fn drain(reason: &str) -> NodeAction {
    NodeAction::Drain {
        reason: reason.to_owned(),
    }
}

#[test]
fn who_may_set_what() {
    let mut w = World::new(config(2, 4));
    let job = w.submit(spec("a"));
    let check = |w: &mut World, who: User, spec: TriggerSpec, want: Result<u64, RefusalCode>| {
        assert_eq!(set_as(w, who, spec.clone()).map(|id| id.0), want, "{spec:?}");
    };
    use RefusalCode::{Forbidden, Invalid, NotFound, WrongState};
    let end = of_job(job, TriggerEvent::Ended);
    check(&mut w, ann(), end.clone(), Ok(1));
    let elsewhere = TriggerSpec {
        environment: OsText::default(),
        ..end.clone()
    };
    check(&mut w, ann(), elsewhere, Err(WrongState));
    check(&mut w, root(), end, Ok(2));
    let other = user(1001, "u1001");
    // Others do not even see that there is such a job.
    check(&mut w, other, of_job(job, TriggerEvent::Down), Err(NotFound));
    check(&mut w, ann(), of_nodes(TriggerEvent::Down), Err(Forbidden));
    check(&mut w, root(), of_nodes(TriggerEvent::Down), Ok(3));
    check(&mut w, root(), of_nodes(TriggerEvent::Ended), Err(Invalid));
    check(&mut w, ann(), of_job(job, TriggerEvent::Idle), Err(Invalid));
    let nowhere = trigger(TriggerTarget::Nodes(vec!["x".into()]), &[TriggerEvent::Up]);
    check(&mut w, root(), nowhere, Err(NotFound));
    check(&mut w, root(), of_job(77, TriggerEvent::Ended), Err(NotFound));
    let with = |program: &str, offset: i64| TriggerSpec {
        program: OsText::from(program),
        offset: Span::from_secs(offset),
        ..of_nodes(TriggerEvent::Up)
    };
    check(&mut w, root(), with("tell", 0), Err(Invalid));
    check(&mut w, root(), with("/bin/a\0b", 0), Err(Invalid));
    check(&mut w, root(), with("/bin/tell", 32_001), Err(Invalid));
    check(&mut w, root(), trigger(TriggerTarget::Nodes(Vec::new()), &[]), Err(Invalid));
    assert_eq!(listed(&mut w), [1, 2, 3]);
    assert_eq!(clear(&mut w, ann(), TriggerId(3)), Err(Forbidden));
    assert_eq!(clear(&mut w, ann(), TriggerId(1)), Ok(1));
    assert_eq!(clear(&mut w, ann(), TriggerId(1)), Err(NotFound));
    assert_eq!(clear(&mut w, root(), TriggerId(2)), Ok(1));
    assert_eq!(listed(&mut w), [3]);
    w.pass(20);
    assert_eq!(ran(&mut w), [""; 0]);
    // Of a job that has ended nothing more can be told.
    assert_eq!(set_as(&mut w, ann(), of_job(job, TriggerEvent::Ended)), Err(WrongState));
}

#[test]
fn the_end_of_a_job() {
    let mut w = World::new(config(3, 4));
    w.run_time = Span::from_secs(30);
    let mut whole = spec("a");
    whole.request.exclusive = true;
    let first = w.submit(whole.clone());
    let second = w.submit(whole);
    w.deliver_all();
    set_as(&mut w, ann(), of_job(second, TriggerEvent::Ended)).unwrap();
    let later = TriggerSpec {
        offset: Span::from_secs(10),
        ..of_job(first, TriggerEvent::Ended)
    };
    set_as(&mut w, ann(), later).unwrap();
    w.pass(29);
    assert_eq!(ran(&mut w), [""; 0]);
    w.pass(1);
    let environment = w.programs[0].environment.lossy();
    let ends = environment.ends_with("COSY_CLUSTER=test\0COSY_TRIGGER_ID=1\0");
    let own = environment.contains("\0PATH=/own\0A=1\0HOME=/\0");
    assert!(own && ends, "{environment:?}");
    // Where the job was.
    assert_eq!(ran(&mut w), [format!("1 n2 1000 /bin/tell now {second}")]);
    assert_eq!(listed(&mut w), [2]);
    w.pass(10);
    assert_eq!(ran(&mut w), [format!("2 n1 1000 /bin/tell now {first}")]);
    w.pass(60);
    assert_eq!(ran(&mut w), [""; 0]);
    assert!(w.store.triggers.is_empty(), "{:?}", w.store.triggers);
}

#[test]
fn before_a_time_limit() {
    let mut w = World::new(config(2, 4));
    w.run_time = Span::from_secs(100);
    let job = w.submit(spec("a")); // its limit are 60 s
    w.deliver_all();
    let before = |offset: i64, job: u64| TriggerSpec {
        offset: Span::from_secs(offset),
        ..of_job(job, TriggerEvent::TimeLimit)
    };
    set_as(&mut w, ann(), before(-20, job)).unwrap();
    w.pass(39);
    assert_eq!(ran(&mut w), [""; 0]);
    w.pass(1);
    assert_eq!(ran(&mut w), [format!("1 n1 1000 /bin/tell now {job}")]);
    w.pass(40);
    assert_eq!(ran(&mut w), [""; 0]);
    // A job that ends before its limit will not reach it: it is told then.
    let short = w.submit(spec("b"));
    w.run_times.insert(JobId(short), Span::from_secs(5));
    w.deliver_all();
    set_as(&mut w, ann(), before(-20, short)).unwrap();
    w.pass(5);
    assert_eq!(ran(&mut w), [format!("2 n1 1000 /bin/tell now {short}")]);
    w.pass(60);
    assert_eq!((ran(&mut w).len(), listed(&mut w).len()), (0, 0));
}

#[test]
fn nodes_that_come_and_go() {
    let mut w = World::new(config(5, 4));
    w.run_time = Span::from_secs(1);
    let all = set(&mut w, of_nodes(TriggerEvent::Down));
    let up = TriggerSpec {
        permanent: true,
        ..of_nodes(TriggerEvent::Up)
    };
    set(&mut w, up);
    set(&mut w, trigger(TriggerTarget::Nodes(vec!["n4".into()]), &[TriggerEvent::Drained]));
    let reason = || "x".to_owned();
    control(&mut w, "n2", NodeAction::Down { reason: reason() });
    w.pass(1);
    // What happens in the same breath is told once, what comes later not at all.
    control(&mut w, "n3", NodeAction::Down { reason: reason() });
    w.pass(2);
    assert_eq!(ran(&mut w), ["1 n1 0 /bin/tell now n[2-3]"]);
    assert!(!listed(&mut w).contains(&all.0));
    control(&mut w, "n1", NodeAction::Down { reason: reason() });
    w.pass(5);
    assert_eq!(ran(&mut w), [""; 0]);
    for name in ["n1", "n2", "n3"] {
        control(&mut w, name, NodeAction::Resume);
        w.pass(4);
    }
    let told = ran(&mut w);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[2].ends_with("/bin/tell now n3"), "{told:?}");
    control(&mut w, "n5", drain("x"));
    w.pass(5);
    assert_eq!(ran(&mut w), [""; 0]);
    // Not before its last job has gone.
    let mut there = spec("a");
    there.request.require = vec!["n4".to_owned()];
    let job = w.submit(there);
    w.run_times.insert(JobId(job), Span::from_secs(10));
    w.deliver_all();
    control(&mut w, "n4", drain("x"));
    w.pass(5);
    assert_eq!(ran(&mut w), [""; 0]);
    w.pass(10);
    assert_eq!(ran(&mut w), ["3 n1 0 /bin/tell now n4"]);
}

#[test]
fn nodes_of_a_job_idle_nodes_and_the_configuration() {
    let mut w = World::new(config(3, 4));
    w.run_time = Span::from_secs(50);
    let mut whole = spec("a");
    whole.request.exclusive = true;
    let job = w.submit(whole);
    w.deliver_all();
    set_as(&mut w, ann(), of_job(job, TriggerEvent::Drained)).unwrap();
    let idle = TriggerSpec {
        offset: Span::from_secs(20),
        permanent: true,
        ..of_nodes(TriggerEvent::Idle)
    };
    set(&mut w, idle);
    set(&mut w, of_nodes(TriggerEvent::Reconfigured));
    control(&mut w, "n1", drain("x"));
    // The configuration was changed, and the job's node takes no others.
    let first = [
        format!("1 n1 1000 /bin/tell now {job}"),
        "3 n2 0 /bin/tell now reconfig".to_owned(),
    ];
    assert_eq!(ran(&mut w), first);
    w.pass(25);
    assert_eq!(ran(&mut w), ["2 n2 0 /bin/tell now n[2-3]"]);
    // They are told once, however long they stay idle.
    w.pass(40);
    assert_eq!(ran(&mut w), [""; 0]);
    w.run_time = Span::from_secs(5);
    w.submit(spec("b"));
    w.pass(30);
    assert_eq!(ran(&mut w), ["2 n2 0 /bin/tell now n2"]);
    let changed = w.config.clone();
    w.event(Event::Reconfigured(Box::new(changed)));
    w.pass(5);
    assert_eq!(ran(&mut w), [""; 0]);
}

#[test]
fn a_node_that_was_down_before_a_restart_is_not_told_again() {
    let mut w = World::new(config(3, 4));
    let down = TriggerSpec {
        permanent: true,
        ..trigger(TriggerTarget::Nodes(Vec::new()), &[TriggerEvent::Down, TriggerEvent::Up])
    };
    let silent = |w: &mut World, n: usize| {
        w.disconnect(n);
        w.pass(200);
    };
    set(&mut w, down);
    silent(&mut w, 2);
    assert_eq!(ran(&mut w), ["1 n1 0 /bin/tell now n3"]);
    w.crash();
    w.connect(0);
    w.connect(1);
    w.deliver_all();
    w.pass(400);
    assert_eq!(ran(&mut w), [""; 0]);
    w.connect(2);
    w.pass(5);
    assert_eq!(ran(&mut w), ["1 n1 0 /bin/tell now n3"]);
}

#[test]
fn another_node_runs_it_where_one_cannot() {
    let mut w = World::new(config(3, 4));
    let job = w.submit(spec("a"));
    w.deliver_all();
    set_as(&mut w, ann(), of_job(job, TriggerEvent::Ended)).unwrap();
    w.pass(9);
    for n in 0..3 {
        w.disconnect(n);
    }
    w.pass(5);
    w.connect(0); // and tells how the job has ended
    assert_eq!(ran(&mut w), [format!("1 n1 1000 /bin/tell now {job}")]);
    // The order is lost, and the node does not come again.
    w.orders.clear();
    w.disconnect(0);
    w.connect(1);
    w.pass(200);
    assert_eq!(ran(&mut w), [format!("1 n2 1000 /bin/tell now {job}")]);
    assert!(w.store.triggers.is_empty(), "{:?}", w.store.triggers);
}

/// Everything that can go wrong does: the controller dies before and after its commits,
/// nodes go and come, orders are lost. What was promised is run, and not again once a node
/// has said that it runs.
#[test]
fn nothing_promised_is_lost_and_nothing_told_is_repeated() {
    for seed in 0..40 {
        play(seed);
    }
}

fn play(seed: u64) {
    let mut dice = Dice(seed);
    let mut w = World::new(config(4, 4));
    w.run_time = Span::from_secs(3);
    let mut set: BTreeMap<TriggerId, JobId> = BTreeMap::new();
    let mut begun = BTreeMap::new();
    for turn in 0..60_u64 {
        if dice.chance(20) {
            let death = match dice.chance(50) {
                true => Death::BeforeCommit,
                false => Death::AfterCommit,
            };
            w.dies = Some((dice.below(3) as u32, death));
        }
        match dice.below(6) {
            0..2 => {
                let submission = api::Submission {
                    spec: spec("a"),
                    script: OsText::default(),
                    array: None,
                };
                w.ask(Request::Submit(Box::new(submission)));
            }
            2..4 => {
                let jobs = w.store.jobs.values();
                let mut live = jobs.filter(|job| job.end.is_none()).map(|job| job.id);
                let Some(job) = live.next_back() else {
                    continue;
                };
                let mut key = [0; 16];
                key[..8].copy_from_slice(&turn.to_le_bytes());
                let request = Request::SetTrigger(Box::new(of_job(job.0, TriggerEvent::Ended)));
                if let Reply::TriggerSet(id) = w.ask_as(root(), Some(key), request) {
                    let old = set.insert(id, job);
                    assert!(old.is_none(), "seed {seed}: {id} was given out twice");
                }
            }
            4 => w.disconnect(dice.below(4) as usize),
            _ => w.orders.retain(|_| dice.chance(50)),
        }
        for n in 0..4 {
            if w.nodes[n].link.is_none() && dice.chance(40) {
                w.connect(n);
            }
        }
        w.pass(1 + dice.below(3) as i64);
        told_once(&w, &mut begun, seed);
    }
    w.dies = None;
    for _ in 0..300 {
        for n in 0..4 {
            if w.nodes[n].link.is_none() {
                w.connect(n);
            }
        }
        w.pass(1);
        told_once(&w, &mut begun, seed);
    }
    for (id, job) in &set {
        let over = w.store.jobs[job].end.is_some();
        let ran = attempts(&w).any(|(trigger, _)| trigger == *id);
        assert!(over && ran, "seed {seed}: trigger {id} of job {job} was lost");
    }
    let left = &w.store.triggers;
    assert!(left.is_empty(), "seed {seed}: {left:?}");
}

/// Runs of programs that have begun, wherever.
fn attempts(w: &World) -> impl Iterator<Item = (TriggerId, Attempt)> + '_ {
    let all = w.nodes.iter().flat_map(|node| node.starts.keys());
    all.filter_map(|key| Some((trigger_of(*key)?, key.attempt())))
}

/// No run follows one that is known to have begun.
fn told_once(w: &World, begun: &mut BTreeMap<TriggerId, Attempt>, seed: u64) {
    for (id, attempt) in attempts(w) {
        let last = begun.get(&id).copied();
        assert!(last.is_none_or(|last| attempt <= last), "seed {seed}: trigger {id} ran again");
    }
    for row in w.store.triggers.values() {
        if row.run.as_ref().is_some_and(|run| run.started) {
            begun.insert(row.id, row.attempt);
        }
    }
}

/// Programs stay away from nodes that somebody else has as a whole, share one core, and are few
/// on each node; what they have used is told.
#[test]
fn programs_keep_away_from_anothers_nodes() {
    let mut w = World::new(config(2, 4));
    w.run_time = Span::from_secs(1000);
    let mut whole = JobSpec {
        time_limit: Some(Span::from_secs(2000)),
        ..spec("whole")
    };
    whole.request.exclusive = true;
    whole.request.nodes = Some(1);
    let bobs = |w: &mut World, spec: JobSpec| {
        let submission = api::Submission {
            spec,
            script: OsText::default(),
            array: None,
        };
        let reply = w.ask_as(user(1001, "u1001"), None, Request::Submit(Box::new(submission)));
        let Reply::Submitted { job, .. } = reply else {
            panic!("{reply:?}");
        };
        w.deliver_all();
        job.0
    };
    bobs(&mut w, whole.clone());
    let mine: Vec<u64> = (0..8)
        .map(|_| {
            w.submit(JobSpec {
                hold: true,
                ..spec("x")
            })
        })
        .collect();
    for job in &mine {
        set_as(&mut w, ann(), of_job(*job, TriggerEvent::Ended)).unwrap();
    }
    let cancel = |w: &mut World, jobs: &[u64]| {
        let request = Request::Cancel {
            filter: ids(jobs),
            signal: None,
            script_only: false,
            steps_only: false,
        };
        w.ask_as(ann(), None, request);
    };
    cancel(&mut w, &mine[..6]);
    w.pass(3);
    let programs = std::mem::take(&mut w.programs);
    let nodes: Vec<&str> = programs.iter().map(|p| &*p.allocation.node).collect();
    assert_eq!(nodes, ["n2"; limits::TRIGGER_PROGRAMS_ON_NODE]);
    // One core each, and one that no job has.
    assert!(programs.iter().all(|p| p.allocation.cores == [3]));
    // When some are over the others follow, on the same node.
    w.run_time = Span::from_secs(1);
    for n in 0..2 {
        let known: Vec<_> = w.nodes[n].known.keys().copied().collect();
        for key in known.into_iter().filter(|key| key.job().is_none()) {
            w.end(n, key, 0);
        }
    }
    w.deliver_all();
    w.pass(3);
    assert_eq!(w.programs.len(), 2);
    assert!(w.programs.iter().all(|p| p.allocation.node == "n2"));
    let told = w
        .store
        .happened
        .iter()
        .filter(|e| e.what == "trigger_ended");
    let told: Vec<&str> = told.map(|e| &*e.detail).collect();
    assert!(told.len() >= 4, "{told:?}");
    assert_eq!(told[0], "completed, exit code 0, 0.000 s of a core, 0 MiB");
    // Where all nodes are somebody else's they wait.
    w.programs.clear();
    w.run_time = Span::from_secs(1000);
    w.pass(3);
    bobs(&mut w, whole);
    cancel(&mut w, &mine[6..]);
    w.pass(5);
    assert!(w.programs.is_empty(), "{:?}", w.programs.len());
}
