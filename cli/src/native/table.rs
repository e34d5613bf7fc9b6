//! Aligned columns that fit the terminal. Widths are columns of a terminal, which a character
//! takes none, one or two of.

use cosy_view::column::Column;
pub use cosy_view::column::Side;
use cosy_view::value::Tone;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A column: its title, side and least width.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnHead {
    /// The title, shown above the column.
    pub title: String,
    /// Side to which cells are aligned.
    pub side: Side,
    /// Least width, in columns of the terminal, to which cells may be cut; `None`: they are never
    /// cut.
    pub least: Option<usize>,
}

impl ColumnHead {
    /// A column whose cells start at the left and are never cut.
    pub fn left(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            side: Side::Left,
            least: None,
        }
    }

    /// A column whose cells end at the right.
    pub fn right(title: &str) -> Self {
        Self {
            side: Side::Right,
            ..Self::left(title)
        }
    }

    /// The same, cut down to `least` columns where needed.
    pub fn cut(self, least: usize) -> Self {
        Self {
            least: Some(least),
            ..self
        }
    }
}

impl<T> From<&Column<T>> for ColumnHead {
    fn from(column: &Column<T>) -> Self {
        Self {
            title: column.title.to_owned(),
            side: column.side,
            least: column.least,
        }
    }
}

/// Colour of a cell on a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Paint {
    /// The terminal's own colour.
    #[default]
    Plain,
    /// For what runs or went well.
    Green,
    /// For what waits, as pending jobs.
    Yellow,
    /// For what went wrong or is missing.
    Red,
    /// For what matters less than the rest of the row.
    Dim,
}

impl Paint {
    /// The colour for a tone.
    pub const fn of(tone: Tone) -> Self {
        match tone {
            Tone::Active => Self::Green,
            Tone::Waiting => Self::Yellow,
            Tone::Wrong => Self::Red,
            Tone::Quiet => Self::Dim,
        }
    }

    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Green => Some("32"),
            Self::Yellow => Some("33"),
            Self::Red => Some("31"),
            Self::Dim => Some("2"),
        }
    }
}

/// A cell of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// The text, without colour.
    pub text: String,
    /// The colour of its text.
    pub paint: Paint,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            paint: Paint::Plain,
        }
    }
}

/// How a table is to look.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStyle {
    /// Columns of the terminal; `None` is no limit.
    pub width: Option<usize>,
    /// Whether cells have colours.
    pub colour: bool,
    /// Whether the line of titles is left out.
    pub bare: bool,
}

/// Cells under way, row by row. All texts lie one behind the other, so that a long table takes no
/// memory of its own for each cell.
pub struct Grid<'c> {
    columns: &'c [ColumnHead],
    texts: String,
    cells: Vec<Place>,
    /// The widest cell of each column, in columns of the terminal.
    widest: Vec<usize>,
}

/// A cell: its text begins where that of the one before ends. There are millions of them.
#[derive(Clone, Copy)]
struct Place {
    /// Length of the text in bytes.
    length: u32,
    /// In columns of the terminal.
    width: u32,
    paint: Paint,
}

impl<'c> Grid<'c> {
    /// No row yet; so many are to come.
    pub fn new(columns: &'c [ColumnHead], rows: usize) -> Self {
        Self {
            columns,
            texts: String::new(),
            cells: Vec::with_capacity(rows.saturating_mul(columns.len())),
            widest: vec![0; columns.len()],
        }
    }

    /// Adds the next row: `write` is asked for the text of each column in turn, and tells its colour.
    pub fn row(&mut self, mut write: impl FnMut(usize, &mut String) -> Paint) {
        for (at, widest) in self.widest.iter_mut().enumerate() {
            let start = self.texts.len();
            let paint = write(at, &mut self.texts);
            let width = clean_from(&mut self.texts, start);
            *widest = width.max(*widest);
            self.cells.push(Place {
                length: u32::try_from(self.texts.len() - start).unwrap_or(u32::MAX),
                width: u32::try_from(width).unwrap_or(u32::MAX),
                paint,
            });
        }
    }

