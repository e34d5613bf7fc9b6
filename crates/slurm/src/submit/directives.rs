//! `#SBATCH` lines of a script, and `#PBS` lines where there are none of those.
//!
//! Options are read up to the first line that is neither empty nor a comment. Source:
//! sbatch(1), captures.

use super::Program;
use super::table;
use crate::getopt::{self, Found, Mistake, Order, Takes};
use std::ffi::OsString;

/// Begins a line of options.
const MARK: &str = "#SBATCH";
/// Begins a line of another system's options.
const PBS_MARK: &str = "#PBS";

/// The options of a script, in the order in which they stand.
///
/// # Errors
/// The first option that there is not.
pub fn read(script: &str, ignore_pbs: bool) -> Result<Vec<Found>, Mistake> {
    let options = table::options(Program::Sbatch);
    let mut found = Vec::new();
    for line in head(script).filter_map(|l| behind(l, MARK)) {
        let args: Vec<OsString> = words(line).into_iter().map(OsString::from).collect();
        let parsed = getopt::parse(&options, Order::Stop, &args);
        found.extend(parsed.found);
        if let Some(mistake) = parsed.mistake {
            return Err(mistake);
        }
    }
    if found.is_empty() && !ignore_pbs {
        for line in head(script).filter_map(|l| behind(l, PBS_MARK)) {
            found.extend(pbs(&words(line)));
        }
    }
    Ok(found)
}

/// Whether a script asks for a job of several parts, which there is not here.
pub fn has_parts(script: &str) -> bool {
    let mark = |l| behind(l, MARK).map(str::trim);
    head(script)
        .filter_map(mark)
        .any(|l| l == "hetjob" || l == "packjob")
}

/// The lines before the first command.
fn head(script: &str) -> impl Iterator<Item = &str> {
    script.lines().take_while(|line| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with('#')
    })
}

/// What stands behind the mark; the mark must begin the line and end at a blank.
fn behind<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(mark)?;
    rest.starts_with([' ', '\t']).then_some(rest)
}

/// The words of a line: separated by blanks, with quotes and backslashes as in a shell,
/// up to a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), _) if q == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                if let Some(next) = chars.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None | Some(_), _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Options of PBS that take no value.
const PBS_FLAGS: &str = "hIVXz";

/// Options of PBS that mean one of ours; others are passed over, as in the original.
fn pbs(words: &[String]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(letter) = word.strip_prefix('-').and_then(|w| w.chars().next()) else {
            continue;
        };
        let glued = &word[1 + letter.len_utf8()..];
        if letter == 'h' {
            found.push(Found {
                name: "hold",
                value: None,
            });
        }
        if PBS_FLAGS.contains(letter) {
            continue;
        }
        let value = if glued.is_empty() {
            rest.next().map(String::as_str)
        } else {
            Some(glued)
        };
        if let Some(value) = value {
            pbs_value(letter, value, &mut found);
        }
    }
    found
}

fn pbs_value(letter: char, value: &str, found: &mut Vec<Found>) {
    let mut put = |name: &'static str, value: String| {
        let value = Some(OsString::from(value));
        found.push(Found { name, value });
    };
    match letter {
        'a' => put("begin", value.to_owned()),
        'A' => put("account", value.to_owned()),
        'd' | 'w' => put("chdir", value.to_owned()),
        'e' => put("error", value.to_owned()),
        'J' | 't' => put("array", value.to_owned()),
        'm' => put("mail-type", pbs_mail(value)),
        'M' => put("mail-user", value.to_owned()),
        'N' => put("job-name", value.to_owned()),
        'o' => put("output", value.to_owned()),
        'p' => put("nice", value.to_owned()),
        'q' => put("partition", value.to_owned()),
        'r' if value == "n" => found.push(Found {
            name: "no-requeue",
            value: None,
        }),
        'v' => put("export", value.to_owned()),
        'l' => value.split(',').for_each(|item| pbs_resource(item, found)),
        _ => {}
    }
}

fn pbs_mail(value: &str) -> String {
    let one = |c: char| match c {
        'b' => Some("BEGIN"),
        'e' => Some("END"),
        'a' => Some("FAIL"),
        _ => None,
    };
    let types: Vec<&str> = value.chars().filter_map(one).collect();
    if types.is_empty() {
        "NONE".to_owned()
    } else {
        types.join(",")
    }
}

