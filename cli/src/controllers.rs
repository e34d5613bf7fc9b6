//! Several controllers: `cadm takeover`, and what `cadm ping` says of each.

use crate::{Context, exit, output};
use clap::{ArgMatches, Command};
use cosy_client::CallError;
use cosy_model::api::{ControllerRole, ControllerRow, Reply, Request};
use std::time::{Duration, Instant};

/// A takeover that takes longer has failed.
const TAKEOVER: Duration = Duration::from_secs(30);
/// Between two looks whether it has taken place.
const LOOK: Duration = Duration::from_millis(50);

/// The command line of `cadm takeover`.
pub fn command() -> Command {
    Command::new("takeover")
        .about("Have another controller lead; jobs go on")
        .arg(
            clap::Arg::new("name")
                .value_name("NAME")
                .help("Which one (default: whichever stands by)"),
        )
}

/// All controllers; none where there is one, or where it does not know the question.
pub fn all(context: &Context) -> Vec<ControllerRow> {
    match context.ask(Request::Controllers) {
        Ok(Reply::Controllers(rows)) => rows,
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The one that leads and is heard.
fn leader(rows: &[ControllerRow]) -> Option<&ControllerRow> {
    rows.iter().find(|row| row.role == ControllerRole::Leads)
}

/// Has the leader hand over, and waits until another one leads.
///
/// # Errors
/// A refusal, no controller, or nobody has taken the lead.
pub fn takeover(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let to = matches.get_one::<String>("name").cloned();
    let Reply::Controllers(before) = context.ask(Request::HandOver { to })? else {
        return Err(CallError::Unexpected.into());
    };
    let next = until_another_leads(context, &before);
    let Some(next) = next else {
        output::complain(
            context.program(),
            "no other controller has taken the lead: see 'cadm ping'",
        );
        return Ok(exit::FAILED);
    };
    output::print(&format!("{} leads\n", next.name));
    Ok(exit::OK)
}

/// Waits until somebody else leads than before, and answers.
pub fn until_another_leads(context: &Context, before: &[ControllerRow]) -> Option<ControllerRow> {
    let former = leader(before).map(|row| row.name.clone());
    let begun = Instant::now();
    while begun.elapsed() < TAKEOVER {
        let rows = all(context);
        if let Some(next) = leader(&rows)
            && former.as_ref() != Some(&next.name)
            && context.ask(Request::Ping).is_ok()
        {
            return Some(next.clone());
        }
        std::thread::sleep(LOOK);
    }
    None
}

/// What each of them is doing, one line each.
pub fn lines(rows: &[ControllerRow]) -> String {
    rows.iter().map(line).collect()
}

fn line(row: &ControllerRow) -> String {
    let ControllerRow {
        name,
        address,
        role,
        silent_ms,
    } = row;
    let silence = match row.is_heard() {
        true => String::new(),
        false => format!(", not heard for {} s", silent_ms / 1000),
    };
    let what = match role {
        ControllerRole::Leads => "leads",
        ControllerRole::Led => "led last and is not there",
        ControllerRole::StandsBy => "stands by",
    };
    format!("controller {name} {what} ({address}){silence}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_heard_is_said() {
        let row = |role, silent_ms| ControllerRow {
            name: "c1".into(),
            address: "h:1".into(),
            role,
            silent_ms,
        };
        assert_eq!(line(&row(ControllerRole::Leads, 0)), "controller c1 leads (h:1)\n");
        let away = line(&row(ControllerRole::StandsBy, 61_000));
        assert_eq!(away, "controller c1 stands by (h:1), not heard for 61 s\n");
    }
}
