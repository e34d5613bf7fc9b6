//! Suspended jobs lend their cores: who may have them meanwhile, and when the jobs run on.

mod world;

use cosy_control::*;
use cosy_model::api::{JobField, Reply, Request, Submission};
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::*;
use world::*;

fn root() -> User {
    user(0, "root")
}

fn with_cores(cores: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: ResourceRequest {
            cores_per_task: cores,
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_secs(secs)),
        ..spec("j")
    }
}

fn whole(nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: whole_nodes(nodes),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("w")
    }
}

fn done(reply: &Reply) {
    let Reply::Done { refused, .. } = reply else {
        panic!("{reply:?}");
    };
    assert!(refused.is_empty(), "{refused:?}");
}

fn suspend(world: &mut World, id: u64) {
    let filter = ids(&[id]);
    done(&world.ask_as(root(), None, Request::Suspend { filter }));
    world.deliver_all();
}

fn resume(world: &mut World, id: u64) {
    let filter = ids(&[id]);
    done(&world.ask_as(root(), None, Request::Resume { filter }));
    world.deliver_all();
}

/// Every live job, without the reasons.
fn queue(world: &mut World) -> String {
    world.deliver_all();
    let jobs = world.queue();
    let plain = jobs
        .split(' ')
        .map(|job| job.split('/').next().unwrap_or(job));
    plain.collect::<Vec<_>>().join(" ")
}

/// A job that uses its limit fully.
fn submit(world: &mut World, spec: JobSpec) -> u64 {
    let limit = spec.time_limit;
    let id = world.submit(spec);
    world
        .run_times
        .extend(limit.map(|limit| (JobId(id), limit)));
    id
}

fn crash(world: &mut World) {
    world.crash();
    for n in 0..world.nodes.len() {
        world.connect(n);
    }
    world.deliver_all();
}

/// A node of four cores without GPUs and disk.
fn plain(nodes: u32) -> ClusterConfig {
    let mut config = config(nodes, 4);
    for node in &mut config.nodes {
        if let Some(amounts) = &mut node.amounts {
            (amounts.gpus, amounts.disk) = (0, MiB(0));
        }
    }
    config
}

