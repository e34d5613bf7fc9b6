//! The database: one row under a lock, a log of batches, and a clock that may jump.

use crate::checks::{Checks, Entry};
use crate::dice::Micros;
use crate::mutation::Mutation;
use crate::stage::{Connection, Event, LEASE, Stage};
use cosy_lease::{
    BatchNumber, Claimed, Epoch, Identity, Lead, LeaderRow, Renewals, Session, Version,
};
use std::collections::VecDeque;
use std::time::Duration;

/// What a batch brings about; `request` is what a client asked for, and is in one batch only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    pub number: BatchNumber,
    pub request: u64,
}

#[derive(Clone, Debug)]
pub enum Statement {
    Look,
    /// Only of a mutation: waits for the row and gives what a claim gives.
    LockingRead(Epoch, Identity),
    Take(Version, Identity),
    Claim(Epoch, Identity),
    Renew(Epoch, Session),
    Batch(Epoch, Session, Batch),
    Release(Epoch, Session, Option<String>),
}

#[derive(Clone, Debug)]
pub enum Answer {
    Row(LeaderRow),
    Taken(Option<(Epoch, Claimed)>),
    Claimed(Option<Claimed>),
    /// Whether an update matched; the transaction has committed.
    Matched(bool),
    /// The transaction was rolled back.
    Failed,
}

#[derive(Clone, Debug)]
struct Row {
    epoch: Epoch,
    holder: Identity,
    next: Option<String>,
    released: bool,
    /// On the database's clock.
    until: i64,
    renewals: Renewals,
    session: Session,
    last: BatchNumber,
}

impl Row {
    fn lead(&self, clock: i64, far_counts: bool) -> Lead {
        if self.released {
            let next = self.next.clone();
            return Lead::Free { next };
        }
        let far = self.until > clock + LEASE as i64 && !far_counts;
        let by = self.holder.clone();
        let expired = self.until <= clock || far;
        Lead::Held { by, expired }
    }

    fn claimed(&self) -> Claimed {
        Claimed {
            session: self.session,
            last: self.last,
        }
    }

    fn is_of(&self, epoch: Epoch, holder: &Identity) -> bool {
        self.epoch == epoch && self.holder == *holder && !self.released
    }
}

/// A transaction that has the row's lock.
struct Transaction {
    id: u64,
    connection: Connection,
    statement: Statement,
    row: Row,
}

pub struct Database {
    row: Row,
    /// By which its clock is off from real time.
    clock_off: i64,
    transaction: Option<Transaction>,
    waiting: VecDeque<(Connection, Statement)>,
    transactions: u64,
}

impl Database {
    pub fn new() -> Self {
        let nobody = Identity {
            controller: String::new(),
            run: String::new(),
        };
        Self {
            row: Row {
                epoch: Epoch(0),
                holder: nobody,
                next: None,
                released: true,
                until: 0,
                renewals: Renewals(0),
                session: Session(0),
                last: BatchNumber(0),
            },
            clock_off: 0,
            transaction: None,
            waiting: VecDeque::new(),
            transactions: 0,
        }
    }

    pub fn clock_jumps(&mut self, by: i64) {
        self.clock_off += by;
    }

    /// The primary is gone with what was under way; what was committed is on the next one.
    pub fn fails_over(&mut self, clock_off: i64) {
        self.clock_off = clock_off;
        self.transaction = None;
        self.waiting.clear();
    }

    fn clock(&self, now: Micros) -> i64 {
        now as i64 + self.clock_off
    }

    pub fn arrived(&mut self, stage: &mut Stage, connection: Connection, statement: Statement) {
        let gone = connection.generation != stage.network.generation;
        if gone || stage.network.database_down {
            return;
        }
        if matches!(statement, Statement::Look) {
            let row = self.look(stage);
            return stage.answer(connection, Answer::Row(row));
        }
        if matches!(statement, Statement::LockingRead(..)) && stage.is(Mutation::ResolveByLook) {
            let found = self.matches(stage, &statement).then(|| self.row.claimed());
            return stage.answer(connection, Answer::Claimed(found));
        }
        self.waiting.push_back((connection, statement));
        self.goes_on(stage);
    }

    fn look(&self, stage: &Stage) -> LeaderRow {
        let far_counts = stage.is(Mutation::TrustsFarEnd);
        LeaderRow {
            version: Version {
                epoch: self.row.epoch,
                renewals: self.row.renewals,
            },
            lease: Duration::from_micros(LEASE),
            lead: self.row.lead(self.clock(stage.now), far_counts),
        }
    }

    /// While nobody has the row, those who wait for it are served in turn.
    fn goes_on(&mut self, stage: &mut Stage) {
        while self.transaction.is_none() {
            let Some((connection, statement)) = self.waiting.pop_front() else {
                return;
            };
            match self.matches(stage, &statement) {
                true => self.begin(stage, connection, statement),
                false => stage.answer(connection, no_match(&statement)),
            }
        }
    }

