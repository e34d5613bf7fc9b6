//! What users and administrators are promised, one rule a test.

mod world;

use cosy_control::*;
use cosy_model::api::{
    JobChange, JobField, JobFilter, JobRef, NodeAction, Reply, Request, Submission,
};
use cosy_model::job::{MailRequest, MemoryRequest, ResourceRequest};
use cosy_model::node::*;
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::*;
use world::*;

fn whole(name: &str, nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        request: ResourceRequest {
            nodes: Some(nodes),
            exclusive: true,
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_secs(secs)),
        ..spec(name)
    }
}

fn depends(kind: DependencyKind, job: u64) -> JobSpec {
    JobSpec {
        dependencies: vec![Dependency {
            kind,
            job: JobId(job),
            task: None,
            delay: cosy_model::Span::ZERO,
        }],
        ..spec("d")
    }
}

fn refusal(world: &mut World, spec: JobSpec) -> Refusal {
    world
        .try_submit(spec, None)
        .expect_err("it should be refused")
}

// --- refused at once

#[test]
fn what_can_never_run_is_refused_with_figures() {
    let mut world = World::new(config(2, 4));
    let mut check = |request: ResourceRequest, code: RefusalCode, words: &str| {
        let refused = refusal(
            &mut world,
            JobSpec {
                request,
                ..spec("x")
            },
        );
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.message.contains(words), "{refused}");
    };
    let r = ResourceRequest::default;
    check(
        ResourceRequest {
            nodes: Some(3),
            ..r()
        },
        RefusalCode::NeverFits,
        "2",
    );
    check(
        ResourceRequest {
            cores_per_task: 5,
            ..r()
        },
        RefusalCode::NeverFits,
        "4",
    );
    check(
        ResourceRequest {
            memory: MemoryRequest::PerNode(MiB(20_000)),
            ..r()
        },
        RefusalCode::NeverFits,
        "memory",
    );
    check(
        ResourceRequest {
            disk_per_node: MiB(2000),
            ..r()
        },
        RefusalCode::NeverFits,
        "disk",
    );
    check(
        ResourceRequest {
            gpus_per_node: 3,
            ..r()
        },
        RefusalCode::NeverFits,
        "3 gpus",
    );
    check(
        ResourceRequest {
            nodes: Some(0),
            ..r()
        },
        RefusalCode::Invalid,
        "0 nodes",
    );
    check(
        ResourceRequest {
            features: vec!["fast".into()],
            ..r()
        },
        RefusalCode::NeverFits,
        "fast",
    );
    check(
        ResourceRequest {
            avoid: vec!["n9".into()],
            ..r()
        },
        RefusalCode::NotFound,
        "n9",
    );
    check(
        ResourceRequest {
            sets: vec!["none".into()],
            ..r()
        },
        RefusalCode::NotFound,
        "none",
    );
    check(
        ResourceRequest {
            require: vec!["n1".into()],
            avoid: vec!["n1".into()],
            ..r()
        },
        RefusalCode::NeverFits,
        "n1",
    );
    check(
        ResourceRequest {
            nodes: Some(1),
            tasks: Some(9),
            tasks_per_node: Some(2),
            ..r()
        },
        RefusalCode::Invalid,
        "9 tasks",
    );
    assert_eq!(world.controller.live_jobs(), 0);
}

#[test]
fn limits_of_queues() {
    let mut c = config(4, 4);
    c.queues[0] = QueueSpec {
        name: "main".into(),
        max_time: Some(Span::from_minutes(10)),
        default_time: Some(Span::from_minutes(5)),
        max_nodes: Some(2),
        max_memory: Some(MiB(1000)),
        max_disk: Some(MiB(100)),
        max_jobs: Some(3),
        max_jobs_per_user: Some(2),
        ..QueueSpec::default()
    };
    let mut world = World::new(c);
    let r = ResourceRequest::default;
    let mut check = |spec: JobSpec, words: &str| {
        let refused = refusal(&mut world, spec);
        assert_eq!(refused.code, RefusalCode::QueueLimit, "{refused}");
        assert!(refused.message.contains(words), "{refused}");
    };
    check(
        JobSpec {
            time_limit: Some(Span::from_minutes(11)),
            ..spec("t")
        },
        "00:10:00",
    );
    check(whole("n", 3, 60), "2 nodes");
    let memory = MemoryRequest::PerNode(MiB(1001));
    check(
        JobSpec {
            request: ResourceRequest { memory, ..r() },
            ..spec("m")
        },
        "1000M",
    );
    check(
        JobSpec {
            request: ResourceRequest {
                disk_per_node: MiB(101),
                ..r()
            },
            ..spec("d")
        },
        "100M",
    );
    let first = world.submit(JobSpec {
        time_limit: None,
        ..spec("a")
    });
    let limit = world
        .jobs(&[JobField::TimeLimit])
        .number(0, JobField::TimeLimit);
    assert_eq!(limit, Some(Span::from_minutes(5).0), "job {first} has the queue's default");
    world.submit(spec("b"));
    assert_eq!(refusal(&mut world, spec("c")).code, RefusalCode::QueueLimit);
}

#[test]
fn memory_per_core_keeps_within_the_queues_memory_per_node() {
    let mut c = config(2, 4);
    c.queues[0].max_memory = Some(MiB(2000));
    let mut world = World::new(c);
    let request = ResourceRequest {
        tasks: Some(4),
        memory: MemoryRequest::PerCore(MiB(1000)),
        ..ResourceRequest::default()
    };
    world.submit(JobSpec {
        request,
        ..spec("m")
    });
    let table = world.jobs(&[JobField::NodeCount]);
    assert_eq!(table.number(0, JobField::NodeCount), Some(2), "two tasks on each node");
}

