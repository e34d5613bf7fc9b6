//! Rows of all other tables: whether they can be read, are what their columns say, and name what is
//! there.

use super::super::rows::decode;
use super::super::sql::postgres::number;
use super::super::sql::value::without_nul;
use super::super::sql::{self, Row};
use super::jobs::unreadable;
use super::{Check, Remedy};
use cosy_control::record::{OwnQueue, PolicyRow};
use cosy_control::{
    AccountRow, ClockRow, FiguresRow, FlowRow, FlowTaskRow, HourPriceRow, JobRow, NodeRow,
    OlderRow, ReservationRow, RestoredRow, StandingRow, SubmissionRow, TriggerRow, UsageRow,
};
use cosy_model::api::Reply;
use cosy_model::step::StepRecord;
use cosy_model::workflow::FlowSpec;
use cosy_model::{LicenseUse, QueueState};
use serde::de::DeserializeOwned;

/// Why the bytes are no such row; nothing where they are.
type Reads = fn(&[u8]) -> Option<String>;

fn reads<T: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    decode::<T>("", bytes).err().map(|e| unreadable(&e))
}

/// A column with records.
struct Records {
    table: &'static str,
    /// The key of a row, in one text.
    key: &'static str,
    column: &'static str,
    reads: Reads,
    /// What it is called where it is set aside.
    source: &'static str,
    remedy: Remedy,
}

