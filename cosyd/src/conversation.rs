//! Commands that wait, and commands that stay with a job: the controller is told when they
//! have gone, whichever way this ends.
//!
//! A connection's [`Conversation`] is dropped with the connection; what it held is told
//! then.

use crate::engine::Input;
use crate::hub::Hub;
use cosy_control::{ClientId, Event};
use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, Refusal, RefusalCode};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Jobs that one connection stays with.
const JOBS: usize = 100;

/// What one connection of a command has between its questions.
#[derive(Default)]
pub struct Conversation {
    stays: Mutex<BTreeMap<JobId, GoneNotice>>,
    /// The way to the command broke.
    lost: Arc<AtomicBool>,
}

impl Conversation {
    /// The way to the command broke: it may come again.
    pub fn break_off(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Says that the command is there, until the value is dropped.
    pub fn presence(
        &self,
        client: ClientId,
        core: mpsc::Sender<Input>,
        hub: Arc<Hub>,
    ) -> GoneNotice {
        GoneNotice {
            client,
            core,
            hub,
            lost: self.lost.clone(),
            armed: true,
        }
    }

    /// Whether it may stay with a further job.
    pub fn may_stay(&self) -> Result<(), Refusal> {
        if self.stays().len() < JOBS {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::TooMany,
            format!("one connection stays with {JOBS} jobs at most"),
        ))
    }

    /// After the answer to a request that attends to a job: it stays until the connection
    /// ends. Otherwise the command is not waited for any more.
    pub fn answered(&self, presence: GoneNotice, attends: Option<JobId>, reply: &Reply) {
        let job = match reply {
            Reply::Submitted { job, .. } => Some(*job),
            Reply::Allocated { entry, .. } => Some(entry.key.job),
            _ => None,
        };
        match (attends, job) {
            (Some(_), Some(job)) => drop(self.stays().insert(job, presence)),
            (_, _) => presence.over(),
        }
    }

    /// Whether the connection stays with a job.
    pub fn stays_with_jobs(&self) -> bool {
        !self.stays().is_empty()
    }

    fn stays(&self) -> MutexGuard<'_, BTreeMap<JobId, GoneNotice>> {
        self.stays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The job that a request attends to; that of a new one is not known yet.
pub fn attends(request: &Request) -> Option<JobId> {
    match request {
        Request::Attend { job, .. } => Some(*job),
        Request::Allocate(_) => Some(JobId(0)),
        _ => None,
    }
}

/// Tells the controller when the command goes.
pub struct GoneNotice {
    client: ClientId,
    core: mpsc::Sender<Input>,
    hub: Arc<Hub>,
    lost: Arc<AtomicBool>,
    armed: bool,
}

impl GoneNotice {
    /// Nothing is to be told any more.
    fn over(mut self) {
        self.armed = false;
    }
}

impl Drop for GoneNotice {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        self.hub.forget(self.client);
        let event = if self.lost.load(Ordering::Relaxed) {
            Event::ClientLost(self.client)
        } else {
            Event::ClientGone(self.client)
        };
        let full = self.core.try_send(Input::Event(Box::new(event)));
        // A job may depend on it: it is told as soon as there is room.
        if let (Err(TrySendError::Full(input)), Ok(runtime)) =
            (full, tokio::runtime::Handle::try_current())
        {
            let core = self.core.clone();
            runtime.spawn(async move {
                let _ = core.send(input).await;
            });
        }
    }
}
