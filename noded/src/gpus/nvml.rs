//! NVIDIA's management library (NVML), opened at run time in a helper process.
//!
//! Only functions that it has had since drivers of 2020 (R450) are needed; what a driver does not
//! support is left out. Source of names, types and values: NVML API Reference Guide.

use super::kernel;
use super::{FoundGpu, GpuFigures, GpusFound, Vendor, clean};
use crate::sys::library::{self, Library};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

/// What the dynamic linker looks for unless the configuration says otherwise.
const NAME: &CStr = c"libnvidia-ml.so.1";

type Status = c_int;
type Handle = *mut c_void;
type Nothing = unsafe extern "C" fn() -> Status;
type Number = unsafe extern "C" fn(*mut c_uint) -> Status;
type ByIndex = unsafe extern "C" fn(c_uint, *mut Handle) -> Status;
type Text = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> Status;
type NumberOf = unsafe extern "C" fn(Handle, *mut c_uint) -> Status;
type TwoNumbersOf = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> Status;
type PciOf = unsafe extern "C" fn(Handle, *mut Pci) -> Status;
type SliceOf = unsafe extern "C" fn(Handle, c_uint, *mut Handle) -> Status;
type MemoryOf = unsafe extern "C" fn(Handle, *mut Memory) -> Status;
type BusyOf = unsafe extern "C" fn(Handle, *mut Busy) -> Status;
type RowsOf =
    unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint, *mut c_uint, *mut c_uint) -> Status;
type Reason = unsafe extern "C" fn(Status) -> *const c_char;

/// A call that did what it should: `NVML_SUCCESS`.
const SUCCESS: Status = 0;
/// `NVML_ERROR_DRIVER_NOT_LOADED`: there is a library and no GPU.
const NO_DRIVER: Status = 9;
/// `NVML_DEVICE_NAME_V2_BUFFER_SIZE` and `NVML_DEVICE_UUID_V2_BUFFER_SIZE`, in bytes.
const TEXT: usize = 96;

/// Where a GPU is: `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Pci {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

/// Memory of a GPU in bytes: `nvmlMemory_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlUtilization_t`, in per cent of the last sample period (up to a second).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Busy {
    gpu: c_uint,
    memory: c_uint,
}

/// Functions that all drivers have.
struct Nvml {
    count: Number,
    by_index: ByIndex,
    name: Text,
    uuid: Text,
    minor: NumberOf,
    pci: PciOf,
    reason: Reason,
    memory: MemoryOf,
    busy: BusyOf,
    slices: Option<Slices>,
    rows: Option<RowsOf>,
}

/// Functions of slices (MIG).
#[derive(Clone, Copy)]
struct Slices {
    mode: TwoNumbersOf,
    most: NumberOf,
    by_index: SliceOf,
    gpu_instance: NumberOf,
    compute_instance: NumberOf,
}

/// All GPUs that the library knows, with their slices; `None`: no library here, or no driver.
///
/// # Errors
/// The library is there and does not do what it should.
pub fn find(path: Option<&Path>, root: &Path) -> Result<Option<GpusFound>, String> {
    let Some(at) = Library::find(path, &[NAME])? else {
        return Ok(None);
    };
    let (begin, nvml) = Nvml::functions(&at)?;
    // SAFETY: takes nothing.
    match unsafe { begin() } {
        SUCCESS => nvml.all(root).map(Some),
        NO_DRIVER => Ok(None),
        status => Err(nvml.why("nvmlInit_v2", status)),
    }
}

impl Nvml {
    /// The functions, and the one that is to be called first.
    fn functions(at: &Library) -> Result<(Nothing, Self), String> {
        // SAFETY: the library's published header gives the functions of these names these types, in
        // every release that has them.
        unsafe {
            let slices = |at: &Library| -> Result<Slices, String> {
                Ok(Slices {
                    mode: at.function(c"nvmlDeviceGetMigMode")?,
                    most: at.function(c"nvmlDeviceGetMaxMigDeviceCount")?,
                    by_index: at.function(c"nvmlDeviceGetMigDeviceHandleByIndex")?,
                    gpu_instance: at.function(c"nvmlDeviceGetGpuInstanceId")?,
                    compute_instance: at.function(c"nvmlDeviceGetComputeInstanceId")?,
                })
            };
            let nvml = Self {
                count: at.function(c"nvmlDeviceGetCount_v2")?,
                by_index: at.function(c"nvmlDeviceGetHandleByIndex_v2")?,
                name: at.function(c"nvmlDeviceGetName")?,
                uuid: at.function(c"nvmlDeviceGetUUID")?,
                minor: at.function(c"nvmlDeviceGetMinorNumber")?,
                pci: at.function(c"nvmlDeviceGetPciInfo_v3")?,
                reason: at.function(c"nvmlErrorString")?,
                memory: at.function(c"nvmlDeviceGetMemoryInfo")?,
                busy: at.function(c"nvmlDeviceGetUtilizationRates")?,
                slices: slices(at).ok(),
                rows: at.function(c"nvmlDeviceGetRemappedRows").ok(),
            };
            Ok((at.function(c"nvmlInit_v2")?, nvml))
        }
    }

    fn all(&self, root: &Path) -> Result<GpusFound, String> {
        let mut count = 0;
        // SAFETY (here and below): handles are the library's own, places are live and as large as
        // its header says.
        let status = unsafe { (self.count)(&raw mut count) };
        self.check("nvmlDeviceGetCount_v2", status)?;
        Ok(GpusFound::of_each(count, |number| self.gpu(number, root)))
    }

