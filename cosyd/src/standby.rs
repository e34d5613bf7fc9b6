//! A controller that stands by: it watches who leads, says so to whoever comes, and takes the lead
//! when it is free.
//!
//! ```text
//!   contender thread: look ──▶ wait │ take ──▶ Took ──▶ (restores) ──▶ gives its store to the writer
//!                       ▲           │             renews meanwhile
//!                       └───────────┘
//! ```
//!
//! What always holds: it changes nothing in the store but who stands by; a process that has led and
//! leads no more begins anew.

use crate::clock;
use crate::config::Durability;
use crate::directory;
use crate::durability;
use crate::follower::{self, Follower};
use crate::store::lead::{Candidate, Lead, Look};
use crate::store::{Location, Store, StoreError};
use cosy_control::Caller;
use cosy_lease::{Contender, Decision};
use cosy_model::api::{ControllerRow, Reply};
use cosy_model::{Gid, Refusal, RefusalCode, Uid};
use cosy_proto::client::RequestFrame;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Between two tries to reach the database.
const PAUSE: Duration = Duration::from_millis(300);
/// How often it says that it is there, and looks which nodes there are.
const SAYS: Duration = Duration::from_secs(1);

/// What those who come to a standby are told.
#[derive(Debug)]
pub struct Standby {
    /// Its own name.
    name: String,
    state: Mutex<State>,
    /// Who knows what the leader has written.
    follower: Option<Follower>,
    /// Asked who a uid is, in place of the system.
    lookup_command: Option<Vec<String>>,
}

#[derive(Debug, Default)]
struct State {
    /// Name and address of the leader.
    leader: Option<(String, String)>,
    /// Keys of nodes.
    keys: BTreeSet<String>,
    /// All controllers, as the database has them.
    controllers: Vec<ControllerRow>,
}

impl Standby {
    /// Knows of nobody yet.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self::named(name))
    }

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::default(),
            follower: None,
            lookup_command: None,
        }
    }

    /// One that answers what it follows, to whom it looks up so.
    pub(crate) fn following(
        name: &str,
        follower: Follower,
        lookup_command: Option<Vec<String>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            follower: Some(follower),
            lookup_command,
            ..Self::named(name)
        })
    }

    /// What a user asks who accepts an answer as of a while ago, and how old that is.
    ///
    /// # Errors
    /// Nothing is known here, or only the leader may answer that.
    pub(crate) async fn answer(
        &self,
        uid: Uid,
        gid: Gid,
        frame: RequestFrame,
    ) -> Result<(Reply, Duration), Refusal> {
        let follower = self.follower.as_ref();
        // Who may ask for others is the leader's to say.
        let own = frame.for_user.is_none_or(|user| user == uid);
        let Some(follower) = follower.filter(|_| own && follower::may_answer(&frame.request))
        else {
            return Err(self.refusal());
        };
        frame.request.check_bounds()?;
        let command = self.lookup_command.clone();
        let looked =
            tokio::task::spawn_blocking(move || directory::look_up(uid, command.as_deref()));
        let looked = tokio::time::timeout(directory::PATIENCE, looked).await;
        // Otherwise only the uid is sure, and the leader says the rest.
        let Ok(Ok(Ok(user))) = looked else {
            return Err(self.refusal());
        };
        let caller = Caller {
            gid,
            as_user: frame.as_user,
            ..Caller::known(user)
        };
        follower.answer(caller, frame.request).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing is changed here.
    pub fn refusal(&self) -> Refusal {
        let text = match &self.state().leader {
            Some((leader, _)) if *leader != self.name => {
                format!("controller {} stands by; {leader} leads", self.name)
            }
            Some(_) | None => format!("controller {} stands by; nobody leads", self.name),
        };
        Refusal::new(RefusalCode::Standby, text)
    }

    /// Where nodes find the leader.
    pub fn leader_address(&self) -> Option<String> {
        let state = self.state();
        state.leader.as_ref().map(|(_, address)| address.clone())
    }

    /// Whether a key is a node's.
    pub fn knows(&self, key: &str) -> bool {
        self.state().keys.contains(key)
    }

    /// All controllers, as the database had them last.
    pub fn controllers(&self) -> Vec<ControllerRow> {
        self.state().controllers.clone()
    }

    fn has_seen(&self, look: &Look) {
        let leader = (!look.holder.is_empty()).then(|| (look.holder.clone(), look.address.clone()));
        let mut state = self.state();
        if state.leader != leader
            && let Some((name, _)) = &leader
            && *name != self.name
        {
            tracing::info!("controller {name} leads, epoch {}", look.row.version.epoch);
        }
        state.leader = leader;
    }
}

