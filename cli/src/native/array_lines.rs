//! Ended tasks of an array share a line, in lists for people; on a terminal those that run do too, where
//! there are many.
//!
//! On a terminal that are all of them, and in the place of the state stands how many ended how:
//! `2 failed, 8 completed`. Elsewhere it is those that ended alike: with the same state, exit code,
//! signal and reason. Their line stands where the first of them would, and has the sum of their CPU
//! time, the first start, the last end, all nodes, and of every other number the largest. The line of
//! tasks that run has the sum of their cores.

use cosy_model::api::{Column, JobField, NO_NUMBER, Table};
use cosy_model::{JobState, hostlist};
use std::collections::{BTreeMap, BTreeSet};

/// The fields that decide which tasks share a line.
pub const FIELDS: [JobField; 6] = [
    JobField::ArrayId,
    JobField::ArrayTask,
    JobField::State,
    JobField::ExitCode,
    JobField::Signal,
    JobField::Reason,
];

/// Adds those of [`FIELDS`] that are missing.
pub fn with_fields(mut fields: Vec<JobField>) -> Vec<JobField> {
    let missing = FIELDS.into_iter().filter(|f| !fields.contains(f));
    let missing: Vec<JobField> = missing.collect();
    fields.extend(missing);
    fields
}

/// Which ended tasks of an array share a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    /// Those that ended alike.
    Alike,
    /// All of them.
    All,
}

/// The list with one row for all tasks that ended alike; the list itself where there are none.
pub fn fold_ended_tasks(table: Table) -> Table {
    fold(table, Together::Alike)
}

/// The list with one row for all ended tasks of an array, which has their counts in the place of
/// their state; the list itself where there are none.
pub fn fold_ended_arrays(table: Table) -> Table {
    fold(table, Together::All)
}

fn fold(table: Table, together: Together) -> Table {
    let mut alive: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    let keys: Vec<Option<Key<'_>>> = (0..table.rows)
        .map(|row| key(&table, row, together))
        .collect();
    for key in keys.iter().flatten().filter(|key| key.is_live) {
        *alive.entry(*key).or_default() += 1;
    }
    let few = |key: &Key<'_>| alive.get(key).is_some_and(|tasks| *tasks <= FEW);
    let keys: Vec<_> = keys
        .into_iter()
        .map(|key| key.filter(|key| !few(key)))
        .collect();
    match keys.iter().any(Option::is_some) {
        true => folded(&table, &keys, together),
        false => table,
    }
}

/// So many tasks of an array that run have a line each.
const FEW: usize = 3;

/// The state that a cell names first: of counts the worst one.
pub fn first_state(cell: &str) -> Option<JobState> {
    let word = cell.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    word.split(',').next().unwrap_or_default().parse().ok()
}

/// How many ended how, what went wrong first: `2 failed, 8 completed`.
fn counts(table: &Table, rows: &[usize]) -> String {
    let mut counted: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    for row in rows {
        let state = table.text(*row, JobField::State);
        let fine = state == JobState::Completed.word();
        *counted.entry((fine, state)).or_default() += 1;
    }
    let each = counted.iter();
    let each = each.map(|((_, state), count)| format!("{count} {state}"));
    each.collect::<Vec<_>>().join(", ")
}

fn folded(table: &Table, keys: &[Option<Key<'_>>], together: Together) -> Table {
    let mut lines: Vec<Vec<usize>> = Vec::new();
    let mut known = BTreeMap::new();
    for (row, key) in keys.iter().enumerate() {
        match key {
            None => lines.push(vec![row]),
            Some(key) => {
                let at = *known.entry(key).or_insert(lines.len());
                match lines.get_mut(at) {
                    Some(line) => line.push(row),
                    None => lines.push(vec![row]),
                }
            }
        }
    }
    let fields = table.fields.iter().zip(&table.columns);
    let columns = fields.map(|(field, column)| {
        let each = lines.iter();
        match column {
            Column::Numbers(_) => {
                Column::Numbers(each.map(|rows| number(table, rows, *field)).collect())
            }
            Column::Texts(_) | Column::Words { .. } => Column::Texts(
                each.map(|rows| text(table, rows, *field, together))
                    .collect(),
            ),
        }
    });
    let rows = lines.len();
    Table::of(table.fields.clone(), columns.collect(), rows)
}

/// What tasks that share a line have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    array: i64,
    /// They have begun, and have not ended.
    is_live: bool,
    /// Further: state, exit code, signal, reason.
    alike: Option<(&'a str, Option<i64>, Option<i64>, &'a str)>,
}

