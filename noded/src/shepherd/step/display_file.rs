//! The file that tells programs of a step the cookie of its display (`XAUTHORITY`): in a directory of
//! its user's, which goes with the step.
//!
//! Always holds: before the user can touch the directory, file and directory are whole, so nothing
//! that is written as root goes elsewhere.

use crate::{spool, sys};
use cosy_model::node::Allocation;
use cosy_proto::x11::authority::{self, DisplayName};
use nix::unistd::gethostname;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown, fchown};
use std::path::{Path, PathBuf};

const NAME: &str = "Xauthority";

/// The file, removed when this is dropped.
#[derive(Debug)]
pub struct DisplayFile {
    directory: PathBuf,
}

impl DisplayFile {
    /// Writes the cookie of a display for the owner of a job, in the directory of the attempt.
    ///
    /// # Errors
    /// The file system's; nothing is left then.
    pub fn write(
        attempt: &Path,
        step: &str,
        number: u16,
        cookie: &[u8],
        owner: &Allocation,
    ) -> io::Result<Self> {
        let all = attempt.join(spool::DISPLAYS);
        match DirBuilder::new().mode(0o711).create(&all) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            Ok(()) | Err(_) => {}
        }
        // Whatever the mask of this process: others pass through to their own.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(&all, mode)?;
        let directory = all.join(step);
        DirBuilder::new().mode(0o700).create(&directory)?;
        let new = Self { directory };
        new.fill(number, cookie, owner)?;
        Ok(new)
    }

    fn fill(&self, number: u16, cookie: &[u8], owner: &Allocation) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.path())?;
        file.write_all(&entries(number, cookie))?;
        if sys::own_uid() == owner.uid {
            return Ok(());
        }
        let (uid, gid) = (Some(owner.uid.0), Some(owner.gid.0));
        fchown(&file, uid, gid)?;
        chown(&self.directory, uid, gid)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }
}

impl Drop for DisplayFile {
    fn drop(&mut self) {
        // What is left of it goes with the attempt.
        let _ = cosy_plugin::remove_files(&self.directory);
    }
}

/// An entry for this host, which Xlib looks for, and one for programs that see another name of it.
fn entries(number: u16, cookie: &[u8]) -> Vec<u8> {
    let host = gethostname().unwrap_or_default();
    let names = [
        (authority::LOCAL, host.as_encoded_bytes().to_vec()),
        (authority::WILD, Vec::new()),
    ];
    let mut file = Vec::new();
    for (family, address) in names {
        let display = DisplayName {
            family,
            address,
            number: number.to_string().into_bytes(),
        };
        authority::put(&mut file, &display, cookie);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_user_reads_it_and_it_goes() {
        let attempt = tempfile::tempdir().unwrap();
        let mut owner = crate::steps::fixture::allocation();
        owner.uid = sys::own_uid();
        let write = || DisplayFile::write(attempt.path(), "3", 12, b"0123456789abcdef", &owner);
        let file = write().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file.path()), 0o600);
        assert_eq!(mode(file.path().parent().unwrap()), 0o700);
        let bytes = std::fs::read(file.path()).unwrap();
        for (family, address) in [
            (authority::LOCAL, gethostname().unwrap().into_encoded_bytes()),
            (authority::INTERNET, vec![127, 0, 0, 1]),
        ] {
            let display = |number: &str| DisplayName {
                family,
                address: address.clone(),
                number: number.into(),
            };
            let cookie = authority::cookie(&bytes, &display("12"));
            assert_eq!(cookie.as_deref(), Some(&b"0123456789abcdef"[..]));
            assert_eq!(authority::cookie(&bytes, &display("13")), None);
        }
        // A second one is not put over the first.
        assert!(write().is_err() && file.path().exists());
        let directory = file.path().parent().unwrap().to_owned();
        drop(file);
        assert!(!directory.exists());
    }
}
