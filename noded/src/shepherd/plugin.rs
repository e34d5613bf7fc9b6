//! MPI plugins of a batch job: what their scripts say is added to its environment.
//!
//! The scripts run in the job's own process, between fork and exec, with the user's
//! identity, in the job's control groups and within its time limit. Nothing of a plugin is
//! read or run as root. Their files are in a directory of the user's inside the attempt's,
//! which goes with the job.

use super::container;
use crate::spool::{PLUGINS, Task};
use cosy_model::{Dialect, variables};
use cosy_plugin::{Environment, Plugins, needs_plugins, prepare, remove_files};
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Plugins that are to be asked before the program is executed.
#[derive(Debug)]
pub struct Hook {
    plugins: Plugins,
    files: PathBuf,
    command: Option<PathBuf>,
    environment: Environment,
}

impl Hook {
    /// For a job that plugins have something to say about; makes the directory for their
    /// files. Without one they have nothing to say.
    pub fn new<'a>(
        task: &Task,
        directory: &Path,
        variables: impl IntoIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
    ) -> Option<Self> {
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let environment: Environment = variables
            .into_iter()
            .map(|(n, v)| (text(n), text(v)))
            .collect();
        let names_mpi = environment.contains_key(OsStr::new(variables::MPI));
        // In Slurm's dialect MPI libraries find their way by Slurm's variables.
        let own_way = task.launch.dialect == Dialect::Slurm && !names_mpi;
        if own_way || !needs_plugins(&environment) {
            return None;
        }
        let files = directory.join(PLUGINS);
        remove_files(&files).ok()?;
        container::make_files(&files, &task.launch.allocation).ok()?;
        let program = std::env::current_exe().ok();
        let path = environment.get(OsStr::new(variables::PLUGIN_PATH));
        let command = program.as_deref().map(|p| p.with_file_name("cosy"));
        Some(Self {
            plugins: Plugins::search(path.map(OsString::as_os_str), program.as_deref()),
            files,
            command: command.filter(|c| c.is_file()),
            environment,
        })
    }

    /// Runs their scripts; gives the whole environment. What goes wrong is said in the
    /// job's error output.
    pub fn environment(&self) -> Vec<CString> {
        let command = self.command.as_deref();
        let prepared = prepare(&self.plugins, &self.environment, &self.files, command);
        for complaint in &prepared.complaints {
            let _ = writeln!(io::stderr(), "cosy: {complaint}");
        }
        let mut all = self.environment.clone();
        all.extend(prepared.variables);
        let line = |(name, value): (OsString, OsString)| {
            let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
            CString::new(OsString::from_vec(bytes).into_vec()).ok()
        };
        all.into_iter().filter_map(line).collect()
    }
}

/// Removes the plugins' files in an attempt's directory. No process of the job may be
/// left.
///
/// # Errors
/// The file system's.
pub fn clean(directory: &Path) -> io::Result<()> {
    remove_files(&directory.join(PLUGINS))
}
