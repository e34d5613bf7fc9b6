//! What a process may use: limits of resources, processors and nodes of memory.

use nix::errno::Errno;
use nix::libc;

/// Most files that this daemon wants to have open.
const FILES: libc::rlim_t = 16_384;
/// The limit on open files that this process was started with, which its jobs get.
pub(super) static FIRST_FILE_LIMIT: std::sync::OnceLock<libc::rlimit> = std::sync::OnceLock::new();

pub(super) fn set_file_limit(limit: &libc::rlimit) {
    // SAFETY: a pointer to a live structure of the right type.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
}

/// Lets this process have more files open, as far as it may: each waiting command is one.
pub fn raise_file_limit() {
    let mut first = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a pointer to a live structure of the right type.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut first) } != 0 {
        return;
    }
    let first = FIRST_FILE_LIMIT.get_or_init(|| first);
    set_file_limit(&raised(first));
}

pub(super) fn raised(first: &libc::rlimit) -> libc::rlimit {
    libc::rlimit {
        rlim_cur: FILES.min(first.rlim_max).max(first.rlim_cur),
        rlim_max: first.rlim_max,
    }
}

/// Lets this process, which has one thread, run only on the processors whose bits are set.
///
/// # Errors
/// The system call's; `EINVAL` when it may use none of them.
pub fn set_affinity(processors: &[u64]) -> Result<(), Errno> {
    // SAFETY: pointer and length are of one slice; 0 is the caller.
    let r = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(processors), processors.as_ptr())
    };
    Errno::result(r).map(drop)
}

/// Memory of this process comes first of all from the NUMA nodes whose bits are set.
///
/// # Errors
/// The system call's; `EINVAL` for several nodes before Linux 5.15, `ENOSYS` without NUMA.
pub fn prefer_memory_of(nodes: &[u64], several: bool) -> Result<(), Errno> {
    /// Not named by the library.
    const MPOL_PREFERRED_MANY: libc::c_int = 5;
    let policy = if several {
        MPOL_PREFERRED_MANY
    } else {
        libc::MPOL_PREFERRED
    };
    // The kernel takes one bit less than it is told of.
    let bits = nodes.len() * 64 + 1;
    // SAFETY: the kernel reads as many bits as the slice has.
    let r = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, nodes.as_ptr(), bits) };
    Errno::result(r).map(drop)
}

/// Sets soft and hard limit of a resource, cut to what this process may have.
pub fn limit_resource(resource: u32, soft: u64, hard: u64) {
    let resource = resource as libc::__rlimit_resource_t;
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: pointers to live structures of the right type.
    unsafe {
        if libc::getrlimit(resource, &raw mut now) != 0 {
            return;
        }
        let hard = hard.min(now.rlim_max);
        let wanted = libc::rlimit {
            rlim_cur: soft.min(hard),
            rlim_max: hard,
        };
        if wanted.rlim_cur != now.rlim_cur || wanted.rlim_max != now.rlim_max {
            libc::setrlimit(resource, &raw const wanted);
        }
    }
}

/// The kernel's number of a resource limit, by its name in `/proc/PID/limits` style
/// (`NOFILE`).
pub fn resource_number(name: &str) -> Option<u32> {
    let number = match name {
        "CPU" => libc::RLIMIT_CPU,
        "FSIZE" => libc::RLIMIT_FSIZE,
        "DATA" => libc::RLIMIT_DATA,
        "STACK" => libc::RLIMIT_STACK,
        "CORE" => libc::RLIMIT_CORE,
        "RSS" => libc::RLIMIT_RSS,
        "NPROC" => libc::RLIMIT_NPROC,
        "NOFILE" => libc::RLIMIT_NOFILE,
        "MEMLOCK" => libc::RLIMIT_MEMLOCK,
        "AS" => libc::RLIMIT_AS,
        "LOCKS" => libc::RLIMIT_LOCKS,
        "SIGPENDING" => libc::RLIMIT_SIGPENDING,
        "MSGQUEUE" => libc::RLIMIT_MSGQUEUE,
        "NICE" => libc::RLIMIT_NICE,
        "RTPRIO" => libc::RLIMIT_RTPRIO,
        "RTTIME" => libc::RLIMIT_RTTIME,
        _ => return None,
    };
    Some(number)
}
