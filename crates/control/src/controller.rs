//! The state and its two entrances: [`Controller::handle`] and [`Controller::settle`].

use crate::answers::Answers;
use crate::aside::{Aside, Object, Witness};
use crate::attend::Attending;
use crate::came::Came;
use crate::clock::Clocks;
use crate::config::ClusterConfig;
use crate::depend::{Awaited, Waiter};
use crate::elsewhere::Undecided;
use crate::event::{Batch, ClientId, Effect, Event, LinkId};
use crate::features::Choosers;
use crate::flow::{FlowPlans, Flows};
use crate::interactive::Allocating;
use crate::job::{Group, Job};
use crate::licenses::Unlicensed;
use crate::machine::Changes;
use crate::many::BulkRequest;
use crate::nodes::{Link, Node};
use crate::older::Lost;
use crate::own_queues::FileQueues;
use crate::passage::AskedPassage;
use crate::queues::Queue;
use crate::record::{OwnQueue, Record};
use crate::request::{KnownUser, LastPlan, PendingPlan};
use crate::reserve::Reservations;
use crate::reviews::{Reviews, Steps};
use crate::triggers::Triggers;
use crate::wait::Waits;
use cosy_model::api::HistoryEvent;
use cosy_model::{
    Attempt, JobId, JobState, Moment, NodeId, ReservationId, Span, Steady, Time, Uid,
};
use cosy_sched::Scheduler;
use cosy_sched::notice::Share;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How often time-dependent things are looked at when nothing else happens.
pub(crate) const TICK: Span = Span::from_secs(1);
/// Answers of changing requests are remembered for so long.
const REMEMBER_ANSWERS: Span = Span::from_secs(3600);
/// Most ended jobs kept in memory.
const ENDED_IN_MEMORY: usize = 100_000;

/// A job that ended moments ago.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// When it was over. It may have waited again since an earlier end.
    pub at: Time,
    pub row: Box<crate::record::JobRow>,
    pub submitted: std::sync::Arc<crate::job::Submitted>,
    pub state: JobState,
    pub exit_code: i32,
    pub signal: i32,
}

