//! The socket for commands on this host: their frames are passed on to the controller,
//! with the identity that the kernel gives, and the answers come back.
//!
//! Nothing in a frame is looked at: its bytes travel without the header, which the link's
//! own frames replace. What one user may hold here is limited, so that nobody can use the
//! daemon up: connections, bytes of unfinished frames, time to begin and to finish one, time in
//! which an answer is not taken. How long a command may be silent between two questions only the
//! controller could say, which knows whether it stays with a job: that has no limit here.

use cosy_model::{Gid, OsText, Refusal, RefusalCode, Uid, api::Reply, limits};
use cosy_proto::client::ReplyFrame;
use cosy_proto::frame::{self, Decoder};
use std::collections::HashMap;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::unix::ReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Connections of one user at once.
const CONNECTIONS_PER_UID: usize = 64;
/// Connections at once, the last [`limits::ROOT_RESERVE`] of them root's.
const CONNECTIONS: usize = 4096;
/// Bytes of frames that are not yet whole, of one user.
const BUFFERED_PER_UID: usize = 48 << 20;
/// An answer must be taken at this rate at least, in bytes in a second.
const TAKE_RATE: usize = 64 << 10;
/// How often a command that waits for its answer is looked at, whether it is there.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long commands may keep the relay waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Times {
    /// The first byte of a connection must come within so long.
    first: Duration,
    /// A frame that was begun must be whole after so long.
    frame: Duration,
    /// An answer of which nothing is taken for so long is not waited for any more.
    take: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let half_a_minute = Duration::from_secs(30);
        Self {
            first: half_a_minute,
            frame: half_a_minute,
            take: half_a_minute,
        }
    }
}

/// What the relay tells the daemon.
#[derive(Debug)]
pub enum RelayEvent {
    /// A frame for the controller.
    Frame {
        /// Number of the command's connection on this host.
        connection: u64,
        /// User at its other end.
        uid: Uid,
        /// Primary group of that user.
        gid: Gid,
        /// Body of the frame, without its header.
        frame: OsText,
    },
    /// The command at the other end of a connection has gone.
    Closed {
        /// Number of the command's connection on this host.
        connection: u64,
    },
}

#[derive(Debug)]
struct UserConnections {
    uid: u32,
    answers: mpsc::UnboundedSender<Vec<u8>>,
    buffered: usize,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    held: HashMap<u64, UserConnections>,
}

/// The socket and who is connected to it.
#[derive(Debug)]
pub struct Relay {
    path: PathBuf,
    table: Arc<Mutex<Table>>,
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    /// Listens at `path`, in the place of a socket that nobody listens at any more.
    ///
    /// # Errors
    /// The path cannot be used, or somebody listens there.
    pub fn listen<E>(path: &Path, events: mpsc::Sender<E>) -> std::io::Result<Self>
    where
        E: From<RelayEvent> + Send + 'static,
    {
        Self::listen_for(path, events, Times::default())
    }

    fn listen_for<E>(path: &Path, events: mpsc::Sender<E>, times: Times) -> std::io::Result<Self>
    where
        E: From<RelayEvent> + Send + 'static,
    {
        let listener = bind(path)?;
        let table = Arc::new(Mutex::new(Table::default()));
        tokio::spawn(accept(listener, Arc::clone(&table), events, times));
        Ok(Self {
            path: path.to_owned(),
            table,
        })
    }

    /// Passes an answer on to its command.
    pub fn answer(&self, connection: u64, frame: OsText) {
        if let Some(held) = locked(&self.table).held.get(&connection) {
            let _ = held.answers.send(framed(frame.0));
        }
    }

    /// Tells a command why its request is not passed on.
    pub fn refuse(&self, connection: u64, refusal: Refusal) {
        self.answer(connection, OsText(refusal_frame(refusal)));
    }

    /// The link broke: answers to what was asked will not come.
    pub fn drop_all(&self) {
        locked(&self.table).held.clear();
    }

