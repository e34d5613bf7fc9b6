//! Facts of a job are put together for a row of a list, live or ended.

use crate::controller::Controller;
use crate::jobs::dependencies::Met;
use crate::jobs::job::Job;
use cosy_model::{Dependency, JobId, Time};
use cosy_view::job::OpenDependency;

impl Controller {
    /// What a waiting job still waits for, or cannot have any more.
    pub(crate) fn open_dependencies<'a>(&self, now: Time, job: &'a Job) -> Vec<OpenDependency<'a>> {
        let open = job.spec().dependencies.iter().filter_map(|dependency| {
            let met = self.dependency_met(now, &job.submitted, job.member, dependency);
            Some(OpenDependency {
                dependency,
                whole: self.is_whole_array(dependency),
                failed: match met {
                    Met::Yes => return None,
                    Met::NotYet => false,
                    Met::Never => true,
                },
            })
        });
        open.collect()
    }

    fn is_whole_array(&self, dependency: &Dependency) -> bool {
        dependency.task.is_none() && self.is_array(dependency.job)
    }

    fn is_array(&self, job: JobId) -> bool {
        let group = self.jobs.group(&job);
        let live = group.map(|group| group.indices.is_some());
        let ended = || {
            let ended = self.jobs.ended(job);
            ended.is_some_and(|e| e.row.index.is_some() && e.row.base == job)
        };
        live.unwrap_or_else(ended)
    }
}
