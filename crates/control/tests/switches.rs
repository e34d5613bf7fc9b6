//! The switches of the network: nodes of a job are taken from few, it waits for as few as it asks
//! for, and not for ever; nodes side by side, and lighter ones first.

mod world;

use cosy_control::{ClusterConfig, Event};
use cosy_model::api::{JobChange, JobField, Reply, Request};
use cosy_model::job::SwitchRequest;
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::*;
use world::*;

/// Eight nodes on four leaf switches, of which two are under one more.
fn site() -> ClusterConfig {
    let words = |text: &str| expand(text).unwrap_or_default();
    let switch = |name: &str, nodes: &str, below: &str| SwitchSpec {
        name: name.to_owned(),
        nodes: words(nodes),
        switches: words(below),
    };
    ClusterConfig {
        switches: vec![
            switch("left", "", "s[1-2]"),
            switch("s1", "n[1-2]", ""),
            switch("s2", "n[3-4]", ""),
            switch("s3", "n[5-6]", ""),
            switch("s4", "n[7-8]", ""),
        ],
        ..config(8, 4)
    }
}

/// A job of so many whole nodes for so long.
fn wide(name: &str, nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: whole_nodes(nodes),
        time_limit: Some(Span::from_secs(secs)),
        ..spec(name)
    }
}

fn on(mut spec: JobSpec, nodes: &[&str]) -> JobSpec {
    spec.request.require = nodes.iter().map(|name| (*name).to_owned()).collect();
    spec
}

fn on_one_switch(spec: JobSpec, wait: Option<i64>) -> JobSpec {
    let switches = SwitchRequest {
        wait: wait.map(Span::from_secs),
        ..SwitchRequest::of(1)
    };
    let request = job::ResourceRequest {
        switches: Some(switches),
        ..spec.request
    };
    JobSpec { request, ..spec }
}

fn started(world: &mut World, spec: JobSpec) -> String {
    let job = world.submit(spec);
    world.deliver_all();
    world.text(job, JobField::Nodes)
}

/// Its owner changes how many switches a job waits for.
fn asks_for(world: &mut World, job: u64, switches: SwitchRequest) {
    let change = JobChange {
        switches: Some(switches),
        ..JobChange::default()
    };
    world.ask(Request::Change {
        filter: ids(&[job]),
        change: Box::new(change),
    });
}

/// A node of each of the first three switches is busy for long, and all of the fourth.
fn scattered() -> World {
    let mut world = World::new(site());
    world.run_time = Span::from_secs(100_000);
    for node in ["n1", "n3", "n5"] {
        world.submit(on(wide("long", 1, 50_000), &[node]));
    }
    world.submit(on(wide("soon", 2, 1000), &["n7", "n8"]));
    world.deliver_all();
    world
}

#[test]
fn nodes_are_taken_from_few_switches() {
    let mut world = World::new(site());
    world.run_time = Span::from_secs(100_000);
    assert_eq!(started(&mut world, wide("a", 1, 5000)), "n1");
    // Not n2 and n3.
    assert_eq!(started(&mut world, wide("b", 2, 5000)), "n[3-4]");
    // One node on the switch that has least to lose, and the rest on as few as there are.
    assert_eq!(started(&mut world, wide("c", 3, 5000)), "n[2,5-6]");
    assert_eq!(started(&mut world, wide("d", 2, 5000)), "n[7-8]");
}

#[test]
fn under_one_switch_of_the_tree_rather_than_two() {
    let mut world = World::new(site());
    world.run_time = Span::from_secs(100_000);
    assert_eq!(started(&mut world, on(wide("a", 1, 5000), &["n5"])), "n5");
    assert_eq!(started(&mut world, wide("b", 4, 5000)), "n[1-4]");
}

#[test]
fn it_waits_for_one_switch_and_no_longer_than_it_says() {
    let mut world = scattered();
    // Two nodes of two switches are free; those of the fourth come back after 1000 seconds.
    let patient = world.submit(on_one_switch(wide("patient", 2, 100), Some(2000)));
    let hasty = world.submit(on_one_switch(wide("hasty", 2, 100), Some(600)));
    world.deliver_all();
    assert_eq!(world.state_of(patient), JobState::Waiting);
    assert_eq!(world.state_of(hasty), JobState::Waiting);
    world.pass(590);
    assert_eq!(world.state_of(hasty), JobState::Waiting);
    world.pass(20);
    assert_eq!(world.text(hasty, JobField::Nodes), "n[2,4]");
    assert_eq!(world.number(hasty, JobField::MaxSwitches), Some(1));
    assert_eq!(world.state_of(patient), JobState::Waiting);
    world.pass(430);
    assert_eq!(world.text(patient, JobField::Nodes), "n[7-8]");
}

