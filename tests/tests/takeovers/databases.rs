//! Two database servers, one of which follows the other, and what they have seen.
//!
//! A witness in the database: before a controller changes a table, it is looked whether that one leads.
//! It says so in the server's log, where it stays also when the transaction is undone.

use cosy_postgres::{Options, Server};
use cosy_tests::wait;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// What a controller's connection says of whose it is.
pub const WHOSE: &str = "checker.controller";
/// What the witness says.
const LATE: &str = "checker: a controller that does not lead";
/// What the database says to a batch that comes late.
const REFUSED: &str = "the lead was claimed by another";

/// Beside a controller's own tables there are the row of the leader, which is fought for, and the table
/// of those who stand by.
const WITNESS: &str = "
    CREATE FUNCTION checker_looks() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        mine TEXT := current_setting('checker.controller', true);
        row RECORD;
    BEGIN
        SELECT holder, epoch, released INTO row FROM leader WHERE id = 1;
        IF row.holder IS DISTINCT FROM mine OR row.released THEN
            RAISE LOG 'checker: a controller that does not lead: % changes %, epoch % of %',
                mine, TG_TABLE_NAME, row.epoch, row.holder;
        END IF;
        RETURN NULL;
    END $$;
    DO $$
    DECLARE
        name TEXT;
    BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
            AND tablename NOT IN ('leader', 'controllers')
        LOOP
            EXECUTE format('CREATE TRIGGER checker BEFORE INSERT OR UPDATE OR DELETE ON %I
                FOR EACH STATEMENT EXECUTE FUNCTION checker_looks()', name);
        END LOOP;
    END $$;
";

/// Two database servers: one that is written to, and one that follows.
pub struct Databases {
    folder: TempDir,
    first: Server,
    second: Server,
    /// Which of the two places each is at.
    places: [usize; 2],
    number: usize,
    /// Late batches that servers of before have refused.
    refused: usize,
}

fn options() -> Options {
    Options {
        ends_with_thread: true,
        ..Default::default()
    }
}

impl Databases {
    pub fn start() -> Self {
        let folder = cosy_postgres::own_temporary().unwrap();
        let first = Server::start(&folder.path().join("s0"), options()).unwrap();
        let second = first
            .follower(&folder.path().join("s1"), options())
            .unwrap();
        let both = Self {
            folder,
            first,
            second,
            places: [0, 1],
            number: 2,
            refused: 0,
        };
        both.wait_for_each_other();
        both
    }

    /// From now on it is looked who changes something. The tables must be there.
    pub fn watch(&self) {
        self.first.sql(WITNESS).unwrap();
    }

    /// From now on the first acknowledges only what the second has.
    fn wait_for_each_other(&self) {
        let name = self.second.directory().file_name().unwrap();
        let name = name.to_str().unwrap();
        let waits = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
        self.first.sql(&waits).unwrap();
        self.first.sql("SELECT pg_reload_conf()").unwrap();
        wait::until_true("the follower is waited for", || {
            let state = self.first.sql("SELECT sync_state FROM pg_stat_replication");
            state.is_ok_and(|state| state == "sync")
        });
    }

    /// The socket of the server at a place.
    pub fn socket(&self, place: usize) -> PathBuf {
        let server = match self.places[0] == place {
            true => &self.first,
            false => &self.second,
        };
        server.directory().join(".s.PGSQL.5432")
    }

    /// The first fails, the second takes its place, and another one follows that.
    pub fn fail_over(&mut self) {
        self.first.kill();
        self.look(&self.first);
        self.refused += refused(&self.first);
        self.second.promote().unwrap();
        // Nobody follows it yet.
        self.second
            .sql("ALTER SYSTEM SET synchronous_standby_names = ''")
            .unwrap();
        self.second.sql("SELECT pg_reload_conf()").unwrap();
        let path = self.folder.path().join(format!("s{}", self.number));
        self.number += 1;
        let new = self.second.follower(&path, options()).unwrap();
        let former = std::mem::replace(&mut self.second, new);
        let failed = std::mem::replace(&mut self.first, former);
        let directory = failed.directory().to_owned();
        drop(failed);
        let _ = fs::remove_dir_all(directory);
        self.places.swap(0, 1);
        self.wait_for_each_other();
    }

    /// The number of the last takeover.
    pub fn epoch(&self) -> u64 {
        let epoch = self.first.sql("SELECT epoch FROM leader");
        epoch.unwrap().parse().unwrap()
    }

    /// Nothing was changed by a controller that did not lead; how many of its batches were refused.
    pub fn check(&self) -> usize {
        self.look(&self.first);
        self.refused + refused(&self.first)
    }

    fn look(&self, server: &Server) {
        let log = log(server);
        let late: Vec<&str> = log.lines().filter(|line| line.contains(LATE)).collect();
        assert!(late.is_empty(), "{} changes, such as {}", late.len(), late[0]);
    }
}

fn log(server: &Server) -> String {
    let log = fs::read(server.directory().join("log")).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

fn refused(server: &Server) -> usize {
    let refusal = |line: &&str| line.contains("ERROR") && line.contains(REFUSED);
    log(server).lines().filter(refusal).count()
}
