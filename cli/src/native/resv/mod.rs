//! `cresv`: reservations that users make themselves. Ask what a slot costs and whom it
//! delays, hold it, confirm it, or book at once; list, show, make longer, give back.
//!
//! Nothing is decided here: the controller says what is admitted, where it is placed and what it
//! costs. Only points in time and rules of repetition are worked out here, because they need the
//! user's zone.
//!
//! Source: COSY paper, section 3.2; what-if paper, section 3; pricing paper, section 3.

pub mod chart;
pub mod horizon;
pub mod json;
pub mod list;
pub mod picture;
pub mod quote;
pub mod repeat;
pub mod request;
pub mod reserve;
pub mod slots;
pub mod window;
pub mod words;

use crate::native::arg::{self, flag, json as json_flag, number, parse_limit, value, values};
use crate::native::broker::run::{all_arg, clusters_arg};
use crate::{Context, exit, output};
use clap::{Arg, ArgMatches, Command};
use cosy_client::CallError;
use cosy_model::ReservationId;
use cosy_model::limits::CANDIDATES;
use cosy_model::reservation::ReservationState;

/// The command line of `cresv`.
pub fn command() -> Command {
    arg::command("resv", "Reserve machine time: what it costs, hold, book, list")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .after_help(AFTER)
        .subcommand(quote_command())
        .subcommand(hold_command())
        .subcommand(confirm_command())
        .subcommand(book_command())
        .subcommand(cancel_command())
        .subcommand(extend_command())
        .subcommand(shorten_command())
        .subcommand(share_command())
        .subcommand(list_command())
        .subcommand(show_command())
}

const AFTER: &str = "\
Examples:
  what would it cost, whom would it delay?
    cresv quote -N 4 -t 2h --from 13:00 --until 20:00
  book it, and enter with csub --reservation ID; or with a script in it:
    cresv book -N 4 -t 2h --at 'tomorrow 14:00'
    cresv book -N 4 -t 2h --finish-by 'tomorrow 8:00' run.sh
  in two steps:
    cresv hold -N 4 -t 2h --soonest; cresv confirm 12
Exit codes: 0 done, 1 refused (the line says by what, and what would work), 2 mistake on the
command line, 3 no controller.";

const QUOTE_AFTER: &str = "\
Examples:
  cresv quote -N 4 -t 2h                             the next chances
  cresv quote -N 4 -t 2h --until 20:00 --cheapest    the cheapest one today
  cresv quote -N 4 -t 2h --from 13:00 --choose       book what is picked
  cresv quote -N 4 -t 2h --from 13:00 --svg p.svg    with a picture of the plan
--choose takes the slot at the price that was shown or for less, or not at all.
DELAYS and BY: how many waiting jobs would start later than planned, and by how much all together.
With --json: now, plain_start, slots (start, end, feasible, admitted, reason, availability,
available_by_load, base, extra, price, delayed_jobs, total_delay, own_delayed,
nodes, preempts; availability is the part of their pace that the waiting jobs keep, 0 where the
first would be delayed, available_by_load whether present work is over by then), choice (place in slots), notice_earliest, rules, account, and chosen with --choose.
Points in time are there in RFC 3339 and, with _ms behind their name, in milliseconds.";

const RESERVE_AFTER: &str = "\
When: --at TIME, or --from and --until with --soonest, --cheapest or --alpha, or --finish-by.
Without a script the reservation waits for jobs that enter with csub --reservation ID; with
one, the script starts at its start and ends at the latest at its end. Options may also
stand in the script, in lines '#COSY --nodes 2 -t 10'.
Examples:
  cresv book -N 4 -t 2h --at 'tomorrow 14:00'
  cresv book -N 4 -t 2h --until 20:00 --cheapest --max-price 20 run.sh input
  cresv book -n 1 -t 90 --at 14:00 --repeat 'FREQ=WEEKLY;BYDAY=MO;COUNT=10'";

const LIST_AFTER: &str = "\
With --json: reservations, each with id, series, name, user, uid, usable, account, queue,
state, degraded, start, end, movable_from, hold_until, free_until, made, nodes, node_count,
cores, gpus, base, extra, price, charged, used_core_seconds, users, groups, accounts (shared
with), job, delayed_jobs, total_delay, rule, comment, note, preempts (running jobs that make
room: job, user, queue, mode, lost_core_seconds, told). Sums are in SU, lengths in
seconds, points in time in RFC 3339 and, with _ms behind their name, in milliseconds.";

