//! SQL spoken to either database in one way: SQLite or PostgreSQL.
//!
//! Statements are written once, in what both understand; parameters are numbered (`?1`) or in
//! order (`?`). What differs, differs here: types, placeholders, the words of tables
//! ([`postgres::dialect`]). Values are integers, texts and bytes.
//!
//! Inside of a transaction on PostgreSQL, statements whose result nobody asks for ([`Statement::run`])
//! are kept back and sent all together with what ends the transaction: one way to the server and
//! back, however many they are.

pub mod postgres;
pub mod value;

pub(crate) use value::params;
pub use value::{Error, OwnedValue, Params, Result, ToParam, Value};

/// What may be read out of a column.
pub trait FromColumn: Sized {
    /// The value in that column.
    ///
    /// # Errors
    /// It is of another type, or beyond its bounds.
    fn of(row: &Row<'_>, column: usize) -> Result<Self>;
}

impl FromColumn for Option<i64> {
    fn of(row: &Row<'_>, column: usize) -> Result<Self> {
        match row {
            Row::Sqlite(row) => Ok(row.get(column)?),
            Row::Postgres(row) => postgres::integer(row, column),
        }
    }
}

impl FromColumn for Option<String> {
    fn of(row: &Row<'_>, column: usize) -> Result<Self> {
        match row {
            Row::Sqlite(row) => Ok(row.get(column)?),
            Row::Postgres(row) => Ok(row.try_get(column)?),
        }
    }
}

impl FromColumn for Option<Vec<u8>> {
    fn of(row: &Row<'_>, column: usize) -> Result<Self> {
        match row {
            Row::Sqlite(row) => Ok(row.get(column)?),
            Row::Postgres(row) => Ok(row.try_get(column)?),
        }
    }
}

macro_rules! numbers {
    ($($of:ty),*) => {$(
        impl FromColumn for Option<$of> {
            fn of(row: &Row<'_>, column: usize) -> Result<Self> {
                let number = <Option<i64>>::of(row, column)?;
                let within = |n| <$of>::try_from(n).map_err(|_| Error::Other(
                    format!("{n} in column {column} is out of bounds")));
                number.map(within).transpose()
            }
        }
    )*};
}
numbers!(u64, u32, i32);

impl FromColumn for Option<bool> {
    fn of(row: &Row<'_>, column: usize) -> Result<Self> {
        Ok(<Option<i64>>::of(row, column)?.map(|n| n != 0))
    }
}

macro_rules! present {
    ($($of:ty),*) => {$(
        impl FromColumn for $of {
            fn of(row: &Row<'_>, column: usize) -> Result<Self> {
                let absent = || Error::Other(format!("column {column} is null"));
                <Option<$of>>::of(row, column)?.ok_or_else(absent)
            }
        }
    )*};
}
present!(i64, u64, u32, i32, bool, String, Vec<u8>);

/// A row that was found.
pub enum Row<'r> {
    /// Of SQLite.
    Sqlite(&'r rusqlite::Row<'r>),
    /// Of PostgreSQL.
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// The value in a column, counted from 0.
    ///
    /// # Errors
    /// It is of another type, or null.
    pub fn get<T: FromColumn>(&self, column: usize) -> Result<T> {
        T::of(self, column)
    }

    /// Bytes in a column, where they are.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn bytes(&self, column: usize) -> Result<&[u8]> {
        match self {
            Self::Sqlite(row) => Ok(row
                .get_ref(column)?
                .as_blob()
                .map_err(rusqlite::Error::from)?),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }
}

/// Rows of a query, one after the other.
pub enum Rows<'s> {
    /// Of SQLite.
    Sqlite(rusqlite::Rows<'s>),
    /// Of PostgreSQL.
    Postgres(postgres::Rows<'s>),
}

impl Rows<'_> {
    /// Hands the next row to `read`; `None` after the last one.
    ///
    /// # Errors
    /// The database fails, or `read` does.
    pub fn next_with<T>(&mut self, read: impl FnOnce(&Row<'_>) -> Result<T>) -> Result<Option<T>> {
        match self {
            Self::Sqlite(rows) => rows.next()?.map(|row| read(&Row::Sqlite(row))).transpose(),
            Self::Postgres(rows) => rows
                .next()?
                .map(|row| read(&Row::Postgres(&row)))
                .transpose(),
        }
    }

    /// Hands all rows to `read`, one after the other.
    ///
    /// # Errors
    /// The database fails, or `read` does.
    pub fn each(mut self, mut read: impl FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        while self.next_with(&mut read)?.is_some() {}
        Ok(())
    }
}

/// Rows of a query, each made into something.
pub struct Mapped<'s, F> {
    rows: Rows<'s>,
    read: F,
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for Mapped<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.rows.next_with(&mut self.read).transpose()
    }
}

/// A connection to a database.
pub enum Connection {
    /// A file.
    Sqlite(rusqlite::Connection),
    /// A server.
    Postgres(Box<postgres::Connection>),
}

