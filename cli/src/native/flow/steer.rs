//! `cosy flow submit`, `confirm`, `cancel`: what changes workflows, and how the answer is
//! told.

use crate::native::flow::{json, plan, request, watch};
use crate::native::resv::reserve::OutputForm;
use crate::native::resv::{self, words};
use crate::native::{change, stat, table};
use crate::{Context, exit, output};
use clap::ArgMatches;
use cosy_client::CallError;
use cosy_model::api::{Reply, Request};
use cosy_model::workflow::{FlowInfo, FlowSpec, FlowState};
use cosy_model::{FlowId, Span};
use jiff::Zoned;

/// Runs `cosy flow submit`: a hold on all slots, then its confirmation.
///
/// # Errors
/// Bad input, a refusal, or no controller.
pub fn submit(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let request = request::read(context, matches)?;
    let only_hold = matches.get_flag("hold");
    if only_hold && request.spec.deadline.is_none() {
        return Err(exit::usage(
            "--hold: without a deadline there are no slots to hold: give --finish-by or --slack",
        ));
    }
    let info =
        book(context, request.spec, only_hold).map_err(|e| request.source_lines.with_line(e))?;
    let form = OutputForm::of(matches);
    if matches.get_flag("wait") {
        if form != OutputForm::Json {
            output::print(&text(std::slice::from_ref(&info), &request.now, form));
        }
        let form = watch::WatchOptions {
            json: form == OutputForm::Json,
            quiet: form != OutputForm::Words,
        };
        return watch::follow(context, info.id, &request.now, form);
    }
    output::print(&text(&[info], &request.now, form));
    Ok(exit::OK)
}

/// Both phases. When the second fails the first is taken back, so that nothing stays held.
fn book(context: &Context, spec: FlowSpec, only_hold: bool) -> Result<FlowInfo, CallError> {
    let hold = spec.deadline.is_some();
    let spec = Box::new(spec);
    let held = flow_of(context.ask(Request::SubmitFlow { spec, hold })?)?;
    if only_hold || held.state != FlowState::Held {
        return Ok(held);
    }
    let id = held.id;
    let confirmed = context.ask(Request::ConfirmFlow { id }).and_then(flow_of);
    if let Err(CallError::Refused(_)) = &confirmed {
        let back = context.ask(Request::CancelFlow { ids: vec![id] });
        if let Err(e) = back {
            let text = format!("workflow {id} could not be given back: {e}");
            output::complain(context.program(), &text);
        }
    }
    confirmed
}

fn flow_of(reply: Reply) -> Result<FlowInfo, CallError> {
    match reply {
        Reply::Flow(info) => Ok(*info),
        _ => Err(CallError::Unexpected),
    }
}

/// Runs `cosy flow confirm`.
///
/// # Errors
/// A refusal, or no controller.
pub fn confirm(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = resv::request::present(matches);
    let mut done = Vec::new();
    let mut code = exit::OK;
    for id in super::ids(matches) {
        match context.ask(Request::ConfirmFlow { id }).and_then(flow_of) {
            Ok(info) => done.push(info),
            Err(e) => {
                output::complain(context.program(), &words::local_times(&e.to_string(), &now));
                code = code.max(exit::of_call(&e));
            }
        }
    }
    output::print(&text(&done, &now, OutputForm::of(matches)));
    Ok(code)
}

/// Runs `cosy flow cancel`.
///
/// # Errors
/// A refusal, or no controller.
pub fn cancel(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let ids: Vec<FlowId> = super::ids(matches);
    let reply = context.ask(Request::CancelFlow { ids })?;
    let done = match &reply {
        Reply::Done { changed, .. } => *changed,
        _ => 0,
    };
    let as_json = matches.get_flag("json");
    let code = change::report(context, reply, as_json)?;
    if done > 0 && !as_json {
        let what = words::count(done, "workflow", "workflows");
        output::print(&format!("Gave up {what}.\n"));
    }
    Ok(code)
}

