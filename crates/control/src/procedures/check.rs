//! What a request would leave behind: one judgement for a submission, a task of a workflow,
//! a change of a waiting job, a job that is put back, and every part of such a job.
//!
//! What is judged is the result, never the request alone, so that nothing can be had in two
//! steps that is refused in one. The rights that count are those of the job's user, whoever
//! asks; what only administrators may give (a priority, a negative nice value) is asked of
//! the caller, where it is not as it was.

use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::{Place, Submitted};
use crate::queues::order;
use cosy_model::job::{CountedFeatures, MailRequest, ResourceRequest};
use cosy_model::{
    About, JobSpec, OsText, Program, QueueId, Refusal, RefusalCode, Span, User, limits,
};
use std::collections::BTreeMap;

/// Jobs by the queue that they are about to enter.
pub(crate) type Coming = BTreeMap<QueueId, usize>;

static NOBODY: Coming = Coming::new();

/// What a request would leave of a job, or of several that are alike.
pub(crate) struct Outcome<'a> {
    /// The job's user.
    pub owner: &'a User,
    /// What it would be.
    pub spec: &'a JobSpec,
    /// The queue that the request names; without one a job stays where it is, and a new one
    /// goes to the default queue or to that of its reservation.
    pub queue: Option<&'a str>,
    /// What it is; `None` of a new one.
    pub before: Option<&'a Submitted>,
    /// It is not counted yet: it is new, or has ended and is put back.
    pub enters: bool,
    /// Number of jobs that are alike.
    pub jobs: usize,
    /// Jobs that enter queues before it in the same turn.
    pub coming: &'a Coming,
    /// It is the job that starts with its reservation: it takes what is left of that.
    pub attached: bool,
}

impl<'a> Outcome<'a> {
    /// A single new job that names no queue.
    pub fn new(owner: &'a User, spec: &'a JobSpec) -> Self {
        Self {
            owner,
            spec,
            queue: None,
            before: None,
            enters: true,
            jobs: 1,
            coming: &NOBODY,
            attached: false,
        }
    }

    /// A job that is there and would become that.
    pub fn of_change(owner: &'a User, before: &'a Submitted, spec: &'a JobSpec) -> Self {
        Self {
            before: Some(before),
            enters: false,
            ..Self::new(owner, spec)
        }
    }
}

/// Where a job would stand.
#[derive(Debug)]
pub(crate) struct Judged {
    pub queue: QueueId,
    pub place: Place,
}

impl Controller {
    /// Judges what a request would leave behind.
    ///
    /// # Errors
    /// The first thing that cannot be, with figures.
    pub(crate) fn check_result(
        &self,
        caller: &Caller,
        outcome: &Outcome<'_>,
    ) -> Result<Judged, Refusal> {
        let Outcome { owner, spec, .. } = *outcome;
        check_spec(spec)?;
        self.check_rights(caller, outcome)?;
        let queue = self.queue_of(caller, outcome)?;
        self.check_counts(caller, outcome, queue)?;
        self.check_queues(&spec.queues)?;
        self.check_bundles(spec)?;
        self.check_licenses(&spec.licenses)?;
        let place = self.place_or_wait(spec, queue, owner)?;
        Ok(Judged { queue, place })
    }

    /// What only administrators may give, where the job has not got it already.
    fn check_rights(&self, caller: &Caller, outcome: &Outcome<'_>) -> Result<(), Refusal> {
        let (spec, before) = (outcome.spec, outcome.before);
        let old = before.map(|before| &before.spec);
        if spec.nice < 0 && old.is_none_or(|old| old.nice != spec.nice) {
            self.require_admin(caller, "use a negative nice value")
                .map_err(|e| e.about(About::Priority))?;
        }
        let comment = &spec.admin_comment;
        if !comment.is_empty() && old.is_none_or(|old| old.admin_comment != *comment) {
            self.require_admin(caller, "make an administrator's comment")?;
        }
        let raised = before.is_none_or(|before| {
            let number = |spec| order::priority(spec, before.base);
            before.spec.priority != spec.priority && number(spec) > number(&before.spec)
        });
        if spec.priority.is_some() && raised {
            self.require_admin(caller, "give a job a priority")
                .map_err(|e| e.about(About::Priority))?;
        }
        Ok(())
    }

