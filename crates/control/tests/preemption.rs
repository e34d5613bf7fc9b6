//! Running jobs make room for more important ones: who, how, by when, and that a crash at any step
//! changes nothing of it.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{Event, PreemptBy, PreemptionConfig, QueuePreemption};
use cosy_model::api::{Reply, Request};
use cosy_model::policy::*;
use cosy_model::*;
use world::*;

/// Two nodes with four cores each; jobs of `high` preempt those of `low`, `rare` preempts both.
fn site(change: impl FnOnce(&mut PreemptionConfig)) -> World {
    site_of(2, QosChange::default(), change)
}

fn site_of(nodes: u32, low: QosChange, change: impl FnOnce(&mut PreemptionConfig)) -> World {
    let mut config = config(nodes, 4);
    config.preemption.by.insert(PreemptBy::Qos);
    change(&mut config.preemption);
    site_with(config, low)
}

fn site_with(config: cosy_control::ClusterConfig, low: QosChange) -> World {
    let mut world = World::new(config);
    world.run_time = Span::from_secs(1000);
    let over = |others: &[&str]| QosChange {
        preempt: Some(QosListChange::Exactly(others.iter().map(|o| (*o).to_owned()).collect())),
        ..QosChange::default()
    };
    let add = |name: &str, set: QosChange| PolicyChange::AddQos {
        name: name.to_owned(),
        set,
    };
    let changes = vec![
        add("low", low),
        add("high", over(&["low"])),
        add("rare", over(&["high", "low"])),
    ];
    let request = Request::ChangePolicy {
        changes,
        dry_run: false,
    };
    let reply = world.ask_as(user(0, "root"), Some([1; 16]), request);
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    world
}

fn mode(mode: PreemptMode, grace: i64) -> QosChange {
    QosChange {
        preempt_mode: Some(Some(mode)),
        grace: Some(Span::from_secs(grace)),
        ..QosChange::default()
    }
}

/// All cores of so many nodes, and nothing else of them.
fn cores(qos: &str, nodes: u32) -> JobSpec {
    let mut spec = job_of_qos(qos, nodes);
    spec.request.exclusive = false;
    spec.request.cores_per_task = 4;
    spec
}

#[test]
fn a_job_is_requeued_for_a_more_important_one() {
    let mut w = site(|_| {});
    submits(&mut w, job_of_qos("low", 1));
    submits(&mut w, job_of_qos("low", 1));
    w.pass(10);
    submits(&mut w, job_of_qos("high", 1));
    // The younger of both has lost less; with the same age the later one goes.
    assert_eq!(w.queue(), "1:running 2:waiting/resources 3:running");
    assert_eq!(w.store.row(2).attempt, Attempt(1));
    assert_eq!(
        room(&w),
        [
            "job 2 preempted for job 3: it is requeued, within 00:00:05",
            "job 3 makes_room of 2 (requeue)",
        ]
    );
    w.end(0, attempt(1, 1), 0);
    w.deliver_all();
    w.pass(1);
    assert_eq!(w.queue(), "2:running 3:running");
    assert_eq!(w.store.row(2).attempt, Attempt(2));
    let [run] = &w.store.earlier_runs[..] else {
        panic!("{:?}", w.store.earlier_runs);
    };
    assert_eq!((run.id, run.attempt, run.state), (JobId(2), Attempt(1), JobState::Preempted));
    assert_eq!(run.note, "it made room for job 3");
    let end = run.end.as_ref().unwrap();
    assert_eq!(end.start, Some(Time::from_secs(1_000_000)));
}

#[test]
fn nobody_is_preempted_without_the_setting_or_by_equals() {
    for by in [None, Some(PreemptBy::Queue)] {
        let mut w = site(|config| config.by = by.into_iter().collect());
        submits(&mut w, job_of_qos("low", 2));
        submits(&mut w, job_of_qos("high", 1));
        w.pass(20);
        assert_eq!(w.queue(), "1:running 2:waiting/resources");
    }
    let mut w = site(|_| {});
    submits(&mut w, job_of_qos("high", 2));
    submits(&mut w, job_of_qos("low", 1));
    submits(&mut w, job_of_qos("high", 1));
    w.pass(20);
    assert_eq!(w.queue(), "1:running 2:waiting/resources 3:waiting/priority");
    submits(&mut w, job_of_qos("rare", 1));
    w.pass(2);
    assert_eq!(w.queue(), "1:waiting/resources 2:running 3:waiting/priority 4:running");
}

