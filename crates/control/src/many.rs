//! One request that concerns many jobs, in pieces.
//!
//! Between two pieces others have their turn, and the next is decided only when the last is
//! durable: nobody waits for longer than one piece takes to decide and to write. The answer
//! comes with the last one. When the controller dies in between, what was done stays done and
//! nothing was answered; the command asks again.
//!
//! Two requests that change how waiting jobs of the same submission stand come one after the
//! other, so that its tasks without rows stand alike between them (see [`crate::bodies`]).
//!
//! A large piece is cheaper for each job, a small one keeps others waiting less.

use crate::chosen::Chosen;
use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use crate::job::Job;
use crate::record::HeldBy;
use crate::steer::Recipients;
use cosy_model::api::{JobChange, Reply};
use cosy_model::{JobId, Refusal, RefusalCode, Refusals, Time, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs in one piece.
pub(crate) const PIECE: usize = 500;
/// Requests in pieces at once; what comes beyond is told to come later.
const UNDER_WAY: usize = 64;
/// The same of one user who is no administrator.
const UNDER_WAY_OF_USER: usize = 8;

/// What is done to each job.
#[derive(Debug)]
pub(crate) enum Work {
    Cancel,
    Signal(i32, Recipients),
    /// An administrator may hold their own jobs as a user.
    Hold {
        as_user: bool,
    },
    Release,
    Change(Box<JobChange>),
    /// Before the other jobs of its user.
    Top,
    /// Held afterwards.
    Requeue(Option<HeldBy>),
    Suspend,
    Resume,
    Notify(String),
}

impl Work {
    /// It changes how waiting jobs stand.
    const fn steers(&self) -> bool {
        match self {
            Self::Hold { .. } | Self::Release | Self::Change(_) | Self::Top => true,
            Self::Cancel
            | Self::Signal(..)
            | Self::Requeue(_)
            | Self::Suspend
            | Self::Resume
            | Self::Notify(_) => false,
        }
    }

    /// What cannot be done is told only of jobs that were named.
    const fn ends(&self) -> bool {
        matches!(self, Self::Cancel | Self::Signal(..))
    }

    /// The word of history for jobs that it has changed.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Hold { .. } => "held",
            Self::Release => "released",
            Self::Change(_) | Self::Top => "changed",
            // These are told job by job.
            Self::Cancel
            | Self::Signal(..)
            | Self::Requeue(_)
            | Self::Suspend
            | Self::Resume
            | Self::Notify(_) => "",
        }
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct BulkRequest {
    /// Where the answer goes: more than one when it was asked again with the same key.
    pub clients: Vec<ClientId>,
    pub caller: Caller,
    pub key: Option<[u8; 16]>,
    pub work: Work,
    /// The jobs were named: what cannot be done is told of each.
    pub named: bool,
    /// The next ones are at the end.
    left: Vec<JobId>,
    /// The submissions that the jobs belong to.
    bases: BTreeSet<JobId>,
    /// Those of them of which all jobs without a row of their own are meant.
    covered: BTreeSet<JobId>,
    begun: bool,
    /// Arrays whose tasks without rows have been changed as one: each has yet to be looked at.
    pub whole: BTreeSet<JobId>,
    /// What has been made of which body: a number of the same submission, or a refusal.
    pub made: BTreeMap<(JobId, u32), Result<u32, Refusal>>,
    /// The same of running jobs, of which other things are changed.
    pub rewritten: BTreeMap<(JobId, u32), u32>,
    /// Priorities that were given to jobs with that body.
    pub tops: BTreeMap<(JobId, u32), Option<u32>>,
    /// Jobs of this piece that history is to tell of, by submission.
    pub told: BTreeMap<JobId, Vec<JobId>>,
    changed: u64,
    refused: Refusals,
}

impl BulkRequest {
    fn answer(&mut self) -> Reply {
        Reply::Done {
            changed: self.changed,
            refused: std::mem::take(&mut self.refused).told(),
        }
    }

    pub fn bases(&self) -> &BTreeSet<JobId> {
        &self.bases
    }

    /// Both change how waiting jobs of the same submission stand.
    fn clashes(&self, other: &Self) -> bool {
        let steers = self.work.steers() && other.work.steers();
        steers && !self.bases.is_disjoint(&other.bases)
    }
}

impl Controller {
    /// Does something to each chosen job: at once, or in pieces, when the answer comes later.
    pub(crate) fn each_in_pieces(
        &mut self,
        now: Time,
        (client, key): (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        (chosen, named): (Chosen, bool),
        work: Work,
    ) -> Result<Option<Reply>, Refusal> {
        let mut bulk = self.bulk_request(chosen, caller, work);
        (bulk.clients, bulk.key, bulk.named) = (vec![client], key, named);
        let waits = self.bulk.iter().any(|other| other.clashes(&bulk));
        if bulk.left.len() <= PIECE && !waits {
            bulk.left.reverse();
            self.do_piece(now, &mut bulk);
            return Ok(Some(bulk.answer()));
        }
        self.may_be_under_way(caller)?;
        match bulk.work.ends() {
            true => self.order_of_ends(&mut bulk.left),
            false => bulk.left.reverse(),
        }
        self.bulk.push_back(bulk);
        if self.bulk.len() == 1 {
            self.next_piece(now);
        }
        Ok(None)
    }

    fn bulk_request(&self, chosen: Chosen, caller: &Caller, work: Work) -> BulkRequest {
        let mut plain: BTreeMap<JobId, u32> = BTreeMap::new();
        for id in &chosen.ids {
            let job = self.jobs.get(id);
            let base = job.map_or_else(|| self.base_of(*id), |job| job.submitted.base);
            let counts = job.is_some_and(|job| !job.has_row);
            *plain.entry(base).or_default() += u32::from(counts);
        }
        let covers = |(base, plain): &(&JobId, &u32)| {
            let group = self.groups.get(base);
            group.is_some_and(|g| g.indices.is_some() && g.plain > 0 && g.plain == **plain)
        };
        BulkRequest {
            clients: Vec::new(),
            caller: caller.clone(),
            key: None,
            work,
            named: false,
            covered: plain.iter().filter(covers).map(|(base, _)| *base).collect(),
            bases: plain.into_keys().collect(),
            left: chosen.ids,
            begun: false,
            whole: BTreeSet::new(),
            made: BTreeMap::new(),
            rewritten: BTreeMap::new(),
            tops: BTreeMap::new(),
            told: BTreeMap::new(),
            changed: 0,
            refused: chosen.refused,
        }
    }

    fn may_be_under_way(&self, caller: &Caller) -> Result<(), Refusal> {
        let mine = self.bulk.iter();
        let mine = mine.filter(|other| other.caller.user.uid == caller.user.uid);
        let (mine, all) = (mine.count(), self.bulk.len());
        let most = match self.is_admin(caller) {
            true => UNDER_WAY + UNDER_WAY_OF_USER,
            false => UNDER_WAY,
        };
        if all < most && (mine < UNDER_WAY_OF_USER || self.is_admin(caller)) {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "{all} requests for many jobs are under way, {mine} of them of user {}: nothing was changed, ask again when one is answered",
                caller.user.name
            ),
        ))
    }

    /// Waiting jobs come before running ones and late ones before early ones, so that none
    /// starts because another of them has ended. The first to end comes last in the list.
    fn order_of_ends(&self, ids: &mut [JobId]) {
        let waits = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.is_waiting());
        ids.sort_by_cached_key(|id| (waits(id), *id));
    }

    /// The next piece of the request whose turn it is.
    pub(crate) fn next_piece(&mut self, now: Time) {
        let waits = |at: usize| {
            let before = self.bulk.iter().take(at);
            before
                .into_iter()
                .any(|other| other.clashes(&self.bulk[at]))
        };
        let next = (0..self.bulk.len()).find(|at| !waits(*at));
        let Some(mut bulk) = next.and_then(|at| self.bulk.remove(at)) else {
            return;
        };
        self.do_piece(now, &mut bulk);
        if bulk.left.is_empty() {
            self.done(now, bulk);
        } else {
            // Behind all others but those that have to wait for it.
            let at = self.bulk.iter().position(|other| other.clashes(&bulk));
            self.bulk.insert(at.unwrap_or(self.bulk.len()), bulk);
        }
    }

    fn do_piece(&mut self, now: Time, bulk: &mut BulkRequest) {
        if !std::mem::replace(&mut bulk.begun, true) {
            self.change_throttles(now, bulk);
            for base in bulk.covered.clone() {
                self.steer_whole(now, bulk, base);
            }
        }
        for _ in 0..PIECE {
            let Some(id) = bulk.left.pop() else { break };
            match self.do_one(now, bulk, id) {
                Ok(()) => bulk.changed += 1,
                Err(_) if bulk.work.ends() && !bulk.named => {}
                Err(refusal) => bulk.refused.push(self.name_of(id), refusal),
            }
        }
        self.tell_of_piece(now, bulk);
    }

    fn do_one(&mut self, now: Time, bulk: &mut BulkRequest, id: JobId) -> Result<(), Refusal> {
        let who = bulk.caller.user.name.clone();
        match &bulk.work {
            Work::Cancel => {
                self.cancel_job(now, id, &who);
                Ok(())
            }
            Work::Signal(signal, whom) => self.signal_job(id, *signal, *whom),
            Work::Hold { as_user } => {
                let as_user = *as_user;
                self.hold_job(now, bulk, id, as_user)
            }
            Work::Release => self.release_job(now, bulk, id),
            Work::Change(change) => {
                let change = change.clone();
                self.change_one(now, bulk, id, &change)
            }
            Work::Top => self.put_on_top(now, bulk, id),
            Work::Requeue(hold) => {
                let (caller, hold) = (bulk.caller.clone(), *hold);
                self.requeue_or_revive(now, &caller, id, hold)
            }
            Work::Suspend => self.suspend_job(now, id, &who),
            Work::Resume => self.resume_job(now, id, &who),
            Work::Notify(text) => self.notify_job(id, text),
        }
    }

    /// A line of history for each submission of which jobs have been changed in this piece.
    fn tell_of_piece(&mut self, now: Time, bulk: &mut BulkRequest) {
        let word = bulk.work.word();
        for (base, ids) in std::mem::take(&mut bulk.told) {
            let (object, detail) = match ids.as_slice() {
                [id] => (format!("job {id}"), String::new()),
                _ => (
                    format!("job {base}"),
                    format!("tasks {}", self.indices_of(&ids)),
                ),
            };
            self.happened(now, word, &bulk.caller.user.name, object, detail);
        }
    }

    /// `1-3,7`.
    fn indices_of(&self, ids: &[JobId]) -> String {
        let jobs = ids.iter().filter_map(|id| self.jobs.get(id));
        let indices = jobs.filter_map(|job| job.member.map(|m| u64::from(m.index)));
        let mut indices: Vec<u64> = indices.collect();
        indices.sort_unstable();
        cosy_model::hostlist::ranges(&indices, 1)
    }

    /// A job was changed: its row, and later a line of history, unless it is one of many that
    /// have neither.
    pub(crate) fn steered(&mut self, bulk: &mut BulkRequest, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let base = job.submitted.base;
        if job.has_row || !bulk.whole.contains(&base) {
            self.save_job(id);
            bulk.told.entry(base).or_default().push(id);
        }
    }

    fn done(&mut self, now: Time, mut bulk: BulkRequest) {
        let clients = std::mem::take(&mut bulk.clients);
        let (uid, key) = (bulk.caller.user.uid, bulk.key);
        let reply = bulk.answer().short();
        if let Some(key) = key {
            self.remember(now, uid, key, &reply);
        }
        for client in clients {
            self.reply(client, reply.clone());
        }
    }

    /// True when this request is under way: it is then answered with that one.
    pub(crate) fn joins_bulk(&mut self, client: ClientId, uid: Uid, key: [u8; 16]) -> bool {
        let same = |b: &&mut BulkRequest| b.caller.user.uid == uid && b.key == Some(key);
        match self.bulk.iter_mut().find(same) {
            Some(bulk) => {
                bulk.clients.push(client);
                true
            }
            None => false,
        }
    }

    /// A job that waits, so that it can be held or changed.
    pub(crate) fn waiting_job(&self, id: JobId) -> Result<&Job, Refusal> {
        let waiting = self.jobs.get(&id).filter(|job| job.is_waiting());
        waiting.ok_or_else(|| crate::steer::runs_already(&self.name_of(id)))
    }
}
