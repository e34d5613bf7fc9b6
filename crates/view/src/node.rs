//! What is shown of nodes.

use cosy_model::api::NodeInfo;

/// What a node does, in the word by which lists tell it ([`NodeInfo::state`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeCondition {
    /// Nobody holds anything of it.
    Idle,
    /// Some of its cores are held.
    Mixed,
    /// All of its cores are held.
    Busy,
    /// Nothing starts there, and nothing runs there any more.
    Drained,
    /// Nothing starts there; jobs still run.
    Draining,
    /// Nothing starts there until whatever is wrong with it is mended.
    Unhealthy,
    /// An administrator says that it is down.
    Down,
    /// It was there, and nothing is heard of it.
    Lost,
    /// Nothing was heard of it yet.
    Unknown,
}

impl NodeCondition {
    /// Each of them once.
    pub const ALL: [Self; 9] = [
        Self::Idle,
        Self::Mixed,
        Self::Busy,
        Self::Drained,
        Self::Draining,
        Self::Unhealthy,
        Self::Down,
        Self::Lost,
        Self::Unknown,
    ];

    /// In one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Mixed => "mixed",
            Self::Busy => "busy",
            Self::Drained => "drained",
            Self::Draining => "draining",
            Self::Unhealthy => "unhealthy",
            Self::Down => "down",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }

    /// That of a node; `None` when a controller of another release says it in a word that is not
    /// known here.
    pub fn of(node: &NodeInfo) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|known| known.word() == node.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_again() {
        for condition in NodeCondition::ALL {
            let node = NodeInfo {
                state: condition.word().to_owned(),
                ..NodeInfo::default()
            };
            assert_eq!(NodeCondition::of(&node), Some(condition));
        }
        assert_eq!(NodeCondition::of(&NodeInfo::default()), None);
    }
}
