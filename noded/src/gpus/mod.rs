//! GPUs that are found by themselves: through the library of their vendor, opened at run time,
//! or in the files of the kernel.
//!
//! Libraries of vendors hang, print, start threads and end processes. So only a short-lived helper
//! (`noded --find-gpus`, [`find`]) opens them; the daemon reads its answer and ends it when it is
//! late ([`ask`]). What was found is kept ([`list`]): the numbers that jobs have stay those of the
//! same GPUs while jobs run, and a GPU that is gone is known by its name.

pub mod ask;
pub mod find;
mod kernel;
pub mod list;
pub mod models;
mod nvml;
mod rocm;
pub mod watch;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most GPUs of one source, and slices of one GPU, that are looked at.
const MOST: u32 = 256;
/// Longest text that is taken over from a library, in characters.
const TEXT: usize = 120;

/// Who made a GPU: which variable tells programs theirs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// Its GPUs are used with CUDA; also where nobody knows who made one.
    #[default]
    Nvidia,
    /// Its GPUs are used with ROCm.
    Amd,
}

impl Vendor {
    /// The variable by which its programs know which GPUs are theirs.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Nvidia => "CUDA_VISIBLE_DEVICES",
            Self::Amd => "ROCR_VISIBLE_DEVICES",
        }
    }
}

/// What a GPU does at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GpuFigures {
    /// Per cent of the last moment in which something ran on it.
    pub busy_percent: Option<u8>,
    /// Its memory that is in use, in bytes.
    pub memory_used: Option<u64>,
    /// All its memory, in bytes.
    pub memory_total: Option<u64>,
}

/// What several GPUs do together; what is not known of one is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GpuUse {
    /// Per cent of the last moment in which something ran on them, on average.
    pub busy_percent: Option<u8>,
    /// The same of the busiest one.
    pub busiest_percent: Option<u8>,
    /// Their memory that is in use, in bytes.
    pub memory_used: Option<u64>,
    /// All their memory, in bytes.
    pub memory_total: Option<u64>,
}

impl GpuUse {
    /// Of these.
    pub fn of(all: &[GpuFigures]) -> Self {
        let sum = |of: fn(&GpuFigures) -> Option<u64>| -> Option<u64> {
            let figures: Option<Vec<u64>> = all.iter().map(of).collect();
            figures.filter(|f| !f.is_empty()).map(|f| f.iter().sum())
        };
        let count = all.len().max(1) as u64;
        let busy = sum(|one| one.busy_percent.map(u64::from));
        Self {
            busy_percent: busy.map(|sum| (sum / count).min(100) as u8),
            busiest_percent: busy.and(all.iter().filter_map(|one| one.busy_percent).max()),
            memory_used: sum(|one| one.memory_used),
            memory_total: sum(|one| one.memory_total),
        }
    }
}

/// A GPU, or a slice of one, as it was found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FoundGpu {
    /// Who made it.
    pub vendor: Vendor,
    /// What its vendor calls it.
    pub model: String,
    /// What its vendor calls the slice that it is, such as `1g.5gb`.
    pub slice: Option<String>,
    /// Its own name, different from all others anywhere.
    pub id: String,
    /// The name of the GPU that it is a slice of; its own where it is a whole one.
    pub whole: String,
    /// Where it is, as the kernel writes it: `0000:3b:00.0`.
    pub bus: String,
    /// What is opened to use it.
    pub files: Vec<PathBuf>,
    /// The NUMA node that it is at.
    pub numa: Option<u32>,
    /// What is wrong with it.
    #[serde(default)]
    pub fault: Option<String>,
    /// What it does at this moment.
    #[serde(default)]
    pub figures: GpuFigures,
}

/// What a look for GPUs has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GpusFound {
    /// All that answered.
    pub gpus: Vec<FoundGpu>,
    /// What went wrong with others, or with a library, a line each.
    pub faults: Vec<String>,
    /// Names of GPUs that are to be used in slices and have none.
    #[serde(default)]
    pub unsliced: Vec<String>,
}

impl GpusFound {
    /// A whole GPU.
    fn one(gpu: FoundGpu) -> Self {
        Self {
            gpus: vec![gpu],
            ..Self::default()
        }
    }

    /// What comes of each of `count` GPUs, by the numbers of a library.
    fn of_each(count: u32, gpu: impl Fn(u32) -> Result<Self, String>) -> Self {
        let mut all = Self::default();
        for number in 0..count.min(MOST) {
            match gpu(number) {
                Ok(found) => all.add(found),
                Err(why) => all.faults.push(format!("GPU number {number}: {why}")),
            }
        }
        all
    }

    fn add(&mut self, other: Self) {
        self.gpus.extend(other.gpus);
        self.faults.extend(other.faults);
        self.unsliced.extend(other.unsliced);
    }
}

/// How GPUs are looked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GpuSearch {
    /// They are not.
    pub off: bool,
    /// NVIDIA's library, else where the dynamic linker finds it.
    pub nvml: Option<PathBuf>,
    /// AMD's library, else where the dynamic linker finds it.
    pub rocm: Option<PathBuf>,
    /// Types by a part of what the vendor calls the model; else they are made of that.
    pub types: BTreeMap<String, String>,
    /// Each is given out in so many shards instead of as a whole.
    pub shards: Option<u32>,
}

/// A text of a library or driver, fit to be shown and kept.
fn clean(text: &str) -> String {
    let shown = text.trim().chars().filter(|c| !c.is_control());
    shown.take(TEXT).collect()
}
