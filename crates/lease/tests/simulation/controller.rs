//! A controller around the machine of the library: two threads, a connection, clients who ask.
//!
//! Every step (a look at the clock, sending, receiving, deciding) is an event of its own, so that a
//! pause may come between any two.

use crate::database::{Answer, Batch, Statement};
use crate::dice::Micros;
use crate::mutation::Mutation;
use crate::serving::Serving;
use crate::stage::{Connection, Event, LEASE, PATIENCE, Stage, Thread};
use cosy_lease::{
    BatchNumber, Claimed, Contender, Decision, Epoch, Identity, LeaderRow, Leadership, LeaseTimes,
    Moment, Outcome, Session, Version, outcome_of,
};
use std::time::Duration;

/// A clock that nobody sets, but that is fast or slow.
pub struct Clock {
    /// How many seconds it counts in a million.
    rate: u64,
    off: u64,
}

impl Clock {
    fn new(stage: &mut Stage) -> Self {
        let rate = match stage.dice.below(3) {
            0 => 950_000,
            1 => 1_050_000,
            _ => stage.dice.between(950_000, 1_050_000),
        };
        let off = stage.dice.below(1000 * LEASE);
        Self { rate, off }
    }

    pub fn moment(&self, now: Micros) -> Moment {
        Moment(Duration::from_micros(self.off + now * self.rate / 1_000_000))
    }

    /// The first time at which it shows `moment`.
    fn time(&self, moment: Moment) -> Micros {
        let counted = (moment.0.as_micros() as u64).saturating_sub(self.off);
        (counted * 1_000_000).div_ceil(self.rate)
    }
}

/// What a standby does next.
enum Next {
    LookAt(Moment),
    Take(Version),
    Claim(Epoch),
}

pub struct Standby {
    contender: Contender,
    next: Next,
}

pub struct Lead {
    pub leadership: Leadership,
    /// `None` when the connection broke: then the row is claimed on a new one.
    session: Option<Session>,
    /// The last batch that is known to be committed.
    pub known: BatchNumber,
    /// Sent, or to be sent again; its outcome is not known.
    pending: Option<Batch>,
    next_batch: Moment,
    pub serving: Serving,
    /// A handover is asked for, with the name of who comes next.
    handover: Option<Option<usize>>,
    /// Requests are taken no more, and nothing goes out.
    pub stopped: bool,
}

enum Role {
    Standby(Standby),
    Lead(Box<Lead>),
}

/// Where the thread is that speaks with the database.
enum Doing {
    Connect,
    Plan,
    /// The clock was read.
    Send(Statement, Moment),
    Await(Statement, Moment),
    Receive(Statement, Moment, Answer),
}

pub struct Controller {
    at: usize,
    me: Identity,
    runs: u32,
    pub is_up: bool,
    pub clock: Clock,
    times: LeaseTimes,
    role: Role,
    doing: Doing,
    connection: Option<Connection>,
    paused_until: Micros,
    /// Of the steps that are planned, for each thread.
    tokens: [u64; 2],
}

pub fn name(controller: usize) -> String {
    format!("c{controller}")
}

impl Controller {
    pub fn new(stage: &mut Stage, at: usize) -> Self {
        let mut times = LeaseTimes::of(Duration::from_micros(LEASE));
        if stage.is(Mutation::NoMargin) {
            times.margin = Duration::ZERO;
        }
        let me = Identity {
            controller: name(at),
            run: "0".into(),
        };
        let mut controller = Self {
            at,
            role: standby(&me, times),
            me,
            runs: 0,
            is_up: true,
            clock: Clock::new(stage),
            times,
            doing: Doing::Connect,
            connection: None,
            paused_until: 0,
            tokens: [0, 0],
        };
        controller.begin_anew(stage);
        controller
    }

    pub fn lead(&self) -> Option<&Lead> {
        match &self.role {
            Role::Lead(lead) if self.is_up => Some(lead),
            _ => None,
        }
    }

    pub fn may_act(&self, now: Micros) -> bool {
        let moment = self.clock.moment(now);
        let lead = self.lead().filter(|lead| !lead.stopped);
        lead.is_some_and(|lead| lead.leadership.may_act(moment))
    }

    pub fn paused(&mut self, until: Micros) {
        self.paused_until = self.paused_until.max(until);
    }

    pub fn crash(&mut self) {
        self.is_up = false;
        self.tokens = self.tokens.map(|token| token + 1);
        self.connection = None;
    }

