//! `cadm account`: accounts, who may charge them, their budgets and the ledger.
//!
//! Sums are service units: whole numbers or up to six decimals. Who may do what the
//! controller decides; a user who asks sees the accounts that they may charge.

use crate::native::arg::{self, flag, json, number, parse_name, parse_reservation, value, values};
use crate::native::policy::{file, tree};
use crate::native::record::{self, TimeStyle};
use crate::native::table::TableStyle;
use crate::native::{change, stat};
use crate::{Context, exit, output, times};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{AccountAction, AccountInfo, LedgerEntry};
use cosy_model::{ReservationId, Su};
use cosy_view::account;
use jiff::Zoned;
use serde_json::{Value as Json, json};

/// Lines of the ledger that are asked for at once.
const PAGE: u32 = 1000;

/// The command line of `cadm account`.
pub fn command() -> Command {
    Command::new("account")
        .about("Accounts that pay for reservations")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands([
            create_command(),
            paid("grant", "Add to its budget; it has one from then on"),
            paid("withdraw", "Take from what is left of its budget"),
            members_command(),
            tree::set_command(),
            tree::command(),
            file::dump_command(),
            file::load_command(),
            account_command(
                "remove",
                "Remove an account; refused while reservations are charged to it",
            ),
            tree::reset_command(),
            list_command(),
            ledger_command(),
        ])
}

fn name() -> Arg {
    Arg::new("name")
        .value_name("ACCOUNT")
        .help("Account")
        .required(true)
        .value_parser(parse_name)
}

fn account_command(word: &'static str, about: &'static str) -> Command {
    Command::new(word).about(about).arg(name()).arg(json())
}

fn paid(word: &'static str, about: &'static str) -> Command {
    let sum = Arg::new("sum")
        .value_name("SU")
        .help("Service units, like 250 or 12.5")
        .required(true)
        .value_parser(parse_sum);
    account_command(word, about).arg(sum)
}

fn create_command() -> Command {
    account_command("create", "Make an account")
        .arg(values(
            "members",
            "USER[,...]",
            "Who may charge it, groups as @group (default: everyone)",
        ))
        .arg(
            value("budget", "SU", "First grant (default: no budget, use is only counted)")
                .value_parser(parse_su),
        )
        .arg(
            value(
                "parent",
                "ACCOUNT",
                "Below this account; only those may charge it whom 'cadm user add' puts into it",
            )
            .conflicts_with_all(["members", "budget"])
            .value_parser(parse_name),
        )
}

fn members_command() -> Command {
    account_command("members", "Replace the list of who may charge it")
        .arg(
            Arg::new("member")
                .value_name("USER")
                .help("Users, and groups as @group")
                .num_args(1..)
                .value_delimiter(',')
                .required_unless_present("everyone")
                .value_parser(parse_name),
        )
        .arg(flag("everyone", "Everyone may charge it").conflicts_with("member"))
}

fn list_command() -> Command {
    Command::new("list")
        .about("List accounts and what is left of their budgets")
        .arg(
            Arg::new("name")
                .value_name("ACCOUNT")
                .help("Accounts (default: all that you may charge)")
                .num_args(0..)
                .value_parser(parse_name),
        )
        .arg(flag("no-header", "No line of titles"))
        .arg(json())
}

fn ledger_command() -> Command {
    Command::new("ledger")
        .about("Every sum that was moved, and why")
        .arg(value("account", "NAME", "Only of this account").value_parser(parse_name))
        .arg(value("reservation", "ID", "Only of this reservation").value_parser(parse_reservation))
        .arg(
            value("after", "NUMBER", "Lines after this one").value_parser(clap::value_parser!(u64)),
        )
        .arg(value("most", "N", "At most so many lines").value_parser(number(1, 1_000_000)))
        .arg(flag("no-header", "No line of titles"))
        .arg(json())
}

fn parse_su(text: &str) -> Result<Su, String> {
    text.parse::<Su>().map_err(|e| e.to_string())
}

/// A sum that can be granted: more than nothing.
fn parse_sum(text: &str) -> Result<Su, String> {
    let sum = parse_su(text)?;
    if sum == Su::ZERO {
        return Err("a sum must be more than 0".to_owned());
    }
    Ok(sum)
}

/// Runs `cadm account`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, (word, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    match word {
        "list" => return list(context, m),
        "ledger" => return ledger(context, m),
        "tree" => return tree::run(context, m),
        "set" => return tree::set(context, m),
        "dump" => return file::dump(context, m),
        "load" => return file::load(context, m),
        "reset-usage" => return tree::reset(context, m),
        "create" if m.contains_id("parent") => return tree::create(context, m),
        _ => {}
    }
    let name = m.get_one::<String>("name").cloned().unwrap_or_default();
    let action = action(word, m).ok_or_else(|| exit::usage("what? See --help"))?;
    let reply = context.ask(Request::AccountControl { name, action })?;
    change::report(context, reply, m.get_flag("json"))
}

fn action(word: &str, m: &ArgMatches) -> Option<AccountAction> {
    let sum = || m.get_one::<Su>("sum").copied();
    Some(match word {
        "create" => AccountAction::Create {
            members: arg::list(m, "members"),
            budget: m.get_one::<Su>("budget").copied(),
        },
        "grant" => AccountAction::Grant(sum()?),
        "withdraw" => AccountAction::Withdraw(sum()?),
        "members" => AccountAction::Members(arg::list(m, "member")),
        "remove" => AccountAction::Remove,
        _ => return None,
    })
}

