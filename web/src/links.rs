//! Links that log a browser in, each once and for a short time.

use crate::limits::{LINK_FOR, LINKS};
use crate::problem::{Problem, Result};
use cosy_proto::keys::{random_hex, sha256_hex};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Links that nobody has used yet, by the digest of their ticket.
#[derive(Default)]
pub struct Links(Mutex<HashMap<String, (Instant, String)>>);

impl Links {
    /// The ticket of a new link for that user.
    ///
    /// # Errors
    /// Too many are unused.
    pub fn make(&self, user: &str) -> Result<String> {
        let ticket = random_hex(16).map_err(|e| Problem::unavailable(e.to_string()))?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (at, _)| at.elapsed() < LINK_FOR);
        if all.len() >= LINKS {
            return Err(Problem::busy("too many links are unused: try again in two minutes"));
        }
        all.insert(sha256_hex(ticket.as_bytes()), (Instant::now(), user.to_owned()));
        Ok(ticket)
    }

    /// Whom a link logs in; the link is used up.
    pub fn take(&self, ticket: &str) -> Option<String> {
        let digest = sha256_hex(ticket.as_bytes());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, user) = all.remove(&digest)?;
        (at.elapsed() < LINK_FOR).then_some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_once() {
        let links = Links::default();
        let (one, two) = (links.make("ann").unwrap(), links.make("bob").unwrap());
        assert_eq!(links.take("x"), None);
        assert_eq!(links.take(&one).as_deref(), Some("ann"));
        assert_eq!(links.take(&one), None);
        assert_eq!(links.take(&two).as_deref(), Some("bob"));
    }
}
