//! How the cluster is set up, as everyone is told.

use crate::config::{ClusterConfig, PreemptBy, Visibility};
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::planning::Planning;
use crate::planning::pools::procedures::licenses_at;
use crate::queues::Queues;
use crate::queues::access::procedures::is_administrator;
use crate::reservations::Reservations;
use crate::reservations::inside::kept::license_kept;
use crate::rooms::Rooms;
use cosy_model::api::Reply;
use cosy_model::{
    JobId, License, PreemptionSettings, PrioritySettings, QueueOrder, Settings, Time,
};
use cosy_policy::reset::ResetPeriod;
use cosy_policy::weights::SizeFactor;

fn licenses_told(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
) -> Vec<License> {
    let told = |(name, _): (&str, u32)| {
        let (reserved, reserved_in_use) = license_kept(planning, reservations, name, None);
        License {
            name: name.to_owned(),
            total: licenses_at(config, now, name),
            used: jobs.licenses().used(name),
            reserved,
            reserved_in_use,
            told: jobs.licenses().told(name).cloned(),
        }
    };
    config.licenses.iter().map(told).collect()
}

/// How queues order that do so by more than dates.
fn priority_told(config: &ClusterConfig, queues: &Queues) -> Option<PrioritySettings> {
    let ordered = |order: QueueOrder| -> Vec<String> {
        let all = config.queues.iter().filter(|queue| queue.order == order);
        all.map(|queue| queue.name.clone()).collect()
    };
    let (weighted, by_share) = (ordered(QueueOrder::Weights), ordered(QueueOrder::FairShare));
    if weighted.is_empty() && by_share.is_empty() {
        return None;
    }
    let priority = &config.priority;
    let reset = ResetPeriod::WORDS.iter();
    let mut reset = reset.filter(|(period, _)| *period == priority.reset);
    Some(PrioritySettings {
        weighted,
        by_share,
        users: queues.scores().shares().tree().users(),
        age: priority.weights.age,
        association: priority.weights.association,
        fair_share: priority.weights.fair_share,
        size: priority.weights.size,
        queue: priority.weights.queue,
        qos: priority.weights.qos,
        tres: priority.tres_weights.clone(),
        max_age: priority.max_age,
        half_life: priority.half_life,
        reset: reset.next().map_or("", |(_, word)| *word).to_owned(),
        favor_small: matches!(priority.size, SizeFactor::Small | SizeFactor::SmallByTime),
        size_by_time: matches!(priority.size, SizeFactor::LargeByTime | SizeFactor::SmallByTime),
        period: priority.period,
        classic: priority.classic,
    })
}

fn preemption_told(config: &ClusterConfig) -> Option<PreemptionSettings> {
    let preemption = &config.preemption;
    preemption.is_on().then(|| PreemptionSettings {
        by_qos: preemption.by.contains(&PreemptBy::Qos),
        by_queue: preemption.by.contains(&PreemptBy::Queue),
        mode: preemption.mode,
        exempt: preemption.exempt,
    })
}

pub(crate) fn settings(rooms: &Rooms, now: Time, caller: &Caller) -> Reply {
    let Rooms {
        config,
        clocks,
        machine,
        jobs,
        queues,
        planning,
        reservations,
        ..
    } = rooms;
    let policy = &config.policy;
    Reply::Settings(Box::new(Settings {
        cluster: config.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uid: config.controller_uid,
        host: config.host.clone(),
        file: config.file.clone(),
        now,
        started: clocks.started(),
        next_job: jobs.next_id(),
        first_job: JobId(config.first_job.0.max(1)),
        batch_delay: policy.batch_delay,
        nodes: u32::try_from(machine.node_count()).unwrap_or(u32::MAX),
        max_array_tasks: policy.max_array_tasks,
        grace: policy.grace,
        keep_ended: policy.keep_ended,
        node_timeout: policy.node_timeout,
        user_ttl: policy.user_ttl,
        backfill: policy.backfill,
        open: policy.visibility != Visibility::Own,
        default_queue: config.default_queue.clone().unwrap_or_default(),
        admins: config.admins.clone(),
        you_are_admin: is_administrator(config, caller),
        licenses: licenses_told(config, jobs, planning, reservations, now),
        priority: priority_told(config, queues),
        preemption: preemption_told(config),
        max_switch_wait: policy.max_switch_wait,
        switches: config.switches.clone(),
    }))
}
