//! Clocks that are set, machines that sleep, nodes whose clocks are wrong, programs that begin
//! late: what passes goes on passing, what is promised stays, no core is given twice.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::*;
use cosy_model::api::{JobField, NodeInfo, Reply, Request, Submission};
use cosy_model::node::*;
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::*;
use world::*;

const HOUR: i64 = 3600;

fn secs(n: i64) -> Span {
    Span::from_secs(n)
}

/// A job of so many seconds that would run longer than its limit.
fn long(limit: i64, cores: u32) -> JobSpec {
    let mut spec = spec("long");
    spec.time_limit = Some(secs(limit));
    spec.request.cores_per_task = cores;
    spec
}

fn world(nodes: u32) -> World {
    let mut config = config(nodes, 4);
    config.policy.clearance = secs(7);
    let mut world = World::new(config);
    world.run_time = secs(1_000_000);
    world
}

/// Cores in use by programs that run, at most those that the node has.
fn busy(world: &World) -> u32 {
    let running = |on: &&OnNode| matches!(on.phase, AttemptPhase::Running { .. });
    let known = world.nodes.iter().flat_map(|node| node.known.iter());
    let keys = known
        .filter(|(_, on)| running(on))
        .map(|(key, _)| JobId(key.number()));
    let cores = |id: JobId| {
        let job = &world.store.jobs[&id];
        let request = &world.store.submissions[&job.base].0.spec.request;
        request.cores_per_task
    };
    keys.map(cores).sum()
}

fn nodes(world: &mut World) -> Vec<NodeInfo> {
    match world.ask_as(user(0, "root"), None, Request::Nodes) {
        Reply::Nodes(nodes) => nodes,
        other => panic!("{other:?}"),
    }
}

/// Every start of an attempt, over all nodes.
fn starts(world: &World) -> u32 {
    world
        .nodes
        .iter()
        .flat_map(|node| node.starts.values())
        .sum()
}

fn events(world: &World, what: &str) -> Vec<String> {
    let all = world.store.told.iter().filter(|event| event.what == what);
    all.map(|event| format!("{}: {}", event.object, event.detail))
        .collect()
}

/// A clock that is set by hours: nodes stay, jobs go on and end when their time has passed,
/// ticks go on, others start in their places and not before.
fn set_while_jobs_run(by: i64) {
    let mut world = world(2);
    let first: Vec<u64> = (0..2).map(|_| world.submit(long(100, 4))).collect();
    world.deliver_all();
    world.pass(40);
    let waits = world.submit(long(100, 4));
    let allocated = world.store.row(first[0]).run.as_ref().unwrap().allocated;
    world.set_clock(secs(by));
    world.pass(55); // 95 s of 100
    assert_eq!(busy(&world), 8, "set by {by}: {}", world.queue());
    assert_eq!(starts(&world), 2);
    assert!(nodes(&mut world).iter().all(|node| node.state == "busy"));
    let run = world.store.row(first[0]).run.clone().unwrap();
    assert_eq!(run.allocated, allocated + secs(by));
    world.pass(6);
    assert_eq!(world.store.row(first[0]).attempt, Attempt(1));
    assert_eq!(world.state_of(first[0]), JobState::Completed);
    assert_eq!(busy(&world), 4);
    assert!(world.state_of(waits) != JobState::Completed);
    assert_eq!(starts(&world), 3);
    assert_eq!(events(&world, "lost"), Vec::<String>::new());
    let way = if by < 0 { "backward" } else { "forward" };
    let told = format!("clock of the controller: set {way} by {}.000 s", by.abs());
    assert_eq!(events(&world, "clock_set"), [told]);
}

#[test]
fn a_clock_that_is_set_forward_ends_nothing() {
    set_while_jobs_run(55);
    set_while_jobs_run(HOUR);
    set_while_jobs_run(400 * 24 * HOUR);
}

#[test]
fn a_clock_that_is_set_backward_stops_nothing() {
    set_while_jobs_run(-55);
    set_while_jobs_run(-HOUR);
    set_while_jobs_run(-3 * 24 * HOUR);
}

