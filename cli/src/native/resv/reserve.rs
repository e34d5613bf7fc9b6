//! `cresv hold`, `book`, `confirm`, `extend`, `shorten`, `share`, `cancel`: commands that change
//! reservations, and the output of their answers.

use crate::native::broker::run::ClusterSelection;
use crate::native::resv::json::Reserved;
use crate::native::resv::slots::room_line;
use crate::native::resv::{list, request, words};
use crate::native::{broker, change, stat, table};
use crate::times::{self, Direction};
use crate::{Context, exit, output, users};
use anyhow::anyhow;
use clap::ArgMatches;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{
    NamesChange, ReservationFilter, ReservationInfo, ReservationState, Sharing, SharingChange,
};
use cosy_model::{ReservationId, Span, Su, Time};
use jiff::Zoned;

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputForm {
    /// Sentences for people.
    Words,
    /// Ids alone, a line each (`--parsable`).
    Ids,
    /// JSON for programs (`--json`).
    Json,
}

/// The change that an answer reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletedChange {
    /// Reservations were held, booked or confirmed, as their state tells.
    Made,
    /// Their ends were moved to a later time.
    Extended,
    /// Their ends were moved to an earlier time.
    Shortened,
    /// Others were allowed to use the reservation.
    Shared,
}

impl OutputForm {
    /// As `--json` and `--parsable` say.
    pub fn of(matches: &ArgMatches) -> Self {
        if matches.get_flag("json") {
            Self::Json
        } else if matches.get_flag("parsable") {
            Self::Ids
        } else {
            Self::Words
        }
    }
}

/// Runs `cresv hold` and `cresv book`.
///
/// # Errors
/// Bad input, a refusal, or no controller.
pub fn reserve(context: &Context, matches: &ArgMatches, hold: bool) -> anyhow::Result<u8> {
    let request = request::read(context.args(), matches, false)?;
    super::print_notes(context, &request.notes);
    super::print_notes(context, &unknown(&request.spec.sharing));
    if let Some(several) = ClusterSelection::of(matches) {
        let job = request.job.as_deref();
        let program = context.program();
        return broker::run::run_book(several, &request.spec, hold, job, program, &request.now);
    }
    let reply = context.ask(Request::Reserve {
        ask: Box::new(request.spec),
        hold,
        job: request.job,
    })?;
    report(context, reply, &request.now, OutputForm::of(matches), CompletedChange::Made)
}

/// Runs `cresv confirm`.
///
/// # Errors
/// A refusal, or no controller.
pub fn confirm(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = request::present(matches);
    let form = OutputForm::of(matches);
    let mut done = Reserved {
        all: Vec::new(),
        conflicts: Vec::new(),
        note: String::new(),
    };
    let mut code = exit::OK;
    for id in super::ids(matches) {
        match context.ask(Request::Confirm { id }) {
            Ok(reply) => {
                let one = Reserved::of(reply)?;
                super::print_notes(context, &note_lines(&one.note));
                done.all.extend(one.all);
            }
            Err(e) => {
                output::complain(context.program(), &words::local_times(&e.to_string(), &now));
                code = code.max(exit::of_call(&e));
            }
        }
    }
    output::print(&text(&done, &now, form, CompletedChange::Made));
    Ok(code)
}

/// Runs `cresv extend`.
///
/// # Errors
/// A refusal, or no controller.
pub fn extend(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = request::present(matches);
    let Some(id) = super::ids(matches).first().copied() else {
        return Err(exit::usage("which reservation?"));
    };
    let by = match matches.get_one::<String>("until") {
        Some(text) => {
            let until = until(text, &now)?;
            longer(end_of(context, id)?, until, &now).map_err(exit::usage)?
        }
        None => matches.get_one::<Span>("by").copied().unwrap_or_default(),
    };
    let by = super::window::length(Some(by)).map_err(exit::usage)?;
    let max_price = matches.get_one::<Su>("max-price").copied();
    let reply = context.ask(Request::ExtendReservation { id, by, max_price })?;
    report(context, reply, &now, OutputForm::of(matches), CompletedChange::Extended)
}

/// Runs `cresv shorten`.
///
/// # Errors
/// A refusal, or no controller.
pub fn shorten(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = request::present(matches);
    let Some(id) = super::ids(matches).first().copied() else {
        return Err(exit::usage("which reservation?"));
    };
    let text = matches.get_one::<String>("until").map_or("", |t| t);
    let end = until(text, &now)?;
    let reply = context.ask(Request::ShortenReservation { id, end })?;
    report(context, reply, &now, OutputForm::of(matches), CompletedChange::Shortened)
}

