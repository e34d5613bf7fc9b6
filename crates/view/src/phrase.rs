//! Lengths and counts as sentences have them.

use cosy_model::Span;

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

/// `1 job`, `2 jobs`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    let word = if n == 1 { one } else { many };
    format!("{n} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
