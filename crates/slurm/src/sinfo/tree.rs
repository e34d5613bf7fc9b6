//! A node as `sinfo --json` and `--yaml` tell it. Source: a capture of 22.05.

use crate::json_yaml::{Data, map};
use crate::node::{self, BaseState, HeldFor, NodeState};
use crate::show::mebibytes;
use cosy_model::Time;
use cosy_model::api::NodeInfo;
use cosy_model::node::Machine;

/// One node, with whom it is held for, by a system of that release.
pub fn of_node(node: &NodeInfo, held_for: HeldFor, release: &str) -> Data {
    let Data::Map(mut all) = machine(node) else {
        return Data::Null;
    };
    for part in [standing(node, held_for), resources(node, release)] {
        if let Data::Map(entries) = part {
            all.extend(entries);
        }
    }
    Data::Map(all)
}

fn number(n: impl TryInto<i64>) -> Data {
    n.try_into().unwrap_or(i64::MAX).into()
}

fn seconds(at: Option<Time>) -> Data {
    at.map_or(0, Time::secs).into()
}

fn machine(node: &NodeInfo) -> Data {
    // Taken apart whole, so that whoever adds a field says here whether Slurm has a name for it.
    let NodeInfo {
        name,
        amounts: has,
        used,
        features,
        weight: _,
        last_seen,
        machine,
        // `scontrol show topology` tells it.
        switch: _,
        // `standing` tells these.
        state: _,
        reason: _,
        reason_by: _,
        reason_since: _,
        queues: _,
        // Slurm has no names for the rest here, and the release that is shown is its.
        version: _,
        jobs: _,
        skew_ms: _,
        gpu_types: _,
        cores_held: _,
        gpus_held: _,
        power: _,
    } = node;
    let Machine {
        arch,
        boot,
        load_hundredths,
        free_memory,
        // `host_name` and `address` tell these.
        host: _,
        address: _,
        // `standing` and `resources` tell these.
        port: _,
        os: _,
        daemon_start: _,
        // All that Slurm is told are cores.
        sockets: _,
        cores_per_socket: _,
        threads_per_core: _,
    } = machine;
    let features = || features.join(",").into();
    map([
        ("architecture", arch.as_str().into()),
        ("burstbuffer_network_address", "".into()),
        ("boards", 1.into()),
        ("boot_time", seconds(*boot)),
        ("comment", "".into()),
        ("cores", number(has.cores)),
        ("cpu_binding", 0.into()),
        ("cpu_load", number(load_hundredths.unwrap_or(0))),
        ("extra", "".into()),
        ("free_memory", number(free_memory.map_or(0, |mib| mib.0))),
        ("cpus", number(has.cores)),
        ("last_busy", seconds(*last_seen)),
        ("features", features()),
        ("active_features", features()),
        ("gres", node::gres(has).unwrap_or_default().into()),
        ("gres_drained", "N/A".into()),
        ("gres_used", node::gres(used).unwrap_or_default().into()),
        ("mcs_label", "".into()),
        ("name", name.as_str().into()),
        ("next_state_after_reboot", "invalid".into()),
        ("address", node::address(node).into()),
        ("hostname", node::host_name(node).into()),
    ])
}

fn standing(node: &NodeInfo, held_for: HeldFor) -> Data {
    let state = NodeState::of(node, held_for);
    let base = match state.base() {
        BaseState::Unknown => "unknown",
        BaseState::Down => "down",
        BaseState::Idle => "idle",
        BaseState::Allocated => "allocated",
        BaseState::Mixed => "mixed",
    };
    let mut flags: Vec<Data> = Vec::new();
    if state.drains() {
        flags.push("DRAIN".into());
    }
    if state.is_silent() {
        flags.push("NOT_RESPONDING".into());
    }
    flags.extend(state.power().flag().map(Data::from));
    match state.held_for() {
        HeldFor::Nobody => {}
        HeldFor::Job => flags.push("PLANNED".into()),
        HeldFor::Reservation => flags.push("RESERVED".into()),
    }
    let m = &node.machine;
    let queues = node.queues.iter().map(|q| q.as_str().into());
    map([
        ("state", base.into()),
        ("state_flags", Data::List(flags)),
        ("next_state_after_reboot_flags", Data::List(Vec::new())),
        ("operating_system", m.os.as_str().into()),
        ("owner", Data::Null),
        ("partitions", Data::List(queues.collect())),
        ("port", number(m.port)),
        ("real_memory", number(node.amounts.memory.0)),
        ("reason", node.reason.as_str().into()),
        ("reason_changed_at", seconds(node.reason_since)),
        (
            "reason_set_by_user",
            match node.reason_by.as_str() {
                "" => Data::Null,
                user => user.into(),
            },
        ),
    ])
}

fn resources(node: &NodeInfo, release: &str) -> Data {
    let (has, used) = (&node.amounts, &node.used);
    let held = match (used.cores, used.memory.0) {
        (0, 0) => String::new(),
        (cores, 0) => format!("cpu={cores}"),
        (cores, memory) => format!("cpu={cores},mem={}", mebibytes(memory)),
    };
    let all =
        format!("cpu={cores},mem={},billing={cores}", mebibytes(has.memory.0), cores = has.cores);
    map([
        ("slurmd_start_time", seconds(node.machine.daemon_start)),
        ("sockets", 1.into()),
        ("threads", 1.into()),
        ("temporary_disk", number(has.disk.0)),
        ("weight", i64::from(node.weight).into()),
        ("tres", all.into()),
        ("slurmd_version", release.into()),
        ("alloc_memory", number(used.memory.0)),
        ("alloc_cpus", number(used.cores)),
        ("idle_cpus", number(has.cores.saturating_sub(used.cores))),
        ("tres_used", held.into()),
        ("tres_weighted", Data::Real(f64::from(used.cores))),
    ])
}
