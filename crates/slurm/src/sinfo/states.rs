//! The words of `sinfo --states`. Source: sinfo(1), "NODE STATE
//! CODES".

use crate::node::{BaseState, HeldFor, NodeState, Power};

/// The words of `--states`, as Slurm lists them.
pub const WORDS: &str = "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,\
    no_respond,reserved,perfctrs,cloud,completing,powering_down,powered_down,power_down,\
    powering_up,fail,maint,reboot,reboot^,unknown";

/// What a word of `--states` means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Every node, whatever it does.
    All,
    /// Those that do that and are not drained.
    Base(BaseState),
    /// Drained and draining ones.
    Drain,
    /// Taken out of service, and no job is left.
    Drained,
    /// Taken out of service, while jobs still run.
    Draining,
    /// Those that do not answer.
    Silent,
    /// Those that are held for somebody.
    HeldFor(HeldFor),
    /// Those that are switched on, off or between.
    Power(Power),
    /// A state that no node here is ever in.
    Never,
}

impl Filter {
    /// Reads a word, long or short, in letters of any case.
    pub fn read(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "all" => Self::All,
            "unknown" | "unk" => Self::Base(BaseState::Unknown),
            "down" => Self::Base(BaseState::Down),
            "idle" => Self::Base(BaseState::Idle),
            "allocated" | "alloc" => Self::Base(BaseState::Allocated),
            "mixed" | "mix" => Self::Base(BaseState::Mixed),
            "drain" => Self::Drain,
            "drained" => Self::Drained,
            "draining" | "drng" => Self::Draining,
            "no_respond" | "nr" => Self::Silent,
            "planned" | "plnd" => Self::HeldFor(HeldFor::Job),
            "reserved" | "resv" => Self::HeldFor(HeldFor::Reservation),
            "powering_down" => Self::Power(Power::PoweringDown),
            "powered_down" | "pow_dn" => Self::Power(Power::Down),
            "power_down" => Self::Power(Power::DownPending),
            "powering_up" | "pow_up" => Self::Power(Power::PoweringUp),
            "?" | "future" | "futr" | "perfctrs" | "npc" | "cloud" | "completing" | "comp"
            | "fail" | "failing" | "failg" | "maint" | "reboot" | "reboot^" | "boot"
            | "blocked" | "error" => Self::Never,
            _ => return None,
        })
    }

    /// Whether a node in `state` is meant.
    pub fn contains(self, state: NodeState) -> bool {
        let idle = matches!(state.base(), BaseState::Idle | BaseState::Down | BaseState::Unknown);
        match self {
            Self::All => true,
            Self::Base(base) => state.base() == base && !state.drains(),
            Self::Drain => state.drains(),
            Self::Drained => state.drains() && idle,
            Self::Draining => state.drains() && !idle,
            Self::Silent => state.is_silent(),
            Self::HeldFor(whom) => state.held_for() == whom,
            Self::Power(power) => state.power() == power,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::node;
    use cosy_model::api::NodeInfo;

    #[test]
    fn filters() {
        for word in WORDS.split(',') {
            assert!(Filter::read(word).is_some(), "{word}");
        }
        assert_eq!(Filter::read("foo"), None);
        let check = |word: &str, node: NodeInfo, want| {
            let filter = Filter::read(word).unwrap();
            assert_eq!(filter.contains(NodeState::of(&node, HeldFor::Nobody)), want, "{word}");
        };
        check("idle", node("idle", 0, 0), true);
        check("idle", node("drained", 0, 0), false);
        check("DRAIN", node("draining", 1, 1), true);
        check("drained", node("draining", 1, 1), false);
        check("down", node("lost", 0, 0), true);
        check("no_respond", node("lost", 0, 0), true);
    }
}
