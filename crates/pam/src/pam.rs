//! What PAM calls, and what of PAM is called. Source: `pam(3)`, `pam_sm_acct_mgmt(3)` and Linux-PAM's
//! headers, whose numbers these are.

use crate::daemon;
use crate::decision::{Decision, Verdict};
use crate::options::{LogLevel, Options};
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

const PAM_SUCCESS: c_int = 0;
const PAM_SYSTEM_ERR: c_int = 4;
const PAM_PERM_DENIED: c_int = 6;
const PAM_USER_UNKNOWN: c_int = 10;
const PAM_SESSION_ERR: c_int = 14;
const PAM_IGNORE: c_int = 25;
const PAM_SERVICE: c_int = 1;
const PAM_USER: c_int = 2;
const PAM_ERROR_MSG: c_int = 3;
const PAM_SILENT: c_int = 0x8000;

/// Words of an administrator that are read.
const WORDS: usize = 64;
/// Bytes of what the directory of users knows of one.
const USER_BYTES: usize = 1 << 20;

/// PAM's own.
#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn pam_get_item(handle: *const Handle, kind: c_int, item: *mut *const c_void) -> c_int;
    fn pam_putenv(handle: *mut Handle, variable: *const c_char) -> c_int;
    fn pam_syslog(handle: *const Handle, level: c_int, format: *const c_char, ...);
    fn pam_prompt(
        handle: *mut Handle,
        style: c_int,
        answer: *mut *mut c_char,
        format: *const c_char,
        ...
    ) -> c_int;
}

/// Whether the user may in.
///
/// # Safety
/// Called by PAM alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pam_sm_acct_mgmt(
    handle: *mut Handle,
    flags: c_int,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    // SAFETY: PAM's promise.
    unsafe { guarded(handle, flags, (count, words), PAM_PERM_DENIED) }
}

/// The same once more, in the process that the session is started from: not all programs ask for both
/// in the same one.
///
/// # Safety
/// Called by PAM alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pam_sm_open_session(
    handle: *mut Handle,
    flags: c_int,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    // SAFETY: PAM's promise.
    unsafe { guarded(handle, flags, (count, words), PAM_SESSION_ERR) }
}

/// The session ends by itself.
///
/// # Safety
/// Called by PAM alone.
#[unsafe(no_mangle)]
pub const unsafe extern "C" fn pam_sm_close_session(
    _handle: *mut Handle,
    _flags: c_int,
    _count: c_int,
    _words: *const *const c_char,
) -> c_int {
    PAM_SUCCESS
}

/// # Safety
/// The pointers are PAM's.
unsafe fn guarded(
    handle: *mut Handle,
    flags: c_int,
    words: (c_int, *const *const c_char),
    denied: c_int,
) -> c_int {
    // What it would say would go where the program writes.
    std::panic::set_hook(Box::new(|_| {}));
    let done = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: PAM's handle, as long as this call takes.
        let call = unsafe { Call::new(handle, flags) };
        // SAFETY: the caller's promise.
        let words = unsafe { texts(words) };
        call.decide(&words, denied)
    }));
    done.unwrap_or(PAM_SYSTEM_ERR)
}

/// # Safety
/// So many words, each with a NUL at its end.
unsafe fn texts((count, words): (c_int, *const *const c_char)) -> Vec<String> {
    let count = usize::try_from(count).unwrap_or(0).min(WORDS);
    if words.is_null() {
        return Vec::new();
    }
    let text = |at: usize| {
        // SAFETY: the caller's promise.
        let word = unsafe { *words.add(at) };
        // SAFETY: the caller's promise.
        (!word.is_null()).then(|| {
            unsafe { CStr::from_ptr(word) }
                .to_string_lossy()
                .into_owned()
        })
    };
    (0..count).filter_map(text).collect()
}

/// One call of PAM's.
struct Call {
    handle: *mut Handle,
    silent: bool,
}

impl Call {
    /// # Safety
    /// The handle is PAM's, and lives longer than this.
    unsafe fn new(handle: *mut Handle, flags: c_int) -> Self {
        Self {
            handle,
            silent: flags & PAM_SILENT != 0,
        }
    }

