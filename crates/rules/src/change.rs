//! Fields of a change: which it asks for, and how what rules set becomes part of it.

use crate::field::{Field, counted, groups, misfit, number, point, reservation, size};
use crate::value::Value;
use cosy_model::api::JobChange;
use cosy_model::job::MemoryRequest;

/// The fields that a change asks for.
pub fn asked_by(change: &JobChange) -> Vec<Field> {
    use Field as F;
    let per_node = matches!(change.memory, Some(MemoryRequest::PerNode(_)));
    let per_core = matches!(change.memory, Some(MemoryRequest::PerCore(_)));
    let gpus = change.gpus_per_node.is_some();
    let all = [
        (F::Name, change.name.is_some()),
        (F::Queue, change.queue.is_some()),
        (F::Account, change.account.is_some()),
        (F::Qos, change.qos.is_some()),
        (F::Wckey, change.wckey.is_some()),
        (F::Comment, change.comment.is_some()),
        (F::AdminComment, change.admin_comment.is_some()),
        (F::Reservation, change.reservation.is_some()),
        (F::Nodes, change.nodes.is_some()),
        (F::MaxNodes, change.max_nodes.is_some()),
        (F::Tasks, change.tasks.is_some()),
        (F::TasksPerNode, change.tasks_per_node.is_some()),
        (F::CoresPerTask, change.cores_per_task.is_some()),
        (F::MemoryPerNode, per_node),
        (F::MemoryPerCore, per_core),
        (F::DiskPerNode, change.disk_per_node.is_some()),
        (F::GpusPerNode, gpus),
        (F::Gpus, gpus),
        (F::Licenses, change.licenses.is_some()),
        (F::Resources, change.other_per_node.is_some()),
        (F::Features, change.features.is_some()),
        (F::AnyFeatures, change.any_features.is_some()),
        (F::SameFeatures, change.same_features.is_some()),
        (F::CountedFeatures, change.counted_features.is_some()),
        (F::Sets, change.sets.is_some()),
        (F::RequireNodes, change.require.is_some()),
        (F::AvoidNodes, change.avoid.is_some()),
        (F::PreferNodes, change.prefer.is_some()),
        (F::Exclusive, change.exclusive.is_some()),
        (F::TimeLimit, change.time_limit.is_some()),
        (F::TimeMin, change.time_min.is_some()),
        (F::Begin, change.begin.is_some()),
        (F::Deadline, change.deadline.is_some()),
        (F::Nice, change.nice.is_some()),
        (F::SiteFactor, change.site_factor.is_some()),
        (F::Priority, change.priority.is_some()),
        (F::Requeue, change.requeue.is_some()),
        (F::Dependency, change.dependencies.is_some()),
        (F::MailTypes, change.mail.is_some()),
        (F::MailUser, change.mail.is_some()),
        (F::WorkingDirectory, change.workdir.is_some()),
        (F::Stdin, change.stdin.is_some()),
        (F::Stdout, change.stdout.is_some()),
        (F::Stderr, change.stderr.is_some()),
    ];
    let asked = all.into_iter().filter(|(_, asked)| *asked);
    asked.map(|(field, _)| field).collect()
}

/// Puts a field that a rule has set into a change of a job.
///
/// # Errors
/// A field that a change does not have, or a value that it cannot hold.
pub fn apply_to_change(change: &mut JobChange, field: Field, value: Value) -> Result<(), String> {
    match set_text(change, field, value) {
        Some(value) => set_other(change, field, value),
        None => Ok(()),
    }
}

/// Texts and lists. What is none of them comes back.
fn set_text(change: &mut JobChange, field: Field, value: Value) -> Option<Value> {
    use Field as F;
    use Value as V;
    match (field, value) {
        (F::Name, V::Text(text)) => change.name = Some(text),
        (F::Queue, V::Text(text)) => change.queue = Some(text),
        (F::Account, V::Text(text)) => change.account = Some(text),
        (F::Qos, V::Text(text)) => change.qos = Some(text),
        (F::Wckey, V::Text(text)) => change.wckey = Some(text),
        (F::Comment, V::Text(text)) => change.comment = Some(text),
        (F::AdminComment, V::Text(text)) => change.admin_comment = Some(text),
        (F::WorkingDirectory, V::Text(text)) => change.workdir = Some((&*text).into()),
        (F::Stdin, V::Text(text)) => change.stdin = Some((&*text).into()),
        (F::Stdout, V::Text(text)) => change.stdout = Some((&*text).into()),
        (F::Stderr, V::Text(text)) => change.stderr = Some((&*text).into()),
        (F::Features, V::List(all)) => change.features = Some(all),
        (F::AnyFeatures, V::List(all)) => change.any_features = Some(groups(&all)),
        (F::SameFeatures, V::List(all)) => change.same_features = Some(groups(&all)),
        (F::Sets, V::List(all)) => change.sets = Some(all),
        (F::RequireNodes, V::List(all)) => change.require = Some(all),
        (F::AvoidNodes, V::List(all)) => change.avoid = Some(all),
        (F::PreferNodes, V::List(all)) => change.prefer = Some(all),
        (_, value) => return Some(value),
    }
    None
}

fn set_other(change: &mut JobChange, field: Field, value: Value) -> Result<(), String> {
    use Field as F;
    use Value as V;
    match (field, value) {
        (F::Nodes, V::Number(n)) => change.nodes = Some(number(field, n)?),
        (F::MaxNodes, V::Number(n)) => change.max_nodes = Some(number(field, n)?),
        (F::Tasks, V::Number(n)) => change.tasks = Some(number(field, n)?),
        (F::TasksPerNode, V::Number(n)) => change.tasks_per_node = Some(number(field, n)?),
        (F::CoresPerTask, V::Number(n)) => change.cores_per_task = Some(number(field, n)?),
        (F::MemoryPerNode, V::Size(n)) => {
            change.memory = Some(MemoryRequest::PerNode(size(field, n)?));
        }
        (F::MemoryPerCore, V::Size(n)) => {
            change.memory = Some(MemoryRequest::PerCore(size(field, n)?));
        }
        (F::DiskPerNode, V::Size(n)) => change.disk_per_node = Some(size(field, n)?),
        (F::GpusPerNode, V::Number(n)) => change.gpus_per_node = Some(number(field, n)?),
        (F::Licenses, V::List(all)) => change.licenses = Some(counted(&all)?),
        (F::Resources, V::List(all)) => change.other_per_node = Some(counted(&all)?),
        (F::Exclusive, V::Flag(yes)) => change.exclusive = Some(yes),
        (F::TimeLimit, V::Time(secs)) => change.time_limit = Some(Value::span(secs)),
        (F::TimeMin, V::Time(secs)) => change.time_min = Some(Value::span(secs)),
        (F::Begin, V::Number(secs)) => change.begin = Some(point(field, secs)?),
        (F::Deadline, V::Number(secs)) => change.deadline = Some(point(field, secs)?),
        (F::Reservation, V::Number(n)) => change.reservation = Some(reservation(field, n)?),
        (F::Nice, V::Number(n)) => change.nice = Some(n),
        (F::SiteFactor, V::Number(n)) => change.site_factor = Some(n),
        (F::Priority, V::Number(n)) => change.priority = Some(number(field, n)?),
        (F::Requeue, V::Flag(yes)) => change.requeue = Some(yes),
        (field, V::Unset) if field.is_settable() => {
            return Err(format!("a change cannot take {} away", field.name()));
        }
        (field, _) if field.is_settable() => {
            return Err(format!("a change cannot set {}", field.name()));
        }
        (field, value) => return Err(misfit(field, &value)),
    }
    Ok(())
}
