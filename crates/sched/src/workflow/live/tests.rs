//! Plans on live machines: sound on any, and the paper's on the paper's.

use super::*;
use crate::workflow::{Dag, Machines, schedule, share_out};
use crate::{Block, Policy};
use cosy_model::{Amounts, JobId, MiB, NodeId};
use proptest::prelude::*;

const CORES: u32 = 4;

fn node(cores: u32) -> Amounts {
    Amounts {
        cores,
        memory: MiB(u64::from(cores) * 1000),
        ..Amounts::default()
    }
}

fn machine(nodes: usize) -> Scheduler {
    Scheduler::new(Policy::EASY, vec![node(CORES); nodes], vec![NodeMask::all(nodes)])
}

/// `tasks` tasks of one core on `nodes` nodes, or on as few as it takes.
fn demand(all: usize, nodes: Option<u32>, tasks: u32, exclusive: bool) -> Arc<Component> {
    Arc::new(Component {
        nodes,
        tasks,
        per_task: node(1),
        exclusive,
        allowed: NodeMask::all(all).into(),
        ..Component::default()
    })
}

fn mask(nodes: impl IntoIterator<Item = usize>) -> NodeMask {
    nodes.into_iter().map(|node| NodeId(node as u32)).collect()
}

fn task(demand: &Arc<Component>, estimates: &[i64]) -> LiveTask {
    LiveTask {
        demand: demand.clone(),
        holds: Holds::NONE,
        estimates: estimates.iter().map(|ms| Span(*ms)).collect(),
        tariff: 0,
        fixed: None,
    }
}

fn flow(sets: Vec<NodeMask>, tasks: Vec<LiveTask>, edges: &[(usize, usize, u64)]) -> LiveFlow {
    let count = sets.len();
    let edge = |(from, to, mib): &(usize, usize, u64)| LiveEdge {
        from: *from,
        to: *to,
        data_bytes: mib << 20,
    };
    LiveFlow {
        tasks,
        edges: edges.iter().map(edge).collect(),
        sets,
        mib_us: vec![vec![0; count]; count],
        earliest: Time(0),
        deadline: FlowDeadline::Slack(500),
        scheduler: FlowScheduler::Heft,
        policy: FlowSlackPolicy::REvenTime,
        threshold_permille: 50,
        margin: Span::ZERO,
        replaces: Vec::new(),
        pricing: None,
    }
}

// --- the paper's model

#[derive(Clone, Debug)]
struct Paper {
    rows: Vec<Vec<i64>>,
    edges: Vec<(usize, usize, u64)>,
    units: Vec<Vec<u64>>,
    permille: u32,
}

fn paper() -> impl Strategy<Value = Paper> {
    (1..5usize, 1..20usize).prop_flat_map(|(machines, tasks)| {
        let row = prop::collection::vec(1..100_000i64, machines);
        let unit = (0..2000u64).prop_map(|ms| ms * 1000);
        let units = prop::collection::vec(prop::collection::vec(unit, machines), machines);
        let edge = (0..tasks, 0..tasks, 0..50u64);
        (
            prop::collection::vec(row, tasks),
            prop::collection::vec(edge, 0..2 * tasks),
            units,
            0..2000u32,
        )
            .prop_map(|(rows, edges, units, permille)| Paper {
                rows,
                edges: forwards(&edges),
                units,
                permille,
            })
    })
}

fn forwards(edges: &[(usize, usize, u64)]) -> Vec<(usize, usize, u64)> {
    let apart = edges.iter().filter(|(a, b, _)| a != b);
    let forward = apart.map(|(a, b, data)| (*a.min(b), *a.max(b), *data));
    forward.collect()
}

