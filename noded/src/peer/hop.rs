//! One hop of a step's tree, seen from its upper end: the way from the supervisor here to
//! the one on a child node, kept up as long as the step runs here.
//!
//! When the connection breaks, both supervisors are connected again and go on where they
//! were; a child that cannot be reached (again) is told to the supervisor as lost, with
//! everything below it. When the supervisor here was killed, the child is told that nothing
//! is above it any more: [`DownFrame::Gone`] comes before any other frame.

use super::pool::{Pool, Reply, Silence};
use super::tunnel::carry;
use crate::steps::{IoPurpose, spool};
use cosy_model::limits;
use cosy_model::step::{DownFrame, Peer, StepKey, StepOrder, UpFrame};
use cosy_proto::frame;
use cosy_proto::peer::{PeerAsk, PeerRequest};
use cosy_proto::step::StepFrame;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::watch;

/// How long a child that was there is looked for.
const SEARCH: Duration = Duration::from_secs(10);
const SEARCH_PAUSE: Duration = Duration::from_millis(200);
/// How long a supervisor that was just started may take to open its socket.
const BIRTH: Duration = Duration::from_secs(20);
/// A step whose hop ended cleanly is usually over by then.
const CLOSING: Duration = Duration::from_millis(100);
/// A hop that breaks again and again so soon is given up after so many times.
const SHORT: Duration = Duration::from_secs(1);
const SHORT_TIMES: u32 = 20;

/// What is told of a node whose daemon does not know the word for a step with a display.
const NO_DISPLAYS: &str = "its noded is of an older release, which forwards no displays (--x11)";

/// The order to a child. One about a display is a word that older daemons refuse.
fn start(order: Box<StepOrder>) -> PeerRequest {
    match order.spec.display {
        Some(_) => PeerRequest::StartWithDisplay(order),
        None => PeerRequest::Start(order),
    }
}

/// The way from a step's supervisor here to the one on a child node.
pub struct Hop {
    /// Connections to other nodes.
    pub pool: Arc<Pool>,
    /// The step's directory here.
    pub directory: PathBuf,
    /// Step that the frames belong to.
    pub key: StepKey,
    /// The child's place among the children.
    pub child: u32,
    /// Numbers of the nodes below, the child's own first.
    pub nodes: Vec<u32>,
    /// Name, address and key of the child node.
    pub peer: Peer,
    /// The allocation's ticket.
    pub ticket: cosy_model::OsText,
    /// True when the supervisor here has ended without an outcome: it does not come back.
    pub gone: watch::Receiver<bool>,
}

impl Hop {
    /// Starts the child, or goes on with it (`order` is `None`), until the step is over.
    pub async fn keep_up(self, order: Option<Box<StepOrder>>) {
        let since = order.is_none().then(Instant::now);
        let ask = match order {
            Some(order) => self.ask(start(order)),
            None => self.resume(),
        };
        self.keep_up_from(ask, since).await;
    }

    /// Begins with that question; `since` when the child was there.
    async fn keep_up_from(self, mut ask: PeerAsk, mut since: Option<Instant>) {
        let mut short = 0;
        loop {
            let asked_at = Instant::now();
            match self.pool.converse(&self.peer, &ask).await {
                Ok(Reply::Refused(reason)) => {
                    let reason = match cosy_proto::x11::is_unknown_word(&reason) {
                        true => NO_DISPLAYS.to_owned(),
                        false => reason,
                    };
                    let reason = format!("node {}: {reason}", self.peer.node);
                    return self.lost(reason).await;
                }
                Ok(Reply::Accepted(stream)) if self.is_gone() => {
                    return self.say_gone(stream).await;
                }
                Ok(Reply::Accepted(stream)) => {
                    if !self.carry(stream).await {
                        return;
                    }
                    since = Some(Instant::now());
                    ask = self.resume();
                    short = if asked_at.elapsed() < SHORT {
                        short + 1
                    } else {
                        0
                    };
                    if short > SHORT_TIMES {
                        let reason = format!("node {}: its link breaks at once", self.peer.node);
                        return self.lost(reason).await;
                    }
                }
                // It may have begun although its answer was lost. Not begun anew: it could run twice.
                Err(Silence::NoAnswer(_)) if since.is_none() => {
                    since = Some(asked_at);
                    ask = self.resume();
                }
                Err(silence) => match since {
                    Some(at) if at.elapsed() < SEARCH && self.is_needed() => {
                        tokio::time::sleep(SEARCH_PAUSE).await;
                    }
                    _ => return self.lost(silence.to_string()).await,
                },
            }
        }
    }

