//! Jobs that run from before the first takeover until after the last one.

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, script, wait};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const JOBS: i64 = 3;

/// Running jobs, each with the code that it ends with.
pub struct Held {
    jobs: Vec<(JobId, i64)>,
    go: PathBuf,
}

impl Held {
    /// Waits until they run.
    pub fn start(cluster: &Cluster) -> Self {
        let go = cluster.work().join("go");
        let submit = |exit: i64| {
            let text = format!(
                "echo begun $$ $COSY_JOB_ATTEMPT\n\
                 while [ ! -e {} ]; do sleep 0.5; done\n\
                 echo ended $$ $COSY_JOB_ATTEMPT\nexit {exit}",
                go.display()
            );
            let mut job = script(&cluster.work(), &text);
            job.spec.stdout = Some("out.%j".into());
            (cluster.submit(&job), exit)
        };
        let jobs: Vec<(JobId, i64)> = (5..5 + JOBS).map(submit).collect();
        for (job, _) in &jobs {
            cluster.until_state(*job, JobState::Running);
        }
        Self { jobs, go }
    }

    pub fn ids(&self) -> BTreeSet<JobId> {
        self.jobs.iter().map(|(job, _)| *job).collect()
    }

    /// They go on to their end: one process each, in one attempt, with its own code and all of its output.
    pub fn end(&self, cluster: &Cluster) {
        fs::write(&self.go, "").unwrap();
        for (job, exit) in &self.jobs {
            let row = cluster.until_end(*job);
            assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, *exit), 1), "{row:?}");
            let file = cluster.work().join(format!("out.{job}"));
            let text = wait::until("its output is there", || fs::read_to_string(&file).ok());
            let lines: Vec<&str> = text.lines().collect();
            let [begun, ended] = lines[..] else {
                panic!("job {job} has written {text:?}");
            };
            let (begun, ended) = (begun.strip_prefix("begun "), ended.strip_prefix("ended "));
            assert!(begun.is_some() && begun == ended, "job {job}: {text:?}");
        }
        eprintln!("{} jobs ran through all of it", self.jobs.len());
    }
}
