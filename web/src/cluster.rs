//! Questions to the controller, each for the user who asks: a few threads with a connection each.
//!
//! What one user asks does not hold others up: of each only [`QUESTIONS_OF_USER`] are with the threads
//! at once, and a limited number wait.

use crate::limits::{ANSWER, QUESTIONS_OF_USER, WAITING_OF_USER, WORKERS};
use crate::problem::{Problem, Result};
use crate::turns::{Turn, Turns};
use cosy_client::{CallError, Caller, Looks, RetryPolicy, new_key};
use cosy_model::api::{Reply, Request};
use cosy_model::{Refusal, Uid};
use cosy_proto::client::RequestKey;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

/// The way to the controller.
pub struct Cluster {
    queue: mpsc::Sender<Question>,
    asking: Turns,
    waiting: Turns,
}

struct Question {
    user: Option<Uid>,
    request: Request,
    key: Option<RequestKey>,
    answer: oneshot::Sender<std::result::Result<Reply, CallError>>,
    /// Given back when the question is answered.
    _turn: Turn,
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
            asking: Turns::new(WORKERS, QUESTIONS_OF_USER),
            waiting: Turns::of_each(WAITING_OF_USER),
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

    async fn turn(&self, user: Option<Uid>) -> Result<Turn> {
        let busy = || Problem::busy("you ask more at once than is answered: try again in a moment");
        let waiting = self.waiting.try_take(user).ok_or_else(busy)?;
        let turn = self.asking.take(user).await;
        drop(waiting);
        turn.ok_or_else(|| {
            Problem::unavailable("the controller takes long to answer: try again in a moment")
        })
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
