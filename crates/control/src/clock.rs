//! Clocks: the controller's own, which somebody may set, and those of nodes, which may be
//! wrong.
//!
//! The controller is told the date and a clock that nobody sets ([`Moment`]). When one of them
//! runs ahead of the other, the date was set or the machine has slept. What is counted from a
//! date (a time limit from a start, a pause, the lapse of a hold) is then counted from the
//! date which the clock, as it is now, would have shown: so each of them lasts as long as it
//! was to last. What users named as dates (begin times, reservations, deadlines) stays.
//!
//! A store says how the clocks stood when they agreed last ([`ClockRow`]). A controller that takes
//! it up on the same run of the same machine begins with the date that this clock would show, so a
//! clock that was set meanwhile is seen in the first turn like any other step. On another machine, or
//! after a restart of it, nothing tells the two apart; there it is the nodes that say how long
//! programs have run, and what runs is counted from then ([`Controller::has_run_for`]). Allocations
//! in which nothing is launched have nobody who says so.
//!
//! Silence of nodes is measured in time in which the controller listened. A gap in it, in which
//! nobody could report, gives all of them their full time again.
//!
//! Of a node's clock nothing is believed that lies before its job's allocation or after now,
//! and nothing but lengths once it is wrong by more than the configuration allows: then the
//! node takes no jobs until its clock is right. Where most nodes say the same of the
//! controller's clock, it is that one that is wrong, and they go on.

use crate::controller::{Controller, TICK};
use crate::event::LinkId;
use crate::jobs::job::{Job, Run};
use crate::record::{ClockRow, Record};
use cosy_model::{Boot, ClockStep, End, JobId, Moment, NodeId, Span, Steady, Time, limits};
use std::collections::VecDeque;

/// The most that the time between two turns counts as listening.
const LISTENS: Span = Span::from_secs(2);
/// With fewer nodes that tell the time the controller's clock is the right one.
const WITNESSES: usize = 3;
/// Less than this is how long a report was under way, not another clock.
const UNDER_WAY: Span = Span::from_secs(1);

/// What the controller knows of its own clocks.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// When they agreed last.
    agreed: Moment,
    /// The date now.
    pub wall: Time,
    /// The steady one now.
    pub steady: Steady,
    /// That of the turn before, and how long the machine had slept.
    last_turn: (Steady, Span),
    slept: Span,
    /// How long it has listened to nodes in all.
    pub listened: Span,
    /// Most nodes say that the clock is wrong.
    doubted: bool,
    /// The store does not say that they agreed then.
    unsaved: bool,
    /// Dates in the store are of a clock that cannot be compared with this one.
    unsure: bool,
    /// When the controller began.
    started: Time,
    /// The last look at what depends on time: by the wall's clock and by the steady one.
    ticked: (Time, Steady),
    /// When answers and tokens that are too old were forgotten last.
    forgotten: Steady,
}

impl ClockRow {
    fn of(agreed: Moment) -> Self {
        Self {
            wall: agreed.wall,
            steady_ms: agreed.steady.0,
            slept: agreed.slept,
            boot: format!("{:032x}", agreed.boot.0),
        }
    }

    /// Now, with the date that the clock would show had nobody set it since; `None` where that
    /// cannot be known.
    pub(crate) fn carried_to(&self, now: Moment) -> Option<Moment> {
        let boot = Boot(u128::from_str_radix(&self.boot, 16).ok()?);
        let passed = now.steady.0.checked_sub(self.steady_ms)?;
        (boot.is_same(now.boot) && passed >= 0).then(|| Moment {
            wall: self.wall + Span(passed),
            slept: self.slept,
            ..now
        })
    }
}

impl Clocks {
    pub fn new(now: Moment) -> Self {
        Self {
            unsaved: now.boot != Boot::default(),
            unsure: false,
            agreed: now,
            wall: now.wall,
            steady: now.steady,
            last_turn: (now.steady, now.slept),
            slept: now.slept,
            listened: Span::ZERO,
            doubted: false,
            started: now.wall,
            // The first turn looks at everything.
            ticked: (
                now.wall - TICK,
                Steady(now.steady.0.saturating_sub(TICK.ms())),
            ),
            forgotten: now.steady,
        }
    }

    /// When the controller began.
    pub const fn started(&self) -> Time {
        self.started
    }

    /// When a tick is over: the time of the last look at what depends on time. The next is one
    /// tick from now.
    pub fn next_tick(&mut self, now: Moment) -> Option<Time> {
        let (before, steady) = self.ticked;
        if now.steady.since(steady) < TICK {
            return None;
        }
        self.ticked = (now.wall, now.steady);
        Some(before)
    }

