//! GPUs and other devices of this node: which there are, whose they are now, and how
//! others are kept from them.
//!
//! What is numbered here is numbered in the order of the configuration, from 0; the
//! controller chooses numbers, this module finds what is behind them. Knows nothing of
//! control groups but what they are to deny.

use crate::gpus::Vendor;
use cosy_model::device::SHARD;
use cosy_model::node::Allocation;
use cosy_model::step::GpuBind;
use cosy_model::{CountedResources, OsText, variables};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The part of a GPU that a program may use at most, in per cent. Source: NVIDIA, Multi-Process
/// Service, chapter on provisioning.
const MPS_PART: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// Most shards of a node.
pub const MOST_SHARDS: u32 = 1024;

/// A device as the kernel numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DeviceNumber {
    /// A block device, else a character device.
    pub block: bool,
    /// Number of the driver.
    pub major: u32,
    /// Number of the device, as its driver counts.
    pub minor: u32,
}

/// `c 195:0`, as control groups take it.
impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.block { 'b' } else { 'c' };
        write!(f, "{kind} {}:{}", self.major, self.minor)
    }
}

/// The device that a file stands for; `None` when it is no device or not there.
pub fn number_of(file: &Path) -> Option<DeviceNumber> {
    let found = std::fs::metadata(file).ok()?;
    let kind = found.file_type();
    let is_device = kind.is_block_device() || kind.is_char_device();
    is_device.then(|| DeviceNumber {
        block: kind.is_block_device(),
        major: nix::libc::major(found.rdev()),
        minor: nix::libc::minor(found.rdev()),
    })
}

/// One GPU, one slice of a GPU, or one piece of another resource.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// Type of a GPU; empty without.
    pub kind: String,
    /// What is opened to use it. Two slices of a GPU can have files in common.
    pub files: Vec<PathBuf>,
    /// The NUMA node that it is at.
    pub numa: Option<u32>,
    /// What programs call it, when not by its number.
    pub id: Option<String>,
    /// Who made it, of a GPU.
    pub vendor: Vendor,
    /// The place of a GPU among all of the node, shared or not.
    pub index: u32,
    /// A GPU is given out in so many shards instead of as a whole.
    pub shards: Option<u32>,
}

/// All of a node, as configured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Devices {
    /// GPUs, by number.
    pub gpus: Vec<Device>,
    /// Pieces of other resources, by name and number.
    pub others: BTreeMap<String, Vec<Device>>,
}

/// Some of them, by number.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Numbers of GPUs.
    pub gpus: &'a [u32],
    /// Numbers of other devices, by the name of their kind.
    pub others: &'a BTreeMap<String, Vec<u32>>,
}

impl<'a> Held<'a> {
    /// All of a job here.
    pub fn of(allocation: &'a Allocation) -> Self {
        Self {
            gpus: &allocation.gpus,
            others: &allocation.devices,
        }
    }

    fn others_of(&self, name: &str) -> &'a [u32] {
        self.others.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Devices {
    /// GPUs in their order; of those with shards come pieces of the resource `shard` instead.
    pub fn of(all: Vec<Device>) -> Self {
        let mut devices = Self::default();
        for (gpu, index) in all.into_iter().zip(0..) {
            let gpu = Device { index, ..gpu };
            match gpu.shards {
                None => devices.gpus.push(gpu),
                Some(shards) => {
                    let pieces = devices.others.entry(SHARD.to_owned()).or_default();
                    pieces.extend(std::iter::repeat_n(gpu, shards as usize));
                }
            }
        }
        devices
    }

    /// How many shards each GPU has that is given out in shards, in the order of their numbers.
    pub fn shards(&self) -> Vec<u32> {
        let pieces = self.others.get(SHARD).map_or(&[][..], Vec::as_slice);
        let mut all: Vec<(u32, u32)> = Vec::new();
        for piece in pieces.iter().filter(|p| p.shards.is_some()) {
            match all.last_mut() {
                Some((index, count)) if *index == piece.index => *count += 1,
                Some(_) | None => all.push((piece.index, 1)),
            }
        }
        all.into_iter().map(|(_, count)| count).collect()
    }

    /// Number of GPUs.
    pub fn gpu_count(&self) -> u32 {
        u32::try_from(self.gpus.len()).unwrap_or(u32::MAX)
    }

    /// Types of GPUs by number; none when no GPU has one.
    pub fn gpu_types(&self) -> Vec<String> {
        if self.gpus.iter().all(|g| g.kind.is_empty()) {
            return Vec::new();
        }
        self.gpus.iter().map(|g| g.kind.clone()).collect()
    }

    /// Adds the other resources to those that are only counted.
    pub fn count_others(&self, counted: &mut CountedResources) {
        for (name, all) in &self.others {
            counted.set(name, u32::try_from(all.len()).unwrap_or(u32::MAX));
        }
    }

    fn all(&self) -> impl Iterator<Item = &Device> {
        self.gpus.iter().chain(self.others.values().flatten())
    }

    /// What is opened to use them.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.all().flat_map(|d| &d.files).map(PathBuf::as_path)
    }

