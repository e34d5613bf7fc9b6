//! Equal values are kept once, however many jobs have them: most of a user's jobs ask for the same.
//!
//! What always holds: a value that nobody has is forgotten at the latest when as many have come again
//! as there were then.

use cosy_model::JobSpec;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

/// So many different values with one hash are told apart; more, which nobody has by chance, are kept each
/// for itself.
const ALIKE: usize = 4;
/// So few values are not looked through for those that nobody has.
const FEW: usize = 64;

/// What jobs ask for, each once.
#[derive(Debug, Default)]
pub struct SharedSpecs {
    specs: Shared<JobSpec>,
    rlimits: Shared<[(String, u64, u64)]>,
}

impl SharedSpecs {
    /// That request; the one that is there already if it is equal.
    pub fn share(&mut self, mut spec: Arc<JobSpec>) -> Arc<JobSpec> {
        let number = hash(&*spec);
        if let Some(known) = self.specs.find(number, &spec) {
            return known;
        }
        let of_rlimits = hash(&*spec.rlimits);
        match self.rlimits.find(of_rlimits, &spec.rlimits) {
            Some(known) => Arc::make_mut(&mut spec).rlimits = known,
            None => self.rlimits.enter(of_rlimits, &spec.rlimits),
        }
        self.specs.enter(number, &spec);
        spec
    }
}

/// Requests that several rows have in common when they are taken up: each is looked for once.
#[derive(Default)]
pub(crate) struct InCommon {
    /// By where it is, and there it stays while it is held here: what was given, and what is shared.
    known: BTreeMap<*const JobSpec, [Arc<JobSpec>; 2]>,
}

impl InCommon {
    /// As [`SharedSpecs::share`].
    pub fn share(&mut self, specs: &mut SharedSpecs, spec: Arc<JobSpec>) -> Arc<JobSpec> {
        if Arc::strong_count(&spec) == 1 {
            return specs.share(spec);
        }
        let known = self.known.entry(Arc::as_ptr(&spec));
        let [_, shared] = known.or_insert_with(|| [spec.clone(), specs.share(spec)]);
        shared.clone()
    }
}

/// Values by their hashes.
#[derive(Debug)]
struct Shared<T: ?Sized> {
    by_hash: BTreeMap<u64, Vec<Weak<T>>>,
    count: usize,
    /// With so many, those are looked for that nobody has.
    full: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self {
            by_hash: BTreeMap::new(),
            count: 0,
            full: FEW,
        }
    }
}

impl<T: Eq + ?Sized> Shared<T> {
    fn find(&self, hash: u64, value: &T) -> Option<Arc<T>> {
        let alike = self.by_hash.get(&hash)?;
        let mut known = alike.iter().filter_map(Weak::upgrade);
        known.find(|known| **known == *value)
    }

    fn enter(&mut self, hash: u64, value: &Arc<T>) {
        if self.count >= self.full {
            self.forget_unused();
        }
        let alike = self.by_hash.entry(hash).or_default();
        let before = alike.len();
        alike.retain(|known| known.strong_count() > 0);
        if alike.len() < ALIKE {
            alike.reserve_exact(1);
            alike.push(Arc::downgrade(value));
        }
        self.count = self.count + alike.len() - before;
    }

    fn forget_unused(&mut self) {
        self.by_hash.retain(|_, alike| {
            alike.retain(|known| known.strong_count() > 0);
            !alike.is_empty()
        });
        self.count = self.by_hash.values().map(Vec::len).sum();
        self.full = FEW.max(2 * self.count);
    }
}

/// The standard hasher without a random key: the same in every run.
fn hash(what: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All have one hash.
    #[derive(PartialEq, Eq, Debug)]
    struct Same(u32);

    impl Hash for Same {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }

    fn share<T: Hash + Eq>(all: &mut Shared<T>, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let number = hash(&*value);
        all.find(number, &value).unwrap_or_else(|| {
            all.enter(number, &value);
            value
        })
    }

    #[test]
    fn equal_values_are_one_and_unused_ones_go() {
        let mut all = Shared::default();
        let kept = share(&mut all, 7u32);
        assert!(Arc::ptr_eq(&kept, &share(&mut all, 7)));
        for n in 0..100 * FEW as u32 {
            drop(share(&mut all, n));
            assert!(all.by_hash.len() <= 2 * FEW, "{n}");
        }
        assert!(Arc::ptr_eq(&kept, &share(&mut all, 7)));
        let held: Vec<_> = (0..100 * FEW as u32).map(|n| share(&mut all, n)).collect();
        assert!(held.iter().zip(0..).all(|(held, n)| **held == n));
        assert_eq!(all.count, held.len());
    }

    #[test]
    fn values_of_one_hash_do_not_pile_up() {
        let mut all = Shared::default();
        let held: Vec<_> = (0..100).map(|n| share(&mut all, Same(n))).collect();
        assert!(held.iter().zip(0..).all(|(held, n)| **held == Same(n)));
        assert_eq!((all.by_hash.len(), all.count), (1, ALIKE));
        drop(held);
        share(&mut all, Same(200));
        assert_eq!(all.count, 1);
    }
}
