//! A table of jobs under way, row by row.
//!
//! Most columns of a long list have few texts: the queue, the user, the state. Each text is
//! kept, sent and read once, and rows have its number ([`Column::Words`]); a column in which
//! too many differ becomes one of plain texts.

use cosy_model::api::{Column, FieldKind, JobField, NO_NUMBER, Table};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A column with more different texts than this has plain ones.
const MOST_WORDS: usize = 256;

/// A value of a row.
pub(crate) enum Cell<'a> {
    Number(i64),
    Text(Cow<'a, str>),
    None,
}

pub(crate) fn number(n: u64) -> Cell<'static> {
    Cell::Number(i64::try_from(n).unwrap_or(i64::MAX))
}

pub(crate) fn text<'a>(t: impl Into<Cow<'a, str>>) -> Cell<'a> {
    Cell::Text(t.into())
}

/// The rows so far, by column.
pub(crate) struct Rows {
    fields: Vec<JobField>,
    columns: Vec<Growing>,
    rows: usize,
}

enum Growing {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
    Words(Words),
}

/// Texts that repeat.
#[derive(Default)]
struct Words {
    words: Vec<String>,
    known: BTreeMap<String, u32>,
    at: Vec<u32>,
}

impl Rows {
    /// No row yet; about `rows` are to come.
    pub fn new(fields: &[JobField], rows: usize) -> Self {
        let column = |field: &JobField| match field.kind() {
            FieldKind::Text => Growing::Words(Words {
                at: Vec::with_capacity(rows),
                ..Words::default()
            }),
            FieldKind::Number | FieldKind::Time | FieldKind::Span | FieldKind::Flag => {
                Growing::Numbers(Vec::with_capacity(rows))
            }
        };
        Self {
            fields: fields.to_vec(),
            columns: fields.iter().map(column).collect(),
            rows: 0,
        }
    }

    /// Adds a row of what `cell` tells of each field.
    pub fn push<'a>(&mut self, cell: impl Fn(JobField) -> Cell<'a>) {
        for (field, column) in self.fields.iter().zip(&mut self.columns) {
            column.push(cell(*field));
        }
        self.rows += 1;
    }

    /// The whole table.
    pub fn done(self) -> Table {
        let columns = self.columns.into_iter().map(Growing::done).collect();
        Table::of(self.fields, columns, self.rows)
    }
}

impl Growing {
    fn push(&mut self, cell: Cell<'_>) {
        match self {
            Self::Numbers(numbers) => numbers.push(match cell {
                Cell::Number(n) => n,
                Cell::Text(_) | Cell::None => NO_NUMBER,
            }),
            Self::Texts(texts) => texts.push(plain(cell).into_owned()),
            Self::Words(words) => {
                let text = plain(cell);
                match words.number(&text) {
                    Some(number) => words.at.push(number),
                    None => {
                        let mut texts = std::mem::take(words).texts();
                        texts.push(text.into_owned());
                        *self = Self::Texts(texts);
                    }
                }
            }
        }
    }

    fn done(self) -> Column {
        match self {
            Self::Numbers(numbers) => Column::Numbers(numbers),
            Self::Texts(texts) => Column::Texts(texts),
            Self::Words(words) if words.words.len() * 2 > words.at.len() => {
                Column::Texts(words.texts())
            }
            Self::Words(Words { words, at, .. }) => Column::Words { words, at },
        }
    }
}

fn plain(cell: Cell<'_>) -> Cow<'_, str> {
    match cell {
        Cell::Text(text) => text,
        Cell::Number(_) | Cell::None => Cow::Borrowed(""),
    }
}

/// Empty texts are told by their length. They have no address, and some processors take
/// more than 100 ns to compare nothing there.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

impl Words {
    /// The number of a text, which is added when it is new; `None` when there is no room.
    fn number(&mut self, text: &str) -> Option<u32> {
        // Rows that follow each other are often alike.
        let last = self.at.last().copied();
        if let Some(last) = last.filter(|last| same(&self.words[*last as usize], text)) {
            return Some(last);
        }
        if let Some(number) = self.known.get(text) {
            return Some(*number);
        }
        let number = u32::try_from(self.words.len()).ok()?;
        if self.words.len() >= MOST_WORDS {
            return None;
        }
        self.words.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        Some(number)
    }

    /// Each row's own text.
    fn texts(self) -> Vec<String> {
        let mut texts = Vec::with_capacity(self.at.capacity());
        texts.extend(self.at.iter().map(|at| self.words[*at as usize].clone()));
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[String]) -> Table {
        let mut rows = Rows::new(&[JobField::Name], texts.len());
        for name in texts {
            rows.push(|_| text(name));
        }
        let table = rows.done();
        assert!(table.is_sound());
        let told = (0..table.rows).map(|row| table.text(row, JobField::Name));
        assert!(told.eq(texts.iter().map(String::as_str)));
        table
    }

    #[test]
    fn texts_that_repeat_are_kept_once() {
        let texts: Vec<String> = (0..1000).map(|n| format!("job{}", n % 7)).collect();
        let words = |table: &Table| match &table.columns[0] {
            Column::Words { words, .. } => Some(words.len()),
            Column::Texts(_) | Column::Numbers(_) => None,
        };
        assert_eq!(words(&names(&texts)), Some(7));
        let texts: Vec<String> = (0..1000).map(|n| format!("job{n}")).collect();
        assert_eq!(words(&names(&texts)), None);
        // Some repeat: still not worth it.
        let texts: Vec<String> = (0..10).map(|n| format!("job{}", n % 9)).collect();
        assert_eq!(words(&names(&texts)), None);
    }

    #[test]
    fn a_value_of_another_kind_is_none() {
        let mut rows = Rows::new(&[JobField::Name, JobField::Id], 2);
        rows.push(|_| number(3));
        rows.push(|_| text("x"));
        let table = rows.done();
        let row = |row| {
            (
                table.text(row, JobField::Name),
                table.number(row, JobField::Id),
            )
        };
        assert_eq!([row(0), row(1)], [("", Some(3)), ("x", None)]);
    }
}
