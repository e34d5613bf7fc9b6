//! Node daemons: TLS with pinned raw keys, first words, reports and orders.

use crate::clients::{self, Desk};
use crate::engine::Input;
use crate::hub::{Hub, ToLink};
use cosy_control::{Event, LinkAnswer, LinkHello, LinkId, Via};
use cosy_model::api::Reply;
use cosy_model::limits;
use cosy_model::node::{NodeOrder, NodeReport};
use cosy_model::{OsText, Refusal, RefusalCode};
use cosy_proto::client::Ask;
use cosy_proto::frame::{self, Decoder};
use cosy_proto::keys::sha256_hex;
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::tls;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshake and first word must be over after so long.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// Handshakes under way at once.
const HANDSHAKES: usize = 256;
/// Longest answer that is passed on to a command on a node's host, in bytes.
const RELAYED_BYTES: usize = limits::FRAME_BYTES - (64 << 10);
/// Orders that go out in one write, in bytes.
const WRITE_BYTES: usize = 256 << 10;

/// What links need.
pub struct Switchboard {
    /// The core's mailbox.
    pub core: mpsc::Sender<Input>,
    /// Open connections.
    pub hub: Arc<Hub>,
    /// Answers requests that nodes pass on.
    pub desk: Arc<Desk>,
    /// Name of the cluster.
    pub cluster: String,
}

