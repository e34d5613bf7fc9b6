//! The cell of each field: the only place where fields and facts meet.

use super::facts::{JobFacts, Reason};
use crate::table::{Cell, number, text};
use crate::words::{
    by_node, counted, dependency, features, gres, ids_by_node, priority_factors, request, row_name,
};
use cosy_model::api::JobField;
use cosy_model::api::JobField as F;
use cosy_model::job::{MemoryRequest, OpenMode, ResourceRequest};
use cosy_model::{JobState, Program, Span, Time, fold};

/// The cell of a field. `array_indices`: the indices of the row's array as text, when they are
/// asked for; they are long, and the same for each of its rows.
pub fn cell<'a>(
    facts: &'a impl JobFacts,
    field: JobField,
    array_indices: Option<&'a str>,
) -> Cell<'a> {
    let submission = || facts.submission();
    let spec = || facts.submission().spec;
    let asked = || &facts.submission().spec.request;
    match field {
        JobField::Id => number(facts.name().id.0),
        JobField::Ref => {
            let name = facts.name();
            text(row_name::write(name, name.tasks.and_then(|_| at_once(facts))))
        }
        JobField::ArrayId => {
            let name = facts.name();
            maybe(name.index.map(|_| name.base.0))
        }
        JobField::ArrayTask => {
            let name = facts.name();
            maybe(name.index.filter(|_| name.tasks.is_none()))
        }
        JobField::ArraySpecText => array_spec(facts, array_indices),
        JobField::ArrayAtOnce => maybe(at_once(facts)),
        JobField::Component | JobField::Components => component(facts, field),
        JobField::Name => text(&spec().name),
        JobField::User => text(submission().user),
        JobField::Uid => number(u64::from(submission().uid.0)),
        JobField::Gid => number(u64::from(submission().gid.0)),
        JobField::Account => word(spec().account.as_ref()),
        JobField::Queue => text(submission().queue),
        JobField::Submit => time(Some(submission().submit)),
        JobField::State => text(facts.status().state.word()),
        JobField::Reason => match facts.reason() {
            Reason::Nothing => text(""),
            Reason::Waits(reason) => text(reason.word()),
            Reason::Ended(note) => text(note),
        },
        JobField::HeldBy => text(facts.status().held_by.map_or("", |held| held.word())),
        JobField::Place => facts.place().map_or(Cell::None, Cell::Number),
        JobField::Priority => Cell::Number(facts.priority()),
        JobField::PriorityFactors => text(factors_of(facts)),
        JobField::Nice => Cell::Number(spec().nice),
        JobField::Attempt => number(u64::from(facts.status().attempt.0)),
        JobField::Restarts => number(restarts(facts)),
        JobField::Apart => facts.status().apart.map_or(Cell::None, flag),
        JobField::Requeue => flag(spec().requeue),
        JobField::Eligible => time(facts.status().eligible),
        JobField::Begin => time(spec().begin.max(facts.status().not_before)),
        JobField::PredictedStart => time(facts.predicted_start()),
        JobField::Allocated => time(facts.attempt_times().allocated),
        JobField::Start => time(facts.attempt_times().start),
        JobField::LatestEnd => time(facts.attempt_times().latest_end),
        JobField::End => time(facts.end().map(|end| end.end)),
        JobField::Elapsed => span(facts.attempt_times().elapsed),
        JobField::TimeLimit => span(facts.attempt_times().limit),
        JobField::TimeMin => span(spec().time_min),
        JobField::Deadline => time(spec().deadline),
        JobField::SuspendedFor | JobField::SuspendedSince => suspension(facts, field),
        JobField::Resized => time(facts.attempt_times().resized),
        JobField::PreemptTime | JobField::PreemptEligible => preemption(facts, field),
        JobField::Spares | JobField::NodeCount => number(nodes_counted(facts, field)),
        JobField::Nodes | JobField::FailedNodes => text(fold(&nodes(facts, field))),
        JobField::BatchHost => text(facts.held().next().map_or("", |held| held.node)),
        JobField::Tasks => number(tasks(facts)),
        JobField::Cores => number(cores(facts)),
        JobField::MemoryPerNode => memory_per_node(facts),
        JobField::Gpus => number(gpus(facts)),
        JobField::TasksByNode => text(by_node::write(facts.held().map(|held| held.tasks))),
        JobField::CoresByNode => text(by_node::write(facts.held().map(|held| held.amounts.cores))),
        JobField::CoreIds => {
            text(ids_by_node::write(facts.held().map(|held| (held.node, held.core_ids))))
        }
        JobField::GpuIds => {
            text(ids_by_node::write(facts.held().map(|held| (held.node, held.gpu_ids))))
        }
        JobField::ExitCode => signed(facts.end().map(|end| end.exit_code)),
        JobField::Signal => signed(facts.end().map(|end| end.signal)),
        JobField::DerivedExitCode => signed(facts.attempt_times().derived.map(|derived| derived.0)),
        JobField::DerivedSignal => signed(facts.attempt_times().derived.map(|derived| derived.1)),
        JobField::PeakMemory | JobField::Energy => amount_used(facts, field),
        JobField::GpuBusy | JobField::GpuMemory => amount_used(facts, field),
        JobField::UserCpu | JobField::SystemCpu => amount_used(facts, field),
        JobField::Stdout => text(facts.files().stdout.lossy()),
        JobField::Stderr => text(facts.files().stderr.lossy()),
        JobField::Stdin => text(facts.files().stdin.lossy()),
        JobField::Dependencies => text(dependency::all(spec())),
        JobField::DependencyText => text(dependency::open(spec(), &facts.waits_for())),
        JobField::Reservation => maybe(spec().reservation.map(|id| id.0)),
        JobField::Command => text(request::command(&spec().program)),
        JobField::Workdir => text(spec().workdir.lossy()),
        JobField::Comment => text(&spec().comment),
        JobField::AdminComment => text(&spec().admin_comment),
        JobField::Qos => word(spec().qos.as_ref()),
        JobField::Wckey => word(spec().wckey.as_ref()),
        JobField::Licenses => text(counted::write(&spec().licenses)),
        JobField::SubmitHost => word(spec().submit_host.as_ref()),
        JobField::SubmitSession => maybe(spec().submit_session),
        JobField::SubmitLine => text(&spec().submit_line),
        JobField::Dialect => text(spec().dialect.word()),
        JobField::Batch => flag(matches!(spec().program, Program::Script { .. })),
        JobField::Rlimits => text(request::rlimits(spec())),
        JobField::OpenMode => text(open_mode(spec().open_mode)),
        JobField::MailTypes => text(request::mail_types(&spec().mail)),
        JobField::MailTo => text(&spec().mail.to),
        JobField::Umask => number(u64::from(spec().umask)),
        JobField::Attended => flag(spec().attended),
        JobField::Warn => text(spec().warn.as_ref().map(request::warn).unwrap_or_default()),
        JobField::EndIfNever => spec().end_if_never.map_or(Cell::None, flag),
        JobField::Mpi => word(spec().mpi.as_ref()),
        JobField::Queues => text(spec().queues.join(",")),
        JobField::TasksPerNode => maybe(asked().tasks_per_node),
        JobField::CoresPerTask => number(u64::from(asked().cores_per_task)),
        JobField::MemoryPerCore => match asked().memory {
            MemoryRequest::PerCore(memory) => number(memory.0),
            MemoryRequest::PerNode(_) | MemoryRequest::QueueDefault => Cell::None,
        },
        JobField::MinMemoryPerNode => memory_by_node(asked().memory),
        JobField::MinDisk => number(asked().disk_per_node.0),
        JobField::MinNodes => maybe(asked().nodes),
        JobField::MaxNodes => maybe(asked().max_nodes),
        JobField::AskedTasks => maybe(asked().tasks),
        JobField::Require => text(fold(&asked().require)),
        JobField::Avoid => text(fold(&asked().avoid)),
        JobField::Prefer => text(features::preferred(asked())),
        JobField::Features => text(asked().features.join(",")),
        JobField::Constraint => text(features::constraint(asked())),
        JobField::Sets => text(asked().sets.join(",")),
        JobField::Exclusive => flag(asked().exclusive || facts.gets_whole_nodes()),
        JobField::Oversubscribe => flag(asked().oversubscribe),
        F::Contiguous | F::MaxSwitches | F::SwitchWait | F::Segment => near(asked(), field),
        JobField::Gres => text(gres::write(asked())),
    }
}

