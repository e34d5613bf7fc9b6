//! Limits against brute force: which of them count is found out as the documentation says it, limit by
//! limit, and what is in use by looking at each job.

#![allow(clippy::unwrap_used)]

use super::counts::Counts;
use super::judge::{Past, Present, Wanted};
use super::party::{Meter, Party};
use super::rules::Owner;
use super::tally::{Amounts, Held, Rest};
use super::wholes::Wholes;
use crate::policy::Policy;
use crate::policy::effect::Touched;
use cosy_model::policy::*;
use cosy_model::{JobId, NodeId, Span, Time, Uid};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const USERS: [&str; 3] = ["ann", "bob", "eve"];
const QOS: [&str; 3] = ["normal", "high", "pq"];
const QUEUES: [&str; 2] = ["main", "night"];
const TRES: [Tres; 2] = [Tres::Cpu, Tres::Node];
/// What the cluster has of them, and the queues.
const HAVE: [[u64; 2]; 3] = [[430, 170], [240, 90], [310, 110]];

/// A site: account `n` is below account `parents[n - 1]`, or the root; who is where; all limits.
#[derive(Clone, Debug)]
struct Site {
    parents: Vec<usize>,
    /// User, account, only for the second queue.
    members: Vec<(usize, usize, bool)>,
    /// Where (accounts, then members, then qualities of service), which, how much.
    limits: Vec<(usize, usize, usize, u64)>,
    over: bool,
    /// Limits of two qualities of service are per cent.
    relative: bool,
}

fn site() -> impl Strategy<Value = Site> {
    let parents = prop::collection::vec(0usize..4, 3);
    let members = prop::collection::vec((0usize..3, 0usize..4, any::<bool>()), 1..6);
    let limits = prop::collection::vec((0usize..16, 0usize..27, 0usize..2, 0u64..12), 0..24);
    let all = (parents, members, limits, any::<bool>(), any::<bool>());
    all.prop_map(|(parents, members, limits, over, relative)| Site {
        parents,
        members,
        limits,
        over,
        relative,
    })
}

fn account_name(n: usize) -> String {
    match n {
        0 => ROOT.to_owned(),
        n => format!("a{n}"),
    }
}

impl Site {
    fn parent(&self, n: usize) -> usize {
        self.parents[n - 1].min(n - 1)
    }

    fn key(&self, (user, account, night): (usize, usize, bool)) -> AssociationKey {
        AssociationKey {
            account: account_name(account),
            user: Some(USERS[user].to_owned()),
            queue: night.then(|| QUEUES[1].to_owned()),
        }
    }

    fn policy(&self) -> Policy {
        let mut it = Policy::default();
        for n in 1..=self.parents.len() {
            let row = AccountRecord {
                name: account_name(n),
                parent: Some(account_name(self.parent(n))),
                id: 100 + n as u32,
                ..AccountRecord::default()
            };
            it.accounts.insert(row.name.clone(), row);
        }
        for (at, member) in self.members.iter().enumerate() {
            let key = self.key(*member);
            let row = AssociationRecord {
                id: 200 + at as u32,
                key: key.clone(),
                settings: AssociationSettings::default(),
            };
            it.associations.entry(key).or_insert(Box::new(row));
        }
        for (at, name) in QOS.iter().enumerate() {
            let over = (self.over && at == 1).then_some(QosFlag::OverPartQos);
            let relative = (self.relative && at > 0).then_some(QosFlag::Relative);
            let row = QosRecord {
                id: 1 + at as u32,
                name: (*name).to_owned(),
                flags: over.into_iter().chain(relative).collect(),
                ..QosRecord::default()
            };
            it.qos.insert(row.name.clone(), row);
        }
        for (place, kind, tres, value) in &self.limits {
            let kind = LimitKind::ALL[kind % LimitKind::ALL.len()];
            let tres = kind.measure().by_tres().then(|| TRES[*tres].clone());
            self.set(&mut it, *place, LimitKey { kind, tres }, *value);
        }
        it.index();
        let has = |at: usize| TRES.into_iter().zip(HAVE[at]).collect();
        it.is_measured(Wholes {
            cluster: has(0),
            queues: [
                (QUEUES[0].to_owned(), has(1)),
                (QUEUES[1].to_owned(), has(2)),
            ]
            .into(),
        });
        it.enforces_limits(true);
        it
    }

