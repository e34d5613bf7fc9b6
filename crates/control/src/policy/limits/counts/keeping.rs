//! What is counted is kept beside the policy, and follows its changes.

use super::{Counted, Counts};
use crate::policy::Policy;
use crate::policy::effect::Touched;
use crate::policy::limits::party::Party;
use cosy_model::JobId;
use cosy_model::policy::{Limits, Tres};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Policy {
    /// What is counted of jobs.
    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The same, for those who come, run and go.
    pub(crate) const fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// The limits of a party, and what its jobs share.
    pub(crate) fn counted(&self, party: Party) -> Arc<Counted> {
        if let Some(known) = self.counts.parties.get(&party) {
            return known.clone();
        }
        let rules = self.rules(&party);
        Arc::new(Counted { party, rules })
    }

    /// A job waits from now on, or belongs to somebody else.
    pub(crate) fn comes(&mut self, id: JobId, party: Party) {
        if !self.counts.on {
            return;
        }
        let of = self.join_party(party);
        self.counts.comes(id, of);
    }

    /// What the jobs of a party share, of which one comes now.
    pub(crate) fn join_party(&mut self, party: Party) -> Arc<Counted> {
        let of = self.counted(party);
        self.counts
            .parties
            .entry(of.party.clone())
            .or_insert_with(|| of.clone());
        of
    }

    /// Limits are enforced from now on, or are not: then nothing is kept. True when that is another
    /// thing than before.
    pub(crate) fn enforces_limits(&mut self, on: bool) -> bool {
        if self.counts.on == on {
            return false;
        }
        self.counts = Counts {
            on,
            ..Counts::default()
        };
        self.counts.limited = self.limited();
        true
    }

    /// The policy has changed: limits are worked out anew, and whoever belongs elsewhere now is counted
    /// there. Tells whose limits are others, and whether resources are limited that were not.
    pub(crate) fn limits_changed(&mut self, touched: &Touched) -> (BTreeSet<JobId>, bool) {
        let mut concerned = BTreeSet::new();
        if !self.counts.on {
            return (concerned, false);
        }
        let mut anew: BTreeMap<Party, Arc<Counted>> = BTreeMap::new();
        let parties = self.counts.parties.iter();
        for (party, before) in parties.filter(|(party, _)| self.is_touched(party, touched)) {
            let rules = self.rules(party);
            if rules != before.rules {
                let party = party.clone();
                anew.insert(party.clone(), Arc::new(Counted { party, rules }));
            }
        }
        let jobs = self.counts.jobs.iter();
        let moved = jobs.filter(|(_, entry)| anew.contains_key(&entry.of.party));
        let moved: Vec<JobId> = moved.map(|(id, _)| *id).collect();
        for id in moved {
            let Some(entry) = self.counts.jobs.get(&id) else {
                continue;
            };
            let Some(of) = anew.get(&entry.of.party).cloned() else {
                continue;
            };
            // who is limited from now on is let in one by one
            let accrues = entry.accrues && (!of.rules.limits_age || entry.of.rules.limits_age);
            let held = entry.held.clone();
            let queued = entry.queued.clone();
            self.counts.leaves(id);
            self.counts.parties.insert(of.party.clone(), of.clone());
            self.counts.comes(id, of);
            if let Some(held) = held {
                self.counts.runs(id, *held);
            }
            if let Some(queued) = queued {
                self.counts.queues(id, *queued);
            }
            self.counts.accrues(id, accrues);
            concerned.insert(id);
        }
        let limited = self.limited();
        let others = limited != self.counts.limited;
        self.counts.limited = limited;
        (concerned, others)
    }

    /// Whether a touched record says something of that party's limits.
    fn is_touched(&self, party: &Party, touched: &Touched) -> bool {
        let qos = party.qos.iter().chain(&party.queue_qos);
        let account = party.account.as_deref();
        qos.into_iter().any(|name| touched.qos.contains(name))
            || account.is_some_and(|account| {
                touched.has_user(account, &party.user)
                    || touched.accounts.contains(account)
                    || !touched.accounts.is_empty()
                        && self
                            .upward(account)
                            .any(|above| touched.accounts.contains(&above.name))
            })
    }

    /// Every resource that a limit is about, wherever it is set.
    fn limited(&self) -> BTreeSet<Tres> {
        let own = self.associations.values().map(|row| &row.settings.limits);
        let all = self.accounts.values().map(|row| &row.settings.limits);
        let qos = self.qos.values().map(|row| &row.limits);
        let mut limited: BTreeSet<Tres> = BTreeSet::new();
        for (key, _) in all.chain(own).chain(qos).flat_map(Limits::iter) {
            if let Some(tres) = key.tres.as_ref().filter(|tres| !limited.contains(tres)) {
                limited.insert(tres.clone());
            }
        }
        limited
    }
}
