//! A change that is under way: what has to be looked up first, the request itself, and what is said of it.

use super::cancel::Cancelling;
use super::change::Changing;
use super::options::Described;
use super::submission::{Draft, Found, Submitter};
use crate::call::{Call, Endpoint};
use crate::document::{Client, Document};
use crate::fault::{Fault, INVALID_JOBS_DESC, Warning};
use crate::json::Misfit;
use crate::shape::Kind;
use crate::value;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request};
use cosy_model::limits::FURTHER_COMPONENTS;
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_model::{JobState, Refusal, ReservationId};
use cosy_slurm::json_yaml::{Data, map};
use cosy_slurm::{show, targets};
use serde_json::Value;
use std::collections::VecDeque;

/// The entries of an object.
type Entries = serde_json::Map<String, Value>;

/// What is asked next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Settings,
    Reservations,
    Nodes,
    Queues,
    /// Whether there is an account of that very name.
    Account,
    /// The jobs that will be cancelled.
    Listed,
    Act,
    /// To hold it or let it go.
    Hold,
}

/// What is to be done.
#[derive(Debug)]
enum Deed {
    Submit(Option<Box<Draft>>),
    Change(Box<Changing>),
    Cancel(Box<Cancelling>),
    Nothing,
}

/// What was done to one job.
#[derive(Clone, Debug)]
struct Outcome {
    job: String,
    refusal: Option<Refusal>,
}

/// A change that is under way.
#[derive(Debug)]
pub struct Writing {
    call: Call,
    steps: VecDeque<Step>,
    deed: Deed,
    filter: JobFilter,
    found: Found,
    cluster: String,
    job: Option<u64>,
    note: String,
    outcomes: Vec<Outcome>,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
}

impl Writing {
    /// Begins with a call and its body.
    pub fn new(call: Call, body: &[u8], submitter: &Submitter<'_>) -> Self {
        let mut writing = Self {
            warnings: call.warnings.clone(),
            call,
            steps: VecDeque::from([Step::Settings]),
            deed: Deed::Nothing,
            filter: JobFilter::default(),
            found: Found::default(),
            cluster: String::new(),
            job: None,
            note: String::new(),
            outcomes: Vec::new(),
            faults: Vec::new(),
        };
        if let Err(fault) = writing.begin(body, submitter) {
            writing.faults.push(fault);
            // The head of every answer names the cluster.
            writing.steps = VecDeque::from([Step::Settings]);
        }
        writing
    }

    fn begin(&mut self, body: &[u8], submitter: &Submitter<'_>) -> Result<(), Fault> {
        match self.call.endpoint.clone() {
            Endpoint::Submit => self.begin_submission(body, submitter),
            Endpoint::Change(id) => self.begin_change(&id, body, submitter),
            Endpoint::Cancel(id) => {
                let cancelling = Cancelling::one(&id, &self.call.parameters)?;
                self.begin_cancel(cancelling);
                Ok(())
            }
            Endpoint::CancelSeveral => {
                let cancelling = Cancelling::several(body, self.call.version)?;
                self.begin_cancel(cancelling);
                Ok(())
            }
            _ => Err(Fault::query("path", "nothing is changed there")),
        }
    }

    fn begin_submission(&mut self, body: &[u8], submitter: &Submitter<'_>) -> Result<(), Fault> {
        let entries = value::object(body)?;
        let (jobs, script) = jobs_of(&entries, &mut self.warnings)?;
        let read = |job| Described::read(job, self.call.version, submitter.person);
        let mut components: Vec<Described> =
            jobs.into_iter().map(read).collect::<Result<_, _>>()?;
        if let (Some(script), Some(first)) = (script, components.first_mut()) {
            first.script = script.to_owned();
        }
        let (draft, warnings) = Draft::read(components, submitter)?;
        self.warnings.extend(warnings);
        let options = &draft.options;
        let several = options
            .partition
            .as_deref()
            .is_some_and(|list| list.contains(','));
        let capitals = options
            .account
            .as_deref()
            .is_some_and(|name| name.to_lowercase() != name);
        let mut all = std::iter::once(options).chain(&draft.further);
        let spreads = all.any(|o| o.spread || o.gpus.is_some() || o.gpus_per_task.is_some());
        for (step, needed) in [
            (Step::Reservations, options.reservation.is_some()),
            (Step::Queues, several),
            (Step::Account, capitals),
            (Step::Nodes, spreads),
            (Step::Act, true),
        ] {
            self.steps.extend(needed.then_some(step));
        }
        self.deed = Deed::Submit(Some(Box::new(draft)));
        Ok(())
    }

