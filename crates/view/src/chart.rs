//! What is shown of the plan as a chart.

use crate::column::Fields;
use crate::value::FieldValue;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};

/// All fields of the plan as a chart.
pub fn fields(chart: &PlanChart) -> Fields<'_> {
    let PlanChart {
        now,
        nodes,
        bars,
        beyond,
    } = chart;
    let bars = bars.iter().map(|bar| bar_fields(bar, nodes));
    vec![
        ("now", (*now).into()),
        ("nodes", FieldValue::texts(nodes)),
        ("bars", FieldValue::List(bars.map(FieldValue::record).collect())),
        ("beyond", (*beyond).into()),
    ]
}

fn bar_fields<'a>(bar: &'a PlanBar, names: &'a [String]) -> Fields<'a> {
    let PlanBar {
        kind,
        label,
        start,
        end,
        nodes,
    } = bar;
    let name = |node: &u32| names.get(*node as usize).map(String::as_str);
    let nodes: Vec<&str> = nodes.iter().filter_map(name).collect();
    vec![
        ("kind", bar_kind(*kind).into()),
        ("label", label.into()),
        ("start", (*start).into()),
        ("end", (*end).into()),
        ("length", end.since(*start).into()),
        ("nodes", cosy_model::fold(&nodes).into()),
        ("node_count", (nodes.len() as u64).into()),
    ]
}

const fn bar_kind(kind: BarKind) -> &'static str {
    match kind {
        BarKind::Running => "running",
        BarKind::Planned => "planned",
        BarKind::Held => "held",
        BarKind::Reserved => "reserved",
    }
}
