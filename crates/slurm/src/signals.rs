//! Signals by name and number as Slurm's commands read them, numbered as Linux does on all
//! our machines. Source: scancel(1).

/// Names without `SIG`, by number from 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
/// The signal that cannot be caught.
pub const KILL: i32 = 9;

/// Reads `USR1`, `SIGUSR1`, `usr1`, `10`.
pub fn parse(text: &str) -> Option<i32> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if name.len() <= 2 && name.bytes().all(|b| b.is_ascii_digit()) {
        let number = name.parse().ok();
        return number.filter(|n| (1..=64).contains(n));
    }
    let at = NAMES.iter().position(|n| *n == name)?;
    i32::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let check = |text: &str, want: Option<i32>| assert_eq!(parse(text), want, "{text}");
        check("USR1", Some(10));
        check("SIGterm", Some(15));
        check("9", Some(KILL));
        check("64", Some(64));
        check("0", None);
        check("65", None);
        check("", None);
        check("FOO", None);
        check("+9", None);
    }
}
