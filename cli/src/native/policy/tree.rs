//! `cadm account tree`, `set` and `create --parent`: accounts in their tree, with where each value
//! comes from.

use super::{ask, carry_out, changing, named, pairs, settings, settings_of};
use crate::native::arg::{flag, json, parse_name, value};
use crate::native::stat;
use crate::native::table::{self, Cell, ColumnHead};
use crate::{Context, exit, output};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::Request;
use cosy_model::policy::{
    AssociationChange, AssociationInfo, AssociationKey, Enforce, PolicyAnswer, PolicyChange,
    PolicyQuery, Shares,
};
use cosy_view::standing::hours;
use serde_json::{Value as Json, json};

/// The command line of `cadm account set`.
pub fn set_command() -> Command {
    changing(
        "set",
        "Change an account's place in the tree, its shares, limits, qualities of service",
    )
    .arg(super::name("name", "ACCOUNT", "Account"))
    .arg(pairs(super::user::SETTINGS))
    .arg(
        value("parent", "ACCOUNT", "Put it, with all below it, below this account")
            .value_parser(parse_name),
    )
    .arg(value("description", "TEXT", "What it is for"))
    .arg(value("organization", "TEXT", "Whose it is"))
}

/// The command line of `cadm account reset-usage`.
pub fn reset_command() -> Command {
    changing(
        "reset-usage",
        "Forget what an account, with all below it, or one of its users has used",
    )
    .arg(super::name("name", "ACCOUNT", "Account"))
    .arg(value("user", "USER", "Only this user in it").value_parser(parse_name))
    .arg(
        value("queue", "QUEUE", "The user's association for this queue")
            .requires("user")
            .value_parser(parse_name),
    )
}

/// Runs `cadm account reset-usage`.
///
/// # Errors
/// A refusal, or no controller.
pub fn reset(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let key = AssociationKey {
        account: named(m, "name"),
        user: m.get_one::<String>("user").cloned(),
        queue: m.get_one::<String>("queue").cloned(),
    };
    let change = PolicyChange::ResetUsage {
        association: Some(key),
        qos: None,
    };
    carry_out(context, vec![change], m)
}

/// The command line of `cadm account tree`.
pub fn command() -> Command {
    Command::new("tree")
        .about("Show accounts and users as a tree, with where each value comes from")
        .arg(
            Arg::new("name")
                .value_name("ACCOUNT")
                .help("Accounts (default: all that you may see)")
                .num_args(0..)
                .value_parser(parse_name),
        )
        .arg(flag("no-header", "No line of titles"))
        .arg(json())
}

/// Runs `cadm account create --parent`.
///
/// # Errors
/// A refusal, or no controller.
pub fn create(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let change = PolicyChange::AddAccount {
        name: named(m, "name"),
        parent: m.get_one::<String>("parent").cloned(),
        description: None,
        organization: None,
        set: AssociationChange::default(),
    };
    let reply = context.ask(Request::ChangePolicy {
        changes: vec![change],
        dry_run: false,
    })?;
    crate::native::change::report(context, reply, m.get_flag("json"))
}

/// Runs `cadm account set`.
///
/// # Errors
/// A refusal, or no controller.
pub fn set(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let set = settings::association(&settings_of(m)).map_err(|why| exit::usage(&why))?;
    let text = |id: &str| m.get_one::<String>(id).cloned();
    let change = PolicyChange::ModifyAccount {
        name: named(m, "name"),
        parent: text("parent"),
        description: text("description"),
        organization: text("organization"),
        set,
    };
    carry_out(context, vec![change], m)
}

/// Runs `cadm account tree`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let accounts: Vec<String> = crate::native::arg::list(m, "name");
    let mut all: Vec<AssociationInfo> = Vec::new();
    let enforced = loop {
        let query = PolicyQuery::Associations {
            accounts: accounts.clone(),
            users: Vec::new(),
            usage: true,
            skip: u32::try_from(all.len()).unwrap_or(u32::MAX),
        };
        let answer = ask(context, query)?;
        let PolicyAnswer::Associations {
            rows,
            more,
            enforce,
        } = answer
        else {
            return Err(cosy_client::CallError::Unexpected.into());
        };
        let done = !more || rows.is_empty();
        all.extend(rows);
        if done {
            break enforce;
        }
    };
    output::print(&if m.get_flag("json") {
        let rows: Vec<Json> = all.iter().map(as_json).collect();
        stat::json_text(&json!({ "enforce": enforced, "associations": rows }))
    } else {
        let style = stat::table_style(m);
        format!("{}{}", shown(&all, style), binding(enforced))
    });
    Ok(exit::OK)
}

fn binding(enforce: Enforce) -> String {
    let words = [
        (enforce.associations, "associations"),
        (enforce.limits, "limits"),
        (enforce.qos, "qos"),
        (enforce.safe, "safe"),
    ];
    let on = words.iter().filter(|(on, _)| *on).map(|(_, word)| *word);
    let on: Vec<&str> = on.collect();
    match on.is_empty() {
        true => "nothing of this binds jobs: 'enforce' in cosy.toml is not set\n".to_owned(),
        false => format!("enforced: {}\n", on.join(", ")),
    }
}

