//! Putting values into a request, by field.

use super::{Subject, only_type};
use crate::field::{Field, counted, groups, misfit, number, point, reservation, size};
use crate::value::Value;
use cosy_model::job::{MailRequest, MemoryRequest, ResourceRequest};
use cosy_model::{CountedResources, JobSpec, MiB, OsText};

impl Subject<'_> {
    /// Sets a field; [`Value::Unset`] takes away what was asked for.
    ///
    /// # Errors
    /// It cannot be set, or not to that.
    pub fn set(&mut self, field: Field, value: Value) -> Result<(), String> {
        use Field as F;
        use Value as V;
        match (field, value) {
            (F::Queue, V::Text(text)) => {
                *self.queue_mut() = Some(text);
                self.spec.queues.clear();
            }
            (F::Queue, V::Unset) => {
                *self.queue_mut() = None;
                self.spec.queues.clear();
            }
            (F::Queues, V::List(all)) => {
                self.spec.queue = all.first().cloned();
                self.spec.queues = if all.len() > 1 { all } else { Vec::new() };
            }
            (field, V::Unset) if takes_away(field) => {
                clear(self.spec, field);
                clear_request(self.request_mut(), field);
            }
            (field, value) => {
                let other = set_amount(self.request_mut(), field, value)?;
                let other = match other {
                    Some(value) => set_place(self.request_mut(), field, value)?,
                    None => None,
                };
                let other = match other {
                    Some(value) => set_words(self.spec, field, value)?,
                    None => None,
                };
                if let Some(value) = other {
                    set_course(self.spec, field, value)?;
                }
            }
        }
        Ok(())
    }
}

/// Fields of which nothing can be asked for.
const fn takes_away(field: Field) -> bool {
    use Field as F;
    matches!(
        field,
        F::Account
            | F::Qos
            | F::Wckey
            | F::Mpi
            | F::Reservation
            | F::Nodes
            | F::MaxNodes
            | F::Tasks
            | F::TasksPerNode
            | F::CoresPerTask
            | F::MemoryPerNode
            | F::MemoryPerCore
            | F::TimeLimit
            | F::TimeMin
            | F::Begin
            | F::Deadline
            | F::Priority
            | F::Stdin
            | F::Stdout
            | F::Stderr
    )
}

fn clear(spec: &mut JobSpec, field: Field) {
    use Field as F;
    match field {
        F::Account => spec.account = None,
        F::Qos => spec.qos = None,
        F::Wckey => spec.wckey = None,
        F::Mpi => spec.mpi = None,
        F::Reservation => spec.reservation = None,
        F::TimeLimit => spec.time_limit = None,
        F::TimeMin => spec.time_min = None,
        F::Begin => spec.begin = None,
        F::Deadline => spec.deadline = None,
        F::Priority => spec.priority = None,
        F::Stdin => spec.stdin = None,
        F::Stdout => spec.stdout = None,
        F::Stderr => spec.stderr = None,
        _ => {}
    }
}

fn clear_request(request: &mut ResourceRequest, field: Field) {
    use Field as F;
    match field {
        F::Nodes => request.nodes = None,
        F::MaxNodes => request.max_nodes = None,
        F::Tasks => request.tasks = None,
        F::TasksPerNode => request.tasks_per_node = None,
        F::CoresPerTask => request.cores_per_task = 1,
        F::MemoryPerNode | F::MemoryPerCore => request.ask_memory(MemoryRequest::QueueDefault),
        _ => {}
    }
}

/// Numbers, sizes and devices. What is none of them comes back.
fn set_amount(
    request: &mut ResourceRequest,
    field: Field,
    value: Value,
) -> Result<Option<Value>, String> {
    use Field as F;
    use Value as V;
    let whole = |n| number(field, n);
    match (field, value) {
        (F::Nodes, V::Number(n)) => request.nodes = Some(whole(n)?),
        (F::MaxNodes, V::Number(n)) => request.max_nodes = Some(whole(n)?),
        (F::Tasks, V::Number(n)) => request.tasks = Some(whole(n)?),
        (F::TasksPerNode, V::Number(n)) => request.tasks_per_node = Some(whole(n)?),
        (F::CoresPerTask, V::Number(n)) => request.cores_per_task = whole(n)?,
        (F::MemoryPerNode, V::Size(n)) => {
            request.ask_memory(MemoryRequest::PerNode(size(field, n)?));
        }
        (F::MemoryPerCore, V::Size(n)) => {
            request.ask_memory(MemoryRequest::PerCore(size(field, n)?));
        }
        (F::DiskPerNode, V::Size(n)) => request.disk_per_node = size(field, n)?,
        (F::DiskPerNode, V::Unset) => request.disk_per_node = MiB(0),
        (F::GpusPerNode, V::Number(n)) => {
            request.gpus_per_node = whole(n)?;
            request.gpus_in_all = None;
            request.asked.forget_gpus();
            // Those of one type stay of it.
            if let Some(name) = only_type(request) {
                request.gpu_types.set(&name, request.gpus_per_node);
            }
        }
        (F::GpuType, V::Text(text)) => {
            let mut types = CountedResources::default();
            types.set(&text, request.gpus_per_node);
            request.gpu_types = types;
            request.asked.forget_gpus();
        }
        (F::GpuTypes, V::List(all)) => {
            request.gpu_types = counted(&all)?;
            request.asked.forget_gpus();
            if !all.is_empty() {
                let counts = request.gpu_types.iter().map(|(_, count)| count);
                request.gpus_per_node = counts.fold(0, u32::saturating_add);
                request.gpus_in_all = None;
            }
        }
        (F::Resources, V::List(all)) => request.other_per_node = counted(&all)?,
        (_, value) => return Ok(Some(value)),
    }
    Ok(None)
}

