//! What is seen of the state: a pure function onto the cells of a screen.
//!
//! Only the terminal's own colours, bold, dim and reversed are used, and nothing is told by colour alone.

use crate::native::table::fit;
use crate::native::top::help;
use crate::native::top::painted::{BOLD, CHOSEN, DIM, put};
use crate::native::top::state::{Over, Page, Prompt, Top};
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Style};

/// Columns and rows below which nothing can be shown.
const LEAST: (u16, u16) = (30, 6);

/// Draws all of it.
pub fn draw(top: &Top, buffer: &mut Buffer) {
    let (columns, rows) = (buffer.area.width, buffer.area.height);
    if columns < LEAST.0 || rows < LEAST.1 {
        let text = format!("too small: {}x{} at least", LEAST.0, LEAST.1);
        put(buffer, (0, 0), columns, &text, Style::new());
        return;
    }
    tabs(top, buffer);
    match top.over() {
        Some(Over::Help(scroll)) => lines(buffer, 1, &help::lines(columns.into()), scroll.top()),
        Some(Over::Quote(page)) => {
            let text = page.lines(columns.into(), top.colour(), &top.moment().now);
            lines(buffer, 1, &text, page.scroll().top());
        }
        None => page(top, buffer),
    }
    status(top, buffer, rows - 2);
    keys(top, buffer, rows - 1);
}

/// The pages, and what time it is.
fn tabs(top: &Top, buffer: &mut Buffer) {
    let columns = buffer.area.width;
    let job = top.job().map(|job| format!(" {}", job.target()));
    let tabs = [
        (Page::Jobs, "1 Jobs".to_owned()),
        (Page::Nodes, "2 Nodes".to_owned()),
        (Page::Plan, "3 Plan".to_owned()),
        (Page::Job, format!("4 Job{}", job.unwrap_or_default())),
    ];
    let mut x = 0;
    for (page, title) in tabs {
        let style = match page == top.page() {
            true => CHOSEN.patch(BOLD),
            false => Style::new(),
        };
        x = put(buffer, (x, 0), columns, &format!(" {title} "), style);
    }
    let clock = top.moment().now.strftime("%H:%M:%S").to_string();
    let clock = match columns {
        60.. => format!("cosy top  {clock}"),
        _ => clock,
    };
    let at = columns.saturating_sub(clock.len() as u16);
    if at > x {
        put(buffer, (at, 0), columns, &clock, DIM);
    }
}

fn page(top: &Top, buffer: &mut Buffer) {
    let (width, height) = top.body();
    let (colour, now) = (top.colour(), &top.moment().now);
    match top.page() {
        Page::Jobs => {
            let (head, rows) = top.jobs().lines(width, colour, now);
            let none = match top.has_answer() {
                true => top.jobs().none(),
                false => "the jobs are being asked for".to_owned(),
            };
            list(buffer, &head, &rows, top.jobs().scroll().at(), top.jobs().scroll().top(), &none);
        }
        Page::Nodes => {
            let (head, rows) = top.nodes().lines(width, colour, now);
            let scroll = top.nodes().scroll();
            list(buffer, &head, &rows, scroll.at(), scroll.top(), &top.nodes().none());
        }
        Page::Plan => chart(top, buffer),
        Page::Job => {
            let Some(job) = top.job() else { return };
            let (above, title, output) = job.seen((width, height), colour, now);
            lines(buffer, 1, &above, 0);
            let y = 1 + above.len() as u16;
            let title = fit(&title, width);
            let end = put(buffer, (0, y), width as u16, &title, DIM);
            let rule = "-".repeat(width.saturating_sub(end.into()));
            put(buffer, (end, y), width as u16, &rule, DIM);
            lines(buffer, y + 1, &output, 0);
        }
    }
}

/// A list with its titles; the chosen row is reversed.
fn list(buffer: &mut Buffer, head: &str, rows: &[String], at: usize, top: usize, none: &str) {
    let width = buffer.area.width;
    if rows.is_empty() {
        put(buffer, (0, 2), width, none, DIM);
        return;
    }
    put(buffer, (0, 1), width, head, BOLD);
    let height = usize::from(buffer.area.height.saturating_sub(4));
    for ((place, row), y) in rows.iter().enumerate().skip(top).take(height).zip(2..) {
        let style = match place == at {
            true => CHOSEN,
            false => Style::new(),
        };
        let end = put(buffer, (0, y), width, row, style);
        if place == at {
            let rest = " ".repeat(usize::from(width.saturating_sub(end)));
            put(buffer, (end, y), width, &rest, style);
        }
    }
}

