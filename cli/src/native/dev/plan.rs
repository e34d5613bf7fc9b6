//! The options of `cosy dev`, the plan of the cluster that the supervisor gets, and the reports
//! that it sends back.

use super::controllers::ControllerPlan;
use super::directory::ClusterDirectory;
use super::{database, fds};
use crate::native::program;
use anyhow::{Context as _, bail};
use clap::ArgMatches;
use cosy_model::MiB;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::path::PathBuf;

/// The options of `cosy dev`.
pub struct DevOptions {
    /// Daemons with one node each (`--nodes`).
    pub nodes: u32,
    /// Nodes that one more daemon stands for (`--virtual`).
    pub virtuals: u32,
    /// Cores of each node (`--cores`).
    pub cores: u32,
    /// Memory of each node (`--memory`).
    pub memory: MiB,
    /// Where the files go; without, a temporary directory (`--dir`).
    pub dir: Option<PathBuf>,
    /// Controllers, of which one leads (`--controllers`).
    pub controllers: u32,
    /// The state is in a PostgreSQL server of the cluster's own (`--postgres`).
    pub postgres: bool,
    /// There is a web page, on that port; 0 for any (`--web`).
    pub web: Option<u16>,
    /// Contents of the file that `--config` names; empty without.
    pub config: toml::Table,
    /// The files stay after the end (`--keep`).
    pub keep: bool,
    /// Commands ask as an ordinary user, whom quotas and rules bind (`--as-user`).
    pub as_user: bool,
    /// COMMAND; empty for a shell.
    pub command: Vec<OsString>,
}

impl DevOptions {
    /// Reads the command line; cores and memory default to what the machine has.
    ///
    /// # Errors
    /// No nodes at all, or a configuration that cannot be read.
    pub fn from_matches(m: &ArgMatches) -> anyhow::Result<Self> {
        let virtuals = m.get_one("virtual").copied().unwrap_or(0);
        let nodes = m.get_one("nodes").copied();
        let nodes = nodes.unwrap_or(u32::from(virtuals == 0));
        if nodes + virtuals == 0 {
            bail!("a cluster needs at least one node");
        }
        let controllers = m.get_one("controllers").copied().unwrap_or(1);
        let postgres = m.get_flag("postgres");
        if controllers > 1 && !postgres {
            bail!(
                "several controllers share a database: --controllers {controllers} needs --postgres"
            );
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let share = MiB((machine_memory().0 / u64::from(nodes.max(1))).max(1));
        Ok(Self {
            nodes,
            virtuals,
            cores: m.get_one("cores").copied().unwrap_or(cores),
            memory: m.get_one("memory").copied().unwrap_or(share),
            dir: m.get_one("dir").cloned(),
            controllers,
            postgres,
            web: m.get_one("web").copied(),
            config: m
                .get_one("config")
                .map_or_else(|| Ok(toml::Table::new()), read_config)?,
            keep: m.get_flag("keep"),
            as_user: m.get_flag("as-user"),
            command: crate::native::arg::list(m, "command"),
        })
    }
}

fn read_config(path: &PathBuf) -> anyhow::Result<toml::Table> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read '{shown}'"))?;
    text.parse::<toml::Table>()
        .with_context(|| format!("'{shown}' is no TOML"))
}

/// All memory of the machine.
fn machine_memory() -> MiB {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))
        .and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    MiB(kib.unwrap_or(1 << 20) / 1024)
}

/// Paths of the programs that a cluster is made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Programs {
    /// The program of the commands, this one.
    pub cosy: PathBuf,
    /// Path of the controller's program.
    pub cosyd: PathBuf,
    /// Path of the node daemon's program.
    pub noded: PathBuf,
    /// Path of the web page's program; `None` where there is no page.
    pub web: Option<PathBuf>,
    /// Path of the database server's program; `None` where the state is in a file.
    pub postgres: Option<PathBuf>,
}

impl Programs {
    /// Beside this program, else in `PATH`; with `postgres` the database server's, too.
    ///
    /// # Errors
    /// A program is missing.
    pub fn find(postgres: bool, web: bool) -> anyhow::Result<Self> {
        let cosy = std::env::current_exe().context("cannot tell where this program is")?;
        Ok(Self {
            cosyd: program::find("cosyd")?,
            noded: program::find("noded")?,
            web: web.then(|| program::find("cosy-web")).transpose()?,
            postgres: postgres.then(database::program).transpose()?,
            cosy,
        })
    }
}

/// One node daemon, with one real node or many virtual ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodePlan {
    /// Name of the node; for virtual nodes the part before their numbers.
    pub name: String,
    /// Folder of its configuration, key, spool and log.
    pub folder: PathBuf,
    /// Number of virtual nodes; 0 for a real one.
    pub virtuals: u32,
}

