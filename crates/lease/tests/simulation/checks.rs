//! The rules, looked at from outside: by who sees the database, the nodes and all that is told.

use crate::database::Batch;
use crate::stage::NODES;
use cosy_lease::{Epoch, Identity};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// An epoch is taken once, by one run, and is higher than all before.
    OneHolderPerEpoch,
    /// A batch commits under the epoch that the row has.
    BatchOfCurrentEpoch,
    /// Batches are numbered without gaps and doubles.
    NumbersWithoutGaps,
    /// What a client asked for is in the database at most once.
    CommittedOnce,
    /// What is told to be done is in the database, then and in the end.
    AcknowledgedIsThere,
    /// What the leader takes for not committed is not there, and does not come to be unless it is
    /// sent again.
    NotCommittedIsSo,
    /// What is taken for committed after an unknown outcome is there.
    CommittedIsSo,
    /// Who takes itself for deposed is: somebody took a higher epoch.
    DeposedIsSo,
    /// Orders are only sent for what is committed.
    OrdersAreCommitted,
    /// A node obeys no order of an epoch below one that it has kept or obeyed.
    NodeObeysNewest,
    /// The epoch that a node has kept never falls.
    NodeKeepsNewest,
    /// At no moment two leaders may act.
    OneActs,
    /// Answers from memory know all that anybody was told to be done. The look at the clock and
    /// the answer are one step here: what falls asleep between the two, or whose answer travels long,
    /// may tell what was true when it looked; no lease can rule that out.
    ReadsAreFresh,
    /// Four leases after the last fault one leads and commits.
    OneLeadsInTheEnd,
}

#[derive(Debug)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// What is in the database.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub epoch: Epoch,
    pub batch: Batch,
}

/// How often what was seen, to know that schedules reach it.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    pub batches: u64,
    pub reads: u64,
    pub reads_withheld: u64,
    pub takes: u64,
    pub takes_found_later: u64,
    pub handovers: u64,
    /// Updates of leaders that matched nothing.
    pub overtaken: u64,
    pub deposed: u64,
    pub resolved_committed: u64,
    pub resolved_not_committed: u64,
    pub resolved_deposed: u64,
    pub orders_obeyed: u64,
    pub orders_refused: u64,
}

impl Tally {
    /// Each with its name.
    pub fn figures(&self) -> [(&'static str, u64); 13] {
        [
            ("batches", self.batches),
            ("reads", self.reads),
            ("reads withheld", self.reads_withheld),
            ("takes", self.takes),
            ("takes found later", self.takes_found_later),
            ("handovers", self.handovers),
            ("leaders overtaken", self.overtaken),
            ("leaders deposed", self.deposed),
            ("unknown: committed", self.resolved_committed),
            ("unknown: not committed", self.resolved_not_committed),
            ("unknown: deposed", self.resolved_deposed),
            ("orders obeyed", self.orders_obeyed),
            ("orders refused", self.orders_refused),
        ]
    }

    pub fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.reads += other.reads;
        self.reads_withheld += other.reads_withheld;
        self.takes += other.takes;
        self.takes_found_later += other.takes_found_later;
        self.handovers += other.handovers;
        self.overtaken += other.overtaken;
        self.deposed += other.deposed;
        self.resolved_committed += other.resolved_committed;
        self.resolved_not_committed += other.resolved_not_committed;
        self.resolved_deposed += other.resolved_deposed;
        self.orders_obeyed += other.orders_obeyed;
        self.orders_refused += other.orders_refused;
    }
}

#[derive(Default)]
pub struct Checks {
    pub tally: Tally,
    pub violation: Option<Violation>,
    log: Vec<Entry>,
    /// Requests in the log.
    requests: BTreeSet<u64>,
    holders: BTreeMap<Epoch, Identity>,
    acknowledged: Vec<Batch>,
    /// Number of the last batch that was acknowledged.
    acknowledged_to: u64,
    /// Requests that are taken for not committed and were not sent again.
    given_up: BTreeSet<u64>,
    nodes: [SeenNode; NODES],
}

#[derive(Clone, Copy, Default)]
struct SeenNode {
    obeyed: Epoch,
    kept: Epoch,
}

