//! Powers of two with fractions in the exponent, in fixed point.
//!
//! The constants are roots that the compiler draws: `2^(1/2)`, `2^(1/4)` ... down to `2^(1/2^62)`,
//! each the integer square root of the one before. The result is a product of those whose bits are
//! set in the exponent; its relative error is below 2⁻⁵⁵.

/// One, with 62 bits behind the point.
pub const ONE: u64 = 1 << 62;

const BITS: usize = 62;

/// `2^(1/2^(i+1))` with 62 bits behind the point.
const ROOTS: [u64; BITS] = roots();

const fn roots() -> [u64; BITS] {
    let mut roots = [0; BITS];
    let mut power: u128 = (ONE as u128) << 1;
    let mut at = 0;
    while at < BITS {
        power = (power << BITS).isqrt();
        roots[at] = power as u64;
        at += 1;
    }
    roots
}

/// `2^fraction`, both with 62 bits behind the point; `fraction` below one. So the result is at least
/// one and below two.
pub fn fraction(fraction: u64) -> u64 {
    let set = |at: usize| fraction >> (BITS - 1 - at) & 1 == 1;
    let roots = ROOTS.iter().enumerate().filter(|(at, _)| set(*at));
    roots.fold(ONE, |product, (_, root)| times(product, *root))
}

/// `2^(-exponent)` with 62 bits behind the point; `exponent` with 32 of them.
pub fn inverse(exponent: u64) -> u64 {
    let (whole, part) = (exponent >> 32, exponent & 0xffff_ffff);
    if whole >= 62 {
        return 0;
    }
    match part {
        0 => ONE >> whole,
        part => fraction(((1 << 32) - part) << 30) >> (whole + 1),
    }
}

/// The product of two numbers with 62 bits behind the point.
pub const fn times(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> BITS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers() {
        let check = |got: u64, want: f64| {
            let got = got as f64 / ONE as f64;
            assert!((got - want).abs() < 1e-13, "{got} {want}");
        };
        check(fraction(0), 1.0);
        check(fraction(ONE / 2), std::f64::consts::SQRT_2);
        check(fraction(ONE - 1), 2.0);
        for i in 0..100u64 {
            check(fraction(ONE / 100 * i), (i as f64 / 100.0).exp2());
            check(inverse(i << 28), (-(i as f64) / 16.0).exp2());
        }
        assert_eq!(inverse(u64::MAX), 0);
    }
}
