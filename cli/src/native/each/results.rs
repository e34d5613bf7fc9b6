//! The file of results: a line for each attempt that is over, with columns between tabs, and what
//! a later run reads out of it to go on.
//!
//! A line is written when its attempt is over, and it is on the disk a few seconds later: after a
//! power cut the last tasks may run once more.

use super::task::{Ended, Outcome, Task};
use anyhow::{Context as _, bail};
use jiff::Timestamp;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

const HEADER: &str = "#task\tattempt\tresult\texit\tsignal\tnode\tstart\tseconds\tcpu_seconds\
                      \tmemory_kib\tinput";
/// Columns before the input.
const BEFORE_INPUT: usize = 10;
/// Bytes of a line that is still read; an input has fewer, written as it is.
const LINE_BYTES: u64 = 1 << 20;

/// What an earlier run has made of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// It is to be done.
    Open,
    /// It is done.
    Done,
    /// The task of that number is done, and it had another input.
    Otherwise,
}

/// Which tasks an earlier run has done, by number, with what they were about.
#[derive(Debug, Default)]
pub struct Earlier {
    done: HashMap<u64, u64>,
}

impl Earlier {
    /// What is known of a task.
    pub fn knows(&self, task: &Task) -> Known {
        match self.done.get(&task.number) {
            None => Known::Open,
            Some(hash) if *hash == hash_of(&escape(&task.input.0)) => Known::Done,
            Some(_) => Known::Otherwise,
        }
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut columns = line.splitn(BEFORE_INPUT + 1, '\t');
        let number = columns.next()?.parse().ok()?;
        let result = columns.nth(1)?;
        let input = columns.nth(BEFORE_INPUT - 3)?;
        if result == Outcome::Exited(0).word() {
            self.done.insert(number, hash_of(input));
        }
        Some(())
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// What is to be done with a file that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It is an error.
    Refuse,
    /// Tasks that it says are done are left out.
    Resume,
    /// It begins anew.
    Overwrite,
}

/// Writes the file.
#[derive(Debug)]
pub struct Results {
    out: BufWriter<File>,
}

impl Results {
    /// Opens the file, and reads it where a run is to go on.
    ///
    /// # Errors
    /// It cannot be opened, is not a file of results, or is there and may not be.
    pub fn open(path: &Path, existing: Existing) -> anyhow::Result<(Self, Earlier)> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options
            .open(path)
            .with_context(|| format!("cannot open the file of results {shown}"))?;
        let length = file
            .metadata()
            .with_context(|| format!("cannot look at {shown}"))?
            .len();
        let mut earlier = Earlier::default();
        match existing {
            Existing::Refuse if length > 0 => bail!(
                "{shown} has results of an earlier run: --resume goes on with it, --overwrite \
                 begins anew, and --results names another file"
            ),
            Existing::Overwrite => file
                .set_len(0)
                .with_context(|| format!("cannot empty {shown}"))?,
            Existing::Refuse => {}
            Existing::Resume => {
                let whole = read(&file, &mut earlier)
                    .with_context(|| format!("{shown} cannot be gone on with"))?;
                // A line that was cut off by a power cut.
                file.set_len(whole)
                    .with_context(|| format!("cannot mend the end of {shown}"))?;
            }
        }
        let end = file
            .seek(SeekFrom::End(0))
            .with_context(|| format!("cannot write to {shown}"))?;
        let mut out = BufWriter::new(file);
        if end == 0 {
            writeln!(out, "{HEADER}").with_context(|| format!("cannot write to {shown}"))?;
        }
        Ok((Self { out }, earlier))
    }

