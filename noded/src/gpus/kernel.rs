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
/// Most bytes of a file that are looked at.
const FILE_BYTES: usize = 64 << 10;

/// Whether a driver for GPUs is loaded, as far as that can be told at once.
pub fn has_driver(root: &Path) -> bool {
    [NVIDIA, AMD].iter().any(|path| root.join(path).is_dir())
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
pub fn numa_of(root: &Path, bus: &str) -> Option<u32> {
    let file = root.join("sys/bus/pci/devices").join(bus).join("numa_node");
    // -1 where there is none.
    read(&file)?.trim().parse().ok()
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
        // Before it was used for the first time it has question marks only.
        let uuid = field(&text, "GPU UUID").filter(|id| !id.contains('?'));
        let id = clean(uuid.unwrap_or(&bus));
        found.gpus.push(FoundGpu {
            vendor: Vendor::Nvidia,
            model: clean(field(&text, "Model").unwrap_or_default()),
            slice: None,
            whole: id.clone(),
            id,
            numa: numa_of(root, &bus),
            bus,
            files: vec![PathBuf::from(format!("/dev/nvidia{minor}"))],
            fault: None,
            figures: GpuFigures::default(),
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
        let (place, domain) = (get("location_id") as u32, get("domain") as u32);
        let bus = bus_id(domain, place >> 8 & 0xff, place >> 3 & 0x1f, place & 7);
        let device = root.join("sys/bus/pci/devices").join(&bus);
        let id = match get("unique_id") {
            0 => bus.clone(),
            unique => format!("GPU-{unique:016x}"),
        };
        let model = read(&device.join("product_name")).filter(|t| !t.trim().is_empty());
        let model = model
            .or_else(|| read(&node.join("name")))
            .unwrap_or_default();
        found.gpus.push(FoundGpu {
            vendor: Vendor::Amd,
            model: clean(&model),
            slice: None,
            whole: id.clone(),
            id,
            numa: numa_of(root, &bus),
            bus,
            files: vec![PathBuf::from(format!(
                "/dev/dri/renderD{}",
                get("drm_render_minor")
            ))],
            fault: None,
            figures: GpuFigures {
                busy_percent: number(&device.join("gpu_busy_percent")).map(|n| n.min(100) as u8),
                memory_used: number(&device.join("mem_info_vram_used")),
                memory_total: number(&device.join("mem_info_vram_total")),
                busiest_percent: None,
            },
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
