//! Runs with exact-start reservations: what the COSY paper promises of them, and the same
//! workload through the planner alone, the replay and the controller.

use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sched::notice::{Share, WaitMultiple};
use cosy_sim::cosy::calibration::{calibrate, curve};
use cosy_sim::cosy::case::{Case, ReferenceWait, Weighting};
use cosy_sim::cosy::controller_replay;
use cosy_sim::cosy::needed_multiple::NeededMultiple;
use cosy_sim::cosy::study::{JobTimes, Settings as Study, mean_relative_wait};
use cosy_sim::cosy::trial::{JobOutcome, Notice, Trial};
use cosy_sim::models::cirne::{Arrival, Settings, generate};
use cosy_sim::replay::{Machine, ReplayOptions, replay};
use cosy_sim::workload::{Job, Workload};
use proptest::prelude::*;

const MACHINE: Machine = Machine { nodes: 8, cores: 1 };

fn job(submit: i64, run: i64, limit: i64, processors: u32) -> Job {
    Job {
        submit: Time::from_secs(submit),
        run: Span::from_secs(run),
        limit: Span::from_secs(limit),
        processors,
        ..Job::default()
    }
}

fn workload(seed: u64, cancellations: bool) -> Workload {
    generate(&Settings {
        nodes: 32,
        jobs: 100,
        seed,
        arrival: Arrival::Anl,
        load: 1.0,
        cancellations,
    })
}

fn run(jobs: &[Job], reserved: &[bool], notice: Notice) -> Vec<JobOutcome> {
    let trial = Trial {
        machine: MACHINE,
        policy: Policy::EASY,
        jobs,
    };
    trial.run(reserved, notice)
}

fn check(jobs: &[(i64, i64, i64, u32)], reserved: &[bool], notice: Notice, wanted: &[Option<i64>]) {
    let jobs: Vec<Job> = jobs
        .iter()
        .map(|(s, r, l, n)| job(*s, *r, *l, *n))
        .collect();
    let outcomes = run(&jobs, reserved, notice);
    let started = outcomes
        .iter()
        .map(|outcome| outcome.start().map(Time::secs));
    assert_eq!(started.collect::<Vec<_>>(), wanted, "{jobs:?}");
}

#[test]
fn reservations_hold_queued_jobs_off_their_nodes() {
    let notice = Notice::Fixed(Span::from_secs(100));
    // The second would run into the reservation, the third is out before it.
    let jobs = [
        (0, 50, 50, 8),
        (1, 90, 100, 8),
        (2, 80, 80, 1),
        (3, 5, 40, 8),
    ];
    let reserved = [true, false, false, false];
    check(&jobs, &reserved, notice, &[Some(100), Some(150), Some(2), Some(240)]);
    // A limit counts, not the run time behind it.
    let jobs = [(0, 50, 50, 8), (1, 1, 100, 8), (2, 1, 98, 8)];
    let reserved = [true, false, false];
    check(&jobs, &reserved, notice, &[Some(100), Some(150), Some(2)]);
    // Nodes that it does not want stay in use.
    let jobs = [(0, 50, 50, 4), (1, 500, 500, 4), (2, 500, 500, 4)];
    check(&jobs, &reserved, notice, &[Some(100), Some(1), Some(150)]);
}

#[test]
fn reservations_in_the_way_of_others_are_rejected() {
    let notice = Notice::Fixed(Span::from_secs(100));
    let jobs = [(0, 50, 50, 5), (10, 50, 50, 4), (20, 50, 50, 3)];
    check(&jobs, &[true; 3], notice, &[Some(100), None, Some(120)]);
    // Of running jobs their limits count.
    let jobs = [(0, 20, 120, 8), (10, 50, 50, 1), (30, 50, 50, 1)];
    check(&jobs, &[false, true, true], notice, &[Some(0), None, Some(130)]);
    check(&[(0, 10, 10, 9)], &[true], notice, &[None]);
}

#[test]
fn the_notice_time_follows_the_waits_within_the_window() {
    let hour = Span::from_secs(3600);
    let notice = |thousandths, window| Notice::Window(WaitMultiple(thousandths), window);
    // Waits until 61: 0 and 60; at 400: 0, 60 and 0, or the last alone.
    let jobs = [
        (0, 60, 60, 8),
        (0, 60, 60, 8),
        (61, 1, 1, 8),
        (300, 9, 9, 8),
        (400, 9, 9, 8),
    ];
    let reserved = [false, false, true, false, true];
    let began = [Some(0), Some(60), Some(151), Some(300)];
    let until = |last| began.into_iter().chain([Some(last)]).collect::<Vec<_>>();
    check(&jobs, &reserved, notice(3000, hour), &until(460));
    check(&jobs, &reserved, notice(3000, Span::from_secs(100)), &until(400));
}

#[test]
fn without_reservations_a_run_is_a_replay() {
    for (seed, cancellations) in [(1, false), (2, false), (3, true), (4, true)] {
        let workload = workload(seed, cancellations);
        let machine = Machine {
            nodes: 32,
            cores: 1,
        };
        for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE] {
            let jobs = workload.jobs.clone();
            let case = Case::new(machine, policy, jobs, ReferenceWait::Baseline, seed);
            let replay = replay(machine, policy, &workload, ReplayOptions::default());
            let starts = |at: usize| replay.job_runs[at].map(|ran| ran.start);
            for (at, outcome) in case.outcomes.iter().enumerate() {
                assert_eq!(outcome.start(), starts(at), "seed {seed}, job {at}");
            }
        }
    }
}

