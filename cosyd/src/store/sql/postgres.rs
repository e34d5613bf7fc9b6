//! PostgreSQL: a connection that is used by one thread at a time, as one of SQLite is.
//!
//! What always holds: a leader's transaction is carried out only while its epoch is the database's:
//! that is the transaction's first statement, and what ends the transaction does nothing when it
//! fails.

pub mod dialect;
mod place;
mod tls;

use super::value::{Error, OwnedValue, Params, Result, Value, without_nul};
pub use place::{Place, Settings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Runtime;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

/// Rows that a stream fetches at once.
const FETCHED: usize = 500;
/// The same where rows may have megabytes.
const LARGE_FETCHED: usize = 16;
/// Statements that a connection remembers; beyond, all are forgotten.
const REMEMBERED: usize = 500;

type Boxed = Box<dyn ToSql + Sync + Send>;
type Prepared = tokio_postgres::Statement;

/// SQLSTATE of a transaction of a leader that was deposed, or whose row was claimed.
pub const DEPOSED: &str = "CY001";

/// A connection to the server.
pub struct Connection {
    runtime: Runtime,
    client: Client,
    statements: RefCell<BTreeMap<String, Prepared>>,
    /// Numbers of statements that are carried out by name; they are few.
    named: RefCell<BTreeMap<String, usize>>,
    /// Text of what is kept back until the transaction ends; `None` outside of one.
    kept_back: RefCell<Option<String>>,
    /// Streams that are open; each is inside of those before.
    streams: Cell<usize>,
    /// Rows that streams fetch at once.
    fetched: Cell<usize>,
    /// The epoch in which alone transactions are carried out.
    fence: Option<u64>,
    /// The server has warned of something since that was looked at last.
    warned: Arc<AtomicBool>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, lets nobody in, or does not take writes where `writes`.
    pub fn open(place: &Place, writes: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::Other(format!("no event loop: {e}")))?;
        let warned = Arc::new(AtomicBool::new(false));
        let client = runtime.block_on(place.connect(writes, warned.clone()))?;
        Ok(Self {
            runtime,
            client,
            statements: RefCell::default(),
            named: RefCell::default(),
            kept_back: RefCell::default(),
            streams: Cell::new(0),
            fetched: Cell::new(FETCHED),
            fence: None,
            warned,
        })
    }

    /// From now on transactions are carried out in that epoch only.
    ///
    /// # Errors
    /// The server says no.
    pub fn set_fence(&mut self, epoch: u64) -> Result<()> {
        self.fence = Some(epoch);
        // A leader that stands still in the middle of a transaction holds the row: not for long.
        self.execute_batch("SET idle_in_transaction_session_timeout = '1500ms'")
    }

    /// Whether the server can still be asked over this connection.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether the server answers over this connection, which is asked for that: that a connection was
    /// lost shows only when it is used.
    pub fn still_answers(&self) -> bool {
        !self.is_closed()
            && self
                .runtime
                .block_on(self.client.batch_execute("SELECT 1"))
                .is_ok()
    }

    /// A statement; it is made ready when its parameters are known.
    pub fn statement(&self, sql: &str) -> Statement<'_> {
        Statement {
            connection: self,
            sql: sql.to_owned(),
        }
    }

    /// Statements without parameters.
    ///
    /// # Errors
    /// The server says no.
    pub fn execute_batch(&self, sql: &str) -> Result<()> {
        self.flush(false)?;
        Ok(self.runtime.block_on(self.client.batch_execute(sql))?)
    }

    /// Does all of a work in one transaction, or nothing of it.
    ///
    /// # Errors
    /// The server or the work says no: nothing was changed. Where [`is_lost`] says so of the error,
    /// it is not known whether everything was changed or nothing.
    pub fn transact(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let epoch = self.fence.map(|epoch| [number(epoch)]);
        let fence = epoch.as_ref().map(|epoch| (dialect::FENCE, &epoch[..]));
        self.transact_after(fence, work)
    }

    /// The same with that statement first, which fails where nothing is to be done.
    ///
    /// # Errors
    /// As [`Self::transact`].
    pub fn transact_after(
        &self,
        fence: Option<(&str, &[OwnedValue])>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.warned.store(false, Ordering::Relaxed);
        *self.kept_back.borrow_mut() = Some("BEGIN;".to_owned());
        let fenced = fence.map_or(Ok(true), |(sql, values)| self.keep_back(sql, &values));
        let done = fenced.and_then(|_| work()).and_then(|()| self.flush(true));
        self.kept_back.borrow_mut().take();
        if let Err(e) = done {
            if !self.is_closed() {
                let _ = self.runtime.block_on(self.client.batch_execute("ROLLBACK"));
            }
            return Err(e);
        }
        Ok(())
    }

    /// Reads as of one moment, whatever others write meanwhile.
    ///
    /// # Errors
    /// The server or the work says no.
    pub fn snapshot<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.execute_batch("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")?;
        *self.kept_back.borrow_mut() = Some(String::new());
        let done = work();
        self.kept_back.borrow_mut().take();
        if !self.is_closed() {
            let _ = self.execute_batch("ROLLBACK");
        }
        done
    }

    /// From now on streams fetch few rows at once, since these may be large, or many.
    pub fn expect_large_rows(&self, large: bool) {
        self.fetched
            .set(if large { LARGE_FETCHED } else { FETCHED });
    }

    /// Whether the server has warned during the last transaction: it may have given up waiting for
    /// its standby.
    pub fn has_warned(&self) -> bool {
        self.warned.load(Ordering::Relaxed)
    }

    /// Keeps a statement back where a transaction is under way; false outside of one.
    fn keep_back(&self, sql: &str, params: &impl Params) -> Result<bool> {
        if self.kept_back.borrow().is_none() {
            return Ok(false);
        }
        let number = self.named(sql)?;
        match self.kept_back.borrow_mut().as_mut() {
            Some(text) => dialect::execute(text, number, params).map(|()| true),
            None => Ok(false),
        }
    }

    /// Sends all that is kept back, and what ends the transaction with it where it is the last: as one
    /// text of statements that the server has made ready, which costs it least.
    fn flush(&self, last: bool) -> Result<()> {
        let Some(mut text) = self.kept_back.borrow_mut().as_mut().map(std::mem::take) else {
            return Ok(());
        };
        if last {
            text.push_str("COMMIT");
        }
        match text.is_empty() {
            true => Ok(()),
            false => Ok(self.runtime.block_on(self.client.batch_execute(&text))?),
        }
    }

    /// The number of a statement that the server has made ready under a name.
    fn named(&self, sql: &str) -> Result<usize> {
        if let Some(number) = self.named.borrow().get(sql) {
            return Ok(*number);
        }
        let number = self.named.borrow().len();
        let text = format!("PREPARE cosy{number} AS {}", dialect::statement(sql));
        self.runtime.block_on(self.client.batch_execute(&text))?;
        self.named.borrow_mut().insert(sql.to_owned(), number);
        Ok(number)
    }

    fn prepared(&self, sql: &str, values: &[OwnedValue]) -> Result<Prepared> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let types: Vec<Type> = values.iter().map(type_of).collect();
        let text = dialect::statement(sql);
        let prepare = self.client.prepare_typed(&text, &types);
        let prepared = self.runtime.block_on(prepare)?;
        let mut all = self.statements.borrow_mut();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }
}

