//! Columns of job lists that tell what was asked for and, node by node, what is held.
//!
//! Source of the shapes that tools read: squeue(1), scontrol(1).

use crate::jobs::job::{Run, Submitted};
use crate::record::RunRow;
use crate::table::{Cell, number, text};
use cosy_model::api::JobField;
use cosy_model::job::{
    CountedFeatures, MailRequest, MemoryRequest, OpenMode, ResourceRequest, WarnSignal,
};
use cosy_model::{Counted, JobSpec, NodeId, Program, Time};

/// What an attempt holds of a node, live or out of the store.
pub(crate) struct Held<'a> {
    pub node: &'a str,
    pub tasks: u32,
    pub cores: u32,
    pub core_ids: &'a [u32],
    pub gpu_ids: &'a [u32],
}

/// Out of the store.
pub(crate) fn held_of_row(run: &RunRow) -> Vec<Held<'_>> {
    let mut held = Vec::with_capacity(run.parts.len());
    for part in &run.parts {
        held.push(Held {
            node: &part.node,
            tasks: part.tasks,
            cores: part.amounts.cores,
            core_ids: &part.cores,
            gpu_ids: &part.gpus,
        });
    }
    held
}

/// Live; `name` gives the names of nodes.
pub(crate) fn held_of_run<'a>(run: &'a Run, name: impl Fn(NodeId) -> &'a str) -> Vec<Held<'a>> {
    let part = |p: &'a crate::jobs::job::Part| Held {
        node: name(p.node),
        tasks: p.tasks,
        cores: p.amounts.cores,
        core_ids: &p.cores,
        gpu_ids: &p.gpus,
    };
    run.parts.iter().map(part).collect()
}

/// Fields of what an attempt holds.
pub(crate) fn held_cell<'a>(held: &[Held<'a>], field: JobField) -> Cell<'a> {
    match field {
        JobField::BatchHost => text(held.first().map_or("", |p| p.node)),
        JobField::TasksByNode => text(repeats(held.iter().map(|p| p.tasks))),
        JobField::CoresByNode => text(repeats(held.iter().map(|p| p.cores))),
        JobField::CoreIds => text(ids_by_node(held, |p| p.core_ids)),
        JobField::GpuIds => text(ids_by_node(held, |p| p.gpu_ids)),
        _ => Cell::None,
    }
}

/// Fields of what was asked for.
pub(crate) fn asked_cell(job: &Submitted, field: JobField) -> Cell<'_> {
    let (spec, request) = (&job.spec, &job.spec.request);
    let maybe = |n: Option<u32>| n.map_or(Cell::None, |n| number(u64::from(n)));
    let time = |t: Option<Time>| t.map_or(Cell::None, |t| Cell::Number(t.0));
    let flag = |yes: bool| number(u64::from(yes));
    match field {
        JobField::Qos => word(spec.qos.as_ref()),
        JobField::Wckey => word(spec.wckey.as_ref()),
        JobField::SubmitHost => word(spec.submit_host.as_ref()),
        JobField::SubmitSession => maybe(spec.submit_session),
        JobField::SubmitLine => text(&spec.submit_line),
        JobField::Mpi => word(spec.mpi.as_ref()),
        JobField::Licenses => text(counted(&spec.licenses)),
        JobField::Deadline => time(spec.deadline),
        JobField::Begin => time(spec.begin),
        JobField::Dialect => text(spec.dialect.word()),
        JobField::TasksPerNode => maybe(request.tasks_per_node),
        JobField::CoresPerTask => number(u64::from(request.cores_per_task)),
        JobField::MinNodes => maybe(request.nodes),
        JobField::MaxNodes => maybe(request.max_nodes),
        JobField::AskedTasks => maybe(request.tasks),
        JobField::MemoryPerCore | JobField::MinMemoryPerNode => memory(request.memory, field),
        JobField::MinDisk => number(request.disk_per_node.0),
        JobField::Require => text(cosy_model::fold(&request.require)),
        JobField::Queues => text(spec.queues.join(",")),
        JobField::Sets => text(request.sets.join(",")),
        JobField::Exclusive => flag(request.exclusive || job.is_exclusive()),
        JobField::Oversubscribe => flag(request.oversubscribe),
        JobField::Contiguous => flag(request.contiguous),
        JobField::Gres => text(gres(request)),
        JobField::Constraint => text(constraint(request)),
        JobField::Batch => flag(matches!(spec.program, Program::Script { .. })),
        JobField::Rlimits => text(rlimits(spec)),
        JobField::OpenMode => text(match spec.open_mode {
            OpenMode::Truncate => "truncate",
            OpenMode::Append => "append",
        }),
        JobField::MailTypes => text(mail_types(&spec.mail)),
        JobField::MailTo => text(&spec.mail.to),
        JobField::Umask => number(u64::from(spec.umask)),
        JobField::TimeMin => spec.time_min.map_or(Cell::None, |t| Cell::Number(t.0)),
        JobField::Attended => flag(spec.attended),
        JobField::Warn => text(spec.warn.as_ref().map(warn).unwrap_or_default()),
        JobField::EndIfNever => spec.end_if_never.map_or(Cell::None, flag),
        _ => Cell::None,
    }
}

