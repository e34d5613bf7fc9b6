//! The words on `sacctmgr`'s command line: `name=value`, `name+=value`, `name-=value`, or a word
//! alone; names in letters of any case and shortened.

/// What stands between name and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// `name=value`: exactly this.
    Is,
    /// `name+=value`: this too.
    Plus,
    /// `name-=value`: this no more.
    Minus,
}

/// One word taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word<'a> {
    /// The whole word, for messages.
    pub whole: &'a str,
    /// Before the sign; the whole word without one.
    pub name: &'a str,
    /// Sign and value; `None` for a word alone.
    pub value: Option<(Sign, &'a str)>,
}

impl<'a> Word<'a> {
    /// Takes a word apart.
    pub fn of(whole: &'a str) -> Self {
        let Some((name, value)) = whole.split_once('=') else {
            let value = None;
            return Self {
                whole,
                name: whole,
                value,
            };
        };
        let (name, sign) = match (name.strip_suffix('+'), name.strip_suffix('-')) {
            (Some(name), _) => (name, Sign::Plus),
            (None, Some(name)) => (name, Sign::Minus),
            (None, None) => (name, Sign::Is),
        };
        let value = Some((sign, unquoted(value)));
        Self { whole, name, value }
    }
}

/// Without the quotes around it.
pub fn unquoted(text: &str) -> &str {
    let text = text.trim();
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    text
}

/// The names of a list, without empty ones.
pub fn names(list: &str) -> Vec<String> {
    let names = list.split(',').map(unquoted).filter(|n| !n.is_empty());
    names.map(str::to_owned).collect()
}

/// Fewest letters of a shortened name.
const SHORTEST: usize = 2;

/// The meaning of a name in a table: of that name, else of the one that begins with it. Where
/// several do, the one that all others begin with is meant (`maxj` is `MaxJobs` beside
/// `MaxJobsAccrue`); without such a one the name is ambiguous and unknown.
pub fn lookup<T: Copy + PartialEq>(
    table: &[(&'static str, T)],
    name: &str,
) -> Option<(&'static str, T)> {
    let exact = table.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
    if let Some(found) = exact {
        return Some(*found);
    }
    if name.len() < SHORTEST {
        return None;
    }
    let begins = |long: &str, short: &str| {
        let start = long.get(..short.len());
        start.is_some_and(|s| s.eq_ignore_ascii_case(short))
    };
    let fitting = || table.iter().filter(|(n, _)| begins(n, name));
    let shortest = fitting().min_by_key(|(n, _)| n.len())?;
    let clear = fitting().all(|(n, what)| begins(n, shortest.0) || *what == shortest.1);
    clear.then_some(*shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_apart() {
        let check = |text, name, value| {
            let word = Word::of(text);
            assert_eq!((word.name, word.value), (name, value), "{text}");
        };
        check("physics", "physics", None);
        check("qos+=high", "qos", Some((Sign::Plus, "high")));
        check("qos-=high", "qos", Some((Sign::Minus, "high")));
        check("GrpTRES=cpu=4,mem=1", "GrpTRES", Some((Sign::Is, "cpu=4,mem=1")));
        check("qos=", "qos", Some((Sign::Is, "")));
        check("description='a b'", "description", Some((Sign::Is, "a b")));
    }

    #[test]
    fn shortened_names() {
        let table = [
            ("MaxJobs", 1),
            ("MaxJobsAccrue", 2),
            ("MaxSubmitJobs", 3),
            ("QOS", 4),
            ("QosLevel", 4),
        ];
        let check = |name, want: Option<i32>| {
            assert_eq!(lookup(&table, name).map(|f| f.1), want, "{name}");
        };
        check("maxj", Some(1));
        check("maxjobsa", Some(2));
        check("max", None);
        check("qo", Some(4));
        check("q", None);
        check("", None);
        check("maxjobsx", None);
    }
}
