//! `scontrol show node`. Source: scontrol(1), captures of 22.05.

use super::{Sheet, clean, mebibytes, or_null};
use crate::node::{self, HeldFor, NodeState, address, gres, host_name};
use crate::times;
use cosy_model::api::NodeInfo;
use cosy_model::node::Machine;
use cosy_model::{Amounts, MiB};
use cosy_view::node::other_resources;
use jiff::tz::TimeZone;

/// A node's state as words joined by `+`: what it does, then what is the matter with it. A
/// `*` behind the first says that it does not answer.
pub fn state(node: &NodeInfo) -> String {
    let state = NodeState::of(node, HeldFor::Nobody);
    state.complete().to_uppercase()
}

/// One node with all it has.
pub fn sheet(node: &NodeInfo, zone: &TimeZone, release: &str) -> Sheet {
    let NodeInfo {
        name,
        amounts: has,
        used,
        features,
        weight,
        queues,
        version,
        last_seen,
        machine,
        // `scontrol show topology` tells it.
        switch: _,
        // `state`, `reason` and `skew` tell these.
        state: _,
        jobs: _,
        reason: _,
        reason_by: _,
        reason_since: _,
        skew_ms: _,
        // They are told with their numbers: `gres`.
        gpu_types: _,
        // `scontrol show job -d` has them, job by job.
        cores_held: _,
        gpus_held: _,
        // `state` tells it.
        power: _,
    } = node;
    let features = features.join(",");
    let features = or_null(&features).to_owned();
    let arch = clean(&machine.arch);
    let (arch, cores) = (or_null(&arch), has.cores);
    let mut sheet = Sheet::new();
    sheet
        .line(format!(
            "NodeName={} Arch={arch} CoresPerSocket={} ",
            clean(name),
            cores_per_socket(node)
        ))
        .line(cpus(cores, used.cores, machine))
        .line(format!("AvailableFeatures={features}"))
        .line(format!("ActiveFeatures={features}"))
        .line(format!("Gres={}", gres(has).as_deref().unwrap_or("(null)")));
    let release = if version.is_empty() {
        "(null)"
    } else {
        release
    };
    host_lines(&mut sheet, node, release);
    sheet
        .line(memory(has.memory, used.memory, machine))
        .line(format!(
            "State={} ThreadsPerCore={} TmpDisk={} Weight={} Owner=N/A MCS_label=N/A",
            state(node),
            machine.threads_per_core.max(1),
            has.disk.0,
            weight
        ))
        .line(format!("Partitions={} ", queues.join(",")))
        .line(started(machine, zone))
        .line(format!("LastBusyTime={}", times::timestamp_or(*last_seen, zone, "Unknown")))
        .line(format!("CfgTRES={}", configured(has)))
        .line(format!("AllocTRES={}", allocated(used)))
        .line("CapWatts=n/a")
        .line("CurrentWatts=0 AveWatts=0")
        .line("ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s");
    sheet.maybe(reason(node, zone).map(|r| format!("Reason={r}")));
    sheet.maybe(skew(node).map(|words| format!("Comment={words}")));
    sheet
}

fn started(machine: &Machine, zone: &TimeZone) -> String {
    format!(
        "BootTime={} SlurmdStartTime={}",
        times::timestamp_or(machine.boot, zone, "None"),
        times::timestamp_or(machine.daemon_start, zone, "None")
    )
}

fn cpus(all: u32, held: u32, machine: &Machine) -> String {
    let load = machine.load_hundredths;
    let load = load.map_or_else(|| "N/A".to_owned(), node::load);
    format!("CPUAlloc={held} CPUEfctv={all} CPUTot={all} CPULoad={load}")
}

fn memory(all: MiB, held: MiB, machine: &Machine) -> String {
    let free = machine.free_memory;
    let free = free.map_or_else(|| "N/A".to_owned(), |m| m.0.to_string());
    let sockets = machine.sockets.max(1);
    format!("RealMemory={} AllocMem={} FreeMem={free} Sockets={sockets} Boards=1", all.0, held.0)
}

/// Where the node is reached, and what runs on it.
fn host_lines(sheet: &mut Sheet, node: &NodeInfo, release: &str) {
    let Machine {
        port,
        os,
        // `host_name` and `address` tell these.
        host: _,
        address: _,
        // What the processor has, and what changes all the time, stands beside the amounts.
        arch: _,
        sockets: _,
        cores_per_socket: _,
        threads_per_core: _,
        boot: _,
        daemon_start: _,
        load_hundredths: _,
        free_memory: _,
    } = &node.machine;
    sheet
        .line(format!(
            "NodeAddr={} NodeHostName={} Port={port} Version={release}",
            clean(address(node)),
            clean(host_name(node)),
        ))
        .line(format!("OS={} ", or_null(&clean(os))));
}

/// What is said of a clock that is off by a second or more: `clock 40 s behind the
/// controller's`.
fn skew(node: &NodeInfo) -> Option<String> {
    let secs = node.skew_ms? / 1000;
    let way = if secs < 0 { "behind" } else { "ahead of" };
    (secs != 0).then(|| format!("clock {} s {way} the controller's", secs.unsigned_abs()))
}

