//! The state and its two entrances: [`Controller::handle`] and [`Controller::settle`].

use crate::clock::{Clocks, TICK};
use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::event::{Batch, Effect, Event};
use crate::jobs::Jobs;
use crate::jobs::dependencies::Dependencies;
use crate::jobs::reviews::Steps;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::procedures::older_store::LostStore;
use crate::queues::Queues;
use crate::record::Record;
use crate::reservations::Reservations;
use crate::set_aside::{Aside, Object};
use crate::triggers::Triggers;
use crate::turn::Turn;
use crate::workflows::Workflows;
use cosy_model::{JobId, Moment, Span, Time};
use cosy_sched::Scheduler;
use cosy_sched::notice::Share;

/// The controller.
///
/// Errors never leave [`Controller::handle`]: what is refused is answered with a
/// refusal, what makes no sense from a node is ignored.
#[derive(Debug)]
pub struct Controller {
    pub(crate) config: ClusterConfig,
    pub(crate) planning: Planning,
    pub(crate) machine: Machine,
    pub(crate) queues: Queues,
    pub(crate) jobs: Jobs,
    pub(crate) conversations: Conversations,
    pub(crate) reservations: Reservations,
    pub(crate) workflows: Workflows,
    pub(crate) triggers: Triggers,
    /// What is kept in the store and not taken up.
    pub(crate) aside: Aside,
    /// What is known of a store that is lost.
    pub(crate) lost_store: LostStore,
    /// What passes is measured on them.
    pub(crate) clocks: Clocks,
    /// What this turn has decided.
    pub(crate) turn: Turn,
}

impl Controller {
    pub(crate) fn empty(config: ClusterConfig, sched: Scheduler, at: Moment) -> Self {
        let now = at.wall;
        Self {
            config,
            planning: Planning::new(sched),
            machine: Machine::default(),
            queues: Queues::default(),
            jobs: Jobs::new(1, Dependencies::default()),
            conversations: Conversations::default(),
            reservations: Reservations::new(now),
            workflows: Workflows::new(now),
            triggers: Triggers::default(),
            aside: Aside::default(),
            lost_store: LostStore::default(),
            clocks: Clocks::new(at),
            turn: Turn::default(),
        }
    }

    /// Takes one event. What is decided is handed out by [`Controller::settle`].
    pub fn handle(&mut self, now: impl Into<Moment>, event: Event) {
        let at = now.into();
        self.look_at_clocks(at);
        let now = at.wall;
        match event {
            Event::Asked {
                client,
                caller,
                key,
                request,
                facts,
            } => self.asked(now, client, &caller, key, request, facts),
            Event::ClientGone(client) => self.client_gone(now, client),
            Event::ClientLost(client) => self.client_lost(now, client),
            Event::LinkOpened {
                link,
                peer,
                address,
                hello,
            } => self.link_opened(now, link, peer, address, hello),
            Event::LinkReported { link, report } => self.link_reported(now, link, report),
            Event::LinkClosed(link) => self.link_closed(link),
            Event::UserResolved { uid, result } => self.user_resolved(now, uid, result),
            Event::Planned { plan, predictions } => self.planned(now, plan, predictions),
            Event::Appraised { appraisal, result } => self.appraised(now, appraisal, *result),
            Event::FlowPlanned { plan, result } => self.flow_planned(now, plan, *result),
            Event::Reconfigured(config) => self.reconfigure(now, *config),
            Event::BecameDurable => {
                self.turn.told_durable();
                self.next_piece(now);
            }
            Event::Ticked => {}
        }
    }

