//! What always holds of workflows.

use crate::rooms::Rooms;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    flows_agree(it)
}

/// A workflow lives as long as one of its jobs, and a task that is not over has its job.
fn flows_agree(it: &Rooms) -> Result<(), String> {
    for (id, flow) in &it.workflows.all {
        let open = flow.tasks.iter().filter(|task| task.end.is_none());
        if flow.open as usize != open.clone().count() || flow.row.is_live() != (flow.open > 0) {
            return Err(format!(
                "workflow {id} counts {} open tasks of {}",
                flow.open,
                open.count()
            ));
        }
        for task in open {
            let of = it.jobs.get(&task.job).map(|job| job.submitted().flow);
            if of != Some(Some(task.of)) {
                return Err(format!(
                    "task {} of workflow {id} lacks its job {}",
                    task.of.task, task.job
                ));
            }
        }
    }
    let live = it.workflows.all.values().filter(|flow| flow.row.is_live());
    if it.workflows.live != live.count() {
        return Err(format!("{} workflows are counted as live", it.workflows.live));
    }
    Ok(())
}
