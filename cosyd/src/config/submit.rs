//! `[submit]` of `cosy.toml`: rules at submission.

use super::values::Raw;
use crate::submit::{Exempt, Layer, Script, SubmitPolicy, WorkerPolicy};
use cosy_config::{Check, Size};
use cosy_model::{MiB, Span, limits};
use cosy_rules::protocol::Sees;
use cosy_rules::{Assignment, Expression, Kind, RULES, Rule, Template};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toml::{Spanned, Value};

/// An answer must come within so long, unless it is said otherwise.
const TIMEOUT: Span = Span::from_secs(1);
/// Shortest and longest such time.
const LEAST_TIMEOUT: Span = Span::from_secs(1);
/// Longest time that a request may wait for the program.
const MOST_TIMEOUT: Span = Span::from_secs(30);
/// Address space of the program, unless it is said otherwise.
const MEMORY: MiB = MiB(256);
/// Least address space of the program that runs a script in Lua.
const LEAST_LUA_MEMORY: MiB = MiB(64);
/// The user that has no rights.
const NOBODY: u32 = 65_534;

/// The table `[submit]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(default)]
    exempt: Vec<Spanned<String>>,
    exempt_admins: Option<bool>,
    order: Option<Vec<Spanned<String>>>,
    lua: Option<Spanned<PathBuf>>,
    worker: Option<Spanned<Vec<String>>>,
    worker_sees: Option<Vec<Spanned<String>>>,
    worker_uid: Option<Spanned<u32>>,
    worker_network: Option<bool>,
    memory: Option<Spanned<Size>>,
    timeout: Option<Spanned<String>>,
    on_failure: Option<Spanned<String>>,
    #[serde(default)]
    rule: Vec<RuleTable>,
}

/// A table `[[submit.rule]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    name: Spanned<String>,
    when: Option<Spanned<String>>,
    #[serde(default)]
    set: Assignments,
    #[serde(default)]
    default: Assignments,
    #[serde(default)]
    add: Assignments,
    warn: Option<Spanned<String>>,
    require: Option<Spanned<String>>,
    refuse: Option<Spanned<String>>,
}

type Assignments = BTreeMap<Spanned<String>, Raw>;

/// What is configured; `None` without the section, which then costs nothing.
pub(super) fn read(check: &mut Check<'_>, table: Option<&Table>) -> Option<SubmitPolicy> {
    let table = table?;
    if table.rule.len() > RULES {
        let at = table.rule.last().map_or(0, |rule| rule.name.span().start);
        check.fault(at, format!("more than {RULES} rules"));
    }
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for rule in &table.rule {
        let name = rule.name.get_ref();
        let odd = name.is_empty() || name.len() > limits::NAME_BYTES;
        if odd || name.contains(char::is_control) {
            let most = limits::NAME_BYTES;
            check.fault(rule.name.span().start, format!("a rule's name has 1 to {most} bytes"));
        }
        if !names.insert(name) {
            check.fault(rule.name.span().start, format!("rule '{name}' is there twice"));
        }
        rules.push(read_rule(check, rule));
    }
    Some(SubmitPolicy {
        rules,
        lua: lua(check, table),
        worker: worker(check, table),
        order: order(check, table),
        exempt: Exempt {
            admins: table.exempt_admins.unwrap_or(false),
            names: exempt(check, &table.exempt),
        },
    })
}

/// Rules first unless it is said otherwise.
fn order(check: &mut Check<'_>, table: &Table) -> Vec<Layer> {
    let Some(words) = &table.order else {
        return vec![Layer::Rules, Layer::Lua, Layer::Worker];
    };
    let mut order = Vec::new();
    for word in words {
        let layer = match word.get_ref().as_str() {
            "rules" => Layer::Rules,
            "lua" => Layer::Lua,
            "worker" => Layer::Worker,
            other => {
                let what =
                    format!("'{other}' judges nothing: use \"rules\", \"lua\" and \"worker\"");
                check.fault(word.span().start, what);
                continue;
            }
        };
        if order.contains(&layer) {
            check.fault(word.span().start, "it judges once");
        }
        order.push(layer);
    }
    let idle = |layer, there: bool| there && !order.contains(&layer);
    let left_out = [
        (Layer::Rules, !table.rule.is_empty(), "rules"),
        (Layer::Lua, table.lua.is_some(), "lua"),
        (Layer::Worker, table.worker.is_some(), "worker"),
    ];
    let mut left_out = left_out
        .into_iter()
        .filter(|(layer, there, _)| idle(*layer, *there));
    if let Some((_, _, word)) = left_out.next() {
        let at = words.first().map_or(0, |word| word.span().start);
        check.fault(at, format!("order leaves out what is configured: name \"{word}\" too"));
    }
    order
}

