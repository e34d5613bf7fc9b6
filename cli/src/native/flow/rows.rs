//! Where the slots of a plan are in a picture: a row for each node, and in it lanes, because
//! tasks that share a node may run beside each other.

use cosy_model::expand;
use cosy_model::workflow::FlowPlan;
use std::collections::BTreeMap;

/// Rows that are drawn, at most.
const MOST: usize = 400;

/// A place of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Row from the top, from 0.
    pub row: usize,
    /// Which lane of it.
    pub lane: usize,
    /// How many lanes it has.
    pub lanes: usize,
}

/// The rows of a plan.
pub struct Rows {
    /// Names of the nodes, from top to bottom.
    pub names: Vec<String>,
    /// The places of each slot, in the order of the plan.
    pub spots: Vec<Vec<Spot>>,
    places: BTreeMap<String, usize>,
}

impl Rows {
    /// Of a plan; nodes beyond the first few hundred are left out.
    pub fn of(plan: &FlowPlan) -> Self {
        let nodes: Vec<Vec<String>> = plan
            .tasks
            .iter()
            .map(|t| expand(&t.nodes).unwrap_or_default())
            .collect();
        let mut names: Vec<String> = nodes.iter().flatten().cloned().collect();
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        names.dedup();
        names.truncate(MOST);
        let places: BTreeMap<String, usize> = names.iter().cloned().zip(0..).collect();
        let rows: Vec<Vec<usize>> = nodes
            .iter()
            .map(|of| of.iter().filter_map(|n| places.get(n).copied()).collect())
            .collect();
        let spots = spots(plan, &rows, names.len());
        Self {
            names,
            spots,
            places,
        }
    }

    /// The row of a node.
    pub fn row(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// How many lanes the row with most of them has.
    pub fn deepest(&self) -> usize {
        let lanes = self.spots.iter().flatten().map(|s| s.lanes);
        lanes.max().unwrap_or(1)
    }
}

/// The first lane of each row that is free at a slot's start.
fn spots(plan: &FlowPlan, rows: &[Vec<usize>], count: usize) -> Vec<Vec<Spot>> {
    let mut order: Vec<usize> = (0..plan.tasks.len()).collect();
    order.sort_by_key(|at| (plan.tasks[*at].start, plan.tasks[*at].end, *at));
    let mut ends = vec![Vec::new(); count];
    let mut spots = vec![Vec::new(); plan.tasks.len()];
    for at in order {
        let task = &plan.tasks[at];
        for &row in &rows[at] {
            let lanes: &mut Vec<cosy_model::Time> = &mut ends[row];
            let free = lanes.iter().position(|end| *end <= task.start);
            let lane = free.unwrap_or(lanes.len());
            match free {
                Some(lane) => lanes[lane] = task.end,
                None => lanes.push(task.end),
            }
            let lanes = 0;
            spots[at].push(Spot { row, lane, lanes });
        }
    }
    for spot in spots.iter_mut().flatten() {
        spot.lanes = ends[spot.row].len();
    }
    spots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::plan::sample;

    #[test]
    fn slots_beside_each_other() {
        let mut plan = sample::plan();
        plan.tasks[2].nodes = "n[1-2]".into();
        let rows = Rows::of(&plan);
        assert_eq!(rows.names, ["n1", "n2"]);
        let told: Vec<Vec<_>> = rows
            .spots
            .iter()
            .map(|s| s.iter().map(|s| (s.row, s.lane, s.lanes)).collect())
            .collect();
        // `left` and `right` overlap on n1.
        let want = [
            vec![(0, 0, 2)],
            vec![(0, 0, 2)],
            vec![(0, 1, 2), (1, 0, 1)],
            vec![(0, 0, 2)],
        ];
        assert_eq!(told, want);
        assert_eq!((rows.deepest(), rows.row("n2")), (2, Some(1)));
    }

    #[test]
    fn odd_names() {
        let mut plan = sample::plan();
        plan.tasks[0].nodes = "n[".into();
        plan.tasks[3].nodes = "m[1-1000]".into();
        let rows = Rows::of(&plan);
        assert_eq!(rows.names.len(), MOST);
        assert!(rows.spots[0].is_empty());
    }
}
