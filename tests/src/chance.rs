//! Chance that can be repeated: a small generator with a seed that tests print.

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// A generator with that seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed from `COSY_SEED`, else one of the clock's; printed either way.
    pub fn from_environment() -> Self {
        let given = std::env::var("COSY_SEED").ok().and_then(|s| s.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now();
            let since = now
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default();
            u64::from(since.subsec_nanos()) ^ since.as_secs()
        });
        eprintln!("repeat with COSY_SEED={seed}");
        Self::new(seed)
    }

    /// Another generator, for another thread.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// The next number of the sequence.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n` times.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// As many bytes, drawn by chance.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
