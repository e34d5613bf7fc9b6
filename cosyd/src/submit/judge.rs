//! What rules make of each kind of request.

use super::given::{self, Given};
use super::policy::{Layer, SubmitPolicy, WorkerPolicy};
use super::worker::{Worker, ask, log, one_line};
use cosy_control::{AdminField, DescribedJob, changed};
use cosy_model::api::{JobChange, QueueInfo, Request, Submission};
use cosy_model::policy::UserAccounts;
use cosy_model::reservation::ReservationSpec;
use cosy_model::workflow::FlowSpec;
use cosy_model::{ArraySpec, JobSpec, OsText, Program, Refusal, RefusalCode, User};
use cosy_rules::protocol::{self, Question, QueueRow, Wanted};
use cosy_rules::{
    Field, Outcome, Requester, Subject, Value, Verdict, apply, apply_to_change, asked_by,
};
use std::collections::BTreeMap;

/// Most lines that are kept to be shown to whoever tries rules.
const LOGGED: usize = 200;

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
    /// The queues, where programs are told of them.
    pub queues: Vec<QueueInfo>,
    /// Accounts by login name, where programs are told of them.
    pub accounts: BTreeMap<String, UserAccounts>,
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
    /// Those among them that only administrators may set themselves, and that nobody has asked for
    /// beside what rules have set.
    pub given: Vec<AdminField>,
    /// What else was set: variables and the script.
    pub further: Vec<(String, String)>,
    /// What programs have written for the log.
    pub logged: Vec<String>,
}

/// Programs that judge and are kept between requests.
#[derive(Debug, Default)]
pub struct Workers {
    /// The program of the site.
    worker: Option<Worker>,
    /// The one that runs the script in Lua.
    lua: Option<Worker>,
}

/// One request under judgement.
struct Judge<'a> {
    policy: &'a SubmitPolicy,
    reason: &'a Reason,
    workers: &'a mut Workers,
    /// A program has failed at this request: it is not asked again.
    failed: Vec<Layer>,
    all: Outcome,
    /// The error number of the refusal, where a program gave one.
    number: Option<u32>,
    further: Vec<(String, String)>,
    logged: Vec<String>,
    given: Given,
}

/// A job, or what stands for one, that is judged.
struct Case<'a> {
    request: &'static str,
    spec: &'a mut JobSpec,
    array: Option<u64>,
    indices: Option<&'a ArraySpec>,
    /// Variables where they are not those of `spec`.
    environment: Option<&'a OsText>,
    /// The text of its script.
    script: Option<&'a mut OsText>,
    /// Of a change: the job as it is, and what is asked for.
    old: Option<(&'a DescribedJob, &'a [Field])>,
}

/// Judges a request; what no rules are about goes on as it is.
pub fn judge(
    policy: &SubmitPolicy,
    reason: &Reason,
    workers: &mut Workers,
    mut request: Request,
) -> Judged {
    let mut judge = Judge {
        policy,
        reason,
        workers,
        failed: Vec::new(),
        all: Outcome::default(),
        number: None,
        further: Vec::new(),
        logged: Vec::new(),
        given: Given::default(),
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
            let line = one_line(&message);
            tracing::info!("user {}: refused by rule '{rule}': {line}", reason.user.name);
            let mut refusal = Refusal::new(RefusalCode::Admission, message);
            refusal.slurm_number = judge.number;
            Some(refusal)
        }
    };
    Judged {
        request,
        refused,
        remarks: judge.all.remarks,
        applied: judge.all.applied,
        changes: judge.all.changes,
        given: judge.given.all(),
        further: judge.further,
        logged: judge.logged,
    }
}

