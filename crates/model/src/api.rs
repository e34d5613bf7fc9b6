//! What commands ask the controller and what it answers: the words only. How they
//! travel (frames, versions, keys) is the business of `cosy-proto`.
//!
//! Lists name the fields they want and come back by column ([`Table`]): 40,000 jobs
//! with 30 named fields each would cost 70 to 90 ms of encoding alone.

mod bounds;

use crate::job::MemoryRequest;
use crate::reservation::{
    AccountAction, AccountInfo, Ask, LedgerEntry, PlanChart, Quote, ReservationFilter,
    ReservationInfo,
};
use crate::workflow::{FlowFilter, FlowInfo, FlowPlan, FlowSpec};
use crate::{
    Amounts, ArraySpec, FlowId, JobId, JobSpec, JobState, OsText, QueueSpec, QueueState, Refusal,
    ReservationId, Span, Time, TriggerId, TriggerInfo, TriggerSpec, Uid, limits,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A job as users name it: `12`, or task 3 of array 12 as `12_3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct JobRef {
    /// Id of the job, or the first id of the array.
    pub job: JobId,
    /// Index within the array; without, all tasks of an array.
    #[serde(default)]
    pub task: Option<u32>,
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) => f.pad(&format!("{}_{task}", self.job)),
            None => f.pad(&self.job.to_string()),
        }
    }
}

impl std::str::FromStr for JobRef {
    type Err = String;

    /// Reads `12` and `12_3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let short: String = text.chars().take(60).collect();
            format!("'{short}' is no job id: use a number, or 12_3 for task 3 of array 12")
        };
        let number = |t: &str| -> Option<u64> {
            (!t.is_empty() && t.len() <= 18 && t.bytes().all(|b| b.is_ascii_digit()))
                .then(|| t.parse().ok())
                .flatten()
        };
        let (job, task) = match text.split_once('_') {
            Some((job, task)) => {
                let task = number(task).and_then(|n| u32::try_from(n).ok());
                (job, Some(task.ok_or_else(bad)?))
            }
            None => (text, None),
        };
        let job = number(job).filter(|n| *n > 0).ok_or_else(bad)?;
        Ok(Self {
            job: JobId(job),
            task,
        })
    }
}

/// Which jobs: all conditions that are not empty must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFilter {
    /// Only these jobs, or of arrays these tasks; all when empty.
    pub ids: Vec<JobRef>,
    /// User names, or numeric ids as text.
    pub users: Vec<String>,
    /// Queue names.
    pub queues: Vec<String>,
    /// Job names.
    pub names: Vec<String>,
    /// Only jobs that charge one of these accounts; all when empty.
    pub accounts: Vec<String>,
    /// Only jobs in one of these states; all when empty.
    pub states: Vec<JobState>,
    /// Names of nodes that the job runs on.
    pub nodes: Vec<String>,
    /// History: ended at or after.
    pub since: Option<Time>,
    /// History: started before (or never started and submitted before).
    pub until: Option<Time>,
    /// History: at most so many rows, the latest.
    pub most: Option<u32>,
    /// Lists: the command asks for the rest when the answer is only a part
    /// ([`Table::more`]). Without, a list that does not fit into one answer is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pages: bool,
    /// Lists: go on there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
}

/// Where a list goes on that does not fit into one answer. Commands hand it back as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Which part of the list: what lives comes before what has ended; in history the array
    /// whose last task has been told, 0 without.
    pub part: u64,
    /// Place in it; the row there has been told.
    pub at: u64,
}

impl JobFilter {
    /// True when nothing is asked: every job passes.
    pub fn is_empty(&self) -> bool {
        let Self {
            ids,
            users,
            queues,
            names,
            accounts,
            states,
            nodes,
            since,
            until,
            most,
            pages: _,
            after: _,
        } = self;
        let lists = [users, queues, names, accounts, nodes];
        lists.into_iter().all(Vec::is_empty)
            && ids.is_empty()
            && states.is_empty()
            && (since, until, most) == (&None, &None, &None)
    }
}

/// A column of a job list. The word is the name in `--json` and in `--format`.
macro_rules! job_fields {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $kind:ident;)+) => {
        /// A field of a job that can be asked for.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum JobField {
            $($(#[$doc])* $name,)+
        }

        impl JobField {
            /// All fields in their usual order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name in `--json` and `--format`.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// How its values are to be read.
            pub const fn kind(self) -> FieldKind {
                match self { $(Self::$name => FieldKind::$kind,)+ }
            }
        }
    };
}

/// How the values of a field are to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// Text as it is shown.
    Text,
    /// A number.
    Number,
    /// A time in milliseconds since 1970.
    Time,
    /// A length in milliseconds; `i64::MAX` is unlimited.
    Span,
    /// 0 or 1.
    Flag,
}

