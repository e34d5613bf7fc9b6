//! GPUs that are not there: a library in place of their vendors' tells what a file says.

use crate::Cluster;
use crate::system::library_or_skip;
use std::fs;
use std::path::PathBuf;

/// Source of the library, with the words of the file.
const LIBRARY: &str = include_str!("../fixtures/gpus.c");
/// What a `noded.toml` says to have both vendors' GPUs looked for with it.
pub const CONFIGURED: &str = "nvml_library = 'libgpus.so'\nrocm_library = 'libgpus.so'\n";

/// The GPUs of one node.
#[derive(Debug)]
pub struct FakeGpus {
    file: PathBuf,
}

impl FakeGpus {
    /// GPUs of a node (counted from 0) whose configuration has [`CONFIGURED`] in it, before its daemon
    /// starts; `None` where there is no compiler, which is said.
    ///
    /// # Panics
    /// When the library cannot be made.
    pub fn of_node_or_skip(cluster: &Cluster, at: usize, gpus: &str) -> Option<Self> {
        let folder = cluster.node_dir(at);
        library_or_skip(&folder, "libgpus", LIBRARY)?;
        let it = Self {
            file: folder.join("gpus"),
        };
        it.set(gpus);
        Some(it)
    }

    /// The GPUs are these from now on, a line each.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set(&self, gpus: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, gpus).expect("a short file");
        fs::rename(&new, &self.file).expect("in the same directory");
    }
}
