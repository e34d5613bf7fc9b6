//! Submission: everything that can be refused is refused here, at once. COSY paper,
//! section 3.1: access lists and limits reject a job immediately.

use crate::controller::Controller;
use crate::event::{Caller, Facts};
use crate::job::{Group, Job, Member, Phase, Place, Submitted};
use crate::record::{HeldBy, Numbering, OfFlow, Record, SubmissionRow};
use cosy_model::api::{Reply, Submission};
use cosy_model::job::{CountedFeatures, ResourceRequest};
use cosy_model::{
    About, AccessLevel, Attempt, Dialect, JobId, JobSpec, OsText, Program, QueueId, Refusal,
    RefusalCode, Time, User, limits,
};
use std::sync::Arc;

/// A submission that was checked.
#[derive(Debug)]
pub(crate) struct Ready {
    pub spec: JobSpec,
    pub script: OsText,
    pub indices: Option<Vec<u32>>,
    pub at_once: Option<u32>,
    pub queue: QueueId,
    pub place: Place,
}

impl Controller {
    pub(crate) fn submit(
        &mut self,
        now: Time,
        caller: &Caller,
        submission: Submission,
        facts: &Facts,
    ) -> Result<Reply, Refusal> {
        self.submit_with(now, caller, submission, facts, false)
    }

    /// `attached`: the script that starts with its reservation.
    pub(crate) fn submit_with(
        &mut self,
        now: Time,
        caller: &Caller,
        submission: Submission,
        facts: &Facts,
        attached: bool,
    ) -> Result<Reply, Refusal> {
        let ready = self.ready(caller, submission, facts, attached, 0)?;
        self.learn_facts(&ready.spec.dependencies, facts);
        Ok(self.enter(now, caller, ready, None))
    }

    /// Checks everything that can be said against a submission. `coming`: so many jobs enter
    /// the same queue before it in the same turn.
    pub(crate) fn ready(
        &self,
        caller: &Caller,
        submission: Submission,
        facts: &Facts,
        attached: bool,
        coming: usize,
    ) -> Result<Ready, Refusal> {
        if !caller.resolved {
            return Err(Refusal::new(
                RefusalCode::DirectoryDown,
                format!(
                    "the directory service does not tell who user {} is; nothing was submitted, try again",
                    caller.user.uid
                ),
            ));
        }
        let Submission {
            mut spec,
            script,
            array,
        } = submission;
        check_texts(&spec, &script)?;
        let indices = self.array_indices(array.as_ref())?;
        let tasks = indices.as_ref().map_or(1, Vec::len);
        let queue = match spec.reservation {
            Some(reservation) => {
                let limit = spec.time_limit.filter(|_| !attached);
                self.check_inside(caller, reservation, spec.queue.as_deref(), limit)?
            }
            None => self.find_queue(spec.queue.as_deref())?,
        };
        self.may_submit(&caller.user, queue, tasks + coming)?;
        self.check_queues(&spec.queues)?;
        self.check_bundles(&spec, &caller.user)?;
        if indices.is_some() && !spec.bundles.is_empty() {
            return Err(Refusal::invalid(
                "a job of several parts cannot be an array as well",
            ));
        }
        if spec.nice < 0 {
            self.require_admin(caller, "use a negative nice value")
                .map_err(|e| e.about(About::Priority))?;
        }
        if !spec.admin_comment.is_empty() {
            self.require_admin(caller, "make an administrator's comment")?;
        }
        if spec.priority.is_some() {
            self.require_admin(caller, "give a job a priority")
                .map_err(|e| e.about(About::Priority))?;
        }
        self.check_licenses(&spec.licenses)?;
        let place = self.place_or_wait(&spec, queue, &caller.user)?;
        self.forget_unknown(&mut spec, facts);
        self.check_dependencies(caller, &spec.dependencies, facts)?;
        Ok(Ready {
            spec,
            script,
            indices,
            at_once: array.and_then(|a| a.at_once),
            queue,
            place,
        })
    }

