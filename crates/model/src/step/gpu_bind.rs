//! Which GPUs of its step a task sees, as commands write it. Source: srun(1), `--gpu-bind`.

use crate::limits;
use crate::text::cut;
use serde::{Deserialize, Serialize};

/// Highest number of a GPU in a list, and most numbers in one.
const NUMBERS: u32 = 1024;
/// Most GPUs of a mask.
const MASK_BITS: usize = u64::BITS as usize;

/// Which GPUs of its step on a node each task there sees.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuBind {
    /// All, or where GPUs of each task were asked for so many of its own.
    #[default]
    Default,
    /// All of them, also where GPUs of each task were asked for.
    None,
    /// Those that are near to its cores; all where none is.
    Closest,
    /// One, which so many tasks see, those first that are near to its cores.
    Single(u32),
    /// So many of its own, those first that are near to its cores.
    PerTask(u32),
    /// One, by its place among the GPUs of the step: the first task the first in the list, and over
    /// again when the list is over.
    Map(Vec<u32>),
    /// Some, by their places among the GPUs of the step, in the same way.
    Mask(Vec<Vec<u32>>),
}

impl GpuBind {
    /// Nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Self::Default
    }

    /// The highest place that it names.
    pub fn highest(&self) -> Option<u32> {
        match self {
            Self::Map(list) => list.iter().max().copied(),
            Self::Mask(masks) => masks.iter().flatten().max().copied(),
            Self::Default | Self::None | Self::Closest | Self::Single(_) | Self::PerTask(_) => None,
        }
    }

    /// The same with what its default means for a step with so many GPUs for each task.
    #[must_use]
    pub fn or_per_task(&self, gpus_per_task: u32) -> Self {
        match (self, gpus_per_task) {
            (Self::Default, 0) => Self::None,
            (Self::Default, each) => Self::PerTask(each),
            (other, _) => other.clone(),
        }
    }

    /// Checks what came over a connection.
    ///
    /// # Errors
    /// In one line: lists that are too long or empty, and numbers that are too high.
    pub fn check(&self) -> Result<(), String> {
        let length = match self {
            Self::Default | Self::None | Self::Closest => return Ok(()),
            Self::Single(count) | Self::PerTask(count) => {
                let most = limits::STEP_TASKS;
                return match (1..=most).contains(count) {
                    true => Ok(()),
                    false => Err(format!("a number from 1 to {most} is needed, not {count}")),
                };
            }
            Self::Map(list) => list.len(),
            Self::Mask(masks) if masks.iter().all(|mask| is_mask(mask)) => masks.len(),
            Self::Mask(_) => return Err(format!("a mask has 1 to {MASK_BITS} GPUs, each once")),
        };
        if !(1..=NUMBERS as usize).contains(&length) {
            return Err(format!("a list of 1 to {NUMBERS} is needed"));
        }
        match self.highest() {
            Some(highest) if highest >= NUMBERS => {
                Err(format!("GPU {highest} is higher than {}", NUMBERS - 1))
            }
            _ => Ok(()),
        }
    }
}

impl std::str::FromStr for GpuBind {
    type Err = String;

    /// `none`, `closest`, `single:2`, `per_task:1`, `map_gpu:0,0*3,1`, `mask_gpu:0x3,0xc`; with
    /// `verbose,` before it, which says nothing here. A list may hold `N*COUNT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text
            .strip_prefix("verbose,")
            .or_else(|| text.strip_prefix("v,"));
        let (kind, value) = match rest.unwrap_or(text).split_once(':') {
            Some((kind, value)) => (kind, Some(value)),
            None => (rest.unwrap_or(text), None),
        };
        let number = |value: &str| {
            let number = value.parse::<u32>().ok().filter(|n| *n > 0);
            number.ok_or_else(|| {
                format!("'{kind}' needs a number of at least 1, not '{}'", shown(value))
            })
        };
        let bind = match (kind, value) {
            ("none", None) => Self::None,
            ("closest", None) => Self::Closest,
            ("single", Some(value)) => Self::Single(number(value)?),
            ("per_task", Some(value)) => Self::PerTask(number(value)?),
            ("map_gpu", Some(list)) => Self::Map(items(list, |item| item.parse().ok())?),
            ("mask_gpu", Some(list)) => Self::Mask(items(list, mask)?),
            _ => {
                return Err(format!(
                    "'{}' is none of none, closest, single:TASKS, per_task:GPUS, map_gpu:LIST and mask_gpu:LIST",
                    shown(text)
                ));
            }
        };
        bind.check()?;
        Ok(bind)
    }
}

