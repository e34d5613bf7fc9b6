//! The request that is judged, field by field.

use crate::field::{Field, counted, misfit, number, size};
use crate::function::Function;
use crate::value::Value;
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::{CountedResources, JobSpec, MiB, OsText, Program, User};

/// Who asks, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// Kind of the request: `submit`, `change`, `reserve`, `quote` or `workflow`.
    pub request: &'static str,
    /// Who asks, as the directory says.
    pub user: &'a User,
    /// An administrator asks.
    pub admin: bool,
    /// Name of the default queue.
    pub default_queue: Option<&'a str>,
}

/// What is judged: one component of a job as it would be.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Who asks, and for what.
    pub requester: Requester<'a>,
    /// The job as it would be; of a reservation what it has in common with one.
    pub spec: &'a mut JobSpec,
    /// Number of the array's tasks; `None` where it is none.
    pub array: Option<u64>,
    /// Variables, `NAME=value` separated by NUL, where they are not those of `spec`.
    pub environment: Option<&'a OsText>,
    /// The component that is judged, from 0.
    pub component: u16,
}

impl Subject<'_> {
    fn request(&self) -> &ResourceRequest {
        let component = self.spec.component(self.component);
        component.map_or(&self.spec.request, |component| component.request)
    }

    fn request_mut(&mut self) -> &mut ResourceRequest {
        let further = usize::from(self.component).checked_sub(1);
        match further.and_then(|at| self.spec.further_components.get_mut(at)) {
            Some(own) => &mut own.request,
            None => &mut self.spec.request,
        }
    }

    fn queue(&self) -> Option<&str> {
        let component = self.spec.component(self.component);
        component.and_then(|component| component.queue)
    }

    fn queue_mut(&mut self) -> &mut Option<String> {
        let further = usize::from(self.component).checked_sub(1);
        match further.and_then(|at| self.spec.further_components.get_mut(at)) {
            Some(own) => &mut own.queue,
            None => &mut self.spec.queue,
        }
    }

    /// Whether a value was asked for: fields that always have one are not where it is the usual
    /// one.
    pub fn is_given(&self, field: Field) -> bool {
        match (field, self.get(field)) {
            (_, Value::Unset | Value::Flag(false)) => false,
            (Field::CoresPerTask, value) => value != Value::Number(1),
            (Field::GpusPerNode | Field::Gpus | Field::Nice, value) => value != Value::Number(0),
            (_, Value::List(all)) => !all.is_empty(),
            _ => true,
        }
    }

    /// The value of a field.
    pub fn get(&self, field: Field) -> Value {
        let (spec, request) = (&*self.spec, self.request());
        let user = self.requester.user;
        match field {
            Field::Request => word(self.requester.request),
            Field::User => word(&user.name),
            Field::Uid => Value::Number(user.uid.0.into()),
            Field::Groups => Value::List(user.groups.iter().map(|g| g.name.clone()).collect()),
            Field::Admin => Value::Flag(self.requester.admin),
            Field::Name => word(&spec.name),
            Field::Queue => optional(self.queue()),
            Field::Queues => Value::List(spec.queues.clone()),
            Field::TargetQueue => optional(self.queue().or(self.requester.default_queue)),
            Field::Account => optional(spec.account.as_deref()),
            Field::Qos => optional(spec.qos.as_deref()),
            Field::Wckey => optional(spec.wckey.as_deref()),
            Field::Comment => optional(Some(&*spec.comment).filter(|text| !text.is_empty())),
            Field::AdminComment => {
                optional(Some(&*spec.admin_comment).filter(|text| !text.is_empty()))
            }
            Field::Reservation => amount(spec.reservation.map(|id| id.0)),
            Field::Interactive => Value::Flag(spec.attended || spec.program == Program::Allocation),
            Field::Script => Value::Flag(matches!(spec.program, Program::Script { .. })),
            Field::Nodes => amount(request.nodes),
            Field::MaxNodes => amount(request.max_nodes),
            Field::Tasks => amount(request.tasks),
            Field::TasksPerNode => amount(request.tasks_per_node),
            Field::CoresPerTask => amount(Some(request.cores_per_task)),
            Field::Cores => {
                let tasks = u64::from(request.task_count());
                amount(Some(tasks * u64::from(request.cores_per_task)))
            }
            Field::MemoryPerNode => match request.memory {
                MemoryRequest::PerNode(mib) => of_size(mib),
                MemoryRequest::PerCore(_) | MemoryRequest::QueueDefault => Value::Unset,
            },
            Field::MemoryPerCore => match request.memory {
                MemoryRequest::PerCore(mib) => of_size(mib),
                MemoryRequest::PerNode(_) | MemoryRequest::QueueDefault => Value::Unset,
            },
            Field::DiskPerNode => match request.disk_per_node {
                MiB(0) => Value::Unset,
                mib => of_size(mib),
            },
            Field::GpusPerNode => amount(Some(request.gpus_per_node)),
            Field::Gpus => amount(Some(gpus(request))),
            Field::GpuType => only_type(request).map_or(Value::Unset, Value::Text),
            Field::GpuTypes => names(&request.gpu_types),
            Field::Licenses => names(&spec.licenses),
            Field::Resources => names(&request.other_per_node),
            Field::Features => Value::List(request.features.clone()),
            Field::Sets => Value::List(request.sets.clone()),
            Field::RequireNodes => Value::List(request.require.clone()),
            Field::AvoidNodes => Value::List(request.avoid.clone()),
            Field::PreferNodes => Value::List(request.prefer.clone()),
            Field::Exclusive => Value::Flag(request.exclusive),
            Field::Array => amount(self.array),
            Field::TimeLimit => spec.time_limit.map_or(Value::Unset, Value::of_span),
            Field::TimeMin => spec.time_min.map_or(Value::Unset, Value::of_span),
            Field::Nice => Value::Number(spec.nice),
            Field::Priority => amount(spec.priority),
            Field::Hold => Value::Flag(spec.hold),
            Field::Requeue => Value::Flag(spec.requeue),
            Field::Dependencies => amount(Some(spec.dependencies.len() as u64)),
            Field::Mail => {
                let mail = &spec.mail;
                let asked = mail.begin || mail.end || mail.fail || mail.requeue;
                Value::Flag(asked || !mail.limit_shares.is_empty())
            }
            Field::Mpi => optional(spec.mpi.as_deref()),
            Field::WorkingDirectory => Value::Text(spec.workdir.lossy()),
            Field::Component => amount(Some(self.component)),
            Field::Components => amount(Some(spec.component_count() as u64)),
            Field::SubmitHost => optional(spec.submit_host.as_deref()),
            Field::Dialect => word(spec.dialect.word()),
        }
    }

    /// Sets a field.
    ///
    /// # Errors
    /// It cannot be set, or not to that.
    pub fn set(&mut self, field: Field, value: Value) -> Result<(), String> {
        use Field as F;
        use Value as V;
        let whole = |n| number(field, n);
        match (field, value) {
            (F::Name, V::Text(text)) => self.spec.name = text,
            (F::Queue, V::Text(text)) => {
                *self.queue_mut() = Some(text);
                self.spec.queues.clear();
            }
            (F::Queues, V::List(all)) => {
                self.spec.queue = all.first().cloned();
                self.spec.queues = if all.len() > 1 { all } else { Vec::new() };
            }
            (F::Account, V::Text(text)) => self.spec.account = some(text),
            (F::Qos, V::Text(text)) => self.spec.qos = some(text),
            (F::Wckey, V::Text(text)) => self.spec.wckey = some(text),
            (F::Comment, V::Text(text)) => self.spec.comment = text,
            (F::AdminComment, V::Text(text)) => self.spec.admin_comment = text,
            (F::Nodes, V::Number(n)) => self.request_mut().nodes = Some(whole(n)?),
            (F::MaxNodes, V::Number(n)) => self.request_mut().max_nodes = Some(whole(n)?),
            (F::Tasks, V::Number(n)) => self.request_mut().tasks = Some(whole(n)?),
            (F::TasksPerNode, V::Number(n)) => {
                self.request_mut().tasks_per_node = Some(whole(n)?);
            }
            (F::CoresPerTask, V::Number(n)) => self.request_mut().cores_per_task = whole(n)?,
            (F::MemoryPerNode, V::Size(n)) => {
                self.request_mut().memory = MemoryRequest::PerNode(size(field, n)?);
            }
            (F::MemoryPerCore, V::Size(n)) => {
                self.request_mut().memory = MemoryRequest::PerCore(size(field, n)?);
            }
            (F::DiskPerNode, V::Size(n)) => self.request_mut().disk_per_node = size(field, n)?,
            (F::GpusPerNode, V::Number(n)) => {
                let request = self.request_mut();
                request.gpus_per_node = whole(n)?;
                request.gpus_in_all = None;
                // Those of one type stay of it.
                if let Some(name) = only_type(request) {
                    request.gpu_types.set(&name, request.gpus_per_node);
                }
            }
            (F::GpuType, V::Text(text)) => {
                let request = self.request_mut();
                let mut types = CountedResources::default();
                types.set(&text, request.gpus_per_node);
                request.gpu_types = types;
            }
            (F::Licenses, V::List(all)) => self.spec.licenses = counted(&all)?,
            (F::Resources, V::List(all)) => self.request_mut().other_per_node = counted(&all)?,
            (F::Features, V::List(all)) => self.request_mut().features = all,
            (F::Sets, V::List(all)) => self.request_mut().sets = all,
            (F::RequireNodes, V::List(all)) => self.request_mut().require = all,
            (F::AvoidNodes, V::List(all)) => self.request_mut().avoid = all,
            (F::PreferNodes, V::List(all)) => self.request_mut().prefer = all,
            (F::Exclusive, V::Flag(yes)) => self.request_mut().exclusive = yes,
            (F::TimeLimit, V::Time(secs)) => self.spec.time_limit = Some(Value::span(secs)),
            (F::TimeMin, V::Time(secs)) => self.spec.time_min = Some(Value::span(secs)),
            (F::Nice, V::Number(n)) => self.spec.nice = n,
            (F::Priority, V::Number(n)) => self.spec.priority = Some(whole(n)?),
            (F::Hold, V::Flag(yes)) => self.spec.hold = yes,
            (F::Requeue, V::Flag(yes)) => self.spec.requeue = yes,
            (F::Mpi, V::Text(text)) => self.spec.mpi = some(text),
            (field, value) => return Err(misfit(field, &value)),
        }
        Ok(())
    }

    /// What is there, and `more`: each name once, with the greater count.
    pub(crate) fn with(&self, field: Field, more: Vec<String>) -> Value {
        let mut all = match field {
            Field::Licenses => entries(&self.spec.licenses),
            Field::Resources => entries(&self.request().other_per_node),
            field => match self.get(field) {
                Value::List(all) => all,
                _ => Vec::new(),
            },
        };
        let name = |entry: &str| entry.rsplit_once(':').map_or(entry, |(n, _)| n).to_owned();
        for entry in more {
            if !all.iter().any(|there| name(there) == name(&entry)) {
                all.push(entry);
            }
        }
        Value::List(all)
    }

    pub(crate) fn call(&self, function: Function, name: &str) -> Value {
        match function {
            Function::License => amount(Some(self.spec.licenses.get(name))),
            Function::Resource => amount(Some(self.request().other_per_node.get(name))),
            Function::GpusOf => amount(Some(self.request().gpu_types.get(name))),
            Function::Variable => self.variable(name),
        }
    }

    fn variable(&self, name: &str) -> Value {
        let block = self.environment.unwrap_or(&self.spec.environment);
        let mut variables = block.0.split(|byte| *byte == 0);
        let found = variables.find_map(|line| {
            let rest = line.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=")
        });
        found.map_or(Value::Unset, |value| Value::Text(String::from_utf8_lossy(value).into_owned()))
    }
}

