//! Values of a body, as Slurm reads them: a number may be a text or `{set, infinite, number}`, a list a
//! text with commas.

use crate::fault::Fault;
use crate::query::short;
use serde_json::Value;

/// Entries of one list, at most.
pub const ENTRIES: usize = 10_000;

/// A value that asks for something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Given {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// As much as there is.
    Infinite,
    /// Yes or no.
    Flag(bool),
    /// Several texts.
    List(Vec<String>),
}

impl Given {
    /// Reads a value; nothing where it asks for nothing: `null`, an empty text or list, a number that
    /// is not set.
    ///
    /// # Errors
    /// Another kind of value, or more than the limits.
    pub fn read(field: &str, value: &Value) -> Result<Option<Self>, Fault> {
        Ok(match value {
            Value::Null => None,
            Value::Bool(flag) => Some(Self::Flag(*flag)),
            Value::Number(n) => Some(Self::Number(whole(field, n)?)),
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(Self::Text(plain(field, text)?)),
            Value::Array(all) if all.is_empty() => None,
            Value::Array(all) => Some(Self::List(list(field, all)?)),
            Value::Object(entries) => {
                let is = |name: &str| entries.get(name) == Some(&Value::Bool(true));
                match entries.get("number") {
                    _ if is("infinite") => Some(Self::Infinite),
                    Some(Value::Number(n)) if entries.get("set") != Some(&Value::Bool(false)) => {
                        Some(Self::Number(whole(field, n)?))
                    }
                    Some(_) | None if entries.contains_key("set") => None,
                    Some(_) | None => {
                        return Err(Fault::value(field, "an object is no value here"));
                    }
                }
            }
        })
    }

    /// As it stands behind the `=` of an option.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(n) => n.to_string(),
            Self::Infinite => "UNLIMITED".to_owned(),
            Self::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Self::List(all) => all.join(","),
        }
    }

    /// Its words.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::List(all) => all.clone(),
            other => other
                .text()
                .split(',')
                .map(|word| word.trim().to_owned())
                .collect(),
        }
    }

    /// A number, which may be a text.
    ///
    /// # Errors
    /// No number.
    pub fn number(&self, field: &str) -> Result<i64, Fault> {
        let bad = || Fault::value(field, format!("\"{}\" is no whole number", short(&self.text())));
        match self {
            Self::Number(n) => Ok(*n),
            // To `scontrol` a sign in front means so much more.
            Self::Text(text) if text.starts_with('+') => Err(bad()),
            Self::Text(text) => text.parse().map_err(|_| bad()),
            Self::Infinite | Self::Flag(_) | Self::List(_) => Err(bad()),
        }
    }

    /// Yes or no, which may be a number or a text.
    ///
    /// # Errors
    /// Neither.
    pub fn flag(&self, field: &str) -> Result<bool, Fault> {
        match (self, self.text().to_ascii_lowercase().as_str()) {
            (Self::Flag(flag), _) => Ok(*flag),
            (_, "1" | "true" | "yes") => Ok(true),
            (_, "0" | "false" | "no") => Ok(false),
            (_, other) => {
                Err(Fault::value(field, format!("\"{}\" is neither true nor false", short(other))))
            }
        }
    }
}

fn whole(field: &str, n: &serde_json::Number) -> Result<i64, Fault> {
    n.as_i64()
        .ok_or_else(|| Fault::value(field, format!("{n} is no whole number that there is")))
}

fn plain(field: &str, text: &str) -> Result<String, Fault> {
    match text.contains('\0') {
        true => Err(Fault::value(field, "there is a NUL in it")),
        false => Ok(text.to_owned()),
    }
}

fn list(field: &str, all: &[Value]) -> Result<Vec<String>, Fault> {
    if all.len() > ENTRIES {
        let why = format!("{} entries; at most {ENTRIES} are taken", all.len());
        return Err(Fault::value(field, why));
    }
    let one = |value: &Value| match value {
        Value::String(text) => plain(field, text),
        Value::Number(n) => Ok(n.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(Fault::value(field, "its entries have to be texts"))
        }
    };
    all.iter().map(one).collect()
}

/// The names of a kind of entry that stands in a body's object.
///
/// # Errors
/// The body is no object, or is none that can be read.
pub fn object(body: &[u8]) -> Result<serde_json::Map<String, Value>, Fault> {
    let read = serde_json::from_slice::<Value>(body);
    match read.map_err(|e| Fault::value("body", e.to_string()))? {
        Value::Object(entries) => Ok(entries),
        _ => Err(Fault::value("body", "the body has to be an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values() {
        let check = |value: Value, want: Option<Given>| {
            assert_eq!(Given::read("f", &value).unwrap(), want, "{value}");
        };
        check(json!(null), None);
        check(json!(""), None);
        check(json!([]), None);
        check(json!({"set": false, "number": 5}), None);
        check(json!({"set": true, "infinite": false, "number": 5}), Some(Given::Number(5)));
        check(json!({"infinite": true, "set": true}), Some(Given::Infinite));
        check(json!({"number": 5}), Some(Given::Number(5)));
        check(json!(["a", 5]), Some(Given::List(vec!["a".into(), "5".into()])));
        for bad in [
            json!(1.5),
            json!({"a": 1}),
            json!([[]]),
            json!("a\u{0}"),
            json!(u64::MAX),
        ] {
            assert!(Given::read("f", &bad).is_err(), "{bad}");
        }
        assert_eq!(Given::Text("12".into()).number("f"), Ok(12));
        assert!(Given::Text("x".into()).number("f").is_err());
        assert_eq!(Given::Number(1).flag("f"), Ok(true));
    }
}
