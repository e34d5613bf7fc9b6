//! libpmix, opened at run time: its functions by name, each behind a safe one.
//!
//! Only a helper process opens it, and never closes it. Everything that is unsafe about
//! calling it is here; what it calls back is in [`super::callbacks`].

use super::abi::OPERATION_SUCCEEDED;
use super::abi::{Data, Info, Module, NAMESPACE_BYTES, OpDone, Proc, SUCCESS, Value, kind};
use super::infos::Infos;
use crate::sys;
use crate::sys::library::{Symbols, text};
use nix::libc;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The major version whose binary interface is known ([`super::abi`]).
pub const MAJOR: u32 = 4;

type GetVersion = unsafe extern "C" fn() -> *const c_char;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Init = unsafe extern "C" fn(*const Module, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;
type Generate = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int;
type Load = unsafe extern "C" fn(*mut Value, *const c_void, u16) -> c_int;
type RegisterNamespace =
    unsafe extern "C" fn(*const c_char, c_int, *mut Info, usize, OpDone, *mut c_void) -> c_int;
type RegisterClient = unsafe extern "C" fn(
    *const Proc,
    libc::uid_t,
    libc::gid_t,
    *mut c_void,
    OpDone,
    *mut c_void,
) -> c_int;
type SetupFork = unsafe extern "C" fn(*const Proc, *mut *mut *mut c_char) -> c_int;

/// The functions of the library.
pub struct Library {
    error_string: ErrorString,
    init: Init,
    finalize: Finalize,
    generate_nodes: Generate,
    generate_ranks: Generate,
    load: Load,
    register_namespace: RegisterNamespace,
    register_client: RegisterClient,
    setup_fork: SetupFork,
}

impl Library {
    /// Opens the library and checks its version.
    ///
    /// # Errors
    /// Not there, not libpmix, or of another major version than [`MAJOR`].
    pub fn open(name: &CStr) -> Result<Self, String> {
        let at = sys::library::Library::open(name, Symbols::Shared)?;
        // SAFETY (here and below): the library's published headers give the function of
        // this name this type, in every release.
        let version: GetVersion = unsafe { at.function(c"PMIx_Get_version")? };
        // SAFETY: takes nothing, gives a static text.
        let version = unsafe { text(version()) };
        check_version(&version).map_err(|e| format!("{}: {e}", name.to_string_lossy()))?;
        // SAFETY: as above, in version 4.
        unsafe {
            Ok(Self {
                error_string: at.function(c"PMIx_Error_string")?,
                init: at.function(c"PMIx_server_init")?,
                finalize: at.function(c"PMIx_server_finalize")?,
                generate_nodes: at.function(c"PMIx_generate_regex")?,
                generate_ranks: at.function(c"PMIx_generate_ppn")?,
                load: at.function(c"PMIx_Value_load")?,
                register_namespace: at.function(c"PMIx_server_register_nspace")?,
                register_client: at.function(c"PMIx_server_register_client")?,
                setup_fork: at.function(c"PMIx_server_setup_fork")?,
            })
        }
    }

    /// Starts the server with its thread.
    ///
    /// # Errors
    /// The library's.
    pub fn start(&self, module: &'static Module, infos: &mut Infos) -> Result<(), String> {
        let infos = infos.as_mut_slice();
        // SAFETY: the module lives for ever; the infos own what they point to and are
        // not needed after the call.
        let status = unsafe { (self.init)(module, infos.as_mut_ptr(), infos.len()) };
        self.check(status, "PMIx_server_init")
    }

    /// Ends the server. What clients asked to be removed is removed.
    pub fn finish(&self) {
        // SAFETY: takes nothing. Nothing of the library is used afterwards.
        let _ = unsafe { (self.finalize)() };
    }

    /// Tells the server about a namespace of which `here` tasks are on this node. Waits
    /// until it knows.
    ///
    /// # Errors
    /// The library's.
    pub fn register_namespace(
        &self,
        name: &CStr,
        here: usize,
        infos: &mut Infos,
    ) -> Result<(), String> {
        let here = c_int::try_from(here).map_err(|_| format!("{here} tasks on one node"))?;
        let infos = infos.as_mut_slice();
        // SAFETY: without a callback the call returns only when the library is done with
        // name and infos, which live longer.
        let status = unsafe {
            let (at, count) = (infos.as_mut_ptr(), infos.len());
            (self.register_namespace)(name.as_ptr(), here, at, count, None, ptr::null_mut())
        };
        self.check(status, "PMIx_server_register_nspace")
    }

    /// Tells the server about a task of this node. Waits until it knows.
    ///
    /// # Errors
    /// The library's.
    pub fn register_client(&self, task: &Proc, uid: u32, gid: u32) -> Result<(), String> {
        let nothing = ptr::null_mut();
        // SAFETY: as for the namespace; the object given back with the task is none.
        let status = unsafe { (self.register_client)(task, uid, gid, nothing, None, nothing) };
        self.check(status, "PMIx_server_register_client")
    }

    /// The variables by which a task finds the server.
    ///
    /// # Errors
    /// The library's.
    pub fn variables(&self, task: &Proc) -> Result<Vec<Vec<u8>>, String> {
        let mut list: *mut *mut c_char = ptr::null_mut();
        // SAFETY: task and list are live; the list is made or lengthened by malloc.
        let status = unsafe { (self.setup_fork)(task, &raw mut list) };
        // SAFETY: it is none, or an array of texts from malloc that ends with null.
        let variables = unsafe { take_list(list) };
        self.check(status, "PMIx_server_setup_fork")?;
        Ok(variables)
    }

    /// Packs names of nodes with commas into a value.
    ///
    /// # Errors
    /// The library's.
    pub fn pack_nodes(&self, names: &CStr, value: &mut Value) -> Result<(), String> {
        self.pack(self.generate_nodes, names, value)
    }

    /// Packs ranks with commas, nodes with semicolons, into a value.
    ///
    /// # Errors
    /// The library's.
    pub fn pack_ranks(&self, ranks: &CStr, value: &mut Value) -> Result<(), String> {
        self.pack(self.generate_ranks, ranks, value)
    }

    fn pack(&self, generate: Generate, text: &CStr, value: &mut Value) -> Result<(), String> {
        let mut packed: *mut c_char = ptr::null_mut();
        // SAFETY: text and place are live.
        let status = unsafe { generate(text.as_ptr(), &raw mut packed) };
        self.check(status, "PMIx_generate_regex")?;
        value.data = Data { whole: [0; 3] };
        // SAFETY: the library made what is packed, copies it into the value (where it
        // stays until this process ends) and knows its length.
        let status = unsafe {
            let status = (self.load)(value, packed.cast(), kind::REGEX);
            libc::free(packed.cast());
            status
        };
        self.check(status, "PMIx_Value_load")
    }

    fn check(&self, status: c_int, what: &str) -> Result<(), String> {
        if status == SUCCESS || status == OPERATION_SUCCEEDED {
            return Ok(());
        }
        // SAFETY: takes a number, gives a static text.
        let reason = unsafe { text((self.error_string)(status)) };
        Err(format!("{what}: {reason} ({status})"))
    }
}

/// A process of a namespace.
///
/// # Errors
/// The name is too long.
pub fn process(namespace: &str, rank: u32) -> Result<Proc, String> {
    let mut name = [0; NAMESPACE_BYTES];
    if namespace.len() >= NAMESPACE_BYTES {
        return Err(format!("the namespace '{namespace}' is too long"));
    }
    for (place, byte) in name.iter_mut().zip(namespace.bytes()) {
        *place = byte as c_char;
    }
    Ok(Proc {
        namespace: name,
        rank,
    })
}

/// `OpenPMIx 4.2.2 (...)`: the first word with a number tells.
fn check_version(version: &str) -> Result<(), String> {
    let major = version
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .find_map(|word| word.split_once('.')?.0.parse::<u32>().ok());
    if major == Some(MAJOR) {
        return Ok(());
    }
    Err(format!("this is '{version}'; a PMIx library of version {MAJOR} is needed"))
}

/// # Safety
/// Null, or an array from malloc of texts from malloc, ended by null. It is gone then.
unsafe fn take_list(list: *mut *mut c_char) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    if list.is_null() {
        return all;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let mut at = list;
        while !(*at).is_null() {
            all.push(CStr::from_ptr(*at).to_bytes().to_vec());
            libc::free((*at).cast());
            at = at.add(1);
        }
        libc::free(list.cast());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let check = |version: &str, good: bool| {
            assert_eq!(check_version(version).is_ok(), good, "{version}");
        };
        check("OpenPMIx 4.2.2, repo rev: gitbf8e5a2d (PMIx Standard: 4.1)", true);
        check("OpenPMIx 5.0.1 (PMIx Standard: 4.2)", false);
        check("OpenPMIx 3.2.3, repo rev: v3.2.3", false);
        check("no number", false);
        check("", false);
    }

    #[test]
    fn what_is_not_there() {
        let refused = |name: &CStr| Library::open(name).err().unwrap();
        let e = refused(c"/nowhere/libpmix.so.2");
        assert!(e.starts_with("/nowhere/libpmix.so.2: "), "{e}");
        assert!(e.contains("No such file"), "{e}");
        // A library, but another one.
        let e = refused(c"libc.so.6");
        assert!(e.contains("PMIx_Get_version"), "{e}");
    }
}
