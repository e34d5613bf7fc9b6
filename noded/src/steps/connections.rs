//! Whether a program of a job is connected in a certain way: on the job's first node, and on those of
//! its nodes from whose address the connection comes.

use super::others::Others;
use super::peer_requests::pair;
use super::ports;
use super::serve::Connection;
use super::table::Steps;
use super::usage;
use cosy_model::node::AttemptKey;
use cosy_model::step::{Peer, StepAnswer, TcpPair};
use cosy_model::{RefusalCode, Uid};
use cosy_proto::peer::PeerRequest;
use std::net::IpAddr;
use std::os::unix::net::UnixStream as StdStream;
use tokio::task::JoinSet;

/// Nodes of a job that have the address a connection comes from, and are asked.
const ASKED: usize = 8;

impl Steps {
    /// Looks on this node, the job's first one, then asks others of its nodes, and answers from there.
    pub(super) fn tell_holder(&self, attempt: AttemptKey, wanted: TcpPair, connection: Connection) {
        let Some(job) = self.jobs.get(&attempt) else {
            let text = format!("job {} is over", attempt.job);
            return connection.refuse(RefusalCode::WrongState, text);
        };
        let others = self.others_of(attempt, job);
        let (uid, mark) = (job.allocation.uid, self.mark_of_attempt(attempt));
        tokio::spawn(async move {
            let holds = is_here(uid, mark, wanted).await || hold(others, wanted).await;
            connection.finish(StepAnswer::Holds(holds));
        });
    }

    /// The job's first node asks. Gives the end of a connection that says the answer.
    ///
    /// # Errors
    /// In one line: the job is not known here.
    pub(super) fn holds_here(
        &self,
        attempt: AttemptKey,
        wanted: TcpPair,
    ) -> Result<StdStream, String> {
        let Some(job) = self.jobs.get(&attempt) else {
            return Err(format!("job {} is not known there", attempt.job));
        };
        let (uid, mark) = (job.allocation.uid, self.mark_of_attempt(attempt));
        let (stream, other) = pair()?;
        let connection = Connection {
            stream,
            place: None,
        };
        tokio::spawn(async move {
            connection.finish(StepAnswer::Holds(is_here(uid, mark, wanted).await));
        });
        Ok(other)
    }
}

async fn is_here(uid: Uid, mark: String, wanted: TcpPair) -> bool {
    let look = usage::in_turn(move || ports::holds(uid, &mark, wanted));
    look.await.unwrap_or(false)
}

/// Whether a program on another of the job's nodes is connected like that.
async fn hold(others: Others, wanted: TcpPair) -> bool {
    let mut asked = JoinSet::new();
    for peer in others.peers() {
        if asked.len() >= ASKED {
            break;
        }
        if !is_at(peer, wanted.from.ip()).await {
            continue;
        }
        let what = PeerRequest::Holds {
            attempt: others.attempt(),
            connection: wanted,
        };
        asked.spawn(others.ask(peer, what));
    }
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(StepAnswer::Holds(true))) => return true,
            Ok(Err(why)) => tracing::debug!("whose connection it is: {why}"),
            _ => {}
        }
    }
    false
}

/// Whether a node is reached at that address.
async fn is_at(peer: &Peer, address: IpAddr) -> bool {
    match tokio::net::lookup_host(&peer.address).await {
        Ok(mut all) => all.any(|found| found.ip().to_canonical() == address),
        Err(_) => false,
    }
}
