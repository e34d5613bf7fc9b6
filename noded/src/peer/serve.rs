//! Where other nodes' daemons connect. Every byte may be hostile. Nobody is known before a
//! good ticket is seen: until then a connection stands at the [`StrangerLimits`], where newcomers take
//! the place of those that only stand there. From then on it counts with those of its key.

use super::revoked::RevokedKeys;
use super::stranger_limits::{Eviction, StrangerLimits, StrangerPlace};
use super::tunnel::carry;
use super::{read_body, write_frame};
use crate::sys;
use cosy_model::limits;
use cosy_proto::frame;
use cosy_proto::keys::{KeyPair, PublicKey};
use cosy_proto::peer::{PeerAnswer, PeerAsk};
use cosy_proto::tls;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Where it listens unless the configuration says otherwise.
pub const DEFAULT_LISTEN: &str = "[::]:7818";
/// From the connection to the last byte of the first ask.
const PROOF: Duration = Duration::from_secs(10);
/// Bytes of a first ask that are read at once.
const PIECE: usize = 64 << 10;
/// From the first byte of an ask to its last.
const ASK: Duration = Duration::from_secs(20);
/// Between conversations. Longer than the other end keeps its connection.
const IDLE: Duration = Duration::from_secs(90);
/// Asks that are not whole may have so many KiB together.
const BUFFERED_KIB: usize = 64 << 10;
/// Those of one key: the longest one and no more, so that nobody keeps the others waiting by
/// promising what does not come.
const BUFFERED_OF_KEY_KIB: usize = (limits::FRAME_BYTES >> 10) + 1;

/// What the daemon says to an ask.
#[derive(Debug)]
pub enum Verdict {
    /// Carry what this socket says, and to it.
    Carry(StdStream),
    /// No, and why, in one line.
    Refuse(String),
    /// No: its ticket is none. The connection ends.
    Stranger(String),
}

/// Another node's daemon asks.
#[derive(Debug)]
pub struct IncomingPeer {
    /// What the other daemon asks for, with its ticket.
    pub ask: PeerAsk,
    /// The key that its daemon has proved to hold.
    pub key: PublicKey,
    /// Takes the answer to the other daemon.
    pub verdict: oneshot::Sender<Verdict>,
}

/// Opens the port. When it is taken, and for port 0, any free one will do: the one that is
/// remembered in `memory` if possible, so that nodes that look for this one find it again.
/// Gives also what the controller is told: where others connect.
///
/// # Errors
/// The address is not this host's, or nothing is free.
pub fn open(
    configured: Option<&str>,
    memory: &Path,
) -> io::Result<(std::net::TcpListener, String)> {
    let text = configured.unwrap_or(DEFAULT_LISTEN);
    let wanted: SocketAddr = text.parse().map_err(io::Error::other)?;
    let listener = match bind(wanted, memory) {
        // A machine without IPv6.
        Err(e) if configured.is_none() && e.kind() != io::ErrorKind::AddrInUse => {
            bind(SocketAddr::from(([0, 0, 0, 0], wanted.port())), memory)?
        }
        other => other?,
    };
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    let listen = match at.ip().is_unspecified() {
        true => format!(":{}", at.port()),
        false => at.to_string(),
    };
    Ok((listener, listen))
}

fn bind(wanted: SocketAddr, memory: &Path) -> io::Result<std::net::TcpListener> {
    if wanted.port() != 0 {
        match std::net::TcpListener::bind(wanted) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            other => return other,
        }
    }
    let last = std::fs::read_to_string(memory).ok();
    let last = last.and_then(|text| text.trim().parse::<u16>().ok());
    let again = last.map(|port| std::net::TcpListener::bind(SocketAddr::new(wanted.ip(), port)));
    if let Some(Ok(listener)) = again {
        return Ok(listener);
    }
    let listener = std::net::TcpListener::bind(SocketAddr::new(wanted.ip(), 0))?;
    let port = listener.local_addr()?.port();
    let _ = std::fs::write(memory, port.to_string());
    if wanted.port() != 0 {
        tracing::info!(
            "port {} is taken: other nodes reach this one at port {port}",
            wanted.port()
        );
    }
    Ok(listener)
}

/// What all connections of the port share.
struct Port<E> {
    acceptor: TlsAcceptor,
    revoked: RevokedKeys,
    strangers: StrangerLimits,
    known: TrustedConnections,
    buffered_kib: Semaphore,
    events: mpsc::Sender<E>,
}

