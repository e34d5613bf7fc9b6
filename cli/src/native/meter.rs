//! `cadm ping`: whether the controller is there, who leads, whose clock is off; with `-v` how long what happens holds it up,
//! by kind, and how much of what is limited is in use.

use crate::native::record::{self, TimeStyle};
use crate::native::stat;
use crate::native::table::TableStyle;
use crate::{Context, controllers, exit, output};
use cosy_client::CallError;
use cosy_model::api::{BudgetRow, MeterRow, Reply, Request};
use cosy_view::meter;
use serde_json::json;

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
        clocks,
    } = context.ask(Request::Ping)?
    else {
        return Err(CallError::Unexpected.into());
    };
    let mut json = json!({
        "cluster": cluster, "version": version, "now": crate::native::job_table::json_time(Some(now)),
        "set_aside": set_aside, "clocks": clocks,
    });
    let mut text = format!("cosyd {version} of cluster {cluster} is there\n");
    let rows = controllers::all(context);
    text.push_str(&controllers::lines(&rows));
    json["controllers"] = json!(rows);
    for line in &clocks {
        text.push_str(&format!("{line}\n"));
    }
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
        let style = TableStyle {
            width: output::width(),
            colour: output::colour(),
            ..TableStyle::default()
        };
        text.push('\n');
        text.push_str(&times(&kinds, style));
        text.push('\n');
        text.push_str(&uses(&budgets, style));
        json["kinds"] = kinds
            .iter()
            .map(|k| record::json(&meter::kind_fields(k)))
            .collect();
        json["budgets"] = budgets
            .iter()
            .map(|b| record::json(&meter::budget_fields(b)))
            .collect();
    }
    output::print(&if as_json {
        stat::json_text(&json)
    } else {
        text
    });
    Ok(exit::OK)
}

fn times(kinds: &[MeterRow], style: TableStyle) -> String {
    record::list(meter::KINDS, kinds, TimeStyle::in_lists(&crate::times::now()), style)
}

fn uses(budgets: &[BudgetRow], style: TableStyle) -> String {
    record::list(meter::BUDGETS, budgets, TimeStyle::in_lists(&crate::times::now()), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Uid;

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