    /// A GPU, or its slices.
    fn gpu(&self, index: c_uint, root: &Path) -> Result<GpusFound, String> {
        let mut handle = ptr::null_mut();
        let status = unsafe { (self.by_index)(index, &raw mut handle) };
        self.check("nvmlDeviceGetHandleByIndex_v2", status)?;
        let id = self.text(self.uuid, handle, "nvmlDeviceGetUUID")?;
        let minor = self.number(self.minor, handle, "nvmlDeviceGetMinorNumber")?;
        let mut pci = Pci::default();
        let status = unsafe { (self.pci)(handle, &raw mut pci) };
        self.check("nvmlDeviceGetPciInfo_v3", status)?;
        let bus = kernel::bus_id(pci.domain, pci.bus, pci.device, 0);
        let whole = FoundGpu {
            model: self.text(self.name, handle, "nvmlDeviceGetName")?,
            fault: self.rows_failed(handle),
            figures: self.figures(handle),
            ..FoundGpu::at(root, Vendor::Nvidia, bus, format!("/dev/nvidia{minor}")).named(id)
        };
        let Some(slices) = self.slices.filter(|s| self.is_sliced(s, handle)) else {
            return Ok(GpusFound::one(whole));
        };
        let gpus = self.slices(&slices, handle, &whole, minor, root)?;
        // One that is to be sliced and has no slices yet is of no use to a job.
        let unsliced = gpus.is_empty().then_some(whole.id);
        Ok(GpusFound {
            gpus,
            unsliced: unsliced.into_iter().collect(),
            ..GpusFound::default()
        })
    }

    fn is_sliced(&self, slices: &Slices, handle: Handle) -> bool {
        let (mut now, mut next) = (0, 0);
        let status = unsafe { (slices.mode)(handle, &raw mut now, &raw mut next) };
        status == SUCCESS && now == 1
    }

    fn slices(
        &self,
        slices: &Slices,
        handle: Handle,
        whole: &FoundGpu,
        minor: c_uint,
        root: &Path,
    ) -> Result<Vec<FoundGpu>, String> {
        let most = self.number(slices.most, handle, "nvmlDeviceGetMaxMigDeviceCount")?;
        let mut all = Vec::new();
        for index in 0..most.min(super::MOST) {
            let mut slice = ptr::null_mut();
            // Places without a slice are errors.
            if unsafe { (slices.by_index)(handle, index, &raw mut slice) } != SUCCESS {
                continue;
            }
            let gpu = self.number(slices.gpu_instance, slice, "nvmlDeviceGetGpuInstanceId")?;
            let compute =
                self.number(slices.compute_instance, slice, "nvmlDeviceGetComputeInstanceId")?;
            let name = self.text(self.name, slice, "nvmlDeviceGetName")?;
            let mut files = whole.files.clone();
            files.extend(kernel::slice_files(root, minor, gpu, compute));
            all.push(FoundGpu {
                slice: Some(profile(&name).to_owned()),
                id: self.text(self.uuid, slice, "nvmlDeviceGetUUID")?,
                files,
                // The driver tells how busy a slice is to other libraries only.
                figures: GpuFigures {
                    busy_percent: None,
                    ..self.figures(slice)
                },
                ..whole.clone()
            });
        }
        Ok(all)
    }

    /// Rows of its memory have failed and cannot be replaced.
    fn rows_failed(&self, handle: Handle) -> Option<String> {
        let [mut corrected, mut uncorrected, mut pending, mut failed] = [0; 4];
        let status = unsafe {
            self.rows?(
                handle,
                &raw mut corrected,
                &raw mut uncorrected,
                &raw mut pending,
                &raw mut failed,
            )
        };
        (status == SUCCESS && failed != 0)
            .then(|| "rows of its memory have failed and cannot be replaced".to_owned())
    }

    fn figures(&self, handle: Handle) -> GpuFigures {
        let (mut memory, mut busy) = (Memory::default(), Busy::default());
        let has_memory = unsafe { (self.memory)(handle, &raw mut memory) } == SUCCESS;
        let has_busy = unsafe { (self.busy)(handle, &raw mut busy) } == SUCCESS;
        GpuFigures {
            busy_percent: has_busy.then_some(busy.gpu.min(100) as u8),
            memory_used: has_memory.then_some(memory.used),
            memory_total: has_memory.then_some(memory.total),
        }
    }

    fn text(&self, get: Text, handle: Handle, what: &str) -> Result<String, String> {
        let mut bytes = [0_u8; TEXT];
        let status = unsafe { get(handle, bytes.as_mut_ptr().cast(), TEXT as c_uint) };
        self.check(what, status)?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(clean(&text.to_string_lossy()))
    }

    fn number(&self, get: NumberOf, handle: Handle, what: &str) -> Result<c_uint, String> {
        let mut number = 0;
        let status = unsafe { get(handle, &raw mut number) };
        self.check(what, status)?;
        Ok(number)
    }

    fn check(&self, what: &str, status: Status) -> Result<(), String> {
        match status {
            SUCCESS => Ok(()),
            _ => Err(self.why(what, status)),
        }
    }

    fn why(&self, what: &str, status: Status) -> String {
        // SAFETY: takes a number, gives a static text.
        let reason = unsafe { library::text((self.reason)(status)) };
        format!("{what}: {} ({status})", clean(&reason))
    }
}

/// The profile at the end of a slice's name, `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
fn profile(name: &str) -> &str {
    name.rsplit_once(" MIG ").map_or("", |(_, profile)| profile)
}
