//! What users have used in their accounts, and their ranks by Fair Tree.
//!
//! What ended jobs have used is stored, one number for each user in an account, written in the batch that
//! says that the job has ended: a crash counts no job twice and loses none. What running jobs have used
//! until now follows from their starts and is kept nowhere.
//! A run counts from its allocation (after nodes were given back: from then), later by as much as it was
//! suspended.

use crate::config::PriorityConfig;
use crate::queues::scores::layout::Layout;
use crate::queues::scores::row::UsageRow;
use cosy_model::{JobId, Span, Time};
use cosy_policy::fair_tree::{self, FairTree, Place};
use cosy_policy::reset::ResetPeriod;
use cosy_policy::usage::{Decay, Run, Running, Usage};
use std::collections::{BTreeMap, BTreeSet};

/// Use is forgotten at midnight in UTC.
const EAST: Span = Span::ZERO;

/// What one user has in one account.
#[derive(Debug, Default)]
struct Holder {
    account: String,
    user: String,
    /// What ended jobs have used.
    stored: Usage,
    running: Running,
    /// What suspended jobs have used.
    suspended: Usage,
}

/// A job that holds nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub account: String,
    pub user: String,
    pub run: Run,
    /// It is suspended since then.
    pub suspended: Option<Time>,
}

/// Who has used what.
#[derive(Debug)]
pub(crate) struct Shares {
    decay: Decay,
    reset: ResetPeriod,
    ties: fair_tree::Ties,
    tree: FairTree,
    layout: Layout,
    holders: BTreeMap<Place, Holder>,
    places: BTreeMap<(String, String), Place>,
    runs: BTreeMap<JobId, (Place, Holding)>,
    /// Whose rows have to be written.
    unsaved: BTreeSet<Place>,
    /// What was used before does not count.
    forgotten: Time,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            decay: Decay::default(),
            reset: ResetPeriod::None,
            ties: fair_tree::Ties::Merged,
            tree: FairTree::new(fair_tree::Ties::Merged),
            layout: Layout::default(),
            holders: BTreeMap::new(),
            places: BTreeMap::new(),
            runs: BTreeMap::new(),
            unsaved: BTreeSet::new(),
            forgotten: Time(i64::MIN),
        }
    }
}

impl Shares {
    /// Measures with that half-life from now on. Runs are told anew after it.
    pub fn configure(&mut self, config: &PriorityConfig, now: Time) {
        let before = self.decay;
        let decay = Decay::new(config.half_life, now);
        self.runs.clear();
        for holder in self.holders.values_mut() {
            (holder.running, holder.suspended) = (Running::default(), Usage(0));
            holder.stored = holder.stored.measured_anew(before, decay, now);
        }
        (self.decay, self.reset) = (decay, config.reset);
        self.ties = config.ties;
        self.plant();
        if config.reset == ResetPeriod::Now {
            self.forget(now);
        }
        self.forget_what_is_due(now);
    }

    /// Accounts and users are so from now on. Gives the new places of those who had one.
    pub fn laid_out(&mut self, layout: Layout) -> BTreeMap<Place, Place> {
        self.layout = layout;
        let moved = self.plant();
        for (place, _) in self.runs.values_mut() {
            *place = moved.get(place).copied().unwrap_or(*place);
        }
        let unsaved = std::mem::take(&mut self.unsaved).into_iter();
        self.unsaved = unsaved
            .filter_map(|place| moved.get(&place).copied())
            .collect();
        moved
    }

    /// Makes the tree anew: the accounts of the policy, everybody who is in one, and those who have used
    /// something. Gives the new places of those who had one.
    fn plant(&mut self) -> BTreeMap<Place, Place> {
        self.tree = FairTree::new(self.ties);
        self.places.clear();
        let layout = std::mem::take(&mut self.layout);
        for (name, above, shares) in layout.accounts() {
            let above = self.places.get(&(above.to_owned(), String::new())).copied();
            let place = self.tree.add_account(above.unwrap_or(Place::ROOT), shares);
            self.places.insert((name.to_owned(), String::new()), place);
        }
        self.layout = layout;
        let mut moved = BTreeMap::new();
        for (before, holder) in std::mem::take(&mut self.holders) {
            let (account, user) = (holder.account.clone(), holder.user.clone());
            let place = self.add(account, user);
            moved.insert(before, place);
            self.holders.insert(place, holder);
        }
        let users = self.layout.users();
        let users: Vec<(String, String)> = users
            .map(|(account, user)| (account.to_owned(), user.to_owned()))
            .collect();
        for (account, user) in users {
            self.place_of(&Some(account), &user);
        }
        moved
    }

