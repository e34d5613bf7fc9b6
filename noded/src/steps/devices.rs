//! GPUs and other devices of a step's tasks on this node: what they find in their
//! environment and what they are kept from.

use super::table::{Job, Steps};
use super::{StepShare, TaskExtras};
use crate::bind::{self, Numa, TaskBind};
use crate::devices::{DeviceNumber, Devices, Held};
use crate::spool::name_of;
use cosy_model::step::{GpuBind, StepOrder};
use cosy_model::{OsText, limits};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a step is given.
#[derive(Debug, Default)]
pub(super) struct StepDevices {
    /// Devices that none of its tasks may open.
    pub denied: Vec<DeviceNumber>,
    /// Variables for all its tasks.
    pub variables: Vec<OsText>,
    /// What each task has of its own; empty when all have everything.
    pub own: Vec<TaskExtras>,
}

impl Steps {
    /// Takes a new configuration.
    pub fn reconfigure(&mut self, devices: Arc<Devices>) {
        self.setup.devices = devices;
    }

    /// What a step with this share gets here.
    pub(super) fn given(&self, job: &Job, order: &StepOrder, share: &StepShare) -> StepDevices {
        let devices = &self.setup.devices;
        let held = Held {
            gpus: &share.gpus,
            others: &job.allocation.devices,
        };
        let kept = self.setup.cgroups.limits_devices();
        StepDevices {
            denied: self.denied(held),
            variables: devices.variables(held, kept),
            own: self.own(job, order, share),
        }
    }

    fn denied(&self, held: Held<'_>) -> Vec<DeviceNumber> {
        if self.setup.cgroups.limits_devices() {
            self.setup.devices.denied(held)
        } else {
            Vec::new()
        }
    }

    /// Each task's own GPUs, where not all see all of the step's.
    fn own(&self, job: &Job, order: &StepOrder, share: &StepShare) -> Vec<TaskExtras> {
        let bind = order.spec.gpu_bind.or_per_task(order.spec.gpus_per_task);
        let here = order.tree.first().copied().unwrap_or(0);
        let tasks = order.layout.count_of(here);
        let unbound = bind == GpuBind::None || tasks > limits::GPU_BOUND_TASKS;
        if unbound || share.gpus.is_empty() {
            return Vec::new();
        }
        let near = places(&self.setup.devices, order, share, tasks);
        let near: Vec<&[u32]> = near.iter().map(TaskBind::numa_nodes).collect();
        let dealt = self.setup.devices.bind(&share.gpus, &bind, &near);
        if dealt.iter().all(|own| *own == share.gpus) {
            return Vec::new();
        }
        let kept = self.setup.cgroups.limits_devices();
        // Many tasks see the same few.
        let mut seen: BTreeMap<Vec<u32>, (Vec<DeviceNumber>, Vec<OsText>)> = BTreeMap::new();
        let name = name_of(order.key.attempt);
        let one = |(gpus, task): (Vec<u32>, u32)| {
            let (denied, variables) = seen.entry(gpus).or_insert_with_key(|gpus| {
                let others = &job.allocation.devices;
                let held = Held { gpus, others };
                (self.denied(held), self.setup.devices.variables(held, kept))
            });
            let cgroups = &self.setup.cgroups;
            TaskExtras {
                groups: cgroups.groups_for_task(&name, order.key.step, task, denied),
                variables: variables.clone(),
            }
        };
        dealt.into_iter().zip(0..).map(one).collect()
    }
}

/// Where each of `tasks` tasks will run, as far as that matters for its GPUs.
fn places(devices: &Devices, order: &StepOrder, share: &StepShare, tasks: u32) -> Vec<TaskBind> {
    let numa = if devices.have_places() {
        Numa::here()
    } else {
        Numa::default()
    };
    let cores = order.layout.cores_per_task;
    bind::plan(&share.processors, cores, tasks, order.spec.bind, &numa)
}
