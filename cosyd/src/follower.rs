//! Follows the leader's store while this controller stands by, on a thread and a connection of its own:
//! so that a takeover reads only what has changed since, and commands that accept it are answered
//! meanwhile.

use crate::clock;
use crate::recovery::caught;
use crate::store::followed::Followed;
use crate::store::{Location, Store, StoreError};
use cosy_control::{Caller, ClientId, ClusterConfig, Controller, Effect, Event, Facts, Loaded};
use cosy_model::api::{Reply, Request};
use cosy_model::{Refusal, RefusalCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

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
/// Answers are given for so long as of the same moment; longer where it took long to get there.
const FRESH: Duration = Duration::from_secs(2);
/// Questions that may wait; beyond, they are refused.
const WAITING: usize = 32;
/// Turns in which a list may be made.
const TURNS: usize = 10_000;

/// The way to the thread.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    asks: SyncSender<Ask>,
    /// The lead is taken: nobody is answered any more.
    ends: Arc<AtomicBool>,
}

enum Ask {
    /// To have what was read.
    Give(SyncSender<Warm>),
    Answer(Box<Question>),
}

struct Question {
    caller: Caller,
    request: Request,
    answer: oneshot::Sender<(Reply, Duration)>,
}

/// What was followed, and the connection over which it was read.
pub(crate) struct Warm {
    store: Store,
    followed: Followed,
}

/// Whether a standby may answer that as of when it looked last. Nodes are the leader's to know.
pub(crate) const fn may_answer(request: &Request) -> bool {
    matches!(
        request,
        Request::Jobs { .. }
            | Request::Explain { .. }
            | Request::Queues
            | Request::Reservations { .. }
            | Request::Accounts { .. }
            | Request::Flows { .. }
    )
}

impl Follower {
    /// # Errors
    /// The system gives no thread.
    pub fn start(location: Location, config: ClusterConfig) -> std::io::Result<Self> {
        let (asks, asked) = sync_channel(WAITING);
        let ends = Arc::<AtomicBool>::default();
        let me = Self {
            asks,
            ends: ends.clone(),
        };
        let following = Following {
            location,
            config,
            asked,
            ends,
        };
        std::thread::Builder::new()
            .name("follower".into())
            .stack_size(4 << 20)
            .spawn(move || following.run())?;
        Ok(me)
    }

    /// Ends the following; `None` where nothing has been read, or the server does not answer.
    pub fn end(self) -> Option<Warm> {
        self.ends.store(true, Ordering::Release);
        let (give, given) = sync_channel(1);
        self.asks.send(Ask::Give(give)).ok()?;
        given.recv_timeout(PATIENCE).ok()
    }

    /// The answer, and how old it is.
    ///
    /// # Errors
    /// Too many ask, or nothing was read yet.
    pub async fn answer(
        &self,
        caller: Caller,
        request: Request,
    ) -> Result<(Reply, Duration), Refusal> {
        let (answer, wait) = oneshot::channel();
        let question = Box::new(Question {
            caller,
            request,
            answer,
        });
        let refused = |why: &str| Refusal::new(RefusalCode::Standby, why);
        self.asks
            .try_send(Ask::Answer(question))
            .map_err(|_| refused("this controller stands by, and too many ask it"))?;
        wait.await.map_err(|_| {
            refused("this controller stands by, and cannot say what the leader has written")
        })
    }
}