/// Sets of one node that takes one task at a time give the plan on as many machines.
fn same_as_on_machines(case: &Paper, scheduler: FlowScheduler, policy: FlowSlackPolicy) {
    let count = case.units.len();
    let unit = |us: &u64| i64::try_from(*us).unwrap();
    let row = |row: &Vec<u64>| row.iter().map(unit).collect();
    let units = case.units.iter().map(row).collect();
    let machines = Machines::new(units, vec![Vec::new(); count]).unwrap();
    let rows = case.rows.iter().map(|row| row.iter().map(|ms| Some(*ms)));
    let rows = rows.map(Iterator::collect).collect();
    let edges = case.edges.iter().map(|(a, b, data)| (*a, *b, *data as i64));
    let dag = Dag::new(rows, &edges.collect::<Vec<_>>(), &machines).unwrap();
    let first = schedule(scheduler, &dag, &machines);
    let part = |permille: u32| first.end_ms() * i64::from(permille) / 1000;
    let deadline = first.end_ms() + part(case.permille);
    let want = share_out(policy, &dag, &machines, &first, deadline, part(50));

    let whole = demand(count, Some(1), 1, true);
    let live = LiveFlow {
        mib_us: case.units.clone(),
        deadline: FlowDeadline::Slack(case.permille),
        scheduler,
        policy,
        ..flow(
            (0..count).map(|at| mask([at])).collect(),
            case.rows.iter().map(|row| task(&whole, row)).collect(),
            &case.edges,
        )
    };
    let got = machine(count).plan_flow(Time(0), &live).unwrap();
    assert_eq!(got.shortest_end, Time(first.end_ms()), "{scheduler} {policy}");
    let got: Vec<_> = got
        .slots
        .iter()
        .map(|s| (s.set, s.start.0, s.end.0))
        .collect();
    let want: Vec<_> = want
        .slots()
        .iter()
        .map(|s| (s.machine, s.start_ms, s.end_ms))
        .collect();
    assert_eq!(got, want, "{scheduler} {policy}");
}

// --- any machine

#[derive(Clone, Debug)]
struct Case {
    nodes: usize,
    /// Sets begin at these nodes.
    cuts: Vec<usize>,
    running: Vec<(usize, i64, u32)>,
    blocks: Vec<(usize, i64, i64, u32)>,
    down: Vec<usize>,
    tasks: Vec<(u32, u32, bool, Vec<i64>)>,
    edges: Vec<(usize, usize, u64)>,
    unit: u64,
    permille: u32,
    margin: i64,
}

fn case() -> impl Strategy<Value = Case> {
    (1..7usize, 1..15usize).prop_flat_map(|(nodes, tasks)| {
        let task = (0..3u32, 1..9u32, any::<bool>(), prop::collection::vec(1..50_000i64, 3));
        (
            prop::collection::vec(0..nodes, 2),
            prop::collection::vec((0..nodes, 1..90_000i64, 1..=CORES), 0..4),
            prop::collection::vec((0..nodes, 0..200_000i64, 1..50_000i64, 1..=CORES), 0..6),
            prop::collection::vec(0..nodes, 0..2),
            prop::collection::vec(task, tasks),
            prop::collection::vec((0..tasks, 0..tasks, 0..20u64), 0..2 * tasks),
            (0..300_000u64, 0..3000u32, 0..5000i64),
        )
            .prop_map(move |(cuts, running, blocks, down, tasks, edges, more)| Case {
                nodes,
                cuts,
                running,
                blocks,
                down,
                tasks,
                edges: forwards(&edges),
                unit: more.0,
                permille: more.1,
                margin: more.2,
            })
    })
}

impl Case {
    /// Never more than the nodes have: what does not fit is left out.
    fn machine(&self) -> Scheduler {
        let mut machine = machine(self.nodes);
        let share = |node: usize, cores: u32| NodeShare {
            component: 0,
            node: NodeId(node as u32),
            tasks: cores,
            amounts: super::tests::node(cores),
        };
        for (at, (node, end, cores)) in self.running.iter().enumerate() {
            let shares = vec![share(*node, *cores)];
            if machine.are_free(Time(0), &shares, Time(0), Span(*end)) {
                let whole = *cores == CORES;
                machine.start_running(JobId(at as u64 + 1), shares, Time(*end), whole);
            }
        }
        for (at, (node, start, length, cores)) in self.blocks.iter().enumerate() {
            let shares = vec![share(*node, *cores)];
            if machine.are_free(Time(0), &shares, Time(*start), Span(*length)) {
                machine.add_block(Block {
                    holds: Vec::new(),
                    reservation: ReservationId(at as u64 + 1),
                    shares,
                    start: Time(*start),
                    end: Time(start + length),
                });
            }
        }
        for node in &self.down {
            machine.set_available(NodeId(*node as u32), false);
        }
        machine
    }

