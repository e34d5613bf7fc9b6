//! Names of GPU types and other devices, and how requests write them (`a100:2,v100`).
//!
//! A planner counts only amounts by name. So that it never books a type that is not
//! there, a GPU is counted up to three times: as a GPU, as one of its type, and as one
//! that whoever does not mind the type may get. The last only where all GPUs of a node are
//! alike: on a node with several types nobody could tell beforehand which of them such a
//! job leaves to others.
//!
//! ```text
//!                             gpus   gpu:a100   gpu:t4   gpu:any
//! node with 4 A100               4          4                  4
//! node with 2 A100 and 2 T4      4          2        2         0
//! --gpus 2                       2                             2
//! --gpus a100:2                  2          2
//! ```

use crate::{Amounts, CountedResources};

/// What shards of GPUs are counted as, as with Slurm: parts of GPUs that several jobs share.
pub const SHARD: &str = "shard";
/// What requests of GPUs without a type are counted as, beside GPUs.
pub const ANY_GPU: &str = "gpu:any";
/// What a type is counted as begins so.
const GPU: &str = "gpu:";
/// Longest name, in bytes.
const NAME_BYTES: usize = 63;
/// Most names in one request.
const NAMES: usize = 64;

/// What a type of GPUs is counted as.
pub fn gpu_key(kind: &str) -> String {
    format!("{GPU}{kind}")
}

/// The type of GPUs that is counted as `name`; `None` for [`ANY_GPU`] and what is no GPU.
pub fn gpu_type(name: &str) -> Option<&str> {
    name.strip_prefix(GPU).filter(|_| name != ANY_GPU)
}

/// True for what is counted beside GPUs only so that the planner is right.
pub fn is_of_gpus(name: &str) -> bool {
    name.starts_with(GPU)
}

/// What is counted by a name, in words that follow a number.
pub fn words(name: &str) -> String {
    match gpu_type(name) {
        Some(kind) => format!("gpus of type {kind}"),
        None if name == ANY_GPU => "gpus of any one type".to_owned(),
        None => name.to_owned(),
    }
}

/// Checks the name of a type or device.
///
/// # Errors
/// In one line.
pub fn check_name(name: &str) -> Result<(), String> {
    let good = name.len() <= NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && name.bytes().any(|b| !b.is_ascii_digit())
        && !["gpu", "any", "none"].contains(&name);
    good.then_some(()).ok_or_else(|| {
        format!(
            "'{}' is no name of a type or device: up to {NAME_BYTES} letters, digits, '-', '_' and '.', beginning with one of the first two, not only digits, and not gpu, any or none",
            name.chars().take(70).collect::<String>().escape_debug()
        )
    })
}

/// GPUs asked for on each node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GpuRequest {
    /// Number of GPUs, of all types together.
    pub count: u32,
    /// How many of which type; empty: of any one type.
    pub types: CountedResources,
}

/// Why a text asks for nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{text}' is no number of GPUs: {why}")]
pub struct DeviceError {
    /// The text, shortened.
    text: String,
    /// What is wrong with it, in one line.
    why: String,
}

impl GpuRequest {
    /// The same request, `times` as large.
    #[must_use]
    pub fn times(&self, times: u32) -> Self {
        let mut types = CountedResources::default();
        for (kind, count) in self.types.iter() {
            types.set(kind, count.saturating_mul(times));
        }
        let count = self.count.saturating_mul(times);
        Self { count, types }
    }
}

impl std::str::FromStr for GpuRequest {
    type Err = DeviceError;

    /// `2`, `a100`, `a100:2`, `a100:2,t4:1`.
    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            let count = number(text).map_err(|why| error(text, why))?;
            let types = CountedResources::default();
            return Ok(Self { count, types });
        }
        let types = by_type(text)?;
        let sum = types
            .iter()
            .map(|(_, n)| n)
            .try_fold(0u32, u32::checked_add);
        let many = || error(text, "they are too many together".to_owned());
        let count = sum.ok_or_else(many)?;
        Ok(Self { count, types })
    }
}

fn error(text: &str, why: String) -> DeviceError {
    let text = text.chars().take(60).collect();
    DeviceError { text, why }
}

fn by_type(text: &str) -> Result<CountedResources, DeviceError> {
    let mut all = CountedResources::default();
    for (at, part) in text.split(',').enumerate() {
        if at >= NAMES {
            return Err(error(text, format!("more than {NAMES} types")));
        }
        let (name, amount) = part.split_once(':').unwrap_or((part, "1"));
        let name = name.trim();
        if name.is_empty() {
            let why = "use N, TYPE or TYPE:N, with commas between several types";
            return Err(error(text, why.to_owned()));
        }
        check_name(name).map_err(|why| error(text, why))?;
        let amount = number(amount.trim()).map_err(|why| error(text, why))?;
        if amount == 0 || all.get(name) > 0 {
            let why = format!("{name} must be asked for once, and not 0 of it");
            return Err(error(text, why));
        }
        all.set(name, amount);
    }
    Ok(all)
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("'{}' is no whole number", text.escape_debug()))
}

