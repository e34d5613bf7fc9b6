//! GPUs as the kernel and its drivers show them in files, without a library of a vendor.
//!
//! Sources: README of NVIDIA's driver, chapter on `/proc/driver/nvidia`; kernel documentation of
//! amdgpu (sysfs) and of KFD's topology.

use super::{FoundGpu, GpuFigures, GpusFound, Vendor, clean};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// GPUs of NVIDIA's driver, one directory each.
const NVIDIA: &str = "proc/driver/nvidia/gpus";
/// Capabilities of NVIDIA's driver: who may use slices.
const NVIDIA_CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
/// GPUs that AMD's driver offers for computing, and processors.
const AMD: &str = "sys/class/kfd/kfd/topology/nodes";
/// Devices by their addresses on PCI.
const PCI: &str = "sys/bus/pci/devices";
/// Most bytes of a file that are looked at.
const FILE_BYTES: usize = 64 << 10;

/// Whether a driver for GPUs is loaded, as far as that can be told at once.
pub fn has_driver(root: &Path) -> bool {
    root.join(NVIDIA).is_dir() || has_amd(root)
}

/// Whether AMD's driver offers something for computing.
pub fn has_amd(root: &Path) -> bool {
    root.join(AMD).is_dir()
}

/// An address on PCI as the kernel writes it, `0000:3b:00.0`.
pub fn bus_id(domain: u32, bus: u32, device: u32, function: u32) -> String {
    format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
}

/// The NUMA node of a device on PCI; `None` where the machine does not tell.
fn numa_of(root: &Path, bus: &str) -> Option<u32> {
    let file = root.join(PCI).join(bus).join("numa_node");
    // -1 where there is none.
    read(&file)?.trim().parse().ok()
}

impl FoundGpu {
    /// A whole one at this place, which names it as long as nothing else is known.
    pub(super) fn at(root: &Path, vendor: Vendor, bus: String, file: String) -> Self {
        Self {
            vendor,
            id: bus.clone(),
            whole: bus.clone(),
            files: vec![PathBuf::from(file)],
            numa: numa_of(root, &bus),
            bus,
            ..Self::default()
        }
    }

    /// The same whole one, by its own name.
    pub(super) fn named(self, id: String) -> Self {
        Self {
            whole: id.clone(),
            id,
            ..self
        }
    }

    /// One of AMD at a place as its driver numbers it (bus, device and function in the lower 16 bits);
    /// `unique` is 0 where it has no number of its own.
    pub(super) fn of_amd(root: &Path, domain: u32, place: u32, unique: u64, minor: u64) -> Self {
        let bus = bus_id(domain, place >> 8 & 0xff, place >> 3 & 0x1f, place & 7);
        let gpu = Self::at(root, Vendor::Amd, bus, format!("/dev/dri/renderD{minor}"));
        match unique {
            0 => gpu,
            unique => gpu.named(format!("GPU-{unique:016x}")),
        }
    }
}

/// What a job must open for a slice beside the files of its GPU: the files of both its
/// instances' capabilities.
pub fn slice_files(root: &Path, minor: u32, gpu: u32, compute: u32) -> Vec<PathBuf> {
    let instance = root
        .join(NVIDIA_CAPABILITIES)
        .join(format!("gpu{minor}/mig/gi{gpu}"));
    [
        instance.join("access"),
        instance.join(format!("ci{compute}/access")),
    ]
    .iter()
    .filter_map(|file| {
        let text = read(file)?;
        let number = field(&text, "DeviceFileMinor")?.parse::<u32>().ok()?;
        Some(PathBuf::from(format!("/dev/nvidia-caps/nvidia-cap{number}")))
    })
    .collect()
}

/// GPUs of NVIDIA's driver; slices are not shown in files.
pub fn nvidia(root: &Path) -> GpusFound {
    let mut found = GpusFound::default();
    for directory in directories(&root.join(NVIDIA)) {
        let bus = directory.file_name().unwrap_or_default();
        let bus = bus.to_string_lossy().into_owned();
        let text = read(&directory.join("information")).unwrap_or_default();
        let Some(minor) = field(&text, "Device Minor").and_then(|n| n.parse::<u32>().ok()) else {
            found
                .faults
                .push(format!("GPU at {}: its driver does not tell its number", clean(&bus)));
            continue;
        };
        let gpu = FoundGpu {
            model: clean(field(&text, "Model").unwrap_or_default()),
            ..FoundGpu::at(root, Vendor::Nvidia, bus, format!("/dev/nvidia{minor}"))
        };
        // Before it was used for the first time it has question marks only.
        let uuid = field(&text, "GPU UUID").filter(|id| !id.contains('?'));
        found.gpus.push(match uuid {
            Some(uuid) => gpu.named(clean(uuid)),
            None => gpu,
        });
    }
    found
}

/// GPUs that AMD's driver offers for computing.
pub fn amd(root: &Path) -> GpusFound {
    let mut found = GpusFound::default();
    let mut nodes = directories(&root.join(AMD));
    nodes.sort_by_key(|node| number_at_end(node));
    for node in nodes {
        let text = read(&node.join("properties")).unwrap_or_default();
        let properties: BTreeMap<&str, u64> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(key, value)| Some((key, value.trim().parse().ok()?)))
            .collect();
        let get = |key: &str| properties.get(key).copied().unwrap_or(0);
        // Processors have none.
        if get("simd_count") == 0 {
            continue;
        }
        let (domain, place) = (get("domain") as u32, get("location_id") as u32);
        let (unique, minor) = (get("unique_id"), get("drm_render_minor"));
        let gpu = FoundGpu::of_amd(root, domain, place, unique, minor);
        let device = root.join(PCI).join(&gpu.bus);
        let model = read(&device.join("product_name")).filter(|t| !t.trim().is_empty());
        let model = model.or_else(|| read(&node.join("name")));
        found.gpus.push(FoundGpu {
            model: clean(&model.unwrap_or_default()),
            figures: GpuFigures {
                busy_percent: number(&device.join("gpu_busy_percent")).map(|n| n.min(100) as u8),
                memory_used: number(&device.join("mem_info_vram_used")),
                memory_total: number(&device.join("mem_info_vram_total")),
            },
            ..gpu
        });
    }
    found
}

fn directories(of: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(of) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = paths.take(super::MOST as usize).collect();
    all.sort();
    all
}

fn number_at_end(path: &Path) -> u32 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.parse().unwrap_or(u32::MAX)
}

fn number(file: &Path) -> Option<u64> {
    read(file)?.trim().parse().ok()
}

fn read(file: &Path) -> Option<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = fs::File::open(file).ok()?;
    file.take(FILE_BYTES as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value behind `key:` on a line of its own.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let found = text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim())
    });
    found.filter(|value| !value.is_empty())
}
