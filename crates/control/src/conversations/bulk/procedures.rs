//! Requests that concern many jobs go on piece by piece, a turn each.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::bulk::{
    BulkRequest, IN_LINE, IN_LINE_OF_USER, LOOKS, PIECE, UNDER_WAY, UNDER_WAY_OF_USER,
    order_of_ends,
};
use crate::conversations::choosing::procedures::choose;
use crate::conversations::replies::reply_to;
use crate::conversations::requests::procedures::remember;
use crate::event::{Caller, ClientId};
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::job::Job;
use crate::jobs::reviews::weight;
use crate::machine::Machine;
use crate::queues::access::procedures::is_administrator;
use crate::turn::Turn;
use cosy_model::{EventObject, JobId, Refusal, RefusalCode, Uid};

impl Conversations {
    /// Higher than those of all that are there.
    pub(crate) fn next_number(&self) -> u64 {
        let last = self.all_bulk().map(|other| other.number).max();
        last.map_or(0, |last| last + 1)
    }

    /// Those under way and those in line.
    pub(crate) fn all_bulk(&self) -> impl Iterator<Item = &BulkRequest> {
        self.bulk.under_way.iter().chain(&self.bulk.line)
    }

    /// Whether a further request of a user may be under way.
    pub(crate) fn may_be_under_way(&self, uid: Uid) -> bool {
        let mine = self
            .bulk
            .under_way
            .iter()
            .filter(|b| b.caller.user.uid == uid);
        self.bulk.under_way.len() < UNDER_WAY && mine.count() < UNDER_WAY_OF_USER
    }

    /// Those whose turn has come leave the line, in its order.
    pub(crate) fn begin_next(&mut self) {
        let mut at = 0;
        while self.bulk.under_way.len() < UNDER_WAY
            && let Some(next) = self.bulk.line.get(at)
        {
            if !self.may_be_under_way(next.caller.user.uid) {
                at += 1;
                continue;
            }
            self.bulk.under_way.extend(self.bulk.line.remove(at));
        }
    }
}

/// Looks at some jobs whether they are meant; true when all have been looked at.
pub(crate) fn look_for_jobs(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
) -> bool {
    let Some(mut choosing) = bulk.choosing.take() else {
        return true;
    };
    let mut left = LOOKS;
    let done = choose(config, machine, jobs, &bulk.caller, &mut choosing, &mut left);
    turn.looked((LOOKS - left) as u64);
    if !done {
        bulk.choosing = Some(choosing);
        return false;
    }
    bulk.named = choosing.is_named();
    let (ids, ended) = (choosing.ids, choosing.ended);
    bulk.left = match bulk.work.ends() {
        true => order_of_ends(ids, choosing.running),
        false => ended
            .into_iter()
            .rev()
            .chain(ids.into_iter().rev())
            .collect(),
    };
    bulk.bases = choosing.bases;
    bulk.tallies = choosing.tallies;
    bulk.refused = choosing.refused;
    true
}

pub(crate) fn may_stand_in_line(
    config: &ClusterConfig,
    conversations: &Conversations,
    caller: &Caller,
) -> Result<(), Refusal> {
    let mine = conversations.bulk.line.iter();
    let mine = mine.filter(|other| other.caller.user.uid == caller.user.uid);
    let (mine, all) = (mine.count(), conversations.bulk.line.len());
    let most = match is_administrator(config, caller) {
        true => IN_LINE + IN_LINE_OF_USER,
        false => IN_LINE,
    };
    if all < most && (mine < IN_LINE_OF_USER || is_administrator(config, caller)) {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalCode::TooMany,
        format!(
            "{all} requests for many jobs wait for others, {mine} of them of user {}: nothing was changed, ask again when one is answered",
            caller.user.name
        ),
    ))
}

pub(crate) fn is_one_piece(jobs: &Jobs, conversations: &Conversations, ids: &[JobId]) -> bool {
    // None is less than one.
    ids.len() <= PIECE
        && ids
            .iter()
            .map(|id| weight_of(jobs, conversations, *id))
            .sum::<usize>()
            <= PIECE
}

pub(crate) fn weight_of(jobs: &Jobs, conversations: &Conversations, id: JobId) -> usize {
    let job = jobs.get(&id);
    // Who waits for it may be told.
    job.map_or(1, |job| weight(job.spec())) + conversations.waits.count(id) / 4
}

/// The arrays of which all tasks without a row of their own are meant.
pub(crate) fn covered_by(jobs: &Jobs, bulk: &mut BulkRequest) -> Vec<JobId> {
    let tallies = std::mem::take(&mut bulk.tallies).into_iter();
    let covered = tallies.filter(|(base, tally)| {
        let group = jobs.group(base);
        group.is_some_and(|group| tally.covers(group.plain()))
    });
    covered.map(|(base, _)| base).collect()
}

/// A line of history for each submission of which jobs have been changed in this piece.
pub(crate) fn tell_of_piece(jobs: &Jobs, turn: &mut Turn, bulk: &mut BulkRequest) {
    let now = turn.now();
    let told = std::mem::take(&mut bulk.told);
    let Some(kind) = bulk.work.kind() else {
        return;
    };
    for (base, ids) in told {
        let (object, detail) = match ids.as_slice() {
            [id] => (EventObject::Job(*id), String::new()),
            _ => (EventObject::Job(base), format!("tasks {}", indices_of(jobs, &ids))),
        };
        turn.happened(now, kind, &bulk.caller.user.name, object, detail);
    }
}

/// Indices of array tasks as ranges, such as `1-3,7`.
fn indices_of(jobs: &Jobs, ids: &[JobId]) -> String {
    let jobs = ids.iter().filter_map(|id| jobs.get(id));
    let indices = jobs.filter_map(|job| job.member().map(|m| u64::from(m.index)));
    let mut indices: Vec<u64> = indices.collect();
    indices.sort_unstable();
    cosy_model::hostlist::ranges(&indices, 1)
}

pub(crate) fn done(conversations: &mut Conversations, turn: &mut Turn, mut bulk: BulkRequest) {
    let now = turn.now();
    let clients = std::mem::take(&mut bulk.clients);
    let (uid, key) = (bulk.caller.user.uid, bulk.key);
    let reply = bulk.answer().short();
    if let Some(key) = key {
        remember(conversations, turn, now, uid, key, &reply);
    }
    for client in clients {
        reply_to(turn, client, reply.clone());
    }
}

impl Conversations {
    /// True when this request is under way: it is then answered with that one.
    pub(crate) fn joins_bulk(&mut self, client: ClientId, uid: Uid, key: [u8; 16]) -> bool {
        let same = |b: &&mut BulkRequest| b.caller.user.uid == uid && b.key == Some(key);
        match self
            .bulk
            .under_way
            .iter_mut()
            .chain(&mut self.bulk.line)
            .find(same)
        {
            Some(bulk) => {
                bulk.clients.push(client);
                true
            }
            None => false,
        }
    }
}

/// A job that waits, so that it can be held or changed.
pub(crate) fn waiting_job(jobs: &Jobs, id: JobId) -> Result<&Job, Refusal> {
    let waiting = jobs.get(&id).filter(|job| job.is_waiting());
    waiting.ok_or_else(|| crate::jobs::steer::runs_already(&name_of(jobs, id)))
}