#[test]
fn tasks_do_not_spread_over_more_nodes_than_the_queue_allows() {
    let mut c = config(4, 4);
    c.queues[0].max_nodes = Some(2);
    let mut world = World::new(c);
    let tasks = |tasks: u32| JobSpec {
        request: ResourceRequest {
            tasks: Some(tasks),
            ..ResourceRequest::default()
        },
        ..spec("t")
    };
    let refused = refusal(&mut world, tasks(9));
    assert_eq!(refused.code, RefusalCode::NeverFits, "{refused}");
    for node in ["n1", "n2", "n3"] {
        let request = ResourceRequest {
            require: vec![node.into()],
            ..ResourceRequest::default()
        };
        world.submit(JobSpec {
            request,
            ..spec("one")
        });
    }
    let wide = world.submit(tasks(8));
    assert!(world.queue().contains(&format!("{wide}:waiting/resources")), "{}", world.queue());
    world.pass(11);
    assert_eq!(world.queue(), format!("{wide}:running"));
    assert_eq!(
        world
            .jobs(&[JobField::NodeCount])
            .number(0, JobField::NodeCount),
        Some(2)
    );
}

#[test]
fn access_lists() {
    let mut c = config(1, 4);
    c.queues[0].users.insert("u1000".into(), AccessLevel::Deny);
    let mut world = World::new(c);
    let refused = refusal(&mut world, spec("x"));
    assert_eq!(refused.code, RefusalCode::AccessDenied);
    assert!(refused.message.contains("u1000"), "{refused}");
}

/// One rule for jobs and reservations.
#[test]
fn administrators_pass_a_deny() {
    let mut c = config(1, 4);
    c.queues[0].others = AccessLevel::Deny;
    c.reservations.all_of = Vec::new();
    let mut world = World::new(c);
    let later = world.now + Span::from_secs(3600);
    let asks = || {
        let submission = Submission {
            spec: spec("x"),
            script: OsText::default(),
            array: None,
        };
        let ask =
            ReservationSpec::plain(whole_nodes(1), Span::from_secs(60), StartChoice::At(later));
        let reserve = Request::Reserve {
            ask: Box::new(ask),
            hold: false,
            job: None,
        };
        [Request::Submit(Box::new(submission)), reserve]
    };
    for request in asks() {
        let Reply::Refused(refused) = world.ask(request) else {
            panic!("it was let in");
        };
        let want = "user u1000 has no access to queue main";
        assert_eq!(refused.code, RefusalCode::AccessDenied);
        assert_eq!(refused.message, want);
    }
    for request in asks() {
        let reply = world.ask_as(user(0, "root"), None, request);
        let admitted = matches!(reply, Reply::Submitted { .. } | Reply::Reserved { .. });
        assert!(admitted, "{reply:?}");
    }
}

#[test]
fn unknown_queues_are_named_with_those_that_exist() {
    let mut world = World::new(config(1, 4));
    let refused = refusal(
        &mut world,
        JobSpec {
            queue: Some("nosuch".into()),
            ..spec("x")
        },
    );
    assert_eq!(refused.code, RefusalCode::NotFound);
    assert!(refused.message.contains("main"), "{refused}");
}

#[test]
fn arrays_have_a_limit() {
    let mut world = World::new(config(1, 4));
    let refused = world.try_submit(spec("x"), Some("1-1000000")).unwrap_err();
    assert_eq!(refused.code, RefusalCode::TooMany);
    assert!(refused.message.contains("100000"), "{refused}");
}

#[test]
fn dependencies_must_exist() {
    let mut world = World::new(config(1, 4));
    assert_eq!(
        refusal(&mut world, depends(DependencyKind::AfterOk, 99)).code,
        RefusalCode::NotFound
    );
}

// --- order

#[test]
fn queue_priority_then_level_then_first_come() {
    let mut c = config(1, 4);
    c.queues = vec![
        QueueSpec {
            name: "night".into(),
            priority: 1,
            ..QueueSpec::default()
        },
        QueueSpec {
            name: "day".into(),
            priority: 10,
            ..QueueSpec::default()
        },
    ];
    c.queues[1].users.insert("u1".into(), AccessLevel::Defer);
    c.queues[1].users.insert("u3".into(), AccessLevel::Prefer);
    c.default_queue = Some("night".into());
    let mut world = World::new(c);
    world.submit(whole("running", 1, 60));
    world.deliver_all();
    let mut submit = |uid: u32, queue: &str| {
        let spec = JobSpec {
            queue: Some(queue.into()),
            ..whole("w", 1, 60)
        };
        let submission = api::Submission {
            spec,
            script: OsText::default(),
            array: None,
        };
        let who = user(uid, &format!("u{uid}"));
        match world.ask_as(who, None, Request::Submit(Box::new(submission))) {
            Reply::Submitted { job, .. } => job.0,
            other => panic!("{other:?}"),
        }
    };
    let night = submit(2, "night");
    let deferred = submit(1, "day");
    let allowed = submit(2, "day");
    let later = submit(2, "day");
    let preferred = submit(3, "day");
    let mut order = Vec::new();
    for _ in 0..5 {
        world.pass(10);
        let table = world.jobs(&[JobField::Id, JobField::State]);
        let running = (0..table.rows).find(|r| table.text(*r, JobField::State) == "running");
        order.push(
            running
                .and_then(|r| table.number(r, JobField::Id))
                .unwrap_or(0) as u64,
        );
    }
    assert_eq!(order, [preferred, allowed, later, deferred, night]);
}

