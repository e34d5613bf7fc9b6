//! What all actors of a schedule share: real time, what will happen, the network, chance.

use crate::checks::Checks;
use crate::database::{Answer, Statement};
use crate::dice::{Dice, Micros};
use crate::mutation::Mutation;
use crate::node::Order;
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub const CONTROLLERS: usize = 3;
pub const NODES: usize = 3;
/// Of every controller.
pub const LEASE: Micros = 10_000_000;
/// Beyond this a connection is given up that gives no answer.
pub const PATIENCE: Micros = LEASE / 2;

/// A thread of a controller: each goes its way, and a pause may catch one or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thread {
    /// Looks, takes, renews, commits.
    Database,
    /// Answers and sends orders.
    Serving,
}

/// A connection between a controller and the database as it was when that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    pub id: u64,
    pub controller: usize,
    /// Failovers of the database before.
    pub generation: u64,
}

#[derive(Debug)]
pub enum Event {
    /// A statement reaches the database, be its connection still open or not.
    Arrived(Connection, Statement),
    TransactionEnds(u64),
    Answered(Connection, Answer),
    /// The client's side notices.
    Broken(Connection),
    /// The thread's next step; of an older token it has been overtaken by another plan.
    Step(usize, Thread, u64),
    Ordered(usize, Order),
    NodeStep(usize, u64),
    Fault(Fault),
    /// A fault of this kind, at whom it hits most.
    Strike(u64),
}

#[derive(Clone, Debug)]
pub enum Fault {
    /// `SIGSTOP`, until that time `SIGCONT`.
    Pause(usize, Micros),
    Crash(usize, Micros),
    Restart(usize),
    /// A planned handover, with who shall be next, if that is one of them.
    Handover(usize, usize),
    CutFromDatabase(usize, Micros),
    HealToDatabase(usize),
    CutFromNode(usize, usize, Micros),
    HealToNode(usize, usize),
    ClockJumps(i64),
    /// The primary is gone until that time; then another host's clock counts, by that much off.
    Failover(Micros, i64),
    Promoted,
    NodeCrash(usize, Micros),
    NodeRestart(usize),
}

/// How often what goes wrong in a schedule, of a thousand each. Every schedule has some of it.
#[derive(Debug)]
pub struct Odds {
    pub slow: u64,
    pub slow_order: u64,
    /// A take, or now and then a look, is slow, and the database's clock jumps before it arrives.
    pub ambush: u64,
    pub lost: u64,
    pub broken: u64,
    pub doubled: u64,
    pub pause: u64,
    pub long_transaction: u64,
    pub abort: u64,
    /// A node crashes between two steps.
    pub node_crash: u64,
}

impl Odds {
    fn new(dice: &mut Dice) -> Self {
        let mut odds = |most| if dice.chance(500) { dice.wild(most) } else { 0 };
        Self {
            slow: odds(200),
            slow_order: odds(500),
            ambush: odds(500),
            lost: odds(100),
            broken: odds(100),
            doubled: odds(300),
            pause: odds(20),
            long_transaction: odds(100),
            abort: odds(100),
            node_crash: odds(100),
        }
    }

    const NONE: Self = Self {
        slow: 0,
        slow_order: 0,
        ambush: 0,
        lost: 0,
        broken: 0,
        doubled: 0,
        pause: 0,
        long_transaction: 0,
        abort: 0,
        node_crash: 0,
    };
}

/// Who reaches whom.
#[derive(Default)]
pub struct Network {
    pub cut_from_database: [bool; CONTROLLERS],
    pub cut_from_nodes: [[bool; NODES]; CONTROLLERS],
    /// Failovers so far.
    pub generation: u64,
    pub database_down: bool,
    connections: u64,
}

pub struct Stage {
    pub now: Micros,
    /// From here on nothing goes wrong any more, and what is late arrives soon.
    pub calm_from: Micros,
    pub dice: Dice,
    pub odds: Odds,
    pub network: Network,
    pub mutation: Option<Mutation>,
    pub checks: Checks,
    pub tell: bool,
    agenda: BTreeMap<Reverse<(Micros, u64)>, Event>,
}

impl Stage {
    pub fn new(seed: u64, mutation: Option<Mutation>, tell: bool) -> Self {
        let mut dice = Dice::new(seed);
        let odds = Odds::new(&mut dice);
        Self {
            now: 0,
            calm_from: LEASE * dice.between(4, 14),
            dice,
            odds,
            network: Network::default(),
            mutation,
            checks: Checks::default(),
            tell,
            agenda: BTreeMap::new(),
        }
    }

