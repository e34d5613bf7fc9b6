//! Reads one task of a workflow file: what `csub` would make of its keys, and the keys that only
//! workflows have.
//!
//! Keys for resources are options of `csub`, read by its code; `#COSY` lines of a script are
//! overridden by the file. Parts that all tasks share are not read here.

use crate::job_options::JobOptions;
use crate::native::flow::amounts;
use crate::native::flow::origin::Origin;
use crate::native::flow::tree::{Entry, Node, ParseError, Value};
use crate::native::submit::{self, Target, options, script};
use crate::shell_words;
use clap::{ArgMatches, Command};
use cosy_model::job::Rlimits;
use cosy_model::limits::FLOW_RETRIES;
use cosy_model::workflow::FlowTask;
use cosy_model::{OsText, Span};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Keys that are not options of `csub`.
const TASK_KEYS: [&str; 9] = [
    "name",
    "script",
    "args",
    "command",
    "run",
    "estimate",
    "estimates",
    "after",
    "retries",
];
/// Keys of [`TASK_KEYS`] that `[defaults]` may have.
const DEFAULT_KEYS: [&str; 3] = ["estimate", "estimates", "retries"];
/// Other names for keys, with the options that they stand for.
const ALIASES: [(&str, &str); 7] = [
    ("memory", "mem"),
    ("memory-per-core", "mem-per-core"),
    ("workdir", "chdir"),
    ("stdout", "output"),
    ("stderr", "error"),
    ("stdin", "input"),
    ("time-limit", "time"),
];
/// Options of `csub` that tasks cannot have, each with what to use instead.
const EXCLUDED: [(&str, &str); 12] = [
    ("begin", "use 'earliest' in [workflow]"),
    ("hold", "use cosy flow submit --hold"),
    ("depend", "use 'after'"),
    ("array", "write a task for each index"),
    ("reservation", "its slot is its reservation"),
    ("account", "use 'account' in [workflow]: it is the same for all tasks"),
    ("env", "use 'environment' in [workflow]: it is the same for all tasks"),
    ("login", "use 'login' in [workflow]: it is the same for all tasks"),
    ("wait", "use cosy flow watch"),
    ("json", "use cosy flow submit --json"),
    ("quiet", "it is for the command line alone"),
    ("parsable", "it is for the command line alone"),
];

/// A key of `csub` with its value.
#[derive(Clone)]
struct OptionEntry<'a> {
    option: String,
    line: u32,
    node: &'a Node,
}

/// Reads the tasks of one file, with their common defaults.
pub struct TaskReader<'a> {
    csub: Command,
    known: Vec<String>,
    dir: PathBuf,
    scripts: BTreeMap<PathBuf, Vec<u8>>,
    defaults: Vec<OptionEntry<'a>>,
    default_keys: BTreeMap<&'static str, &'a Node>,
    login: bool,
    origin: Origin<'a>,
}

impl<'a> TaskReader<'a> {
    /// For tasks whose scripts are named as seen from `dir`.
    pub fn new(dir: PathBuf, login: bool, origin: Origin<'a>) -> Self {
        let csub = options::command();
        let known = csub.get_arguments().filter_map(|a| a.get_long());
        let known = known.map(str::to_owned).collect();
        Self {
            csub,
            known,
            dir,
            scripts: BTreeMap::new(),
            defaults: Vec::new(),
            default_keys: BTreeMap::new(),
            login,
            origin,
        }
    }

    /// An option of all tasks that stands in `[workflow]`.
    pub fn set_default(&mut self, option: &str, node: &'a Node) {
        self.defaults.push(OptionEntry {
            option: option.to_owned(),
            line: node.line,
            node,
        });
    }

    /// Reads `[defaults]`, which counts for all later tasks.
    ///
    /// # Errors
    /// A key that makes no sense there.
    pub fn read_defaults(&mut self, node: Option<&'a Node>) -> Result<(), ParseError> {
        const WHAT: &str = "[defaults]";
        let Some(node) = node else { return Ok(()) };
        for entry in node.table(WHAT)? {
            match DEFAULT_KEYS.iter().find(|k| **k == entry.key) {
                Some(key) => {
                    self.default_keys.insert(key, &entry.node);
                }
                None => {
                    let given = self.option(WHAT, entry)?;
                    self.defaults.retain(|d| d.option != given.option);
                    self.defaults.push(given);
                }
            }
        }
        let defaults = self.defaults.clone();
        self.matches(WHAT, &defaults, &[]).map(|_| ())
    }

