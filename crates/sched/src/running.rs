//! The running jobs and what they hold.

use crate::Demand;
use crate::nodeset::NodeSet;
use crate::resource_pool::Held;
use crate::table::JobTable;
use cosy_model::{JobId, NodeShare, Time};
use std::sync::Arc;

/// A running job's place in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RunId(pub u32);

/// How it is told what a job holds of each of its nodes.
#[derive(Clone, Debug)]
pub(crate) enum Holding {
    /// All of them, and tasks in blocks as the demand says.
    Whole(Arc<Demand>),
    /// All of them, and tasks as listed.
    WholeListed(Vec<NodeShare>),
    /// Exactly these shares.
    Listed(Vec<NodeShare>),
}

#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub job: JobId,
    pub end: Time,
    pub nodes: NodeSet,
    pub holding: Holding,
    /// What it holds of resource pools.
    pub held: Box<[Held]>,
}

impl Running {
    /// True when its nodes are held as a whole and are not booked one by one.
    pub fn is_whole(&self) -> bool {
        !matches!(self.holding, Holding::Listed(_))
    }
}

/// All running jobs.
#[derive(Clone, Default, Debug)]
pub(crate) struct RunningJobs {
    places: Vec<Option<Running>>,
    vacant: Vec<RunId>,
    by_job: JobTable<RunId>,
}

impl RunningJobs {
    pub fn insert(&mut self, running: Running) -> RunId {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(None);
            RunId(self.places.len() as u32 - 1)
        });
        self.by_job.insert(running.job, id);
        self.places[id.0 as usize] = Some(running);
        id
    }

    pub fn remove(&mut self, job: JobId) -> Option<Running> {
        let id = self.by_job.remove(job)?;
        self.vacant.push(id);
        self.places[id.0 as usize].take()
    }

    pub fn find(&self, job: JobId) -> Option<RunId> {
        self.by_job.get(job).copied()
    }

    pub fn get(&self, id: RunId) -> &Running {
        let running = self.places[id.0 as usize].as_ref();
        running.expect("its place is given back when it ends")
    }

    pub fn get_mut(&mut self, id: RunId) -> &mut Running {
        let running = self.places[id.0 as usize].as_mut();
        running.expect("its place is given back when it ends")
    }

    pub fn len(&self) -> usize {
        self.by_job.len()
    }

    /// All of them, by place.
    pub fn iter(&self) -> impl Iterator<Item = (RunId, &Running)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(at, running)| Some((RunId(at as u32), running.as_ref()?)))
    }
}
