//! The shape of a job as a reservation would have it, to be quoted.
//!
//! It is made of the fields that the controller tells of a job. What no field tells exactly is left
//! out, and named.

use cosy_model::api::{JobField, Table};
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::{CountedResources, MiB, Span};
use cosy_view::words::counted;

/// Name of GPUs of no type among countable resources.
const GPU: &str = "gpu";
/// What stands before the type of GPUs.
const GPU_TYPE: &str = "gpu:";

/// A reservation of a job's shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// As it is asked for.
    pub spec: ReservationSpec,
    /// What the job asks for beside that.
    pub left_out: Vec<&'static str>,
}

/// The shape of the job in that row.
///
/// # Errors
/// In one sentence: there is none.
pub fn of(table: &Table, row: usize) -> Result<Shape, String> {
    let fields = Fields { table, row };
    let length = fields.number(JobField::TimeLimit).map(Span);
    let length = length.filter(|length| !length.is_unlimited() && *length > Span::ZERO);
    let length =
        length.ok_or("a job without a time limit has no price: nobody knows how long it stays")?;
    let (request, left_out) = fields.request();
    let text = |field| Some(fields.text(field).to_owned()).filter(|text| !text.is_empty());
    let mut spec = ReservationSpec::plain(request, length, StartChoice::Soonest);
    // Of several queues it goes to one.
    spec.queue = text(JobField::Queue).filter(|queue| !queue.contains(','));
    spec.account = text(JobField::Account);
    spec.licenses = amounts(counted::read(fields.text(JobField::Licenses)));
    Ok(Shape { spec, left_out })
}

struct Fields<'a> {
    table: &'a Table,
    row: usize,
}

impl Fields<'_> {
    fn text(&self, field: JobField) -> &str {
        self.table.text(self.row, field)
    }

    fn number(&self, field: JobField) -> Option<i64> {
        self.table.number(self.row, field)
    }

    /// A number of things; `None` where there is none.
    fn count(&self, field: JobField) -> Option<u32> {
        let number = self.number(field)?;
        u32::try_from(number).ok().filter(|n| *n > 0)
    }

    fn mebibytes(&self, field: JobField) -> Option<MiB> {
        let number = self.number(field)?;
        u64::try_from(number).ok().filter(|n| *n > 0).map(MiB)
    }

    fn hosts(&self, field: JobField) -> Vec<String> {
        match self.text(field) {
            "" => Vec::new(),
            text => cosy_model::expand(text).unwrap_or_default(),
        }
    }

    fn is_set(&self, field: JobField) -> bool {
        self.number(field) == Some(1)
    }

    /// What it asks for, and what of that could not be read.
    fn request(&self) -> (ResourceRequest, Vec<&'static str>) {
        use JobField as F;
        let per_node = self
            .mebibytes(F::MinMemoryPerNode)
            .map(MemoryRequest::PerNode);
        let per_core = self.mebibytes(F::MemoryPerCore).map(MemoryRequest::PerCore);
        let features: Vec<String> = counted_words(self.text(F::Features)).collect();
        let mut left_out = Vec::new();
        if self.text(F::Constraint) != features.join("&") {
            left_out.push("its choice among features");
        }
        if !self.text(F::Prefer).is_empty() {
            left_out.push("the nodes that it would rather have");
        }
        let gres = || counted::read(self.text(F::Gres));
        let types = amounts(gres().filter_map(|(name, n)| Some((name.strip_prefix(GPU_TYPE)?, n))));
        let of_types: u32 = types.iter().map(|(_, n)| n).sum();
        let plain: u32 = gres()
            .filter(|(name, _)| *name == GPU)
            .map(|(_, n)| n)
            .sum();
        let is_other = |name: &str| name != GPU && !name.starts_with(GPU_TYPE);
        let request = ResourceRequest {
            nodes: self.count(F::MinNodes),
            max_nodes: self.count(F::MaxNodes),
            tasks: self.count(F::AskedTasks),
            tasks_per_node: self.count(F::TasksPerNode),
            cores_per_task: self.count(F::CoresPerTask).unwrap_or(1),
            memory: per_node.or(per_core).unwrap_or_default(),
            disk_per_node: self.mebibytes(F::MinDisk).unwrap_or_default(),
            gpus_per_node: of_types.max(plain),
            gpu_types: types,
            other_per_node: amounts(gres().filter(|(name, _)| is_other(name))),
            exclusive: self.is_set(F::Exclusive),
            features,
            require: self.hosts(F::Require),
            avoid: self.hosts(F::Avoid),
            ..ResourceRequest::default()
        };
        (request, left_out)
    }
}