    /// Whether ten minutes are over since this was true the last time.
    pub fn is_time_to_forget(&mut self) -> bool {
        let is = self.steady.since(self.forgotten) > Span::from_minutes(10);
        if is {
            self.forgotten = self.steady;
        }
        is
    }

    /// The clock on the wall was set.
    fn clock_set(&mut self, step: ClockStep) {
        self.ticked.0 = self.ticked.0.set_by(step);
        self.started = self.started.set_by(step);
    }

    /// By how much the clock on the wall was set since they agreed, and how much of that the
    /// machine has slept; nothing while they agree.
    fn look(&mut self, now: Moment) -> Option<(Span, Span)> {
        (self.wall, self.steady) = (now.wall, self.steady.max(now.steady));
        self.slept = now.slept;
        let passed = now.steady.since(self.agreed.steady);
        let by = now.wall.ahead_of(self.agreed.wall + passed);
        if by.abs() < limits::CLOCK_STEP {
            return None;
        }
        let slept = Span(now.slept.ms() - self.agreed.slept.ms()).max(Span::ZERO);
        self.agreed = now;
        self.unsaved = now.boot != Boot::default();
        Some((by, slept))
    }
}

/// What is known of a node's clock.
#[derive(Debug, Default)]
pub(crate) struct NodeClock {
    /// By how much it was ahead when it was told last, oldest first.
    looks: VecDeque<Span>,
    /// It is wrong by more than is allowed: the node takes no jobs.
    pub wrong: bool,
}

impl NodeClock {
    /// Another daemon tells from now on, and whether it is wrong.
    pub fn forget(&mut self) {
        self.looks.clear();
    }

    fn told(&mut self, ahead: Span) {
        if self.looks.len() == limits::CLOCK_LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(ahead);
    }

    /// By how much it is ahead of the controller's, behind if less than zero. What is told
    /// was under way for a while, which looks like a clock that is behind: the best counts.
    pub fn ahead(&self) -> Option<Span> {
        self.looks.iter().max().copied()
    }

    /// What a date of that node is on the controller's clock.
    fn date(&self, told: Time) -> Time {
        let ahead = self.ahead().filter(|ahead| ahead.abs() >= UNDER_WAY);
        told + Span(-ahead.unwrap_or(Span::ZERO).ms())
    }
}

/// `its clock is 00:20:00 behind the controller's`.
pub(crate) fn told_skew(ahead: Span) -> String {
    let word = if ahead < Span::ZERO {
        "behind"
    } else {
        "ahead of"
    };
    format!("its clock is {} {word} the controller's", ahead.abs())
}

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

/// Seconds with a fraction: clocks are set by less than a minute too.
fn seconds(span: Span) -> String {
    let ms = span.abs().ms();
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, steady: i64, slept: i64) -> Moment {
        Moment {
            wall: Time::from_secs(wall),
            steady: Steady(steady * 1000),
            slept: Span::from_secs(slept),
            boot: Boot(1),
        }
    }

    #[test]
    fn a_step_is_seen_once_with_its_size() {
        let mut clocks = Clocks::new(at(1000, 5, 0));
        let secs = |n| Some((Span::from_secs(n), Span::ZERO));
        assert_eq!(clocks.look(at(1010, 15, 0)), None);
        assert_eq!(clocks.look(at(4611, 16, 0)), secs(3600));
        assert_eq!(clocks.look(at(4612, 17, 0)), None);
        assert_eq!(clocks.look(at(1013, 18, 0)), secs(-3600));
        assert_eq!(clocks.look(at(1014, 19, 0)), None);
        // It comes in small pieces and is seen when they are a second.
        assert_eq!(
            clocks.look(Moment {
                wall: Time(1_015_600),
                ..at(0, 20, 0)
            }),
            None
        );
        assert_eq!(
            clocks.look(Moment {
                wall: Time(1_017_000),
                ..at(0, 21, 0)
            }),
            secs(1)
        );
        let slept = Span::from_secs(600);
        assert_eq!(clocks.look(at(1618, 22, 600)), Some((slept, slept)));
    }

    #[test]
    fn the_best_look_at_a_clock_counts() {
        let mut clock = NodeClock::default();
        let secs = Span::from_secs;
        assert_eq!(clock.ahead(), None);
        for ahead in [-30, -1, -9, -4, -7] {
            clock.told(secs(ahead));
        }
        assert_eq!(clock.ahead(), Some(secs(-4)));
        assert_eq!(clock.date(Time::from_secs(100)), Time::from_secs(104));
        for ahead in [1200, 1195, 1100] {
            clock.told(secs(ahead));
        }
        assert_eq!(clock.ahead(), Some(secs(1200)));
        assert_eq!(
            told_skew(secs(-1200)),
            "its clock is 00:20:00 behind the controller's"
        );
    }
}
