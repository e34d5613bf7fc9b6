//! Writes the output of tasks to standard output and error of the command, or to files.

use super::files::{LocalTarget, PatternValues, StreamTarget, expand};
use cosy_model::OsText;
use cosy_model::job::OpenMode;
use cosy_model::step::Stream;
use cosy_proto::lines::{Lines, Style};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why output cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The reader of a pipe has gone.
    #[error("nobody reads the output any more")]
    Closed,
    /// A file that cannot be opened.
    #[error("cannot open '{path}' for the output: {cause}")]
    Open {
        /// The file that was to be opened.
        path: String,
        /// The system's error.
        cause: io::Error,
    },
    /// The error of a write, as on a full disk.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
}

enum Target {
    Output,
    Error,
    File(OwnedFd),
}

impl Target {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Output => rustix::stdio::stdout(),
            Self::Error => rustix::stdio::stderr(),
            Self::File(file) => file.as_fd(),
        }
    }
}

/// The targets of both streams of a step.
pub struct Sinks {
    output: Target,
    /// `None`: errors go where the output goes.
    error: Option<Target>,
    lines: Lines,
    ready: Vec<u8>,
    /// The task whose output is shown, and the one whose errors are; all of them without.
    only: [Option<u32>; 2],
}

/// How files for output are found and opened.
pub struct OpenSettings<'a> {
    /// Working directory of the step, from which relative names are seen.
    pub workdir: &'a OsText,
    /// Whether files are emptied or appended to.
    pub mode: OpenMode,
}

impl Sinks {
    /// Opens the files that `targets` (output, errors) name.
    ///
    /// # Errors
    /// [`SinkError::Open`].
    pub fn open(
        targets: [&StreamTarget; 2],
        style: Style,
        settings: &OpenSettings<'_>,
        values: &PatternValues<'_>,
    ) -> Result<Self, SinkError> {
        let file = |pattern: &OsText| open(&expand(pattern, values), settings).map(Target::File);
        let output = match &targets[0].local {
            LocalTarget::Own | LocalTarget::Same => Target::Output,
            LocalTarget::File(pattern) => file(pattern)?,
        };
        let error = match &targets[1].local {
            LocalTarget::Own => Some(Target::Error),
            LocalTarget::Same => None,
            LocalTarget::File(pattern) => Some(file(pattern)?),
        };
        Ok(Self {
            output,
            error,
            lines: Lines::new(style),
            ready: Vec::new(),
            only: [None; 2],
        })
    }

    /// Standard output and error of the command.
    pub const fn to_streams(style: Style) -> Self {
        Self {
            output: Target::Output,
            error: Some(Target::Error),
            lines: Lines::new(style),
            ready: Vec::new(),
            only: [None; 2],
        }
    }

    /// Shows only the output of one task and the errors of one; `None`: of all tasks.
    pub fn only_of(self, only: [Option<u32>; 2]) -> Self {
        Self { only, ..self }
    }

    fn shows(&self, rank: u32, stream: Stream) -> bool {
        let only = match stream {
            Stream::Output => self.only[0],
            Stream::Error => self.only[1],
        };
        only.is_none_or(|only| only == rank)
    }

    fn target(&self, stream: Stream) -> BorrowedFd<'_> {
        match (stream, &self.error) {
            (Stream::Error, Some(target)) => target.fd(),
            (Stream::Error, None) | (Stream::Output, _) => self.output.fd(),
        }
    }

    /// True when output needs no work: [`Self::write_all`] may write many pieces at once.
    pub fn passes(&self) -> bool {
        self.only == [None; 2] && self.lines.passes()
    }

    /// Writes pieces of one stream as they are.
    ///
    /// # Errors
    /// [`SinkError`].
    pub fn write_all(&self, stream: Stream, pieces: &mut [IoSlice<'_>]) -> Result<(), SinkError> {
        write_all(self.target(stream), pieces)
    }

    /// Writes output of a task in the step's style.
    ///
    /// # Errors
    /// [`SinkError`].
    pub fn write(&mut self, rank: u32, stream: Stream, bytes: &[u8]) -> Result<(), SinkError> {
        if !self.shows(rank, stream) {
            return Ok(());
        }
        self.lines.feed(rank, stream, bytes, &mut self.ready);
        self.flush(stream)
    }

    /// Writes what tasks left unfinished.
    ///
    /// # Errors
    /// [`SinkError`].
    pub fn finish(&mut self) -> Result<(), SinkError> {
        for stream in [Stream::Output, Stream::Error] {
            self.lines.finish(stream, &mut self.ready);
            self.flush(stream)?;
        }
        Ok(())
    }

    fn flush(&mut self, stream: Stream) -> Result<(), SinkError> {
        let ready = std::mem::take(&mut self.ready);
        let done = write_all(self.target(stream), &mut [IoSlice::new(&ready)]);
        self.ready = ready;
        self.ready.clear();
        done
    }
}

fn open(name: &OsText, settings: &OpenSettings<'_>) -> Result<OwnedFd, SinkError> {
    let folder = Path::new(OsStr::from_bytes(&settings.workdir.0));
    let path = folder.join(OsStr::from_bytes(&name.0));
    let how = match settings.mode {
        OpenMode::Truncate => OFlags::TRUNC,
        OpenMode::Append => OFlags::APPEND,
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | how;
    rustix::fs::open(&path, flags, Mode::from_raw_mode(0o666)).map_err(|e| SinkError::Open {
        path: path.display().to_string(),
        cause: e.into(),
    })
}

fn write_all(fd: BorrowedFd<'_>, mut pieces: &mut [IoSlice<'_>]) -> Result<(), SinkError> {
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        // The kernel takes at most 1,024 pieces at once.
        let some = pieces.len().min(1024);
        match rustix::io::writev(fd, &pieces[..some]) {
            Ok(n) => IoSlice::advance_slices(&mut pieces, n),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait_for(fd).map_err(SinkError::Write)?,
            Err(rustix::io::Errno::PIPE) => return Err(SinkError::Closed),
            Err(e) => return Err(SinkError::Write(e.into())),
        }
    }
    Ok(())
}

/// Waits until a descriptor can be written: another program that shares it has made it non-blocking.
fn wait_for(fd: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    match poll(&mut fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
