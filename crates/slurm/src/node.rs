//! What all of Slurm's commands tell of a node, in the words that they share.
//! Source: sinfo(1), "NODE STATE CODES"; scontrol(1); captures of 22.05.

use crate::show::clean;
use cosy_model::api::NodeInfo;
use cosy_model::{Amounts, PowerPhase};
use cosy_view::node::{NodeCondition, gpu_types, other_resources};

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BaseState {
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

/// Whom an idle node is held for: the flags `PLANNED` and `RESERVED` of Slurm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum HeldFor {
    /// Whoever comes may have it.
    #[default]
    Nobody,
    /// A waiting job that needs others beside it.
    Job,
    /// A reservation that has begun.
    Reservation,
}

/// Whether a node is switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Power {
    /// It is on.
    #[default]
    On,
    /// It is off.
    Down,
    /// It comes up.
    PoweringUp,
    /// It goes off.
    PoweringDown,
    /// It goes off when its jobs have ended.
    DownPending,
}

impl Power {
    fn of(node: &NodeInfo) -> Self {
        match node.power.as_ref().map(|power| power.phase) {
            None | Some(PowerPhase::On) => Self::On,
            Some(PowerPhase::OffWhenIdle) => Self::DownPending,
            Some(PowerPhase::TurningOff { .. }) => Self::PoweringDown,
            Some(PowerPhase::Off { .. }) => Self::Down,
            Some(PowerPhase::Booting { .. }) => Self::PoweringUp,
        }
    }

    /// Behind a state. Source: sinfo(1), "NODE STATE CODES".
    const fn mark(self) -> &'static str {
        match self {
            Self::On => "",
            Self::Down => "~",
            Self::PoweringUp => "#",
            Self::PoweringDown => "%",
            Self::DownPending => "!",
        }
    }

    /// The flag of a state; `None` of a node that is on.
    pub const fn flag(self) -> Option<&'static str> {
        match self {
            Self::On => None,
            Self::Down => Some("POWERED_DOWN"),
            Self::PoweringUp => Some("POWERING_UP"),
            Self::PoweringDown => Some("POWERING_DOWN"),
            Self::DownPending => Some("POWER_DOWN"),
        }
    }
}

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeState {
    silent: bool,
    drain: bool,
    base: BaseState,
    held_for: HeldFor,
    power: Power,
}

impl NodeState {
    /// The state of `node`, which is held for somebody by the plan or by a reservation.
    pub fn of(node: &NodeInfo, held_for: HeldFor) -> Self {
        let busy = if node.jobs == 0 || node.used.cores == 0 {
            BaseState::Idle
        } else if node.used.cores < node.amounts.cores {
            BaseState::Mixed
        } else {
            BaseState::Allocated
        };
        let (base, drain, silent) = match NodeCondition::of(node) {
            Some(NodeCondition::Down) => (BaseState::Down, false, false),
            Some(NodeCondition::Lost) => (BaseState::Down, false, true),
            Some(NodeCondition::Unknown) => (BaseState::Unknown, false, true),
            Some(NodeCondition::Drained | NodeCondition::Draining | NodeCondition::Unhealthy) => {
                (busy, true, false)
            }
            Some(
                NodeCondition::Idle
                | NodeCondition::Mixed
                | NodeCondition::Busy
                | NodeCondition::Off
                | NodeCondition::PoweringUp
                | NodeCondition::PoweringDown,
            )
            | None => (busy, false, false),
        };
        let idle = base == BaseState::Idle && !drain;
        Self {
            silent,
            drain,
            base,
            held_for: if idle { held_for } else { HeldFor::Nobody },
            power: Power::of(node),
        }
    }

    /// Greater ones are told first: drained, held for somebody, silent, draining, and then by what
    /// they do.
    pub const fn rank(self) -> (u8, BaseState) {
        let class = match (self.drain, self.base, self.held_for, self.silent) {
            (true, BaseState::Idle | BaseState::Down | BaseState::Unknown, _, _) => 4,
            (_, _, HeldFor::Job | HeldFor::Reservation, _) => 3,
            (_, _, HeldFor::Nobody, true) => 2,
            (true, _, HeldFor::Nobody, false) => 1,
            (false, _, HeldFor::Nobody, false) => 0,
        };
        (class, self.base)
    }

    /// For whom it is held.
    pub const fn held_for(self) -> HeldFor {
        self.held_for
    }

    /// Whether it is switched on.
    pub const fn power(self) -> Power {
        self.power
    }