#[test]
fn backfill_fills_gaps_but_never_delays_the_head() {
    let mut world = World::new(config(4, 4));
    world.run_time = Span::from_secs(100);
    world.submit(whole("long", 3, 100));
    let head = world.submit(whole("head", 4, 50));
    let fits = world.submit(whole("short", 1, 100));
    let too_long = world.submit(whole("toolong", 1, 101));
    world.deliver_all();
    let queue = world.queue();
    assert_eq!(
        queue,
        format!("1:running {head}:waiting/resources {fits}:running {too_long}:waiting/priority")
    );
    world.pass(100);
    let table = world.jobs(&[JobField::Id, JobField::State]);
    assert_eq!(table.number(0, JobField::Id), Some(head as i64));
    assert_eq!(table.text(0, JobField::State), "running", "exactly at its guaranteed time");
}

#[test]
fn queues_without_common_nodes_do_not_hold_each_other_back() {
    let mut c = config(2, 4);
    c.queues = vec![
        QueueSpec {
            name: "a".into(),
            priority: 9,
            nodes: Some(vec!["n1".into()]),
            ..QueueSpec::default()
        },
        QueueSpec {
            name: "b".into(),
            nodes: Some(vec!["n2".into()]),
            ..QueueSpec::default()
        },
    ];
    c.policy.backfill = false;
    c.default_queue = Some("a".into());
    let mut world = World::new(c);
    world.submit(whole("a1", 1, 60));
    world.submit(whole("a2", 1, 60));
    world.submit(JobSpec {
        queue: Some("b".into()),
        ..whole("b1", 1, 60)
    });
    world.deliver_all();
    assert_eq!(world.queue(), "1:running 2:waiting/resources 3:running");
}

// --- waiting for something else

#[test]
fn every_kind_of_dependency() {
    let mut world = World::new(config(4, 4));
    let good = world.submit(spec("good"));
    let bad = world.submit(spec("bad"));
    let wait = [
        (DependencyKind::AfterOk, good, true),
        (DependencyKind::AfterOk, bad, false),
        (DependencyKind::AfterNotOk, good, false),
        (DependencyKind::AfterNotOk, bad, true),
        (DependencyKind::AfterAny, bad, true),
    ];
    let jobs: Vec<(u64, bool)> = wait
        .map(|(kind, on, runs)| (world.submit(depends(kind, on)), runs))
        .to_vec();
    let after = world.submit(depends(DependencyKind::After, good));
    assert!(
        world
            .queue()
            .contains(&format!("{}:waiting/dependency", jobs[0].0))
    );
    world.deliver_all();
    assert!(!world.queue().contains(&format!("{after}:waiting")), "{}", world.queue());
    let key = AttemptKey {
        job: JobId(bad),
        attempt: Attempt(1),
    };
    let n = world
        .nodes
        .iter()
        .position(|n| n.known.contains_key(&key.into()))
        .unwrap();
    world.end(n, key, 3);
    world.pass(30);
    for (job, runs) in jobs {
        let ended = world.state_of(job) == JobState::Completed;
        assert_eq!(ended, runs, "job {job}: {}", world.queue());
    }
    assert!(world.queue().contains("dependency_never"));
}

#[test]
fn dependencies_on_jobs_that_left_memory() {
    let mut world = World::new(config(1, 4));
    let first = world.submit(spec("first"));
    let held = world.submit(JobSpec {
        hold: true,
        ..depends(DependencyKind::AfterNotOk, first)
    });
    world.pass(20);
    world.pass(400);
    world.crash();
    world.connect(0);
    let late = world.submit(depends(DependencyKind::AfterOk, first));
    world.ask(Request::Release {
        filter: ids(&[held]),
    });
    world.pass(20);
    assert_eq!(world.state_of(late), JobState::Completed);
    assert_eq!(world.queue(), format!("{held}:waiting/dependency_never"));
}

#[test]
fn singletons_run_one_after_another() {
    let mut world = World::new(config(4, 4));
    let single = || JobSpec {
        dependencies: vec![Dependency {
            kind: DependencyKind::Singleton,
            job: JobId(0),
            task: None,
            delay: cosy_model::Span::ZERO,
        }],
        ..spec("same")
    };
    for _ in 0..3 {
        world.submit(single());
    }
    world.deliver_all();
    assert_eq!(world.queue(), "1:running 2:waiting/dependency 3:waiting/dependency");
    world.pass(11);
    assert_eq!(world.queue(), "2:running 3:waiting/dependency");
}

#[test]
fn arrays_keep_to_their_throttle() {
    let mut world = World::new(config(4, 4));
    let base = world.try_submit(spec("arr"), Some("1-10%3")).unwrap();
    for _ in 0..50 {
        let running = world.queue().matches(":running").count();
        assert!(running <= 3, "{}", world.queue());
        world.pass(1);
    }
    for n in 0..10 {
        assert_eq!(world.state_of(base + n), JobState::Completed);
    }
}

#[test]
fn hold_release_begin() {
    let mut world = World::new(config(1, 4));
    let held = world.submit(JobSpec {
        hold: true,
        ..spec("h")
    });
    let begin = world.now + Span::from_secs(30);
    let later = world.submit(JobSpec {
        begin: Some(begin),
        ..spec("b")
    });
    assert_eq!(world.queue(), format!("{held}:waiting/held_by_user {later}:waiting/begin_time"));
    assert_eq!(
        world
            .controller
            .next_wakeup(world.now + Span::from_secs(29)),
        begin
    );
    world.ask(Request::Release {
        filter: ids(&[held]),
    });
    world.pass(29);
    assert_eq!(world.queue(), format!("{later}:waiting/begin_time"));
    world.pass(1);
    assert_eq!(world.queue(), format!("{later}:running"));
}

#[test]
fn users_cannot_release_what_an_administrator_holds() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(JobSpec {
        begin: Some(Time::FAR),
        ..spec("x")
    });
    world.ask_as(
        user(0, "root"),
        None,
        Request::Hold {
            filter: ids(&[id]),
            as_user: false,
        },
    );
    let reply = world.ask(Request::Release { filter: ids(&[id]) });
    let Reply::Done {
        changed: 0,
        refused,
    } = reply
    else {
        panic!("{reply:?}")
    };
    assert_eq!(refused[0].1.code, RefusalCode::Forbidden);
}

