//! Reservations, accounts, the ledger and figures in the store.
//!
//! Knows nothing of what they mean. What always holds: a line of the ledger is never
//! changed or removed, the database itself refuses it; a reservation's row stays for ever
//! and its id is never given out again.

use super::set_aside::{Table, Unit, Unreadable};
use super::sql::{self, Connection, OwnedValue, params};
use super::{Store, StoreError, decode, encode};
use cosy_control::{AccountRow, FiguresRow, HourPriceRow, Loaded, ReservationRow, UsageRow};
use cosy_model::reservation::LedgerEntry;
use cosy_model::{ReservationId, Span, Su, Time, Uid, limits};

/// Schema 2.
///
/// `ended` is null while a reservation is live. In the ledger, `payer` and `payee` are the
/// accounts that the books belong to, or null for the books of the cluster itself.
pub(super) const TABLES: &str = "
    CREATE TABLE reservations (
        id INTEGER PRIMARY KEY, live INTEGER NOT NULL, uid INTEGER NOT NULL,
        account TEXT, state TEXT NOT NULL, start INTEGER NOT NULL, ended INTEGER,
        row BLOB NOT NULL) STRICT;
    CREATE INDEX reservations_live ON reservations(id) WHERE live = 1;
    CREATE INDEX reservations_ended ON reservations(ended) WHERE ended IS NOT NULL;
    CREATE INDEX reservations_uid ON reservations(uid);
    CREATE TABLE accounts (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE ledger (
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, source TEXT NOT NULL,
        target TEXT NOT NULL, payer TEXT, payee TEXT, sum INTEGER NOT NULL CHECK (sum >= 0),
        reservation INTEGER, why TEXT NOT NULL, who TEXT NOT NULL) STRICT;
    CREATE INDEX ledger_payer ON ledger(payer, seq) WHERE payer IS NOT NULL;
    CREATE INDEX ledger_payee ON ledger(payee, seq) WHERE payee IS NOT NULL;
    CREATE INDEX ledger_reservation ON ledger(reservation, seq) WHERE reservation IS NOT NULL;
    CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger
        BEGIN SELECT RAISE(ABORT, 'a line of the ledger is never changed'); END;
    CREATE TRIGGER ledger_is_not_shortened BEFORE DELETE ON ledger
        BEGIN SELECT RAISE(ABORT, 'a line of the ledger is never removed'); END;
    CREATE TABLE figures (at INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT;
    CREATE TABLE hour_prices (hour INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT;
";

/// Reservations that have ended are remembered by the controller for so long.
const REMEMBERED: Span = Span::from_secs(86_400);

/// Keeps what a user has used in an account.
pub(super) fn write_usage(transaction: &Connection, row: &UsageRow) -> sql::Result<()> {
    transaction
        .prepare_cached("INSERT INTO usage (name, row) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET row = excluded.row")?
        .run(params![row.key().0, encode(row)?])
}

/// Keeps what an hour of the week usually costs.
pub(super) fn write_hour_price(transaction: &Connection, row: &HourPriceRow) -> sql::Result<()> {
    transaction
        .prepare_cached("INSERT INTO hour_prices (hour, row) VALUES (?1, ?2) ON CONFLICT (hour) DO UPDATE SET row = excluded.row")?
        .run(params![row.hour, encode(row)?])
}

/// Which lines of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LedgerQuery {
    /// Only those that touch this account.
    pub account: Option<String>,
    /// Only those for this reservation.
    pub reservation: Option<ReservationId>,
    /// Only those with a higher number.
    pub after: u64,
    /// At most so many.
    pub most: u32,
    /// Only those that the reader may see; all without.
    pub reader: Option<Reader>,
}

/// A user who may see only some lines of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Lines for this user's reservations,
    pub uid: Uid,
    /// and lines that touch one of these accounts.
    pub accounts: Vec<String>,
}

impl Store {
    /// Puts into `loaded` what is to be remembered of reservations and money.
    pub(super) fn load_bookings(
        &self,
        loaded: &mut Loaded,
        bad: &mut Unreadable,
    ) -> Result<(), StoreError> {
        loaded.reservations = self.remembered(bad)?;
        loaded.next_reservation =
            self.number("SELECT COALESCE(MAX(id), 0) + 1 FROM reservations")?;
        let rows = |(_, row)| row;
        let accounts = self.named::<String, AccountRow>(Table::Accounts, bad)?;
        loaded.accounts = accounts.into_iter().map(rows).collect();
        loaded.last_entry = self.number("SELECT COALESCE(MAX(seq), 0) FROM ledger")?;
        let figures = self.named::<i64, FiguresRow>(Table::Figures, bad)?;
        loaded.figures = figures.into_iter().map(|(_, row)| row).collect();
        let prices = self.named::<i64, HourPriceRow>(Table::HourPrices, bad)?;
        loaded.hour_prices = prices.into_iter().map(|(_, row)| row).collect();
        let usage = self.named::<String, UsageRow>(Table::Usage, bad)?;
        loaded.usage = usage.into_iter().map(|(_, row)| row).collect();
        Ok(())
    }

    /// Live reservations, and those that ended less than [`REMEMBERED`] before the last
    /// thing that happened: without a clock, and never less than that before now.
    fn remembered(&self, bad: &mut Unreadable) -> Result<Vec<ReservationRow>, StoreError> {
        let rows: Vec<(u64, Vec<u8>)> = self.sql(|c| {
            c.prepare_cached(
                "SELECT id, row FROM reservations WHERE (live = 1 OR ended >= COALESCE(
                    (SELECT at FROM events ORDER BY seq DESC LIMIT 1),
                    (SELECT MAX(ended) FROM reservations)) - ?1)
                 AND CAST(id AS TEXT) NOT IN (SELECT object FROM set_aside WHERE source = 'reservation')
                 ORDER BY id",
            )?
            .query_map(params![REMEMBERED.ms()], |r| Ok((r.get(0)?, r.get(1)?)))?
            .collect()
        })?;
        let mut all = Vec::with_capacity(rows.len());
        for (id, blob) in rows {
            match decode("reservations", &blob) {
                Ok(row) => all.push(row),
                Err(e) => bad.push((Unit::Reservation(ReservationId(id)), e.to_string())),
            }
        }
        Ok(all)
    }

    /// All accounts that can be read, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn accounts(&self) -> Result<Vec<AccountRow>, StoreError> {
        let rows = self.named::<String, AccountRow>(Table::Accounts, &mut Unreadable::new())?;
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Lines of the ledger by number, at most [`limits::LEDGER_ROWS`] and no more than a page.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn ledger(&self, query: &LedgerQuery) -> Result<Vec<LedgerEntry>, StoreError> {
        let (conditions, mut values) = conditions(query);
        let most = (query.most as usize).min(limits::LEDGER_ROWS);
        let text = format!(
            "SELECT seq, at, source, target, sum, reservation, why, who FROM ledger
             WHERE seq > ? {conditions} ORDER BY seq LIMIT {most}"
        );
        let after = i64::try_from(query.after).unwrap_or(i64::MAX);
        values.insert(0, OwnedValue::from(after));
        let bytes = |line: &LedgerEntry| {
            LINE_BYTES + line.from.len() + line.to.len() + line.why.len() + line.who.len()
        };
        self.sql(|c| {
            let mut query = c.prepare_cached(&text)?;
            let lines = query.query_map(&values[..], entry)?;
            super::page_of(lines, bytes)
        })
    }
}

