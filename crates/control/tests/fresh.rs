//! Batch jobs that are looked at only some time after their submission, the first id of a
//! cluster's jobs, and what is remembered of jobs that were cancelled while they waited.

mod world;

use cosy_control::*;
use cosy_model::api::JobField;
use cosy_model::job::ResourceRequest;
use cosy_model::*;
use world::*;

fn delayed() -> World {
    let mut c = config(2, 4);
    c.policy.batch_delay = Span::from_secs(2);
    World::new(c)
}

/// Every live job, once the orders that left have been obeyed.
fn queue(world: &mut World) -> String {
    world.deliver_all();
    world.queue()
}

fn slurm(request: ResourceRequest) -> JobSpec {
    JobSpec {
        dialect: Dialect::Slurm,
        request,
        ..spec("s")
    }
}

#[test]
fn batch_jobs_start_after_the_delay() {
    let mut world = delayed();
    world.submit(spec("a"));
    world.pass(1);
    world.submit(spec("b"));
    assert_eq!(queue(&mut world), "1:waiting/fresh 2:waiting/fresh");
    world.pass(1);
    assert_eq!(queue(&mut world), "1:running 2:waiting/fresh");
    world.pass(1);
    assert_eq!(queue(&mut world), "1:running 2:running");
}

#[test]
fn a_restart_does_not_forget_jobs_that_were_not_looked_at() {
    let mut world = delayed();
    world.submit(spec("a"));
    world.crash();
    for n in 0..2 {
        world.connect(n);
    }
    assert_eq!(queue(&mut world), "1:waiting/fresh");
    world.pass(2);
    assert_eq!(queue(&mut world), "1:running");
}

#[test]
fn tasks_of_an_array_begin_in_the_order_of_their_indices() {
    let mut world = delayed();
    let array = slurm(ResourceRequest::default());
    world.try_submit(array, Some("0-3%2")).unwrap();
    world.pass(2);
    assert_eq!(
        queue(&mut world),
        "1_0:running 1_1:running 1_2:waiting/array_limit 1_3:waiting/array_limit"
    );
}

#[test]
fn allocations_do_not_wait() {
    let mut world = delayed();
    let attended = JobSpec {
        program: Program::Allocation,
        attended: true,
        ..spec("a")
    };
    world.ask_on(user(1000, "u1000"), None, allocates(attended));
    world.submit(JobSpec {
        program: Program::Allocation,
        ..spec("kept")
    });
    assert_eq!(queue(&mut world), "1:running 2:running");
}

#[test]
fn what_is_beyond_a_queue_is_told_in_full_when_it_is_looked_at() {
    let mut world = delayed();
    world.submit(slurm(ResourceRequest {
        nodes: Some(99),
        ..ResourceRequest::default()
    }));
    assert_eq!(queue(&mut world), "1:waiting/queue_limits");
    world.pass(2);
    assert_eq!(queue(&mut world), "1:waiting/queue_node_limit");
}

#[test]
fn waiting_jobs_tell_the_fewest_nodes_that_they_need() {
    for (tasks, per_node, cores, least) in [
        (1, None, 1, 1),
        (4, None, 1, 1),
        (5, None, 1, 2),
        (4, Some(2), 1, 2),
        (2, None, 3, 2),
        (100, None, 1, 25),
    ] {
        let mut world = delayed();
        world.submit(slurm(ResourceRequest {
            tasks: Some(tasks),
            tasks_per_node: per_node,
            cores_per_task: cores,
            ..ResourceRequest::default()
        }));
        let table = world.jobs(&[JobField::NodeCount]);
        let got = table.number(0, JobField::NodeCount);
        assert_eq!(got, Some(least), "{tasks} {per_node:?} {cores}");
    }
}

#[test]
fn ids_begin_where_the_configuration_says() {
    let mut c = config(1, 4);
    c.first_job = JobId(100);
    let mut world = World::new(c.clone());
    assert_eq!(world.submit(spec("a")), 100);
    c.first_job = JobId(50);
    world.event(Event::Reconfigured(Box::new(c.clone())));
    assert_eq!(world.submit(spec("b")), 101, "no id is given twice");
    c.first_job = JobId(500);
    world.event(Event::Reconfigured(Box::new(c)));
    assert_eq!(world.submit(spec("c")), 500);
}

#[test]
fn what_a_cancelled_job_waited_for_is_remembered() {
    let mut world = World::new(config(1, 4));
    let held = world.submit(JobSpec {
        hold: true,
        ..spec("h")
    });
    world.ask(cancels(ids(&[held])));
    let note = world.store.row(held).note.clone();
    let note = cosy_view::words::end_note::CancelNote::read(&note).expect("somebody cancelled it");
    assert_eq!((note.who, note.waited_for), ("u1000", Some("held_by_user")));
}
