//! The user's terminal: raw while a step has a terminal of its own, and restored on every way out of
//! the program.
//!
//! The state before the first change is kept for the whole program: [`restore`] may be called from
//! anywhere, any number of times.

use crate::output;
use cosy_model::step::Window;
use rustix::termios::{self, OptionalActions, Termios};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Mutex;

static FORMER: Mutex<Option<Termios>> = Mutex::new(None);

/// True when standard input is a terminal.
pub fn is_there() -> bool {
    termios::isatty(rustix::stdio::stdin())
}

/// Makes the terminal raw (keys go to the tasks as they are) until [`restore`].
///
/// # Errors
/// The terminal's settings cannot be read or changed.
pub fn raw() -> io::Result<()> {
    let stdin = rustix::stdio::stdin();
    let former = termios::tcgetattr(stdin)?;
    let mut raw = former.clone();
    raw.make_raw();
    if let Ok(mut kept) = FORMER.lock() {
        kept.get_or_insert(former);
    }
    std::panic::set_hook(Box::new(|panic| {
        restore();
        let _ = writeln!(io::stderr(), "{panic}");
    }));
    Ok(termios::tcsetattr(stdin, OptionalActions::Drain, &raw)?)
}

/// Gives the terminal the state that it had before [`raw`].
pub fn restore() {
    // A poisoned lock: the thread that held it has panicked, and the former state is unknown.
    let former = FORMER.lock().ok().and_then(|mut kept| kept.take());
    if let Some(former) = former {
        let stdin = rustix::stdio::stdin();
        let _ = termios::tcsetattr(stdin, OptionalActions::Drain, &former);
    }
}

/// True while the terminal is raw: lines of messages need a carriage return then.
pub fn is_raw() -> bool {
    FORMER.lock().is_ok_and(|kept| kept.is_some())
}

/// Size of the terminal in characters; 80 by 24 where there is none.
pub fn window() -> Window {
    let size = termios::tcgetwinsize(rustix::stdio::stdin())
        .or_else(|_| termios::tcgetwinsize(rustix::stdio::stdout()));
    match size {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => Window {
            rows: size.ws_row,
            columns: size.ws_col,
        },
        Ok(_) | Err(_) => Window {
            rows: 24,
            columns: 80,
        },
    }
}

/// True when this terminal may be read now: the program is in its foreground, or it is no
/// terminal that knows of groups.
pub fn may_read(fd: impl AsFd) -> bool {
    match termios::tcgetpgrp(&fd) {
        Ok(group) => group.as_raw_nonzero().get() == nix::unistd::getpgrp().as_raw(),
        Err(_) => true,
    }
}

/// One line on standard error, also while the terminal is raw.
pub fn say(program: &str, text: &str) {
    let raw = is_raw();
    let turn = || {
        if raw {
            let _ = io::stderr().write_all(b"\r");
        }
    };
    turn();
    output::complain(program, text);
    turn();
}
