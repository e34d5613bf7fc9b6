//! Which nodes are switched on, how long they take to come up, and what is still to be done for that.
//!
//! ```text
//!            suspend program         suspend_timeout
//!     On ───────────────────▶ TurningOff ─────────▶ Off
//!      ▲                                             │ resume program
//!      └────────── its daemon registers ── Booting ◀─┘
//!                                             │ resume_timeout: set down, and Off
//! ```
//!
//! What always holds: a node that is not on has no jobs, is not lost however silent it is, and stands in
//! the planner as absent until it is expected to be up.

pub(crate) mod procedures;

use cosy_model::{ClockStep, NodeId, PowerPhase, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Times to come up that are remembered of a node.
const BOOTS: usize = 4;
/// Programs of one direction that run at once, at most.
const AT_ONCE: usize = 4;
/// After a start of the controller programs that may not have run are run again so late: nodes that
/// have come up meanwhile have registered by then.
pub(crate) const PATIENCE: Span = Span::from_secs(15);

/// The power of a node, as it is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodePower {
    /// How far it is between on and off.
    #[serde(default)]
    pub phase: PowerPhase,
    /// How long it took to come up the last times, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boots: Vec<Span>,
}

impl NodePower {
    /// There is nothing to be kept of it.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// It has come up after so long.
    pub(crate) fn took(&mut self, boot: Span) {
        self.boots.push(boot.max(Span(1)));
        let over = self.boots.len().saturating_sub(BOOTS);
        self.boots.drain(..over);
    }

    /// The longest of the last times: a plan that counts on less would be late.
    pub(crate) fn longest(&self) -> Option<Span> {
        self.boots.iter().copied().max()
    }
}

/// What is under way with the power of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Powering {
    /// Nodes that are not on.
    off: BTreeSet<NodeId>,
    /// The planner is to be told anew who is absent.
    changed: bool,
    /// The same, from then on.
    refresh: Option<Time>,
    /// Nodes that waiting jobs are to have soon.
    wanted: BTreeSet<NodeId>,
    /// Nodes that go off and are to come up at once then.
    back: BTreeSet<NodeId>,
    /// How many programs run, by direction.
    running: BTreeMap<Direction, usize>,
    /// Nodes of suspend programs that run: none is off before its program has ended.
    busy: BTreeSet<NodeId>,
    /// A plan of who wants which nodes is under way.
    planning: bool,
    /// What was different when the last plan was asked for, and when that was.
    planned: Option<(Footprint, Time)>,
    /// How many were switched in the minute that began then, by direction.
    rates: BTreeMap<Direction, (Time, u32)>,
    /// For these nodes programs may have to be run again then.
    again: Option<(Time, BTreeSet<NodeId>)>,
    /// The longest that any node took to come up the last times.
    longest: Option<Span>,
}

/// Where a node is switched to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Direction {
    Off,
    On,
}

/// What a plan of wakes depends on: it is made anew when this is different.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Footprint {
    pub waiting: usize,
    pub running: usize,
    pub off: usize,
    pub next_job: u64,
}

/// Without a change plans of wakes are so far apart.
const PLANS_APART: Span = Span::from_secs(10);
const MINUTE: Span = Span::from_minutes(1);

impl Powering {
    /// The nodes that are not on.
    pub fn off(&self) -> &BTreeSet<NodeId> {
        &self.off
    }

    /// The longest that any node took to come up the last times; `None` before the first time.
    pub fn longest(&self) -> Option<Span> {
        self.longest
    }

    /// The same, when a node has come up.
    pub fn is_longest(&mut self, longest: Option<Span>) {
        self.longest = longest;
    }

    /// Whether one more program may run for that direction: what would have to wait for others would be
    /// out of date when its turn comes.
    pub fn has_room(&self, direction: Direction) -> bool {
        self.running.get(&direction).copied().unwrap_or(0) < AT_ONCE
    }

    /// A program runs for these nodes.
    pub fn begins(&mut self, direction: Direction, nodes: &[NodeId]) {
        *self.running.entry(direction).or_insert(0) += 1;
        if direction == Direction::Off {
            self.busy.extend(nodes);
        }
    }

    /// It has ended.
    pub fn ends(&mut self, direction: Direction, nodes: &[NodeId]) {
        let running = self.running.entry(direction).or_insert(0);
        *running = running.saturating_sub(1);
        if direction == Direction::Off {
            self.busy.retain(|node| !nodes.contains(node));
        }
    }

    /// Whether a suspend program still works on the node.
    pub fn is_busy(&self, node: NodeId) -> bool {
        self.busy.contains(&node)
    }

    /// A node is on, or not any more.
    pub fn is(&mut self, node: NodeId, phase: PowerPhase) {
        self.changed = true;
        if phase.is_on() {
            self.back.remove(&node);
        }
        match phase.is_on() {
            true => self.off.remove(&node),
            false => self.off.insert(node),
        };
    }

    /// The planner is to be told anew.
    pub fn has_changed(&mut self) {
        self.changed = true;
    }

    /// Whether the planner is to be told anew who is absent.
    pub fn is_due(&self, now: Time) -> bool {
        self.changed || self.refresh.is_some_and(|at| at <= now)
    }

