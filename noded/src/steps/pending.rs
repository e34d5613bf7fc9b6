//! What is asked for jobs that are not known here: it waits for the controller's order, and
//! commands are shown the way to a job that is elsewhere.

use super::ledger::bytes_of;
use super::serve::IncomingStep;
use super::table::{Pending, PendingRequest, StepEvent, Steps};
use crate::peer::pool::{Pool, Reply};
use crate::peer::tunnel::carry;
use cosy_model::node::NodeReport;
use cosy_model::step::{AllocationRoute, Peer, StepAnswer, StepAsk};
use cosy_model::{JobId, Refusal, RefusalCode};
use cosy_proto::peer::{PeerAsk, PeerRequest};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;

/// How long an ask waits until its attempt is known here.
const PATIENCE: Duration = Duration::from_secs(30);
/// A job that is to begin here is usually known by then; else the controller is asked
/// where it is.
const SEEK_AFTER: Duration = Duration::from_millis(5);
/// Most asks that wait for attempts.
const PENDING: usize = 4096;

impl Steps {
    pub(super) fn pend(&mut self, job: JobId, what: PendingRequest) {
        let seek = matches!(&what, PendingRequest::Command(incoming) if !incoming.from_peer);
        let room = self.may_wait(what.bytes());
        if self.pending.len() >= PENDING || room.is_err() {
            return self.refuse_pending(what, "too many commands wait for jobs here; try again");
        }
        self.next_pending += 1;
        let number = self.next_pending;
        self.pending.push(Pending { number, job, what });
        let events = self.setup.events.clone();
        tokio::spawn(async move {
            if seek {
                tokio::time::sleep(SEEK_AFTER).await;
                let _ = events.send(StepEvent::Seek(number).into()).await;
            }
            tokio::time::sleep(PATIENCE).await;
            let _ = events.send(StepEvent::Late(number).into()).await;
        });
    }

    /// Bytes of what waits for jobs that are not known here.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(|p| p.what.bytes()).sum()
    }

    /// Another node is reached elsewhere from now on, also by hops that look for it.
    pub fn moved(&self, peer: Peer) {
        self.setup.pool.moved(peer);
    }

    /// Asks the controller where the job of a waiting command is.
    pub(super) fn seek(&mut self, number: u64) {
        let waiting = self.pending.iter().find(|p| p.number == number);
        if let Some(Pending {
            job,
            what: PendingRequest::Command(incoming),
            ..
        }) = waiting
        {
            self.reports.push(NodeReport::AskPassage {
                number,
                uid: incoming.uid,
                job: *job,
            });
        }
    }

    fn take_pending(&mut self, number: u64) -> Option<Pending> {
        let at = self.pending.iter().position(|p| p.number == number)?;
        Some(self.pending.swap_remove(at))
    }

    pub(super) fn pending_late(&mut self, number: u64) {
        if let Some(pending) = self.take_pending(number) {
            let text = format!(
                "job {} is not known on node {} after {} s",
                pending.job,
                self.setup.name,
                PATIENCE.as_secs()
            );
            self.refuse_pending(pending.what, &text);
        }
    }

    fn refuse_pending(&self, what: PendingRequest, text: &str) {
        match what {
            PendingRequest::Command(incoming) => {
                incoming.connection.refuse(RefusalCode::Unavailable, text)
            }
            PendingRequest::Part(incoming) => incoming.refuse(text.to_owned()),
        }
    }

    /// The job is known now.
    pub(super) fn serve_pending(&mut self, job: JobId) {
        let (now, later) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|p| p.job == job);
        self.pending = later;
        let now: Vec<Pending> = now;
        for pending in now {
            match pending.what {
                PendingRequest::Command(incoming) => self.command_requested(incoming),
                PendingRequest::Part(incoming) => self.part_requested(incoming),
            }
        }
    }

    /// The controller's answer: where the job is.
    pub fn passage(&mut self, number: u64, passage: Result<Box<AllocationRoute>, Refusal>) {
        let here = matches!(&passage, Ok(p) if p.first.node == self.setup.name);
        if here {
            // Its order comes; whoever waits is served then.
            return;
        }
        let Some(Pending {
            what: PendingRequest::Command(incoming),
            ..
        }) = self.take_pending(number)
        else {
            return;
        };
        match passage {
            Err(refusal) => incoming.connection.finish(StepAnswer::Refused(refusal)),
            Ok(passage) => {
                let pool = Arc::clone(&self.setup.pool);
                tokio::spawn(pass_on(pool, *passage, incoming));
            }
        }
    }
}

impl PendingRequest {
    fn bytes(&self) -> usize {
        match self {
            Self::Command(incoming) => match &incoming.ask {
                StepAsk::Start { spec, .. } | StepAsk::StartWithDisplay { spec, .. } => {
                    bytes_of(spec)
                }
                StepAsk::List { .. }
                | StepAsk::Usage { .. }
                | StepAsk::Samples { .. }
                | StepAsk::Attach { .. }
                | StepAsk::Signal { .. }
                | StepAsk::Ports { .. }
                | StepAsk::Connect { .. }
                | StepAsk::Holds { .. }
                | StepAsk::Read { .. }
                | StepAsk::For { .. }
                | StepAsk::Limit { .. } => 0,
            },
            Self::Part(incoming) => bytes_of(&incoming.order.spec),
        }
    }
}

/// Carries a command's conversation to the first node of its job.
async fn pass_on(pool: Arc<Pool>, passage: AllocationRoute, incoming: IncomingStep) {
    let ask = PeerAsk {
        version: cosy_proto::PROTOCOL,
        node: passage.first.node.clone(),
        ticket: passage.ticket,
        what: PeerRequest::Command {
            uid: passage.uid,
            gid: passage.gid,
            ask: incoming.ask,
        },
    };
    match pool.converse(&passage.first, &ask).await {
        Err(silence) => {
            let why = silence.to_string();
            incoming.connection.refuse(RefusalCode::Unavailable, why);
        }
        Ok(Reply::Refused(why)) => incoming.connection.refuse(RefusalCode::WrongState, why),
        Ok(Reply::Accepted(mut stream)) => {
            let Ok(mut command) = UnixStream::from_std(incoming.connection.stream) else {
                return;
            };
            if carry(&mut stream, &mut command).await.is_ok() {
                pool.put(&passage.first, stream);
            }
        }
    }
}
