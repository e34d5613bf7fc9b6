//! States of nodes as `sinfo` names, orders and filters them. Source: sinfo(1), "NODE STATE
//! CODES".

use cosy_model::api::NodeInfo;
use cosy_view::node::NodeCondition;

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Base {
    /// Not heard of yet.
    Unknown,
    /// Lost, or taken out at once.
    Down,
    /// No core is held.
    Idle,
    /// All cores are held.
    Allocated,
    /// Some cores are held.
    Mixed,
}

/// Whom a node that does nothing is kept for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Kept {
    /// Nobody: whoever comes may have it.
    #[default]
    Free,
    /// A waiting job that needs others beside it.
    Planned,
    /// A reservation that has begun.
    Reserved,
}

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeState {
    silent: bool,
    drain: bool,
    base: Base,
    kept: Kept,
}

impl NodeState {
    /// The state of `node`, of which somebody else knows for whom it is kept.
    pub fn of(node: &NodeInfo, kept: Kept) -> Self {
        let busy = if node.jobs == 0 || node.used.cores == 0 {
            Base::Idle
        } else if node.used.cores < node.amounts.cores {
            Base::Mixed
        } else {
            Base::Allocated
        };
        let (base, drain, silent) = match NodeCondition::of(node) {
            Some(NodeCondition::Down) => (Base::Down, false, false),
            Some(NodeCondition::Lost) => (Base::Down, false, true),
            Some(NodeCondition::Unknown) => (Base::Unknown, false, true),
            Some(NodeCondition::Drained | NodeCondition::Draining | NodeCondition::Unhealthy) => {
                (busy, true, false)
            }
            Some(NodeCondition::Idle | NodeCondition::Mixed | NodeCondition::Busy) | None => {
                (busy, false, false)
            }
        };
        let idle = base == Base::Idle && !drain;
        Self {
            silent,
            drain,
            base,
            kept: if idle { kept } else { Kept::Free },
        }
    }

    /// Greater ones are told first: drained, kept, silent, draining, and then by what
    /// they do.
    pub const fn rank(self) -> (u8, Base) {
        let class = match (self.drain, self.base, self.kept, self.silent) {
            (true, Base::Idle | Base::Down | Base::Unknown, _, _) => 4,
            (_, _, Kept::Planned | Kept::Reserved, _) => 3,
            (_, _, Kept::Free, true) => 2,
            (true, _, Kept::Free, false) => 1,
            (false, _, Kept::Free, false) => 0,
        };
        (class, self.base)
    }

    /// For whom it is kept.
    pub const fn kept(self) -> Kept {
        self.kept
    }

    /// What it does.
    pub const fn base(self) -> Base {
        self.base
    }

    /// Nothing new starts there.
    pub const fn drains(self) -> bool {
        self.drain
    }

    /// It does not answer.
    pub const fn is_silent(self) -> bool {
        self.silent
    }

    /// In words: `allocated`, `drained*`.
    pub fn long(self) -> String {
        let word = match (self.drain, self.base) {
            (true, Base::Idle | Base::Down | Base::Unknown) => "drained",
            (true, Base::Allocated | Base::Mixed) => "draining",
            (false, Base::Unknown) => "unknown",
            (false, Base::Down) => "down",
            (false, Base::Idle) => match self.kept {
                Kept::Free => "idle",
                Kept::Planned => "planned",
                Kept::Reserved => "reserved",
            },
            (false, Base::Allocated) => "allocated",
            (false, Base::Mixed) => "mixed",
        };
        self.marked(word)
    }

    /// In short: `alloc`, `drain*`.
    pub fn compact(self) -> String {
        let word = match (self.drain, self.base) {
            (true, Base::Idle | Base::Down | Base::Unknown) => "drain",
            (true, Base::Allocated | Base::Mixed) => "drng",
            (false, Base::Unknown) => "unk",
            (false, Base::Down) => "down",
            (false, Base::Idle) => match self.kept {
                Kept::Free => "idle",
                Kept::Planned => "plnd",
                Kept::Reserved => "resv",
            },
            (false, Base::Allocated) => "alloc",
            (false, Base::Mixed) => "mix",
        };
        self.marked(word)
    }

    /// All of it: `idle+drain`.
    pub fn complete(self) -> String {
        let base = Self {
            drain: false,
            kept: Kept::Free,
            ..self
        };
        let drain = if self.drain { "+drain" } else { "" };
        let kept = match self.kept {
            Kept::Free => "",
            Kept::Planned => "+planned",
            Kept::Reserved => "+reserved",
        };
        format!("{}{drain}{kept}", base.long())
    }

    fn marked(self, word: &str) -> String {
        let mark = if self.silent { "*" } else { "" };
        format!("{word}{mark}")
    }

