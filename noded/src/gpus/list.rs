//! The list of GPUs that a node offers: what was found, with what is known from before.
//!
//! Jobs have numbers of GPUs. So while jobs run, a daemon that starts anew keeps the order that
//! there was; and a whole GPU that was there and is not stays in the list until somebody says that it
//! is not to come back, so that the node is drained with its name instead of offering fewer.

use super::{FoundGpu, GpuFigures, GpuSearch, GpusFound, models};
use crate::devices::{Device, Devices};
use crate::spool::write_whole;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Name of the file that it is kept in, in the daemon's own directory of the spool.
pub const FILE: &str = "gpus.toml";

/// The list as it is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GpuList {
    /// GPUs and slices, by number.
    #[serde(default)]
    pub gpus: Vec<FoundGpu>,
}

impl GpuList {
    /// As an earlier daemon left it in its directory; empty where none did.
    pub fn load(own_dir: &Path) -> Self {
        let path = own_dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Self::default(),
            Err(e) => {
                tracing::warn!("{}: {e}", path.display());
                return Self::default();
            }
        };
        toml::from_str(&text).unwrap_or_else(|e| {
            tracing::warn!("{} is not taken: {e}", path.display());
            Self::default()
        })
    }

    /// Keeps it for later daemons; only what says which is which.
    ///
    /// # Errors
    /// The file system's.
    pub fn keep(&self, own_dir: &Path) -> io::Result<()> {
        let mut kept = self.clone();
        for gpu in &mut kept.gpus {
            (gpu.fault, gpu.figures) = (None, GpuFigures::default());
        }
        let text = toml::to_string(&kept).map_err(io::Error::other)?;
        let path = own_dir.join(FILE);
        match std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            true => Ok(()),
            false => write_whole(&path, text.as_bytes()),
        }
    }

    /// The list for what is found now. `fixed`: jobs have numbers of the list that was kept.
    #[must_use]
    pub fn with(self, found: &GpusFound, fixed: bool) -> Self {
        let ids: BTreeSet<&str> = found.gpus.iter().map(|g| g.id.as_str()).collect();
        let wholes: BTreeSet<&str> = found.gpus.iter().map(|g| g.whole.as_str()).collect();
        let known: BTreeSet<String> = self.gpus.iter().map(|g| g.id.clone()).collect();
        let now = |old: FoundGpu| {
            let found = found.gpus.iter().find(|g| g.id == old.id);
            found.cloned().unwrap_or(old)
        };
        let new = found.gpus.iter().filter(|g| !known.contains(&g.id));
        // Who could not be asked for all of them does not know what is gone for good.
        if fixed || !found.faults.is_empty() {
            let mut gpus: Vec<FoundGpu> = self.gpus.into_iter().map(now).collect();
            // A GPU of which slices were made, or the other way round, is the same one.
            let taken: BTreeSet<String> = gpus.iter().map(|g| g.whole.clone()).collect();
            gpus.extend(new.filter(|g| !taken.contains(&g.whole)).cloned());
            return Self { gpus };
        }
        // Slices come and go with what the site makes of its GPUs.
        let gone = self
            .gpus
            .iter()
            .filter(|g| !ids.contains(g.id.as_str()) && !wholes.contains(g.whole.as_str()));
        let mut gpus = found.gpus.clone();
        gpus.extend(gone.cloned());
        Self { gpus }
    }

    /// What is wrong with them, in one line: those that are gone or have faults.
    pub fn problem(&self, found: &GpusFound) -> Option<String> {
        let mut faults: Vec<String> = Vec::new();
        for (gpu, number) in self.gpus.iter().zip(0..) {
            let name = || name(gpu, number);
            match found.gpus.iter().find(|g| g.id == gpu.id) {
                None => faults.push(format!("{} is gone", name())),
                Some(now) => {
                    faults.extend(now.fault.iter().map(|f| format!("{}: {f}", name())));
                }
            }
        }
        faults.extend(found.faults.iter().cloned());
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// What each of them does at the moment, by number.
    pub fn figures(&self, found: &GpusFound) -> Vec<GpuFigures> {
        let now = |gpu: &FoundGpu| found.gpus.iter().find(|g| g.id == gpu.id);
        let figures = |gpu| now(gpu).map_or_else(GpuFigures::default, |g| g.figures);
        self.gpus.iter().map(figures).collect()
    }

    /// What of it jobs are given.
    pub fn devices(&self, search: &GpuSearch) -> Devices {
        // Programs want numbers, which slices do not have; and where GPUs differ, programs number
        // them in another order than their drivers.
        let first = self.gpus.first().map(|g| &g.model);
        let alike = |g: &FoundGpu| g.slice.is_none() && Some(&g.model) == first;
        let by_number = self.gpus.iter().all(alike);
        let device = |(gpu, index): (&FoundGpu, u32)| Device {
            kind: models::kind(gpu, &search.types),
            files: gpu.files.clone(),
            numa: gpu.numa,
            id: (!by_number && gpu.id != gpu.bus).then(|| gpu.id.clone()),
            vendor: gpu.vendor,
            index,
            shards: search.shards,
        };
        Devices::of(self.gpus.iter().zip(0..).map(device).collect())
    }
}

