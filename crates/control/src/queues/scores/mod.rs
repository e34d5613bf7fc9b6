//! What stands in the keys of jobs between level and nice, in queues that order by fair share or by
//! weighted factors, and when it has to be made anew.
//!
//! Keys stay right while time goes by. Jobs of users whose rank has changed get new ones, and at each mark
//! ([`PriorityConfig::period`]) those that have reached the longest age. Who is due is noted here, and
//! looked at in pieces with the other reviews.
//!
//! What always holds: a job that has a score in a planner is noted with its user; without a queue that
//! orders by more than dates nothing is noted and nothing is kept.

mod factors;
pub(crate) mod layout;
mod places;
pub(crate) mod procedures;
mod qos_use;
pub(crate) mod resources;
mod row;
pub(crate) mod shares;
mod standing;
mod told;

pub(crate) use places::Member;
pub use row::{UsageKey, UsageRow};
pub(crate) use told::Level;

use crate::config::PriorityConfig;
use crate::jobs::job::{Job, Submitted};
use crate::queues::scores::layout::Layout;
use crate::queues::scores::shares::Shares;
use cosy_model::policy::Tres;
use cosy_model::{JobId, QueueOrder, QueueSpec, Span, Time};
use cosy_policy::fair_tree::Place;
use cosy_policy::ordinals;
use cosy_policy::reset::ResetPeriod;
use cosy_policy::weights::Ageing;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks are given at most this often: each takes a walk over all users.
const RANKS_APART: Span = Span::from_secs(1);
/// Marks are so far apart at least where nothing hangs on them.
const IDLE_PERIOD: Span = Span::from_secs(86_400);
/// In queues with weighted factors a rank is a number that counts, so one user's use changes the keys of
/// many: after as many as this the next are made a second later. Source: Slurm makes all anew every
/// `PriorityCalcPeriod`, five minutes.
const KEYS_IN_A_SECOND: i64 = 5000;

/// How a job stands in a planner.
#[derive(Clone, Copy, Debug)]
struct Stands {
    /// At whose place.
    place: Place,
    /// Its key is the number of that place and nothing else.
    by_share: bool,
    /// When it stops ageing, where it is in [`Scores::stops`].
    stops: Option<Time>,
}

/// Scores of the queues.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    config: PriorityConfig,
    /// Some queue orders by more than dates.
    orders: bool,
    /// Marks are due though nobody waits: for limits, for the age of jobs, or because use is forgotten.
    marks: bool,
    /// Use is kept: for that, for limits of minutes, or because the configuration says so.
    on: bool,
    shares: Shares,
    /// Cores and nodes of the cluster, for the factor of size.
    machine: (u32, u32),
    /// What the nodes of each queue have of resources with a weight.
    of_queues: BTreeMap<String, BTreeMap<Tres, u64>>,
    /// Jobs in planners by their users, in queues that order by fair share.
    by_share: BTreeMap<Place, BTreeSet<JobId>>,
    /// The same in queues with weighted factors.
    by_weights: BTreeMap<Place, BTreeSet<JobId>>,
    /// Ranks by place as the keys there were made with them.
    weighed: Vec<u32>,
    /// Ranks are not these any more.
    weigh: bool,
    /// Before then no others are taken there.
    weigh_from: Time,
    /// How each of them stands.
    at: BTreeMap<JobId, Stands>,
    /// When jobs of queues with weighted factors stop ageing.
    stops: BTreeSet<(Time, JobId)>,
    /// Those that have: their keys are of the last mark.
    full: BTreeSet<JobId>,
    /// Whose priority matters beside the order, as it is at each mark.
    watched: BTreeSet<JobId>,
    /// Whose keys have to be made anew.
    due: BTreeSet<JobId>,
    mark: Time,
    ranked: Time,
    /// Somebody has begun or ended to run, or was never seen before.
    changed: bool,
}

