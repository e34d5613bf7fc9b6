//! Values of parameters, and why a statement fails.

use std::borrow::Cow;
use std::fmt;

/// What a statement ends in.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a statement failed.
#[derive(Debug)]
pub enum Error {
    /// SQLite says no.
    Sqlite(rusqlite::Error),
    /// PostgreSQL says no, or cannot be reached.
    Postgres(tokio_postgres::Error),
    /// A row was asked for, and there is none.
    NoRow,
    /// Neither database was asked, or what it gave is of another type.
    Other(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(e) => e.fmt(f),
            // Of itself it says only where it came from.
            Self::Postgres(e) => match (e.as_db_error(), std::error::Error::source(e)) {
                (Some(said), _) => write!(f, "{} ({})", said.message(), said.code().code()),
                (None, Some(cause)) => write!(f, "{e}: {cause}"),
                (None, None) => e.fmt(f),
            },
            Self::NoRow => f.write_str("there is no such row"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::QueryReturnedNoRows => Self::NoRow,
            other => Self::Sqlite(other),
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

/// No database holds that number.
pub fn too_large(n: u64) -> Error {
    Error::Other(format!("{n} is too large a number"))
}

/// A value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// SQL's null.
    Null,
    /// Numbers, and truth as 0 or 1.
    Integer(i64),
    /// Characters, in UTF-8.
    Text(&'a str),
    /// Bytes of any kind.
    Blob(&'a [u8]),
    /// A number that no database holds.
    TooLarge(u64),
}

/// A text as PostgreSQL can have it: without the character 0.
pub fn without_nul(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}").into(),
        false => text.into(),
    }
}

/// A value that is kept for a statement which is put together bit by bit.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// See [`Value::Null`].
    Null,
    /// See [`Value::Integer`].
    Integer(i64),
    /// See [`Value::Text`].
    Text(String),
    /// See [`Value::Blob`].
    Blob(Vec<u8>),
}

impl Value<'_> {
    /// The value as one that may be kept.
    ///
    /// # Errors
    /// A number that no database holds.
    pub fn kept(self) -> Result<OwnedValue> {
        Ok(match self {
            Self::Null => OwnedValue::Null,
            Self::Integer(n) => OwnedValue::Integer(n),
            Self::Text(text) => OwnedValue::Text(text.to_owned()),
            Self::Blob(bytes) => OwnedValue::Blob(bytes.to_vec()),
            Self::TooLarge(n) => return Err(too_large(n)),
        })
    }
}

impl rusqlite::ToSql for Value<'_> {
    #[inline]
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Integer(n) => ValueRef::Integer(n),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
            Self::TooLarge(n) => {
                return Err(rusqlite::Error::ToSqlConversionFailure(too_large(n).into()));
            }
        }))
    }
}

/// What a parameter may be made of.
pub trait ToParam {
    /// The value as the databases know it.
    fn value(&self) -> Value<'_>;
}

macro_rules! integers {
    ($($of:ty),*) => {$(
        impl ToParam for $of {
            fn value(&self) -> Value<'_> {
                Value::Integer(i64::from(*self))
            }
        }
        impl From<$of> for OwnedValue {
            fn from(value: $of) -> Self {
                Self::Integer(i64::from(value))
            }
        }
    )*};
}
integers!(i64, i32, u32, u8, bool);

impl ToParam for u64 {
    fn value(&self) -> Value<'_> {
        i64::try_from(*self).map_or(Value::TooLarge(*self), Value::Integer)
    }
}

impl ToParam for usize {
    fn value(&self) -> Value<'_> {
        i64::try_from(*self).map_or(Value::TooLarge(u64::MAX), Value::Integer)
    }
}

impl ToParam for str {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToParam for String {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl From<String> for OwnedValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl ToParam for [u8] {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl ToParam for Vec<u8> {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<T: ToParam + ?Sized> ToParam for &T {
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<T: ToParam> ToParam for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToParam::value)
    }
}

impl ToParam for OwnedValue {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(n) => Value::Integer(*n),
            Self::Text(text) => Value::Text(text),
            Self::Blob(bytes) => Value::Blob(bytes),
        }
    }
}

/// The parameters of a statement, in the order of their numbers.
pub trait Params {
    /// Their values.
    fn values(&self) -> impl Iterator<Item = Value<'_>>;
}

impl Params for &[&dyn ToParam] {
    fn values(&self) -> impl Iterator<Item = Value<'_>> {
        self.iter().map(|param| param.value())
    }
}

impl Params for &[OwnedValue] {
    fn values(&self) -> impl Iterator<Item = Value<'_>> {
        self.iter().map(ToParam::value)
    }
}

/// Parameters out of what implements [`ToParam`].
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::store::sql::value::ToParam),*] as &[&dyn $crate::store::sql::value::ToParam]
    };
}
pub(crate) use params;