    /// The planner knows; from then on it is told again.
    pub fn is_told(&mut self, again: Option<Time>) {
        (self.changed, self.refresh) = (false, again);
    }

    /// Whether a plan of wakes is to be made, which is under way then.
    pub fn begins_plan(&mut self, now: Time, footprint: Footprint) -> bool {
        let fresh = |(known, at): (Footprint, Time)| known == footprint && now < at + PLANS_APART;
        if self.planning || self.planned.is_some_and(fresh) {
            return false;
        }
        self.planned = Some((footprint, now));
        self.planning = true;
        true
    }

    /// The plan has come: these nodes are wanted soon.
    pub fn planned(&mut self, wanted: BTreeSet<NodeId>) {
        self.planning = false;
        self.wanted = wanted;
    }

    /// Nobody waits for nodes.
    pub fn nobody_wants(&mut self) {
        self.wanted.clear();
    }

    /// A node that goes off is to come up at once when it is off.
    pub fn comes_back(&mut self, node: NodeId) {
        self.back.insert(node);
    }

    /// Whether that was said of a node, which is off now.
    pub fn is_to_come_back(&mut self, node: NodeId) -> bool {
        self.back.remove(&node)
    }

    /// Whether waiting jobs are to have the node soon.
    pub fn is_wanted(&self, node: NodeId) -> bool {
        self.wanted.contains(&node)
    }

    /// How many nodes may be switched now, where `rate` are allowed in a minute.
    pub fn may_switch(&mut self, direction: Direction, rate: u32, now: Time) -> usize {
        if rate == 0 {
            return usize::MAX;
        }
        let (began, count) = self.rates.entry(direction).or_insert((now, 0));
        if now >= *began + MINUTE || now < *began {
            (*began, *count) = (now, 0);
        }
        rate.saturating_sub(*count) as usize
    }

    /// So many were switched.
    pub fn switched(&mut self, direction: Direction, nodes: usize) {
        if let Some((_, count)) = self.rates.get_mut(&direction) {
            *count = count.saturating_add(u32::try_from(nodes).unwrap_or(u32::MAX));
        }
    }

    /// The controller has started: for these nodes programs may not have run.
    pub fn restored(&mut self, now: Time, moving: BTreeSet<NodeId>) {
        self.again = Some((now + PATIENCE, moving));
    }

    /// Once, when it is time for that: the nodes for which programs are to be run again, if they are still
    /// on their way.
    pub fn runs_again(&mut self, now: Time) -> BTreeSet<NodeId> {
        let due = self.again.take_if(|(at, _)| *at <= now);
        due.map(|(_, moving)| moving).unwrap_or_default()
    }

    /// When the planner is to be told again.
    pub fn next_due(&self) -> Option<Time> {
        self.refresh.filter(|_| !self.off.is_empty())
    }

    /// The clock on the wall was set.
    pub fn clock_set(&mut self, step: ClockStep) {
        self.changed = true;
        self.planned = None;
        self.rates.clear();
        if let Some((at, _)) = &mut self.again {
            *at = at.set_by(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_at_once() {
        let mut powering = Powering::default();
        (0..4).for_each(|n| powering.begins(Direction::Off, &[NodeId(n)]));
        assert!(!powering.has_room(Direction::Off) && powering.has_room(Direction::On));
        powering.ends(Direction::Off, &[NodeId(2)]);
        assert!(powering.has_room(Direction::Off));
        assert!(powering.is_busy(NodeId(1)) && !powering.is_busy(NodeId(2)));
    }

    #[test]
    fn the_last_boots_count() {
        let mut power = NodePower::default();
        assert_eq!(power.longest(), None);
        for s in [300, 40, 50, 60, 45] {
            power.took(Span::from_secs(s));
        }
        assert_eq!(power.longest(), Some(Span::from_secs(60)));
    }

    #[test]
    fn so_many_in_a_minute() {
        let mut powering = Powering::default();
        let at = |s: i64| Time(s * 1000);
        assert_eq!(powering.may_switch(Direction::On, 5, at(10)), 5);
        powering.switched(Direction::On, 3);
        assert_eq!(powering.may_switch(Direction::On, 5, at(69)), 2);
        assert_eq!(powering.may_switch(Direction::Off, 5, at(69)), 5);
        assert_eq!(powering.may_switch(Direction::On, 5, at(70)), 5);
        assert_eq!(powering.may_switch(Direction::On, 0, at(70)), usize::MAX);
    }

    #[test]
    fn a_plan_is_made_when_something_is_different() {
        let mut powering = Powering::default();
        let mut footprint = Footprint {
            waiting: 1,
            running: 0,
            off: 2,
            next_job: 2,
        };
        let at = |s: i64| Time(s * 1000);
        assert!(powering.begins_plan(at(0), footprint));
        footprint.waiting = 2;
        assert!(!powering.begins_plan(at(1), footprint), "one is under way");
        powering.planned(BTreeSet::new());
        assert!(powering.begins_plan(at(1), footprint));
        powering.planned(BTreeSet::new());
        assert!(!powering.begins_plan(at(2), footprint));
        assert!(powering.begins_plan(at(11), footprint), "time has passed");
    }
}
