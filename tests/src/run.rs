//! Commands as child processes, with a time-out.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer hangs.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// How a command ended and what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Exit code; 128 and the signal when a signal ended it.
    pub code: i32,
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

impl Output {
    /// Itself, when it ended with that code.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.out, self.err);
        self
    }

    /// Itself, when it failed with one line on standard error that has `text`.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn expect_refusal(self, text: &str) -> Self {
        assert_ne!(self.code, 0, "not refused: {self:?}");
        assert!(self.code < 128, "ended by a signal: {self:?}");
        assert_eq!(self.err.lines().count(), 1, "one line: {self:?}");
        assert!(self.err.contains(text), "'{text}' is not said: {self:?}");
        self
    }
}

/// Runs a command to its end.
///
/// # Panics
/// When it takes longer than [`TIMEOUT`] or cannot be started.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    run_with(command, b"")
}

/// Runs a command with that standard input.
///
/// # Panics
/// When it takes longer than [`TIMEOUT`] or cannot be started.
#[track_caller]
pub fn run_with(command: &mut Command, input: &[u8]) -> Output {
    finish(spawn(command), input, TIMEOUT)
}

/// Starts a command with pipes.
///
/// # Panics
/// When it cannot be started.
#[track_caller]
pub fn spawn(command: &mut Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => child,
        Err(e) => panic!("{command:?}: {e}"),
    }
}

/// A command under way, whose output is looked at meanwhile. It ends with this value.
pub struct Watched {
    child: Option<Child>,
    out: PathBuf,
    err: PathBuf,
}

impl Watched {
    /// Starts a command that writes into files in this folder.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command, folder: &Path) -> Self {
        let [out, err] = ["watched.out", "watched.err"].map(|name| folder.join(name));
        let file = |path: &Path| Stdio::from(File::create(path).expect("a file"));
        let child = command.stdout(file(&out)).stderr(file(&err)).spawn();
        Self {
            child: Some(child.expect("a command starts")),
            out,
            err,
        }
    }

    /// What it has said so far.
    pub fn out(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// The same on standard error.
    pub fn err(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// How it ends, and all that it has said.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn finish(mut self) -> Output {
        let child = self.child.take().expect("it is under way");
        let ended = finish(child, &[], TIMEOUT);
        Output {
            out: self.out(),
            err: self.err(),
            ..ended
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for the end of a command that [`spawn`] started.
///
/// # Panics
/// When it takes longer than `timeout`.
#[track_caller]
pub fn finish(mut child: Child, input: &[u8], timeout: Duration) -> Output {
    let input = input.to_vec();
    let stdin = child.stdin.take();
    let writer = std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&input);
        }
    });
    let out = collect(child.stdout.take());
    let err = collect(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if start.elapsed() > timeout {
            let _ = child.kill();
            let _ = child.wait();
            panic!("a command did not end within {timeout:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let _ = writer.join();
    let text = |t: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&t.join().unwrap_or_default()).into_owned()
    };
    Output {
        code: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        out: text(out),
        err: text(err),
    }
}

fn collect(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}
