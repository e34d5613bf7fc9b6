//! What jobs used of energy and GPUs: each of their nodes tells it once, and a job's end has the sum.

mod world;

use cosy_model::api::JobField;
use cosy_model::node::{AttemptKey, NodeReport};
use cosy_model::*;
use world::*;

fn used(energy_uj: u64, gpu_peak_bytes: u64) -> DeviceUse {
    DeviceUse {
        energy_uj: Some(energy_uj),
        gpu_us: 1000,
        gpu_busy_us: 500,
        gpu_peak_bytes,
    }
}

fn ended(world: &mut World, n: usize, key: AttemptKey, devices: DeviceUse) {
    let end = End {
        start: Some(world.now),
        devices,
        ..End::never_ran(EndCause::Exited, world.now)
    };
    let node = world.nodes[n].name.clone();
    let report = NodeReport::Ended {
        key: key.into(),
        node,
        end,
        drain: None,
    };
    world.report(n, report);
}

fn released(world: &mut World, n: usize, key: AttemptKey, devices: DeviceUse) {
    let node = world.nodes[n].name.clone();
    let report = NodeReport::Released {
        key: key.into(),
        node,
        drain: None,
        devices,
    };
    world.report(n, report);
}

/// A job runs on all of so many nodes.
fn wide(nodes: u32) -> (World, u64, AttemptKey) {
    let mut world = World::new(config(nodes, 4));
    world.run_time = Span::from_secs(100_000);
    let mut wide = spec("wide");
    wide.request.nodes = Some(nodes);
    wide.request.exclusive = true;
    let job = world.submit(wide);
    world.deliver_all();
    let key = attempt(job, 1).job().expect("of a job");
    (world, job, key)
}

#[test]
fn each_node_counts_once() {
    let (mut world, job, key) = wide(3);
    ended(&mut world, 0, key, used(7_000_000, 5));
    ended(&mut world, 0, key, used(7_000_000, 5));
    assert_eq!(world.text(job, JobField::State), "completing");
    assert_eq!(world.text(job, JobField::Energy), "", "not all nodes have told");
    released(&mut world, 1, key, used(3_000_000, 9));
    released(&mut world, 1, key, used(3_000_000, 9));
    // A daemon of an earlier release tells nothing.
    released(&mut world, 2, key, DeviceUse::default());
    let end = world.store.row(job).end.clone().expect("it has ended");
    let want = DeviceUse {
        energy_uj: Some(10_000_000),
        gpu_us: 2000,
        gpu_busy_us: 1000,
        gpu_peak_bytes: 9,
    };
    assert_eq!(end.devices, want);
}

#[test]
fn a_controller_that_begins_anew_knows_the_first() {
    let (mut world, job, key) = wide(2);
    ended(&mut world, 0, key, used(7_000_000, 5));
    world.crash();
    world.connect(0);
    world.connect(1);
    released(&mut world, 1, key, used(3_000_000, 9));
    world.deliver_all();
    let end = world.store.row(job).end.clone().expect("it has ended");
    assert_eq!(end.devices.energy_uj, Some(10_000_000));
}
