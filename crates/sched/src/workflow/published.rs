//! The graph with which Topcuoglu, Hariri and Wu (IEEE TPDS 13(3), 2002, Fig. 2 to 4)
//! compare schedulers: HEFT needs 80 and DLS 91 units of time.

use super::*;

/// A unit of time is a second, and so is what a unit of data takes between machines.
fn case() -> (Dag, Machines) {
    let unit = |a: usize, b: usize| i64::from(a != b) * 1_000_000;
    let units = (0..3).map(|a| (0..3).map(|b| unit(a, b)).collect());
    let machines = Machines::new(units.collect(), vec![Vec::new(); 3]).unwrap();
    let estimates = [
        [14, 16, 9],
        [13, 19, 18],
        [11, 13, 19],
        [13, 8, 17],
        [12, 13, 10],
        [13, 16, 9],
        [7, 15, 11],
        [5, 11, 14],
        [18, 12, 20],
        [21, 7, 16],
    ];
    let row = |row: &[i64; 3]| row.iter().map(|s| Some(s * 1000)).collect();
    let edges = [
        (0, 1, 18),
        (0, 2, 12),
        (0, 3, 9),
        (0, 4, 11),
        (0, 5, 14),
        (1, 7, 19),
        (1, 8, 16),
        (2, 6, 23),
        (3, 7, 27),
        (3, 8, 23),
        (4, 8, 13),
        (5, 7, 15),
        (6, 9, 17),
        (7, 9, 11),
        (8, 9, 13),
    ];
    let dag = Dag::new(estimates.iter().map(row).collect(), &edges, &machines).unwrap();
    (dag, machines)
}

/// Table 1 of that paper, rounded as there.
#[test]
fn upward_ranks() {
    let (dag, machines) = case();
    let ranks = rank::upward(&dag, &machines);
    let want = [
        108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667,
    ];
    let exit = ranks[9] as f64 / 14.667;
    for (rank, want) in ranks.iter().zip(want) {
        let rank = *rank as f64 / exit;
        assert!((rank - want).abs() < 0.01, "{rank} {want}");
    }
}

#[test]
fn lengths_of_schedules() {
    let (dag, machines) = case();
    let length = |scheduler: FlowScheduler| schedule(scheduler, &dag, &machines).end_ms() / 1000;
    assert_eq!(length(FlowScheduler::Heft), 80);
    assert_eq!(length(FlowScheduler::Dls), 91);
}

/// HEFT's places in Fig. 3(a): task, machine, start and end.
#[test]
fn heft_slots() {
    let (dag, machines) = case();
    let schedule = schedule(FlowScheduler::Heft, &dag, &machines);
    let slot = |s: &Slot| (s.machine, s.start_ms / 1000, s.end_ms / 1000);
    let got: Vec<_> = schedule.slots().iter().map(slot).collect();
    let want = [
        (2, 0, 9),
        (0, 27, 40),
        (2, 9, 28),
        (1, 18, 26),
        (2, 28, 38),
        (1, 26, 42),
        (2, 38, 49),
        (0, 57, 62),
        (1, 56, 68),
        (1, 73, 80),
    ];
    assert_eq!(got, want);
}

/// Tasks that wait for nothing, with rising estimates, between one task and another.
fn wide(tasks: usize, machines: &Machines) -> Dag {
    let row = |task: usize| vec![Some(1000 * (task as i64 + 1)); machines.count()];
    let edges = (1..=tasks).flat_map(|t| [(0, t, 0), (t, tasks + 1, 0)]);
    let edges: Vec<_> = edges.collect();
    Dag::new((0..tasks + 2).map(row).collect(), &edges, machines).unwrap()
}

/// FCP sorts as many ready tasks as there are machines; others wait in the order in which
/// they became ready. With all of them sorted the longest, 8, would be the first.
#[test]
fn fcp_sorts_few() {
    let machines = Machines::new(vec![vec![0; 2]; 2], vec![Vec::new(); 2]).unwrap();
    let schedule = schedule(FlowScheduler::Fcp, &wide(8, &machines), &machines);
    let mut tasks: Vec<usize> = (1..=8).collect();
    tasks.sort_by_key(|t| (schedule.slots()[*t].start_ms, *t));
    assert_eq!(tasks, [2, 3, 4, 5, 6, 7, 8, 1]);
}

/// A machine that others hold is not the one that is idle first.
#[test]
fn fcp_knows_what_is_taken() {
    let busy = vec![vec![(0, 1_000_000)], Vec::new()];
    let machines = Machines::new(vec![vec![0; 2]; 2], busy).unwrap();
    let dag = wide(4, &machines);
    let schedule = schedule(FlowScheduler::Fcp, &dag, &machines);
    assert_eq!(schedule.end_ms(), 21_000);
}