/// Runs `cresv share`.
///
/// # Errors
/// A refusal, or no controller.
pub fn share(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = request::present(matches);
    let Some(id) = super::ids(matches).first().copied() else {
        return Err(exit::usage("which reservation?"));
    };
    let sharing = request::sharing(matches).map_err(exit::usage)?;
    let leave = matches.get_flag("remove");
    if !leave {
        super::print_notes(context, &unknown(&sharing));
    }
    let Sharing {
        users,
        groups,
        accounts,
    } = sharing;
    let change = |names| match leave {
        true => NamesChange {
            remove: names,
            ..NamesChange::default()
        },
        false => NamesChange {
            add: names,
            ..NamesChange::default()
        },
    };
    let change = Box::new(SharingChange {
        users: change(users),
        groups: change(groups),
        accounts: change(accounts),
    });
    let reply = context.ask(Request::ShareReservation { id, change })?;
    report(context, reply, &now, OutputForm::of(matches), CompletedChange::Shared)
}

/// A note for each name that this host knows no user or group by. The controller's host may
/// know more, so that it is no refusal.
fn unknown(sharing: &Sharing) -> Vec<String> {
    let note = |kind: &str, name: &String| {
        format!(
            "there is no {kind} '{name}' on this host: it is shared with that name all the same"
        )
    };
    let users = sharing.users.iter().filter(|user| !users::exists(user));
    let groups = sharing.groups.iter().filter(|g| !users::group_exists(g));
    let users = users.map(|user| note("user", user));
    users.chain(groups.map(|g| note("group", g))).collect()
}

fn until(text: &str, now: &Zoned) -> anyhow::Result<Time> {
    times::parse(text, now, Direction::Future)
        .map_err(|e| exit::usage(format!("--until: '{text}' is {e}")))
}

fn end_of(context: &Context, id: ReservationId) -> anyhow::Result<Time> {
    let filter = ReservationFilter {
        ids: vec![id],
        ..ReservationFilter::default()
    };
    let found = context.fetch_reservations(filter)?;
    let end = found.first().map(|r| r.end);
    end.ok_or_else(|| anyhow!("there is no reservation {id}"))
}

fn longer(end: Time, until: Time, now: &Zoned) -> Result<Span, String> {
    if until <= end {
        return Err(format!(
            "--until: it ends at {} already, which is not before {}",
            words::clock(end, now),
            words::clock(until, now)
        ));
    }
    Ok(until.since(end))
}

/// Runs `cresv cancel`.
///
/// # Errors
/// A refusal, or no controller.
pub fn cancel(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let reply = context.ask(Request::CancelReservation {
        ids: super::ids(matches),
        series: matches.get_flag("series"),
    })?;
    let done = match &reply {
        Reply::Done { changed, .. } => *changed,
        _ => 0,
    };
    let as_json = matches.get_flag("json");
    let code = change::report(context, reply, as_json)?;
    if done > 0 && !as_json {
        let what = words::count(done, "reservation", "reservations");
        output::print(&format!("Gave back {what}.\n"));
    }
    Ok(code)
}

/// Prints the reservations of a reply; exit code 1 when there are none.
///
/// # Errors
/// Not the reply to such a request.
pub fn report(
    context: &Context,
    reply: Reply,
    now: &Zoned,
    form: OutputForm,
    deed: CompletedChange,
) -> anyhow::Result<u8> {
    let done = Reserved::of(reply)?;
    if form != OutputForm::Json {
        super::print_notes(context, &note_lines(&done.note));
    }
    output::print(&text(&done, now, form, deed));
    Ok(if done.all.is_empty() {
        exit::FAILED
    } else {
        exit::OK
    })
}

fn note_lines(note: &str) -> Vec<String> {
    let note = Some(note.to_owned());
    note.filter(|n| !n.is_empty()).into_iter().collect()
}

/// The reservations as text in this form.
pub fn text(done: &Reserved, now: &Zoned, form: OutputForm, deed: CompletedChange) -> String {
    match form {
        OutputForm::Json => stat::json_text(&done.json()),
        OutputForm::Ids => done.all.iter().map(|r| format!("{}\n", r.id)).collect(),
        OutputForm::Words => table::sentences(&sentences(done, now, deed), output::width()),
    }
}

