//! `cresv quote`: asks, shows, draws and, with `--choose`, takes what is picked.

use crate::native::broker::run::ClusterSelection;
use crate::native::resv::request::{self, ReservationRequest};
use crate::native::resv::reserve::{self, CompletedChange, OutputForm};
use crate::native::resv::{chart, json, picture, slots};
use crate::native::table::TableStyle;
use crate::native::{broker, stat};
use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::ArgMatches;
use cosy_model::Time;
use cosy_model::api::{Reply, Request};
use cosy_model::limits::CANDIDATES;
use cosy_model::reservation::{PlanChart, Quote, ReservationSpec, StartChoice};
use jiff::Zoned;
use std::ffi::OsString;

/// Most waiting jobs in a picture.
const DRAWN_JOBS: u32 = 2000;
/// Lines of the table unless more are asked for.
const SHOWN: usize = 12;

/// Runs `cresv quote`.
///
/// # Errors
/// Bad input, a refusal, no controller, or a picture that cannot be written.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let mut request = request::read(context.args(), matches, true)?;
    if let Some(repeat) = &request.spec.repeat {
        let n = repeat.starts.len();
        request
            .notes
            .push(format!("the quote is for the first of {n} starts"));
    }
    super::print_notes(context, &request.notes);
    if let Some(several) = ClusterSelection::of(matches) {
        return broker::run::run_quote(several, &request.spec, most(matches), &request.now);
    }
    let quote = fetch(context, &request.spec, most(matches))?;
    let drawn = match matches.get_one::<OsString>("svg") {
        Some(file) => draw(context, &request, &quote, file)?,
        None => false,
    };
    let as_json = matches.get_flag("json");
    if !as_json && !drawn {
        output::print(&quote_text(matches, &quote, &request.now));
    }
    let chosen = matches.get_one::<String>("choose").map(String::as_str);
    match chosen {
        Some(word) => choose(context, request, &quote, word == "hold", as_json),
        None => {
            if as_json && !drawn {
                output::print(&stat::json_text(&json::quote(&quote)));
            }
            Ok(exit::OK)
        }
    }
}

fn most(matches: &ArgMatches) -> Option<u32> {
    let all = matches.get_flag("all-slots").then_some(CANDIDATES as u32);
    all.or(matches.get_one("most").copied())
}

fn fetch(context: &Context, spec: &ReservationSpec, most: Option<u32>) -> anyhow::Result<Quote> {
    let ask = Box::new(spec.clone());
    match context.ask(Request::Quote {
        ask,
        most,
        as_job: None,
    })? {
        Reply::Quote(quote) => Ok(*quote),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}

fn quote_text(matches: &ArgMatches, quote: &Quote, now: &Zoned) -> String {
    let every = matches.get_flag("all-slots") || matches.contains_id("most");
    let style = TableStyle {
        width: output::width(),
        colour: output::colour(),
        ..TableStyle::default()
    };
    slots::text(quote, now, (!every).then_some(SHOWN), style, chart::ChartStyle::for_stdout())
}

/// Draws the plan; true when it went to standard output, which is then taken.
fn draw(
    context: &Context,
    request: &ReservationRequest,
    quote: &Quote,
    file: &OsString,
) -> anyhow::Result<bool> {
    let until = quote.slots.iter().map(|s| s.end).max();
    let plan = plan(context, until)?;
    let picture = picture::draw(&request.spec, quote, &plan, &request.now);
    if file == "-" {
        output::print(&picture);
        return Ok(true);
    }
    let name = file.to_string_lossy();
    std::fs::write(file, picture).with_context(|| format!("cannot write '{name}'"))?;
    Ok(false)
}

fn plan(context: &Context, until: Option<Time>) -> anyhow::Result<PlanChart> {
    let most = DRAWN_JOBS;
    match context.ask(Request::PlanChart { until, most })? {
        Reply::PlanChart(plan) => Ok(*plan),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}

fn choose(
    context: &Context,
    request: ReservationRequest,
    quote: &Quote,
    hold: bool,
    as_json: bool,
) -> anyhow::Result<u8> {
    let spec =
        at_slot(request.spec, quote, &request.now).map_err(|why| exit::error(exit::FAILED, why))?;
    let reply = context.ask(Request::Reserve {
        ask: Box::new(spec),
        hold,
        job: request.job,
    })?;
    if !as_json {
        return reserve::report(
            context,
            reply,
            &request.now,
            OutputForm::Words,
            CompletedChange::Made,
        );
    }
    let mut whole = json::quote(quote);
    whole["chosen"] = json::Reserved::of(reply)?.json();
    output::print(&stat::json_text(&whole));
    Ok(exit::OK)
}

/// The slot that is picked, exactly, at its price or for less.
fn at_slot(
    mut spec: ReservationSpec,
    quote: &Quote,
    now: &Zoned,
) -> Result<ReservationSpec, String> {
    let at = quote.choice.and_then(|at| usize::try_from(at).ok());
    let Some(slot) = at.and_then(|at| quote.slots.get(at)) else {
        let why = slots::first_reason(quote, now).map(|r| format!(": {r}"));
        return Err(format!("no slot can be taken now{}", why.unwrap_or_default()));
    };
    spec.max_price = Some(spec.max_price.map_or(slot.price(), |m| m.min(slot.price())));
    match spec.pick {
        // Placed by its end and moved later on: it stays such a one.
        StartChoice::FinishBy => {}
        StartChoice::At(_)
        | StartChoice::Soonest
        | StartChoice::Cheapest
        | StartChoice::Balance { .. } => {
            spec.pick = StartChoice::At(slot.start);
            (spec.earliest, spec.latest_end) = (None, None);
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample;
    use cosy_model::Su;
    use cosy_model::job::ResourceRequest;
    use cosy_model::reservation::Sharing;

    fn spec(pick: StartChoice, max_price: Option<Su>) -> ReservationSpec {
        ReservationSpec {
            name: String::new(),
            queue: None,
            request: ResourceRequest::default(),
            licenses: Default::default(),
            length: cosy_model::Span::from_minutes(120),
            earliest: Some(Time(1)),
            latest_end: Some(Time(2)),
            pick,
            repeat: None,
            account: None,
            max_price,
            sharing: Sharing::default(),
            comment: String::new(),
            flags: Vec::new(),
        }
    }

    #[test]
    fn what_is_chosen() {
        let quote = sample::quote();
        let slot = &quote.slots[2];
        assert_eq!(quote.choice, Some(2));
        let check = |pick, max, want: (StartChoice, Option<Time>, Su)| {
            let got = at_slot(spec(pick, max), &quote, &sample::now()).unwrap();
            assert_eq!((got.pick, got.earliest, got.max_price), (want.0, want.1, Some(want.2)));
        };
        let at = StartChoice::At(slot.start);
        check(StartChoice::Soonest, None, (at, None, slot.price()));
        check(StartChoice::Cheapest, Some(Su(1)), (at, None, Su(1)));
        check(StartChoice::Cheapest, Some(Su::MOST), (at, None, slot.price()));
        check(StartChoice::FinishBy, None, (StartChoice::FinishBy, Some(Time(1)), slot.price()));
        let none = Quote {
            choice: None,
            ..sample::quote()
        };
        let error = at_slot(spec(StartChoice::Soonest, None), &none, &sample::now()).unwrap_err();
        assert!(error.contains("no slot can be taken now: not free"), "{error}");
        let wrong = Quote {
            choice: Some(99),
            ..sample::quote()
        };
        assert!(at_slot(spec(StartChoice::Soonest, None), &wrong, &sample::now()).is_err());
    }
}
