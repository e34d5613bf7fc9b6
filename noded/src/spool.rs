//! What a node keeps of its attempts, so that they outlive its daemon.
//!
//! ```text
//! SPOOL/NODE/boot          boot id of the machine when the daemon last looked
//! SPOOL/NODE/contact       when the controller last counted on this node, and for how long
//! SPOOL/NODE/seen          how far the controller's store was then, signed
//! SPOOL/NODE/epoch         the highest epoch that this node knows ([`crate::epoch`])
//! SPOOL/NODE/lock          held by the one daemon that works on this node
//! SPOOL/NODE/use           energy and GPU use of attempts so far ([`crate::samples::kept`])
//! SPOOL/NODE/JOB.ATTEMPT/  one attempt (0711 as root, so that users reach their script)
//!     launch               phase, start on both clocks, then the work as MessagePack (0600)
//!     script               the job's script, owned by its user (0500)
//!     outcome              how it ended: written by the shepherd before anyone is told
//!     plugins/             files of its MPI plugins, owned by its user (0700)
//!     private/             directories that it has to itself ([`crate::private_tmp`]; 0700)
//!     epilog               the epilog has run; holds why it failed
//!     alone                it was ended because this node could not reach the controller
//!     logins               sessions that belong to it: process, start in ticks
//!     keep                 link to the control group of its steps' supervisors
//! SPOOL/NODE/spare.N/      a forgotten attempt's directory, for the next one
//! ```
//!
//! # Who may do what
//!
//! A shepherd works on an attempt only while it holds the lock of `launch`, and it
//! marks the attempt [`Phase::Started`] before it forks. So three things can be told
//! apart at any time: never started (no mark, no lock: may be spawned again), running
//! (mark and lock, and the lock names the process), supervisor lost (mark, no lock, no
//! outcome). Whoever deletes an attempt takes the lock first, and whoever gets the lock
//! looks whether the file still has a name.
//!
//! # Why directories are used again
//!
//! A file system like ext4 does not give an inode out again for some seconds and looks
//! through all that were freed meanwhile: a thousand short jobs a second, with four
//! inodes each, spend most of the daemon's time there. So directory, `launch` and
//! `outcome` of a forgotten attempt become those of a later one. The script never does:
//! it is its user's, who may hold it open. A spare directory has a spare name, so a
//! shepherd that was started late finds that its path no longer leads to the file it locked.
//!
//! # Why nothing waits for the disk
//!
//! Everything here must survive the end of any process: a write that the kernel has
//! taken does, without fsync. What it would not survive is the end of the machine; but
//! then the jobs are gone as well. The boot id tells: after a restart of the machine,
//! everything that has no whole outcome is reported as lost with the node, which is
//! what happened. An outcome ends with a checksum, so a half-written one counts as none.
//! Only an outcome that the controller has not taken over within two seconds (it may be
//! down for long) is worth an fsync, which the daemon does on another thread.

#[cfg(test)]
mod earlier_tests;
mod records;

use crate::private_tmp;
use cosy_model::node::{Allocation, AllocationKey};
use cosy_model::{Attempt, Dialect, Time};
use cosy_plugin::remove_files;
use nix::fcntl::{Flock, FlockArg};
pub(crate) use records::{HEADER, OUTCOME_NEW};
pub use records::{
    KeptAttempt, LAUNCH, OUTCOME, Outcome, Phase, Task, Work, mark_started, open_launch,
    read_launch, read_outcome, still_there, sync_outcome, write_launch, write_outcome, write_whole,
};
use records::{checksum, mark};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names of the job's script.
const SCRIPT: &str = "script";
const SLURM_SCRIPT: &str = "slurm_script";
/// Name of the directory with the files of a job's MPI plugins, its user's own.
pub const PLUGINS: &str = "plugins";
/// Name of the directory with the files of a job's containers, its user's own.
pub const CONTAINERS: &str = "containers";
/// Name of the directory with the files that tell programs of steps the cookies of their displays.
pub const DISPLAYS: &str = "displays";
const EPILOG: &str = "epilog";
/// Name of the file that says that it was ended because this node was alone.
const ALONE: &str = "alone";
/// Name of the link to the control group in which the supervisors of an attempt's steps are
/// started, where there is one.
pub const KEEP: &str = "keep";
/// Name of the file with the sessions that belong to an attempt.
pub const LOGINS: &str = "logins";
/// Name of the file with what the program is to be told, and its greatest size but for the
/// last line.
const NOTES: &str = "notes";
const NOTES_BYTES: u64 = 256 << 10;
/// What names of directories begin with that are being removed.
const AWAY: &str = "away.";
const SPARE: &str = "spare.";
/// The same for directories of steps.
pub(crate) const STEP_SPARE: &str = "spare.s";
/// Most spare directories.
const SPARES: usize = 64;

