//! How often somebody may ask.

use crate::limits::{BURST, COUNTED_USERS, PER_SECOND, UNKNOWN_BURST, UNKNOWN_PER_SECOND};
use crate::problem::{Problem, Result};
use cosy_model::Uid;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What is left to each user; `None` is everybody who has not said who he is.
#[derive(Default)]
pub struct Rates(Mutex<HashMap<Option<Uid>, Left>>);

#[derive(Clone, Copy)]
struct Left {
    requests: f64,
    at: Instant,
}

impl Rates {
    /// Counts a request.
    ///
    /// # Errors
    /// There were too many.
    pub fn count(&self, user: Option<Uid>) -> Result<()> {
        self.count_at(user, Instant::now())
    }

    fn count_at(&self, user: Option<Uid>, now: Instant) -> Result<()> {
        let (burst, per_second) = match user {
            Some(_) => (BURST, PER_SECOND),
            None => (UNKNOWN_BURST, UNKNOWN_PER_SECOND),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= COUNTED_USERS && !all.contains_key(&user) {
            // Who has not asked for so long has everything left.
            all.retain(|_, left| now.duration_since(left.at).as_secs() < u64::from(BURST));
        }
        let left = all.entry(user).or_insert(Left {
            requests: f64::from(burst),
            at: now,
        });
        let since = now.duration_since(left.at).as_secs_f64();
        left.requests = (left.requests + since * f64::from(per_second)).min(f64::from(burst));
        left.at = now;
        if left.requests < 1.0 {
            return Err(Problem::busy("too many requests: try again in a second"));
        }
        left.requests -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_user_does_not_use_up_what_others_have() {
        let rates = Rates::default();
        let now = Instant::now();
        let ann = Some(Uid(1));
        for _ in 0..BURST {
            rates.count_at(ann, now).unwrap();
        }
        assert_eq!(rates.count_at(ann, now).unwrap_err().code, "busy");
        rates.count_at(Some(Uid(2)), now).unwrap();
        rates.count_at(None, now).unwrap();
        let later = now + Duration::from_millis(100);
        for _ in 0..PER_SECOND / 10 {
            rates.count_at(ann, later).unwrap();
        }
        assert!(rates.count_at(ann, later).is_err());
    }
}