/// Nodes, features and sets. What is none of them comes back.
fn set_place(
    request: &mut ResourceRequest,
    field: Field,
    value: Value,
) -> Result<Option<Value>, String> {
    use Field as F;
    use Value as V;
    match (field, value) {
        (F::Features, V::List(all)) => request.features = all,
        (F::AnyFeatures, V::List(all)) => request.any_features = groups(&all),
        (F::SameFeatures, V::List(all)) => request.same_features = groups(&all),
        (F::Sets, V::List(all)) => request.sets = all,
        (F::RequireNodes, V::List(all)) => request.require = all,
        (F::AvoidNodes, V::List(all)) => request.avoid = all,
        (F::PreferNodes, V::List(all)) => request.prefer = all,
        (F::Exclusive, V::Flag(yes)) => request.ask_whole_nodes(yes),
        (_, value) => return Ok(Some(value)),
    }
    Ok(None)
}

/// Names, accounts and files. What is none of them comes back.
fn set_words(spec: &mut JobSpec, field: Field, value: Value) -> Result<Option<Value>, String> {
    use Field as F;
    use Value as V;
    match (field, value) {
        (F::Name, V::Text(text)) => spec.name = text,
        (F::Account, V::Text(text)) => spec.account = some(text),
        (F::Qos, V::Text(text)) => spec.qos = some(text),
        (F::Wckey, V::Text(text)) => spec.wckey = some(text),
        (F::Mpi, V::Text(text)) => spec.mpi = some(text),
        (F::Comment, V::Text(text)) => spec.comment = text,
        (F::AdminComment, V::Text(text)) => spec.admin_comment = text,
        (F::WorkingDirectory, V::Text(text)) => spec.workdir = path(text),
        (F::Stdin, V::Text(text)) => spec.stdin = Some(path(text)),
        (F::Stdout, V::Text(text)) => spec.stdout = Some(path(text)),
        (F::Stderr, V::Text(text)) => spec.stderr = Some(path(text)),
        (F::MailUser, V::Text(text)) => spec.mail.to = text,
        (F::MailTypes, V::List(all)) => spec.mail = mail(&all, &spec.mail)?,
        (_, value) => return Ok(Some(value)),
    }
    Ok(None)
}

/// Times, and how the job goes through its queue.
fn set_course(spec: &mut JobSpec, field: Field, value: Value) -> Result<(), String> {
    use Field as F;
    use Value as V;
    match (field, value) {
        (F::Licenses, V::List(all)) => spec.licenses = counted(&all)?,
        (F::Reservation, V::Number(n)) => spec.reservation = Some(reservation(field, n)?),
        (F::TimeLimit, V::Time(secs)) => spec.time_limit = Some(Value::span(secs)),
        (F::TimeMin, V::Time(secs)) => spec.time_min = Some(Value::span(secs)),
        (F::Begin, V::Number(secs)) => spec.begin = Some(point(field, secs)?),
        (F::Deadline, V::Number(secs)) => spec.deadline = Some(point(field, secs)?),
        (F::Nice, V::Number(n)) => spec.nice = n,
        (F::SiteFactor, V::Number(n)) => spec.site_factor = n,
        (F::Priority, V::Number(n)) => spec.priority = Some(number(field, n)?),
        (F::Hold, V::Flag(yes)) => spec.hold = yes,
        (F::Requeue, V::Flag(yes)) => spec.requeue = yes,
        (field, value) => return Err(misfit(field, &value)),
    }
    Ok(())
}

/// An empty text takes the value away.
fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn path(text: String) -> OsText {
    OsText(text.into_bytes())
}

/// Which events mail is sent about; to whom stays.
pub(crate) fn mail(types: &[String], there: &MailRequest) -> Result<MailRequest, String> {
    let mut mail = MailRequest {
        to: there.to.clone(),
        ..MailRequest::default()
    };
    for word in types {
        match (word.as_str(), word.parse::<u8>()) {
            ("begin", _) => mail.begin = true,
            ("end", _) => mail.end = true,
            ("fail", _) => mail.fail = true,
            ("requeue", _) => mail.requeue = true,
            (_, Ok(share @ 1..=100)) => mail.limit_shares.push(share),
            _ => return Err(format!("mail_types knows no '{word}'")),
        }
    }
    Ok(mail)
}
