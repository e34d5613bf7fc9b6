//! `gres.conf`: what the nodes have of devices is told by their daemons here, so each line becomes
//! advice for a `noded.toml`. Source: gres.conf(5).

use super::lines::Line;
use super::reader::Reader;
use super::write::quoted;

/// What a line may say without anything being lost.
const KNOWN: &[&str] = &["nodename", "name", "type", "file", "count"];

impl Reader {
    /// A line of `gres.conf`.
    pub(super) fn gres_line(&mut self, line: &Line) {
        let lost = line.words.iter().filter(|(name, _)| {
            let lower = name.to_ascii_lowercase();
            !KNOWN.contains(&lower.as_str())
        });
        let lost: Vec<String> = lost.map(|(n, v)| format!("{n}={v}")).collect();
        if !lost.is_empty() {
            self.note(line, &format!("{} is not carried over", lost.join(" ")));
        }
        let Some(name) = line.get("Name").filter(|name| !name.is_empty()) else {
            return;
        };
        let nodes = line.get("NodeName").unwrap_or("every node that has it");
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
