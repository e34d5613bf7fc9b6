//! Jobs of several components: what stands between `:`, and what a component takes over from the
//! ones before it. Source: the original's guide to heterogeneous jobs, "Submitting Jobs".

use super::options::SubmitOptions;
use super::{Fault, gres, spec, spread};
use crate::getopt::GivenOption;
use cosy_model::api::NodeInfo;
use cosy_model::job::FurtherComponent;
use cosy_model::limits::FURTHER_COMPONENTS;
use cosy_model::{CountedResources, JobSpec, OsText};

/// The highest number of a component that is read.
const MOST: u32 = 8 * FURTHER_COMPONENTS as u32;

/// Between the options of two components.
pub const COLON: &str = ":";

/// Options about the resources and places of one component alone; all others count for the
/// components behind as well.
const OWN: &[&str] = &[
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "ntasks-per-core",
    "ntasks-per-socket",
    "ntasks-per-gpu",
    "cpus-per-task",
    "cpus-per-gpu",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "tmp",
    "constraint",
    "prefer",
    "partition",
    "nodelist",
    "nodefile",
    "exclusive",
    "oversubscribe",
    "overcommit",
    "contiguous",
    "switches",
    "segment",
    "spread-job",
    "use-min-nodes",
    "licenses",
    "gres",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "cores-per-socket",
    "sockets-per-node",
    "threads-per-core",
    "extra-node-info",
    "core-spec",
    "thread-spec",
    "array",
    "wrap",
    "test-only",
    "het-group",
    "relative",
    "multi-prog",
];

/// Whether an option is about one component alone.
pub fn is_own(found: &GivenOption) -> bool {
    OWN.contains(&found.name)
}

/// Reads a list of components: `0`, `0,2`, `0-2`; ascending, each once.
///
/// # Errors
/// What cannot be read.
pub fn numbers(text: &str) -> Result<Vec<u32>, Fault> {
    let bad = || {
        let text: String = text.chars().take(200).collect();
        Fault::error(format!("Invalid value \"{text}\" for --het-group"))
    };
    let number = |text: &str| -> Result<u32, Fault> {
        let number = text.trim().parse::<u32>().map_err(|_| bad())?;
        Some(number).filter(|n| *n <= MOST).ok_or_else(bad)
    };
    let mut all = std::collections::BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        if last < first {
            return Err(bad());
        }
        all.extend(first..=last);
    }
    Ok(all.into_iter().collect())
}

/// Each component's options with those that it takes over.
pub fn passed_on(components: Vec<Vec<GivenOption>>) -> Vec<Vec<GivenOption>> {
    let mut before: Vec<GivenOption> = Vec::new();
    let mut all = Vec::with_capacity(components.len());
    for own in components {
        let whole = [&before[..], &own].concat();
        let lasts = |found: &&GivenOption| !is_own(found);
        before = whole.iter().filter(lasts).cloned().collect();
        all.push(whole);
    }
    all
}

/// Gives a job its further components; `nodes` gives those of the cluster, only where they matter.
///
/// # Errors
/// Too many components, or values that cannot be read.
pub fn add(
    nodes: &dyn Fn() -> Vec<NodeInfo>,
    further: Vec<SubmitOptions>,
    job: &mut JobSpec,
) -> Result<(), Fault> {
    if further.len() > FURTHER_COMPONENTS {
        let most = FURTHER_COMPONENTS + 1;
        return Err(Fault::error(format!("a job has at most {most} parts")));
    }
    if further.is_empty() {
        return Ok(());
    }
    // Each component is in one partition.
    job.queues.clear();
    let first_cores = leave_numbers(&mut job.environment);
    let cores = further.iter().map(|job_options| job_options.cores_per_task);
    tell_cores(std::iter::once(first_cores).chain(cores), &mut job.environment);
    let first = job.name.clone();
    for job_options in further {
        let (component, licenses) = component(nodes, job_options, &first)?;
        for (name, count) in licenses.iter() {
            let before = job.licenses.get(name);
            job.licenses.set(name, before.saturating_add(count));
        }
        job.further_components.push(component);
    }
    Ok(())
}