/// A number as a parameter.
pub fn number(n: u64) -> OwnedValue {
    OwnedValue::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Whether nobody knows what has become of the transaction: the way to the server was lost, or the
/// server did not wait for its standby.
pub fn is_lost(error: &Error) -> bool {
    match error {
        Error::Postgres(e) => e.code().is_none_or(|code| {
            let class = code.code().get(..2).unwrap_or_default();
            // 25006: the server takes no writes any more; 25P03: it ended an idle transaction.
            matches!(class, "08" | "57" | "58" | "XX") || matches!(code.code(), "25006" | "25P03")
        }),
        Error::Sqlite(_) | Error::NoRow | Error::Other(_) => false,
    }
}

/// Whether another leads by now.
pub fn is_deposed(error: &Error) -> bool {
    matches!(error, Error::Postgres(e) if e.code().is_some_and(|code| code.code() == DEPOSED))
}

fn type_of(value: &OwnedValue) -> Type {
    match value {
        OwnedValue::Null => Type::UNKNOWN,
        OwnedValue::Integer(_) => Type::INT8,
        OwnedValue::Text(_) => Type::TEXT,
        OwnedValue::Blob(_) => Type::BYTEA,
    }
}

/// The values as the statement takes them.
fn boxed(prepared: &Prepared, values: Vec<OwnedValue>) -> Result<Vec<Boxed>> {
    let types = prepared.params();
    if types.len() != values.len() {
        return Err(Error::Other(format!(
            "a statement has {} parameters and was given {}",
            types.len(),
            values.len()
        )));
    }
    let value = |(value, of): (OwnedValue, &Type)| -> Boxed {
        match value {
            OwnedValue::Integer(n) if *of == Type::INT4 => {
                Box::new(i32::try_from(n).unwrap_or(i32::MAX))
            }
            OwnedValue::Integer(n) => Box::new(n),
            OwnedValue::Text(text) => Box::new(without_nul(&text).into_owned()),
            OwnedValue::Blob(bytes) => Box::new(bytes),
            OwnedValue::Null if *of == Type::TEXT => Box::new(None::<String>),
            OwnedValue::Null if *of == Type::BYTEA => Box::new(None::<Vec<u8>>),
            OwnedValue::Null => Box::new(None::<i64>),
        }
    };
    Ok(values.into_iter().zip(types).map(value).collect())
}

fn kept(params: &impl Params) -> Result<Vec<OwnedValue>> {
    params.values().map(Value::kept).collect()
}

/// A number out of a column of any type of numbers, or of truth.
pub(super) fn integer(row: &tokio_postgres::Row, column: usize) -> Result<Option<i64>> {
    let of = row.columns().get(column).map(|column| column.type_());
    Ok(match of {
        Some(&Type::BOOL) => row.try_get::<_, Option<bool>>(column)?.map(i64::from),
        Some(&Type::INT4) => row.try_get::<_, Option<i32>>(column)?.map(i64::from),
        Some(_) | None => row.try_get(column)?,
    })
}

/// A statement of a connection.
pub struct Statement<'c> {
    connection: &'c Connection,
    sql: String,
}

