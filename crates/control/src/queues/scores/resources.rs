//! Numbers of the resources that use is kept of, given out as they are first seen.

use cosy_model::policy::Tres;
use cosy_policy::meter::Resource;
use std::collections::BTreeMap;
use std::fmt;

/// What use is kept of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum UseOf {
    /// Time, whatever a job holds.
    Wall,
    /// Amounts of a resource times time; memory in MiB.
    Tres(Tres),
}

/// The word for time in rows.
const WALL: &str = "wall";

impl fmt::Display for UseOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wall => f.write_str(WALL),
            Self::Tres(tres) => tres.fmt(f),
        }
    }
}

impl UseOf {
    /// What a word in a row stands for.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            WALL => Some(Self::Wall),
            word => word.parse().ok().map(Self::Tres),
        }
    }
}

/// The number of what is billed: what shares are compared by.
pub(super) const BILLING: Resource = Resource(0);

/// Numbers and what they stand for.
#[derive(Debug)]
pub(super) struct Resources {
    numbers: BTreeMap<UseOf, Resource>,
    all: Vec<UseOf>,
}

impl Default for Resources {
    fn default() -> Self {
        let billing = UseOf::Tres(Tres::Billing);
        Self {
            numbers: BTreeMap::from([(billing.clone(), BILLING)]),
            all: vec![billing],
        }
    }
}

impl Resources {
    /// The number of a resource, if it was ever seen.
    pub fn number(&self, of: &UseOf) -> Option<Resource> {
        self.numbers.get(of).copied()
    }

    /// The number of a resource, a new one where it was never seen; `None` when there are no more.
    pub fn number_of(&mut self, of: UseOf) -> Option<Resource> {
        if let Some(known) = self.number(&of) {
            return Some(known);
        }
        let number = Resource(u16::try_from(self.all.len()).ok()?);
        self.all.push(of.clone());
        self.numbers.insert(of, number);
        Some(number)
    }

    /// What a number stands for.
    pub fn name(&self, number: Resource) -> Option<&UseOf> {
        self.all.get(usize::from(number.0))
    }
}
