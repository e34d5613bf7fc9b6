//! The link to the controller: TLS, hello, frames both ways, again and again.
//!
//! Carries messages only; what they mean is the daemon's business. A link that breaks is
//! taken up again at once at first, then with growing pauses, forever.

use crate::sys;
use cosy_model::limits;
use cosy_model::node::{NodeOrder, NodeReport};
use cosy_proto::frame::{self, Decoder};
use cosy_proto::keys::{KeyPair, PublicKey};
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::tls;
use cosy_proto::words::{self, ReportedNames};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// For connection, TLS and hello together.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Sent bytes that nobody acknowledges for so long end the link, in milliseconds.
const SILENCE_MS: u32 = 30_000;
const CHUNK: usize = 16 << 10;

type Stream = TlsStream<TcpStream>;

/// What the link tells the daemon.
#[derive(Debug)]
pub enum LinkEvent {
    /// The link is up; whole frames may be sent.
    Up(mpsc::UnboundedSender<Vec<u8>>),
    /// These came, in order.
    Orders(Vec<NodeOrder>),
    /// The link is down.
    Down,
    /// At that time since the machine's start nobody was there who could give work to others:
    /// nothing listens at the controller's place, or it takes nobody on.
    Absent(Duration),
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection could not be made or broke, TLS included.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What came is no message.
    #[error(transparent)]
    Frame(#[from] frame::FrameError),
    /// The controller says no.
    #[error("the controller refuses this host: {0}")]
    Refused(String),
    /// The controller speaks another version.
    #[error("the controller speaks protocol version {0}, this noded {own}", own = cosy_proto::PROTOCOL)]
    Version(u32),
    /// The handshake did not end in time.
    #[error("no answer within {} s", HANDSHAKE.as_secs())]
    Slow,
    /// Answered something that does not fit.
    #[error("the controller gave an answer that does not fit")]
    Unexpected,
    /// The controller closed it.
    #[error("the controller closed the link")]
    Closed,
    /// The controller has shown its key and then taken nobody on.
    #[error("the controller takes nobody on: {0}")]
    Unready(io::Error),
}

/// Where to and as whom.
#[derive(Clone)]
pub struct Peer {
    address: String,
    connector: TlsConnector,
}

impl Peer {
    /// The controller at `address` that holds the key `controller`.
    ///
    /// # Errors
    /// A key that TLS does not take.
    pub fn new(
        address: String,
        own: &KeyPair,
        controller: PublicKey,
    ) -> Result<Self, rustls::Error> {
        let config = tls::client_config(own, controller)?;
        Ok(Self {
            address,
            connector: TlsConnector::from(config),
        })
    }

    /// Connects and says hello.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn greet(&self, hello: &Hello) -> Result<(Stream, HelloReply), LinkError> {
        let done = tokio::time::timeout(HANDSHAKE, self.greet_slowly(hello)).await;
        done.map_err(|_| LinkError::Slow)?
    }

    async fn greet_slowly(&self, hello: &Hello) -> Result<(Stream, HelloReply), LinkError> {
        let tcp = TcpStream::connect(&self.address).await?;
        tcp.set_nodelay(true)?;
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&tcp, SILENCE_MS);
        let mut stream = self.connector.connect(tls::server_name(), tcp).await?;
        let bytes = frame::encode(hello, limits::HELLO_BYTES)?;
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        let reply = match read_reply(&mut stream).await {
            Err(LinkError::Io(e)) => return Err(LinkError::Unready(e)),
            reply => reply?,
        };
        Ok((stream, reply))
    }
}