/// The controller.
///
/// Errors never leave [`Controller::handle`]: what is refused is answered with a
/// refusal, what makes no sense from a node is ignored.
#[derive(Debug)]
pub struct Controller {
    pub(crate) config: ClusterConfig,
    pub(crate) sched: Scheduler,
    pub(crate) nodes: Vec<Node>,
    pub(crate) node_ids: BTreeMap<String, NodeId>,
    pub(crate) queues: Vec<Queue>,
    /// Queues of the configuration.
    pub(crate) file_queues: FileQueues,
    /// Queues that were made, changed or taken away at run time.
    pub(crate) own_queues: BTreeMap<String, OwnQueue>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) groups: BTreeMap<JobId, Group>,
    pub(crate) ended: BTreeMap<JobId, Ended>,
    pub(crate) ended_order: VecDeque<(Time, JobId)>,
    pub(crate) next_job: u64,
    pub(crate) last_event: u64,
    pub(crate) begins: BTreeSet<(Time, JobId)>,
    /// Who waits for a live job or array, by its first id.
    pub(crate) dependents: BTreeMap<JobId, Awaited>,
    /// Who names a job in a dependency, by the id that is named, also while it has ended: it
    /// may be put back into the queue.
    pub(crate) named: BTreeMap<JobId, BTreeSet<Waiter>>,
    /// Waiting jobs that are to be looked at again.
    pub(crate) reviews: Reviews,
    /// The latest start of what has ended and others wait for, by its first id.
    pub(crate) last_starts: BTreeMap<JobId, Time>,
    /// How jobs ended that others wait for, when they are no longer in memory.
    pub(crate) facts: BTreeMap<cosy_model::api::JobRef, bool>,
    /// First ids of live submissions by user and job name.
    pub(crate) names: BTreeMap<(Uid, String), BTreeSet<JobId>>,
    /// Live jobs by user, each part of a job counted.
    pub(crate) jobs_of: BTreeMap<Uid, u32>,
    pub(crate) users: BTreeMap<Uid, KnownUser>,
    pub(crate) links: BTreeMap<LinkId, Link>,
    pub(crate) node_keys: BTreeMap<String, String>,
    /// Keys that were revoked: of which node, when.
    pub(crate) revoked: BTreeMap<String, (String, Time)>,
    pub(crate) tokens: BTreeMap<String, (String, Time)>,
    /// Passages that wait for a look-up of that user.
    pub(crate) passages: Vec<(Uid, AskedPassage)>,
    pub(crate) answers: Answers,
    /// Commands that wait for jobs to end.
    pub(crate) waits: Waits,
    /// Requests that concern many jobs, the one whose turn is next first.
    pub(crate) bulk: VecDeque<BulkRequest>,
    /// Those that wait until fewer are under way.
    pub(crate) bulk_line: VecDeque<BulkRequest>,
    /// Lists that are being made, the one whose turn it is first.
    pub(crate) listings: VecDeque<crate::listing::List>,
    /// This turn has had its piece of a list.
    pub(crate) listed: bool,
    pub(crate) plans: BTreeMap<u64, PendingPlan>,
    pub(crate) last_plan: LastPlan,
    pub(crate) next_plan: u64,
    /// Jobs whose start is not in their row yet.
    pub(crate) unsaved_starts: BTreeSet<JobId>,
    /// Orders that wait for the user's groups: they are sent when those are known.
    pub(crate) unordered: BTreeSet<(JobId, NodeId)>,
    /// Jobs whose row is to be written at the end of the turn, once.
    pub(crate) dirty: BTreeSet<JobId>,
    /// Ends of jobs in which nothing is launched: the controller itself ends those.
    pub(crate) held_ends: BTreeSet<(Time, JobId)>,
    /// Jobs whose cores others may have.
    pub(crate) lending: BTreeSet<JobId>,
    /// Live interactive jobs by user.
    pub(crate) interactive: BTreeMap<Uid, BTreeSet<JobId>>,
    /// Who stays with which job.
    pub(crate) attending: BTreeMap<JobId, Attending>,
    /// The same by command.
    pub(crate) attendants: BTreeMap<ClientId, JobId>,
    /// Jobs whose command may come again, by the time until which.
    pub(crate) lonely: BTreeSet<(Time, JobId)>,
    /// Requests for allocations that are answered at the end of the turn.
    pub(crate) allocating: Vec<Allocating>,
    /// Licences that jobs hold.
    pub(crate) licenses_used: cosy_model::Counted,
    /// Running jobs with mail at shares of their limits.
    pub(crate) mailing: BTreeSet<JobId>,
    /// Jobs that have a choice between groups of nodes.
    pub(crate) choosers: Choosers,
    /// Queues that are one for the planner.
    pub(crate) joint: crate::bundles::Joint,
    /// Jobs that wait and may go to one of several queues.
    pub(crate) undecided: Undecided,
    /// Jobs that wait for licences, and those in planners' queues that want some.
    pub(crate) unlicensed: Unlicensed,
    /// What nodes have become and was not acted upon yet.
    pub(crate) changes: Changes,
    pub(crate) reservations: Reservations,
    /// Plans of workflows under way.
    pub(crate) flow_plans: FlowPlans,
    pub(crate) flows: Flows,
    pub(crate) triggers: Triggers,
    /// Jobs that name a reservation, by it.
    pub(crate) within: BTreeMap<ReservationId, BTreeSet<Waiter>>,
    /// Jobs that a reservation's own planner has, not the cluster's.
    pub(crate) inside: BTreeMap<JobId, ReservationId>,
    /// What is kept in the store and not taken up.
    pub(crate) aside: Aside,
    /// Ids of jobs that a store has given out that is lost.
    pub(crate) lost_ids: Lost,
    /// Attempts of which the store knows nothing and that have ended: of each job the last.
    pub(crate) over_strays: BTreeMap<JobId, Attempt>,
    pub(crate) witness: Option<Arc<dyn Witness>>,
    pub(crate) started_at: Time,
    /// Jobs before this one are of earlier controllers.
    pub(crate) first_own: JobId,
    /// By which dates jobs stand in line.
    pub(crate) came: Came,
    /// What passes is measured on them.
    pub(crate) clocks: Clocks,
    /// Looks at jobs since the start, for whatever reason: a measure of work.
    pub(crate) looks: u64,
    pub(crate) placings: u64,
    pub(crate) out: Batch,
    /// An [`Effect::TellDurable`] is under way.
    told: bool,
    pub(crate) last_tick: Time,
    ticked: Steady,
    forgotten: Steady,
    /// Answers are not forgotten before, because nobody knows how old they are.
    answers_rest: Option<Steady>,
}

