//! `scontrol show config`, `show licenses`, `ping`.
//!
//! Slurm's parameters, in Slurm's order and form, as far as they mean something here; what
//! tools read (`ClusterName`, `MaxArraySize`, `MinJobAge`, `KillWait` ...) is among them.
//! Parameters of parts that do not exist here (plugins, databases, power saving) are told
//! as Slurm tells them when they are not used. Source: scontrol(1), slurm.conf(5), captures
//! of 22.05.

use super::{clean, or_null};
use crate::partition::preempt_mode;
use crate::times;
use cosy_model::limits::{STEP_TASKS, STEPS};
use cosy_model::settings::{License, PreemptionSettings, PrioritySettings, Settings};
use cosy_model::{MiB, Span};
use jiff::tz::TimeZone;

/// What the values are made of, beside the settings.
#[derive(Clone, Copy, Debug)]
pub struct ConfigFacts<'a> {
    /// As the controller tells.
    pub settings: &'a Settings,
    /// Memory per core that all queues have in common.
    pub memory: Option<MiB>,
    /// The release whose behaviour is shown.
    pub version: &'a str,
    /// Name of the user that the controller runs as.
    pub user: &'a str,
    /// Zone of all times.
    pub zone: &'a TimeZone,
}

const NULL: &str = "(null)";
/// What each node has of its own: the controller knows nothing of it.
const OF_NODES: &str = "(noded.toml of each node)";

/// All parameters with their values.
pub fn parameters(facts: ConfigFacts<'_>) -> Vec<(&'static str, String)> {
    let settings = facts.settings;
    let host = or(&settings.host, "localhost");
    let memory = facts.memory;
    let fixed = |name, value: &str| (name, value.to_owned());
    let mut all = vec![
        fixed("AccountingStorageEnforce", "none"),
        fixed("AccountingStorageHost", &host),
        fixed("AccountingStorageParameters", NULL),
        fixed("AccountingStorageTRES", "cpu,mem,energy,node,billing,fs/disk,vmem,pages"),
        fixed("AccountingStorageType", "accounting_storage/cosy"),
        fixed("AcctGatherEnergyType", "acct_gather_energy/cosy"),
        fixed("AcctGatherProfileType", "acct_gather_profile/none"),
        fixed("AllowSpecResourcesUsage", "No"),
        fixed("AuthType", "auth/cosy"),
        fixed("BatchStartTimeout", "10 sec"),
        ("BOOT_TIME", times::timestamp(settings.started, facts.zone)),
        fixed("BurstBufferType", NULL),
        fixed("CliFilterPlugins", NULL),
        ("ClusterName", clean(&settings.cluster)),
        fixed("CompleteWait", "0 sec"),
        fixed("CoreSpecPlugin", "core_spec/none"),
        fixed("CredType", "cred/cosy"),
        match memory {
            Some(per_core) => ("DefMemPerCPU", per_core.0.to_string()),
            None => fixed("DefMemPerNode", "UNLIMITED"),
        },
        fixed("DependencyParameters", NULL),
        fixed("DisableRootJobs", "No"),
        fixed("EnforcePartLimits", "NO"),
        fixed("Epilog", OF_NODES),
        ("FirstJobId", settings.first_job.to_string()),
        fixed("GetEnvTimeout", "2 sec"),
        fixed("GresTypes", NULL),
        ("GroupUpdateTime", seconds(settings.user_ttl)),
        fixed("HealthCheckInterval", "0 sec"),
        fixed("HealthCheckProgram", OF_NODES),
        fixed("InactiveLimit", "0 sec"),
        fixed("JobAcctGatherFrequency", &crate::submit::sampling::USUAL_SECONDS.to_string()),
        fixed("JobAcctGatherType", "jobacct_gather/cosy"),
        fixed("JobCompType", "jobcomp/none"),
        fixed("JobContainerType", "job_container/none"),
        fixed("JobFileAppend", "0"),
        fixed("JobRequeue", "1"),
        fixed("JobSubmitPlugins", NULL),
        fixed("KillOnBadExit", "0"),
        ("KillWait", seconds(settings.grace)),
        fixed("LaunchParameters", NULL),
        fixed("LaunchType", "launch/slurm"),
        ("Licenses", licenses(&settings.licenses)),
        ("MaxArraySize", settings.max_array_tasks.saturating_add(1).to_string()),
        fixed("MaxJobId", "67043328"),
        fixed("MaxMemPerNode", "UNLIMITED"),
        ("MaxNodeCount", settings.nodes.to_string()),
        ("MaxStepCount", STEPS.to_string()),
        ("MaxTasksPerNode", STEP_TASKS.to_string()),
        fixed("MCSPlugin", "mcs/none"),
        fixed("MCSParameters", NULL),
        fixed("MessageTimeout", "60 sec"),
        ("MinJobAge", seconds(settings.keep_ended)),
        fixed("MpiDefault", "none"),
        fixed("MpiParams", NULL),
        ("NEXT_JOB_ID", settings.next_job.0.to_string()),
        fixed("NodeFeaturesPlugins", NULL),
        fixed("OverTimeLimit", "0 min"),
        fixed("PowerPlugin", ""),
        ("PreemptMode", preempt_mode(settings.preemption.map(|p| p.mode)).to_owned()),
        fixed("PreemptType", preempt_type(settings.preemption)),
    ];
    all.extend(priority(settings.priority.as_ref()));
    all.extend(after_priority(facts));
    all
}

