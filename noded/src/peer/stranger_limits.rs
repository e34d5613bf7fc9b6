//! Who stands at the port and has proved nothing yet: connections in their handshake, and
//! those whose first ask has not come or was not answered.
//!
//! Nobody is kept out by others who only stand there: where there is no room, the one that
//! has stood there longest goes, of the address that has the most of what is short. An
//! honest daemon is through in milliseconds. Knows nothing of TLS and tickets.

use cosy_model::limits;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What there is room for.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Connections at one time.
    pub all: usize,
    /// Connections of one address.
    pub of_address: usize,
    /// Bytes of asks that have arrived.
    pub bytes: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            all: limits::UNPROVEN_PEERS,
            of_address: limits::UNPROVEN_PEERS_OF_ADDRESS,
            bytes: limits::UNPROVEN_PEER_BYTES,
        }
    }
}

#[derive(Debug)]
struct Stranger {
    address: IpAddr,
    bytes: usize,
    /// Dropped when it has to go.
    _stay: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// The one that came first has the lowest number.
    entries: BTreeMap<u64, Stranger>,
}

/// The door. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct StrangerLimits {
    room: Capacity,
    table: Arc<Mutex<Table>>,
}

/// A connection's place at the door, given back when it is dropped.
#[derive(Debug)]
pub struct StrangerPlace {
    strangers: StrangerLimits,
    number: u64,
}

/// Tells a connection at the door that others need its place.
#[derive(Debug)]
pub struct Eviction(oneshot::Receiver<()>);

impl Eviction {
    /// Comes when it has to go.
    pub async fn come(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl StrangerLimits {
    /// A door with that much room.
    pub fn new(room: Capacity) -> Self {
        Self {
            room,
            table: Arc::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has come from that address.
    pub fn enter(&self, address: IpAddr) -> (StrangerPlace, Eviction) {
        let address = network_of(address);
        let (stay, sent_away) = oneshot::channel();
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        let entry = Stranger {
            address,
            bytes: 0,
            _stay: stay,
        };
        table.entries.insert(number, entry);
        if table.count(address) > self.room.of_address {
            table.send_away(|entry| entry.address == address);
        }
        if table.entries.len() > self.room.all {
            let crowded = table.largest(|_| 1);
            table.send_away(|entry| Some(entry.address) == crowded);
        }
        drop(table);
        let strangers = self.clone();
        (StrangerPlace { strangers, number }, Eviction(sent_away))
    }

    /// Number of strangers that have a place.
    pub fn len(&self) -> usize {
        self.table().entries.len()
    }

    /// True when nobody stands there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    fn count(&self, address: IpAddr) -> usize {
        let all = self.entries.values();
        all.filter(|entry| entry.address == address).count()
    }

    /// The address with the most in all; of equal ones that of the latest newcomer.
    fn largest(&self, size: impl Fn(&Stranger) -> usize) -> Option<IpAddr> {
        let mut sums: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for entry in self.entries.values() {
            *sums.entry(entry.address).or_default() += size(entry);
        }
        let most = sums.into_iter().max_by_key(|(_, sum)| *sum);
        most.map(|(address, _)| address)
    }

    /// The first of those goes.
    fn send_away(&mut self, which: impl Fn(&Stranger) -> bool) {
        let first = self.entries.iter().find(|(_, entry)| which(entry));
        if let Some(number) = first.map(|(number, _)| *number) {
            self.entries.remove(&number);
        }
    }
}

impl StrangerPlace {
    /// Notes that more bytes of the stranger's ask have arrived.
    pub fn grow(&self, bytes: usize) {
        let mut table = self.strangers.table();
        if let Some(entry) = table.entries.get_mut(&self.number) {
            entry.bytes += bytes;
        }
        let sum = |table: &Table| table.entries.values().map(|e| e.bytes).sum::<usize>();
        while sum(&table) > self.strangers.room.bytes {
            let full = table.largest(|entry| entry.bytes);
            table.send_away(|entry| Some(entry.address) == full && entry.bytes > 0);
        }
    }
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        self.strangers.table().entries.remove(&self.number);
    }
}

/// What one host can take any address of: of IPv6 the network of 64 bits.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type StrangerPlace = (super::StrangerPlace, Eviction);

    fn is_away(standing: &mut StrangerPlace) -> bool {
        standing.1.0.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn at(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    const ROOM: Capacity = Capacity {
        all: 6,
        of_address: 4,
        bytes: 1000,
    };

    #[test]
    fn newcomers_always_get_in() {
        let strangers = StrangerLimits::new(ROOM);
        let mut silent: Vec<StrangerPlace> = (0..4).map(|_| strangers.enter(at(1))).collect();
        // One more of the same address: its first goes.
        silent.push(strangers.enter(at(1)));
        let away: Vec<bool> = silent.iter_mut().map(is_away).collect();
        assert_eq!(away, [true, false, false, false, false]);
        // Others: the first of the address that has the most.
        let mut others: Vec<StrangerPlace> = (2..6).map(|host| strangers.enter(at(host))).collect();
        let away: Vec<bool> = silent.iter_mut().map(is_away).collect();
        assert_eq!(away, [true, true, true, false, false]);
        assert!(!others.iter_mut().any(is_away));
        assert_eq!(strangers.len(), 6);
        drop((silent, others));
        assert!(strangers.is_empty(), "places are given back");
    }

    #[test]
    fn whoever_holds_most_bytes_goes_first() {
        let strangers = StrangerLimits::new(ROOM);
        let (mut small, mut stalls) = (strangers.enter(at(1)), strangers.enter(at(2)));
        small.0.grow(300);
        stalls.0.grow(600);
        let mut honest = strangers.enter(at(1));
        honest.0.grow(200);
        assert!(is_away(&mut stalls) && !is_away(&mut small) && !is_away(&mut honest));
        honest.0.grow(700);
        assert!(is_away(&mut small) && !is_away(&mut honest));
        honest.0.grow(200);
        assert!(is_away(&mut honest), "more than there is for all");
    }

    #[test]
    fn addresses_of_one_host_are_one() {
        let check = |left: &str, right: &str, same: bool| {
            let [left, right] = [left, right].map(|text| network_of(text.parse().unwrap()));
            assert_eq!(left == right, same, "{left} {right}");
        };
        check("10.0.0.1", "::ffff:10.0.0.1", true);
        check("10.0.0.1", "10.0.0.2", false);
        check("fd00::1", "fd00::ffff:1:2", true);
        check("fd00::1", "fd00:0:0:1::1", false);
    }
}
