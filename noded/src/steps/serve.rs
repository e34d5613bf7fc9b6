//! The socket for steps: commands on this host ask for a step, and their connection goes
//! on to the step's supervisor.
//!
//! Everybody may connect; who it is says the kernel. What one user may hold here is
//! limited: connections, bytes of asks that are not whole, time to finish one. A
//! connection stops counting when a supervisor has it.

use crate::peer::read_body;
use cosy_model::step::{StepAnswer, StepAsk};
use cosy_model::{Gid, Refusal, RefusalCode, Uid, limits};
use cosy_proto::frame;
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// Connections of one user at once, those of steps that wait among them.
const CONNECTIONS_PER_UID: usize = 512;
/// Connections at once, the last [`limits::ROOT_RESERVE`] of them root's.
const CONNECTIONS: usize = 8192;
/// Bytes of asks that are not yet whole, of one user.
const BUFFERED_PER_UID: usize = 48 << 20;
/// An ask must be whole within this time.
const ASK_TIME: Duration = Duration::from_secs(30);
/// An answer must be taken within this time.
const ANSWER_TIME: Duration = Duration::from_secs(30);

#[derive(Debug, Default, Clone, Copy)]
struct UserConnections {
    connections: usize,
    buffered: usize,
}

type Table = Arc<Mutex<HashMap<u32, UserConnections>>>;

fn locked(
    table: &Mutex<HashMap<u32, UserConnections>>,
) -> MutexGuard<'_, HashMap<u32, UserConnections>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Places for connections, counted by user.
#[derive(Debug, Default)]
pub(super) struct Places(Table);

impl Places {
    /// One more for that user; how many there are, when that is too many.
    pub(super) fn take(&self, uid: u32) -> Result<Place, usize> {
        Place::take(&self.0, uid)
    }
}

/// A counted connection.
#[derive(Debug)]
pub struct Place {
    table: Table,
    uid: u32,
    buffered: usize,
}

impl Place {
    /// A place for one more connection of a user; how many there are, when that is too
    /// many.
    fn take(table: &Table, uid: u32) -> Result<Self, usize> {
        let mut all = locked(table);
        let count: usize = all.values().map(|h| h.connections).sum();
        let own = all.get(&uid).map_or(0, |held| held.connections);
        let room = limits::room_of(CONNECTIONS, uid);
        if own >= CONNECTIONS_PER_UID || count >= room {
            return Err(own);
        }
        all.entry(uid).or_default().connections += 1;
        drop(all);
        Ok(Self {
            table: Arc::clone(table),
            uid,
            buffered: 0,
        })
    }

    /// Counts bytes that were asked for; false when they are too many.
    fn buffer(&mut self, bytes: usize) -> bool {
        let mut all = locked(&self.table);
        let own = all.entry(self.uid).or_default();
        own.buffered = own.buffered.saturating_sub(self.buffered);
        self.buffered = 0;
        if own.buffered.saturating_add(bytes) > BUFFERED_PER_UID {
            return false;
        }
        own.buffered += bytes;
        self.buffered = bytes;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = locked(&self.table);
        if let Some(own) = all.get_mut(&self.uid) {
            own.connections = own.connections.saturating_sub(1);
            own.buffered = own.buffered.saturating_sub(self.buffered);
            if own.connections == 0 {
                all.remove(&self.uid);
            }
        }
    }
}

/// A command's connection, not blocking.
#[derive(Debug)]
pub struct Connection {
    /// The daemon's end of the socket.
    pub stream: StdStream,
    /// Counts it as long as the daemon has it.
    pub place: Option<Place>,
}

