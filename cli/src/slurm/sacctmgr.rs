//! `sacctmgr`: the cluster's accounts in Slurm's words.
//!
//! Shows accounts, users, associations, the cluster and its one quality of service; makes
//! and removes accounts and their users. Limits of accounts are not kept in a database here
//! but in `cosy.toml`. Source: sacctmgr(1).

use super::command_line::VERSION;
use super::messages::say;
use crate::{Context, exit, output};
use cosy_client::CallError;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{AccountAction, AccountInfo};
use cosy_model::{RefusalCode, Settings};
use cosy_slurm::control::pairs::Pair;
use cosy_slurm::getopt::{self, Order};
use cosy_slurm::sacctmgr::former::{self as sacctmgr, List, TableStyle};
use cosy_slurm::show::config;
use cosy_slurm::table::{self, Row};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

const OPTIONS: &[Row] = &[
    Row::flag(b'h', "help", "say what options there are, and exit"),
    Row::flag(b'i', "immediate", "commit changes immediately: as always"),
    Row::flag(b'n', "noheader", "without the line of titles"),
    Row::flag(b'o', "oneliner", "accepted"),
    Row::flag(b'p', "parsable", "columns end with '|'"),
    Row::flag(b'P', "parsable2", "'|' between columns"),
    Row::flag(b'Q', "quiet", "say nothing but errors"),
    Row::flag(b'r', "readonly", "change nothing"),
    Row::flag(b's', "associations", "users and accounts with their associations"),
    Row::flag(b'v', "verbose", "accepted"),
    Row::flag(b'V', "version", "say the version, and exit"),
    Row::long_flag("usage", "say how it is called, and exit"),
];

/// Runs `sacctmgr`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, context.args());
    let mut it = Manager {
        context,
        look: TableStyle::default(),
        with_associations: false,
        read_only: false,
        quiet: false,
    };
    for found in &parsed.found {
        match found.name {
            "help" | "usage" => output::print(&sacctmgr::help(OPTIONS)),
            "version" => output::print(&format!("{VERSION}\n")),
            name => {
                it.option(name);
                continue;
            }
        }
        return exit::OK;
    }
    if let Some(mistake) = &parsed.mistake {
        return super::command_line::mistake(context, mistake);
    }
    let words: Vec<String> = parsed
        .words
        .iter()
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    it.command(&words)
}

struct Manager<'a> {
    context: &'a Context,
    look: TableStyle,
    with_associations: bool,
    read_only: bool,
    quiet: bool,
}

/// A row of any list, by name of column.
type Cells = BTreeMap<&'static str, String>;