fn word(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn optional(text: Option<&str>) -> Value {
    text.map_or(Value::Unset, word)
}

/// An empty text takes the value away.
fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn amount(n: Option<impl Into<u64>>) -> Value {
    match n {
        Some(n) => Value::Number(i64::try_from(n.into()).unwrap_or(i64::MAX)),
        None => Value::Unset,
    }
}

fn of_size(mib: MiB) -> Value {
    Value::Size(i64::try_from(mib.0).unwrap_or(i64::MAX))
}

fn gpus(request: &ResourceRequest) -> u64 {
    let nodes = request.nodes.or(request.counted_nodes()).unwrap_or(1);
    let all = u64::from(request.gpus_per_node) * u64::from(nodes);
    request.gpus_in_all.map_or(all, u64::from)
}

/// The type of the GPUs where it is one.
fn only_type(request: &ResourceRequest) -> Option<String> {
    let mut types = request.gpu_types.iter();
    let one = types.next().filter(|_| types.next().is_none());
    one.map(|(name, _)| name.to_owned())
}

fn names(all: &CountedResources) -> Value {
    Value::List(all.iter().map(|(name, _)| name.to_owned()).collect())
}

fn entries(all: &CountedResources) -> Vec<String> {
    all.iter()
        .map(|(name, count)| format!("{name}:{count}"))
        .collect()
}
