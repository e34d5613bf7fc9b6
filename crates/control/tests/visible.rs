//! Who is told what of whose jobs.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::Visibility;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Table, Value};
use cosy_model::job::MailRequest;
use cosy_model::trigger::{TriggerEvent, TriggerSpec, TriggerTarget};
use cosy_model::*;
use world::*;

fn ann() -> User {
    user(1000, "u1000")
}

fn bob() -> User {
    user(1001, "u1001")
}

fn world_with(visibility: Visibility) -> World {
    let mut config = config(1, 4);
    config.policy.visibility = visibility;
    World::new(config)
}

/// Ann's job with everything that a user can write.
fn told_much() -> JobSpec {
    JobSpec {
        account: Some("secret".into()),
        comment: "secret".into(),
        qos: Some("secret".into()),
        wckey: Some("secret".into()),
        submit_line: "secret".into(),
        submit_host: Some("secret".into()),
        workdir: OsText::from("/secret"),
        stdout: Some(OsText::from("/secret.out")),
        mail: MailRequest {
            end: true,
            to: "secret@example".into(),
            ..MailRequest::default()
        },
        program: Program::Command {
            argv: vec![OsText::from("secret")],
        },
        ..spec("secret")
    }
}

fn list(world: &mut World, who: User, filter: JobFilter) -> Table {
    let request = Request::Jobs {
        filter,
        fields: JobField::ALL.to_vec(),
        fold_arrays: true,
    };
    match world.ask_as(who, None, request) {
        Reply::Jobs(table) => table,
        other => panic!("{other:?}"),
    }
}

fn explain(world: &mut World, who: User, id: u64) -> Option<(Table, Vec<String>)> {
    let request = Request::Explain { job: named(id) };
    match world.ask_as(who, None, request) {
        Reply::Explained { table, lines } => Some((table, lines)),
        Reply::Refused(_) => None,
        other => panic!("{other:?}"),
    }
}

fn named(id: u64) -> JobRef {
    JobRef {
        job: JobId(id),
        task: None,
    }
}

fn secrets(table: &Table) -> Vec<&'static str> {
    let fields = JobField::ALL.iter().filter(|field| {
        let tells = |row| match table.get(row, **field) {
            Value::Text(text) => text.contains("secret"),
            Value::Number(_) | Value::Nothing => false,
        };
        (0..table.rows).any(tells)
    });
    fields.map(|field| field.word()).collect()
}

#[test]
fn of_others_states_sizes_and_times_are_told() {
    let mut world = world_with(Visibility::States);
    world.exit_codes.clear();
    let running = world.submit(told_much());
    let waiting = world.submit(JobSpec {
        hold: true,
        ..told_much()
    });
    world.deliver_all();
    world.pass(1);
    let mine = list(&mut world, ann(), JobFilter::default());
    assert!(secrets(&mine).len() >= 10, "{:?}", secrets(&mine));
    let his = list(&mut world, bob(), JobFilter::default());
    assert_eq!((his.rows, secrets(&his)), (2, Vec::new()));
    let row = |row| {
        let texts = [JobField::State, JobField::User, JobField::Queue];
        let texts = texts.map(|field| his.text(row, field).to_owned());
        (texts.join(" "), his.number(row, JobField::Cores))
    };
    assert_eq!(row(0), ("running u1000 main".into(), Some(1)));
    assert_eq!(row(1), ("waiting u1000 main".into(), Some(1)));
    assert_eq!(his.text(1, JobField::Reason), "held_by_user");
    assert!(his.number(0, JobField::Start).is_some());
    // One by one, with no sentences.
    for id in [running, waiting] {
        let (table, lines) = explain(&mut world, bob(), id).unwrap();
        assert_eq!((secrets(&table), lines.len()), (Vec::new(), 0));
    }
    // What is not told cannot be asked for.
    let by = |names: &[&str], accounts: &[&str]| JobFilter {
        names: names.iter().map(|n| (*n).to_owned()).collect(),
        accounts: accounts.iter().map(|n| (*n).to_owned()).collect(),
        ..JobFilter::default()
    };
    for filter in [by(&["secret"], &[]), by(&[], &["secret"])] {
        assert_eq!(list(&mut world, bob(), filter.clone()).rows, 0);
        assert_eq!(list(&mut world, ann(), filter).rows, 2);
    }
    // Nor how it came out.
    world.pass(20);
    let his = list(&mut world, bob(), JobFilter::default());
    assert_eq!((his.rows, secrets(&his)), (2, Vec::new()));
    let ended = (0..2).find(|row| his.text(*row, JobField::State) == "completed");
    assert_eq!(his.number(ended.unwrap(), JobField::ExitCode), None);
}