#[test]
fn without_a_time_it_waits_as_long_as_the_site_has_it() {
    let check = |site: ClusterConfig, wait: Option<i64>, until: i64| {
        let mut world = World::new(site);
        world.run_time = Span::from_secs(100_000);
        for node in ["n1", "n3", "n5", "n7"] {
            world.submit(on(wide("long", 1, 50_000), &[node]));
        }
        let job = world.submit(on_one_switch(wide("a", 2, 100), wait));
        world.pass(until - 5);
        assert_eq!(world.state_of(job), JobState::Waiting, "{wait:?}");
        // A restart of the controller forgets no waiting.
        world.crash();
        world.connect_all();
        world.pass(20);
        assert_eq!(world.text(job, JobField::Nodes), "n[2,4]", "{wait:?}");
    };
    check(site(), None, 300);
    let mut bounded = site();
    bounded.policy.max_switch_wait = Span::from_secs(60);
    check(bounded, Some(5000), 60);
}

#[test]
fn each_task_of_an_array_settles_for_more() {
    let mut world = scattered();
    let spec = on_one_switch(wide("a", 2, 100), Some(60));
    let base = world.try_submit(spec, Some("1-3")).expect("accepted");
    world.pass(70);
    assert_eq!(world.text(base, JobField::Nodes), "n[2,4]");
    world.pass(250);
    assert!(world.queue().ends_with("5_3:running"), "{}", world.queue());
}

#[test]
fn a_change_lets_it_go() {
    let mut world = scattered();
    let job = world.submit(on_one_switch(wide("a", 2, 100), Some(2000)));
    world.pass(10);
    assert_eq!(world.state_of(job), JobState::Waiting);
    asks_for(&mut world, job, SwitchRequest::of(0));
    world.deliver_all();
    assert_eq!(world.text(job, JobField::Nodes), "n[2,4]");
}

#[test]
fn what_no_switch_ever_has_is_refused_or_not_waited_for() {
    let mut world = World::new(site());
    world.run_time = Span::from_secs(100_000);
    let refused = world.try_submit(on_one_switch(wide("a", 3, 100), None), None);
    let why = refused.expect_err("no switch has three nodes").message;
    assert!(why.contains("no switch has"), "{why}");
    let slurm = JobSpec {
        dialect: Dialect::Slurm,
        ..on_one_switch(wide("b", 3, 100), None)
    };
    assert_eq!(started(&mut world, slurm), "n[1-3]");
    // One node is always on one switch, and where none are configured nobody waits.
    assert_eq!(started(&mut world, on_one_switch(wide("c", 1, 100), None)), "n4");
    let mut world = World::new(config(8, 4));
    assert_eq!(started(&mut world, on_one_switch(wide("d", 5, 100), None)), "n[1-5]");
}

#[test]
fn nodes_side_by_side() {
    let mut world = scattered();
    let beside = |nodes| {
        let mut spec = wide("a", nodes, 100);
        spec.request.contiguous = true;
        spec
    };
    let job = world.submit(beside(2));
    world.pass(990);
    assert_eq!(world.state_of(job), JobState::Waiting);
    world.pass(20);
    assert_eq!(world.text(job, JobField::Nodes), "n[6-7]");
    let why = world
        .try_submit(beside(9), None)
        .expect_err("eight nodes")
        .message;
    assert!(why.contains("9 nodes"), "{why}");
    let mut apart = beside(3);
    apart.request.avoid = ["n3", "n6"].map(str::to_owned).to_vec();
    let why = world.try_submit(apart, None).expect_err("no three").message;
    assert!(why.contains("nowhere side by side"), "{why}");
}

#[test]
fn lighter_nodes_first() {
    let mut site = site();
    for (at, node) in site.nodes.iter_mut().enumerate() {
        node.weight = if at < 4 { 10 } else { 1 };
    }
    let mut world = World::new(site);
    world.run_time = Span::from_secs(100_000);
    assert_eq!(started(&mut world, wide("a", 1, 5000)), "n5");
    assert_eq!(started(&mut world, wide("b", 2, 5000)), "n[7-8]");
    // The lighter one, and the others on one switch.
    assert_eq!(started(&mut world, wide("c", 3, 5000)), "n[1-2,6]");
}

#[test]
fn another_configuration_counts_at_once() {
    let mut world = scattered();
    let job = world.submit(on_one_switch(wide("a", 2, 100), Some(5000)));
    world.pass(10);
    assert_eq!(world.state_of(job), JobState::Waiting);
    let mut other = site();
    other.switches = vec![SwitchSpec {
        name: "one".to_owned(),
        nodes: expand("n[1-8]").expect("a list"),
        switches: Vec::new(),
    }];
    world.event(Event::Reconfigured(Box::new(other)));
    world.deliver_all();
    assert_eq!(world.text(job, JobField::Nodes), "n[2,4]");
}

