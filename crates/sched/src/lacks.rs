//! What a pass has found to be lacking of shared resource pools, so that it does not look at each
//! of many jobs that wait for the same.
//!
//! Amounts of shared pools that waiting jobs want have bits, as long as there are bits. Once one
//! job could not have its amount for its whole limit, all that want as much for longer than that
//! amount is free can have it as little: within a pass amounts are taken and places are added,
//! never given back.
//!
//! What always holds: a job that is passed over could not start.

use cosy_model::Span;

const BITS: usize = u32::BITS as usize;

/// For each bit the longest limit with which a job might still have that amount.
#[derive(Clone, Debug)]
pub(crate) struct Lacks {
    longest: [Span; BITS],
    /// Bits of which anything is known.
    known: u32,
}

impl Default for Lacks {
    fn default() -> Self {
        Self {
            longest: [Span::UNLIMITED; BITS],
            known: 0,
        }
    }
}

impl Lacks {
    pub fn clear(&mut self) {
        if self.known != 0 {
            *self = Self::default();
        }
    }

    /// True while nothing is known to be lacking.
    pub fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// The amount of that bit is free for so long at most.
    pub fn note(&mut self, bit: usize, longest: Span) {
        if let Some(known) = self.longest.get_mut(bit) {
            *known = (*known).min(longest);
            self.known |= 1 << bit;
        }
    }

    /// True when a job cannot have one of the amounts that it wants for its whole limit.
    pub fn any_of(&self, needs: u32, limit: Span) -> bool {
        let limit = limit.max(Span(1));
        self.bits_of(needs).any(|longest| limit > longest)
    }

    /// True when no job can start of some that all want these amounts, for `shortest_secs` or
    /// longer.
    pub fn any_of_all(&self, needs: u32, shortest_secs: u32) -> bool {
        self.any_of(needs, Span::from_secs(i64::from(shortest_secs)))
    }

    fn bits_of(&self, needs: u32) -> impl Iterator<Item = Span> + '_ {
        let mut left = needs & self.known;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            let longest = self.longest.get(bit)?;
            left &= left - 1;
            Some(*longest)
        })
    }
}
