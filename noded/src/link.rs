//! The links to the controllers: TLS, hello, frames both ways, again and again.
//!
//! Carries messages only; what they mean is the daemon's business. A link that breaks is
//! taken up again at once at first, then with growing pauses, forever.
//!
//! Of several controllers one leads and the others stand by. Each has a task here:
//!
//! ```text
//!             connect, TLS, hello          standby ...          welcome, its epoch kept
//!   place a  ────────────────────────────────────────▶ parked ─────────────────▶ link up
//!   place b  ─────────────────────────▶ link up ··························▶ superseded: closed
//! ```
//!
//! A connection that is parked waits as long as it takes. So a leader that is frozen, and keeps its
//! link, does not keep this node from the next one.

mod absence;
mod error;
mod frames;
mod greeting;
mod leadership;
#[cfg(test)]
mod tests;

pub use error::LinkError;
pub use greeting::Peer;
pub use leadership::{Leadership, LinkTag, ObeyedLink};

use crate::sys;
use absence::Absences;
use cosy_model::limits;
use cosy_model::node::{NodeOrder, NodeReport};
use cosy_proto::keys::KeyPair;
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::words;
use frames::{Orders, write_frames};
use greeting::{Stream, next_reply};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// With several controllers: a takeover takes seconds, and its leader is to be found soon.
const LAST_PAUSE_OF_SEVERAL: Duration = Duration::from_millis(500);
/// Most letters of what a controller says that are logged.
const LOGGED: usize = 200;

/// What the links tell the daemon.
#[derive(Debug)]
pub enum LinkEvent {
    /// The link is up; whole frames may be sent. The one before it, if any, is no more.
    Up(LinkTag, mpsc::UnboundedSender<Vec<u8>>),
    /// These came on that link, in order.
    Orders(LinkTag, Vec<NodeOrder>),
    /// That link is down.
    Down(LinkTag),
    /// At that time since the machine's start nobody was there who could give work to others:
    /// nothing listens at any controller's place, or it takes nobody on.
    Absent(Duration),
}

/// Keeps a link to the controller that leads. Ends when the daemon no longer listens.
pub fn keep_up<E>(peers: Vec<Peer>, leadership: &Leadership, events: &mpsc::Sender<E>)
where
    E: From<LinkEvent> + Send + 'static,
{
    let absences = Absences::new(peers.len());
    let last_pause = match peers.len() {
        1 => LAST_PAUSE,
        _ => LAST_PAUSE_OF_SEVERAL,
    };
    for (number, peer) in peers.into_iter().enumerate() {
        let place = Place {
            number,
            peer,
            leadership: leadership.clone(),
            absences: absences.clone(),
            events: events.clone(),
            last_pause,
            last_logged: String::new(),
        };
        tokio::spawn(place.keep_up());
    }
}

/// Where one of the controllers is.
struct Place<E> {
    number: usize,
    peer: Peer,
    leadership: Leadership,
    absences: Absences,
    events: mpsc::Sender<E>,
    last_pause: Duration,
    /// The same error again and again is logged once.
    last_logged: String,
}

/// The controller takes this daemon on.
struct Welcome {
    stream: Stream,
    /// Names of reports that it does not know.
    lacks: Vec<&'static str>,
    epoch: u64,
}

impl<E: From<LinkEvent>> Place<E> {
    async fn keep_up(mut self) {
        let mut pause = FIRST_PAUSE;
        while !self.events.is_closed() {
            let began = sys::since_boot();
            let error = match self.taken_up().await {
                Ok((welcome, tag)) => {
                    self.last_logged.clear();
                    let error = self.carry(welcome, tag).await;
                    self.leadership.ended(tag);
                    if !self.tell(LinkEvent::Down(tag)).await {
                        return;
                    }
                    // Of two that both claim to lead neither is to press on.
                    if !matches!(error, LinkError::Superseded) {
                        pause = FIRST_PAUSE;
                    }
                    error
                }
                Err(e) => e,
            };
            let empty = error.is_absence().then_some(began);
            if let Some(at) = self.absences.found(self.number, empty)
                && !self.tell(LinkEvent::Absent(at)).await
            {
                return;
            }
            self.complain(&error);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(self.last_pause);
        }
    }

    async fn tell(&self, event: LinkEvent) -> bool {
        self.events.send(event.into()).await.is_ok()
    }

    fn complain(&mut self, error: &LinkError) {
        let address = self.peer.address();
        let text = error.to_string();
        if self.last_logged != text {
            tracing::warn!("no link to the controller at {address}: {text}");
            self.last_logged = text;
        }
    }

    async fn taken_up(&mut self) -> Result<(Welcome, LinkTag), LinkError> {
        let welcome = self.welcomed().await?;
        let known = self.leadership.known();
        let tag = self.leadership.take_up(self.number, welcome.epoch).await?;
        if welcome.epoch > known {
            let (address, epoch) = (self.peer.address(), welcome.epoch);
            tracing::info!("the controller at {address} leads (epoch {epoch})");
        }
        Ok((welcome, tag))
    }

    /// Waits for as long as the controller stands by.
    async fn welcomed(&mut self) -> Result<Welcome, LinkError> {
        let hello = Hello::node(self.leadership.known());
        let (mut stream, mut reply) = self.peer.greet(&hello).await?;
        while let HelloReply::Standby { leader } = reply {
            self.stands_by(leader);
            reply = tokio::select! {
                reply = next_reply(&mut stream) => reply?,
                () = self.events.closed() => return Err(LinkError::Closed),
            };
        }
        match reply {
            HelloReply::Welcome {
                version,
                reports,
                epoch,
            } if cosy_proto::understands(version) => {
                self.absences.found(self.number, None);
                let lacks = words::lacked::<NodeReport>(&reports);
                Ok(Welcome {
                    stream,
                    lacks,
                    epoch,
                })
            }
            HelloReply::Welcome { version, .. } => Err(LinkError::Version(version)),
            HelloReply::Refused { reason } => Err(LinkError::Refused(reason)),
            HelloReply::Joined { .. } | HelloReply::Standby { .. } => Err(LinkError::Unexpected),
        }
    }

    /// It is there, and is not heard either: it may lead at any moment.
    fn stands_by(&mut self, leader: Option<String>) {
        self.absences.found(self.number, None);
        let address = self.peer.address();
        let leader: String = leader.unwrap_or_default().chars().take(LOGGED).collect();
        let text = match leader.is_empty() {
            true => format!("the controller at {address} stands by"),
            false => {
                let leader = leader.escape_debug();
                format!("the controller at {address} stands by; {leader} leads")
            }
        };
        if self.last_logged != text {
            tracing::info!("{text}");
            self.last_logged = text;
        }
    }

    async fn carry(&self, welcome: Welcome, tag: LinkTag) -> LinkError {
        let (reading, writing) = tokio::io::split(welcome.stream);
        let (sender, receiver) = mpsc::unbounded_channel();
        if !self.tell(LinkEvent::Up(tag, sender)).await {
            return LinkError::Closed;
        }
        tokio::select! {
            error = self.pass_on(Orders::new(reading), tag) => error,
            error = write_frames(writing, receiver, &welcome.lacks) => error,
            () = self.leadership.superseded(tag) => LinkError::Superseded,
        }
    }

    async fn pass_on(&self, mut orders: Orders, tag: LinkTag) -> LinkError {
        loop {
            let orders = match orders.next().await {
                Ok(orders) => orders,
                Err(e) => return e,
            };
            if !self.tell(LinkEvent::Orders(tag, orders)).await {
                return LinkError::Closed;
            }
        }
    }
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