    fn begin_change(
        &mut self,
        id: &str,
        body: &[u8],
        submitter: &Submitter<'_>,
    ) -> Result<(), Fault> {
        let target = targets::parse(id).filter(|t| t.step.is_none() && t.component.is_none());
        let target = target.ok_or_else(|| Fault::new(2017, "there is no such job id", "job_id"))?;
        self.filter.ids = target.jobs;
        let changing = Changing::read(id, body, self.call.version, submitter.now)?;
        if changing.update.needs_admin && !submitter.admin {
            return Err(Fault::new(2002, "only administrators may change that of a job", "job"));
        }
        self.warnings.extend(changing.warnings.clone());
        let changes = changing.update.change != Default::default();
        let named = changing.update.reservation.is_some();
        self.steps.extend(named.then_some(Step::Reservations));
        self.steps.extend((changes || named).then_some(Step::Act));
        self.steps.extend(changing.hold.map(|_| Step::Hold));
        self.outcomes = vec![Outcome {
            job: id.to_owned(),
            refusal: None,
        }];
        self.deed = Deed::Change(Box::new(changing));
        Ok(())
    }

    fn begin_cancel(&mut self, cancelling: Cancelling) {
        self.warnings.extend(cancelling.warnings.clone());
        self.filter = cancelling.filter.clone();
        let outcome = |job: &String| Outcome {
            job: job.clone(),
            refusal: None,
        };
        self.outcomes = cancelling.named.iter().map(outcome).collect();
        self.steps
            .extend(self.outcomes.is_empty().then_some(Step::Listed));
        self.steps.push_back(Step::Act);
        self.deed = Deed::Cancel(Box::new(cancelling));
    }

    /// The next request to send; `None` when the document can be written.
    pub fn ask(&mut self, submitter: &Submitter<'_>) -> Option<Request> {
        let step = self.steps.front().copied()?;
        Some(match step {
            Step::Settings => Request::Settings,
            Step::Reservations => Request::Reservations {
                filter: ReservationFilter::default(),
            },
            Step::Nodes => Request::Nodes,
            Step::Queues => Request::Queues,
            Step::Account => Request::Accounts {
                names: self
                    .draft()
                    .and_then(|d| d.options.account.clone())
                    .into_iter()
                    .collect(),
            },
            Step::Listed => Request::Jobs {
                filter: self.living(),
                fields: vec![JobField::Id, JobField::Ref],
                fold_arrays: true,
            },
            Step::Act => match self.act(submitter) {
                Ok(request) => request,
                Err(fault) => {
                    self.fail(fault);
                    return None;
                }
            },
            Step::Hold => self.hold(),
        })
    }

    /// Of the jobs that are meant those that can still end.
    fn living(&self) -> JobFilter {
        let living = JobState::ALL.into_iter().filter(|state| !state.is_end());
        let all = self.filter.states.is_empty();
        JobFilter {
            states: if all {
                living.collect()
            } else {
                self.filter.states.clone()
            },
            pages: true,
            ..self.filter.clone()
        }
    }

    fn draft(&self) -> Option<&Draft> {
        match &self.deed {
            Deed::Submit(draft) => draft.as_deref(),
            Deed::Change(_) | Deed::Cancel(_) | Deed::Nothing => None,
        }
    }

    fn act(&mut self, submitter: &Submitter<'_>) -> Result<Request, Fault> {
        match &mut self.deed {
            Deed::Submit(draft) => {
                let draft = draft
                    .take()
                    .ok_or_else(|| Fault::query("job", "it is submitted already"))?;
                let submission = draft.submission(&self.found, submitter)?;
                Ok(Request::Submit(Box::new(submission)))
            }
            Deed::Change(changing) => {
                let mut change = changing.update.change.clone();
                change.reservation = self.found.reservation.or(change.reservation);
                Ok(Request::Change {
                    filter: self.filter.clone(),
                    change: Box::new(change),
                })
            }
            Deed::Cancel(cancelling) => Ok(cancelling.request()),
            Deed::Nothing => Err(Fault::query("path", "nothing is changed there")),
        }
    }

