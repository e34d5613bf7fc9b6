//! A node: obeys orders, keeps the highest epoch, crashes.

use crate::mutation::Mutation;
use crate::stage::{Event, Fault, LEASE, Stage};
use cosy_lease::{Admission, Epoch, NodeFence};
use std::collections::VecDeque;

/// What a batch has a node do, or a new leader's first word to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    pub epoch: Epoch,
    pub request: Option<u64>,
}

enum Doing {
    Nothing,
    Keep(Order),
    Obey(Order),
}

pub struct Node {
    at: usize,
    fence: NodeFence,
    /// On disk.
    kept: Epoch,
    inbox: VecDeque<Order>,
    doing: Doing,
    is_up: bool,
    token: u64,
}

impl Node {
    pub fn new(at: usize) -> Self {
        Self {
            at,
            fence: NodeFence::new(Epoch(0)),
            kept: Epoch(0),
            inbox: VecDeque::new(),
            doing: Doing::Nothing,
            is_up: true,
            token: 0,
        }
    }

    pub fn crash(&mut self) {
        self.is_up = false;
        self.inbox.clear();
        self.doing = Doing::Nothing;
        self.token += 1;
    }

    pub fn restart(&mut self, stage: &mut Stage) {
        if !self.is_up {
            self.is_up = true;
            self.fence = NodeFence::new(self.kept);
            stage.checks.kept(self.at, self.kept);
        }
    }

    pub fn ordered(&mut self, stage: &mut Stage, order: Order) {
        if !self.is_up {
            return;
        }
        self.inbox.push_back(order);
        if matches!(self.doing, Doing::Nothing) {
            self.plan(stage);
        }
    }

    fn plan(&mut self, stage: &mut Stage) {
        self.token += 1;
        let at = stage.next_step();
        stage.at(at, Event::NodeStep(self.at, self.token));
    }

    pub fn step(&mut self, stage: &mut Stage, token: u64) {
        if token != self.token || !self.is_up {
            return;
        }
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => self.admit(stage),
            Doing::Keep(order) => {
                self.keep(stage, order.epoch);
                if !stage.is(Mutation::NodeKeepsAfterwards) {
                    self.doing = Doing::Obey(order);
                }
            }
            Doing::Obey(order) => {
                stage.tell(|| format!("node {} obeys {order:?}", self.at));
                stage.checks.obeyed(self.at, order.epoch);
                if stage.is(Mutation::NodeKeepsAfterwards) {
                    self.doing = Doing::Keep(order);
                }
            }
        }
        if stage.dice.chance(stage.odds.node_crash) {
            let until = stage.now + stage.dice.below(LEASE / 10);
            stage.at(stage.now, Event::Fault(Fault::NodeCrash(self.at, until)));
        }
        if !self.inbox.is_empty() || !matches!(self.doing, Doing::Nothing) {
            self.plan(stage);
        }
    }

    fn admit(&mut self, stage: &mut Stage) {
        let Some(order) = self.inbox.pop_front() else {
            return;
        };
        if stage.is(Mutation::NodeKeepsAny) {
            self.doing = Doing::Keep(order);
            return;
        }
        self.doing = match self.fence.admits(order.epoch) {
            Admission::Obey => Doing::Obey(order),
            Admission::KeepFirst if stage.is(Mutation::NodeKeepsAfterwards) => Doing::Obey(order),
            Admission::KeepFirst => Doing::Keep(order),
            Admission::Refuse { .. } => {
                stage.checks.tally.orders_refused += 1;
                Doing::Nothing
            }
        };
    }

    fn keep(&mut self, stage: &mut Stage, epoch: Epoch) {
        if !stage.is(Mutation::NodeForgets) {
            self.kept = epoch;
            stage.checks.kept(self.at, epoch);
        }
        self.fence.kept(epoch);
    }
}
