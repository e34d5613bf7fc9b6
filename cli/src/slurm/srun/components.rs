//! Steps over several components of a heterogeneous job: one step with one count of ranks, whose
//! tasks are put on the nodes of the components, those of the lower components first.
//! Source: srun(1), `--het-group`; the original's guide to heterogeneous jobs.

use super::layout::layout;
use super::request::{ReadResult, SRUN, SrunOptions, read};
use super::step;
use super::step_options::no_bcast;
use crate::launch::options::RunOptions;
use crate::launch::spec::StepRequest;
use crate::slurm::submit;
use cosy_model::step::StepProgram;
use cosy_model::{OsText, expand, fold};
use cosy_slurm::environment::AllocationFacts;
use cosy_slurm::geometry::Layout;
use cosy_slurm::getopt::{GivenOption, UsageError};
use cosy_slurm::submit::Fault;
use cosy_slurm::submit::components::{COLON, passed_on};
use cosy_slurm::submit::count::NodeCount;
use std::ffi::OsString;

/// Options and program of each component of a command line.
pub type ComponentLine = Vec<(Vec<GivenOption>, Vec<OsString>)>;

/// Takes a command line apart at its colons. A component without a program runs that of the next
/// one.
///
/// # Errors
/// The first usage error behind a colon.
pub fn of_line(found: Vec<GivenOption>, words: Vec<OsString>) -> Result<ComponentLine, UsageError> {
    let (mut options, mut commands) = (Vec::new(), Vec::new());
    let (mut found, mut words) = (found, words);
    while let Some(at) = words.iter().position(|word| word == COLON) {
        let behind = words.split_off(at);
        options.push(std::mem::take(&mut found));
        commands.push(std::mem::take(&mut words));
        let (mut components, rest) = submit::components::next(SRUN, &behind[1..])?;
        (found, words) = (std::mem::take(&mut components), rest);
    }
    options.push(found);
    commands.push(words);
    for at in (1..commands.len()).rev() {
        if commands[at - 1].is_empty() {
            commands[at - 1] = commands[at].clone();
        }
    }
    Ok(passed_on(options).into_iter().zip(commands).collect())
}

/// Reads the options of all components; the first holds the others.
///
/// # Errors
/// A value that cannot be read.
pub fn read_all(line: ComponentLine) -> Result<ReadResult, Fault> {
    // In a heterogeneous job numbers in the environment are those of its first component.
    let inside = std::env::var_os("SLURM_HET_SIZE").is_some();
    let mut all = Vec::with_capacity(line.len());
    for (at, (found, command)) in line.into_iter().enumerate() {
        match read(&found, command, at == 0 && !inside)? {
            ReadResult::Request(srun_options) => all.push(*srun_options),
            ReadResult::Answered(code) => return Ok(ReadResult::Answered(code)),
        }
    }
    if all.len() > 1 {
        all.iter().try_for_each(|one| no_bcast(&one.step_options))?;
    }
    let further = all.split_off(all.len().min(1));
    match all.pop() {
        Some(first) => Ok(ReadResult::Request(Box::new(SrunOptions { further, ..first }))),
        None => Ok(ReadResult::Answered(crate::exit::FAILED)),
    }
}

