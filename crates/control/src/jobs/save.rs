//! A live job's row is written.

use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::record::Record;
use crate::turn::Turn;
use cosy_model::JobId;

/// Writes a live job's row.
pub(crate) fn save_job(machine: &Machine, jobs: &mut Jobs, turn: &mut Turn, id: JobId) {
    jobs.stands_apart(turn, id);
    if let Some(job) = jobs.get(&id) {
        let row = job.row(&|n| machine.name(n).to_owned());
        turn.record(Record::Job(Box::new(row)));
    }
}
