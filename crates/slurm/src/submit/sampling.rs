//! `--acctg-freq`: how often samples of a running job are taken. Nodes measure all jobs alike here, as
//! often as the site says; what the original refuses is refused all the same. Source: srun(1), "--acctg-freq"; observed.

use super::Fault;
use super::count::cut;

/// What `scontrol show config` says of it, in seconds: a job may be looked at more often, but
/// not less.
pub const USUAL_SECONDS: u32 = 30;
/// What the original's controller answers.
pub const INVALID: &str = "Invalid accounting frequency requested";

/// Reads `30`, `task=30,energy=60`: how often tasks are looked at, where it says so.
///
/// # Errors
/// Anything else.
pub fn read(text: &str) -> Result<Option<u32>, Fault> {
    let bad = || {
        let text = cut(text);
        Fault::value(format!("Invalid --acctg-freq specification: {text}"))
    };
    let mut tasks = None;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (kind, number) = part.split_once('=').unwrap_or(("task", part));
        let number = leading(number).ok_or_else(bad)?;
        match kind.to_ascii_lowercase().as_str() {
            "task" => tasks = Some(number),
            "energy" | "network" | "filesystem" => {}
            _ => return Err(bad()),
        }
    }
    Ok(tasks)
}

/// A number, whatever comes after it.
fn leading(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok()
}

/// Tasks with a limit of memory are looked at, and at least as often as usual.
///
/// # Errors
/// [`INVALID`].
pub fn check(tasks: Option<u32>, has_memory: bool) -> Result<(), Fault> {
    let fine = |seconds| (1..=USUAL_SECONDS).contains(&seconds);
    match tasks {
        Some(seconds) if has_memory && !fine(seconds) => Err(Fault::refusal(INVALID)),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let good = |text: &str, want| assert_eq!(read(text), Ok(want), "{text}");
        good("30", Some(30));
        good("task=29,energy=3", Some(29));
        good("Network=5", None);
        good("task=30s", Some(30));
        good("", None);
        for text in ["x", "-1", "+1", "foo=3", "task=foo", "task=", "99999999999"] {
            let fault = read(text).unwrap_err();
            let want = format!("Invalid --acctg-freq specification: {text}");
            assert_eq!(fault, Fault::value(want));
        }
    }

    #[test]
    fn not_less_often_than_usual() {
        let allowed = |tasks, memory| check(tasks, memory).is_ok();
        assert!(allowed(Some(29), true) && allowed(Some(30), true) && allowed(None, true));
        assert!(!allowed(Some(31), true) && !allowed(Some(0), true));
        assert!(allowed(Some(40), false) && allowed(Some(0), false));
    }
}