/// How much is lost counts, not who came first; never more go than needed.
#[test]
fn the_cheapest_go_and_no_more_than_needed() {
    let mut w = site_of(4, mode(PreemptMode::Cancel, 0), |_| {});
    submits(&mut w, job_of_qos("low", 2));
    w.pass(30);
    submits(&mut w, job_of_qos("low", 1));
    w.pass(30);
    submits(&mut w, job_of_qos("low", 1));
    w.pass(1);
    submits(&mut w, job_of_qos("high", 2));
    // 31 + 1 seconds of a node are less than 61 of two.
    w.pass(1);
    assert_eq!(w.queue(), "1:running 4:running");
    assert_eq!([w.state_of(2), w.state_of(3)], [JobState::Preempted; 2]);
    assert_eq!(w.store.row(2).note, "it made room for job 4");
    assert_eq!(w.state_of(1), JobState::Waiting);
}

/// A job that has time to end does so; what has come free goes to nobody else meanwhile.
#[test]
fn grace() {
    for (how, ends) in [
        (PreemptMode::Cancel, true),
        (PreemptMode::Cancel, false),
        (PreemptMode::Requeue, true),
        (PreemptMode::Requeue, false),
    ] {
        let mut w = site_of(2, mode(how, 60), |_| {});
        submits(&mut w, job_of_qos("low", 1));
        submits(&mut w, job_of_qos("low", 1));
        submits(&mut w, job_of_qos("high", 2));
        submits(
            &mut w,
            JobSpec {
                time_limit: Some(Span::from_secs(70)),
                ..job_of_qos("low", 1)
            },
        );
        w.pass(5);
        assert_eq!(
            w.signals,
            [
                (JobId(2), 18),
                (JobId(2), 15),
                (JobId(1), 18),
                (JobId(1), 15)
            ]
        );
        assert_eq!(w.queue(), "1:running 2:running 3:waiting/resources 4:waiting/resources");
        w.end(0, attempt(1, 1), if ends { 0 } else { 3 });
        w.deliver_all();
        w.pass(20);
        let fourth = if how == PreemptMode::Requeue {
            "priority"
        } else {
            "resources"
        };
        let first = if how == PreemptMode::Requeue {
            "1:waiting/resources "
        } else {
            ""
        };
        assert_eq!(w.queue(), format!("{first}2:running 3:waiting/resources 4:waiting/{fourth}"));
        w.pass(33);
        assert_eq!(w.queue(), format!("{first}2:running 3:waiting/resources 4:waiting/{fourth}"));
        w.pass(3);
        match how {
            PreemptMode::Requeue => {
                assert_eq!(
                    w.queue(),
                    "1:waiting/resources 2:waiting/priority 3:running 4:waiting/priority"
                );
            }
            _ => {
                assert_eq!(w.queue(), "3:running 4:waiting/resources");
                assert_eq!([w.state_of(1), w.state_of(2)], [JobState::Preempted; 2]);
                assert_eq!(
                    w.store.row(1).end.as_ref().unwrap().exit_code,
                    if ends { 0 } else { 3 }
                );
            }
        }
        assert_eq!(w.store.room.len(), 3, "nobody is chosen twice");
    }
}

/// Whoever cannot run again is cancelled.
#[test]
fn a_job_that_may_not_run_again_is_cancelled() {
    let mut w = site(|_| {});
    submits(
        &mut w,
        JobSpec {
            requeue: false,
            ..job_of_qos("low", 2)
        },
    );
    submits(&mut w, job_of_qos("high", 1));
    w.pass(1);
    assert_eq!(w.queue(), "2:running");
    assert_eq!(w.state_of(1), JobState::Preempted);
}

