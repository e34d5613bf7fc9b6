//! The clocks are looked at in every turn: what happens when somebody has set one, and judging
//! those of nodes.

use crate::clock::TICK;
use crate::clock::{LISTENS, WITNESSES, seconds, told_skew};
use crate::controller::Controller;
use crate::event::LinkId;
use crate::jobs::job::{Job, Run};
use crate::record::{ClockRow, Record};
use cosy_model::{ClockStep, End, JobId, Moment, NodeId, Span, Time, limits};

impl Controller {
    /// The store says how clocks stood, or nothing that is of use now.
    pub(crate) fn clocks_restored(&mut self, comparable: bool) {
        self.clocks.unsaved &= !comparable;
        self.clocks.unsure = !comparable;
    }

    /// How clocks stand is kept with what was counted from dates on them.
    pub(crate) fn save_clocks(&mut self) {
        if std::mem::take(&mut self.clocks.unsaved) {
            let row = ClockRow::of(self.clocks.agreed);
            self.record(Record::Clock(row));
        }
    }

    /// A node says how long a program has run. Where the store could not tell what its dates
    /// mean on the clock as it is now, the attempt is counted from then.
    pub(crate) fn has_run_for(&mut self, now: Time, id: JobId, ran: Span) {
        let run = self.jobs.get(&id).and_then(Job::run);
        let run = run.filter(|run| run.from_store && self.clocks.unsure);
        let Some(from) = run.and_then(|run| run.started) else {
            return;
        };
        let by = (now - ran).ahead_of(from);
        if by.abs() < limits::RUN_OFF {
            return;
        }
        let step = ClockStep { from, by };
        self.run_goes_on(id, step);
        if by > Span::ZERO && self.reservations.live().next().is_some() {
            self.keep_promise(now, id, by);
        }
        let detail = format!(
            "it has run for {ran}: its dates were those of another clock, and are set by {} s",
            by.ms() / 1000
        );
        self.happened(now, "dates_set", "controller", format!("job {id}"), detail);
    }

    /// Looks at the clocks; what was counted from dates is set right when one was set.
    pub(crate) fn look_at_clocks(&mut self, now: Moment) {
        if let Some((by, slept)) = self.clocks.look(now) {
            let from = Time(now.wall.0.saturating_sub(by.ms()));
            self.clock_set(now.wall, ClockStep { from, by });
            self.tell_step(now.wall, by, slept);
        }
    }

    fn tell_step(&mut self, now: Time, by: Span, slept: Span) {
        let way = if by < Span::ZERO {
            "backward"
        } else {
            "forward"
        };
        let set = Span(by.ms() - slept.ms());
        let mut told = Vec::new();
        if slept >= limits::CLOCK_STEP {
            told.push(format!("the machine slept for {slept}"));
        }
        if slept < limits::CLOCK_STEP || set.abs() >= limits::CLOCK_STEP {
            let (set, way) = match slept < limits::CLOCK_STEP {
                true => (by, way),
                false if set < Span::ZERO => (set, "backward"),
                false => (set, "forward"),
            };
            told.push(format!("set {way} by {} s", seconds(set)));
        }
        let object = "clock of the controller".to_owned();
        self.happened(now, "clock_set", "controller", object, told.join(", "));
    }

    /// The clock on the wall was set.
    fn clock_set(&mut self, now: Time, step: ClockStep) {
        self.clocks.clock_set(step);
        self.conversations.clock_set(step, self.clocks.steady);
        self.runs_go_on(now, step);
        self.jobs.clock_set(step);
        for id in self.reservations.clock_set(step) {
            self.touch_reservation(id);
        }
        self.workflows.clock_set(step);
        self.triggers.clock_set(step);
        self.nodes_set(step);
        self.planning.cluster_mut().clock_set();
    }

    /// Attempts have had as much of their time as before.
    fn runs_go_on(&mut self, now: Time, step: ClockStep) {
        let holding: Vec<JobId> = self
            .jobs
            .all()
            .filter(|job| job.run().is_some())
            .map(|job| job.id)
            .collect();
        for id in holding.iter().copied() {
            self.run_goes_on(id, step);
        }
        if step.by > Span::ZERO && self.reservations.live().next().is_some() {
            for id in holding {
                self.keep_promise(now, id, step.by);
            }
        }
    }

