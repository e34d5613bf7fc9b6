//! `sacctmgr`: accounts, users, qualities of service and limits in Slurm's words.
//!
//! The policy is asked for whole, the command is planned on it, and what it changes is done as a
//! whole or not at all. Source: sacctmgr(1).

mod history;

use super::command_line::VERSION;
use super::messages::say;
use super::policy;
use crate::{Context, exit, output};
use cosy_client::CallError;
use cosy_model::api::{JobFilter, Reply, Request};
use cosy_model::policy::PolicyChange;
use cosy_model::{RefusalCode, Settings};
use cosy_slurm::getopt::{self, Order};
use cosy_slurm::sacctmgr::columns::{self, Column, TableStyle};
use cosy_slurm::sacctmgr::conditions::Conditions;
use cosy_slurm::sacctmgr::entity::{Entity, no_entity};
use cosy_slurm::sacctmgr::plan::{self, Plan, Verb};
use cosy_slurm::sacctmgr::rows::{self, Cells};
use cosy_slurm::sacctmgr::view::PolicyView;
use cosy_slurm::sacctmgr::words::{Word, unquoted};
use cosy_slurm::sacctmgr::{dump, help, load};
use cosy_slurm::show::config;
use cosy_slurm::table::{self, Row};
use jiff::tz::TimeZone;
use std::io::{BufRead, Read};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const OPTIONS: &[Row] = &[
    Row::flag(b'h', "help", "say what options there are, and exit"),
    Row::flag(b'i', "immediate", "commit changes without asking"),
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
        immediate: false,
    };
    for found in &parsed.found {
        match found.name {
            "help" | "usage" => output::print(&help::help(OPTIONS)),
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
    let words = parsed
        .words
        .iter()
        .map(|w| w.to_string_lossy().into_owned());
    it.command(&words.collect::<Vec<String>>())
}

struct Manager<'a> {
    context: &'a Context,
    look: TableStyle,
    with_associations: bool,
    read_only: bool,
    immediate: bool,
}

/// Prints lines on standard error; gives the exit code of a failure.
fn complain(lines: &[String]) -> u8 {
    lines.iter().for_each(|line| say(line));
    exit::FAILED
}

fn print(lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    output::print(&text);
}

