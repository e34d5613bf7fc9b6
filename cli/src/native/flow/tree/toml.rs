//! Reads TOML into a tree, with the line of each key and value.

use super::{Entry, Node, ParseError, Value, clean};
use toml::de::{DeTable, DeValue};

/// Offsets of the line breaks, by which an offset in the text becomes a line number.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        Self(breaks.map(|(at, _)| at).collect())
    }

    fn line(&self, at: usize) -> u32 {
        let before = self.0.partition_point(|b| *b < at);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}

/// The tree of a TOML file.
///
/// # Errors
/// The text is no TOML.
pub fn read(text: &str) -> Result<Node, ParseError> {
    let lines = Lines::of(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(Node::new(1, of_table(table.get_ref(), &lines)?)),
        Err(e) => {
            let line = e.span().map_or(0, |span| lines.line(span.start));
            let message = e.message().split_whitespace().collect::<Vec<_>>();
            Err(ParseError::new(line, format!("no TOML: {}", message.join(" "))))
        }
    }
}

/// In the order of the file, which the parser does not keep.
fn of_table(table: &DeTable<'_>, lines: &Lines) -> Result<Value, ParseError> {
    let mut parts: Vec<_> = table.iter().collect();
    parts.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key: &toml::Spanned<std::borrow::Cow<'_, str>> = key;
        let line = lines.line(key.span().start);
        clean(line, key.get_ref())?;
        Ok(Entry {
            key: key.get_ref().to_string(),
            line,
            node: of_value(value, lines)?,
        })
    };
    parts
        .into_iter()
        .map(entry)
        .collect::<Result<_, _>>()
        .map(Value::Table)
}

fn of_value(value: &toml::Spanned<DeValue<'_>>, lines: &Lines) -> Result<Node, ParseError> {
    let line = lines.line(value.span().start);
    let value = match value.get_ref() {
        DeValue::String(text) => clean(line, text)?,
        DeValue::Integer(n) => {
            let parsed = i64::from_str_radix(n.as_str(), n.radix());
            Value::Integer(parsed.map_err(|_| too_large(line, n.as_str()))?)
        }
        DeValue::Float(n) => {
            let parsed: Option<f64> = n.as_str().parse().ok();
            Value::Float(parsed.ok_or_else(|| too_large(line, n.as_str()))?)
        }
        DeValue::Boolean(b) => Value::Bool(*b),
        // Points in time are read where the user's zone is known.
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(list) => {
            let all = list.iter().map(|v| of_value(v, lines));
            Value::List(all.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => of_table(table, lines)?,
    };
    Ok(Node::new(line, value))
}

fn too_large(line: u32, text: &str) -> ParseError {
    let shown: String = text.chars().take(40).collect();
    ParseError::new(line, format!("'{shown}' is no number that can be used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_order() {
        let text = "\n[workflow]\nname = \"w\"\n\n[tasks.z]\nafter = [\n  \"b\",\n  \"c\"]\n[tasks.a]\nwhen = 2026-11-22T10:00:00Z\n";
        let node = read(text).unwrap();
        let tasks = node.get("tasks").unwrap().table("tasks").unwrap();
        let names: Vec<_> = tasks.iter().map(|e| (&*e.key, e.line)).collect();
        assert_eq!(names, [("z", 5), ("a", 9)]);
        let lines: Vec<_> = tasks[0]
            .node
            .items("after")
            .iter()
            .map(|n| n.line)
            .collect();
        assert_eq!(lines, [7, 8]);
        let when = tasks[1].node.word_of("when");
        assert_eq!(when.as_deref(), Some("2026-11-22T10:00:00Z"));
    }

    #[test]
    fn nonsense() {
        let check = |text: &str, line: u32, want: &str| {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(want), "{text}: {error}");
            assert!(!error.message.contains('\n'));
        };
        check("a = 1\nb = [", 2, "");
        check("a = 1\na = 2\n", 2, "duplicate");
        check("[t]\n\n[t]\n", 3, "duplicate");
        check("\na = 99999999999999999999\n", 2, "");
        check("a = \"\\u0000\"\n", 1, "NUL");
        check(&format!("a = {}", "[".repeat(100_000)), 1, "");
    }
}
