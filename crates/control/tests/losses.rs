//! Jobs that were lost with nodes: they go to others for a while, run again as often as they and
//! the site say, and keep their place.

mod world;

use cosy_control::ClusterConfig;
use cosy_model::api::{JobChange, JobField, Reply, Request};
use cosy_model::job::RequeueTerms;
use cosy_model::node::NodeOrder;
use cosy_model::*;
use world::*;

const AVOIDS: i64 = 200;

fn site(nodes: u32) -> ClusterConfig {
    let mut config = config(nodes, 4);
    config.policy.requeue_avoids = Span::from_secs(AVOIDS);
    config.policy.self_fencing = false;
    config
}

/// A job of a whole node that would like n1.
fn whole(name: &str) -> JobSpec {
    let mut wanted = spec(name);
    wanted.requeue = true;
    wanted.time_limit = Some(Span::from_secs(5000));
    wanted.request.exclusive = true;
    wanted.request.prefer = vec!["n1".into()];
    wanted
}

/// The same that would like n2.
fn on_n2(name: &str) -> JobSpec {
    let mut wanted = whole(name);
    wanted.request.prefer = vec!["n2".into()];
    wanted
}

/// The job runs on n1, which is lost.
fn lost_on_n1(config: ClusterConfig, spec: JobSpec, others: &[usize]) -> (World, u64) {
    let mut world = World::new(config);
    world.run_time = Span::from_secs(100_000);
    let job = world.submit(spec);
    world.deliver_all();
    assert!(runs_on(&world, job, 0), "it begins on n1");
    loses(&mut world, 0, others);
    (world, job)
}

/// A node is switched off for longer than is waited for it, and comes back.
fn loses(world: &mut World, n: usize, others: &[usize]) {
    world.switch_off(n);
    world.listen(90, others);
    world.deliver_all();
}

fn runs_on(world: &World, job: u64, n: usize) -> bool {
    let starts = world.starts_of(job);
    world.nodes[n].known.contains_key(&attempt(job, starts))
}

/// The same while another job has n2, where it would go. Then n1 is back.
fn lost_and_nowhere_to_go(config: ClusterConfig) -> (World, u64, u64) {
    let mut world = World::new(config);
    world.run_time = Span::from_secs(100_000);
    let job = world.submit(whole("a"));
    let other = world.submit(on_n2("b"));
    world.deliver_all();
    loses(&mut world, 0, &[1]);
    world.connect_all();
    world.pass(1);
    (world, job, other)
}

#[test]
fn a_job_goes_elsewhere_although_the_node_is_back_and_free() {
    let (mut world, job, other) = lost_and_nowhere_to_go(site(2));
    world.pass(4);
    assert_eq!(world.queue(), format!("{job}:waiting/resources {other}:running"));
    assert_eq!(world.text(job, JobField::FailedNodes), "n1");
    // Others may go there.
    let third = world.submit(whole("c"));
    world.deliver_all();
    assert!(runs_on(&world, third, 0));
    world.ask(Request::Cancel {
        filter: ids(&[third]),
        signal: None,
        script_only: false,
        steps_only: false,
    });
    world.deliver_all();
    // A restart of the controller forgets neither the node nor for how long.
    world.crash();
    world.connect_all();
    world.pass(20);
    assert_eq!(world.text(job, JobField::FailedNodes), "n1");
    assert!(!runs_on(&world, job, 0));
    world.pass(AVOIDS);
    assert!(runs_on(&world, job, 0), "{}", world.queue());
    assert_eq!(world.text(job, JobField::FailedNodes), "");
}

#[test]
fn its_loss_is_told_with_the_name_of_the_node() {
    let mut wanted = whole("a");
    wanted.mail.requeue = true;
    let (world, job) = lost_on_n1(site(2), wanted, &[1]);
    assert!(runs_on(&world, job, 1));
    assert_eq!(world.bodies, ["node n1 was lost. It does not go to n1 for a while.\n"]);
    let run = world.store.earlier_runs.last().expect("a run that is over");
    assert_eq!((&*run.note, run.state), ("node n1 was lost", JobState::NodeFailed));
    let run = run.run.as_ref().expect("it had nodes");
    assert_eq!(run.lost, ["n1"]);
}

#[test]
fn where_no_other_node_would_do_it_goes_back() {
    let (mut world, job) = lost_on_n1(site(1), whole("a"), &[]);
    world.connect_all();
    world.pass(1);
    assert!(runs_on(&world, job, 0));
    let mut both = whole("b");
    both.request.nodes = Some(2);
    let (mut world, job) = lost_on_n1(site(2), both, &[1]);
    world.connect_all();
    world.pass(1);
    assert!(runs_on(&world, job, 0) && runs_on(&world, job, 1));
    // Nor where its owner wants that node and no other.
    let mut there = whole("c");
    there.request.require = vec!["n1".into()];
    let (mut world, job) = lost_on_n1(site(2), there, &[1]);
    world.connect_all();
    world.pass(1);
    assert!(runs_on(&world, job, 0));
}