/// `nodes=2:ppn=4`, `walltime=1:00:00`, `mem=4gb`, `ncpus=3` of `-l`.
fn pbs_resource(item: &str, found: &mut Vec<Found>) {
    for (at, part) in item.split(':').enumerate() {
        let Some((name, _)) = part.split_once('=') else {
            continue;
        };
        let value = if name == "walltime" || name == "cput" {
            &item[name.len() + 1..]
        } else {
            &part[name.len() + 1..]
        };
        let ours = match name {
            "nodes" => "nodes",
            "ppn" | "mpiprocs" => "ntasks-per-node",
            "walltime" | "cput" => "time",
            "mem" | "vmem" => "mem",
            "pmem" | "pvmem" => "mem-per-cpu",
            "ncpus" => "cpus-per-task",
            "file" => "tmp",
            _ => continue,
        };
        let value = Some(OsString::from(value));
        found.push(Found { name: ours, value });
        if at == 0 && ours == "time" {
            return;
        }
    }
}

/// The option as a line, for messages.
pub fn shown(found: &Found) -> String {
    let entry = table::find(Program::Sbatch, found.name);
    match entry.map(|e| e.opt.takes) {
        Some(Takes::Value | Takes::Perhaps) if found.value.is_some() => {
            format!("--{}={}", found.name, found.text())
        }
        _ => format!("--{}", found.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(script: &str, want: &str) {
        let found = read(script, false).unwrap();
        let all: Vec<String> = found.iter().map(shown).collect();
        assert_eq!(all.join(" "), want, "{script}");
    }

    #[test]
    fn scripts() {
        check(
            "#!/bin/sh\n#SBATCH -J a\n\n# c\n#SBATCH -t 7\nls\n#SBATCH -J b\n",
            "--job-name=a --time=7",
        );
        check("#!/bin/sh\n#SBATCH -n 2   # comment\n", "--ntasks=2");
        check(
            "#SBATCH --output=\"quoted %j.txt\"\n",
            "--output=quoted %j.txt",
        );
        check("#SBATCH --comment 'a b' -H \n", "--comment=a b --hold");
        check("#SBATCH --no-requeue \n", "--no-requeue");
        check("#SBATCH --job-name=a\\ b\n", "--job-name=a b");
        check(
            "#SBATCH\n#SBATCHX -H\n ##SBATCH -H\n##SBATCH -H\n # SBATCH -H\n",
            "",
        );
        check("#SBATCH\t--array 0-9%4\n", "--array=0-9%4");
        check(
            "#SBATCH -o 'a#b' --comment=c#d #x\n",
            "--output=a#b --comment=c#d",
        );
        check("#!/bin/sh\n#SBATCH -N1 -t 1\r\n", "--nodes=1 --time=1");
    }

    #[test]
    fn other_systems() {
        check(
            "#!/bin/sh\n#PBS -N nm -q long\n#PBS -l nodes=2:ppn=4,walltime=1:00:00\n#PBS -m be -V\n",
            "--job-name=nm --partition=long --nodes=2 --ntasks-per-node=4 --time=1:00:00 --mail-type=BEGIN,END",
        );
        check("#SBATCH -H\n#PBS -N x\n", "--hold");
        assert!(read("#PBS -N x\n", true).unwrap().is_empty());
    }

    #[test]
    fn mistakes() {
        let check = |script: &str, want: &str| {
            let text = read(script, false).unwrap_err().text("sbatch");
            assert_eq!(text, want);
        };
        check(
            "#SBATCH --no-such-option\n",
            "sbatch: unrecognized option '--no-such-option'",
        );
        check("#SBATCH -Y\n", "sbatch: invalid option -- 'Y'");
        assert!(has_parts("#!/bin/sh\n#SBATCH hetjob\n"));
        assert!(!has_parts("#!/bin/sh\nls\n#SBATCH hetjob\n"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "(#SBATCH|#PBS|[-a-zN =:\"'\\\\#]{0,12}|\n){0,12}") {
            let _ = read(&text, false);
            let _ = has_parts(&text);
        }
    }
}
