//! The page of jobs: the rows that came, those of them that are looked for, and their order.

use crate::native::job_table;
use crate::native::stat::{LEAVE, default_columns};
use crate::native::table::TableStyle;
use crate::native::top::event::{Ask, Listing};
use crate::native::top::query::Query;
use crate::native::top::scroll::{Scroll, Step};
use crate::native::{array_lines, totals};
use cosy_model::api::{Column, JobField, Table};
use jiff::Zoned;

/// Rows of jobs that are fetched and shown, at most.
pub const MOST_ROWS: usize = 2000;

/// The order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    /// As the controller tells them: by id.
    #[default]
    Id,
    /// Those that run before those that wait.
    State,
    /// By start, expected or past.
    Start,
    /// By user.
    User,
    /// By queue.
    Queue,
    /// By name.
    Name,
    /// The largest first.
    Cores,
}

impl Sort {
    const ALL: [Self; 7] = [
        Self::Id,
        Self::State,
        Self::Start,
        Self::User,
        Self::Queue,
        Self::Name,
        Self::Cores,
    ];

    /// The one after it; after the last the first.
    fn next(self) -> Self {
        let mut all = Self::ALL.iter().cycle();
        let _ = all.find(|one| **one == self);
        all.next().copied().unwrap_or_default()
    }

    /// In one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::State => "state",
            Self::Start => "start",
            Self::User => "user",
            Self::Queue => "queue",
            Self::Name => "name",
            Self::Cores => "cores",
        }
    }

    /// What a row is ordered by.
    fn key(self, table: &Table, row: usize) -> (i64, String) {
        use JobField as F;
        let text = |field| (0, table.text(row, field).to_lowercase());
        let number = |field| table.number(row, field);
        match self {
            Self::Id => (0, String::new()),
            Self::State => {
                let order = ["running", "starting", "completing", "suspended"];
                let state = table.text(row, F::State);
                let at = order.iter().position(|word| *word == state);
                (at.map_or(9, |at| at as i64), state.to_owned())
            }
            Self::Start => {
                let start = number(F::Start).or_else(|| number(F::PredictedStart));
                (start.or_else(|| number(F::Begin)).unwrap_or(i64::MAX), String::new())
            }
            Self::User => text(F::User),
            Self::Queue => text(F::Queue),
            Self::Name => text(F::Name),
            Self::Cores => (-number(F::Cores).unwrap_or(0), String::new()),
        }
    }
}

/// The page of jobs.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Number of the user whose command it is.
    uid: u32,
    /// Jobs of all users.
    all: bool,
    /// The line behind `/`.
    line: String,
    sort: Sort,
    listing: Listing,
    /// The rows that are looked for, in their order.
    shown: Table,
    scroll: Scroll,
}

impl Jobs {
    /// No row yet.
    pub fn new(uid: u32, all: bool, line: String) -> Self {
        Self {
            uid,
            all,
            line,
            sort: Sort::default(),
            listing: Listing::default(),
            shown: Table::default(),
            scroll: Scroll::default(),
        }
    }

    fn query(&self) -> Query {
        Query::read(&self.line, (!self.all).then_some(self.uid))
    }

    /// What is asked of the controller.
    pub fn ask(&self) -> Ask {
        Ask::Jobs(Box::new(self.query().filter))
    }

