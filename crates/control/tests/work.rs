//! How much work is done when licences come back and when nodes change, and what silence is
//! after a turn that took long. Work is counted, not timed.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{Event, LinkHello, LinkId};
use cosy_model::api::{NodeAction, Reply, Request};
use cosy_model::node::{NodeReport, NodeSelf};
use cosy_model::*;
use world::*;

fn licensed(names: &[(&str, u32)], nodes: u32) -> World {
    let mut config = config(nodes, 4);
    for (name, count) in names {
        config.licenses.set(name, *count);
    }
    World::new(config)
}

fn wants(names: &[(&str, u32)]) -> JobSpec {
    let mut licenses = CountedResources::default();
    for (name, count) in names {
        licenses.set(name, *count);
    }
    JobSpec {
        licenses,
        ..spec("wants")
    }
}

fn running(world: &mut World) -> Vec<u64> {
    let queue = world.queue();
    let all = queue.split(' ').filter(|job| job.contains(":running"));
    let id = |job: &str| {
        let mut numbers = job.split(':').next().unwrap().split('_');
        let first: u64 = numbers.next().unwrap().parse().unwrap();
        // Indices of arrays begin with 1 here.
        numbers
            .next()
            .map_or(first, |index| first + index.parse::<u64>().unwrap() - 1)
    };
    all.map(id).collect()
}

/// One licence and hundreds who wait for it: each end lets one of them in, in their order.
#[test]
fn an_end_enters_as_many_as_could_start() {
    let mut world = licensed(&[("l", 1)], 2);
    world.run_time = Span::from_secs(5);
    let first = world.try_submit(wants(&[("l", 1)]), Some("1-300")).unwrap();
    let ids: Vec<u64> = (first..first + 300).collect();
    world.deliver_all();
    world.pass(1);
    assert_eq!(running(&mut world), [ids[0]]);
    let mut ran = Vec::new();
    for _ in 0..30 {
        world.pass(1);
        ran.extend(running(&mut world));
    }
    ran.dedup();
    assert!(ran.len() >= 5, "{ran:?}");
    assert!(ids.starts_with(&ran), "{ran:?}");
    world.crash();
    for n in 0..2 {
        world.connect(n);
    }
    world.deliver_all();
    world.pass(20);
    assert_eq!(running(&mut world).len(), 1);
}

/// Those who come first and cannot start for want of nodes do not keep the licence from those
/// who can; and who wants more than is free keeps nobody back.
#[test]
fn a_free_licence_finds_who_can_start() {
    let mut world = licensed(&[("l", 2), ("m", 1)], 2);
    world.run_time = Span::from_secs(1000);
    let long = |spec: JobSpec| JobSpec {
        time_limit: Some(Span::from_secs(2000)),
        ..spec
    };
    let mut blocker = long(spec("blocker"));
    blocker.request.nodes = Some(1);
    blocker.request.exclusive = true;
    world.submit(blocker);
    let mut wide = long(wants(&[("l", 1)]));
    wide.request.nodes = Some(2);
    wide.request.exclusive = true;
    world.try_submit(wide, Some("1-100")).unwrap();
    let both = world.submit(JobSpec {
        time_limit: Some(Span::from_secs(20)),
        ..wants(&[("l", 1), ("m", 1)])
    });
    world.deliver_all();
    world.pass(5);
    let runs = running(&mut world);
    assert!(runs.contains(&both), "{runs:?}");
}

/// Tells features and amounts as a node that registers.
fn register(world: &mut World, n: usize, cores: u32, features: &[&str]) {
    let link = LinkId(world.id());
    world.nodes[n].link = Some(link);
    let name = world.nodes[n].name.clone();
    let node = NodeSelf {
        name,
        amounts: Amounts {
            cores,
            memory: MiB(16_000),
            ..Amounts::default()
        },
        features: features.iter().map(|f| (*f).to_owned()).collect(),
        boot_id: "1".into(),
        version: "t".into(),
        listen: ":7818".into(),
        ..NodeSelf::default()
    };
    let now = world.now;
    world.controller.handle(
        now,
        Event::LinkOpened {
            link,
            peer: format!("key{}", n + 1),
            address: None,
            hello: LinkHello::Node { lacks: Vec::new() },
        },
    );
    let report = NodeReport::Register {
        nodes: vec![node],
        inventory: Vec::new(),
        seen: OsText::default(),
        clock: None,
    };
    world
        .controller
        .handle(now, Event::LinkReported { link, report });
}

fn with_feature(name: &str) -> JobSpec {
    let mut spec = JobSpec {
        begin: None,
        ..spec("featured")
    };
    spec.request.features = vec![name.to_owned()];
    spec
}

#[test]
fn only_those_who_ask_for_a_feature_are_placed_for_it() {
    let mut config = config(3, 4);
    for node in &mut config.nodes {
        node.features = vec!["old".into()];
    }
    let mut world = World::new(config);
    world.run_time = Span::from_secs(1000);
    for n in ["n1", "n2", "n3"] {
        let action = NodeAction::Drain { reason: "x".into() };
        let request = Request::NodeControl {
            nodes: vec![n.into()],
            action,
        };
        world.ask_as(user(0, "root"), None, request);
    }
    world.try_submit(spec("plain"), Some("1-200")).unwrap();
    let asks: Vec<u64> = (0..10).map(|_| world.submit(with_feature("old"))).collect();
    world.pass(1);
    let before = world.controller.placed_for_changes();
    // A feature that nobody asks for, told by all nodes in one turn.
    for n in 0..3 {
        register(&mut world, n, 4, &["new"]);
    }
    world.settle();
    assert_eq!(world.controller.placed_for_changes(), before);
    // One that ten ask for is gone from a node.
    let features = |names: &[&str]| NodeAction::Features {
        names: names.iter().map(|n| (*n).to_owned()).collect(),
    };
    let request = Request::NodeControl {
        nodes: vec!["n1".into(), "n2".into()],
        action: features(&["new"]),
    };
    world.ask_as(user(0, "root"), None, request);
    assert_eq!(world.controller.placed_for_changes(), before + 10);
    let request = Request::NodeControl {
        nodes: vec!["n1".into(), "n2".into(), "n3".into()],
        action: NodeAction::Resume,
    };
    world.ask_as(user(0, "root"), None, request);
    world.deliver_all();
    world.pass(1);
    // They run on the node that has it still, those first that came first.
    for id in running(&mut world).iter().filter(|id| asks.contains(id)) {
        assert_eq!(world.store.row(*id).run.as_ref().unwrap().parts[0].node, "n3");
    }
}

