//! What commands ask for: on this host, or carried here from another one.

use super::ledger::{Verdict, bytes_of};
use super::serve::{Connection, IncomingStep};
use super::table::{First, PendingRequest, StepEvent, Steps, Waiter};
use super::usage::{self, Subject};
use super::{IoPurpose, check};
use crate::cgroup::AttemptLimits;
use crate::clock;
use crate::peer::hop::dock;
use crate::shepherd::signals::Order;
use cosy_model::node::{AttemptKey, KillCause};
use cosy_model::step::{JobUse, StepAnswer, StepAsk, StepId, StepInfo, StepKey, StepSpec};
use cosy_model::{MiB, Refusal, RefusalCode, Span, Uid, limits};
use cosy_proto::pass::{self, PassError};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// How often a waiting command is looked at, whether it is there.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const SHOWN_ONCE: &str = "a pass is shown once, on its own host";

impl Steps {
    /// A command asks.
    pub(super) fn command_requested(&mut self, incoming: IncomingStep) {
        let Some(incoming) = self.of_pass(incoming) else {
            return;
        };
        if let StepAsk::Read { here: true, .. } = incoming.ask {
            return self.read_here(incoming);
        }
        let job = incoming.ask.job();
        let newest = self.jobs.keys().rfind(|key| key.job == job).copied();
        let Some(key) = newest else {
            return self.pend(job, PendingRequest::Command(incoming));
        };
        if let Err(refusal) = self.may(&incoming, key) {
            return incoming.connection.finish(StepAnswer::Refused(refusal));
        }
        match self.first(key).map(|first| first.is_some()) {
            Ok(true) => self.requested_on_first(key, incoming),
            Ok(false) if incoming.from_peer => incoming.connection.refuse(
                RefusalCode::WrongState,
                format!("node {} is not the first of job {job}", self.setup.name),
            ),
            // The job's first node is elsewhere.
            Ok(false) => self.pend(job, PendingRequest::Command(incoming)),
            Err(e) => incoming.connection.refuse(
                RefusalCode::Unavailable,
                format!("node {}: cannot keep steps: {e}", self.setup.name),
            ),
        }
    }

    /// Whoever shows a pass asks for its user; nothing when that was refused.
    fn of_pass(&self, mut incoming: IncomingStep) -> Option<IncomingStep> {
        let StepAsk::For { pass, ask } = incoming.ask else {
            return Some(incoming);
        };
        // It was shown to the daemon of another host, which does not pass it on.
        if incoming.from_peer || matches!(*ask, StepAsk::For { .. }) {
            incoming.connection.refuse(RefusalCode::Invalid, SHOWN_ONCE);
            return None;
        }
        let claims = pass::verify(&pass, &self.setup.controller, self.setup.clock.now());
        let claims = claims.and_then(|claims| {
            let of_job = claims.job == Some(ask.job());
            let of_file = claims.job.is_none() && matches!(*ask, StepAsk::Read { here: true, .. });
            match of_job || of_file {
                true => Ok(claims),
                false => Err(PassError::Mismatch),
            }
        });
        match claims {
            Ok(claims) => {
                incoming.uid = claims.uid;
                incoming.gid = claims.gid;
                incoming.groups = Some(claims.groups);
                incoming.ask = *ask;
                Some(incoming)
            }
            Err(e) => {
                incoming
                    .connection
                    .refuse(RefusalCode::Forbidden, e.to_string());
                None
            }
        }
    }

