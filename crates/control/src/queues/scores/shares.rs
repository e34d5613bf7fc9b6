//! What users have used in their accounts, and their ranks by Fair Tree.
//!
//! What ended jobs have used is stored, one row for each user in an account, written in the batch that
//! says that the job has ended: a crash counts no job twice and loses none. What running jobs have used
//! until now follows from their starts and is kept nowhere. Use of accounts is the sum of all below.
//! A run counts from its allocation (after nodes were given back: from then), later by as much as it was
//! suspended. Use of qualities of service is beside it ([`super::qos_use`]).

mod planting;

use crate::config::PriorityConfig;
use crate::queues::scores::layout::{self, QosFacts, Standing};
use crate::queues::scores::places::{Member, Places};
use crate::queues::scores::qos_use::QosUses;
use crate::queues::scores::resources::{BILLING, Resources, UseOf};
use crate::queues::scores::row::{UsageRow, fill, write};
use cosy_model::policy::{AssociationKey, ROOT};
use cosy_model::{JobId, Time};
use cosy_policy::billing::with_factor;
use cosy_policy::fair_tree::{self, FairTree, Moved, Place};
use cosy_policy::meter::{Held, Measure, Meter, Resource};
use cosy_policy::reset::ResetPeriod;
use cosy_policy::usage::{Decay, Usage};
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet};

/// What one user has in one account.
#[derive(Debug)]
pub(super) struct Holder {
    account: Box<str>,
    user: Box<str>,
    queue: Box<str>,
    standing: Standing,
    /// What was used before does not count.
    since: Time,
    pub(super) meter: Meter,
}

impl Holder {
    fn member(&self) -> Member<'_> {
        Member {
            account: &self.account,
            user: &self.user,
            queue: &self.queue,
        }
    }
}

/// A job that holds nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    /// Account; empty where it is in none.
    pub account: String,
    pub user: String,
    /// The queue whose association counts.
    pub queue: String,
    /// Its own quality of service, by which its use is multiplied, then that of its queue.
    pub qos: Vec<String>,
    /// Thousandths of what it holds.
    pub amounts: Vec<(UseOf, u64)>,
    pub start: Time,
    /// It has given nodes back then; what it held before is stored.
    pub resized: Option<Time>,
    /// When its limit is reached.
    pub limit: Time,
    /// It is suspended since then.
    pub suspended: Option<Time>,
}

/// A run as it is counted.
#[derive(PartialEq, Eq, Debug)]
struct Charge {
    place: Place,
    qos: Vec<String>,
    resized: Option<Time>,
    held: Held,
}