/// Reads exactly one frame: what follows it must stay in the stream.
async fn read_reply(stream: &mut Stream) -> Result<HelloReply, LinkError> {
    let mut header = [0; frame::HEADER];
    stream.read_exact(&mut header).await?;
    let length = u32::from_le_bytes(header) as usize;
    let limit = limits::HELLO_BYTES;
    if length > limit {
        return Err(frame::FrameError::TooLong { length, limit }.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(frame::decode(&body)?)
}

/// Keeps the link up. Ends when the daemon no longer listens.
pub async fn keep_up<E>(peer: Peer, events: mpsc::Sender<E>)
where
    E: From<LinkEvent>,
{
    let mut pause = FIRST_PAUSE;
    let mut last_logged = String::new();
    loop {
        let began = sys::since_boot();
        let error = match welcomed(peer.greet(&Hello::node(0)).await) {
            Ok(welcome) => {
                pause = FIRST_PAUSE;
                last_logged.clear();
                let error = carry(welcome, &events).await;
                if events.send(LinkEvent::Down.into()).await.is_err() {
                    return;
                }
                error
            }
            Err(e) => e,
        };
        let absent = match &error {
            LinkError::Io(e) => e.kind() == io::ErrorKind::ConnectionRefused,
            LinkError::Unready(_) => true,
            _ => false,
        };
        if absent && events.send(LinkEvent::Absent(began).into()).await.is_err() {
            return;
        }
        // The same error again and again is logged once.
        let text = error.to_string();
        if last_logged != text {
            tracing::warn!("no link to the controller at {}: {text}", peer.address);
            last_logged = text;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
        if events.is_closed() {
            return;
        }
    }
}

/// The controller takes this daemon on.
struct Welcome {
    stream: Stream,
    /// Names of reports that it does not know.
    lacks: Vec<&'static str>,
}

fn welcomed(answer: Result<(Stream, HelloReply), LinkError>) -> Result<Welcome, LinkError> {
    match answer? {
        (
            stream,
            HelloReply::Welcome {
                version, reports, ..
            },
        ) if cosy_proto::understands(version) => {
            let lacks = words::lacked::<NodeReport>(&reports);
            Ok(Welcome { stream, lacks })
        }
        (_, HelloReply::Welcome { version, .. }) => Err(LinkError::Version(version)),
        (_, HelloReply::Refused { reason }) => Err(LinkError::Refused(reason)),
        (_, HelloReply::Joined { .. } | HelloReply::Standby { .. }) => Err(LinkError::Unexpected),
    }
}

async fn carry<E: From<LinkEvent>>(welcome: Welcome, events: &mpsc::Sender<E>) -> LinkError {
    let (reading, writing) = tokio::io::split(welcome.stream);
    let (sender, receiver) = mpsc::unbounded_channel();
    if events.send(LinkEvent::Up(sender).into()).await.is_err() {
        return LinkError::Closed;
    }
    tokio::select! {
        error = read_orders(reading, events) => error,
        error = write_frames(writing, receiver, &welcome.lacks) => error,
    }
}

async fn read_orders<E: From<LinkEvent>>(
    mut stream: ReadHalf<Stream>,
    events: &mpsc::Sender<E>,
) -> LinkError {
    let mut decoder = Decoder::new(limits::FRAME_BYTES);
    let mut reported = ReportedNames::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        match stream.read(&mut chunk).await {
            Ok(0) => return LinkError::Closed,
            Ok(n) => decoder.push(&chunk[..n]),
            Err(e) => return e.into(),
        }
        let orders = match whole_orders(&mut decoder, &mut reported) {
            Ok(orders) => orders,
            Err(e) => return e.into(),
        };
        decoder.shrink();
        let some = !orders.is_empty();
        if some && events.send(LinkEvent::Orders(orders).into()).await.is_err() {
            return LinkError::Closed;
        }
    }
}

/// The orders of all frames that have come whole.
fn whole_orders(
    decoder: &mut Decoder,
    reported: &mut ReportedNames,
) -> Result<Vec<NodeOrder>, frame::FrameError> {
    let passed_over = |name: &str, why: &str| {
        tracing::warn!(
            "the controller's order '{name}' is not known to this release and passed over: {why}"
        );
    };
    let mut orders = Vec::new();
    while let Some(order) = reported.next(decoder, passed_over)? {
        orders.push(order);
    }
    Ok(orders)
}

/// Writes what is handed in, but for reports that the controller does not know.
async fn write_frames(
    mut stream: WriteHalf<Stream>,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
    lacks: &[&'static str],
) -> LinkError {
    let known = |frame: &Vec<u8>| {
        let body = frame.get(frame::HEADER..).unwrap_or_default();
        words::lacking(lacks, body).is_none()
    };
    while let Some(first) = frames.recv().await {
        let mut bytes = if known(&first) { first } else { Vec::new() };
        while let Ok(more) = frames.try_recv() {
            if known(&more) {
                bytes.extend(more);
            }
        }
        let written = async {
            stream.write_all(&bytes).await?;
            stream.flush().await
        };
        if let Err(e) = written.await {
            return e.into();
        }
    }
    LinkError::Closed
}

/// Reads the private key of this host. It must belong to this daemon's user, and nobody
/// else may be able to read it.
///
/// # Errors
/// With the path, what is wrong with the file.
pub fn read_key(path: &std::path::Path) -> anyhow::Result<Arc<KeyPair>> {
    use anyhow::Context;
    use std::io::Read;
    let about = || format!("private key {}", path.display());
    let mut file = std::fs::File::open(path)
        .with_context(|| format!("{} ('noded join' makes one)", about()))?;
    crate::private::check_file(&file).map_err(|why| anyhow::anyhow!("{}: {why}", about()))?;
    let mut bytes = Vec::new();
    file.by_ref()
        .take(limits::HELLO_BYTES as u64)
        .read_to_end(&mut bytes)
        .with_context(about)?;
    Ok(Arc::new(KeyPair::from_pkcs8(&bytes).with_context(about)?))
}
