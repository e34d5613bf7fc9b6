//! Names of the nodes of an attempt.

use crate::jobs::run::{Part, Run};
use crate::machine::Machine;

/// The nodes of an attempt as a host list.
pub(crate) fn node_list(machine: &Machine, run: &Run) -> String {
    let name = |p: &Part| machine.name(p.node()).to_owned();
    let names: Vec<String> = run.parts().iter().map(name).collect();
    cosy_model::fold(&names)
}
