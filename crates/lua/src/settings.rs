//! What a script has set, as fields of Cosy. What Cosy does not have is a sentence.

use crate::constants::{INFINITE, MAIL, NICE_OFFSET, NO_VAL, NO_VAL16, SHARED_NONE, SHARED_OK};
use crate::description::{Description, Slot};
use cosy_model::CountedResources;
use cosy_slurm::submit::constraint;
use cosy_slurm::submit::gres::{self, Amounts};
use serde_json::{Map, Value as Json, json};

/// Texts that are a field as they are: the name and the field.
const TEXTS: [(&str, &str); 9] = [
    ("account", "account"),
    ("admin_comment", "admin_comment"),
    ("comment", "comment"),
    ("mail_user", "mail_user"),
    ("name", "name"),
    ("qos", "qos"),
    ("wckey", "wckey"),
    ("work_dir", "working_directory"),
    ("script", ""),
];
/// Patterns of files, which can be taken away.
const FILES: [(&str, &str); 3] = [
    ("std_err", "stderr"),
    ("std_in", "stdin"),
    ("std_out", "stdout"),
];
/// Numbers that are a field as they are, and what stands for none.
const NUMBERS: [(&str, &str, i64); 6] = [
    ("num_tasks", "tasks", NO_VAL),
    ("ntasks_per_node", "tasks_per_node", NO_VAL16),
    ("cpus_per_task", "cores_per_task", NO_VAL16),
    ("pn_min_tmp_disk", "disk_per_node", NO_VAL),
    ("begin_time", "begin", 0),
    ("end_time", "deadline", 0),
];

/// One request, before and after the script.
struct Change<'a> {
    before: &'a Description,
    after: &'a Description,
    /// A change of a job: what is not named stays as it is.
    modify: bool,
    set: Map<String, Json>,
}

/// The fields that a script has set.
///
/// # Errors
/// Something that Cosy cannot do, in a sentence for the user.
pub fn fields(
    before: &Description,
    after: &Description,
    modify: bool,
) -> Result<Map<String, Json>, String> {
    let mut change = Change {
        before,
        after,
        modify,
        set: Map::new(),
    };
    for name in after.changed_since(before) {
        change.one(&name)?;
    }
    Ok(change.set)
}

