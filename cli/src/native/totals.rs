//! The line below a list of jobs or nodes on a terminal: how many there are, and how they stand.

use crate::native::array_lines;
use crate::native::table::{self, Rendered, TableStyle};
use crate::units::brief;
use cosy_model::api::{JobField, Table};
use cosy_model::{ArraySpec, JobState, Span};
use cosy_view::phrase::count;
use cosy_view::words::row_name;
use unicode_width::UnicodeWidthStr;

/// How many jobs there are, by state, with the cores that they hold or the time that they have used,
/// as far as the table has these fields: `29 jobs: 5 running on 6 cores, 24 waiting`.
///
/// A line of several tasks of an array counts as so many jobs.
pub fn of_jobs(table: &Table) -> String {
    let mut by_state = [0_u64; JobState::ALL.len()];
    let (mut all, mut cores, mut cpu_us) = (0_u64, 0_u64, 0_i64);
    for row in 0..table.rows {
        let jobs = jobs_in(table.text(row, JobField::Ref));
        let state = table.text(row, JobField::State).parse::<JobState>().ok();
        let at = JobState::ALL.iter().position(|one| Some(*one) == state);
        if let Some(of_state) = at.and_then(|at| by_state.get_mut(at)) {
            *of_state += jobs;
        }
        let number = |field| table.number(row, field).unwrap_or(0).max(0);
        if state == Some(JobState::Running) {
            cores += number(JobField::Cores).unsigned_abs();
        }
        for field in [JobField::UserCpu, JobField::SystemCpu] {
            cpu_us = cpu_us.saturating_add(number(field));
        }
        all += jobs;
    }
    let states = JobState::ALL.iter().zip(by_state);
    let told = states.filter(|(_, jobs)| *jobs > 0).map(|(state, jobs)| {
        let held = match state {
            JobState::Running if cores > 0 => format!(" on {}", count(cores, "core", "cores")),
            _ => String::new(),
        };
        format!("{jobs} {}{held}", state.word())
    });
    let mut line = format!("{}: ", count(all, "job", "jobs"));
    line.push_str(&told.collect::<Vec<_>>().join(", "));
    if cpu_us >= 1_000_000 {
        line.push_str(&format!("; {} of CPU time", brief(Span(cpu_us / 1000))));
    }
    line
}

/// So many jobs is a row of that name about.
fn jobs_in(name: &str) -> u64 {
    let tasks = row_name::tasks(name).and_then(|tasks| tasks.spec.parse::<ArraySpec>().ok());
    tasks.map_or(1, |tasks| tasks.count())
}

/// The table with the line below it, which also tells what there was no room for. Elsewhere than on
/// a terminal the table alone.
pub fn below(table: Rendered, total: &str, style: TableStyle) -> String {
    if style.width.is_none() || style.bare {
        return table.text;
    }
    let Rendered { mut text, left_out } = table;
    if left_out.is_empty() {
        return text + &table::dimmed(total, style);
    }
    let no_room = table::no_room(&left_out);
    let line = format!("{total}; {no_room}");
    if style.width.is_some_and(|width| line.width() <= width) {
        return text + &table::dimmed(&line, style);
    }
    text.push_str(&table::dimmed(total, style));
    text.push_str(&table::dimmed(&no_room, style));
    text
}

/// A list of jobs as [`array_lines`] has it for whoever reads it.
pub fn folded(table: Table, style: TableStyle) -> Table {
    match style.is_short() {
        true => array_lines::fold_ended_arrays(table),
        false => array_lines::fold_ended_tasks(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::Column;

    fn table(rows: &[(&str, &str, i64)]) -> Table {
        use JobField as F;
        let texts =
            |pick: fn(&(&str, &str, i64)) -> String| Column::Texts(rows.iter().map(pick).collect());
        let cores = Column::Numbers(rows.iter().map(|row| row.2).collect());
        let columns = vec![
            texts(|row| row.0.to_owned()),
            texts(|row| row.1.to_owned()),
            cores,
        ];
        Table::of(vec![F::Ref, F::State, F::Cores], columns, rows.len())
    }

    #[test]
    fn jobs_by_state() {
        let check = |rows: &[(&str, &str, i64)], want: &str| {
            assert_eq!(of_jobs(&table(rows)), want);
        };
        check(&[("1", "running", 1)], "1 job: 1 running on 1 core");
        check(
            &[
                ("1", "running", 2),
                ("2_[1-5,8-20:4%2]", "waiting", 7),
                ("2_7", "running", 3),
                ("3", "failed", 4),
            ],
            "12 jobs: 9 waiting, 2 running on 5 cores, 1 failed",
        );
    }

    #[test]
    fn below_tables_on_terminals() {
        let rendered = || Rendered {
            text: "ID\n1\n".to_owned(),
            left_out: vec!["CORES".to_owned(), "LIMIT".to_owned()],
        };
        let check = |style: TableStyle, want: &str| {
            assert_eq!(below(rendered(), "1 job", style), want, "{style:?}");
        };
        let plain = TableStyle::default();
        check(plain, "ID\n1\n");
        let terminal = TableStyle {
            width: Some(40),
            ..plain
        };
        check(terminal, "ID\n1\n1 job; no room for CORES, LIMIT\n");
        check(
            TableStyle {
                width: Some(20),
                ..plain
            },
            "ID\n1\n1 job\nno room for CORES,\nLIMIT\n",
        );
        check(
            TableStyle {
                bare: true,
                ..terminal
            },
            "ID\n1\n",
        );
    }
}
