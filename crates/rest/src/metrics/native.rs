//! The names of Slurm's own metrics (25.11 and later): jobs, users and accounts, nodes, partitions, the
//! scheduler. What there is not here is told as 0, so that every name is there. Source: the metrics of
//! slurmctld 25.11.

use super::figures::{Counts, Figures};
use super::text::Text;
use cosy_model::JobState as S;
use cosy_model::api::{NodeInfo, WHOLE_TURN};
use cosy_slurm::node::{BaseState, HeldFor, NodeState, Power};
use std::collections::BTreeMap;

type OfJobs = (&'static str, &'static str, fn(&Counts) -> u64);

/// What is counted of jobs; `slurm_`, `slurm_partition_` and so on come before it.
const JOBS: &[OfJobs] = &[
    ("jobs", "Jobs that are known: those that wait, run, or ended moments ago.", Counts::all),
    ("jobs_bootfail", "Jobs whose nodes could not be booted: nodes are not booted here.", |_| 0),
    ("jobs_cancelled", "Jobs that somebody ended.", |c| c.of(&[S::Cancelled])),
    ("jobs_completed", "Jobs that ended with exit code 0.", |c| c.of(&[S::Completed])),
    ("jobs_completing", "Jobs that are over and whose nodes are being cleaned.", |c| {
        c.of(&[S::Completing])
    }),
    ("jobs_configuring", "Jobs whose nodes get ready.", |c| c.of(&[S::Starting])),
    ("jobs_cpus_alloc", "Cores that jobs hold.", |c| c.cores),
    ("jobs_deadline", "Jobs that could not end before their deadline.", |c| c.of(&[S::Deadline])),
    ("jobs_expediting", "Jobs that are requeued before all others: there are none here.", |_| 0),
    ("jobs_failed", "Jobs that ended with another exit code, or could not be launched.", |c| {
        c.of(&[S::Failed, S::LaunchFailed])
    }),
    ("jobs_fed_requeued", "Jobs requeued by a federation: there are none here.", |_| 0),
    ("jobs_finished", "Jobs that are over, however.", Counts::over),
    ("jobs_gpus_alloc", "GPUs that jobs hold.", |c| c.gpus),
    ("jobs_hold", "Waiting jobs that are held.", |c| c.held),
    ("jobs_memory_alloc", "Memory that jobs hold, in bytes.", |c| {
        c.memory.0.saturating_mul(1 << 20)
    }),
    ("jobs_node_failed", "Jobs under which a node was lost.", |c| c.of(&[S::NodeFailed])),
    ("jobs_nodes_alloc", "Nodes that jobs hold, once for each job.", |c| c.nodes),
    ("jobs_outofmemory", "Jobs that used more memory than they had.", |c| c.of(&[S::OutOfMemory])),
    ("jobs_pending", "Jobs that wait, held ones too.", |c| c.of(&[S::Waiting])),
    (
        "jobs_powerup_node",
        "Jobs that wait for nodes to be switched on: there are none here.",
        |_| 0,
    ),
    ("jobs_preempted", "Jobs that gave way to more important ones.", |c| c.of(&[S::Preempted])),
    ("jobs_requeued", "Jobs about to wait again: they wait here at once.", |_| 0),
    ("jobs_resizing", "Jobs whose allocation changes: it does at once here.", |_| 0),
    ("jobs_revoked", "Jobs that another cluster runs: there are none here.", |_| 0),
    ("jobs_running", "Jobs that run.", |c| c.of(&[S::Running])),
    ("jobs_signaling", "Jobs that are being sent a signal: not counted here.", |_| 0),
    ("jobs_stageout", "Jobs whose files are copied out: there are none here.", |_| 0),
    ("jobs_started", "Jobs that have begun and are not over.", |c| {
        c.of(&[S::Starting, S::Running, S::Suspended, S::Completing])
    }),
    ("jobs_suspended", "Jobs that are stopped.", |c| c.of(&[S::Suspended])),
    ("jobs_timeout", "Jobs that ended at their time limit.", |c| c.of(&[S::TimedOut])),
];

