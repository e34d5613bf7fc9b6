//! Jobs whose nodes do not end them in time are ended by the controller.

mod world;

use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::{JobSpec, JobState, Span};
use world::{World, config, spec, whole_nodes};

fn limited(nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: whole_nodes(nodes),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("late")
    }
}

/// The jobs that nodes are told to end because their time is over.
fn told_to_end(world: &World) -> Vec<u64> {
    let all = world.orders.iter().filter_map(|(_, order)| match order {
        NodeOrder::Kill {
            key,
            cause: KillCause::TimeLimit,
            ..
        } => Some(key.number()),
        _ => None,
    });
    all.collect()
}

#[test]
fn a_late_job_is_ended() {
    let mut world = World::new(config(2, 4));
    world.connect_all();
    let id = world.submit(limited(2, 60));
    world.pass(2);
    assert_eq!(world.starts_of(id), 1);
    // Its nodes have twice the grace, and half a minute more.
    let last = 60 + 2 * config(1, 4).policy.grace.secs() + 30;
    world.listen(last - 3, &[0, 1]);
    assert_eq!(told_to_end(&world), [0; 0]);
    world.listen(4, &[0, 1]);
    assert!(told_to_end(&world).contains(&id));
    let told = told_to_end(&world).len();
    assert!(told <= 4, "once a turn, and not on each node: {told}");
    world.deliver_all();
    assert_eq!(world.state_of(id), JobState::TimedOut);
}

/// On many nodes one turn does not look at all jobs: the next one goes on where it has ended.
#[test]
fn a_late_job_on_the_last_node_is_found() {
    let mut world = World::new(config(1101, 4));
    world.connect_all();
    let long = world.submit(limited(1100, 90_000));
    let id = world.submit(limited(1, 60));
    world.pass(2);
    assert_eq!((world.starts_of(long), world.starts_of(id)), (1, 1));
    world.now = world.now + Span::from_secs(60 + 2 * config(1, 4).policy.grace.secs() + 30);
    world.listen(2, &[]);
    let told = told_to_end(&world);
    assert!(!told.is_empty() && told.iter().all(|one| *one == id), "{told:?}");
}
