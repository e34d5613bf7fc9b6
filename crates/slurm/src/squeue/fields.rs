//! What `squeue -o`, `-O` and `--sort` can show: letters, names, headings. Sources:
//! squeue(1), captures of `squeue -o` and `-O`.

use crate::job;
use cosy_model::api::JobField as F;

macro_rules! fields {
    ($($name:ident $letter:literal $words:tt $head:literal $needs:expr;)+) => {
        /// A column of `squeue`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Field {
            $(#[doc = concat!("Heading `", $head, "`.")] $name,)+
        }

        impl Field {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its letter for `-o` and `--sort`; a blank where it has none.
            const fn letter(self) -> char {
                match self { $(Self::$name => $letter,)+ }
            }

            /// Its names for `-O`, in small letters.
            pub const fn words(self) -> &'static [&'static str] {
                match self { $(Self::$name => &$words,)+ }
            }

            /// What stands above the column.
            pub const fn head(self) -> &'static str {
                match self { $(Self::$name => $head,)+ }
            }

            /// The fields of a job that it is made of.
            pub const fn needs(self) -> &'static [F] {
                match self { $(Self::$name => $needs,)+ }
            }
        }
    };
}

fields! {
    Account 'a' ["account"] "ACCOUNT" &[F::Account];
    JobId 'A' ["jobid"] "JOBID" &[F::Id, F::Ref, F::ArrayId];
    Gres 'b' ["tres-per-node", "gres"] "TRES_PER_NODE" &[F::Gres];
    BatchHost 'B' ["batchhost"] "EXEC_HOST" &[F::BatchHost];
    MinCpus 'c' ["mincpus"] "MIN_CPUS" &[F::CoresPerTask, F::TasksPerNode];
    Cpus 'C' ["numcpus"] "CPUS" &[F::Cores];
    MinDisk 'd' ["mintmpdisk"] "MIN_TMP_DISK" &[F::MinDisk];
    Nodes 'D' ["numnodes", "nodes"] "NODES" &[F::NodeCount, F::State];
    EndTime 'e' ["endtime"] "END_TIME" job::END;
    Dependency 'E' ["dependency"] "DEPENDENCY" &[F::DependencyText];
    Features 'f' ["feature"] "FEATURES" &[F::Constraint];
    ArrayJobId 'F' ["arrayjobid"] "ARRAY_JOB_ID" &[F::ArrayId, F::Id];
    GroupName 'g' ["groupname"] "GROUP" &[F::Gid];
    GroupId 'G' ["groupid"] "GROUP" &[F::Gid];
    OverSubscribe 'h' ["oversubscribe", "shared"] "OVER_SUBSCRIBE" job::OVERSUBSCRIBE;
    SocketsPerNode 'H' ["sockets"] "SOCKETS_PER_NODE" &[];
    JobArrayId 'i' ["jobarrayid"] "JOBID" &[F::Ref];
    CoresPerSocket 'I' ["cores"] "CORES_PER_SOCKET" &[];
    Name 'j' ["name"] "NAME" &[F::Name];
    ThreadsPerCore 'J' ["threads"] "THREADS_PER_CORE" &[];
    Comment 'k' ["comment"] "COMMENT" &[F::Comment];
    ArrayTaskId 'K' ["arraytaskid"] "ARRAY_TASK_ID" &[F::Ref, F::ArrayTask];
    TimeLimit 'l' ["timelimit"] "TIME_LIMIT" &[F::TimeLimit];
    TimeLeft 'L' ["timeleft"] "TIME_LEFT" &[F::TimeLimit, F::Elapsed, F::State];
    MinMemory 'm' ["minmemory"] "MIN_MEMORY" &[F::MemoryPerCore, F::MinMemoryPerNode, F::Queue];
    TimeUsed 'M' ["timeused"] "TIME" &[F::Elapsed];
    ReqNodes 'n' ["reqnodes"] "REQ_NODES" &[F::Require];
    NodeList 'N' ["nodelist"] "NODELIST" &[F::Nodes];
    Command 'o' ["command"] "COMMAND" &[F::Command];
    Contiguous 'O' ["contiguous"] "CONTIGUOUS" &[F::Contiguous];
    Priority 'p' ["priority"] "PRIORITY" &[F::Priority];
    Partition 'P' ["partition"] "PARTITION" job::PARTITION;
    Qos 'q' ["qos"] "QOS" &[F::Qos];
    PriorityLong 'Q' ["prioritylong"] "PRIORITY" &[F::Priority];
    Reason 'r' ["reason"] "REASON" job::REASON;
    ReasonList 'R' ["reasonlist"] "NODELIST(REASON)"
        &[F::Nodes, F::State, F::Reason, F::Signal, F::Restarts];
    SelectInfo 's' [] "" &[];
    StartTime 'S' ["starttime"] "START_TIME" &[F::Start, F::PredictedStart, F::Begin];
    StateCompact 't' ["statecompact"] "ST" &[F::State, F::Reason];
    State 'T' ["state"] "STATE" &[F::State, F::Reason];
    UserName 'u' ["username"] "USER" &[F::User];
    UserId 'U' ["userid"] "UID" &[F::Uid];
    Reservation 'v' ["reservation"] "RESERVATION" &[F::Reservation];
    SubmitTime 'V' ["submittime"] "SUBMIT_TIME" &[F::Submit];
    Wckey 'w' ["wckey"] "WCKEY" &[F::Wckey];
    Licenses 'W' ["licenses"] "LICENSES" &[F::Licenses];
    ExcNodes 'x' [] "EXC_NODES" &[F::Avoid];
    CoreSpec 'X' ["corespec"] "CORE_SPEC" &[];
    Nice 'y' ["nice"] "NICE" &[F::Nice];
    SchedNodes 'Y' ["schednodes"] "SCHEDNODES" &[];
    Sct 'z' ["sct"] "S:C:T" &[];
    WorkDir 'Z' ["workdir"] "WORK_DIR" &[F::Workdir];
    AccrueTime ' ' ["accruetime"] "ACCRUE_TIME" &[F::Eligible];
    AdminComment ' ' ["admin_comment"] "ADMIN_COMMENT" &[F::AdminComment];
    AllocNodes ' ' ["allocnodes"] "ALLOC_NODES" &[F::SubmitHost];
    AllocSid ' ' ["allocsid"] "ALLOC_SID" &[F::SubmitSession];
    AssocId ' ' ["associd"] "ASSOC_ID" &[];
    BatchFlag ' ' ["batchflag"] "BATCH_FLAG" &[F::Batch];
    BoardsPerNode ' ' ["boardspernode"] "BOARDS_PER_NODE" &[];
    BurstBuffer ' ' ["burstbuffer"] "BURST_BUFFER" &[];
    BurstBufferState ' ' ["burstbufferstate"] "BURST_BUFFER_STATE" &[];
    Cluster ' ' ["cluster"] "CLUSTER" &[];
    ClusterFeature ' ' ["clusterfeature"] "CLUSTER_FEATURES" &[];
    Container ' ' ["container"] "CONTAINER" &[];
    CpuFreq ' ' ["cpufreq"] "CPUFREQ" &[];
    CpusPerTask ' ' ["cpus-per-task"] "CPUS_PER_TASK" &[F::CoresPerTask];
    CpusPerTres ' ' ["cpus-per-tres"] "CPUS_PER_TRES" &[];
    Deadline ' ' ["deadline"] "DEADLINE" &[F::Deadline];
    DelayBoot ' ' ["delayboot"] "DELAY_BOOT" &[];
    DerivedExit ' ' ["derivedec"] "DERIVED_EC" &[F::DerivedExitCode, F::DerivedSignal];
    EligibleTime ' ' ["eligibletime"] "ELIGIBLE_TIME" &[F::Eligible];
    ExitCode ' ' ["exit_code"] "EXIT_CODE" &[F::ExitCode, F::Signal];
    HetJobId ' ' ["hetjobid"] "HET_JOB_ID" &[];
    HetJobIdSet ' ' ["hetjobidset"] "HET_JOB_ID_SET" &[];
    HetJobOffset ' ' ["hetjoboffset"] "HET_JOB_OFFSET" &[];
    LastSchedEval ' ' ["lastschedeval"] "LAST_SCHED_EVAL" &[F::Allocated, F::Submit];
    MaxCpus ' ' ["maxcpus"] "MAX_CPUS" &[];
    MaxNodes ' ' ["maxnodes"] "MAX_NODES" &[F::MaxNodes];
    McsLabel ' ' ["mcslabel"] "MCSLABEL" &[];
    MemPerTres ' ' ["mem-per-tres"] "MEM_PER_TRES" &[];
    MinTime ' ' ["mintime"] "MIN_TIME" &[F::TimeMin];
    Network ' ' ["network"] "NETWORK" &[];
    NtPerBoard ' ' ["ntperboard"] "TASKS_PER_BOARD" &[];
    NtPerCore ' ' ["ntpercore"] "TASKS_PER_CORE" &[];
    NtPerNode ' ' ["ntpernode"] "TASKS_PER_NODE" &[F::TasksPerNode];
    NtPerSocket ' ' ["ntpersocket"] "TASKS_PER_SOCKET" &[];
    NumTasks ' ' ["numtasks"] "TASKS" &[F::Tasks];
    Origin ' ' ["origin"] "ORIGIN" &[];
    OriginRaw ' ' ["originraw"] "ORIGIN_RAW" &[];
    PendingTime ' ' ["pendingtime"] "PENDING_TIME" &[F::Start, F::Submit];
    PreemptTime ' ' ["preempttime"] "PREEMPT_TIME" &[F::PreemptTime];
    PreemptableTime ' ' ["preemptabletime"] "PREEMPTABLE_TIME" &[F::Start, F::PreemptEligible];
    Prefer ' ' ["prefer"] "PREFER" &[F::Prefer];
    Profile ' ' ["profile"] "PROFILE" &[];
    Reboot ' ' ["reboot"] "REBOOT" &[];
    ReqSwitch ' ' ["reqswitch"] "REQ_SWITCH" &[F::MaxSwitches];
    Requeue ' ' ["requeue"] "REQUEUE" &[F::Requeue];
    ResizeTime ' ' ["resizetime"] "RESIZE_TIME" &[F::Resized];
    RestartCount ' ' ["restartcnt"] "RESTART_COUNT" &[F::Restarts];
    ResvPorts ' ' ["resvport"] "RESV_PORT" &[];
    SiblingsActive ' ' ["siblingsactive"] "ACTIVE_SIBLINGS" &[];
    SiblingsActiveRaw ' ' ["siblingsactiveraw"] "ACTIVE_SIBLINGS_RAW" &[];
    SiblingsViable ' ' ["siblingsviable"] "VIABLE_SIBLINGS" &[];
    SiblingsViableRaw ' ' ["siblingsviableraw"] "VIABLE_SIBLINGS_RAW" &[];
    Sicp ' ' ["sicp"] "SICP" &[];
    SocketsPerBoard ' ' ["sperboard"] "SOCKETS_PER_BOARD" &[];
    Stderr ' ' ["stderr"] "STDERR" &[F::Stderr];
    Stdin ' ' ["stdin"] "STDIN" &[F::Stdin];
    Stdout ' ' ["stdout"] "STDOUT" &[F::Stdout];
    SystemComment ' ' ["system_comment"] "SYSTEM_COMMENT" &[];
    TresAlloc ' ' ["tres-alloc", "tres"] "TRES_ALLOC" job::TRES;
    TresBind ' ' ["tres-bind"] "TRES_BIND" &[];
    TresFreq ' ' ["tres-freq"] "TRES_FREQ" &[];
    TresPerJob ' ' ["tres-per-job"] "TRES_PER_JOB" &[];
    TresPerSocket ' ' ["tres-per-socket"] "TRES_PER_SOCKET" &[];
    TresPerTask ' ' ["tres-per-task"] "TRES_PER_TASK" &[];
    Wait4Switch ' ' ["wait4switch"] "WAIT4SWITCH" &[F::SwitchWait];
}