#[test]
fn a_daemon_of_an_older_release_suspends_nothing() {
    let mut world = World::new(config(2, 4));
    world.run_time = Span::from_secs(100);
    world.disconnect(0);
    world.lacks = vec!["suspend"];
    world.connect(0);
    let mut both = whole(2, 200);
    both.request.exclusive = true;
    let job = world.submit(both);
    world.deliver_all();
    let filter = ids(&[job]);
    match world.ask_as(root(), None, Request::Suspend { filter }) {
        Reply::Done { refused, .. } => {
            let why = &refused[0].1.message;
            assert!(why.contains("node n1") && why.contains("upgrade"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(queue(&mut world), format!("{job}:running"));
}

#[test]
fn others_have_the_cores_until_they_end() {
    let mut world = World::new(plain(1));
    let first = submit(&mut world, with_cores(4, 100));
    let second = submit(&mut world, with_cores(2, 50));
    world.deliver_all();
    world.pass(10);
    assert_eq!(queue(&mut world), "1:running 2:waiting");
    suspend(&mut world, first);
    assert_eq!(queue(&mut world), "1:suspended 2:running");
    crash(&mut world);
    assert_eq!(queue(&mut world), "1:suspended 2:running");
    // Its cores are taken: it runs on when they are free, and nobody else gets them.
    world.pass(10);
    let reason = |world: &mut World| {
        let table = world.jobs(&[JobField::Id, JobField::Reason]);
        table.text(0, JobField::Reason).to_owned()
    };
    assert_eq!(reason(&mut world), "");
    resume(&mut world, first);
    assert_eq!(reason(&mut world), "resources");
    let third = submit(&mut world, with_cores(2, 500));
    assert_eq!(queue(&mut world), "1:suspended 2:running 3:waiting");
    crash(&mut world);
    assert_eq!(queue(&mut world), "1:suspended 2:running 3:waiting");
    world.pass(41);
    assert_eq!(world.state_of(second), JobState::Completed);
    assert_eq!(queue(&mut world), "1:running 3:waiting");
    // It has as much time as it had left.
    world.pass(88);
    assert_eq!(queue(&mut world), "1:running 3:waiting");
    world.pass(3);
    assert_eq!(world.state_of(first), JobState::Completed);
    assert_eq!(queue(&mut world), format!("{third}:running"));
}

#[test]
fn free_cores_are_taken_back_at_once() {
    let mut world = World::new(plain(1));
    let first = submit(&mut world, with_cores(2, 100));
    world.deliver_all();
    suspend(&mut world, first);
    // Others get cores that it does not want again, as long as there are some.
    submit(&mut world, with_cores(2, 50));
    assert_eq!(queue(&mut world), "1:suspended 2:running");
    resume(&mut world, first);
    assert_eq!(queue(&mut world), "1:running 2:running");
}

#[test]
fn memory_is_kept() {
    let with_memory = |mib| JobSpec {
        request: ResourceRequest {
            memory: MemoryRequest::PerNode(MiB(mib)),
            ..with_cores(1, 100).request
        },
        ..with_cores(1, 100)
    };
    let mut world = World::new(plain(1));
    let first = submit(&mut world, with_memory(10_000));
    world.deliver_all();
    suspend(&mut world, first);
    submit(&mut world, with_memory(10_000));
    submit(&mut world, with_memory(6_000));
    submit(&mut world, whole(1, 10));
    assert_eq!(queue(&mut world), "1:suspended 2:waiting 3:running 4:waiting");
}

#[test]
fn whole_nodes_are_lent_as_whole_nodes() {
    let mut world = World::new(plain(2));
    let first = submit(&mut world, whole(2, 100));
    let second = submit(&mut world, whole(2, 50));
    world.deliver_all();
    suspend(&mut world, first);
    assert_eq!(queue(&mut world), "1:suspended 2:running");
    resume(&mut world, first);
    crash(&mut world);
    // One that is told again not to run on gives way.
    suspend(&mut world, first);
    submit(&mut world, with_cores(1, 10));
    world.pass(51);
    assert_eq!(world.state_of(second), JobState::Completed);
    assert_eq!(queue(&mut world), "1:suspended 3:running");
    resume(&mut world, first);
    assert_eq!(queue(&mut world), "1:suspended 3:running");
    world.pass(11);
    assert_eq!(queue(&mut world), "1:running");
}

#[test]
fn what_lends_its_cores_can_be_cancelled() {
    let mut world = World::new(plain(1));
    let first = submit(&mut world, with_cores(4, 100));
    let second = submit(&mut world, with_cores(4, 100));
    world.deliver_all();
    suspend(&mut world, first);
    resume(&mut world, first);
    world.ask(cancels(ids(&[first])));
    world.deliver_all();
    assert_eq!(world.state_of(first), JobState::Cancelled);
    assert_eq!(queue(&mut world), format!("{second}:running"));
}

#[test]
fn a_job_runs_on_only_where_no_reservation_is_in_the_way() {
    let mut config = plain(1);
    config.reservations.all_of = Vec::new();
    let mut world = World::new(config);
    let first = submit(&mut world, with_cores(4, 100));
    world.deliver_all();
    suspend(&mut world, first);
    let ask = ReservationSpec::plain(
        whole_nodes(1),
        Span::from_secs(60),
        StartChoice::At(world.now + Span::from_secs(50)),
    );
    let job = Some(Box::new(Submission {
        spec: JobSpec {
            time_limit: None,
            ..with_cores(4, 60)
        },
        script: OsText::default(),
        array: None,
    }));
    let ask = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job,
    };
    let reply = world.ask_as(root(), None, ask);
    assert!(matches!(reply, Reply::Reserved { .. }), "{reply:?}");
    // It would need 100 seconds; the reservation begins after 50.
    resume(&mut world, first);
    assert_eq!(queue(&mut world), "1:suspended 2:waiting");
    world.pass(51);
    assert_eq!(queue(&mut world), "1:suspended 2:running");
    world.pass(65);
    assert_eq!(queue(&mut world), "1:running");
}
