//! The request that is judged, field by field.

mod get;
mod set;

use crate::field::Field;
use crate::function::Function;
use crate::value::Value;
use cosy_model::job::ResourceRequest;
use cosy_model::{ArraySpec, CountedResources, JobSpec, OsText, User};

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
    /// Its indices as they are written, where they are known.
    pub indices: Option<&'a ArraySpec>,
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
            (Field::GpusPerNode | Field::Gpus | Field::Nice | Field::SiteFactor, value) => {
                value != Value::Number(0)
            }
            (_, Value::List(all)) => !all.is_empty(),
            _ => true,
        }
    }

    /// What is there, and `more`: each name once, with the greater count.
    pub(crate) fn with(&self, field: Field, more: Vec<String>) -> Value {
        let mut all = match self.in_full(field) {
            Value::List(all) => all,
            _ => Vec::new(),
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

fn amount(n: Option<impl Into<u64>>) -> Value {
    match n {
        Some(n) => Value::Number(i64::try_from(n.into()).unwrap_or(i64::MAX)),
        None => Value::Unset,
    }
}

/// The type of the GPUs where it is one.
fn only_type(request: &ResourceRequest) -> Option<String> {
    let mut types = request.gpu_types.iter();
    let one = types.next().filter(|_| types.next().is_none());
    one.map(|(name, _)| name.to_owned())
}

/// Each as `NAME:COUNT`, in order.
fn entries(all: &CountedResources) -> Vec<String> {
    all.iter()
        .map(|(name, count)| format!("{name}:{count}"))
        .collect()
}
