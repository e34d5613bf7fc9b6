//! A table of jobs under way, row by row.
//!
//! Most columns of a long list have few texts: the queue, the user, the state. Each text is
//! kept, sent and read once, and rows have its number ([`Column::Words`]); a column in which
//! too many differ becomes one of plain texts.

use cosy_model::api::{Column, FieldKind, JobField, NO_NUMBER, Table};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A column with more different texts than this has plain ones.
const MOST_WORDS: usize = 256;

/// A value of a row.
pub enum Cell<'a> {
    Number(i64),
    Text(Cow<'a, str>),
    None,
}

pub fn number(n: u64) -> Cell<'static> {
    Cell::Number(i64::try_from(n).unwrap_or(i64::MAX))
}

pub fn text<'a>(t: impl Into<Cow<'a, str>>) -> Cell<'a> {
    Cell::Text(t.into())
}

/// Bytes that a number takes in an answer, at most.
const NUMBER_BYTES: usize = 9;
/// The same for the number of a word, and for what comes before a text.
const WORD_BYTES: usize = 5;
/// Texts are kept once for all rows when that saves more than this, in bytes, however many
/// different ones there are.
const WORTH_BYTES: usize = 64 << 10;
/// Bytes of text that cost as much work as a cell.
const TEXT_WORK: usize = 64;

/// The rows so far, by column. A column that is asked for twice is there once.
#[derive(Debug)]
pub struct Rows {
    fields: Vec<JobField>,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    /// About so many bytes are they in an answer.
    bytes: usize,
    /// Cells made, and texts in units of [`TEXT_WORK`], also those that are kept only once.
    work: usize,
}

#[derive(Debug)]
enum ColumnBuilder {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
    Words(Dictionary),
}

/// Texts that repeat: each once, and for each row the number of its text.
#[derive(Debug, Default)]
struct Dictionary {
    words: Vec<String>,
    number_of: BTreeMap<String, u32>,
    at: Vec<u32>,
    /// Bytes of all words, each once.
    unique_bytes: usize,
    /// Bytes of all rows' texts.
    plain_bytes: usize,
}

impl Rows {
    /// No row yet; about `rows` are to come.
    pub fn new(fields: &[JobField], rows: usize) -> Self {
        let column = |field: &JobField| match field.kind() {
            FieldKind::Text => ColumnBuilder::Words(Dictionary {
                at: Vec::with_capacity(rows),
                ..Dictionary::default()
            }),
            FieldKind::Number
            | FieldKind::Bytes
            | FieldKind::Mebibytes
            | FieldKind::CpuTime
            | FieldKind::Time
            | FieldKind::Span
            | FieldKind::Flag => ColumnBuilder::Numbers(Vec::with_capacity(rows)),
        };
        let mut seen = BTreeSet::new();
        let once = fields.iter().copied().filter(|field| seen.insert(*field));
        let fields: Vec<JobField> = once.collect();
        Self {
            columns: fields.iter().map(column).collect(),
            fields,
            rows: 0,
            bytes: 0,
            work: 0,
        }
    }

    /// Adds a row of what `cell` tells of each field.
    pub fn push<'a>(&mut self, cell: impl Fn(JobField) -> Cell<'a>) {
        for (field, column) in self.fields.iter().zip(&mut self.columns) {
            let cell = cell(*field);
            if let Cell::Text(text) = &cell {
                self.work += Self::work_of(text);
            }
            self.bytes += column.push(cell);
        }
        self.work += self.fields.len() + 1;
        self.rows += 1;
    }

    /// Takes memory for so many rows more, or for as many of them as fit into so many bytes.
    pub fn expect(&mut self, rows: usize, bytes: usize) {
        let least = |column: &ColumnBuilder| match column {
            ColumnBuilder::Numbers(_) => NUMBER_BYTES,
            ColumnBuilder::Texts(_) | ColumnBuilder::Words(_) => WORD_BYTES,
        };
        let row: usize = self.columns.iter().map(least).sum();
        let rows = rows.min(bytes / row.max(1));
        for column in &mut self.columns {
            match column {
                ColumnBuilder::Numbers(numbers) => numbers.reserve(rows),
                ColumnBuilder::Texts(texts) => texts.reserve(rows),
                ColumnBuilder::Words(words) => words.at.reserve(rows),
            }
        }
    }

    /// Counts work that was done for rows beside their cells.
    pub fn worked(&mut self, more: usize) {
        self.work += more;
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// About so many bytes are the rows in an answer.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Work so far: 1 for each cell and for [`TEXT_WORK`] bytes of text.
    pub fn work(&self) -> usize {
        self.work
    }

    /// Work that making a text is.
    pub fn work_of(text: &str) -> usize {
        text.len() / TEXT_WORK
    }

    /// The whole table.
    pub fn done(self) -> Table {
        let columns = self.columns.into_iter().map(ColumnBuilder::done).collect();
        Table::of(self.fields, columns, self.rows)
    }

    /// The whole table, the last row first.
    pub fn done_reversed(self) -> Table {
        let mut columns: Vec<Column> = self.columns.into_iter().map(ColumnBuilder::done).collect();
        for column in &mut columns {
            match column {
                Column::Numbers(numbers) => numbers.reverse(),
                Column::Texts(texts) => texts.reverse(),
                Column::Words { at, .. } => at.reverse(),
            }
        }
        Table::of(self.fields, columns, self.rows)
    }
}

