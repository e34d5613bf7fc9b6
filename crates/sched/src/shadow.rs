//! Shadow time and extra nodes: what the head's place leaves to the jobs behind it, told by
//! numbers of nodes alone.
//!
//! Source: Mu'alem and Feitelson (2001), the algorithm for EASY; [`crate::pass::easy`] has the
//! drawing.

use cosy_model::Time;

/// The head's guaranteed place, as far as it matters to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow {
    /// The shadow time: the head starts then.
    pub time: Time,
    /// Nodes idle now that its place needs: the lowest ones.
    pub kept: u32,
}

impl Shadow {
    /// The extra nodes among those that are idle now: a job on them never delays the head.
    pub fn extra(&self, idle: u32) -> u32 {
        idle.saturating_sub(self.kept)
    }
}
