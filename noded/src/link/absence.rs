//! Since when nobody was at the controllers' places who could give work to others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// For each place when it was found empty last. Clones are the same.
#[derive(Clone, Debug)]
pub struct Absences {
    places: Arc<Mutex<Vec<Option<Duration>>>>,
}

impl Absences {
    /// Nothing is known of so many places.
    pub fn new(places: usize) -> Self {
        Self {
            places: Arc::new(Mutex::new(vec![None; places])),
        }
    }

    /// What was found at a place: it was empty at that time, or it was not. Gives the latest time
    /// from which on each place was found empty once.
    ///
    /// Whoever leads now has begun later than that: until its own place was found empty, what
    /// was known before holds.
    pub fn found(&self, place: usize, empty: Option<Duration>) -> Option<Duration> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        *places.get_mut(place)? = empty;
        empty?;
        let all: Option<Vec<Duration>> = places.iter().copied().collect();
        all?.into_iter().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_must_be_absent() {
        let at = |secs| Some(Duration::from_secs(secs));
        let one = Absences::new(1);
        assert_eq!(one.found(0, at(3)), at(3));
        let two = Absences::new(2);
        assert_eq!(two.found(0, at(3)), None, "of the other nothing is known");
        assert_eq!(two.found(1, at(5)), at(3));
        assert_eq!(two.found(0, at(6)), at(5));
        assert_eq!(two.found(1, None), None, "it stands by");
        assert_eq!(two.found(0, at(9)), None);
        assert_eq!(two.found(1, at(10)), at(9));
    }
}