    /// Steps are started by the job's user, who alone reaches its programs; root may look and end
    /// steps.
    fn may(&self, incoming: &IncomingStep, key: AttemptKey) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(&key) else {
            return Ok(());
        };
        let owner = job.allocation.uid;
        let only_theirs = matches!(
            incoming.ask,
            StepAsk::Start { .. }
                | StepAsk::StartWithDisplay { .. }
                | StepAsk::Connect { .. }
                | StepAsk::Read { .. }
        );
        let root = incoming.uid == Uid(0) && !only_theirs;
        if incoming.uid == owner || root {
            return Ok(());
        }
        let text = format!("job {} belongs to uid {owner}, not to uid {}", key.job, incoming.uid);
        Err(Refusal::new(RefusalCode::Forbidden, text))
    }

    fn requested_on_first(&mut self, attempt: AttemptKey, incoming: IncomingStep) {
        let connection = incoming.connection;
        match incoming.ask {
            StepAsk::Start { spec, .. } | StepAsk::StartWithDisplay { spec, .. } => {
                self.start_requested(attempt, spec, connection)
            }
            StepAsk::List { .. } => connection.finish(StepAnswer::Steps(self.list(attempt))),
            StepAsk::Usage { .. } => self.tell_usage(attempt, connection),
            StepAsk::Samples { of, .. } => self.tell_samples(attempt, of, connection),
            StepAsk::Attach { step, .. } => self.attach(StepKey { attempt, step }, connection),
            StepAsk::Limit { step, limit, .. } => {
                self.limit_requested(attempt, step, limit, connection);
            }
            StepAsk::Signal { step, signal, .. } => {
                let answer = match self.signal(StepKey { attempt, step }, signal) {
                    Ok(()) => StepAnswer::Done,
                    Err(refusal) => StepAnswer::Refused(refusal),
                };
                connection.finish(answer);
            }
            StepAsk::Ports { .. } => self.tell_ports(attempt, connection),
            StepAsk::Connect { port, .. } => self.connect(attempt, port, connection),
            StepAsk::Holds {
                connection: pair, ..
            } => self.tell_holder(attempt, pair, connection),
            StepAsk::Read { path, from, .. } => self.read(attempt, path, from, connection),
            StepAsk::For { .. } => {
                connection.refuse(RefusalCode::Invalid, SHOWN_ONCE);
            }
        }
    }

    // ---- start

    fn start_requested(
        &mut self,
        key: AttemptKey,
        mut spec: Box<StepSpec>,
        connection: Connection,
    ) {
        if let Err(why) = check::spec(&spec) {
            return connection.refuse(RefusalCode::Invalid, why);
        }
        spec.grace = Span(spec.grace.0.clamp(0, 86_400_000));
        if self.jobs.get(&key).is_none_or(|job| job.closing) {
            let text = format!("job {} is ending: no more steps start in it", key.job);
            return connection.refuse(RefusalCode::WrongState, text);
        }
        let parts = self.jobs.get(&key).map(|job| &job.allocation.parts);
        if let Err(why) = check::gpus_by_place(&spec, parts.map_or(&[], Vec::as_slice)) {
            return connection.refuse(RefusalCode::Invalid, why);
        }
        let mut verdict = self.judge(key, &spec);
        if let Verdict::Wait(_) = verdict {
            // The end of a step is seen a moment later than its command sees it.
            self.release_finished(key);
            verdict = self.judge(key, &spec);
        }
        match verdict {
            Verdict::Refuse(why) => connection.refuse(RefusalCode::NeverFits, why),
            Verdict::Wait(reason) => self.wait(key, spec, connection, reason),
            Verdict::Start(placed) => {
                if let Err(why) = check::ranks(&spec.programs, placed.layout.tasks) {
                    return connection.refuse(RefusalCode::Invalid, why);
                }
                match self.new_step(key) {
                    Ok(step) => self.start(key, step, spec, connection, placed),
                    Err(why) => connection.refuse(RefusalCode::TooMany, why),
                }
            }
        }
    }

    fn judge(&mut self, key: AttemptKey, spec: &StepSpec) -> Verdict {
        match self.known_first(key) {
            Some(first) => first.ledger.judge(spec),
            None => Verdict::Refuse(format!("job {} is over", key.job)),
        }
    }

    pub(super) fn known_first(&mut self, key: AttemptKey) -> Option<&mut First> {
        self.jobs.get_mut(&key)?.first.as_mut()
    }

    fn new_step(&mut self, key: AttemptKey) -> Result<StepId, String> {
        let name = self.setup.name.clone();
        match self.known_first(key).map(|first| first.counter.take()) {
            Some(Ok(step)) => Ok(step),
            Some(Err(e)) => Err(format!("node {name}: {e}")),
            None => Err(format!("job {} is over", key.job)),
        }
    }

    fn wait(
        &mut self,
        key: AttemptKey,
        spec: Box<StepSpec>,
        connection: Connection,
        reason: String,
    ) {
        if spec.patience.is_some_and(|p| p.ms() <= 0) {
            return connection.refuse(RefusalCode::NotFree, reason);
        }
        if let Err(why) = self.may_wait(bytes_of(&spec)) {
            return connection.refuse(RefusalCode::TooMany, why);
        }
        let step = match self.new_step(key) {
            Ok(step) => step,
            Err(why) => return connection.refuse(RefusalCode::TooMany, why),
        };
        if connection.say(&StepAnswer::Waits { reason }).is_err() {
            return;
        }
        let patience = spec.patience;
        let socket = connection.stream.try_clone();
        let waiter = Waiter {
            step,
            spec,
            connection,
            watch: None,
        };
        let events = self.setup.events.clone();
        let Some(first) = self.known_first(key) else {
            return;
        };
        let number = first.ledger.wait(waiter);
        let watch = tokio::spawn(async move {
            let late = match socket.and_then(UnixStream::from_std) {
                Ok(socket) => gone_or_late(socket, patience).await,
                Err(_) => false,
            };
            let left = StepEvent::Left {
                attempt: key,
                number,
                late,
            };
            let _ = events.send(left.into()).await;
        });
        if let Some(waiter) = first.ledger.waiter(number) {
            waiter.watch = Some(watch.abort_handle());
        }
    }

    /// Whether something of so many bytes may wait here.
    ///
    /// # Errors
    /// In one line, why not.
    pub(super) fn may_wait(&self, bytes: usize) -> Result<(), String> {
        let most = limits::NODE_WAITING_BYTES;
        let of_jobs = self.jobs.values().filter_map(|job| job.first.as_ref());
        let waiting: usize = of_jobs.map(|first| first.ledger.waiting_bytes()).sum();
        let all = waiting.saturating_add(self.pending_bytes());
        match all.saturating_add(bytes) > most {
            true => Err(format!(
                "what waits on node {} has {all} bytes, and {most} may be; try again",
                self.setup.name
            )),
            false => Ok(()),
        }
    }

    pub(super) fn waiter_left(&mut self, key: AttemptKey, number: u64, late: bool) {
        let Some(first) = self.known_first(key) else {
            return;
        };
        let Some(waiter) = first.ledger.leave(number) else {
            return;
        };
        if late {
            let text = format!(
                "other steps of job {} still hold what the step needs after {}",
                key.job,
                waiter.spec.patience.unwrap_or_default()
            );
            waiter.connection.refuse(RefusalCode::NotFree, text);
        }
        self.start_waiting(key);
    }

    /// Starts what fits now of the steps that wait, in their order.
    pub(super) fn start_waiting(&mut self, key: AttemptKey) {
        loop {
            if self.jobs.get(&key).is_none_or(|job| job.closing) {
                return;
            }
            let Some((waiter, placed)) = self.known_first(key).and_then(|f| f.ledger.take_next())
            else {
                return;
            };
            if let Some(watch) = &waiter.watch {
                watch.abort();
            }
            let (spec, connection) = (waiter.spec, waiter.connection);
            match check::ranks(&spec.programs, placed.layout.tasks) {
                Ok(()) => self.start(key, waiter.step, spec, connection, placed),
                Err(why) => connection.refuse(RefusalCode::Invalid, why),
            }
        }
    }

    // ---- list, attach, signal

    fn list(&self, attempt: AttemptKey) -> Vec<StepInfo> {
        let Some(job) = self.jobs.get(&attempt) else {
            return Vec::new();
        };
        let running = job.running.iter().filter(|(_, r)| r.task.is_head());
        let running = running.map(|(step, running)| StepInfo {
            key: StepKey {
                attempt,
                step: *step,
            },
            name: running.task.order.spec.name.clone(),
            nodes: cosy_model::fold(running.task.order.layout.nodes_with_tasks()),
            tasks: running.task.order.layout.tasks,
            start: Some(clock::date_of(running.since)),
            time_limit: running.task.order.spec.time_limit,
            memory: running.task.order.spec.memory,
        });
        let waiting = job.first.iter().flat_map(|first| first.ledger.waiting());
        let waiting = waiting.map(|waiter| StepInfo {
            key: StepKey {
                attempt,
                step: waiter.step,
            },
            name: waiter.spec.name.clone(),
            nodes: String::new(),
            tasks: waiter.spec.tasks.unwrap_or(0),
            start: None,
            time_limit: waiter.spec.time_limit,
            memory: waiter.spec.memory,
        });
        running.chain(waiting).collect()
    }

    /// Measures on a thread of its own, and answers from there.
    fn tell_usage(&mut self, attempt: AttemptKey, connection: Connection) {
        let devices = self.used_when_measured(attempt);
        let Some(job) = self.jobs.get(&attempt) else {
            return connection.finish(StepAnswer::Usage(JobUse::default()));
        };
        let name = crate::spool::name_of(attempt);
        let whole = AttemptLimits {
            name: &name,
            memory_bytes: job.allocation.memory.map(MiB::bytes),
            ..AttemptLimits::default()
        };
        let uid = job.allocation.uid;
        let script = Subject {
            uid,
            mark: self.mark_of_attempt(attempt),
            groups: self.setup.cgroups.groups_for(whole),
        };
        let step = |(step, running): (&StepId, &super::table::Running)| {
            let key = StepKey {
                attempt,
                step: *step,
            };
            let subject = Subject {
                uid,
                mark: self.mark(key),
                groups: running.task.groups.clone(),
            };
            (*step, subject)
        };
        let steps: Vec<(StepId, Subject)> = job.running.iter().map(step).collect();
        tokio::spawn(async move {
            let used = usage::in_turn(move || usage::of_job(&script, &steps)).await;
            let used = JobUse {
                devices,
                ..used.unwrap_or_default()
            };
            connection.finish(StepAnswer::Usage(used));
        });
    }

    fn head(&mut self, key: StepKey) -> Result<&mut super::table::Running, Refusal> {
        let running = self.running(key).filter(|r| r.task.is_head());
        running.ok_or_else(|| {
            Refusal::new(
                RefusalCode::NotFound,
                format!("no step {key} runs; 'cosy run --list' shows those that do"),
            )
        })
    }

    fn attach(&mut self, key: StepKey, connection: Connection) {
        let task = match self.head(key) {
            Ok(running) => Arc::clone(&running.task),
            Err(refusal) => return connection.finish(StepAnswer::Refused(refusal)),
        };
        let directory = self.path_of(key);
        tokio::spawn(async move {
            let answer = StepAnswer::Created {
                key,
                layout: task.order.layout.clone(),
                limit: task.limit,
            };
            let Ok(mut command) = UnixStream::from_std(connection.stream) else {
                return;
            };
            let bytes = super::serve::encode(&answer);
            if command.write_all(&bytes).await.is_err() {
                return;
            }
            if let Ok(mut supervisor) = dock(&directory, IoPurpose::Watch).await {
                let _ = tokio::io::copy_bidirectional(&mut command, &mut supervisor).await;
            }
        });
    }

    fn signal(&mut self, key: StepKey, signal: i32) -> Result<(), Refusal> {
        let order = match signal {
            0 => Order::Kill(KillCause::Cancelled.into()),
            1..=64 => Order::Signal {
                signal,
                script_only: false,
            },
            other => {
                return Err(Refusal::invalid(format!("{other} is no number of a signal")));
            }
        };
        self.head(key)?;
        self.tell(key, order);
        Ok(())
    }
}

/// Waits until the other side has closed (false), or until the patience is at its end.
async fn gone_or_late(socket: UnixStream, patience: Option<Span>) -> bool {
    let gone = async {
        loop {
            match socket.ready(tokio::io::Interest::WRITABLE).await {
                Ok(ready) if !ready.is_write_closed() => tokio::time::sleep(LOOK_AGAIN).await,
                _ => return,
            }
        }
    };
    let late = async {
        match patience.filter(|p| !p.is_unlimited()) {
            Some(span) => tokio::time::sleep(Duration::from_millis(span.ms().max(0) as u64)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = gone => false,
        () = late => true,
    }
}
