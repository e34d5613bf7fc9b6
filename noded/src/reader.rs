//! Reads a part of a file as a user, in a process of its own (`noded --read`) that has nothing but
//! that user's rights. File systems hang, and users choose what a name leads to: only regular files
//! are read, a little of them, and a process that is not done in time is killed.

use crate::sys;
use cosy_model::limits::FILE_PIECE;
use cosy_model::step::{FilePiece, StepAnswer};
use cosy_model::{Gid, OsText, Refusal, RefusalCode, Uid};
use cosy_proto::frame;
use nix::libc;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a read may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Reads of one user at once, and of all together.
const READS_OF_USER: usize = 2;
const READS: usize = 32;
/// Bytes of an answer.
const ANSWER: usize = FILE_PIECE as usize + 4096;

static READING: Mutex<Option<HashMap<u32, usize>>> = Mutex::new(None);

/// Which part of which file, and as whom.
#[derive(Clone, Debug)]
pub struct FileRequest {
    /// The user that reads.
    pub uid: Uid,
    /// Primary group.
    pub gid: Gid,
    /// All groups.
    pub groups: Vec<Gid>,
    /// An absolute path.
    pub path: OsText,
    /// From which byte on; without, the last ones.
    pub from: Option<u64>,
}

/// Counts a read as long as it goes on.
struct Turn(u32);

impl Turn {
    fn take(uid: u32) -> Option<Self> {
        let mut reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        let all = reading.get_or_insert_default();
        let own = all.get(&uid).copied().unwrap_or(0);
        if own >= READS_OF_USER || all.values().sum::<usize>() >= READS {
            return None;
        }
        all.insert(uid, own + 1);
        Some(Self(uid))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        let all = reading.get_or_insert_default();
        match all.get_mut(&self.0) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => drop(all.remove(&self.0)),
        }
    }
}

fn refused(code: RefusalCode, why: impl Into<String>) -> StepAnswer {
    StepAnswer::Refused(Refusal::new(code, why))
}

/// Reads; gives a piece or a refusal.
pub async fn read(request: FileRequest) -> StepAnswer {
    if !request.path.0.starts_with(b"/") || request.path.0.contains(&0) {
        return refused(RefusalCode::Invalid, "the file's name is no absolute path");
    }
    let Some(turn) = Turn::take(request.uid.0) else {
        return refused(RefusalCode::TooMany, "too many files are being read: try again");
    };
    let mut child = match start(&request) {
        Ok(child) => child,
        Err(e) => return refused(RefusalCode::Unavailable, format!("no process can be made: {e}")),
    };
    let output = child.stdout.take();
    let reading = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        let read = output.map(|output| output.take(ANSWER as u64).read_to_end(&mut bytes));
        drop(turn); // also where the file system hangs for longer than anybody waits
        read.is_some_and(|read| read.is_ok()).then_some(bytes)
    });
    let read = tokio::time::timeout(PATIENCE, reading).await;
    if read.is_err() {
        // It still has the pipe, so that the number is its own. The daemon reaps it.
        let _ = sys::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), libc::SIGKILL);
    }
    let Ok(Ok(Some(bytes))) = read else {
        return refused(RefusalCode::Unavailable, "the file system takes long to answer");
    };
    let body = bytes.get(frame::HEADER..).unwrap_or_default();
    match frame::decode(body) {
        Ok(answer @ (StepAnswer::Piece(_) | StepAnswer::Refused(_))) => answer,
        Ok(_) | Err(_) => refused(RefusalCode::Unavailable, "the file was not read"),
    }
}

fn start(request: &FileRequest) -> io::Result<Child> {
    let groups: Vec<String> = request.groups.iter().map(|g| g.0.to_string()).collect();
    let from = request.from.map_or("-".to_owned(), |from| from.to_string());
    sys::helper("--read")
        .args([request.uid.0.to_string(), request.gid.0.to_string()])
        .args([groups.join(","), from])
        .arg(OsStr::from_bytes(&request.path.0))
        .spawn()
}

