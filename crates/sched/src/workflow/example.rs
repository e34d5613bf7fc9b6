//! The paper's worked example (3.5), number for number.

use super::recursive::{Rounds, share_out};
use super::*;

const M0: usize = 0;
const M1: usize = 1;
const M2: usize = 2;

fn machines() -> Machines {
    // Fig. 5(c), in microseconds for a unit.
    let unit = |ms: i64| ms * 100_000;
    let rows = vec![
        vec![0, unit(9), unit(14)],
        vec![unit(9), 0, unit(10)],
        vec![unit(14), unit(10), 0],
    ];
    Machines::new(rows, vec![Vec::new(); 3]).unwrap()
}

fn dag() -> Dag {
    // Fig. 5(b); a unit of time is a second.
    let estimates = [
        [17, 19, 21],
        [22, 27, 23],
        [15, 15, 9],
        [4, 8, 9],
        [17, 14, 20],
        [30, 27, 18],
        [17, 16, 15],
        [49, 49, 46],
        [25, 22, 16],
        [23, 27, 19],
    ];
    let row = |row: &[i64; 3]| row.iter().map(|s| Some(s * 1000)).collect();
    // The figure with the data is lost; these volumes give all its numbers. Edges within
    // one machine have any.
    let edges = [
        (0, 1, 14),
        (0, 4, 13),
        (5, 8, 17),
        (6, 9, 26),
        (8, 9, 19),
        (0, 5, 10),
        (4, 2, 10),
        (5, 3, 10),
        (3, 6, 10),
        (2, 8, 10),
        (1, 7, 10),
        (7, 9, 10),
        (4, 7, 1),
    ];
    let edges: Vec<_> = edges.iter().map(|(a, b, d)| (*a, *b, *d)).collect();
    Dag::new(estimates.iter().map(row).collect(), &edges, &machines()).unwrap()
}

/// Fig. 5(e): from the machines and the order on each alone.
fn initial() -> Schedule {
    let lines: [&[usize]; 3] = [&[0, 5, 3, 6], &[4, 2, 8], &[1, 7, 9]];
    let mut slots = vec![Slot::default(); 10];
    for (machine, line) in lines.iter().enumerate() {
        for (place, task) in line.iter().enumerate() {
            // Only the order counts: it is made anew from the lengths.
            let start_ms = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9][rank_of(*task)] * 1000 + place as i64;
            slots[*task] = Slot {
                machine,
                start_ms,
                end_ms: start_ms + dag().estimate_ms(*task, machine),
            };
        }
    }
    let schedule = Schedule::new(&dag(), slots);
    let lengths: Vec<i64> = schedule.slots().iter().map(Slot::length_ms).collect();
    schedule.with_lengths(&dag(), &machines(), &lengths)
}

/// A place in the graph's order.
fn rank_of(task: usize) -> usize {
    dag().order().iter().position(|t| *t == task).unwrap()
}

/// Start and end of each slot in hundredths of a second, cut off as in the paper.
fn hundredths(schedule: &Schedule) -> Vec<(i64, i64)> {
    let cut = |ms: i64| ms / 10;
    schedule
        .slots()
        .iter()
        .map(|s| (cut(s.start_ms), cut(s.end_ms)))
        .collect()
}

#[test]
fn figure_5e_the_initial_schedule() {
    let want = [
        (0, 1700),
        (3660, 5960),
        (4270, 5770),
        (4700, 5100),
        (2870, 4270),
        (1700, 4700),
        (5100, 6800),
        (5960, 10560),
        (6230, 8430),
        (10560, 12460),
    ];
    let schedule = initial();
    assert_eq!(hundredths(&schedule), want);
    let on = [M0, M2, M1, M0, M1, M0, M0, M2, M1, M2];
    let machines: Vec<usize> = schedule.slots().iter().map(|s| s.machine).collect();
    assert_eq!(machines, on);
}

