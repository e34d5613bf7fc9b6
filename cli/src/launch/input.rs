//! Reads the input for the tasks. Bytes that the tasks have not read yet are limited
//! (`STDIN_WINDOW`), and nothing is read before it can be sent.

use super::tty;
use cosy_model::limits::{STDIN_WINDOW, STEP_CHUNK};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// The window of input that was sent and not read by the tasks yet. Pure.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendWindow {
    sent: u64,
    taken: u64,
}

impl SendWindow {
    /// The tasks have read so many bytes in all; fewer than before change nothing.
    pub fn taken(&mut self, bytes: u64) {
        self.taken = self.taken.max(bytes.min(self.sent));
    }

    /// Counts bytes that were sent.
    pub fn add_sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    /// Bytes that may be sent now, at most one chunk.
    pub fn free(&self) -> usize {
        let under_way = self.sent.saturating_sub(self.taken);
        let left = STDIN_WINDOW.saturating_sub(under_way);
        usize::try_from(left).unwrap_or(usize::MAX).min(STEP_CHUNK)
    }
}

/// Where input is read from.
#[derive(Debug)]
pub enum InputSource {
    /// Standard input of the command.
    Own,
    /// A file on this host.
    File {
        /// The file, opened.
        file: OwnedFd,
        /// Bytes that the file must have, neither more nor fewer; `None`: any number.
        size: Option<u64>,
    },
}

/// The result of one read.
#[derive(Debug)]
pub enum InputRead {
    /// The bytes that were read, at least one.
    Bytes(Vec<u8>),
    /// Nothing can be read at this moment.
    Nothing,
    /// The end of the input.
    End,
    /// The input cannot be read, or has not the size that it should have: the reason in one line.
    Broken(String),
}

/// Input that is being read.
#[derive(Debug)]
pub struct Input {
    source: InputSource,
    room: SendWindow,
    read: u64,
}

impl Input {
    /// Input of which nothing was read yet.
    pub fn new(source: InputSource) -> Self {
        Self {
            source,
            room: SendWindow::default(),
            read: 0,
        }
    }

    /// The tasks have read so many bytes in all.
    pub fn taken(&mut self, bytes: u64) {
        self.room.taken(bytes);
    }

    /// True when more may be sent, so that reading makes sense.
    pub fn may_send(&self) -> bool {
        self.room.free() > 0
    }

    /// True when reading does not stop this program: a terminal may be read only by programs in its
    /// foreground.
    pub fn may_read(&self) -> bool {
        match &self.source {
            InputSource::Own => tty::may_read(self.fd()),
            InputSource::File { .. } => true,
        }
    }

    /// The descriptor to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.source {
            InputSource::Own => rustix::stdio::stdin(),
            InputSource::File { file, .. } => file.as_fd(),
        }
    }

    /// Reads as much as may be sent, at most 64 KiB.
    pub fn read(&mut self) -> InputRead {
        let mut bytes = vec![0; self.room.free().min(64 << 10)];
        match rustix::io::read(self.fd(), &mut bytes) {
            Ok(0) => self.end(),
            Ok(n) => {
                bytes.truncate(n);
                self.room.add_sent(n);
                self.read += n as u64;
                InputRead::Bytes(bytes)
            }
            Err(Errno::INTR | Errno::AGAIN) => InputRead::Nothing,
            Err(e) => match self.source {
                // A terminal that is gone, or none at all: no more input.
                InputSource::Own => InputRead::End,
                InputSource::File { .. } => {
                    InputRead::Broken(format!("cannot read the input: {e}"))
                }
            },
        }
    }

    fn end(&self) -> InputRead {
        match self.source {
            InputSource::File {
                size: Some(size), ..
            } if size != self.read => InputRead::Broken(format!(
                "the file was changed while it was read: it had {size} bytes, {} were read",
                self.read
            )),
            InputSource::File { .. } | InputSource::Own => InputRead::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_window_is_kept() {
        let mut room = SendWindow::default();
        assert_eq!(room.free(), STEP_CHUNK.min(STDIN_WINDOW as usize));
        room.add_sent(STDIN_WINDOW as usize - 10);
        assert_eq!(room.free(), 10);
        room.add_sent(10);
        assert_eq!(room.free(), 0);
        room.taken(100);
        assert_eq!(room.free(), 100);
        // Never backwards, never more than was sent.
        room.taken(50);
        assert_eq!(room.free(), 100);
        room.taken(u64::MAX);
        assert_eq!(room.free(), STEP_CHUNK.min(STDIN_WINDOW as usize));
    }

    #[test]
    fn files_that_change_are_told() {
        let check = |size: Option<u64>, fine: bool| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(b"12345").unwrap();
            let file = std::fs::File::open(file.path()).unwrap().into();
            let mut input = Input::new(InputSource::File { file, size });
            assert!(matches!(input.read(), InputRead::Bytes(b) if b == b"12345"));
            assert_eq!(matches!(input.read(), InputRead::End), fine);
        };
        check(None, true);
        check(Some(5), true);
        check(Some(6), false);
        check(Some(4), false);
    }
}
