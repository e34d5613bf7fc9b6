//! Attempts that are given up although the order to start them may have arrived: jobs that are
//! not to run again never start a second time.

mod world;

use cosy_model::api::Request;
use cosy_model::node::{AttemptPhase, NodeReport};
use cosy_model::*;
use world::*;

fn once(name: &str) -> JobSpec {
    JobSpec {
        requeue: false,
        ..spec(name)
    }
}

/// A long job for n1.
fn on_n1(requeue: bool) -> JobSpec {
    let mut wanted = once("a");
    wanted.time_limit = Some(Span::from_secs(5000));
    wanted.request.prefer = vec!["n1".into()];
    wanted.requeue = requeue;
    wanted
}

/// Orders arrive at n1, its reports do not.
fn silent_node(requeue: bool) -> (World, u64) {
    let mut world = World::new(config(2, 4));
    world.run_time = Span::from_secs(1000);
    world.unheard.insert(0);
    let job = world.submit(on_n1(requeue));
    world.deliver_all();
    assert_eq!(world.starts_of(job), 1, "it runs, and nobody knows");
    (world, job)
}

fn given_up(world: &mut World) {
    world.listen(90, &[1]);
    world.deliver_all();
}

#[test]
fn a_job_that_may_have_started_is_not_started_elsewhere() {
    let (mut world, job) = silent_node(false);
    given_up(&mut world);
    assert_eq!(world.state_of(job), JobState::NodeFailed);
    world.unheard.clear();
    world.connect_all();
    world.pass(10);
    assert_eq!(world.starts_of(job), 1);
    let known = world.nodes[0].known.get(&attempt(job, 1));
    assert!(known.is_none(), "what was left was ended: {known:?}");
}

#[test]
fn nor_after_a_restart_of_the_controller() {
    let (mut world, job) = silent_node(false);
    world.crash();
    world.connect(1);
    given_up(&mut world);
    assert_eq!(world.state_of(job), JobState::NodeFailed);
    assert_eq!(world.starts_of(job), 1);
}

#[test]
fn a_job_that_may_run_again_is() {
    let (mut world, job) = silent_node(true);
    given_up(&mut world);
    assert_eq!(world.queue(), format!("{job}:running"));
    assert_eq!(world.starts_of(job), 2);
}

#[test]
fn an_order_that_never_left_is_given_elsewhere() {
    let mut world = World::new(config(2, 4));
    let mut wanted = once("a");
    wanted.request.nodes = Some(2);
    let job = world.submit(wanted.clone());
    // Both are told to get ready; none has been told to start.
    world.disconnect(1);
    world.disconnect(0);
    world.listen(90, &[]);
    world.connect_all();
    assert_eq!(world.queue(), format!("{job}:running"));
    assert_eq!(world.starts_of(job), 1);
}

/// The second node of a job falls silent when the first has its order to start.
#[test]
fn the_loss_of_another_node_does_not_start_it_again() {
    let mut world = World::new(config(4, 4));
    world.run_time = Span::from_secs(1000);
    world.unheard.insert(0);
    let mut wanted = once("a");
    wanted.time_limit = Some(Span::from_secs(5000));
    wanted.request.nodes = Some(2);
    let job = world.submit(wanted);
    world.deliver_all();
    assert_eq!(world.starts_of(job), 1);
    world.listen(90, &[0, 2, 3]);
    world.unheard.clear();
    world.connect_all();
    world.pass(5);
    assert_eq!(world.state_of(job), JobState::NodeFailed);
    assert_eq!(world.starts_of(job), 1);
}

/// A machine that was restarted may have run what was on its way to it.
#[test]
fn a_restarted_machine_may_have_run_it() {
    let (mut world, job) = silent_node(false);
    world.switch_off(0);
    world.unheard.clear();
    world.connect_all();
    assert_eq!(world.state_of(job), JobState::NodeFailed);
    assert_eq!(world.starts_of(job), 1);
}

fn requeue(world: &mut World, job: u64, hold: bool) {
    world.ask(Request::Requeue {
        filter: ids(&[job]),
        hold,
        special: false,
    });
}

#[test]
fn a_requeue_is_not_forgotten_with_a_lost_order() {
    let mut world = World::new(config(1, 4));
    let job = world.submit(spec("a"));
    world.disconnect(0); // with the order
    requeue(&mut world, job, true);
    world.connect_all();
    assert_eq!(world.queue(), format!("{job}:waiting/held_requeued"));
    assert_eq!(world.starts_of(job), 0);
}