/// Many who ask are placed in pieces, others have their turn between them.
#[test]
fn many_are_placed_in_pieces() {
    let mut config = config(1, 4);
    config.nodes[0].features = vec!["old".into()];
    let mut world = World::new(config);
    let held = JobSpec {
        hold: true,
        ..with_feature("old")
    };
    world.try_submit(held, Some("1-1300")).unwrap();
    let action = NodeAction::Features {
        names: vec!["old".into(), "new".into(), "more".into()],
    };
    let none = NodeAction::Features { names: Vec::new() };
    let before = world.controller.placed_for_changes();
    let ask = |world: &mut World, action| {
        let client = cosy_control::ClientId(world.id());
        let now = world.now;
        let event = Event::Asked {
            client,
            caller: Box::new(cosy_control::Caller::known(user(0, "root"))),
            key: None,
            request: Request::NodeControl {
                nodes: vec!["n1".into()],
                action,
            },
            facts: cosy_control::Facts::default(),
        };
        world.controller.handle(now, event);
        let batch = world.controller.settle(now);
        world.store.commit(batch.records);
    };
    ask(&mut world, none);
    assert_eq!(world.controller.placed_for_changes() - before, 500);
    // It is gone on with at once, whatever happens meanwhile.
    assert!(world.controller.next_wakeup(world.now) <= world.now);
    ask(&mut world, action);
    assert_eq!(world.controller.placed_for_changes() - before, 1000);
    for _ in 0..10 {
        let batch = world.controller.settle(world.now);
        world.store.commit(batch.records);
    }
    assert_eq!(world.controller.placed_for_changes() - before, 2600);
    assert!(world.controller.next_wakeup(world.now) > world.now);
}

/// A node that changes what it has again and again is out of service for a while, instead of
/// having everybody placed anew each time.
#[test]
fn a_node_that_changes_its_mind_waits() {
    let mut config = config(2, 4);
    for node in &mut config.nodes {
        node.amounts = None;
    }
    let mut world = World::new(config);
    for n in 0..2 {
        register(&mut world, n, 4, &[]);
    }
    world.settle();
    let held = JobSpec {
        hold: true,
        ..spec("held")
    };
    world.try_submit(held, Some("1-2000")).unwrap();
    let before = world.controller.placed_for_changes();
    for times in 0..20 {
        register(&mut world, 0, 4 + times % 2, &[]);
        world.settle();
    }
    let placed = world.controller.placed_for_changes() - before;
    assert!(placed <= 2000, "{placed}");
    world.now = world.now + Span::from_secs(40);
    for n in 0..2 {
        register(&mut world, n, 6, &[]);
    }
    world.settle();
    let placed = world.controller.placed_for_changes() - before;
    assert!(placed <= 4000, "{placed}");
    let mut six = spec("six");
    six.request.tasks = Some(6);
    six.request.nodes = Some(1);
    let id = world.submit(six);
    world.deliver_all();
    assert_eq!(running(&mut world), [id]);
}

fn lost(world: &mut World) -> usize {
    let Reply::Nodes(nodes) = world.ask(Request::Nodes) else {
        panic!("no list of nodes");
    };
    nodes.iter().filter(|node| node.state == "lost").count()
}

/// A turn that takes longer than `node_timeout` does not make nodes lost that reported
/// meanwhile, also where their reports are too many for the next turn.
#[test]
fn nodes_are_not_lost_by_a_turn_that_took_long() {
    let mut world = World::new(config(3, 4));
    world.pass(3);
    for _ in 0..4 {
        // The controller was busy for two minutes; what nodes said is still in the mailbox.
        world.now = world.now + Span::from_secs(120);
        world.event(Event::Ticked);
        assert_eq!(lost(&mut world), 0);
        // Now it is taken.
        for n in 0..3 {
            world.report(n, NodeReport::Heartbeat);
        }
        assert_eq!(lost(&mut world), 0);
    }
    // A node that is silent while the controller listens is lost, after its time.
    let timeout = world.config.policy.node_timeout.secs();
    for second in 0..timeout + 2 {
        assert_eq!(lost(&mut world), 0, "after {second} s");
        world.now = world.now + Span::from_secs(1);
        for n in 0..2 {
            world.report(n, NodeReport::Heartbeat);
        }
        world.event(Event::Ticked);
        if lost(&mut world) == 1 {
            assert!(second + 1 >= timeout, "after {second} s");
            return;
        }
    }
    panic!("it was never lost");
}

/// However long each turn takes, a node that says nothing is lost in the end.
#[test]
fn a_node_that_is_gone_is_lost_also_where_turns_are_long() {
    let mut world = World::new(config(2, 4));
    for _ in 0..100 {
        world.now = world.now + Span::from_secs(30);
        world.report(0, NodeReport::Heartbeat);
        world.event(Event::Ticked);
    }
    assert_eq!(lost(&mut world), 1);
}
