//! Links that log a browser in, each once and for a short time.

use crate::limits::{LINK_FOR, LINKS};
use crate::problem::Result;
use crate::tickets::Tickets;

/// Links that nobody has used yet, with whom they log in.
pub struct Links(Tickets<String>);

impl Default for Links {
    fn default() -> Self {
        Self(Tickets::new(LINK_FOR, LINKS, "too many links are unused: try again in two minutes"))
    }
}

impl Links {
    /// The ticket of a new link for that user.
    ///
    /// # Errors
    /// Too many are unused.
    pub fn make(&self, user: &str) -> Result<String> {
        self.0.make(user.to_owned())
    }

    /// Whom a link logs in; the link is used up.
    pub fn take(&self, ticket: &str) -> Option<String> {
        self.0.take(ticket)
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