    fn hold(&self) -> Request {
        let filter = self.filter.clone();
        match &self.deed {
            Deed::Change(changing) if changing.hold == Some(true) => Request::Hold {
                filter,
                as_user: false,
            },
            Deed::Change(_) | Deed::Submit(_) | Deed::Cancel(_) | Deed::Nothing => {
                Request::Release { filter }
            }
        }
    }

    /// Takes the answer to that request.
    pub fn take(&mut self, reply: Result<Reply, Refusal>) {
        let Some(step) = self.steps.pop_front() else {
            return;
        };
        let reply = match reply {
            Ok(Reply::Refused(refusal)) => Err(refusal),
            other => other,
        };
        match (step, reply) {
            // An account of that name is not there: it is meant in small letters.
            (Step::Account, Err(_)) => self.in_small_letters(),
            (_, Err(refusal)) => {
                for outcome in &mut self.outcomes {
                    outcome.refusal.get_or_insert_with(|| refusal.clone());
                }
                self.fail(Fault::refused(&refusal, self.source()));
            }
            (Step::Settings, Ok(Reply::Settings(settings))) => self.cluster = settings.cluster,
            (Step::Reservations, Ok(Reply::Reservations(all))) => self.find_reservation(&all),
            (Step::Nodes, Ok(Reply::Nodes(all))) => self.found.nodes = all,
            (Step::Queues, Ok(Reply::Queues(all))) => self.found.queues = all,
            (Step::Account, Ok(_)) => {}
            (Step::Listed, Ok(Reply::Jobs(table))) => {
                let row = |row| Outcome {
                    job: table.text(row, JobField::Ref).to_owned(),
                    refusal: None,
                };
                self.outcomes = (0..table.rows).map(row).collect();
                if table.more.is_some() {
                    let why =
                        format!("only the first {} jobs are listed: all are cancelled", table.rows);
                    self.warnings.push(Warning::new("status", why));
                }
            }
            (Step::Act, Ok(Reply::Submitted { job, note, .. })) => {
                self.job = Some(job.0);
                self.note = note;
            }
            (Step::Act | Step::Hold, Ok(Reply::Done { refused, .. })) => self.refusals(refused),
            (_, Ok(_)) => {
                let why = "the controller has given another answer than was asked for";
                self.fail(Fault::connection(why));
            }
        }
    }

    const fn source(&self) -> &'static str {
        match self.deed {
            Deed::Submit(_) => "slurm_submit_batch_job",
            Deed::Change(_) => "slurm_update_job2",
            Deed::Cancel(_) => "slurm_kill_jobs",
            Deed::Nothing => "slurmrestd",
        }
    }

    fn in_small_letters(&mut self) {
        if let Deed::Submit(Some(draft)) = &mut self.deed {
            draft.options.account = draft
                .options
                .account
                .as_ref()
                .map(|name| name.to_lowercase());
        }
    }

    fn find_reservation(&mut self, all: &[ReservationInfo]) {
        let name = match &self.deed {
            Deed::Submit(draft) => draft.as_ref().and_then(|d| d.options.reservation.clone()),
            Deed::Change(changing) => changing.update.reservation.clone(),
            Deed::Cancel(_) | Deed::Nothing => None,
        };
        let name = name.unwrap_or_default();
        let named = all.iter().find(|r| show::reservation::name(r) == name);
        // Those of a series have one name; its number is each one's own.
        let found = named.or_else(|| all.iter().find(|r| r.id.to_string() == name));
        self.found.reservation = found.map(|r| r.id);
        let none: Option<ReservationId> = None;
        if self.found.reservation == none {
            self.fail(Fault::new(
                2053,
                format!("there is no reservation \"{name}\""),
                "reservation",
            ));
        }
    }

    /// Jobs that were named but could not be changed.
    fn refusals(&mut self, refused: Vec<(String, Refusal)>) {
        for (job, refusal) in refused {
            match self.outcomes.iter_mut().find(|outcome| outcome.job == job) {
                Some(outcome) => outcome.refusal = Some(refusal),
                None => self.outcomes.push(Outcome {
                    job,
                    refusal: Some(refusal),
                }),
            }
        }
        // Of a job that the path names the answer is an error; of those in a body each has its own.
        if self.call.endpoint == Endpoint::CancelSeveral {
            return;
        }
        if let [
            Outcome {
                refusal: Some(refusal),
                ..
            },
        ] = &self.outcomes[..]
        {
            let fault = Fault::refused(refusal, self.source());
            self.fail(fault);
        }
    }

    /// Notes that nothing more can be done: the controller is not reached, say.
    pub fn fail(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.steps.clear();
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        self.faults.first().map_or(200, Fault::status)
    }

    /// Writes the answer, and gives what did not fit into it: nothing, or there is a mistake here.
    pub fn write(&self, client: &Client<'_>, print: &mut dyn FnMut(&str)) -> Vec<Misfit> {
        let mut document = Document::new(self.call.version, print);
        match &self.call.endpoint {
            Endpoint::Submit => self.submitted(&mut document),
            Endpoint::Change(_) => {
                document.list("results", "changed", self.outcomes.iter().map(changed));
            }
            _ => document.list("status", "killed", self.outcomes.iter().map(killed)),
        }
        document.close(&self.call.endpoint, client, &self.cluster, &self.faults, &self.warnings)
    }

    fn submitted(&self, document: &mut Document<'_>) {
        let job = self.job.and_then(|job| i64::try_from(job).ok());
        let step = if self.job.is_some() { "batch" } else { "" };
        document.value("job_id", Kind::Int, Data::Number(job.unwrap_or(0)));
        document.value("step_id", Kind::Text, step.into());
        document.value("job_submit_user_msg", Kind::Text, self.note.as_str().into());
    }
}

