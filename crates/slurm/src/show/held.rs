//! What a job holds on each of its nodes, as `scontrol --details show job` tells it.

use super::{Sheet, clean, or_null};
use crate::job::JobView;
use cosy_model::api::JobField;
use std::collections::BTreeMap;

/// Adds the lines: nodes that hold the same cores and GPUs together.
pub fn details(sheet: &mut Sheet, job: &JobView<'_>) {
    let memory = job.count(JobField::MemoryPerNode);
    let gpus: BTreeMap<&str, &str> = parts(job.text(JobField::GpuIds)).collect();
    let kind = kind(job.text(JobField::Gres));
    let mut alike: Vec<(&str, Option<&&str>, Vec<&str>)> = Vec::new();
    for (node, cores) in parts(job.text(JobField::CoreIds)) {
        let ids = gpus.get(node);
        match alike.last_mut() {
            Some((same, same_ids, nodes)) if *same == cores && *same_ids == ids => nodes.push(node),
            _ => alike.push((cores, ids, vec![node])),
        }
    }
    let held = gpus
        .values()
        .fold(0u32, |sum, ids| sum.saturating_add(count(ids)));
    let gres = match held {
        0 => clean(or_null(job.text(JobField::Gres))),
        held => format!("gpu{kind}:{held}"),
    };
    sheet.line(format!("JOB_GRES={gres}"));
    for (cores, ids, nodes) in alike {
        let nodes = cosy_model::fold(&nodes);
        let gres = ids.map(|ids| format!("gpu{kind}:{}(IDX:{})", count(ids), clean(ids)));
        sheet.line(format!(
            "  Nodes={nodes} CPU_IDs={cores} Mem={memory} GRES={}",
            gres.unwrap_or_default()
        ));
    }
}

/// `n1:0-3;n2:0` as nodes with numbers.
fn parts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(';').filter_map(|part| part.split_once(':'))
}

/// The type of GPUs where one was asked for, with the colon before it.
fn kind(gres: &str) -> String {
    let mut words = gres.split(':');
    match (words.next(), words.next(), words.next()) {
        (Some("gpu"), Some(kind), Some(_)) if !gres.contains(',') => format!(":{}", clean(kind)),
        _ => String::new(),
    }
}

/// How many numbers `0-3,5` are.
fn count(ids: &str) -> u32 {
    let one = |part: &str| -> Option<u32> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    let counts = ids.split(',').filter_map(one);
    counts.fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types() {
        let check = |ids: &str, want: u32| assert_eq!(count(ids), want, "{ids}");
        check("", 0);
        check("0", 1);
        check("0-3,5", 5);
        check("3-1,x", 0);
        check("0-4294967295", 0);
        let check = |gres: &str, want: &str| assert_eq!(kind(gres), want, "{gres}");
        check("gpu:a100:2", ":a100");
        check("gpu:2", "");
        check("gpu:a100:2,fpga:1", "");
        check("", "");
    }
}
