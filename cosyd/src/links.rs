//! Node daemons: TLS with pinned raw keys, first words, reports and orders.

use crate::attendance::Conversation;
use crate::clients::{self, Desk};
use crate::engine::Input;
use crate::hub::{Hub, ToLink};
use cosy_control::{Event, LinkAnswer, LinkHello, LinkId, Via};
use cosy_model::api::Reply;
use cosy_model::limits;
use cosy_model::node::{NodeOrder, NodeReport};
use cosy_model::{Gid, OsText, Refusal, RefusalCode, Uid};
use cosy_proto::client::Ask;
use cosy_proto::frame::{self, Decoder};
use cosy_proto::keys::sha256_hex;
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::tls;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshake and first word must be over after so long.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// Handshakes under way at once.
const HANDSHAKES: usize = 256;
/// Longest answer that is passed on to a command on a node's host, in bytes.
const RELAYED_BYTES: usize = limits::FRAME_BYTES - (64 << 10);
/// Commands on one daemon's host that talk with the controller at once.
const RELAYED: usize = 10_000;
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
                    let greeting = greet(stream, from.ip(), acceptor);
                    let shaken = tokio::time::timeout(HELLO_TIME, greeting).await;
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
    address: IpAddr,
    hello: Hello,
}

async fn greet(
    stream: TcpStream,
    address: IpAddr,
    acceptor: TlsAcceptor,
) -> anyhow::Result<Greeted> {
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
        address,
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
        let address = Some(greeted.address.to_canonical());
        let event = Event::LinkOpened {
            link,
            peer,
            address,
            hello,
        };
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
        let mut relayed = Relayed::default();
        tokio::select! {
            () = self.listen(link, reader, decoder, &mut relayed) => {}
            () = send_orders(&mut writer, orders) => {}
        }
        relayed.break_off();
        let _ = writer.shutdown().await;
    }

    /// Reports, until the link ends.
    async fn listen(
        &self,
        link: LinkId,
        mut reader: impl AsyncRead + Unpin,
        mut decoder: Decoder,
        relayed: &mut Relayed,
    ) {
        let mut chunk = vec![0u8; 16 << 10];
        loop {
            loop {
                let report = match decoder.next_frame() {
                    Ok(None) => break,
                    Ok(Some(body)) => frame::decode::<NodeReport>(body),
                    Err(e) => Err(e),
                };
                match report {
                    Ok(report) => self.take(link, report, relayed).await,
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

    async fn take(&self, link: LinkId, report: NodeReport, relayed: &mut Relayed) {
        match report {
            NodeReport::RelayRequest {
                connection,
                node,
                uid,
                gid,
                frame,
            } => {
                let from = (uid, gid, Via { node, link });
                self.relay(connection, from, frame, relayed);
            }
            NodeReport::RelayClosed { connection } => relayed.close(connection),
            report => {
                let event = Event::LinkReported { link, report };
                let _ = self.core.send(Input::Event(Box::new(event))).await;
            }
        }
    }

    /// A command on that node's host asks; who it is, is what that host's kernel says.
    fn relay(&self, connection: u64, from: (Uid, Gid, Via), body: OsText, relayed: &mut Relayed) {
        let (desk, hub, link) = (self.desk.clone(), self.hub.clone(), from.2.link);
        let Some(command) = relayed.of(connection) else {
            let refusal = Refusal::new(
                RefusalCode::TooMany,
                format!("{RELAYED} commands of that host talk with the controller already"),
            );
            let frame = OsText(clients::encode(Reply::Refused(refusal)).split_off(frame::HEADER));
            return hub.order(link, &NodeOrder::RelayReply { connection, frame });
        };
        let talk = command.talk.clone();
        while command.questions.try_join_next().is_some() {}
        command.questions.spawn(async move {
            let reply = match frame::decode::<Ask>(&body.0) {
                Ok(ask) => {
                    let (uid, gid, via) = from;
                    let caller = desk.caller(uid, gid, Some(via)).await;
                    desk.answer(&talk, caller, ask).await
                }
                Err(e) => Reply::Refused(Refusal::invalid(e.to_string())),
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

/// The commands whose words come over one link, by connection.
#[derive(Default)]
struct Relayed(HashMap<u64, Command>);

#[derive(Default)]
struct Command {
    talk: Arc<Conversation>,
    /// Questions that are not answered yet; they end with the command.
    questions: JoinSet<()>,
}

impl Relayed {
    /// `None` when there are too many.
    fn of(&mut self, connection: u64) -> Option<&mut Command> {
        let room = self.0.len() < RELAYED || self.0.contains_key(&connection);
        room.then(|| self.0.entry(connection).or_default())
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
