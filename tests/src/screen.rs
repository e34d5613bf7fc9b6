//! A program that draws on a terminal, and what is seen of it there.

use crate::wait;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A program on a terminal of its own. When it is dropped, the program is ended.
pub struct OnScreen {
    child: Child,
    master: File,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
    /// How it has ended.
    code: Option<i32>,
}

/// What it has written, and what a terminal shows of that.
struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

const fn size((columns, rows): (u16, u16)) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Both ends of a new terminal. Nobody inherits them: the program would hold its own terminal open.
fn terminal(columns_rows: (u16, u16)) -> OpenptyResult {
    let pty = openpty(Some(&size(columns_rows)), None).expect("a terminal");
    for end in [&pty.master, &pty.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag");
    }
    pty
}

/// Starts a command on a terminal that is gone as soon as the command has written this; its exit code.
///
/// # Panics
/// When it does not write that, or does not end.
#[track_caller]
pub fn hang_up_after(command: &mut Command, what: &str) -> i32 {
    let pty = terminal((80, 24));
    let end = || Stdio::from(pty.slave.try_clone().expect("its other end"));
    command.stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().expect("a command starts");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    drop(pty.slave);
    let mut master = File::from(pty.master);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(what) {
        let mut bytes = [0; 4096];
        let count = master.read(&mut bytes).expect("it is there and writes");
        seen.extend(bytes.iter().take(count));
    }
    drop(master);
    let begun = std::time::Instant::now();
    while begun.elapsed() < wait::PATIENCE {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(wait::TICK);
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("it goes on without its terminal");
}

/// A number of rows or columns that a terminal can have.
fn some(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).expect("a terminal has rows and columns")
}

impl OnScreen {
    /// Starts a command on a terminal of so many columns and rows.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command, (columns, rows): (u16, u16)) -> Self {
        let pty = terminal((columns, rows));
        let end = || Stdio::from(pty.slave.try_clone().expect("its other end"));
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command
            .env("TERM", "xterm")
            .spawn()
            .expect("a command starts");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let seen = Arc::new(Mutex::new(Seen {
            parser: vt100::Parser::new(some(rows), some(columns), 0),
            bytes: Vec::new(),
        }));
        let master = File::from(pty.master);
        let mut screen = master.try_clone().expect("the same terminal");
        let shared = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // At the end Linux tells an error.
            while let Ok(count) = screen.read(&mut bytes) {
                let Some(bytes) = bytes.get(..count).filter(|bytes| !bytes.is_empty()) else {
                    break;
                };
                let mut seen = shared.lock().expect("nobody has panicked with it");
                seen.parser.process(bytes);
                seen.bytes.extend_from_slice(bytes);
            }
        });
        Self {
            child,
            master,
            seen,
            reader: Some(reader),
            code: None,
        }
    }

    fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().expect("nobody has panicked with it"))
    }

    /// What is on the screen, without what is blank at the ends of lines.
    pub fn text(&self) -> String {
        let text = self.seen(|seen| seen.parser.screen().contents());
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    /// All that it has written.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen(|seen| seen.bytes.clone())
    }

    /// Whether the terminal is as it was before: its first screen, with a cursor, and with lines that
    /// the terminal reads.
    pub fn is_as_before(&self) -> bool {
        let (alternate, hidden) = self.seen(|seen| {
            let screen = seen.parser.screen();
            (screen.alternate_screen(), screen.hide_cursor())
        });
        let modes = tcgetattr(&self.master).expect("the modes of a terminal");
        let lines = LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG;
        !alternate && !hidden && modes.local_flags.contains(lines)
    }

    /// Waits until that is on the screen.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn until(&self, what: &str) {
        self.until_seen(what, |text| text.contains(what));
    }

    /// Waits until the screen is good.
    ///
    /// # Panics
    /// When it does not become so.
    #[track_caller]
    pub fn until_seen(&self, what: &str, good: impl Fn(&str) -> bool) {
        let begun = std::time::Instant::now();
        while !good(&self.text()) {
            assert!(begun.elapsed() < wait::PATIENCE, "not seen: {what}\n{}", self.text());
            std::thread::sleep(wait::TICK);
        }
    }

    /// Presses keys.
    ///
    /// # Panics
    /// When nobody reads them.
    pub fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("keys");
    }

    /// Gives the terminal another size.
    ///
    /// # Panics
    /// When that cannot be.
    pub fn resize(&mut self, (columns, rows): (u16, u16)) {
        let size = rustix::termios::Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&self.master, size).expect("another size");
        let mut seen = self.seen.lock().expect("nobody has panicked with it");
        seen.parser.screen_mut().set_size(some(rows), some(columns));
        drop(seen);
        // It is not in the foreground of the terminal: nobody else tells it.
        self.signal(Signal::SIGWINCH);
    }

    /// Sends a signal to the program.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is there");
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }

    /// Waits until it has stopped itself.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn until_stopped(&self) {
        let flags = WaitPidFlag::WUNTRACED | WaitPidFlag::WNOHANG;
        wait::until_true("it has stopped", || {
            matches!(waitpid(self.pid(), Some(flags)), Ok(WaitStatus::Stopped(..)))
        });
    }

    /// Its exit code, 128 and the signal where one ended it. All that it has written is seen then.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn finish(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let status = wait::until("it has ended", || self.child.try_wait().expect("a child"));
        if let Some(reader) = self.reader.take() {
            reader.join().expect("a reader ends");
        }
        let code = status.code();
        let code = code.unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        self.code = Some(code);
        code
    }
}

impl Drop for OnScreen {
    fn drop(&mut self) {
        if self.code.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