    fn flow(&self, scheduler: FlowScheduler, policy: FlowSlackPolicy) -> LiveFlow {
        let mut bounds = self.cuts.clone();
        bounds.sort_unstable();
        bounds.push(self.nodes);
        let mut from = 0;
        let sets = bounds.into_iter().map(|to| {
            let set = mask(from..to.max(from));
            from = to.max(from);
            set
        });
        let tasks = self
            .tasks
            .iter()
            .map(|(nodes, tasks, exclusive, estimates)| {
                let fixed = (*nodes > 0).then_some((*nodes).min(*tasks));
                task(&demand(self.nodes, fixed, *tasks, *exclusive), estimates)
            });
        let unit = |from: usize, to: usize| if from == to { 0 } else { self.unit };
        LiveFlow {
            mib_us: (0..3)
                .map(|a| (0..3).map(|b| unit(a, b)).collect())
                .collect(),
            deadline: FlowDeadline::Slack(self.permille),
            scheduler,
            policy,
            margin: Span(self.margin),
            ..flow(sets.collect(), tasks.collect(), &self.edges)
        }
    }
}

/// Nothing is booked twice, parents come first, the deadline is kept.
fn is_sound(machine: &Scheduler, flow: &LiveFlow, plan: &LivePlan) {
    let mut booked = machine.clone();
    for (at, slot) in plan.slots.iter().enumerate() {
        let length = slot.end.since(slot.start);
        let least = Span(flow.length_ms(at, slot.set));
        assert!(length >= least && slot.spare >= Span::ZERO, "{at}: {slot:?}");
        assert_eq!(slot.estimate, flow.tasks[at].estimates[slot.set]);
        let inside = |share: &NodeShare| flow.sets[slot.set].contains(share.node);
        assert!(slot.shares.iter().all(inside), "{at}: {slot:?}");
        let tasks: u32 = slot.shares.iter().map(|share| share.tasks).sum();
        assert_eq!(tasks, flow.tasks[at].demand.tasks, "{at}");
        assert!(slot.start >= flow.earliest && slot.end <= plan.deadline, "{at}");
        assert!(booked.are_free(Time(0), &slot.shares, slot.start, length), "{at}: {slot:?}");
        booked.add_block(Block {
            holds: Vec::new(),
            reservation: ReservationId(1000 + at as u64),
            shares: slot.shares.clone(),
            start: slot.start,
            end: slot.end,
        });
    }
    for edge in &flow.edges {
        let (from, to) = (&plan.slots[edge.from], &plan.slots[edge.to]);
        let mib = (edge.data_bytes >> 20) as i64;
        let carried = flow.carry_ms(mib, from.set, to.set);
        assert!(from.end + Span(carried) <= to.start, "{edge:?}");
    }
}

/// A deadline at the shortest end works, one before it is refused with it.
fn earliest_deadline_works(machine: &Scheduler, flow: &LiveFlow, shortest_end: Time) {
    let at = |end: Time| LiveFlow {
        deadline: FlowDeadline::By(end),
        ..flow.clone()
    };
    assert!(machine.plan_flow(Time(0), &at(shortest_end)).is_ok());
    let early = Time(shortest_end.0 - 1);
    let want = LiveError::TooEarly {
        shortest_end,
        deadline: early,
    };
    assert_eq!(machine.plan_flow(Time(0), &at(early)), Err(want));
}

