//! Named limits on everything that comes from outside. One place, so that they can be
//! seen together; each is checked before anything is allocated for it.

/// Largest frame on a socket, in bytes: a script and an environment fit with room.
pub const FRAME_BYTES: usize = 16 << 20;
/// Largest frame before a peer has said who it is, in bytes.
pub const HELLO_BYTES: usize = 4096;
/// Most controllers of a cluster, one of which leads.
pub const CONTROLLERS: usize = 8;
/// Largest batch script, in bytes (Slurm's `max_script_size` is the same).
pub const SCRIPT_BYTES: usize = 4 << 20;
/// Largest environment of a job, all variables together, in bytes.
pub const ENVIRONMENT_BYTES: usize = 2 << 20;
/// Largest number of arguments of a job's program.
pub const ARGUMENTS: usize = 4096;
/// Longest path, name pattern or argument list of a job, in bytes.
pub const PATH_BYTES: usize = 4096;
/// Longest command line that is recorded with a job, in bytes.
pub const LINE_BYTES: usize = 4096;
/// Longest name of a job, a queue, an account, in bytes.
pub const NAME_BYTES: usize = 255;
/// Longest comment or reason, in bytes.
pub const COMMENT_BYTES: usize = 4096;
/// Most tasks in one job array unless the configuration says otherwise.
pub const ARRAY_TASKS: u32 = 100_000;
/// Tasks of one array that stand in the planner's queue at once: others of it come as these start. They ask
/// for the same, so none of them could start before the first.
pub const QUEUED_TASKS: u32 = 10_000;
/// Longest time between submission and start that a configuration may ask for.
pub const BATCH_DELAY: crate::Span = crate::Span::from_secs(3600);
/// Most kinds of licences of a cluster.
pub const LICENSES: usize = 1000;
/// Longest name of a licence, in bytes.
pub const LICENSE_NAME_BYTES: usize = 64;
/// A clock on the wall that is ahead or behind by so much more than before was set, or the
/// machine slept; less is what looking at two clocks one after the other costs.
pub const CLOCK_STEP: crate::Span = crate::Span::from_secs(1);
/// Most sets of queues that are joined for the planner at once; the next one joins all queues.
/// Jobs of several components in several queues join them, and each new set enters all waiting
/// jobs anew.
pub const JOINT_QUEUES: usize = 8;
/// Queues that were joined stay so for at least so long.
pub const JOINED: crate::Span = crate::Span::from_secs(60);
/// Where a controller that was started anew cannot tell what dates in its store mean, a run whose
/// dates are off by more than this is counted from what its node says; less is what a report
/// takes on its way.
pub const RUN_OFF: crate::Span = crate::Span::from_secs(10);
/// A program that begins so much later than its job got its nodes is not late: nodes are
/// planned for others only two seconds after the last force.
pub const LATE_START: crate::Span = crate::Span::from_secs(1);
/// The least skew of a node's clock that a configuration may call wrong.
pub const LEAST_CLOCK_SKEW: crate::Span = crate::Span::from_secs(2);
/// Most nodes whose clocks are off that an answer to a ping names.
pub const CLOCKS_TOLD: usize = 20;
/// What a node tells of its clock may have been under way: the best of so many is taken.
pub const CLOCK_LOOKS: usize = 3;
/// Highest id that a configuration may begin with.
pub const FIRST_JOB: u64 = 1_000_000_000;
/// Highest index of an array task.
pub const ARRAY_INDEX: u32 = 4_000_000;
/// Most names that a host list may expand to.
pub const HOST_LIST_NAMES: usize = 100_000;
/// Longest host list, in bytes: as many names as may be, of forty bytes, of which none folds.
pub const HOST_LIST_BYTES: usize = 4 << 20;
/// Bytes of a host list that are kept in the record of a step.
pub const STEP_NODES_BYTES: usize = 64 << 10;
/// Most dependencies of one job.
pub const DEPENDENCIES: usize = 1000;
/// Numbers of nodes by feature.
pub const COUNTED_FEATURES: usize = 8;
/// Components of a job beside the first.
pub const FURTHER_COMPONENTS: usize = 127;
/// Most resource limits (`ulimit`) that a job carries.
pub const RLIMITS: usize = 32;
/// Most groups that a user is in (the kernel's NGROUPS_MAX is the same).
pub const GROUPS: usize = 65_536;
/// Most cores of a node.
pub const NODE_CORES: u32 = 8192;
/// Most accounts, or qualities of service, that a queue allows or denies by name.
pub const ADMITTED: usize = 10_000;
/// Most queues of a cluster.
pub const QUEUES: usize = 10_000;
/// Most nodes of a cluster.
pub const NODES: usize = 100_000;
/// Most jobs that wait or run at once, unless the configuration says otherwise.
pub const JOBS: u32 = 2_000_000;
/// The most that a configuration may say.
pub const MOST_JOBS: u32 = 100_000_000;
/// How many of them only administrators can have.
pub const JOBS_RESERVE: usize = 10_000;
/// Most jobs of one user that wait or run at once, unless the configuration says otherwise.
pub const JOBS_OF_USER: u32 = 200_000;
/// A waiting job takes no more memory of the controller, but for its script and its variables: in bytes.
pub const JOB_BYTES: u64 = 4096;
/// The same for a task of an array.
pub const TASK_BYTES: u64 = 128;
/// The same beside it for one of those that stand in the planner's queue.
pub const QUEUED_TASK_BYTES: u64 = 512 - TASK_BYTES;
/// The least memory that a configuration may give the controller.
pub const LEAST_MEMORY: crate::MiB = crate::MiB(64);
/// Most shares of its time limit at which mail about a job is sent.
pub const MAIL_SHARES: usize = 100;
/// Most ids that one request may name.
pub const IDS_IN_REQUEST: usize = 100_000;
/// Objects of a request that are named in its answer with why they were refused; the others
/// are counted.
pub const REFUSALS: usize = 200;
/// Largest answer that is kept for who asks again, in bytes.
pub const ANSWER_BYTES: usize = 64 << 10;
/// Answers of one user that are kept.
pub const ANSWERS_OF_USER: usize = 50_000;
/// What they take in all, in bytes.
pub const ANSWERS_OF_USER_BYTES: usize = 16 << 20;
/// Answers of all users that are kept.
pub const ANSWERS: usize = 200_000;
/// What they take in all, in bytes.
pub const ANSWERS_BYTES: usize = 64 << 20;
/// Jobs whose ends all commands of one user wait for.
pub const WAITED_JOBS_OF_USER: usize = 1_000_000;
/// Most names in each list of a filter.
pub const FILTER_NAMES: usize = 4096;
/// Most names in each access list of a queue that is made at run time.
pub const ACCESS_NAMES: usize = 100_000;
/// Most jobs whose steps are asked for at once.
pub const STEP_JOBS: usize = 1000;
/// Ids of jobs that are looked through for the steps that a command asks for without pages: those
/// of all tasks of the arrays that it names.
pub const STEP_IDS: u64 = 1_000_000;
/// Largest answer, in bytes: what a command reads at once.
pub const REPLY_BYTES: usize = FRAME_BYTES;
/// Most connections of one user to the controller that a configuration may allow.
pub const CONNECTIONS_PER_USER: u64 = 65_536;
/// About so many bytes of rows are in one page of a list.
pub const PAGE_BYTES: usize = 4 << 20;
/// Most rows that one page of history holds.
pub const HISTORY_ROWS: usize = 10_000;
/// Runs of a job that are kept beside its last one; older ones are forgotten.
pub const EARLIER_RUNS: u32 = 100;
/// Ids of jobs that are looked through for one page of history, whether there are rows or not.
pub const HISTORY_IDS: u64 = 200_000;
/// Most rows of history or of steps in the one answer to a command that asks for no pages.
pub const ANSWER_ROWS: usize = 100_000;
/// Values of a request beside its bytes are counted as so many bytes of memory each.
pub const VALUE_BYTES: usize = 32;
/// Most values of one request, names of fields not counted: what one user may have under way
/// holds no more of them.
pub const REQUEST_VALUES: usize = 1_500_000;
/// Largest accepted `nice`, up or down (Slurm's range).
pub const NICE: i64 = 2_147_483_645;
/// Most starts of one repeating reservation.
pub const REPEATS: usize = 400;
/// Most names in each list of who may use a reservation or charge an account.
pub const SHARING: usize = 1000;
/// Most candidate slots of one quote.
pub const CANDIDATES: usize = 2000;
/// Most live reservations of a cluster.
pub const RESERVATIONS: usize = 100_000;
/// Most tasks of one workflow.
pub const FLOW_TASKS: usize = 10_000;
/// Most edges of one workflow.
pub const FLOW_EDGES: usize = 200_000;
/// Largest file that describes a workflow, in bytes.
pub const FLOW_FILE_BYTES: usize = 64 << 20;
/// Most node sets that one workflow tells apart.
pub const FLOW_SETS: usize = 64;
/// Most workflows that are not over.
pub const FLOWS: usize = 10_000;
/// Most times that a task of a workflow is started again.
pub const FLOW_RETRIES: u32 = 100;
/// Most triggers of a cluster.
pub const TRIGGERS: usize = 10_000;
/// Most triggers of one user who is no administrator.
pub const TRIGGERS_OF_USER: usize = 200;
/// Most programs of triggers that run at once for one user.
pub const TRIGGER_PROGRAMS_AT_ONCE: usize = 16;
/// Most programs of triggers that run at once on one node.
pub const TRIGGER_PROGRAMS_ON_NODE: usize = 4;
/// Most runs of one trigger's program that wait; what happens then joins the last.
pub const TRIGGER_RUNS_AHEAD: usize = 100;
/// Longest time between an event and its trigger's program (Slurm's range).
pub const TRIGGER_OFFSET: crate::Span = crate::Span::from_secs(32_000);
/// Longest run of a trigger's program.
pub const TRIGGER_PROGRAM: crate::Span = crate::Span::from_minutes(5);
/// Largest environment of a trigger's program, in bytes.
pub const TRIGGER_ENVIRONMENT: usize = 64 << 10;
/// Memory of a trigger's program.
pub const TRIGGER_MEMORY: crate::MiB = crate::MiB(512);
/// How often a trigger's program is tried, on one node after the other.
pub const TRIGGER_TRIES: u32 = 5;
/// Connections at a node's local sockets that others leave to root.
pub const ROOT_RESERVE: usize = 64;

