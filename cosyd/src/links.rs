//! Node daemons: TLS with pinned raw keys, first words, reports and orders.
//!
//! Until the controller has said that a key belongs to the cluster, a connection has one of the
//! few places of the [`HandshakeLimits`].

mod first_words;

use crate::budget::{Requester, Share};
use crate::clients::{self, Encoded, Services, lock};
use crate::conversation::Conversation;
use crate::deadline::within;
use crate::engine::Input;
use crate::handshake_limits::{HandshakeLimits, NoPlace, Place};
use crate::hub::{Backlog, Hub, ToLink};
use crate::standby::Standby;
use cosy_control::{ClusterConfig, Event, LinkAnswer, LinkHello, LinkId, Via};
use cosy_model::limits;
use cosy_model::node::{NodeOrder, NodeReport};
use cosy_model::{Gid, OsText, Refusal, RefusalCode, Uid};
use cosy_proto::frame::{self, Decoder, FrameError};
use cosy_proto::keys::{PublicKey, sha256_hex};
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::tls;
use cosy_proto::words::{self, ReportedNames};
use first_words::{too_far_apart, who_comes};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Between two looks for a place at the gate.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest answer that is passed on to a command on a node's host, in bytes.
const RELAYED_BYTES: usize = limits::FRAME_BYTES - (64 << 10);
/// Commands on one daemon's host that talk with the controller at once.
const RELAYED: usize = 10_000;
/// A report of so many bytes is read before anything is counted for it.
const SMALL_REPORT: usize = 16 << 10;
/// How long a link that passes the limit of bytes of reports waits before it is closed.
const REPORT_TIME: Duration = Duration::from_secs(20);
/// Orders that go out in one write, in bytes.
const WRITE_BYTES: usize = 256 << 10;

/// How long node daemons may keep this one waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Handshake and first word must be over after so long; so must be taking the answer.
    pub hello: Duration,
    /// One that takes nothing for so long is hung up on.
    pub take: Duration,
    /// A report that has begun must be whole after so long.
    pub frame: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(10),
            take: Duration::from_secs(30),
            frame: Duration::from_secs(60),
        }
    }
}

/// What all links of nodes share.
pub struct Switchboard {
    /// The core's mailbox.
    pub core: mpsc::Sender<Input>,
    /// Connections that frames are written to.
    pub hub: Arc<Hub>,
    /// Answers requests that nodes pass on.
    pub services: Arc<Services>,
    /// Has the cluster's name.
    pub cluster: Arc<Mutex<ClusterConfig>>,
    /// The controller's own key.
    pub key: PublicKey,
    /// How long links may keep it waiting.
    pub times: Times,
}

/// Who talks with node daemons: nobody, until this controller leads.
pub type Boards = watch::Receiver<Option<Arc<Switchboard>>>;