fn parsable() -> Arg {
    flag("parsable", "Print the id only")
}

fn zone() -> Arg {
    value("zone", "NAME", "Show times in this zone, like Europe/Berlin (default: yours)")
}

fn quote_command() -> Command {
    let command =
        Command::new("quote").about("Show what a slot costs and whom it delays; nothing is kept");
    request::with_options(command)
        .override_usage("cresv quote [OPTIONS] --time LENGTH [SCRIPT [ARG]...]")
        .after_help(QUOTE_AFTER)
        .arg(
            value(
                "svg",
                "FILE",
                "Draw the plan, the pick, and what each start costs; - is standard output",
            )
            .value_parser(clap::value_parser!(std::ffi::OsString)),
        )
        .arg(
            value("choose", "book|hold", "Book (or hold) the slot that is picked")
                .num_args(0..=1)
                .require_equals(true)
                .allow_hyphen_values(false)
                .default_missing_value("book")
                .value_parser(["book", "hold"]),
        )
        .arg(flag("all-slots", "Show every slot that was looked at"))
        .arg(
            value("most", "N", "Look at no more than so many slots, and show all of them")
                .value_parser(number(1, CANDIDATES as u32))
                .conflicts_with("all-slots"),
        )
        .arg(clusters_arg().conflicts_with_all(["svg", "choose"]))
}

fn hold_command() -> Command {
    let command = Command::new("hold").about("Keep a slot for some minutes, to be confirmed");
    request::with_options(command)
        .override_usage("cresv hold [OPTIONS] --time LENGTH WHEN [SCRIPT [ARG]...]")
        .after_help(RESERVE_AFTER)
        .arg(clusters_arg())
        .arg(all_arg())
        .arg(parsable().conflicts_with("clusters"))
}

fn book_command() -> Command {
    let command = Command::new("book").about("Book a slot at once");
    request::with_options(command)
        .override_usage("cresv book [OPTIONS] --time LENGTH WHEN [SCRIPT [ARG]...]")
        .after_help(RESERVE_AFTER)
        .arg(clusters_arg())
        .arg(all_arg())
        .arg(parsable().conflicts_with("clusters"))
}

fn confirm_command() -> Command {
    Command::new("confirm")
        .about("Make a held reservation final")
        .arg(some_ids("The held reservation"))
        .arg(zone())
        .arg(parsable())
        .arg(json_flag())
}

fn cancel_command() -> Command {
    Command::new("cancel")
        .about("Give reservations back")
        .arg(some_ids("Reservations"))
        .arg(flag("series", "Also all of the same series that have not begun"))
        .arg(json_flag())
}

fn extend_command() -> Command {
    Command::new("extend")
        .about("Make a reservation longer")
        .arg(one_id())
        .arg(
            value("by", "LENGTH", "By how much: 30m, 1:00:00")
                .value_parser(parse_limit)
                .required_unless_present("until")
                .conflicts_with("until"),
        )
        .arg(value("until", "TIME", "New end"))
        .arg(value("max-price", "SU", "Refuse when this costs more").value_parser(request::price))
        .arg(zone())
        .arg(parsable())
        .arg(json_flag())
}

fn shorten_command() -> Command {
    Command::new("shorten")
        .about("Let a reservation that nothing was paid for end earlier")
        .arg(one_id())
        .arg(value("until", "TIME", "New end").required(true))
        .arg(zone())
        .arg(parsable())
        .arg(json_flag())
}

fn share_command() -> Command {
    let lists = ["share-users", "share-groups", "share-accounts"];
    Command::new("share")
        .about("Let others use a reservation too, or no longer")
        .arg(one_id())
        .args(request::sharing_args())
        .group(
            clap::ArgGroup::new("whom")
                .args(lists)
                .required(true)
                .multiple(true),
        )
        .arg(flag("remove", "These may no longer use it; their jobs stay"))
        .arg(zone())
        .arg(parsable())
        .arg(json_flag())
}

fn list_command() -> Command {
    Command::new("list")
        .about("List reservations: yours, or others' too")
        .after_help(LIST_AFTER)
        .arg(flag("mine", "Yours (the default)").conflicts_with_all(["all", "user"]))
        .arg(flag("all", "Of all users").short('A').conflicts_with("user"))
        .arg(values("user", "USER[,...]", "Of these users").short('u'))
        .arg(flag("ended", "Also those that are over").short('E'))
        .arg(
            values("state", "STATE[,...]", "In these states: held, confirmed, active, ended, cancelled, expired, unused, failed")
                .short('s')
                .value_parser(parse_state),
        )
        .arg(flag("cost", "What they cost, and what was used of them"))
        .arg(flag("no-header", "No line of titles"))
        .arg(zone())
        .arg(json_flag())
}

