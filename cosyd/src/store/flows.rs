//! Workflows in the store: one row for what never changes, one for each task.
//!
//! Knows nothing of what they mean. What always holds: the environment that all jobs of a
//! workflow share is kept once, with the workflow; its id is never given out again.

use super::set_aside::{Unit, Unreadable};
use super::sql::{self, Connection, params};
use super::{Store, StoreError, decode, encode};
use cosy_control::{FlowRow, FlowTaskRow, Loaded, LoadedFlow};
use cosy_model::workflow::FlowSpec;
use cosy_model::{FlowId, OsText, Span};

/// Schema 5. `ended` is null while a workflow lives.
pub(super) const TABLES: &str = "
    CREATE TABLE flows (
        id INTEGER PRIMARY KEY, live INTEGER NOT NULL, uid INTEGER NOT NULL,
        name TEXT NOT NULL, state TEXT NOT NULL, ended INTEGER, row BLOB NOT NULL,
        spec BLOB NOT NULL, environment BLOB NOT NULL) STRICT;
    CREATE INDEX flows_live ON flows(id) WHERE live = 1;
    CREATE INDEX flows_ended ON flows(ended) WHERE ended IS NOT NULL;
    CREATE TABLE flow_tasks (
        flow INTEGER NOT NULL, task INTEGER NOT NULL, row BLOB NOT NULL,
        PRIMARY KEY (flow, task)) STRICT, WITHOUT ROWID;
    ALTER TABLE submissions ADD COLUMN flow INTEGER;
";

/// Workflows that are over are remembered by the controller for so long.
const REMEMBERED: Span = Span::from_secs(86_400);

impl Store {
    /// Puts into `loaded` the workflows that live, and those that were over less than
    /// [`REMEMBERED`] before the last thing that happened.
    pub(super) fn load_flows(
        &self,
        loaded: &mut Loaded,
        bad: &mut Unreadable,
    ) -> Result<(), StoreError> {
        loaded.next_flow = self.number("SELECT COALESCE(MAX(id), 0) + 1 FROM flows")?;
        let found: Vec<(u64, Vec<u8>, Vec<u8>)> = self.sql(|c| {
            c.prepare_cached(
                "SELECT id, row, spec FROM flows WHERE (live = 1 OR ended >= COALESCE(
                    (SELECT at FROM events ORDER BY seq DESC LIMIT 1),
                    (SELECT MAX(ended) FROM flows)) - ?1)
                 AND CAST(id AS TEXT) NOT IN (SELECT object FROM set_aside WHERE source = 'workflow')
                 ORDER BY id",
            )?
            .query_map(params![REMEMBERED.ms()], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
            .collect()
        })?;
        for (id, row, spec) in found {
            match self.flow(FlowId(id), &row, &spec) {
                Ok(flow) => loaded.flows.push(flow),
                Err(e @ StoreError::Row { .. }) => {
                    bad.push((Unit::Flow(FlowId(id)), e.to_string()));
                }
                Err(
                    e @ (StoreError::Sql { .. }
                    | StoreError::Archive { .. }
                    | StoreError::Deposed
                    | StoreError::Promise(_)
                    | StoreError::Unfinished { .. }
                    | StoreError::TooNew { .. }),
                ) => return Err(e),
            }
        }
        Ok(())
    }

    fn flow(&self, id: FlowId, row: &[u8], spec: &[u8]) -> Result<LoadedFlow, StoreError> {
        Ok(LoadedFlow {
            row: decode("flows", row)?,
            spec: decode("flows", spec)?,
            tasks: self.flow_tasks(id)?,
        })
    }

    fn flow_tasks(&self, flow: FlowId) -> Result<Vec<FlowTaskRow>, StoreError> {
        let blobs: Vec<Vec<u8>> = self.sql(|c| {
            c.prepare_cached("SELECT row FROM flow_tasks WHERE flow = ?1 ORDER BY task")?
                .query_map(params![flow.0], |r| r.get(0))?
                .collect()
        })?;
        blobs.iter().map(|b| decode("flow_tasks", b)).collect()
    }
}

pub(super) fn write_made(
    t: &Connection,
    row: &FlowRow,
    spec: &FlowSpec,
    environment: &OsText,
) -> sql::Result<()> {
    t.prepare_cached(
        "INSERT INTO flows (id, live, uid, name, state, ended, row, spec, environment)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .run(params![
        row.id.0,
        row.is_live(),
        row.uid.0,
        spec.name,
        row.state.word(),
        row.closed.map(|at| at.0),
        encode(row)?,
        encode(spec)?,
        environment.0
    ])
}

pub(super) fn write_flow(t: &Connection, row: &FlowRow) -> sql::Result<()> {
    t.prepare_cached("UPDATE flows SET live = ?2, state = ?3, ended = ?4, row = ?5 WHERE id = ?1")?
        .run(params![
            row.id.0,
            row.is_live(),
            row.state.word(),
            row.closed.map(|at| at.0),
            encode(row)?
        ])
}

pub(super) fn write_task(t: &Connection, row: &FlowTaskRow) -> sql::Result<()> {
    t.prepare_cached("INSERT INTO flow_tasks (flow, task, row) VALUES (?1, ?2, ?3) ON CONFLICT (flow, task) DO UPDATE SET row = excluded.row")?
        .run(params![row.of.flow.0, row.of.task, encode(row)?])
}
