//! What the key of a node is worth: whose requests its daemon passes on and with which
//! groups, and how it is revoked.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod world;

use cosy_control::{
    Caller, ClientId, ClusterConfig, Event, Facts, LinkAnswer, LinkHello, TokenSeed, Via,
};
use cosy_model::api::{NodeAction, Reply, Request, Submission};
use cosy_model::node::{Allocation, NodeOrder, NodeReport};
use cosy_model::trigger::{TriggerEvent, TriggerSpec, TriggerTarget};
use cosy_model::{Gid, Group, JobId, OsText, Refusal, RefusalCode, RelayPolicy, Span, Uid, User};
use world::{World, config, spec, user};

/// A group that the directory gives nobody here.
const SHADOW: Gid = Gid(42);

/// Two compute nodes and a login host, the last.
fn with_login(change: impl FnOnce(&mut ClusterConfig)) -> World {
    let mut config = config(3, 4);
    config.nodes[2].login = true;
    config.queues[0].nodes = Some(vec!["n1".into(), "n2".into()]);
    change(&mut config);
    World::new(config)
}

fn via(world: &World, n: usize) -> Option<Via> {
    Some(Via {
        node: format!("n{}", n + 1),
        link: world.nodes[n].link.unwrap(),
    })
}

fn ask(world: &mut World, caller: Caller, request: Request) -> Reply {
    let client = ClientId(world.id());
    world.event(Event::Asked {
        client,
        caller: Box::new(caller),
        key: None,
        request,
        facts: Facts::default(),
    });
    world.replies.remove(&client).expect("an answer")
}

fn submission() -> Request {
    Request::Submit(Box::new(Submission {
        spec: spec("x"),
        script: OsText::default(),
        array: None,
    }))
}

/// Submits, with the group that the process of the caller is said to have.
fn submit(world: &mut World, caller: Caller) -> Result<(u64, String), Refusal> {
    match ask(world, caller, submission()) {
        Reply::Submitted { job, note, .. } => Ok((job.0, note)),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn ann() -> User {
    let mut ann = user(1000, "u1000");
    let gid = Gid(500);
    let name = "more".into();
    ann.groups.push(Group { gid, name });
    ann
}

fn caller(gid: Gid) -> Caller {
    let user = ann();
    Caller {
        gid,
        ..Caller::known(user)
    }
}

fn unresolved(gid: Gid) -> Caller {
    let user = User {
        uid: Uid(1000),
        gid,
        name: "1000".into(),
        ..User::default()
    };
    Caller {
        resolved: false,
        ..Caller::known(user)
    }
}

fn gid_of(world: &World, job: u64) -> Gid {
    world.store.submissions[&JobId(job)].0.gid
}

/// Allocations that were ordered and not delivered yet.
fn ordered(world: &World) -> Vec<Allocation> {
    let of = |order: &NodeOrder| match order {
        NodeOrder::Prepare(allocation) => Some((**allocation).clone()),
        NodeOrder::Launch(launch) => Some(launch.allocation.clone()),
        _ => None,
    };
    world.orders.iter().filter_map(|(_, o)| of(o)).collect()
}

fn code(reply: Reply) -> Result<(), RefusalCode> {
    match reply {
        Reply::Refused(refusal) => Err(refusal.code),
        _ => Ok(()),
    }
}

// --- groups

#[test]
fn only_groups_that_the_directory_gives() {
    let mut world = with_login(|_| {});
    let remote = |world: &World, gid| Caller {
        via: via(world, 2),
        ..caller(gid)
    };
    let shadow = remote(&world, SHADOW);
    let refusal = submit(&mut world, shadow.clone()).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Forbidden);
    for word in ["n3", "42", "u1000"] {
        assert!(refusal.message.contains(word), "{}", refusal.message);
    }
    assert_eq!(code(ask(&mut world, shadow, Request::Queues)), Err(RefusalCode::Forbidden));
    let other = remote(&world, Gid(500));
    let (job, note) = submit(&mut world, other).unwrap();
    assert_eq!(note, "");
    assert_eq!(ordered(&world)[0].gid, Gid(500), "job {job}");
    // On the controller's own host: the user's group instead, and a word to the user.
    let (_, note) = submit(&mut world, caller(SHADOW)).unwrap();
    assert!(note.contains("42") && note.contains("1000"), "{note}");
    let allocation = ordered(&world).pop().unwrap();
    assert_eq!(allocation.gid, Gid(1000));
    assert_eq!(allocation.groups, [Gid(1000), Gid(500)]);
}

#[test]
fn nothing_is_submitted_with_a_group_that_nobody_has_confirmed() {
    let mut world = with_login(|_| {});
    for via in [None, via(&world, 2)] {
        let caller = Caller {
            via,
            ..unresolved(SHADOW)
        };
        let refusal = submit(&mut world, caller).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::DirectoryDown);
    }
}

