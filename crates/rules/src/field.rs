//! The fields of a request that rules read and set: name, kind, whether it can be set, meaning.

use crate::value::{Kind, Value};
use cosy_model::{CountedResources, MiB, ReservationId, Time};

macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $kind:ident, $set:literal;)+) => {
        /// A field of a request.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Field {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Field {
            /// All fields, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in rules.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The kind of its value.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }

            /// Whether a rule can set it.
            pub const fn is_settable(self) -> bool {
                match self { $(Self::$variant => $set,)+ }
            }

            /// What it is, in a line.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

fields! {
    /// What is asked for: submit, change, reserve, quote or workflow
    Request = "request", Text, false;
    /// Login name of who asks
    User = "user", Text, false;
    /// User id of who asks
    Uid = "uid", Number, false;
    /// Group id of who asks
    Gid = "gid", Number, false;
    /// Names of all groups of who asks
    Groups = "groups", List, false;
    /// Whether an administrator asks
    Admin = "admin", Flag, false;
    /// Name of the job
    Name = "name", Text, true;
    /// Queue that was named
    Queue = "queue", Text, true;
    /// Queues that were named, of which the first that is free is taken
    Queues = "queues", List, true;
    /// Queue that was named, else the default queue
    TargetQueue = "target_queue", Text, false;
    /// Account to charge
    Account = "account", Text, true;
    /// Quality of service
    Qos = "qos", Text, true;
    /// Key under which it is counted
    Wckey = "wckey", Text, true;
    /// Remark of the owner
    Comment = "comment", Text, true;
    /// Remark for administrators
    AdminComment = "admin_comment", Text, true;
    /// Number of the reservation that it runs in
    Reservation = "reservation", Number, true;
    /// Whether a command stays with it (calloc, crun, salloc, srun)
    Interactive = "interactive", Flag, false;
    /// Whether it has a script
    Script = "script", Flag, false;
    /// Script or program, and its arguments
    Arguments = "arguments", List, false;
    /// Nodes that were asked for
    Nodes = "nodes", Number, true;
    /// Most nodes, where a range was asked for
    MaxNodes = "max_nodes", Number, true;
    /// Tasks that were asked for
    Tasks = "tasks", Number, true;
    /// Tasks on each node
    TasksPerNode = "tasks_per_node", Number, true;
    /// Cores of each task, 1 unless asked for
    CoresPerTask = "cores_per_task", Number, true;
    /// Cores of all tasks together
    Cores = "cores", Number, false;
    /// Memory of each node, where it was asked for so; 0 is all that each node has
    MemoryPerNode = "memory_per_node", Size, true;
    /// Memory of each core, where it was asked for so
    MemoryPerCore = "memory_per_core", Size, true;
    /// Scratch disk of each node
    DiskPerNode = "disk_per_node", Size, true;
    /// GPUs of each node, 0 unless asked for
    GpusPerNode = "gpus_per_node", Number, true;
    /// GPUs of all nodes together, 0 unless asked for
    Gpus = "gpus", Number, false;
    /// Type of the GPUs, where it is one
    GpuType = "gpu_type", Text, true;
    /// Types of the GPUs; set as "TYPE:COUNT" of each node, which sets gpus_per_node too
    GpuTypes = "gpu_types", List, true;
    /// Names of licences; set as "NAME" or "NAME:COUNT"
    Licenses = "licenses", List, true;
    /// Names of other resources of each node; set as "NAME" or "NAME:COUNT"
    Resources = "resources", List, true;
    /// GPUs and resources of each node as Slurm writes them, "gres/gpu:a100:2,gres/fpga:1";
    /// without GPUs that were asked for by one of the next three
    TresPerNode = "tres_per_node", Text, false;
    /// GPUs that were asked for of the whole job (sbatch --gpus), "gres/gpu:4"
    TresPerJob = "tres_per_job", Text, false;
    /// GPUs that were asked for of each socket (sbatch --gpus-per-socket)
    TresPerSocket = "tres_per_socket", Text, false;
    /// GPUs that were asked for of each task (sbatch --gpus-per-task)
    TresPerTask = "tres_per_task", Text, false;
    /// Features that each node must have
    Features = "features", List, true;
    /// Groups of features, "A&B", of which each node must have one whole
    AnyFeatures = "any_features", List, true;
    /// Groups of features, "A&B", of which all nodes must have the same one whole
    SameFeatures = "same_features", List, true;
    /// Numbers of nodes that have certain features, "A|B&C*2"
    CountedFeatures = "counted_features", List, false;
    /// Node sets to take nodes from, in this order
    Sets = "sets", List, true;
    /// Nodes that it must get
    RequireNodes = "require_nodes", List, true;
    /// Nodes that it must not get
    AvoidNodes = "avoid_nodes", List, true;
    /// Nodes to take first
    PreferNodes = "prefer_nodes", List, true;
    /// Whether whole nodes are asked for
    Exclusive = "exclusive", Flag, true;
    /// Number of tasks of the array, where it is one
    Array = "array", Number, false;
    /// Indices of the array as they are written, where it is one
    ArrayIndices = "array_indices", Text, false;
    /// Longest run time
    TimeLimit = "time_limit", Time, true;
    /// Shortest useful time limit
    TimeMin = "time_min", Time, true;
    /// Earliest start, in seconds since 1970
    Begin = "begin", Number, true;
    /// Latest end, in seconds since 1970
    Deadline = "deadline", Number, true;
    /// Nice value, 0 unless asked for
    Nice = "nice", Number, true;
    /// Priority that was asked for
    Priority = "priority", Number, true;
    /// Points of the site in queues with weighted factors, 0 unless given
    SiteFactor = "site_factor", Number, true;
    /// Whether it waits until it is released
    Hold = "hold", Flag, true;
    /// Whether it runs again after a node was lost
    Requeue = "requeue", Flag, true;
    /// Number of jobs that it waits for
    Dependencies = "dependencies", Number, false;
    /// Jobs that it waits for, as sbatch has them: "afterok:12"
    Dependency = "dependency", Text, false;
    /// Whether mail is asked for
    Mail = "mail", Flag, false;
    /// Events that mail is sent about: begin, end, fail, requeue, and hundredths of the time limit
    MailTypes = "mail_types", List, true;
    /// Who gets it; the user without
    MailUser = "mail_user", Text, true;
    /// MPI plugin
    Mpi = "mpi", Text, true;
    /// Working directory
    WorkingDirectory = "working_directory", Text, true;
    /// Pattern of the input file
    Stdin = "stdin", Text, true;
    /// Pattern of the output file
    Stdout = "stdout", Text, true;
    /// Pattern of the error file
    Stderr = "stderr", Text, true;
    /// Number of the component that is judged, from 0
    Component = "component", Number, false;
    /// Number of components
    Components = "components", Number, false;
    /// Host that it comes from
    SubmitHost = "submit_host", Text, false;
    /// Whose command it comes from: cosy or slurm
    Dialect = "dialect", Text, false;
}

impl Field {
    /// The field of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }
}

/// `NAME` or `NAME:COUNT`, each once.
pub(crate) fn counted(all: &[String]) -> Result<CountedResources, String> {
    let mut counted = CountedResources::default();
    for one in all {
        let (name, count) = match one.rsplit_once(':') {
            Some((name, count)) => (name, count.parse::<u32>().ok()),
            None => (one.as_str(), Some(1)),
        };
        match count {
            Some(count) if !name.is_empty() => counted.set(name, count),
            _ => return Err(format!("'{one}' is neither NAME nor NAME:COUNT")),
        }
    }
    Ok(counted)
}

/// A number that a field can hold.
pub(crate) fn number(field: Field, n: i64) -> Result<u32, String> {
    u32::try_from(n).map_err(|_| format!("{} cannot be {n}", field.name()))
}

/// A size that a field can hold.
pub(crate) fn size(field: Field, mib: i64) -> Result<MiB, String> {
    u64::try_from(mib)
        .map(MiB)
        .map_err(|_| format!("{} cannot be {mib}M", field.name()))
}

/// What a value is told that does not belong into a field.
pub(crate) fn misfit(field: Field, value: &Value) -> String {
    match field.is_settable() {
        true => format!("{} is {}, and '{value}' is not", field.name(), field.kind()),
        false => format!("{} cannot be set", field.name()),
    }
}

/// A point in time as a field has it.
pub(crate) fn seconds(time: Time) -> i64 {
    time.0.div_euclid(1000)
}

/// A point in time that a field can hold.
pub(crate) fn point(field: Field, secs: i64) -> Result<Time, String> {
    let millis = u32::try_from(secs).ok().map(|secs| i64::from(secs) * 1000);
    millis
        .map(Time)
        .ok_or_else(|| format!("{} cannot be {secs}", field.name()))
}

/// The number of a reservation that a field can hold.
pub(crate) fn reservation(field: Field, n: i64) -> Result<ReservationId, String> {
    let id = u64::try_from(n).ok().filter(|n| *n > 0);
    id.map(ReservationId)
        .ok_or_else(|| format!("{} cannot be {n}", field.name()))
}

/// Groups of features: `a&b` is one whose features a node has all.
pub(crate) fn groups(all: &[String]) -> Vec<Vec<String>> {
    let group = |text: &String| text.split('&').map(str::to_owned).collect();
    all.iter().map(group).collect()
}