impl Manager<'_> {
    fn option(&mut self, name: &str) {
        match name {
            "noheader" => self.look.bare = true,
            "parsable" => (self.look.parsable, self.look.trailing) = (true, true),
            "parsable2" => self.look.parsable = true,
            "associations" => self.with_associations = true,
            "readonly" => self.read_only = true,
            "immediate" => self.immediate = true,
            _ => {}
        }
    }

    fn command(&mut self, words: &[String]) -> u8 {
        let Some((command, rest)) = words.split_first() else {
            say("sacctmgr: there is no interactive mode here: see --help");
            return exit::FAILED;
        };
        let small = command.to_ascii_lowercase();
        let is = |word: &str, least: usize| small.len() >= least && word.starts_with(&small);
        if is("help", 3) {
            output::print(&help::help(OPTIONS));
            return exit::OK;
        }
        if is("version", 4) {
            output::print(&format!("{VERSION}\n"));
            return exit::OK;
        }
        if is("list", 3) || is("show", 3) {
            return self.show(rest);
        }
        if is("dump", 3) {
            return self.dump(rest);
        }
        let verb = Verb::of(command);
        if (verb.is_some() || is("load", 3)) && self.read_only {
            say("Can't run this command in readonly mode.");
            return exit::FAILED;
        }
        if let Some(verb) = verb {
            return self.change(verb, rest);
        }
        if is("load", 3) {
            return self.load(rest);
        }
        if let Some(code) = self.administer(&small, rest) {
            return code;
        }
        say(&format!("invalid keyword: {command}"));
        exit::FAILED
    }

    /// What Slurm has for its database.
    fn administer(&self, command: &str, rest: &[String]) -> Option<u8> {
        let is = |word: &str, least: usize| command.len() >= least && word.starts_with(command);
        let first = rest.first().map(|word| word.to_ascii_lowercase());
        let among = |words: &[&str]| {
            let first = first.as_deref().filter(|first| !first.is_empty());
            first.is_some_and(|first| words.iter().any(|word| word.starts_with(first)))
        };
        if is("archive", 3) {
            return Some(complain(&match among(&["dump", "load"]) {
                true => vec!["sacctmgr: error: there is no database to archive: history is in the controller's store; 'sacct --parsable' writes it as text".to_owned()],
                false => vec![
                    "No valid entity in archive command".to_owned(),
                    "Input line must include, \"Dump\", or \"load\"".to_owned(),
                ],
            }));
        }
        if is("clear", 3) {
            return Some(complain(&match among(&["stats"]) {
                true => vec!["sacctmgr: error: there are no statistics of a database that could begin anew: see sdiag".to_owned()],
                false => vec![
                    "No valid entity in list command".to_owned(),
                    "Input line must include \"Stats\"".to_owned(),
                ],
            }));
        }
        if is("reconfigure", 3) {
            return Some(match self.context.ask(Request::Reload) {
                Ok(_) => exit::OK,
                Err(e) => complain(&[format!("sacctmgr: error: {e}")]),
            });
        }
        is("shutdown", 3).then(|| {
            complain(&["sacctmgr: error: there is no slurmdbd here that could be shut down; the controller is a service of the system (systemctl stop cosyd)".to_owned()])
        })
    }

    /// The policy, or the exit code after a line about why it cannot be had.
    fn view(&self) -> Result<PolicyView, u8> {
        policy::view(self.context).map_err(|e| {
            say(&format!("sacctmgr: error: {e}"));
            exit::FAILED
        })
    }

    fn change(&self, verb: Verb, words: &[String]) -> u8 {
        let view = match self.view() {
            Ok(view) => view,
            Err(code) => return code,
        };
        let plan = plan::of_words(verb, &view, words);
        if plan.changes.is_empty() {
            print(&plan.out);
            complain(&plan.err);
            return plan.code;
        }
        self.carry_out(&plan)
    }

    /// Says what is to be done, asks, and does it. Nothing is said to be done that the controller
    /// refuses.
    fn carry_out(&self, plan: &Plan) -> u8 {
        if let Err(e) = self.send(&plan.changes, true) {
            let jobs = self.jobs_in_the_way(&plan.changes, &e);
            if !jobs.is_empty() {
                say(&format!("{}: Job(s) active, cancel job(s) before remove", plan.problem));
                return complain(&jobs);
            }
            return refused(plan.problem, &e);
        }
        print(&plan.out);
        if !self.immediate && !agreed() {
            output::print(" Changes Discarded\n");
            return exit::OK;
        }
        match self.send(&plan.changes, false) {
            Ok(()) => exit::OK,
            Err(e) => refused(plan.problem, &e),
        }
    }

    /// Jobs for which something cannot be deleted.
    fn jobs_in_the_way(&self, changes: &[PolicyChange], e: &CallError) -> Vec<String> {
        let CallError::Refused(refusal) = e else {
            return Vec::new();
        };
        if refusal.code != RefusalCode::WrongState {
            return Vec::new();
        }
        let Ok(view) = self.view() else {
            return Vec::new();
        };
        let mut filter = JobFilter::default();
        for change in changes {
            match change {
                PolicyChange::RemoveAccount { name } => {
                    let below = view
                        .accounts
                        .iter()
                        .filter(|a| view.is_within(&a.name, name));
                    filter.accounts.extend(below.map(|a| a.name.clone()));
                }
                PolicyChange::RemoveAssociation { key } => {
                    filter.accounts.push(key.account.clone());
                    filter.users.extend(key.user.clone());
                }
                PolicyChange::RemoveUser { name } => filter.users.push(name.clone()),
                _ => return Vec::new(),
            }
        }
        self.active_jobs(&view.cluster, filter)
    }

    fn send(&self, changes: &[PolicyChange], dry_run: bool) -> Result<(), CallError> {
        let request = Request::ChangePolicy {
            changes: changes.to_vec(),
            dry_run,
        };
        self.context.ask(request).map(drop)
    }

    fn show(&self, words: &[String]) -> u8 {
        let entity = words
            .split_first()
            .and_then(|(first, rest)| Some((Entity::of(first)?, rest)));
        let Some((entity, rest)) = entity else {
            return complain(&no_entity("list"));
        };
        match entity {
            Entity::Configuration => return self.show_configuration(),
            Entity::Coordinator | Entity::Job => return complain(&no_entity("list")),
            Entity::Stats => {
                say(
                    "sacctmgr: error: there is no database beside the controller that would count its requests: sdiag tells what the controller has done",
                );
                return exit::FAILED;
            }
            _ => {}
        }
        let mut conditions = Conditions::default();
        for word in rest {
            if !["where", "set"].contains(&word.to_ascii_lowercase().as_str())
                && let Err(lines) = conditions.read(word)
            {
                return complain(&lines);
            }
        }
        conditions.associations |= self.with_associations;
        let columns = match chosen_columns(entity, &conditions) {
            Ok(columns) => columns,
            Err(why) => return complain(&[why]),
        };
        match entity {
            Entity::RunawayJobs => self.show_runaways(&columns),
            Entity::Event | Entity::Transaction => self.show_history(entity, &conditions, &columns),
            _ => self.list(entity, &conditions, &columns),
        }
    }

    fn list(&self, entity: Entity, conditions: &Conditions, columns: &[Column]) -> u8 {
        let view = match self.view() {
            Ok(view) => view,
            Err(code) => return code,
        };
        let mut rows = rows::rows(entity, &view, conditions);
        if conditions.tree && entity == Entity::Association {
            rows::indent(&view, &mut rows);
        }
        if let (Entity::Cluster | Entity::Resource, Ok(settings)) = (entity, self.settings()) {
            for row in &mut rows {
                row.insert("ControlHost", settings.host.clone());
            }
            if entity == Entity::Resource {
                rows = rows::resources(&view.cluster, &settings.licenses, conditions);
            }
        }
        let cell = |row: &Cells, name: &str| row.get(name).cloned().unwrap_or_default();
        output::print(&columns::text(columns, &rows, &self.look, cell));
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

    fn settings(&self) -> Result<Settings, CallError> {
        match self.context.ask(Request::Settings)? {
            Reply::Settings(settings) => Ok(*settings),
            _ => Err(CallError::Unexpected),
        }
    }

    fn dump(&self, words: &[String]) -> u8 {
        let (cluster, file) = file_words(words);
        let Some(cluster) = cluster else {
            say(" We need a cluster to dump.");
            return exit::FAILED;
        };
        let view = match self.view() {
            Ok(view) => view,
            Err(code) => return code,
        };
        if !cluster.eq_ignore_ascii_case(&view.cluster) {
            say(&format!(" Cluster {cluster} doesn't exist."));
            return exit::FAILED;
        }
        let path = file.unwrap_or_else(|| format!("{}.cfg", view.cluster));
        if let Err(e) = std::fs::write(&path, dump::file(&view)) {
            say(&format!(" Unable to write \"{path}\": {e}"));
            return exit::FAILED;
        }
        for line in dump::lines(&view) {
            say(&format!("sacctmgr: {line}"));
        }
        exit::OK
    }

    fn load(&self, words: &[String]) -> u8 {
        let clean = words.iter().any(|w| w.eq_ignore_ascii_case("clean"));
        let named: Vec<String> = words
            .iter()
            .filter(|w| !w.eq_ignore_ascii_case("clean"))
            .cloned()
            .collect();
        let (bare, file) = file_words(&named);
        let Some(path) = file.or(bare) else {
            say(" No filename given, specify one with file=''");
            return exit::FAILED;
        };
        let text = match read(&path) {
            Ok(text) => text,
            Err(why) => {
                say(&format!(" Unable to read \"{path}\": {why}"));
                return exit::FAILED;
            }
        };
        let view = match self.view() {
            Ok(view) => view,
            Err(code) => return code,
        };
        output::print(&format!("For cluster {}\n", view.cluster));
        let loaded = match load::read(&view, &text, clean) {
            Ok(loaded) => loaded,
            Err(lines) => return complain(&lines),
        };
        let mut out = Vec::new();
        let new = [
            ("QOS", &loaded.qos),
            ("Accounts", &loaded.accounts),
            ("Users", &loaded.users),
        ];
        for (title, names) in new {
            if !names.is_empty() {
                out.push(title.to_owned());
                out.extend(names.iter().map(|n| format!("  {n}")));
            }
        }
        if loaded.changes.is_empty() {
            output::print(" Nothing new added.\n");
            return exit::OK;
        }
        self.carry_out(&Plan {
            out,
            changes: loaded.changes,
            problem: " Problem with requests",
            ..Plan::default()
        })
    }
}