/// Takes node daemons until the listener fails.
pub async fn serve(listener: TcpListener, acceptor: TlsAcceptor, board: Arc<Switchboard>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(permit) = handshakes.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, from)) => {
                let (acceptor, board) = (acceptor.clone(), board.clone());
                tokio::spawn(async move {
                    let shaken = tokio::time::timeout(HELLO_TIME, greet(stream, acceptor)).await;
                    drop(permit);
                    match shaken {
                        Ok(Ok(greeted)) => board.talk(greeted).await,
                        Ok(Err(e)) => tracing::debug!("{from}: {e}"),
                        Err(_) => tracing::debug!("{from}: no handshake in time"),
                    }
                });
            }
            Err(e) => {
                tracing::warn!("a node could not connect: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

struct Greeted {
    stream: TlsStream<TcpStream>,
    decoder: Decoder,
    peer: String,
    hello: Hello,
}

async fn greet(stream: TcpStream, acceptor: TlsAcceptor) -> anyhow::Result<Greeted> {
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
    Ok(Greeted {
        stream,
        decoder,
        peer,
        hello,
    })
}

impl Switchboard {
    async fn talk(&self, greeted: Greeted) {
        let (version, hello) = match greeted.hello {
            Hello::Node { version } => (version, LinkHello::Node),
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
        if !cosy_proto::understands(version) {
            let reason = format!(
                "node speaks protocol version {version}, the controller {}",
                cosy_proto::PROTOCOL
            );
            let _ = say(&mut writer, &HelloReply::Refused { reason }).await;
            return;
        }
        let (link, mut orders) = self.hub.open_link();
        let peer = greeted.peer;
        let event = Event::LinkOpened { link, peer, hello };
        if self.core.send(Input::Event(Box::new(event))).await.is_ok() {
            self.after_hello(link, reader, writer, greeted.decoder, &mut orders)
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
        link: LinkId,
        reader: ReadHalf<TlsStream<TcpStream>>,
        mut writer: WriteHalf<TlsStream<TcpStream>>,
        decoder: Decoder,
        orders: &mut mpsc::UnboundedReceiver<ToLink>,
    ) {
        let reply = match orders.recv().await {
            Some(ToLink::Answer(LinkAnswer::Welcome)) => HelloReply::Welcome {
                version: cosy_proto::PROTOCOL,
            },
            Some(ToLink::Answer(LinkAnswer::Joined)) => HelloReply::Joined {
                cluster: self.cluster.clone(),
            },
            Some(ToLink::Answer(LinkAnswer::Refused(reason))) => {
                tracing::warn!("a node was refused: {reason}");
                HelloReply::Refused { reason }
            }
            Some(ToLink::Frame(_) | ToLink::Close) | None => return,
        };
        let goes_on = matches!(reply, HelloReply::Welcome { .. });
        if say(&mut writer, &reply).await.is_err() || !goes_on {
            let _ = writer.shutdown().await;
            return;
        }
        tokio::select! {
            () = self.listen(link, reader, decoder) => {}
            () = send_orders(&mut writer, orders) => {}
        }
        let _ = writer.shutdown().await;
    }

    /// Reports, until the link ends.
    async fn listen(&self, link: LinkId, mut reader: impl AsyncRead + Unpin, mut decoder: Decoder) {
        let mut chunk = vec![0u8; 16 << 10];
        loop {
            loop {
                let report = match decoder.next_frame() {
                    Ok(None) => break,
                    Ok(Some(body)) => frame::decode::<NodeReport>(body),
                    Err(e) => Err(e),
                };
                match report {
                    Ok(report) => self.take(link, report).await,
                    Err(e) => {
                        tracing::warn!("a node sent what is no report: {e}");
                        return;
                    }
                }
            }
            decoder.shrink();
            match reader.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(n) => decoder.push(&chunk[..n]),
            }
        }
    }

    async fn take(&self, link: LinkId, report: NodeReport) {
        match report {
            NodeReport::RelayRequest {
                connection,
                node,
                uid,
                gid,
                frame,
            } => self.relay(link, connection, node, uid, gid, frame),
            report => {
                let event = Event::LinkReported { link, report };
                let _ = self.core.send(Input::Event(Box::new(event))).await;
            }
        }
    }

    /// A command on that node's host asks; who it is, is what that host's kernel says.
    fn relay(
        &self,
        link: LinkId,
        connection: u64,
        node: String,
        uid: cosy_model::Uid,
        gid: cosy_model::Gid,
        body: OsText,
    ) {
        let (desk, hub) = (self.desk.clone(), self.hub.clone());
        tokio::spawn(async move {
            let reply = match frame::decode::<Ask>(&body.0) {
                Ok(ask) => {
                    let via = Some(Via { node, link });
                    let caller = desk.caller(uid, gid, via).await;
                    desk.answer(caller, ask).await
                }
                Err(e) => {
                    cosy_model::api::Reply::Refused(cosy_model::Refusal::invalid(e.to_string()))
                }
            };
            let mut frame = clients::encode(reply);
            if frame.len() > RELAYED_BYTES {
                frame = clients::encode(Reply::Refused(Refusal::new(
                    RefusalCode::TooMany,
                    "the answer is too long to be passed on: ask for less, or ask on the controller's host",
                )));
            }
            // The body alone: the link has frames of its own.
            let frame = OsText(frame.split_off(frame::HEADER));
            hub.order(link, &NodeOrder::RelayReply { connection, frame });
        });
    }
}

async fn say(writer: &mut (impl AsyncWrite + Unpin), reply: &HelloReply) -> anyhow::Result<()> {
    let bytes = frame::encode(reply, limits::HELLO_BYTES)?;
    writer.write_all(&bytes).await?;
    writer.flush().await?;
    Ok(())
}

/// Orders, as many in one write as wait, until the link is closed from this side.
async fn send_orders(
    writer: &mut (impl AsyncWrite + Unpin),
    orders: &mut mpsc::UnboundedReceiver<ToLink>,
) {
    while let Some(first) = orders.recv().await {
        let mut bytes = Vec::new();
        let mut next = Some(first);
        let mut close = false;
        while let Some(message) = next {
            match message {
                ToLink::Frame(frame) => bytes.extend(frame),
                ToLink::Answer(_) => {}
                ToLink::Close => close = true,
            }
            next = if bytes.len() < WRITE_BYTES && !close {
                orders.try_recv().ok()
            } else {
                None
            };
        }
        let sent = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        if sent.await.is_err() || close {
            return;
        }
    }
}
