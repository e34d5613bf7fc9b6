//! Which processors and memory each task of a step is bound to.
//!
//! Pure arithmetic over the numbers of processors, and at its end two system calls that
//! a task's process makes between fork and exec ([`TaskBind::apply`]). Knows nothing of
//! steps, ranks or control groups.
//!
//! Always holds: under [`Bind::Cores`] no two tasks of a node share a processor, as long
//! as there are enough of them; every task has at least one, and none that the step does
//! not have. Sources: sched_setaffinity(2), set_mempolicy(2), and
//! `Documentation/ABI/stable/sysfs-devices-node` of the kernel.

use crate::sys;
use cosy_model::limits;
use cosy_model::step::Bind;
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::path::Path;

/// Most NUMA nodes that are looked for (the kernel's largest `MAX_NUMNODES` is the same).
const NUMA_NODES: u32 = 1024;

/// The NUMA nodes of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numa {
    /// Number and processors of each, by number.
    nodes: Vec<(u32, Vec<u32>)>,
}

impl Numa {
    /// Reads the memory nodes of this machine from sysfs.
    pub fn here() -> Self {
        Self::read(Path::new("/sys/devices/system/node"))
    }

    /// The NUMA nodes described below `root` (`node0/cpulist` ...); none where nothing is.
    pub fn read(root: &Path) -> Self {
        let list = |path| std::fs::read_to_string(path).map(|t| numbers(&t));
        let online = list(root.join("online")).unwrap_or_default();
        let nodes = online.into_iter().filter(|n| *n < NUMA_NODES);
        let with_processors = nodes.filter_map(|n| {
            let found = list(root.join(format!("node{n}/cpulist"))).ok()?;
            (!found.is_empty()).then_some((n, found))
        });
        Self {
            nodes: with_processors.collect(),
        }
    }

    /// The NUMA node of a processor.
    pub fn node_of(&self, processor: u32) -> Option<u32> {
        let of = |(_, processors): &&(u32, Vec<u32>)| processors.contains(&processor);
        self.nodes.iter().find(of).map(|(n, _)| *n)
    }

    /// The NUMA nodes of `processors`, by number.
    fn nodes_of(&self, processors: &[u32]) -> BTreeSet<u32> {
        processors.iter().filter_map(|p| self.node_of(*p)).collect()
    }
}

/// The numbers of a list of processors as somebody has written it (`0-3,8`), ascending; `None` when it is
/// none, or numbers are too high.
pub fn processors(list: &str) -> Option<Vec<u32>> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = bounds(part, |text| text.trim().parse().ok())?;
        if first > last || last >= limits::NODE_CORES {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all.into_iter().collect())
}

/// The numbers of a list as the kernel writes it (`0-3,8`); what is no number is left out.
fn numbers(text: &str) -> Vec<u32> {
    let range = |(first, last): (u32, u32)| {
        let most = first.saturating_add(limits::NODE_CORES);
        first..=last.min(most)
    };
    let parts = text.trim().split(',');
    let known = parts.filter_map(|part| bounds(part, |text| text.parse().ok()));
    known.flat_map(range).collect()
}

/// First and last number of a part of such a list.
fn bounds(part: &str, read: impl Fn(&str) -> Option<u32>) -> Option<(u32, u32)> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some((read(first)?, read(last)?))
}

/// What one task is bound to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskBind {
    /// Processors, ascending; empty: it is not bound.
    processors: Vec<u32>,
    /// NUMA nodes of these processors, ascending.
    numa: Vec<u32>,
    /// The processors as the kernel takes them.
    affinity: Vec<u64>,
    /// NUMA nodes that memory is to come from, as the kernel takes them; empty: the one
    /// that the task happens to run on.
    memory: Vec<u64>,
}

impl TaskBind {
    fn to(mut processors: Vec<u32>, memory: bool, numa: &Numa) -> Self {
        processors.sort_unstable();
        processors.dedup();
        let near: Vec<u32> = numa.nodes_of(&processors).into_iter().collect();
        // With one node there is no other to take memory from.
        let memory = memory && numa.nodes.len() > 1;
        Self {
            affinity: bits(&processors),
            memory: if memory { bits(&near) } else { Vec::new() },
            numa: near,
            processors,
        }
    }

    /// Its processors, ascending; empty when it is not bound.
    pub fn processors(&self) -> &[u32] {
        &self.processors
    }

