//! What a run or a block of waiting jobs needs at least, so that a search for a job that
//! might start can pass over it.
//!
//! What always holds: a summary never promises less than one of its jobs needs.

use crate::hopeless::{CLASSES as CORES_CLASSES, Hopeless, class as cores_class};
use crate::lacks::Lacks;
use crate::waiting_line::QueueKey;
use cosy_model::Span;

/// Size classes of whole-node jobs: up to 1, 2, ... 8, 10, 12, 14, 16, 20, 24, 28, 32, 40,
/// ... nodes.
const CLASSES: usize = 64;

/// What can be had now: a job that needs more cannot start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Available<'a> {
    /// Nodes without running jobs.
    pub idle: u32,
    /// The extra nodes among them: no guaranteed place and no reservation needs them.
    pub extra: u32,
    /// Time until the shadow time, or until the last of what is booked begins: longest limit with
    /// which the other idle nodes could still be used.
    pub until_shadow: Span,
    /// Cores that nobody has.
    pub cores: u64,
    /// Bits of groups of which a job might start.
    pub groups: u64,
    /// What is known to be lacking of shared pools.
    pub lacks: Option<&'a Lacks>,
    /// Which jobs that share nodes cannot start. Of a single job its group tells it.
    pub hopeless: Option<&'a Hopeless>,
}

impl Available<'_> {
    pub fn holds(&self, queue_key: &QueueKey) -> bool {
        if queue_key.needs != 0
            && self
                .lacks
                .is_some_and(|lacks| lacks.any_of(queue_key.needs, queue_key.limit))
        {
            return false;
        }
        if queue_key.whole == 0 {
            return queue_key.cores <= self.cores;
        }
        queue_key.whole <= self.extra
            || (queue_key.whole <= self.idle && queue_key.limit <= self.until_shadow)
    }
}

/// The class of a number of nodes.
fn class(whole: u32) -> usize {
    let last = whole.saturating_sub(1);
    if last < 8 {
        return last as usize;
    }
    let octave = last.ilog2();
    let quarter = last >> (octave - 2) & 3;
    let class = 8 + (octave - 3) * 4 + quarter;
    (class as usize).min(CLASSES - 1)
}

/// Whole seconds of a limit: a limit is no longer than a span only if its seconds are not
/// more than those of the span.
fn secs(limit: Span) -> u32 {
    (limit.0.max(0) / 1000).min(u32::MAX.into()) as u32
}

/// The least that any of some jobs needs.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    whole: u32,
    cores: u64,
    /// Of jobs that share nodes: bits of the classes of their cores, and the least limit of each class, in
    /// seconds.
    shared: u32,
    shared_limits: [u32; CORES_CLASSES],
    /// The least limit, in seconds, of whole-node jobs of each class and those below it.
    limits: [u32; CLASSES],
    /// Bits of the groups.
    groups: u64,
    /// Bits of the amounts of shared pools that all of them want, and the shortest limit, in
    /// seconds.
    needs: u32,
    shortest: u32,
}

impl Summary {
    pub const NONE: Self = Self {
        needs: u32::MAX,
        shortest: u32::MAX,
        whole: u32::MAX,
        cores: u64::MAX,
        shared: 0,
        shared_limits: [u32::MAX; CORES_CLASSES],
        limits: [u32::MAX; CLASSES],
        groups: 0,
    };

    pub fn of(queue_keys: &[QueueKey]) -> Self {
        let mut all = Self::NONE;
        for queue_key in queue_keys {
            all.note(queue_key);
            if queue_key.whole == 0 {
                all.note_shared(queue_key);
                continue;
            }
            all.whole = all.whole.min(queue_key.whole);
            let limit = &mut all.limits[class(queue_key.whole)];
            *limit = (*limit).min(secs(queue_key.limit));
        }
        for at in 1..CLASSES {
            all.limits[at] = all.limits[at].min(all.limits[at - 1]);
        }
        all
    }