impl<'c> Statement<'c> {
    pub(super) fn execute(&self, params: &impl Params) -> Result<usize> {
        let c = self.connection;
        c.flush(false)?;
        let values = kept(params)?;
        let prepared = c.prepared(&self.sql, &values)?;
        let params = boxed(&prepared, values)?;
        let count = c
            .runtime
            .block_on(c.client.execute_raw(&prepared, params))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(super) fn run(&self, params: &impl Params) -> Result<()> {
        match self.connection.keep_back(&self.sql, params)? {
            true => Ok(()),
            false => self.execute(params).map(drop),
        }
    }

    pub(super) fn all(&self, params: &impl Params) -> Result<Rows<'c>> {
        let c = self.connection;
        c.flush(false)?;
        let values = kept(params)?;
        let prepared = c.prepared(&self.sql, &values)?;
        let params = boxed(&prepared, values)?;
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|p| &**p as &(dyn ToSql + Sync)).collect();
        let rows = c.runtime.block_on(c.client.query(&prepared, &params))?;
        Ok(Rows {
            rows: rows.into_iter(),
            stream: None,
        })
    }

    /// Rows through a cursor, in a transaction that lasts as long as one is open.
    pub(super) fn stream(&self, params: &impl Params) -> Result<Rows<'c>> {
        let c = self.connection;
        c.flush(false)?;
        let values = kept(params)?;
        let own = c.kept_back.borrow().is_none();
        if own && c.streams.get() == 0 {
            c.execute_batch("BEGIN READ ONLY")?;
        }
        c.streams.set(c.streams.get() + 1);
        let name = format!("c{}", c.streams.get());
        let stream = Stream {
            connection: c,
            name,
            own,
        };
        let text = format!("DECLARE {} NO SCROLL CURSOR FOR {}", stream.name, self.sql);
        let prepared = c.prepared(&text, &values)?;
        let params = boxed(&prepared, values)?;
        c.runtime
            .block_on(c.client.execute_raw(&prepared, params))?;
        Ok(Rows {
            rows: Vec::new().into_iter(),
            stream: Some(stream),
        })
    }
}

/// An open cursor.
struct Stream<'c> {
    connection: &'c Connection,
    name: String,
    /// The transaction was begun for streams.
    own: bool,
}

impl Stream<'_> {
    fn fetch(&self) -> Result<Vec<tokio_postgres::Row>> {
        let c = self.connection;
        let text = format!("FETCH {} FROM {}", c.fetched.get(), self.name);
        Ok(c.runtime.block_on(c.client.query(&text, &[]))?)
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        let c = self.connection;
        c.streams.set(c.streams.get().saturating_sub(1));
        let end = match self.own && c.streams.get() == 0 {
            true => "ROLLBACK".to_owned(),
            false => format!("CLOSE {}", self.name),
        };
        // A connection that fails here fails at the next statement too.
        let _ = c.execute_batch(&end);
    }
}

/// Rows that were found.
pub struct Rows<'c> {
    rows: std::vec::IntoIter<tokio_postgres::Row>,
    stream: Option<Stream<'c>>,
}

impl Rows<'_> {
    pub(super) fn next(&mut self) -> Result<Option<tokio_postgres::Row>> {
        if let Some(row) = self.rows.next() {
            return Ok(Some(row));
        }
        let Some(stream) = &self.stream else {
            return Ok(None);
        };
        self.rows = stream.fetch()?.into_iter();
        Ok(self.rows.next())
    }
}
