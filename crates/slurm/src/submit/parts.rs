//! Jobs of several parts: what stands between `:`, and what a part takes over from the ones
//! before it. Source: the original's guide to heterogeneous jobs, "Submitting Jobs".

use super::Fault;
use crate::getopt::Found;
use cosy_model::limits::BUNDLES;

/// The highest number of a part that is read.
const MOST: u32 = 8 * BUNDLES as u32;

/// Between the options of two parts.
pub const COLON: &str = ":";

/// Options about the resources and places of one part alone; all others count for the parts
/// behind as well.
const OWN: &[&str] = &[
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "ntasks-per-core",
    "ntasks-per-socket",
    "ntasks-per-gpu",
    "cpus-per-task",
    "cpus-per-gpu",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "tmp",
    "constraint",
    "prefer",
    "partition",
    "nodelist",
    "nodefile",
    "exclusive",
    "oversubscribe",
    "overcommit",
    "contiguous",
    "spread-job",
    "use-min-nodes",
    "licenses",
    "gres",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "cores-per-socket",
    "sockets-per-node",
    "threads-per-core",
    "extra-node-info",
    "core-spec",
    "thread-spec",
    "array",
    "wrap",
    "test-only",
    "het-group",
    "relative",
    "multi-prog",
];

/// Whether an option is about one part alone.
pub fn is_own(found: &Found) -> bool {
    OWN.contains(&found.name)
}

/// Reads a list of parts: `0`, `0,2`, `0-2`; ascending, each once.
///
/// # Errors
/// What cannot be read.
pub fn numbers(text: &str) -> Result<Vec<u32>, Fault> {
    let bad = || {
        let text: String = text.chars().take(200).collect();
        Fault::error(format!("Invalid value \"{text}\" for --het-group"))
    };
    let number = |text: &str| -> Result<u32, Fault> {
        let number = text.trim().parse::<u32>().map_err(|_| bad())?;
        Some(number).filter(|n| *n <= MOST).ok_or_else(bad)
    };
    let mut all = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(bad());
        }
        all.extend(first..=last);
    }
    Ok(all.into_iter().collect())
}

/// Each part's options with those that it takes over.
pub fn passed_on(parts: Vec<Vec<Found>>) -> Vec<Vec<Found>> {
    let mut before: Vec<Found> = Vec::new();
    let mut all = Vec::with_capacity(parts.len());
    for own in parts {
        let whole = [&before[..], &own].concat();
        let lasts = |found: &&Found| !is_own(found);
        before = whole.iter().filter(lasts).cloned().collect();
        all.push(whole);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn numbers_of_parts() {
        let check = |text: &str, want: Option<&[u32]>| {
            assert_eq!(numbers(text).ok().as_deref(), want, "{text}");
        };
        check("0", Some(&[0]));
        check("0,2", Some(&[0, 2]));
        check("2,0-1", Some(&[0, 1, 2]));
        check("", None);
        check("a", None);
        check("2-1", None);
        check("0-4000000000", None);
    }

    #[test]
    fn what_counts_for_later_parts() {
        let found = |words: &[(&'static str, &str)]| -> Vec<Found> {
            let one = |(name, value): &(&'static str, &str)| Found {
                name,
                value: Some(OsString::from(value)),
            };
            words.iter().map(one).collect()
        };
        let parts = vec![
            found(&[("ntasks", "1"), ("job-name", "a"), ("time", "5")]),
            found(&[("ntasks", "4"), ("job-name", "b")]),
            found(&[]),
        ];
        let texts = |part: &Vec<Found>| -> Vec<String> {
            part.iter()
                .map(|f| format!("{}={}", f.name, f.text()))
                .collect()
        };
        let got: Vec<Vec<String>> = passed_on(parts).iter().map(texts).collect();
        assert_eq!(got[1], ["job-name=a", "time=5", "ntasks=4", "job-name=b"]);
        assert_eq!(got[2], ["job-name=a", "time=5", "job-name=b"]);
    }
}
