//! The lead among several controllers, on the row of the database, and the leader's batches
//! ([`cosy_lease`] says why it is safe; the statements are the ones of its table).
//!
//! What always holds: a batch was carried out once or not at all, and the leader knows which, or it
//! leads no more.

use super::sql::postgres::{self, dialect, number};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use super::{Location, Store, StoreError};
use crate::clock;
use cosy_lease::{
    BatchNumber, Claimed, Epoch, Identity, Lead as Held, LeaderRow, Leadership, LeaseTimes,
    Outcome, Renewals, Session, Version, outcome_of,
};
use cosy_model::api::{ControllerRole, ControllerRow};
use std::collections::BTreeSet;
use std::time::Duration;

/// Between two tries to reach the server.
const PAUSE: Duration = Duration::from_millis(100);

/// When a lead is over by the database's clock.
const OVER: &str = "(until <= clock_timestamp()
    OR until > clock_timestamp() + lease_ms * interval '1 millisecond')";

/// What a look at the row shows.
#[derive(Clone, Debug)]
pub struct Look {
    /// What is judged.
    pub row: LeaderRow,
    /// Name of the one who leads or led last; empty before anybody did.
    pub holder: String,
    /// Where nodes reach it.
    pub address: String,
}

/// What decides what an acknowledgement of the server is worth.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers that it waits for.
    pub standby_names: String,
    /// Whether it waits for its disk.
    pub fsync: String,
    /// Whether a page that is half written at a power failure can be mended.
    pub full_page_writes: String,
    /// Servers that follow it now, as far as this user may see them.
    pub standbys: i64,
}

impl Settings {
    /// What is to be on, or a power failure costs what was answered: name and value.
    pub fn switches(&self) -> [(&'static str, &str); 2] {
        [
            ("fsync", &self.fsync),
            ("full_page_writes", &self.full_page_writes),
        ]
    }

    /// The better of each.
    pub fn take_better(&mut self, other: &Self) {
        if self.standby_names.is_empty() {
            self.standby_names.clone_from(&other.standby_names);
        }
        for (mine, theirs) in [
            (&mut self.fsync, &other.fsync),
            (&mut self.full_page_writes, &other.full_page_writes),
        ] {
            if theirs == "on" {
                mine.clone_from(theirs);
            }
        }
    }
}

/// Who contends: where nodes reach it, and for how long it would lead.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name and run.
    pub me: Identity,
    /// As `HOST:PORT`.
    pub address: String,
    /// Of its lead.
    pub times: LeaseTimes,
}

/// A lead that is held.
#[derive(Clone, Debug)]
pub struct Lead {
    /// Until when this controller may act.
    pub leadership: Leadership,
    candidate: Candidate,
    session: Session,
    last: BatchNumber,
}

impl Lead {
    fn of(
        candidate: &Candidate,
        epoch: Epoch,
        claimed: Claimed,
        sent_at: cosy_lease::Moment,
    ) -> Self {
        Self {
            leadership: Leadership::taken(epoch, candidate.times, sent_at),
            candidate: candidate.clone(),
            session: claimed.session,
            last: claimed.last,
        }
    }

    fn epoch(&self) -> u64 {
        self.leadership.epoch().0
    }

