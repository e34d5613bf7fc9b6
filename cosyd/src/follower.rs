//! Follows the leader's store while this controller stands by, on a thread and a connection of its own.

use crate::store::followed::Followed;
use crate::store::{Location, Store, StoreError};
use cosy_control::Loaded;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Least time between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// A pause is so many times as long as the look before it: following costs the server little.
const REST: u32 = 20;
/// Longest pause: after a longer one a takeover has more to read.
const LONGEST: Duration = Duration::from_secs(60);
/// Between two tries to reach the database.
const AGAIN: Duration = Duration::from_secs(1);
/// Whoever takes the lead waits so long for a look that is under way; what has not answered by then
/// hangs on a server that is gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way to the thread.
pub(crate) struct Follower {
    asks: Sender<SyncSender<Warm>>,
}

/// What was followed, and the connection over which it was read.
pub(crate) struct Warm {
    store: Store,
    followed: Followed,
}

impl Follower {
    /// # Errors
    /// The system gives no thread.
    pub fn start(location: Location) -> std::io::Result<Self> {
        let (asks, asked) = channel();
        std::thread::Builder::new()
            .name("follower".into())
            .spawn(move || follow(&location, &asked))?;
        Ok(Self { asks })
    }

    /// Ends the following; `None` where nothing has been read, or the server does not answer.
    pub fn end(self) -> Option<Warm> {
        let (give, given) = sync_channel(1);
        self.asks.send(give).ok()?;
        given.recv_timeout(PATIENCE).ok()
    }
}

impl Warm {
    /// Everything that lives in the database of that epoch; `None` where it must be read anew.
    pub fn load(self, epoch: u64) -> Option<Loaded> {
        let (known, begun) = (self.followed.submissions(), Instant::now());
        match self.store.load_followed(self.followed, epoch) {
            Ok(Some(loaded)) => {
                let took = begun.elapsed();
                tracing::info!(
                    "{known} submissions were known ahead; what has changed was read in {took:.2?}"
                );
                Some(loaded)
            }
            Ok(None) => None,
            Err(e) => {
                tracing::info!("the store is read anew: {e}");
                None
            }
        }
    }
}

fn follow(location: &Location, asked: &Receiver<SyncSender<Warm>>) {
    loop {
        match keep_up(location, asked) {
            Ok(()) => return,
            Err(e) => tracing::debug!("the leader's store cannot be followed: {e}"),
        }
        // Nothing is there to be given: whoever asks now sees the way closed.
        if !matches!(asked.recv_timeout(AGAIN), Err(RecvTimeoutError::Timeout)) {
            return;
        }
    }
}

/// Looks again and again, until somebody asks for what was read.
fn keep_up(location: &Location, asked: &Receiver<SyncSender<Warm>>) -> Result<(), StoreError> {
    let store = Store::open_reader(location)?;
    let mut followed = Followed::default();
    loop {
        let begun = Instant::now();
        store.follow(&mut followed)?;
        let took = begun.elapsed();
        tracing::debug!("{} live submissions are known after {took:.0?}", followed.submissions());
        match asked.recv_timeout((took * REST).clamp(PAUSE, LONGEST)) {
            Ok(give) => {
                // Who has not waited for it reads the store anew.
                let _ = give.send(Warm { store, followed });
                return Ok(());
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