job_fields! {
    /// Number that the controller gave it.
    Id = "id", Number;
    /// Id as users name it: `12`, `12_3`, or `12_[4-9%2]` for waiting tasks together.
    Ref = "ref", Text;
    /// First id of its array.
    ArrayId = "array_id", Number;
    /// Index in its array.
    ArrayTask = "array_task", Number;
    /// Name that its owner gave it.
    Name = "name", Text;
    /// User name.
    User = "user", Text;
    /// User id.
    Uid = "uid", Number;
    /// Group id.
    Gid = "gid", Number;
    /// Account that it charges.
    Account = "account", Text;
    /// Queue that it is in.
    Queue = "queue", Text;
    /// State word.
    State = "state", Text;
    /// Why it waits, or why it ended as it did.
    Reason = "reason", Text;
    /// Submit time.
    Submit = "submit", Time;
    /// From when on it could start.
    Eligible = "eligible", Time;
    /// Start of its last attempt.
    Start = "start", Time;
    /// When it ended.
    End = "end", Time;
    /// Predicted start of a waiting job.
    PredictedStart = "predicted_start", Time;
    /// Latest end: start and time limit.
    LatestEnd = "latest_end", Time;
    /// Run time so far or in all.
    Elapsed = "elapsed", Span;
    /// Time limit.
    TimeLimit = "time_limit", Span;
    /// Number of nodes asked for or held.
    NodeCount = "node_count", Number;
    /// Its nodes, as a host list.
    Nodes = "nodes", Text;
    /// Number of tasks.
    Tasks = "tasks", Number;
    /// Number of cores held, or asked for.
    Cores = "cores", Number;
    /// Memory on each node in MiB; 0 is not limited.
    MemoryPerNode = "memory_per_node_mib", Number;
    /// GPUs held in all, or asked for.
    Gpus = "gpus", Number;
    /// Exit code.
    ExitCode = "exit_code", Number;
    /// Signal that ended it.
    Signal = "signal", Number;
    /// User CPU time in microseconds.
    UserCpu = "user_cpu_us", Number;
    /// System CPU time in microseconds.
    SystemCpu = "system_cpu_us", Number;
    /// Peak memory in bytes.
    PeakMemory = "peak_memory_bytes", Number;
    /// Number of the last attempt.
    Attempt = "attempt", Number;
    /// Place in the order of the queue, from 1.
    Place = "place", Number;
    /// Nice value.
    Nice = "nice", Number;
    /// True when it runs again after a node was lost.
    Requeue = "requeue", Flag;
    /// What it waits for.
    Dependencies = "dependencies", Text;
    /// Reservation that it runs in.
    Reservation = "reservation", Number;
    /// Command line.
    Command = "command", Text;
    /// Working directory.
    Workdir = "workdir", Text;
    /// Output file.
    Stdout = "stdout", Text;
    /// Error file.
    Stderr = "stderr", Text;
    /// Input file.
    Stdin = "stdin", Text;
    /// Features asked for.
    Features = "features", Text;
    /// Nodes or sets to take first.
    Prefer = "prefer", Text;
    /// Nodes not to take.
    Avoid = "avoid", Text;
    /// Words of its owner, for its record.
    Comment = "comment", Text;
    /// An administrator's comment.
    AdminComment = "admin_comment", Text;
    /// Quality of service.
    Qos = "qos", Text;
    /// Key under which it is counted.
    Wckey = "wckey", Text;
    /// Licences, `name:count` with commas.
    Licenses = "licenses", Text;
    /// When it must be over.
    Deadline = "deadline", Time;
    /// Host that it was submitted from.
    SubmitHost = "submit_host", Text;
    /// Session that it was submitted in.
    SubmitSession = "submit_session", Number;
    /// Command line that it was submitted with.
    SubmitLine = "submit_line", Text;
    /// In which words it is spoken to: `cosy` or `slurm`.
    Dialect = "dialect", Text;
    /// Tasks on each node, as asked for.
    TasksPerNode = "tasks_per_node", Number;
    /// Cores of each task.
    CoresPerTask = "cores_per_task", Number;
    /// Memory for each core in MiB, when asked for in that way.
    MemoryPerCore = "memory_per_core_mib", Number;
    /// Memory on each node in MiB, when asked for in that way.
    MinMemoryPerNode = "min_memory_per_node_mib", Number;
    /// Scratch disk on each node in MiB, as asked for.
    MinDisk = "min_disk_mib", Number;
    /// Number of nodes as asked for; the least when `max_nodes` is there.
    MinNodes = "min_nodes", Number;
    /// Most nodes, as asked for.
    MaxNodes = "max_nodes", Number;
    /// Number of tasks as asked for.
    AskedTasks = "asked_tasks", Number;
    /// Nodes that it must get, as a host list.
    Require = "require", Text;
    /// Whole nodes.
    Exclusive = "exclusive", Flag;
    /// Sharing its cores with others was offered.
    Oversubscribe = "oversubscribe", Flag;
    /// Nodes side by side were asked for.
    Contiguous = "contiguous", Flag;
    /// GPUs and other countable resources on each node as asked for: `gpu:a100:2,fpga:1`.
    Gres = "gres", Text;
    /// Features asked for as one expression: `a&(b|c)`, `[rack1|rack2]`.
    Constraint = "constraint", Text;
    /// Attempts before the last.
    Restarts = "restarts", Number;
    /// It is a task that was changed and is not like the others of its array.
    Apart = "apart", Flag;
    /// The first of its nodes.
    BatchHost = "batch_host", Text;
    /// Largest exit code of its steps.
    DerivedExitCode = "derived_exit_code", Number;
    /// Signal of the step with that exit code.
    DerivedSignal = "derived_signal", Number;
    /// It has a script.
    Batch = "batch", Flag;
    /// Higher goes first; 0 when held. Slurm's number: 4294901760 less the id of the
    /// submission and its nice value, unless an administrator has given another.
    Priority = "priority", Number;
    /// Who holds it: `user`, `admin`, or nothing.
    HeldBy = "held_by", Text;
    /// What it waits for, with how each of them stands: `afterok:12_*(unfulfilled)`.
    DependencyText = "dependency_text", Text;
    /// Number of tasks by node: `4(x2),3`.
    TasksByNode = "tasks_by_node", Text;
    /// Number of cores by node: `4(x2),3`.
    CoresByNode = "cores_by_node", Text;
    /// Cores by number on each node: `n1:0-3;n2:0,2`.
    CoreIds = "core_ids", Text;
    /// GPUs by number on each node: `n1:0-3;n2:0,2`.
    GpuIds = "gpu_ids", Text;
    /// Indices of its array's tasks: `1-3,7%2`; those that wait, in a row for several of them.
    ArraySpecText = "array_spec", Text;
    /// Most tasks of its array at once.
    ArrayAtOnce = "array_at_once", Number;
    /// Resource limits: `NOFILE=1024:4096` (soft, hard) with commas.
    Rlimits = "rlimits", Text;
    /// `truncate` or `append`.
    OpenMode = "open_mode", Text;
    /// Changes that mail is sent about, with commas: `begin,end,fail,requeue`.
    MailTypes = "mail_types", Text;
    /// To whom.
    MailTo = "mail_to", Text;
    /// File mode mask.
    Umask = "umask", Number;
    /// Shortest useful time limit.
    TimeMin = "time_min", Span;
    /// Not before this time.
    Begin = "begin", Time;
    /// When it was given its nodes.
    Allocated = "allocated", Time;
    /// How long it was suspended in all.
    SuspendedFor = "suspended_for", Span;
    /// Since when it is suspended.
    SuspendedSince = "suspended_since", Time;
    /// When it gave nodes back last.
    Resized = "resized", Time;
    /// A command stays with it.
    Attended = "attended", Flag;
    /// Signal before its limit: `10@60`, with `B:` before it when only for the script.
    Warn = "warn", Text;
    /// It is ended when what it waits for can no longer happen.
    EndIfNever = "end_if_never", Flag;
    /// MPI plugin.
    Mpi = "mpi", Text;
    /// Queues that it may go to, with commas, while it waits and there are several.
    Queues = "queues", Text;
    /// Node sets in order.
    Sets = "sets", Text;
    /// Of a job of several parts, where each has a row of its own (as they have when this is
    /// asked for): which it is, from 0. Its id is then that of the part.
    Bundle = "bundle", Number;
    /// Of a job of several parts: how many.
    Bundles = "bundles", Number;
}