impl ColumnBuilder {
    /// Adds a value; gives the bytes by which an answer grows at most.
    fn push(&mut self, cell: Cell<'_>) -> usize {
        match self {
            Self::Numbers(numbers) => {
                numbers.push(match cell {
                    Cell::Number(n) => n,
                    Cell::Text(_) | Cell::None => NO_NUMBER,
                });
                NUMBER_BYTES
            }
            Self::Texts(texts) => {
                let text = plain(cell).into_owned();
                let bytes = WORD_BYTES + text.len();
                texts.push(text);
                bytes
            }
            Self::Words(words) => {
                let text = plain(cell);
                if let Some((number, bytes)) = words.number(&text) {
                    words.at.push(number);
                    return WORD_BYTES + bytes;
                }
                // Texts that were there once are there once for each row from now on.
                let more = words.plain_bytes.saturating_sub(words.unique_bytes) + text.len();
                let mut texts = std::mem::take(words).texts();
                texts.push(text.into_owned());
                *self = Self::Texts(texts);
                WORD_BYTES + more
            }
        }
    }

    fn done(self) -> Column {
        match self {
            Self::Numbers(numbers) => Column::Numbers(numbers),
            Self::Texts(texts) => Column::Texts(texts),
            Self::Words(words) if words.words.len() * 2 > words.at.len() && !words.is_worth() => {
                Column::Texts(words.texts())
            }
            Self::Words(Dictionary { words, at, .. }) => Column::Words { words, at },
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

impl Dictionary {
    /// The number of a text, which is added when it is new, and the bytes that are added;
    /// `None` when there is no room.
    fn number(&mut self, text: &str) -> Option<(u32, usize)> {
        // Rows that follow each other are often alike.
        let last = self.at.last().copied();
        if let Some(last) = last.filter(|last| {
            self.words
                .get(*last as usize)
                .is_some_and(|word| same(word, text))
        }) {
            self.plain_bytes += text.len();
            return Some((last, 0));
        }
        if let Some(number) = self.number_of.get(text) {
            self.plain_bytes += text.len();
            return Some((*number, 0));
        }
        let number = u32::try_from(self.words.len()).ok()?;
        if self.words.len() >= MOST_WORDS && !self.is_worth() {
            return None;
        }
        (self.plain_bytes, self.unique_bytes) =
            (self.plain_bytes + text.len(), self.unique_bytes + text.len());
        self.words.push(text.to_owned());
        self.number_of.insert(text.to_owned(), number);
        // Twice: once to be told and once to be found again.
        Some((number, 2 * text.len()))
    }

    /// Whether long texts repeat so often that each row must not have its own: a few jobs
    /// with a megabyte of arguments among thousands of others.
    fn is_worth(&self) -> bool {
        self.plain_bytes > 2 * self.unique_bytes + WORTH_BYTES
    }

    /// Each row's own text.
    fn texts(self) -> Vec<String> {
        let mut texts = Vec::with_capacity(self.at.capacity());
        let word = |at: &u32| self.words.get(*at as usize).cloned().unwrap_or_default();
        texts.extend(self.at.iter().map(word));
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
    fn long_texts_are_never_there_for_each_row() {
        let long = "x".repeat(1 << 20);
        let mut rows = Rows::new(&[JobField::Command, JobField::Command], 0);
        for n in 0..3000 {
            let own = format!("job{n}");
            rows.push(|_| text(if n % 2 == 0 { &long } else { &own }));
        }
        assert!(rows.bytes() < 3 << 20, "{}", rows.bytes());
        assert!(rows.work() > 1500 * (1 << 20) / TEXT_WORK);
        let table = rows.done();
        assert_eq!(table.fields.len(), 1);
        assert!(matches!(&table.columns[0], Column::Words { .. }));
        assert_eq!(table.text(2998, JobField::Command).len(), 1 << 20);
        assert_eq!(table.text(2999, JobField::Command), "job2999");
    }

    #[test]
    fn bytes_are_those_of_an_answer_at_most() {
        let mut rows = Rows::new(&[JobField::Name, JobField::Id], 0);
        for n in 0..5000_u64 {
            let name = format!("job{}", n % 700);
            rows.push(|field| match field {
                JobField::Id => number(u64::MAX - n),
                _ => text(&name),
            });
        }
        let (counted, table) = (rows.bytes(), rows.done());
        let told: usize = (0..table.rows)
            .map(|r| table.text(r, JobField::Name).len())
            .sum();
        assert!(counted >= told + 9 * table.rows && counted < 3 * told + 20 * table.rows);
    }

    #[test]
    fn a_value_of_another_kind_is_none() {
        let mut rows = Rows::new(&[JobField::Name, JobField::Id], 2);
        rows.push(|_| number(3));
        rows.push(|_| text("x"));
        let table = rows.done();
        let row = |row| (table.text(row, JobField::Name), table.number(row, JobField::Id));
        assert_eq!([row(0), row(1)], [("", Some(3)), ("x", None)]);
    }
}