impl Controller {
    pub(crate) fn empty(config: ClusterConfig, sched: Scheduler, at: Moment) -> Self {
        let now = at.wall;
        Self {
            config,
            sched,
            nodes: Vec::new(),
            node_ids: BTreeMap::new(),
            queues: Vec::new(),
            file_queues: FileQueues::default(),
            own_queues: BTreeMap::new(),
            jobs: BTreeMap::new(),
            groups: BTreeMap::new(),
            ended: BTreeMap::new(),
            ended_order: VecDeque::new(),
            next_job: 1,
            last_event: 0,
            begins: BTreeSet::new(),
            dependents: BTreeMap::new(),
            named: BTreeMap::new(),
            reviews: Reviews::default(),
            last_starts: BTreeMap::new(),
            told: false,
            facts: BTreeMap::new(),
            names: BTreeMap::new(),
            jobs_of: BTreeMap::new(),
            users: BTreeMap::new(),
            links: BTreeMap::new(),
            node_keys: BTreeMap::new(),
            revoked: BTreeMap::new(),
            tokens: BTreeMap::new(),
            passages: Vec::new(),
            answers: Answers::default(),
            waits: Waits::default(),
            bulk: VecDeque::new(),
            bulk_line: VecDeque::new(),
            listings: VecDeque::new(),
            listed: false,
            plans: BTreeMap::new(),
            last_plan: LastPlan::default(),
            next_plan: 1,
            unsaved_starts: BTreeSet::new(),
            unordered: BTreeSet::new(),
            dirty: BTreeSet::new(),
            held_ends: BTreeSet::new(),
            lending: BTreeSet::new(),
            interactive: BTreeMap::new(),
            attending: BTreeMap::new(),
            attendants: BTreeMap::new(),
            lonely: BTreeSet::new(),
            allocating: Vec::new(),
            licenses_used: cosy_model::Counted::default(),
            mailing: BTreeSet::new(),
            choosers: Choosers::default(),
            joint: crate::bundles::Joint::default(),
            undecided: Undecided::default(),
            unlicensed: Unlicensed::default(),
            changes: Changes::default(),
            reservations: Reservations::new(now),
            flow_plans: FlowPlans::new(now),
            flows: Flows::default(),
            triggers: Triggers::default(),
            within: BTreeMap::new(),
            inside: BTreeMap::new(),
            aside: Aside::default(),
            lost_ids: Lost::default(),
            over_strays: BTreeMap::new(),
            witness: None,
            started_at: now,
            first_own: JobId(1),
            came: Came::default(),
            clocks: Clocks::new(at),
            looks: 0,
            placings: 0,
            out: Batch::default(),
            last_tick: now - TICK,
            ticked: Steady(at.steady.0.saturating_sub(TICK.ms())), // the first turn looks at everything
            forgotten: at.steady,
            answers_rest: None,
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
                self.told = false;
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
        if at.steady.since(self.ticked) >= TICK {
            self.ticked = at.steady;
            let before = std::mem::replace(&mut self.last_tick, now);
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
        self.waits.clear();
        self.triggers_due(now);
        for id in std::mem::take(&mut self.dirty) {
            self.works_on(Object::Job(id));
            self.save_job(id);
        }
        self.drop_closed_planners();
        self.save_reservations();
        self.save_flows();
        self.save_triggers();
        self.save_clocks();
        self.go_on_when_durable();
        std::mem::take(&mut self.out)
    }

    /// What is left of long work is gone on with when this turn's batch is durable.
    fn go_on_when_durable(&mut self) {
        let left = !self.bulk.is_empty() || !self.reviews.is_empty() || !self.waits.are_cleared();
        if left && !self.told {
            self.told = true;
            self.effect(Effect::TellDurable);
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
        let begin = self.begins.first().map(|(begin, _)| *begin);
        let held = self.held_ends.first().map(|(end, _)| *end);
        let lonely = self.lonely.first().map(|(until, _)| *until);
        let next = [
            begin,
            held,
            lonely,
            self.reservations.next_due(),
            self.flows.next_due(),
            self.triggers.next_due(),
            self.changes.next_due(),
        ];
        next.into_iter().flatten().min()
    }

    /// What the notice rule of the cluster looks at now: the share of reservations, `None`
    /// while there are too few requests, and the mean wait of queued jobs.
    pub fn notice_figures(&self, now: Time) -> (Option<Share>, Span) {
        let (figures, policy) = (&self.reservations.figures, &self.config.reservations.notice);
        (figures.share(now, policy), figures.mean_wait(now, policy))
    }

    /// How often it has looked at a job since the start, for requests, lists and because of what
    /// has happened to others: a measure of the work of a turn.
    pub const fn looks(&self) -> u64 {
        self.looks
    }

    /// How often the planner has entered every waiting job anew.
    pub const fn placings(&self) -> u64 {
        self.placings
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
        self.undecided.tick();
        self.part_queues();
        self.check_reservations(now);
        self.check_overruns(now);
        self.save_starts();
        self.forget_old(now);
    }

    fn save_starts(&mut self) {
        for id in std::mem::take(&mut self.unsaved_starts) {
            self.save_job(id);
        }
    }

    fn forget_old(&mut self, now: Time) {
        let keep = self.config.policy.keep_ended;
        while let Some(&(at, id)) = self.ended_order.front() {
            if now.since(at) < keep && self.ended_order.len() <= ENDED_IN_MEMORY {
                break;
            }
            self.ended_order.pop_front();
            if self.ended.get(&id).is_some_and(|ended| ended.at == at) {
                self.ended.remove(&id);
                self.last_starts.remove(&id);
            }
        }
        let steady = self.clocks.steady;
        if steady.since(self.forgotten) > Span::from_minutes(10) {
            self.forgotten = steady;
            self.forget_old_answers(now);
            let old: Vec<String> = self
                .tokens
                .iter()
                .filter(|(_, (_, expiry))| *expiry < now)
                .map(|(hash, _)| hash.clone())
                .collect();
            for hash in old {
                self.tokens.remove(&hash);
                self.record(Record::TokenGone { hash });
            }
        }
    }

    fn forget_old_answers(&mut self, now: Time) {
        if self
            .answers_rest
            .is_some_and(|until| self.clocks.steady < until)
        {
            return;
        }
        self.answers_rest = None;
        let before = now - REMEMBER_ANSWERS;
        self.answers.forget_before(before);
        self.record(Record::ForgetAnswers { before });
    }

    /// The clock was set by `by`. All answers look older or younger than they are: none is
    /// forgotten until all that there are now are old enough.
    pub(crate) fn answers_rest(&mut self, by: Span) {
        if by > Span::ZERO {
            let until = self.clocks.steady.0.saturating_add(REMEMBER_ANSWERS.ms());
            self.answers_rest = Some(Steady(until));
        }
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.out.records.push(record);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.out.effects.push(effect);
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
        self.last_event += 1;
        let event = HistoryEvent {
            seq: self.last_event,
            at,
            what: what.to_owned(),
            who: who.to_owned(),
            object,
            detail,
        };
        self.record(Record::Happened(event));
    }

    /// Writes a live job's row.
    pub(crate) fn save_job(&mut self, id: JobId) {
        self.stands_apart(id);
        if let Some(job) = self.jobs.get(&id) {
            let row = job.row(&|n| self.nodes[n.index()].spec.name.clone());
            self.record(Record::Job(Box::new(row)));
        }
    }
}
