//! Commands as programs, in a folder of their own, against a fake controller that gives the answers
//! of the test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(dead_code, reason = "each test program uses a part")]

use cosy_model::api::{Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_proto::client::{ReplyFrame, RequestFrame};
use cosy_proto::frame;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A folder with links to the commands and, where a test wants one, a fake controller.
pub struct Sandbox {
    /// The folder.
    pub root: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub error: String,
}

impl Sandbox {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::create_dir(root.path().join("run")).unwrap();
        for name in [
            "cosy", "csub", "cresv", "cstat", "ccancel", "chist", "cadm", "ctop", "calloc",
            "cbcast",
        ] {
            let link = root.path().join("bin").join(name);
            symlink(env!("CARGO_BIN_EXE_cosy"), link).unwrap();
        }
        Self { root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Starts a fake controller that gives one answer for each request; joining it gives the requests.
    pub fn controller(&self, answers: Vec<Reply>) -> JoinHandle<Vec<Request>> {
        let listener = UnixListener::bind(self.path("run/cosyd.sock")).unwrap();
        std::thread::spawn(move || {
            let mut asked = Vec::new();
            let mut answers = answers.into_iter();
            while answers.len() > 0 {
                let (mut stream, _) = listener.accept().unwrap();
                while let Some(ask) = frame::read::<RequestFrame>(&mut stream, FRAME_BYTES).unwrap()
                {
                    assert_eq!(ask.key.is_some(), ask.request.changes());
                    asked.push(ask.request);
                    let answer = ReplyFrame::new(answers.next().unwrap());
                    frame::write(&mut stream, &answer, FRAME_BYTES).unwrap();
                }
            }
            asked
        })
    }

    pub fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin").join(line[0]));
        command
            .args(&line[1..])
            .env_clear()
            .env("COLOUR", "blue")
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, line: &[&str]) -> Outcome {
        self.finish(self.command(line), b"")
    }

    pub fn finish(&self, mut command: Command, input: &[u8]) -> Outcome {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if !input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            // The command may refuse before it has read all.
            let _ = stdin.write_all(input);
        }
        let out = child.wait_with_output().unwrap();
        Outcome {
            code: out.status.code().unwrap_or(-1),
            out: String::from_utf8(out.stdout).unwrap(),
            error: String::from_utf8(out.stderr).unwrap(),
        }
    }

    pub fn script(&self, name: &str, text: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// One line on standard error that holds `want`, and that exit code.
pub fn assert_one_line_error(got: &Outcome, code: i32, want: &str) {
    assert_eq!(got.code, code, "{got:?}");
    assert!(got.error.contains(want), "{want}: {got:?}");
    assert_eq!(got.error.lines().count(), 1, "{got:?}");
    assert!(got.error.len() < 1000, "{got:?}");
}
