//! The core thread, which owns the controller, and the writer thread, which makes its
//! batches durable and only then lets their effects go.
//!
//! ```text
//!   events ──▶ core: handle, settle ──batches──▶ writer: one commit for all that wait
//!                 ▲                                  │ effects
//!                 └────────── failed commit ─────────┴──▶ hub, workers, directory, mail
//! ```
//!
//! What has come stands in lanes, one for each user ([`crate::fair_queue`]). A turn ends when nothing
//! waits any more, or when it has taken long enough: the rest is decided in the turns that follow.
//!
//! The two work side by side: while one batch is on its way to the disk, the next is
//! decided. When a commit fails, its batch and all that were decided on top of it are
//! refused, memory is rebuilt from the store, and until the store can be written again
//! only questions that need no store are answered. Nodes are hung up on and register
//! again.
//!
//! A fault (a panic) in a turn ends that turn: nothing that it decided leaves, those who wait
//! for it are refused, and memory is rebuilt from the store in the same way. What made it fail
//! is dropped; what is in the store and makes the controller fail again is set aside
//! ([`crate::recovery`]). Nodes are taken on again only after a pause that grows with each
//! fault.

mod gathering;
mod input;
mod writer;

use crate::background::Background;
use crate::clock;
use crate::current_work::{CurrentWork, WorkPage};
use crate::end::End;
use crate::fair_queue::{FairQueue, is_large};
use crate::faults::{self, Faults, Unanswered, faulty};
use crate::hub::Hub;
use crate::memory::{Memory, Requester};
use crate::meter::{Meter, Stopwatch};
use crate::payloads::Payloads;
use crate::recovery::{self, Recovered, caught};
use crate::standing::Standing;
use crate::store::{Location, Store};
use cosy_control::{Batch, ClusterConfig, Controller, Event, Object, is_admin};
use cosy_model::api::{Reply, WHOLE_TURN};
use cosy_model::{ClockReading, Uid};
use cosy_proto::keys::KeyPair;
use gathering::{BATCHES, ToWriter};
use input::Failure;
pub use input::Input;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, watch};
use writer::{PROBE, Writer, unavailable};

/// Most events in one turn.
const TURN: usize = 1000;
/// A turn that has taken so long takes no further event.
const TURN_TIME: Duration = Duration::from_millis(5);
/// Events taken out of the mailbox before they are decided.
const IN_LANES: usize = 16_384;

/// Handles of the two threads.
pub struct Engine {
    core: std::thread::JoinHandle<()>,
    writer: std::thread::JoinHandle<()>,
}

/// Between two looks whether they have stopped.
const JOIN_LOOK: Duration = Duration::from_millis(10);

impl Engine {
    /// Waits until both have stopped.
    pub fn join(self) {
        let _ = self.core.join();
        let _ = self.writer.join();
    }

    /// The same, but not for longer than that; whether they have stopped.
    pub fn join_within(self, patience: Duration) -> bool {
        let begun = Instant::now();
        while !(self.core.is_finished() && self.writer.is_finished()) {
            if begun.elapsed() > patience {
                return false;
            }
            std::thread::sleep(JOIN_LOOK);
        }
        self.join();
        true
    }
}

/// What the core's and the writer's threads are given.
pub struct Parts {
    /// Open store, for the writer.
    pub store: Store,
    /// Where it is, for the core to load from.
    pub database: Location,
    /// The controller as loaded.
    pub controller: Controller,
    /// What it decided at once.
    pub first: Batch,
    /// Where it is noted what is worked on.
    pub hand: WorkPage,
    /// The present configuration, to rebuild with.
    pub config: Arc<Mutex<ClusterConfig>>,
    /// Connections of commands and nodes that effects write to.
    pub hub: Arc<Hub>,
    /// Everything else that effects ask for.
    pub outside: Background,
    /// Key of the controller, which signs tickets for steps.
    pub key: KeyPair,
    /// The core's mailbox: both ends.
    pub inputs: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    /// Tells when the controller wants to be woken.
    pub wakeup: watch::Sender<Instant>,
    /// Durations of turns and reads.
    pub meter: Arc<Meter>,
    /// How much memory there is for new work.
    pub memory: Arc<Memory>,
    /// Told when the writer waits for the database.
    pub standing: Arc<Standing>,
    /// In which epoch this controller leads; 0 where there is only one.
    pub epoch: u64,
    /// Where the end of the lead is told.
    pub end: mpsc::Sender<End>,
    /// Who comes first when the lead is laid down.
    pub next: Arc<Mutex<String>>,
}

