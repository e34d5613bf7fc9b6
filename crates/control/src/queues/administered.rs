//! Queues that administrators make, change and take away at run time.
//!
//! What they make lies over the configuration and is kept in the store. When the configuration
//! is read again, its own queues are as it says; queues that it does not know stay. No queue
//! is taken away while it has jobs or reservations. Source: scontrol(1), "PARTITIONS -
//! SPECIFICATIONS FOR CREATE, UPDATE, AND DELETE COMMANDS".

pub(crate) mod procedures;

use crate::config::ClusterConfig;
use crate::record::OwnQueue;
use cosy_model::QueueSpec;
use std::collections::BTreeMap;

/// Queues of the configuration, and those that were made, changed or taken away since.
#[derive(Debug, Default)]
pub(crate) struct OwnQueues {
    file: FileQueues,
    own: BTreeMap<String, OwnQueue>,
}

impl OwnQueues {
    /// Out of the configuration and the store.
    pub fn restore(config: &ClusterConfig, own: Vec<(String, OwnQueue)>) -> Self {
        Self {
            file: FileQueues::of(config),
            own: own.into_iter().collect(),
        }
    }

    /// Puts the queues of the file, and over them those of administrators, into a configuration.
    pub fn lay(&self, config: &mut ClusterConfig) {
        let (mut queues, mut default) = (self.file.queues.clone(), self.file.default.clone());
        for (name, queue) in &self.own {
            let at = queues.iter().position(|q| q.name == *name);
            match (&queue.spec, at) {
                (Some(spec), Some(at)) => queues[at] = spec.clone(),
                (Some(spec), None) => queues.push(spec.clone()),
                (None, Some(at)) => drop(queues.remove(at)),
                (None, None) => {}
            }
            if queue.default {
                default = Some(name.clone());
            }
        }
        config.default_queue = default.filter(|name| queues.iter().any(|q| q.name == *name));
        config.queues = queues;
    }

    /// That queue was made the default one at run time.
    pub fn is_default(&self, name: &str) -> bool {
        self.own.get(name).is_some_and(|q| q.default)
    }
}

/// Queues as the configuration has them.
#[derive(Clone, Debug, Default)]
struct FileQueues {
    queues: Vec<QueueSpec>,
    default: Option<String>,
}

impl FileQueues {
    fn of(config: &ClusterConfig) -> Self {
        Self {
            queues: config.queues.clone(),
            default: config.default_queue.clone(),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.queues.iter().any(|q| q.name == name)
    }
}
