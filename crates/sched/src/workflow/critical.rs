//! The critical path first (the paper, 3.4 and Fig. 4): its tasks divide the time that is
//! left among them; on every other path what remains is divided among the others, and a
//! task gets the least of what the paths through it would give it.
//!
//! The paper lists all paths, of which there may be exponentially many. What is looked for
//! is, for each task, the least ratio (left − S) / R over the paths through it, where S is
//! what the path's critical tasks have got and R the weight of its other tasks (their
//! number, or the sum of their estimates). Dinkelbach's method finds it with longest paths
//! alone: a path of a smaller ratio than λ exists exactly if the longest one by
//! S + λ·R is longer than what is left. The enumeration is the reference in the tests.
//!
//! In large graphs the ratios of all tasks are closed in on together: one pass tells for every
//! task whether a path through it has a ratio below λ. What they get is up to one part in 128
//! too little, never too much.
//!
//! Fig. 4 lowers critical tasks, too, when another path would give them less; its own
//! example (Fig. 7a) does not, nor does this.

use super::FlowSlackPolicy;
use super::dag::Dag;
use super::resource_model::ResourceModel;
use super::schedule::Schedule;
use std::collections::VecDeque;

/// Graphs of more tasks are large.
const EXACT: usize = 1000;
/// Passes over a large graph.
const PASSES: usize = 600;
/// Of a millisecond, in which ratios are counted.
const PARTS: i128 = 1 << 30;

/// The tasks of the path that makes the schedule as long as it is, from the first to the
/// last: each starts when the one before it lets it, by its data or on the machine.
pub fn critical_path<G: ResourceModel>(
    dag: &Dag,
    resources: &G,
    schedule: &Schedule,
) -> Vec<usize> {
    let slots = schedule.slots();
    let last = (0..slots.len()).max_by_key(|t| (slots[*t].end_ms, std::cmp::Reverse(*t)));
    let mut path: Vec<usize> = last.into_iter().collect();
    while let Some(&task) = path.last() {
        let own = &slots[task];
        let data = dag.tasks()[task].parents.iter().map(|edge| {
            let from = &slots[edge.task];
            let at = from.end_ms + resources.carry_ms(edge.data, from.machine, own.machine);
            (at, 1, edge.task)
        });
        let before = schedule.before(task).iter();
        let before = before.map(|t| (slots[*t].end_ms, 0, *t));
        // Of those that let it start last a parent, then the one with the least number.
        let latest = data
            .chain(before)
            .max_by_key(|(at, kind, t)| (*at, *kind, std::cmp::Reverse(*t)));
        match latest {
            Some((_, _, from)) => path.push(from),
            None => break,
        }
    }
    path.reverse();
    path
}

/// Shares the time until the deadline out.
pub fn share_out<G: ResourceModel>(
    policy: FlowSlackPolicy,
    dag: &Dag,
    resources: &G,
    schedule: &Schedule,
    deadline_ms: i64,
) -> Schedule {
    let left = deadline_ms - schedule.end_ms();
    if left <= 0 {
        return schedule.clone();
    }
    let paths = Paths::new(policy, dag, resources, schedule, left);
    let spare = paths.spares_ms();
    let lengths: Vec<i64> = (0..dag.count())
        .map(|task| schedule.slots()[task].length_ms() + spare[task])
        .collect();
    let grown = schedule.with_lengths(dag, resources, &lengths);
    match grown.end_ms() <= deadline_ms {
        true => grown,
        // Other work between the slots: what was shared out does not fit whole.
        false => shrunk(dag, resources, schedule, &lengths, deadline_ms),
    }
}

/// The largest share of the growth (in 1/1024) with which the deadline holds.
pub(super) fn shrunk<G: ResourceModel>(
    dag: &Dag,
    resources: &G,
    schedule: &Schedule,
    lengths: &[i64],
    deadline_ms: i64,
) -> Schedule {
    let with = |share: i64| {
        let slots = schedule.slots().iter().zip(lengths);
        let grown = slots.map(|(slot, length)| {
            let own = slot.length_ms();
            own + (length - own).saturating_mul(share) / 1024
        });
        schedule.with_lengths(dag, resources, &grown.collect::<Vec<_>>())
    };
    let (mut good, mut bad) = (0, 1024);
    while bad - good > 1 {
        let middle = (good + bad) / 2;
        match with(middle).end_ms() <= deadline_ms {
            true => good = middle,
            false => bad = middle,
        }
    }
    match good {
        0 => schedule.clone(),
        share => with(share),
    }
}

