//! Amounts with their units, as people read them.

use cosy_model::Span;

/// A length, as short as it can be told, rounded down: `42s`, `9m5s`, `12m`, `3h20m`, `12d`. The
/// second unit is left out where the first tells enough.
pub fn brief(span: Span) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    if span.is_unlimited() {
        return span.to_string();
    }
    let secs = span.0.max(0) / 1000;
    let units = || UNITS.iter().skip_while(|(size, _)| secs < *size);
    let Some((size, name)) = units().next() else {
        return "0s".to_owned();
    };
    let most = secs / size;
    match units()
        .nth(1)
        .map(|(least, unit)| (secs % size / least, unit))
    {
        Some((rest, unit)) if most < 10 && rest > 0 => format!("{most}{name}{rest}{unit}"),
        Some(_) | None => format!("{most}{name}"),
    }
}

/// The same, rounded up: for what is to come, so that nothing is promised too early.
pub fn brief_up(span: Span) -> String {
    if span.is_unlimited() {
        return span.to_string();
    }
    let secs = span.0.max(0).saturating_add(999) / 1000;
    // The last unit that is told of a length up to there.
    let unit = match secs {
        ..600 => 1,
        600..36_000 => 60,
        36_000..864_000 => 3600,
        _ => 86_400,
    };
    brief(Span(secs.saturating_add(unit - 1) / unit * unit * 1000))
}

/// Bytes with a binary unit and at most one decimal.
pub fn bytes(n: i64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let mut unit = 0;
    let mut tenths = n.max(0).saturating_mul(10);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if unit == 0 || tenths >= 1000 {
        format!("{}{}", tenths / 10, UNITS[unit])
    } else {
        format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

/// CPU time: seconds with two decimals, from a minute on as a clock.
pub fn micros(us: i64) -> String {
    let us = us.max(0);
    if us < 60_000_000 {
        format!("{}.{:02}s", us / 1_000_000, us / 10_000 % 100)
    } else {
        Span(us / 1000).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(bytes(0), "0B");
        assert_eq!(bytes(1023), "1023B");
        assert_eq!(bytes(1536), "1.5K");
        assert_eq!(bytes(200 << 20), "200M");
        assert_eq!(micros(59_990_000), "59.99s");
        assert_eq!(micros(61_000_000), "00:01:01");
    }

    #[test]
    fn short_lengths() {
        let check = |seconds: i64, want: &str| {
            assert_eq!(brief(Span(seconds * 1000 + 999)), want);
        };
        check(-5, "0s");
        check(0, "0s");
        check(59, "59s");
        check(60, "1m");
        check(545, "9m5s");
        check(605, "10m");
        check(3599, "59m");
        check(3600, "1h");
        check(12_000, "3h20m");
        check(36_000, "10h");
        check(86_400 + 59, "1d");
        check(9 * 86_400 + 3600 * 23, "9d23h");
        check(400 * 86_400, "400d");
        assert_eq!(brief(Span::UNLIMITED), "unlimited");
    }

    #[test]
    fn short_lengths_rounded_up() {
        let check = |ms: i64, want: &str| assert_eq!(brief_up(Span(ms)), want, "{ms}");
        check(0, "0s");
        check(1, "1s");
        check(599_000, "9m59s");
        check(599_001, "10m");
        check(3_590_000, "1h");
        check(3_600_001, "1h1m");
        check(86_390_000, "1d");
        check(10 * 86_400_000 + 1, "11d");
        assert_eq!(brief_up(Span::UNLIMITED), "unlimited");
    }
}