/// A GPU by number, model and names, for administrators.
fn name(gpu: &FoundGpu, number: u32) -> String {
    let slice = gpu
        .slice
        .as_ref()
        .map_or(String::new(), |s| format!(" slice {s}"));
    let place = match gpu.id == gpu.bus {
        true => String::new(),
        false => format!(" at {}", gpu.bus),
    };
    format!("GPU {number} ({}{slice}, {}{place})", gpu.model, gpu.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::device::SHARD;

    fn gpu(id: &str) -> FoundGpu {
        FoundGpu {
            id: id.to_owned(),
            whole: id.to_owned(),
            model: "Tesla T4".to_owned(),
            bus: format!("0000:{id}:00.0"),
            ..FoundGpu::default()
        }
    }

    fn slice(id: &str, whole: &str) -> FoundGpu {
        FoundGpu {
            whole: whole.to_owned(),
            slice: Some("1g.5gb".to_owned()),
            ..gpu(id)
        }
    }

    fn found(gpus: &[FoundGpu]) -> GpusFound {
        GpusFound {
            gpus: gpus.to_vec(),
            faults: Vec::new(),
        }
    }

    fn ids(list: &GpuList) -> Vec<&str> {
        list.gpus.iter().map(|g| g.id.as_str()).collect()
    }

    #[test]
    fn numbers_stay_while_jobs_run() {
        let list = GpuList::default().with(&found(&[gpu("a"), gpu("b"), gpu("c")]), false);
        assert_eq!(ids(&list), ["a", "b", "c"]);
        assert_eq!(list.problem(&found(&[gpu("c"), gpu("b"), gpu("a")])), None);
        let now = found(&[gpu("n"), gpu("c"), gpu("b")]);
        let fixed = list.clone().with(&now, true);
        assert_eq!(ids(&fixed), ["a", "b", "c", "n"]);
        let free = list.with(&now, false);
        assert_eq!(ids(&free), ["n", "c", "b", "a"]);
        let gone = "GPU 0 (Tesla T4, a at 0000:a:00.0) is gone";
        assert_eq!(fixed.problem(&now).as_deref(), Some(gone));
    }

    #[test]
    fn figures_of_those_that_are_there() {
        let busy = |id: &str, busy_percent| FoundGpu {
            figures: GpuFigures {
                busy_percent: Some(busy_percent),
                memory_used: Some(7),
                memory_total: None,
            },
            ..gpu(id)
        };
        let list = GpuList {
            gpus: vec![gpu("a"), gpu("b"), gpu("c")],
        };
        let figures = list.figures(&found(&[busy("c", 40), busy("a", 91)]));
        let known: Vec<_> = figures.iter().map(|f| f.busy_percent).collect();
        assert_eq!(known, [Some(91), None, Some(40)]);
        let both = GpuFigures::together(&[figures[0], figures[2]]);
        assert_eq!(
            (both.busy_percent, both.memory_used, both.memory_total),
            (Some(65), Some(14), None)
        );
        assert_eq!(GpuFigures::together(&figures).busy_percent, None);
        assert_eq!(GpuFigures::together(&[]), GpuFigures::default());
    }

    #[test]
    fn slices_come_and_go() {
        let list = GpuList::default().with(&found(&[gpu("a"), slice("s", "b")]), false);
        // Other slices of the same GPU, and slices of one that had none.
        let now = found(&[slice("t", "b"), slice("u", "a")]);
        assert_eq!(ids(&list.clone().with(&now, false)), ["t", "u"]);
        // But not while jobs have them.
        let fixed = list.with(&now, true);
        assert_eq!(ids(&fixed), ["a", "s"]);
        assert!(
            fixed
                .problem(&now)
                .unwrap()
                .contains("GPU 1 (Tesla T4 slice 1g.5gb, s at")
        );
    }

    #[test]
    fn faults_are_told() {
        let list = GpuList::default().with(&found(&[gpu("a")]), false);
        let mut now = found(&[FoundGpu {
            fault: Some("rows".to_owned()),
            ..gpu("a")
        }]);
        now.faults.push("GPU number 1: lost".to_owned());
        let want = "GPU 0 (Tesla T4, a at 0000:a:00.0): rows; GPU number 1: lost";
        assert_eq!(list.problem(&now).as_deref(), Some(want));
    }

    #[test]
    fn what_jobs_are_given() {
        let list = GpuList {
            gpus: vec![gpu("a"), gpu("b")],
        };
        let devices = list.devices(&GpuSearch::default());
        assert_eq!(devices.gpu_types(), ["t4", "t4"]);
        assert_eq!(devices.gpus[1].id, None);
        let shards = GpuSearch {
            shards: Some(3),
            ..GpuSearch::default()
        };
        let devices = list.devices(&shards);
        assert_eq!((devices.gpu_count(), devices.others[SHARD].len()), (0, 6));
        let sliced = GpuList {
            gpus: vec![gpu("a"), slice("s", "b")],
        };
        let devices = sliced.devices(&GpuSearch::default());
        assert_eq!(devices.gpu_types(), ["t4", "t4.mig-1g.5gb"]);
        assert_eq!(devices.gpus[0].id.as_deref(), Some("a"));
    }
}