/// The parameters behind those of the order, by name.
fn after_priority(facts: ConfigFacts<'_>) -> Vec<(&'static str, String)> {
    let settings = facts.settings;
    let host = or(&settings.host, "localhost");
    let fixed = |name, value: &str| (name, value.to_owned());
    vec![
        fixed("PrivateData", if settings.open { "none" } else { "jobs" }),
        fixed("ProctrackType", "proctrack/linuxproc"),
        fixed("Prolog", OF_NODES),
        fixed("PrologFlags", NULL),
        fixed("PropagateResourceLimits", "ALL"),
        fixed("PropagateResourceLimitsExcept", NULL),
        fixed("RequeueExit", NULL),
        fixed("RequeueExitHold", NULL),
        fixed("ResvOverRun", "0 min"),
        fixed("ReturnToService", "2"),
        ("SchedulerParameters", scheduler(settings)),
        fixed(
            "SchedulerType",
            if settings.backfill {
                "sched/backfill"
            } else {
                "sched/builtin"
            },
        ),
        fixed("SelectType", "select/cons_tres"),
        fixed("SelectTypeParameters", "CR_CORE_MEMORY"),
        ("SlurmUser", format!("{}({})", clean(facts.user), settings.uid)),
        ("SlurmctldHost[0]", host.clone()),
        fixed("SlurmctldParameters", NULL),
        fixed("SlurmctldPlugstack", NULL),
        fixed("SlurmctldTimeout", "60 sec"),
        fixed("SlurmdParameters", NULL),
        fixed("SlurmdPort", "0"),
        ("SlurmdTimeout", seconds(settings.node_timeout)),
        fixed("SlurmdUser", "root(0)"),
        ("SLURM_CONF", or(&settings.file, NULL)),
        fixed("SLURM_VERSION", facts.version),
        fixed("SrunPortRange", "0-0"),
        fixed("SuspendTime", "INFINITE"),
        fixed("SwitchType", "switch/none"),
        fixed("TaskEpilog", NULL),
        fixed("TaskPlugin", "task/affinity,task/cgroup"),
        fixed("TaskPluginParam", "(null type)"),
        fixed("TaskProlog", NULL),
        fixed("TmpFS", "/tmp"),
        fixed(
            "TopologyPlugin",
            match facts.settings.switches.is_empty() {
                true => "topology/none",
                false => "topology/tree",
            },
        ),
        fixed("TrackWCKey", "No"),
        fixed("TreeWidth", "16"),
        fixed("UsePam", "No"),
        fixed("WaitTime", "0 sec"),
    ]
}