#[test]
fn everything_or_nothing_is_told_where_that_is_said() {
    let mut world = world_with(Visibility::Everything);
    let job = world.submit(told_much());
    assert!(secrets(&list(&mut world, bob(), JobFilter::default())).len() >= 10);
    assert!(explain(&mut world, bob(), job).is_some());
    let mut world = world_with(Visibility::Own);
    let job = world.submit(told_much());
    assert_eq!(list(&mut world, bob(), JobFilter::default()).rows, 0);
    assert!(explain(&mut world, bob(), job).is_none());
    assert_eq!(list(&mut world, user(500, "adm"), JobFilter::default()).rows, 1);
}

fn wait(world: &mut World, who: User, id: u64) -> Option<EndOf> {
    let client = world.ask_on(
        who,
        None,
        Request::Wait {
            jobs: vec![named(id)],
        },
    );
    match world.replies.remove(&client)? {
        Reply::Ended(mut ended) => {
            let job = ended.remove(0);
            Some(EndOf::Told(job.state, job.exit_code, job.note))
        }
        Reply::Refused(refusal) => Some(EndOf::Refused(refusal.code)),
        other => panic!("{other:?}"),
    }
}

#[derive(PartialEq, Debug)]
enum EndOf {
    Told(JobState, i32, String),
    Refused(RefusalCode),
}

#[test]
fn who_waits_is_told_of_jobs_that_he_may_see() {
    let not_there = EndOf::Refused(RefusalCode::NotFound);
    for (visibility, want) in [
        (Visibility::Own, not_there),
        (Visibility::States, EndOf::Told(JobState::Failed, 0, String::new())),
        (Visibility::Everything, EndOf::Told(JobState::Failed, 3, String::new())),
    ] {
        let mut world = world_with(visibility);
        let job = world.submit(told_much());
        let key = node::AttemptKey {
            job: JobId(job),
            attempt: Attempt(1),
        };
        world.exit_codes.insert(key.into(), 3);
        world.deliver_all();
        world.pass(15);
        let mine = EndOf::Told(JobState::Failed, 3, String::new());
        assert_eq!(wait(&mut world, ann(), job), Some(mine));
        assert_eq!(wait(&mut world, bob(), job).unwrap(), want, "{visibility:?}");
        // Out of the store, when nobody remembers it any more.
        world.pass(400);
        let mine = EndOf::Told(JobState::Failed, 1, String::new());
        assert_eq!(wait(&mut world, ann(), job), Some(mine));
        let his = wait(&mut world, bob(), job).unwrap();
        match visibility {
            Visibility::Own => assert_eq!(his, EndOf::Refused(RefusalCode::NotFound)),
            Visibility::States | Visibility::Everything => {
                assert_eq!(his, EndOf::Told(JobState::Failed, 1, String::new()));
            }
        }
        // Nor can he depend on it.
        let dependency = Dependency {
            kind: DependencyKind::AfterAny,
            job: JobId(job),
            task: None,
            delay: Span::ZERO,
        };
        let submission = api::Submission {
            spec: JobSpec {
                dependencies: vec![dependency],
                ..spec("after")
            },
            script: OsText::default(),
            array: None,
        };
        let reply = world.ask_as(bob(), None, Request::Submit(Box::new(submission)));
        assert_eq!(matches!(reply, Reply::Refused(_)), visibility == Visibility::Own, "{reply:?}");
    }
}

