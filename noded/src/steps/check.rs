//! Whether a step is one at all: limits on what was changed for, before anything is made of
//! it. What fits is the business of [`super::layout`].
//!
//! Pure.

use cosy_model::step::{
    DISPLAY_COOKIE_BYTES, JobPart, StepCommand, StepOrder, StepProgram, StepSpec,
};
use cosy_model::{OsText, limits};

/// Checks what a command asks for, whatever the job has.
///
/// # Errors
/// In one line, with figures.
pub fn spec(spec: &StepSpec) -> Result<(), String> {
    long("the step's name", spec.name.len(), limits::NAME_BYTES)?;
    long("the step's environment", spec.environment.0.len(), limits::ENVIRONMENT_BYTES)?;
    long("the working directory", spec.workdir.0.len(), limits::PATH_BYTES)?;
    if !spec.workdir.0.starts_with(b"/") {
        return Err("the working directory is no absolute path".to_owned());
    }
    if spec.rlimits.len() > limits::RLIMITS {
        return Err(format!(
            "{} resource limits are more than {}",
            spec.rlimits.len(),
            limits::RLIMITS
        ));
    }
    for name in spec.require.iter().chain(&spec.avoid) {
        long("a node's name", name.len(), limits::NAME_BYTES)?;
    }
    if spec.places.len() > limits::STEP_TASKS as usize {
        return Err(format!(
            "{} places of tasks are more than {}",
            spec.places.len(),
            limits::STEP_TASKS
        ));
    }
    for (name, _) in &spec.places {
        long("a node's name", name.len(), limits::NAME_BYTES)?;
    }
    let programs = spec.programs.len();
    if !(1..=limits::STEP_PROGRAMS).contains(&programs) {
        return Err(format!("a step has 1 to {} programs, not {programs}", limits::STEP_PROGRAMS));
    }
    spec.gpu_bind
        .check()
        .map_err(|why| format!("which GPUs tasks see: {why}"))?;
    if let Some(container) = &spec.container {
        container.check()?;
    }
    if let Some(display) = &spec.display {
        cookie(display.cookie.0.len())?;
    }
    spec.programs.iter().try_for_each(program)
}

/// Checks that some node of the job can have the GPUs that tasks are to see by their places.
///
/// # Errors
/// In one line, with figures.
pub fn gpus_by_place(spec: &StepSpec, parts: &[JobPart]) -> Result<(), String> {
    let of_step = spec.gpus_per_node.unwrap_or(u32::MAX);
    let most = parts.iter().map(|part| part.gpus.min(of_step)).max();
    match (spec.gpu_bind.highest(), most) {
        (Some(highest), Some(most)) if highest >= most => Err(format!(
            "a task is to see GPU {highest}, counted from 0 among those of the step, which has {most} on a node"
        )),
        _ => Ok(()),
    }
}

fn long(what: &str, length: usize, most: usize) -> Result<(), String> {
    match length > most {
        true => Err(format!("{what} has {length} bytes, which is more than {most}")),
        false => Ok(()),
    }
}

fn cookie(length: usize) -> Result<(), String> {
    match length == DISPLAY_COOKIE_BYTES {
        true => Ok(()),
        false => Err(format!(
            "the cookie for the display has {length} bytes, not {DISPLAY_COOKIE_BYTES}"
        )),
    }
}

fn program(program: &StepProgram) -> Result<(), String> {
    match &program.command {
        StepCommand::Run { argv, .. } => {
            if argv.first().is_none_or(|name| name.is_empty()) {
                return Err("a program of the step has no name".to_owned());
            }
            if argv.len() > limits::ARGUMENTS {
                return Err(format!(
                    "{} arguments are more than {}",
                    argv.len(),
                    limits::ARGUMENTS
                ));
            }
            let bytes: usize = argv.iter().map(|a: &OsText| a.0.len()).sum();
            long("the command line", bytes, limits::ENVIRONMENT_BYTES)
        }
        StepCommand::Receive { path, .. } => {
            long("the file's path", path.0.len(), limits::PATH_BYTES)
        }
    }
}

/// Checks that each of `tasks` ranks has exactly one program.
///
/// # Errors
/// In one line: a rank with none or two, or one that is not there.
pub fn ranks(programs: &[StepProgram], tasks: u32) -> Result<(), String> {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for program in programs {
        match program.ranks.is_empty() {
            true => all.push((0, tasks.saturating_sub(1))),
            false => all.extend(&program.ranks),
        }
    }
    all.sort_unstable();
    let mut next = 0;
    for (first, last) in all {
        if last < first || last >= tasks {
            return Err(format!(
                "a program is for ranks {first} to {last}, but the step has ranks 0 to {}",
                tasks.saturating_sub(1)
            ));
        }
        if first > next {
            return Err(format!("rank {next} has no program"));
        }
        if first < next {
            return Err(format!("rank {first} has two programs"));
        }
        next = last + 1;
    }
    match next < tasks {
        true => Err(format!("rank {next} has no program")),
        false => Ok(()),
    }
}