    fn lease_ms(&self) -> u64 {
        ms(self.candidate.times.lease)
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn claimed(row: &Row<'_>) -> sql::Result<Claimed> {
    Ok(Claimed {
        session: Session(row.get(0)?),
        last: BatchNumber(row.get(1)?),
    })
}

impl Store {
    /// Looks at the row.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn look(&self) -> Result<Look, StoreError> {
        let query = format!(
            "SELECT epoch, renewals, lease_ms, holder, run, released, next, address, {OVER}
             FROM leader WHERE id = 1"
        );
        self.sql(|c| {
            c.prepare_cached(&query)?.query_row(params![], |r| {
                let holder: String = r.get(3)?;
                let next: String = r.get(6)?;
                let lead = match r.get(5)? {
                    true => Held::Free {
                        next: Some(next).filter(|next| !next.is_empty()),
                    },
                    false => Held::Held {
                        by: Identity {
                            controller: holder.clone(),
                            run: r.get(4)?,
                        },
                        expired: r.get(8)?,
                    },
                };
                Ok(Look {
                    row: LeaderRow {
                        version: Version {
                            epoch: Epoch(r.get(0)?),
                            renewals: Renewals(r.get(1)?),
                        },
                        lease: Duration::from_millis(r.get(2)?),
                        lead,
                    },
                    holder,
                    address: r.get(7)?,
                })
            })
        })
    }

    /// Takes the lead if the row is still as it was seen.
    ///
    /// # Errors
    /// [`StoreError`]; where the connection was lost the lead may have been taken.
    pub fn take(&mut self, who: &Candidate, seen: Version) -> Result<Option<Lead>, StoreError> {
        let query = format!(
            "UPDATE leader SET epoch = epoch + 1, session = session + 1, renewals = renewals + 1,
                 holder = ?1, run = ?2, address = ?3, released = false, next = '', lease_ms = ?4,
                 until = clock_timestamp() + CAST(?4 AS BIGINT) * interval '1 millisecond'
             WHERE id = 1 AND epoch = ?5 AND renewals = ?6 AND (released OR {OVER})
             RETURNING session, seq, epoch"
        );
        let sent_at = clock::since_boot();
        let found = self.sql(|c| {
            let values = params![
                who.me.controller,
                who.me.run,
                who.address,
                ms(who.times.lease),
                seen.epoch.0,
                seen.renewals.0
            ];
            let taken = |r: &Row<'_>| Ok((claimed(r)?, Epoch(r.get(2)?)));
            c.prepare_cached(&query)?
                .query_row(values, taken)
                .optional()
        })?;
        Ok(found.map(|(claimed, epoch)| Lead::of(who, epoch, claimed, sent_at)))
    }

    /// Claims a lead that a take of unknown outcome brought.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn claim_own(&mut self, who: &Candidate, epoch: Epoch) -> Result<Option<Lead>, StoreError> {
        let sent_at = clock::since_boot();
        let found = self.claim(who, epoch)?;
        Ok(found.map(|claimed| Lead::of(who, epoch, claimed, sent_at)))
    }

    fn claim(&self, who: &Candidate, epoch: Epoch) -> Result<Option<Claimed>, StoreError> {
        self.sql(|c| {
            c.prepare_cached(
                "UPDATE leader SET session = session + 1, renewals = renewals + 1,
                     until = clock_timestamp() + CAST(?4 AS BIGINT) * interval '1 millisecond'
                 WHERE id = 1 AND epoch = ?1 AND holder = ?2 AND run = ?3 AND NOT released
                 RETURNING session, seq",
            )?
            .query_row(
                params![epoch.0, who.me.controller, who.me.run, ms(who.times.lease)],
                claimed,
            )
            .optional()
        })
    }

