//! A store that was restored from an old copy: nodes know better, and what nobody knows is held.

mod world;

use cosy_control::{Controller, Effect, Event, RestoredRow};
use cosy_model::api::{NodeAction, Reply, Request};
use cosy_model::node::{AttemptPhase, NodeOrder, NodeReport, StoreMark};
use cosy_model::*;
use world::*;

/// Jobs that take that long.
fn long(name: &str) -> JobSpec {
    JobSpec {
        time_limit: Some(Span::from_secs(5000)),
        ..spec(name)
    }
}

fn world() -> World {
    let mut world = World::new(config(2, 4));
    world.run_time = Span::from_secs(10);
    world
}

/// The controller is stopped and begins again with that copy of its store.
fn restore(world: &mut World, copy: &MemoryStore) {
    world.store = copy.clone();
    world.now = world.now + Span::from_secs(1);
    let now = world.moment();
    world.controller = Controller::restore(world.config.clone(), world.store.load(), now);
    world.orders.clear();
    for node in &mut world.nodes {
        node.link = None;
    }
}

fn release(world: &mut World, job: u64) -> Reply {
    let reply = world.ask(Request::Release {
        filter: ids(&[job]),
    });
    world.deliver_all();
    reply
}

/// A copy of the store in which job 1 waits; now it runs.
fn waits_then_runs(world: &mut World) -> MemoryStore {
    let mut held = long("a");
    held.hold = true;
    world.submit(held);
    let copy = world.store.clone();
    release(world, 1);
    world.pass(5);
    copy
}

#[test]
fn ended_jobs_do_not_run_again() {
    let mut world = world();
    world.submit(spec("a"));
    let mut second = spec("b");
    second.hold = true;
    world.submit(second);
    let before_start = world.store.clone();
    world.deliver_all();
    let while_running = world.store.clone();
    world.pass(11);
    assert_eq!(world.queue(), "2:waiting/held_by_user");
    for copy in [before_start, while_running] {
        restore(&mut world, &copy);
        world.connect_all();
        world.pass(3);
        assert_eq!(world.queue(), "1:waiting/held_restored 2:waiting/held_by_user");
        assert_eq!(world.starts_of(1), 1, "it has run already");
    }
}

/// Which jobs may have run is said by their ids: the clock of the machine on which the copy is taken
/// up may be behind the dates in it.
#[test]
fn ended_jobs_do_not_run_again_whatever_the_clock_shows() {
    for by in [-3600, 3600] {
        let mut world = world();
        world.submit(spec("a"));
        let copy = world.store.clone();
        world.deliver_all();
        world.pass(11);
        world.set_clock(Span::from_secs(by));
        world.boot = BootId(2);
        restore(&mut world, &copy);
        world.connect_all();
        world.pass(3);
        assert_eq!(world.queue(), "1:waiting/held_restored", "set by {by}");
        assert_eq!(world.starts_of(1), 1, "it has run already");
        // Neither does one of which a node tells later.
        world.crash();
        world.connect_all();
        world.pass(3);
        assert_eq!(world.queue(), "1:waiting/held_restored", "set by {by}");
    }
}

#[test]
fn ids_go_on_above_what_nodes_have_seen() {
    let mut world = world();
    let copy = world.store.clone();
    for _ in 0..5 {
        world.submit(spec("a"));
    }
    world.pass(30);
    restore(&mut world, &copy);
    world.connect_all();
    let next = world.submit(spec("b"));
    assert!(next > 5, "{next}");
    world.deliver_all();
    assert_eq!(world.queue(), format!("{next}:running"), "new jobs run");
    // Also after another restart, before anything has a higher id.
    world.crash();
    world.connect_all();
    let later = world.submit(spec("b"));
    world.deliver_all();
    assert!(later > next);
    assert_eq!(world.queue(), format!("{next}:running {later}:running"));
}

