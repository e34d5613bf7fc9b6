//! Limits through random histories with crashes: after each event what is counted is recounted (the
//! invariants of the world), and it is looked from outside whether anybody has started beyond a limit.
#![allow(clippy::unwrap_used)]

mod world;

use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::policy::*;
use cosy_model::{JobId, JobSpec, OsText, QueueOrder, Span};
use std::collections::{BTreeMap, BTreeSet};
use world::*;

const SEEDS: u64 = 8;
const STEPS: u32 = 100;

/// Users with their accounts; lab is below physics.
const PARTIES: [(&str, &str); 4] = [
    ("ann", "physics"),
    ("ann", "lab"),
    ("bob", "physics"),
    ("eve", "chem"),
];

fn person(name: &str) -> cosy_model::User {
    let uid = match name {
        "ann" => 1000,
        "bob" => 1001,
        _ => 1002,
    };
    user(uid, name)
}

/// What jobs of a submission are.
#[derive(Clone, Debug)]
struct Wants {
    user: &'static str,
    account: &'static str,
    high: bool,
    cores: u64,
}

/// A limit, as its documentation says: over which jobs, of what, how much.
type OneLimit = (&'static str, &'static str, u64);

/// Whether a limit is about such a job, and what it measures of it.
fn measured((owner, word, _): OneLimit, job: &Wants) -> Option<u64> {
    let within = match owner {
        "physics" => matches!(job.account, "physics" | "lab"),
        "lab" | "chem" => job.account == owner,
        "ann@physics" => (job.user, job.account) == ("ann", "physics"),
        "high" => job.high,
        other => panic!("{other}"),
    };
    // A quality of service that says how many may run decides in place of accounts.
    let amount = if word.ends_with("cpu") { job.cores } else { 1 };
    within.then_some(amount)
}

/// Limits that never meet the same of another place, so that each of them binds by itself.
const LIMITS: [(&str, &str); 7] = [
    ("physics", "GrpTRES=cpu"),
    ("lab", "GrpTRES=cpu"),
    ("chem", "GrpTRES=cpu"),
    ("physics", "MaxTRESPerJob=cpu"),
    ("ann@physics", "MaxJobs"),
    ("high", "GrpJobs"),
    ("high", "MaxTRESPerUser=cpu"),
];

