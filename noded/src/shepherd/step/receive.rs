//! The task that writes its input to a file (`cbcast`), as the user.
//!
//! Always holds: at the file's place there is what was there before, or all of the new
//! content; while it is written it has no name where the file system can do that, so that
//! a task which is killed leaves nothing.

use super::failure::{Failure, Stage};
use crate::shepherd::child;
use crate::sys;
use cosy_model::{OsText, Time};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags};
use nix::sys::stat::Mode;
use nix::sys::time::TimeSpec;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// What is to be written, prepared before the fork.
#[derive(Debug)]
pub struct Receive {
    path: CString,
    directory: CString,
    temporary: CString,
    mode: Mode,
    force: bool,
    times: Option<(Time, Time)>,
    /// A byte comes here when the input was whole, nothing when the supervisor has died.
    whole: OwnedFd,
}

impl Receive {
    /// Prepares it.
    ///
    /// # Errors
    /// In one line, what is wrong with the path.
    pub fn new(
        path: &OsText,
        mode: u32,
        force: bool,
        times: Option<(Time, Time)>,
        whole: OwnedFd,
    ) -> Result<Self, String> {
        let bytes = &path.0[..];
        let name_at = bytes
            .iter()
            .rposition(|b| *b == b'/')
            .map_or(0, |at| at + 1);
        let (directory, name) = bytes.split_at(name_at);
        if matches!(name, b"" | b"." | b"..") {
            return Err(format!("'{}' names no file", path.lossy()));
        }
        let own = std::process::id().to_string();
        let temporary = [directory, b".", name, b".cosy-", own.as_bytes()].concat();
        let directory = if directory.is_empty() {
            b"."
        } else {
            directory
        };
        Ok(Self {
            path: child::c(bytes)?,
            directory: child::c(directory)?,
            temporary: child::c(&temporary)?,
            mode: Mode::from_bits_truncate(mode & 0o7777),
            force,
            times,
            whole,
        })
    }

    /// The descriptor that it needs beside its input.
    pub fn whole_fd(&self) -> RawFd {
        self.whole.as_raw_fd()
    }

    /// Writes what comes at descriptor 0.
    pub fn run(&self) -> Result<(), Failure> {
        sys::end_with_parent();
        if !self.force && nix::sys::stat::lstat(self.path.as_c_str()).is_ok() {
            return Err(Stage::Create.failed()(Errno::EEXIST));
        }
        let (mut file, named) = self.create().map_err(Stage::Create.failed())?;
        let result = self.fill(&mut file).and_then(|()| self.place(&file, named));
        if result.is_err() {
            let _ = nix::unistd::unlink(self.temporary.as_c_str());
        }
        result
    }

    /// A file without a name, or with a temporary one.
    fn create(&self) -> Result<(File, bool), Errno> {
        let private = Mode::S_IRUSR | Mode::S_IWUSR;
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let nameless = flags | OFlag::O_TMPFILE;
        if let Ok(fd) = nix::fcntl::open(self.directory.as_c_str(), nameless, private) {
            return Ok((File::from(fd), false));
        }
        let named = flags | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let fd = nix::fcntl::open(self.temporary.as_c_str(), named, private)?;
        Ok((File::from(fd), true))
    }

    fn fill(&self, file: &mut File) -> Result<(), Failure> {
        let read = Stage::Read.failed();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match nix::unistd::read(std::io::stdin(), &mut buffer) {
                Ok(0) => break,
                Ok(n) => file.write_all(&buffer[..n]).map_err(|e| write_failed(&e))?,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(read(errno)),
            }
        }
        let whole = self.whole.try_clone().map_err(|_| read(Errno::EMFILE))?;
        let mut byte = [0];
        match File::from(whole).read(&mut byte) {
            Ok(1) => Ok(()),
            Ok(_) | Err(_) => Err(read(Errno::ECANCELED)),
        }
    }

    fn place(&self, file: &File, named: bool) -> Result<(), Failure> {
        let failed = Stage::Place.failed();
        nix::sys::stat::fchmod(file, self.mode).map_err(&failed)?;
        if let Some((accessed, modified)) = self.times {
            nix::sys::stat::futimens(file, &spec(accessed), &spec(modified)).map_err(&failed)?;
        }
        if named {
            return self.rename().map_err(&failed);
        }
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let to = if self.force {
            &self.temporary
        } else {
            &self.path
        };
        nix::unistd::linkat(
            AT_FDCWD,
            own.as_str(),
            AT_FDCWD,
            to.as_c_str(),
            AtFlags::AT_SYMLINK_FOLLOW,
        )
        .map_err(&failed)?;
        match self.force {
            true => self.rename().map_err(&failed),
            false => Ok(()),
        }
    }

    fn rename(&self) -> Result<(), Errno> {
        let flags = match self.force {
            true => RenameFlags::empty(),
            false => RenameFlags::RENAME_NOREPLACE,
        };
        let (from, to) = (self.temporary.as_c_str(), self.path.as_c_str());
        match nix::fcntl::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) {
            // The file system cannot refuse to replace by itself: a second name can.
            Err(Errno::EINVAL) if !self.force => {
                nix::unistd::linkat(AT_FDCWD, from, AT_FDCWD, to, AtFlags::empty())?;
                nix::unistd::unlink(from)
            }
            other => other,
        }
    }
}

fn write_failed(error: &std::io::Error) -> Failure {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
    Stage::Write.failed()(errno)
}

fn spec(time: Time) -> TimeSpec {
    TimeSpec::new(time.0.div_euclid(1000), time.0.rem_euclid(1000) * 1_000_000)
}