fn shown(all: &[AssociationInfo], style: table::TableStyle) -> String {
    let used = all.iter().any(|info| info.usage.is_some());
    let columns = [
        ColumnHead::left("ACCOUNT"),
        ColumnHead::left("USER"),
        ColumnHead::left("QUEUE"),
        ColumnHead::right("SHARES"),
    ];
    let use_of = used.then_some(ColumnHead::right("USED-HOURS"));
    let rest = [ColumnHead::left("QOS"), ColumnHead::left("LIMITS")];
    let columns: Vec<ColumnHead> = columns.into_iter().chain(use_of).chain(rest).collect();
    let rows: Vec<Vec<Cell>> = all.iter().map(|info| row(info, used)).collect();
    table::render(&columns, &rows, style)
}

/// `used`: with what is used, where that is known of somebody.
fn row(info: &AssociationInfo, used: bool) -> Vec<Cell> {
    let indent = "  ".repeat(info.depth as usize);
    let user = info.key.user.clone().unwrap_or_default();
    let account = match info.key.user {
        Some(_) => indent,
        None => format!("{indent}{}", info.key.account),
    };
    let use_of = info.usage.as_ref().map(|usage| hours(usage.raw_usage));
    let use_of = used.then(|| use_of.unwrap_or_default());
    let first = [
        account,
        match info.is_default {
            true => format!("{user}*"),
            false => user,
        },
        info.key.queue.clone().unwrap_or_default(),
        shares(info.own.shares),
    ];
    let rest = [qos(info), limits(info)];
    let cells = first.into_iter().chain(use_of).chain(rest);
    cells.map(Cell::from).collect()
}

fn shares(shares: Shares) -> String {
    match shares {
        Shares::Count(count) => count.to_string(),
        Shares::Parent => "parent".to_owned(),
    }
}

/// The list that counts, with the default marked; in brackets where it is inherited.
fn qos(info: &AssociationInfo) -> String {
    let mark = |name: &String| match info.default_qos.as_ref() == Some(name) {
        true => format!("{name}*"),
        false => name.clone(),
    };
    let list = info.qos.iter().map(mark).collect::<Vec<_>>().join(",");
    match info.own.qos {
        Some(_) => list,
        None => format!("({list})"),
    }
}

/// All limits that count; behind those of another place, whose they are.
fn limits(info: &AssociationInfo) -> String {
    let one = |(key, value, of): &(_, u64, AssociationKey)| {
        let value = settings::written(key, *value);
        match *of == info.key {
            true => format!("{key}={value}"),
            false => format!("{key}={value} (of {})", of.account),
        }
    };
    let all = info.effective.iter().map(one);
    all.collect::<Vec<_>>().join(", ")
}

fn as_json(info: &AssociationInfo) -> Json {
    let effective: Vec<Json> = info
        .effective
        .iter()
        .map(|(key, value, of)| {
            json!({ "limit": key.to_string(), "value": value, "account": of.account, "user": of.user })
        })
        .collect();
    json!({
        "id": info.id,
        "account": info.key.account,
        "user": info.key.user,
        "queue": info.key.queue,
        "parent": Some(&info.parent).filter(|parent| !parent.is_empty()),
        "depth": info.depth,
        "shares": shares(info.own.shares),
        "qos": info.qos,
        "own_qos": info.own.qos,
        "default_qos": info.default_qos,
        "is_default": info.is_default,
        "priority": info.own.priority,
        "comment": info.own.comment,
        "limits": effective,
        "usage": info.usage,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::policy::{AssociationSettings, AssociationUsage};

    fn info(depth: u32, user: Option<&str>) -> AssociationInfo {
        AssociationInfo {
            id: 2,
            key: AssociationKey {
                account: "physics".into(),
                user: user.map(str::to_owned),
                queue: None,
            },
            parent: String::new(),
            parent_id: 1,
            depth,
            own: AssociationSettings::default(),
            effective: Vec::new(),
            qos: vec!["high".into(), "normal".into()],
            default_qos: Some("normal".into()),
            is_default: user.is_some(),
            usage: None,
        }
    }

    #[test]
    fn a_tree() {
        let mut account = info(1, None);
        let limit = |text: &str| text.parse().unwrap();
        account.own.qos = Some(account.qos.iter().cloned().collect());
        account.own.shares = Shares::Parent;
        account.effective = vec![(limit("GrpTRES=mem"), 2048, account.key.clone())];
        let mut user = info(2, Some("ann"));
        user.effective = vec![(limit("MaxWall"), 90, account.key.clone())];
        let want = "ACCOUNT    USER  QUEUE  SHARES  QOS             LIMITS\n\
                    \u{20} physics               parent  high,normal*    GrpTRES=mem=2G\n\
                    \u{20}          ann*              1  (high,normal*)  MaxWall=01:30:00 (of physics)\n";
        let mut all = [account, user];
        assert_eq!(shown(&all, table::TableStyle::default()), want);
        all[1].usage = Some(AssociationUsage {
            raw_usage: 45_000,
            ..AssociationUsage::default()
        });
        let want = "ACCOUNT    USER  QUEUE  SHARES  USED-HOURS  QOS             LIMITS\n\
                    \u{20} physics               parent              high,normal*    GrpTRES=mem=2G\n\
                    \u{20}          ann*              1        12.5  (high,normal*)  MaxWall=01:30:00 (of physics)\n";
        assert_eq!(shown(&all, table::TableStyle::default()), want);
    }
}
