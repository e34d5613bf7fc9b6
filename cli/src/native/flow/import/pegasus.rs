//! Reads Pegasus 5 YAML: jobs, the files that they use, their dependencies, and the profiles that
//! tell run times and resources.
//!
//! Source: the schema of abstract workflows of Pegasus 5.0.

use super::foreign::{ForeignTask, ForeignWorkflow, KeyValue, seconds, tasks_note, words};
use crate::native::flow::tree::{Node, ParseError, Value};
use cosy_model::limits::FLOW_RETRIES;
use std::collections::BTreeMap;

/// Reads the whole file.
///
/// # Errors
/// The first error in the file, with its line.
pub fn read(tree: &Node) -> Result<ForeignWorkflow, ParseError> {
    let version = tree.word_of("pegasus").unwrap_or_else(|| "?".to_owned());
    let mut foreign = ForeignWorkflow {
        name: tree.word_of("name").unwrap_or_default(),
        format: format!("Pegasus {version}"),
        tasks: Vec::new(),
        notes: Vec::new(),
    };
    let programs = Programs::of(tree);
    let mut sizes = BTreeMap::new();
    let mut with_variables = Vec::new();
    let jobs = tree
        .get("jobs")
        .map(|n| n.list("jobs"))
        .transpose()?
        .unwrap_or_default();
    for node in jobs {
        let task = job(node, &programs, &mut sizes)?;
        if profile(node, &programs, "env").next().is_some() {
            with_variables.push(task.name.clone());
        }
        foreign.tasks.push(task);
    }
    if foreign.tasks.is_empty() {
        return Err(ParseError::new(0, "there are no jobs in it"));
    }
    dependencies(&mut foreign, tree)?;
    foreign.connect(&sizes)?;
    leave_out(&mut foreign, tree, &with_variables);
    Ok(foreign)
}

/// The transformations that the file itself describes, by name.
struct Programs<'a>(BTreeMap<String, &'a Node>);

impl<'a> Programs<'a> {
    fn of(tree: &'a Node) -> Self {
        let catalog = tree.get("transformationCatalog");
        let all = catalog
            .map(|c| c.items("transformations"))
            .unwrap_or_default();
        Self(
            all.iter()
                .filter_map(|t| Some((t.word_of("name")?, t)))
                .collect(),
        )
    }

    fn get(&self, job: &Node) -> Option<&'a Node> {
        self.0.get(&job.word_of("name")?).copied()
    }

    /// The absolute path of a job's program, where the file gives one.
    fn path(&self, job: &Node) -> Option<String> {
        let sites = self.get(job)?.items("sites");
        let pfn = sites.iter().find_map(|s| s.word_of("pfn"))?;
        let path = pfn.strip_prefix("file://").unwrap_or(&pfn);
        path.starts_with('/').then(|| path.to_owned())
    }
}

/// Entries of a namespace of profiles, the job's own first.
fn profile<'a>(
    job: &'a Node,
    programs: &Programs<'a>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a str, &'a Node)> {
    let own = Some(job).into_iter().chain(programs.get(job));
    own.filter_map(move |n| n.get("profiles")?.get(namespace))
        .flat_map(|n| match &n.value {
            Value::Table(entries) => entries.iter().map(|e| (e.key.as_str(), &e.node)).collect(),
            _ => Vec::new(),
        })
}

fn number<'a>(job: &'a Node, programs: &Programs<'a>, of: &[(&'a str, &str)]) -> Option<f64> {
    of.iter().find_map(|(namespace, key)| {
        let mut all = profile(job, programs, namespace);
        let (_, node) = all.find(|(name, _)| name.eq_ignore_ascii_case(key))?;
        let number: f64 = node.word()?.trim().parse().ok()?;
        number.is_finite().then_some(number)
    })
}

fn job(
    node: &Node,
    programs: &Programs<'_>,
    sizes: &mut BTreeMap<String, u64>,
) -> Result<ForeignTask, ParseError> {
    node.table("a job")?;
    let id = node
        .word_of("id")
        .ok_or_else(|| ParseError::new(node.line, "a job without id"))?;
    if let Some(kind) = node.word_of("type").filter(|kind| kind != "job") {
        let message =
            format!("job '{id}' is a workflow of its own ({kind}): import that by itself");
        return Err(ParseError::new(node.line, message));
    }
    let mut task = ForeignTask::new(&id, node.line)?;
    let program = programs
        .path(node)
        .or(node.word_of("name"))
        .unwrap_or_else(|| id.clone());
    task.command = vec![program];
    task.command.extend(arguments(node.items("arguments")));
    for file in node.items("uses") {
        uses(&mut task, file, sizes);
    }
    for (key, ours) in [
        ("stdin", "input"),
        ("stdout", "output"),
        ("stderr", "error"),
    ] {
        let name = node.get(key).and_then(file_name);
        task.keys.extend(name.map(|n| (ours, KeyValue::Text(n))));
    }
    needs(&mut task, node, programs);
    Ok(task)
}

