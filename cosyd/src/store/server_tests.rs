//! A PostgreSQL server for the tests of this thread.

use super::Location;
use super::sql::postgres::{Place, Settings};
use cosy_postgres::{Options, Server};
use std::cell::RefCell;
use tempfile::TempDir;

thread_local! {
    static SERVER: RefCell<Option<(Server, TempDir, usize)>> = const { RefCell::new(None) };
}

/// An empty database on the server, which is started at the first call.
pub fn database() -> Location {
    location(connection())
}

/// How an empty database is reached.
pub fn connection() -> String {
    make("template1").0
}

/// A copy of a database to which nobody is connected, and its name.
pub fn database_like(template: &str) -> (Location, String) {
    let (connection, name) = make(template);
    (location(connection), name)
}

fn location(connection: String) -> Location {
    let settings = Settings {
        connection,
        ..Settings::default()
    };
    Location::Postgres {
        place: Place::of(&settings).unwrap(),
        fence: None,
    }
}

fn make(template: &str) -> (String, String) {
    SERVER.with_borrow_mut(|kept| {
        let (server, _, number) = kept.get_or_insert_with(|| {
            let folder = cosy_postgres::own_temporary().unwrap();
            let options = Options {
                careless: true,
                ends_with_thread: true,
                ..Options::default()
            };
            let server = Server::start(&folder.path().join("s"), options).unwrap();
            (server, folder, 0)
        });
        *number += 1;
        let name = format!("t{number}");
        let like = format!(" TEMPLATE {template}");
        let connection = server.database(&format!("{name}{like}")).unwrap();
        (connection.replace(&like, ""), name)
    })
}

/// Whether servers can be started here; says so where not.
pub fn is_there() -> bool {
    let there = cosy_postgres::programs().is_some();
    if !there {
        cosy_skip::not_installed("PostgreSQL's server is not installed");
    }
    there
}

/// Carries statements out on the server, which runs.
pub fn sql(text: &str) -> String {
    SERVER.with_borrow(|kept| kept.as_ref().unwrap().0.sql(text).unwrap())
}

/// The socket of the server, which runs.
pub fn socket() -> std::path::PathBuf {
    SERVER.with_borrow(|kept| {
        let (server, _, _) = kept.as_ref().unwrap();
        server.directory().join(".s.PGSQL.5432")
    })
}

/// Name of the database that was made last.
pub fn latest_database() -> String {
    SERVER.with_borrow(|kept| format!("t{}", kept.as_ref().unwrap().2))
}
