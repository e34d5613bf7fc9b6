//! A file that a job writes: read on from where the reader is, also when it begins anew.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes read at once.
const CHUNK: u64 = 64 << 10;

/// Where reading begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// At the beginning.
    Beginning,
    /// With the last lines, so many.
    LastLines(u64),
}

/// A file that grows.
pub struct Growing {
    path: PathBuf,
    from: From,
    open: Option<Open>,
}

struct Open {
    file: File,
    /// Device and number: another file may come to have the name.
    id: (u64, u64),
    at: u64,
}

/// What reading has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is no such file.
    Absent,
    /// All that is there has been read: so many bytes.
    Read(u64),
}

impl Growing {
    /// The file at a path, which need not be there.
    pub const fn new(path: PathBuf, from: From) -> Self {
        Self {
            path,
            from,
            open: None,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where reading begins.
    pub const fn from(&self) -> From {
        self.from
    }

    /// Whether it has been there.
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Opens it again where it was read: file systems over a network promise only then to show what
    /// another host has written.
    pub fn open_anew(&mut self) {
        if let Some(open) = &mut self.open
            && let Ok(mut file) = open_regular(&self.path)
            && let Ok(meta) = file.metadata()
            && (meta.dev(), meta.ino()) == open.id
            && file.seek(SeekFrom::Start(open.at)).is_ok()
        {
            open.file = file;
        }
    }

    /// Copies what is there and was not copied yet.
    ///
    /// # Errors
    /// It cannot be read; `out` fails.
    pub fn copy(&mut self, out: &mut impl Write) -> io::Result<Progress> {
        let Some(open) = &mut self.open else {
            return Ok(Progress::Absent);
        };
        let mut count = 0;
        loop {
            let some = io::copy(&mut (&open.file).take(CHUNK), out)?;
            count += some;
            open.at += some;
            if some < CHUNK {
                break;
            }
        }
        out.flush()?;
        Ok(Progress::Read(count))
    }

    /// Opens the file that has the name now; true when it was begun anew: it is shorter than it was, or
    /// another one.
    ///
    /// # Errors
    /// It cannot be opened, or is no file.
    pub fn look_again(&mut self) -> io::Result<bool> {
        let found = match std::fs::metadata(&self.path) {
            Ok(found) => found,
            // What is open is read to its end, whatever becomes of its name.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        let id = (found.dev(), found.ino());
        let same = self.open.as_ref().is_some_and(|open| open.id == id);
        if let Some(open) = self.open.as_mut().filter(|_| same) {
            if found.len() >= open.at {
                return Ok(false);
            }
            open.file.seek(SeekFrom::Start(0))?;
            open.at = 0;
            return Ok(true);
        }
        let again = self.open.is_some();
        let mut file = open_regular(&self.path)?;
        let at = match (self.from, again) {
            (From::LastLines(lines), false) => start_of_last_lines(&mut file, lines)?,
            (From::LastLines(_), true) | (From::Beginning, _) => 0,
        };
        file.seek(SeekFrom::Start(at))?;
        let meta = file.metadata()?;
        let id = (meta.dev(), meta.ino());
        self.open = Some(Open { file, id, at });
        Ok(again)
    }
}

/// Opens a file for reading. Nothing else is waited for: a pipe would wait for a writer, and what is
/// read out of it is gone for others.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Where the last lines begin, so many; a line that has no end yet is one.
fn start_of_last_lines(file: &mut File, lines: u64) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    let (mut begin, mut left) = (end, lines);
    let mut chunk = Vec::new();
    while begin > 0 {
        let from = begin.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(from))?;
        chunk.clear();
        (&*file).take(begin - from).read_to_end(&mut chunk)?;
        for (at, byte) in chunk.iter().enumerate().rev() {
            let after = from + at as u64 + 1;
            // The end of the last line ends nothing before it.
            if *byte == b'\n' && after < end {
                if left <= 1 {
                    return Ok(if lines == 0 { end } else { after });
                }
                left -= 1;
            }
        }
        begin = from;
    }
    Ok(if lines == 0 { end } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn copied(growing: &mut Growing) -> (String, Progress) {
        let mut out = Vec::new();
        let again = growing.look_again().unwrap();
        let progress = growing.copy(&mut out).unwrap();
        let mut text = String::from_utf8(out).unwrap();
        if again {
            text.insert_str(0, "again: ");
        }
        (text, progress)
    }

    #[test]
    fn what_grows_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut growing = Growing::new(path.clone(), From::Beginning);
        assert_eq!(copied(&mut growing).1, Progress::Absent);
        let large = "x".repeat(CHUNK as usize) + "\n";
        fs::write(&path, &large).unwrap();
        assert_eq!(copied(&mut growing).0, large);
        fs::write(&path, large.clone() + "more").unwrap();
        let read = Progress::Read;
        assert_eq!(copied(&mut growing), ("more".to_owned(), read(4)));
        assert_eq!(copied(&mut growing), (String::new(), read(0)));
        // A second run writes it anew.
        fs::write(&path, "second").unwrap();
        assert_eq!(copied(&mut growing), ("again: second".to_owned(), read(6)));
        // Another file has the name, and then none.
        fs::rename(&path, folder.path().join("old")).unwrap();
        fs::write(&path, "another one").unwrap();
        assert_eq!(copied(&mut growing), ("again: another one".to_owned(), read(11)));
        fs::remove_file(&path).unwrap();
        assert_eq!(copied(&mut growing), (String::new(), read(0)));
    }

    #[test]
    fn the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let last = |text: &str, lines| {
            fs::write(&path, text).unwrap();
            copied(&mut Growing::new(path.clone(), From::LastLines(lines))).0
        };
        assert_eq!(last("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last("a\nb\nc", 2), "b\nc");
        assert_eq!(last("a\nb\n", 5), "a\nb\n");
        assert_eq!(last("a\nb\n", 0), "");
        assert_eq!(last("a\n\n\n", 2), "\n\n");
        assert_eq!(last("", 3), "");
        // Over pieces that are read at once.
        let line = "y".repeat(1000) + "\n";
        assert_eq!(last(&line.repeat(300), 200), line.repeat(200));
        let long = "z".repeat(3 * CHUNK as usize) + "\n";
        assert_eq!(last(&format!("{long}{long}"), 1), long);
    }

    #[test]
    fn only_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        for path in [pipe, folder.path().to_owned(), "/dev/null".into()] {
            let said = Growing::new(path, From::Beginning).look_again();
            assert!(said.unwrap_err().to_string().contains("no regular file"));
        }
    }
}