/// Takes node daemons until the listener fails.
pub async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    boards: Boards,
    standby: Arc<Standby>,
) {
    let handshakes = Arc::new(HandshakeLimits::default());
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let Some(place) = place(&handshakes, from.ip()).await else {
                    tracing::debug!("{from}: too many connections from there");
                    continue;
                };
                let way = (boards.clone(), standby.clone());
                tokio::spawn(meet(stream, from.ip(), acceptor.clone(), place, way));
            }
            Err(e) => {
                tracing::warn!("a node could not connect: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// A place at the gate, waited for; `None` when the address has too many already.
async fn place(handshakes: &Arc<HandshakeLimits>, address: IpAddr) -> Option<Place> {
    loop {
        match handshakes.enter(address, Instant::now()) {
            Ok(place) => return Some(place),
            Err(NoPlace::Address) => return None,
            Err(NoPlace::All) => tokio::time::sleep(PAUSE).await,
        }
    }
}

struct AcceptedLink {
    stream: TlsStream<TcpStream>,
    decoder: Decoder,
    peer: String,
    address: IpAddr,
    hello: Hello,
}

async fn greet(
    stream: TcpStream,
    address: IpAddr,
    acceptor: TlsAcceptor,
) -> anyhow::Result<AcceptedLink> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let peer = tls::peer_key(stream.get_ref().1)
        .ok_or_else(|| anyhow::anyhow!("no key was shown"))?
        .to_string();
    let mut decoder = Decoder::new(limits::HELLO_BYTES);
    let hello = loop {
        if let Some(body) = decoder.next_frame()? {
            break frame::decode(body)?;
        }
        let mut chunk = [0u8; 1024];
        let n = stream.read(&mut chunk).await?;
        anyhow::ensure!(n > 0, "it hung up");
        decoder.push(&chunk[..n]);
    };
    decoder.set_limit(limits::FRAME_BYTES);
    Ok(AcceptedLink {
        stream,
        decoder,
        peer,
        address,
        hello,
    })
}

/// From the handshake to the end of the connection.
async fn meet(
    stream: TcpStream,
    address: IpAddr,
    acceptor: TlsAcceptor,
    mut place: Place,
    (boards, standby): (Boards, Arc<Standby>),
) {
    let times = boards.borrow().as_ref().map(|board| board.times);
    let times = times.unwrap_or_default();
    let greeting = greet(stream, address, acceptor);
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(times.hello, greeting) => shaken,
        () = place.cut() => return,
    };
    let mut greeted = match shaken {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(e)) => return tracing::debug!("{address}: {e}"),
        Err(_) => return tracing::debug!("{address}: no handshake in time"),
    };
    if let Some(board) = parked(&mut greeted, &mut place, (boards, &standby), times).await {
        board.talk(greeted, &mut place).await;
    }
}

/// Keeps a node daemon until this controller leads, and tells it so; `None` when it has gone.
async fn parked(
    greeted: &mut AcceptedLink,
    place: &mut Place,
    (mut boards, standby): (Boards, &Standby),
    times: Times,
) -> Option<Arc<Switchboard>> {
    let leading = boards.borrow().clone();
    if leading.is_some() {
        return leading;
    }
    let leader = standby.leader_address();
    let word = HelloReply::Standby { leader };
    let told = say(&mut greeted.stream, &word);
    let told = tokio::time::timeout(times.hello, told).await;
    if !matches!(told, Ok(Ok(()))) || matches!(greeted.hello, Hello::Join { .. }) {
        return None;
    }
    if standby.knows(&greeted.peer) {
        place.known(&greeted.peer);
    }
    let mut chunk = [0u8; 16];
    tokio::select! {
        board = boards.wait_for(Option::is_some) => board.ok()?.clone(),
        // It says nothing before it is welcomed: this is its end.
        _ = greeted.stream.read(&mut chunk) => None,
        () = place.cut() => None,
    }
}

impl Switchboard {
    async fn talk(&self, greeted: AcceptedLink, place: &mut Place) {
        let (mut lacks, mut known) = (Vec::new(), 0);
        let (version, hello) = match greeted.hello {
            Hello::Node {
                version,
                orders,
                epoch,
            } => {
                known = epoch;
                lacks = words::lacked::<NodeOrder>(&orders);
                let hello = LinkHello::Node {
                    lacks: lacks.clone(),
                };
                (version, hello)
            }
            Hello::Join {
                version,
                node,
                token,
            } => {
                let token_hash = sha256_hex(token.as_bytes());
                (version, LinkHello::Join { node, token_hash })
            }
        };
        let (reader, mut writer) = tokio::io::split(greeted.stream);
        if let Some(reason) = too_far_apart(version, &lacks) {
            let who = who_comes(&hello, greeted.address);
            tracing::warn!("{who} was refused: {reason}");
            let _ = say(&mut writer, &HelloReply::Refused { reason }).await;
            return;
        }
        let (link, mut orders, backlog) = self.hub.open_link(lacks);
        let peer = greeted.peer.clone();
        let address = Some(greeted.address.to_canonical());
        let who = who_comes(&hello, greeted.address);
        let event = Event::LinkOpened {
            link,
            peer,
            address,
            hello,
        };
        if self.core.send(Input::Event(Box::new(event))).await.is_ok() {
            let ends = (reader, writer);
            let key = (place, greeted.peer.as_str(), who.as_str());
            self.after_hello((link, known), key, ends, greeted.decoder, (&mut orders, &backlog))
                .await;
        }
        self.hub.close_link(link);
        let _ = self
            .core
            .send(Input::Event(Box::new(Event::LinkClosed(link))))
            .await;
    }

