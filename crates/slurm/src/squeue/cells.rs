//! The values that `squeue` shows in its columns. Sources: squeue(1), captures of
//! `squeue -o`.

use super::fields::Field;
use crate::job::{JobView, RequestedMemory, exit_text};
use crate::show::{mebibytes, or_null};
use crate::times::{self, TimeWriter};
use crate::{SlurmState, job};
use cosy_model::api::JobField as F;
use cosy_model::{Span, Time};
use cosy_view::words::gres as gres_words;
use cosy_view::words::row_name::{self, Tasks};
use std::fmt::Write;

/// How values are shown.
#[derive(Clone, Debug)]
pub struct ValueStyle {
    /// When the list is made.
    pub now: Time,
    /// Points of time.
    pub stamps: TimeWriter,
    /// Sizes stay in MiB.
    pub raw_sizes: bool,
    /// Longest expression of waiting array tasks; whole without.
    pub bits: Option<usize>,
}

/// Most characters of an expression of waiting array tasks, unless `SLURM_BITSTR_LEN` says
/// otherwise.
pub const BITS: usize = 64;

/// Writes the value of `field`.
pub fn cell(field: Field, job: &JobView<'_>, look: &ValueStyle, out: &mut String) {
    match field {
        Field::Account => text(out, job, F::Account),
        Field::JobId => number(out, job.raw_id()),
        Field::Gres => gres(out, job.text(F::Gres)),
        Field::BatchHost => put(out, or(job.text(F::BatchHost), "n/a")),
        Field::MinCpus => number(out, job.cores_per_node()),
        Field::Cpus => number(out, job.cores()),
        Field::MinDisk => number(out, job.count(F::MinDisk)),
        Field::Nodes => number(out, job.nodes()),
        Field::EndTime => stamp_or(out, job.end(), look, "N/A"),
        Field::Dependency => text(out, job, F::DependencyText),
        Field::Features => text(out, job, F::Constraint),
        Field::ArrayJobId if job.het().is_some() => number(out, job.raw_id()),
        Field::ArrayJobId => number(out, job.base_id()),
        Field::HetJobId => number(out, job.het().map_or(0, |het| het.job)),
        Field::HetJobOffset => number(out, job.het().map_or(0, |het| het.offset)),
        Field::HetJobIdSet => match job.het() {
            Some(het) => put(out, &het.set()),
            None => put(out, "(null)"),
        },
        Field::GroupName => group(out, job),
        Field::GroupId => number(out, job.count(F::Gid)),
        Field::OverSubscribe => put(out, job.oversubscribe()),
        Field::SocketsPerNode | Field::CoresPerSocket | Field::ThreadsPerCore => put(out, "*"),
        Field::JobArrayId => array_id(out, job, look),
        Field::Name => put(out, job.text(F::Name)),
        Field::Comment => text(out, job, F::Comment),
        Field::AdminComment => text(out, job, F::AdminComment),
        Field::ArrayTaskId => array_task(out, job, look),
        Field::TimeLimit => limit(out, job.span(F::TimeLimit)),
        Field::TimeLeft => left(out, job),
        Field::MinMemory => memory(out, job, look),
        Field::TimeUsed => times::short_duration(out, job.elapsed()),
        Field::ReqNodes => put(out, job.text(F::Require)),
        Field::NodeList => put(out, job.text(F::Nodes)),
        Field::Command => text(out, job, F::Command),
        Field::Contiguous => number(out, job.count(F::Contiguous)),
        Field::Priority => priority(out, job.count(F::Priority)),
        Field::Partition => put(out, job.partition()),
        Field::Qos => text(out, job, F::Qos),
        Field::PriorityLong => number(out, job.count(F::Priority)),
        Field::Reason => put(out, job.reason()),
        Field::ReasonList => reason_list(out, job),
        Field::StartTime => stamp_or(out, job.start(), look, "N/A"),
        Field::StateCompact => put(out, job.state().code()),
        Field::State => put(out, job.state().name()),
        Field::UserName => put(out, job.text(F::User)),
        Field::UserId => number(out, job.count(F::Uid)),
        Field::Reservation => reservation(out, job),
        Field::SubmitTime => stamp_or(out, job.time(F::Submit), look, "N/A"),
        Field::Wckey => text(out, job, F::Wckey),
        Field::Licenses => text(out, job, F::Licenses),
        Field::ExcNodes => put(out, job.text(F::Avoid)),
        Field::Nice => number(out, job.count(F::Nice)),
        Field::Sct => put(out, "*:*:*"),
        Field::WorkDir => put(out, job.text(F::Workdir)),
        Field::AccrueTime | Field::EligibleTime => {
            stamp_or(out, job.time(F::Eligible), look, "N/A");
        }
        Field::AllocNodes => text(out, job, F::SubmitHost),
        Field::AllocSid => put(out, &job.count(F::SubmitSession).to_string()),
        Field::AssocId => put(out, "0"),
        Field::BatchFlag => number(out, job.count(F::Batch)),
        Field::Cluster => put(out, &job.around().cluster),
        Field::CpusPerTask => match job.number(F::CoresPerTask) {
            Some(n) => number(out, n.max(1)),
            None => put(out, "N/A"),
        },
        Field::Deadline => stamp_or(out, job.time(F::Deadline), look, "N/A"),
        Field::ResizeTime => stamp_or(out, job.time(F::Resized), look, "N/A"),
        Field::DelayBoot => times::short_duration(out, Span(0)),
        Field::DerivedExit => put(out, &exit_text(job.derived_exit())),
        Field::ExitCode => put(out, &exit_text(job.exit())),
        Field::LastSchedEval => {
            let at = job.time(F::Allocated).or_else(|| job.time(F::Submit));
            stamp_or(out, at, look, "N/A");
        }
        Field::MaxNodes => number(out, job.count(F::MaxNodes)),
        Field::MinTime => match job.span(F::TimeMin) {
            Some(span) => limit(out, Some(span)),
            None => put(out, "N/A"),
        },
        Field::NtPerNode => number(out, job.count(F::TasksPerNode)),
        Field::NumTasks => number(out, job.count(F::Tasks)),
        Field::PendingTime => pending(out, job, look),
        Field::PreemptableTime => stamp_or(out, preemptable(job), look, "N/A"),
        Field::PreemptTime => stamp_or(out, job.time(F::PreemptTime), look, "N/A"),
        Field::Prefer => text(out, job, F::Prefer),
        Field::Requeue => number(out, job.count(F::Requeue)),
        Field::RestartCount => number(out, job.count(F::Restarts)),
        Field::Stderr => put(out, job.text(F::Stderr)),
        Field::Stdin => put(out, job.text(F::Stdin)),
        Field::Stdout => put(out, job.text(F::Stdout)),
        Field::TresAlloc => tres(out, job),
        Field::MaxCpus
        | Field::NtPerBoard
        | Field::Reboot
        | Field::Sicp
        | Field::SocketsPerBoard => put(out, "0"),
        Field::ReqSwitch => number(out, job.count(F::MaxSwitches)),
        Field::Wait4Switch => number(out, job.span(F::SwitchWait).map_or(0, Span::secs)),
        Field::NtPerCore
        | Field::NtPerSocket
        | Field::Origin
        | Field::OriginRaw
        | Field::CoreSpec
        | Field::CpuFreq
        | Field::BoardsPerNode
        | Field::Profile
        | Field::McsLabel
        | Field::SiblingsActive
        | Field::SiblingsActiveRaw
        | Field::SiblingsViable
        | Field::SiblingsViableRaw
        | Field::CpusPerTres
        | Field::MemPerTres
        | Field::TresBind
        | Field::TresFreq
        | Field::TresPerJob
        | Field::TresPerSocket
        | Field::TresPerTask => put(out, "N/A"),
        Field::BurstBuffer
        | Field::BurstBufferState
        | Field::ClusterFeature
        | Field::Container
        | Field::Network
        | Field::ResvPorts
        | Field::SchedNodes
        | Field::SystemComment => put(out, "(null)"),
        Field::SelectInfo => {}
    }
}