/// HBMCT itself makes the schedule of Fig. 5(d), which the paper has from it, once the lost
/// volumes of edges within a machine are chosen well; about one choice of five does.
#[test]
fn figure_5d_by_hbmct() {
    let known = [(0, 1, 14), (0, 4, 13), (5, 8, 17), (6, 9, 26), (8, 9, 19)];
    let chosen = [
        (0, 5, 27),
        (4, 2, 14),
        (5, 3, 5),
        (3, 6, 21),
        (2, 8, 6),
        (1, 7, 24),
        (7, 9, 8),
        (4, 7, 5),
    ];
    let edges: Vec<_> = known.into_iter().chain(chosen).collect();
    let example = dag();
    let rows = example.tasks().iter().map(|task| task.estimates_ms.clone());
    let dag = Dag::new(rows.collect(), &edges, &machines()).unwrap();
    let schedule = schedule(FlowScheduler::Hbmct, &dag, &machines());
    assert_eq!(schedule.slots(), initial().slots());
}

#[test]
fn spare_times_of_the_initial_schedule() {
    let schedule = initial();
    let spare: Vec<i64> = (0..10)
        .map(|task| schedule.spare_ms(&dag(), &machines(), task))
        .collect();
    assert_eq!(spare, [0, 0, 4600, 0, 0, 0, 1200, 0, 2300, 0]);
}

#[test]
fn figure_6_recursive_rounds() {
    let rounds = |most| {
        let rounds = Rounds {
            deadline_ms: 200_000,
            threshold_ms: 0,
            most,
        };
        share_out(FlowSlackPolicy::REvenTime, &dag(), &machines(), &initial(), rounds)
    };
    let left = |most| 200_000 - rounds(most).end_ms();
    assert_eq!([0, 1, 2].map(left), [75_400, 40_100, 20_050]);
    // 10.025, which the paper rounds up.
    assert_eq!(left(3), 10_025);
    let want = [
        (0, 2454),
        (4414, 7468),
        (5778, 7572),
        (6208, 7362),
        (3624, 5778),
        (2454, 6208),
        (7362, 9696),
        (7468, 12822),
        (7738, 10462),
        (13336, 15990),
    ];
    assert_eq!(hundredths(&rounds(1)), want);
}

/// In the first round the critical path gets what it would with all others beside it, and
/// the others nothing; later all get something.
#[test]
fn the_critical_path_in_the_first_round() {
    let growth = |policy, most| {
        let rounds = Rounds {
            deadline_ms: 200_000,
            threshold_ms: 10_000,
            most,
        };
        let first = initial();
        let plan = share_out(policy, &dag(), &machines(), &first, rounds);
        let pairs = plan.slots().iter().zip(first.slots());
        let grown = pairs.map(|(plan, first)| plan.length_ms() - first.length_ms());
        grown.collect::<Vec<i64>>()
    };
    let all = growth(FlowSlackPolicy::REvenPercent1, 1);
    let critical = growth(FlowSlackPolicy::RCpFirst, 1);
    for task in 0..10 {
        let want = if [0, 1, 7, 9].contains(&task) {
            all[task]
        } else {
            0
        };
        assert_eq!(critical[task], want, "{task}");
    }
    assert!(
        growth(FlowSlackPolicy::RCpFirst, 1000)
            .iter()
            .all(|ms| *ms > 0)
    );
}

#[test]
fn figure_7_the_critical_path_first() {
    let (dag, machines) = (dag(), machines());
    assert_eq!(critical_path(&dag, &machines, &initial()), [0, 1, 7, 9]);
    let paths =
        critical::Paths::new(FlowSlackPolicy::CpEvenTime, &dag, &machines, &initial(), 75_400);
    let given: Vec<i64> = (0..10).map(|task| paths.spare_ms(task)).collect();
    let (cp, other) = (18_850, 12_566);
    let want = [cp, cp, other, other, other, other, other, cp, other, cp];
    assert_eq!(given, want);
    let policy = FlowSlackPolicy::CpEvenTime;
    let schedule = super::share_out(policy, &dag, &machines, &initial(), 200_000, 0);
    assert_eq!(schedule.end_ms(), 200_000);
    let got = hundredths(&schedule);
    let printed = [
        (0, 3585),
        (5545, 9730),
        (7411, 10167),
        (7841, 9497),
        (4755, 7411),
        (3585, 7841),
        (9497, 12453),
        (9730, 16215),
        (10167, 13623),
        (16215, 20000),
    ];
    // The paper adds up shares cut to 12.56; here they are 12.566: up to 0.02 more.
    for (task, (got, want)) in got.iter().zip(printed).enumerate() {
        let near = |a: i64, b: i64| (b..=b + 2).contains(&a);
        assert!(near(got.0, want.0) && near(got.1, want.1), "{task}: {got:?} {want:?}");
    }
}