    /// The `WHERE` of the statement, on the row as it is now.
    fn matches(&self, stage: &Stage, statement: &Statement) -> bool {
        let row = &self.row;
        let any_session =
            stage.is(Mutation::ResolveByLook) || stage.is(Mutation::ResolveByLockingRead);
        let over = |row: &Row| {
            let far_counts = stage.is(Mutation::TrustsFarEnd);
            let lead = row.lead(self.clock(stage.now), far_counts);
            !matches!(lead, Lead::Held { expired: false, .. })
        };
        match statement {
            Statement::Look => true,
            Statement::Take(..) if stage.is(Mutation::TakeIsUnconditional) => true,
            Statement::Take(seen, _) => {
                let renewals =
                    seen.renewals == row.renewals || stage.is(Mutation::TakeIgnoresRenewals);
                seen.epoch == row.epoch && renewals && over(row)
            }
            Statement::LockingRead(epoch, me) | Statement::Claim(epoch, me) => {
                row.is_of(*epoch, me)
            }
            Statement::Batch(..) if stage.is(Mutation::BatchIsUnconditional) => true,
            Statement::Renew(epoch, session)
            | Statement::Batch(epoch, session, _)
            | Statement::Release(epoch, session, _) => {
                row.epoch == *epoch && !row.released && (row.session == *session || any_session)
            }
        }
    }

    fn begin(&mut self, stage: &mut Stage, connection: Connection, statement: Statement) {
        let row = self.updated(stage, &statement);
        self.transactions += 1;
        let id = self.transactions;
        let long = stage.dice.chance(stage.odds.long_transaction);
        let length = stage.length(long, LEASE / 1000);
        let at = stage.later(length);
        stage.at(at, Event::TransactionEnds(id));
        self.transaction = Some(Transaction {
            id,
            connection,
            statement,
            row,
        });
    }

    /// The row after the statement's `SET`.
    fn updated(&self, stage: &Stage, statement: &Statement) -> Row {
        let mut row = self.row.clone();
        if matches!(statement, Statement::LockingRead(..)) {
            return row;
        }
        row.renewals = row.renewals.next();
        row.until = self.clock(stage.now) + LEASE as i64;
        match statement {
            Statement::Look | Statement::LockingRead(..) | Statement::Renew(..) => {}
            Statement::Take(seen, me) => {
                row.epoch = seen.epoch.next();
                row.holder = me.clone();
                row.released = false;
                row.next = None;
                row.session = row.session.next();
            }
            Statement::Claim(..) => row.session = row.session.next(),
            Statement::Batch(_, _, batch) => row.last = batch.number,
            Statement::Release(_, _, next) => {
                row.released = true;
                row.next = next.clone();
            }
        }
        row
    }

    pub fn transaction_ends(&mut self, stage: &mut Stage, id: u64) {
        let Some(transaction) = self.transaction.take_if(|t| t.id == id) else {
            return;
        };
        if stage.dice.chance(stage.odds.abort) {
            stage.tell(|| format!("database rolls back {:?}", transaction.statement));
            stage.answer(transaction.connection, Answer::Failed);
        } else {
            self.commit(stage, transaction);
        }
        self.goes_on(stage);
    }

    fn commit(&mut self, stage: &mut Stage, transaction: Transaction) {
        let Transaction {
            connection,
            statement,
            row,
            ..
        } = transaction;
        stage.tell(|| format!("database commits {statement:?} of {}", connection.controller));
        let before = std::mem::replace(&mut self.row, row);
        told_to(&mut stage.checks, &before, &self.row, &statement);
        let answer = match statement {
            Statement::Take(..) => Answer::Taken(Some((self.row.epoch, self.row.claimed()))),
            Statement::Claim(..) | Statement::LockingRead(..) => {
                Answer::Claimed(Some(self.row.claimed()))
            }
            _ => Answer::Matched(true),
        };
        stage.answer(connection, answer);
    }
}

fn told_to(checks: &mut Checks, before: &Row, after: &Row, statement: &Statement) {
    match statement {
        Statement::Take(_, me) => checks.took(before.epoch, after.epoch, me),
        Statement::Batch(epoch, _, batch) => {
            let entry = Entry {
                epoch: *epoch,
                batch: *batch,
            };
            checks.committed(before.epoch, entry);
        }
        _ => {}
    }
}

fn no_match(statement: &Statement) -> Answer {
    match statement {
        Statement::Take(..) => Answer::Taken(None),
        Statement::Claim(..) | Statement::LockingRead(..) => Answer::Claimed(None),
        _ => Answer::Matched(false),
    }
}
