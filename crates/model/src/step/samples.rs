//! What a job used of a node over time: measured at intervals while it runs.

use crate::{DeviceUse, MiB, Span, Time};
use serde::{Deserialize, Serialize};

/// What a job used at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// When it was measured.
    pub at: Time,
    /// CPU time since the job's start, in microseconds.
    pub cpu_us: u64,
    /// Memory in bytes that it could not do without: file pages that nobody has looked at for some
    /// time are not counted.
    pub memory_bytes: u64,
    /// Number of its processes.
    #[serde(default)]
    pub processes: u32,
    /// Bytes read from disks since the job's start, where that is known.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// Bytes written to disks since the job's start, where that is known.
    #[serde(default)]
    pub written_bytes: Option<u64>,
    /// Per mille of the last minute in which all its processes waited for memory, where that is known
    /// (pressure stall information, `full avg60`).
    #[serde(default)]
    pub memory_stall: Option<u16>,
    /// Per mille of the last moment in which something ran on its GPUs, on average over them, where
    /// that is known of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_busy: Option<u16>,
    /// Memory of its GPUs that is in use, in bytes, where that is known of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_bytes: Option<u64>,
}

/// What a job used of one node since its start there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobSamples {
    /// The node.
    pub node: String,
    /// Cores that the job has there.
    pub cores: u32,
    /// Memory that the job has there; `None` without a limit.
    #[serde(default)]
    pub memory: Option<MiB>,
    /// GPUs that the job has there.
    #[serde(default)]
    pub gpus: u32,
    /// All memory of these GPUs, in bytes, where that is known.
    #[serde(default)]
    pub gpu_memory_bytes: Option<u64>,
    /// Between two measurements; it is 0 where nothing is measured.
    pub interval: Span,
    /// Largest memory of all measurements, in bytes, and of what the kernel has noted.
    pub peak_bytes: u64,
    /// What it has used of energy and GPUs there so far.
    #[serde(default, skip_serializing_if = "DeviceUse::is_empty")]
    pub devices: DeviceUse,
    /// Measurements in the order of time, at most [`crate::limits::SAMPLES`]: of a long job not all are
    /// kept, but the last one is. Earlier ones are lost when the node's daemon is restarted.
    pub samples: Vec<Sample>,
    /// The same of other nodes in short, where that was asked for, of at most
    /// [`crate::limits::SUMMARY_NODES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NodeSummary>,
}

/// Of which of a job's nodes measurements are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampledNodes {
    /// Of the first.
    #[default]
    First,
    /// Of the first, and of some others in short.
    Others,
    /// Of this one.
    One(String),
}

impl SampledNodes {
    /// Whether the first node alone is meant.
    pub const fn is_first(&self) -> bool {
        matches!(self, Self::First)
    }
}

/// What a job used of one node, in short.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSummary {
    /// The node.
    pub node: String,
    /// Cores that the job has there.
    pub cores: u32,
    /// Cores that were busy on average over all measurements, in thousandths; `None` before there are
    /// two.
    pub busy_millicores: Option<u64>,
    /// Largest memory, in bytes.
    pub peak_bytes: u64,
}

/// How a job used its node between two measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stretch {
    /// When the later one was made.
    pub until: Time,
    /// Cores that were busy on average.
    pub busy_cores: f64,
    /// Memory at its end, in bytes.
    pub memory_bytes: u64,
}

impl JobSamples {
    /// All of it in short.
    pub fn summary(&self) -> NodeSummary {
        let ends = self.samples.first().zip(self.samples.last());
        let busy = ends.and_then(|(first, last)| {
            let ms = u64::try_from(last.at.since(first.at).ms()).ok()?;
            last.cpu_us.saturating_sub(first.cpu_us).checked_div(ms)
        });
        NodeSummary {
            node: self.node.clone(),
            cores: self.cores,
            busy_millicores: busy,
            peak_bytes: self.peak_bytes,
        }
    }

    /// From each measurement to the next; those at the same moment are passed over.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.samples.windows(2).filter_map(|two| {
            let [before, after] = two else { return None };
            let ms = after.at.since(before.at).ms();
            let used_us = after.cpu_us.saturating_sub(before.cpu_us);
            (ms > 0).then(|| Stretch {
                until: after.at,
                busy_cores: used_us as f64 / 1000.0 / ms as f64,
                memory_bytes: after.memory_bytes,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cores_between_measurements() {
        let sample = |s: i64, cpu_s: u64| Sample {
            at: Time(s * 1000),
            cpu_us: cpu_s * 1_000_000,
            ..Sample::default()
        };
        let all = JobSamples {
            samples: vec![sample(0, 0), sample(10, 15), sample(10, 15), sample(20, 14)],
            ..JobSamples::default()
        };
        let busy: Vec<f64> = all.stretches().map(|s| s.busy_cores).collect();
        assert_eq!(busy, [1.5, 0.0]);
        assert_eq!(all.summary().busy_millicores, Some(700));
        assert_eq!(JobSamples::default().summary(), NodeSummary::default());
    }
}
