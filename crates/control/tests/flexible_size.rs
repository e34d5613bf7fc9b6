//! Jobs with a least and a most number of nodes: they get as many as nobody else can use.

mod world;

use cosy_model::api::JobField;
use cosy_model::job::ResourceRequest;
use cosy_model::*;
use world::*;

fn between(least: u32, most: u32) -> JobSpec {
    JobSpec {
        request: ResourceRequest {
            nodes: Some(least),
            max_nodes: Some(most),
            exclusive: true,
            ..ResourceRequest::default()
        },
        ..spec("wide")
    }
}

fn exactly(nodes: u32, secs: i64) -> JobSpec {
    let mut job = between(nodes, nodes);
    job.request.max_nodes = None;
    job.time_limit = Some(Span::from_secs(secs));
    job
}

fn nodes(world: &mut World, id: u64) -> (i64, i64) {
    world.deliver_all();
    let table = world.jobs(&[JobField::Id, JobField::NodeCount, JobField::Tasks]);
    let mut rows = 0..table.rows;
    let row = rows
        .find(|row| table.number(*row, JobField::Id) == Some(id as i64))
        .expect("it is there");
    let number = |field| table.number(row, field).expect("a number");
    (number(JobField::NodeCount), number(JobField::Tasks))
}

#[test]
fn as_many_as_are_idle() {
    for (least, most, want) in [(1, 3, 3), (1, 4, 4), (2, 9, 4), (4, 9, 4)] {
        let mut world = World::new(config(4, 4));
        let id = world.submit(between(least, most));
        assert_eq!(nodes(&mut world, id), (want, want), "{least}-{most}");
    }
}

#[test]
fn tasks_of_each_node() {
    let mut world = World::new(config(4, 4));
    let mut job = between(1, 3);
    job.request.tasks_per_node = Some(2);
    let id = world.submit(job);
    assert_eq!(nodes(&mut world, id), (3, 6));
}

#[test]
fn a_number_of_tasks_stays_where_it_fits() {
    let mut world = World::new(config(4, 4));
    let mut job = between(1, 3);
    job.request.tasks = Some(4);
    let id = world.submit(job);
    assert_eq!(nodes(&mut world, id), (1, 4));
}

#[test]
fn tasks_take_as_few_nodes_as_they_need() {
    let asked = |least, most, tasks| {
        let mut job = between(least, most);
        job.request.tasks = Some(tasks);
        job
    };
    for (least, most, tasks, want) in [
        (1, 2, 8, 2),
        (1, 4, 9, 3),
        (2, 4, 4, 2),
        (2, 4, 12, 3),
        (2, 9, 16, 4),
    ] {
        let mut world = World::new(config(4, 4));
        let id = world.submit(asked(least, most, tasks));
        let got = nodes(&mut world, id);
        assert_eq!(got, (want, i64::from(tasks)), "{least}-{most} for {tasks}");
    }
    let mut world = World::new(config(4, 4));
    for (least, most) in [(1, 2), (2, 2)] {
        let refused = world.try_submit(asked(least, most, 9), None).unwrap_err();
        assert_eq!(refused.code, RefusalCode::NeverFits, "{refused}");
    }
    let mut each = asked(1, 2, 8);
    each.request.tasks_per_node = Some(4);
    let id = world.submit(each.clone());
    assert_eq!(nodes(&mut world, id), (2, 8));
    each.request.tasks_per_node = Some(3);
    let refused = world.try_submit(each, None).unwrap_err();
    assert!(refused.message.contains("on 2 nodes"), "{refused}");
}

#[test]
fn nodes_that_are_shared() {
    let mut world = World::new(config(3, 4));
    let mut other = spec("other");
    other.request.cores_per_task = 3;
    let other = world.submit(other);
    let mut job = between(1, 9);
    (job.request.exclusive, job.request.cores_per_task) = (false, 2);
    let id = world.submit(job);
    assert_eq!(nodes(&mut world, other), (1, 1));
    assert_eq!(nodes(&mut world, id), (2, 2));
}