/// The values that rows of one line have in common; `None`: the row has a line of its own.
fn key(table: &Table, row: usize, together: Together) -> Option<Key<'_>> {
    table.number(row, JobField::ArrayTask)?;
    let array = table.number(row, JobField::ArrayId)?;
    let state = table.text(row, JobField::State);
    let reason = table.text(row, JobField::Reason);
    let number = |field| table.number(row, field);
    let (is_live, alike) = match (state.parse::<JobState>().ok()?, together) {
        (JobState::Waiting, _) => return None,
        (ended, Together::All) if ended.is_end() => (false, None),
        (ended, Together::Alike) if ended.is_end() => {
            let codes = (number(JobField::ExitCode), number(JobField::Signal));
            (false, Some((state, codes.0, codes.1, reason)))
        }
        (_, Together::Alike) => return None,
        (_, Together::All) => (true, Some((state, None, None, reason))),
    };
    Some(Key {
        array,
        is_live,
        alike,
    })
}

fn text(table: &Table, rows: &[usize], field: JobField, together: Together) -> String {
    let texts = || rows.iter().map(|row| table.text(*row, field));
    match (rows, field) {
        ([_], _) => texts().collect(),
        (_, JobField::Ref) => name(table, rows),
        (_, JobField::State) if together == Together::All => counts(table, rows),
        (_, JobField::Reason) => reason(table, rows),
        (_, JobField::Nodes) => {
            let names = texts().flat_map(|list| cosy_model::expand(list).unwrap_or_default());
            let names: BTreeSet<String> = names.collect();
            cosy_model::fold(&names.into_iter().collect::<Vec<_>>())
        }
        _ => texts().next().unwrap_or_default().to_owned(),
    }
}

/// Why those ended that are told first.
fn reason(table: &Table, rows: &[usize]) -> String {
    let worst = first_state(&counts(table, rows)).map(JobState::word);
    let of_worst = rows
        .iter()
        .find(|row| worst == Some(table.text(**row, JobField::State)));
    of_worst.map_or_else(String::new, |row| table.text(*row, JobField::Reason).to_owned())
}

/// The name of the line of several tasks, as in `12_[1-8]`.
fn name(table: &Table, rows: &[usize]) -> String {
    let task = |row: &usize| u64::try_from(table.number(*row, JobField::ArrayTask)?).ok();
    let mut tasks: Vec<u64> = rows.iter().filter_map(task).collect();
    tasks.sort_unstable();
    let array = rows
        .first()
        .and_then(|row| table.number(*row, JobField::ArrayId));
    format!("{}_[{}]", array.unwrap_or(0), hostlist::ranges(&tasks, 1))
}