/// What is counted of the jobs of a partition beside those.
const OF_PARTITION: &[OfJobs] = &[
    ("jobs_max_job_nodes", "Most nodes that a waiting job may get.", |c| c.largest[0]),
    ("jobs_max_job_nodes_nohold", "Most nodes that a waiting job may get that is not held.", |c| {
        c.largest_free[0]
    }),
    ("jobs_min_job_nodes", "Most nodes that a waiting job needs.", |c| c.largest[1]),
    ("jobs_min_job_nodes_nohold", "Most nodes that a waiting job needs that is not held.", |c| {
        c.largest_free[1]
    }),
    (
        "jobs_wait_part_node_limit",
        "Jobs that wait because of the partition's limit of nodes.",
        |c| c.node_limit,
    ),
];

/// What `/metrics/jobs` tells.
pub fn jobs(text: &mut Text, figures: &Figures) {
    for (name, help, count) in JOBS {
        text.gauge(&format!("slurm_{name}"), help, count(&figures.jobs.all));
    }
}

/// What `/metrics/jobs-users-accts` tells.
pub fn users_and_accounts(text: &mut Text, figures: &Figures) {
    for (name, help, count) in JOBS {
        text.family(&format!("slurm_user_{name}"), help, "gauge", |samples| {
            for (user, counts) in &figures.jobs.users {
                // The label of Slurm's own metrics, and that of exporters before them.
                samples.add(&[("username", user), ("user", user)], count(counts));
            }
        });
    }
    for (name, help, count) in JOBS {
        let all = figures
            .jobs
            .accounts
            .iter()
            .map(|(account, counts)| (account, count(counts)));
        text.gauges(&format!("slurm_account_{name}"), help, "account", all);
    }
}

/// Nodes, counted by what they do.
#[derive(Clone, Copy, Debug, Default)]
struct NodeCounts {
    nodes: u64,
    alloc: u64,
    idle: u64,
    mixed: u64,
    down: u64,
    unknown: u64,
    drain: u64,
    drained: u64,
    draining: u64,
    silent: u64,
    reserved: u64,
    powered_down: u64,
    power_down: u64,
    powering_up: u64,
    powering_down: u64,
    cores: u64,
    cores_used: u64,
    memory: u64,
    memory_used: u64,
    memory_free: u64,
}

impl NodeCounts {
    fn of<'n>(nodes: impl Iterator<Item = &'n NodeInfo>, held: &BTreeMap<String, HeldFor>) -> Self {
        let mut all = Self::default();
        for node in nodes {
            all.add(node, held.get(&node.name).copied().unwrap_or_default());
        }
        all
    }

    fn add(&mut self, node: &NodeInfo, held: HeldFor) {
        let state = NodeState::of(node, held);
        self.nodes += 1;
        match state.base() {
            BaseState::Allocated => self.alloc += 1,
            BaseState::Idle => self.idle += 1,
            BaseState::Mixed => self.mixed += 1,
            BaseState::Down => self.down += 1,
            BaseState::Unknown => self.unknown += 1,
        }
        if state.drains() {
            self.drain += 1;
            match node.jobs {
                0 => self.drained += 1,
                _ => self.draining += 1,
            }
        }
        match state.power() {
            Power::On => {}
            Power::Down => self.powered_down += 1,
            Power::DownPending => self.power_down += 1,
            Power::PoweringUp => self.powering_up += 1,
            Power::PoweringDown => self.powering_down += 1,
        }
        self.silent += u64::from(state.is_silent());
        self.reserved += u64::from(state.held_for() == HeldFor::Reservation);
        self.cores += u64::from(node.amounts.cores);
        self.cores_used += u64::from(node.used.cores);
        self.memory += node.amounts.memory.0;
        self.memory_used += node.used.memory.0;
        self.memory_free += node.machine.free_memory.map_or(0, |memory| memory.0);
    }
}

type OfNodes = (&'static str, &'static str, fn(&NodeCounts) -> u64);