    /// The store has these rows.
    pub fn restore(&mut self, rows: Vec<UsageRow>, now: Time) {
        for row in rows {
            let counts = row.at >= self.forgotten;
            let used = row.used();
            let (place, _) = self.place_of(&Some(row.account), &row.user);
            let stored = match row.decay.rebased_to(self.decay) {
                Some(bits) => used.rebased(bits),
                None => used.measured_anew(row.decay, self.decay, now),
            };
            if let Some(holder) = self.holders.get_mut(&place).filter(|_| counts) {
                holder.stored = stored;
            }
        }
    }

    /// The place of a user in an account; true when nobody had asked for it before.
    pub fn place_of(&mut self, account: &Option<String>, user: &str) -> (Place, bool) {
        if let Some(place) = self.known(account, user) {
            return (place, false);
        }
        let account = account.clone().unwrap_or_default();
        let place = self.add(account.clone(), user.to_owned());
        let holder = Holder {
            account,
            user: user.to_owned(),
            ..Holder::default()
        };
        self.holders.insert(place, holder);
        (place, true)
    }

    fn add(&mut self, account: String, user: String) -> Place {
        let above = match account.is_empty() {
            true => Place::ROOT,
            false => self.account(&account),
        };
        let shares = self.layout.shares_of(&account, &user);
        let place = self.tree.add_user(above, shares);
        self.places.insert((account, user), place);
        place
    }

    /// The place of an account; one that the policy does not have has one share below the root.
    fn account(&mut self, name: &str) -> Place {
        let key = (name.to_owned(), String::new());
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let place = self.tree.add_account(Place::ROOT, fair_tree::Shares::Of(1));
        self.places.insert(key, place);
        place
    }

    /// The place of a user in an account if it has one.
    pub fn known(&self, account: &Option<String>, user: &str) -> Option<Place> {
        let key = (account.clone().unwrap_or_default(), user.to_owned());
        self.places.get(&key).copied()
    }

    /// The place of an account if it has one.
    pub fn place_of_account(&self, name: &str) -> Option<Place> {
        self.places.get(&(name.to_owned(), String::new())).copied()
    }

    /// What use is worth at that time, in thousandths of billing units times milliseconds.
    pub fn worth(&self, usage: Usage, at: Time) -> u128 {
        self.decay.worth(usage, at)
    }

    /// The rank of a user: the highest is served first. Who was never seen has used nothing.
    pub fn rank_of(&self, account: &Option<String>, user: &str) -> u32 {
        let known = self
            .known(account, user)
            .map(|place| self.tree.rank_of(place));
        known
            .filter(|rank| *rank > 0)
            .unwrap_or(self.tree.users().max(1))
    }

    /// Shares, use and ranks as they were given last.
    pub const fn tree(&self) -> &FairTree {
        &self.tree
    }

    /// A job holds nodes, perhaps others than before or for another price.
    pub fn holds(&mut self, id: JobId, mut holding: Holding) {
        holding.run.start = holding.run.start.max(self.forgotten);
        if let Some((place, before)) = self.runs.remove(&id) {
            self.take_out(place, &before);
            if before.run.rate != holding.run.rate && before.run.start < holding.run.start {
                let (from, to) = (before.run.start, holding.run.start);
                self.store(place, self.decay.used(before.run.rate, from, to));
            }
        }
        let (place, _) = self.place_of(&Some(holding.account.clone()), &holding.user);
        let Some(holder) = self.holders.get_mut(&place) else {
            return;
        };
        match holding.suspended {
            Some(since) => {
                let used = self.decay.used(holding.run.rate, holding.run.start, since);
                holder.suspended = holder.suspended.plus(used);
            }
            None => holder.running.begins(self.decay, holding.run),
        }
        self.runs.insert(id, (place, holding));
    }