/// Starts the two threads.
///
/// # Errors
/// The system gives no thread.
pub fn start(parts: Parts) -> std::io::Result<Engine> {
    let (to_writer, from_core) = sync_channel(BATCHES);
    let (input, inbox) = parts.inputs;
    let failure = Failure::new(input);
    let writes_large = Arc::new(AtomicBool::new(false));
    let writer = Writer {
        store: parts.store,
        hub: parts.hub.clone(),
        outside: parts.outside,
        key: parts.key,
        payloads: Payloads::default(),
        failure: failure.clone(),
        failed: None,
        writes_large: writes_large.clone(),
        mark: Default::default(),
        standing: parts.standing,
        epoch: parts.epoch,
        end: parts.end,
        next: parts.next,
    };
    let core = Core {
        controller: parts.controller,
        generation: 0,
        database: parts.database,
        config: parts.config,
        hub: parts.hub,
        inbox,
        queue: FairQueue::default(),
        failure,
        writer: to_writer,
        wakeup: parts.wakeup,
        meter: parts.meter,
        memory: parts.memory,
        hand: parts.hand,
        unanswered: Unanswered::default(),
        faults: Faults::default(),
        kind: "",
        writes_large,
        stopping: false,
    };
    let first = parts.first;
    let writer = std::thread::Builder::new()
        .name("writer".into())
        .stack_size(1 << 20)
        .spawn(move || writer.run(&from_core))?;
    let core = std::thread::Builder::new()
        .name("core".into())
        .stack_size(4 << 20)
        .spawn(move || core.run(first))?;
    Ok(Engine { core, writer })
}

struct Core {
    controller: Controller,
    generation: u64,
    database: Location,
    config: Arc<Mutex<ClusterConfig>>,
    hub: Arc<Hub>,
    inbox: mpsc::Receiver<Input>,
    queue: FairQueue,
    failure: Failure,
    writer: SyncSender<ToWriter>,
    wakeup: watch::Sender<Instant>,
    meter: Arc<Meter>,
    memory: Arc<Memory>,
    hand: WorkPage,
    unanswered: Unanswered,
    faults: Faults,
    /// Kind of what is decided, for the log.
    kind: &'static str,
    /// Something large is on its way to the disk ([`crate::fair_queue`]).
    writes_large: Arc<AtomicBool>,
    /// This turn is the last one.
    stopping: bool,
}

impl Core {
    /// Takes in what has come, and waits for something when there is nothing to do. False when
    /// nothing can come any more.
    fn take_in(&mut self) -> bool {
        let large = self.may_take_large();
        if !self.queue.have_turn(large) && !self.controller.is_listing() {
            match self.inbox.blocking_recv() {
                Some(input) => self.take(input),
                None => return false,
            }
        }
        self.take_more() || !self.queue.is_empty()
    }

    /// Nothing large is on its way.
    fn may_take_large(&self) -> bool {
        self.stopping || !self.writes_large.load(Ordering::Acquire)
    }