#[test]
fn what_was_cancelled_does_not_come_back_with_its_machine() {
    let mut world = World::new(config(1, 4));
    let job = world.submit(spec("a"));
    world.deliver_all();
    world.ask(cancels(ids(&[job])));
    // The machine stops before the order is there, and its spool tells so.
    let key = attempt(job, 1);
    world.disconnect(0);
    world.nodes[0].boot += 1;
    let lost = End::never_ran(EndCause::NodeLost, world.now);
    if let Some(on) = world.nodes[0].known.get_mut(&key) {
        on.phase = AttemptPhase::Ended(lost);
        on.ends_at = Time::FAR;
    }
    world.connect_all();
    world.pass(5);
    assert_eq!(world.state_of(job), JobState::Cancelled);
    assert_eq!(world.starts_of(job), 1);
}

#[test]
fn what_was_put_back_and_could_not_get_ready_waits_again() {
    let mut world = World::new(config(2, 4));
    let job = world.submit(spec("a"));
    requeue(&mut world, job, true);
    let node = world.nodes[0].name.clone();
    let failure = node::PrepareFailure {
        reason: "no such user here".into(),
        drain: false,
    };
    world.report(
        0,
        NodeReport::Prepared {
            key: attempt(job, 1),
            node,
            failure: Some(failure),
        },
    );
    assert_eq!(world.queue(), format!("{job}:waiting/held_requeued"));
}

/// A node that has been told when it is alone has time to end what others are given then.
#[test]
fn others_get_its_jobs_only_when_it_has_ended_them() {
    let (mut world, job) = silent_node(true);
    world.listen(66, &[1]);
    world.deliver_all();
    assert_eq!(world.starts_of(job), 1, "it is lost, and not given up");
    assert!(world.store.told("lost", "node n1"));
    world.listen(6, &[1]);
    world.deliver_all();
    assert_eq!(world.starts_of(job), 2);
}

/// Without that it is given up at once.
#[test]
fn without_fencing_they_get_them_at_once() {
    let mut c = config(2, 4);
    c.policy.self_fencing = false;
    let mut world = World::new(c);
    world.run_time = Span::from_secs(1000);
    let job = world.submit(on_n1(true));
    world.deliver_all();
    world.listen(62, &[1]);
    world.deliver_all();
    assert_eq!(world.starts_of(job), 2);
}

#[test]
fn a_node_that_is_back_in_time_goes_on() {
    let (mut world, job) = silent_node(true);
    world.listen(66, &[1]);
    assert!(world.store.told("lost", "node n1"));
    assert!(!world.store.told("back", "node n1"));
    world.unheard.clear();
    world.connect_all();
    assert!(world.store.told("back", "node n1"));
    world.listen(90, &[0, 1]);
    world.deliver_all();
    assert_eq!(world.queue(), format!("{job}:running"));
    assert_eq!(world.starts_of(job), 1);
}

/// One that was set down and can be reached ends its jobs before others get them.
#[test]
fn a_node_that_is_set_down_ends_them_first() {
    let mut world = World::new(config(2, 4));
    world.run_time = Span::from_secs(1000);
    let job = world.submit(on_n1(true));
    world.deliver_all();
    let down = |world: &mut World| {
        let action = api::NodeAction::Down { reason: "x".into() };
        let nodes = vec!["n1".to_owned()];
        world.ask_as(user(0, "root"), None, Request::NodeControl { nodes, action });
    };
    down(&mut world);
    assert_eq!(world.queue(), format!("{job}:completing"), "it is told");
    world.deliver_all();
    assert_eq!(world.queue(), format!("{job}:running"));
    assert!(world.nodes[0].known.is_empty(), "nothing of it is left there");
    assert_eq!(world.starts_of(job), 2);
}

// ---- machines that are started again

/// n1 goes down as a whole and comes up again after so many seconds of the controller's time. Its
/// daemon tells what it finds in its spool: attempts that were lost with the machine.
fn reboot(world: &mut World, secs: i64) {
    world.disconnect(0);
    world.listen(secs, &[1]);
    world.deliver_all();
    let node = &mut world.nodes[0];
    node.boot += 1;
    let now = world.now;
    for on in node.known.values_mut() {
        on.phase = AttemptPhase::Ended(End::never_ran(EndCause::NodeLost, now));
    }
    world.connect_all();
    world.pass(3);
}

/// Boots of 20 s and of 300 s, where a node is lost after 60 s: shorter and longer.
const BOOTS: [i64; 2] = [20, 300];

