//! An attempt in the store.

use crate::jobs::run::{Launching, Part, PartStep, Run, RunPhase};
use crate::record::{HeldBy, PartRow, RunRow, StepUse};
use cosy_model::{NodeId, Span};
use std::collections::BTreeSet;

/// Nodes of an attempt as the present configuration numbers them.
pub(crate) struct RestoredParts {
    pub parts: Vec<Part>,
    /// Those that it gives back.
    pub leaving: Vec<Part>,
    /// Those whose loss ends it.
    pub lost: BTreeSet<NodeId>,
}

impl RestoredParts {
    /// Each node has given its share back.
    pub fn are_released(&self) -> bool {
        self.parts
            .iter()
            .chain(&self.leaving)
            .all(Part::is_released)
    }
}

impl Part {
    /// The share of that node as it was written.
    pub fn of_row(node: NodeId, row: PartRow) -> Self {
        Self {
            node,
            tasks: row.tasks,
            amounts: row.amounts,
            component: row.component,
            cores: row.cores,
            gpus: row.gpus,
            devices: row.devices,
            boot_id: row.boot_id,
            kept: row.kept,
            step: match row.released {
                true => PartStep::Released,
                false => PartStep::Ordered,
            },
        }
    }

    fn row(&self, names: &dyn Fn(NodeId) -> String) -> PartRow {
        PartRow {
            node: names(self.node),
            tasks: self.tasks,
            amounts: self.amounts.clone(),
            component: self.component,
            cores: self.cores.clone(),
            gpus: self.gpus.clone(),
            devices: self.devices.clone(),
            boot_id: self.boot_id.clone(),
            kept: self.kept.clone(),
            released: self.is_released(),
        }
    }
}

impl Run {
    /// The attempt as it was written; `limit` is for rows of releases that wrote none.
    pub fn of_row(row: RunRow, limit: Span, restored: RestoredParts) -> Self {
        // With several nodes the order to start may or may not have left: nodes tell at
        // registration; a single node's order is sent again then.
        let given = restored.parts.len() == 1 || row.started.is_some() || row.after.is_some();
        let phase = match (row.after, row.suspended, row.started) {
            (Some(after), _, started) => RunPhase::Completing { started, after },
            (None, Some(since), started) => RunPhase::Suspended {
                started: started.unwrap_or(since),
                since,
                resuming: row.resuming,
            },
            (None, None, Some(started)) => RunPhase::Running { started },
            (None, None, None) => RunPhase::Starting,
        };
        Self {
            allocated: row.allocated,
            phase,
            parts: restored.parts,
            launching: match given {
                true => Launching::Sent,
                false => Launching::Unknown,
            },
            limit: row.limit.unwrap_or(limit),
            cut: row.cut,
            killed: row.killed,
            canceller: row.canceller,
            suspended_for: row.suspended_for,
            leaving: restored.leaving,
            resized: row.resized,
            hold_after: HeldBy::after_requeue(row.hold_after, row.special_after),
            preempted: row.preempted,
            promised: row.promised,
            checkpoint: row.checkpoint,
            lost: restored.lost,
            spares: row.spares,
            steps: StepUse::default(),
            devices: row.devices,
            doubtful: row.doubtful,
            from_store: true,
            reported: row.reported,
        }
    }

    /// The attempt as it is written; `names` are the node names by number.
    pub fn row(&self, names: &dyn Fn(NodeId) -> String) -> RunRow {
        let row = |part: &Part| part.row(names);
        RunRow {
            allocated: self.allocated,
            started: self.started(),
            limit: Some(self.limit),
            cut: self.cut,
            parts: self.parts.iter().map(row).collect(),
            after: self.after().cloned(),
            killed: self.killed,
            canceller: self.canceller.clone(),
            suspended: self.suspended(),
            suspended_for: self.suspended_for,
            resuming: self.is_resuming(),
            leaving: self.leaving.iter().map(row).collect(),
            resized: self.resized,
            hold_after: self.hold_after.is_some(),
            special_after: self.hold_after == Some(HeldBy::Special),
            preempted: self.preempted,
            promised: self.promised,
            checkpoint: self.checkpoint,
            lost: self.lost.iter().map(|node| names(*node)).collect(),
            spares: self.spares,
            devices: self.devices,
            doubtful: self.doubtful,
            reported: self.reported.clone(),
        }
    }
}