#[test]
fn a_queue_has_a_most() {
    let mut c = config(4, 4);
    c.queues[0].max_nodes = Some(2);
    let mut world = World::new(c);
    let id = world.submit(between(1, 4));
    assert_eq!(nodes(&mut world, id), (2, 2));
}

/// Of four nodes one is busy for long; the head wants three when another is free again.
#[test]
fn the_head_is_not_delayed() {
    let mut world = World::new(config(4, 4));
    let long = world.submit(exactly(1, 1000));
    let short = world.submit(exactly(1, 100));
    let head = world.submit(exactly(3, 100));
    // Ends long after the head could start.
    let mut late = between(1, 4);
    late.time_limit = Some(Span::from_secs(500));
    let late = world.submit(late);
    assert_eq!(nodes(&mut world, long), (1, 1));
    assert_eq!(nodes(&mut world, short), (1, 1));
    assert_eq!(world.state_of(head), JobState::Waiting);
    assert_eq!(world.state_of(late), JobState::Waiting);
    // Ends before it: it may have both idle nodes.
    let mut early = between(1, 4);
    early.time_limit = Some(Span::from_secs(10));
    let early = world.submit(early);
    assert_eq!(nodes(&mut world, early), (2, 2));
}

/// Jobs that wait get the nodes before a job that has enough.
#[test]
fn others_go_first() {
    let mut world = World::new(config(4, 4));
    let begin = Some(world.now + Span::from_secs(5));
    let wide = world.submit(JobSpec {
        begin,
        ..between(1, 4)
    });
    let mut other = || {
        world.submit(JobSpec {
            begin,
            ..exactly(1, 100)
        })
    };
    let others = [other(), other()];
    world.pass(6);
    assert_eq!(nodes(&mut world, wide), (2, 2));
    for other in others {
        assert_eq!(nodes(&mut world, other), (1, 1));
    }
}

#[test]
fn overcommit_takes_a_core_of_each_node() {
    let mut world = World::new(config(2, 4));
    let mut job = spec("over");
    job.request = ResourceRequest {
        nodes: Some(2),
        tasks: Some(20),
        overcommit: true,
        ..ResourceRequest::default()
    };
    let id = world.submit(job);
    assert_eq!(nodes(&mut world, id), (2, 20));
    let table = world.jobs(&[JobField::Cores, JobField::TasksByNode]);
    assert_eq!(table.number(0, JobField::Cores), Some(2));
    assert_eq!(table.text(0, JobField::TasksByNode), "10(x2)");
}

/// Tasks on each node of an attempt.
fn tasks(world: &World, id: u64) -> Vec<u32> {
    let run = world.store.row(id).run.clone();
    run.map(|run| run.parts.iter().map(|part| part.tasks).collect())
        .unwrap_or_default()
}

#[test]
fn tasks_go_round_whole_nodes() {
    let mut world = World::new(config(4, 4));
    let mut job = exactly(2, 100);
    job.request.tasks = Some(4);
    let whole = world.submit(job.clone());
    job.request.exclusive = false;
    let shared = world.submit(job.clone());
    world.deliver_all();
    assert_eq!(tasks(&world, whole), [2, 2]);
    assert_eq!(tasks(&world, shared), [3, 1]);
    // It is the same after a restart, and there are as many as were asked for.
    world.crash();
    world.connect_all();
    assert_eq!(tasks(&world, whole), [2, 2]);
    assert_eq!(nodes(&mut world, whole), (2, 4));
}

#[test]
fn tasks_go_round_the_whole_nodes_of_a_part() {
    let mut world = World::new(config(4, 4));
    let mut job = exactly(1, 100);
    job.request.exclusive = false;
    let mut further = exactly(2, 100).request;
    further.tasks = Some(5);
    job.further_components = vec![job::FurtherComponent {
        request: further,
        queue: None,
        name: None,
    }];
    let id = world.submit(job);
    world.deliver_all();
    assert_eq!(tasks(&world, id), [1, 3, 2]);
}
