//! Waiting for conditions, with deadlines.

use std::time::{Duration, Instant};

/// What usually takes milliseconds may take so long on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
pub const TICK: Duration = Duration::from_millis(10);

/// Asks until there is an answer.
///
/// # Panics
/// After [`PATIENCE`], saying what was waited for.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, ask)
}

/// Asks until there is an answer.
///
/// # Panics
/// After that time.
pub fn until_within<T>(patience: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < patience, "after {patience:?} still not: {what}");
        std::thread::sleep(TICK);
    }
}

/// Asks until it is true.
///
/// # Panics
/// After [`PATIENCE`].
pub fn until_true(what: &str, mut ask: impl FnMut() -> bool) {
    until(what, || ask().then_some(()));
}
