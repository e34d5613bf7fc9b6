//! Fractions of wide integers that are compared exactly.

use std::cmp::Ordering;

/// A fraction of two products, each of 64 and 128 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction {
    over: (u64, u128),
    under: (u64, u128),
    /// About as much: tells fractions that are far from each other.
    about: f64,
}

/// Fractions that differ by more than this part of the larger are told by their approximations, whose
/// errors are far smaller.
const FAR: f64 = 1e-9;

impl Fraction {
    /// `(a * b) / (c * d)`; `c` and `d` are not zero.
    pub fn new((a, b): (u64, u128), (c, d): (u64, u128)) -> Self {
        Self {
            over: (a, b),
            under: (c, d),
            about: (a as f64 * b as f64) / (c as f64 * d as f64),
        }
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fraction {}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.about, other.about);
        if (one - two).abs() > FAR * one.max(two) {
            return one.total_cmp(&two);
        }
        let wide = |(a, b): (u64, u128)| -> [u64; 3] { product(&[a], &halves(b)) };
        let here: [u64; 6] = product(&wide(self.over), &wide(other.under));
        let there: [u64; 6] = product(&wide(other.over), &wide(self.under));
        here.iter().rev().cmp(there.iter().rev())
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The low and the high half.
const fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

/// The product of two numbers, low limbs first; `N` is the number of limbs of both.
fn product<const N: usize>(a: &[u64], b: &[u64]) -> [u64; N] {
    let mut out = [0u64; N];
    for (at, x) in a.iter().enumerate() {
        let mut carry = 0u128;
        let limbs = out.iter_mut().skip(at);
        for (limb, y) in limbs.zip(b.iter().copied().chain(std::iter::once(0))) {
            let sum = u128::from(*x) * u128::from(y) + u128::from(*limb) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest() {
        let most = Fraction::new((u64::MAX, u128::MAX), (1, 1));
        let next = Fraction::new((u64::MAX, u128::MAX - 1), (1, 1));
        assert!(next < most);
        let same = Fraction::new((u64::MAX, u128::MAX), (u64::MAX, u128::MAX));
        assert_eq!(same, Fraction::new((7, 9), (9, 7)));
    }

    proptest! {
        #[test]
        fn as_with_small_numbers(n in prop::array::uniform8(1..1u64 << 15)) {
            let [a, b, c, d, e, f, g, h] = n.map(u128::from);
            let one = Fraction::new((n[0], b), (n[2], d));
            let two = Fraction::new((n[4], f), (n[6], h));
            prop_assert_eq!(one.cmp(&two), (a * b * g * h).cmp(&(e * f * c * d)));
        }

        #[test]
        fn as_when_both_are_made_larger(n in prop::array::uniform4(1..1u64 << 15), by in 0..100u32) {
            let [a, b, c, d] = n.map(u128::from);
            let large = Fraction::new((n[0], b << by), (n[2], d << by));
            prop_assert_eq!(large, Fraction::new((n[0], b), (n[2], d)));
            prop_assert_eq!(large.cmp(&Fraction::new((n[1], 1), (n[3], 1))), (a * b * d).cmp(&(b * c * d)));
        }
    }
}
