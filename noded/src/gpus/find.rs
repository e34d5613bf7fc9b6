//! The helper that looks for GPUs: `noded --find-gpus NVML ROCM`, where `-` stands for the usual
//! library. Its answer is one message on standard output.

use super::{FoundGpu, GpusFound, kernel, nvml, rocm};
use crate::sys;
use cosy_proto::frame;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

/// Seconds of processor time that it may take.
const CPU_SECONDS: u64 = 60;
/// Bytes of an answer.
pub(super) const ANSWER: usize = 1 << 20;

/// Everything that is found. Blocks for as long as libraries and drivers do.
fn find(nvml: Option<&Path>, rocm: Option<&Path>, root: &Path) -> GpusFound {
    let mut all = GpusFound::default();
    let sources = [
        (nvml::find(nvml, root), kernel::nvidia as fn(&Path) -> GpusFound),
        (rocm::find(rocm, root), kernel::amd),
    ];
    for (by_library, in_files) in sources {
        // What the files say is there all the same; but who works with it uses the library.
        let found = by_library.unwrap_or_else(|why| {
            all.faults.push(why);
            None
        });
        all.add(found.unwrap_or_else(|| in_files(root)));
    }
    tell_apart(&mut all.gpus);
    all
}

/// Parts of one GPU (AMD's partitions) can have one name: what is opened tells them apart.
fn tell_apart(gpus: &mut [FoundGpu]) {
    let mut names = BTreeSet::new();
    for gpu in gpus {
        if !names.insert(gpu.id.clone()) {
            let file = gpu
                .files
                .last()
                .and_then(|f| f.file_name())
                .unwrap_or_default();
            gpu.id = format!("{}@{}", file.to_string_lossy(), gpu.id);
            names.insert(gpu.id.clone());
        }
    }
}

/// Libraries that run wild, or end this process, leave nothing behind.
fn limit() {
    sys::limit_resource(nix::libc::RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS);
    sys::limit_resource(nix::libc::RLIMIT_CORE, 0, 0);
}

