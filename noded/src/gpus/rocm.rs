//! AMD's management library (ROCm SMI), opened at run time in a helper process.
//!
//! Source of names, types and values: ROCm System Management Interface, rocm_smi.h.

use super::kernel;
use super::{FoundGpu, GpuFigures, GpusFound, clean};
use crate::sys::library::{self, Library};
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

/// What the dynamic linker looks for unless the configuration says otherwise: the library of ROCm
/// from 7, from 6, from 5 and before, and where ROCm is installed.
const NAMES: [&CStr; 5] = [
    c"librocm_smi64.so.1",
    c"librocm_smi64.so.7",
    c"librocm_smi64.so.6",
    c"librocm_smi64.so.5",
    c"/opt/rocm/lib/librocm_smi64.so",
];

type Status = c_int;
type Begin = unsafe extern "C" fn(u64) -> Status;
type Count = unsafe extern "C" fn(*mut u32) -> Status;
type Name = unsafe extern "C" fn(u32, *mut c_char, usize) -> Status;
type Wide = unsafe extern "C" fn(u32, *mut u64) -> Status;
type Number = unsafe extern "C" fn(u32, *mut u32) -> Status;
type MemoryOf = unsafe extern "C" fn(u32, c_int, *mut u64) -> Status;
type Reason = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;

/// A call that did what it should: `RSMI_STATUS_SUCCESS`.
const SUCCESS: Status = 0;
/// Memory of the GPU itself: `RSMI_MEM_TYPE_VRAM`.
const VRAM: c_int = 0;
/// Room for a name, in bytes.
const TEXT: usize = 256;

struct Rocm {
    count: Count,
    name: Name,
    unique: Wide,
    pci: Wide,
    render_minor: Number,
    busy: Number,
    used: MemoryOf,
    total: MemoryOf,
    reason: Reason,
}

/// All GPUs that the library knows; `None`: there is no library here.
///
/// # Errors
/// The library is there and does not do what it should.
pub fn find(path: Option<&Path>, root: &Path) -> Result<Option<GpusFound>, String> {
    // Without its driver the library fails.
    if path.is_none() && !kernel::has_amd(root) {
        return Ok(None);
    }
    let Some(at) = Library::find(path, &NAMES)? else {
        return Ok(None);
    };
    let (begin, rocm) = Rocm::functions(&at)?;
    // SAFETY: takes a number.
    let status = unsafe { begin(0) };
    rocm.check("rsmi_init", status)?;
    rocm.all(root).map(Some)
}

impl Rocm {
    /// The functions, and the one that is to be called first.
    fn functions(at: &Library) -> Result<(Begin, Self), String> {
        // SAFETY: the library's published header gives the functions of these names these types.
        unsafe {
            let rocm = Self {
                count: at.function(c"rsmi_num_monitor_devices")?,
                name: at.function(c"rsmi_dev_name_get")?,
                unique: at.function(c"rsmi_dev_unique_id_get")?,
                pci: at.function(c"rsmi_dev_pci_id_get")?,
                render_minor: at.function(c"rsmi_dev_drm_render_minor_get")?,
                busy: at.function(c"rsmi_dev_busy_percent_get")?,
                used: at.function(c"rsmi_dev_memory_usage_get")?,
                total: at.function(c"rsmi_dev_memory_total_get")?,
                reason: at.function(c"rsmi_status_string")?,
            };
            Ok((at.function(c"rsmi_init")?, rocm))
        }
    }

    fn all(&self, root: &Path) -> Result<GpusFound, String> {
        let mut count = 0;
        // SAFETY (here and below): places are live and as large as the header says.
        let status = unsafe { (self.count)(&raw mut count) };
        self.check("rsmi_num_monitor_devices", status)?;
        let gpu = |number| self.gpu(number, root).map(GpusFound::one);
        Ok(GpusFound::of_each(count, gpu))
    }

    fn gpu(&self, index: u32, root: &Path) -> Result<FoundGpu, String> {
        let mut minor = 0;
        let status = unsafe { (self.render_minor)(index, &raw mut minor) };
        self.check("rsmi_dev_drm_render_minor_get", status)?;
        // The domain is in the upper half.
        let place = self.wide(self.pci, index, "rsmi_dev_pci_id_get")?;
        let (domain, place) = ((place >> 32) as u32, place as u32);
        // Not every GPU has a number of its own.
        let unique = self.wide(self.unique, index, "rsmi_dev_unique_id_get");
        let unique = unique.unwrap_or_default();
        let mut bytes = [0_u8; TEXT];
        let status = unsafe { (self.name)(index, bytes.as_mut_ptr().cast(), TEXT) };
        self.check("rsmi_dev_name_get", status)?;
        let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(FoundGpu {
            model: clean(&name.to_string_lossy()),
            figures: self.figures(index),
            ..FoundGpu::of_amd(root, domain, place, unique, u64::from(minor))
        })
    }

    fn figures(&self, index: u32) -> GpuFigures {
        let memory = |get: MemoryOf| {
            let mut bytes = 0;
            let status = unsafe { get(index, VRAM, &raw mut bytes) };
            (status == SUCCESS).then_some(bytes)
        };
        let mut busy = 0;
        let status = unsafe { (self.busy)(index, &raw mut busy) };
        GpuFigures {
            busy_percent: (status == SUCCESS).then_some(busy.min(100) as u8),
            memory_used: memory(self.used),
            memory_total: memory(self.total),
        }
    }

    fn wide(&self, get: Wide, index: u32, what: &str) -> Result<u64, String> {
        let mut number = 0;
        let status = unsafe { get(index, &raw mut number) };
        self.check(what, status)?;
        Ok(number)
    }

    fn check(&self, what: &str, status: Status) -> Result<(), String> {
        if status == SUCCESS {
            return Ok(());
        }
        let mut reason = std::ptr::null();
        // SAFETY: takes a number, and a place for a static text.
        let told = unsafe { (self.reason)(status, &raw mut reason) };
        let reason = match told {
            // SAFETY: the library has just set it.
            SUCCESS => unsafe { library::text(reason) },
            _ => String::new(),
        };
        Err(format!("{what}: {} ({status})", clean(&reason)))
    }
}
