//! The program as the controller starts it: what it answers, and what it can no longer do.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use serde_json::{Value as Json, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Set where this program is to try what it must not be able to do.
const INSIDE: &str = "COSY_LUA_TEST_INSIDE";

struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cosy-lua"))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            child,
            input,
            output: BufReader::new(output),
        }
    }

    fn ask(&mut self, line: &Json) -> Json {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(text: &str) -> Json {
    let load = json!({ "path": "/x/job_submit.lua", "text": text, "memory": 256 << 20 });
    json!({ "version": 1, "id": 0, "load": load })
}

#[test]
fn it_answers_and_has_given_up_what_it_had() {
    let mut program = Program::start();
    let script = "print('loaded')
        function slurm_job_submit(d, parts, uid) print('seen') d.time_limit = 5 d.comment = os.date('%H') return 0 end
        function slurm_job_modify() return 0 end";
    let loaded = program.ask(&load(script));
    assert_eq!(loaded, json!({ "id": 0, "log": [{ "level": "info", "text": "loaded" }] }));
    for id in [7, 8] {
        let answer = program.ask(&json!({ "version": 1, "id": id, "fields": { "uid": 5 } }));
        assert_eq!((&answer["id"], &answer["set"]["time_limit"]), (&json!(id), &json!(300)));
        assert_eq!(answer["log"][0]["text"], "seen");
        assert!(
            answer["set"]["comment"]
                .as_str()
                .is_some_and(|hour| hour.len() == 2),
            "{answer}"
        );
    }
    let of =
        |what: &str| fs::read_to_string(format!("/proc/{}/{what}", program.child.id())).unwrap();
    let status = of("status");
    let has = |line: &str| {
        assert!(
            status
                .lines()
                .any(|l| l.split_whitespace().eq(line.split(' '))),
            "{line}: {status}"
        )
    };
    has("NoNewPrivs: 1");
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        has("Seccomp: 2");
    }
    let limits = of("limits");
    for name in ["Max core file size", "Max file size", "Max processes"] {
        let line = limits.lines().find(|l| l.starts_with(name)).unwrap();
        let values: Vec<&str> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(values, ["0", "0"], "{line}");
    }
}

#[test]
fn what_is_no_question_ends_it() {
    for lines in ["", "rubbish\n", "{\"id\":1}\n"] {
        let mut program = Program::start();
        program.input.write_all(lines.as_bytes()).unwrap();
        let Program { child, input, .. } = &mut program;
        // SAFETY-free way to close standard input: a pipe of its own takes its place.
        let (other, _) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
        *input = ChildStdin::from(std::os::fd::OwnedFd::from(other));
        let ended = child.wait().unwrap();
        assert_eq!(ended.success(), lines.is_empty(), "{lines}");
    }
}

#[test]
fn nothing_can_be_opened_started_or_connected() {
    if std::env::var_os(INSIDE).is_some() {
        inside();
    }
    let name = "nothing_can_be_opened_started_or_connected";
    let own = std::env::current_exe().unwrap();
    let tried = Command::new(own)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert_eq!(tried.status.code(), Some(7), "{tried:?}");
}

/// Ends the process with 7 if everything fails that must fail.
fn inside() -> ! {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    cosy_lua::sandbox::enter().unwrap();
    let allowed = [
        fs::read("/etc/passwd").is_ok(),
        fs::write("/tmp/cosy-lua-test", "x").is_ok(),
        fs::read_dir("/").is_ok(),
        Command::new("/bin/true").status().is_ok(),
        std::thread::Builder::new().spawn(|| ()).is_ok(),
        std::net::TcpStream::connect(address).is_ok(),
        UdpSocket::bind("127.0.0.1:0").is_ok(),
        fs::canonicalize("/proc/self/exe").is_ok(),
    ];
    let filtered = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    let bad = allowed.iter().any(|yes| *yes) && filtered;
    std::process::exit(if bad { 1 } else { 7 });
}