/// The plan: letters in the colours of what they stand for, own jobs in bold.
fn chart(top: &Top, buffer: &mut Buffer) {
    let (width, height) = top.body();
    let (head, rows) = top.plan().lines(width, &top.moment().now);
    lines(buffer, 1, &head, 0);
    if rows.is_empty() {
        put(buffer, (0, 2), buffer.area.width, &top.plan().none(), DIM);
        return;
    }
    let first = 1 + head.len();
    let room = (height + 1).saturating_sub(first);
    let seen = rows.iter().skip(top.plan().scroll().top()).take(room);
    for (row, y) in seen.zip(first as u16..) {
        let mut x = 0;
        for (at, bar) in bars(row).into_iter().enumerate() {
            let style = match (at, top.colour()) {
                (0, _) => Style::new(),
                (_, colour) => of_bar(bar, colour),
            };
            x = put(buffer, (x, y), width as u16 - x.min(width as u16), bar, style);
        }
    }
}

/// What stands before the first bar of a row, and each bar.
fn bars(row: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = row.match_indices('|').map(|(at, _)| at).collect();
    starts.insert(0, 0);
    starts.push(row.len());
    let pairs = starts.windows(2);
    pairs
        .filter_map(|pair| row.get(*pair.first()?..*pair.last()?))
        .collect()
}

/// The style of a bar, by the letter that fills it.
fn of_bar(bar: &str, colour: bool) -> Style {
    let style = match bar.starts_with("|*") {
        true => BOLD,
        false => Style::new(),
    };
    let fill = bar.trim_end().chars().last();
    match fill.filter(|_| colour) {
        Some('#') => style.fg(Color::Green),
        Some('-') => style.fg(Color::Yellow),
        Some('?' | '=') => style.fg(Color::Red),
        Some(_) | None => style,
    }
}

/// Lines of a text from one on, as many as there is room for above the last two.
fn lines(buffer: &mut Buffer, first: u16, text: &[String], top: usize) {
    let (width, end) = (buffer.area.width, buffer.area.height.saturating_sub(2));
    for (line, y) in text.iter().skip(top).zip(first..end) {
        put(buffer, (0, y), width, line, Style::new());
    }
}

/// What is wrong, what was said, or how much is shown.
fn status(top: &Top, buffer: &mut Buffer, y: u16) {
    let width = usize::from(buffer.area.width);
    let red = match top.colour() {
        true => Style::new().fg(Color::Red),
        false => BOLD,
    };
    let (text, style) = match (top.trouble(), top.said()) {
        (_, Some(said)) => (said.to_owned(), BOLD),
        (Some(trouble), None) => (trouble, red),
        (None, None) => (summary(top), DIM),
    };
    put(buffer, (0, y), width as u16, &fit(&text, width), style);
}

fn summary(top: &Top) -> String {
    match top.page() {
        Page::Jobs => top.jobs().summary(),
        Page::Nodes => top.nodes().summary(),
        Page::Plan => top.plan().summary(),
        Page::Job => String::new(),
    }
}

/// What is asked of the user, or which keys there are.
fn keys(top: &Top, buffer: &mut Buffer, y: u16) {
    let width = usize::from(buffer.area.width);
    let (text, style) = match top.prompt() {
        Some(Prompt::Confirm(confirm)) => {
            let question = fit(&confirm.question, width.saturating_sub(6));
            (format!("{question} y/N "), CHOSEN)
        }
        Some(Prompt::Search { text, .. }) => (format!("/{}_", end_of(text, width)), BOLD),
        None => (hint(top, width), DIM),
    };
    put(buffer, (0, y), width as u16, &text, style);
}

/// The end of what is typed, where all of it does not fit.
fn end_of(text: &str, width: usize) -> &str {
    let room = width.saturating_sub(3);
    let mut used = 0;
    let wide = |c| unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
    let begin = text.char_indices().rev().find_map(|(at, c)| {
        used += wide(c);
        (used > room).then_some(at + c.len_utf8())
    });
    text.get(begin.unwrap_or(0)..).unwrap_or_default()
}

/// As many of the keys as there is room for.
fn hint(top: &Top, width: usize) -> String {
    let keys: &[&str] = match (top.over(), top.page()) {
        (Some(_), _) => &["Esc back", "arrows move"],
        (None, Page::Jobs) => &[
            "q quit",
            "? help",
            "Enter open",
            "/ find",
            "u all",
            "s sort",
            "c cancel",
            "h hold",
            "Q quote",
        ],
        (None, Page::Nodes) => &["q quit", "? help", "Enter its jobs", "/ find"],
        (None, Page::Plan) => &[
            "q quit",
            "? help",
            "arrows move",
            "+ - zoom",
            "0 now",
            "/ find",
        ],
        (None, Page::Job) => &[
            "q quit", "? help", "Esc back", "o output", "e errors", "c cancel", "h hold", "Q quote",
        ],
    };
    let mut line = String::new();
    for key in keys {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.len() + gap.len() + key.len() > width {
            break;
        }
        line.push_str(gap);
        line.push_str(key);
    }
    line
}

#[cfg(test)]
mod tests;