fn factors_of(facts: &impl JobFacts) -> String {
    let factors = facts.factors();
    factors
        .as_ref()
        .map(priority_factors::write)
        .unwrap_or_default()
}

/// How near to each other its nodes are to be.
fn near(asked: &ResourceRequest, field: JobField) -> Cell<'static> {
    match field {
        JobField::Segment => maybe(asked.segment),
        JobField::MaxSwitches => maybe(asked.switches.map(|own| own.most)),
        JobField::SwitchWait => span(asked.switches.and_then(|own| own.wait)),
        _ => flag(asked.contiguous),
    }
}

/// Memory on each node, where it was asked for in that way.
fn memory_by_node(memory: MemoryRequest) -> Cell<'static> {
    match memory {
        MemoryRequest::PerNode(memory) => number(memory.0),
        MemoryRequest::PerCore(_) | MemoryRequest::QueueDefault => Cell::None,
    }
}

const fn open_mode(mode: OpenMode) -> &'static str {
    match mode {
        OpenMode::Truncate => "truncate",
        OpenMode::Append => "append",
    }
}

fn maybe(n: Option<impl Into<u64>>) -> Cell<'static> {
    n.map_or(Cell::None, |n| number(n.into()))
}

fn signed(n: Option<i32>) -> Cell<'static> {
    n.map_or(Cell::None, |n| Cell::Number(i64::from(n)))
}

