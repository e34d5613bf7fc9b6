//! Price and delay of others over the start time, drawn with characters.
//!
//! Slots are the instants at which something changes, so a figure holds until the next
//! one. Where several slots fall on one column, the cheapest of them is shown.

use crate::native::resv::{horizon, words};
use crate::output;
use cosy_model::reservation::{Quote, QuotedSlot};
use cosy_model::{Span, Su, Time};
use jiff::Zoned;
use std::io::IsTerminal;

/// With which characters, and how wide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChartStyle {
    /// Blocks of Unicode instead of ASCII.
    pub blocks: bool,
    /// Columns of the whole chart.
    pub width: usize,
}

/// Lines of each picture.
const HEIGHT: usize = 4;
/// Columns for the figures at the left.
const MARGIN: usize = 10;
/// Fewest columns for the drawing itself.
const LEAST: usize = 25;
/// Columns at most: wider charts show nothing more.
const WIDEST: usize = 110;

impl ChartStyle {
    /// ASCII in so many columns.
    pub const fn plain(width: usize) -> Self {
        Self {
            blocks: false,
            width,
        }
    }

    /// The style for standard output: blocks on a terminal with a UTF-8 locale, as wide as the
    /// terminal, or 80 columns.
    pub fn for_stdout() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|value| !value.is_empty())
            .unwrap_or_default()
            .to_ascii_uppercase();
        let utf8 = locale.contains("UTF-8") || locale.contains("UTF8");
        Self {
            blocks: utf8 && std::io::stdout().is_terminal(),
            width: output::width().unwrap_or(80),
        }
    }

    /// Whether blocks are drawn there.
    pub fn has_blocks() -> bool {
        Self::for_stdout().blocks
    }
}

/// The contents of one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Column {
    /// Price and delay of others in all; `None` where no slot is free.
    figures: Option<(Su, Span)>,
    picked: bool,
}

/// The chart; empty when there are fewer than two slots, none is free, or there is no room.
pub fn draw(quote: &Quote, now: &Zoned, style: ChartStyle) -> String {
    let room = style.width.min(WIDEST).saturating_sub(MARGIN + 1);
    let (Some(first), Some(last)) = (quote.slots.first(), horizon::last_start(quote)) else {
        return String::new();
    };
    let none_is_free = !quote.slots.iter().any(|slot| slot.feasible);
    if room < LEAST || first.start >= last || none_is_free {
        return String::new();
    }
    let columns = columns(quote, first.start, last, room);
    let prices = columns.iter().map(|c| c.figures.map(|f| f.0.0));
    let delays = columns.iter().map(|c| c.figures.map(|f| f.1.0));
    let dearest = prices.clone().flatten().max().unwrap_or(0);
    let longest = delays.clone().flatten().max().unwrap_or(0);
    let mut text = String::from("\nprice in SU, by start\n");
    let top = words::price(Su(dearest));
    text.push_str(&picture(prices.collect(), dearest, &top, style));
    if longest > 0 {
        text.push_str("delay of waiting jobs in all\n");
        text.push_str(&picture(delays.collect(), longest, &words::span(Span(longest)), style));
    }
    text.push_str(&axis(&columns, first.start, last, now));
    if quote.slots.last().is_some_and(|slot| slot.start > last) {
        text.push_str("later starts are like the last\n");
    }
    text
}

fn columns(quote: &Quote, from: Time, to: Time, room: usize) -> Vec<Column> {
    let all = i128::from(to.since(from).0.max(1));
    let place = |t: Time| {
        let at = i128::from(t.since(from).0) * (room as i128 - 1) / all;
        usize::try_from(at).unwrap_or(0).min(room - 1)
    };
    let mut columns: Vec<Option<Column>> = vec![None; room];
    let drawn = quote.slots.iter().take_while(|slot| slot.start <= to);
    for (at, slot) in drawn.enumerate() {
        let picked = quote.choice.map(|c| c as usize) == Some(at);
        let column = &mut columns[place(slot.start)];
        *column = Some(cheaper(*column, slot, picked));
    }
    let mut held = Column {
        figures: None,
        picked: false,
    };
    let fill = |c: Option<Column>| {
        held = c.unwrap_or(Column {
            picked: false,
            ..held
        });
        held
    };
    columns.into_iter().map(fill).collect()
}

