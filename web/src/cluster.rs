//! Questions to the controller, each for the user who asks: a few threads with a connection each.
//!
//! What one user asks does not hold others up: of each only [`QUESTIONS_OF_USER`] are with the threads
//! at once, and a limited number wait.

use crate::limits::{ANSWER, QUESTIONS_OF_USER, TURN, WAITING_OF_USER, WORKERS};
use crate::problem::{Problem, Result};
use cosy_client::{CallError, Caller, Looks, RetryPolicy, new_key};
use cosy_model::api::{Reply, Request};
use cosy_model::{Refusal, Uid};
use cosy_proto::client::RequestKey;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The way to the controller.
pub struct Cluster {
    queue: mpsc::Sender<Question>,
    workers: Arc<Semaphore>,
    users: Mutex<HashMap<Option<Uid>, Arc<Turns>>>,
}

/// The places of one user.
struct Turns {
    asking: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

struct Question {
    user: Option<Uid>,
    request: Request,
    key: Option<RequestKey>,
    answer: oneshot::Sender<std::result::Result<Reply, CallError>>,
    /// Given back when the question is answered.
    _turn: [OwnedSemaphorePermit; 2],
}

impl Cluster {
    /// To one of those sockets, of which there is at least one.
    pub fn new(sockets: &[PathBuf]) -> Self {
        let (queue, questions) = mpsc::channel();
        let questions = Arc::new(Mutex::new(questions));
        for _ in 0..WORKERS {
            let (sockets, questions) = (sockets.to_vec(), questions.clone());
            std::thread::spawn(move || work(sockets, &questions));
        }
        Self {
            queue,
            workers: Arc::new(Semaphore::new(WORKERS)),
            users: Mutex::default(),
        }
    }

    /// What the controller answers that user.
    ///
    /// # Errors
    /// It refuses, cannot be reached, or the user asks too much at once.
    pub async fn ask(&self, user: Uid, request: Request) -> Result<Reply> {
        self.ask_with_key(Some(user), request, None).await
    }

    /// What it answers this program.
    ///
    /// # Errors
    /// The same.
    pub async fn ask_for_itself(&self, request: Request) -> Result<Reply> {
        self.ask_with_key(None, request, None).await
    }

    /// The same, where a refusal is an answer too; for this program itself without a user.
    ///
    /// # Errors
    /// The controller cannot be reached, or the user asks too much at once.
    pub async fn ask_plainly(
        &self,
        user: Option<Uid>,
        request: Request,
    ) -> Result<std::result::Result<Reply, Refusal>> {
        match self.put(user, request, None).await? {
            Ok(Reply::Refused(refusal)) | Err(CallError::Refused(refusal)) => Ok(Err(refusal)),
            Ok(reply) => Ok(Ok(reply)),
            Err(e) => Err(e.into()),
        }
    }

    /// The same with a key by which a repeat is recognised; without, one that changes something gets
    /// a new one.
    ///
    /// # Errors
    /// The same.
    pub async fn ask_with_key(
        &self,
        user: Option<Uid>,
        request: Request,
        key: Option<RequestKey>,
    ) -> Result<Reply> {
        match self.put(user, request, key).await? {
            Ok(Reply::Refused(refusal)) => Err(refusal.into()),
            answer => answer.map_err(Problem::from),
        }
    }

    async fn put(
        &self,
        user: Option<Uid>,
        request: Request,
        key: Option<RequestKey>,
    ) -> Result<std::result::Result<Reply, CallError>> {
        let turn = self.turn(user).await?;
        let (answer, answered) = oneshot::channel();
        let key = key.or_else(|| request.changes().then(new_key));
        let question = Question {
            user,
            request,
            key,
            answer,
            _turn: turn,
        };
        if self.queue.send(question).is_err() {
            return Err(Problem::unavailable("the page is stopping"));
        }
        answered.await.map_err(|_| Problem::unexpected())
    }

    async fn turn(&self, user: Option<Uid>) -> Result<[OwnedSemaphorePermit; 2]> {
        let turns = self.turns(user);
        let busy = || Problem::busy("you ask more at once than is answered: try again in a moment");
        let waiting = turns
            .waiting
            .clone()
            .try_acquire_owned()
            .map_err(|_| busy())?;
        let both = async {
            let own = turns.asking.clone().acquire_owned().await.ok()?;
            let worker = self.workers.clone().acquire_owned().await.ok()?;
            Some([own, worker])
        };
        let turn = tokio::time::timeout(TURN, both).await;
        drop(waiting);
        match turn {
            Ok(Some(turn)) => Ok(turn),
            Ok(None) | Err(_) => Err(Problem::unavailable(
                "the controller takes long to answer: try again in a moment",
            )),
        }
    }

    fn turns(&self, user: Option<Uid>) -> Arc<Turns> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() > 1000 {
            users.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let new = || {
            Arc::new(Turns {
                asking: Arc::new(Semaphore::new(QUESTIONS_OF_USER)),
                waiting: Arc::new(Semaphore::new(WAITING_OF_USER)),
            })
        };
        users.entry(user).or_insert_with(new).clone()
    }
}

fn work(sockets: Vec<PathBuf>, questions: &Mutex<mpsc::Receiver<Question>>) {
    let retry = RetryPolicy {
        answer_timeout: ANSWER,
        reconnect_for: Duration::from_secs(3),
        looks: Looks::USUAL,
        ..RetryPolicy::default()
    };
    let log = |line: &str| tracing::warn!("{line}");
    let new_caller = || Caller::of_sockets(sockets.clone(), retry, log);
    let mut caller = new_caller();
    loop {
        let question = questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(question) = question else { return };
        if question.answer.is_closed() {
            continue;
        }
        caller.speak_for(question.user);
        let asked = caller.ask_with_key(question.request, question.key);
        if asked.as_ref().is_err_and(CallError::is_unreachable) {
            // It tells of each loss once in its life.
            caller = new_caller();
        }
        let _ = question.answer.send(asked);
    }
}
