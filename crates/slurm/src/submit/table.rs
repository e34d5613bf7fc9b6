//! All options of `sbatch`, `srun` and `salloc`, with what becomes of each here. The
//! commands' parsers, their help texts and the list in the documentation are made from it.

use super::Program;
use crate::getopt::{Argument, Opt};
use Argument::{Nothing, Perhaps, Value};

/// What becomes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionSupport {
    /// It does what it says.
    Done,
    /// It is accepted without a word, as the original does where the feature is not set
    /// up; why.
    Accepted(&'static str),
    /// It is accepted, with one line on standard error; why it means nothing here.
    Ignored(&'static str),
    /// It is an error; why.
    Refused(&'static str),
}
use OptionSupport::{Accepted, Done, Ignored, Refused};

/// Why hints about threads mean nothing.
const CORES_OF_NODES: &str =
    "tasks are given what their nodes count as cores, which may be hardware threads";

/// An option of `sbatch`, `salloc` or `srun`, and what becomes of it here.
#[derive(Clone, Copy, Debug)]
pub struct OptionEntry {
    /// How it is read; [`Opt::name`] is what the programs know it by.
    pub opt: Opt,
    /// Which programs have it.
    pub of: Programs,
    /// Its value's name in the help, with its sign: `=N`, `[=N]`; empty without.
    pub value: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// What becomes of it here.
    pub status: OptionSupport,
}

/// Some of the three programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Programs(&'static [Program]);

impl Programs {
    /// Whether it is one of them.
    pub fn has(self, program: Program) -> bool {
        self.0.contains(&program)
    }

    /// Their names, separated by blanks.
    pub fn names(self) -> String {
        let names: Vec<&str> = self.0.iter().map(|p| p.name()).collect();
        names.join(" ")
    }
}

const ALL: Programs = Programs(&[Program::Sbatch, Program::Srun, Program::Salloc]);
const SBATCH: Programs = Programs(&[Program::Sbatch]);
const SRUN: Programs = Programs(&[Program::Srun]);
const SALLOC: Programs = Programs(&[Program::Salloc]);
const BATCH_RUN: Programs = Programs(&[Program::Sbatch, Program::Srun]);
const RUN_ALLOC: Programs = Programs(&[Program::Srun, Program::Salloc]);
const BATCH_ALLOC: Programs = Programs(&[Program::Sbatch, Program::Salloc]);

const fn long(
    of: Programs,
    name: &'static str,
    argument: Argument,
    value: &'static str,
    status: OptionSupport,
    about: &'static str,
) -> OptionEntry {
    OptionEntry {
        opt: Opt::long(name, argument),
        of,
        value,
        about,
        status,
    }
}

const fn both(
    of: Programs,
    letter: u8,
    name: &'static str,
    argument: Argument,
    value: &'static str,
    status: OptionSupport,
    about: &'static str,
) -> OptionEntry {
    OptionEntry {
        opt: Opt::both(letter, name, argument),
        of,
        value,
        about,
        status,
    }
}

/// Another spelling of an option.
const fn alias(
    of: Programs,
    spelling: &'static str,
    name: &'static str,
    argument: Argument,
) -> OptionEntry {
    OptionEntry {
        opt: Opt::long(spelling, argument).known_as(name),
        of,
        value: if matches!(argument, Value) {
            "=..."
        } else {
            ""
        },
        about: "another spelling",
        status: Done,
    }
}

const NO_BUFFERS: OptionSupport = Ignored("there are no burst buffers here");
const NO_FEDERATION: OptionSupport = Refused("clusters here know nothing of each other");
const FREQUENCY: OptionSupport = Ignored("clock rates are left to the nodes");
const PROFILING: OptionSupport = Ignored("nodes measure jobs as often as the site says");
const CORES_COUNT: OptionSupport = Ignored("nodes are chosen by their cores");
const NEVER_BOOTED: OptionSupport = Accepted("nodes are not rebooted for jobs");
const BINDING: OptionSupport = Ignored("the system binds tasks to the cores of their job");

const NOT_HERE: OptionSupport = Refused("the command runs here; give it to srun");

/// The options, in the order in which the help lists them.
pub static TABLE: [OptionEntry; 169] = [
    both(SBATCH, b'a', "array", Value, "=INDEXES", Done, "make an array of these tasks"),
    both(ALL, b'A', "account", Value, "=NAME", Done, "charge the job to this account"),
    long(SRUN, "acctg-freq", Value, "=SPEC", PROFILING, "how often to take samples"),
    long(BATCH_ALLOC, "acctg-freq", Value, "=SPEC", PROFILING, "how often to take samples"),
    long(ALL, "bb", Value, "=SPEC", NO_BUFFERS, "burst buffers"),
    long(SBATCH, "bbf", Value, "=FILE", Done, "put this file in front of the script"),
    long(RUN_ALLOC, "bbf", Value, "=FILE", NO_BUFFERS, "file with burst buffers"),
    long(
        SRUN,
        "bcast",
        Perhaps,
        "[=PATH]",
        Done,
        "copy the program to the nodes first, to this file or folder/",
    ),
    long(
        SRUN,
        "bcast-exclude",
        Value,
        "=PATHS",
        Accepted("libraries are not copied"),
        "libraries not to copy",
    ),
    both(ALL, b'b', "begin", Value, "=TIME", Done, "do not start before this time"),
    long(SALLOC, "bell", Nothing, "", Done, "ring the bell when the job starts"),
    long(SALLOC, "no-bell", Nothing, "", Done, "do not ring it"),
    long(
        SBATCH,
        "batch",
        Value,
        "=LIST",
        Ignored("the script runs on the first node"),
        "features of the script's node",
    ),
    long(ALL, "comment", Value, "=TEXT", Done, "any text"),
    long(
        SRUN,
        "compress",
        Perhaps,
        "[=LIBRARY]",
        Accepted("nothing is compressed"),
        "compress what --bcast copies",
    ),
    long(BATCH_RUN, "container", Value, "=BUNDLE", Done, "run in a container of this OCI bundle"),
    long(SALLOC, "container", Value, "=BUNDLE", NOT_HERE, "run in a container of this OCI bundle"),
    long(BATCH_RUN, "container-image", Value, "=IMAGE", Done, "run in a container of this image"),
    long(SALLOC, "container-image", Value, "=IMAGE", NOT_HERE, "run in a container of this image"),
    long(BATCH_RUN, "container-mounts", Value, "=LIST", Done, "what of the node is seen inside"),
    long(BATCH_RUN, "container-workdir", Value, "=PATH", Done, "working directory inside"),
    long(BATCH_RUN, "container-name", Value, "=NAME", Done, "keep its files under this name"),
    long(BATCH_RUN, "container-save", Value, "=FILE", Done, "write it to this file at the end"),
    long(BATCH_RUN, "container-env", Value, "=NAMES", Done, "variables that go over the image's"),
    long(BATCH_RUN, "container-mount-home", Nothing, "", Done, "the home directory is seen inside"),
    long(BATCH_RUN, "no-container-mount-home", Nothing, "", Done, "it is not"),
    long(BATCH_RUN, "container-remap-root", Nothing, "", Done, "be root inside"),
    long(BATCH_RUN, "no-container-remap-root", Nothing, "", Done, "be oneself inside"),
    long(BATCH_RUN, "container-entrypoint", Nothing, "", Done, "the image starts the program"),
    long(BATCH_RUN, "no-container-entrypoint", Nothing, "", Done, "it does not"),
    long(BATCH_RUN, "container-writable", Nothing, "", Done, "its files can be changed"),
    long(BATCH_RUN, "container-readonly", Nothing, "", Done, "they cannot"),
    long(ALL, "cpu-freq", Value, "=SPEC", FREQUENCY, "clock rate of the processors"),
    both(ALL, b'c', "cpus-per-task", Value, "=N", Done, "cores of each task"),
    both(ALL, b'd', "dependency", Value, "=LIST", Done, "wait for other jobs"),
    long(ALL, "deadline", Value, "=TIME", Done, "give the job up if it cannot end by then"),
    long(ALL, "delay-boot", Value, "=MINUTES", NEVER_BOOTED, "wait before nodes are booted"),
    both(ALL, b'D', "chdir", Value, "=PATH", Done, "working directory"),
    both(BATCH_RUN, b'e', "error", Value, "=FILE", Done, "file for standard error"),
    long(SRUN, "epilog", Value, "=PROGRAM", Done, "program to run here after the step"),
    long(BATCH_RUN, "export", Perhaps, "[=NAMES]", Done, "variables that the job gets"),
    long(SBATCH, "export-file", Value, "=FILE|FD", Done, "file or descriptor with variables"),
    both(
        SRUN,
        b'E',
        "preserve-env",
        Nothing,
        "",
        Done,
        "tasks keep the job's SLURM_NNODES and SLURM_NTASKS",
    ),
    long(SBATCH, "get-user-env", Perhaps, "[=MODE]", Done, "start from the login environment"),
    long(
        SALLOC,
        "get-user-env",
        Perhaps,
        "[=MODE]",
        Accepted("the command runs in your environment"),
        "start from the login environment",
    ),
    long(
        ALL,
        "gid",
        Value,
        "=GROUP",
        Refused("submit as that user instead"),
        "run as this group (administrators)",
    ),
    long(ALL, "gres", Value, "=LIST", Done, "countable resources on each node, like gpu:2"),
    long(
        ALL,
        "gres-flags",
        Value,
        "=OPTS",
        Accepted("cores and GPUs are given independently"),
        "how they are given",
    ),
    both(ALL, b'H', "hold", Nothing, "", Done, "wait until released"),
    long(SBATCH, "ignore-pbs", Nothing, "", Done, "do not read #PBS and #BSUB lines"),
    both(BATCH_RUN, b'i', "input", Value, "=FILE", Done, "file for standard input"),
    both(
        RUN_ALLOC,
        b'I',
        "immediate",
        Perhaps,
        "[=SECONDS]",
        Done,
        "give up unless it starts at once",
    ),
    long(SRUN, "jobid", Value, "=ID", Done, "run inside this job"),
    long(
        BATCH_ALLOC,
        "jobid",
        Value,
        "=ID",
        Refused("ids are given by the controller"),
        "id of the job",
    ),
    both(ALL, b'J', "job-name", Value, "=NAME", Done, "name of the job"),
    both(BATCH_ALLOC, b'k', "no-kill", Perhaps, "[=off]", Done, "go on when a node is lost"),
    both(
        SRUN,
        b'k',
        "no-kill",
        Perhaps,
        "[=off]",
        Ignored("a step ends when one of its nodes is lost; the job can go on (sbatch --no-kill)"),
        "go on when a node is lost",
    ),
    both(
        SALLOC,
        b'K',
        "kill-command",
        Perhaps,
        "[=SIGNAL]",
        Done,
        "signal the command when the job ends",
    ),
    both(SRUN, b'K', "kill-on-bad-exit", Perhaps, "[=0|1]", Done, "end the step when a task fails"),
    long(
        ALL,
        "kill-on-invalid-dep",
        Value,
        "=yes|no",
        Done,
        "end the job when its condition cannot come true",
    ),
    both(SRUN, b'l', "label", Nothing, "", Done, "each line with its task's number"),
    both(ALL, b'L', "licenses", Value, "=NAMES", Done, "licenses, counted over the cluster"),
    both(ALL, b'M', "clusters", Value, "=NAMES", Done, "cluster to submit to: this one, or all"),
    alias(ALL, "cluster", "clusters", Value),
    both(ALL, b'm', "distribution", Value, "=TYPE", Done, "how tasks are dealt out to nodes"),
    long(
        ALL,
        "mail-type",
        Value,
        "=TYPES",
        Done,
        "when to send mail: BEGIN, END, FAIL, REQUEUE, ALL",
    ),
    long(ALL, "mail-user", Value, "=USER", Done, "to whom"),
    long(
        ALL,
        "mcs-label",
        Value,
        "=LABEL",
        Accepted("there are no such labels here"),
        "label of what may share nodes",
    ),
    long(
        SRUN,
        "debugger-test",
        Nothing,
        "",
        Done,
        "stop tasks before their programs, and list them",
    ),
    long(SRUN, "mpi", Value, "=TYPE", Done, "which kind of MPI"),
    long(SRUN, "multi-prog", Nothing, "", Done, "the program is a list of programs by task"),
    long(ALL, "network", Value, "=TYPE", Accepted("networks are not switched"), "network settings"),
    both(ALL, b'n', "ntasks", Value, "=N", Done, "number of tasks"),
    long(ALL, "nice", Perhaps, "[=N]", Done, "let others go first"),
    long(SBATCH, "no-requeue", Nothing, "", Done, "do not run the job again"),
    long(SALLOC, "no-shell", Nothing, "", Done, "end at once and leave the job running"),
    long(ALL, "ntasks-per-node", Value, "=N", Done, "tasks on each node"),
    alias(ALL, "tasks-per-node", "ntasks-per-node", Value),
    both(ALL, b'N', "nodes", Value, "=N[-M]", Done, "number of nodes"),
    long(BATCH_RUN, "open-mode", Value, "=append|truncate", Done, "how output files are opened"),
    both(BATCH_RUN, b'o', "output", Value, "=FILE", Done, "file for standard output"),
    both(ALL, b'O', "overcommit", Nothing, "", Done, "more tasks than cores"),
    long(SRUN, "overlap", Nothing, "", Done, "share cores with other steps"),
    long(
        SRUN,
        "interactive",
        Nothing,
        "",
        Accepted("a shell of a job is a step like others"),
        "the step is a shell that others share the job with",
    ),
    long(
        SRUN,
        "msg-timeout",
        Value,
        "=SECONDS",
        Accepted("silence of nodes is noticed"),
        "how long to wait for an answer of nodes",
    ),
    long(SRUN, "het-group", Value, "=N", Done, "part of the job to run in"),
    both(ALL, b'p', "partition", Value, "=NAME", Done, "queue"),
    long(SBATCH, "parsable", Nothing, "", Done, "print the bare job id"),
    long(
        ALL,
        "power",
        Value,
        "=FLAGS",
        Accepted("what jobs draw is not capped"),
        "power management",
    ),
    long(ALL, "prefer", Value, "=LIST", Done, "features to take first"),
    long(
        ALL,
        "priority",
        Value,
        "=N",
        Done,
        "place in the queue (by administrators; of no effect for others)",
    ),
    long(ALL, "profile", Value, "=TYPES", PROFILING, "what to record while the job runs"),
    long(SRUN, "prolog", Value, "=PROGRAM", Done, "program to run here before the step"),
    long(
        BATCH_RUN,
        "propagate",
        Perhaps,
        "[=LIMITS]",
        Done,
        "which limits of this shell the job gets",
    ),
    long(
        SALLOC,
        "propagate",
        Perhaps,
        "[=LIMITS]",
        Accepted("the command runs under the limits of this shell"),
        "which limits the job gets",
    ),
    long(SRUN, "pty", Perhaps, "[=FD]", Done, "a terminal for task 0"),
    both(ALL, b'q', "qos", Value, "=NAME", Done, "quality of service"),
    both(ALL, b'Q', "quiet", Nothing, "", Done, "say no more than needed"),
    long(SRUN, "quit-on-interrupt", Nothing, "", Done, "end at the first Ctrl-C"),
    long(
        ALL,
        "reboot",
        Nothing,
        "",
        Refused("nodes are not rebooted for jobs"),
        "boot the nodes first",
    ),
    both(SRUN, b'r', "relative", Value, "=N", Done, "begin at this node of the job"),
    long(
        SBATCH,
        "requeue",
        Perhaps,
        "[=expedite]",
        Done,
        "run the job again after a node was lost, without a pause",
    ),
    both(
        ALL,
        b's',
        "oversubscribe",
        Nothing,
        "",
        Accepted("nodes are shared unless a job wants them whole"),
        "share nodes",
    ),
    alias(ALL, "share", "oversubscribe", Nothing),
    both(
        ALL,
        b'S',
        "core-spec",
        Value,
        "=N",
        Accepted("no cores are set aside"),
        "cores left to the system",
    ),
    long(
        SRUN,
        "send-libs",
        Perhaps,
        "[=yes|no]",
        Accepted("libraries are not copied; with --bcast only =no is taken"),
        "copy libraries with --bcast",
    ),
    long(ALL, "signal", Value, "=[B:]SIGNAL[@SECONDS]", Done, "signal before the time limit"),
    long(SRUN, "slurmd-debug", Value, "=LEVEL", Done, "say more about the processes of tasks"),
    long(ALL, "spread-job", Nothing, "", Done, "use as many nodes as possible"),
    long(ALL, "segment", Value, "=N", Done, "groups of N nodes on one leaf switch each"),
    long(ALL, "switches", Value, "=N[@TIME]", Done, "most leaf switches, for a while"),
    long(SRUN, "task-epilog", Value, "=PROGRAM", Done, "program to run after each task"),
    long(SRUN, "task-prolog", Value, "=PROGRAM", Done, "program to run before each task"),
    long(
        ALL,
        "thread-spec",
        Value,
        "=N",
        Accepted("no threads are set aside"),
        "threads left to the system",
    ),
    both(
        SRUN,
        b'T',
        "threads",
        Value,
        "=N",
        Accepted("steps start over a tree of nodes"),
        "how many nodes to start at once",
    ),
    both(ALL, b't', "time", Value, "=LIMIT", Done, "time limit"),
    long(ALL, "time-min", Value, "=LIMIT", Done, "least time that would do; recorded"),
    long(SBATCH, "test-only", Nothing, "", Done, "say when the job would start, submit nothing"),
    long(SRUN, "test-only", Nothing, "", Done, "say when the job would start, submit nothing"),
    long(
        ALL,
        "uid",
        Value,
        "=USER",
        Refused("submit as that user instead"),
        "run as this user (administrators)",
    ),
    both(SRUN, b'u', "unbuffered", Nothing, "", Done, "do not wait for whole lines"),
    long(ALL, "use-min-nodes", Nothing, "", Done, "take the smaller number of nodes"),
    both(ALL, b'v', "verbose", Nothing, "", Done, "say more"),
    both(SBATCH, b'W', "wait", Nothing, "", Done, "wait for the end of the job"),
    both(
        SRUN,
        b'W',
        "wait",
        Value,
        "=SECONDS",
        Done,
        "end the step so long after its first task's end",
    ),
    long(
        ALL,
        "wait-all-nodes",
        Value,
        "=0|1",
        Accepted("a job starts when all its nodes are ready"),
        "wait for all nodes",
    ),
    long(ALL, "wckey", Value, "=KEY", Done, "key for accounting; recorded"),
    long(SBATCH, "wrap", Value, "=COMMAND", Done, "submit this command as a script"),
    both(SRUN, b'X', "disable-status", Nothing, "", Done, "pass Ctrl-C on at once"),
    long(
        RUN_ALLOC,
        "x11",
        Perhaps,
        "[=WHERE]",
        Done,
        "show windows here: of all nodes, or first, last",
    ),
    long(
        SBATCH,
        "x11",
        Perhaps,
        "[=WHERE]",
        Refused("no command waits for a batch job that could show its windows: srun --x11 does"),
        "forward the display",
    ),
    long(ALL, "cluster-constraint", Value, "=LIST", NO_FEDERATION, "features of clusters"),
    long(ALL, "contiguous", Nothing, "", Done, "nodes side by side"),
    both(ALL, b'C', "constraint", Value, "=LIST", Done, "features that nodes must have"),
    both(ALL, b'F', "nodefile", Value, "=FILE", Done, "file with nodes to use"),
    long(ALL, "mem", Value, "=SIZE", Done, "memory on each node"),
    long(ALL, "mincpus", Value, "=N", Done, "least cores on each node"),
    long(ALL, "reservation", Value, "=NAME", Done, "run inside this reservation"),
    long(ALL, "tmp", Value, "=SIZE", Done, "scratch disk on each node"),
    both(ALL, b'w', "nodelist", Value, "=HOSTS", Done, "nodes that the job must get"),
    both(ALL, b'x', "exclude", Value, "=HOSTS", Done, "nodes that it must not get"),
    both(
        SRUN,
        b'Z',
        "no-allocate",
        Nothing,
        "",
        Refused("nothing runs outside of a job"),
        "run without a job",
    ),
    long(SRUN, "exact", Nothing, "", Done, "only what the step asks for"),
    long(
        SRUN,
        "whole",
        Nothing,
        "",
        Accepted("a step may use what its job has"),
        "all that the job has on its nodes",
    ),
    long(ALL, "exclusive", Perhaps, "[=user]", Done, "whole nodes"),
    long(ALL, "mem-per-cpu", Value, "=SIZE", Done, "memory for each core"),
    long(SRUN, "resv-ports", Perhaps, "[=N]", Accepted("MPI chooses its ports"), "ports for MPI"),
    long(ALL, "sockets-per-node", Value, "=N", CORES_COUNT, "sockets of each node"),
    long(ALL, "cores-per-socket", Value, "=N", CORES_COUNT, "cores of each socket"),
    long(ALL, "threads-per-core", Value, "=N", Ignored(CORES_OF_NODES), "threads of each core"),
    both(
        ALL,
        b'B',
        "extra-node-info",
        Value,
        "=S[:C[:T]]",
        CORES_COUNT,
        "sockets, cores and threads",
    ),
    long(
        ALL,
        "ntasks-per-core",
        Value,
        "=N",
        Accepted("each task has cores of its own"),
        "tasks on each core",
    ),
    long(ALL, "ntasks-per-socket", Value, "=N", CORES_COUNT, "tasks on each socket"),
    long(ALL, "hint", Value, "=KIND", Ignored(CORES_OF_NODES), "kind of program"),
    long(ALL, "mem-bind", Value, "=TYPE", BINDING, "where memory lies"),
    long(SRUN, "cpu-bind", Value, "=TYPE", Done, "which cores tasks use"),
    long(SRUN, "accel-bind", Value, "=TYPE", Done, "which GPUs tasks use"),
    long(ALL, "cpus-per-gpu", Value, "=N", Done, "cores for each GPU"),
    both(ALL, b'G', "gpus", Value, "=[TYPE:]N", Done, "GPUs of the whole job"),
    long(ALL, "gpu-bind", Value, "=TYPE", Done, "which GPUs tasks use"),
    long(ALL, "gpu-freq", Value, "=SPEC", FREQUENCY, "clock rate of GPUs"),
    long(ALL, "gpus-per-node", Value, "=[TYPE:]N", Done, "GPUs on each node"),
    long(ALL, "gpus-per-socket", Value, "=[TYPE:]N", Done, "GPUs for each socket"),
    long(ALL, "gpus-per-task", Value, "=[TYPE:]N", Done, "GPUs for each task"),
    long(ALL, "mem-per-gpu", Value, "=SIZE", Done, "memory for each GPU"),
    long(ALL, "ntasks-per-gpu", Value, "=N", Done, "tasks for each GPU"),
    both(ALL, b'h', "help", Nothing, "", Done, "show this text"),
    long(ALL, "usage", Nothing, "", Done, "show all options in short"),
    both(ALL, b'V', "version", Nothing, "", Done, "show the version"),
];

/// The options of a program, as its command line is read.
pub fn options(program: Program) -> Vec<Opt> {
    entries(program).map(|e| e.opt).collect()
}

/// The options of a program.
pub fn entries(program: Program) -> impl Iterator<Item = &'static OptionEntry> {
    TABLE.iter().filter(move |e| e.of.has(program))
}

/// The option of a program that is known by that name.
pub fn find(program: Program, name: &str) -> Option<&'static OptionEntry> {
    entries(program).find(|e| e.opt.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_twice() {
        for program in [Program::Sbatch, Program::Srun, Program::Salloc] {
            let options = options(program);
            let mut long: Vec<&str> = options.iter().map(|o| o.long).collect();
            let mut short: Vec<u8> = options.iter().filter_map(|o| o.short).collect();
            let (before, before_short) = (long.len(), short.len());
            long.sort_unstable();
            long.dedup();
            short.sort_unstable();
            short.dedup();
            assert_eq!((long.len(), short.len()), (before, before_short), "{program:?}");
        }
    }

    #[test]
    fn values_are_named_where_there_are_some() {
        for e in &TABLE {
            let want = match e.opt.argument {
                Nothing => "",
                Perhaps => "[=",
                Value => "=",
            };
            assert!(e.value.starts_with(want), "{}", e.opt.long);
            assert_eq!(e.value.is_empty(), e.opt.argument == Nothing, "{}", e.opt.long);
        }
    }
}
