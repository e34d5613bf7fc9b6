//! What is shown of the controller itself: how long what happens holds it up, and how much of what
//! is limited is in use.

use crate::column::{Column, Fields};
use crate::value::FieldValue;
use cosy_model::Uid;
use cosy_model::api::{BudgetRow, MeterRow};

/// `cadm ping -v`. Times in milliseconds. A turn's time at work (`CPU`) is what it costs; it is
/// longer where the controller waited for a processor meanwhile.
pub const KINDS: &[Column<MeterRow>] = &[
    Column::left("KIND", |row| (&row.kind).into()),
    Column::right("COUNT", |row| row.count.into()),
    Column::right("LONGEST TURN MS", |row| ms(row.longest_turn_us)),
    Column::right("OF USER", |row| user(row.longest_turn_of)),
    Column::right("TURNS MS", |row| ms(row.turns_us)),
    Column::right("LONGEST CPU MS", |row| ms(row.longest_cpu_us)),
    Column::right("OF USER", |row| user(row.longest_cpu_of)),
    Column::right("CPU MS", |row| ms(row.cpu_us)),
    Column::right("LONGEST READ MS", |row| ms(row.longest_read_us)),
    Column::right("OF USER", |row| user(row.longest_read_of)),
];

fn ms<'a>(us: u64) -> FieldValue<'a> {
    match us {
        0 => "-".into(),
        us => format!("{}.{:03}", us / 1000, us % 1000).into(),
    }
}

fn user<'a>(uid: Option<Uid>) -> FieldValue<'a> {
    FieldValue::number_or_dash(uid.map(|uid| uid.0.into()))
}

/// All fields of a kind.
pub fn kind_fields(row: &MeterRow) -> Fields<'_> {
    let MeterRow {
        kind,
        count,
        longest_turn_us,
        longest_turn_of,
        turns_us,
        turn_counts,
        longest_cpu_us,
        longest_cpu_of,
        cpu_us,
        cpu_counts,
        longest_read_us,
        longest_read_of,
    } = row;
    let uid = |uid: &Option<Uid>| uid.map(|uid| uid.0).into();
    let counts = |all: &[u64]| FieldValue::List(all.iter().map(|n| (*n).into()).collect());
    vec![
        ("kind", kind.into()),
        ("count", (*count).into()),
        ("longest_turn_us", (*longest_turn_us).into()),
        ("longest_turn_of", uid(longest_turn_of)),
        ("turns_us", (*turns_us).into()),
        ("turn_counts", counts(turn_counts)),
        ("longest_cpu_us", (*longest_cpu_us).into()),
        ("longest_cpu_of", uid(longest_cpu_of)),
        ("cpu_us", (*cpu_us).into()),
        ("cpu_counts", counts(cpu_counts)),
        ("longest_read_us", (*longest_read_us).into()),
        ("longest_read_of", uid(longest_read_of)),
    ]
}

/// `cadm ping -v`, below that.
pub const BUDGETS: &[Column<BudgetRow>] = &[
    Column::left("LIMITED", |row| (&row.what).into()),
    Column::right("IN USE", |row| row.used.into()),
    Column::right("MOST", |row| row.peak.into()),
    Column::right("OF A USER", |row| row.per_user.into()),
    Column::right("OF ALL", |row| row.in_all.into()),
    Column::right("REFUSED", |row| row.refused.into()),
];

/// All fields of what is limited.
pub fn budget_fields(row: &BudgetRow) -> Fields<'_> {
    let BudgetRow {
        what,
        used,
        peak,
        per_user,
        in_all,
        refused,
    } = row;
    vec![
        ("what", what.into()),
        ("used", (*used).into()),
        ("peak", (*peak).into()),
        ("per_user", (*per_user).into()),
        ("in_all", (*in_all).into()),
        ("refused", (*refused).into()),
    ]
}
