//! `cresv list` and `cresv show`.

use crate::native::record::{self, TimeStyle};
use crate::native::resv::{json, request, words};
use crate::native::table::TableStyle;
use crate::native::{arg, stat};
use crate::{Context, exit, output};
use clap::ArgMatches;
use cosy_model::Su;
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_view::reservation::{self, ReservationList};
use jiff::Zoned;

/// Runs `cresv list`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let filter = filter(matches);
    let columns = if matches.get_flag("cost") {
        ReservationList::Cost
    } else if matches.get_flag("all") || filter.users.len() > 1 {
        ReservationList::WithUser
    } else {
        ReservationList::Plain
    };
    let all = context.fetch_reservations(filter)?;
    output::print(&if matches.get_flag("json") {
        stat::json_text(&json::reservations(&all))
    } else {
        table(&all, &request::present(matches), columns, stat::table_style(matches))
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
    // A filter for a state also finds reservations that are over.
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
    let now = request::present(matches);
    output::print(&if matches.get_flag("json") {
        stat::json_text(&json::reservations(&all))
    } else {
        let texts: Vec<_> = all.iter().map(|r| details(r, &now)).collect();
        texts.join("\n")
    });
    Ok(code)
}

/// Reservations as a table.
pub fn table(
    all: &[ReservationInfo],
    now: &Zoned,
    of: ReservationList,
    style: TableStyle,
) -> String {
    let mut text = record::list(of.columns(), all, TimeStyle::in_words(now), style);
    if of == ReservationList::Cost && all.len() > 1 {
        let sum =
            |of: fn(&ReservationInfo) -> Su| all.iter().fold(Su::ZERO, |sum, r| sum.plus(of(r)));
        let price = sum(reservation::price);
        let charged = match all.iter().any(|r| r.account.is_some()) {
            true => {
                let of_accounts =
                    |r: &ReservationInfo| r.account.as_ref().map_or(Su::ZERO, |_| r.charged);
                format!(", of which {} are charged", words::su(sum(of_accounts)))
            }
            false => String::new(),
        };
        text.push_str(&format!("In all {}{charged}.\n", words::su(price)));
    }
    text
}

/// One reservation, everything that is known, a line each.
pub fn details(r: &ReservationInfo, now: &Zoned) -> String {
    let lines = record::lines(&reservation::details(r), 20, now);
    format!("Reservation {}\n{lines}", r.id)
}