fn number(table: &Table, rows: &[usize], field: JobField) -> i64 {
    let all = rows.iter().filter_map(|row| table.number(*row, field));
    let of_first = rows.first().map(|row| table.text(*row, JobField::State));
    let ended = of_first.and_then(first_state).is_some_and(JobState::is_end);
    let one = match field {
        JobField::Cores if !ended => all.reduce(i64::saturating_add),
        JobField::NodeCount if !ended && rows.len() > 1 => {
            let nodes = text(table, rows, JobField::Nodes, Together::All);
            let nodes = cosy_model::expand(&nodes).unwrap_or_default().len();
            return i64::try_from(nodes).unwrap_or(i64::MAX);
        }
        JobField::UserCpu | JobField::SystemCpu => all.reduce(i64::saturating_add),
        JobField::Start | JobField::Submit | JobField::Id => all.min(),
        _ => all.max(),
    };
    one.unwrap_or(NO_NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Array (0: none), task, state, exit code, node.
    type Job = (i64, i64, &'static str, i64, &'static str);

    const JOBS: [Job; 7] = [
        (12, 1, "completed", 0, "n1"),
        (12, 3, "completed", 0, "n2"),
        (0, 0, "completed", 0, "n1"),
        (12, 2, "failed", 3, "n1"),
        (12, 4, "completed", 0, "n1"),
        (12, 5, "running", 0, "n1"),
        (13, 1, "completed", 0, "n1"),
    ];

    fn jobs() -> Table {
        use JobField as F;
        let fields = [
            F::Ref,
            F::Start,
            F::End,
            F::UserCpu,
            F::PeakMemory,
            F::Nodes,
        ];
        let fields = with_fields(fields.to_vec());
        let column = |field: &F| {
            let rows = JOBS.iter().zip(1..);
            let numbers = |pick: fn(&Job, i64) -> i64| {
                Column::Numbers(rows.clone().map(|(job, at)| pick(job, at)).collect())
            };
            let texts = |pick: fn(&Job) -> String| Column::Texts(JOBS.iter().map(pick).collect());
            match field {
                F::Ref => texts(|j| match j.0 {
                    0 => "7".to_owned(),
                    array => format!("{array}_{}", j.1),
                }),
                F::Start => numbers(|_, at| at * 10),
                F::End => numbers(|_, at| at * 100),
                F::UserCpu | F::PeakMemory => numbers(|_, at| at),
                F::Nodes => texts(|j| j.4.to_owned()),
                F::ArrayId => numbers(|j, _| if j.0 == 0 { NO_NUMBER } else { j.0 }),
                F::ArrayTask => numbers(|j, _| if j.0 == 0 { NO_NUMBER } else { j.1 }),
                F::State => texts(|j| j.2.to_owned()),
                F::Reason => texts(|j| if j.3 == 0 { "" } else { "why" }.to_owned()),
                F::ExitCode => numbers(|j, _| j.3),
                F::Signal => numbers(|_, _| 0),
                _ => texts(|_| String::new()),
            }
        };
        let columns = fields.iter().map(column).collect();
        Table::of(fields, columns, JOBS.len())
    }

    #[test]
    fn those_that_ended_alike() {
        use JobField as F;
        let table = fold_ended_tasks(jobs());
        let line = |row: usize| {
            let numbers = [F::Start, F::End, F::UserCpu, F::PeakMemory];
            let numbers = numbers.map(|f| table.number(row, f).unwrap_or(-1));
            (table.text(row, F::Ref), numbers, table.text(row, F::Nodes))
        };
        let lines: Vec<_> = (0..table.rows).map(line).collect();
        let want = [
            ("12_[1,3-4]", [10, 500, 8, 5], "n[1-2]"),
            ("7", [30, 300, 3, 3], "n1"),
            ("12_2", [40, 400, 4, 4], "n1"),
            ("12_5", [60, 600, 6, 6], "n1"),
            ("13_1", [70, 700, 7, 7], "n1"),
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn all_that_ended() {
        use JobField as F;
        let table = fold_ended_arrays(jobs());
        let line = |row: usize| {
            let number = |field| table.number(row, field).unwrap_or(-1);
            let numbers = [F::Start, F::End, F::UserCpu, F::ExitCode].map(number);
            let texts = [F::Ref, F::State, F::Reason].map(|f| table.text(row, f));
            (texts, numbers)
        };
        let lines: Vec<_> = (0..table.rows).map(line).collect();
        let want = [
            (["12_[1-4]", "1 failed, 3 completed", "why"], [10, 500, 12, 3]),
            (["7", "completed", ""], [30, 300, 3, 0]),
            (["12_5", "running", ""], [60, 600, 6, 0]),
            (["13_1", "completed", ""], [70, 700, 7, 0]),
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn many_that_run() {
        use JobField as F;
        let tasks = |states: &[&str]| {
            let numbers = |pick: &dyn Fn(i64) -> i64| {
                Column::Numbers((1..).take(states.len()).map(pick).collect())
            };
            let texts = |pick: &dyn Fn(usize) -> String| {
                Column::Texts((0..states.len()).map(pick).collect())
            };
            let fields = [F::Ref, F::Cores, F::NodeCount, F::Start, F::Nodes];
            let fields = with_fields(fields.to_vec());
            let column = |field: &F| match field {
                F::Ref => texts(&|at| format!("12_{}", at + 1)),
                F::State => texts(&|at| states[at].to_owned()),
                F::Nodes => texts(&|at| format!("n{}", at / 2 + 1)),
                F::Reason => texts(&|_| String::new()),
                F::ArrayId => numbers(&|_| 12),
                F::ArrayTask | F::Start => numbers(&|at| at),
                F::Cores => numbers(&|_| 2),
                _ => numbers(&|_| 1),
            };
            let columns = fields.iter().map(column).collect();
            Table::of(fields, columns, states.len())
        };
        let states = [
            "running",
            "running",
            "completed",
            "running",
            "running",
            "starting",
        ];
        let table = fold_ended_arrays(tasks(&states));
        let line = |row| {
            let number = |field| table.number(row, field).unwrap_or(-1);
            let texts = [F::Ref, F::State, F::Nodes].map(|f| table.text(row, f));
            (texts, [F::Cores, F::NodeCount, F::Start].map(number))
        };
        let lines: Vec<_> = (0..table.rows).map(line).collect();
        let want = [
            (["12_[1-2,4-5]", "4 running", "n[1-3]"], [8, 3, 1]),
            (["12_3", "completed", "n2"], [2, 1, 3]),
            (["12_6", "starting", "n3"], [2, 1, 6]),
        ];
        assert_eq!(lines, want);
        assert_eq!(fold_ended_arrays(tasks(&["running"; FEW])).rows, FEW);
        assert_eq!(fold_ended_tasks(tasks(&["running"; 9])).rows, 9);
    }

    #[test]
    fn states_of_cells() {
        let check = |cell: &str, want| assert_eq!(first_state(cell), want, "{cell}");
        check("running", Some(JobState::Running));
        check("2 timed_out, 8 completed", Some(JobState::TimedOut));
        check("8 completed", Some(JobState::Completed));
        check("", None);
        check("3 , x", None);
    }

    #[test]
    fn nothing_is_left_of_nothing() {
        let table = Table::of(with_fields(Vec::new()), Vec::new(), 0);
        assert_eq!(fold_ended_tasks(table).rows, 0);
    }
}
