//! Whether a program of a job is connected in a certain way: on the job's first node, and on those of
//! its nodes from whose address the connection comes.

use super::peer_requests::pair;
use super::ports;
use super::serve::Connection;
use super::table::{Steps, parts_of};
use super::time_limit::ask_node;
use super::usage;
use crate::peer::pool::Pool;
use cosy_model::node::AttemptKey;
use cosy_model::step::{Peer, StepAnswer, TcpPair};
use cosy_model::{OsText, RefusalCode, Uid};
use cosy_proto::peer::{PeerAsk, PeerRequest};
use std::net::IpAddr;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Nodes of a job that have the address a connection comes from, and are asked.
const ASKED: usize = 8;

/// A job's nodes beside this one, and what they are asked with.
struct Others {
    pool: Arc<Pool>,
    peers: Vec<Peer>,
    ticket: OsText,
    attempt: AttemptKey,
}

impl Steps {
    /// Looks on this node, the job's first one, then asks others of its nodes, and answers from there.
    pub(super) fn tell_holder(&self, attempt: AttemptKey, wanted: TcpPair, connection: Connection) {
        let Some(job) = self.jobs.get(&attempt) else {
            let text = format!("job {} is over", attempt.job);
            return connection.refuse(RefusalCode::WrongState, text);
        };
        let parts = parts_of(&job.allocation).unwrap_or_default();
        let peers = parts.into_iter().map(|part| part.peer);
        let is_other = |p: &Peer| p.node != self.setup.name && !p.address.is_empty();
        let others = Others {
            pool: Arc::clone(&self.setup.pool),
            peers: peers.filter(is_other).collect(),
            ticket: job.allocation.ticket.clone(),
            attempt,
        };
        let (uid, mark) = (job.allocation.uid, self.mark_of_attempt(attempt));
        tokio::spawn(async move {
            let holds = is_here(uid, mark, wanted).await || others.hold(wanted).await;
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

impl Others {
    /// Whether one of them says so.
    async fn hold(self, wanted: TcpPair) -> bool {
        let mut asked = JoinSet::new();
        for peer in self.peers {
            if asked.len() >= ASKED {
                break;
            }
            if !is_at(&peer, wanted.from.ip()).await {
                continue;
            }
            let ask = PeerAsk {
                version: cosy_proto::PROTOCOL,
                node: peer.node.clone(),
                ticket: self.ticket.clone(),
                what: PeerRequest::Holds {
                    attempt: self.attempt,
                    connection: wanted,
                },
            };
            let pool = Arc::clone(&self.pool);
            asked.spawn(async move { ask_node(&pool, &peer, &ask).await });
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
}

/// Whether a node is reached at that address.
async fn is_at(peer: &Peer, address: IpAddr) -> bool {
    match tokio::net::lookup_host(&peer.address).await {
        Ok(mut all) => all.any(|found| found.ip().to_canonical() == address),
        Err(_) => false,
    }
}