    pub fn restart(&mut self, stage: &mut Stage) {
        if !self.is_up {
            self.is_up = true;
            self.paused_until = 0;
            self.clock.off = stage.dice.below(1000 * LEASE);
            self.begin_anew(stage);
        }
    }

    pub fn handover(&mut self, next: Option<usize>) {
        if let Role::Lead(lead) = &mut self.role {
            lead.handover = Some(next);
        }
    }

    /// Forgets everything and contends, as a new run.
    fn begin_anew(&mut self, stage: &mut Stage) {
        self.runs += 1;
        self.me.run = self.runs.to_string();
        self.role = standby(&self.me, self.times);
        self.connection = None;
        self.doing = Doing::Connect;
        self.tokens = self.tokens.map(|token| token + 1);
        self.goes_on(stage, Thread::Database);
    }

    /// The thread's next step is then, whatever was planned before.
    fn plan(&mut self, stage: &mut Stage, thread: Thread, time: Micros) {
        let token = &mut self.tokens[thread as usize];
        *token += 1;
        stage.at(time, Event::Step(self.at, thread, *token));
    }

    fn goes_on(&mut self, stage: &mut Stage, thread: Thread) {
        let time = stage.next_step();
        self.plan(stage, thread, time);
    }

    fn rests_until(&mut self, stage: &mut Stage, moment: Moment) {
        let time = self.clock.time(moment).max(stage.next_step());
        self.plan(stage, Thread::Database, time);
    }

    pub fn step(&mut self, stage: &mut Stage, thread: Thread, token: u64) {
        if token != self.tokens[thread as usize] {
            return;
        }
        if stage.now < self.paused_until {
            let time = self.paused_until + stage.dice.below(LEASE / 10_000);
            return self.plan(stage, thread, time);
        }
        match thread {
            Thread::Database => self.database_step(stage),
            Thread::Serving => self.serving_step(stage),
        }
    }

    pub fn answered(&mut self, stage: &mut Stage, connection: Connection, answer: Answer) {
        if self.connection != Some(connection) {
            return;
        }
        match std::mem::replace(&mut self.doing, Doing::Plan) {
            Doing::Await(statement, sent_at) => {
                self.doing = Doing::Receive(statement, sent_at, answer);
                self.goes_on(stage, Thread::Database);
            }
            other => self.doing = other,
        }
    }

    /// The thread learns of it when it waits for an answer.
    pub fn broken(&mut self, stage: &mut Stage, connection: Connection) {
        let waits = matches!(self.doing, Doing::Await(..));
        if self.connection == Some(connection) && waits {
            self.goes_on(stage, Thread::Database);
        }
    }

    fn database_step(&mut self, stage: &mut Stage) {
        match std::mem::replace(&mut self.doing, Doing::Plan) {
            Doing::Connect => self.connect(stage),
            Doing::Plan => self.plan_statement(stage),
            Doing::Send(statement, sent_at) => self.send(stage, statement, sent_at),
            Doing::Await(..) => self.gives_up_connection(stage),
            Doing::Receive(statement, sent_at, answer) => {
                self.receive(stage, &statement, sent_at, answer);
            }
        }
    }

    fn connect(&mut self, stage: &mut Stage) {
        self.connection = stage.connect(self.at);
        if self.connection.is_some() {
            return self.goes_on(stage, Thread::Database);
        }
        self.doing = Doing::Connect;
        let time = stage.now + stage.dice.between(LEASE / 100, LEASE / 10);
        self.plan(stage, Thread::Database, time);
    }

    fn send(&mut self, stage: &mut Stage, statement: Statement, sent_at: Moment) {
        if let Some(connection) = self.connection {
            stage.send(connection, statement.clone());
        }
        self.doing = Doing::Await(statement, sent_at);
        let time = stage.now + PATIENCE;
        self.plan(stage, Thread::Database, time);
    }

    /// No answer came. What was asked may still happen.
    fn gives_up_connection(&mut self, stage: &mut Stage) {
        stage.tell(|| format!("{} gives its connection up", self.me));
        self.connection = None;
        self.doing = Doing::Connect;
        let now = self.clock.moment(stage.now);
        match &mut self.role {
            Role::Standby(standby) => standby.next = Next::LookAt(now),
            Role::Lead(lead) if lead.stopped => return self.begin_anew(stage),
            Role::Lead(lead) => lead.session = None,
        }
        self.goes_on(stage, Thread::Database);
    }

