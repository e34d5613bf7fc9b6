//! What other nodes' daemons ask for: a part of a step, a hop anew, a command's
//! conversation. The ticket decides; an allocation must be known here as well.

use super::serve::{Connection, IncomingStep};
use super::table::{PendingRequest, Steps};
use super::{IoPurpose, UpKind, check};
use crate::peer::hop::dock;
use crate::peer::serve::{IncomingPeer, Verdict};
use crate::shepherd::nursery::ShepherdSpec;
use cosy_model::node::{AllocationKey, AttemptKey};
use cosy_model::step::{StepAsk, StepKey, StepOrder};
use cosy_model::{Gid, OsText, Uid};
use cosy_proto::keys::PublicKey;
use cosy_proto::peer::PeerRequest;
use cosy_proto::ticket::{self, Claims, TicketError};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use tokio::sync::oneshot;

/// Another node asks for a part of a step.
#[derive(Debug)]
pub(super) struct PartRequest {
    pub order: Box<StepOrder>,
    pub verdict: oneshot::Sender<Verdict>,
}

impl PartRequest {
    /// Answers that the part will not be started here.
    pub fn refuse(self, reason: String) {
        let _ = self.verdict.send(Verdict::Refuse(reason));
    }
}

impl Steps {
    /// Another node asks.
    pub(super) fn peer_requested(&mut self, incoming: IncomingPeer) {
        let IncomingPeer { ask, key, verdict } = incoming;
        let refuse = |reason: String| Verdict::Refuse(reason);
        if ask.node != self.setup.name {
            let text = format!("this is node {}, not {}", self.setup.name, ask.node);
            let _ = verdict.send(Verdict::Stranger(text));
            return;
        }
        let job = match &ask.what {
            PeerRequest::Start(order) | PeerRequest::StartWithDisplay(order) => {
                Some(order.key.attempt)
            }
            PeerRequest::Resume { key } | PeerRequest::Limit { key, .. } => Some(key.attempt),
            PeerRequest::Holds { attempt, .. } | PeerRequest::Samples { attempt } => Some(*attempt),
            PeerRequest::Command { .. } => None,
        };
        let claims = match self.claims(&ask.ticket, job, &key) {
            Ok(claims) => claims,
            Err(reason) => {
                let _ = verdict.send(Verdict::Stranger(reason.to_string()));
                return;
            }
        };
        match ask.what {
            PeerRequest::Start(order) | PeerRequest::StartWithDisplay(order) => {
                self.part_requested(PartRequest { order, verdict });
            }
            PeerRequest::Resume { key } => self.resume(key, verdict),
            PeerRequest::Limit { key, limit } => {
                let done = self.limit_of_part(key, limit).map(Verdict::Carry);
                let _ = verdict.send(done.unwrap_or_else(refuse));
            }
            PeerRequest::Holds {
                attempt,
                connection,
            } => {
                let done = self.holds_here(attempt, connection).map(Verdict::Carry);
                let _ = verdict.send(done.unwrap_or_else(refuse));
            }
            PeerRequest::Samples { attempt } => {
                let done = self.samples_here(attempt).map(Verdict::Carry);
                let _ = verdict.send(done.unwrap_or_else(refuse));
            }
            PeerRequest::Command { uid, gid, ask } => {
                let done = self.command(&claims, uid, gid, ask);
                let _ = verdict.send(done.unwrap_or_else(refuse));
            }
        }
    }

    /// What a good ticket says, which must name this node, the key of who shows it and,
    /// where one is given, that attempt.
    fn claims(
        &self,
        ticket: &OsText,
        attempt: Option<AttemptKey>,
        shown_by: &PublicKey,
    ) -> Result<Claims, TicketError> {
        // An attempt that is known here has not ended, however long it runs.
        let known = attempt.is_some_and(|key| self.jobs.contains_key(&key));
        let controller = &self.setup.controller;
        let claims = match known {
            true => ticket::verify_signature(ticket, controller)?,
            false => ticket::verify(ticket, controller, self.setup.clock.now())?,
        };
        claims.shown_by(shown_by)?;
        if attempt.is_some_and(|key| AllocationKey::from(key) != claims.key) {
            return Err(TicketError::Mismatch("job"));
        }
        let names = cosy_model::expand(&claims.nodes).unwrap_or_default();
        match names.contains(&self.setup.name) {
            true => Ok(claims),
            false => Err(TicketError::Mismatch("node")),
        }
    }

    fn command(
        &mut self,
        claims: &Claims,
        uid: Uid,
        gid: Gid,
        ask: StepAsk,
    ) -> Result<Verdict, String> {
        if uid != claims.uid {
            return Err(format!(
                "the allocation's ticket is uid {}'s, not uid {uid}'s",
                claims.uid
            ));
        }
        if claims.key.job().is_none_or(|own| own.job != ask.job()) {
            return Err(format!(
                "the allocation's ticket is for job {}, not for job {}",
                claims.key,
                ask.job()
            ));
        }
        self.request_for((uid, gid), ask, true).map(Verdict::Carry)
    }