fn cheaper(column: Option<Column>, slot: &QuotedSlot, picked: bool) -> Column {
    let figures = slot.feasible.then(|| (slot.price(), slot.total_delay));
    let before = column.and_then(|c| c.figures);
    let figures = match (before, figures) {
        (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
        (a, b) => a.or(b),
    };
    Column {
        figures,
        picked: picked || column.is_some_and(|c| c.picked),
    }
}

fn picture(values: Vec<Option<i64>>, most: i64, top: &str, style: ChartStyle) -> String {
    let mut text = String::new();
    for row in (0..HEIGHT).rev() {
        let label = match row {
            0 => "0",
            r if r == HEIGHT - 1 => top,
            _ => "",
        };
        let line: String = values.iter().map(|v| mark(*v, most, row, style)).collect();
        let label = fit(label);
        text.push_str(&format!("{label:>MARGIN$}|{}\n", line.trim_end()));
    }
    text
}

fn fit(label: &str) -> &str {
    label.get(..MARGIN).unwrap_or(label)
}

/// The character in a column at a height: full, a part, or a blank; at the bottom `x` where no slot
/// is free, `_` where it costs nothing.
fn mark(value: Option<i64>, most: i64, row: usize, style: ChartStyle) -> char {
    const PARTS: [char; 9] = [
        ' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
        '\u{2588}',
    ];
    let Some(value) = value else {
        return if row == 0 { 'x' } else { ' ' };
    };
    let eighths = i128::from(value.max(0)) * (HEIGHT as i128 * 8) / i128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).min(HEIGHT * 8);
    let here = eighths.saturating_sub(row * 8).min(8);
    match (style.blocks, here) {
        (_, 0) if row == 0 => '_',
        (true, n) => PARTS[n],
        (false, 8) => '#',
        (false, n) if n >= 4 => '=',
        (false, n) if n > 0 => '-',
        (false, _) => ' ',
    }
}

/// The line of time with the pick, and what it means.
fn axis(columns: &[Column], from: Time, to: Time, now: &Zoned) -> String {
    let line: String = columns
        .iter()
        .map(|c| if c.picked { '^' } else { '-' })
        .collect();
    let middle = from + Span(to.since(from).0 / 2);
    let [left, centre, right] =
        [from, middle, to].map(|t| words::clock(Time::from_secs(t.secs() / 60 * 60), now));
    let used = left.chars().count() + centre.chars().count() + right.chars().count();
    let space = columns.len().saturating_sub(used);
    let (a, b) = (space / 2, space - space / 2);
    let margin = " ".repeat(MARGIN);
    let times = format!("{left}{}{centre}{}{right}", " ".repeat(a), " ".repeat(b));
    let blocked = columns.iter().any(|c| c.figures.is_none());
    let picked = columns.iter().any(|c| c.picked);
    let legend: Vec<_> = [("^: the pick", picked), ("x: not free", blocked)]
        .iter()
        .filter(|(_, there)| *there)
        .map(|(words, _)| *words)
        .collect();
    let mut text = format!("{margin}+{line}\n{margin} {times}\n");
    if !legend.is_empty() {
        text.push_str(&format!("{}\n", legend.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample;

    #[test]
    fn a_chart() {
        let check = |style: ChartStyle, want: &str| {
            let got = draw(&sample::quote(), &sample::now(), style);
            assert_eq!(got, want, "{got}");
        };
        check(
            ChartStyle::plain(45),
            "
price in SU, by start
      12.5|       #####
          |       #################==========
          |       ###########################
         0|xxxxxxx###########################
delay of waiting jobs in all
1 h 35 min|       #####
          |       #####
          |       #####============
         0|xxxxxxx#################__________
          +------------^---------------------
           12:30         14:50          17:10
^: the pick, x: not free
later starts are like the last
",
        );
        let blocks = ChartStyle {
            blocks: true,
            width: 45,
        };
        let got = draw(&sample::quote(), &sample::now(), blocks);
        let row = format!("|       {}{}\n", "\u{2588}".repeat(17), "\u{2584}".repeat(10));
        assert!(got.contains(&row), "{got}");
    }

    #[test]
    fn no_room_no_chart() {
        let quote = sample::quote();
        let check = |quote: &Quote, width: usize, there: bool| {
            let got = draw(quote, &sample::now(), ChartStyle::plain(width));
            assert_eq!(!got.is_empty(), there, "{width}: {got}");
            let fits = |l: &str| l.chars().count() <= width.min(WIDEST);
            assert!(got.lines().all(fits), "{width}: {got}");
        };
        for width in [36, 45, 80, 200, 100_000] {
            check(&quote, width, true);
        }
        check(&quote, 0, false);
        check(&quote, 35, false);
        let mut one = quote.clone();
        one.slots.truncate(1);
        check(&one, 80, false);
        one.slots.clear();
        check(&one, 80, false);
        let mut busy = quote.clone();
        busy.slots.iter_mut().for_each(|slot| slot.feasible = false);
        check(&busy, 80, false);
        let mut far = quote;
        far.slots[4].start = Time::FAR;
        far.slots[3].base = Su(i64::MAX);
        check(&far, 80, true);
    }
}
