//! What a job holds on each of its nodes, as `scontrol --details show job` tells it.

use super::{Sheet, clean, or_null};
use crate::job::JobView;
use cosy_model::api::JobField;
use cosy_view::words::gres;
use cosy_view::words::ids_by_node::{self, Ids};
use std::collections::BTreeMap;

/// Adds the lines: nodes that hold the same cores and GPUs together.
pub fn details(sheet: &mut Sheet, job: &JobView<'_>) {
    let memory = job.count(JobField::MemoryPerNode);
    let gpus: BTreeMap<&str, Ids<'_>> = ids_by_node::read(job.text(JobField::GpuIds)).collect();
    let kind = kind(job.text(JobField::Gres));
    let mut alike: Vec<(Ids<'_>, Option<&Ids<'_>>, Vec<&str>)> = Vec::new();
    for (node, cores) in ids_by_node::read(job.text(JobField::CoreIds)) {
        let ids = gpus.get(node);
        match alike.last_mut() {
            Some((same, same_ids, nodes)) if *same == cores && *same_ids == ids => nodes.push(node),
            _ => alike.push((cores, ids, vec![node])),
        }
    }
    let held = gpus
        .values()
        .fold(0u32, |sum, ids| sum.saturating_add(ids.count()));
    let gres = match held {
        0 => clean(or_null(job.text(JobField::Gres))),
        held => format!("gpu{kind}:{held}"),
    };
    sheet.line(format!("JOB_GRES={gres}"));
    for (cores, ids, nodes) in alike {
        let nodes = cosy_model::fold(&nodes);
        let gres = ids.map(|ids| of_node(&kind, *ids));
        sheet.line(format!(
            "  Nodes={nodes} CPU_IDs={} Mem={memory} GRES={}",
            cores.ranges(),
            gres.unwrap_or_default()
        ));
    }
}

/// The GPUs that it holds, node by node: `gpu:a100:2(IDX:0-1)`.
pub fn gres(job: &JobView<'_>) -> Vec<String> {
    let kind = kind(job.text(JobField::Gres));
    let nodes = ids_by_node::read(job.text(JobField::GpuIds));
    nodes.map(|(_, ids)| of_node(&kind, ids)).collect()
}

fn of_node(kind: &str, ids: Ids<'_>) -> String {
    format!("gpu{kind}:{}(IDX:{})", ids.count(), clean(ids.ranges()))
}

/// The type of GPUs where one was asked for, with the colon before it.
fn kind(gres: &str) -> String {
    let kind = gres::only_gpu_type(gres);
    kind.map_or_else(String::new, |kind| format!(":{}", clean(kind)))
}
