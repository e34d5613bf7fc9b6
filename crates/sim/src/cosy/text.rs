//! A report as text, in the columns of the paper's Table 1.

use super::claims::Claim;
use super::needed_multiple::NeededMultiple;
use super::paper::{PaperRow, UTILISATION_PERCENT};
use super::report::Report;
use super::statistics::Mean;
use super::study::{Baseline, Point};
use cosy_sched::notice::Share;
use std::fmt::{self, Write};

/// Heads of the columns that [`figures`] fills.
const COLUMNS: &str = "n                  q                  spread      q\"                 \
                       u %                u' %               r %";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        before(f, self)?;
        table(f, self)?;
        grid(f, &self.grid)?;
        needed(f, self)?;
        left_out(f, &self.left_out)?;
        claims(f, &self.claims)
    }
}

fn before(f: &mut impl Write, report: &Report) -> fmt::Result {
    let Baseline {
        utilisation: _,
        wait_hours,
        submission_days,
        makespan_days,
    } = report.baseline;
    writeln!(
        f,
        "{} workloads; in [] the 95 % confidence interval of the mean (percentile bootstrap)",
        report.workloads
    )?;
    if report.without_waits > 0 {
        let none = report.without_waits;
        writeln!(f, "{none} of them have no waits and so no q")?;
    }
    writeln!(
        f,
        "without reservations: submitted over {} days, makespan {} days, mean wait {} hours",
        submission_days.interval(1.0, 1),
        makespan_days.interval(1.0, 1),
        wait_hours.interval(1.0, 1),
    )
}

fn table(f: &mut impl Write, report: &Report) -> fmt::Result {
    writeln!(
        f,
        "\nTable 1, the paper's figures first, then ours (spread: q of 5 % and of 95 % of the \
         workloads;\nq\": q with every job as heavy as what it asks for; u': u until the last \
         queued job starts)\n \
         No  p %     n     q  u %  r % |  {COLUMNS}"
    )?;
    writeln!(
        f,
        "  1    0     -  1.00  {UTILISATION_PERCENT:>3}    - |  {:<17}  {:<17}  {:<10}  {:<17}  {}",
        "-",
        "1",
        "-",
        "1",
        report.baseline.utilisation.interval(100.0, 1)
    )?;
    for (paper, ours) in &report.table {
        writeln!(f, "{} |  {}", papers(paper), figures(ours))?;
    }
    let (within, all) = (report.within_spread(), report.table.len());
    writeln!(f, "the paper's q lies within the spread of ours in {within} of {all} experiments")
}

fn papers(row: &PaperRow) -> String {
    format!(
        "{:>3}  {:>3}  {:>4.2}  {:>4.2}  {:>3}  {:>3}",
        row.number,
        row.share,
        f64::from(row.multiple.0) / 1000.0,
        row.relative_wait,
        row.utilisation_percent,
        row.rejected_percent,
    )
}

fn figures(point: &Point) -> String {
    let spread = format!("{:.2}-{:.2}", point.spread.0, point.spread.1);
    format!(
        "{:<17}  {:<17}  {spread:<10}  {:<17}  {:<17}  {:<17}  {}",
        point.multiple.interval(1.0, 2),
        point.relative_wait.interval(1.0, 2),
        point.relative_wait_by_work.interval(1.0, 2),
        point.utilisation.interval(100.0, 1),
        point.utilisation_while_queued.interval(100.0, 1),
        point.rejected.interval(100.0, 1),
    )
}

fn grid(f: &mut impl Write, grid: &[Vec<Point>]) -> fmt::Result {
    writeln!(f, "\nThe same n for every p\n p %  n asked |  {COLUMNS}")?;
    for point in grid.iter().flatten() {
        let (share, asked) = (point.share, point.asked);
        writeln!(f, "{share:>4}  {asked:>7} |  {}", figures(point))?;
    }
    Ok(())
}

fn needed(f: &mut impl Write, report: &Report) -> fmt::Result {
    f.write_str(
        "\nThe n from 1 on at which the queue waits no longer than without reservations\n",
    )?;
    for (found, point) in &report.needed {
        need(f, *found, point.share, "q", point.relative_wait)?;
    }
    f.write_str("The same by work\n")?;
    for (found, point) in &report.needed_by_work {
        need(f, *found, point.share, "q\"", point.relative_wait_by_work)?;
    }
    Ok(())
}

fn need(
    f: &mut impl Write,
    found: NeededMultiple,
    share: Share,
    what: &str,
    wait: Mean,
) -> fmt::Result {
    let found = match found {
        NeededMultiple::Lowest(n) => format!("none is needed, {what} is not above 1 at {n}"),
        NeededMultiple::At(n) => format!("n = {n}"),
        NeededMultiple::Above(n) => format!("more than {n}"),
    };
    let wait = wait.interval(1.0, 3);
    writeln!(f, "p {share:>3} %: {found}; {what} {wait}")
}

fn left_out(f: &mut impl Write, left_out: &[(Share, Mean)]) -> fmt::Result {
    f.write_str("\nq if the reservations were not there at all: where it ends as n grows\n")?;
    for (share, q) in left_out {
        writeln!(f, "p {share:>3} %: {}", q.interval(1.0, 3))?;
    }
    Ok(())
}

fn claims(f: &mut impl Write, claims: &[Claim]) -> fmt::Result {
    f.write_str("\nWhat the paper says, tried on the means of the second table and the third\n")?;
    for claim in claims {
        let verdict = match claim.holds {
            true => "holds:",
            false => "does not hold:",
        };
        writeln!(f, "{verdict:<15}{}", claim.statement)?;
        for figures in claim.figures.split("; ") {
            writeln!(f, "{:15}{figures}", "")?;
        }
    }
    Ok(())
}
