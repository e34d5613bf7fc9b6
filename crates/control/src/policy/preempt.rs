//! Who may preempt whom, and how. Source: slurm.conf(5), `PreemptType`, `PreemptMode`,
//! `PreemptExemptTime`.

use crate::config::{PreemptBy, PreemptionConfig};
use cosy_model::policy::{PreemptMode, QosFlag, QosRecord};
use cosy_model::{QueueSpec, Span};

/// One of two jobs of which one might preempt the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a> {
    /// Its quality of service, where there is one of that name.
    pub qos: Option<&'a QosRecord>,
    /// The queue's own, where there is one.
    pub queue_qos: Option<&'a QosRecord>,
    pub queue: &'a QueueSpec,
}

/// How a job is made to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// Never [`PreemptMode::Off`].
    pub mode: PreemptMode,
    /// Between the order and its force.
    pub grace: Span,
}

/// True when `job` may preempt at least somebody, as things stand: `lowest` is the lowest
/// priority of all queues.
pub(crate) fn may_preempt(config: &PreemptionConfig, job: Side<'_>, lowest: i32) -> bool {
    let by_qos = job
        .qos
        .is_some_and(|qos| within(config, job) || !qos.preempt.is_empty());
    (by_qos && config.by.contains(&PreemptBy::Qos))
        || (config.by.contains(&PreemptBy::Queue) && job.queue.priority > lowest)
}

/// True when `job` may preempt those of its own quality of service that stand behind it.
pub(crate) fn within(config: &PreemptionConfig, job: Side<'_>) -> bool {
    config.within || job.qos.is_some_and(|qos| qos.preempt_within)
}

/// True when `job` is of a class before which `other` makes room. `first`: the job stands before
/// the other by the order of service.
pub(crate) fn is_above(
    config: &PreemptionConfig,
    job: Side<'_>,
    other: Side<'_>,
    first: bool,
) -> bool {
    by_qos(config, job, other, first) || by_queue(config, job, other)
}

fn by_qos(config: &PreemptionConfig, job: Side<'_>, other: Side<'_>, first: bool) -> bool {
    let (Some(own), Some(its)) = (job.qos, other.qos) else {
        return false;
    };
    let listed = own.preempt.contains(&its.name);
    let within = within(config, job) && own.name == its.name && first;
    config.by.contains(&PreemptBy::Qos) && (listed || within)
}

fn by_queue(config: &PreemptionConfig, job: Side<'_>, other: Side<'_>) -> bool {
    config.by.contains(&PreemptBy::Queue) && job.queue.priority > other.queue.priority
}

/// How `victim` makes room for `job`, if it has to.
pub(crate) fn way(
    config: &PreemptionConfig,
    job: Side<'_>,
    victim: Side<'_>,
    first: bool,
) -> Option<Way> {
    let of_queue = config.of_queue(&victim.queue.name);
    let way = |mode: PreemptMode, grace: Option<Span>| {
        let grace = grace.unwrap_or(Span::ZERO);
        (mode != PreemptMode::Off).then_some(Way { mode, grace })
    };
    let qos = victim.qos.filter(|_| by_qos(config, job, victim, first));
    let qos = qos.and_then(|qos| {
        let mode = qos.preempt_mode.or(of_queue.mode).unwrap_or(config.mode);
        let own = Some(qos.grace).filter(|grace| *grace > Span::ZERO);
        way(mode, own.or(of_queue.grace))
    });
    qos.or_else(|| {
        let mode = of_queue.mode.unwrap_or(config.mode);
        way(mode, of_queue.grace).filter(|_| by_queue(config, job, victim))
    })
}

