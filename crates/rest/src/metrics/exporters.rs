//! The names of the exporters that Slurm had before its own metrics, and of the dashboards made for
//! them. Names that Slurm has too are told once, and agree.

use super::figures::{Counts, Figures};
use super::text::Text;
use cosy_model::JobState as S;
use cosy_model::api::{NodeInfo, WHOLE_TURN};
use cosy_model::policy::Shares;
use cosy_slurm::node::{BaseState, HeldFor, NodeState};
use std::collections::BTreeMap;

/// Cores or GPUs: held, free, of nodes that take no jobs, in all.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    alloc: u64,
    idle: u64,
    other: u64,
    total: u64,
}

impl Shared {
    fn add(&mut self, node: &NodeInfo, all: u32, used: u32) {
        let state = NodeState::of(node, HeldFor::Nobody);
        let takes =
            !state.drains() && !matches!(state.base(), BaseState::Down | BaseState::Unknown);
        let free = u64::from(all.saturating_sub(used));
        self.alloc += u64::from(used);
        self.total += u64::from(all);
        match takes {
            true => self.idle += free,
            false => self.other += free,
        }
    }
}

/// Everything without users.
pub fn all(text: &mut Text, figures: &Figures) {
    amounts(text, figures);
    nodes(text, figures);
    queue(text, figures);
    partitions(text, figures);
    scheduler(text, figures);
}

fn amounts(text: &mut Text, figures: &Figures) {
    let (mut cores, mut gpus) = (Shared::default(), Shared::default());
    for node in &figures.nodes {
        cores.add(node, node.amounts.cores, node.used.cores);
        gpus.add(node, node.amounts.gpus, node.used.gpus);
    }
    for (what, name, shared) in [("Cores", "cpus", cores), ("GPUs", "gpus", gpus)] {
        let mut tell = |word: &str, help: &str, value: u64| {
            text.gauge(&format!("slurm_{name}_{word}"), &format!("{what} {help}"), value);
        };
        tell("alloc", "that jobs hold.", shared.alloc);
        tell("idle", "that nobody holds, of nodes that take jobs.", shared.idle);
        tell("other", "that nobody holds, of nodes that take no jobs.", shared.other);
        tell("total", "in all.", shared.total);
    }
    let utilization = gpus.alloc as f64 / (gpus.total.max(1)) as f64;
    text.gauge("slurm_gpus_utilization", "Part of all GPUs that jobs hold.", utilization);
}

fn nodes(text: &mut Text, figures: &Figures) {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for node in &figures.nodes {
        let state = NodeState::of(node, HeldFor::Nobody);
        let word = match (state.drains(), state.base()) {
            (true, _) => "drain",
            (false, BaseState::Down) => "down",
            (false, BaseState::Unknown) => "unknown",
            (false, BaseState::Idle) => "idle",
            (false, BaseState::Allocated) => "alloc",
            (false, BaseState::Mixed) => "mix",
        };
        *counts.entry(word).or_default() += 1;
    }
    for (word, help) in [
        ("alloc", "Nodes all of whose cores are held."),
        ("comp", "Nodes that are being cleaned: not counted here."),
        ("down", "Nodes that are lost or taken out at once."),
        ("drain", "Nodes that start nothing new."),
        ("err", "Nodes with errors: not told apart here."),
        ("fail", "Nodes that are failing: not told apart here."),
        ("idle", "Nodes of which no core is held."),
        ("maint", "Nodes in maintenance: told as reserved here."),
        ("mix", "Nodes some of whose cores are held."),
        ("resv", "Idle nodes that a reservation has."),
        ("reboot", "Nodes that are booting: there are none here."),
    ] {
        text.gauge(&format!("slurm_nodes_{word}"), help, counts.get(word).copied().unwrap_or(0));
    }
}

fn queue(text: &mut Text, figures: &Figures) {
    let jobs = &figures.jobs.all;
    let waits_for_others = ["dependency", "dependency_never"];
    let dependent = figures
        .jobs
        .reasons
        .iter()
        .filter(|(reason, _)| waits_for_others.contains(&reason.as_str()));
    let dependent: u64 = dependent.map(|(_, counts)| counts.all()).sum();
    text.gauge(
        "slurm_queue_pending",
        "Jobs that wait, but for other jobs.",
        jobs.of(&[S::Waiting]).saturating_sub(dependent),
    );
    text.gauge("slurm_queue_pending_dependency", "Jobs that wait for other jobs.", dependent);
    for (word, help, states) in [
        ("running", "Jobs that run.", &[S::Running][..]),
        ("suspended", "Jobs that are stopped.", &[S::Suspended]),
        ("cancelled", "Jobs that somebody ended moments ago.", &[S::Cancelled]),
        ("completing", "Jobs whose nodes are being cleaned.", &[S::Completing]),
        ("completed", "Jobs that ended with exit code 0 moments ago.", &[S::Completed]),
        ("configuring", "Jobs whose nodes get ready.", &[S::Starting]),
        ("failed", "Jobs that failed moments ago.", &[S::Failed, S::LaunchFailed]),
        ("timeout", "Jobs that ended at their time limit moments ago.", &[S::TimedOut]),
        ("preempted", "Jobs that gave way moments ago.", &[S::Preempted]),
        ("node_fail", "Jobs under which a node was lost moments ago.", &[S::NodeFailed]),
    ] {
        text.gauge(&format!("slurm_queue_{word}"), help, jobs.of(states));
    }
}