#[test]
fn groups_of_nodes_on_one_switch_each() {
    let mut world = scattered();
    let segments = |nodes, segment| {
        let mut spec = wide("a", nodes, 100);
        spec.request.segment = Some(segment);
        spec
    };
    // n2, n4 and n6 are free, each alone on its switch.
    assert_eq!(started(&mut world, segments(2, 1)), "n[2,4]");
    let job = world.submit(segments(2, 2));
    world.pass(990);
    assert_eq!(world.state_of(job), JobState::Waiting);
    world.pass(20);
    assert_eq!(world.text(job, JobField::Nodes), "n[7-8]");
    assert_eq!(world.number(job, JobField::Segment), Some(2));
    let mut check = |spec, want: &str| {
        let why = world.try_submit(spec, None).expect_err(want).message;
        assert!(why.contains(want), "{why}");
    };
    check(segments(3, 2), "3 nodes cannot be had in segments of 2");
    check(segments(3, 0), "segments of 0");
    check(segments(3, 3), "groups of 3 such nodes do not have that many together");
    check(on(segments(2, 2), &["n1"]), "goes neither with nodes by name");
    let mut none = segments(2, 2);
    none.request.nodes = None;
    check(none, "need a number of nodes");
    let mut zero = on_one_switch(wide("a", 2, 100), Some(-5));
    check(zero.clone(), "less than 0");
    zero.request.switches = Some(SwitchRequest::of(0));
    check(zero, "0 switches cannot be asked for");
    // Reservations are held to the same.
    let three = segments(3, 2).request;
    let ask = ReservationSpec::plain(three, Span::from_secs(100), StartChoice::Soonest);
    match world.ask(quotes(ask)) {
        Reply::Refused(why) => assert!(why.message.contains("in segments of 2"), "{why:?}"),
        other => panic!("{other:?}"),
    }
    // Where no switches are configured all nodes are alike.
    let mut world = World::new(config(4, 4));
    assert_eq!(started(&mut world, segments(4, 2)), "n[1-4]");
}

#[test]
fn after_a_loss_or_a_change_it_waits_anew() {
    let mut world = World::new(site());
    world.run_time = Span::from_secs(100_000);
    let mut wanted = on_one_switch(wide("a", 2, 50_000), Some(60));
    wanted.requeue = true;
    let job = world.submit(wanted);
    world.deliver_all();
    assert_eq!(world.text(job, JobField::Nodes), "n[1-2]");
    for node in ["n3", "n5", "n7"] {
        world.submit(on(wide("long", 1, 50_000), &[node]));
    }
    world.pass(100);
    world.switch_off(0);
    world.listen(90, &[1, 2, 3, 4, 5, 6, 7]);
    world.deliver_all();
    // n2, n4, n6 and n8 are free, each alone on its switch.
    assert_eq!(world.state_of(job), JobState::Waiting);
    assert!(world.explained(job).contains("no more than 1 switch for"), "{}", world.explained(job));
    let for_long = SwitchRequest {
        wait: Some(Span::from_secs(1000)),
        ..SwitchRequest::of(1)
    };
    asks_for(&mut world, job, for_long);
    world.listen(900, &[1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(world.state_of(job), JobState::Waiting);
    world.listen(150, &[1, 2, 3, 4, 5, 6, 7]);
    world.deliver_all();
    assert_eq!(world.text(job, JobField::Nodes), "n[2,4]");
}

#[test]
fn a_range_of_nodes_is_not_widened_onto_other_switches() {
    let mut world = World::new(site());
    world.run_time = Span::from_secs(100_000);
    let mut wanted = on_one_switch(wide("a", 2, 100), None);
    wanted.request.tasks = None;
    wanted.request.max_nodes = Some(4);
    assert_eq!(started(&mut world, wanted), "n[1-2]");
    let mut wanted = on_one_switch(wide("b", 1, 100), None);
    wanted.request.tasks = None;
    wanted.request.max_nodes = Some(4);
    assert_eq!(started(&mut world, wanted), "n3");
}

#[test]
fn where_it_asks_in_vain_nothing_is_told_of_it() {
    let mut world = World::new(config(2, 4));
    world.run_time = Span::from_secs(100_000);
    world.submit(wide("long", 2, 50_000));
    let job = world.submit(on_one_switch(wide("a", 2, 100), None));
    world.pass(400);
    assert_eq!(world.state_of(job), JobState::Waiting);
    assert!(!world.explained(job).contains("switch"), "{}", world.explained(job));
}
