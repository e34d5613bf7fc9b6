//! The nodes of a job as its variables tell them, one in each line, for scripts that
//! would find it hard to unfold a host list.

use crate::Environment;
use cosy_model::{hostlist, variables};
use std::ffi::OsStr;
use std::fmt::Write as _;

/// Why the nodes of a job cannot be told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostsError {
    /// A variable that every job has is not there.
    #[error("{0} is not set")]
    Missing(&'static str),
    /// It does not say what it should.
    #[error("{name} is '{value}': {why}")]
    Bad {
        /// Name of the environment variable.
        name: &'static str,
        /// What the variable says, as it is.
        value: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Lines `NODE TASKS CORES`, in the order of the job, from `COSY_NODES`,
/// `COSY_TASKS_BY_NODE` and `COSY_CORES_PER_TASK`.
///
/// # Errors
/// [`HostsError`].
pub fn hosts(environment: &Environment) -> Result<String, HostsError> {
    let (list, tasks) =
        (text(environment, variables::NODES)?, text(environment, variables::TASKS_BY_NODE)?);
    let nodes =
        hostlist::expand(&list).map_err(|e| bad(variables::NODES, &list, &e.to_string()))?;
    let counts = counts(&tasks)?;
    if counts.len() != nodes.len() {
        let why = format!("{} names {} nodes", variables::NODES, nodes.len());
        return Err(bad(variables::TASKS_BY_NODE, &tasks, &why));
    }
    let cores = cores_per_task(environment);
    let mut lines = String::new();
    for (node, tasks) in nodes.iter().zip(counts) {
        let _ = writeln!(lines, "{node} {tasks} {}", tasks.saturating_mul(cores));
    }
    Ok(lines)
}

fn counts(tasks: &str) -> Result<Vec<u32>, HostsError> {
    let why = "it has to be a number for each node, with commas";
    variables::read_counts(tasks).ok_or_else(|| bad(variables::TASKS_BY_NODE, tasks, why))
}

fn cores_per_task(environment: &Environment) -> u32 {
    let cores = text(environment, variables::CORES_PER_TASK).ok();
    cores.and_then(|c| c.parse().ok()).unwrap_or(1).max(1)
}

fn text(environment: &Environment, name: &'static str) -> Result<String, HostsError> {
    environment
        .get(OsStr::new(name))
        .map(|v| v.to_string_lossy().into_owned())
        .ok_or(HostsError::Missing(name))
}

fn bad(name: &'static str, value: &str, why: &str) -> HostsError {
    HostsError::Bad {
        name,
        value: value.chars().take(60).collect(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: &str, tasks: &str, cores: &str, expected: Result<&str, &str>) {
        let environment = [
            ("COSY_NODES", nodes),
            ("COSY_TASKS_BY_NODE", tasks),
            ("COSY_CORES_PER_TASK", cores),
        ];
        let environment = environment.map(|(n, v)| (n.into(), v.into())).into();
        let got = hosts(&environment).map_err(|e| e.to_string());
        match expected {
            Ok(lines) => assert_eq!(got.as_deref(), Ok(lines)),
            Err(part) => assert!(got.clone().unwrap_err().contains(part), "{got:?}"),
        }
    }

    #[test]
    fn lines() {
        check("n[1-3]", "2,2,1", "2", Ok("n1 2 4\nn2 2 4\nn3 1 2\n"));
        check("n1", "8", "0", Ok("n1 8 8\n"));
        check("n[1-3]", "2,2", "1", Err("names 3 nodes"));
        check("n[1-", "2", "1", Err("COSY_NODES is 'n[1-'"));
        check("n1", "many", "1", Err("COSY_TASKS_BY_NODE is 'many'"));
        assert!(hosts(&Environment::new()).is_err());
    }
}