/// The file of the job's script. Scripts look for `slurm_script` in `$0` to learn whether
/// Slurm runs them.
pub fn script(directory: &Path, dialect: Dialect) -> PathBuf {
    directory.join(match dialect {
        Dialect::Cosy => SCRIPT,
        Dialect::Slurm => SLURM_SCRIPT,
    })
}

fn remove_aside(directories: Vec<PathBuf>) {
    if directories.is_empty() {
        return;
    }
    let remove = move || {
        for directory in directories {
            if let Err(e) = remove_files(&directory) {
                tracing::warn!("cannot remove {}: {e}", directory.display());
            }
        }
    };
    if let Err(e) = std::thread::Builder::new().spawn(remove) {
        tracing::warn!("no thread to remove files of containers with: {e}");
    }
}

/// Why the spool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// A directory cannot be made or read.
    #[error("spool directory {0}: {1}")]
    Directory(PathBuf, #[source] io::Error),
    /// Another daemon works on it.
    #[error("another noded already works with {0}")]
    Taken(PathBuf),
}

/// All attempts that have a directory in that of a node, by key.
///
/// # Errors
/// The file system's.
pub fn attempts_in(own_dir: &Path) -> io::Result<Vec<AllocationKey>> {
    let mut keys: Vec<_> = fs::read_dir(own_dir)?
        .filter_map(|entry| key_of(entry.ok()?.file_name().to_str()?))
        .collect();
    keys.sort_unstable();
    Ok(keys)
}

/// The boot id that was current when a daemon last ran with the directory of a node.
pub fn last_boot_in(own_dir: &Path) -> Option<String> {
    fs::read_to_string(own_dir.join("boot")).ok()
}

/// The attempts of one node.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    mode: u32,
    own_uid: u32,
    spares: Vec<PathBuf>,
    spares_made: u64,
    _lock: Flock<File>,
}

