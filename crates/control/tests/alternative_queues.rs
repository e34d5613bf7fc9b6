//! Jobs that may go to one of several queues.

mod world;

use cosy_model::api::{JobChange, JobField, Reply, Request};
use cosy_model::job::ResourceRequest;
use cosy_model::*;
use world::*;

/// Queue `main` has the first node, queue `other` the second.
fn two_queues() -> World {
    let mut config = config(2, 4);
    let nodes = |name: &str| Some(vec![name.to_owned()]);
    config.queues[0].nodes = nodes("n1");
    config.queues.push(QueueSpec {
        name: "other".to_owned(),
        nodes: nodes("n2"),
        ..config.queues[0].clone()
    });
    let mut world = World::new(config);
    world.run_time = Span::from_secs(900);
    world
}

fn whole(world: &World, queue: usize) -> JobSpec {
    JobSpec {
        queue: Some(world.config.queues[queue].name.clone()),
        request: ResourceRequest {
            nodes: Some(1),
            exclusive: true,
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_secs(1000)),
        ..spec("whole")
    }
}

fn either(world: &World) -> JobSpec {
    let names = world.config.queues.iter().map(|q| q.name.clone());
    JobSpec {
        queues: names.collect(),
        ..whole(world, 0)
    }
}

fn queue_of(world: &mut World, id: u64) -> String {
    world.deliver_all();
    let table = world.jobs(&[JobField::Id, JobField::Queue, JobField::State]);
    let mut rows = 0..table.rows;
    let row = rows.find(|row| table.number(*row, JobField::Id) == Some(id as i64));
    let row = row.expect("it is there");
    let text = |field| table.text(row, field);
    format!("{} {}", text(JobField::Queue), text(JobField::State))
}

fn cancel(world: &mut World, id: u64) {
    let request = cancels(ids(&[id]));
    world.ask_as(user(0, "root"), None, request);
    world.deliver_all();
}

#[test]
fn it_goes_where_it_can_start() {
    let mut world = two_queues();
    let first = world.submit(whole(&world, 0));
    let second = world.submit(whole(&world, 1));
    let job = world.submit(either(&world));
    world.pass(3);
    let main = world.config.queues[0].name.clone();
    assert_eq!(queue_of(&mut world, job), format!("{main} waiting"));
    cancel(&mut world, second);
    world.pass(30);
    assert_eq!(queue_of(&mut world, job), "other running");
    world.crash();
    (0..2).for_each(|n| world.connect(n));
    world.pass(3);
    assert_eq!(queue_of(&mut world, job), "other running");
    assert_eq!(queue_of(&mut world, first), format!("{main} running"));
}

/// Where queues share nodes, the place that is kept for the job itself keeps it from nothing.
#[test]
fn its_own_place_is_not_in_its_way() {
    let mut config = config(3, 4);
    let nodes = |names: [&str; 2]| Some(names.map(str::to_owned).to_vec());
    config.queues[0].nodes = nodes(["n1", "n2"]);
    config.queues.push(QueueSpec {
        name: "other".to_owned(),
        nodes: nodes(["n2", "n3"]),
        ..config.queues[0].clone()
    });
    let mut world = World::new(config);
    world.run_time = Span::from_secs(900);
    let mut first = whole(&world, 0);
    first.request.require = vec!["n1".to_owned()];
    world.submit(first);
    let mut both = JobSpec {
        time_limit: Some(Span::from_secs(2000)),
        ..either(&world)
    };
    both.request.nodes = Some(2);
    let both = world.submit(both);
    world.pass(3);
    assert_eq!(queue_of(&mut world, both), "other running");
}

#[test]
fn nobody_waits_for_it_there() {
    let mut world = two_queues();
    world.submit(whole(&world, 0));
    let second = world.submit(whole(&world, 1));
    let before = world.submit(whole(&world, 1));
    let job = world.submit(either(&world));
    cancel(&mut world, second);
    world.pass(30);
    assert_eq!(queue_of(&mut world, before), "other running");
    let main = world.config.queues[0].name.clone();
    assert_eq!(queue_of(&mut world, job), format!("{main} waiting"));
}

#[test]
fn who_chooses_a_queue_has_chosen() {
    let mut world = two_queues();
    world.submit(whole(&world, 0));
    let second = world.submit(whole(&world, 1));
    let job = world.submit(either(&world));
    let main = world.config.queues[0].name.clone();
    let change = JobChange {
        queue: Some(main.clone()),
        ..JobChange::default()
    };
    let request = Request::Change {
        filter: ids(&[job]),
        change: Box::new(change),
    };
    world.ask(request);
    cancel(&mut world, second);
    world.pass(30);
    assert_eq!(queue_of(&mut world, job), format!("{main} waiting"));
}

#[test]
fn a_queue_that_there_is_not() {
    let mut world = two_queues();
    let mut job = either(&world);
    job.queues.push("nope".to_owned());
    let refused = world.try_submit(job, None).expect_err("it is refused");
    assert_eq!(refused.code, RefusalCode::NotFound);
    let known = either(&world);
    assert!(matches!(
        world.ask(Request::Submit(Box::new(api::Submission {
            spec: known,
            script: OsText::default(),
            array: None,
        }))),
        Reply::Submitted { .. }
    ));
}
