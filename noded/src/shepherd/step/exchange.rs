//! How the tasks of a parallel program find each other: what they say is given to the
//! server of their interface, whose shares travel up and down the tree.

use super::gather::{ExchangeError, Gather, Parts};
use super::plan::TaskPlan;
use crate::pmi::{Pmi, PmiAct, PmiJob};
use crate::pmix::{Helper, PmixAct};
use crate::shepherd::child::{self, Identity};
use crate::steps::StepTask;
use cosy_model::OsText;
use cosy_model::step::{TaskEnd, Wireup};
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A task that has so many bytes to read yet is not listened to.
const UNREAD: usize = 256 << 10;
/// Most that is read from a task at once, in bytes. Answers can be sixty times as long.
const CHUNK: usize = 8 << 10;
/// Most reads of what a task that has ended said last.
const LAST: usize = 16;

/// What is to be done by the supervisor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// The shares of this node and everything below it are together.
    Gathered(u32, Parts),
    /// A task wants the whole step to end.
    Abort {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// Exit code that the step is to end with.
        code: i32,
        /// Why, in one line.
        reason: String,
    },
    /// Tasks may be forked now.
    Ready,
}

/// The connection with one task.
#[derive(Debug)]
struct Line {
    socket: UnixStream,
    out: Vec<u8>,
}

#[derive(Debug)]
enum Server {
    None,
    Pmi(Box<Pmi>),
    Pmix {
        helper: Box<Helper>,
        variables: BTreeMap<u32, Vec<OsText>>,
        identity: Option<Identity>,
    },
}

/// The exchange of a step on one node.
#[derive(Debug)]
pub struct Exchange {
    server: Server,
    lines: BTreeMap<u32, Line>,
    /// Tasks that closed their connection before they had taken leave.
    early: BTreeSet<u32>,
    gather: Gather,
    first_rank: u32,
    acts: Vec<Act>,
    /// Tasks that have asked for the end of the step: each is heard once.
    aborted: BTreeSet<u32>,
}

impl Exchange {
    /// For the step's kind of program.
    ///
    /// # Errors
    /// In one line: the helper cannot be started.
    pub fn new(task: &StepTask, node: u32, ranks: &[u32]) -> Result<Self, String> {
        let server = match task.order.spec.wireup {
            // A node without tasks only passes through what others exchange.
            Wireup::None | Wireup::Pmi | Wireup::Pmix if ranks.is_empty() => Server::None,
            Wireup::None => Server::None,
            Wireup::Pmi => Server::Pmi(Box::new(pmi(task, node))),
            Wireup::Pmix => pmix(task)?,
        };
        Ok(Self {
            server,
            lines: BTreeMap::new(),
            early: BTreeSet::new(),
            gather: Gather::new(node, !ranks.is_empty(), task.children.len()),
            first_rank: ranks.first().copied().unwrap_or(0),
            acts: Vec::new(),
            aborted: BTreeSet::new(),
        })
    }

    /// Nothing to exchange: for a step that does not run.
    pub fn none() -> Self {
        Self {
            server: Server::None,
            lines: BTreeMap::new(),
            early: BTreeSet::new(),
            gather: Gather::new(0, false, 0),
            first_rank: 0,
            acts: Vec::new(),
            aborted: BTreeSet::new(),
        }
    }

    /// Tasks are forked only when the server is ready.
    pub fn must_wait(&self) -> bool {
        matches!(&self.server, Server::Pmix { variables, .. } if variables.is_empty())
    }

    /// Adds to the plan of one task what it needs.
    ///
    /// # Errors
    /// In one line.
    pub fn equip(&mut self, plan: &mut TaskPlan, rank: u32) -> Result<(), String> {
        let variables = match &self.server {
            Server::None => return Ok(()),
            Server::Pmix { variables, .. } => variables.get(&rank).cloned().unwrap_or_default(),
            Server::Pmi(pmi) => {
                let pair = UnixStream::pair().and_then(|(own, its)| {
                    own.set_nonblocking(true)?;
                    Ok((own, its))
                });
                let (socket, its) = pair.map_err(|e| format!("cannot make a socket: {e}"))?;
                let fd = format!("PMI_FD={}", its.as_raw_fd());
                plan.inherits = Some(its.into());
                self.lines.insert(
                    rank,
                    Line {
                        socket,
                        out: Vec::new(),
                    },
                );
                let mut all = pmi.variables(rank);
                all.push(fd.into());
                all
            }
        };
        for variable in variables {
            plan.environment.push(child::c(&variable.0)?);
        }
        Ok(())
    }