    pub fn add(&mut self, queue_key: &QueueKey) {
        self.note(queue_key);
        if queue_key.whole == 0 {
            return self.note_shared(queue_key);
        }
        self.whole = self.whole.min(queue_key.whole);
        for limit in &mut self.limits[class(queue_key.whole)..] {
            *limit = (*limit).min(secs(queue_key.limit));
        }
    }

    fn note(&mut self, queue_key: &QueueKey) {
        self.groups |= 1 << queue_key.group.bit();
        self.needs &= queue_key.needs;
        self.shortest = self.shortest.min(secs(queue_key.limit));
    }

    fn note_shared(&mut self, queue_key: &QueueKey) {
        self.cores = self.cores.min(queue_key.cores);
        let class = cores_class(queue_key.cores);
        self.shared |= 1 << class;
        if let Some(limit) = self.shared_limits.get_mut(class) {
            *limit = (*limit).min(secs(queue_key.limit));
        }
    }

    pub fn join(&mut self, other: &Self) {
        self.needs &= other.needs;
        self.shortest = self.shortest.min(other.shortest);
        self.whole = self.whole.min(other.whole);
        self.cores = self.cores.min(other.cores);
        self.shared |= other.shared;
        for (limit, other) in self.shared_limits.iter_mut().zip(&other.shared_limits) {
            *limit = (*limit).min(*other);
        }
        self.groups |= other.groups;
        for (limit, other) in self.limits.iter_mut().zip(&other.limits) {
            *limit = (*limit).min(*other);
        }
    }

    /// Whether one of the jobs that share nodes, and are no larger than what is free, may start.
    fn might_share(&self, room: &Available) -> bool {
        let Some(hopeless) = room.hopeless else {
            return true;
        };
        let mut classes = self.shared & ((2 << cores_class(room.cores)) - 1);
        while classes != 0 {
            let class = classes.trailing_zeros() as usize;
            let least = self.shared_limits.get(class);
            if least.is_none_or(|least| hopeless.allows(class, *least)) {
                return true;
            }
            classes &= classes - 1;
        }
        false
    }

    pub fn might_hold(&self, room: &Available) -> bool {
        if self.groups & room.groups == 0 {
            return false;
        }
        let lacking = |lacks: &Lacks| lacks.any_of_all(self.needs, self.shortest);
        if self.needs != 0 && room.lacks.is_some_and(lacking) {
            return false;
        }
        self.cores <= room.cores && self.might_share(room)
            || self.whole <= room.extra
            || (self.whole <= room.idle && self.limits[class(room.idle)] <= secs(room.until_shadow))
    }
}

/// A summary that may be of more jobs than there are: it still never promises less than
/// one of them needs, and is made anew when a search has believed it in vain.
#[derive(Clone, Default, Debug)]
pub(crate) struct CachedSummary {
    pub summary: Option<Box<Summary>>,
    /// Jobs have gone since.
    pub old: bool,
}

impl CachedSummary {
    pub fn add(&mut self, queue_key: &QueueKey) {
        if let Some(summary) = &mut self.summary {
            summary.add(queue_key);
        }
    }

    pub fn forget(&mut self) {
        self.summary = None;
        self.old = false;
    }

    /// A search has found nothing.
    pub fn in_vain(&mut self) {
        if self.old {
            self.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class holds no job that needs more than one of a later class.
    #[test]
    fn classes_are_in_order() {
        let classes: Vec<usize> = (0..200_000).map(class).collect();
        assert!(classes.is_sorted());
        let first = |of: usize| classes.iter().position(|class| *class == of);
        let ends = [8, 9, 11, 12, 15, 16].map(|of| first(of).map(|first| first - 1));
        assert_eq!(ends, [8, 10, 14, 16, 28, 32].map(Some));
        assert_eq!(classes[199_999], CLASSES - 1);
    }
}