/// What is about the order of jobs: of the queues that order by more than dates, where there are some.
fn priority(settings: Option<&PrioritySettings>) -> Vec<(&'static str, String)> {
    let Some(priority) = settings else {
        return vec![("PriorityType", "priority/basic".to_owned())];
    };
    let flags = [
        (priority.size_by_time, "SMALL_RELATIVE_TO_TIME"),
        (priority.classic.is_some(), "NO_FAIR_TREE"),
    ];
    let flags = flags
        .into_iter()
        .filter_map(|(is, word)| is.then_some(word));
    let tres = priority.tres.iter();
    let tres: Vec<String> = tres
        .map(|(tres, weight)| format!("{tres}={weight}"))
        .collect();
    let small = if priority.favor_small { "Yes" } else { "No" };
    vec![
        ("PriorityDecayHalfLife", times::duration(priority.half_life)),
        ("PriorityCalcPeriod", times::duration(priority.period)),
        ("PriorityFavorSmall", small.to_owned()),
        ("PriorityFlags", flags.collect::<Vec<_>>().join(",")),
        ("PriorityMaxAge", times::duration(priority.max_age)),
        ("PriorityUsageResetPeriod", priority.reset.to_uppercase()),
        ("PriorityType", "priority/multifactor".to_owned()),
        ("PriorityWeightAge", priority.age.to_string()),
        ("PriorityWeightAssoc", priority.association.to_string()),
        ("PriorityWeightFairShare", priority.fair_share.to_string()),
        ("PriorityWeightJobSize", priority.size.to_string()),
        ("PriorityWeightPartition", priority.queue.to_string()),
        ("PriorityWeightQOS", priority.qos.to_string()),
        ("PriorityWeightTRES", or(&tres.join(","), NULL)),
    ]
}

/// The text of `scontrol show config`, without the state of the controller below it.
pub fn text(facts: ConfigFacts<'_>) -> String {
    lines(facts, |_| true)
}

/// The lines of one parameter, in any case; empty when there is none of that name.
pub fn parameter(facts: ConfigFacts<'_>, wanted: &str) -> String {
    let all = parameters(facts).into_iter();
    let found = all.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    found.map(|(name, value)| line(name, &value)).collect()
}

/// The text of `sacctmgr show configuration`: what is about accounting.
pub fn accounting(facts: ConfigFacts<'_>) -> String {
    const OTHERS: [&str; 6] = [
        "AuthType",
        "MessageTimeout",
        "PrivateData",
        "SLURM_CONF",
        "SLURM_VERSION",
        "TrackWCKey",
    ];
    lines(facts, |name| name.starts_with("AccountingStorage") || OTHERS.contains(&name))
}

fn lines(facts: ConfigFacts<'_>, wanted: impl Fn(&str) -> bool) -> String {
    let now = times::timestamp(facts.settings.now, facts.zone);
    let mut text = format!("Configuration data as of {now}\n");
    for (name, value) in parameters(facts) {
        if wanted(name) {
            text.push_str(&line(name, &value));
        }
    }
    text
}

/// By what jobs preempt others; where they do by both, quality of service comes first.
const fn preempt_type(settings: Option<PreemptionSettings>) -> &'static str {
    match settings {
        Some(settings) if settings.by_qos => "preempt/qos",
        Some(settings) if settings.by_queue => "preempt/partition_prio",
        Some(_) | None => "preempt/none",
    }
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<23} = {value}\n")
}

/// A line of `scontrol ping`: of the controller that leads, or of the backup of that number among so
/// many, both from 1.
pub fn ping(host: &str, backup: Option<(usize, usize)>, up: bool) -> String {
    let word = if up { "UP" } else { "DOWN" };
    let role = match backup {
        None => "primary".to_owned(),
        Some((_, 1)) => "backup".to_owned(),
        Some((number, _)) => format!("backup{number}"),
    };
    format!("Slurmctld({role}) at {} is {word}\n", or(host, "localhost"))
}

/// One licence of `scontrol show licenses`. 22.05 has no word for use outside of the cluster
/// (`LastConsumed` and `LastDeficit` came later): it only makes fewer free.
pub fn license(license: &License, one_line: bool) -> String {
    let gap = if one_line { " " } else { "\n    " };
    format!(
        "LicenseName={}{gap}Total={} Used={} Free={} Reserved={} Remote=no\n",
        clean(&license.name),
        license.total,
        license.used,
        license.free(),
        license.reserved
    )
}

