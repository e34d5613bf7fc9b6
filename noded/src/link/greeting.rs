//! The first words with a controller: connection, TLS, hello, and its answer.

use super::error::{HANDSHAKE, LinkError};
use crate::sys;
use cosy_model::limits;
use cosy_proto::frame;
use cosy_proto::keys::{KeyPair, PublicKey};
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::tls;
use rustix::net::sockopt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Sent bytes that nobody acknowledges for so long end the link, in milliseconds.
const SILENCE_MS: u32 = 30_000;
/// The same for a connection on which nothing is said while its controller stands by.
const PARKED_SILENCE_MS: u32 = 9_000;
/// On such a connection the other host is asked after so long whether it is there, and again.
const PARKED_PROBE: Duration = Duration::from_secs(3);

/// A connection to a controller.
pub type Stream = TlsStream<TcpStream>;

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

    /// Where it is, as configured.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects and says hello; gives the first answer.
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
        let _ = sockopt::set_tcp_user_timeout(&tcp, SILENCE_MS);
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

/// The next word of a controller that stands by, however long it takes while its host is there.
///
/// # Errors
/// [`LinkError`]; never that nobody is there.
pub async fn next_reply(stream: &mut Stream) -> Result<HelloReply, LinkError> {
    sys::ask_whether_it_is_there(stream.get_ref().0, PARKED_SILENCE_MS, PARKED_PROBE);
    let reply = match read_reply(stream).await {
        Err(LinkError::Io(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(LinkError::Closed);
        }
        reply => reply?,
    };
    sys::ask_whether_it_is_there(stream.get_ref().0, SILENCE_MS, PARKED_PROBE);
    Ok(reply)
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
