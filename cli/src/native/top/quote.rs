//! What a reservation of a job's shape would cost, told over the page that was there before.

use crate::native::resv::chart::ChartStyle;
use crate::native::resv::slots;
use crate::native::table::{TableStyle, broken, shown};
use crate::native::top::scroll::{Scroll, Step};
use cosy_model::reservation::Quote;
use jiff::Zoned;

/// Slots that are shown.
const SLOTS: usize = 5;
/// Slots that are asked for.
pub const ASKED_SLOTS: u32 = 200;

/// A quote for a job's shape.
#[derive(Clone, Debug)]
pub struct QuotePage {
    of: String,
    left_out: Vec<&'static str>,
    answer: Option<Result<Box<Quote>, String>>,
    scroll: Scroll,
}

impl QuotePage {
    /// It is asked for; what the job asks for beside it is told.
    pub fn new(of: &str, left_out: Vec<&'static str>) -> Self {
        Self {
            of: of.to_owned(),
            left_out,
            answer: None,
            scroll: Scroll::default(),
        }
    }

    /// Which job's.
    pub fn of(&self) -> &str {
        &self.of
    }

    /// What came.
    pub fn take(&mut self, answer: Result<Box<Quote>, String>) {
        self.answer = Some(answer);
    }

    /// The text moves.
    pub fn step(&mut self, step: Step, (width, height): (usize, usize), now: &Zoned) {
        let lines = self.lines(width, false, now).len();
        self.scroll.turn(step, lines, height);
    }

    /// Which line is seen first.
    pub const fn scroll(&self) -> Scroll {
        self.scroll
    }

    /// The text.
    pub fn lines(&self, width: usize, colour: bool, now: &Zoned) -> Vec<String> {
        let mut lines = broken(&format!("A reservation of the shape of job {}:", self.of), width);
        let text = match &self.answer {
            None => "it is being asked for".to_owned(),
            Some(Err(why)) => shown(why),
            Some(Ok(quote)) => {
                let style = TableStyle {
                    width: Some(width),
                    colour,
                    ..TableStyle::default()
                };
                let text = slots::text(quote, now, Some(SLOTS), style, ChartStyle::plain(width));
                text.replace(": --all-slots", ": cresv quote --all-slots")
            }
        };
        for line in text.lines() {
            match colour && line.contains('\u{1b}') {
                true => lines.push(line.to_owned()),
                false => lines.extend(fitted(line, width)),
            }
        }
        if !self.left_out.is_empty() {
            let text = format!("Without {}.", self.left_out.join(" and "));
            lines.extend(broken(&text, width));
        }
        lines
    }
}

/// A line as it is where it fits, else broken between words.
fn fitted(line: &str, width: usize) -> Vec<String> {
    match unicode_width::UnicodeWidthStr::width(line) <= width {
        true => vec![line.to_owned()],
        false => broken(line, width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample;

    fn text(page: &QuotePage) -> String {
        let lines = page.lines(60, false, &sample::now());
        assert!(lines.iter().all(|line| line.len() <= 60), "{lines:#?}");
        lines.join("\n")
    }

    #[test]
    fn quotes() {
        let mut page = QuotePage::new("12", Vec::new());
        assert!(text(&page).contains("it is being asked for"));
        page.take(Ok(Box::new(sample::quote())));
        let said = text(&page);
        assert!(said.starts_with("A reservation of the shape of job 12:\nA plain job"), "{said}");
        assert!(said.contains("The pick:"), "{said}");
        page.take(Err("no\u{1b}[2J".into()));
        assert_eq!(text(&page).lines().nth(1), Some("no?[2J"));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let page = QuotePage::new("12", vec!["this", "that"]);
        assert!(text(&page).ends_with("Without this and that."));
    }
}
