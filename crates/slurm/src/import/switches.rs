//! Lines of `topology.conf`: switches become `[[switch]]`, and so do blocks, which are leaf switches.
//! Source: topology.conf(5).

use super::lines::Line;
use super::reader::Reader;
use cosy_model::{SwitchSpec, expand, limits, topology};
use std::collections::BTreeSet;

impl Reader {
    /// The switches of all lines, looked at when all nodes are known. What does not make a tree is
    /// left out.
    pub(super) fn all_switches(&mut self) -> Vec<SwitchSpec> {
        let lines = std::mem::take(&mut self.switches);
        let mut all: Vec<SwitchSpec> = Vec::new();
        let (mut names, mut hanging) = (BTreeSet::new(), BTreeSet::new());
        for line in lines.iter().take(limits::SWITCHES) {
            let name = line.get("SwitchName").or_else(|| line.get("BlockName"));
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                self.note(line, "neither SwitchName nor BlockName: left out");
                continue;
            };
            if !topology::is_name(name) {
                self.note(line, &format!("no switch can be called '{name}' here: left out"));
                continue;
            }
            if !names.insert(name.to_owned()) {
                self.note(line, &format!("switch {name} is there twice: left out"));
                continue;
            }
            let nodes = line
                .get("Nodes")
                .map_or(Vec::new(), |list| self.named(line, list));
            let below = line.get("Switches").filter(|_| nodes.is_empty());
            let below = below.map(expand).transpose();
            if below.is_err() {
                self.note(line, &format!("what hangs on switch {name} is no list"));
            }
            let below = below.unwrap_or_default().unwrap_or_default();
            let switch = SwitchSpec {
                name: name.to_owned(),
                nodes: self.first_time(line, &mut hanging, "node", nodes),
                switches: self.first_time(line, &mut hanging, "switch", below),
            };
            match switch.nodes.is_empty() && switch.switches.is_empty() {
                true => self.note(line, &format!("switch {name} has no nodes: left out")),
                false => all.push(switch),
            }
        }
        if let Some(line) = lines.get(limits::SWITCHES) {
            self.note(line, &format!("more than {} switches: left out", limits::SWITCHES));
        }
        self.without_gaps(all)
    }

    /// Those of a list that hang nowhere yet.
    fn first_time(
        &mut self,
        line: &Line,
        hanging: &mut BTreeSet<(&'static str, String)>,
        what: &'static str,
        names: Vec<String>,
    ) -> Vec<String> {
        let new = |name: &String| hanging.insert((what, name.clone()));
        let (first, again): (Vec<String>, Vec<String>) = names.into_iter().partition(new);
        if !again.is_empty() {
            let again = cosy_model::fold(&again);
            self.note(line, &format!("{again} hang on another switch already: left out here"));
        }
        first
    }

    /// Without switches that hang on none that there are, or on themselves.
    fn without_gaps(&mut self, mut all: Vec<SwitchSpec>) -> Vec<SwitchSpec> {
        let mut gone: Vec<String> = Vec::new();
        loop {
            let before = all.len();
            let names: BTreeSet<String> = all.iter().map(|switch| switch.name.clone()).collect();
            for switch in &mut all {
                let below = std::mem::take(&mut switch.switches).into_iter();
                let (there, lost): (Vec<_>, Vec<_>) = below.partition(|one| names.contains(one));
                switch.switches = there;
                gone.extend(lost);
            }
            let mut levels = topology::levels(&all).into_iter();
            all.retain(|switch| {
                let low = levels
                    .next()
                    .flatten()
                    .is_some_and(|own| own < limits::SWITCH_LEVELS);
                let sound = low && !(switch.nodes.is_empty() && switch.switches.is_empty());
                gone.extend((!sound).then(|| switch.name.clone()));
                sound
            });
            if all.len() == before {
                break;
            }
        }
        gone.sort();
        gone.dedup();
        if !gone.is_empty() {
            let gone = gone.join(", ");
            let why = format!(
                "switches left out, as nothing hangs on them or they hang on themselves: {gone}"
            );
            self.report.say(why);
        }
        all
    }
}
