//! The `SLURM_*` variables: what a command gives its job, what a batch script finds, what
//! an allocation's command finds, what a task finds.
//!
//! ```text
//! sbatch, salloc, srun   Requested         what was asked for, and from where
//! node, batch script     AllocationFacts   what the job got (read from Cosy's own variables)
//! node, task             Step              the step, over the job's
//! ```
//!
//! As in Slurm, what depends on whether an option was given (`SLURM_NTASKS`) is set by the
//! command that was given it, and everything else where it is known. Old and new names are
//! always set together: MPI launchers give up when one is missing.
//!
//! Pure. Sources: sbatch(1), srun(1), salloc(1), "OUTPUT ENVIRONMENT VARIABLES"; captures
//! sbatch-env-*, srun-env-*, salloc-env-*.

use cosy_view::words::by_node;
use std::borrow::Cow;

mod facts;
mod requested;
mod step;

pub use facts::{AllocationFacts, ArrayFacts, Memory, cluster_of};
pub use requested::Requested;
pub use step::{Step, gpus};

/// Where Slurm's own configuration is by default; programs look whether this is set.
pub const CONF: &str = "/etc/slurm/slurm.conf";

/// Variables in the order in which they are set; a later one of the same name wins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Variables(pub Vec<(Cow<'static, str>, String)>);

impl Variables {
    /// Sets one. A value that no variable can hold is left out.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl ToString) {
        let value = value.to_string();
        if !value.contains('\0') {
            self.0.push((name.into(), value));
        }
    }

    /// Sets all of these to the same value.
    fn set_all(&mut self, names: &[&'static str], value: impl ToString) {
        let value = value.to_string();
        for name in names {
            self.set(*name, &value);
        }
    }

    /// Sets one where there is something to set.
    fn set_some(&mut self, name: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Each variable as `NAME=value`.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(name, value)| format!("{name}={value}"))
    }
}

/// Where in the network a node is: the switches above it, and its name. Source: sbatch(1),
/// `SLURM_TOPOLOGY_ADDR`.
fn set_address(above: &str, node: &str, all: &mut Variables) {
    let each = above.split('.').filter(|name| !name.is_empty());
    let pattern: String = each.map(|_| "switch.").collect();
    let dot = if above.is_empty() { "" } else { "." };
    all.set("SLURM_TOPOLOGY_ADDR", format!("{above}{dot}{node}"));
    all.set("SLURM_TOPOLOGY_ADDR_PATTERN", format!("{pattern}node"));
}

/// `4(x2),3`: equal neighbours folded, as Slurm counts tasks and processors of nodes.
pub fn counts(values: &[u32]) -> String {
    by_node::write(values.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |switches: &str, want: [&str; 2]| {
            let mut all = Variables::default();
            set_address(switches, "n1", &mut all);
            let values: Vec<&str> = all.0.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(values, want);
        };
        check("", ["n1", "node"]);
        check("top.leaf", ["top.leaf.n1", "switch.switch.node"]);
        let block = b"COSY_JOB_ID=1\0COSY_NODES=n[1-3]\0COSY_SWITCHES_BY_NODE=a.b(x2),a.c";
        let facts = AllocationFacts::read(block).expect("a job");
        assert_eq!(facts.switches, "a.b");
    }

    #[test]
    fn folded_counts() {
        let check = |values: &[u32], want: &str| assert_eq!(counts(values), want);
        check(&[], "");
        check(&[6, 2], "6,2");
        check(&[16, 16], "16(x2)");
        check(&[4, 4, 3, 4], "4(x2),3,4");
    }

    #[test]
    fn a_nul_is_left_out() {
        let mut all = Variables::default();
        all.set("A", "x\0B=1");
        all.set("C", 1);
        assert_eq!(all.texts().collect::<Vec<_>>(), ["C=1"]);
    }
}
