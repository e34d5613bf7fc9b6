//! Commands: the local socket, who is there, one question after another.
//!
//! Who asks is what the kernel says of the peer. Everything is bounded: connections, frames,
//! bytes of requests and of answers that are under way ([`Desk::budgets`]), time without a
//! byte in the middle of a frame, before the first one and between two requests, time in
//! which an answer is not taken. What takes long runs on threads of its own ([`Pools`]).

use crate::attendance::{Conversation, attends};
use crate::budget::{self, Budget, Share, Who};
use crate::directory;
use crate::engine::Input;
use crate::hub::Hub;
use crate::ledger;
use crate::meter::Meter;
use crate::pool::{Bounds, Pool};
use crate::reads;
use crate::store::bookings::LedgerQuery;
use crate::store::outcomes::LookUp;
use crate::store::steps::StepReading;
use crate::store::{Store, StoreError};
use crate::within::within;
use cosy_control::{
    Caller, ClusterConfig, Event, Eyes, Facts, LookupFailure, TokenSeed, Via, is_admin,
    may_come_from,
};
use cosy_model::api::{JobFilter, JobRef, Reply, Request};
use cosy_model::{Dependency, DependencyKind, Gid, Refusal, RefusalCode, Uid, User, limits};
use cosy_proto::client::{self, Answer, Ask};
use cosy_proto::frame::{self, Body, Decoder};
use cosy_proto::keys::{JoinToken, PublicKey, random_hex, sha256_hex};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// An answer must be taken at this rate at least, in bytes in a second.
const TAKE_RATE: usize = 64 << 10;
/// Who passes the limit of bytes waits for so long before it is refused.
const PATIENCE: Duration = Duration::from_secs(20);
/// A frame of so many bytes is read before anything is counted for it.
const SMALL_FRAME: usize = 16 << 10;
/// Beyond so many bytes or values a request is decoded on a thread of its own.
const LARGE_BYTES: usize = 256 << 10;
/// See [`LARGE_BYTES`].
const LARGE_VALUES: usize = 10_000;
/// A look-up is good for so long.
const USER_TTL: Duration = Duration::from_secs(60);
/// Connections beside those of commands that the daemon itself needs, in file descriptors:
/// nodes, the store, standard streams.
const OTHER_FILES: u64 = 1024;
/// Most connections of commands, whatever the system allows.
const CONNECTIONS: u64 = 4096;
/// Commands on other hosts that talk with the controller at once.
const RELAYED: u64 = 10_000;

const MIB: u64 = 1 << 20;

/// How long connections of commands may keep the daemon waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// The first byte of a connection must come within so long.
    pub first: Duration,
    /// A connection that asks nothing any more, and stays with no job, ends after so long.
    pub idle: Duration,
    /// A frame that has begun must be whole after so long.
    pub frame: Duration,
    /// An answer of which nothing is taken for so long is not waited for any more.
    pub take: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(30),
            idle: Duration::from_secs(600),
            frame: Duration::from_secs(20),
            take: Duration::from_secs(30),
        }
    }
}

/// What users may hold of the controller at once.
pub struct Budgets {
    /// Connections to the local socket.
    pub connections: Arc<Budget>,
    /// Commands on other hosts.
    pub relayed: Arc<Budget>,
    /// Bytes of requests that are not whole yet.
    pub unfinished: Arc<Budget>,
    /// Bytes of requests that are not answered yet, as they are in memory.
    pub requests: Arc<Budget>,
    /// Bytes of answers that are being made, or not taken yet.
    pub answers: Arc<Budget>,
    /// Bytes of what node daemons report, whole or not, until its turn comes. The key of each
    /// stands for a user.
    pub reports: Arc<Budget>,
}

