//! What goes to the tasks' standard input: no more is under way than the supervisors
//! allow, and nothing is read before it can be sent.

use super::tty;
use cosy_model::limits::{STDIN_WINDOW, STEP_CHUNK};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// How much may be read now. Pure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    sent: u64,
    taken: u64,
}

impl Room {
    /// The tasks have taken so much in all.
    pub fn taken(&mut self, bytes: u64) {
        self.taken = self.taken.max(bytes.min(self.sent));
    }

    /// So much more was sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    /// Bytes that may be sent.
    pub fn left(&self) -> usize {
        let under_way = self.sent.saturating_sub(self.taken);
        let left = STDIN_WINDOW.saturating_sub(under_way);
        usize::try_from(left).unwrap_or(usize::MAX).min(STEP_CHUNK)
    }
}

/// Where it is read from.
#[derive(Debug)]
pub enum Source {
    /// Standard input of the command.
    Own,
    /// A file, and its size where all of it has to come.
    File {
        /// The file, opened.
        file: OwnedFd,
        /// Bytes that must be read, neither more nor fewer.
        size: Option<u64>,
    },
}

/// What was read.
#[derive(Debug)]
pub enum Taken {
    /// What stood there.
    Bytes(Vec<u8>),
    /// There is nothing to read at this moment.
    Nothing,
    /// That was all.
    End,
    /// It is not what it was to be: in one line.
    Broken(String),
}

/// Input that is being read.
#[derive(Debug)]
pub struct Input {
    source: Source,
    room: Room,
    read: u64,
}

impl Input {
    /// Nothing is read yet.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            room: Room::default(),
            read: 0,
        }
    }

    /// The tasks have taken so much in all.
    pub fn taken(&mut self, bytes: u64) {
        self.room.taken(bytes);
    }

    /// True when there is room for more.
    pub fn wants(&self) -> bool {
        self.room.left() > 0
    }

    /// True when it may be read: a terminal only in its foreground, for otherwise reading
    /// stops the program.
    pub fn may_read(&self) -> bool {
        match &self.source {
            Source::Own => tty::may_read(self.fd()),
            Source::File { .. } => true,
        }
    }

    /// The descriptor to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.source {
            Source::Own => rustix::stdio::stdin(),
            Source::File { file, .. } => file.as_fd(),
        }
    }

    /// Reads what there is room for.
    pub fn read(&mut self) -> Taken {
        let mut bytes = vec![0; self.room.left().min(64 << 10)];
        match rustix::io::read(self.fd(), &mut bytes) {
            Ok(0) => self.end(),
            Ok(n) => {
                bytes.truncate(n);
                self.room.sent(n);
                self.read += n as u64;
                Taken::Bytes(bytes)
            }
            Err(Errno::INTR | Errno::AGAIN) => Taken::Nothing,
            Err(e) => match self.source {
                // A terminal that is gone, or none at all: no more input.
                Source::Own => Taken::End,
                Source::File { .. } => Taken::Broken(format!("cannot read the input: {e}")),
            },
        }
    }

    fn end(&self) -> Taken {
        match self.source {
            Source::File {
                size: Some(size), ..
            } if size != self.read => Taken::Broken(format!(
                "the file was changed while it was read: it had {size} bytes, {} were read",
                self.read
            )),
            Source::File { .. } | Source::Own => Taken::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_window_is_kept() {
        let mut room = Room::default();
        assert_eq!(room.left(), STEP_CHUNK.min(STDIN_WINDOW as usize));
        room.sent(STDIN_WINDOW as usize - 10);
        assert_eq!(room.left(), 10);
        room.sent(10);
        assert_eq!(room.left(), 0);
        room.taken(100);
        assert_eq!(room.left(), 100);
        // Never backwards, never more than was sent.
        room.taken(50);
        assert_eq!(room.left(), 100);
        room.taken(u64::MAX);
        assert_eq!(room.left(), STEP_CHUNK.min(STDIN_WINDOW as usize));
    }

    #[test]
    fn files_that_change_are_told() {
        let check = |size: Option<u64>, fine: bool| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(b"12345").unwrap();
            let file = std::fs::File::open(file.path()).unwrap().into();
            let mut input = Input::new(Source::File { file, size });
            assert!(matches!(input.read(), Taken::Bytes(b) if b == b"12345"));
            assert_eq!(matches!(input.read(), Taken::End), fine);
        };
        check(None, true);
        check(Some(5), true);
        check(Some(6), false);
        check(Some(4), false);
    }
}