impl Judge<'_> {
    /// Judges each component of a job; what each of them came to.
    fn components(&mut self, mut case: Case<'_>) -> Vec<Vec<(Field, Value)>> {
        let count = u16::try_from(case.spec.component_count()).unwrap_or(u16::MAX);
        let mut changes = Vec::new();
        let asked = given::asked_for(case.spec, case.old.map(|(_, fields)| fields));
        for component in 0..count {
            let outcome = self.component(&mut case, component);
            changes.push(outcome.changes.clone());
            self.learn(outcome);
            if !self.all.has_passed() {
                break;
            }
        }
        let set = changes.iter().flatten().map(|(field, _)| *field);
        self.given.learn(asked, set);
        changes
    }

    fn component(&mut self, case: &mut Case<'_>, component: u16) -> Outcome {
        let mut outcome = Outcome::default();
        let (policy, reason) = (self.policy, self.reason);
        for layer in &policy.order {
            if !outcome.has_passed() {
                break;
            }
            let program = match layer {
                Layer::Rules => {
                    let mut subject = subject(reason, case, component);
                    apply(&policy.rules, &mut subject, &mut outcome);
                    continue;
                }
                Layer::Lua => &policy.lua,
                Layer::Worker => &policy.worker,
            };
            if let Some(program) = program
                && !self.failed.contains(layer)
            {
                self.ask(*layer, program, case, component, &mut outcome);
            }
        }
        outcome
    }

    /// Asks a program and does what it wants.
    fn ask(
        &mut self,
        layer: Layer,
        program: &WorkerPolicy,
        case: &mut Case<'_>,
        component: u16,
        outcome: &mut Outcome,
    ) {
        let question = question(self.reason, program, case, component);
        let (kept, name) = match layer {
            Layer::Lua => (&mut self.workers.lua, "lua"),
            Layer::Worker | Layer::Rules => (&mut self.workers.worker, "worker"),
        };
        let answer = ask(kept, program, question);
        if answer.is_ok() && !outcome.applied.iter().any(|applied| applied == name) {
            outcome.applied.push(name.to_owned());
        }
        let done = answer.and_then(|wanted| {
            for line in &wanted.log {
                log(name, line);
                if self.logged.len() < LOGGED {
                    self.logged.push(format!("{name}: {}", line.text));
                }
            }
            match &wanted.failed {
                Some(why) => Err(why.clone()),
                None => {
                    let before = (case.spec.clone(), outcome.clone());
                    let done = self.follow(program, wanted, case, component, outcome);
                    if done.is_err() {
                        // Nothing is half done where the request goes on all the same.
                        (*case.spec, *outcome) = before;
                    }
                    done
                }
            }
        });
        let Err(why) = done else { return };
        self.failed.push(layer);
        let script = program.script.as_ref();
        let what = match (script, program.command.first()) {
            (Some(script), _) => format!("the script {}", script.path.display()),
            (None, command) => format!("the program {}", command.map_or("", String::as_str)),
        };
        tracing::error!("{what} that judges requests has failed: {}", one_line(&why));
        self.logged.push(format!("{what} has failed: {why}"));
        if !program.fail_open {
            let kind = if script.is_some() {
                "script"
            } else {
                "program"
            };
            let message = format!(
                "the {kind} that judges requests here has failed, and nothing was changed: try again, or tell an administrator"
            );
            outcome.refuse(name, message);
        }
    }

    /// Does what a program wants.
    fn follow(
        &mut self,
        program: &WorkerPolicy,
        wanted: Wanted,
        case: &mut Case<'_>,
        component: u16,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        if let Some(message) = wanted.refuse {
            let name = if program.script.is_some() {
                "lua"
            } else {
                "worker"
            };
            outcome.refuse(name, message);
            self.number = wanted.number;
            return Ok(());
        }
        let mut subject = subject(self.reason, case, component);
        for (field, value) in wanted.set {
            outcome.set(&mut subject, field, value)?;
        }
        wanted
            .remarks
            .into_iter()
            .for_each(|text| outcome.remark(text));
        if !wanted.environment.is_empty() {
            if !has_variables(case) || case.environment.is_some() {
                return Err("it sets variables, which only a batch job has".to_owned());
            }
            protocol::set_variables(&mut case.spec.environment, &wanted.environment);
            let shown = |(name, value): (String, Option<String>)| {
                let value = value.unwrap_or_else(|| "none".to_owned());
                (format!("variable {name}"), value)
            };
            self.further
                .extend(wanted.environment.into_iter().map(shown));
        }
        match (wanted.script, &mut case.script) {
            (None, _) => {}
            (Some(text), Some(script)) if !script.is_empty() && program.sees.script => {
                let lines = text.lines().count();
                self.further
                    .push(("script".to_owned(), format!("another one of {lines} lines")));
                **script = OsText(text.into_bytes());
            }
            (Some(_), _) => return Err("it sets a script that it does not see".to_owned()),
        }
        Ok(())
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
        let array = new.array.as_ref();
        self.components(Case {
            request: "submit",
            spec: &mut new.spec,
            array: array.map(ArraySpec::count),
            indices: array,
            environment: None,
            script: Some(&mut new.script),
            old: None,
        });
    }

    /// Each job as the change would leave it. What rules set becomes part of the change, which is
    /// one for all jobs.
    fn change(&mut self, change: &mut JobChange) {
        let asked = change.clone();
        let fields = asked_by(change);
        let mut result: Option<JobChange> = None;
        for job in &self.reason.jobs {
            let mut spec = changed(job.spec.clone(), &asked);
            let changes = self.components(Case {
                old: Some((job, &fields)),
                array: job.array,
                ..Case::plain("change", &mut spec)
            });
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

    /// What a reservation has in common with a job: queue, account, resources, licences, length.
    fn reservation(&mut self, request: &'static str, ask: &mut ReservationSpec) {
        let nothing = Program::Command { argv: Vec::new() };
        let mut spec = JobSpec {
            queue: ask.queue.clone(),
            account: ask.account.clone(),
            comment: ask.comment.clone(),
            request: ask.request.clone(),
            licenses: ask.licenses.clone(),
            time_limit: Some(ask.length),
            ..JobSpec::plain(ask.name.clone(), nothing, OsText::from("/"))
        };
        self.components(Case::plain(request, &mut spec));
        ask.queue = spec.queue;
        ask.account = spec.account;
        ask.comment = spec.comment;
        ask.request = spec.request;
        ask.licenses = spec.licenses;
        ask.length = spec.time_limit.unwrap_or(ask.length);
    }

    /// Each task; the account is that of the whole.
    fn workflow(&mut self, flow: &mut FlowSpec) {
        let asked = flow.account.clone();
        let mut account: Option<Option<String>> = None;
        for task in &mut flow.tasks {
            task.spec.account = asked.clone();
            self.components(Case {
                environment: Some(&flow.environment),
                script: Some(&mut task.script),
                ..Case::plain("workflow", &mut task.spec)
            });
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

impl<'a> Case<'a> {
    /// Something without an array, variables of its own or a script.
    fn plain(request: &'static str, spec: &'a mut JobSpec) -> Self {
        Self {
            request,
            spec,
            array: None,
            indices: None,
            environment: None,
            script: None,
            old: None,
        }
    }
}

fn subject<'a>(reason: &'a Reason, case: &'a mut Case<'_>, component: u16) -> Subject<'a> {
    Subject {
        requester: Requester {
            request: case.request,
            user: &reason.user,
            admin: reason.admin,
            default_queue: reason.default_queue.as_deref(),
        },
        spec: case.spec,
        array: case.array,
        indices: case.indices,
        environment: case.environment,
        component,
    }
}

/// Whether programs are told of the variables: of batch jobs alone, as in Slurm.
fn has_variables(case: &Case<'_>) -> bool {
    let batch = matches!(case.spec.program, Program::Script { .. });
    batch && case.old.is_none()
}

/// What a program is asked.
fn question(
    reason: &Reason,
    program: &WorkerPolicy,
    case: &mut Case<'_>,
    component: u16,
) -> Question {
    let sees = program.sees;
    let environment = (sees.environment && has_variables(case)).then(|| {
        let block = case.environment.unwrap_or(&case.spec.environment);
        protocol::variables(block)
    });
    // What is no text cannot be told of, and is not to be changed.
    let text = |script: &&mut OsText| std::str::from_utf8(&script.0).ok().map(str::to_owned);
    let script = case.script.as_ref().filter(|_| sees.script).and_then(text);
    let old = case.old.filter(|_| sees.old);
    let of_whom = case.old.map_or(&reason.user.name, |(job, _)| &job.user);
    let accounts = || reason.accounts.get(of_whom).cloned().unwrap_or_default();
    Question {
        version: protocol::VERSION,
        id: 0,
        asked: old.map(|(_, asked)| asked.iter().map(|f| f.name().to_owned()).collect()),
        old: old.map(|(job, _)| old_fields(reason, job, component)),
        queues: sees.queues.then(|| QueueRow::all_of(&reason.queues)),
        accounts: sees.accounts.then(accounts),
        script: script.filter(|text| !text.is_empty()),
        environment,
        fields: protocol::fields(&subject(reason, case, component)),
    }
}

/// The fields of a job as it is, with its number and owner.
fn old_fields(
    reason: &Reason,
    job: &DescribedJob,
    component: u16,
) -> serde_json::Map<String, serde_json::Value> {
    let mut spec = job.spec.clone();
    let mut case = Case {
        array: job.array,
        ..Case::plain("change", &mut spec)
    };
    let mut fields = protocol::fields(&subject(reason, &mut case, component));
    for name in ["groups", "admin", "gid", "request"] {
        fields.remove(name);
    }
    fields.insert("job".to_owned(), job.name.clone().into());
    fields.insert("user".to_owned(), job.user.clone().into());
    fields.insert("uid".to_owned(), job.uid.0.into());
    fields
}

#[cfg(test)]
mod tests;