/// Counts the types of a node's GPUs (by number, an empty text without a type) beside its
/// `gpus`. Types that are no names, and more than there are GPUs, are left out.
pub fn count_types(amounts: &mut Amounts, types: &[String]) {
    let all = amounts.gpus as usize;
    let kind = |at: usize| types.get(at).filter(|t| check_name(t).is_ok());
    let mut counts = CountedResources::default();
    for at in 0..all {
        if let Some(kind) = kind(at) {
            let key = gpu_key(kind);
            counts.set(&key, counts.get(&key).saturating_add(1));
        }
    }
    let alike = (1..all).all(|at| kind(at) == kind(0));
    counts.set(ANY_GPU, if alike { amounts.gpus } else { 0 });
    for (name, count) in counts.iter() {
        amounts.other.set(name, count);
    }
}

/// Counts what a request of GPUs needs beside them.
pub fn count_request(amounts: &mut Amounts, types: &CountedResources) {
    if types.is_empty() {
        amounts.other.set(ANY_GPU, amounts.gpus);
    }
    for (kind, count) in types.iter() {
        amounts.other.set(&gpu_key(kind), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_of_gpus() {
        let check = |text: &str, want: Option<(u32, &str)>| {
            let got = text.parse::<GpuRequest>().ok();
            let words = |r: &GpuRequest| {
                let parts = r.types.iter().map(|(n, a)| format!("{n}:{a}"));
                (r.count, parts.collect::<Vec<_>>().join(","))
            };
            let got = got.as_ref().map(words);
            assert_eq!(got, want.map(|(n, t)| (n, t.to_owned())), "{text}");
        };
        check("2", Some((2, "")));
        check("0", Some((0, "")));
        check("a100", Some((1, "a100:1")));
        check("a100:2", Some((2, "a100:2")));
        check("t4:1, a100.mig-1g.5gb:3", Some((4, "a100.mig-1g.5gb:3,t4:1")));
        check("2080ti:1", Some((1, "2080ti:1")));
        for bad in [
            "",
            ":2",
            "a100:",
            "a100:x",
            "a100:0",
            "a100:1,a100:1",
            "a b",
            "gpu:2",
            "any:1",
            "a:4294967295,b:1",
            "99999999999",
            "a100:2,",
            "2:2",
            "-1",
        ] {
            check(bad, None);
        }
    }

    fn node(types: &[&str]) -> Amounts {
        let mut amounts = Amounts {
            gpus: types.len() as u32,
            ..Amounts::default()
        };
        let types: Vec<String> = types.iter().map(|t| (*t).to_owned()).collect();
        count_types(&mut amounts, &types);
        amounts
    }

    fn request(text: &str) -> Amounts {
        let asked: GpuRequest = text.parse().unwrap();
        let mut amounts = Amounts {
            gpus: asked.count,
            ..Amounts::default()
        };
        count_request(&mut amounts, &asked.types);
        amounts
    }

    #[test]
    fn what_fits_where() {
        let check = |asked: &str, types: &[&str], fits: bool| {
            assert_eq!(request(asked).fits(&node(types)), fits, "{asked} {types:?}");
        };
        check("2", &["a", "a"], true);
        check("a:2", &["a", "a"], true);
        check("b:1", &["a", "a"], false);
        check("2", &["", ""], true);
        check("a:1", &["", ""], false);
        // Of several types one must be named.
        check("1", &["a", "b"], false);
        check("1", &["a", ""], false);
        check("b:1", &["a", "b"], true);
        check("a:1,b:1", &["a", "b"], true);
        check("a:2", &["a", "b"], false);
        check("0", &[], true);
        check("1", &[], false);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever was booked by count can be given GPUs of the right types, in whatever
        /// order it comes.
        #[test]
        fn what_is_booked_is_there(
            types in proptest::collection::vec(0usize..3, 1..6),
            asked in proptest::collection::vec((0usize..4, 1u32..4), 1..6),
        ) {
            const NAMES: [&str; 3] = ["a", "b", ""];
            let kinds: Vec<&str> = types.iter().map(|t| NAMES[*t]).collect();
            let mut free = node(&kinds);
            let mut left: Vec<Option<&str>> = kinds.iter().copied().map(Some).collect();
            for (kind, count) in asked {
                let one = match kind {
                    0 | 1 => request(&format!("{}:{count}", NAMES[kind])),
                    _ => request(&count.to_string()),
                };
                if !one.fits(&free) {
                    continue;
                }
                free.take(&one);
                for _ in 0..count {
                    let fits = |g: &Option<&str>| g.is_some_and(|g| kind > 1 || g == NAMES[kind]);
                    let at = left.iter().position(fits);
                    prop_assert!(at.is_some(), "{kinds:?}: {left:?}");
                    left[at.unwrap_or(0)] = None;
                }
            }
        }
    }
}