    /// What to wait for: rank, descriptor, something is to be read, to be written.
    pub fn lines(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>, bool, bool)> {
        self.lines.iter().map(|(rank, line)| {
            let unread = line.out.len();
            (*rank, line.socket.as_fd(), unread < UNREAD, unread > 0)
        })
    }

    /// The helper's descriptor, and whether something is to be written to it.
    pub fn helper(&self) -> Option<(BorrowedFd<'_>, bool)> {
        match &self.server {
            Server::Pmix { helper, .. } if !helper.is_over() => {
                Some((helper.fd(), helper.wants_write()))
            }
            Server::Pmix { .. } | Server::None | Server::Pmi(_) => None,
        }
    }

    /// What is to be done since the last time.
    pub fn take_acts(&mut self) -> Vec<Act> {
        while !self.takes_part() && self.gather.waits_for_own() {
            self.contribute(Vec::new());
        }
        while let Some((round, parts)) = self.gather.complete() {
            self.acts.push(Act::Gathered(round, parts));
        }
        std::mem::take(&mut self.acts)
    }

    /// A task here may still come to an exchange: else the others go on without this node.
    fn takes_part(&self) -> bool {
        match &self.server {
            Server::None => false,
            Server::Pmi(pmi) => pmi.takes_part(),
            Server::Pmix { helper, .. } => !helper.is_over(),
        }
    }

    /// The connection of a task is ready.
    pub fn hear_task(&mut self, rank: u32) {
        let Some(line) = self.lines.get_mut(&rank) else {
            return;
        };
        let open = line.flush();
        if open && line.out.len() >= UNREAD {
            return;
        }
        let mut buffer = vec![0; CHUNK];
        let read = line.socket.read(&mut buffer);
        let Server::Pmi(pmi) = &mut self.server else {
            return;
        };
        let acts = match read {
            Ok(n) if n > 0 && open => pmi.heard(rank, &buffer[..n]),
            Err(e) if open && e.kind() == std::io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {
                self.lines.remove(&rank);
                if pmi.is_unfinished(rank) {
                    self.early.insert(rank);
                }
                pmi.closed(rank)
            }
        };
        self.act_on(acts);
    }

    /// A task has ended: what it said last is still there to be read.
    pub fn hear_last(&mut self, rank: u32) {
        for _ in 0..LAST {
            if !self.lines.contains_key(&rank) {
                return;
            }
            self.hear_task(rank);
        }
    }

    /// The helper's connection is ready.
    pub fn hear_helper(&mut self) {
        if let Server::Pmix { helper, .. } = &mut self.server {
            let acts = helper.advance();
            self.act_on_helper(acts);
        }
    }

    /// A task's process has ended: one that others may wait for ends the step.
    pub fn task_ended(&mut self, rank: u32, end: &TaskEnd) {
        let unfinished = match &mut self.server {
            Server::None => return,
            Server::Pmi(pmi) => {
                let unfinished = pmi.is_unfinished(rank) || self.early.remove(&rank);
                let acts = pmi.closed(rank);
                self.lines.remove(&rank);
                self.act_on(acts);
                unfinished
            }
            Server::Pmix { helper, .. } => {
                let acts = helper.advance();
                let unfinished = helper.is_unfinished(rank);
                self.act_on_helper(acts);
                unfinished
            }
        };
        // A signal or a bad exit code says enough.
        if unfinished && end.signal == 0 && end.exit_code == 0 {
            self.abort(rank, 1, "it ended without MPI_Finalize".to_owned());
        }
    }