impl Spool {
    /// Opens or creates the spool of a node. Only one daemon can have it.
    ///
    /// # Errors
    /// [`SpoolError`].
    pub fn open(root: &Path, node: &str) -> Result<Self, SpoolError> {
        let own_uid = crate::sys::own_uid().0;
        let mode = if own_uid == 0 { 0o711 } else { 0o700 };
        let directory = root.join(node);
        let failed = |e| SpoolError::Directory(directory.clone(), e);
        DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(&directory)
            .map_err(failed)?;
        close_to_others(root, &directory, mode).map_err(failed)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join("lock"))
            .map_err(failed)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|_| SpoolError::Taken(directory.clone()))?;
        let spool = Self {
            directory,
            mode,
            own_uid,
            spares: Vec::new(),
            spares_made: 0,
            _lock: lock,
        };
        spool.remove_old_spares();
        Ok(spool)
    }

    /// The directory of the node.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of an attempt.
    pub fn path(&self, key: AllocationKey) -> PathBuf {
        self.directory.join(name_of(key))
    }

    /// The boot id that was current when the daemon last ran.
    pub fn last_boot(&self) -> Option<String> {
        last_boot_in(&self.directory)
    }

    /// Remembers the boot id. The file is whole at any moment: a daemon that is killed
    /// here must not look to the next one as if the machine had been restarted.
    ///
    /// # Errors
    /// The file system's.
    pub fn set_boot(&self, boot: &str) -> io::Result<()> {
        if self.last_boot().as_deref() == Some(boot) {
            return Ok(());
        }
        write_whole(&self.directory.join("boot"), boot.as_bytes())
    }

    /// Keeps a new attempt, with its script where it has one.
    ///
    /// # Errors
    /// The file system's; nothing is left then.
    pub fn create(
        &mut self,
        key: AllocationKey,
        work: &Work,
        script: Option<&[u8]>,
    ) -> io::Result<()> {
        let directory = self.path(key);
        if directory.exists() {
            self.remove(key)?;
        }
        let place = match self.spares.pop() {
            Some(spare) => spare,
            None => self.new_spare()?,
        };
        self.fill(&place, work, script)
            .and_then(|()| fs::rename(&place, &directory))
            .inspect_err(|_| drop(fs::remove_dir_all(&place)))
    }

    fn new_spare(&mut self) -> io::Result<PathBuf> {
        let path = self.spare_name();
        DirBuilder::new().mode(self.mode).create(&path)?;
        Ok(path)
    }

    fn spare_name(&mut self) -> PathBuf {
        self.spares_made += 1;
        self.directory.join(format!("{SPARE}{}", self.spares_made))
    }

    fn remove_old_spares(&self) {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let away = entries.filter(|e| e.file_name().to_string_lossy().starts_with(AWAY));
        remove_aside(away.map(|e| e.path()).collect());
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with(SPARE) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Puts a program in the place of an allocation that was only held so far.
    ///
    /// # Errors
    /// The file system's; the attempt is gone then.
    pub fn replace(
        &mut self,
        key: AllocationKey,
        work: &Work,
        script: Option<&[u8]>,
    ) -> io::Result<()> {
        let logins = fs::read(self.path(key).join(LOGINS)).ok();
        self.remove(key)?;
        self.create(key, work, script)?;
        if let Some(logins) = logins {
            write_whole(&self.path(key).join(LOGINS), &logins)?;
        }
        self.mark_prepared(key, Time::EPOCH)
    }

    fn fill(&self, directory: &Path, work: &Work, script: Option<&[u8]>) -> io::Result<()> {
        if let Some(text) = script {
            let script = self::script(directory, work.dialect());
            self.write_script(&script, work.allocation(), text)?;
        }
        write_launch(directory, work)
    }

    /// The file belongs to its user and has its final mode before a byte is in it.
    fn write_script(&self, path: &Path, owner: &Allocation, text: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o500)
            .open(path)?;
        if owner.uid.0 != self.own_uid {
            std::os::unix::fs::fchown(&file, Some(owner.uid.0), Some(owner.gid.0))?;
        }
        file.write_all(text)
    }

    /// All attempts that have a directory.
    ///
    /// # Errors
    /// The file system's.
    pub fn list(&self) -> io::Result<Vec<AllocationKey>> {
        attempts_in(&self.directory)
    }

    /// Notes that hooks have run, and since when an allocation that is only held is ready
    /// (the epoch for others: their shepherd says when they start).
    ///
    /// # Errors
    /// The file system's.
    pub fn mark_prepared(&self, key: AllocationKey, ready: Time) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .open(self.path(key).join(LAUNCH))?;
        mark(&file, Phase::Prepared, ready)
    }

    /// Opens the file that a shepherd locks.
    ///
    /// # Errors
    /// The file system's.
    pub fn open_launch(&self, key: AllocationKey) -> io::Result<File> {
        open_launch(&self.path(key))
    }

    /// Adds a line to what the program is to be told; so much as fits.
    ///
    /// # Errors
    /// The file system's, or the attempt has been told too much.
    pub fn add_note(&self, key: AllocationKey, text: &str) -> io::Result<()> {
        let path = self.path(key).join(NOTES);
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        if file.metadata()?.len() > NOTES_BYTES {
            return Err(io::Error::other("too many messages"));
        }
        file.write_all(format!("{text}\n").as_bytes())
    }

    /// Keeps an outcome that no shepherd could write.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_outcome(&self, key: AllocationKey, outcome: &Outcome) -> io::Result<()> {
        let directory = self.path(key);
        DirBuilder::new()
            .recursive(true)
            .mode(self.mode)
            .create(&directory)?;
        write_outcome(&directory, outcome)
    }

    /// How an attempt ended, if a whole outcome is there.
    pub fn outcome(&self, key: AllocationKey) -> Option<Outcome> {
        read_outcome(&self.path(key))
    }

    /// Notes that an attempt is ended because others may have been given it.
    ///
    /// # Errors
    /// The file system's.
    pub fn mark_alone(&self, key: AllocationKey) -> io::Result<()> {
        fs::write(self.path(key).join(ALONE), "")
    }

    /// True when the attempt was ended because this node was alone.
    pub fn was_alone(&self, key: AllocationKey) -> bool {
        self.path(key).join(ALONE).exists()
    }

    /// The process that works on an attempt, also when what is kept of it cannot be read.
    pub fn holder(&self, key: AllocationKey) -> Option<nix::unistd::Pid> {
        let file = self.open_launch(key).ok()?;
        crate::sys::lock_holder(&file).ok().flatten()
    }

    /// Notes that the epilog has run and why it failed.
    ///
    /// # Errors
    /// The file system's.
    pub fn mark_epilog(&self, key: AllocationKey, failure: Option<&str>) -> io::Result<()> {
        fs::write(self.path(key).join(EPILOG), failure.unwrap_or_default())
    }

    /// `None`: the epilog has not run; else why it failed.
    pub fn epilog(&self, key: AllocationKey) -> Option<Option<String>> {
        let text = fs::read_to_string(self.path(key).join(EPILOG)).ok()?;
        Some((!text.is_empty()).then_some(text))
    }

    /// Forgets an attempt. A shepherd that is just being started sees that.
    ///
    /// # Errors
    /// The file system's, or a shepherd holds it.
    pub fn remove(&mut self, key: AllocationKey) -> io::Result<()> {
        let directory = self.path(key);
        // Held until the directory has another name: see the module's text.
        let file = match open_launch(&directory) {
            Ok(file) if crate::sys::try_lock(&file)? => file,
            Ok(_) => return Err(io::Error::other("its shepherd still works on it")),
            Err(_) => {
                self.put_all_away(&directory)?;
                remove_files(&directory.join(PLUGINS))?;
                return absent_is_fine(fs::remove_dir_all(directory));
            }
        };
        self.put_all_away(&directory)?;
        remove_files(&directory.join(PLUGINS))?;
        if self.spares.len() >= SPARES {
            return fs::remove_dir_all(directory);
        }
        file.write_all_at(&[0; HEADER], 0)?;
        for script in [SCRIPT, SLURM_SCRIPT] {
            absent_is_fine(fs::remove_file(directory.join(script)))?;
        }
        absent_is_fine(fs::remove_file(directory.join(EPILOG)))?;
        absent_is_fine(fs::remove_file(directory.join(ALONE)))?;
        absent_is_fine(fs::remove_file(directory.join(NOTES)))?;
        absent_is_fine(fs::remove_file(directory.join(KEEP)))?;
        absent_is_fine(fs::remove_file(directory.join(LOGINS)))?;
        let outcome = directory.join(OUTCOME);
        absent_is_fine(fs::rename(outcome, directory.join(OUTCOME_NEW)))?;
        let spare = self.spare_name();
        fs::rename(directory, &spare)?;
        self.spares.push(spare);
        Ok(())
    }

    /// What a job has filled itself.
    fn put_all_away(&mut self, directory: &Path) -> io::Result<()> {
        self.put_away(&directory.join(CONTAINERS))?;
        self.put_away(&directory.join(DISPLAYS))?;
        self.put_away(&directory.join(private_tmp::DIRECTORY))
    }

    /// Removes files of a job, which may be very many: on a thread of their own.
    /// What a daemon that ends leaves of them, the next one removes.
    fn put_away(&mut self, files: &Path) -> io::Result<()> {
        if files.symlink_metadata().is_err() {
            return Ok(());
        }
        // Those of the daemon before may not be gone yet.
        let away = loop {
            self.spares_made += 1;
            let away = self.directory.join(format!("{AWAY}{}", self.spares_made));
            if away.symlink_metadata().is_err() {
                break away;
            }
        };
        fs::rename(files, &away)?;
        remove_aside(vec![away]);
        Ok(())
    }

    /// Removes everything, and the root if that is then empty.
    pub fn wipe(&self) {
        let _ = fs::remove_dir_all(&self.directory);
        if let Some(root) = self.directory.parent() {
            let _ = fs::remove_dir(root);
        }
    }
}