impl Budgets {
    /// `per_user`: connections of one user; `files`: file descriptors that the daemon may have.
    pub fn new(per_user: u64, files: u64) -> Self {
        let limits = |per_user, in_all, reserve| budget::Limits {
            per_user,
            in_all,
            reserve,
        };
        let all = files
            .saturating_sub(OTHER_FILES)
            .max(files / 2)
            .min(CONNECTIONS);
        let reserve = (all / 16).max(4);
        let connections = limits(per_user, all - reserve, reserve);
        Self {
            connections: Budget::new("connections", connections),
            relayed: Budget::new("connections over nodes", limits(per_user, RELAYED, 0)),
            unfinished: Budget::new(
                "bytes of unfinished requests",
                limits(32 * MIB, 80 * MIB, 32 * MIB),
            ),
            requests: Budget::new(
                "bytes of requests under way",
                limits(48 * MIB, 96 * MIB, 48 * MIB),
            ),
            answers: Budget::new(
                "bytes of answers under way",
                limits(48 * MIB, 96 * MIB, 48 * MIB),
            ),
            reports: Budget::new("bytes of nodes' reports", limits(32 * MIB, 96 * MIB, 0)),
        }
    }

    fn all(&self) -> [&Arc<Budget>; 6] {
        [
            &self.connections,
            &self.relayed,
            &self.unfinished,
            &self.requests,
            &self.answers,
            &self.reports,
        ]
    }
}

/// Threads for what may block. None of them waits for another.
pub struct Pools {
    /// Questions that are answered out of the store.
    pub history: Pool<Option<Store>>,
    /// What submissions need to know out of the store.
    pub facts: Pool<Option<Store>>,
    /// Who a user is.
    pub directory: Pool<()>,
    /// Decodes large requests and encodes answers.
    pub codes: Pool<()>,
}

impl Pools {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start() -> std::io::Result<Self> {
        let bounds = |threads, per_user, waiting_per_user| Bounds {
            threads,
            per_user,
            waiting_per_user,
            waiting: 4096,
        };
        Ok(Self {
            history: Pool::start("reads of history", bounds(3, 1, 64))?,
            facts: Pool::start("look-ups of jobs", bounds(3, 1, 1024))?,
            directory: Pool::start("look-ups of users", bounds(4, 1, 1024))?,
            codes: Pool::start("large messages", bounds(2, 1, 1024))?,
        })
    }
}

/// What answering needs.
pub struct Desk {
    /// The core's mailbox.
    pub core: mpsc::Sender<Input>,
    /// Connections that answers are written to.
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
    pub users: Arc<Mutex<BTreeMap<Uid, (Instant, User)>>>,
    /// What users may hold at once.
    pub budgets: Budgets,
    /// Threads that do what would hold up connections.
    pub pools: Pools,
    /// How long things take.
    pub meter: Arc<Meter>,
    /// How long connections may keep it waiting.
    pub times: Times,
}

/// A whole frame of an answer, counted until it is taken.
#[derive(Debug)]
pub struct Encoded {
    /// Frame with its header, ready to be written.
    pub bytes: Vec<u8>,
    /// What it is counted as; dropped with it.
    pub share: Option<Share>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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

/// How a read ended.
#[derive(PartialEq)]
enum Read {
    /// Bytes came.
    Some,
    /// The peer has closed its end, or was silent for too long between two requests.
    Over,
}

impl Desk {
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
    fn who(&self, uid: Uid) -> Who {
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
        Who {
            uid,
            trusted: is_admin(&lock(&self.cluster), &caller),
        }
    }

