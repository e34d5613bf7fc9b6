//! `--signal`. Source: sbatch(1), captures.

use super::Fault;
use cosy_model::Span;
use cosy_model::job::WarnSignal;

/// How long before the limit the signal is sent where no time is given, in seconds.
const BEFORE_SECS: i64 = 60;
/// Longest time before the limit, in seconds.
const MOST_SECS: i64 = 0xffff;

/// Reads `[R][B]:SIGNAL[@SECONDS]`. `R` (also before a reservation) changes nothing: jobs
/// in a reservation are warned of its end anyway.
///
/// # Errors
/// `Invalid --signal specification`.
pub fn read(text: &str) -> Result<WarnSignal, Fault> {
    let bad = || Fault::specification("signal");
    let (flags, rest) = match text.split_once(':') {
        Some((flags, rest)) => (flags, rest),
        None => ("", text),
    };
    if !flags.bytes().all(|b| b"bBrR".contains(&b)) {
        return Err(bad());
    }
    let (signal, secs) = match rest.split_once('@') {
        Some((signal, secs)) => (signal, seconds(secs).ok_or_else(bad)?),
        None => (rest, BEFORE_SECS),
    };
    Ok(WarnSignal {
        signal: cosy_model::signal::number(signal).ok_or_else(bad)?,
        before: Span::from_secs(secs),
        script_only: flags.contains(['b', 'B']),
    })
}

fn seconds(text: &str) -> Option<i64> {
    let fine = (1..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let secs = fine.then(|| text.parse().ok()).flatten()?;
    Some(secs).filter(|s| *s <= MOST_SECS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals() {
        let check = |text: &str, want: Option<(i32, i64, bool)>| {
            let got = read(text).ok();
            let got = got.map(|w| (w.signal, w.before.secs(), w.script_only));
            assert_eq!(got, want, "{text}");
        };
        check("USR2@90", Some((12, 90, false)));
        check("B:USR2@30", Some((12, 30, true)));
        check("RB:10", Some((10, 60, true)));
        check("SIGTERM", Some((15, 60, false)));
        check("R:usr1@0", Some((10, 0, false)));
        check("FOO", None);
        check("B:", None);
        check("X:USR1", None);
        check("USR1@", None);
        check("USR1@x", None);
        check("USR1@70000", None);
        check("0", None);
        check("", None);
    }
}