#[test]
fn an_outage_of_the_directory_delays_jobs() {
    let mut c = config(1, 4);
    c.policy.user_ttl = Span::from_secs(20);
    let mut world = World::new(c);
    let id = world.submit(JobSpec {
        begin: Some(world.now + Span::from_secs(60)),
        ..spec("x")
    });
    world.directory_down = true;
    world.pass(70);
    assert_eq!(world.queue(), format!("{id}:waiting/directory"));
    world.directory_down = false;
    world.pass(2);
    assert_eq!(world.queue(), format!("{id}:running"));
}

// --- steering

#[test]
fn cancel_in_every_state() {
    let mut world = World::new(config(2, 4));
    let running = world.submit(whole("r", 1, 60));
    world.deliver_all();
    let starting = world.submit(whole("s", 1, 60));
    let waiting = world.submit(whole("w", 2, 60));
    for id in [running, starting, waiting] {
        let reply = world.ask(cancels(ids(&[id])));
        assert!(matches!(reply, Reply::Done { changed: 1, .. }), "{reply:?}");
    }
    world.deliver_all();
    for id in [running, starting, waiting] {
        assert_eq!(world.state_of(id), JobState::Cancelled);
    }
    let again = world.ask(cancels(ids(&[running])));
    let Reply::Done {
        changed: 0,
        refused,
    } = again
    else {
        panic!("{again:?}")
    };
    assert_eq!(refused[0].1.code, RefusalCode::WrongState);
    let none = world.ask(cancels(JobFilter::default()));
    assert!(matches!(none, Reply::Refused(_)), "an empty filter must not cancel everything");
}

#[test]
fn others_jobs_are_neither_seen_nor_touched() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(spec("mine"));
    let other = user(2000, "other");
    let list = Request::Jobs {
        filter: JobFilter::default(),
        fields: vec![JobField::Id],
        fold_arrays: false,
    };
    let reply = world.ask_as(other.clone(), None, list);
    assert!(matches!(&reply, Reply::Jobs(t) if t.rows == 0), "{reply:?}");
    let cancel = cancels(ids(&[id]));
    let reply = world.ask_as(other.clone(), None, cancel);
    assert!(matches!(&reply, Reply::Done { changed: 0, refused } if refused.len() == 1));
    let explain = Request::Explain {
        job: JobRef {
            job: JobId(id),
            task: None,
        },
    };
    assert!(matches!(world.ask_as(other.clone(), None, explain), Reply::Refused(_)));
    let drain = Request::NodeControl {
        nodes: vec!["n1".into()],
        action: NodeAction::Resume,
    };
    let reply = world.ask_as(other, None, drain.clone());
    assert!(matches!(&reply, Reply::Refused(r) if r.code == RefusalCode::Forbidden));
    assert!(matches!(world.ask_as(user(5, "adm"), None, drain), Reply::Done { .. }));
}

#[test]
fn waiting_jobs_can_be_changed_running_ones_cannot() {
    let mut world = World::new(config(1, 4));
    let running = world.submit(whole("r", 1, 60));
    let waiting = world.submit(whole("w", 1, 60));
    let change = |limit: i64| {
        Box::new(JobChange {
            time_limit: Some(Span::from_secs(limit)),
            ..JobChange::default()
        })
    };
    let nodes = Box::new(JobChange {
        nodes: Some(1),
        ..JobChange::default()
    });
    let reply = world.ask(Request::Change {
        filter: ids(&[running]),
        change: nodes,
    });
    assert!(
        matches!(&reply, Reply::Done { changed: 0, refused } if refused[0].1.code == RefusalCode::WrongState)
    );
    let reply = world.ask(Request::Change {
        filter: ids(&[waiting]),
        change: change(30),
    });
    assert!(matches!(reply, Reply::Done { changed: 1, .. }));
    world.crash();
    let limit = world.jobs(&[JobField::TimeLimit]);
    assert_eq!(limit.number(1, JobField::TimeLimit), Some(30_000), "also after a restart");
    let nice = Box::new(JobChange {
        nice: Some(-5),
        ..JobChange::default()
    });
    let reply = world.ask(Request::Change {
        filter: ids(&[waiting]),
        change: nice,
    });
    assert!(matches!(&reply, Reply::Refused(r) if r.code == RefusalCode::Forbidden));
}

#[test]
fn comments_of_administrators_are_theirs() {
    let mut world = World::new(config(1, 4));
    let mut own = spec("x");
    own.admin_comment = "mine".into();
    assert!(world.try_submit(own, None).is_err());
    let id = world.submit(spec("x"));
    let change = || Request::Change {
        filter: ids(&[id]),
        change: Box::new(JobChange {
            admin_comment: Some("look here".into()),
            ..JobChange::default()
        }),
    };
    assert!(matches!(world.ask(change()), Reply::Refused(r) if r.code == RefusalCode::Forbidden));
    let told = |world: &mut World| {
        let reply = world.ask(Request::Jobs {
            filter: ids(&[id]),
            fields: vec![JobField::AdminComment],
            fold_arrays: false,
        });
        let Reply::Jobs(table) = reply else {
            panic!("no jobs")
        };
        table.text(0, JobField::AdminComment).to_owned()
    };
    assert_eq!(told(&mut world), "");
    // Also of a job that runs.
    world.deliver_all();
    world.ask_on(user(0, "root"), None, change());
    assert_eq!(told(&mut world), "look here");
    world.crash();
    assert_eq!(told(&mut world), "look here");
}