#[test]
fn who_names_nodes_to_avoid_names_all() {
    let (mut world, job, _) = lost_and_nowhere_to_go(site(2));
    assert_eq!(world.text(job, JobField::FailedNodes), "n1");
    let change = JobChange {
        avoid: Some(Vec::new()),
        ..JobChange::default()
    };
    let reply = world.ask(Request::Change {
        filter: ids(&[job]),
        change: Box::new(change),
    });
    assert!(matches!(reply, Reply::Done { changed: 1, .. }), "{reply:?}");
    world.deliver_all();
    assert_eq!(world.text(job, JobField::FailedNodes), "");
    assert!(runs_on(&world, job, 0));
}

#[test]
fn a_site_may_do_without() {
    let mut config = site(2);
    config.policy.requeue_avoids = Span::ZERO;
    let (world, job, _) = lost_and_nowhere_to_go(config);
    assert!(runs_on(&world, job, 0));
}

#[test]
fn nobody_submits_losses() {
    let mut world = World::new(site(2));
    let mut wanted = whole("a");
    wanted.losses = Some(Box::new(job::Losses {
        count: 99,
        nodes: vec![job::FailedNode {
            name: "n1".into(),
            at: world.now,
        }],
    }));
    let job = world.submit(wanted);
    world.deliver_all();
    assert!(runs_on(&world, job, 0));
    assert_eq!(world.text(job, JobField::FailedNodes), "");
}

#[test]
fn a_job_that_is_lost_too_often_is_held() {
    let mut config = site(3);
    config.policy.max_requeues = 2;
    let (mut world, job) = lost_on_n1(config, whole("a"), &[1, 2]);
    world.connect_all();
    for _ in 0..2 {
        let n = (0..3).find(|n| runs_on(&world, job, *n)).expect("it runs");
        let others: Vec<usize> = (0..3).filter(|other| *other != n).collect();
        loses(&mut world, n, &others);
        world.connect_all();
    }
    assert_eq!(world.queue(), format!("{job}:waiting/held_losses"));
    assert_eq!(world.starts_of(job), 3);
    // Its owner lets it go, a restart does not.
    world.crash();
    world.connect_all();
    assert_eq!(world.queue(), format!("{job}:waiting/held_losses"));
    world.ask(Request::Release {
        filter: ids(&[job]),
    });
    world.deliver_all();
    assert_eq!(world.queue(), format!("{job}:running"));
}

#[test]
fn a_job_runs_again_as_often_as_it_says() {
    let mut wanted = whole("a");
    wanted.requeue_terms.most = Some(1);
    let (mut world, job) = lost_on_n1(site(3), wanted, &[1, 2]);
    world.connect_all();
    assert_eq!(world.queue(), format!("{job}:running"));
    let n = (1..3)
        .find(|n| runs_on(&world, job, *n))
        .expect("it runs elsewhere");
    let others: Vec<usize> = (0..3).filter(|other| *other != n).collect();
    loses(&mut world, n, &others);
    assert_eq!(world.state_of(job), JobState::NodeFailed);
    assert_eq!(world.starts_of(job), 2);
}

/// A node that is cut off ends what is started elsewhere then, and nothing else.
#[test]
fn nodes_know_whether_a_job_runs_again() {
    let mut wanted = whole("a");
    wanted.requeue_terms.most = Some(1);
    let mut world = World::new(site(2));
    world.run_time = Span::from_secs(100_000);
    world.submit(wanted);
    assert!(world.next_launch().allocation.runs_again);
    world.deliver_all();
    world.switch_off(0);
    for _ in 0..90 {
        world.listen(1, &[1]);
        if world
            .orders
            .iter()
            .any(|(_, order)| matches!(order, NodeOrder::Launch(_)))
        {
            break;
        }
    }
    assert!(!world.next_launch().allocation.runs_again);
}

/// Of Slurm's jobs that go back at once only those do without a pause that say so; their age is
/// what it was.
#[test]
fn an_expedited_job_waits_for_nothing_but_its_turn() {
    for expedite in [true, false] {
        let mut wanted = whole("a");
        wanted.dialect = Dialect::Slurm;
        wanted.requeue_terms = RequeueTerms {
            expedite,
            most: None,
        };
        let mut world = World::new(site(2));
        world.run_time = Span::from_secs(100_000);
        let job = world.submit(wanted);
        world.deliver_all();
        let before = world.number(job, JobField::Eligible);
        assert!(before.is_some());
        // Another one came before it is lost, and waits for the same node.
        world.submit(on_n2("b"));
        let mut next = whole("c");
        next.request.nodes = Some(2);
        let next = world.submit(next);
        world.deliver_all();
        let end = world.starts_of(job);
        world.end_for(0, attempt(job, end), 0, EndCause::SupervisorLost);
        world.deliver_all();
        let reason = if expedite { "resources" } else { "begin_time" };
        let queue = world.queue();
        assert!(queue.contains(&format!("{job}:waiting/{reason}")), "{queue}");
        assert_eq!(world.number(job, JobField::Eligible) == before, expedite);
        assert!(queue.contains(&format!("{next}:waiting")), "{queue}");
    }
}
