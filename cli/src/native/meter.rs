//! `cadm ping`: whether the controller is there; with `-v` how long what happens holds it up,
//! by kind, and how much of what is limited is in use.

use crate::native::stat;
use crate::native::table::{Cell, Head, TableStyle, render};
use crate::{Context, exit, output};
use cosy_client::CallError;
use cosy_model::Uid;
use cosy_model::api::{BudgetRow, MeterRow, Reply, Request};
use serde_json::{Value as Json, json};

/// Runs `cadm ping`.
///
/// # Errors
/// A refusal, or no controller.
pub fn ping(context: &Context, as_json: bool, verbose: bool) -> anyhow::Result<u8> {
    let Reply::Pong {
        cluster,
        version,
        now,
        set_aside,
    } = context.ask(Request::Ping)?
    else {
        return Err(CallError::Unexpected.into());
    };
    let mut told = json!({
        "cluster": cluster, "version": version, "now": crate::native::jobs::json_time(Some(now)),
        "set_aside": set_aside,
    });
    let mut text = format!("cosyd {version} of cluster {cluster} is there\n");
    for line in &set_aside {
        text.push_str(&format!("set aside: {line}\n"));
    }
    if !set_aside.is_empty() {
        text.push_str("'cosyd --set-aside' on the controller's host tells more\n");
    }
    if verbose {
        let Reply::Meter { kinds, budgets } = context.ask(Request::Meter)? else {
            return Err(CallError::Unexpected.into());
        };
        let look = TableStyle {
            width: output::width(),
            colour: output::colour(),
            bare: false,
        };
        text.push('\n');
        text.push_str(&times(&kinds, look));
        text.push('\n');
        text.push_str(&uses(&budgets, look));
        told["kinds"] = kinds.iter().map(kind_json).collect();
        told["budgets"] = budgets.iter().map(budget_json).collect();
    }
    output::print(&if as_json { stat::lines(&told) } else { text });
    Ok(exit::OK)
}

/// Times in milliseconds. A turn's time at work (`CPU`) is what it costs; it is longer where the
/// controller waited for a processor meanwhile.
fn times(kinds: &[MeterRow], look: TableStyle) -> String {
    let heads = [
        Head::left("KIND"),
        Head::right("COUNT"),
        Head::right("LONGEST TURN MS"),
        Head::right("OF USER"),
        Head::right("TURNS MS"),
        Head::right("LONGEST CPU MS"),
        Head::right("OF USER"),
        Head::right("CPU MS"),
        Head::right("LONGEST READ MS"),
        Head::right("OF USER"),
    ];
    let ms = |us: u64| match us {
        0 => "-".to_owned(),
        us => format!("{}.{:03}", us / 1000, us % 1000),
    };
    let user = |uid: Option<Uid>| uid.map_or_else(|| "-".to_owned(), |uid| uid.to_string());
    let row = |k: &MeterRow| -> Vec<Cell> {
        vec![
            k.kind.as_str().into(),
            k.count.to_string().into(),
            ms(k.longest_turn_us).into(),
            user(k.longest_turn_of).into(),
            ms(k.turns_us).into(),
            ms(k.longest_cpu_us).into(),
            user(k.longest_cpu_of).into(),
            ms(k.cpu_us).into(),
            ms(k.longest_read_us).into(),
            user(k.longest_read_of).into(),
        ]
    };
    render(&heads, &kinds.iter().map(row).collect::<Vec<_>>(), look)
}

fn uses(budgets: &[BudgetRow], look: TableStyle) -> String {
    let heads = [
        Head::left("LIMITED"),
        Head::right("IN USE"),
        Head::right("MOST"),
        Head::right("OF A USER"),
        Head::right("OF ALL"),
        Head::right("REFUSED"),
    ];
    let row = |b: &BudgetRow| -> Vec<Cell> {
        vec![
            b.what.as_str().into(),
            b.used.to_string().into(),
            b.peak.to_string().into(),
            b.per_user.to_string().into(),
            b.in_all.to_string().into(),
            b.refused.to_string().into(),
        ]
    };
    render(&heads, &budgets.iter().map(row).collect::<Vec<_>>(), look)
}

fn kind_json(k: &MeterRow) -> Json {
    let uid = |uid: Option<Uid>| uid.map(|uid| uid.0);
    json!({
        "kind": k.kind, "count": k.count,
        "longest_turn_us": k.longest_turn_us, "longest_turn_of": uid(k.longest_turn_of),
        "turns_us": k.turns_us, "turn_counts": k.turn_counts,
        "longest_cpu_us": k.longest_cpu_us, "longest_cpu_of": uid(k.longest_cpu_of),
        "cpu_us": k.cpu_us, "cpu_counts": k.cpu_counts,
        "longest_read_us": k.longest_read_us, "longest_read_of": uid(k.longest_read_of),
    })
}

fn budget_json(b: &BudgetRow) -> Json {
    json!({
        "what": b.what, "used": b.used, "peak": b.peak, "per_user": b.per_user,
        "in_all": b.in_all, "refused": b.refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let kind = MeterRow {
            kind: "jobs".into(),
            count: 3,
            longest_turn_us: 1_234,
            longest_turn_of: Some(Uid(7)),
            turns_us: 2_000,
            longest_cpu_us: 900,
            longest_cpu_of: Some(Uid(8)),
            cpu_us: 1_600,
            ..MeterRow::default()
        };
        let want = [
            "KIND  COUNT  LONGEST TURN MS  OF USER  TURNS MS  LONGEST CPU MS  OF USER  CPU MS  LONGEST READ MS  OF USER",
            "jobs      3            1.234        7     2.000           0.900        8   1.600                -        -",
        ];
        let text = times(&[kind], TableStyle::default());
        assert_eq!(text.lines().collect::<Vec<_>>(), want);
        let budget = BudgetRow {
            what: "connections".into(),
            used: 1,
            peak: 20,
            per_user: 256,
            in_all: 3840,
            refused: 2,
        };
        let text = uses(&[budget], TableStyle::default());
        assert!(text.contains("connections       1    20        256    3840        2"), "{text}");
    }
}
