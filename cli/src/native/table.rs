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

/// The table as text; columns that may be cut shrink until a line fits the terminal.
pub fn render(columns: &[ColumnHead], rows: &[Vec<Cell>], style: TableStyle) -> String {
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, head)| {
            let title = if style.bare { 0 } else { head.title.width() };
            let cells = rows
                .iter()
                .map(|r| r.get(at).map_or(0, |c| shown(&c.text).width()));
            cells.max().unwrap_or(0).max(title)
        })
        .collect();
    if let Some(width) = style.width {
        squeeze(columns, &mut widths, width);
    }
    let mut out = String::new();
    if !style.bare {
        let titles: Vec<Cell> = columns.iter().map(|h| h.title.as_str().into()).collect();
        line(columns, &widths, &titles, false, &mut out);
    }
    for row in rows {
        line(columns, &widths, row, style.colour, &mut out);
    }
    out
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

fn line(columns: &[ColumnHead], widths: &[usize], cells: &[Cell], colour: bool, out: &mut String) {
    let empty = Cell::default();
    let start = out.len();
    for (at, head) in columns.iter().enumerate() {
        let cell = cells.get(at).unwrap_or(&empty);
        let text = fit(&cell.text, widths[at]);
        let fill = " ".repeat(widths[at].saturating_sub(text.width()));
        if at > 0 {
            out.push_str("  ");
        }
        let text = match cell.paint.code().filter(|_| colour && !text.is_empty()) {
            Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            None => text,
        };
        match head.side {
            Side::Left => out.extend([text, fill]),
            Side::Right => out.extend([fill, text]),
        }
    }
    out.truncate(start + out[start..].trim_end_matches(' ').len());
    out.push('\n');
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