    /// Takes a submission that was checked.
    pub(crate) fn enter(
        &mut self,
        now: Time,
        caller: &Caller,
        ready: Ready,
        flow: Option<OfFlow>,
    ) -> Reply {
        let Ready {
            mut spec,
            script,
            indices,
            at_once,
            queue,
            place,
        } = ready;
        let tasks = indices.as_ref().map_or(1, Vec::len);
        let environment = std::mem::take(&mut spec.environment);
        let base = JobId(self.next_job);
        let submitted = Arc::new(Submitted {
            base,
            uid: caller.user.uid,
            gid: caller.user.gid,
            user: caller.user.name.clone(),
            submit: now,
            queue: self.queues[queue.index()].spec.name.clone(),
            spec,
            place,
            flow,
            only: None,
        });
        let row = SubmissionRow {
            base,
            indices,
            numbering: numbering(submitted.spec.dialect),
            at_once,
            uid: submitted.uid,
            gid: submitted.gid,
            user: submitted.user.clone(),
            queue: submitted.queue.clone(),
            submit: now,
            spec: submitted.spec.clone(),
            flow,
        };
        self.next_job += row.ids();
        let reply = Reply::Submitted {
            job: base,
            tasks: row.indices.as_ref().map_or(0, |i| i.len() as u32),
            note: self.queue_note(queue),
        };
        let group = Group::of_row(&row, submitted.clone());
        self.record(Record::Submitted {
            row: Box::new(row),
            script,
            environment,
        });
        let detail = format!("{} to queue {}", submitted.spec.name, submitted.queue);
        self.happened(
            now,
            "submitted",
            &submitted.user,
            format!("job {base}"),
            detail,
        );
        if submitted.spec.reservation.is_none() {
            let core_ms = crate::reserve::asked_core_ms(&submitted);
            let notice = &self.config.reservations.notice;
            let figures = &mut self.reservations.figures;
            figures.jobs_accepted(now, notice, tasks as u64, core_ms);
        }
        let ids = group.ids();
        self.add_group(group);
        for id in ids {
            self.review(now, id);
        }
        reply
    }

    /// Takes a submission's jobs into memory, all of them waiting, none in the planner.
    pub(crate) fn add_group(&mut self, group: Group) {
        let submitted = group.submitted.clone();
        let base = submitted.base;
        self.names
            .entry((submitted.uid, submitted.spec.name.clone()))
            .or_default()
            .insert(base);
        let held = submitted.spec.hold.then_some(HeldBy::User);
        for at in 0..group.fates.len() {
            let id = group.id_at(at);
            let member = group.indices.as_ref().map(|indices| Member {
                index: indices[at],
                at: at as u32,
            });
            self.jobs.insert(
                id,
                Job {
                    id,
                    member,
                    submitted: submitted.clone(),
                    own: false,
                    held,
                    needs_user: false,
                    attempt: Attempt(0),
                    eligible: None,
                    not_before: None,
                    phase: Phase::Waiting(Some(cosy_model::WaitReason::Fresh)),
                },
            );
        }
        if !submitted.spec.request.same_features.is_empty() {
            self.choosers.extend(group.ids());
        }
        if !submitted.spec.queues.is_empty() {
            group.ids().for_each(|id| self.undecided.insert(id));
        }
        if submitted.counts_as_interactive() {
            let mine = self.interactive.entry(submitted.uid).or_default();
            mine.extend(group.ids());
        }
        self.count_in_queue(&submitted, group.fates.len() as u32);
        for dependency in &submitted.spec.dependencies {
            let target = self.base_of(dependency.job);
            self.dependents
                .entry(target)
                .or_default()
                .extend(group.ids());
        }
        if let Some(begin) = submitted.spec.begin {
            self.begins.extend(group.ids().map(|id| (begin, id)));
        }
        self.groups.insert(base, group);
    }

    pub(crate) fn count_in_queue(&mut self, submitted: &Submitted, jobs: u32) {
        if let Place::Good { queue, .. } = &submitted.place {
            let queue = &mut self.queues[queue.index()];
            queue.jobs += jobs;
            *queue.by_user.entry(submitted.uid).or_default() += jobs;
        }
    }

