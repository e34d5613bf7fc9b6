//! Records of steps that have ended. The controller only hears of them afterwards, many in
//! one report: it adds up what they used, has them stored, and tells the node that they are
//! durable. Which step ended how is the business of the store.

use crate::clock::procedures::step_on_our_clock;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::machine::Machine;
use crate::record::{Record, StepBatch, StepUse};
use crate::turn::Turn;
use cosy_model::node::{AttemptKey, NodeOrder};
use cosy_model::step::StepRecord;
use cosy_model::{NodeId, limits, text};

pub(crate) fn steps_ended(
    machine: &Machine,
    jobs: &mut Jobs,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
    before: u64,
    mut records: Vec<StepRecord>,
) {
    let now = turn.now();
    if records.len() > limits::STEP_RECORDS {
        return; // it is no node of this release
    }
    let count = before.saturating_add(records.len() as u64);
    if knows_attempt(machine, jobs, id, key) {
        let known = jobs.steps_known(key, before);
        let old = known.saturating_sub(before).min(records.len() as u64);
        records.drain(..old as usize);
        let run = jobs.get(&key.job).filter(|j| j.attempt == key.attempt);
        let run = run.and_then(Job::run);
        for record in &mut records {
            step_on_our_clock(machine, now, id, run, &mut record.end);
        }
        jobs.take_steps(turn, key, before.saturating_add(old), records);
    }
    machine.order(turn, id, |node| NodeOrder::StepsTaken { key, node, count });
}

impl Jobs {
    fn take_steps(
        &mut self,
        turn: &mut Turn,
        key: AttemptKey,
        before: u64,
        mut records: Vec<StepRecord>,
    ) {
        if records.is_empty() {
            return;
        }
        for record in &mut records {
            cut(&mut record.name, limits::NAME_BYTES);
            cut(&mut record.nodes, limits::STEP_NODES_BYTES);
        }
        let present = self.get_mut(&key.job);
        let present = present.filter(|j| j.attempt == key.attempt);
        if let Some(run) = present.and_then(Job::run_mut) {
            let known = StepUse {
                count: before,
                ..run.steps()
            };
            run.steps_used(records.iter().fold(known, |sum, r| sum.and(&r.end)));
        }
        turn.record(Record::Steps(Box::new(StepBatch {
            key,
            before,
            records,
        })));
    }

    /// How many records of the attempt are durable, as far as that is in memory.
    fn steps_known(&self, key: AttemptKey, before: u64) -> u64 {
        let present = self.get(&key.job).filter(|j| j.attempt == key.attempt);
        let run = present.and_then(Job::run);
        run.map_or(before, |run| run.steps().count)
    }
}

/// Whether that node can have had steps of that attempt. Of jobs that ended long ago
/// nothing is in memory: those are believed.
fn knows_attempt(machine: &Machine, jobs: &Jobs, id: NodeId, key: AttemptKey) -> bool {
    if let Some(job) = jobs.get(&key.job) {
        let run = job.run().filter(|_| job.attempt == key.attempt);
        return match run {
            Some(run) => run.part(id).is_some(),
            None => key.attempt < job.attempt || job.is_waiting() && key.attempt == job.attempt,
        };
    }
    if let Some(ended) = jobs.ended.get(key.job) {
        let name = machine.name(id);
        let run = ended.row.run.iter();
        let here = run.flat_map(|r| &r.parts).any(|p| p.node == *name);
        return key.attempt < ended.row.attempt || key.attempt == ended.row.attempt && here;
    }
    key.job.0 > 0 && key.job.0 < jobs.next_job
}

/// Cuts a text to so many bytes, between two characters.
fn cut(text: &mut String, most: usize) {
    text.truncate(text::cut(text, most).len());
}
