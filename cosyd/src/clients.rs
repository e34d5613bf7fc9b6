//! Commands: the local socket, who is there, one question after another.
//!
//! Who asks is what the kernel says of the peer. Everything is bounded: connections, frames,
//! bytes of requests and of answers that are under way ([`Services::budgets`]), time without a
//! byte in the middle of a frame, before the first one and between two requests, time in
//! which an answer is not taken. What takes long runs on threads of its own ([`Pools`]).

mod frames;
mod leading;
mod lock;
mod rules;
mod services;
mod store;
mod users;

pub use frames::{Encoded, encode, send};
use frames::{ReadEnd, count, encode_with, hung_up, read, room_for, understand};
pub(crate) use lock::lock;
pub use services::{Answering, Budgets, Pools, Services, Times};

use crate::budget::{Requester, Share};
use crate::conversation::{Conversation, attends};
use crate::engine::Input;
use crate::standby::Standby;
use crate::store::Store;
use crate::store::outcomes::LookUp;
use cosy_control::{Caller, Event, Facts, TokenSeed, is_admin, may_come_from};
use cosy_model::api::{JobRef, Reply, Request};
use cosy_model::{Dependency, DependencyKind, Gid, Refusal, RefusalCode, Uid, User, limits};
use cosy_proto::client::RequestFrame;
use cosy_proto::frame::{Body, Decoder};
use cosy_proto::keys::{JoinToken, random_hex, sha256_hex};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Commands that a standby talks with at once.
const STANDBY_CONNECTIONS: usize = 256;
/// How long a request that passes the limit of bytes waits before it is refused.
const PATIENCE: Duration = Duration::from_secs(20);
/// A frame of so many bytes is read before anything is counted for it.
const SMALL_FRAME: usize = 16 << 10;
/// Beyond so many bytes or values a request is decoded on a thread of its own.
const LARGE_BYTES: usize = 256 << 10;
/// Number of values beyond which a request is decoded on a thread of its own.
const LARGE_VALUES: usize = 10_000;

