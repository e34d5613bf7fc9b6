//! The list of GPUs that a node offers: what was found, with what is known from before.
//!
//! Jobs have numbers of GPUs. So while jobs run, a daemon that starts anew keeps the order that
//! there was; and a whole GPU that was there and is not stays in the list until somebody says that it
//! is not to come back, so that the node is drained with its name instead of offering fewer.

use super::{FoundGpu, GpuFigures, GpuSearch, GpusFound, models};
use crate::devices::{Device, Devices, MOST_SHARDS};
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

    /// The list for what is found now. `fixed`: jobs have numbers of this list.
    #[must_use]
    pub fn with(&self, found: &GpusFound, fixed: bool) -> Self {
        // Who could not be asked for all of them does not know what is gone for good.
        match fixed || !found.faults.is_empty() {
            true => self.kept_with(found),
            false => self.anew(found),
        }
    }

    /// The same GPUs under the same numbers, and new ones behind them.
    fn kept_with(&self, found: &GpusFound) -> Self {
        let kept = self.gpus.iter().map(|old| with_files(old, found));
        let mut gpus: Vec<FoundGpu> = kept.collect();
        // A GPU of which slices were made, or the other way round, is the same one.
        let taken: BTreeSet<String> = gpus.iter().map(|g| g.whole.clone()).collect();
        let is_known = |gpu: &FoundGpu| self.gpus.iter().any(|old| is_same(old, gpu));
        let new = found.gpus.iter();
        let new = new.filter(|g| !is_known(g) && !taken.contains(&g.whole));
        gpus.extend(new.cloned());
        Self { gpus }
    }

    /// What was found, and behind it whole GPUs that are gone: slices come and go with what the site makes of
    /// its GPUs.
    fn anew(&self, found: &GpusFound) -> Self {
        let wholes = found.gpus.iter().map(|g| &g.whole);
        let wholes: BTreeSet<&String> = wholes.chain(&found.unsliced).collect();
        let is_gone = |g: &&FoundGpu| now(g, found).is_none() && !wholes.contains(&g.whole);
        let gone = self.gpus.iter().filter(is_gone);
        Self {
            gpus: found.gpus.iter().chain(gone).cloned().collect(),
        }
    }

    /// What is wrong with them, in one line: those that are gone, have faults, or are not as they were
    /// at the start.
    pub fn problem(&self, found: &GpusFound) -> Option<String> {
        let mut faults: Vec<String> = Vec::new();
        for (gpu, number) in self.gpus.iter().zip(0..) {
            let name = || name(gpu, number);
            let unsliced = found.unsliced.contains(&gpu.whole);
            match now(gpu, found) {
                None if unsliced => {
                    faults.push(format!("{}: its GPU has no slices now", name()));
                }
                None => faults.push(format!("{} is gone", name())),
                Some(now) if now.files != gpu.files => {
                    let text = format!("{} has other files now: restart noded", name());
                    faults.push(text);
                }
                Some(now) => {
                    faults.extend(now.fault.iter().map(|f| format!("{}: {f}", name())));
                }
            }
        }
        if self.gpus.is_empty() && !found.gpus.is_empty() {
            let count = found.gpus.len();
            faults.push(format!("{count} GPUs were not there at the start: restart noded"));
        }
        faults.extend(found.faults.iter().cloned());
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// What each of them does at the moment, by number.
    pub fn figures(&self, found: &GpusFound) -> Vec<GpuFigures> {
        let figures = |gpu| now(gpu, found).map_or_else(GpuFigures::default, |g| g.figures);
        self.gpus.iter().map(figures).collect()
    }

    /// As many shards of each as a node can have.
    fn most_shards(&self, shards: u32) -> u32 {
        let gpus = u32::try_from(self.gpus.len()).unwrap_or(u32::MAX).max(1);
        let most = (MOST_SHARDS / gpus).max(1);
        if shards > most {
            tracing::warn!(
                "gpu_shards is taken for {most}: a node has at most {MOST_SHARDS} shards"
            );
        }
        shards.min(most)
    }

    /// What of it jobs are given.
    pub fn devices(&self, search: &GpuSearch) -> Devices {
        // Programs want numbers, which slices do not have; and where GPUs differ, programs number
        // them in another order than their drivers.
        let first = self.gpus.first().map(|g| &g.model);
        let alike = |g: &FoundGpu| g.slice.is_none() && Some(&g.model) == first;
        let by_number = self.gpus.iter().all(alike);
        let shards = search.shards.map(|shards| self.most_shards(shards));
        let device = |(gpu, index): (&FoundGpu, u32)| Device {
            kind: models::kind(gpu, &search.types),
            files: gpu.files.clone(),
            numa: gpu.numa,
            id: (!by_number && is_known_to_programs(&gpu.id)).then(|| gpu.id.clone()),
            vendor: gpu.vendor,
            index,
            shards,
        };
        Devices::of(self.gpus.iter().zip(0..).map(device).collect())
    }
}

