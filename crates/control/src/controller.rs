//! The state and its two entrances: [`Controller::handle`] and [`Controller::settle`].

use crate::clock::procedures::{check_clocks, listen, look_at_clocks};
use crate::clock::{Clocks, TICK};
use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::attending::client_lost;
use crate::conversations::described::describe;
use crate::conversations::explained::planned;
use crate::conversations::interactive::procedures::answer_allocations;
use crate::conversations::listing::procedures::list_next;
use crate::conversations::mail::procedures::mail_shares;
use crate::conversations::predictions::procedures::overdue_starts;
use crate::conversations::requests::procedures::check_users;
use crate::event::{Batch, Event};
use crate::jobs::Jobs;
use crate::jobs::dependencies::Dependencies;
use crate::jobs::limits::ageing::ages_due;
use crate::jobs::limits::procedures::{count_anew, runs};
use crate::jobs::restore::procedures::{build_queues, load_answers};
use crate::jobs::restore::{RowsOfJobs, policy};
use crate::jobs::reviews::Steps;
use crate::jobs::save::save_job;
use crate::machine::Machine;
use crate::machine::keys::Keys;
use crate::machine::nodes::procedures::{configured_again, link_closed};
use crate::machine::older_store::LostStore;
use crate::machine::reports::check_limits;
use crate::planning::Planning;
use crate::planning::pools::procedures::{configure_licenses, license_times_pass, tell_holders};
use crate::planning::rebuild::{part_queues, tell_planner};
use crate::planning::suspension::resume_due;
use crate::policy::Policy;
use crate::procedures::attending::{client_gone, lonely_due};
use crate::procedures::bulk::next_piece;
use crate::procedures::end::held_due;
use crate::procedures::features::choose_again;
use crate::procedures::keys::{all_keys_due, keys_due};
use crate::procedures::launch::start_jobs;
use crate::procedures::limits::{limits_due, minutes_due};
use crate::procedures::node_changes::changes_due;
use crate::procedures::node_lost::check_nodes;
use crate::procedures::node_reports::link_reported;
use crate::procedures::older_store::take_up_backup;
use crate::procedures::policy::books_are_in_the_tree;
use crate::procedures::power::{look_at_power, power_due, power_ended, wakes_planned};
use crate::procedures::preemption::{make_room, room_is_due};
use crate::procedures::requests::{asked, user_resolved};
use crate::procedures::reservations::appraisal::appraised;
use crate::procedures::reservations::course::reservations_due;
use crate::procedures::reservations::end::inside_ends_due;
use crate::procedures::reservations::repair::check_reservations;
use crate::procedures::restore::{load_jobs, reconfigure};
use crate::procedures::reviews::review_line;
use crate::procedures::workflows::course::{flows_due, load_flows};
use crate::procedures::workflows::replan::flow_planned;
use crate::queues::Queues;
use crate::queues::administered::OwnQueues;
use crate::queues::scores::procedures::{charge, save_usage};
use crate::record::{Loaded, NodeRow};
use crate::reservations::load::procedures::load_reservations;
use crate::reservations::procedures::save_reservations;
use crate::reservations::{LoadedReservations, Reservations};
use crate::rooms::Rooms;
use crate::set_aside::procedures::close_unread_nodes;
use crate::set_aside::{Aside, Object, Witness};
use crate::triggers::Triggers;
use crate::triggers::run::{load_triggers, triggers_due};
use crate::triggers::watch::procedures::watch_time;
use crate::turn::{Asker, Turn};
use crate::workflows::Workflows;
use crate::workflows::grow::check_overruns;
use cosy_model::history::{CONTROLLER, EventKind, EventObject};
use cosy_model::{ClockReading, QueueState, Span, Time, Uid};
use cosy_sched::Scheduler;
use cosy_sched::notice::Share;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The controller.
///
/// Errors never leave [`Controller::handle`]: what is refused is answered with a
/// refusal, what makes no sense from a node is ignored.
#[derive(Debug)]
pub struct Controller {
    rooms: Rooms,
    /// What this turn has decided.
    turn: Turn,
}

impl Controller {
    pub(crate) fn empty(config: ClusterConfig, sched: Scheduler, at: ClockReading) -> Self {
        let now = at.wall;
        let rooms = Rooms {
            config,
            policy: Policy::default(),
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
        };
        Self {
            rooms,
            turn: Turn::default(),
        }
    }