    fn run_goes_on(&mut self, id: JobId, step: ClockStep) {
        if let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) {
            run.clock_set(step);
            self.plan_end_again(id);
            self.jobs.changed(id);
        }
    }

    fn nodes_set(&mut self, step: ClockStep) {
        self.machine.clock_set(step);
        self.tell_policy();
    }

    /// Silence is measured in time in which the controller listened. A turn that took long
    /// counts as one look into the mailbox: what nodes said meanwhile is still in there, or
    /// on its way. After a longer gap (the machine stood still), and after any sleep,
    /// everybody has the whole of its time again.
    pub(crate) fn listen(&mut self) {
        let (steady, slept) = (self.clocks.steady, self.clocks.slept);
        let (last, slept_then) = std::mem::replace(&mut self.clocks.last_turn, (steady, slept));
        let passed = steady.since(last);
        let slept = Span(slept.ms().saturating_sub(slept_then.ms()));
        let timeout = self.config.policy.node_timeout;
        let most = Span(timeout.0 / 4).clamp(TICK, LISTENS);
        self.clocks.listened = self.clocks.listened + passed.min(most);
        if passed > Span(timeout.0 / 2).max(TICK) || slept >= limits::CLOCK_STEP {
            self.hear_all();
        }
    }

    fn hear_all(&mut self) {
        self.machine.all_heard(self.clocks.listened);
    }

    // ---- nodes

    /// The daemon of a link has told what its clock shows.
    pub(crate) fn note_clock(&mut self, now: Time, link: LinkId, told: Time) {
        let nodes = self.machine.link(link).map(|link| link.nodes.clone());
        for id in nodes.unwrap_or_default() {
            self.note_clock_of(now, id, told);
        }
    }

    pub(crate) fn note_clock_of(&mut self, now: Time, id: NodeId, told: Time) {
        self.machine.node_mut(id).clock.told(told.ahead_of(now));
        self.judge_clock(now, id);
    }

    fn is_off(&self, id: NodeId) -> Option<bool> {
        let most = self.config.policy.clock_skew;
        let ahead = self.machine.node(id).clock.ahead();
        ahead.map(|ahead| ahead.abs() > most)
    }

    /// A node with a wrong clock takes no jobs; it comes back with a right one.
    fn judge_clock(&mut self, now: Time, id: NodeId) {
        let Some(off) = self.is_off(id) else { return };
        let wrong = off && !self.clocks.doubted;
        let node = self.machine.node_mut(id);
        if std::mem::replace(&mut node.clock.wrong, wrong) == wrong {
            return;
        }
        let word = if wrong { "clock_wrong" } else { "clock_right" };
        let told = node.clock.ahead().map(told_skew).unwrap_or_default();
        let object = format!("node {}", node.spec.name);
        self.happened(now, word, "controller", object, told);
        self.update_available(id);
    }

    /// Where most nodes say that the controller's clock is wrong, theirs are not.
    pub(crate) fn check_clocks(&mut self, now: Time) {
        let linked = self
            .machine
            .ids()
            .filter(|id| self.machine.node(*id).link.is_some());
        let telling: Vec<(NodeId, bool)> = linked
            .filter_map(|id| Some((id, self.is_off(id)?)))
            .collect();
        let off = telling.iter().filter(|(_, off)| *off).count();
        let doubted = telling.len() >= WITNESSES && 2 * off > telling.len();
        if doubted != self.clocks.doubted {
            self.clocks.doubted = doubted;
            let (word, told) = match doubted {
                true => (
                    "clock_wrong",
                    format!("{off} of {} nodes say so", telling.len()),
                ),
                false => ("clock_right", String::new()),
            };
            let object = "clock of the controller".to_owned();
            self.happened(now, word, "controller", object, told);
            for (id, _) in telling {
                self.judge_clock(now, id);
            }
        }
    }

    /// A start as a node tells it, on the controller's clock: never before the nodes were
    /// given, never after now.
    pub(crate) fn start_on_our_clock(&self, now: Time, id: NodeId, run: &Run, told: Time) -> Time {
        let date = self.machine.node(id).clock.date(told);
        date.within(run.allocated, now)
    }

    /// The end of an attempt as a node tells it, on the controller's clock. Between its start
    /// and its end the node has measured on a clock that nobody sets: that length is kept.
    pub(crate) fn end_on_our_clock(&self, now: Time, id: NodeId, run: &Run, told: End) -> End {
        let first = run.started.or_else(|| {
            let start = told.start?;
            Some(self.start_on_our_clock(now, id, run, start))
        });
        let end = match (first, told.start) {
            (Some(first), Some(start)) => first + told.end.since(start),
            (Some(_) | None, None) | (None, Some(_)) => self.machine.node(id).clock.date(told.end),
        };
        End {
            start: first,
            end: end.within(first.unwrap_or(run.allocated), now),
            ..told
        }
    }

    /// When a step was, on the controller's clock: as long as its node has measured, and not
    /// before its job had the nodes, where that is known.
    pub(crate) fn step_on_our_clock(
        &self,
        now: Time,
        id: NodeId,
        run: Option<&Run>,
        told: &mut End,
    ) {
        let clock = &self.machine.node(id).clock;
        let first = told.start.unwrap_or(told.end);
        let length = told.end.since(first);
        let earliest = run.map_or(Time(i64::MIN), |run| run.allocated);
        let start = clock.date(first).within(earliest, now);
        told.start = told.start.map(|_| start);
        told.end = (start + length).min(now.max(start));
    }
}
