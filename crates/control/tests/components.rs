//! Jobs of several components, each with nodes of its own (heterogeneous jobs).

mod world;

use cosy_control::ClusterConfig;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Table};
use cosy_model::job::{FurtherComponent, ResourceRequest};
use cosy_model::*;
use world::*;

fn request(nodes: u32, cores: u32) -> ResourceRequest {
    ResourceRequest {
        nodes: Some(nodes),
        cores_per_task: cores,
        ..ResourceRequest::default()
    }
}

fn component(nodes: u32, cores: u32, queue: Option<&str>) -> FurtherComponent {
    FurtherComponent {
        name: None,
        queue: queue.map(str::to_owned),
        request: request(nodes, cores),
    }
}

fn several(first: ResourceRequest, further: Vec<FurtherComponent>) -> JobSpec {
    JobSpec {
        request: first,
        further_components: further,
        ..spec("het")
    }
}

fn single(nodes: u32, cores: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: request(nodes, cores),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("one")
    }
}

fn rows(world: &mut World, filter: JobFilter) -> Vec<String> {
    world.deliver_all();
    use JobField::{Component, Components, Cores, Id, Nodes, Ref, State};
    let fields = vec![Ref, Id, Component, Components, State, Nodes, Cores];
    let request = Request::Jobs {
        filter,
        fields,
        fold_arrays: false,
    };
    let Reply::Jobs(table) = world.ask(request) else {
        panic!("no table")
    };
    let number = |table: &Table, row, field| table.number(row, field).unwrap_or(-1);
    let row = |row| {
        format!(
            "{} {} {}/{} {} {} {}",
            table.text(row, Ref),
            number(&table, row, Id),
            number(&table, row, Component),
            number(&table, row, Components),
            table.text(row, State),
            table.text(row, Nodes),
            number(&table, row, Cores),
        )
    };
    (0..table.rows).map(row).collect()
}

#[test]
fn each_component_has_nodes_of_its_own() {
    let mut world = World::new(config(4, 4));
    let further = vec![component(2, 1, None), component(1, 3, None)];
    let id = world.submit(several(request(1, 2), further));
    assert_eq!(id, 1);
    let next = world.submit(single(1, 1, 60));
    assert_eq!(next, 4, "each component takes an id");
    let all = rows(&mut world, JobFilter::default());
    assert_eq!(
        all,
        [
            "1+0 1 0/3 running n1 2",
            "1+1 2 1/3 running n[2-3] 2",
            "1+2 3 2/3 running n4 3",
            "4 4 -1/-1 running n4 1",
        ]
    );
    let told = world.jobs(&[JobField::Component, JobField::Priority]);
    let priority = |row| told.number(row, JobField::Priority).unwrap();
    assert!((1..told.rows).all(|row| priority(row) < priority(row - 1)));
    // Who does not ask for components sees one job.
    let table = world.jobs(&[JobField::Ref, JobField::NodeCount, JobField::Cores]);
    assert_eq!(table.rows, 2);
    assert_eq!(table.number(0, JobField::NodeCount), Some(4));
    assert_eq!(table.number(0, JobField::Cores), Some(7));
}

#[test]
fn an_id_of_a_component_shows_the_job() {
    let mut world = World::new(config(2, 4));
    world.submit(several(request(1, 2), vec![component(1, 1, None)]));
    let named = |id: u64| JobFilter {
        ids: vec![JobRef {
            job: JobId(id),
            task: None,
        }],
        ..JobFilter::default()
    };
    let first = rows(&mut world, named(1));
    assert_eq!(first.len(), 2);
    assert_eq!(rows(&mut world, named(2)), first);
    assert!(rows(&mut world, named(3)).is_empty());
}

/// The planner starts all components or none, and keeps the place of the whole job.
#[test]
fn all_components_or_none() {
    let mut world = World::new(config(3, 4));
    let busy = world.submit(single(1, 4, 30));
    let het = world.submit(several(request(1, 4), vec![component(2, 4, None)]));
    let late = world.submit(single(1, 4, 100));
    world.deliver_all();
    assert_eq!(
        world.queue(),
        format!("{busy}:running {het}:waiting/resources {late}:waiting/priority")
    );
    // What ends before the whole job's start may go first.
    let short = world.submit(single(1, 4, 20));
    world.deliver_all();
    assert!(world.queue().contains(&format!("{short}:running")), "{}", world.queue());
    world.pass(12);
    world.deliver_all();
    assert_eq!(world.queue(), format!("{het}:running {late}:waiting/resources"));
}

#[test]
fn a_restart_loses_no_component() {
    let mut world = World::new(config(3, 4));
    world.run_time = Span::from_secs(50);
    let runs = world.submit(several(request(1, 2), vec![component(1, 2, None)]));
    let waits = world.submit(several(request(2, 4), vec![component(1, 4, None)]));
    let before = rows(&mut world, JobFilter::default());
    assert_eq!(before.len(), 4);
    world.crash();
    for n in 0..3 {
        world.connect(n);
    }
    assert_eq!(rows(&mut world, JobFilter::default()), before);
    assert_eq!(world.submit(single(1, 1, 10)), waits + 2);
    world.pass(60);
    assert_eq!(world.state_of(runs), JobState::Completed);
    assert!(world.queue().contains(&format!("{waits}:running")), "{}", world.queue());
}

#[test]
fn one_end_for_all() {
    let mut world = World::new(config(3, 4));
    let het = world.submit(several(request(1, 2), vec![component(2, 2, None)]));
    world.deliver_all();
    let cancel = cancels(ids(&[het]));
    world.ask(cancel);
    world.deliver_all();
    assert_eq!(world.state_of(het), JobState::Cancelled);
    assert_eq!(world.queue(), "");
    let id = world.submit(single(3, 4, 10));
    world.deliver_all();
    assert!(world.queue().contains(&format!("{id}:running")));
}