    /// Reads the clock and decides what to send, or rests.
    fn plan_statement(&mut self, stage: &mut Stage) {
        let now = self.clock.moment(stage.now);
        let planned = match &mut self.role {
            Role::Standby(standby) => match standby.next {
                Next::LookAt(at) if now < at => Err(at),
                Next::LookAt(_) => Ok(Statement::Look),
                Next::Take(seen) => Ok(Statement::Take(seen, self.me.clone())),
                Next::Claim(epoch) => Ok(Statement::Claim(epoch, self.me.clone())),
            },
            Role::Lead(lead) => lead.plan(stage, now, &self.me),
        };
        match planned {
            Ok(statement) => {
                self.doing = Doing::Send(statement, now);
                self.goes_on(stage, Thread::Database);
            }
            Err(moment) => self.rests_until(stage, moment),
        }
    }

    fn receive(&mut self, stage: &mut Stage, asked: &Statement, sent_at: Moment, answer: Answer) {
        let now = self.clock.moment(stage.now);
        match &mut self.role {
            Role::Standby(standby) => {
                let looked_at = match stage.is(Mutation::CountsFromQuestion) {
                    true => sent_at,
                    false => now,
                };
                if let Some((epoch, claimed)) = standby.receive(stage, looked_at, asked, answer) {
                    self.takes_over(stage, epoch, claimed, sent_at);
                }
            }
            Role::Lead(lead) => {
                let counted_from = match stage.is(Mutation::LeaseFromAnswer) {
                    true => now,
                    false => sent_at,
                };
                let goes_on = lead.receive(stage, asked, counted_from, answer);
                lead.next_batch = lead.next_batch.max(now);
                if !goes_on {
                    stage.tell(|| format!("{} leads no more", self.me));
                    return self.begin_anew(stage);
                }
            }
        }
        self.goes_on(stage, Thread::Database);
    }

    fn takes_over(&mut self, stage: &mut Stage, epoch: Epoch, claimed: Claimed, sent_at: Moment) {
        stage.tell(|| format!("{} leads with epoch {epoch}", self.me));
        stage.checks.leads(epoch, &self.me);
        self.role = Role::Lead(Box::new(Lead {
            leadership: Leadership::taken(epoch, self.times, sent_at),
            session: Some(claimed.session),
            known: claimed.last,
            pending: None,
            next_batch: sent_at,
            serving: Serving::new(self.at, epoch),
            handover: None,
            stopped: false,
        }));
        self.goes_on(stage, Thread::Serving);
    }

    fn serving_step(&mut self, stage: &mut Stage) {
        let now = self.clock.moment(stage.now);
        let Role::Lead(lead) = &mut self.role else {
            return;
        };
        let may_act =
            !lead.stopped && (lead.leadership.may_act(now) || stage.is(Mutation::ActsAfterLease));
        let rest = lead.serving.step(stage, &self.me, may_act, lead.known);
        let time = stage.next_step() + rest;
        self.plan(stage, Thread::Serving, time);
    }
}

fn standby(me: &Identity, times: LeaseTimes) -> Role {
    Role::Standby(Standby {
        contender: Contender::new(me.clone(), times),
        next: Next::LookAt(Moment::default()),
    })
}

fn ignores_own_clock(stage: &Stage, row: &LeaderRow) -> bool {
    let holds = matches!(row.lead, cosy_lease::Lead::Held { expired: false, .. });
    stage.is(Mutation::TakeOnDatabaseClock) && !holds
}

impl Standby {
    /// Says when it leads.
    fn receive(
        &mut self,
        stage: &mut Stage,
        now: Moment,
        asked: &Statement,
        answer: Answer,
    ) -> Option<(Epoch, Claimed)> {
        self.next = Next::LookAt(now);
        match (asked, answer) {
            (Statement::Look, Answer::Row(row)) => {
                let decision = match self.contender.looked(now, &row) {
                    Decision::Wait { .. } if ignores_own_clock(stage, &row) => {
                        let seen = row.version;
                        Decision::Take { seen }
                    }
                    decision => decision,
                };
                self.next = match decision {
                    Decision::Wait { until } => Next::LookAt(until),
                    Decision::Take { seen } => Next::Take(seen),
                    Decision::Mine { epoch } => Next::Claim(epoch),
                };
                None
            }
            (Statement::Take(..), Answer::Taken(taken)) => taken,
            (Statement::Claim(epoch, _), Answer::Claimed(Some(claimed))) => {
                stage.checks.tally.takes_found_later += 1;
                Some((*epoch, claimed))
            }
            _ => None,
        }
    }
}