struct History {
    w: World,
    dice: Dice,
    submissions: BTreeMap<JobId, Wants>,
    limits: BTreeMap<(&'static str, &'static str), u64>,
    next_change: u8,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut config = config(4, 8);
        config.enforce = Enforce {
            associations: true,
            limits: true,
            qos: true,
            safe: seed % 4 == 3,
        };
        config.policy.limits_pend = true;
        config.queues[0].order =
            [QueueOrder::Fcfs, QueueOrder::FairShare, QueueOrder::Weights][seed as usize % 3];
        let mut history = Self {
            w: World::new(config),
            dice: Dice(seed),
            submissions: BTreeMap::new(),
            limits: BTreeMap::new(),
            next_change: 0,
        };
        let of_account = |account: &str, user: Option<&str>| AssociationKey {
            account: account.to_owned(),
            user: user.map(str::to_owned),
            queue: None,
        };
        let qos: BTreeSet<String> = ["normal", "high"].map(str::to_owned).into();
        let mut changes = vec![PolicyChange::AddQos {
            name: "high".to_owned(),
            set: QosChange::default(),
        }];
        for (name, parent) in [("physics", "root"), ("lab", "physics"), ("chem", "root")] {
            changes.push(PolicyChange::AddAccount {
                name: name.to_owned(),
                parent: Some(parent.to_owned()),
                description: None,
                organization: None,
                set: AssociationChange {
                    qos: Some(QosListChange::Exactly(qos.clone())),
                    ..AssociationChange::default()
                },
            });
        }
        for (user, account) in PARTIES {
            changes.push(PolicyChange::AddAssociation {
                key: of_account(account, Some(user)),
                set: AssociationChange::default(),
            });
        }
        history.change(changes);
        history
    }

    fn change(&mut self, changes: Vec<PolicyChange>) {
        self.next_change = self.next_change.wrapping_add(1);
        let id = [self.next_change; 16];
        let request = Request::ChangePolicy {
            changes,
            dry_run: false,
        };
        let reply = self.w.ask_as(user(0, "root"), Some(id), request);
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
        self.w.deliver_all();
    }

    fn set(&mut self, (owner, word): (&'static str, &'static str), value: Option<u64>) {
        let limits = vec![(word.parse().unwrap(), value)];
        let change = match owner {
            "high" => PolicyChange::ModifyQos {
                name: owner.to_owned(),
                set: QosChange {
                    limits,
                    ..QosChange::default()
                },
            },
            _ => {
                let (user, account) = match owner.split_once('@') {
                    Some((user, account)) => (Some(user.to_owned()), account),
                    None => (None, owner),
                };
                PolicyChange::ModifyAssociation {
                    key: AssociationKey {
                        account: account.to_owned(),
                        user,
                        queue: None,
                    },
                    set: AssociationChange {
                        limits,
                        ..AssociationChange::default()
                    },
                }
            }
        };
        self.change(vec![change]);
        match value {
            Some(value) => self.limits.insert((owner, word), value),
            None => self.limits.remove(&(owner, word)),
        };
    }

    fn submit(&mut self) {
        let (user, account) = PARTIES[self.dice.below(4) as usize];
        let wants = Wants {
            user,
            account,
            high: self.dice.chance(30),
            cores: 1 + self.dice.below(6),
        };
        let mut spec = JobSpec {
            account: Some(account.to_owned()),
            qos: wants.high.then(|| "high".to_owned()),
            time_limit: Some(Span::from_secs(60)),
            requeue: self.dice.chance(50),
            ..spec("any")
        };
        spec.request = ResourceRequest {
            tasks: Some(1),
            cores_per_task: wants.cores as u32,
            ..ResourceRequest::default()
        };
        let tasks = self.dice.chance(25).then(|| 1 + self.dice.below(4));
        let submission = Submission {
            spec,
            script: OsText::default(),
            array: tasks.map(|last| format!("0-{last}").parse().unwrap()),
        };
        let before: BTreeSet<JobId> = self.w.store.submissions.keys().copied().collect();
        self.w
            .ask_as(person(user), None, Request::Submit(Box::new(submission)));
        let new = self
            .w
            .store
            .submissions
            .keys()
            .find(|id| !before.contains(id));
        if let Some(new) = new.copied() {
            self.submissions.insert(new, wants);
        }
    }

    /// Jobs that hold something, by their rows.
    fn running(&self) -> BTreeMap<JobId, Wants> {
        let rows = self.w.store.jobs.values();
        let holds = rows.filter(|row| row.run.is_some() && row.end.is_none());
        let both = holds.filter_map(|row| Some((row.id, self.submissions.get(&row.base)?.clone())));
        both.collect()
    }

    /// Nobody who is new among them is beyond a limit.
    fn nobody_new_is_beyond(&self, before: &BTreeMap<JobId, Wants>, at: &str) {
        let now = self.running();
        for ((owner, word), value) in &self.limits {
            let limit = (*owner, *word, *value);
            let own = |jobs: &BTreeMap<JobId, Wants>| -> BTreeMap<JobId, u64> {
                let all = jobs.iter();
                all.filter_map(|(id, job)| Some((*id, measured(limit, job)?)))
                    .collect()
            };
            let here = own(&now);
            let new = here.keys().any(|id| !before.contains_key(id));
            let amounts: Vec<u64> = match *word {
                word if word.starts_with("MaxTRESPerJob") => {
                    let fresh = here.iter().filter(|(id, _)| !before.contains_key(id));
                    fresh.map(|(_, amount)| *amount).collect()
                }
                word if word.starts_with("MaxTRESPerUser") => {
                    let users = ["ann", "bob", "eve"];
                    let of = |user: &&str| {
                        let mine = here.iter().filter(|(id, _)| now[id].user == *user);
                        let fresh = mine.clone().any(|(id, _)| !before.contains_key(id));
                        fresh.then(|| mine.map(|(_, amount)| amount).sum())
                    };
                    users.iter().filter_map(of).collect()
                }
                _ => new.then(|| here.values().sum()).into_iter().collect(),
            };
            for amount in amounts {
                assert!(amount <= *value, "{at}: {owner} {word}={value}, in use {amount}");
            }
        }
    }

    fn step(&mut self, at: &str) -> bool {
        let before = self.running();
        let changes = self.dice.chance(12);
        let dies = !changes && self.dice.chance(15);
        if dies {
            let death = [Death::BeforeCommit, Death::AfterCommit][self.dice.below(2) as usize];
            self.w.dies = Some((self.dice.below(3) as u32, death));
        }
        match self.dice.below(10) {
            _ if changes => {
                let limit = LIMITS[self.dice.below(LIMITS.len() as u64) as usize];
                let value = self.dice.chance(75).then(|| self.dice.below(12));
                self.set(limit, value);
            }
            0..5 => self.submit(),
            5 if !self.submissions.is_empty() => {
                let at = self.dice.below(self.submissions.len() as u64) as usize;
                let id = *self.submissions.keys().nth(at).unwrap();
                self.w.ask_as(user(0, "root"), None, cancels(ids(&[id.0])));
            }
            6 if self.dice.chance(30) => {
                self.w.crash();
            }
            _ => self.w.pass(1 + self.dice.below(8) as i64),
        }
        self.w.connect_all();
        let dead = dies && self.w.dies.take().is_none();
        self.w.pass(1);
        if !changes {
            self.nobody_new_is_beyond(&before, at);
        }
        dead
    }
}

#[test]
fn limits_hold_through_random_histories_with_crashes() {
    let (mut deaths, mut waited, mut ran) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut history = History::new(seed);
        history.w.run_time = Span::from_secs(3 + history.dice.below(20) as i64);
        for step in 0..STEPS {
            deaths += u32::from(history.step(&format!("seed {seed} step {step}")));
            waited += usize::from(history.w.queue().contains(":waiting/assoc:"));
        }
        ran += history.submissions.len();
        // Without limits nobody is left behind.
        for limit in LIMITS {
            history.set(limit, None);
        }
        for _ in 0..200 {
            match history.w.queue().is_empty() {
                true => break,
                false => history.w.pass(20),
            }
        }
        assert_eq!(history.w.queue(), "", "seed {seed}: they never end");
    }
    assert!(deaths > 20 && waited > 100 && ran > 200, "{deaths} {waited} {ran}");
}