/// Adds a text. What a user has written cannot be taken for a line or drive a terminal.
fn put(out: &mut String, text: &str) {
    let plain = |b: u8| (b' '..=b'~').contains(&b);
    if text.bytes().all(plain) {
        out.push_str(text);
    } else if text.contains(char::is_control) {
        out.extend(text.chars().map(|c| if c.is_control() { '?' } else { c }));
    } else {
        out.push_str(text);
    }
}

fn or<'a>(text: &'a str, without: &'a str) -> &'a str {
    if text.is_empty() { without } else { text }
}

fn text(out: &mut String, job: &JobView<'_>, field: F) {
    put(out, or_null(job.text(field)));
}

fn number(out: &mut String, n: i64) {
    let _ = write!(out, "{n}");
}

fn stamp_or(out: &mut String, at: Option<Time>, look: &ValueStyle, without: &str) {
    match at {
        Some(at) => look.stamps.write(out, at),
        None => out.push_str(without),
    }
}

fn gres(out: &mut String, text: &str) {
    if text.is_empty() {
        out.push_str("N/A");
        return;
    }
    for (at, one) in gres_words::each(text).enumerate() {
        out.push_str(if at > 0 { ",gres:" } else { "gres:" });
        put(out, one);
    }
}

fn group(out: &mut String, job: &JobView<'_>) {
    let gid = job.count(F::Gid);
    match job.around().groups.get(&gid) {
        Some(name) => put(out, name),
        None => number(out, gid),
    }
}

fn reservation(out: &mut String, job: &JobView<'_>) {
    match job.number(F::Reservation) {
        Some(id) => match job.around().reservations.get(&id) {
            Some(name) => put(out, name),
            None => number(out, id),
        },
        None => out.push_str("(null)"),
    }
}

