//! Aligned columns that fit the terminal. Widths are columns of a terminal, which a character
//! takes none, one or two of.

use crate::native::widths::{self, GAP, Wish};
use crate::output::harmless;
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
    /// Cells are lists in brackets, which are shortened before anything else gives way.
    pub list: bool,
    /// Its place among the columns that are left out where a line does not fit.
    pub leave: Option<usize>,
}

impl ColumnHead {
    /// A column whose cells start at the left and are never cut.
    pub fn left(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            side: Side::Left,
            least: None,
            list: false,
            leave: None,
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
            list: column.list,
            leave: column.leave,
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
    /// Whether the line of titles is left out, and what is told below a table too.
    pub bare: bool,
    /// Whether times are exact and everything has a line of its own, on a terminal too.
    pub exact: bool,
}

impl TableStyle {
    /// Whether a person reads it on a terminal, and wants it short. Programs read what goes elsewhere:
    /// it has every time, row and column whole.
    pub const fn is_short(&self) -> bool {
        self.width.is_some() && !self.exact
    }

    /// The same, of any width and with everything whole.
    pub const fn uncut(self) -> Self {
        Self {
            width: None,
            exact: true,
            ..self
        }
    }
}

/// A table as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// Its lines.
    pub text: String,
    /// Titles of columns with texts for which the terminal has no room.
    pub left_out: Vec<String>,
}

impl Rendered {
    /// The table, and below it what there was no room for.
    pub fn with_note(self, style: TableStyle) -> String {
        let Self { mut text, left_out } = self;
        if !left_out.is_empty() && !style.bare {
            text.push_str(&dimmed(&no_room(&left_out), style));
        }
        text
    }
}

/// Which columns there is no room for, in words.
pub fn no_room(left_out: &[String]) -> String {
    format!("no room for {}", left_out.join(", "))
}

/// What stands below a table, in as many lines as it takes on the terminal.
pub fn dimmed(text: &str, style: TableStyle) -> String {
    let pieces = broken(&shown(text), style.width.unwrap_or(usize::MAX));
    let lines = pieces.iter();
    lines
        .map(|line| format!("{}\n", painted(line, Paint::Dim, style)))
        .collect()
}

