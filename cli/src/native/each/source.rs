//! Where inputs come from: lines of a file or of standard input, words of the command line, or
//! numbers. They are read on a thread of their own, no further ahead than a few thousand.

use super::queue::Supply;
use super::results::{Earlier, Known};
use super::task::Task;
use anyhow::{Context as _, bail};
use cosy_model::job::TaskIndices;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

/// Bytes of one input: as much as one argument of a program may have (execve(2)), without its end.
pub const INPUT_BYTES: usize = 131_071;
/// Tasks handed on together.
const PIECE: usize = 256;
/// Bytes read at once.
const BUFFER: usize = 64 << 10;
/// Pieces read ahead.
const AHEAD: usize = 16;

/// Where the inputs are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Standard input.
    Stdin,
    /// This file.
    File(PathBuf),
    /// On the command line.
    Words(Vec<OsString>),
    /// Each of these numbers.
    Numbers(TaskIndices),
}

/// Tasks that were read, and how many that are done were passed over with them.
type Piece = anyhow::Result<(Vec<Task>, u64)>;

/// The tasks as they are read.
#[derive(Debug)]
pub struct Source {
    pieces: Receiver<Piece>,
    ready: VecDeque<Task>,
    ended: bool,
}

impl Source {
    /// Begins to read. `wake` is called whenever something was read.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(
        origin: Origin,
        separator: u8,
        earlier: Earlier,
        wake: impl Fn() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (sender, pieces) = sync_channel(AHEAD);
        let inputs = inputs(origin, separator)?;
        let read = move || {
            let deliver = Deliver { sender, wake };
            deliver.all(inputs, &earlier);
        };
        thread::Builder::new()
            .name("inputs".to_owned())
            .spawn(read)
            .context("cannot start a thread for the inputs")?;
        Ok(Self {
            pieces,
            ready: VecDeque::new(),
            ended: false,
        })
    }

    /// The next task, as far as was read.
    ///
    /// # Errors
    /// The inputs cannot be read, one is too long, or one is another than in the earlier run.
    pub fn supply(&mut self) -> anyhow::Result<Supply> {
        loop {
            if let Some(task) = self.ready.pop_front() {
                return Ok(Supply::Task(task));
            }
            if self.ended {
                return Ok(Supply::End);
            }
            match self.pieces.try_recv() {
                Ok(piece) => {
                    let (tasks, before) = piece.inspect_err(|_| self.ended = true)?;
                    self.ready.extend(tasks);
                    if before > 0 {
                        return Ok(Supply::DoneBefore(before));
                    }
                }
                Err(TryRecvError::Empty) => return Ok(Supply::NotYet),
                Err(TryRecvError::Disconnected) => self.ended = true,
            }
        }
    }
}

/// How many inputs there are, where that can be told without reading them twice; counts the lines
/// of a file.
pub fn count(origin: &Origin, separator: u8) -> Option<u64> {
    match origin {
        Origin::Stdin => None,
        Origin::File(path) => count_in(path, separator).ok(),
        Origin::Words(words) => Some(words.len() as u64),
        Origin::Numbers(numbers) => Some(numbers.len() as u64),
    }
}

fn count_in(path: &Path, separator: u8) -> io::Result<u64> {
    // Of others nothing may be read, and opening one may wait or end who writes.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 256 << 10];
    let (mut count, mut last) = (0, separator);
    loop {
        let n = file.read(&mut buffer)?;
        let read = buffer.get(..n).unwrap_or_default();
        let Some(end) = read.last() else {
            return Ok(count + u64::from(last != separator));
        };
        count += read.iter().filter(|b| **b == separator).count() as u64;
        last = *end;
    }
}

/// Inputs in their order.
trait Inputs: Send {
    /// The next one.
    fn next(&mut self) -> Option<anyhow::Result<Vec<u8>>>;
    /// Whether somebody may be waited for until it is there.
    fn may_wait(&self) -> bool;
}

fn inputs(origin: Origin, separator: u8) -> anyhow::Result<Box<dyn Inputs>> {
    Ok(match origin {
        Origin::Stdin => Box::new(Lines::new(io::stdin(), separator)),
        Origin::File(path) => {
            let file = File::open(&path)
                .with_context(|| format!("cannot read the inputs in {}", path.display()))?;
            Box::new(Lines::new(file, separator))
        }
        Origin::Words(words) => Box::new(Ready(words.into_iter().map(OsString::into_vec))),
        Origin::Numbers(numbers) => {
            let each = (0..numbers.len()).filter_map(move |place| numbers.get(place));
            Box::new(Ready(each.map(|n| n.to_string().into_bytes())))
        }
    })
}

struct Ready<I>(I);

impl<I: Iterator<Item = Vec<u8>> + Send> Inputs for Ready<I> {
    fn next(&mut self) -> Option<anyhow::Result<Vec<u8>>> {
        self.0.next().map(Ok)
    }

    fn may_wait(&self) -> bool {
        false
    }
}

struct Lines<R> {
    reader: BufReader<R>,
    separator: u8,
    number: u64,
}