/// With the first tasks done or running, the others are planned around them.
fn rest_is_planned_again(machine: &Scheduler, flow: &LiveFlow, plan: &LivePlan, now: Time) {
    let mut again = flow.clone();
    let mut booked = machine.clone();
    again.earliest = now;
    again.deadline = FlowDeadline::Slack(100);
    for (at, slot) in plan.slots.iter().enumerate() {
        let block = Block {
            holds: Vec::new(),
            reservation: ReservationId(1000 + at as u64),
            shares: slot.shares.clone(),
            start: slot.start,
            end: slot.end,
        };
        match slot.start < now {
            true => {
                again.tasks[at].fixed = Some(StartedSlot {
                    start: slot.start,
                    end: slot.end + Span(1000),
                    set: slot.set,
                });
                let longer = slot.end.since(slot.start) + Span(1000);
                if booked.are_free(Time(0), &block.shares, block.start, longer) {
                    booked.add_block(Block {
                        end: slot.end + Span(1000),
                        ..block
                    });
                }
            }
            false => {
                again.replaces.push(block.reservation);
                booked.add_block(block);
            }
        }
    }
    let new = booked.plan_flow(now, &again).unwrap();
    for (at, slot) in new.slots.iter().enumerate() {
        match again.tasks[at].fixed {
            Some(fixed) => assert_eq!((slot.start, slot.end), (fixed.start, fixed.end)),
            None => assert!(slot.start >= now && !slot.shares.is_empty()),
        }
    }
    for edge in flow
        .edges
        .iter()
        .filter(|e| again.tasks[e.to].fixed.is_none())
    {
        let (from, to) = (&new.slots[edge.from], &new.slots[edge.to]);
        let mib = (edge.data_bytes >> 20) as i64;
        let carried = flow.carry_ms(mib, from.set, to.set);
        assert!(from.end + Span(carried) <= to.start, "{edge:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_papers_model(case in paper()) {
        for scheduler in FlowScheduler::ALL {
            for policy in FlowSlackPolicy::ALL {
                same_as_on_machines(&case, scheduler, policy);
            }
        }
    }

    #[test]
    fn plans_are_sound(case in case()) {
        let machine = case.machine();
        for scheduler in FlowScheduler::ALL {
            for policy in FlowSlackPolicy::ALL {
                let flow = case.flow(scheduler, policy);
                match machine.plan_flow(Time(0), &flow) {
                    Ok(plan) => is_sound(&machine, &flow, &plan),
                    Err(LiveError::Nowhere { .. }) => {}
                    Err(other) => prop_assert!(false, "{other}"),
                }
            }
        }
    }

    #[test]
    fn deadlines_and_planning_again(case in case(), now in 0..100_000i64) {
        let machine = case.machine();
        let flow = case.flow(FlowScheduler::Hbmct, FlowSlackPolicy::CpEvenPercent);
        if let Ok(plan) = machine.plan_flow(Time(0), &flow) {
            earliest_deadline_works(&machine, &flow, plan.shortest_end);
            rest_is_planned_again(&machine, &flow, &plan, Time(now));
        }
    }
}

#[test]
fn what_cannot_be() {
    let machine = machine(2);
    let check = |tasks: Vec<LiveTask>, edges: &[(usize, usize, u64)], want: LiveError| {
        let flow = flow(vec![mask([0]), mask([1])], tasks, edges);
        assert_eq!(machine.plan_flow(Time(0), &flow), Err(want));
    };
    let one = demand(2, Some(1), 1, false);
    let fits = || task(&one, &[5, 5]);
    check(vec![], &[], DagError::Empty.into());
    // Both nodes, but each in a set of its own.
    let two = task(&demand(2, Some(2), 2, true), &[5, 5]);
    check(vec![fits(), two], &[], LiveError::Nowhere { task: 1 });
    let circle = [(0, 1, 0), (1, 2, 0), (2, 1, 0)];
    let found = DagError::Cycle(vec![2, 1]);
    check(vec![fits(), fits(), fits()], &circle, found.into());
    check(vec![fits()], &[(0, 0, 1)], DagError::Edge(0, 0).into());
    check(vec![fits()], &[(0, 3, 1)], DagError::Edge(0, 3).into());
}
