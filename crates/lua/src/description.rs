//! `job_desc`: a request as a script sees it, with what it has set.
//!
//! Texts are nil where nothing was asked for, numbers one of Slurm's constants. What a script sets
//! is kept until it has ended; reading gives it back.

use crate::constants::{MEM_PER_CPU, NO_VAL64};
use std::collections::BTreeMap;

/// A value in a script.
#[derive(Clone, PartialEq, Debug)]
pub enum Slot {
    /// A text of UTF-8.
    Text(String),
    /// A whole number, as most are.
    Number(i64),
    /// A number that is no whole one.
    Float(f64),
    /// Several texts, counted from 0.
    List(Vec<String>),
}

/// What a name is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A text of UTF-8.
    Text,
    /// A number, whole or not.
    Number,
}

/// Names that Slurm lets scripts set, with what is set.
const SETTABLE: [(&str, Kind); 66] = {
    use Kind::{Number, Text};
    [
        ("account", Text),
        ("acctg_freq", Text),
        ("admin_comment", Text),
        ("array_inx", Text),
        ("batch_features", Text),
        ("begin_time", Number),
        ("bitflags", Number),
        ("burst_buffer", Text),
        ("clusters", Text),
        ("comment", Text),
        ("container", Text),
        ("contiguous", Number),
        ("core_spec", Number),
        ("cores_per_socket", Number),
        ("cpu_freq_gov", Number),
        ("cpu_freq_max", Number),
        ("cpu_freq_min", Number),
        ("cpus_per_task", Number),
        ("cpus_per_tres", Text),
        ("delay_boot", Number),
        ("dependency", Text),
        ("end_time", Number),
        ("exc_nodes", Text),
        ("extra", Text),
        ("features", Text),
        ("immediate", Number),
        ("licenses", Text),
        ("mail_type", Number),
        ("mail_user", Text),
        ("max_cpus", Number),
        ("max_nodes", Number),
        ("mcs_label", Text),
        ("mem_per_tres", Text),
        ("min_cpus", Number),
        ("min_mem_per_cpu", Number),
        ("min_mem_per_node", Number),
        ("min_nodes", Number),
        ("name", Text),
        ("nice", Number),
        ("ntasks_per_node", Number),
        ("ntasks_per_socket", Number),
        ("ntasks_per_tres", Number),
        ("num_tasks", Number),
        ("partition", Text),
        ("pn_min_cpus", Number),
        ("pn_min_memory", Number),
        ("pn_min_tmp_disk", Number),
        ("prefer", Text),
        ("priority", Number),
        ("qos", Text),
        ("reboot", Number),
        ("req_nodes", Text),
        ("req_switch", Number),
        ("requeue", Number),
        ("reservation", Text),
        ("script", Text),
        ("shared", Number),
        ("site_factor", Number),
        ("sockets_per_node", Number),
        ("std_err", Text),
        ("std_in", Text),
        ("std_out", Text),
        ("threads_per_core", Number),
        ("time_limit", Number),
        ("time_min", Number),
        ("work_dir", Text),
    ]
};
/// The same, of what trackable resources are asked for.
const RESOURCES: [&str; 7] = [
    "tres_bind",
    "tres_freq",
    "tres_per_job",
    "tres_per_node",
    "tres_per_socket",
    "tres_per_task",
    "wckey",
];

/// A request, by the names that scripts know.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Description {
    slots: BTreeMap<String, Slot>,
}

/// Another name of the same.
fn own_name(name: &str) -> &str {
    match name {
        "gres" => "tres_per_node",
        "oversubscribe" => "shared",
        "ntasks_per_gpu" => "ntasks_per_tres",
        "pack_job_offset" => "het_job_offset",
        other => other,
    }
}

impl Description {
    /// What is read under a name; `None` is nil.
    pub fn get(&self, name: &str) -> Option<Slot> {
        match own_name(name) {
            "pn_min_memory" => Some(self.memory()),
            name => self.slots.get(name).cloned(),
        }
    }

    /// The whole number under a name.
    pub fn number(&self, name: &str) -> Option<i64> {
        match self.slots.get(name) {
            Some(Slot::Number(n)) => Some(*n),
            _ => None,
        }
    }

    /// The text under a name.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.slots.get(name) {
            Some(Slot::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Memory as the number with a bit in it that older scripts read.
    fn memory(&self) -> Slot {
        let (node, core) = (self.number("min_mem_per_node"), self.number("min_mem_per_cpu"));
        match (node, core) {
            (Some(mib), _) => Slot::Number(mib),
            (None, Some(mib)) => Slot::Float(MEM_PER_CPU + mib as f64),
            (None, None) => Slot::Float(NO_VAL64),
        }
    }

    /// Puts a value there.
    pub fn put(&mut self, name: &str, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.slots.insert(name.to_owned(), slot),
            None => self.slots.remove(name),
        };
    }

    /// What a script has to set under a name; `None` where Slurm lets none set it.
    pub fn kind(name: &str) -> Option<Kind> {
        let name = own_name(name);
        if RESOURCES.contains(&name) {
            return Some(Kind::Text);
        }
        let known = SETTABLE.iter().find(|(own, _)| *own == name);
        known.map(|(_, kind)| *kind)
    }

    /// What a script sets.
    pub fn set(&mut self, name: &str, slot: Slot) {
        match (own_name(name), slot) {
            // Names of resources have a prefix, as Slurm puts it there.
            ("tres_per_node", Slot::Text(text)) if name == "gres" && !text.is_empty() => {
                let prefixed = |item: &str| match item.starts_with("gres/") {
                    true => item.to_owned(),
                    false => format!("gres/{item}"),
                };
                let all: Vec<String> = text.split(',').map(prefixed).collect();
                self.put("tres_per_node", Some(Slot::Text(all.join(","))));
            }
            // An empty text is none.
            (name, Slot::Text(text)) if text.is_empty() => self.put(name, None),
            ("min_mem_per_node", slot) => {
                self.put("min_mem_per_cpu", None);
                self.put("min_mem_per_node", Some(slot));
            }
            ("min_mem_per_cpu", slot) => {
                self.put("min_mem_per_node", None);
                self.put("min_mem_per_cpu", Some(slot));
            }
            ("pn_min_memory", slot) => self.set_memory(&slot),
            (name, slot) => self.put(name, Some(slot)),
        }
    }

    fn set_memory(&mut self, slot: &Slot) {
        let number = match slot {
            Slot::Number(n) => *n as f64,
            Slot::Float(n) => *n,
            Slot::Text(_) | Slot::List(_) => NO_VAL64,
        };
        self.put("min_mem_per_node", None);
        self.put("min_mem_per_cpu", None);
        if number >= NO_VAL64 {
            return;
        }
        // A whole number below zero is one with the bit set.
        let (name, mib) = match number {
            n if n >= MEM_PER_CPU => ("min_mem_per_cpu", n - MEM_PER_CPU),
            n if n < 0.0 => ("min_mem_per_cpu", n + MEM_PER_CPU),
            n => ("min_mem_per_node", n),
        };
        self.put(name, Some(Slot::Number(mib as i64)));
    }

    /// Names under which another is set than was before.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let names = self.slots.keys().chain(before.slots.keys());
        let other = |name: &&String| self.slots.get(*name) != before.slots.get(*name);
        let all: std::collections::BTreeSet<&String> = names.filter(other).collect();
        all.into_iter().cloned().collect()
    }

    /// All names with what is there.
    pub fn slots(&self) -> impl Iterator<Item = (&str, &Slot)> {
        self.slots.iter().map(|(name, slot)| (name.as_str(), slot))
    }
}
