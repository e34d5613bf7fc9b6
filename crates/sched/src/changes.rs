//! Which nodes have changed lately, so that what was found out about all nodes can be kept
//! up to date by a look at a few.
//!
//! What always holds: a change is told to everybody who asks with the mark of an earlier
//! answer, or they are told to look at all nodes anew.

use cosy_model::NodeId;

/// Where in the history of changes somebody has come to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Mark(u64);

/// The latest changes.
#[derive(Clone, Default, Debug)]
pub(crate) struct Changes {
    latest: Vec<NodeId>,
    forgotten: u64,
    wanted: bool,
}

impl Changes {
    /// True once somebody wants to know.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// From now on changes are noted.
    pub fn want(&mut self) {
        if !self.wanted {
            self.wanted = true;
            self.forget();
        }
    }

    /// Notes a change of `node`. At most `most` are kept.
    pub fn note(&mut self, node: NodeId, most: usize) {
        if !self.wanted {
            return;
        }
        if self.latest.len() >= most.max(64) {
            self.forget();
        }
        self.latest.push(node);
    }

    /// Lets everybody look at all nodes anew.
    pub fn forget(&mut self) {
        self.forgotten += self.latest.len() as u64 + 1;
        self.latest.clear();
    }

    /// The nodes that have changed since `mark`, some of them more than once; `None` when
    /// that is not known any more.
    pub fn since(&self, mark: Mark) -> Option<&[NodeId]> {
        let past = mark.0.checked_sub(self.forgotten + 1)?;
        self.latest.get(past as usize..)
    }

    /// The mark of now.
    pub fn mark(&self) -> Mark {
        Mark(self.forgotten + 1 + self.latest.len() as u64)
    }
}
