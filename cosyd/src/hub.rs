//! Where answers and orders go: the connections that are open now, by number.
//!
//! What goes to a node daemon and is not taken yet is counted; one that takes nothing is hung
//! up on.
//!
//! Filled by the tasks that hold the connections, used by the writer thread once a
//! batch is durable. Locks are held for a look-up only.

use crate::budget::Share;
use crate::clients::lock;
use cosy_control::{ClientId, Described, LinkAnswer, LinkId};
use cosy_model::api::Reply;
use cosy_model::node::NodeOrder;
use cosy_model::{Refusal, RefusalCode};
use cosy_proto::{frame, words};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};

/// Bytes for one node daemon that it has not taken yet.
const LINK_BYTES: usize = 256 << 20;

/// How long nodes have for taking the last orders before the controller stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Between two looks whether they have.
const LOOK: Duration = Duration::from_millis(5);

/// What goes to the task that holds a node daemon's connection.
#[derive(Debug)]
pub enum ToLink {
    /// The answer to its first word.
    Answer(LinkAnswer),
    /// A whole frame, and what it is counted as until it is taken.
    Frame(Vec<u8>, Option<Share>),
    /// The connection is to end.
    Close,
}

/// The way to the task that holds a node daemon's connection.
#[derive(Debug)]
struct NodeLink {
    sender: mpsc::UnboundedSender<ToLink>,
    backlog: Arc<Backlog>,
    /// Names of orders that the node daemon does not know: it is not sent them.
    lacks: Vec<&'static str>,
    /// Those names of `lacks` that the log has had already.
    logged: Vec<&'static str>,
}

impl NodeLink {
    /// Whether the node daemon knows what this frame says. An order that it does not know is
    /// logged, once.
    fn knows(&mut self, frame: &[u8]) -> bool {
        let body = frame.get(frame::HEADER..).unwrap_or_default();
        let Some(name) = words::lacking(&self.lacks, body) else {
            return true;
        };
        if !self.logged.contains(&name) {
            self.logged.push(name);
            tracing::warn!(
                "a node's daemon is of a release that does not know the order '{name}': it is not sent"
            );
        }
        false
    }
}

/// What waits on that way.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: AtomicUsize,
    cut: Notify,
}

impl Backlog {
    /// Notes that the node has taken this many bytes.
    pub fn taken(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns when too much waits.
    pub async fn cut(&self) {
        self.cut.notified().await;
    }
}

/// Descriptions of jobs, once they are there.
#[derive(Debug)]
pub struct Expected {
    jobs: oneshot::Receiver<Described>,
    refusal: oneshot::Receiver<Reply>,
}

impl Expected {
    /// Waits for them.
    ///
    /// # Errors
    /// The refusal that came instead.
    pub async fn wait(self) -> Result<Described, Refusal> {
        if let Ok(jobs) = self.jobs.await {
            return Ok(jobs);
        }
        match self.refusal.await {
            Ok(Reply::Refused(refusal)) => Err(refusal),
            Ok(_) | Err(_) => {
                Err(Refusal::new(RefusalCode::Unavailable, "the controller is stopping; try again"))
            }
        }
    }
}

/// Connections of commands and nodes, by the numbers that the controller knows them by.
#[derive(Debug, Default)]
pub struct Hub {
    next: AtomicU64,
    clients: Mutex<BTreeMap<ClientId, oneshot::Sender<Reply>>>,
    /// Those who wait for descriptions of jobs.
    describing: Mutex<BTreeMap<ClientId, oneshot::Sender<Described>>>,
    links: Mutex<BTreeMap<LinkId, NodeLink>>,
}

impl Hub {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A place for one answer.
    pub fn expect_answer(&self) -> (ClientId, oneshot::Receiver<Reply>) {
        let id = ClientId(self.number());
        let (sender, receiver) = oneshot::channel();
        lock(&self.clients).insert(id, sender);
        (id, receiver)
    }

    /// A place for descriptions of jobs, or for a refusal instead.
    pub fn expect_descriptions(&self) -> (ClientId, Expected) {
        let (client, refusal) = self.expect_answer();
        let (sender, jobs) = oneshot::channel();
        lock(&self.describing).insert(client, sender);
        (client, Expected { jobs, refusal })
    }

    /// Hands descriptions over; nothing else is waited for by that client.
    pub fn describe(&self, client: ClientId, described: Described) {
        let sender = lock(&self.describing).remove(&client);
        if let Some(sender) = sender {
            let _ = sender.send(described);
        }
        self.forget(client);
    }

    /// The command has gone.
    pub fn forget(&self, client: ClientId) {
        lock(&self.clients).remove(&client);
        lock(&self.describing).remove(&client);
    }

    /// Hands an answer over; one that nobody waits for is dropped.
    pub fn answer(&self, client: ClientId, reply: Reply) {
        lock(&self.describing).remove(&client);
        let sender = lock(&self.clients).remove(&client);
        if let Some(sender) = sender {
            let _ = sender.send(reply);
        }
    }

