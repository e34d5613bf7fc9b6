//! What is durable of a trigger.

use cosy_model::{
    Attempt, Gid, JobId, OsText, Time, TriggerId, TriggerInfo, TriggerSpec, Uid, fold,
};
use serde::{Deserialize, Serialize};

/// A trigger as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TriggerRow {
    /// The number by which users know it.
    pub id: TriggerId,
    /// Who has set it.
    pub uid: Uid,
    /// Group under which its program runs.
    pub gid: Gid,
    /// Name of the user who set it.
    pub user: String,
    /// When it was set.
    pub made: Time,
    /// What was asked for.
    pub spec: TriggerSpec,
    /// It waits for nothing more: what is in `due` and `run` is the last of it.
    #[serde(default)]
    pub spent: bool,
    /// What has happened and was not answered yet, the oldest first.
    #[serde(default)]
    pub due: Vec<Due>,
    /// Number of the last run.
    #[serde(default)]
    pub attempt: Attempt,
    /// The run that is under way.
    #[serde(default)]
    pub run: Option<TriggerRun>,
    /// The attempt of the job whose time limit was told last.
    #[serde(default)]
    pub limit_of: Attempt,
}

/// Something that happened and is to be answered by the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Due {
    /// When the program is to run.
    pub at: Time,
    /// What made it go off.
    pub occasion: Occasion,
    /// Nodes that the program had better run on.
    #[serde(default)]
    pub near: Vec<String>,
    /// So often it was tried in vain.
    #[serde(default)]
    pub tries: u32,
}

/// What made it go off.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// To this job.
    Job(JobId),
    /// To these nodes.
    Nodes(Vec<String>),
    /// To the configuration.
    Configuration,
}

/// A run of the program: from its order to its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TriggerRun {
    /// Name of the node that runs it.
    pub node: String,
    /// The event that made it due.
    pub due: Due,
    /// The node has said that it runs.
    pub started: bool,
}

impl TriggerRow {
    /// Nothing will come of it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.spent && self.due.is_empty() && self.run.is_none()
    }

    /// As commands show it; `None` once the last run of its program has been ordered.
    pub(crate) fn shown(&self) -> Option<TriggerInfo> {
        let live = !self.spent || !self.due.is_empty();
        live.then(|| TriggerInfo {
            id: self.id,
            uid: self.uid,
            user: self.user.clone(),
            spec: TriggerSpec {
                environment: OsText::default(),
                ..self.spec.clone()
            },
        })
    }
}

impl Occasion {
    /// The last argument of the program.
    pub(crate) fn argument(&self) -> String {
        match self {
            Self::Job(job) => job.to_string(),
            Self::Nodes(names) => fold(names),
            Self::Configuration => "reconfig".to_owned(),
        }
    }

    /// Takes up another occasion, where one run of the program can answer both.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        if let (Self::Nodes(mine), Self::Nodes(more)) = (&mut *self, other) {
            for name in more {
                if !mine.contains(name) {
                    mine.push(name.clone());
                }
            }
            return true;
        }
        self == other
    }
}
