//! `#SBATCH` lines of a script, and `#PBS` or `#BSUB` lines where there are none of those.
//!
//! Options are read up to the first line that is neither empty nor a comment. Source:
//! sbatch(1), captures.

use super::table;
use super::{Program, bsub};
use crate::getopt::{self, Argument, GivenOption, Order, UsageError};
use std::ffi::OsString;

/// Begins a line of options.
const MARK: &str = "#SBATCH";
/// Begins a line of another system's options.
const PBS_MARK: &str = "#PBS";
/// The same for a third one.
const BSUB_MARK: &str = "#BSUB";

/// The options of a script, in the order in which they stand.
///
/// # Errors
/// The first option that there is not.
pub fn read(script: &str, ignore_pbs: bool) -> Result<Vec<GivenOption>, UsageError> {
    let components = read_components(script, ignore_pbs)?;
    Ok(components.into_iter().next().unwrap_or_default())
}

/// The same of each component of a job: `#SBATCH hetjob` (or `packjob`) begins another one. There
/// is at least one.
///
/// # Errors
/// The first option that there is not.
pub fn read_components(
    script: &str,
    ignore_pbs: bool,
) -> Result<Vec<Vec<GivenOption>>, UsageError> {
    let options = table::options(Program::Sbatch);
    let mut before = Vec::new();
    let mut found = Vec::new();
    for line in head(script).filter_map(|l| behind(l, MARK)) {
        if matches!(line.trim(), "hetjob" | "packjob") {
            before.push(std::mem::take(&mut found));
            continue;
        }
        let args: Vec<OsString> = words(line).into_iter().map(OsString::from).collect();
        let parsed = getopt::parse(&options, Order::Stop, &args);
        found.extend(parsed.found);
        if let Some(mistake) = parsed.mistake {
            return Err(mistake);
        }
    }
    for (mark, read) in [
        (PBS_MARK, pbs as fn(&[String]) -> _),
        (BSUB_MARK, bsub::read),
    ] {
        if found.is_empty() && before.is_empty() && !ignore_pbs {
            let lines = head(script).filter_map(|l| behind(l, mark));
            found.extend(lines.flat_map(|line| read(&words(line))));
        }
    }
    before.push(found);
    Ok(before)
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
fn pbs(words: &[String]) -> Vec<GivenOption> {
    let mut found = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(letter) = word.strip_prefix('-').and_then(|w| w.chars().next()) else {
            continue;
        };
        let glued = &word[1 + letter.len_utf8()..];
        if letter == 'h' {
            found.push(GivenOption {
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

fn pbs_value(letter: char, value: &str, found: &mut Vec<GivenOption>) {
    let mut put = |name: &'static str, value: String| {
        let value = Some(OsString::from(value));
        found.push(GivenOption { name, value });
    };
    match letter {
        'a' => put("begin", value.to_owned()),
        'A' => put("account", value.to_owned()),
        'd' | 'w' => put("chdir", value.to_owned()),
        'W' => {
            if let Some(list) = value.strip_prefix("depend=") {
                put("dependency", list.to_owned());
            }
        }
        'e' => put("error", value.to_owned()),
        'J' | 't' => put("array", value.to_owned()),
        'm' => put("mail-type", pbs_mail(value)),
        'M' => put("mail-user", value.to_owned()),
        'N' => put("job-name", value.to_owned()),
        'o' => put("output", value.to_owned()),
        'p' => put("nice", value.to_owned()),
        'q' => put("partition", value.to_owned()),
        'r' if value == "n" => found.push(GivenOption {
            name: "no-requeue",
            value: None,
        }),
        'v' => put("export", value.to_owned()),
        'l' => {
            value.split(',').for_each(|item| pbs_resource(item, found));
            pbs_counts(found);
        }
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

/// What follows from several of them: nodes and tasks on each make a number of tasks, cores
/// of a node and tasks on it the cores of each.
fn pbs_counts(found: &mut Vec<GivenOption>) {
    let number = |name: &str| {
        let mut all = found.iter().filter(|f| f.name == name);
        all.next_back()?.text().parse::<u32>().ok()
    };
    let Some(on_each) = number("ntasks-per-node") else {
        return;
    };
    let tasks = number("nodes").and_then(|n| n.checked_mul(on_each));
    let cores = number("mincpus").and_then(|n| n.checked_div(on_each));
    let counts = [
        ("ntasks", tasks.filter(|_| number("ntasks").is_none())),
        ("cpus-per-task", cores.filter(|n| *n > 1 && number("cpus-per-task").is_none())),
    ];
    for (name, value) in counts {
        let value = value.map(|n| OsString::from(n.to_string()));
        found.extend(value.map(|value| GivenOption {
            name,
            value: Some(value),
        }));
    }
}

/// `nodes=2:ppn=4`, `nodes=n1+n2`, `select=2:ncpus=8:mpiprocs=2`, `walltime=1:00:00`,
/// `mem=4gb` of `-l`.
fn pbs_resource(item: &str, found: &mut Vec<GivenOption>) {
    let mut put = |name: &'static str, value: &str| {
        let value = Some(OsString::from(value));
        found.push(GivenOption { name, value });
    };
    if let Some((_, limit)) = item
        .split_once('=')
        .filter(|(name, _)| matches!(*name, "walltime" | "cput"))
    {
        return put("time", limit);
    }
    let names = item.strip_prefix("nodes=");
    let names = names.filter(|n| !n.starts_with(|c: char| c.is_ascii_digit()));
    let names = names.and_then(|n| n.split(':').next());
    if let Some(names) = names {
        put("nodelist", &names.replace('+', ","));
    }
    for (name, value) in item.split([':', '+']).filter_map(|p| p.split_once('=')) {
        let ours = match name {
            "nodes" if names.is_some() => continue,
            "nodes" | "select" => "nodes",
            "ppn" | "mpiprocs" => "ntasks-per-node",
            "mem" | "vmem" => "mem",
            "pmem" | "pvmem" => "mem-per-cpu",
            "ncpus" => "mincpus",
            "nice" => "nice",
            "file" => "tmp",
            _ => continue,
        };
        put(ours, value);
    }
}

/// The option as a line, for messages.
pub fn shown(found: &GivenOption) -> String {
    let entry = table::find(Program::Sbatch, found.name);
    match entry.map(|e| e.opt.argument) {
        Some(Argument::Value | Argument::Perhaps) if found.value.is_some() => {
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
        check("#SBATCH --output=\"quoted %j.txt\"\n", "--output=quoted %j.txt");
        check("#SBATCH --comment 'a b' -H \n", "--comment=a b --hold");
        check("#SBATCH --no-requeue \n", "--no-requeue");
        check("#SBATCH --job-name=a\\ b\n", "--job-name=a b");
        check("#SBATCH\n#SBATCHX -H\n ##SBATCH -H\n##SBATCH -H\n # SBATCH -H\n", "");
        check("#SBATCH\t--array 0-9%4\n", "--array=0-9%4");
        check("#SBATCH -o 'a#b' --comment=c#d #x\n", "--output=a#b --comment=c#d");
        check("#!/bin/sh\n#SBATCH -N1 -t 1\r\n", "--nodes=1 --time=1");
    }

    #[test]
    fn other_systems() {
        check(
            "#!/bin/sh\n#PBS -N nm -q long\n#PBS -l nodes=2:ppn=4,walltime=1:00:00\n#PBS -m be -V\n",
            "--job-name=nm --partition=long --nodes=2 --ntasks-per-node=4 --time=1:00:00 --ntasks=8 --mail-type=BEGIN,END",
        );
        check("#SBATCH -H\n#PBS -N x\n", "--hold");
        check(
            "#PBS -l nodes=3+ppn=2,mem=1gb\n",
            "--nodes=3 --ntasks-per-node=2 --mem=1gb --ntasks=6",
        );
        check(
            "#PBS -l select=2:ncpus=8:mpiprocs=2:mem=2gb,walltime=0:10:00\n#PBS -W depend=afterok:1\n",
            "--nodes=2 --mincpus=8 --ntasks-per-node=2 --mem=2gb --time=0:10:00 --ntasks=4 \
             --cpus-per-task=4 --dependency=afterok:1",
        );
        check("#PBS -l nodes=n1+n2:ppn=2\n", "--nodelist=n1,n2 --ntasks-per-node=2");
        check("#PBS -N x\n#BSUB -J y\n", "--job-name=x");
        check(
            "#BSUB -oout -eerr -m\"n1 n2\" -Jnm -M4096\n#BSUB -W5 -x -qmain\n#BSUB -I -n 4,8\n",
            "--output=out --error=err --nodelist=n1,n2 --job-name=nm --mem-per-cpu=4 \
             --time=5 --exclusive --partition=main --ntasks=4",
        );
        check(
            "#BSUB -J \"a[1-9]%2\" -W 1:30 -cwd /w -B -u me -R \"span[ptile=2]\" -P p -H\n",
            "--job-name=a --array=1-9%2 --time=1:30:00 --chdir=/w --mail-type=BEGIN \
             --mail-user=me --ntasks-per-node=2 --hold",
        );
        assert!(read("#PBS -N x\n", true).unwrap().is_empty());
    }

    #[test]
    fn mistakes() {
        let check = |script: &str, want: &str| {
            let text = read(script, false).unwrap_err().text("sbatch");
            assert_eq!(text, want);
        };
        check("#SBATCH --no-such-option\n", "sbatch: unrecognized option '--no-such-option'");
        check("#SBATCH -Y\n", "sbatch: invalid option -- 'Y'");
        let components = |script: &str| {
            let components = read_components(script, false).unwrap();
            components.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(components("#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n"), [1, 0]);
        let three = "#!/bin/sh\n#SBATCH packjob\n#SBATCH -n1 -c2\n#SBATCH  hetjob \n#SBATCH -N2\n";
        assert_eq!(components(three), [0, 2, 1]);
        assert_eq!(components("#!/bin/sh\nls\n#SBATCH hetjob\n"), [0]);
        assert_eq!(components(""), [0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "(#SBATCH|#PBS|#BSUB|[-a-zN =:\"'\\\\#]{0,12}|\n){0,12}") {
            let _ = read(&text, false);
            let _ = read_components(&text, false);
        }
    }
}