impl std::str::FromStr for JobField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|f| f.word() == text)
            .ok_or_else(|| {
                let words: Vec<_> = Self::ALL.iter().map(|f| f.word()).collect();
                format!("'{text}' is no field: use {}", words.join(", "))
            })
    }
}

/// A missing number in a column.
pub const NO_NUMBER: i64 = i64::MIN;

/// The values of one field for all rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// Numbers, times, lengths, flags; [`NO_NUMBER`] where there is none.
    Numbers(Vec<i64>),
    /// Texts, empty where there is none.
    Texts(Vec<String>),
    /// Texts that repeat: `words[at[row]]`.
    Words {
        /// Each text once.
        words: Vec<String>,
        /// Which word in which row.
        at: Vec<u32>,
    },
}

impl Column {
    /// Adds the values of another column of the same field.
    fn append(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Numbers(all), Self::Numbers(more)) => all.extend(more),
            (Self::Texts(all), Self::Texts(more)) => all.extend(more),
            (
                Self::Words { words, at },
                Self::Words {
                    words: new,
                    at: more,
                },
            ) => {
                let first = words.len() as u32;
                words.extend(new);
                at.extend(more.into_iter().map(|word| word + first));
            }
            (_, other) => {
                let mut texts = std::mem::replace(self, Self::Numbers(Vec::new())).into_texts();
                texts.extend(other.into_texts());
                *self = Self::Texts(texts);
            }
        }
    }

    /// Leaves out the values of some rows.
    fn keep(&mut self, rows: &[bool]) {
        fn keep<T>(values: &mut Vec<T>, rows: &[bool]) {
            let mut rows = rows.iter();
            values.retain(|_| rows.next().copied().unwrap_or(true));
        }
        match self {
            Self::Numbers(all) => keep(all, rows),
            Self::Texts(all) => keep(all, rows),
            Self::Words { at, .. } => keep(at, rows),
        }
    }

    /// Each row's own text; numbers have none.
    fn into_texts(self) -> Vec<String> {
        match self {
            Self::Numbers(all) => vec![String::new(); all.len()],
            Self::Texts(all) => all,
            Self::Words { words, at } => {
                let text = |word: &u32| words.get(*word as usize).cloned().unwrap_or_default();
                at.iter().map(text).collect()
            }
        }
    }
}

/// Rows of jobs, by column.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "SentTable")]
pub struct Table {
    /// The fields, one for each column.
    pub fields: Vec<JobField>,
    /// The columns; all have the same length.
    pub columns: Vec<Column>,
    /// Number of rows.
    pub rows: usize,
    /// Where the list goes on, when this is only a part of it. In history the parts come
    /// from the latest to the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<Cursor>,
    /// The column of each field, by the field's number: values are looked up by the million.
    #[serde(skip)]
    places: Vec<Option<u16>>,
}

/// A table as it is sent.
#[derive(Deserialize)]
struct SentTable {
    fields: Vec<JobField>,
    columns: Vec<Column>,
    rows: usize,
    #[serde(default)]
    more: Option<Cursor>,
}

impl From<SentTable> for Table {
    fn from(sent: SentTable) -> Self {
        Self {
            more: sent.more,
            ..Self::of(sent.fields, sent.columns, sent.rows)
        }
    }
}

/// One value of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// A number (time, length, flag: see [`FieldKind`]).
    Number(i64),
    /// A text.
    Text(&'a str),
    /// The row has no such value.
    Nothing,
}

impl Table {
    /// An empty table with those fields.
    pub fn new(fields: &[JobField]) -> Self {
        let column = |f: &JobField| match f.kind() {
            FieldKind::Text => Column::Texts(Vec::new()),
            FieldKind::Number | FieldKind::Time | FieldKind::Span | FieldKind::Flag => {
                Column::Numbers(Vec::new())
            }
        };
        let columns = fields.iter().map(column).collect();
        Self::of(fields.to_vec(), columns, 0)
    }

    /// A table of `columns`, one for each of `fields`, with so many rows.
    pub fn of(fields: Vec<JobField>, columns: Vec<Column>, rows: usize) -> Self {
        let mut places = vec![None; JobField::ALL.len()];
        for (at, field) in fields.iter().enumerate() {
            let place = &mut places[*field as usize];
            *place = place.or(u16::try_from(at).ok());
        }
        Self {
            fields,
            columns,
            rows,
            more: None,
            places,
        }
    }

    /// The same, which goes on there.
    #[must_use]
    pub const fn going_on(mut self, more: Option<Cursor>) -> Self {
        self.more = more;
        self
    }

    /// One table of the rows of several, in this order. All have the fields of the first;
    /// what is [`Table::more`] of the last stays.
    pub fn joined(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else {
            return Self::default();
        };
        for part in parts {
            all.rows += part.rows;
            all.more = part.more;
            for (column, more) in all.columns.iter_mut().zip(part.columns) {
                column.append(more);
            }
        }
        all
    }

    /// Leaves out the rows that are false in `rows`, which has one value for each.
    pub fn keep(&mut self, rows: &[bool]) {
        self.columns.iter_mut().for_each(|column| column.keep(rows));
        self.rows = rows.iter().filter(|kept| **kept).count();
    }

    /// Leaves out the columns of a field.
    pub fn without(&mut self, field: JobField) {
        let mut fields = self.fields.iter();
        self.columns.retain(|_| fields.next() != Some(&field));
        self.fields.retain(|other| *other != field);
        let more = self.more;
        let (fields, columns) = (
            std::mem::take(&mut self.fields),
            std::mem::take(&mut self.columns),
        );
        *self = Self::of(fields, columns, self.rows).going_on(more);
    }

