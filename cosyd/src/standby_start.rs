//! The start of one of several controllers: it stands by until the lead is its own, takes up what is in
//! the database, and begins to answer.

use crate::config::{ControllerEntry, StoreServer};
use crate::durability;
use crate::follower::Follower;
use crate::recovery::{self, Recovered};
use crate::serving::{Come, Doors, House, Running, Signals, Taken, tell_ready, work};
use crate::standby::{Contest, Standby, Word};
use crate::store::lead::Candidate;
use crate::store::{Location, Store};
use anyhow::{Context, bail};
use cosy_lease::{Identity, LeaseTimes};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Longest time between two looks at who leads.
const LOOK: Duration = Duration::from_millis(50);
/// How long the store may take to be given away.
const GIVE: Duration = Duration::from_secs(30);

/// Another controller took the lead before this one had taken up what is in the database.
#[derive(Debug, thiserror::Error)]
#[error("the lead was lost before it was taken up")]
pub(crate) struct LeadLost;

/// Stands by, then leads; `None`: it was told to stop while it stood by.
pub(crate) async fn start(
    house: House,
    server: &StoreServer,
    signals: &mut Signals,
) -> anyhow::Result<Option<Running>> {
    tracing::info!("the state is in {}", server.place);
    let own = own_entry(&house);
    durability::check(house.config.daemon.database(), server.durability).await?;
    let daemon = &house.config.daemon;
    let follower = Follower::start(daemon.database(), house.config.cluster.clone())?;
    let standby = Standby::following(&own.name, follower.clone(), daemon.lookup_command.clone());
    let doors = Doors::open(&house, &standby).await?;
    let (words, mut heard) = mpsc::unbounded_channel();
    let (asks, asked) = channel();
    let contest = Contest {
        location: house.config.daemon.database(),
        candidate: Candidate {
            me: Identity {
                controller: own.name.clone(),
                run: cosy_proto::keys::random_hex(16).context("no randomness")?,
            },
            address: own.address.clone(),
            times: times(server.lease),
        },
        durability: server.durability,
        standby,
        words,
        asks: asked,
    };
    std::thread::Builder::new()
        .name("contender".into())
        .spawn(move || contest.run())?;
    tell_ready(&house.options)?;
    status(&format!("controller {} stands by", own.name));
    let word = loop {
        tokio::select! {
            word = heard.recv() => break word,
            come = signals.next() => match come {
                Come::Stop => return Ok(None),
                Come::Reload => tracing::info!("the configuration is read again when this controller leads"),
            },
        }
    };
    let Some(Word::Took { epoch, location }) = word else {
        bail!(LeadLost);
    };
    status(&format!("controller {} takes up the store, epoch {epoch}", own.name));
    let (house, recovered) = recover(house, location.clone(), (follower, epoch)).await?;
    let store = give(asks).await?;
    let taken = Taken {
        store,
        location,
        recovered,
        name: own.name.clone(),
        epoch,
    };
    let running = work(house, taken, &doors)?;
    status(&format!("controller {} leads, epoch {epoch}", own.name));
    Ok(Some(running))
}

/// The lead is looked at often enough that who takes it over in order is there at once.
fn times(lease: Duration) -> LeaseTimes {
    let times = LeaseTimes::of(lease);
    LeaseTimes {
        poll: times.poll.min(LOOK),
        ..times
    }
}

/// This controller among those of the configuration; it is the only one where none are named.
fn own_entry(house: &House) -> ControllerEntry {
    let daemon = &house.config.daemon;
    let only = || ControllerEntry {
        name: house.config.cluster.host.clone(),
        address: daemon.listen.clone(),
    };
    daemon.own_entry().cloned().unwrap_or_else(only)
}

fn status(text: &str) {
    tracing::info!("{text}");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Status(text)]);
}

/// Loads on a thread of its own: the lead is renewed and nodes and commands are met meanwhile.
async fn recover(
    mut house: House,
    location: Location,
    (follower, epoch): (Follower, u64),
) -> anyhow::Result<(House, Recovered)> {
    let (done, wait) = oneshot::channel();
    std::thread::Builder::new()
        .name("take up".into())
        .stack_size(4 << 20)
        .spawn(move || {
            let recovered = Store::open_at(&location).map_err(anyhow::Error::from);
            let recovered = recovered.and_then(|mut store| {
                let note = (&house.hand, house.death.take());
                let ahead = || follower.end().and_then(|warm| warm.load(epoch));
                recovery::with_threads(&mut store, &house.config.cluster, note, ahead)
            });
            let _ = done.send(recovered.map(|recovered| (house, recovered)));
        })?;
    wait.await
        .context("what was loading the store has failed")?
}

/// The store in whose name the lead was taken.
async fn give(asks: Sender<crate::standby::Give>) -> anyhow::Result<Store> {
    let (give, given) = sync_channel(1);
    asks.send(give).map_err(|_| LeadLost)?;
    let store = tokio::task::spawn_blocking(move || given.recv_timeout(GIVE)).await?;
    Ok(store.map_err(|_| LeadLost)?)
}