    /// Hands the same answer to everyone who waits.
    pub fn answer_all(&self, reply: &Reply) {
        lock(&self.describing).clear();
        for (_, sender) in std::mem::take(&mut *lock(&self.clients)) {
            let _ = sender.send(reply.clone());
        }
    }

    /// A new node connection, to a daemon that does not know these orders.
    pub fn open_link(
        &self,
        lacks: Vec<&'static str>,
    ) -> (LinkId, mpsc::UnboundedReceiver<ToLink>, Arc<Backlog>) {
        let id = LinkId(self.number());
        let (sender, receiver) = mpsc::unbounded_channel();
        let backlog = Arc::new(Backlog::default());
        let line = NodeLink {
            sender,
            backlog: backlog.clone(),
            lacks,
            logged: Vec::new(),
        };
        lock(&self.links).insert(id, line);
        (id, receiver, backlog)
    }

    /// The connection has ended.
    pub fn close_link(&self, link: LinkId) {
        let line = lock(&self.links).remove(&link);
        if let Some(line) = line {
            let _ = line.sender.send(ToLink::Close);
        }
    }

    /// Hangs up on every node; they come again.
    pub fn close_all_links(&self) {
        for (_, line) in std::mem::take(&mut *lock(&self.links)) {
            let _ = line.sender.send(ToLink::Close);
        }
    }

    /// Answers a node daemon's first word.
    pub fn link_answer(&self, link: LinkId, answer: LinkAnswer) {
        self.to_link(link, ToLink::Answer(answer));
    }

    /// Sends an order.
    pub fn order(&self, link: LinkId, order: &NodeOrder) {
        self.order_counted(link, order, None);
    }

    /// Sends an order that is counted as something until the node daemon has taken it.
    pub fn order_counted(&self, link: LinkId, order: &NodeOrder, share: Option<Share>) {
        match frame::encode(order, cosy_model::limits::FRAME_BYTES) {
            Ok(bytes) => self.to_link(link, ToLink::Frame(bytes, share)),
            Err(e) => tracing::error!("an order is too large to send: {e}"),
        }
    }

    /// Tells every node that the controller is about to stop, and gives them a moment to take
    /// that and what was ordered before.
    pub async fn leave(&self) {
        let links: Vec<LinkId> = lock(&self.links).keys().copied().collect();
        for link in links {
            self.order(link, &NodeOrder::Leaving);
        }
        let waits = |line: &NodeLink| line.backlog.bytes.load(Ordering::Relaxed) > 0;
        let taken = async {
            while lock(&self.links).values().any(waits) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, taken).await;
    }

    fn to_link(&self, link: LinkId, message: ToLink) {
        let mut links = lock(&self.links);
        let Some(line) = links.get_mut(&link) else {
            return;
        };
        let bytes = match &message {
            ToLink::Frame(frame, _) if !line.knows(frame) => return,
            ToLink::Frame(frame, _) => frame.len(),
            ToLink::Answer(_) | ToLink::Close => 0,
        };
        let waiting = line.backlog.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let _ = line.sender.send(message);
        if waiting > LINK_BYTES {
            tracing::warn!("a node does not take {waiting} bytes of orders: it is hung up on");
            line.backlog.cut.notify_one();
            links.remove(&link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::OsText;

    #[test]
    fn a_node_that_takes_nothing_is_hung_up_on() {
        let hub = Hub::default();
        let (link, mut orders, backlog) = hub.open_link(Vec::new());
        let order = NodeOrder::RelayReply {
            connection: 1,
            frame: OsText(vec![0; 15 << 20]),
        };
        for _ in 0..17 {
            hub.order(link, &order);
        }
        // It takes some: more may follow.
        for _ in 0..2 {
            let Ok(ToLink::Frame(frame, _)) = orders.try_recv() else {
                panic!("an order");
            };
            backlog.taken(frame.len());
        }
        hub.order(link, &order);
        let mut sent = 16;
        while lock(&hub.links).contains_key(&link) {
            hub.order(link, &order);
            sent += 1;
            assert!(sent < 20);
        }
        assert_eq!(sent, 18);
    }

    #[test]
    fn what_a_node_does_not_know_is_not_sent() {
        let hub = Hub::default();
        let (link, mut orders, _backlog) = hub.open_link(vec!["leaving"]);
        hub.order(link, &NodeOrder::Leaving);
        hub.order(
            link,
            &NodeOrder::Heard {
                number: 7,
                mark: OsText::default(),
            },
        );
        let Ok(ToLink::Frame(frame, _)) = orders.try_recv() else {
            panic!("nothing was sent");
        };
        assert_eq!(words::name_of(&frame[frame::HEADER..]), Some("heard"));
        assert!(orders.try_recv().is_err());
    }
}
