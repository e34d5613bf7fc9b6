//! Nodes that are switched off: `SuspendProgram` and what belongs to it, of the cluster, of partitions and
//! nodes. Source: slurm.conf(5); Slurm's "Power Saving Guide".

use super::lines::Line;
use super::reader::Reader;
use super::records::{Power, Queue};
use super::write::quoted;
use crate::sacctmgr::values::seconds;
use cosy_model::{Span, limits};
use std::collections::{BTreeMap, BTreeSet};

/// Longest time that is carried over.
const LONGEST: Span = Span::from_secs(366 * 86_400);

impl Reader {
    /// A parameter about switching nodes. False for one that is not known here.
    pub(super) fn power(&mut self, line: &Line, name: &str, value: &str) -> bool {
        match name.to_ascii_lowercase().as_str() {
            "suspendprogram" => self.cluster.power.suspend = self.program(line, name, value),
            "resumeprogram" => self.cluster.power.resume = self.program(line, name, value),
            "resumefailprogram" => self.cluster.power.failed = self.program(line, name, value),
            "suspendtime" => self.cluster.power.after = self.idle_time(line, name, value),
            "suspendtimeout" => {
                self.cluster.power.suspend_time = self.some_seconds(line, name, value)
            }
            "resumetimeout" => {
                self.cluster.power.resume_time = self.some_seconds(line, name, value)
            }
            "suspendrate" => self.cluster.power.suspend_rate = self.rate(line, name, value),
            "resumerate" => self.cluster.power.resume_rate = self.rate(line, name, value),
            "suspendexcnodes" => {
                self.cluster.power.keep = items(value).map(str::to_owned).collect();
            }
            "suspendexcparts" => {
                let names = value
                    .split(',')
                    .map(str::trim)
                    .filter(|name| !name.is_empty());
                self.cluster.power.keep_queues = names.map(str::to_owned).collect();
            }
            "suspendexcstates" => {
                let text = "drained and down nodes are never switched off by themselves";
                self.note(line, &format!("{name}={value} is not carried over: {text}"));
            }
            _ => return false,
        }
        true
    }

    fn program(&mut self, line: &Line, name: &str, value: &str) -> Option<String> {
        let path = Some(value).filter(|path| path.starts_with('/'));
        self.told(line, name, value, path).map(str::to_owned)
    }

    fn some_seconds(&mut self, line: &Line, name: &str, value: &str) -> Option<Span> {
        let fits = |span: &Span| *span > Span::ZERO && *span <= LONGEST;
        let read = seconds(value).filter(fits);
        self.told(line, name, value, read)
    }

    fn rate(&mut self, line: &Line, name: &str, value: &str) -> Option<u32> {
        let read = value.parse::<u32>().ok();
        self.told(line, name, value, read)
    }

    /// `SuspendTime`: `Some(None)` is never.
    fn idle_time(&mut self, line: &Line, name: &str, value: &str) -> Option<Option<Span>> {
        if value == "-1" || value.eq_ignore_ascii_case("infinite") {
            return Some(None);
        }
        self.some_seconds(line, name, value).map(Some)
    }

    /// What a partition or a node says of when its nodes are switched off.
    pub(super) fn suspend_after(
        &mut self,
        line: &Line,
        values: &BTreeMap<String, String>,
    ) -> Option<Option<Span>> {
        let idle = values.get("powerdownonidle");
        if idle.is_some_and(|word| word.eq_ignore_ascii_case("yes")) {
            return Some(Some(Span::from_secs(1)));
        }
        let value = values.get("suspendtime")?;
        self.idle_time(line, "SuspendTime", value)
    }

    /// What is left where nothing can be switched, and what names nodes or queues that are not there.
    pub(super) fn power_that_works(&mut self, queues: &mut [Queue]) {
        let power = &self.cluster.power;
        if power.suspend.is_none() || power.resume.is_none() {
            let said = power != &Power::default();
            let nodes = self
                .nodes
                .iter()
                .any(|node| node.cloud || node.after.is_some());
            let of_queues = queues.iter().any(|queue| queue.after.is_some());
            if said || nodes || of_queues {
                let text = "without SuspendProgram and ResumeProgram nothing is switched off: \
                            what belongs to that is left out";
                self.report.say(text);
            }
            self.cluster.power = Power::default();
            self.nodes
                .iter_mut()
                .for_each(|node| (node.cloud, node.after) = (false, None));
            queues.iter_mut().for_each(|queue| queue.after = None);
            return;
        }
        let names: BTreeSet<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        let power = &mut self.cluster.power;
        let mut lost = Vec::new();
        power.keep.retain(|item| {
            let list = item
                .rsplit_once(':')
                .map_or(item.as_str(), |(list, _)| list);
            let count = item
                .rsplit_once(':')
                .is_none_or(|(_, count)| count.parse::<u32>().is_ok());
            let known = |names: Vec<String>| names.iter().all(|name| self.known.contains(name));
            let good = count && cosy_model::expand(list).is_ok_and(known);
            if !good {
                lost.push(format!("SuspendExcNodes={item} is not carried over"));
            }
            good
        });
        power.keep_queues.retain(|name| {
            let good = names.contains(name.as_str());
            if !good {
                lost.push(format!(
                    "SuspendExcParts={name} is not carried over: there is no such queue"
                ));
            }
            good
        });
        let room = limits::DEPENDENCIES;
        if power.keep.len() + power.keep_queues.len() > room {
            power.keep.truncate(room / 2);
            power.keep_queues.truncate(room / 2);
            lost.push("SuspendExcNodes and SuspendExcParts are too long, and cut".to_owned());
        }
        for node in self
            .nodes
            .iter_mut()
            .filter(|node| node.cloud && node.cores.is_none())
        {
            node.cloud = false;
            lost.push(format!(
                "{}: State=CLOUD needs CPUs and RealMemory, and is left out",
                quoted(&node.names)
            ));
        }
        lost.into_iter().for_each(|text| self.report.say(text));
    }
}

/// Parts between commas that stand in no brackets: `n[1,3]:2,n7` has two.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = text.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}
