//! How the database of a leader stands, as far as users and administrators should know: whether it
//! answers, whether it keeps what is asked of it, whether it is the one that nodes remember.
//!
//! The writer says when it waits; a thread with a connection of its own reads the rest, so that nothing
//! here holds up the work. What is told stands in the log and in the status of the service; what the
//! database keeps, in the events too; that it does not answer, in the answers to pings.

use crate::config::Durability;
use crate::durability::weakness;
use crate::end::End;
use crate::engine::Input;
use crate::store::lead::Look;
use crate::store::{Location, Settings, Store, StoreError};
use cosy_control::Event;
use cosy_model::{Refusal, RefusalCode};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A database that does not answer for so long is told of.
const SILENT: Duration = Duration::from_secs(5);
/// Between two looks whether it does.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks at its settings: they change, and so do servers.
pub(crate) const SETTINGS: Duration = Duration::from_secs(5);

/// Most words of nodes about later epochs that the log has: then the matter is known.
const SAID: usize = 10_000;

/// How the database stands.
#[derive(Debug, Default)]
pub struct Standing {
    state: Mutex<State>,
    /// A node knows of a later epoch: the row of the leader is to be looked at.
    doubted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Status of the service while all is well.
    usual: String,
    /// Since when the writer waits; told of where several controllers share a server.
    waits_since: Option<Instant>,
    said_silent: bool,
    /// Why it keeps less than it should.
    weak: Option<String>,
    /// Nodes and the epochs that they know of, as the log has them.
    said_epochs: BTreeSet<(String, u64)>,
    /// The highest epoch that a node knows of, until the row has been looked at.
    doubt: Option<u64>,
    /// How often the settings were read.
    seen: u64,
}

/// What the thread that looks needs.
pub(crate) struct Watch {
    pub location: Location,
    pub durability: Durability,
    pub epoch: u64,
    /// Between two looks at the settings.
    pub every: Duration,
    pub core: mpsc::Sender<Input>,
    pub end: mpsc::Sender<End>,
}

impl Standing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer waits for the database from now on, if it does not yet.
    pub fn waits(&self) {
        self.state().waits_since.get_or_insert_with(Instant::now);
    }

    /// It has been answered.
    pub fn answered(&self) {
        self.state().waits_since = None;
    }

    /// What those are told who ask while the database does not answer.
    pub fn silence(&self) -> Option<Refusal> {
        let waited = self.state().waits_since?.elapsed();
        let text = format!(
            "the database has not answered for {} s; nothing is acknowledged",
            waited.as_secs()
        );
        (waited >= SILENT).then(|| Refusal::new(RefusalCode::Unavailable, text))
    }

    /// A node that belongs to the cluster knows of a later epoch than this controller's.
    pub fn knows_later(&self, who: &str, known: u64, own: u64) {
        let mut state = self.state();
        if state.said_epochs.len() >= SAID || !state.said_epochs.insert((who.to_owned(), known)) {
            return;
        }
        match own {
            0 => tracing::error!(
                "{who} has obeyed a controller of epoch {known}, and this one has none, as its state is in a file: the node refuses it; {AFTERWARDS}"
            ),
            own => tracing::error!(
                "{who} has obeyed a controller of epoch {known}, and this one leads in epoch {own}: the node refuses it"
            ),
        }
        state.doubt = state.doubt.max(Some(known));
        self.doubted.notify_all();
    }

    /// Says what has changed; gives whether anything has.
    fn look(&self) -> bool {
        let silence = self.silence();
        let mut state = self.state();
        if state.said_silent == silence.is_some() {
            return false;
        }
        state.said_silent = silence.is_some();
        match &silence {
            Some(silence) => tracing::error!("{silence}"),
            None => tracing::info!("the database answers again"),
        }
        state.tell(silence.as_ref());
        true
    }

    /// The settings were read; gives what is new of them.
    fn judged(&self, weak: Option<String>) -> Option<Event> {
        let silence = self.silence();
        let mut state = self.state();
        state.seen += 1;
        if state.weak == weak {
            return None;
        }
        match &weak {
            Some(why) => tracing::error!("{why}"),
            None => tracing::info!("the database keeps again what is asked of it"),
        }
        state.weak.clone_from(&weak);
        state.tell(silence.as_ref());
        Some(Event::StoreJudged { weak })
    }

    /// Starts the threads that look.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(self: &Arc<Self>, usual: &str, watch: Watch) -> std::io::Result<()> {
        usual.clone_into(&mut self.state().usual);
        let own = self.clone();
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("silence").spawn(move || {
            loop {
                own.look();
                std::thread::sleep(LOOK);
            }
        })?;
        let own = self.clone();
        thread("settings").spawn(move || watch.run(&own))?;
        Ok(())
    }

    /// The epoch that a node knows of, when one does within so long.
    fn wait_for_doubt(&self, wait: Duration) -> Option<u64> {
        let calm = |state: &mut State| state.doubt.is_none();
        let waited = self
            .doubted
            .wait_timeout_while(self.state(), wait, calm)
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = waited.0;
        state.doubt.take()
    }
}

/// What to do where epochs have begun anew.
const AFTERWARDS: &str = "if that is meant to be so, stop noded there, remove its file 'epoch' (noded(8)) and start it again";

impl State {
    /// The status of the service.
    fn tell(&self, silence: Option<&Refusal>) {
        let silence = silence.map(|silence| silence.message.as_str());
        let parts = [Some(self.usual.as_str()), silence, self.weak.as_deref()];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Status(&text)]);
    }
}

impl Watch {
    /// Looks as long as the process lives.
    fn run(self, standing: &Standing) {
        let mut store = None;
        let mut best: Option<Settings> = None;
        let mut doubt = None;
        loop {
            let seen = self.read(&mut store, doubt);
            match seen {
                // It is tried again; that it does not answer the writer is told.
                Err(e) => {
                    tracing::debug!("the settings of the database cannot be read: {e}");
                    store = None;
                }
                Ok((settings, look)) => {
                    let best = best.get_or_insert_with(|| settings.clone());
                    let weak = weakness(&settings, self.durability, best);
                    best.take_better(&settings);
                    if let Some(event) = standing.judged(weak) {
                        let _ = self.core.blocking_send(Input::Event(Box::new(event)));
                    }
                    if let (Some(known), Some(look)) = (doubt.take(), look) {
                        self.resolve(known, &look);
                    }
                }
            }
            let wait = if store.is_none() { LOOK } else { self.every };
            doubt = standing.wait_for_doubt(wait).max(doubt);
        }
    }

    /// The settings, and the leader's row where that is doubted.
    fn read(
        &self,
        store: &mut Option<Store>,
        doubt: Option<u64>,
    ) -> Result<(Settings, Option<Look>), StoreError> {
        let store = match store {
            Some(store) => store,
            none => none.insert(Store::open_at(&self.location)?),
        };
        let look = doubt.map(|_| store.look()).transpose()?;
        Ok((store.settings()?, look))
    }

    /// A node knows of that epoch, and so looks the row.
    fn resolve(&self, known: u64, look: &Look) {
        let row = look.row.version.epoch.0;
        if row > self.epoch {
            tracing::warn!("controller {} leads, epoch {row}: this one begins anew", look.holder);
            let _ = self.end.blocking_send(End::Deposed);
        } else {
            tracing::error!(
                "the database says that this controller leads, in epoch {row}, and nodes know of epoch {known}: it is an older copy, or was begun anew. Nodes obey nobody below the epoch that they know of: put the right database in place; {AFTERWARDS}"
            );
        }
    }
}

#[cfg(test)]
mod tests;
