//! What the controller and a program that judges say to each other: a line of JSON for each
//! request, a line for its answer. The contract is in docs/admin-guide.md, "A program that judges".
//!
//! The answer comes from a program without rights: whatever its bytes are, it becomes an answer
//! within these bounds or a sentence that says what is wrong with it.

use crate::field::Field;
use crate::subject::Subject;
use crate::value::{Kind, Value};
use cosy_model::api::QueueInfo;
use cosy_model::policy::UserAccounts;
use cosy_model::{AccessLevel, MiB, OsText, Span};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Most bytes of an answer.
pub const ANSWER_BYTES: usize = 64 << 10;
/// Most bytes of an answer that may have a script: one of the most bytes that a script may have,
/// with every byte escaped.
pub const SCRIPT_ANSWER_BYTES: usize = ANSWER_BYTES + 6 * cosy_model::limits::SCRIPT_BYTES;
/// Most bytes of a question: a script and variables of the most bytes, with every byte escaped.
pub const QUESTION_BYTES: usize = 64 << 20;
/// Most queues that a question lists.
const QUEUES: usize = 1000;
/// Most bytes of the lists of accounts and qualities of service of all queues together.
const ADMITS_BYTES: usize = 4 << 20;
/// Most bytes of the list of a queue's nodes.
const NODE_LIST_BYTES: usize = 4096;
/// Most variables that an answer sets.
const VARIABLES: usize = 1000;
/// Most lines for the log that are taken of an answer.
const LOG_LINES: usize = 200;
/// Most bytes of a line for the log and of a remark, and of a refusal.
const LINE_BYTES: usize = 1000;
const REFUSAL_BYTES: usize = 4000;

/// What a program sees beside the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sees {
    /// The text of the script, which it then may change.
    pub script: bool,
    /// The variables of batch jobs.
    pub environment: bool,
    /// The queues that the user may use.
    pub queues: bool,
    /// Of a change: the job as it is, and what is asked for.
    pub old: bool,
    /// The accounts of the user, with qualities of service.
    pub accounts: bool,
}

impl Sees {
    /// All there is.
    pub const ALL: Self = Self {
        script: true,
        environment: true,
        queues: true,
        old: true,
        accounts: true,
    };

    /// Most bytes of an answer.
    pub const fn answer_bytes(self) -> usize {
        match self.script {
            true => SCRIPT_ANSWER_BYTES,
            false => ANSWER_BYTES,
        }
    }
}

/// A request as a program is told of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Question {
    /// Version of the protocol: [`VERSION`].
    pub version: u32,
    /// Comes back in the answer.
    pub id: u64,
    /// Fields that are set. Sizes are MiB, times seconds or `"unlimited"`.
    pub fields: Map<String, Json>,
    /// Of a change: the fields that it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Vec<String>>,
    /// Of a change: the fields of the job as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Map<String, Json>>,
    /// Queues that the user may use, as they are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<QueueRow>>,
    /// Accounts of the user, of a change those of the job's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<UserAccounts>,
    /// Text of the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Variables of a batch job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
}

/// A queue as a program is told of it. Times are seconds; what is not limited is not there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QueueRow {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Jobs that name none go to it.
    pub default: bool,
    /// `open`, `drained`, `stopped` or `closed`.
    pub state: String,
    /// The higher is served first.
    pub priority: i32,
    /// What the user may: `prefer`, `allow` or `defer`.
    pub level: String,
    /// Number of its nodes.
    pub nodes: u32,
    /// Names of its nodes, folded; empty where they are all nodes, or too many to list.
    pub node_list: String,
    /// Longest time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time: Option<i64>,
    /// Time limit of jobs that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<i64>,
    /// Most nodes of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Most memory of each node of a job, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<u64>,
    /// Memory of each core of jobs that name none, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_memory_per_core: Option<u64>,
    /// Jobs get whole nodes.
    pub exclusive: bool,
    /// Groups that may use it, where not everybody may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// Accounts that alone may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_accounts: Option<Vec<String>>,
    /// Accounts that may not use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_accounts: Vec<String>,
    /// Qualities of service that jobs in it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_qos: Option<Vec<String>>,
    /// Qualities of service that jobs in it may not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_qos: Vec<String>,
    /// Its own quality of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// There is no room for its lists of accounts and qualities of service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lists_left_out: bool,
}

/// Why a line is for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Something has failed.
    Error,
    /// To be known.
    #[default]
    Info,
    /// For whoever looks for a fault.
    Debug,
}

/// A line for the log of the controller.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    /// How it is logged.
    #[serde(default)]
    pub level: LogLevel,
    /// What is logged.
    pub text: String,
}