impl Manager<'_> {
    fn option(&mut self, name: &str) {
        match name {
            "noheader" => self.look.bare = true,
            "parsable" => (self.look.parsable, self.look.trailing) = (true, true),
            "parsable2" => self.look.parsable = true,
            "associations" => self.with_associations = true,
            "readonly" => self.read_only = true,
            "quiet" => self.quiet = true,
            _ => {}
        }
    }

    fn command(&mut self, words: &[String]) -> u8 {
        let Some((command, rest)) = words.split_first() else {
            say("sacctmgr: there is no interactive mode here: see --help");
            return exit::FAILED;
        };
        let is = |word: &str, least: usize| {
            command.len() >= least
                && word
                    .get(..command.len())
                    .is_some_and(|w| w.eq_ignore_ascii_case(command))
        };
        if is("help", 3) {
            output::print(&sacctmgr::help(OPTIONS));
            return exit::OK;
        }
        if is("list", 3) || is("show", 3) {
            return self.show(rest);
        }
        if is("version", 4) {
            output::print(&format!("{VERSION}\n"));
            return exit::OK;
        }
        let changes = is("add", 2) || is("create", 3) || is("delete", 3) || is("remove", 3);
        if changes && self.read_only {
            say("sacctmgr: nothing is changed in read-only mode");
            return exit::FAILED;
        }
        if is("add", 2) || is("create", 3) {
            return self.add(rest);
        }
        if is("delete", 3) || is("remove", 3) {
            return self.delete(rest);
        }
        if is("modify", 1) || is("update", 1) {
            say("sacctmgr: limits are set in cosy.toml: 'cadm reload' takes them over");
            return exit::FAILED;
        }
        say(&format!("invalid keyword: {command}"));
        exit::FAILED
    }

    fn show(&mut self, words: &[String]) -> u8 {
        let Some((first, rest)) = words.split_first() else {
            say("No valid entity in list command");
            say(
                "Input line must include \"Account\", \"Association\", \"Cluster\", \"QOS\" or \"User\"",
            );
            return exit::FAILED;
        };
        if "configuration".starts_with(&first.to_ascii_lowercase()) && first.len() >= 2 {
            return self.show_configuration();
        }
        let Some(list) = List::of(first) else {
            say(&format!("No valid entity in list command: {first}"));
            return exit::FAILED;
        };
        let filter = match RowFilter::read(rest) {
            Ok(filter) => filter,
            Err(why) => {
                say(&why);
                return exit::FAILED;
            }
        };
        let whole = self.with_associations || filter.with_associations;
        let format = filter.format.clone();
        let format = format.unwrap_or_else(|| list.usual(whole).to_owned());
        let columns = match sacctmgr::columns(&format) {
            Ok(columns) => columns,
            Err(why) => {
                say(&why);
                return exit::FAILED;
            }
        };
        let rows = match self.rows(list, whole) {
            Ok(rows) => rows,
            Err(e) => {
                say(&format!("sacctmgr: error: {e}"));
                return exit::FAILED;
            }
        };
        let rows: Vec<Cells> = rows.into_iter().filter(|r| filter.passes(r)).collect();
        let cell = |row: &Cells, name: &str| row.get(name).cloned().unwrap_or_default();
        output::print(&sacctmgr::text(&columns, &rows, &self.look, cell));
        exit::OK
    }

    /// Prints the part of the configuration about accounting.
    fn show_configuration(&self) -> u8 {
        let settings = match self.settings() {
            Ok(settings) => settings,
            Err(e) => {
                say(&format!("sacctmgr: error: {e}"));
                return exit::FAILED;
            }
        };
        let text = config::accounting(config::ConfigFacts {
            settings: &settings,
            memory: None,
            version: VERSION.trim_start_matches("slurm "),
            user: &crate::users::name(settings.uid.0),
            zone: &TimeZone::system(),
        });
        output::print(&text);
        exit::OK
    }

    fn accounts(&self) -> Result<Vec<AccountInfo>, CallError> {
        match self.context.ask(Request::Accounts { names: Vec::new() })? {
            Reply::Accounts(all) => Ok(all),
            _ => Err(CallError::Unexpected),
        }
    }

    fn settings(&self) -> Result<Settings, CallError> {
        match self.context.ask(Request::Settings)? {
            Reply::Settings(settings) => Ok(*settings),
            _ => Err(CallError::Unexpected),
        }
    }

    fn rows(&self, list: List, whole: bool) -> Result<Vec<Cells>, CallError> {
        let settings = self.settings()?;
        let accounts = self.accounts()?;
        Ok(match list {
            List::Accounts => accounts.iter().map(|a| account(a)).collect(),
            List::Associations => associations(&accounts, &settings),
            List::Users if whole => associations(&accounts, &settings)
                .into_iter()
                .filter(|r| r.get("User").is_some_and(|u| !u.is_empty()))
                .map(|r| with_user(r, &settings))
                .collect(),
            List::Users => users(&accounts, &settings),
            List::Clusters => vec![Cells::from([
                ("Cluster", settings.cluster.clone()),
                ("Name", settings.cluster.clone()),
                ("ControlHost", settings.host.clone()),
                ("Share", "1".to_owned()),
                ("Fairshare", "1".to_owned()),
                ("QOS", "normal".to_owned()),
            ])],
            List::Qos => vec![Cells::from([
                ("Name", "normal".to_owned()),
                ("Priority", "0".to_owned()),
                ("GraceTime", "00:00:00".to_owned()),
                ("PreemptMode", "cluster".to_owned()),
                ("UsageFactor", "1.000000".to_owned()),
            ])],
            List::Tres => tres(),
            List::Nothing(_) => Vec::new(),
        })
    }

    fn add(&self, words: &[String]) -> u8 {
        let Some((list, names, account)) = object(words) else {
            say("No valid entity in add command");
            return exit::FAILED;
        };
        match list {
            List::Accounts => self.each(&names, "Adding Account(s)", |_| {
                Ok(AccountAction::Create {
                    members: Vec::new(),
                    budget: None,
                })
            }),
            List::Users => {
                let Some(account) = account else {
                    say(" Need a account to add a user to.");
                    return exit::FAILED;
                };
                let all = self.accounts().unwrap_or_default();
                let known = all.into_iter().find(|a| a.name == account);
                let mut members = known.map_or_else(Vec::new, |a| a.members);
                for name in &names {
                    if !members.contains(name) {
                        members.push(name.clone());
                    }
                }
                let title = format!("Adding User(s) {}", names.join(","));
                self.each(&[account], &title, |_| Ok(AccountAction::Members(members.clone())))
            }
            List::Associations | List::Clusters | List::Qos | List::Tres | List::Nothing(_) => {
                say("sacctmgr: only accounts and users can be added here");
                exit::FAILED
            }
        }
    }

    fn delete(&self, words: &[String]) -> u8 {
        let Some((list, names, account)) = object(words) else {
            say("No valid entity in delete command");
            return exit::FAILED;
        };
        match list {
            List::Accounts => {
                self.each(&names, "Deleting accounts...", |_| Ok(AccountAction::Remove))
            }
            List::Users => {
                let all = self.accounts().unwrap_or_default();
                let has = |a: &&AccountInfo| {
                    account.as_ref().is_none_or(|name| *name == a.name)
                        && a.members.iter().any(|m| names.contains(m))
                };
                let of: Vec<String> = all.iter().filter(has).map(|a| a.name.clone()).collect();
                self.each(&of, "Deleting users...", |name| {
                    let found = all.iter().find(|a| a.name == name);
                    let members = found.map_or_else(Vec::new, |a| a.members.clone());
                    let left: Vec<String> =
                        members.into_iter().filter(|m| !names.contains(m)).collect();
                    if left.is_empty() {
                        return Err("an account without members is everybody's: delete it instead");
                    }
                    Ok(AccountAction::Members(left))
                })
            }
            List::Associations | List::Clusters | List::Qos | List::Tres | List::Nothing(_) => {
                say("sacctmgr: only accounts and users can be deleted here");
                exit::FAILED
            }
        }
    }

    /// Sends an action for each account, and prints Slurm's lines about it.
    fn each(
        &self,
        names: &[String],
        title: &str,
        action: impl Fn(&str) -> Result<AccountAction, &'static str>,
    ) -> u8 {
        if names.is_empty() {
            say(" Nothing new added.");
            return exit::FAILED;
        }
        if !self.quiet {
            output::print(&format!(" {title}\n"));
        }
        for name in names {
            let done = action(name).map_err(str::to_owned).and_then(|action| {
                let request = Request::AccountControl {
                    name: name.clone(),
                    action,
                };
                self.context.ask(request).map_err(|e| why(&e))
            });
            if let Err(why) = done {
                say(&format!("sacctmgr: error: {name}: {why}"));
                return exit::FAILED;
            }
            if !self.quiet {
                output::print(&format!("  {name}\n"));
            }
        }
        exit::OK
    }
}

