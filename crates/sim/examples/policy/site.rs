//! A site with a thousand accounts, ten thousand users and five hundred qualities of service, and
//! its jobs.

use crate::common::Dice;
use cosy_control::PriorityConfig;
use cosy_model::policy::{
    AdminLevel, AssociationChange, AssociationKey, Enforce, LimitKey, LimitKind, PolicyChange,
    QosChange, QosListChange, Shares, Tres,
};
use cosy_model::{QueueOrder, QueueSpec, Span, Time};
use cosy_policy::weights::Weights;
use cosy_sim::cosy::controller_replay::Site;
use cosy_sim::replay::Machine;
use cosy_sim::workload::Job;
use std::collections::BTreeSet;

/// Whole nodes, all taken before the first job has to wait.
pub const MACHINE: Machine = Machine {
    nodes: 64,
    cores: 32,
};
/// Users, each in one account.
pub const USERS: u32 = 10_000;
const QOS: u32 = 500;
/// Number of the user who may change the accounts, whose job comes last.
const ADMINISTRATOR: u32 = 0;
/// Accounts of three levels: 10, 90 and 900.
const TOP: u32 = 10;
const MIDDLE: u32 = 90;
const GROUPS: u32 = 900;
/// Qualities of service that the users of a group may choose from.
const CHOICE: u32 = 5;
/// One job comes each millisecond.
const APART: i64 = 1;
/// Between two ends: longer than ranks are left as they are.
const ENDS_APART: i64 = 3000;

/// What is switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rules {
    /// Nothing: jobs come first, served first, and nobody has an account.
    Off,
    /// The accounts with all limits, in this order.
    On(QueueOrder),
}

impl Rules {
    /// All that are measured, what they are compared with first.
    pub const ALL: [Self; 4] = [
        Self::Off,
        Self::On(QueueOrder::Fcfs),
        Self::On(QueueOrder::FairShare),
        Self::On(QueueOrder::Weights),
    ];

    /// A name for a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On(QueueOrder::Fcfs) => "limits",
            Self::On(QueueOrder::FairShare) => "limits, fair share",
            Self::On(QueueOrder::Weights) => "limits, weights",
        }
    }
}

fn user(number: u32) -> String {
    format!("user{number}")
}

/// Login names by the number of the user.
pub fn users() -> Vec<String> {
    (0..USERS).map(user).collect()
}

fn qos(number: u32) -> String {
    format!("q{number}")
}

fn group_of(user: u32) -> u32 {
    user % GROUPS
}

/// One of those that the user's group may choose from.
pub fn qos_of(job: &Job) -> Option<String> {
    let choice = u32::try_from(job.id).unwrap_or(0) % (CHOICE + 1);
    (choice < CHOICE).then(|| qos((group_of(job.user) + choice) % QOS))
}

fn set(limits: Vec<(LimitKey, u64)>, shares: u32) -> AssociationChange {
    AssociationChange {
        shares: Some(Shares::Count(shares)),
        limits: limits
            .into_iter()
            .map(|(key, most)| (key, Some(most)))
            .collect(),
        ..AssociationChange::default()
    }
}

fn account(name: String, parent: Option<String>, set: AssociationChange) -> PolicyChange {
    PolicyChange::AddAccount {
        name,
        parent,
        description: None,
        organization: None,
        set,
    }
}

