//! Interactive jobs: allocations that are held, commands that stay with them, steps that
//! are told of afterwards, and ways to a job's first node.

mod world;

use cosy_control::*;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::node::*;
use cosy_model::step::{StepId, StepRecord};
use cosy_model::*;
use world::*;

fn me() -> User {
    user(1000, "u1000")
}

/// An allocation of whole nodes.
fn allocation(nodes: u32, secs: i64) -> JobSpec {
    JobSpec {
        program: Program::Allocation,
        attended: true,
        request: ResourceRequest {
            nodes: Some(nodes),
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_secs(secs)),
        ..spec("sh")
    }
}

/// The command's connection and the first answer.
fn allocate(world: &mut World, spec: JobSpec) -> (ClientId, Reply) {
    let client = world.ask_on(me(), None, allocates(spec));
    let reply = world.replies.remove(&client).expect("an answer");
    (client, reply)
}

fn id_of(reply: &Reply) -> JobId {
    match reply {
        Reply::Allocated { entry, .. } => entry.key.job,
        Reply::Submitted { job, .. } => *job,
        other => panic!("{other:?}"),
    }
}

fn key(job: JobId) -> AttemptKey {
    AttemptKey {
        job,
        attempt: Attempt(1),
    }
}

fn state(world: &World, job: JobId) -> JobState {
    world
        .store
        .jobs
        .get(&job)
        .map_or(JobState::Waiting, |r| r.state)
}

fn finish(world: &mut World, job: JobId, exit_code: i32, signal: i32) -> Reply {
    world.ask(Request::Finish {
        job,
        exit_code,
        signal,
    })
}