    /// For the invariants, which look at every room.
    pub(crate) const fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Takes one event. What is decided is handed out by [`Self::settle`].
    pub fn handle(&mut self, now: impl Into<ClockReading>, event: Event) {
        let at = now.into();
        self.turn.begin(at.wall);
        look_at_clocks(&mut self.rooms, &mut self.turn, at);
        let now = at.wall;
        match event {
            Event::Asked {
                client,
                caller,
                key,
                request,
                facts,
            } => {
                let asker = Asker {
                    client,
                    caller: &caller,
                    key,
                };
                asked(&mut self.rooms, &mut self.turn, asker, request, facts)
            }
            Event::DescriptionsWanted(wanted) => describe(&self.rooms, &mut self.turn, &wanted),
            Event::ClientGone(client) => client_gone(&mut self.rooms, &mut self.turn, client),
            Event::ClientLost(client) => client_lost(
                &self.rooms.config,
                &self.rooms.jobs,
                &mut self.rooms.conversations,
                now,
                client,
            ),
            Event::LinkOpened {
                link,
                peer,
                address,
                hello,
            } => self.rooms.machine.link_opened(
                &self.rooms.config,
                &mut self.turn,
                link,
                peer,
                address,
                hello,
            ),
            Event::LinkReported { link, report } => {
                link_reported(&mut self.rooms, &mut self.turn, link, report)
            }
            Event::LinkClosed(link) => link_closed(&mut self.rooms, &mut self.turn, link),
            Event::UserResolved { uid, result } => {
                user_resolved(&mut self.rooms, &mut self.turn, uid, result)
            }
            Event::Planned { plan, predictions } => {
                planned(&mut self.rooms, &mut self.turn, plan, predictions)
            }
            Event::Appraised { appraisal, result } => {
                appraised(&mut self.rooms, &mut self.turn, appraisal, *result)
            }
            Event::FlowPlanned { plan, result } => {
                flow_planned(&mut self.rooms, &mut self.turn, plan, *result)
            }
            Event::WakesPlanned(plan) => wakes_planned(&mut self.rooms, &mut self.turn, plan),
            Event::PowerEnded(end) => power_ended(&mut self.rooms, &mut self.turn, *end),
            Event::Reconfigured(config) => reconfigure(&mut self.rooms, &mut self.turn, *config),
            Event::StoreJudged { weak } => store_judged(&mut self.turn, weak),
            Event::BecameDurable => {
                self.turn.told_durable();
                next_piece(&mut self.rooms, &mut self.turn);
            }
            Event::Ticked => {}
        }
        inside_ends_due(&mut self.rooms, &mut self.turn);
    }

    /// Starts what can start now, looks at what depends on time, and hands out what
    /// was decided since the last call. Call it after every turn of events.
    pub fn settle(&mut self, now: impl Into<ClockReading>) -> Batch {
        let at = now.into();
        self.turn.begin(at.wall);
        look_at_clocks(&mut self.rooms, &mut self.turn, at);
        let now = at.wall;
        listen(&self.rooms.config, &mut self.rooms.clocks, &mut self.rooms.machine);
        if let Some(before) = self.rooms.clocks.next_tick(at) {
            mail_shares(
                &self.rooms.config,
                &self.rooms.jobs,
                &mut self.rooms.conversations,
                &mut self.turn,
                before,
            );
            watch_time(&self.rooms.machine, &self.rooms.jobs, &mut self.rooms.triggers, now);
            self.tick(now);
        }
        changes_due(&mut self.rooms, &mut self.turn);
        self.rooms.jobs.begin_due(now);
        reservations_due(&mut self.rooms, &mut self.turn);
        room_is_due(&mut self.rooms, &mut self.turn);
        held_due(&mut self.rooms, &mut self.turn);
        resume_due(&mut self.rooms, &mut self.turn);
        lonely_due(&mut self.rooms, &mut self.turn);
        flows_due(&mut self.rooms, &mut self.turn);
        inside_ends_due(&mut self.rooms, &mut self.turn);
        let mut steps = Steps::of_turn();
        review_line(&mut self.rooms, &mut self.turn, &mut steps);
        limits_due(&mut self.rooms, &mut self.turn);
        ages_due(&mut self.rooms, &mut self.turn);
        keys_due(&mut self.rooms, &mut self.turn);
        power_due(&mut self.rooms, &mut self.turn);
        start_jobs(&mut self.rooms, &mut self.turn);
        make_room(&mut self.rooms, &mut self.turn);
        inside_ends_due(&mut self.rooms, &mut self.turn);
        review_line(&mut self.rooms, &mut self.turn, &mut steps);
        flows_due(&mut self.rooms, &mut self.turn); // what could not be started may have ended
        inside_ends_due(&mut self.rooms, &mut self.turn);
        answer_allocations(&mut self.rooms, &mut self.turn);
        list_next(&mut self.rooms, &mut self.turn);
        self.rooms.conversations.clear_left_waits();
        triggers_due(&mut self.rooms, &mut self.turn);
        for id in self.rooms.jobs.take_changed() {
            let rooms = &mut self.rooms;
            charge(&rooms.config, &rooms.machine, &mut rooms.queues, &rooms.jobs, id);
            runs(rooms, id);
            self.rooms.aside.works_on(Object::Job(id));
            save_job(&self.rooms.machine, &mut self.rooms.jobs, &mut self.turn, id);
        }
        save_usage(&mut self.rooms.queues, &mut self.turn);
        self.rooms.reservations.drop_closed_planners();
        save_reservations(
            &self.rooms.machine,
            &mut self.rooms.reservations,
            &mut self.rooms.workflows,
            &mut self.turn,
        );
        self.rooms.workflows.save_flows(&mut self.turn);
        self.rooms.triggers.save_triggers(&mut self.turn);
        self.rooms.clocks.save_clocks(&mut self.turn);
        self.go_on_when_durable();
        self.turn.end()
    }

