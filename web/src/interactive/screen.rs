//! The screen of a terminal, and what of it has changed since a browser was last told.
//!
//! What programs write is read by a terminal emulator; browsers are told characters and colours, never
//! what was written. Pure.

use crate::limits::{MOST_COLUMNS, MOST_LINES, SCROLLED_LINES};
use serde_json::{Value as Json, json};
use std::num::NonZeroU16;
use vt100::{Color, Parser};

/// Bytes that a program is answered at once, at most: more questions get no answer.
const ANSWERS: usize = 4096;
/// Bytes of a title that are told.
const TITLE: usize = 200;

/// How large a screen is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScreenSize {
    /// Lines.
    pub lines: u16,
    /// Characters in one.
    pub columns: u16,
}

impl ScreenSize {
    /// A size that is one: what is asked for, within limits.
    pub fn within(lines: u16, columns: u16) -> Self {
        Self {
            lines: lines.clamp(2, MOST_LINES),
            columns: columns.clamp(10, MOST_COLUMNS),
        }
    }

    fn parts(self) -> (NonZeroU16, NonZeroU16) {
        let some = |n: u16| NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN);
        (some(self.lines), some(self.columns))
    }
}

/// What programs ask of a terminal beside what is drawn.
#[derive(Default)]
struct Asked {
    answers: Vec<u8>,
    title: String,
}

impl Asked {
    fn answer(&mut self, bytes: &[u8]) {
        if self.answers.len() + bytes.len() <= ANSWERS {
            self.answers.extend_from_slice(bytes);
        }
    }
}

impl vt100::Callbacks for Asked {
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        let text = String::from_utf8_lossy(&title[..title.len().min(TITLE)]).into_owned();
        self.title = text.chars().filter(|c| !c.is_control()).collect();
    }

    /// Who asks what the terminal is, whether it is there, and where the cursor is. Source: ECMA-48, 8.3.24
    /// (DA) and 8.3.35 (DSR).
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _: Option<u8>,
        parameters: &[&[u16]],
        letter: char,
    ) {
        let parameter = parameters.first().and_then(|p| p.first()).copied();
        match (first, letter, parameter) {
            (None, 'c', None | Some(0)) => self.answer(b"\x1b[?6c"),
            (None, 'n', Some(5)) => self.answer(b"\x1b[0n"),
            (None, 'n', Some(6)) => {
                let (line, column) = screen.cursor_position();
                self.answer(format!("\x1b[{};{}R", line + 1, column + 1).as_bytes());
            }
            _ => {}
        }
    }
}

/// The screen.
pub struct Screen {
    parser: Parser<Asked>,
}

impl Screen {
    /// An empty one.
    pub fn new(size: ScreenSize) -> Self {
        let (lines, columns) = size.parts();
        let parser = Parser::new_with_callbacks(lines, columns, SCROLLED_LINES, Asked::default());
        Self { parser }
    }

    /// Takes what was written; gives what is answered.
    pub fn write(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.parser.process(bytes);
        std::mem::take(&mut self.parser.callbacks_mut().answers)
    }

    /// Gives it another size.
    pub fn resize(&mut self, size: ScreenSize) {
        let (lines, columns) = size.parts();
        self.parser.set_size(lines, columns);
    }

    /// What is seen, so many lines above the last ones.
    pub fn view(&mut self, above: usize) -> View {
        let title = self.parser.callbacks().title.clone();
        let screen = self.parser.screen_mut();
        screen.set_scrollback(above);
        let above = screen.scrollback();
        let (lines, columns) = screen.size();
        let rows = (0..lines.get()).map(|line| runs(screen, line, columns.get()));
        let (line, column) = screen.cursor_position();
        let view = View {
            rows: rows.collect(),
            cursor: (!screen.hide_cursor() && above == 0).then_some([line, column]),
            size: [lines.get(), columns.get()],
            keys: [screen.application_cursor(), screen.bracketed_paste()],
            above,
            kept: screen.scrollback_len(),
            title,
        };
        screen.set_scrollback(0);
        view
    }
}

/// What a browser shows of a screen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// Each line as runs of equal looks.
    rows: Vec<Json>,
    cursor: Option<[u16; 2]>,
    size: [u16; 2],
    keys: [bool; 2],
    above: usize,
    kept: usize,
    title: String,
}

impl View {
    /// What is different from what was told before: of lines only those that are.
    pub fn since(&self, told: &Self) -> Json {
        let all = self.size != told.size || told.rows.len() != self.rows.len();
        let rows: serde_json::Map<String, Json> = self
            .rows
            .iter()
            .enumerate()
            .filter(|(at, row)| all || told.rows.get(*at) != Some(*row))
            .map(|(at, row)| (at.to_string(), row.clone()))
            .collect();
        json!({
            "lines": self.size[0], "columns": self.size[1], "rows": rows, "cursor": self.cursor,
            "application_keys": self.keys[0], "bracketed_paste": self.keys[1],
            "above": self.above, "kept": self.kept, "title": self.title,
        })
    }
}

