//! What happens to an attempt.

use crate::jobs::run::{GivenBack, Launching, Part, PartStep, Run, RunPhase};
use crate::record::{AfterRun, HeldBy, PreemptedRow, PromisedRow, StepUse};
use cosy_model::node::KillCause;
use cosy_model::{Amounts, ClockStep, DeviceUse, End, NodeId, Span, Time};
use std::collections::BTreeSet;

impl Run {
    /// The planner has given these nodes to a job.
    pub fn new(allocated: Time, limit: Span, parts: Vec<Part>) -> Self {
        Self {
            allocated,
            phase: RunPhase::Starting,
            parts,
            launching: Launching::NotYet,
            limit,
            cut: Span::ZERO,
            killed: None,
            canceller: None,
            suspended_for: Span::ZERO,
            leaving: Vec::new(),
            resized: None,
            hold_after: None,
            preempted: None,
            promised: None,
            checkpoint: None,
            lost: BTreeSet::new(),
            spares: 0,
            steps: StepUse::default(),
            devices: DeviceUse::default(),
            doubtful: false,
            from_store: false,
            reported: None,
        }
    }

    // ---- the start of its program

    /// A node has made its share ready.
    pub fn made_ready(&mut self, node: NodeId) {
        if let Some(part) = self.part_mut(node)
            && part.step == PartStep::Ordered
        {
            part.step = PartStep::Ready;
        }
    }

    /// The order to start its program is given, whether its node can be reached or not.
    pub fn launch_given(&mut self) {
        if !self.launch_may_be_there() {
            self.launching = Launching::Unsent;
        }
    }

    /// The order to start its program has left, or its node says that it had it.
    pub fn launch_sent(&mut self) {
        self.launching = Launching::Sent;
    }

    /// Its first node knows nothing of the order to start its program.
    pub fn launch_not_there(&mut self) {
        self.launching = match self.is_launched() {
            true => Launching::Unsent,
            false => Launching::NotYet,
        };
    }

    /// That node says that its program runs.
    pub fn runs_on(&mut self, node: NodeId) {
        self.launch_sent();
        if let Some(part) = self.part_mut(node) {
            part.step = PartStep::Ready;
        }
    }

    /// Its program began then; a start that is known stays.
    pub fn began(&mut self, at: Time) {
        match &mut self.phase {
            RunPhase::Starting => self.phase = RunPhase::Running { started: at },
            RunPhase::Completing { started, .. } => *started = started.or(Some(at)),
            RunPhase::Running { .. } | RunPhase::Suspended { .. } => {}
        }
    }

    // ---- its time limit

    /// It has this limit from now on; what was cut before is forgotten.
    pub fn set_limit(&mut self, limit: Span) {
        (self.limit, self.cut) = (limit, Span::ZERO);
    }

    /// Its limit follows the end of its reservation.
    pub fn limit_to(&mut self, limit: Span) {
        self.limit = limit;
    }

    /// Its limit is less by that, since its program began late; at least a millisecond is left.
    pub fn cut_limit(&mut self, by: Span) {
        self.limit = Span((self.limit.ms() - by.ms()).max(1));
        self.cut = self.cut + by;
    }

    // ---- suspension

    /// It is stopped. Of each node it keeps what `kept` says of its share there; false when its program does not run.
    pub fn suspend(&mut self, now: Time, kept: impl Fn(&Amounts) -> Amounts) -> bool {
        let RunPhase::Running { started } = self.phase else {
            return false;
        };
        self.phase = RunPhase::Suspended {
            started,
            since: now,
            resuming: false,
        };
        for part in &mut self.parts {
            part.kept = Some(kept(&part.amounts));
        }
        true
    }

    /// It goes on as soon as it has its cores again.
    pub fn wants_on(&mut self) {
        if let RunPhase::Suspended { resuming, .. } = &mut self.phase {
            *resuming = true;
        }
    }

    /// It does not wait for its cores any more; false when it did not.
    pub fn stays_suspended(&mut self) -> bool {
        match &mut self.phase {
            RunPhase::Suspended { resuming, .. } => std::mem::take(resuming),
            RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Completing { .. } => false,
        }
    }

    /// It holds again what it lent to others.
    pub fn lends_no_more(&mut self) {
        self.stays_suspended();
        for part in &mut self.parts {
            part.kept = None;
        }
    }

    /// It is not suspended any more.
    pub fn goes_on(&mut self, now: Time) {
        if let RunPhase::Suspended { started, since, .. } = self.phase {
            self.suspended_for = self.suspended_for + now.since(since);
            self.phase = RunPhase::Running { started };
        }
    }

    // ---- its nodes

    /// It goes on with these nodes; the others, which it gives back, are told.
    pub fn gives_back_all_but(&mut self, stay: &BTreeSet<NodeId>, now: Time) -> Vec<NodeId> {
        let parts = std::mem::take(&mut self.parts);
        let (kept, gone): (Vec<Part>, Vec<Part>) = parts
            .into_iter()
            .partition(|part| stay.contains(&part.node));
        self.parts = kept;
        let nodes: Vec<NodeId> = gone.iter().map(|part| part.node).collect();
        if !nodes.is_empty() {
            self.leaving.extend(gone);
            self.resized = Some(now);
        }
        nodes
    }

