//! Trackable resources (TRES) of a job or step, as `squeue`, `sacct`, `scontrol` and their JSON tell
//! them. Source: squeue(1), sacct(1), captures of 22.05.

use crate::show::mebibytes;
use std::fmt;

/// What a job holds or asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tres {
    /// Cores; billed as many.
    pub cores: i64,
    /// Memory in MiB; 0 is not told.
    pub memory: u64,
    /// Number of nodes.
    pub nodes: i64,
    /// GPUs; 0 is not told.
    pub gpus: i64,
}

/// One kind of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// `cpu`, `mem`, `gres`.
    pub kind: &'static str,
    /// Which of that kind.
    pub name: Option<&'static str>,
    /// How many; of memory how many MiB.
    pub count: i64,
}

impl Item {
    const fn of(kind: &'static str, count: i64) -> Self {
        Self {
            kind,
            name: None,
            count,
        }
    }

    /// So many cores.
    pub const fn cores(count: i64) -> Self {
        Self::of("cpu", count)
    }

    /// So many nodes.
    pub const fn nodes(count: i64) -> Self {
        Self::of("node", count)
    }

    /// So many MiB of memory.
    pub fn memory(mebibytes: u64) -> Self {
        Self::of("mem", i64::try_from(mebibytes).unwrap_or(i64::MAX))
    }
}

impl Tres {
    /// Each of them, in Slurm's order.
    pub fn items(self) -> impl Iterator<Item = Item> {
        let gpus = Item {
            kind: "gres",
            name: Some("gpu"),
            count: self.gpus,
        };
        [
            Some(Item::cores(self.cores)),
            Some(Item::memory(self.memory)).filter(|memory| memory.count > 0),
            Some(Item::nodes(self.nodes)),
            Some(Item::of("billing", self.cores)),
            Some(gpus).filter(|gpus| gpus.count > 0),
        ]
        .into_iter()
        .flatten()
    }

    /// `billing=1,cpu=1,mem=100M,node=1`: by name, as the accounting does.
    pub fn by_name(self) -> String {
        let mut all: Vec<String> = self.items().map(|item| item.to_string()).collect();
        all.sort_unstable();
        all.join(",")
    }
}

/// As in `TRES=cpu=64,mem=6400M,node=4,billing=64`.
impl fmt::Display for Tres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.items().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.name) {
            ("mem", _) => write!(f, "mem={}", mebibytes(self.count.unsigned_abs())),
            (kind, Some(name)) => write!(f, "{kind}/{name}={}", self.count),
            (kind, None) => write!(f, "{kind}={}", self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let tres = Tres {
            cores: 64,
            memory: 6400,
            nodes: 4,
            gpus: 0,
        };
        assert_eq!(tres.to_string(), "cpu=64,mem=6400M,node=4,billing=64");
        assert_eq!(tres.by_name(), "billing=64,cpu=64,mem=6400M,node=4");
        let small = Tres {
            memory: 0,
            gpus: 2,
            ..tres
        };
        assert_eq!(small.to_string(), "cpu=64,node=4,billing=64,gres/gpu=2");
        assert_eq!(small.by_name(), "billing=64,cpu=64,gres/gpu=2,node=4");
    }
}
