//! Means over seeds, and how sure they are.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;
/// Seed of every bootstrap, so that a report repeats.
const BOOTSTRAP_SEED: u64 = 0x0C05;

/// A mean with its 95 % confidence interval: percentile bootstrap over the values, which
/// assumes nothing of their distribution.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Mean {
    /// Mean of the values.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Mean {
    /// The mean of `values`; zero of none.
    pub fn of(values: &[f64]) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(BOOTSTRAP_SEED);
        let mut resample = || {
            let drawn = values
                .iter()
                .map(|_| values[rng.random_range(0..values.len())]);
            average(drawn, values.len())
        };
        let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
        means.sort_by(f64::total_cmp);
        Self {
            mean: average(values.iter().copied(), values.len()),
            low: means[RESAMPLES / 40],
            high: means[RESAMPLES - 1 - RESAMPLES / 40],
        }
    }

    /// `mean [low, high]`, all times `scale`, with so many digits behind the point.
    pub fn interval(&self, scale: f64, digits: usize) -> String {
        let [mean, low, high] = [self.mean, self.low, self.high].map(|value| value * scale);
        format!("{mean:.digits$} [{low:.digits$}, {high:.digits$}]")
    }
}

/// The mean of `count` values; zero of none.
pub(crate) fn average(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    // A sum of nothing is -0.
    values.fold(0.0, |sum, value| sum + value) / count.max(1) as f64
}

/// The value that `part` of them stay below; `part` is from 0 to 1. Zero of none.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (part * sorted.len().saturating_sub(1) as f64).round();
    sorted.get(at as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_width_that_theory_says() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let values: Vec<f64> = (0..1000).map(|_| rng.random::<f64>()).collect();
        let mean = Mean::of(&values);
        // 1.96 sqrt(1 / 12 / 1000) to each side.
        for side in [mean.high - mean.mean, mean.mean - mean.low] {
            assert!((side - 0.0179).abs() < 0.002, "{mean:?}");
        }
        assert!(mean.low < 0.5 && 0.5 < mean.high, "{mean:?}");
    }

    #[test]
    fn few_values_have_means_and_quantiles() {
        let one = |value| Mean {
            mean: value,
            low: value,
            high: value,
        };
        assert_eq!(Mean::of(&[]), one(0.0));
        assert_eq!(Mean::of(&[3.0]), one(3.0));
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(quantile(&[9.0, 1.0, 4.0], 0.5), 4.0);
        assert_eq!(quantile(&[9.0, 1.0, 4.0], 1.0), 9.0);
    }
}
