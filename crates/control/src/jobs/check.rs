//! Checks what a job would be after a request: one judgement for a submission, a task of a workflow,
//! a change of a waiting job, a job that is put back, and every part of such a job.
//!
//! What is judged is the result, never the request alone, so that nothing can be had in two
//! steps that is refused in one. The rights that count are those of the job's user, whoever
//! asks; what only administrators may give (a priority, a negative nice value) is asked of
//! the caller, where it is not as it was.

pub(crate) mod procedures;

use crate::jobs::job::{Place, Submitted};
use crate::policy::standing::Standing;
use cosy_model::job::{CountedFeatures, MailRequest, ResourceRequest};
use cosy_model::{About, JobSpec, OsText, Program, QueueId, Refusal, Span, User, limits};
use std::collections::BTreeMap;

/// Jobs by the queue that they are about to enter.
pub(crate) type Coming = BTreeMap<QueueId, usize>;

static NOBODY: Coming = Coming::new();

/// What a request would leave of a job, or of several that are alike.
#[derive(Clone, Copy)]
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
    /// Its account and its quality of service, as named or filled in.
    pub standing: Standing,
    /// Its time limit, as named or filled in.
    pub time_limit: Option<Span>,
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
    check_spares(spec)?;
    spec.components()
        .try_for_each(|component| check_nearness(component.request))?;
    if let Some(mpi) = &spec.mpi {
        cosy_model::job::check_plugin(mpi).map_err(Refusal::invalid)?;
    }
    if let Some(container) = &spec.container {
        container.check().map_err(Refusal::invalid)?;
    }
    Ok(())
}

/// Any node may take the place of any other but the first: each is given the same.
fn check_spares(spec: &JobSpec) -> Result<(), Refusal> {
    if spec.spares == 0 {
        return Ok(());
    }
    let request = &spec.request;
    let wrong = |why: &str| Err(Refusal::invalid(format!("spare nodes: {why}")));
    let Some(nodes) = request.nodes.filter(|nodes| *nodes > spec.spares) else {
        return wrong("they come beside a number of nodes that serve (--nodes)");
    };
    if request.max_nodes.is_some_and(|most| most != nodes) || !request.counted_features.is_empty() {
        return wrong("all nodes are of one kind, and there is one number of them");
    }
    if request.tasks.is_some_and(|tasks| tasks % nodes != 0) || request.gpus_in_all.is_some() {
        return wrong("each node gets as many tasks and GPUs as any other");
    }
    if spec.has_several_components() {
        return wrong("a job of several parts has none");
    }
    Ok(())
}

/// How near to each other nodes are to be: what can be had together.
pub(crate) fn check_nearness(request: &ResourceRequest) -> Result<(), Refusal> {
    let wrong = |why: String| Err(Refusal::invalid(why).about(About::NodeCount));
    let counted = !request.counted_features.is_empty();
    if let Some(switches) = request.switches {
        if switches.most == 0 {
            return wrong("0 switches cannot be asked for".to_owned());
        }
        if switches.wait.is_some_and(|wait| wait < Span::ZERO) {
            return wrong("the time to wait for switches is less than 0".to_owned());
        }
    }
    if request.contiguous && counted {
        return wrong("nodes side by side cannot be asked for by number and feature".to_owned());
    }
    let Some(segment) = request.segment else {
        return Ok(());
    };
    if request.contiguous || counted || !request.require.is_empty() {
        let why = "a segment goes neither with nodes by name, nor by number and feature, nor side by side";
        return wrong(why.to_owned());
    }
    match request.nodes {
        Some(nodes) if segment > 0 && nodes.is_multiple_of(segment) => Ok(()),
        Some(nodes) => wrong(format!("{nodes} nodes cannot be had in segments of {segment}")),
        None => wrong(format!("segments of {segment} nodes need a number of nodes (--nodes)")),
    }
}

fn check_lengths(spec: &JobSpec) -> Result<(), Refusal> {
    use limits::{COMMENT_BYTES, LINE_BYTES, NAME_BYTES, PATH_BYTES};
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let path = |text: &Option<OsText>| text.as_ref().map_or(0, |t| t.0.len());
    let names = spec.components().map(|component| component.name.len());
    let texts = [
        ("environment", spec.environment.0.len(), limits::ENVIRONMENT_BYTES),
        ("job name", spec.name.len(), NAME_BYTES),
        ("comment", spec.comment.len(), COMMENT_BYTES),
        ("administrator's comment", spec.admin_comment.len(), COMMENT_BYTES),
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
    let requests = spec.components().map(|component| component.request);
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
    let further = spec.further_components.iter();
    let further = further.map(|own| ("the name of a part", own.name.as_ref()));
    let odd = |word: Option<&String>| word.is_some_and(|w| w.chars().any(char::is_control));
    match words
        .into_iter()
        .chain(further)
        .find(|(_, word)| odd(*word))
    {
        Some((what, _)) => {
            Err(Refusal::invalid(format!("{what} must not have control characters")))
        }
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
        return Err(Refusal::invalid("the working directory must be a whole path"));
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
        ("dependencies", spec.dependencies.len(), limits::DEPENDENCIES),
        ("resource limits", spec.rlimits.len(), limits::RLIMITS),
        ("queues", spec.queues.len(), limits::DEPENDENCIES),
        ("licences", spec.licenses.iter().count(), limits::DEPENDENCIES),
    ];
    let requests = spec.components().map(|component| component.request);
    let mut lists = lists.into_iter().chain(requests.flat_map(request_lists));
    match lists.find(|(_, have, most)| have > most) {
        Some((what, have, most)) => {
            Err(Refusal::invalid(format!("{have} {what} are more than the {most} allowed")))
        }
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
        ("features of counted nodes", in_counted(counted), limits::DEPENDENCIES),
        ("numbers of nodes by feature", counted.len(), limits::COUNTED_FEATURES),
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
    if spec.site_factor.unsigned_abs() > limits::NICE.unsigned_abs() {
        return Err(Refusal::invalid(format!(
            "{} points of the site are beyond {}",
            spec.site_factor,
            limits::NICE
        )));
    }
    if spec.nice.unsigned_abs() > limits::NICE.unsigned_abs() {
        return Err(Refusal::invalid(format!("nice {} is beyond {}", spec.nice, limits::NICE)));
    }
    if spec.time_limit.is_some_and(|limit| limit <= Span::ZERO) {
        return Err(Refusal::invalid("a time limit of 0 cannot be asked for"));
    }
    if let Some(warn) = &spec.warn
        && !(1..=64).contains(&warn.signal)
    {
        return Err(Refusal::invalid(format!("there is no signal {}", warn.signal)));
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
