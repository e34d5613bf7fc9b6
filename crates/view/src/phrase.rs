//! Lengths and counts as sentences have them.

use cosy_model::{Span, Su};

/// A length: `2 d 3 h`, `40 min`, `5 s`; at most two units, the rest rounded up.
pub fn span(span: Span) -> String {
    if span.is_unlimited() {
        return "without end".to_owned();
    }
    const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let secs = span.0.max(0).saturating_add(999) / 1000;
    let Some(at) = UNITS.iter().position(|(size, _)| secs >= *size) else {
        return "0 s".to_owned();
    };
    let Some((least, _)) = UNITS.get((at + 1).min(UNITS.len() - 1)) else {
        return format!("{secs} s");
    };
    let mut rest = secs.saturating_add(least - 1) / least * least;
    let mut parts = Vec::new();
    for (size, name) in UNITS {
        let n = rest / size;
        rest %= size;
        if n > 0 {
            parts.push(format!("{n} {name}"));
        }
    }
    parts.join(" ")
}

/// A price for people, rounded up, so that who allows what is shown may have it: two decimals, below
/// 1 SU three, and two digits of what is less than a hundredth.
pub fn price(sum: Su) -> String {
    let step = step(sum);
    let up = i64::from(sum.0.rem_euclid(step) != 0);
    let steps = sum.0.div_euclid(step).saturating_add(up);
    Su(steps.saturating_mul(step)).to_string()
}

/// What there is to spend, rounded down in the same way.
pub fn balance(sum: Su) -> String {
    let step = step(sum);
    Su(sum.0.saturating_sub(sum.0.rem_euclid(step))).to_string()
}

/// Millionths of a service unit that do not matter beside so many.
fn step(sum: Su) -> i64 {
    match sum.0.unsigned_abs() {
        0..100 => 1,
        100..1_000 => 10,
        1_000..10_000 => 100,
        10_000..1_000_000 => 1_000,
        _ => 10_000,
    }
}

/// An energy in joules: `512 J`, `1.2 Wh`, `3.4 kWh`, rounded down.
pub fn energy(joules: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(3_600_000_000, "MWh"), (3_600_000, "kWh"), (3600, "Wh")];
    match UNITS.into_iter().find(|(size, _)| joules >= *size) {
        Some((size, name)) => {
            let (whole, rest) = (joules / size, joules % size);
            format!("{whole}.{} {name}", rest / (size / 10))
        }
        None => format!("{joules} J"),
    }
}

/// `1 job`, `2 jobs`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    let word = if n == 1 { one } else { many };
    format!("{n} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energies() {
        let check = |joules: u64, want: &str| assert_eq!(energy(joules), want);
        check(0, "0 J");
        check(3599, "3599 J");
        check(3600, "1.0 Wh");
        check(5399, "1.4 Wh");
        check(3_600_000 * 12 + 360_000 * 9, "12.9 kWh");
        check(u64::MAX, "5124095576.0 MWh");
    }

    #[test]
    fn sums() {
        let check = |sum: i64, up: &str, down: &str| {
            assert_eq!((&*price(Su(sum)), &*balance(Su(sum))), (up, down));
        };
        check(0, "0", "0");
        check(1, "0.000001", "0.000001");
        check(123, "0.00013", "0.00012");
        check(1_925, "0.002", "0.0019");
        check(25_834, "0.026", "0.025");
        check(1_000_000, "1", "1");
        check(1_233_334, "1.24", "1.23");
        check(72_001_667, "72.01", "72");
        check(100_250_000, "100.25", "100.25");
        check(-1_500_001, "-1.5", "-1.51");
        check(i64::MAX, "9223372036854.775807", "9223372036854.77");
        assert_eq!(balance(Su(i64::MIN)), "-9223372036854.775808");
    }

    #[test]
    fn spans() {
        let check = |ms: i64, want: &str| assert_eq!(span(Span(ms)), want);
        check(0, "0 s");
        check(-5, "0 s");
        check(1, "1 s");
        check(61_000, "1 min 1 s");
        check(3_600_000, "1 h");
        check(3_601_000, "1 h 1 min");
        check(86_399_000, "1 d");
        check(183_600_000, "2 d 3 h");
        check(i64::MAX, "without end");
        check(i64::MAX - 1, "106751991167 d 8 h");
    }
}