/// Silence is counted on, whatever the clock shows: a node that is silent is lost, and not
/// before its time.
#[test]
fn silence_is_measured_on_a_clock_that_nobody_sets() {
    for by in [-HOUR, HOUR] {
        let mut world = world(2);
        world.listen(30, &[0]);
        world.set_clock(secs(by));
        world.listen(28, &[0]);
        assert_eq!(events(&world, "lost"), Vec::<String>::new(), "set by {by}");
        world.listen(10, &[0]);
        assert_eq!(events(&world, "lost"), ["node n2: "], "set by {by}");
    }
}

/// While the machine sleeps nobody can report: everybody has the whole time again.
#[test]
fn after_a_sleep_nodes_have_their_full_time_again() {
    let mut world = world(2);
    let job = world.submit(long(100, 4));
    world.deliver_all();
    world.listen(50, &[]);
    // The steady clock stood still, the date went on.
    world.slept = secs(8 * HOUR);
    world.set_clock(secs(8 * HOUR));
    world.listen(55, &[]);
    assert_eq!(events(&world, "lost"), Vec::<String>::new());
    let told = "clock of the controller: the machine slept for 08:00:00";
    assert_eq!(events(&world, "clock_set"), [told]);
    assert!(world.store.row(job).end.is_none());
    world.listen(10, &[]);
    assert_eq!(events(&world, "lost").len(), 2);
}

/// The same when a turn comes far too late although no clock stood still.
#[test]
fn after_a_gap_nodes_have_their_full_time_again() {
    let mut world = world(2);
    world.listen(50, &[]);
    world.now = world.now + secs(45);
    world.listen(55, &[]);
    assert_eq!(events(&world, "lost"), Vec::<String>::new());
    world.listen(10, &[]);
    assert_eq!(events(&world, "lost").len(), 2);
}

/// Dates that users named stay dates.
#[test]
fn begin_times_follow_the_clock_on_the_wall() {
    let mut world = world(1);
    let mut spec = long(100, 1);
    spec.begin = Some(world.now + secs(HOUR));
    let job = world.submit(spec);
    world.pass(10);
    world.set_clock(secs(HOUR - 20));
    world.pass(5);
    assert_eq!(starts(&world), 0, "{}", world.queue());
    world.pass(6);
    assert_eq!(starts(&world), 1, "{}", world.queue());
    assert!(world.store.row(job).run.is_some());
}

/// A clock that is wrong on one node: the job keeps its time and its dates are of the
/// controller's clock.
#[test]
fn a_nodes_clock_moves_no_job() {
    for ahead in [-20 * 60, -40, 40, 20 * 60, 365 * 24 * HOUR] {
        let mut world = world(1);
        world.config.policy.clock_skew = Span::UNLIMITED;
        world.event(Event::Reconfigured(Box::new(world.config.clone())));
        world.nodes[0].ahead = secs(ahead);
        let begun = world.now;
        let job = world.submit(long(100, 4));
        world.deliver_all();
        world.pass(99);
        assert_eq!(busy(&world), 4, "{ahead}: {}", world.queue());
        world.pass(2);
        let row = world.store.row(job);
        let (end, run) = (row.end.as_ref().unwrap(), row.run.as_ref().unwrap());
        assert_eq!(row.state, JobState::Completed);
        assert_eq!(run.allocated, begun);
        assert_eq!(end.start, Some(begun), "{ahead}");
        assert_eq!(end.end, begun + secs(100), "{ahead}");
    }
}