fn worker(check: &mut Check<'_>, table: &Table) -> Option<WorkerPolicy> {
    let command = table.worker.as_ref()?;
    if command
        .get_ref()
        .first()
        .is_none_or(|program| !program.starts_with('/'))
    {
        check.fault(command.span().start, "worker must start with a whole path");
    }
    Some(WorkerPolicy {
        command: command.get_ref().clone(),
        sees: sees(check, table.worker_sees.as_deref().unwrap_or_default()),
        ..program(check, table)
    })
}

/// The program that runs a script; the script itself is read later.
fn lua(check: &mut Check<'_>, table: &Table) -> Option<WorkerPolicy> {
    let path = table.lua.as_ref()?;
    if !path.get_ref().is_absolute() {
        check.fault(path.span().start, "lua must be the whole path of a script");
    }
    let policy = program(check, table);
    if policy.memory < LEAST_LUA_MEMORY {
        let at = table.memory.as_ref().map_or(0, |size| size.span().start);
        check.fault(at, format!("memory must be at least {LEAST_LUA_MEMORY} for lua"));
    }
    Some(WorkerPolicy {
        network: false,
        sees: Sees::ALL,
        script: Some(Arc::new(Script {
            path: path.get_ref().clone(),
            text: String::new(),
        })),
        ..policy
    })
}

/// What holds for all programs.
fn program(check: &mut Check<'_>, table: &Table) -> WorkerPolicy {
    if let Some(uid) = table.worker_uid.as_ref().filter(|uid| *uid.get_ref() == 0) {
        check.fault(uid.span().start, "the program cannot run as root: name an ordinary user");
    }
    let timeout = check.span(table.timeout.as_ref(), TIMEOUT);
    if !(LEAST_TIMEOUT..=MOST_TIMEOUT).contains(&timeout) {
        let at = table.timeout.as_ref().map_or(0, |text| text.span().start);
        check.fault(at, "timeout must be between 1s and 30s: every request may wait so long");
    }
    let on_failure = table.on_failure.as_ref();
    let fail_open = match on_failure.map(|text| text.get_ref().as_str()) {
        None | Some("closed") => false,
        Some("open") => true,
        Some(other) => {
            let at = on_failure.map_or(0, |text| text.span().start);
            check.fault(at, format!("on_failure is \"closed\" or \"open\", not '{other}'"));
            false
        }
    };
    let uid = table.worker_uid.as_ref();
    WorkerPolicy {
        command: Vec::new(),
        uid: uid.map_or(NOBODY, |uid| *uid.get_ref()),
        timeout: Duration::from_secs(u64::try_from(timeout.secs()).unwrap_or(1)),
        memory: check.size(table.memory.as_ref()).unwrap_or(MEMORY),
        network: table.worker_network.unwrap_or(false),
        fail_open,
        sees: Sees::default(),
        script: None,
    }
}

fn sees(check: &mut Check<'_>, words: &[Spanned<String>]) -> Sees {
    let mut sees = Sees::default();
    for word in words {
        match word.get_ref().as_str() {
            "script" => sees.script = true,
            "environment" => sees.environment = true,
            "queues" => sees.queues = true,
            "old" => sees.old = true,
            "accounts" => sees.accounts = true,
            other => {
                let what = format!(
                    "a worker cannot see '{other}': use \"script\", \"environment\", \"queues\", \"old\" and \"accounts\""
                );
                check.fault(word.span().start, what);
            }
        }
    }
    sees
}