/// What the daemon is told by the one who contends.
pub enum Word {
    /// The lead is taken: in which epoch, and where the store is, to be written in that epoch only.
    Took {
        /// The epoch of this lead.
        epoch: u64,
        /// The database, with the fence of that epoch.
        location: Location,
    },
    /// It is lost again before anything was done with it.
    Lost,
}

/// Asks the one who contends, once it has the lead, for the store in whose name it was taken.
pub type Give = SyncSender<Store>;

/// Contends until the lead is taken and its store given away.
pub struct Contest {
    /// Where the database is.
    pub location: Location,
    /// Who contends.
    pub candidate: Candidate,
    /// What the database must promise for the lead to be taken.
    pub durability: Durability,
    /// What others are told meanwhile.
    pub standby: Arc<Standby>,
    /// The way to the daemon.
    pub words: mpsc::UnboundedSender<Word>,
    /// The daemon asks for the store; closed: it ends.
    pub asks: Receiver<Give>,
}

impl Contest {
    /// Works until the store is given away.
    pub fn run(self) {
        let mut contender = Contender::new(self.candidate.me.clone(), self.candidate.times);
        let mut said = String::new();
        loop {
            match self.contend(&mut contender) {
                Ok(Some((store, lead))) => return self.keep(store, lead),
                Ok(None) => return,
                Err(e) => {
                    let text = e.to_string();
                    if said != text {
                        tracing::error!("{text}");
                        said = text;
                    }
                }
            }
            if self.is_over(PAUSE) {
                return;
            }
        }
    }

    /// Whether the daemon ends; waits for so long.
    fn is_over(&self, wait: Duration) -> bool {
        matches!(self.asks.recv_timeout(wait), Err(RecvTimeoutError::Disconnected))
    }

    /// The store and its lead; `None` when the daemon ends.
    fn contend(&self, contender: &mut Contender) -> Result<Option<(Store, Lead)>, StoreError> {
        let mut store = Store::open_at(&self.location)?;
        let mut said: Option<Instant> = None;
        // It is asked anew before the lead is taken: settings change, servers, and releases.
        let promises = |store: &Store| {
            store.is_no_later_one()?;
            let settings = store.settings()?;
            durability::judge(&settings, self.durability).map_err(StoreError::Promise)
        };
        loop {
            let look = store.look()?;
            let now = clock::since_boot();
            self.standby.has_seen(&look);
            if said.is_none_or(|at| at.elapsed() >= SAYS) {
                store.stands_by(&self.candidate)?;
                let (keys, controllers) = (store.keys_of_nodes()?, store.controllers()?);
                let mut state = self.standby.state();
                (state.keys, state.controllers) = (keys, controllers);
                said = Some(Instant::now());
            }
            let lead = match contender.looked(now, &look.row) {
                Decision::Wait { until } => {
                    if self.is_over(until.0.saturating_sub(clock::since_boot().0)) {
                        return Ok(None);
                    }
                    continue;
                }
                Decision::Take { seen } => {
                    promises(&store)?;
                    store.take(&self.candidate, seen)?
                }
                Decision::Mine { epoch } => store.claim_own(&self.candidate, epoch)?,
            };
            if let Some(lead) = lead {
                return Ok(Some((store, lead)));
            }
        }
    }

    /// Keeps the lead until the store is asked for.
    fn keep(self, mut store: Store, lead: Lead) {
        let epoch = lead.leadership.epoch();
        tracing::info!("controller {} takes the lead, epoch {epoch}", self.candidate.me.controller);
        store.set_lead(lead);
        let took = Word::Took {
            epoch: epoch.0,
            location: store.location().clone(),
        };
        let _ = self.words.send(took);
        loop {
            let renew_at = store.lead().map(|lead| lead.leadership.renew_at().0);
            let wait = renew_at
                .unwrap_or_default()
                .saturating_sub(clock::since_boot().0);
            match self.asks.recv_timeout(wait) {
                Ok(give) => return drop(give.send(store)),
                Err(RecvTimeoutError::Disconnected) => return drop(store.release("")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match store.renew() {
                Ok(()) => {}
                Err(e) if e.is_deposed() => return drop(self.words.send(Word::Lost)),
                Err(e) => tracing::error!("the lead cannot be renewed: {e}"),
            }
        }
    }
}
