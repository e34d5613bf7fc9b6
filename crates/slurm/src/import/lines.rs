//! The lines of a `slurm.conf`: comments, continued lines, `Name=value` words. Source:
//! slurm.conf(5).

/// Longest file that is read, in bytes.
pub const FILE_BYTES: usize = 16 << 20;

/// The words of one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Names and values in their order; quotes taken off.
    pub words: Vec<(String, String)>,
}

impl Line {
    /// The value of the first word with that name, in letters of any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let is = |(n, _): &&(String, String)| n.eq_ignore_ascii_case(name);
        self.words.iter().find(is).map(|(_, v)| v.as_str())
    }

    /// True when it begins with that word.
    pub fn begins(&self, name: &str) -> bool {
        let first = self.words.first();
        first.is_some_and(|(n, _)| n.eq_ignore_ascii_case(name))
    }
}

/// All lines that say something; a line ending with `\` goes on in the next.
pub fn read(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let (mut whole, mut first) = (String::new(), 0);
    for (at, line) in text.lines().enumerate() {
        if whole.is_empty() {
            first = at + 1;
        }
        let line = without_comment(line);
        match line.trim_end().strip_suffix('\\') {
            Some(part) => {
                whole.push_str(part);
                whole.push(' ');
                continue;
            }
            None => whole.push_str(&line),
        }
        let words = words(&whole);
        if !words.is_empty() {
            let number = first;
            lines.push(Line { number, words });
        }
        whole.clear();
    }
    let words = words(&whole);
    if !words.is_empty() {
        let number = first;
        lines.push(Line { number, words });
    }
    lines
}

/// `\#` stands for a `#` that begins no comment.
fn without_comment(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'#') => {
                out.push('#');
                chars.next();
            }
            '#' => break,
            c => out.push(c),
        }
    }
    out
}

fn words(line: &str) -> Vec<(String, String)> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    let (name, value) = word.split_once('=').unwrap_or((word.as_str(), ""));
                    words.push((name.to_owned(), value.to_owned()));
                    word.clear();
                }
            }
            c => word.push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines() {
        let text = "# head\nClusterName=a # b\n\nNodeName=n[1-2] CPUs=4 \\\n  Feature=\"a,b c\" X=\\#1\ninclude /x/y\n";
        let all = read(text);
        let shown: Vec<String> = all
            .iter()
            .map(|l| format!("{}:{:?}", l.number, l.words))
            .collect();
        assert_eq!(
            shown,
            [
                r#"2:[("ClusterName", "a")]"#,
                r##"4:[("NodeName", "n[1-2]"), ("CPUs", "4"), ("Feature", "a,b c"), ("X", "#1")]"##,
                r#"6:[("include", ""), ("/x/y", "")]"#,
            ]
        );
        assert_eq!(all[1].get("cpus"), Some("4"));
        assert!(all[1].begins("nodename"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "[a-zA-Z=\"\\\\# \n]{0,80}") {
            prop_assert!(read(&text).iter().all(|l| !l.words.is_empty()));
        }
    }
}
