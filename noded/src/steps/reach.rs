//! What is asked for whoever is not on this node: a connection to a port of a job, a part of a file.

use super::ports::{self, Listener};
use super::serve::{Connection, IncomingStep, Places, encode};
use super::table::Steps;
use super::usage;
use crate::reader::{self, FileRequest};
use cosy_model::node::AttemptKey;
use cosy_model::step::{JobPort, StepAnswer, StepAsk};
use cosy_model::{JobId, OsText, RefusalCode, Uid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

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
    async fn connect(
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

impl Steps {
    fn owner_and_mark(&self, attempt: AttemptKey) -> Option<(Uid, String)> {
        let job = self.jobs.get(&attempt)?;
        let name = crate::spool::name_of(attempt);
        Some((job.allocation.uid, format!("{}/{name}", self.setup.instance)))
    }

    /// Looks on a thread of its own, and answers from there.
    pub(super) fn tell_ports(&self, attempt: AttemptKey, connection: Connection) {
        let Some((uid, mark)) = self.owner_and_mark(attempt) else {
            return connection.refuse(RefusalCode::WrongState, over(attempt.job));
        };
        tokio::spawn(async move {
            let found = usage::in_turn(move || ports::of_job(uid, &mark)).await;
            let ports: Vec<JobPort> = found.unwrap_or_default().into_iter().map(|f| f.0).collect();
            connection.finish(StepAnswer::Ports(ports));
        });
    }

    /// Connects the command with a program of the job.
    pub(super) fn connect(&self, attempt: AttemptKey, port: u16, connection: Connection) {
        let Some((uid, mark)) = self.owner_and_mark(attempt) else {
            return connection.refuse(RefusalCode::WrongState, over(attempt.job));
        };
        let reached = Arc::clone(&self.reached);
        tokio::spawn(async move {
            let Ok(_place) = reached.places.take(uid.0) else {
                let text = "too many connections to programs of this user are open";
                return connection.refuse(RefusalCode::TooMany, text);
            };
            let mut program = match reached.connect(attempt, port, uid, mark).await {
                Ok(program) => program,
                Err(why) => return connection.refuse(RefusalCode::NotFound, why),
            };
            let _ = program.set_nodelay(true);
            let Ok(mut command) = UnixStream::from_std(connection.stream) else {
                return;
            };
            if command.write_all(&encode(&StepAnswer::Done)).await.is_ok() {
                let _ = tokio::io::copy_bidirectional(&mut command, &mut program).await;
            }
        });
    }

    /// Reads as the job's user.
    pub(super) fn read(
        &self,
        attempt: AttemptKey,
        path: OsText,
        from: Option<u64>,
        connection: Connection,
    ) {
        let Some(job) = self.jobs.get(&attempt) else {
            return connection.refuse(RefusalCode::WrongState, over(attempt.job));
        };
        let allocation = &job.allocation;
        let request = FileRequest {
            uid: allocation.uid,
            gid: allocation.gid,
            groups: allocation.groups.clone(),
            path,
            from,
        };
        tokio::spawn(async move { connection.finish(reader::read(request).await) });
    }

    /// Reads as the user of a pass.
    pub(super) fn read_here(&self, incoming: IncomingStep) {
        let IncomingStep {
            connection,
            uid,
            gid,
            groups,
            ask,
            ..
        } = incoming;
        let (StepAsk::Read { path, from, .. }, Some(groups)) = (ask, groups) else {
            let text = "files are read for whoever shows a pass of the controller";
            return connection.refuse(RefusalCode::Forbidden, text);
        };
        let request = FileRequest {
            uid,
            gid,
            groups,
            path,
            from,
        };
        tokio::spawn(async move { connection.finish(reader::read(request).await) });
    }
}

fn over(job: JobId) -> String {
    format!("job {job} is over")
}