#[test]
fn a_job_that_its_user_lets_go_runs() {
    let mut world = world();
    world.submit(spec("a"));
    let copy = world.store.clone();
    world.deliver_all();
    world.pass(11);
    restore(&mut world, &copy);
    world.connect_all();
    // It is found out once, and not again for what was decided since.
    world.crash();
    world.connect_all();
    assert_eq!(world.queue(), "1:waiting/held_restored");
    release(&mut world, 1);
    world.crash();
    world.connect_all();
    assert_eq!(world.queue(), "1:running");
    world.pass(11);
    assert_eq!(world.state_of(1), JobState::Completed);
}

#[test]
fn tasks_without_rows_are_held_by_one_row() {
    let mut world = world();
    assert_eq!(world.try_submit(long("a"), Some("0-99")), Ok(1));
    world.deliver_all();
    let copy = world.store.clone();
    world.pass(30);
    restore(&mut world, &copy);
    let records = world.records;
    world.connect_all();
    let written = world.records - records;
    assert!(written < 60, "{written} records");
    let queue = world.queue();
    let held = queue.matches("waiting/held_restored").count();
    assert!(held >= 92, "{held}: {queue}");
    world.crash();
    world.connect_all();
    assert_eq!(world.queue().matches("held_restored").count(), held);
}

#[test]
fn what_still_runs_goes_on() {
    let mut world = world();
    world.run_time = Span::from_secs(1000);
    world.submit(long("a"));
    world.deliver_all();
    world.pass(2);
    let copy = world.store.clone();
    world.submit(spec("b"));
    world.pass(1);
    restore(&mut world, &copy);
    world.connect_all();
    assert_eq!(world.queue(), "1:running");
    assert_eq!(world.starts_of(1), 1);
}

#[test]
fn what_has_not_begun_yet_is_not_held() {
    let mut world = world();
    let mut later = spec("a");
    later.begin = Some(world.now + Span::from_secs(5000));
    world.submit(later);
    let copy = world.store.clone();
    world.submit(spec("b"));
    world.pass(20);
    restore(&mut world, &copy);
    world.connect_all();
    assert_eq!(world.queue(), "1:waiting/begin_time");
}

/// The store has it waiting, a node has it running.
#[test]
fn an_attempt_that_the_store_does_not_know_goes_on_and_its_end_counts() {
    let mut world = world();
    world.run_time = Span::from_secs(100);
    let copy = waits_then_runs(&mut world);
    restore(&mut world, &copy);
    world.connect_all();
    assert_eq!(world.queue(), "1:waiting/held_restored");
    let at = world
        .nodes
        .iter()
        .position(|n| !n.starts.is_empty())
        .unwrap();
    let on = &world.nodes[at].known[&attempt(1, 1)];
    assert!(matches!(on.phase, AttemptPhase::Running { .. }), "{on:?}");
    // It is not let go beside itself, and nothing else starts there.
    match release(&mut world, 1) {
        Reply::Done { refused, .. } => assert_eq!(refused.len(), 1),
        other => panic!("{other:?}"),
    }
    let mut there = spec("b");
    there.request.require = vec![world.nodes[at].name.clone()];
    let other = world.submit(there);
    world.run_times.insert(JobId(other), Span::from_secs(5));
    world.pass(3);
    assert_eq!(world.queue(), format!("1:waiting/held_restored {other}:waiting/nodes_unavailable"));
    // A daemon or the controller that is restarted meanwhile changes nothing.
    world.disconnect(at);
    world.connect(at);
    world.crash();
    world.connect_all();
    world.pass(100);
    assert_eq!(world.state_of(1), JobState::Completed);
    assert_eq!(world.store.row(1).attempt, Attempt(1));
    assert_eq!(world.starts_of(1), 1);
    world.pass(20);
    assert_eq!(world.state_of(other), JobState::Completed);
}