    /// The value of `field` in `row`; [`Value::Nothing`] when it was not asked for.
    pub fn get(&self, row: usize, field: JobField) -> Value<'_> {
        let at = self.places.get(field as usize).copied().flatten();
        match at.and_then(|at| self.columns.get(usize::from(at))) {
            Some(Column::Numbers(v)) => match v.get(row) {
                Some(&n) if n != NO_NUMBER => Value::Number(n),
                _ => Value::Nothing,
            },
            Some(Column::Texts(v)) => v.get(row).map_or(Value::Nothing, |t| Value::Text(t)),
            Some(Column::Words { words, at }) => at
                .get(row)
                .and_then(|w| words.get(*w as usize))
                .map_or(Value::Nothing, |t| Value::Text(t)),
            None => Value::Nothing,
        }
    }

    /// The text of `field` in `row`, empty without.
    pub fn text(&self, row: usize, field: JobField) -> &str {
        match self.get(row, field) {
            Value::Text(t) => t,
            Value::Number(_) | Value::Nothing => "",
        }
    }

    /// The number of `field` in `row`.
    pub fn number(&self, row: usize, field: JobField) -> Option<i64> {
        match self.get(row, field) {
            Value::Number(n) => Some(n),
            Value::Text(_) | Value::Nothing => None,
        }
    }

    /// True when all columns have `rows` values: for tables that came from outside.
    pub fn is_sound(&self) -> bool {
        self.fields.len() == self.columns.len()
            && self.columns.iter().all(|c| match c {
                Column::Numbers(v) => v.len() == self.rows,
                Column::Texts(v) => v.len() == self.rows,
                Column::Words { words, at } => {
                    at.len() == self.rows && at.iter().all(|w| (*w as usize) < words.len())
                }
            })
    }
}

/// A new job or job array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// What is asked for.
    pub spec: JobSpec,
    /// The script's text; empty for a command.
    pub script: OsText,
    /// Makes it an array.
    #[serde(default)]
    pub array: Option<ArraySpec>,
}

/// Changes of a job; what is `None` stays. Of a job that runs only the time limit (its
/// owner: only shorter), name, comment, account, quality of service, key, and whether it
/// runs again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobChange {
    /// Name for lists and mail.
    pub name: Option<String>,
    /// Queue to go to.
    pub queue: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Words of the owner, for the record.
    pub comment: Option<String>,
    /// An administrator's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_comment: Option<String>,
    /// Time limit.
    pub time_limit: Option<Span>,
    /// Number of nodes.
    pub nodes: Option<u32>,
    /// Number of tasks.
    pub tasks: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: Option<u32>,
    /// Memory, anew.
    pub memory: Option<MemoryRequest>,
    /// Begin time.
    pub begin: Option<Time>,
    /// Nice value; below 0 only for administrators.
    pub nice: Option<i64>,
    /// Whether it runs again after a node was lost.
    pub requeue: Option<bool>,
    /// Features that each node must have, all of them anew.
    pub features: Option<Vec<String>>,
    /// Nodes to take first.
    pub prefer: Option<Vec<String>>,
    /// Nodes not to take.
    pub avoid: Option<Vec<String>>,
    /// Node sets in order.
    pub sets: Option<Vec<String>>,
    /// Dependencies, all of them anew.
    pub dependencies: Option<Vec<crate::Dependency>>,
    /// Most array tasks at once; 0 is no limit.
    pub at_once: Option<u32>,
    /// Quality of service; empty is none.
    pub qos: Option<String>,
    /// Key; empty is none.
    pub wckey: Option<String>,
    /// Licences, all of them anew.
    pub licenses: Option<crate::Counted>,
    /// Latest end, which has to leave room for the time limit.
    pub deadline: Option<Time>,
    /// Priority: 0 holds, another number is for administrators.
    pub priority: Option<u32>,
    /// Shortest useful time limit.
    pub time_min: Option<Span>,
    /// Nodes that it must get.
    pub require: Option<Vec<String>>,
    /// Whole nodes.
    pub exclusive: Option<bool>,
    /// Most nodes.
    pub max_nodes: Option<u32>,
    /// Most tasks on one node.
    pub tasks_per_node: Option<u32>,
    /// Scratch disk on each node.
    pub disk_per_node: Option<crate::MiB>,
    /// GPUs on each node.
    pub gpus_per_node: Option<u32>,
    /// Other countable resources on each node, all of them anew.
    pub other_per_node: Option<crate::Counted>,
    /// Groups of features of which one must be there.
    pub any_features: Option<Vec<Vec<String>>>,
    /// Groups of features of which all nodes have the same.
    pub same_features: Option<Vec<Vec<String>>>,
    /// Numbers of nodes that have certain features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_features: Option<Vec<crate::job::CountedFeatures>>,
    /// Whether one dependency is enough.
    pub any_dependency: Option<bool>,
    /// Reservation that it runs in.
    pub reservation: Option<ReservationId>,
    /// Pattern of the output file.
    pub stdout: Option<OsText>,
    /// Pattern of the error file.
    pub stderr: Option<OsText>,
    /// Pattern of the input file.
    pub stdin: Option<OsText>,
    /// Working directory.
    pub workdir: Option<OsText>,
    /// Mail, all of it anew.
    pub mail: Option<crate::job::MailRequest>,
    /// The nodes that a running job keeps; it gives the others back. `nodes` of a running job
    /// says how many, the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_nodes: Option<Vec<String>>,
}

/// What to do with nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeAction {
    /// Start nothing new there.
    Drain {
        /// The reason in words, as it is shown.
        reason: String,
    },
    /// Take it into service again.
    Resume,
    /// Give it and its jobs up.
    Down {
        /// The reason in words, as it is shown.
        reason: String,
    },
    /// Its key is never accepted again: its link is closed, it and its jobs are given up, and
    /// it must join anew with another key.
    Revoke {
        /// The reason in words, as it is shown.
        reason: String,
    },
    /// It has these features, until the configuration is read anew.
    Features {
        /// All of them.
        names: Vec<String>,
    },
}

