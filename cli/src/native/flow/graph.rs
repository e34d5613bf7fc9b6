//! The edges between tasks: finds parents by name, and refuses cycles, naming their tasks.

use crate::native::flow::amounts;
use crate::native::flow::tree::{Fields, Node, ParseError, Value};
use cosy_model::limits::FLOW_EDGES;
use cosy_model::workflow::FlowEdge;
use std::collections::{BTreeMap, BTreeSet};

/// Names of a cycle that a message shows, at most.
const SHOWN_NAMES: usize = 12;

/// A task by name, and the list of those that it waits for.
pub struct TaskParents<'a> {
    /// Name of the task.
    pub name: &'a str,
    /// Line of the file on which the task stands, from 1.
    pub line: u32,
    /// The value of `after`; `None` where the task has none.
    pub after: Option<&'a Node>,
}

/// The edges of all tasks, by task and in the order of the file.
///
/// # Errors
/// A name twice, a parent that is not there, a circle, too many edges.
pub fn edges(tasks: &[TaskParents<'_>]) -> Result<Vec<FlowEdge>, ParseError> {
    let index_by_name = index_by_name(tasks)?;
    let mut edges = Vec::new();
    for (to, task) in tasks.iter().enumerate() {
        let Some(after) = task.after else { continue };
        let mut seen = BTreeSet::new();
        for parent in parents(after, task.name)? {
            let Some(from) = index_by_name.get(parent.name.as_str()) else {
                return Err(unknown(task.name, &parent, &index_by_name));
            };
            if !seen.insert(*from) {
                let message = format!("task '{}' waits for '{}' twice", task.name, parent.name);
                return Err(ParseError::new(parent.line, message));
            }
            if edges.len() >= FLOW_EDGES {
                let message = format!("too many edges: at most {FLOW_EDGES} are allowed");
                return Err(ParseError::new(parent.line, message));
            }
            edges.push(FlowEdge {
                from: *from,
                to: index(to),
                data_bytes: parent.data_bytes,
            });
        }
    }
    check_acyclic(tasks, &edges)?;
    Ok(edges)
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn index_by_name<'a>(tasks: &[TaskParents<'a>]) -> Result<BTreeMap<&'a str, u32>, ParseError> {
    let mut index_by_name = BTreeMap::new();
    for (at, task) in tasks.iter().enumerate() {
        if let Some(first) = index_by_name.insert(task.name, index(at)) {
            let first = tasks[first as usize].line;
            return Err(ParseError::new(
                task.line,
                format!("there are two tasks '{}': the first on line {first}", task.name),
            ));
        }
    }
    Ok(index_by_name)
}

struct Parent {
    name: String,
    line: u32,
    data_bytes: u64,
}

/// `"a"`, `["a", { task = "b", data = "2G" }]`.
fn parents(after: &Node, task: &str) -> Result<Vec<Parent>, ParseError> {
    let what = format!("task '{task}', after");
    match &after.value {
        Value::List(list) => list.iter().map(|node| parent(node, &what)).collect(),
        Value::Text(_) | Value::Table(_) => Ok(vec![parent(after, &what)?]),
        _ => Err(after.type_error(&what, "a list of tasks")),
    }
}

fn parent(node: &Node, what: &str) -> Result<Parent, ParseError> {
    if let Value::Text(name) = &node.value {
        return Ok(Parent {
            name: name.clone(),
            line: node.line,
            data_bytes: 0,
        });
    }
    if !matches!(node.value, Value::Table(_)) {
        return Err(
            node.type_error(what, "the name of a task, or { task = \"a\", data = \"2G\" },")
        );
    }
    let mut fields = Fields::new(what, node)?;
    let name = fields.take("task").ok_or_else(|| {
        ParseError::new(node.line, format!("{what}: 'task' is missing: which one?"))
    })?;
    let name = name.text(what)?.to_owned();
    let data = fields.take("data");
    let data = data.map(|n| amounts::bytes_in(n, &format!("{what} '{name}', data")));
    fields.finish()?;
    Ok(Parent {
        name,
        line: node.line,
        data_bytes: data.transpose()?.unwrap_or(0),
    })
}

fn unknown(task: &str, parent: &Parent, index_by_name: &BTreeMap<&str, u32>) -> ParseError {
    let near = cosy_model::near::nearest(&parent.name, index_by_name.keys().copied());
    let hint = near.map_or_else(String::new, |n| format!("; is '{n}' meant?"));
    let name = &parent.name;
    ParseError::new(
        parent.line,
        format!("task '{task}' waits for '{name}', which is no task of this workflow{hint}"),
    )
}

