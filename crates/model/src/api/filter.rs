//! Jobs as users name them, and conditions that choose some of them.

use crate::{JobId, JobState, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A job as users name it: `12`, or task 3 of array 12 as `12_3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct JobRef {
    /// Id of the job, or the first id of the array.
    pub job: JobId,
    /// Index within the array; without, all tasks of an array.
    #[serde(default)]
    pub task: Option<u32>,
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) => f.pad(&format!("{}_{task}", self.job)),
            None => f.pad(&self.job.to_string()),
        }
    }
}

impl std::str::FromStr for JobRef {
    type Err = String;

    /// Reads `12` and `12_3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let short: String = text.chars().take(60).collect();
            format!("'{short}' is no job id: use a number, or 12_3 for task 3 of array 12")
        };
        let number = |t: &str| -> Option<u64> {
            (!t.is_empty() && t.len() <= 18 && t.bytes().all(|b| b.is_ascii_digit()))
                .then(|| t.parse().ok())
                .flatten()
        };
        let (job, task) = match text.split_once('_') {
            Some((job, task)) => {
                let task = number(task).and_then(|n| u32::try_from(n).ok());
                (job, Some(task.ok_or_else(bad)?))
            }
            None => (text, None),
        };
        let job = number(job).filter(|n| *n > 0).ok_or_else(bad)?;
        Ok(Self {
            job: JobId(job),
            task,
        })
    }
}

/// Which jobs: all conditions that are not empty must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFilter {
    /// Only these jobs, or of arrays these tasks; all when empty.
    pub ids: Vec<JobRef>,
    /// User names, or numeric ids as text.
    pub users: Vec<String>,
    /// Only jobs in one of these queues; any when empty.
    pub queues: Vec<String>,
    /// Only jobs with one of these names; any when empty.
    pub names: Vec<String>,
    /// Only jobs that charge one of these accounts; all when empty.
    pub accounts: Vec<String>,
    /// Only jobs in one of these states; all when empty.
    pub states: Vec<JobState>,
    /// Names of nodes that the job runs on.
    pub nodes: Vec<String>,
    /// History: ended at or after.
    pub since: Option<Time>,
    /// History: started before (or never started and submitted before).
    pub until: Option<Time>,
    /// At most so many rows: of history the latest, of a list by pages the first.
    pub most: Option<u32>,
    /// History: in place of jobs those of their runs that another one followed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub earlier_runs: bool,
    /// Lists: the command asks for the rest when the answer is only a part
    /// ([`crate::api::Table::more`]). Without, a list that does not fit into one answer is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pages: bool,
    /// Lists: go on there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
}

/// Where a list goes on that does not fit into one answer. Commands hand it back as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Which part of the list: what lives comes before what has ended; in history the array
    /// whose last task has been told, 0 without.
    pub part: u64,
    /// Place in it; the row there has been told.
    pub at: u64,
}

impl JobFilter {
    /// True when nothing is asked: every job passes.
    pub fn is_empty(&self) -> bool {
        let Self {
            ids,
            users,
            queues,
            names,
            accounts,
            states,
            nodes,
            since,
            until,
            most,
            earlier_runs: _,
            pages: _,
            after: _,
        } = self;
        let lists = [users, queues, names, accounts, nodes];
        lists.into_iter().all(Vec::is_empty)
            && ids.is_empty()
            && states.is_empty()
            && (since, until, most) == (&None, &None, &None)
    }
}