    async fn after_hello(
        &self,
        (link, known): (LinkId, u64),
        (place, key, who): (&mut Place, &str, &str),
        (reader, mut writer): Ends,
        decoder: Decoder,
        (orders, backlog): (&mut mpsc::UnboundedReceiver<ToLink>, &Backlog),
    ) {
        let first = tokio::select! {
            first = orders.recv() => first,
            () = place.cut() => return,
        };
        let reply = match first {
            Some(ToLink::Answer(LinkAnswer::Welcome)) => {
                let own = self.services.epoch;
                if known > own {
                    self.services.standing.knows_later(who, known, own);
                }
                HelloReply::welcome(own)
            }
            Some(ToLink::Answer(LinkAnswer::Joined)) => HelloReply::Joined {
                cluster: lock(&self.cluster).name.clone(),
            },
            Some(ToLink::Answer(LinkAnswer::Refused(reason))) => {
                tracing::warn!("{who} was refused: {reason}");
                HelloReply::Refused { reason }
            }
            Some(ToLink::Frame(..) | ToLink::Close) | None => return,
        };
        let goes_on = matches!(reply, HelloReply::Welcome { .. });
        let written = tokio::time::timeout(self.times.hello, say(&mut writer, &reply)).await;
        if !matches!(written, Ok(Ok(()))) || !goes_on {
            let _ = tokio::time::timeout(self.times.hello, writer.shutdown()).await;
            return;
        }
        place.known(key);
        let mut relayed = Relayed::default();
        tokio::select! {
            () = self.listen((link, key), reader, decoder, &mut relayed) => {}
            () = send_orders(&mut writer, (orders, backlog), self.times.take) => {}
            () = place.cut() => {}
            () = backlog.cut() => {}
        }
        relayed.break_off();
        let _ = tokio::time::timeout(self.times.hello, writer.shutdown()).await;
    }

    /// Reports, until the link ends. Their bytes are counted by the daemon's key, from the promise
    /// of a long one until its turn comes: who reports faster than is decided has to wait.
    async fn listen(
        &self,
        (link, key): (LinkId, &str),
        mut reader: impl AsyncRead + Unpin,
        mut decoder: Decoder,
        relayed: &mut Relayed,
    ) {
        let who = reporter(key);
        let mut chunk = vec![0u8; 16 << 10];
        let mut reported = ReportedNames::default();
        let mut unfinished: Option<Share> = None;
        let mut whole_by: Option<Instant> = None;
        loop {
            loop {
                match reported.next_measured(&mut decoder, weight, passed_over) {
                    Ok(Some((report, weight))) => {
                        whole_by = None;
                        let share = self.counted(who, unfinished.take(), weight);
                        match share.await {
                            Ok(share) => self.take(link, report, share, relayed).await,
                            Err(e) => return tracing::warn!("a node reports too much: {e}"),
                        }
                    }
                    Ok(None) => break,
                    Err(e) => {
                        tracing::warn!("a node sent what is no report: {e}");
                        return;
                    }
                }
            }
            decoder.shrink();
            if decoder.is_empty() {
                (unfinished, whole_by) = (None, None);
            }
            if unfinished.is_none()
                && let Some(length) = decoder.promised().filter(|n| *n > SMALL_REPORT)
            {
                match self.counted(who, None, length).await {
                    Ok(share) => unfinished = Some(share),
                    Err(e) => return tracing::warn!("a node reports too much: {e}"),
                }
            }
            let until = (!decoder.is_empty())
                .then(|| *whole_by.get_or_insert_with(|| Instant::now() + self.times.frame));
            match within(until, reader.read(&mut chunk)).await {
                Ok(Ok(0) | Err(_)) => return,
                Ok(Ok(n)) => decoder.push(&chunk[..n]),
                Err(_) => return tracing::info!("a node's report did not come to its end"),
            }
        }
    }

