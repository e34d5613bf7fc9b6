//! Tasks on nodes: each, in the order of the schedule on lanes, where it can begin first on
//! the nodes of its set; and then slots that grow on these nodes.

use super::free_profile::{FreeProfile, Kinds, NEVER};
use super::kinds::AllKinds;
use super::lanes::AllLanes;
use super::search::SlotQuery;
use super::{LiveError, LiveFlow};
use crate::select::NodeTasks;
use crate::workflow::dag::Dag;
use crate::workflow::resource_model::ResourceModel;
use crate::workflow::schedule::{Schedule, Slot};
use cosy_model::NodeId;
use cosy_model::workflow::FlowScheduler;
use std::collections::BTreeMap;

/// A task's part of a node, or of a resource pool.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub pick: NodeTasks,
    pub is_pool: bool,
    row: Vec<u64>,
}

/// Where tasks are.
pub(super) struct Placement<'a> {
    flow: &'a LiveFlow,
    /// What others hold.
    profile: &'a FreeProfile,
    /// Parts of each task, in the order of the tasks.
    pub parts: Vec<Vec<Part>>,
    /// Several tasks are on a node at a time.
    crowded: bool,
}

impl<'a> Placement<'a> {
    /// Puts the tasks of a schedule on lanes onto nodes. `dag` has the sets as machines.
    ///
    /// # Errors
    /// [`LiveError::Nowhere`].
    pub fn put(
        flow: &'a LiveFlow,
        (tasks, kinds, rows, profile): (&[usize], &AllKinds, &Kinds, &'a FreeProfile),
        (dag, lanes, on_lanes): (&Dag, &AllLanes, &Schedule),
    ) -> Result<(Self, Schedule), LiveError> {
        let mut placed = Self {
            flow,
            profile,
            parts: vec![Vec::new(); tasks.len()],
            crowded: false,
        };
        let mut occupancy = profile.clone();
        let mut slots = vec![Slot::default(); tasks.len()];
        // A gap before an earlier task is used only by the scheduler that does.
        let in_line = flow.scheduler != FlowScheduler::Heft;
        for at in by_start(dag, on_lanes) {
            let task = tasks[at];
            let set = lanes.set_of[on_lanes.slots()[at].machine];
            let before = on_lanes.before(at).iter().map(|t| slots[*t].start_ms);
            let before = before.max().filter(|_| in_line).unwrap_or(0);
            let ready = placed.ready_ms(dag, &slots, at, set).max(before);
            let kind = kinds.kind(task);
            let nowhere = LiveError::Nowhere { task };
            let place = kind.on[set].as_ref().ok_or_else(|| nowhere.clone())?;
            let length = flow.length_ms(task, set);
            let wanted = SlotQuery {
                demand: &kind.demand,
                print: &kind.print,
                nodes: &place.nodes,
                length,
            };
            let pools = profile.rows_of(rows, &flow.holds(task));
            let found = earliest(&occupancy, wanted, &pools, ready);
            let (start_ms, picks) = found.ok_or(nowhere)?;
            let part = |pick: NodeTasks| Part {
                pick,
                is_pool: false,
                row: kind.print.row(pick.tasks),
            };
            let on_nodes = picks.into_iter().map(part);
            placed.parts[at] = on_nodes
                .chain(pools.into_iter().map(Part::of_pool))
                .collect();
            slots[at] = Slot {
                machine: set,
                start_ms,
                end_ms: start_ms + length,
            };
            for part in &placed.parts[at] {
                occupancy.take(part.pick.node, &part.row, start_ms, start_ms + length);
            }
        }
        let before = placed.before(&slots);
        Ok((placed, Schedule::with_links(dag, slots, before)))
    }

    fn ready_ms(&self, dag: &Dag, slots: &[Slot], task: usize, set: usize) -> i64 {
        let data = dag.tasks()[task].parents.iter().map(|edge| {
            let from = &slots[edge.task];
            from.end_ms + self.carry_ms(edge.data, from.machine, set)
        });
        data.max().unwrap_or(0).max(dag.release_ms(task, set))
    }

    /// Who is on the same node before whom, without anyone between.
    fn before(&mut self, slots: &[Slot]) -> Vec<Vec<usize>> {
        let mut on: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (task, parts) in self.parts.iter().enumerate() {
            for part in parts {
                on.entry(part.pick.node).or_default().push(task);
            }
        }
        let mut before = vec![Vec::new(); slots.len()];
        for mut here in on.into_values() {
            here.sort_by_key(|task| (slots[*task].start_ms, *task));
            self.crowded |= line_up(slots, &here, &mut before);
        }
        for list in &mut before {
            list.sort_unstable();
            list.dedup();
        }
        before
    }

    fn blocked_ms(&self, profile: &FreeProfile, task: usize, slot: &Slot) -> Option<i64> {
        let each = self.parts[task].iter();
        let blocked = |part: &Part| profile.blocked(part.pick.node, &part.row, slot.end_ms);
        each.filter_map(blocked).min()
    }

    /// True when all slots are free of others' work and of each other.
    pub fn is_free(&self, schedule: &Schedule) -> bool {
        let mut occupancy = self.profile.clone();
        let mut slots = schedule.slots().iter().zip(&self.parts);
        slots.all(|(slot, parts)| {
            parts.iter().all(|part| {
                let node = part.pick.node;
                let length = slot.length_ms();
                let free = occupancy.free_row(node, &part.row, slot.start_ms, length);
                occupancy.take(node, &part.row, slot.start_ms, slot.end_ms);
                free == slot.start_ms
            })
        })
    }
}

impl Part {
    fn of_pool((node, row): (NodeId, Vec<u64>)) -> Self {
        Self {
            pick: NodeTasks {
                component: 0,
                node,
                tasks: 0,
            },
            is_pool: true,
            row,
        }
    }
}

/// The earliest start from `ready` on at which the nodes and the pools have room. `None`: never.
fn earliest(
    occupancy: &FreeProfile,
    wanted: SlotQuery<'_>,
    pools: &[(NodeId, Vec<u64>)],
    ready: i64,
) -> Option<(i64, Vec<NodeTasks>)> {
    let mut ready = ready;
    loop {
        let (start, picks) = occupancy.earliest(wanted, ready)?;
        let free = pools
            .iter()
            .map(|(pool, row)| occupancy.free_row(*pool, row, start, wanted.length));
        ready = free.max().unwrap_or(start);
        if ready <= start {
            return Some((start, picks));
        }
        if ready >= NEVER {
            return None;
        }
    }
}

/// Enters who comes right before whom on a node; true when two are there at a time.
fn line_up(slots: &[Slot], here: &[usize], before: &mut [Vec<usize>]) -> bool {
    let mut ends: Vec<usize> = here.to_vec();
    ends.sort_by_key(|task| (slots[*task].end_ms, *task));
    let mut ended = ends.into_iter().peekable();
    let (mut last, mut latest) = (Vec::<usize>::new(), i64::MIN);
    let mut together = false;
    let mut over = 0usize;
    for (at, &task) in here.iter().enumerate() {
        while let Some(other) = ended.next_if(|t| slots[*t].end_ms <= slots[task].start_ms) {
            latest = latest.max(slots[other].start_ms);
            last.push(other);
            over += 1;
        }
        // Whoever was over before another one began is not the last.
        last.retain(|other| slots[*other].end_ms > latest);
        before[task].extend(&last);
        together |= over < at;
    }
    together
}

/// Tasks by their start on lanes; parents come before children.
fn by_start(dag: &Dag, on_lanes: &Schedule) -> Vec<usize> {
    let mut place = vec![0; dag.count()];
    for (at, task) in dag.order().iter().enumerate() {
        place[*task] = at;
    }
    let mut order: Vec<usize> = (0..dag.count()).collect();
    order.sort_by_key(|task| (on_lanes.slots()[*task].start_ms, place[*task]));
    order
}

impl ResourceModel for Placement<'_> {
    /// Nothing, where no two tasks are on a node at a time: their order says all.
    type Occupancy = Option<FreeProfile>;