fn text(all: &[FlowInfo], now: &Zoned, form: OutputForm) -> String {
    match form {
        OutputForm::Json => stat::json_text(&json::flows(all)),
        OutputForm::Ids => all.iter().map(|f| format!("{}\n", f.id)).collect(),
        OutputForm::Words => {
            let text: String = all.iter().map(|f| sentences(f, now)).collect();
            table::sentences(&text, output::width())
        }
    }
}

fn sentences(f: &FlowInfo, now: &Zoned) -> String {
    let tasks = words::count(f.task_count.into(), "task", "tasks");
    let did = match (f.state, f.deadline) {
        (FlowState::Held, _) => "Held",
        (FlowState::Running, Some(_)) => "Booked",
        (FlowState::Running, None) => "Submitted",
        (
            FlowState::Completed | FlowState::Failed | FlowState::Cancelled | FlowState::Expired,
            _,
        ) => "No longer there:",
    };
    let times = match (f.end, f.deadline) {
        (Some(end), Some(deadline)) => format!(
            "{tasks}, done by {} (deadline {})",
            words::clock(end, now),
            words::clock(deadline, now)
        ),
        _ => tasks,
    };
    let mut text = format!("{did} workflow {} \"{}\": {times}.\n", f.id, words::clean(&f.name));
    if f.deadline.is_some() {
        text.push_str(&format!("It costs {}.\n", words::su(f.price)));
        text.push_str(&stretched_line(f));
    }
    if !f.note.is_empty() {
        text.push_str(&format!("{}\n", words::local_times(&f.note, now)));
    }
    if let (FlowState::Held, Some(until)) = (f.state, f.hold_until) {
        text.push_str(&format!(
            "It is given back at {} unless you confirm it: cosy flow confirm {}\n",
            words::clock(until, now),
            f.id
        ));
    }
    text
}

/// What the slots come to where they are far longer than the work.
fn stretched_line(f: &FlowInfo) -> String {
    let slots = f
        .tasks
        .iter()
        .filter_map(|t| Some((t.slot_start?, t.slot_end?, t.estimate)));
    let sums = slots.fold((Span::ZERO, Span::ZERO), |sums, (start, end, estimate)| {
        (sums.0 + end.since(start), sums.1 + estimate)
    });
    let stretched = plan::stretched(sums).filter(|_| f.state.is_live());
    stretched.map_or_else(String::new, |stretched| {
        let id = f.id;
        format!(
            "{stretched} To book less: cosy flow cancel {id}, then submit it with --slack 50%.\n"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::list::sample;
    use crate::native::flow::plan::sample::{at, now};

    #[test]
    fn what_is_told() {
        let check = |f: &FlowInfo, want: &str| assert_eq!(sentences(f, &now()), want);
        let mut flow = sample();
        check(
            &flow,
            "Booked workflow 3 \"night\": 3 tasks, done by 12:40 (deadline 13:00).\n\
             It costs 4.5 SU.\n",
        );
        flow.tasks[0].slot_end = Some(at(200));
        check(
            &flow,
            "Booked workflow 3 \"night\": 3 tasks, done by 12:40 (deadline 13:00).\n\
             It costs 4.5 SU.\n\
             Its slots are stretched to the deadline: 3 h 30 min are booked and paid for 18 min of \
             work. To book less: cosy flow cancel 3, then submit it with --slack 50%.\n",
        );
        flow.tasks[0].slot_end = Some(at(20));
        flow.state = FlowState::Held;
        flow.hold_until = Some(at(5));
        check(
            &flow,
            "Held workflow 3 \"night\": 3 tasks, done by 12:40 (deadline 13:00).\n\
             It costs 4.5 SU.\n\
             It is given back at 12:05 unless you confirm it: cosy flow confirm 3\n",
        );
        flow.state = FlowState::Running;
        flow.deadline = None;
        check(&flow, "Submitted workflow 3 \"night\": 3 tasks.\n");
        assert_eq!(text(&[flow], &now(), OutputForm::Ids), "3\n");
    }
}