#[test]
fn requeue_gives_a_new_attempt() {
    let mut world = World::new(config(1, 4));
    let id = world.submit(spec("x"));
    world.deliver_all();
    world.ask(Request::Requeue {
        filter: ids(&[id]),
        hold: false,
        special: false,
    });
    world.deliver_all();
    world.pass(20);
    assert_eq!(world.state_of(id), JobState::Completed);
    assert_eq!(world.store.row(id).attempt, Attempt(2));
}

// --- nodes

#[test]
fn a_lost_node_fails_or_requeues_its_jobs_and_is_told_when_it_comes_back() {
    let mut world = World::new(config(2, 4));
    world.run_time = Span::from_secs(1000);
    let keep = world.submit(JobSpec {
        requeue: true,
        ..whole("keep", 1, 2000)
    });
    let fail = world.submit(whole("fail", 1, 2000));
    world.deliver_all();
    world.disconnect(0);
    world.disconnect(1);
    world.listen(72, &[]);
    assert_eq!(world.state_of(fail), JobState::NodeFailed);
    assert_eq!(world.queue(), format!("{keep}:waiting/nodes_unavailable"));
    world.connect(0);
    world.connect(1);
    world.deliver_all();
    assert_eq!(world.queue(), format!("{keep}:running"));
    let alive: Vec<AllocationKey> = world
        .nodes
        .iter()
        .flat_map(|n| n.known.iter())
        .filter(|(_, on)| matches!(on.phase, AttemptPhase::Running { .. }))
        .map(|(key, _)| *key)
        .collect();
    assert_eq!(alive, [attempt(keep, 2)], "superseded ones are killed");
}

#[test]
fn lost_nodes_are_named_also_by_the_next_controller() {
    let check = |lost: &[usize], crash: bool, want: &str| {
        let mut world = World::new(config(4, 4));
        world.run_time = Span::from_secs(1000);
        let id = world.submit(whole("wide", 4, 2000));
        world.deliver_all();
        for node in lost {
            world.disconnect(*node);
        }
        let silent = |world: &mut World| {
            let others: Vec<usize> = (0..4).filter(|n| !lost.contains(n)).collect();
            world.listen(72, &others);
        };
        silent(&mut world);
        if crash {
            // Before the other nodes have given their shares back.
            world.crash();
            (0..4)
                .filter(|n| !lost.contains(n))
                .for_each(|n| world.connect(n));
        }
        world.deliver_all();
        silent(&mut world);
        assert_eq!(world.state_of(id), JobState::NodeFailed);
        assert_eq!(world.store.row(id).note, want);
        let said = &world.store.ended[&format!("job {id}")];
        assert_eq!(*said, format!("node_failed, exit code 0, signal 0: {want}"));
    };
    check(&[0], false, "node n1 was lost");
    check(&[2], true, "node n3 was lost");
    check(&[1, 2], false, "nodes n[2-3] were lost");
    check(&[1, 2], true, "nodes n[2-3] were lost");
}

#[test]
fn nodes_that_share_a_job_hear_where_one_of_them_is_now() {
    fn told(world: &World) -> Vec<String> {
        let words = |order: &NodeOrder| match order {
            NodeOrder::Moved { node, peer } => {
                Some(format!("{node}: {} at {}", peer.node, peer.address))
            }
            _ => None,
        };
        world.orders.iter().filter_map(|(_, o)| words(o)).collect()
    }
    let mut world = World::new(config(4, 4));
    world.run_time = Span::from_secs(1000);
    world.submit(whole("wide", 3, 2000));
    world.deliver_all();
    let again = |world: &mut World, n: usize| {
        world.deliver_all();
        world.disconnect(n);
        world.connect(n);
        told(world)
    };
    assert_eq!(again(&mut world, 1), [""; 0]);
    world.ports.insert(1, 9999);
    let moved = ["n1: n2 at 10.0.0.2:9999", "n3: n2 at 10.0.0.2:9999"];
    assert_eq!(again(&mut world, 1), moved);
    assert_eq!(again(&mut world, 2), moved[1..]);
    assert_eq!(again(&mut world, 3), [""; 0], "it is in no job of that node");
    world.pass(3000);
    assert_eq!(again(&mut world, 1), [""; 0], "no job is left");
}

#[test]
fn a_failed_preparation_drains_the_node_and_the_job_goes_elsewhere() {
    let mut world = World::new(config(2, 4));
    let id = world.submit(spec("x"));
    let key = AttemptKey {
        job: JobId(id),
        attempt: Attempt(1),
    };
    world.orders.clear();
    let failure = Some(PrepareFailure {
        reason: "prolog ended with 1".into(),
        drain: true,
    });
    world.report(
        0,
        NodeReport::Prepared {
            key: key.into(),
            node: "n1".into(),
            failure,
        },
    );
    world.deliver_all();
    let Reply::Nodes(nodes) = world.ask(Request::Nodes) else {
        panic!()
    };
    assert_eq!(
        (nodes[0].state.as_str(), nodes[0].reason.as_str()),
        ("drained", "prolog ended with 1")
    );
    world.pass(15);
    assert_eq!(world.state_of(id), JobState::Completed);
    assert_eq!(world.store.row(id).run.as_ref().unwrap().parts[0].node, "n2");
}

#[test]
fn drained_nodes_finish_what_they_run() {
    let mut world = World::new(config(1, 4));
    let first = world.submit(spec("x"));
    world.deliver_all();
    let drain = NodeAction::Drain {
        reason: "disk".into(),
    };
    world.ask_as(
        user(0, "root"),
        None,
        Request::NodeControl {
            nodes: vec!["n1".into()],
            action: drain,
        },
    );
    let second = world.submit(spec("y"));
    world.pass(30);
    assert_eq!(world.state_of(first), JobState::Completed);
    assert_eq!(world.queue(), format!("{second}:waiting/nodes_unavailable"));
    world.crash();
    world.connect(0);
    assert_eq!(
        world.queue(),
        format!("{second}:waiting/nodes_unavailable"),
        "also after a restart"
    );
    world.ask_as(
        user(0, "root"),
        None,
        Request::NodeControl {
            nodes: vec!["n1".into()],
            action: NodeAction::Resume,
        },
    );
    world.pass(20);
    assert_eq!(world.state_of(second), JobState::Completed);
}

