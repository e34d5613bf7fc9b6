//! `[store]` of `cosy.toml`: a PostgreSQL server instead of a file, and what an answer promises.

use crate::store::sql::postgres::{Place, Settings};
use cosy_config::Check;
use cosy_model::Span;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// For how long a leader leads without a word to the database.
const LEASE: Duration = Duration::from_secs(3);
/// Shorter ones end when a host is merely busy.
const LEAST_LEASE: Duration = Duration::from_secs(1);
/// Longer ones are no help.
const LONGEST_LEASE: Duration = Duration::from_secs(60);

/// What an answer to a command promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// It survives the end of the controller and of the database, as long as its disk is there.
    #[default]
    Local,
    /// It is on the disks of two servers.
    Replicated,
}

/// A PostgreSQL server that has the state.
#[derive(Clone, Debug)]
pub struct StoreServer {
    /// Where it is.
    pub place: Place,
    /// The text of the file, by which two are compared.
    settings: Settings,
    /// What is asked of it.
    pub durability: Durability,
    /// For how long a leader leads without a word to it.
    pub lease: Duration,
}

impl PartialEq for StoreServer {
    fn eq(&self, other: &Self) -> bool {
        (&self.settings, self.durability, self.lease)
            == (&other.settings, other.durability, other.lease)
    }
}

impl Eq for StoreServer {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    postgres: Spanned<String>,
    password_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    durability: Option<Spanned<String>>,
    lease: Option<Spanned<String>>,
}

pub(super) fn read(check: &mut Check<'_>, table: Option<&Table>) -> Option<StoreServer> {
    let table = table?;
    let settings = Settings {
        connection: table.postgres.get_ref().clone(),
        password_file: table.password_file.clone(),
        ca: table.ca.clone(),
    };
    let place = match Place::of(&settings) {
        Ok(place) => place,
        Err(why) => {
            let at = table.postgres.span().start;
            check.fault(at, format!("postgres is libpq's way to a database, as \"host=db1,db2 dbname=cosy user=cosy\": {why}"));
            return None;
        }
    };
    let durability = match table
        .durability
        .as_ref()
        .map(|text| text.get_ref().as_str())
    {
        None | Some("local") => Durability::Local,
        Some("replicated") => Durability::Replicated,
        Some(_) => {
            let at = table
                .durability
                .as_ref()
                .map_or(0, |text| text.span().start);
            check.fault(at, "durability is \"local\" or \"replicated\"");
            Durability::Local
        }
    };
    Some(StoreServer {
        place,
        settings,
        durability,
        lease: lease(check, table.lease.as_ref()),
    })
}

fn lease(check: &mut Check<'_>, value: Option<&Spanned<String>>) -> Duration {
    let Some(given) = value else {
        return LEASE;
    };
    let span = check.span(Some(given), Span::from_secs(3));
    let lease = Duration::from_millis(span.ms().unsigned_abs());
    if !(LEAST_LEASE..=LONGEST_LEASE).contains(&lease) {
        check.fault(given.span().start, "lease is between 1s and 60s");
        return LEASE;
    }
    lease
}
