//! One schedule from its seed: faults for some leases, then calm, then a look at who leads.

use crate::checks::{Rule, Tally, Violation};
use crate::controller::Controller;
use crate::database::Database;
use crate::dice::Micros;
use crate::mutation::Mutation;
use crate::node::Node;
use crate::stage::{CONTROLLERS, Event, Fault, LEASE, NODES, Stage};

/// Kinds of faults; the last ones are all pauses.
const KINDS: u64 = 10;
/// Of each kind in one schedule.
const MOST_FAULTS: u64 = 8;

struct Schedule {
    stage: Stage,
    database: Database,
    controllers: Vec<Controller>,
    nodes: Vec<Node>,
}

/// Plays the schedule of `seed`; `tell` writes what happens.
pub fn run(seed: u64, mutation: Option<Mutation>, tell: bool) -> Result<Tally, Violation> {
    let mut schedule = Schedule::new(seed, mutation, tell);
    let calm_from = schedule.stage.calm_from;
    schedule.play(calm_from);
    schedule.stage.becomes_calm();
    schedule.play(calm_from + 4 * LEASE);
    let batches = schedule.stage.checks.batches();
    schedule.one_leads();
    schedule.play(calm_from + 5 * LEASE);
    schedule.one_leads();
    let more = schedule.stage.checks.batches() > batches;
    let checks = &mut schedule.stage.checks;
    checks.rule(Rule::OneLeadsInTheEnd, more, || "no batches commit".into());
    checks.in_the_end();
    match checks.violation.take() {
        Some(violation) => Err(violation),
        None => Ok(checks.tally.clone()),
    }
}

impl Schedule {
    fn new(seed: u64, mutation: Option<Mutation>, tell: bool) -> Self {
        let mut stage = Stage::new(seed, mutation, tell);
        let controllers = stage.dice.between(2, CONTROLLERS as u64) as usize;
        let mut schedule = Self {
            database: Database::new(),
            controllers: (0..controllers)
                .map(|at| Controller::new(&mut stage, at))
                .collect(),
            nodes: (0..NODES).map(Node::new).collect(),
            stage,
        };
        schedule.plan_faults();
        schedule
    }

    fn plan_faults(&mut self) {
        let stage = &mut self.stage;
        for kind in 0..KINDS {
            let times = match stage.dice.chance(500) {
                true => stage.dice.between(1, MOST_FAULTS),
                false => 0,
            };
            for _ in 0..times {
                let time = stage.dice.below(stage.calm_from);
                stage.at(time, Event::Strike(kind));
            }
        }
    }

    fn play(&mut self, until: Micros) {
        while self.stage.checks.violation.is_none()
            && let Some(event) = self.stage.next(until)
        {
            self.happens(event);
            self.one_acts();
        }
    }

    fn happens(&mut self, event: Event) {
        let stage = &mut self.stage;
        match event {
            Event::Arrived(connection, statement) => {
                self.database.arrived(stage, connection, statement);
            }
            Event::TransactionEnds(id) => self.database.transaction_ends(stage, id),
            Event::Answered(connection, answer) => {
                self.controllers[connection.controller].answered(stage, connection, answer);
            }
            Event::Broken(connection) => {
                self.controllers[connection.controller].broken(stage, connection);
            }
            Event::Step(at, thread, token) => self.controllers[at].step(stage, thread, token),
            Event::Ordered(node, order) => self.nodes[node].ordered(stage, order),
            Event::NodeStep(node, token) => self.nodes[node].step(stage, token),
            Event::Fault(fault) => self.fault(fault),
            Event::Strike(kind) => self.strike(kind),
        }
    }

    fn fault(&mut self, fault: Fault) {
        let stage = &mut self.stage;
        stage.tell(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Pause(at, until) => self.controllers[at].paused(until),
            Fault::Crash(at, until) => {
                self.controllers[at].crash();
                stage.at(until, Event::Fault(Fault::Restart(at)));
            }
            Fault::Restart(at) => self.controllers[at].restart(stage),
            Fault::Handover(at, next) => {
                let next = (next < self.controllers.len()).then_some(next);
                self.controllers[at].handover(next);
            }
            Fault::CutFromDatabase(at, until) => {
                stage.network.cut_from_database[at] = true;
                stage.at(until, Event::Fault(Fault::HealToDatabase(at)));
            }
            Fault::HealToDatabase(at) => stage.network.cut_from_database[at] = false,
            Fault::CutFromNode(at, node, until) => {
                stage.network.cut_from_nodes[at][node] = true;
                stage.at(until, Event::Fault(Fault::HealToNode(at, node)));
            }
            Fault::HealToNode(at, node) => stage.network.cut_from_nodes[at][node] = false,
            Fault::ClockJumps(by) => self.database.clock_jumps(by),
            Fault::Failover(until, clock_off) => {
                stage.network.database_down = true;
                stage.network.generation += 1;
                self.database.fails_over(clock_off);
                stage.at(until, Event::Fault(Fault::Promoted));
            }
            Fault::Promoted => stage.network.database_down = false,
            Fault::NodeCrash(node, until) => {
                self.nodes[node].crash();
                stage.at(until, Event::Fault(Fault::NodeRestart(node)));
            }
            Fault::NodeRestart(node) => self.nodes[node].restart(stage),
        }
    }

    fn acting(&self) -> usize {
        let now = self.stage.now;
        self.controllers.iter().filter(|c| c.may_act(now)).count()
    }

    fn one_acts(&mut self) {
        let acting = self.acting();
        let checks = &mut self.stage.checks;
        checks.rule(Rule::OneActs, acting <= 1, || format!("{acting} act at once"));
    }

    fn one_leads(&mut self) {
        let leading = self.controllers.iter().filter(|c| c.lead().is_some());
        let (leading, acting) = (leading.count(), self.acting());
        let checks = &mut self.stage.checks;
        checks.rule(Rule::OneLeadsInTheEnd, (leading, acting) == (1, 1), || {
            format!("{leading} lead and {acting} act")
        });
    }

    /// A fault of a kind. Of the controllers it is every second time the one that leads.
    fn strike(&mut self, kind: u64) {
        let leads = self.controllers.iter().position(|c| c.lead().is_some());
        let stage = &mut self.stage;
        let until = stage.calm_from.min(stage.now + stage.long());
        let jump = stage.jump();
        let dice = &mut stage.dice;
        let any = dice.below(self.controllers.len() as u64) as usize;
        let at = leads.filter(|_| dice.chance(500)).unwrap_or(any);
        let node = dice.below(NODES as u64) as usize;
        let fault = match kind {
            0 => Fault::Crash(at, until),
            1 => Fault::Handover(leads.unwrap_or(at), dice.below(6) as usize),
            2 => Fault::CutFromDatabase(at, until),
            3 => Fault::CutFromNode(at, node, until),
            4 => Fault::ClockJumps(jump),
            5 => Fault::Failover(until, jump),
            6 => Fault::NodeCrash(node, until),
            _ => Fault::Pause(at, until),
        };
        self.fault(fault);
    }
}
