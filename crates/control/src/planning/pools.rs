//! The resource pools of the planners by what they are: licences, limits of somebody.
//!
//! The planners know pools by number. Here is what each number stands for. Which holds a job has
//! is told in one place ([`Pools::holds_of`]), so that it is the same while it waits, when it
//! starts, out of the store and in another planner.
//!
//! What always holds: two pools have two numbers; a number is given out again only when its pool
//! was forgotten, and a pool is forgotten only when no job holds or wants something of it and no
//! reservation keeps any.

pub(crate) mod procedures;

use cosy_model::{CountedResources, JobSpec};
use cosy_sched::{Hold, HoldAmount, Holds, PoolId};
use std::collections::BTreeMap;

/// What a resource pool is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PoolOf {
    /// A licence, by name.
    License(String),
}

/// Numbers of pools.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    numbers: BTreeMap<PoolOf, PoolId>,
    of: BTreeMap<PoolId, PoolOf>,
}

impl Pools {
    /// The number of a pool, one that nobody has had if it is new.
    pub fn number(&mut self, of: &PoolOf) -> PoolId {
        if let Some(id) = self.numbers.get(of) {
            return *id;
        }
        let mut free = 0;
        while self.of.contains_key(&PoolId(free)) {
            free += 1;
        }
        let id = PoolId(free);
        self.numbers.insert(of.clone(), id);
        self.of.insert(id, of.clone());
        id
    }

    /// The number of a pool that is known.
    pub fn find(&self, of: &PoolOf) -> Option<PoolId> {
        self.numbers.get(of).copied()
    }

    /// The number of a licence's pool, if any job or the configuration names it.
    pub fn license(&self, name: &str) -> Option<PoolId> {
        // No job that names none gets here.
        self.find(&PoolOf::License(name.to_owned()))
    }

    /// What a number stands for.
    pub fn of(&self, id: PoolId) -> Option<&PoolOf> {
        self.of.get(&id)
    }

    /// All pools, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&PoolOf, PoolId)> {
        self.numbers.iter().map(|(of, id)| (of, *id))
    }

    /// The pool is there no more: its number is free.
    pub fn forget(&mut self, of: &PoolOf) -> Option<PoolId> {
        let id = self.numbers.remove(of)?;
        self.of.remove(&id);
        Some(id)
    }

    /// What jobs with that specification hold from their start to their end.
    pub fn holds_of(&self, spec: &JobSpec) -> Holds {
        self.of_licenses(&spec.licenses)
    }

    /// What somebody with these licences holds.
    pub fn of_licenses(&self, licenses: &CountedResources) -> Holds {
        let license = |(name, count): (&str, u32)| {
            let pool = self.license(name)?;
            let amount = HoldAmount::Fixed(count.into());
            Some(Hold { pool, amount })
        };
        licenses.iter().filter_map(license).collect()
    }
}