#[test]
fn who_stands_still_goes_on_when_the_other_one_is_over() {
    let mut w = site_of(2, mode(PreemptMode::Suspend, 0), |_| {});
    submits(&mut w, cores("low", 2));
    w.run_times.insert(JobId(2), Span::from_secs(50));
    submits(&mut w, cores("high", 1));
    assert_eq!(w.queue(), "1:suspended 2:running");
    reconnects(&mut w);
    w.pass(20);
    assert_eq!(w.queue(), "1:suspended 2:running");
    w.pass(31);
    assert_eq!(w.queue(), "1:running");
    assert_eq!(w.state_of(2), JobState::Completed);
    w.pass(1100);
    assert_eq!(w.state_of(1), JobState::Completed);
}

/// Who only stands still keeps its memory: that does not help who wants it.
#[test]
fn who_stands_still_keeps_its_memory() {
    let mut w = site_of(2, mode(PreemptMode::Suspend, 0), |_| {});
    let with_memory = |qos: &str, mib| {
        let mut spec = job_of_qos(qos, 1);
        spec.request.exclusive = false;
        spec.request.cores_per_task = 4;
        spec.request.memory = job::MemoryRequest::PerNode(MiB(mib));
        spec
    };
    submits(&mut w, with_memory("low", 9_000));
    submits(&mut w, with_memory("low", 9_000));
    submits(&mut w, with_memory("high", 9_000));
    w.pass(20);
    assert_eq!(w.queue(), "1:running 2:running 3:waiting/resources");
    submits(&mut w, with_memory("high", 5_000));
    w.pass(20);
    assert_eq!(w.queue(), "1:running 2:suspended 3:waiting/resources 4:running");
}

#[test]
fn modes_exempt_times_and_who_is_spared() {
    let check = |low: QosChange,
                 change: &dyn Fn(&mut PreemptionConfig),
                 victim: JobSpec,
                 want: [&str; 2]| {
        let mut w = site_of(1, low, change);
        let held = victim.attended;
        match held {
            true => drop(w.ask(allocates(victim))),
            false => drop(w.submit(victim)),
        }
        w.deliver_all();
        submits(&mut w, job_of_qos("high", 1));
        for (want, secs) in want.into_iter().zip([10, 100]) {
            w.pass(secs);
            assert_eq!(w.queue(), want);
        }
    };
    let waits = "1:running 2:waiting/resources";
    let gone = "1:waiting/resources 2:running";
    let plain = QosChange::default;
    check(mode(PreemptMode::Off, 0), &|_| {}, job_of_qos("low", 1), [waits; 2]);
    check(plain(), &|c| c.mode = PreemptMode::Off, job_of_qos("low", 1), [waits; 2]);
    check(plain(), &|c| c.exempt = Span::from_secs(60), job_of_qos("low", 1), [waits, gone]);
    let exempt = |secs| QosChange {
        preempt_exempt: Some(Some(Span::from_secs(secs))),
        ..plain()
    };
    check(exempt(5000), &|_| {}, job_of_qos("low", 1), [waits; 2]);
    check(exempt(0), &|c| c.exempt = Span::from_secs(5000), job_of_qos("low", 1), [gone; 2]);
    check(plain(), &|c| c.exempt_priority = Some(3_000_000_000), job_of_qos("low", 1), [waits; 2]);
    let low = JobSpec {
        nice: 2_000_000_000,
        ..job_of_qos("low", 1)
    };
    check(plain(), &|c| c.exempt_priority = Some(3_000_000_000), low, [gone; 2]);
    let attended = JobSpec {
        attended: true,
        program: Program::Allocation,
        ..job_of_qos("low", 1)
    };
    check(plain(), &|_| {}, attended.clone(), [waits; 2]);
    let own = QueuePreemption {
        interactive: true,
        ..QueuePreemption::default()
    };
    check(plain(), &|c| _ = c.queues.insert("main".to_owned(), own), attended, ["2:running"; 2]);
}

