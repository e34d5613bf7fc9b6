//! Signals on command lines.

use cosy_model::signal;

/// Reads `USR1`, `SIGUSR1`, `usr1`, `10`.
///
/// # Errors
/// One line that says what a signal is.
pub fn parse(text: &str) -> Result<i32, String> {
    signal::number(text).ok_or_else(|| {
        "no signal: use a name like TERM or USR1, or a number from 1 to 64".to_owned()
    })
}