/// A text in its colour, where there are colours. It has no control characters.
pub fn painted(text: &str, paint: Paint, style: TableStyle) -> String {
    match paint.code().filter(|_| style.colour) {
        Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        None => text.to_owned(),
    }
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

    /// The table as text; what does not fit the terminal gives way as [`widths`] says.
    pub fn render(&self, style: TableStyle) -> Rendered {
        let widths = self.widths(style);
        let line: usize = widths.iter().flatten().map(|width| width + GAP).sum();
        let rows = self.cells.len() / self.columns.len().max(1) + 1;
        let mut text = String::with_capacity(line.min(256).saturating_mul(rows));
        if !style.bare {
            let titles = self.columns.iter().map(|head| {
                let title = head.title.as_str();
                (title, title.width(), Paint::Plain)
            });
            self.line(&widths, titles, false, &mut text);
        }
        let mut start = 0;
        for row in self.cells.chunks(self.columns.len().max(1)) {
            let cells = row.iter().map(|cell| {
                let end = start + cell.length as usize;
                let text = self.texts.get(start..end).unwrap_or_default();
                start = end;
                (text, cell.width as usize, cell.paint)
            });
            self.line(&widths, cells, style.colour, &mut text);
        }
        let columns = self.columns.iter().zip(&self.widest).zip(&widths);
        let left_out = columns.filter(|((_, widest), width)| **widest > 0 && width.is_none());
        let left_out = left_out.map(|((head, _), _)| head.title.clone()).collect();
        Rendered { text, left_out }
    }

    /// Width of each column; `None`: it is left out.
    fn widths(&self, style: TableStyle) -> Vec<Option<usize>> {
        let columns = self.columns.iter().zip(&self.widest);
        let wishes = columns.map(|(head, widest)| {
            let title = if style.bare { 0 } else { head.title.width() };
            Wish {
                width: title.max(*widest),
                least: head.least,
                list: head.list,
                leave: head.leave,
                empty: *widest == 0,
            }
        });
        match style.width {
            Some(limit) => widths::fit(&wishes.collect::<Vec<_>>(), limit),
            None => wishes.map(|wish| Some(wish.width)).collect(),
        }
    }

    /// Adds a line of cells: text, its width, its colour.
    fn line<'t>(
        &self,
        widths: &[Option<usize>],
        cells: impl Iterator<Item = (&'t str, usize, Paint)>,
        colour: bool,
        out: &mut String,
    ) {
        let start = out.len();
        let columns = self.columns.iter().zip(widths).zip(cells);
        let shown = columns.filter_map(|((head, width), cell)| Some((head, (*width)?, cell)));
        for (at, (head, width, (text, own, paint))) in shown.enumerate() {
            let cut = (own > width).then(|| match head.list {
                true => fit_list(text, width),
                false => fit(text, width),
            });
            let (text, own) = match &cut {
                Some(cut) => (cut.as_str(), cut.width()),
                None => (text, own),
            };
            let fill = width.saturating_sub(own);
            blanks(out, if at > 0 { GAP } else { 0 });
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

/// The table as text, fitted to the terminal, with a line below that names what is left out.
pub fn render(columns: &[ColumnHead], rows: &[Vec<Cell>], style: TableStyle) -> String {
    rendered_cells(columns, rows, style).with_note(style)
}

/// The same, with what there is no room for told apart.
pub fn rendered_cells(columns: &[ColumnHead], rows: &[Vec<Cell>], style: TableStyle) -> Rendered {
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

/// What could change the terminal (names come from other users) as `?`.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// The same for a text of several lines.
pub(super) fn shown_lines(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => c,
        c => harmless(c),
    };
    text.chars().map(safe).collect()
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

/// A list in brackets at most `width` columns wide: as many whole parts of it as fit, as in
/// `12_[1,3,+]`.
pub(super) fn fit_list(text: &str, width: usize) -> String {
    let text = shown(text);
    if text.width() <= width {
        return text;
    }
    let Some(open) = text.rfind('[').filter(|_| text.ends_with(']')) else {
        return fit(&text, width);
    };
    let room = |end: usize| {
        text.get(..end)
            .is_some_and(|head| head.width() + 3 <= width)
    };
    let mut commas = text.match_indices(',').map(|(at, _)| at);
    match commas.rfind(|at| *at > open && room(*at)) {
        Some(end) => format!("{},+]", text.get(..end).unwrap_or_default()),
        None if room(open) => format!("{}[+]", text.get(..open).unwrap_or_default()),
        None => fit(&text, width),
    }
}

/// Lines of text, those broken between words that a terminal of `width` columns would break anywhere.
pub fn sentences(text: &str, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    let mut all = String::with_capacity(text.len());
    for line in text.lines() {
        match line.width() > width {
            true => all.push_str(&broken(line, width).join("\n")),
            false => all.push_str(line),
        }
        all.push('\n');
    }
    all
}

/// A text in pieces at most `room` columns wide; broken inside a word only where that alone is wider.
pub(crate) fn broken(text: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + word.width() > room {
            pieces.push(String::new());
            used = 0;
        }
        for c in " "
            .repeat(usize::from(used > 0))
            .chars()
            .chain(word.chars())
        {
            let own = c.width().unwrap_or(0);
            if used + own > room {
                pieces.push(String::new());
                used = 0;
            }
            if let Some(piece) = pieces.last_mut() {
                piece.push(c);
            }
            used += own;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words() {
        let text = "  ID  NAME\nIt costs 17 SU in all.\n";
        assert_eq!(sentences(text, None), text);
        assert_eq!(sentences(text, Some(12)), "  ID  NAME\nIt costs 17\nSU in all.\n");
        assert_eq!(sentences("", Some(12)), "");
    }

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
        let narrow = TableStyle {
            width: Some(20),
            bare: true,
            colour: true,
            ..plain
        };
        check(narrow, &["    1  a      \u{1b}[31mfailed\u{1b}[0m", "12345  a lo+  x"]);
        check(
            TableStyle {
                bare: false,
                colour: false,
                width: Some(19),
                ..narrow
            },
            &[
                "   ID  NAME",
                "    1  a",
                "12345  a long name?",
                "no room for STATE",
            ],
        );
        assert_eq!(render(&columns(), &[], plain), "ID  NAME  STATE\n");
    }

    #[test]
    fn lists_in_brackets() {
        let check = |text: &str, width: usize, want: &str| {
            assert_eq!(fit_list(text, width), want, "{text} in {width}");
        };
        let tasks = "28_[1,3-5,7,9%2]";
        check(tasks, 15, "28_[1,3-5,7,+]");
        check(tasks, 14, "28_[1,3-5,7,+]");
        check(tasks, 13, "28_[1,3-5,+]");
        check(tasks, 8, "28_[1,+]");
        check(tasks, 7, "28_[+]");
        check(tasks, 6, "28_[+]");
        check(tasks, 5, "28_[+");
        check(tasks, 16, tasks);
        check("3_[1-3]", 6, "3_[+]");
        check("123456789", 5, "1234+");
        check("n[1,3]\u{1b}]", 7, "n[1,+]");
    }

    #[test]
    fn texts_in_pieces() {
        let check = |text: &str, room: usize, want: &[&str]| {
            assert_eq!(broken(text, room), want, "{text} in {room}");
        };
        check("", 5, &[""]);
        check("some words", 10, &["some words"]);
        check("some words", 9, &["some", "words"]);
        check("a wonderful day", 6, &["a", "wonder", "ful", "day"]);
        check("\u{8ba1}\u{7b97}\u{6d41}", 5, &["\u{8ba1}\u{7b97}", "\u{6d41}"]);
        check("a  b", 2, &["a ", "b"]);
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
