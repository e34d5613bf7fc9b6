//! Facts of a job are put together for a row of a list, live or ended.

use crate::jobs::Jobs;
use crate::jobs::dependencies::Met;
use crate::jobs::dependencies::procedures::dependency_met;
use crate::jobs::job::Job;
use crate::set_aside::Aside;
use cosy_model::{Dependency, JobId, Time};
use cosy_view::job::OpenDependency;

/// What a waiting job still waits for, or cannot have any more.
pub(crate) fn open_dependencies<'a>(
    jobs: &Jobs,
    aside: &Aside,
    now: Time,
    job: &'a Job,
) -> Vec<OpenDependency<'a>> {
    let open = job.spec().dependencies.iter().filter_map(|dependency| {
        let met = dependency_met(jobs, aside, now, job.submitted(), job.member(), dependency);
        Some(OpenDependency {
            dependency,
            whole: is_whole_array(jobs, dependency),
            failed: match met {
                Met::Yes => return None,
                Met::NotYet => false,
                Met::Never => true,
            },
        })
    });
    open.collect()
}

fn is_whole_array(jobs: &Jobs, dependency: &Dependency) -> bool {
    dependency.task.is_none() && is_array(jobs, dependency.job)
}

fn is_array(jobs: &Jobs, job: JobId) -> bool {
    let group = jobs.group(&job);
    let live = group.map(|group| group.indices().is_some());
    let ended = || {
        let ended = jobs.ended(job);
        ended.is_some_and(|e| e.row.index.is_some() && e.row.base == job)
    };
    live.unwrap_or_else(ended)
}
