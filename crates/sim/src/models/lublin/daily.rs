//! The daily cycle of submissions: time passes faster at hours with many of them.
//!
//! What always holds: the hour weights are one on average, so that the cycle moves
//! submissions within days and does not change how many there are.

use super::parameters::GammaParameters;

const BUCKETS: usize = 48;
const BUCKET_SECS: f64 = 1800.0;
/// The bucket at which the gamma distribution of the cycle begins: 05:00.
const FIRST_BUCKET: usize = 10;

/// A clock that starts at midnight.
#[derive(Clone, Debug)]
pub struct DailyClock {
    /// Of each half hour of the day.
    weights: [f64; BUCKETS],
    /// Half hours that are over.
    passed: u64,
    /// What is used up of the current half hour's weight.
    points: f64,
}

impl DailyClock {
    /// With the daily cycle `daily`, in half hours.
    pub fn new(daily: GammaParameters) -> Self {
        Self {
            weights: weights(daily),
            passed: 0,
            points: 0.0,
        }
    }

    /// Lets as much time pass as `secs` are at hours of average weight; returns the seconds
    /// since the first midnight.
    pub fn pass(&mut self, secs: f64) -> f64 {
        self.points += secs / BUCKET_SECS;
        while self.points > self.weight() {
            self.points -= self.weight();
            self.passed += 1;
        }
        (self.passed as f64 + self.points / self.weight()) * BUCKET_SECS
    }

    fn weight(&self) -> f64 {
        self.weights[(self.passed % BUCKETS as u64) as usize]
    }
}

fn weights(daily: GammaParameters) -> [f64; BUCKETS] {
    let mut weights = [0.0; BUCKETS];
    for bucket in FIRST_BUCKET..FIRST_BUCKET + BUCKETS {
        let middle = bucket as f64 + 1.0;
        weights[bucket % BUCKETS] = cumulated(daily, middle + 0.5) - cumulated(daily, middle - 0.5);
    }
    let mean = weights.iter().sum::<f64>() / BUCKETS as f64;
    weights.map(|weight| weight / mean)
}

/// The part of a gamma distribution below `x`.
fn cumulated(GammaParameters(shape, scale): GammaParameters, x: f64) -> f64 {
    regularised_gamma(shape, x / scale)
}

/// The regularised lower incomplete gamma function P(a, x) for positive a and x, as a
/// series below a + 1 and as a continued fraction above (Abramowitz and Stegun 6.5.29 and
/// 6.5.31, the latter by Lentz's method).
fn regularised_gamma(a: f64, x: f64) -> f64 {
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    match x < a + 1.0 {
        true => front * series(a, x),
        false => 1.0 - front * fraction(a, x),
    }
}

const MOST_TERMS: u32 = 500;

fn series(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    for n in 1..MOST_TERMS {
        term *= x / (a + f64::from(n));
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
    }
    sum
}

fn fraction(a: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let mut c = f64::MAX;
    let mut d = 1.0 / b;
    let mut value = d;
    for n in 1..MOST_TERMS {
        let n = f64::from(n);
        let numerator = n * (a - n);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        value *= c * d;
        if (c * d - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    value
}

/// Lanczos' approximation with g = 7 and nine coefficients, for positive `x`.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let terms = (1..).zip(COEFFICIENTS);
    let sum: f64 = terms.map(|(n, c)| c / (x + f64::from(n))).sum();
    let t = x + 7.5;
    let half_ln_two_pi = 0.918_938_533_204_672_8;
    half_ln_two_pi + (x + 0.5) * t.ln() - t + (sum + 0.999_999_999_999_809_9).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: f64, expected: f64) {
        let off = (found - expected).abs();
        assert!(off < 1e-13 * expected.abs().max(1.0), "{found} {expected}");
    }

    /// Expected values by mpmath with 15 digits.
    #[test]
    fn gamma_functions() {
        check(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln());
        check(ln_gamma(10.0), 362_880f64.ln());
        check(ln_gamma(6.1271), 5.005_792_787_211_045);
        check(regularised_gamma(1.0, 1.0), 1.0 - (-1f64).exp());
        check(regularised_gamma(0.5, 0.25), 0.520_499_877_813_046_5);
        check(regularised_gamma(0.5, 4.0), 0.995_322_265_018_952_7);
        check(regularised_gamma(3.0, 2.5), 0.456_186_884_116_670_5);
        check(regularised_gamma(10.0, 10.0), 0.542_070_285_528_147_6);
        check(regularised_gamma(6.1271, 2.0), 0.014_152_534_473_745_98);
        check(regularised_gamma(8.1737, 14.7), 0.975_592_188_366_125_8);
    }

    /// The weights' mean time of day is between 15 and 16 h for all kinds of jobs; the
    /// largest weight is earlier (the distribution is skewed), the least before 05:30.
    #[test]
    fn daily_cycles() {
        for (daily, largest, mean_hour) in [
            (GammaParameters(6.1271, 5.2740), 26, 15.361_740_546_898),
            (GammaParameters(8.9186, 3.6680), 28, 15.794_015_948_299),
            (GammaParameters(8.1737, 3.9631), 27, 15.606_750_531_902),
        ] {
            let weights = weights(daily);
            let by_weight = |a: &usize, b: &usize| weights[*a].total_cmp(&weights[*b]);
            assert_eq!((0..BUCKETS).max_by(by_weight), Some(largest));
            assert!(
                (0..BUCKETS)
                    .min_by(by_weight)
                    .is_some_and(|least| least <= 10)
            );
            assert!((weights.iter().sum::<f64>() - 48.0).abs() < 1e-9);
            let hours = (FIRST_BUCKET..FIRST_BUCKET + BUCKETS).map(|bucket| {
                weights[bucket % BUCKETS] * (bucket as f64 + 0.5) / 2.0 / BUCKETS as f64
            });
            assert!((hours.sum::<f64>() - mean_hour).abs() < 1e-9);
        }
    }

    /// A day has as much weight as a day of average hours.
    #[test]
    fn days_take_a_day() {
        let mut clock = DailyClock::new(GammaParameters(8.1737, 3.9631));
        let mut last = 0.0;
        for quarter in 1..=400 {
            let now = clock.pass(21_600.0);
            assert!(now > last);
            last = now;
            if quarter % 4 == 0 {
                assert!((now - f64::from(quarter) * 21_600.0).abs() < 1e-3, "{now}");
            }
        }
    }
}
