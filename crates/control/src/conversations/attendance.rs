//! Who stays with which job.
//!
//! A command that hangs up leaves its job at once. One whose way broke may come again for a
//! while: until then its job is lonely.
//!
//! What always holds: a command stays with one job, and is among those of this job; a job that
//! is here has commands, or is lonely.

use crate::event::ClientId;
use cosy_model::{ClockStep, JobId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages kept for a command that is about to ask again, at most; the oldest go first.
const NOTES: usize = 16;

/// What a command that stays with a job is still to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaits {
    /// Nothing more on this request.
    Nothing,
    /// The start of the job, or its end.
    Start,
    /// The end of the job.
    End,
}

/// All commands that stay with jobs.
#[derive(Debug, Default)]
pub(crate) struct Attendance {
    jobs: BTreeMap<JobId, Attended>,
    clients: BTreeMap<ClientId, JobId>,
    /// Jobs whose command may come again, by the time until which.
    lonely: BTreeSet<(Time, JobId)>,
}

/// Who stays with one job.
#[derive(Debug, Default)]
struct Attended {
    clients: BTreeMap<ClientId, Awaits>,
    /// A command may come again until then.
    lonely_until: Option<Time>,
    /// What the next command that comes is told.
    notes: VecDeque<String>,
}

/// Who has left a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    /// The job whose command went away.
    pub job: JobId,
    /// No other command stays with it or may come again.
    pub was_last: bool,
}

impl Attended {
    /// Those who await that: they are answered, and await nothing from then on.
    fn answer(&mut self, what: Awaits) -> Vec<ClientId> {
        let all = self.clients.iter_mut();
        all.filter(|(_, awaits)| **awaits == what)
            .map(|(client, awaits)| {
                *awaits = Awaits::Nothing;
                *client
            })
            .collect()
    }
}

impl Attendance {
    /// From now on the command stays with the job.
    pub fn stays(&mut self, client: ClientId, job: JobId, awaits: Awaits) {
        let attended = self.jobs.entry(job).or_default();
        attended.clients.insert(client, awaits);
        if let Some(until) = attended.lonely_until.take() {
            self.lonely.remove(&(until, job));
        }
        self.clients.insert(client, job);
    }

    /// A command stays no longer; `None` when it stayed with no job.
    pub fn leaves(&mut self, client: ClientId) -> Option<Departure> {
        let job = self.clients.remove(&client)?;
        let attended = self.jobs.get_mut(&job)?;
        attended.clients.remove(&client);
        let was_last = attended.clients.is_empty() && attended.lonely_until.is_none();
        Some(Departure { job, was_last })
    }

    /// Nobody is expected at the job any more.
    pub fn given_up(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// Where nobody stays with the job, a command may come to it until then.
    pub fn expects(&mut self, job: JobId, until: Time) {
        let attended = self.jobs.entry(job).or_default();
        if !attended.clients.is_empty() {
            return;
        }
        if let Some(before) = attended.lonely_until.replace(until) {
            self.lonely.remove(&(before, job));
        }
        self.lonely.insert((until, job));
    }

    /// Forgets a job with which nobody stays.
    pub fn forget_if_empty(&mut self, job: JobId) {
        if self.jobs.get(&job).is_some_and(|a| a.clients.is_empty()) {
            self.jobs.remove(&job);
        }
    }

    /// A job to which no command has come again in time.
    pub fn abandoned(&mut self, now: Time) -> Option<JobId> {
        let (_, job) = *self.lonely.first().filter(|(until, _)| *until <= now)?;
        self.lonely.pop_first();
        self.jobs.remove(&job);
        Some(job)
    }

    /// When the next job is abandoned.
    pub fn next_due(&self) -> Option<Time> {
        self.lonely.first().map(|(until, _)| *until)
    }

    /// The job has started: those who are to be told.
    pub fn started(&mut self, job: JobId) -> Vec<ClientId> {
        let attended = self.jobs.get_mut(&job);
        attended.map_or_else(Vec::new, |attended| attended.answer(Awaits::Start))
    }

    /// The job has ended, and nobody stays with it any more: those who are to be told.
    pub fn ended(&mut self, job: JobId) -> Vec<ClientId> {
        let Some(attended) = self.jobs.remove(&job) else {
            return Vec::new();
        };
        if let Some(until) = attended.lonely_until {
            self.lonely.remove(&(until, job));
        }
        for client in attended.clients.keys() {
            self.clients.remove(client);
        }
        let told = attended.clients.into_iter();
        told.filter(|(_, awaits)| *awaits != Awaits::Nothing)
            .map(|(client, _)| client)
            .collect()
    }

    /// Something is said to who stays with the job: those who are to be told now, and have been
    /// then. Where nobody waits for a word it is kept for the next one who asks.
    pub fn said(&mut self, job: JobId, text: &str) -> Vec<ClientId> {
        let Some(attended) = self.jobs.get_mut(&job) else {
            return Vec::new();
        };
        let told = attended.answer(Awaits::End);
        if told.is_empty() {
            if attended.notes.len() >= NOTES {
                attended.notes.pop_front();
            }
            attended.notes.push_back(text.to_owned());
        }
        told
    }

    /// What was said at the job while no command waited for a word, the oldest first.
    pub fn next_note(&mut self, job: JobId) -> Option<String> {
        self.jobs.get_mut(&job)?.notes.pop_front()
    }

    /// The clock on the wall was set: commands that may come again have as long for it as before.
    pub fn clock_set(&mut self, step: ClockStep) {
        for (until, job) in std::mem::take(&mut self.lonely) {
            let until = until.set_by(step);
            self.lonely.insert((until, job));
            if let Some(attended) = self.jobs.get_mut(&job) {
                attended.lonely_until = Some(until);
            }
        }
    }

    /// What does not hold. `lives` says whether there is such a job, `wants` which jobs must not
    /// be alone.
    pub fn check(
        &self,
        lives: impl Fn(JobId) -> bool,
        mut wants: impl Iterator<Item = JobId>,
    ) -> Result<(), String> {
        let mut clients = BTreeMap::new();
        let mut lonely = BTreeSet::new();
        for (job, attended) in &self.jobs {
            clients.extend(attended.clients.keys().map(|client| (*client, *job)));
            lonely.extend(attended.lonely_until.map(|until| (until, *job)));
            if !lives(*job) {
                return Err(format!("commands stay with job {job}, which has ended"));
            }
        }
        if self.clients != clients || self.lonely != lonely {
            return Err("commands and the jobs that they stay with do not agree".to_owned());
        }
        match wants.find(|job| !self.jobs.contains_key(job)) {
            Some(job) => Err(format!("nobody stays with job {job}")),
            None => Ok(()),
        }
    }
}