fn sentences(done: &Reserved, now: &Zoned, deed: CompletedChange) -> String {
    let conflicts = &done.conflicts;
    let mut text = match done.all.as_slice() {
        [] => String::new(),
        [one] => single(one, now, deed),
        many => series(many, now),
    };
    if !conflicts.is_empty() {
        let n = words::count(conflicts.len() as u64, "start was", "starts were");
        text.push_str(&format!("{n} not possible:\n"));
    }
    for (start, refusal) in conflicts {
        let why = words::local_times(&refusal.message, now);
        text.push_str(&format!("  {}  {why}\n", words::clock(*start, now)));
    }
    text
}

fn single(r: &ReservationInfo, now: &Zoned, deed: CompletedChange) -> String {
    let times = words::clocks(r.start, r.end, now);
    let name = if r.name.is_empty() {
        String::new()
    } else {
        format!(" \"{}\"", words::clean(&r.name))
    };
    let mut text = format!(
        "{} reservation {}{name}: {times}, {}.\n",
        change_word(r.state, deed),
        r.id,
        words::clean(&cosy_view::reservation::place(r))
    );
    text.push_str(&format!("{}\n", money(r, now)));
    text.push_str(&room_line(&r.preempts));
    if let Some(from) = r.movable_from {
        text.push_str(&format!(
            "It may be moved to an earlier start, not before {}.\n",
            words::clock(from, now)
        ));
    }
    match (r.state, r.job) {
        (ReservationState::Held, _) => text.push_str(&confirm_by(r, now)),
        (_, Some(job)) => text.push_str(&format!("Job {job} starts with it.\n")),
        (_, None) => text.push_str(&format!("Jobs enter with: csub --reservation {}\n", r.id)),
    }
    text
}

const fn change_word(state: ReservationState, deed: CompletedChange) -> &'static str {
    match (state, deed) {
        (_, CompletedChange::Extended) => "Made longer:",
        (_, CompletedChange::Shortened) => "Made shorter:",
        (_, CompletedChange::Shared) => "Shared anew:",
        (ReservationState::Held, CompletedChange::Made) => "Held",
        (ReservationState::Confirmed | ReservationState::Active, CompletedChange::Made) => "Booked",
        (
            ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Expired
            | ReservationState::Unused
            | ReservationState::Failed,
            CompletedChange::Made,
        ) => "No longer there:",
    }
}

fn money(r: &ReservationInfo, now: &Zoned) -> String {
    let price = words::su(r.base.plus(r.extra));
    let (time, delay) = (words::price(r.base), words::price(r.extra));
    let parts = format!("{time} for the time, {delay} for the delay of others");
    let charged = match &r.account {
        None => "it is on no account, so nobody is charged".to_owned(),
        Some(_) if r.charged == Su::ZERO => "nothing is charged yet".to_owned(),
        Some(account) => {
            format!("{} are charged to account {}", words::su(r.charged), words::clean(account))
        }
    };
    let free = match r.free_until {
        Some(until) => format!(" Cancelling is free until {}.", words::clock(until, now)),
        None => String::new(),
    };
    format!("It costs {price} ({parts}); {charged}.{free}")
}

fn confirm_by(r: &ReservationInfo, now: &Zoned) -> String {
    let lapses = r.hold_until.map_or_else(String::new, |until| {
        format!("It is given back at {} unless you confirm it: ", words::clock(until, now))
    });
    format!("{lapses}cresv confirm {}\n", r.id)
}

fn series(all: &[ReservationInfo], now: &Zoned) -> String {
    let price = all
        .iter()
        .fold(Su::ZERO, |sum, r| sum.plus(r.base).plus(r.extra));
    let state = all.first().map_or(ReservationState::Confirmed, |r| r.state);
    let mut text = format!(
        "{} {} for {} in all:\n",
        change_word(state, CompletedChange::Made),
        words::count(all.len() as u64, "reservation", "reservations"),
        words::su(price)
    );
    text.push_str(&list::table(
        all,
        now,
        cosy_view::reservation::ReservationList::Made,
        Default::default(),
    ));
    if state == ReservationState::Held {
        let ids: Vec<_> = all.iter().map(|r| r.id.to_string()).collect();
        text.push_str(&format!("To make them final: cresv confirm {}\n", ids.join(" ")));
    }
    text
}
