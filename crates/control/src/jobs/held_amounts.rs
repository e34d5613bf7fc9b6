//! What a run holds of each resource: counted here alone, for limits and for the use that is kept.
//!
//! GPUs are counted with and without their types. Memory is in MiB.

use crate::jobs::run::{Part, Run};
use crate::machine::Machine;
use crate::policy::limits::tally::Amounts;
use cosy_model::policy::Tres;
use cosy_model::{CountedResources, JobSpec, device};
use cosy_policy::billing;
use std::collections::BTreeSet;

/// What a job holds that runs, but what that costs.
pub(crate) fn held_amounts(machine: &Machine, spec: &JobSpec, run: &Run) -> Amounts {
    let mut amounts = Amounts::new();
    for part in run.parts() {
        add_part(machine, &mut amounts, part);
    }
    licenses(&mut amounts, spec);
    let nodes: BTreeSet<_> = run.parts().iter().map(Part::node).collect();
    add(&mut amounts, Tres::Node, nodes.len() as u64);
    amounts
}

/// A part with the types of the GPUs that it was given, by their numbers.
fn add_part(machine: &Machine, amounts: &mut Amounts, part: &Part) {
    let mut own = Amounts::new();
    add_amounts(&mut own, part.amounts(), 1);
    let types = machine.node(part.node()).devices().types();
    let mut given = Amounts::new();
    for number in part.gpus() {
        if let Some(kind) = types.get(*number as usize).filter(|kind| !kind.is_empty()) {
            add(&mut given, gpu_type(kind), 1);
        }
    }
    for (tres, count) in given {
        raise(&mut own, &tres, count);
    }
    for (tres, amount) in own {
        add(amounts, tres, amount);
    }
}

/// GPUs of a type.
pub(crate) fn gpu_type(kind: &str) -> Tres {
    Tres::Gres {
        name: "gpu".into(),
        kind: Some(kind.into()),
    }
}

/// Adds the licences that a job asks for.
pub(crate) fn licenses(amounts: &mut Amounts, spec: &JobSpec) {
    licenses_of(amounts, &spec.licenses);
}

/// Adds licences.
pub(crate) fn licenses_of(amounts: &mut Amounts, licenses: &CountedResources) {
    for (name, count) in licenses.iter() {
        add(amounts, Tres::License(name.into()), count.into());
    }
}

/// `times` as much of all that is counted.
pub(crate) fn add_amounts(to: &mut Amounts, amounts: &cosy_model::Amounts, times: u64) {
    add(to, Tres::Cpu, times.saturating_mul(amounts.cores.into()));
    add(to, Tres::Memory, times.saturating_mul(amounts.memory.0));
    add(to, Tres::gpus(), times.saturating_mul(amounts.gpus.into()));
    for (name, count) in amounts.other.iter() {
        let tres = match device::gpu_type(name) {
            Some(kind) => gpu_type(kind),
            None if device::is_of_gpus(name) => continue,
            None => Tres::Gres {
                name: name.into(),
                kind: None,
            },
        };
        add(to, tres, times.saturating_mul(count.into()));
    }
}

/// So much more.
pub(crate) fn add(to: &mut Amounts, tres: Tres, amount: u64) {
    if amount > 0 {
        let known = to.entry(tres).or_default();
        *known = known.saturating_add(amount);
    }
}

/// At least so much.
pub(crate) fn raise(to: &mut Amounts, tres: &Tres, amount: u64) {
    if amount > 0 {
        let known = to.entry(tres.clone()).or_default();
        *known = amount.max(*known);
    }
}

/// Amounts as billing weights know them.
pub(crate) fn billed(amounts: &Amounts) -> billing::Held {
    let mut held = billing::Held::default();
    for (tres, amount) in amounts {
        match tres {
            Tres::Cpu => held.cores = *amount,
            Tres::Memory => held.memory_mib = *amount,
            Tres::Node => held.nodes = *amount,
            Tres::Billing => {}
            Tres::Gres { name, kind: None } => {
                held.devices.insert(name.to_string(), *amount);
            }
            Tres::Gres {
                name,
                kind: Some(kind),
            } => {
                held.devices.insert(format!("{name}:{kind}"), *amount);
            }
            Tres::License(name) => {
                held.others.insert(name.to_string(), *amount);
            }
        }
    }
    held
}
