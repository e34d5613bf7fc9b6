//! Names of the nodes of an attempt.

use crate::jobs::run::{Part, Run};
use crate::machine::Machine;

/// The nodes of an attempt as a host list.
pub(crate) fn node_list(machine: &Machine, run: &Run) -> String {
    list_of(machine, run.parts())
}

/// The nodes of a run that serve: all but those that stand by for lost ones.
pub(crate) fn serving_list(machine: &Machine, run: &Run) -> String {
    list_of(machine, run.serving())
}

fn list_of(machine: &Machine, parts: &[Part]) -> String {
    let names: Vec<&str> = parts.iter().map(|part| machine.name(part.node())).collect();
    cosy_model::fold(&names)
}
