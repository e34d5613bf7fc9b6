//! WfCommons JSON: `workflow.specification` and `workflow.execution` (WfFormat 1.5 on), and
//! `workflow.tasks` or `workflow.jobs` with their files inside (up to 1.4).
//!
//! Source: the WfFormat schema of the WfCommons project.

use super::foreign::{ForeignTask, ForeignWorkflow, seconds, words};
use crate::native::flow::tree::{Node, ParseError};
use std::collections::{BTreeMap, BTreeSet};

/// Reads the whole file.
///
/// # Errors
/// The first error in the file, with its line.
pub fn read(tree: &Node) -> Result<ForeignWorkflow, ParseError> {
    let version = tree
        .word_of("schemaVersion")
        .unwrap_or_else(|| "?".to_owned());
    let mut foreign = ForeignWorkflow {
        name: tree.word_of("name").unwrap_or_default(),
        format: format!("WfCommons {version}"),
        tasks: Vec::new(),
        notes: Vec::new(),
    };
    let workflow = tree
        .get("workflow")
        .ok_or_else(|| ParseError::new(0, "no 'workflow'"))?;
    workflow.table("workflow")?;
    let sizes = match workflow.get("specification") {
        Some(specification) => read_format_1_5(&mut foreign, workflow, specification)?,
        None => read_older_format(&mut foreign, workflow)?,
    };
    if foreign.tasks.is_empty() {
        return Err(ParseError::new(workflow.line, "there are no tasks in it"));
    }
    foreign.connect(&sizes)?;
    leave_out(&mut foreign, workflow);
    Ok(foreign)
}

fn size(node: &Node) -> Option<u64> {
    let bytes = node.number_of("sizeInBytes").or(node.number_of("size"))?;
    (0.0..9.2e18).contains(&bytes).then_some(bytes as u64)
}

/// Reads the tasks of WfFormat 1.5 and later; gives the sizes of files by their ids.
fn read_format_1_5(
    foreign: &mut ForeignWorkflow,
    workflow: &Node,
    specification: &Node,
) -> Result<BTreeMap<String, u64>, ParseError> {
    let files = specification.items("files").iter();
    let sizes = files
        .filter_map(|f| Some((f.word_of("id")?, size(f)?)))
        .collect();
    let execution = workflow.get("execution");
    let runs = execution.map(|e| e.items("tasks")).unwrap_or_default();
    let runs: BTreeMap<String, &Node> = runs
        .iter()
        .filter_map(|r| Some((r.word_of("id")?, r)))
        .collect();
    let mut kinds = BTreeMap::new();
    let mut children = Vec::new();
    for node in required_list(specification, "tasks")? {
        let mut task = new_task(node, &["id", "name"])?;
        kinds.insert(task.name.clone(), node.word_of("name").unwrap_or_default());
        task.parents = words(node.items("parents")).into_iter().collect();
        children.push((task.name.clone(), words(node.items("children"))));
        task.inputs = words(node.items("inputFiles"));
        task.outputs = words(node.items("outputFiles"));
        if let Some(run) = runs.get(&task.name) {
            add_run(&mut task, run);
        }
        foreign.tasks.push(task);
    }
    add_children(foreign, children);
    foreign.name_commands(|t| match kinds.get(&t.name) {
        Some(kind) if !kind.is_empty() => kind.clone(),
        _ => t.name.clone(),
    });
    Ok(sizes)
}

/// Up to WfFormat 1.4, where tasks are named by their names.
fn read_older_format(
    foreign: &mut ForeignWorkflow,
    workflow: &Node,
) -> Result<BTreeMap<String, u64>, ParseError> {
    let key = if workflow.get("tasks").is_some() {
        "tasks"
    } else {
        "jobs"
    };
    let mut sizes = BTreeMap::new();
    let mut children = Vec::new();
    let mut by_id = BTreeMap::new();
    let mut categories = BTreeMap::new();
    for node in required_list(workflow, key)? {
        let mut task = new_task(node, &["name", "id"])?;
        if let Some(id) = node.word_of("id") {
            by_id.insert(id, task.name.clone());
        }
        if let Some(category) = node.word_of("category") {
            categories.insert(task.name.clone(), category);
        }
        task.parents = words(node.items("parents")).into_iter().collect();
        children.push((task.name.clone(), words(node.items("children"))));
        for file in node.items("files") {
            add_old_file(&mut task, file, &mut sizes);
        }
        add_run(&mut task, node);
        foreign.tasks.push(task);
    }
    add_children(foreign, children);
    resolve(foreign, &by_id);
    foreign.name_commands(|t| categories.get(&t.name).unwrap_or(&t.name).clone());
    Ok(sizes)
}