fn exempt(check: &mut Check<'_>, names: &[Spanned<String>]) -> Vec<String> {
    for name in names {
        let bare = name.get_ref().strip_prefix('@').unwrap_or(name.get_ref());
        if bare.is_empty() || bare.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let what = format!(
                "'{}' is nobody: use the name of a user, or of a group behind '@'",
                name.get_ref()
            );
            check.fault(name.span().start, what);
        }
    }
    names.iter().map(|name| name.get_ref().clone()).collect()
}

fn read_rule(check: &mut Check<'_>, table: &RuleTable) -> Rule {
    let rule = Rule {
        name: table.name.get_ref().clone(),
        when: condition(check, table.when.as_ref()),
        set: assignments(check, &table.set),
        default: assignments(check, &table.default),
        add: assignments(check, &table.add),
        warn: template(check, table.warn.as_ref()),
        require: condition(check, table.require.as_ref()),
        refuse: template(check, table.refuse.as_ref()),
    };
    let acts = !(table.set.is_empty() && table.default.is_empty() && table.add.is_empty());
    let speaks = [&table.warn, &table.require, &table.refuse];
    if !acts && speaks.into_iter().all(Option::is_none) {
        let what = "this rule does nothing: give it set, default, add, warn, require or refuse";
        check.fault(table.name.span().start, what);
    }
    for added in &rule.add {
        if added.field().kind() != Kind::List {
            let what = format!("{} is no list: only lists are added to", added.field().name());
            check.fault(table.name.span().start, what);
        }
    }
    rule
}

fn condition(check: &mut Check<'_>, text: Option<&Spanned<String>>) -> Option<Expression> {
    let text = text?;
    let read = Expression::read_as(text.get_ref(), Kind::Flag);
    read.map_err(|why| check.fault(text.span().start, why)).ok()
}

fn template(check: &mut Check<'_>, text: Option<&Spanned<String>>) -> Option<Template> {
    let text = text?;
    let read = Template::read(text.get_ref());
    read.map_err(|why| check.fault(text.span().start, why)).ok()
}

/// In the order of the file: a later one may use what an earlier one has set.
fn assignments(check: &mut Check<'_>, table: &Assignments) -> Vec<Assignment> {
    let mut entries: Vec<(&Spanned<String>, &Raw)> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut all = Vec::new();
    for (name, value) in entries {
        match assignment(name.get_ref(), value.get_ref()) {
            Ok(assignment) => all.push(assignment),
            Err(why) => check.fault(name.span().start, why),
        }
    }
    all
}