    /// Asks as a command of that user would; gives the end of a connection that says the answer.
    ///
    /// # Errors
    /// In one line: there are no descriptors left.
    pub(super) fn request_for(
        &mut self,
        (uid, gid): (Uid, Gid),
        ask: StepAsk,
        from_peer: bool,
    ) -> Result<StdStream, String> {
        let (stream, other) = pair()?;
        self.command_requested(IncomingStep {
            connection: Connection {
                stream,
                place: None,
            },
            uid,
            gid,
            groups: None,
            ask,
            from_peer,
        });
        Ok(other)
    }

    /// Starts this node's part of a step, when the attempt is known here; else it waits
    /// for that.
    pub(super) fn part_requested(&mut self, incoming: PartRequest) {
        let key = incoming.order.key;
        if !self.jobs.contains_key(&key.attempt) {
            return self.pend(key.attempt.job, PendingRequest::Part(incoming));
        }
        if self.running(key).is_some() {
            // It was asked for before, and the answer was lost.
            return self.resume(key, incoming.verdict);
        }
        let done = self.start_part(*incoming.order);
        let _ = incoming.verdict.send(match done {
            Ok(local) => Verdict::Carry(local),
            Err(reason) => Verdict::Refuse(reason),
        });
    }

    fn start_part(&mut self, mut order: StepOrder) -> Result<StdStream, String> {
        let key = order.key;
        self.check_part(&order)?;
        let job = self.jobs.get_mut(&key.attempt);
        if let Some(limit) = job.and_then(|job| job.limits.remove(&key.step)) {
            order.spec.time_limit = Some(limit);
        }
        self.has_room()?;
        if self.is_short(&order) {
            // The end of an earlier step is seen here a moment later than at the head.
            self.release_finished(key.attempt);
        }
        let (up, carried) = pair()?;
        self.begin(order, UpKind::Hop)
            .map_err(|e| format!("cannot keep step {key} in the spool: {e}"))?;
        let spec = ShepherdSpec {
            attempt: key.attempt.into(),
            step: Some(key.step),
        };
        self.shepherd_requests.send(spec, Some(OwnedFd::from(up)));
        Ok(carried)
    }

    fn is_short(&self, order: &StepOrder) -> bool {
        let job = self.jobs.get(&order.key.attempt);
        job.is_some_and(|job| job.shares.is_short(&job.allocation, cores_of(order)))
    }

    /// Whether the order is one for this node and within the allocation here.
    fn check_part(&self, order: &StepOrder) -> Result<(), String> {
        let key = order.key;
        let Some(job) = self.jobs.get(&key.attempt).filter(|job| !job.closing) else {
            return Err(format!("job {} is ending here", key.attempt.job));
        };
        check::spec(&order.spec)?;
        check::order(order)?;
        let own = order
            .tree
            .first()
            .and_then(|n| order.layout.nodes.get(*n as usize));
        if own != Some(&self.setup.name) {
            return Err(format!("the order for step {key} is for another node"));
        }
        let names = cosy_model::expand(&job.allocation.nodes).unwrap_or_default();
        let names: std::collections::BTreeSet<String> = names.into_iter().collect();
        if let Some(foreign) = order.layout.nodes.iter().find(|n| !names.contains(*n)) {
            return Err(format!("node {foreign} is not of job {}", key.attempt.job));
        }
        let (wanted, there) = (cores_of(order), job.allocation.cores.len());
        match wanted > there && !order.spec.overcommit {
            true => Err(format!(
                "step {key} needs {wanted} cores here; job {} has {there}",
                key.attempt.job
            )),
            false => Ok(()),
        }
    }

    fn resume(&mut self, key: StepKey, verdict: oneshot::Sender<Verdict>) {
        let swept =
            |r: &super::table::Running| matches!(r.reach, super::table::SupervisorState::Sweeping);
        if self.running(key).is_none_or(|r| swept(r)) {
            let reason = format!("step {key} does not run there (any more)");
            let _ = verdict.send(Verdict::Refuse(reason));
            return;
        }
        let directory = self.path_of(key);
        tokio::spawn(async move {
            let docked = dock(&directory, IoPurpose::Up).await;
            let _ = verdict.send(match docked.and_then(|stream| stream.into_std()) {
                Ok(stream) => Verdict::Carry(stream),
                Err(e) => Verdict::Refuse(format!("the supervisor of step {key}: {e}")),
            });
        });
    }
}

pub(super) fn pair() -> Result<(StdStream, StdStream), String> {
    let (left, right) = StdStream::pair().map_err(|e| e.to_string())?;
    let both = left.set_nonblocking(true).and(right.set_nonblocking(true));
    both.map_err(|e| e.to_string())?;
    Ok((left, right))
}

/// Cores that an order takes on the node addressed.
fn cores_of(order: &StepOrder) -> usize {
    let own = order.tree.first().copied().unwrap_or(0);
    let tasks = order.layout.count_of(own) as usize;
    tasks.saturating_mul(order.layout.cores_per_task as usize)
}