fn array_id(out: &mut String, job: &JobView<'_>, look: &ValueStyle) {
    match job.folded() {
        Some(tasks) => {
            let _ = write!(out, "{}_[", tasks.base);
            shortened(out, tasks, look);
            out.push(']');
        }
        None => match (row_name::tasks(job.text(F::Ref)), job.task()) {
            (Some(tasks), Some(task)) => {
                let _ = write!(out, "{}_{task}", tasks.base);
            }
            (_, _) => out.push_str(job.text(F::Ref)),
        },
    }
}

/// An expression of array tasks is not longer than so many characters.
fn shortened(out: &mut String, tasks: Tasks<'_>, look: &ValueStyle) {
    let most = look.bits.unwrap_or(usize::MAX);
    let indices = tasks.indices;
    if indices.len() >= most {
        let keep = most.saturating_sub(4);
        out.push_str(indices.get(..keep).unwrap_or(indices));
        out.push_str("...");
    } else {
        out.push_str(indices);
    }
    if let Some(at_once) = tasks.at_once {
        let _ = write!(out, "%{at_once}");
    }
}

fn array_task(out: &mut String, job: &JobView<'_>, look: &ValueStyle) {
    match (job.folded(), job.task()) {
        (Some(tasks), _) => shortened(out, tasks, look),
        (None, Some(task)) => number(out, task),
        (None, None) => out.push_str("N/A"),
    }
}

/// A time limit.
pub(crate) fn limit(out: &mut String, span: Option<Span>) {
    match span {
        None => out.push_str("NOT_SET"),
        Some(span) if span.is_unlimited() => out.push_str("UNLIMITED"),
        Some(span) => times::short_duration(out, span),
    }
}

fn left(out: &mut String, job: &JobView<'_>) {
    match job.span(F::TimeLimit) {
        Some(span) if !span.is_unlimited() => {
            let rest = span.0.saturating_sub(job.elapsed().0);
            if rest < 0 {
                out.push('-');
            }
            times::short_duration(out, Span(rest.saturating_abs()));
        }
        other => limit(out, other),
    }
}

fn memory(out: &mut String, job: &JobView<'_>, look: &ValueStyle) {
    let mib = match job.memory() {
        RequestedMemory::PerCore(mib) | RequestedMemory::PerNode(mib) => mib,
        RequestedMemory::Nothing => 0,
    };
    if mib == 0 {
        out.push('0');
    } else if look.raw_sizes {
        let _ = write!(out, "{mib}M");
    } else {
        out.push_str(&mebibytes(mib));
    }
}

/// The priority as a part of the largest possible.
fn priority(out: &mut String, priority: i64) {
    let part = priority as f64 / f64::from(u32::MAX);
    let _ = write!(out, "{part:.14}");
}

fn reason_list(out: &mut String, job: &JobView<'_>) {
    match job.state() {
        SlurmState::Pending
        | SlurmState::Timeout
        | SlurmState::OutOfMemory
        | SlurmState::Deadline
        | SlurmState::Failed => {
            out.push('(');
            put(out, job.reason());
            out.push(')');
        }
        SlurmState::Running
        | SlurmState::Suspended
        | SlurmState::Completed
        | SlurmState::Cancelled
        | SlurmState::NodeFail
        | SlurmState::Preempted
        | SlurmState::BootFail
        | SlurmState::Completing
        | SlurmState::Configuring
        | SlurmState::Resizing
        | SlurmState::ResvDelHold
        | SlurmState::Requeued
        | SlurmState::RequeueFed
        | SlurmState::RequeueHold
        | SlurmState::Revoked
        | SlurmState::Signaling
        | SlurmState::SpecialExit
        | SlurmState::StageOut
        | SlurmState::Stopped => put(out, job.text(F::Nodes)),
    }
}

/// How long it has waited before it started, in seconds.
fn pending(out: &mut String, job: &JobView<'_>, look: &ValueStyle) {
    let until = job.time(F::Start).unwrap_or(look.now);
    let since = job.time(F::Submit).unwrap_or(until);
    number(out, until.since(since).secs().max(0));
}

fn tres(out: &mut String, job: &JobView<'_>) {
    let waits = || job.waits().then(|| job.tres_asked());
    match job.tres_held().or_else(waits) {
        Some(tres) => {
            let _ = write!(out, "{tres}");
        }
        None => out.push_str("N/A"),
    }
}

/// The fields that all columns together are made of, each once.
pub fn needs(fields: impl Iterator<Item = Field>) -> Vec<F> {
    let mut all: Vec<F> = Vec::new();
    let always = job::REASON.iter().chain(job::HET);
    for need in fields.flat_map(|f| f.needs()).chain(always) {
        if !all.contains(need) {
            all.push(*need);
        }
    }
    all
}

fn preemptable(job: &JobView<'_>) -> Option<cosy_model::Time> {
    job.time(F::PreemptEligible).or_else(|| job.time(F::Start))
}