impl<R: Read> Lines<R> {
    fn new(reader: R, separator: u8) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, reader),
            separator,
            number: 0,
        }
    }

    fn line(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        self.number += 1;
        let mut line = Vec::new();
        let most = INPUT_BYTES as u64 + 1;
        let n = (&mut self.reader)
            .take(most)
            .read_until(self.separator, &mut line)
            .with_context(|| format!("cannot read input {}", self.number))?;
        if n == 0 {
            return Ok(None);
        }
        if line.last() == Some(&self.separator) {
            line.pop();
        } else if line.len() > INPUT_BYTES {
            bail!(
                "input {} has more than {INPUT_BYTES} bytes, the most that one argument may have",
                self.number
            );
        }
        if line.contains(&0) {
            bail!("input {} has a NUL in it: --null takes inputs apart there", self.number);
        }
        Ok(Some(line))
    }
}

impl<R: Read + Send> Inputs for Lines<R> {
    fn next(&mut self) -> Option<anyhow::Result<Vec<u8>>> {
        self.line().transpose()
    }

    fn may_wait(&self) -> bool {
        !self.reader.buffer().contains(&self.separator)
    }
}

struct Deliver<W> {
    sender: SyncSender<Piece>,
    wake: W,
}

impl<W: Fn()> Deliver<W> {
    /// Ends early when nobody wants more.
    fn all(self, mut inputs: Box<dyn Inputs>, earlier: &Earlier) {
        let (mut tasks, mut before) = (Vec::new(), 0);
        let mut number = 0;
        while let Some(input) = inputs.next() {
            number += 1;
            let task = input.map(|input| Task {
                number,
                attempt: 1,
                losses: 0,
                input: input.into(),
            });
            let task = match task {
                Ok(task) => task,
                Err(e) => return self.end(tasks, before, Err(e)),
            };
            match earlier.knows(&task) {
                Known::Done => before += 1,
                Known::Open => tasks.push(task),
                Known::Otherwise => return self.end(tasks, before, Err(changed(&task))),
            }
            if tasks.len() >= PIECE || inputs.may_wait() {
                let piece = (std::mem::take(&mut tasks), std::mem::take(&mut before));
                if self.sender.send(Ok(piece)).is_err() {
                    return;
                }
                (self.wake)();
            }
        }
        self.end(tasks, before, Ok(()));
    }

    fn end(self, tasks: Vec<Task>, before: u64, result: anyhow::Result<()>) {
        let _ = self.sender.send(Ok((tasks, before)));
        if let Err(e) = result {
            let _ = self.sender.send(Err(e));
        }
        drop(self.sender);
        (self.wake)();
    }
}

fn changed(task: &Task) -> anyhow::Error {
    anyhow::anyhow!(
        "input {} is '{}', and the file of results has it done with another one: to go on the \
         inputs must be the same, in the same order",
        task.number,
        super::results::escape(&task.input.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn all(origin: Origin, separator: u8) -> anyhow::Result<Vec<(u64, String)>> {
        let (sender, woken) = mpsc::channel();
        let wake = move || {
            let _ = sender.send(());
        };
        let mut source = Source::open(origin, separator, Earlier::default(), wake)?;
        let mut got = Vec::new();
        loop {
            match source.supply()? {
                Supply::Task(task) => got.push((task.number, task.input.lossy())),
                Supply::DoneBefore(tasks) => panic!("{tasks} were done before"),
                Supply::NotYet => woken.recv()?,
                Supply::End => return Ok(got),
            }
        }
    }

    fn in_file(text: &[u8], separator: u8) -> anyhow::Result<Vec<(u64, String)>> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        let origin = Origin::File(file.path().to_owned());
        let got = all(origin.clone(), separator)?;
        assert_eq!(count(&origin, separator), Some(got.len() as u64));
        Ok(got)
    }

    #[test]
    fn lines_are_inputs() {
        let check = |text: &str, separator: u8, want: &[&str]| {
            let got = in_file(text.as_bytes(), separator).unwrap();
            let texts: Vec<&str> = got.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, want, "{text:?}");
            let numbers: Vec<u64> = got.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, (1..=want.len() as u64).collect::<Vec<_>>());
        };
        check("", b'\n', &[]);
        check("a\n\n b c \n", b'\n', &["a", "", " b c "]);
        check("a\nb", b'\n', &["a", "b"]);
        check("a\nb\0c", 0, &["a\nb", "c"]);
        let many: String = (0..10_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(in_file(many.as_bytes(), b'\n').unwrap().len(), 10_000);
    }

    #[test]
    fn what_no_program_can_take_is_refused() {
        let check = |text: &[u8], want: &str| {
            let said = in_file(text, b'\n').unwrap_err().to_string();
            assert!(said.contains(want), "{said}");
        };
        let mut long = b"a\n".to_vec();
        long.resize(INPUT_BYTES + 3, b'x');
        check(&long, "input 2 has more than 131071 bytes");
        check(b"a\0b\n", "--null");
        long.pop();
        assert_eq!(in_file(&long, b'\n').unwrap().len(), 2);
    }

    #[test]
    fn words_and_numbers() {
        let words = Origin::Words(vec!["a".into(), "".into()]);
        assert_eq!(all(words, b'\n').unwrap(), [(1, "a".to_owned()), (2, String::new())]);
        let numbers = Origin::Numbers(TaskIndices::of_ranges(&[(8, 12, 2)]));
        let want = [(1, "8"), (2, "10"), (3, "12")].map(|(n, t)| (n, t.to_owned()));
        assert_eq!(all(numbers, b'\n').unwrap(), want);
    }
}
