//! When nodes that are off could be up, and what is told of that.

use crate::config::PowerConfig;
use crate::machine::Machine;
use crate::machine::power::Direction;
use crate::turn::Turn;
use cosy_model::{EventKind, EventObject, NodeId, NodeState, PowerInfo, PowerPhase, Span, Time};
use cosy_sched::Absence;
use std::collections::BTreeMap;

/// A node that takes longer than it did is expected after this part of that time more.
const LATER: i64 = 8;
/// When a node is up is told to the planner in steps of this part of the time that it takes: what changes
/// with every moment would be planned anew with every moment.
const STEPS: i64 = 16;

impl Machine {
    /// How long a node takes to come up: as it did, or as others did, or as long as it may.
    pub(crate) fn boot_time(&self, config: &PowerConfig, id: NodeId) -> Span {
        let own = self.node(id).power.longest();
        own.unwrap_or_else(|| self.longest_boot(config))
    }

    /// The longest that any node took to come up the last times; before the first time, as long as it may.
    pub(crate) fn longest_boot(&self, config: &PowerConfig) -> Span {
        self.powering.longest().unwrap_or(config.resume_time)
    }

    /// When a node that is not on could take a job, if it were told to come up as soon as that can be.
    fn up_at(&self, config: &PowerConfig, id: NodeId, now: Time) -> Time {
        let boot = self.boot_time(config, id);
        match self.node(id).power.phase {
            PowerPhase::On | PowerPhase::OffWhenIdle => now,
            PowerPhase::Off { .. } => now + boot,
            PowerPhase::TurningOff { since } => (since + config.suspend_time).max(now) + boot,
            PowerPhase::Booting { since } => {
                let late = Span((boot.0 / LATER).max(1000));
                (since + boot).max(now + late)
            }
        }
    }

    /// So far apart are the times at which nodes are told to be up: one length for all, so that many nodes
    /// are few absences.
    pub(crate) fn absence_step(&self, config: &PowerConfig) -> Span {
        Span((self.longest_boot(config).0 / STEPS).max(1000))
    }

    /// Nodes that are expected to come up when they are wanted, by when they are, and when that is to be
    /// told again.
    pub(crate) fn absences(&self, config: &PowerConfig, now: Time) -> (Vec<Absence>, Option<Time>) {
        let mut absent: BTreeMap<Time, Vec<NodeId>> = BTreeMap::new();
        let mut again: Option<Time> = None;
        let step = self.absence_step(config).0;
        for id in self.powering.off() {
            let at = self.up_at(config, *id, now);
            let until = Time(at.0.div_euclid(step).saturating_add(1).saturating_mul(step));
            absent.entry(until).or_default().push(*id);
            let next = now + Span(step);
            again = Some(again.map_or(next, |at| at.min(next)));
        }
        let absences = absent.into_iter();
        let absences = absences.map(|(until, nodes)| Absence { until, nodes });
        (absences.collect(), again)
    }

    /// What is told of the power of a node; `None` where it is on and nobody has ever switched it.
    pub(crate) fn power_info(
        &self,
        config: &PowerConfig,
        id: NodeId,
        now: Time,
    ) -> Option<PowerInfo> {
        let power = &self.node(id).power;
        (!power.is_plain()).then(|| PowerInfo {
            phase: power.phase,
            ready: (!power.phase.is_on()).then(|| self.up_at(config, id, now)),
            boot: power.longest(),
        })
    }

    /// Nodes that may be switched off as far as they themselves tell: on, in service, and idle for as long
    /// as the configuration says.
    pub(crate) fn idle_too_long(&self, config: &PowerConfig, now: Time) -> Vec<NodeId> {
        let is_idle = |id: &NodeId| {
            let node = self.node(*id);
            if node.power.phase != PowerPhase::On || !node.is_idle() {
                return false;
            }
            let after = config.idle.get(&node.spec.name);
            after.is_some_and(|after| now.since(node.idle_since) >= *after)
        };
        self.ids().filter(is_idle).collect()
    }

    /// The nodes among these that may go off so that enough idle ones stay on.
    pub(crate) fn without_kept(&self, config: &PowerConfig, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let mut spare: Vec<u32> = config.keep.iter().map(|kept| self.spare_of(kept)).collect();
        let mut may_go = |id: &NodeId| {
            let name = &self.node(*id).spec.name;
            let kept = config.keep.iter().zip(&mut spare);
            let mut within: Vec<_> = kept.filter(|(kept, _)| kept.nodes.contains(name)).collect();
            let goes = within.iter().all(|(_, spare)| **spare > 0);
            if goes {
                within.iter_mut().for_each(|(_, spare)| **spare -= 1);
            }
            goes
        };
        nodes.into_iter().filter(|id| may_go(id)).collect()
    }

