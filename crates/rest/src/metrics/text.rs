//! Metrics as text: Prometheus' format 0.0.4. Source: the text exposition format of Prometheus.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The type of the answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A text under way. A family stands in it once, whoever tells it first: names of several exporters
/// overlap, and agree where they do.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
    names: BTreeSet<String>,
}

impl Text {
    /// A family of one value without labels that may go up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Into<Value>) {
        self.family(name, help, "gauge", |samples| samples.add(&[], value));
    }

    /// A family of values that differ in one label.
    pub fn gauges<L: AsRef<str>, V: Into<Value>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, help, "gauge", |samples| {
            for (text, value) in values {
                samples.add(&[(label, text.as_ref())], value);
            }
        });
    }

    /// A family of any kind: `gauge`, `counter`, `histogram`.
    pub fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        fill: impl FnOnce(&mut Samples<'_>),
    ) {
        if !self.names.insert(name.to_owned()) {
            return;
        }
        let begin = self.out.len();
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let head = self.out.len();
        fill(&mut Samples {
            out: &mut self.out,
            name,
        });
        // A family without values is none.
        if self.out.len() == head {
            self.out.truncate(begin);
        }
    }

    /// The whole text.
    pub fn done(self) -> String {
        self.out
    }
}

/// The values of a family.
#[derive(Debug)]
pub struct Samples<'t> {
    out: &'t mut String,
    name: &'t str,
}

impl Samples<'_> {
    /// A value with its labels.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        self.named("", labels, value);
    }

    /// A value of the part of a histogram: `_bucket`, `_sum`, `_count`.
    pub fn named(&mut self, part: &str, labels: &[(&str, &str)], value: impl Into<Value>) {
        self.out.push_str(self.name);
        self.out.push_str(part);
        for (at, (name, text)) in labels.iter().enumerate() {
            self.out.push(if at == 0 { '{' } else { ',' });
            self.out.push_str(name);
            self.out.push_str("=\"");
            escaped(self.out, text);
            self.out.push('"');
        }
        let value: Value = value.into();
        let brace = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{brace} {}", value.0);
    }
}

fn escaped(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            // Other signs that end lines for some readers mean nothing in a name.
            other if other.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
}

/// A value of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Value(f64);

macro_rules! values {
    ($($from:ty)*) => {
        $(impl From<$from> for Value {
            fn from(n: $from) -> Self {
                Self(n as f64)
            }
        })*
    };
}

values! { u32 u64 usize i64 f64 }

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self(f64::from(u8::from(flag)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let mut text = Text::default();
        text.gauge("a", "One.", 5u32);
        text.gauge("a", "Twice.", 6u32);
        text.gauges("b", "Several.", "x", [("q\"\\\n\r", 1.5), ("é", 0.0)]);
        text.gauges("c", "None.", "x", Vec::<(&str, u32)>::new());
        text.family("d", "Parts.", "histogram", |samples| {
            samples.named("_bucket", &[("k", "v"), ("le", "+Inf")], 3u64);
        });
        let want = "# HELP a One.\n# TYPE a gauge\na 5\n# HELP b Several.\n# TYPE b gauge\n\
                    b{x=\"q\\\"\\\\\\n?\"} 1.5\nb{x=\"é\"} 0\n# HELP d Parts.\n# TYPE d histogram\n\
                    d_bucket{k=\"v\",le=\"+Inf\"} 3\n";
        assert_eq!(text.done(), want);
    }
}
