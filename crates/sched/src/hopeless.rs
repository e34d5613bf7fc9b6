//! Jobs that share nodes and cannot start in a pass, by how many cores they want: once a job of every
//! group of a class has failed, all of them have from a limit on.
//!
//! What always holds: no job is called hopeless whose group has not failed at its limit or a shorter one.

use cosy_model::Span;

/// Classes of numbers of cores: up to 1, 2, 4, ... cores.
pub(crate) const CLASSES: usize = 16;
/// No limit is hopeless.
const NONE: Span = Span(i64::MAX);

/// The class of a number of cores.
pub(crate) fn class(cores: u64) -> usize {
    let bits = cores.max(1).next_power_of_two().trailing_zeros();
    (bits as usize).min(CLASSES - 1)
}

/// What is known of a class.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Groups that have failed.
    failed: u32,
    /// The limits at which they have, the longest.
    longest: Span,
    /// The same once all groups have failed.
    limit: Span,
}

/// From which limits on jobs that share nodes cannot start.
#[derive(Clone, Debug)]
pub(crate) struct Hopeless {
    classes: [Known; CLASSES],
    any: bool,
    noted: bool,
}

impl Default for Hopeless {
    fn default() -> Self {
        let nothing = Known {
            failed: 0,
            longest: Span::ZERO,
            limit: NONE,
        };
        Self {
            classes: [nothing; CLASSES],
            any: false,
            noted: false,
        }
    }
}

impl Hopeless {
    pub fn clear(&mut self) {
        if self.noted {
            *self = Self::default();
        }
    }

    /// A group of the class has failed with that limit, for the first time or `again` at a shorter one.
    /// There are `groups` of them.
    pub fn note(&mut self, class: usize, limit: Span, again: bool, groups: u32) {
        let Some(known) = self.classes.get_mut(class) else {
            return;
        };
        self.noted = true;
        known.failed += u32::from(!again);
        // A single group fails at shorter and shorter ones.
        known.longest = match groups {
            1 => limit,
            _ => known.longest.max(limit),
        };
        if known.failed >= groups {
            known.limit = known.longest;
            self.any = true;
        }
    }

    /// Whether any is known.
    pub const fn is_any(&self) -> bool {
        self.any
    }

    /// Whether a job may be able to start whose limit has so many whole seconds, and perhaps a part of one
    /// more.
    pub fn allows(&self, class: usize, secs: u32) -> bool {
        let may = |known: &Known| known.limit == NONE || i64::from(secs) * 1000 < known.limit.0;
        self.classes.get(class).is_none_or(may)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_hopeless_once_all_its_groups_have_failed() {
        let mut all = Hopeless::default();
        all.note(2, Span(5000), false, 2);
        assert!(all.allows(2, u32::MAX) && !all.is_any());
        all.note(2, Span(9500), false, 2);
        assert!(all.allows(2, 9) && !all.allows(2, 10) && all.is_any());
        assert!(all.allows(1, u32::MAX));
        all.note(1, Span(7000), false, 1);
        all.note(1, Span(3000), true, 1);
        assert!(all.allows(1, 2) && !all.allows(1, 3));
        all.clear();
        assert!(all.allows(1, u32::MAX));
    }

    #[test]
    fn classes_of_cores() {
        let classes: Vec<usize> = [0, 1, 2, 3, 4, 5, 8, 9, 1 << 14, 1 << 40].map(class).into();
        assert_eq!(classes, [0, 0, 1, 2, 2, 3, 3, 4, 14, 15]);
    }
}