    fn ask(&self, what: PeerRequest) -> PeerAsk {
        PeerAsk {
            version: cosy_proto::PROTOCOL,
            node: self.peer.node.clone(),
            ticket: self.ticket.clone(),
            what,
        }
    }

    fn resume(&self) -> PeerAsk {
        self.ask(PeerRequest::Resume { key: self.key })
    }

    fn is_over(&self) -> bool {
        !self.directory.exists() || spool::is_left(&self.directory)
    }

    fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    /// The child has something to hear.
    fn is_needed(&self) -> bool {
        self.is_gone() || !self.is_over()
    }

    /// Comes when the supervisor here does not come back.
    async fn goes(&self) {
        let mut gone = self.gone.clone();
        if gone.wait_for(|gone| *gone).await.is_err() {
            std::future::pending::<()>().await; // the step is over in its own way
        }
    }

    /// Carries until the hop ends; true when the child is to be looked for again.
    async fn carry(&self, stream: Box<super::pool::Stream>) -> bool {
        let again = tokio::select! {
            () = self.goes() => true,
            () = self.pool.until_revoked(&self.peer) => true,
            again = self.carry_frames(stream) => again,
        };
        again || self.is_gone()
    }

    async fn carry_frames(&self, mut stream: Box<super::pool::Stream>) -> bool {
        let Ok(mut local) = dock(&self.directory, IoPurpose::Child(self.child)).await else {
            // Without its supervisor the step is over here; the child sees a broken hop.
            return false;
        };
        if carry(&mut stream, &mut local).await.is_ok() {
            self.pool.put(&self.peer, stream);
            tokio::time::sleep(CLOSING).await;
        }
        !self.is_over()
    }

    /// Tells the child that nothing is above it any more.
    async fn say_gone(&self, mut stream: Box<super::pool::Stream>) {
        let mut bytes = Vec::new();
        let framed = cosy_proto::step::put(&mut bytes, &StepFrame::Down(DownFrame::Gone));
        let (Ok(()), Ok((mut own, mut carried))) = (framed, UnixStream::pair()) else {
            return;
        };
        let talk = async {
            own.write_all(&bytes).await?;
            own.shutdown().await?;
            tokio::io::copy(&mut own, &mut tokio::io::sink()).await
        };
        let both = async { tokio::join!(carry(&mut stream, &mut carried), talk).0 };
        if let Ok(Ok(())) = tokio::time::timeout(BIRTH, both).await {
            self.pool.put(&self.peer, stream);
        }
    }

    /// Tells the supervisor that nothing more comes from this part of the tree.
    async fn lost(self, reason: String) {
        if self.is_over() {
            return;
        }
        tracing::debug!(job = %self.key.attempt.job, "step {}: {reason}", self.key);
        let lost = StepFrame::Up(UpFrame::Lost {
            nodes: self.nodes,
            reason,
        });
        let mut bytes = Vec::new();
        if cosy_proto::step::put(&mut bytes, &lost).is_err() {
            return;
        }
        if let Ok(mut local) = dock(&self.directory, IoPurpose::Child(self.child)).await {
            let _ = local.write_all(&bytes).await;
            let _ = local.shutdown().await;
            // Closed before it is read, it would be lost with the connection.
            let mut nowhere = tokio::io::sink();
            let reading = tokio::io::copy(&mut local, &mut nowhere);
            let _ = tokio::time::timeout(BIRTH, reading).await;
        }
    }
}