fn nodes_counted(facts: &impl JobFacts, field: JobField) -> u64 {
    match field {
        JobField::Spares => facts.status().spares.into(),
        _ => node_count(facts),
    }
}

/// Nodes that it holds, or that it was lost with.
fn nodes<F: JobFacts>(facts: &F, field: JobField) -> Vec<&str> {
    match field {
        JobField::FailedNodes => facts.failed_nodes(),
        _ => facts.held().map(|held| held.node).collect(),
    }
}

fn suspension<'a>(facts: &impl JobFacts, field: JobField) -> Cell<'a> {
    match field {
        JobField::SuspendedFor => span(facts.attempt_times().suspended_for),
        _ => time(facts.attempt_times().suspended_since),
    }
}

fn preemption<'a>(facts: &impl JobFacts, field: JobField) -> Cell<'a> {
    match field {
        JobField::PreemptTime => time(facts.attempt_times().preempted),
        _ => time(facts.attempt_times().preemptible),
    }
}

fn amount_used<'a>(facts: &impl JobFacts, field: JobField) -> Cell<'a> {
    let Some(end) = facts.end() else {
        return Cell::None;
    };
    match field {
        JobField::UserCpu => maybe(Some(end.user_cpu_us)),
        JobField::SystemCpu => maybe(Some(end.system_cpu_us)),
        JobField::PeakMemory => maybe(Some(end.peak_memory_bytes)),
        JobField::GpuBusy => maybe(end.devices.gpu_busy_permille()),
        JobField::GpuMemory => maybe(end.devices.gpu_memory_bytes()),
        _ => maybe(end.devices.energy_joules()),
    }
}

fn time(t: Option<Time>) -> Cell<'static> {
    t.map_or(Cell::None, |t| Cell::Number(t.0))
}

fn span(s: Option<Span>) -> Cell<'static> {
    s.map_or(Cell::None, |s| Cell::Number(s.0))
}

fn flag(yes: bool) -> Cell<'static> {
    number(u64::from(yes))
}

fn word(word: Option<&String>) -> Cell<'_> {
    text(word.map_or("", String::as_str))
}

