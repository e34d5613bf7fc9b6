//! `--constraint`: features that nodes must have. Source: sbatch(1), captures.
//!
//! An expression becomes four lists: features of all nodes; groups of which each node
//! has one whole; groups of which all nodes have the same one (`[rack1|rack2]`); numbers of
//! nodes, each with groups of which a node has one whole (`[rack1*2&rack2*4]`). Without
//! brackets what is counted is one kind of nodes, which have all of it.

use super::Fault;
use crate::sentences::NO_PREFERENCE;
use cosy_model::job::CountedFeatures;
use cosy_model::limits::{COMMENT_BYTES, COUNTED_FEATURES, NAME_BYTES};

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
    /// So many nodes of each kind.
    pub counted: Vec<CountedFeatures>,
}

/// Reads `a&b`, `a|b`, `(a&b)|c`, `[a|b]`, `a&[b|c]`, `a*2`, `[(a|b)*2&c*1]`.
///
/// # Errors
/// [`INVALID`].
pub fn read(text: &str) -> Result<Features, Fault> {
    let refuse = || Fault::refusal(INVALID);
    if text.len() > COMMENT_BYTES {
        return Err(refuse());
    }
    let mut parser = Parser {
        rest: text,
        same: Vec::new(),
        counted: Vec::new(),
        inside: false,
        closed: false,
    };
    let groups = parser.either(0).filter(|_| parser.rest.is_empty());
    let mut groups = groups.ok_or_else(refuse)?;
    let mut features = Features {
        same: parser.same,
        counted: parser.counted,
        ..Features::default()
    };
    if groups.len() == 1 {
        features.all = groups.pop().unwrap_or_default();
    } else {
        features.any = groups;
    }
    Ok(features)
}

/// Reads what `--prefer` has: `a&b`, `a|b`, groups of which a node has one whole. Numbers of
/// nodes, and the same group for all nodes, would be no preference.
///
/// # Errors
/// [`NO_PREFERENCE`].
pub fn preferred(text: &str) -> Result<Vec<Vec<String>>, Fault> {
    let refuse = || Fault::refusal(NO_PREFERENCE);
    let read = read(text).map_err(|_| refuse())?;
    if !read.same.is_empty() || !read.counted.is_empty() {
        return Err(refuse());
    }
    Ok(match read.all.is_empty() {
        true => read.any,
        false => vec![read.all],
    })
}

/// A disjunction of conjunctions.
type Groups = Vec<Vec<String>>;