/// What a command asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Whether the controller is there, and of which version.
    Ping,
    /// How long requests hold the controller up. Answer: [`Reply::Meter`].
    Meter,
    /// A new job. Answer: [`Reply::Submitted`].
    Submit(Box<Submission>),
    /// A new job that its command stays with (its program is `Program::Allocation`).
    /// Answer: [`Reply::Allocated`] when it starts at once, else [`Reply::Submitted`]; the
    /// connection attends to the job from then on.
    Allocate(Box<Submission>),
    /// Attends to an own allocation; answered when it starts ([`Reply::Allocated`], unless
    /// `started`), when it ends ([`Reply::Ended`]), or, once it has started, when there is
    /// something to tell its user ([`Reply::Said`]). When the last connection that
    /// attends to a job with `attended` closes, the job ends.
    Attend {
        /// The job that is meant; no array.
        job: JobId,
        /// The command knows that it has started: only its end is told.
        started: bool,
    },
    /// Gives an own allocation back with the exit code and signal of what ran in it.
    /// Answer: [`Reply::Done`].
    Finish {
        /// The job that is meant; no array.
        job: JobId,
        /// Exit code.
        exit_code: i32,
        /// Signal, 0 without.
        signal: i32,
    },
    /// How an own running job's first node is reached. Answer: [`Reply::Entry`].
    Entry {
        /// The job that is meant; no array.
        job: JobId,
    },
    /// Ended steps of jobs, from the store. Answer: [`Reply::Steps`], or [`Reply::StepsPage`]
    /// where pages are asked for.
    Steps {
        /// Jobs, arrays, and tasks of arrays.
        jobs: Vec<JobRef>,
        /// The answer may be a part, with the place where it goes on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pages: bool,
        /// Go on there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<StepCursor>,
    },
    /// Ends jobs, or sends a signal to running ones. Answer: [`Reply::Done`].
    Cancel {
        /// Which; an empty filter is refused.
        filter: JobFilter,
        /// Send this signal instead of ending them.
        signal: Option<i32>,
        /// The signal goes only to the script itself.
        script_only: bool,
        /// The signal goes to the steps and not to the script.
        #[serde(default)]
        steps_only: bool,
    },
    /// Holds waiting jobs. An administrator's hold is one that only administrators end,
    /// unless `as_user`. Answer: [`Reply::Done`].
    Hold {
        /// The jobs that are meant.
        filter: JobFilter,
        /// As their user would.
        #[serde(default)]
        as_user: bool,
    },
    /// Lets held jobs go. Answer: [`Reply::Done`].
    Release {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Puts running jobs, and ended ones that are still remembered, back into the queue.
    /// Answer: [`Reply::Done`].
    Requeue {
        /// The jobs that are meant.
        filter: JobFilter,
        /// They are held there.
        #[serde(default)]
        hold: bool,
        /// They are held there with a mark that they ended in a special way.
        #[serde(default)]
        special: bool,
    },
    /// Stops running jobs for a while; they keep their nodes (administrators). Answer:
    /// [`Reply::Done`].
    Suspend {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Lets suspended jobs run on (administrators). Answer: [`Reply::Done`].
    Resume {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Tells running jobs something: it stands in the error output of their scripts, or of the
    /// commands that stay with them. Answer: [`Reply::Done`].
    Notify {
        /// The jobs that are meant.
        filter: JobFilter,
        /// One line.
        text: String,
    },
    /// Puts waiting jobs before the other waiting jobs of their users. Answer:
    /// [`Reply::Done`].
    Top {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Changes jobs. Answer: [`Reply::Done`].
    Change {
        /// The jobs that are meant.
        filter: JobFilter,
        /// What becomes of them.
        change: Box<JobChange>,
    },
    /// Jobs that wait, run, or ended moments ago. Answer: [`Reply::Jobs`].
    Jobs {
        /// The jobs that are meant.
        filter: JobFilter,
        /// Columns of the answer, in this order.
        fields: Vec<JobField>,
        /// Waiting tasks of one array in one row.
        fold_arrays: bool,
    },
    /// One job whole, also one that ended long ago. Answer: [`Reply::Explained`].
    Explain {
        /// A job, an array, or a task of one.
        job: JobRef,
    },
    /// Ended and running jobs out of the store. Answer: [`Reply::Jobs`].
    History {
        /// The jobs that are meant.
        filter: JobFilter,
        /// Columns of the answer, in this order.
        fields: Vec<JobField>,
    },
    /// The script of a job. Answer: [`Reply::Script`].
    Script {
        /// A job, an array, or a task of one.
        job: JobRef,
    },
    /// Answered when all these jobs have ended. Answer: [`Reply::Ended`].
    Wait {
        /// Jobs, arrays, and tasks of arrays.
        jobs: Vec<JobRef>,
    },
    /// All queues. Answer: [`Reply::Queues`].
    Queues,
    /// All nodes. Answer: [`Reply::Nodes`].
    Nodes,
    /// A new trigger: of an own job, or an administrator's. Answer: [`Reply::TriggerSet`].
    SetTrigger(Box<TriggerSpec>),
    /// Removes triggers that all of this fits; naming nothing is refused. Answer:
    /// [`Reply::Done`].
    ClearTriggers {
        /// This one.
        id: Option<TriggerId>,
        /// Those of this job.
        job: Option<JobId>,
        /// Those of this user.
        uid: Option<Uid>,
    },
    /// All triggers that the caller may see. Answer: [`Reply::Triggers`].
    Triggers,
    /// How the cluster is set up. Answer: [`Reply::Settings`].
    Settings,
    /// Drains, resumes or gives up nodes (administrators). Answer: [`Reply::Done`].
    NodeControl {
        /// Names, expanded.
        nodes: Vec<String>,
        /// What to do.
        action: NodeAction,
    },
    /// Opens or closes a queue (administrators). Answer: [`Reply::Done`].
    QueueControl {
        /// Name of the queue.
        queue: String,
        /// Its new state.
        state: QueueState,
    },
    /// Makes a queue at run time, or changes one (administrators). Answer: [`Reply::Done`].
    SetQueue {
        /// All of it, its state too.
        spec: Box<QueueSpec>,
        /// Whether it must be new, or must be there already.
        new: bool,
        /// Whether it becomes the default queue.
        default: bool,
    },
    /// Takes a queue away at run time (administrators). Answer: [`Reply::Done`].
    DeleteQueue {
        /// Name of the queue.
        queue: String,
    },
    /// Reads the configuration again (administrators). Answer: [`Reply::Done`].
    Reload,
    /// A one-time token with which a host joins (administrators). Answer: [`Reply::Token`].
    JoinToken {
        /// Name of the node that may join with it.
        node: String,
        /// How long it is good for.
        valid: Span,
    },
    /// What happened, from a cursor on. Answer: [`Reply::Events`].
    Events {
        /// Number of the last event seen; 0 from the start.
        after: u64,
        /// At most so many.
        most: u32,
        /// The latest ones instead of the first.
        #[serde(default)]
        latest: bool,
    },
    /// What a reservation would cost and whom it would delay. Nothing is kept. Answer:
    /// [`Reply::Quote`].
    Quote {
        /// What is asked for.
        ask: Box<Ask>,
        /// At most so many candidate slots; as configured without.
        most: Option<u32>,
    },
    /// A reservation, held or booked at once. Answer: [`Reply::Reserved`].
    Reserve {
        /// What is asked for.
        ask: Box<Ask>,
        /// Only held, to be confirmed later (COSY, 3.2 "Two phase commitment").
        hold: bool,
        /// A script that starts with it.
        job: Option<Box<Submission>>,
    },
    /// Makes a held reservation final. Answer: [`Reply::Reserved`].
    Confirm {
        /// The reservation that is meant.
        id: ReservationId,
    },
    /// Gives reservations back. Answer: [`Reply::Done`].
    CancelReservation {
        /// The reservations that are meant.
        ids: Vec<ReservationId>,
        /// Those of the same series that have not begun, too.
        series: bool,
    },
    /// Makes a reservation longer. Answer: [`Reply::Reserved`].
    ExtendReservation {
        /// The reservation that is meant.
        id: ReservationId,
        /// By how much.
        by: Span,
        /// Refused when that would cost more.
        max_price: Option<crate::Su>,
    },
    /// Makes a reservation shorter that nothing was paid for. Answer: [`Reply::Reserved`].
    ShortenReservation {
        /// The reservation that is meant.
        id: ReservationId,
        /// Its new end.
        end: Time,
    },
    /// Changes who may use a reservation. Answer: [`Reply::Reserved`].
    ShareReservation {
        /// The reservation that is meant.
        id: ReservationId,
        /// Who comes and who leaves.
        change: Box<crate::reservation::SharingChange>,
    },
    /// Reservations. Answer: [`Reply::Reservations`].
    Reservations {
        /// The reservations that are meant.
        filter: ReservationFilter,
    },
    /// What a workflow's plan would be. Nothing is kept. Answer: [`Reply::FlowPlan`].
    PlanFlow {
        /// What is asked for.
        spec: Box<FlowSpec>,
    },
    /// A workflow: with a deadline, all slots of its plan are held or booked, or none is;
    /// without one, all its jobs are submitted, or none is. Answer: [`Reply::Flow`].
    SubmitFlow {
        /// What is asked for.
        spec: Box<FlowSpec>,
        /// Only held, to be confirmed later.
        hold: bool,
    },
    /// Makes a held workflow final: its tasks start when their time comes. Answer:
    /// [`Reply::Flow`].
    ConfirmFlow {
        /// The workflow that is meant.
        id: FlowId,
    },
    /// Gives workflows up: what runs is ended, what has not begun is given back. Answer:
    /// [`Reply::Done`].
    CancelFlow {
        /// The workflows that are meant.
        ids: Vec<FlowId>,
    },
    /// Workflows. Answer: [`Reply::Flows`].
    Flows {
        /// The workflows that are meant.
        filter: FlowFilter,
    },
    /// The plan as a Gantt chart. Answer: [`Reply::PlanChart`].
    PlanChart {
        /// Only what begins before.
        until: Option<Time>,
        /// At most so many waiting jobs.
        most: u32,
    },
    /// Accounts. Answer: [`Reply::Accounts`].
    Accounts {
        /// Names; all that the user may charge when empty.
        names: Vec<String>,
    },
    /// Makes, funds, changes or removes an account (administrators). Answer:
    /// [`Reply::Done`].
    AccountControl {
        /// Name of the account.
        name: String,
        /// What to do.
        action: AccountAction,
    },
    /// Lines of the ledger, by number. Answer: [`Reply::Ledger`].
    Ledger {
        /// Only of this account.
        account: Option<String>,
        /// Only of this reservation.
        reservation: Option<ReservationId>,
        /// Number of the last line seen; 0 from the start.
        after: u64,
        /// At most so many.
        most: u32,
    },
}

impl Request {
    /// Its kind in one word, as it travels.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Meter => "meter",
            Self::Submit(_) => "submit",
            Self::Allocate(_) => "allocate",
            Self::Attend { .. } => "attend",
            Self::Finish { .. } => "finish",
            Self::Entry { .. } => "entry",
            Self::Steps { .. } => "steps",
            Self::Cancel { .. } => "cancel",
            Self::Hold { .. } => "hold",
            Self::Release { .. } => "release",
            Self::Requeue { .. } => "requeue",
            Self::Suspend { .. } => "suspend",
            Self::Resume { .. } => "resume",
            Self::Notify { .. } => "notify",
            Self::Top { .. } => "top",
            Self::Change { .. } => "change",
            Self::Jobs { .. } => "jobs",
            Self::Explain { .. } => "explain",
            Self::History { .. } => "history",
            Self::Script { .. } => "script",
            Self::Wait { .. } => "wait",
            Self::Queues => "queues",
            Self::Nodes => "nodes",
            Self::SetTrigger(_) => "set_trigger",
            Self::ClearTriggers { .. } => "clear_triggers",
            Self::Triggers => "triggers",
            Self::Settings => "settings",
            Self::NodeControl { .. } => "node_control",
            Self::QueueControl { .. } => "queue_control",
            Self::SetQueue { .. } => "set_queue",
            Self::DeleteQueue { .. } => "delete_queue",
            Self::Reload => "reload",
            Self::JoinToken { .. } => "join_token",
            Self::Events { .. } => "events",
            Self::Quote { .. } => "quote",
            Self::Reserve { .. } => "reserve",
            Self::Confirm { .. } => "confirm",
            Self::CancelReservation { .. } => "cancel_reservation",
            Self::ExtendReservation { .. } => "extend_reservation",
            Self::ShortenReservation { .. } => "shorten_reservation",
            Self::ShareReservation { .. } => "share_reservation",
            Self::Reservations { .. } => "reservations",
            Self::PlanFlow { .. } => "plan_flow",
            Self::SubmitFlow { .. } => "submit_flow",
            Self::ConfirmFlow { .. } => "confirm_flow",
            Self::CancelFlow { .. } => "cancel_flow",
            Self::Flows { .. } => "flows",
            Self::PlanChart { .. } => "plan_chart",
            Self::Accounts { .. } => "accounts",
            Self::AccountControl { .. } => "account_control",
            Self::Ledger { .. } => "ledger",
        }
    }

    /// True when it changes something and so carries a key.
    pub const fn changes(&self) -> bool {
        match self {
            Self::Submit(_)
            | Self::Allocate(_)
            | Self::Finish { .. }
            | Self::Cancel { .. }
            | Self::Hold { .. }
            | Self::Release { .. }
            | Self::Requeue { .. }
            | Self::Suspend { .. }
            | Self::Resume { .. }
            | Self::Notify { .. }
            | Self::Top { .. }
            | Self::Change { .. }
            | Self::NodeControl { .. }
            | Self::QueueControl { .. }
            | Self::SetQueue { .. }
            | Self::DeleteQueue { .. }
            | Self::Reload
            | Self::JoinToken { .. }
            | Self::Reserve { .. }
            | Self::Confirm { .. }
            | Self::CancelReservation { .. }
            | Self::ExtendReservation { .. }
            | Self::ShortenReservation { .. }
            | Self::ShareReservation { .. }
            | Self::SubmitFlow { .. }
            | Self::ConfirmFlow { .. }
            | Self::CancelFlow { .. }
            | Self::SetTrigger(_)
            | Self::ClearTriggers { .. }
            | Self::AccountControl { .. } => true,
            Self::Ping
            | Self::Meter
            | Self::Attend { .. }
            | Self::Entry { .. }
            | Self::Steps { .. }
            | Self::Jobs { .. }
            | Self::Explain { .. }
            | Self::History { .. }
            | Self::Script { .. }
            | Self::Wait { .. }
            | Self::Queues
            | Self::Nodes
            | Self::Settings
            | Self::Triggers
            | Self::Events { .. }
            | Self::Quote { .. }
            | Self::Reservations { .. }
            | Self::PlanFlow { .. }
            | Self::Flows { .. }
            | Self::PlanChart { .. }
            | Self::Accounts { .. }
            | Self::Ledger { .. } => false,
        }
    }

    /// True when a program inside a job may need it: to look, and to submit and steer jobs.
    /// A node that is no login host passes on nothing else, so that its key is worth no
    /// more: no bookings, no money, no scripts of other jobs, nothing of administrators.
    pub const fn is_of_jobs(&self) -> bool {
        match self {
            Self::Ping
            | Self::Submit(_)
            | Self::Allocate(_)
            | Self::Attend { .. }
            | Self::Finish { .. }
            | Self::Entry { .. }
            | Self::Cancel { .. }
            | Self::Hold { .. }
            | Self::Release { .. }
            | Self::Requeue { .. }
            | Self::Suspend { .. }
            | Self::Resume { .. }
            | Self::Notify { .. }
            | Self::Top { .. }
            | Self::Change { .. }
            | Self::Jobs { .. }
            | Self::Explain { .. }
            | Self::Steps { .. }
            | Self::History { .. }
            | Self::Wait { .. }
            | Self::Queues
            | Self::Nodes
            | Self::Settings
            | Self::Triggers
            | Self::SetTrigger(_)
            | Self::ClearTriggers { .. }
            | Self::Quote { .. }
            | Self::Reservations { .. }
            | Self::PlanFlow { .. }
            | Self::Flows { .. }
            | Self::CancelFlow { .. }
            | Self::PlanChart { .. }
            | Self::Meter
            | Self::Accounts { .. } => true,
            Self::SubmitFlow { spec, .. } => spec.deadline.is_none(),
            Self::Script { .. }
            | Self::Events { .. }
            | Self::Ledger { .. }
            | Self::Reserve { .. }
            | Self::Confirm { .. }
            | Self::CancelReservation { .. }
            | Self::ExtendReservation { .. }
            | Self::ShortenReservation { .. }
            | Self::ShareReservation { .. }
            | Self::ConfirmFlow { .. }
            | Self::AccountControl { .. }
            | Self::NodeControl { .. }
            | Self::QueueControl { .. }
            | Self::SetQueue { .. }
            | Self::DeleteQueue { .. }
            | Self::Reload
            | Self::JoinToken { .. } => false,
        }
    }
}

/// Kind of a whole turn of the controller, with its end and all that was decided in it, in the
/// meter.
pub const WHOLE_TURN: &str = "whole turn";

/// Times by which turns of the controller are counted, in milliseconds.
pub const TURN_BOUNDS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// How long one kind of request, or of anything else that happens, holds others up. All
/// since the controller was started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MeterRow {
    /// Which kind: [`Request::kind`], or another word.
    pub kind: String,
    /// How often.
    pub count: u64,
    /// Longest time in one turn of the controller, in microseconds.
    pub longest_turn_us: u64,
    /// Whose that was; for administrators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_turn_of: Option<Uid>,
    /// Time in turns altogether, in microseconds.
    pub turns_us: u64,
    /// How many turns took at most as long as each of [`TURN_BOUNDS_MS`] and longer than the
    /// one before; the last are all longer ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_counts: Vec<u64>,
    /// Longest time that the controller's thread was at work in one turn, in microseconds: less
    /// than the turn where it waited for a processor.
    #[serde(default)]
    pub longest_cpu_us: u64,
    /// Whose that was; for administrators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_cpu_of: Option<Uid>,
    /// Time at work in turns altogether, in microseconds.
    #[serde(default)]
    pub cpu_us: u64,
    /// As `turn_counts`, by the time at work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_counts: Vec<u64>,
    /// Longest read of the store, in microseconds.
    pub longest_read_us: u64,
    /// Whose that was; for administrators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_read_of: Option<Uid>,
}

