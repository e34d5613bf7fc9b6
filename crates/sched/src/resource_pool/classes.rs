//! Waiting jobs that want the same of the same pools are one class, so that the line of waiting
//! jobs keeps one number for each job, whatever it holds.
//!
//! What always holds: number 0 is the class of jobs that hold nothing; a class without jobs is
//! free for others.

use super::{HoldAmount, Holds, Need, PoolId};
use crate::{Component, Demand};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct ClassId(pub u32);

impl ClassId {
    /// Of jobs that hold nothing of any pool.
    pub const NONE: Self = Self(0);

    pub fn holds(self) -> bool {
        self != Self::NONE
    }
}

#[derive(Clone, Debug)]
struct Class {
    needs: Arc<[Need]>,
    jobs: u32,
    bits: u32,
}

/// The classes of jobs that wait.
#[derive(Clone, Default, Debug)]
pub(crate) struct HoldClasses {
    all: Vec<Option<Class>>,
    vacant: Vec<ClassId>,
    by_needs: BTreeMap<Arc<[Need]>, ClassId>,
    jobs: usize,
    /// The bit of each amount of a shared pool that is wanted, and by how many classes. There may
    /// be more amounts than bits.
    bits: BTreeMap<(PoolId, u64), (u8, u32)>,
    taken_bits: u32,
}

impl HoldClasses {
    /// True when a waiting job holds something of a pool.
    pub fn any(&self) -> bool {
        self.jobs > 0
    }

    /// The pools that are wanted, some of them more than once.
    pub fn pools(&self) -> impl Iterator<Item = PoolId> {
        let all = self.by_needs.keys();
        all.flat_map(|needs| needs.iter().map(|need| need.pool))
    }

    /// One more job that wants this.
    pub fn join(
        &mut self,
        holds: &Holds,
        demand: &Demand,
        shared: impl Fn(PoolId) -> bool,
    ) -> ClassId {
        if holds.is_empty() {
            return ClassId::NONE;
        }
        let need = |hold: &super::Hold| Need {
            pool: hold.pool,
            amount: hold.amount,
            least: least(hold.amount, demand),
        };
        let needs: Vec<Need> = holds.iter().map(need).collect();
        let needs: Arc<[Need]> = needs.into();
        self.jobs += 1;
        if let Some(id) = self.by_needs.get(&needs).copied() {
            if let Some(class) = self.class_mut(id) {
                class.jobs += 1;
            }
            return id;
        }
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.all.push(None);
            ClassId(self.all.len() as u32)
        });
        let known = needs.iter().filter(|need| shared(need.pool));
        let places: Vec<(PoolId, u64)> = known.map(|need| (need.pool, need.least)).collect();
        let bits = places
            .into_iter()
            .fold(0, |all, place| all | self.take_bit(place));
        if let Some(slot) = self.all.get_mut(id.0 as usize - 1) {
            let needs = Arc::clone(&needs);
            *slot = Some(Class {
                needs,
                jobs: 1,
                bits,
            });
        }
        self.by_needs.insert(needs, id);
        id
    }

    /// One job less.
    pub fn leave(&mut self, id: ClassId) {
        let Some(class) = self.class_mut(id) else {
            return;
        };
        class.jobs -= 1;
        if class.jobs == 0 {
            let (needs, bits) = (Arc::clone(&class.needs), class.bits);
            self.by_needs.remove(&needs);
            for need in needs.iter() {
                self.give_bit_back((need.pool, need.least), bits);
            }
            if let Some(slot) = self.all.get_mut(id.0 as usize - 1) {
                *slot = None;
            }
            self.vacant.push(id);
        }
        self.jobs -= 1;
    }

    /// What a job of the class wants.
    pub fn needs(&self, id: ClassId) -> &[Need] {
        let at = (id.0 as usize).checked_sub(1);
        let class = at.and_then(|at| self.all.get(at)?.as_ref());
        class.map_or(&[], |class| &class.needs)
    }

    /// The bits of the amounts of shared pools that a job of the class wants.
    pub fn bits(&self, id: ClassId) -> u32 {
        let at = (id.0 as usize).checked_sub(1);
        let class = at.and_then(|at| self.all.get(at)?.as_ref());
        class.map_or(0, |class| class.bits)
    }

    /// The place of the bit of an amount, if it has one.
    pub fn bit_of(&self, need: &Need) -> Option<usize> {
        let known = self.bits.get(&(need.pool, need.least));
        known.map(|(bit, _)| usize::from(*bit))
    }

    /// One class more wants this: its bit, nothing when all bits are taken.
    fn take_bit(&mut self, place: (PoolId, u64)) -> u32 {
        if let Some((bit, classes)) = self.bits.get_mut(&place) {
            *classes += 1;
            return 1 << *bit;
        }
        let bit = self.taken_bits.trailing_ones();
        if bit >= u32::BITS {
            return 0;
        }
        self.taken_bits |= 1 << bit;
        self.bits.insert(place, (bit as u8, 1));
        1 << bit
    }

    fn give_bit_back(&mut self, place: (PoolId, u64), of_class: u32) {
        let Some((bit, classes)) = self.bits.get_mut(&place) else {
            return;
        };
        if of_class & 1 << *bit == 0 {
            return; // the class came before there was a bit for it
        }
        *classes -= 1;
        if *classes == 0 {
            self.taken_bits &= !(1 << *bit);
            self.bits.remove(&place);
        }
    }

    fn class_mut(&mut self, id: ClassId) -> Option<&mut Class> {
        let at = (id.0 as usize).checked_sub(1)?;
        self.all.get_mut(at)?.as_mut()
    }
}

/// What a job with that demand holds at least, whichever its nodes are.
fn least(amount: HoldAmount, demand: &Demand) -> u64 {
    let nodes = |one: &Component| u64::from(one.nodes.unwrap_or(1).max(one.fewest_nodes()));
    let each = |one: &Component, task: u64, node: u64| {
        let tasks = task.saturating_mul(one.tasks.into());
        tasks.saturating_add(node.saturating_mul(nodes(one)))
    };
    let sum = |of: &dyn Fn(&Component) -> u64| {
        let all = demand.iter().map(of);
        all.fold(0, u64::saturating_add)
    };
    match amount {
        HoldAmount::Fixed(amount) => amount,
        // Nodes may be shared with others of the same pool, and then count for nothing.
        HoldAmount::Nodes => sum(&|one| if one.exclusive { nodes(one) } else { 0 }),
        HoldAmount::Cores => {
            sum(&|one| each(one, one.per_task.cores.into(), one.per_node.cores.into()))
        }
        HoldAmount::Memory => sum(&|one| each(one, one.per_task.memory.0, one.per_node.memory.0)),
        HoldAmount::Gpus => {
            sum(&|one| each(one, one.per_task.gpus.into(), one.per_node.gpus.into()))
        }
    }
}
