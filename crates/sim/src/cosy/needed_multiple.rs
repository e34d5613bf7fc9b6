//! The multiple n at which the queue's wait is what it was without reservations.

use cosy_sched::notice::WaitMultiple;

/// The search ends when n is known to so many thousandths.
const TOLERANCE: u32 = 10;

/// What the search has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeededMultiple {
    /// Not needed: the queue waits no longer than without reservations at this n already,
    /// the least that is asked for.
    Lowest(WaitMultiple),
    /// The queue waits longer below, and no longer at this n.
    At(WaitMultiple),
    /// It waits longer even at this n, the largest that was tried.
    Above(WaitMultiple),
}

impl NeededMultiple {
    /// The multiple that was found, or where the search ended.
    pub fn multiple(self) -> WaitMultiple {
        match self {
            Self::Lowest(multiple) | Self::At(multiple) | Self::Above(multiple) => multiple,
        }
    }
}

/// Raises n from `least` until `relative_wait(n)` comes down to 1, as in the paper, and then
/// halves the last step again and again.
pub fn find(
    least: WaitMultiple,
    most: WaitMultiple,
    mut relative_wait: impl FnMut(WaitMultiple) -> f64,
) -> NeededMultiple {
    let mut longer = |n| relative_wait(n) > 1.0;
    if !longer(least) {
        return NeededMultiple::Lowest(least);
    }
    let (mut low, mut high) = (least.0, least.0);
    while longer(WaitMultiple(high)) {
        if high >= most.0 {
            return NeededMultiple::Above(most);
        }
        low = high;
        high = high.saturating_mul(2).clamp(1, most.0);
    }
    while high - low > TOLERANCE {
        let middle = low + (high - low) / 2;
        match longer(WaitMultiple(middle)) {
            true => low = middle,
            false => high = middle,
        }
    }
    NeededMultiple::At(WaitMultiple(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(relative_wait: impl Fn(f64) -> f64, wanted: NeededMultiple) {
        let (least, most) = (WaitMultiple(1000), WaitMultiple(16_000));
        let found = find(least, most, |n| relative_wait(f64::from(n.0) / 1000.0));
        let close = wanted.multiple().0.abs_diff(found.multiple().0) <= TOLERANCE;
        let kind = std::mem::discriminant(&found) == std::mem::discriminant(&wanted);
        assert!(kind && close, "{found:?} instead of {wanted:?}");
    }

    #[test]
    fn n_is_found_where_the_wait_comes_down() {
        check(|n| 3.0 / n, NeededMultiple::At(WaitMultiple(3000)));
        check(|n| 4.567 / n, NeededMultiple::At(WaitMultiple(4567)));
        check(|n| 15.9 / n, NeededMultiple::At(WaitMultiple(15_900)));
        check(|n| 0.9 / n, NeededMultiple::Lowest(WaitMultiple(1000)));
        check(|_| 1.0, NeededMultiple::Lowest(WaitMultiple(1000)));
        check(|_| 1.1, NeededMultiple::Above(WaitMultiple(16_000)));
        check(|n| n, NeededMultiple::Lowest(WaitMultiple(1000)));
        check(|_| f64::NAN, NeededMultiple::Lowest(WaitMultiple(1000)));
    }
}
