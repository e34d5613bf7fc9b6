//! A graph as JSON:
//!
//! ```json
//! {
//!   "format": "cosy-dag-1",
//!   "made_by": "--dag laplace --tasks 60 --machines 2 --seed 1",
//!   "unit_us": [[0, 900], [900, 0]],
//!   "tasks": [{"name": "cell0_0", "estimates_ms": [17000, 19000]}, ...],
//!   "edges": [{"from": "cell0_0", "to": "cell0_1", "data": 14000}, ...]
//! }
//! ```
//!
//! `unit_us`: how many microseconds a unit of data takes from the machine of the row to that
//! of the column. `estimates_ms`: one for each machine, `null` where the task cannot run.
//! `made_by` is a remark and may be missing.

use super::{Graph, MOST_MACHINES, MOST_TASKS};
use cosy_sched::workflow::DagError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the format.
pub const FORMAT: &str = "cosy-dag-1";
/// Largest file that is read.
pub const MOST_BYTES: usize = 256 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphFile {
    format: String,
    #[serde(default)]
    made_by: String,
    unit_us: Vec<Vec<i64>>,
    tasks: Vec<Task>,
    edges: Vec<Edge>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    name: String,
    estimates_ms: Vec<Option<i64>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edge {
    from: String,
    to: String,
    data: i64,
}

/// Why a text is no graph.
#[derive(Debug, thiserror::Error)]
pub enum GraphFileError {
    /// Not JSON of this shape.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Its field `format` is not [`FORMAT`]; holds what it is.
    #[error("the format is '{0}'; this program reads '{FORMAT}'")]
    Format(String),
    /// Too much of it.
    #[error("{found} {what}; at most {most} are read")]
    TooMany {
        /// What there is too much of: `tasks` or `machines`.
        what: &'static str,
        /// How many the file has.
        found: usize,
        /// How many are read at most.
        most: usize,
    },
    /// Two tasks have this name.
    #[error("two tasks are called '{0}'")]
    Twice(String),
    /// An edge names a task that there is not.
    #[error("the edge from '{from}' to '{to}': there is no task '{missing}'")]
    Unknown {
        /// Name of the parent.
        from: String,
        /// Name of the child.
        to: String,
        /// The task that is missing.
        missing: String,
    },
    /// `unit_us` is no square of times.
    #[error("unit_us must have a row and a column for each machine, and no time below 0")]
    Units,
    /// The estimates of a task.
    #[error("task '{0}': estimates_ms must have one for each machine, from 0 to a thousand years")]
    Estimates(String),
    /// A task fits no machine.
    #[error("task '{0}' can run on no machine")]
    Nowhere(String),
    /// An edge to itself, or with negative data.
    #[error("the edge from '{0}' to '{1}': not to itself, and no negative data")]
    Edge(String, String),
    /// Tasks wait for each other.
    #[error("tasks wait for each other: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// The list of tasks is empty.
    #[error("there are no tasks")]
    Empty,
}

/// A graph as text; `made_by` is a remark.
pub fn write(graph: &Graph, made_by: &str) -> String {
    let name = |task: usize| graph.names[task].clone();
    let tasks = graph.names.iter().zip(&graph.estimates_ms);
    let edge = |(from, to, data): &(usize, usize, i64)| Edge {
        from: name(*from),
        to: name(*to),
        data: *data,
    };
    let file = GraphFile {
        format: FORMAT.to_owned(),
        made_by: made_by.to_owned(),
        unit_us: graph.unit_us.clone(),
        tasks: tasks.map(|(name, row)| task(name, row)).collect(),
        edges: graph.edges.iter().map(edge).collect(),
    };
    serde_json::to_string(&file).unwrap_or_default() + "\n"
}

fn task(name: &str, estimates_ms: &[Option<i64>]) -> Task {
    Task {
        name: name.to_owned(),
        estimates_ms: estimates_ms.to_vec(),
    }
}

/// The graph that a text holds; it can be planned.
///
/// # Errors
/// [`GraphFileError`].
pub fn read(text: &str) -> Result<Graph, GraphFileError> {
    let file: GraphFile = serde_json::from_str(text)?;
    if file.format != FORMAT {
        return Err(GraphFileError::Format(file.format));
    }
    limited("tasks", file.tasks.len(), MOST_TASKS)?;
    limited("machines", file.unit_us.len(), MOST_MACHINES)?;
    let numbers = numbers(&file.tasks)?;
    let edges = file.edges.into_iter().map(|edge| numbered(edge, &numbers));
    let edges = edges.collect::<Result<_, _>>()?;
    let tasks = file.tasks.into_iter();
    let (names, estimates_ms) = tasks.map(|task| (task.name, task.estimates_ms)).unzip();
    let graph = Graph {
        names,
        estimates_ms,
        edges,
        unit_us: file.unit_us,
    };
    sound(&graph)?;
    Ok(graph)
}

fn limited(what: &'static str, found: usize, most: usize) -> Result<(), GraphFileError> {
    match found > most {
        true => Err(GraphFileError::TooMany { what, found, most }),
        false => Ok(()),
    }
}

fn numbers(tasks: &[Task]) -> Result<BTreeMap<String, usize>, GraphFileError> {
    let mut numbers = BTreeMap::new();
    for (number, task) in tasks.iter().enumerate() {
        if numbers.insert(task.name.clone(), number).is_some() {
            return Err(GraphFileError::Twice(task.name.clone()));
        }
    }
    Ok(numbers)
}

fn numbered(
    edge: Edge,
    numbers: &BTreeMap<String, usize>,
) -> Result<(usize, usize, i64), GraphFileError> {
    let number = |name: &String| {
        numbers
            .get(name)
            .copied()
            .ok_or_else(|| GraphFileError::Unknown {
                from: edge.from.clone(),
                to: edge.to.clone(),
                missing: name.clone(),
            })
    };
    Ok((number(&edge.from)?, number(&edge.to)?, edge.data))
}

fn sound(graph: &Graph) -> Result<(), GraphFileError> {
    let name = |task: usize| graph.names[task].clone();
    let mut rows = graph.unit_us.iter();
    let square = rows.all(|row| row.len() == graph.unit_us.len());
    let none = graph.unit_us.is_empty();
    if none || !square || graph.unit_us.iter().flatten().any(|us| *us < 0) {
        return Err(GraphFileError::Units);
    }
    match graph.planned() {
        Ok(_) => Ok(()),
        Err(DagError::Empty) => Err(GraphFileError::Empty),
        Err(DagError::Estimate(task)) => Err(GraphFileError::Estimates(name(task))),
        Err(DagError::Nowhere(task)) => Err(GraphFileError::Nowhere(name(task))),
        Err(DagError::Edge(from, to)) => Err(GraphFileError::Edge(name(from), name(to))),
        Err(DagError::Cycle(tasks)) => {
            Err(GraphFileError::Cycle(tasks.into_iter().map(name).collect()))
        }
    }
}
