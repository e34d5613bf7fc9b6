//! The page of one job: how it stands, why, when and where, and below that the end of what it writes.

use crate::native::follow::{Row, Stream};
use crate::native::resv::words;
use crate::native::stat::{LEAVE, default_columns};
use crate::native::table::{TableStyle, broken};
use crate::native::top::event::{Effect, News, Said};
use crate::native::top::scroll::{Scroll, Step};
use crate::native::top::tail::Tail;
use crate::native::{job_page, job_table};
use cosy_model::api::{JobRef, Table};
use jiff::Zoned;
use std::path::PathBuf;

/// Lines of the job itself beside its output, at least.
const LEAST_LINES: usize = 6;

/// The page of one job.
#[derive(Clone, Debug)]
pub struct JobPage {
    target: JobRef,
    table: Table,
    told: Vec<String>,
    /// Why it is not told of.
    refused: Option<String>,
    stream: Stream,
    /// The file that is followed.
    path: Option<PathBuf>,
    tail: Tail,
    /// Why there is nothing of the file.
    note: Option<String>,
    /// The output has the whole page.
    only_output: bool,
    /// The first line of the job that is seen.
    scroll: Scroll,
    /// How many lines above the end of the output are not seen.
    above_end: usize,
}

impl JobPage {
    /// Nothing of it is known yet.
    pub fn new(target: JobRef) -> Self {
        Self {
            target,
            table: Table::default(),
            told: Vec::new(),
            refused: None,
            stream: Stream::Output,
            path: None,
            tail: Tail::default(),
            note: None,
            only_output: false,
            scroll: Scroll::default(),
            above_end: 0,
        }
    }

    /// Which job.
    pub const fn target(&self) -> JobRef {
        self.target
    }

    /// Its rows: one, or several of an array.
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// What is known of it now; whether another file is to be followed.
    pub fn take(&mut self, table: Table, told: Vec<String>) -> Option<Effect> {
        self.refused = None;
        (self.table, self.told) = (table, told);
        self.follow()
    }

    /// Why nothing is known of it.
    pub fn refuse(&mut self, why: &str) {
        self.refused = Some(why.to_owned());
    }

    /// The other file of the job.
    pub fn toggle_stream(&mut self) -> Option<Effect> {
        self.stream = match self.stream {
            Stream::Output => Stream::Error,
            Stream::Error => Stream::Output,
        };
        self.follow()
    }

    /// The file that its output is in now.
    fn follow(&mut self) -> Option<Effect> {
        let path = match self.table.rows {
            1 => Row::read(self.target, &self.table)
                .path(self.stream)
                .map_err(|e| e.to_string()),
            0 => return None,
            n => Err(format!("it has {n} tasks, each with its own output: open one")),
        };
        match path {
            Ok(path) if self.path.as_ref() == Some(&path) => None,
            Ok(path) => {
                self.path = Some(path.clone());
                self.begin_anew();
                Some(Effect::Follow(Some(path)))
            }
            Err(why) => {
                self.begin_anew();
                self.note = Some(why);
                self.path.take().map(|_| Effect::Follow(None))
            }
        }
    }

    fn begin_anew(&mut self) {
        self.tail = Tail::default();
        self.note = None;
        self.above_end = 0;
    }

    /// Something new of the file.
    pub fn output(&mut self, news: &News) {
        if self.path.as_ref() != Some(&news.path) {
            return;
        }
        match &news.said {
            Said::More(bytes) => {
                let before = self.tail.len();
                self.tail.push(bytes);
                self.note = None;
                // Who reads further up stays there.
                if self.above_end > 0 {
                    self.above_end += self.tail.len().saturating_sub(before);
                }
            }
            Said::Anew => self.begin_anew(),
            Said::Absent => {
                let row = Row::read(self.target, &self.table);
                self.note = Some(row.is_absent(&news.path).to_string());
            }
            Said::Unreadable(why) => {
                self.note = Some(format!("cannot read {}: {why}", news.path.display()));
            }
        }
    }

    /// The output takes the whole page, or gives it back.
    pub const fn toggle_output(&mut self) {
        self.only_output = !self.only_output;
        self.above_end = 0;
    }

    /// Whether the output has the whole page.
    pub const fn is_only_output(&self) -> bool {
        self.only_output
    }

    /// The text moves: that of the job, or the output where it has the whole page.
    pub fn step(&mut self, step: Step, (width, height): (usize, usize), now: &Zoned) {
        let above = self.above(width, height, now);
        if !self.only_output {
            let lines = self.lines(width, false, now).len();
            self.scroll.turn(step, lines, above);
            return;
        }
        let room = height.saturating_sub(above + 1);
        let most = self.tail.len().saturating_sub(room);
        let mut scroll = Scroll::default();
        scroll.turn(
            Step::Lines(isize::try_from(most - self.above_end.min(most)).unwrap_or(0)),
            self.tail.len(),
            room,
        );
        scroll.turn(step, self.tail.len(), room);
        self.above_end = most.saturating_sub(scroll.top());
    }

    /// Lines that the job has above its output.
    fn above(&self, width: usize, height: usize, now: &Zoned) -> usize {
        match self.only_output {
            true => 0,
            false => {
                let lines = self.lines(width, false, now).len();
                lines.min((height / 2).max(LEAST_LINES)).min(height)
            }
        }
    }

