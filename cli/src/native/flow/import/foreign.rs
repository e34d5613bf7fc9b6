//! A workflow as read from the file of another system, in one form for all formats.

use crate::native::arg::parse_name;
use crate::native::flow::tree::{Node, ParseError};
use cosy_model::Span;
use cosy_model::limits::FLOW_TASKS;
use std::collections::{BTreeMap, BTreeSet};

/// A workflow of another system, as far as its file tells.
pub struct ForeignWorkflow {
    /// Name in the file; may be empty.
    pub name: String,
    /// Name and version of the format, like `Pegasus 5.0`.
    pub format: String,
    /// Tasks in the order of the file.
    pub tasks: Vec<ForeignTask>,
    /// Notes for the user about what could not be carried over.
    pub notes: Vec<String>,
}

/// A task of another system.
#[derive(Default)]
pub struct ForeignTask {
    /// Name, unique in the workflow.
    pub name: String,
    /// Line of the file on which the task begins, from 1.
    pub line: u32,
    /// Program and arguments; empty where the file gives none.
    pub command: Vec<String>,
    /// Run time that was measured or guessed there.
    pub estimate: Option<Span>,
    /// Keys for the task in a workflow file, with their values.
    pub keys: Vec<(&'static str, KeyValue)>,
    /// Names of the tasks that it waits for.
    pub parents: BTreeSet<String>,
    /// Files that it reads.
    pub inputs: Vec<String>,
    /// Files that it writes.
    pub outputs: Vec<String>,
    /// Data from each of its parents, in bytes.
    pub data_bytes: BTreeMap<String, u64>,
}

/// The value of a key in a workflow file.
pub enum KeyValue {
    /// A whole number.
    Number(u32),
    /// A text, written in quotes.
    Text(String),
}

impl ForeignTask {
    /// A task with a name that can be kept.
    ///
    /// # Errors
    /// The name cannot be kept.
    pub fn new(name: &str, line: u32) -> Result<Self, ParseError> {
        let name = parse_name(name).map_err(|e| ParseError::new(line, format!("a task: {e}")))?;
        Ok(Self {
            name,
            line,
            ..Self::default()
        })
    }

    /// A key with a number, when there is one that fits.
    pub fn number(&mut self, key: &'static str, number: Option<f64>, least: u32) {
        let whole = number
            .map(f64::ceil)
            .filter(|n| *n >= f64::from(least) && *n <= 1e6);
        if let Some(n) = whole {
            self.keys.push((key, KeyValue::Number(n as u32)));
        }
    }
}

/// A length of time in seconds, rounded up to the next millisecond; `None` when it is none.
pub fn seconds(number: Option<f64>) -> Option<Span> {
    let most = 10.0 * 366.0 * 86_400.0;
    let fine = number.filter(|n| n.is_finite() && *n >= 0.0 && *n <= most)?;
    // Decimals of a binary number: 13.25 stays 13.250, 0.1 does not become 0.101.
    let ms = (fine * 1000.0 - 1e-6).ceil().max(1.0);
    Some(Span(ms as i64))
}

/// The start of a note, with `{}` for what is missing: `3 tasks have {} (a, b, c)`. Only the first
/// names are shown.
pub fn tasks_note(names: &[&str]) -> String {
    const SHOWN_NAMES: usize = 3;
    let shown = names
        .iter()
        .take(SHOWN_NAMES)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    let more = match names.len().saturating_sub(SHOWN_NAMES) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let what = if names.len() == 1 {
        "task has"
    } else {
        "tasks have"
    };
    format!("{} {what} {{}} ({shown}{more})", names.len())
}

impl ForeignWorkflow {
    /// Checks that names are unique and all parents are there, finds dependencies that only
    /// files tell, and how much data goes along each.
    ///
    /// # Errors
    /// A name twice, a parent that is not there, too many tasks.
    pub fn connect(&mut self, sizes: &BTreeMap<String, u64>) -> Result<(), ParseError> {
        if self.tasks.len() > FLOW_TASKS {
            let n = self.tasks.len();
            let message = format!("{n} tasks are too many: a workflow has at most {FLOW_TASKS}");
            return Err(ParseError::new(0, message));
        }
        let names = self.names()?;
        for task in &self.tasks {
            if let Some(parent) = task.parents.iter().find(|p| !names.contains(*p)) {
                let message = format!(
                    "task '{}' waits for '{parent}', which is no task of this workflow",
                    task.name
                );
                return Err(ParseError::new(task.line, message));
            }
        }
        let producers = self.producers();
        self.infer(&producers);
        self.set_edge_data(&producers, sizes);
        Ok(())
    }