    fn decide(&self, words: &[String], denied: c_int) -> c_int {
        let Some(user) = self.item(PAM_USER) else {
            return PAM_USER_UNKNOWN;
        };
        let Some(uid) = uid_of(&user) else {
            return PAM_USER_UNKNOWN;
        };
        if uid == 0 {
            return PAM_IGNORE;
        }
        let user = user.to_string_lossy();
        let (decision, log) = match Options::read(words.iter().map(String::as_str)) {
            Err(why) => (Decision::on_wrong_options(&why), LogLevel::Error),
            Ok(options) if !self.is_for(&options.service) => return PAM_IGNORE,
            Ok(options) => {
                let answer = daemon::ask(&options.socket, uid, options.of_several);
                (Decision::on(answer, &user, &options), options.log)
            }
        };
        self.carry_out(&decision, log, denied)
    }

    fn carry_out(&self, decision: &Decision, log: LogLevel, denied: c_int) -> c_int {
        let (level, logged) = &decision.logged;
        if *level <= log {
            self.log(*level, logged);
        }
        if let Some(text) = &decision.told
            && !self.silent
        {
            self.tell(text);
        }
        for variable in &decision.variables {
            self.put(variable);
        }
        match decision.verdict {
            Verdict::Allow => PAM_SUCCESS,
            Verdict::Deny => denied,
            Verdict::Ignore => PAM_IGNORE,
        }
    }

    fn is_for(&self, service: &str) -> bool {
        service == "*"
            || self
                .item(PAM_SERVICE)
                .is_some_and(|own| own.to_bytes() == service.as_bytes())
    }

    fn item(&self, kind: c_int) -> Option<CString> {
        let mut item: *const c_void = std::ptr::null();
        // SAFETY: the handle is PAM's, and the place is a live variable.
        let done = unsafe { pam_get_item(self.handle, kind, &raw mut item) };
        if done != PAM_SUCCESS || item.is_null() {
            return None;
        }
        // SAFETY: these items are texts with a NUL at their end, which PAM keeps.
        Some(unsafe { CStr::from_ptr(item.cast()) }.to_owned())
    }

    fn log(&self, level: LogLevel, text: &str) {
        let level = match level {
            LogLevel::Error => libc::LOG_ERR,
            LogLevel::Info => libc::LOG_INFO,
            LogLevel::Debug => libc::LOG_DEBUG,
        };
        if let Ok(text) = CString::new(text) {
            // SAFETY: the handle is PAM's; one text is formatted, which has a NUL at its end.
            unsafe { pam_syslog(self.handle, level, c"%s".as_ptr(), text.as_ptr()) };
        }
    }

    fn tell(&self, text: &str) {
        if let Ok(text) = CString::new(text) {
            let nothing = std::ptr::null_mut();
            // SAFETY: as above; no answer is asked for.
            unsafe {
                pam_prompt(self.handle, PAM_ERROR_MSG, nothing, c"%s".as_ptr(), text.as_ptr())
            };
        }
    }

    fn put(&self, variable: &[u8]) {
        if let Ok(variable) = CString::new(variable) {
            // SAFETY: the handle is PAM's, which keeps a copy.
            let done = unsafe { pam_putenv(self.handle, variable.as_ptr()) };
            if done != PAM_SUCCESS {
                self.log(LogLevel::Error, "a variable of the job could not be set");
            }
        }
    }
}

/// The number of a user; `None` for one that nobody knows.
fn uid_of(user: &CStr) -> Option<u32> {
    let mut bytes: usize = 16 << 10;
    while bytes <= USER_BYTES {
        let mut buffer = vec![0u8; bytes];
        // SAFETY: what is known of a user is plain data for the library to fill.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: all pointers are to live variables, the buffer is of that length.
        let done = unsafe {
            libc::getpwnam_r(
                user.as_ptr(),
                &raw mut entry,
                buffer.as_mut_ptr().cast(),
                bytes,
                &raw mut found,
            )
        };
        match done {
            libc::ERANGE => bytes *= 4,
            libc::EINTR => {}
            _ => return (done == 0 && !found.is_null()).then_some(entry.pw_uid),
        }
    }
    None
}