impl Scores {
    /// The configuration says so from now on. What jobs have used stays.
    pub fn configure(
        &mut self,
        config: &PriorityConfig,
        limits: bool,
        queues: &[QueueSpec],
        now: Time,
    ) {
        self.orders = queues.iter().any(|queue| queue.order != QueueOrder::Fcfs);
        self.on = self.orders || limits || config.keep_usage;
        let weights = queues
            .iter()
            .any(|queue| queue.order == QueueOrder::Weights);
        self.marks = limits || weights || config.reset != ResetPeriod::None;
        self.config = config.clone();
        self.shares.configure(config, now);
        (self.mark, self.changed) = (now, self.on);
        (self.ranked, self.full) = (Time(i64::MIN), BTreeSet::new());
        self.by_share.clear();
        self.by_weights.clear();
        (self.weigh, self.weigh_from) = (self.on, now);
        self.at.clear();
        self.stops.clear();
        self.watched.clear();
        self.due.clear();
    }

    /// The store has these rows; told once, after the configuration.
    pub fn restore(&mut self, rows: Vec<UsageRow>, now: Time) {
        self.shares.restore(rows, now);
        self.shares.rank(self.config.committed, now);
        self.weighed = self.shares.tree().ranks();
    }

    /// Accounts, shares and who is in which account are so from now on.
    pub fn laid_out(&mut self, layout: Layout) {
        let moved = self.shares.laid_out(layout);
        if !moved.is_empty() {
            let at = |place: Place| moved.get(&place).copied().unwrap_or(place);
            for standing in [&mut self.by_share, &mut self.by_weights] {
                let jobs = std::mem::take(standing).into_iter();
                *standing = jobs.map(|(place, jobs)| (at(place), jobs)).collect();
            }
            self.at
                .values_mut()
                .for_each(|stands| stands.place = at(stands.place));
            let mut weighed = Vec::new();
            for (before, place) in &moved {
                let rank = self.weighed.get(before.index()).copied().unwrap_or(0);
                weighed.resize(weighed.len().max(place.index() + 1), 0);
                if let Some(own) = weighed.get_mut(place.index()) {
                    *own = rank;
                }
            }
            self.weighed = weighed;
        }
        // what the tree knows may be nothing yet: whoever asks next has ranks given anew
        (self.changed, self.ranked) = (self.on, Time(i64::MIN));
    }

    /// The cluster has so many cores and nodes.
    pub fn machine_has(&mut self, cores: u32, nodes: u32) {
        self.machine = (cores, nodes);
    }

    /// Resources with a weight, where some queue orders by weights.
    pub fn weighted_resources(&self) -> impl Iterator<Item = &Tres> {
        self.config.tres_weights.keys()
    }

    /// What the nodes of each queue have of them.
    pub fn queues_have(&mut self, of_queues: BTreeMap<String, BTreeMap<Tres, u64>>) {
        self.of_queues = of_queues;
    }

    /// Whether some queue orders by more than dates.
    pub const fn orders(&self) -> bool {
        self.orders
    }

    /// Whether use is kept.
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// What was used, and ranks.
    pub const fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The same, for those who begin and end to run.
    pub const fn shares_mut(&mut self) -> &mut Shares {
        &mut self.shares
    }

    /// Ranks are to be given anew soon.
    pub const fn has_changed(&mut self) {
        self.changed = true;
    }

    /// A job has entered a planner: its key may have to be made anew.
    pub fn stands(&mut self, queue: &QueueSpec, job: &Job) {
        if queue.order == QueueOrder::Fcfs {
            return;
        }
        let (place, new) = self.shares.place_of(member(job));
        self.changed |= new;
        self.leaves(job.id()); // it may have stood elsewhere
        let standing = match queue.order {
            QueueOrder::Weights => &mut self.by_weights,
            QueueOrder::Fcfs | QueueOrder::FairShare => &mut self.by_share,
        };
        standing.entry(place).or_default().insert(job.id());
        let stops = match queue.order {
            QueueOrder::Weights => self.terms(queue, job).stops_ageing(),
            QueueOrder::Fcfs | QueueOrder::FairShare => None,
        };
        if stops.is_some_and(|stops| stops <= self.mark) {
            self.full.insert(job.id());
        }
        let stops = stops.filter(|stops| *stops > self.mark);
        self.stops.extend(stops.map(|stops| (stops, job.id())));
        let by_share = queue.order == QueueOrder::FairShare && job.spec().priority.is_none();
        let stands = Stands {
            place,
            by_share,
            stops,
        };
        self.at.insert(job.id(), stands);
    }