    /// All lines about the job.
    fn lines(&self, width: usize, colour: bool, now: &Zoned) -> Vec<String> {
        let style = TableStyle {
            width: Some(width),
            colour,
            ..TableStyle::default()
        };
        let id = self.target;
        let text = match (&self.refused, self.table.rows) {
            (Some(why), _) => format!("nothing is told of job {id}: {why}"),
            (None, 0) => format!("job {id} is being asked for"),
            (None, 1) => job_page::text(
                (&self.table, 0, &job_page::Live::default()),
                &self.told,
                false,
                now,
                style,
            ),
            (None, _) => {
                job_table::list(&self.table, &default_columns(true), LEAVE, now, style).text
            }
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if self.table.rows > 1 && self.refused.is_none() {
            let told = self.told.iter().map(|line| words::local_times(line, now));
            lines.extend(told.flat_map(|line| broken(&line, width)));
        }
        lines
    }

    /// What is seen of the job, the line above its output, and what is seen of that.
    pub fn seen(
        &self,
        (width, height): (usize, usize),
        colour: bool,
        now: &Zoned,
    ) -> (Vec<String>, String, Vec<String>) {
        let above = self.above(width, height, now);
        let room = height.saturating_sub(above + 1);
        let lines = match self.only_output {
            true => Vec::new(),
            false => self.lines(width, colour, now),
        };
        let more = lines.len() > above;
        let mut scroll = self.scroll;
        scroll.turn(Step::Lines(0), lines.len(), above);
        let lines = lines.into_iter().skip(scroll.top()).take(above).collect();
        let most = self.tail.len().saturating_sub(room);
        let first = most.saturating_sub(self.above_end);
        let mut output: Vec<String> = self.tail.from(first).take(room).collect();
        if let Some(note) = &self.note
            && output.is_empty()
        {
            output = broken(&words::clean(note), width);
        }
        (lines, self.title(more, most - first), output)
    }

    /// The line above the output.
    fn title(&self, more: bool, below: usize) -> String {
        let kind = match self.stream {
            Stream::Output => "output",
            Stream::Error => "error output",
        };
        let path = self
            .path
            .as_ref()
            .map(|path| format!(" {}", path.display()));
        let more = if more {
            " (arrows show more of the job)"
        } else {
            ""
        };
        let below = match below {
            0 => String::new(),
            n => format!(" ({n} lines below)"),
        };
        format!("-- {kind}{}{more}{below} ", path.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::top::sample;

    const SIZE: (usize, usize) = (60, 20);

    fn page() -> JobPage {
        let target = "12".parse().unwrap();
        let mut page = JobPage::new(target);
        let effect = page.take(sample::job(), vec!["3 waiting jobs come before it".into()]);
        assert_eq!(effect, Some(Effect::Follow(Some("/home/ann/cosy-12.out".into()))));
        page
    }

    fn says(page: &mut JobPage, said: Said) {
        let path = "/home/ann/cosy-12.out".into();
        page.output(&News { path, said });
    }

    fn output(page: &JobPage) -> Vec<String> {
        page.seen(SIZE, false, &sample::noon()).2
    }

    #[test]
    fn the_end_of_the_output_is_seen() {
        let mut page = page();
        for n in 0..100 {
            says(&mut page, Said::More(format!("{n}\n").into_bytes()));
        }
        let seen = output(&page);
        assert_eq!(seen.last().map(String::as_str), Some("99"));
        page.toggle_output();
        assert_eq!(output(&page).len(), 19);
        page.step(Step::Lines(-5), SIZE, &sample::noon());
        assert_eq!(output(&page).last().map(String::as_str), Some("94"));
        // What comes meanwhile does not move what is read.
        says(&mut page, Said::More(b"100\n101\n".to_vec()));
        assert_eq!(output(&page).last().map(String::as_str), Some("94"));
        page.step(Step::First, SIZE, &sample::noon());
        assert_eq!(output(&page).first().map(String::as_str), Some("0"));
        page.step(Step::Last, SIZE, &sample::noon());
        assert_eq!(output(&page).last().map(String::as_str), Some("101"));
    }

    #[test]
    fn files_come_late_and_begin_anew() {
        let mut page = page();
        says(&mut page, Said::Absent);
        let note = output(&page).join(" ");
        assert!(note.contains("is not there yet"), "{note}");
        says(&mut page, Said::More(b"one\n".to_vec()));
        assert_eq!(output(&page), ["one"]);
        says(&mut page, Said::Anew);
        says(&mut page, Said::More(b"two\n".to_vec()));
        assert_eq!(output(&page), ["two"]);
        says(&mut page, Said::Unreadable("no\u{1b}[2J".into()));
        assert_eq!(output(&page), ["two"]);
        // Of a file that was followed before nothing is shown.
        page.output(&News {
            path: "/other".into(),
            said: Said::More(b"three\n".to_vec()),
        });
        assert_eq!(output(&page), ["two"]);
        assert_eq!(page.take(sample::job(), Vec::new()), None);
        assert_eq!(output(&page), ["two"]);
    }

    #[test]
    fn tasks_have_each_their_own_output() {
        let mut page = page();
        let effect = page.take(sample::listing(5).table, Vec::new());
        assert_eq!(effect, Some(Effect::Follow(None)));
        assert!(output(&page)[0].contains("5 tasks"), "{:?}", output(&page));
    }

    #[test]
    fn refusals() {
        let mut page = page();
        page.refuse("there is no job 12");
        let (lines, _, _) = page.seen(SIZE, false, &sample::noon());
        assert_eq!(lines, ["nothing is told of job 12: there is no job 12"]);
    }
}
