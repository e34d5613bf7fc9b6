//! How the steps of an attempt ended, until the controller has it: a file of records, told
//! in batches and kept until they are durable there, also when the attempt is over before.
//!
//! ```text
//! number of records that were dropped (u64), then each: length (u32), MessagePack
//! ```
//!
//! Told records are dropped from the file only when all of them were taken; whatever is
//! told twice after a restart is taken once, by attempt and step.

use cosy_model::limits;
use cosy_model::node::{AttemptKey, NodeReport};
use cosy_model::step::StepRecord;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Name of the file in the attempt's directory.
pub const RECORDS: &str = "steps";
/// When this many records wait, they are reported at once.
pub const MANY: u64 = 500;
const HEADER: u64 = 8;
const LENGTH: u64 = 4;
/// Beyond this size a file whose records were all taken begins anew, in bytes.
const LARGE: u64 = 64 << 10;
/// Most bytes of records in one report.
const REPORT_BYTES: u64 = 4 << 20;

/// A place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    /// Records before it.
    count: u64,
    /// Bytes before it.
    at: u64,
}

/// The records of one attempt.
#[derive(Debug)]
pub struct Records {
    file: File,
    end: Mark,
    taken: Mark,
    /// End of what was reported and not yet taken.
    reported: Option<Mark>,
}

impl Records {
    /// Opens or makes the file. What was not written whole is cut off.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let mut base = [0; HEADER as usize];
        let length = file.metadata()?.len();
        if length >= HEADER {
            file.read_exact_at(&mut base, 0)?;
        }
        let taken = Mark {
            count: u64::from_le_bytes(base),
            at: HEADER,
        };
        let end = end_of(&file, taken, length)?;
        file.set_len(end.at)?;
        Ok(Self {
            file,
            end,
            taken,
            reported: None,
        })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The file system's.
    pub fn add(&mut self, record: &StepRecord) -> io::Result<()> {
        let mut bytes = vec![0; LENGTH as usize];
        rmp_serde::encode::write_named(&mut bytes, record).map_err(io::Error::other)?;
        let length = bytes.len() as u64 - LENGTH;
        bytes[..LENGTH as usize].copy_from_slice(&(length as u32).to_le_bytes());
        self.file.write_all_at(&bytes, self.end.at)?;
        self.end.at += bytes.len() as u64;
        self.end.count += 1;
        Ok(())
    }

    /// Number of records that were not yet reported on this link.
    pub fn unreported(&self) -> u64 {
        let reported = self.reported.unwrap_or(self.taken);
        self.end.count.saturating_sub(reported.count)
    }

    /// True when the controller has them all.
    pub fn all_taken(&self) -> bool {
        self.taken.count >= self.end.count
    }

    /// True while an answer is awaited.
    pub fn awaits_answer(&self) -> bool {
        self.reported.is_some()
    }

    /// A new link: what was not taken is to be reported again.
    pub fn begin_anew(&mut self) {
        self.reported = None;
    }

    /// The next report; `None` when everything was reported.
    ///
    /// # Errors
    /// The file system's.
    pub fn next_report(&mut self, key: AttemptKey, node: &str) -> io::Result<Option<NodeReport>> {
        let from = self.reported.unwrap_or(self.taken);
        let mut mark = from;
        let mut records = Vec::new();
        while mark.count < self.end.count
            && records.len() < limits::STEP_RECORDS
            && mark.at - from.at < REPORT_BYTES
        {
            let (record, next) = read_at(&self.file, mark)?;
            records.push(record);
            mark = next;
        }
        if records.is_empty() {
            return Ok(None);
        }
        self.reported = Some(mark);
        Ok(Some(NodeReport::Steps {
            key,
            node: node.to_owned(),
            before: from.count,
            records,
        }))
    }

    /// The records up to this number are durable.
    ///
    /// # Errors
    /// The file system's.
    pub fn taken(&mut self, count: u64) -> io::Result<()> {
        let Some(reported) = self.reported.filter(|reported| reported.count <= count) else {
            return Ok(());
        };
        (self.taken, self.reported) = (reported, None);
        if self.all_taken() && self.end.at > LARGE {
            self.file.write_all_at(&self.end.count.to_le_bytes(), 0)?;
            self.file.set_len(HEADER)?;
            self.end.at = HEADER;
            self.taken = self.end;
        }
        Ok(())
    }
}