/// The plan of a private cluster, handed to the supervisor as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Directory of the cluster.
    pub dir: PathBuf,
    /// Leave it in the end.
    pub keep: bool,
    /// COMMAND asks as an ordinary user.
    pub as_user: bool,
    /// The directory itself is to be removed too.
    pub whole: bool,
    /// The programs that the cluster consists of.
    pub programs: Programs,
    /// The controllers; the first of several starts before the others.
    pub controllers: Vec<ControllerPlan>,
    /// Node daemons in the order of their nodes.
    pub nodes: Vec<NodePlan>,
    /// Cores of each node.
    pub cores: u32,
    /// Memory of each node in MiB.
    pub memory_mib: u64,
    /// Process group of the front; 0, which makes a new one, when its leader is outside of
    /// the namespace of process ids.
    pub group: i32,
    /// Lifeline (read end), reports (write end) and lock, handed over.
    pub handed: [RawFd; 3],
}

impl Plan {
    /// The plan for that request in that place.
    ///
    /// # Errors
    /// No port is free for a controller.
    pub fn make(
        directory: &ClusterDirectory,
        options: &DevOptions,
        programs: Programs,
    ) -> anyhow::Result<Self> {
        let node = |at: u32| NodePlan {
            name: format!("n{at}"),
            folder: directory.path().join(format!("node{at}")),
            virtuals: 0,
        };
        let mut nodes: Vec<NodePlan> = (1..=options.nodes).map(node).collect();
        if options.virtuals > 0 {
            nodes.push(NodePlan {
                name: "v".to_owned(),
                folder: directory.path().join("node-virtual"),
                virtuals: options.virtuals,
            });
        }
        let controllers = match options.controllers {
            1 => vec![ControllerPlan::only(directory.path())],
            count => ControllerPlan::several(directory.path(), count)?,
        };
        Ok(Self {
            controllers,
            dir: directory.path().to_owned(),
            keep: options.keep,
            as_user: options.as_user,
            whole: directory.is_removed_whole(),
            programs,
            nodes,
            cores: options.cores,
            memory_mib: options.memory.0,
            group: nix::unistd::getpgrp().as_raw(),
            handed: [-1; 3],
        })
    }

    /// The same with open files that the next child is to have.
    ///
    /// # Errors
    /// A system call fails.
    pub fn with_files<L, R, K>(
        &self,
        (lifeline, report, lock): (&L, &R, &K),
    ) -> anyhow::Result<Self>
    where
        L: AsFd,
        R: AsFd,
        K: AsFd,
    {
        let hand = |fd: BorrowedFd<'_>| fds::pass_to_child(&fd);
        Ok(Self {
            handed: [
                hand(lifeline.as_fd())?,
                hand(report.as_fd())?,
                hand(lock.as_fd())?,
            ],
            ..self.clone()
        })
    }

    /// Whether there are several controllers.
    pub fn has_several(&self) -> bool {
        self.controllers.len() > 1
    }

    /// Paths of the controllers' sockets, with `:` between.
    pub fn sockets(&self) -> OsString {
        let all = self.controllers.iter().map(|c| c.socket.as_os_str());
        all.collect::<Vec<_>>().join(OsStr::new(":"))
    }
}

/// A report of the supervisor, one line on its pipe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// The cluster is there; COMMAND is started.
    Ready,
    /// A daemon has ended meanwhile.
    Note(String),
    /// COMMAND has ended with this exit code, 128 and the signal for a signal.
    Ended(u8),
    /// COMMAND could not be started.
    NoCommand {
        /// Exit code of `cosy dev` for this error.
        code: u8,
        /// The reason in one line.
        text: String,
    },
    /// The cluster could not be started, or fell apart.
    Failed(String),
}

impl Report {
    /// The report as a line, with its line break.
    pub fn line(&self) -> String {
        let plain = |text: &str| text.replace('\n', " ");
        match self {
            Self::Ready => "ready\n".to_owned(),
            Self::Note(text) => format!("note {}\n", plain(text)),
            Self::Ended(code) => format!("ended {code}\n"),
            Self::NoCommand { code, text } => format!("nocommand {code} {}\n", plain(text)),
            Self::Failed(text) => format!("failed {}\n", plain(text)),
        }
    }

    /// Reads a line; `None` when it is no report.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line
            .trim_end()
            .split_once(' ')
            .unwrap_or((line.trim_end(), ""));
        match word {
            "ready" => Some(Self::Ready),
            "note" => Some(Self::Note(rest.to_owned())),
            "ended" => Some(Self::Ended(rest.parse().ok()?)),
            "nocommand" => {
                let (code, text) = rest.split_once(' ')?;
                Some(Self::NoCommand {
                    code: code.parse().ok()?,
                    text: text.to_owned(),
                })
            }
            "failed" => Some(Self::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports() {
        let all = [
            Report::Ready,
            Report::Note("c1 ended (137)".into()),
            Report::Ended(7),
            Report::NoCommand {
                code: 127,
                text: "no such file".into(),
            },
            Report::Failed("cosyd ended: why".into()),
        ];
        for report in all {
            assert_eq!(Report::parse(&report.line()), Some(report));
        }
        assert_eq!(Report::parse("nonsense"), None);
        assert_eq!(Report::parse("ended x"), None);
    }
}
