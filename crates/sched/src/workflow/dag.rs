//! What is planned: tasks with their estimates on each machine, what they hand on to each
//! other, and the machines with what it costs to carry data between them.

/// Longest estimate of a task, in milliseconds: a thousand years.
const LONGEST_MS: i64 = 32_000_000_000_000;

/// Data from one task to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The other task.
    pub task: usize,
    /// Units of data.
    pub data: i64,
}

/// A task with its run times and its data.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Task {
    /// Estimated run time on each machine, in milliseconds; `None` where it cannot run.
    pub estimates_ms: Vec<Option<i64>>,
    /// What it waits for.
    pub parents: Vec<Edge>,
    /// What waits for it.
    pub children: Vec<Edge>,
    /// It cannot start before, by machine; nothing holds it back without.
    pub releases_ms: Vec<i64>,
}

/// A directed acyclic graph of tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dag {
    tasks: Vec<Task>,
    /// Every task after all its parents.
    order: Vec<usize>,
}

/// Why tasks and edges are no graph to plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DagError {
    /// There is nothing to plan.
    #[error("there are no tasks")]
    Empty,
    /// An estimate below 0 or far too long, or not one for each machine.
    #[error("task {0} has no sound estimates")]
    Estimate(usize),
    /// No machine can run the task.
    #[error("task {0} fits no machine")]
    Nowhere(usize),
    /// An edge from or to a task that does not exist, to itself, or with negative data.
    #[error("the edge from {0} to {1} is not sound")]
    Edge(usize, usize),
    /// These tasks wait for each other, in this order.
    #[error("tasks wait for each other: {0:?}")]
    Cycle(Vec<usize>),
}

impl Dag {
    /// A graph of tasks with these estimates (by machine) and edges (from, to, units of
    /// data).
    ///
    /// # Errors
    /// [`DagError`].
    pub fn new(
        estimates_ms: Vec<Vec<Option<i64>>>,
        edges: &[(usize, usize, i64)],
        machines: &Machines,
    ) -> Result<Self, DagError> {
        if estimates_ms.is_empty() {
            return Err(DagError::Empty);
        }
        for (task, row) in estimates_ms.iter().enumerate() {
            let sound = |ms: &i64| (0..=LONGEST_MS).contains(ms);
            if row.len() != machines.count() || !row.iter().flatten().all(sound) {
                return Err(DagError::Estimate(task));
            }
            if row.iter().all(Option::is_none) {
                return Err(DagError::Nowhere(task));
            }
        }
        let task = |estimates_ms| Task {
            estimates_ms,
            ..Task::default()
        };
        let mut tasks: Vec<Task> = estimates_ms.into_iter().map(task).collect();
        for &(from, to, data) in edges {
            let there = from < tasks.len() && to < tasks.len() && from != to;
            if !there || !(0..=LONGEST_MS).contains(&data) {
                return Err(DagError::Edge(from, to));
            }
            tasks[from].children.push(Edge { task: to, data });
            tasks[to].parents.push(Edge { task: from, data });
        }
        let order = order(&tasks)?;
        Ok(Self { tasks, order })
    }

    /// Tasks by place.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// How many tasks there are.
    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Every task after all its parents.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The estimate of a task on a machine that can run it; 0 on one that cannot.
    pub fn estimate_ms(&self, task: usize, machine: usize) -> i64 {
        self.tasks[task].estimates_ms[machine].unwrap_or(0)
    }

    /// When a task can start on a machine, whatever its parents say.
    pub fn release_ms(&self, task: usize, machine: usize) -> i64 {
        let releases = &self.tasks[task].releases_ms;
        releases.get(machine).copied().unwrap_or(0).max(0)
    }

    /// The same with such times for a task.
    pub fn release(&mut self, task: usize, releases_ms: Vec<i64>) {
        self.tasks[task].releases_ms = releases_ms;
    }

    /// The machines that can run a task, with its estimates there.
    pub fn places(&self, task: usize) -> impl Iterator<Item = (usize, i64)> {
        let all = self.tasks[task].estimates_ms.iter().enumerate();
        all.filter_map(|(machine, ms)| Some((machine, (*ms)?)))
    }
}

