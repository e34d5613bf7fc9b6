//! `#COSY` lines of a script: options that stand before its first command.

use super::options;
use crate::job_options::JobOptions;
use clap::Command;

/// Starts a line of options.
const MARK: &str = "#COSY";

/// Marks of the lines of other batch systems.
const FOREIGN: [&str; 3] = ["#SBATCH", "#PBS", "#BSUB"];

/// A note for the user that lines for another batch system have no effect; `None` without such
/// lines.
pub fn foreign(script: &str) -> Option<String> {
    let mut head = script
        .lines()
        .enumerate()
        .take_while(|(_, line)| line.is_empty() || line.starts_with('#'));
    let (at, mark) = head.find_map(|(at, line)| {
        let rest = |mark: &&&str| line.strip_prefix(**mark);
        let mark = FOREIGN.iter().find(|mark| {
            rest(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        });
        mark.map(|mark| (at + 1, *mark))
    })?;
    let instead = match mark {
        "#SBATCH" => "; sbatch reads them",
        _ => "",
    };
    Some(format!(
        "line {at} of the script begins with {mark}: such lines mean nothing to csub, which reads {MARK}{instead}"
    ))
}

/// The lines with options: number (from 1) and what follows the mark. They end at the
/// first line that is neither empty nor a comment.
fn lines(script: &str) -> impl Iterator<Item = (usize, &str)> {
    script
        .lines()
        .enumerate()
        .take_while(|(_, line)| {
            let line = line.trim_start();
            line.is_empty() || line.starts_with('#')
        })
        .filter_map(|(at, line)| {
            let rest = line.strip_prefix(MARK)?;
            (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some((at + 1, rest))
        })
}

/// Reads all options that stand in `script`, a later line over an earlier one.
///
/// # Errors
/// `FILE:LINE: what is wrong`.
pub fn read(script: &str, file: &str) -> Result<JobOptions, String> {
    let mut options = JobOptions::default();
    let mut command: Option<Command> = None;
    for (number, line) in lines(script) {
        let command = command.get_or_insert_with(options::command);
        apply(line, command, &mut options).map_err(|e| format!("{file}:{number}: {e}"))?;
    }
    Ok(options)
}

fn apply(line: &str, command: &mut Command, options: &mut JobOptions) -> Result<(), String> {
    let words = crate::shell_words::split(line)?;
    let line = std::iter::once("#COSY".to_owned()).chain(words);
    let matches = command.try_get_matches_from_mut(line).map_err(|e| {
        crate::native::arg::error_line(&e)
            .unwrap_or_else(|| "only options may stand here".to_owned())
    })?;
    if matches.contains_id("words") {
        return Err(format!("only options may stand after {MARK}"));
    }
    options.apply(&matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_lines() {
        let script = "#!/bin/sh\n#COSY -N 2\n\n  # text\n#COSYNESS\n#COSY\n#COSY\t-t 5 # why\nls\n#COSY -N 9\n";
        let got: Vec<_> = lines(script).collect();
        assert_eq!(got, [(2, " -N 2"), (6, ""), (7, "\t-t 5 # why")]);
    }

    #[test]
    fn lines_of_others() {
        let check = |script: &str, want: Option<&str>| {
            let got = foreign(script);
            assert_eq!(got.is_some(), want.is_some(), "{got:?}");
            assert!(got.unwrap_or_default().contains(want.unwrap_or_default()));
        };
        check("#!/bin/sh\n#COSY -N 1\n#SBATCH -N 2\nls\n", Some("line 3"));
        check("#!/bin/sh\n#PBS -l x\n", Some("#PBS"));
        check("#!/bin/sh\n#SBATCHING\nls\n#SBATCH -N 2\n", None);
        check("", None);
    }

    #[test]
    fn later_lines_win() {
        let script = "#!/bin/sh\n#COSY -N 2 -J 'a b'\n#COSY --nodes=3 --hold\n";
        let options = read(script, "s").unwrap();
        assert_eq!(options.nodes, Some(3));
        assert_eq!(options.name.as_deref(), Some("a b"));
        assert!(options.hold);
    }

    #[test]
    fn errors_name_file_and_line() {
        let check = |line: &str, want: &str| {
            let error = read(&format!("#!/bin/sh\n{line}\n"), "f.sh").unwrap_err();
            assert!(error.starts_with("f.sh:2: "), "{error}");
            assert!(error.contains(want), "{line}: {error}");
        };
        check("#COSY -N x", "a whole number");
        check("#COSY -J 'a", "not closed");
        check("#COSY --nonsense", "unexpected argument");
        check("#COSY run.sh", "only options");
        check("#COSY -- run.sh", "only options");
        check("#COSY -", "only options");
        check("#COSY --help", "only options");
        check("#COSY --prefer n[1-1000000000]", "100000");
        check("#COSY --mem 1G --mem-per-core 1G", "exclude");
    }
}
