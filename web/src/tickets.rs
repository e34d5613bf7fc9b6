//! Words that stand for something for a while, and that nobody guesses: links that log a browser in, and
//! what browsers have open. Only digests are kept.

use crate::problem::{Problem, Result};
use cosy_proto::keys::{random_hex, sha256_hex};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Random bytes of a word.
const WORD: usize = 24;

/// What words stand for, by their digests.
#[derive(Debug)]
pub struct Tickets<T> {
    all: Mutex<HashMap<String, (Instant, T)>>,
    good_for: Duration,
    most: usize,
    /// What is said where there are too many.
    too_many: &'static str,
}

impl<T: Clone> Tickets<T> {
    /// Each is good for so long, and there are so many at most.
    pub fn new(good_for: Duration, most: usize, too_many: &'static str) -> Self {
        Self {
            all: Mutex::default(),
            good_for,
            most,
            too_many,
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, (Instant, T)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new word for that.
    ///
    /// # Errors
    /// There are too many.
    pub fn make(&self, value: T) -> Result<String> {
        self.make_among(value, usize::MAX, |_| false)
    }

    /// The same, where so many of those that are meant are enough: then the oldest of them goes.
    ///
    /// # Errors
    /// There are too many.
    pub fn make_among(
        &self,
        value: T,
        enough: usize,
        is_meant: impl Fn(&T) -> bool,
    ) -> Result<String> {
        let word = random_hex(WORD).map_err(|e| Problem::unavailable(e.to_string()))?;
        let mut all = self.locked();
        all.retain(|_, (at, _)| at.elapsed() < self.good_for);
        let meant = all.iter().filter(|(_, (_, value))| is_meant(value));
        if meant.clone().count() >= enough
            && let Some((oldest, _)) = meant.min_by_key(|(_, (at, _))| *at)
        {
            let oldest = oldest.clone();
            all.remove(&oldest);
        }
        if all.len() >= self.most {
            return Err(Problem::busy(self.too_many));
        }
        all.insert(sha256_hex(word.as_bytes()), (Instant::now(), value));
        Ok(word)
    }

    /// What a word stands for.
    pub fn get(&self, word: &str) -> Option<T> {
        let all = self.locked();
        let (at, value) = all.get(&sha256_hex(word.as_bytes()))?;
        (at.elapsed() < self.good_for).then(|| value.clone())
    }

    /// What a word stands for; it is used up.
    pub fn take(&self, word: &str) -> Option<T> {
        let (at, value) = self.locked().remove(&sha256_hex(word.as_bytes()))?;
        (at.elapsed() < self.good_for).then_some(value)
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.locked().len()
    }

    /// Forgets those for which that is so.
    pub fn forget(&self, is_meant: impl Fn(&T) -> bool) {
        self.locked().retain(|_, (_, value)| !is_meant(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_used_up_once_and_others_are_none() {
        let links = Tickets::new(Duration::from_secs(60), 2, "too many");
        let (one, two) = (links.make("ann").unwrap(), links.make("bob").unwrap());
        assert_eq!(links.make("cat").unwrap_err().message, "too many");
        assert_eq!(links.take("x"), None);
        assert_eq!((links.get(&one), links.take(&one)), (Some("ann"), Some("ann")));
        assert_eq!((links.get(&one), links.take(&one)), (None, None));
        assert_eq!(links.take(&two), Some("bob"));
        // In the place of the oldest of its own.
        let few = Tickets::new(Duration::from_secs(60), 9, "too many");
        let words: Vec<String> = ["ann", "bob", "ann", "ann"]
            .map(|name| few.make_among(name, 2, |other| *other == name).unwrap())
            .to_vec();
        let known: Vec<bool> = words.iter().map(|word| few.get(word).is_some()).collect();
        assert_eq!(known, [false, true, true, true]);
        few.forget(|name| *name == "ann");
        assert_eq!((few.get(&words[1]), few.get(&words[3])), (Some("bob"), None));
        let old = Tickets::new(Duration::ZERO, 2, "too many");
        let word = old.make("ann").unwrap();
        assert_eq!((old.get(&word), old.take(&word)), (None, None));
    }
}