    async fn questions(&self, stream: &mut UnixStream, who: Who, gid: Gid) -> Result<(), Refusal> {
        let mut decoder = Decoder::new(limits::FRAME_BYTES);
        let talk = Conversation::default();
        // Bytes of the frame that is being read.
        let mut unfinished: Option<Share> = None;
        let mut asked = false;
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
                        self.silent_until(&talk, asked)
                    } else {
                        Some(*whole_by.get_or_insert_with(|| Instant::now() + self.times.frame))
                    };
                    if read(stream, &mut decoder, until).await? == Read::Over {
                        return Ok(());
                    }
                    continue;
                }
                Err(e) => return Err(Refusal::invalid(e.to_string())),
            };
            (asked, whole_by) = (true, None);
            let (ask, request) = self.decode(who, body).await?;
            unfinished = None;
            decoder.shrink();
            let answer = self.ask(&talk, stream, who, gid, ask).await;
            drop(request);
            let Some(answer) = answer else { return Ok(()) };
            if send(stream, &answer.bytes, self.times.take).await.is_err() {
                return Ok(());
            }
        }
    }

    /// How long a connection may be silent between two requests; one that stays with a job as
    /// long as it wants.
    fn silent_until(&self, talk: &Conversation, asked: bool) -> Option<Instant> {
        let silence = match (talk.stays_with_jobs(), asked) {
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
    pub async fn decode(&self, who: Who, body: Body) -> Result<(Ask, Share), Refusal> {
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
        let ask = if body.len() > LARGE_BYTES || values > LARGE_VALUES {
            // What passes its bounds is also freed there: half a million names take a while.
            let decode = move |(): &mut ()| {
                let ask = understand(&body)?;
                ask.request.check_bounds()?;
                Ok::<_, Refusal>(ask)
            };
            self.pools.codes.run(who, decode).await??
        } else {
            understand(&body)?
        };
        Ok((ask, share))
    }

    /// The answer; `None` when the command has gone meanwhile.
    async fn ask(
        &self,
        talk: &Conversation,
        stream: &UnixStream,
        who: Who,
        gid: Gid,
        ask: Ask,
    ) -> Option<Encoded> {
        let answer = async {
            let caller = self.caller(who.uid, gid, None).await;
            self.answer_whole(talk, caller, ask).await
        };
        tokio::select! {
            answer = answer => Some(answer),
            () = hung_up(stream) => None,
        }
    }

    /// Answers a question, also one that a node's daemon has passed on: as a frame, which is
    /// counted until it is taken.
    pub async fn answer_whole(&self, talk: &Conversation, mut caller: Caller, ask: Ask) -> Encoded {
        caller.as_user |= ask.as_user;
        let who = Who {
            uid: caller.user.uid,
            trusted: caller.via.is_none() && is_admin(&lock(&self.cluster), &caller),
        };
        let room = room_for(&ask.request);
        let large = room > 0;
        let answers = &self.budgets.answers;
        let share = match answers.take(who, room, PATIENCE).await {
            Ok(share) => share,
            Err(refusal) => return Encoded::refused(refusal),
        };
        let reply = self.answer(talk, caller, ask).await;
        let bytes = if large && !matches!(reply, Reply::Refused(_)) {
            match self
                .pools
                .codes
                .run(who, move |(): &mut ()| encode(reply))
                .await
            {
                Ok(bytes) => bytes,
                Err(refusal) => return Encoded::refused(refusal),
            }
        } else {
            encode(reply)
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
    async fn answer(&self, talk: &Conversation, caller: Caller, ask: Ask) -> Reply {
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
        if let Err(refusal) = ask.request.check_bounds() {
            return Reply::Refused(refusal);
        }
        match ask.request {
            Request::Meter => match self.may_ask(talk, &caller, &ask.request).await {
                Ok(()) => self.metered(&caller),
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::History { .. }
            | Request::Script { .. }
            | Request::Events { .. }
            | Request::Ledger { .. }
            | Request::Steps { .. } => {
                if let Err(refusal) = self.may_ask(talk, &caller, &ask.request).await {
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

    fn metered(&self, caller: &Caller) -> Reply {
        let admin = is_admin(&lock(&self.cluster), caller);
        Reply::Meter {
            kinds: self.meter.rows(admin),
            budgets: self.budgets.all().map(|budget| budget.row()).into(),
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
        let facts = match self.facts(&caller, &request).await {
            Ok(facts) => facts,
            Err(refusal) => return Decided::Reply(Reply::Refused(refusal)),
        };
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
            token: None,
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
            old_jobs: Vec::new(),
            token,
        }
    }

    /// Runs a query in the user's turn on a reading thread.
    async fn read<T: Send + 'static>(
        &self,
        pool: &Pool<Option<Store>>,
        caller: &Caller,
        kind: &'static str,
        query: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let who = Who {
            uid: caller.user.uid,
            trusted: caller.via.is_none() && is_admin(&lock(&self.cluster), caller),
        };
        let (database, meter) = (self.database.clone(), self.meter.clone());
        let read = move |kept: &mut Option<Store>| {
            let begun = Instant::now();
            let store = match kept.take() {
                Some(store) => store,
                None => Store::open_reader(&database)?,
            };
            let result = query(kept.insert(store));
            meter.read(kind, who.uid, begun.elapsed());
            result
        };
        pool.run(who, read).await?.map_err(|e: StoreError| {
            Refusal::new(
                RefusalCode::Unavailable,
                format!("the store cannot be read: {e}"),
            )
        })
    }

    async fn out_of_store(&self, caller: Caller, request: Request) -> Reply {
        let admin = is_admin(&lock(&self.cluster), &caller);
        let uid = caller.user.uid;
        let only = (!admin).then_some(uid);
        if !admin && matches!(request, Request::Events { .. }) {
            return Reply::Refused(Refusal::new(
                RefusalCode::Forbidden,
                "only administrators may read the history of everyone",
            ));
        }
        let kind = request.kind();
        let (asking, cluster) = (caller.clone(), self.cluster.clone());
        let query = move |store: &Store| match request {
            Request::History { filter, fields } => {
                let eyes = Eyes::of(&lock(&cluster), &asking, &filter);
                reads::history(store, &filter, &fields, eyes)
            }
            Request::Script { job } => Ok(script_of(job, store.script(job.job)?, only)),
            Request::Steps { jobs, pages, after } => {
                let jobs = &jobs;
                let reading = StepReading {
                    jobs,
                    only,
                    pages,
                    after,
                };
                let (rows, more) = store.steps(&reading)?;
                Ok(match (pages, more) {
                    (true, more) => Reply::StepsPage { rows, more },
                    (false, None) => Reply::Steps(rows),
                    (false, Some(_)) => Reply::Refused(Refusal::new(
                        RefusalCode::TooMany,
                        "these jobs have more steps than one answer holds: name fewer jobs, or use a command of this release, which asks for the rest",
                    )),
                })
            }
            Request::Events {
                after,
                most,
                latest,
            } => store.events(after, most, latest).map(Reply::Events),
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
                let read = ledger::read(store, query, (!admin).then_some(&asking))?;
                Ok(read.unwrap_or_else(Reply::Refused))
            }
            _ => Ok(Reply::Refused(Refusal::invalid(
                "this is not answered out of the store",
            ))),
        };
        let read = self.read(&self.pools.history, &caller, kind, query);
        read.await.unwrap_or_else(Reply::Refused)
    }

    /// A job that the controller no longer has in memory.
    async fn explain_old(&self, caller: Caller, job: JobRef) -> Reply {
        let eyes = Eyes::of(&lock(&self.cluster), &caller, &JobFilter::default());
        let query = move |store: &Store| reads::explain(store, job, eyes);
        let read = self.read(&self.pools.history, &caller, "explain", query);
        read.await.unwrap_or_else(Reply::Refused)
    }

    /// Who a uid is. Look-ups run on a thread of their own; a directory that does not
    /// answer leaves the caller unresolved.
    pub async fn caller(&self, uid: Uid, gid: Gid, via: Option<Via>) -> Caller {
        let found = match known_user(&self.users, uid) {
            Some(user) => Ok(user),
            None => self.look_up(uid).await,
        };
        match found {
            Ok(user) => Caller {
                user,
                gid,
                resolved: true,
                via,
                as_user: false,
            },
            Err(_) => Caller {
                user: User {
                    uid,
                    gid,
                    name: uid.to_string(),
                    ..User::default()
                },
                gid,
                resolved: false,
                via,
                as_user: false,
            },
        }
    }

    async fn look_up(&self, uid: Uid) -> Result<User, LookupFailure> {
        let command = self.lookup_command.clone();
        let users = self.users.clone();
        let work = move |(): &mut ()| {
            // Another request of the same user may have found out meanwhile.
            let known = known_user(&users, uid);
            known.map_or_else(
                || {
                    let user = directory::look_up(uid, command.as_deref())?;
                    lock(&users).insert(uid, (Instant::now(), user.clone()));
                    Ok(user)
                },
                Ok,
            )
        };
        let who = Who {
            uid,
            trusted: uid == Uid(0),
        };
        let work = self.pools.directory.run(who, work);
        tokio::time::timeout(Duration::from_secs(10), work)
            .await
            .map_err(|_| LookupFailure::Down)?
            .map_err(|_| LookupFailure::Down)?
    }
}

fn invalid(e: frame::FrameError) -> Refusal {
    let code = match &e {
        frame::FrameError::TooMany { .. } => RefusalCode::TooMany,
        frame::FrameError::TooLong { .. }
        | frame::FrameError::Malformed(_)
        | frame::FrameError::Truncated
        | frame::FrameError::Io(_) => RefusalCode::Invalid,
    };
    Refusal::new(code, e.to_string())
}

/// How many values a request has.
fn count(body: Body) -> Result<(Body, usize), Refusal> {
    let values = frame::values(&body, limits::REQUEST_VALUES).map_err(invalid)?;
    Ok((body, values))
}

/// A user that was looked up lately.
fn known_user(users: &Mutex<BTreeMap<Uid, (Instant, User)>>, uid: Uid) -> Option<User> {
    let users = lock(users);
    let (at, user) = users.get(&uid)?;
    (at.elapsed() < USER_TTL).then(|| user.clone())
}

fn script_of(job: JobRef, found: Option<(Uid, cosy_model::OsText)>, only: Option<Uid>) -> Reply {
    match found {
        Some((owner, script)) if only.is_none_or(|uid| uid == owner) => Reply::Script(script),
        Some(_) | None => Reply::Refused(Refusal::new(
            RefusalCode::NotFound,
            format!("there is no job {job}"),
        )),
    }
}

/// Reads what is there, waiting until then.
async fn read(
    stream: &UnixStream,
    decoder: &mut Decoder,
    until: Option<Instant>,
) -> Result<Read, Refusal> {
    let between = decoder.is_empty();
    match within(until, arrived(stream, decoder)).await {
        Ok(Ok(0) | Err(_)) => Ok(Read::Over),
        Ok(Ok(_)) => Ok(Read::Some),
        Err(_) if between => Ok(Read::Over),
        Err(_) => Err(Refusal::invalid("the request did not come to its end")),
    }
}

/// The question in a frame's body.
fn understand(body: &[u8]) -> Result<Ask, Refusal> {
    frame::decode(body).map_err(|e| match client::foreign(body) {
        Some(theirs) => Refusal::new(
            RefusalCode::Version,
            format!(
                "this command speaks protocol version {theirs}, the controller {}, which does not know this request: use programs of one release",
                cosy_proto::PROTOCOL
            ),
        ),
        None => Refusal::invalid(e.to_string()),
    })
}

/// Waits for bytes and gives them to the decoder; tells how many, 0 at the end of the stream.
/// A connection that is silent holds no memory for bytes to come.
async fn arrived(stream: &UnixStream, decoder: &mut Decoder) -> std::io::Result<usize> {
    loop {
        stream.readable().await?;
        match decoder.fill(|chunk| stream.try_read(chunk)) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Bytes that are kept free for an answer of that kind while it is made: as rows and as a
/// frame. 0 for those that are short.
fn room_for(request: &Request) -> u64 {
    let page = 2 * limits::PAGE_BYTES as u64;
    let whole = 2 * limits::REPLY_BYTES as u64;
    match request {
        Request::Jobs { filter, .. } | Request::History { filter, .. } => {
            if filter.pages {
                page
            } else {
                whole
            }
        }
        Request::Steps { pages, .. } => match pages {
            true => page,
            false => whole,
        },
        Request::Explain { .. }
        | Request::Script { .. }
        | Request::Queues
        | Request::Nodes
        | Request::Triggers
        | Request::Events { .. }
        | Request::Ledger { .. }
        | Request::Quote { .. }
        | Request::Reservations { .. }
        | Request::PlanFlow { .. }
        | Request::Flows { .. }
        | Request::PlanChart { .. }
        | Request::Accounts { .. } => page,
        Request::Ping
        | Request::Meter
        | Request::Settings
        | Request::Submit(_)
        | Request::Allocate(_)
        | Request::Attend { .. }
        | Request::Finish { .. }
        | Request::Entry { .. }
        | Request::Cancel { .. }
        | Request::Hold { .. }
        | Request::Release { .. }
        | Request::Requeue { .. }
        | Request::Suspend { .. }
        | Request::Resume { .. }
        | Request::Notify { .. }
        | Request::Top { .. }
        | Request::Change { .. }
        | Request::Wait { .. }
        | Request::SetTrigger(_)
        | Request::ClearTriggers { .. }
        | Request::NodeControl { .. }
        | Request::QueueControl { .. }
        | Request::SetQueue { .. }
        | Request::DeleteQueue { .. }
        | Request::Reload
        | Request::JoinToken { .. }
        | Request::Reserve { .. }
        | Request::Confirm { .. }
        | Request::CancelReservation { .. }
        | Request::ExtendReservation { .. }
        | Request::ShortenReservation { .. }
        | Request::ShareReservation { .. }
        | Request::SubmitFlow { .. }
        | Request::ConfirmFlow { .. }
        | Request::CancelFlow { .. }
        | Request::AccountControl { .. } => 0,
    }
}

impl Encoded {
    /// A refusal, which is short.
    pub fn refused(refusal: Refusal) -> Self {
        Self {
            bytes: encode(Reply::Refused(refusal)),
            share: None,
        }
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

/// Writes bytes to a peer that takes some of them at least every `patience`, and all of them at
/// [`TAKE_RATE`].
///
/// # Errors
/// The connection broke, or the peer is too slow.
pub async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    patience: Duration,
) -> std::io::Result<()> {
    let slow = || std::io::Error::from(std::io::ErrorKind::TimedOut);
    let seconds = u64::try_from(bytes.len() / TAKE_RATE).unwrap_or(0);
    let until = tokio::time::Instant::now() + patience + Duration::from_secs(seconds);
    let mut left = bytes;
    while !left.is_empty() {
        let next = until.min(tokio::time::Instant::now() + patience);
        let written = tokio::time::timeout_at(next, stream.write(left)).await;
        match written.map_err(|_| slow())?? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            n => left = &left[n..],
        }
    }
    let next = tokio::time::Instant::now() + patience;
    tokio::time::timeout_at(next, stream.flush())
        .await
        .map_err(|_| slow())?
}

/// The frame of an answer; an answer that is too large becomes a refusal.
pub fn encode(reply: Reply) -> Vec<u8> {
    match frame::encode(&Answer::new(reply), limits::REPLY_BYTES) {
        Ok(bytes) => bytes,
        Err(e) => {
            let refusal = Refusal::new(
                RefusalCode::TooMany,
                format!("the answer is too large ({e}): ask for less at once"),
            );
            let answer = Answer::new(Reply::Refused(refusal));
            frame::encode(&answer, limits::REPLY_BYTES).unwrap_or_default()
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

#[cfg(test)]
pub(crate) mod tests;
