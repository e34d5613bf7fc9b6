//! A figure of several seeds: their mean, and the lowest and highest of them.

use serde::Serialize;
use std::fmt;

/// The mean over seeds, and between which values they lie.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Spread {
    /// Mean over the seeds.
    pub mean: f64,
    /// The lowest value of a seed.
    pub low: f64,
    /// The highest value of a seed.
    pub high: f64,
}

impl Spread {
    /// Of some values; zero of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let Some(first) = values.first() else {
            return Self::default();
        };
        Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            low: values.iter().copied().fold(*first, f64::min),
            high: values.iter().copied().fold(*first, f64::max),
        }
    }

    /// True when a published figure is as ours: between our lowest and highest, or no
    /// farther than `near` from our mean.
    pub fn agrees(&self, published: f64, near: f64) -> bool {
        (self.low..=self.high).contains(&published) || (self.mean - published).abs() <= near
    }

    /// All of it times `factor`.
    pub fn times(&self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

/// `mean (low-high)`, with the digits of the format (else one), in its width.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Self { mean, low, high } = self;
        let text = format!("{mean:.digits$} ({low:.digits$}-{high:.digits$})");
        match f.width() {
            Some(width) => write!(f, "{text:<width$}"),
            None => f.write_str(&text),
        }
    }
}

/// The mean of some values; zero of none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        let spread = Spread::of([0.5, 0.2, 0.8]);
        assert_eq!(format!("{spread:.2}"), "0.50 (0.20-0.80)");
        assert_eq!(format!("[{:18}]", spread.times(100.0)), "[50.0 (20.0-80.0)  ]");
        assert_eq!(Spread::of([]), Spread::default());
    }

    #[test]
    fn published_figures_agree_within_the_spread_or_near_the_mean() {
        let spread = Spread::of([0.90, 0.94]);
        for (published, near, wanted) in [
            (0.93, 0.0, true),
            (0.95, 0.0, false),
            (0.95, 0.04, true),
            (0.88, 0.03, false),
        ] {
            assert_eq!(spread.agrees(published, near), wanted, "{published}");
        }
    }
}