/// How much of what is limited is in use now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BudgetRow {
    /// Of what.
    pub what: String,
    /// In use.
    pub used: u64,
    /// Most that there was since the controller was started.
    pub peak: u64,
    /// Limit of one user.
    pub per_user: u64,
    /// Limit of all users together, the reserve for administrators beside it.
    pub in_all: u64,
    /// How often somebody was refused.
    pub refused: u64,
}

/// A queue as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueueInfo {
    /// As configured; the state is the present one.
    pub spec: crate::QueueSpec,
    /// True for the default queue.
    pub default: bool,
    /// Waiting jobs.
    pub waiting: u32,
    /// Running jobs.
    pub running: u32,
    /// Nodes in all.
    pub nodes: u32,
    /// Nodes that can take jobs.
    pub nodes_up: u32,
    /// Cores in all, and held by jobs of any queue.
    pub cores: u32,
    /// Cores held.
    pub cores_used: u32,
    /// The asking user's level.
    pub your_level: crate::AccessLevel,
}

/// A node as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Name as in the configuration.
    pub name: String,
    /// What it does, in one word: `cosy_view::node::NodeCondition` has them all.
    pub state: String,
    /// Why it is drained or down.
    pub reason: String,
    /// Who said so, where somebody did.
    #[serde(default)]
    pub reason_by: String,
    /// When it began; unknown in what earlier releases wrote.
    #[serde(default)]
    pub reason_since: Option<Time>,
    /// What it has.
    pub amounts: Amounts,
    /// What jobs hold of it.
    pub used: Amounts,
    /// Words that jobs may ask nodes for.
    pub features: Vec<String>,
    /// Queues that it is in.
    pub queues: Vec<String>,
    /// Number of jobs on it.
    pub jobs: u32,
    /// Cosy version of its daemon, empty while unknown.
    pub version: String,
    /// When it was last heard of.
    pub last_seen: Option<Time>,
    /// By how many milliseconds its clock is ahead of the controller's, behind if less than
    /// zero; `None` while its daemon has not told.
    #[serde(default)]
    pub skew_ms: Option<i64>,
    /// The machine under it, as far as its daemon tells.
    #[serde(default)]
    pub machine: crate::node::Machine,
    /// Types of its GPUs, by number.
    #[serde(default)]
    pub gpu_types: Vec<String>,
    /// Cores that jobs hold, by number.
    #[serde(default)]
    pub cores_held: Vec<u32>,
    /// GPUs that jobs hold, by number.
    #[serde(default)]
    pub gpus_held: Vec<u32>,
}