#[test]
fn the_controller_starts_the_same_jobs_at_the_same_time() {
    for (nodes, cores) in [(32, 1), (8, 4)] {
        let machine = Machine { nodes, cores };
        for seed in 0..5 {
            let jobs = workload(seed, false).jobs;
            for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE] {
                let case = Case::new(machine, policy, jobs.clone(), ReferenceWait::Baseline, seed);
                let planner: Vec<_> = case
                    .outcomes
                    .iter()
                    .map(|outcome| outcome.start())
                    .collect();
                let controller = controller_replay::starts(machine, policy, &jobs);
                assert_eq!(controller, planner, "{machine}, seed {seed}, {policy:?}");
            }
        }
    }
}

#[test]
fn larger_shares_have_the_reservations_of_smaller_ones() {
    let machine = Machine {
        nodes: 32,
        cores: 1,
    };
    let jobs = workload(5, false).jobs;
    let case = Case::new(machine, Policy::EASY, jobs, ReferenceWait::Baseline, 5);
    let mut before = case.reserved(Share(0));
    assert_eq!(before, [false; 100]);
    for percent in [5, 10, 15, 20, 100] {
        let reserved = case.reserved(Share::percent(percent));
        let count = reserved.iter().filter(|reserved| **reserved).count();
        assert_eq!(count, percent as usize);
        assert!(before.iter().zip(&reserved).all(|(was, is)| is >= was));
        before = reserved;
    }
}

#[test]
fn a_settled_notice_time_is_a_multiple_of_the_wait_that_comes_out() {
    let machine = Machine {
        nodes: 32,
        cores: 1,
    };
    let mut close = 0;
    for seed in 0..20 {
        let jobs = workload(seed, false).jobs;
        let case = Case::new(machine, Policy::EASY, jobs, ReferenceWait::Settled, seed);
        let outcome = case.run(Share::percent(10), WaitMultiple(2000));
        let n = outcome.figures.measured_multiple().unwrap_or(0.0);
        close += usize::from((n - 2.0).abs() <= 0.021);
    }
    // Not every workload has such a point.
    assert!(close >= 15, "{close} of 20");
}

#[test]
fn reservations_after_everything_else_are_as_if_they_were_not_there() {
    let machine = Machine {
        nodes: 32,
        cores: 1,
    };
    for seed in 0..10 {
        let jobs = workload(seed, false).jobs;
        let case = Case::new(machine, Policy::EASY, jobs, ReferenceWait::Baseline, seed);
        let share = Share::percent(10);
        let never = case.run(share, WaitMultiple(1_000_000)).relative_wait;
        assert!(never.is_some());
        assert_eq!(case.left_out(share), never, "seed {seed}");
    }
}

#[test]
fn calibration_finds_where_the_queue_waits_no_longer() {
    let cases = Study {
        nodes: 32,
        jobs: 100,
        seeds: 20,
        first_seed: 1,
        load: 0.5,
        job_times: JobTimes::Requested,
        policy: Policy::FCFS,
        wait: ReferenceWait::Baseline,
    }
    .cases();
    let mut told = 0;
    let rows = calibrate(&cases, Weighting::PerJob, |_| {
        told += 1;
        Ok::<(), ()>(())
    });
    let rows = rows.unwrap();
    assert_eq!(told, rows.len());
    for row in &rows {
        let wait = |n| mean_relative_wait(&cases, row.point.share, n, Weighting::PerJob);
        assert!(matches!(row.found, NeededMultiple::At(_)), "{:?}", row.found);
        assert!(wait(WaitMultiple::ONE) > 1.0 && wait(row.found.multiple()) <= 1.0);
        assert_eq!(wait(row.found.multiple()), row.point.relative_wait.mean);
    }
    let curve = curve(&rows).expect("shares rise");
    assert!(curve.at(Share::percent(20)) >= curve.at(Share::percent(5)));
    assert_eq!(curve.at(Share(2001)), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn reservations_start_on_time_and_nothing_is_overbooked(
        jobs in prop::collection::vec((0i64..200, 1i64..50, 0i64..50, 1u32..=9, any::<bool>()), 1..40),
        notice_secs in 0i64..200,
    ) {
        let mut jobs = jobs;
        jobs.sort_by_key(|(submit, ..)| *submit);
        let reserved: Vec<bool> = jobs.iter().map(|job| job.4).collect();
        let jobs: Vec<Job> = jobs.iter().map(|(s, r, more, n, _)| job(*s, *r, r + more, *n)).collect();
        let notice = Span::from_secs(notice_secs);
        let outcomes = run(&jobs, &reserved, Notice::Fixed(notice));
        let mut changes = Vec::new();
        for ((job, outcome), reserved) in jobs.iter().zip(&outcomes).zip(&reserved) {
            let may = match outcome {
                JobOutcome::Started(start) if *reserved => *start == job.submit + notice,
                JobOutcome::Started(start) => *start >= job.submit,
                JobOutcome::Rejected => *reserved,
                JobOutcome::TooLarge => job.processors > MACHINE.nodes,
                JobOutcome::Cancelled => false,
            };
            prop_assert!(may, "{job:?} {outcome:?}");
            if let Some(start) = outcome.start() {
                // Ends come before starts.
                changes.push((start, i64::from(job.processors)));
                changes.push((start + job.run, -i64::from(job.processors)));
            }
        }
        changes.sort_unstable();
        let mut used = 0;
        for (_, change) in changes {
            used += change;
            prop_assert!(used <= i64::from(MACHINE.nodes));
        }
    }
}
