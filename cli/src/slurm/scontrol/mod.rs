//! `scontrol`: shows everything and steers jobs, nodes, partitions and reservations.
//!
//! Runs one command from the command line, or commands line by line from standard input. The
//! controller refuses what a user may not do; its refusals become Slurm's sentences here. Source:
//! scontrol(1).

mod cluster_facts;
mod daemon_commands;
mod jobs;
mod nodes;
mod partition;
mod pids;
mod reserve;
mod resize;
mod session;
mod show;
mod steer;
mod steps;
mod token;
mod update;
mod wait;

use self::session::Session;
use self::steer::JobAction;
use super::command_line::VERSION;
use super::messages::say;
use crate::{Context, exit, output};
use cosy_slurm::control::{self, Command, OPTIONS};
use cosy_slurm::getopt::{self, Order};
use cosy_slurm::table;
use std::io::{BufRead, Write};

/// Runs `scontrol`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let mut session = Session {
        context,
        zone: crate::zone::local(),
        one_line: false,
        details: false,
        quiet: false,
        verbose: false,
    };
    let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, context.args());
    for found in &parsed.found {
        match found.name {
            "help" | "usage" => output::print(&control::help()),
            "version" => output::print(&format!("{VERSION}\n")),
            "uid" => {
                super::messages::error(context, "requests are always made as the user who calls");
                return exit::FAILED;
            }
            "cluster" if !super::names::is_this_cluster(context, &found.text()) => {
                return exit::FAILED;
            }
            name => {
                session.option(name);
                continue;
            }
        }
        return exit::OK;
    }
    if let Some(mistake) = &parsed.mistake {
        return super::command_line::mistake(context, mistake);
    }
    let words: Vec<String> = parsed
        .words
        .iter()
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    match words.as_slice() {
        [] => session.interactive(),
        words => session.command(words).unwrap_or(exit::OK),
    }
}

impl Session<'_> {
    fn option(&mut self, name: &str) {
        match name {
            "oneliner" => self.one_line = true,
            "details" => self.details = true,
            "quiet" => self.quiet = true,
            "verbose" => self.verbose = true,
            _ => {}
        }
    }

    /// Runs commands line by line, until `exit` or the end of the input.
    fn interactive(&mut self) -> u8 {
        let mut code = exit::OK;
        let mut last = Vec::new();
        loop {
            print!("scontrol: ");
            let _ = std::io::stdout().flush();
            let mut line = String::new();
            match std::io::stdin().lock().read_line(&mut line) {
                Ok(n) if n > 0 => {}
                Ok(_) | Err(_) => {
                    output::print("\n");
                    return code;
                }
            }
            let mut words = control::words_of(&line);
            if words.first().is_some_and(|w| w == "!!") {
                words.clone_from(&last);
            }
            last.clone_from(&words);
            if words.is_empty() {
                continue;
            }
            match self.command(&words) {
                Some(done) => code = done,
                None => return code,
            }
        }
    }

    /// Runs one command; gives the exit code, `None` for `exit` and `quit`.
    fn command(&mut self, words: &[String]) -> Option<u8> {
        let (first, rest) = words.split_first()?;
        let Some(command) = Command::of(first) else {
            say(&format!("invalid keyword: {first}"));
            return Some(exit::FAILED);
        };
        let code = match command {
            Command::Exit | Command::Quit => return None,
            Command::Oneliner => self.set(|s| s.one_line = true),
            Command::Details => self.set(|s| s.details = true),
            Command::Quiet => self.set(|s| s.quiet = true),
            Command::All | Command::Hide => exit::OK,
            Command::Verbose => self.set(|s| s.verbose = true),
            Command::Help => self.print(&control::commands()),
            Command::Version => self.print(&format!("{VERSION}\n")),
            Command::Show => self.show(first, rest),
            Command::Hold => self.steer(JobAction::Hold, first, rest),
            Command::Holdu | Command::Uhold => self.steer(JobAction::HoldAsUser, first, rest),
            Command::Release => self.steer(JobAction::Release, first, rest),
            Command::Requeue => self.steer(JobAction::Requeue, first, rest),
            Command::RequeueHold => self.steer(JobAction::RequeueHold, first, rest),
            Command::Suspend => self.steer(JobAction::Suspend, first, rest),
            Command::Resume => self.steer(JobAction::Resume, first, rest),
            Command::Top => self.steer(JobAction::Top, first, rest),
            Command::Update => self.update(rest),
            Command::Create => self.create(first, rest),
            Command::Delete => self.delete(first, rest),
            Command::WaitJob => self.wait_job(first, rest),
            Command::Write => self.write(first, rest),
            Command::Ping => self.ping(),
            Command::Power => self.power(rest),
            Command::Completing => self.completing(),
            Command::Cluster => self.cluster(rest),
            Command::Reconfigure => self.reconfigure(),
            Command::Abort | Command::Shutdown => self.never(&daemon_commands::SHUTDOWN),
            Command::SetDebug => self.never(&daemon_commands::DEBUG),
            Command::SetDebugFlags => self.never(&daemon_commands::DEBUG_FLAGS),
            Command::SchedLogLevel => self.never(&daemon_commands::SCHEDULER_LOG),
            Command::FsDampeningFactor => self.never(&daemon_commands::DAMPENING),
            Command::Reboot | Command::CancelReboot => self.reboot(),
            Command::Takeover => self.takeover(),
            Command::Errnumstr => self.number(first, rest),
            Command::Listpids => self.list_pids(rest),
            Command::Pidinfo => self.pid_info(first, rest),
            Command::Notify => self.notify(first, rest),
            Command::Token => self.token(rest),
        };
        Some(code)
    }

    fn set(&mut self, change: impl FnOnce(&mut Self)) -> u8 {
        change(self);
        exit::OK
    }

    fn print(&self, text: &str) -> u8 {
        output::print(text);
        exit::OK
    }

    fn cluster(&self, words: &[String]) -> u8 {
        match words.first() {
            Some(name) if !super::names::is_this_cluster(self.context, name) => exit::FAILED,
            Some(_) | None => exit::OK,
        }
    }
}
