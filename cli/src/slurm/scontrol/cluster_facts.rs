//! Facts of the cluster beside its jobs, requested once and only as far as the shown jobs need
//! them.

use super::session::Session;
use crate::slurm::names;
use crate::users;
use cosy_model::Settings;
use cosy_model::api::{JobField, NodeInfo, QueueInfo, Reply, Request, Table};
use cosy_slurm::job::ClusterFacts;
use cosy_slurm::show::reservation;

impl Session<'_> {
    /// All queues; empty when there is no answer.
    pub(crate) fn queues(&self) -> Vec<QueueInfo> {
        match self.context.ask(Request::Queues) {
            Ok(Reply::Queues(all)) => all,
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// All nodes; empty when there is no answer.
    pub(crate) fn nodes(&self) -> Vec<NodeInfo> {
        match self.context.ask(Request::Nodes) {
            Ok(Reply::Nodes(all)) => all,
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// How the cluster is set up.
    pub(crate) fn settings(&self) -> Option<Settings> {
        match self.context.ask(Request::Settings) {
            Ok(Reply::Settings(settings)) => Some(*settings),
            Ok(_) | Err(_) => None,
        }
    }

    /// Names of the groups and reservations of these jobs, and the defaults of all queues.
    pub(crate) fn facts_about(&self, table: &Table) -> ClusterFacts {
        let queues = self.queues().into_iter();
        let memory = queues.filter_map(|q| Some((q.spec.name, q.spec.default_memory_per_core?)));
        let mut around = ClusterFacts {
            default_memory: memory.collect(),
            ..ClusterFacts::default()
        };
        let numbers = |field| (0..table.rows).filter_map(move |row| table.number(row, field));
        for gid in numbers(JobField::Gid) {
            let name = || u32::try_from(gid).map_or_else(|_| gid.to_string(), users::group);
            around.groups.entry(gid).or_insert_with(name);
        }
        if numbers(JobField::Reservation).next().is_some() {
            let all = names::reservations(self.context);
            let number = |r: &cosy_model::reservation::ReservationInfo| {
                Some((i64::try_from(r.id.0).ok()?, reservation::name(r)))
            };
            around.reservations = all.iter().filter_map(number).collect();
        }
        around
    }
}