#[test]
fn a_node_with_a_wrong_clock_takes_no_jobs_until_it_is_right() {
    for ahead in [-20 * 60, 365 * 24 * HOUR] {
        let mut world = world(2);
        world.nodes[1].ahead = secs(ahead);
        world.pass(3);
        let told = nodes(&mut world);
        assert_eq!(told[0].skew_ms, Some(0));
        assert_eq!(told[1].skew_ms, Some(ahead * 1000));
        assert_eq!((&*told[0].state, &*told[1].state), ("idle", "unhealthy"));
        assert!(told[1].reason.starts_with("its clock is "), "{}", told[1].reason);
        for _ in 0..3 {
            world.submit(long(100, 4));
        }
        world.pass(2);
        assert_eq!(starts(&world), 1, "{}", world.queue());
        assert!(world.nodes[1].starts.is_empty());
        world.nodes[1].ahead = Span::ZERO;
        world.pass(4);
        assert_eq!(world.nodes[1].starts.len(), 1, "{}", world.queue());
        assert_eq!(nodes(&mut world)[1].reason, "");
        assert_eq!(events(&world, "clock_wrong").len(), 1);
        assert_eq!(events(&world, "clock_right").len(), 1);
    }
}

/// Where most say that the controller's clock is wrong, it is not theirs.
#[test]
fn a_wrong_clock_of_the_controller_stops_no_node() {
    let mut world = world(4);
    world.set_its_clock(secs(HOUR));
    world.pass(5);
    let jobs: Vec<u64> = (0..4).map(|_| world.submit(long(100, 4))).collect();
    world.pass(2);
    assert_eq!(starts(&world), 4, "{}", world.queue());
    let told = "clock of the controller: 4 of 4 nodes say so";
    assert_eq!(events(&world, "clock_wrong").last().unwrap(), told);
    assert_eq!(jobs.len(), 4);
}

/// What a node tells was under way for a while: that is no clock that is behind.
#[test]
fn a_report_that_comes_late_is_no_wrong_clock() {
    let mut world = world(1);
    world.pass(3);
    let told = world.now;
    world.now = world.now + secs(400);
    let figures = Figures {
        clock: Some(told),
        ..Figures::default()
    };
    world.report(0, NodeReport::Figures(figures));
    assert_eq!(nodes(&mut world)[0].state, "idle");
}

/// How a job of 100 s on two nodes ends whose script ends so, as seen by the controller.
fn ended_with(code: i32, after: i64, deadline: bool) -> JobState {
    let mut world = world(2);
    let mut spec = long(100, 4);
    spec.request = whole_nodes(2);
    spec.deadline = deadline.then(|| world.now + secs(100));
    let job = world.submit(spec);
    world.run_times.insert(JobId(job), secs(after));
    let key = AttemptKey {
        job: JobId(job),
        attempt: Attempt(1),
    };
    world.exit_codes.insert(key.into(), code);
    world.deliver_all();
    world.pass(110);
    world.state_of(job)
}

/// A task on another node is ended by that node's clock, and the script that waits for it fails before
/// its own clock says that the time is over.
#[test]
fn a_script_that_fails_when_its_time_is_over_has_timed_out() {
    assert_eq!(ended_with(255, 100, false), JobState::TimedOut);
    assert_eq!(ended_with(255, 100, true), JobState::Deadline);
    assert_eq!(ended_with(255, 99, false), JobState::Failed);
    assert_eq!(ended_with(255, 99, true), JobState::Failed);
    assert_eq!(ended_with(0, 100, false), JobState::Completed);
}

/// Late by 30 s, and nobody waits: the program has the whole of its limit.
#[test]
fn a_late_program_has_its_limit_where_nobody_waits() {
    let mut world = world(1);
    world.late = secs(30);
    let job = world.submit(long(100, 4));
    world.deliver_all();
    world.pass(129);
    assert_eq!(busy(&world), 4);
    assert_eq!(planned_end(&mut world, job), Some(world.now + secs(1)));
    world.pass(2);
    assert_eq!(busy(&world), 0);
    let end = world.store.row(job).end.clone().unwrap();
    assert_eq!(end.end.since(end.start.unwrap()), secs(100));
    assert_eq!(world.limits, []);
}

fn planned_end(world: &mut World, job: u64) -> Option<Time> {
    let table = world.jobs(&[JobField::Id, JobField::LatestEnd]);
    let row = (0..table.rows).find(|n| table.number(*n, JobField::Id) == Some(job as i64))?;
    table.number(row, JobField::LatestEnd).map(Time)
}

