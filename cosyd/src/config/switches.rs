//! `[[switch]]` of `cosy.toml`: the tree of switches that nodes hang on.

use super::nodes::known_hosts;
use cosy_config::Check;
use cosy_model::{SwitchSpec, limits, topology};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    name: Spanned<String>,
    nodes: Option<Spanned<String>>,
    switches: Option<Spanned<String>>,
}

/// The switches, in the order of the file.
pub(super) fn switches(
    check: &mut Check<'_>,
    tables: &[Switch],
    known: &BTreeSet<&str>,
) -> Vec<SwitchSpec> {
    if tables.len() > limits::SWITCHES {
        check.fault(0, format!("more than {} switches", limits::SWITCHES));
        return Vec::new();
    }
    let all: Vec<SwitchSpec> = tables
        .iter()
        .map(|table| switch(check, table, known))
        .collect();
    let mut names = BTreeSet::new();
    for (table, switch) in tables.iter().zip(&all) {
        if !topology::is_name(&switch.name) {
            let what = "the name of a switch has letters, digits, '-' and '_' only, 63 at most";
            check.fault(table.name.span().start, what);
        }
        if !names.insert(switch.name.as_str()) {
            let what = format!("switch {} is there twice", switch.name);
            check.fault(table.name.span().start, what);
        }
    }
    each_hangs_once(check, tables, &all, &names);
    for (table, level) in tables.iter().zip(topology::levels(&all)) {
        let (name, most) = (table.name.get_ref(), limits::SWITCH_LEVELS);
        let what = match level {
            None => format!("switch {name} hangs on itself, by those above it"),
            Some(level) if level >= most => format!("switch {name} is above {most} others"),
            Some(_) => continue,
        };
        check.fault(table.name.span().start, what);
    }
    all
}

fn switch(check: &mut Check<'_>, table: &Switch, known: &BTreeSet<&str>) -> SwitchSpec {
    if table.nodes.is_some() == table.switches.is_some() {
        let at = table.name.span().start;
        check.fault(at, "a switch has either nodes or switches");
    }
    let nodes = table.nodes.as_ref();
    let below = table.switches.as_ref();
    SwitchSpec {
        name: table.name.get_ref().clone(),
        nodes: nodes.map_or(Vec::new(), |list| known_hosts(check, list, known)),
        switches: below.map_or(Vec::new(), |list| check.hosts(list)),
    }
}

/// Nodes and switches hang on one switch each.
fn each_hangs_once(
    check: &mut Check<'_>,
    tables: &[Switch],
    all: &[SwitchSpec],
    names: &BTreeSet<&str>,
) {
    let mut above: BTreeMap<(bool, &str), &str> = BTreeMap::new();
    for (table, switch) in tables.iter().zip(all) {
        let below = table.switches.as_ref().or(table.nodes.as_ref());
        let at = below.map_or(table.name.span().start, |list| list.span().start);
        for name in &switch.switches {
            if !names.contains(name.as_str()) {
                check.fault(at, format!("there is no switch '{name}'"));
            }
        }
        let nodes = switch.nodes.iter().map(|name| (true, name.as_str()));
        let switches = switch.switches.iter().map(|name| (false, name.as_str()));
        for one in nodes.chain(switches) {
            if let Some(other) = above.insert(one, &switch.name) {
                let what = if one.0 { "node" } else { "switch" };
                let (name, own) = (one.1, &switch.name);
                check.fault(at, format!("{what} {name} hangs on {other} and on {own}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests

    use crate::config::parse;
    use std::path::Path;

    const START: &str = "[controller]\nstate_dir = '/s'\nsocket = '/s/sock'\n[[node]]\nnames = 'n[1-4]'\n[[queue]]\nname = 'day'\n";

    #[test]
    fn a_tree() {
        let text = format!(
            "{START}[[switch]]\nname = 'top'\nswitches = 's[1-2]'\n[[switch]]\nname = 's1'\nnodes = 'n[1-2]'\n[[switch]]\nname = 's2'\nnodes = 'n3'\n"
        );
        let config = parse(Path::new("x"), &text).unwrap().cluster;
        let all: Vec<_> = config.switches.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(all, ["top", "s1", "s2"]);
        assert_eq!(config.switches[0].switches, ["s1", "s2"]);
        assert_eq!(config.switches[1].nodes, ["n1", "n2"]);
    }

    #[test]
    fn faults_are_told_with_their_lines() {
        let check = |more: &str, want: &str| {
            let text = format!("{START}{more}");
            let faults = parse(Path::new("x"), &text).unwrap_err().0;
            assert!(faults.iter().any(|fault| fault.contains(want)), "{more}: {faults:?}");
        };
        check("[[switch]]\nname = 'a'\n", "x:9: a switch has either nodes or switches");
        check("[[switch]]\nname = 'a'\nnodes = 'n9'\n", "x:10: there is no node 'n9'");
        check("[[switch]]\nname = 'a'\nswitches = 'b'\n", "x:10: there is no switch 'b'");
        check("[[switch]]\nname = ''\nnodes = 'n1'\n", "x:9: the name of a switch has");
        check("[[switch]]\nname = 'a.b'\nnodes = 'n1'\n", "x:9: the name of a switch has");
        let twice =
            "[[switch]]\nname = 'a'\nnodes = 'n[1-2]'\n[[switch]]\nname = 'b'\nnodes = 'n2'\n";
        check(twice, "x:13: node n2 hangs on a and on b");
        check(&twice.replace("'b'", "'a'"), "switch a is there twice");
        check("[[switch]]\nname = 'a'\nswitches = 'a'\n", "switch a hangs on itself");
        check("[switch]\nname = 'a'\nnodes = 'n1'\n", "write [[switch]] instead of [switch]");
        check("[policy]\nmax_switch_wait = 'soon'\n", "x:9: 'soon'");
    }
}