/// Connects to the supervisor of a step, which may just have been started.
///
/// # Errors
/// The step is over, or its supervisor does not open its socket in time.
pub async fn dock(directory: &Path, dock: IoPurpose) -> io::Result<UnixStream> {
    let bytes = frame::encode(&dock, limits::HELLO_BYTES).map_err(io::Error::other)?;
    let until = Instant::now() + BIRTH;
    let mut pause = Duration::from_micros(500);
    loop {
        // Seen before: one that has ended in between was there to be connected to.
        let left = spool::is_left(directory);
        match connect(directory).await {
            Ok(mut stream) => {
                stream.write_all(&bytes).await?;
                return Ok(stream);
            }
            Err(e) if Instant::now() >= until || !directory.exists() => return Err(e),
            Err(e) if left => return Err(e),
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The directory is held open: its path may be longer than the address of a socket.
async fn connect(directory: &Path) -> io::Result<UnixStream> {
    let held = rustix::fs::open(
        directory,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let path = format!("/proc/self/fd/{}/{}", held.as_raw_fd(), spool::IO);
    UnixStream::connect(path).await
}

#[cfg(test)]
mod tests {
    use super::super::revoked::RevokedKeys;
    use super::super::{read_frame, write_frame};
    use super::*;
    use cosy_model::node::AttemptKey;
    use cosy_model::step::StepId;
    use cosy_model::{Attempt, JobId};
    use cosy_proto::keys::KeyPair;
    use cosy_proto::peer::PeerAnswer;
    use cosy_proto::tls;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    fn key() -> StepKey {
        StepKey {
            attempt: AttemptKey {
                job: JobId(7),
                attempt: Attempt(1),
            },
            step: StepId(0),
        }
    }

    fn hop(own: KeyPair, child: &KeyPair, address: String, directory: PathBuf) -> Hop {
        let memory = directory.join("revoked");
        Hop {
            pool: Arc::new(Pool::new(Arc::new(own), RevokedKeys::load(&memory))),
            directory,
            key: key(),
            child: 0,
            nodes: vec![1],
            peer: Peer {
                node: "n2".into(),
                address,
                key: child.public().to_string(),
            },
            ticket: cosy_model::OsText::default(),
            gone: watch::channel(false).1,
        }
    }

    /// The node goes after it was asked and before it has answered: the step may run there.
    #[tokio::test]
    async fn a_child_whose_answer_was_lost_is_looked_for() {
        let directory = tempfile::tempdir().unwrap();
        let [own, child] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let acceptor = TlsAcceptor::from(tls::server_config(&child).unwrap());
        let asked = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answers in [false, true] {
                let (tcp, _) = listener.accept().await.unwrap();
                let mut stream = acceptor.accept(tcp).await.unwrap();
                let ask: PeerAsk = read_frame(&mut stream, limits::FRAME_BYTES).await.unwrap();
                asked.push(ask.what);
                if answers {
                    let reason = "it does not".to_owned();
                    let answer = PeerAnswer::Refused { reason };
                    write_frame(&mut stream, &answer, limits::HELLO_BYTES)
                        .await
                        .unwrap();
                }
            }
            asked
        });
        let hop = hop(own, &child, address, directory.path().to_owned());
        let limit = PeerRequest::Limit {
            key: key(),
            limit: cosy_model::Span::from_secs(1),
        };
        let first = hop.ask(limit);
        let keeping = tokio::spawn(hop.keep_up_from(first, None));
        let asked = tokio::time::timeout(BIRTH, asked).await;
        keeping.abort();
        let asked = asked.expect("it is looked for").unwrap();
        assert!(
            matches!(asked[..], [PeerRequest::Limit { .. }, PeerRequest::Resume { .. }]),
            "{asked:?}"
        );
    }
}
