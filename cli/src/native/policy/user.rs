//! `cadm user`: who is in which account.

use super::{ask, carry_out, changing, name, named, pairs, settings, settings_of};
use crate::native::arg::{flag, json, parse_name, value};
use crate::native::stat;
use crate::native::table::{self, Cell, ColumnHead};
use crate::{Context, exit, output};
use clap::{Arg, ArgMatches, Command};
use cosy_model::policy::{
    AdminLevel, AssociationKey, PolicyAnswer, PolicyChange, PolicyQuery, UserEntry,
};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// What can be set on a user in an account, for the help.
pub(super) const SETTINGS: &str = "shares, qos, default-qos, priority, comment, and limits like MaxJobs=10 or MaxTRESPerJob=cpu=64; none unsets";

/// The command line of `cadm user`.
pub fn command() -> Command {
    let user = || name("user", "USER", "Login name");
    let account = || name("account", "ACCOUNT", "Account");
    let queue = || value("queue", "QUEUE", "Only for jobs in this queue").value_parser(parse_name);
    Command::new("user")
        .about("Who is in which account, with which limits")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands([
            changing("add", "Put a user into an account")
                .arg(user())
                .arg(account())
                .arg(pairs(SETTINGS))
                .arg(queue()),
            changing("set", "Change a user's settings in an account")
                .arg(user())
                .arg(account())
                .arg(pairs(SETTINGS))
                .arg(queue()),
            changing("remove", "Take a user out of an account, or out of all")
                .arg(user())
                .arg(account().required(false))
                .arg(queue().requires("account")),
            changing("default", "Which account jobs are charged to that name none")
                .arg(user())
                .arg(account()),
            changing("level", "What a user may change: none, operator, administrator")
                .arg(user())
                .arg(
                    Arg::new("level")
                        .value_name("LEVEL")
                        .help("none, operator or administrator")
                        .required(true)
                        .value_parser(level),
                ),
            changing("coordinate", "Let a user change what is below an account")
                .arg(user())
                .arg(account())
                .arg(flag("not", "No longer")),
            Command::new("list")
                .about("List users with their default accounts")
                .arg(
                    Arg::new("user")
                        .value_name("USER")
                        .help("Users (default: all that you may see)")
                        .num_args(0..)
                        .value_parser(parse_name),
                )
                .arg(flag("no-header", "No line of titles"))
                .arg(json()),
        ])
}

fn level(text: &str) -> Result<AdminLevel, String> {
    match text {
        "none" => Ok(AdminLevel::None),
        "operator" => Ok(AdminLevel::Operator),
        "administrator" | "admin" => Ok(AdminLevel::Administrator),
        _ => Err("none, operator or administrator is needed".to_owned()),
    }
}

/// Runs `cadm user`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, (word, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    if word == "list" {
        return list(context, m);
    }
    let change = change(word, m).map_err(|why| exit::usage(&why))?;
    carry_out(context, vec![change], m)
}

fn change(word: &str, m: &ArgMatches) -> Result<PolicyChange, String> {
    let user = named(m, "user");
    let account = m.try_get_one::<String>("account").ok().flatten().cloned();
    let queue = m.try_get_one::<String>("queue").ok().flatten().cloned();
    let key = |account: Option<String>| AssociationKey {
        account: account.unwrap_or_default(),
        user: Some(user.clone()),
        queue: queue.clone(),
    };
    let set = || settings::association(&settings_of(m));
    Ok(match (word, account) {
        ("add", account) => PolicyChange::AddAssociation {
            key: key(account),
            set: set()?,
        },
        ("set", account) => PolicyChange::ModifyAssociation {
            key: key(account),
            set: set()?,
        },
        ("remove", None) => PolicyChange::RemoveUser { name: user },
        ("remove", account) => PolicyChange::RemoveAssociation { key: key(account) },
        ("coordinate", account) => {
            let account = account.unwrap_or_default();
            match m.get_flag("not") {
                true => PolicyChange::RemoveCoordinator { account, user },
                false => PolicyChange::AddCoordinator { account, user },
            }
        }
        (_, default_account) => PolicyChange::SetUser {
            name: user,
            default_account,
            admin_level: m.try_get_one::<AdminLevel>("level").ok().flatten().copied(),
            default_wckey: None,
            add_wckeys: BTreeSet::new(),
            remove_wckeys: BTreeSet::new(),
        },
    })
}

fn list(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let names: Vec<String> = crate::native::arg::list(m, "user");
    let mut all: Vec<UserEntry> = Vec::new();
    loop {
        let query = PolicyQuery::Users {
            names: names.clone(),
            after: all.last().map(|entry| entry.record.name.clone()),
        };
        let PolicyAnswer::Users { users, more } = ask(context, query)? else {
            return Err(cosy_client::CallError::Unexpected.into());
        };
        let done = !more || users.is_empty();
        all.extend(users);
        if done {
            break;
        }
    }
    output::print(&if m.get_flag("json") {
        let all: Vec<Json> = all.iter().map(as_json).collect();
        stat::json_text(&json!({ "users": all }))
    } else {
        let columns = [
            ColumnHead::left("USER"),
            ColumnHead::left("DEFAULT"),
            ColumnHead::left("LEVEL"),
            ColumnHead::left("COORDINATES"),
        ];
        let rows: Vec<Vec<Cell>> = all.iter().map(row).collect();
        table::render(&columns, &rows, stat::table_style(m))
    });
    Ok(exit::OK)
}

const fn word_of(level: AdminLevel) -> &'static str {
    match level {
        AdminLevel::None => "none",
        AdminLevel::Operator => "operator",
        AdminLevel::Administrator => "administrator",
    }
}

fn row(entry: &UserEntry) -> Vec<Cell> {
    let cells = [
        entry.record.name.clone(),
        entry.record.default_account.clone().unwrap_or_default(),
        word_of(entry.level).to_owned(),
        entry.coordinates.join(","),
    ];
    cells.into_iter().map(Cell::from).collect()
}

fn as_json(entry: &UserEntry) -> Json {
    json!({
        "name": entry.record.name,
        "default_account": entry.record.default_account,
        "level": word_of(entry.level),
        "coordinates": entry.coordinates,
        "default_wckey": entry.record.default_wckey,
        "wckeys": entry.record.wckeys,
    })
}