    /// The table as text; columns that may be cut shrink until a line fits the terminal.
    pub fn render(&self, style: TableStyle) -> String {
        let title = |head: &ColumnHead| if style.bare { 0 } else { head.title.width() };
        let titles = self.columns.iter().map(title);
        let widths = titles.zip(&self.widest);
        let mut widths: Vec<usize> = widths.map(|(title, cells)| title.max(*cells)).collect();
        if let Some(width) = style.width {
            squeeze(self.columns, &mut widths, width);
        }
        let line = widths.iter().map(|width| width + 2).sum::<usize>();
        let rows = self.cells.len() / self.columns.len().max(1) + 1;
        let mut out = String::with_capacity(line.min(256).saturating_mul(rows));
        if !style.bare {
            let titles = self.columns.iter().map(|head| {
                let title = head.title.as_str();
                (title, title.width(), Paint::Plain)
            });
            self.line(&widths, titles, false, &mut out);
        }
        let mut start = 0;
        for row in self.cells.chunks(self.columns.len().max(1)) {
            let cells = row.iter().map(|cell| {
                let end = start + cell.length as usize;
                let text = self.texts.get(start..end).unwrap_or_default();
                start = end;
                (text, cell.width as usize, cell.paint)
            });
            self.line(&widths, cells, style.colour, &mut out);
        }
        out
    }

    /// Adds a line of cells: text, its width, its colour.
    fn line<'t>(
        &self,
        widths: &[usize],
        cells: impl Iterator<Item = (&'t str, usize, Paint)>,
        colour: bool,
        out: &mut String,
    ) {
        let start = out.len();
        let columns = self.columns.iter().zip(widths).zip(cells);
        for (at, ((head, width), (text, own, paint))) in columns.enumerate() {
            let cut = (own > *width).then(|| fit(text, *width));
            let (text, own) = match &cut {
                Some(cut) => (cut.as_str(), cut.width()),
                None => (text, own),
            };
            let fill = width.saturating_sub(own);
            blanks(out, if at > 0 { 2 } else { 0 });
            if head.side == Side::Right {
                blanks(out, fill);
            }
            match paint.code().filter(|_| colour && !text.is_empty()) {
                Some(code) => out.extend(["\u{1b}[", code, "m", text, "\u{1b}[0m"]),
                None => out.push_str(text),
            }
            if head.side == Side::Left {
                blanks(out, fill);
            }
        }
        let line = out.get(start..).unwrap_or_default();
        out.truncate(start + line.trim_end_matches(' ').len());
        out.push('\n');
    }
}

/// Puts `?` in the place of each control character of what is behind `start`, and tells how wide that
/// is.
fn clean_from(texts: &mut String, start: usize) -> usize {
    let text = texts.get(start..).unwrap_or_default();
    // Almost all texts are plain, and as wide as they have bytes.
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return text.len();
    }
    let clean = shown(text);
    texts.truncate(start);
    texts.push_str(&clean);
    clean.width()
}

/// Adds so many blanks.
fn blanks(out: &mut String, count: usize) {
    const BLANKS: &str = "                                ";
    let mut left = count;
    while left > 0 {
        let some = left.min(BLANKS.len());
        out.push_str(BLANKS.get(..some).unwrap_or_default());
        left -= some;
    }
}

/// The table as text; columns that may be cut shrink until a line fits the terminal.
pub fn render(columns: &[ColumnHead], rows: &[Vec<Cell>], style: TableStyle) -> String {
    let mut grid = Grid::new(columns, rows.len());
    for row in rows {
        grid.row(|at, out| {
            let cell = row.get(at);
            out.push_str(cell.map_or("", |cell| &cell.text));
            cell.map_or(Paint::Plain, |cell| cell.paint)
        });
    }
    grid.render(style)
}

