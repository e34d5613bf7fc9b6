//! How full the cluster was: a sample every half minute, kept for a week.

use crate::figures::Load;
use crate::site::{Site, now};
use cosy_model::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two samples.
const EVERY: Duration = Duration::from_secs(30);
/// How long a sample is kept, in milliseconds.
const KEPT_MS: i64 = 7 * 86_400_000;
/// Lines that the file may have beyond those that are kept before it is written anew.
const SPARE_LINES: usize = 5000;

/// How full the cluster was at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// How full it was.
    #[serde(flatten)]
    pub load: Load,
}

/// The samples of the last week.
pub struct Samples {
    file: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    all: VecDeque<Sample>,
    lines: usize,
}

impl Samples {
    /// Those of that file; what is no sample in it is passed over.
    pub fn open(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let all: VecDeque<Sample> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let lines = text.lines().count();
        Self {
            file: file.to_owned(),
            kept: Mutex::new(Kept { all, lines }),
        }
    }

    /// Keeps one more.
    pub fn add(&self, sample: Sample) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.all.push_back(sample);
        while kept
            .all
            .front()
            .is_some_and(|first| first.at_ms < sample.at_ms - KEPT_MS)
        {
            kept.all.pop_front();
        }
        let written = match kept.lines > kept.all.len() + SPARE_LINES {
            true => self.write_anew(&kept.all).map(|()| kept.all.len()),
            false => self.append(&sample).map(|()| kept.lines + 1),
        };
        match written {
            Ok(lines) => kept.lines = lines,
            // They are of interest, not of importance.
            Err(e) => tracing::warn!("a sample is not written down: {e}"),
        }
    }

    fn append(&self, sample: &Sample) -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.file)?;
        file.write_all(line(sample)?.as_bytes())
    }

    fn write_anew(&self, all: &VecDeque<Sample>) -> std::io::Result<()> {
        let new = self.file.with_extension("new");
        let text = all.iter().map(line).collect::<Result<String, _>>()?;
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &self.file)
    }

    /// The samples since a time, at most so many: of those that follow each other the mean.
    pub fn since(&self, since: Time, most: usize) -> Vec<Sample> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<Sample> = kept
            .all
            .iter()
            .filter(|sample| sample.at_ms >= since.0)
            .copied()
            .collect();
        let each = all.len().div_ceil(most.max(1)).max(1);
        all.chunks(each).map(mean).collect()
    }
}

fn line(sample: &Sample) -> std::io::Result<String> {
    Ok(format!("{}\n", serde_json::to_string(sample)?))
}

fn mean(all: &[Sample]) -> Sample {
    let count = all.len() as u64;
    let of = |value: fn(&Load) -> u64| -> u64 {
        let sum: u64 = all.iter().map(|sample| value(&sample.load)).sum();
        (sum + count / 2) / count.max(1)
    };
    Sample {
        at_ms: all.last().map_or(0, |last| last.at_ms),
        load: Load {
            nodes: of(|l| l.nodes),
            nodes_used: of(|l| l.nodes_used),
            nodes_out: of(|l| l.nodes_out),
            cores: of(|l| l.cores),
            cores_used: of(|l| l.cores_used),
            gpus: of(|l| l.gpus),
            gpus_used: of(|l| l.gpus_used),
            memory: of(|l| l.memory),
            memory_used: of(|l| l.memory_used),
            running: of(|l| l.running),
            waiting: of(|l| l.waiting),
        },
    }
}

/// Takes samples as long as the program runs.
pub async fn take_all(site: Arc<Site>) {
    let mut clock = tokio::time::interval(EVERY);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let nodes = site.shared.nodes(&site.cluster).await;
        let queues = site.shared.queues(&site.cluster).await;
        if let (Ok(nodes), Ok(queues)) = (nodes, queues) {
            let load = Load::of(&nodes, &queues);
            let at_ms = now().0;
            site.samples.add(Sample { at_ms, load });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: i64, cores_used: u64) -> Sample {
        let load = Load {
            cores_used,
            ..Load::default()
        };
        Sample { at_ms, load }
    }

    #[test]
    fn a_week_is_kept_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("samples");
        let samples = Samples::open(&file);
        samples.add(sample(1000, 1));
        samples.add(sample(KEPT_MS, 3));
        samples.add(sample(KEPT_MS + 1001, 5));
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(b"{\"at_")
            .unwrap();
        let again = Samples::open(&file);
        again.add(sample(KEPT_MS + 2000, 6));
        let used = |most| -> Vec<u64> {
            let all = again.since(Time(0), most);
            all.iter().map(|sample| sample.load.cores_used).collect()
        };
        // What was half written takes the next one with it, and nothing else.
        assert_eq!(used(10), [3, 5, 6]);
        assert_eq!(used(1), [5]);
        assert_eq!(again.since(Time(KEPT_MS + 1), 10).len(), 2);
    }
}