    pub fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Events at the same time come in any order.
    pub fn at(&mut self, time: Micros, event: Event) {
        let tie = self.dice.roll();
        self.agenda
            .insert(Reverse((time.max(self.now), tie)), event);
    }

    /// Moves on to the next event, or to `until` if none comes before.
    pub fn next(&mut self, until: Micros) -> Option<Event> {
        let next = self.agenda.last_entry();
        let next = next.filter(|next| next.key().0.0 < until);
        self.now = next.as_ref().map_or(until, |next| next.key().0.0);
        next.map(|next| next.remove())
    }

    pub fn becomes_calm(&mut self) {
        self.odds = Odds::NONE;
    }

    pub fn tell(&self, text: impl FnOnce() -> String) {
        if self.tell {
            eprintln!("{:>12.6} {}", self.now as f64 / 1e6, text());
        }
    }

    /// This much later, but what goes wrong has an end soon after it is calm.
    pub fn later(&mut self, length: Micros) -> Micros {
        let soon = self.now.max(self.calm_from) + self.dice.below(LEASE / 100);
        (self.now + length).min(soon)
    }

    /// When a message that is sent now arrives.
    pub fn arrival(&mut self) -> Micros {
        let slow = self.dice.chance(self.odds.slow);
        let length = self.length(slow, LEASE / 1000);
        self.later(length)
    }

    /// When a thread that has done a step does the next: soon, or after a pause.
    pub fn next_step(&mut self) -> Micros {
        let pause = self.dice.chance(self.odds.pause);
        let length = self.length(pause, LEASE / 10_000);
        self.later(length)
    }

    /// Up to `most`, or one that is long.
    pub fn length(&mut self, is_long: bool, most: Micros) -> Micros {
        match is_long {
            true => self.long(),
            false => self.dice.wild(most),
        }
    }

    /// Of any length up to some leases; many are near one lease, where most can go wrong, or
    /// such that a connection is not given up.
    pub fn long(&mut self) -> Micros {
        match self.dice.below(3) {
            0 => self.dice.between(LEASE / 2, LEASE * 3 / 2),
            1 => self.dice.below(PATIENCE),
            _ => self.dice.wild(3 * LEASE),
        }
    }

    /// `None` where the database is not reached.
    pub fn connect(&mut self, controller: usize) -> Option<Connection> {
        if self.network.database_down || self.network.cut_from_database[controller] {
            return None;
        }
        self.network.connections += 1;
        Some(Connection {
            id: self.network.connections,
            controller,
            generation: self.network.generation,
        })
    }

    /// The statement may arrive, late and after its connection was given up; the client may see the
    /// connection break whether or not it does.
    pub fn send(&mut self, connection: Connection, statement: Statement) {
        if self.dice.chance(self.odds.broken) {
            let at = self.arrival();
            self.at(at, Event::Broken(connection));
        }
        if !self.passes(connection) {
            return;
        }
        let mut at = self.arrival();
        let ambush = match statement {
            Statement::Take(..) => self.odds.ambush,
            Statement::Look => self.odds.ambush / 10,
            _ => 0,
        };
        if self.dice.chance(ambush) {
            let length = self.long();
            at = self.later(length);
            let by = self.jump();
            self.at(at - 1, Event::Fault(Fault::ClockJumps(by)));
        }
        self.at(at, Event::Arrived(connection, statement));
    }

    /// By how much a clock is off.
    pub fn jump(&mut self) -> i64 {
        let by = self.dice.wild(10 * LEASE) as i64;
        if self.dice.chance(500) { by } else { -by }
    }

    /// The database's answer to what came over `connection`.
    pub fn answer(&mut self, connection: Connection, answer: Answer) {
        if self.passes(connection) {
            let at = self.arrival();
            self.at(at, Event::Answered(connection, answer));
        }
    }

    fn passes(&mut self, connection: Connection) -> bool {
        let cut = self.network.cut_from_database[connection.controller];
        let gone = connection.generation != self.network.generation || self.network.database_down;
        !cut && !gone && !self.dice.chance(self.odds.lost)
    }

    /// The order arrives once, twice or never.
    pub fn order(&mut self, controller: usize, node: usize, order: Order) {
        if self.network.cut_from_nodes[controller][node] || self.dice.chance(self.odds.lost) {
            return;
        }
        let times = if self.dice.chance(self.odds.doubled) {
            2
        } else {
            1
        };
        for _ in 0..times {
            let slow = self.dice.chance(self.odds.slow_order);
            let length = self.length(slow, LEASE / 1000);
            let at = self.later(length);
            self.at(at, Event::Ordered(node, order));
        }
    }
}
