//! Where answers and orders go: the connections that are open now, by number.
//!
//! Filled by the tasks that hold the connections, used by the writer thread once a
//! batch is durable. Locks are held for a look-up only.

use cosy_control::{ClientId, LinkAnswer, LinkId};
use cosy_model::api::Reply;
use cosy_model::node::NodeOrder;
use cosy_proto::frame;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// What goes to the task that holds a node daemon's connection.
#[derive(Debug)]
pub enum ToLink {
    /// The answer to its first word.
    Answer(LinkAnswer),
    /// A whole frame.
    Frame(Vec<u8>),
    /// Hang up.
    Close,
}

/// Open connections.
#[derive(Debug, Default)]
pub struct Hub {
    next: AtomicU64,
    clients: Mutex<BTreeMap<ClientId, oneshot::Sender<Reply>>>,
    links: Mutex<BTreeMap<LinkId, mpsc::UnboundedSender<ToLink>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The command has gone.
    pub fn forget(&self, client: ClientId) {
        lock(&self.clients).remove(&client);
    }

    /// Hands an answer over; one that nobody waits for is dropped.
    pub fn answer(&self, client: ClientId, reply: Reply) {
        let sender = lock(&self.clients).remove(&client);
        if let Some(sender) = sender {
            let _ = sender.send(reply);
        }
    }

    /// Hands the same answer to everyone who waits.
    pub fn answer_all(&self, reply: &Reply) {
        for (_, sender) in std::mem::take(&mut *lock(&self.clients)) {
            let _ = sender.send(reply.clone());
        }
    }

    /// A new node connection.
    pub fn open_link(&self) -> (LinkId, mpsc::UnboundedReceiver<ToLink>) {
        let id = LinkId(self.number());
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.links).insert(id, sender);
        (id, receiver)
    }

    /// The connection has ended.
    pub fn close_link(&self, link: LinkId) {
        let sender = lock(&self.links).remove(&link);
        if let Some(sender) = sender {
            let _ = sender.send(ToLink::Close);
        }
    }

    /// Hangs up on every node; they come again.
    pub fn close_all_links(&self) {
        for (_, sender) in std::mem::take(&mut *lock(&self.links)) {
            let _ = sender.send(ToLink::Close);
        }
    }

    /// Answers a node daemon's first word.
    pub fn link_answer(&self, link: LinkId, answer: LinkAnswer) {
        self.to_link(link, ToLink::Answer(answer));
    }

    /// Sends an order.
    pub fn order(&self, link: LinkId, order: &NodeOrder) {
        match frame::encode(order, cosy_model::limits::FRAME_BYTES) {
            Ok(bytes) => self.to_link(link, ToLink::Frame(bytes)),
            Err(e) => tracing::error!("an order is too large to send: {e}"),
        }
    }

    fn to_link(&self, link: LinkId, message: ToLink) {
        if let Some(sender) = lock(&self.links).get(&link) {
            let _ = sender.send(message);
        }
    }
}