/// Finds the end of the last whole record.
fn end_of(file: &File, first: Mark, length: u64) -> io::Result<Mark> {
    if length < HEADER {
        file.write_all_at(&[0; HEADER as usize], 0)?;
        return Ok(Mark {
            count: 0,
            at: HEADER,
        });
    }
    let mut mark = first;
    while let Ok((_, next)) = read_at(file, mark) {
        mark = next;
    }
    Ok(mark)
}

fn read_at(file: &File, mark: Mark) -> io::Result<(StepRecord, Mark)> {
    let mut length = [0; LENGTH as usize];
    file.read_exact_at(&mut length, mark.at)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > limits::FRAME_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    file.read_exact_at(&mut body, mark.at + LENGTH)?;
    let record = rmp_serde::from_slice(&body).map_err(io::Error::other)?;
    let next = Mark {
        count: mark.count + 1,
        at: mark.at + LENGTH + length as u64,
    };
    Ok((record, next))
}

/// Where the records of an attempt are that was forgotten before they were taken.
pub fn left_over(directory: &Path, key: AttemptKey) -> std::path::PathBuf {
    directory.join(format!("{RECORDS}.{}", crate::spool::name_of(key)))
}

/// The attempts that were forgotten before their records were taken.
pub fn list_left_over(directory: &Path) -> Vec<AttemptKey> {
    let prefix = format!("{RECORDS}.");
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            crate::spool::key_of(name.to_str()?.strip_prefix(&prefix)?)?.job()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::StepId;
    use cosy_model::{End, EndCause, Time};

    fn record(step: u32) -> StepRecord {
        StepRecord {
            step: StepId(step),
            name: "x".repeat(100),
            nodes: "n1".into(),
            tasks: 1,
            cores: 1,
            end: End::never_ran(EndCause::Exited, Time(7)),
        }
    }

    fn reported(records: &mut Records) -> Option<(u64, Vec<u32>)> {
        let key = crate::spool::key_of("12.1").unwrap().job().unwrap();
        match records.next_report(key, "n1").unwrap()? {
            NodeReport::Steps {
                before, records, ..
            } => Some((before, records.iter().map(|r| r.step.0).collect())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn records_are_told_until_they_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORDS);
        let mut records = Records::open(&path).unwrap();
        (0..3).for_each(|n| records.add(&record(n)).unwrap());
        assert_eq!(reported(&mut records), Some((0, vec![0, 1, 2])));
        records.add(&record(3)).unwrap();
        assert_eq!((records.unreported(), records.awaits_answer()), (1, true));
        // The link broke: told again.
        records.begin_anew();
        assert_eq!(reported(&mut records), Some((0, vec![0, 1, 2, 3])));
        assert_eq!(reported(&mut records), None);
        records.taken(3).unwrap();
        assert!(!records.all_taken());
        records.taken(4).unwrap();
        assert!(records.all_taken());
        // The daemon was restarted, in the middle of a write.
        let length = records.end.at;
        records.add(&record(4)).unwrap();
        drop(records);
        for cut in [length + 1, length + 7, length] {
            OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(cut)
                .unwrap();
            let mut records = Records::open(&path).unwrap();
            assert_eq!(reported(&mut records), Some((0, vec![0, 1, 2, 3])), "{cut}");
        }
    }

    #[test]
    fn a_long_file_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECORDS);
        let mut records = Records::open(&path).unwrap();
        (0..1200).for_each(|n| records.add(&record(n)).unwrap());
        let (before, first) = reported(&mut records).unwrap();
        assert_eq!((before, first.len()), (0, limits::STEP_RECORDS));
        records.taken(1000).unwrap();
        let (before, second) = reported(&mut records).unwrap();
        assert_eq!((before, second.len()), (1000, 200));
        records.taken(1200).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), HEADER);
        records.add(&record(1200)).unwrap();
        drop(records);
        let mut records = Records::open(&path).unwrap();
        assert_eq!(reported(&mut records), Some((1200, vec![1200])));
        let key = crate::spool::key_of("12.1").unwrap().job().unwrap();
        fs::rename(&path, left_over(dir.path(), key)).unwrap();
        assert_eq!(list_left_over(dir.path()), [key]);
    }
}
