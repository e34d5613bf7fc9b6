//! What a job writes.
//!
//! A page of a site runs as a user of its own and may read nobody's files: a node daemon reads them as
//! the job's user, on the job's first node while it runs, and on this host afterwards. One that somebody
//! runs as himself (`cosy dev --web`) reads that user's files, with that user's rights and for that user
//! only.

use super::values::job_ref;
use crate::interactive::nodes;
use crate::params::Params;
use crate::problem::{Answer, Problem, Result};
use crate::site::{Site, SiteState};
use crate::who::Who;
use axum::extract::{Path, State};
use cosy_model::api::{JobField, Reply, Request, Table};
use cosy_model::limits::FILE_PIECE;
use cosy_model::step::FilePiece;
use cosy_model::{JobId, JobState, OsText};
use serde::Deserialize;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Which part of which file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputAsk {
    /// `out` or `err`.
    #[serde(default)]
    stream: Stream,
    /// From which byte on; without, the last ones.
    from: Option<u64>,
}

#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
enum Stream {
    #[default]
    Out,
    Err,
}

/// A part of what a job has written.
pub async fn output(
    State(site): SiteState,
    who: Who,
    Path(name): Path<String>,
    Params(ask): Params<OutputAsk>,
) -> Result {
    let job = job_ref(&name)?;
    let Reply::Explained { table, .. } =
        site.cluster.ask(who.uid, Request::Explain { job }).await?
    else {
        return Err(Problem::unexpected());
    };
    if table.rows != 1 || !table.is_sound() {
        return Err(Problem::invalid("name one task: 12_3"));
    }
    if table.number(0, JobField::Uid) != Some(i64::from(who.uid.0)) {
        return Err(Problem::forbidden(format!("job {job} belongs to somebody else")));
    }
    let Some(path) = path(&table, ask.stream) else {
        return Err(Problem::not_found(format!("job {job} writes no file")));
    };
    if who.uid.0 != nix::unistd::geteuid().as_raw() {
        return Ok(told(&through_node(&site, &who, &table, &path, ask.from).await?));
    }
    let read = tokio::task::spawn_blocking(move || read(&path, ask.from)).await;
    match read {
        Ok(Ok(piece)) => Ok(told(&piece)),
        Ok(Err(e)) if e.kind() == io::ErrorKind::NotFound => {
            Err(Problem::not_found("the file is not there yet, or not on this host"))
        }
        Ok(Err(e)) => Err(Problem::not_found(format!("the file cannot be read: {e}"))),
        Err(_) => Err(Problem::unexpected()),
    }
}

fn told(piece: &FilePiece) -> Answer {
    Answer(json!({
        "text": piece.bytes.lossy(), "from": piece.from,
        "to": piece.from + piece.bytes.0.len() as u64, "size": piece.size,
    }))
}

/// Reads by a node daemon, as the user.
async fn through_node(
    site: &Site,
    who: &Who,
    table: &Table,
    path: &std::path::Path,
    from: Option<u64>,
) -> Result<FilePiece> {
    let id = table
        .number(0, JobField::Id)
        .and_then(|id| u64::try_from(id).ok());
    let job = JobId(id.ok_or_else(Problem::unexpected)?);
    let path = OsText(path.as_os_str().as_bytes().to_vec());
    let runs = table.text(0, JobField::State).parse() == Ok(JobState::Running);
    let mut read = nodes::read_file(site, who.uid, job, runs, path.clone(), from).await;
    if runs
        && read
            .as_ref()
            .is_err_and(|problem| problem.code == "wrong_state")
    {
        // It ended meanwhile.
        read = nodes::read_file(site, who.uid, job, false, path, from).await;
    }
    Ok(whole(read?))
}

/// Where it writes.
fn path(table: &Table, stream: Stream) -> Option<PathBuf> {
    let text = |field| table.text(0, field);
    let file = match stream {
        Stream::Err if !text(JobField::Stderr).is_empty() => text(JobField::Stderr),
        Stream::Err | Stream::Out => text(JobField::Stdout),
    };
    let folder = PathBuf::from(text(JobField::Workdir));
    (!file.is_empty() && folder.is_absolute()).then(|| folder.join(file))
}

/// Reads a part of a regular file; one that has become shorter is read from its beginning.
fn read(path: &std::path::Path, from: Option<u64>) -> io::Result<FilePiece> {
    // Opening something else than a file may take for ever.
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
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
    let bytes = OsText(bytes);
    Ok(whole(FilePiece { from, size, bytes }))
}

/// A part that does not end in the middle of a character, as long as there is something before it.
fn whole(mut piece: FilePiece) -> FilePiece {
    if let Err(e) = std::str::from_utf8(&piece.bytes.0)
        && e.error_len().is_none()
        && e.valid_up_to() > 0
    {
        piece.bytes.0.truncate(e.valid_up_to());
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "aü").unwrap();
        let all = read(&path, Some(0)).unwrap();
        assert_eq!((all.from, all.size, all.bytes.0.as_slice()), (0, 3, "aü".as_bytes()));
        assert!(read(&path, Some(3)).unwrap().bytes.0.is_empty());
        // It began anew, and is shorter now.
        assert_eq!(read(&path, Some(99)).unwrap().from, 0);
        // Half of a character waits for the rest.
        std::fs::write(&path, [b'a', 0xc3]).unwrap();
        assert_eq!(read(&path, Some(0)).unwrap().bytes.0, b"a");
        std::fs::write(&path, vec![b'x'; 200_000]).unwrap();
        let last = read(&path, None).unwrap();
        assert_eq!((last.from, last.bytes.0.len() as u64), (200_000 - FILE_PIECE, FILE_PIECE));
        assert!(read(folder.path(), None).is_err());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&pipe, None).is_err());
    }
}
