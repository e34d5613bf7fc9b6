//! The tables of the experiment, as text and as JSON.

use super::figures::{Figures, PeriodFigures};
use super::study::{Row, Study};
use super::users::AfterRefusal;
use crate::cosy::statistics::{Mean, average};
use serde_json::{Value, json};
use std::fmt;

/// The queue's mean wait may be longer by this part.
pub const TOLERANCE: f64 = 0.10;

/// What is said of a study.
pub struct Report<'a> {
    study: &'a Study,
}

impl Row {
    fn mean(&self, of: impl Fn(&Figures) -> f64) -> Mean {
        Mean::of(&self.values(of))
    }

    fn values(&self, of: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    /// The queue's mean wait relative to the same jobs without reservations.
    pub fn wait(&self) -> Mean {
        self.mean(|run| run.month.queue.relative())
    }

    /// True when the mean wait is longer by no more than [`TOLERANCE`].
    pub fn holds(&self) -> bool {
        self.wait().mean <= 1.0 + TOLERANCE
    }

    fn rising(&self) -> bool {
        self.shares.len() > 1
    }

    fn shares_text(&self) -> String {
        let shares: Vec<String> = self.shares.iter().map(|s| format!("{s}")).collect();
        shares.join(" ")
    }

    const fn refused_text(&self) -> &'static str {
        match self.after_refusal {
            AfterRefusal::Queued => "queue",
            AfterRefusal::Dropped => "go",
        }
    }

    /// The mean over the seeds of one figure of a week; `None` for the whole month.
    fn of_week(&self, week: Option<usize>, of: impl Fn(&PeriodFigures) -> f64) -> f64 {
        let part = |run: &Figures| match week {
            Some(week) => run.weeks.get(week).copied().unwrap_or_default(),
            None => run.month,
        };
        let values = self.values(|run| of(&part(run)));
        average(values.iter().copied(), values.len())
    }
}

impl<'a> Report<'a> {
    /// A report on `study`.
    pub fn of(study: &'a Study) -> Self {
        Self { study }
    }

    /// The mean wait stays within 10 % wherever COSY's rule is in force.
    pub fn all_hold(&self) -> bool {
        let academic = super::rule_sets::RuleSet::Academic;
        let mut rows = self.study.rows.iter();
        rows.all(|row| row.rule_set != academic || row.holds())
    }

    /// All figures of the study, as `--json` prints them.
    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "rule": row.rule_set.word(),
                "refused": row.refused_text(),
                "shares": row.shares.iter().map(|s| s.0).collect::<Vec<_>>(),
                "holds": row.holds(),
                "wait": row.wait(),
                "wait_by_work": row.mean(|r| r.month.queue.relative_by_work()),
                "wait_wide": row.mean(|r| r.month.wide.relative()),
                "utilisation": row.mean(|r| r.utilisation),
                "accepted": row.mean(|r| r.month.accepted()),
                "runs": row.runs,
            })
        };
        json!({
            "wait_without_h": self.study.wait_without_h,
            "utilisation_without": self.study.utilisation_without,
            "rows": self.study.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    fn by_rule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14} {:<12} {:<6} {:>5} {:>5} {:>5} {:>5} {:<20} {:<20} {:<20} {:>7} {:>6}",
            "rule",
            "asked for %",
            "refuse",
            "asked",
            "got %",
            "p %",
            "n",
            "q",
            "q by work",
            "q of wide jobs",
            "booked",
            "u %"
        )?;
        for row in &self.study.rows {
            let month = |of: fn(&PeriodFigures) -> f64| row.of_week(None, of);
            writeln!(
                f,
                "{:<14} {:<12} {:<6} {:>5.0} {:>5.1} {:>5.1} {:>5.2} {:<20} {:<20} {:<20} {:>7.2} {:>6.1}{}",
                row.rule_set.word(),
                row.shares_text(),
                row.refused_text(),
                month(|part| part.asked as f64),
                month(PeriodFigures::accepted) * 100.0,
                month(PeriodFigures::mean_share) * 100.0,
                month(PeriodFigures::mean_multiple),
                row.wait().interval(1.0, 2),
                row.mean(|run| run.month.queue.relative_by_work())
                    .interval(1.0, 2),
                row.mean(|run| run.month.wide.relative()).interval(1.0, 2),
                month(|part| part.booked.relative()),
                row.mean(|run| run.utilisation).mean * 100.0,
                if row.holds() { "" } else { "  beyond 10 %" },
            )?;
        }
        Ok(())
    }

    fn by_week(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.study.rows.iter().filter(|row| row.rising()) {
            writeln!(
                f,
                "\n{}, refused requests {}\nweek  asked  got %   p %     n    w h  wait h  without      q  by work   wide",
                row.rule_set.word(),
                row.refused_text()
            )?;
            let weeks = row.runs.first().map_or(0, |run| run.weeks.len());
            for week in 0..weeks {
                let mean = |of: fn(&PeriodFigures) -> f64| row.of_week(Some(week), of);
                let (with, without) =
                    (mean(|part| part.queue.with_h()), mean(|part| part.queue.without_h()));
                writeln!(
                    f,
                    "{:>4} {:>6.1} {:>6.1} {:>5.1} {:>5.2} {:>6.2} {:>7.2} {:>8.2} {:>6.2} {:>8.2} {:>6.2}",
                    week + 1,
                    mean(|part| part.asked as f64),
                    mean(PeriodFigures::accepted) * 100.0,
                    mean(PeriodFigures::mean_share) * 100.0,
                    mean(PeriodFigures::mean_multiple),
                    mean(PeriodFigures::mean_wait_h),
                    with,
                    without,
                    mean(|part| part.queue.relative()),
                    mean(|part| part.queue.relative_by_work()),
                    mean(|part| part.wide.relative()),
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Without reservations: mean wait {:.2} h, utilisation {:.1} %",
            self.study.wait_without_h,
            self.study.utilisation_without * 100.0
        )?;
        writeln!(
            f,
            "q: mean wait of queued jobs relative to the same jobs without reservations, in [] 95 % over the drawings; wide: a quarter of the machine or more; booked: from request to start, relative to the queue without reservations\n"
        )?;
        self.by_rule(f)?;
        self.by_week(f)?;
        let late: u64 = self
            .study
            .rows
            .iter()
            .flat_map(|row| &row.runs)
            .map(|run| run.late)
            .sum();
        writeln!(f, "\nReservations that began at another time than promised: {late}")
    }
}
