//! Steps in the spool: their directories, the number of the next one.
//!
//! Formats of `launch` and `outcome` are those of attempts ([`crate::spool`]). Directories
//! of steps that are over are used again, for the reason that is told there; a thousand
//! steps a second would otherwise wait for the file system.

use super::{StepOutcome, StepTask, directory_name, step_of};
use crate::spool::{self, KeptAttempt, OUTCOME, OUTCOME_NEW, STEP_SPARE};
use cosy_model::Span;
use cosy_model::step::StepId;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

/// Name of the file with the number of the next step.
pub const NEXT: &str = "next";
/// Name of the supervisor's socket.
pub const IO: &str = "io";
/// Name of the file with the limit that a step was given since it began, in milliseconds.
const LIMIT: &str = "limit";
/// Most spare directories.
const SPARES: usize = 64;

/// Where the steps of one node are kept.
#[derive(Debug)]
pub struct StepSpool {
    /// The node's directory.
    directory: PathBuf,
    spares: Vec<PathBuf>,
    spares_made: u64,
}

impl StepSpool {
    /// Below the directory of a node.
    pub const fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            spares: Vec::new(),
            spares_made: 0,
        }
    }

    /// Keeps a new step in the directory of its attempt.
    ///
    /// # Errors
    /// The file system's; nothing is left then.
    pub fn create(&mut self, attempt: &Path, task: &StepTask) -> io::Result<()> {
        let directory = attempt.join(directory_name(task.order.key.step));
        let place = match self.spares.pop() {
            Some(spare) => spare,
            None => self.new_spare()?,
        };
        spool::write_launch(&place, task)
            .and_then(|()| fs::rename(&place, directory))
            .inspect_err(|_| drop(fs::remove_dir_all(&place)))
    }

    fn new_spare(&mut self) -> io::Result<PathBuf> {
        let path = self.spare_name();
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    fn spare_name(&mut self) -> PathBuf {
        self.spares_made += 1;
        let name = format!("{STEP_SPARE}{}", self.spares_made);
        self.directory.join(name)
    }

    /// Forgets a step. A supervisor that is just being started sees that.
    ///
    /// # Errors
    /// The file system's, or a supervisor holds it.
    pub fn remove(&mut self, attempt: &Path, step: StepId) -> io::Result<()> {
        let directory = attempt.join(directory_name(step));
        let file = match spool::open_launch(&directory) {
            Ok(file) if crate::sys::try_lock(&file)? => file,
            Ok(_) => return Err(io::Error::other("its supervisor still works on it")),
            Err(_) => return spool::absent_is_fine(fs::remove_dir_all(directory)),
        };
        if self.spares.len() >= SPARES {
            return fs::remove_dir_all(directory);
        }
        file.write_all_at(&[0; spool::HEADER], 0)?;
        spool::absent_is_fine(fs::remove_file(directory.join(IO)))?;
        spool::absent_is_fine(fs::remove_file(directory.join(LIMIT)))?;
        let outcome = directory.join(OUTCOME);
        spool::absent_is_fine(fs::rename(outcome, directory.join(OUTCOME_NEW)))?;
        let spare = self.spare_name();
        fs::rename(directory, &spare)?;
        self.spares.push(spare);
        Ok(())
    }
}

/// The steps that have a directory in that of an attempt, in order.
pub fn list(attempt: &Path) -> Vec<StepId> {
    let mut steps: Vec<StepId> = fs::read_dir(attempt)
        .into_iter()
        .flatten()
        .filter_map(|entry| step_of(entry.ok()?.file_name().to_str()?))
        .collect();
    steps.sort_unstable();
    steps
}

/// What is kept of a step, and its supervisor where there is one.
///
/// # Errors
/// The file system's, or a file that is not whole.
pub fn read(directory: &Path) -> io::Result<(KeptAttempt<StepTask>, Option<nix::unistd::Pid>)> {
    let file = spool::open_launch(directory)?;
    Ok((spool::read_launch(&file)?, crate::sys::lock_holder(&file)?))
}

/// Keeps the limit that a step is given while it runs: whole or not at all.
///
/// # Errors
/// The file system's.
pub fn write_limit(directory: &Path, limit: Span) -> io::Result<()> {
    spool::write_whole(&directory.join(LIMIT), limit.ms().to_string().as_bytes())
}

/// The limit that a step was given since it began.
pub fn limit(directory: &Path) -> Option<Span> {
    let text = fs::read_to_string(directory.join(LIMIT)).ok()?;
    text.parse().ok().map(Span)
}

/// The process that works on a step, also when what is kept of it cannot be read.
pub fn holder(directory: &Path) -> Option<nix::unistd::Pid> {
    let file = spool::open_launch(directory).ok()?;
    crate::sys::lock_holder(&file).ok().flatten()
}

/// How a step ended here, if a whole outcome is there.
pub fn outcome(directory: &Path) -> Option<StepOutcome> {
    spool::read_outcome(directory)
}

/// True as soon as an outcome is there, whole: it is put there by its name.
pub fn is_over(directory: &Path) -> bool {
    directory.join(OUTCOME).exists()
}

/// True when an outcome is there and nobody works on the step any more: a supervisor whose
/// own tasks have ended still listens to those below it.
pub fn is_left(directory: &Path) -> bool {
    let holder = || crate::sys::lock_holder(&spool::open_launch(directory)?);
    is_over(directory) && !matches!(holder(), Ok(Some(_)))
}

/// Counts the steps of an attempt, also over restarts of the daemon.
#[derive(Debug)]
pub struct Counter {
    file: File,
    next: u32,
}

impl Counter {
    /// Opens or begins the count.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(attempt: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(attempt.join(NEXT))?;
        let mut bytes = [0; 4];
        let next = match file.read_at(&mut bytes, 0)? {
            4 => u32::from_le_bytes(bytes),
            _ => 0,
        };
        Ok(Self { file, next })
    }

    /// The next number; it is never given again.
    ///
    /// # Errors
    /// The file system's; or there were as many steps as an attempt may have.
    pub fn take(&mut self) -> io::Result<StepId> {
        let step = StepId(self.next);
        if step.0 >= cosy_model::limits::STEPS {
            let text = format!("the job has had {} steps, which is the most", step.0);
            return Err(io::Error::other(text));
        }
        self.file.write_all_at(&(self.next + 1).to_le_bytes(), 0)?;
        self.next += 1;
        Ok(step)
    }
}