    /// What is left of long work is gone on with when this turn's batch is durable.
    fn go_on_when_durable(&mut self) {
        let left = !self.rooms.jobs.are_reviewed()
            || self.rooms.conversations.is_unfinished()
            || self.rooms.queues.scores().is_due()
            || self.rooms.policy.counts().age_is_due()
            || self.rooms.jobs.parked().is_due();
        if left {
            self.turn.tell_durable();
        }
    }

    /// When [`Self::settle`] should be called although nothing happened.
    pub fn next_wakeup(&self, now: Time) -> Time {
        self.next_due()
            .map_or(now + TICK, |due| due.min(now + TICK))
    }

    /// The next time of which the controller itself knows something to do; nothing between
    /// now and then depends on time but silent nodes, limits and what is forgotten.
    pub fn next_due(&self) -> Option<Time> {
        let next = [
            self.rooms.jobs.next_due(),
            self.rooms.conversations.next_due(),
            self.rooms.reservations.next_due(),
            self.rooms.workflows.next_due(),
            self.rooms.triggers.next_due(),
            self.rooms.machine.next_due(),
            self.rooms.queues.scores().next_due(),
            self.rooms.planning.room().next_due(),
        ];
        next.into_iter().flatten().min()
    }

    /// What the notice rule of the cluster looks at now: the share of reservations, `None`
    /// while there are too few requests, and the mean wait of queued jobs.
    pub fn notice_figures(&self, now: Time) -> (Option<Share>, Span) {
        let (figures, policy) =
            (self.rooms.reservations.figures(), &self.rooms.config.reservations.notice);
        (figures.share(now, policy), figures.mean_wait(now, policy))
    }

    /// How often it has looked at a job since the start, for requests, lists and because of what
    /// has happened to others: a measure of the work of a turn.
    pub const fn looks(&self) -> u64 {
        self.turn.looks()
    }

    /// How often the planner has entered every waiting job anew.
    pub const fn placings(&self) -> u64 {
        self.rooms.planning.placings()
    }

    /// Number of jobs that wait or run.
    pub fn live_jobs(&self) -> usize {
        self.rooms.jobs.len()
    }

    /// How many of them a user has, each component of a job counted.
    pub fn jobs_of(&self, uid: Uid) -> u32 {
        self.rooms.jobs.count_of(uid)
    }

    fn tick(&mut self, now: Time) {
        check_clocks(&mut self.rooms, &mut self.turn);
        check_nodes(&mut self.rooms, &mut self.turn);
        check_limits(&self.rooms.config, &mut self.rooms.machine, &self.rooms.jobs, &mut self.turn);
        check_users(
            &self.rooms.config,
            &self.rooms.queues,
            &mut self.rooms.conversations,
            &mut self.turn,
        );
        look_at_power(&mut self.rooms, &mut self.turn);
        choose_again(&mut self.rooms, &mut self.turn);
        minutes_due(&mut self.rooms, &mut self.turn);
        self.rooms.planning.tick();
        license_times_pass(&mut self.rooms, now);
        part_queues(&mut self.rooms, &mut self.turn);
        check_reservations(&mut self.rooms, &mut self.turn);
        check_overruns(&mut self.rooms, &mut self.turn);
        overdue_starts(&mut self.rooms, &self.turn);
        self.save_starts();
        self.forget_old(now);
    }

    fn save_starts(&mut self) {
        for id in self.rooms.jobs.take_started() {
            save_job(&self.rooms.machine, &mut self.rooms.jobs, &mut self.turn, id);
        }
    }

    fn forget_old(&mut self, now: Time) {
        let keep = self.rooms.config.policy.keep_ended;
        self.rooms.jobs.forget_ended(now, keep);
        let steady = self.rooms.clocks.steady;
        if self.rooms.clocks.is_time_to_forget() {
            self.rooms
                .conversations
                .forget_answers(&mut self.turn, now, steady);
            self.rooms
                .machine
                .keys_mut()
                .forget_expired(&mut self.turn, now);
        }
    }

    /// Has somebody watch what it works on.
    #[must_use]
    pub fn watched_by(mut self, witness: Arc<dyn Witness>) -> Self {
        self.rooms.aside.watched_by(witness);
        self
    }