    /// The option that a key stands for.
    fn option(&self, what: &str, entry: &'a Entry) -> Result<OptionEntry<'a>, ParseError> {
        let key = entry.key.replace('_', "-");
        let alias = ALIASES.iter().find(|(alias, _)| *alias == key);
        let option = alias.map_or(key.as_str(), |(_, option)| option);
        if let Some((_, instead)) = EXCLUDED.iter().find(|(name, _)| *name == option) {
            let message = format!("{what}: '{}' is not for tasks: {instead}", entry.key);
            return Err(ParseError::new(entry.line, message));
        }
        if !self.known.iter().any(|k| k == option) {
            return Err(self.unknown(what, entry));
        }
        Ok(OptionEntry {
            option: option.to_owned(),
            line: entry.line,
            node: &entry.node,
        })
    }

    fn unknown(&self, what: &str, entry: &Entry) -> ParseError {
        let options = self.known.iter().map(String::as_str);
        let aliases = ALIASES.iter().map(|(alias, _)| *alias);
        let names = options.chain(aliases).chain(TASK_KEYS);
        let near = cosy_model::near::nearest(&entry.key.replace('_', "-"), names);
        let hint = match near {
            Some(name) => format!("is '{}' meant?", name.replace('-', "_")),
            None => "a task has the keys script, args, command, run, estimate, estimates, after, \
                     retries and those of csub's options (nodes, memory, time ...)"
                .to_owned(),
        };
        ParseError::new(entry.line, format!("{what}: there is no key '{}': {hint}", entry.key))
    }

    /// The task called `name`, which begins on `line`.
    ///
    /// # Errors
    /// A key or a value that makes no sense, a script that cannot be read.
    pub fn task(&mut self, name: &str, line: u32, node: &'a Node) -> Result<FlowTask, ParseError> {
        let what = format!("task '{name}'");
        let mut keys: BTreeMap<&str, &Node> = BTreeMap::new();
        let mut given: Vec<OptionEntry<'a>> = Vec::new();
        for entry in node.table(&what)? {
            if TASK_KEYS.contains(&entry.key.as_str()) {
                keys.insert(&entry.key, &entry.node);
                continue;
            }
            let one = self.option(&what, entry)?;
            if let Some(other) = given.iter().find(|g| g.option == one.option) {
                let message =
                    format!("{what}: '{}' says the same as line {}", entry.key, other.line);
                return Err(ParseError::new(entry.line, message));
            }
            given.push(one);
        }
        let keys = TaskKeys {
            what: &what,
            line,
            keys,
        };
        let (spec, script, options) = self.job(name, &keys, given)?;
        let estimate = match keys
            .get("estimate")
            .or(self.default_keys.get("estimate").copied())
        {
            Some(node) => amounts::estimate_in(node, &format!("{what}, estimate"))?,
            None => self.limit_as_estimate(&keys, &options)?,
        };
        Ok(FlowTask {
            name: name.to_owned(),
            spec,
            script,
            estimate,
            estimates: self.estimates(&keys)?,
            retries: self.retries(&keys)?,
        })
    }

    fn limit_as_estimate(
        &self,
        keys: &TaskKeys<'_>,
        options: &JobOptions,
    ) -> Result<Span, ParseError> {
        let limit = options.time.filter(|t| !t.is_unlimited());
        limit.ok_or_else(|| {
            keys.error("an estimate is missing: how long does it run? Like estimate = \"10m\"")
        })
    }

    fn estimates(&self, keys: &TaskKeys<'_>) -> Result<Vec<(String, Span)>, ParseError> {
        let what = format!("{}, estimates", keys.what);
        let node = keys
            .get("estimates")
            .or(self.default_keys.get("estimates").copied());
        let Some(node) = node else {
            return Ok(Vec::new());
        };
        let one = |e: &Entry| {
            let estimate = amounts::estimate_in(&e.node, &format!("{what}, {}", e.key))?;
            Ok((e.key.clone(), estimate))
        };
        node.table(&what)?.iter().map(one).collect()
    }

    fn retries(&self, keys: &TaskKeys<'_>) -> Result<u32, ParseError> {
        let node = keys
            .get("retries")
            .or(self.default_keys.get("retries").copied());
        let Some(node) = node else { return Ok(0) };
        let count = match node.value {
            Value::Integer(n) => u32::try_from(n).ok().filter(|n| *n <= FLOW_RETRIES),
            _ => None,
        };
        count.ok_or_else(|| {
            let message = format!(
                "{}, retries: a whole number from 0 to {FLOW_RETRIES} is needed",
                keys.what
            );
            ParseError::new(node.line, message)
        })
    }

    /// The job that `csub` would make of the task.
    fn job(
        &mut self,
        name: &str,
        keys: &TaskKeys<'_>,
        mut given: Vec<OptionEntry<'a>>,
    ) -> Result<(cosy_model::JobSpec, OsText, JobOptions), ParseError> {
        for default in &self.defaults {
            if !given.iter().any(|g| g.option == default.option) {
                given.push(default.clone());
            }
        }
        let named = [format!("--name={name}")];
        let matches = self.matches(keys.what, &given, &named)?;
        let (target, text) = self.target(keys)?;
        let (submission, options) =
            submit::assemble(target, text, &matches).map_err(|e| keys.error(&format!("{e:#}")))?;
        check_script_options(&options).map_err(|e| keys.error(&e))?;
        let mut spec = submission.spec;
        spec.environment = OsText::default();
        spec.rlimits = Rlimits::default();
        spec.umask = 0;
        spec.login_environment = self.login;
        if let Origin::Sent { folder } = self.origin {
            make_foreign(&mut spec, &options, folder).map_err(|e| keys.error(&e))?;
        }
        Ok((spec, submission.script, options))
    }

    /// Options as the command line of `csub` would have them.
    fn matches(
        &mut self,
        what: &str,
        given: &[OptionEntry<'_>],
        more: &[String],
    ) -> Result<ArgMatches, ParseError> {
        let mut line = vec!["csub".to_owned()];
        for one in given {
            line.extend(argument(what, one)?);
        }
        line.extend_from_slice(more);
        let read = self.parse(&line);
        // The options are read once; only after an error they are read one by one, to name the key.
        read.map_err(|error| {
            for one in given {
                let alone = ["csub".to_owned()]
                    .into_iter()
                    .chain(argument(what, one).ok().flatten());
                if let Err(e) = self.parse(&alone.collect::<Vec<_>>()) {
                    return ParseError::new(one.line, format!("{what}: {e}"));
                }
            }
            let line = given.iter().map(|g| g.line).max().unwrap_or(0);
            ParseError::new(line, format!("{what}: {error}"))
        })
    }

    fn parse(&mut self, line: &[String]) -> Result<ArgMatches, String> {
        let matches = self.csub.try_get_matches_from_mut(line).map_err(|e| {
            crate::native::arg::error_line(&e)
                .unwrap_or_else(|| "only options may stand here".to_owned())
        })?;
        JobOptions::default().apply(&matches)?;
        Ok(matches)
    }

    /// The program or script of the task, and the text of the script.
    fn target(&mut self, keys: &TaskKeys<'_>) -> Result<(Target, Vec<u8>), ParseError> {
        let ways = ["script", "command", "run"];
        let found: Vec<&str> = ways.into_iter().filter(|w| keys.get(w).is_some()).collect();
        let [way] = found.as_slice() else {
            return Err(keys.error(
                "one of script = \"FILE\", command = [\"PROGRAM\", \"ARGUMENT\"] and run = \"a line of shell\" is needed",
            ));
        };
        let args = keys
            .get("args")
            .map(|n| keys.words("args", n))
            .transpose()?;
        let node = keys
            .get(way)
            .map_or_else(|| Err(keys.error("nothing to run")), Ok)?;
        match (*way, args) {
            ("script", args) => self.script(keys, node, args.unwrap_or_default()),
            (way, Some(_)) => {
                Err(keys.error(&format!("'args' belongs to 'script', and there is '{way}'")))
            }
            ("command", None) => Ok((command(keys, node)?, Vec::new())),
            (_, None) => inline(keys, node),
        }
    }

    fn script(
        &mut self,
        keys: &TaskKeys<'_>,
        node: &Node,
        args: Vec<OsString>,
    ) -> Result<(Target, Vec<u8>), ParseError> {
        let name = node.text(&format!("{}, script", keys.what))?;
        if matches!(name, "" | "-") {
            return Err(keys.error("'script' is the name of a file"));
        }
        if let Origin::Sent { .. } = self.origin {
            return Err(keys.error(
                "'script' names a file, and none is read for a workflow that was sent: use run = \"lines of shell\" or command = [\"/PATH/OF/IT\"]",
            ));
        }
        let path = self.dir.join(name);
        let text = match self.scripts.get(&path) {
            Some(text) => text.clone(),
            None => {
                let text = read(&path)
                    .map_err(|e| ParseError::new(node.line, format!("{}: {e}", keys.what)))?;
                self.scripts.insert(path.clone(), text.clone());
                text
            }
        };
        let file = Some(path.into_os_string());
        Ok((Target::Script { file, args }, text))
    }
}

/// Nothing of this process stays in the job of a file that was sent.
fn make_foreign(
    spec: &mut cosy_model::JobSpec,
    options: &JobOptions,
    folder: &str,
) -> Result<(), String> {
    spec.workdir = match &options.chdir {
        None => OsText::from(folder),
        Some(dir) if Path::new(dir).is_absolute() => spec.workdir.clone(),
        Some(dir) => {
            let dir = dir.to_string_lossy();
            return Err(format!(
                "'workdir' of a workflow that was sent begins with '/', and there is '{dir}'"
            ));
        }
    };
    (spec.submit_host, spec.submit_session) = (None, None);
    spec.submit_line = String::new();
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, script::ScriptError> {
    script::read(Some(path.as_os_str()))
}

/// The keys of a task that are not options.
struct TaskKeys<'b> {
    what: &'b str,
    line: u32,
    keys: BTreeMap<&'b str, &'b Node>,
}

impl<'b> TaskKeys<'b> {
    fn get(&self, key: &str) -> Option<&'b Node> {
        self.keys.get(key).copied()
    }

    fn error(&self, message: &str) -> ParseError {
        ParseError::new(self.line, format!("{}: {message}", self.what))
    }

    /// A list of words, or a line that is split as a shell would.
    fn words(&self, key: &str, node: &Node) -> Result<Vec<OsString>, ParseError> {
        let what = format!("{}, {key}", self.what);
        let expected = || node.type_error(&what, "a list of words");
        let all: Vec<String> = match &node.value {
            Value::List(list) => list
                .iter()
                .map(|n| n.word().ok_or_else(expected))
                .collect::<Result<_, _>>()?,
            Value::Text(line) => shell_words::split(line)
                .map_err(|e| ParseError::new(node.line, format!("{what}: {e}")))?,
            _ => return Err(expected()),
        };
        Ok(all.into_iter().map(OsString::from).collect())
    }
}

fn command(keys: &TaskKeys<'_>, node: &Node) -> Result<Target, ParseError> {
    let argv = keys.words("command", node)?;
    if argv.first().is_none_or(|program| program.is_empty()) {
        return Err(ParseError::new(node.line, format!("{}, command: it is empty", keys.what)));
    }
    Ok(Target::Command { argv })
}

/// Lines of shell that stand in the file itself.
fn inline(keys: &TaskKeys<'_>, node: &Node) -> Result<(Target, Vec<u8>), ParseError> {
    let lines = node.text(&format!("{}, run", keys.what))?;
    let text = if lines.starts_with("#!") {
        lines.to_owned()
    } else {
        format!("#!/bin/sh\n{lines}\n")
    };
    let target = Target::Script {
        file: Some("run".into()),
        args: Vec::new(),
    };
    Ok((target, text.into_bytes()))
}

/// A key and its value as an argument of `csub`; nothing for `false`.
fn argument(what: &str, given: &OptionEntry<'_>) -> Result<Option<String>, ParseError> {
    let option = &given.option;
    let expected = || {
        given
            .node
            .type_error(&format!("{what}, {option}"), "a value")
    };
    let joined = |words: Vec<String>| Ok(Some(format!("--{option}={}", words.join(","))));
    match &given.node.value {
        Value::Bool(true) => Ok(Some(format!("--{option}"))),
        Value::Bool(false) if option == "requeue" => Ok(Some("--no-requeue".to_owned())),
        Value::Bool(false) => Ok(None),
        Value::List(list) => {
            let words: Option<Vec<String>> = list.iter().map(Node::word).collect();
            joined(words.ok_or_else(expected)?)
        }
        Value::Table(entries) => {
            // `gpus = { a100 = 2 }`, `other = { fpga = 1 }`.
            let mark = if option == "gpus" { ':' } else { '=' };
            let pair = |e: &Entry| Some(format!("{}{mark}{}", e.key, e.node.word()?));
            let words: Option<Vec<String>> = entries.iter().map(pair).collect();
            joined(words.ok_or_else(expected)?)
        }
        Value::Null | Value::Integer(_) | Value::Float(_) | Value::Text(_) => {
            joined(vec![given.node.word().ok_or_else(expected)?])
        }
    }
}

/// Refuses options in the `#COSY` lines of a script that tasks cannot have.
fn check_script_options(options: &JobOptions) -> Result<(), String> {
    let found = [
        ("begin", options.begin.is_some()),
        ("hold", options.hold),
        ("depend", !options.depend.is_empty()),
        ("array", options.array.is_some()),
        ("reservation", options.reservation.is_some()),
        ("account", options.account.is_some()),
        ("env", !options.env.is_empty()),
        ("login", options.login),
    ];
    let Some((option, _)) = found.iter().find(|(_, given)| *given) else {
        return Ok(());
    };
    let instead = EXCLUDED.iter().find(|(name, _)| name == option);
    let instead = instead.map_or("", |(_, instead)| instead);
    Err(format!("its script has --{option}, which is not for tasks: {instead}"))
}
