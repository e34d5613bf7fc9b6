//! Tasks that outlive their slots, come late, start early or run once more: what becomes of
//! their slots and of those of the others.

#![allow(clippy::unwrap_used)]

mod flows;
mod world;

use cosy_control::{ClusterConfig, PreemptBy};
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{ReservationSpec, ReservationState, StartChoice};
use cosy_model::workflow::*;
use cosy_model::{Attempt, JobId, JobSpec, QueueSpec, Span};
use flows::*;
use world::*;

fn free(nodes: u32, cores: u32) -> ClusterConfig {
    let mut config = config(nodes, cores);
    config.reservations.all_of.clear();
    config.reservations.per_user.share_ppm = None;
    config
}

fn planned(tasks: &str, edges: &[&str], overrun: Overrun) -> FlowSpec {
    let mut spec = graph(tasks, edges);
    spec.deadline = Some(FlowDeadline::Slack(100));
    spec.overrun = overrun;
    for task in &mut spec.tasks {
        task.spec.request.exclusive = true;
        task.estimate = Span::from_secs(100);
    }
    spec
}

fn run_for(w: &mut World, info: &FlowInfo, task: usize, secs: i64) {
    w.run_times
        .insert(job_of(info, task), Span::from_secs(secs));
}

/// Until it is over, for an hour at most.
fn until_over(w: &mut World, info: &FlowInfo) -> FlowInfo {
    for _ in 0..3600 {
        let now = show(w, info.id);
        if !now.state.is_live() {
            return now;
        }
        w.pass(1);
    }
    panic!("{}", states(w, info.id));
}

#[test]
fn a_slot_grows_while_nothing_is_in_the_way() {
    let mut w = World::new(free(1, 4));
    w.longer_limits = true;
    let info = submit(&mut w, planned("a", &[], Overrun::Extend)).unwrap();
    run_for(&mut w, &info, 0, 400);
    w.deliver_all();
    let done = until_over(&mut w, &info);
    assert_eq!(done.state, FlowState::Completed, "{}", done.tasks[0].note);
    let task = &done.tasks[0];
    assert!(task.end.unwrap().since(task.start.unwrap()) >= Span::from_secs(400));
    assert!(task.note.contains("made longer"), "{}", task.note);
    // What was added is paid for.
    let slot = w.store.reservations.values().next().unwrap();
    assert!(slot.base > info.price && slot.state == ReservationState::Ended);
}

#[test]
fn a_slot_does_not_grow_into_that_of_another() {
    let mut w = World::new(free(1, 4));
    w.longer_limits = true;
    let info = submit(&mut w, planned("ab", &["ab"], Overrun::Extend)).unwrap();
    run_for(&mut w, &info, 0, 400);
    w.exit_codes.insert(attempt(job_of(&info, 0).0, 1), 143);
    w.deliver_all();
    let done = until_over(&mut w, &info);
    assert_eq!(states(&mut w, info.id), "failed: a failed, b released");
    assert!(done.tasks[0].end <= info.tasks[0].slot_end);
}

#[test]
fn others_of_the_workflow_make_room() {
    let mut w = World::new(free(1, 4));
    w.longer_limits = true;
    let info = submit(&mut w, planned("abc", &["ab", "bc"], Overrun::Replan)).unwrap();
    run_for(&mut w, &info, 0, 200);
    run_for(&mut w, &info, 1, 90);
    run_for(&mut w, &info, 2, 90);
    w.deliver_all();
    let done = until_over(&mut w, &info);
    assert_eq!(done.state, FlowState::Completed, "{done:?}");
    assert!(done.tasks[1].slot_start > info.tasks[1].slot_start);
    assert!(
        w.mails
            .iter()
            .any(|m| m.contains("planned again: it is going to be late by"))
    );
    for task in &done.tasks {
        assert!(task.start >= task.slot_start && task.end <= task.slot_end);
    }
}

#[test]
fn a_late_task_starts_late_or_its_slot_grows() {
    // Two nodes: the child's slot is on the other one.
    for (overrun, state) in [
        (Overrun::Extend, FlowState::Completed),
        (Overrun::Replan, FlowState::Completed),
    ] {
        let mut w = World::new(free(2, 4));
        w.longer_limits = true;
        let mut spec = planned("ab", &["ab"], overrun);
        spec.tasks[0].spec.request.require = vec!["n1".into()];
        spec.tasks[1].spec.request.require = vec!["n2".into()];
        let info = submit(&mut w, spec).unwrap();
        run_for(&mut w, &info, 0, 300);
        run_for(&mut w, &info, 1, 95);
        w.deliver_all();
        let done = until_over(&mut w, &info);
        assert_eq!(done.state, state, "{overrun}: {done:?}");
        assert!(done.tasks[1].start >= done.tasks[0].end);
    }
}

