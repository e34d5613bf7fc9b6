//! `--constraint`: features that nodes must have. Source: sbatch(1), captures.
//!
//! An expression becomes three lists: features of all nodes; groups of which each node
//! has one whole; groups of which all nodes have the same one (`[rack1|rack2]`).

use super::Fault;
use cosy_model::limits::{COMMENT_BYTES, NAME_BYTES};

/// What the original's controller says to any expression that it does not take.
pub const INVALID: &str = "Invalid feature specification";
/// Most groups that an expression may come to.
const GROUPS: usize = 64;
/// Deepest nesting of brackets.
const DEEPEST: usize = 8;

/// What an expression asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// All of these, on each node.
    pub all: Vec<String>,
    /// All of one of these groups, on each node.
    pub any: Vec<Vec<String>>,
    /// All of one of these groups, the same on all nodes.
    pub same: Vec<Vec<String>>,
}

/// Reads `a&b`, `a|b`, `(a&b)|c`, `[a|b]`, `a&[b|c]`. Numbers of nodes by feature
/// (`a*2&b*1`) are refused: one job's nodes are all asked for alike here.
///
/// # Errors
/// [`INVALID`].
pub fn read(text: &str) -> Result<Features, Fault> {
    let refuse = || Fault::refusal(INVALID);
    if text.contains('*') {
        let mut fault = refuse();
        let line = "numbers of nodes by feature ('*') are not available: submit parts of their own";
        fault.lines.insert(0, super::Line::Error(line.to_owned()));
        return Err(fault);
    }
    if text.len() > COMMENT_BYTES {
        return Err(refuse());
    }
    let mut parser = Parser {
        rest: text,
        same: Vec::new(),
    };
    let groups = parser.either(0).filter(|_| parser.rest.is_empty());
    let mut groups = groups.ok_or_else(refuse)?;
    let mut features = Features {
        same: parser.same,
        ..Features::default()
    };
    if groups.len() == 1 {
        features.all = groups.pop().unwrap_or_default();
    } else {
        features.any = groups;
    }
    Ok(features)
}

/// A disjunction of conjunctions.
type Groups = Vec<Vec<String>>;

struct Parser<'a> {
    rest: &'a str,
    same: Groups,
}

impl Parser<'_> {
    fn take(&mut self, mark: char) -> bool {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// `BOTH|BOTH|...`
    fn either(&mut self, depth: usize) -> Option<Groups> {
        if depth > DEEPEST {
            return None;
        }
        let mut groups = self.both(depth)?;
        while self.take('|') {
            // `[...]` as one of several choices would be another question.
            if !self.same.is_empty() {
                return None;
            }
            groups.extend(self.both(depth)?);
            if groups.len() > GROUPS || !self.same.is_empty() {
                return None;
            }
        }
        Some(groups)
    }

    /// `ONE&ONE&...`; a comma is the same.
    fn both(&mut self, depth: usize) -> Option<Groups> {
        let mut groups = self.one(depth)?;
        while self.take('&') || self.take(',') {
            groups = product(&groups, &self.one(depth)?)?;
        }
        Some(groups)
    }

    fn one(&mut self, depth: usize) -> Option<Groups> {
        if self.take('(') {
            let groups = self.either(depth + 1)?;
            return self.take(')').then_some(groups);
        }
        if self.take('[') {
            if depth > 0 || !self.same.is_empty() {
                return None;
            }
            let same = self.either(depth + 1)?;
            self.same = same;
            return self.take(']').then(|| vec![Vec::new()]);
        }
        Some(vec![vec![self.name()?]])
    }

    fn name(&mut self) -> Option<String> {
        let end = self
            .rest
            .find(|c: char| "()[]&|,".contains(c) || c.is_whitespace());
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (1..=NAME_BYTES)
            .contains(&name.len())
            .then(|| name.to_owned())
    }
}

fn product(a: &Groups, b: &Groups) -> Option<Groups> {
    if a.len().checked_mul(b.len())? > GROUPS {
        return None;
    }
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    Some(pairs.map(|(x, y)| [&x[..], &y[..]].concat()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions() {
        let check = |text: &str, want: Option<&str>| {
            let groups = |g: &Groups| {
                let all: Vec<String> = g.iter().map(|f| f.join("&")).collect();
                all.join("|")
            };
            let got = read(text)
                .ok()
                .map(|f| format!("{};{};{}", f.all.join("&"), groups(&f.any), groups(&f.same)));
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("a", Some("a;;"));
        check("a&b", Some("a&b;;"));
        check("a,b", Some("a&b;;"));
        check("a|b", Some(";a|b;"));
        check("(a)&(b)", Some("a&b;;"));
        check("(a|b)&c", Some(";a&c|b&c;"));
        check("a&b|c", Some(";a&b|c;"));
        check("[a|b]", Some(";;a|b"));
        check("x&[a|b&c]", Some("x;;a|b&c"));
        check("[", None);
        check("[a|b", None);
        check("[a]|b", None);
        check("a|[b]", None);
        check("(a", None);
        check("a)", None);
        check("a&", None);
        check("", None);
        check("a b", None);
        check("[a*2&b*2]", None);
        check(&"(".repeat(100), None);
        check(&"(a|b)&".repeat(10), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "[ab()&|,\\[\\]* ]{0,40}") {
            if let Ok(f) = read(&text) {
                prop_assert!(f.any.len() <= GROUPS && f.same.len() <= GROUPS);
            }
        }
    }
}