    /// No task is left: the helper is told so.
    pub fn finish(&mut self) {
        self.lines.clear();
        if let Server::Pmix { helper, .. } = &mut self.server {
            helper.finish();
        }
    }

    /// Nothing of the step is left: what a helper has left in files goes, too.
    pub fn sweep(&self) {
        if let Server::Pmix {
            helper, identity, ..
        } = &self.server
        {
            helper.sweep(|| identity.as_ref().map_or(Ok(()), Identity::take));
        }
    }

    /// The shares of all nodes.
    pub fn spread(&mut self, parts: &[(u32, OsText)]) {
        match &mut self.server {
            Server::None => {}
            Server::Pmi(pmi) => {
                let acts = pmi.spread(parts);
                self.act_on(acts);
            }
            Server::Pmix { helper, .. } => {
                let acts = helper.spread(parts);
                self.act_on_helper(acts);
            }
        }
    }

    /// Shares from a child.
    pub fn child_gave(&mut self, child: usize, round: u32, parts: Parts) {
        let result = self.gather.child(child, round, parts);
        self.check(result);
    }

    /// Nothing more comes from a child.
    pub fn child_gone(&mut self, child: usize) {
        self.gather.child_gone(child);
    }

    fn check(&mut self, result: Result<(), ExchangeError>) {
        if let Err(trouble) = result {
            self.abort(self.first_rank, 1, trouble.to_string());
        }
    }

    fn abort(&mut self, rank: u32, code: i32, reason: String) {
        if self.aborted.insert(rank) {
            self.acts.push(Act::Abort { rank, code, reason });
        }
    }

    fn contribute(&mut self, share: Vec<u8>) {
        let result = self.gather.own(share);
        self.check(result);
    }

    fn act_on(&mut self, acts: Vec<PmiAct>) {
        for act in acts {
            match act {
                PmiAct::Answer { rank, bytes } => {
                    if let Some(line) = self.lines.get_mut(&rank) {
                        line.out.extend_from_slice(&bytes);
                        line.flush();
                    }
                }
                PmiAct::Contribute(share) => self.contribute(share),
                PmiAct::Abort { rank, code, reason } => self.abort(rank, code, reason),
                PmiAct::Broken { rank, reason } => {
                    self.lines.remove(&rank);
                    self.abort(rank, 1, reason);
                }
            }
        }
    }

    fn act_on_helper(&mut self, acts: Vec<PmixAct>) {
        for act in acts {
            match act {
                PmixAct::Ready(all) => {
                    if let Server::Pmix { variables, .. } = &mut self.server {
                        *variables = all.into_iter().collect();
                    }
                    self.acts.push(Act::Ready);
                }
                PmixAct::Contribute(share) => self.contribute(share),
                PmixAct::Abort { rank, code, reason } => self.abort(rank, code, reason),
                PmixAct::Failed(reason) => self.abort(self.first_rank, 1, reason),
            }
        }
    }
}

impl Line {
    /// Writes what can be written; false when the task has closed its end.
    fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) => return e.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

fn pmi(task: &StepTask, node: u32) -> Pmi {
    let (key, layout) = (task.order.key, &task.order.layout);
    let attempt = key.attempt;
    let nodes = 0..layout.nodes.len() as u32;
    let programs = task.order.spec.programs.iter().map(|p| p.ranks.clone());
    Pmi::new(PmiJob {
        name: format!("cosy_{}_{}_{}", attempt.job, attempt.attempt, key.step),
        tasks: layout.tasks,
        node,
        ranks: nodes.map(|n| layout.ranks_of(n)).collect(),
    })
    .with_programs(programs.collect())
}

fn pmix(task: &StepTask) -> Result<Server, String> {
    let identity = Identity::of(&task.allocation);
    let joins = child::joins(&task.groups, None)?;
    let reset = task.reset_oom_score;
    let its = identity.clone();
    let become_user = move || -> Result<(), Errno> {
        child::join(&joins, reset)?;
        its.as_ref().map_or(Ok(()), Identity::take)
    };
    Ok(Server::Pmix {
        helper: Box::new(Helper::start(task, become_user)?),
        variables: BTreeMap::new(),
        identity,
    })
}