    /// The key of a job is looked at again at each mark: its priority grows.
    pub fn watch(&mut self, id: JobId) {
        self.watched.insert(id);
    }

    /// The key of a job has to be made anew.
    pub fn is_another(&mut self, id: JobId) {
        self.due.insert(id);
    }

    /// A job runs, has ended, or waits for something else than its turn.
    pub fn left(&mut self, id: JobId) {
        self.leaves(id);
        self.full.remove(&id);
        self.watched.remove(&id);
        self.due.remove(&id);
    }

    fn leaves(&mut self, id: JobId) {
        let Some(Stands { place, stops, .. }) = self.at.remove(&id) else {
            return;
        };
        if let Some(stops) = stops {
            self.stops.remove(&(stops, id));
        }
        for standing in [&mut self.by_share, &mut self.by_weights] {
            if let Some(jobs) = standing.get_mut(&place) {
                jobs.remove(&id);
                if jobs.is_empty() {
                    standing.remove(&place);
                }
            }
        }
    }

    /// Whether somebody stands in a planner whose key has a rank in it: for nobody ranks are given only
    /// when somebody asks for them.
    fn anybody_stands(&self) -> bool {
        !(self.by_share.is_empty() && self.by_weights.is_empty())
    }

    /// When ranks or marks are due; `None` when nothing is.
    pub fn next_due(&self) -> Option<Time> {
        self.on.then(|| {
            let ranks = self.changed && self.orders && self.anybody_stands();
            let soon = ranks.then(|| self.ranked + RANKS_APART);
            let weigh = (self.weigh && !self.by_weights.is_empty()).then_some(self.weigh_from);
            soon.into_iter()
                .chain(weigh)
                .fold(self.next_mark(), Time::min)
        })
    }

    /// When the next mark is due: where use only fades and nobody waits for a turn that hangs on it, all
    /// use fades alike, and nothing is to be looked at.
    fn next_mark(&self) -> Time {
        let period = match self.marks || self.anybody_stands() || !self.watched.is_empty() {
            true => self.config.period,
            false => self.config.period.max(self.idle_period()),
        };
        self.mark + period
    }

    /// The measure of use has to be moved now and then, so a short half-life counts.
    fn idle_period(&self) -> Span {
        match self.config.half_life {
            Span::ZERO => IDLE_PERIOD,
            half => half.min(IDLE_PERIOD),
        }
    }

    /// Gives ranks anew and notes whose keys change, where it is time.
    pub fn look(&mut self, now: Time) {
        if self.next_due().is_none_or(|due| now < due) {
            return;
        }
        if now >= self.next_mark() {
            self.mark = now;
            self.shares.mark(now);
            while let Some((stops, job)) = self.stops.first().copied()
                && stops <= now
            {
                self.stops.pop_first();
                self.full.insert(job);
                if let Some(stands) = self.at.get_mut(&job) {
                    stands.stops = None;
                }
            }
            self.due.extend(&self.full);
            self.due.extend(&self.watched);
        }
        match self.anybody_stands() {
            true => self.give_ranks(now),
            false => self.changed = true,
        }
    }

    /// Somebody asks for use and ranks: they are given anew where they are older than it takes.
    pub fn asked(&mut self, now: Time) {
        if self.on && (now < self.ranked || now >= self.ranked + RANKS_APART) {
            self.give_ranks(now);
        }
    }

    /// Jobs whose keys are not to be made anew, and the score in them that is their users' alone.
    pub fn shares_in_keys(&self) -> impl Iterator<Item = (JobId, i64)> {
        let all = self.at.keys().filter(|id| !self.due.contains(id));
        all.filter_map(|id| Some((*id, self.share_of(*id)?)))
    }