    /// A share of the budget for that many bytes of reports, those of `before` among them.
    async fn counted(
        &self,
        who: Requester,
        before: Option<Share>,
        bytes: usize,
    ) -> Result<Share, Refusal> {
        let bytes = bytes as u64;
        if let Some(mut share) = before
            && share.resize(bytes).is_ok()
        {
            return Ok(share);
        }
        let budget = &self.services.budgets.reports;
        budget.take(who, bytes, REPORT_TIME).await
    }

    async fn take(&self, link: LinkId, report: NodeReport, share: Share, relayed: &mut Relayed) {
        match report {
            NodeReport::RelayRequest {
                connection,
                node,
                uid,
                gid,
                frame,
            } => {
                let from = (uid, gid, Via { node, link });
                self.relay(connection, from, (frame, share), relayed);
            }
            NodeReport::RelayClosed { connection } => relayed.close(connection),
            mut report => {
                if let NodeReport::Register { seen, .. } = &mut report
                    && cosy_proto::mark::verify(seen, &self.key).is_none()
                {
                    *seen = OsText::default(); // not of this controller
                }
                let event = Box::new(Event::LinkReported { link, report });
                let _ = self.core.send(Input::Counted(event, share)).await;
            }
        }
    }

    /// A command on that node's host asks; who it is, is what that host's kernel says.
    fn relay(
        &self,
        connection: u64,
        from: (Uid, Gid, Via),
        (body, reported): (OsText, Share),
        relayed: &mut Relayed,
    ) {
        let (services, hub, link) = (self.services.clone(), self.hub.clone(), from.2.link);
        // What a node says of who asks is not enough for what is kept for administrators.
        let who = Requester {
            uid: from.0,
            trusted: false,
        };
        let command = match relayed.of(connection, || services.budgets.relayed.try_take(who, 1)) {
            Ok(command) => command,
            Err(refusal) => return reply_to(&hub, link, connection, Encoded::refused(refusal)),
        };
        let talk = command.talk.clone();
        while command.questions.try_join_next().is_some() {}
        command.questions.spawn(async move {
            let decoded = services.decode(who, body.0.into()).await;
            drop(reported); // from here on it is counted as a request
            let answer = match decoded {
                Ok((frame, _share)) => {
                    let (uid, gid, via) = from;
                    let caller = services.caller(uid, gid, Some(via)).await;
                    services.answer_whole(&talk, caller, frame).await
                }
                Err(refusal) => Encoded::refused(refusal),
            };
            reply_to(&hub, link, connection, answer);
        });
    }
}

/// A report of another release is passed over.
fn passed_over(name: &str, why: &str) {
    tracing::warn!("a node's report '{name}' is not known to this release and passed over: {why}");
}

/// Key by which reports are counted: all links of a key count together.
fn reporter(key: &str) -> Requester {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    Requester {
        uid: Uid(hasher.finish() as u32),
        trusted: false,
    }
}

/// How many bytes of memory a report is counted as.
fn weight(body: &[u8]) -> Result<usize, FrameError> {
    let values = frame::values(body, limits::REQUEST_VALUES)?;
    Ok(body.len() + limits::VALUE_BYTES * values)
}

/// Sends an answer on to the command.
fn reply_to(hub: &Hub, link: LinkId, connection: u64, mut answer: Encoded) {
    if answer.bytes.len() > RELAYED_BYTES {
        answer = Encoded::refused(Refusal::new(
            RefusalCode::TooMany,
            "the answer is too long to be passed on: ask for less, or ask on the controller's host",
        ));
    }
    // The body alone: the link has frames of its own.
    let frame = OsText(answer.bytes.split_off(frame::HEADER));
    let order = NodeOrder::RelayReply { connection, frame };
    hub.order_counted(link, &order, answer.share);
}

/// Both ends of a connection.
type Ends = (ReadHalf<TlsStream<TcpStream>>, WriteHalf<TlsStream<TcpStream>>);

/// The commands whose words come over one link, by connection.
#[derive(Default)]
struct Relayed(HashMap<u64, Command>);