/// Every task after all its parents; of those that could come next the one with the least
/// number.
fn order(tasks: &[Task]) -> Result<Vec<usize>, DagError> {
    let mut waits: Vec<usize> = tasks.iter().map(|t| t.parents.len()).collect();
    let mut ready: std::collections::BTreeSet<usize> =
        (0..tasks.len()).filter(|t| waits[*t] == 0).collect();
    let mut order = Vec::with_capacity(tasks.len());
    while let Some(task) = ready.pop_first() {
        order.push(task);
        for edge in &tasks[task].children {
            waits[edge.task] -= 1;
            if waits[edge.task] == 0 {
                ready.insert(edge.task);
            }
        }
    }
    match order.len() == tasks.len() {
        true => Ok(order),
        false => Err(DagError::Cycle(cycle(tasks, &waits))),
    }
}

/// A cycle among the tasks that still wait: from any of them upwards until one comes again.
fn cycle(tasks: &[Task], waits: &[usize]) -> Vec<usize> {
    let waiting = |task: &usize| waits[*task] > 0;
    let mut path = Vec::new();
    let mut place = vec![None; tasks.len()];
    let mut at = (0..tasks.len()).find(waiting);
    while let Some(task) = at {
        if let Some(first) = place[task] {
            path.drain(..first);
            break;
        }
        place[task] = Some(path.len());
        path.push(task);
        at = tasks[task].parents.iter().map(|e| e.task).find(waiting);
    }
    path.reverse();
    path
}

/// The machines: what a unit of data costs between them, and when they are taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machines {
    unit_us: Vec<Vec<i64>>,
    busy_ms: Vec<Vec<(i64, i64)>>,
}

impl Machines {
    /// Machines with the time that a unit of data takes between each two of them, in
    /// microseconds (0 within one), and the intervals in which each is taken, in
    /// milliseconds. `None`: not square, or a time below 0 or far too long.
    pub fn new(unit_us: Vec<Vec<i64>>, busy_ms: Vec<Vec<(i64, i64)>>) -> Option<Self> {
        let count = unit_us.len();
        let sound = |row: &Vec<i64>| {
            row.len() == count && row.iter().all(|us| (0..=LONGEST_MS).contains(us))
        };
        if count == 0 || busy_ms.len() != count || !unit_us.iter().all(sound) {
            return None;
        }
        let busy_ms = busy_ms.into_iter().map(merged).collect();
        Some(Self { unit_us, busy_ms })
    }

    /// How many machines there are.
    pub fn count(&self) -> usize {
        self.unit_us.len()
    }

    /// When a machine is taken: intervals that do not touch, in order.
    pub fn busy_ms(&self, machine: usize) -> &[(i64, i64)] {
        &self.busy_ms[machine]
    }

    /// How long that much data takes from one machine to another, in milliseconds.
    pub fn transfer_ms(&self, data: i64, from: usize, to: usize) -> i64 {
        if from == to {
            return 0;
        }
        let us = i128::from(data) * i128::from(self.unit_us[from][to]);
        i64::try_from(us / 1000).map_or(LONGEST_MS, |ms| ms.min(LONGEST_MS))
    }

    /// The sum of the times of a unit over all pairs of different machines, in
    /// microseconds, and the number of these pairs.
    pub fn units(&self) -> (i128, i128) {
        let count = self.count() as i128;
        let rows = self.unit_us.iter().enumerate();
        let sum = rows.flat_map(|(from, row)| {
            let others = row.iter().enumerate().filter(move |(to, _)| *to != from);
            others.map(|(_, us)| i128::from(*us))
        });
        (sum.sum(), count * (count - 1))
    }
}

fn merged(mut intervals: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    intervals.retain(|(from, to)| from < to);
    intervals.sort_unstable();
    let mut out: Vec<(i64, i64)> = Vec::new();
    for (from, to) in intervals {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}
