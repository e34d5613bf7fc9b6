//! Keeping controllers away from a database on a server while its state is copied: its lead is taken
//! under a name of its own, and renewed.

use super::content::CopyError;
use super::lead::Candidate;
use super::sql::params;
use super::{Location, Store};
use cosy_lease::{Identity, Lead, LeaseTimes};
use std::time::{Duration, Instant};

/// In whose name the lead is held.
const HOLDER: &str = "store copy";
/// For how long after the last word.
const LEASE: Duration = Duration::from_secs(60);
/// Between two words.
const WORD: Duration = Duration::from_secs(5);

/// The lead of a database. Laid down when this goes.
pub struct Hold {
    store: Store,
    epoch: u64,
    renewed: Instant,
}

impl Hold {
    /// Takes the lead; nothing is taken of a store in a file.
    ///
    /// # Errors
    /// A controller leads; the database fails.
    pub fn take(location: &Location) -> Result<Option<Self>, CopyError> {
        if matches!(location, Location::Sqlite(_)) {
            return Ok(None);
        }
        let mut store = Store::open_for_copy(location)?;
        let look = store.look()?;
        if let Lead::Held { by, expired: false } = &look.row.lead {
            let own = by.controller == HOLDER;
            return Err(CopyError::Led {
                location: location.to_string(),
                holder: match own {
                    true => "another 'cosyd store'".to_owned(),
                    false => format!("controller {}", by.controller),
                },
                hint: if own {
                    " (one that was killed leads a minute longer)"
                } else {
                    ""
                },
            });
        }
        let run = cosy_proto::keys::random_hex(16).unwrap_or_default();
        let candidate = Candidate {
            me: Identity {
                controller: HOLDER.to_owned(),
                run,
            },
            address: String::new(),
            times: LeaseTimes::of(LEASE),
        };
        let Some(lead) = store.take(&candidate, look.row.version)? else {
            let location = location.to_string();
            return Err(CopyError::Deposed { location });
        };
        Ok(Some(Self {
            epoch: lead.leadership.epoch().0,
            store,
            renewed: Instant::now(),
        }))
    }

    /// The epoch of the lead.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Renews the lead when that is due.
    ///
    /// # Errors
    /// Another has it; the database fails.
    pub fn keep(&mut self) -> Result<(), CopyError> {
        if self.renewed.elapsed() < WORD {
            return Ok(());
        }
        let renewed = self.store.sql(|c| {
            c.execute(
                "UPDATE leader SET renewals = renewals + 1,
                     until = clock_timestamp() + lease_ms * interval '1 millisecond'
                 WHERE id = 1 AND epoch = ?1 AND NOT released",
                params![self.epoch],
            )
        })?;
        if renewed == 0 {
            let location = self.store.location().to_string();
            return Err(CopyError::Deposed { location });
        }
        self.renewed = Instant::now();
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Where this fails the lead is over a minute later.
        let _ = self.store.sql(|c| {
            c.execute(
                "UPDATE leader SET released = true, next = '', holder = '', run = '',
                     renewals = renewals + 1
                 WHERE id = 1 AND epoch = ?1 AND NOT released",
                params![self.epoch],
            )
        });
    }
}
