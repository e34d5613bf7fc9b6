//! Commands: the local socket, who is there, one question after another.
//!
//! Who asks is what the kernel says of the peer. Everything is bounded: frames, time
//! without a byte in the middle of a frame, connections of one user.

use crate::attendance::{Conversation, attends};
use crate::directory;
use crate::engine::Input;
use crate::hub::Hub;
use crate::ledger;
use crate::store::Store;
use crate::store::bookings::LedgerQuery;
use cosy_control::{
    Caller, ClusterConfig, Event, Facts, LookupFailure, OldJob, TokenSeed, Via, history_table,
    is_admin,
};
use cosy_model::api::{JobRef, Reply, Request};
use cosy_model::{Dependency, DependencyKind, Gid, Refusal, RefusalCode, Uid, User, limits};
use cosy_proto::client::{Answer, Ask};
use cosy_proto::frame::{self, Decoder};
use cosy_proto::keys::{JoinToken, PublicKey, random_hex, sha256_hex};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// A frame that has begun must be whole after so long.
const FRAME_TIME: Duration = Duration::from_secs(20);
/// Connections of one user at once.
const CONNECTIONS_PER_USER: usize = 2000;
/// Bytes of requests of one user that are not whole yet.
const UNFINISHED_PER_USER: usize = 64 << 20;
/// Most jobs whose steps are asked for at once.
const STEP_JOBS: usize = 1000;
/// A look-up is good for so long.
const USER_TTL: Duration = Duration::from_secs(60);

/// What answering needs.
pub struct Desk {
    /// The core's mailbox.
    pub core: mpsc::Sender<Input>,
    /// Open connections.
    pub hub: Arc<Hub>,
    /// The present configuration.
    pub cluster: Arc<Mutex<ClusterConfig>>,
    /// Looks users up instead of the system.
    pub lookup_command: Option<Vec<String>>,
    /// For questions about history.
    pub database: PathBuf,
    /// Goes into join tokens.
    pub public_key: PublicKey,
    /// Users looked up lately.
    pub users: Mutex<BTreeMap<Uid, (Instant, User)>>,
    /// What users hold here now.
    pub connections: Mutex<BTreeMap<Uid, Held>>,
    /// The reading connections to the store that are not in use.
    pub readers: Mutex<Vec<Store>>,
}

