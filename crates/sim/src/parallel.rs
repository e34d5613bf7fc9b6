//! Maps a list in parallel, for runs that do not depend on each other.
//!
//! What always holds: results stand in the order of the items, whatever thread was first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `of` with every item, on as many threads as there are cores.
pub fn map<'a, T: Sync, R: Send>(items: &'a [T], of: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    map_with_progress(items, &|_| {}, of)
}

/// As [`map`]; `progress` is called after each item with the number of those that are done.
pub fn map_with_progress<'a, T: Sync, R: Send>(
    items: &'a [T],
    progress: &(dyn Fn(u64) + Sync),
    of: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        while let Some((at, item)) = taken(items, &next) {
            let result = of(item);
            let mut done = done.lock().unwrap_or_else(|broken| broken.into_inner());
            done.push((at, result));
            drop(done);
            progress(finished.fetch_add(1, Ordering::Relaxed) as u64 + 1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(work);
        }
    });
    let mut done = done
        .into_inner()
        .unwrap_or_else(|broken| broken.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn taken<'a, T>(items: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, items.get(at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stay_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let last = AtomicUsize::new(0);
        let progress = |done| {
            last.fetch_max(done as usize, Ordering::Relaxed);
        };
        let got = map_with_progress(&items, &progress, |item| item * item);
        let want: Vec<u64> = items.iter().map(|item| item * item).collect();
        assert_eq!(got, want);
        assert_eq!(last.into_inner(), 100);
        assert!(map(&[0u8; 0], |item| *item).is_empty());
    }
}
