//! Rules at submission: what a request has to pass before it becomes an event.
//!
//! Judged outside of the core, on threads of their own: what came out is in the event, so that
//! nothing that is taken up from the store is ever judged again. Without `[submit]` nothing here
//! is reached.
//!
//! What always holds: one user's requests that change something go on to the core in the order in
//! which they came, also where some of them are judged and others are not; a user whose rules take
//! long holds up nobody else.

mod given;
mod judge;
mod lines;
mod policy;
mod script;
mod worker;

pub use judge::{Judged, Reason, Workers, judge};
pub use lines::UserLines;
pub use policy::{Exempt, Layer, Script, SubmitPolicy, WorkerPolicy};
pub use script::load;

use crate::clients::lock;
use crate::pool::{Bounds, Pool};
use cosy_model::{Refusal, RefusalCode, Uid};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::OwnedMutexGuard;

/// What requests pass on their way to the core.
#[derive(Default)]
pub struct Gate {
    policy: Mutex<Option<Arc<SubmitPolicy>>>,
    lines: UserLines,
    threads: OnceLock<Option<Pool<Workers>>>,
}

impl Gate {
    /// A gate with these rules.
    pub fn new(policy: Option<Arc<SubmitPolicy>>) -> Self {
        Self {
            policy: Mutex::new(policy),
            ..Self::default()
        }
    }

    /// Other rules from now on.
    pub fn replace(&self, policy: Option<Arc<SubmitPolicy>>) {
        *lock(&self.policy) = policy;
    }

    /// Waits until the user's earlier requests are with the core.
    pub async fn enter(&self, uid: Uid) -> OwnedMutexGuard<()> {
        self.lines.enter(uid).await
    }

    /// The rules in force.
    pub fn policy(&self) -> Option<Arc<SubmitPolicy>> {
        lock(&self.policy).clone()
    }

    /// Threads that judge, started with the first request that is judged.
    ///
    /// # Errors
    /// The system gives none.
    pub fn threads(&self) -> Result<&Pool<Workers>, Refusal> {
        let bounds = Bounds {
            threads: 5,
            per_user: 1,
            waiting_per_user: 1024,
            waiting: 4096,
        };
        let start = || {
            let pool = Pool::start("judgements of rules", bounds);
            pool.map_err(|e| tracing::error!("no threads to judge requests: {e}"))
                .ok()
        };
        let none = || {
            let text = "the rules at submission cannot be applied now: try again";
            Refusal::new(RefusalCode::Unavailable, text)
        };
        self.threads.get_or_init(start).as_ref().ok_or_else(none)
    }
}