    fn names(&self) -> Result<BTreeSet<String>, ParseError> {
        let mut names = BTreeSet::new();
        for task in &self.tasks {
            if !names.insert(task.name.clone()) {
                let message = format!("there are two tasks '{}'", task.name);
                return Err(ParseError::new(task.line, message));
            }
        }
        Ok(names)
    }

    /// Names of the tasks that write each file.
    fn producers(&self) -> BTreeMap<String, Vec<String>> {
        let mut producers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for task in &self.tasks {
            for file in &task.outputs {
                producers
                    .entry(file.clone())
                    .or_default()
                    .push(task.name.clone());
            }
        }
        producers
    }

    /// Adds parents by files (a task waits for the writers of its inputs) where the file names no
    /// dependency at all.
    fn infer(&mut self, producers: &BTreeMap<String, Vec<String>>) {
        if self.tasks.iter().any(|t| !t.parents.is_empty()) {
            return;
        }
        let mut workflow = false;
        for task in &mut self.tasks {
            for file in &task.inputs {
                let from = producers.get(file).into_iter().flatten();
                let others =
                    from.filter(|name| **name != task.name && !task.outputs.contains(file));
                task.parents.extend(others.cloned());
            }
            workflow |= !task.parents.is_empty();
        }
        if workflow {
            let note = "it names no dependencies: they were worked out of their files".to_owned();
            self.notes.push(note);
        }
    }

    fn set_edge_data(
        &mut self,
        producers: &BTreeMap<String, Vec<String>>,
        sizes: &BTreeMap<String, u64>,
    ) {
        let mut unknown: BTreeSet<&str> = BTreeSet::new();
        for task in &mut self.tasks {
            let mut data: BTreeMap<String, u64> = BTreeMap::new();
            for file in &task.inputs {
                for parent in producers.get(file).into_iter().flatten() {
                    if !task.parents.contains(parent) {
                        continue;
                    }
                    if let Some(size) = sizes.get(file) {
                        let sum = data.entry(parent.clone()).or_default();
                        *sum = sum.saturating_add(*size).min(i64::MAX as u64);
                    } else if let Some((file, _)) = producers.get_key_value(file) {
                        unknown.insert(file);
                    }
                }
            }
            task.data_bytes = data;
        }
        if !unknown.is_empty() {
            let n = unknown.len();
            let first = unknown.first().copied().unwrap_or_default();
            let note =
                format!("{n} files have no size ({first} ...): their data counts as nothing");
            self.notes.push(note);
        }
    }

    /// Gives tasks without run time this one.
    pub fn estimate_missing(&mut self, default_estimate: Span) {
        let missing: Vec<&str> = self
            .tasks
            .iter()
            .filter(|t| t.estimate.is_none())
            .map(|t| t.name.as_str())
            .collect();
        if !missing.is_empty() {
            let shown = tasks_note(&missing).replace("{}", "no run time");
            let note = format!(
                "{shown}: estimated as {}; see --estimate",
                crate::native::resv::words::span(default_estimate)
            );
            self.notes.push(note);
        }
    }

    /// Gives tasks without command the word that stands for them, and notes it.
    pub fn name_commands(&mut self, word: impl Fn(&ForeignTask) -> String) {
        let mut missing = Vec::new();
        for task in &mut self.tasks {
            if task.command.is_empty() {
                task.command = vec![word(task)];
                missing.push(task.name.as_str());
            }
        }
        if !missing.is_empty() {
            let shown = tasks_note(&missing).replace("{}", "no command");
            self.notes
                .push(format!("{shown}: the name of its kind was written, put the real one there"));
        }
    }
}

/// The elements of a list as texts; others are left out.
pub fn words(list: &[Node]) -> Vec<String> {
    list.iter().filter_map(Node::word).collect()
}
