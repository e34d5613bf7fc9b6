//! GPUs with types, and other devices with numbers: who gets which.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod world;

use cosy_model::api::{Reply, Request};
use cosy_model::device::GpuRequest;
use cosy_model::job::{FurtherComponent, ResourceRequest};
use cosy_model::*;
use world::*;

/// Two GPUs of type a; one of a and one of b; two without a type; two FPGAs each.
fn three() -> World {
    World::with_devices(config(3, 4))
}

fn asks(gpus: &str, devices: &str) -> JobSpec {
    let gpus: GpuRequest = gpus.parse().unwrap();
    let mut other_per_node = CountedResources::default();
    if !devices.is_empty() {
        let (name, count) = devices.split_once('=').unwrap_or((devices, "1"));
        other_per_node.set(name, count.parse().unwrap());
    }
    JobSpec {
        request: ResourceRequest {
            gpus_per_node: gpus.count,
            gpu_types: gpus.types,
            other_per_node,
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_secs(3600)),
        ..spec("gpu")
    }
}

/// Node, GPUs and FPGAs of a job; `None` while it waits.
fn got(world: &World, id: u64) -> Option<(String, Vec<u32>, Vec<u32>)> {
    let part = world
        .store
        .jobs
        .get(&JobId(id))?
        .run
        .as_ref()?
        .parts
        .first()?;
    let fpgas = part.devices.get("fpga").cloned().unwrap_or_default();
    Some((part.node.clone(), part.gpus.clone(), fpgas))
}

/// As long as nodes have not told which GPUs they have, nothing is refused for types, whichever
/// component of the job asks for them.
#[test]
fn a_later_component_may_ask_for_types_that_are_not_told_yet() {
    let mut world = three();
    world.store.nodes.clear();
    world.crash();
    let mut job = asks("0", "");
    job.further_components.push(FurtherComponent {
        name: None,
        queue: None,
        request: asks("b", "").request,
    });
    let id = world.submit(job);
    (0..3).for_each(|n| world.connect(n));
    world.deliver_all();
    world.pass(2);
    let run = world.store.jobs[&JobId(id)].run.as_ref().unwrap();
    let gpus = run.parts.iter().map(|part| (part.component, &*part.gpus));
    assert_eq!(gpus.collect::<Vec<_>>(), [(0, &[][..]), (1, &[1])]);
}

#[test]
fn gpus_of_the_whole_job_are_not_rounded_up() {
    let mut world = three();
    world.run_time = Span::from_secs(1000);
    let mut job = asks("2", "");
    (job.request.nodes, job.request.gpus_in_all) = (Some(2), Some(3));
    let id = world.submit(job);
    world.deliver_all();
    let gpus = |world: &World, id: u64| -> Vec<Vec<u32>> {
        let run = world.store.jobs[&JobId(id)].run.as_ref().unwrap();
        run.parts.iter().map(|part| part.gpus.clone()).collect()
    };
    assert_eq!(gpus(&world, id), [vec![0, 1], vec![0]]);
    // What it left is there for others.
    let last = world.store.jobs[&JobId(id)].run.as_ref().unwrap().parts[1]
        .node
        .clone();
    let mut one = asks("1", "");
    one.request.require = vec![last];
    let other = world.submit(one);
    world.deliver_all();
    assert_eq!(gpus(&world, other), [vec![1]]);
}

/// Who waits for GPUs that a job gives back as it starts has them in the same turn: nothing else
/// needs to happen.
#[test]
fn gpus_that_are_given_back_are_taken_at_once() {
    let mut world = three();
    world.run_time = Span::from_secs(1000);
    let begin = Some(world.now + Span::from_secs(100));
    let mut wide = asks("2", "");
    (wide.request.nodes, wide.request.gpus_in_all) = (Some(2), Some(3));
    (wide.request.require, wide.begin) = (vec!["n1".into(), "n3".into()], begin);
    let wide = world.submit(wide);
    let mut one = asks("1", "");
    (one.request.require, one.begin) = (vec!["n3".into()], begin);
    let one = world.submit(one);
    world.now = world.now + Span::from_secs(100);
    let batch = world.controller.settle(world.now);
    let runs = |id: u64| {
        let mut rows = batch.records.iter().filter_map(|record| match record {
            cosy_control::Record::Job(row) if row.id == JobId(id) => row.run.clone(),
            _ => None,
        });
        let parts = rows.next_back().map(|run| run.parts).unwrap_or_default();
        let held = |part: cosy_control::PartRow| (part.node, part.gpus);
        parts.into_iter().map(held).collect::<Vec<_>>()
    };
    let of = |node: &str, gpus: &[u32]| (node.to_owned(), gpus.to_vec());
    assert_eq!(runs(wide), [of("n1", &[0, 1]), of("n3", &[0])]);
    assert_eq!(runs(one), [of("n3", &[1])]);
}