pub(crate) fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What the program is to be told, from this byte on.
pub fn notes(directory: &Path, from: usize) -> Vec<u8> {
    let mut all = fs::read(directory.join(NOTES)).unwrap_or_default();
    all.drain(..from.min(all.len()));
    all
}

/// A short name that no other node on this machine has: of node and spool directory.
pub fn instance(directory: &Path, node: &str) -> String {
    use std::os::unix::ffi::OsStrExt;
    let hash = checksum(directory.as_os_str().as_bytes());
    format!("cosy-{node}-{:08x}", (hash ^ (hash >> 32)) as u32)
}

/// Name of an attempt's directory, `JOB.ATTEMPT`: for triggers with the number of those.
pub fn name_of(key: impl Into<AllocationKey>) -> String {
    let key = key.into();
    format!("{}.{}", key.number(), key.attempt())
}

/// The attempt whose directory is called `JOB.ATTEMPT`; none for other names.
pub fn key_of(name: &str) -> Option<AllocationKey> {
    let (number, attempt) = name.split_once('.')?;
    let attempt = Attempt(attempt.parse().ok()?);
    let key = AllocationKey::numbered(number.parse().ok()?, attempt);
    (name_of(key) == name).then_some(key)
}

/// What was there before may have been made by somebody else: a directory that others can
/// put something into is refused or, where it is this daemon's own, closed.
fn close_to_others(root: &Path, directory: &Path, mode: u32) -> io::Result<()> {
    crate::private::check_directory(root).map_err(io::Error::other)?;
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != crate::sys::own_uid().0 {
        return Err(io::Error::other(format!(
            "it is no directory of uid {}: remove it, or give it back with chown",
            crate::sys::own_uid()
        )));
    }
    if found.permissions().mode() & 0o7777 & !mode != 0 {
        tracing::warn!(
            "{} was open to others (mode {:o}): it is now {mode:o}",
            directory.display(),
            found.permissions().mode() & 0o7777
        );
        fs::set_permissions(directory, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Warns when users other than root could not reach their scripts.
pub fn reachable(directory: &Path) -> Result<(), PathBuf> {
    for part in directory.ancestors() {
        let open = fs::metadata(part).is_ok_and(|m| m.permissions().mode() & 0o001 != 0);
        if !open {
            return Err(part.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::records::STEADY;
    use super::*;
    use crate::sys;
    use cosy_model::node::Launch;
    use cosy_model::{End, EndCause, OsText, Span};

    fn outcome() -> Outcome {
        Outcome {
            end: End::never_ran(EndCause::Cancelled, Time(5)),
            drain: Some("why".into()),
        }
    }

    #[test]
    fn names() {
        let check = |name: &str, good: bool| assert_eq!(key_of(name).is_some(), good, "{name}");
        check("7.1", true);
        check("07.1", false);
        check("7", false);
        check("lock", false);
        check("7.1.1", false);
        check("-7.1", false);
    }

    #[test]
    fn a_torn_outcome_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        write_outcome(dir.path(), &outcome()).unwrap();
        assert_eq!(read_outcome(dir.path()), Some(outcome()));
        let path = dir.path().join(OUTCOME);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(read_outcome::<Outcome>(dir.path()), None);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            fs::write(&path, bytes).unwrap();
            assert_eq!(read_outcome::<Outcome>(dir.path()), None);
        }
    }

    /// What releases left in the directory of an attempt that ran and has ended, and of one that
    /// only holds its allocation.
    const RELEASES: [&str; 1] = ["0.1.0"];

    fn fixture(release: &str, attempt: &str) -> PathBuf {
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        all.join(format!("spool-{release}")).join(attempt)
    }

    fn allocation(key: &str, nodes: &str) -> Allocation {
        Allocation {
            key: key_of(key).unwrap(),
            node: "n1".into(),
            nodes: nodes.into(),
            uid: crate::sys::own_uid(),
            gid: cosy_model::Gid(0),
            groups: Vec::new(),
            user: String::new(),
            home: String::new(),
            shell: String::new(),
            memory: None,
            cores: Vec::new(),
            gpus: Vec::new(),
            devices: Default::default(),
            switches: String::new(),
            tasks: 1,
            limit: cosy_model::Span(1),
            cores_per_task: 1,
            parts: Vec::new(),
            ticket: OsText::default(),
            warn_steps: None,
            runs_again: false,
        }
    }

    #[test]
    #[ignore = "makes a fixture for a new release"]
    fn make_fixture() {
        let release = env!("CARGO_PKG_VERSION");
        let (ran, holds) = (fixture(release, "7.2"), fixture(release, "8.1"));
        for directory in [&ran, &holds] {
            fs::create_dir_all(directory).unwrap();
        }
        let launch = Launch {
            allocation: allocation("7.2", "n[1-2]"),
            program: cosy_model::Program::Command {
                argv: vec![OsText::from("true")],
            },
            script: OsText::default(),
            workdir: OsText::from("/"),
            stdout: OsText::from("out"),
            stderr: OsText::default(),
            stdin: OsText::default(),
            open_mode: Default::default(),
            environment: OsText::from("A=1"),
            login_environment: false,
            umask: 0o022,
            rlimits: Default::default(),
            warn: None,
            grace: cosy_model::Span(200),
            dialect: Dialect::Slurm,
            container: None,
        };
        let task = Task {
            launch,
            groups: Vec::new(),
            variables: vec![OsText::from("B=2")],
            reset_oom_score: true,
        };
        write_launch(&ran, &Work::Run(Box::new(task))).unwrap();
        mark_started(&open_launch(&ran).unwrap(), Time(1000)).unwrap();
        let outcome = Outcome {
            end: End {
                exit_code: 3,
                ..End::never_ran(cosy_model::EndCause::Exited, Time(2000))
            },
            drain: None,
        };
        write_outcome(&ran, &outcome).unwrap();
        write_launch(&holds, &Work::Hold(Box::new(allocation("8.1", "n1")))).unwrap();
        mark(&open_launch(&holds).unwrap(), Phase::Prepared, Time(500)).unwrap();
    }

    #[test]
    fn spools_of_earlier_releases() {
        for release in RELEASES {
            let read = |attempt: &str| {
                let file = File::open(fixture(release, attempt).join(LAUNCH)).unwrap();
                read_launch::<Work>(&file).unwrap()
            };
            let ran = read("7.2");
            assert_eq!((ran.phase, ran.start), (Phase::Started, Time(1000)));
            let Work::Run(task) = &ran.work else {
                panic!("{ran:?}");
            };
            assert_eq!(task.launch.allocation.nodes, "n[1-2]");
            assert_eq!(task.variables, [OsText::from("B=2")]);
            let outcome: Outcome = read_outcome(&fixture(release, "7.2")).unwrap();
            assert_eq!(outcome.end.exit_code, 3);
            let holds = read("8.1");
            assert_eq!((holds.phase, holds.start), (Phase::Prepared, Time(500)));
            assert_eq!(holds.work.allocation().nodes, "n1");
        }
    }

    #[test]
    fn directories_are_used_again_but_nothing_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), "n1").unwrap();
        let allocation = |text: &str| Box::new(allocation("7.1", text));
        let (first, second) = (key_of("7.1").unwrap(), key_of("8.1").unwrap());
        let long = Work::Hold(allocation(&"long".repeat(1000)));
        spool.create(first, &long, None).unwrap();
        spool.write_outcome(first, &outcome()).unwrap();
        let late = spool.open_launch(first).unwrap();
        let path = spool.path(first);
        assert!(still_there(&late, &path).unwrap());
        fs::write(path.join(LOGINS), "77 1\n").unwrap();
        spool.remove(first).unwrap();
        assert!(spool.list().unwrap().is_empty());
        assert!(read_launch::<Work>(&late).is_err() && !still_there(&late, &path).unwrap());
        let short = Work::Hold(allocation("short"));
        spool.create(second, &short, None).unwrap();
        let logins = spool.path(second).join(LOGINS);
        assert!(!logins.exists());
        assert!(!still_there(&late, &path).unwrap());
        assert!(still_there(&late, &spool.path(second)).unwrap());
        assert_eq!(spool.outcome(second), None);
        let kept: KeptAttempt = read_launch(&spool.open_launch(second).unwrap()).unwrap();
        assert_eq!(kept.phase, Phase::Received);
        assert_eq!(kept.work.allocation().nodes, "short");
        let ready = sys::now();
        spool.mark_prepared(second, ready).unwrap();
        let kept: KeptAttempt = read_launch(&spool.open_launch(second).unwrap()).unwrap();
        assert_eq!((kept.phase, kept.start), (Phase::Prepared, ready));
        // Who has logged in while it was only held stays.
        fs::write(&logins, "78 1\n").unwrap();
        spool.replace(second, &short, None).unwrap();
        assert_eq!(fs::read_to_string(&logins).unwrap(), "78 1\n");
    }

    #[test]
    fn files_of_containers_go_with_the_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), "n1").unwrap();
        let away = spool.directory().join(format!("{AWAY}1"));
        fs::create_dir_all(away.join("of the daemon before")).unwrap();
        let key = key_of("7.1").unwrap();
        let work = Work::Hold(Box::new(allocation("7.1", "n1")));
        spool.create(key, &work, None).unwrap();
        let files = spool.path(key).join(CONTAINERS);
        fs::create_dir_all(files.join("a/rootfs/usr")).unwrap();
        fs::write(files.join("a/rootfs/usr/file"), "x").unwrap();
        spool.remove(key).unwrap();
        spool.create(key, &work, None).unwrap();
        assert!(!files.exists(), "the directory was used again");
        let left = || fs::read_dir(spool.directory()).unwrap().flatten();
        let begins = |name: std::ffi::OsString| name.to_string_lossy().starts_with(AWAY);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // One of an earlier daemon stays until the next start.
        while left().filter(|e| begins(e.file_name())).count() > 1 {
            assert!(std::time::Instant::now() < until, "files of containers are left");
            std::thread::yield_now();
        }
        let directory = spool.directory().to_owned();
        drop(spool);
        let spool = Spool::open(dir.path(), "n1").unwrap();
        assert_eq!(spool.directory(), directory);
        while directory.join(format!("{AWAY}1")).exists() {
            assert!(std::time::Instant::now() < until, "files of the daemon before are left");
            std::thread::yield_now();
        }
    }

    /// Somebody sets the clock while an attempt runs: since when it does is the same moment, on the
    /// clock as it is then.
    #[test]
    fn a_start_is_a_moment_and_not_a_date() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), "n1").unwrap();
        let key = key_of("7.1").unwrap();
        let work = Work::Hold(Box::new(allocation("7.1", "n1")));
        spool.create(key, &work, None).unwrap();
        let read = || -> KeptAttempt { read_launch(&spool.open_launch(key).unwrap()).unwrap() };
        for off in [-3_600_000, 3_600_000] {
            let before = sys::now();
            spool.mark_prepared(key, before + Span(off)).unwrap();
            let start = read().start;
            assert!(before - Span(1000) <= start && start <= sys::now(), "{off}");
        }
        spool.mark_prepared(key, Time::EPOCH).unwrap();
        assert_eq!(read().start, Time::EPOCH);
        // By an earlier release, or before this machine ran.
        let file = spool.open_launch(key).unwrap();
        for steady in [0, u64::MAX >> 8] {
            mark(&file, Phase::Started, Time(77)).unwrap();
            file.write_all_at(&steady.to_le_bytes()[..STEADY], 9)
                .unwrap();
            assert_eq!(read().start, Time(77));
        }
    }

    #[test]
    fn one_daemon_for_each_node() {
        let dir = tempfile::tempdir().unwrap();
        let first = Spool::open(dir.path(), "n1").unwrap();
        assert!(matches!(Spool::open(dir.path(), "n1"), Err(SpoolError::Taken(_))));
        Spool::open(dir.path(), "n2").unwrap();
        drop(first);
        Spool::open(dir.path(), "n1").unwrap();
    }
}
