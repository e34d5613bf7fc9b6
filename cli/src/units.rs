//! Amounts with their units, as people read them.

use cosy_model::Span;

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
}