    /// A limit of a quality of service, in numbers.
    fn share(&self, party: &Party, qos: &str, key: &LimitKey, value: u64) -> u64 {
        let word = key.kind.word();
        let amounts = word.contains("TRES") && !word.contains("Mins") && !word.contains("PerNode");
        if !amounts || !self.relative || qos == "normal" {
            return value;
        }
        let own_queue = party.queue_qos.as_deref() == Some(qos);
        let at = match own_queue {
            true => 1 + QUEUES.iter().position(|q| *q == party.queue).unwrap(),
            false => 0,
        };
        let tres = TRES.iter().position(|t| Some(t) == key.tres.as_ref());
        HAVE[at][tres.unwrap()] * value / 100
    }

    fn set(&self, it: &mut Policy, place: usize, key: LimitKey, value: u64) -> Touched {
        let accounts = self.parents.len() + 1;
        let mut touched = Touched::default();
        let limits = if place < accounts {
            let name = account_name(place);
            touched.accounts.insert(name.clone());
            &mut it.accounts.get_mut(&name).unwrap().settings.limits
        } else if let Some(member) = self.members.get(place - accounts) {
            let key = self.key(*member);
            let users = touched.users.entry(key.account.clone()).or_default();
            users.extend(key.user.clone());
            &mut it.associations.get_mut(&key).unwrap().settings.limits
        } else {
            let name = QOS[place % QOS.len()];
            touched.qos.insert(name.to_owned());
            &mut it.qos.get_mut(name).unwrap().limits
        };
        let fits = match place < accounts + self.members.len() {
            true => key.kind.of_associations(),
            false => key.kind.of_qos(),
        };
        if fits {
            limits.set(key, Some(value));
        }
        touched
    }
}

/// A job as the oracle sees it.
#[derive(Clone, Debug)]
struct OneJob {
    party: Party,
    cores: u64,
    nodes: Vec<NodeId>,
    minutes: u64,
    end: Option<Time>,
}

/// Over whom a limit counts, said by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Over {
    /// All jobs below that association.
    Below(AssociationKey),
    /// Of that quality of service: all, those of the user, those of the account.
    Qos(&'static str),
    OfUser(&'static str),
    OfAccount(&'static str),
}

fn party(policy: &Policy, (user, account, qos, queue): (usize, usize, usize, usize)) -> Party {
    let _ = policy;
    Party {
        uid: Uid(1000 + user as u32),
        user: USERS[user].to_owned(),
        account: Some(account_name(account)),
        qos: (qos < 3).then(|| QOS[qos].to_owned()),
        queue: QUEUES[queue].to_owned(),
        queue_qos: (queue == 1).then(|| "pq".to_owned()),
    }
}

/// The associations of a job, nearest first: the user's for that queue, else the user's for all, then
/// each account upward.
fn chain(policy: &Policy, party: &Party) -> Vec<AssociationKey> {
    let account = party.account.clone().unwrap();
    let own = |queue: Option<String>| AssociationKey {
        account: account.clone(),
        user: Some(party.user.clone()),
        queue,
    };
    let mut all = Vec::new();
    for key in [own(Some(party.queue.clone())), own(None)] {
        if all.is_empty() && policy.associations.contains_key(&key) {
            all.push(key);
        }
    }
    let mut next = Some(account);
    while let Some(name) = next {
        next = policy.accounts[&name].parent.clone();
        all.push(AssociationKey {
            account: name,
            user: None,
            queue: None,
        });
    }
    all
}

fn limits_at<'a>(policy: &'a Policy, key: &AssociationKey) -> &'a Limits {
    match key.user {
        Some(_) => &policy.associations[key].settings.limits,
        None => &policy.accounts[&key.account].settings.limits,
    }
}

