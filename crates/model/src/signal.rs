//! Signals by name and number, as Linux numbers them on x86 and ARM. Source: signal(7).
//!
//! Ours because commands name signals of other machines and releases too: what the C library
//! of this host knows is another question.

use std::ops::RangeInclusive;

/// Names without `SIG`, by number from 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
/// Numbers of signals, those for real time included.
const NUMBERS: RangeInclusive<i32> = 1..=64;

/// The signal that cannot be caught.
pub const KILL: i32 = 9;

/// The number of `USR1`, `SIGUSR1`, `usr1` or `10`; `None` for what is no signal.
pub fn number(text: &str) -> Option<i32> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if name.len() <= 2 && name.bytes().all(|b| b.is_ascii_digit()) {
        return name.parse().ok().filter(|n| NUMBERS.contains(n));
    }
    let at = NAMES.iter().position(|n| *n == name)?;
    i32::try_from(at + 1).ok()
}

/// The name of a signal without `SIG`; its number where it has none.
pub fn name(signal: i64) -> String {
    let at = signal.checked_sub(1).and_then(|n| usize::try_from(n).ok());
    let name = at.and_then(|at| NAMES.get(at));
    name.map_or_else(|| signal.to_string(), |n| (*n).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let check = |text: &str, want: Option<i32>| assert_eq!(number(text), want, "{text}");
        check("USR1", Some(10));
        check("SIGterm", Some(15));
        check("9", Some(KILL));
        check("64", Some(64));
        for text in ["0", "65", "-9", "+9", "", "SIG", "FOO", "\u{df}"] {
            check(text, None);
        }
        assert_eq!(name(15), "TERM");
        assert_eq!(name(40), "40");
        assert_eq!(name(0), "0");
        assert_eq!(name(i64::MIN), i64::MIN.to_string());
        for n in NUMBERS {
            assert_eq!(number(&name(n.into())), Some(n));
        }
    }
}