    /// The NUMA nodes that its processors are in, ascending.
    pub fn numa_nodes(&self) -> &[u32] {
        &self.numa
    }

    /// Binds this process, which has one thread. For use between fork and exec: takes no
    /// memory. Lasts over exec and a change of user. `taskset -p` shows it.
    ///
    /// # Errors
    /// `EINVAL`: none of the processors can be used (any more).
    pub fn apply(&self) -> Result<(), Errno> {
        if !self.affinity.is_empty() {
            sys::set_affinity(&self.affinity)?;
        }
        if !self.memory.is_empty() {
            // A kernel without NUMA has nothing to choose from.
            let _ = sys::prefer_memory_of(&self.memory, self.numa.len() > 1);
        }
        Ok(())
    }
}

fn bits(numbers: &[u32]) -> Vec<u64> {
    let words = numbers.iter().max().map_or(0, |n| *n as usize / 64 + 1);
    let mut all = vec![0; words];
    for n in numbers {
        all[*n as usize / 64] |= 1 << (n % 64);
    }
    all
}

/// What each of the `local_tasks` tasks on this node is bound to, in the order of their
/// ranks.
///
/// `processors` are those of the step here; when there are none (numbers of cores mean
/// nothing where several nodes share a machine's) nothing is bound. When they are fewer
/// than the tasks need, each task may use all of them.
pub fn plan(
    processors: &[u32],
    cores_per_task: u32,
    local_tasks: u32,
    bind: Bind,
    numa: &Numa,
) -> Vec<TaskBind> {
    let tasks = local_tasks as usize;
    if processors.is_empty() {
        return vec![TaskBind::default(); tasks];
    }
    let each = cores_per_task.max(1) as usize;
    let enough = tasks
        .checked_mul(each)
        .is_some_and(|n| n <= processors.len());
    if bind == Bind::None || !enough {
        return vec![TaskBind::to(processors.to_vec(), false, numa); tasks];
    }
    let own = shares(processors, each, tasks, numa);
    let bound = own.into_iter().map(|cores| match bind {
        Bind::Numa => TaskBind::to(around(processors, &cores, numa), true, numa),
        Bind::Cores | Bind::None => TaskBind::to(cores, false, numa),
    });
    bound.collect()
}

/// Disjoint shares, in order. A share is not spread over NUMA nodes while one of them
/// has enough left for it.
fn shares(processors: &[u32], each: usize, tasks: usize, numa: &Numa) -> Vec<Vec<u32>> {
    let mut left: Vec<(Option<u32>, Vec<u32>)> = Vec::new();
    for processor in processors {
        let node = numa.node_of(*processor);
        match left.iter_mut().find(|(n, _)| *n == node) {
            Some((_, of)) => of.push(*processor),
            None => left.push((node, vec![*processor])),
        }
    }
    (0..tasks).map(|_| take(&mut left, each)).collect()
}

fn take(left: &mut [(Option<u32>, Vec<u32>)], each: usize) -> Vec<u32> {
    if let Some((_, of)) = left.iter_mut().find(|(_, of)| of.len() >= each) {
        return of.drain(..each).collect();
    }
    let mut share = Vec::with_capacity(each);
    for (_, of) in left {
        let some = of.len().min(each - share.len());
        share.extend(of.drain(..some));
    }
    share
}

