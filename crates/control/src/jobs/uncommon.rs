//! What few jobs have: kept apart, so that the others need no place for it. And a time that may not be known,
//! without more place than one that is.

use crate::jobs::ages::Ages;
use crate::record::MovedRow;
use cosy_model::Time;

/// What few jobs have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::jobs) struct Uncommon {
    /// Whether limits say since when it gathers age.
    pub ages: Ages,
    /// It waits again, and not before then.
    pub not_before: Option<Time>,
    /// Since when running jobs make room for it.
    pub room_is_made: Option<Time>,
    /// Its guaranteed start was moved for another one.
    pub moved: Option<MovedRow>,
}

/// A time, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::jobs) struct MaybeTime(i64);

impl MaybeTime {
    /// No time that a clock tells.
    const NONE: i64 = i64::MIN;

    pub fn get(self) -> Option<Time> {
        (self.0 != Self::NONE).then_some(Time(self.0))
    }
}

impl From<Option<Time>> for MaybeTime {
    fn from(time: Option<Time>) -> Self {
        Self(time.map_or(Self::NONE, |time| time.0))
    }
}
