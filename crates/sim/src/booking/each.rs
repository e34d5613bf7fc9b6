//! Long lists of runs, spread over the cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `of` every item, on as many threads as there are cores, in the order of the items; `told`
/// is called with the number of items that are done after each.
pub fn each<'a, T: Sync, R: Send>(
    items: &'a [T],
    told: &(dyn Fn(u64) + Sync),
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
            told(finished.fetch_add(1, Ordering::Relaxed) as u64 + 1);
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
        let told = |done| {
            last.fetch_max(done as usize, Ordering::Relaxed);
        };
        let got = each(&items, &told, |item| item * item);
        let want: Vec<u64> = items.iter().map(|item| item * item).collect();
        assert_eq!(got, want);
        assert_eq!(last.into_inner(), 100);
        assert!(each(&[0u8; 0], &|_| {}, |item| *item).is_empty());
    }
}
