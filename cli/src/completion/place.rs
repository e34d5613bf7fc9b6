//! What stands on a command line where the cursor is: an option, the value of one, a command, or
//! a word. Knows nothing of what there is to choose from.

use super::grammar::{Grammar, Kind, Opt};

/// What is wanted where the cursor is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// What stands in the word before that which is wanted: `--queue=`, `main,`.
    pub before: String,
    /// How that which is wanted begins.
    pub begun: String,
    /// What it is.
    pub kinds: Vec<Kind>,
}

/// How far a command line has been read.
struct Reader<'a> {
    grammar: &'a Grammar,
    /// Words that were neither options nor commands.
    words: usize,
    /// The option whose value is next.
    awaits: Option<&'a Kind>,
    /// No options any more: `--` was read.
    only_words: bool,
}

/// What is wanted in the place of `current`, behind the words `before`.
pub fn wanted(grammar: &Grammar, before: &[String], current: &str) -> Wanted {
    let mut reader = Reader {
        grammar,
        words: 0,
        awaits: None,
        only_words: false,
    };
    for word in before {
        reader.read(word);
    }
    reader.wanted(current)
}

impl<'a> Reader<'a> {
    fn read(&mut self, word: &str) {
        if self.awaits.take().is_some() {
            return;
        }
        if self.only_words || self.in_program() {
            self.words += 1;
        } else if word == "--" {
            self.only_words = true;
        } else if let Some(long) = word.strip_prefix("--") {
            if !long.contains('=') {
                self.awaits = self.long(long).and_then(detached);
            }
        } else if let Some((opt, rest)) = self.letters(word) {
            let detached = rest.is_empty().then(|| detached(opt)).flatten();
            self.awaits = detached;
        } else if word.starts_with('-') && word.len() > 1 {
        } else if let Some(sub) = self.command(word) {
            self.grammar = sub;
        } else {
            self.words += 1;
        }
    }

    /// Everything belongs to a program that was named.
    const fn in_program(&self) -> bool {
        self.grammar.program && self.words > 0
    }

    fn long(&self, name: &str) -> Option<&'a Opt> {
        self.grammar.options.iter().find(|opt| opt.long == name)
    }

    /// The first option in a bundle of letters that takes a value, and what follows it.
    fn letters<'w>(&self, word: &'w str) -> Option<(&'a Opt, &'w str)> {
        let letters = word.strip_prefix('-').filter(|w| !w.starts_with('-'))?;
        letters.char_indices().find_map(|(at, letter)| {
            let opt = self
                .grammar
                .options
                .iter()
                .find(|o| o.short == Some(letter))?;
            opt.value.as_ref()?;
            Some((opt, letters.get(at + letter.len_utf8()..)?))
        })
    }

    fn command(&self, word: &str) -> Option<&'a Grammar> {
        let all = self.grammar.commands.iter();
        let free = self.words == 0 && !self.only_words;
        all.filter(|_| free)
            .find(|(name, ..)| name == word)
            .map(|(.., sub)| sub)
    }

    fn wanted(&self, current: &str) -> Wanted {
        if let Some(kind) = self.awaits {
            return value("", current, kind);
        }
        if self.only_words || self.in_program() {
            return self.word(current);
        }
        if let Some((name, begun)) = current.strip_prefix("--").and_then(|l| l.split_once('=')) {
            let kind = self.long(name).and_then(|opt| opt.value.as_ref());
            return value(&format!("--{name}="), begun, kind.unwrap_or(&Kind::Free));
        }
        if let Some((opt, begun)) = self.letters(current) {
            let before = current.strip_suffix(begun).unwrap_or_default();
            return value(before, begun, opt.value.as_ref().unwrap_or(&Kind::Free));
        }
        if current.starts_with('-') {
            return value("", current, &self.options());
        }
        self.word(current)
    }

    fn options(&self) -> Kind {
        let listed = self.grammar.options.iter().filter(|o| !o.about.is_empty());
        let named = listed.filter(|o| !o.long.is_empty());
        Kind::Words(
            named
                .map(|o| (format!("--{}", o.long), o.about.clone()))
                .collect(),
        )
    }

    fn word(&self, current: &str) -> Wanted {
        let commands = &self.grammar.commands;
        if !commands.is_empty() && self.words == 0 && !self.only_words {
            let all = commands.iter();
            let all = all.map(|(name, about, _)| (name.clone(), about.clone()));
            return value("", current, &Kind::Words(all.collect()));
        }
        let kind = match (self.grammar.program, self.words, self.only_words) {
            (true, 0, true) => &Kind::Program,
            (true, 1.., _) => &Kind::File,
            _ => {
                let all = &self.grammar.words;
                all.get(self.words).or(all.last()).unwrap_or(&Kind::Free)
            }
        };
        value("", current, kind)
    }
}

