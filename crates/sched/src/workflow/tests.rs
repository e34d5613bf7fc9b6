//! Laws of all schedulers and policies on random graphs.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    dag: Dag,
    machines: Machines,
}

/// Edges go from lower to higher numbers; then tasks are renamed.
fn case(tasks: usize) -> impl Strategy<Value = Case> {
    let machines = 1..5usize;
    (1..tasks, machines).prop_flat_map(|(tasks, machines)| {
        let estimate = prop_oneof![1 => Just(None), 9 => (0..100_000i64).prop_map(Some)];
        let row = prop::collection::vec(estimate, machines);
        let edges = prop::collection::vec((0..tasks, 0..tasks, 0..50i64), 0..2 * tasks);
        let units =
            prop::collection::vec(prop::collection::vec(0..2_000_000i64, machines), machines);
        let busy = prop::collection::vec((0..300_000i64, 1..100_000i64), 0..3);
        let busy = prop::collection::vec(busy, machines);
        (prop::collection::vec(row, tasks), edges, units, busy).prop_map(build)
    })
}

type Parts = (Vec<Vec<Option<i64>>>, Vec<(usize, usize, i64)>, Vec<Vec<i64>>, Vec<Vec<(i64, i64)>>);

fn build((mut rows, edges, units, busy): Parts) -> Case {
    for row in &mut rows {
        if row.iter().all(Option::is_none) {
            row[0] = Some(1000);
        }
    }
    let busy = busy
        .into_iter()
        .map(|b| b.into_iter().map(|(at, ms)| (at, at + ms)).collect());
    let machines = Machines::new(units, busy.collect()).unwrap();
    let count = rows.len();
    let name = |n: usize| (n * 7 + 3) % count;
    // Only a renaming when 7 and the count have no common divisor.
    let name = |n: usize| if count % 7 == 0 { n } else { name(n) };
    let edges: Vec<_> = edges
        .into_iter()
        .filter(|(a, b, _)| a != b)
        .map(|(a, b, data)| (name(a.min(b)), name(a.max(b)), data))
        .collect();
    let dag = Dag::new(rows, &edges, &machines).unwrap();
    Case { dag, machines }
}

/// Every slot is long enough, where the task can run, behind its data, and alone.
fn is_sound(case: &Case, schedule: &Schedule) {
    let (dag, machines) = (&case.dag, &case.machines);
    for (task, slot) in schedule.slots().iter().enumerate() {
        let estimate = dag.tasks()[task].estimates_ms[slot.machine];
        assert!(estimate.is_some_and(|ms| ms <= slot.length_ms()), "{task}: {slot:?}");
        assert!(slot.start_ms >= 0);
        for edge in &dag.tasks()[task].parents {
            let from = &schedule.slots()[edge.task];
            let carried = machines.transfer_ms(edge.data, from.machine, slot.machine);
            assert!(from.end_ms + carried <= slot.start_ms, "{} to {task}", edge.task);
        }
        let overlaps = |from: i64, to: i64| slot.start_ms < to && from < slot.end_ms;
        let busy = machines.busy_ms(slot.machine);
        assert!(slot.length_ms() == 0 || !busy.iter().any(|b| overlaps(b.0, b.1)), "{task}");
        for (other, o) in schedule.slots().iter().enumerate().skip(task + 1) {
            let apart = o.machine != slot.machine || !overlaps(o.start_ms, o.end_ms);
            assert!(apart || o.length_ms() == 0 || slot.length_ms() == 0, "{task} {other}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schedules_are_sound(case in case(25)) {
        for scheduler in FlowScheduler::ALL {
            is_sound(&case, &schedule(scheduler, &case.dag, &case.machines));
        }
    }

    #[test]
    fn slots_grow_within_the_deadline(case in case(20), slack in 0..500_000i64) {
        let first = schedule(FlowScheduler::Heft, &case.dag, &case.machines);
        let deadline = first.end_ms() + slack;
        for policy in FlowSlackPolicy::ALL {
            let plan = share_out(policy, &case.dag, &case.machines, &first, deadline, deadline / 20);
            is_sound(&case, &plan);
            prop_assert!(plan.end_ms() <= deadline, "{policy:?}: {} > {deadline}", plan.end_ms());
            for (task, (a, b)) in first.slots().iter().zip(plan.slots()).enumerate() {
                prop_assert!(a.machine == b.machine && a.length_ms() <= b.length_ms(), "{task}");
            }
        }
    }

    #[test]
    fn paths_need_not_be_listed(case in case(12), left in 1..500_000i64) {
        let first = schedule(FlowScheduler::Heft, &case.dag, &case.machines);
        for policy in [FlowSlackPolicy::CpEvenTime, FlowSlackPolicy::CpEvenPercent] {
            let paths = critical::Paths::new(policy, &case.dag, &case.machines, &first, left);
            for task in 0..case.dag.count() {
                prop_assert_eq!(paths.spare_ms(task), paths.spare_by_enumeration(task), "{}", task);
            }
            for (task, near) in paths.closed_in_on().into_iter().enumerate() {
                let exact = paths.spare_ms(task);
                prop_assert!(near <= exact && near >= exact - exact / 127 - 1, "{}: {} {}", task, near, exact);
            }
        }
    }
}

#[test]
fn what_is_no_graph() {
    let machines = Machines::new(vec![vec![0]], vec![Vec::new()]).unwrap();
    let check = |rows: &[Option<i64>], edges: &[(usize, usize, i64)], want: DagError| {
        let rows = rows.iter().map(|ms| vec![*ms]).collect();
        assert_eq!(Dag::new(rows, edges, &machines), Err(want));
    };
    let one = Some(1);
    check(&[], &[], DagError::Empty);
    check(&[one, Some(-1)], &[], DagError::Estimate(1));
    check(&[None], &[], DagError::Nowhere(0));
    check(&[one], &[(0, 0, 1)], DagError::Edge(0, 0));
    check(&[one, one], &[(0, 2, 1)], DagError::Edge(0, 2));
    check(&[one, one], &[(0, 1, -1)], DagError::Edge(0, 1));
    let cycle = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 1, 1)];
    check(&[one; 5], &cycle, DagError::Cycle(vec![2, 3, 1]));
    assert!(Machines::new(vec![vec![0, 1]], vec![Vec::new()]).is_none());
}