/// How a job that was waited for has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndedJob {
    /// The job, or the task of an array.
    pub job: JobRef,
    /// How it ended.
    pub state: JobState,
    /// Exit code.
    pub exit_code: i32,
    /// Signal that ended its script; 0 for none.
    pub signal: i32,
    /// What there is to say of it: which of its nodes was lost, say. Empty without.
    #[serde(default)]
    pub note: String,
}

/// Where a list of steps goes on. Commands hand it back as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepCursor {
    /// Its jobs; history goes on there.
    pub jobs: Cursor,
    /// The last of those before, of which some steps are told: its attempt, and the number of that
    /// attempt's records up to which all are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<(JobId, crate::Attempt, u64)>,
}

/// An ended step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepRow {
    /// Its job as users name it.
    pub job: JobRef,
    /// Attempt of the job that the step belongs to.
    pub attempt: crate::Attempt,
    /// What is kept of it.
    pub record: crate::step::StepRecord,
}

/// Something that happened, out of the event table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// Its number; ever growing.
    pub seq: u64,
    /// Time on the wall's clock.
    pub at: Time,
    /// What, in one word.
    pub what: String,
    /// Who: user name, `node NAME`, or `controller`.
    pub who: String,
    /// Which object: `job 12`, `node n1`, `queue day`.
    pub object: String,
    /// The rest in words.
    pub detail: String,
}

