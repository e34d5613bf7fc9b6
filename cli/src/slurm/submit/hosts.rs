//! Tasks that are put on hosts one by one: `-m arbitrary` with `-w`, or with the file that
//! `SLURM_HOSTFILE` names. Source: srun(1), "--distribution", "SLURM_HOSTFILE".

use super::files;
use cosy_model::expand;
use cosy_model::limits::STEP_TASKS;
use cosy_slurm::submit::Fault;
use cosy_slurm::submit::count::NodeCount;
use cosy_slurm::submit::distribution::Nodes;
use cosy_slurm::submit::options::SubmitOptions;
use cosy_slurm::submit::spec::NODE_NAME;
use std::ffi::OsStr;

/// Names a file with a host for each task.
const HOSTFILE: &str = "SLURM_HOSTFILE";

/// The host of each task, where these are told one by one. With `always` the file counts
/// whatever distribution is asked for.
///
/// # Errors
/// A list that cannot be read, none where one is needed, or one that is too short.
pub fn arbitrary_hosts(
    job_options: &SubmitOptions,
    always: bool,
) -> Result<Option<Vec<String>>, Fault> {
    let distribution = job_options.distribution.as_ref();
    let arbitrary = distribution.is_some_and(|d| d.nodes == Nodes::Arbitrary);
    let file = std::env::var_os(HOSTFILE).filter(|f| !f.is_empty());
    let text = match (&job_options.nodelist, file) {
        (Some(list), _) if arbitrary && list.contains('/') => files::hosts(OsStr::new(list))?,
        (Some(list), _) if arbitrary => list.clone(),
        (None, Some(file)) if arbitrary || always => files::hosts(&file)?,
        (None, None) if arbitrary => {
            return Err(Fault::error(
                "With Arbitrary distribution you need to specify a nodelist or hostfile with \
                 the -w option",
            ));
        }
        (Some(_), _) | (None, _) => return Ok(None),
    };
    names(&text).map(Some)
}

/// The hosts of the first so many tasks; none where they are not told one by one.
///
/// # Errors
/// There are fewer hosts than tasks.
pub fn of_tasks(hosts: Option<&Vec<String>>, tasks: Option<u32>) -> Result<Vec<String>, Fault> {
    let Some(hosts) = hosts else {
        return Ok(Vec::new());
    };
    let tasks = tasks.map_or(hosts.len(), |n| n as usize);
    let has = hosts.len();
    let first = hosts.get(..tasks).ok_or_else(|| {
        let text = format!("{tasks} tasks are asked for, but the list of hosts has only {has}");
        Fault::error(text)
    })?;
    Ok(first.to_vec())
}

/// Host lists separated by commas, each perhaps several times: `n[1-3],n5*2`.
fn names(text: &str) -> Result<Vec<String>, Fault> {
    let bad = || Fault::refusal(NODE_NAME);
    let mut all = Vec::new();
    for part in split(text).filter(|part| !part.is_empty()) {
        let (list, times) = match part.split_once('*') {
            Some((list, times)) => (list, times.parse().map_err(|_| bad())?),
            None => (part, 1usize),
        };
        let list = expand(list).map_err(|_| bad())?;
        if list.len().saturating_mul(times) > STEP_TASKS as usize - all.len() {
            return Err(bad());
        }
        (0..times).for_each(|_| all.extend_from_slice(&list));
    }
    match all.is_empty() {
        true => Err(bad()),
        false => Ok(all),
    }
}

/// Parts between commas that are not in brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |c: char| {
        inside = c == '[' || inside && c != ']';
        c == ',' && !inside
    })
}

/// Consecutive tasks on the same host together.
pub fn runs(hosts: &[String]) -> Vec<(String, u32)> {
    let same = hosts.chunk_by(|a, b| a == b);
    let count = |run: &[String]| u32::try_from(run.len()).unwrap_or(u32::MAX);
    same.map(|run| (run[0].clone(), count(run))).collect()
}

/// Each host once, with its number of tasks.
pub fn counts(hosts: &[String]) -> Vec<(String, u32)> {
    let mut sorted: Vec<String> = hosts.to_vec();
    sorted.sort_unstable();
    runs(&sorted)
}

/// Asks for a job on those hosts that has room for all their tasks.
pub fn ask_for(hosts: &[String], job_options: &mut SubmitOptions) {
    let counts = counts(hosts);
    let nodes = u32::try_from(counts.len()).unwrap_or(u32::MAX);
    let most = counts.iter().map(|c| c.1).max().unwrap_or(1);
    let names: Vec<&str> = counts.iter().map(|c| &*c.0).collect();
    job_options.nodelist = Some(names.join(","));
    job_options.nodes = Some(NodeCount {
        least: nodes,
        most: nodes,
    });
    // The planner deals tasks out evenly, so each node gets as many as the one with most.
    (job_options.tasks, job_options.tasks_per_node) = (None, Some(most));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let check = |text: &str, want: Option<&str>| {
            let got = names(text).ok().map(|n| n.join(" "));
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("n3,n1,n2", Some("n3 n1 n2"));
        check("n[3,1],n2", Some("n3 n1 n2"));
        check("n1,n1,n2", Some("n1 n1 n2"));
        check("n1*2,n[2-3]*2", Some("n1 n1 n2 n3 n2 n3"));
        check("", None);
        check("n1*x", None);
        check("n[1", None);
        check("n1*99999999999", None);
    }

    #[test]
    fn tasks_and_hosts() {
        let hosts = names("n2,n1,n1,n2").unwrap();
        let run = |name: &str, count| (name.to_owned(), count);
        assert_eq!(runs(&hosts), [run("n2", 1), run("n1", 2), run("n2", 1)]);
        let three = of_tasks(Some(&hosts), Some(3)).unwrap();
        assert_eq!(counts(&three), [run("n1", 2), run("n2", 1)]);
        assert!(of_tasks(Some(&hosts), Some(5)).is_err());
        assert_eq!(of_tasks(None, Some(5)), Ok(Vec::new()));
        let mut job_options = SubmitOptions::default();
        ask_for(&three, &mut job_options);
        assert_eq!(job_options.nodelist.as_deref(), Some("n1,n2"));
        assert_eq!((job_options.tasks, job_options.tasks_per_node), (None, Some(2)));
    }
}
