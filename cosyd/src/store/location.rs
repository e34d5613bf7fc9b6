//! Where a store is.

use super::sql::postgres::Place;
use super::sql::{Connection, Result, postgres};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long one who would write waits for another who does.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a store is.
#[derive(Clone)]
pub enum Location {
    /// In a file.
    Sqlite(PathBuf),
    /// On a server.
    Postgres {
        /// Which one.
        place: Place,
        /// The epoch in which alone something is written.
        fence: Option<u64>,
    },
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres { place, .. } => place.fmt(f),
        }
    }
}

impl Location {
    pub(super) fn connect(&self, writes: bool) -> Result<Connection> {
        Ok(match self {
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path)?;
                connection.busy_timeout(PATIENCE)?;
                Connection::Sqlite(connection)
            }
            Self::Postgres { place, fence } => {
                let mut connection = postgres::Connection::open(place, writes)?;
                if let Some(epoch) = fence {
                    connection.set_fence(*epoch)?;
                }
                Connection::Postgres(Box::new(connection))
            }
        })
    }
}