fn why(e: &CallError) -> String {
    match e {
        CallError::Refused(r) if r.code == RefusalCode::Forbidden => {
            "Your user doesn't have privilege to perform this action".to_owned()
        }
        other => other.to_string(),
    }
}

/// The objects of `add` and `delete`: their kind, their names, and the account of users.
fn object(words: &[String]) -> Option<(List, Vec<String>, Option<String>)> {
    let (first, rest) = words.split_first()?;
    let list = List::of(first)?;
    let (mut names, mut account) = (Vec::new(), None);
    for word in rest {
        let pair = Pair::of(word);
        let key = pair.name.to_ascii_lowercase();
        match (pair.value, key.as_str()) {
            (None, "where" | "set") => {}
            (None, _) => names.extend(word.split(',').map(str::to_owned)),
            (Some(value), "name" | "names" | "user" | "users") => {
                names.extend(value.split(',').map(str::to_owned));
            }
            (Some(value), "account" | "accounts" | "acct") if list == List::Accounts => {
                names.extend(value.split(',').map(str::to_owned));
            }
            (Some(value), "account" | "accounts" | "acct" | "defaultaccount") => {
                account = Some(value.to_owned());
            }
            (Some(_), _) => {} // descriptions and limits are not kept
        }
    }
    Some((list, names, account))
}

