//! What is shown of plans for workflows.

use crate::column::{Column, Fields};
use crate::phrase;
use crate::value::{FieldValue, Tone};
use cosy_model::workflow::{FlowPlan, FlowSlackPolicy, FlowSpec, PlannedTask};
use cosy_model::{Span, Time};

type Planned<'p> = Column<PlannedRow<'p>>;

/// A task with its slot.
#[derive(Clone, Copy, Debug)]
pub struct PlannedRow<'p> {
    name: &'p str,
    task: &'p PlannedTask,
}

/// The tasks by the start of their slots.
pub fn rows<'p>(spec: &'p FlowSpec, plan: &'p FlowPlan) -> Vec<PlannedRow<'p>> {
    let row = |task| PlannedRow {
        name: name(spec, task),
        task,
    };
    let mut rows: Vec<_> = plan.tasks.iter().map(row).collect();
    rows.sort_by_key(|row| (row.task.start, row.task.task));
    rows
}

/// The name of a planned task.
pub fn name<'p>(spec: &'p FlowSpec, task: &PlannedTask) -> &'p str {
    spec.tasks.get(task.task as usize).map_or("?", |t| &t.name)
}

/// The end of the last slot.
pub fn end(plan: &FlowPlan) -> Time {
    let ends = plan.tasks.iter().map(|t| t.end);
    ends.max().unwrap_or(plan.shortest_end)
}

/// What a slot has beyond the estimate of its task. What `spare` has beyond that lies behind the
/// slot: it is not booked, and the task is not given it.
pub fn spare_in_slot(task: &PlannedTask) -> Span {
    let spare = task.end.since(task.start).ms() - task.estimate.ms();
    Span(spare.max(0))
}

/// How long all slots are together, and all estimates.
pub fn booked_and_estimated(plan: &FlowPlan) -> (Span, Span) {
    let sum = |of: fn(&PlannedTask) -> Span| {
        plan.tasks
            .iter()
            .fold(Span::ZERO, |sum, task| sum + of(task))
    };
    (sum(|task| task.end.since(task.start)), sum(|task| task.estimate))
}

