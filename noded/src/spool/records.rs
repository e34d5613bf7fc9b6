//! The two records of an attempt and how they are written: `launch`, whose header says how far
//! it got and when it began on both clocks, and `outcome`. Both end with a checksum, so that a
//! torn one counts as none.

use crate::cgroup::Group;
use crate::sys;
use cosy_model::node::{Allocation, Launch};
use cosy_model::{Dialect, End, OsText, Span, Time, limits};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Name of the file with phase and work.
pub const LAUNCH: &str = "launch";

/// Name of the file that says how it ended.
pub const OUTCOME: &str = "outcome";

pub(crate) const OUTCOME_NEW: &str = "outcome.new";

const MAGIC: &[u8; 8] = b"COSYATT1";
pub(crate) const HEADER: usize = 24;
const CHECKSUM: usize = 8;
/// Bytes of the header that say when something began on the clock that nobody sets.
pub(super) const STEADY: usize = 7;

/// How far an attempt got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    /// The attempt was received; nothing was done yet.
    Received = 0,
    /// Prolog and health check are done.
    Prepared = 1,
    /// A shepherd took it on: its program may have run.
    Started = 2,
}

/// What an attempt is to do on this node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Only to hold an allocation.
    Hold(Box<Allocation>),
    /// A program is to be run.
    Run(Box<Task>),
}

impl Work {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Hold(_) => Dialect::default(),
            Self::Run(task) => task.launch.dialect,
        }
    }

    /// The allocation that the work is done in.
    pub fn allocation(&self) -> &Allocation {
        match self {
            Self::Hold(allocation) => allocation,
            Self::Run(task) => &task.launch.allocation,
        }
    }
}

/// A program and what only the node knows about running it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// As ordered; the script's text is in its own file.
    pub launch: Launch,
    /// Control groups, in the order in which they are made.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Variables that the node sets, `NAME=value`.
    #[serde(default)]
    pub variables: Vec<OsText>,
    /// The daemon is protected from the out-of-memory killer; its jobs are not.
    #[serde(default)]
    pub reset_oom_score: bool,
}

/// An attempt (or a step of it) as read back.
#[derive(Debug)]
pub struct KeptAttempt<W = Work> {
    /// How far it had come.
    pub phase: Phase,
    /// When its shepherd took it on, or, while it is only held, since when it is ready: by the
    /// clock as it is now, also where somebody has set it since.
    pub start: Time,
    /// What is to be done in the attempt.
    pub work: W,
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Cause, exit code, signal, and what was used.
    pub end: End,
    /// Why this node should get no more jobs.
    #[serde(default)]
    pub drain: Option<String>,
}

/// Writes a file that may be there with other content. Its end is cut last, and a
/// checksum tells what is not whole.
fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

/// Writes the file that a shepherd locks and reads, with nothing done yet.
///
/// # Errors
/// The file system's.
pub fn write_launch<W: Serialize>(directory: &Path, work: &W) -> io::Result<()> {
    let mut bytes = vec![0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    rmp_serde::encode::write_named(&mut bytes, work).map_err(io::Error::other)?;
    seal(&mut bytes, HEADER);
    write_over(&directory.join(LAUNCH), &bytes)
}

/// Opens the file that a shepherd locks, in an attempt's directory.
///
/// # Errors
/// The file system's.
pub fn open_launch(directory: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(directory.join(LAUNCH))
}

/// Reads phase and work.
///
/// # Errors
/// The file system's, or a file that is not whole.
pub fn read_launch<W: DeserializeOwned>(file: &File) -> io::Result<KeptAttempt<W>> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "the launch file is not whole");
    let length = file.metadata()?.len();
    // A frame's limit bounds what was ever written here, with room for the node's part.
    if length > 2 * cosy_model::limits::FRAME_BYTES as u64 {
        return Err(bad());
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let body = unseal(&bytes, HEADER).ok_or_else(bad)?;
    if bytes[..8] != *MAGIC {
        return Err(bad());
    }
    let phase = match bytes[8] {
        0 => Phase::Received,
        1 => Phase::Prepared,
        _ => Phase::Started,
    };
    let start = bytes[16..HEADER].first_chunk().ok_or_else(bad)?;
    let mut steady = [0; 8];
    steady[..STEADY].copy_from_slice(&bytes[9..9 + STEADY]);
    let start = Time(i64::from_le_bytes(*start));
    Ok(KeptAttempt {
        phase,
        start: by_clock_now(start, u64::from_le_bytes(steady)),
        work: rmp_serde::from_slice(body).map_err(|_| bad())?,
    })
}

