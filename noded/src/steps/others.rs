//! The other nodes of a job, as its first node asks them.

use super::table::{Job, Steps, parts_of};
use super::time_limit::ask_node;
use crate::peer::pool::Pool;
use cosy_model::OsText;
use cosy_model::node::AttemptKey;
use cosy_model::step::{Peer, StepAnswer};
use cosy_proto::peer::{PeerAsk, PeerRequest};
use std::sync::Arc;

/// A job's nodes beside this one, and what they are asked with.
pub(super) struct Others {
    pool: Arc<Pool>,
    peers: Vec<Peer>,
    ticket: OsText,
    attempt: AttemptKey,
}

impl Steps {
    /// Those of a job; none on another than its first node.
    pub(super) fn others_of(&self, attempt: AttemptKey, job: &Job) -> Others {
        let parts = parts_of(&job.allocation).unwrap_or_default();
        let peers = parts.into_iter().map(|part| part.peer);
        let is_other = |p: &Peer| p.node != self.setup.name && !p.address.is_empty();
        Others {
            pool: Arc::clone(&self.setup.pool),
            peers: peers.filter(is_other).collect(),
            ticket: job.allocation.ticket.clone(),
            attempt,
        }
    }
}

impl Others {
    /// The nodes, in the order of the job.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// The attempt whose nodes they are.
    pub const fn attempt(&self) -> AttemptKey {
        self.attempt
    }

    /// Asks one of them.
    ///
    /// # Errors
    /// In one line, with its name, why there is no answer.
    pub fn ask(
        &self,
        peer: &Peer,
        what: PeerRequest,
    ) -> impl Future<Output = Result<StepAnswer, String>> + Send + 'static {
        let ask = PeerAsk {
            version: cosy_proto::PROTOCOL,
            node: peer.node.clone(),
            ticket: self.ticket.clone(),
            what,
        };
        let (pool, peer) = (Arc::clone(&self.pool), peer.clone());
        async move { ask_node(&pool, &peer, &ask).await }
    }
}
