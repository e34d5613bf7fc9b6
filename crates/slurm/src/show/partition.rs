//! `scontrol show partition`: queues in Slurm's words. Source: scontrol(1), slurm.conf(5),
//! captures of 22.05.

use super::{Sheet, clean, mebibytes, or_null};
use crate::partition::{allowed_groups, oversubscribe, preempt_mode, priority_tier};
use crate::times;
use cosy_model::api::{NodeInfo, QueueInfo};
use cosy_model::{MiB, QueueAdmits, QueueSpec, QueueState, Span};
use std::fmt::Display;

/// Slurm's word for what a queue does with jobs.
pub const fn state(state: QueueState) -> &'static str {
    match state {
        QueueState::Open => "UP",
        QueueState::Drained => "DRAIN",
        QueueState::Stopped => "DOWN",
        QueueState::Closed => "INACTIVE",
    }
}

/// Memory per core of jobs that ask for none, when it is the same in all queues: Slurm says
/// that of the cluster as a whole and not of each partition.
pub fn common_memory(queues: &[QueueInfo]) -> Option<MiB> {
    let first = queues.first()?.spec.default_memory_per_core;
    let same = |q: &QueueInfo| q.spec.default_memory_per_core == first;
    first.filter(|_| queues.iter().all(same))
}

/// One queue with all it has. `common` is what [`common_memory`] gives.
pub fn sheet(queue: &QueueInfo, nodes: &[NodeInfo], common: Option<MiB>) -> Sheet {
    let QueueInfo {
        spec,
        default,
        nodes: node_count,
        cores,
        preempt,
        grace,
        // `squeue` and `sinfo` tell what there is in it now; a level is a word of Cosy's.
        waiting: _,
        running: _,
        nodes_up: _,
        cores_used: _,
        your_level: _,
        predictions: _,
    } = queue;
    let QueueSpec {
        name,
        max_time,
        default_time,
        max_nodes,
        state,
        // `priority_tier` and `oversubscribe` tell these.
        priority: _,
        exclusive: _,
        // `memory` tells these, `groups` those.
        default_memory_per_core: _,
        max_memory: _,
        groups: _,
        others: _,
        // The nodes themselves say which queues they are in.
        nodes: _,
        // Slurm has no words for these of a partition.
        max_disk: _,
        max_jobs: _,
        max_jobs_per_user: _,
        mpi: _,
        users: _,
        order: _,
        admits,
    } = spec;
    let own: Vec<&NodeInfo> = nodes.iter().filter(|n| n.queues.contains(name)).collect();
    let names: Vec<&str> = own.iter().map(|n| n.name.as_str()).collect();
    let mut sheet = Sheet::new();
    sheet
        .line(format!("PartitionName={}", clean(name)))
        .line(access(spec))
        .line(format!("AllocNodes=ALL Default={} QoS={}", yes(*default), qos(admits)))
        .line(format!(
            "DefaultTime={} DisableRootJobs=NO ExclusiveUser=NO GraceTime={} Hidden=NO",
            default_time.map_or("NONE".to_owned(), times::duration),
            grace.secs()
        ))
        .line(most(*max_nodes, *max_time))
        .line(format!("Nodes={}", or_null(&cosy_model::fold(&names))))
        .line(format!(
            "PriorityJobFactor=1 PriorityTier={} RootOnly=NO ReqResv=NO OverSubscribe={}",
            priority_tier(spec),
            oversubscribe(spec)
        ))
        .line(format!("OverTimeLimit=NONE PreemptMode={}", preempt_mode(*preempt)))
        .line(format!(
            "State={} TotalCPUs={cores} TotalNodes={node_count} SelectTypeParameters=NONE",
            self::state(*state),
        ))
        .line("JobDefaults=(null)")
        .line(memory(spec, common))
        .line(tres(&own));
    sheet
}

fn most(nodes: Option<u32>, time: Option<Span>) -> String {
    format!(
        "MaxNodes={} MaxTime={} MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        or_unlimited(nodes),
        times::duration(time.unwrap_or(Span::UNLIMITED))
    )
}

fn memory(spec: &QueueSpec, common: Option<MiB>) -> String {
    let own = spec.default_memory_per_core.filter(|m| Some(*m) != common);
    let default = match own {
        Some(per_core) => format!("DefMemPerCPU={}", per_core.0),
        None => "DefMemPerNode=UNLIMITED".to_owned(),
    };
    let most = or_unlimited(spec.max_memory.map(|m| m.0));
    format!("{default} MaxMemPerNode={most}")
}

