//! Threads for work that may block, each kind with threads of its own: history, look-ups for
//! submissions, the directory, mail. One kind never waits for another.
//!
//! Users have their turns one after the other, whatever each of them has waiting; of one user
//! only so much runs and waits at once. One thread is kept for administrators.

use crate::budget::Requester;
use cosy_model::{Refusal, RefusalCode, Uid};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// How much of a kind there is at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Threads; with more than one of them the last is for administrators only.
    pub threads: usize,
    /// Works of one user that run at once.
    pub per_user: usize,
    /// Works of one user that wait.
    pub waiting_per_user: usize,
    /// Works of all users that wait.
    pub waiting: usize,
}

/// A work, given what its thread keeps between works.
type Task<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Threads of one kind.
pub struct Pool<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    what: &'static str,
    bounds: Bounds,
    state: Mutex<State<S>>,
    wake: Condvar,
}

struct State<S> {
    lines: BTreeMap<Uid, UserQueue<S>>,
    /// Users with works that wait, the one whose turn it is first.
    turns: VecDeque<Uid>,
    waiting: usize,
    /// Works that run for those who are no administrators.
    ordinary: usize,
    stop: bool,
}

struct UserQueue<S> {
    waiting: VecDeque<(Requester, Task<S>)>,
    running: usize,
}

impl<S> Default for UserQueue<S> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            running: 0,
        }
    }
}

impl<S: Default + 'static> Pool<S> {
    /// Starts the threads; `what` names the kind in refusals: `reads of history`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(what: &'static str, bounds: Bounds) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            what,
            bounds,
            state: Mutex::new(State {
                lines: BTreeMap::new(),
                turns: VecDeque::new(),
                waiting: 0,
                ordinary: 0,
                stop: false,
            }),
            wake: Condvar::new(),
        });
        for _ in 0..bounds.threads {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(what.chars().take(15).collect())
                .stack_size(2 << 20)
                .spawn(move || shared.serve())?;
        }
        Ok(Self { shared })
    }

    /// Puts a work into the user's line.
    ///
    /// # Errors
    /// Too many wait already.
    pub fn submit(
        &self,
        who: Requester,
        work: impl FnOnce(&mut S) + Send + 'static,
    ) -> Result<(), Refusal> {
        let shared = &self.shared;
        let mut state = shared.state();
        let mine = state
            .lines
            .get(&who.uid)
            .map_or(0, |line| line.waiting.len());
        let refused = |text: String| Err(Refusal::new(RefusalCode::TooMany, text));
        if mine >= shared.bounds.waiting_per_user && !who.trusted {
            return refused(format!(
                "user {} has {mine} {} waiting already: wait until some are done",
                who.uid, shared.what
            ));
        }
        if state.waiting >= shared.bounds.waiting {
            let waiting = state.waiting;
            return refused(format!("{waiting} {} wait already: try again later", shared.what));
        }
        state.waiting += 1;
        if mine == 0 {
            state.turns.push_back(who.uid);
        }
        let line = state.lines.entry(who.uid).or_default();
        line.waiting.push_back((who, Box::new(work)));
        drop(state);
        shared.wake.notify_all();
        Ok(())
    }

    /// Has a work done and waits for what comes of it. When nobody waits any more it is not
    /// begun.
    ///
    /// # Errors
    /// Too many wait already, or the work has failed.
    pub async fn run<T: Send + 'static>(
        &self,
        who: Requester,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, receiver) = oneshot::channel();
        self.submit(who, move |kept| {
            if !sender.is_closed() {
                let _ = sender.send(work(kept));
            }
        })?;
        receiver.await.map_err(|_| {
            let what = self.shared.what;
            Refusal::new(RefusalCode::Unavailable, format!("one of the {what} has failed"))
        })
    }
}

impl<S> Drop for Pool<S> {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.wake.notify_all();
    }
}

