//! Daemons whose date is off. A library of a few lines stands before the C library and adds
//! seconds to the clock on the wall; what passes is not touched, and no other process. It works
//! for programs that ask the C library for the date, which noded and its supervisors do.

use crate::Cluster;
use crate::system::library_or_skip;
use std::fs;
use std::path::PathBuf;

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *seconds;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(0, sizeof *seconds, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) seconds = map;
    if (fd >= 0) close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *seconds;
    return failed;
}
"#;

/// The clock of one node.
#[derive(Debug)]
pub struct Shifted {
    file: PathBuf,
}

impl Shifted {
    /// A clock of its own for a node (counted from 0) from its daemon's next start on; `None`
    /// where there is no compiler, which is said.
    ///
    /// # Panics
    /// When the library cannot be made.
    pub fn of_node_or_skip(cluster: &mut Cluster, at: usize) -> Option<Self> {
        let folder = cluster.dir().join(format!("clock{}", at + 1));
        fs::create_dir(&folder).expect("a folder");
        let library = library_or_skip(&folder, "clock", LIBRARY)?;
        let it = Self {
            file: folder.join("seconds"),
        };
        it.set(0);
        let text = |path: &PathBuf| path.display().to_string();
        let variables = &mut cluster.nodes[at].variables;
        variables.push(("LD_PRELOAD".into(), text(&library)));
        variables.push(("TEST_CLOCK".into(), text(&it.file)));
        Some(it)
    }

    /// The clock shows so many seconds more than this machine's.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(&self.file).expect("a file of its own");
        file.write_all_at(&seconds.to_ne_bytes(), 0)
            .expect("eight bytes");
    }
}