impl Field {
    /// What a letter of `-o` means.
    pub fn of_letter(letter: char) -> Option<Self> {
        let named = |f: &&Self| f.letter() == letter && letter != ' ';
        Self::ALL.iter().find(named).copied()
    }

    /// What a name of `-O` means, in letters of any case.
    pub fn of_word(word: &str) -> Option<Self> {
        let named = |f: &&Self| f.words().iter().any(|w| w.eq_ignore_ascii_case(word));
        Self::ALL.iter().find(named).copied()
    }
}

macro_rules! step_fields {
    ($($name:ident $letter:literal $words:tt $head:literal;)+) => {
        /// A column of `squeue --steps`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum StepField {
            $(#[doc = concat!("Heading `", $head, "`.")] $name,)+
        }

        impl StepField {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            const fn letter(self) -> char {
                match self { $(Self::$name => $letter,)+ }
            }

            const fn words(self) -> &'static [&'static str] {
                match self { $(Self::$name => &$words,)+ }
            }

            /// What stands above the column.
            pub const fn head(self) -> &'static str {
                match self { $(Self::$name => $head,)+ }
            }
        }
    };
}

step_fields! {
    StepId 'i' ["stepid"] "STEPID";
    ArrayJobId 'F' ["arrayjobid"] "ARRAY_JOB_ID";
    ArrayTaskId 'K' ["arraytaskid"] "ARRAY_TASK_ID";
    Name 'j' ["stepname"] "NAME";
    TimeLimit 'l' ["timelimit"] "TIME_LIMIT";
    TimeUsed 'M' ["timeused"] "TIME";
    NodeList 'N' ["nodes", "nodelist"] "NODELIST";
    Partition 'P' ["partition"] "PARTITION";
    StartTime 'S' ["starttime"] "START_TIME";
    Tasks 'A' ["numtasks"] "TASKS";
    State 'T' ["stepstate", "state"] "STATE";
    StateCompact 't' ["statecompact"] "ST";
    UserName 'u' ["username"] "USER";
    UserId 'U' ["userid"] "UID";
    Gres 'b' ["tres-per-node", "gres"] "TRES_PER_NODE";
    JobId ' ' ["jobid"] "JOBID";
    Cluster ' ' ["cluster"] "CLUSTER";
}