fn partitions(text: &mut Text, figures: &Figures) {
    let names = figures.queues.iter().map(|queue| queue.spec.name.as_str());
    let mut cores: BTreeMap<&str, Shared> = names.map(|name| (name, Shared::default())).collect();
    for node in &figures.nodes {
        for queue in &node.queues {
            if let Some(shared) = cores.get_mut(queue.as_str()) {
                shared.add(node, node.amounts.cores, node.used.cores);
            }
        }
    }
    let mut tell = |word: &str, help: &str, value: fn(&Shared) -> u64| {
        let all = cores.iter().map(|(name, shared)| (name, value(shared)));
        text.gauges(&format!("slurm_partition_cpus_{word}"), help, "partition", all);
    };
    tell("allocated", "Cores of the partition's nodes that jobs hold.", |s| s.alloc);
    tell("idle", "Cores of the partition's nodes that nobody holds.", |s| s.idle);
    tell("other", "Cores of the partition's nodes that take no jobs.", |s| s.other);
    tell("total", "Cores of the partition's nodes.", |s| s.total);
    let pending = figures.queues.iter().map(|queue| {
        let name = queue.spec.name.as_str();
        (
            name,
            figures
                .jobs
                .queues
                .get(name)
                .map_or(0, |counts| counts.of(&[S::Waiting])),
        )
    });
    text.gauges("slurm_partition_jobs_pending", "Jobs that wait.", "partition", pending);
}

fn scheduler(text: &mut Text, figures: &Figures) {
    let turns = figures.meter.iter().find(|row| row.kind == WHOLE_TURN);
    let mean = turns.map_or(0, |row| row.turns_us / row.count.max(1));
    text.gauge("slurm_scheduler_threads", "Threads that answer: one.", 1u32);
    text.gauge(
        "slurm_scheduler_mean_cycle",
        "The mean turn of the controller, in microseconds.",
        mean,
    );
    for name in [
        "queue_size",
        "dbd_queue_size",
        "last_cycle",
        "cycle_per_minute",
        "backfill_last_cycle",
        "backfill_mean_cycle",
        "backfill_depth_mean",
        "backfilled_jobs_since_start_total",
        "backfilled_jobs_since_cycle_total",
        "backfilled_heterogeneous_total",
    ] {
        text.gauge(&format!("slurm_scheduler_{name}"), "Cosy counts nothing of the kind.", 0u32);
    }
}

/// Series of users and accounts.
pub fn users_and_accounts(text: &mut Text, figures: &Figures) {
    type Of = (&'static str, &'static str, fn(&Counts) -> u64);
    let words: [Of; 5] = [
        ("jobs_pending", "Jobs that wait.", |c| c.of(&[S::Waiting])),
        ("jobs_running", "Jobs that run.", |c| c.of(&[S::Running])),
        ("jobs_suspended", "Jobs that are stopped.", |c| c.of(&[S::Suspended])),
        ("cpus_running", "Cores that jobs hold.", |c| c.cores),
        ("cpus_pending", "Cores that waiting jobs ask for.", |c| c.waiting_cores),
    ];
    for (word, help, count) in words {
        let accounts = figures
            .jobs
            .accounts
            .iter()
            .map(|(name, counts)| (name, count(counts)));
        text.gauges(&format!("slurm_account_{word}"), help, "account", accounts);
        let users = figures
            .jobs
            .users
            .iter()
            .map(|(name, counts)| (name, count(counts)));
        text.gauges(&format!("slurm_user_{word}"), help, "user", users);
    }
    let accounts = figures
        .associations
        .iter()
        .filter(|row| row.key.user.is_none());
    let shares = accounts.filter_map(|row| {
        let usage = row.usage.as_ref()?;
        let level = match row.own.shares {
            Shares::Count(_) => usage.level_fs_ppb,
            Shares::Parent => return None,
        };
        (level != u64::MAX).then(|| (row.key.account.as_str(), level as f64 / 1e9))
    });
    text.gauges(
        "slurm_account_fairshare",
        "Shares of the account over its use, among its siblings.",
        "account",
        shares,
    );
}

/// Series of each node.
pub fn each_node(text: &mut Text, figures: &Figures) {
    type Of = (&'static str, &'static str, fn(&NodeInfo) -> u64);
    let words: [Of; 6] = [
        ("cpu_alloc", "Cores of the node that jobs hold.", |n| n.used.cores.into()),
        ("cpu_idle", "Cores of the node that nobody holds.", |n| free(n, true)),
        ("cpu_other", "Cores of the node that take no jobs.", |n| free(n, false)),
        ("cpu_total", "Cores of the node.", |n| n.amounts.cores.into()),
        ("mem_alloc", "Memory of the node that jobs hold, in MiB.", |n| n.used.memory.0),
        ("mem_total", "Memory of the node, in MiB.", |n| n.amounts.memory.0),
    ];
    let states: Vec<String> = figures
        .nodes
        .iter()
        .map(|node| NodeState::of(node, HeldFor::Nobody).long())
        .collect();
    for (word, help, value) in words {
        text.family(&format!("slurm_node_{word}"), help, "gauge", |samples| {
            for (node, state) in figures.nodes.iter().zip(&states) {
                samples.add(&[("node", &node.name), ("status", state)], value(node));
            }
        });
    }
}

fn free(node: &NodeInfo, takes: bool) -> u64 {
    let mut shared = Shared::default();
    shared.add(node, node.amounts.cores, node.used.cores);
    if takes { shared.idle } else { shared.other }
}
