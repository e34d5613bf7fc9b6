//! Another time limit for steps that run: it comes to their heads and goes down their trees.
//!
//! Each node keeps it in the spool before its supervisor is told, so that a daemon that is
//! started again tells it once more. A part of a step that is not there yet finds it when it
//! comes.

use super::peer_requests::pair;
use super::serve::Connection;
use super::spool;
use super::start::below;
use super::table::{Job, Running, Steps};
use crate::peer::pool::{Pool, Reply};
use crate::peer::read_frame;
use crate::peer::tunnel::carry;
use crate::shepherd::signals::{self, Order};
use cosy_model::node::AttemptKey;
use cosy_model::step::{Peer, StepAnswer, StepId, StepKey};
use cosy_model::{Refusal, RefusalCode, Span, limits};
use cosy_proto::peer::{PeerAsk, PeerRequest};
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::task::{JoinError, JoinSet};

/// How long the nodes below another one may take to be told.
const ANSWER: Duration = Duration::from_secs(120);
/// Nodes that are told at once.
const AT_ONCE: usize = super::tree::FAN_OUT;
/// Nodes that are named where they have not taken it.
const NAMED: usize = 3;

/// What a node below is asked.
type PeerCall = (Peer, PeerAsk);

impl Steps {
    /// Gives running steps of an attempt whose first node this is another limit of their own.
    pub(super) fn limit_requested(
        &mut self,
        attempt: AttemptKey,
        step: Option<StepId>,
        limit: Span,
        connection: Connection,
    ) {
        let mut meant = self.keys_of(attempt);
        meant.retain(|key| step.is_none_or(|step| step == key.step));
        meant.retain(|key| self.running(*key).is_some_and(|r| r.task.is_head()));
        if let Err(refusal) = is_limit(limit).and_then(|()| some(attempt, step, &meant)) {
            return connection.finish(StepAnswer::Refused(refusal));
        }
        let mut errands = Vec::new();
        for key in meant {
            match self.limit_here(key, limit) {
                Ok(below) => errands.extend(below),
                Err(why) => return connection.refuse(RefusalCode::Unavailable, why),
            }
        }
        self.send_down(errands, connection);
    }

    /// The node above has another limit for this node's part of a step, and for those below.
    /// Gives the end of a connection that says [`StepAnswer::Done`] when they have it.
    ///
    /// # Errors
    /// In one line: it cannot be kept here.
    pub(super) fn limit_of_part(&mut self, key: StepKey, limit: Span) -> Result<StdStream, String> {
        is_limit(limit).map_err(|refusal| refusal.message)?;
        let errands = match self.running(key) {
            Some(_) => self.limit_here(key, limit)?,
            None => {
                self.keep_for_later(key, limit)?;
                Vec::new()
            }
        };
        let (stream, other) = pair()?;
        let place = None;
        self.send_down(errands, Connection { stream, place });
        Ok(other)
    }

    /// Keeps the new limit of a step that is over here or has not come yet.
    fn keep_for_later(&mut self, key: StepKey, limit: Span) -> Result<(), String> {
        let Some(job) = self.jobs.get_mut(&key.attempt) else {
            return Err(format!("job {} is not known there", key.attempt.job));
        };
        if job.limits.len() >= limits::STEPS_ON_NODE && !job.limits.contains_key(&key.step) {
            return Err(format!("step {key} does not run there"));
        }
        job.limits.insert(key.step, limit);
        Ok(())
    }

    /// Sets the limit on this node; what is to be asked of those below.
    fn limit_here(&mut self, key: StepKey, limit: Span) -> Result<Vec<PeerCall>, String> {
        let unkept = |e: io::Error| format!("cannot keep the limit of step {key}: {e}");
        spool::write_limit(&self.path_of(key), limit).map_err(unkept)?;
        let Some(running) = self.running(key) else {
            return Ok(Vec::new());
        };
        Arc::make_mut(&mut running.task).order.spec.time_limit = Some(limit);
        let task = Arc::clone(&running.task);
        self.tell_limit(key);
        let errand = |peer: Peer| {
            let ask = PeerAsk {
                version: cosy_proto::PROTOCOL,
                node: peer.node.clone(),
                ticket: task.allocation.ticket.clone(),
                what: PeerRequest::Limit { key, limit },
            };
            (peer, ask)
        };
        let children = below(&task.order).into_iter();
        let peers = children.filter_map(|order| order.peers.into_iter().next());
        Ok(peers.map(errand).collect())
    }

    /// Asks those below, and answers when all have said something.
    fn send_down(&self, errands: Vec<PeerCall>, connection: Connection) {
        if errands.is_empty() {
            return connection.finish(StepAnswer::Done);
        }
        let pool = Arc::clone(&self.setup.pool);
        tokio::spawn(async move {
            let refused = carry_out(&pool, errands).await;
            connection.finish(match refused.is_empty() {
                true => StepAnswer::Done,
                false => StepAnswer::Refused(refusal_naming(&refused)),
            });
        });
    }