impl StepField {
    /// What a letter of `-o` means.
    pub fn of_letter(letter: char) -> Option<Self> {
        let named = |f: &&Self| f.letter() == letter && letter != ' ';
        Self::ALL.iter().find(named).copied()
    }

    /// What a name of `-O` means, in letters of any case.
    pub fn of_word(word: &str) -> Option<Self> {
        let named = |f: &&Self| f.words().iter().any(|w| w.eq_ignore_ascii_case(word));
        Self::ALL.iter().find(named).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_fields_alone() {
        for (at, field) in Field::ALL.iter().enumerate() {
            for word in field.words() {
                assert_eq!(Field::of_word(word), Some(*field), "{word}");
                assert_eq!(Field::of_word(&word.to_uppercase()), Some(*field));
            }
            if field.letter() != ' ' {
                assert_eq!(Field::of_letter(field.letter()), Some(*field), "{at}");
            }
        }
        for field in StepField::ALL {
            assert_eq!(StepField::of_word(field.words()[0]), Some(*field));
        }
        assert_eq!(Field::of_letter(' '), None);
        assert_eq!(Field::of_letter('!'), None);
        assert_eq!(Field::of_word("nosuchfield"), None);
    }

    /// `SE` is a job that waits, for a reason of its own.
    #[test]
    fn a_state_is_made_of_its_reason_too() {
        for field in [Field::State, Field::StateCompact] {
            assert!(field.needs().contains(&F::Reason), "{field:?}");
        }
    }

    /// All letters of the captured `squeue -o` but `%G`, with their headings.
    #[test]
    fn every_captured_letter_is_there() {
        let letters = "AFKijTtuUPlLDCcmNrRQpSeVyZokEfbhagHIJXWwqvxYzBdnOG";
        for letter in letters.chars() {
            assert!(Field::of_letter(letter).is_some(), "{letter}");
        }
    }
}