fn add_old_file(task: &mut ForeignTask, file: &Node, sizes: &mut BTreeMap<String, u64>) {
    let Some(name) = file.word_of("name").or(file.word_of("id")) else {
        return;
    };
    let path = file.word_of("path").unwrap_or_default();
    let name = format!("{path}{name}");
    if let Some(size) = size(file) {
        sizes.insert(name.clone(), size);
    }
    match file.word_of("link").as_deref() {
        Some("input") => task.inputs.push(name),
        _ => task.outputs.push(name),
    }
}

/// Replaces ids by names where a file names parents by their ids.
fn resolve(foreign: &mut ForeignWorkflow, by_id: &BTreeMap<String, String>) {
    let names: BTreeSet<String> = foreign.tasks.iter().map(|t| t.name.clone()).collect();
    for task in &mut foreign.tasks {
        let known = |p: &String| match by_id.get(p) {
            Some(name) if !names.contains(p) => name.clone(),
            _ => p.clone(),
        };
        task.parents = task.parents.iter().map(known).collect();
    }
}

fn required_list<'a>(node: &'a Node, key: &str) -> Result<&'a [Node], ParseError> {
    match node.get(key) {
        Some(list) => list.list(key),
        None => Err(ParseError::new(node.line, format!("there are no tasks in it: no '{key}'"))),
    }
}

fn new_task(node: &Node, keys: &[&str]) -> Result<ForeignTask, ParseError> {
    node.table("a task")?;
    let name = keys.iter().find_map(|key| node.word_of(key));
    let name = name.ok_or_else(|| ParseError::new(node.line, "a task without name"))?;
    ForeignTask::new(&name, node.line)
}

/// Takes over run time, command and cores from the record of a run.
fn add_run(task: &mut ForeignTask, run: &Node) {
    let time = run
        .number_of("runtimeInSeconds")
        .or(run.number_of("runtime"));
    task.estimate = seconds(time);
    if let Some(command) = run.get("command") {
        let program = command.word_of("program").filter(|p| !p.is_empty());
        if let Some(program) = program {
            task.command = vec![program];
            task.command.extend(words(command.items("arguments")));
        }
    }
    let cores = run.number_of("coreCount").or(run.number_of("cores"));
    task.number("cores_per_task", cores, 2);
}

/// Adds dependencies that the file gives only at the parent.
fn add_children(foreign: &mut ForeignWorkflow, children: Vec<(String, Vec<String>)>) {
    let index_by_name: BTreeMap<String, usize> = foreign
        .tasks
        .iter()
        .enumerate()
        .map(|(at, t)| (t.name.clone(), at))
        .collect();
    for (parent, of) in children {
        for child in of {
            // A file of an old format may name the child by its id; the child then names its parent
            // itself.
            if let Some(at) = index_by_name.get(&child) {
                foreign.tasks[*at].parents.insert(parent.clone());
            }
        }
    }
}

/// Adds notes about parts of the file that a workflow file has no place for.
fn leave_out(foreign: &mut ForeignWorkflow, workflow: &Node) {
    let execution = workflow.get("execution").unwrap_or(workflow);
    if !execution.items("machines").is_empty() {
        foreign.notes.push(
            "the machines that it ran on were left out: give node sets with other speeds in [speeds]".to_owned(),
        );
    }
    foreign.notes.push(
        "files are not carried to where tasks run: they must be in their working directory"
            .to_owned(),
    );
}