fn counted_words(text: &str) -> impl Iterator<Item = String> {
    text.split(',')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

fn amounts<'a>(all: impl Iterator<Item = (&'a str, u32)>) -> CountedResources {
    let mut amounts = CountedResources::default();
    all.for_each(|(name, amount)| amounts.set(name, amount));
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobField as F;
    use cosy_model::api::Column;

    const HOUR: i64 = 3_600_000;

    fn shape(texts: &[(F, &str)], numbers: &[(F, i64)]) -> Result<Shape, String> {
        let text = |(_, text): &(F, &str)| Column::Texts(vec![(*text).to_owned()]);
        let number = |(_, n): &(F, i64)| Column::Numbers(vec![*n]);
        let fields = texts.iter().map(|t| t.0).chain(numbers.iter().map(|n| n.0));
        let columns = texts.iter().map(text).chain(numbers.iter().map(number));
        of(&Table::of(fields.collect(), columns.collect(), 1), 0)
    }

    #[test]
    fn what_was_asked_for_comes_back() {
        let texts = [
            (F::Queue, "day"),
            (F::Account, "p1"),
            (F::Features, "a,b"),
            (F::Constraint, "a&b"),
            (F::Gres, "gpu:a100:2,fpga:1"),
            (F::Avoid, "n[1-2]"),
            (F::Licenses, "matlab:2"),
        ];
        let numbers = [
            (F::TimeLimit, HOUR),
            (F::MinNodes, 2),
            (F::AskedTasks, 8),
            (F::CoresPerTask, 4),
            (F::MemoryPerCore, 512),
            (F::Exclusive, 1),
        ];
        let shape = shape(&texts, &numbers).unwrap();
        assert!(shape.left_out.is_empty(), "{:?}", shape.left_out);
        let spec = shape.spec;
        assert_eq!((spec.queue.as_deref(), spec.account.as_deref()), (Some("day"), Some("p1")));
        assert_eq!((spec.length, spec.pick), (Span(HOUR), StartChoice::Soonest));
        assert_eq!(counted::write(&spec.licenses), "matlab:2");
        let request = spec.request;
        assert_eq!((request.nodes, request.tasks, request.cores_per_task), (Some(2), Some(8), 4));
        assert_eq!(request.memory, MemoryRequest::PerCore(MiB(512)));
        assert_eq!(
            (request.gpus_per_node, counted::write(&request.gpu_types)),
            (2, "a100:2".into())
        );
        assert_eq!(counted::write(&request.other_per_node), "fpga:1");
        assert_eq!((request.exclusive, request.avoid.len()), (true, 2));
        assert_eq!(request.features, ["a", "b"]);
    }

    #[test]
    fn what_is_not_read_is_named() {
        let left_out = |texts: &[(F, &str)]| {
            shape(texts, &[(F::TimeLimit, HOUR)])
                .unwrap()
                .left_out
                .len()
        };
        assert_eq!(left_out(&[]), 0);
        assert_eq!(left_out(&[(F::Constraint, "[rack1|rack2]")]), 1);
        assert_eq!(left_out(&[(F::Constraint, "a|b"), (F::Prefer, "n1")]), 2);
    }

    #[test]
    fn no_price_without_an_end() {
        assert!(shape(&[], &[(F::TimeLimit, Span::UNLIMITED.0)]).is_err());
        assert!(shape(&[], &[]).is_err());
    }
}