/// What the sockets have together is what the node has.
fn cores_per_socket(node: &NodeInfo) -> u32 {
    let sockets = node.machine.sockets.max(1);
    (node.amounts.cores / sockets).max(1)
}

/// Why a node is out of service, who said so and when: `bad disk [root@TIME]`.
pub fn reason(node: &NodeInfo, zone: &TimeZone) -> Option<String> {
    if node.reason.is_empty() {
        return None;
    }
    let why = clean(&node.reason);
    Some(match node.reason_since {
        Some(since) => {
            let by = clean(&node.reason_by);
            format!("{why} [{by}@{}]", times::timestamp(since, zone))
        }
        None => why,
    })
}

fn extra(amounts: &Amounts) -> String {
    let gpus = (amounts.gpus > 0).then(|| format!(",gres/gpu={}", amounts.gpus));
    let other = other_resources(amounts).map(|(name, n)| format!(",gres/{}={n}", clean(name)));
    gpus.into_iter().chain(other).collect()
}

fn configured(has: &Amounts) -> String {
    format!(
        "cpu={cores},mem={},billing={cores}{}",
        mebibytes(has.memory.0),
        extra(has),
        cores = has.cores
    )
}

fn allocated(used: &Amounts) -> String {
    if used.cores == 0 {
        return String::new();
    }
    let memory = match used.memory.0 {
        0 => String::new(),
        mib => format!(",mem={}", mebibytes(mib)),
    };
    format!("cpu={}{memory}{}", used.cores, extra(used))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn node(name: &str, amounts: Amounts, queues: &[&str]) -> NodeInfo {
        NodeInfo {
            name: name.into(),
            state: "idle".into(),
            amounts,
            features: vec!["fa".into()],
            weight: 1,
            queues: queues.iter().map(|q| (*q).to_owned()).collect(),
            version: "0.1.0".into(),
            ..NodeInfo::default()
        }
    }

    fn n5() -> NodeInfo {
        let amounts = Amounts {
            cores: 16,
            memory: MiB(16_000),
            ..Amounts::default()
        };
        node("n5", amounts, &["main"])
    }

    #[test]
    fn states() {
        let check = |word: &str, jobs: u32, cores: u32, want: &str| {
            let mut node = n5();
            (node.state, node.jobs, node.used.cores) = (word.into(), jobs, cores);
            assert_eq!(state(&node), want, "{word} {jobs} {cores}");
        };
        check("idle", 0, 0, "IDLE");
        check("mixed", 1, 3, "MIXED");
        check("busy", 1, 16, "ALLOCATED");
        check("drained", 0, 0, "IDLE+DRAIN");
        check("draining", 1, 16, "ALLOCATED+DRAIN");
        check("down", 0, 0, "DOWN");
        check("lost", 0, 0, "DOWN*");
        check("unknown", 0, 0, "UNKNOWN*");
    }

    #[test]
    fn lines() {
        let check = |change: fn(&mut NodeInfo), want: &str| {
            let mut node = n5();
            change(&mut node);
            let text = sheet(&node, &TimeZone::UTC, "22.05.11").text(false);
            assert!(text.contains(want), "{text}");
        };
        check(|_| {}, "\n   CPUAlloc=0 CPUEfctv=16 CPUTot=16 ");
        check(|_| {}, "\n   Partitions=main \n");
        check(|_| {}, "\n   CfgTRES=cpu=16,mem=16000M,billing=16\n   AllocTRES=\n");
        check(
            |n| (n.used.cores, n.used.memory) = (16, MiB(1600)),
            "\n   AllocTRES=cpu=16,mem=1600M\n",
        );
        check(|n| n.amounts.gpus = 2, "\n   Gres=gpu:2\n");
        let alike = |n: &mut NodeInfo| {
            n.amounts.gpus = 2;
            n.amounts.other.set("gpu:any", 2);
            n.amounts.other.set("fpga", 1);
        };
        check(alike, "\n   Gres=gpu:2,fpga:1\n");
        check(alike, ",gres/gpu=2,gres/fpga=1\n");
        let typed = |n: &mut NodeInfo| {
            n.amounts.gpus = 3;
            n.amounts.other.set("gpu:any", 3);
            n.amounts.other.set("gpu:a100", 2);
            n.amounts.other.set("gpu:t4", 1);
        };
        check(typed, "\n   Gres=gpu:a100:2,gpu:t4:1\n");
        check(|n| n.reason = "bad\ndisk".into(), "ExtSensorsTemp=n/s\n   Reason=bad?disk\n\n");
        check(
            |n| {
                n.reason = "bad disk".into();
                n.reason_by = "root".into();
                n.reason_since = Some(cosy_model::Time(0));
            },
            "\n   Reason=bad disk [root@1970-01-01T00:00:00]\n\n",
        );
        check(
            |n| n.skew_ms = Some(-40_900),
            "ExtSensorsTemp=n/s\n   Comment=clock 40 s behind the controller's\n\n",
        );
        check(|n| n.skew_ms = Some(999), "ExtSensorsTemp=n/s\n\n");
        check(|n| n.machine.load_hundredths = Some(283), " CPULoad=2.83\n");
    }
}
