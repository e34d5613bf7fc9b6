//! `cosy flow watch`: tells what happens to a workflow until it is over.

use crate::native::flow::{json, list};
use crate::native::resv::{request, words};
use crate::native::stat;
use crate::{Context, exit, output};
use anyhow::anyhow;
use clap::ArgMatches;
use cosy_model::FlowId;
use cosy_model::workflow::{FlowFilter, FlowInfo, FlowState, FlowTaskInfo, FlowTaskState};
use jiff::Zoned;
use std::time::Duration;

/// Pause between two requests for the workflow's state.
const PAUSE: Duration = Duration::from_millis(500);

/// What is printed while the workflow runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchOptions {
    /// Prints the workflow as JSON at its end, and nothing before.
    pub json: bool,
    /// Prints nothing before the end.
    pub quiet: bool,
}

/// Runs `cosy flow watch`.
///
/// # Errors
/// The workflow does not exist, the controller refuses or cannot be reached.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let Some(id) = super::ids(matches).first().copied() else {
        return Err(exit::usage("which workflow?"));
    };
    let options = WatchOptions {
        json: matches.get_flag("json"),
        quiet: matches.get_flag("quiet"),
    };
    follow(context, id, &request::present(matches), options)
}

/// Follows a workflow to its end; gives the exit code that stands for it.
///
/// # Errors
/// The workflow does not exist, the controller refuses or cannot be reached.
pub fn follow(
    context: &Context,
    id: FlowId,
    now: &Zoned,
    options: WatchOptions,
) -> anyhow::Result<u8> {
    let mut before: Option<FlowInfo> = None;
    loop {
        let flow = fetch(context, id)?;
        if !options.json && !options.quiet {
            output::print(&changes(before.as_ref(), &flow, now));
        }
        if !flow.state.is_live() {
            output::print(&if options.json {
                stat::json_text(&json::flow(&flow))
            } else {
                last_line(&flow, now)
            });
            return Ok(code(flow.state));
        }
        before = Some(flow);
        std::thread::sleep(PAUSE);
    }
}

fn fetch(context: &Context, id: FlowId) -> anyhow::Result<FlowInfo> {
    let filter = FlowFilter {
        ids: vec![id],
        ended: true,
        tasks: true,
        ..FlowFilter::default()
    };
    let found = list::fetch(context, filter)?;
    found
        .into_iter()
        .find(|f| f.id == id)
        .ok_or_else(|| anyhow!("there is no workflow {id}"))
}

/// The exit code that stands for the end of a workflow.
const fn code(state: FlowState) -> u8 {
    match state {
        FlowState::Completed => exit::OK,
        FlowState::Held
        | FlowState::Running
        | FlowState::Failed
        | FlowState::Cancelled
        | FlowState::Expired => exit::FAILED,
    }
}

/// A line for each thing that is not as it was; at first, for what has begun already.
fn changes(before: Option<&FlowInfo>, flow: &FlowInfo, now: &Zoned) -> String {
    let mut text = String::new();
    let note = before.map_or("", |b| &b.note);
    if flow.note != note && !flow.note.is_empty() {
        text.push_str(&format!("{}\n", words::local_times(&flow.note, now)));
    }
    for (at, task) in flow.tasks.iter().enumerate() {
        let old = before.and_then(|b| b.tasks.get(at));
        let changed = match old {
            Some(old) => {
                old.state != task.state
                    || old.note != task.note
                    || old.failures != task.failures
                    || old.slot_start != task.slot_start
                    || old.slot_end != task.slot_end
            }
            None => task.state != FlowTaskState::Waiting,
        };
        if changed {
            text.push_str(&line(task, now));
        }
    }
    text
}

fn line(task: &FlowTaskInfo, now: &Zoned) -> String {
    let clock = |t| words::clock(t, now);
    let job = task
        .job
        .map_or_else(String::new, |j| format!(" as job {j}"));
    let on = match task.nodes.as_str() {
        "" => String::new(),
        nodes => format!(" on {}", words::clean(nodes)),
    };
    let what = match task.state {
        FlowTaskState::Waiting => match (task.slot_start, task.slot_end) {
            (Some(start), Some(end)) => {
                format!("waits for its slot {}{on}", words::clocks(start, end, now))
            }
            _ => "waits".to_owned(),
        },
        FlowTaskState::Running => {
            let since = task
                .start
                .map_or_else(String::new, |t| format!(" since {}", clock(t)));
            format!("runs{job}{on}{since}")
        }
        FlowTaskState::Done => {
            let at = task
                .end
                .map_or_else(String::new, |t| format!(" at {}", clock(t)));
            format!("done{at}")
        }
        FlowTaskState::Failed => format!("failed{job}"),
        FlowTaskState::Released => "released: it does not start".to_owned(),
    };
    let failures = match (task.failures, task.state) {
        (0, _) | (_, FlowTaskState::Failed) => String::new(),
        (1, _) => " (failed once)".to_owned(),
        (n, _) => format!(" (failed {n} times)"),
    };
    let note = match task.note.as_str() {
        "" => String::new(),
        note => format!(": {}", words::local_times(note, now)),
    };
    format!("{}: {what}{failures}{note}\n", words::clean(&task.name))
}

fn last_line(flow: &FlowInfo, now: &Zoned) -> String {
    let at = flow
        .end
        .map_or_else(String::new, |t| format!(" at {}", words::clock(t, now)));
    let deadline = match (flow.end, flow.deadline, flow.state) {
        (Some(end), Some(deadline), FlowState::Completed) if end <= deadline => {
            format!(", {} before its deadline", words::span(deadline.since(end)))
        }
        (Some(end), Some(deadline), FlowState::Completed) => {
            format!(", {} after its deadline", words::span(end.since(deadline)))
        }
        _ => String::new(),
    };
    format!(
        "Workflow {} {}{at}{deadline}; {} of {} tasks done.\n",
        flow.id, flow.state, flow.done_count, flow.task_count
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::list::sample;
    use crate::native::flow::plan::sample::{at, now};

    #[test]
    fn what_is_new() {
        let first = sample();
        assert_eq!(
            changes(None, &first, &now()),
            "first: done at 12:15\nleft: runs as job 22 on n1 since 12:20 (failed once)\n"
        );
        assert_eq!(changes(Some(&first), &first, &now()), "");
        let mut next = first.clone();
        next.note = "done 5 min late".into();
        next.tasks[1].state = FlowTaskState::Failed;
        next.tasks[1].note = "exit code 3".into();
        next.tasks[2].slot_end = Some(at(50));
        assert_eq!(
            changes(Some(&first), &next, &now()),
            "done 5 min late\nleft: failed as job 22 on n1: exit code 3\n\
             last: waits for its slot 12:30 to 12:50 on n1\n"
                .replace(" on n1: exit", ": exit")
        );
    }

    #[test]
    fn ends() {
        let check = |state, end: i64, want: &str, wanted_code: u8| {
            let mut flow = sample();
            flow.state = state;
            flow.end = Some(at(end));
            assert_eq!(last_line(&flow, &now()), want);
            assert_eq!(code(state), wanted_code);
        };
        check(
            FlowState::Completed,
            40,
            "Workflow 3 completed at 12:40, 20 min before its deadline; 1 of 3 tasks done.\n",
            0,
        );
        check(
            FlowState::Completed,
            61,
            "Workflow 3 completed at 13:01, 1 min after its deadline; 1 of 3 tasks done.\n",
            0,
        );
        check(FlowState::Failed, 40, "Workflow 3 failed at 12:40; 1 of 3 tasks done.\n", 1);
    }
}