    /// How many idle nodes there are beyond those that are kept.
    fn spare_of(&self, kept: &crate::config::KeptNodes) -> u32 {
        let Some(count) = kept.count else { return 0 };
        let idle = |name: &&String| {
            let node = self.id_of(name).map(|id| self.node(id));
            node.is_some_and(|node| node.power.phase == PowerPhase::On && node.is_idle())
        };
        let idle = kept.nodes.iter().filter(idle).count();
        u32::try_from(idle)
            .unwrap_or(u32::MAX)
            .saturating_sub(count)
    }

    /// A node is on, off or between from now on.
    pub(crate) fn power_is(&mut self, turn: &mut Turn, id: NodeId, phase: PowerPhase) {
        let node = self.node_mut(id);
        node.power.phase = phase;
        if !phase.is_on() {
            // What is wrong with it its daemon says when it is up again.
            node.problem = None;
        }
        self.powering.is(id, phase);
        self.save_node(turn, id);
    }

    /// Says in history what has happened to the power of a node.
    pub(crate) fn power_event(&self, turn: &mut Turn, id: NodeId, kind: EventKind, why: &str) {
        let object = EventObject::Node(self.name(id).to_owned());
        turn.happened(turn.now(), kind, "controller", object, why.to_owned());
    }

    /// The daemon of a node has registered: it is up, however that has come.
    pub(crate) fn came_up(
        &mut self,
        config: &PowerConfig,
        turn: &mut Turn,
        id: NodeId,
        same_boot: bool,
    ) {
        let now = turn.now();
        let why = match self.node(id).power.phase {
            PowerPhase::On | PowerPhase::OffWhenIdle => return,
            // It has not gone yet.
            PowerPhase::TurningOff { .. } if same_boot => return,
            PowerPhase::Off { since } if self.node(id).came_late() => {
                let took = now.since(since) + config.resume_time;
                let node = self.node_mut(id);
                node.is_set(NodeState::Open);
                node.power.took(took);
                self.note_longest();
                format!("it is up after {took}, later than resume_timeout allows")
            }
            PowerPhase::TurningOff { .. } | PowerPhase::Off { .. } => {
                "its daemon has registered, though nobody here has switched it on".to_owned()
            }
            PowerPhase::Booting { since } => {
                let took = now.since(since);
                self.node_mut(id).power.took(took);
                self.note_longest();
                format!("it is up after {took}")
            }
        };
        self.power_is(turn, id, PowerPhase::On);
        self.power_event(turn, id, EventKind::PoweredUp, &why);
    }

    /// Finds out how long nodes took to come up, at most.
    pub(crate) fn note_longest(&mut self) {
        let longest = self.nodes.iter().filter_map(|node| node.power.longest());
        let longest = longest.max();
        self.powering.is_longest(longest);
    }

    /// What the configuration says: cloud nodes of which nothing is known are off; where nothing can be
    /// switched any more no node counts as off.
    pub(crate) fn configure_power(
        &mut self,
        config: &PowerConfig,
        turn: &mut Turn,
        is_new: impl Fn(&str) -> bool,
    ) {
        let now = turn.now();
        self.powering.has_changed();
        if !config.is_on() {
            let odd = |id: &NodeId| self.node(*id).power.phase != PowerPhase::On;
            let odd: Vec<NodeId> = self.ids().filter(odd).collect();
            for id in odd {
                self.power_is(turn, id, PowerPhase::On);
                let why = "nobody can switch it any more: [power] is gone from the configuration";
                self.power_event(turn, id, EventKind::PowerFailed, why);
            }
            return;
        }
        for name in config.cloud.iter().filter(|name| is_new(name)) {
            if let Some(id) = self.id_of(name) {
                self.power_is(turn, id, PowerPhase::Off { since: now });
            }
        }
    }

    /// As many of these as may be switched now.
    pub(crate) fn within_rate(
        &mut self,
        direction: Direction,
        config: &PowerConfig,
        mut nodes: Vec<NodeId>,
        now: Time,
    ) -> Vec<NodeId> {
        let rate = match direction {
            Direction::Off => config.suspend_rate,
            Direction::On => config.resume_rate,
        };
        nodes.truncate(self.powering.may_switch(direction, rate, now));
        self.powering.switched(direction, nodes.len());
        nodes
    }
}
