//! The MPI libraries of this machine, and programs built with them.

use crate::system;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs in `tests/mpi`, in C.
const PROGRAMS: [&str; 8] = [
    "hello", "ring", "pi", "alltoall", "abort", "exit3", "killed", "waits",
];

/// An MPI library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mpi {
    /// Open MPI, whose tasks find each other by PMIx.
    OpenMpi,
    /// MPICH, which speaks PMI.
    Mpich,
}

impl Mpi {
    /// Name of the plugin.
    pub const fn plugin(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// Its `mpirun` by the name that Debian gives it beside the other's.
    pub const fn launcher(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpirun.openmpi",
            Self::Mpich => "mpirun.mpich",
        }
    }

    const fn compiler(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpicc.openmpi",
            Self::Mpich => "mpicc.mpich",
        }
    }

    /// The folder with the programs, built where that is not done yet; `None`, and a
    /// sentence, where the library is not installed.
    ///
    /// # Panics
    /// When they cannot be built.
    pub fn programs_or_skip(self) -> Option<PathBuf> {
        for needed in [self.compiler(), self.launcher()] {
            if !in_path(needed) {
                system::not_installed(&format!("there is no {needed}"));
                return None;
            }
        }
        let folder = crate::programs::folder().join("mpi").join(self.plugin());
        fs::create_dir_all(&folder).expect("a folder beside the programs");
        // Tests of other processes build the same.
        let lock = File::create(folder.join("lock")).expect("a lock");
        let _held = Flock::lock(lock, FlockArg::LockExclusive).expect("a lock");
        for name in PROGRAMS {
            self.build(name, &folder);
        }
        let python = sources().join("ring.py");
        fs::copy(python, folder.join("ring.py")).expect("a copy");
        Some(folder)
    }

    fn build(self, name: &str, folder: &Path) {
        let (source, program) = (sources().join(format!("{name}.c")), folder.join(name));
        let changed = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
        if changed(&program).is_some_and(|p| changed(&source).is_some_and(|s| p > s)) {
            return;
        }
        let new = folder.join(format!("{name}.new"));
        let output = Command::new(self.compiler())
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
            .args([&new, &source])
            .arg("-lm")
            .output()
            .expect("a compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", source.display());
        fs::rename(&new, &program).expect("the same folder");
    }

    /// Variables with which mpi4py, as its wheels are made, finds this library: they want
    /// MPICH by the name that its makers agreed on, which Debian does not have.
    ///
    /// # Panics
    /// When no folder can be made.
    pub fn python_variables(self, folder: &Path) -> Vec<(&'static str, String)> {
        match self {
            Self::OpenMpi => vec![("MPI4PY_MPIABI", "openmpi".to_owned())],
            Self::Mpich => {
                let place = folder.join("lib");
                fs::create_dir_all(&place).expect("a folder");
                let link = place.join("libmpi.so.12");
                if let Some(library) = mpich_library() {
                    let _ = symlink(library, &link);
                }
                vec![
                    ("MPI4PY_MPIABI", "mpich".to_owned()),
                    ("LD_LIBRARY_PATH", place.display().to_string()),
                ]
            }
        }
    }
}

fn mpich_library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut places = folders.map(|f| f.path().join("libmpich.so.12"));
    places.find(|p| p.exists())
}

/// A Python with mpi4py. `None`, and a sentence, where that does not go.
pub fn python_or_skip() -> Option<PathBuf> {
    crate::python::with_or_skip(crate::python::Packages {
        name: "mpi",
        wanted: &["mpi4py"],
        modules: "mpi4py",
    })
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi")
}

/// The source tree's plugins.
pub fn plugins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins")
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|p| p.join(program).is_file())
}