/// Late by 30 s, and another job waits for the nodes: it was told when they are free.
#[test]
fn a_late_program_is_over_when_others_were_told() {
    let mut world = world(1);
    world.late = secs(30);
    let job = world.submit(long(100, 4));
    world.deliver_all();
    let begun = world.now;
    world.pass(10);
    let next = world.submit(long(100, 4));
    world.pass(50);
    assert_eq!(planned_end(&mut world, job), Some(begun + secs(100)));
    let key = AttemptKey {
        job: JobId(job),
        attempt: Attempt(1),
    };
    assert_eq!(world.limits, [(key, secs(70))]);
    let row = world.store.row(job).run.clone().unwrap();
    assert_eq!((row.limit, row.cut), (Some(secs(70)), secs(30)));
    world.crash();
    world.connect(0);
    assert_eq!(planned_end(&mut world, job), Some(begun + secs(100)));
    world.pass(41);
    assert!(world.store.row(job).end.is_some());
    let run = world.store.row(next).run.as_ref().unwrap();
    assert_eq!(run.allocated, begun + secs(100));
}

fn book(world: &mut World, nodes: u32, start: Time, length: i64) -> ReservationId {
    let ask = ReservationSpec::plain(whole_nodes(nodes), secs(length), StartChoice::At(start));
    let job = Some(Box::new(Submission {
        spec: spec("mine"),
        script: OsText::default(),
        array: None,
    }));
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job,
    };
    match world.ask_as(user(0, "root"), None, request) {
        Reply::Reserved { reservations, .. } => reservations[0].id,
        other => panic!("{other:?}"),
    }
}

/// When the script of a reservation got its nodes.
fn script_began(world: &World, id: ReservationId) -> Option<Time> {
    let job = world.store.reservations[&id].job?;
    let run = world.store.jobs[&job].run.as_ref()?;
    Some(run.allocated)
}

/// Late, and its nodes are booked from the end of its limit on: the reservation begins to the
/// second.
#[test]
fn a_late_program_leaves_its_nodes_to_a_reservation() {
    let mut world = world(1);
    world.late = secs(30);
    world.overtime = secs(5);
    let job = world.submit(long(100, 4));
    world.deliver_all();
    let start = world.now + secs(107);
    let booked = book(&mut world, 1, start, 60);
    world.pass(106);
    assert_eq!(world.limits.len(), 1, "{:?}", world.limits);
    assert!(world.store.row(job).end.is_some(), "{}", world.queue());
    world.pass(2);
    assert_eq!(script_began(&world, booked), Some(start));
}

/// A clock that is set forward brings a reservation nearer to what runs on its nodes: that is
/// over when it begins.
#[test]
fn a_reservation_that_comes_nearer_gets_its_nodes() {
    let mut world = world(1);
    let job = world.submit(long(1000, 4));
    world.deliver_all();
    let start = world.now + secs(1100);
    let booked = book(&mut world, 1, start, 60);
    world.pass(100);
    world.set_clock(secs(600));
    world.pass(301);
    assert!(world.store.row(job).end.is_some(), "{}", world.queue());
    world.pass(100);
    assert_eq!(script_began(&world, booked), Some(start));
}

/// An allocation in which nothing is launched is ended by the controller itself.
#[test]
fn an_allocation_has_its_time_whatever_the_clock_shows() {
    for by in [-HOUR, 90, HOUR] {
        let mut world = world(1);
        let mut spec = long(100, 4);
        spec.program = Program::Allocation;
        spec.attended = true;
        world.ask(allocates(spec));
        world.deliver_all();
        world.pass(50);
        world.set_clock(secs(by));
        world.pass(49);
        assert_eq!(world.queue(), "1:running", "set by {by}");
        world.pass(2);
        assert_eq!(world.state_of(1), JobState::TimedOut, "set by {by}");
    }
}