/// How many of `all` places a user may find taken and still get one.
pub const fn room_of(all: usize, uid: u32) -> usize {
    match uid {
        0 => all,
        _ => all - ROOT_RESERVE,
    }
}

/// Measurements of a job on a node that are kept: of a job of a day one in six minutes.
pub const SAMPLES: usize = 240;

/// Other nodes of a job that are asked in short what it uses there, its first ones.
pub const SUMMARY_NODES: usize = 16;

/// Connections of other nodes that have not shown a good ticket yet, at one noded; the oldest
/// go where more come.
pub const UNPROVEN_PEERS: usize = 512;
/// The same of one address (of IPv6: a network of 64 bits).
pub const UNPROVEN_PEERS_OF_ADDRESS: usize = 128;
/// Bytes that all of them together have sent and that are not looked at yet.
pub const UNPROVEN_PEER_BYTES: usize = 128 << 20;
/// Connections of other nodes that have shown a good ticket, at one noded.
pub const PEERS: usize = 4096;
/// The same of one key.
pub const PEERS_OF_KEY: usize = 1024;
/// Keys of nodes that were revoked and are remembered, at most.
pub const REVOKED_KEYS: usize = 100_000;
/// Passages to jobs that wait for a look-up of their user, at most; more are refused.
pub const PASSAGES_WAITING: usize = 1000;
/// Accounts of a cluster, at most.
pub const ACCOUNTS: usize = 100_000;
/// Associations of a cluster, at most: users in accounts, by queue.
pub const ASSOCIATIONS: usize = 1_000_000;
/// Qualities of service of a cluster, at most.
pub const QOS: usize = 10_000;
/// Most changes of the policy in one request.
pub const POLICY_CHANGES: usize = 100_000;
/// Most limits that are set at one place.
pub const LIMITS_OF_ONE: usize = 256;
/// Most levels of accounts below the root.
pub const ACCOUNT_LEVELS: usize = 32;
/// Most associations in one page.
pub const ASSOCIATION_ROWS: usize = 10_000;
/// Most events in one page.
pub const EVENT_ROWS: u32 = 100_000;
/// Most lines of one page of the ledger.
pub const LEDGER_ROWS: usize = 100_000;
/// Most tasks of one step.
pub const STEP_TASKS: u32 = 1_000_000;
/// Most tasks of a step on one node that are bound to GPUs.
pub const GPU_BOUND_TASKS: u32 = 4096;
/// Most programs in one step.
pub const STEP_PROGRAMS: usize = 4096;
/// Most steps of one attempt.
pub const STEPS: u32 = 10_000_000;
/// Steps of one job that run or wait at once.
pub const STEPS_AT_ONCE: usize = 10_000;
/// Steps of one job that run at once, however many cores it has: each is a process of root on
/// the job's first node.
pub const STEPS_RUNNING: usize = 2000;
/// Of these so many for a job of any size, and so many more for each of its cores.
pub const STEPS_RUNNING_BY_CORES: (usize, usize) = (64, 8);
/// Steps that run at once on one node, of all jobs.
pub const STEPS_ON_NODE: usize = 4000;
/// Most bytes of what is to be started (arguments, environments) by the steps of a node that
/// wait, of one job.
pub const STEPS_WAITING_BYTES: usize = 64 << 20;
/// The same of all jobs on a node, and of what waits for jobs that are not known there yet.
pub const NODE_WAITING_BYTES: usize = 256 << 20;
/// Most processes and threads of a job on a node unless its configuration says otherwise: so
/// many, and so many more for each core.
pub const JOB_PROCESSES: (u64, u64) = (4096, 512);
/// Highest number of processes that a configuration may name (the kernel's most).
pub const PROCESSES: u32 = 4_194_304;
/// Most processes and threads of a trigger's program.
pub const TRIGGER_PROCESSES: u64 = 512;
/// What is added to how much a supervisor deserves to be killed when memory is short
/// (`oom_score_adj`): unlike its daemon it is not protected, but its tasks go first.
pub const SUPERVISOR_OOM_SCORE: i32 = -250;
/// Bytes of a part of a file that a node daemon reads for somebody.
pub const FILE_PIECE: u64 = 64 << 10;
/// How long a pass of the controller is good.
pub const PASS_GOOD_FOR: crate::Span = crate::Span::from_secs(60);
/// Ports of a job that are told.
pub const JOB_PORTS: usize = 64;
/// Input of a step that is under way and not yet taken by all tasks, in bytes.
pub const STDIN_WINDOW: u64 = 256 << 10;
/// Connections of X clients that a command, or a step on one node, has open at once.
pub const DISPLAY_CONNECTIONS: usize = 64;
/// Bytes of one such connection that are under way in one direction and not yet taken.
pub const DISPLAY_WINDOW: usize = 256 << 10;
/// Most of them that are read at once.
pub const DISPLAY_CHUNK: usize = 32 << 10;
/// How long an X client may take to show its cookie.
pub const DISPLAY_SETUP: std::time::Duration = std::time::Duration::from_secs(10);
/// Most bytes of input or output in one frame.
pub const STEP_CHUNK: usize = 256 << 10;
/// Largest frame between a step's supervisors and its command, in bytes.
pub const STEP_FRAME: usize = 16 << 20;
/// Most bytes that one node adds to an exchange of a step.
pub const EXCHANGE_BYTES: usize = 4 << 20;
/// Longest time in which the files that tasks write together are opened, before a step is
/// given up.
pub const FILES_OPENING: std::time::Duration = std::time::Duration::from_secs(30);
/// Longest time in which a file takes nothing of what a step that is over has written.
pub const FILES_WRITING: std::time::Duration = std::time::Duration::from_secs(60);
/// Longest time in which the PMIx helper of a step gets ready on a node.
pub const PMIX_READY: std::time::Duration = std::time::Duration::from_secs(60);
/// Most step records in one report.
pub const STEP_RECORDS: usize = 1000;
/// Longest message of a task to the process management interface, in bytes.
pub const PMI_MESSAGE: usize = 64 << 10;
/// Longest key of a key-value space, in bytes (with MPICH's terminating NUL 64).
pub const PMI_KEY: usize = 63;
/// Longest value of a key-value space, in bytes (with MPICH's terminating NUL 1024).
pub const PMI_VALUE: usize = 1023;
/// Most bytes of entries in the key-value space of a step: keys, values and what each entry
/// takes beside them. So there are some 400,000 entries at most.
pub const PMI_SPACE: usize = 64 << 20;
/// What an entry takes beside its key and value, in bytes: two allocations, its places in a
/// table and in the list of keys.
pub const PMI_ENTRY: usize = 160;
/// Most bytes of attributes that tasks leave on one node of a step, counted like the space's.
pub const PMI_NODE_ATTRIBUTES: usize = 1 << 20;