/// Which limits a job is under, worked out limit by limit.
fn expected(policy: &Policy, site: &Site, party: &Party) -> BTreeSet<(LimitKey, u64, Over)> {
    let of_queue = party.queue_qos.as_deref();
    let own = party.qos.as_deref();
    let swapped = site.over && own == Some("high");
    let order = if swapped {
        [own, of_queue]
    } else {
        [of_queue, own]
    };
    let order: Vec<&'static str> = order
        .into_iter()
        .flatten()
        .map(|name| *QOS.iter().find(|q| **q == name).unwrap())
        .collect();
    let chain = chain(policy, party);
    let mut found = BTreeSet::new();
    for kind in LimitKind::ALL {
        let resources: Vec<Option<Tres>> = match kind.measure().by_tres() {
            true => TRES.iter().cloned().map(Some).collect(),
            false => vec![None],
        };
        for tres in resources {
            let key = LimitKey { kind: *kind, tres };
            let first = order
                .iter()
                .find_map(|q| Some((*q, policy.qos[*q].limits.get(&key)?)));
            if let Some((qos, value)) = first {
                let over = match kind.scope() {
                    LimitScope::User => Over::OfUser(qos),
                    LimitScope::Account => Over::OfAccount(qos),
                    _ => Over::Qos(qos),
                };
                let share = site.share(party, qos, &key, value);
                found.insert((key, share, over));
                continue;
            }
            let set = |at: &AssociationKey| limits_at(policy, at).get(&key);
            if kind.scope() == LimitScope::Group {
                for at in &chain {
                    if let Some(value) = set(at) {
                        found.insert((key.clone(), value, Over::Below(at.clone())));
                    }
                }
                continue;
            }
            let by_qos: &[&str] = match kind {
                LimitKind::MaxJobs => &["MaxJobsPerUser", "MaxJobsPerAccount"],
                LimitKind::MaxSubmitJobs => &["MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount"],
                LimitKind::MaxJobsAccrue => &["MaxJobsAccruePerUser", "MaxJobsAccruePerAccount"],
                _ => &[],
            };
            let taken = by_qos.iter().any(|word| {
                let key = word.parse().unwrap();
                order
                    .iter()
                    .any(|q| policy.qos[*q].limits.get(&key).is_some())
            });
            let of_user = kind.scope() == LimitScope::User;
            if taken || of_user && chain[0].user.is_none() {
                continue;
            }
            if let Some(value) = chain.iter().find_map(set) {
                found.insert((key, value, Over::Below(chain[0].clone())));
            }
        }
    }
    found
}

/// The same as the code under test says it.
fn told(policy: &Policy, party: &Party) -> BTreeSet<(LimitKey, u64, Over)> {
    let of = |id: u32| {
        let rows = policy.associations.values();
        let user = rows
            .filter(|row| row.id == id)
            .map(|row| row.key.clone())
            .next();
        user.unwrap_or_else(|| {
            let account = policy.accounts.values().find(|row| row.id == id).unwrap();
            AssociationKey {
                account: account.name.clone(),
                user: None,
                queue: None,
            }
        })
    };
    let qos = |id: u32| QOS[id as usize - 1];
    let rules = policy.rules(party);
    let rule = |rule: &super::rules::Rule| {
        let over = match rule.meter {
            Meter::Association(id) => Over::Below(of(id)),
            Meter::Qos(id) => Over::Qos(qos(id)),
            Meter::UserInQos(id, uid) => {
                assert_eq!(uid, party.uid);
                Over::OfUser(qos(id))
            }
            Meter::AccountInQos(id, _) => Over::OfAccount(qos(id)),
        };
        (rule.key.clone(), rule.value, over)
    };
    let all: Vec<_> = rules.all.iter().map(rule).collect();
    let count = all.len();
    let all: BTreeSet<_> = all.into_iter().collect();
    assert_eq!(all.len(), count, "a limit is there twice");
    all
}

/// Whether a job counts where a limit does, seen from a job that is under it.
fn counts_in(policy: &Policy, site: &Site, other: &OneJob, over: &Over, me: &Party) -> bool {
    let _ = site;
    let in_qos = |name: &str| {
        [&other.party.qos, &other.party.queue_qos]
            .into_iter()
            .flatten()
            .any(|q| q == name)
    };
    match over {
        Over::Below(at) => chain(policy, &other.party).contains(at),
        Over::Qos(qos) => in_qos(qos),
        Over::OfUser(qos) => in_qos(qos) && other.party.uid == me.uid,
        Over::OfAccount(qos) => in_qos(qos) && other.party.account == me.account,
    }
}