    fn array_indices(
        &self,
        array: Option<&cosy_model::ArraySpec>,
    ) -> Result<Option<Vec<u32>>, Refusal> {
        let Some(array) = array else { return Ok(None) };
        let max = self.config.policy.max_array_tasks;
        let count = array.count();
        if count > u64::from(max) {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("an array of {count} tasks is larger than the {max} allowed here"),
            ));
        }
        let sound = array
            .ranges
            .iter()
            .all(|(a, b, s)| a <= b && *b <= limits::ARRAY_INDEX && *s > 0);
        if count == 0 || !sound {
            return Err(Refusal::invalid("the array has no valid indices"));
        }
        Ok(Some(array.indices()))
    }

    pub(crate) fn may_submit(&self, user: &User, id: QueueId, tasks: usize) -> Result<(), Refusal> {
        let queue = &self.queues[id.index()];
        let name = &queue.spec.name;
        let mine = queue.by_user.get(&user.uid).copied().unwrap_or(0);
        let denied = crate::access::level(&queue.spec, user) == AccessLevel::Deny;
        let user = &user.name;
        if denied {
            return Err(Refusal::new(
                RefusalCode::AccessDenied,
                format!("user {user} has no access to queue {name}"),
            ));
        }
        if !queue.state.takes_jobs() {
            let word = queue.state.word();
            return Err(Refusal::new(
                RefusalCode::QueueClosed,
                format!("queue {name} is {word}: it takes no jobs now"),
            ));
        }
        let limits = [
            (queue.spec.max_jobs, queue.jobs, "jobs at once"),
            (
                queue.spec.max_jobs_per_user,
                mine,
                "jobs of one user at once",
            ),
        ];
        for (max, have, what) in limits {
            if let Some(max) = max
                && u64::from(have) + tasks as u64 > u64::from(max)
            {
                return Err(Refusal::new(
                    RefusalCode::QueueLimit,
                    format!(
                        "queue {name} allows {max} {what}; there are {have} and {tasks} would come"
                    ),
                ));
            }
        }
        if self.jobs.len() + tasks > limits::JOBS {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("{} jobs wait or run already", self.jobs.len()),
            ));
        }
        Ok(())
    }

    fn queue_note(&self, queue: QueueId) -> String {
        let nodes = &self.queues[queue.index()].nodes;
        let up = nodes
            .iter()
            .filter(|n| self.nodes[n.index()].takes_jobs())
            .count();
        if up == 0 {
            let name = &self.queues[queue.index()].spec.name;
            return format!("no node of queue {name} is up: the job waits until one is");
        }
        String::new()
    }
}

fn numbering(dialect: Dialect) -> Numbering {
    match dialect {
        Dialect::Cosy => Numbering::InOrder,
        Dialect::Slurm => Numbering::LastFirst,
    }
}

/// Limits on everything that a command sent.
fn check_texts(spec: &JobSpec, script: &OsText) -> Result<(), Refusal> {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let too_long = |what: &str, have: usize, most: usize| {
        Refusal::invalid(format!(
            "{what} of {have} bytes is longer than the {most} allowed"
        ))
    };
    let texts = [
        ("script", script.0.len(), limits::SCRIPT_BYTES),
        (
            "environment",
            spec.environment.0.len(),
            limits::ENVIRONMENT_BYTES,
        ),
        ("job name", spec.name.len(), limits::NAME_BYTES),
        ("comment", spec.comment.len(), limits::COMMENT_BYTES),
        (
            "administrator's comment",
            spec.admin_comment.len(),
            limits::COMMENT_BYTES,
        ),
        (
            "account",
            spec.account.as_ref().map_or(0, String::len),
            limits::NAME_BYTES,
        ),
        (
            "working directory",
            spec.workdir.0.len(),
            limits::PATH_BYTES,
        ),
        (
            "output pattern",
            spec.stdout.as_ref().map_or(0, |t| t.0.len()),
            limits::PATH_BYTES,
        ),
        (
            "error pattern",
            spec.stderr.as_ref().map_or(0, |t| t.0.len()),
            limits::PATH_BYTES,
        ),
        (
            "input pattern",
            spec.stdin.as_ref().map_or(0, |t| t.0.len()),
            limits::PATH_BYTES,
        ),
        ("mail address", spec.mail.to.len(), limits::NAME_BYTES),
        ("quality of service", length(&spec.qos), limits::NAME_BYTES),
        ("key", length(&spec.wckey), limits::NAME_BYTES),
        ("command line", spec.submit_line.len(), limits::LINE_BYTES),
        ("submit host", length(&spec.submit_host), limits::NAME_BYTES),
        (
            "name of a part",
            spec.bundles
                .iter()
                .map(|b| length(&b.name))
                .max()
                .unwrap_or(0),
            limits::NAME_BYTES,
        ),
    ];
    if let Some((what, have, most)) = texts.into_iter().find(|(_, have, most)| have > most) {
        return Err(too_long(what, have, most));
    }
    if spec.name.is_empty() || spec.name.chars().any(char::is_control) {
        return Err(Refusal::invalid(
            "a job name must not be empty and must not have control characters",
        ));
    }
    if spec.mail.to.starts_with('-') || spec.mail.to.chars().any(|c| c.is_control() || c == ' ') {
        return Err(Refusal::invalid("the mail address is not an address"));
    }
    if !spec.workdir.0.starts_with(b"/") {
        return Err(Refusal::invalid(
            "the working directory must be a whole path",
        ));
    }
    let paths = [
        Some(&spec.workdir),
        spec.stdout.as_ref(),
        spec.stderr.as_ref(),
        spec.stdin.as_ref(),
    ];
    if paths.into_iter().flatten().any(|p| p.0.contains(&0)) {
        return Err(Refusal::invalid("a path has a NUL byte"));
    }
    check_program(&spec.program, script)?;
    let lists = [
        (
            "dependencies",
            spec.dependencies.len(),
            limits::DEPENDENCIES,
        ),
        ("resource limits", spec.rlimits.len(), limits::RLIMITS),
        ("queues", spec.queues.len(), limits::DEPENDENCIES),
        (
            "licences",
            spec.licenses.iter().count(),
            limits::DEPENDENCIES,
        ),
    ];
    let further = spec.bundles.iter().map(|bundle| &bundle.request);
    let requests = std::iter::once(&spec.request).chain(further);
    let mut lists = lists.into_iter().chain(requests.flat_map(request_lists));
    if let Some((what, have, most)) = lists.find(|(_, have, most)| have > most) {
        return Err(Refusal::invalid(format!(
            "{have} {what} are more than the {most} allowed"
        )));
    }
    if spec.nice.unsigned_abs() > limits::NICE.unsigned_abs() {
        return Err(Refusal::invalid(format!(
            "nice {} is beyond {}",
            spec.nice,
            limits::NICE
        )));
    }
    if let Some(mpi) = &spec.mpi {
        cosy_model::job::check_plugin(mpi).map_err(Refusal::invalid)?;
    }
    if let Some(warn) = &spec.warn
        && !(1..=64).contains(&warn.signal)
    {
        return Err(Refusal::invalid(format!(
            "there is no signal {}",
            warn.signal
        )));
    }
    Ok(())
}