fn tres(own: &[&NodeInfo]) -> String {
    let sum = |of: fn(&NodeInfo) -> u64| own.iter().fold(0u64, |s, n| s.saturating_add(of(n)));
    let cores = sum(|n| n.amounts.cores.into());
    let memory = mebibytes(sum(|n| n.amounts.memory.0));
    let gpus = match sum(|n| n.amounts.gpus.into()) {
        0 => String::new(),
        n => format!(",gres/gpu={n}"),
    };
    let nodes = own.len();
    format!("TRES=cpu={cores},mem={memory},node={nodes},billing={cores}{gpus}")
}

fn groups(spec: &QueueSpec) -> String {
    match allowed_groups(spec) {
        None => "ALL".to_owned(),
        Some(groups) => or_null(&clean(&groups.join(","))).to_owned(),
    }
}

fn access(spec: &QueueSpec) -> String {
    let admits = &spec.admits;
    format!(
        "AllowGroups={} {} {}",
        groups(spec),
        named("Accounts", admits.allow_accounts.as_deref(), &admits.deny_accounts),
        named("Qos", admits.allow_qos.as_deref(), &admits.deny_qos)
    )
}

/// `AllowAccounts=ALL`; what is denied stands there only where nothing is said of who is allowed.
fn named(what: &str, allow: Option<&[String]>, deny: &[String]) -> String {
    match (allow, deny) {
        (Some(names), _) => format!("Allow{what}={}", clean(&names.join(","))),
        (None, []) => format!("Allow{what}=ALL"),
        (None, names) => format!("Deny{what}={}", clean(&names.join(","))),
    }
}

fn qos(admits: &QueueAdmits) -> String {
    admits
        .qos
        .as_deref()
        .map_or_else(|| "N/A".to_owned(), clean)
}

const fn yes(flag: bool) -> &'static str {
    if flag { "YES" } else { "NO" }
}

fn or_unlimited<T: Display>(number: Option<T>) -> String {
    number.map_or_else(|| "UNLIMITED".to_owned(), |n| n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{AccessLevel, Amounts};

    fn queue() -> QueueInfo {
        QueueInfo {
            spec: QueueSpec {
                name: "short".into(),
                max_time: Some(Span::from_minutes(30)),
                default_memory_per_core: Some(MiB(100)),
                ..QueueSpec::default()
            },
            nodes: 2,
            nodes_up: 2,
            cores: 32,
            your_level: AccessLevel::Allow,
            ..QueueInfo::default()
        }
    }

    fn nodes() -> Vec<NodeInfo> {
        let node = |n: u32| {
            let amounts = Amounts {
                cores: 16,
                memory: MiB(16_000),
                ..Amounts::default()
            };
            super::super::node::tests::node(&format!("n{n}"), amounts, &["short"])
        };
        vec![node(1), node(2)]
    }

    #[test]
    fn as_captured() {
        let (queue, nodes) = (queue(), nodes());
        let common = common_memory(std::slice::from_ref(&queue));
        let want = "PartitionName=short\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n   \
             AllocNodes=ALL Default=NO QoS=N/A\n   \
             DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO\n   \
             MaxNodes=UNLIMITED MaxTime=00:30:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED\n   \
             Nodes=n[1-2]\n   \
             PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO\n   \
             OverTimeLimit=NONE PreemptMode=OFF\n   \
             State=UP TotalCPUs=32 TotalNodes=2 SelectTypeParameters=NONE\n   \
             JobDefaults=(null)\n   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n   \
             TRES=cpu=32,mem=32000M,node=2,billing=32\n\n";
        assert_eq!(sheet(&queue, &nodes, common).text(false), want);
    }

    #[test]
    fn what_differs_between_queues() {
        let check = |change: fn(&mut QueueInfo), want: &str| {
            let mut queue = queue();
            change(&mut queue);
            let text = sheet(&queue, &nodes(), None).text(true);
            assert!(text.contains(want), "{text}");
        };
        check(|_| {}, " DefMemPerCPU=100 MaxMemPerNode=UNLIMITED ");
        check(|q| q.spec.state = QueueState::Drained, " State=DRAIN ");
        check(|q| q.spec.priority = 100, " PriorityTier=100 ");
        check(
            |q| {
                q.spec.others = AccessLevel::Deny;
                q.spec.groups.insert("ops".into(), AccessLevel::Allow);
                q.spec.groups.insert("bad".into(), AccessLevel::Deny);
            },
            " AllowGroups=ops ",
        );
    }
}
