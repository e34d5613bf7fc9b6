//! The contents of a file as a tree in which each value has its line; the same tree from TOML, JSON
//! and YAML.
//!
//! It knows nothing of workflows. Always holds: no table has the same key twice, no text a
//! NUL, and nothing is nested deeper than its reader allows.

pub mod json;
pub mod toml;
pub mod yaml;

use std::fmt;

/// A value and the line on which it begins, from 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The line of the file, from 1.
    pub line: u32,
    /// The value, with its children.
    pub value: Value,
}

/// A value of a file.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A key without a value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Text; in YAML every word and number.
    Text(String),
    /// Values in the order of the file.
    List(Vec<Node>),
    /// Values by name, in the order of the file.
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The key, unique in its table.
    pub key: String,
    /// Line of the key, from 1.
    pub line: u32,
    /// The value of the key.
    pub node: Node,
}

/// An error in a file, with its line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line from 1; 0 when it is about the whole file.
    pub line: u32,
    /// What is wrong, why, and what would work.
    pub message: String,
}

impl ParseError {
    /// An error on this line.
    pub fn new(line: u32, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }

    /// The message with the name of the file: `flow.toml:12: what is wrong`.
    pub fn in_file(&self, file: &str) -> String {
        match self.line {
            0 => format!("{file}: {}", self.message),
            line => format!("{file}:{line}: {}", self.message),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl Node {
    /// A value on a line.
    pub const fn new(line: u32, value: Value) -> Self {
        Self { line, value }
    }

    /// The kind of the value, for messages: `a text`, `a list`.
    pub const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// A number, text or truth value as text; `None` for anything else.
    pub fn word(&self) -> Option<String> {
        match &self.value {
            Value::Bool(b) => Some(b.to_string()),
            Value::Integer(n) => Some(n.to_string()),
            Value::Float(n) => Some(n.to_string()),
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::List(_) | Value::Table(_) => None,
        }
    }

    /// Text; `what` names it in the error.
    ///
    /// # Errors
    /// The value is no text.
    pub fn text(&self, what: &str) -> Result<&str, ParseError> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.type_error(what, "a text")),
        }
    }

    /// A truth value; `what` names it in the error.
    ///
    /// # Errors
    /// The value is no truth value.
    pub fn truth(&self, what: &str) -> Result<bool, ParseError> {
        match self.value {
            Value::Bool(b) => Ok(b),
            _ => Err(self.type_error(what, "true or false")),
        }
    }

    /// The elements of a list.
    ///
    /// # Errors
    /// The value is no list.
    pub fn list(&self, what: &str) -> Result<&[Node], ParseError> {
        match &self.value {
            Value::List(list) => Ok(list),
            _ => Err(self.type_error(what, "a list")),
        }
    }

    /// The entries of a table.
    ///
    /// # Errors
    /// The value is no table.
    pub fn table(&self, what: &str) -> Result<&[Entry], ParseError> {
        match &self.value {
            Value::Table(entries) => Ok(entries),
            _ => Err(self.type_error(what, "a table")),
        }
    }

    /// The value called `key` in a table; `None` when there is none or this is no table.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.node),
            _ => None,
        }
    }

    /// The elements of the list called `key`; none when there is no such list.
    pub fn items(&self, key: &str) -> &[Node] {
        match self.get(key).map(|n| &n.value) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    /// The value of `key` as a word; `None` where it is absent or a list or table.
    pub fn word_of(&self, key: &str) -> Option<String> {
        self.get(key).and_then(Node::word)
    }

    /// The value of `key` as a number, also where it stands as text.
    pub fn number_of(&self, key: &str) -> Option<f64> {
        let number = match &self.get(key)?.value {
            Value::Integer(n) => *n as f64,
            Value::Float(n) => *n,
            Value::Text(text) => text.trim().parse().ok()?,
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Table(_) => return None,
        };
        number.is_finite().then_some(number)
    }

    /// The mistake that `what` is not `expected`.
    pub fn type_error(&self, what: &str, expected: &str) -> ParseError {
        ParseError::new(self.line, format!("{what}: {expected} is needed, not {}", self.kind()))
    }
}

/// A table whose keys must all be known.
pub struct Fields<'a> {
    what: String,
    entries: &'a [Entry],
    taken: Vec<bool>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// For a table that messages call `what`.
    ///
    /// # Errors
    /// The value is no table.
    pub fn new(what: impl Into<String>, node: &'a Node) -> Result<Self, ParseError> {
        let what = what.into();
        let entries = node.table(&what)?;
        Ok(Self {
            taken: vec![false; entries.len()],
            what,
            entries,
            known: Vec::new(),
        })
    }

    /// The value of `key`, which counts as known and read from now on.
    pub fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.push(key);
        let at = self.entries.iter().position(|e| e.key == key)?;
        self.taken[at] = true;
        Some(&self.entries[at].node)
    }

    /// The entries that were not taken.
    pub fn rest(self) -> impl Iterator<Item = &'a Entry> {
        let taken = self.taken;
        let entries = self.entries.iter().enumerate();
        entries.filter_map(move |(at, e)| (!taken[at]).then_some(e))
    }

    /// Checks that all entries were taken.
    ///
    /// # Errors
    /// The first entry that was not taken: its key is unknown.
    pub fn finish(self) -> Result<(), ParseError> {
        let (what, known) = (self.what.clone(), self.known.join(", "));
        match self.rest().next() {
            None => Ok(()),
            Some(e) => Err(ParseError::new(
                e.line,
                format!("{what}: there is no key '{}'; there are {known}", e.key),
            )),
        }
    }
}

/// Adds an entry to a table that is being read.
///
/// # Errors
/// The key is there already.
fn add(
    entries: &mut Vec<Entry>,
    seen: &mut std::collections::BTreeSet<String>,
    entry: Entry,
) -> Result<(), ParseError> {
    if !seen.insert(entry.key.clone()) {
        return Err(ParseError::new(entry.line, format!("the key '{}' is there twice", entry.key)));
    }
    entries.push(entry);
    Ok(())
}

/// Text, when it can be an argument of a program.
///
/// # Errors
/// The text holds a NUL.
fn clean(line: u32, text: &str) -> Result<Value, ParseError> {
    if text.contains('\0') {
        return Err(ParseError::new(line, "a text may not hold a NUL character"));
    }
    Ok(Value::Text(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Node {
        toml::read(text).unwrap()
    }

    #[test]
    fn values() {
        let node = read("a = 'x'\nb = 2\nc = [1.5, true]\n[d]\ne = '7'\n");
        assert_eq!(node.word_of("a").as_deref(), Some("x"));
        assert_eq!(node.number_of("b"), Some(2.0));
        let words: Vec<_> = node.items("c").iter().filter_map(Node::word).collect();
        assert_eq!(words, ["1.5", "true"]);
        let d = node.get("d").unwrap();
        assert_eq!(d.number_of("e"), Some(7.0));
        assert_eq!(d.number_of("f"), None);
        let error = node.get("b").unwrap().text("b").unwrap_err();
        assert_eq!(error.to_string(), "line 2: b: a text is needed, not a number");
        assert_eq!(error.in_file("f"), "f:2: b: a text is needed, not a number");
    }

    #[test]
    fn unknown_keys() {
        let node = read("a = 1\n\nx = 2\n");
        let mut fields = Fields::new("[t]", &node).unwrap();
        assert!(fields.take("a").is_some() && fields.take("b").is_none());
        let error = fields.finish().unwrap_err();
        assert_eq!(error.to_string(), "line 3: [t]: there is no key 'x'; there are a, b");
    }
}