#[test]
fn a_group_that_was_taken_away_is_in_no_ticket() {
    let mut world = with_login(|_| {});
    let mut held = spec("x");
    held.hold = true;
    let request = Request::Submit(Box::new(Submission {
        spec: held,
        script: OsText::default(),
        array: None,
    }));
    let Reply::Submitted { job, .. } = ask(&mut world, caller(Gid(500)), request) else {
        panic!("not taken")
    };
    assert_eq!(gid_of(&world, job.0), Gid(500));
    let release = Request::Release {
        filter: world::ids(&[job.0]),
    };
    let fewer_groups = Caller::known(user(1000, "u1000"));
    ask(&mut world, fewer_groups, release);
    let allocation = ordered(&world).pop().expect("it has started");
    assert_eq!((allocation.gid, allocation.groups), (Gid(1000), vec![Gid(1000)]));
}

#[test]
fn programs_of_triggers_have_only_groups_of_the_directory() {
    let mut world = with_login(|_| {});
    let (job, _) = submit(&mut world, caller(Gid(1000))).unwrap();
    world.deliver_all();
    let set = Request::SetTrigger(Box::new(TriggerSpec {
        on: TriggerTarget::Job(JobId(job)),
        events: [TriggerEvent::Ended].into(),
        offset: Span::ZERO,
        permanent: false,
        program: OsText::from("/bin/true"),
        environment: OsText::default(),
    }));
    world.directory_down = true;
    let reply = ask(&mut world, unresolved(SHADOW), set);
    assert!(matches!(reply, Reply::TriggerSet(_)), "{reply:?}");
    world.directory_down = false;
    let key = *world.nodes[0].known.keys().next().unwrap();
    world.end(0, key, 0);
    world.deliver_all();
    world.pass(5);
    let program = world.programs.last().expect("it has run");
    assert_eq!(program.allocation.gid, Gid(1000));
    assert_eq!(program.allocation.groups, ann().gids());
}

// --- whose requests

#[test]
fn whose_requests_a_login_host_passes_on() {
    let check = |relay: RelayPolicy, want: [Result<(), RefusalCode>; 4]| {
        let mut world = with_login(|config| {
            config.nodes[2].relay = relay.clone();
            config.admins = vec!["u7".into()];
        });
        let node = || Request::NodeControl {
            nodes: vec!["n1".into()],
            action: NodeAction::Resume,
        };
        let asked = [
            (0, Request::Queues),
            (7, node()),
            (7, Request::Queues),
            (1000, Request::Queues),
        ];
        for ((uid, request), want) in asked.into_iter().zip(want) {
            let caller = Caller {
                via: via(&world, 2),
                ..Caller::known(user(uid, &format!("u{uid}")))
            };
            let got = code(ask(&mut world, caller, request));
            assert_eq!(got, want, "{relay:?} {uid}");
        }
    };
    let no = Err(RefusalCode::Forbidden);
    check(RelayPolicy::All, [Ok(()), Ok(()), Ok(()), Ok(())]);
    check(RelayPolicy::Users, [no, no, Ok(()), Ok(())]);
    check(RelayPolicy::Only(vec!["@gu1000".into()]), [no, no, no, Ok(())]);
    check(RelayPolicy::Only(vec!["u7".into()]), [no, Ok(()), Ok(()), no]);
    check(RelayPolicy::Nobody, [no, no, no, no]);
}