fn show_command() -> Command {
    Command::new("show")
        .about("Show reservations in full")
        .after_help(LIST_AFTER)
        .arg(some_ids("Reservations"))
        .arg(zone())
        .arg(json_flag())
}

fn parse_state(text: &str) -> Result<ReservationState, String> {
    text.parse()
}

fn some_ids(help: &'static str) -> Arg {
    one_id().help(help).num_args(1..)
}

fn one_id() -> Arg {
    Arg::new("id")
        .value_name("ID")
        .help("The reservation")
        .required(true)
        .value_parser(arg::parse_reservation)
}

fn ids(matches: &ArgMatches) -> Vec<ReservationId> {
    arg::list(matches, "id")
}

/// Runs `cresv`.
///
/// # Errors
/// Bad input, a refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let Some((_, sub)) = matches.subcommand() else {
        return Err(exit::usage("which command? See cresv --help"));
    };
    dispatch(context, matches).map_err(|e| in_local_times(e, sub))
}

/// The same error, where a refusal of the controller names times in the user's zone.
pub(crate) fn in_local_times(error: anyhow::Error, sub: &ArgMatches) -> anyhow::Error {
    match error.downcast::<CallError>() {
        Ok(CallError::Refused(mut refusal)) => {
            refusal.message = words::local_times(&refusal.message, &request::present(sub));
            CallError::Refused(refusal).into()
        }
        Ok(other) => other.into(),
        Err(e) => e,
    }
}

fn dispatch(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("quote", m)) => quote::run(context, m),
        Some(("hold", m)) => reserve::reserve(context, m, true),
        Some(("book", m)) => reserve::reserve(context, m, false),
        Some(("confirm", m)) => reserve::confirm(context, m),
        Some(("cancel", m)) => reserve::cancel(context, m),
        Some(("extend", m)) => reserve::extend(context, m),
        Some(("shorten", m)) => reserve::shorten(context, m),
        Some(("share", m)) => reserve::share(context, m),
        Some(("list", m)) => list::run(context, m),
        Some(("show", m)) => list::show(context, m),
        _ => Err(exit::usage("which command? See cresv --help")),
    }
}

/// Prints notes for the user on standard error, one line each.
pub(crate) fn print_notes(context: &Context, notes: &[String]) {
    for note in notes {
        output::complain(context.program(), note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let check = |line: &str, want: &str| {
            let got = command().try_get_matches_from(format!("cresv {line}").split(' '));
            let error = got.err().map(|e| arg::error_line(&e).unwrap_or_default());
            let error = error.unwrap_or_default();
            assert!(error.contains(want), "{line}: {error}");
            assert_eq!(error.is_empty(), want.is_empty(), "{line}: {error}");
        };
        check("quote -t 2h", "");
        check("quote -t 2h --choose", "");
        check("quote -t 2h --choose=hold", "");
        check("quote -t 2h --choose=x", "book");
        check("quote -t 2h --most 0", "from 1 to 2000");
        check("quote -t 2h --clusters a,b", "");
        check("quote -t 2h --clusters a,b --svg -", "cannot be used with");
        check("book -t 2h --at 12:00 --clusters a,b --all", "");
        check("hold -t 2h --at 12:00 --all", "required");
        check("book -t 2h --at 12:00 --clusters a --parsable", "cannot be used with");
        check("confirm 12", "");
        check("confirm r12", "");
        check("confirm 0", "the id of a reservation");
        check("confirm 99999999999999999999", "the id of a reservation");
        check("cancel 1 2 --series", "");
        check("cancel", "required");
        check("extend 1 --by 30m", "");
        check("extend 1 --by 0", "more than 0");
        check("extend 1 --by 1 --until 12:00", "cannot be used with");
        check("extend 1", "required");
        check("shorten 1 --until 12:00", "");
        check("shorten 1", "required");
        check("share 1 --share-users ann,bob --share-groups g", "");
        check("share 1 --share-accounts p --remove", "");
        check("share 1", "required");
        check("share --share-users ann", "required");
        check("list --state held,active --cost", "");
        check("list --state x", "no state of a reservation");
        check("list --mine --all", "cannot be used with");
        check("show 1 2 --json", "");
        check("nonsense", "unrecognized subcommand");
    }
}