#[test]
fn features_that_are_set_at_run_time_outlive_all_but_a_reload() {
    let mut config = config(2, 4);
    config.nodes[0].features = vec!["configured".into()];
    let mut world = World::new(config.clone());
    let mut wants = spec("wants");
    wants.request.features = vec!["late".into()];
    assert!(world.try_submit(wants.clone(), None).is_err());
    let set = |nodes: &str, names: &[&str]| Request::NodeControl {
        nodes: vec![nodes.into()],
        action: NodeAction::Features {
            names: names.iter().map(|n| (*n).to_owned()).collect(),
        },
    };
    let root = || user(0, "root");
    let refused = world.ask(set("n2", &["late"]));
    assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
    for bad in ["", "a b", "a&b", "a,b", "a\n"] {
        let client = world.ask_on(root(), None, set("n2", &[bad]));
        let reply = world.replies.remove(&client);
        assert!(matches!(reply, Some(Reply::Refused(_))), "{bad:?}");
    }
    world.ask_on(root(), None, set("n1", &[]));
    world.ask_on(root(), None, set("n2", &["late", "more"]));
    let id = world.submit(wants);
    world.deliver_all();
    assert_eq!(world.queue(), format!("{id}:running"));
    let features = |world: &mut World| {
        let Reply::Nodes(nodes) = world.ask(Request::Nodes) else {
            panic!("no nodes")
        };
        nodes
            .iter()
            .map(|n| n.features.join(","))
            .collect::<Vec<_>>()
    };
    assert_eq!(features(&mut world), ["", "late,more"]);
    world.crash();
    world.connect(0);
    world.connect(1);
    world.deliver_all();
    assert_eq!(features(&mut world), ["", "late,more"], "also after a restart");
    world.event(Event::Reconfigured(Box::new(config)));
    assert_eq!(features(&mut world), ["configured", ""]);
}

#[test]
fn several_nodes_are_ready_before_the_program_starts() {
    let mut world = World::new(config(3, 4));
    let id = world.submit(whole("x", 3, 60));
    let kinds = |world: &World| {
        let kind = |o: &NodeOrder| match o {
            NodeOrder::Prepare(_) => 'p',
            NodeOrder::Launch(_) => 'l',
            _ => '-',
        };
        world
            .orders
            .iter()
            .map(|(_, o)| kind(o))
            .collect::<String>()
    };
    assert_eq!(kinds(&world), "pp");
    world.deliver_one();
    world.deliver_one();
    assert_eq!(kinds(&world), "l");
    world.pass(11);
    assert_eq!(world.state_of(id), JobState::Completed);
    assert!(world.nodes.iter().all(|n| n.known.is_empty()), "nothing is left on the nodes");
}

#[test]
fn a_foreign_key_cannot_register_a_node_nor_report_for_it() {
    let mut world = World::new(config(2, 4));
    let id = world.submit(spec("x"));
    world.deliver_all();
    let key = AttemptKey {
        job: JobId(id),
        attempt: Attempt(1),
    };
    let end = End::never_ran(EndCause::Exited, world.now);
    world.report(
        1,
        NodeReport::Ended {
            key: key.into(),
            node: "n1".into(),
            end,
            drain: None,
        },
    );
    assert_eq!(world.queue(), format!("{id}:running"), "n2 does not speak for n1");
    world.event(Event::LinkOpened {
        link: LinkId(900),
        peer: "stranger".into(),
        address: None,
        hello: LinkHello::Node { lacks: Vec::new() },
    });
    let nodes = vec![NodeSelf {
        name: "n1".into(),
        amounts: Amounts::default(),
        gpu_types: Vec::new(),
        devices: Vec::new(),
        features: vec![],
        boot_id: "9".into(),
        version: String::new(),
        only_uid: None,
        listen: String::new(),
        step_socket: String::new(),
        machine: cosy_model::node::Machine::default(),
    }];
    let report = NodeReport::Register {
        nodes,
        inventory: vec![],
        seen: OsText::default(),
        clock: None,
    };
    world.event(Event::LinkReported {
        link: LinkId(900),
        report,
    });
    assert_eq!(world.queue(), format!("{id}:running"));
}

#[test]
fn nodes_tell_how_busy_they_are() {
    let mut world = World::new(config(2, 4));
    let figures = Figures {
        number: 0,
        load_hundredths: Some(231),
        free_memory: Some(MiB(11_709)),
        clock: None,
    };
    world.report(1, NodeReport::Figures(figures));
    let Reply::Nodes(nodes) = world.ask(Request::Nodes) else {
        panic!("no nodes")
    };
    let told = |n: usize| {
        let machine = &nodes[n].machine;
        (machine.load_hundredths, machine.free_memory)
    };
    assert_eq!(told(0), (None, None));
    assert_eq!(told(1), (Some(231), Some(MiB(11_709))));
}