/// The parameters of the scheduler that mean something here.
fn scheduler(settings: &Settings) -> String {
    let mut all = Vec::new();
    if settings.backfill {
        all.push("bf_continue".to_owned());
    }
    if settings.batch_delay > Span::ZERO {
        all.push(format!("batch_sched_delay={}", settings.batch_delay.secs()));
    }
    or(&all.join(","), NULL)
}

fn licenses(all: &[License]) -> String {
    let each = |l: &License| format!("{}:{}", clean(&l.name), l.total);
    let all: Vec<String> = all.iter().map(each).collect();
    or_null(&all.join(",")).to_owned()
}

fn seconds(length: Span) -> String {
    if length.is_unlimited() {
        return "INFINITE".to_owned();
    }
    format!("{} sec", length.secs())
}

fn or(text: &str, other: &str) -> String {
    clean(if text.is_empty() { other } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{JobId, LicenseUse, Time};

    fn settings() -> Settings {
        Settings {
            cluster: "base".into(),
            host: "vm".into(),
            file: "/etc/cosy/cosy.toml".into(),
            now: Time::from_secs(1_795_227_632),
            next_job: JobId(106),
            nodes: 8,
            max_array_tasks: 100_000,
            grace: Span::from_secs(3),
            keep_ended: Span::from_minutes(5),
            licenses: vec![License {
                name: "lic".into(),
                total: 2,
                used: 0,
                reserved: 0,
                reserved_in_use: 0,
                told: None,
            }],
            ..Settings::default()
        }
    }

    #[test]
    fn the_scheduler() {
        let check = |backfill, delay, want: &str| {
            let settings = Settings {
                backfill,
                batch_delay: Span::from_secs(delay),
                ..settings()
            };
            assert_eq!(scheduler(&settings), want);
        };
        check(false, 0, NULL);
        check(true, 0, "bf_continue");
        check(true, 2, "bf_continue,batch_sched_delay=2");
    }

    #[test]
    fn what_tools_read() {
        let settings = settings();
        let text = text(ConfigFacts {
            settings: &settings,
            memory: Some(MiB(100)),
            version: "22.05.11",
            user: "ann",
            zone: &TimeZone::UTC,
        });
        for want in [
            "Configuration data as of 2026-11-21T02:20:32\n",
            "\nClusterName             = base\n",
            "\nMaxArraySize            = 100001\n",
            "\nMinJobAge               = 300 sec\n",
            "\nKillWait                = 3 sec\n",
            "\nLicenses                = lic:2\n",
            "\nDefMemPerCPU            = 100\n",
            "\nNEXT_JOB_ID             = 106\n",
            "\nSlurmUser               = ann(0)\n",
            "\nSLURM_VERSION           = 22.05.11\n",
            "\nSLURM_CONF              = /etc/cosy/cosy.toml\n",
            "\nAccountingStorageType   = accounting_storage/cosy\n",
            "\nMaxStepCount            = 10000000\n",
            "\nMaxTasksPerNode         = 1000000\n",
            "\nProlog                  = (noded.toml of each node)\n",
            "\nPropagateResourceLimitsExcept = (null)\n",
        ] {
            assert!(text.contains(want), "{want} in {text}");
        }
    }

    #[test]
    fn licences_and_ping() {
        assert_eq!(
            license(&settings().licenses[0], false),
            "LicenseName=lic\n    Total=2 Used=0 Free=2 Reserved=0 Remote=no\n"
        );
        let outside = License {
            used: 1,
            told: Some(LicenseUse {
                in_use: 2,
                outside: 1,
                at: Time(0),
                by: "root".into(),
            }),
            ..settings().licenses[0].clone()
        };
        let want = "LicenseName=lic Total=2 Used=1 Free=0 Reserved=0 Remote=no\n";
        assert_eq!(license(&outside, true), want);
        assert_eq!(ping("vm", None, true), "Slurmctld(primary) at vm is UP\n");
        assert_eq!(ping("", None, false), "Slurmctld(primary) at localhost is DOWN\n");
        assert_eq!(ping("b", Some((1, 1)), true), "Slurmctld(backup) at b is UP\n");
        assert_eq!(ping("c", Some((2, 2)), false), "Slurmctld(backup2) at c is DOWN\n");
    }
}