/// One quality of service lets its jobs preempt each other: those that stand behind go.
#[test]
fn within_one_quality_of_service() {
    for within in [false, true] {
        let low = QosChange {
            preempt_within: Some(within),
            ..QosChange::default()
        };
        let mut w = site_of(1, low, |_| {});
        let behind = |qos: &str, nice| JobSpec {
            nice,
            ..job_of_qos(qos, 1)
        };
        submits(&mut w, behind("low", 100));
        submits(&mut w, behind("low", 100));
        w.pass(10);
        assert_eq!(w.queue(), "1:running 2:waiting/resources");
        submits(&mut w, behind("low", 0));
        w.pass(10);
        let gone = "1:waiting/resources 2:waiting/priority 3:running";
        let stays = "1:running 2:waiting/priority 3:waiting/resources";
        assert_eq!(w.queue(), if within { gone } else { stays });
        // Jobs of another one do not.
        let mut w = site_of(1, QosChange::default(), |_| {});
        submits(&mut w, behind("high", 100));
        submits(&mut w, behind("high", 0));
        w.pass(20);
        assert_eq!(w.queue(), "1:running 2:waiting/resources");
    }
}

/// How long jobs of a queue are spared, its quality of service says first.
#[test]
fn the_quality_of_service_of_the_queue_spares() {
    let exempt = |secs| QosChange {
        preempt_exempt: Some(Some(Span::from_secs(secs))),
        ..QosChange::default()
    };
    let mut w = site_of(1, exempt(5000), |_| {});
    let request = Request::ChangePolicy {
        changes: vec![PolicyChange::AddQos {
            name: "here".to_owned(),
            set: exempt(60),
        }],
        dry_run: false,
    };
    w.ask_as(user(0, "root"), Some([2; 16]), request);
    let mut config = w.config.clone();
    config.queues[0].admits.qos = Some("here".to_owned());
    w.event(Event::Reconfigured(Box::new(config)));
    submits(&mut w, job_of_qos("low", 1));
    submits(&mut w, job_of_qos("high", 1));
    w.pass(50);
    assert_eq!(w.queue(), "1:running 2:waiting/resources");
    w.pass(20);
    assert_eq!(w.queue(), "1:waiting/resources 2:running");
}

/// The controller dies at each batch, before or after it is written: what comes of it is the same.
#[test]
fn a_crash_at_each_step_changes_nothing() {
    for how in [
        PreemptMode::Cancel,
        PreemptMode::Requeue,
        PreemptMode::Suspend,
    ] {
        for grace in [0, 30] {
            for death in [Death::BeforeCommit, Death::AfterCommit] {
                for at in 0..7 {
                    let mut w = site_of(2, mode(how, grace), |_| {});
                    submits(&mut w, cores("low", 1));
                    submits(&mut w, cores("low", 1));
                    w.run_times.insert(JobId(3), Span::from_secs(40));
                    w.dies = Some((at, death));
                    let request = Request::Submit(Box::new(api::Submission {
                        spec: cores("high", 2),
                        script: OsText::default(),
                        array: None,
                    }));
                    while !w.store.submissions.contains_key(&JobId(3)) {
                        w.ask_as(user(1000, "u1000"), Some([9; 16]), request.clone());
                        w.connect_all();
                        w.deliver_all();
                    }
                    for _ in 0..12 {
                        w.connect_all();
                        w.pass(8);
                    }
                    let case = format!("{how:?}, {grace}, {death:?} {at}");
                    assert_eq!(w.state_of(3), JobState::Completed, "{case}: {}", w.queue());
                    let left = match how {
                        PreemptMode::Cancel => "",
                        _ => "1:running 2:running",
                    };
                    assert_eq!(w.queue(), left, "{case}");
                    if how == PreemptMode::Cancel {
                        assert_eq!(
                            [w.state_of(1), w.state_of(2)],
                            [JobState::Preempted; 2],
                            "{case}"
                        );
                    }
                    let preempted = w
                        .store
                        .room
                        .iter()
                        .filter(|e| e.what == "preempted")
                        .count();
                    // Nodes come back one by one: who was requeued may run again before all are there.
                    let most = if how == PreemptMode::Requeue { 4 } else { 2 };
                    assert!((2..=most).contains(&preempted), "{case}: {:?}", room(&w));
                }
            }
        }
    }
}