/// Makes the widest columns that may be cut narrower, until a line fits.
fn squeeze(columns: &[ColumnHead], widths: &mut [usize], limit: usize) {
    loop {
        let total: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let Some(excess) = total.checked_sub(limit).filter(|e| *e > 0) else {
            return;
        };
        let widest = (0..columns.len())
            .filter(|at| columns[*at].least.is_some_and(|least| widths[*at] > least))
            .max_by_key(|at| widths[*at]);
        let Some(at) = widest else { return };
        let least = columns[at].least.unwrap_or(0);
        // Down to the next widest only, so that the columns shrink together.
        let next = (0..columns.len())
            .filter(|n| *n != at && columns[*n].least.is_some_and(|l| widths[*n] > l))
            .map(|n| widths[n])
            .max()
            .unwrap_or(0);
        let step = excess.min((widths[at] - next.min(widths[at])).max(1));
        widths[at] = (widths[at] - step).max(least);
    }
}

/// Control characters (names come from other users) as `?`.
pub(super) fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The start of `text` that fits into `width` columns, with `+` where something is missing.
pub(super) fn fit(text: &str, width: usize) -> String {
    let mut text = shown(text);
    if text.width() <= width {
        return text;
    }
    let mut used = 1; // the `+`
    let end = text.char_indices().find_map(|(at, c)| {
        used += c.width().unwrap_or(0);
        (used > width).then_some(at)
    });
    text.truncate(end.unwrap_or(0));
    text.push('+');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<Cell>> {
        let red = Cell {
            text: "failed".into(),
            paint: Paint::Red,
        };
        vec![
            vec!["1".into(), "a".into(), red],
            vec!["12345".into(), "a long name\u{1b}".into(), "x".into()],
        ]
    }

    fn columns() -> [ColumnHead; 3] {
        [
            ColumnHead::right("ID"),
            ColumnHead::left("NAME").cut(5),
            ColumnHead::left("STATE"),
        ]
    }

    #[test]
    fn aligned() {
        let check = |style: TableStyle, want: &[&str]| {
            let text = render(&columns(), &rows(), style);
            assert_eq!(text.lines().collect::<Vec<_>>(), want, "{style:?}");
        };
        let plain = TableStyle::default();
        check(
            plain,
            &[
                "   ID  NAME          STATE",
                "    1  a             failed",
                "12345  a long name?  x",
            ],
        );
        check(
            TableStyle {
                width: Some(22),
                ..plain
            },
            &[
                "   ID  NAME     STATE",
                "    1  a        failed",
                "12345  a long+  x",
            ],
        );
        check(
            TableStyle {
                width: Some(5),
                bare: true,
                colour: true,
            },
            &["    1  a      \u{1b}[31mfailed\u{1b}[0m", "12345  a lo+  x"],
        );
        assert_eq!(render(&columns(), &[], plain), "ID  NAME  STATE\n");
    }

    #[test]
    fn wide_and_narrow_characters() {
        let check = |text: &str, width: usize, want: &str| {
            let got = fit(text, width);
            assert_eq!(got, want, "{text} in {width}");
            assert!(got.width() <= width.max(1), "{text} in {width}");
        };
        check("\u{8ba1}\u{7b97}", 4, "\u{8ba1}\u{7b97}");
        check("\u{8ba1}\u{7b97}", 3, "\u{8ba1}+");
        check("\u{8ba1}\u{7b97}", 2, "+");
        check("e\u{301}te\u{301}", 3, "e\u{301}te\u{301}");
        check("e\u{301}te\u{301}", 2, "e\u{301}+");
        check("abc", 0, "+");
        let rows: Vec<Vec<Cell>> = ["\u{8ba1}\u{7b97}", "abcd", "e\u{301}"]
            .map(|name| vec![name.into(), "x".into()])
            .into();
        let text =
            render(&[ColumnHead::left("N"), ColumnHead::left("S")], &rows, TableStyle::default());
        assert_eq!(text, "N     S\n\u{8ba1}\u{7b97}  x\nabcd  x\ne\u{301}     x\n");
        // The widest cell of a column is told by columns of the terminal, not by characters.
        let text = render(
            &[ColumnHead::left("N"), ColumnHead::left("S")],
            &[rows[0].clone(), rows[2].clone()],
            TableStyle::default(),
        );
        assert_eq!(text, "N     S\n\u{8ba1}\u{7b97}  x\ne\u{301}     x\n");
    }
}
