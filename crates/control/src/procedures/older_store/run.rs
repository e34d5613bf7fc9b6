//! Nodes have seen more than the store has: everything that may have run since is doubted.

use crate::controller::Controller;
use crate::jobs::job::{Job, Phase};
use crate::procedures::older_store::NAMED_STRAYS;
use crate::record::{AfterRun, HeldBy, OlderRow, Record};
use cosy_model::node::{AttemptKey, KillCause, NodeOrder, StoreMark};
use cosy_model::{End, EndCause, JobId, NodeId, Refusal, RefusalCode, Time, limits};

impl Controller {
    /// How far the store is when the present turn is durable.
    pub(crate) fn mark(&self) -> StoreMark {
        StoreMark {
            events: self.turn.last_event(),
            jobs: self.jobs.next_id().0,
            reservations: self.reservations.next_number(),
            flows: self.workflows.next_number(),
            triggers: self.triggers.next_number(),
        }
    }

    /// A node tells how far it has seen the store.
    pub(crate) fn compare_store(&mut self, now: Time, node: &str, seen: Option<StoreMark>) {
        let Some(seen) = seen.filter(|seen| seen.events > self.turn.last_event()) else {
            return;
        };
        let behind = seen.events - self.turn.last_event();
        let first = self.jobs.next_id();
        self.go_on_above(seen);
        let next = self.jobs.next_id();
        self.lost_store.ids.push(first..next);
        self.lost_store.found = Some(first);
        self.record(Record::Older(OlderRow {
            at: now,
            first,
            next,
            mark: self.mark(),
        }));
        let (held, open) = self.doubt_all(now);
        let detail = format!(
            "node {node} has seen {behind} events more than the store has: it was restored from an old copy. {held} jobs that may have run since are held, of {open} that ran then their nodes have to tell; ids go on at {next}{}",
            self.told_of_bookings()
        );
        let object = "store".to_owned();
        self.happened(now, "store_restored", "controller", object, detail);
    }

    /// No node knows of bookings and of money: they are as they were, and an administrator is told.
    fn told_of_bookings(&self) -> String {
        match self.reservations.live().count() {
            0 => String::new(),
            live => format!(
                "; {live} reservations and what accounts have are as they were in the copy: what was booked, cancelled or charged since is not known"
            ),
        }
    }

    fn go_on_above(&mut self, seen: StoreMark) {
        let next = self.mark().or_later(seen);
        let further = |number: u64| number.saturating_add(limits::SKIPPED_IDS);
        let events = next.events.saturating_add(limits::SKIPPED_EVENTS);
        self.turn.skip_events(events);
        self.jobs.go_on_at(further(next.jobs));
        self.reservations.go_on_at(further(next.reservations));
        self.workflows.go_on_at(further(next.flows));
        self.triggers.go_on_at(further(next.triggers));
    }

    /// Jobs of before this controller began: those that wait are held, of those that run their
    /// nodes have to tell. How many of both.
    fn doubt_all(&mut self, now: Time) -> (usize, usize) {
        let before = self.jobs.first_own();
        let arrays: Vec<JobId> = self
            .jobs
            .groups()
            .filter(|(base, group)| {
                let spec = &group.submitted.spec;
                let old = **base < before && spec.begin.is_none_or(|b| b <= now);
                old && group.indices.is_some() && group.plain > 0 && group.held.is_none()
            })
            .map(|(base, _)| *base)
            .collect();
        for base in arrays {
            let common = self.jobs.group(&base).map(|group| group.submitted.clone());
            if let Some(common) = common {
                self.stand(&common, Some(HeldBy::Restored));
            }
        }
        let all: Vec<JobId> = self.jobs.ids().collect();
        let (mut held, mut open) = (0, 0);
        for id in all {
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            if job.submitted.base >= before {
                continue;
            }
            let later = job.spec().begin.is_some_and(|begin| begin > now);
            match &mut job.phase {
                Phase::Run(run) if run.from_store => {
                    run.doubtful = true;
                    open += 1;
                    self.jobs.changed(id);
                }
                Phase::Waiting(_) if job.held.is_none() && !later => {
                    job.held = Some(HeldBy::Restored);
                    held += 1;
                    let plain = !job.has_row && job.member.is_some();
                    if !plain {
                        self.save_job(id);
                    }
                    self.review(now, id);
                }
                Phase::Run(_) | Phase::Waiting(_) => {}
            }
        }
        (held, open)
    }

    /// A node has the attempt that the store has: it goes on.
    pub(crate) fn no_longer_doubtful(&mut self, id: JobId) {
        let run = self.jobs.get_mut(&id).and_then(Job::run_mut);
        if run.is_some_and(|run| std::mem::take(&mut run.doubtful)) {
            self.jobs.changed(id);
        }
    }

    /// An attempt that began after the store's copy was made.
    fn is_later_than_store(&self, key: AttemptKey) -> bool {
        let Some(job) = self.jobs.get(&key.job) else {
            return self.lost_store.has(key.job) && !self.jobs.has_ended(key.job);
        };
        if !self.lost_store.concerns(job) {
            return false;
        }
        let held = matches!(job.held, Some(HeldBy::Restored | HeldBy::Admin));
        match &job.phase {
            Phase::Waiting(_) => key.attempt > job.attempt || held && key.attempt == job.attempt,
            Phase::Run(run) => run.doubtful && key.attempt > job.attempt,
        }
    }

