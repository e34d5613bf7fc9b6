//! Running jobs that go on without nodes that are lost: with spare ones in their place, or with
//! what is left.

mod world;

use cosy_model::api::{self, JobField};
use cosy_model::job::ResourceRequest;
use cosy_model::node::NodeOrder;
use cosy_model::*;
use world::*;

/// Whole nodes, the last `spares` of which stand by.
fn on_nodes(nodes: u32, spares: u32) -> JobSpec {
    JobSpec {
        requeue: true,
        spares,
        request: ResourceRequest {
            nodes: Some(nodes),
            exclusive: true,
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_secs(5000)),
        ..spec("r")
    }
}

fn site(nodes: u32) -> World {
    let mut config = config(nodes, 4);
    config.policy.self_fencing = false;
    let mut world = World::new(config);
    world.run_time = Span::from_secs(4000);
    world
}

fn running(nodes: u32, spec: JobSpec) -> (World, u64) {
    let mut world = site(nodes);
    let job = world.submit(spec);
    world.deliver_all();
    world.pass(2);
    assert_eq!(world.queue(), format!("{job}:running"));
    (world, job)
}

/// A node is switched off for longer than is waited for it. Tells what its job's first node hears
/// of its nodes then.
fn loses(world: &mut World, n: usize) -> Option<Vec<String>> {
    world.switch_off(n);
    let connected: Vec<usize> = (0..world.nodes.len())
        .filter(|other| world.nodes[*other].link.is_some())
        .collect();
    world.listen(90, &connected);
    let told = world
        .orders
        .iter()
        .rev()
        .find_map(|(_, order)| match order {
            NodeOrder::Prepare(allocation) if !allocation.parts.is_empty() => {
                let names = allocation.parts.iter().map(|part| part.peer.node.clone());
                Some(names.collect())
            }
            _ => None,
        });
    world.deliver_all();
    told
}

fn shown(world: &mut World) -> String {
    let table = world.jobs(&[JobField::State, JobField::Nodes, JobField::Spares]);
    let row = |row| {
        let spares = table.number(row, JobField::Spares).unwrap_or(0);
        let (state, nodes) = (table.text(row, JobField::State), table.text(row, JobField::Nodes));
        format!("{state} {nodes} {spares}")
    };
    (0..table.rows).map(row).collect::<Vec<_>>().join(", ")
}

fn value<'a>(launch: &'a node::Launch, name: &str) -> &'a str {
    let value = variables::find(&launch.environment.0, name);
    std::str::from_utf8(value.unwrap_or_default()).expect("it is text")
}

#[test]
fn a_spare_node_takes_the_place_of_a_lost_one() {
    let (mut world, job) = running(5, on_nodes(4, 1));
    assert_eq!(shown(&mut world), "running n[1-4] 1");
    let told = loses(&mut world, 1).expect("the first node hears of it");
    assert_eq!(told, ["n1", "n3", "n4"]);
    assert_eq!(shown(&mut world), "running n[1,3-4] 0");
    assert_eq!(world.starts_of(job), 1);
    let told = "node n2 was lost; a spare one takes its place, the job goes on with n[1,3-4]";
    assert_eq!(world.notes, [(JobId(job), told.to_owned())]);
    // Whoever comes next gets the node once it is back; what is left of the job there ends.
    let other = world.submit(on_nodes(2, 0));
    world.connect_all();
    world.deliver_all();
    assert_eq!(world.queue(), format!("{job}:running {other}:running"));
    // There is no other spare: the job begins anew.
    let told = loses(&mut world, 2);
    assert_eq!(told, None);
    assert_eq!(world.queue(), format!("{job}:waiting/resources {other}:running"));
}

#[test]
fn what_is_told_survives_the_controller() {
    let (mut world, job) = running(4, on_nodes(4, 1));
    world.crash();
    world.connect_all();
    world.deliver_all();
    assert_eq!(shown(&mut world), "running n[1-4] 1");
    world.switch_off(1);
    world.listen(90, &[0, 2, 3]);
    // It ends before anybody has heard.
    world.orders.clear();
    world.crash();
    world.connect(0);
    let told = world.orders.iter().any(|(_, order)| match order {
        NodeOrder::Prepare(allocation) => allocation.parts.len() == 3,
        _ => false,
    });
    assert!(told, "it is told again");
    world.connect_all();
    world.deliver_all();
    assert_eq!(shown(&mut world), "running n[1,3-4] 0");
    world.pass(4100);
    assert_eq!(world.state_of(job), JobState::Completed);
    assert_eq!(world.starts_of(job), 1);
}

