//! A file system that never answers: FUSE without anybody behind it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Mounted until it is dropped; whoever waits there then gets an error.
pub struct HungFileSystem {
    path: PathBuf,
    device: Option<File>,
}

impl HungFileSystem {
    /// Mounts one at a directory that this makes; `None`, having said so, where that cannot
    /// be done.
    pub fn at(path: &Path) -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let mounted = device.and_then(|device| {
            std::fs::create_dir(path)?;
            let options = format!(
                "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
                device.as_raw_fd()
            );
            let flags = nix::mount::MsFlags::empty();
            nix::mount::mount(Some("hung"), path, Some("fuse"), flags, Some(&*options))?;
            Ok(device)
        });
        match mounted {
            Ok(device) => Some(Self {
                path: path.to_owned(),
                device: Some(device),
            }),
            Err(e) => {
                cosy_skip::skip(&format!("no file system that hangs can be made: {e}"));
                None
            }
        }
    }

    /// A file in it.
    pub fn file(&self) -> String {
        format!("{}/out", self.path.display())
    }
}

impl Drop for HungFileSystem {
    fn drop(&mut self) {
        // Those who wait are let go first.
        self.device = None;
        let _ = nix::mount::umount2(&self.path, nix::mount::MntFlags::MNT_DETACH);
        let _ = std::fs::remove_dir(&self.path);
    }
}
