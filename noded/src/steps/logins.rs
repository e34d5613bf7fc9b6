//! Sessions that belong to jobs: somebody logs in on this node, and the process that lets them in becomes
//! part of one of their jobs here. It has what the job has, and is ended with it.
//!
//! With several jobs it is the one whose program is at the other end of the connection, on whichever of
//! the job's nodes; else the one that has begun last. A job never waits for its sessions longer than
//! [`super::login_end`] says. They are known by control group, by what they carry in their environment,
//! and by the processes that have asked: those are kept in the spool, for the next daemon.

use super::login_end::Sessions;
use super::login_environment;
use super::login_list::Logins;
use super::ports;
use super::table::{Job, StepEvent, Steps};
use crate::cgroup::{AttemptLimits, Group};
use crate::devices::Held;
use crate::login::words::{LoginAnswer, OfSeveral};
use crate::login::{IncomingLogin, LoginProcess};
use crate::peer::read_frame;
use crate::spool::name_of;
use cosy_model::node::{Allocation, AttemptKey};
use cosy_model::step::{StepAnswer, StepAsk, TcpPair};
use cosy_model::{MiB, OsText, Uid, limits, variables};
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// Jobs of one user that are asked about a connection, the newest first.
const ASKED: usize = 8;
/// How long it is asked whose a connection is: who logs in waits two seconds for all of it.
const ASKING: Duration = Duration::from_millis(1200);

/// What makes a process part of a job, on a thread that may wait.
struct Adoption {
    process: LoginProcess,
    groups: Vec<Group>,
    directory: PathBuf,
    allocation: Arc<Allocation>,
    own: Vec<OsText>,
}

impl Steps {
    /// Somebody logs in: with one job it is that one.
    pub(super) fn login(&mut self, incoming: IncomingLogin) {
        let jobs = self.jobs_of(incoming.ask.uid);
        let before = jobs.iter().find(|key| {
            let job = self.jobs.get(*key);
            job.is_some_and(|job| job.logins.have(incoming.process))
        });
        match (before.copied(), &jobs[..]) {
            (Some(key), _) => self.adopt_login(key, incoming),
            (None, []) => incoming.answer(LoginAnswer::NoJobs {
                node: self.setup.name.clone(),
            }),
            (None, [key]) => self.adopt_login(*key, incoming),
            (None, _) => self.look_for_holder(jobs, incoming),
        }
    }

    /// The jobs of a user that a session can belong to, the newest first.
    fn jobs_of(&self, uid: Uid) -> Vec<AttemptKey> {
        let open = self.jobs.iter().filter(|(_, job)| {
            let may_take = job.logins.are_open() && !job.closing;
            may_take && job.allocation.uid == uid
        });
        let mut all: Vec<_> = open.map(|(key, job)| (job.since, *key)).collect();
        all.sort_unstable();
        all.into_iter().rev().map(|(_, key)| key).collect()
    }

    /// Looks on this node whether a program of one of the jobs is at the other end.
    fn look_for_holder(&self, jobs: Vec<AttemptKey>, incoming: IncomingLogin) {
        let (pid, uid) = (incoming.process.pid.as_raw(), incoming.ask.uid);
        let marks = jobs.into_iter().map(|key| (key, self.mark_of_attempt(key)));
        let marks: Vec<(AttemptKey, String)> = marks.collect();
        let events = self.setup.events.clone();
        tokio::spawn(async move {
            let look = move || {
                let all = ports::of_process(pid);
                let holder = marks.into_iter().find(|(_, mark)| {
                    let mut connections = all.iter();
                    connections.any(|one| ports::holds(uid, mark, *one))
                });
                (all, holder.map(|(key, _)| key))
            };
            // What users ask takes turns; who logs in does not wait for it.
            let found = tokio::task::spawn_blocking(look).await;
            let event = match found.unwrap_or_default() {
                (_, Some(key)) => StepEvent::LoginOf(incoming, Some(key)),
                (all, None) => StepEvent::LoginFrom(incoming, all),
            };
            let _ = events.send(event.into()).await;
        });
    }

    /// No program here is at the other end: the first nodes of the jobs are asked.
    pub(super) fn login_from(&mut self, incoming: IncomingLogin, connections: Vec<TcpPair>) {
        let jobs = self.jobs_of(incoming.ask.uid);
        let mut answers = JoinSet::new();
        for key in jobs.into_iter().take(ASKED) {
            let alone = self.jobs.get(&key).is_none_or(is_alone);
            for connection in connections.iter().filter(|_| !alone) {
                if let Ok(answer) = self.ask_first_node(incoming.ask.uid, key, *connection) {
                    answers.spawn(async move { is_yes(answer).await.then_some(key) });
                }
            }
        }
        let events = self.setup.events.clone();
        tokio::spawn(async move {
            let first_yes = async {
                while let Some(answer) = answers.join_next().await {
                    if let Ok(Some(key)) = answer {
                        return Some(key);
                    }
                }
                None
            };
            let found = tokio::time::timeout(ASKING, first_yes).await;
            let event = StepEvent::LoginOf(incoming, found.unwrap_or_default());
            let _ = events.send(event.into()).await;
        });
    }

    /// Asks as the job's user would; the end of a connection that says the answer.
    fn ask_first_node(
        &mut self,
        uid: Uid,
        key: AttemptKey,
        connection: TcpPair,
    ) -> Result<StdStream, String> {
        let Some(job) = self.jobs.get(&key) else {
            return Err(format!("job {} is over", key.job));
        };
        let gid = job.allocation.gid;
        let ask = StepAsk::Holds {
            job: key.job,
            connection,
        };
        self.request_for((uid, gid), ask, false)
    }