/// The columns that are named, or the usual ones.
fn chosen_columns(entity: Entity, conditions: &Conditions) -> Result<Vec<Column>, String> {
    let usual = columns::usual(entity, conditions.associations, conditions.coordinators);
    let format = conditions.format.clone().unwrap_or(usual);
    let mut columns = columns::columns(&format)?;
    if conditions.tree {
        for column in columns.iter_mut().filter(|c| c.field.name == "Account") {
            (column.width, column.left) = (column.width.max(20), true);
        }
    }
    Ok(columns)
}

/// The word alone and the value of `file=` among the words of `dump` and `load`.
fn file_words(words: &[String]) -> (Option<String>, Option<String>) {
    let (mut alone, mut file) = (None, None);
    for text in words {
        let word = Word::of(text);
        match word.value {
            Some((_, value)) if word.name.eq_ignore_ascii_case("file") => {
                file = Some(value.to_owned());
            }
            Some((_, value)) => alone = Some(value.to_owned()),
            None => alone = Some(unquoted(text).to_owned()),
        }
    }
    (alone, file)
}

/// A file, no longer than a dump may be.
fn read(path: &str) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|e| cause(&e))?;
    let mut text = String::new();
    let most = u64::try_from(load::LONGEST).unwrap_or(u64::MAX);
    file.take(most.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(|e| cause(&e))?;
    match text.len() > load::LONGEST {
        true => Err(format!("it is longer than {} MiB", load::LONGEST >> 20)),
        false => Ok(text),
    }
}

