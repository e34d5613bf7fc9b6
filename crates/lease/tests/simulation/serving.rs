//! The thread of a leader that answers and sends orders.

use crate::database::Batch;
use crate::dice::Micros;
use crate::node::Order;
use crate::stage::{LEASE, NODES, Stage};
use cosy_lease::{BatchNumber, Epoch, Identity};
use std::collections::VecDeque;

/// What goes out when a batch is committed.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Acknowledge(Batch),
    Order(usize, Order),
}

pub struct Serving {
    controller: usize,
    effects: VecDeque<Effect>,
    /// It was allowed to go out; it goes with the next step.
    allowed: Option<Effect>,
}

impl Serving {
    /// Begins with a word to every node.
    pub fn new(controller: usize, epoch: Epoch) -> Self {
        let hello = Order {
            epoch,
            request: None,
        };
        let effects = (0..NODES).map(|node| Effect::Order(node, hello));
        Self {
            controller,
            effects: effects.collect(),
            allowed: None,
        }
    }

    /// Its client is to be told that it is done.
    pub fn answer(&mut self, batch: Batch) {
        self.effects.push_back(Effect::Acknowledge(batch));
    }

    /// Every node has something to do for it.
    pub fn order(&mut self, batch: Batch, epoch: Epoch) {
        let order = Order {
            epoch,
            request: Some(batch.request),
        };
        let orders = (0..NODES).map(|node| Effect::Order(node, order));
        self.effects.extend(orders);
    }

    /// One step, and how long the thread rests after it.
    pub fn step(
        &mut self,
        stage: &mut Stage,
        me: &Identity,
        may_act: bool,
        known: BatchNumber,
    ) -> Micros {
        if let Some(effect) = self.allowed.take() {
            self.send(stage, effect);
            return 0;
        }
        if !may_act {
            stage.checks.tally.reads_withheld += 1;
            return stage.dice.wild(LEASE / 10);
        }
        self.allowed = self.effects.pop_front();
        if self.allowed.is_some() {
            return 0;
        }
        stage.checks.read(me, known.0);
        stage.dice.wild(LEASE / 20)
    }

    fn send(&mut self, stage: &mut Stage, effect: Effect) {
        match effect {
            Effect::Acknowledge(batch) => stage.checks.acknowledged(batch),
            Effect::Order(node, order) => {
                if let Some(request) = order.request {
                    stage.checks.order_sent(request);
                }
                stage.order(self.controller, node, order);
            }
        }
    }
}
