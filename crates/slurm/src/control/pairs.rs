//! Words of the form `Name=value`, as `scontrol update` and `create` take them: names in
//! letters of any case, and shortened.

/// Fewest letters of a shortened name.
const SHORTEST: usize = 3;

/// One word taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair<'a> {
    /// The whole word, to be named in messages.
    pub word: &'a str,
    /// Before the `=`.
    pub name: &'a str,
    /// Behind it; `None` without one.
    pub value: Option<&'a str>,
}

impl<'a> Pair<'a> {
    /// Takes a word apart. `Name+=value` is `Name=+value`, as Slurm has it.
    pub fn of(word: &'a str) -> Self {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        Self { word, name, value }
    }

    /// The value; empty without one.
    pub fn text(&self) -> &'a str {
        self.value.unwrap_or_default()
    }

    /// The one of `names` that is meant.
    pub fn key<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        let exact = names.iter().find(|n| n.eq_ignore_ascii_case(self.name));
        let begins = |n: &&&str| {
            self.name.len() >= SHORTEST
                && n.get(..self.name.len())
                    .is_some_and(|n| n.eq_ignore_ascii_case(self.name))
        };
        exact.or_else(|| names.iter().find(begins)).copied()
    }
}

/// The words as pairs: the value of a name without `=` is the next word. Those of `alone` need
/// none.
pub fn pairs<'a>(words: &'a [String], alone: &[&str]) -> Vec<Pair<'a>> {
    let mut words = words.iter();
    let mut all = Vec::with_capacity(words.len());
    while let Some(word) = words.next() {
        let mut pair = Pair::of(word);
        if pair.value.is_none() && pair.key(alone).is_none() {
            pair.value = words.next().map(String::as_str);
        }
        all.push(pair);
    }
    all
}

/// What an update is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// `JobId=`, `JobName=`: one job or several.
    Job,
    /// Steps of a job.
    Step,
    /// `NodeName=`: a host list.
    Node,
    /// `PartitionName=`: one partition by name.
    Partition,
    /// `ReservationName=` or `Reservation=`: one reservation by name or id.
    Reservation,
}

/// The words that say what is updated, the first that is there counts.
const SUBJECTS: [(&str, Subject); 7] = [
    ("NodeName", Subject::Node),
    ("JobId", Subject::Job),
    ("StepId", Subject::Step),
    ("ReservationName", Subject::Reservation),
    ("PartitionName", Subject::Partition),
    ("JobName", Subject::Job),
    ("Name", Subject::Job),
];

/// What these words update. A job may be given another partition or reservation, so that
/// its own word counts more than theirs.
pub fn subject(words: &[String]) -> Option<Subject> {
    let has = |wanted: &str| {
        let is = |word: &String| Pair::of(word).key(&[wanted]).is_some();
        words.iter().any(is)
    };
    let found = SUBJECTS.iter().find(|(word, _)| has(word));
    found.map(|(_, subject)| *subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |word: &str, want: Option<&str>, value: &str| {
            let pair = Pair::of(word);
            let names = ["TimeLimit", "TimeMin", "Nice"];
            assert_eq!((pair.key(&names), pair.text()), (want, value), "{word}");
        };
        check("timelimit=5", Some("TimeLimit"), "5");
        check("TIME=5", Some("TimeLimit"), "5");
        check("timem=a=b", Some("TimeMin"), "a=b");
        check("Nice", Some("Nice"), "");
        check("Ti=5", None, "5");
        check("é=1", None, "1");
        check("Foo=1", None, "1");
    }

    #[test]
    fn values_as_words_of_their_own() {
        let check = |line: &str, want: &[(&str, Option<&str>)]| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let got = pairs(&words, &["Nice"]);
            let got: Vec<_> = got.iter().map(|p| (p.name, p.value)).collect();
            assert_eq!(got, want, "{line}");
        };
        check("a=1 b=2", &[("a", Some("1")), ("b", Some("2"))]);
        check("a 1 nice b=2", &[("a", Some("1")), ("nice", None), ("b", Some("2"))]);
        check("a=1 b", &[("a", Some("1")), ("b", None)]);
    }

    #[test]
    fn subjects() {
        let check = |line: &str, want| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(subject(&words), want, "{line}");
        };
        check("jobid=5 partitionname=x", Some(Subject::Job));
        check("job=5 reservationname=x", Some(Subject::Job));
        check("nodename=n1 state=idle", Some(Subject::Node));
        check("PartitionName=x State=UP", Some(Subject::Partition));
        check("Reservation=r duration=5", Some(Subject::Reservation));
        check("stepid=5.0 TimeLimit=5", Some(Subject::Step));
        check("TimeLimit=5", None);
    }
}