    /// Says that a controller stands by.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn stands_by(&self, who: &Candidate) -> Result<(), StoreError> {
        // Whether that word is lost with the server does not matter: nobody waits for the disk.
        self.sql(|c| {
            c.execute_batch("SET synchronous_commit = off")?;
            let said = c
                .prepare_cached(
                    "INSERT INTO controllers (name, address, at) VALUES (?1, ?2, clock_timestamp())
                     ON CONFLICT (name) DO UPDATE SET address = excluded.address, at = excluded.at",
                )?
                .run(params![who.me.controller, who.address]);
            c.execute_batch("SET synchronous_commit = on")?;
            said
        })
    }

    /// What the server says of how it keeps what it acknowledges.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn settings(&self) -> Result<Settings, StoreError> {
        self.sql(|c| {
            c.query_row(
                "SELECT current_setting('synchronous_standby_names'), current_setting('fsync'),
                     current_setting('full_page_writes'),
                     (SELECT COUNT(*) FROM pg_stat_replication)",
                params![],
                |r| {
                    Ok(Settings {
                        standby_names: r.get(0)?,
                        fsync: r.get(1)?,
                        full_page_writes: r.get(2)?,
                        standbys: r.get(3)?,
                    })
                },
            )
        })
    }

    /// Keys that belong to nodes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keys_of_nodes(&self) -> Result<BTreeSet<String>, StoreError> {
        self.sql(|c| {
            c.prepare_cached("SELECT key FROM node_keys")?
                .query_map(params![], |r| r.get(0))?
                .collect()
        })
    }

    /// All controllers that have been heard: the leader, and by name who stands by.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn controllers(&self) -> Result<Vec<ControllerRow>, StoreError> {
        let query = format!(
            "SELECT holder, address, CASE WHEN released THEN 2 WHEN {OVER} THEN 1 ELSE 0 END, 0
             FROM leader WHERE id = 1 AND holder <> ''
             UNION ALL SELECT name, address, 3,
                 CAST(EXTRACT(EPOCH FROM clock_timestamp() - at) * 1000 AS BIGINT)
             FROM controllers WHERE name NOT IN
                 (SELECT holder FROM leader WHERE NOT released AND NOT {OVER})
             ORDER BY 3, 1"
        );
        let row = |r: &Row<'_>| {
            Ok(ControllerRow {
                name: r.get(0)?,
                address: r.get(1)?,
                role: match r.get(2)? {
                    0 => ControllerRole::Leads,
                    1 | 2 => ControllerRole::Led,
                    _ => ControllerRole::StandsBy,
                },
                silent_ms: r.get::<i64>(3)?.max(0).unsigned_abs(),
            })
        };
        let mut all: Vec<ControllerRow> = self.sql(|c| {
            c.prepare_cached(&query)?
                .query_map(params![], row)?
                .collect()
        })?;
        // Who led and stands by now is there once.
        let by: BTreeSet<String> = all
            .iter()
            .filter(|row| row.role == ControllerRole::StandsBy)
            .map(|row| row.name.clone())
            .collect();
        all.retain(|row| row.role != ControllerRole::Led || !by.contains(&row.name));
        Ok(all)
    }

    /// From now on this store is the leader's: it writes batches in the lead's name.
    pub fn set_lead(&mut self, lead: Lead) {
        self.fence(lead.epoch());
        self.lead = Some(lead);
    }

    /// From now on it writes only while that epoch is the database's.
    pub fn fence(&mut self, epoch: u64) {
        if let Connection::Postgres(c) = &mut self.connection
            && let Err(e) = c.set_fence(epoch)
        {
            // It fails at the next statement too, and is opened anew.
            tracing::debug!("a connection to the database fails: {e}");
        }
        if let Location::Postgres { fence, .. } = &mut self.location {
            *fence = Some(epoch);
        }
    }

    /// The lead in whose name it writes.
    pub const fn lead(&self) -> Option<&Lead> {
        self.lead.as_ref()
    }

    /// Renews the lead; waits until the database answers.
    ///
    /// # Errors
    /// [`StoreError::Deposed`]; others of the database.
    pub fn renew(&mut self) -> Result<(), StoreError> {
        let Some(lead) = self.lead.clone() else {
            return Ok(());
        };
        let sent_at = clock::since_boot();
        let done = self.sql(|c| {
            c.prepare_cached(
                "UPDATE leader SET renewals = renewals + 1,
                     until = clock_timestamp() + CAST(?3 AS BIGINT) * interval '1 millisecond'
                 WHERE id = 1 AND epoch = ?1 AND session = ?2 AND NOT released",
            )?
            .execute(params![lead.epoch(), lead.session.0, lead.lease_ms()])
        });
        match done {
            Ok(1) => self.confirmed(sent_at),
            Ok(_) => drop(self.find_out(lead.last)?),
            Err(e) if e.is_lost() => drop(self.find_out(lead.last)?),
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Lays the lead down, for that controller first if one is named.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn release(&mut self, next: &str) -> Result<(), StoreError> {
        let Some(lead) = self.lead.take() else {
            return Ok(());
        };
        self.sql(|c| {
            c.prepare_cached(
                "UPDATE leader SET released = true, next = ?3, renewals = renewals + 1
                 WHERE id = 1 AND epoch = ?1 AND session = ?2 AND NOT released",
            )?
            .run(params![lead.epoch(), lead.session.0, next])
        })
    }

    /// Carries a batch out in the lead's name: once, however often the way to the server is lost.
    ///
    /// # Errors
    /// [`StoreError::Deposed`]: nobody knows what has become of it. Others: it was not carried out.
    pub(super) fn commit_led(
        &mut self,
        work: impl Fn(&Connection) -> sql::Result<()>,
    ) -> Result<(), StoreError> {
        loop {
            let Some(lead) = self.lead.clone() else {
                return Err(StoreError::Deposed);
            };
            let batch = lead.last.next();
            let sent_at = clock::since_boot();
            let done = self.send_batch(&lead, batch, &work);
            match done {
                Ok(()) if !self.has_warned() => {
                    self.confirmed(sent_at);
                    self.have_sent(batch);
                    return Ok(());
                }
                Err(e) if !e.is_lost() && !e.is_deposed() => return Err(e),
                Ok(()) | Err(_) => {}
            }
            match self.find_out(batch)? {
                Outcome::Committed => return Ok(()),
                Outcome::NotCommitted => tracing::info!("batch {batch} is sent again"),
                Outcome::Deposed => return Err(StoreError::Deposed),
            }
        }
    }

    fn send_batch(
        &self,
        lead: &Lead,
        batch: BatchNumber,
        work: impl Fn(&Connection) -> sql::Result<()>,
    ) -> Result<(), StoreError> {
        let Connection::Postgres(c) = &self.connection else {
            return Err(StoreError::Deposed);
        };
        let values = [lead.epoch(), lead.session.0, batch.0, lead.lease_ms()].map(number);
        let sent = c.transact_after(Some((dialect::BATCH, &values[..])), || work(&self.connection));
        sent.map_err(|source| self.error(source))
    }

    /// Claims the row over a connection that works, however long that takes: what has become of a
    /// batch. The lead goes on, unless that matches nothing.
    fn find_out(&mut self, batch: BatchNumber) -> Result<Outcome, StoreError> {
        let Some(lead) = self.lead.clone() else {
            return Err(StoreError::Deposed);
        };
        let (mut said, mut fails) = (false, false);
        loop {
            if fails || self.is_closed() {
                match Self::connect(&self.location, true) {
                    Ok(opened) => self.connection = opened.connection,
                    Err(e) => {
                        if !std::mem::replace(&mut said, true) {
                            tracing::error!(
                                "{e}; what was sent is looked for until that works again"
                            );
                        }
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                }
            }
            let sent_at = clock::since_boot();
            match self.claim(&lead.candidate, lead.leadership.epoch()) {
                Ok(claimed) => {
                    let outcome = outcome_of(batch, claimed);
                    let Some(claimed) = claimed else {
                        self.lead = None;
                        return Err(StoreError::Deposed);
                    };
                    if let Some(lead) = &mut self.lead {
                        lead.session = claimed.session;
                        lead.last = claimed.last;
                        lead.leadership.confirmed(sent_at);
                    }
                    return Ok(outcome);
                }
                Err(e) => tracing::warn!("the row of the leader cannot be claimed: {e}"),
            }
            fails = true;
            std::thread::sleep(PAUSE);
        }
    }

    fn confirmed(&mut self, sent_at: cosy_lease::Moment) {
        if let Some(lead) = &mut self.lead {
            lead.leadership.confirmed(sent_at);
        }
    }

    fn have_sent(&mut self, batch: BatchNumber) {
        if let Some(lead) = &mut self.lead {
            lead.last = batch;
        }
    }

    /// Nothing can be asked over the connection any more.
    fn is_closed(&self) -> bool {
        matches!(&self.connection, Connection::Postgres(c) if c.is_closed())
    }

    fn has_warned(&self) -> bool {
        match &self.connection {
            Connection::Sqlite(_) => false,
            Connection::Postgres(c) => c.has_warned(),
        }
    }
}

impl StoreError {
    /// The way to the server was lost, or it gave up waiting: what has become of it is unknown.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Sql { source, .. } if postgres::is_lost(source))
    }

    /// The leader's row is not as this leader left it.
    pub fn is_deposed(&self) -> bool {
        match self {
            Self::Deposed => true,
            Self::Sql { source, .. } => postgres::is_deposed(source),
            Self::Row { .. }
            | Self::Archive { .. }
            | Self::Promise(_)
            | Self::Unfinished { .. }
            | Self::TooNew { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