/// The lists of a request, how long each is and may be.
fn request_lists(request: &ResourceRequest) -> [(&'static str, usize, usize); 6] {
    let names = [&request.prefer, &request.avoid, &request.require];
    let names = names.into_iter().map(Vec::len).max().unwrap_or(0);
    let groups = features_in(&request.any_features)
        .max(features_in(&request.same_features))
        .max(features_in(&request.prefer_features));
    let counted = &request.counted_features;
    [
        ("features", request.features.len(), limits::DEPENDENCIES),
        ("node names", names, limits::HOST_LIST_NAMES),
        ("node sets", request.sets.len(), limits::DEPENDENCIES),
        ("groups of features", groups, limits::DEPENDENCIES),
        (
            "features of counted nodes",
            in_counted(counted),
            limits::DEPENDENCIES,
        ),
        (
            "numbers of nodes by feature",
            counted.len(),
            limits::COUNTED_FEATURES,
        ),
    ]
}

/// The same of all groups whose nodes are counted.
pub(crate) fn in_counted(all: &[CountedFeatures]) -> usize {
    all.iter().map(|counted| features_in(&counted.any)).sum()
}

/// How many features there are in groups, counting each group once more.
fn features_in(groups: &[Vec<String>]) -> usize {
    groups
        .iter()
        .map(|group| group.len().saturating_add(1))
        .sum()
}

fn check_program(program: &Program, script: &OsText) -> Result<(), Refusal> {
    match program {
        Program::Script { args, .. } => {
            if script.is_empty() {
                return Err(Refusal::invalid("the script is empty"));
            }
            if !script.0.starts_with(b"#!") {
                return Err(Refusal::invalid(
                    "the script does not start with '#!' and an interpreter, like '#!/bin/sh'",
                ));
            }
            check_args(args)
        }
        Program::Command { argv } => {
            if argv.first().is_none_or(OsText::is_empty) {
                return Err(Refusal::invalid("the command is empty"));
            }
            if !script.is_empty() {
                return Err(Refusal::invalid("a command comes without a script"));
            }
            check_args(argv)
        }
        Program::Allocation => Ok(()),
    }
}

fn check_args(args: &[OsText]) -> Result<(), Refusal> {
    let bytes: usize = args.iter().map(|a| a.0.len() + 1).sum();
    if args.len() > limits::ARGUMENTS || bytes > limits::ENVIRONMENT_BYTES {
        return Err(Refusal::invalid(format!(
            "{} arguments of {bytes} bytes are more than the {} arguments and {} bytes allowed",
            args.len(),
            limits::ARGUMENTS,
            limits::ENVIRONMENT_BYTES
        )));
    }
    if args.iter().any(|a| a.0.contains(&0)) {
        return Err(Refusal::invalid("an argument has a NUL byte"));
    }
    Ok(())
}
