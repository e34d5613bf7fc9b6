//! Nodes that are switched off or on their way up: nothing starts there before they are back.
//!
//! They are booked like by reservations, so what is guaranteed, planned and appraised counts with the
//! time that they take to come up. What always holds: these bookings have ids that no reservation has.

use crate::Block;
use crate::scheduler::Scheduler;
use cosy_model::{NodeId, NodeShare, ReservationId, Time};

/// Ids from here on are of absences: reservations are counted from 1.
const FIRST: u64 = 1 << 63;

/// Nodes that are back at the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Absence {
    /// Nothing starts there before.
    pub until: Time,
    /// Which nodes.
    pub nodes: Vec<NodeId>,
}

/// Whether what is booked under that id is an absence.
pub(crate) const fn is_absence(id: ReservationId) -> bool {
    id.0 >= FIRST
}

impl Scheduler {
    /// Nodes that are not there, in the place of those that were said before. An absence that is over
    /// ends by itself.
    pub fn set_absent(&mut self, absent: &[Absence]) {
        let mut new: Vec<Block> = absent.iter().map(|one| self.block_of(one)).collect();
        let known = self.blocks.from(ReservationId(FIRST));
        let known: Vec<ReservationId> = known.copied().collect();
        let mut gone = Vec::new();
        for id in known {
            let block = self.blocks.get(&id);
            let same = |one: &Block| {
                block.is_some_and(|block| block.end == one.end && block.shares == one.shares)
            };
            // What is as before is not booked anew.
            match new.iter().position(same) {
                Some(at) => drop(new.swap_remove(at)),
                None => gone.push(id),
            }
        }
        for id in gone {
            self.remove_block(id);
        }
        let mut free = (FIRST..).map(ReservationId);
        for block in new {
            if let Some(reservation) = free.find(|id| self.blocks.get(id).is_none()) {
                self.add_block(Block {
                    reservation,
                    ..block
                });
            }
        }
    }

    fn block_of(&self, absence: &Absence) -> Block {
        let known = absence.nodes.iter().filter(|id| self.machine.knows(**id));
        let whole = known.map(|node| NodeShare {
            node: *node,
            tasks: 0,
            amounts: self.machine.total(*node).clone(),
            component: 0,
        });
        Block {
            reservation: ReservationId(FIRST),
            shares: whole.collect(),
            start: Time::EPOCH,
            end: absence.until,
            holds: Vec::new(),
        }
    }

    /// Whether all that is booked on nodes of a pool before `far` are absences, and there is one.
    pub(crate) fn only_absences(&self, pool: usize, far: Time) -> bool {
        let Some(pool) = self.node_pools.get(pool) else {
            return false;
        };
        let mut near = pool.bounds.iter().map(|(bound, ())| bound);
        let mut near = near.by_ref().take_while(|(at, _)| *at < far).peekable();
        near.peek().is_some() && near.all(|(_, id)| is_absence(*id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Component, Demand, Holds, NodeMask, OrderKey, PlannedStart, Policy, WaitingJob};
    use cosy_model::{Amounts, JobId, MiB, QueueId, Span, WaitReason};
    use std::sync::Arc;

    /// So many nodes of four cores.
    fn machine(nodes: u32) -> Scheduler {
        let amounts = Amounts {
            cores: 4,
            memory: MiB(4000),
            ..Amounts::default()
        };
        let all: NodeMask = (0..nodes).map(NodeId).collect();
        Scheduler::new(Policy::EASY, vec![amounts; nodes as usize], vec![all])
    }

    /// A job for whole nodes waits.
    fn enqueue(scheduler: &mut Scheduler, id: u64, nodes: u32, limit_s: i64) {
        let allowed: NodeMask = (0..4).map(NodeId).collect();
        scheduler.enqueue(WaitingJob {
            holds: Holds::NONE,
            key: OrderKey::first_come(JobId(id), Time(0)),
            queue: QueueId(0),
            demand: Arc::new(Demand::from(Component {
                nodes: Some(nodes),
                tasks: nodes,
                exclusive: true,
                allowed: allowed.into(),
                ..Component::default()
            })),
            limit: Span::from_secs(limit_s),
        });
    }

    fn absent(until_s: i64, nodes: &[u32]) -> Absence {
        Absence {
            until: at(until_s),
            nodes: nodes.iter().copied().map(NodeId).collect(),
        }
    }

    const fn at(s: i64) -> Time {
        Time(s * 1000)
    }

    #[test]
    fn a_place_counts_with_nodes_that_come_up() {
        let mut scheduler = machine(4);
        scheduler.set_absent(&[absent(100, &[2]), absent(120, &[3])]);
        enqueue(&mut scheduler, 1, 4, 1000);
        enqueue(&mut scheduler, 2, 1, 130);
        enqueue(&mut scheduler, 3, 1, 110);
        // All four are there at 120.
        assert_eq!(scheduler.schedule(at(0)), [JobId(3)]);
        assert_eq!(scheduler.why(at(0), JobId(1)), Some(WaitReason::NodesOff));
        let plan = scheduler.plan(at(0), None).predictions;
        assert_eq!((plan[0].job, plan[0].start), (JobId(1), Some(at(120))));
        assert_eq!(plan[0].nodes.count(), 4);
        // They are there earlier than was thought, and 3 is over at 110.
        scheduler.set_absent(&[]);
        assert_eq!(scheduler.schedule(at(10)), []);
        assert_eq!(scheduler.why(at(10), JobId(1)), Some(WaitReason::Resources));
        assert_eq!(scheduler.predict(at(10), JobId(1)).unwrap().start, Some(at(110)));
    }

    #[test]
    fn what_starts_by_then() {
        let mut scheduler = machine(4);
        scheduler.set_absent(&[absent(60, &[2, 3])]);
        enqueue(&mut scheduler, 1, 4, 100);
        enqueue(&mut scheduler, 2, 2, 30);
        enqueue(&mut scheduler, 3, 1, 100);
        let starts = scheduler.starts_until(at(0), at(60));
        let told = |told: &PlannedStart| {
            let nodes: Vec<u32> = told.nodes.iter().map(|id| id.0).collect();
            (told.job.0, told.start, nodes)
        };
        let told: Vec<_> = starts.iter().map(told).collect();
        let want = [(2, at(0), vec![0, 1]), (1, at(60), vec![0, 1, 2, 3])];
        assert_eq!(told, want);
        assert_eq!(scheduler.starts_until(at(0), at(59)).len(), 1);
        assert!(scheduler.is_waiting(JobId(2)), "it is only played");
    }

    #[test]
    fn absences_come_and_go() {
        let mut scheduler = machine(4);
        scheduler.set_absent(&[absent(60, &[0, 1]), absent(70, &[2]), absent(80, &[3])]);
        scheduler.set_absent(&[absent(90, &[0, 9])]);
        enqueue(&mut scheduler, 1, 4, 10);
        assert_eq!(scheduler.predict(at(0), JobId(1)).unwrap().start, Some(at(90)));
        // It is over by itself.
        assert_eq!(scheduler.schedule(at(0)), []);
        assert_eq!(scheduler.schedule(at(90)), [JobId(1)]);
    }
}