#[test]
fn compute_nodes_pass_on_only_requests_of_users_with_a_job_there() {
    let mut world = World::new(config(2, 4));
    let ask = |world: &mut World, uid: u32, n: usize, claim: &str| {
        let via = Some(Via {
            node: claim.into(),
            link: world.nodes[n].link.unwrap(),
        });
        let client = ClientId(world.id());
        let caller = Caller {
            via,
            ..Caller::known(user(uid, &format!("u{uid}")))
        };
        world.event(Event::Asked {
            client,
            caller: Box::new(caller),
            key: None,
            request: Request::Queues,
            facts: Facts::default(),
        });
        !matches!(world.replies.remove(&client), Some(Reply::Refused(_)))
    };
    assert!(!ask(&mut world, 1000, 0, "n1"), "no job there");
    world.submit(spec("x"));
    world.deliver_all();
    assert!(ask(&mut world, 1000, 0, "n1"));
    assert!(!ask(&mut world, 1000, 1, "n1"), "n2's daemon does not speak for n1");
    assert!(!ask(&mut world, 0, 0, "n1"), "root of a compute node is nobody here");
}

// --- the rest

#[test]
fn closed_queues_start_nothing_and_drained_ones_take_nothing() {
    let mut world = World::new(config(1, 4));
    let control = |state| Request::QueueControl {
        queue: "main".into(),
        state,
    };
    world.ask_as(user(0, "root"), None, control(QueueState::Drained));
    assert_eq!(refusal(&mut world, spec("x")).code, RefusalCode::QueueClosed);
    world.ask_as(user(0, "root"), None, control(QueueState::Open));
    world.submit(whole("a", 1, 60));
    let b = world.submit(whole("b", 1, 60));
    world.ask_as(user(0, "root"), None, control(QueueState::Closed));
    world.pass(20);
    assert_eq!(world.queue(), format!("{b}:waiting/queue_closed"));
    world.crash();
    world.connect(0);
    assert_eq!(world.queue(), format!("{b}:waiting/queue_closed"), "also after a restart");
}

#[test]
fn mail_at_shares_of_the_limit() {
    let mut world = World::new(config(1, 4));
    let mail = MailRequest {
        limit_shares: vec![50, 90, 100],
        ..MailRequest::default()
    };
    let job = world.submit(JobSpec {
        mail,
        time_limit: Some(Span::from_secs(100)),
        ..spec("x")
    });
    world.run_times.insert(JobId(job), Span::from_secs(95));
    let begun = "test job 1 (x) has reached 50 % of its time limit";
    for (secs, want) in [(45, &[][..]), (10, &[begun][..]), (30, &[begun][..])] {
        world.pass(secs);
        assert_eq!(world.mails, want);
    }
    world.crash();
    world.pass(20);
    let late = "test job 1 (x) has reached 90 % of its time limit";
    assert_eq!(world.mails, [begun, late]);
}

#[test]
fn queues_are_made_at_run_time_and_kept() {
    let mut world = World::new(config(2, 4));
    let root = || user(0, "root");
    let queue = |name: &str, nodes: &[&str], state| QueueSpec {
        name: name.into(),
        nodes: Some(nodes.iter().map(|n| (*n).to_owned()).collect()),
        state,
        ..QueueSpec::default()
    };
    let set = |spec, new, default| Request::SetQueue {
        spec: Box::new(spec),
        new,
        default,
    };
    let code = |world: &mut World, who, request| match world.ask_as(who, None, request) {
        Reply::Refused(refusal) => Some(refusal.code),
        Reply::Done { .. } => None,
        other => panic!("{other:?}"),
    };
    let own = |state| queue("own", &["n2"], state);
    let make = || set(own(QueueState::Stopped), true, true);
    let anna = user(1000, "anna");
    assert_eq!(code(&mut world, anna, make()), Some(RefusalCode::Forbidden));
    let nowhere = set(queue("own", &["n9"], QueueState::Open), true, false);
    assert_eq!(code(&mut world, root(), nowhere), Some(RefusalCode::NotFound));
    assert_eq!(code(&mut world, root(), make()), None);
    assert_eq!(
        code(&mut world, root(), make()),
        Some(RefusalCode::WrongState),
        "it is there already"
    );

    let job = world.submit(whole("x", 1, 60));
    world.pass(5);
    let waits = format!("{job}:waiting/queue_closed");
    assert_eq!(world.queue(), waits, "the new queue is the default, and stopped");
    world.crash();
    world.connect(0);
    world.connect(1);
    assert_eq!(world.queue(), waits, "also after a restart");
    let delete = |name: &str| Request::DeleteQueue { queue: name.into() };
    assert_eq!(
        code(&mut world, root(), delete("own")),
        Some(RefusalCode::WrongState),
        "it has a job"
    );
    let open = set(own(QueueState::Open), false, false);
    assert_eq!(code(&mut world, root(), open), None);
    world.pass(5);
    assert_eq!(world.queue(), format!("{job}:running"));

    world.event(Event::Reconfigured(Box::new(config(2, 4))));
    world.pass(90);
    assert_eq!(world.queue(), "", "a queue that is in no file outlives a reload");
    assert_eq!(code(&mut world, root(), delete("own")), None);
    assert_eq!(code(&mut world, root(), delete("main")), None);
    assert_eq!(
        refusal(&mut world, spec("y")).code,
        RefusalCode::Invalid,
        "there is no default queue any more"
    );
    world.crash();
    assert_eq!(refusal(&mut world, spec("y")).code, RefusalCode::Invalid);
    world.event(Event::Reconfigured(Box::new(config(2, 4))));
    world.submit(spec("y"));
}

#[test]
fn mail_says_what_was_asked_for() {
    let mut world = World::new(config(1, 4));
    let mail = MailRequest {
        begin: true,
        fail: true,
        ..MailRequest::default()
    };
    world.submit(JobSpec { mail, ..spec("x") });
    world.pass(15);
    assert_eq!(world.mails, ["test job 1 (x) began"]);
}