    /// Who stops ageing stands in a planner.
    pub fn stops_are_right(&self) -> bool {
        let at = |(stops, id): &(Time, JobId)| {
            self.at.get(id).is_some_and(|own| own.stops == Some(*stops))
        };
        let own = self.at.values().filter(|own| own.stops.is_some());
        self.stops.iter().all(at) && own.count() == self.stops.len()
    }

    /// Gives ranks anew and notes whose keys change.
    pub fn give_ranks(&mut self, now: Time) {
        (self.ranked, self.changed) = (now, false);
        let moved = self.shares.rank(self.config.committed, now);
        self.weigh |= !moved.ranks.is_empty();
        let jobs = |place| self.by_share.get(&place).into_iter().flatten();
        self.due.extend(moved.ordinals.into_iter().flat_map(jobs));
        if self.weigh && self.weigh_from <= now {
            self.weigh_anew(now);
        }
    }

    /// Ranks as they are count in queues with weighted factors.
    fn weigh_anew(&mut self, now: Time) {
        self.weigh = false;
        let ranks = self.shares.tree().ranks();
        let before = std::mem::replace(&mut self.weighed, ranks);
        let mut keys = 0;
        if self.config.weights.fair_share > 0 {
            let rank = |ranks: &[u32], place: Place| ranks.get(place.index()).copied().unwrap_or(0);
            for (place, jobs) in &self.by_weights {
                if rank(&before, *place) != rank(&self.weighed, *place) {
                    keys += i64::try_from(jobs.len()).unwrap_or(i64::MAX);
                    self.due.extend(jobs);
                }
            }
        }
        self.weigh_from = now + RANKS_APART + Span::from_secs(keys / KEYS_IN_A_SECOND);
    }

    /// The next job whose key has to be made anew.
    pub fn next_job_due(&mut self) -> Option<JobId> {
        self.due.pop_first()
    }

    /// Whether keys have to be made anew.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The score of a job that stands in a planner, where it is that of its user and nothing else.
    pub fn share_of(&self, id: JobId) -> Option<i64> {
        let stands = self.at.get(&id).filter(|stands| stands.by_share)?;
        let ordinal = self.shares.tree().standing_of(stands.place).ordinal;
        (ordinal > 0).then_some(ordinal)
    }

    /// The score of a job by fair share: a number in the order of ranks. What an administrator has given a
    /// priority goes before all ranks or behind them.
    pub(in crate::queues) fn fair_share(&self, submitted: &Submitted, ahead: i64) -> i64 {
        match ahead {
            0 => self.shares.ordinal_of(member_of(submitted)),
            1.. => ordinals::MOST.saturating_add(ahead),
            _ => ahead,
        }
    }

    /// The rank of a user as it counts in queues with weighted factors. Who was never seen has used
    /// nothing.
    fn weighed_rank(&self, member: Member<'_>) -> u32 {
        let known = self.shares.known(member);
        let rank = known.and_then(|place| self.weighed.get(place.index()));
        let rank = rank.copied().filter(|rank| *rank > 0);
        rank.unwrap_or_else(|| self.shares.rank_of(member))
    }

    /// The key of a job by weighted factors, as of the last mark.
    pub(in crate::queues) fn weighted(
        &self,
        queue: &QueueSpec,
        submitted: &Submitted,
        ageing: Ageing,
    ) -> i64 {
        self.terms_of(queue, submitted, ageing).key(self.mark)
    }
}

/// Whose use a job is: its user in its account, for its queue.
pub(crate) fn member(job: &Job) -> Member<'_> {
    member_of(job.submitted())
}

/// The same of what may not be a job yet.
pub(crate) fn member_of(submitted: &Submitted) -> Member<'_> {
    Member {
        account: submitted.spec.account.as_deref().unwrap_or(""),
        user: &submitted.user,
        queue: &submitted.queue,
    }
}