const fn records(
    (table, key, column): (&'static str, &'static str, &'static str),
    reads: Reads,
    source: &'static str,
    remedy: Remedy,
) -> Records {
    Records {
        table,
        key,
        column,
        reads,
        source,
        remedy,
    }
}

const NOT_TOLD: Remedy = Remedy::Harmless("it is not told, and nothing hangs on it");
const PASSED_OVER: Remedy = Remedy::Harmless("a start passes over it");
const SET_ASIDE: Remedy = Remedy::SetAside;

/// Those of submissions and jobs are looked at with them.
static RECORDS: [Records; 21] = [
    records(("bodies", "base || '.' || number", "row"), reads::<SubmissionRow>, "job", SET_ASIDE),
    records(("standings", "base || ''", "row"), reads::<StandingRow>, "job", SET_ASIDE),
    records(("runs", "id || '.' || attempt", "row"), reads::<JobRow>, "job", NOT_TOLD),
    records(
        ("steps", "job || '.' || attempt || '.' || before", "records"),
        reads::<Vec<StepRecord>>,
        "job",
        NOT_TOLD,
    ),
    records(("nodes", "name", "row"), reads::<NodeRow>, "node", SET_ASIDE),
    records(("queues", "name", "row"), reads::<QueueState>, "state of queue", SET_ASIDE),
    records(("own_queues", "name", "row"), reads::<OwnQueue>, "queue", SET_ASIDE),
    records(("answers", "uid || ''", "reply"), reads::<Reply>, "answer", PASSED_OVER),
    records(("accounts", "name", "row"), reads::<AccountRow>, "account", SET_ASIDE),
    records(("policy", "name", "row"), reads::<PolicyRow>, "policy of", SET_ASIDE),
    records(("figures", "at || ''", "row"), reads::<FiguresRow>, "figures", SET_ASIDE),
    records(
        ("hour_prices", "hour || ''", "row"),
        reads::<HourPriceRow>,
        "price of hour",
        SET_ASIDE,
    ),
    records(("usage", "name", "row"), reads::<UsageRow>, "use of", SET_ASIDE),
    records(("license_use", "name", "row"), reads::<LicenseUse>, "use of licence", SET_ASIDE),
    records(("flows", "id || ''", "spec"), reads::<FlowSpec>, "workflow", SET_ASIDE),
    records(("triggers", "id || ''", "row"), reads::<TriggerRow>, "trigger", SET_ASIDE),
    records(("older", "at || ''", "row"), reads::<OlderRow>, "older", PASSED_OVER),
    records(("clock", "id || ''", "row"), reads::<ClockRow>, "clock", PASSED_OVER),
    records(("restored", "id || ''", "row"), reads::<RestoredRow>, "restored", PASSED_OVER),
    records(
        ("flow_tasks", "flow || '.' || task", "row"),
        reads::<FlowTaskRow>,
        "workflow",
        SET_ASIDE,
    ),
    records(("flows", "id || ''", "row"), reads::<FlowRow>, "workflow", SET_ASIDE),
];

/// A reservation's columns.
type ReservationColumns = (u64, bool, u64, Option<String>, String, i64, Option<i64>, Vec<u8>);
/// A workflow's.
type FlowColumns = (u64, bool, u64, String, Option<i64>, Vec<u8>);

impl Check<'_> {
    /// Goes through all of them.
    pub(super) fn rows(&mut self) -> sql::Result<()> {
        for of in &RECORDS {
            let query = format!("SELECT {}, {} FROM {}", of.key, of.column, of.table);
            let read = |r: &Row<'_>| Ok((r.get::<String>(0)?, (of.reads)(r.bytes(1)?)));
            self.each(&query, read, |check, (key, why)| {
                let name = key.split('.').next().unwrap_or(&key);
                if let Some(why) = why
                    && !check.is_aside(of.source, &key)
                    && !check.is_aside(of.source, name)
                {
                    check.found(format!("{} {key}", of.table), why, of.remedy);
                }
                Ok(())
            })?;
        }
        self.reservations()?;
        self.flows()?;
        self.flow_tasks()?;
        self.numbers()?;
        self.what_is_aside()
    }

    fn reservations(&mut self) -> sql::Result<()> {
        let query =
            "SELECT id, live, uid, account, state, start, ended, row FROM reservations ORDER BY id";
        let read = |r: &Row<'_>| -> sql::Result<ReservationColumns> {
            Ok((
                r.get(0)?,
                r.get(1)?,
                r.get(2)?,
                r.get(3)?,
                r.get(4)?,
                r.get(5)?,
                r.get(6)?,
                r.get(7)?,
            ))
        };
        self.each(query, read, |check, (id, live, uid, account, state, start, ended, row)| {
            let place = format!("reservation {id}");
            if check.is_aside("reservation", id) {
                return Ok(()); // one that was given up says nothing of its end
            }
            let row: ReservationRow = match decode("reservations", &row) {
                Ok(row) => row,
                Err(e) => {
                    let remedy = if live { SET_ASIDE } else { Remedy::Restore };
                    check.found(place, unreadable(&e), remedy);
                    return Ok(());
                }
            };
            // One that was given up ended at 0.
            let given_up = !live && ended == Some(0);
            let end = (!row.state.is_live()).then_some(row.closed.unwrap_or(row.end).0);
            let each = [
                ("id", id == row.id.0),
                ("live", given_up || live == row.state.is_live()),
                ("uid", uid == u64::from(row.uid.0)),
                (
                    "account",
                    account.as_deref() == row.account.as_deref().map(without_nul).as_deref(),
                ),
                ("state", state == row.state.word()),
                ("start", start == row.start.0),
                ("ended", given_up || ended == end),
            ];
            check.columns(&place, &each);
            check.refers(&place, "reservation", "reservations", "id", row.series.map(|id| id.0))?;
            check.refers(&place, "workflow", "flows", "id", row.flow.map(|of| of.flow.0))?;
            if let Some(account) = row.account.filter(|_| live) {
                check.has_account(&place, &account)?;
            }
            Ok(())
        })
    }

    /// Tells where a number names what is not there.
    fn refers(
        &mut self,
        place: &str,
        kind: &str,
        table: &str,
        column: &str,
        id: Option<u64>,
    ) -> sql::Result<()> {
        let Some(id) = id else {
            return Ok(());
        };
        let query = format!("SELECT 1 FROM {table} WHERE {column} = ?1");
        if !self.exists(&query, &[number(id)])? {
            let what = format!("it names {kind} {id}, which is not there");
            self.found(place.to_owned(), what, Remedy::Restore);
        }
        Ok(())
    }

    fn has_account(&mut self, place: &str, account: &str) -> sql::Result<()> {
        // Where there are none at all names are only recorded.
        let query = "SELECT 1 FROM accounts WHERE name = ?1
             OR NOT EXISTS (SELECT 1 FROM accounts)";
        let there = self.exists(query, &[account.to_owned().into()])?;
        if !there && !self.is_aside("account", account) {
            let what = format!("there is no account '{account}', which pays for it");
            let remedy = Remedy::Other("make the account again (cadm account add), or cancel it");
            self.found(place.to_owned(), what, remedy);
        }
        Ok(())
    }

    fn flows(&mut self) -> sql::Result<()> {
        let query = "SELECT id, live, uid, state, ended, row FROM flows ORDER BY id";
        let read = |r: &Row<'_>| -> sql::Result<FlowColumns> {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?))
        };
        self.each(query, read, |check, (id, live, uid, state, ended, row)| {
            let Ok(row) = decode::<FlowRow>("flows", &row) else {
                return Ok(()); // told with all others
            };
            let given_up = !live && ended == Some(0);
            let each = [
                ("id", id == row.id.0),
                ("live", given_up || live == row.is_live()),
                ("uid", uid == u64::from(row.uid.0)),
                ("state", state == row.state.word()),
                ("ended", given_up || ended == row.closed.map(|at| at.0)),
            ];
            check.columns(&format!("workflow {id}"), &each);
            Ok(())
        })
    }

    fn flow_tasks(&mut self) -> sql::Result<()> {
        let query = "SELECT flow, task, row FROM flow_tasks ORDER BY flow, task";
        let read = |r: &Row<'_>| Ok((r.get::<u64>(0)?, r.get::<u64>(1)?, r.get::<Vec<u8>>(2)?));
        self.each(query, read, |check, (flow, task, row)| {
            let place = format!("task {task} of workflow {flow}");
            check.refers(&place, "workflow", "flows", "id", Some(flow))?;
            let Ok(row) = decode::<FlowTaskRow>("flow_tasks", &row) else {
                return Ok(());
            };
            let each = [
                ("flow", flow == row.of.flow.0),
                ("task", task == u64::from(row.of.task)),
            ];
            check.columns(&place, &each);
            let slot = row.reservation.map(|id| id.0);
            check.refers(&place, "reservation", "reservations", "id", slot)?;
            let job = row.job.0;
            let there = "SELECT 1 FROM submissions WHERE base <= ?1 AND base + ids > ?1
                 UNION ALL SELECT 1 FROM archives WHERE first_id <= ?1 AND end_id > ?1";
            if job > 0 && !check.exists(there, &[number(job)])? {
                let what = format!("it names job {job}, which is not there");
                check.found(place, what, Remedy::Restore);
            }
            Ok(())
        })
    }

    /// Numbers go on above those that were given out, and events in their order.
    fn numbers(&mut self) -> sql::Result<()> {
        let given_out = "SELECT CAST(MAX(id) AS TEXT) FROM triggers HAVING MAX(id) > COALESCE(
             (SELECT value FROM counters WHERE name = 'triggers'), 0)";
        let what = "the number of the last trigger that was given out is lower";
        let remedy = Remedy::Other("a new trigger would take its place: cosyd store restore");
        self.each_is_wrong("trigger", given_out, 1, what, remedy)?;
        let mut last: Option<i64> = None;
        let query = "SELECT seq, at FROM events ORDER BY seq";
        let read = |r: &Row<'_>| Ok((r.get::<u64>(0)?, r.get::<i64>(1)?));
        self.each(query, read, |check, (seq, at)| {
            const DAY_MS: i64 = 86_400_000;
            if last.is_some_and(|last| at < last.saturating_sub(DAY_MS)) {
                let what = "it happened more than a day before the one ahead of it";
                let remedy =
                    Remedy::Harmless("the clock was set back; lists of that time may lack jobs");
                check.found(format!("event {seq}"), what, remedy);
            }
            last = Some(at);
            Ok(())
        })
    }

    /// What is set aside by number is still where it was.
    fn what_is_aside(&mut self) -> sql::Result<()> {
        for (source, table, id) in [
            ("job", "submissions", "base"),
            ("reservation", "reservations", "id"),
            ("workflow", "flows", "id"),
            ("trigger", "triggers", "id"),
        ] {
            let gone = format!(
                "SELECT CAST(a.id AS TEXT) FROM set_aside a WHERE a.source = '{source}'
                 AND NOT EXISTS (SELECT 1 FROM {table} t WHERE CAST(t.{id} AS TEXT) = a.object)"
            );
            let what = format!("the {source} that it is about is not there");
            let remedy = Remedy::Other("nothing can be put back: cosyd --give-up with that number");
            self.each_is_wrong("set aside", &gone, 1, &what, remedy)?;
        }
        Ok(())
    }
}