/// The rows and columns that `show` prints.
#[derive(Default)]
struct RowFilter {
    format: Option<String>,
    with_associations: bool,
    /// Names of columns, each with the values that pass.
    conditions: Vec<(&'static str, Vec<String>)>,
}

impl RowFilter {
    fn read(words: &[String]) -> Result<Self, String> {
        let mut filter = Self::default();
        for word in words {
            let pair = Pair::of(word);
            match (pair.name.to_ascii_lowercase().as_str(), pair.value) {
                ("where" | "set" | "tree" | "wopinfo" | "wopi" | "wolimits" | "wopl", None) => {}
                ("withassoc" | "withassociations" | "wa", None) => filter.with_associations = true,
                (
                    "withcoord" | "withcoordinator" | "withdeleted" | "onlydefaults"
                    | "withsubaccounts",
                    None,
                ) => {}
                ("format" | "formats", Some(format)) => filter.format = Some(format.to_owned()),
                ("user" | "users", Some(v)) => filter.only("User", v),
                ("account" | "accounts" | "acct" | "accts", Some(v)) => filter.only("Account", v),
                ("cluster" | "clusters", Some(v)) => filter.only("Cluster", v),
                ("name" | "names", Some(v)) => filter.only("Name", v),
                ("partition" | "partitions", Some(_)) => {}
                (_, None) => filter.only("Name", word),
                (_, Some(_)) => return Err(format!(" Unknown condition: {word}")),
            }
        }
        Ok(filter)
    }

    fn only(&mut self, column: &'static str, values: &str) {
        let values = values.split(',').map(str::to_owned).collect();
        self.conditions.push((column, values));
    }

    fn passes(&self, row: &Cells) -> bool {
        self.conditions.iter().all(|(column, values)| {
            let cell = row.get(column);
            cell.is_none_or(|cell| values.iter().any(|v| v == cell))
        })
    }
}

/// The trackable resources, with the ids that Slurm gives them.
fn tres() -> Vec<Cells> {
    let kinds = [
        ("1", "cpu"),
        ("2", "mem"),
        ("3", "energy"),
        ("4", "node"),
        ("5", "billing"),
    ];
    let row =
        |(id, kind): (&str, &str)| Cells::from([("Type", kind.to_owned()), ("ID", id.to_owned())]);
    kinds.into_iter().map(row).collect()
}

fn account(a: &AccountInfo) -> Cells {
    Cells::from([
        ("Account", a.name.clone()),
        ("Name", a.name.clone()),
        ("Description", a.name.clone()),
        ("Organization", a.name.clone()),
    ])
}

/// One row for each account, and one for each of its members; groups are expanded nowhere.
fn associations(accounts: &[AccountInfo], settings: &Settings) -> Vec<Cells> {
    let row = |account: &str, user: &str| {
        Cells::from([
            ("Cluster", settings.cluster.clone()),
            ("Account", account.to_owned()),
            ("User", user.to_owned()),
            ("Name", user.to_owned()),
            ("Share", "1".to_owned()),
            ("Fairshare", "1".to_owned()),
            ("QOS", "normal".to_owned()),
        ])
    };
    let of = |a: &AccountInfo| {
        let members = a.members.iter().filter(|m| !m.starts_with('@'));
        let users: Vec<Cells> = members.map(|m| row(&a.name, m)).collect();
        std::iter::once(row(&a.name, "")).chain(users)
    };
    accounts.iter().flat_map(of).collect()
}

fn level(user: &str, settings: &Settings) -> String {
    let admin = user == "root" || settings.admins.iter().any(|a| a == user);
    if admin { "Administrator" } else { "None" }.to_owned()
}

fn with_user(mut row: Cells, settings: &Settings) -> Cells {
    let user = row.get("User").cloned().unwrap_or_default();
    row.insert("AdminLevel", level(&user, settings));
    let account = row.get("Account").cloned().unwrap_or_default();
    row.insert("DefaultAccount", account);
    row
}

/// Everyone who is named: by the accounts, as an administrator, and the one who asks.
fn users(accounts: &[AccountInfo], settings: &Settings) -> Vec<Cells> {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for a in accounts {
        for member in a.members.iter().filter(|m| !m.starts_with('@')) {
            let own = first.entry(member.clone()).or_default();
            if own.is_empty() {
                own.clone_from(&a.name);
            }
        }
    }
    for admin in settings.admins.iter().filter(|m| !m.starts_with('@')) {
        first.entry(admin.clone()).or_default();
    }
    if let Some(me) = crate::users::current_user() {
        first.entry(me).or_default();
    }
    let row = |(user, account): (String, String)| {
        Cells::from([
            ("AdminLevel", level(&user, settings)),
            ("Name", user.clone()),
            ("User", user),
            ("DefaultAccount", account),
        ])
    };
    first.into_iter().map(row).collect()
}
