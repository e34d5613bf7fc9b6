//! What a job's priority is made of in a queue with weighted factors, and how that is told.

use super::{Scores, member, member_of};
use crate::jobs::job::{Job, Place, Submitted};
use cosy_model::policy::Tres;
use cosy_model::{Amounts, QueueOrder, QueueSpec, Time, device};
use cosy_policy::classic;
use cosy_policy::weights::{self, Ageing, Factors, JobSize, ONE, Terms};
use cosy_view::job::PriorityFactors;

impl Scores {
    /// What a job's priority is made of.
    pub(crate) fn terms(&self, queue: &QueueSpec, job: &Job) -> Terms {
        let ageing = job.ages_since().map_or(Ageing::Not, Ageing::Since);
        self.terms_of(queue, job.submitted(), ageing)
    }

    /// The same of what may not be a job yet.
    pub(super) fn terms_of(
        &self,
        queue: &QueueSpec,
        submitted: &Submitted,
        ageing: Ageing,
    ) -> Terms {
        let (weights, max_age) = (&self.config.weights, self.config.max_age);
        if let Some(priority) = submitted.spec.priority {
            return weights.set_by_hand(priority, max_age);
        }
        weights.terms(&self.factors(queue, submitted), ageing, max_age)
    }

    /// The factors of a job but its age.
    fn factors(&self, queue: &QueueSpec, submitted: &Submitted) -> Factors {
        let factor = |name: &str| self.config.queues.get(name).map_or(0, |queue| queue.factor);
        let most = self.config.queues.values().map(|queue| queue.factor).max();
        let (cores, nodes) = self.machine;
        let size = JobSize {
            nodes: submitted.place.least().unwrap_or(1),
            cores: cores_of(submitted),
            limit: submitted.place.limit(),
            all_nodes: nodes,
            all_cores: cores,
        };
        Factors {
            fair_share: self.fair_share_factor(submitted),
            size: weights::size(self.config.size, size),
            queue: weights::part_of(factor(&queue.name).into(), most.unwrap_or(0).into()),
            qos: self.qos_factor(submitted),
            association: self.association_factor(submitted),
            tres: self.tres_points(queue, submitted),
            site: submitted.spec.site_factor,
            nice: submitted.spec.nice,
        }
    }

    /// Priority of the job's quality of service, as a part of the highest of all.
    fn qos_factor(&self, submitted: &Submitted) -> u64 {
        let facts = submitted.spec.qos.as_deref();
        let facts = facts.and_then(|name| self.shares.qos_facts(name));
        let own = facts.map_or(0, |facts| facts.priority);
        weights::part_of(own.into(), self.shares.most_qos_priority().into())
    }

    /// Priority of the job's association, as a part of the highest of all.
    fn association_factor(&self, submitted: &Submitted) -> u64 {
        let (own, most) = self.shares.priority_of(member_of(submitted));
        weights::part_of(own.into(), most.into())
    }

    fn fair_share_factor(&self, submitted: &Submitted) -> u64 {
        let member = member_of(submitted);
        let tree = self.shares.tree();
        match (self.config.classic, self.shares.known(member)) {
            (Some(damping), Some(place)) => {
                classic::factor(classic::standing(tree, place), damping)
            }
            _ => {
                let rank = self.weighed_rank(member);
                weights::part_of(rank.into(), tree.users().max(1).into())
            }
        }
    }

    /// Of each weighted resource: what the job asks for as a part of what the queue's nodes have.
    fn tres_factors(&self, queue: &QueueSpec, submitted: &Submitted) -> Vec<(&Tres, u32, u64)> {
        let has = self.of_queues.get(&queue.name);
        let all = self.config.tres_weights.iter();
        let factor = |(tres, weight): (_, &u32)| {
            let asked = asked_for(submitted, tres);
            let has = has.and_then(|has| has.get(tres)).copied().unwrap_or(0);
            (tres, *weight, weights::part_of(asked.into(), has.into()))
        };
        all.map(factor).collect()
    }

    /// The sum of them times their weights, with 32 bits behind the point.
    fn tres_points(&self, queue: &QueueSpec, submitted: &Submitted) -> u64 {
        let each = self.tres_factors(queue, submitted).into_iter();
        let points = each.map(|(_, weight, factor)| u64::from(weight).saturating_mul(factor));
        points.fold(0, u64::saturating_add)
    }