    /// What the configuration says of nodes beside what they have.
    fn machine_restored(&mut self, nodes: &BTreeMap<String, NodeRow>) {
        let Rooms {
            machine,
            config,
            aside,
            ..
        } = &mut self.rooms;
        machine.hang_on(&config.switches);
        let is_new = |name: &str| !nodes.contains_key(name);
        machine.configure_power(&config.power, &mut self.turn, is_new);
        close_unread_nodes(machine, aside);
    }

    /// How many jobs were placed anew because nodes have changed, since the start: a measure
    /// of work.
    pub fn placed_for_changes(&self) -> u64 {
        self.rooms.machine.changes().placed()
    }
    /// True while lists are under way: another turn is to follow at once.
    pub fn is_listing(&self) -> bool {
        self.rooms.conversations.is_listing()
    }
    /// The controller as it was when the store was last written.
    pub fn restore(
        mut config: ClusterConfig,
        loaded: Loaded,
        now: impl Into<ClockReading>,
    ) -> Self {
        let at = now.into();
        let carried = loaded.clock.as_ref().and_then(|row| row.carried_to(at));
        let (at, comparable) = (carried.unwrap_or(at), carried.is_some());
        let now = at.wall;
        let own_queues = OwnQueues::restore(&config, loaded.own_queues);
        own_queues.lay(&mut config);
        let policy = policy(&config);
        let sched = Scheduler::new(policy, Vec::new(), Vec::new());
        let mut it = Self::empty(config, sched, at);
        it.turn.begin(now);
        it.rooms.clocks.clocks_restored(comparable);
        it.rooms.queues = Queues::new(own_queues);
        let reservations = LoadedReservations {
            rows: loaded.reservations,
            next: loaded.next_reservation,
            accounts: loaded.accounts,
            last_entry: loaded.last_entry,
            figures: loaded.figures,
            hour_prices: loaded.hour_prices,
        };
        let next_job = loaded.next_job.max(it.rooms.config.first_job.0).max(1);
        it.rooms.jobs = Jobs::new(next_job, Dependencies::restore(loaded.facts));
        it.turn = Turn::after(loaded.last_event, now);
        it.rooms.lost_store = LostStore::restore(&loaded.older);
        let keys = Keys::restore(loaded.node_keys, loaded.revoked_keys, loaded.tokens);
        load_answers(&mut it.rooms.conversations, &mut it.turn, loaded.answers);
        let queue_states: BTreeMap<String, QueueState> = loaded.queues.into_iter().collect();
        let nodes: BTreeMap<String, NodeRow> = loaded.nodes.into_iter().collect();
        it.rooms.aside = Aside::new(loaded.set_aside);
        it.rooms.machine = Machine::restore(&it.rooms.config.nodes, &nodes, keys, now);
        it.machine_restored(&nodes);
        build_queues(&it.rooms.config, &it.rooms.machine, &mut it.rooms.queues, &queue_states, now);
        tell_planner(&mut it.rooms, &mut it.turn);
        it.rooms.jobs.restore_license_use(loaded.license_use);
        configure_licenses(&mut it.rooms, now);
        it.rooms.policy = Policy::restore(loaded.policy);
        count_anew(&mut it.rooms);
        it.rooms.queues.scores_mut().restore(loaded.usage, now);
        load_reservations(&mut it.rooms, &mut it.turn, reservations);
        books_are_in_the_tree(&mut it.rooms, &mut it.turn);
        let rows = RowsOfJobs {
            jobs: loaded.jobs,
            bodies: loaded.bodies,
            standings: loaded.standings,
        };
        load_jobs(&mut it.rooms, &mut it.turn, loaded.submissions, rows);
        all_keys_due(&mut it.rooms, &mut it.turn);
        it.rooms.jobs.load_steps(&loaded.steps);
        load_flows(&mut it.rooms, &mut it.turn, loaded.flows, loaded.next_flow);
        load_triggers(
            &mut it.rooms.machine,
            &it.rooms.jobs,
            &mut it.rooms.triggers,
            now,
            loaded.triggers,
            loaded.next_trigger,
        );
        for id in it.rooms.machine.ids() {
            configured_again(&mut it.rooms, &mut it.turn, id);
        }
        tell_holders(&mut it.rooms.planning, &mut it.rooms.reservations);
        take_up_backup(&mut it.rooms, &mut it.turn, loaded.restored);
        it
    }
}
/// What the database keeps has changed.
fn store_judged(turn: &mut Turn, weak: Option<String>) {
    let kind = match weak {
        Some(_) => EventKind::Degraded,
        None => EventKind::Repaired,
    };
    let now = turn.now();
    turn.happened(now, kind, CONTROLLER, EventObject::Store, weak.unwrap_or_default());
}
