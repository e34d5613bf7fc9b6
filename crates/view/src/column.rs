//! Columns of lists: title, place of the cells, and what stands in them, in one place each.

use crate::value::FieldValue;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Where texts begin.
    Left,
    /// Where numbers end.
    Right,
}

/// A column of a list of `T`.
#[derive(Debug)]
pub struct Column<T> {
    /// Words over the column.
    pub title: &'static str,
    /// Where its cells stand.
    pub side: Side,
    /// May be cut down to so many characters when the line does not fit.
    pub least: Option<usize>,
    /// Its cells are lists in brackets, which are shortened before anything else gives way.
    pub list: bool,
    /// Its place among the columns that are left out where a line does not fit: those with low
    /// numbers go first.
    pub leave: Option<usize>,
    /// What stands in the row of one.
    pub cell: for<'a> fn(&'a T) -> FieldValue<'a>,
}

impl<T> Column<T> {
    /// A column of texts, which are never cut.
    pub const fn left(title: &'static str, cell: for<'a> fn(&'a T) -> FieldValue<'a>) -> Self {
        Self {
            title,
            side: Side::Left,
            least: None,
            list: false,
            leave: None,
            cell,
        }
    }

    /// A column of numbers.
    pub const fn right(title: &'static str, cell: for<'a> fn(&'a T) -> FieldValue<'a>) -> Self {
        Self {
            title,
            side: Side::Right,
            least: None,
            list: false,
            leave: None,
            cell,
        }
    }

    /// A column of texts, cut down to `least` characters where needed.
    pub const fn left_cut(
        title: &'static str,
        least: usize,
        cell: for<'a> fn(&'a T) -> FieldValue<'a>,
    ) -> Self {
        Self {
            title,
            side: Side::Left,
            least: Some(least),
            list: false,
            leave: None,
            cell,
        }
    }

    /// The same, left out as the one with this number where a line does not fit.
    pub const fn leaves(self, place: usize) -> Self {
        Self {
            leave: Some(place),
            ..self
        }
    }
}

/// Fields by name. Names are those of JSON, and part of the interface: none is changed or taken
/// away.
pub type Fields<'a> = Vec<(&'static str, FieldValue<'a>)>;

/// What there is to say of one thing, a line each: title and value, in the order of the lines.
/// Lines without a value are left out.
pub type Details<'a> = Vec<(&'static str, FieldValue<'a>)>;