/// `cosy flow plan`: node sets are told where there are some.
pub fn columns<'p>(plan: &FlowPlan) -> Vec<Column<PlannedRow<'p>>> {
    let with_sets = plan.tasks.iter().any(|t| !t.set.is_empty());
    let set = Planned::left_cut("SET", 6, |row: &PlannedRow<'_>| (&row.task.set).into()).leaves(0);
    let before_set: [Column<PlannedRow<'p>>; 6] = [
        Planned::left_cut("TASK", 8, task_name),
        Planned::left("CP", |row| if row.task.critical { "*" } else { "" }.into()),
        Planned::left("START", |row| row.task.start.into()),
        Planned::left("END", |row| row.task.end.into()).leaves(3),
        Planned::right("ESTIMATE", |row| row.task.estimate.into()).leaves(1),
        Planned::right("SPARE", |row| spare_in_slot(row.task).into()).leaves(2),
    ];
    let behind_set: [Column<PlannedRow<'p>>; 3] = [
        Planned::left_cut("NODES", 8, |row| (&row.task.nodes).into()).leaves(5),
        Planned::right("PRICE", |row| FieldValue::Price(row.task.price)).leaves(6),
        Planned::left("DELAYS", |row| delays(row.task).into()).leaves(4),
    ];
    let set = with_sets.then_some(set);
    before_set
        .into_iter()
        .chain(set)
        .chain(behind_set)
        .collect()
}

fn task_name<'a>(row: &'a PlannedRow<'_>) -> FieldValue<'a> {
    match row.task.critical {
        true => FieldValue::State(row.name.into(), Tone::Waiting),
        false => row.name.into(),
    }
}

fn delays(task: &PlannedTask) -> String {
    match task.delayed_jobs {
        0 => "nobody".to_owned(),
        n => {
            let jobs = phrase::count(n.into(), "job", "jobs");
            format!("{jobs} by {}", phrase::span(task.total_delay))
        }
    }
}

/// All fields of a plan but its slots, with what was asked of the workflow that concerns it.
pub fn fields<'p>(spec: &'p FlowSpec, plan: &'p FlowPlan) -> Fields<'p> {
    let FlowPlan {
        now,
        start,
        shortest_end,
        deadline,
        // `task_fields` tells each.
        tasks: _,
        price,
        delayed,
        refusals,
    } = plan;
    let delayed = delayed.iter().map(|(job, by, own)| {
        FieldValue::record(vec![
            ("job", job.0.into()),
            ("delay", (*by).into()),
            ("own", (*own).into()),
        ])
    });
    vec![
        ("name", (&spec.name).into()),
        ("scheduler", spec.scheduler.word().into()),
        ("slack_policy", spec.slack_policy.word().into()),
        ("now", (*now).into()),
        ("start", (*start).into()),
        ("end", end(plan).into()),
        ("shortest_end", (*shortest_end).into()),
        ("deadline", (*deadline).into()),
        ("length", end(plan).since(*start).into()),
        ("spare", deadline.since(*shortest_end).into()),
        ("price", (*price).into()),
        ("delayed", FieldValue::List(delayed.collect())),
        ("refusals", FieldValue::texts(refusals)),
    ]
}

/// All fields of each planned task, in the order of the plan.
pub fn task_fields<'p>(spec: &'p FlowSpec, plan: &'p FlowPlan) -> impl Iterator<Item = Fields<'p>> {
    let mut parents = vec![Vec::new(); spec.tasks.len()];
    for edge in &spec.edges {
        let from = spec.tasks.get(edge.from as usize);
        if let (Some(of), Some(from)) = (parents.get_mut(edge.to as usize), from) {
            of.push(from.name.as_str());
        }
    }
    plan.tasks.iter().map(move |task| {
        let parents = parents.get(task.task as usize).cloned();
        fields_of_task(name(spec, task), parents.unwrap_or_default(), task)
    })
}

fn fields_of_task<'p>(
    name: &'p str,
    parents: Vec<&'p str>,
    planned: &'p PlannedTask,
) -> Fields<'p> {
    let PlannedTask {
        // Its name stands for it.
        task: _,
        start,
        end,
        estimate,
        spare,
        critical,
        set,
        nodes,
        price,
        delayed_jobs,
        total_delay,
    } = planned;
    let whole = estimate.ms().max(1) as f64;
    let percent = (spare.ms() as f64 * 1000.0 / whole).floor() / 10.0;
    vec![
        ("name", name.into()),
        ("parents", FieldValue::Texts(parents)),
        ("start", (*start).into()),
        ("end", (*end).into()),
        ("estimate", (*estimate).into()),
        ("spare", (*spare).into()),
        ("spare_percent", FieldValue::Real(percent)),
        ("critical", (*critical).into()),
        ("set", set.into()),
        ("nodes", nodes.into()),
        ("price", (*price).into()),
        ("delayed_jobs", (*delayed_jobs).into()),
        ("total_delay", (*total_delay).into()),
    ]
}

/// How the time until the deadline is shared out, for who has not read of the methods.
pub const fn method(policy: FlowSlackPolicy) -> &'static str {
    match policy {
        FlowSlackPolicy::REvenTime => "among all tasks, as much for each",
        FlowSlackPolicy::REvenPercent1 => "among all tasks, by their estimates",
        FlowSlackPolicy::RCpFirst => {
            "among all tasks by their estimates, once on the critical path alone"
        }
        FlowSlackPolicy::REvenPercent2 => {
            "among all tasks by their estimates, less for those that have some anyway"
        }
        FlowSlackPolicy::CpEvenTime => "on the critical path first, as much for each of its tasks",
        FlowSlackPolicy::CpEvenPercent => {
            "on the critical path first, by the estimates of its tasks"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_time_is_that_of_the_slot() {
        let check = |length: i64, estimate: i64, want: i64| {
            let task = PlannedTask {
                task: 0,
                start: Time(0),
                end: Time(length),
                estimate: Span(estimate),
                // The gap behind the slot counts there.
                spare: Span(99_000),
                critical: false,
                set: String::new(),
                nodes: String::new(),
                price: cosy_model::Su::ZERO,
                delayed_jobs: 0,
                total_delay: Span::ZERO,
            };
            assert_eq!(spare_in_slot(&task), Span(want));
        };
        check(93_000, 60_000, 33_000);
        check(60_000, 60_000, 0);
        check(60_000, 61_000, 0);
        check(i64::MAX, 0, i64::MAX);
    }
}