impl Warm {
    /// Everything that lives in the database of that epoch; `None` where it must be read anew.
    pub fn load(self, epoch: u64) -> Option<Loaded> {
        let (known, begun) = (self.followed.submissions(), Instant::now());
        match self.read(epoch) {
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

    fn read(mut self, epoch: u64) -> Result<Option<Loaded>, StoreError> {
        self.store.follow(&mut self.followed)?;
        match self.followed.into_rows_of(epoch) {
            Some(rows) => self.store.load_followed(rows),
            None => Ok(None),
        }
    }
}

/// What the thread has.
struct Following {
    location: Location,
    config: ClusterConfig,
    asked: Receiver<Ask>,
    ends: Arc<AtomicBool>,
}

/// A controller as of a moment, which is only asked.
struct Picture {
    controller: Controller,
    as_of: Instant,
    /// For so long it is good.
    good_for: Duration,
}

impl Picture {
    fn is_good(&self) -> bool {
        self.as_of.elapsed() < self.good_for
    }
}

impl Following {
    fn run(self) {
        loop {
            match self.keep_up() {
                Ok(()) => return,
                Err(e) => tracing::debug!("the leader's store cannot be followed: {e}"),
            }
            // Nothing is there to be given: whoever asks now sees the way closed.
            let until = Instant::now() + AGAIN;
            loop {
                let rest = until.saturating_duration_since(Instant::now());
                match self.asked.recv_timeout(rest) {
                    Ok(Ask::Answer(_)) => {}
                    Ok(Ask::Give(_)) | Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
        }
    }

    /// Looks again and again, until somebody asks for what was read.
    fn keep_up(&self) -> Result<(), StoreError> {
        let store = Store::open_reader(&self.location)?;
        let mut followed = Followed::default();
        let mut picture: Option<Picture> = None;
        loop {
            // One that is old is made anew when somebody asks, and takes no memory until then.
            picture = picture.filter(Picture::is_good);
            let begun = Instant::now();
            store.follow(&mut followed)?;
            let took = begun.elapsed();
            tracing::debug!(
                "{} live submissions are known after {took:.0?}",
                followed.submissions()
            );
            let until = Instant::now() + (took * REST).clamp(PAUSE, LONGEST);
            loop {
                let rest = until.saturating_duration_since(Instant::now());
                match self.asked.recv_timeout(rest) {
                    Ok(Ask::Give(give)) => {
                        // Who has not waited for it reads the store anew.
                        let _ = give.send(Warm { store, followed });
                        return Ok(());
                    }
                    // Nobody waits for it any more.
                    Ok(Ask::Answer(question))
                        if question.answer.is_closed() || self.ends.load(Ordering::Acquire) => {}
                    Ok(Ask::Answer(question)) => {
                        self.answer(&store, (&mut followed, &mut picture), *question)?;
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
        }
    }

    fn answer(
        &self,
        store: &Store,
        (followed, picture): (&mut Followed, &mut Option<Picture>),
        question: Question,
    ) -> Result<(), StoreError> {
        let mut present = match picture.take().filter(Picture::is_good) {
            Some(known) => known,
            None => match self.picture(store, followed)? {
                Some(new) => new,
                None => return Ok(()),
            },
        };
        let age = present.as_of.elapsed();
        let asked = caught(|| ask(&mut present.controller, question.caller, question.request));
        if let Ok(Some(reply)) = asked {
            let _ = question.answer.send((reply, age));
            *picture = Some(present);
        }
        Ok(())
    }

    /// The controller as the store is now; `None` where the leader has to mend something first.
    fn picture(
        &self,
        store: &Store,
        followed: &mut Followed,
    ) -> Result<Option<Picture>, StoreError> {
        let as_of = Instant::now();
        store.follow(followed)?;
        let Some(rows) = followed.rows().cloned() else {
            return Ok(None);
        };
        let Some(loaded) = store.load_followed(rows)? else {
            return Ok(None);
        };
        let restored = caught(|| Controller::restore(self.config.clone(), loaded, clock::moment()));
        Ok(restored.ok().map(|controller| Picture {
            controller,
            as_of,
            good_for: (as_of.elapsed() * REST).max(FRESH),
        }))
    }
}

/// What the controller answers; nothing that it decides beside it is carried out.
fn ask(controller: &mut Controller, caller: Caller, request: Request) -> Option<Reply> {
    let client = ClientId(1);
    let event = Event::Asked {
        client,
        caller: Box::new(caller),
        key: None,
        request,
        facts: Facts::default(),
    };
    controller.handle(clock::moment(), event);
    for _ in 0..TURNS {
        let batch = controller.settle(clock::moment());
        let mut replies = batch.effects.into_iter().filter_map(|effect| match effect {
            Effect::Reply { client: to, reply } if to == client => Some(reply),
            _ => None,
        });
        if let Some(reply) = replies.next() {
            return Some(reply);
        }
        if !controller.is_listing() {
            break;
        }
    }
    None
}
