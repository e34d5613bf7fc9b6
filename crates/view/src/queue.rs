//! What is shown of queues.

use crate::column::{Column, Fields};
use crate::value::{FieldValue, Tone};
use cosy_model::api::QueueInfo;
use cosy_model::{AccessLevel, MiB, QueueAdmits, QueueSpec, QueueState, Span};

type Listed = Column<QueueInfo>;

/// Columns of `cstat queues`.
pub const LIST: &[Listed] = &[
    Listed::left("QUEUE", |queue| {
        let mark = if queue.default { "*" } else { "" };
        format!("{}{mark}", queue.spec.name).into()
    }),
    Listed::left("STATE", |queue| {
        FieldValue::State(queue.spec.state.word().into(), tone(queue.spec.state))
    }),
    Listed::right("PRIORITY", |queue| i64::from(queue.spec.priority).into()).leaves(0),
    Listed::left("MAX TIME", |queue| {
        let most = queue.spec.max_time.unwrap_or(Span::UNLIMITED);
        most.to_string().into()
    })
    .leaves(1),
    Listed::right("WAITING", |queue| queue.waiting.into()).leaves(6),
    Listed::right("RUNNING", |queue| queue.running.into()).leaves(5),
    Listed::right("NODES UP", |queue| FieldValue::share(queue.nodes_up, queue.nodes)).leaves(2),
    Listed::right("CORES USED", |queue| FieldValue::share(queue.cores_used, queue.cores)).leaves(4),
    Listed::left("YOU", |queue| level(queue.your_level).into()).leaves(3),
];

const fn tone(state: QueueState) -> Tone {
    match state {
        QueueState::Open => Tone::Active,
        QueueState::Drained | QueueState::Stopped => Tone::Waiting,
        QueueState::Closed => Tone::Wrong,
    }
}

/// A user's level in a queue, in one word.
pub const fn level(level: AccessLevel) -> &'static str {
    match level {
        AccessLevel::Prefer => "prefer",
        AccessLevel::Allow => "allow",
        AccessLevel::Defer => "defer",
        AccessLevel::Deny => "deny",
    }
}

fn joined(names: Option<&Vec<String>>) -> Option<String> {
    names.map(|names| names.join(","))
}

fn some(names: &Vec<String>) -> Option<&Vec<String>> {
    Some(names).filter(|names| !names.is_empty())
}

/// All fields of a queue that JSON tells.
pub fn fields(queue: &QueueInfo) -> Fields<'_> {
    let QueueInfo {
        spec,
        default,
        waiting,
        running,
        nodes,
        nodes_up,
        cores,
        cores_used,
        your_level,
        preempt,
        grace,
        predictions,
    } = queue;
    let QueueSpec {
        name,
        priority,
        nodes: own,
        max_time,
        default_time,
        max_nodes,
        max_memory,
        max_disk,
        max_jobs,
        max_jobs_per_user,
        default_memory_per_core,
        exclusive,
        // What a job gets that names none is told of the job.
        mpi: _,
        // Who else may use it is the administrator's; everyone is told his own level.
        users: _,
        groups: _,
        others: _,
        state,
        order,
        admits,
    } = spec;
    let mebibytes = |amount: &Option<MiB>| amount.map(|m| m.0).into();
    let mut all = vec![
        ("name", name.into()),
        ("default", (*default).into()),
        ("state", state.word().into()),
        ("priority", i64::from(*priority).into()),
        ("order", order.word().into()),
        ("nodes", own.as_ref().map(|n| cosy_model::fold(n)).into()),
        ("node_count", (*nodes).into()),
        ("nodes_up", (*nodes_up).into()),
        ("cores", (*cores).into()),
        ("cores_used", (*cores_used).into()),
        ("waiting", (*waiting).into()),
        ("running", (*running).into()),
        ("max_time", (*max_time).into()),
        ("default_time", (*default_time).into()),
        ("max_nodes", (*max_nodes).into()),
        ("max_memory_mib", mebibytes(max_memory)),
        ("max_disk_mib", mebibytes(max_disk)),
        ("max_jobs", (*max_jobs).into()),
        ("max_jobs_per_user", (*max_jobs_per_user).into()),
        ("default_memory_per_core_mib", mebibytes(default_memory_per_core)),
        ("exclusive", (*exclusive).into()),
        ("your_level", level(*your_level).into()),
        ("preempt_mode", preempt.map_or("off", |mode| mode.word()).into()),
        ("preempt_grace", (*grace).into()),
        ("predictions_kept", predictions.kept.into()),
        ("predictions_missed", predictions.missed.into()),
    ];
    all.extend(admitted(admits));
    all
}

/// Whom it admits.
fn admitted(admits: &QueueAdmits) -> Fields<'_> {
    vec![
        ("qos", admits.qos.clone().into()),
        ("allow_accounts", joined(admits.allow_accounts.as_ref()).into()),
        ("deny_accounts", joined(some(&admits.deny_accounts)).into()),
        ("allow_qos", joined(admits.allow_qos.as_ref()).into()),
        ("deny_qos", joined(some(&admits.deny_qos)).into()),
    ]
}