    /// So many of its nodes stand by for lost ones.
    pub fn has_spares(&mut self, spares: u32) {
        self.spares = spares;
    }

    /// It goes on without a node that is lost: one that stood by serves in its place, if there is
    /// one, or it was the lost one. False where it had no such node.
    pub fn goes_on_without(&mut self, node: NodeId, now: Time) -> bool {
        let stay = self.parts.iter().map(|part| part.node);
        let stay: BTreeSet<NodeId> = stay.filter(|other| *other != node).collect();
        let had_it = !self.gives_back_all_but(&stay, now).is_empty();
        self.spares = self.spares.saturating_sub(u32::from(had_it));
        had_it
    }

    /// A node has nothing of it any more; `None` where it had nothing before.
    pub fn released(&mut self, node: NodeId) -> Option<GivenBack> {
        let part = self.part_mut(node).filter(|part| !part.is_released())?;
        part.step = PartStep::Released;
        let (gpus, devices) = (part.gpus.clone(), part.devices.clone());
        let cores = part.held_cores().to_vec();
        self.leaving.retain(|p| !p.is_released());
        Some(GivenBack {
            cores,
            gpus,
            devices,
            last: self.all_parts().all(Part::is_released),
        })
    }

    /// A node is lost under the attempt.
    pub fn note_lost(&mut self, node: NodeId) {
        if !self.is_over() || !self.lost.is_empty() {
            self.lost.insert(node);
        }
    }

    // ---- preemption

    /// It makes room for somebody from now on, or need not any more.
    pub fn makes_room(&mut self, preempted: Option<PreemptedRow>) {
        self.preempted = preempted;
    }

    /// It is to leave before a reservation begins, or need not any more.
    pub fn is_promised(&mut self, promised: Option<PromisedRow>) {
        self.promised = promised;
    }

    /// It was told to make room.
    pub fn told_to_make_room(&mut self) {
        if let Some(preempted) = &mut self.preempted {
            preempted.told = true;
        }
    }

    /// Its work is safe until then; dates do not go back.
    pub fn is_safe_until(&mut self, at: Time) {
        self.checkpoint = self.checkpoint.max(Some(at));
    }

    // ---- its end

    /// Who cancelled it; the first one stays.
    pub fn cancelled_by(&mut self, who: &str) {
        self.canceller.get_or_insert_with(|| who.to_owned());
    }

    /// It is told to end.
    pub fn kill(&mut self, cause: KillCause) {
        self.killed = Some(cause);
    }

    /// When it waits again it is held, by an earlier wish if there is no other.
    pub fn hold_when_it_waits(&mut self, by: Option<HeldBy>) {
        self.hold_after = by.or(self.hold_after);
    }

    /// Its node tells how its program ended.
    pub fn program_ended(&mut self, end: &End) {
        self.reported = Some(end.clone());
    }

    /// What follows it is settled; false when that was settled before.
    pub fn ends(&mut self, now: Time, after: AfterRun) -> bool {
        if self.is_over() {
            return false;
        }
        self.goes_on(now);
        if let AfterRun::End(_) = after {
            self.reported = None; // it is told there
        }
        self.phase = RunPhase::Completing {
            started: self.started(),
            after,
        };
        true
    }

    /// While its nodes clean up, something else is to follow.
    pub fn is_followed_by(&mut self, other: AfterRun) {
        if let RunPhase::Completing { after, .. } = &mut self.phase {
            *after = other;
        }
    }

    // ---- what is known of it

    /// Its steps have used so much.
    pub fn steps_used(&mut self, steps: StepUse) {
        self.steps = steps;
    }

    /// A node that gives its share back tells what was used there; told again it counts once.
    pub fn devices_used(&mut self, node: NodeId, used: DeviceUse) {
        if self.part(node).is_some_and(|part| !part.is_released()) {
            self.devices = self.devices.and(used);
        }
    }

    /// The store was restored: its nodes have to tell whether it still runs.
    pub fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// A node has told of it; false when nobody had doubted it.
    pub fn no_longer_doubtful(&mut self) -> bool {
        std::mem::take(&mut self.doubtful)
    }

    /// The clock on the wall was set: its dates become those that this clock
    /// would have shown, so that what has passed since stays what it was.
    pub fn clock_set(&mut self, step: ClockStep) {
        let set = |date: &mut Time| *date = date.set_by(step);
        set(&mut self.allocated);
        self.resized.iter_mut().for_each(set);
        self.checkpoint.iter_mut().for_each(set);
        if let Some(preempted) = &mut self.preempted {
            set(&mut preempted.at);
            set(&mut preempted.until);
        }
        match &mut self.phase {
            RunPhase::Starting => {}
            RunPhase::Running { started } => set(started),
            RunPhase::Suspended { started, since, .. } => {
                [started, since].into_iter().for_each(set)
            }
            RunPhase::Completing { started, .. } => started.iter_mut().for_each(set),
        }
        if let Some(end) = &mut self.reported {
            end.start.iter_mut().for_each(set);
            set(&mut end.end);
        }
    }
}