/// Whether a job may start beside those that run.
fn may_start(
    policy: &Policy,
    site: &Site,
    jobs: &BTreeMap<u64, OneJob>,
    me: u64,
    now: Time,
) -> bool {
    let job = &jobs[&me];
    let running = || jobs.values().filter(|job| job.end.is_some());
    expected(policy, site, &job.party)
        .into_iter()
        .all(|(key, value, over)| {
            let others: Vec<&OneJob> = running()
                .filter(|other| counts_in(policy, site, other, &over, &job.party))
                .collect();
            let amount = |job: &OneJob| match key.tres {
                Some(Tres::Node) => job.nodes.len() as u64,
                _ => job.cores,
            };
            match key.kind.measure() {
                Measure::Jobs => (others.len() as u64) < value,
                Measure::Tres if key.kind == LimitKind::MaxTresPerJob => amount(job) <= value,
                Measure::Tres if key.kind == LimitKind::MaxTresPerNode => true, // asked below
                Measure::Tres if key.tres == Some(Tres::Node) => {
                    let held: BTreeSet<NodeId> = others
                        .iter()
                        .flat_map(|other| other.nodes.iter().copied())
                        .collect();
                    let adds = job.nodes.iter().filter(|node| !held.contains(node)).count() as u64;
                    let alone = job.nodes.len() as u64 <= value;
                    alone && (adds == 0 || held.len() as u64 + adds <= value)
                }
                Measure::Tres => {
                    others.iter().map(|j| amount(j)).sum::<u64>() + amount(job) <= value
                }
                Measure::LeastTres => amount(job) >= value,
                Measure::TresRunMinutes => {
                    let left = |other: &&OneJob| {
                        u128::from(amount(other))
                            * u128::from(other.end.unwrap().since(now).ms() as u64)
                    };
                    let own = u128::from(amount(job)) * u128::from(job.minutes) * 60_000;
                    others.iter().map(left).sum::<u128>() + own <= u128::from(value) * 60_000
                }
                // Nothing was used before.
                Measure::TresMinutes if key.kind == LimitKind::MaxTresMinsPerJob => {
                    amount(job) * job.minutes <= value
                }
                Measure::TresMinutes => value > 0,
                Measure::Wall if key.kind == LimitKind::MaxWall => job.minutes <= value,
                Measure::Wall => value > 0,
                Measure::SubmitJobs | Measure::JobsAccrue | Measure::Priority => true,
            }
        })
}

struct Nothing;

impl Past for Nothing {
    fn minutes(&self, _: &Owner, _: Option<&Tres>) -> u64 {
        0
    }
}

fn wanted(job: &OneJob) -> Wanted {
    Wanted {
        amounts: amounts(job),
        on_node: Amounts::new(),
        nodes: Some(job.nodes.clone().into()),
        limit: Span::from_minutes(job.minutes as i64),
        jobs: 1,
    }
}

fn amounts(job: &OneJob) -> Amounts {
    [(Tres::Cpu, job.cores), (Tres::Node, job.nodes.len() as u64)].into()
}

fn starts(policy: &Policy, counts: &Counts, job: u64, wanted: &Wanted, now: Time) -> bool {
    let of = counts.of(JobId(job)).unwrap();
    let tallies = |meter: Meter| counts.tally(meter);
    let present = Present {
        tallies: &tallies,
        past: &Nothing,
        now,
        safe: false,
    };
    let _ = policy;
    let looked_at = |kind: LimitKind| {
        kind != LimitKind::MaxTresPerNode
            && !matches!(
                kind.measure(),
                Measure::SubmitJobs | Measure::JobsAccrue | Measure::Priority
            )
    };
    of.rules.holds_back(wanted, &present, looked_at).is_none()
}

/// One event: what happens, to whom.
type Step = (u8, (usize, usize, usize, usize), u64, Vec<u8>, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = (0usize..3, 0usize..4, 0usize..4, 0usize..2);
    let step = (0u8..6, who, 1u64..5, prop::collection::vec(0u8..4, 1..3), 1u64..4);
    prop::collection::vec(step, 1..40)
}