fn detached(opt: &Opt) -> Option<&Kind> {
    opt.value.as_ref().filter(|_| !opt.joined)
}

/// A value of that kind; of lists the last item.
fn value(before: &str, begun: &str, kind: &Kind) -> Wanted {
    let of = |before: String, begun: &str, kinds| Wanted {
        before,
        begun: begun.to_owned(),
        kinds,
    };
    match kind {
        Kind::Pairs(names) => match begun.split_once('=') {
            Some((name, begun)) => {
                let of_name = |(known, _): &&(&str, Kind)| known.eq_ignore_ascii_case(name);
                let kind = names.iter().find(of_name).map(|(_, kind)| kind);
                value(&format!("{name}="), begun, kind.unwrap_or(&Kind::Free))
            }
            None => {
                let all = names.iter();
                let all = all.map(|(name, _)| (format!("{name}="), String::new()));
                of(before.to_owned(), begun, vec![Kind::Words(all.collect())])
            }
        },
        Kind::File | Kind::Folder | Kind::Program | Kind::Free => {
            of(before.to_owned(), begun, vec![kind.clone()])
        }
        Kind::OneOf(kinds) => of(before.to_owned(), begun, kinds.clone()),
        _ => {
            let (first, last) = begun.rsplit_once(',').unwrap_or(("", begun));
            let comma = if first.len() < begun.len() - last.len() {
                ","
            } else {
                ""
            };
            of(format!("{before}{first}{comma}"), last, vec![kind.clone()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::grammar::of_clap;
    use crate::completion::slurm_grammar;
    use crate::native::{resv, stat, submit};

    fn check_in(grammar: &Grammar, line: &str, want: (&str, &str, &Kind)) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (current, before) = words.split_last().unwrap();
        let got = wanted(grammar, before, current);
        assert_eq!((got.before.as_str(), got.begun.as_str()), (want.0, want.1), "{line}");
        assert_eq!(&got.kinds[0], want.2, "{line}");
    }

    #[test]
    fn own_commands() {
        let csub = of_clap(&submit::options::command(), "submit");
        let check = |line: &str, before: &str, begun: &str, kind: Kind| {
            check_in(&csub, line, (before, begun, &kind));
        };
        check("-q ma", "", "ma", Kind::Queue);
        check("-qma", "-q", "ma", Kind::Queue);
        check("--queue ma", "", "ma", Kind::Queue);
        check("--queue=ma", "--queue=", "ma", Kind::Queue);
        check("-Q -N 2 --reservation ", "", "", Kind::Reservation);
        check("--avoid n1,n", "n1,", "n", Kind::Node);
        check("scr", "", "scr", Kind::File);
        check("script --queue ", "", "", Kind::File);
        check("-- ec", "", "ec", Kind::Program);
        check("-- cat fi", "", "fi", Kind::File);
        check("-o fi", "", "fi", Kind::File);
        check("--bogus=x", "--bogus=", "x", Kind::Free);
        let cresv = of_clap(&resv::command(), "resv");
        check_in(&cresv, "cancel 1 ", ("", "", &Kind::Reservation));
        check_in(&cresv, "book -q ", ("", "", &Kind::Queue));
        let cstat = of_clap(&stat::command(), "stat");
        let got = wanted(&cstat, &[], "1");
        assert_eq!(got.kinds[1], Kind::Job);
        let got = wanted(&cstat, &["-s".to_owned()], "running,wa");
        assert_eq!((got.before.as_str(), got.begun.as_str()), ("running,", "wa"));
    }

    #[test]
    fn commands_of_slurm() {
        let check = |line: &str, before: &str, begun: &str, kind: Kind| {
            let (name, rest) = line.split_once(' ').unwrap();
            check_in(&slurm_grammar::of(name), rest, (before, begun, &kind));
        };
        check("sbatch -p ", "", "", Kind::Queue);
        check("sbatch --partition=a,b", "--partition=a,", "b", Kind::Queue);
        check("sbatch -N ", "", "", Kind::Free);
        check("sbatch jo", "", "jo", Kind::File);
        check("srun --reservation ", "", "", Kind::ReservationName);
        check("srun -w ", "", "", Kind::Node);
        check("srun ho", "", "ho", Kind::Program);
        check("srun --jobid=", "--jobid=", "", Kind::LiveJob);
        check("scancel 1 2", "", "2", Kind::LiveJob);
        check("sinfo -n ", "", "", Kind::Node);
        check("sacct -j ", "", "", Kind::Job);
        check("scontrol show job ", "", "", Kind::Job);
        check("scontrol show node n", "", "n", Kind::Node);
        check("scontrol show partition ", "", "", Kind::Queue);
        check("scontrol show reservation ", "", "", Kind::ReservationName);
        check("scontrol update jobid=", "jobid=", "", Kind::LiveJob);
        check("scontrol -d hold ", "", "", Kind::LiveJob);
    }
}