impl Connection {
    /// Says something short at once.
    ///
    /// # Errors
    /// The command has gone, or takes nothing.
    pub fn say(&self, answer: &StepAnswer) -> io::Result<()> {
        let bytes = encode(answer);
        match say_now(&self.stream, &bytes)? {
            n if n == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Gives the last answer, elsewhere than on the daemon's loop.
    pub fn finish(self, answer: StepAnswer) {
        tokio::spawn(async move {
            let Ok(mut stream) = UnixStream::from_std(self.stream) else {
                return;
            };
            let bytes = encode(&answer);
            let _ = tokio::time::timeout(ANSWER_TIME, stream.write_all(&bytes)).await;
        });
    }

    /// Answers with a refusal, which ends the connection.
    pub fn refuse(self, code: RefusalCode, message: impl Into<String>) {
        self.finish(StepAnswer::Refused(Refusal::new(code, message)));
    }
}

/// The frame of an answer.
pub fn encode(answer: &StepAnswer) -> Vec<u8> {
    frame::encode(answer, limits::FRAME_BYTES).unwrap_or_default()
}

/// Writes what a socket takes without waiting.
///
/// # Errors
/// The socket's.
pub fn say_now(stream: &StdStream, bytes: &[u8]) -> io::Result<usize> {
    match rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL) {
        Ok(n) => Ok(n),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(0),
        Err(e) => Err(e.into()),
    }
}

/// A command asks.
#[derive(Debug)]
pub struct IncomingStep {
    /// Connection that the answer goes to.
    pub connection: Connection,
    /// Number of the user as the kernel tells it.
    pub uid: Uid,
    /// Primary group as the kernel tells it.
    pub gid: Gid,
    /// All groups, where a pass of the controller names them.
    pub groups: Option<Vec<Gid>>,
    /// What the command asks for.
    pub ask: StepAsk,
    /// True when the ask came from another host: it is not sent on.
    pub from_peer: bool,
}

/// The local socket at which commands inside jobs ask for steps.
#[derive(Debug)]
pub struct StepSocket {
    path: PathBuf,
}

impl StepSocket {
    /// Listens at `path`, in the place of a socket that nobody listens at any more.
    ///
    /// # Errors
    /// The path cannot be used, or somebody listens there.
    pub fn listen<E>(path: &Path, events: mpsc::Sender<E>) -> io::Result<Self>
    where
        E: From<IncomingStep> + Send + 'static,
    {
        let listener = crate::relay::bind(path)?;
        tokio::spawn(accept(listener, events));
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Removes the socket.
    pub fn close(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept<E>(listener: UnixListener, events: mpsc::Sender<E>)
where
    E: From<IncomingStep> + Send + 'static,
{
    let table = Table::default();
    let take = |stream| admit(stream, &table, &events);
    crate::relay::accept_each(&listener, || events.is_closed(), take).await;
}

fn admit<E>(stream: UnixStream, table: &Table, events: &mpsc::Sender<E>)
where
    E: From<IncomingStep> + Send + 'static,
{
    let Ok(peer) = stream.peer_cred() else {
        return;
    };
    match Place::take(table, peer.uid()) {
        Ok(place) => {
            tokio::spawn(read(stream, peer, place, events.clone()));
        }
        Err(own) => {
            let refusal = Refusal::new(
                RefusalCode::TooMany,
                format!("{own} commands of yours wait at noded here already; try again"),
            );
            let _ = stream.try_write(&encode(&StepAnswer::Refused(refusal)));
        }
    }
}

async fn read<E: From<IncomingStep>>(
    mut stream: UnixStream,
    peer: tokio::net::unix::UCred,
    mut place: Place,
    events: mpsc::Sender<E>,
) {
    let reading = read_ask(&mut stream, &mut place);
    let ask = match tokio::time::timeout(ASK_TIME, reading).await {
        Ok(Ok(ask)) => ask,
        Ok(Err(e)) if e.kind() == io::ErrorKind::UnexpectedEof => return,
        Ok(Err(e)) => {
            let refusal = StepAnswer::Refused(Refusal::invalid(e.to_string()));
            let _ = stream.try_write(&encode(&refusal));
            return;
        }
        Err(_) => return,
    };
    place.buffer(0);
    let Ok(stream) = stream.into_std() else {
        return;
    };
    let incoming = IncomingStep {
        connection: Connection {
            stream,
            place: Some(place),
        },
        uid: Uid(peer.uid()),
        gid: Gid(peer.gid()),
        groups: None,
        ask,
        from_peer: false,
    };
    let _ = events.send(incoming.into()).await;
}

/// Not a byte more than the ask: what follows is the supervisor's.
async fn read_ask(stream: &mut UnixStream, place: &mut Place) -> io::Result<StepAsk> {
    let mut header = [0; frame::HEADER];
    stream.read_exact(&mut header).await?;
    let length = u32::from_le_bytes(header) as usize;
    if length <= limits::FRAME_BYTES && !place.buffer(length) {
        return Err(io::Error::other(format!(
            "commands of yours have sent more than {} MiB that is not whole",
            BUFFERED_PER_UID >> 20
        )));
    }
    let body = read_body(stream, length, limits::FRAME_BYTES).await?;
    frame::decode(&body).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_holds_is_counted() {
        let table = Table::default();
        let mut places: Vec<Place> = (0..CONNECTIONS_PER_UID)
            .map(|_| Place::take(&table, 7).unwrap())
            .collect();
        assert_eq!(Place::take(&table, 7).unwrap_err(), CONNECTIONS_PER_UID);
        assert!(Place::take(&table, 8).is_ok());
        assert!(places[0].buffer(BUFFERED_PER_UID) && !places[1].buffer(1));
        assert!(places[0].buffer(0) && places[1].buffer(1));
        // Whatever others hold, root gets in.
        let users = (8..).take(CONNECTIONS / CONNECTIONS_PER_UID);
        places.extend(users.flat_map(|uid| {
            let table = &table;
            (0..CONNECTIONS_PER_UID).map_while(move |_| Place::take(table, uid).ok())
        }));
        assert_eq!(places.len(), CONNECTIONS - limits::ROOT_RESERVE);
        assert!(Place::take(&table, 99).is_err() && Place::take(&table, 0).is_ok());
        places.clear();
        assert!(locked(&table).is_empty());
    }
}