    /// Starts what can start now, looks at what depends on time, and hands out what
    /// was decided since the last call. Call it after every turn of events.
    pub fn settle(&mut self, now: impl Into<Moment>) -> Batch {
        let at = now.into();
        self.look_at_clocks(at);
        let now = at.wall;
        self.listen();
        if let Some(before) = self.clocks.next_tick(at) {
            self.mail_shares(before, now);
            self.watch_time(now);
            self.tick(now);
        }
        self.changes_due(now);
        self.begin_due(now);
        self.reservations_due(now);
        self.held_due(now);
        self.resume_due(now);
        self.lonely_due(now);
        self.flows_due(now);
        let mut steps = Steps::of_turn();
        self.review_line(now, &mut steps);
        self.licenses_due(now);
        self.start_jobs(now);
        self.review_line(now, &mut steps);
        self.flows_due(now); // what could not be started may have ended
        self.answer_allocations();
        self.list_next(now);
        self.conversations.clear_left_waits();
        self.triggers_due(now);
        for id in self.jobs.take_changed() {
            self.works_on(Object::Job(id));
            self.save_job(id);
        }
        self.drop_closed_planners();
        self.save_reservations();
        self.save_flows();
        self.save_triggers();
        self.save_clocks();
        self.go_on_when_durable();
        self.turn.end()
    }

    /// What is left of long work is gone on with when this turn's batch is durable.
    fn go_on_when_durable(&mut self) {
        let left = !self.jobs.are_reviewed() || self.conversations.is_unfinished();
        if left {
            self.turn.tell_durable();
        }
    }

    /// When [`Controller::settle`] should be called although nothing happened.
    pub fn next_wakeup(&self, now: Time) -> Time {
        self.next_due()
            .map_or(now + TICK, |due| due.min(now + TICK))
    }

    /// The next time of which the controller itself knows something to do; nothing between
    /// now and then depends on time but silent nodes, limits and what is forgotten.
    pub fn next_due(&self) -> Option<Time> {
        let next = [
            self.jobs.next_due(),
            self.conversations.next_due(),
            self.reservations.next_due(),
            self.workflows.next_due(),
            self.triggers.next_due(),
            self.machine.next_due(),
        ];
        next.into_iter().flatten().min()
    }

    /// What the notice rule of the cluster looks at now: the share of reservations, `None`
    /// while there are too few requests, and the mean wait of queued jobs.
    pub fn notice_figures(&self, now: Time) -> (Option<Share>, Span) {
        let (figures, policy) = (
            self.reservations.figures(),
            &self.config.reservations.notice,
        );
        (figures.share(now, policy), figures.mean_wait(now, policy))
    }

    /// How often it has looked at a job since the start, for requests, lists and because of what
    /// has happened to others: a measure of the work of a turn.
    pub const fn looks(&self) -> u64 {
        self.turn.looks()
    }

    /// How often the planner has entered every waiting job anew.
    pub const fn placings(&self) -> u64 {
        self.planning.placings()
    }

    /// Number of jobs that wait or run.
    pub fn live_jobs(&self) -> usize {
        self.jobs.len()
    }

    fn tick(&mut self, now: Time) {
        self.check_clocks(now);
        self.check_nodes(now);
        self.check_limits(now);
        self.check_users(now);
        self.choose_again(now);
        self.licenses_left(now);
        self.planning.tick();
        self.part_queues();
        self.check_reservations(now);
        self.check_overruns(now);
        self.save_starts();
        self.forget_old(now);
    }

    fn save_starts(&mut self) {
        for id in self.jobs.take_started() {
            self.save_job(id);
        }
    }

    fn forget_old(&mut self, now: Time) {
        let keep = self.config.policy.keep_ended;
        self.jobs.forget_ended(now, keep);
        let steady = self.clocks.steady;
        if self.clocks.is_time_to_forget() {
            self.conversations
                .forget_answers(&mut self.turn, now, steady);
            self.machine.keys_mut().forget_expired(&mut self.turn, now);
        }
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.turn.record(record);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.turn.effect(effect);
    }

    /// Writes a line of history.
    pub(crate) fn happened(
        &mut self,
        at: Time,
        what: &str,
        who: &str,
        object: String,
        detail: String,
    ) {
        self.turn.happened(at, what, who, object, detail);
    }

    /// Writes a live job's row.
    pub(crate) fn save_job(&mut self, id: JobId) {
        self.stands_apart(id);
        if let Some(job) = self.jobs.get(&id) {
            let row = job.row(&|n| self.machine.name(n).to_owned());
            self.record(Record::Job(Box::new(row)));
        }
    }
}