    /// What it does.
    pub const fn base(self) -> BaseState {
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
            (true, BaseState::Idle | BaseState::Down | BaseState::Unknown) => "drained",
            (true, BaseState::Allocated | BaseState::Mixed) => "draining",
            (false, BaseState::Unknown) => "unknown",
            (false, BaseState::Down) => "down",
            (false, BaseState::Idle) => match self.held_for {
                HeldFor::Nobody => "idle",
                HeldFor::Job => "planned",
                HeldFor::Reservation => "reserved",
            },
            (false, BaseState::Allocated) => "allocated",
            (false, BaseState::Mixed) => "mixed",
        };
        self.marked(word)
    }

    /// In short: `alloc`, `drain*`.
    pub fn compact(self) -> String {
        let word = match (self.drain, self.base) {
            (true, BaseState::Idle | BaseState::Down | BaseState::Unknown) => "drain",
            (true, BaseState::Allocated | BaseState::Mixed) => "drng",
            (false, BaseState::Unknown) => "unk",
            (false, BaseState::Down) => "down",
            (false, BaseState::Idle) => match self.held_for {
                HeldFor::Nobody => "idle",
                HeldFor::Job => "plnd",
                HeldFor::Reservation => "resv",
            },
            (false, BaseState::Allocated) => "alloc",
            (false, BaseState::Mixed) => "mix",
        };
        self.marked(word)
    }

    /// All of it: `idle+drain`.
    pub fn complete(self) -> String {
        let base = Self {
            drain: false,
            held_for: HeldFor::Nobody,
            power: Power::On,
            ..self
        };
        let drain = if self.drain { "+drain" } else { "" };
        let held_for = match self.held_for {
            HeldFor::Nobody => "",
            HeldFor::Job => "+planned",
            HeldFor::Reservation => "+reserved",
        };
        let power = self
            .power
            .flag()
            .map(|flag| format!("+{}", flag.to_lowercase()));
        format!("{}{drain}{held_for}{}", base.long(), power.unwrap_or_default())
    }

    fn marked(self, word: &str) -> String {
        let mark = match self.silent {
            true => "*",
            false => self.power.mark(),
        };
        format!("{word}{mark}")
    }

    /// Its cores can be used or are: neither down nor drained.
    pub const fn is_up(self) -> bool {
        match self.base {
            BaseState::Idle => !self.drain,
            BaseState::Allocated | BaseState::Mixed => true,
            BaseState::Unknown | BaseState::Down => false,
        }
    }
}

/// Name of its host; its own where it has told none.
pub const fn host_name(node: &NodeInfo) -> &str {
    or(node.machine.host.as_str(), node.name.as_str())
}

/// Where it is reached; its name where it has told no address.
pub const fn address(node: &NodeInfo) -> &str {
    or(node.machine.address.as_str(), node.name.as_str())
}

const fn or<'a>(text: &'a str, without: &'a str) -> &'a str {
    if text.is_empty() { without } else { text }
}

/// A load with two decimals, `2.83`.
pub fn load(hundredths: u32) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// GPUs and other things that can be counted: `gpu:2,fpga:1`, `gpu:a100:4`; `None`
/// of a node without any.
pub fn gres(amounts: &Amounts) -> Option<String> {
    let typed: Vec<(&str, u32)> = gpu_types(amounts).filter(|(_, n)| *n > 0).collect();
    let of_types = typed
        .iter()
        .fold(0u32, |sum, (_, n)| sum.saturating_add(*n));
    let mut all = Vec::new();
    if amounts.gpus > of_types {
        all.push(format!("gpu:{}", amounts.gpus - of_types));
    }
    all.extend(
        typed
            .iter()
            .map(|(kind, n)| format!("gpu:{}:{n}", clean(kind))),
    );
    let other = other_resources(amounts);
    all.extend(other.map(|(name, n)| format!("{}:{n}", clean(name))));
    (!all.is_empty()).then(|| all.join(","))
}

/// The same of those in use; `gpu:0` of a node with some of which none is.
pub fn gres_in_use(node: &NodeInfo) -> Option<String> {
    let in_use = || gres(&node.used).unwrap_or_else(|| "gpu:0".to_owned());
    gres(&node.amounts).map(|_| in_use())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A node of 16 cores.
    pub(crate) fn node(state: &str, jobs: u32, used: u32) -> NodeInfo {
        NodeInfo {
            state: state.into(),
            weight: 1,
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
            let state = NodeState::of(&node, HeldFor::Nobody);
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

    #[test]
    fn power() {
        let since = cosy_model::Time(0);
        let check = |state: &str, phase: PowerPhase, compact: &str, complete: &str| {
            let mut node = node(state, 0, 0);
            node.power = Some(cosy_model::PowerInfo {
                phase,
                ..Default::default()
            });
            let state = NodeState::of(&node, HeldFor::Nobody);
            assert_eq!((state.compact().as_str(), state.complete().as_str()), (compact, complete));
        };
        check("idle", PowerPhase::On, "idle", "idle");
        check("off", PowerPhase::Off { since }, "idle~", "idle+powered_down");
        check("powering-up", PowerPhase::Booting { since }, "idle#", "idle+powering_up");
        check("powering-down", PowerPhase::TurningOff { since }, "idle%", "idle+powering_down");
        check("drained", PowerPhase::Off { since }, "drain~", "idle+drain+powered_down");
        check("drained", PowerPhase::OffWhenIdle, "drain!", "idle+drain+power_down");
        check("lost", PowerPhase::On, "down*", "down*");
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
            .map(|n| NodeState::of(n, HeldFor::Nobody))
            .collect();
        sorted.push(NodeState::of(&states[4], HeldFor::Job));
        sorted.sort_by_key(|s| s.rank());
        sorted.reverse();
        let names: Vec<_> = sorted.iter().map(|s| s.compact()).collect();
        assert_eq!(names, ["drain", "plnd", "drng", "mix", "alloc", "idle", "down"]);
        let held = NodeState::of(&states[0], HeldFor::Job);
        assert_eq!((held.held_for(), held.complete().as_str()), (HeldFor::Nobody, "idle+drain"));
    }
}
