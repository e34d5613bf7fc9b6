//! Mutexes, also those whose holder died while it had them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Holds `mutex`; what a thread that died has left there is taken as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