/// What the controller answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It was refused; nothing was changed.
    Refused(Refusal),
    /// To [`Request::Ping`].
    Pong {
        /// Name of the cluster.
        cluster: String,
        /// Version of the controller.
        version: String,
        /// Its time.
        now: Time,
        /// For administrators: what is set aside and why, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        set_aside: Vec<String>,
    },
    /// To [`Request::Meter`].
    Meter {
        /// By kind, those that hold up longest first.
        kinds: Vec<MeterRow>,
        /// What is limited.
        budgets: Vec<BudgetRow>,
    },
    /// The job is durable.
    Submitted {
        /// Its id, or the first of the array.
        job: JobId,
        /// Number of array tasks; 0 when it is no array.
        tasks: u32,
        /// Something the user should know (one line), or empty.
        note: String,
    },
    /// The allocation is there.
    Allocated {
        /// Its first node and how to reach it.
        entry: crate::step::Entry,
        /// Its latest end; `None` without.
        until: Option<Time>,
        /// Variables for what runs in it, `NAME=value` separated by NUL.
        variables: OsText,
    },
    /// To [`Request::Entry`].
    Entry(crate::step::Entry),
    /// Ended steps, by job and step.
    Steps(Vec<StepRow>),
    /// Some steps, by job from the latest job on, and where the rest is.
    StepsPage {
        /// The steps; jobs in the order of their ids.
        rows: Vec<StepRow>,
        /// The list goes on there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<StepCursor>,
    },
    /// What was asked for is done.
    Done {
        /// Number of objects changed.
        changed: u64,
        /// Objects that were named but could not be changed, and why.
        refused: Vec<(String, Refusal)>,
    },
    /// Rows of jobs, live or ended.
    Jobs(Table),
    /// One job (a row for each task) with all fields.
    Explained {
        /// All fields.
        table: Table,
        /// Sentences: why it waits, what is before it.
        lines: Vec<String>,
    },
    /// A script.
    Script(OsText),
    /// The jobs that were waited for.
    Ended(Vec<EndedJob>),
    /// What somebody tells the user of a job: see [`Request::Notify`].
    Said(String),
    /// All queues that the caller may see.
    Queues(Vec<QueueInfo>),
    /// The nodes that were asked for.
    Nodes(Vec<NodeInfo>),
    /// The trigger is durable.
    TriggerSet(TriggerId),
    /// Triggers, by number.
    Triggers(Vec<TriggerInfo>),
    /// How the cluster is set up.
    Settings(Box<crate::Settings>),
    /// A token for `noded join`.
    Token(String),
    /// Events, oldest first.
    Events(Vec<HistoryEvent>),
    /// A quote.
    Quote(Box<Quote>),
    /// Reservations that were held, booked, confirmed or changed.
    Reserved {
        /// Each with its id, by start.
        reservations: Vec<ReservationInfo>,
        /// Starts of a repeating reservation that were not possible, and why.
        conflicts: Vec<(Time, Refusal)>,
        /// Something the user should know (one line), or empty.
        note: String,
    },
    /// Reservations that the caller may see.
    Reservations(Vec<ReservationInfo>),
    /// A workflow's plan.
    FlowPlan(Box<FlowPlan>),
    /// A workflow that was held, booked, submitted or confirmed, with its tasks.
    Flow(Box<FlowInfo>),
    /// Workflows that the caller may see.
    Flows(Vec<FlowInfo>),
    /// A chart of the plan.
    PlanChart(Box<PlanChart>),
    /// Accounts that the caller may see.
    Accounts(Vec<AccountInfo>),
    /// Lines of the ledger.
    Ledger(Vec<LedgerEntry>),
}

impl Reply {
    /// The same with no more refusals than an answer has: see [`crate::Refusals`].
    #[must_use]
    pub fn short(self) -> Self {
        match self {
            Self::Done { changed, refused } if refused.len() > limits::REFUSALS + 1 => Self::Done {
                changed,
                refused: crate::Refusals::from(refused).told(),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_refs() {
        let check = |text: &str, want: Option<(u64, Option<u32>)>| {
            let got = text.parse::<JobRef>().ok().map(|r| (r.job.0, r.task));
            assert_eq!(got, want, "{text}");
        };
        check("12", Some((12, None)));
        check("12_3", Some((12, Some(3))));
        check("0", None);
        check("", None);
        check("-1", None);
        check("12_", None);
        check("12_x", None);
        check("99999999999999999999", None);
    }

    #[test]
    fn fields_have_words() {
        for f in JobField::ALL {
            assert_eq!(f.word().parse::<JobField>().as_ref(), Ok(f));
        }
    }
}