    /// Writes the line of an attempt.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn add(&mut self, task: &Task, ended: &Ended, node: &str) -> std::io::Result<()> {
        let (exit, signal) = match ended.outcome {
            Outcome::Exited(code) => (code, 0),
            Outcome::Killed(signal) => (0, signal),
            _ => (0, 0),
        };
        let start = Timestamp::from_microsecond(ended.start_us).unwrap_or_default();
        writeln!(
            self.out,
            "{}\t{}\t{}\t{exit}\t{signal}\t{node}\t{start:.3}\t{:.6}\t{:.6}\t{}\t{}",
            task.number,
            task.attempt,
            ended.outcome.word(),
            seconds(ended.elapsed_us),
            seconds(ended.cpu_us),
            ended.memory_kib,
            escape(&task.input.0),
        )
    }

    /// Hands all lines over to the operating system.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }

    /// Brings all lines to the disk.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn sync(&mut self) -> std::io::Result<()> {
        self.out.flush()?;
        match self.out.get_ref().sync_data() {
            // A pipe or a device has nothing to be brought to a disk.
            Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Reads the lines of an earlier run; gives how many bytes are whole lines.
fn read(file: &File, earlier: &mut Earlier) -> anyhow::Result<u64> {
    let mut reader = BufReader::new(file);
    let mut whole = 0;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let n = std::io::Read::take(&mut reader, LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            if n as u64 == LINE_BYTES {
                bail!("line {number} has more than {LINE_BYTES} bytes");
            }
            break;
        }
        line.pop();
        let text = std::str::from_utf8(&line).unwrap_or_default();
        let fine = if number == 1 {
            text == HEADER
        } else {
            earlier.take(text).is_some()
        };
        if !fine {
            bail!("line {number} is not one of a file of results");
        }
        whole += n as u64;
    }
    Ok(whole)
}

/// The input on one line: tabs, line ends, backslashes and what is no text are written with a
/// backslash.
pub fn escape(input: &[u8]) -> String {
    let mut all = String::with_capacity(input.len());
    for chunk in input.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => all.push_str("\\t"),
                '\n' => all.push_str("\\n"),
                '\r' => all.push_str("\\r"),
                '\\' => all.push_str("\\\\"),
                c if c.is_ascii_control() => all.push_str(&format!("\\x{:02x}", c as u32)),
                c => all.push(c),
            }
        }
        for byte in chunk.invalid() {
            all.push_str(&format!("\\x{byte:02x}"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u64, input: &[u8]) -> Task {
        Task {
            number,
            attempt: 1,
            losses: 0,
            input: input.to_vec().into(),
        }
    }

    fn ended(number: u64, outcome: Outcome) -> Ended {
        Ended {
            number,
            outcome,
            start_us: 1_700_000_000_123_456,
            elapsed_us: 1_500_000,
            cpu_us: 20_000,
            memory_kib: 1024,
            output: "".into(),
            errors: "".into(),
            left_out: 0,
        }
    }

    fn has(earlier: &Earlier, number: u64, input: &[u8]) -> Known {
        earlier.knows(&task(number, input))
    }

    #[test]
    fn a_later_run_knows_what_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results");
        let (mut results, _) = Results::open(&path, Existing::Refuse).unwrap();
        for (number, input, outcome) in [
            (1, &b"a\tb\n\\"[..], Outcome::Exited(0)),
            (2, b"b", Outcome::Exited(3)),
            (3, b"\xff", Outcome::Killed(9)),
            (4, b"", Outcome::Exited(0)),
        ] {
            let line = ended(number, outcome);
            results.add(&task(number, input), &line, "n1").unwrap();
        }
        results.sync().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let second = text.lines().nth(1).unwrap();
        let want =
            "1\t1\tok\t0\t0\tn1\t2023-11-14T22:13:20.123Z\t1.500000\t0.020000\t1024\ta\\tb\\n\\\\";
        assert_eq!(second, want);
        assert!(text.contains("\n3\t1\tfailed\t0\t9\t"), "{text}");
        assert!(text.ends_with("\t1024\t\n"), "{text}");

        let refused = Results::open(&path, Existing::Refuse).unwrap_err();
        assert!(refused.to_string().contains("--resume"), "{refused}");
        // Cut off in the middle of a line.
        std::fs::write(&path, format!("{text}5\t1\tok")).unwrap();
        let (_, earlier) = Results::open(&path, Existing::Resume).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(has(&earlier, 1, b"a\tb\n\\"), Known::Done);
        assert_eq!(has(&earlier, 2, b"b"), Known::Open);
        assert_eq!(has(&earlier, 4, b""), Known::Done);
        assert_eq!(has(&earlier, 5, b"x"), Known::Open);
        assert_eq!(has(&earlier, 1, b"else"), Known::Otherwise);
        let (results, earlier) = Results::open(&path, Existing::Overwrite).unwrap();
        assert_eq!(has(&earlier, 1, b"a\tb\n\\"), Known::Open);
        drop(results);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEADER}\n"));
    }

    #[test]
    fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thesis.tex");
        for text in ["\\documentclass\n", &format!("{HEADER}\n1\tx\n")] {
            std::fs::write(&path, text).unwrap();
            let refused = Results::open(&path, Existing::Resume).unwrap_err();
            assert!(format!("{refused:#}").contains(" is not one of a file of results"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
