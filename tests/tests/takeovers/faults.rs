//! What fails, and how it is mended when another goes on.

use crate::house::{House, NODES};
use cosy_tests::proxy::Proxy;
use cosy_tests::{Chance, wait};
use nix::sys::signal::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Half of the nodes, and more.
const HALF: usize = NODES / 2 + 1;

/// Each of them makes the other controller lead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    Kill,
    Freeze,
    CutFromDatabase,
    /// What the leader has sent to the database comes there when another has taken the lead and has
    /// changed nothing yet.
    LateWords,
    /// What the leader has sent to nodes comes there when another leads.
    LateOrders,
    CutFromNodesAndKilled,
    CutFromNodesAndHandedOver,
    HandOver,
    Database,
    DatabaseAndKilled,
}

impl Fault {
    const ALL: [Self; 10] = [
        Self::Kill,
        Self::Freeze,
        Self::CutFromDatabase,
        Self::LateWords,
        Self::LateOrders,
        Self::CutFromNodesAndKilled,
        Self::CutFromNodesAndHandedOver,
        Self::HandOver,
        Self::Database,
        Self::DatabaseAndKilled,
    ];

    pub fn by(chance: &mut Chance) -> Self {
        Self::ALL[chance.below(Self::ALL.len() as u64) as usize]
    }
}

impl House {
    /// Something fails, and is mended when another goes on.
    pub fn fail(&mut self, fault: Fault, chance: &mut Chance) {
        let leader = self.leader();
        let other = 1 - leader;
        eprintln!("{fault:?}: c{}", leader + 1);
        let begun = Instant::now();
        let mut pause = |most| sleep(Duration::from_millis(chance.below(most)));
        match fault {
            Fault::Kill => self.killed(leader),
            Fault::Freeze => {
                self.cluster.controller(leader).signal(Signal::SIGSTOP);
                self.cluster.until_leads(other);
                // It thaws while the other one works.
                pause(1500);
                self.cluster.controller(leader).signal(Signal::SIGCONT);
            }
            Fault::CutFromDatabase => {
                self.to_databases[leader].iter().for_each(Proxy::cut);
                self.cluster.until_leads(other);
                pause(1000);
                self.to_databases[leader].iter().for_each(Proxy::mend);
            }
            Fault::LateWords => self.late_words(leader, chance.one_in(2)),
            Fault::LateOrders => self.late_orders(leader),
            Fault::CutFromNodesAndKilled => {
                // Half of the nodes do not hear the next one for a while.
                self.half(other).for_each(Proxy::cut);
                self.cluster.controller(leader).kill();
                self.cluster.until_leads(other);
                pause(2000);
                self.half(other).for_each(Proxy::mend);
                self.cluster.start_controller(leader);
            }
            Fault::CutFromNodesAndHandedOver => {
                self.half(leader).for_each(Proxy::cut);
                pause(2000);
                self.handed_over(other);
                self.half(leader).for_each(Proxy::mend);
            }
            Fault::HandOver => self.handed_over(other),
            Fault::Database => {
                self.databases.fail_over();
                self.link();
            }
            Fault::DatabaseAndKilled => {
                self.cluster.controller(leader).kill();
                self.databases.fail_over();
                self.link();
                self.cluster.until_leads(other);
                self.cluster.start_controller(leader);
            }
        }
        eprintln!("  {:?}", begun.elapsed());
        self.until_all_are_there();
    }

    /// The ways of half of the nodes to a controller.
    fn half(&self, controller: usize) -> impl Iterator<Item = &Proxy> {
        let nodes = &self.to_controllers[..HALF];
        nodes.iter().map(move |ways| &ways[controller])
    }

    fn killed(&mut self, leader: usize) {
        self.cluster.controller(leader).kill();
        self.cluster.until_leads(1 - leader);
        self.cluster.start_controller(leader);
    }

    fn handed_over(&self, other: usize) {
        self.cluster.run(&["cadm", "takeover"]).expect(0);
        self.cluster.until_leads(other);
    }

    fn late_words(&mut self, leader: usize, frozen: bool) {
        let before = self.databases.epoch();
        self.to_databases[leader].iter().for_each(Proxy::cut);
        if frozen {
            // What it has sent waits on the way.
            sleep(Duration::from_millis(200));
            self.cluster.controller(leader).signal(Signal::SIGSTOP);
        }
        wait::until_true("the other one takes the lead", || self.databases.epoch() > before);
        self.to_databases[leader].iter().for_each(Proxy::mend);
        if frozen {
            self.cluster.until_leads(1 - leader);
            self.cluster.controller(leader).signal(Signal::SIGCONT);
        }
    }

    /// The leader's words to all nodes wait; nodes hear the other one.
    fn late_orders(&mut self, leader: usize) {
        for ways in &self.to_controllers {
            ways[leader].cut();
        }
        sleep(Duration::from_millis(300));
        self.cluster.controller(leader).signal(Signal::SIGSTOP);
        self.cluster.until_leads(1 - leader);
        for ways in &self.to_controllers {
            ways[leader].mend();
        }
        self.cluster.controller(leader).signal(Signal::SIGCONT);
    }
}
