//! `cosy flow list` and `cosy flow show`.

use crate::native::flow::json;
use crate::native::resv::{ask, words};
use crate::native::table::{Cell, Head, Paint, TableStyle, render};
use crate::native::{arg, stat};
use crate::{Context, exit, output};
use clap::ArgMatches;
use cosy_model::api::{Reply, Request};
use cosy_model::workflow::{FlowFilter, FlowInfo, FlowState, FlowTaskInfo, FlowTaskState};
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
        stat::lines(&json::flows(&all))
    } else {
        table(&all, &ask::present(matches), with_user, stat::look(matches))
    });
    Ok(exit::OK)
}

fn filter(matches: &ArgMatches, states: &[FlowState]) -> FlowFilter {
    let mut filter = FlowFilter {
        users: arg::list(matches, "user"),
        // Who names a state means also what is over.
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
    let now = ask::present(matches);
    output::print(&if matches.get_flag("json") {
        stat::lines(&json::flows(&all))
    } else {
        let look = stat::look(matches);
        let texts: Vec<_> = all.iter().map(|f| whole(f, &now, look)).collect();
        texts.join("\n")
    });
    Ok(code)
}

/// The colour of a state.
const fn paint(state: FlowState) -> Paint {
    match state {
        FlowState::Running => Paint::Green,
        FlowState::Held => Paint::Yellow,
        FlowState::Failed => Paint::Red,
        FlowState::Completed | FlowState::Cancelled | FlowState::Expired => Paint::Dim,
    }
}

const fn task_paint(state: FlowTaskState) -> Paint {
    match state {
        FlowTaskState::Running => Paint::Green,
        FlowTaskState::Waiting => Paint::Yellow,
        FlowTaskState::Failed => Paint::Red,
        FlowTaskState::Done | FlowTaskState::Released => Paint::Dim,
    }
}

/// Workflows as a table.
pub fn table(all: &[FlowInfo], now: &Zoned, with_user: bool, look: TableStyle) -> String {
    let mut heads = vec![
        Head::right("ID"),
        Head::left("NAME").cut(8),
        Head::left("STATE"),
        Head::right("DONE"),
        Head::left("END"),
        Head::left("DEADLINE"),
        Head::right("PRICE"),
        Head::left("NOTE").cut(10),
    ];
    if with_user {
        heads.insert(2, Head::left("USER").cut(6));
    }
    let row = |f: &FlowInfo| -> Vec<Cell> {
        let state = Cell {
            text: f.state.to_string(),
            paint: paint(f.state),
        };
        let clock = |t: Option<_>| t.map_or_else(|| "-".to_owned(), |t| words::clock(t, now));
        let mut cells: Vec<Cell> = vec![
            f.id.to_string().into(),
            f.name.as_str().into(),
            state,
            format!("{}/{}", f.done_count, f.task_count).into(),
            clock(f.end).into(),
            clock(f.deadline).into(),
            f.price.to_string().into(),
            words::local_times(&f.note, now).into(),
        ];
        if with_user {
            cells.insert(2, f.user.as_str().into());
        }
        cells
    };
    let rows: Vec<Vec<Cell>> = all.iter().map(row).collect();
    render(&heads, &rows, look)
}

/// One workflow with its tasks.
pub fn whole(f: &FlowInfo, now: &Zoned, look: TableStyle) -> String {
    let clock = |t| words::clock(t, now);
    let end = match f.state {
        FlowState::Held | FlowState::Running => "done by",
        FlowState::Completed | FlowState::Failed | FlowState::Cancelled | FlowState::Expired => {
            "ended"
        }
    };
    let lines = [
        ("name", f.name.clone()),
        ("state", f.state.to_string()),
        ("note", words::local_times(&f.note, now)),
        ("owner", f.user.clone()),
        (
            "done",
            format!("{} of {} tasks", f.done_count, f.task_count),
        ),
        (end, f.end.map(clock).unwrap_or_default()),
        ("deadline", f.deadline.map(clock).unwrap_or_default()),
        ("held until", f.hold_until.map(clock).unwrap_or_default()),
        ("account", f.account.clone()),
        ("price", words::su(f.price)),
        ("made", clock(f.made)),
    ];
    let mut text = format!("Workflow {}\n", f.id);
    for (title, value) in lines.iter().filter(|(_, v)| !v.is_empty()) {
        text.push_str(&format!("  {title:<10}  {}\n", words::clean(value)));
    }
    if !f.tasks.is_empty() {
        text.push_str(&tasks(&f.tasks, now, look));
    }
    text
}

/// The tasks as a table; what belongs to slots only where there are some.
fn tasks(all: &[FlowTaskInfo], now: &Zoned, look: TableStyle) -> String {
    let slots = all.iter().any(|t| t.slot_start.is_some());
    let mut heads = vec![
        Head::left("TASK").cut(8),
        Head::left("STATE"),
        Head::left("START"),
        Head::left("END"),
        Head::right("JOB"),
        Head::left("NODES").cut(8),
        Head::left("AFTER").cut(8),
        Head::left("NOTE").cut(10),
    ];
    if slots {
        let of_slots = [
            Head::left("SLOT"),
            Head::right("SPARE"),
            Head::right("RESV"),
        ];
        heads.splice(2..2, of_slots);
    }
    let rows: Vec<Vec<Cell>> = all.iter().map(|t| task_row(t, now, slots)).collect();
    render(&heads, &rows, look)
}

fn id(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), |n| n.to_string())
}

fn task_row(t: &FlowTaskInfo, now: &Zoned, slots: bool) -> Vec<Cell> {
    let clock = |t: Option<_>| t.map_or_else(|| "-".to_owned(), |t| words::clock(t, now));
    let mut cells = vec![
        t.name.as_str().into(),
        Cell {
            text: t.state.to_string(),
            paint: task_paint(t.state),
        },
        clock(t.start).into(),
        clock(t.end).into(),
        id(t.job.map(|j| j.0)).into(),
        t.nodes.as_str().into(),
        t.parents.join(",").into(),
        notes(t, now).into(),
    ];
    if slots {
        cells.splice(2..2, of_slot(t, now));
    }
    cells
}

fn of_slot(t: &FlowTaskInfo, now: &Zoned) -> [Cell; 3] {
    let (slot, spare) = match (t.slot_start, t.slot_end) {
        (Some(start), Some(end)) => (words::clocks(start, end, now), words::span(t.spare)),
        _ => ("-".to_owned(), "-".to_owned()),
    };
    [
        slot.into(),
        spare.into(),
        id(t.reservation.map(|r| r.0)).into(),
    ]
}

fn notes(t: &FlowTaskInfo, now: &Zoned) -> String {
    let failed = match t.failures {
        0 => String::new(),
        1 => "failed once".to_owned(),
        n => format!("failed {n} times"),
    };
    let notes = [failed, words::local_times(&t.note, now)];
    let notes: Vec<String> = notes.into_iter().filter(|n| !n.is_empty()).collect();
    notes.join("; ")
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
        let text = whole(&sample(), &now(), TableStyle::default());
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
        let text = whole(&plain, &now(), TableStyle::default());
        assert!(text.contains("last   waiting  -  "), "{text}");
        for task in &mut plain.tasks {
            task.slot_start = None;
        }
        let text = whole(&plain, &now(), TableStyle::default());
        assert!(
            text.contains("TASK   STATE    START  END    JOB  NODES"),
            "{text}"
        );
    }
}
