//! The process that opens the files of tasks which the supervisor itself has to do with, and
//! writes those with labels: it is the user, with the user's limits and quotas, and a file
//! system that hangs or a signal of the user stops it and nothing else.
//!
//! ```text
//!   supervisor ── place u32, length u32, bytes ──▶ writer ── write(2) ──▶ files
//!              ◀── place u32, errno i32 ──────────         (numbers little endian)
//! ```
//!
//! First of all it cuts and opens the files, and tells either that all are open or which is
//! not; then it writes what comes, and says so and ends at the end of that. A place is that of a stream
//! of a task in [`Orders::streams`]; several may go to one file. Where nothing is to be
//! written it ends when it has cut the files.

use super::plan::Common;
use super::task::{ReadOutcome, read};
use crate::shepherd::user_process::UserProcess;
use crate::sys;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag};
use nix::libc;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Bytes of what is told in either direction, but for the bytes of a file.
const RECORD: usize = 8;
/// In the place of a place: all files are open; everything is written.
const DONE: u32 = u32::MAX;
/// In the place of an error number: neither a plain file nor a device.
const NOT_PLAIN: i32 = i32::MAX;
/// Most bytes that wait to be taken; while there are more nothing is read from tasks.
const WAITING: usize = 1 << 20;

fn record(place: u32, number: u32) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..4].copy_from_slice(&place.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn numbers(bytes: [u8; RECORD]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

/// What the process is to do.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Files that are cut to nothing.
    pub cut: Vec<CString>,
    /// Files that are written.
    pub files: Vec<CString>,
    /// Flags that the files are opened with.
    pub flags: OFlag,
    /// For each stream the place of its file in `files`.
    pub streams: Vec<usize>,
}

impl Orders {
    /// Nobody is needed for that.
    pub fn is_empty(&self) -> bool {
        self.cut.is_empty() && self.files.is_empty()
    }
}

/// What is heard of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriterEvent {
    /// Tasks may be forked.
    Opened,
    /// Tasks cannot be forked, and why, in one line.
    CannotOpen(String),
    /// The file of that stream takes no more, and why.
    Broken(usize, &'static str),
    /// The process has ended too early: nothing more is written.
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Opening,
    Writing,
    /// Nothing more comes: it ends when it has written everything.
    Ending,
    /// The process has written everything.
    Written,
}

/// The supervisor's side. Never waits for the other one.
#[derive(Debug)]
pub struct Writer {
    socket: UnixStream,
    aside: UserProcess,
    files: Vec<CString>,
    stage: Stage,
    out: Vec<u8>,
    incoming: Vec<u8>,
    moved: Instant,
}

impl Writer {
    /// Starts the process.
    ///
    /// # Errors
    /// In one line: no process, or no sockets.
    pub fn start(common: &Common, orders: Orders) -> Result<Self, String> {
        let cannot = |e: std::io::Error| format!("cannot open the tasks' files: {e}");
        let (socket, its) = UnixStream::pair().map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let aside = UserProcess::start(|| work(common, &orders, &its)).map_err(cannot)?;
        Ok(Self {
            socket,
            aside,
            files: orders.files,
            stage: Stage::Opening,
            out: Vec::new(),
            incoming: Vec::new(),
            moved: Instant::now(),
        })
    }

    /// To be waited for: readable always, writable when [`Self::wants_write`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Process id of the writer, by which its end is known.
    pub const fn pid(&self) -> nix::unistd::Pid {
        self.aside.pid()
    }

    /// Something waits to be written.
    pub fn wants_write(&self) -> bool {
        !self.out.is_empty()
    }

    /// True when so much waits that no more should come.
    pub fn is_full(&self) -> bool {
        self.out.len() >= WAITING
    }

    /// The files are not open yet.
    pub fn is_opening(&self) -> bool {
        self.stage == Stage::Opening
    }

    /// When it last took or told something.
    pub const fn moved(&self) -> Instant {
        self.moved
    }

    /// Adds to what is to be written to the file of a stream.
    pub fn write(&mut self, stream: usize, bytes: &[u8]) {
        for piece in bytes.chunks(u32::MAX as usize) {
            let place = u32::try_from(stream).unwrap_or(DONE);
            self.out
                .extend_from_slice(&record(place, piece.len() as u32));
            self.out.extend_from_slice(piece);
        }
        self.flush();
    }

    /// Says that nothing more comes.
    pub fn finish(&mut self) {
        if self.stage == Stage::Writing {
            self.stage = Stage::Ending;
        }
        self.flush();
    }

    /// The descriptor is ready: writes what is taken, reads what was said. `None` when it has
    /// ended as it was to.
    pub fn advance(&mut self) -> Option<Vec<WriterEvent>> {
        self.flush();
        let mut buffer = [0; RECORD * 64];
        let mut heard = Vec::new();
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    self.incoming.extend_from_slice(&buffer[..n]);
                    self.moved = Instant::now();
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    self.listen(&mut heard);
                    return Some(heard);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.listen(&mut heard);
        match self.stage {
            Stage::Written if heard.is_empty() => return None,
            // It is asked again.
            Stage::Written => {}
            Stage::Opening => heard.push(WriterEvent::CannotOpen(
                "the process that opens the tasks' files was ended".into(),
            )),
            Stage::Writing | Stage::Ending => heard.push(WriterEvent::Lost),
        }
        Some(heard)
    }

    fn listen(&mut self, heard: &mut Vec<WriterEvent>) {
        while let Some(first) = self.incoming.first_chunk::<RECORD>() {
            let (place, number) = numbers(*first);
            self.incoming.drain(..RECORD);
            let errno = number.cast_signed();
            match self.stage {
                Stage::Opening if place == DONE => {
                    self.stage = Stage::Writing;
                    heard.push(WriterEvent::Opened);
                }
                Stage::Opening => {
                    heard.push(WriterEvent::CannotOpen(self.cannot_open(place, errno)))
                }
                Stage::Ending if place == DONE => self.stage = Stage::Written,
                Stage::Writing | Stage::Ending | Stage::Written => {
                    heard.push(WriterEvent::Broken(place as usize, sys::errno_text(errno)));
                }
            }
        }
    }

    fn cannot_open(&self, place: u32, errno: i32) -> String {
        let path = self.files.get(place as usize);
        let path = path.map_or(String::new(), |p| p.to_string_lossy().into_owned());
        let why = match errno {
            NOT_PLAIN => "lines with labels go to plain files only",
            errno => sys::errno_text(errno),
        };
        format!("cannot open the output file {path}: {why}")
    }

    /// The files that are not open in time, for a message.
    pub fn not_open_after(&self, seconds: u64) -> String {
        let path = self.files.first().map(|p| p.to_string_lossy());
        let path = path.map_or(String::new(), |p| format!(" {p}"));
        let more = match self.files.len() {
            0 | 1 => String::new(),
            n => format!(" and {} others", n - 1),
        };
        format!("cannot open the output file{path}{more}: not done after {seconds} s")
    }

    fn flush(&mut self) {
        let mut done = 0;
        while done < self.out.len() {
            match self.socket.write(&self.out[done..]) {
                Ok(n) => {
                    done += n;
                    self.moved = Instant::now();
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                // Its end is seen where it is read.
                Err(_) => break,
            }
        }
        self.out.drain(..done);
        if self.stage == Stage::Ending && self.out.is_empty() {
            let _ = self.socket.shutdown(std::net::Shutdown::Write);
        }
    }
}

/// Runs in the writer's process: takes what comes over `socket` and writes it.
fn work(common: &Common, orders: &Orders, socket: &UnixStream) {
    sys::block_all_signals();
    sys::close_all_but(&[socket.as_raw_fd()]);
    let say = |place: u32, errno: i32| {
        let _ = (&*socket).write_all(&record(place, errno.cast_unsigned()));
    };
    if let Err(failure) = common.become_writer() {
        return say(0, failure.errno());
    }
    sys::end_with_parent();
    for path in &orders.cut {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NONBLOCK;
        let _ = open(path, flags);
    }
    let mut files = Vec::with_capacity(orders.files.len());
    for (path, place) in orders.files.iter().zip(0..) {
        match open_plain(path, orders.flags) {
            Ok(file) => files.push(file),
            Err(errno) => return say(place, errno),
        }
    }
    say(DONE, 0);
    if !files.is_empty() {
        write_all(socket, &files, orders, say);
    }
}

fn open(path: &CString, flags: OFlag) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    nix::fcntl::open(path.as_c_str(), flags, super::plan::file_mode())
}

/// Only plain files and devices are taken, so that nobody's reading is waited for.
fn open_plain(path: &CString, flags: OFlag) -> Result<File, i32> {
    let file = open(path, flags | OFlag::O_NONBLOCK).map_err(|e| e as i32)?;
    let _ = nix::fcntl::fcntl(&file, FcntlArg::F_SETFL(flags & OFlag::O_APPEND));
    let file = File::from(file);
    let kind = file.metadata().map_err(|_| libc::EIO)?.file_type();
    match kind.is_file() || kind.is_char_device() {
        true => Ok(file),
        false => Err(NOT_PLAIN),
    }
}

fn write_all(socket: &UnixStream, files: &[File], orders: &Orders, say: impl Fn(u32, i32)) {
    let mut broken = vec![false; orders.streams.len()];
    let mut buffer = vec![0; 256 << 10];
    let mut waiting = Waiting::default();
    let socket: OwnedFd = match socket.try_clone() {
        Ok(socket) => socket.into(),
        Err(_) => return,
    };
    loop {
        let count = match read(&socket, &mut buffer) {
            ReadOutcome::Some(count) => count,
            ReadOutcome::NotYet => continue,
            ReadOutcome::End => return say(DONE, 0),
        };
        let mut bytes = &buffer[..count];
        while let Some((place, piece)) = waiting.next(&mut bytes) {
            let file = orders.streams.get(place as usize);
            let (Some(mut file), Some(broken)) =
                (file.and_then(|at| files.get(*at)), broken.get_mut(place as usize))
            else {
                continue;
            };
            if !*broken && let Err(e) = file.write_all(piece) {
                *broken = true;
                say(place, e.raw_os_error().unwrap_or(libc::EIO));
            }
        }
    }
}

/// Where in a record the writer is.
#[derive(Default)]
struct Waiting {
    head: Vec<u8>,
    place: u32,
    left: usize,
}

impl Waiting {
    /// The next bytes for the file of a stream, out of what has come.
    fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<(u32, &'b [u8])> {
        while self.left == 0 {
            let take = (RECORD - self.head.len()).min(bytes.len());
            let (head, rest) = bytes.split_at(take);
            self.head.extend_from_slice(head);
            *bytes = rest;
            let whole = *self.head.first_chunk::<RECORD>()?;
            self.head.clear();
            let (place, length) = numbers(whole);
            (self.place, self.left) = (place, length as usize);
        }
        let take = self.left.min(bytes.len());
        let (piece, rest) = bytes.split_at(take);
        (*bytes, self.left) = (rest, self.left - take);
        (!piece.is_empty()).then_some((self.place, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// However what is sent is cut on its way, each stream gets its bytes in order.
        #[test]
        fn pieces_come_together(
            sent in proptest::collection::vec((0u32..3, proptest::collection::vec(any::<u8>(), 0..9)), 0..9),
            cut in 1_usize..20,
        ) {
            let mut line = Vec::new();
            for (place, bytes) in &sent {
                line.extend(record(*place, bytes.len() as u32));
                line.extend(bytes);
            }
            let mut waiting = Waiting::default();
            let mut got = vec![Vec::new(); 3];
            for mut chunk in line.chunks(cut) {
                while let Some((place, piece)) = waiting.next(&mut chunk) {
                    got[place as usize].extend_from_slice(piece);
                }
                prop_assert!(chunk.is_empty());
            }
            for place in 0..3 {
                let all = sent.iter().filter(|(to, _)| *to == place);
                let all: Vec<u8> = all.flat_map(|(_, bytes)| bytes.clone()).collect();
                prop_assert_eq!(&got[place as usize], &all);
            }
        }
    }
}