fn word(text: Option<&String>) -> Cell<'_> {
    crate::table::text(text.map_or("", String::as_str))
}

fn memory(request: MemoryRequest, field: JobField) -> Cell<'static> {
    match (request, field) {
        (MemoryRequest::PerCore(m), JobField::MemoryPerCore)
        | (MemoryRequest::PerNode(m), JobField::MinMemoryPerNode) => number(m.0),
        (
            MemoryRequest::PerCore(_) | MemoryRequest::PerNode(_) | MemoryRequest::QueueDefault,
            _,
        ) => Cell::None,
    }
}

/// `name:count` with commas.
pub(crate) fn counted(amounts: &Counted) -> String {
    let each = amounts
        .iter()
        .map(|(name, amount)| format!("{name}:{amount}"));
    each.collect::<Vec<_>>().join(",")
}

fn gres(request: &ResourceRequest) -> String {
    let mut all: Vec<String> = Vec::new();
    for (name, amount) in request.gpu_types.iter() {
        all.push(format!("gpu:{name}:{amount}"));
    }
    if request.gpus_per_node > 0 && all.is_empty() {
        all.push(format!("gpu:{}", request.gpus_per_node));
    }
    if !request.other_per_node.is_empty() {
        all.push(counted(&request.other_per_node));
    }
    all.join(",")
}

fn either(groups: &[Vec<String>]) -> String {
    let each: Vec<String> = groups.iter().map(|group| group.join("&")).collect();
    each.join("|")
}

/// What is taken first: nodes, features, sets.
pub(crate) fn preferred(request: &ResourceRequest) -> String {
    let features = Some(either(&request.prefer_features)).filter(|text| !text.is_empty());
    let all = request.prefer.iter().cloned().chain(features);
    let all: Vec<String> = all.chain(request.sets.iter().cloned()).collect();
    all.join(",")
}

/// `a&b`, `a&(b|c&d)`, `[rack1|rack2]`.
fn constraint(request: &ResourceRequest) -> String {
    let mut terms = request.features.clone();
    if !request.any_features.is_empty() {
        let groups = either(&request.any_features);
        let alone = terms.is_empty()
            && request.same_features.is_empty()
            && request.counted_features.is_empty();
        terms.push(if alone { groups } else { format!("({groups})") });
    }
    if !request.same_features.is_empty() {
        terms.push(format!("[{}]", either(&request.same_features)));
    }
    terms.extend(counted_features(&request.counted_features));
    terms.join("&")
}

/// `a*2`, `[(a|b)*2&c*1]`.
fn counted_features(all: &[CountedFeatures]) -> Option<String> {
    let one = |counted: &CountedFeatures| {
        let groups: Vec<String> = counted.any.iter().map(|group| group.join("&")).collect();
        let groups = groups.join("|");
        let single = !groups.contains(['&', '|']);
        let groups = if single {
            groups
        } else {
            format!("({groups})")
        };
        format!("{groups}*{}", counted.nodes)
    };
    match all {
        [] => None,
        [single] => Some(one(single)),
        _ => Some(format!(
            "[{}]",
            all.iter().map(one).collect::<Vec<_>>().join("&")
        )),
    }
}