#[test]
fn those_who_wait_are_told() {
    let mut world = World::new(config(1, 4));
    let base = world.try_submit(spec("x"), Some("1-2")).unwrap();
    let client = ClientId(77);
    let caller = Caller::known(user(1000, "u1000"));
    world.event(Event::Asked {
        client,
        caller: Box::new(caller),
        key: None,
        request: Request::Wait {
            jobs: vec![JobRef {
                job: JobId(base),
                task: None,
            }],
        },
        facts: Facts::default(),
    });
    assert!(!world.replies.contains_key(&client));
    world.pass(15);
    let Some(Reply::Ended(ended)) = world.replies.remove(&client) else {
        panic!()
    };
    assert_eq!(ended.len(), 2);
}

#[test]
fn a_new_configuration_adds_nodes_and_loses_queues_without_losing_jobs() {
    let mut world = World::new(config(1, 4));
    world.submit(whole("a", 1, 60));
    let waiting = world.submit(whole("b", 1, 60));
    world.deliver_all();
    let mut new = config(2, 4);
    new.queues[0].name = "other".into();
    new.default_queue = Some("other".into());
    world.event(Event::Reconfigured(Box::new(new.clone())));
    assert_eq!(world.queue(), format!("1:running {waiting}:waiting/never_fits"));
    new.queues[0].name = "main".into();
    world.config = new.clone();
    world.event(Event::Reconfigured(Box::new(new)));
    world.nodes.push(FakeNode {
        seen: None,
        name: "n2".into(),
        boot: 1,
        link: None,
        known: Default::default(),
        starts: Default::default(),
        ahead: Span::ZERO,
        gpu_types: Vec::new(),
        devices: Vec::new(),
    });
    world.connect(1);
    world.deliver_all();
    assert_eq!(world.queue(), format!("1:running {waiting}:running"), "on the new node");
}

#[test]
fn the_explanation_of_a_waiting_job_has_a_reason_and_a_predicted_start() {
    let mut world = World::new(config(1, 4));
    world.submit(whole("a", 1, 100));
    let id = world.submit(whole("b", 1, 60));
    world.deliver_all();
    let reply = world.ask(Request::Explain {
        job: JobRef {
            job: JobId(id),
            task: None,
        },
    });
    let Reply::Explained { table, lines } = reply else {
        panic!("{reply:?}")
    };
    let start = table.number(0, JobField::PredictedStart);
    assert_eq!(start, Some((world.now + Span::from_secs(100)).0));
    assert!(lines[0].contains("first in line"), "{lines:?}");
}

#[test]
fn lists_of_a_deep_queue_do_not_wait_for_a_plan() {
    let mut world = World::new(config(1, 4));
    world
        .try_submit(whole("deep", 1, 60), Some("1-2000"))
        .unwrap();
    world.slow_plans = true;
    let fields = [JobField::Id, JobField::PredictedStart];
    let first = world.jobs(&fields);
    assert_eq!(first.rows, 2000, "answered at once");
    assert_eq!(first.number(5, JobField::PredictedStart), None, "there was no plan yet");
    world.plans_come();
    let second = world.jobs(&fields);
    assert!(second.number(5, JobField::PredictedStart).is_some(), "the last plan is shown");
}

#[test]
fn restored_is_as_saved() {
    let mut world = World::new(config(4, 4));
    world.try_submit(spec("arr"), Some("1-20%3")).unwrap();
    world.submit(whole("w", 4, 60));
    world.submit(JobSpec {
        hold: true,
        ..spec("h")
    });
    world.submit(depends(DependencyKind::AfterOk, 1));
    world.pass(7);
    let fields = [
        JobField::Ref,
        JobField::State,
        JobField::Queue,
        JobField::Attempt,
        JobField::Nodes,
        JobField::Cores,
        JobField::Submit,
        JobField::TimeLimit,
        JobField::Dependencies,
    ];
    let before = world.jobs(&fields);
    world.crash();
    assert_eq!(world.jobs(&fields), before);
}

/// What was said of a node because the configuration did not have it is taken back when it is
/// there again; what an administrator has said stays.
#[test]
fn a_node_that_is_configured_again_is_open() {
    let mut world = World::new(config(3, 4));
    let drain = Request::NodeControl {
        nodes: vec!["n3".into()],
        action: NodeAction::Drain {
            reason: "new disk".into(),
        },
    };
    world.ask_as(user(0, "root"), None, drain);
    let states = |world: &mut World| {
        let Reply::Nodes(nodes) = world.ask(Request::Nodes) else {
            panic!("no nodes")
        };
        let drained = |n: api::NodeInfo| n.state.contains("drain");
        nodes.into_iter().map(drained).collect::<Vec<bool>>()
    };
    world.event(Event::Reconfigured(Box::new(config(1, 4))));
    world.event(Event::Reconfigured(Box::new(config(3, 4))));
    assert_eq!(states(&mut world), [false, false, true]);
    // Also when it was put back while the controller was not there.
    world.event(Event::Reconfigured(Box::new(config(1, 4))));
    world.config = config(3, 4);
    world.crash();
    (0..3).for_each(|n| world.connect(n));
    assert_eq!(states(&mut world), [false, false, true]);
}

/// Nodes are told a heartbeat that has changed: they would be lost by the new time-out.
#[test]
fn nodes_are_told_what_a_reload_changes_for_them() {
    let mut world = World::new(config(2, 4));
    let told = |world: &World| {
        let heartbeat = |order: &NodeOrder| match order {
            NodeOrder::Welcome { heartbeat, .. } => Some(*heartbeat),
            _ => None,
        };
        let all = world
            .orders
            .iter()
            .filter_map(|(_, order)| heartbeat(order));
        all.collect::<Vec<Span>>()
    };
    world.deliver_all();
    let mut changed = config(2, 4);
    changed.policy.heartbeat = Span::from_secs(3);
    world.event(Event::Reconfigured(Box::new(changed)));
    assert_eq!(told(&world), [Span::from_secs(3); 2]);
}