#[test]
fn who_stays_with_an_old_job_is_its_user() {
    let mut world = world_with(Visibility::Everything);
    let job = world.submit(spec("x"));
    world.deliver_all();
    world.pass(500);
    let attend = Request::Attend {
        job: JobId(job),
        started: false,
    };
    let reply = world.ask_as(bob(), None, attend.clone());
    assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    let reply = world.ask_as(ann(), None, attend);
    assert!(matches!(reply, Reply::Ended(_)), "{reply:?}");
}

#[test]
fn triggers_of_others_are_told_only_with_everything() {
    for (visibility, want) in [
        (Visibility::Own, 0),
        (Visibility::States, 0),
        (Visibility::Everything, 1),
    ] {
        let mut world = world_with(visibility);
        let job = world.submit(spec("x"));
        let trigger = TriggerSpec {
            on: TriggerTarget::Job(JobId(job)),
            events: [TriggerEvent::Ended].into(),
            offset: Span::ZERO,
            program: OsText::from("/secret"),
            permanent: false,
            environment: OsText::default(),
        };
        let reply = world.ask_as(ann(), None, Request::SetTrigger(Box::new(trigger)));
        assert!(matches!(reply, Reply::TriggerSet(_)), "{reply:?}");
        let Reply::Triggers(his) = world.ask_as(bob(), None, Request::Triggers) else {
            panic!("no list");
        };
        assert_eq!(his.len(), want, "{visibility:?}");
    }
}

/// Whatever is asked of a job that is not told of: there is no such job. Where it is told of, it
/// belongs to somebody else.
#[test]
fn every_request_says_the_same_of_a_job_that_is_hidden() {
    for (visibility, want) in [
        (Visibility::Own, RefusalCode::NotFound),
        (Visibility::States, RefusalCode::Forbidden),
        (Visibility::Everything, RefusalCode::Forbidden),
    ] {
        let mut world = world_with(visibility);
        let first = world.submit(told_much());
        let second = world.submit(told_much());
        world.deliver_all();
        let filter = |id| JobFilter {
            ids: vec![JobRef {
                job: JobId(id),
                task: None,
            }],
            ..JobFilter::default()
        };
        let all = |id| {
            let job = JobId(id);
            [
                Request::Cancel {
                    filter: filter(id),
                    signal: None,
                    script_only: false,
                    steps_only: false,
                },
                Request::Hold {
                    filter: filter(id),
                    as_user: false,
                },
                Request::Release { filter: filter(id) },
                Request::Requeue {
                    filter: filter(id),
                    hold: false,
                    special: false,
                },
                Request::Change {
                    filter: filter(id),
                    change: Box::new(api::JobChange {
                        comment: Some("x".into()),
                        ..api::JobChange::default()
                    }),
                },
                Request::Entry { job },
                Request::Attend {
                    job,
                    started: false,
                },
                Request::Finish {
                    job,
                    exit_code: 0,
                    signal: 0,
                },
            ]
        };
        let code = |reply: Reply| match reply {
            Reply::Refused(refusal) => refusal.code,
            Reply::Done { refused, .. } => refused[0].1.code,
            other => panic!("{other:?}"),
        };
        for request in [all(first), all(second)].concat() {
            let told = code(world.ask_as(bob(), None, request.clone()));
            assert_eq!(told, want, "{visibility:?} {request:?}");
        }
        // Moments after their end it is no other answer than of a job that never was.
        world.pass(40);
        if visibility == Visibility::Own {
            for request in [all(first), all(77)].concat() {
                let told = code(world.ask_as(bob(), None, request.clone()));
                assert_eq!(told, RefusalCode::NotFound, "{request:?}");
            }
        }
    }
}