/// Does what the helper is there for.
pub fn run_and_exit(words: &[OsString]) -> ! {
    sys::end_with_parent();
    limit();
    let _ = nix::sys::prctl::set_name(c"cosy-gpus");
    let path = |at: usize| {
        let word = words.get(at).filter(|w| *w != OsStr::new("-"));
        word.map(Path::new)
    };
    // Libraries print: only the answer goes where the answer is read.
    let Ok(mut answer) = sys::take_output() else {
        sys::exit_now(1);
    };
    let found = find(path(0), path(1), Path::new("/"));
    let sent = frame::encode(&found, ANSWER).is_ok_and(|bytes| answer.write_all(&bytes).is_ok());
    // Without the libraries' own ends, which hang too.
    sys::exit_now(i32::from(!sent));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpus::Vendor;
    use std::fs;
    use std::path::PathBuf;

    /// A root directory with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn found(root: &tempfile::TempDir) -> GpusFound {
        // No library of a vendor: a test that finds one would look at this machine's GPUs.
        let mut all = kernel::nvidia(root.path());
        all.add(kernel::amd(root.path()));
        all
    }

    #[test]
    fn gpus_of_nvidia_in_files() {
        let root = tree(&[
            (
                "proc/driver/nvidia/gpus/0000:3b:00.0/information",
                "Model: \t\t Tesla V100-SXM2-16GB\nGPU UUID: \t GPU-1\nDevice Minor: \t 1\n",
            ),
            (
                "proc/driver/nvidia/gpus/0000:1b:00.0/information",
                "Model: \t\t Tesla T4\nGPU UUID: \t GPU-????????-????\nDevice Minor: \t 0\n",
            ),
            ("proc/driver/nvidia/gpus/0000:5e:00.0/information", "Model: x\n"),
            ("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n"),
            ("sys/bus/pci/devices/0000:1b:00.0/numa_node", "-1\n"),
        ]);
        assert!(kernel::has_driver(root.path()));
        let all = found(&root);
        let gpu = |gpu: &FoundGpu| (gpu.id.clone(), gpu.model.clone(), gpu.numa);
        let text = str::to_owned;
        assert_eq!(gpu(&all.gpus[0]), (text("0000:1b:00.0"), text("Tesla T4"), None));
        assert_eq!(gpu(&all.gpus[1]), (text("GPU-1"), text("Tesla V100-SXM2-16GB"), Some(1)));
        assert_eq!(all.gpus[1].files, [PathBuf::from("/dev/nvidia1")]);
        assert_eq!(all.gpus.len(), 2);
        assert_eq!(all.faults, ["GPU at 0000:5e:00.0: its driver does not tell its number"]);
    }

    #[test]
    fn gpus_of_amd_in_files() {
        let node = "sys/class/kfd/kfd/topology/nodes";
        let gpu = "simd_count 440\nlocation_id 50432\ndomain 0\ndrm_render_minor 129\nunique_id 6000000000000000001\n";
        let root = tree(&[
            (&format!("{node}/0/properties"), "simd_count 0\ncpu_cores_count 64\n"),
            (&format!("{node}/10/properties"), "simd_count 4\nlocation_id 768\n"),
            (&format!("{node}/2/properties"), gpu),
            (&format!("{node}/2/name"), "aldebaran\n"),
            ("sys/bus/pci/devices/0000:c5:00.0/numa_node", "3\n"),
            ("sys/bus/pci/devices/0000:c5:00.0/gpu_busy_percent", "97\n"),
            ("sys/bus/pci/devices/0000:c5:00.0/mem_info_vram_used", "1048576\n"),
        ]);
        let all = found(&root);
        let first = &all.gpus[0];
        assert_eq!(all.gpus.len(), 2);
        assert_eq!((first.vendor, first.model.as_str()), (Vendor::Amd, "aldebaran"));
        assert_eq!(
            (first.id.as_str(), first.bus.as_str()),
            ("GPU-53444835ec580001", "0000:c5:00.0")
        );
        assert_eq!((first.numa, &first.files), (Some(3), &vec!["/dev/dri/renderD129".into()]));
        assert_eq!(first.figures.busy_percent, Some(97));
        assert_eq!(first.figures.memory_used, Some(1 << 20));
        assert_eq!(all.gpus[1].bus, "0000:03:00.0");
    }

    #[test]
    fn a_machine_without_gpus() {
        let root = tree(&[]);
        assert!(!kernel::has_driver(root.path()));
        assert_eq!(found(&root), GpusFound::default());
        // A library that was named and is not there is told.
        let nowhere = Path::new("/nowhere/libnvidia-ml.so.1");
        let all = find(Some(nowhere), Some(nowhere), root.path());
        assert_eq!(all.faults.len(), 2, "{:?}", all.faults);
        assert!(all.faults[0].contains("No such file"), "{:?}", all.faults);
    }

    #[test]
    fn parts_of_one_gpu_have_names_of_their_own() {
        let part = |minor: u32| FoundGpu {
            id: "GPU-7".to_owned(),
            files: vec![format!("/dev/dri/renderD{minor}").into()],
            ..FoundGpu::default()
        };
        let mut parts = [part(128), part(129), part(130)];
        tell_apart(&mut parts);
        let ids = parts.map(|p| p.id);
        assert_eq!(ids, ["GPU-7", "renderD129@GPU-7", "renderD130@GPU-7"]);
    }

    #[test]
    fn files_of_slices() {
        let root = tree(&[
            ("proc/driver/nvidia/capabilities/gpu2/mig/gi7/access", "DeviceFileMinor: 30\n"),
            ("proc/driver/nvidia/capabilities/gpu2/mig/gi7/ci0/access", "DeviceFileMinor: 31\nx"),
        ]);
        let files = kernel::slice_files(root.path(), 2, 7, 0);
        let want = [
            "/dev/nvidia-caps/nvidia-cap30",
            "/dev/nvidia-caps/nvidia-cap31",
        ];
        assert_eq!(files, want.map(PathBuf::from));
        assert!(kernel::slice_files(root.path(), 0, 7, 0).is_empty());
    }
}
