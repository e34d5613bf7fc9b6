//! HBMCT: tasks by falling upward rank are cut into groups of tasks that do not depend on
//! each other; each group is placed by balanced minimum completion time: first every task
//! where it runs fastest, then one task after another is moved away from the machine that
//! ends last, as long as that ends the group earlier. Of several machines on which a task is
//! equally fast the one with the least to do is first. In large groups ends are worked out
//! without looking at other work between tasks; slots are not.
//! Sakellariou and Zhao, HCW 2004.

use super::chains::{Chain, Link};
use super::dag::{Dag, Machines};
use super::heft::ready_ms;
use super::lanes::Lanes;
use super::rank;
use super::schedule::{Schedule, Slot};

/// Larger groups are large.
const LARGE: usize = 64;

/// A schedule of the whole graph by balanced groups of independent tasks.
pub fn schedule(dag: &Dag, machines: &Machines) -> Schedule {
    let tasks = rank::by_rank(dag, &rank::upward(dag, machines));
    let mut slots = vec![Slot::default(); dag.count()];
    let mut ends = vec![0; machines.count()];
    for group in groups(dag, &tasks) {
        let placed = Group::new(dag, machines, &slots, &ends, &group).balanced();
        for (task, slot) in placed {
            ends[slot.machine] = ends[slot.machine].max(slot.end_ms);
            slots[task] = slot;
        }
    }
    Schedule::new(dag, slots)
}

/// Runs of tasks, in order, none of which depends on another of the same run.
fn groups(dag: &Dag, tasks: &[usize]) -> Vec<Vec<usize>> {
    let mut group_of = vec![usize::MAX; dag.count()];
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &task in tasks {
        // Whoever it depends on comes before it, so a parent in the group is enough.
        let current = groups.len().wrapping_sub(1);
        let parents = &dag.tasks()[task].parents;
        let depends = parents.iter().any(|e| group_of[e.task] == current);
        if groups.is_empty() || depends {
            groups.push(Vec::new());
        }
        group_of[task] = groups.len() - 1;
        if let Some(last) = groups.last_mut() {
            last.push(task);
        }
    }
    groups
}

/// A group while it is placed.
struct Group<'a> {
    dag: &'a Dag,
    ends: &'a [i64],
    lanes: Lanes,
    tasks: &'a [usize],
    /// When the data of a task of the group is on a machine.
    ready: Vec<Vec<i64>>,
    /// Places in `tasks`, by machine: those whose data comes first before the others.
    on: Vec<Vec<usize>>,
}

/// A move of a task from the machine that ends last.
struct Move {
    at: usize,
    from: usize,
    to: usize,
}

impl<'a> Group<'a> {
    fn new(
        dag: &'a Dag,
        machines: &'a Machines,
        slots: &[Slot],
        ends: &'a [i64],
        tasks: &'a [usize],
    ) -> Self {
        let count = machines.count();
        let row = |task: &usize| {
            (0..count)
                .map(|m| ready_ms(dag, machines, slots, *task, m))
                .collect()
        };
        let mut group = Self {
            dag,
            ends,
            lanes: Lanes::new(machines),
            tasks,
            ready: tasks.iter().map(row).collect(),
            on: vec![Vec::new(); count],
        };
        let mut work = vec![0i64; count];
        for (at, task) in tasks.iter().enumerate() {
            let fastest = dag.places(*task).min_by_key(|(m, ms)| (*ms, work[*m], *m));
            let (machine, ms) = fastest.unwrap_or_default();
            group.on[machine].push(at);
            work[machine] += ms;
        }
        for machine in 0..count {
            let mut tasks = std::mem::take(&mut group.on[machine]);
            tasks.sort_by_key(|at| group.key(machine, *at));
            group.on[machine] = tasks;
        }
        group
    }

    /// The order of tasks on a machine.
    fn key(&self, machine: usize, at: usize) -> (i64, usize) {
        (self.ready[at][machine], at)
    }

    /// Where a task begins among those on a machine.
    fn place(&self, machine: usize, at: usize) -> usize {
        let key = self.key(machine, at);
        self.on[machine].partition_point(|other| self.key(machine, *other) < key)
    }

    /// The slot of a task behind others that end then.
    fn slot(&self, machine: usize, at: usize, end: i64) -> Slot {
        let ms = self.dag.estimate_ms(self.tasks[at], machine);
        let start_ms = self.lanes.behind(machine, end, self.ready[at][machine], ms);
        Slot {
            machine,
            start_ms,
            end_ms: start_ms + ms,
        }
    }

    /// The end of a machine with these tasks, in their order; `None` when it is beyond `most`.
    fn end(&self, machine: usize, tasks: impl Iterator<Item = usize>, most: i64) -> Option<i64> {
        let mut end = self.ends[machine];
        for at in tasks {
            end = self.slot(machine, at, end).end_ms;
            if end > most {
                return None;
            }
        }
        Some(end)
    }

