//! The table of the experiment.

use super::Scheme;
use super::figures::Figures;
use super::study::{Row, Study};
use crate::booking::spread::Spread;
use std::fmt;

/// What is printed of a study.
pub struct Report<'a>(pub &'a Study);

impl Row {
    fn spread(&self, of: fn(&Figures) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(of))
    }

    fn percent(&self, of: fn(&Figures) -> f64) -> String {
        format!("{:.1}", self.spread(of).mean * 100.0)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = &self.0.without;
        writeln!(
            f,
            "Without workflows: utilisation {:.1} %, mean wait {:.2} h, mean bounded slowdown {:.1}\n",
            without.utilisation * 100.0,
            without.wait_h,
            without.slowdown
        )?;
        writeln!(
            f,
            "| load | slack | shared out | workflows | utilisation | of it workflows | wait h | slowdown | failed | late | kept | end / deadline | use of slots | least spare | none | lost | plans anew |"
        )?;
        writeln!(f, "|{}", "---|".repeat(17))?;
        self.0.rows.iter().try_for_each(|row| line(f, row))
    }
}

fn line(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    let plain = row.setting.scheme == Scheme::Plain;
    let or_none = |text: String| if plain { "-".to_owned() } else { text };
    writeln!(
        f,
        "| {} | {} | {} | {} | {} | {} | {:.2} | {:.1} | {} | {} | {} | {:.2} | {} | {} | {} | {} | {} |",
        row.load,
        row.setting.slack_percent,
        or_none(row.setting.policy.word().to_owned()),
        row.setting.scheme.word(),
        row.percent(|run| run.utilisation),
        row.percent(|run| run.by_flows),
        row.spread(|run| run.wait_h),
        row.spread(|run| run.slowdown),
        row.percent(|run| run.failed + run.refused),
        row.percent(|run| run.late),
        row.percent(|run| run.kept),
        row.spread(|run| run.pace).mean,
        or_none(row.percent(|run| run.use_of_slots)),
        or_none(row.percent(|run| run.least_spare)),
        or_none(row.percent(|run| run.without_spare)),
        row.percent(|run| run.lost),
        or_none(format!("{:.1}", row.spread(|run| run.replans).mean)),
    )
}
