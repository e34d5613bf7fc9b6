//! Chance from a seed (SplitMix64).

/// Real time of a schedule and lengths of it, in microseconds.
pub type Micros = u64;

pub struct Dice(u64);

impl Dice {
    /// Neighbouring seeds give unlike schedules.
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed ^ 0x5bd1_e995_9d1b_58d3);
        Self(dice.roll())
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0, less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    pub fn chance(&mut self, permille: u64) -> bool {
        permille > 0 && self.below(1000) < permille
    }

    /// Up to `most`, short ones as likely as long ones.
    pub fn wild(&mut self, most: Micros) -> Micros {
        let end = most >> self.below(8);
        self.between(end / 2, end)
    }
}
