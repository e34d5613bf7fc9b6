//! Resource pools: counted resources that lie on no node, of which running jobs hold amounts.
//!
//! Licences and power caps are *shared* pools: whoever waits for one is served in turn, and the
//! place guaranteed to a head holds its amounts too, so that nobody starves. Limits of a user, an
//! account or a QOS are their *own* pools: a job that waits for its own limit holds back nobody
//! and has no guaranteed place as long as its pool is full.
//!
//! What always holds: what a pool says is held is the sum of what running jobs hold of it, a node
//! that several jobs share counted once where nodes are counted. A pool that nobody has set has
//! no limit.

pub(crate) mod all;
pub(crate) mod classes;
pub(crate) mod holder;
mod one;

use cosy_model::{NodeShare, Time, WaitReason};
use std::sync::Arc;

/// Number of a resource pool, chosen by the caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u32);

/// Whether others may pass a job that waits for a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PoolKind {
    /// A resource of everybody, such as a licence: the guaranteed place of a head holds its
    /// amount, and nobody behind may delay that.
    #[default]
    Shared,
    /// A limit of those who are in it: a job whose pool is full now holds back nobody and has no
    /// guaranteed place. When it will start counts on the ends that free the pool.
    Own,
}

/// How much of a pool a job holds from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HoldAmount {
    /// This much, whatever its nodes are.
    Fixed(u64),
    /// Its nodes. What all jobs hold of an own pool counts each node once.
    Nodes,
    /// The cores that it holds.
    Cores,
    /// The memory that it holds, in MiB.
    Memory,
    /// The GPUs that it holds.
    Gpus,
}

/// What a job holds of one pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hold {
    /// The pool that it is of.
    pub pool: PoolId,
    /// How much.
    pub amount: HoldAmount,
}

/// What a job holds of resource pools, none of most jobs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Holds(Option<Arc<[Hold]>>);

impl Holds {
    /// Of a job that holds nothing of any pool.
    pub const NONE: Self = Self(None);

    /// Each of them, in the order of pools.
    pub fn iter(&self) -> impl Iterator<Item = &Hold> {
        self.0.iter().flat_map(|holds| holds.iter())
    }

    /// What that is on these shares of nodes, each pool once.
    pub fn on(&self, shares: &[NodeShare]) -> Vec<(PoolId, u64)> {
        let mut all: Vec<(PoolId, u64)> = Vec::new();
        for hold in self.iter() {
            let amount = hold.amount.on(shares);
            match all.last_mut().filter(|(pool, _)| *pool == hold.pool) {
                Some((_, sum)) => *sum = sum.saturating_add(amount),
                None => all.push((hold.pool, amount)),
            }
        }
        all
    }

    /// Those that grow with the nodes of the job.
    pub fn of_nodes(&self) -> Self {
        let grow = self.iter().filter(|hold| !hold.amount.is_fixed());
        grow.copied().collect()
    }

    /// True for a job that holds nothing of any pool.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl FromIterator<Hold> for Holds {
    fn from_iter<I: IntoIterator<Item = Hold>>(holds: I) -> Self {
        let mut holds: Vec<Hold> = holds.into_iter().collect();
        holds.sort_unstable();
        holds.dedup();
        Self((!holds.is_empty()).then(|| holds.into()))
    }
}

/// A pool as it is set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpec {
    /// Whether others may pass those who wait for it.
    pub kind: PoolKind,
    /// What those who wait for it are told.
    pub reason: WaitReason,
    /// What there is of it from now on.
    pub capacity: u64,
    /// What there will be of it from later times on, in any order.
    pub later: Vec<(Time, u64)>,
}

impl PoolSpec {
    /// A pool whose capacity does not change by itself.
    pub const fn new(kind: PoolKind, reason: WaitReason, capacity: u64) -> Self {
        let later = Vec::new();
        Self {
            kind,
            reason,
            capacity,
            later,
        }
    }
}

/// A pool as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolUse {
    /// Whether others may pass those who wait for it.
    pub kind: PoolKind,
    /// What there is of it; `None` is no limit.
    pub capacity: Option<u64>,
    /// What running jobs hold of it, perhaps more than there is.
    pub held: u64,
    /// What accepted reservations hold of it now.
    pub reserved: u64,
}

/// Why a job waits that waits for a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolShortage {
    /// The pool of which too little is free.
    pub pool: PoolId,
    /// Whether others may pass those who wait for it.
    pub kind: PoolKind,
    /// What there is of it at the time in question.
    pub capacity: u64,
    /// What running jobs and reservations hold of it then.
    pub held: u64,
    /// What the job wants of it, at least.
    pub wanted: u64,
    /// When enough of it will be free for the whole limit of the job, if running jobs take their
    /// limits and nobody else comes; `None` when there is no such time.
    pub frees: Option<Time>,
}

/// What a job wants of a pool: exactly once its nodes are chosen, at least before that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Need {
    pub pool: PoolId,
    pub amount: HoldAmount,
    pub least: u64,
}

/// What a running job holds of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub pool: PoolId,
    pub amount: HoldAmount,
    pub count: u64,
}

impl HoldAmount {
    /// The amount on these shares of nodes.
    pub(crate) fn on(self, shares: &[NodeShare]) -> u64 {
        let sum = |of: fn(&NodeShare) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
        match self {
            Self::Fixed(amount) => amount,
            Self::Nodes => {
                let mut nodes: Vec<_> = shares.iter().map(|share| share.node).collect();
                nodes.sort_unstable();
                nodes.dedup();
                nodes.len() as u64
            }
            Self::Cores => sum(|share| share.amounts.cores.into()),
            Self::Memory => sum(|share| share.amounts.memory.0),
            Self::Gpus => sum(|share| share.amounts.gpus.into()),
        }
    }

    /// True when it is the same on all nodes.
    pub(crate) const fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}