    /// It is that job's, or nobody knows whose.
    pub(super) fn login_of(&mut self, incoming: IncomingLogin, holder: Option<AttemptKey>) {
        let jobs = self.jobs_of(incoming.ask.uid);
        let holder = holder.filter(|key| jobs.contains(key));
        match (holder, &jobs[..], incoming.ask.of_several) {
            (Some(key), _, _) => self.adopt_login(key, incoming),
            (None, [key], _) => self.adopt_login(*key, incoming),
            (None, [], _) => incoming.answer(LoginAnswer::NoJobs {
                node: self.setup.name.clone(),
            }),
            (None, [newest, ..], OfSeveral::Newest) => self.adopt_login(*newest, incoming),
            (None, all, OfSeveral::Tell) => incoming.answer(LoginAnswer::Unknown(all.len())),
        }
    }

    /// Makes the process that asks part of a job.
    fn adopt_login(&mut self, key: AttemptKey, incoming: IncomingLogin) {
        let path = self.path(key);
        let Some(job) = self.jobs.get_mut(&key) else {
            let text = format!("job {} is over", key.job);
            return incoming.answer(LoginAnswer::Failed(text));
        };
        job.touched = true;
        if let Err(why) = job.logins.note(&path, incoming.process) {
            return incoming.answer(LoginAnswer::Failed(why));
        }
        let Some(job) = self.jobs.get(&key) else {
            return;
        };
        let adoption = Adoption {
            process: incoming.process,
            groups: self.groups_for_logins(key, job),
            directory: path,
            allocation: Arc::clone(&job.allocation),
            own: self.own_variables(key, job),
        };
        tokio::spawn(async move {
            let (job, pid) = (key.job, incoming.process.pid);
            let done = tokio::task::spawn_blocking(move || adoption.carry_out()).await;
            incoming.answer(match done {
                Ok(Ok(variables)) => {
                    tracing::info!(job = %job, "process {pid} logs in and belongs to job {job}");
                    LoginAnswer::Adopted { job, variables }
                }
                Ok(Err(why)) => {
                    tracing::warn!(job = %job, "process {pid} logs in and cannot be made part of job {job}: {why}");
                    LoginAnswer::Failed(why)
                }
                Err(_) => LoginAnswer::Failed("the node daemon has failed".to_owned()),
            });
        });
    }

    fn groups_for_logins(&self, key: AttemptKey, job: &Job) -> Vec<Group> {
        let held = Held::of(&job.allocation);
        let denied = match self.setup.cgroups.limits_devices() {
            true => self.setup.devices.denied(held),
            false => Vec::new(),
        };
        self.setup.cgroups.groups_for_logins(AttemptLimits {
            name: &name_of(key),
            memory_bytes: job.allocation.memory.map(MiB::bytes),
            cores: &job.allocation.cores,
            denied: &denied,
            trigger: false,
        })
    }

    fn own_variables(&self, key: AttemptKey, job: &Job) -> Vec<OsText> {
        let mark = format!("{}={}", variables::NODE_MARK, self.mark_of_logins(key));
        let node = self.setup.variables.iter().cloned().chain([mark]);
        let mut all: Vec<OsText> = node.map(OsText::from).collect();
        let kept = self.setup.cgroups.limits_devices();
        all.extend(
            self.setup
                .devices
                .variables(Held::of(&job.allocation), kept),
        );
        all
    }

    /// What sessions carry in their environment that belong to an attempt.
    fn mark_of_logins(&self, attempt: AttemptKey) -> String {
        format!("{}/login", self.mark_of_attempt(attempt))
    }

    /// Begins to end the sessions of an attempt, where there may be some.
    pub(super) fn end_logins(&mut self, attempt: AttemptKey) {
        let job = self.jobs.get_mut(&attempt);
        let Some(processes) = job.and_then(|job| job.logins.begin_to_end()) else {
            return;
        };
        let Some(job) = self.jobs.get(&attempt) else {
            return;
        };
        let sessions = Sessions {
            groups: self.groups_for_logins(attempt, job),
            processes,
            uid: job.allocation.uid,
            mark: self.mark_of_logins(attempt),
        };
        let events = self.setup.events.clone();
        tokio::spawn(async move {
            let left = sessions.end().await;
            if !left.is_empty() {
                tracing::error!(job = %attempt.job, "sessions of job {} cannot be ended: {left:?}", attempt.job);
            }
            let _ = events.send(StepEvent::LoginsEnded(attempt).into()).await;
        });
    }

    /// They have ended, or are waited for no longer.
    pub(super) fn logins_ended(&mut self, attempt: AttemptKey) {
        if let Some(job) = self.jobs.get_mut(&attempt) {
            job.logins = Logins::ended();
            if job.is_quiet() {
                self.quiet.push(attempt);
            }
        }
    }
}

/// Nothing of it is on other nodes.
fn is_alone(job: &Job) -> bool {
    job.allocation.nodes == job.allocation.node
}

async fn is_yes(stream: StdStream) -> bool {
    let Ok(mut stream) = UnixStream::from_std(stream) else {
        return false;
    };
    let answer = read_frame::<StepAnswer>(&mut stream, limits::HELLO_BYTES).await;
    matches!(answer, Ok(StepAnswer::Holds(true)))
}

impl Adoption {
    /// # Errors
    /// In one line: it is not in all control groups of the job, or has ended.
    fn carry_out(self) -> Result<login_environment::Variables, String> {
        for group in &self.groups {
            let taken_in = group
                .create()
                .and_then(|()| group.take_in(self.process.pid));
            taken_in.map_err(|e| e.to_string())?;
        }
        if !self.process.is_there() {
            return Err("it has ended".to_owned());
        }
        Ok(login_environment::variables(&self.directory, &self.allocation, &self.own))
    }
}
