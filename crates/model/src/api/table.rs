//! Fields of jobs and tables of them: every field once, and its values by column.

use super::filter::Cursor;
use serde::{Deserialize, Serialize};

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
    /// A count or an id.
    Number,
    /// An amount in bytes.
    Bytes,
    /// Memory in MiB; 0 is unlimited.
    Mebibytes,
    /// Processor time in microseconds.
    CpuTime,
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
    /// Login name of its owner.
    User = "user", Text;
    /// User id of its owner.
    Uid = "uid", Number;
    /// Primary group of its owner.
    Gid = "gid", Number;
    /// Account that it charges.
    Account = "account", Text;
    /// Queue that it is in.
    Queue = "queue", Text;
    /// Its state as one of the words of [`crate::JobState`].
    State = "state", Text;
    /// Why it waits, or why it ended as it did.
    Reason = "reason", Text;
    /// When it was submitted.
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
    /// Longest run time of the attempt.
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
    MemoryPerNode = "memory_per_node_mib", Mebibytes;
    /// GPUs held in all, or asked for.
    Gpus = "gpus", Number;
    /// Exit code of its program; 0 when a signal ended it.
    ExitCode = "exit_code", Number;
    /// Signal that ended it.
    Signal = "signal", Number;
    /// User CPU time in microseconds.
    UserCpu = "user_cpu_us", CpuTime;
    /// System CPU time in microseconds.
    SystemCpu = "system_cpu_us", CpuTime;
    /// Peak memory in bytes.
    PeakMemory = "peak_memory_bytes", Bytes;
    /// Its share of the energy that its nodes took, in joules: an estimate.
    Energy = "energy_joules", Number;
    /// Per mille of the time in which something ran on its GPUs, on average over them.
    GpuBusy = "gpu_busy_permille", Number;
    /// Most memory of its GPUs that was in use on one node, in bytes.
    GpuMemory = "gpu_memory_bytes", Bytes;
    /// Number of the last attempt.
    Attempt = "attempt", Number;
    /// Place in the order of the queue, from 1.
    Place = "place", Number;
    /// Nice value: jobs with higher ones are served later.
    Nice = "nice", Number;
    /// True when it runs again after a node was lost.
    Requeue = "requeue", Flag;
    /// Other jobs that it waits for, and what must happen to them.
    Dependencies = "dependencies", Text;
    /// Reservation that it runs in.
    Reservation = "reservation", Number;
    /// Its program, or the name of its script, with arguments; empty for an allocation.
    Command = "command", Text;
    /// Working directory: an absolute path on the nodes.
    Workdir = "workdir", Text;
    /// File that standard output goes to.
    Stdout = "stdout", Text;
    /// File that standard error goes to.
    Stderr = "stderr", Text;
    /// File that standard input comes from.
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
    /// True when it gets whole nodes.
    Exclusive = "exclusive", Flag;
    /// Sharing its cores with others was offered.
    Oversubscribe = "oversubscribe", Flag;
    /// It gets nodes side by side.
    Contiguous = "contiguous", Flag;
    /// Most switches that its nodes hang on.
    MaxSwitches = "max_switches", Number;
    /// Its nodes are in groups of so many on one switch each.
    Segment = "segment", Number;
    /// How long it waits for them once it could start.
    SwitchWait = "switch_wait", Span;
    /// GPUs and other countable resources on each node as asked for: `gpu:a100:2,fpga:1`.
    Gres = "gres", Text;
    /// Features asked for as one expression: `a&(b|c)`, `[rack1|rack2]`.
    Constraint = "constraint", Text;
    /// Attempts before the last.
    Restarts = "restarts", Number;
    /// True for a task that was changed and is not like the others of its array.
    Apart = "apart", Flag;
    /// The first of its nodes.
    BatchHost = "batch_host", Text;
    /// Largest exit code of its steps.
    DerivedExitCode = "derived_exit_code", Number;
    /// Signal of the step with that exit code.
    DerivedSignal = "derived_signal", Number;
    /// True when it has a script.
    Batch = "batch", Flag;
    /// Higher goes first; 0 when held. Slurm's number: 4294901760 less the id of the
    /// submission and its nice value, unless an administrator has given another. Of waiting and
    /// running jobs of a queue that orders by weights the weighted sum, by fair share the rank of
    /// the user.
    Priority = "priority", Number;
    /// What its priority is made of, where its queue orders by more than dates and it waits for its
    /// turn, in billionths: `age=0,fair_share=250000000,site=0,cpu=125000000`.
    PriorityFactors = "priority_factors", Text;
    /// By whom it is held: `user`, `admin`, or nothing.
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
    /// Address that mail about it goes to.
    MailTo = "mail_to", Text;
    /// File mode mask.
    Umask = "umask", Number;
    /// Shortest useful time limit.
    TimeMin = "time_min", Span;
    /// Time before which it does not start.
    Begin = "begin", Time;
    /// When it was given its nodes.
    Allocated = "allocated", Time;
    /// How long it was suspended in all.
    SuspendedFor = "suspended_for", Span;
    /// Since when it is suspended.
    SuspendedSince = "suspended_since", Time;
    /// When it gave nodes back last.
    Resized = "resized", Time;
    /// Of its nodes so many stand by for lost ones.
    Spares = "spares", Number;
    /// Nodes that it was lost with: while it waits or runs those that it does not go to, at its end
    /// those that were lost under it.
    FailedNodes = "failed_nodes", Text;
    /// When it was told to make room for a more important job.
    PreemptTime = "preempt_time", Time;
    /// From when on it may have to make room for one.
    PreemptEligible = "preempt_eligible", Time;
    /// A command stays with it.
    Attended = "attended", Flag;
    /// Signal before its limit: `10@60`, with `B:` before it when only for the script.
    Warn = "warn", Text;
    /// True when it is ended as soon as what it waits for can no longer happen.
    EndIfNever = "end_if_never", Flag;
    /// Name of the MPI plugin that starts its steps.
    Mpi = "mpi", Text;
    /// Queues that it may go to, with commas, while it waits and there are several.
    Queues = "queues", Text;
    /// Node sets in order.
    Sets = "sets", Text;
    /// Of a job of several components, where each has a row of its own (as they have when this is
    /// asked for): which it is, from 0. Its id is then that of the component.
    #[serde(rename = "bundle")]
    Component = "bundle", Number;
    /// Of a job of several components: how many.
    #[serde(rename = "bundles")]
    Components = "bundles", Number;
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
    /// Text as it is shown.
    Text(&'a str),
    /// The row has no such value.
    Nothing,
}

impl Table {
    /// An empty table with those fields.
    pub fn new(fields: &[JobField]) -> Self {
        let column = |f: &JobField| match f.kind() {
            FieldKind::Text => Column::Texts(Vec::new()),
            FieldKind::Number
            | FieldKind::Bytes
            | FieldKind::Mebibytes
            | FieldKind::CpuTime
            | FieldKind::Time
            | FieldKind::Span
            | FieldKind::Flag => Column::Numbers(Vec::new()),
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
        let (fields, columns) =
            (std::mem::take(&mut self.fields), std::mem::take(&mut self.columns));
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