fn items<T: Clone>(list: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for item in list.split(',') {
        let (value, times) = item.split_once('*').unwrap_or((item, "1"));
        let times = times
            .parse::<u32>()
            .ok()
            .filter(|n| (1..=NUMBERS).contains(n));
        let (Some(value), Some(times)) = (read(value), times) else {
            return Err(format!("'{}' is no GPU's number or mask", shown(item)));
        };
        all.extend(std::iter::repeat_n(value, times as usize));
        if all.len() > NUMBERS as usize {
            return Err(format!("the list has more than {NUMBERS} places"));
        }
    }
    Ok(all)
}

/// The bits of a number in hexadecimal, with `0x` or without; at least one.
fn mask(text: &str) -> Option<Vec<u32>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = digits.unwrap_or(text);
    if digits.is_empty() || digits.starts_with('+') {
        return None;
    }
    let bits = u64::from_str_radix(digits, 16)
        .ok()
        .filter(|bits| *bits > 0)?;
    Some((0..u64::BITS).filter(|bit| bits & 1 << bit != 0).collect())
}

/// Ascending, and not too many.
fn is_mask(places: &[u32]) -> bool {
    let ascending = places.is_sorted_by(|one, next| one < next);
    (1..=MASK_BITS).contains(&places.len()) && ascending
}

fn shown(text: &str) -> impl std::fmt::Display {
    cut(text, 60).escape_debug()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |text: &str, want: GpuBind| {
            assert_eq!(text.parse(), Ok(want), "{text}");
        };
        check("none", GpuBind::None);
        check("verbose,closest", GpuBind::Closest);
        check("v,single:2", GpuBind::Single(2));
        check("per_task:3", GpuBind::PerTask(3));
        check("map_gpu:1,0*2,7", GpuBind::Map(vec![1, 0, 0, 7]));
        let masks = vec![vec![0, 1], vec![2], vec![2], vec![63]];
        check("mask_gpu:0x3,4*2,0x8000000000000000", GpuBind::Mask(masks));
    }

    #[test]
    fn what_is_none() {
        for bad in [
            "",
            "verbose",
            "single",
            "single:",
            "single:0",
            "single:x",
            "single:-1",
            "per_task:0",
            "map_gpu",
            "map_gpu:",
            "map_gpu:x",
            "map_gpu:0,",
            "map_gpu:0*0",
            "map_gpu:0*9999",
            "map_gpu:1024",
            "map_gpu:4294967296",
            "mask_gpu:0",
            "mask_gpu:0x",
            "mask_gpu:g",
            "mask_gpu:10000000000000000",
            "closest:1",
            "Closest",
            "none,closest",
            "map_gpu:0*1024,0",
            "single:99999999",
            "mask_gpu:+3",
        ] {
            let got: Result<GpuBind, String> = bad.parse();
            assert!(got.is_err(), "{bad}: {got:?}");
        }
        let why = "per_task:\u{1b}[31m".parse::<GpuBind>().unwrap_err();
        assert_eq!(why, "'per_task' needs a number of at least 1, not '\\u{1b}[31m'");
    }

    #[test]
    fn what_comes_over_a_connection() {
        let check = |bind: GpuBind, good: bool| assert_eq!(bind.check().is_ok(), good, "{bind:?}");
        check(GpuBind::Map(Vec::new()), false);
        check(GpuBind::Map(vec![0; 1025]), false);
        check(GpuBind::Mask(vec![vec![1024]]), false);
        check(GpuBind::Mask(vec![vec![0; 70_000]]), false);
        check(GpuBind::Mask(vec![vec![0; 60_000]]), false);
        check(GpuBind::Mask(vec![vec![1, 1]]), false);
        check(GpuBind::Mask(vec![vec![2, 1]]), false);
        check(GpuBind::Mask(vec![vec![]]), false);
        check(GpuBind::Single(0), false);
        check(GpuBind::Mask(vec![vec![0, 63]]), true);
        assert_eq!(GpuBind::Default.or_per_task(2), GpuBind::PerTask(2));
        assert_eq!(GpuBind::Default.or_per_task(0), GpuBind::None);
        assert_eq!(GpuBind::Closest.or_per_task(2), GpuBind::Closest);
        assert_eq!(GpuBind::Mask(vec![vec![0, 9], vec![3]]).highest(), Some(9));
    }
}
