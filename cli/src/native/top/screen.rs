//! The terminal: the other screen and raw keys while the command is there, all as it was on every way out.

use crate::launch::tty;
use crate::native::top::draw::draw;
use crate::native::top::state::Top;
use ratatui_core::terminal::Terminal;
use ratatui_termion::TermionBackend;
use std::io::{self, BufWriter, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

/// The other screen, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
/// No colours, the cursor, and the screen that was there before.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
/// Exit code after a panic, as without this.
const PANICKED: i32 = 101;

/// The other screen is there.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The terminal as it is drawn on. Dropped, it is as it was before.
pub struct Screen {
    /// Never dropped: it would write once more, and complain on a terminal that is gone.
    terminal: ManuallyDrop<Terminal<TermionBackend<BufWriter<Stdout>>>>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Its settings cannot be changed, or it cannot be written to.
    pub fn enter() -> io::Result<Self> {
        take()?;
        // A thread that panics would leave a picture that nothing moves any more.
        std::panic::set_hook(Box::new(|panic| {
            give_back();
            let _ = writeln!(io::stderr(), "{panic}");
            std::process::exit(PANICKED);
        }));
        let terminal = blank().inspect_err(|_| give_back())?;
        Ok(Self {
            terminal: ManuallyDrop::new(terminal),
        })
    }

    /// Draws the state. Only what has changed is written, in one piece.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn draw(&mut self, top: &Top) -> io::Result<()> {
        self.terminal.draw(|frame| draw(top, frame.buffer_mut()))?;
        Ok(())
    }

    /// Takes the terminal again, of whose state nothing is known: all of it is drawn next.
    ///
    /// # Errors
    /// It cannot be taken.
    pub fn take_again(&mut self) -> io::Result<()> {
        take()?;
        // Its own way to clear asks the terminal where the cursor is, and waits for the answer.
        *self.terminal = blank()?;
        Ok(())
    }

    /// Gives the terminal back for a while.
    pub fn leave(&mut self) {
        give_back();
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        let window = tty::window();
        (window.columns, window.rows)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// The screen as nothing is on it.
fn blank() -> io::Result<Terminal<TermionBackend<BufWriter<Stdout>>>> {
    let out = BufWriter::with_capacity(64 << 10, io::stdout());
    Terminal::new(TermionBackend::new(out))
}

fn take() -> io::Result<()> {
    tty::raw()?;
    ENTERED.store(true, Ordering::SeqCst);
    write(ENTER)
}

fn give_back() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        // Who is not heard any more needs no screen.
        let _ = write(LEAVE);
        tty::restore();
    }
}

/// Past the lock and the buffer of standard output, which a thread that panics may hold.
fn write(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