/// A statement that is ready to be carried out.
pub enum Statement<'c> {
    /// Of SQLite.
    Sqlite(rusqlite::CachedStatement<'c>),
    /// Of PostgreSQL.
    Postgres(postgres::Statement<'c>),
}

impl Connection {
    /// Makes a statement ready; the connection remembers it.
    ///
    /// # Errors
    /// The database does not understand it.
    pub fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(match self {
            Self::Sqlite(c) => Statement::Sqlite(c.prepare_cached(sql)?),
            Self::Postgres(c) => Statement::Postgres(c.statement(sql)),
        })
    }

    /// Carries a statement out; how many rows it has changed.
    ///
    /// # Errors
    /// The database fails.
    pub fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    /// Reads one row.
    ///
    /// # Errors
    /// The database fails; [`Error::NoRow`].
    pub fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }

    /// Carries out several statements without parameters.
    ///
    /// # Errors
    /// The database fails.
    pub fn execute_batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(c) => Ok(c.execute_batch(sql)?),
            Self::Postgres(c) => c.execute_batch(sql),
        }
    }

    /// Does all of a work in one transaction, or nothing of it.
    ///
    /// # Errors
    /// The database or the work fails: nothing was changed. But where a connection to PostgreSQL
    /// was lost meanwhile, it is not known ([`postgres::Connection::transact`]).
    pub fn transact(&mut self, work: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let me = &*self;
        match me {
            Self::Sqlite(c) => within("BEGIN IMMEDIATE", c, || work(me)),
            Self::Postgres(c) => c.transact(|| work(me)),
        }
    }

    /// Reads as of one moment, whatever others write meanwhile. Nothing can be written.
    ///
    /// # Errors
    /// The database or the work fails.
    pub fn snapshot<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        match self {
            Self::Sqlite(c) => {
                c.execute_batch("BEGIN DEFERRED").map_err(Error::from)?;
                let done = work();
                let _ = c.execute_batch("ROLLBACK");
                done
            }
            Self::Postgres(c) => c.snapshot(work),
        }
    }

    /// The same; nothing is locked before something is written.
    ///
    /// # Errors
    /// As [`Self::transact`].
    pub fn transact_deferred(&mut self, work: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let me = &*self;
        match me {
            Self::Sqlite(c) => within("BEGIN DEFERRED", c, || work(me)),
            Self::Postgres(c) => c.transact(|| work(me)),
        }
    }
}

/// A transaction in a file.
fn within(begin: &str, c: &rusqlite::Connection, work: impl FnOnce() -> Result<()>) -> Result<()> {
    c.execute_batch(begin)?;
    let ended = work().and_then(|()| Ok(c.execute_batch("COMMIT")?));
    if ended.is_err() && !c.is_autocommit() {
        let _ = c.execute_batch("ROLLBACK");
    }
    ended
}

impl Statement<'_> {
    fn bind(statement: &mut rusqlite::CachedStatement<'_>, params: &impl Params) -> Result<()> {
        for (at, value) in params.values().enumerate() {
            statement.raw_bind_parameter(at + 1, value)?;
        }
        Ok(())
    }

    /// Carries it out; how many rows it has changed.
    ///
    /// # Errors
    /// The database fails.
    pub fn execute(&mut self, params: impl Params) -> Result<usize> {
        match self {
            Self::Sqlite(s) => {
                Self::bind(s, &params)?;
                Ok(s.raw_execute()?)
            }
            Self::Postgres(s) => s.execute(&params),
        }
    }

    /// Carries it out; nobody asks how many rows it has changed.
    ///
    /// # Errors
    /// The database fails; in a transaction on PostgreSQL perhaps only when it ends.
    pub fn run(&mut self, params: impl Params) -> Result<()> {
        match self {
            Self::Sqlite(_) => self.execute(params).map(drop),
            Self::Postgres(s) => s.run(&params),
        }
    }

    /// Reads one row.
    ///
    /// # Errors
    /// The database fails; [`Error::NoRow`].
    pub fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut rows = self.all(params)?;
        rows.next_with(read)?.ok_or(Error::NoRow)
    }

    /// Reads rows, of which there are not too many to have them at once.
    ///
    /// # Errors
    /// The database fails.
    pub fn query_map<T, F>(&mut self, params: impl Params, read: F) -> Result<Mapped<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        let rows = self.all(params)?;
        Ok(Mapped { rows, read })
    }

    fn all(&mut self, params: impl Params) -> Result<Rows<'_>> {
        match self {
            Self::Sqlite(s) => {
                Self::bind(s, &params)?;
                Ok(Rows::Sqlite(s.raw_query()))
            }
            Self::Postgres(s) => Ok(Rows::Postgres(s.all(&params)?)),
        }
    }

    /// Reads rows of which there may be more than fit into memory.
    ///
    /// # Errors
    /// The database fails.
    pub fn query(&mut self, params: impl Params) -> Result<Rows<'_>> {
        match self {
            Self::Postgres(s) => Ok(Rows::Postgres(s.stream(&params)?)),
            Self::Sqlite(_) => self.all(params),
        }
    }
}

/// Nothing instead of an error where there is no row.
pub trait OptionalExtension<T> {
    /// `None` for [`Error::NoRow`].
    ///
    /// # Errors
    /// All others.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRow) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