/// The one for whom room is made is cancelled: who does not know of it yet is spared, who was told
/// comes to its end.
#[test]
fn who_was_not_told_is_spared() {
    for away in [true, false] {
        let mut w = site_of(2, mode(PreemptMode::Cancel, 30), |_| {});
        submits(&mut w, job_of_qos("low", 2));
        if away {
            w.disconnect(0); // its first node, which would tell it
        }
        submits(&mut w, job_of_qos("high", 1));
        assert_eq!(w.signals.is_empty(), away);
        w.ask(cancels(ids(&[2])));
        w.connect_all();
        w.pass(40);
        assert_eq!(w.queue(), if away { "1:running" } else { "" });
        let spared = "job 1 spared job 2 does not need its room any more".to_owned();
        assert_eq!(room(&w).contains(&spared), away);
        assert_eq!(w.signals.is_empty(), away);
        w.pass(960);
        let want = [JobState::Preempted, JobState::Completed][usize::from(away)];
        assert_eq!(w.state_of(1), want);
    }
}

/// Who could not be reached is told as soon as it can, and so is who may not have heard of it since
/// the controller died.
#[test]
fn who_was_away_is_told_later() {
    for dies in [false, true] {
        let mut w = site_of(2, mode(PreemptMode::Cancel, 30), |_| {});
        submits(&mut w, job_of_qos("low", 2));
        if dies {
            w.dies = Some((0, Death::AfterCommit));
        } else {
            w.disconnect(0);
        }
        w.ask(Request::Submit(Box::new(api::Submission {
            spec: job_of_qos("high", 1),
            script: OsText::default(),
            array: None,
        })));
        assert_eq!(w.signals, []);
        w.connect_all();
        w.pass(3);
        assert_eq!(w.signals, [(JobId(1), 18), (JobId(1), 15)]);
        w.pass(40);
        assert_eq!(w.queue(), "2:running");
        assert_eq!(w.signals.len(), 2);
    }
}

/// A node is lost under one who makes room: the other one asks again, and gets what it needs.
#[test]
fn a_node_is_lost_meanwhile() {
    let mut w = site_of(3, mode(PreemptMode::Requeue, 30), |_| {});
    for _ in 0..3 {
        submits(&mut w, job_of_qos("low", 1));
    }
    submits(&mut w, job_of_qos("high", 1));
    assert_eq!(w.signals, [(JobId(3), 18), (JobId(3), 15)]);
    w.disconnect(2);
    w.listen(200, &[0, 1]);
    w.deliver_all();
    w.pass(40);
    assert_eq!(w.state_of(4), JobState::Waiting);
    assert!(w.queue().contains("4:running"), "{}", w.queue());
    assert_eq!(w.queue().matches("running").count(), 2, "{}", w.queue());
}

/// By the priority of queues; the signal that a job asked for comes in place of SIGTERM.
#[test]
fn queues_and_own_signals() {
    let mut config = config(2, 4);
    config.preemption.by.insert(PreemptBy::Queue);
    config.preemption.own_signal = true;
    let of_queue = |mode, grace| QueuePreemption {
        mode: Some(mode),
        grace: Some(Span::from_secs(grace)),
        interactive: false,
    };
    let queues = &mut config.preemption.queues;
    queues.insert("slow".to_owned(), of_queue(PreemptMode::Cancel, 20));
    queues.insert("spared".to_owned(), of_queue(PreemptMode::Off, 20));
    let queue = |name: &str, priority| QueueSpec {
        name: name.to_owned(),
        priority,
        ..QueueSpec::default()
    };
    config.queues = vec![queue("fast", 9), queue("slow", 1), queue("spared", 1)];
    let mut w = World::new(config);
    w.run_time = Span::from_secs(1000);
    let to = |queue: &str, warn| JobSpec {
        queue: Some(queue.to_owned()),
        qos: None,
        warn,
        ..job_of_qos("x", 1)
    };
    let warn = job::WarnSignal {
        signal: 10,
        before: Span::from_secs(60),
        script_only: true,
    };
    submits(&mut w, to("slow", Some(warn)));
    submits(&mut w, to("spared", None));
    submits(&mut w, to("fast", None));
    assert_eq!(w.signals, [(JobId(1), 18), (JobId(1), 10)]);
    submits(&mut w, to("fast", None));
    w.pass(30);
    assert_eq!(w.queue(), "2:running 3:running 4:waiting/resources");
    assert_eq!(w.state_of(1), JobState::Preempted);
}

