//! `--test-only`: when a job would start, without submitting it.
//!
//! The answer comes from a quote: the same plan of all waiting jobs that prices
//! reservations tells when a plain job of that size would start.

use super::refusal;
use crate::slurm::messages::{fail, say};
use crate::{Context, exit, times};
use cosy_client::CallError;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::reservation::{PlainTerms, Quote, ReservationSpec, Sharing, StartChoice};
use cosy_model::{JobId, JobSpec, Settings, Span, Time};
use cosy_slurm::sentences;
use cosy_slurm::submit::{Line, Program};
use cosy_slurm::times::timestamp;

/// Length that a job without a time limit is taken to have in the quote.
const WITHOUT_LIMIT: Span = Span::from_minutes(365 * 24 * 60);

/// Prints when the job would start; gives the exit code.
pub fn run(context: &Context, program: Program, submission: &Submission) -> u8 {
    let spec = &submission.spec;
    let quotes = match quote(context, spec) {
        Ok(few) => Ok((few, on_any_switches(context, spec))),
        Err(e) => on_any_switches(context, spec)
            .map(|any| (any, None))
            .ok_or(e),
    };
    match quotes {
        Ok((few, any)) => {
            let settings = settings(context);
            let (quote, why) = choice(spec, few, any, settings.max_switch_wait);
            let Some(text) = sentence(spec, &quote, settings.next_job) else {
                return failed(sentences::PARTITION_LIMIT);
            };
            for text in std::iter::once(text).chain(why) {
                say(&format!("{}: {text}", program.name()));
            }
            exit::OK
        }
        Err(e) => {
            let fault = refusal::explain(context, spec, submission.array.as_ref(), &e);
            match fault.lines.last() {
                Some(Line::Refusal(text)) => failed(text),
                _ => fail(program, &fault),
            }
        }
    }
}

fn quote(context: &Context, spec: &JobSpec) -> Result<Box<Quote>, CallError> {
    match context.ask(question(context, spec))? {
        Reply::Quote(quote) => Ok(quote),
        _ => Err(CallError::Unexpected),
    }
}

/// The same for a job that asks for no number of switches, where this one does.
fn on_any_switches(context: &Context, spec: &JobSpec) -> Option<Box<Quote>> {
    spec.request.switches?;
    let mut any = spec.clone();
    any.request.switches = None;
    quote(context, &any).ok()
}

fn settings(context: &Context) -> Box<Settings> {
    match context.ask(Request::Settings) {
        Ok(Reply::Settings(settings)) => settings,
        Ok(_) | Err(_) => Box::new(Settings {
            max_switch_wait: Span::UNLIMITED,
            ..Settings::default()
        }),
    }
}

/// What becomes of a job that asks for few switches: it waits for them, or takes others once it has
/// waited long enough. With what else there would be.
fn choice(
    spec: &JobSpec,
    few: Box<Quote>,
    any: Option<Box<Quote>>,
    max_wait: Span,
) -> (Box<Quote>, Option<String>) {
    let starts = |any: &Quote| few.plain_start.zip(any.plain_start);
    let (Some(switches), Some(mut any)) = (spec.request.switches, any) else {
        return (few, None);
    };
    let Some((on_few, on_any)) = starts(&any).filter(|(few, any)| any < few) else {
        return (few, None);
    };
    let until = any.now + switches.waits(max_wait);
    let zone = times::now();
    let at = |time| timestamp(time, zone.time_zone());
    let on = match switches.most {
        1 => "one switch".to_owned(),
        most => format!("no more than {most} switches"),
    };
    let why = format!(
        "nodes on {on} are free at {}, on any number at {}; it waits for the former until {}",
        at(on_few),
        at(on_any),
        at(until)
    );
    if on_few <= until {
        return (few, Some(why));
    }
    any.plain_start = Some(on_any.max(until));
    (any, Some(why))
}

/// When a job like this would start; `None` when that is unknown, or never.
pub fn start(context: &Context, spec: &JobSpec) -> Option<Time> {
    quote(context, spec).ok()?.plain_start
}

fn failed(why: &str) -> u8 {
    say(&format!("allocation failure: {why}"));
    exit::FAILED
}

fn question(context: &Context, spec: &JobSpec) -> Request {
    let as_job = PlainTerms {
        qos: spec.qos.clone(),
        nice: spec.nice,
    };
    Request::Quote {
        ask: Box::new(ask(context, spec)),
        most: Some(1),
        as_job: Some(Box::new(as_job)),
    }
}

fn ask(context: &Context, spec: &JobSpec) -> ReservationSpec {
    let limit = spec.time_limit.or_else(|| queue_limit(context, spec));
    ReservationSpec {
        name: String::new(),
        queue: spec.queue.clone(),
        request: spec.request.clone(),
        licenses: spec.licenses.clone(),
        length: limit.filter(|l| !l.is_unlimited()).unwrap_or(WITHOUT_LIMIT),
        earliest: spec.begin,
        latest_end: spec.deadline,
        pick: StartChoice::Soonest,
        repeat: None,
        account: spec.account.clone(),
        max_price: None,
        sharing: Sharing::default(),
        comment: String::new(),
        flags: Vec::new(),
    }
}

fn queue_limit(context: &Context, spec: &JobSpec) -> Option<Span> {
    let Ok(Reply::Queues(queues)) = context.ask(Request::Queues) else {
        return None;
    };
    let ours = queues.into_iter().find(|q| match &spec.queue {
        Some(name) => q.spec.name == *name,
        None => q.default,
    })?;
    ours.spec.default_time.or(ours.spec.max_time)
}

fn sentence(spec: &JobSpec, quote: &Quote, next: JobId) -> Option<String> {
    let start = quote.plain_start?;
    let slot = quote.choice.and_then(|at| quote.slots.get(at as usize));
    let nodes = slot.or(quote.slots.first()).map_or("(null)", |s| &s.nodes);
    let start = timestamp(start, times::now().time_zone());
    Some(format!(
        "Job {next} to start at {start} using {} processors on nodes {nodes} in partition {}",
        processors(spec),
        quote.queue
    ))
}

fn processors(spec: &JobSpec) -> u64 {
    let request = &spec.request;
    let nodes = u64::from(request.nodes.unwrap_or(1));
    let each = u64::from(request.tasks_per_node.unwrap_or(1));
    let tasks = request
        .tasks
        .map_or_else(|| nodes.saturating_mul(each), u64::from);
    tasks.saturating_mul(u64::from(request.cores_per_task))
}
