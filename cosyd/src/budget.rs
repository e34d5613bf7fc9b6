//! What users may hold of the controller at once: connections, bytes of requests under way,
//! bytes of answers that are not taken yet.
//!
//! Each user has a share, all together have no more than there is, and administrators have a
//! reserve beside it that nobody else can use up. Who wants more is told to wait for a while
//! and then refused, with what and how much. What is held is given back when the [`Share`] is
//! dropped, whichever way that comes about.

use cosy_model::api::BudgetRow;
use cosy_model::{Refusal, RefusalCode, Uid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The user for whom something is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requester {
    /// Number of the user as the kernel of the connection's host tells it.
    pub uid: Uid,
    /// An administrator, as far as that is known: may use the reserve.
    pub trusted: bool,
}

/// How much of something there is, for a user and in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// For one user; administrators are not bound to it.
    pub per_user: u64,
    /// For all users but administrators together.
    pub in_all: u64,
    /// For administrators beside that.
    pub reserve: u64,
}

/// Something of which there is a limited amount.
#[derive(Debug)]
pub struct Budget {
    what: &'static str,
    limits: Limits,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    users: BTreeMap<Uid, u64>,
    /// By those who are no administrators.
    ordinary: u64,
    /// What all users hold together.
    all: u64,
    peak: u64,
    refused: u64,
}

/// What is held until it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    who: Requester,
    amount: u64,
}

impl Budget {
    /// A budget of `what`, which is named in refusals: `bytes of requests under way`.
    pub fn new(what: &'static str, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            what,
            limits,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Takes `amount` if it is there now.
    ///
    /// # Errors
    /// A refusal that says what there is too much of, and of whom.
    pub fn try_take(self: &Arc<Self>, who: Requester, amount: u64) -> Result<Share, Refusal> {
        self.add(who, amount)
            .inspect_err(|_| self.state().refused += 1)?;
        Ok(Share {
            budget: self.clone(),
            who,
            amount,
        })
    }

    /// Takes `amount`, waiting up to `patience` for it. What can never be is refused at once.
    ///
    /// # Errors
    /// A refusal that says what there is too much of, and of whom.
    pub async fn take(
        self: &Arc<Self>,
        who: Requester,
        amount: u64,
        patience: Duration,
    ) -> Result<Share, Refusal> {
        let until = tokio::time::Instant::now() + patience;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.fits(who, amount) || amount > self.most(who) {
                return self.try_take(who, amount);
            }
            if tokio::time::timeout_at(until, freed).await.is_err() {
                return self.try_take(who, amount);
            }
        }
    }

    /// How much is in use.
    pub fn row(&self) -> BudgetRow {
        let state = self.state();
        BudgetRow {
            what: self.what.to_owned(),
            used: state.all,
            peak: state.peak,
            per_user: self.limits.per_user,
            in_all: self.limits.in_all,
            refused: state.refused,
        }
    }

    fn most(&self, who: Requester) -> u64 {
        if who.trusted {
            self.limits.in_all + self.limits.reserve
        } else {
            self.limits.per_user.min(self.limits.in_all)
        }
    }

    fn fits(&self, who: Requester, amount: u64) -> bool {
        self.excess(&self.state(), who, amount).is_none()
    }

    fn excess(&self, state: &State, who: Requester, amount: u64) -> Option<Refusal> {
        let Limits {
            per_user,
            in_all,
            reserve,
        } = self.limits;
        let mine = state.users.get(&who.uid).copied().unwrap_or(0);
        let what = self.what;
        let refused = |text: String| Some(Refusal::new(RefusalCode::TooMany, text));
        if !who.trusted && mine.saturating_add(amount) > per_user {
            return refused(format!(
                "user {} has {mine} {what} already, and {amount} more would pass the {per_user} of one user: wait until some are done",
                who.uid
            ));
        }
        let (used, limit) = if who.trusted {
            (state.all, in_all + reserve)
        } else {
            (state.ordinary, in_all)
        };
        if used.saturating_add(amount) > limit {
            return refused(format!(
                "there are {used} {what} already, and {amount} more would pass the {limit} of all users: try again later"
            ));
        }
        None
    }

    fn add(&self, who: Requester, amount: u64) -> Result<(), Refusal> {
        let mut state = self.state();
        if let Some(refusal) = self.excess(&state, who, amount) {
            return Err(refusal);
        }
        *state.users.entry(who.uid).or_default() += amount;
        state.all += amount;
        if !who.trusted {
            state.ordinary += amount;
        }
        state.peak = state.peak.max(state.all);
        Ok(())
    }

    fn give_back(&self, who: Requester, amount: u64) {
        let mut state = self.state();
        state.all = state.all.saturating_sub(amount);
        if !who.trusted {
            state.ordinary = state.ordinary.saturating_sub(amount);
        }
        if let Some(mine) = state.users.get_mut(&who.uid) {
            *mine = mine.saturating_sub(amount);
            if *mine == 0 {
                state.users.remove(&who.uid);
            }
        }
        drop(state);
        self.freed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// How much this share counts.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// Gives back what is held beyond `amount`, or takes what is missing to it.
    ///
    /// # Errors
    /// There is not so much; what was held stays held.
    pub fn resize(&mut self, amount: u64) -> Result<(), Refusal> {
        if amount > self.amount {
            let budget = &self.budget;
            let more = amount - self.amount;
            budget
                .add(self.who, more)
                .inspect_err(|_| budget.state().refused += 1)?;
        } else if amount < self.amount {
            self.budget.give_back(self.who, self.amount - amount);
        }
        self.amount = amount;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.who, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        per_user: 10,
        in_all: 15,
        reserve: 5,
    };

    fn user(uid: u32) -> Requester {
        Requester {
            uid: Uid(uid),
            trusted: uid == 0,
        }
    }

    #[test]
    fn shares_and_the_reserve() {
        let budget = Budget::new("apples", LIMITS);
        let mut ann = budget.try_take(user(1), 10).unwrap();
        let refused = budget.try_take(user(1), 1).unwrap_err().message;
        assert!(refused.contains("user 1 has 10 apples"), "{refused}");
        let _bob = budget.try_take(user(2), 5).unwrap();
        let refused = budget.try_take(user(3), 1).unwrap_err().message;
        assert!(refused.contains("15 of all users"), "{refused}");
        // Nobody else can use up what administrators have.
        let root = budget.try_take(user(0), 5).unwrap();
        assert!(budget.try_take(user(0), 1).is_err());
        assert!(budget.try_take(user(3), 1).is_err());
        drop(root);
        assert!(ann.resize(11).is_err());
        ann.resize(4).unwrap();
        let cat = budget.try_take(user(3), 6).unwrap();
        drop((ann, cat));
        let row = budget.row();
        assert_eq!((row.used, row.peak, row.refused), (5, 20, 5));
    }

    #[tokio::test]
    async fn who_waits_gets_it() {
        let budget = Budget::new("apples", LIMITS);
        let ann = budget.try_take(user(1), 8).unwrap();
        let waiting = budget.take(user(1), 8, Duration::from_secs(60));
        let (got, ()) = tokio::join!(waiting, async { drop(ann) });
        assert_eq!(got.unwrap().amount(), 8);
        // What can never be is not waited for.
        assert!(
            budget
                .take(user(1), 11, Duration::from_secs(3600))
                .await
                .is_err()
        );
    }
}