/// A job with a guaranteed start that others push back is told so.
#[test]
fn who_is_pushed_back_is_told() {
    let mut w = site(|_| {});
    let hour = Span::from_secs(3600);
    submits(&mut w, job_of_qos("low", 1));
    let mut head = job_of_qos("low", 2);
    head.mail.begin = true;
    submits(&mut w, head);
    w.pass(10);
    submits(
        &mut w,
        JobSpec {
            time_limit: Some(hour),
            ..job_of_qos("high", 1)
        },
    );
    // Nobody has to go: a node is idle, which the head would have needed an hour earlier.
    assert_eq!(w.queue(), "1:running 2:waiting/resources 3:running");
    assert_eq!(
        room(&w),
        [
            "job 3 makes_room it stands before those that it may preempt",
            "job 2 start_moved by 00:10:10: room is made for job 3",
        ]
    );
    assert_eq!(w.mails, ["test job 2 (low) will start later: room is made for job 3"]);
    let told = "its guaranteed start is later by 00:10:10, since room was made for job 3, which comes first";
    assert_eq!(lines(&mut w, 2).last().map(String::as_str), Some(told));
    reconnects(&mut w);
    assert_eq!(lines(&mut w, 2).last().map(String::as_str), Some(told));
    w.pass(4000);
    assert_eq!(w.state_of(2), JobState::Completed);
    reconnects(&mut w);
    assert_eq!(w.store.row(2).moved, None);
}

fn lines(w: &mut World, id: u64) -> Vec<String> {
    let job = api::JobRef {
        job: JobId(id),
        task: None,
    };
    match w.ask(Request::Explain { job }) {
        Reply::Explained { lines, .. } => lines,
        other => panic!("{other:?}"),
    }
}

fn checkpoint(w: &mut World, who: User, id: u64) -> Result<(), String> {
    let change = api::JobChange {
        checkpointed: true,
        ..api::JobChange::default()
    };
    let filter = ids(&[id]);
    let change = Box::new(change);
    match w.ask_as(who, None, Request::Change { filter, change }) {
        Reply::Done { refused, .. } => refused
            .first()
            .map_or(Ok(()), |(_, r)| Err(r.message.clone())),
        Reply::Refused(refusal) => Err(refusal.message),
        other => panic!("{other:?}"),
    }
}

/// Who has told a safe point loses less, and goes before those who have not.
#[test]
fn safe_points() {
    let mut w = site(|_| {});
    submits(&mut w, job_of_qos("low", 1));
    w.pass(20);
    submits(&mut w, job_of_qos("low", 1));
    w.pass(60);
    assert!(checkpoint(&mut w, user(1001, "bob"), 1).is_err());
    let own = user(1000, "u1000");
    assert_eq!(checkpoint(&mut w, own.clone(), 1), Ok(()));
    w.pass(3);
    let soon = "job 1 has told a safe point 00:00:03 ago: one in 00:00:10 is enough".to_owned();
    assert_eq!(checkpoint(&mut w, own.clone(), 1), Err(soon));
    assert_eq!(checkpoint(&mut w, user(0, "root"), 2), Ok(()));
    reconnects(&mut w);
    w.pass(20);
    assert_eq!(checkpoint(&mut w, own, 1), Ok(()));
    submits(&mut w, job_of_qos("high", 1));
    w.pass(1);
    assert_eq!(w.queue(), "1:waiting/resources 2:running 3:running");
    let why = "job 1 does not run: there is no work of it to be safe".to_owned();
    assert_eq!(checkpoint(&mut w, user(0, "root"), 1), Err(why));
}

#[test]
fn what_is_told_of_it() {
    let mut w = site_of(2, mode(PreemptMode::Cancel, 60), |c| c.exempt = Span::from_secs(100));
    submits(&mut w, job_of_qos("low", 2));
    w.pass(10);
    assert_eq!(lines(&mut w, 1), [""; 0]);
    submits(&mut w, job_of_qos("high", 1));
    assert_eq!(
        lines(&mut w, 1),
        [
            "more important jobs that wait and may take its nodes in 00:01:30: 1; it is cancelled then, and loses 80 core-seconds ('cosy job checkpointed' tells a safe point)"
        ]
    );
    w.pass(100);
    assert_eq!(lines(&mut w, 1), ["it makes room for job 2: it ends within 00:00:50"]);
    assert_eq!(lines(&mut w, 2)[1..], ["jobs make room for it, within 00:00:50: 1"]);
}

