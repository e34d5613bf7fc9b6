//! Libraries that are opened at run time: their functions by name.
//!
//! Only short-lived helper processes open one, and never close it.

use nix::libc;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

/// Whether other libraries find the symbols of one that is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symbols {
    /// Its plugins look them up among those of the whole program.
    Shared,
    /// Nobody else needs them.
    Own,
}

/// An open library.
#[derive(Debug)]
pub struct Library(*mut c_void);

impl Library {
    /// Opens a library by its path, or by a name that the dynamic linker looks for. Its initialisers
    /// run: with the rights of this process.
    ///
    /// # Errors
    /// The dynamic linker's, with the library's name.
    pub fn open(name: &CStr, symbols: Symbols) -> Result<Self, String> {
        let flags = libc::RTLD_NOW
            | match symbols {
                Symbols::Shared => libc::RTLD_GLOBAL,
                Symbols::Own => libc::RTLD_LOCAL,
            };
        // SAFETY: the initialisers of a library of the caller's choice run, in a helper process.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        if handle.is_null() {
            return Err(dl_error(name));
        }
        Ok(Self(handle))
    }

    /// Opens the library at a path, or without one the first of these that is there; `None`: none is.
    ///
    /// # Errors
    /// As [`Library::open`]: one that was named must be there.
    pub fn find(path: Option<&Path>, names: &[&CStr]) -> Result<Option<Self>, String> {
        let Some(path) = path else {
            let mut opened = names.iter().map(|name| Self::open(name, Symbols::Own));
            return Ok(opened.find_map(Result::ok));
        };
        let name = c_name(path.as_os_str().as_encoded_bytes())?;
        Self::open(&name, Symbols::Own).map(Some)
    }

    /// The function of this name.
    ///
    /// # Safety
    /// `F` must be the type of the function of this name.
    ///
    /// # Errors
    /// There is none.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is of an open library.
        let at = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if at.is_null() {
            return Err(dl_error(name));
        }
        // SAFETY: a function's address is as large as a data pointer here (checked), it
        // is not null, and its type is the caller's promise.
        Ok(unsafe { std::mem::transmute_copy(&at) })
    }
}

fn dl_error(name: &CStr) -> String {
    // SAFETY: gives null or a text that stays until the next call in this thread.
    let reason = unsafe { text(libc::dlerror()) };
    let name = name.to_string_lossy();
    match reason.starts_with(&*name) {
        true => reason,
        false => format!("{name}: {reason}"),
    }
}

/// A text of a library.
///
/// # Safety
/// Null, or a text ended by NUL.
pub unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// A name for the dynamic linker.
///
/// # Errors
/// A NUL inside.
pub fn c_name(name: &[u8]) -> Result<CString, String> {
    CString::new(name).map_err(|_| "the library's name has a NUL byte inside".to_owned())
}