/// The store has the first attempt running, a node the second.
#[test]
fn a_later_attempt_counts_more_than_the_stores() {
    let mut world = world();
    world.run_time = Span::from_secs(100);
    world.submit(long("a"));
    world.deliver_all();
    world.pass(2);
    let copy = world.store.clone();
    world.ask(Request::Requeue {
        filter: ids(&[1]),
        hold: false,
        special: false,
    });
    world.deliver_all();
    world.pass(5);
    assert_eq!(world.queue(), "1:running");
    restore(&mut world, &copy);
    world.connect_all();
    assert_eq!(world.queue(), "1:waiting/held_restored");
    world.pass(100);
    assert_eq!(world.state_of(1), JobState::Completed);
    assert_eq!(world.store.row(1).attempt, Attempt(2));
    assert_eq!(world.starts_of(1), 2, "each attempt once");
}

#[test]
fn jobs_that_the_store_never_had_go_on_to_their_end() {
    let mut world = world();
    world.run_time = Span::from_secs(100);
    let copy = world.store.clone();
    let mut wide = long("a");
    wide.request.nodes = Some(2);
    world.submit(wide);
    world.deliver_all();
    world.pass(5);
    restore(&mut world, &copy);
    world.connect_all();
    world.pass(50);
    assert!(
        world
            .nodes
            .iter()
            .all(|n| n.known.contains_key(&attempt(1, 1)))
    );
    world.pass(60);
    assert!(world.nodes.iter().all(|n| n.known.is_empty()), "all is over");
    let next = world.submit(spec("b"));
    world.deliver_all();
    assert_eq!(world.queue(), format!("{next}:running"));
}

#[test]
fn cancelling_ends_what_goes_on_unknown() {
    let mut world = world();
    world.run_time = Span::from_secs(1000);
    let copy = waits_then_runs(&mut world);
    restore(&mut world, &copy);
    world.connect_all();
    world.ask(cancels(ids(&[1])));
    world.deliver_all();
    assert_eq!(world.state_of(1), JobState::Cancelled);
    assert!(world.nodes.iter().all(|n| n.known.is_empty()));
    world.submit(spec("b"));
    world.deliver_all();
    assert!(world.queue().ends_with(":running"));
}

#[test]
fn a_node_that_is_set_down_ends_it_too() {
    let mut world = world();
    world.run_time = Span::from_secs(1000);
    let copy = world.store.clone();
    world.submit(long("a"));
    world.deliver_all();
    world.pass(5);
    restore(&mut world, &copy);
    world.connect_all();
    let at = world
        .nodes
        .iter()
        .position(|n| !n.starts.is_empty())
        .unwrap();
    let node = world.nodes[at].name.clone();
    for action in [NodeAction::Down { reason: "x".into() }, NodeAction::Resume] {
        let nodes = vec![node.clone()];
        world.ask_as(user(0, "root"), None, Request::NodeControl { nodes, action });
        world.deliver_all();
    }
    assert!(world.nodes[at].known.is_empty());
    let mut there = spec("b");
    there.request.require = vec![node];
    world.submit(there);
    world.deliver_all();
    assert!(world.queue().ends_with(":running"), "{}", world.queue());
}

#[test]
fn a_node_that_never_comes_holds_its_jobs() {
    let mut world = world();
    world.run_time = Span::from_secs(1000);
    let mut there = long("a");
    there.requeue = false;
    there.request.require = vec!["n1".into()];
    world.submit(there);
    world.deliver_all();
    world.pass(2);
    let copy = world.store.clone();
    world.submit(spec("b"));
    world.pass(20);
    restore(&mut world, &copy);
    world.connect(1);
    world.listen(100, &[1]);
    assert_eq!(world.queue(), "1:waiting/held_restored");
}

/// A store that is up to date is never taken for an old one, whatever dies when.
#[test]
fn nothing_is_held_without_reason() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let mut world = world();
        for _ in 0..40 {
            match dice.below(6) {
                0 | 1 => {
                    let submission = api::Submission {
                        spec: spec("a"),
                        script: OsText::default(),
                        array: None,
                    };
                    // It may die before it answers.
                    world.ask(Request::Submit(Box::new(submission)));
                }
                2 => {
                    let death = match dice.chance(50) {
                        true => Death::BeforeCommit,
                        false => Death::AfterCommit,
                    };
                    world.dies = Some((dice.below(4) as u32, death));
                }
                3 => world.crash(),
                4 => world.pass(1 + dice.below(12) as i64),
                _ => world.disconnect(dice.below(2) as usize),
            }
            world.connect_all();
        }
        assert!(!world.queue().contains("restored"), "seed {seed}");
    }
}