/// The jobs of a body, one for each component, and the script where that stands beside them.
fn jobs_of<'b>(
    entries: &'b Entries,
    warnings: &mut Vec<Warning>,
) -> Result<(Vec<&'b Entries>, Option<&'b str>), Fault> {
    let strange = entries
        .keys()
        .filter(|name| !matches!(name.as_str(), "job" | "jobs" | "script"));
    warnings.extend(strange.map(|name| {
        let name = crate::query::short(name);
        Warning::new(name.clone(), format!("Ignoring unknown field \"{name}\""))
    }));
    let script = entries.get("script").and_then(Value::as_str);
    let script = script.filter(|script| !script.is_empty());
    let bad = |why: &str, source: &str| Fault::new(INVALID_JOBS_DESC, why, source);
    let one = |job: &'b Value| {
        job.as_object()
            .ok_or_else(|| bad("a job is an object", "jobs"))
    };
    let jobs = match (entries.get("job"), entries.get("jobs")) {
        (Some(job @ Value::Object(_)), None | Some(Value::Null)) => vec![one(job)?],
        (None | Some(Value::Null), Some(Value::Array(jobs))) => {
            if jobs.len() > FURTHER_COMPONENTS + 1 {
                let most = FURTHER_COMPONENTS + 1;
                return Err(bad(&format!("a job has at most {most} components"), "jobs"));
            }
            jobs.iter().map(one).collect::<Result<_, _>>()?
        }
        (Some(Value::Object(_)), Some(_)) => return Err(bad("there are both job and jobs", "job")),
        (Some(_), _) | (None, _) => return Err(bad("there is no job in the body", "job")),
    };
    Ok((jobs, script))
}

fn number(job: &str) -> Data {
    job.parse::<JobRef>()
        .map_or(Data::Null, |job| crate::tree::number(job.job.0))
}

fn changed(outcome: &Outcome) -> Data {
    let fault = outcome
        .refusal
        .as_ref()
        .map(|refusal| Fault::refused(refusal, "job"));
    map([
        ("job_id", number(&outcome.job)),
        ("step_id", outcome.job.as_str().into()),
        (
            "error",
            fault
                .as_ref()
                .map_or("No error", |fault| fault.sentence())
                .into(),
        ),
        (
            "error_code",
            fault
                .as_ref()
                .map_or(0, |fault| i64::from(fault.number))
                .into(),
        ),
        (
            "why",
            fault
                .map_or_else(String::new, |fault| fault.description)
                .into(),
        ),
    ])
}

fn killed(outcome: &Outcome) -> Data {
    let fault = outcome
        .refusal
        .as_ref()
        .map(|refusal| Fault::refused(refusal, "job"));
    map([
        (
            "error",
            map([
                (
                    "string",
                    fault
                        .as_ref()
                        .map_or("No error", |fault| fault.sentence())
                        .into(),
                ),
                (
                    "code",
                    fault
                        .as_ref()
                        .map_or(0, |fault| i64::from(fault.number))
                        .into(),
                ),
                (
                    "message",
                    fault
                        .map_or_else(String::new, |fault| fault.description)
                        .into(),
                ),
            ]),
        ),
        ("step_id", outcome.job.as_str().into()),
        ("job_id", number(&outcome.job)),
    ])
}
