//! How `srun` lays a step out in a job: nodes, tasks and cores for each task, from what the
//! job has and what was asked for.
//!
//! A step without `-c` and `--exact` uses in Slurm all cores that its job has on the step's
//! nodes. Here it takes the job's own cores for each task, so that several steps fit beside
//! each other, and fewer where its tasks would not fit otherwise. Source: srun(1); captures
//! sbatch-env-N2n4c2, srun-steps-in-batch, salloc-srun.

/// What the job has.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Cores of each node.
    pub cores: &'a [u32],
    /// Cores that it asked for for each task.
    pub cores_per_task: u32,
}

/// What was asked for of the step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepShape {
    /// Nodes, on the command line.
    pub nodes: Option<u32>,
    /// Tasks, on the command line.
    pub tasks: Option<u32>,
    /// Tasks on each node, on the command line.
    pub tasks_per_node: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: Option<u32>,
    /// Nodes, by the environment.
    pub usual_nodes: Option<u32>,
    /// Tasks, by the environment.
    pub usual_tasks: Option<u32>,
    /// Tasks on each node, by the environment.
    pub usual_tasks_per_node: Option<u32>,
}

/// How the step is to be laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Number of nodes, at least 1.
    pub nodes: u32,
    /// Number of tasks on all nodes together.
    pub tasks: u32,
    /// Most tasks on one node, where that matters.
    pub tasks_per_node: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: u32,
    /// What is said about it.
    pub warnings: Vec<String>,
}

/// More nodes than the job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Only allocated {has} nodes asked for {asked}")]
pub struct TooManyNodes {
    /// Of the job.
    pub has: u32,
    /// For the step.
    pub asked: u32,
}

/// Lays a step out.
///
/// # Errors
/// [`TooManyNodes`].
pub fn layout(job: Job<'_>, asked: StepShape) -> Result<Layout, TooManyNodes> {
    let has = u32::try_from(job.cores.len()).unwrap_or(u32::MAX).max(1);
    let mut warnings = Vec::new();
    let mut nodes = match (asked.nodes, asked.usual_nodes) {
        (Some(asked), _) if asked > has => return Err(TooManyNodes { has, asked }),
        (Some(nodes), _) => nodes,
        (None, usual) => usual.unwrap_or(has).clamp(1, has),
    };
    let dealt = |each: u32| each.saturating_mul(nodes);
    let tasks = asked
        .tasks
        .or_else(|| asked.tasks_per_node.map(dealt))
        .or(asked.usual_tasks)
        .or_else(|| asked.usual_tasks_per_node.map(dealt))
        .unwrap_or(nodes)
        .max(1);
    if tasks < nodes {
        warnings.push(format!(
            "Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"
        ));
        nodes = tasks;
    }
    let tasks_per_node = asked
        .tasks_per_node
        .or_else(|| balanced(job, nodes, tasks, asked));
    Ok(Layout {
        cores_per_task: cores(job, nodes, tasks, asked),
        nodes,
        tasks,
        tasks_per_node,
        warnings,
    })
}

/// Cores of each task where tasks are put on nodes one by one: as `usual`, or as many as all
/// can have. `room` has the cores of each node, and its tasks.
pub fn cores_of_arranged(room: impl Iterator<Item = (u32, u32)>, usual: u32) -> u32 {
    let each = room.filter_map(|(cores, tasks)| cores.checked_div(tasks));
    each.min().unwrap_or(1).clamp(1, usual.max(1))
}

/// As many on each node, where all have room for that.
fn balanced(job: Job<'_>, nodes: u32, tasks: u32, asked: StepShape) -> Option<u32> {
    let each = tasks.div_ceil(nodes.max(1));
    let cores = cores(job, nodes, tasks, asked);
    let first = job.cores.iter().take(nodes as usize);
    let fits = first.clone().all(|n| each.saturating_mul(cores) <= *n);
    (nodes > 1 && fits).then_some(each)
}