/// Whoever has a node's key may tell of any number of attempts that never were.
#[test]
fn attempts_that_a_node_makes_up_have_a_most() {
    let mut world = world();
    let copy = world.store.clone();
    world.submit(long("a"));
    world.deliver_all();
    world.pass(5);
    restore(&mut world, &copy);
    world.connect_all();
    world.unchecked = true;
    const MORE: u32 = limits::STRAYS_OF_NODE as u32 + 1000;
    let node = world.nodes[0].name.clone();
    let told = |world: &mut World, n: u32| {
        let node = node.clone();
        let report = NodeReport::Prepared {
            key: attempt(1, n),
            node,
            failure: None,
        };
        let link = world.nodes[0].link.unwrap();
        world
            .controller
            .handle(world.now, Event::LinkReported { link, report });
        let batch = world.controller.settle(world.now);
        let released = |effect: &Effect| match effect {
            Effect::Order { order, .. } => matches!(order, NodeOrder::Release { .. }),
            _ => false,
        };
        batch.effects.iter().any(released)
    };
    let ended = (1..=MORE).filter(|n| told(&mut world, 100 + n)).count();
    // One goes on in truth. What is beyond is ended like every attempt that should not be there.
    assert!((1000..=1001).contains(&ended), "{ended}");
    let Reply::Nodes(nodes) = world.ask(Request::Nodes) else {
        panic!("no nodes");
    };
    let more = format!(" and {} more", limits::STRAYS_OF_NODE - 20);
    assert!(nodes[0].reason.ends_with(&more), "{}", nodes[0].reason);
    // How they ended is known of the last one alone.
    for n in 1..=1000 {
        let report = NodeReport::Ended {
            key: attempt(1, 100 + n),
            node: node.clone(),
            end: End::never_ran(EndCause::Cancelled, world.now),
            drain: None,
        };
        let link = world.nodes[0].link.unwrap();
        world
            .controller
            .handle(world.now, Event::LinkReported { link, report });
        world.controller.settle(world.now);
    }
    assert!(told(&mut world, 50));
    assert!(told(&mut world, 1100));
    let Reply::Nodes(nodes) = world.ask(Request::Nodes) else {
        panic!("no nodes");
    };
    let more = format!(" and {} more", limits::STRAYS_OF_NODE - 1020);
    assert!(nodes[0].reason.ends_with(&more), "{}", nodes[0].reason);
}

// --- a backup that says itself what it is

/// The same with a copy that `cosyd store restore` has put back.
fn restore_backup(world: &mut World, copy: &MemoryStore) {
    let mut copy = copy.clone();
    copy.restored = Some(RestoredRow {
        at: world.now,
        last: world.now - Span::from_secs(60),
    });
    restore(world, &copy);
}

/// A job of the copy has run on one of two nodes since; only the other one comes back, which was not
/// there meanwhile and knows no better.
fn has_run_on_a_node_that_is_away(backup: bool) -> (World, usize) {
    let mut world = world();
    let control = |world: &mut World, nodes: &[&str], action| {
        let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
        world.ask_as(user(0, "root"), None, Request::NodeControl { nodes, action });
    };
    let drain = NodeAction::Drain { reason: "x".into() };
    control(&mut world, &["n1", "n2"], drain);
    world.submit(spec("a"));
    let mut copy = world.store.clone();
    copy.nodes.clear();
    control(&mut world, &["n2"], NodeAction::Resume);
    world.deliver_all();
    world.pass(11);
    assert_eq!(world.state_of(1), JobState::Completed);
    let ran = world.nodes.iter().position(|n| !n.starts.is_empty());
    let other = 1 - ran.expect("one of the two has run it");
    world.nodes[other].seen = None;
    match backup {
        true => restore_backup(&mut world, &copy),
        false => restore(&mut world, &copy),
    }
    world.connect(other);
    world.deliver_all();
    // Others are waited for no longer than five seconds.
    world.pass(8);
    (world, other)
}

