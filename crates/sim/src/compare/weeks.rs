//! How far a difference would be off in another year: whole weeks of the history are drawn
//! with replacement, many times, and the difference is found for each draw.
//!
//! Whole weeks, because jobs that wait together are not independent, and days of a week are
//! not alike. Source: Efron and Tibshirani, "An introduction to the bootstrap" (1993),
//! blocks and percentile intervals.

use crate::metrics::quotient;
use cosy_model::Span;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A week, from the first submission on.
pub const WEEK: Span = Span::from_secs(7 * 86_400);
/// How often weeks are drawn.
pub const DRAWS: usize = 1000;
/// With jobs in fewer weeks nothing is said.
pub const LEAST_WEEKS: usize = 4;

/// One in so many draws is beyond each end of the spread.
const TAIL: usize = 20;

/// The jobs of a line that were submitted in one week.
#[derive(Clone, Copy, Default)]
pub struct WeekSums {
    /// Number of jobs.
    pub jobs: i128,
    /// How much longer all of them together waited, in milliseconds.
    pub difference: i128,
}

/// For each line the difference of the mean waits, in seconds, that all but one in twenty
/// draws are above, and that all but one in twenty are below. All lines see the same draws.
pub fn spreads(lines: &[&BTreeMap<i64, WeekSums>], seed: u64) -> Vec<Option<(f64, f64)>> {
    let weeks: BTreeSet<i64> = lines.iter().flat_map(|line| line.keys().copied()).collect();
    let number: BTreeMap<i64, usize> = weeks.iter().copied().zip(0..).collect();
    let lines: Vec<Vec<(usize, WeekSums)>> = lines
        .iter()
        .map(|line| {
            line.iter()
                .map(|(week, sums)| (number[week], *sums))
                .collect()
        })
        .collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut means = vec![Vec::with_capacity(DRAWS); lines.len()];
    for _ in 0..DRAWS {
        let times = draw(weeks.len(), &mut rng);
        for (line, means) in lines.iter().zip(&mut means) {
            means.extend(mean(line, &times));
        }
    }
    let both = lines.iter().zip(means);
    both.map(|(line, means)| (line.len() >= LEAST_WEEKS).then(|| middle(means))?)
        .collect()
}

/// How often each week is drawn when as many are drawn as there are.
fn draw(weeks: usize, rng: &mut ChaCha8Rng) -> Vec<i128> {
    let mut times = vec![0; weeks];
    for _ in 0..weeks {
        times[rng.random_range(0..weeks)] += 1;
    }
    times
}

/// `None` when no week with jobs was drawn.
fn mean(line: &[(usize, WeekSums)], times: &[i128]) -> Option<f64> {
    let (mut jobs, mut difference) = (0, 0);
    for (week, sums) in line {
        jobs += times[*week] * sums.jobs;
        difference += times[*week] * sums.difference;
    }
    quotient(difference, jobs * 1000)
}

fn middle(mut means: Vec<f64>) -> Option<(f64, f64)> {
    means.sort_unstable_by(f64::total_cmp);
    let beyond = means.len() / TAIL;
    let low = means.get(beyond)?;
    let high = means.get(means.len().checked_sub(beyond + 1)?)?;
    Some((*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_all_weeks() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let times = draw(10, &mut rng);
        assert_eq!(times.iter().sum::<i128>(), 10);
        assert_ne!(times, vec![1; 10]);
    }

    #[test]
    fn nine_in_ten_are_in_the_middle() {
        let means = (0..1000).map(f64::from).rev().collect();
        assert_eq!(middle(means), Some((50.0, 949.0)));
        assert_eq!(middle(vec![3.0]), Some((3.0, 3.0)));
        assert_eq!(middle(Vec::new()), None);
    }

    /// The spread of a mean of n weeks is that of the weeks over the root of n: 100 weeks
    /// with differences of -1 s and 1 s have 0.1 s, of which nine in ten are within 1.645.
    #[test]
    fn spread_is_that_of_a_mean() {
        let week = |at: i64| WeekSums {
            jobs: 5,
            difference: 5000 * i128::from(at % 2 * 2 - 1),
        };
        let line: BTreeMap<i64, WeekSums> = (0..100).map(|at| (at, week(at))).collect();
        let (low, high) = spreads(&[&line], 1)[0].unwrap();
        assert!((-0.20..-0.13).contains(&low), "{low}");
        assert!((0.13..0.20).contains(&high), "{high}");
        assert_eq!(spreads(&[&line], 1), spreads(&[&line], 1));
    }
}