    /// The queue in which it would be, and whether its user may be in its reservation.
    fn queue_of(&self, caller: &Caller, outcome: &Outcome<'_>) -> Result<QueueId, Refusal> {
        let Outcome { spec, before, .. } = *outcome;
        let stays = before.map(|before| before.queue.as_str());
        let Some(reservation) = spec.reservation else {
            return self.find_queue(outcome.queue.or(stays));
        };
        // Who was let in stays in until it comes anew.
        let same = |before: &Submitted| {
            let old = &before.spec;
            outcome.queue.is_none_or(|queue| queue == before.queue)
                && (old.reservation, old.time_limit) == (spec.reservation, spec.time_limit)
        };
        if !outcome.enters && before.is_some_and(same) {
            return self.find_queue(stays);
        }
        let rights = self.rights_of(caller, outcome.owner);
        let limit = spec.time_limit.filter(|_| !outcome.attached);
        self.check_inside(&rights, reservation, outcome.queue, limit)
    }

    /// Whose rights count for a job: its user's, who may ask over a daemon that lessens them.
    pub(crate) fn rights_of(&self, caller: &Caller, owner: &User) -> Caller {
        if caller.user.uid == owner.uid {
            return caller.clone();
        }
        Caller::known(owner.clone())
    }

    /// Whether there is room for the jobs that come into queues.
    fn check_counts(
        &self,
        caller: &Caller,
        outcome: &Outcome<'_>,
        queue: QueueId,
    ) -> Result<(), Refusal> {
        let Outcome { owner, jobs, .. } = *outcome;
        let mut entering = Coming::new();
        if outcome.enters {
            self.check_total(caller, outcome)?;
            entering = self.entering(outcome.spec, queue);
        } else if outcome.before.map(|before| before.queue.as_str())
            != Some(self.queues.name(queue))
        {
            entering.insert(queue, 1);
        }
        for (id, parts) in entering {
            let before = outcome.coming.get(&id).copied().unwrap_or(0);
            let rights = self.rights_of(caller, owner);
            self.may_submit(&rights, id, parts.saturating_mul(jobs) + before)?;
        }
        Ok(())
    }

    /// The queues that one job is counted in, and how often: each part of it counts.
    pub(crate) fn entering(&self, spec: &JobSpec, queue: QueueId) -> Coming {
        let mut all = Coming::from([(queue, 1)]);
        let parts = spec.bundles.iter();
        let parts = parts.filter_map(|part| self.find_queue(part.queue.as_deref()).ok());
        parts.for_each(|id| *all.entry(id).or_default() += 1);
        all
    }

    /// How many jobs there may be, of one user and in all. Administrators have a reserve.
    fn check_total(&self, caller: &Caller, outcome: &Outcome<'_>) -> Result<(), Refusal> {
        let owner = outcome.owner;
        let parts = outcome.spec.bundles.len() + 1;
        let before: usize = outcome.coming.values().sum();
        let come = outcome.jobs.saturating_mul(parts).saturating_add(before);
        let admin = self.is_admin(&self.rights_of(caller, owner));
        let too_many = |why: String| Err(Refusal::new(RefusalCode::TooMany, why));
        let most = self.config.policy.max_jobs_per_user as usize;
        let mine = self.jobs.count_of(owner.uid) as usize;
        if !admin && most > 0 && mine + come > most {
            return too_many(format!(
                "user {} has {mine} jobs that wait or run and {come} would come: one user has at most {most} here; wait until some have ended, or make arrays smaller",
                owner.name
            ));
        }
        let reserve = if admin { 0 } else { limits::JOBS_RESERVE };
        let all = limits::JOBS - reserve;
        if self.jobs.len() + come > all {
            return too_many(format!(
                "{} jobs wait or run already, {all} can: try again when some have ended",
                self.jobs.len()
            ));
        }
        Ok(())
    }