impl Checks {
    /// The first violation stays.
    pub fn rule(&mut self, rule: Rule, holds: bool, text: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            let text = text();
            self.violation = Some(Violation { rule, text });
        }
    }

    pub fn batches(&self) -> usize {
        self.log.len()
    }

    fn is_there(&self, batch: Batch) -> bool {
        let place = (batch.number.0 as usize).checked_sub(1);
        let entry = place.and_then(|at| self.log.get(at));
        entry.is_some_and(|entry| entry.batch == batch)
    }

    pub fn took(&mut self, before: Epoch, after: Epoch, me: &Identity) {
        self.tally.takes += 1;
        let highest = self.highest();
        let higher = after > before && after > highest;
        self.rule(Rule::OneHolderPerEpoch, higher, || {
            format!("{me} takes epoch {after} after {before}, highest {highest}")
        });
        self.holders.insert(after, me.clone());
    }

    /// A run takes itself for the holder.
    pub fn leads(&mut self, epoch: Epoch, me: &Identity) {
        let is_holder = self.holders.get(&epoch) == Some(me);
        self.rule(Rule::OneHolderPerEpoch, is_holder, || {
            format!("{me} takes itself for the holder of epoch {epoch}")
        });
    }

    pub fn deposed(&mut self, epoch: Epoch) {
        self.tally.deposed += 1;
        let highest = self.highest();
        self.rule(Rule::DeposedIsSo, highest > epoch, || {
            format!("deposed of epoch {epoch}, highest {highest}")
        });
    }

    fn highest(&self) -> Epoch {
        self.holders
            .last_key_value()
            .map_or(Epoch(0), |(epoch, _)| *epoch)
    }

    pub fn committed(&mut self, current: Epoch, entry: Entry) {
        self.tally.batches += 1;
        let Entry { epoch, batch } = entry;
        self.rule(Rule::BatchOfCurrentEpoch, epoch == current, || {
            format!("{batch:?} of epoch {epoch} commits under {current}")
        });
        let refused = self.given_up.contains(&batch.request);
        self.rule(Rule::NotCommittedIsSo, !refused, || {
            format!("{batch:?} commits after it was taken for not committed")
        });
        let first = self.requests.insert(batch.request);
        self.rule(Rule::CommittedOnce, first, || format!("{batch:?} is there twice"));
        let expected = self.log.len() as u64 + 1;
        self.rule(Rule::NumbersWithoutGaps, batch.number.0 == expected, || {
            format!("{batch:?} in place of number {expected}")
        });
        self.log.push(entry);
    }

    pub fn acknowledged(&mut self, batch: Batch) {
        let there = self.is_there(batch);
        self.rule(Rule::AcknowledgedIsThere, there, || format!("{batch:?} is told to be done"));
        self.acknowledged.push(batch);
        self.acknowledged_to = self.acknowledged_to.max(batch.number.0);
    }

    pub fn resolved_committed(&mut self, batch: Batch) {
        self.tally.resolved_committed += 1;
        let there = self.is_there(batch);
        self.rule(Rule::CommittedIsSo, there, || format!("{batch:?} is not there"));
    }

    /// Until [`Self::sent_again`], if ever, it must not be there.
    pub fn not_committed(&mut self, batch: Batch) {
        let there = self.requests.contains(&batch.request);
        self.rule(Rule::NotCommittedIsSo, !there, || {
            format!("{batch:?} is there when it is taken for not committed")
        });
        self.given_up.insert(batch.request);
    }

    pub fn sent_again(&mut self, batch: Batch) {
        self.given_up.remove(&batch.request);
    }

    pub fn order_sent(&mut self, request: u64) {
        let there = self.requests.contains(&request);
        self.rule(Rule::OrdersAreCommitted, there, || {
            format!("an order for request {request}, which is not there")
        });
    }

    pub fn obeyed(&mut self, node: usize, epoch: Epoch) {
        self.tally.orders_obeyed += 1;
        let SeenNode { obeyed, kept } = self.nodes[node];
        self.rule(Rule::NodeObeysNewest, epoch >= obeyed.max(kept), || {
            format!("node {node} obeys epoch {epoch} after {obeyed}, kept {kept}")
        });
        self.nodes[node].obeyed = obeyed.max(epoch);
    }

    /// What is on the node's disk.
    pub fn kept(&mut self, node: usize, epoch: Epoch) {
        let before = self.nodes[node].kept;
        self.rule(Rule::NodeKeepsNewest, epoch >= before, || {
            format!("node {node} keeps epoch {epoch} after {before}")
        });
        self.nodes[node].kept = epoch;
    }

    /// An answer from memory that knows batches up to `known`.
    pub fn read(&mut self, me: &Identity, known: u64) {
        self.tally.reads += 1;
        let told = self.acknowledged_to;
        self.rule(Rule::ReadsAreFresh, known >= told, || {
            format!("{me} answers from batch {known} when {told} was told to be done")
        });
    }

    /// Once more, when all is over.
    pub fn in_the_end(&mut self) {
        for batch in std::mem::take(&mut self.acknowledged) {
            let there = self.is_there(batch);
            self.rule(Rule::AcknowledgedIsThere, there, || format!("{batch:?} is lost"));
        }
    }
}
