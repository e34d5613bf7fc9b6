//! Interactive jobs: allocations that a command asks for and stays with, and how many of
//! one user run at once (COSY paper, section 3.1 "Batch and interactive support").

pub(crate) mod procedures;

use crate::conversations::requests::no_job;
use crate::event::ClientId;
use cosy_model::api::{JobRef, Reply, Submission};
use cosy_model::{JobId, Program, Refusal, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// Live interactive jobs, and who is told of their allocations.
#[derive(Debug, Default)]
pub(crate) struct Interactive {
    /// Interactive jobs that live, by user.
    live: BTreeMap<Uid, BTreeSet<JobId>>,
    /// Requests for allocations that are answered at the end of the turn.
    allocating: Vec<Allocating>,
}

impl Interactive {
    /// Jobs of a user are entered.
    pub fn enter(&mut self, uid: Uid, ids: impl Iterator<Item = JobId>) {
        self.live.entry(uid).or_default().extend(ids);
    }

    /// Whether the live jobs of each user are these.
    pub fn check(&self, want: &BTreeMap<Uid, BTreeSet<JobId>>) -> Result<(), String> {
        match self.live == *want {
            true => Ok(()),
            false => Err("the interactive jobs of users are others".to_owned()),
        }
    }

    /// Live interactive jobs of that user.
    pub fn of(&self, uid: Uid) -> impl Iterator<Item = JobId> {
        self.live.get(&uid).into_iter().flatten().copied()
    }
}

/// A request for an allocation that is answered at the end of the turn, when it is known
/// whether it starts at once.
#[derive(Debug)]
struct Allocating {
    client: ClientId,
    job: JobId,
    /// The answer when it waits.
    waits: Reply,
}

pub(crate) fn gone(id: JobId) -> Refusal {
    no_job(JobRef {
        job: id,
        task: None,
    })
}

pub(crate) fn check_allocation(submission: &Submission) -> Result<(), Refusal> {
    if submission.spec.program != Program::Allocation {
        return Err(Refusal::invalid(
            "an allocation is asked for without a program: submit the job instead",
        ));
    }
    Ok(())
}

/// What kinds of submissions there are.
pub(crate) fn check_kind(submission: &Submission, allocate: bool) -> Result<(), Refusal> {
    let spec = &submission.spec;
    if submission.array.is_some() && (spec.attended || spec.program == Program::Allocation) {
        return Err(Refusal::invalid("an allocation cannot be an array"));
    }
    if spec.attended && !allocate {
        return Err(Refusal::invalid(
            "a job that its command stays with is asked for with 'calloc' or 'cosy run'",
        ));
    }
    Ok(())
}
