//! `scontrol`'s words: options, commands, entities.
//!
//! Commands and entities may be shortened and are written in letters of any case. Knows
//! nothing of what becomes of them. Source: scontrol(1), captures of 22.05.

pub mod job;
pub mod node;
pub mod pairs;
pub mod partition;
pub mod reservation;
pub mod resize;
pub mod step;

use crate::getopt::{Argument, Opt};
use crate::table::Row;

/// Options before the command: `scontrol -o show job`.
pub const OPTIONS: &[Row] = &[
    Row::flag(b'a', "all", "everything, hidden partitions too (none are hidden)"),
    Row::flag(b'd', "details", "more of each job"),
    Row::long_flag("federation", "accepted; there are no federations here"),
    Row::flag(b'F', "future", "accepted; no nodes are kept for later here"),
    Row::flag(b'h', "help", "say what there is, and exit"),
    Row::long_flag("hide", "accepted; no partitions are hidden here"),
    Row::long_flag("local", "accepted; there are no federations here"),
    Row::value(b'M', "cluster", "NAME", "cluster: only this one here"),
    Row::hidden(Opt::both(b'M', "clusters", Argument::Value).known_as("cluster")),
    Row::flag(b'o', "oneliner", "each record on one line"),
    Row::flag(b'Q', "quiet", "say nothing but errors"),
    Row::long_flag("sibling", "accepted; there are no federations here"),
    Row::value(b'u', "uid", "USER", "refused: a request is always one's own"),
    Row::long_flag("usage", "say what there is, and exit"),
    Row::flag(b'v', "verbose", "how many records there are"),
    Row::flag(b'V', "version", "say the version, and exit"),
];

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($variant:ident $word:literal $least:literal $about:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $(#[doc = $about] $variant,)*
        }

        impl $name {
            /// The word and what is told of it.
            pub const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$variant, $word, $about),)*];

            /// The one that a text begins, of at least as many letters as it needs.
            pub fn of(text: &str) -> Option<Self> {
                let least = |word: Self| match word { $(Self::$variant => $least,)* };
                let is = |(it, word, _): &&(Self, &'static str, &'static str)| {
                    text.len() >= least(*it)
                        && word.get(..text.len()).is_some_and(|w| w.eq_ignore_ascii_case(text))
                };
                Self::ALL.iter().find(is).map(|(it, ..)| *it)
            }
        }
    };
}

words! {
    /// First word of a line of `scontrol`.
    Command:
    Abort "abort" 5 "refused: cosyd is stopped by the service manager",
    All "all" 3 "show everything from here on",
    CancelReboot "cancel_reboot" 3 "refused: nodes are not rebooted",
    Cluster "cluster" 2 "another cluster (interactive)",
    Completing "completing" 3 "jobs that are being cleaned up",
    Create "create" 3 "a reservation or a partition",
    Delete "delete" 3 "a reservation or a partition",
    Details "details" 3 "more of each job from here on",
    Errnumstr "errnumstr" 4 "the sentence of an error number",
    Exit "exit" 1 "leave",
    FsDampeningFactor "fsdampeningfactor" 3 "refused: there is no such factor",
    Help "help" 2 "say what there is",
    Hide "hide" 2 "accepted",
    Hold "hold" 4 "keep waiting jobs from starting",
    Holdu "holdu" 5 "the same as their user",
    Listpids "listpids" 2 "processes of jobs on this host",
    Notify "notify" 1 "tell a running job something",
    Oneliner "oneliner" 1 "each record on one line from here on",
    Pidinfo "pidinfo" 3 "the job of a process of this host",
    Ping "ping" 3 "whether the controller is there",
    Power "power" 3 "switch nodes on or off: up, down [asap|force] NODES",
    Quiet "quiet" 4 "say nothing but errors",
    Quit "quit" 4 "leave",
    Reboot "reboot" 3 "refused: nodes are not rebooted",
    Reconfigure "reconfigure" 3 "read the configuration again",
    Release "release" 3 "let held jobs go",
    RequeueHold "requeuehold" 8 "put jobs back into the queue and hold them",
    Requeue "requeue" 3 "put jobs back into the queue",
    Resume "resume" 3 "let suspended jobs run on",
    SchedLogLevel "schedloglevel" 3 "refused: the log is set in cosy.toml",
    SetDebug "setdebug" 8 "refused: the log is set in cosy.toml",
    SetDebugFlags "setdebugflags" 9 "refused: the log is set in cosy.toml",
    Show "show" 3 "records of jobs, nodes and all else",
    Shutdown "shutdown" 3 "refused: cosyd is stopped by the service manager",
    Suspend "suspend" 2 "stop running jobs for a while",
    Takeover "takeover" 8 "have another controller lead",
    Token "token" 5 "a token for programs that ask over REST",
    Top "top" 3 "put jobs before the others of their user",
    Uhold "uhold" 5 "hold as the user would",
    Update "update" 1 "change jobs, steps, nodes, partitions, reservations",
    Verbose "verbose" 4 "how many records there are, from here on",
    Version "version" 4 "say the version",
    WaitJob "wait_job" 3 "wait until a job has its nodes",
    Write "write" 5 "the script of a job, or the configuration",
}