/// Bytes of a line of the ledger beside its texts.
const LINE_BYTES: usize = 100;

/// Conditions beside the cursor, with their values.
fn conditions(query: &LedgerQuery) -> (String, Vec<OwnedValue>) {
    let mut text = String::new();
    let mut values = Vec::new();
    if let Some(account) = &query.account {
        text.push_str(" AND (payer = ? OR payee = ?)");
        values.extend([account, account].map(|a| OwnedValue::from(a.clone())));
    }
    if let Some(id) = query.reservation {
        text.push_str(" AND reservation = ?");
        values.push(OwnedValue::from(id.0.cast_signed()));
    }
    if let Some(reader) = &query.reader {
        // One value however many accounts there are: a statement takes 32,766 at most.
        const MINE: &str = "(SELECT value FROM json_each(?))";
        text.push_str(&format!(
            " AND (reservation IN (SELECT id FROM reservations WHERE uid = ?)
                   OR payer IN {MINE} OR payee IN {MINE})"
        ));
        let accounts = serde_json::Value::from(reader.accounts.clone()).to_string();
        values.push(OwnedValue::from(i64::from(reader.uid.0)));
        values.extend([
            OwnedValue::from(accounts.clone()),
            OwnedValue::from(accounts),
        ]);
    }
    (text, values)
}

fn entry(row: &sql::Row<'_>) -> sql::Result<LedgerEntry> {
    Ok(LedgerEntry {
        seq: row.get(0)?,
        at: Time(row.get(1)?),
        from: row.get(2)?,
        to: row.get(3)?,
        sum: Su(row.get(4)?),
        reservation: row.get::<Option<u64>>(5)?.map(ReservationId),
        why: row.get(6)?,
        who: row.get(7)?,
    })
}

/// The account that a book belongs to: `ACCOUNT` of `ACCOUNT` and `ACCOUNT:held`, none of
/// the cluster's own books.
pub(super) fn owner(book: &str) -> Option<&str> {
    match book {
        "grants" | "income" => None,
        account => Some(account.strip_suffix(":held").unwrap_or(account)),
    }
}

pub(super) fn write_reservation(t: &Connection, row: &ReservationRow) -> sql::Result<()> {
    let live = row.state.is_live();
    t.prepare_cached(
        "INSERT INTO reservations (id, live, uid, account, state, start, ended, row)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO UPDATE SET live = excluded.live, uid = excluded.uid, account = excluded.account, state = excluded.state, start = excluded.start, ended = excluded.ended, row = excluded.row",
    )?
    .run(params![
        row.id.0,
        live,
        row.uid.0,
        row.account,
        row.state.word(),
        row.start.0,
        (!live).then_some(row.closed.unwrap_or(row.end).0),
        encode(row)?
    ])
}

pub(super) fn write_entry(t: &Connection, line: &LedgerEntry) -> sql::Result<()> {
    t.prepare_cached(
        "INSERT INTO ledger (seq, at, source, target, payer, payee, sum, reservation, why, who)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .run(params![
        line.seq,
        line.at.0,
        line.from,
        line.to,
        owner(&line.from),
        owner(&line.to),
        line.sum.0,
        line.reservation.map(|id| id.0),
        line.why,
        line.who
    ])
}
