//! One request that cancels many jobs, in pieces.
//!
//! Between two pieces others have their turn, and the next is decided only when the last is
//! durable: nobody waits for longer than one piece takes to decide and to write. The answer
//! comes with the last one. When the controller dies in between, what was cancelled stays
//! cancelled and nothing was answered; the command asks again.
//!
//! A large piece is cheaper for each job, a small one keeps others waiting less.

use crate::controller::Controller;
use crate::event::ClientId;
use crate::steer::Recipients;
use cosy_model::api::Reply;
use cosy_model::{JobId, Refusals, Time, Uid};

/// Jobs in one piece.
pub(crate) const PIECE: usize = 500;
/// Requests in pieces at once; what comes beyond is done as a whole.
pub(crate) const UNDER_WAY: usize = 16;

/// A request under way.
#[derive(Debug)]
pub(crate) struct Cancelling {
    /// Where the answer goes: more than one when it was asked again with the same key.
    pub clients: Vec<ClientId>,
    pub uid: Uid,
    pub who: String,
    pub key: Option<[u8; 16]>,
    /// Not to be ended, but sent this signal.
    pub signal: Option<(i32, Recipients)>,
    /// The jobs were named: what cannot be done is told of each.
    pub named: bool,
    /// The next ones are at the end.
    pub left: Vec<JobId>,
    pub changed: u64,
    pub refused: Refusals,
}

impl Cancelling {
    pub fn answer(self) -> Reply {
        Reply::Done {
            changed: self.changed,
            refused: self.refused.told(),
        }
    }
}

impl Controller {
    /// Waiting jobs come before running ones and late ones before early ones, so that none
    /// starts because another of them has ended. The first to end comes last in the list.
    pub(crate) fn order_of_ends(&self, ids: &mut [JobId]) {
        let waits = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.is_waiting());
        ids.sort_by_cached_key(|id| (waits(id), *id));
    }

    /// The next piece of the request whose turn it is.
    pub(crate) fn cancel_next(&mut self, now: Time) {
        let Some(mut cancelling) = self.cancelling.pop_front() else {
            return;
        };
        self.cancel_some(now, &mut cancelling, PIECE);
        if !cancelling.left.is_empty() {
            self.cancelling.push_back(cancelling);
        } else {
            self.cancelled(now, cancelling);
        }
    }

    pub(crate) fn cancel_some(&mut self, now: Time, cancelling: &mut Cancelling, most: usize) {
        for _ in 0..most {
            let Some(id) = cancelling.left.pop() else {
                return;
            };
            let done = match cancelling.signal {
                Some((signal, whom)) => self.signal_job(id, signal, whom),
                None => {
                    self.cancel_job(now, id, &cancelling.who);
                    Ok(())
                }
            };
            match done {
                Ok(()) => cancelling.changed += 1,
                Err(_) if !cancelling.named => {}
                Err(refusal) => cancelling.refused.push(self.name_of(id), refusal),
            }
        }
    }

    fn cancelled(&mut self, now: Time, mut cancelling: Cancelling) {
        let clients = std::mem::take(&mut cancelling.clients);
        let (uid, key) = (cancelling.uid, cancelling.key);
        let reply = cancelling.answer().short();
        if let Some(key) = key {
            self.remember(now, uid, key, &reply);
        }
        for client in clients {
            self.reply(client, reply.clone());
        }
    }

    /// True when this request is under way: it is then answered with that one.
    pub(crate) fn joins_cancelling(&mut self, client: ClientId, uid: Uid, key: [u8; 16]) -> bool {
        let same = |c: &&mut Cancelling| c.uid == uid && c.key == Some(key);
        match self.cancelling.iter_mut().find(same) {
            Some(cancelling) => {
                cancelling.clients.push(client);
                true
            }
            None => false,
        }
    }
}