    /// Removes the socket.
    pub fn close(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn refusal_frame(refusal: Refusal) -> Vec<u8> {
    let answer = ReplyFrame::new(Reply::Refused(refusal));
    frame::encode(&answer, limits::FRAME_BYTES).unwrap_or_default()
}

/// Everybody may connect.
pub(crate) fn bind(path: &Path) -> std::io::Result<UnixListener> {
    bind_as(path, 0o666)
}

/// Binds beside the place and moves the socket there, so that it is never there without
/// its mode or without a listener.
pub(crate) fn bind_as(path: &Path, mode: u32) -> std::io::Result<UnixListener> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
        crate::private::check_directory(parent).map_err(std::io::Error::other)?;
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(std::io::Error::other("there is something else than a socket"));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(std::io::Error::other("somebody listens there already"));
        }
        _ => {}
    }
    let beside = path.with_extension(format!("new{}", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    let listener = UnixListener::bind(&beside)?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(&beside, path)?;
    Ok(listener)
}

async fn accept<E>(
    listener: UnixListener,
    table: Arc<Mutex<Table>>,
    events: mpsc::Sender<E>,
    times: Times,
) where
    E: From<RelayEvent> + Send + 'static,
{
    let take = |stream| admit(stream, &table, &events, times);
    accept_each(&listener, || events.is_closed(), take).await;
}

/// Takes in everybody who connects, until nobody is there any more who would hear of it.
pub(crate) async fn accept_each(
    listener: &UnixListener,
    is_closed: impl Fn() -> bool,
    take: impl Fn(UnixStream),
) {
    while !is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => take(stream),
            // No descriptors left: others will close some.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn admit<E>(stream: UnixStream, table: &Arc<Mutex<Table>>, events: &mpsc::Sender<E>, times: Times)
where
    E: From<RelayEvent> + Send + 'static,
{
    let Ok(peer) = stream.peer_cred() else {
        return;
    };
    let (sender, answers) = mpsc::unbounded_channel();
    let connection = {
        let mut table = locked(table);
        let own = table.held.values().filter(|h| h.uid == peer.uid()).count();
        let room = limits::room_of(CONNECTIONS, peer.uid());
        if own >= CONNECTIONS_PER_UID || table.held.len() >= room {
            let refusal = Refusal::new(
                RefusalCode::TooMany,
                format!("{own} commands of yours are connected to noded here already; try again"),
            );
            let _ = stream.try_write(&refusal_frame(refusal));
            return;
        }
        table.next += 1;
        let connection = table.next;
        let held = UserConnections {
            uid: peer.uid(),
            answers: sender,
            buffered: 0,
        };
        table.held.insert(connection, held);
        connection
    };
    let session = Session {
        connection,
        uid: Uid(peer.uid()),
        gid: Gid(peer.gid()),
        table: Arc::clone(table),
        events: events.clone(),
        times,
    };
    tokio::spawn(session.serve(stream, answers));
}

struct Session<E> {
    connection: u64,
    uid: Uid,
    gid: Gid,
    table: Arc<Mutex<Table>>,
    events: mpsc::Sender<E>,
    times: Times,
}

impl<E: From<RelayEvent>> Session<E> {
    async fn serve(self, stream: UnixStream, answers: mpsc::UnboundedReceiver<Vec<u8>>) {
        self.converse(stream, answers).await;
        locked(&self.table).held.remove(&self.connection);
        let closed = RelayEvent::Closed {
            connection: self.connection,
        };
        let _ = self.events.send(closed.into()).await;
    }

    /// One question after another: the next is read when the last has its first answer.
    async fn converse(
        &self,
        mut stream: UnixStream,
        mut answers: mpsc::UnboundedReceiver<Vec<u8>>,
    ) {
        let (reading, mut writing) = stream.split();
        let mut decoder = Decoder::new(limits::FRAME_BYTES);
        let mut waits = false;
        let mut unfinished = 0;
        // Until then the next word must have come.
        let mut until = Some(Instant::now() + self.times.first);
        let mut begun = false;
        loop {
            if decoder.is_empty() {
                begun = false;
            } else if !waits && !begun {
                begun = true;
                until = Some(Instant::now() + self.times.frame);
            }
            tokio::select! {
                answer = answers.recv() => {
                    // None: the link broke, and this connection with it.
                    let Some(bytes) = answer else { return };
                    if send(&mut writing, &bytes, self.times.take).await.is_err() {
                        return;
                    }
                    waits = false;
                }
                read = arrived(&reading, &mut decoder), if !waits => match read {
                    Ok(n) if n > 0 => unfinished += n,
                    Ok(_) | Err(_) => return,
                },
                () = passes(until), if !waits => return,
                () = gone(&writing), if waits => return,
            }
            if waits {
                continue;
            }
            let whole = match decoder.next_frame() {
                Ok(frame) => frame.map(<[u8]>::to_vec),
                Err(e) => {
                    let refusal = Refusal::invalid(e.to_string());
                    let _ = writing.try_write(&refusal_frame(refusal));
                    return;
                }
            };
            let passed = match whole {
                Some(body) => {
                    (waits, begun, until) = (true, false, None);
                    unfinished = unfinished.saturating_sub(frame::HEADER + body.len());
                    self.pass_on(body).await
                }
                None => true,
            };
            decoder.shrink();
            if !passed || !self.may_buffer(unfinished) {
                return;
            }
        }
    }

    async fn pass_on(&self, frame: Vec<u8>) -> bool {
        let event = RelayEvent::Frame {
            connection: self.connection,
            uid: self.uid,
            gid: self.gid,
            frame: OsText(frame),
        };
        self.events.send(event.into()).await.is_ok()
    }

    /// Counts what this user has in unfinished frames.
    fn may_buffer(&self, bytes: usize) -> bool {
        let mut table = locked(&self.table);
        if let Some(held) = table.held.get_mut(&self.connection) {
            held.buffered = bytes;
        }
        let all: usize = table
            .held
            .values()
            .filter(|h| h.uid == self.uid.0)
            .map(|h| h.buffered)
            .sum();
        all <= BUFFERED_PER_UID
    }
}

/// The whole frame of an answer, whether it came with its header or without. (The first
/// bytes of a MessagePack map, read as a length, are far beyond any limit.)
fn framed(bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len().saturating_sub(frame::HEADER) as u32;
    if bytes.starts_with(&body.to_le_bytes()) {
        return bytes;
    }
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

/// Returns at that time, if there is one.
async fn passes(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Writes an answer to a peer that takes some of it at least every `patience`, and all of it at
/// [`TAKE_RATE`].
async fn send(
    writing: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    patience: Duration,
) -> std::io::Result<()> {
    let seconds = u64::try_from(bytes.len() / TAKE_RATE).unwrap_or(0);
    let until = Instant::now() + patience + Duration::from_secs(seconds);
    let mut left = bytes;
    while !left.is_empty() {
        let next = until.min(Instant::now() + patience);
        let written = tokio::time::timeout_at(next, writing.write(left)).await;
        match written.map_err(|_| std::io::ErrorKind::TimedOut)?? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            n => left = &left[n..],
        }
    }
    Ok(())
}

/// Waits for bytes and gives them to the decoder; tells how many, 0 at the end of the stream.
/// A connection that is silent holds no memory for bytes to come.
async fn arrived(reading: &ReadHalf<'_>, decoder: &mut Decoder) -> std::io::Result<usize> {
    loop {
        reading.readable().await?;
        match decoder.fill(|chunk| reading.try_read(chunk)) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Ends when the other side has closed, without reading what it sends.
async fn gone(stream: &tokio::net::unix::WriteHalf<'_>) {
    loop {
        match stream.ready(tokio::io::Interest::WRITABLE).await {
            Ok(ready) if !ready.is_write_closed() => tokio::time::sleep(LOOK_AGAIN).await,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    /// What never passes while a test runs.
    const NEVER: Duration = Duration::from_secs(100_000);
    /// What passes at once, however slow the machine is.
    const SOON: Duration = Duration::from_millis(20);
    const PATIENT: Times = Times {
        first: NEVER,
        frame: NEVER,
        take: NEVER,
    };

    /// A relay, and what it tells.
    fn relay(times: Times) -> (tempfile::TempDir, Relay, mpsc::Receiver<RelayEvent>) {
        let dir = tempfile::tempdir().expect("a directory");
        let (events, received) = mpsc::channel(16);
        let relay = Relay::listen_for(&dir.path().join("relay/socket"), events, times);
        (dir, relay.expect("it listens"), received)
    }

    async fn rest(stream: &mut UnixStream) -> usize {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes.len()
    }

    /// Waits for the first frame, and tells on which connection it came.
    async fn frame_of(received: &mut mpsc::Receiver<RelayEvent>) -> u64 {
        match received.recv().await {
            Some(RelayEvent::Frame { connection, .. }) => connection,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn who_says_nothing_is_hung_up_on() {
        let first = SOON;
        let (_dir, relay, mut received) = relay(Times { first, ..PATIENT });
        let mut stream = UnixStream::connect(&relay.path).await.expect("it listens");
        assert_eq!(rest(&mut stream).await, 0);
        let closed = received.recv().await;
        assert!(matches!(closed, Some(RelayEvent::Closed { .. })), "{closed:?}");
        assert!(locked(&relay.table).held.is_empty());
    }

    /// However slowly it goes on.
    #[tokio::test]
    async fn a_frame_that_does_not_come_to_its_end_is_not_waited_for() {
        let frame = SOON;
        for drips in [false, true] {
            let (_dir, relay, _told) = relay(Times { frame, ..PATIENT });
            let stream = UnixStream::connect(&relay.path).await.expect("it listens");
            let (mut reading, mut writing) = stream.into_split();
            let promise = [&60_000u32.to_le_bytes()[..], &[1]].concat();
            writing.write_all(&promise).await.expect("it is taken");
            let drip = async {
                while drips && writing.write_all(&[1]).await.is_ok() {
                    tokio::time::sleep(SOON / 10).await;
                }
            };
            let mut bytes = Vec::new();
            let (read, ()) = tokio::join!(reading.read_to_end(&mut bytes), drip);
            assert!(read.is_err() || bytes.is_empty(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn who_does_not_take_an_answer_is_hung_up_on() {
        let take = SOON;
        let (_dir, relay, mut received) = relay(Times { take, ..PATIENT });
        let mut stream = UnixStream::connect(&relay.path).await.expect("it listens");
        let question = [1, 0, 0, 0, 7];
        stream.write_all(&question).await.expect("it is taken");
        let connection = frame_of(&mut received).await;
        relay.answer(connection, OsText(vec![9; 8 << 20]));
        let closed = received.recv().await;
        assert!(matches!(closed, Some(RelayEvent::Closed { .. })), "{closed:?}");
        assert!(rest(&mut stream).await < 8 << 20);
    }

    #[test]
    fn answers_always_have_a_header() {
        let whole = framed(vec![1, 2, 3]);
        assert_eq!(whole, [3, 0, 0, 0, 1, 2, 3]);
        assert_eq!(framed(whole.clone()), whole);
    }
}
