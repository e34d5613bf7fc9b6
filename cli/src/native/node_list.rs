//! `cstat nodes`: nodes that are alike share a line on a terminal; elsewhere each has its own.

use crate::native::record::{self, TimeStyle};
use crate::native::table::TableStyle;
use crate::native::totals;
use crate::times;
use cosy_model::api::NodeInfo;
use cosy_view::node;
use serde_json::Value as Json;

/// Nodes as a table for people.
pub fn text(all: &[NodeInfo], style: TableStyle) -> String {
    let now = times::now();
    let time_style = TimeStyle::in_lists(&now);
    let table = match style.is_short() {
        true => record::rendered(node::GROUPS, &node::groups(all), time_style, style),
        false => record::rendered(node::LIST, all, time_style, style),
    };
    totals::below(table, &node::total(all), style)
}

/// Nodes as JSON objects.
pub fn json(all: &[NodeInfo]) -> Vec<Json> {
    let fields = all.iter().map(node::fields);
    fields.map(|f| record::json(&f)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{Amounts, MiB};

    #[test]
    fn nodes_as_text_and_json() {
        let node = NodeInfo {
            name: "n1".into(),
            state: "mixed".into(),
            reason: String::new(),
            amounts: Amounts {
                cores: 4,
                memory: MiB(2048),
                ..Amounts::default()
            },
            used: Amounts {
                cores: 1,
                ..Amounts::default()
            },
            features: vec!["big".into()],
            queues: vec!["main".into()],
            jobs: 1,
            version: "0".into(),
            last_seen: Some(cosy_model::Time(0)),
            skew_ms: Some(-40_000),
            ..NodeInfo::default()
        };
        let text = text(std::slice::from_ref(&node), TableStyle::default());
        assert!(text.ends_with("n1    mixed    1/4   0M/2G   0/0     1  main    big\n"), "{text}");
        let json = &json(std::slice::from_ref(&node))[0];
        assert_eq!(json["has"]["memory_mib"], 2048);
        assert_eq!(json["last_seen"], "1970-01-01T00:00:00.000Z");
        assert_eq!(json["clock_ahead_ms"], -40_000);
        let terminal = TableStyle {
            width: Some(80),
            ..TableStyle::default()
        };
        let other = NodeInfo {
            name: "n2".into(),
            ..node.clone()
        };
        let lines = |style| {
            let text = super::text(&[node.clone(), other.clone()], style);
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let total = "2 nodes: 2 mixed; 2 of 8 cores in use";
        let want = [
            "NODES   COUNT  STATE  CORES  MEMORY  GPUS  QUEUES  FEATURES  REASON",
            "n[1-2]      2  mixed    2/8   0M/4G        main    big",
            total,
        ];
        assert_eq!(lines(terminal), want);
        let exact = lines(TableStyle {
            exact: true,
            ..terminal
        });
        assert!(exact.len() == 4 && exact[2].starts_with("n2    mixed"), "{exact:?}");
    }
}
