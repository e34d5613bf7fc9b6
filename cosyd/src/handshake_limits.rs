//! Who has connected over the network and not proved yet that it belongs to the cluster.
//!
//! Such connections are few and short. Where there are too many, the oldest has to go for the
//! new one once it has had its time: a node that is there shakes hands within moments, a
//! stranger that only sits there does not keep it away. One address has only some of the
//! places. Of the holders of one key only the latest links stay.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Places for those who have proved nothing.
const PENDING: usize = 256;
/// Places of one address among them.
const PENDING_OF_ADDRESS: usize = 64;
/// How long a place is safe while others wait for one.
const SAFE: Duration = Duration::from_secs(1);
/// Links of one key: the present one, and former ones that have not been noticed to be dead.
const LINKS_OF_KEY: usize = 8;

/// Places for connections that have not said yet who they are, and for links by their key.
#[derive(Debug, Default)]
pub struct HandshakeLimits {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By number, so the oldest first.
    pending: BTreeMap<u64, Pending>,
    links: BTreeMap<String, BTreeMap<u64, Arc<Notify>>>,
}

#[derive(Debug)]
struct Pending {
    address: IpAddr,
    since: Instant,
    cut: Arc<Notify>,
}

/// Why there is no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoPlace {
    /// All are taken by others that came just now: wait.
    All,
    /// This address has all of its own: it is to be dropped.
    Address,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    handshakes: Arc<HandshakeLimits>,
    number: u64,
    /// The key that it has proved, once it is no stranger any more.
    key: Option<String>,
    cut: Arc<Notify>,
}

impl HandshakeLimits {
    /// A place for a new connection.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn enter(self: &Arc<Self>, address: IpAddr, now: Instant) -> Result<Place, NoPlace> {
        let mut state = self.state();
        let of_address = |p: &&Pending| p.address == address;
        if state.pending.values().filter(of_address).count() >= PENDING_OF_ADDRESS {
            let same = |p: &Pending| p.address == address;
            state.make_room(now, same).ok_or(NoPlace::Address)?;
        }
        if state.pending.len() >= PENDING {
            state.make_room(now, |_| true).ok_or(NoPlace::All)?;
        }
        let number = state.next;
        state.next += 1;
        let cut = Arc::new(Notify::new());
        let pending = Pending {
            address,
            since: now,
            cut: cut.clone(),
        };
        state.pending.insert(number, pending);
        Ok(Place {
            handshakes: self.clone(),
            number,
            key: None,
            cut,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Sends the oldest away that is meant, if it has had its time.
    fn make_room(&mut self, now: Instant, meant: impl Fn(&Pending) -> bool) -> Option<()> {
        let (number, oldest) = self.pending.iter().find(|(_, p)| meant(p))?;
        if now.saturating_duration_since(oldest.since) < SAFE {
            return None;
        }
        let number = *number;
        self.pending.remove(&number)?.cut.notify_one();
        Some(())
    }
}

impl Place {
    /// It belongs to the cluster and holds that key: the place is free for others. Where the
    /// key has too many links already, the oldest has to go.
    pub fn known(&mut self, key: &str) {
        let mut state = self.handshakes.state();
        state.pending.remove(&self.number);
        let links = state.links.entry(key.to_owned()).or_default();
        links.insert(self.number, self.cut.clone());
        if links.len() > LINKS_OF_KEY
            && let Some((_, cut)) = links.pop_first()
        {
            cut.notify_one();
        }
        drop(state);
        self.key = Some(key.to_owned());
    }

    /// Returns when it has to go.
    pub async fn cut(&self) {
        self.cut.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.handshakes.state();
        state.pending.remove(&self.number);
        let Some(key) = &self.key else { return };
        if let Some(links) = state.links.get_mut(key) {
            links.remove(&self.number);
            if links.is_empty() {
                state.links.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    /// Whether it is to go.
    fn is_cut(place: &Place) -> bool {
        let mut cut = std::pin::pin!(place.cut());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        cut.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn strangers_that_only_sit_there_make_room() {
        let handshakes = Arc::new(HandshakeLimits::default());
        let start = Instant::now();
        let mut held = Vec::new();
        for n in 0..PENDING {
            held.push(handshakes.enter(address((n / 50) as u8), start).unwrap());
        }
        // They have come just now: who comes next waits.
        assert_eq!(handshakes.enter(address(200), start).unwrap_err(), NoPlace::All);
        let later = start + SAFE;
        let node = handshakes.enter(address(200), later).unwrap();
        assert!(is_cut(&held[0]) && !is_cut(&held[1]) && !is_cut(&node));
        drop(held);
        assert_eq!(handshakes.state().pending.len(), 1);
        drop(node);
        assert!(handshakes.state().pending.is_empty());
    }

    #[test]
    fn one_address_has_only_some_of_the_places() {
        let handshakes = Arc::new(HandshakeLimits::default());
        let start = Instant::now();
        let mut held = Vec::new();
        for _ in 0..PENDING_OF_ADDRESS {
            held.push(handshakes.enter(address(1), start).unwrap());
        }
        assert_eq!(handshakes.enter(address(1), start).unwrap_err(), NoPlace::Address);
        let other = handshakes.enter(address(2), start).unwrap();
        let next = handshakes.enter(address(1), start + SAFE).unwrap();
        assert!(is_cut(&held[0]) && !is_cut(&other) && !is_cut(&next));
    }

    #[test]
    fn the_latest_links_of_a_key_stay() {
        let handshakes = Arc::new(HandshakeLimits::default());
        let now = Instant::now();
        let link = |key: &str| {
            let mut place = handshakes.enter(address(1), now).unwrap();
            place.known(key);
            place
        };
        let other = link("other");
        let links: Vec<Place> = (0..=LINKS_OF_KEY).map(|_| link("key")).collect();
        assert!(handshakes.state().pending.is_empty());
        assert!(is_cut(&links[0]) && !is_cut(&links[1]) && !is_cut(&other));
        drop((links, other));
        assert!(handshakes.state().links.is_empty());
    }
}
