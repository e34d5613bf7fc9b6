//! Reads JSON. The lines are those that the parser has got to when it comes to a value.

use super::{Entry, Node, ParseError, Value, add, clean};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};

/// Counts the lines of what has been read.
struct LineCounter<'a> {
    rest: &'a [u8],
    line: &'a Cell<u32>,
}

impl Read for LineCounter<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.rest.read(buffer)?;
        let breaks = buffer[..n].iter().filter(|b| **b == b'\n').count();
        let line = self
            .line
            .get()
            .saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        self.line.set(line);
        Ok(n)
    }
}

/// The tree of a JSON file.
///
/// # Errors
/// The text is no JSON.
pub fn read(text: &str) -> Result<Node, ParseError> {
    let line = Cell::new(1);
    let counter = LineCounter {
        rest: text.as_bytes(),
        line: &line,
    };
    let mut parser = serde_json::Deserializer::from_reader(counter);
    let tree = NodeSeed { line: &line }
        .deserialize(&mut parser)
        .and_then(|node| parser.end().map(|()| node));
    tree.map_err(|e| {
        let at = u32::try_from(e.line()).unwrap_or(u32::MAX);
        let text = e.to_string();
        // The place stands at the end of the sentence too.
        let message = text.split(" at line ").next().unwrap_or_default();
        ParseError::new(at, format!("no JSON: {message}"))
    })
}

#[derive(Clone, Copy)]
struct NodeSeed<'a> {
    line: &'a Cell<u32>,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        let line = self.line.get();
        let value = from.deserialize_any(ValueVisitor {
            line: self.line,
            start: line,
        })?;
        Ok(Node::new(line, value))
    }
}

struct ValueVisitor<'a> {
    line: &'a Cell<u32>,
    start: u32,
}

impl<'de> Visitor<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Integer(n))
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Value, E> {
        Ok(i64::try_from(n).map_or(Value::Float(n as f64), Value::Integer))
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<Value, E> {
        Ok(Value::Float(n))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        clean(self.start, text).map_err(|m| E::custom(m.message))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = from.next_element_seed(NodeSeed { line: self.line })? {
            list.push(node);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(key) = from.next_key::<String>()? {
            let line = self.line.get();
            clean(line, &key).map_err(|m| A::Error::custom(m.message))?;
            let node = from.next_value_seed(NodeSeed { line: self.line })?;
            let entry = Entry { key, line, node };
            add(&mut entries, &mut seen, entry).map_err(|m| A::Error::custom(m.message))?;
        }
        Ok(Value::Table(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = "{\n \"a\": 1,\n \"b\": [\n  2,\n\n  \"x\"\n ],\n \"c\": {\"d\":\n 1.5}\n}\n";
        let node = read(text).unwrap();
        let entries = node.table("x").unwrap();
        let lines: Vec<_> = entries.iter().map(|e| (&*e.key, e.line)).collect();
        assert_eq!(lines, [("a", 2), ("b", 3), ("c", 8)]);
        let lines: Vec<_> = node.items("b").iter().map(|n| n.line).collect();
        assert_eq!(lines, [4, 6]);
        assert_eq!(node.get("c").unwrap().number_of("d"), Some(1.5));
    }

    #[test]
    fn nonsense() {
        let check = |text: &str, line: u32, want: &str| {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(want), "{text}: {error}");
            assert!(!error.message.contains('\n'));
        };
        check("{\n\"a\" 1}", 2, "expected `:`");
        check("{} x", 1, "trailing");
        check("{\n\"a\": 1,\n\"a\": 2}", 3, "'a' is there twice");
        check("{\"a\": \"\\u0000\"}", 1, "NUL");
        check(&"[".repeat(100_000), 1, "recursion");
        check("", 1, "EOF");
    }
}