/// Cores of each task: as asked for, else the job's where so many tasks fit with them,
/// else as many as all tasks can have.
fn cores(job: Job<'_>, nodes: u32, tasks: u32, asked: StepShape) -> u32 {
    if let Some(cores) = asked.cores_per_task {
        return cores.max(1);
    }
    let usual = job.cores_per_task.max(1);
    let first = || job.cores.iter().take(nodes as usize);
    let room: u64 = first().map(|n| u64::from(n / usual)).sum();
    let alike = asked.tasks_per_node.is_none() && tasks == asked.usual_tasks.unwrap_or(tasks);
    let each = tasks.div_ceil(nodes.max(1));
    let everywhere = first().all(|n| each.saturating_mul(usual) <= *n);
    if room >= u64::from(tasks) && (everywhere || !alike) {
        return usual;
    }
    let least = first().map(|n| n / each.max(1)).min().unwrap_or(1);
    least.clamp(1, usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(cores: &[u32], each: u32, asked: StepShape, want: (u32, u32, Option<u32>, u32)) {
        let job = Job {
            cores,
            cores_per_task: each,
        };
        let got = layout(job, asked).unwrap();
        let shape = (got.nodes, got.tasks, got.tasks_per_node, got.cores_per_task);
        assert_eq!(shape, want, "{cores:?} {asked:?}");
    }

    fn usual(nodes: u32, tasks: u32) -> StepShape {
        StepShape {
            usual_nodes: Some(nodes),
            usual_tasks: Some(tasks),
            ..StepShape::default()
        }
    }

    #[test]
    fn cores_of_tasks_put_on_nodes_one_by_one() {
        let check = |room: &[(u32, u32)], usual, want| {
            assert_eq!(cores_of_arranged(room.iter().copied(), usual), want);
        };
        check(&[(4, 1), (4, 3)], 1, 1);
        check(&[(4, 1), (4, 2)], 4, 2);
        check(&[(4, 1), (4, 5)], 2, 1);
        check(&[(4, 0)], 2, 1);
        check(&[], 2, 1);
    }

    #[test]
    fn layouts() {
        // The captures: 2(x2) though the job has 3,1.
        check(&[6, 2], 2, usual(2, 4), (2, 4, Some(2), 1));
        check(&[16, 16], 1, usual(2, 6), (2, 6, Some(3), 1));
        // One task with the cores that the job asked for.
        check(&[8], 8, usual(1, 1), (1, 1, None, 8));
        // More tasks than the job has, each with fewer cores.
        let eight = StepShape {
            tasks: Some(8),
            ..usual(1, 1)
        };
        check(&[8], 8, eight, (1, 8, None, 1));
        let one = StepShape {
            tasks: Some(1),
            nodes: Some(1),
            ..usual(2, 4)
        };
        check(&[4, 4], 2, one, (1, 1, None, 2));
        let each = StepShape {
            tasks_per_node: Some(1),
            ..usual(2, 8)
        };
        check(&[4, 4], 1, each, (2, 2, Some(1), 1));
        check(&[4, 4], 1, StepShape::default(), (2, 2, Some(1), 1));
        let cores = StepShape {
            cores_per_task: Some(3),
            ..usual(1, 1)
        };
        check(&[8], 1, cores, (1, 1, None, 3));
    }

    #[test]
    fn fewer_tasks_than_nodes() {
        let job = Job {
            cores: &[3, 1],
            cores_per_task: 1,
        };
        let asked = StepShape {
            tasks: Some(1),
            ..usual(2, 4)
        };
        let got = layout(job, asked).unwrap();
        assert_eq!(
            got.warnings,
            ["Warning: can't run 1 processes on 2 nodes, setting nnodes to 1"]
        );
        let asked = StepShape {
            nodes: Some(3),
            ..usual(2, 4)
        };
        let error = layout(job, asked).unwrap_err();
        assert_eq!(error.to_string(), "Only allocated 2 nodes asked for 3");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_numbers(
            cores in proptest::collection::vec(any::<u32>(), 0..5),
            each in any::<u32>(),
            numbers in proptest::collection::vec(proptest::option::of(any::<u32>()), 7),
        ) {
            let job = Job { cores: &cores, cores_per_task: each };
            let asked = StepShape {
                nodes: numbers[0],
                tasks: numbers[1],
                tasks_per_node: numbers[2],
                cores_per_task: numbers[3],
                usual_nodes: numbers[4],
                usual_tasks: numbers[5],
                usual_tasks_per_node: numbers[6],
            };
            if let Ok(layout) = layout(job, asked) {
                prop_assert!(layout.tasks >= 1 && layout.cores_per_task >= 1);
            }
        }
    }
}
