//! Writes a foreign workflow as a workflow file.

use super::foreign::{ForeignTask, ForeignWorkflow, KeyValue};
use crate::native::arg::parse_name;
use cosy_model::Span;
use toml_writer::{ToTomlKey as _, ToTomlValue as _, TomlKeyBuilder, TomlStringBuilder};

/// The text of the file.
pub fn toml(foreign: &ForeignWorkflow, from: &str, default_estimate: Span) -> String {
    let from = from.replace(|c: char| c.is_control(), "?");
    let mut text =
        format!("# Made by cosy flow import from {from} ({}).\n[workflow]\n", foreign.format);
    if let Ok(name) = parse_name(&foreign.name) {
        text.push_str(&format!("name = {}\n", quoted(&name)));
    }
    text.push_str(
        "# deadline = \"tomorrow 8:00\", or slack = \"50%\"; else --finish-by, --slack\n",
    );
    for task in &foreign.tasks {
        text.push('\n');
        text.push_str(&one(task, default_estimate));
    }
    text
}

fn one(task: &ForeignTask, default_estimate: Span) -> String {
    let command: Vec<String> = task.command.iter().map(|w| quoted(w)).collect();
    let mut text = format!(
        "[tasks.{}]\ncommand = [{}]\nestimate = \"{}\"\n",
        key(&task.name),
        command.join(", "),
        estimate(task.estimate.unwrap_or(default_estimate))
    );
    for (name, value) in &task.keys {
        let value = match value {
            KeyValue::Number(n) => n.to_string(),
            KeyValue::Text(words) => quoted(words),
        };
        text.push_str(&format!("{name} = {value}\n"));
    }
    if !task.parents.is_empty() {
        let parents: Vec<String> = task.parents.iter().map(|p| parent(task, p)).collect();
        text.push_str(&format!("after = [{}]\n", parents.join(", ")));
    }
    text
}

fn parent(task: &ForeignTask, name: &str) -> String {
    match task.data_bytes.get(name) {
        Some(bytes) if *bytes > 0 => {
            format!("{{ task = {}, data = {bytes} }}", quoted(name))
        }
        _ => quoted(name),
    }
}

/// A run time in minutes where they give it exactly, else in seconds.
fn estimate(span: Span) -> String {
    let ms = span.ms();
    match (ms % 60_000, ms % 1000) {
        (0, _) => format!("{}m", ms / 60_000),
        (_, 0) => format!("{}s", ms / 1000),
        _ => format!("{}.{:03}s", ms / 1000, ms % 1000),
    }
}

fn quoted(text: &str) -> String {
    TomlStringBuilder::new(text).as_default().to_toml_value()
}

/// A name as the key of a table.
fn key(name: &str) -> String {
    let key = TomlKeyBuilder::new(name);
    key.as_unquoted()
        .unwrap_or_else(|| key.as_basic())
        .to_toml_key()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(key(""), "\"\"");
        assert_eq!(key("a'\"b"), "\"a'\\\"b\"");
        assert_eq!(key("a-b_1"), "a-b_1");
        assert_eq!(key("a.b"), "\"a.b\"");
        assert_eq!(estimate(Span(3_600_000)), "60m");
        assert_eq!(estimate(Span(61_000)), "61s");
        assert_eq!(estimate(Span(61_001)), "61.001s");
        for text in ["it's", "\"q\"", "a\nb", "\\", "\u{7f}", "'''\"\"\""] {
            let read: toml::Table = toml::from_str(&format!("a = {}", quoted(text))).unwrap();
            assert_eq!(read["a"].as_str(), Some(text));
        }
    }
}