    fn end_now(&self, machine: usize) -> i64 {
        let tasks = self.on[machine].iter().copied();
        self.end(machine, tasks, i64::MAX).unwrap_or(i64::MAX)
    }

    /// Slots on a machine.
    fn line(&self, machine: usize) -> Vec<(usize, Slot)> {
        let mut end = self.ends[machine];
        let slot = |at: &usize| {
            let slot = self.slot(machine, *at, end);
            end = slot.end_ms;
            (self.tasks[*at], slot)
        };
        self.on[machine].iter().map(slot).collect()
    }

    fn balanced(mut self) -> Vec<(usize, Slot)> {
        let machines = self.on.len();
        if self.tasks.len() > LARGE {
            self.balance_chains();
            return (0..machines).flat_map(|m| self.line(m)).collect();
        }
        let mut ends: Vec<i64> = (0..machines).map(|m| self.end_now(m)).collect();
        // Every move lowers the latest end or the number of machines that have it; the
        // limit only keeps very large groups short.
        for _ in 0..self.tasks.len().saturating_mul(machines) {
            let Some(found) = self.best_move(&ends) else {
                break;
            };
            self.shift(&found);
            for machine in [found.from, found.to] {
                ends[machine] = self.end_now(machine);
            }
        }
        (0..machines).flat_map(|m| self.line(m)).collect()
    }

    fn shift(&mut self, Move { at, from, to }: &Move) {
        self.on[*from].retain(|other| other != at);
        let place = self.place(*to, *at);
        self.on[*to].insert(place, *at);
    }

    fn link(&self, machine: usize, at: usize) -> Link {
        Link {
            ready: self.ready[at][machine],
            length: self.dag.estimate_ms(self.tasks[at], machine),
        }
    }

    fn chain(&self, machine: usize) -> Chain {
        let begin = self.lanes.behind(machine, self.ends[machine], 0, 1);
        let links = self.on[machine].iter().map(|at| self.link(machine, *at));
        Chain::new(begin, &links.collect::<Vec<_>>())
    }

    /// The same moves with ends that cost little to work out.
    fn balance_chains(&mut self) {
        let machines = self.on.len();
        let mut chains: Vec<Chain> = (0..machines).map(|m| self.chain(m)).collect();
        for _ in 0..self.tasks.len().saturating_mul(machines.min(4)) {
            let Some(found) = self.best_shift(&chains) else {
                break;
            };
            self.shift(&found);
            chains[found.from] = self.chain(found.from);
            chains[found.to] = self.chain(found.to);
        }
    }

    fn best_shift(&self, chains: &[Chain]) -> Option<Move> {
        let busy = (0..chains.len()).filter(|m| !self.on[*m].is_empty());
        let from = busy.max_by_key(|m| (chains[*m].end(), std::cmp::Reverse(*m)))?;
        let mut best: Option<(i64, i64, usize, usize)> = None;
        for (place, &at) in self.on[from].iter().enumerate() {
            let left = chains[from].without(place);
            for (to, _) in self.dag.places(self.tasks[at]).filter(|(m, _)| *m != from) {
                let most = best.map_or(chains[from].end() - 1, |best| best.0);
                if left > most || chains[to].end() > most {
                    continue;
                }
                let end = chains[to].with(self.place(to, at), self.link(to, at));
                let key = (left.max(end), end, at, to);
                if end <= most && best.is_none_or(|b| key < b) {
                    best = Some(key);
                }
            }
        }
        best.map(|(_, _, at, to)| Move { at, from, to })
    }

    /// The move of a task away from the machine that ends last after which the later of
    /// both machines ends first; `None` when no move ends earlier than now.
    fn best_move(&self, ends: &[i64]) -> Option<Move> {
        let busy = (0..ends.len()).filter(|m| !self.on[*m].is_empty());
        let from = busy.max_by_key(|m| (ends[*m], std::cmp::Reverse(*m)))?;
        let mut best: Option<(i64, i64, usize, usize)> = None;
        for &at in &self.on[from] {
            let most = best.map_or(ends[from] - 1, |best| best.0);
            let rest = self.on[from].iter().copied().filter(|other| *other != at);
            let Some(left) = self.end(from, rest, most) else {
                continue;
            };
            for (to, _) in self.dag.places(self.tasks[at]).filter(|(m, _)| *m != from) {
                let most = best.map_or(ends[from] - 1, |best| best.0);
                let (before, after) = self.on[to].split_at(self.place(to, at));
                let more = before.iter().copied().chain([at]);
                let more = more.chain(after.iter().copied());
                let Some(end) = self.end(to, more, most) else {
                    continue;
                };
                let key = (left.max(end), end, at, to);
                if best.is_none_or(|b| key < b) {
                    best = Some(key);
                }
            }
        }
        best.map(|(_, _, at, to)| Move { at, from, to })
    }
}
