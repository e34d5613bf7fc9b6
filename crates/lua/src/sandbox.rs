//! What this program takes away from itself before it reads a byte.
//!
//! The controller has made it a user without groups, without network and without a way to new
//! rights. Here go processes, files (limits and Landlock) and all system calls but those that
//! memory, time and the two pipes need (seccomp). A kernel without Landlock or seccomp leaves the
//! limits. Source: landlock(7), seccomp(2).

use nix::libc;
use nix::libc::{c_long, c_ulong};

/// Takes it away.
///
/// # Errors
/// A limit that could not be set: nothing is run then.
pub fn enter() -> Result<(), String> {
    // It is started by the number of an open file, which is no name to find it by.
    // SAFETY: a text that ends with NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"cosy-lua".as_ptr()) };
    // The zone is read once, while there still are files.
    // SAFETY: a moment of this frame, and a structure of it that is filled in.
    unsafe {
        let mut broken_down: libc::tm = std::mem::zeroed();
        libc::localtime_r(&0, &mut broken_down);
    }
    let limits = [
        ("RLIMIT_CORE", limit(libc::RLIMIT_CORE as i32, 0)),
        ("RLIMIT_FSIZE", limit(libc::RLIMIT_FSIZE as i32, 0)),
        ("RLIMIT_NPROC", limit(libc::RLIMIT_NPROC as i32, 0)),
        ("RLIMIT_NOFILE", limit(libc::RLIMIT_NOFILE as i32, 3)),
    ];
    for (name, done) in limits {
        if !done {
            return Err(format!("{name}: {}", std::io::Error::last_os_error()));
        }
    }
    // SAFETY: numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(format!("no_new_privs: {}", std::io::Error::last_os_error()));
    }
    landlock();
    filter::install();
    Ok(())
}

fn limit(resource: i32, most: u64) -> bool {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: a structure of this frame.
    unsafe { libc::setrlimit(resource as _, &limit) == 0 }
}

/// What Landlock is told: `struct landlock_ruleset_attr`.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scopes: u64,
}

const CREATE_RULESET: c_long = 444;
const RESTRICT_SELF: c_long = 446;
/// Asks for the version: `LANDLOCK_CREATE_RULESET_VERSION`.
const VERSION: c_ulong = 1;

/// Nothing that Landlock can forbid is allowed, as far as the kernel knows it.
fn landlock() {
    // SAFETY: no ruleset is handed over, only its version is asked for.
    let version = unsafe { libc::syscall(CREATE_RULESET, std::ptr::null::<Ruleset>(), 0, VERSION) };
    // How many rights on files, and how many bytes of the structure, each version knows.
    let (files, bytes): (u32, usize) = match version {
        ..1 => return,
        1 => (13, 8),
        2 => (14, 8),
        3 => (15, 8),
        4 => (15, 16),
        5 => (16, 16),
        6.. => (16, 24),
    };
    let ruleset = Ruleset {
        files: (1 << files) - 1,
        network: 3,
        scopes: 3,
    };
    // SAFETY: a structure of this frame, of at least as many bytes as are named.
    unsafe {
        let made = libc::syscall(CREATE_RULESET, &raw const ruleset, bytes, 0);
        if let Ok(descriptor @ 0..) = i32::try_from(made) {
            libc::syscall(RESTRICT_SELF, descriptor, 0);
            libc::close(descriptor);
        }
    }
}

/// A filter of system calls: those that are not named fail with `EPERM`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod filter {
    use nix::libc;
    use nix::libc::{c_long, sock_filter, sock_fprog};

    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xc000_00b7;

    const ALLOWED: [c_long; 21] = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_brk,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_sigaltstack,
        libc::SYS_clock_gettime,
        libc::SYS_gettimeofday,
        libc::SYS_getrandom,
        libc::SYS_sched_yield,
        libc::SYS_restart_syscall,
        libc::SYS_close,
        libc::SYS_gettid,
        libc::SYS_getpid,
    ];
    /// Allowed where the memory is not to be executed.
    const MEMORY: [c_long; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUALS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const HAS_BITS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const DENY: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    /// Places in `struct seccomp_data`; of the third argument its low half.
    const NUMBER: u32 = 0;
    const ARCHITECTURE_AT: u32 = 4;
    const THIRD_ARGUMENT: u32 = 32;

    const fn step(code: u16, then: u8, otherwise: u8, k: u32) -> sock_filter {
        sock_filter {
            code,
            jt: then,
            jf: otherwise,
            k,
        }
    }

    fn program() -> Vec<sock_filter> {
        let mut all = vec![
            step(LOAD, 0, 0, ARCHITECTURE_AT),
            step(EQUALS, 1, 0, ARCHITECTURE),
            step(RETURN, 0, 0, DENY),
            step(LOAD, 0, 0, NUMBER),
        ];
        for call in ALLOWED {
            all.push(step(EQUALS, 0, 1, call as u32));
            all.push(step(RETURN, 0, 0, ALLOW));
        }
        for call in MEMORY {
            all.push(step(EQUALS, 0, 4, call as u32));
            all.push(step(LOAD, 0, 0, THIRD_ARGUMENT));
            all.push(step(HAS_BITS, 0, 1, libc::PROT_EXEC as u32));
            all.push(step(RETURN, 0, 0, DENY));
            all.push(step(RETURN, 0, 0, ALLOW));
        }
        all.push(step(RETURN, 0, 0, DENY));
        all
    }

    pub(super) fn install() {
        let mut steps = program();
        let whole = sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: structures of this frame, which the kernel copies.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const whole, 0, 0) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter {
    pub(super) fn install() {}
}
