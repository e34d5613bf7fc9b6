//! The user's terminal: raw while a step has a terminal of its own, as it was on every
//! way out.
//!
//! Once it was changed, its former state is kept for the whole program: [`restore`] may be
//! called from anywhere, any number of times.

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

/// Keys go through as they are, until [`restore`].
///
/// # Errors
/// Those of the system.
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

/// The terminal as it was.
pub fn restore() {
    // Whoever holds the lock has panicked: then it is not known what the state was.
    let former = FORMER.lock().ok().and_then(|mut kept| kept.take());
    if let Some(former) = former {
        let stdin = rustix::stdio::stdin();
        let _ = termios::tcsetattr(stdin, OptionalActions::Drain, &former);
    }
}

/// True while keys go through as they are: lines need a carriage return then.
pub fn is_raw() -> bool {
    FORMER.lock().is_ok_and(|kept| kept.is_some())
}

/// How large the terminal is; 80 by 24 where there is none.
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
