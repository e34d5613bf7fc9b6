//! GPUs and other devices of this node: which there are, whose they are now, and how
//! others are kept from them.
//!
//! What is numbered here is numbered in the order of the configuration, from 0; the
//! controller chooses numbers, this module finds what is behind them. Knows nothing of
//! control groups but what they are to deny.

use cosy_model::node::Allocation;
use cosy_model::{CountedResources, OsText, variables};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

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

    fn others_of(&self, name: &str) -> &[u32] {
        self.others.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Devices {
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

    /// True when there are files that others can be kept from.
    pub fn have_files(&self) -> bool {
        self.all().any(|d| !d.files.is_empty())
    }

    /// True when some are known to be near to processors.
    pub fn have_places(&self) -> bool {
        self.all().any(|d| d.numa.is_some())
    }

    /// Files that are no devices, or not there: nobody can be kept from them.
    pub fn bad_files(&self) -> Vec<&Path> {
        let files = self.all().flat_map(|d| &d.files);
        files
            .map(PathBuf::as_path)
            .filter(|f| number_of(f).is_none())
            .collect()
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

    /// Variables for somebody who has `held`. `CUDA_VISIBLE_DEVICES` wherever there are
    /// GPUs: who got none sees none. `kept`: the devices of others cannot be opened.
    pub fn variables(&self, held: Held<'_>, kept: bool) -> Vec<OsText> {
        let mut all = Vec::new();
        if !self.gpus.is_empty() || !held.gpus.is_empty() {
            let names = self.gpu_names(held.gpus, kept);
            all.push(variable("CUDA_VISIBLE_DEVICES", &names));
        }
        for (name, numbers) in held.others.iter().filter(|(_, n)| !n.is_empty()) {
            let devices = self.others.get(name).map_or(&[][..], Vec::as_slice);
            let names = names(devices, numbers).unwrap_or_else(|| texts(numbers));
            let name: String = name.chars().map(in_variable).collect();
            all.push(variable(&variables::of_devices(&name), &names));
        }
        all
    }

    /// Names of GPUs as CUDA takes them. It numbers those that it can open, from 0: so
    /// where the others cannot be opened, a number is the place among one's own.
    fn gpu_names(&self, numbers: &[u32], kept: bool) -> Vec<String> {
        if let Some(names) = names(&self.gpus, numbers) {
            return names;
        }
        let hidden = kept && self.gpus.iter().all(|g| !g.files.is_empty());
        if !hidden {
            return texts(numbers);
        }
        let ordered: BTreeSet<u32> = numbers.iter().copied().collect();
        (0..ordered.len()).map(|n| n.to_string()).collect()
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
            id: None,
        };
        Devices {
            gpus: vec![
                gpu("a", &["/dev/full"], 0),
                gpu("a", &["/dev/zero"], 1),
                gpu("s", &["/dev/null", "/dev/random"], 1),
                gpu("s", &["/dev/null", "/dev/urandom"], 0),
            ],
            others: [("fpga".to_owned(), vec![Device::default(); 3])].into(),
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
        let mut named = devices();
        named.gpus[3].id = Some("MIG-7".to_owned());
        check(&named, &[3], true, &["CUDA_VISIBLE_DEVICES=MIG-7", fpga]);
        check(&named, &[0, 3], false, &["CUDA_VISIBLE_DEVICES=0,3", fpga]);
        check(&Devices::default(), &[], true, &[fpga]);
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
