//! Where tasks run: the nodes of the job, with their cores; outside of a job, this machine.

use crate::exit;
use anyhow::Context as _;
use cosy_model::{hostlist, variables};
use std::env::VarError;

/// Places on one node, at most: each has a process and two pipes.
const NODE_SLOTS: u32 = 4096;

/// A node with places for tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether this program runs there, with all that the job has there.
    pub here: bool,
    /// Cores for tasks.
    pub cores: u32,
    /// Tasks at once.
    pub slots: u32,
}

/// What the environment says of the job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// Nodes of the job as a host list.
    pub nodes: Option<String>,
    /// Cores of the job on each, `4,4,2`.
    pub cores_by_node: Option<String>,
    /// Node that this program runs on, where it is one of the job.
    pub here: Option<String>,
    /// Tasks of the step that this program is one of.
    pub step_tasks: Option<String>,
    /// Cores that this program may use.
    pub own_cores: u32,
}

impl Surroundings {
    /// Those of this program.
    ///
    /// # Errors
    /// A variable is no text.
    pub fn read() -> anyhow::Result<Self> {
        let get = |name: &str| match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(VarError::NotPresent) => Ok(None),
            Err(e) => Err(e).with_context(|| format!("the variable {name}")),
        };
        let own = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            nodes: get(variables::NODES)?.filter(|nodes| !nodes.is_empty()),
            cores_by_node: get(variables::CORES_BY_NODE)?,
            here: get(variables::NODENAME)?,
            step_tasks: get(variables::STEP_TASKS)?,
            own_cores: u32::try_from(own).unwrap_or(u32::MAX),
        })
    }

    /// The nodes with their places: so many tasks of so many cores at once.
    ///
    /// # Errors
    /// The variables make no sense, or there is no place.
    pub fn nodes(&self, jobs: Option<u32>, cores: u32) -> anyhow::Result<Vec<Node>> {
        let mut nodes = self.without_slots()?;
        match jobs {
            Some(jobs) => spread(&mut nodes, jobs),
            None => nodes
                .iter_mut()
                .for_each(|node| node.slots = node.cores / cores),
        }
        if jobs.is_none() && nodes.iter().all(|node| node.slots == 0) {
            let most = nodes.iter().map(|node| node.cores).max().unwrap_or(0);
            return Err(exit::usage(format!(
                "--cores-per-task {cores}: no node of the job has more than {most} cores"
            )));
        }
        nodes.retain(|node| node.slots > 0);
        if let Some(node) = nodes.iter().find(|node| node.slots > NODE_SLOTS) {
            return Err(exit::usage(format!(
                "{} tasks at once on node {}: at most {NODE_SLOTS} run on one",
                node.slots, node.name
            )));
        }
        Ok(nodes)
    }

    fn without_slots(&self) -> anyhow::Result<Vec<Node>> {
        let alone = |name: &str| Node {
            name: name.to_owned(),
            here: true,
            cores: self.own_cores,
            slots: 0,
        };
        let here = self.here.as_deref();
        match self.step_tasks.as_deref() {
            // A step of one task runs its tasks with what the step has.
            Some("1") => return Ok(vec![alone(here.unwrap_or("localhost"))]),
            Some(tasks) => {
                return Err(exit::usage(format!(
                    "this is one of {tasks} tasks of a step, and each of them would run all inputs: \
                     call cosy each in the job's script, or with one task"
                )));
            }
            None => {}
        }
        let Some(nodes) = self.nodes.as_deref() else {
            return Ok(vec![alone("localhost")]);
        };
        let names = hostlist::expand(nodes)
            .with_context(|| format!("{} is '{nodes}'", variables::NODES))?;
        let text = self.cores_by_node.as_deref().unwrap_or_default();
        let counts = variables::read_counts(text)
            .filter(|counts| counts.len() == names.len())
            .with_context(|| format!("{} is '{text}'", variables::CORES_BY_NODE))?;
        let node = |(name, cores): (String, u32)| Node {
            here: here == Some(name.as_str()),
            name,
            cores,
            slots: 0,
        };
        Ok(names.into_iter().zip(counts).map(node).collect())
    }
}

