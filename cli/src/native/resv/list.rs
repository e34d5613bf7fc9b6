//! `cresv list` and `cresv show`.

use crate::native::reservations::state;
use crate::native::resv::{ask, json, words};
use crate::native::table::{Cell, Head, TableStyle, render};
use crate::native::{arg, stat};
use crate::{Context, exit, output};
use clap::ArgMatches;
use cosy_model::Su;
use cosy_model::reservation::{ReservationFilter, ReservationInfo, ReservationState};
use jiff::Zoned;

/// Which columns a table of reservations has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Columns {
    /// What is there: state, times, nodes, price.
    Plain,
    /// The same with their owners.
    WithUser,
    /// What they cost and what was used.
    Cost,
    /// What has just been made.
    Made,
}

/// Runs `cresv list`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let filter = filter(matches);
    let columns = if matches.get_flag("cost") {
        Columns::Cost
    } else if matches.get_flag("all") || filter.users.len() > 1 {
        Columns::WithUser
    } else {
        Columns::Plain
    };
    let all = context.fetch_reservations(filter)?;
    output::print(&if matches.get_flag("json") {
        stat::lines(&json::reservations(&all))
    } else {
        table(&all, &ask::present(matches), columns, stat::look(matches))
    });
    Ok(exit::OK)
}

fn filter(matches: &ArgMatches) -> ReservationFilter {
    let mut filter = ReservationFilter {
        users: arg::list(matches, "user"),
        states: arg::list(matches, "state"),
        ended: matches.get_flag("ended"),
        ..ReservationFilter::default()
    };
    if filter.users.is_empty() && !matches.get_flag("all") {
        filter.users = vec![rustix::process::getuid().as_raw().to_string()];
    }
    // Who names a state means also what is over.
    filter.ended |= filter.states.iter().any(|s| !s.is_live());
    filter
}

/// Runs `cresv show`; exit code 1 when one is not there.
///
/// # Errors
/// A refusal, or no controller.
pub fn show(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let ids = super::ids(matches);
    let filter = ReservationFilter {
        ids: ids.clone(),
        ended: true,
        ..ReservationFilter::default()
    };
    let all = context.fetch_reservations(filter)?;
    let mut code = exit::OK;
    for id in &ids {
        if !all.iter().any(|r| r.id == *id) {
            code = exit::FAILED;
            output::complain(context.program(), &format!("there is no reservation {id}"));
        }
    }
    let now = ask::present(matches);
    output::print(&if matches.get_flag("json") {
        stat::lines(&json::reservations(&all))
    } else {
        let texts: Vec<_> = all.iter().map(|r| whole(r, &now)).collect();
        texts.join("\n")
    });
    Ok(code)
}

/// Reservations as a table.
pub fn table(all: &[ReservationInfo], now: &Zoned, columns: Columns, look: TableStyle) -> String {
    let rows: Vec<_> = all.iter().map(|r| row(r, now, columns)).collect();
    let mut text = render(&heads(columns), &rows, look);
    if columns == Columns::Cost && all.len() > 1 {
        let sum =
            |of: fn(&ReservationInfo) -> Su| all.iter().fold(Su::ZERO, |sum, r| sum.plus(of(r)));
        let price = sum(|r| r.base.plus(r.extra));
        let charged = sum(|r| r.charged);
        text.push_str(&format!("In all {price} SU, of which {charged} charged.\n"));
    }
    text
}

fn heads(columns: Columns) -> Vec<Head> {
    let mut heads = vec![
        Head::right("ID"),
        Head::left("NAME").cut(6),
        Head::left("STATE"),
        Head::left("START"),
        Head::left("END"),
    ];
    heads.extend(match columns {
        Columns::Plain | Columns::WithUser => vec![
            Head::right("COUNT"),
            Head::left("NODES").cut(6),
            Head::right("PRICE"),
            Head::left("JOB"),
            Head::left("NOTE").cut(8),
        ],
        Columns::Made => vec![
            Head::right("COUNT"),
            Head::left("NODES").cut(6),
            Head::right("PRICE"),
        ],
        Columns::Cost => vec![
            Head::left("ACCOUNT").cut(6),
            Head::right("TIME"),
            Head::right("DELAY"),
            Head::right("PRICE"),
            Head::right("CHARGED"),
            Head::right("USED"),
        ],
    });
    if columns == Columns::WithUser {
        heads.insert(1, Head::left("USER").cut(6));
    }
    heads
}