#[test]
fn what_has_run_since_a_backup_is_held_though_no_node_knows() {
    let (mut world, _) = has_run_on_a_node_that_is_away(false);
    let queue = world.queue();
    assert_eq!(world.starts_of(1), 2, "without a word it would run again: {queue}");
    let (mut world, other) = has_run_on_a_node_that_is_away(true);
    assert_eq!(world.queue(), "1:waiting/held_restored");
    assert_eq!(world.starts_of(1), 1);
    // New work goes on, under numbers that were not given out.
    let next = world.submit(spec("b"));
    assert!(next > 100_000, "{next}");
    world.deliver_all();
    assert_eq!(world.queue(), format!("1:waiting/held_restored {next}:running"));
    // The one that ran it comes later and knows better; nothing changes.
    world.connect_all();
    world.pass(11);
    assert_eq!(world.queue(), "1:waiting/held_restored");
    assert_eq!(world.state_of(next), JobState::Completed);
    assert_eq!(world.nodes[other].starts.len(), 1);
    release(&mut world, 1);
    world.pass(11);
    assert_eq!((world.state_of(1), world.starts_of(1)), (JobState::Completed, 2));
}

#[test]
fn a_backup_is_taken_up_once() {
    let mut world = world();
    world.submit(long("a"));
    world.submit(long("b"));
    let copy = world.store.clone();
    restore_backup(&mut world, &copy);
    assert!(world.store.restored.is_some());
    world.connect_all();
    assert_eq!(world.queue(), "1:waiting/held_restored 2:waiting/held_restored");
    assert_eq!(world.store.restored, None);
    release(&mut world, 1);
    assert_eq!(world.queue(), "1:running 2:waiting/held_restored");
    world.crash();
    world.connect_all();
    assert_eq!(world.queue(), "1:running 2:waiting/held_restored");
    let next = world.submit(long("c"));
    world.crash();
    assert!(world.submit(long("d")) > next);
}

/// Of what runs in a backup its nodes have to tell: where they have it, it goes on, else it is held.
#[test]
fn what_runs_in_a_backup_is_asked_of_its_nodes() {
    let mut world = world();
    world.run_times.insert(JobId(1), Span::from_secs(1000));
    let mut wide = long("a");
    wide.request.nodes = Some(2);
    world.submit(wide);
    world.submit(spec("b"));
    world.deliver_all();
    world.pass(2);
    let copy = world.store.clone();
    assert_eq!(world.queue(), "1:running 2:running");
    world.pass(20);
    assert_eq!(world.queue(), "1:running");
    restore_backup(&mut world, &copy);
    world.pass(2);
    assert_eq!(world.queue(), "1:running 2:running", "nobody has told yet");
    world.connect_all();
    world.pass(2);
    assert_eq!(world.queue(), "1:running 2:waiting/held_restored");
    assert_eq!((world.starts_of(1), world.starts_of(2)), (1, 1));
}

/// The lost store gave out more ids than are left out: a node that knows says so.
#[test]
fn ids_of_a_large_array_are_not_given_out_again() {
    let mut world = world();
    world.submit(long("a"));
    let copy = world.store.clone();
    restore_backup(&mut world, &copy);
    let mark = StoreMark {
        jobs: 5_000_000,
        ..StoreMark::default()
    };
    world.nodes[1].seen = Some(mark);
    world.connect(0);
    world.deliver_all();
    release(&mut world, 1);
    world.pass(8);
    assert_eq!(world.queue(), "1:running");
    let mut waits = long("b");
    waits.request.nodes = Some(2);
    let waits = world.submit(waits);
    world.connect(1);
    world.deliver_all();
    assert!(world.submit(spec("c")) > 5_000_000);
    assert!(!world.queue().contains("held_restored"), "{}: {waits}", world.queue());
}
