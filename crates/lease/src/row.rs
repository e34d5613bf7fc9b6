//! The row as a look shows it.

use crate::numbers::{Epoch, Renewals};
use std::fmt;
use std::time::Duration;

/// Who contends or leads: one run of one controller.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// The controller's name in the configuration, by which a handover names the next one.
    pub controller: String,
    /// Unlike that of every other run of any controller. A process that led and contends again
    /// is a new run.
    pub run: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (run {})", self.controller, self.run)
    }
}

/// Which state of the row was seen. A take names it: it matches nothing once somebody else has
/// taken the lead or the holder has renewed it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// Of the last take.
    pub epoch: Epoch,
    /// Goes on over takes.
    pub renewals: Renewals,
}

/// What a look at the row gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderRow {
    /// Changes with every update.
    pub version: Version,
    /// By which the holder counts; another configuration may differ from the contender's.
    pub lease: Duration,
    /// Whether somebody holds the lead.
    pub lead: Lead,
}

/// Who holds the lead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lead {
    /// Somebody took it and has not given it back.
    Held {
        /// Who took it.
        by: Identity,
        /// Whether the lease is over by the database's clock, or its end shows that this clock
        /// was set back.
        expired: bool,
    },
    /// Nobody, since a handover or ever.
    Free {
        /// Name of the controller that comes first, if one was named.
        next: Option<String>,
    },
}
