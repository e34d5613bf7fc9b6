//! One request that concerns many jobs, in pieces: first they are looked for, then something is
//! done to each.
//!
//! Between two pieces others have their turn, and the next is decided only when the last is
//! durable: nobody waits for longer than one piece takes to decide and to write. The answer
//! comes with the last one. When the controller dies in between, what was done stays done and
//! nothing was answered; the command asks again.
//!
//! Two requests that change how waiting jobs of the same submission stand come one after the
//! other, so that its tasks without rows stand alike between them (see [`crate::jobs::bodies`]).
//!
//! Of one user only so many are under way, and others wait in line, in the order in which they
//! were asked; nothing is looked for while they do, so that they hold no more than was asked.
//!
//! A large piece is cheaper for each job, a small one keeps others waiting less.

pub(crate) mod procedures;

use crate::conversations::choosing::{Choosing, Tally};
use crate::event::{Caller, ClientId};
use crate::jobs::steer::Recipients;
use crate::record::HeldBy;
use cosy_model::api::{JobChange, Reply};
use cosy_model::{EventKind, JobId, Refusal, Refusals};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Jobs in one piece, those with many dependencies counted as more.
pub(crate) const PIECE: usize = 500;
/// Jobs that are looked at in one piece, to find those that are meant.
const LOOKS: usize = 10_000;
/// Requests in pieces at once; what comes beyond waits in line.
const UNDER_WAY: usize = 64;
/// The same of one user.
const UNDER_WAY_OF_USER: usize = 8;
/// Requests in line; what comes beyond is told to come later.
const IN_LINE: usize = 4096;
/// The same of one user who is no administrator.
const IN_LINE_OF_USER: usize = 256;

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
    Change(Arc<JobChange>),
    /// Before the other jobs of its user.
    Top,
    /// Puts it back into the queue; who is named holds it there.
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
    pub const fn ends(&self) -> bool {
        matches!(self, Self::Cancel | Self::Signal(..))
    }

    /// What history says of jobs that it has changed.
    pub const fn kind(&self) -> Option<EventKind> {
        match self {
            Self::Hold { .. } => Some(EventKind::Held),
            Self::Release => Some(EventKind::Released),
            Self::Change(_) | Self::Top => Some(EventKind::Changed),
            // These are told job by job.
            Self::Cancel
            | Self::Signal(..)
            | Self::Requeue(_)
            | Self::Suspend
            | Self::Resume
            | Self::Notify(_) => None,
        }
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct BulkRequest {
    /// Where the answer goes: more than one when it was asked again with the same key.
    pub(in crate::conversations) clients: Vec<ClientId>,
    /// Those that came later have higher ones.
    pub(in crate::conversations) number: u64,
    pub(in crate::conversations) caller: Caller,
    pub(in crate::conversations) key: Option<[u8; 16]>,
    pub(in crate::conversations) work: Work,
    /// The jobs were named: what cannot be done is told of each.
    pub(in crate::conversations) named: bool,
    /// While they are looked for.
    pub(in crate::conversations) choosing: Option<Choosing>,
    /// The next ones are at the end.
    pub(in crate::conversations) left: Vec<JobId>,
    /// The submissions that the jobs belong to.
    bases: BTreeSet<JobId>,
    /// Arrays among them.
    tallies: BTreeMap<JobId, Tally>,
    pub(in crate::conversations) begun: bool,
    /// Arrays whose tasks without rows have been changed as one: each has yet to be looked at.
    pub(in crate::conversations) whole: BTreeSet<JobId>,
    /// What has been made of which body: a number of the same submission, or a refusal.
    pub(in crate::conversations) made: BTreeMap<(JobId, u32), Result<u32, Refusal>>,
    /// The same of running jobs, of which other things are changed.
    pub(in crate::conversations) rewritten: BTreeMap<(JobId, u32), u32>,
    /// Priorities that were given to jobs with that body.
    pub(in crate::conversations) tops: BTreeMap<(JobId, u32), Option<u32>>,
    /// Jobs of this piece that history is to tell of, by submission.
    pub(in crate::conversations) told: BTreeMap<JobId, Vec<JobId>>,
    pub(in crate::conversations) changed: u64,
    pub(in crate::conversations) refused: Refusals,
}

/// What is known of it.
impl BulkRequest {
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn work(&self) -> &Work {
        &self.work
    }

    /// The jobs were named: what cannot be done is told of each.
    pub fn named(&self) -> bool {
        self.named
    }

    /// While they are looked for.
    pub fn choosing(&self) -> Option<&Choosing> {
        self.choosing.as_ref()
    }

    /// The next ones are at the end.
    pub fn left(&self) -> &[JobId] {
        &self.left
    }

    /// Arrays whose tasks without rows have been changed as one: each has yet to be looked at.
    pub fn whole(&self) -> &BTreeSet<JobId> {
        &self.whole
    }

    /// What has been made of which body: a number of the same submission, or a refusal.
    pub fn made(&self) -> &BTreeMap<(JobId, u32), Result<u32, Refusal>> {
        &self.made
    }

    /// The same of running jobs, of which other things are changed.
    pub fn rewritten(&self) -> &BTreeMap<(JobId, u32), u32> {
        &self.rewritten
    }

    /// Priorities that were given to jobs with that body.
    pub fn tops(&self) -> &BTreeMap<(JobId, u32), Option<u32>> {
        &self.tops
    }
}

/// Requests for many jobs.
#[derive(Debug, Default)]
pub(crate) struct BulkRequests {
    /// The one whose turn is next first.
    under_way: VecDeque<BulkRequest>,
    /// Those that wait until fewer are under way.
    line: VecDeque<BulkRequest>,
}

impl BulkRequests {
    /// Nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A request under way is about that submission as a whole.
    pub fn concern(&self, base: JobId) -> bool {
        self.under_way.iter().any(|bulk| bulk.whole.contains(&base))
    }

    /// Those under way, the next one first.
    pub fn under_way(&self) -> &VecDeque<BulkRequest> {
        &self.under_way
    }

    /// Goes on when the others have had their turns.
    pub fn goes_on(&mut self, bulk: BulkRequest) {
        self.under_way.push_back(bulk);
    }

    /// The one at that place among those under way, which has its turn.
    pub fn take(&mut self, at: usize) -> Option<BulkRequest> {
        self.under_way.remove(at)
    }

    /// Stands in line until fewer are under way.
    pub fn stands_in_line(&mut self, bulk: BulkRequest) {
        self.line.push_back(bulk);
    }
}

impl BulkRequest {
    pub fn new(choosing: Option<Choosing>, caller: &Caller, work: Work) -> Self {
        Self {
            clients: Vec::new(),
            number: 0,
            caller: caller.clone(),
            key: None,
            work,
            named: false,
            choosing,
            left: Vec::new(),
            bases: BTreeSet::new(),
            tallies: BTreeMap::new(),
            begun: false,
            whole: BTreeSet::new(),
            made: BTreeMap::new(),
            rewritten: BTreeMap::new(),
            tops: BTreeMap::new(),
            told: BTreeMap::new(),
            changed: 0,
            refused: Refusals::default(),
        }
    }

    /// Who waits for the answer, which is remembered under that key.
    pub fn asked_by(&mut self, client: ClientId, key: Option<[u8; 16]>) {
        (self.clients, self.key) = (vec![client], key);
    }

    /// It came after all others with lower numbers.
    pub fn is_number(&mut self, number: u64) {
        self.number = number;
    }

    /// It is about these jobs, the next ones at the end.
    pub fn is_about(&mut self, jobs: Vec<JobId>) {
        self.left = jobs;
    }

    /// The first job has its turn; false when that was before.
    pub fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// The next job, which is no longer among those that are left.
    pub fn next_job(&mut self) -> Option<JobId> {
        self.left.pop()
    }

    /// Something was done to so many jobs.
    pub fn changes(&mut self, jobs: u64) {
        self.changed += jobs;
    }

    /// Nothing could be done to that job.
    pub fn refuses(&mut self, job: String, refusal: Refusal) {
        self.refused.push(job, refusal);
    }

    /// Tasks without rows of that array have been changed as one.
    pub fn covers(&mut self, base: JobId) {
        self.whole.insert(base);
    }

    /// What has been made of that body: a number of the same submission, or a refusal.
    pub fn has_made(&mut self, body: (JobId, u32), made: Result<u32, Refusal>) {
        self.made.insert(body, made);
    }

    /// What has been made of that body of running jobs.
    pub fn has_rewritten(&mut self, body: (JobId, u32), number: u32) {
        self.rewritten.insert(body, number);
    }

    /// Jobs with that body go on top with this priority.
    pub fn puts_on_top(&mut self, body: (JobId, u32), priority: Option<u32>) {
        self.tops.insert(body, priority);
    }

    /// Nothing was looked for yet.
    pub fn forget(&mut self, choosing: Choosing) {
        self.choosing = Some(choosing);
        self.left = Vec::new();
        self.bases = BTreeSet::new();
        self.tallies = BTreeMap::new();
        self.refused = Refusals::default();
    }

    pub fn answer(&mut self) -> Reply {
        Reply::Done {
            changed: self.changed,
            refused: std::mem::take(&mut self.refused).told(),
        }
    }

    pub fn bases(&self) -> &BTreeSet<JobId> {
        &self.bases
    }

    /// Both change how waiting jobs of the same submission stand, or may, as far as is known: what
    /// one user asks for comes in the order in which it was asked.
    pub fn clashes(&self, other: &Self) -> bool {
        let steers = self.work.steers() && other.work.steers();
        let untold = self.choosing.is_some() || other.choosing.is_some();
        let may = untold && self.caller.user.uid == other.caller.user.uid;
        steers && (may || !self.bases.is_disjoint(&other.bases))
    }

    /// Of two that clash what has begun comes first, else what came first.
    pub fn comes_before(&self, other: &Self) -> bool {
        match (self.begun, other.begun) {
            (true, false) => true,
            (false, true) => false,
            (true, true) | (false, false) => self.number < other.number,
        }
    }
}

/// Waiting jobs come before running ones and late ones before early ones, so that none
/// starts because another of them has ended. The first to end comes last in the list.
pub(crate) fn order_of_ends(mut ids: Vec<JobId>, mut running: Vec<JobId>) -> Vec<JobId> {
    ids.sort_unstable();
    running.sort_unstable();
    let mut next = running.iter().peekable();
    ids.retain(|id| next.next_if_eq(&id).is_none());
    running.append(&mut ids);
    running
}
