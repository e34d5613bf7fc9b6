//! Files of tasks whose lines begin with the task's rank (`srun -l -o out.%t`). Their tasks
//! write to pipes, and the supervisor writes the lines to the files.
//!
//! The files are opened by a process that is the user, which hands them over and ends: the
//! supervisor opens nothing of theirs. Only plain files and devices are taken, so that
//! nobody's reading is waited for.

use super::plan::Common;
use crate::sys::{self, Fork};
use cosy_model::step::Stream;
use cosy_proto::lines::{Lines, Style};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::rc::Rc;

/// A stream of a task that goes to a file with labels.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The task.
    pub rank: u32,
    /// Which of its streams.
    pub stream: Stream,
    /// The file.
    pub path: CString,
}

/// Which file a stream goes to.
type Key = (u32, bool);

const fn key(rank: u32, stream: Stream) -> Key {
    (rank, matches!(stream, Stream::Error))
}

/// The files, opened.
#[derive(Debug, Default)]
pub struct Labels {
    files: BTreeMap<Key, Labelled>,
    ready: Vec<u8>,
}

#[derive(Debug)]
struct Labelled {
    lines: Lines,
    to: Rc<File>,
    /// It was told that nothing more can be written.
    broken: bool,
}

impl Labels {
    /// Opens the files of all these streams, as the user; `width` is that of the labels.
    ///
    /// # Errors
    /// In one line, which file cannot be opened and why.
    pub fn open(
        wanted: Vec<Wanted>,
        flags: OFlag,
        width: usize,
        common: &Common,
    ) -> Result<Self, String> {
        let mut paths: Vec<CString> = wanted.iter().map(|w| w.path.clone()).collect();
        paths.sort_unstable();
        paths.dedup();
        let opened = hand_over(common, &paths, flags)?;
        let by_path: BTreeMap<&CString, &Rc<File>> = paths.iter().zip(&opened).collect();
        let mut files = BTreeMap::new();
        for one in &wanted {
            let Some(to) = by_path.get(&one.path) else {
                continue;
            };
            let labelled = Labelled {
                lines: Lines::new(Style::Label(width)),
                to: Rc::clone(to),
                broken: false,
            };
            files.insert(key(one.rank, one.stream), labelled);
        }
        Ok(Self {
            files,
            ready: Vec::new(),
        })
    }

    /// Whether that stream is written here.
    pub fn has(&self, rank: u32, stream: Stream) -> bool {
        self.files.contains_key(&key(rank, stream))
    }

    /// Writes what a task has written.
    ///
    /// # Errors
    /// The file takes no more; told once.
    pub fn write(&mut self, rank: u32, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match self.files.get_mut(&key(rank, stream)) {
            Some(file) => file.write(&mut self.ready, |lines, out| {
                lines.feed(rank, stream, bytes, out);
            }),
            None => Ok(()),
        }
    }

    /// Writes the last lines, which have no ends.
    pub fn finish(&mut self) {
        for ((_, is_error), file) in &mut self.files {
            let stream = match is_error {
                true => Stream::Error,
                false => Stream::Output,
            };
            let _ = file.write(&mut self.ready, |lines, out| lines.finish(stream, out));
        }
    }
}

impl Labelled {
    fn write(
        &mut self,
        ready: &mut Vec<u8>,
        fill: impl FnOnce(&mut Lines, &mut Vec<u8>),
    ) -> io::Result<()> {
        ready.clear();
        fill(&mut self.lines, ready);
        if self.broken || ready.is_empty() {
            return Ok(());
        }
        let written = (&*self.to).write_all(ready);
        self.broken = written.is_err();
        written
    }
}

/// The files, opened by a process that is the user.
fn hand_over(common: &Common, paths: &[CString], flags: OFlag) -> Result<Vec<Rc<File>>, String> {
    let no_way = |e: Errno| format!("cannot open the tasks' files: {}", e.desc());
    let kind = SockType::SeqPacket;
    let (own, its) =
        socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).map_err(no_way)?;
    // SAFETY: a supervisor has one thread.
    let child = match unsafe { sys::fork_into(None) } {
        Ok(Fork::Child) => common.open_for(paths, flags, &its),
        Ok(Fork::Parent(pid)) => pid,
        Err(e) => return Err(format!("cannot open the tasks' files: {e}")),
    };
    drop(its);
    let files = paths.iter().map(|path| receive(&own, path)).collect();
    let _ = nix::sys::wait::waitpid(child, None);
    files
}

fn receive(own: &OwnedFd, path: &CString) -> Result<Rc<File>, String> {
    let failed = |why: &str| {
        let path = path.to_string_lossy();
        format!("cannot open the output file {path}: {why}")
    };
    let mut errno = [0; 4];
    let mut files = VecDeque::new();
    sys::receive(own, &mut errno, &mut files).map_err(|e| failed(&e.to_string()))?;
    let Some(file) = files.pop_front().map(File::from) else {
        return Err(failed(sys::errno_text(i32::from_le_bytes(errno))));
    };
    let kind = file
        .metadata()
        .map_err(|e| failed(&e.to_string()))?
        .file_type();
    match kind.is_file() || kind.is_char_device() {
        true => Ok(Rc::new(file)),
        false => Err(failed("lines with labels go to plain files only")),
    }
}