/// What a program answers. Everything but `id` may be left out.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Version that the program speaks; a later one than [`VERSION`] is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Of the question.
    pub id: u64,
    /// Fields and what they become; null takes away what was asked for.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub set: Map<String, Json>,
    /// Variables and what they become; null takes them away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Option<String>>,
    /// Text of the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// What the user is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// For the log of the controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// Why the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<String>,
    /// The error number that Slurm's commands give with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Why the program could not judge: the request is treated as one that is not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What a program wants of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Fields and what they become.
    pub set: Vec<(Field, Value)>,
    /// Variables and what they become.
    pub environment: BTreeMap<String, Option<String>>,
    /// Text of the script.
    pub script: Option<String>,
    /// What the user is told.
    pub remarks: Vec<String>,
    /// For the log of the controller.
    pub log: Vec<LogLine>,
    /// Why the request is refused.
    pub refuse: Option<String>,
    /// The error number that Slurm's commands give with it.
    pub number: Option<u32>,
    /// Why the program could not judge.
    pub failed: Option<String>,
}

/// The fields of a request that are set.
pub fn fields(subject: &Subject<'_>) -> Map<String, Json> {
    let mut fields = Map::new();
    for field in Field::ALL {
        let value = match subject.in_full(*field) {
            Value::Unset => continue,
            Value::Flag(yes) => json!(yes),
            Value::Time(Value::NO_END) => json!("unlimited"),
            Value::Number(n) | Value::Size(n) | Value::Time(n) => json!(n),
            Value::Text(text) => json!(text),
            Value::List(all) => json!(all),
        };
        fields.insert(field.name().to_owned(), value);
    }
    fields
}

/// Variables by name; what is not text has marks in its place.
pub fn variables(block: &OsText) -> BTreeMap<String, String> {
    let entries = block.0.split(|byte| *byte == 0);
    let variable = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry).into_owned();
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    entries.filter_map(variable).collect()
}

/// Sets variables in a block of them, or takes them away. What is not named stays, byte by byte.
pub fn set_variables(block: &mut OsText, changes: &BTreeMap<String, Option<String>>) {
    let named = |entry: &[u8]| {
        let name = entry.split(|byte| *byte == b'=').next().unwrap_or_default();
        std::str::from_utf8(name).is_ok_and(|name| changes.contains_key(name))
    };
    let mut bytes = Vec::with_capacity(block.0.len());
    let kept = block.0.split(|byte| *byte == 0);
    for entry in kept.filter(|entry| !entry.is_empty() && !named(entry)) {
        bytes.extend_from_slice(entry);
        bytes.push(0);
    }
    for (name, value) in changes {
        if let Some(value) = value {
            bytes.extend_from_slice(format!("{name}={value}\0").as_bytes());
        }
    }
    block.0 = bytes;
}

impl QueueRow {
    /// A queue, unless the user may not use it.
    pub fn of(info: &QueueInfo) -> Option<Self> {
        let spec = &info.spec;
        let level = match info.your_level {
            AccessLevel::Prefer => "prefer",
            AccessLevel::Allow => "allow",
            AccessLevel::Defer => "defer",
            AccessLevel::Deny => return None,
        };
        let list = spec.nodes.as_ref().map(|names| cosy_model::fold(names));
        let span = |span: Option<Span>| span.filter(|s| !s.is_unlimited()).map(Span::secs);
        let open = |(name, level): (&String, &AccessLevel)| {
            (*level != AccessLevel::Deny).then(|| name.clone())
        };
        let groups = || spec.groups.iter().filter_map(open).collect();
        Some(Self {
            name: spec.name.clone(),
            default: info.default,
            state: spec.state.word().to_owned(),
            priority: spec.priority,
            level: level.to_owned(),
            nodes: info.nodes,
            node_list: list
                .filter(|list| list.len() <= NODE_LIST_BYTES)
                .unwrap_or_default(),
            max_time: span(spec.max_time),
            default_time: span(spec.default_time),
            max_nodes: spec.max_nodes,
            max_memory: spec.max_memory.map(|mib| mib.0),
            default_memory_per_core: spec.default_memory_per_core.map(|mib| mib.0),
            exclusive: spec.exclusive,
            groups: (spec.others == AccessLevel::Deny).then(groups),
            allow_accounts: spec.admits.allow_accounts.clone(),
            deny_accounts: spec.admits.deny_accounts.clone(),
            allow_qos: spec.admits.allow_qos.clone(),
            deny_qos: spec.admits.deny_qos.clone(),
            qos: spec.admits.qos.clone(),
            lists_left_out: false,
        })
    }