    /// The number that stands for the priority of a job that waits or runs; `None` in a queue that orders
    /// by dates. Of one that runs it is that of its start.
    pub(crate) fn priority(&self, queue: &QueueSpec, job: &Job, now: Time) -> Option<i64> {
        match queue.order {
            QueueOrder::Fcfs => None,
            QueueOrder::FairShare => {
                let given = job.spec().priority.map(i64::from);
                Some(given.unwrap_or_else(|| i64::from(self.shares.rank_of(member(job)))))
            }
            QueueOrder::Weights => {
                let at = job.run().map_or(now, |run| run.allocated());
                Some(self.terms(queue, job).priority(at))
            }
        }
    }

    /// The same when priorities were last looked at.
    pub(crate) fn priority_at_mark(&self, queue: &QueueSpec, job: &Job) -> Option<i64> {
        self.priority(queue, job, self.mark)
    }

    /// What the priority of a job is made of, in billionths.
    pub(crate) fn factors_told(
        &self,
        queue: &QueueSpec,
        job: &Job,
        now: Time,
    ) -> Option<PriorityFactors> {
        if job.spec().priority.is_some() {
            return (queue.order != QueueOrder::Fcfs).then(PriorityFactors::default);
        }
        match queue.order {
            QueueOrder::Fcfs => None,
            QueueOrder::FairShare => {
                let rank = self.shares.rank_of(member(job));
                let users = self.shares.tree().users().max(1);
                Some(PriorityFactors {
                    fair_share: ppb(weights::part_of(rank.into(), users.into())),
                    ..PriorityFactors::default()
                })
            }
            QueueOrder::Weights => {
                let factors = self.factors(queue, job.submitted());
                let tres = self.tres_factors(queue, job.submitted()).into_iter();
                Some(PriorityFactors {
                    age: ppb(self.terms(queue, job).age(now)),
                    fair_share: ppb(factors.fair_share),
                    size: ppb(factors.size),
                    queue: ppb(factors.queue),
                    qos: ppb(factors.qos),
                    association: ppb(factors.association),
                    tres: tres
                        .map(|(tres, _, factor)| (tres.clone(), ppb(factor)))
                        .collect(),
                    site: factors.site,
                })
            }
        }
    }
}

/// A factor in billionths, rounded to the nearest.
fn ppb(factor: u64) -> u64 {
    let scaled = u128::from(factor) * 1_000_000_000 + u128::from(ONE / 2);
    u64::try_from(scaled >> 32).unwrap_or(u64::MAX)
}

/// Cores that a job asks for, all components together.
fn cores_of(submitted: &Submitted) -> u32 {
    let cores = submitted.requests().map(|request| {
        request
            .tasks
            .unwrap_or(1)
            .saturating_mul(request.cores_per_task)
    });
    cores.fold(0, u32::saturating_add)
}

/// How much of a resource a job asks for, all components together, on the fewest nodes on which it could
/// be. What a whole node has beyond what was asked for does not count.
fn asked_for(submitted: &Submitted, tres: &Tres) -> u64 {
    match tres {
        Tres::License(name) => u64::from(submitted.spec.licenses.get(name)),
        Tres::Node => u64::from(submitted.place.least().unwrap_or(1)),
        Tres::Cpu | Tres::Billing | Tres::Memory | Tres::Gres { .. } => {
            let Place::Good { demand, .. } = &submitted.place else {
                return 0;
            };
            let one = |component: &cosy_sched::Component| {
                let tasks = u64::from(component.tasks.max(1));
                let nodes = u64::from(component.nodes.unwrap_or(1));
                let by_task = amount_of(&component.per_task, tres).saturating_mul(tasks);
                by_task.saturating_add(amount_of(&component.per_node, tres).saturating_mul(nodes))
            };
            demand.iter().map(one).fold(0, u64::saturating_add)
        }
    }
}

/// How much of a resource that is.
pub(super) fn amount_of(amounts: &Amounts, tres: &Tres) -> u64 {
    match tres {
        Tres::Cpu => u64::from(amounts.cores),
        Tres::Memory => amounts.memory.0,
        Tres::Gres { name, kind: None } if &**name == "gpu" => u64::from(amounts.gpus),
        Tres::Gres { name, kind: None } => u64::from(amounts.other.get(name)),
        Tres::Gres {
            kind: Some(kind), ..
        } => u64::from(amounts.other.get(&device::gpu_key(kind))),
        Tres::Node => 1,
        Tres::Billing | Tres::License(_) => 0,
    }
}
