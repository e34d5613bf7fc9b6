//! Formats of columns as `squeue -o`, `sinfo -o` and their `-O` take them, and the lines
//! that come of them.
//!
//! `-o`: literal text, and `%[.][WIDTH]LETTER` for a column; what follows up to the next `%`
//! is printed after it. `-O`: `NAME[:[.][WIDTH][TEXT]]`, separated by commas, 20 wide unless
//! said; with `:TEXT` and no width the value is whole. A point aligns to the right. What is
//! longer than its column is cut. A letter that means nothing stays as it was written and is
//! told. Widths are characters, not columns of a terminal: programs cut such lines at fixed
//! places. Sources: squeue(1), sinfo(1), observed.
//!
//! Knows nothing of what the columns show: a field is whatever the caller says. No format
//! makes it fail or print more than [`WIDEST`] for a column.

/// The widest column that can be asked for; wider ones are as wide as this.
pub const WIDEST: usize = 1 << 16;

/// Width of a column of `-O` without one.
pub const LONG_WIDTH: usize = 20;

/// A column: what is shown, and how it is cut or filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column<F> {
    /// What it shows.
    pub field: F,
    /// Characters; as many as the value has without.
    pub width: Option<usize>,
    /// Aligned to the right.
    pub right: bool,
    /// Printed after it.
    pub suffix: String,
}

/// A whole line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout<F> {
    /// Printed before the first column.
    pub prefix: String,
    /// Columns from left to right.
    pub columns: Vec<Column<F>>,
    /// What was asked for and means nothing, as Slurm names it.
    pub unknown: Vec<String>,
}

/// Whether `-o` asks for every column that has a letter.
pub fn is_all(text: &str) -> bool {
    text.eq_ignore_ascii_case("%all")
}

/// What `-o %all` stands for: the columns of these letters with `|` between them, after
/// those of capitals also `after`.
pub fn all(letters: &str, after: &str) -> String {
    let one = |letter: char| match letter.is_ascii_uppercase() {
        true => format!("%{letter}{after}"),
        false => format!("%{letter}"),
    };
    letters.chars().map(one).collect::<Vec<_>>().join("|")
}

impl<F> Layout<F> {
    const fn empty() -> Self {
        Self {
            prefix: String::new(),
            columns: Vec::new(),
            unknown: Vec::new(),
        }
    }

    fn literal(&mut self, text: &str) {
        match self.columns.last_mut() {
            Some(column) => column.suffix.push_str(text),
            None => self.prefix.push_str(text),
        }
    }

    /// Reads what `-o` takes; `field` tells what a letter means.
    pub fn of_letters(text: &str, field: impl Fn(char) -> Option<F>) -> Self {
        let mut layout = Self::empty();
        let mut parts = text.split('%');
        layout.literal(parts.next().unwrap_or_default());
        for part in parts {
            let (right, width, rest) = size(part);
            let mut chars = rest.chars();
            let letter = chars.next();
            match letter.and_then(&field) {
                Some(field) => layout.columns.push(Column {
                    field,
                    width,
                    right,
                    suffix: chars.as_str().to_owned(),
                }),
                None => {
                    layout.unknown.push(letter.unwrap_or('\0').to_string());
                    layout.literal("%");
                    layout.literal(part);
                }
            }
        }
        layout
    }

    /// Reads what `-O` takes; `field` tells what a name (as it was written) means.
    pub fn of_names(text: &str, field: impl Fn(&str) -> Option<F>) -> Self {
        let mut layout = Self::empty();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, form) = match part.split_once(':') {
                Some((name, form)) => (name, Some(form)),
                None => (part, None),
            };
            let Some(field) = field(name) else {
                layout.unknown.push(name.to_owned());
                continue;
            };
            let (right, width, suffix) = match form {
                Some(form) => size(form),
                None => (false, Some(LONG_WIDTH), ""),
            };
            let width = match form {
                Some("" | ".") => Some(LONG_WIDTH),
                Some(_) | None => width,
            };
            layout.columns.push(Column {
                field,
                width,
                right,
                suffix: suffix.to_owned(),
            });
        }
        layout
    }

    /// Adds a line: `value` writes what a column shows.
    pub fn line(&self, out: &mut String, mut value: impl FnMut(&F, &mut String)) {
        out.push_str(&self.prefix);
        for column in &self.columns {
            let start = out.len();
            value(&column.field, out);
            column.fit(out, start);
            out.push_str(&column.suffix);
        }
        out.push('\n');
    }
}

