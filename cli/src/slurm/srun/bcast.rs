//! `srun --bcast`: copies the program to the nodes of the job before the step, which runs the copy.
//! The copying is that of `sbcast` and `cbcast` ([`crate::launch::broadcast`]).
//!
//! The copy is a step of its own and gets its number first; the number of the step that follows is
//! not known yet. Names of copies are told apart by process and host of this command instead.
//! Source: srun(1).

use super::request::{Failure, SrunOptions, refused, unreachable};
use crate::launch::broadcast::{self, Broadcast};
use crate::launch::mpi::program_file;
use crate::launch::node_request::StepRefused;
use crate::slurm::messages::say;
use crate::slurm::submit::submitter;
use crate::{Context, exit};
use cosy_model::JobId;
use cosy_slurm::submit::Fault;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Copies the program to all nodes of the job; gives the path of the copies, `None` without
/// `--bcast`.
///
/// # Errors
/// No such program, or it is not on all nodes now: nothing should run.
pub(super) fn copy(
    context: &Context,
    srun_options: &SrunOptions,
    job: JobId,
) -> Result<Option<OsString>, Failure> {
    let Some(given) = &srun_options.step_options.bcast else {
        return Ok(None);
    };
    let workdir = submitter::workdir(&srun_options.job_options)?;
    let workdir = Path::new(OsStr::from_bytes(&workdir.0));
    let name = srun_options.command.first().cloned().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let source = program_file(&name, workdir, &path).filter(|file| executable(file));
    let Some(source) = source else {
        let name = name.to_string_lossy();
        return Err(Fault::fatal(format!("Can not execute {name}")).into());
    };
    let unique = format!("{}_{}", std::process::id(), submitter::hostname());
    let destination = destination(given, workdir, job, &unique).into_os_string();
    let copy = Broadcast {
        job,
        source,
        destination: destination.clone(),
        mode: None,
        force: true,
        preserve: true,
        quiet: true,
    };
    match broadcast::run(context, &copy) {
        Ok(exit::OK) => Ok(Some(destination)),
        Ok(code) => {
            say("srun: error: The program is not on all nodes: nothing was started");
            Err(Failure::Reported(code))
        }
        Err(e) if e.is::<StepRefused>() => Err(refused(job, &e).into()),
        Err(e) => Err(unreachable(&e).into()),
    }
}

fn executable(file: &Path) -> bool {
    let meta = file.metadata();
    meta.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Where the copy is on each node: `given`, from `workdir`; in it, where it is a folder.
fn destination(given: &OsStr, workdir: &Path, job: JobId, unique: &str) -> PathBuf {
    let path = workdir.join(given);
    match given.is_empty() || given.as_bytes().ends_with(b"/") {
        true => path.join(format!("slurm_bcast_{job}.{unique}")),
        false => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_copies() {
        let check = |given: &str, want: &str| {
            let got = destination(given.as_ref(), Path::new("/w"), JobId(7), "12_h");
            assert_eq!(got, Path::new(want), "{given}");
        };
        check("", "/w/slurm_bcast_7.12_h");
        check("d/", "/w/d/slurm_bcast_7.12_h");
        check("/tmp/", "/tmp/slurm_bcast_7.12_h");
        check("/tmp/mine", "/tmp/mine");
        check("mine", "/w/mine");
    }
}