impl<S> Shared<S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Default> Shared<S> {
    fn serve(&self) {
        let mut kept = S::default();
        while let Some((who, work)) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| work(&mut kept))).is_err() {
                tracing::error!("one of the {} has failed", self.what);
                kept = S::default();
            }
            self.done(who);
        }
    }

    /// Waits for a work; `None` when there are to be no more.
    fn next(&self) -> Option<(Requester, Task<S>)> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            if let Some(found) = self.pick(&mut state) {
                return Some(found);
            }
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pick(&self, state: &mut State<S>) -> Option<(Requester, Task<S>)> {
        let Bounds {
            threads, per_user, ..
        } = self.bounds;
        let free = state.ordinary < threads.saturating_sub(1).max(1);
        let may = |line: &UserQueue<S>| {
            let trusted = line.waiting.front().is_some_and(|(who, _)| who.trusted);
            trusted || (free && line.running < per_user)
        };
        let lines = &state.lines;
        let at = state
            .turns
            .iter()
            .position(|uid| lines.get(uid).is_some_and(may))?;
        let uid = state.turns.remove(at)?;
        let line = state.lines.get_mut(&uid)?;
        let found = line.waiting.pop_front()?;
        line.running += 1;
        if !line.waiting.is_empty() {
            state.turns.push_back(uid);
        }
        state.waiting -= 1;
        state.ordinary += usize::from(!found.0.trusted);
        Some(found)
    }

    fn done(&self, who: Requester) {
        let mut state = self.state();
        state.ordinary -= usize::from(!who.trusted);
        if let Some(line) = state.lines.get_mut(&who.uid) {
            line.running -= 1;
            if line.running == 0 && line.waiting.is_empty() {
                state.lines.remove(&who.uid);
            }
        }
        drop(state);
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const BOUNDS: Bounds = Bounds {
        threads: 2,
        per_user: 1,
        waiting_per_user: 3,
        waiting: 6,
    };

    fn user(uid: u32) -> Requester {
        Requester {
            uid: Uid(uid),
            trusted: uid == 0,
        }
    }

    /// A work that runs until it is told to end.
    fn long(pool: &Pool<()>, uid: u32) -> (Sender<()>, Receiver<()>) {
        let ((end, ended), (begin, begun)) = (channel::<()>(), channel());
        let work = move |_: &mut ()| {
            let _ = begin.send(());
            let _ = ended.recv();
        };
        pool.submit(user(uid), work).unwrap();
        (end, begun)
    }

    #[test]
    fn users_take_turns_and_administrators_have_a_thread() {
        let pool = Pool::start("works", BOUNDS).unwrap();
        let (end, begun) = long(&pool, 1);
        begun.recv().unwrap();
        let (order, done) = channel();
        for uid in [1, 1, 1, 2, 2] {
            let order = order.clone();
            pool.submit(user(uid), move |()| order.send(uid).unwrap())
                .unwrap();
        }
        let refused = pool.submit(user(1), |()| {}).unwrap_err().message;
        assert!(refused.contains("user 1 has 3 works waiting"), "{refused}");
        pool.submit(user(3), |()| {}).unwrap();
        let refused = pool.submit(user(3), |()| {}).unwrap_err().message;
        assert!(refused.contains("6 works wait"), "{refused}");
        drop(end);
        let all: Vec<u32> = done.iter().take(5).collect();
        assert_eq!(all, [1, 2, 1, 2, 1]);
        // All that others have to wait for does not keep an administrator waiting.
        let (end, begun) = long(&pool, 1);
        begun.recv().unwrap();
        let (_root, begun) = long(&pool, 0);
        begun.recv().unwrap();
        drop(end);
    }

    #[test]
    fn a_work_that_fails_is_over() {
        let pool = Pool::<()>::start("works", BOUNDS).unwrap();
        let failed = pool.submit(user(1), |()| panic!("as told"));
        failed.unwrap();
        let (done, ended) = channel();
        pool.submit(user(1), move |()| done.send(()).unwrap())
            .unwrap();
        ended.recv().unwrap();
    }
}