/// State of a task in the search for cycles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    OnPath,
    Done,
}

/// Searches for cycles depth first, from child to parent, without recursion.
fn check_acyclic(tasks: &[TaskParents<'_>], edges: &[FlowEdge]) -> Result<(), ParseError> {
    let mut parents: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for edge in edges {
        parents[edge.to as usize].push(edge.from as usize);
    }
    let mut marks = vec![Visit::New; tasks.len()];
    for root in 0..tasks.len() {
        if marks[root] != Visit::New {
            continue;
        }
        marks[root] = Visit::OnPath;
        let mut path = vec![(root, 0)];
        while let Some((at, next)) = path.last_mut() {
            let (here, parent) = (*at, parents[*at].get(*next).copied());
            *next += 1;
            match parent.map(|p| (p, marks[p])) {
                None => {
                    marks[here] = Visit::Done;
                    path.pop();
                }
                Some((p, Visit::New)) => {
                    marks[p] = Visit::OnPath;
                    path.push((p, 0));
                }
                Some((p, Visit::OnPath)) => return Err(cycle_error(tasks, &path, p)),
                Some((_, Visit::Done)) => {}
            }
        }
    }
    Ok(())
}

/// The error for the cycle that closes at `closing`; names tasks in the order in which they would
/// run.
fn cycle_error(tasks: &[TaskParents<'_>], path: &[(usize, usize)], closing: usize) -> ParseError {
    let from = path.iter().position(|(at, _)| *at == closing).unwrap_or(0);
    let all: Vec<usize> = path[from..].iter().rev().map(|(at, _)| *at).collect();
    let mut names: Vec<&str> = vec![tasks[closing].name];
    names.extend(all.iter().take(SHOWN_NAMES).map(|at| tasks[*at].name));
    let mut text = names.join(" -> ");
    if all.len() > SHOWN_NAMES {
        let more = all.len() - SHOWN_NAMES;
        text.push_str(&format!(" -> ({more} more) -> {}", tasks[closing].name));
    }
    ParseError::new(
        tasks[closing].line,
        format!("the tasks wait for each other in a circle: {text}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::tree::toml;

    fn made(text: &str) -> Result<Vec<(u32, u32, u64)>, String> {
        let node = toml::read(text).unwrap();
        let tasks: Vec<_> = node
            .table("x")
            .unwrap()
            .iter()
            .map(|e| TaskParents {
                name: &e.key,
                line: e.line,
                after: Some(&e.node),
            })
            .collect();
        let edges = edges(&tasks).map_err(|e| e.to_string())?;
        Ok(edges.iter().map(|e| (e.from, e.to, e.data_bytes)).collect())
    }

    #[test]
    fn edges_are_found() {
        let text = "a = []\nb = 'a'\nc = ['b', { task = 'a', data = '2K' }]\n";
        assert_eq!(made(text).unwrap(), [(0, 1, 0), (1, 2, 0), (0, 2, 2048)]);
    }

    #[test]
    fn nonsense() {
        let check = |text: &str, want: &str| {
            let error = made(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        };
        check("a = 'a'", "circle: a -> a");
        check(
            "x = []\na = ['x', 'c']\nb = 'a'\nc = 'b'",
            "line 2: the tasks wait for each other in a circle: a -> b -> c -> a",
        );
        check(
            "build = []\na = 'biuld'",
            "line 2: task 'a' waits for 'biuld', which is no task of this workflow; is 'build' meant?",
        );
        check("a = []\nb = ['a', 'a']", "waits for 'a' twice");
        check("a = []\nb = [{ task = 'a', data = -1 }]", "'-1' is no amount of data");
        check("a = []\nb = [{ task = 'a', size = 1 }]", "no key 'size'");
        check("a = []\nb = [{ data = 1 }]", "'task' is missing");
        check("a = 7", "a list of tasks is needed, not a number");
        check("a = [7]", "the name of a task");
    }

    #[test]
    fn long_circles_are_cut() {
        let mut text = String::from("t0 = 't9999'\n");
        for n in 1..10_000 {
            text.push_str(&format!("t{n} = 't{}'\n", n - 1));
        }
        let error = made(&text).unwrap_err();
        assert!(error.contains("more) -> t0") && error.len() < 300, "{error}");
    }
}