    /// Takes what has come meanwhile; false as in [`Self::take_in`].
    fn take_more(&mut self) -> bool {
        while self.queue.len() < IN_LANES && !self.stopping {
            match self.inbox.try_recv() {
                Ok(input) => self.take(input),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.queue.push(*event, None),
            Input::Counted(event, share) => self.queue.push(*event, Some(share)),
            Input::Wake => {}
            Input::Stop => self.stopping = true,
        }
    }

    fn run(mut self, first: Batch) {
        self.send(first, false);
        while self.take_in() {
            if let Some(why) = self.failure.of(self.generation) {
                self.rebuild(&why);
            }
            if let Err(why) = self.turn() {
                self.recover(&why);
            }
            self.hand.put_down();
            if self.stopping {
                return;
            }
        }
    }

    /// Events, as many as wait and fit into a turn, and what follows from them.
    ///
    /// # Errors
    /// The controller panicked: why. It is of no use any more.
    fn turn(&mut self) -> Result<(), String> {
        let (now, watch) = (clock::moment(), Stopwatch::start());
        let (mut taken, mut large) = (0, false);
        while let Some(event) = self.queue.pop(self.may_take_large()) {
            large = is_large(&event);
            if large && taken > 0 {
                // What was decided before does not wait for it.
                self.unanswered.note(&event);
                self.hand_out(false)?;
            }
            self.handle(now, event)?;
            taken += 1;
            let over = large || taken >= TURN || watch.wall() >= TURN_TIME;
            if over && !self.stopping {
                break;
            }
            if self.queue.is_empty() {
                self.take_more();
            }
        }
        self.faults.decided();
        self.hand_out(large)?;
        self.meter.turn(WHOLE_TURN, None, watch.took());
        Ok(())
    }

    fn handle(&mut self, now: ClockReading, mut event: Event) -> Result<(), String> {
        if let Err(refusal) = self.faults.admit(&event, Instant::now()) {
            match event {
                Event::Asked { client, .. } => self.hub.answer(client, Reply::Refused(refusal)),
                Event::DescriptionsWanted(wanted) => {
                    self.hub.answer(wanted.client, Reply::Refused(refusal));
                }
                Event::LinkOpened { link, .. } => self.hub.close_link(link),
                _ => {}
            }
            return Ok(());
        }
        self.look_for_memory(&mut event);
        self.unanswered.note(&event);
        self.hand.take(CurrentWork::event(&event));
        let (kind, uid) = kind_of(&event);
        self.kind = kind;
        let watch = Stopwatch::start();
        caught(|| {
            faults::at_event(&event);
            self.controller.handle(now, event);
        })?;
        self.meter.turn(kind, uid, watch.took());
        Ok(())
    }

    /// New work for which there is no memory is refused, unless it was carried out before.
    fn look_for_memory(&self, event: &mut Event) {
        let Event::Asked {
            caller,
            request,
            facts,
            ..
        } = event
        else {
            return;
        };
        let who = || Requester {
            trusted: self.config.lock().is_ok_and(|c| is_admin(&c, caller)),
            own_jobs: self.controller.jobs_of(caller.user.uid).into(),
            all_jobs: self.controller.live_jobs() as u64,
        };
        if facts.refused.is_none() {
            facts.refused = self.memory.admit(request, who).err();
        }
    }

    /// `large`: what was decided takes long to write.
    fn hand_out(&mut self, large: bool) -> Result<(), String> {
        let now = clock::moment();
        self.hand.take(CurrentWork::Settling);
        self.kind = "end of turn";
        let (begun, watch) = (Instant::now(), Stopwatch::start());
        let (batch, wakeup) = caught(|| {
            let batch = self.controller.settle(now);
            (batch, self.controller.next_wakeup(now.wall))
        })?;
        self.meter.turn(self.kind, None, watch.took());
        self.hand.put_down();
        let rest = u64::try_from(wakeup.since(now.wall).ms()).unwrap_or(0);
        let _ = self.wakeup.send(begun + Duration::from_millis(rest));
        self.send(batch, large);
        Ok(())
    }

    fn send(&mut self, batch: Batch, large: bool) {
        self.unanswered.answered(&batch);
        if !batch.is_empty() {
            let generation = self.generation;
            if large {
                self.writes_large.store(true, Ordering::Release);
            }
            let batch = ToWriter::Batch {
                generation,
                batch,
                large,
            };
            let _ = self.writer.send(batch);
        }
    }

    /// After a fault: what was decided before is carried out, those who wait for more are
    /// refused, and memory becomes what the store has.
    fn recover(&mut self, why: &str) {
        let with = self.hand.has();
        let what = with.map_or_else(String::new, |with| format!(" ({with})"));
        let kind = self.kind;
        tracing::error!(
            "a fault in the controller at '{kind}'{what}: {why}; that turn is dropped and memory is rebuilt from the store"
        );
        let blamed = self.faults.happened(with, Instant::now());
        self.hand.put_down();
        self.generation += 1;
        restart_writer(&self.writer, self.generation, || {});
        if let Some(why) = self.failure.of(self.generation - 1) {
            // What was decided before is not durable either.
            return self.rebuild(&why);
        }
        for client in self.unanswered.take() {
            self.hub.answer(client, Reply::Refused(faulty()));
        }
        self.hub.close_all_links();
        self.take_up(blamed);
        tracing::warn!("memory was rebuilt from the store after the fault");
    }

    /// Memory becomes what the store has. Everyone who waits is refused; nodes come again.
    fn rebuild(&mut self, why: &str) {
        tracing::error!("nothing can be made durable: {why}");
        let refused = Reply::Refused(unavailable(why));
        self.hub.answer_all(&refused);
        self.hub.close_all_links();
        let (hub, inbox, queue) = (self.hub.clone(), &mut self.inbox, &mut self.queue);
        // Still unwritable. Refuse what came meanwhile, and hang up on nodes.
        let meanwhile = || refuse_waiting(&hub, (inbox, queue), &refused);
        self.generation += 1;
        restart_writer(&self.writer, self.generation, meanwhile);
        self.unanswered.take();
        self.take_up(None);
        tracing::warn!("the store can be written again; memory was rebuilt from it");
        let waiting = (&mut self.inbox, &mut self.queue);
        refuse_waiting(&self.hub, waiting, &refused);
    }

    fn take_up(&mut self, blamed: Option<Object>) {
        let config = self.config.lock().map(|c| c.clone()).unwrap_or_default();
        let taken = Store::open_at(&self.database).map_err(anyhow::Error::from);
        let taken = taken.and_then(|mut store| {
            if let Some(object) = blamed {
                let why = "the controller failed at it several times in a row";
                recovery::set_object_aside(&mut store, object, why)?;
            }
            recovery::rebuild(&mut store, &config, &self.hand)
        });
        match taken {
            Ok(Recovered { controller, first }) => {
                self.controller = controller;
                self.send(first, false);
            }
            Err(e) => {
                tracing::error!("nothing can be taken up from the store: {e:#}; stopping");
                std::process::exit(1);
            }
        }
    }
}

/// Waits until the writer has done all that it was given and the store can be written.
fn restart_writer(writer: &SyncSender<ToWriter>, generation: u64, mut meanwhile: impl FnMut()) {
    let (done, wait) = sync_channel(1);
    let gone = || {
        tracing::error!("the writer has ended; stopping");
        std::process::exit(1);
    };
    if writer.send(ToWriter::Restart { generation, done }).is_err() {
        gone();
    }
    loop {
        match wait.recv_timeout(PROBE) {
            Ok(()) => return,
            Err(RecvTimeoutError::Timeout) => meanwhile(),
            Err(RecvTimeoutError::Disconnected) => gone(),
        }
    }
}

fn refuse_waiting(
    hub: &Hub,
    (inbox, queue): (&mut mpsc::Receiver<Input>, &mut FairQueue),
    refused: &Reply,
) {
    let mut dropped = 0;
    while let Some(event) = queue.pop(true) {
        dropped += 1;
        refuse_event(hub, event, refused);
    }
    while let Ok(input) = inbox.try_recv() {
        dropped += 1;
        match input {
            Input::Event(event) | Input::Counted(event, _) => refuse_event(hub, *event, refused),
            Input::Stop => std::process::exit(0),
            Input::Wake => {}
        }
    }
    if dropped > 0 {
        tracing::debug!("{dropped} inputs refused while nothing can be made durable");
    }
}

fn refuse_event(hub: &Hub, event: Event, refused: &Reply) {
    match event {
        Event::Asked { client, .. } => hub.answer(client, refused.clone()),
        Event::DescriptionsWanted(wanted) => hub.answer(wanted.client, refused.clone()),
        Event::LinkOpened { link, .. } | Event::LinkReported { link, .. } => hub.close_link(link),
        _ => {}
    }
}

/// What an event is counted as, and whose it is.
fn kind_of(event: &Event) -> (&'static str, Option<Uid>) {
    match event {
        Event::Asked {
            caller, request, ..
        } => (request.kind(), Some(caller.user.uid)),
        Event::DescriptionsWanted(wanted) => {
            ("jobs described to rules", Some(wanted.caller.user.uid))
        }
        Event::ClientGone(_) | Event::ClientLost(_) => ("end of a command", None),
        Event::LinkOpened { .. } => ("node connected", None),
        Event::LinkReported { .. } => ("report of a node", None),
        Event::LinkClosed(_) => ("node disconnected", None),
        Event::UserResolved { .. } => ("user looked up", None),
        Event::Planned { .. } => ("plan", None),
        Event::Appraised { .. } => ("appraisal", None),
        Event::FlowPlanned { .. } => ("plan of a workflow", None),
        Event::WakesPlanned(_) => ("plan of nodes to be switched on", None),
        Event::PowerEnded(_) => ("program that switches nodes", None),
        Event::Reconfigured(_) => ("configuration", None),
        Event::StoreJudged { .. } => ("settings of the database", None),
        Event::BecameDurable => ("piece of a cancellation", None),
        Event::Ticked => ("tick", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_commit_is_told_without_waiting() {
        let (core, mut inbox) = mpsc::channel(1);
        let failure = Failure::new(core);
        failure.tell(3, "full".into());
        assert!(matches!(inbox.try_recv(), Ok(Input::Wake)));
        assert_eq!(failure.of(3).as_deref(), Some("full"));
        assert_eq!(failure.of(3), None);
        // With a full mailbox it would hang here; what is in the mailbox wakes the core.
        for _ in 0..3 {
            failure.tell(4, "full again".into());
        }
        assert!(matches!(inbox.try_recv(), Ok(Input::Wake)));
        assert_eq!(failure.of(4).as_deref(), Some("full again"));
    }

    #[test]
    fn a_commit_of_an_earlier_generation_is_past() {
        let (core, _inbox) = mpsc::channel(1);
        let failure = Failure::new(core);
        failure.tell(3, "full".into());
        assert_eq!(failure.of(4), None);
    }
}