    /// The queues that the user may use, within the bounds of a question.
    pub fn all_of(queues: &[QueueInfo]) -> Vec<Self> {
        let mut room = ADMITS_BYTES;
        let fitting = |mut row: Self| {
            match room.checked_sub(row.admits_bytes()) {
                Some(left) => room = left,
                None => row.leave_lists_out(),
            }
            row
        };
        let rows = queues.iter().filter_map(Self::of).take(QUEUES);
        rows.map(fitting).collect()
    }

    /// Bytes that its lists of accounts and qualities of service take, with their quotes.
    fn admits_bytes(&self) -> usize {
        let allowed = [&self.allow_accounts, &self.allow_qos]
            .into_iter()
            .flatten();
        let lists = allowed.chain([&self.deny_accounts, &self.deny_qos]);
        lists.flatten().map(|name| name.len() + 3).sum()
    }

    fn leave_lists_out(&mut self) {
        (self.allow_accounts, self.allow_qos) = (None, None);
        self.deny_accounts.clear();
        self.deny_qos.clear();
        self.lists_left_out = true;
    }
}

/// Reads the answer to the question of that number.
///
/// # Errors
/// What is wrong with it.
pub fn decode(line: &[u8], id: u64) -> Result<Wanted, String> {
    let answer: Answer =
        serde_json::from_slice(line).map_err(|e| format!("its answer is none: {e}"))?;
    if let Some(version) = answer.version.filter(|version| *version > VERSION) {
        return Err(format!("it speaks version {version}, and this controller {VERSION}"));
    }
    if answer.id != id {
        return Err(format!("it answers request {} and was asked {id}", answer.id));
    }
    let mut set = Vec::new();
    for (name, value) in &answer.set {
        set.push(setting(name, value)?);
    }
    check_variables(&answer.environment)?;
    let longest = cosy_model::limits::SCRIPT_BYTES;
    if let Some(text) = &answer.script
        && (text.len() > longest || text.contains('\0'))
    {
        return Err(format!("its script has more than {longest} bytes, or a zero byte"));
    }
    let line = |mut line: LogLine| {
        line.text = cut(&line.text, LINE_BYTES);
        line
    };
    Ok(Wanted {
        set,
        environment: answer.environment,
        script: answer.script,
        remarks: answer
            .remarks
            .iter()
            .map(|text| cut(text, LINE_BYTES))
            .collect(),
        log: answer.log.into_iter().take(LOG_LINES).map(line).collect(),
        refuse: answer.refuse.map(|text| cut(&text, REFUSAL_BYTES)),
        number: answer.number,
        failed: answer.failed.map(|text| cut(&text, LINE_BYTES)),
    })
}

fn check_variables(all: &BTreeMap<String, Option<String>>) -> Result<(), String> {
    if all.len() > VARIABLES {
        return Err(format!("it sets more than {VARIABLES} variables"));
    }
    for (name, value) in all {
        let odd = name.is_empty() || name.contains(['=', '\0']);
        if odd || value.as_ref().is_some_and(|value| value.contains('\0')) {
            return Err(format!("it sets a variable '{}', which cannot be", cut(name, 60)));
        }
    }
    Ok(())
}

/// At most so many bytes of a text.
fn cut(text: &str, most: usize) -> String {
    match text.len() <= most {
        true => text.to_owned(),
        false => text.chars().take(most / 4).collect(),
    }
}

/// A field and its value as a program wants it.
fn setting(name: &str, value: &Json) -> Result<(Field, Value), String> {
    let field = Field::named(name).filter(|field| field.is_settable());
    let field = field.ok_or_else(|| format!("it sets '{}', which cannot be set", cut(name, 60)))?;
    let read = match (field.kind(), value) {
        (_, Json::Null) => Some(Value::Unset),
        (Kind::Flag, Json::Bool(yes)) => Some(Value::Flag(*yes)),
        (Kind::Number, Json::Number(n)) => n.as_i64().map(Value::Number),
        (Kind::Size, Json::Number(n)) => n.as_i64().map(Value::Size),
        (Kind::Size, Json::String(text)) => {
            let size = text.parse::<MiB>().ok();
            size.and_then(|mib| i64::try_from(mib.0).ok())
                .map(Value::Size)
        }
        (Kind::Time, Json::Number(n)) => n.as_i64().map(Value::Time),
        (Kind::Time, Json::String(text)) => text.parse::<Span>().ok().map(Value::of_span),
        (Kind::Text, Json::String(text)) => Some(Value::Text(text.clone())),
        (Kind::List, Json::Array(all)) => {
            let texts = all.iter().map(|one| one.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>().map(Value::List)
        }
        _ => None,
    };
    let read = read.ok_or_else(|| format!("it sets {name} to what is not {}", field.kind()))?;
    Ok((field, read))
}

#[cfg(test)]
mod tests;