fn play(site: &Site, steps: &[Step]) {
    let mut policy = site.policy();
    let mut jobs: BTreeMap<u64, OneJob> = BTreeMap::new();
    let mut now = Time(0);
    for (number, (what, who, cores, nodes, minutes)) in steps.iter().enumerate() {
        let number = number as u64;
        now = now + Span::from_secs(7);
        for (id, job) in jobs
            .iter_mut()
            .filter(|(_, job)| job.end.is_some_and(|end| end <= now))
        {
            policy.counts_mut().stops(JobId(*id)); // none of them is late
            job.end = None;
        }
        let some = jobs
            .keys()
            .copied()
            .nth(*cores as usize % jobs.len().max(1));
        match (what, some) {
            (0..=2, _) | (_, None) => {
                let nodes: BTreeSet<NodeId> = nodes.iter().map(|n| NodeId((*n).into())).collect();
                let job = OneJob {
                    party: party(&policy, *who),
                    cores: *cores,
                    nodes: nodes.into_iter().collect(),
                    minutes: *minutes,
                    end: None,
                };
                policy.comes(JobId(number), job.party.clone());
                jobs.insert(number, job);
                try_start(&mut policy, site, &mut jobs, number, now);
            }
            (3, Some(id)) => {
                policy.counts_mut().leaves(JobId(id));
                jobs.remove(&id);
            }
            (4, Some(id)) => {
                policy.counts_mut().stops(JobId(id));
                jobs.get_mut(&id).unwrap().end = None;
            }
            (_, Some(id)) if jobs[&id].end.is_none() => {
                try_start(&mut policy, site, &mut jobs, id, now);
            }
            _ => {
                // A limit changes.
                let kind = LimitKind::ALL[*cores as usize % LimitKind::ALL.len()];
                let tres = kind.measure().by_tres().then_some(Tres::Cpu);
                let key = LimitKey { kind, tres };
                let touched = site.set(&mut policy, who.1, key, *minutes);
                let (_, others) = policy.limits_changed(&touched);
                let running = jobs.iter().filter(|(_, job)| others && job.end.is_some());
                for (id, job) in running {
                    let held = held(policy.counts(), job, job.end.unwrap());
                    policy.counts_mut().runs(JobId(*id), held);
                }
            }
        }
        assert_eq!(*policy.counts().tallies(), policy.counts().recounted());
        let mut parties = 0;
        for id in policy.counts().jobs() {
            let of = policy.counts().of(id).unwrap();
            assert_eq!(of.rules, policy.rules(&of.party));
            parties += 1;
        }
        assert_eq!(parties, jobs.len());
    }
    for id in jobs.keys() {
        policy.counts_mut().leaves(JobId(*id));
    }
    let empty = Policy::default();
    assert_eq!(policy.counts().tallies(), empty.counts().tallies(), "something is left");
}

fn try_start(
    policy: &mut Policy,
    site: &Site,
    jobs: &mut BTreeMap<u64, OneJob>,
    id: u64,
    now: Time,
) {
    let job = jobs[&id].clone();
    let wanted = wanted(&job);
    let want = may_start(policy, site, jobs, id, now);
    let is = starts(policy, policy.counts(), id, &wanted, now);
    assert_eq!(is, want, "{job:?} at {now:?}, under {:?}", expected(policy, site, &job.party));
    if is {
        let end = now + Span::from_minutes(job.minutes as i64);
        jobs.get_mut(&id).unwrap().end = Some(end);
        let held = held(policy.counts(), &job, end);
        policy.counts_mut().runs(JobId(id), held);
    }
}

fn held(counts: &Counts, job: &OneJob, end: Time) -> Held {
    let mut amounts = amounts(job);
    amounts.retain(|tres, _| counts.is_limited(tres));
    let nodes = match counts.is_limited(&Tres::Node) {
        true => job.nodes.clone().into(),
        false => Box::default(),
    };
    Held {
        amounts,
        nodes,
        rest: Rest::Until(end),
        planned_ppm: 1_000_000,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn which_limits_count(site in site(), who in (0usize..3, 0usize..4, 0usize..4, 0usize..2)) {
        let policy = site.policy();
        let party = party(&policy, who);
        prop_assert_eq!(told(&policy, &party), expected(&policy, &site, &party));
    }

    #[test]
    fn what_is_in_use_is_what_each_job_holds(site in site(), steps in steps()) {
        play(&site, &steps);
    }
}