#[test]
fn a_job_of_a_machine_that_is_started_again_runs_once_more() {
    for secs in BOOTS {
        let mut world = World::new(config(2, 4));
        world.run_time = Span::from_secs(1000);
        let job = world.submit(on_n1(true));
        world.deliver_all();
        world.pass(5);
        reboot(&mut world, secs);
        world.pass(70); // a pause comes before
        assert_eq!(world.queue(), format!("{job}:running"), "{secs}");
        assert_eq!(world.starts_of(job), 2, "boot of {secs} s");
        let last = world.store.row(job).attempt;
        assert_eq!(last, Attempt(2), "it was requeued once");
        let running = world.nodes.iter().flat_map(|node| &node.known);
        let running = running.filter(|(_, on)| matches!(on.phase, AttemptPhase::Running { .. }));
        assert_eq!(running.count(), 1, "boot of {secs} s");
        // The node is back: it takes a job of its own.
        let mut all = once("all");
        all.request.require = vec!["n1".into()];
        all.time_limit = Some(Span::from_secs(100));
        let next = world.submit(all);
        world.deliver_all();
        world.pass(3);
        assert_eq!(world.starts_of(next), 1, "{secs}: {}", world.queue());
        world.pass(1100);
        assert_eq!(world.state_of(job), JobState::Completed);
        assert_eq!(world.starts_of(job), 2, "boot of {secs} s");
    }
}

#[test]
fn a_job_that_is_not_to_run_again_fails_once_with_its_machine() {
    for secs in BOOTS {
        let mut world = World::new(config(2, 4));
        world.run_time = Span::from_secs(1000);
        let job = world.submit(on_n1(false));
        world.deliver_all();
        world.pass(5);
        reboot(&mut world, secs);
        world.pass(70);
        assert_eq!(world.state_of(job), JobState::NodeFailed, "{secs}");
        assert_eq!(world.starts_of(job), 1, "boot of {secs} s");
        assert_eq!(world.queue(), "");
        let node = &world.nodes[0];
        assert!(node.known.is_empty(), "it may forget it: {:?}", node.known);
        let next = world.submit(on_n1(false));
        world.deliver_all();
        world.pass(3);
        assert!(!world.nodes[0].starts.is_empty());
        assert_eq!(world.starts_of(next), 1, "{secs}: {}", world.queue());
    }
}

/// There is no other node, and the controller is started anew while the machine boots.
#[test]
fn the_only_machine_runs_it_again_when_it_is_back() {
    for secs in BOOTS {
        for restart in [false, true] {
            let mut world = World::new(config(1, 4));
            world.run_time = Span::from_secs(1000);
            let job = world.submit(on_n1(true));
            world.deliver_all();
            world.pass(5);
            world.disconnect(0);
            world.listen(secs / 2, &[]);
            if restart {
                world.crash();
            }
            world.listen(secs / 2, &[]);
            world.nodes[0].boot += 1;
            let now = world.now;
            for on in world.nodes[0].known.values_mut() {
                on.phase = AttemptPhase::Ended(End::never_ran(EndCause::NodeLost, now));
            }
            world.connect_all();
            world.pass(80);
            assert_eq!(world.queue(), format!("{job}:running"), "{secs} {restart}");
            assert_eq!(world.store.row(job).attempt, Attempt(2));
            assert_eq!(world.starts_of(job), 2, "boot of {secs} s");
        }
    }
}

/// The node says that the supervisor of the running attempt was killed.
fn supervisor_killed(world: &mut World, job: u64) {
    let last = world.starts_of(job);
    world.end_for(0, attempt(job, last), 0, EndCause::SupervisorLost);
    world.deliver_all();
}

#[test]
fn a_killed_supervisor_puts_back_what_may_run_again() {
    for requeue in [true, false] {
        let mut world = World::new(config(1, 4));
        world.run_time = Span::from_secs(1000);
        let job = world.submit(on_n1(requeue));
        world.deliver_all();
        supervisor_killed(&mut world, job);
        world.pass(1);
        let starts = if requeue { 2 } else { 1 };
        assert_eq!(world.starts_of(job), starts);
        match requeue {
            true => assert_eq!(world.queue(), format!("{job}:running")),
            false => assert_eq!(world.state_of(job), JobState::NodeFailed),
        }
    }
}

/// One whose supervisor is killed each time ends at last.
#[test]
fn supervisors_are_not_killed_for_ever() {
    let mut config = config(1, 4);
    config.policy.max_requeues = 0; // not even where the site would let it run again and again
    let mut world = World::new(config);
    world.run_time = Span::from_secs(1000);
    let job = world.submit(on_n1(true));
    world.deliver_all();
    for _ in 0..limits::ATTEMPTS_BY_SUPERVISORS {
        assert_eq!(world.queue(), format!("{job}:running"));
        supervisor_killed(&mut world, job);
        world.pass(1);
    }
    assert_eq!(world.state_of(job), JobState::NodeFailed);
    assert_eq!(world.starts_of(job), limits::ATTEMPTS_BY_SUPERVISORS);
}