fn rlimits(spec: &JobSpec) -> String {
    let number = |n: u64| match n {
        u64::MAX => "unlimited".to_owned(),
        n => n.to_string(),
    };
    let one = |(name, soft, hard): &(String, u64, u64)| {
        format!("{name}={}:{}", number(*soft), number(*hard))
    };
    let all: Vec<String> = spec.rlimits.iter().map(one).collect();
    all.join(",")
}

fn mail_types(mail: &MailRequest) -> String {
    let types = [
        (mail.begin, "begin"),
        (mail.end, "end"),
        (mail.fail, "fail"),
        (mail.requeue, "requeue"),
    ];
    let wanted = types.into_iter().filter(|(wanted, _)| *wanted);
    let shares = mail.limit_shares.iter().map(|share| match share {
        100 => "time_limit".to_owned(),
        share => format!("time_limit_{share}"),
    });
    let words = wanted.map(|(_, word)| word.to_owned()).chain(shares);
    words.collect::<Vec<_>>().join(",")
}

fn warn(warn: &WarnSignal) -> String {
    let whom = if warn.script_only { "B:" } else { "" };
    format!("{whom}{}@{}", warn.signal, warn.before.secs())
}

/// `4(x2),3`.
fn repeats(numbers: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((last, times)) if *last == n => *times += 1,
            _ => runs.push((n, 1)),
        }
    }
    let one = |(n, times): &(u32, u32)| match times {
        1 => n.to_string(),
        times => format!("{n}(x{times})"),
    };
    runs.iter().map(one).collect::<Vec<_>>().join(",")
}

/// `n1:0-3;n2:0,2`; nodes with none are left out.
fn ids_by_node<'a>(held: &[Held<'a>], ids: impl Fn(&Held<'a>) -> &'a [u32]) -> String {
    let one = |part: &Held<'a>| {
        let numbers: Vec<u64> = ids(part).iter().map(|n| u64::from(*n)).collect();
        (!numbers.is_empty()).then(|| {
            format!(
                "{}:{}",
                part.node,
                cosy_model::hostlist::ranges(&numbers, 1)
            )
        })
    };
    held.iter().filter_map(one).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_numbers() {
        let check = |numbers: &[u32], want: &str| {
            assert_eq!(repeats(numbers.iter().copied()), want);
        };
        check(&[], "");
        check(&[4], "4");
        check(&[4, 4, 3], "4(x2),3");
        check(&[1, 2, 1, 1, 1], "1,2,1(x3)");
    }

    #[test]
    fn constraints() {
        let check = |all: &[&str], any: &[&[&str]], same: &[&[&str]], want: &str| {
            let texts = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            let groups = |list: &[&[&str]]| list.iter().map(|g| texts(g)).collect::<Vec<_>>();
            let request = ResourceRequest {
                features: texts(all),
                any_features: groups(any),
                same_features: groups(same),
                ..ResourceRequest::default()
            };
            assert_eq!(constraint(&request), want);
        };
        check(&[], &[], &[], "");
        check(&["a", "b"], &[], &[], "a&b");
        check(&[], &[&["a"], &["b", "c"]], &[], "a|b&c");
        check(
            &["x"],
            &[&["a"], &["b"]],
            &[&["r1"], &["r2"]],
            "x&(a|b)&[r1|r2]",
        );
    }

    #[test]
    fn constraints_with_numbers() {
        let check = |counted: &[(&[&[&str]], u32)], want: &str| {
            let texts = |list: &&[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            let all = counted.iter().map(|(any, nodes)| CountedFeatures {
                any: any.iter().map(texts).collect(),
                nodes: *nodes,
            });
            let request = ResourceRequest {
                features: vec!["x".to_owned()],
                counted_features: all.collect(),
                ..ResourceRequest::default()
            };
            assert_eq!(constraint(&request), want);
        };
        check(&[(&[&["a"]], 2)], "x&a*2");
        check(&[(&[&["a", "b"]], 2)], "x&(a&b)*2");
        check(&[(&[&["a"], &["b"]], 2), (&[&["c"]], 1)], "x&[(a|b)*2&c*1]");
    }
}
