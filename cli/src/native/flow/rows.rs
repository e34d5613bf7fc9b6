//! Positions of a plan's slots in a picture: a row for each node, cut into lanes, because tasks
//! that share a node may overlap in time.

use cosy_model::expand;
use cosy_model::workflow::FlowPlan;
use std::collections::BTreeMap;

/// Rows that are drawn, at most.
const MOST: usize = 400;

/// The position of a slot on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotPosition {
    /// Row from the top, from 0.
    pub row: usize,
    /// Lane within the row, from 0.
    pub lane: usize,
    /// Number of lanes of the row.
    pub lanes: usize,
}

/// The rows of a plan.
pub struct Rows {
    /// Names of the nodes, from top to bottom.
    pub names: Vec<String>,
    /// The places of each slot, in the order of the plan.
    pub positions: Vec<Vec<SlotPosition>>,
    row_by_node: BTreeMap<String, usize>,
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
        let row_by_node: BTreeMap<String, usize> = names.iter().cloned().zip(0..).collect();
        let rows: Vec<Vec<usize>> = nodes
            .iter()
            .map(|of| {
                of.iter()
                    .filter_map(|n| row_by_node.get(n).copied())
                    .collect()
            })
            .collect();
        let positions = positions(plan, &rows, names.len());
        Self {
            names,
            positions,
            row_by_node,
        }
    }

    /// The row of a node.
    pub fn row(&self, name: &str) -> Option<usize> {
        self.row_by_node.get(name).copied()
    }

    /// The largest number of lanes of a row; 1 without slots.
    pub fn deepest(&self) -> usize {
        let lanes = self.positions.iter().flatten().map(|s| s.lanes);
        lanes.max().unwrap_or(1)
    }
}

/// The first lane of each row that is free at a slot's start.
fn positions(plan: &FlowPlan, rows: &[Vec<usize>], count: usize) -> Vec<Vec<SlotPosition>> {
    let mut order: Vec<usize> = (0..plan.tasks.len()).collect();
    order.sort_by_key(|at| (plan.tasks[*at].start, plan.tasks[*at].end, *at));
    let mut ends = vec![Vec::new(); count];
    let mut positions = vec![Vec::new(); plan.tasks.len()];
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
            positions[at].push(SlotPosition { row, lane, lanes });
        }
    }
    for position in positions.iter_mut().flatten() {
        position.lanes = ends[position.row].len();
    }
    positions
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
        let positions: Vec<Vec<_>> = rows
            .positions
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
        assert_eq!(positions, want);
        assert_eq!((rows.deepest(), rows.row("n2")), (2, Some(1)));
    }

    #[test]
    fn odd_names() {
        let mut plan = sample::plan();
        plan.tasks[0].nodes = "n[".into();
        plan.tasks[3].nodes = "m[1-1000]".into();
        let rows = Rows::of(&plan);
        assert_eq!(rows.names.len(), MOST);
        assert!(rows.positions[0].is_empty());
    }
}