#[test]
fn a_failed_task_runs_again_in_its_slot_or_in_another() {
    let mut w = World::new(free(1, 4));
    let mut spec = planned("ab", &["ab"], Overrun::Kill);
    spec.deadline = Some(FlowDeadline::Slack(2000));
    spec.tasks[0].retries = 2;
    let info = submit(&mut w, spec).unwrap();
    let first = job_of(&info, 0);
    // The first failure comes soon, the second so late that there is no time left.
    w.exit_codes.insert(attempt(first.0, 1), 1);
    w.exit_codes.insert(attempt(first.0, 2), 1);
    run_for(&mut w, &info, 0, 10);
    w.deliver_all();
    w.pass(12);
    assert_eq!(states(&mut w, info.id), "running: a running, b waiting");
    let slot = info.tasks[0].slot_end;
    assert_eq!(show(&mut w, info.id).tasks[0].slot_end, slot);
    let left = slot.unwrap().since(w.now).secs() - 40;
    let on = w.nodes[0].known.get_mut(&attempt(first.0, 2)).unwrap();
    on.ends_at = w.now + Span::from_secs(left);
    let done = until_over(&mut w, &info);
    assert_eq!(done.state, FlowState::Completed, "{done:?}");
    assert_eq!(done.tasks[0].failures, 2);
    assert!(done.tasks[0].slot_end > slot);
    assert_eq!(w.store.jobs[&first].attempt, Attempt(3));
    assert!(done.end <= info.deadline);
}

#[test]
fn a_task_starts_before_its_slot() {
    let mut w = World::new(free(1, 4));
    w.run_time = Span::from_secs(20);
    let mut spec = planned("abc", &["ab", "bc"], Overrun::Kill);
    spec.early = true;
    let info = submit(&mut w, spec).unwrap();
    w.deliver_all();
    let done = until_over(&mut w, &info);
    assert_eq!(done.state, FlowState::Completed);
    for at in [1, 2] {
        let (task, before) = (&done.tasks[at], &done.tasks[at - 1]);
        assert!(task.start < info.tasks[at].slot_start, "{task:?}");
        let gap = task.start.unwrap().since(before.end.unwrap());
        assert!(gap <= Span::from_secs(2), "{gap}");
    }
}

#[test]
fn it_is_planned_again_over_crashes() {
    let mut w = World::new(free(1, 4));
    w.longer_limits = true;
    let mut spec = planned("abc", &["ab", "bc"], Overrun::Replan);
    spec.tasks[1].retries = 1;
    let info = submit(&mut w, spec).unwrap();
    run_for(&mut w, &info, 0, 200);
    run_for(&mut w, &info, 1, 90);
    run_for(&mut w, &info, 2, 90);
    w.exit_codes.insert(attempt(job_of(&info, 1).0, 1), 1);
    w.deliver_all();
    for at in 0..3600 {
        if !show(&mut w, info.id).state.is_live() {
            break;
        }
        w.pass(1);
        if at % 3 == 0 {
            w.crash();
            w.connect(0);
            w.deliver_all();
        }
    }
    assert_eq!(states(&mut w, info.id), "completed: a done, b done, c done");
}

/// A job leaves for a slot, since the reservation that it was to leave for has been cancelled: when the
/// slot moves, so does what the job was promised.
#[test]
fn who_leaves_for_a_slot_leaves_later_when_it_is_planned_again() {
    let mut config = free(2, 4);
    config.queues.push(QueueSpec {
        name: "fast".to_owned(),
        priority: 10,
        ..QueueSpec::default()
    });
    config.preemption.by.insert(PreemptBy::Queue);
    let mut fast = config.reservations.clone();
    fast.preempt = true;
    config.queue_reservations.insert("fast".to_owned(), fast);
    let mut w = World::new(config);
    w.longer_limits = true;
    let mut request = whole_nodes(1);
    request.require = vec!["n2".into()];
    let victim = JobSpec {
        request: request.clone(),
        requeue: true,
        time_limit: Some(Span::from_secs(5000)),
        ..spec("victim")
    };
    w.run_times.insert(JobId(1), Span::from_secs(5000));
    let victim = JobId(w.submit(victim));
    w.deliver_all();
    let start = StartChoice::At(w.now + Span::from_secs(100));
    let ask = ReservationSpec {
        queue: Some("fast".to_owned()),
        ..ReservationSpec::plain(request, Span::from_secs(50), start)
    };
    let (ask, hold, job) = (Box::new(ask), false, None);
    let Reply::Reserved { reservations, .. } = w.ask(Request::Reserve { ask, hold, job }) else {
        panic!("refused");
    };
    assert_eq!(reservations[0].preempts.len(), 1);
    let mut flow = planned("ab", &["ab"], Overrun::Replan);
    flow.tasks[0].spec.request.require = vec!["n1".into()];
    flow.tasks[0].retries = 1; // it fails late, so that what depends on it has to wait
    flow.tasks[1].spec.request.require = vec!["n2".into()];
    let info = submit(&mut w, flow).unwrap();
    w.exit_codes.insert(attempt(job_of(&info, 0).0, 1), 1);
    run_for(&mut w, &info, 0, 90);
    run_for(&mut w, &info, 1, 90);
    w.deliver_all();
    let (ids, series) = (vec![reservations[0].id], false);
    w.ask(Request::CancelReservation { ids, series });
    w.deliver_all();
    let promised = |w: &World| w.store.row(victim.0).run.as_ref().unwrap().promised;
    let slot = info.tasks[1].slot_start;
    assert_eq!(promised(&w).map(|row| row.until), slot, "it leaves for the slot");
    let mut moved = slot;
    for _ in 0..120 {
        w.pass(1);
        moved = show(&mut w, info.id).tasks[1].slot_start;
        if moved != slot {
            break;
        }
    }
    assert!(moved > slot, "{moved:?}");
    assert_eq!(promised(&w).map(|row| row.until), moved);
}