/// Qualities of service, then accounts from above, then who is in them. Some limits are reached:
/// a group may have two whole nodes at once, a user one job.
pub fn changes() -> Vec<PolicyChange> {
    let cpu = |kind| LimitKey::of(kind, Tres::Cpu);
    let mut changes = Vec::new();
    for number in 0..QOS {
        let limits = vec![
            (LimitKey::plain(LimitKind::MaxJobsPerUser), Some(100)),
            (cpu(LimitKind::GrpTres), Some(1_000_000)),
        ];
        let set = QosChange {
            priority: Some(number),
            limits,
            ..QosChange::default()
        };
        let name = qos(number);
        changes.push(PolicyChange::AddQos { name, set });
    }
    for number in 0..TOP {
        let limits = vec![
            (cpu(LimitKind::GrpTres), 100_000),
            (LimitKey::plain(LimitKind::GrpSubmitJobs), 1_000_000),
        ];
        changes.push(account(format!("top{number}"), None, set(limits, 1 + number)));
    }
    for number in 0..MIDDLE {
        let above = Some(format!("top{}", number % TOP));
        let limits = vec![(LimitKey::plain(LimitKind::GrpJobs), 100_000)];
        changes.push(account(format!("mid{number}"), above, set(limits, 1 + number % 7)));
    }
    for number in 0..GROUPS {
        let above = Some(format!("mid{}", number % MIDDLE));
        let names: BTreeSet<String> = (0..CHOICE).map(|c| qos((number + c) % QOS)).collect();
        let limits = vec![(cpu(LimitKind::GrpTres), 64)];
        let set = AssociationChange {
            default_qos: Some(names.first().cloned()),
            qos: Some(QosListChange::Exactly(names)),
            ..set(limits, 1 + number % 5)
        };
        changes.push(account(format!("grp{number}"), above, set));
    }
    for number in 0..USERS {
        let key = key(number);
        let limits = vec![
            (LimitKey::plain(LimitKind::MaxJobs), 1),
            (LimitKey::plain(LimitKind::MaxSubmitJobs), 1000),
        ];
        let set = set(limits, 1 + number % 3);
        changes.push(PolicyChange::AddAssociation { key, set });
    }
    changes.push(PolicyChange::SetUser {
        name: user(ADMINISTRATOR),
        default_account: None,
        admin_level: Some(AdminLevel::Administrator),
        default_wckey: None,
        add_wckeys: BTreeSet::new(),
        remove_wckeys: BTreeSet::new(),
    });
    changes
}

/// A limit that binds nobody is set.
pub fn one_change() -> PolicyChange {
    PolicyChange::ModifyAssociation {
        key: key(USERS / 2),
        set: AssociationChange {
            limits: vec![(LimitKey::plain(LimitKind::MaxSubmitJobs), Some(2000))],
            ..AssociationChange::default()
        },
    }
}

fn key(number: u32) -> AssociationKey {
    AssociationKey {
        account: format!("grp{}", group_of(number)),
        user: Some(user(number)),
        queue: None,
    }
}

/// What the controller is told of the site under such rules.
pub fn site(rules: Rules, users: &[String]) -> Site<'_> {
    let order = match rules {
        Rules::Off => QueueOrder::Fcfs,
        Rules::On(order) => order,
    };
    let queue = QueueSpec {
        name: "main".to_owned(),
        order,
        ..QueueSpec::default()
    };
    let priority = PriorityConfig {
        weights: Weights {
            age: 1000,
            fair_share: 10_000,
            size: 100,
            qos: 1000,
            ..Weights::default()
        },
        ..PriorityConfig::default()
    };
    let on = rules != Rules::Off;
    Site {
        users,
        queues: vec![queue],
        priority,
        enforce: Enforce {
            associations: on,
            limits: on,
            qos: on,
            safe: on,
        },
        policy: if on { changes() } else { Vec::new() },
    }
}

/// First jobs of a node each that fill the machine, each of another user, which end one by one
/// when all have come; then `waiting` small and large ones.
pub fn jobs(waiting: u32) -> Vec<Job> {
    let mut dice = Dice(17);
    let all_there = (i64::from(waiting) + 1000) * APART;
    let filling = (0..MACHINE.nodes).map(|at| {
        let run = Span(all_there + i64::from(at) * ENDS_APART);
        job(at, Some(1), at * 150, run, Span::from_secs(86_400))
    });
    let rest = (0..waiting).map(|at| {
        let nodes = (dice.below(4) == 0).then(|| 1 + dice.below(16) as u32);
        let limit = Span::from_secs(36_000 * (1 + dice.below(11) as i64));
        let user = match at + 1 == waiting {
            true => ADMINISTRATOR,
            false => dice.below(u64::from(USERS)) as u32,
        };
        let mut job = job(MACHINE.nodes + at, nodes, user, limit, limit);
        if nodes.is_none() {
            job.processors = 1 + dice.below(32) as u32;
        }
        job
    });
    filling.chain(rest).collect()
}

fn job(at: u32, nodes: Option<u32>, user: u32, run: Span, limit: Span) -> Job {
    Job {
        qos: 0,
        id: u64::from(at) + 1,
        line: 0,
        submit: Time(i64::from(at) * APART),
        run,
        limit,
        processors: nodes.unwrap_or(1) * MACHINE.cores,
        nodes,
        cancel: None,
        recorded_wait: None,
        user,
        account: 0,
        queue: 0,
    }
}