    /// What columns are asked for.
    pub fn fields() -> Vec<JobField> {
        let mut fields = array_lines::with_fields(job_table::fields_of(&default_columns(true)));
        for field in [JobField::HeldBy, JobField::Begin] {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        fields
    }

    /// New rows are there; the chosen job stays chosen.
    pub fn take(&mut self, listing: Listing, height: usize) {
        self.listing = listing;
        self.show(height);
    }

    /// Looks for other jobs.
    pub fn look_for(&mut self, line: &str, height: usize) {
        line.clone_into(&mut self.line);
        self.show(height);
    }

    /// What is looked for.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Shows the jobs of all users.
    pub const fn show_all(&mut self) {
        self.all = true;
    }

    /// Shows the jobs of all users, or the own ones again.
    pub const fn toggle_users(&mut self) {
        self.all = !self.all;
    }

    /// Orders the rows otherwise.
    pub fn next_sort(&mut self, height: usize) {
        self.sort = self.sort.next();
        self.show(height);
    }

    fn show(&mut self, height: usize) {
        let chosen = self.chosen().to_owned();
        let query = self.query();
        let table = &self.listing.table;
        let mut rows: Vec<usize> = (0..table.rows)
            .filter(|row| query.finds(table, *row))
            .collect();
        if self.sort != Sort::Id {
            rows.sort_by_cached_key(|row| self.sort.key(table, *row));
        }
        self.shown = picked(table, &rows);
        let mut names = (0..rows.len()).map(|row| self.shown.text(row, JobField::Ref));
        let at = names.position(|name| name == chosen);
        let at = at.unwrap_or(self.scroll.at());
        self.scroll.choose(at, rows.len(), height);
    }

    /// The chosen line moves.
    pub fn step(&mut self, step: Step, height: usize) {
        self.scroll.step(step, self.shown.rows, height);
    }

    /// The screen has another height.
    pub fn fit(&mut self, height: usize) {
        self.scroll.fit(self.shown.rows, height);
    }

    /// The chosen job, as lists name it; empty where there is none.
    pub fn chosen(&self) -> &str {
        self.shown.text(self.scroll.at(), JobField::Ref)
    }

    /// The table with the chosen job, and its row.
    pub const fn chosen_row(&self) -> (&Table, usize) {
        (&self.shown, self.scroll.at())
    }

    /// Which line is chosen, and which is seen first.
    pub const fn scroll(&self) -> Scroll {
        self.scroll
    }

    /// The line of titles, and the rows.
    pub fn lines(&self, width: usize, colour: bool, now: &Zoned) -> (String, Vec<String>) {
        let style = TableStyle {
            width: Some(width),
            colour,
            ..TableStyle::default()
        };
        let columns = default_columns(self.all || self.line.contains("user="));
        let text = job_table::list(&self.shown, &columns, LEAVE, now, style).text;
        let mut lines = text.lines().map(str::to_owned);
        let head = lines.next().unwrap_or_default();
        (head, lines.collect())
    }

    /// What is told where there are no rows.
    pub fn none(&self) -> String {
        match (self.line.as_str(), self.all) {
            ("", true) => "no job waits or runs".to_owned(),
            ("", false) => "no job of yours waits or runs: 'u' shows everyone's".to_owned(),
            (line, _) if self.looks_at_part() => format!(
                "no job for '{line}' in the first {} lines: name=, user=, queue=, state= and node= look at all",
                grouped(self.listing.table.rows as u64)
            ),
            (line, _) => format!("no job here for '{line}': Esc shows the others again"),
        }
    }

    /// Words are looked for, and not in all jobs that there are.
    fn looks_at_part(&self) -> bool {
        self.listing.cut && !self.query().words.is_empty()
    }

    /// How many there are, and which. Where not all jobs came, what is done to those that did is told
    /// with that, and first: a narrow line loses its end.
    pub fn summary(&self) -> String {
        let done = self.done_here();
        let mut parts = Vec::new();
        if self.listing.cut {
            let rows = grouped(self.listing.table.rows as u64);
            let of = match self.listing.in_all {
                Some(all) => format!("first {rows} lines of {} jobs", grouped(all)),
                None => format!("first {rows} lines"),
            };
            parts.push(match done.is_empty() {
                true => of,
                false => format!("{}: only in the {of}", done.join(", ")),
            });
        }
        parts.push(match self.shown.rows {
            0 => "no jobs".to_owned(),
            _ => totals::of_jobs(&self.shown),
        });
        parts.push(if self.all { "everyone's" } else { "yours" }.to_owned());
        if !self.listing.cut {
            parts.extend(done);
        } else if !self.line.is_empty() && !self.looks_at_part() {
            parts.push(format!("/{}", self.line));
        }
        parts.join(" | ")
    }

    /// What is done here to the lines that came, and not by the controller to all: the order, and words
    /// that are looked for. Where all came it makes no difference.
    fn done_here(&self) -> Vec<String> {
        let sorted = (self.sort != Sort::Id).then(|| format!("by {}", self.sort.word()));
        let here = !self.listing.cut || self.looks_at_part();
        let found = (!self.line.is_empty() && here).then(|| format!("/{}", self.line));
        sorted.into_iter().chain(found).collect()
    }
}

/// A number with its thousands apart: `104,220`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Some rows of a table, in that order.
fn picked(table: &Table, rows: &[usize]) -> Table {
    fn some<T: Clone>(values: &[T], rows: &[usize]) -> Vec<T> {
        rows.iter()
            .filter_map(|row| values.get(*row).cloned())
            .collect()
    }
    let pick = |column: &Column| match column {
        Column::Numbers(all) => Column::Numbers(some(all, rows)),
        Column::Texts(all) => Column::Texts(some(all, rows)),
        Column::Words { words, at } => Column::Words {
            words: words.clone(),
            at: some(at, rows),
        },
    };
    let columns = table.columns.iter().map(pick).collect();
    Table::of(table.fields.clone(), columns, rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::top::sample;

    const HEIGHT: usize = 10;

    fn shown(jobs: &Jobs) -> Vec<String> {
        let table = &jobs.shown;
        (0..table.rows)
            .map(|row| table.text(row, JobField::Ref).to_owned())
            .collect()
    }

    #[test]
    fn orders() {
        let mut jobs = Jobs::new(7, true, String::new());
        jobs.take(sample::listing(5), HEIGHT);
        let mut check = |word: &str, want: &[&str]| {
            assert_eq!(
                (jobs.sort.word(), shown(&jobs)),
                (word, want.iter().map(|t| (*t).to_owned()).collect())
            );
            jobs.next_sort(HEIGHT);
        };
        check("id", &["1", "2", "3", "4", "5_[1-9]"]);
        check("state", &["1", "3", "2", "4", "5_[1-9]"]);
        check("start", &["3", "1", "2", "4", "5_[1-9]"]);
        check("user", &["1", "3", "5_[1-9]", "2", "4"]);
        check("queue", &["1", "2", "3", "4", "5_[1-9]"]);
        check("name", &["1", "2", "3", "4", "5_[1-9]"]);
        check("cores", &["5_[1-9]", "4", "3", "2", "1"]);
        check("id", &["1", "2", "3", "4", "5_[1-9]"]);
    }

    #[test]
    fn the_chosen_job_stays_chosen() {
        let mut jobs = Jobs::new(7, true, String::new());
        jobs.take(sample::listing(5), HEIGHT);
        jobs.step(Step::Lines(3), HEIGHT);
        assert_eq!(jobs.chosen(), "4");
        for _ in 0..7 {
            jobs.next_sort(HEIGHT);
            assert_eq!(jobs.chosen(), "4");
        }
        jobs.take(sample::listing(3), HEIGHT);
        assert_eq!(jobs.chosen(), "3");
        jobs.look_for("nothing like it", HEIGHT);
        assert_eq!((jobs.chosen(), shown(&jobs).len()), ("", 0));
        assert!(jobs.none().contains("nothing like it"));
    }

    #[test]
    fn words_are_looked_for() {
        let mut jobs = Jobs::new(7, true, String::new());
        jobs.take(sample::listing(5), HEIGHT);
        let mut check = |line: &str, want: &[&str]| {
            jobs.look_for(line, HEIGHT);
            assert_eq!(shown(&jobs), want, "{line}");
        };
        check("bob", &["2", "4"]);
        check("BOB 4", &["4"]);
        check("running", &["1", "3"]);
        check("", &["1", "2", "3", "4", "5_[1-9]"]);
    }

    #[test]
    fn summaries() {
        let mut jobs = Jobs::new(7, false, String::new());
        assert_eq!(jobs.summary(), "no jobs | yours");
        jobs.take(sample::listing(5), HEIGHT);
        assert_eq!(jobs.summary(), "13 jobs: 11 waiting, 2 running on 4 cores | yours");
        jobs.toggle_users();
        jobs.take(
            Listing {
                cut: true,
                in_all: Some(104_220),
                ..sample::listing(5)
            },
            HEIGHT,
        );
        let told = jobs.summary();
        let want = "first 5 lines of 104,220 jobs | 13 jobs: 11 waiting, 2 running on 4 cores | everyone's";
        assert_eq!(told, want);
        jobs.next_sort(HEIGHT);
        jobs.look_for("job3 queue=main", HEIGHT);
        let want =
            "by state, /job3 queue=main: only in the first 5 lines of 104,220 jobs | 1 job: ";
        assert!(jobs.summary().starts_with(want), "{}", jobs.summary());
        jobs.look_for("nothing", HEIGHT);
        assert!(jobs.none().contains("in the first 5 lines: name="), "{}", jobs.none());
        // The controller looks at all for that.
        jobs.look_for("queue=main", HEIGHT);
        let told = jobs.summary();
        assert!(
            told.starts_with("by state: only in the first 5 lines of 104,220 jobs | "),
            "{told}"
        );
        assert!(told.ends_with("| /queue=main"), "{told}");
        jobs.look_for("", HEIGHT);
        jobs.take(sample::listing(12), HEIGHT);
        assert!(jobs.summary().starts_with("20 jobs: 18 waiting"), "{}", jobs.summary());
    }

    #[test]
    fn groups_of_digits() {
        let check = |n, want: &str| assert_eq!(grouped(n), want);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(1_234_567, "1,234,567");
    }
}