/// What one user holds.
#[derive(Default, Debug)]
pub struct Held {
    connections: usize,
    /// Bytes of requests that are not whole yet.
    unfinished: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes commands until the listener fails.
pub async fn serve(listener: UnixListener, desk: Arc<Desk>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = desk.clone();
                tokio::spawn(async move { desk.talk(stream).await });
            }
            Err(e) => {
                tracing::warn!("a command could not connect: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

impl Desk {
    async fn talk(self: Arc<Self>, mut stream: UnixStream) {
        let Ok(peer) = stream.peer_cred() else { return };
        let (uid, gid) = (Uid(peer.uid()), Gid(peer.gid()));
        if !self.admit(uid) {
            let refusal = Refusal::new(
                RefusalCode::TooMany,
                format!("user {uid} has {CONNECTIONS_PER_USER} connections open already"),
            );
            let _ = send(&mut stream, Reply::Refused(refusal)).await;
            return;
        }
        if let Err(refusal) = self.questions(&mut stream, uid, gid).await {
            let _ = send(&mut stream, Reply::Refused(refusal)).await;
        }
        self.leave(uid);
    }

    fn admit(&self, uid: Uid) -> bool {
        let mut connections = lock(&self.connections);
        let mine = connections.entry(uid).or_default();
        if mine.connections >= CONNECTIONS_PER_USER {
            return false;
        }
        mine.connections += 1;
        true
    }

    fn leave(&self, uid: Uid) {
        let mut connections = lock(&self.connections);
        if let Some(mine) = connections.get_mut(&uid) {
            mine.connections -= 1;
            if mine.connections == 0 {
                connections.remove(&uid);
            }
        }
    }

    /// Counts what a connection holds of requests that are not whole yet.
    fn hold(&self, uid: Uid, before: usize, now: usize) -> Result<(), Refusal> {
        let mut connections = lock(&self.connections);
        let Some(mine) = connections.get_mut(&uid) else {
            return Ok(());
        };
        mine.unfinished = mine.unfinished.saturating_sub(before) + now;
        if mine.unfinished > UNFINISHED_PER_USER && now > before {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!(
                    "user {uid} has {UNFINISHED_PER_USER} bytes of unfinished requests here already"
                ),
            ));
        }
        Ok(())
    }

    async fn questions(&self, stream: &mut UnixStream, uid: Uid, gid: Gid) -> Result<(), Refusal> {
        let mut decoder = Decoder::new(limits::FRAME_BYTES);
        let result = self.each_question(stream, uid, gid, &mut decoder).await;
        let _ = self.hold(uid, decoder.buffered(), 0);
        result
    }

    async fn each_question(
        &self,
        stream: &mut UnixStream,
        uid: Uid,
        gid: Gid,
        decoder: &mut Decoder,
    ) -> Result<(), Refusal> {
        let mut chunk = vec![0u8; 16 << 10];
        let talk = Conversation::default();
        loop {
            let before = decoder.buffered();
            let body = match decoder.next_frame() {
                Ok(Some(body)) => body,
                Ok(None) => {
                    let read = stream.read(&mut chunk);
                    let n = if decoder.is_empty() {
                        read.await
                    } else {
                        match tokio::time::timeout(FRAME_TIME, read).await {
                            Ok(n) => n,
                            Err(_) => {
                                return Err(Refusal::invalid(
                                    "the request did not come to its end",
                                ));
                            }
                        }
                    };
                    match n {
                        Ok(0) | Err(_) => return Ok(()),
                        Ok(n) => decoder.push(&chunk[..n]),
                    }
                    self.hold(uid, before, decoder.buffered())?;
                    continue;
                }
                Err(e) => return Err(Refusal::invalid(e.to_string())),
            };
            let ask: Ask = frame::decode(body).map_err(|e| Refusal::invalid(e.to_string()))?;
            let _ = self.hold(uid, before, decoder.buffered());
            decoder.shrink();
            let reply = self.ask(&talk, stream, uid, gid, ask).await;
            let Some(reply) = reply else { return Ok(()) };
            if send(stream, reply).await.is_err() {
                return Ok(());
            }
        }
    }

    /// The answer; `None` when the command has gone meanwhile.
    async fn ask(
        &self,
        talk: &Conversation,
        stream: &UnixStream,
        uid: Uid,
        gid: Gid,
        ask: Ask,
    ) -> Option<Reply> {
        let caller = self.caller(uid, gid, None).await;
        tokio::select! {
            reply = self.answer(talk, caller, ask) => Some(reply),
            () = hung_up(stream) => None,
        }
    }

    /// Answers a question, also one that a node's daemon has passed on.
    pub async fn answer(&self, talk: &Conversation, caller: Caller, ask: Ask) -> Reply {
        if !cosy_proto::understands(ask.version) {
            return Reply::Refused(Refusal::new(
                RefusalCode::Version,
                format!(
                    "this command speaks protocol version {}, the controller {}: install the same release",
                    ask.version,
                    cosy_proto::PROTOCOL
                ),
            ));
        }
        match ask.request {
            Request::History { .. }
            | Request::Script { .. }
            | Request::Events { .. }
            | Request::Ledger { .. }
            | Request::Steps { .. } => {
                if let Err(refusal) = self.may_ask(talk, &caller).await {
                    return Reply::Refused(refusal);
                }
                self.out_of_store(caller, ask.request).await
            }
            request => match self
                .decide(talk, caller.clone(), ask.key.map(|k| k.0), request)
                .await
            {
                Decided::Reply(reply) => reply,
                Decided::NotThere(job) => self.explain_old(caller, job).await,
            },
        }
    }

    /// Only the controller knows for whom a node's daemon may speak.
    async fn may_ask(&self, talk: &Conversation, caller: &Caller) -> Result<(), Refusal> {
        if caller.via.is_none() {
            return Ok(());
        }
        match self.decide(talk, caller.clone(), None, Request::Ping).await {
            Decided::Reply(Reply::Refused(refusal)) => Err(refusal),
            Decided::Reply(_) | Decided::NotThere(_) => Ok(()),
        }
    }

    async fn decide(
        &self,
        talk: &Conversation,
        caller: Caller,
        key: Option<[u8; 16]>,
        request: Request,
    ) -> Decided {
        let attends = attends(&request);
        if attends.is_some()
            && let Err(refusal) = talk.may_stay()
        {
            return Decided::Reply(Reply::Refused(refusal));
        }
        let explained = match &request {
            Request::Explain { job } => Some(*job),
            _ => None,
        };
        let facts = self.facts(&request).await;
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
            return Decided::Reply(stopping());
        }
        let reply = answer.await.unwrap_or_else(|_| stopping());
        talk.answered(presence, attends, &reply);
        match (explained, &reply) {
            (Some(job), Reply::Refused(r)) if r.code == RefusalCode::NotFound => {
                Decided::NotThere(job)
            }
            _ => Decided::Reply(reply),
        }
    }

