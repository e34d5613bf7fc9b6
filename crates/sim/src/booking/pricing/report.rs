//! The results of the pricing experiment: as text and as JSON.

use super::claims::claims;
use super::figures::{LoadFigures, MonthFigures, SystemFigures};
use super::study::Study;
use crate::booking::claims::{Claim, Claims};
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// What the study comes to, for each system.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// How many seeds each point was run with.
    pub seeds: u64,
    /// Of each system its figures, and what the paper says of it.
    pub systems: Vec<(SystemFigures, Vec<Claim>)>,
}

impl Report {
    /// Sums a study up.
    pub fn of(study: &Study) -> Self {
        let with_claims = |figures: SystemFigures| {
            let claims = claims(&figures);
            (figures, claims)
        };
        let figures = study.figures().into_iter();
        Self {
            seeds: study.seeds,
            systems: figures.map(with_claims).collect(),
        }
    }

    /// True when every claim holds.
    pub fn all_hold(&self) -> bool {
        let mut claims = self.systems.iter().flat_map(|(_, claims)| claims);
        claims.all(|claim| claim.holds)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let system = |(figures, claims): &(SystemFigures, Vec<Claim>)| {
            let mut system = json!(figures);
            system["claims"] = json!(claims);
            system
        };
        let systems: Vec<Value> = self.systems.iter().map(system).collect();
        json!({"seeds": self.seeds, "systems": systems})
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} drawings; in () the least and the most of them; prices are f, beyond the time itself",
            self.seeds
        )?;
        for (figures, claims) in &self.systems {
            system(f, figures)?;
            writeln!(f, "\nWhat the paper says, {}", figures.name)?;
            write!(f, "{}", Claims(claims))?;
        }
        Ok(())
    }
}

fn system(f: &mut impl Write, figures: &SystemFigures) -> fmt::Result {
    for load in &figures.loads {
        writeln!(
            f,
            "\n{}, {} % more jobs, utilisation {:.1} % (figures 3, 4 and 6)",
            figures.name,
            load.more,
            load.aggressive.utilisation.times(100.0)
        )?;
        alphas(f, load)?;
    }
    writeln!(
        f,
        "\n{}, aggressive and conservative backfill, alpha by chance (figure 5)",
        figures.name
    )?;
    writeln!(f, "more jobs  {COLUMNS}")?;
    for load in &figures.loads {
        writeln!(f, "{:>7} %  {}", load.more, cell(&load.aggressive))?;
        writeln!(f, "conserv.   {}", cell(&load.conservative))?;
    }
    writeln!(f, "\n{}, 30 % reservations\nalpha      {COLUMNS}", figures.name)?;
    writeln!(f, "by chance  {}", cell(&figures.many))?;
    writeln!(f, "0          {}", cell(&figures.many_early))
}

const COLUMNS: &str = "price, SU               wait, s                 queue's wait, s         \
                       pay 0, %           pay < 1, %         9/10 pay at most    starts";

fn alphas(f: &mut impl Write, load: &LoadFigures) -> fmt::Result {
    writeln!(f, "alpha  {COLUMNS}")?;
    for of_alpha in &load.by_alpha {
        let alpha = of_alpha.alpha.unwrap_or(0.0);
        writeln!(f, "{alpha:>5.1}  {}", cell(of_alpha))?;
    }
    Ok(())
}

fn cell(cell: &MonthFigures) -> String {
    format!(
        "{:<22.1}  {:<22.0}  {:<22.0}  {:<17.1}  {:<17.1}  {:<18.2}  {:.0}",
        cell.price,
        cell.wait_secs,
        cell.queue_wait_secs,
        cell.free.times(100.0),
        cell.below_priority.times(100.0),
        cell.ninth_tenth,
        cell.starts.mean,
    )
}