impl Lead {
    /// The next statement, or until when there is none.
    fn plan(&mut self, stage: &mut Stage, now: Moment, me: &Identity) -> Result<Statement, Moment> {
        let epoch = self.leadership.epoch();
        let Some(session) = self.session else {
            let looks =
                stage.is(Mutation::ResolveByLook) || stage.is(Mutation::ResolveByLockingRead);
            return Ok(match looks {
                true => Statement::LockingRead(epoch, me.clone()),
                false => Statement::Claim(epoch, me.clone()),
            });
        };
        if let Some(batch) = self.pending {
            stage.checks.sent_again(batch);
            return Ok(Statement::Batch(epoch, session, batch));
        }
        if let Some(next) = self.handover {
            stage.checks.tally.handovers += 1;
            self.stopped = !stage.is(Mutation::ReleasesBeforeStopping);
            return Ok(Statement::Release(epoch, session, next.map(name)));
        }
        if now >= self.next_batch {
            let wait = stage.dice.wild(LEASE / 2) + LEASE / 100;
            self.next_batch = now.after(Duration::from_micros(wait));
            let batch = Batch {
                number: self.known.next(),
                request: stage.dice.roll(),
            };
            self.pending = Some(batch);
            if stage.is(Mutation::AnswersBeforeCommit) {
                self.serving.answer(batch);
            }
            if stage.is(Mutation::OrdersBeforeCommit) {
                self.serving.order(batch, epoch);
            }
            return Ok(Statement::Batch(epoch, session, batch));
        }
        let renew_at = self.leadership.renew_at();
        if now >= renew_at {
            return Ok(Statement::Renew(epoch, session));
        }
        Err(renew_at.min(self.next_batch))
    }

    /// Whether it goes on as leader.
    fn receive(
        &mut self,
        stage: &mut Stage,
        asked: &Statement,
        sent_at: Moment,
        answer: Answer,
    ) -> bool {
        let epoch = self.leadership.epoch();
        match (asked, answer) {
            (Statement::Release(..), _) => return false,
            (Statement::Claim(..) | Statement::LockingRead(..), Answer::Claimed(claimed)) => {
                return self.claimed(stage, sent_at, claimed);
            }
            (_, Answer::Matched(false)) => {
                stage.checks.tally.overtaken += 1;
                self.session = None;
                if stage.is(Mutation::MismatchDeposes) {
                    stage.checks.deposed(epoch);
                    return false;
                }
            }
            (Statement::Batch(_, _, batch), Answer::Matched(true)) => {
                self.leadership.confirmed(sent_at);
                self.committed(*batch);
            }
            (Statement::Batch(_, _, batch), Answer::Failed) => self.not_committed(stage, *batch),
            (Statement::Renew(..), Answer::Matched(true)) => self.leadership.confirmed(sent_at),
            _ => {}
        }
        true
    }

    fn claimed(&mut self, stage: &mut Stage, sent_at: Moment, claimed: Option<Claimed>) -> bool {
        if let Some(claimed) = claimed {
            self.session = Some(claimed.session);
            self.leadership.confirmed(sent_at);
        } else {
            stage.checks.deposed(self.leadership.epoch());
        }
        let Some(batch) = self.pending else {
            return claimed.is_some();
        };
        if stage.is(Mutation::ResolveByRepeating) && claimed.is_some() {
            let number = claimed.map_or(batch.number, |claimed| claimed.last.next());
            self.pending = Some(Batch { number, ..batch });
            return true;
        }
        let mut outcome = outcome_of(batch.number, claimed);
        if stage.is(Mutation::ResolveByHoping) && claimed.is_some() {
            outcome = Outcome::Committed;
        }
        match outcome {
            Outcome::Committed => {
                stage.checks.resolved_committed(batch);
                self.committed(batch);
                true
            }
            Outcome::NotCommitted => {
                stage.checks.tally.resolved_not_committed += 1;
                self.not_committed(stage, batch);
                true
            }
            Outcome::Deposed => {
                stage.checks.tally.resolved_deposed += 1;
                false
            }
        }
    }

    fn committed(&mut self, batch: Batch) {
        self.pending = None;
        self.known = batch.number;
        self.serving.answer(batch);
        self.serving.order(batch, self.leadership.epoch());
    }

    /// It is sent again, or the client is told that it was refused.
    fn not_committed(&mut self, stage: &mut Stage, batch: Batch) {
        stage.checks.not_committed(batch);
        if stage.is(Mutation::NumbersSkip) {
            self.known = batch.number;
            self.pending = None;
            return;
        }
        if stage.dice.chance(500) {
            self.pending = None;
        }
    }
}
