//! What may stand on the command lines of Slurm's commands, out of the tables that they are read
//! with.

use super::grammar::{Grammar, Kind, Opt, words};
use crate::slurm::{sacctmgr, sattach, sbcast};
use cosy_slurm::control::{self, Entity};
use cosy_slurm::getopt::{self, Argument};
use cosy_slurm::sacct::sstat;
use cosy_slurm::state::SlurmState;
use cosy_slurm::submit::Program;
use cosy_slurm::submit::table::TABLE;
use cosy_slurm::table::Row;
use cosy_slurm::{sacct, scancel, sinfo, small_reports, squeue, sreport, strigger};

/// The grammar of Slurm's command of that name.
pub fn of(name: &str) -> Grammar {
    let submits = |program, word| Grammar {
        options: submit_options(program),
        words: vec![word],
        program: true,
        ..Grammar::default()
    };
    match name {
        "sbatch" => submits(Program::Sbatch, Kind::File),
        "srun" => submits(Program::Srun, Kind::Program),
        "salloc" => submits(Program::Salloc, Kind::Program),
        "scontrol" => Grammar {
            options: options(name, control::OPTIONS),
            commands: scontrol(),
            ..Grammar::default()
        },
        _ => Grammar {
            options: options(name, rows(name)),
            words: word(name).into_iter().collect(),
            ..Grammar::default()
        },
    }
}

/// The options of a command that has a table of rows.
fn rows(name: &str) -> &'static [Row] {
    match name {
        "sacct" => sacct::options::OPTIONS,
        "sacctmgr" => sacctmgr::OPTIONS,
        "sattach" => sattach::OPTIONS,
        "sbcast" => sbcast::OPTIONS,
        "scancel" => scancel::OPTIONS,
        "sdiag" => small_reports::SDIAG,
        "sinfo" => sinfo::options::OPTIONS,
        "sprio" => small_reports::SPRIO,
        "squeue" => squeue::options::OPTIONS,
        "sreport" => sreport::options::OPTIONS,
        "sshare" => small_reports::SSHARE,
        "sstat" => sstat::OPTIONS,
        "strigger" => strigger::OPTIONS,
        _ => &[],
    }
}

/// What words that are no options are.
fn word(name: &str) -> Option<Kind> {
    match name {
        "scancel" | "sattach" => Some(Kind::LiveJob),
        "seff" => Some(Kind::Job),
        "sbcast" => Some(Kind::File),
        _ => None,
    }
}

fn submit_options(program: Program) -> Vec<Opt> {
    let of_program = TABLE.iter().filter(|entry| entry.of.has(program));
    let option = |entry: &cosy_slurm::submit::table::OptionEntry| {
        let listed = entry.opt.name == entry.opt.long;
        let about = if listed { entry.about } else { "" };
        option(program.name(), &entry.opt, entry.value, about)
    };
    of_program.map(option).collect()
}

fn options(name: &str, rows: &[Row]) -> Vec<Opt> {
    rows.iter()
        .map(|row| option(name, &row.opt, row.value, row.about))
        .collect()
}

fn option(of: &str, opt: &getopt::Opt, value: &str, about: &str) -> Opt {
    Opt {
        long: opt.long.to_owned(),
        short: opt.short.map(char::from),
        about: about.to_owned(),
        value: match opt.argument {
            Argument::Nothing => None,
            Argument::Value | Argument::Perhaps => Some(kind(of, opt.name, value)),
        },
        joined: opt.argument == Argument::Perhaps,
    }
}

/// What the value of the option `name` of the command `of` is; `value` is what the help calls it.
fn kind(of: &str, name: &str, value: &str) -> Kind {
    match name {
        "partition" | "partitions" => Kind::Queue,
        "reservation" => Kind::ReservationName,
        "account" | "accounts" => Kind::Account,
        "user" | "users" | "uid" => Kind::User,
        "nodelist" | "exclude" | "node" => Kind::Node,
        "nodes" if value.ends_with("NODES") => Kind::Node,
        "job" | "jobs" | "jobid" => match of {
            "sacct" => Kind::Job,
            _ => Kind::LiveJob,
        },
        "state" | "states" if of != "sinfo" => words(SlurmState::ALL.iter().map(|s| s.name())),
        "output" | "error" | "input" | "file" => Kind::File,
        "chdir" => Kind::Folder,
        _ => Kind::Free,
    }
}

/// The commands of `scontrol`.
fn scontrol() -> Vec<(String, String, Grammar)> {
    let commands = control::Command::ALL.iter();
    commands
        .filter(|(.., about)| !about.starts_with("refused"))
        .map(|(_, word, about)| ((*word).to_owned(), (*about).to_owned(), after(word)))
        .collect()
}

/// What stands behind a command of `scontrol`.
fn after(word: &str) -> Grammar {
    let of = |kind| Grammar {
        words: vec![kind],
        ..Grammar::default()
    };
    match word {
        "hold" | "holdu" | "uhold" | "release" | "requeue" | "requeuehold" | "suspend"
        | "resume" | "top" | "wait_job" | "notify" => of(Kind::LiveJob),
        "update" | "delete" => of(Kind::Pairs(vec![
            ("JobId", Kind::LiveJob),
            ("NodeName", Kind::Node),
            ("PartitionName", Kind::Queue),
            ("ReservationName", Kind::ReservationName),
        ])),
        "show" => Grammar {
            commands: entities().collect(),
            ..Grammar::default()
        },
        _ => Grammar::default(),
    }
}

/// What `scontrol show` shows.
fn entities() -> impl Iterator<Item = (String, String, Grammar)> {
    let entities = Entity::ALL.iter();
    let told = |about: &str| !about.starts_with("nothing") && !about.starts_with("refused");
    entities
        .filter(move |(.., about)| told(about))
        .map(|(entity, word, about)| {
            let kind = match entity {
                Entity::Jobs | Entity::Steps => Some(Kind::Job),
                Entity::Nodes => Some(Kind::Node),
                Entity::Partitions => Some(Kind::Queue),
                Entity::Reservations => Some(Kind::ReservationName),
                _ => None,
            };
            // Users type `show job 12` and not `show jobs 12`.
            let word = match kind {
                Some(_) => word.trim_end_matches('s'),
                None => word,
            };
            let grammar = Grammar {
                words: kind.into_iter().collect(),
                ..Grammar::default()
            };
            (word.to_owned(), (*about).to_owned(), grammar)
        })
}
