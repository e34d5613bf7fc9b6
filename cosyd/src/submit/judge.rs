//! What rules make of each kind of request.

use super::policy::{Layer, SubmitPolicy, WorkerPolicy};
use super::worker::{Worker, ask};
use cosy_control::{DescribedJob, changed};
use cosy_model::api::{JobChange, Request, Submission};
use cosy_model::reservation::ReservationSpec;
use cosy_model::workflow::FlowSpec;
use cosy_model::{JobSpec, OsText, Program, Refusal, RefusalCode, User};
use cosy_rules::{Field, Outcome, Requester, Subject, Value, Verdict, apply, apply_to_change};

/// Who asks, and what is known about what is asked for.
#[derive(Clone, Debug, Default)]
pub struct Reason {
    /// Who asks, as the directory says.
    pub user: User,
    /// An administrator asks.
    pub admin: bool,
    /// Name of the default queue.
    pub default_queue: Option<String>,
    /// The jobs of a change, as they are.
    pub jobs: Vec<DescribedJob>,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    /// The request as it goes on.
    pub request: Request,
    /// Why it does not.
    pub refused: Option<Refusal>,
    /// What the user is told.
    pub remarks: Vec<String>,
    /// Names of the rules that applied.
    pub applied: Vec<String>,
    /// Fields that rules have set.
    pub changes: Vec<(Field, Value)>,
}

/// One request under judgement.
struct Judge<'a> {
    policy: &'a SubmitPolicy,
    reason: &'a Reason,
    worker: &'a mut Option<Worker>,
    /// The worker has failed at this request: it is not asked again.
    worker_failed: bool,
    all: Outcome,
}

/// Judges a request; what no rules are about goes on as it is.
pub fn judge(
    policy: &SubmitPolicy,
    reason: &Reason,
    worker: &mut Option<Worker>,
    mut request: Request,
) -> Judged {
    let mut judge = Judge {
        policy,
        reason,
        worker,
        worker_failed: false,
        all: Outcome::default(),
    };
    match &mut request {
        Request::Submit(new) | Request::Allocate(new) => judge.submission(new),
        Request::Change { change, .. } => judge.change(change),
        Request::Quote { ask, .. } => judge.reservation("quote", ask),
        Request::Reserve { ask, job, .. } => {
            judge.reservation("reserve", ask);
            if let Some(job) = job.as_deref_mut().filter(|_| judge.all.has_passed()) {
                judge.submission(job);
            }
        }
        Request::PlanFlow { spec } | Request::SubmitFlow { spec, .. } => judge.workflow(spec),
        _ => {}
    }
    let refused = match judge.all.verdict {
        Verdict::Passed => None,
        Verdict::Refused { rule, message } => {
            tracing::info!("user {}: refused by rule '{rule}': {message}", reason.user.name);
            Some(Refusal::new(RefusalCode::Admission, message))
        }
    };
    Judged {
        request,
        refused,
        remarks: judge.all.remarks,
        applied: judge.all.applied,
        changes: judge.all.changes,
    }
}