/// What is counted of nodes, by the name in `/metrics/nodes`.
const NODES: &[OfNodes] = &[
    ("nodes", "Nodes.", |n| n.nodes),
    ("nodes_alloc", "Nodes all of whose cores are held.", |n| n.alloc),
    ("nodes_blocked", "Nodes that another one blocks: there are none here.", |_| 0),
    ("nodes_cloud", "Nodes of a cloud: there are none here.", |_| 0),
    ("nodes_completing", "Nodes that are being cleaned: not counted here.", |_| 0),
    ("nodes_down", "Nodes that are lost or taken out at once.", |n| n.down),
    ("nodes_drain", "Nodes that start nothing new.", |n| n.drain),
    ("nodes_drained", "Nodes that start nothing new and have no jobs.", |n| n.drained),
    ("nodes_draining", "Nodes that start nothing new and have jobs still.", |n| n.draining),
    ("nodes_dyn_future", "Dynamic nodes that are still to come: there are none here.", |_| 0),
    ("nodes_dyn_normal", "Dynamic nodes: there are none here.", |_| 0),
    ("nodes_external", "External nodes: there are none here.", |_| 0),
    ("nodes_fail", "Nodes that are failing: not told apart here.", |_| 0),
    ("nodes_future", "Nodes that are still to come: there are none here.", |_| 0),
    ("nodes_idle", "Nodes of which no core is held.", |n| n.idle),
    (
        "nodes_invalid_reg",
        "Nodes that are not what was configured: they are told as down here.",
        |_| 0,
    ),
    ("nodes_maint", "Nodes in maintenance: told as reserved here.", |_| 0),
    ("nodes_mixed", "Nodes some of whose cores are held.", |n| n.mixed),
    ("nodes_noresp", "Nodes that do not answer.", |n| n.silent),
    ("nodes_planned", "Nodes kept for a waiting job: not counted here.", |_| 0),
    ("nodes_power_down", "Nodes that are switched off when their jobs have ended.", |n| {
        n.power_down
    }),
    ("nodes_power_up", "Nodes to be switched on: they are so at once here.", |_| 0),
    ("nodes_powered_down", "Nodes that are switched off.", |n| n.powered_down),
    ("nodes_powering_up", "Nodes that are being switched on.", |n| n.powering_up),
    ("nodes_reboot_issued", "Nodes that are booting: there are none here.", |_| 0),
    ("nodes_reboot_req", "Nodes that are to boot: there are none here.", |_| 0),
    ("nodes_resv", "Idle nodes that a reservation has.", |n| n.reserved),
    ("nodes_unknown", "Nodes that were not heard of yet.", |n| n.unknown),
];

/// Names that partitions have otherwise, or beside them.
const NODES_OF_PARTITION: &[OfNodes] = &[
    ("nodes_cg", "Nodes that are being cleaned: not counted here.", |_| 0),
    ("nodes_cpus_alloc", "Cores of nodes that jobs hold.", |n| n.cores_used),
    ("nodes_cpus_efctv", "Cores of nodes that jobs can have.", |n| n.cores),
    ("nodes_cpus_idle", "Cores of nodes that nobody holds.", |n| {
        n.cores.saturating_sub(n.cores_used)
    }),
    ("nodes_mem_alloc", "Memory of nodes that jobs hold, in bytes.", |n| bytes(n.memory_used)),
    ("nodes_mem_avail", "Memory of nodes that jobs can have, in bytes.", |n| bytes(n.memory)),
    ("nodes_mem_free", "Memory of nodes that no process uses, in bytes.", |n| bytes(n.memory_free)),
    ("nodes_mem_tot", "Memory of nodes, in bytes.", |n| bytes(n.memory)),
    ("nodes_no_resp", "Nodes that do not answer.", |n| n.silent),
    ("nodes_powering_down", "Nodes that are being switched off.", |n| n.powering_down),
    ("nodes_reboot_requested", "Nodes that are to boot: there are none here.", |_| 0),
];

/// Of these partitions have another name.
const NOT_OF_PARTITION: [&str; 3] = ["nodes_completing", "nodes_noresp", "nodes_reboot_req"];

const fn bytes(mebibytes: u64) -> u64 {
    mebibytes.saturating_mul(1 << 20)
}

type OfNode = (&'static str, &'static str, fn(&NodeInfo) -> u64);