    /// All of them with the name of their resource, none for a GPU, and their number.
    fn named(&self) -> impl Iterator<Item = (Option<&str>, u32, &Device)> {
        let gpus = self.gpus.iter().map(|gpu| (None, gpu.index, gpu));
        let others = self.others.iter().flat_map(|(name, pieces)| {
            pieces
                .iter()
                .zip(0..)
                .map(|(piece, number)| match piece.shards {
                    Some(_) => (None, piece.index, piece),
                    None => (Some(name.as_str()), number, piece),
                })
        });
        gpus.chain(others)
    }

    /// True when there are files that others can be kept from.
    pub fn have_files(&self) -> bool {
        self.all().any(|d| !d.files.is_empty())
    }

    /// True when some are known to be near to processors.
    pub fn have_places(&self) -> bool {
        self.all().any(|d| d.numa.is_some())
    }

    /// Adds others that were found.
    pub fn add(&mut self, others: Self) {
        self.gpus.extend(others.gpus);
        for (name, pieces) in others.others {
            self.others.entry(name).or_default().extend(pieces);
        }
    }

    /// How many of which type, for administrators: `4 a100`.
    pub fn words(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for gpu in &self.gpus {
            let kind = match gpu.kind.is_empty() {
                true => "without a type",
                false => &gpu.kind,
            };
            *counts.entry(kind).or_default() += 1;
        }
        let shards = self.others.get(SHARD).map_or(0, Vec::len);
        let counts = counts
            .into_iter()
            .map(|(kind, count)| format!("{count} {kind}"));
        let shards = (shards > 0).then(|| format!("{shards} shards"));
        let all: Vec<String> = counts.chain(shards).collect();
        all.join(", ")
    }