/// True when the path of an attempt still leads to the launch file that was opened.
///
/// # Errors
/// The file system's.
pub fn still_there(file: &File, directory: &Path) -> io::Result<bool> {
    let (opened, named) = (file.metadata()?, fs::metadata(directory.join(LAUNCH)));
    Ok(named.is_ok_and(|n| n.ino() == opened.ino() && n.dev() == opened.dev()))
}

/// Marks an attempt as taken on by a shepherd. One write: it is there or it is not.
///
/// # Errors
/// The file system's.
pub fn mark_started(file: &File, start: Time) -> io::Result<()> {
    mark(file, Phase::Started, start)
}

/// `start` is just now, or the epoch where there is none.
pub(super) fn mark(file: &File, phase: Phase, start: Time) -> io::Result<()> {
    let mut bytes = [0; HEADER - 8];
    bytes[0] = phase as u8;
    bytes[1..=STEADY].copy_from_slice(&steady_ms().to_le_bytes()[..STEADY]);
    bytes[8..].copy_from_slice(&start.0.to_le_bytes());
    file.write_all_at(&bytes, 8)
}

/// What a clock shows that nobody sets, in milliseconds. Never 0, which earlier releases wrote.
fn steady_ms() -> u64 {
    u64::try_from(sys::steady().as_millis())
        .unwrap_or(0)
        .saturating_add(1)
}

/// A date on the clock as it is now: what has passed since is told by the other one, in the same run
/// of the machine.
fn by_clock_now(date: Time, steady: u64) -> Time {
    let passed = steady_ms().checked_sub(steady);
    let Some(passed) = passed.filter(|_| steady > 0 && date != Time::EPOCH) else {
        return date;
    };
    let counted = sys::now() - Span(i64::try_from(passed).unwrap_or(i64::MAX));
    match counted.ahead_of(date).abs() < limits::CLOCK_STEP {
        true => date,
        false => counted,
    }
}

/// Writes a file that is whole at any moment: beside it first, with the extension `new`.
///
/// # Errors
/// The file system's.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(new, path)
}

/// Writes the outcome of an attempt or a step in its directory: whole or not at all.
///
/// # Errors
/// The file system's.
pub fn write_outcome<T: Serialize>(directory: &Path, outcome: &T) -> io::Result<()> {
    let mut bytes = rmp_serde::to_vec_named(outcome).map_err(io::Error::other)?;
    seal(&mut bytes, 0);
    let new = directory.join(OUTCOME_NEW);
    write_over(&new, &bytes)?;
    fs::rename(new, directory.join(OUTCOME))
}

/// Reads an outcome; `None` without a whole one.
pub fn read_outcome<T: DeserializeOwned>(directory: &Path) -> Option<T> {
    let bytes = fs::read(directory.join(OUTCOME)).ok()?;
    rmp_serde::from_slice(unseal(&bytes, 0)?).ok()
}

/// Makes an outcome survive the machine too. Slow.
///
/// # Errors
/// The file system's.
pub fn sync_outcome(directory: &Path) -> io::Result<()> {
    File::open(directory.join(OUTCOME))?.sync_all()?;
    File::open(directory)?.sync_all()
}

fn seal(bytes: &mut Vec<u8>, from: usize) {
    let sum = checksum(&bytes[from..]);
    bytes.extend(sum.to_le_bytes());
}

pub(super) fn unseal(bytes: &[u8], from: usize) -> Option<&[u8]> {
    let at = bytes.len().checked_sub(CHECKSUM).filter(|at| *at >= from)?;
    let (body, sum) = bytes.split_at(at);
    let body = &body[from..];
    (checksum(body).to_le_bytes() == sum).then_some(body)
}

/// FNV-1a over words of eight bytes: finds torn writes, nothing more is asked of it.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        sum ^= sum >> 29;
    }
    sum
}