/// The system's words for an error, without its number.
fn cause(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// How long somebody has to decide, as Slurm says it.
const DECISION: Duration = Duration::from_secs(30);

/// Asks whether changes are to be made; no answer within the time is no.
fn agreed() -> bool {
    output::print("Would you like to commit changes? (You have 30 seconds to decide)\n");
    let (sender, answer) = mpsc::channel();
    // The thread ends with the program: reading cannot be broken off.
    std::thread::spawn(move || sender.send(answer_read()));
    answer.recv_timeout(DECISION).unwrap_or(false)
}

/// Reads until there is an answer, ten times at most; standard input that has ended gives none.
fn answer_read() -> bool {
    let mut input = std::io::stdin().lock();
    for _ in 0..10 {
        output::print("(N/y): ");
        let mut line = String::new();
        let read = input.by_ref().take(100).read_line(&mut line);
        output::print("\n");
        match (read, line.trim().chars().next()) {
            (Ok(0) | Err(_), _) | (_, Some('n' | 'N')) => return false,
            (_, Some('y' | 'Y')) => return true,
            _ => output::print("Y or N please\n"),
        }
    }
    false
}

/// Says that the controller refused; gives the exit code.
fn refused(problem: &str, e: &CallError) -> u8 {
    match e {
        CallError::Refused(r) if r.code == RefusalCode::Forbidden => {
            say("sacctmgr: error: Your user doesn't have privilege to perform this action");
            say(&format!("{problem}: Access/permission denied"));
        }
        other => say(&format!("{problem}: {other}")),
    }
    exit::FAILED
}