    /// In one line, which have lost a file; `never_there`: files that had been none before. With `gpus`
    /// GPUs are looked at too.
    pub fn gone(&self, never_there: &[PathBuf], gpus: bool) -> Option<String> {
        let is_gone = |file: &&PathBuf| !never_there.contains(file) && number_of(file).is_none();
        let mut lost: Vec<String> = Vec::new();
        for (name, number, device) in self.named() {
            let is_looked_at = gpus || name.is_some();
            let file = device.files.iter().find(is_gone).filter(|_| is_looked_at);
            let name = name.unwrap_or("GPU");
            let text = file.map(|f| format!("{name} {number} ({}) is gone", f.display()));
            lost.extend(text.filter(|text| !lost.contains(text)));
        }
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    /// Files that are no devices, or not there: nobody can be kept from them.
    pub fn bad_files(&self) -> Vec<&Path> {
        let mut bad: Vec<&Path> = self.files().filter(|f| number_of(f).is_none()).collect();
        bad.dedup();
        bad
    }

    /// What somebody who has `held` must not open: the files of all others, but not those
    /// that are also files of one that is held.
    pub fn denied(&self, held: Held<'_>) -> Vec<DeviceNumber> {
        let mut own = BTreeSet::new();
        let mut foreign = BTreeSet::new();
        let mut sort = |devices: &[Device], numbers: &[u32]| {
            for (device, number) in devices.iter().zip(0u32..) {
                let found = device.files.iter().filter_map(|f| number_of(f));
                if numbers.contains(&number) {
                    own.extend(found);
                } else {
                    foreign.extend(found);
                }
            }
        };
        sort(&self.gpus, held.gpus);
        for (name, devices) in &self.others {
            sort(devices, held.others_of(name));
        }
        foreign.difference(&own).copied().collect()
    }

    /// Variables for somebody who has `held`. That of the vendor (`CUDA_VISIBLE_DEVICES`) wherever
    /// there are GPUs: who got none sees none. `kept`: the devices of others cannot be opened.
    pub fn variables(&self, held: Held<'_>, kept: bool) -> Vec<OsText> {
        let mut all = Vec::new();
        let unknown = held
            .gpus
            .iter()
            .any(|n| self.gpus.get(*n as usize).is_none());
        if unknown {
            all.push(variable(Vendor::default().variable(), &texts(held.gpus)));
        } else {
            let vendors: BTreeSet<Vendor> = self.all_gpus().map(|g| g.vendor).collect();
            for vendor in vendors {
                let names = self.gpu_names(held, vendor, kept);
                all.push(variable(vendor.variable(), &names));
            }
        }
        all.extend(self.shard_limit(held));
        for (name, numbers) in held.others.iter().filter(|(_, n)| !n.is_empty()) {
            let devices = self.others.get(name).map_or(&[][..], Vec::as_slice);
            let names = match name == SHARD {
                true => texts(numbers),
                false => names(devices, numbers).unwrap_or_else(|| texts(numbers)),
            };
            let name: String = name.chars().map(in_variable).collect();
            all.push(variable(&variables::of_devices(&name), &names));
        }
        all
    }

    /// All GPUs; those with shards as often as they have some.
    fn all_gpus(&self) -> impl Iterator<Item = &Device> {
        let shards = self.others.get(SHARD).into_iter().flatten();
        self.gpus
            .iter()
            .chain(shards.filter(|d| d.shards.is_some()))
    }

    /// The shards that are held, each as its GPU.
    fn held_shards<'d>(&'d self, held: Held<'d>) -> impl Iterator<Item = &'d Device> {
        let pieces = self.others.get(SHARD).map_or(&[][..], Vec::as_slice);
        let numbers = held.others_of(SHARD).iter();
        let found = numbers.filter_map(|n| pieces.get(*n as usize));
        found.filter(|d| d.shards.is_some())
    }

    /// Names of GPUs of a vendor as its programs take them. They number those that they can open,
    /// from 0: so where the others cannot be opened, a number is the place among one's own.
    fn gpu_names(&self, held: Held<'_>, vendor: Vendor, kept: bool) -> Vec<String> {
        let whole = held.gpus.iter().filter_map(|n| self.gpus.get(*n as usize));
        let mut own: Vec<&Device> = Vec::new();
        for gpu in whole.chain(self.held_shards(held)) {
            if gpu.vendor == vendor && !own.iter().any(|o| o.index == gpu.index) {
                own.push(gpu);
            }
        }
        let ids: Option<Vec<String>> = own.iter().map(|g| g.id.clone()).collect();
        if let Some(ids) = ids {
            return ids;
        }
        let same = || self.all_gpus().filter(|g| g.vendor == vendor);
        if kept && same().all(|g| !g.files.is_empty()) {
            return (0..own.len()).map(|n| n.to_string()).collect();
        }
        let indices: BTreeSet<u32> = same().map(|g| g.index).collect();
        let place = |g: &&Device| indices.range(..g.index).count().to_string();
        own.iter().map(place).collect()
    }

    /// Where programs of several jobs share a GPU through NVIDIA's MPS, which part of it each may use
    /// at most; nothing comes of it without MPS.
    fn shard_limit(&self, held: Held<'_>) -> Option<OsText> {
        let mut by_gpu: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let own = self.held_shards(held);
        for shard in own.filter(|d| d.vendor == Vendor::Nvidia) {
            let all = shard.shards.unwrap_or(1).max(1);
            by_gpu.entry(shard.index).or_insert((0, all)).0 += 1;
        }
        let parts = by_gpu.into_values().map(|(own, all)| own * 100 / all);
        let least = parts.min()?.max(1);
        Some(variable(MPS_PART, &[least.to_string()]))
    }

    /// Which of `gpus`, ascending, each task sees; `near`: the NUMA nodes of each task's cores.
    pub fn bind(&self, gpus: &[u32], bind: &GpuBind, near: &[&[u32]]) -> Vec<Vec<u32>> {
        let at = |place: &u32| gpus.get(*place as usize).copied();
        let in_turn = |lists: &[Vec<u32>]| {
            let lists = lists.iter().cycle().take(near.len());
            lists
                .map(|list| list.iter().filter_map(at).collect())
                .collect()
        };
        match bind {
            GpuBind::Default | GpuBind::None => vec![gpus.to_vec(); near.len()],
            GpuBind::PerTask(each) => self.deal(gpus, *each, near),
            GpuBind::Closest => near.iter().map(|near| self.closest(gpus, near)).collect(),
            GpuBind::Single(tasks) => self.one_each(gpus, *tasks, near),
            GpuBind::Map(list) => {
                let lists: Vec<Vec<u32>> = list.iter().map(|place| vec![*place]).collect();
                in_turn(&lists)
            }
            GpuBind::Mask(lists) => in_turn(lists),
        }
    }

    fn closest(&self, gpus: &[u32], near: &[u32]) -> Vec<u32> {
        let own: Vec<u32> = gpus
            .iter()
            .filter(|g| self.is_near(**g, near))
            .copied()
            .collect();
        match own.is_empty() {
            true => gpus.to_vec(),
            false => own,
        }
    }

    /// One GPU for each task, up to `tasks` tasks each while that is enough: the first near one that
    /// has room, else the first one.
    fn one_each(&self, gpus: &[u32], tasks: u32, near: &[&[u32]]) -> Vec<Vec<u32>> {
        let mut seen_by: BTreeMap<u32, u32> = gpus.iter().map(|g| (*g, 0)).collect();
        let mut all = Vec::new();
        for near in near {
            let with_room = || seen_by.iter().filter(|(_, count)| **count < tasks);
            let best = with_room().find(|(gpu, _)| self.is_near(**gpu, near));
            let fewest = || seen_by.iter().min_by_key(|(_, count)| **count);
            let found = best.or_else(|| with_room().next()).or_else(fewest);
            let found = found.map(|(gpu, _)| *gpu);
            if let Some(count) = found.and_then(|gpu| seen_by.get_mut(&gpu)) {
                *count += 1;
            }
            all.push(found.into_iter().collect());
        }
        all
    }

    /// Deals `gpus` out to tasks, `each` to each, those first that are near to a task's
    /// NUMA nodes (`near`, one entry for each task). Too few for all: everybody gets all.
    pub fn deal(&self, gpus: &[u32], each: u32, near: &[&[u32]]) -> Vec<Vec<u32>> {
        let each = each as usize;
        if near.len().saturating_mul(each) > gpus.len() {
            return vec![gpus.to_vec(); near.len()];
        }
        let mut left: BTreeSet<u32> = gpus.iter().copied().collect();
        let mut dealt = vec![Vec::new(); near.len()];
        for only_near in [true, false] {
            for (got, near) in dealt.iter_mut().zip(near) {
                let fits = |gpu: &&u32| !only_near || self.is_near(**gpu, near);
                let wanted = each - got.len();
                let some: Vec<u32> = left.iter().filter(fits).take(wanted).copied().collect();
                left.retain(|gpu| !some.contains(gpu));
                got.extend(some);
            }
        }
        dealt.iter_mut().for_each(|got| got.sort_unstable());
        dealt
    }

    fn is_near(&self, gpu: u32, near: &[u32]) -> bool {
        let numa = self.gpus.get(gpu as usize).and_then(|g| g.numa);
        numa.is_some_and(|n| near.contains(&n))
    }
}

/// The names of all of `numbers`; `None` when one has none.
fn names(devices: &[Device], numbers: &[u32]) -> Option<Vec<String>> {
    let name = |n: &u32| devices.get(*n as usize)?.id.clone();
    numbers.iter().map(name).collect()
}

fn texts(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(u32::to_string).collect()
}

fn variable(name: &str, values: &[String]) -> OsText {
    OsText::from(format!("{name}={}", values.join(",")))
}

fn in_variable(c: char) -> char {
    if c.is_ascii_alphanumeric() {
        c.to_ascii_uppercase()
    } else {
        '_'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPUs: two of a kind with files, and two slices that share a file.
    fn devices() -> Devices {
        let gpu = |kind: &str, files: &[&str], numa| Device {
            kind: kind.to_owned(),
            files: files.iter().map(PathBuf::from).collect(),
            numa: Some(numa),
            ..Device::default()
        };
        let gpus = vec![
            gpu("a", &["/dev/full"], 0),
            gpu("a", &["/dev/zero"], 1),
            gpu("s", &["/dev/null", "/dev/random"], 1),
            gpu("s", &["/dev/null", "/dev/urandom"], 0),
        ];
        Devices {
            others: [("fpga".to_owned(), vec![Device::default(); 3])].into(),
            ..Devices::of(gpus)
        }
    }

    fn held<'a>(gpus: &'a [u32], others: &'a BTreeMap<String, Vec<u32>>) -> Held<'a> {
        Held { gpus, others }
    }

    #[test]
    fn what_is_denied() {
        let check = |gpus: &[u32], want: &[&str]| {
            let none = BTreeMap::new();
            let mut wanted: Vec<_> = want
                .iter()
                .filter_map(|f| number_of(&Path::new("/dev").join(f)))
                .collect();
            wanted.sort_unstable();
            assert_eq!(wanted.len(), want.len());
            assert_eq!(devices().denied(held(gpus, &none)), wanted, "{gpus:?}");
        };
        check(&[], &["full", "zero", "null", "random", "urandom"]);
        check(&[0, 1, 2, 3], &[]);
        check(&[1], &["full", "null", "random", "urandom"]);
        // The file that slices have in common stays open to each.
        check(&[2], &["full", "zero", "urandom"]);
        check(&[9], &["full", "zero", "null", "random", "urandom"]);
    }

    #[test]
    fn variables_of_holders() {
        let others = BTreeMap::from([("fpga".to_owned(), vec![0, 2])]);
        let check = |devices: &Devices, gpus: &[u32], kept, want: &[&str]| {
            let got = devices.variables(held(gpus, &others), kept);
            let got: Vec<String> = got.iter().map(OsText::lossy).collect();
            assert_eq!(got, want, "{gpus:?} {kept}");
        };
        let plain = devices();
        let fpga = "COSY_DEVICES_FPGA=0,2";
        check(&plain, &[1, 3], false, &["CUDA_VISIBLE_DEVICES=1,3", fpga]);
        check(&plain, &[1, 3], true, &["CUDA_VISIBLE_DEVICES=0,1", fpga]);
        check(&plain, &[], true, &["CUDA_VISIBLE_DEVICES=", fpga]);
        // Numbers of before a reload.
        check(&plain, &[7], true, &["CUDA_VISIBLE_DEVICES=7", fpga]);
        let mut named = devices();
        named.gpus[3].id = Some("MIG-7".to_owned());
        check(&named, &[3], true, &["CUDA_VISIBLE_DEVICES=MIG-7", fpga]);
        check(&named, &[0, 3], false, &["CUDA_VISIBLE_DEVICES=0,3", fpga]);
        check(&Devices::default(), &[], true, &[fpga]);
    }

    /// One NVIDIA GPU, two of AMD, and one of NVIDIA in four shards, all with files.
    fn mixed() -> Devices {
        let gpu = |vendor, shards| Device {
            files: vec!["/dev/null".into()],
            vendor,
            shards,
            ..Device::default()
        };
        Devices::of(vec![
            gpu(Vendor::Nvidia, None),
            gpu(Vendor::Amd, None),
            gpu(Vendor::Amd, None),
            gpu(Vendor::Nvidia, Some(4)),
        ])
    }

    #[test]
    fn variables_of_vendors_and_shards() {
        let check = |gpus: &[u32], shards: &[u32], kept, want: &[&str]| {
            let others = match shards {
                [] => BTreeMap::new(),
                _ => BTreeMap::from([(SHARD.to_owned(), shards.to_vec())]),
            };
            let got = mixed().variables(held(gpus, &others), kept);
            let got: Vec<String> = got.iter().map(OsText::lossy).collect();
            assert_eq!(got, want, "{gpus:?} {shards:?} {kept}");
        };
        let none = ["CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES="];
        check(&[], &[], true, &none);
        check(&[2], &[], false, &[none[0], "ROCR_VISIBLE_DEVICES=1"]);
        check(&[2], &[], true, &[none[0], "ROCR_VISIBLE_DEVICES=0"]);
        check(&[0, 1], &[], false, &["CUDA_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=0"]);
        let limit = |percent| format!("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={percent}");
        let shards = [
            "CUDA_VISIBLE_DEVICES=1",
            none[1],
            &limit(50),
            "COSY_DEVICES_SHARD=0,3",
        ];
        check(&[], &[0, 3], false, &shards);
        let one = [
            "CUDA_VISIBLE_DEVICES=0",
            none[1],
            &limit(25),
            "COSY_DEVICES_SHARD=2",
        ];
        check(&[], &[2], true, &one);
        // Both kinds: its own GPU and the shared one.
        let both = [
            "CUDA_VISIBLE_DEVICES=0,1",
            none[1],
            &limit(25),
            "COSY_DEVICES_SHARD=2",
        ];
        check(&[0], &[2], true, &both);
    }

    #[test]
    fn what_is_gone() {
        let none = Vec::new();
        assert_eq!(devices().gone(&none, true), None);
        let mut broken = devices();
        broken.gpus[1].files = vec!["/dev/null".into(), "/nowhere/nvidia1".into()];
        let pieces = broken.others.get_mut("fpga").unwrap();
        pieces[2].files = vec!["/nowhere/fpga2".into()];
        let want = "GPU 1 (/nowhere/nvidia1) is gone; fpga 2 (/nowhere/fpga2) is gone";
        assert_eq!(broken.gone(&none, true).as_deref(), Some(want));
        let other = "fpga 2 (/nowhere/fpga2) is gone";
        assert_eq!(broken.gone(&none, false).as_deref(), Some(other));
        let known = ["/nowhere/nvidia1".into(), "/nowhere/fpga2".into()];
        assert_eq!(broken.gone(&known, true), None);
        assert_eq!(broken.words(), "2 a, 2 s");
        // Of a GPU in shards it is said once.
        let mut shared = mixed();
        for piece in shared.others.get_mut(SHARD).unwrap() {
            piece.files = vec!["/nowhere/nvidia3".into()];
        }
        assert_eq!(shared.gone(&none, true).as_deref(), Some("GPU 3 (/nowhere/nvidia3) is gone"));
        assert_eq!(shared.gone(&none, false), None);
        assert_eq!(shared.words(), "3 without a type, 4 shards");
    }

    #[test]
    fn shards_of_gpus() {
        let shared = |n| Device {
            shards: Some(n),
            ..Device::default()
        };
        let devices = Devices::of(vec![shared(2), Device::default(), shared(3), shared(1)]);
        assert_eq!(devices.shards(), [2, 3, 1]);
        assert_eq!((devices.gpu_count(), devices.gpus[0].index), (1, 1));
        assert!(Devices::default().shards().is_empty());
    }

    #[test]
    fn gpus_are_dealt_out_near_first() {
        let check = |gpus: &[u32], each, near: &[&[u32]], want: &[&[u32]]| {
            assert_eq!(devices().deal(gpus, each, near), want, "{gpus:?} {each}");
        };
        let all = &[0, 1, 2, 3];
        check(all, 2, &[&[0], &[1]], &[&[0, 3], &[1, 2]]);
        check(all, 1, &[&[1], &[1], &[1], &[]], &[&[1], &[2], &[0], &[3]]);
        check(&[1, 3], 1, &[&[], &[]], &[&[1], &[3]]);
        check(&[1], 1, &[&[], &[]], &[&[1], &[1]]);
        check(all, 0, &[&[0]], &[&[]]);
    }

    #[test]
    fn gpus_that_tasks_see() {
        let check = |bind: &str, gpus: &[u32], near: &[&[u32]], want: &[&[u32]]| {
            let bind: GpuBind = bind.parse().unwrap();
            assert_eq!(devices().bind(gpus, &bind, near), want, "{bind:?}");
        };
        // GPUs 0 and 3 are at NUMA node 0, 1 and 2 at 1.
        let all = &[0, 1, 2, 3];
        let near: &[&[u32]] = &[&[0], &[1], &[], &[7]];
        check("none", all, near, &[all, all, all, all]);
        check("closest", all, near, &[&[0, 3], &[1, 2], all, all]);
        check("single:1", all, &[&[1], &[1], &[1], &[0]], &[&[1], &[2], &[0], &[3]]);
        check("single:2", all, &[&[0], &[0], &[0], &[0], &[0]], &[&[0], &[0], &[3], &[3], &[1]]);
        check("single:1", &[2], &[&[0], &[0]], &[&[2], &[2]]);
        check("per_task:2", all, &[&[0], &[1]], &[&[0, 3], &[1, 2]]);
        // Places among those that the step has, and over again.
        check("map_gpu:1,0", &[1, 3], &[&[], &[], &[]], &[&[3], &[1], &[3]]);
        check("mask_gpu:0x3,0x2", &[1, 3], &[&[], &[], &[]], &[&[1, 3], &[3], &[1, 3]]);
        check("closest", &[], &[&[0]], &[&[]]);
        check("single:1", &[], &[&[0]], &[&[]]);
    }

    #[test]
    fn counts() {
        let mut counted = CountedResources::default();
        devices().count_others(&mut counted);
        assert_eq!(counted.get("fpga"), 3);
        assert_eq!(devices().gpu_types(), ["a", "a", "s", "s"]);
        let plain = Devices {
            gpus: vec![Device::default(); 2],
            ..Devices::default()
        };
        assert!(plain.gpu_types().is_empty() && plain.gpu_count() == 2);
        assert!(!plain.have_files() && devices().have_files());
        assert_eq!(devices().bad_files(), Vec::<&Path>::new());
    }
}