#[test]
fn its_program_sees_the_nodes_that_serve() {
    let mut wanted = on_nodes(4, 1);
    wanted.request.tasks = Some(8);
    let mut world = site(4);
    world.submit(wanted);
    let launch = world.next_launch();
    assert_eq!(value(&launch, "COSY_NODES"), "n[1-3]");
    assert_eq!(value(&launch, "COSY_NODE_COUNT"), "3");
    assert_eq!(value(&launch, "COSY_TASKS"), "6");
    assert_eq!(value(&launch, "COSY_SPARES"), "1");
    assert_eq!(launch.allocation.nodes, "n[1-4]", "its ticket is good on all");
    world.deliver_all();
    // A spare that is lost is one less, and nobody else need be told.
    loses(&mut world, 3);
    assert_eq!(shown(&mut world), "running n[1-3] 0");
}

#[test]
fn without_its_first_node_it_begins_anew() {
    let (mut world, job) = running(6, on_nodes(3, 1));
    assert_eq!(loses(&mut world, 0), None);
    assert_eq!(world.starts_of(job), 2);
    assert_eq!(shown(&mut world), "running n[2-4] 1");
}

#[test]
fn with_what_is_left() {
    let mut wanted = on_nodes(3, 0);
    wanted.no_kill = true;
    let (mut world, job) = running(3, wanted);
    assert_eq!(loses(&mut world, 2).expect("it hears"), ["n1", "n2"]);
    // The node is restarted so fast that nobody misses it.
    world.switch_off(1);
    world.connect(1);
    world.deliver_all();
    assert_eq!(shown(&mut world), "running n1 0");
    assert_eq!(world.starts_of(job), 1);
    loses(&mut world, 0);
    assert_eq!(world.queue(), format!("{job}:waiting/nodes_unavailable"));
}

/// A node that the job is giving back is none of those that it has.
#[test]
fn a_node_that_leaves_costs_no_spare() {
    let (mut world, job) = running(5, on_nodes(5, 1));
    world.ask(api::Request::Change {
        filter: ids(&[job]),
        change: Box::new(api::JobChange {
            keep_nodes: Some(["n1", "n2", "n4", "n5"].map(str::to_owned).to_vec()),
            ..api::JobChange::default()
        }),
    });
    // It does not say that it is clean any more.
    world.orders.clear();
    loses(&mut world, 2);
    assert_eq!(shown(&mut world), "running n[1-2,4-5] 1");
    assert_eq!(world.starts_of(job), 1);
}

/// An administrator gives up a node that can be reached: what the job has there ends first.
#[test]
fn a_node_that_is_set_down() {
    let (mut world, job) = running(4, on_nodes(4, 1));
    world.ask_as(
        user(0, "root"),
        None,
        api::Request::NodeControl {
            nodes: vec!["n2".into()],
            action: api::NodeAction::Down {
                reason: "burnt".into(),
            },
        },
    );
    world.deliver_all();
    assert_eq!(shown(&mut world), "running n[1,3-4] 0");
    assert!(!world.nodes[1].known.contains_key(&attempt(job, 1)));
    assert_eq!(world.starts_of(job), 1);
}

/// Only what runs goes on: who is cancelled ends.
#[test]
fn who_is_told_to_end_does() {
    let (mut world, job) = running(3, on_nodes(3, 1));
    world.unheard.extend([0, 1, 2]);
    world.ask(api::Request::Cancel {
        filter: ids(&[job]),
        signal: None,
        script_only: false,
        steps_only: false,
    });
    world.disconnect(1);
    world.listen(90, &[]);
    world.unheard.clear();
    world.connect_all();
    world.deliver_all();
    assert_eq!(world.state_of(job), JobState::Cancelled);
}

#[test]
fn what_is_asked_for_has_to_fit() {
    let mut world = site(4);
    let mut check = |change: &dyn Fn(&mut JobSpec), want: &str| {
        let mut wanted = on_nodes(3, 1);
        change(&mut wanted);
        let got = world
            .try_submit(wanted, None)
            .map_err(|refusal| refusal.message);
        match want {
            "" => assert!(got.is_ok(), "{got:?}"),
            _ => assert!(got.as_ref().is_err_and(|why| why.contains(want)), "{got:?}"),
        }
    };
    check(&|_| {}, "");
    check(&|spec| spec.request.nodes = None, "beside a number of nodes");
    check(&|spec| spec.spares = 3, "beside a number of nodes");
    check(&|spec| spec.spares = u32::MAX, "beside a number of nodes");
    check(&|spec| spec.request.tasks = Some(4), "as many tasks");
    check(&|spec| spec.request.gpus_in_all = Some(2), "as many tasks and GPUs");
    check(&|spec| spec.request.max_nodes = Some(4), "one number of them");
}
