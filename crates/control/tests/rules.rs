//! What rules at submission have decided is in the event: the controller tells it, and nothing
//! else of it.

mod world;

use cosy_control::*;
use cosy_model::api::{JobRef, Reply, Request, Submission};
use cosy_model::*;
use world::*;

fn submission(name: &str) -> Request {
    Request::Submit(Box::new(Submission {
        spec: spec(name),
        script: OsText::default(),
        array: None,
    }))
}

#[test]
fn a_refusal_is_told_and_nothing_is_carried_out() {
    let mut world = World::new(config(1, 4));
    world.rules_refuse = Some(Refusal::new(RefusalCode::Admission, "no"));
    let Reply::Refused(refusal) = world.ask(submission("a")) else {
        panic!("not refused");
    };
    assert_eq!(refusal.message, "no");
    assert_eq!(world.controller.live_jobs(), 0);
}

#[test]
fn what_was_carried_out_keeps_its_answer() {
    let mut world = World::new(config(1, 4));
    let (who, key) = (user(1000, "u1000"), Some([7; 16]));
    let first = world.ask_as(who.clone(), key, submission("a"));
    assert!(matches!(first, Reply::Submitted { .. }), "{first:?}");
    // Asked again after its answer was lost, when the rules have come to another judgement.
    world.rules_refuse = Some(Refusal::new(RefusalCode::Admission, "no"));
    assert_eq!(world.ask_as(who.clone(), key, submission("a")), first);
    world.crash();
    assert_eq!(world.ask_as(who, key, submission("a")), first);
    assert_eq!(world.controller.live_jobs(), 1);
}

#[test]
fn jobs_are_described_to_their_own_user() {
    let mut world = World::new(config(1, 4));
    let mine = world.submit(spec("mine"));
    let array = world.try_submit(spec("many"), Some("1-5")).unwrap();
    let all = [mine, mine, array, 999_999].map(|job| JobRef {
        job: JobId(job),
        task: None,
    });
    let mut described = |who: User| -> Vec<(String, Option<u64>)> {
        let client = ClientId(77_777);
        world.event(Event::DescriptionsWanted(Box::new(DescriptionRequest {
            client,
            caller: Caller::known(who),
            jobs: all.to_vec(),
            queues: true,
        })));
        let described = world.described.remove(&client).unwrap();
        let (jobs, queues) = (described.jobs, described.queues);
        assert!(queues.iter().any(|queue| queue.default));
        assert!(jobs.iter().all(|job| job.user == format!("u{}", job.uid)));
        assert!(jobs.iter().all(|job| job.spec.queue.is_some()));
        jobs.into_iter()
            .map(|job| (job.spec.name, job.array))
            .collect()
    };
    let both = [("mine".to_owned(), None), ("many".to_owned(), Some(5))];
    assert_eq!(described(user(1000, "u1000")), both);
    assert_eq!(described(user(0, "root")), both);
    assert_eq!(described(user(1001, "u1001")), []);
}