/// The components of a heterogeneous job that a step runs in, in their order, each with what is
/// asked for there; none in a job of one component.
///
/// # Errors
/// A component that there is not, or that is named twice.
pub fn selected(
    srun_options: &SrunOptions,
    whole: Option<&AllocationFacts>,
) -> Result<Vec<(SrunOptions, AllocationFacts)>, Fault> {
    let components = whole.map_or(&[][..], |whole| &whole.components);
    if components.is_empty() && !srun_options.further.is_empty() {
        return Err(Fault::error(
            "parts of a step (':') need a heterogeneous job: ask for the parts with the job",
        ));
    }
    let last = u32::try_from(components.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let mut all: Vec<(u32, SrunOptions)> = Vec::new();
    for (at, one) in (0..).zip(std::iter::once(srun_options).chain(&srun_options.further)) {
        for group in one
            .step_options
            .het_groups
            .clone()
            .unwrap_or_else(|| vec![at])
        {
            if group > last {
                return Err(Fault::error(format!(
                    "Attempt to run a job step with het group value of {group}, but the job \
                     allocation has maximum value of {last}"
                )));
            }
            if all.iter().any(|(other, _)| *other == group) {
                let text = "Duplicate het groups in single srun not supported";
                return Err(Fault::fatal(text));
            }
            all.push((group, one.clone()));
        }
    }
    all.sort_by_key(|(group, _)| *group);
    let with_facts = |(group, one): (u32, SrunOptions)| {
        let component = components.get(group as usize)?;
        // Its tasks know the number of the whole job, as in the original.
        let job = whole.map(|whole| whole.job.clone())?;
        let component = AllocationFacts {
            job,
            ..component.clone()
        };
        Some((with_defaults(one, &component), component))
    };
    Ok(all.into_iter().filter_map(with_facts).collect())
}

/// The options of a component, with as many nodes and tasks as the component has where none are given.
fn with_defaults(mut srun_options: SrunOptions, component: &AllocationFacts) -> SrunOptions {
    let nodes = u32::try_from(component.tasks.len()).unwrap_or(u32::MAX);
    let tasks = component
        .tasks
        .iter()
        .fold(0, |sum: u32, n| sum.saturating_add(*n));
    srun_options.further.clear();
    let job_options = &mut srun_options.job_options;
    job_options.tasks.get_or_insert(tasks);
    job_options.nodes.get_or_insert(NodeCount {
        least: nodes,
        most: nodes,
    });
    srun_options
}

/// The nodes that a step in one component must not have.
pub fn nodes_of_others(whole: &AllocationFacts, component: &AllocationFacts) -> Vec<String> {
    let own = expand(&component.nodes).unwrap_or_default();
    let mut all = expand(&whole.nodes).unwrap_or_default();
    all.retain(|node| !own.contains(node));
    all
}

/// A step over several components.
pub struct ComponentStep {
    /// The part of the job that the step uses.
    pub facts: AllocationFacts,
    /// Numbers of nodes, tasks and cores over all components.
    pub layout: Layout,
    /// The node of each task.
    places: Vec<(String, u32)>,
    /// Tasks of each component.
    tasks: Vec<u32>,
}

impl ComponentStep {
    /// Puts the tasks on the nodes of the components.
    ///
    /// # Errors
    /// A component has fewer cores than its tasks need.
    pub fn new(
        chosen: &[(SrunOptions, AllocationFacts)],
        whole: &AllocationFacts,
    ) -> Result<Self, Fault> {
        let (mut places, mut tasks, mut cores) = (Vec::new(), Vec::new(), Vec::new());
        let mut cores_per_task = u32::MAX;
        for (srun_options, component) in chosen {
            let layout = layout(srun_options, Some(component))?;
            let own = tasks_by_node(srun_options, component, &layout).ok_or_else(|| {
                let job = &whole.job;
                Fault::error(format!(
                    "Unable to create step for job {job}: More processors requested than permitted"
                ))
            })?;
            cores_per_task = cores_per_task.min(layout.cores_per_task);
            tasks.push(layout.tasks);
            cores.extend(component.cores.iter().copied().take(own.len()));
            places.extend(own);
        }
        let names: Vec<&str> = places.iter().map(|(name, _)| name.as_str()).collect();
        let facts = AllocationFacts {
            nodes: fold(&names),
            tasks: places.iter().map(|(_, tasks)| *tasks).collect(),
            cores,
            components: Vec::new(),
            ..whole.clone()
        };
        let layout = Layout {
            nodes: u32::try_from(places.len()).unwrap_or(u32::MAX),
            tasks: tasks.iter().fold(0, |sum, n| sum.saturating_add(*n)),
            tasks_per_node: None,
            cores_per_task,
            warnings: Vec::new(),
        };
        Ok(Self {
            facts,
            layout,
            places,
            tasks,
        })
    }

    /// The request for the step with these variables, and its options.
    ///
    /// # Errors
    /// Files that cannot be read, a program that is none.
    pub fn request(
        &self,
        chosen: &[(SrunOptions, AllocationFacts)],
        environment: OsText,
    ) -> Result<(RunOptions, StepRequest), Fault> {
        let Some((first, _)) = chosen.first() else {
            return Err(Fault::error("a step needs a part to run in"));
        };
        let options = |srun_options: &SrunOptions| -> Result<RunOptions, Fault> {
            let mut options = step::options(srun_options, &Some(self.layout.clone()), true)?;
            options.places = self.places.clone();
            (options.job.require, options.job.avoid) = (Vec::new(), Vec::new());
            Ok(options)
        };
        let all = options(first)?;
        let mut request = step::request(first, &all, environment)?;
        let mut programs = Vec::new();
        let mut rank = 0u32;
        for ((srun_options, _), tasks) in chosen.iter().zip(&self.tasks) {
            let own = step::request(srun_options, &options(srun_options)?, OsText::default())?;
            let ranks = vec![(rank, rank.saturating_add(tasks.saturating_sub(1)))];
            rank = rank.saturating_add(*tasks);
            let own = own.spec.programs.into_iter();
            programs.extend(own.take(1).map(|program| StepProgram {
                ranks: ranks.clone(),
                ..program
            }));
        }
        if programs.iter().any(|p| p.command != programs[0].command) {
            request.spec.programs = programs;
        }
        Ok((all, request))
    }
}

/// Tasks on each node of a component: as the job has them where the step has the shape of the job,
/// else as many on each node as fit, at least one. `None` when they do not fit.
fn tasks_by_node(
    srun_options: &SrunOptions,
    component: &AllocationFacts,
    layout: &Layout,
) -> Option<Vec<(String, u32)>> {
    let names = expand(&component.nodes).ok()?;
    let nodes = layout.nodes as usize;
    let own: u32 = component
        .tasks
        .iter()
        .fold(0, |sum, n| sum.saturating_add(*n));
    let alike = nodes == component.tasks.len() && layout.tasks == own;
    if alike && layout.cores_per_task <= component.cores_per_task.unwrap_or(1) {
        return Some(
            names
                .into_iter()
                .zip(component.tasks.iter().copied())
                .collect(),
        );
    }
    let most = srun_options.line.tasks_per_node.unwrap_or(u32::MAX);
    let each = layout.cores_per_task.max(1);
    let (mut left, mut later) = (layout.tasks, layout.nodes);
    let mut all = Vec::with_capacity(nodes);
    for (name, cores) in names.into_iter().zip(&component.cores).take(nodes) {
        later = later.saturating_sub(1);
        let room = match srun_options.job_options.overcommit {
            true => left.div_ceil(later.saturating_add(1)),
            false => (cores / each).min(most),
        };
        let tasks = room.min(left.saturating_sub(later));
        left -= tasks;
        all.push((name, tasks));
    }
    let fine = left == 0 && all.len() == nodes && all.iter().all(|(_, tasks)| *tasks > 0);
    fine.then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn colons() {
        let check = |text: &str, want: &[(usize, &str)]| {
            let line = of_line(Vec::new(), words(text)).unwrap();
            let shown = |(found, command): &(Vec<GivenOption>, Vec<OsString>)| {
                let command: Vec<String> = command
                    .iter()
                    .map(|w| w.to_string_lossy().into_owned())
                    .collect();
                (found.len(), command.join(" "))
            };
            let got: Vec<(usize, String)> = line.iter().map(shown).collect();
            let want: Vec<(usize, String)> =
                want.iter().map(|(n, c)| (*n, (*c).to_owned())).collect();
            assert_eq!(got, want, "{text}");
        };
        check("a b", &[(0, "a b")]);
        check("a : -n2 b -n7", &[(0, "a"), (1, "b -n7")]);
        check(": -n2 -l : -n3 c", &[(0, "c"), (2, "c"), (2, "c")]);
    }

    #[test]
    fn tasks_on_nodes() {
        let component = |tasks: &[u32], cores: &[u32], each| AllocationFacts {
            nodes: format!("n[1-{}]", tasks.len()),
            tasks: tasks.to_vec(),
            cores: cores.to_vec(),
            cores_per_task: Some(each),
            ..AllocationFacts::default()
        };
        let check = |component: &AllocationFacts, nodes, tasks, each, want: Option<&[u32]>| {
            let layout = Layout {
                nodes,
                tasks,
                tasks_per_node: None,
                cores_per_task: each,
                warnings: Vec::new(),
            };
            let Ok(ReadResult::Request(srun_options)) = read(&[], words("a"), false) else {
                panic!("a program is enough")
            };
            let got = tasks_by_node(&srun_options, component, &layout);
            let got = got.map(|all| all.iter().map(|(_, n)| *n).collect::<Vec<_>>());
            assert_eq!(got.as_deref(), want, "{nodes} {tasks} {each}");
        };
        let two = component(&[3, 1], &[6, 2], 2);
        check(&two, 2, 4, 2, Some(&[3, 1]));
        check(&two, 2, 4, 1, Some(&[3, 1]));
        check(&two, 2, 3, 1, Some(&[2, 1]));
        check(&two, 1, 6, 1, Some(&[6]));
        check(&two, 2, 2, 2, Some(&[1, 1]));
        check(&two, 2, 9, 1, None);
        check(&two, 1, 4, 2, None);
    }
}
