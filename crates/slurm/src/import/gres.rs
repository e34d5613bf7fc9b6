//! `gres.conf`: what the nodes have of devices is told by their daemons here, so each line becomes
//! advice for a `noded.toml`. Source: gres.conf(5).

use super::lines::Line;
use super::reader::Reader;
use super::write::quoted;

/// What a line may say without anything being lost.
const KNOWN: &[&str] = &["nodename", "name", "type", "file", "count", "autodetect"];

impl Reader {
    /// `AutoDetect`: daemons look for GPUs unless they are told not to.
    fn gpus_found(&mut self, line: &Line) {
        let Some(how) = line.get("AutoDetect").filter(|how| !how.is_empty()) else {
            return;
        };
        let nodes = line.get("NodeName").unwrap_or("all nodes");
        let text = match how.eq_ignore_ascii_case("off") {
            true => {
                format!("AutoDetect=off of {nodes}: write gpu_detect = false into their noded.toml")
            }
            false => format!(
                "AutoDetect={how} of {nodes}: noded finds GPUs by itself, there is nothing to write"
            ),
        };
        self.note(line, &text);
    }

    /// A line of `gres.conf`.
    pub(super) fn gres_line(&mut self, line: &Line) {
        let lost = line.words.iter().filter(|(name, _)| {
            let lower = name.to_ascii_lowercase();
            !KNOWN.contains(&lower.as_str())
        });
        let lost: Vec<String> = lost.map(|(n, v)| format!("{n}={v}")).collect();
        self.gpus_found(line);
        if !lost.is_empty() {
            self.note(line, &format!("{} is not carried over", lost.join(" ")));
        }
        let Some(name) = line.get("Name").filter(|name| !name.is_empty()) else {
            return;
        };
        let nodes = line.get("NodeName").unwrap_or("every node that has it");
        if name == "shard" {
            let text = format!(
                "shards of {nodes}: write how many each GPU has into its [[gpu]] table in noded.toml (shards = 4), or gpu_shards = 4 where GPUs are found by themselves; a GPU with shards is not given out as a whole here"
            );
            return self.note(line, &text);
        }
        let mut keys = Vec::new();
        let mut put = |key: &str, value: Option<&str>| {
            let value = value.filter(|value| !value.is_empty());
            keys.extend(value.map(|value| format!("{key} = {}", quoted(value))));
        };
        let gpu = name == "gpu";
        put(if gpu { "type" } else { "name" }, if gpu { line.get("Type") } else { Some(name) });
        put("file", line.get("File"));
        let count = line
            .get("Count")
            .and_then(|count| count.parse::<u32>().ok());
        if let Some(count) = count.filter(|_| line.get("File").is_none()) {
            keys.push(format!("count = {count}"));
        }
        let table = if gpu { "gpu" } else { "device" };
        if keys.is_empty() {
            return self
                .note(line, &format!("{name} without type, file and number: nothing to write"));
        }
        let text = format!(
            "{name} of {nodes}: write {table} = [{{ {} }}] into their noded.toml",
            keys.join(", ")
        );
        self.note(line, &text);
    }
}