impl Judge<'_> {
    /// Judges each component of a job; what each of them came to.
    fn components(
        &mut self,
        request: &'static str,
        spec: &mut JobSpec,
        array: Option<u64>,
        environment: Option<&OsText>,
    ) -> Vec<Vec<(Field, Value)>> {
        let count = u16::try_from(spec.component_count()).unwrap_or(u16::MAX);
        let mut changes = Vec::new();
        for component in 0..count {
            let mut outcome = Outcome::default();
            let mut subject = Subject {
                requester: Requester {
                    request,
                    user: &self.reason.user,
                    admin: self.reason.admin,
                    default_queue: self.reason.default_queue.as_deref(),
                },
                spec,
                array,
                environment,
                component,
            };
            for layer in &self.policy.order {
                match (layer, &self.policy.worker) {
                    _ if !outcome.has_passed() => break,
                    (Layer::Rules, _) => apply(&self.policy.rules, &mut subject, &mut outcome),
                    (Layer::Worker, Some(policy)) if !self.worker_failed => {
                        self.worker_failed =
                            !ask_worker(self.worker, policy, &mut subject, &mut outcome);
                    }
                    (Layer::Worker, _) => {}
                }
            }
            changes.push(outcome.changes.clone());
            self.learn(outcome);
            if !self.all.has_passed() {
                break;
            }
        }
        changes
    }

    fn learn(&mut self, outcome: Outcome) {
        for name in outcome.applied {
            if !self.all.applied.contains(&name) {
                self.all.applied.push(name);
            }
        }
        outcome
            .remarks
            .into_iter()
            .for_each(|text| self.all.remark(text));
        self.all.changes.extend(outcome.changes);
        if let Verdict::Refused { rule, message } = outcome.verdict {
            self.all.refuse(&rule, message);
        }
    }

    fn submission(&mut self, new: &mut Submission) {
        let array = new.array.as_ref().map(|array| array.count());
        self.components("submit", &mut new.spec, array, None);
    }

    /// Each job as the change would leave it. What rules set becomes part of the change, which is
    /// one for all jobs.
    fn change(&mut self, change: &mut JobChange) {
        let asked = change.clone();
        let mut result: Option<JobChange> = None;
        for job in &self.reason.jobs {
            let mut spec = changed(job.spec.clone(), &asked);
            let changes = self.components("change", &mut spec, job.array, None);
            if let Verdict::Refused { message, .. } = &mut self.all.verdict {
                if self.reason.jobs.len() > 1 {
                    *message = format!("job {}: {message}", job.name);
                }
                return;
            }
            let mut own = asked.clone();
            let further = changes.iter().skip(1).any(|changes| !changes.is_empty());
            let first = changes.into_iter().next().unwrap_or_default();
            let put = |(field, value)| apply_to_change(&mut own, field, value);
            if let Err(why) = first.into_iter().try_for_each(put) {
                let message = format!("job {}: the rules at submission: {why}", job.name);
                return self.all.refuse("", message);
            }
            if further {
                let message = format!(
                    "job {}: the rules at submission would change a further component, which only a new submission can",
                    job.name
                );
                return self.all.refuse("", message);
            }
            if result.as_ref().is_some_and(|other| *other != own) {
                let message = "the rules at submission make different changes of these jobs: change them one at a time";
                return self.all.refuse("", message.to_owned());
            }
            result = Some(own);
        }
        if let Some(result) = result {
            *change = result;
        }
    }

    /// What a reservation has in common with a job: queue, account, resources, length.
    fn reservation(&mut self, request: &'static str, ask: &mut ReservationSpec) {
        let nothing = Program::Command { argv: Vec::new() };
        let mut spec = JobSpec {
            queue: ask.queue.clone(),
            account: ask.account.clone(),
            comment: ask.comment.clone(),
            request: ask.request.clone(),
            time_limit: Some(ask.length),
            ..JobSpec::plain(ask.name.clone(), nothing, OsText::from("/"))
        };
        self.components(request, &mut spec, None, None);
        ask.queue = spec.queue;
        ask.account = spec.account;
        ask.comment = spec.comment;
        ask.request = spec.request;
        ask.length = spec.time_limit.unwrap_or(ask.length);
    }

    /// Each task; the account is that of the whole.
    fn workflow(&mut self, flow: &mut FlowSpec) {
        let asked = flow.account.clone();
        let mut account: Option<Option<String>> = None;
        for task in &mut flow.tasks {
            task.spec.account = asked.clone();
            self.components("workflow", &mut task.spec, None, Some(&flow.environment));
            if let Verdict::Refused { message, .. } = &mut self.all.verdict {
                *message = format!("task {}: {message}", task.name);
                return;
            }
            let own = task.spec.account.clone();
            if account.as_ref().is_some_and(|other| *other != own) {
                let message = "the rules at submission give tasks of this workflow different accounts: name one for the whole";
                return self.all.refuse("", message.to_owned());
            }
            account = Some(own);
        }
        if let Some(account) = account {
            flow.account = account;
        }
    }
}

/// Asks the program of the site and does what it wants; false when it has failed.
fn ask_worker(
    kept: &mut Option<Worker>,
    policy: &WorkerPolicy,
    subject: &mut Subject<'_>,
    outcome: &mut Outcome,
) -> bool {
    let done = ask(kept, policy, subject).and_then(|wanted| {
        for (field, value) in wanted.set {
            outcome.set(subject, field, value)?;
        }
        wanted
            .remarks
            .into_iter()
            .for_each(|text| outcome.remark(text));
        if let Some(message) = wanted.refuse {
            outcome.refuse("worker", message);
        }
        Ok(())
    });
    let Err(why) = done else { return true };
    let program = policy.command.first().map_or("", String::as_str);
    tracing::error!("the program {program} that judges requests has failed: {why}");
    if !policy.fail_open {
        let message = "the program that judges requests here has failed, and nothing was changed: try again, or tell an administrator";
        outcome.refuse("worker", message.to_owned());
    }
    false
}

#[cfg(test)]
mod tests;