/// What is told of each node.
const NODE: &[OfNode] = &[
    ("cpus", "Cores of the node.", |n| n.amounts.cores.into()),
    ("cpus_alloc", "Cores of the node that jobs hold.", |n| n.used.cores.into()),
    ("cpus_effective", "Cores of the node that jobs can have.", |n| n.amounts.cores.into()),
    ("cpus_idle", "Cores of the node that nobody holds.", |n| {
        n.amounts.cores.saturating_sub(n.used.cores).into()
    }),
    ("gpus", "GPUs of the node.", |n| n.amounts.gpus.into()),
    ("gpus_alloc", "GPUs of the node that jobs hold.", |n| n.used.gpus.into()),
    ("memory_alloc_bytes", "Memory of the node that jobs hold.", |n| bytes(n.used.memory.0)),
    ("memory_bytes", "Memory of the node.", |n| bytes(n.amounts.memory.0)),
    ("memory_effective_bytes", "Memory of the node that jobs can have.", |n| {
        bytes(n.amounts.memory.0)
    }),
    ("memory_free_bytes", "Memory of the node that no process uses.", |n| {
        bytes(n.machine.free_memory.map_or(0, |m| m.0))
    }),
];

/// For whom nodes are held.
fn held(figures: &Figures) -> BTreeMap<String, HeldFor> {
    let active = |r: &&cosy_model::reservation::ReservationInfo| {
        r.state == cosy_model::reservation::ReservationState::Active
    };
    let nodes = figures.reservations.iter().filter(active);
    let names = nodes.flat_map(|r| cosy_model::expand(&r.nodes).unwrap_or_default());
    names.map(|name| (name, HeldFor::Reservation)).collect()
}

/// The sums of `/metrics/nodes`.
pub fn nodes(text: &mut Text, figures: &Figures) {
    let counts = NodeCounts::of(figures.nodes.iter(), &held(figures));
    for (name, help, count) in NODES {
        text.gauge(&format!("slurm_{name}"), help, count(&counts));
    }
}

/// The series of each node of `/metrics/nodes`.
pub fn each_node(text: &mut Text, figures: &Figures) {
    for (name, help, value) in NODE {
        let all = figures.nodes.iter().map(|node| (&node.name, value(node)));
        text.gauges(&format!("slurm_node_{name}"), help, "node", all);
    }
}

/// What `/metrics/partitions` tells.
pub fn partitions(text: &mut Text, figures: &Figures) {
    text.gauge("slurm_partitions", "Partitions: Cosy's queues.", figures.queues.len());
    let none = Counts::default();
    let names = || figures.queues.iter().map(|queue| queue.spec.name.as_str());
    for (name, help, count) in JOBS.iter().chain(OF_PARTITION) {
        if *name == "jobs_nodes_alloc" {
            continue;
        }
        let all =
            names().map(|queue| (queue, count(figures.jobs.queues.get(queue).unwrap_or(&none))));
        text.gauges(&format!("slurm_partition_{name}"), help, "partition", all);
    }
    let held = held(figures);
    let mut counts: BTreeMap<&str, NodeCounts> =
        names().map(|name| (name, NodeCounts::default())).collect();
    let mut gpus: BTreeMap<&str, u64> = BTreeMap::new();
    for node in &figures.nodes {
        for queue in &node.queues {
            if let Some(counts) = counts.get_mut(queue.as_str()) {
                counts.add(node, held.get(&node.name).copied().unwrap_or_default());
                *gpus.entry(queue).or_default() += u64::from(node.amounts.gpus);
            }
        }
    }
    let own = NODES.iter().filter(|of| !NOT_OF_PARTITION.contains(&of.0));
    for (name, help, count) in own.chain(NODES_OF_PARTITION) {
        let all = counts.iter().map(|(queue, counts)| (queue, count(counts)));
        text.gauges(&format!("slurm_partition_{name}"), help, "partition", all);
    }
    let cores = counts.iter().map(|(queue, counts)| (queue, counts.cores));
    text.gauges("slurm_partition_cpus", "Cores of the partition's nodes.", "partition", cores);
    let gpus = names().map(|queue| (queue, gpus.get(queue).copied().unwrap_or(0)));
    text.gauges("slurm_partition_gpus", "GPUs of the partition's nodes.", "partition", gpus);
}