/// Words, or files by their names.
fn arguments(list: &[Node]) -> Vec<String> {
    list.iter().filter_map(file_name).collect()
}

fn file_name(node: &Node) -> Option<String> {
    node.word().or_else(|| node.word_of("lfn"))
}

fn uses(task: &mut ForeignTask, file: &Node, sizes: &mut BTreeMap<String, u64>) {
    let inner = file.get("file");
    let Some(name) = file.word_of("lfn").or(inner.and_then(|f| f.word_of("lfn"))) else {
        return;
    };
    let metadata = [Some(file), inner]
        .into_iter()
        .flatten()
        .find_map(|f| f.get("metadata"));
    let size = metadata
        .and_then(|m| m.number_of("size"))
        .or(file.number_of("size"));
    if let Some(size) = size.filter(|n| (0.0..9.2e18).contains(n)) {
        sizes.insert(name.clone(), size as u64);
    }
    let kind = file.word_of("type").unwrap_or_default();
    if matches!(kind.as_str(), "input" | "inout") {
        task.inputs.push(name.clone());
    }
    if matches!(kind.as_str(), "output" | "inout" | "checkpoint") {
        task.outputs.push(name);
    }
}

/// Run time, cores, memory, GPUs, retries as profiles have them.
fn needs(task: &mut ForeignTask, job: &Node, programs: &Programs<'_>) {
    let get = |of: &[(&'static str, &'static str)]| number(job, programs, of);
    let minutes = get(&[("globus", "maxwalltime")]).map(|m| m * 60.0);
    task.estimate = seconds(get(&[("pegasus", "runtime")]).or(minutes)).filter(|s| s.ms() > 1);
    task.number("nodes", get(&[("pegasus", "nodes"), ("globus", "hostcount")]), 2);
    let cores = get(&[("pegasus", "cores"), ("condor", "request_cpus")]);
    task.number("cores_per_task", cores, 2);
    task.number("gpus", get(&[("pegasus", "gpus"), ("condor", "request_gpus")]), 1);
    let memory = get(&[("pegasus", "memory"), ("condor", "request_memory")]);
    if let Some(mib) = memory.map(f64::ceil).filter(|m| (1.0..1e12).contains(m)) {
        task.keys
            .push(("memory", KeyValue::Text(format!("{mib}M"))));
    }
    let retries = get(&[("dagman", "retry")]).map(|n| n.min(f64::from(FLOW_RETRIES)));
    task.number("retries", retries, 1);
}

fn dependencies(foreign: &mut ForeignWorkflow, tree: &Node) -> Result<(), ParseError> {
    let index_by_name: BTreeMap<String, usize> = foreign
        .tasks
        .iter()
        .enumerate()
        .map(|(at, t)| (t.name.clone(), at))
        .collect();
    for node in tree.items("jobDependencies") {
        let parent = node
            .word_of("id")
            .ok_or_else(|| ParseError::new(node.line, "jobDependencies: 'id' is missing"))?;
        for child in words(node.items("children")) {
            let at = index_by_name.get(&child).ok_or_else(|| {
                let message = format!("jobDependencies: there is no job '{child}'");
                ParseError::new(node.line, message)
            })?;
            foreign.tasks[*at].parents.insert(parent.clone());
        }
    }
    Ok(())
}

/// Adds notes about parts of the file that a workflow file has no place for.
fn leave_out(foreign: &mut ForeignWorkflow, tree: &Node, with_variables: &[String]) {
    if !with_variables.is_empty() {
        let names: Vec<&str> = with_variables.iter().map(String::as_str).collect();
        let note = tasks_note(&names).replace("{}", "variables of their own");
        foreign
            .notes
            .push(format!("{note}: left out; 'environment' in [workflow] sets those of all tasks"));
    }
    let parts = [
        "siteCatalog",
        "replicaCatalog",
        "transformationCatalog",
        "hooks",
    ];
    for part in parts {
        let note = match part {
            "transformationCatalog" => "only paths and profiles of its programs were taken",
            "replicaCatalog" => "left out: files must be in the tasks' working directory",
            _ => "left out",
        };
        if tree.get(part).is_some() {
            foreign.notes.push(format!("{part}: {note}"));
        }
    }
}