fn at_once(facts: &impl JobFacts) -> Option<u32> {
    facts.array().and_then(|array| array.at_once)
}

/// Indices of an array as they were asked for, or those of the tasks that the row stands for.
fn array_spec<'a>(facts: &'a impl JobFacts, all: Option<&'a str>) -> Cell<'a> {
    let array = facts.array();
    let at_once = array.and_then(|array| array.at_once);
    if let Some(tasks) = facts.name().tasks {
        return text(row_name::with_limit(&crate::words::indices(tasks.iter().copied()), at_once));
    }
    let is_array = array.is_some_and(|array| array.indices.is_some());
    match all.filter(|_| is_array) {
        None => text(""),
        Some(all) if at_once.is_none() => text(all),
        Some(all) => text(row_name::with_limit(all, at_once)),
    }
}

/// Which of its components it is, or how many these are; nothing of a job of one.
fn component(facts: &impl JobFacts, field: JobField) -> Cell<'static> {
    let count = facts.submission().spec.component_count() as u64;
    let name = facts.name();
    match count {
        1 => Cell::None,
        _ if field == JobField::Components => number(count),
        _ => number(name.id.0.saturating_sub(name.base.0)),
    }
}

/// How often a job was begun anew; one that waits to be is counted as begun.
fn restarts(facts: &impl JobFacts) -> u64 {
    let status = facts.status();
    let again = status.state == JobState::Waiting;
    u64::from(status.attempt.0.saturating_sub(u32::from(!again)))
}

fn waits(facts: &impl JobFacts) -> bool {
    facts.status().state == JobState::Waiting
}

/// Nodes held, or asked for while it waits.
fn node_count(facts: &impl JobFacts) -> u64 {
    match waits(facts) {
        true => u64::from(asked_nodes(facts)),
        false => facts.held().count() as u64,
    }
}

fn tasks(facts: &impl JobFacts) -> u64 {
    match waits(facts) {
        true => asked_of(facts, |request| u64::from(request.task_count())),
        false => facts.held().map(|held| u64::from(held.tasks)).sum(),
    }
}

fn cores(facts: &impl JobFacts) -> u64 {
    if !waits(facts) {
        return facts.held().map(|held| u64::from(held.amounts.cores)).sum();
    }
    let whole = facts.gets_whole_nodes();
    let single = facts.requests().count() == 1;
    asked_of(facts, |request| {
        let takers = match request.overcommit && !whole {
            true if single => asked_nodes(facts),
            true => request.nodes.unwrap_or(1),
            false => request.task_count(),
        };
        u64::from(takers) * u64::from(request.cores_per_task)
    })
}

fn gpus(facts: &impl JobFacts) -> u64 {
    if !waits(facts) {
        return facts.held().map(|held| u64::from(held.amounts.gpus)).sum();
    }
    let single = facts.requests().count() == 1;
    asked_of(facts, |request| {
        let nodes = match single {
            true => asked_nodes(facts),
            false => request.nodes.unwrap_or(1),
        };
        u64::from(request.gpus_per_node) * u64::from(nodes)
    })
}

/// Memory on the first node; before it has one what it asks for, where it says.
fn memory_per_node(facts: &impl JobFacts) -> Cell<'static> {
    if let Some(held) = facts.held().next() {
        return number(held.amounts.memory.0);
    }
    match facts.submission().spec.request.memory {
        MemoryRequest::PerNode(memory) if !facts.status().over => number(memory.0),
        MemoryRequest::PerNode(_) | MemoryRequest::PerCore(_) | MemoryRequest::QueueDefault => {
            Cell::None
        }
    }
}

fn asked_nodes(facts: &impl JobFacts) -> u32 {
    let asked = || facts.submission().spec.request.nodes;
    facts.least_nodes().or_else(asked).unwrap_or(1)
}

/// The sum over all components of a job.
fn asked_of(facts: &impl JobFacts, each: impl Fn(&ResourceRequest) -> u64) -> u64 {
    facts.requests().map(each).fold(0, u64::saturating_add)
}
