//! `cadm qos`: qualities of service.

use super::{ask, carry_out, changing, name, named, pairs, settings, settings_of};
use crate::native::arg::{flag, json, parse_name};
use crate::native::stat;
use crate::native::table::{self, Cell, ColumnHead};
use crate::{Context, exit, output};
use clap::{Arg, ArgMatches, Command};
use cosy_model::policy::{PolicyAnswer, PolicyChange, PolicyQuery, QosInfo, QosRecord};
use serde_json::{Value as Json, json};

const SETTINGS: &str = "priority, description, flags, usage-factor, preempt, preempt-mode, preempt-exempt, grace, and limits like GrpTRES=cpu=100 or MaxJobsPerUser=4; none unsets";

/// The command line of `cadm qos`.
pub fn command() -> Command {
    let one = || name("qos", "QOS", "Quality of service");
    Command::new("qos")
        .about("Qualities of service: priority, limits, who gives way to whom")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands([
            changing("create", "Make a quality of service")
                .arg(one())
                .arg(pairs(SETTINGS)),
            changing("set", "Change a quality of service")
                .arg(one())
                .arg(pairs(SETTINGS)),
            changing("remove", "Remove one; it goes out of every list").arg(one()),
            Command::new("list")
                .about("List qualities of service")
                .arg(
                    Arg::new("qos")
                        .value_name("QOS")
                        .help("Qualities of service (default: all)")
                        .num_args(0..)
                        .value_parser(parse_name),
                )
                .arg(flag("no-header", "No line of titles"))
                .arg(json()),
        ])
}

/// Runs `cadm qos`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, (word, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    if word == "list" {
        return list(context, m);
    }
    let name = named(m, "qos");
    let set = || settings::qos(&settings_of(m)).map_err(|why| exit::usage(&why));
    let change = match word {
        "create" => PolicyChange::AddQos { name, set: set()? },
        "set" => PolicyChange::ModifyQos { name, set: set()? },
        _ => PolicyChange::RemoveQos { name },
    };
    carry_out(context, vec![change], m)
}

fn list(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let names = crate::native::arg::list(m, "qos");
    let query = PolicyQuery::Qos {
        names,
        usage: false,
    };
    let PolicyAnswer::Qos(all) = ask(context, query)? else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    output::print(&if m.get_flag("json") {
        let all: Vec<Json> = all.iter().map(|info| as_json(&info.record)).collect();
        stat::json_text(&json!({ "qos": all }))
    } else {
        shown(&all, stat::table_style(m))
    });
    Ok(exit::OK)
}

fn shown(all: &[QosInfo], style: table::TableStyle) -> String {
    let columns = [
        ColumnHead::left("QOS"),
        ColumnHead::right("PRIORITY"),
        ColumnHead::right("FACTOR"),
        ColumnHead::left("PREEMPTS"),
        ColumnHead::left("FLAGS"),
        ColumnHead::left("LIMITS"),
    ];
    let rows: Vec<Vec<Cell>> = all.iter().map(|info| row(&info.record)).collect();
    table::render(&columns, &rows, style)
}

fn row(qos: &QosRecord) -> Vec<Cell> {
    let cells = [
        qos.name.clone(),
        qos.priority.to_string(),
        decimal(qos.usage_factor_ppm),
        joined(qos.preempt.iter().map(String::as_str)),
        joined(qos.flags.iter().map(|flag| flag.word())),
        limits(qos),
    ];
    cells.into_iter().map(Cell::from).collect()
}

fn limits(qos: &QosRecord) -> String {
    let all = qos.limits.iter();
    let all = all.map(|(key, value)| format!("{key}={}", settings::written(key, value)));
    all.collect::<Vec<_>>().join(" ")
}

fn joined<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.collect::<Vec<_>>().join(",")
}

/// Millionths as a decimal number.
pub(super) fn decimal(ppm: u32) -> String {
    let text = format!("{}.{:06}", ppm / 1_000_000, ppm % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn as_json(qos: &QosRecord) -> Json {
    let limits: serde_json::Map<String, Json> = qos
        .limits
        .iter()
        .map(|(key, value)| (key.to_string(), json!(value)))
        .collect();
    json!({
        "id": qos.id,
        "name": qos.name,
        "description": qos.description,
        "priority": qos.priority,
        "usage_factor": f64::from(qos.usage_factor_ppm) / 1e6,
        "flags": qos.flags.iter().map(|flag| flag.word()).collect::<Vec<_>>(),
        "preempt": qos.preempt,
        "preempt_mode": qos.preempt_mode,
        "preempt_within": qos.preempt_within,
        "preempt_exempt_seconds": qos.preempt_exempt.map(|span| span.secs()),
        "grace_seconds": qos.grace.secs(),
        "limits": limits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        for (ppm, want) in [
            (1_000_000, "1"),
            (500_000, "0.5"),
            (2_000_001, "2.000001"),
            (0, "0"),
        ] {
            assert_eq!(decimal(ppm), want);
        }
    }
}