    /// Its cores can be used or are: neither down nor drained.
    pub const fn is_up(self) -> bool {
        match self.base {
            Base::Idle => !self.drain,
            Base::Allocated | Base::Mixed => true,
            Base::Unknown | Base::Down => false,
        }
    }
}

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
    Base(Base),
    /// Drained and draining ones.
    Drain,
    /// Taken out of service, and no job is left.
    Drained,
    /// Taken out of service, while jobs still run.
    Draining,
    /// Those that do not answer.
    Silent,
    /// Those that are kept for somebody.
    Kept(Kept),
    /// A state that no node here is ever in.
    Never,
}

impl Filter {
    /// Reads a word, long or short, in letters of any case.
    pub fn read(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "all" => Self::All,
            "unknown" | "unk" => Self::Base(Base::Unknown),
            "down" => Self::Base(Base::Down),
            "idle" => Self::Base(Base::Idle),
            "allocated" | "alloc" => Self::Base(Base::Allocated),
            "mixed" | "mix" => Self::Base(Base::Mixed),
            "drain" => Self::Drain,
            "drained" => Self::Drained,
            "draining" | "drng" => Self::Draining,
            "no_respond" | "nr" => Self::Silent,
            "planned" | "plnd" => Self::Kept(Kept::Planned),
            "reserved" | "resv" => Self::Kept(Kept::Reserved),
            "?" | "future" | "futr" | "perfctrs" | "npc" | "cloud" | "completing" | "comp"
            | "powering_down" | "powered_down" | "power_down" | "powering_up" | "pow_dn"
            | "pow_up" | "fail" | "failing" | "failg" | "maint" | "reboot" | "reboot^" | "boot"
            | "blocked" | "error" => Self::Never,
            _ => return None,
        })
    }

    /// Whether a node in `state` is meant.
    pub fn contains(self, state: NodeState) -> bool {
        let idle = matches!(state.base, Base::Idle | Base::Down | Base::Unknown);
        match self {
            Self::All => true,
            Self::Base(base) => state.base == base && !state.drain,
            Self::Drain => state.drain,
            Self::Drained => state.drain && idle,
            Self::Draining => state.drain && !idle,
            Self::Silent => state.silent,
            Self::Kept(kept) => state.kept == kept,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Amounts;

    pub(crate) fn node(state: &str, jobs: u32, used: u32) -> NodeInfo {
        NodeInfo {
            state: state.into(),
            jobs,
            amounts: Amounts {
                cores: 16,
                ..Amounts::default()
            },
            used: Amounts {
                cores: used,
                ..Amounts::default()
            },
            ..NodeInfo::default()
        }
    }

    #[test]
    fn names() {
        let check = |node: NodeInfo, compact: &str, long: &str| {
            let state = NodeState::of(&node, Kept::Free);
            assert_eq!((state.compact().as_str(), state.long().as_str()), (compact, long));
        };
        check(node("idle", 0, 0), "idle", "idle");
        check(node("mixed", 1, 3), "mix", "mixed");
        check(node("busy", 1, 16), "alloc", "allocated");
        check(node("drained", 0, 0), "drain", "drained");
        check(node("draining", 2, 16), "drng", "draining");
        check(node("down", 0, 0), "down", "down");
        check(node("lost", 0, 0), "down*", "down*");
        check(node("unknown", 0, 0), "unk*", "unknown*");
    }

    /// As captured: drained, draining, mixed, allocated; idle ones after them.
    #[test]
    fn order() {
        let states = [
            node("drained", 0, 0),
            node("draining", 1, 16),
            node("mixed", 1, 3),
            node("busy", 1, 16),
            node("idle", 0, 0),
            node("down", 0, 0),
        ];
        let mut sorted: Vec<_> = states
            .iter()
            .map(|n| NodeState::of(n, Kept::Free))
            .collect();
        sorted.push(NodeState::of(&states[4], Kept::Planned));
        sorted.sort_by_key(|s| s.rank());
        sorted.reverse();
        let names: Vec<_> = sorted.iter().map(|s| s.compact()).collect();
        assert_eq!(names, ["drain", "plnd", "drng", "mix", "alloc", "idle", "down"]);
        let kept = NodeState::of(&states[0], Kept::Planned);
        assert_eq!((kept.kept(), kept.complete().as_str()), (Kept::Free, "idle+drain"));
    }

    #[test]
    fn filters() {
        for word in WORDS.split(',') {
            assert!(Filter::read(word).is_some(), "{word}");
        }
        assert_eq!(Filter::read("foo"), None);
        let check = |word: &str, node: NodeInfo, want| {
            let filter = Filter::read(word).unwrap();
            assert_eq!(filter.contains(NodeState::of(&node, Kept::Free)), want, "{word}");
        };
        check("idle", node("idle", 0, 0), true);
        check("idle", node("drained", 0, 0), false);
        check("DRAIN", node("draining", 1, 1), true);
        check("drained", node("draining", 1, 1), false);
        check("down", node("lost", 0, 0), true);
        check("no_respond", node("lost", 0, 0), true);
    }
}