/// Who has used what.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(super) decay: Decay,
    reset: ResetPeriod,
    zone: TimeZone,
    ties: fair_tree::Ties,
    accounts: Vec<layout::Account>,
    tree: FairTree,
    places: Places,
    /// Behind pointers, for there are many, and a tree has room for more than it holds.
    pub(super) holders: BTreeMap<Place, Box<Holder>>,
    /// Use of accounts with all below; that of the root is of all.
    pub(super) sums: BTreeMap<Place, Meter>,
    pub(super) qos: QosUses,
    runs: BTreeMap<JobId, Charge>,
    pub(super) resources: Resources,
    /// Whose use may be another than the tree knows: who runs something, or has since ranks were given.
    touched: BTreeSet<Place>,
    /// Whose rows have to be written.
    unsaved: BTreeSet<Place>,
    /// What was used before does not count.
    forgotten: Time,
    /// The highest part of the priority that an association gives.
    most_priority: u32,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            decay: Decay::default(),
            reset: ResetPeriod::None,
            zone: TimeZone::UTC,
            ties: fair_tree::Ties::Merged,
            accounts: Vec::new(),
            tree: FairTree::new(fair_tree::Ties::Merged),
            places: Places::default(),
            holders: BTreeMap::new(),
            sums: BTreeMap::new(),
            qos: QosUses::default(),
            runs: BTreeMap::new(),
            resources: Resources::default(),
            touched: BTreeSet::new(),
            unsaved: BTreeSet::new(),
            forgotten: Time(i64::MIN),
            most_priority: 0,
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
            let anew = |usage: Usage| usage.measured_anew(before, decay, now);
            holder.meter.measured_anew(anew);
        }
        self.qos.measured_anew(before, decay, now);
        (self.decay, self.reset) = (decay, config.reset);
        self.zone.clone_from(&config.zone);
        self.ties = config.ties;
        self.plant();
        if config.reset == ResetPeriod::Now {
            self.forget(now);
        }
        self.forget_what_is_due(now);
    }

    /// Sums of accounts and what running jobs hold, anew.
    fn sum_anew(&mut self) {
        self.sums.clear();
        self.qos.hold_nothing();
        self.touched = self.holders.keys().copied().collect();
        for (place, holder) in &mut self.holders {
            holder.meter.holds_nothing();
            let mut at = *place;
            while let Some(above) = self.tree.above(at) {
                let sum = self.sums.entry(above).or_default();
                sum.adds_stored(&holder.meter);
                at = above;
            }
        }
        for (id, charge) in std::mem::take(&mut self.runs) {
            self.change(&charge, |meter, measure, held| meter.begins(measure, held));
            self.runs.insert(id, charge);
        }
    }

    /// Changes the meters that a run counts in: of its user, of the accounts above, of its qualities of
    /// service.
    fn change(&mut self, charge: &Charge, change: impl Fn(&mut Meter, Measure, &Held)) {
        let Some(holder) = self.holders.get_mut(&charge.place) else {
            return;
        };
        self.touched.insert(charge.place);
        let measure = Measure {
            decay: self.decay,
            since: self.forgotten.max(holder.since),
        };
        change(&mut holder.meter, measure, &charge.held);
        let mut at = charge.place;
        while let Some(above) = self.tree.above(at) {
            change(self.sums.entry(above).or_default(), measure, &charge.held);
            at = above;
        }
        for qos in &charge.qos {
            let common = Measure {
                decay: self.decay,
                since: self.forgotten,
            };
            if let Some((meter, measure)) = self.qos.meter(qos, common) {
                change(meter, measure, &charge.held);
            }
        }
    }

    /// The store has these rows.
    pub fn restore(&mut self, rows: Vec<UsageRow>, now: Time) {
        for row in rows {
            if !row.qos.is_empty() {
                self.qos.restore(&row, &mut self.resources, self.decay, now);
                continue;
            }
            let member = Member {
                account: &row.account,
                user: &row.user,
                queue: &row.queue,
            };
            let place = self.places.exactly(member);
            let place = place.unwrap_or_else(|| self.add(member, Standing::default()));
            let Some(holder) = self.holders.get_mut(&place) else {
                continue;
            };
            holder.since = row.since.unwrap_or(Time(i64::MIN));
            match row.at >= self.forgotten {
                true => fill(&mut holder.meter, &row, &mut self.resources, self.decay, now),
                false => drop(self.unsaved.insert(place)),
            }
        }
        self.sum_anew();
    }

    /// The place of a user in an account; true when nobody had asked for it before.
    pub fn place_of(&mut self, member: Member<'_>) -> (Place, bool) {
        match self.places.of(member) {
            Some(place) => (place, false),
            None => {
                let everywhere = Member {
                    queue: "",
                    ..member
                };
                (self.add(everywhere, Standing::default()), true)
            }
        }
    }

    /// The place of an account; one that the policy does not have has one share below the root.
    fn account(&mut self, name: &str) -> Place {
        if let Some(place) = self.places.account(name) {
            return place;
        }
        let place = self.tree.add_account(Place::ROOT, fair_tree::Shares::Of(1));
        self.places.set_account(name, place);
        place
    }

    /// The place of a user in an account, for jobs in that queue, if there is one.
    pub fn known(&self, member: Member<'_>) -> Option<Place> {
        self.places.of(member)
    }

    /// The place of exactly that association if it has one.
    pub fn exactly(&self, member: Member<'_>) -> Option<Place> {
        self.places.exactly(member)
    }

    /// The place of an account if it has one.
    pub fn place_of_account(&self, name: &str) -> Option<Place> {
        self.places.account(name)
    }

    /// Who is at a place: account, user, queue; `None` for accounts.
    pub fn member_at(&self, place: Place) -> Option<Member<'_>> {
        self.holders.get(&place).map(|holder| holder.member())
    }

    /// The name of the account at a place.
    pub fn account_at(&self, place: Place) -> Option<&str> {
        self.places.account_at(place)
    }

    /// Places of a user in all accounts.
    pub fn places_of_user(&self, user: &str) -> Vec<Place> {
        self.places.of_user(user)
    }

    /// What use is worth at that time, in thousandths of billing units times milliseconds.
    pub fn worth(&self, usage: Usage, at: Time) -> u128 {
        self.decay.worth(usage, at)
    }

    /// The rank of a user: the highest is served first. Who was never seen has used nothing.
    pub fn rank_of(&self, member: Member<'_>) -> u32 {
        let known = self.known(member).map(|place| self.tree.rank_of(place));
        known
            .filter(|rank| *rank > 0)
            .unwrap_or(self.tree.users().max(1))
    }

    /// A number in the order of ranks. Who was never seen has used nothing and stands beside the first.
    pub fn ordinal_of(&self, member: Member<'_>) -> i64 {
        let known = self
            .known(member)
            .map(|place| self.tree.standing_of(place).ordinal);
        let known = known.filter(|ordinal| *ordinal > 0);
        known.unwrap_or_else(|| self.tree.first_ordinal().max(1))
    }

    /// Part of the priority that the policy gives somebody, and the highest that it gives.
    pub fn priority_of(&self, member: Member<'_>) -> (u32, u32) {
        let holder = self
            .known(member)
            .and_then(|place| self.holders.get(&place));
        (holder.map_or(0, |holder| holder.standing.priority), self.most_priority)
    }

    /// What counts of a quality of service, if the policy has it.
    pub fn qos_facts(&self, name: &str) -> Option<QosFacts> {
        self.qos.facts(name)
    }

    /// The highest part of the priority that a quality of service gives.
    pub fn most_qos_priority(&self) -> u32 {
        self.qos.most_priority()
    }

    /// Shares, use and ranks as they were given last.
    pub const fn tree(&self) -> &FairTree {
        &self.tree
    }

    /// A job holds nodes, perhaps others than before or for another price.
    pub fn holds(&mut self, id: JobId, holding: Holding) {
        let charge = self.charge(holding);
        if self.runs.get(&id) == Some(&charge) {
            return;
        }
        if let Some(before) = self.runs.remove(&id) {
            self.change(&before, |meter, measure, held| meter.ends(measure, held));
            if before.resized != charge.resized {
                self.store(&before, charge.held.start);
            }
        }
        self.change(&charge, |meter, measure, held| meter.begins(measure, held));
        self.runs.insert(id, charge);
    }

    /// A job holds no nodes any more: `last` is how it held them until then.
    pub fn held(&mut self, id: JobId, last: Holding, now: Time) {
        self.holds(id, last);
        let Some(charge) = self.runs.remove(&id) else {
            return;
        };
        self.change(&charge, |meter, measure, held| meter.ends(measure, held));
        self.store(&charge, now);
    }

    /// How a job counts: with numbers for what it holds, and the factor of its quality of service.
    fn charge(&mut self, holding: Holding) -> Charge {
        let factor = holding.qos.first().and_then(|name| self.qos.facts(name));
        let factor = factor.map_or(1_000_000, |facts| u64::from(facts.usage_factor_ppm));
        let rate = |(of, amount): (UseOf, u64)| {
            let rate = with_factor(amount, factor);
            let number = (rate > 0).then(|| self.resources.number_of(of));
            Some((number??, rate))
        };
        let mut rates: Vec<(Resource, u64)> =
            holding.amounts.into_iter().filter_map(rate).collect();
        rates.sort_unstable();
        let member = Member {
            account: &holding.account,
            user: &holding.user,
            queue: &holding.queue,
        };
        let (place, _) = self.place_of(member);
        Charge {
            place,
            qos: holding.qos,
            resized: holding.resized,
            held: Held {
                rates: rates.into(),
                start: holding.start,
                limit: holding.limit,
                suspended: holding.suspended,
            },
        }
    }

    /// What a run has used until then is stored.
    fn store(&mut self, charge: &Charge, until: Time) {
        if charge.held.rates.is_empty() {
            return; // it is free
        }
        self.change(charge, |meter, measure, held| meter.stores(measure, held, until));
        self.unsaved.insert(charge.place);
        self.qos.note(&charge.qos);
    }

    /// From time to time: the measure is moved, and use forgotten, where it is due.
    pub fn mark(&mut self, now: Time) {
        self.forget_what_is_due(now);
        let before = self.decay;
        let Some(bits) = self.decay.rebase(now) else {
            return;
        };
        for holder in self.holders.values_mut() {
            holder.meter.measured_anew(|usage| usage.rebased(bits));
        }
        self.qos.measured_anew(before, self.decay, now);
        self.sum_anew();
    }

    fn forget_what_is_due(&mut self, now: Time) {
        let last = self.reset.last(now, &self.zone);
        if let Some(last) = last.filter(|last| *last > self.forgotten) {
            self.forget(last);
        }
    }

    /// What was used before then does not count any more.
    fn forget(&mut self, before: Time) {
        self.forgotten = before;
        for (place, holder) in &mut self.holders {
            if holder.meter.forget() {
                self.unsaved.insert(*place);
            }
        }
        self.qos.forget_what_fades();
        self.sum_anew();
    }

    /// What an association has used until now does not count any more; of an account's own association
    /// nothing of all below it.
    pub fn reset(&mut self, key: &AssociationKey, now: Time) {
        let top = match &key.user {
            Some(user) => self.exactly(Member {
                account: &key.account,
                user,
                queue: key.queue.as_deref().unwrap_or(""),
            }),
            None if key.account == ROOT => Some(Place::ROOT),
            None => self.place_of_account(&key.account),
        };
        let Some(top) = top else {
            return; // nothing was ever used there
        };
        for (place, holder) in &mut self.holders {
            let up = std::iter::successors(Some(*place), |at| self.tree.above(*at));
            if up.into_iter().any(|at| at == top) {
                holder.since = now;
                holder.meter.forget();
                self.unsaved.insert(*place);
            }
        }
        self.sum_anew();
    }

    /// What was used with a quality of service until now does not count any more.
    pub fn reset_qos(&mut self, name: &str, now: Time) {
        self.qos.reset(name, now);
        self.sum_anew();
    }

    /// Gives ranks by what was used until now; tells who stands otherwise than before.
    pub fn rank(&mut self, committed: bool, now: Time) -> Moved {
        let integral = self.decay.integral(now);
        let (decay, holders, tree) = (self.decay, &self.holders, &mut self.tree);
        self.touched.retain(|place| {
            let Some(holder) = holders.get(place) else {
                return false;
            };
            let held = holder.meter.running_of(BILLING);
            let running = match committed {
                true => held.committed(decay, now),
                false => held.used(integral),
            };
            tree.has_used(*place, holder.meter.stored_of(BILLING).plus(running));
            !held.is_nothing() // of the others use fades alike: nothing changes until they run again
        });
        self.tree.rank()
    }

    /// What has to be written.
    pub fn take_unsaved(&mut self, now: Time) -> Vec<UsageRow> {
        let row = |place: &Place| {
            let holder = self.holders.get(place)?;
            let mut row = UsageRow {
                account: holder.account.to_string(),
                user: holder.user.to_string(),
                queue: holder.queue.to_string(),
                at: now,
                since: Some(holder.since).filter(|since| *since > Time(i64::MIN)),
                decay: self.decay,
                ..UsageRow::default()
            };
            write(&holder.meter, &mut row, &self.resources);
            Some(row)
        };
        let unsaved = std::mem::take(&mut self.unsaved);
        let mut rows: Vec<UsageRow> = unsaved.iter().filter_map(row).collect();
        rows.extend(self.qos.take_unsaved(&self.resources, self.decay, now));
        rows
    }

    /// Whether sums are those of each job and of each user.
    pub fn sums_are_right(&self) -> bool {
        let mut again = Self {
            decay: self.decay,
            forgotten: self.forgotten,
            tree: self.tree.clone(),
            qos: self.qos.clone(),
            ..Self::default()
        };
        for (place, holder) in &self.holders {
            let holder = Holder {
                account: holder.account.clone(),
                user: holder.user.clone(),
                queue: holder.queue.clone(),
                meter: holder.meter.clone(),
                ..**holder
            };
            again.holders.insert(*place, Box::new(holder));
        }
        for (id, charge) in &self.runs {
            let charge = Charge {
                place: charge.place,
                qos: charge.qos.clone(),
                resized: charge.resized,
                held: charge.held.clone(),
            };
            again.runs.insert(*id, charge);
        }
        again.sum_anew();
        let others = self.holders.iter();
        let mut others = others.filter(|(place, _)| !self.touched.contains(place));
        let told = others.all(|(place, holder)| {
            let stored = holder.meter.stored_of(BILLING);
            let runs = !holder.meter.running_of(BILLING).is_nothing();
            !runs && self.tree.own_use_of(*place) == stored
        });
        let users = self.holders.iter().zip(&again.holders);
        again.sums.retain(|_, meter| !meter.is_nothing());
        let sums = self.sums.iter().filter(|(_, meter)| !meter.is_nothing());
        told && users
            .into_iter()
            .all(|((_, one), (_, two))| one.meter == two.meter)
            && sums.eq(&again.sums)
            && self.qos.counts_as(&again.qos)
    }

    /// Jobs that are counted.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.runs.keys().copied()
    }
}