#[test]
fn a_compute_node_passes_on_nothing_of_root_and_only_what_jobs_need() {
    let mut world = with_login(|_| {});
    let submit_as = |world: &mut World, uid: u32| {
        let who = Caller::known(user(uid, &format!("u{uid}")));
        submit(world, who).unwrap().0
    };
    let jobs = [0, 999, 1000].map(|uid| submit_as(&mut world, uid));
    world.deliver_all();
    assert!(world.nodes[0].known.len() == 3, "all on n1");
    let from_n1 = |world: &mut World, uid: u32, request| {
        let caller = Caller {
            via: via(world, 0),
            ..Caller::known(user(uid, &format!("u{uid}")))
        };
        code(ask(world, caller, request))
    };
    let no = Err(RefusalCode::Forbidden);
    for uid in [0, 999] {
        assert_eq!(from_n1(&mut world, uid, Request::Queues), no, "uid {uid}");
    }
    assert_eq!(from_n1(&mut world, 1000, Request::Queues), Ok(()));
    assert_eq!(from_n1(&mut world, 1000, submission()), Ok(()));
    let confirm = Request::Confirm {
        id: cosy_model::ReservationId(1),
    };
    assert_eq!(from_n1(&mut world, 1000, confirm.clone()), no);
    let login = Caller {
        via: via(&world, 2),
        ..caller(Gid(1000))
    };
    let got = code(ask(&mut world, login, confirm));
    assert_eq!(got, Err(RefusalCode::NotFound), "a login host may ask");
    // The way to a job of root is shown to login hosts only.
    world.deliver_all();
    for (uid, job, n, want) in [
        (0, jobs[0], 0, false),
        (999, jobs[1], 0, false),
        (1000, jobs[2], 0, true),
        (0, jobs[0], 2, true),
    ] {
        let ask = NodeReport::AskPassage {
            number: 1,
            uid: Uid(uid),
            job: JobId(job),
        };
        world.report(n, ask);
        let passages = world.orders.drain(..).filter_map(|(_, order)| match order {
            NodeOrder::Passage { passage, .. } => Some(passage.is_ok()),
            _ => None,
        });
        assert_eq!(passages.collect::<Vec<_>>(), [want], "uid {uid} on {n}");
    }
}

#[test]
fn a_passage_waits_for_the_directory() {
    let mut world = with_login(|_| {});
    let (job, _) = submit(&mut world, caller(Gid(500))).unwrap();
    world.deliver_all();
    world.directory_down = true;
    world.crash();
    for n in 0..3 {
        world.connect(n);
    }
    world.orders.clear();
    let passages = |world: &mut World| {
        let passages = world.orders.drain(..).filter_map(|(_, order)| match order {
            NodeOrder::Passage { passage, .. } => Some(passage.map(|p| p.gid)),
            _ => None,
        });
        passages.collect::<Vec<_>>()
    };
    let ask = NodeReport::AskPassage {
        number: 1,
        uid: Uid(1000),
        job: JobId(job),
    };
    world.report(2, ask.clone());
    let got = passages(&mut world);
    assert_eq!(got[0].as_ref().unwrap_err().code, RefusalCode::Unavailable);
    world.directory_down = false;
    world.report(2, ask);
    // The directory gives the group no more.
    assert_eq!(passages(&mut world), [Ok(Gid(1000))]);
}

// --- revoking

