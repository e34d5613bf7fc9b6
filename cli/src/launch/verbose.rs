//! What `srun --verbose` reports of a step: where its tasks are, when they start and how they end.
//! Tools read the ids of job and step out of these lines. Sentences only.
//!
//! Source: capture srun-v.

use super::ends::tasks_words;
use cosy_model::StepKey;
use cosy_model::hostlist::ranges;
use cosy_model::step::{StepLayout, TaskEnd};

/// A line for each node that has tasks.
pub fn launching(key: StepKey, layout: &StepLayout) -> Vec<String> {
    let line = |(at, node): (u32, &String)| {
        let ranks = layout.ranks_of(at);
        let count = ranks.len();
        let ranks = ranks_words(&ranks);
        format!("launching StepId={key} on host {node}, {count} tasks: {ranks}")
    };
    (0u32..).zip(layout.nodes_with_tasks()).map(line).collect()
}

/// The tasks of a node have started; `None` for a node without tasks.
pub fn started(layout: &StepLayout, node: u32) -> Option<String> {
    let name = layout.nodes.get(node as usize)?;
    let count = layout.count_of(node);
    (count > 0).then(|| format!("launch/slurm: _task_start: Node {name}, {count} tasks started"))
}

/// A task has ended: its exit status as a hexadecimal wait status, then whether it completed.
pub fn finished(key: StepKey, node: &str, rank: u32, end: &TaskEnd) -> Vec<String> {
    const WHO: &str = "launch/slurm: _task_finish";
    let status = (end.exit_code & 0xff) << 8 | (end.signal & 0x7f);
    let mut lines = vec![format!(
        "{WHO}: Received task exit notification for 1 task of StepId={key} (status=0x{status:04x})."
    )];
    if status == 0 && end.failure.is_none() {
        lines.push(format!("{WHO}: {node}: {}: Completed", tasks_words(&[rank])));
    }
    lines
}

/// One rank as it is, several in brackets: `[0-1,4]`.
fn ranks_words(ranks: &[u32]) -> String {
    let numbers: Vec<u64> = ranks.iter().map(|r| u64::from(*r)).collect();
    match ranks {
        [one] => one.to_string(),
        _ => format!("[{}]", ranges(&numbers, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::node::AttemptKey;
    use cosy_model::step::RankRun;
    use cosy_model::{Attempt, JobId, StepId};

    fn key() -> StepKey {
        StepKey {
            attempt: AttemptKey {
                job: JobId(7),
                attempt: Attempt(1),
            },
            step: StepId(0),
        }
    }

    #[test]
    fn lines_as_captured() {
        let run = |first, count| {
            vec![RankRun {
                first,
                count,
                stride: 1,
            }]
        };
        let layout = StepLayout {
            nodes: vec!["n1".into(), "n2".into()],
            ranks: vec![run(0, 2), run(2, 1)],
            tasks: 3,
            cores_per_task: 1,
        };
        assert_eq!(
            launching(key(), &layout),
            [
                "launching StepId=7.0 on host n1, 2 tasks: [0-1]",
                "launching StepId=7.0 on host n2, 1 tasks: 2",
            ]
        );
        let start = "launch/slurm: _task_start: Node n1, 2 tasks started";
        assert_eq!(started(&layout, 0).as_deref(), Some(start));
        assert_eq!(started(&layout, 9), None);
        let check = |exit_code, signal, status: &str, lines: usize| {
            let end = TaskEnd {
                exit_code,
                signal,
                failure: None,
            };
            let got = finished(key(), "n1", 1, &end);
            let want = format!("1 task of StepId=7.0 (status={status}).");
            assert!(got[0].ends_with(&want), "{got:?}");
            assert_eq!(got.len(), lines, "{got:?}");
        };
        check(0, 0, "0x0000", 2);
        check(3, 0, "0x0300", 1);
        check(0, 9, "0x0009", 1);
    }
}
