//! Names of attributes, as the PMIx standard defines them. A test compares them with the
//! installed headers.

/// Where the server keeps its files.
pub const SERVER_TMPDIR: &str = "pmix.srvr.tmpdir";
/// Where servers of the whole host keep theirs.
pub const SYSTEM_TMPDIR: &str = "pmix.sys.tmpdir";
/// The server's own namespace.
pub const SERVER_NSPACE: &str = "pmix.srv.nspace";
/// The server's own rank.
pub const SERVER_RANK: &str = "pmix.srv.rank";
/// Whether tools may connect.
pub const SERVER_TOOL_SUPPORT: &str = "pmix.srvr.tool";
/// A node's name.
pub const HOSTNAME: &str = "pmix.hname";
/// The job's name.
pub const JOBID: &str = "pmix.jobid";
/// Number of tasks that could be.
pub const UNIV_SIZE: &str = "pmix.univ.size";
/// Number of tasks.
pub const JOB_SIZE: &str = "pmix.job.size";
/// Number of tasks that there may be at most.
pub const MAX_PROCS: &str = "pmix.max.size";
/// Number of programs.
pub const JOB_NUM_APPS: &str = "pmix.job.napps";
/// Number of nodes.
pub const NUM_NODES: &str = "pmix.num.nodes";
/// Names of nodes, packed.
pub const NODE_MAP: &str = "pmix.nmap";
/// Ranks of each node, packed.
pub const PROC_MAP: &str = "pmix.pmap";
/// The session's directory.
pub const TMPDIR: &str = "pmix.tmpdir";
/// The namespace's directory.
pub const NSDIR: &str = "pmix.nsdir";
/// Says that the tasks' directories are removed for them.
pub const TDIR_RMCLEAN: &str = "pmix.tdir.rmclean";
/// Number of this job's tasks on this node.
pub const LOCAL_SIZE: &str = "pmix.local.size";
/// Number of all tasks on this node.
pub const NODE_SIZE: &str = "pmix.node.size";
/// Ranks on this node.
pub const LOCAL_PEERS: &str = "pmix.lpeers";
/// Lowest rank on this node.
pub const LOCALLDR: &str = "pmix.lldr";
/// What is known of one node.
pub const NODE_INFO_ARRAY: &str = "pmix.node.arr";
/// What is known of one program.
pub const APP_INFO_ARRAY: &str = "pmix.app.arr";
/// What is known of one task.
pub const PROC_INFO_ARRAY: &str = "pmix.pdata";
/// Number of a task in its step.
pub const RANK: &str = "pmix.rank";
/// A task's program.
pub const APPNUM: &str = "pmix.appnum";
/// Tasks of a program.
pub const APP_SIZE: &str = "pmix.app.size";
/// Lowest rank of a program.
pub const APPLDR: &str = "pmix.aldr";
/// Place among the tasks of the program.
pub const APP_RANK: &str = "pmix.apprank";
/// Rank in the session.
pub const GLOBAL_RANK: &str = "pmix.grank";
/// Place on the node within the job.
pub const LOCAL_RANK: &str = "pmix.lrank";
/// Place on the node among all tasks.
pub const NODE_RANK: &str = "pmix.nrank";
/// Number of the task's node.
pub const NODEID: &str = "pmix.nodeid";
/// A task's directory.
pub const PROCDIR: &str = "pmix.pdir";
/// Whether the task was started by another one.
pub const SPAWNED: &str = "pmix.spawned";
/// How often the task was started before.
pub const REINCARNATION: &str = "pmix.reinc";