fn row(r: &ReservationInfo, now: &Zoned, columns: Columns) -> Vec<Cell> {
    let price = r.base.plus(r.extra);
    let mut row: Vec<Cell> = vec![
        r.id.to_string().into(),
        r.name.clone().into(),
        state(r),
        words::clock(r.start, now).into(),
        words::clock(r.end, now).into(),
    ];
    match columns {
        Columns::Plain | Columns::WithUser => row.extend([
            r.node_count.to_string().into(),
            r.nodes.clone().into(),
            price.to_string().into(),
            r.job.map_or_else(String::new, |j| j.to_string()).into(),
            r.note.clone().into(),
        ]),
        Columns::Made => row.extend([
            r.node_count.to_string().into(),
            r.nodes.clone().into(),
            price.to_string().into(),
        ]),
        Columns::Cost => row.extend([
            r.account.clone().unwrap_or_default().into(),
            r.base.to_string().into(),
            r.extra.to_string().into(),
            price.to_string().into(),
            r.charged.to_string().into(),
            used(r).into(),
        ]),
    }
    if columns == Columns::WithUser {
        row.insert(1, r.user.clone().into());
    }
    row
}

/// The share of its core time that was used, in whole percent, rounded down.
fn used(r: &ReservationInfo) -> String {
    let all = i128::from(r.cores) * i128::from(r.end.since(r.start).0);
    match r.state {
        ReservationState::Held | ReservationState::Confirmed => String::new(),
        _ if all == 0 => String::new(),
        ReservationState::Active
        | ReservationState::Ended
        | ReservationState::Cancelled
        | ReservationState::Expired
        | ReservationState::Unused
        | ReservationState::Failed => {
            format!("{} %", i128::from(r.used_core_ms.max(0)) * 100 / all)
        }
    }
}

/// Where it is: `n[1-4] (4 nodes, 64 cores)`.
pub fn place(r: &ReservationInfo) -> String {
    let nodes = words::count(r.node_count.into(), "node", "nodes");
    let cores = words::count(r.cores, "core", "cores");
    let gpus = match r.gpus {
        0 => String::new(),
        n => format!(", {}", words::count(n, "GPU", "GPUs")),
    };
    let on = words::clean(&r.nodes);
    format!("{on} ({nodes}, {cores}{gpus})")
}

/// One reservation, everything that is known, a line each.
pub fn whole(r: &ReservationInfo, now: &Zoned) -> String {
    let clock = |t| words::clock(t, now);
    let name = if r.name.is_empty() { "" } else { &r.name };
    let sharing = [
        ("users", &r.sharing.users),
        ("groups", &r.sharing.groups),
        ("accounts", &r.sharing.accounts),
    ];
    let shared: Vec<_> = sharing
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} {}", names.join(", ")))
        .collect();
    let delays = match r.delayed_jobs {
        0 => "nobody when it was made".to_owned(),
        n => format!(
            "{} by {} in all when it was made",
            words::count(n.into(), "job", "jobs"),
            words::span(r.total_delay)
        ),
    };
    let usable = if r.usable { "yes" } else { "no" };
    let lines = [
        ("name", name.to_owned()),
        ("state", state(r).text),
        ("note", r.note.clone()),
        ("owner", r.user.clone()),
        ("shared with", shared.join("; ")),
        ("you may use it", usable.to_owned()),
        ("queue", r.queue.clone()),
        ("time", words::clocks(r.start, r.end, now)),
        ("length", words::span(r.end.since(r.start))),
        (
            "movable from",
            r.movable_from.map(clock).unwrap_or_default(),
        ),
        ("nodes", place(r)),
        ("job", r.job.map(|j| j.to_string()).unwrap_or_default()),
        ("held until", r.hold_until.map(clock).unwrap_or_default()),
        (
            "free to cancel until",
            r.free_until.map(clock).unwrap_or_default(),
        ),
        ("account", r.account.clone().unwrap_or_default()),
        (
            "price",
            format!(
                "{} SU: {} time, {} delay",
                r.base.plus(r.extra),
                r.base,
                r.extra
            ),
        ),
        ("charged", words::su(r.charged)),
        ("used", used(r)),
        ("delays", delays),
        (
            "series",
            r.series.map(|s| s.to_string()).unwrap_or_default(),
        ),
        ("rule", r.rule.clone()),
        ("made", clock(r.made)),
        ("comment", r.comment.clone()),
    ];
    let mut text = format!("Reservation {}\n", r.id);
    for (title, value) in lines.iter().filter(|(_, v)| !v.is_empty()) {
        text.push_str(&format!("  {title:<20}  {}\n", words::clean(value)));
    }
    text
}