/// A turn that is told the same date twice, and one that is earlier by a little, are no steps.
#[test]
fn what_looking_at_two_clocks_costs_is_no_step() {
    let mut world = world(1);
    world.submit(long(100, 4));
    for by in [300, -300, 900, -900] {
        world.set_clock(Span(by));
        world.pass(1);
    }
    assert_eq!(events(&world, "clock_set"), Vec::<String>::new());
}

/// A node whose clock is behind tells a start long before its job had its nodes, one whose
/// clock is ahead a start that is still to come: both are taken for what they can be.
#[test]
fn a_start_lies_between_the_allocation_and_now() {
    for ahead in [-1200, 365 * 86_400] {
        let mut world = World::new(config(1, 4));
        world.run_time = Span::from_secs(1_000_000);
        let job = world.submit(spec("long"));
        world.deliver_all();
        let report = NodeReport::Started {
            key: attempt(job, 1),
            node: "n1".to_owned(),
            at: world.now + Span::from_secs(ahead),
        };
        let now = world.now;
        world.report(0, report);
        world.pass(20);
        assert_eq!(world.queue(), "1:running", "ahead by {ahead} s");
        let run = world.store.row(job).run.as_ref();
        assert_eq!(run.and_then(|run| run.started), Some(now), "{ahead}");
    }
}

/// The clock is set while the controller does not run: jobs, limits and what was promised go on
/// as if it had been set while it did.
#[test]
fn a_clock_that_is_set_while_the_controller_is_stopped_changes_no_length() {
    for by in [-3 * 24 * HOUR, -HOUR, -55, 55, HOUR, 3 * 24 * HOUR] {
        let mut world = world(2);
        let first: Vec<u64> = (0..2).map(|_| world.submit(long(100, 4))).collect();
        world.deliver_all();
        world.pass(40);
        let waits = world.submit(long(100, 4));
        let allocated = world.store.row(first[0]).run.as_ref().unwrap().allocated;
        world.set_clock(secs(by));
        world.crash();
        world.connect_all();
        world.pass(55); // 95 s of 100
        assert_eq!(busy(&world), 8, "set by {by}: {}", world.queue());
        assert_eq!(starts(&world), 2);
        let run = world.store.row(first[0]).run.clone().unwrap();
        assert_eq!(run.allocated, allocated + secs(by), "set by {by}");
        assert_eq!(planned_end(&mut world, first[0]), Some(world.now + secs(5)));
        world.pass(6);
        assert_eq!(world.state_of(first[0]), JobState::Completed);
        assert_eq!(starts(&world), 3, "set by {by}: {}", world.queue());
        assert!(world.state_of(waits) != JobState::Completed);
        let way = if by < 0 { "backward" } else { "forward" };
        let told = format!("clock of the controller: set {way} by {}.000 s", by.abs());
        assert_eq!(events(&world, "clock_set"), [told]);
    }
}

/// The same with one that nobody enforces but the controller, a begin time that stays a date,
/// and a reservation that does.
#[test]
fn dates_stay_and_lengths_stay_while_the_controller_is_stopped() {
    for by in [-HOUR, 90, HOUR] {
        let mut world = world(2);
        let mut held = long(100, 4);
        held.program = Program::Allocation;
        held.attended = true;
        world.ask(allocates(held));
        world.deliver_all();
        let mut later = long(100, 1);
        let begin = world.now + secs(2 * HOUR);
        later.begin = Some(begin);
        let later = world.submit(later);
        world.pass(50);
        world.set_clock(secs(by));
        world.crash();
        world.connect_all();
        world.pass(49);
        assert!(world.queue().starts_with("1:running"), "set by {by}");
        world.pass(2);
        assert_eq!(world.state_of(1), JobState::TimedOut, "set by {by}");
        let left = begin.since(world.now).ms() / 1000;
        world.pass(left - 1);
        assert_eq!(starts(&world), 0, "set by {by}: {}", world.queue());
        world.pass(2);
        assert_eq!(world.starts_of(later), 1, "set by {by}: {}", world.queue());
    }
}