impl<F> Column<F> {
    /// Cuts or fills what stands in `out` from `start` on.
    fn fit(&self, out: &mut String, start: usize) {
        let Some(width) = self.width else { return };
        let text = &out[start..];
        let length = if text.is_ascii() {
            text.len()
        } else {
            text.chars().count()
        };
        if length > width {
            let cut = text.char_indices().nth(width).map_or(text.len(), |c| c.0);
            out.truncate(start + cut);
        } else if self.right {
            fill_left(out, start, width - length);
        } else {
            out.extend(std::iter::repeat_n(' ', width - length));
        }
    }
}

/// Puts so many blanks before what stands in `out` from `start` on.
fn fill_left(out: &mut String, start: usize, blanks: usize) {
    const BLANKS: &str = "                                ";
    match BLANKS.get(..blanks) {
        Some(blanks) => out.insert_str(start, blanks),
        None => out.insert_str(start, &" ".repeat(blanks)),
    }
}

/// `[.][WIDTH]`, and what comes after. Width 0 is none.
fn size(text: &str) -> (bool, Option<usize>, &str) {
    let (right, text) = match text.strip_prefix('.') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let width = digits
        .bytes()
        .fold(0_usize, |n, b| n.saturating_mul(10).saturating_add(usize::from(b - b'0')))
        .min(WIDEST);
    (right, Some(width).filter(|w| *w > 0), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn letters(text: &str) -> Layout<char> {
        Layout::of_letters(text, |c| c.is_ascii_lowercase().then_some(c))
    }

    fn line<F: Clone + Into<char>>(layout: &Layout<F>, value: &str) -> String {
        let mut out = String::new();
        layout.line(&mut out, |_, out| out.push_str(value));
        out
    }

    #[test]
    fn letters_and_literals() {
        let check = |format: &str, want: &str, unknown: &[&str]| {
            let layout = letters(format);
            assert_eq!(line(&layout, "filler"), format!("{want}\n"), "{format}");
            assert_eq!(layout.unknown, unknown, "{format}");
        };
        check("%i", "filler", &[]);
        check(" %i|%j", " filler|filler", &[]);
        check("%.8i %8j|", "  filler filler  |", &[]);
        check("%.2i %3j|", "fi fil|", &[]);
        check("%0i|", "filler|", &[]);
        check("%!%i", "%!filler", &["!"]);
        check("%i|%4", "filler|%4", &["\0"]);
        check("%i%%", "filler%%", &["\0", "\0"]);
        check("%i%.5K,", "filler%.5K,", &["K"]);
        check("", "", &[]);
        check("none", "none", &[]);
    }

    #[test]
    fn names_and_sizes() {
        let check = |format: &str, want: &str, unknown: &[&str]| {
            let layout =
                Layout::of_names(format, |n| n.eq_ignore_ascii_case("name").then_some('n'));
            assert_eq!(line(&layout, "filler"), format!("{want}\n"), "{format}");
            assert_eq!(layout.unknown, unknown, "{format}");
        };
        check("name", "filler              ", &[]);
        check("Name:8,NAME:.8,", "filler    filler", &[]);
        check("name:###x###", "filler###x###", &[]);
        check("name:2|,name:\u{1f}", "fi|filler\u{1f}", &[]);
        check("name:", "filler              ", &[]);
        check("nosuch", "", &["nosuch"]);
    }

    #[test]
    fn wide_letters_are_not_torn() {
        let mut out = String::new();
        letters("%.4a|%2b|").line(&mut out, |_, out| out.push_str("äöü"));
        assert_eq!(out, " äöü|äö|\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_format_is_read(text in "[%.0-9a-zA-Z:,!|ä ]{0,40}", value in "\\PC{0,30}") {
            let layout = letters(&text);
            prop_assert_eq!(text.matches('%').count(), layout.columns.len() + layout.unknown.len());
            let mut out = String::new();
            layout.line(&mut out, |_, out| out.push_str(&value));
            prop_assert!(out.ends_with('\n'));
            Layout::of_names(&text, |n| n.chars().next()).line(&mut out, |_, out| out.push_str(&value));
        }

        #[test]
        fn columns_are_as_wide_as_asked(value in "\\PC{0,30}", width in 1_usize..40, right: bool) {
            let column = Column { field: 'x', width: Some(width), right, suffix: String::new() };
            let mut out = value.clone();
            column.fit(&mut out, 0);
            prop_assert_eq!(out.chars().count(), width);
        }
    }
}