#[test]
fn components_keep_their_nodes() {
    let mut world = World::new(config(3, 4));
    let het = world.submit(several(request(1, 2), vec![component(2, 2, None)]));
    world.deliver_all();
    let change = Request::Change {
        filter: ids(&[het]),
        change: Box::new(api::JobChange {
            nodes: Some(1),
            ..api::JobChange::default()
        }),
    };
    match world.ask(change) {
        Reply::Done {
            changed: 0,
            refused,
        } => {
            assert!(refused[0].1.message.contains("parts"), "{refused:?}");
        }
        Reply::Refused(refusal) => assert!(refusal.message.contains("parts"), "{refusal}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(rows(&mut world, JobFilter::default()).len(), 2);
}

fn two_queues() -> ClusterConfig {
    let mut config = config(4, 4);
    let names = |numbers: [u32; 2]| Some(numbers.map(|n| format!("n{n}")).to_vec());
    let queue = config.queues[0].clone();
    config.queues[0].nodes = names([1, 2]);
    config.queues.push(QueueSpec {
        name: "gpu".to_owned(),
        nodes: names([3, 4]),
        ..queue
    });
    config
}

/// Queues that share no nodes are one for the planner while a job spans them.
#[test]
fn components_in_different_queues() {
    let mut world = World::new(two_queues());
    world.run_time = Span::from_secs(50);
    let mut other = single(2, 4, 60);
    other.queue = Some("gpu".to_owned());
    let busy = world.submit(other.clone());
    let het = world.submit(several(request(1, 4), vec![component(1, 4, Some("gpu"))]));
    world.deliver_all();
    assert_eq!(world.queue(), format!("{busy}:running {het}:waiting/resources"));
    // Its place in both queues is kept.
    let long = world.submit(single(2, 4, 500));
    world.deliver_all();
    assert!(world.queue().contains(&format!("{long}:waiting")), "{}", world.queue());
    world.crash();
    for n in [2, 3, 0, 1] {
        world.connect(n);
    }
    world.pass(60);
    world.deliver_all();
    assert_eq!(world.queue(), format!("{het}:running {long}:waiting/resources"));
    let rows = rows(&mut world, JobFilter::default());
    assert!(rows[0].ends_with("running n1 4") && rows[1].ends_with("running n3 4"), "{rows:?}");
    world.pass(45);
    world.deliver_all();
    // Nobody spans them any more: what waits in one does not hold back the other.
    let stuck = world.submit(single(2, 4, 60));
    let free = world.submit(other);
    world.deliver_all();
    assert_eq!(world.queue(), format!("{long}:running {stuck}:waiting/resources {free}:running"));
}

#[test]
fn what_cannot_be() {
    let mut world = World::new(config(3, 4));
    let mut check = |job: JobSpec, array: Option<&str>, code: RefusalCode, what: &str| {
        let refusal = world.try_submit(job, array).unwrap_err();
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.message.contains(what), "{refusal}");
    };
    let fine = || several(request(1, 1), vec![component(1, 1, None)]);
    check(fine(), Some("1-2"), RefusalCode::Invalid, "array");
    let wide = several(request(2, 1), vec![component(2, 1, None)]);
    check(wide, None, RefusalCode::NeverFits, "side by side");
    let large = several(request(1, 1), vec![component(1, 5, None)]);
    check(large, None, RefusalCode::NeverFits, "cores");
    let lost = several(request(1, 1), vec![component(1, 1, Some("nowhere"))]);
    check(lost, None, RefusalCode::NotFound, "nowhere");
    let many = several(request(1, 1), vec![component(1, 1, None); limits::FURTHER_COMPONENTS + 1]);
    check(many, None, RefusalCode::Invalid, "parts");
    assert_eq!(world.queue(), "");
}

/// Users choose which queues are joined, and how often: each time all waiting jobs are entered
/// anew, so that is bounded, and every such job runs all the same.
#[test]
fn queues_are_joined_only_so_often() {
    let mut config = config(12, 4);
    let queue = config.queues[0].clone();
    config.queues = (0..12)
        .map(|n| QueueSpec {
            name: format!("q{n}"),
            nodes: Some(vec![format!("n{}", n + 1)]),
            ..queue.clone()
        })
        .collect();
    let mut world = World::new(config);
    world.run_time = Span::from_secs(5);
    let pair = |a: usize, b: usize| {
        let other = format!("q{b}");
        let mut job = several(request(1, 4), vec![component(1, 4, Some(&other))]);
        job.queue = Some(format!("q{a}"));
        job
    };
    let before = world.controller.placings();
    for round in 0..3 {
        for (a, b) in (0..12).flat_map(|a| (a + 1..12).map(move |b| (a, b))) {
            let job = world.submit(pair(a, b));
            world.deliver_all();
            if round == 0 && (a, b) == (7, 9) {
                assert!(world.queue().contains(&format!("{job}:running")));
            }
            world.ask(cancels(ids(&[job])));
            world.deliver_all();
        }
    }
    let joined = world.controller.placings() - before;
    assert!(joined <= limits::JOINT_QUEUES as u64 + 1, "{joined} times");
    assert!(joined >= 2, "{joined} times");
    // They are parted once, when nobody has needed it for a while.
    world.pass(200);
    assert_eq!(world.controller.placings() - before, joined + 1);
    let job = world.submit(pair(3, 11));
    world.deliver_all();
    assert_eq!(world.queue(), format!("{job}:running"));
    assert_eq!(world.controller.placings() - before, joined + 2);
}