/// What Slurm counts of its scheduler and Cosy has not: told as 0.
const NOT_COUNTED: &[&str] = &[
    "agent_cnt",
    "agent_queue_size",
    "agent_thread_cnt",
    "backfilled_het_jobs",
    "backfilled_jobs",
    "bf_active",
    "bf_cycle_cnt",
    "bf_cycle_last",
    "bf_cycle_max",
    "bf_cycle_tot",
    "bf_depth_mean",
    "bf_depth_tot",
    "bf_depth_try_tot",
    "bf_exit_end",
    "bf_exit_max_job_start",
    "bf_exit_max_job_test",
    "bf_exit_state_changed",
    "bf_exit_table_limit",
    "bf_exit_timeout",
    "bf_last_depth",
    "bf_last_depth_try",
    "bf_mean_cycle",
    "bf_mean_table_sz",
    "bf_queue_len_mean",
    "bf_queue_len_tot",
    "bf_table_size",
    "bf_table_size_tot",
    "bf_try_depth_mean",
    "bf_when_last_cycle",
    "last_backfilled_jobs",
    "last_proc_req_start",
    "sched_exit_end",
    "sched_exit_lic",
    "sched_exit_max_depth",
    "sched_exit_max_job_start",
    "sched_exit_rpc_cnt",
    "sched_exit_timeout",
    "sched_mean_depth_cycle",
    "schedule_cycle_depth",
    "schedule_cycle_last",
    "sdiag_latency",
    "slurmdbd_queue_size",
];

/// `/metrics/scheduler`. A cycle is a turn of the controller; times are in microseconds.
pub fn scheduler(text: &mut Text, figures: &Figures) {
    let turns = figures.meter.iter().find(|row| row.kind == WHOLE_TURN);
    let turn = |of: fn(&cosy_model::api::MeterRow) -> u64| turns.map_or(0, of);
    let counts = &figures.jobs.all;
    let waiting = counts.of(&[S::Waiting]);
    let now = figures.now.secs();
    text.gauge(
        "slurm_schedule_cycle_cnt",
        "Turns of the controller since it was started.",
        turn(|r| r.count),
    );
    text.gauge(
        "slurm_schedule_cycle_tot",
        "Time in turns since the controller was started, in microseconds.",
        turn(|r| r.turns_us),
    );
    text.gauge(
        "slurm_schedule_cycle_max",
        "The longest turn since the controller was started, in microseconds.",
        turn(|r| r.longest_turn_us),
    );
    text.gauge(
        "slurm_sched_mean_cycle",
        "The mean turn since the controller was started, in microseconds.",
        turn(|r| r.turns_us / r.count.max(1)),
    );
    text.gauge("slurm_schedule_queue_len", "Jobs that wait.", waiting);
    text.gauge("slurm_bf_queue_len", "Jobs that wait.", waiting);
    text.gauge("slurm_server_thread_cnt", "Threads that answer: one.", 1u32);
    text.gauge("slurm_sched_stats_timestamp", "When this was told, in seconds since 1970.", now);
    text.gauge("slurm_sdiag_job_states_ts", "When jobs were counted, in seconds since 1970.", now);
    text.gauge("slurm_sdiag_jobs_pending", "Jobs that wait.", waiting);
    text.gauge("slurm_sdiag_jobs_running", "Jobs that run.", counts.of(&[S::Running]));
    text.gauge(
        "slurm_sdiag_jobs_canceled",
        "Jobs that somebody ended moments ago.",
        counts.of(&[S::Cancelled]),
    );
    text.gauge(
        "slurm_sdiag_jobs_completed",
        "Jobs that ended with exit code 0 moments ago.",
        counts.of(&[S::Completed]),
    );
    text.gauge(
        "slurm_sdiag_jobs_failed",
        "Jobs that failed moments ago.",
        counts.of(&[S::Failed, S::LaunchFailed]),
    );
    let submits = figures
        .meter
        .iter()
        .find(|row| row.kind == "submit")
        .map_or(0, |row| row.count);
    text.gauge(
        "slurm_sdiag_jobs_submitted",
        "Submissions since the controller was started.",
        submits,
    );
    text.gauge(
        "slurm_sdiag_jobs_started",
        "Jobs that have begun, of those that are known.",
        counts.all().saturating_sub(waiting),
    );
    for name in NOT_COUNTED {
        text.gauge(&format!("slurm_{name}"), "Cosy counts nothing of the kind.", 0u32);
    }
}
