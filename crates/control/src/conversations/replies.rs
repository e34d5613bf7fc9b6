//! Answers to commands.

use crate::config::ClusterConfig;
use crate::conversations::bulk::BulkRequest;
use crate::conversations::visible::may_see_of;
use crate::event::{Caller, ClientId, Effect, Facts, OldJob};
use crate::jobs::Jobs;
use crate::jobs::save::save_job;
use crate::machine::Machine;
use crate::turn::Turn;
use cosy_model::JobId;
use cosy_model::api::Reply;

/// A job was changed: its row, and later a line of history, unless it is one of many that
/// have neither.
pub(crate) fn steered(
    machine: &Machine,
    jobs: &mut Jobs,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
) {
    let Some(job) = jobs.get(&id) else {
        return;
    };
    let base = job.submitted().base;
    if job.has_row() || !bulk.whole.contains(&base) {
        save_job(machine, jobs, turn, id);
        bulk.told.entry(base).or_default().push(id);
    }
}

pub(crate) fn reply_to(turn: &mut Turn, client: ClientId, reply: Reply) {
    let reply = reply.short();
    turn.effect(Effect::Reply { client, reply });
}

/// Jobs out of the store of which a user is told.
pub(crate) fn seen_of_old<'a>(
    config: &'a ClusterConfig,
    caller: &'a Caller,
    facts: &'a Facts,
) -> impl Iterator<Item = &'a OldJob> {
    let seen = |old: &&OldJob| {
        let owner = old.owner;
        owner.is_some_and(|owner| may_see_of(config, caller, owner))
    };
    facts.old_jobs.iter().filter(seen)
}