/// Takes commands until the listener fails.
pub async fn serve(listener: UnixListener, answering: Answering, standby: Arc<Standby>) {
    let idle = Arc::new(Semaphore::new(STANDBY_CONNECTIONS));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let services = answering.borrow().clone();
                match (services, idle.clone().try_acquire_owned()) {
                    (Some(services), _) => {
                        tokio::spawn(async move { services.talk(stream).await });
                    }
                    (None, Ok(place)) => {
                        let talk = leading::talk(stream, answering.clone(), standby.clone());
                        tokio::spawn(async move {
                            talk.await;
                            drop(place);
                        });
                    }
                    (None, Err(_)) => drop(stream),
                }
            }
            Err(e) => {
                tracing::warn!("a command could not connect: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

impl Services {
    async fn talk(self: Arc<Self>, mut stream: UnixStream) {
        let Ok(peer) = stream.peer_cred() else { return };
        let (uid, gid) = (Uid(peer.uid()), Gid(peer.gid()));
        let who = self.who(uid);
        let result = match self.budgets.connections.try_take(who, 1) {
            Ok(_connection) => self.questions(&mut stream, who, gid).await,
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = result {
            let bytes = encode(Reply::Refused(refusal));
            let _ = send(&mut stream, &bytes, Duration::from_secs(1)).await;
        }
    }

    /// The user and whether the reserves are there for it.
    fn who(&self, uid: Uid) -> Requester {
        let user = lock(&self.users).get(&uid).map(|(_, user)| user.clone());
        let resolved = user.is_some();
        let user = user.unwrap_or_else(|| User {
            uid,
            ..User::default()
        });
        let caller = Caller {
            resolved,
            ..Caller::known(user)
        };
        Requester {
            uid,
            trusted: is_admin(&lock(&self.cluster), &caller),
        }
    }

    async fn questions(
        &self,
        stream: &mut UnixStream,
        who: Requester,
        gid: Gid,
    ) -> Result<(), Refusal> {
        let mut decoder = Decoder::new(limits::FRAME_BYTES);
        let talk = Conversation::default();
        // Bytes of the frame that is being read.
        let mut unfinished: Option<Share> = None;
        let mut has_asked = false;
        // When it has to be whole.
        let mut whole_by: Option<Instant> = None;
        loop {
            let body = match decoder.next_body() {
                Ok(Some(body)) => body,
                Ok(None) => {
                    if unfinished.is_none()
                        && let Some(length) = decoder.promised().filter(|n| *n > SMALL_FRAME)
                    {
                        let budget = &self.budgets.unfinished;
                        unfinished = Some(budget.take(who, length as u64, PATIENCE).await?);
                    }
                    let until = if decoder.is_empty() {
                        self.silent_until(&talk, has_asked)
                    } else {
                        Some(*whole_by.get_or_insert_with(|| Instant::now() + self.times.frame))
                    };
                    if read(stream, &mut decoder, until).await? == ReadEnd::Over {
                        return Ok(());
                    }
                    continue;
                }
                Err(e) => return Err(Refusal::invalid(e.to_string())),
            };
            (has_asked, whole_by) = (true, None);
            let (frame, share) = self.decode(who, body).await?;
            unfinished = None;
            decoder.shrink();
            let answer = self
                .answer_unless_gone(&talk, stream, who, gid, frame)
                .await;
            drop(share);
            let Some(answer) = answer else { return Ok(()) };
            if send(stream, &answer.bytes, self.times.take).await.is_err() {
                return Ok(());
            }
        }
    }

    /// How long a connection may be silent between two requests; one that stays with a job as
    /// long as it wants.
    fn silent_until(&self, talk: &Conversation, has_asked: bool) -> Option<Instant> {
        let silence = match (talk.stays_with_jobs(), has_asked) {
            (true, _) => return None,
            (false, true) => self.times.idle,
            (false, false) => self.times.first,
        };
        Some(Instant::now() + silence)
    }

    /// The request in a frame's body, and what it is counted as until it is answered. A long
    /// body is only looked at on a thread that nobody else's words wait for.
    ///
    /// # Errors
    /// It is none, a long one passes its bounds, or there are too many bytes of requests
    /// under way.
    pub async fn decode(
        &self,
        who: Requester,
        body: Body,
    ) -> Result<(RequestFrame, Share), Refusal> {
        let (body, values) = match body.len() > LARGE_BYTES {
            true => {
                self.pools
                    .codes
                    .run(who, |(): &mut ()| count(body))
                    .await??
            }
            false => count(body)?,
        };
        let weight = body.len() + limits::VALUE_BYTES * values;
        let share = self
            .budgets
            .requests
            .take(who, weight as u64, PATIENCE)
            .await?;
        let frame = if body.len() > LARGE_BYTES || values > LARGE_VALUES {
            // What passes its bounds is also freed there: half a million names take a while.
            let decode = move |(): &mut ()| {
                let frame = understand(&body)?;
                frame.request.check_bounds()?;
                Ok::<_, Refusal>(frame)
            };
            self.pools.codes.run(who, decode).await??
        } else {
            understand(&body)?
        };
        Ok((frame, share))
    }

    /// The answer; `None` when the command has gone meanwhile.
    async fn answer_unless_gone(
        &self,
        talk: &Conversation,
        stream: &UnixStream,
        who: Requester,
        gid: Gid,
        frame: RequestFrame,
    ) -> Option<Encoded> {
        let answer = async {
            let caller = self.caller(who.uid, gid, None).await;
            self.answer_whole(talk, caller, frame).await
        };
        tokio::select! {
            answer = answer => Some(answer),
            () = hung_up(stream) => None,
        }
    }

    /// Answers a question, also one that a node's daemon has passed on: as a frame, which is
    /// counted until it is taken.
    pub async fn answer_whole(
        &self,
        talk: &Conversation,
        mut caller: Caller,
        frame: RequestFrame,
    ) -> Encoded {
        caller.as_user |= frame.as_user;
        let caller = match self.named(caller, &frame).await {
            Ok(caller) => caller,
            Err(refusal) => return Encoded::refused(refusal),
        };
        let who = Requester {
            uid: caller.user.uid,
            trusted: caller.via.is_none() && is_admin(&lock(&self.cluster), &caller),
        };
        let room = room_for(&frame.request);
        let large = room > 0;
        let answers = &self.budgets.answers;
        let share = match answers.take(who, room, PATIENCE).await {
            Ok(share) => share,
            Err(refusal) => return Encoded::refused(refusal),
        };
        let mut notices = Vec::new();
        let reply = self.answer(talk, caller, frame, &mut notices).await;
        let bytes = if large && !matches!(reply, Reply::Refused(_)) {
            match self
                .pools
                .codes
                .run(who, move |(): &mut ()| encode_with(reply, notices))
                .await
            {
                Ok(bytes) => bytes,
                Err(refusal) => return Encoded::refused(refusal),
            }
        } else {
            encode_with(reply, notices)
        };
        let mut share = share;
        let share = match share.resize(bytes.len() as u64) {
            Ok(()) => share,
            Err(_) => match answers.take(who, bytes.len() as u64, PATIENCE).await {
                Ok(more) => more,
                Err(refusal) => return Encoded::refused(refusal),
            },
        };
        Encoded {
            bytes,
            share: Some(share),
        }
    }

    /// Answers a question, also one that a node's daemon has passed on.
    async fn answer(
        &self,
        talk: &Conversation,
        caller: Caller,
        frame: RequestFrame,
        notices: &mut Vec<String>,
    ) -> Reply {
        if !cosy_proto::understands(frame.version) {
            return Reply::Refused(Refusal::new(
                RefusalCode::Version,
                format!(
                    "this command speaks protocol version {}, the controller {}: install the same release",
                    frame.version,
                    cosy_proto::PROTOCOL
                ),
            ));
        }
        if let Err(refusal) = frame.request.check_bounds() {
            return Reply::Refused(refusal);
        }
        if let Some(silence) = self.silence(&frame.request) {
            return Reply::Refused(silence);
        }
        match frame.request {
            Request::Meter => match self.may_ask(talk, &caller, &frame.request).await {
                Ok(()) => self.metered(&caller),
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::Archive { before, dry_run } => {
                match self.may_ask(talk, &caller, &frame.request).await {
                    Ok(()) => self.archive(&caller, before, dry_run).await,
                    Err(refusal) => Reply::Refused(refusal),
                }
            }
            Request::Controllers => match self.may_ask(talk, &caller, &frame.request).await {
                Ok(()) => self.controllers(&caller).await,
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::HandOver { to } => {
                let request = Request::HandOver { to: to.clone() };
                match self.may_ask(talk, &caller, &request).await {
                    Ok(()) => self.hand_over(&caller, to).await,
                    Err(refusal) => Reply::Refused(refusal),
                }
            }
            Request::TryRules { .. } => match self.may_ask(talk, &caller, &frame.request).await {
                Ok(()) => self.try_rules(caller, frame.request).await,
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::History { .. }
            | Request::Script { .. }
            | Request::Events { .. }
            | Request::Ledger { .. }
            | Request::Steps { .. } => {
                if let Err(refusal) = self.may_ask(talk, &caller, &frame.request).await {
                    return Reply::Refused(refusal);
                }
                self.out_of_store(caller, frame.request, notices).await
            }
            request => match self
                .decide(talk, caller.clone(), frame.key.map(|k| k.0), request, notices)
                .await
            {
                Resolved::Reply(reply) => reply,
                Resolved::NotThere(job) => self.explain_old(caller, job, notices).await,
            },
        }
    }

    /// Why a ping is not answered now: one that waited as all others do would tell nobody.
    fn silence(&self, request: &Request) -> Option<Refusal> {
        self.standing
            .silence()
            .filter(|_| *request == Request::Ping)
    }

    fn metered(&self, caller: &Caller) -> Reply {
        let admin = is_admin(&lock(&self.cluster), caller);
        let memory = std::iter::once(self.memory.row());
        let budgets = self.budgets.all().map(|budget| budget.row());
        Reply::Meter {
            kinds: self.meter.rows(admin),
            budgets: memory.chain(budgets).collect(),
        }
    }

    /// Only the controller knows for whom a node's daemon may speak.
    async fn may_ask(
        &self,
        talk: &Conversation,
        caller: &Caller,
        request: &Request,
    ) -> Result<(), Refusal> {
        if caller.via.is_none() {
            return Ok(());
        }
        may_come_from(&lock(&self.cluster), caller, request)?;
        let mut notices = Vec::new();
        let ping = self.decide(talk, caller.clone(), None, Request::Ping, &mut notices);
        match ping.await {
            Resolved::Reply(Reply::Refused(refusal)) => Err(refusal),
            Resolved::Reply(_) | Resolved::NotThere(_) => Ok(()),
        }
    }

    async fn decide(
        &self,
        talk: &Conversation,
        mut caller: Caller,
        key: Option<[u8; 16]>,
        request: Request,
        notices: &mut Vec<String>,
    ) -> Resolved {
        let attends = attends(&request);
        if attends.is_some()
            && let Err(refusal) = talk.may_stay()
        {
            return Resolved::Reply(Reply::Refused(refusal));
        }
        let explained = match &request {
            Request::Explain { job } => Some(*job),
            _ => None,
        };
        let passage = self.at_gate(&caller, request).await;
        let request = passage.request;
        *notices = passage.remarks;
        let mut facts = match self.facts(&caller, &request).await {
            Ok(facts) => facts,
            Err(refusal) => return Resolved::Reply(Reply::Refused(refusal)),
        };
        facts.refused = passage.refused;
        caller.given = passage.given;
        let (client, answer) = self.hub.expect_answer();
        let presence = talk.presence(client, self.core.clone(), self.hub.clone());
        let event = Event::Asked {
            client,
            caller: Box::new(caller),
            key,
            request,
            facts,
        };
        if self.core.send(Input::Event(Box::new(event))).await.is_err() {
            return Resolved::Reply(stopping());
        }
        drop(passage.turn);
        let reply = answer.await.unwrap_or_else(|_| stopping());
        talk.answered(presence, attends, &reply);
        match (explained, &reply) {
            (Some(job), Reply::Refused(r)) if r.code == RefusalCode::NotFound => {
                Resolved::NotThere(job)
            }
            _ => Resolved::Reply(reply),
        }
    }

    /// What the controller needs to know out of the store, or of randomness.
    async fn facts(&self, caller: &Caller, request: &Request) -> Result<Facts, Refusal> {
        let refs: Vec<JobRef> = match request {
            Request::Submit(s) | Request::Allocate(s) => targets(&s.spec.dependencies),
            Request::Attend { job, .. } => vec![JobRef {
                job: *job,
                task: None,
            }],
            Request::Change { change, .. } => {
                targets(change.dependencies.as_deref().unwrap_or(&[]))
            }
            Request::Wait { jobs } => jobs.iter().take(limits::IDS_IN_REQUEST).copied().collect(),
            Request::JoinToken { .. } => return Ok(self.token_facts()),
            _ => Vec::new(),
        };
        if refs.is_empty() {
            return Ok(Facts::default());
        }
        let mut look_up = LookUp::new(refs);
        let old_jobs = loop {
            let piece = move |store: &Store| {
                let done = look_up.go_on(store)?;
                Ok((look_up, done))
            };
            let facts = &self.pools.facts;
            let done;
            (look_up, done) = self.read(facts, caller, request.kind(), piece).await?;
            if done {
                break look_up.found();
            }
        };
        Ok(Facts {
            old_jobs,
            ..Facts::default()
        })
    }

    fn token_facts(&self) -> Facts {
        let token = random_hex(24).ok().map(|secret| TokenSeed {
            hash: sha256_hex(secret.as_bytes()),
            text: JoinToken {
                controller: self.public_key,
                secret,
            }
            .to_string(),
        });
        Facts {
            token,
            ..Facts::default()
        }
    }
}

enum Resolved {
    Reply(Reply),
    /// The job may be in the store.
    NotThere(JobRef),
}

fn targets(dependencies: &[Dependency]) -> Vec<JobRef> {
    dependencies
        .iter()
        .take(limits::DEPENDENCIES)
        .filter(|d| d.kind != DependencyKind::Singleton)
        .map(|d| JobRef {
            job: d.job,
            task: d.task,
        })
        .collect()
}

fn stopping() -> Reply {
    Reply::Refused(Refusal::new(RefusalCode::Unavailable, "the controller is stopping; try again"))
}

#[cfg(test)]
pub(crate) mod tests;