    fn open(&self) -> Option<FreeProfile> {
        self.crowded.then(|| self.profile.clone())
    }

    fn earliest_ms(
        &self,
        occupancy: &Option<FreeProfile>,
        task: usize,
        _slot: &Slot,
        ready_ms: i64,
        length_ms: i64,
    ) -> i64 {
        let profile = occupancy.as_ref().unwrap_or(self.profile);
        let mut start = ready_ms;
        loop {
            let each = self.parts[task].iter().map(|part| {
                let node = part.pick.node;
                profile.free_row(node, &part.row, start, length_ms)
            });
            let all = each.max().unwrap_or(start);
            if all <= start || all >= NEVER {
                return all.min(NEVER);
            }
            start = all;
        }
    }

    fn free_until_ms(
        &self,
        occupancy: &Option<FreeProfile>,
        task: usize,
        slot: &Slot,
    ) -> Option<i64> {
        self.blocked_ms(occupancy.as_ref().unwrap_or(self.profile), task, slot)
    }

    fn take(&self, occupancy: &mut Option<FreeProfile>, task: usize, slot: &Slot) {
        let Some(profile) = occupancy else {
            return;
        };
        for part in &self.parts[task] {
            profile.take(part.pick.node, &part.row, slot.start_ms, slot.end_ms);
        }
    }

    fn carry_ms(&self, data: i64, from: usize, to: usize) -> i64 {
        self.flow.carry_ms(data, from, to)
    }

    fn needed_ms(&self, task: usize, slot: &Slot) -> Option<i64> {
        self.blocked_ms(self.profile, task, slot)
    }
}