    /// Tells the supervisor of a step how long it may run.
    pub(super) fn tell_limit(&mut self, key: StepKey) {
        let now = Instant::now();
        let job = self.jobs.get(&key.attempt);
        let order = job.and_then(|job| Some(job.limit_of(job.running.get(&key.step)?, now)));
        if let Some(order) = order {
            self.tell(key, order);
        }
    }
}

impl Job {
    /// The limit that ends a step: its own from its beginning, or what the job has left where
    /// that is sooner.
    fn limit_of(&self, running: &Running, now: Instant) -> Order {
        let left = self.left(self.stopped.unwrap_or(now));
        let of_job = Order::Left(signals::seconds(left));
        let Some(own) = running.task.order.spec.time_limit else {
            return of_job;
        };
        let ran = now.saturating_duration_since(running.since);
        let ran = i64::try_from(ran.as_millis()).unwrap_or(i64::MAX);
        let own_left = own.ms().saturating_sub(ran);
        match own.is_unlimited() || (!left.is_unlimited() && own_left > left.ms()) {
            true => of_job,
            false => Order::Limit(signals::seconds(own)),
        }
    }
}

fn is_limit(limit: Span) -> Result<(), Refusal> {
    match limit.ms() > 0 {
        true => Ok(()),
        false => Err(Refusal::invalid("a time limit is longer than nothing")),
    }
}

fn some(attempt: AttemptKey, step: Option<StepId>, meant: &[StepKey]) -> Result<(), Refusal> {
    if !meant.is_empty() {
        return Ok(());
    }
    let what = match step {
        Some(step) => format!("no step {} runs", StepKey { attempt, step }),
        None => format!("no step of job {} runs", attempt.job),
    };
    let text = format!("{what}; 'cosy run --list' shows those that do");
    Err(Refusal::new(RefusalCode::NotFound, text))
}

/// The refusal that names the nodes which have not taken the new limit.
fn refusal_naming(refused: &[String]) -> Refusal {
    let named = refused.iter().take(NAMED).map(String::as_str);
    let named: Vec<&str> = named.collect();
    let more = match refused.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let text = format!("the limit was not changed on all nodes: {}{more}", named.join("; "));
    Refusal::new(RefusalCode::Unavailable, text)
}

/// Does the errands; gives what went wrong, each in one line with the node's name.
async fn carry_out(pool: &Arc<Pool>, errands: Vec<PeerCall>) -> Vec<String> {
    let mut under_way = JoinSet::new();
    let mut refused = Vec::new();
    let mut note = |done: Option<Result<Result<(), String>, JoinError>>| {
        if let Some(Ok(Err(why))) = done {
            refused.push(why);
        }
    };
    for (peer, ask) in errands {
        if under_way.len() >= AT_ONCE {
            note(under_way.join_next().await);
        }
        let pool = Arc::clone(pool);
        under_way.spawn(async move { tell_node(&pool, &peer, &ask).await });
    }
    while !under_way.is_empty() {
        note(under_way.join_next().await);
    }
    refused.sort_unstable();
    refused
}

async fn tell_node(pool: &Pool, peer: &Peer, ask: &PeerAsk) -> Result<(), String> {
    match ask_node(pool, peer, ask).await? {
        StepAnswer::Done => Ok(()),
        StepAnswer::Refused(refusal) => Err(refusal.message),
        other => Err(format!("node {}: {other:?} is no answer", peer.node)),
    }
}

/// The one answer of another node.
///
/// # Errors
/// In one line, with its name, why there is none.
pub(super) async fn ask_node(
    pool: &Pool,
    peer: &Peer,
    ask: &PeerAsk,
) -> Result<StepAnswer, String> {
    let of_node = |why: String| format!("node {}: {why}", peer.node);
    let conversed = pool.converse(peer, ask).await;
    match conversed.map_err(|silence| silence.to_string())? {
        Reply::Refused(why) => Err(of_node(why)),
        Reply::Accepted(mut stream) => {
            let answer = hear(&mut stream)
                .await
                .map_err(|e| of_node(e.to_string()))?;
            pool.put(peer, stream);
            Ok(answer)
        }
    }
}

/// The one answer that a conversation consists of.
async fn hear(stream: &mut crate::peer::pool::Stream) -> io::Result<StepAnswer> {
    let (mut own, mut carried) = UnixStream::pair()?;
    let listen = async {
        let answer = read_frame::<StepAnswer>(&mut own, limits::FRAME_BYTES).await;
        own.shutdown().await?;
        tokio::io::copy(&mut own, &mut tokio::io::sink()).await?;
        answer
    };
    let both = async { tokio::join!(carry(stream, &mut carried), listen) };
    let slow = || io::Error::other(format!("no answer within {} s", ANSWER.as_secs()));
    let (carried, answer) = tokio::time::timeout(ANSWER, both)
        .await
        .map_err(|_| slow())?;
    carried.and(answer)
}