/// So long a job runs before it may be preempted: what the queue's quality of service says, then
/// the job's own, whose `OverPartQOS` swaps these two, then the cluster.
pub(crate) fn exempt(config: &PreemptionConfig, victim: Side<'_>) -> Span {
    let over = |qos: &QosRecord| qos.flags.contains(&QosFlag::OverPartQos);
    let (first, second) = match victim.qos.is_some_and(over) {
        true => (victim.qos, victim.queue_qos),
        false => (victim.queue_qos, victim.qos),
    };
    let mut both = first.into_iter().chain(second);
    let said = both.find_map(|qos| qos.preempt_exempt);
    said.unwrap_or(config.exempt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::QueuePreemption;

    fn qos(name: &str, over: &[&str], mode: Option<PreemptMode>, grace: i64) -> QosRecord {
        QosRecord {
            name: name.to_owned(),
            preempt: over.iter().map(|name| (*name).to_owned()).collect(),
            preempt_mode: mode,
            grace: Span::from_secs(grace),
            ..QosRecord::default()
        }
    }

    fn queue(name: &str, priority: i32) -> QueueSpec {
        QueueSpec {
            name: name.to_owned(),
            priority,
            ..QueueSpec::default()
        }
    }

    #[test]
    fn who_makes_room_and_how() {
        use PreemptMode::{Cancel, Off, Requeue, Suspend};
        let high = qos("high", &["low", "mid"], None, 0);
        let mid = qos("mid", &["low"], Some(Off), 0);
        let low = qos("low", &[], Some(Cancel), 30);
        let plain = qos("plain", &[], None, 0);
        let (fast, slow) = (queue("fast", 5), queue("slow", 1));
        let check = |by: &[PreemptBy],
                     job: (&QosRecord, &QueueSpec),
                     victim: (&QosRecord, &QueueSpec),
                     first,
                     want: Option<(PreemptMode, i64)>| {
            let mut config = PreemptionConfig {
                by: by.iter().copied().collect(),
                within: first,
                ..PreemptionConfig::default()
            };
            let own = QueuePreemption {
                mode: Some(Suspend),
                grace: Some(Span::from_secs(7)),
                interactive: false,
            };
            config.queues.insert("slow".to_owned(), own);
            let side = |(qos, queue)| Side {
                qos: Some(qos),
                queue_qos: None,
                queue,
            };
            let got = way(&config, side(job), side(victim), first);
            let got = got.map(|way| (way.mode, way.grace.secs()));
            assert_eq!(got, want, "{job:?} {victim:?}");
            if want.is_some() {
                assert!(is_above(&config, side(job), side(victim), first));
                assert!(may_preempt(&config, side(job), 1));
            }
        };
        let (qos, queue) = ([PreemptBy::Qos], [PreemptBy::Queue]);
        let both = [PreemptBy::Qos, PreemptBy::Queue];
        check(&qos, (&high, &slow), (&low, &slow), false, Some((Cancel, 30)));
        check(&qos, (&high, &slow), (&mid, &slow), false, None);
        check(&qos, (&low, &fast), (&high, &slow), false, None);
        check(&[], (&high, &fast), (&low, &slow), false, None);
        check(&qos, (&plain, &fast), (&plain, &fast), false, None);
        check(&qos, (&plain, &fast), (&plain, &fast), true, Some((Requeue, 0)));
        check(&qos, (&plain, &fast), (&plain, &slow), true, Some((Suspend, 7)));
        check(&queue, (&low, &fast), (&high, &slow), false, Some((Suspend, 7)));
        check(&queue, (&low, &slow), (&high, &fast), false, None);
        check(&queue, (&low, &fast), (&high, &fast), false, None);
        check(&both, (&high, &fast), (&mid, &slow), false, Some((Suspend, 7)));
    }

    #[test]
    fn who_is_spared_for_how_long() {
        let qos = |exempt: Option<i64>, over: bool| QosRecord {
            preempt_exempt: exempt.map(Span::from_secs),
            flags: over.then_some(QosFlag::OverPartQos).into_iter().collect(),
            ..QosRecord::default()
        };
        let check = |own: Option<QosRecord>, of_queue: Option<QosRecord>, want: i64| {
            let config = PreemptionConfig {
                exempt: Span::from_secs(9),
                ..PreemptionConfig::default()
            };
            let victim = Side {
                qos: own.as_ref(),
                queue_qos: of_queue.as_ref(),
                queue: &queue("main", 1),
            };
            assert_eq!(exempt(&config, victim).secs(), want, "{own:?} {of_queue:?}");
        };
        check(None, None, 9);
        check(Some(qos(None, false)), Some(qos(None, false)), 9);
        check(Some(qos(Some(5), false)), None, 5);
        check(Some(qos(Some(5), false)), Some(qos(None, false)), 5);
        check(Some(qos(Some(5), false)), Some(qos(Some(0), false)), 0);
        check(Some(qos(Some(5), true)), Some(qos(Some(0), false)), 5);
        check(Some(qos(None, true)), Some(qos(Some(0), false)), 0);
    }
}
