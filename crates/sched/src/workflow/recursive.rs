//! Recursive sharing out (the paper, 3.3 and Fig. 3): the time that is left is divided
//! among all tasks, slots grow by it and push what is behind them, what is left then is
//! divided again, until little of it is left.
//!
//! Where the paper is silent:
//! - `r_even_time` takes off what a task has to spare in the first schedule, once: Fig. 6
//!   and its later rounds come out only so (with the gaps of each round task 6 would get
//!   1.2 more in the second).
//! - `r_even_percent1` and `r_cp_first` do not look at spare times: 3.3 says that
//!   `r_even_percent2` does, "each time", "as opposed to". There it counts from the
//!   estimate: what the slot has grown by, and the gap behind it now.
//! - `r_cp_first` gives the critical path in the first round what it would get with all
//!   others beside it. If all of the time went there, nothing would be left for a second
//!   round, and the least spare time would be 0; in the paper's Table 1 it is as high as
//!   with the others.
//! - Times are whole milliseconds. When a share is below one, nothing changes any more and
//!   the rounds end.

use super::FlowSlackPolicy;
use super::critical::{critical_path, shrunk};
use super::dag::Dag;
use super::resource_model::ResourceModel;
use super::schedule::Schedule;

/// Rounds after which the search ends.
pub const ROUNDS: usize = 1000;

/// Until when it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Latest end of the workflow.
    pub deadline_ms: i64,
    /// Less than this may be left.
    pub threshold_ms: i64,
    /// Rounds after which the search ends.
    pub most: usize,
}

/// Shares the time until the deadline out.
pub fn share_out<G: ResourceModel>(
    policy: FlowSlackPolicy,
    dag: &Dag,
    resources: &G,
    schedule: &Schedule,
    rounds: Rounds,
) -> Schedule {
    let mut now = schedule.clone();
    let mut total = vec![0i64; dag.count()];
    let slot_lengths = SlotLengths::new(policy, dag, resources, schedule);
    for round in 0..rounds.most {
        let left = rounds.deadline_ms - now.end_ms();
        if left <= 0 || (round > 0 && left < rounds.threshold_ms) {
            break;
        }
        let shares = shares(policy, dag, resources, schedule, left, round);
        for (total, share) in total.iter_mut().zip(shares) {
            *total += share;
        }
        let lengths = (0..dag.count()).map(|task| {
            let grown = now.slots()[task].length_ms();
            slot_lengths.length_ms(&now, task, total[task]).max(grown)
        });
        let lengths: Vec<i64> = lengths.collect();
        let next = now.with_lengths(dag, resources, &lengths);
        // Work of others between slots can push the end beyond what was shared out.
        if next.end_ms() > rounds.deadline_ms {
            return shrunk(dag, resources, &now, &lengths, rounds.deadline_ms);
        }
        if next == now {
            break;
        }
        now = next;
    }
    now
}

/// How long slots must be, by what tasks have got.
struct SlotLengths<'a, G> {
    dag: &'a Dag,
    resources: &'a G,
    first: &'a Schedule,
    kind: SpareBaseline,
}

/// What a task has to spare already counts from.
enum SpareBaseline {
    /// The first schedule: spare times there.
    First(Vec<i64>),
    /// The schedule as it is now.
    Now,
    /// It is not looked at.
    Never,
}

impl<'a, G: ResourceModel> SlotLengths<'a, G> {
    fn new(policy: FlowSlackPolicy, dag: &'a Dag, resources: &'a G, first: &'a Schedule) -> Self {
        let spare = |task| first.spare_ms(dag, resources, task);
        let kind = match policy {
            FlowSlackPolicy::REvenTime => {
                SpareBaseline::First((0..dag.count()).map(spare).collect())
            }
            FlowSlackPolicy::REvenPercent2 => SpareBaseline::Now,
            FlowSlackPolicy::REvenPercent1
            | FlowSlackPolicy::RCpFirst
            | FlowSlackPolicy::CpEvenTime
            | FlowSlackPolicy::CpEvenPercent => SpareBaseline::Never,
        };
        Self {
            dag,
            resources,
            first,
            kind,
        }
    }

    /// The length of the slot of a task that has got so much in all.
    fn length_ms(&self, now: &Schedule, task: usize, total_ms: i64) -> i64 {
        let (schedule, spare) = match &self.kind {
            SpareBaseline::First(spare) => (self.first, spare[task]),
            SpareBaseline::Now => (now, now.spare_ms(self.dag, self.resources, task)),
            SpareBaseline::Never => (self.first, 0),
        };
        schedule.slots()[task].length_ms() + (total_ms - spare).max(0)
    }
}

/// What each task gets of the time that is left.
fn shares<G: ResourceModel>(
    policy: FlowSlackPolicy,
    dag: &Dag,
    resources: &G,
    first: &Schedule,
    left: i64,
    round: usize,
) -> Vec<i64> {
    let count = dag.count();
    if policy == FlowSlackPolicy::REvenTime {
        return vec![left / count as i64; count];
    }
    let weight = |task: usize| i128::from(dag.estimate_ms(task, first.slots()[task].machine));
    let chosen = match policy == FlowSlackPolicy::RCpFirst && round == 0 {
        true => {
            let mut chosen = vec![false; count];
            let path = critical_path(dag, resources, first);
            path.into_iter().for_each(|task| chosen[task] = true);
            chosen
        }
        false => vec![true; count],
    };
    let sum = (0..count).map(weight).sum::<i128>().max(1);
    let share = |w: i128| i64::try_from(i128::from(left) * w / sum).unwrap_or(0);
    let given = |task: usize| if chosen[task] { share(weight(task)) } else { 0 };
    (0..count).map(given).collect()
}