/// Room is made for two at once, and the first takes a node that the second one's victim leaves:
/// the second stands before those who made room and wait again, and has the next node.
#[test]
fn who_finds_its_room_taken_stays_ahead() {
    room_is_taken(None);
}

/// The same when the controller dies meanwhile.
#[test]
fn who_finds_its_room_taken_stays_ahead_after_a_restart() {
    for second in 8..24 {
        room_is_taken(Some(second));
    }
}

fn room_is_taken(dies_after: Option<i64>) {
    let mut w = site_of(3, mode(PreemptMode::Requeue, 12), |_| {});
    let some = |qos: &str, nodes: u32, cores: u32| {
        let mut spec = spec(qos);
        spec.qos = Some(qos.to_owned());
        spec.request.nodes = Some(nodes);
        spec.request.tasks = Some(nodes);
        spec.request.cores_per_task = cores;
        spec.requeue = true;
        spec.time_limit = Some(Span::from_secs(100));
        spec
    };
    let all = [
        (some("low", 2, 2), 13),
        (some("low", 2, 1), 13),
        (some("low", 1, 4), 13),
        (some("high", 2, 2), 5),
        (some("high", 1, 4), 5),
        (some("high", 2, 1), 17),
    ];
    for (id, (spec, secs)) in (1..).zip(all) {
        w.run_times.insert(JobId(id), Span::from_secs(secs));
        submits(&mut w, spec);
    }
    let before = w.now;
    for second in 0..40 {
        w.pass(1);
        if dies_after == Some(second) {
            w.crash();
            w.connect_all();
        }
        let queue = w.queue();
        let runs = |id: u64| queue.contains(&format!("{id}:running"));
        let waits = |id: u64| queue.contains(&format!("{id}:waiting"));
        let gone = w.now >= before + Span::from_secs(12);
        let taken = gone && waits(5) && [1, 2, 3].into_iter().any(runs);
        assert!(!taken, "{queue}, dies after {dies_after:?}");
    }
    assert!(!w.queue().contains("5:"), "{}, dies after {dies_after:?}", w.queue());
}

/// Where nobody has a guaranteed place, the one for whom room is made has one all the same.
#[test]
fn its_room_is_kept_where_nobody_has_a_guaranteed_place() {
    let mut config = config(2, 4);
    config.preemption.by.insert(PreemptBy::Qos);
    config.policy.depth = cosy_sched::Depth::Count(0);
    let mut w = site_with(config, mode(PreemptMode::Cancel, 30));
    submits(&mut w, job_of_qos("low", 1));
    w.run_times.insert(JobId(2), Span::from_secs(10));
    submits(&mut w, job_of_qos("low", 1));
    submits(&mut w, job_of_qos("high", 2));
    let short = JobSpec {
        time_limit: Some(Span::from_secs(500)),
        ..job_of_qos("low", 1)
    };
    submits(&mut w, short);
    w.pass(20);
    // The node of job 2 is free, and job 4 would run longer than job 1.
    assert!(
        w.queue()
            .starts_with("1:running 3:waiting/resources 4:waiting"),
        "{}",
        w.queue()
    );
    w.pass(15);
    assert!(w.queue().starts_with("3:running 4:waiting"), "{}", w.queue());
    assert_eq!(room(&w).len(), 3, "{:?}", room(&w));
}

/// Nobody else has one then: whoever fits starts, and a wide job waits as long as others come.
#[test]
fn without_guaranteed_places_whoever_fits_starts() {
    for (depth, starts) in [(0, true), (1, false)] {
        let mut config = config(2, 4);
        config.policy.depth = cosy_sched::Depth::Count(depth);
        let mut w = World::new(config);
        w.run_time = Span::from_secs(1000);
        submits(&mut w, job_of_qos("normal", 1));
        submits(&mut w, job_of_qos("normal", 2));
        let longer = JobSpec {
            time_limit: Some(Span::from_secs(4000)),
            ..job_of_qos("normal", 1)
        };
        submits(&mut w, longer);
        let third = match starts {
            true => "3:running",
            false => "3:waiting/priority",
        };
        let queue = w.queue();
        assert!(queue.contains(third), "{depth}: {queue}");
    }
}