/// Serves the port until the daemon ends.
///
/// # Errors
/// A key that TLS does not take.
pub fn serve<E>(
    listener: std::net::TcpListener,
    key: &KeyPair,
    revoked: RevokedKeys,
    events: mpsc::Sender<E>,
) -> anyhow::Result<()>
where
    E: From<IncomingPeer> + Send + 'static,
{
    let listener = TcpListener::from_std(listener)?;
    let port = Arc::new(Port {
        acceptor: TlsAcceptor::from(tls::server_config(key)?),
        revoked,
        strangers: StrangerLimits::default(),
        known: TrustedConnections::default(),
        buffered_kib: Semaphore::new(BUFFERED_KIB),
        events,
    });
    tokio::spawn(async move {
        while !port.events.is_closed() {
            match listener.accept().await {
                Ok((tcp, from)) => {
                    let standing = port.strangers.enter(from.ip());
                    tokio::spawn(Arc::clone(&port).connection(tcp, standing));
                }
                // No descriptors left: others will close some.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    Ok(())
}

impl<E: From<IncomingPeer>> Port<E> {
    async fn connection(self: Arc<Self>, tcp: TcpStream, at_door: (StrangerPlace, Eviction)) {
        let (standing, mut away) = at_door;
        let _ = tcp.set_nodelay(true);
        sys::ask_whether_it_is_there(&tcp, super::SILENCE_MS, super::PROBE);
        let proof = tokio::select! {
            proof = tokio::time::timeout(PROOF, self.first_ask(tcp, &standing)) => proof,
            () = away.come() => return,
        };
        let Ok(Some((mut stream, key, ask))) = proof else {
            return;
        };
        let name = key.to_string();
        tokio::select! {
            () = self.conversations(&mut stream, key, ask, (standing, away)) => {}
            () = self.revoked.until_revoked(&name) => {}
        }
    }

    /// The handshake and the first ask of a connection, with the key that was proved.
    async fn first_ask(
        &self,
        tcp: TcpStream,
        standing: &StrangerPlace,
    ) -> Option<(TlsStream<TcpStream>, PublicKey, ReadAsk)> {
        let mut stream = self.acceptor.accept(tcp).await.ok()?;
        let key = tls::peer_key(stream.get_ref().1)?;
        if self.revoked.has(&key.to_string()) {
            return None;
        }
        let length = read_length(&mut stream).await?;
        let mut body = Vec::new();
        while body.len() < length {
            let piece = (length - body.len()).min(PIECE);
            standing.grow(piece);
            body.extend(read_body(&mut stream, piece, PIECE).await.ok()?);
        }
        Some((stream, key, decode_ask(&body)))
    }

    /// One after another, until the other end has gone or turns out to be nobody.
    async fn conversations(
        &self,
        stream: &mut TlsStream<TcpStream>,
        key: PublicKey,
        ask: ReadAsk,
        (standing, mut away): (StrangerPlace, Eviction),
    ) {
        let verdict = tokio::select! {
            verdict = self.verdict(ask, key) => verdict,
            () = away.come() => return,
        };
        let stranger = matches!(verdict, None | Some(Verdict::Stranger(_)));
        let place = self.known.enter(key).filter(|_| !stranger);
        drop(standing);
        let Some(mut verdict) = verdict else { return };
        if !stranger && place.is_none() {
            verdict = Verdict::Stranger(format!(
                "there are {} connections of that key, or {} in all, already",
                limits::PEERS_OF_KEY,
                limits::PEERS
            ));
        }
        loop {
            if let Ok(true) = carry_out(stream, verdict).await
                && let Some(place) = &place
                && let Some(ask) = next_ask(stream, place, &self.buffered_kib).await
                && let Some(next) = self.verdict(ask, key).await
            {
                verdict = next;
            } else {
                return;
            }
        }
    }

    /// What the daemon says to an ask; `None` when it is ending.
    async fn verdict(&self, ask: ReadAsk, key: PublicKey) -> Option<Verdict> {
        let ask = match ask {
            Ok(ask) => ask,
            Err(why) => return Some(Verdict::Stranger(why)),
        };
        let version = ask.version;
        if !cosy_proto::understands(version) {
            let why = format!("protocol version {version} is not understood here");
            return Some(Verdict::Stranger(why));
        }
        let (verdict, answer) = oneshot::channel();
        let event = IncomingPeer { ask, key, verdict }.into();
        self.events.send(event).await.ok()?;
        answer.await.ok()
    }
}

/// The next ask on a connection that is known; `None` ends it. `all`: room for those of all keys.
async fn next_ask(
    stream: &mut (impl AsyncRead + Unpin),
    place: &Place,
    all: &Semaphore,
) -> Option<ReadAsk> {
    let length = tokio::time::timeout(IDLE, read_length(stream));
    let length = length.await.ok()??;
    let reading = async {
        let room = (length / 1024 + 1) as u32;
        let _own = place.room.acquire_many(room).await.ok()?;
        let _room = all.acquire_many(room).await.ok()?;
        let body = read_body(stream, length, limits::FRAME_BYTES).await.ok()?;
        Some(decode_ask(&body))
    };
    tokio::time::timeout(ASK, reading).await.ok()?
}

/// What the other end wants, or why that is not understood here.
type ReadAsk = Result<PeerAsk, String>;

fn decode_ask(body: &[u8]) -> ReadAsk {
    frame::decode(body).map_err(|e| format!("what the other node asks is not understood here: {e}"))
}

/// The length of the frame that begins; `None` for one that is too long.
async fn read_length(stream: &mut (impl AsyncRead + Unpin)) -> Option<usize> {
    let mut header = [0; frame::HEADER];
    stream.read_exact(&mut header).await.ok()?;
    let length = u32::from_le_bytes(header) as usize;
    (length <= limits::FRAME_BYTES).then_some(length)
}

/// Says what the verdict is and carries what follows; true when the connection is free for
/// the next conversation.
async fn carry_out(stream: &mut TlsStream<TcpStream>, verdict: Verdict) -> io::Result<bool> {
    let refused = |reason: &str| PeerAnswer::Refused {
        reason: reason.chars().take(1000).collect(),
    };
    match verdict {
        Verdict::Refuse(reason) => {
            write_frame(stream, &refused(&reason), limits::HELLO_BYTES).await?;
            Ok(true)
        }
        Verdict::Stranger(reason) => {
            let answer = refused(&reason);
            let written = write_frame(stream, &answer, limits::HELLO_BYTES);
            let _ = tokio::time::timeout(PROOF, written).await;
            let _ = tokio::time::timeout(PROOF, stream.shutdown()).await;
            Ok(false)
        }
        Verdict::Carry(local) => {
            write_frame(stream, &PeerAnswer::Accepted, limits::HELLO_BYTES).await?;
            local.set_nonblocking(true)?;
            let mut local = UnixStream::from_std(local)?;
            carry(stream, &mut local).await?;
            Ok(true)
        }
    }
}

/// The connections that have shown a good ticket, by key.
#[derive(Clone, Default)]
struct TrustedConnections(Arc<Mutex<BTreeMap<PublicKey, KeyConnections>>>);

/// What the connections of one key hold.
struct KeyConnections {
    connections: usize,
    /// For asks that are not whole, in KiB.
    room: Arc<Semaphore>,
}

/// A connection's place among them, given back when it is dropped.
struct Place {
    known: TrustedConnections,
    key: PublicKey,
    room: Arc<Semaphore>,
}

impl TrustedConnections {
    /// `None` when there are too many already.
    fn enter(&self, key: PublicKey) -> Option<Place> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.values().map(|own| own.connections).sum::<usize>() >= limits::PEERS {
            return None;
        }
        let own = all.entry(key).or_insert_with(|| KeyConnections {
            connections: 0,
            room: Arc::new(Semaphore::new(BUFFERED_OF_KEY_KIB)),
        });
        if own.connections >= limits::PEERS_OF_KEY {
            return None;
        }
        own.connections += 1;
        let (known, room) = (self.clone(), own.room.clone());
        Some(Place { known, key, room })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get_mut(&self.key) {
            own.connections -= 1;
            if own.connections == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that promises long asks, on many connections, and sends nothing.
    #[tokio::test]
    async fn one_key_does_not_keep_the_others_waiting() {
        let (known, all) = (TrustedConnections::default(), Arc::new(Semaphore::new(BUFFERED_KIB)));
        let key = || KeyPair::generate().unwrap().public();
        let (stolen, honest) = (key(), key());
        let mut silent = Vec::new();
        for _ in 0..8 {
            let (mut ours, mut theirs) = tokio::io::duplex(64);
            let length = u32::try_from(limits::FRAME_BYTES).unwrap();
            ours.write_all(&length.to_le_bytes()).await.unwrap();
            let (place, all) = (known.enter(stolen).unwrap(), all.clone());
            let reading = async move { next_ask(&mut theirs, &place, &all).await.is_none() };
            silent.push((ours, tokio::spawn(reading)));
        }
        // Until one of them has all that its key may have.
        while all.available_permits() == BUFFERED_KIB {
            tokio::task::yield_now().await;
        }
        let (mut ours, mut theirs) = tokio::io::duplex(64);
        ours.write_all(&[1, 0, 0, 0, 7]).await.unwrap();
        let place = known.enter(honest).unwrap();
        let heard = next_ask(&mut theirs, &place, &all).await;
        assert!(matches!(heard, Some(Err(_))), "it is read, and no ask");
        assert!(all.available_permits() >= BUFFERED_KIB - BUFFERED_OF_KEY_KIB);
        for (_, reading) in silent {
            reading.abort();
        }
    }

    #[test]
    fn a_port_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let memory = dir.path().join("port");
        let (first, listen) = open(Some("127.0.0.1:0"), &memory).unwrap();
        assert_eq!(listen, first.local_addr().unwrap().to_string());
        // Taken: another one.
        let (other, _) = open(Some(&listen), &dir.path().join("other")).unwrap();
        assert_ne!(other.local_addr().unwrap(), first.local_addr().unwrap());
        drop(first);
        let (_, again) = open(Some("127.0.0.1:0"), &memory).unwrap();
        assert_eq!(again, listen);
        assert!(open(Some("192.0.2.1:1"), &memory).is_err());
        let (_all, listen) = open(Some("0.0.0.0:0"), &dir.path().join("all")).unwrap();
        assert!(listen.starts_with(':'), "{listen}");
    }
}
