//! The writer thread: makes batches durable, one commit for all that wait, and lets their
//! effects go; what could not be made durable is refused.

use super::gathering::{Gathering, LONGEST, ToWriter, requests};
use super::input::Failure;
use crate::background::Background;
use crate::end::End;
use crate::hub::Hub;
use crate::journal;
use crate::payloads::Payloads;
use crate::recovery::caught;
use crate::standing::Standing;
use crate::store::{Store, StoreError};
use crate::{clients, clock};
use cosy_control::{Batch, Effect, LinkId, Record};
use cosy_model::api::Reply;
use cosy_model::node::{Allocation, Launch, NodeOrder, StoreMark};
use cosy_model::step::{AllocationRoute, PassClaims};
use cosy_model::{JobId, OsText, Refusal, RefusalCode, Time};
use cosy_proto::keys::KeyPair;
use cosy_proto::pass;
use cosy_proto::ticket::{self, Claims};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often an unwritable store is tried.
pub(super) const PROBE: Duration = Duration::from_millis(500);

pub(super) fn unavailable(why: &str) -> Refusal {
    Refusal::new(
        RefusalCode::Unavailable,
        format!(
            "the controller cannot make anything durable now ({why}); nothing was changed, try again later"
        ),
    )
}

pub(super) struct Writer {
    pub(super) store: Store,
    pub(super) hub: Arc<Hub>,
    pub(super) outside: Background,
    pub(super) key: KeyPair,
    pub(super) payloads: Payloads,
    pub(super) failure: Failure,
    /// The generation whose commit failed, and why: its batches are refused.
    pub(super) failed: Option<(u64, String)>,
    /// Something large is on its way to the disk.
    pub(super) writes_large: Arc<AtomicBool>,
    /// The latest mark that was signed, with its signature.
    pub(super) mark: (StoreMark, OsText),
    /// Told when the database of several controllers is waited for.
    pub(super) standing: Arc<Standing>,
    /// In which epoch this controller leads; 0 where there is only one.
    pub(super) epoch: u64,
    /// Where the end of the lead is told.
    pub(super) end: mpsc::Sender<End>,
    /// Who comes first when the lead is laid down.
    pub(super) next: Arc<Mutex<String>>,
}

fn passage_order(number: u64, passage: Box<AllocationRoute>) -> NodeOrder {
    NodeOrder::Passage {
        number,
        passage: Ok(passage),
    }
}

impl Writer {
    pub(super) fn run(mut self, inbox: &Receiver<ToWriter>) {
        let on_server = self.epoch != 0;
        let mut gathering = Gathering::new(inbox, on_server.then_some(LONGEST));
        loop {
            let Some(first) = self.receive(&mut gathering) else {
                return self.lay_down();
            };
            match first {
                ToWriter::Restart { generation, done } => self.restart(generation, &done),
                ToWriter::Batch {
                    generation,
                    batch,
                    large,
                } => {
                    let batches = match large {
                        true => vec![batch],
                        false => gathering.gather(generation, batch),
                    };
                    let written = caught(|| self.write(generation, batches, &mut gathering));
                    self.standing.answered();
                    if let Err(why) = written {
                        // As if it could not be written: memory is rebuilt.
                        let why = format!("a fault in the writer: {why}");
                        tracing::error!("{why}");
                        self.failed = Some((generation, why.clone()));
                        self.failure.tell(generation, why);
                    }
                    if large {
                        self.writes_large.store(false, Ordering::Release);
                        self.failure.wake();
                    }
                }
            }
        }
    }