/// The graph of the schedule: who follows whom, by the workflow or on a machine.
pub(super) struct Paths {
    /// Every task after those that it follows.
    order: Vec<usize>,
    followers: Vec<Vec<usize>>,
    /// What a critical task gets; `None` for others.
    given: Vec<Option<i64>>,
    /// The weight of a task that is not critical.
    weight: Vec<i64>,
    left: i64,
}

impl Paths {
    pub(super) fn new<G: ResourceModel>(
        policy: FlowSlackPolicy,
        dag: &Dag,
        resources: &G,
        schedule: &Schedule,
        left: i64,
    ) -> Self {
        let path = critical_path(dag, resources, schedule);
        let weight: Vec<i64> = (0..dag.count())
            .map(|task| match policy {
                FlowSlackPolicy::CpEvenPercent => {
                    dag.estimate_ms(task, schedule.slots()[task].machine).max(1)
                }
                FlowSlackPolicy::CpEvenTime
                | FlowSlackPolicy::REvenTime
                | FlowSlackPolicy::REvenPercent1
                | FlowSlackPolicy::RCpFirst
                | FlowSlackPolicy::REvenPercent2 => 1,
            })
            .collect();
        let sum: i128 = path.iter().map(|t| i128::from(weight[*t])).sum();
        let mut given = vec![None; dag.count()];
        for &task in &path {
            given[task] = Some(portion(left.into(), weight[task], sum));
        }
        let followers = (0..dag.count()).map(|task| {
            let children = dag.tasks()[task].children.iter().map(|e| e.task);
            let mut all: Vec<usize> = children
                .chain(schedule.next(task).iter().copied())
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        });
        Self {
            order: schedule.order().to_vec(),
            followers: followers.collect(),
            given,
            weight,
            left,
        }
    }

    /// What each task gets.
    fn spares_ms(&self) -> Vec<i64> {
        match self.order.len() {
            ..=EXACT => (0..self.order.len())
                .map(|task| self.spare_ms(task))
                .collect(),
            _ => self.closed_in_on(),
        }
    }

    /// The same, a little less for tasks that are not critical.
    pub(super) fn closed_in_on(&self) -> Vec<i64> {
        let mut spares: Vec<i64> = self.given.iter().map(|g| g.unwrap_or(0)).collect();
        let others = (0..self.order.len()).filter(|task| self.given[*task].is_none());
        let most = i128::from(self.left) * PARTS;
        let mut open = VecDeque::from([(0i128, most + 1, others.collect::<Vec<usize>>())]);
        let mut passes = 0;
        while let Some((low, high, tasks)) = open.pop_front() {
            // At `low` all paths are short enough, at `high` one is too long.
            if tasks.is_empty() {
                continue;
            }
            if high - low <= (low / 128).max(1) || passes >= PASSES {
                for task in tasks {
                    spares[task] = portion(low, self.weight[task], PARTS);
                }
                continue;
            }
            passes += 1;
            let middle = match high > low.max(1) * 4 {
                true => (low.max(1) * high).isqrt(),
                false => (low + high) / 2,
            };
            let ways = self.ways(middle);
            let (fit, long): (Vec<usize>, Vec<usize>) =
                tasks.into_iter().partition(|task| ways[*task] <= most);
            open.push_back((middle, high, fit));
            open.push_back((low, middle, long));
        }
        spares
    }

    /// The longest way through each task by S + λ·R, in parts, with λ in parts too.
    fn ways(&self, lambda: i128) -> Vec<i128> {
        let value = |task: usize| match self.given[task] {
            Some(given) => i128::from(given) * PARTS,
            None => i128::from(self.weight[task]).saturating_mul(lambda),
        };
        let mut up = vec![0i128; self.order.len()];
        for &task in &self.order {
            up[task] = up[task].saturating_add(value(task));
            for &after in &self.followers[task] {
                up[after] = up[after].max(up[task]);
            }
        }
        let mut down = vec![0i128; self.order.len()];
        for &task in self.order.iter().rev() {
            let below = self.followers[task].iter();
            let ways = below.map(|after| down[*after].saturating_add(value(*after)));
            down[task] = ways.max().unwrap_or(0);
        }
        let both = up.into_iter().zip(down);
        both.map(|(up, down)| up.saturating_add(down)).collect()
    }

