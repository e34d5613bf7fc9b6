//! Lines with the colours of tables, put into the cells of a screen.
//!
//! The one way into a screen: whatever else a text may hold that could change a terminal is shown as `?`.

use crate::output::harmless;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier, Style};

/// Matters less.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Matters more.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Is chosen.
pub const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// What begins a colour in the texts of tables.
const BEGIN: &str = "\u{1b}[";

/// Puts a line at a place, in at most so many columns; the column behind it.
///
/// The codes of colours that [`table`](crate::native::table) writes are taken for what they mean.
pub fn put(buffer: &mut Buffer, (x, y): (u16, u16), width: u16, text: &str, style: Style) -> u16 {
    let area = buffer.area;
    if y >= area.bottom() || x >= area.right() {
        return x;
    }
    let end = x.saturating_add(width).min(area.right());
    let mut at = x;
    for (piece, own) in pieces(text) {
        let clean: String = piece.chars().map(harmless).collect();
        let room = usize::from(end.saturating_sub(at));
        at = buffer.set_stringn(at, y, &clean, room, style.patch(own)).0;
    }
    at
}

/// A text in pieces of one style each.
fn pieces(text: &str) -> Vec<(&str, Style)> {
    let mut pieces = Vec::new();
    let mut style = Style::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let (before, code) = rest.split_at(at);
        let known = code
            .strip_prefix(BEGIN)
            .and_then(|code| code.split_once('m'))
            .and_then(|(code, after)| Some((style_of(code)?, after)));
        let Some((next, after)) = known else {
            break;
        };
        pieces.push((before, style));
        (style, rest) = (next, after);
    }
    pieces.push((rest, style));
    pieces
}

/// The style of a code that tables write; `None`: they do not.
fn style_of(code: &str) -> Option<Style> {
    match code {
        "0" => Some(Style::new()),
        "2" => Some(DIM),
        "31" => Some(Style::new().fg(Color::Red)),
        "32" => Some(Style::new().fg(Color::Green)),
        "33" => Some(Style::new().fg(Color::Yellow)),
        _ => None,
    }
}

/// The text of a screen, line by line, without what is blank at their ends.
pub fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width.max(1))) {
        let mut line = String::new();
        let mut hidden = 0;
        for cell in row {
            if hidden > 0 {
                hidden -= 1;
                continue;
            }
            hidden = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
            line.push_str(cell.symbol());
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui_core::layout::Rect;

    fn check(line: &str, want: &str) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
        put(&mut buffer, (0, 0), 10, line, Style::new());
        assert_eq!(text(&buffer), format!("{want}\n"), "{line:?}");
        buffer
    }

    #[test]
    fn colours_become_styles() {
        let buffer = check("a \u{1b}[31mfailed\u{1b}[0m b", "a failed b");
        assert_eq!(buffer[(1, 0)].fg, Color::Reset);
        assert_eq!(buffer[(2, 0)].fg, Color::Red);
        assert_eq!(buffer[(9, 0)].fg, Color::Reset);
    }

    #[test]
    fn nothing_else_comes_through() {
        check("a\u{1b}[2Jb", "a?[2Jb");
        check("a\u{1b}[31", "a?[31");
        check("a\u{1b}[32mb\u{1b}]0;x\u{7}", "ab?]0;x?");
        check("exe\u{202e}gpj\t\r\n", "exe?gpj???");
        check("\u{9b}31m", "?31m");
    }

    /// A wide character that is cut in the middle is not there.
    #[test]
    fn wide_characters() {
        check(
            "\u{8ba1}\u{7b97}\u{6d41}\u{4f53}\u{529b}\u{5b66}",
            "\u{8ba1}\u{7b97}\u{6d41}\u{4f53}\u{529b}",
        );
        check("a\u{8ba1}\u{7b97}\u{6d41}\u{4f53}\u{529b}", "a\u{8ba1}\u{7b97}\u{6d41}\u{4f53}");
    }

    #[test]
    fn nothing_outside_the_screen() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 1));
        assert_eq!(put(&mut buffer, (0, 1), 4, "x", Style::new()), 0);
        assert_eq!(put(&mut buffer, (4, 0), 4, "x", Style::new()), 4);
        assert_eq!(put(&mut buffer, (2, 0), 90, "xyz", Style::new()), 4);
        assert_eq!(text(&buffer), "  xy\n");
    }
}