fn revoke(world: &mut World, nodes: &[&str]) -> Reply {
    let request = Request::NodeControl {
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        action: NodeAction::Revoke {
            reason: "stolen".into(),
        },
    };
    ask(world, Caller::known(user(0, "root")), request)
}

fn hello(world: &mut World, peer: &str, hello: LinkHello) -> LinkAnswer {
    let link = cosy_control::LinkId(world.id());
    world.event(Event::LinkOpened {
        link,
        peer: peer.to_owned(),
        address: None,
        hello,
    });
    world.answers.remove(&link).expect("an answer")
}

#[test]
fn a_revoked_key_is_good_for_nothing() {
    let mut world = with_login(|config| config.nodes[0].key = None);
    // n1 has joined, n2 is pinned in the configuration.
    let token = |world: &mut World| {
        let client = ClientId(world.id());
        let seed = TokenSeed {
            text: "t".into(),
            hash: format!("hash{}", client.0),
        };
        let hash = seed.hash.clone();
        world.event(Event::Asked {
            client,
            caller: Box::new(Caller::known(user(0, "root"))),
            key: None,
            request: Request::JoinToken {
                node: "n1".into(),
                valid: Span::from_minutes(60),
            },
            facts: Facts {
                old_jobs: Vec::new(),
                token: Some(seed),
                ..Facts::default()
            },
        });
        hash
    };
    let join = |world: &mut World, key: &str, token_hash: String| {
        let node = "n1".into();
        hello(world, key, LinkHello::Join { node, token_hash })
    };
    let hash = token(&mut world);
    assert_eq!(join(&mut world, "joined", hash), LinkAnswer::Joined);
    world.connect_as(0, "joined");
    let job = submit(&mut world, caller(Gid(1000))).unwrap().0;
    world.deliver_all();
    let before = token(&mut world);
    let who = Caller::known(user(1000, "u1000"));
    let action = NodeAction::Revoke {
        reason: String::new(),
    };
    let nodes = vec!["n1".into()];
    let refused = ask(&mut world, who, Request::NodeControl { nodes, action });
    assert_eq!(code(refused), Err(RefusalCode::Forbidden));
    let reply = revoke(&mut world, &["n1", "n2"]);
    assert!(matches!(reply, Reply::Done { changed: 2, .. }), "{reply:?}");
    assert_eq!([0, 1].map(|n| world.nodes[n].link), [None, None], "cut off");
    assert!(!world.queue().contains("running"), "job {job} is given up");
    let told = world.orders.iter().filter_map(|(link, order)| match order {
        NodeOrder::Welcome { revoked, .. } => Some((*link, revoked.clone())),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    let third = world.nodes[2].link.unwrap();
    assert_eq!(told, [(third, vec!["joined".to_owned(), "key2".to_owned()])]);
    for restarted in [false, true] {
        if restarted {
            world.crash();
            world.connect(2);
            let told = world.orders.iter().any(|(_, order)| {
                matches!(order, NodeOrder::Welcome { revoked, .. } if revoked.len() == 2)
            });
            assert!(told, "at each registration");
        }
        for key in ["joined", "key2"] {
            let LinkAnswer::Refused(why) =
                hello(&mut world, key, LinkHello::Node { lacks: Vec::new() })
            else {
                panic!("{key} was welcome")
            };
            assert!(why.contains("revoked"), "{why}");
        }
        let hash = token(&mut world);
        let LinkAnswer::Refused(why) = join(&mut world, "joined", hash) else {
            panic!("joined with a revoked key")
        };
        assert!(why.contains("revoked"), "{why}");
    }
    assert_ne!(join(&mut world, "new", before), LinkAnswer::Joined, "an old token");
    let hash = token(&mut world);
    assert_eq!(join(&mut world, "new", hash), LinkAnswer::Joined);
    world.connect_as(0, "new");
    assert!(world.nodes[0].link.is_some());
    assert_eq!(
        hello(&mut world, "new", LinkHello::Node { lacks: Vec::new() }),
        LinkAnswer::Welcome
    );
}
