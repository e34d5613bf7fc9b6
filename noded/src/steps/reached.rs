//! Connections to programs of jobs that listen: which socket is a job's, and who is connected.

use super::ports::{self, Listener};
use super::serve::{Place, Places};
use super::usage;
use cosy_model::Uid;
use cosy_model::node::AttemptKey;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;

/// Sockets of jobs that are remembered, so that not every connection looks through all processes.
const KNOWN: usize = 4096;
/// A program that listens takes connections at once.
const CONNECT: Duration = Duration::from_secs(5);

/// The sockets on which programs of jobs listen, and who is connected to them.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// The inode of the socket on a job's port.
    known: Mutex<BTreeMap<(AttemptKey, u16), u64>>,
    /// Connections to programs of jobs, by their users.
    places: Places,
}

impl Reached {
    /// A place for one more connection of that user; how many there are, when that is too many.
    pub(super) fn place(&self, uid: Uid) -> Result<Place, usize> {
        self.places.take(uid.0)
    }

    /// The socket on which the job listens at that port.
    async fn listener(
        &self,
        job: AttemptKey,
        port: u16,
        uid: Uid,
        mark: String,
    ) -> Option<Listener> {
        let now = usage::in_turn(move || {
            let all = ports::listeners();
            all.into_iter()
                .filter(|l| l.uid == uid && l.address.port() == port)
                .collect()
        });
        let now: Vec<Listener> = now.await?;
        let known = self.locked().get(&(job, port)).copied();
        if let Some(listener) = now.into_iter().find(|l| known == Some(l.inode)) {
            return Some(listener);
        }
        let all = usage::in_turn(move || ports::of_job(uid, &mark)).await?;
        let (_, found) = all.into_iter().find(|(told, _)| told.port == port)?;
        let mut known = self.locked();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert((job, port), found.inode);
        Some(found)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<(AttemptKey, u16), u64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to the job's program. Nothing is sent before it is sure that the program is the
    /// job's: another user's could have taken the port meanwhile.
    pub(super) async fn connect(
        &self,
        job: AttemptKey,
        port: u16,
        uid: Uid,
        mark: String,
    ) -> Result<TcpStream, String> {
        let nobody = || format!("no program of job {} listens on port {port}", job.job);
        let before = self.listener(job, port, uid, mark.clone()).await;
        let before = before.ok_or_else(nobody)?;
        let connected = tokio::time::timeout(CONNECT, TcpStream::connect(before.address)).await;
        let stream = connected
            .map_err(|_| format!("port {port} does not take connections"))?
            .map_err(|e| format!("port {port}: {e}"))?;
        match self.listener(job, port, uid, mark).await {
            Some(after) if after == before => Ok(stream),
            Some(_) | None => Err(nobody()),
        }
    }
}
