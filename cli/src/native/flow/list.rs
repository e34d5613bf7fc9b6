//! `cosy flow list` and `cosy flow show`.

use crate::native::flow::json;
use crate::native::record::{self, TimeStyle};
use crate::native::resv::request;
use crate::native::table::TableStyle;
use crate::native::{arg, stat};
use crate::{Context, exit, output};
use clap::ArgMatches;
use cosy_model::api::{Reply, Request};
use cosy_model::workflow::{FlowFilter, FlowInfo, FlowState};
#[cfg(test)]
use cosy_model::workflow::{FlowTaskInfo, FlowTaskState};
use cosy_view::workflow;
use jiff::Zoned;

/// Workflows that pass `filter`, by id.
///
/// # Errors
/// A refusal, or no controller.
pub fn fetch(
    context: &Context,
    filter: FlowFilter,
) -> Result<Vec<FlowInfo>, cosy_client::CallError> {
    match context.ask(Request::Flows { filter })? {
        Reply::Flows(mut all) => {
            all.sort_by_key(|f| f.id);
            Ok(all)
        }
        _ => Err(cosy_client::CallError::Unexpected),
    }
}

/// Runs `cosy flow list`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let states: Vec<FlowState> = arg::list(matches, "state");
    let mut all = fetch(context, filter(matches, &states))?;
    all.retain(|f| states.is_empty() || states.contains(&f.state));
    let with_user = matches.get_flag("all") || matches.contains_id("user");
    output::print(&if matches.get_flag("json") {
        stat::json_text(&json::flows(&all))
    } else {
        table(&all, &request::present(matches), with_user, stat::table_style(matches))
    });
    Ok(exit::OK)
}

fn filter(matches: &ArgMatches, states: &[FlowState]) -> FlowFilter {
    let mut filter = FlowFilter {
        users: arg::list(matches, "user"),
        // A filter for a state also finds workflows that are over.
        ended: matches.get_flag("ended") || states.iter().any(|s| !s.is_live()),
        ..FlowFilter::default()
    };
    if filter.users.is_empty() && !matches.get_flag("all") {
        filter.users = vec![rustix::process::getuid().as_raw().to_string()];
    }
    filter
}

/// Runs `cosy flow show`; exit code 1 when one is not there.
///
/// # Errors
/// A refusal, or no controller.
pub fn show(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let ids = super::ids(matches);
    let filter = FlowFilter {
        ids: ids.clone(),
        ended: true,
        tasks: true,
        ..FlowFilter::default()
    };
    let all = fetch(context, filter)?;
    let mut code = exit::OK;
    for id in &ids {
        if !all.iter().any(|f| f.id == *id) {
            code = exit::FAILED;
            output::complain(context.program(), &format!("there is no workflow {id}"));
        }
    }
    let now = request::present(matches);
    output::print(&if matches.get_flag("json") {
        stat::json_text(&json::flows(&all))
    } else {
        let style = stat::table_style(matches);
        let texts: Vec<_> = all.iter().map(|f| details(f, &now, style)).collect();
        texts.join("\n")
    });
    Ok(code)
}

/// Workflows as a table.
pub fn table(all: &[FlowInfo], now: &Zoned, with_user: bool, style: TableStyle) -> String {
    let columns = match with_user {
        true => workflow::LIST_WITH_USER,
        false => workflow::LIST,
    };
    record::list(columns, all, TimeStyle::in_words(now), style)
}

/// One workflow with its tasks; columns of slots only where the workflow has slots.
pub fn details(f: &FlowInfo, now: &Zoned, style: TableStyle) -> String {
    let lines = record::lines(&workflow::details(f), 10, now);
    let columns = match f.tasks.iter().any(|t| t.slot_start.is_some()) {
        true => workflow::TASKS_WITH_SLOTS,
        false => workflow::TASKS,
    };
    let tasks = match f.tasks.as_slice() {
        [] => String::new(),
        tasks => record::list(columns, tasks, TimeStyle::in_words(now), style),
    };
    format!("Workflow {}\n{lines}{tasks}", f.id)
}

/// A workflow for tests: half done.
#[cfg(test)]
pub fn sample() -> FlowInfo {
    use crate::native::flow::plan::sample::at;
    use cosy_model::{FlowId, JobId, ReservationId, Span, Su};
    let task = |name: &str, state, n: u64, parents: &[&str]| FlowTaskInfo {
        name: name.to_owned(),
        state,
        parents: parents.iter().map(|p| (*p).to_owned()).collect(),
        slot_start: Some(at(10 * n as i64)),
        slot_end: Some(at(10 * n as i64 + 10)),
        estimate: Span::from_minutes(6),
        spare: Span::from_minutes(4),
        reservation: Some(ReservationId(n)),
        job: (state != FlowTaskState::Waiting).then_some(JobId(20 + n)),
        start: (state != FlowTaskState::Waiting).then(|| at(10 * n as i64)),
        end: (state == FlowTaskState::Done).then(|| at(10 * n as i64 + 5)),
        failures: u32::from(n == 2),
        nodes: "n1".to_owned(),
        note: String::new(),
    };
    FlowInfo {
        id: FlowId(3),
        name: "night".into(),
        user: "ann".into(),
        state: FlowState::Running,
        made: at(0),
        deadline: Some(at(60)),
        end: Some(at(40)),
        hold_until: None,
        task_count: 3,
        done_count: 1,
        price: Su(4_500_000),
        account: "physics".into(),
        note: String::new(),
        tasks: vec![
            task("first", FlowTaskState::Done, 1, &[]),
            task("left", FlowTaskState::Running, 2, &["first"]),
            task("last", FlowTaskState::Waiting, 3, &["first", "left"]),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::plan::sample::now;

    #[test]
    fn lists() {
        let mut plain = sample();
        plain.deadline = None;
        plain.end = None;
        plain.state = FlowState::Failed;
        plain.note = "late since 2026-11-21T12:30:00Z".into();
        let text = table(&[sample(), plain], &now(), true, TableStyle::default());
        let want = [
            "ID  NAME   USER  STATE    DONE  END    DEADLINE  PRICE  NOTE",
            " 3  night  ann   running   1/3  12:40  13:00       4.5",
            " 3  night  ann   failed    1/3  -      -           4.5  late since 12:30",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_whole_one() {
        let text = details(&sample(), &now(), TableStyle::default());
        let want = [
            "Workflow 3",
            "  name        night",
            "  state       running",
            "  owner       ann",
            "  done        1 of 3 tasks",
            "  done by     12:40",
            "  deadline    13:00",
            "  account     physics",
            "  price       4.5 SU",
            "  made        12:00",
            "TASK   STATE    SLOT            SPARE  RESV  START  END    JOB  NODES  AFTER       NOTE",
            "first  done     12:10 to 12:20  4 min     1  12:10  12:15   21  n1",
            "left   running  12:20 to 12:30  4 min     2  12:20  -       22  n1     first       failed once",
            "last   waiting  12:30 to 12:40  4 min     3  -      -        -  n1     first,left",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), want);
    }

    #[test]
    fn without_slots() {
        let mut plain = sample();
        plain.tasks[2].slot_start = None;
        let text = details(&plain, &now(), TableStyle::default());
        assert!(text.contains("last   waiting  -  "), "{text}");
        for task in &mut plain.tasks {
            task.slot_start = None;
        }
        let text = details(&plain, &now(), TableStyle::default());
        assert!(text.contains("TASK   STATE    START  END    JOB  NODES"), "{text}");
    }
}
