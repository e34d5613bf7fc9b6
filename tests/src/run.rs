//! Commands as child processes, with a time-out.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
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
