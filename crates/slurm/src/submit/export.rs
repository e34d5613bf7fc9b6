//! `--export` and `--propagate`: what of the submitting process a job takes along.
//! Source: sbatch(1), srun(1), captures.

use super::{Fault, Line};

/// Which variables a job gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// All of the environment.
    pub all: bool,
    /// Those of these names.
    pub keep: Vec<String>,
    /// With these values, whatever the environment has.
    pub set: Vec<(String, String)>,
    /// The text that asked for it.
    pub text: String,
}

impl Default for Export {
    fn default() -> Self {
        Self {
            all: true,
            keep: Vec::new(),
            set: Vec::new(),
            text: "ALL".to_owned(),
        }
    }
}

impl Export {
    /// Reads `ALL`, `NONE`, `NIL`, `A,B`, `ALL,A=1`, `NONE,A=1`. A list that begins with
    /// neither `ALL` nor `NONE` takes only what it names. Values may stand in quotes.
    pub fn read(text: &str) -> Self {
        let mut export = Self {
            all: false,
            text: text.to_owned(),
            ..Self::default()
        };
        for item in split(text) {
            match (item.as_str(), item.split_once('=')) {
                ("", _) => {}
                ("ALL", _) => export.all = true,
                ("NONE" | "NIL", _) => export.all = false,
                (_, Some((name, value))) => {
                    if !name.is_empty() {
                        export
                            .set
                            .push((name.to_owned(), unquoted(value).to_owned()));
                    }
                }
                (name, None) => export.keep.push(name.to_owned()),
            }
        }
        export
    }

    /// Whether the variable `name` of the environment goes along.
    pub fn takes(&self, name: &str) -> bool {
        (self.all || self.keep.iter().any(|k| k == name) || name.starts_with("SLURM_"))
            && !self.set.iter().any(|(k, _)| k == name)
    }
}

/// The items of a list; commas in quotes belong to the value.
fn split(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match quote {
            None if c == ',' => {
                items.push(String::new());
                continue;
            }
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(q) if q == c => quote = None,
            None | Some(_) => {}
        }
        if let Some(last) = items.last_mut() {
            last.push(c);
        }
    }
    items
}

fn unquoted(value: &str) -> &str {
    for quote in ['\'', '"'] {
        let inner = value
            .strip_prefix(quote)
            .and_then(|v| v.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    value
}

/// The resource limits that `--propagate` may name.
const LIMITS: [&str; 10] = [
    "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK",
];

/// Which resource limits a job takes along.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Propagate {
    /// All limits of the submitting process.
    #[default]
    All,
    /// None of the limits.
    None,
    /// The limits of these names, without `RLIMIT_`.
    Some(Vec<String>),
}

impl Propagate {
    /// Reads `ALL`, `NONE`, `CORE,NOFILE`; nothing at all is `ALL`.
    ///
    /// # Errors
    /// `Bad rlimit name: X`.
    pub fn read(text: Option<&str>) -> Result<Self, Fault> {
        let Some(text) = text else {
            return Ok(Self::All);
        };
        let mut names = Vec::new();
        for word in text.split(',').filter(|w| !w.is_empty()) {
            let upper = word.to_ascii_uppercase();
            let name = upper.strip_prefix("RLIMIT_").unwrap_or(&upper);
            match name {
                "ALL" => return Ok(Self::All),
                "NONE" => return Ok(Self::None),
                _ if LIMITS.contains(&name) => names.push(name.to_owned()),
                _ => return Err(bad_limit(word, text)),
            }
        }
        Ok(Self::Some(names))
    }

    /// Whether the limit of that name goes along. Limits that the option cannot name go
    /// along with all others.
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Some(names) => names.iter().any(|n| n == name),
        }
    }
}

fn bad_limit(word: &str, text: &str) -> Fault {
    let cut = |t: &str| t.chars().take(200).collect::<String>();
    Fault {
        lines: vec![
            Line::Error(format!("Bad rlimit name: {}", cut(word))),
            Line::Error(format!("--propagate={} is not valid.", cut(text))),
        ],
        code: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exports() {
        let present = ["A", "B", "SLURM_X"];
        let check = |text: &str, want: &str| {
            let export = Export::read(text);
            let kept = present.iter().filter(|n| export.takes(n));
            let kept = kept.map(|n| (*n).to_owned());
            let set = export.set.iter().map(|(n, v)| format!("{n}={v}"));
            let all: Vec<String> = kept.chain(set).collect();
            assert_eq!(all.join(" "), want, "{text}");
        };
        check("ALL", "A B SLURM_X");
        check("NONE", "SLURM_X");
        check("NIL", "SLURM_X");
        check("A", "A SLURM_X");
        check("A,C=1", "A SLURM_X C=1");
        check("ALL,B=2", "A SLURM_X B=2");
        check("NONE,B=2", "SLURM_X B=2");
        check("ALL,B='2,3',C=x=y", "A SLURM_X B=2,3 C=x=y");
        check(",", "SLURM_X");
        check("=1", "SLURM_X");
    }

    #[test]
    fn limits() {
        let check = |text: Option<&str>, name: &str, want: bool| {
            assert_eq!(Propagate::read(text).unwrap().takes(name), want, "{text:?}");
        };
        check(None, "CORE", true);
        check(Some("NONE"), "CORE", false);
        check(Some("core,RLIMIT_AS"), "AS", true);
        check(Some("core"), "AS", false);
        let text = Propagate::read(Some("FOO"))
            .unwrap_err()
            .text(Program::Sbatch);
        assert_eq!(
            text,
            "sbatch: error: Bad rlimit name: FOO\nsbatch: error: --propagate=FOO is not valid.\n"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in ".{0,60}") {
            let export = Export::read(&text);
            prop_assert!(export.set.iter().all(|(n, _)| !n.is_empty()));
        }
    }
}
