//! `scontrol show topology`: one line for each switch. Source: scontrol(1); topology.conf(5).

use cosy_model::{SwitchSpec, fold, topology};

/// Lines of all switches, as they are configured; of a name only those of the switch, or above the
/// node, that has it.
pub fn lines(switches: &[SwitchSpec], name: Option<&str>) -> Vec<String> {
    let under = topology::under(switches, |switch| switch.nodes.clone());
    let nodes = |switch: &SwitchSpec| {
        let mut nodes: Vec<&str> = under
            .get(&*switch.name)
            .into_iter()
            .flatten()
            .map(|name| &**name)
            .collect();
        nodes.sort_unstable();
        nodes
    };
    let meant = |(_, switch): &(Option<u32>, &SwitchSpec)| {
        name.is_none_or(|name| switch.name == name || nodes(switch).contains(&name))
    };
    let line = |(level, switch): (Option<u32>, &SwitchSpec)| {
        let (level, nodes) = (level.unwrap_or(0), nodes(switch));
        let mut line = format!("SwitchName={} Level={level} LinkSpeed=1", switch.name);
        if !nodes.is_empty() {
            line.push_str(&format!(" Nodes={}", fold(&nodes)));
        }
        if !switch.switches.is_empty() {
            line.push_str(&format!(" Switches={}", fold(&switch.switches)));
        }
        line
    };
    let all = topology::levels(switches).into_iter().zip(switches);
    all.filter(meant).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree() {
        let words = |text: &str| cosy_model::expand(text).unwrap_or_default();
        let switch = |name: &str, nodes: &str, below: &str| SwitchSpec {
            name: name.to_owned(),
            nodes: words(nodes),
            switches: words(below),
        };
        let all = [
            switch("s1", "n[1-2]", ""),
            switch("s2", "n[3-4]", ""),
            switch("top", "", "s[1-2]"),
        ];
        let top = "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]";
        let s1 = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]";
        let s2 = "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]";
        assert_eq!(lines(&all, None), [s1, s2, top]);
        assert_eq!(lines(&all, Some("s2")), [s2]);
        assert_eq!(lines(&all, Some("n1")), [s1, top]);
        assert!(lines(&all, Some("n9")).is_empty());
    }
}
