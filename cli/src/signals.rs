//! Signals by name and number, as Linux numbers them on all our machines.

/// Names without `SIG`, by number from 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Reads `USR1`, `SIGUSR1`, `usr1`, `10`.
///
/// # Errors
/// One line that says what a signal is.
pub fn parse(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = (name.len() <= 2)
        .then(|| name.parse::<u8>().ok())
        .flatten()
        .filter(|n| (1..=64).contains(n));
    if let Some(n) = number {
        return Ok(n.into());
    }
    NAMES
        .iter()
        .position(|n| *n == name)
        .map(|at| at as i32 + 1)
        .ok_or_else(|| {
            "no signal: use a name like TERM or USR1, or a number from 1 to 64".to_owned()
        })
}

/// Its name without `SIG`; the number where it has none.
pub fn name(signal: i64) -> String {
    usize::try_from(signal - 1)
        .ok()
        .and_then(|at| NAMES.get(at))
        .map_or_else(|| signal.to_string(), |n| (*n).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let check = |text: &str, want: Option<i32>| assert_eq!(parse(text).ok(), want, "{text}");
        check("USR1", Some(10));
        check("SIGterm", Some(15));
        check("9", Some(9));
        check("64", Some(64));
        check("0", None);
        check("65", None);
        check("-9", None);
        check("+9", Some(9));
        check("", None);
        check("FOO", None);
        assert_eq!(name(15), "TERM");
        assert_eq!(name(40), "40");
        assert_eq!(name(0), "0");
    }
}