    /// What comes next; the lead is renewed meanwhile. `None` when nothing more comes.
    fn receive(&mut self, gathering: &mut Gathering<'_>) -> Option<ToWriter> {
        loop {
            let Some(lead) = self.store.lead() else {
                return gathering.next(None).ok();
            };
            let wait = lead.leadership.renew_at().0;
            match gathering.next(Some(wait.saturating_sub(clock::since_boot().0))) {
                Ok(next) => return Some(next),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.renew();
                    self.standing.answered();
                }
            }
        }
    }

    fn renew(&mut self) {
        self.standing.waits();
        match self.store.renew() {
            Ok(()) => {}
            Err(e) if e.is_deposed() => self.is_deposed(),
            Err(e) => {
                tracing::error!("the lead cannot be renewed: {e}");
                std::thread::sleep(PROBE);
            }
        }
    }

    /// Nothing goes out before it is sure that this controller leads now.
    fn wait_until_it_may_act(&mut self) {
        while let Some(lead) = self.store.lead()
            && !lead.leadership.may_act(clock::since_boot())
        {
            self.renew();
        }
    }

    /// Another controller leads. Nobody may be told anything more; this process begins anew.
    fn is_deposed(&self) -> ! {
        tracing::warn!("another controller leads: this one begins anew");
        let _ = self.end.blocking_send(End::Deposed);
        loop {
            std::thread::park();
        }
    }

    /// The end of an orderly stop.
    fn lay_down(mut self) {
        let next = clients::lock(&self.next).clone();
        if let Err(e) = self.store.release(&next) {
            tracing::warn!("the lead could not be laid down, it ends with its time: {e}");
        }
    }

    fn restart(&mut self, generation: u64, done: &SyncSender<()>) {
        while let Err(e) = self.store.probe() {
            if e.is_deposed() {
                self.is_deposed();
            }
            tracing::debug!("still not writable: {e}");
            std::thread::sleep(PROBE);
        }
        tracing::info!("the store can be written, generation {generation}");
        self.failed = None;
        let _ = done.send(());
    }

    fn write(&mut self, generation: u64, mut batches: Vec<Batch>, gathering: &mut Gathering<'_>) {
        if let Some((failed, why)) = &self.failed
            && *failed == generation
        {
            let why = format!("an earlier change could not be made durable: {why}");
            return self.refuse(batches, &why);
        }
        let records: Vec<Record> = batches
            .iter_mut()
            .flat_map(|b| std::mem::take(&mut b.records))
            .collect();
        if !records.is_empty() && self.epoch != 0 {
            self.standing.waits();
        }
        let began = Instant::now();
        if !records.is_empty()
            && let Err(e) = self.store.commit(&records)
        {
            if e.is_deposed() {
                self.is_deposed();
            }
            let why = short(&e);
            self.failed = Some((generation, why.clone()));
            self.refuse(batches, &why);
            return self.failure.tell(generation, why);
        }
        self.wait_until_it_may_act();
        gathering.committed(began, batches.iter().map(requests).sum());
        self.payloads.learn(&records);
        journal::tell(&records);
        for effect in batches.into_iter().flat_map(|b| b.effects) {
            self.perform(effect);
        }
    }

    fn refuse(&self, batches: Vec<Batch>, why: &str) {
        for effect in batches.into_iter().flat_map(|b| b.effects) {
            match effect {
                Effect::Reply { client, .. }
                | Effect::Pass { client, .. }
                | Effect::Reload { client }
                | Effect::Describe { client, .. } => {
                    self.hub.answer(client, Reply::Refused(unavailable(why)));
                }
                Effect::LinkReply { link, .. } => self.hub.close_link(link),
                _ => {}
            }
        }
    }

    fn heard(&mut self, link: LinkId, number: u64, mark: StoreMark) {
        let mark = self.signed(mark);
        self.hub.order(link, &NodeOrder::Heard { number, mark });
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Reply { client, reply } => self.hub.answer(client, reply),
            Effect::Describe { client, described } => self.hub.describe(client, described),
            Effect::LinkReply { link, answer } => self.hub.link_answer(link, answer),
            Effect::CloseLink(link) => self.hub.close_link(link),
            Effect::Order { link, order } => self.hub.order(link, &order),
            Effect::Heard { link, number, mark } => self.heard(link, number, mark),
            Effect::Prepare {
                link,
                mut allocation,
                expiry,
                holder,
            } => {
                self.sign(&mut allocation, expiry, holder);
                self.hub.order(link, &NodeOrder::Prepare(allocation));
            }
            Effect::Launch {
                link,
                mut launch,
                submission,
                expiry,
                holder,
            } => {
                self.sign(&mut launch.allocation, expiry, holder);
                self.complete(&mut launch, submission);
                self.hub.order(link, &NodeOrder::Launch(launch));
            }
            Effect::RunProgram {
                link,
                mut launch,
                expiry,
                holder,
            } => {
                self.sign(&mut launch.allocation, expiry, holder);
                self.hub.order(link, &NodeOrder::Launch(launch));
            }
            Effect::Pass { client, claims } => self.hub.answer(client, self.pass(&claims)),
            Effect::Passage {
                link,
                number,
                mut passage,
                groups,
                nodes,
                expiry,
                holder,
            } => {
                passage.ticket = self.ticket(&Claims {
                    key: passage.key.into(),
                    uid: passage.uid,
                    gid: passage.gid,
                    groups,
                    nodes,
                    expiry,
                    holder,
                    seal: OsText::default(),
                    epoch: self.epoch,
                });
                self.hub.order(link, &passage_order(number, passage));
            }
            Effect::ResolveUser(_)
            | Effect::TellDurable
            | Effect::Plan { .. }
            | Effect::Appraise { .. }
            | Effect::PlanFlow { .. }
            | Effect::Reload { .. }
            | Effect::PlanWakes(_)
            | Effect::Power(_)
            | Effect::Mail { .. } => self.outside.perform(effect),
        }
    }

    /// The mark signed; where nothing has happened since, it is the same again.
    fn signed(&mut self, mark: StoreMark) -> OsText {
        if self.mark.0 != mark {
            self.mark = (mark, cosy_proto::mark::sign(&mark, &self.key));
        }
        self.mark.1.clone()
    }

    fn sign(&self, allocation: &mut Allocation, expiry: Time, holder: String) {
        allocation.ticket = self.ticket(&Claims {
            key: allocation.key,
            uid: allocation.uid,
            gid: allocation.gid,
            groups: allocation.groups.clone(),
            nodes: allocation.nodes.clone(),
            expiry,
            holder,
            seal: ticket::seal(allocation.key, &self.key),
            epoch: self.epoch,
        });
    }

    fn pass(&self, claims: &PassClaims) -> Reply {
        Reply::Pass(pass::sign(claims, &self.key))
    }

    fn ticket(&self, claims: &Claims) -> OsText {
        ticket::sign(claims, &self.key)
    }

    /// Adds script and variables of the submission.
    fn complete(&mut self, launch: &mut Launch, submission: JobId) {
        match self.payloads.get(&self.store, submission) {
            Ok(payload) => {
                launch.script = payload.script.clone();
                let mut all = payload.environment.0.clone();
                if !all.is_empty() && all.last() != Some(&0) {
                    all.push(0);
                }
                all.extend_from_slice(&launch.environment.0);
                launch.environment = OsText(all);
            }
            // The node then reports that there is nothing to run.
            Err(e) => tracing::error!("the script of job {submission} cannot be read: {e}"),
        }
    }
}

fn short(e: &StoreError) -> String {
    match e {
        StoreError::Sql { source, .. } => source.to_string(),
        StoreError::Row { .. }
        | StoreError::Archive { .. }
        | StoreError::Deposed
        | StoreError::Promise(_)
        | StoreError::Unfinished { .. }
        | StoreError::TooNew { .. } => e.to_string(),
    }
}