/// The machine of the controller was started again, with another date: nodes say how long what
/// they have has run.
#[test]
fn after_a_restart_of_its_machine_nodes_say_how_long_programs_have_run() {
    for by in [-HOUR, -55, 55, HOUR] {
        let mut world = world(2);
        let job = world.submit(long(1000, 4));
        world.deliver_all();
        world.pass(40);
        world.set_clock(secs(by));
        world.boot = BootId(2);
        world.crash();
        world.connect_all();
        world.pass(10);
        assert_eq!(planned_end(&mut world, job), Some(world.now + secs(950)));
        let run = world.store.row(job).run.clone().unwrap();
        assert_eq!(run.started, Some(world.now - secs(50)), "set by {by}");
        assert_eq!(busy(&world), 4);
        world.crash();
        world.connect_all();
        assert_eq!(planned_end(&mut world, job), Some(world.now + secs(950)));
    }
}

/// What a report takes on its way, and a clock that went right, move nothing.
#[test]
fn after_a_restart_of_its_machine_good_dates_stay() {
    let mut world = world(1);
    let job = world.submit(long(1000, 4));
    world.deliver_all();
    world.pass(40);
    let begun = world.now - secs(40);
    world.boot = BootId(2);
    world.crash();
    // What has run for 40 s is told five seconds late.
    world.now = world.now + secs(5);
    for on in world.nodes[0].known.values_mut() {
        on.began = on.began + secs(5);
    }
    world.connect_all();
    world.pass(2);
    let run = world.store.row(job).run.clone().unwrap();
    assert_eq!((run.allocated, run.started), (begun, Some(begun)));
}

/// Who came first is served first, whatever dates the submissions have.
#[test]
fn a_clock_that_is_set_back_lets_nobody_overtake() {
    for restart in [false, true] {
        let mut world = world(1);
        world.submit(long(100, 4));
        world.deliver_all();
        let first = world.submit(long(100, 4));
        world.pass(5);
        world.set_clock(secs(-HOUR));
        if restart {
            world.crash();
            world.connect_all();
        }
        let second = world.submit(long(100, 4));
        world.pass(5);
        world.set_clock(secs(-HOUR));
        let third = world.submit(long(100, 4));
        if restart {
            world.crash();
            world.connect_all();
        }
        world.pass(300);
        let row = |id: u64| world.store.row(id).clone();
        let allocated = |id: u64| row(id).run.map(|run| run.allocated);
        assert!(allocated(first) < allocated(second), "{restart}");
        assert!(allocated(second) < allocated(third), "{restart}");
        assert!(allocated(third).is_some(), "{}", world.queue());
    }
}

/// What is told of steps is on the controller's clock too, and as long as their node measured.
#[test]
fn a_nodes_clock_moves_no_step() {
    for ahead in [-20 * 60, 20 * 60] {
        let mut world = world(1);
        world.config.policy.clock_skew = Span::UNLIMITED;
        world.event(Event::Reconfigured(Box::new(world.config.clone())));
        world.nodes[0].ahead = secs(ahead);
        let job = world.submit(long(100, 4));
        world.deliver_all();
        world.pass(30);
        let key = attempt(job, 1).job().unwrap();
        let there = |at: Time| at + secs(ahead);
        let begun = world.now - secs(20);
        let end = End {
            start: Some(there(begun)),
            ..End::never_ran(EndCause::Exited, there(begun + secs(15)))
        };
        let record = step::StepRecord {
            step: step::StepId(0),
            name: "s".to_owned(),
            nodes: "n1".to_owned(),
            tasks: 1,
            cores: 1,
            end,
        };
        let report = NodeReport::Steps {
            key,
            node: "n1".to_owned(),
            before: 0,
            records: vec![record],
        };
        world.report(0, report);
        let end = &world.store.steps[&key][0].end;
        assert_eq!(end.start, Some(begun), "{ahead}");
        assert_eq!(end.end, begun + secs(15), "{ahead}");
    }
}
