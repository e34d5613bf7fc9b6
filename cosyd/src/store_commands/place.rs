//! Which store is meant: that of a configuration, a file, or a database on a server.

use crate::config;
use crate::store::Location;
use crate::store::backup::folder_of;
use crate::store::sql::postgres::{self, Settings};
use anyhow::{anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A store that is named on the command line.
pub(super) struct Place {
    pub(super) location: Location,
    /// Where its controllers lock, and its archives are, for a store in a file.
    folder: Option<PathBuf>,
}

impl Place {
    /// `sqlite:PATH`, `postgres:CONNECTION`, or the path of a configuration, read for the controller of
    /// that name.
    pub(super) fn of(text: &str, name: Option<&str>) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            return Ok(Self::of_file(Path::new(path)));
        }
        let is_address = ["postgres://", "postgresql://"]
            .iter()
            .any(|start| text.starts_with(start));
        let connection = match is_address {
            true => Some(text),
            false => text.strip_prefix("postgres:"),
        };
        if let Some(connection) = connection {
            let settings = Settings {
                connection: connection.to_owned(),
                ..Settings::default()
            };
            let place =
                postgres::Place::of(&settings).map_err(|why| anyhow!("{connection}: {why}"))?;
            return Ok(Self {
                location: Location::Postgres { place, fence: None },
                folder: None,
            });
        }
        let config = config::read_as(Path::new(text), name)
            .map_err(|faults| anyhow!("the configuration has faults:\n{}", faults.0.join("\n")))?;
        let location = config.daemon.database();
        Ok(Self {
            folder: match &location {
                Location::Sqlite(_) => Some(config.daemon.state_dir.clone()),
                Location::Postgres { .. } => None,
            },
            location,
        })
    }

    /// A store in that file.
    pub(super) fn of_file(path: &Path) -> Self {
        Self {
            location: Location::Sqlite(path.to_owned()),
            folder: Some(folder_of(path).to_owned()),
        }
    }

    /// The folder of a store in a file.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.folder.clone()
    }

    /// Where it is, as far as two of them can be told to be the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let real = |place: &Self| match &place.location {
            Location::Sqlite(path) => fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
            Location::Postgres { place, .. } => PathBuf::from(place.to_string()),
        };
        real(self) == real(other)
    }

    /// A file that is not there would be made by looking at it.
    pub(super) fn must_be_there(&self) -> anyhow::Result<()> {
        match &self.location {
            Location::Sqlite(path) if !path.is_file() => bail!("there is no {}", path.display()),
            Location::Sqlite(_) | Location::Postgres { .. } => Ok(()),
        }
    }
}