struct Command {
    talk: Arc<Conversation>,
    /// Questions that are not answered yet; they end with the command.
    questions: JoinSet<()>,
    /// Its place among the connections of its user.
    _place: Share,
}

impl Relayed {
    /// A new one gets a `place`; a refusal when there are too many.
    fn of(
        &mut self,
        connection: u64,
        place: impl FnOnce() -> Result<Share, Refusal>,
    ) -> Result<&mut Command, Refusal> {
        if self.0.len() >= RELAYED && !self.0.contains_key(&connection) {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("{RELAYED} commands of that host talk with the controller already"),
            ));
        }
        match self.0.entry(connection) {
            Entry::Occupied(command) => Ok(command.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(Command {
                talk: Arc::default(),
                questions: JoinSet::new(),
                _place: place()?,
            })),
        }
    }

    fn close(&mut self, connection: u64) {
        self.0.remove(&connection);
    }

    /// The link broke: nobody knows whether the commands are still there.
    fn break_off(&self) {
        self.0.values().for_each(|command| command.talk.break_off());
    }
}

async fn say(writer: &mut (impl AsyncWrite + Unpin), reply: &HelloReply) -> anyhow::Result<()> {
    let bytes = frame::encode(reply, limits::HELLO_BYTES)?;
    writer.write_all(&bytes).await?;
    writer.flush().await?;
    Ok(())
}

/// Orders, as many in one write as wait, until the link is closed from this side or nothing is
/// taken any more.
async fn send_orders(
    writer: &mut (impl AsyncWrite + Unpin),
    (orders, backlog): (&mut mpsc::UnboundedReceiver<ToLink>, &Backlog),
    patience: Duration,
) {
    while let Some(first) = orders.recv().await {
        let (mut bytes, mut shares) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        let mut close = false;
        while let Some(message) = next {
            match message {
                ToLink::Frame(frame, share) => {
                    bytes.extend(frame);
                    shares.extend(share);
                }
                ToLink::Answer(_) => {}
                ToLink::Close => close = true,
            }
            next = if bytes.len() < WRITE_BYTES && !close {
                orders.try_recv().ok()
            } else {
                None
            };
        }
        if let Err(e) = clients::send(writer, &bytes, patience).await {
            return tracing::info!("a node takes no orders any more: {e}");
        }
        backlog.taken(bytes.len());
        if close {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_proto::keys::KeyPair;

    const NEVER: Duration = Duration::from_secs(100_000);
    const SOON: Duration = Duration::from_millis(20);

    /// Somebody who connects and does not shake hands.
    #[tokio::test]
    async fn who_does_not_shake_hands_is_hung_up_on() {
        let key = KeyPair::generate().expect("a key");
        let acceptor = TlsAcceptor::from(tls::server_config(&key).expect("settings"));
        let (core, _inbox) = mpsc::channel(1);
        let times = Times {
            hello: SOON,
            take: NEVER,
            frame: NEVER,
        };
        let board = Arc::new(Switchboard {
            services: clients::tests::services(clients::Times::default(), 1),
            hub: Arc::default(),
            cluster: Arc::default(),
            key: key.public(),
            core,
            times,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(serve(
            listener,
            acceptor,
            watch::channel(Some(board)).1,
            Standby::new(""),
        ));
        for words in [&b""[..], &[22, 3, 1]] {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(words).await.expect("it is taken");
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes).await;
            assert!(bytes.is_empty(), "{bytes:?}");
        }
        serving.abort();
    }

    /// A node daemon that takes no orders.
    #[tokio::test]
    async fn who_takes_no_orders_is_hung_up_on() {
        let hub = Hub::default();
        let (link, mut orders, backlog) = hub.open_link(Vec::new());
        let (mut writer, _reader) = tokio::io::duplex(64);
        for _ in 0..100 {
            hub.order(link, &NodeOrder::Leaving);
        }
        send_orders(&mut writer, (&mut orders, &backlog), SOON).await;
        // It has come back although the link is open.
        hub.order(link, &NodeOrder::Leaving);
        assert!(orders.recv().await.is_some());
    }
}