    /// A job holds no nodes any more: `last` is how it held them until then. True when it was counted.
    pub fn held(&mut self, id: JobId, mut last: Holding, now: Time) -> bool {
        last.run.start = last.run.start.max(self.forgotten);
        self.holds(id, last.clone());
        let Some((place, before)) = self.runs.remove(&id) else {
            return false;
        };
        self.take_out(place, &before);
        let until = last.suspended.unwrap_or(now);
        self.store(place, self.decay.used(last.run.rate, last.run.start, until));
        true
    }

    fn take_out(&mut self, place: Place, before: &Holding) {
        let Some(holder) = self.holders.get_mut(&place) else {
            return;
        };
        match before.suspended {
            Some(since) => {
                let used = self.decay.used(before.run.rate, before.run.start, since);
                holder.suspended = Usage(holder.suspended.0.saturating_sub(used.0));
            }
            None => holder.running.ends(self.decay, before.run),
        }
    }

    fn store(&mut self, place: Place, used: Usage) {
        if let Some(holder) = self.holders.get_mut(&place).filter(|_| used.0 > 0) {
            holder.stored = holder.stored.plus(used);
            self.unsaved.insert(place);
        }
    }

    /// From time to time: the measure is moved, and use forgotten, where it is due.
    pub fn mark(&mut self, now: Time) {
        self.forget_what_is_due(now);
        let Some(bits) = self.decay.rebase(now) else {
            return;
        };
        for holder in self.holders.values_mut() {
            holder.stored = holder.stored.rebased(bits);
            (holder.running, holder.suspended) = (Running::default(), Usage(0));
        }
        self.hold_anew();
    }

    /// Runs are summed anew.
    fn hold_anew(&mut self) {
        for (id, (_, holding)) in std::mem::take(&mut self.runs) {
            self.holds(id, holding);
        }
    }

    fn forget_what_is_due(&mut self, now: Time) {
        if let Some(last) = self
            .reset
            .last(now, EAST)
            .filter(|last| *last > self.forgotten)
        {
            self.forget(last);
        }
    }

    /// What was used before then does not count any more.
    fn forget(&mut self, before: Time) {
        self.forgotten = before;
        for (place, holder) in &mut self.holders {
            if holder.stored != Usage(0) {
                self.unsaved.insert(*place);
            }
            holder.stored = Usage(0);
            (holder.running, holder.suspended) = (Running::default(), Usage(0));
        }
        self.hold_anew();
    }

    /// Gives ranks by what was used until now; tells whose have changed.
    pub fn rank(&mut self, committed: bool, now: Time) -> Vec<Place> {
        let integral = self.decay.integral(now);
        for (place, holder) in &self.holders {
            let running = match committed {
                true => holder.running.committed(self.decay, now),
                false => holder.running.used(integral),
            };
            let all = holder.stored.plus(running).plus(holder.suspended);
            self.tree.has_used(*place, all);
        }
        self.tree.rank()
    }

    /// What has to be written.
    pub fn take_unsaved(&mut self, now: Time) -> Vec<UsageRow> {
        let row = |place: Place| {
            let holder = self.holders.get(&place)?;
            Some(UsageRow {
                account: holder.account.clone(),
                user: holder.user.clone(),
                at: now,
                decay: self.decay,
                used_high: (holder.stored.0 >> 64) as u64,
                used_low: holder.stored.0 as u64,
            })
        };
        let unsaved = std::mem::take(&mut self.unsaved);
        unsaved.into_iter().filter_map(row).collect()
    }

    /// Whether the sums of running jobs are those of each of them.
    pub fn sums_are_right(&self) -> bool {
        let mut sums: BTreeMap<Place, Running> = BTreeMap::new();
        for (place, holding) in self.runs.values().filter(|(_, h)| h.suspended.is_none()) {
            sums.entry(*place)
                .or_default()
                .begins(self.decay, holding.run);
        }
        let sum = |place| sums.get(place).copied().unwrap_or_default();
        self.holders
            .iter()
            .all(|(place, holder)| holder.running == sum(place))
    }

    /// Jobs that are counted.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.runs.keys().copied()
    }
}
