//! What is shown of nodes.

use cosy_model::api::NodeInfo;

macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)+) => {
        /// What a node does, in the word by which lists tell it ([`NodeInfo::state`]).
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum NodeCondition {
            $($(#[$doc])* $name,)+
        }

        impl NodeCondition {
            /// Each of them once.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// In one word.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// That of a node; `None` when a controller of another release says it in a word
            /// that is not known here.
            pub fn of(node: &NodeInfo) -> Option<Self> {
                match node.state.as_str() {
                    $($word => Some(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

conditions! {
    /// Nobody holds anything of it.
    Idle = "idle";
    /// Some of its cores are held.
    Mixed = "mixed";
    /// All of its cores are held.
    Busy = "busy";
    /// Nothing starts there, and nothing runs there any more.
    Drained = "drained";
    /// Nothing starts there; jobs still run.
    Draining = "draining";
    /// Nothing starts there until whatever is wrong with it is mended.
    Unhealthy = "unhealthy";
    /// An administrator says that it is down.
    Down = "down";
    /// It was there, and nothing is heard of it.
    Lost = "lost";
    /// Nothing was heard of it yet.
    Unknown = "unknown";
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
            assert_eq!(NodeCondition::of(&node), Some(*condition));
        }
        assert_eq!(NodeCondition::of(&NodeInfo::default()), None);
    }
}