    /// A node tells of an attempt that goes on there: true when the store is too old to know
    /// of it. It is let go on.
    pub(crate) fn goes_on_unknown(&mut self, now: Time, id: NodeId, key: AttemptKey) -> bool {
        if !self.is_later_than_store(key) {
            return false;
        }
        let over = self.lost_store.over_strays.get(&key.job);
        if over.is_some_and(|over| key.attempt <= *over) {
            self.order(id, |node| NodeOrder::Release { key, node });
            return true;
        }
        if !self.machine.node(id).has_room_for(key) {
            return false;
        }
        if self.machine.node_mut(id).strays.insert(key) {
            let node = self.machine.name(id).to_owned();
            let detail = format!("attempt {} on {node} goes on", key.attempt);
            let object = format!("job {}", key.job);
            self.happened(now, "found", "controller", object, detail);
            self.update_available(id);
        }
        self.was_later(now, key);
        true
    }

    /// The job has had at least that attempt; one that the store has is long over.
    fn was_later(&mut self, now: Time, key: AttemptKey) {
        let Some(job) = self.jobs.get(&key.job) else {
            return;
        };
        if job.run().is_some() {
            self.comes_to_end(now, key.job, AfterRun::Requeue);
            let run = self.jobs.get(&key.job).and_then(Job::run);
            let nodes: Vec<NodeId> = run
                .into_iter()
                .flat_map(|run| run.all_parts().map(|part| part.node))
                .collect();
            for node in nodes {
                self.give_back(now, key.job, node);
            }
        }
        if let Some(job) = self.jobs.get_mut(&key.job)
            && job.attempt < key.attempt
        {
            job.attempt = key.attempt;
            job.held = Some(HeldBy::Restored.upon(job.held));
            self.save_job(key.job);
            self.review(now, key.job);
        }
    }

    /// What of an attempt went on unknown is over on that node; `end` says how, from the node
    /// that ran its program. True when it was one of those.
    pub(crate) fn unknown_is_over(
        &mut self,
        now: Time,
        id: NodeId,
        key: AttemptKey,
        end: Option<&End>,
    ) -> bool {
        let later = self.is_later_than_store(key);
        if self.machine.node_mut(id).strays.remove(&key) {
            self.update_available(id);
        }
        let Some(end) = end.filter(|_| later) else {
            return later;
        };
        // Those of before it are over as well.
        let over = self
            .lost_store
            .over_strays
            .entry(key.job)
            .or_insert(key.attempt);
        *over = key.attempt.max(*over);
        for node in self.machine.with_stray(key) {
            self.order(node, |node| NodeOrder::Release { key, node });
        }
        self.was_later(now, key);
        let detail = format!(
            "attempt {}: {}, exit code {}, signal {}",
            key.attempt,
            end.state(),
            end.exit_code,
            end.signal
        );
        let object = format!("job {}", key.job);
        self.happened(now, "found_ended", "controller", object, detail);
        let known = match &end.cause {
            EndCause::Exited
            | EndCause::TimeLimit
            | EndCause::OutOfMemory
            | EndCause::Deadline
            | EndCause::SupervisorLost => end.start.is_some(),
            EndCause::Cancelled | EndCause::NodeLost | EndCause::LaunchFailed(_) => false,
        };
        if known && self.jobs.contains_key(&key.job) {
            self.uncount_job(now, key.job);
            self.end_job(now, key.job, end, "");
        }
        true
    }

    /// Nodes on which an attempt goes on that the store does not know.
    fn nodes_with_unknown(&self, job: JobId) -> Vec<(NodeId, AttemptKey)> {
        let mut found = Vec::new();
        // Only those that the store may know too little of: nobody looks at all nodes for the
        // others, which may be a hundred thousand.
        let submitted = self.jobs.get(&job);
        if submitted.is_some_and(|job| !self.lost_store.concerns(job)) {
            return found;
        }
        for (at, node) in self.machine.nodes().iter().enumerate() {
            let of = node.strays.iter().filter(|key| key.job == job);
            found.extend(of.map(|key| (NodeId(at as u32), *key)));
        }
        found
    }

    /// A job that is held because nobody knows whether it has run is not let go while it runs.
    pub(crate) fn may_go(&self, id: JobId) -> Result<(), Refusal> {
        let Some((node, key)) = self.nodes_with_unknown(id).first().copied() else {
            return Ok(());
        };
        let name = self.machine.name(node);
        Err(Refusal::new(
            RefusalCode::WrongState,
            format!(
                "job {} still runs on {name} (attempt {}), though the store that was restored does not have it: it ends as that does, or cancel it",
                self.name_of(id),
                key.attempt
            ),
        ))
    }

    /// A job was cancelled while it waited: what goes on of it is ended, too.
    pub(crate) fn end_unknown_of(&mut self, id: JobId) {
        for (node, key) in self.nodes_with_unknown(id) {
            let cause = KillCause::Cancelled;
            self.order(node, |node| NodeOrder::Kill { key, node, cause });
        }
    }

    /// A node is given up by an administrator: what goes on there is ended.
    pub(crate) fn end_unknown_on(&mut self, id: NodeId) {
        for key in self.machine.node(id).strays.clone() {
            if self.aside.has(key.job) {
                continue;
            }
            let cause = KillCause::Superseded;
            self.order(id, |node| NodeOrder::Kill { key, node, cause });
        }
    }

    /// Why nothing starts on a node where such attempts go on.
    pub(crate) fn unknown_words(&self, id: NodeId) -> String {
        let strays = &self.machine.node(id).strays;
        let names = strays.iter().take(NAMED_STRAYS);
        let names: Vec<String> = names
            .map(|key| format!("{}.{}", key.job, key.attempt))
            .collect();
        let more = match strays.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match names.is_empty() {
            true => String::new(),
            false => format!(
                "it goes on with attempts that the store does not have: {}{more}",
                names.join(", ")
            ),
        }
    }
}
