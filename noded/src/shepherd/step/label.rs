//! Files of tasks whose lines begin with the task's rank (`srun -l -o out.%t`). Their tasks
//! write to pipes; the lines are made here and written by a process that is the user
//! ([`super::writer`]).

use super::writer::{Orders, Writer, WriterEvent};
use cosy_model::step::Stream;
use cosy_proto::lines::{Lines, Style};
use nix::fcntl::OFlag;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// A stream of a task that goes to a file with labels.
#[derive(Clone, Debug)]
pub struct LabelledFile {
    /// Number of the task that writes it.
    pub rank: u32,
    /// Output or error of that task.
    pub stream: Stream,
    /// Path of the file.
    pub path: CString,
}

/// Which file a stream goes to.
type Key = (u32, bool);

const fn key(rank: u32, stream: Stream) -> Key {
    (rank, matches!(stream, Stream::Error))
}

/// What a process is to open for these streams, beside the files that it is to cut.
pub fn orders(wanted: &[LabelledFile], flags: OFlag, cut: Vec<CString>) -> Orders {
    let mut files: Vec<CString> = wanted.iter().map(|w| w.path.clone()).collect();
    files.sort_unstable();
    files.dedup();
    let place = |w: &LabelledFile| files.binary_search(&w.path).unwrap_or(0);
    let streams = wanted.iter().map(place).collect();
    Orders {
        cut,
        files,
        flags,
        streams,
    }
}

/// The streams with labels, and who writes them.
#[derive(Debug, Default)]
pub struct Labels {
    streams: BTreeMap<Key, Labelled>,
    /// The streams in the order in which the writer knows them.
    places: Vec<Key>,
    ready: Vec<u8>,
    writer: Option<Writer>,
}

#[derive(Debug)]
struct Labelled {
    lines: Lines,
    place: usize,
    /// Nothing more can be written.
    broken: bool,
}

/// What is to be done about the files of tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Tasks may be forked.
    Opened,
    /// Tasks cannot be forked, and why.
    CannotOpen(String),
    /// The output of that task is not written, and why.
    Lost(u32, String),
}

impl Labels {
    /// For these streams, in the order of the writer's orders; `width` is that of the labels.
    pub fn new(wanted: &[LabelledFile], width: usize, writer: Writer) -> Self {
        let labelled = |place| Labelled {
            lines: Lines::new(Style::Label(width)),
            place,
            broken: false,
        };
        let places: Vec<Key> = wanted.iter().map(|w| key(w.rank, w.stream)).collect();
        Self {
            streams: places.iter().copied().zip((0..).map(labelled)).collect(),
            places,
            ready: Vec::new(),
            writer: Some(writer),
        }
    }

    /// Whether that stream is written here.
    pub fn has(&self, rank: u32, stream: Stream) -> bool {
        self.streams.contains_key(&key(rank, stream))
    }

    /// The writer's process.
    pub fn pid(&self) -> Option<nix::unistd::Pid> {
        self.writer.as_ref().map(Writer::pid)
    }

    /// The writer's descriptor, and whether something is to be written to it.
    pub fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.writer.as_ref().map(|w| (w.fd(), w.wants_write()))
    }

    /// The writer does not take what is there already: no more is to be read from tasks.
    pub fn is_full(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::is_full)
    }

    /// Everything is written, or lost.
    pub const fn is_over(&self) -> bool {
        self.writer.is_none()
    }

    /// Files are being opened.
    pub fn is_opening(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::is_opening)
    }

    /// When the writer last took or told something.
    pub fn moved(&self) -> Option<Instant> {
        self.writer.as_ref().map(Writer::moved)
    }

    /// Takes what a task has written.
    pub fn write(&mut self, rank: u32, stream: Stream, bytes: &[u8]) {
        let (Some(of), Some(writer)) = (self.streams.get_mut(&key(rank, stream)), &mut self.writer)
        else {
            return;
        };
        self.ready.clear();
        of.lines.feed(rank, stream, bytes, &mut self.ready);
        if !of.broken && !self.ready.is_empty() {
            writer.write(of.place, &self.ready);
        }
    }

    /// Nothing more comes: the last lines, which have no ends, are written, too.
    pub fn finish(&mut self) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        for ((_, is_error), of) in &mut self.streams {
            let stream = match is_error {
                true => Stream::Error,
                false => Stream::Output,
            };
            self.ready.clear();
            of.lines.finish(stream, &mut self.ready);
            if !of.broken && !self.ready.is_empty() {
                writer.write(of.place, &self.ready);
            }
        }
        writer.finish();
    }

    /// The writer's descriptor is ready.
    pub fn hear(&mut self) -> Vec<Event> {
        let Some(writer) = &mut self.writer else {
            return Vec::new();
        };
        let Some(heard) = writer.advance() else {
            self.writer = None;
            return Vec::new();
        };
        heard.into_iter().flat_map(|h| self.heard(h)).collect()
    }

    fn heard(&mut self, heard: WriterEvent) -> Vec<Event> {
        match heard {
            WriterEvent::Opened => {
                if self.streams.is_empty() {
                    self.writer = None;
                }
                vec![Event::Opened]
            }
            WriterEvent::CannotOpen(why) => {
                self.writer = None;
                vec![Event::CannotOpen(why)]
            }
            WriterEvent::Broken(place, why) => {
                let Some(key) = self.places.get(place) else {
                    return Vec::new();
                };
                let Some(of) = self.streams.get_mut(key) else {
                    return Vec::new();
                };
                match std::mem::replace(&mut of.broken, true) {
                    true => Vec::new(),
                    false => vec![Event::Lost(key.0, why.to_owned())],
                }
            }
            WriterEvent::Lost => self.give_up("the process that writes it was ended"),
        }
    }

    /// Why the files are not open, after so many seconds; nobody goes on with it.
    pub fn not_open_after(&mut self, seconds: u64) -> String {
        let writer = self.writer.take();
        writer.map_or(String::new(), |w| w.not_open_after(seconds))
    }

    /// Nothing more is written, for that reason: what is to be told, once for each task.
    pub fn give_up(&mut self, why: &str) -> Vec<Event> {
        self.writer = None;
        let mut ranks: Vec<u32> = Vec::new();
        for ((rank, _), of) in &mut self.streams {
            if !std::mem::replace(&mut of.broken, true) && ranks.last() != Some(rank) {
                ranks.push(*rank);
            }
        }
        let lost = |rank| Event::Lost(rank, why.to_owned());
        ranks.into_iter().map(lost).collect()
    }
}
