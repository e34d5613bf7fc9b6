//! What may stand on the command line of a command: its options, its commands, and what the values
//! of each are. Made from the same tables that the command itself is read with.

use clap::{Arg, ArgAction, Command};
use cosy_model::JobState;
use cosy_model::api::JobField;
use cosy_model::reservation::ReservationState;
use cosy_model::workflow::FlowState;

/// What a value is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing that could be listed.
    Free,
    /// One of these words, each with what is told of it.
    Words(Vec<(String, String)>),
    /// A queue.
    Queue,
    /// An own job that has not ended.
    LiveJob,
    /// An own job, also one that ended lately.
    Job,
    /// A reservation, by its number.
    Reservation,
    /// A reservation, by its name.
    ReservationName,
    /// A node.
    Node,
    /// An own workflow.
    Flow,
    /// An account that the user may charge.
    Account,
    /// A user of this host.
    User,
    /// A file.
    File,
    /// A directory.
    Folder,
    /// A program.
    Program,
    /// `NAME=VALUE`: names as they are listed, each with what its values are.
    Pairs(Vec<(&'static str, Kind)>),
    /// One of several kinds.
    OneOf(Vec<Kind>),
}

/// An option.
#[derive(Clone, Debug)]
pub struct Opt {
    /// Its name without the dashes; empty without one.
    pub long: String,
    /// Its letter.
    pub short: Option<char>,
    /// What it does; empty: it is read, and not listed.
    pub about: String,
    /// What its value is; `None` without a value.
    pub value: Option<Kind>,
    /// The value may only stand in the same word.
    pub joined: bool,
}

/// What may stand on a command line.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// Its options, also those that are not listed.
    pub options: Vec<Opt>,
    /// Commands of the command, each with what it does.
    pub commands: Vec<(String, String, Grammar)>,
    /// Words that are neither; the last of them may be repeated.
    pub words: Vec<Kind>,
    /// From the first such word on, everything belongs to a program that is named by it.
    pub program: bool,
}

/// The names that are words for jobs, by the name of the command.
fn jobs_of(command: &str) -> Kind {
    match command {
        "resv" => Kind::Reservation,
        "flow" => Kind::Flow,
        "cancel" | "hold" | "release" | "change" | "job" => Kind::LiveJob,
        _ => Kind::Job,
    }
}

/// The grammar of a command of Cosy's own; `of` is what `cosy NAME` calls it.
pub fn of_clap(command: &Command, of: &str) -> Grammar {
    let mut command = command.clone();
    command.build();
    built(&command, of)
}

fn built(command: &Command, of: &str) -> Grammar {
    let shown = |sub: &&Command| !sub.is_hide_set();
    let commands = command
        .get_subcommands()
        .filter(shown)
        .map(|sub| (sub.get_name().to_owned(), text(sub.get_about()), built(sub, of)));
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    Grammar {
        options: options.map(|arg| option(arg, of)).collect(),
        commands: commands.collect(),
        words: command.get_positionals().map(|arg| kind(arg, of)).collect(),
        program: command.get_positionals().any(Arg::is_trailing_var_arg_set),
    }
}

fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}

fn option(arg: &Arg, of: &str) -> Opt {
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let least = arg.get_num_args().map_or(1, |n| n.min_values());
    Opt {
        long: arg.get_long().unwrap_or_default().to_owned(),
        short: arg.get_short(),
        about: match arg.is_hide_set() {
            true => String::new(),
            false => text(arg.get_help()),
        },
        value: takes.then(|| kind(arg, of)),
        joined: least == 0,
    }
}

/// What the value of an argument is, as far as its name or that of its value says.
fn kind(arg: &Arg, of: &str) -> Kind {
    let values = arg.get_possible_values();
    if !values.is_empty() {
        let word = |v: clap::builder::PossibleValue| (v.get_name().to_owned(), text(v.get_help()));
        return Kind::Words(values.into_iter().map(word).collect());
    }
    let name = arg.get_value_names().and_then(<[_]>::first);
    let name = name.map_or("", |n| n.split(['[', ' ']).next().unwrap_or_default());
    match (arg.get_id().as_str(), name) {
        ("queue", _) | (_, "QUEUE") => Kind::Queue,
        ("reservation", _) => Kind::Reservation,
        ("what", _) if of == "stat" => {
            Kind::OneOf(vec![words(["queues", "nodes", "plan", "share"]), Kind::Job])
        }
        ("job", "ID") => Kind::LiveJob,
        ("id", _) => jobs_of(of),
        ("state", _) => states(of),
        ("format", _) => words(JobField::ALL.iter().map(|f| f.word())),
        (_, "NODES") => Kind::Node,
        (_, "ACCOUNT") | ("account", _) => Kind::Account,
        (_, "USER") => Kind::User,
        (_, "FILE" | "SCRIPT" | "SLURM.CONF" | "STORE" | "SOURCE") => Kind::File,
        (_, "DIR") => Kind::Folder,
        (_, "COMMAND") => Kind::Program,
        _ => Kind::Free,
    }
}

/// Words that need no explanation.
pub fn words<'a>(all: impl IntoIterator<Item = &'a str>) -> Kind {
    let word = |word: &str| (word.to_owned(), String::new());
    Kind::Words(all.into_iter().map(word).collect())
}

fn states(of: &str) -> Kind {
    match of {
        "resv" => words(ReservationState::ALL.iter().map(|s| s.word())),
        "flow" => words(FlowState::ALL.iter().map(|s| s.word())),
        _ => words(JobState::ALL.iter().map(|s| s.word())),
    }
}
