//! Values of settings: counts, lists of resources, times, factors.

use crate::show::{clean, mebibytes};
use crate::submit::times;
use cosy_model::Span;
use cosy_model::policy::Tres;

/// Largest value of a limit.
const MOST: u64 = 1 << 53;
/// Most resources that one list may name.
const MOST_RESOURCES: usize = 256;

/// Reads a number that may be unset: `None` for `-1`.
///
/// # Errors
/// Slurm's line about a value that is none.
pub fn count(label: &str, text: &str) -> Result<Option<u64>, String> {
    if text == "-1" {
        return Ok(None);
    }
    match text.parse::<u64>() {
        Ok(number) if number < MOST => Ok(Some(number)),
        Ok(_) | Err(_) => {
            Err(format!("sacctmgr: error: Invalid value for {label} ({})", clean(text)))
        }
    }
}

/// Reads `cpu=4,mem=10G,gres/gpu:a100=2`; a resource with `-1` is unset. Memory is in MiB.
///
/// # Errors
/// Slurm's line about the first that is wrong.
pub fn resources(text: &str) -> Result<Vec<(Tres, Option<u64>)>, String> {
    let items = text.split(',').filter(|item| !item.is_empty());
    let mut all = Vec::new();
    for item in items {
        if all.len() >= MOST_RESOURCES {
            return Err(format!("sacctmgr: error: more than {MOST_RESOURCES} resources in a list"));
        }
        all.push(resource(item)?);
    }
    match all.is_empty() {
        true => Err("sacctmgr: error: no TRES given: cpu=4,mem=10G is a list of them".to_owned()),
        false => Ok(all),
    }
}

fn resource(item: &str) -> Result<(Tres, Option<u64>), String> {
    let Some((name, value)) = item.split_once('=') else {
        return Err(unknown("id found for", item));
    };
    let tres: Tres = name
        .trim()
        .parse()
        .map_err(|_| unknown("known by type", name))?;
    let number = match tres {
        Tres::Memory if value != "-1" => Some(memory(value)),
        _ => None,
    };
    let number = match number {
        Some(Some(mebibytes)) => Some(mebibytes),
        Some(None) => {
            return Err(format!("sacctmgr: error: Invalid value for mem ({})", clean(value)));
        }
        None => count(name, value)?,
    };
    Ok((tres, number))
}

fn unknown(what: &str, name: &str) -> String {
    format!("sacctmgr: error: slurmdb_format_tres_str: no TRES {what} {}", clean(name))
}

/// `1000`, `1000M`, `10G`, `2T`: in MiB.
fn memory(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = text.get(digits.len()..)?.to_ascii_uppercase();
    let mebibytes = match unit.trim_end_matches('B') {
        "" | "M" => number,
        "K" => number.div_ceil(1024),
        "G" => number.checked_mul(1 << 10)?,
        "T" => number.checked_mul(1 << 20)?,
        "P" => number.checked_mul(1 << 30)?,
        _ => return None,
    };
    Some(mebibytes).filter(|m| *m < MOST)
}

/// Reads a time limit in minutes: `None` for `-1`. `word` is the whole word, for the message.
///
/// # Errors
/// Slurm's line about a time that is none.
pub fn minutes(label: &str, word: &str, text: &str) -> Result<Option<u64>, String> {
    if text == "-1" {
        return Ok(None);
    }
    let bad = || format!(" Bad {label} time format: {}", clean(word));
    let span = times::limit(text).ok_or_else(bad)?;
    if span.is_unlimited() {
        return Ok(None);
    }
    u64::try_from(span.secs() / 60).map(Some).map_err(|_| bad())
}

/// Reads a number of seconds, or a time as limits are written (`1:30:00`).
pub fn seconds(text: &str) -> Option<Span> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Span::from_secs(i64::from(seconds)));
    }
    match text {
        "00:00:00" => Some(Span::ZERO), // as a list shows none; as a limit it would be no limit
        _ => times::limit(text).filter(|span| !span.is_unlimited()),
    }
}

/// Reads a factor such as `0.5` in millionths; no more than 1,000.
pub fn millionths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || part.len() > 12 {
        return None;
    }
    let whole: u32 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let part: String = part.chars().chain("000000".chars()).take(6).collect();
    let ppm = whole
        .checked_mul(1_000_000)?
        .checked_add(part.parse().ok()?)?;
    Some(ppm).filter(|ppm| *ppm <= 1_000_000_000)
}

/// A factor in millionths with six digits: `0.500000`.
pub fn factor(millionths: u32) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

/// One resource of a limit as it is shown: memory in the largest unit that loses nothing.
pub fn amount(tres: &Tres, value: Option<u64>) -> String {
    match (tres, value) {
        (_, None) => format!("{tres}=-1"),
        (Tres::Memory, Some(value)) => format!("{tres}={}", mebibytes(value)),
        (_, Some(value)) => format!("{tres}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_resources() {
        let gpu: Tres = "gres/gpu:a100".parse().unwrap();
        assert_eq!(
            resources("cpu=4,mem=10G,gres/gpu:a100=2,node=-1"),
            Ok(vec![
                (Tres::Cpu, Some(4)),
                (Tres::Memory, Some(10 << 10)),
                (gpu, Some(2)),
                (Tres::Node, None),
            ])
        );
        // As recorded.
        let check = |text, want: &str| assert_eq!(resources(text), Err(want.to_owned()), "{text}");
        check("foo=3", "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type foo");
        check("cpu", "sacctmgr: error: slurmdb_format_tres_str: no TRES id found for cpu");
        check("cpu=x", "sacctmgr: error: Invalid value for cpu (x)");
        check("mem=1X", "sacctmgr: error: Invalid value for mem (1X)");
        check(
            "mem=99999999999999999P",
            "sacctmgr: error: Invalid value for mem (99999999999999999P)",
        );
        assert!(resources("").is_err());
    }

    #[test]
    fn numbers() {
        assert_eq!(count("GrpJobs", "-1"), Ok(None));
        assert_eq!(count("GrpJobs", "7"), Ok(Some(7)));
        for bad in ["abc", "-5", "", "1.5", "99999999999999999999"] {
            let want = format!("sacctmgr: error: Invalid value for GrpJobs ({bad})");
            assert_eq!(count("GrpJobs", bad), Err(want));
        }
        assert_eq!(minutes("MaxWall", "MaxWall=1-0", "1-0"), Ok(Some(1440)));
        assert_eq!(minutes("MaxWall", "MaxWall=-1", "-1"), Ok(None));
        let bad = Err(" Bad MaxWall time format: MaxWall=foo".to_owned());
        assert_eq!(minutes("MaxWall", "MaxWall=foo", "foo"), bad);
        assert_eq!(millionths("0.5"), Some(500_000));
        assert_eq!(millionths("2"), Some(2_000_000));
        assert_eq!(millionths(".25"), Some(250_000));
        for bad in ["", ".", "x", "-1", "1e9", "9999999"] {
            assert_eq!(millionths(bad), None, "{bad}");
        }
        assert_eq!(factor(500_000), "0.500000");
        assert_eq!(seconds("60"), Some(Span::from_secs(60)));
        assert_eq!(seconds("00:00:00"), Some(Span::ZERO));
        assert_eq!(seconds("x"), None);
        assert_eq!(seconds(":"), None);
    }
}
