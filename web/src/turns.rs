//! Turns of users: of each so many at once, and of all together, so that nobody who asks much or reads
//! slowly has all.

use crate::limits::TURN;
use cosy_model::Uid;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A turn, given back when it is dropped: one of the user's, and one of all.
pub type Turn = [OwnedSemaphorePermit; 2];

/// Of whom no turn is under way is forgotten where there are more users.
const USERS: usize = 1000;

/// Turns for one kind of work; `None` is this program itself.
#[derive(Debug)]
pub struct Turns {
    all: Arc<Semaphore>,
    users: Mutex<HashMap<Option<Uid>, Arc<Semaphore>>>,
    of_user: usize,
}

impl Turns {
    /// So many of each user, whatever that comes to.
    pub fn of_each(user: usize) -> Self {
        Self::new(Semaphore::MAX_PERMITS, user)
    }

    /// So many of everybody together, and of each user.
    pub fn new(all: usize, of_user: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            users: Mutex::default(),
            of_user,
        }
    }

    /// Waits for a turn; nothing when that takes longer than [`TURN`].
    pub async fn take(&self, user: Option<Uid>) -> Option<Turn> {
        let own = self.of(user);
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            Some([own, self.all.clone().acquire_owned().await.ok()?])
        };
        tokio::time::timeout(TURN, both).await.ok().flatten()
    }

    /// A turn without waiting for it.
    pub fn try_take(&self, user: Option<Uid>) -> Option<Turn> {
        let own = self.of(user).try_acquire_owned().ok()?;
        Some([own, self.all.clone().try_acquire_owned().ok()?])
    }

    fn of(&self, user: Option<Uid>) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() > USERS {
            users.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.of_user));
        users.entry(user).or_insert_with(new).clone()
    }
}
