//! Connections to other nodes' daemons, kept for a while after each conversation: a step
//! over many nodes then costs no handshakes.

use super::revoked::RevokedKeys;
use super::{read_frame, write_frame};
use crate::sys;
use cosy_model::limits;
use cosy_model::step::Peer;
use cosy_proto::keys::{KeyPair, PublicKey};
use cosy_proto::peer::{PeerAnswer, PeerAsk};
use cosy_proto::tls;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// For connection and handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// For the answer to an ask: the other node may wait for its controller's order.
const ANSWER: Duration = Duration::from_secs(40);
/// An unused connection is closed after this; the other end keeps it longer.
const IDLE: Duration = Duration::from_secs(60);
/// Most unused connections.
const IDLE_COUNT: usize = 256;

/// A connection to another daemon.
pub type Stream = TlsStream<TcpStream>;

/// What came of an ask.
pub enum Reply {
    /// Chunks follow; the connection goes back with [`Pool::put`].
    Accepted(Box<Stream>),
    /// No, and why.
    Refused(String),
}

/// Why nothing came of an ask, in one line, with the node's name.
#[derive(Debug, thiserror::Error)]
pub enum Silence {
    /// The node was not asked.
    #[error("{0}")]
    NotReached(String),
    /// It was asked, or may have been.
    #[error("{0}")]
    NoAnswer(String),
}

struct Idle {
    since: Instant,
    stream: Box<Stream>,
}

/// The connections of one daemon.
pub struct Pool {
    own: Arc<KeyPair>,
    revoked: RevokedKeys,
    idle: Mutex<HashMap<(String, String), Vec<Idle>>>,
    /// Where nodes are that were elsewhere when their jobs began, by key.
    moved: watch::Sender<HashMap<String, String>>,
}

impl Pool {
    /// For the host with this key.
    pub fn new(own: Arc<KeyPair>, revoked: RevokedKeys) -> Self {
        Self {
            own,
            revoked,
            idle: Mutex::default(),
            moved: watch::Sender::default(),
        }
    }

    /// The node that holds the key of `peer` is reached at its address from now on.
    pub fn moved(&self, peer: Peer) {
        self.moved.send_modify(|moved| {
            moved.insert(peer.key, peer.address);
        });
    }

    /// Comes when the key of that node is no good any more.
    pub async fn until_revoked(&self, peer: &Peer) {
        self.revoked.until_revoked(&peer.key).await;
    }

    fn address_of(&self, peer: &Peer) -> String {
        let moved = self.moved.borrow();
        moved.get(&peer.key).unwrap_or(&peer.address).clone()
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<(String, String), Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a node. A kept connection that turns out to be broken is replaced once.
    ///
    /// # Errors
    /// It cannot be reached or does not answer.
    pub async fn converse(&self, peer: &Peer, ask: &PeerAsk) -> Result<Reply, Silence> {
        if self.revoked.has(&peer.key) {
            let why = format!("node {}: its key was revoked", peer.node);
            return Err(Silence::NotReached(why));
        }
        if let Some(stream) = self.take(peer)
            && let Ok(reply) = self.ask(peer, stream, ask).await
        {
            return Ok(reply);
        }
        let with_node =
            |e: io::Error| format!("node {} ({}): {e}", peer.node, self.address_of(peer));
        let connected = self.connect(peer).await;
        let stream = connected.map_err(|e| Silence::NotReached(with_node(e)))?;
        let answered = self.ask(peer, stream, ask).await;
        answered.map_err(|e| Silence::NoAnswer(with_node(e)))
    }

    /// Connects to where the node is, also when that changes meanwhile.
    async fn connect(&self, peer: &Peer) -> io::Result<Box<Stream>> {
        let mut changes = self.moved.subscribe();
        loop {
            let address = self.address_of(peer);
            let moves = async {
                while self.address_of(peer) == address {
                    // The sender is this pool's own.
                    let _ = changes.changed().await;
                }
            };
            tokio::select! {
                done = self.connect_to(peer, &address) => {
                    if done.is_ok() || self.address_of(peer) == address {
                        return done;
                    }
                }
                () = moves => {}
            }
        }
    }

    async fn connect_to(&self, peer: &Peer, address: &str) -> io::Result<Box<Stream>> {
        if address.is_empty() {
            return Err(io::Error::other("it does not listen for other nodes"));
        }
        let key: PublicKey = peer.key.parse().map_err(io::Error::other)?;
        let config = tls::client_config(&self.own, key).map_err(io::Error::other)?;
        let connecting = async {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            sys::ask_whether_it_is_there(&tcp, super::SILENCE_MS, super::PROBE);
            let connector = TlsConnector::from(config);
            connector.connect(tls::server_name(), tcp).await
        };
        let slow = |_| io::Error::other(format!("no connection within {} s", CONNECT.as_secs()));
        let stream = tokio::time::timeout(CONNECT, connecting)
            .await
            .map_err(slow)??;
        Ok(Box::new(stream))
    }

    async fn ask(&self, peer: &Peer, mut stream: Box<Stream>, ask: &PeerAsk) -> io::Result<Reply> {
        let talking = async {
            write_frame(&mut stream, ask, limits::FRAME_BYTES).await?;
            read_frame(&mut stream, limits::HELLO_BYTES).await
        };
        let slow = |_| io::Error::other(format!("no answer within {} s", ANSWER.as_secs()));
        match tokio::time::timeout(ANSWER, talking)
            .await
            .map_err(slow)??
        {
            PeerAnswer::Accepted => Ok(Reply::Accepted(stream)),
            PeerAnswer::Refused { reason } => {
                self.put(peer, stream);
                Ok(Reply::Refused(reason))
            }
        }
    }

    fn take(&self, peer: &Peer) -> Option<Box<Stream>> {
        let mut idle = self.idle();
        let kept = idle.get_mut(&name_of(peer))?;
        while let Some(one) = kept.pop() {
            if one.since.elapsed() < IDLE {
                return Some(one.stream);
            }
        }
        None
    }

    /// Keeps a connection whose conversation has ended cleanly.
    pub fn put(&self, peer: &Peer, stream: Box<Stream>) {
        let mut idle = self.idle();
        if idle.values().map(Vec::len).sum::<usize>() < IDLE_COUNT {
            let since = Instant::now();
            idle.entry(name_of(peer))
                .or_default()
                .push(Idle { since, stream });
        }
    }

    /// Closes connections that were not used for a while.
    pub fn tidy(&self) {
        self.idle().retain(|_, kept| {
            kept.retain(|one| one.since.elapsed() < IDLE);
            !kept.is_empty()
        });
    }
}

fn name_of(peer: &Peer) -> (String, String) {
    (peer.address.clone(), peer.key.clone())
}