/// Whether layout and tree are ones at all: everything that is counted later stays within
/// limits.
///
/// # Errors
/// In one line: what does not fit.
pub fn order(order: &StepOrder) -> Result<(), String> {
    let bad = |what: &str| Err(format!("the order for step {}: {what}", order.key));
    let layout = &order.layout;
    let nodes = layout.nodes.len();
    if nodes > limits::NODES || layout.ranks.len() != nodes || layout.tasks > limits::STEP_TASKS {
        return bad("too large, or ranks do not fit the nodes");
    }
    if order.peers.len() != order.tree.len() {
        return bad("addresses do not fit the tree");
    }
    let mut seen = vec![false; nodes];
    for (number, peer) in order.tree.iter().zip(&order.peers) {
        let Some(name) = layout.nodes.get(*number as usize) else {
            return bad("the tree has nodes that are not in the layout");
        };
        if std::mem::replace(&mut seen[*number as usize], true) || *name != peer.node {
            return bad("a node twice, or an address of another one");
        }
    }
    let mut tasks: u64 = 0;
    for run in layout.ranks.iter().flatten() {
        let last = u64::from(run.stride)
            .saturating_mul(u64::from(run.count.saturating_sub(1)))
            .saturating_add(u64::from(run.first));
        if run.count == 0 || last >= u64::from(layout.tasks) {
            return bad("a rank beyond the last");
        }
        tasks += u64::from(run.count);
    }
    match tasks == u64::from(layout.tasks) {
        true => Ok(()),
        false => bad("not every rank is on one node"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::fixture;

    #[test]
    fn every_rank_has_one_program() {
        let check = |all: &[&[(u32, u32)]], expected: Result<(), &str>| {
            let programs: Vec<StepProgram> = all
                .iter()
                .map(|ranks| StepProgram {
                    ranks: ranks.to_vec(),
                    ..fixture::spec().programs.remove(0)
                })
                .collect();
            assert_eq!(ranks(&programs, 4), expected.map_err(str::to_owned));
        };
        check(&[&[]], Ok(()));
        check(&[&[(0, 0), (3, 3)], &[(1, 2)]], Ok(()));
        check(&[&[(0, 2)]], Err("rank 3 has no program"));
        check(&[&[(1, 3)]], Err("rank 0 has no program"));
        check(&[&[(0, 2)], &[(2, 3)]], Err("rank 2 has two programs"));
        check(&[&[], &[]], Err("rank 0 has two programs"));
        check(&[&[(0, 4)]], Err("a program is for ranks 0 to 4, but the step has ranks 0 to 3"));
        check(&[&[(3, 1)]], Err("a program is for ranks 3 to 1, but the step has ranks 0 to 3"));
    }

    #[test]
    fn limits_before_anything_else() {
        let check = |change: fn(&mut StepSpec), expected: &str| {
            let mut changed = fixture::spec();
            assert_eq!(spec(&changed), Ok(()));
            change(&mut changed);
            assert_eq!(spec(&changed), Err(expected.to_owned()));
        };
        check(
            |s| s.name = "x".repeat(256),
            "the step's name has 256 bytes, which is more than 255",
        );
        check(
            |s| {
                let mut options = cosy_model::ContainerOptions::default();
                options.apply("container-image", "x").unwrap();
                let mut container = options.container().unwrap().unwrap();
                container.env = vec!["-".to_owned()];
                s.container = Some(Box::new(container));
            },
            "--container-env: '-' is no name of a variable",
        );
        check(
            |s| {
                s.display = Some(cosy_model::step::DisplayRequest {
                    nodes: Default::default(),
                    cookie: OsText::from("short"),
                    screen: 0,
                });
            },
            "the cookie for the display has 5 bytes, not 16",
        );
        check(|s| s.programs.clear(), "a step has 1 to 4096 programs, not 0");
        check(|s| s.workdir = OsText::from("x"), "the working directory is no absolute path");
        check(
            |s| {
                s.programs[0].command = StepCommand::Run {
                    argv: Vec::new(),
                    expand: false,
                }
            },
            "a program of the step has no name",
        );
    }
}