    /// What a task gets.
    pub(super) fn spare_ms(&self, task: usize) -> i64 {
        if let Some(given) = self.given[task] {
            return given;
        }
        // Any path will do to begin with: the one with the most other tasks.
        let (mut remains, mut others) = self.longest(task, 1, 0);
        loop {
            let (next_remains, next_others) = self.longest(task, remains, others);
            // (remains / others) is the least ratio when no path beats it.
            if next_remains * others >= remains * next_others {
                return portion(remains, self.weight[task], others);
            }
            (remains, others) = (next_remains, next_others);
        }
    }

    /// What remains on, and the weight of the other tasks of, the path through a task that
    /// is longest by S·denominator + R·numerator. (1, 0): by R alone.
    fn longest(&self, through: usize, numerator: i128, denominator: i128) -> (i128, i128) {
        let value = |task: usize| match self.given[task] {
            Some(given) => i128::from(given).saturating_mul(denominator),
            None => i128::from(self.weight[task]).saturating_mul(numerator),
        };
        let count = self.order.len();
        let (mut before, mut after) = (vec![None; count], vec![None; count]);
        self.sweep(&value, &mut before, through, true);
        self.sweep(&value, &mut after, through, false);
        let mut sums = (0i128, 0i128);
        let mut add = |task: usize| match self.given[task] {
            Some(given) => sums.0 += i128::from(given),
            None => sums.1 += i128::from(self.weight[task]),
        };
        for links in [&before, &after] {
            let mut at = links[through].and_then(|(_, next): (i128, Option<usize>)| next);
            while let Some(task) = at {
                add(task);
                at = links[task].and_then(|(_, next)| next);
            }
        }
        add(through);
        (i128::from(self.left) - sums.0, sums.1)
    }

    /// The longest way from a first task to each task (`up`), or from each task to a last
    /// one, as far as `through` needs it: its value, and the neighbour on it.
    fn sweep(
        &self,
        value: &dyn Fn(usize) -> i128,
        best: &mut [Option<(i128, Option<usize>)>],
        through: usize,
        up: bool,
    ) {
        let place = self.order.iter().position(|t| *t == through).unwrap_or(0);
        if up {
            for &task in &self.order[..=place] {
                let own = best[task].get_or_insert((0, None)).0 + value(task);
                for &after in &self.followers[task] {
                    let reached = best[after].get_or_insert((own, Some(task)));
                    if own > reached.0 {
                        *reached = (own, Some(task));
                    }
                }
            }
        } else {
            for &task in self.order[place..].iter().rev() {
                let mut longest = (0, None);
                for &after in &self.followers[task] {
                    let way = best[after].map_or(0, |(ways, _)| ways) + value(after);
                    if longest.1.is_none() || way > longest.0 {
                        longest = (way, Some(after));
                    }
                }
                best[task] = Some(longest);
            }
        }
    }
}

/// `remains` · `weight` / `sum`, at least 0.
fn portion(remains: i128, weight: i64, sum: i128) -> i64 {
    let share = remains.max(0).saturating_mul(i128::from(weight)) / sum.max(1);
    i64::try_from(share).unwrap_or(i64::MAX)
}

#[cfg(test)]
impl Paths {
    /// The same by listing all paths: the paper's way, for tests.
    pub(super) fn spare_by_enumeration(&self, task: usize) -> i64 {
        if let Some(given) = self.given[task] {
            return given;
        }
        let mut least = i64::MAX;
        let firsts =
            (0..self.order.len()).filter(|t| !self.followers.iter().any(|f| f.contains(t)));
        let mut stack: Vec<Vec<usize>> = firsts.map(|t| vec![t]).collect();
        while let Some(path) = stack.pop() {
            let last = *path.last().unwrap();
            for after in &self.followers[last] {
                stack.push([&path[..], &[*after]].concat());
            }
            if self.followers[last].is_empty() && path.contains(&task) {
                let got = path.iter().filter_map(|t| self.given[*t]);
                let remains = i128::from(self.left) - got.map(i128::from).sum::<i128>();
                let others = path.iter().filter(|t| self.given[**t].is_none());
                let others = others.map(|t| i128::from(self.weight[*t])).sum();
                least = least.min(portion(remains, self.weight[task], others));
            }
        }
        least
    }
}
