//! GPUs and other devices of a step's tasks on this node: what they find in their
//! environment and what they are kept from.

use super::table::{Job, Steps};
use super::{StepShare, TaskExtras};
use crate::bind::{self, Numa};
use crate::devices::{DeviceNumber, Devices, Held};
use crate::spool::name_of;
use cosy_model::OsText;
use cosy_model::step::StepOrder;
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

    /// Each task's own GPUs, where GPUs of tasks were asked for.
    fn own(&self, job: &Job, order: &StepOrder, share: &StepShare) -> Vec<TaskExtras> {
        let each = order.spec.gpus_per_task;
        let here = order.tree.first().copied().unwrap_or(0);
        let tasks = order.layout.count_of(here);
        if each == 0 || tasks < 2 {
            return Vec::new();
        }
        let dealt = deal(&self.setup.devices, order, share, tasks);
        let kept = self.setup.cgroups.limits_devices();
        let one = |(gpus, task): (Vec<u32>, u32)| {
            let held = Held {
                gpus: &gpus,
                others: &job.allocation.devices,
            };
            let name = name_of(order.key.attempt);
            let denied = self.denied(held);
            let cgroups = &self.setup.cgroups;
            TaskExtras {
                groups: cgroups.groups_for_task(&name, order.key.step, task, &denied),
                variables: self.setup.devices.variables(held, kept),
            }
        };
        dealt.into_iter().zip(0..).map(one).collect()
    }
}

/// GPUs of each of `tasks` tasks: those first that are near to its cores.
fn deal(devices: &Devices, order: &StepOrder, share: &StepShare, tasks: u32) -> Vec<Vec<u32>> {
    let spec = &order.spec;
    let numa = if devices.have_places() {
        Numa::here()
    } else {
        Numa::default()
    };
    let cores = order.layout.cores_per_task;
    let binds = bind::plan(&share.processors, cores, tasks, spec.bind, &numa);
    let near: Vec<&[u32]> = binds.iter().map(bind::TaskBind::numa_nodes).collect();
    devices.deal(&share.gpus, spec.gpus_per_task, &near)
}