/// Deals `jobs` places out in proportion to the cores; the first nodes get what is left over.
fn spread(nodes: &mut [Node], jobs: u32) {
    let all: u64 = nodes.iter().map(|node| u64::from(node.cores)).sum();
    let mut left = jobs;
    for node in &mut *nodes {
        let share = u64::from(jobs) * u64::from(node.cores) / all.max(1);
        node.slots = u32::try_from(share).unwrap_or(u32::MAX).min(left);
        left -= node.slots;
    }
    for node in nodes.iter_mut().take(left as usize) {
        node.slots += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(nodes: &str, cores: &str, here: Option<&str>) -> Surroundings {
        Surroundings {
            nodes: Some(nodes.to_owned()),
            cores_by_node: Some(cores.to_owned()),
            here: here.map(str::to_owned),
            step_tasks: None,
            own_cores: 8,
        }
    }

    fn slots(around: &Surroundings, jobs: Option<u32>, cores: u32) -> Vec<(String, bool, u32)> {
        let nodes = around.nodes(jobs, cores).unwrap();
        nodes
            .into_iter()
            .map(|n| (n.name, n.here, n.slots))
            .collect()
    }

    #[test]
    fn places_follow_the_cores() {
        let check = |jobs, cores, want: &[(&str, bool, u32)]| {
            let around = inside("n[1-3]", "4,4,2", Some("n1"));
            let want: Vec<_> = want
                .iter()
                .map(|(n, h, s)| ((*n).to_owned(), *h, *s))
                .collect();
            assert_eq!(slots(&around, jobs, cores), want, "{jobs:?} {cores}");
        };
        check(None, 1, &[("n1", true, 4), ("n2", false, 4), ("n3", false, 2)]);
        check(None, 4, &[("n1", true, 1), ("n2", false, 1)]);
        check(Some(10), 1, &[("n1", true, 4), ("n2", false, 4), ("n3", false, 2)]);
        check(Some(12), 1, &[("n1", true, 5), ("n2", false, 5), ("n3", false, 2)]);
        check(Some(1), 1, &[("n1", true, 1)]);
        check(Some(100), 1, &[("n1", true, 40), ("n2", false, 40), ("n3", false, 20)]);
    }

    #[test]
    fn where_the_program_is() {
        let shell = inside("n[1-2]", "2,2", None);
        assert!(shell.nodes(None, 1).unwrap().iter().all(|node| !node.here));
        let outside = Surroundings {
            own_cores: 8,
            ..Surroundings::default()
        };
        assert_eq!(slots(&outside, None, 2), [("localhost".to_owned(), true, 4)]);
        let step = Surroundings {
            step_tasks: Some("1".to_owned()),
            ..inside("n[1-2]", "2,2", Some("n2"))
        };
        assert_eq!(slots(&step, Some(3), 1), [("n2".to_owned(), true, 3)]);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let check = |around: &Surroundings, jobs, cores, want: &str| {
            let said = format!("{:#}", around.nodes(jobs, cores).unwrap_err());
            assert!(said.contains(want), "{said}");
        };
        check(&inside("n[1-2]", "2", None), None, 1, "COSY_CORES_BY_NODE is '2'");
        check(&inside("n[1-", "2", None), None, 1, "COSY_NODES is 'n[1-'");
        check(&inside("n1", "2", None), None, 3, "no node of the job has more than 2 cores");
        check(&inside("n1", "2", None), Some(5000), 1, "at most 4096 run on one");
        let step = Surroundings {
            step_tasks: Some("4".to_owned()),
            ..Surroundings::default()
        };
        check(&step, None, 1, "one of 4 tasks of a step");
    }
}