fn assignment(field: &str, value: &Value) -> Result<Assignment, String> {
    match value {
        Value::String(text) => Assignment::read(field, text),
        Value::Integer(number) if *number < 0 => {
            Assignment::read(field, &format!("0 - {}", number.unsigned_abs()))
        }
        Value::Integer(number) => Assignment::read(field, &number.to_string()),
        Value::Boolean(yes) => Assignment::read(field, &yes.to_string()),
        Value::Array(all) => {
            let texts = all.iter().map(|one| match one {
                Value::String(text) => Ok(text.clone()),
                other => Err(format!("{field}: {other} is no text")),
            });
            let texts: Result<Vec<String>, String> = texts.collect();
            Assignment::read_list(field, &texts?)
        }
        Value::Float(_) | Value::Datetime(_) | Value::Table(_) => Err(format!(
            "{field}: {value} cannot be a value: use a text, a whole number, true, false or a list"
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::parse;
    use std::path::Path;

    const BASE: &str = "[controller]\nstate_dir = '/s'\nsocket = '/s/x'\n[[queue]]\nname = 'day'\n";

    #[test]
    fn without_the_section_there_is_nothing() {
        assert!(parse(Path::new("x"), BASE).unwrap().submit.is_none());
        let empty = parse(Path::new("x"), &format!("{BASE}[submit]\n")).unwrap();
        assert!(empty.submit.unwrap().rules.is_empty());
    }

    #[test]
    fn rules_are_read() {
        let text = format!(
            "{BASE}[submit]\nexempt = ['ann', '@ops']\n[[submit.rule]]\nname = 'gpu'\nwhen = 'gpus > 0'\n\
             set = {{ queue = 'gpu', exclusive = true, nice = -5, features = ['a'], tasks = 'gpus' }}\n\
             default = {{ time_limit = '4h' }}\nrequire = 'account is set'\nrefuse = 'no'\nwarn = '{{gpus}}'\n"
        );
        let policy = parse(Path::new("x"), &text).unwrap().submit.unwrap();
        assert_eq!(policy.exempt.names, ["ann", "@ops"]);
        let rule = &policy.rules[0];
        let set: Vec<&str> = rule.set.iter().map(|a| a.field().name()).collect();
        assert_eq!(set, ["queue", "exclusive", "nice", "features", "tasks"]);
        assert!(rule.require.is_some() && rule.warn.is_some() && rule.refuse.is_some());
    }

    #[test]
    fn every_fault_has_its_line() {
        let check = |rule: &str, want: &str| {
            let text = format!("{BASE}[[submit.rule]]\nname = 'r'\n{rule}\n");
            let faults = parse(Path::new("x"), &text).unwrap_err().0;
            assert!(faults.iter().any(|f| f.contains(want)), "{rule}: {faults:?} lacks {want}");
        };
        check(
            "warn = 'x'\nwhen = 'quue == \"a\"'",
            "x:9: there is no field 'quue'; did you mean 'queue'?",
        );
        check("wehn = 'true'", "did you mean `when`?");
        check("when = 'true'", "x:7: this rule does nothing");
        check("set = { quue = 'a' }", "x:8: there is no field 'quue'; did you mean 'queue'?");
        check("set = { user = 'a' }", "x:8: user cannot be set");
        check(
            "set = { site_factr = 5 }",
            "x:8: there is no field 'site_factr'; did you mean 'site_factor'?",
        );
        check("set = { site_factor = 'high' }", "x:8: there is no field 'high'");
        check("set = { site_factor = true }", "x:8: 'true' is yes or no, where a number is needed");
        check("set = { tres_per_job = 'gres/gpu:1' }", "x:8: tres_per_job cannot be set");
        check("require = 'tres_per_nod is set'", "did you mean 'tres_per_node'?");
        check("require = 'tres_per_job > 2'", "x:8: ");
        check("require = 'memory_per_node == 0'", "x:8: ");
        check("set = { nodes = 1.5 }", "x:8: nodes: 1.5 cannot be a value");
        check("set = { time_limit = 'soon' }", "x:8: there is no field 'soon'");
        check("add = { queue = 'x' }", "queue is no list");
        check("require = 'gpus'", "x:8: 'gpus' is a number, where yes or no is needed");
        check("refuse = '{usr}'", "did you mean 'user'?");
        check(
            "warn = 'x'\n[[submit.rule]]\nname = 'r'\nwarn = 'x'",
            "x:10: rule 'r' is there twice",
        );
        let check_table = |lines: &str, want: &str| {
            let text = format!("{BASE}[submit]\n{lines}\n");
            let faults = parse(Path::new("x"), &text).unwrap_err().0;
            assert!(faults.iter().any(|f| f.contains(want)), "{lines}: {faults:?} lacks {want}");
        };
        check_table("worker = ['judge']", "x:7: worker must start with a whole path");
        check_table("worker = ['/j']\nworker_uid = 0", "x:8: the program cannot run as root");
        check_table("worker = ['/j']\ntimeout = '2m'", "x:8: timeout must be between");
        check_table("worker = ['/j']\non_failure = 'ajar'", "x:8: on_failure is");
        check_table("worker = ['/j']\norder = ['rules']", "x:8: order leaves out");
        check_table("order = ['c']", "x:7: 'c' judges nothing");
        check_table("lua = 'job_submit.lua'", "x:7: lua must be the whole path");
        check_table("lua = '/j'\norder = ['rules']", "x:8: order leaves out");
        check_table("lua = '/j'\nmemory = '1M'", "x:8: memory must be at least 64M");
        check_table("worker = ['/j']\nworker_sees = ['all']", "x:8: a worker cannot see 'all'");
        check_table("worker = ['/j']\nworker_sees = ['account']", "\"old\" and \"accounts\"");
        let text = format!("{BASE}[submit.rule]\nname = 'r'\n");
        let faults = parse(Path::new("x"), &text).unwrap_err().0;
        assert!(faults[0].contains("[[submit.rule]]"), "{faults:?}");
    }
}