/// Attempts that go on at one node although the store does not have them, at most.
pub const STRAYS_OF_NODE: usize = 20_000;

/// Ids that are left out above all that were given out, when a store turns out to be older than
/// what nodes have seen: as many as may have been given out since they were last told.
pub const SKIPPED_IDS: u64 = 100_000;

/// Numbers of events that are left out then: nodes that have seen a little more are not taken
/// for another restored store.
pub const SKIPPED_EVENTS: u64 = 1_000_000;

/// Most signals that are kept for a job or step until its program can take them.
pub const EARLY_SIGNALS: usize = 64;

/// Most bytes of a list of GPUs as it was asked for.
pub const ASKED_BYTES: usize = 4096;
/// Most accounts of a user that rules at submission are told of.
pub const TOLD_ACCOUNTS: usize = 200;
/// Most qualities of service of each of them.
pub const TOLD_QOS: usize = 250;
/// Most qualities of service whose priorities they are told.
pub const TOLD_PRIORITIES: usize = 1000;

/// Longest name of a container's image, in bytes.
pub const CONTAINER_IMAGE_BYTES: usize = 1024;
/// Most folders and files of the node that are seen in a container.
pub const CONTAINER_MOUNTS: usize = 64;
/// All texts of a container together, in bytes.
pub const CONTAINER_BYTES: usize = 16 << 10;
/// Largest configuration of an image or a bundle, in bytes.
pub const CONTAINER_CONFIG_BYTES: u64 = 1 << 20;
/// Most variables that go over those of an image.
pub const CONTAINER_ENV: usize = 256;

/// Attempts of a job after which the next killed supervisor ends it: before, it waits again.
pub const ATTEMPTS_BY_SUPERVISORS: u32 = 16;

/// Most nodes that a job is kept from because it was lost with them; the oldest is forgotten first.
pub const FAILED_NODES: usize = 16;

/// Most switches of a cluster's network.
pub const SWITCHES: usize = 4096;

/// Most levels of switches.
pub const SWITCH_LEVELS: u32 = 16;

/// Longest name of a switch, in bytes.
pub const SWITCH_NAME_BYTES: usize = 63;

/// Longest list of the switches of a job's nodes that it finds in its variables, in bytes.
pub const SWITCH_LIST_BYTES: usize = 64 << 10;

/// Most different weights of nodes: each takes a set of nodes in every demand.
pub const WEIGHTS: usize = 16;

/// After so many attempts that were lost with nodes a job is held, unless the site says otherwise.
/// Source: slurm.conf(5), `MaxBatchRequeue`.
pub const REQUEUES: u32 = 5;