fn list(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let names: Vec<String> = arg::list(m, "name");
    let named = !names.is_empty();
    let Reply::Accounts(all) = context.ask(Request::Accounts { names })? else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    output::print(&if m.get_flag("json") {
        let all: Vec<Json> = all.iter().map(account_json).collect();
        stat::json_text(&json!({ "accounts": all }))
    } else {
        accounts(&all, stat::table_style(m))
    });
    Ok(if named && all.is_empty() {
        exit::FAILED
    } else {
        exit::OK
    })
}

fn accounts(all: &[AccountInfo], style: TableStyle) -> String {
    record::list(account::LIST, all, TimeStyle::in_lists(&times::now()), style)
}

fn account_json(a: &AccountInfo) -> Json {
    record::json(&account::fields(a))
}

fn ledger(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let mut after = m.get_one::<u64>("after").copied().unwrap_or(0);
    let mut left = m.get_one::<u32>("most").copied().unwrap_or(u32::MAX);
    let mut all = Vec::new();
    while left > 0 {
        let request = Request::Ledger {
            account: m.get_one::<String>("account").cloned(),
            reservation: m.get_one::<ReservationId>("reservation").copied(),
            after,
            most: left.min(PAGE),
        };
        let Reply::Ledger(page) = context.ask(request)? else {
            return Err(cosy_client::CallError::Unexpected.into());
        };
        let Some(last) = page.iter().map(|e| e.seq).max().filter(|s| *s > after) else {
            break;
        };
        left = left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        after = last;
        all.extend(page);
    }
    output::print(&if m.get_flag("json") {
        let all: Vec<Json> = all.iter().map(entry_json).collect();
        stat::json_text(&json!({ "ledger": all }))
    } else {
        entries(&all, &times::now(), stat::table_style(m))
    });
    Ok(exit::OK)
}

fn entries(all: &[LedgerEntry], now: &Zoned, style: TableStyle) -> String {
    record::list(account::LEDGER, all, TimeStyle::in_lists(now), style)
}

fn entry_json(e: &LedgerEntry) -> Json {
    record::json(&account::ledger_fields(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Time;

    #[test]
    fn actions() {
        let check = |args: &[&str], want: Option<AccountAction>| {
            let matches = command().try_get_matches_from([&["account"], args].concat());
            let matches = matches.ok();
            let sub = matches.as_ref().and_then(ArgMatches::subcommand);
            let got = sub.and_then(|(word, m)| action(word, m));
            assert_eq!(got, want, "{args:?}");
        };
        let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let create = |members: &[&str], budget| AccountAction::Create {
            members: names(members),
            budget,
        };
        check(&["create", "p"], Some(create(&[], None)));
        check(
            &["create", "p", "--members", "ann,@ops", "--budget", "0"],
            Some(create(&["ann", "@ops"], Some(Su::ZERO))),
        );
        check(&["create", "p", "--budget", "-5"], None);
        check(&["create"], None);
        check(&["grant", "p", "12.5"], Some(AccountAction::Grant(Su(12_500_000))));
        check(&["withdraw", "p", "1"], Some(AccountAction::Withdraw(Su::whole(1))));
        check(&["grant", "p", "0"], None);
        check(&["grant", "p", "1e9"], None);
        check(&["grant", "p", "99999999999999"], None);
        check(&["grant", "p"], None);
        let members = AccountAction::Members(names(&["ann", "bob", "@ops"]));
        check(&["members", "p", "ann,bob", "@ops"], Some(members));
        check(&["members", "p", "--everyone"], Some(AccountAction::Members(Vec::new())));
        check(&["members", "p"], None);
        check(&["members", "p", "ann", "--everyone"], None);
        check(&["remove", "p"], Some(AccountAction::Remove));
        check(&["explode", "p"], None);
    }

    #[test]
    fn tables() {
        let with = AccountInfo {
            name: "physics".into(),
            members: vec!["ann".into(), "@ops".into()],
            listed: false,
            budget: true,
            granted: Su::whole(100),
            held: Su(12_500_000),
            charged: Su::whole(40),
            available: Su(47_500_000),
        };
        let without = AccountInfo {
            name: "free".into(),
            charged: Su::whole(3),
            ..AccountInfo::default()
        };
        let text = accounts(&[with.clone(), without.clone()], TableStyle::default());
        let want = "ACCOUNT    GRANTED  HELD  CHARGED  AVAILABLE  MEMBERS\n\
                    physics        100  12.5       40       47.5  ann,@ops\n\
                    free     no budget     0        3  no budget  everyone\n";
        assert_eq!(text, want);
        assert_eq!(account_json(&with)["available"], 47.5);
        assert_eq!(account_json(&without)["available"], Json::Null);
    }

    #[test]
    fn lines_of_the_ledger() {
        let entry = LedgerEntry {
            seq: 3,
            at: Time::from_secs(1_795_262_400),
            from: "physics".into(),
            to: "physics:held".into(),
            sum: Su::whole(16),
            reservation: Some(ReservationId(7)),
            why: "hold".into(),
            who: "ann".into(),
        };
        let now = "2026-11-21T13:00:00+00:00[+00:00]".parse().unwrap();
        let text = entries(std::slice::from_ref(&entry), &now, TableStyle::default());
        let want = "LINE  TIME      FROM     TO            SU  RESERVATION  WHY   WHO\n\
                    \u{20}  3  12:00:00  physics  physics:held  16            7  hold  ann\n";
        assert_eq!(text, want);
        assert_eq!(entry_json(&entry)["sum"], 16);
    }
}
