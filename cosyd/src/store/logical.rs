//! The tables that are the state of a cluster, column by column, in whichever database they are; rows
//! as values, and sums over them that are the same in both.
//!
//! Not among them: what says how far a database itself has come (schema, leader, batches, copies),
//! where old jobs are in files (`archives`, `leaving`), and what is counted anew (`end_days`).
//! Knows nothing of what rows mean.

use super::sql::value::without_nul;
use super::sql::{self, Connection, OwnedValue, Row};
use ring::digest::{Context, SHA256};
use std::fmt;

/// Type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Numbers, and truth as 0 or 1.
    Integer,
    /// Characters in UTF-8.
    Text,
    /// Any bytes.
    Blob,
}

use Kind::{Blob, Integer, Text};

/// A table of the state.
#[derive(Debug)]
pub struct Table {
    /// Its name in both databases.
    pub name: &'static str,
    /// By which its rows are told apart; they are the first columns.
    pub keys: usize,
    /// All columns.
    pub columns: &'static [(&'static str, Kind)],
    /// Which rows belong to the state; all without.
    only: Option<&'static str>,
    /// A row may have megabytes.
    large: bool,
}

const fn table(name: &'static str, keys: usize, columns: &'static [(&'static str, Kind)]) -> Table {
    Table {
        name,
        keys,
        columns,
        only: None,
        large: false,
    }
}

/// The numbers that were given out. What a copy itself keeps there is left out.
pub const COUNTERS: &str = "counters";

const NAMED: &[(&str, Kind)] = &[("name", Text), ("row", Blob)];

/// All of them.
pub static TABLES: [Table; 33] = [
    Table {
        large: true,
        ..table("submissions", 1, SUBMISSIONS)
    },
    table("jobs", 1, JOBS),
    table("runs", 2, RUNS),
    table("bodies", 2, &[("base", Integer), ("number", Integer), ("row", Blob)]),
    table("steps", 3, STEPS),
    table("standings", 1, &[("base", Integer), ("row", Blob)]),
    table("live_submissions", 1, &[("base", Integer)]),
    table("undropped", 1, &[("base", Integer)]),
    table("progress", 1, &[("what", Text), ("ended", Integer), ("id", Integer)]),
    table("events", 1, EVENTS),
    table("nodes", 1, NAMED),
    table("queues", 1, NAMED),
    table("own_queues", 1, NAMED),
    table("accounts", 1, NAMED),
    table("policy", 1, NAMED),
    table("usage", 1, NAMED),
    table("license_use", 1, NAMED),
    table("node_keys", 1, &[("name", Text), ("key", Text)]),
    table("revoked_keys", 1, &[("key", Text), ("node", Text), ("at", Integer)]),
    table("tokens", 1, &[("hash", Text), ("node", Text), ("expiry", Integer)]),
    table(
        "answers",
        2,
        &[
            ("uid", Integer),
            ("key", Blob),
            ("at", Integer),
            ("reply", Blob),
        ],
    ),
    table("reservations", 1, RESERVATIONS),
    table("ledger", 1, LEDGER),
    table("figures", 1, &[("at", Integer), ("row", Blob)]),
    table("hour_prices", 1, &[("hour", Integer), ("row", Blob)]),
    Table {
        large: true,
        ..table("flows", 1, FLOWS)
    },
    table("flow_tasks", 2, &[("flow", Integer), ("task", Integer), ("row", Blob)]),
    table("triggers", 1, &[("id", Integer), ("row", Blob)]),
    table("older", 2, &[("at", Integer), ("row", Blob)]),
    table("clock", 1, &[("id", Integer), ("row", Blob)]),
    Table {
        only: Some("name NOT IN ('epoch', 'jobs')"),
        ..table(COUNTERS, 1, &[("name", Text), ("value", Integer)])
    },
    table("set_aside", 1, SET_ASIDE),
    table("restored", 1, &[("id", Integer), ("row", Blob)]),
];

const SUBMISSIONS: &[(&str, Kind)] = &[
    ("base", Integer),
    ("ids", Integer),
    ("uid", Integer),
    ("user", Text),
    ("queue", Text),
    ("name", Text),
    ("account", Text),
    ("submit", Integer),
    ("live", Integer),
    ("row", Blob),
    ("environment", Blob),
    ("script", Blob),
    ("flow", Integer),
    ("dropped", Integer),
];

const JOBS: &[(&str, Kind)] = &[
    ("id", Integer),
    ("base", Integer),
    ("state", Text),
    ("start", Integer),
    ("ended", Integer),
    ("row", Blob),
    ("body", Integer),
];

const RUNS: &[(&str, Kind)] = &[
    ("id", Integer),
    ("attempt", Integer),
    ("base", Integer),
    ("state", Text),
    ("start", Integer),
    ("ended", Integer),
    ("row", Blob),
];

const STEPS: &[(&str, Kind)] = &[
    ("job", Integer),
    ("attempt", Integer),
    ("before", Integer),
    ("count", Integer),
    ("user_us", Integer),
    ("system_us", Integer),
    ("peak", Integer),
    ("records", Blob),
    ("exit_code", Integer),
    ("signal", Integer),
];

const EVENTS: &[(&str, Kind)] = &[
    ("seq", Integer),
    ("at", Integer),
    ("what", Text),
    ("who", Text),
    ("object", Text),
    ("detail", Text),
];

const RESERVATIONS: &[(&str, Kind)] = &[
    ("id", Integer),
    ("live", Integer),
    ("uid", Integer),
    ("account", Text),
    ("state", Text),
    ("start", Integer),
    ("ended", Integer),
    ("row", Blob),
];

const LEDGER: &[(&str, Kind)] = &[
    ("seq", Integer),
    ("at", Integer),
    ("source", Text),
    ("target", Text),
    ("payer", Text),
    ("payee", Text),
    ("sum", Integer),
    ("reservation", Integer),
    ("why", Text),
    ("who", Text),
];

const FLOWS: &[(&str, Kind)] = &[
    ("id", Integer),
    ("live", Integer),
    ("uid", Integer),
    ("name", Text),
    ("state", Text),
    ("ended", Integer),
    ("row", Blob),
    ("spec", Blob),
    ("environment", Blob),
];

const SET_ASIDE: &[(&str, Kind)] = &[
    ("id", Integer),
    ("source", Text),
    ("object", Text),
    ("at", Integer),
    ("why", Text),
    ("row", Blob),
];

/// The values of a row, in the order of the table's columns.
pub type Values = Vec<OwnedValue>;

impl Table {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// Names of its columns, in quotes.
    pub(super) fn names(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Columns of the key, in quotes.
    fn order(&self) -> String {
        let keys = self.columns.iter().take(self.keys);
        let names = keys.map(|(name, _)| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Gives the rows of the table behind a key to `take`, in the order of keys; which text comes
    /// before which other one, each database has its own mind about.
    ///
    /// # Errors
    /// The database fails, or `take` does.
    pub fn each<E: From<sql::Error>>(
        &self,
        c: &Connection,
        after: &[OwnedValue],
        mut take: impl FnMut(Values) -> Result<(), E>,
    ) -> Result<(), E> {
        let order = self.order();
        let marks: Vec<String> = (1..=after.len()).map(|n| format!("?{n}")).collect();
        let mut conditions: Vec<String> = self.only.iter().map(|only| (*only).to_owned()).collect();
        if !after.is_empty() {
            conditions.push(format!("({order}) > ({})", marks.join(", ")));
        }
        let conditions = match conditions.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", conditions.join(" AND ")),
        };
        let query =
            format!("SELECT {} FROM \"{}\" {conditions} ORDER BY {order}", self.names(), self.name);
        self.rows(c, &query, after, &mut take)
    }

    /// Gives what a query finds to `take`, whose columns are the table's.
    ///
    /// # Errors
    /// The database fails, or `take` does.
    pub(super) fn rows<E: From<sql::Error>>(
        &self,
        c: &Connection,
        query: &str,
        values: &[OwnedValue],
        take: &mut impl FnMut(Values) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Connection::Postgres(c) = c {
            c.expect_large_rows(self.large);
        }
        let mut statement = c.prepare_cached(query)?;
        let mut rows = statement.query(values)?;
        while let Some(found) = rows.next_with(|row| self.values(row))? {
            take(found)?;
        }
        Ok(())
    }

    fn values(&self, row: &Row<'_>) -> sql::Result<Values> {
        let value = |(at, (_, kind)): (usize, &(&str, Kind))| {
            Ok(match kind {
                Integer => row.get::<Option<i64>>(at)?.map(OwnedValue::Integer),
                Text => row.get::<Option<String>>(at)?.map(OwnedValue::Text),
                Blob => row.get::<Option<Vec<u8>>>(at)?.map(OwnedValue::Blob),
            }
            .unwrap_or(OwnedValue::Null))
        };
        self.columns.iter().enumerate().map(value).collect()
    }

    /// How a row is put in; where there is one with its key, that stays.
    pub(super) fn insertion(&self) -> String {
        let marks: Vec<String> = (1..=self.columns.len()).map(|n| format!("?{n}")).collect();
        format!(
            "INSERT INTO \"{}\" ({}) VALUES ({}) ON CONFLICT DO NOTHING",
            self.name,
            self.names(),
            marks.join(", ")
        )
    }

    /// Whether there is no row that belongs to the state.
    ///
    /// # Errors
    /// The database fails.
    pub fn is_empty(&self, c: &Connection) -> sql::Result<bool> {
        let only = self
            .only
            .map_or(String::new(), |only| format!("WHERE {only}"));
        let query = format!("SELECT EXISTS (SELECT 1 FROM \"{}\" {only})", self.name);
        c.query_row(&query, sql::params![], |r| r.get::<bool>(0))
            .map(|found| !found)
    }

    /// Rows that belong to the state, and the key of the last of them, in words.
    ///
    /// # Errors
    /// The database fails.
    pub(super) fn extent(&self, c: &Connection) -> sql::Result<String> {
        let only = self
            .only
            .map_or(String::new(), |only| format!("WHERE {only}"));
        let count = format!("SELECT COUNT(*) FROM \"{}\" {only}", self.name);
        let count: u64 = c.query_row(&count, sql::params![], |r| r.get(0))?;
        let order = self.order().replace(", ", " DESC, ");
        let last = format!(
            "SELECT {} FROM \"{}\" {only} ORDER BY {order} DESC LIMIT 1",
            self.names(),
            self.name
        );
        let mut key = String::new();
        self.rows::<sql::Error>(c, &last, &[], &mut |values| {
            key = format!("{:?}", values.get(..self.keys));
            Ok(())
        })?;
        Ok(format!("{}:{count}:{key}", self.name))
    }
}

/// What rows add up to, in whichever order: how many, and their digests as one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    /// How many.
    pub rows: u64,
    /// The sum of their SHA-256 as numbers, of which the lowest part comes first.
    digest: [u64; 4],
}

impl Sum {
    /// With a row more.
    pub fn add(&mut self, values: &[OwnedValue]) {
        let mut context = Context::new(&SHA256);
        for value in values {
            let mut part = |tag: u8, bytes: &[u8]| {
                context.update(&[tag]);
                context.update(&(bytes.len() as u64).to_le_bytes());
                context.update(bytes);
            };
            match value {
                OwnedValue::Null => part(0, &[]),
                OwnedValue::Integer(n) => part(1, &n.to_le_bytes()),
                OwnedValue::Text(text) => part(2, without_nul(text).as_bytes()),
                OwnedValue::Blob(bytes) => part(3, bytes),
            }
        }
        let digest = context.finish();
        let mut carry = false;
        for (own, bytes) in self.digest.iter_mut().zip(digest.as_ref().chunks_exact(8)) {
            let limb = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let (sum, over) = own.overflowing_add(limb);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            (*own, carry) = (sum, over || over_again);
        }
        self.rows += 1;
    }
}

/// The first digits of the digest.
impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, ..] = self.digest;
        write!(f, "{first:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_tell_every_byte_and_no_order() {
        let rows: [Values; 3] = [
            vec![OwnedValue::Integer(1), OwnedValue::Text("ab".into())],
            vec![OwnedValue::Integer(2), OwnedValue::Null],
            vec![OwnedValue::Integer(3), OwnedValue::Blob(vec![0, 255])],
        ];
        let sum = |rows: &[&Values]| {
            let mut sum = Sum::default();
            rows.iter().for_each(|row| sum.add(row));
            sum
        };
        let [a, b, c] = &rows;
        let whole = sum(&[a, b, c]);
        assert_eq!(sum(&[c, a, b]), whole);
        assert_ne!(sum(&[a, b]), whole);
        assert_ne!(sum(&[a, b, b]), whole);
        let changed = vec![OwnedValue::Integer(3), OwnedValue::Blob(vec![0, 254])];
        assert_ne!(sum(&[a, b, &changed]), whole);
        // Where a value ends is told too.
        let split = |one: &str, other: &str| {
            sum(&[&vec![
                OwnedValue::Text(one.into()),
                OwnedValue::Text(other.into()),
            ]])
        };
        assert_ne!(split("ab", "c"), split("a", "bc"));
    }
}
