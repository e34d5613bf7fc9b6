//! Tasks and edges without costs.

/// A graph: names of tasks, and edges from one to another, both as numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Names of the tasks, all different.
    pub names: Vec<String>,
    /// Indices of parent and child.
    pub edges: Vec<(usize, usize)>,
}

impl Shape {
    /// Number of tasks.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Adds a task behind others, and tells its number.
    pub(super) fn add(&mut self, name: impl Into<String>, parents: &[usize]) -> usize {
        let task = self.names.len();
        self.names.push(name.into());
        self.edges.extend(parents.iter().map(|from| (*from, task)));
        task
    }

    /// The level of each task: how many tasks come one after the other before it, at most.
    pub fn levels(&self) -> Vec<usize> {
        let mut edges = self.edges.clone();
        edges.sort_unstable();
        let mut levels = vec![0; self.count()];
        for (from, to) in edges {
            levels[to] = levels[to].max(levels[from] + 1);
        }
        levels
    }
}
