//! What a node does about orders of several leaders.

use crate::numbers::Epoch;

/// The highest epoch that a node has seen. It outlives the node's daemon: the epoch that is kept on
/// disk is the one that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeFence {
    highest: Epoch,
}

/// What to do with an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Carry it out.
    Obey,
    /// Keep its epoch durably, say so by [`NodeFence::kept`], then carry it out.
    KeepFirst,
    /// It is of a former leader.
    Refuse {
        /// The epoch that forbids it.
        highest: Epoch,
    },
}

impl NodeFence {
    /// With the epoch that was kept; [`Epoch`] 0 where none was.
    #[must_use]
    pub const fn new(kept: Epoch) -> Self {
        Self { highest: kept }
    }

    /// What to do with an order or a link of a leader of `epoch`.
    #[must_use]
    pub fn admits(&self, epoch: Epoch) -> Admission {
        let highest = self.highest;
        match epoch.cmp(&highest) {
            std::cmp::Ordering::Less => Admission::Refuse { highest },
            std::cmp::Ordering::Equal => Admission::Obey,
            std::cmp::Ordering::Greater => Admission::KeepFirst,
        }
    }

    /// `epoch` is on disk.
    pub fn kept(&mut self, epoch: Epoch) {
        self.highest = self.highest.max(epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_epoch_is_kept_and_a_lower_one_refused() {
        let mut fence = NodeFence::new(Epoch(4));
        let check = |fence: &NodeFence, epoch, expected| {
            assert_eq!(fence.admits(Epoch(epoch)), expected, "epoch {epoch}");
        };
        check(&fence, 4, Admission::Obey);
        check(&fence, 5, Admission::KeepFirst);
        fence.kept(Epoch(5));
        check(&fence, 5, Admission::Obey);
        let highest = Epoch(5);
        check(&fence, 4, Admission::Refuse { highest });
        fence.kept(Epoch(4));
        check(&fence, 4, Admission::Refuse { highest });
    }
}
