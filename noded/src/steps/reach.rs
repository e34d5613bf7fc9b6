//! What is asked for whoever is not on this node: a connection to a port of a job, a part of a file.

use super::ports;
use super::serve::{Connection, IncomingStep, encode};
use super::table::Steps;
use super::usage;
use crate::reader::{self, FileRequest};
use cosy_model::node::AttemptKey;
use cosy_model::step::{JobPort, StepAnswer, StepAsk};
use cosy_model::{JobId, OsText, RefusalCode, Uid};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

impl Steps {
    fn owner_and_mark(&self, attempt: AttemptKey) -> Option<(Uid, String)> {
        let job = self.jobs.get(&attempt)?;
        Some((job.allocation.uid, self.mark_of_attempt(attempt)))
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
            let Ok(_place) = reached.place(uid) else {
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
