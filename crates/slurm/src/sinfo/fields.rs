//! What `sinfo -o` and `-O` can show: letters, names, headings. Sources: sinfo(1), captures
//! of `sinfo -o`.

macro_rules! fields {
    ($($name:ident $letter:literal $words:tt $head:literal;)+) => {
        /// A column of `sinfo`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Field {
            $(#[doc = concat!("Heading `", $head, "`.")] $name,)+
        }

        impl Field {
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

fields! {
    Available 'a' ["available"] "AVAIL";
    NodesAi 'A' ["nodeai"] "NODES(A/I)";
    ActiveFeatures 'b' ["features_act"] "ACTIVE_FEATURES";
    MaxCpusPerNode 'B' ["maxcpuspernode"] "MAX_CPUS_PER_NODE";
    Cpus 'c' ["cpus"] "CPUS";
    CpusState 'C' ["cpusstate"] "CPUS(A/I/O/T)";
    Disk 'd' ["disk"] "TMP_DISK";
    Nodes 'D' ["nodes"] "NODES";
    FreeMemory 'e' ["freemem"] "FREE_MEM";
    Reason 'E' ["reason"] "REASON";
    Features 'f' ["features"] "AVAIL_FEATURES";
    NodesAiot 'F' ["nodeaiot"] "NODES(A/I/O/T)";
    Groups 'g' ["groups"] "GROUPS";
    Gres 'G' ["gres"] "GRES";
    OverSubscribe 'h' ["oversubscribe", "share"] "OVERSUBSCRIBE";
    Timestamp 'H' ["timestamp"] "TIMESTAMP";
    JobFactor 'I' ["priorityjobfactor"] "PRIO_JOB_FACTOR";
    TimeLimit 'l' ["time"] "TIMELIMIT";
    DefaultTime 'L' ["defaulttime"] "DEFAULTTIME";
    Memory 'm' ["memory"] "MEMORY";
    PreemptMode 'M' ["preemptmode"] "PREEMPT_MODE";
    HostNames 'n' ["nodehost"] "HOSTNAMES";
    NodeList 'N' ["nodelist"] "NODELIST";
    NodeAddr 'o' ["nodeaddr"] "NODE_ADDR";
    CpuLoad 'O' ["cpusload"] "CPU_LOAD";
    Tier 'p' ["prioritytier"] "PRIO_TIER";
    Partition 'P' ["partition"] "PARTITION";
    Root 'r' ["root"] "ROOT";
    PartitionName 'R' ["partitionname"] "PARTITION";
    JobSize 's' ["size"] "JOB_SIZE";
    AllocNodes 'S' ["allocnodes"] "ALLOCNODES";
    StateCompact 't' ["statecompact"] "STATE";
    StateLong 'T' ["statelong"] "STATE";
    User 'u' ["user"] "USER";
    UserLong 'U' ["userlong"] "USER";
    Version 'v' ["version"] "VERSION";
    Cluster 'V' ["cluster"] "CLUSTER";
    Weight 'w' ["weight"] "WEIGHT";
    Sockets 'X' ["sockets"] "SOCKETS";
    Cores 'Y' ["cores"] "CORES";
    Threads 'Z' ["threads"] "THREADS";
    Sct 'z' ["socketcorethread"] "S:C:T";
    AllocMem ' ' ["allocmem"] "ALLOCMEM";
    Comment ' ' ["comment"] "COMMENT";
    Extra ' ' ["extra"] "EXTRA";
    GresUsed ' ' ["gresused"] "GRES_USED";
    Port ' ' ["port"] "PORT";
    StateComplete ' ' ["statecomplete"] "STATE";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_names() {
        for field in Field::ALL {
            for word in field.words() {
                assert_eq!(Field::of_word(&word.to_uppercase()), Some(*field), "{word}");
            }
            if field.letter() != ' ' {
                assert_eq!(Field::of_letter(field.letter()), Some(*field));
            }
        }
        assert_eq!(Field::of_letter('i'), None);
        assert_eq!(Field::of_letter('k'), None);
    }
}