/// Whether two are the same one. Its driver's files name a GPU by its place until it is used for the first
/// time, and only libraries know some names.
fn is_same(one: &FoundGpu, other: &FoundGpu) -> bool {
    let by_place = |g: &FoundGpu| g.slice.is_none() && g.id == g.bus;
    let whole = one.slice.is_none() && other.slice.is_none();
    let at_place = one.vendor == other.vendor && one.bus == other.bus && whole;
    one.id == other.id || (at_place && (by_place(one) || by_place(other)))
}

/// A GPU of the list as it was found now.
fn now<'f>(old: &FoundGpu, found: &'f GpusFound) -> Option<&'f FoundGpu> {
    found.gpus.iter().find(|gpu| is_same(old, gpu))
}

/// A GPU of the list with what is known of it now, under the better of its names.
fn with_files(old: &FoundGpu, found: &GpusFound) -> FoundGpu {
    let Some(new) = now(old, found) else {
        return old.clone();
    };
    let named = if new.id == new.bus { old } else { new };
    FoundGpu {
        id: named.id.clone(),
        whole: named.whole.clone(),
        ..new.clone()
    }
}

/// Whether the vendors' variables take it.
fn is_known_to_programs(id: &str) -> bool {
    ["GPU-", "MIG-"].iter().any(|start| id.starts_with(start))
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
    use crate::gpus::GpuUse;
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
            ..GpusFound::default()
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
                ..GpuFigures::default()
            },
            ..gpu(id)
        };
        let list = GpuList {
            gpus: vec![gpu("a"), gpu("b"), gpu("c")],
        };
        let figures = list.figures(&found(&[busy("c", 40), busy("a", 91)]));
        let known: Vec<_> = figures.iter().map(|f| f.busy_percent).collect();
        assert_eq!(known, [Some(91), None, Some(40)]);
        let both = GpuUse::of(&[figures[0], figures[2]]);
        assert_eq!(
            (both.busy_percent, both.memory_used, both.memory_total),
            (Some(65), Some(14), None)
        );
        assert_eq!(GpuUse::of(&figures).busy_percent, None);
        assert_eq!(GpuUse::of(&[]), GpuUse::default());
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
    fn a_gpu_keeps_its_place_under_another_name() {
        // From files before it was used, then with its name.
        let by_place = FoundGpu {
            id: "0000:a:00.0".to_owned(),
            whole: "0000:a:00.0".to_owned(),
            ..gpu("a")
        };
        let list = GpuList::default().with(&found(std::slice::from_ref(&by_place)), false);
        let named = found(&[gpu("a")]);
        assert_eq!(list.problem(&named), None);
        let later = list.with(&named, true);
        assert_eq!(ids(&later), ["a"]);
        // And the other way round: the better name stays.
        let back = found(&[by_place]);
        assert_eq!(later.problem(&back), None);
        assert_eq!(ids(&later.with(&back, true)), ["a"]);
    }

    #[test]
    fn what_changed_since_the_start_is_told() {
        let with_file = |file: &str| FoundGpu {
            files: vec![file.into()],
            ..gpu("a")
        };
        let list = GpuList::default().with(&found(&[with_file("/dev/nvidia0")]), false);
        let problem = list.problem(&found(&[with_file("/dev/nvidia1")])).unwrap();
        assert!(problem.ends_with("has other files now: restart noded"), "{problem}");
        let late = GpuList::default().problem(&found(&[gpu("a")])).unwrap();
        assert_eq!(late, "1 GPUs were not there at the start: restart noded");
        // Slices that were taken away for the moment are no GPU that is gone.
        let sliced = GpuList::default().with(&found(&[slice("s", "b")]), false);
        let none = GpusFound {
            unsliced: vec!["b".to_owned()],
            ..GpusFound::default()
        };
        let problem = sliced.problem(&none).unwrap();
        assert!(problem.ends_with("its GPU has no slices now"), "{problem}");
        assert!(ids(&sliced.with(&none, false)).is_empty());
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
        let many = GpuSearch {
            shards: Some(600),
            ..GpuSearch::default()
        };
        assert_eq!(list.devices(&many).others[SHARD].len(), 1024);
        let sliced = GpuList {
            gpus: vec![gpu("GPU-a"), slice("MIG-s", "b")],
        };
        let devices = sliced.devices(&GpuSearch::default());
        assert_eq!(devices.gpu_types(), ["t4", "t4.mig-1g.5gb"]);
        assert_eq!(devices.gpus[0].id.as_deref(), Some("GPU-a"));
    }
}
