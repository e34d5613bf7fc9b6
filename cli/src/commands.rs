//! Which commands there are, and by which names: Cosy's own, and Slurm's.
//!
//! What a command must know of all others, as `cosy dev` and `cosy generate`, is handed to it
//! here.

use crate::native::entry::Entry;
use crate::native::{
    admin, alloc, cancel, cast, change, container, dev, each, efficiency, flow, follow, generate,
    history, job, mpi, resv, run, stat, submit, table, top, wait, web,
};
use crate::{Context, slurm};
use clap::{ArgMatches, Command};

const fn entry(
    name: &'static str,
    short: Option<&'static str>,
    build: fn() -> Command,
    run: fn(&Context, &ArgMatches) -> anyhow::Result<u8>,
) -> Entry {
    Entry {
        name,
        short,
        shown: true,
        build,
        run,
    }
}

/// All commands of Cosy's own.
pub static ALL: [Entry; 29] = [
    entry("submit", Some("csub"), submit::options::command, submit::run),
    entry("run", None, run::options::command, run::run),
    entry("each", None, each::command, each::run),
    entry("alloc", Some("calloc"), alloc::command, alloc::run),
    entry("cast", Some("cbcast"), cast::command, cast::run),
    entry("stat", Some("cstat"), stat::command, stat::run),
    entry("top", Some("ctop"), top::command, top::run),
    entry("cancel", Some("ccancel"), cancel::command, cancel::run),
    entry("hist", Some("chist"), history::command, history::run),
    entry("efficiency", None, efficiency::command, efficiency::run),
    entry("tail", None, follow::tail_command, follow::tail),
    entry("cat", None, follow::cat_command, follow::cat),
    entry("resv", Some("cresv"), resv::command, resv::run),
    entry("flow", None, flow::command, flow::run),
    entry("hold", None, change::hold_command, change::hold),
    entry("release", None, change::release_command, change::release),
    entry("requeue", None, change::requeue_command, change::requeue),
    entry("change", None, change::command, change::run),
    entry("job", None, job::command, job::run),
    entry("wait", None, wait::command, wait::run),
    entry("adm", Some("cadm"), admin::command, admin::run),
    entry("mpi", None, mpi::command, mpi::run),
    entry("dev", None, dev::command, start_cluster),
    Entry {
        shown: false,
        ..entry("generate", None, generate::command, write_pages)
    },
    Entry {
        shown: false,
        ..entry("container-enter", None, container::enter_command, container::enter)
    },
    Entry {
        shown: false,
        ..entry("container-bundle", None, container::bundle_command, container::bundle)
    },
    entry("completion", None, generate::completion_command, print_script),
    entry("web", None, web::web_command, web::web),
    entry("token", None, web::token_command, web::token),
];

/// The command called `cosy NAME`.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name)
}

/// The command with that short name.
pub fn by_short_name(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.short == Some(name))
}

/// The short names.
pub fn short_names() -> impl Iterator<Item = &'static str> {
    ALL.iter().filter_map(|e| e.short)
}

/// All names under which the program is linked beside `cosy`: short ones and Slurm's.
pub fn link_names() -> impl Iterator<Item = &'static str> {
    short_names().chain(slurm::ALL.iter().map(|e| e.name))
}

/// What the manual pages and completions are about.
pub fn command_list() -> generate::CommandList {
    generate::CommandList {
        native: &ALL,
        slurm: slurm::ALL.iter().map(|e| (e.name, e.about)).collect(),
    }
}

fn start_cluster(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let names: Vec<&str> = link_names().collect();
    dev::run(context, matches, &names)
}

fn write_pages(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    generate::run(matches, &command_list())
}

fn print_script(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    generate::completion(matches, &command_list())
}

/// The text of `cosy --help`, for a terminal of so many columns.
pub fn overview(width: Option<usize>) -> String {
    /// Before what a command does.
    const NAMES: usize = 24;
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(NAMES).max(NAMES));
    let mut text = String::from("Cosy, a batch system. Usage: cosy COMMAND [OPTIONS]\n\n");
    for e in ALL.iter().filter(|e| e.shown) {
        let about = (e.build)().get_about().map(ToString::to_string);
        let short = e.short.map(|s| format!("({s})")).unwrap_or_default();
        let mut names = format!("  {:<10} {short:<9}", e.name);
        for piece in table::broken(&about.unwrap_or_default(), room) {
            text.push_str(&format!("{names:<NAMES$}{piece}\n"));
            names.clear();
        }
    }
    text.push_str("\n'cosy COMMAND --help' tells more.\n");
    text
}

#[cfg(test)]
mod keys;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn command_lines_are_sound() {
        for e in &ALL {
            (e.build)().debug_assert();
            assert_eq!((e.build)().get_name(), e.name);
        }
    }

    /// clap looks keys up when a line is reached, and says nothing of one that is read only where
    /// a command has it.
    #[test]
    fn keys_are_options() {
        let mut options = BTreeSet::new();
        for entry in &ALL {
            add_options(&(entry.build)(), &mut options);
        }
        let mut count = 0;
        for (path, text) in keys::sources(&["native", "job_options.rs", "launch", "allocation"]) {
            for key in keys::of(&text) {
                count += 1;
                assert!(options.contains(key), "{path}: no command has --{key}");
            }
        }
        assert!(count > 200, "only {count} keys were found");
    }

    fn add_options(command: &Command, options: &mut BTreeSet<String>) {
        options.extend(command.get_arguments().map(|arg| arg.get_id().to_string()));
        for sub in command.get_subcommands() {
            add_options(sub, options);
        }
    }

    #[test]
    fn the_overview_fits_a_terminal() {
        let text = overview(Some(80));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let lines = text.lines().count();
        assert!(lines > overview(None).lines().count() && lines < 40, "{text}");
        assert!(text.contains("\n  stat       (cstat)    Show jobs and reservations"), "{text}");
    }

    /// Their columns would be torn apart.
    #[test]
    fn examples_fit_a_terminal() {
        fn check(command: &Command) {
            let after = command.get_after_help().map(ToString::to_string);
            for line in after.unwrap_or_default().lines() {
                let fits = !line.starts_with(' ') || line.chars().count() <= 80;
                assert!(fits, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        ALL.iter().for_each(|e| check(&(e.build)()));
    }

    #[test]
    fn make_installs_all_names() {
        let makefile = include_str!("../../Makefile").replace("\\\n", " ");
        let words = |variable: &str| -> BTreeSet<String> {
            let line = makefile
                .lines()
                .find_map(|line| line.strip_prefix(variable));
            line.unwrap()
                .split_whitespace()
                .map(str::to_owned)
                .collect()
        };
        let set = |all: &mut dyn Iterator<Item = &'static str>| -> BTreeSet<String> {
            all.map(str::to_owned).collect()
        };
        assert_eq!(words("NAMES :="), set(&mut short_names()));
        assert_eq!(words("SLURM_NAMES :="), set(&mut slurm::ALL.iter().map(|e| e.name)));
    }

    #[test]
    fn names_of_slurm_are_free() {
        for e in &slurm::ALL {
            assert!(by_name(e.name).is_none(), "{}", e.name);
            assert!(by_short_name(e.name).is_none(), "{}", e.name);
            assert!(slurm::by_name(e.name).is_some());
        }
    }
}