impl Change<'_> {
    fn one(&mut self, name: &str) -> Result<(), String> {
        let text = self.after.text(name).map(str::to_owned);
        let number = self.after.number(name);
        if let Some((_, field)) = TEXTS.iter().find(|(own, _)| *own == name) {
            if !field.is_empty() {
                self.put(field, json!(text.unwrap_or_default()));
            }
            return Ok(());
        }
        if let Some((_, field)) = FILES.iter().find(|(own, _)| *own == name) {
            self.put(field, json!(text));
            return Ok(());
        }
        if let Some((_, field, none)) = NUMBERS.iter().find(|(own, ..)| *own == name) {
            let value = number.filter(|n| n != none);
            // Of a change it asks for nothing.
            if value.is_some() || !self.modify {
                self.put(field, json!(value));
            }
            return Ok(());
        }
        match name {
            "partition" => self.partition(text.as_deref()),
            "reservation" => return self.reservation(text.as_deref()),
            "features" => return self.features(text.as_deref().unwrap_or_default()),
            "exc_nodes" => return self.nodes("avoid_nodes", text.as_deref()),
            "req_nodes" => return self.nodes("require_nodes", text.as_deref()),
            "licenses" => return self.licenses(text.as_deref()),
            "tres_per_node" => return self.resources(text.as_deref().unwrap_or_default()),
            "tres_per_job" | "tres_per_socket" | "tres_per_task" => {
                return self.gpus_of(name, text.as_deref().unwrap_or_default());
            }
            "time_limit" | "time_min" => self.time(name, number),
            "min_nodes" | "max_nodes" => self.node_counts(),
            "min_mem_per_node" | "min_mem_per_cpu" => self.memory(),
            "nice" | "site_factor" => {
                if let Some(odd @ Slot::Float(_)) = self.after.get(name) {
                    return Err(not_here(name, Some(odd)));
                }
                let points = number.filter(|points| *points != NO_VAL);
                let points = points.map_or(0, |points| points.saturating_sub(NICE_OFFSET));
                self.put(name, json!(points));
            }
            "priority" => self.priority(number.unwrap_or(NO_VAL)),
            "requeue" => self.put("requeue", json!(number == Some(1))),
            "shared" => return self.shared(number.unwrap_or(NO_VAL16)),
            "mail_type" => return self.mail(number.unwrap_or(0)),
            other => return Err(not_here(other, self.after.get(other))),
        }
        Ok(())
    }

    fn put(&mut self, field: &str, value: Json) {
        self.set.insert(field.to_owned(), value);
    }

    fn partition(&mut self, text: Option<&str>) {
        match text {
            None => self.put("queue", Json::Null),
            Some(list) if list.contains(',') => {
                let all: Vec<&str> = list.split(',').filter(|name| !name.is_empty()).collect();
                self.put("queues", json!(all));
            }
            Some(name) => self.put("queue", json!(name)),
        }
    }

    fn reservation(&mut self, text: Option<&str>) -> Result<(), String> {
        let number = match text {
            None => Json::Null,
            Some(text) => match text.parse::<u32>() {
                Ok(number) => json!(number),
                Err(_) => {
                    return Err(format!(
                        "job_desc.reservation is set to '{text}': a script names reservations by number here"
                    ));
                }
            },
        };
        self.put("reservation", number);
        Ok(())
    }

    fn features(&mut self, text: &str) -> Result<(), String> {
        let refuse =
            || format!("job_desc.features is set to '{text}', which is no constraint here");
        let read = match text.is_empty() {
            true => constraint::Features::default(),
            false => constraint::read(text).map_err(|_| refuse())?,
        };
        if !read.counted.is_empty() {
            return Err(refuse());
        }
        let joined = |groups: &[Vec<String>]| -> Vec<String> {
            groups.iter().map(|group| group.join("&")).collect()
        };
        self.put("features", json!(read.all));
        self.put("any_features", json!(joined(&read.any)));
        self.put("same_features", json!(joined(&read.same)));
        Ok(())
    }

    fn nodes(&mut self, field: &str, list: Option<&str>) -> Result<(), String> {
        let refuse = |why: cosy_model::HostListError| format!("the site's script: {why}");
        let all = list.map(cosy_model::expand).transpose().map_err(refuse)?;
        self.put(field, json!(all.unwrap_or_default()));
        Ok(())
    }

    fn licenses(&mut self, text: Option<&str>) -> Result<(), String> {
        let refuse =
            |_| format!("job_desc.licenses is set to '{}', which are none", text.unwrap_or(""));
        let all = text.map(gres::licenses).transpose().map_err(refuse)?;
        self.put("licenses", json!(entries(&all.unwrap_or_default())));
        Ok(())
    }

    /// Resources of each node: GPUs by type, or of any, and everything else.
    fn resources(&mut self, text: &str) -> Result<(), String> {
        let refuse = || format!("job_desc.tres_per_node is set to '{text}', which is no gres here");
        let read = Amounts::read(text).map_err(|_| refuse())?;
        let typed: u32 = read
            .gpu_types
            .iter()
            .map(|(_, n)| n)
            .fold(0, u32::saturating_add);
        if typed > 0 && typed != read.gpus {
            return Err(format!(
                "job_desc.tres_per_node is set to '{text}': GPUs with and without a type cannot be mixed"
            ));
        }
        if !self.modify {
            self.put("gpu_types", json!(entries(&read.gpu_types)));
        } else if typed > 0 {
            return Err(
                "a change of a job cannot set the type of its GPUs: submit another job".to_owned()
            );
        }
        self.put("gpus_per_node", json!(read.gpus));
        self.put("resources", json!(entries(&read.other)));
        Ok(())
    }

    /// GPUs of the whole job, or of each task: the same on each node.
    fn gpus_of(&mut self, name: &str, text: &str) -> Result<(), String> {
        let of_nodes = self.after.text("tres_per_node").unwrap_or_default();
        if text.is_empty() {
            // What is left is what nodes have.
            return self.resources(of_nodes);
        }
        let refuse = |why: &str| Err(format!("job_desc.{name} is set to '{text}': {why}"));
        let Ok(read) = Amounts::read(text) else {
            return refuse("that is no gres here");
        };
        let typed = read.gpu_types.iter().map(|(_, n)| n);
        let mixed = ![0, read.gpus].contains(&typed.fold(0, u32::saturating_add));
        let given = |name| {
            let number = self.after.number(name);
            let number = number.filter(|n| ![NO_VAL, NO_VAL16].contains(n));
            number
                .and_then(|n| u32::try_from(n).ok())
                .filter(|n| *n > 0)
        };
        let (nodes, tasks) = (given("min_nodes").unwrap_or(1), given("num_tasks"));
        let on_each = given("ntasks_per_node").or(tasks.map(|tasks| tasks.div_ceil(nodes)));
        let each = match name {
            "tres_per_job" if read.is_divisible(nodes) => Some(read.divided(nodes)),
            "tres_per_task" => on_each.map(|tasks| read.times(tasks)),
            _ => None,
        };
        let Some(each) = each.filter(|_| !mixed && read.other.is_empty() && !self.modify) else {
            return refuse("set job_desc.tres_per_node instead, which says what each node has");
        };
        self.put("nodes", json!(nodes));
        if name == "tres_per_task" {
            self.put("tasks_per_node", json!(on_each));
        }
        self.put("gpu_types", json!(entries(&each.gpu_types)));
        self.put("gpus_per_node", json!(each.gpus));
        Ok(())
    }

    fn time(&mut self, field: &str, minutes: Option<i64>) {
        match minutes.unwrap_or(NO_VAL) {
            NO_VAL if self.modify => {}
            NO_VAL => self.put(field, Json::Null),
            INFINITE => self.put(field, json!("unlimited")),
            minutes => self.put(field, json!(minutes.saturating_mul(60))),
        }
    }

    fn node_counts(&mut self) {
        let given = |name| self.after.number(name).filter(|n| *n != NO_VAL);
        let (least, most) = (given("min_nodes"), given("max_nodes"));
        let nodes = least.or(most.map(|_| 1));
        let most = most.filter(|most| nodes.is_some_and(|least| *most > least));
        if nodes.is_some() || !self.modify {
            self.put("nodes", json!(nodes));
        }
        if most.is_some() || !self.modify {
            self.put("max_nodes", json!(most));
        }
    }

    fn memory(&mut self) {
        let (node, core) =
            (self.after.number("min_mem_per_node"), self.after.number("min_mem_per_cpu"));
        match (node, core) {
            (Some(mib), _) => self.put("memory_per_node", json!(mib)),
            (None, Some(mib)) => self.put("memory_per_core", json!(mib)),
            (None, None) if self.modify => {}
            (None, None) => self.put("memory_per_node", Json::Null),
        }
    }

    /// No priority is a job that is held.
    fn priority(&mut self, priority: i64) {
        match priority {
            0 if !self.modify => self.put("hold", json!(true)),
            NO_VAL if self.modify => {}
            NO_VAL => {
                self.put("priority", Json::Null);
                self.put("hold", json!(false));
            }
            priority => self.put("priority", json!(priority)),
        }
        if self.before.number("priority") == Some(0) && priority > 0 && !self.modify {
            self.put("hold", json!(false));
        }
    }

    fn shared(&mut self, shared: i64) -> Result<(), String> {
        let exclusive = match shared {
            SHARED_NONE => true,
            SHARED_OK | NO_VAL16 => false,
            _ => return Err(not_here("shared", Some(Slot::Number(shared)))),
        };
        self.put("exclusive", json!(exclusive));
        Ok(())
    }

    fn mail(&mut self, bits: i64) -> Result<(), String> {
        let known = MAIL.iter().fold(0, |all, (bit, _)| all | bit);
        if bits & !known != 0 {
            return Err(not_here("mail_type", Some(Slot::Number(bits))));
        }
        let asked = MAIL.iter().filter(|(bit, _)| bits & bit != 0);
        let words: Vec<&str> = asked.map(|(_, word)| *word).collect();
        self.put("mail_types", json!(words));
        Ok(())
    }
}

fn entries(all: &CountedResources) -> Vec<String> {
    let counted = all.iter().filter(|(_, count)| *count > 0);
    counted
        .map(|(name, count)| format!("{name}:{count}"))
        .collect()
}

/// What is said of a name that Slurm has and Cosy does not.
fn not_here(name: &str, slot: Option<Slot>) -> String {
    let value = match slot {
        Some(Slot::Text(text)) => format!("'{}'", text.chars().take(60).collect::<String>()),
        Some(Slot::Number(n)) => n.to_string(),
        Some(Slot::Float(n)) => n.to_string(),
        Some(Slot::List(_)) | None => "nothing".to_owned(),
    };
    format!("job_desc.{name} is set to {value}, which Cosy cannot do")
}

#[cfg(test)]
mod tests;