/// Numbers of the first component that a step in another component would take for its own.
const NUMBERS: [&str; 4] = [
    "SLURM_CPUS_PER_TASK=",
    "SLURM_NTASKS_PER_NODE=",
    "SLURM_GPUS_PER_NODE=",
    "SLURM_GPUS_PER_TASK=",
];

/// Removes these variables from those of the script, where the variables of a component have its
/// number in their names. Gives the cores of each task, if they were set.
fn leave_numbers(environment: &mut OsText) -> Option<u32> {
    let parts = || environment.0.split(|b| *b == 0);
    let cores = parts().find_map(|v| v.strip_prefix(NUMBERS[0].as_bytes()));
    let cores = cores.and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
    let others = |variable: &&[u8]| {
        let named = |name: &&str| variable.starts_with(name.as_bytes());
        !NUMBERS.iter().any(named)
    };
    let kept = environment.0.split(|b| *b == 0).filter(others);
    environment.0 = kept.collect::<Vec<_>>().join(&0);
    cores
}

/// Adds the cores of each task of each component, where they were asked for.
fn tell_cores(components: impl Iterator<Item = Option<u32>>, environment: &mut OsText) {
    for (at, cores) in components.enumerate() {
        let Some(cores) = cores else { continue };
        for kind in ["HET", "PACK"] {
            let variable = format!("SLURM_CPUS_PER_TASK_{kind}_GROUP_{at}={cores}");
            if !environment.0.is_empty() && environment.0.last() != Some(&0) {
                environment.0.push(0);
            }
            environment.0.extend_from_slice(variable.as_bytes());
        }
    }
}

fn component(
    nodes: &dyn Fn() -> Vec<NodeInfo>,
    mut job_options: SubmitOptions,
    first: &str,
) -> Result<(FurtherComponent, CountedResources), Fault> {
    spread::over_nodes(nodes, &mut job_options);
    let licenses = match &job_options.licenses {
        Some(text) => gres::licenses(text)?,
        None => CountedResources::default(),
    };
    let name = job_options.name.as_deref().map(spec::job_name);
    let component = FurtherComponent {
        name: name.filter(|name| name != first),
        queue: spec::queue(&job_options),
        request: spec::request(&job_options)?,
    };
    Ok((component, licenses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn numbers_of_components() {
        let check = |text: &str, want: Option<&[u32]>| {
            assert_eq!(numbers(text).ok().as_deref(), want, "{text}");
        };
        check("0", Some(&[0]));
        check("0,2", Some(&[0, 2]));
        check("2,0-1", Some(&[0, 1, 2]));
        check("", None);
        check("a", None);
        check("2-1", None);
        check("0-4000000000", None);
    }

    #[test]
    fn what_counts_for_later_components() {
        let found = |words: &[(&'static str, &str)]| -> Vec<GivenOption> {
            let one = |(name, value): &(&'static str, &str)| GivenOption {
                name,
                value: Some(OsString::from(value)),
            };
            words.iter().map(one).collect()
        };
        let components = vec![
            found(&[("ntasks", "1"), ("job-name", "a"), ("time", "5")]),
            found(&[("ntasks", "4"), ("job-name", "b")]),
            found(&[]),
        ];
        let texts = |component: &Vec<GivenOption>| -> Vec<String> {
            component
                .iter()
                .map(|f| format!("{}={}", f.name, f.text()))
                .collect()
        };
        let got: Vec<Vec<String>> = passed_on(components).iter().map(texts).collect();
        assert_eq!(got[1], ["job-name=a", "time=5", "ntasks=4", "job-name=b"]);
        assert_eq!(got[2], ["job-name=a", "time=5", "job-name=b"]);
    }
}