/// The process that reads: `UID GID GROUPS FROM PATH`.
pub fn run_and_exit(words: &[OsString]) -> ! {
    let _ = nix::sys::prctl::set_name(c"cosy-read");
    let answer = match order(words) {
        None => refused(RefusalCode::Invalid, "this is for noded alone"),
        Some((uid, gid, groups, from, path)) => match take_identity(uid, gid, &groups) {
            Err(e) => refused(RefusalCode::Forbidden, format!("cannot read as uid {uid}: {e}")),
            Ok(()) => match piece(path, from) {
                Ok(piece) => StepAnswer::Piece(piece),
                Err(e) => refused(RefusalCode::NotFound, reason(&e)),
            },
        },
    };
    let bytes = frame::encode(&answer, ANSWER).unwrap_or_default();
    let mut out = io::stdout();
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
    sys::exit_now(0)
}

fn reason(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "the file is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "the file may not be read".to_owned(),
        _ => e.to_string(),
    }
}

type Order<'a> = (u32, u32, Vec<u32>, Option<u64>, &'a OsStr);

fn order(words: &[OsString]) -> Option<Order<'_>> {
    let [uid, gid, groups, from, path] = words else {
        return None;
    };
    let groups = groups.to_str()?.split(',').filter(|g| !g.is_empty());
    let groups: Result<Vec<u32>, _> = groups.map(str::parse).collect();
    let from = match from.to_str()? {
        "-" => None,
        number => Some(number.parse().ok()?),
    };
    Some((uid.to_str()?.parse().ok()?, gid.to_str()?.parse().ok()?, groups.ok()?, from, path))
}

/// A daemon that is not root has only its own user's rights to give.
fn take_identity(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    if sys::own_uid() == Uid(uid) {
        return Ok(());
    }
    sys::set_groups(groups)?;
    sys::set_gid(gid)?;
    sys::set_uid(uid)?;
    Ok(())
}

/// Reads a part of a regular file; one that has become shorter is read from its beginning.
fn piece(path: &OsStr, from: Option<u64>) -> io::Result<FilePiece> {
    // Opening something else than a file may take for ever.
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let size = facts.len();
    let from = FilePiece::begin(size, from);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(FILE_PIECE).read_to_end(&mut bytes)?;
    Ok(FilePiece {
        from,
        size,
        bytes: OsText(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "abc").unwrap();
        let read = |path: &std::path::Path, from| piece(path.as_os_str(), from);
        let all = read(&path, Some(0)).unwrap();
        assert_eq!((all.from, all.size, all.bytes.0.as_slice()), (0, 3, b"abc".as_slice()));
        assert!(read(&path, Some(3)).unwrap().bytes.0.is_empty());
        // It began anew, and is shorter now.
        assert_eq!(read(&path, Some(99)).unwrap().from, 0);
        std::fs::write(&path, vec![b'x'; 200_000]).unwrap();
        let last = read(&path, None).unwrap();
        assert_eq!((last.from, last.bytes.0.len() as u64), (200_000 - FILE_PIECE, FILE_PIECE));
        assert!(read(folder.path(), None).is_err());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&pipe, None).is_err());
    }

    #[test]
    fn orders_are_whole() {
        let words = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        let whole = words(&["7", "8", "8,9", "-", "/x"]);
        assert_eq!(order(&whole), Some((7, 8, vec![8, 9], None, OsStr::new("/x"))));
        for odd in [
            &["7", "8", "8,x", "-", "/x"][..],
            &["7", "8", "8", "a", "/x"],
            &["7"],
            &[],
        ] {
            assert_eq!(order(&words(odd)), None, "{odd:?}");
        }
    }

    #[test]
    fn one_user_does_not_take_all_turns() {
        let own: Vec<Turn> = (0..READS_OF_USER)
            .filter_map(|_| Turn::take(4_000_001))
            .collect();
        assert_eq!(own.len(), READS_OF_USER);
        assert!(Turn::take(4_000_001).is_none() && Turn::take(4_000_002).is_some());
        drop(own);
        assert!(Turn::take(4_000_001).is_some());
    }
}