#[test]
fn jobs_get_the_types_they_name() {
    let mut world = three();
    world.run_time = Span::from_secs(1000);
    let mut check = |asked: &str, want: Option<(&str, &[u32])>| {
        let id = world.submit(asks(asked, ""));
        world.deliver_all();
        let got = got(&world, id);
        let got = got.as_ref().map(|(node, gpus, _)| (&**node, &**gpus));
        assert_eq!(got, want, "{asked}");
        id
    };
    let b = check("b", Some(("n2", &[1])));
    check("a:2", Some(("n1", &[0, 1])));
    check("a", Some(("n2", &[0])));
    check("a", None);
    // Without a type: not on the node with two.
    check("1", Some(("n3", &[0])));
    let waits = check("2", None);
    check("b", None);
    world.ask(cancels(ids(&[b])));
    world.pass(1);
    assert_eq!(got(&world, waits), None, "the free one is on a node with two types");
}

#[test]
fn what_no_node_has_is_refused() {
    let check = |world: &mut World, gpus: &str, devices: &str, words: &str| {
        let refused = world.try_submit(asks(gpus, devices), None).unwrap_err();
        assert!(refused.message.contains(words), "{gpus} {devices}: {refused}");
    };
    let mut world = three();
    check(&mut world, "b:2", "", "needs 2 gpus of type b on one node, the largest has 1");
    check(&mut world, "a:1,b:2", "", "needs 3 gpus on one node");
    check(&mut world, "c", "", "needs 1 gpus of type c on one node");
    check(&mut world, "0", "fpga=3", "needs 3 fpga on one node, the largest has 2");
    for n in 0..3 {
        world.nodes[n].gpu_types = vec!["a".to_owned(), "b".to_owned()];
        world.connect(n);
    }
    let hint = "nodes with several types of GPUs give them by type only: a, b";
    check(&mut world, "1", "", hint);
    world.submit(asks("a:1,b:1", ""));
}

#[test]
fn requests_that_contradict_themselves() {
    let mut world = three();
    let mut check = |change: &dyn Fn(&mut ResourceRequest), words: &str| {
        let mut job = asks("0", "");
        change(&mut job.request);
        let refused = world.try_submit(job, None).unwrap_err();
        assert_eq!(refused.code, RefusalCode::Invalid);
        assert!(refused.message.contains(words), "{refused}");
    };
    check(&|r| r.gpu_types.set("a", 1), "name the type of all or of none");
    check(&|r| r.other_per_node.set("gpu:a", 1), "no name of a type");
    check(
        &|r| {
            r.gpus_per_node = 1;
            r.gpu_types.set("any", 1)
        },
        "'any'",
    );
}

#[test]
fn devices_have_numbers() {
    let mut world = three();
    world.run_time = Span::from_secs(1000);
    let jobs: Vec<u64> = (0..4).map(|_| world.submit(asks("0", "fpga"))).collect();
    world.deliver_all();
    let mut all: Vec<_> = jobs.iter().map(|id| got(&world, *id).unwrap()).collect();
    all.sort();
    let want = [("n1", 0), ("n1", 1), ("n2", 0), ("n2", 1)];
    let want = want.map(|(n, f)| (n.to_owned(), Vec::new(), vec![f]));
    assert_eq!(all, want);
    // They are held across a restart of the controller, and given back.
    world.crash();
    (0..3).for_each(|n| world.connect(n));
    world.deliver_all();
    let next = world.submit(asks("0", "fpga=2"));
    world.deliver_all();
    assert_eq!(got(&world, next).unwrap().0, "n3");
    let last = world.submit(asks("0", "fpga=2"));
    world.pass(1001);
    assert_eq!(got(&world, last).unwrap().2, [0, 1]);
}

#[test]
fn types_are_known_after_a_restart() {
    let mut world = three();
    world.run_time = Span::from_secs(1000);
    let a = world.submit(asks("a:2", ""));
    world.deliver_all();
    // Checked by the invariants before any node has told anything.
    world.crash();
    let b = world.submit(asks("b", ""));
    let before = got(&world, a).unwrap();
    (0..3).for_each(|n| world.connect(n));
    world.deliver_all();
    assert_eq!(got(&world, a).unwrap(), before);
    assert_eq!(got(&world, b).unwrap().1, [1]);
}

/// A GPU dies under a job, or an administrator takes cores away: what runs goes on, nothing
/// more is put beside it, and the node comes back by itself as what it is now.
#[test]
fn a_node_that_has_less_than_its_jobs_hold() {
    let mut world = three();
    world.run_time = Span::from_secs(1000);
    let mut job = asks("a:2", "");
    job.request.cores_per_task = 4;
    let id = world.submit(job);
    world.deliver_all();
    let (node, gpus, _) = got(&world, id).unwrap();
    assert_eq!((node.as_str(), gpus.as_slice()), ("n1", &[0, 1][..]));
    world.nodes[0].gpu_types = vec!["b".to_owned(), String::new()];
    world.connect(0);
    world.deliver_all();
    let mut small = asks("0", "");
    small.request.require = vec!["n1".to_owned()];
    let beside = world.submit(small);
    world.deliver_all();
    assert_eq!(got(&world, beside), None);
    let reason = |world: &mut World| match world.ask(Request::Nodes) {
        Reply::Nodes(nodes) => nodes[0].reason.clone(),
        other => panic!("{other:?}"),
    };
    assert!(reason(&mut world).contains("less than its jobs hold"));
    world.crash();
    world.connect(0);
    world.deliver_all();
    assert_eq!(got(&world, beside), None);
    world.pass(1001);
    world.end_due();
    world.deliver_all();
    assert_eq!(reason(&mut world), "");
    assert!(got(&world, beside).is_some());
}