/// All of `processors` in the NUMA nodes that `cores` are in.
fn around(processors: &[u32], cores: &[u32], numa: &Numa) -> Vec<u32> {
    let near = numa.nodes_of(cores);
    let is_near = |p: &u32| numa.node_of(*p).is_some_and(|n| near.contains(&n));
    let mut all: Vec<u32> = processors.iter().copied().filter(is_near).collect();
    // Processors of no known node stay with their task.
    all.extend(cores);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A machine with these processors in its NUMA nodes 0, 1, ..., read from files as
    /// the kernel's.
    fn machine(lists: &[&str]) -> Numa {
        let root = tempfile::tempdir().unwrap();
        for (n, list) in lists.iter().enumerate() {
            let node = root.path().join(format!("node{n}"));
            std::fs::create_dir(&node).unwrap();
            std::fs::write(node.join("cpulist"), format!("{list}\n")).unwrap();
        }
        let last = lists.len().saturating_sub(1);
        std::fs::write(root.path().join("online"), format!("0-{last}\n")).unwrap();
        Numa::read(root.path())
    }

    fn check(
        numa: &[&str],
        processors: &[u32],
        each: u32,
        tasks: u32,
        bind: Bind,
        want: &[&[u32]],
    ) {
        let got = plan(processors, each, tasks, bind, &machine(numa));
        let got: Vec<&[u32]> = got.iter().map(TaskBind::processors).collect();
        assert_eq!(got, want, "{numa:?} {processors:?} {each} {tasks} {bind:?}");
    }

    #[test]
    fn processors_of_tasks() {
        let two = &["0-3", "4-7"];
        let all = &[0, 1, 2, 3, 4, 5, 6, 7];
        let cores = Bind::Cores;
        check(two, &[0, 1, 2], 1, 3, cores, &[&[0], &[1], &[2]]);
        check(two, all, 3, 2, cores, &[&[0, 1, 2], &[4, 5, 6]]);
        check(two, &all[1..7], 2, 3, cores, &[&[1, 2], &[4, 5], &[3, 6]]);
        check(&["0,2,4", "1,3,5"], &[0, 1, 2, 3], 2, 2, cores, &[&[0, 2], &[1, 3]]);
        check(two, all, 1, 2, Bind::Numa, &[&[0, 1, 2, 3], &[0, 1, 2, 3]]);
        check(two, &[2, 3, 4], 2, 1, Bind::Numa, &[&[2, 3]]);
        check(two, &[3, 4, 5], 3, 1, Bind::Numa, &[&[3, 4, 5]]);
        check(two, &[5, 1], 1, 2, Bind::None, &[&[1, 5], &[1, 5]]);
        // Too few for all: everybody may use everything.
        check(two, &[0, 1], 2, 2, cores, &[&[0, 1], &[0, 1]]);
        // Not known at all.
        check(two, &[], 2, 2, cores, &[&[], &[]]);
        check(&[], &[0, 1], 1, 2, Bind::Numa, &[&[0], &[1]]);
        check(two, all, u32::MAX, 3, cores, &[all, all, all]);
    }

    #[test]
    fn memory_only_where_there_is_a_choice() {
        let memory = |numa: &Numa, bind| plan(&[4, 5], 1, 1, bind, numa)[0].memory.clone();
        let two = machine(&["0-3", "4-7"]);
        assert_eq!(memory(&two, Bind::Numa), [2]);
        assert!(memory(&two, Bind::Cores).is_empty());
        assert!(memory(&machine(&["0-7"]), Bind::Numa).is_empty());
        assert_eq!(plan(&[4, 5], 1, 1, Bind::Cores, &two)[0].numa_nodes(), [1]);
    }

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(numbers("0-2,8\n"), [0, 1, 2, 8]);
        assert!(numbers("\n").is_empty());
        assert_eq!(numbers("0-4294967295").len(), 8193);
    }

    #[test]
    fn a_bound_process_says_so() {
        // This thread only, and back again: other tests run beside it.
        let before = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let processors = crate::detect::processors();
        let last = *processors.last().unwrap();
        plan(&[last], 1, 1, Bind::Cores, &Numa::here())[0]
            .apply()
            .unwrap();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &before).unwrap();
        let allowed = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(allowed.map(str::trim), Some(last.to_string().as_str()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn shares_are_disjoint(
            processors in proptest::collection::btree_set(0u32..32, 1..32),
            each in 1u32..6,
            tasks in 1u32..12,
            bind in prop_oneof![Just(Bind::Cores), Just(Bind::Numa), Just(Bind::None)],
        ) {
            let numa = machine(&["0-7", "8-15", "16-23"]);
            let list: Vec<u32> = processors.iter().copied().collect();
            let got = plan(&list, each, tasks, bind, &numa);
            prop_assert_eq!(got.len(), tasks as usize);
            for task in &got {
                prop_assert!(!task.processors.is_empty());
                prop_assert!(task.processors.iter().all(|p| processors.contains(p)));
            }
            if bind == Bind::Cores && (tasks * each) as usize <= list.len() {
                let all: BTreeSet<u32> = got.iter().flat_map(|t| t.processors.clone()).collect();
                prop_assert_eq!(all.len(), (tasks * each) as usize);
                prop_assert!(got.iter().all(|t| t.processors.len() == each as usize));
            }
        }
    }
}