    /// Whether somebody may be in a queue, and has room there for so many jobs more.
    pub(crate) fn may_submit(
        &self,
        rights: &Caller,
        id: QueueId,
        jobs: usize,
    ) -> Result<(), Refusal> {
        let queue = self.queues.get(id);
        let name = &queue.spec.name;
        let mine = queue.by_user.get(&rights.user.uid).copied().unwrap_or(0);
        self.may_enter(rights, &queue.spec)?;
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
                && u64::from(have) + jobs as u64 > u64::from(max)
            {
                return Err(Refusal::new(
                    RefusalCode::QueueLimit,
                    format!(
                        "queue {name} allows {max} {what}; there are {have} and {jobs} would come"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Counts jobs in their queues and with their user, whatever they wait for.
    pub(crate) fn count_in_queue(&mut self, submitted: &Submitted, jobs: u32) {
        let parts = submitted.spec.bundles.len() as u32 + 1;
        self.jobs.count_up(submitted.uid, jobs * parts);
        let Some(queue) = self.queue_id(&submitted.queue) else {
            return;
        };
        for (id, parts) in self.entering(&submitted.spec, queue) {
            let queue = self.queues.get_mut(id);
            queue.jobs += jobs * parts as u32;
            *queue.by_user.entry(submitted.uid).or_default() += jobs * parts as u32;
        }
    }

    /// A job is counted no longer.
    pub(crate) fn leave_queue(&mut self, submitted: &Submitted) {
        let parts = submitted.spec.bundles.len() as u32 + 1;
        self.jobs.count_down(submitted.uid, parts);
        let Some(queue) = self.queue_id(&submitted.queue) else {
            return;
        };
        for (id, parts) in self.entering(&submitted.spec, queue) {
            let queue = self.queues.get_mut(id);
            queue.jobs = queue.jobs.saturating_sub(parts as u32);
            count_down(&mut queue.by_user, submitted.uid, parts as u32);
        }
    }
}

/// Takes from a count; what comes to nothing is not kept.
pub(crate) fn count_down<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, less: u32) {
    if let Some(count) = counts.get_mut(&key) {
        *count = count.saturating_sub(less);
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// Limits on all that a job asks for, wherever it came from.
///
/// # Errors
/// What is too long, too many, or not what it has to be.
pub(crate) fn check_spec(spec: &JobSpec) -> Result<(), Refusal> {
    check_lengths(spec)?;
    check_words(spec)?;
    check_mail(&spec.mail)?;
    check_paths(spec)?;
    check_program_words(&spec.program)?;
    check_lists(spec)?;
    check_numbers(spec)?;
    if let Some(mpi) = &spec.mpi {
        cosy_model::job::check_plugin(mpi).map_err(Refusal::invalid)?;
    }
    Ok(())
}

fn check_lengths(spec: &JobSpec) -> Result<(), Refusal> {
    use limits::{COMMENT_BYTES, LINE_BYTES, NAME_BYTES, PATH_BYTES};
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let path = |text: &Option<OsText>| text.as_ref().map_or(0, |t| t.0.len());
    let names = spec.bundles.iter().map(|b| length(&b.name));
    let texts = [
        (
            "environment",
            spec.environment.0.len(),
            limits::ENVIRONMENT_BYTES,
        ),
        ("job name", spec.name.len(), NAME_BYTES),
        ("comment", spec.comment.len(), COMMENT_BYTES),
        (
            "administrator's comment",
            spec.admin_comment.len(),
            COMMENT_BYTES,
        ),
        ("account", length(&spec.account), NAME_BYTES),
        ("working directory", spec.workdir.0.len(), PATH_BYTES),
        ("output pattern", path(&spec.stdout), PATH_BYTES),
        ("error pattern", path(&spec.stderr), PATH_BYTES),
        ("input pattern", path(&spec.stdin), PATH_BYTES),
        ("mail address", spec.mail.to.len(), NAME_BYTES),
        ("quality of service", length(&spec.qos), NAME_BYTES),
        ("key", length(&spec.wckey), NAME_BYTES),
        ("command line", spec.submit_line.len(), LINE_BYTES),
        ("submit host", length(&spec.submit_host), NAME_BYTES),
        ("name of a part", names.max().unwrap_or(0), NAME_BYTES),
        ("name in a list", longest_name(spec), NAME_BYTES),
    ];
    match texts.into_iter().find(|(_, have, most)| have > most) {
        Some((what, have, most)) => Err(Refusal::invalid(format!(
            "{what} of {have} bytes is longer than the {most} allowed"
        ))),
        None => Ok(()),
    }
}

/// Bytes of the longest name of a feature, node, set, queue, licence or resource.
fn longest_name(spec: &JobSpec) -> usize {
    let further = spec.bundles.iter().map(|bundle| &bundle.request);
    let requests = std::iter::once(&spec.request).chain(further);
    let named = requests.flat_map(|request| {
        let groups = [
            &request.any_features,
            &request.same_features,
            &request.prefer_features,
        ];
        let groups = groups.into_iter().flatten().flatten();
        let counted = request.counted_features.iter().flat_map(|c| &c.any);
        let lists = [
            &request.features,
            &request.require,
            &request.avoid,
            &request.prefer,
            &request.sets,
        ];
        let names = lists.into_iter().flatten().map(String::len);
        let names = names.chain(groups.chain(counted.flatten()).map(String::len));
        let amounts = request
            .gpu_types
            .iter()
            .chain(request.other_per_node.iter());
        names.chain(amounts.map(|(name, _)| name.len()))
    });
    let queues = spec.queues.iter().map(String::len);
    let licenses = spec.licenses.iter().map(|(name, _)| name.len());
    let rlimits = spec.rlimits.iter().map(|(name, ..)| name.len());
    named
        .chain(queues)
        .chain(licenses)
        .chain(rlimits)
        .max()
        .unwrap_or(0)
}

/// One line of plain text each: they stand in lists, logs and command lines.
fn check_words(spec: &JobSpec) -> Result<(), Refusal> {
    if spec.name.is_empty() {
        return Err(Refusal::invalid(
            "a job name must not be empty and must not have control characters",
        ));
    }
    let words = [
        ("a job name", Some(&spec.name)),
        ("an account", spec.account.as_ref()),
        ("a quality of service", spec.qos.as_ref()),
        ("a key", spec.wckey.as_ref()),
        ("a submit host", spec.submit_host.as_ref()),
    ];
    let parts = spec.bundles.iter();
    let parts = parts.map(|part| ("the name of a part", part.name.as_ref()));
    let odd = |word: Option<&String>| word.is_some_and(|w| w.chars().any(char::is_control));
    match words.into_iter().chain(parts).find(|(_, word)| odd(*word)) {
        Some((what, _)) => Err(Refusal::invalid(format!(
            "{what} must not have control characters"
        ))),
        None => Ok(()),
    }
}

/// The address becomes an argument of the mail command.
fn check_mail(mail: &MailRequest) -> Result<(), Refusal> {
    if mail.to.starts_with('-') || mail.to.chars().any(|c| c.is_control() || c == ' ') {
        return Err(Refusal::invalid("the mail address is not an address"));
    }
    let shares = &mail.limit_shares;
    let odd = shares.iter().find(|share| !(1..=100).contains(*share));
    if odd.is_some() || shares.len() > limits::MAIL_SHARES {
        return Err(Refusal::invalid(format!(
            "mail is sent at no more than {} shares of the time limit, from 1 to 100 %",
            limits::MAIL_SHARES
        )));
    }
    Ok(())
}

fn check_paths(spec: &JobSpec) -> Result<(), Refusal> {
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
    Ok(())
}

fn check_lists(spec: &JobSpec) -> Result<(), Refusal> {
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
    match lists.find(|(_, have, most)| have > most) {
        Some((what, have, most)) => Err(Refusal::invalid(format!(
            "{have} {what} are more than the {most} allowed"
        ))),
        None => Ok(()),
    }
}

/// The lists of a request, how long each is and may be.
fn request_lists(request: &ResourceRequest) -> [(&'static str, usize, usize); 7] {
    let names = [&request.prefer, &request.avoid, &request.require];
    let names = names.into_iter().map(Vec::len).max().unwrap_or(0);
    let groups = features_in(&request.any_features)
        .max(features_in(&request.same_features))
        .max(features_in(&request.prefer_features));
    let counted = &request.counted_features;
    let amounts = request
        .gpu_types
        .iter()
        .chain(request.other_per_node.iter());
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
        ("kinds of resources", amounts.count(), limits::DEPENDENCIES),
    ]
}

/// The same of all groups whose nodes are counted.
fn in_counted(all: &[CountedFeatures]) -> usize {
    all.iter().map(|counted| features_in(&counted.any)).sum()
}

/// How many features there are in groups, counting each group once more.
fn features_in(groups: &[Vec<String>]) -> usize {
    groups
        .iter()
        .map(|group| group.len().saturating_add(1))
        .sum()
}

fn check_numbers(spec: &JobSpec) -> Result<(), Refusal> {
    if spec.nice.unsigned_abs() > limits::NICE.unsigned_abs() {
        return Err(Refusal::invalid(format!(
            "nice {} is beyond {}",
            spec.nice,
            limits::NICE
        )));
    }
    if spec.time_limit.is_some_and(|limit| limit <= Span::ZERO) {
        return Err(Refusal::invalid("a time limit of 0 cannot be asked for"));
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

/// Checks a new job's program with its script.
///
/// # Errors
/// A script that cannot be, or where none belongs.
pub(crate) fn check_program(program: &Program, script: &OsText) -> Result<(), Refusal> {
    let bytes = script.0.len();
    if bytes > limits::SCRIPT_BYTES {
        return Err(Refusal::invalid(format!(
            "script of {bytes} bytes is longer than the {} allowed",
            limits::SCRIPT_BYTES
        )));
    }
    match program {
        Program::Script { .. } if script.is_empty() => Err(Refusal::invalid("the script is empty")),
        Program::Script { .. } if !script.0.starts_with(b"#!") => Err(Refusal::invalid(
            "the script does not start with '#!' and an interpreter, like '#!/bin/sh'",
        )),
        Program::Command { .. } if !script.is_empty() => {
            Err(Refusal::invalid("a command comes without a script"))
        }
        Program::Script { .. } | Program::Command { .. } | Program::Allocation => Ok(()),
    }
}

fn check_program_words(program: &Program) -> Result<(), Refusal> {
    match program {
        Program::Script { args, .. } => check_args(args),
        Program::Command { argv } => {
            if argv.first().is_none_or(OsText::is_empty) {
                return Err(Refusal::invalid("the command is empty"));
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