/// A line as a list of `[text, foreground, background, looks]`; without what is empty at its end.
fn runs(screen: &vt100::Screen, line: u16, columns: u16) -> Json {
    let mut all: Vec<(String, Json, Json, u8)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(line, column) else {
            continue;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        let text = if cell.has_contents() {
            cell.contents()
        } else {
            " "
        };
        let looks = u8::from(cell.bold())
            | u8::from(cell.italic()) << 1
            | u8::from(cell.underline()) << 2
            | u8::from(cell.inverse()) << 3
            | u8::from(cell.dim()) << 4;
        let (front, back) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
        match all.last_mut() {
            Some(run) if (&run.1, &run.2, run.3) == (&front, &back, looks) => run.0.push_str(text),
            _ => all.push((text.to_owned(), front, back, looks)),
        }
    }
    if let Some(last) = all.last_mut()
        && last.2.is_null()
        && last.3 & 0b1100 == 0
    {
        last.0.truncate(last.0.trim_end_matches(' ').len());
    }
    all.retain(|run| !run.0.is_empty());
    all.into_iter()
        .map(|run| json!([run.0, run.1, run.2, run.3]))
        .collect()
}

/// A number of the palette, `#rrggbb`, or nothing for the usual one.
fn colour(colour: Color) -> Json {
    match colour {
        Color::Default => Json::Null,
        Color::Idx(number) => number.into(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Screen {
        Screen::new(ScreenSize::within(3, 10))
    }

    #[test]
    fn only_what_changed_is_told() {
        let mut screen = small();
        screen.write(b"a\x1b[1;31mb\x1b[0m\r\nxyz");
        let first = screen.view(0);
        let told = first.since(&View::default());
        assert_eq!(
            told["rows"],
            json!({"0": [["a", null, null, 0], ["b", 1, null, 1]], "1": [["xyz", null, null, 0]], "2": []})
        );
        assert_eq!((&told["cursor"], &told["lines"]), (&json!([1, 3]), &json!(3)));
        screen.write(b"!");
        assert_eq!(screen.view(0).since(&first)["rows"], json!({"1": [["xyz!", null, null, 0]]}));
        // Another size is told whole.
        screen.resize(ScreenSize::within(2, 20));
        let rows = screen.view(0).since(&first)["rows"]
            .as_object()
            .map(serde_json::Map::len);
        assert_eq!(rows, Some(2));
    }

    #[test]
    fn lines_that_left_the_screen_are_kept() {
        let mut screen = small();
        for n in 0..20 {
            screen.write(format!("line {n}\r\n").as_bytes());
        }
        let view = screen.view(5).since(&View::default());
        assert_eq!((&view["above"], &view["cursor"]), (&json!(5), &Json::Null));
        assert_eq!(view["rows"]["0"], json!([["line 13", null, null, 0]]));
        assert_eq!(screen.view(9999).since(&View::default())["above"], view["kept"]);
        assert!(screen.view(0).since(&View::default())["cursor"].is_array());
    }

    #[test]
    fn questions_of_programs_are_answered_within_limits() {
        let mut screen = small();
        assert_eq!(screen.write(b"ab\x1b[6n"), b"\x1b[1;3R");
        assert_eq!(screen.write(b"\x1b[c\x1b[5n"), b"\x1b[?6c\x1b[0n");
        assert!(screen.write(&b"\x1b[6n".repeat(10_000)).len() <= ANSWERS);
        screen.write(b"\x1b]2;a\x07");
        assert_eq!(screen.view(0).since(&View::default())["title"], "a");
    }

    /// Whatever a program writes, and however the window changes meanwhile.
    #[test]
    fn nothing_breaks_it() {
        let mut seed: u32 = 7;
        let mut next = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        let words = [
            "\x1b[",
            "\x1b]2;",
            "\x1b(0",
            ";",
            "9999",
            "r",
            "H",
            "L",
            "M",
            "P",
            "@",
            "J",
            "K",
            "m",
            "\u{4e2d}",
            "e\u{301}",
            "\r\n",
            "\t",
            "\x08",
            "\x1b[?1049h",
            "\x1b[?1049l",
            "\x1bM",
            "\x1bc",
            "\x1b[38;2;1;2;3m",
            "X",
            "S",
            "T",
            "d",
            "\u{200d}",
            "\x07",
        ];
        let mut screen = small();
        for _ in 0..200_000 {
            match next() % 40 {
                0 => screen.resize(ScreenSize::within((next() % 50) as u16, (next() % 90) as u16)),
                1 => drop(screen.view((next() % 30) as usize)),
                2 => drop(screen.write(&[(next() % 256) as u8])),
                _ => drop(screen.write(words[next() as usize % words.len()].as_bytes())),
            }
        }
        assert_eq!(
            ScreenSize::within(0, 60_000),
            ScreenSize {
                lines: 2,
                columns: MOST_COLUMNS
            }
        );
    }
}
