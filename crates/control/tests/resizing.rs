//! Running jobs that give nodes back: what they keep, who gets the others, and what a crash
//! or a lost node at any moment makes of it.

mod world;

use cosy_model::api::{JobChange, JobField, NodeAction, Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::node::NodeOrder;
use cosy_model::*;
use world::*;

fn on_nodes(nodes: u32) -> JobSpec {
    JobSpec {
        dialect: Dialect::Slurm,
        requeue: true,
        request: ResourceRequest {
            nodes: Some(nodes),
            exclusive: true,
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_secs(1000)),
        ..spec("r")
    }
}

/// Four nodes, and a job that runs on all of them.
fn world_of_one() -> (World, u64) {
    let mut world = World::new(config(4, 4));
    world.run_time = Span::from_secs(500);
    let id = world.submit(on_nodes(4));
    world.deliver_all();
    world.pass(5);
    (world, id)
}

fn count(nodes: u32) -> JobChange {
    JobChange {
        nodes: Some(nodes),
        ..JobChange::default()
    }
}

fn keep(names: &[&str]) -> JobChange {
    JobChange {
        keep_nodes: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..JobChange::default()
    }
}

/// What is said against it.
fn change(world: &mut World, id: u64, change: JobChange) -> Option<Refusal> {
    let request = Request::Change {
        filter: ids(&[id]),
        change: Box::new(change),
    };
    match world.ask(request) {
        Reply::Done { refused, .. } => refused.into_iter().next().map(|(_, refusal)| refusal),
        Reply::Refused(refusal) => Some(refusal),
        other => panic!("{other:?}"),
    }
}

/// The nodes of each live job.
fn nodes(world: &mut World) -> String {
    world.deliver_all();
    let table = world.jobs(&[JobField::Id, JobField::Nodes]);
    let one = |row| {
        let id = table.number(row, JobField::Id).unwrap_or(0);
        format!("{id}:{}", table.text(row, JobField::Nodes))
    };
    (0..table.rows).map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn others_get_the_nodes_that_a_job_gives_back() {
    let (mut world, first) = world_of_one();
    world.submit(on_nodes(2));
    assert_eq!(nodes(&mut world), "1:n[1-4] 2:");
    assert_eq!(change(&mut world, first, count(2)), None);
    // The first node is told which are left.
    let told = world.orders.iter().find_map(|(_, order)| match order {
        NodeOrder::Prepare(allocation) if allocation.node == "n1" => Some(
            allocation
                .parts
                .iter()
                .map(|part| part.peer.node.clone())
                .collect::<Vec<_>>(),
        ),
        _ => None,
    });
    assert_eq!(told.unwrap_or_default(), ["n1", "n2"]);
    assert_eq!(nodes(&mut world), "1:n[1-2] 2:n[3-4]");
    let table = world.jobs(&[JobField::Id, JobField::Resized, JobField::NodeCount]);
    assert_eq!(table.number(0, JobField::Resized), Some(world.now.0));
    assert_eq!(table.number(0, JobField::NodeCount), Some(2));
    world.crash();
    (0..4).for_each(|n| world.connect(n));
    assert_eq!(nodes(&mut world), "1:n[1-2] 2:n[3-4]");
    // Nodes by name; the same ones again are no trouble.
    assert_eq!(change(&mut world, first, keep(&["n1"])), None);
    assert_eq!(change(&mut world, first, keep(&["n1"])), None);
    world.submit(on_nodes(1));
    assert_eq!(nodes(&mut world), "1:n1 2:n[3-4] 3:n2");
    world.pass(600);
    assert_eq!(world.state_of(first), JobState::Completed);
}

#[test]
fn orders_that_are_lost_are_given_again() {
    let (mut world, first) = world_of_one();
    world.submit(on_nodes(1));
    assert_eq!(change(&mut world, first, count(3)), None);
    world.orders.clear();
    world.crash();
    (0..3).for_each(|n| world.connect(n));
    // The fourth node has not said that it is clean.
    assert_eq!(nodes(&mut world), "1:n[1-3] 2:");
    world.connect(3);
    assert_eq!(nodes(&mut world), "1:n[1-3] 2:n4");
}

#[test]
fn a_node_that_leaves_may_be_lost() {
    let (mut world, first) = world_of_one();
    assert_eq!(change(&mut world, first, count(3)), None);
    world.orders.clear();
    world.ask_as(
        user(0, "root"),
        None,
        Request::NodeControl {
            nodes: vec!["n4".to_owned()],
            action: NodeAction::Down {
                reason: "x".to_owned(),
            },
        },
    );
    assert_eq!(nodes(&mut world), "1:n[1-3]");
    // One that is left ends it, and it waits for as many nodes as at first.
    world.ask_as(
        user(0, "root"),
        None,
        Request::NodeControl {
            nodes: vec!["n3".to_owned()],
            action: NodeAction::Down {
                reason: "x".to_owned(),
            },
        },
    );
    assert_eq!(nodes(&mut world), "1:");
    let table = world.jobs(&[JobField::Id, JobField::NodeCount]);
    assert_eq!(table.number(0, JobField::NodeCount), Some(4));
}

#[test]
fn a_job_that_gives_nodes_back_may_end_meanwhile() {
    let (mut world, first) = world_of_one();
    assert_eq!(change(&mut world, first, count(1)), None);
    world.ask(cancels(ids(&[first])));
    world.deliver_all();
    assert_eq!(world.state_of(first), JobState::Cancelled);
    world.submit(on_nodes(4));
    assert_eq!(nodes(&mut world), "2:n[1-4]");
}

#[test]
fn what_is_refused() {
    let (mut world, first) = world_of_one();
    let about = |world: &mut World, id, asked| change(world, id, asked).map(|r| r.about);
    let nodes_wrong = Some(Some(About::NodeCount));
    assert_eq!(about(&mut world, first, count(5)), nodes_wrong);
    assert_eq!(about(&mut world, first, count(0)), nodes_wrong);
    let node_wrong = Some(Some(About::Node));
    assert_eq!(about(&mut world, first, keep(&["n2", "n3"])), node_wrong);
    assert_eq!(about(&mut world, first, keep(&["n1", "n9"])), node_wrong);
    assert_eq!(about(&mut world, first, keep(&[])), node_wrong);
    assert_eq!(about(&mut world, first, count(4)), None);
    let waiting = world.submit(on_nodes(1));
    let waits = Some(Some(About::Waiting));
    assert_eq!(about(&mut world, waiting, keep(&["n1"])), waits);
    assert_eq!(nodes(&mut world), "1:n[1-4] 2:");
}