struct Parser<'a> {
    rest: &'a str,
    same: Groups,
    counted: Vec<CountedFeatures>,
    /// What is read stands within `[...]`.
    inside: bool,
    /// What is read stands behind a `[...]`.
    closed: bool,
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

    /// Alternatives, each a sum: `BOTH|BOTH|...`.
    fn either(&mut self, depth: usize) -> Option<Groups> {
        if depth > DEEPEST {
            return None;
        }
        let mut groups = self.both(depth)?;
        while self.take('|') {
            // `[...]` and numbers as one of several choices would be another question.
            if !self.same.is_empty() || !self.counted.is_empty() {
                return None;
            }
            groups.extend(self.both(depth)?);
            if groups.len() > GROUPS || !self.same.is_empty() || !self.counted.is_empty() {
                return None;
            }
        }
        Some(groups)
    }

    /// `ONE&ONE&...`; a comma is the same.
    fn both(&mut self, depth: usize) -> Option<Groups> {
        let mut groups = self.term(depth)?;
        while self.take('&') || self.take(',') {
            groups = product(&groups, &self.term(depth)?)?;
        }
        Some(groups)
    }

    /// `ONE` or `ONE*NUMBER`.
    fn term(&mut self, depth: usize) -> Option<Groups> {
        let bracket = self.rest.starts_with('[');
        let groups = self.one(depth)?;
        if !self.take('*') {
            return Some(groups);
        }
        if bracket || self.closed || depth != usize::from(self.inside) {
            return None;
        }
        let nodes = self.number()?;
        match self.counted.last_mut().filter(|_| !self.inside) {
            Some(other) => {
                other.any = product(&other.any, &groups)?;
                other.nodes = other.nodes.max(nodes);
            }
            None => self.counted.push(CountedFeatures { any: groups, nodes }),
        }
        (self.counted.len() <= COUNTED_FEATURES).then(|| vec![Vec::new()])
    }

    fn number(&mut self) -> Option<u32> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok().filter(|n| *n > 0)
    }

    fn one(&mut self, depth: usize) -> Option<Groups> {
        if self.take('(') {
            let groups = self.either(depth + 1)?;
            return self.take(')').then_some(groups);
        }
        if self.take('[') {
            if depth > 0 || self.closed || !self.counted.is_empty() {
                return None;
            }
            self.inside = true;
            let same = self.either(depth + 1)?;
            (self.inside, self.closed) = (false, true);
            // Beside numbers nothing else is in brackets.
            match self.counted.is_empty() {
                true => self.same = same,
                false if same.concat().is_empty() => {}
                false => return None,
            }
            return self.take(']').then(|| vec![Vec::new()]);
        }
        Some(vec![vec![self.name()?]])
    }

    fn name(&mut self) -> Option<String> {
        let end = self
            .rest
            .find(|c: char| "()[]&|,*".contains(c) || c.is_whitespace());
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
            let got = read(text).ok().map(|f| {
                let counted = f.counted.iter();
                let counted = counted.map(|c| format!(";{}*{}", groups(&c.any), c.nodes));
                let counted: String = counted.collect();
                let (any, same) = (groups(&f.any), groups(&f.same));
                format!("{};{any};{same}{counted}", f.all.join("&"))
            });
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
        check("[a*2&b*2]", Some(";;;a*2;b*2"));
        check("[(a|b)*1&(c)*2]", Some(";;;a|b*1;c*2"));
        check("x&[a*2&b*2]", Some("x;;;a*2;b*2"));
        check("a*3", Some(";;;a*3"));
        check("(a&b)*1", Some(";;;a&b*1"));
        check("x&a*2&b*1", Some("x;;;a&b*2"));
        for text in [
            "a*0",
            "a*",
            "a*x",
            "a*-1",
            "a*99999999999",
            "[a*1|b*1]",
            "[a*1|b]",
            "[a*1&b]",
            "[a|b]*2",
            "(a*2)",
            "a|b*2",
            "a*2|b",
            "a*2&[b*1]",
            "[a*1&b*1]&c*2",
            "*2",
            &format!("[{}]", ["a*1"; 9].join("&")),
        ] {
            check(text, None);
        }
        check(&"(".repeat(100), None);
        check(&"(a|b)&".repeat(10), None);
    }

    #[test]
    fn preferences() {
        let check = |text: &str, want: Option<&[&[&str]]>| {
            let got = preferred(text).ok();
            let want: Option<Vec<Vec<&str>>> =
                want.map(|groups| groups.iter().map(|g| g.to_vec()).collect());
            let got: Option<Vec<Vec<&str>>> = got.as_ref().map(|groups| {
                let words = groups
                    .iter()
                    .map(|g| g.iter().map(String::as_str).collect());
                words.collect()
            });
            assert_eq!(got, want, "{text}");
        };
        check("a", Some(&[&["a"]]));
        check("a&b", Some(&[&["a", "b"]]));
        check("a|b&c", Some(&[&["a"], &["b", "c"]]));
        check("a*2", None);
        check("[a|b]", None);
        check("a&", None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "[ab1()&|,\\[\\]* ]{0,40}") {
            if let Ok(f) = read(&text) {
                prop_assert!(f.any.len() <= GROUPS && f.same.len() <= GROUPS);
            }
        }
    }
}