#[test]
fn what_starts_at_once_is_told_in_the_same_commit() {
    let mut world = World::new(config(2, 4));
    let before = world.commits;
    let (_, reply) = allocate(&mut world, allocation(2, 60));
    assert_eq!(world.commits, before + 1);
    let Reply::Allocated {
        entry,
        until,
        variables,
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert_eq!(entry.nodes, "n[1-2]");
    assert_eq!(entry.socket.as_deref(), Some("/run/n1.steps"));
    assert_eq!(entry.boot_id, "1");
    assert_eq!(until, Some(world.now + Span::from_secs(60)));
    let variables = variables.lossy();
    assert!(variables.contains("COSY_NODES=n[1-2]\0"), "{variables}");
    assert_eq!(world.queue(), "1:starting");
    let orders: Vec<_> = world
        .orders
        .iter()
        .map(|(_, order)| order.clone())
        .collect();
    let [NodeOrder::Prepare(first), NodeOrder::Prepare(second)] = &orders[..] else {
        panic!("{orders:?}");
    };
    let parts: Vec<_> = first
        .parts
        .iter()
        .map(|p| {
            (p.peer.node.as_str(), p.peer.address.as_str(), p.peer.key.as_str(), p.tasks, p.cores)
        })
        .collect();
    assert_eq!(
        parts,
        [
            ("n1", "10.0.0.1:7818", "key1", 1, 1),
            ("n2", "10.0.0.2:7818", "key2", 1, 1)
        ]
    );
    assert!(second.parts.is_empty(), "only the first node starts steps");
    world.deliver_one();
    assert_eq!(world.queue(), "1:starting", "n2 is not ready");
    world.deliver_all();
    assert_eq!(world.queue(), "1:running");
}

#[test]
fn the_first_node_is_told_where_all_are_also_after_a_restart() {
    let mut world = World::new(config(3, 4));
    let mut spec = allocation(3, 60);
    spec.attended = false;
    world.submit(spec);
    world.crash(); // before any order has left
    for n in [0, 2] {
        world.connect(n);
        world.deliver_all();
    }
    assert_eq!(world.queue(), "1:starting");
    world.connect(1);
    let mut told = Vec::new();
    for (_, order) in &world.orders {
        if let NodeOrder::Prepare(allocation) = order
            && allocation.node == "n1"
        {
            told.extend(allocation.parts.iter().map(|p| p.peer.address.clone()));
        }
    }
    assert_eq!(told, ["10.0.0.1:7818", "10.0.0.2:7818", "10.0.0.3:7818"]);
    world.deliver_all();
    assert_eq!(world.queue(), "1:running");
}

#[test]
fn giving_it_back_ends_it_with_what_ran_in_it() {
    let check = |exit_code, signal, want| {
        let mut world = World::new(config(2, 4));
        let (client, reply) = allocate(&mut world, allocation(2, 60));
        let job = id_of(&reply);
        world.deliver_all();
        world.pass(3);
        let reply = finish(&mut world, job, exit_code, signal);
        assert!(matches!(reply, Reply::Done { changed: 1, .. }), "{reply:?}");
        let again = finish(&mut world, job, 9, 9);
        assert!(matches!(again, Reply::Done { changed: 0, .. }), "{again:?}");
        assert_eq!(world.queue(), "1:completing");
        world.deliver_all();
        let row = world.store.row(1);
        let end = row.end.clone().expect("it has ended");
        assert_eq!(row.state, want);
        assert_eq!((end.exit_code, end.signal), (exit_code, signal));
        assert_eq!(end.end.since(end.start.unwrap()), Span::from_secs(3));
        assert!(world.nodes.iter().all(|n| n.known.is_empty()));
        world.event(Event::ClientGone(client));
    };
    check(0, 0, JobState::Completed);
    check(3, 0, JobState::Failed);
    check(0, 9, JobState::Failed);
}

#[test]
fn the_controller_ends_it_at_its_limit_exactly() {
    let mut world = World::new(config(2, 4));
    let (_, reply) = allocate(&mut world, allocation(2, 60));
    let job = id_of(&reply);
    world.deliver_all();
    let began = world.now;
    assert_eq!(world.controller.next_due(), Some(began + Span::from_secs(60)));
    world.now = began + Span(59_999);
    world.settle();
    assert!(world.orders.is_empty());
    world.now = began + Span(60_000);
    world.settle();
    let kills = world.orders.iter().filter(|(_, order)| {
        let limit = KillCause::TimeLimit;
        matches!(order, NodeOrder::Kill { cause, .. } if *cause == limit)
    });
    assert_eq!(kills.count(), 2, "on both nodes, with grace");
    world.deliver_all();
    assert_eq!(state(&world, job), JobState::TimedOut);
}

#[test]
fn a_command_that_hangs_up_ends_its_job() {
    let mut world = World::new(config(1, 4));
    let (first, reply) = allocate(&mut world, allocation(1, 60));
    let running = id_of(&reply);
    let (second, reply) = allocate(&mut world, allocation(1, 60));
    let waiting = id_of(&reply);
    assert!(matches!(reply, Reply::Submitted { .. }), "{reply:?}");
    world.deliver_all();
    assert_eq!(world.queue(), "1:running 2:waiting/interactive_limit");
    world.event(Event::ClientGone(second));
    assert_eq!(state(&world, waiting), JobState::Cancelled);
    assert_eq!(world.store.row(2).note, "its command has gone");
    world.event(Event::ClientGone(first));
    world.deliver_all();
    assert_eq!(state(&world, running), JobState::Cancelled);
}

#[test]
fn one_of_several_that_stay_is_enough() {
    let mut world = World::new(config(1, 4));
    let (first, reply) = allocate(&mut world, allocation(1, 60));
    let job = id_of(&reply);
    world.deliver_all();
    let started = true;
    let second = world.ask_on(me(), None, Request::Attend { job, started });
    world.event(Event::ClientGone(first));
    assert_eq!(world.queue(), "1:running");
    assert!(!world.replies.contains_key(&second));
    finish(&mut world, job, 0, 0);
    world.deliver_all();
    let ended = world.replies.remove(&second);
    let Some(Reply::Ended(ended)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(ended[0].state, JobState::Completed);
}

#[test]
fn who_waits_is_told_the_start_then_the_end() {
    let mut world = World::new(config(1, 4));
    let (_, reply) = allocate(&mut world, allocation(1, 60));
    let (_, waits) = allocate(&mut world, allocation(1, 60));
    let job = id_of(&waits);
    let attend = |started| Request::Attend { job, started };
    let start = world.ask_on(me(), None, attend(false));
    let end = world.ask_on(me(), None, attend(true));
    world.deliver_all();
    assert!(!world.replies.contains_key(&start));
    finish(&mut world, id_of(&reply), 0, 0);
    // The next one does not wait until the nodes of the last are clean.
    assert!(world.queue().starts_with("1:completing 2:starting"));
    let told = world.replies.remove(&start);
    assert!(matches!(told, Some(Reply::Allocated { .. })), "{told:?}");
    world.deliver_all();
    world.ask(cancels(ids(&[job.0])));
    world.deliver_all();
    let Some(Reply::Ended(ended)) = world.replies.remove(&end) else {
        panic!("nothing was told");
    };
    assert_eq!(ended[0].state, JobState::Cancelled);
    let late = world.ask(attend(false));
    assert_eq!(late, Reply::Ended(ended));
}

#[test]
fn messages_reach_who_stays_and_scripts() {
    let mut world = World::new(config(2, 4));
    let (_, reply) = allocate(&mut world, allocation(1, 60));
    let job = id_of(&reply);
    let batch = world.submit(spec("batch"));
    world.deliver_all();
    let notify = |id: u64, text: &str| Request::Notify {
        filter: ids(&[id]),
        text: text.into(),
    };
    let done = Reply::Done {
        changed: 1,
        refused: Vec::new(),
    };
    let attend = Request::Attend { job, started: true };
    // Before the command has asked for more, while it waits, and once more.
    assert_eq!(world.ask(notify(job.0, "early")), done);
    let first = world.ask_on(me(), None, attend.clone());
    assert_eq!(world.replies.remove(&first), Some(Reply::Said("early".into())));
    let second = world.ask_on(me(), None, attend.clone());
    assert_eq!(world.replies.remove(&second), None);
    assert_eq!(world.ask(notify(job.0, "now\u{7}")), done);
    assert_eq!(world.replies.remove(&second), Some(Reply::Said("now?".into())));
    assert_eq!(world.ask(notify(batch, "hello")), done);
    world.deliver_all();
    assert_eq!(world.notes, [(JobId(batch), "hello".to_owned())]);
    // Not to others' jobs, not to those that do not run, not too much.
    let stranger = world.ask_on(user(1001, "u1001"), None, notify(batch, "x"));
    let Some(Reply::Done { refused, .. }) = world.replies.remove(&stranger) else {
        panic!("no answer")
    };
    assert_eq!(refused[0].1.code, RefusalCode::NotFound, "others see none");
    let mut held = spec("held");
    held.hold = true;
    let held = world.submit(held);
    let Reply::Done { refused, .. } = world.ask(notify(held, "x")) else {
        panic!("no answer")
    };
    assert_eq!(refused[0].1.code, RefusalCode::WrongState);
    for text in [String::new(), "x".repeat(4097)] {
        assert!(matches!(world.ask(notify(batch, &text)), Reply::Refused(_)));
    }
    finish(&mut world, job, 0, 0);
}

#[test]
fn a_broken_way_leaves_time_to_come_again() {
    let check = |comes_again: bool, crash: bool| {
        let mut world = World::new(config(1, 4));
        let (client, reply) = allocate(&mut world, allocation(1, 600));
        let job = id_of(&reply);
        world.deliver_all();
        if crash {
            world.crash();
            world.connect(0);
            world.deliver_all();
        } else {
            world.event(Event::ClientLost(client));
        }
        world.pass(59);
        assert_eq!(world.queue(), "1:running");
        if comes_again {
            let started = true;
            world.ask_on(me(), None, Request::Attend { job, started });
        }
        world.pass(2);
        let want = if comes_again {
            JobState::Running
        } else {
            JobState::Cancelled
        };
        assert_eq!(state(&world, job), want, "{comes_again} {crash}");
    };
    check(false, false);
    check(true, false);
    check(false, true);
    check(true, true);
}

#[test]
fn a_controller_that_starts_again_keeps_it_in_every_phase() {
    // How far it was, and how it goes on.
    let check = |orders: usize, ending: Option<KillCause>, want: JobState| {
        let mut world = World::new(config(2, 4));
        let mut spec = allocation(2, 60);
        spec.attended = false;
        let job = JobId(world.submit(spec));
        for _ in 0..orders {
            world.deliver_one();
        }
        match ending {
            Some(KillCause::Cancelled) => {
                let filter = ids(&[job.0]);
                world.ask(cancels(filter));
            }
            Some(KillCause::TimeLimit) => world.pass(60),
            Some(_) => drop(finish(&mut world, job, 0, 0)),
            None => {}
        }
        world.crash();
        for n in 0..2 {
            world.connect(n);
        }
        world.deliver_all();
        if ending.is_none() {
            assert_eq!(world.queue(), "1:running", "{orders}");
            world.pass(59);
            assert_eq!(world.queue(), "1:running", "{orders}");
            world.pass(2);
        }
        assert_eq!(state(&world, job), want, "{orders} {ending:?}");
        assert!(world.nodes.iter().all(|n| n.known.is_empty()), "{orders} {ending:?}");
    };
    for orders in 0..3 {
        check(orders, None, JobState::TimedOut);
        check(orders, Some(KillCause::Cancelled), JobState::Cancelled);
        check(orders, Some(KillCause::Superseded), JobState::Completed);
    }
    check(2, Some(KillCause::TimeLimit), JobState::TimedOut);
}

#[test]
fn a_lost_node_ends_it_and_it_is_not_run_again() {
    let check = |attended: bool, dialect: Dialect, lost: usize, want: &str| {
        let mut world = World::new(config(2, 4));
        let mut spec = allocation(2, 600);
        (spec.attended, spec.requeue, spec.dialect) = (attended, true, dialect);
        let job = match attended {
            true => id_of(&allocate(&mut world, spec).1),
            false => JobId(world.submit(spec)),
        };
        world.deliver_all();
        world.disconnect(lost);
        world.listen(72, &[1 - lost]);
        world.deliver_all();
        assert_eq!(state(&world, job).word(), want, "{attended} {lost}");
        assert!(world.nodes[1 - lost].known.is_empty(), "it is left there");
        world.connect(lost);
        world.deliver_all();
        if attended {
            assert!(world.nodes[lost].known.is_empty(), "it was superseded");
        }
    };
    check(true, Dialect::Cosy, 0, "node_failed");
    check(true, Dialect::Cosy, 1, "node_failed");
    check(false, Dialect::Cosy, 0, "waiting");
    check(false, Dialect::Slurm, 0, "node_failed");
}

#[test]
fn a_node_that_cannot_prepare_ends_it_with_the_reason() {
    let mut world = World::new(config(2, 4));
    let (client, reply) = allocate(&mut world, allocation(1, 60));
    let job = id_of(&reply);
    world.orders.clear();
    let failure = Some(PrepareFailure {
        reason: "no scratch disk".into(),
        drain: true,
    });
    let node = "n1".to_owned();
    let key = key(job);
    world.report(
        0,
        NodeReport::Prepared {
            key: key.into(),
            node,
            failure,
        },
    );
    assert_eq!(state(&world, job), JobState::LaunchFailed);
    assert_eq!(world.store.row(1).note, "no scratch disk");
    world.event(Event::ClientGone(client));
}

#[test]
fn who_may_do_what() {
    let mut world = World::new(config(1, 4));
    let batch = JobId(world.submit(spec("batch")));
    let (_, reply) = allocate(&mut world, allocation(1, 60));
    let own = id_of(&reply);
    world.deliver_all();
    let mut check = |uid: u32, request: Request, want: Option<RefusalCode>| {
        let reply = world.ask_as(user(uid, &format!("u{uid}")), None, request.clone());
        let code = match &reply {
            Reply::Refused(refusal) => Some(refusal.code),
            _ => None,
        };
        assert_eq!(code, want, "{uid} {request:?}: {reply:?}");
    };
    let attend = |job| Request::Attend {
        job,
        started: false,
    };
    let finish = |job, signal| Request::Finish {
        job,
        exit_code: 0,
        signal,
    };
    let entry = |job| Request::Entry { job };
    let (forbidden, wrong) = (Some(RefusalCode::Forbidden), Some(RefusalCode::WrongState));
    let gone = Some(RefusalCode::NotFound);
    check(1001, attend(own), gone);
    check(0, attend(own), forbidden);
    check(1000, attend(own), None);
    check(1000, attend(batch), wrong);
    check(1000, attend(JobId(99)), gone);
    check(1001, finish(own, 0), gone);
    check(1000, finish(batch, 0), wrong);
    check(1000, finish(own, 65), Some(RefusalCode::Invalid));
    check(1001, entry(own), gone);
    check(0, entry(own), None);
    check(1000, entry(batch), None);
    check(1000, entry(JobId(99)), gone);
    check(1000, finish(own, 0), None);
    check(1000, entry(own), wrong);
    // A pass is for own jobs that run, and for nobody's who could do more with it.
    let pass = |job| Request::Pass { job };
    check(1000, pass(Some(batch)), None);
    check(1001, pass(Some(batch)), gone);
    check(0, pass(Some(batch)), gone);
    check(1001, pass(None), None);
    check(1000, pass(Some(own)), wrong);
    check(1000, pass(Some(JobId(99))), gone);
    let requeue = Request::Requeue {
        filter: ids(&[2]),
        hold: false,
        special: false,
    };
    check(1000, requeue, None);
    let submit = |spec| {
        Request::Submit(Box::new(Submission {
            spec,
            script: OsText::default(),
            array: None,
        }))
    };
    let invalid = Some(RefusalCode::Invalid);
    check(1000, submit(allocation(1, 60)), invalid);
    check(1000, allocates(spec("batch")), invalid);
    let array = Request::Allocate(Box::new(Submission {
        spec: allocation(1, 60),
        script: OsText::default(),
        array: "1-3".parse().ok(),
    }));
    check(1000, array, invalid);
    let mut odd = allocation(1, 60);
    odd.mpi = Some("../../etc".into());
    check(1000, allocates(odd), invalid);
}

#[test]
fn an_interactive_job_is_not_put_back_into_the_queue() {
    let mut world = World::new(config(1, 4));
    let (_, reply) = allocate(&mut world, allocation(1, 60));
    world.deliver_all();
    let filter = ids(&[id_of(&reply).0]);
    let reply = world.ask(Request::Requeue {
        filter,
        hold: false,
        special: false,
    });
    let Reply::Done {
        changed: 0,
        refused,
    } = reply
    else {
        panic!("{reply:?}");
    };
    assert_eq!(refused[0].1.code, RefusalCode::WrongState);
    assert_eq!(world.queue(), "1:running");
}

#[test]
fn each_user_has_as_many_interactive_jobs_as_configured() {
    let check = |most: u32, want: &str| {
        let mut config = config(1, 8);
        config.policy.interactive_per_user = most;
        let mut world = World::new(config);
        for _ in 0..3 {
            allocate(&mut world, allocation(1, 60));
        }
        let other = user(1001, "u1001");
        world.ask_on(other, None, allocates(allocation(1, 60)));
        world.submit(spec("batch"));
        world.deliver_all();
        assert_eq!(world.queue(), want);
    };
    let limit = "waiting/interactive_limit";
    check(1, &format!("1:running 2:{limit} 3:{limit} 4:running 5:running"));
    check(2, &format!("1:running 2:running 3:{limit} 4:running 5:running"));
    check(0, "1:running 2:running 3:running 4:running 5:running");
}

#[test]
fn a_held_interactive_job_lets_the_next_one_go() {
    let mut world = World::new(config(1, 1));
    world.submit(spec("batch"));
    world.deliver_all();
    allocate(&mut world, allocation(1, 60));
    allocate(&mut world, allocation(1, 60));
    assert_eq!(world.queue(), "1:running 2:waiting/resources 3:waiting/interactive_limit");
    world.ask(Request::Hold {
        filter: ids(&[2]),
        as_user: false,
    });
    assert_eq!(world.queue(), "1:running 2:waiting/held_by_user 3:waiting/resources");
    world.ask(Request::Release { filter: ids(&[2]) });
    assert_eq!(world.queue(), "1:running 2:waiting/interactive_limit 3:waiting/resources");
}

#[test]
fn a_repeated_request_stays_with_the_same_job() {
    let mut world = World::new(config(1, 4));
    let request = allocates(allocation(1, 600));
    let key = Some([7; 16]);
    let first = world.ask_on(me(), key, request.clone());
    let told = world.replies.remove(&first);
    world.deliver_all();
    world.event(Event::ClientLost(first));
    let second = world.ask_on(me(), key, request.clone());
    let again = world.replies.remove(&second);
    assert_eq!(told, again);
    world.pass(61);
    assert_eq!(world.queue(), "1:running", "the second one stays");
    world.crash();
    world.connect(0);
    let third = world.ask_on(me(), key, request);
    let again = world.replies.remove(&third);
    assert!(matches!(again, Some(Reply::Allocated { .. })), "{again:?}");
    world.deliver_all();
    assert_eq!(world.queue(), "1:running");
}

#[test]
fn a_signal_is_for_the_steps_on_all_nodes() {
    let mut world = World::new(config(2, 4));
    let (_, reply) = allocate(&mut world, allocation(2, 60));
    world.deliver_all();
    world.ask(Request::Cancel {
        filter: ids(&[id_of(&reply).0]),
        signal: Some(10),
        script_only: false,
        steps_only: false,
    });
    let signals = world
        .orders
        .iter()
        .filter(|(_, order)| matches!(order, NodeOrder::Signal { signal: 10, .. }));
    assert_eq!(signals.count(), 2);
}

// --- steps

fn record(step: u32, user_cpu_us: u64) -> StepRecord {
    StepRecord {
        step: StepId(step),
        name: "true".into(),
        nodes: "n1".into(),
        tasks: 1,
        cores: 1,
        end: End {
            user_cpu_us,
            peak_memory_bytes: u64::from(step) + 100,
            ..End::never_ran(EndCause::Exited, Time(5))
        },
    }
}

fn steps(world: &mut World, n: usize, job: JobId, before: u64, upto: u64) -> Option<u64> {
    let records = (before..upto).map(|s| record(s as u32, 10)).collect();
    let key = key(job);
    let node = format!("n{}", n + 1);
    world.orders.clear();
    world.report(
        n,
        NodeReport::Steps {
            key,
            node,
            before,
            records,
        },
    );
    world.orders.iter().find_map(|(_, order)| match order {
        NodeOrder::StepsTaken { count, .. } => Some(*count),
        _ => None,
    })
}

#[test]
fn records_of_steps_are_taken_once_and_added_up() {
    let mut world = World::new(config(2, 4));
    let (_, reply) = allocate(&mut world, allocation(1, 600));
    let job = id_of(&reply);
    world.deliver_all();
    let commits = world.commits;
    assert_eq!(steps(&mut world, 0, job, 0, 500), Some(500));
    assert_eq!(world.commits, commits + 1, "500 steps are one commit");
    // The answer was lost: they come again, with more behind them.
    assert_eq!(steps(&mut world, 0, job, 0, 700), Some(700));
    assert_eq!(steps(&mut world, 0, job, 0, 700), Some(700));
    assert_eq!(world.store.steps[&key(job)].len(), 700);
    // A node that is not the job's is not believed.
    assert_eq!(steps(&mut world, 1, job, 700, 800), Some(800));
    assert_eq!(world.store.steps[&key(job)].len(), 700);
    world.crash();
    world.connect(0);
    world.connect(1);
    world.deliver_all();
    assert_eq!(steps(&mut world, 0, job, 600, 900), Some(900));
    assert_eq!(world.store.steps[&key(job)].len(), 900);
    finish(&mut world, job, 0, 0);
    world.deliver_all();
    let end = world.store.row(1).end.clone().unwrap();
    assert_eq!((end.user_cpu_us, end.peak_memory_bytes), (9000, 999));
    // Late ones are still taken.
    assert_eq!(steps(&mut world, 0, job, 900, 950), Some(950));
    assert_eq!(world.store.steps[&key(job)].len(), 950);
    // Of a job that never was there is nothing to take.
    assert_eq!(steps(&mut world, 0, JobId(77), 0, 5), Some(5));
    assert!(!world.store.steps.contains_key(&key(JobId(77))));
}

#[test]
fn more_records_than_allowed_are_not_taken() {
    let mut world = World::new(config(1, 4));
    let (_, reply) = allocate(&mut world, allocation(1, 600));
    world.deliver_all();
    let most = limits::STEP_RECORDS as u64;
    assert_eq!(steps(&mut world, 0, id_of(&reply), 0, most + 1), None);
    assert_eq!(steps(&mut world, 0, id_of(&reply), 0, most), Some(most));
}

// --- passages

fn passage(world: &mut World, n: usize, uid: u32, job: u64) -> Result<String, RefusalCode> {
    world.orders.clear();
    let ask = NodeReport::AskPassage {
        number: 7,
        uid: Uid(uid),
        job: JobId(job),
    };
    world.report(n, ask);
    let answer = world.orders.pop_front();
    let Some((_, NodeOrder::Passage { number: 7, passage })) = answer else {
        panic!("{answer:?}");
    };
    passage
        .map(|p| p.first.address)
        .map_err(|refusal| refusal.code)
}

#[test]
fn who_gets_a_passage() {
    let mut config = config(4, 4);
    config.nodes[3].login = true;
    config.queues[0].nodes = Some(vec!["n1".into(), "n2".into(), "n3".into()]);
    let mut world = World::new(config);
    allocate(&mut world, allocation(2, 60));
    world.deliver_all();
    let (forbidden, wrong) = (RefusalCode::Forbidden, RefusalCode::WrongState);
    let mut check = |n, uid, job, want: Result<&str, RefusalCode>| {
        let got = passage(&mut world, n, uid, job);
        assert_eq!(got.as_deref().map_err(|c| *c), want, "{n} {uid} {job}");
    };
    check(3, 1000, 1, Ok("10.0.0.1:7818"));
    check(1, 1000, 1, Ok("10.0.0.1:7818"));
    check(2, 1000, 1, Err(forbidden)); // no job there, no login host
    check(3, 1001, 1, Err(RefusalCode::NotFound)); // somebody else's
    check(3, 0, 1, Ok("10.0.0.1:7818"));
    check(1, 0, 1, Err(forbidden));
    check(3, 1000, 9, Err(RefusalCode::NotFound));
    finish(&mut world, JobId(1), 0, 0);
    let got = passage(&mut world, 3, 1000, 1);
    assert_eq!(got, Err(wrong));
}

#[test]
fn the_mpi_plugin_is_the_jobs_else_the_queues() {
    let check = |job: Option<&str>, queue: Option<&str>, want: &str| {
        let mut config = config(1, 4);
        config.queues[0].mpi = queue.map(str::to_owned);
        let mut world = World::new(config);
        let mut spec = allocation(1, 60);
        spec.mpi = job.map(str::to_owned);
        let (_, reply) = allocate(&mut world, spec);
        let Reply::Allocated { variables, .. } = reply else {
            panic!("{reply:?}");
        };
        let text = variables.lossy();
        let mpi = text.split('\0').find(|v| v.starts_with("COSY_MPI="));
        assert_eq!(mpi.unwrap_or_default(), want);
    };
    check(Some("mpich"), Some("openmpi"), "COSY_MPI=mpich");
    check(None, Some("openmpi"), "COSY_MPI=openmpi");
    check(None, None, "");
}