    /// What the controller needs to know out of the store, or of randomness.
    async fn facts(&self, request: &Request) -> Facts {
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
            Request::JoinToken { .. } => return self.token_facts(),
            _ => Vec::new(),
        };
        if refs.is_empty() {
            return Facts::default();
        }
        let old_jobs = self
            .read(move |store| {
                refs.into_iter()
                    .map(|job| {
                        Ok(OldJob {
                            job,
                            ok: store.outcome(job)?,
                        })
                    })
                    .collect::<Result<Vec<_>, _>>()
            })
            .await
            .unwrap_or_default();
        Facts {
            old_jobs,
            token: None,
        }
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
            old_jobs: Vec::new(),
            token,
        }
    }

    /// Runs a query on a reading connection, on a thread where it may block.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Store) -> Result<T, crate::store::StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let reader = lock(&self.readers).pop();
        let database = self.database.clone();
        let done = tokio::task::spawn_blocking(move || {
            let store = match reader {
                Some(store) => store,
                None => Store::open_reader(&database)?,
            };
            let result = query(&store);
            Ok::<_, crate::store::StoreError>((store, result))
        })
        .await;
        let unreadable = |why: String| {
            Refusal::new(
                RefusalCode::Unavailable,
                format!("the store cannot be read: {why}"),
            )
        };
        match done {
            Ok(Ok((store, result))) => {
                let mut readers = lock(&self.readers);
                if readers.len() < 4 {
                    readers.push(store);
                }
                result.map_err(|e| unreadable(e.to_string()))
            }
            Ok(Err(e)) => Err(unreadable(e.to_string())),
            Err(e) => Err(unreadable(e.to_string())),
        }
    }

    async fn out_of_store(&self, caller: Caller, request: Request) -> Reply {
        let admin = is_admin(&lock(&self.cluster), &caller);
        let uid = caller.user.uid;
        let only = (!admin).then_some(uid);
        let result = match request {
            Request::History { filter, fields } => self
                .read(move |store| store.history(&filter, only))
                .await
                .map(|rows| Reply::Jobs(history_table(&fields, &rows))),
            Request::Script { job } => self.script(job, admin, uid).await,
            Request::Steps { jobs } => match jobs.len() {
                1..=STEP_JOBS => self
                    .read(move |store| store.steps(&jobs, only))
                    .await
                    .map(Reply::Steps),
                n => Err(Refusal::invalid(format!(
                    "steps of {n} jobs are asked for: name between 1 and {STEP_JOBS}"
                ))),
            },
            Request::Events { after, most } => {
                if admin {
                    self.read(move |store| store.events(after, most))
                        .await
                        .map(Reply::Events)
                } else {
                    Err(Refusal::new(
                        RefusalCode::Forbidden,
                        "only administrators may read the history of everyone",
                    ))
                }
            }
            Request::Ledger {
                account,
                reservation,
                after,
                most,
            } => {
                let query = LedgerQuery {
                    account,
                    reservation,
                    after,
                    most,
                    reader: None,
                };
                let asking = (!admin).then_some(caller);
                self.read(move |store| ledger::read(store, query, asking.as_ref()))
                    .await
                    .and_then(|answer| answer)
            }
            _ => Err(Refusal::invalid("this is not answered out of the store")),
        };
        result.unwrap_or_else(Reply::Refused)
    }

    async fn script(&self, job: JobRef, admin: bool, uid: Uid) -> Result<Reply, Refusal> {
        let found = self.read(move |store| store.script(job.job)).await?;
        match found {
            Some((owner, script)) if admin || owner == uid => Ok(Reply::Script(script)),
            Some(_) | None => Err(Refusal::new(
                RefusalCode::NotFound,
                format!("there is no job {job}"),
            )),
        }
    }

    /// A job that the controller no longer has in memory.
    async fn explain_old(&self, caller: Caller, job: JobRef) -> Reply {
        let admin = is_admin(&lock(&self.cluster), &caller);
        let only = (!admin).then_some(caller.user.uid);
        let filter = cosy_model::api::JobFilter {
            ids: vec![job],
            ..Default::default()
        };
        match self.read(move |store| store.history(&filter, only)).await {
            Ok(rows) if !rows.is_empty() => Reply::Explained {
                table: history_table(cosy_model::api::JobField::ALL, &rows),
                lines: Vec::new(),
            },
            Ok(_) => Reply::Refused(Refusal::new(
                RefusalCode::NotFound,
                format!("there is no job {job}"),
            )),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Who a uid is. Look-ups run on a thread of their own; a directory that does not
    /// answer leaves the caller unresolved.
    pub async fn caller(&self, uid: Uid, gid: Gid, via: Option<Via>) -> Caller {
        let known = lock(&self.users)
            .get(&uid)
            .filter(|(at, _)| at.elapsed() < USER_TTL)
            .map(|(_, user)| user.clone());
        let found = match known {
            Some(user) => Ok(user),
            None => self.look_up(uid).await,
        };
        match found {
            Ok(mut user) => {
                user.gid = gid;
                Caller {
                    user,
                    resolved: true,
                    via,
                }
            }
            Err(_) => Caller {
                user: User {
                    uid,
                    gid,
                    name: uid.to_string(),
                    ..User::default()
                },
                resolved: false,
                via,
            },
        }
    }

    async fn look_up(&self, uid: Uid) -> Result<User, LookupFailure> {
        let command = self.lookup_command.clone();
        let work = tokio::task::spawn_blocking(move || directory::look_up(uid, command.as_deref()));
        let user = tokio::time::timeout(Duration::from_secs(10), work)
            .await
            .map_err(|_| LookupFailure::Down)?
            .map_err(|_| LookupFailure::Down)??;
        lock(&self.users).insert(uid, (Instant::now(), user.clone()));
        Ok(user)
    }
}

enum Decided {
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
    Reply::Refused(Refusal::new(
        RefusalCode::Unavailable,
        "the controller is stopping; try again",
    ))
}

async fn send(stream: &mut UnixStream, reply: Reply) -> std::io::Result<()> {
    let bytes = encode(reply);
    stream.write_all(&bytes).await
}

/// The frame of an answer; an answer that is too large becomes a refusal.
pub fn encode(reply: Reply) -> Vec<u8> {
    /// Lists of millions of jobs are large; the peer is the user's own command.
    const ANSWER_BYTES: usize = 1 << 30;
    match frame::encode(&Answer::new(reply), ANSWER_BYTES) {
        Ok(bytes) => bytes,
        Err(e) => {
            let refusal = Refusal::new(
                RefusalCode::TooMany,
                format!("the answer is too large: {e}"),
            );
            frame::encode(&Answer::new(Reply::Refused(refusal)), ANSWER_BYTES).unwrap_or_default()
        }
    }
}

/// Returns when the peer has closed its end while it should be waiting.
async fn hung_up(stream: &UnixStream) {
    loop {
        match stream.ready(tokio::io::Interest::READABLE).await {
            Ok(ready) if ready.is_read_closed() => return,
            Ok(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(_) => return,
        }
    }
}
