//! Where other nodes' daemons connect. Every byte may be hostile: connections, unfinished
//! handshakes, bytes of asks that are not whole, and time are limited, for all together,
//! because nobody is known before the ticket is seen.

use super::carry::carry;
use super::{read_body, write_frame};
use cosy_model::limits;
use cosy_proto::frame;
use cosy_proto::keys::KeyPair;
use cosy_proto::peer::{PeerAnswer, PeerAsk};
use cosy_proto::tls;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Where it listens unless the configuration says otherwise.
pub const DEFAULT_LISTEN: &str = "[::]:7818";
/// Most connections at once.
const CONNECTIONS: usize = 1024;
/// Most handshakes at once.
const HANDSHAKES: usize = 64;
/// A handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// From the first byte of an ask to its last.
const ASK: Duration = Duration::from_secs(20);
/// Between conversations. Longer than the other end keeps its connection.
const IDLE: Duration = Duration::from_secs(90);
/// Asks that are not whole may have so many KiB together.
const BUFFERED_KIB: usize = 64 << 10;
/// Sent bytes that nobody acknowledges for so long end a connection, in milliseconds.
const SILENCE_MS: u32 = 30_000;

/// What the daemon says to an ask.
#[derive(Debug)]
pub enum Verdict {
    /// Carry what this socket says, and to it.
    Carry(StdStream),
    /// No, and why, in one line.
    Refuse(String),
}

/// Another node's daemon asks.
#[derive(Debug)]
pub struct PeerAsked {
    /// What.
    pub ask: PeerAsk,
    /// Where the answer goes.
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
    let told = match at.ip().is_unspecified() {
        true => format!(":{}", at.port()),
        false => at.to_string(),
    };
    Ok((listener, told))
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

struct Limits {
    connections: Semaphore,
    handshakes: Semaphore,
    buffered_kib: Semaphore,
}

/// Serves the port until the daemon ends.
///
/// # Errors
/// A key that TLS does not take.
pub fn serve<E>(
    listener: std::net::TcpListener,
    key: &KeyPair,
    events: mpsc::Sender<E>,
) -> anyhow::Result<()>
where
    E: From<PeerAsked> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(tls::server_config(key)?);
    let listener = TcpListener::from_std(listener)?;
    let limits = Arc::new(Limits {
        connections: Semaphore::new(CONNECTIONS),
        handshakes: Semaphore::new(HANDSHAKES),
        buffered_kib: Semaphore::new(BUFFERED_KIB),
    });
    tokio::spawn(async move {
        while !events.is_closed() {
            match listener.accept().await {
                Ok((tcp, _)) => {
                    let (acceptor, limits) = (acceptor.clone(), Arc::clone(&limits));
                    tokio::spawn(connection(tcp, acceptor, limits, events.clone()));
                }
                // No descriptors left: others will close some.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    Ok(())
}

async fn connection<E: From<PeerAsked>>(
    tcp: TcpStream,
    acceptor: TlsAcceptor,
    limits: Arc<Limits>,
    events: mpsc::Sender<E>,
) {
    // Beyond the limit a connection is closed at once.
    let Ok(_place) = limits.connections.try_acquire() else {
        return;
    };
    let Ok(turn) = limits.handshakes.try_acquire() else {
        return;
    };
    let _ = tcp.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&tcp, SILENCE_MS);
    let Ok(Ok(mut stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(tcp)).await else {
        return;
    };
    drop(turn);
    let mut first = true;
    while let Some(ask) = next_ask(&mut stream, &limits, first).await {
        first = false;
        if converse(&mut stream, ask, &events).await.is_err() {
            return;
        }
    }
}

/// The next ask; `None` ends the connection.
async fn next_ask(
    stream: &mut TlsStream<TcpStream>,
    limits: &Limits,
    first: bool,
) -> Option<PeerAsk> {
    let mut header = [0; frame::HEADER];
    let patience = if first { HANDSHAKE } else { IDLE };
    let got = tokio::time::timeout(patience, stream.read_exact(&mut header)).await;
    got.ok()?.ok()?;
    let length = u32::from_le_bytes(header) as usize;
    if length > limits::FRAME_BYTES {
        return None;
    }
    let reading = async {
        let room = (length / 1024 + 1) as u32;
        let _room = limits.buffered_kib.acquire_many(room).await.ok()?;
        let body = read_body(stream, length, limits::FRAME_BYTES).await.ok()?;
        frame::decode(&body).ok()
    };
    tokio::time::timeout(ASK, reading).await.ok()?
}

async fn converse<E: From<PeerAsked>>(
    stream: &mut TlsStream<TcpStream>,
    ask: PeerAsk,
    events: &mpsc::Sender<E>,
) -> io::Result<()> {
    let (verdict, answer) = oneshot::channel();
    let gone = || io::Error::other("the daemon is ending");
    let version = ask.version;
    let verdict_of = async {
        if !cosy_proto::understands(version) {
            return Ok(Verdict::Refuse(format!(
                "protocol version {version} is not understood here"
            )));
        }
        let event = PeerAsked { ask, verdict }.into();
        events.send(event).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    };
    match verdict_of.await? {
        Verdict::Refuse(reason) => {
            let answer = PeerAnswer::Refused {
                reason: reason.chars().take(1000).collect(),
            };
            write_frame(stream, &answer, limits::HELLO_BYTES).await
        }
        Verdict::Carry(local) => {
            write_frame(stream, &PeerAnswer::Accepted, limits::HELLO_BYTES).await?;
            local.set_nonblocking(true)?;
            let mut local = UnixStream::from_std(local)?;
            carry(stream, &mut local).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let memory = dir.path().join("port");
        let (first, told) = open(Some("127.0.0.1:0"), &memory).unwrap();
        assert_eq!(told, first.local_addr().unwrap().to_string());
        // Taken: another one.
        let (other, _) = open(Some(&told), &dir.path().join("other")).unwrap();
        assert_ne!(other.local_addr().unwrap(), first.local_addr().unwrap());
        drop(first);
        let (_, again) = open(Some("127.0.0.1:0"), &memory).unwrap();
        assert_eq!(again, told);
        assert!(open(Some("192.0.2.1:1"), &memory).is_err());
        let (_all, told) = open(Some("0.0.0.0:0"), &dir.path().join("all")).unwrap();
        assert!(told.starts_with(':'), "{told}");
    }
}