words! {
    /// What can be shown.
    Entity:
    Aliases "aliases" 1 "other names of nodes: none",
    AssocMgr "assoc_mgr" 2 "users and accounts in the controller",
    BbStat "bbstat" 2 "nothing: there are no burst buffers",
    BurstBuffer "burstbuffer" 2 "nothing: there are no burst buffers",
    Config "config" 1 "how the cluster is set up",
    Daemons "daemons" 1 "which daemons run here",
    DwStat "dwstat" 2 "nothing: there are no burst buffers",
    Federation "federation" 2 "nothing: there are no federations",
    Frontend "frontend" 2 "nothing: there are no front ends",
    HostlistSorted "hostlistsorted" 9 "a list of hosts in short, sorted",
    Hostlist "hostlist" 5 "a list of hosts in short",
    Hostnames "hostnames" 5 "a list of hosts, one in each line",
    Jobs "jobs" 1 "jobs",
    Licenses "licenses" 2 "licences",
    Nodes "nodes" 1 "nodes",
    Partitions "partitions" 1 "partitions",
    Reservations "reservations" 1 "reservations",
    Slurmd "slurmd" 2 "refused: ask the node itself",
    Steps "steps" 2 "steps of a job",
    Topology "topology" 1 "the switches that nodes hang on",
}

/// Other words for entities: those of `update`.
const ENTITY_NAMES: &[(&str, Entity)] = &[
    ("jobid", Entity::Jobs),
    ("nodename", Entity::Nodes),
    ("partitionname", Entity::Partitions),
    ("reservationname", Entity::Reservations),
];

impl Entity {
    /// The one that is meant, also by its word in `update`.
    pub fn named(text: &str) -> Option<Self> {
        let is = |(word, _): &&(&str, Self)| word.eq_ignore_ascii_case(text);
        let other = || ENTITY_NAMES.iter().find(is).map(|(_, entity)| *entity);
        Self::of(text).or_else(other)
    }
}

/// The text of `--help`.
pub fn help() -> String {
    let options = crate::table::help("scontrol [OPTIONS] [COMMAND ...]", OPTIONS);
    format!("{options}\n{}", commands())
}

/// What the command `help` says: the commands, and what `show` knows.
pub fn commands() -> String {
    let mut text = String::new();
    let mut list = |title: &str, words: &mut dyn Iterator<Item = (&str, &str)>| {
        text.push_str(&format!("{title}\n"));
        for (word, about) in words {
            text.push_str(&format!("  {word:<18}{about}\n"));
        }
    };
    list("Valid <COMMAND> values are:", &mut Command::ALL.iter().map(|(_, w, a)| (*w, *a)));
    list("\nshow <ENTITY> [<ID>]:", &mut Entity::ALL.iter().map(|(_, w, a)| (*w, *a)));
    text
}

/// A line of the interactive mode as words: blanks separate, quotes keep together.
pub fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn help_lists_what_there_is() {
        let listed = super::commands();
        for (_, word, about) in Command::ALL.iter() {
            let line = format!("  {word:<18}{about}\n");
            assert!(listed.contains(&line), "{word}");
        }
        assert!(!listed.contains("--"), "{listed}");
        let help = super::help();
        assert!(help.contains("--oneliner") && help.ends_with(&listed));
    }

    #[test]
    fn commands() {
        let check = |text: &str, want| assert_eq!(Command::of(text), want, "{text}");
        check("show", Some(Command::Show));
        check("SHO", Some(Command::Show));
        check("sh", None);
        check("requeue", Some(Command::Requeue));
        check("requeuehold", Some(Command::RequeueHold));
        check("requeueh", Some(Command::RequeueHold));
        check("uhold", Some(Command::Uhold));
        check("holdu", Some(Command::Holdu));
        check("update", Some(Command::Update));
        check("foo", None);
        check("", None);
    }

    #[test]
    fn entities() {
        let check = |text: &str, want| assert_eq!(Entity::named(text), want, "{text}");
        check("PartitionName", Some(Entity::Partitions));
        check("reservationname", Some(Entity::Reservations));
        check("job", Some(Entity::Jobs));
        check("jobs", Some(Entity::Jobs));
        check("hostname", Some(Entity::Hostnames));
        check("hostlist", Some(Entity::Hostlist));
        check("hostlistsorted", Some(Entity::HostlistSorted));
        check("res", Some(Entity::Reservations));
        check("lic", Some(Entity::Licenses));
        check("part", Some(Entity::Partitions));
        check("é", None);
        check("foo", None);
    }

    #[test]
    fn lines() {
        let check = |line: &str, want: &[&str]| assert_eq!(words_of(line), want, "{line}");
        check("show job 5", &["show", "job", "5"]);
        check(" update a=\"b c\" ''", &["update", "a=b c", ""]);
        check("", &[]);
    }

    #[test]
    fn everything_is_told() {
        let text = help();
        for (_, word, about) in Command::ALL {
            assert!(text.contains(word) && text.contains(about), "{word}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "\\PC{0,20}") {
            let _ = (Command::of(&text), Entity::of(&text), words_of(&text));
        }
    }
}
